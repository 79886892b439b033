/* SPDX-License-Identifier: MIT */
#include "decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "keys.h"

/* A call's price is paid once for as many events; Redis serves nobody else meanwhile (under a millisecond).
 */
#define EVENTS_A_CALL 64
#define EVENTS_A_PIPELINE 256
#define KEYS_AN_EVENT 6

struct decider {
    const struct config *cfg;
    struct redis *redis;
    struct redis_command command;
    struct buf thresholds;
};

struct decider *decider_new(const struct config *cfg, struct redis *redis) {
    struct decider *d = mem_zero(1, sizeof *d);
    d->cfg = cfg;
    d->redis = redis;
    decide_thresholds_text(&d->thresholds, cfg);
    return d;
}

void decider_free(struct decider *d) {
    if (!d)
        return;
    redis_command_free(&d->command);
    buf_free(&d->thresholds);
    free(d);
}

void decide_thresholds_text(struct buf *out, const struct config *cfg) {
    for (size_t i = 0; i < cfg->threshold_count; i++)
        buf_printf(out, "%s%d", i ? "," : "", cfg->thresholds[i]);
}

void decide_cuts_text(struct buf *out, const struct config *cfg, int64_t total) {
    for (size_t i = 0; i < cfg->threshold_count; i++) {
        int64_t n = cfg->thresholds[i];
        /* floor(total * n / 100) without passing 64 bits */
        buf_printf(out, "%s%lld:%lld", i ? " " : "", (long long)n,
                   (long long)(total / 100 * n + total % 100 * n / 100));
    }
}

static void append_keys(struct redis_command *a, const struct usage_event *u) {
    key_info(redis_command_arg(a), u->family_id, u->month);
    key_remaining(redis_command_arg(a), u->family_id, u->month);
    key_members(redis_command_arg(a), u->family_id);
    key_usage(redis_command_arg(a), u->family_id, u->customer_id, u->month);
    key_constraints(redis_command_arg(a), u->family_id, u->customer_id);
    key_dedup(redis_command_arg(a), u->id);
}

static void append_values(struct redis_command *a, const struct batch_event *e) {
    const struct usage_event *u = &e->usage;
    buf_i64(redis_command_arg(a), u->family_id);
    buf_i64(redis_command_arg(a), u->customer_id);
    buf_i64(redis_command_arg(a), u->bytes_used);
    buf_percent(redis_command_arg(a), u->app, strlen(u->app));
    char hhmm[4] = {(char)('0' + u->hhmm / 1000), (char)('0' + u->hhmm / 100 % 10),
                    (char)('0' + u->hhmm / 10 % 10), (char)('0' + u->hhmm % 10)};
    buf_append(redis_command_arg(a), hhmm, sizeof hhmm);
    buf_char(redis_command_arg(a), e->looked_up ? '1' : '0');
}

/* One call for n events. */
static void append_command(struct decider *d, const struct batch *b, const size_t *indexes, size_t n,
                           int64_t oldest) {
    struct redis_command *a = &d->command;
    redis_command_reset(a);
    buf_str(redis_command_arg(a), "EVALSHA");
    buf_str(redis_command_arg(a), redis_script_sha(d->redis, REDIS_SCRIPT_DECIDE));
    buf_i64(redis_command_arg(a), KEYS_AN_EVENT * (int64_t)n);
    for (size_t i = 0; i < n; i++)
        append_keys(a, &b->events[indexes[i]].usage);
    buf_i64(redis_command_arg(a), oldest);
    buf_i64(redis_command_arg(a), d->cfg->dedup_ttl_seconds);
    buf_str(redis_command_arg(a), buf_cstr(&d->thresholds));
    for (size_t i = 0; i < n; i++)
        append_values(a, &b->events[indexes[i]]);
    redis_append(d->redis, a);
}

static bool parse_status(const char *word, struct decision *out) {
    static const struct {
        const char *name;
        enum decision_status status;
    } names[] = {
        {"NORMAL", STATUS_NORMAL},
        {"MANUAL", STATUS_MANUAL},
        {"APP_BLOCK", STATUS_APP_BLOCK},
        {"TIME_BLOCK", STATUS_TIME_BLOCK},
        {"MONTHLY_LIMIT_EXCEEDED", STATUS_MONTHLY_LIMIT_EXCEEDED},
        {"FAMILY_QUOTA_EXCEEDED", STATUS_FAMILY_QUOTA_EXCEEDED},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(word, names[i].name) == 0) {
            out->status = names[i].status;
            return true;
        }
    }
    out->status = STATUS_WARNING;
    return sscanf(word, "WARNING_%d", &out->threshold) == 1;
}

/* Reads a decimal number and the space or end behind it. */
static bool take_number(const char **s, int64_t *out) {
    char *end;
    *out = strtoll(*s, &end, 10);
    if (end == *s || (*end != ' ' && *end != '\0'))
        return false;
    *s = *end ? end + 1 : end;
    return true;
}

