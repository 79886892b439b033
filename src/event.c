/* SPDX-License-Identifier: MIT */
/* The order of the checks is the contract's: the first failure names the code. */
#include "event.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "event_fields.h"
#include "json_arena.h"
#include "period.h"

#define USAGE_TYPE "DATA_USAGE"
#define DEPTH_MAX 32 /* jansson recurses; its own limit is 2048 */

/* What a DATETIME surely holds, and a day less at both ends, where the zone's
 * calendar may be past it: 1000-01-02 to 9999-12-30. */
#define TIME_MIN_MS INT64_C(-30610137600000)
#define TIME_MAX_MS INT64_C(253402214399999)

/* One record being read. */
struct reading {
    int64_t record_ts_ms;
    const struct event_limits *limits;
    struct arena *texts;
    struct usage_event *out;
    struct event_reason *why;
};

static bool reject(const struct reading *r, enum reject_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

struct event_limits event_limits_of(const struct config *cfg, int32_t closed_before) {
    return (struct event_limits){.max_bytes = (size_t)cfg->event.max_bytes,
                                 .max_future_ms = cfg->event.max_future_ms,
                                 .max_past_months = (int)cfg->event.max_past_months,
                                 .closed_before = closed_before};
}

const char *reject_code_name(enum reject_code code) {
    static const char *const names[] = {
        [REJECT_NONE] = "NONE",
        [REJECT_EVENT_TOO_LARGE] = "EVENT_TOO_LARGE",
        [REJECT_MALFORMED_JSON] = "MALFORMED_JSON",
        [REJECT_INVALID_FIELD] = "INVALID_FIELD",
        [REJECT_EVENT_IN_FUTURE] = "EVENT_IN_FUTURE",
        [REJECT_EVENT_TOO_OLD] = "EVENT_TOO_OLD",
        [REJECT_ID_CONFLICT] = "ID_CONFLICT",
        [REJECT_UNKNOWN_FAMILY] = "UNKNOWN_FAMILY",
        [REJECT_NOT_A_MEMBER] = "NOT_A_MEMBER",
        [REJECT_POLICY_UNREADABLE] = "POLICY_UNREADABLE",
        [REJECT_SETTLEMENT_REJECTED] = "SETTLEMENT_REJECTED",
    };
    return names[code];
}

const char *event_message(struct arena *texts, const char *fmt, va_list ap) {
    char text[EVENT_MESSAGE_MAX];
    vsnprintf(text, sizeof text, fmt, ap);
    return arena_text(texts, text, strlen(text));
}

void event_memory_free(struct event_memory *m) {
    arena_free(&m->texts);
    arena_free(&m->json);
}

static bool reject(const struct reading *r, enum reject_code code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    *r->why = (struct event_reason){.code = code, .message = event_message(r->texts, fmt, ap)};
    va_end(ap);
    return false;
}

static bool invalid(const struct reading *r, const char *member, const char *reason) {
    return reject(r, REJECT_INVALID_FIELD, "%s: %s", member, reason);
}

/* How often a character comes, as far as `max`. */
static int count_char(const char *s, size_t len, char c, int max) {
    const char *end = s + len;
    int n = 0;
    while (n < max && (s = memchr(s, c, (size_t)(end - s)))) {
        s++;
        n++;
    }
    return n;
}

/* Whether it has brackets enough, wherever they stand: few texts do, and the others needn't be looked
 * through. */
static bool may_be_deep(const char *s, size_t len) {
    int braces = count_char(s, len, '{', DEPTH_MAX + 1);
    return braces + count_char(s, len, '[', DEPTH_MAX + 1 - braces) > DEPTH_MAX;
}

/* Where the text opens its 33rd level, or -1. Doesn't mind whether it is JSON:
 * up to the first error brackets and quotes are counted right. */
static long too_deep_at(const char *s, size_t len) {
    if (!may_be_deep(s, len))
        return -1;
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = s[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > DEPTH_MAX)
                return (long)i;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return -1;
}

/* The record as an object the caller owns, or NULL. jansson's own error text
 * quotes the input, so only its position is used. */
static json_t *load(const struct reading *r, const void *value, size_t len) {
    if (!value) {
        reject(r, REJECT_MALFORMED_JSON, "no value");
        return NULL;
    }
    long deep = too_deep_at(value, len);
    if (deep >= 0) {
        reject(r, REJECT_MALFORMED_JSON, "over %d levels deep at byte %ld", DEPTH_MAX, deep);
        return NULL;
    }
    json_error_t err;
    json_t *root = json_loadb(value, len, JSON_REJECT_DUPLICATES, &err);
    if (!root) {
        reject(r, REJECT_MALFORMED_JSON, "not one JSON object: error at byte %d", err.position);
    } else if (!json_is_object(root)) {
        json_decref(root);
        root = NULL;
        reject(r, REJECT_MALFORMED_JSON, "not one JSON object: an array");
    }
    return root;
}

static bool read_id(const struct reading *r, const struct field *id) {
    if (id->kind != FIELD_TEXT || id->len < 1 || id->len > EVENT_ID_MAX)
        return invalid(r, "eventId", "must be text of 1 to 191 characters");
    for (size_t i = 0; i < id->len; i++) {
        if (id->text[i] <= ' ' || id->text[i] > '~')
            return invalid(r, "eventId", "must be printable ASCII without spaces");
    }
    r->out->id = arena_text(r->texts, id->text, id->len);
    return true;
}

static bool read_time(const struct reading *r, const struct field *time) {
    if (time->kind == FIELD_ABSENT || time->kind == FIELD_NULL) {
        if (r->record_ts_ms < 0)
            return invalid(r, "timestamp", "absent, and the record has none either");
        r->out->time_ms = r->record_ts_ms;
        return true;
    }
    if (time->kind != FIELD_TEXT || !period_parse(time->text, time->len, &r->out->time_ms))
        return invalid(r, "timestamp",
                       "must be a date and time as YYYY-MM-DDTHH:MM[:SS[.f]][Z|+HH:MM|-HH:MM]");
    return true;
}

size_t event_trim(const char **s, size_t len) {
    const char *p = *s;
    while (len && (*p == ' ' || (*p >= '\t' && *p <= '\r'))) {
        p++;
        len--;
    }
    while (len && (p[len - 1] == ' ' || (p[len - 1] >= '\t' && p[len - 1] <= '\r')))
        len--;
    *s = p;
    return len;
}

bool event_amount_parse(const char *s, size_t len, int64_t min, int64_t *out) {
    if (len < 1 || len > 16 || (s[0] == '0' && len > 1))
        return false;
    int64_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        n = n * 10 + (s[i] - '0');
    }
    if (n < min || n > EVENT_AMOUNT_MAX)
        return false;
    *out = n;
    return true;
}

