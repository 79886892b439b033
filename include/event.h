/* SPDX-License-Identifier: MIT */
/* A usage event as it lies on the topic (CONTRACT §1.1, rules 1–7): bytes in,
 * values or a reason out. Pure: no I/O, no clock. */
#ifndef TALLYD_EVENT_H
#define TALLYD_EVENT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "config.h"

#define EVENT_ID_MAX 191
#define EVENT_APP_MAX 100
#define EVENT_AMOUNT_MAX 9007199254740991LL /* 2^53 - 1: exact in Lua's doubles and in JSON */

/* Why a record is rejected; the names are CONTRACT §1.1's codes. */
enum reject_code {
    REJECT_NONE,
    REJECT_EVENT_TOO_LARGE,
    REJECT_MALFORMED_JSON,
    REJECT_INVALID_FIELD,
    REJECT_EVENT_IN_FUTURE,
    REJECT_EVENT_TOO_OLD,
    REJECT_ID_CONFLICT,
    REJECT_UNKNOWN_FAMILY,
    REJECT_NOT_A_MEMBER,
    REJECT_POLICY_UNREADABLE,
    REJECT_SETTLEMENT_REJECTED,
};

/* "EVENT_TOO_LARGE" … for headers and logs. */
const char *reject_code_name(enum reject_code code);

struct usage_event {
    const char *id; /* borrowed, as is app */
    int64_t family_id;
    int64_t customer_id;
    int64_t bytes_used;
    int64_t time_ms; /* the event's instant */
    int32_t month;   /* yyyymm of it in the zone */
    int16_t hhmm;    /* time of day of it in the zone */
    bool has_app;    /* false: absent, null or blank */
    const char *app; /* trimmed, UTF-8; "" when absent */
};

struct event_limits {
    size_t max_bytes;      /* over it: EVENT_TOO_LARGE */
    int64_t max_future_ms; /* ahead of the record's timestamp */
    int max_past_months;   /* how many months before the record's month are still open */
    int32_t closed_before; /* months below this yyyymm are closed; 0: none */
};

/* The configuration's; months are closed below `closed_before`. */
struct event_limits event_limits_of(const struct config *cfg, int32_t closed_before);

enum event_kind { EVENT_USAGE, EVENT_IGNORED, EVENT_REJECTED };

#define EVENT_MESSAGE_MAX 256

struct event_reason {
    enum reject_code code;
    /* For DLT header and log: names the member for INVALID_FIELD (as
     * "payload.bytesUsed: …"), never quotes the body; printable ASCII, cut at
     * EVENT_MESSAGE_MAX with its NUL. Borrowed; NULL without a reason. */
    const char *message;
};

/* Where parsing puts things. */
struct event_memory {
    struct arena texts; /* what `out` and `why` point at, until the caller resets it */
    struct arena json;  /* empty between calls */
};

void event_memory_free(struct event_memory *m);
/* A reason's text, made in `texts`. */
const char *event_message(struct arena *texts, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

/* Reads one record. `value` may be NULL (a tombstone) and isn't NUL-terminated.
 * `record_ts_ms` is the Kafka record's timestamp, negative when it has none:
 * then of rule 7 only the closed month is checked, and an event without a
 * timestamp of its own is INVALID_FIELD. So is, last of all, a time that a
 * DATETIME can't hold. EVENT_USAGE fills `out`; EVENT_REJECTED fills `why`. */
enum event_kind event_parse(const void *value, size_t len, int64_t record_ts_ms,
                            const struct event_limits *limits, struct event_memory *memory,
                            struct usage_event *out, struct event_reason *why);

/* Rule 6's trimming: ASCII white space (space, \t \n \v \f \r) at both ends.
 * Moves *s forward and returns the new length. Policies trim alike (CONTRACT §4). */
size_t event_trim(const char **s, size_t len);

/* Rule 5's number out of text: digits without sign or leading zero, within
 * min … EVENT_AMOUNT_MAX. */
bool event_amount_parse(const char *s, size_t len, int64_t min, int64_t *out)
    __attribute__((warn_unused_result));

#endif
