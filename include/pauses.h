/* SPDX-License-Identifier: MIT */
/* Which partitions an operator has paused: a thread, one a process, reads it from
 * the ledger every second and hands it to the workers. While MySQL is away what
 * was known last holds. */
#ifndef TALLYD_PAUSES_H
#define TALLYD_PAUSES_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "error.h"

struct pauses;

/* Starts the thread. `cfg` is borrowed. */
struct pauses *pauses_start(const struct config *cfg, struct error *err) __attribute__((warn_unused_result));
/* Asks it to end. */
void pauses_stop(struct pauses *p);
/* Waits for its end until the deadline (monotonic) and frees it; NULL has ended. False: it didn't end in
 * time; it's left running. */
bool pauses_join(struct pauses *p, int64_t deadline_ms);

/* When the last look at the ledger that succeeded began, by clock_monotonic_ms; 0: none did yet. What a
 * claim has read later holds against it. Any thread. */
int64_t pauses_looked_ms(struct pauses *p);
/* Since when the partition is paused, in milliseconds since 1970; 0: it isn't. Any thread. */
int64_t pauses_since(struct pauses *p, int32_t partition);

#endif
