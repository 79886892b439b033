/* SPDX-License-Identifier: MIT */
#include "model_make.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model_draft.h"
#include "model_state.h"
#include "model_world.h"
#include "scenario_base.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))
#define DAY_MS INT64_C(86400000)
#define MINUTE_MS INT64_C(60000)
#define MEMBERS_MAX 6
#define REFUSED 666
#define ANYWHERE (-1)

enum kind {
    FAMILY_PLAIN,
    FAMILY_CALM,   /* so much quota that the order of its events decides nothing */
    FAMILY_CARRY,  /* its months take over the total of an earlier one */
    FAMILY_LATER,  /* unknown until a later phase */
    FAMILY_LIMITED /* its quota is without end or none, or no number of the contract */
};

struct family {
    int64_t id;
    enum kind kind;
    int64_t members[MEMBERS_MAX];
    int count;
    bool there;
    bool strict;    /* never on two partitions of one phase, whatever comes again */
    bool changed;   /* since the population was written */
    int home;       /* the partition that decides it in this phase */
    int home_style; /* 0: by key; 1: no key; 2: other keys; 3: its key, but elsewhere */
};

/* A usage event that was written, to come again. */
struct past {
    struct buf value;
    char *id;
    int64_t ts;
    size_t family; /* in families */
    bool stamped;  /* it says its own time */
};

struct maker {
    const struct model_size *size;
    const char *dir;
    struct model_dice dice;
    struct model *model;
    struct family *families;
    size_t family_count;
    struct past *pasts;
    size_t past_count;
    json_t *ids;   /* id → where it lies in this phase; ANYWHERE: on several partitions */
    json_t *used;  /* ids that were written at all */
    json_t *since; /* id → the phase in which it was decided */
    json_t *kinds; /* what became of the records: a code, a reason, a status → how often */
    json_t *warm;  /* families to be warmed before this phase */
    FILE *changes, *sql, *records;
    int phase;
    int64_t index;
    int64_t numbers; /* of events */
    int64_t rules;   /* their ids */
    int month;       /* of base_ms */
};

static const char *const apps[] = {"com.youtube.app", "com.tiktok", "x:{y}", "한국 앱", "a b%c", "emoji😀",
                                   "quo\"te\\back",   "a/b",        "UPPER", "upper",   "0",     "%41",
                                   "APP_BLOCK:x",     "-._~",       "ü"};
static const int64_t totals[] = {0,
                                 1,
                                 7,
                                 100,
                                 1000,
                                 12345,
                                 1000000,
                                 1000000,
                                 1000003,
                                 1000000000,
                                 1000000000,
                                 5368709120,
                                 5368709120,
                                 4503599627370497,
                                 MODEL_AMOUNT_MAX - 1,
                                 MODEL_AMOUNT_MAX};

static int64_t draw(struct maker *m, int64_t n) {
    return dice(&m->dice, n);
}

static bool percent(struct maker *m, int n) {
    return dice_percent(&m->dice, n);
}

/* An app's name of 100 bytes is drawn too. New. */
static char *app_drawn(struct maker *m) {
    if (percent(m, 4)) {
        char *longest = mem_zero(1, 101);
        for (int i = 0; i < 50; i++)
            memcpy(longest + 2 * i, "ü", 2);
        return longest;
    }
    return mem_strdup(apps[draw(m, percent(m, 60) ? 4 : COUNT(apps))]);
}

/* ---- what others change ---- */

__attribute__((format(printf, 2, 3))) static void change(struct maker *m, const char *fmt, ...) {
    char *line = NULL;
    va_list ap;
    va_start(ap, fmt);
    int len = vasprintf(&line, fmt, ap);
    va_end(ap);
    if (len < 0)
        sc_die("out of memory");
    struct buf sql = {0};
    model_world_sql(line, &sql);
    fwrite(sql.data, 1, sql.len, m->sql);
    fprintf(m->changes, "%s\n", line);
    model_change(m->model, line);
    buf_free(&sql);
    free(line);
}

static void quota_set(struct maker *m, const struct family *f, int month, int64_t total) {
    char date[16];
    model_month_date(month, date);
    change(m, "quota %ld %.7s %ld", f->id, date, total);
}

static char *time_rule(struct maker *m) {
    int64_t from = draw(m, 24) * 60 + (percent(m, 50) ? 0 : draw(m, 60));
    int64_t to = percent(m, 8) ? from : (from + 30 + draw(m, 600)) % 1440;
    if (percent(m, 70))
        return draft_format("{\"start\":\"%02ld:%02ld\",\"end\":\"%02ld:%02ld\"}", from / 60, from % 60,
                            to / 60, to % 60);
    return draft_format("{ \"end\" : \"%02ld%02ld\", \"start\" : \"%02ld%02ld\" }", to / 60, to % 60,
                        from / 60, from % 60);
}