bool decide_parse_reply(const char *text, size_t len, struct decision *out) {
    char word[40];
    const char *space = memchr(text, ' ', len);
    if (!space || (size_t)(space - text) >= sizeof word)
        return false;
    memcpy(word, text, (size_t)(space - text));
    word[space - text] = '\0';
    *out = (struct decision){0};
    if (!parse_status(word, out))
        return false;
    const char *s = space + 1;
    int64_t total_used, notify, duplicate, allowed;
    if (!take_number(&s, &total_used) || !take_number(&s, &out->remaining_bytes) ||
        !take_number(&s, &out->monthly_used_bytes) || !take_number(&s, &out->monthly_limit_bytes))
        return false;
    const char *ratio = strchr(s, ' ');
    if (!ratio)
        return false;
    s = ratio + 1;
    if (!take_number(&s, &notify) || !take_number(&s, &duplicate) || !take_number(&s, &out->total_bytes) ||
        !take_number(&s, &allowed) || total_used != out->total_bytes - out->remaining_bytes)
        return false;
    out->should_notify = notify == 1;
    out->duplicate = duplicate == 1;
    out->allowed = allowed == 1;
    return out->allowed == (out->status == STATUS_NORMAL || out->status == STATUS_WARNING);
}

/* The lowest threshold that is reached, 0 for none. Exact: 2^53 * 100 is within 64 bits. */
static int reached_threshold(const struct config *cfg, int64_t total, int64_t remaining) {
    for (size_t i = 0; i < cfg->threshold_count; i++) {
        if (remaining * 100 <= total * cfg->thresholds[i])
            return cfg->thresholds[i];
    }
    return 0;
}

bool decide_is_consistent(const struct config *cfg, const struct usage_event *u, const struct decision *d) {
    if (d->total_bytes < 0 || d->total_bytes > EVENT_AMOUNT_MAX || d->remaining_bytes > d->total_bytes ||
        d->remaining_bytes < -EVENT_AMOUNT_MAX || d->monthly_used_bytes < (d->allowed ? u->bytes_used : 0))
        return false;
    if (d->allowed)
        return d->remaining_bytes >= 0 &&
               (d->monthly_limit_bytes < 0 || d->monthly_used_bytes <= d->monthly_limit_bytes) &&
               d->threshold == reached_threshold(cfg, d->total_bytes, d->remaining_bytes);
    if (d->status == STATUS_FAMILY_QUOTA_EXCEEDED)
        return d->remaining_bytes < u->bytes_used;
    if (d->status == STATUS_MONTHLY_LIMIT_EXCEEDED)
        return d->monthly_limit_bytes >= 0 && d->monthly_used_bytes > d->monthly_limit_bytes - u->bytes_used;
    return d->status != STATUS_APP_BLOCK || u->has_app || d->duplicate; /* a repeat may name another app */
}

struct run {
    const struct config *cfg;
    struct batch *batch;
    const size_t *indexes;
    enum decide_answer *answers;
    size_t n;    /* events in all */
    size_t next; /* the first event of the next reply */
    bool no_script;
};

static enum decide_answer read_answer(const struct config *cfg, const char *text, struct batch_event *e) {
    e->decided = false;
    if (!text || strcmp(text, "COLD") == 0)
        return DECIDE_COLD;
    if (strcmp(text, "NOT_MEMBER") == 0)
        return DECIDE_NOT_MEMBER;
    if (strcmp(text, "KNOWN") == 0)
        return DECIDE_KNOWN;
    if (strcmp(text, "UNREADABLE") == 0)
        return DECIDE_UNREADABLE;
    if (!decide_parse_reply(text, strlen(text), &e->decision) ||
        !decide_is_consistent(cfg, &e->usage, &e->decision))
        return DECIDE_COLD; /* somebody else wrote into the keys: where warming starts a new generation it
                               doesn't count */
    e->decided = true;
    return DECIDE_DONE;
}

static size_t call_size(size_t n, size_t from) {
    return n - from < EVENTS_A_CALL ? n - from : EVENTS_A_CALL;
}

static void on_reply(void *ctx, size_t i, const struct redis_reply_view *v) {
    struct run *run = ctx;
    (void)i;
    size_t size = call_size(run->n, run->next);
    bool whole = v->kind == REDIS_LIST && v->count == size;
    for (size_t k = 0; k < size; k++, run->next++)
        run->answers[run->next] =
            read_answer(run->cfg, whole ? v->items[k] : NULL, &run->batch->events[run->indexes[run->next]]);
    if (v->kind == REDIS_NO_SCRIPT)
        run->no_script = true;
}

/* An error reply in one pipeline with another under way: the replies of that one must not be taken for later
 * ones. */
static bool give_up(struct decider *d) {
    redis_close(d->redis);
    return false;
}

bool decider_run(struct decider *d, struct batch *b, const size_t *indexes, size_t n, int64_t now_s,
                 enum decide_answer *answers, struct error *err) {
    struct run run = {.cfg = d->cfg, .batch = b, .indexes = indexes, .answers = answers, .n = n};
    fault_at("decide.run");
    if (!redis_ensure(d->redis, err))
        return false;
    /* One pipeline is under way while the next one is built. */
    size_t built = 0, sent = 0, under_way = 0;
    while (built < n) {
        size_t size = call_size(n, built);
        append_command(d, b, indexes + built, size, now_s - d->cfg->cache_max_age_seconds);
        built += size;
        if (built < n && built - sent < EVENTS_A_PIPELINE &&
            redis_pending_bytes(d->redis) < REDIS_PIPELINE_BYTES)
            continue;
        if (!redis_send(d->redis, err))
            return false;
        sent = built;
        if (under_way++ && !redis_collect_sent(d->redis, on_reply, &run, err))
            return give_up(d);
    }
    if (under_way && !redis_collect_sent(d->redis, on_reply, &run, err))
        return false;
    fault_at("decide.ran");
    return !run.no_script || redis_load_scripts(d->redis, err);
}