static bool read_amount(const struct reading *r, const struct field *amount, const char *path, int64_t *out) {
    bool ok = false;
    if (amount->kind == FIELD_TEXT) {
        ok = event_amount_parse(amount->text, amount->len, 1, out);
    } else if (amount->kind == FIELD_INTEGER) {
        *out = amount->number;
        ok = *out >= 1 && *out <= EVENT_AMOUNT_MAX;
    }
    return ok || invalid(r, path, "must be a whole number from 1 to 9007199254740991");
}

static bool read_app(const struct reading *r, const struct field *app) {
    if (app->kind == FIELD_ABSENT || app->kind == FIELD_NULL)
        return true;
    if (app->kind != FIELD_TEXT)
        return invalid(r, "payload.appId", "must be text or null");
    const char *s = app->text;
    size_t len = event_trim(&s, app->len);
    if (len > EVENT_APP_MAX)
        return invalid(r, "payload.appId", "must be at most 100 bytes");
    r->out->has_app = len > 0;
    if (len)
        r->out->app = arena_text(r->texts, s, len);
    return true;
}

static bool read_payload(const struct reading *r, const struct event_fields *f) {
    if (f->payload.kind != FIELD_OBJECT)
        return invalid(r, "payload", "must be an object");
    return read_amount(r, &f->family, "payload.familyId", &r->out->family_id) &&
           read_amount(r, &f->customer, "payload.customerId", &r->out->customer_id) &&
           read_amount(r, &f->bytes, "payload.bytesUsed", &r->out->bytes_used) && read_app(r, &f->app);
}