static char *apps_rule(struct maker *m) {
    struct buf text = {0};
    buf_str(&text, "{\"blockedApps\":[");
    for (int64_t i = 0, n = draw(m, 4); i < n; i++) {
        char *app = app_drawn(m), *padded = draft_format(percent(m, 20) ? "%s" : " \t%s ", app);
        char *json = draft_text(&m->dice, padded);
        buf_printf(&text, "%s%s", i ? "," : "", json);
        free(json);
        free(padded);
        free(app);
    }
    buf_str(&text, "]}");
    return text.data;
}

static char *limit_rule(struct maker *m, int64_t total) {
    static const int64_t limits[] = {0, 1, 500, 5000, 300000, 50000000, MODEL_AMOUNT_MAX};
    int64_t limit =
        percent(m, 60) && total > 3 ? total / 2 - draw(m, total / 3) : limits[draw(m, COUNT(limits))];
    return draft_format(percent(m, 70) ? "{\"limitBytes\":%ld}" : "{\"limitBytes\":\"%ld\",\"unit\":1.5}",
                        limit);
}

static char *unreadable_rule(struct maker *m) {
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "\"text\"",
        "{\"limitBytes\":1.5,\"start\":\"24:00\",\"end\":\"07:00\",\"blockedApps\":{}}",
        "{\"limitBytes\":-1,\"start\":\"9:00\",\"end\":\"07:00\",\"blockedApps\":[1]}",
        "{\"limitBytes\":9007199254740992,\"start\":\"22:60\",\"end\":\"07:00\"}",
        "{\"limitBytes\":\"05\",\"start\":2200,\"end\":\"0700\",\"blockedApps\":\"a\"}"};
    return mem_strdup(texts[draw(m, COUNT(texts))]);
}

static void rule_add(struct maker *m, const struct family *f, int64_t total) {
    static const char *const types[] = {"TIME_BLOCK", "APP_BLOCK", "MONTHLY_LIMIT", "MANUAL_BLOCK"};
    int64_t type = draw(m, 100) < 12 ? 3 : draw(m, 3);
    bool own = type == 3 ? percent(m, 85) : percent(m, 50);
    int64_t customer = own ? f->members[draw(m, f->count)] : MODEL_EVERYBODY;
    char *text = percent(m, 4) && (type != 3) ? unreadable_rule(m)
                 : type == 0                  ? time_rule(m)
                 : type == 1                  ? apps_rule(m)
                 : type == 2                  ? limit_rule(m, total)
                                              : mem_strdup("{\"reason\":\"lost 'phone' \\\\ 분실\"}");
    change(m, "rule %ld %ld %ld %s %d %ld %s", ++m->rules, f->id, customer,
           percent(m, 1) ? "NO_SUCH_BLOCK" : types[type], percent(m, 85),
           m->size->base_ms - (1 + draw(m, 40)) * DAY_MS, text);
    free(text);
}

/* ---- the population ---- */

static void quotas_add(struct maker *m, struct family *f, int64_t total) {
    static const int64_t strange[] = {MODEL_AMOUNT_MAX + 1, INT64_MAX};
    if (f->kind == FAMILY_CARRY) {
        quota_set(m, f, m->month - 1 - (int)draw(m, 3), total);
        if (percent(m, 30))
            quota_set(m, f, m->month - 5, total / 2);
        return;
    }
    if (f->kind == FAMILY_LIMITED && percent(m, 50)) {
        if (percent(m, 60))
            quota_set(m, f, m->month, strange[draw(m, 2)]);
        return;
    }
    for (int month = m->month - 4; month <= m->month + 1; month++)
        quota_set(m, f, month,
                  f->kind == FAMILY_CALM || percent(m, 60) ? total : totals[draw(m, COUNT(totals))]);
}

static void family_add(struct maker *m, struct family *f) {
    static const char *const names[] = {"Kim", "O'Neill", "back\\slash", "가족", "😀", "a b", "\"quoted\""};
    int64_t total = f->kind == FAMILY_CALM ? MODEL_AMOUNT_MAX : totals[draw(m, COUNT(totals))];
    change(m, "family %ld %s", f->id, names[draw(m, COUNT(names))]);
    for (int i = 0; i < f->count; i++)
        change(m, "member %ld %ld", f->id, f->members[i]);
    quotas_add(m, f, total);
    int64_t rules = f->kind == FAMILY_CALM || percent(m, 40) ? 0 : 1 + draw(m, 5);
    for (int64_t i = 0; i < rules; i++)
        rule_add(m, f, total);
    f->there = true;
}

