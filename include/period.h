/* SPDX-License-Identifier: MIT */
/* Instants, months and times of day in the configured zone (CONTRACT, "Words";
 * §1.1 rule 4). Instants are milliseconds since 1970-01-01T00:00:00Z. A month
 * is the number yyyymm, e.g. 202611. Instants outside the years 1-9999 are seen
 * as the nearest inside. Pure: no clock is read here. */
#ifndef TALLYD_PERIOD_H
#define TALLYD_PERIOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define PERIOD_LOCAL_SIZE 30 /* "2026-11-30T12:00:00.123+09:00" and its NUL */
#define PERIOD_UTC_SIZE 24   /* "2026-11-30 03:00:00.123" and its NUL */
#define PERIOD_DATE_SIZE 11  /* "2026-11-01" and its NUL */

/* Makes `zone` (an IANA name such as Asia/Seoul, or UTC) the zone of the whole
 * process. Call it before threads start; calling it again changes the zone
 * (tests do). False with a config error when the system has no such zone:
 * glibc would silently take UTC. */
bool period_zone_init(const char *zone, struct error *err) __attribute__((warn_unused_result));

/* The month an instant lies in, seen in the zone. */
int32_t period_month(int64_t t_ms);
/* The time of day of an instant in the zone, as hour * 100 + minute. */
int period_hhmm(int64_t t_ms);
/* The month before. */
int32_t period_month_before(int32_t month);
/* The month after. */
int32_t period_month_after(int32_t month);
/* The first instant after the month, in the zone. */
int64_t period_month_end(int32_t month);

/* Reads `YYYY-MM-DDTHH:MM[:SS[.f]][Z|±HH:MM]` (CONTRACT §1.1 rule 4), cut to
 * the millisecond. False when the text isn't of that form or names no real
 * date; years 0001-9999. Without offset it is local time in the zone: where clocks go back the
 * earlier instant, where they skip the offset before. */
bool period_parse(const char *text, size_t len, int64_t *t_ms) __attribute__((warn_unused_result));

/* An instant as local time with offset and three fraction digits (CONTRACT §1.3). */
void period_format_local(int64_t t_ms, char out[PERIOD_LOCAL_SIZE]);
/* An instant as UTC for a DATETIME(3) column. */
void period_format_utc(int64_t t_ms, char out[PERIOD_UTC_SIZE]);
/* An instant as UTC in its parts. */
struct period_utc {
    int year, month, day, hour, minute, second, ms;
};
struct period_utc period_utc(int64_t t_ms);
/* The reverse of period_format_utc; the fraction may be absent or longer (cut). */
bool period_parse_utc(const char *text, int64_t *t_ms) __attribute__((warn_unused_result));
/* A month's first day for a DATE column. */
void period_month_date(int32_t month, char out[PERIOD_DATE_SIZE]);
/* The month of a DATE column's text; 0 when it isn't a date. */
int32_t period_date_month(const char *text);

#endif
