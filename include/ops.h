/* SPDX-License-Identifier: MIT */
/* Housekeeping: one thread a process, with its own connection to MySQL, that does what `tallyd maintain`
 * does, now and every maintain.interval_ms. Nothing waits for it, and an error of its own ends nothing. */
#ifndef TALLYD_OPS_H
#define TALLYD_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "metrics.h"

struct ops;

/* Starts the thread; `cfg` and `metrics` are borrowed. */
struct ops *ops_start(const struct config *cfg, struct metrics *metrics, struct error *err)
    __attribute__((warn_unused_result));
/* Asks it to end, between two transactions at the latest. Any thread. */
void ops_stop(struct ops *o);
/* Waits for it until the deadline (monotonic ms) and frees it. False when it didn't end in time: the thread
 * is left running and its memory alone. */
bool ops_join(struct ops *o, int64_t deadline_ms);

#endif