static void family_draw(struct maker *m, size_t i) {
    struct family *f = &m->families[i];
    f->id = i == 3 ? 1 : i == 4 ? MODEL_AMOUNT_MAX : 100000 + (int64_t)i * 7;
    f->kind = i == 0         ? FAMILY_PLAIN
              : i % 8 == 1   ? FAMILY_CALM
              : i % 8 == 2   ? FAMILY_CARRY
              : i % 16 == 7  ? FAMILY_LATER
              : i % 16 == 15 ? FAMILY_LIMITED
                             : FAMILY_PLAIN;
    f->strict = i % 2 == 0;
    f->count = 1 + (int)draw(m, MEMBERS_MAX);
    int64_t first = i == 5 ? 1 : i == 6 ? MODEL_AMOUNT_MAX - MEMBERS_MAX : 200000 + (int64_t)i * 10;
    for (int c = 0; c < f->count; c++)
        f->members[c] =
            first + c + (first > 200000 && i != 6 && c == 5 ? 4 : 0); /* the last one is in two families */
}

/* ---- where a record goes ---- */

static int partition_of_key(const struct maker *m, const char *key, size_t len) {
    return rd_kafka_msg_partitioner_murmur2(NULL, key, len, m->size->partitions, NULL, NULL);
}

static void homes_draw(struct maker *m) {
    for (size_t i = 0; i < m->family_count; i++) {
        struct family *f = &m->families[i];
        char key[24];
        int len = snprintf(key, sizeof key, "%ld", f->id);
        f->home_style = percent(m, 75) ? 0 : 1 + (int)draw(m, 3);
        f->home = f->home_style ? (int)draw(m, m->size->partitions) : partition_of_key(m, key, (size_t)len);
    }
}

static struct sc_header header(const char *name, const char *value, size_t len) {
    return (struct sc_header){(char *)(uintptr_t)name, (char *)(uintptr_t)value, len};
}

#define HEADERS_MAX 12
static size_t headers_draw(struct maker *m, struct sc_header *out, const char *number) {
    static const char bytes[] = {0, (char)0xff, 'x'};
    size_t n = 0;
    out[n++] = header(MODEL_HEADER, number, strlen(number));
    if (percent(m, 15)) {
        out[n++] = header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 55);
        out[n++] = header("bytes", bytes, sizeof bytes);
        out[n++] = header("twice", "1", 1);
        out[n++] = header("null", NULL, 0);
        out[n++] = header("twice", "", 0);
    }
    if (percent(m, 5)) { /* as if it had been redriven */
        out[n++] = header("x-error-code", "INVALID_FIELD", 13);
        out[n++] = header("x-original-offset", "4711", 4);
        out[n++] = header("x-error-message", "an older one", 12);
    }
    return n;
}

static void kind_note(struct maker *m, const struct model_verdict *v) {
    char kind[40];
    const struct model_decision *last =
        m->model->decisions.count
            ? MODEL_AT(m->model->decisions, struct model_decision, m->model->decisions.count - 1)
            : NULL;
    if (v->outcome == MODEL_REJECTED)
        snprintf(kind, sizeof kind, "%s", v->code);
    else if (v->outcome == MODEL_BLOCKED)
        snprintf(kind, sizeof kind, "%s", last ? last->reason : "");
    else if (v->outcome == MODEL_SETTLED && last && last->threshold)
        snprintf(kind, sizeof kind, "WARNING_%d", last->threshold);
    else
        snprintf(kind, sizeof kind, "%s",
                 v->outcome == MODEL_SETTLED ? "NORMAL" : model_outcome_name(v->outcome));
    sc_map_set(m->kinds, kind, sc_map_get(m->kinds, kind, 0) + 1);
}

/* Writes a record and lets the model take it. */
static struct model_verdict emit(struct maker *m, int partition, const char *key, int64_t ts,
                                 const struct buf *value) {
    char number[32];
    struct sc_header headers[HEADERS_MAX];
    snprintf(number, sizeof number, "%d/%ld", m->phase, m->index);
    struct sc_record r = {.partition = partition,
                          .offset = m->index++,
                          .timestamp_ms = ts,
                          .key = (char *)(uintptr_t)key,
                          .key_len = key ? strlen(key) : 0,
                          .value = value ? (char *)(uintptr_t)buf_cstr(value) : NULL,
                          .value_len = value ? value->len : 0,
                          .headers = headers};
    r.header_count = headers_draw(m, headers, number);
    model_record_write(m->records, &r);
    struct model_verdict v = model_take(m->model, r.value, r.value_len, ts, (size_t)m->index);
    kind_note(m, &v);
    return v;
}

/* On a given partition, under some key; ANYWHERE draws one. */
static struct model_verdict emit_at(struct maker *m, int partition, const struct family *f, int64_t ts,
                                    const struct buf *value) {
    char key[40];
    int64_t style = draw(m, 4);
    if (partition == ANYWHERE)
        partition = (int)draw(m, m->size->partitions);
    snprintf(key, sizeof key, style == 1 ? "family-%ld" : "%ld", style == 2 ? f->id + 1 : f->id);
    return emit(m, partition, style == 0 ? NULL : key, ts, value);
}

