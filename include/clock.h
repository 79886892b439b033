/* SPDX-License-Identifier: MIT */
/* The monotonic clock, for deadlines, pauses and durations; the wall clock, to hold records' timestamps
 * against. */
#ifndef TALLYD_CLOCK_H
#define TALLYD_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Milliseconds since some fixed point; never steps. */
int64_t clock_monotonic_ms(void);
/* The same in microseconds. */
int64_t clock_monotonic_us(void);
/* Milliseconds since 1970; steps. */
int64_t clock_wall_ms(void);
/* A point of clock_monotonic_ms as what pthread_cond_timedwait takes, for conditions made by clock_cond_init.
 */
struct timespec clock_timespec(int64_t at_ms);
/* A condition whose time-outs go by the monotonic clock. */
void clock_cond_init(pthread_cond_t *cond);
void clock_sleep_ms(int64_t ms);

#endif
