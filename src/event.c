/* SPDX-License-Identifier: MIT */
/* The order of the checks is the contract's: the first failure names the code. */
#include "event.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "period.h"

#define DEPTH_MAX 32 /* jansson recurses; its own limit is 2048 */

/* What a DATETIME surely holds, and a day less at both ends, where the zone's
 * calendar may be past it: 1000-01-02 to 9999-12-30. */
#define TIME_MIN_MS INT64_C(-30610137600000)
#define TIME_MAX_MS INT64_C(253402214399999)

static bool reject(struct event_reason *why, enum reject_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

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

static bool reject(struct event_reason *why, enum reject_code code, const char *fmt, ...) {
    why->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why->message, sizeof why->message, fmt, ap);
    va_end(ap);
    return false;
}

static bool invalid(struct event_reason *why, const char *member, const char *reason) {
    return reject(why, REJECT_INVALID_FIELD, "%s: %s", member, reason);
}

/* Where the text opens its 33rd level, or -1. Doesn't mind whether it is JSON:
 * up to the first error brackets and quotes are counted right. */
static long too_deep_at(const char *s, size_t len) {
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
static json_t *load(const void *value, size_t len, struct event_reason *why) {
    if (!value) {
        reject(why, REJECT_MALFORMED_JSON, "no value");
        return NULL;
    }
    long deep = too_deep_at(value, len);
    if (deep >= 0) {
        reject(why, REJECT_MALFORMED_JSON, "over %d levels deep at byte %ld", DEPTH_MAX, deep);
        return NULL;
    }
    json_error_t err;
    json_t *root = json_loadb(value, len, JSON_REJECT_DUPLICATES, &err);
    if (!root) {
        reject(why, REJECT_MALFORMED_JSON, "not one JSON object: error at byte %d", err.position);
    } else if (!json_is_object(root)) {
        json_decref(root);
        root = NULL;
        reject(why, REJECT_MALFORMED_JSON, "not one JSON object: an array");
    }
    return root;
}

static bool read_id(const json_t *root, struct usage_event *out, struct event_reason *why) {
    const json_t *id = json_object_get(root, "eventId");
    size_t len = json_string_length(id);
    if (len < 1 || len > EVENT_ID_MAX)
        return invalid(why, "eventId", "must be text of 1 to 191 characters");
    const char *s = json_string_value(id);
    for (size_t i = 0; i < len; i++) {
        if (s[i] <= ' ' || s[i] > '~')
            return invalid(why, "eventId", "must be printable ASCII without spaces");
    }
    memcpy(out->id, s, len + 1);
    return true;
}

static bool read_time(const json_t *root, int64_t record_ts_ms, struct usage_event *out,
                      struct event_reason *why) {
    const json_t *time = json_object_get(root, "timestamp");
    if (!time || json_is_null(time)) {
        if (record_ts_ms < 0)
            return invalid(why, "timestamp", "absent, and the record has none either");
        out->time_ms = record_ts_ms;
        return true;
    }
    if (!json_is_string(time) ||
        !period_parse(json_string_value(time), json_string_length(time), &out->time_ms))
        return invalid(why, "timestamp",
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

/* `path` is the member's name after "payload.". */
static bool read_amount(const json_t *payload, const char *path, int64_t *out, struct event_reason *why) {
    const json_t *amount = json_object_get(payload, path + sizeof "payload." - 1);
    bool ok = false;
    if (json_is_string(amount)) {
        ok = event_amount_parse(json_string_value(amount), json_string_length(amount), 1, out);
    } else if (json_is_integer(amount)) {
        *out = json_integer_value(amount);
        ok = *out >= 1 && *out <= EVENT_AMOUNT_MAX;
    }
    return ok || invalid(why, path, "must be a whole number from 1 to 9007199254740991");
}

static bool read_app(const json_t *payload, struct usage_event *out, struct event_reason *why) {
    const json_t *app = json_object_get(payload, "appId");
    if (!app || json_is_null(app))
        return true;
    if (!json_is_string(app))
        return invalid(why, "payload.appId", "must be text or null");
    const char *s = json_string_value(app);
    size_t len = event_trim(&s, json_string_length(app));
    if (len > EVENT_APP_MAX)
        return invalid(why, "payload.appId", "must be at most 100 bytes");
    memcpy(out->app, s, len);
    out->app[len] = '\0';
    out->has_app = len > 0;
    return true;
}

static bool read_payload(const json_t *root, struct usage_event *out, struct event_reason *why) {
    const json_t *payload = json_object_get(root, "payload");
    if (!json_is_object(payload))
        return invalid(why, "payload", "must be an object");
    return read_amount(payload, "payload.familyId", &out->family_id, why) &&
           read_amount(payload, "payload.customerId", &out->customer_id, why) &&
           read_amount(payload, "payload.bytesUsed", &out->bytes_used, why) && read_app(payload, out, why);
}

static int month_number(int32_t month) {
    return month / 100 * 12 + month % 100;
}

/* Rule 7, and that the time can be stored at all. */
static bool check_time(int64_t record_ts_ms, const struct event_limits *limits, const struct usage_event *e,
                       struct event_reason *why) {
    if (record_ts_ms >= 0) {
        if (e->time_ms - limits->max_future_ms > record_ts_ms)
            return reject(why, REJECT_EVENT_IN_FUTURE, "timestamp: over %lld ms ahead of the record's",
                          (long long)limits->max_future_ms);
        int32_t record_month = period_month(record_ts_ms);
        if (month_number(e->month) < month_number(record_month) - limits->max_past_months)
            return reject(why, REJECT_EVENT_TOO_OLD,
                          "timestamp: month %06d is over %d before the record's, %06d", (int)e->month,
                          limits->max_past_months, (int)record_month);
    }
    if (e->month < limits->closed_before)
        return reject(why, REJECT_EVENT_TOO_OLD,
                      "timestamp: month %06d is closed, the first open one is %06d", (int)e->month,
                      (int)limits->closed_before);
    if (e->time_ms < TIME_MIN_MS || e->time_ms > TIME_MAX_MS)
        return invalid(why, "timestamp", "outside the years 1000 to 9999");
    return true;
}

static enum event_kind read_event(const json_t *root, int64_t record_ts_ms, const struct event_limits *limits,
                                  struct usage_event *out, struct event_reason *why) {
    const json_t *type = json_object_get(root, "eventType");
    if (!json_is_string(type)) {
        invalid(why, "eventType", "must be text");
        return EVENT_REJECTED;
    }
    if (strcmp(json_string_value(type), "DATA_USAGE") != 0)
        return EVENT_IGNORED;
    if (!read_id(root, out, why) || !read_time(root, record_ts_ms, out, why) || !read_payload(root, out, why))
        return EVENT_REJECTED;
    out->month = period_month(out->time_ms);
    out->hhmm = (int16_t)period_hhmm(out->time_ms);
    return check_time(record_ts_ms, limits, out, why) ? EVENT_USAGE : EVENT_REJECTED;
}

enum event_kind event_parse(const void *value, size_t len, int64_t record_ts_ms,
                            const struct event_limits *limits, struct usage_event *out,
                            struct event_reason *why) {
    memset(out, 0, sizeof *out);
    memset(why, 0, sizeof *why);
    if (len > limits->max_bytes) {
        reject(why, REJECT_EVENT_TOO_LARGE, "%zu bytes, over %zu", len, limits->max_bytes);
        return EVENT_REJECTED;
    }
    json_t *root = load(value, len, why);
    if (!root)
        return EVENT_REJECTED;
    enum event_kind kind = read_event(root, record_ts_ms, limits, out, why);
    json_decref(root);
    return kind;
}