/* Where its family is decided in this phase. */
static struct model_verdict emit_home(struct maker *m, const struct family *f, int64_t ts,
                                      const struct buf *value) {
    char key[40];
    snprintf(key, sizeof key, f->home_style == 2 && percent(m, 50) ? "other-%ld" : "%ld", f->id);
    if (f->home_style == 0)
        return emit(m, -1, key, ts, value);
    return emit(m, f->home, f->home_style == 1 ? NULL : key, ts, value);
}

/* Only what was decided before this phase may lie anywhere; else where the id lies already, or at home. */
static int place_for(const struct maker *m, const char *id, const struct family *f) {
    if (sc_map_get(m->since, id, m->phase) < m->phase)
        return f->strict ? f->home : ANYWHERE;
    return (int)sc_map_get(m->ids, id, f->home);
}

static void past_add(struct maker *m, const char *id, size_t family, int64_t ts, const struct buf *value,
                     bool stamped) {
    if ((m->past_count & (m->past_count - 1)) == 0)
        m->pasts = mem_realloc(m->pasts, (2 * m->past_count + 1) * sizeof *m->pasts);
    struct past *p = &m->pasts[m->past_count++];
    *p = (struct past){.id = mem_strdup(id), .ts = ts, .family = family, .stamped = stamped};
    buf_append(&p->value, value->data, value->len);
}

/* An event with an id that may be decided now. */
static struct model_verdict emit_event(struct maker *m, const char *id, size_t family, int64_t ts,
                                       const struct buf *value) {
    struct family *f = &m->families[family];
    bool calm = f->kind == FAMILY_CALM && f->there;
    int place = calm ? ANYWHERE : place_for(m, id, f);
    sc_map_set(m->ids, id, place);
    sc_map_set(m->used, id, 1);
    struct model_verdict v =
        place == f->home && !calm ? emit_home(m, f, ts, value) : emit_at(m, place, f, ts, value);
    if (v.outcome == MODEL_SETTLED || v.outcome == MODEL_BLOCKED)
        sc_map_set(m->since, id, m->phase);
    return v;
}

/* ---- an event ---- */

static char *id_drawn(struct maker *m) {
    struct buf id = {0};
    buf_printf(&id, "e%lu-%ld", m->size->seed, ++m->numbers);
    int64_t more = percent(m, 1) ? 191 - (int64_t)id.len : percent(m, 25) ? 1 + draw(m, 12) : 0;
    for (int64_t i = 0; i < more; i++) /* no digit first: that might be a later number */
        buf_char(&id, i == 0 ? '.' : (char)('!' + draw(m, '~' - '!' + 1)));
    return id.data;
}

/* Mostly now; sometimes about the border of a month, or in the last one. */
static int64_t record_time(struct maker *m) {
    int64_t now =
        m->size->base_ms - 40 * MINUTE_MS + m->index * 5 + m->phase * (30 * MINUTE_MS / m->size->phases);
    if (percent(m, 80))
        return now;
    int64_t border = model_month_start(m->month - (int)draw(m, 2)) + draw(m, 20 * MINUTE_MS) - 10 * MINUTE_MS;
    if (percent(m, 30))
        border = model_month_start(m->month - (int)draw(m, 2)) - draw(m, 2);
    return border < now ? border : now;
}

/* At the edge of the customer's time block on the day of the record or the one before. */
static int64_t block_edge(struct maker *m, const struct family *f, int64_t customer, int64_t ts) {
    struct model_rules rules = model_rules_of(m->model, f->id, customer);
    int minute = percent(m, 50) ? rules.from : rules.to;
    bool any = rules.from >= 0;
    model_rules_free(&rules);
    if (!any)
        return ts;
    int64_t midnight = ts - model_minute(ts) * MINUTE_MS - ts % MINUTE_MS - (percent(m, 50) ? DAY_MS : 0);
    static const int64_t beside[] = {0, -1, 59999, -60000, 1};
    int64_t t = midnight + minute * MINUTE_MS + beside[draw(m, COUNT(beside))];
    return t > ts + 5 * MINUTE_MS ? t - DAY_MS : t;
}

