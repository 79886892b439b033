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
#include "pauses.h"
#include "recent.h"
#include "relay.h"

struct worker;

/* What workers of a process share. All borrowed. */
struct worker_shared {
    const struct config *cfg;
    const struct messages *messages;
    struct relay *relay;
    struct pauses *pauses;
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

/* Where a member stands with its group. */
enum worker_state {
    WORKER_JOINING,  /* the group hasn't given it anything since it joined, or took everything back */
    WORKER_IDLE,     /* a member without partitions: there are more members than partitions */
    WORKER_CLAIMING, /* partitions were given, and are to be claimed in the ledger before any is read */
    WORKER_READING,  /* they are open */
};

struct worker_status {
    enum worker_state state;
    int64_t since_ms; /* in this state, by clock_monotonic_ms */
    size_t given;     /* partitions that the group gave, open or not */
};

/* A partition that is open. */
struct worker_partition {
    int32_t id;
    int64_t settled_to;      /* everything below is settled */
    int64_t paused_since_ms; /* an operator paused it then, since 1970; 0: it isn't paused */
    bool stopped;            /* not read: the log and the ledger disagree */
};

/* How the worker stands, and its open partitions, at most `max` of them, into `out`. Returns how many there
 * are; 0 in any state but WORKER_READING. `status` may be NULL. Any thread. */
size_t worker_partitions(struct worker *w, struct worker_status *status, struct worker_partition *out,
                         size_t max);
/* "joining", "idle", "claiming", "reading". */
const char *worker_state_name(enum worker_state state);

#endif
