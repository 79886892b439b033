/* SPDX-License-Identifier: MIT */
#include "decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "keys.h"

#define FIXED_KEYS 6
#define BLOCK_ALERTS 4 /* MANUAL, TIME_BLOCK, MONTHLY_LIMIT_EXCEEDED, FAMILY_QUOTA_EXCEEDED */

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

static void append_keys(struct redis_command *a, const struct decider *d, const struct usage_event *u) {
    key_info(redis_command_arg(a), u->family_id, u->month);
    key_remaining(redis_command_arg(a), u->family_id, u->month);
    key_members(redis_command_arg(a), u->family_id);
    key_usage(redis_command_arg(a), u->family_id, u->customer_id, u->month);
    key_constraints(redis_command_arg(a), u->family_id, u->customer_id);
    key_dedup(redis_command_arg(a), u->id);
    char kind[24];
    for (size_t i = 0; i < d->cfg->threshold_count; i++) {
        snprintf(kind, sizeof kind, "THRESHOLD:%d", d->cfg->thresholds[i]);
        key_alert(redis_command_arg(a), u->family_id, u->customer_id, kind, u->month);
    }
    static const char *const blocks[BLOCK_ALERTS] = {"MANUAL", "TIME_BLOCK", "MONTHLY_LIMIT_EXCEEDED",
                                                     "FAMILY_QUOTA_EXCEEDED"};
    for (int i = 0; i < BLOCK_ALERTS; i++)
        key_alert(redis_command_arg(a), u->family_id, u->customer_id, blocks[i], u->month);
    if (u->has_app) {
        struct buf app = {0};
        buf_str(&app, "APP_BLOCK:");
        buf_percent(&app, u->app, strlen(u->app));
        key_alert(redis_command_arg(a), u->family_id, u->customer_id, buf_cstr(&app), u->month);
        buf_free(&app);
    }
}

static void append_command(struct decider *d, const struct batch_event *e, int64_t oldest) {
    const struct usage_event *u = &e->usage;
    struct redis_command *a = &d->command;
    redis_command_reset(a);
    buf_str(redis_command_arg(a), "EVALSHA");
    buf_str(redis_command_arg(a), redis_script_sha(d->redis, REDIS_SCRIPT_DECIDE));
    buf_i64(redis_command_arg(a),
            FIXED_KEYS + (int64_t)d->cfg->threshold_count + BLOCK_ALERTS + (u->has_app ? 1 : 0));
    append_keys(a, d, u);
    buf_i64(redis_command_arg(a), u->family_id);
    buf_i64(redis_command_arg(a), u->customer_id);
    buf_i64(redis_command_arg(a), u->bytes_used);
    buf_percent(redis_command_arg(a), u->app, strlen(u->app));
    buf_printf(redis_command_arg(a), "%04d", u->hhmm);
    buf_i64(redis_command_arg(a), oldest);
    buf_i64(redis_command_arg(a), d->cfg->dedup_ttl_seconds);
    buf_str(redis_command_arg(a), buf_cstr(&d->thresholds));
    buf_i64(redis_command_arg(a), (int64_t)d->cfg->threshold_count);
    buf_str(redis_command_arg(a), e->looked_up ? "1" : "0");
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
    size_t base; /* index of the pipeline's first event */
    bool no_script;
};

static void on_reply(void *ctx, size_t i, const struct redis_reply_view *v) {
    struct run *run = ctx;
    enum decide_answer *answer = &run->answers[run->base + i];
    struct batch_event *e = &run->batch->events[run->indexes[run->base + i]];
    e->decided = false;
    *answer = DECIDE_COLD;
    if (v->kind == REDIS_NO_SCRIPT)
        run->no_script = true;
    if (v->kind != REDIS_TEXT || strcmp(v->text, "COLD") == 0)
        return;
    if (strcmp(v->text, "NOT_MEMBER") == 0)
        *answer = DECIDE_NOT_MEMBER;
    else if (strcmp(v->text, "KNOWN") == 0)
        *answer = DECIDE_KNOWN;
    else if (strcmp(v->text, "UNREADABLE") == 0)
        *answer = DECIDE_UNREADABLE;
    else if (decide_parse_reply(v->text, v->len, &e->decision) &&
             decide_is_consistent(run->cfg, &e->usage, &e->decision)) {
        e->decided = true;
        *answer = DECIDE_DONE;
    } /* else somebody else wrote into the keys: warming starts a new generation, where it doesn't count */
}

/* An error reply in one pipeline with another under way: the replies of that one must not be taken for later
 * ones. */
static bool give_up(struct decider *d) {
    redis_close(d->redis);
    return false;
}

bool decider_run(struct decider *d, struct batch *b, const size_t *indexes, size_t n, int64_t now_s,
                 enum decide_answer *answers, struct error *err) {
    struct run run = {.cfg = d->cfg, .batch = b, .indexes = indexes, .answers = answers};
    fault_at("decide.run");
    if (!redis_ensure(d->redis, err))
        return false;
    /* One pipeline is under way while the next one is built. */
    size_t sent_from = 0, sent_to = 0;
    for (size_t i = 0; i < n; i++) {
        append_command(d, &b->events[indexes[i]], now_s - d->cfg->cache_max_age_seconds);
        bool full = redis_pending_commands(d->redis) >= REDIS_PIPELINE_COMMANDS ||
                    redis_pending_bytes(d->redis) >= REDIS_PIPELINE_BYTES;
        if (!full && i + 1 < n)
            continue;
        if (!redis_send(d->redis, err))
            return false;
        run.base = sent_from;
        if (sent_to > sent_from && !redis_collect_sent(d->redis, on_reply, &run, err))
            return give_up(d);
        sent_from = sent_to;
        sent_to = i + 1;
    }
    run.base = sent_from;
    if (n && !redis_collect_sent(d->redis, on_reply, &run, err))
        return false;
    fault_at("decide.ran");
    return !run.no_script || redis_load_scripts(d->redis, err);
}