static int64_t event_time(struct maker *m, const struct family *f, int64_t customer, int64_t ts) {
    int64_t kind = draw(m, 100);
    if (kind < 45)
        return ts - draw(m, 3000);
    if (kind < 60)
        return block_edge(m, f, customer, ts);
    if (kind < 70)
        return ts - draw(m, 3 * DAY_MS);
    if (kind < 76) /* late: about the beginning of a month */
        return model_month_start(model_month(ts) - (int)draw(m, 2)) + draw(m, 3) - 1;
    if (kind < 80)
        return model_month_start(model_month(ts)) - draw(m, 20 * DAY_MS);
    if (kind < 86)
        return ts + draw(m, 5 * MINUTE_MS + 1);
    if (kind < 88)
        return ts + 5 * MINUTE_MS;
    if (kind < 89)
        return ts + 5 * MINUTE_MS + 1 + draw(m, DAY_MS);
    if (kind < 90)
        return model_month_start(model_month(ts) - 1) - 1 - draw(m, 90 * DAY_MS) * draw(m, 2);
    return ts;
}

/* The line to hit: how many bytes bring what is left to n percent, zero, or the limit. */
static int64_t bytes_to_line(struct maker *m, int64_t total, int64_t left, int64_t used, int64_t limit) {
    int64_t n = model_thresholds[draw(m, MODEL_THRESHOLDS)], kind = draw(m, 100);
    int64_t line = (int64_t)((__int128)total * n / 100);
    if (kind < 30)
        return left - line;
    if (kind < 42)
        return left - line - 1;
    if (kind < 54)
        return left - line + 1 + draw(m, total / 20 + 1);
    if (kind < 64)
        return left;
    if (kind < 76 || limit < 0)
        return left + 1;
    return limit - used + (kind < 90 ? 0 : 1);
}

static int64_t bytes_drawn(struct maker *m, const struct family *f, int64_t customer, int64_t t_ms) {
    int month = model_month(t_ms);
    const struct model_quota *carried = model_quota_carried(m->model, f->id, month);
    const struct model_quota *own = model_quota_of(m->model, f->id, month);
    const struct model_customer *c = model_customer_of(m->model, f->id, customer, month);
    int64_t total = carried && carried->total <= MODEL_AMOUNT_MAX ? carried->total : 0;
    int64_t left = total - (own ? own->used : 0), bytes = 1 + draw(m, total / 40 + 1);
    struct model_rules rules = model_rules_of(m->model, f->id, customer);
    if (m->size->refuse && draw(m, 250) == 0)
        bytes = REFUSED;
    else if (f->kind == FAMILY_CALM)
        bytes = 1 + draw(m, 1000000);
    else if (percent(m, 16))
        bytes = bytes_to_line(m, total, left, c ? c->used : 0, rules.limit);
    else if (percent(m, 40))
        bytes = 1 + draw(m, 100);
    else if (percent(m, 3))
        bytes = percent(m, 50) ? 1 : MODEL_AMOUNT_MAX;
    model_rules_free(&rules);
    return bytes < 1 ? 1 : bytes > MODEL_AMOUNT_MAX ? MODEL_AMOUNT_MAX : bytes;
}

static char *amount_text(struct maker *m, int64_t n) {
    return draft_format(percent(m, 8) ? "\"%ld\"" : "%ld", n);
}

static char *app_member(struct maker *m) {
    if (percent(m, 45))
        return percent(m, 80) ? NULL : mem_strdup("null");
    if (percent(m, 5))
        return mem_strdup(percent(m, 50) ? "\"\"" : "\" \\t\\r\\n \"");
    char *app = app_drawn(m), *padded = draft_format(percent(m, 15) ? " \v%s\f\n" : "%s", app);
    char *json = draft_text(&m->dice, padded);
    free(padded);
    free(app);
    return json;
}

/* A whole and proper event. */
static struct model_draft draft_of(struct maker *m, const char *id, int64_t family, int64_t customer,
                                   int64_t bytes, int64_t t_ms, int64_t ts) {
    struct model_draft d = {0};
    draft_set(&d, DRAFT_TYPE, mem_strdup("\"DATA_USAGE\""));
    draft_set(&d, DRAFT_ID, draft_text(&m->dice, id));
    if (t_ms != ts || percent(m, 50))
        draft_set(&d, DRAFT_TIME, draft_time(&m->dice, t_ms));
    else if (percent(m, 30))
        draft_set(&d, DRAFT_TIME, mem_strdup("null"));
    draft_set(&d, DRAFT_FAMILY, amount_text(m, family));
    draft_set(&d, DRAFT_CUSTOMER, amount_text(m, customer));
    draft_set(&d, DRAFT_BYTES, amount_text(m, bytes));
    draft_set(&d, DRAFT_APP, app_member(m));
    return d;
}

static size_t family_drawn(struct maker *m) {
    if (m->size->seed % 3 == 0 && percent(m, 50))
        return 0; /* a hot one takes half of all */
    return (size_t)draw(m, (int64_t)m->family_count);
}

