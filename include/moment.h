/* SPDX-License-Identifier: MIT */
/* A point of time as people write it behind an option. */
#ifndef TALLYD_MOMENT_H
#define TALLYD_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a time as an event's (CONTRACT §1.1 rule 4: in the zone without an offset), a day alone, which is its
 * beginning in the zone, or so long before `now_ms` as 90s, 30m, 24h, 7d, with or without a minus sign. Into
 * milliseconds since 1970, never before that. Pure. */
bool moment_parse(const char *text, int64_t now_ms, int64_t *t_ms) __attribute__((warn_unused_result));

#endif
