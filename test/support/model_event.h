/* SPDX-License-Identifier: MIT */
/* CONTRACT §1.1, checks 1 to 6 and the first half of 7: what a record says by
 * itself; and the calendar as the zone Asia/Seoul sees it. */
#ifndef MODEL_EVENT_H
#define MODEL_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_AMOUNT_MAX INT64_C(9007199254740991)

struct model_event {
    char *id;
    int64_t family;
    int64_t customer;
    int64_t bytes;
    char *app; /* trimmed; NULL: none */
    int64_t time_ms;
};

enum model_reading { MODEL_USAGE, MODEL_OTHER_TYPE, MODEL_UNREADABLE };

/* Reads a value (NULL: a tombstone). MODEL_UNREADABLE: `code` says why, and
 * `member` names the field or is NULL. Whatever comes out, model_event_free it. */
enum model_reading model_event_read(const char *value, size_t len, int64_t record_ms,
                                    struct model_event *event, const char **code, const char **member);
void model_event_free(struct model_event *event);

/* Digits without sign or leading zero, at least `least`; false when it's none of these. */
bool model_digits(const char *text, size_t len, int64_t least, int64_t *out);
/* Cuts ASCII white space off both ends. New. */
char *model_trimmed(const char *text);

/* Months counted from the year 0, as the zone sees the instant. */
int model_month(int64_t t_ms);
/* The instant a month begins in the zone. */
int64_t model_month_start(int month);
/* "2026-11-01"; its first seven are the month. */
void model_month_date(int month, char out[16]);
/* Minutes after midnight in the zone. */
int model_minute(int64_t t_ms);
/* "2026-11-30T12:00:00.123", as the zone's clocks show it. */
void model_time_local(int64_t t_ms, char out[40]);
/* "2026-11-30 03:00:00.123" in UTC. */
void model_time_utc(int64_t t_ms, char out[40]);

#endif