/* Fills a document up to the largest size, or nests it as deep as it may be. */
static void to_the_edge(struct maker *m, struct buf *value) {
    if (percent(m, 50)) {
        while (value->len < 65536)
            buf_char(value, ' ');
        return;
    }
    struct buf whole = {0};
    size_t at = value->len;
    while (at > 0 && value->data[at - 1] != '}')
        at--;
    buf_append(&whole, value->data, at - 1);
    buf_str(&whole, ",\"deep\":");
    for (int i = 0; i < 31; i++)
        buf_char(&whole, '[');
    for (int i = 0; i < 31; i++)
        buf_char(&whole, ']');
    buf_str(&whole, "}");
    buf_free(value);
    *value = whole;
}

static void make_ordinary(struct maker *m, const char *given_id) {
    size_t at = family_drawn(m);
    struct family *f = &m->families[at];
    int64_t customer = f->members[draw(m, f->count)], ts = record_time(m);
    int64_t t_ms = event_time(m, f, customer, ts);
    char *id = given_id ? mem_strdup(given_id) : id_drawn(m);
    struct model_draft d = draft_of(m, id, f->id, customer, bytes_drawn(m, f, customer, t_ms), t_ms, ts);
    if (f->kind == FAMILY_CALM && !d.member[DRAFT_TIME])
        draft_set(&d, DRAFT_TIME, draft_time(&m->dice, t_ms)); /* whichever copy counts, it says the same */
    struct buf value = {0};
    draft_write(&m->dice, &d, &value);
    if (draw(m, 300) == 0)
        to_the_edge(m, &value);
    emit_event(m, id, at, ts, &value);
    past_add(m, id, at, ts, &value, d.member[DRAFT_TIME] && d.member[DRAFT_TIME][0] == '"');
    buf_free(&value);
    draft_free(&d);
    free(id);
}

/* ---- what comes again ---- */

static struct past *past_drawn(struct maker *m) {
    if (!m->past_count)
        return NULL;
    int64_t near = m->past_count < 6 ? (int64_t)m->past_count : 6;
    return &m->pasts[percent(m, 50) ? (int64_t)m->past_count - 1 - draw(m, near)
                                    : draw(m, (int64_t)m->past_count)];
}

static void make_repeat(struct maker *m) {
    struct past *p = past_drawn(m);
    for (int64_t i = 0, n = percent(m, 85) ? 1 : 2 + draw(m, 4); p && i < n; i++) {
        struct past copy = *p; /* past_add isn't called here, but a pointer into an array is a trap */
        int64_t ts = copy.stamped && percent(m, 20) ? record_time(m) : copy.ts;
        emit_event(m, copy.id, copy.family, ts, &copy.value);
    }
}

/* A known id under other figures; sometimes the same figures, told otherwise. */
static void make_conflict(struct maker *m) {
    const struct past *p = past_drawn(m);
    const struct model_decision *known = p ? model_decided(m->model, p->id) : NULL;
    if (!known ||
        (sc_map_get(m->since, p->id, m->phase) == m->phase && sc_map_get(m->ids, p->id, 0) == ANYWHERE))
        return;
    const struct family *f = &m->families[p->family];
    int64_t customer = known->event.customer, bytes = known->event.bytes, kind = draw(m, 4);
    int place = place_for(m, p->id, f);
    const struct family *of = kind == 2 ? &m->families[draw(m, (int64_t)m->family_count)] : f;
    if (of->kind == FAMILY_CARRY || of->kind == FAMILY_LIMITED)
        of = f; /* not of one whose month might come to be by it */
    if (of != f && place == ANYWHERE && of->strict)
        place = of->home;
    if (of->strict && place != of->home)
        return;
    if (kind == 0)
        bytes += bytes < MODEL_AMOUNT_MAX ? 1 : -1;
    else if (kind == 1)
        customer = f->members[draw(m, f->count)];
    int64_t family = of->id;
    struct model_draft d = draft_of(m, p->id, family, customer, bytes, known->event.time_ms, p->ts);
    draft_set(&d, DRAFT_TIME, draft_time(&m->dice, known->event.time_ms));
    struct buf value = {0};
    draft_write(&m->dice, &d, &value);
    emit_at(m, place, of, p->ts, &value);
    buf_free(&value);
    draft_free(&d);
}

/* The same id but for the case of its letters: another event. */
static void make_twin(struct maker *m) {
    const struct past *p = past_drawn(m);
    char *id = mem_strdup(p ? p->id : "t");
    for (char *s = id; *s; s++) {
        if ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z'))
            *s ^= 32;
    }
    if (!json_object_get(m->used, id))
        make_ordinary(m, id);
    free(id);
}

/* ---- what is refused ---- */

/* Any partition when the record can't be an event; as an event otherwise. */
static void emit_spoilt(struct maker *m, const char *id, size_t family, int64_t ts, const struct buf *value) {
    struct model_event event;
    const char *code, *member;
    enum model_reading reading =
        model_event_read(value ? buf_cstr(value) : NULL, value ? value->len : 0, ts, &event, &code, &member);
    model_event_free(&event);
    if (reading == MODEL_USAGE)
        emit_event(m, id, family, ts, value);
    else
        emit_at(m, ANYWHERE, &m->families[family], ts, value);
}