static int month_number(int32_t month) {
    return month / 100 * 12 + month % 100;
}

/* Rule 7, and that the time can be stored at all. */
static bool check_time(const struct reading *r) {
    const struct event_limits *limits = r->limits;
    const struct usage_event *e = r->out;
    if (r->record_ts_ms >= 0) {
        if (e->time_ms - limits->max_future_ms > r->record_ts_ms)
            return reject(r, REJECT_EVENT_IN_FUTURE, "timestamp: over %lld ms ahead of the record's",
                          (long long)limits->max_future_ms);
        int32_t record_month = period_month(r->record_ts_ms);
        if (month_number(e->month) < month_number(record_month) - limits->max_past_months)
            return reject(r, REJECT_EVENT_TOO_OLD,
                          "timestamp: month %06d is over %d before the record's, %06d", (int)e->month,
                          limits->max_past_months, (int)record_month);
    }
    if (e->month < limits->closed_before)
        return reject(r, REJECT_EVENT_TOO_OLD, "timestamp: month %06d is closed, the first open one is %06d",
                      (int)e->month, (int)limits->closed_before);
    if (e->time_ms < TIME_MIN_MS || e->time_ms > TIME_MAX_MS)
        return invalid(r, "timestamp", "outside the years 1000 to 9999");
    return true;
}

static enum event_kind read_event(const struct reading *r, const struct event_fields *f) {
    if (f->type.kind != FIELD_TEXT) {
        invalid(r, "eventType", "must be text");
        return EVENT_REJECTED;
    }
    if (f->type.len != strlen(USAGE_TYPE) || memcmp(f->type.text, USAGE_TYPE, f->type.len) != 0)
        return EVENT_IGNORED;
    if (!read_id(r, &f->id) || !read_time(r, &f->time) || !read_payload(r, f))
        return EVENT_REJECTED;
    r->out->month = period_month(r->out->time_ms);
    r->out->hhmm = (int16_t)period_hhmm(r->out->time_ms);
    return check_time(r) ? EVENT_USAGE : EVENT_REJECTED;
}

static enum event_kind read_unusual(const struct reading *r, struct arena *json, const void *value,
                                    size_t len) {
    struct event_fields fields;
    enum event_kind kind = EVENT_REJECTED;
    json_arena_begin(json);
    json_t *root = load(r, value, len);
    if (root) {
        event_fields_take(root, &fields);
        kind = read_event(r, &fields);
    }
    json_arena_end(root);
    return kind;
}

enum event_kind event_parse(const void *value, size_t len, int64_t record_ts_ms,
                            const struct event_limits *limits, struct event_memory *memory,
                            struct usage_event *out, struct event_reason *why) {
    const struct reading r = {
        .record_ts_ms = record_ts_ms, .limits = limits, .texts = &memory->texts, .out = out, .why = why};
    *out = (struct usage_event){.id = "", .app = ""};
    *why = (struct event_reason){.code = REJECT_NONE};
    if (len > limits->max_bytes) {
        reject(&r, REJECT_EVENT_TOO_LARGE, "%zu bytes, over %zu", len, limits->max_bytes);
        return EVENT_REJECTED;
    }
    struct event_fields fields;
    return event_fields_scan(value, len, &fields) ? read_event(&r, &fields)
                                                  : read_unusual(&r, &memory->json, value, len);
}
