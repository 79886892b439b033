/* SPDX-License-Identifier: MIT */
/* A worker: one group member with its settler. It consumes, parses, decides and
 * hands over; it alone touches Redis (DESIGN §2, §3, §5). */
#ifndef TALLYD_WORKER_H
#define TALLYD_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "metrics.h"
#include "notification.h"
#include "recent.h"
#include "relay.h"

struct worker;

/* What workers of a process share. All borrowed. */
struct worker_shared {
    const struct config *cfg;
    const struct messages *messages;
    struct relay *relay;
    struct metrics *metrics;
    struct recent *recent;
    int64_t lease_owner;
};

/* Starts the thread and joins the group. NULL with an error when it can't be made. */
struct worker *worker_start(const struct worker_shared *shared, int number, struct error *err)
    __attribute__((warn_unused_result));

/* Asks it to end: no more polling; what is in flight is settled, until
 * `settle_until_ms` (monotonic), then the group is left, or not, if no broker
 * answers until `close_until_ms`. Any thread. */
void worker_stop(struct worker *w, int64_t settle_until_ms, int64_t close_until_ms);
/* Waits for its end until the deadline and frees it. False: it didn't end in time; it's left running. */
bool worker_join(struct worker *w, int64_t deadline_ms);
/* Up to which offset a partition is settled in this process's present
 * assignment; -1 when this worker doesn't have it. Any thread. */
int64_t worker_settled_to(struct worker *w, int32_t partition);

#endif