static void make_spoilt(struct maker *m) {
    static const char *const other_types[] = {"\"NOTIFICATION\"", "\"data_usage\"", "\"DATA_USAGE \"", "\"\"",
                                              "\"DATA_USAGE2\""};
    size_t at = family_drawn(m);
    const struct family *f = &m->families[at];
    int64_t ts = record_time(m), kind = draw(m, 100);
    char *id = id_drawn(m);
    struct model_draft d = draft_of(m, id, f->id, f->members[draw(m, f->count)], 1 + draw(m, 1000), ts, ts);
    struct buf value = {0};
    if (kind >= 35)
        draft_spoil(&m->dice, &d);
    if (kind >= 70)
        draft_spoil(&m->dice, &d);
    if (kind >= 85)
        draft_set(&d, DRAFT_TYPE, mem_strdup(other_types[draw(m, COUNT(other_types))]));
    draft_write(&m->dice, &d, &value);
    if (kind < 35)
        draft_break(&m->dice, &value);
    emit_spoilt(m, id, at, ts, draw(m, 100) == 0 ? NULL : &value);
    buf_free(&value);
    draft_free(&d);
    free(id);
}

/* Nobody's family, or not this customer's. They may come again, too. */
static void make_stranger(struct maker *m) {
    size_t at = family_drawn(m);
    const struct family *f = &m->families[at];
    bool unknown = percent(m, 50);
    int64_t ts = record_time(m), customer = 1 + draw(m, 900000);
    if (f->kind == FAMILY_CALM || model_is_member(m->model, f->id, customer))
        return;
    int64_t family = unknown ? 900000000 + draw(m, 50) : f->id;
    char *id = id_drawn(m);
    struct model_draft d = draft_of(m, id, family, customer, 1 + draw(m, 1000), ts, ts);
    struct buf value = {0};
    draft_write(&m->dice, &d, &value);
    emit_event(m, id, at, ts, &value);
    if (percent(m, 20))
        past_add(m, id, at, ts, &value, false);
    buf_free(&value);
    draft_free(&d);
    free(id);
}

static void make_record(struct maker *m) {
    int64_t kind = draw(m, 1000);
    if (kind < 740)
        make_ordinary(m, NULL);
    else if (kind < 840)
        make_repeat(m);
    else if (kind < 870)
        make_conflict(m);
    else if (kind < 880)
        make_twin(m);
    else if (kind < 970)
        make_spoilt(m);
    else
        make_stranger(m);
}

/* ---- phases ---- */

static void warm_note(struct maker *m, struct family *f) {
    char key[24];
    snprintf(key, sizeof key, "%ld", f->id);
    sc_map_set(m->warm, key, 1);
    f->changed = true;
}

static void total_change(struct maker *m, struct family *f) {
    int month = m->month - (int)draw(m, 2);
    const struct model_quota *q = model_quota_of(m->model, f->id, month);
    if (!q || f->kind == FAMILY_CARRY)
        return;
    int64_t total = q->total < MODEL_AMOUNT_MAX ? q->total : MODEL_AMOUNT_MAX, kind = draw(m, 10);
    if (kind < 4)
        total = total * 2;
    else if (kind < 6)
        total = total / 2;
    else if (kind < 7)
        total = q->used;
    else if (kind < 8)
        total = totals[draw(m, COUNT(totals))];
    else
        total = total + 1000;
    if (total > MODEL_AMOUNT_MAX)
        total = MODEL_AMOUNT_MAX + percent(m, 10); /* one more is no number of the contract */
    quota_set(m, f, month, total);
    f->changed = true;
    if (percent(m, 50)) /* it counts at once all the same */
        warm_note(m, f);
}

/* Changes a rule's text, or switches it on or off. */
static void rule_change(struct maker *m, const struct family *f) {
    if (!m->rules)
        return;
    for (size_t i = 0; i < m->model->rules.count; i++) {
        const struct model_rule *r = MODEL_AT(m->model->rules, struct model_rule, i);
        if (r->family != f->id || percent(m, 60))
            continue;
        bool heal = strcmp(r->type, "MONTHLY_LIMIT") == 0 && percent(m, 50);
        char *text = mem_strdup(heal ? "{\"limitBytes\":100000}" : r->text);
        change(m, "rule %ld %ld %ld %s %d %ld %s", r->id, f->id, r->customer, r->type, percent(m, 50),
               m->size->base_ms - draw(m, DAY_MS), text);
        free(text);
        return;
    }
}

static void member_change(struct maker *m, struct family *f) {
    int at = (int)draw(m, f->count);
    if (!model_is_member(m->model, f->id, f->members[at]))
        change(m, "member %ld %ld", f->id, f->members[at]);
    else if (percent(m, 50))
        change(m, "unmember %ld %ld", f->id, f->members[at]);
    else if (f->count < MEMBERS_MAX) {
        f->members[f->count] = 300000 + f->id % 10000 * 10 + f->count;
        change(m, "member %ld %ld", f->id, f->members[f->count++]);
    }
}

static void family_change(struct maker *m, struct family *f) {
    if (f->kind == FAMILY_CALM || percent(m, 55))
        return;
    if (percent(m, 60))
        total_change(m, f);
    if (percent(m, 60))
        return;
    int64_t kind = draw(m, 3);
    if (kind == 0)
        rule_add(m, f, 100000);
    else if (kind == 1)
        rule_change(m, f);
    else
        member_change(m, f);
    warm_note(m, f);
}

static void world_change(struct maker *m) {
    char date[16];
    bool last = m->phase == m->size->phases - 1;
    for (size_t i = 0; i < m->family_count; i++) {
        struct family *f = &m->families[i];
        if (f->there)
            family_change(m, f);
        else if (percent(m, 60))
            family_add(m, f);
        /* At the end the cache is held against the tables, also of families that rest. */
        if (last && f->changed)
            warm_note(m, f);
    }
    if (m->size->floor && m->phase >= 2 && m->model->floor < m->month - 1 && percent(m, 40)) {
        model_month_date(m->month - 1, date);
        change(m, "floor %.7s", date);
    }
}

static FILE *opened(const char *path) {
    FILE *f = fopen(path, "wb");
    if (!f)
        sc_die("%s: %s", path, strerror(errno));
    return f;
}

static FILE *phase_file(const struct maker *m, const char *extension) {
    char *path = model_world_path(m->dir, m->phase, extension);
    FILE *f = opened(path);
    free(path);
    return f;
}

static void closed(FILE *f) {
    if (ferror(f) || fclose(f) != 0)
        sc_die("%s: cannot write all of it", "a phase's file");
}

static void warm_write(const struct maker *m) {
    FILE *f = phase_file(m, "warm");
    const char *family;
    json_t *one;
    json_object_foreach(m->warm, family, one) {
        fprintf(f, "%s\n", family);
    }
    closed(f);
}

static void phase_make(struct maker *m) {
    m->index = 0;
    json_object_clear(m->ids);
    json_object_clear(m->warm);
    m->changes = phase_file(m, "changes");
    m->records = phase_file(m, "records");
    char *population = sc_path(m->dir, "population.sql");
    m->sql = m->phase == 0 ? opened(population) : phase_file(m, "sql");
    free(population);
    for (size_t i = 0; m->phase == 0 && i < m->family_count; i++) {
        family_draw(m, i);
        if (m->families[i].kind != FAMILY_LATER)
            family_add(m, &m->families[i]);
    }
    if (m->phase == 0 && m->size->refuse)
        change(m, "refuse %d", REFUSED);
    if (m->phase > 0)
        world_change(m);
    homes_draw(m);
    int64_t wanted = m->size->events / m->size->phases;
    while (m->index < wanted)
        make_record(m);
    warm_write(m);
    closed(m->changes);
    closed(m->sql);
    closed(m->records);
}

static void maker_free(struct maker *m) {
    for (size_t i = 0; i < m->past_count; i++) {
        buf_free(&m->pasts[i].value);
        free(m->pasts[i].id);
    }
    free(m->pasts);
    free(m->families);
    json_decref(m->ids);
    json_decref(m->since);
    json_decref(m->used);
    json_decref(m->kinds);
    json_decref(m->warm);
    model_free(m->model);
}

void model_make(const char *dir, const struct model_size *size) {
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        sc_die("%s: %s", dir, strerror(errno));
    struct maker m = {.size = size, .dir = dir, .dice = {size->seed}, .month = model_month(size->base_ms)};
    m.model = model_new();
    m.family_count = (size_t)size->families;
    m.families = mem_zero(m.family_count, sizeof *m.families);
    m.ids = json_object();
    m.since = json_object();
    m.used = json_object();
    m.kinds = json_object();
    m.warm = json_object();
    for (m.phase = 0; m.phase < size->phases; m.phase++)
        phase_make(&m);
    printf("seed %lu base %ld: %d phases, %d families; %zu decided, %zu told\n", size->seed,
           size->base_ms / 1000, size->phases, size->families, m.model->decisions.count, m.model->told.count);
    const char *kind;
    json_t *times;
    json_object_foreach(m.kinds, kind, times) {
        printf("%s %" JSON_INTEGER_FORMAT "\n", kind, json_integer_value(times));
    }
    maker_free(&m);
}
