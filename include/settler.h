/* SPDX-License-Identifier: MIT */
/* The settler: a worker's second thread, which commits batch k while the worker
 * decides batch k+1 (DESIGN §2). One slot: a batch is handed over, settled or
 * found wanting, and comes back to the worker. */
#ifndef TALLYD_SETTLER_H
#define TALLYD_SETTLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "batch.h"
#include "config.h"
#include "error.h"
#include "metrics.h"
#include "notification.h"
#include "recent.h"
#include "relay.h"
#include "settle.h"

enum settler_result {
    SETTLER_DONE,      /* settled; store its offsets */
    SETTLER_CAME_BACK, /* dirty groups are to be decided again */
    SETTLER_REFUSED,   /* MySQL refuses an event's data: `err` says what it said */
    SETTLER_FENCED,    /* the partitions are somebody else's */
    SETTLER_DROPPED,   /* the assignment was lost, or the deadline came: nothing of it is settled */
};

struct settler;

/* Starts the thread. Everything is borrowed. */
struct settler *settler_start(const struct config *cfg, const struct messages *messages, struct relay *relay,
                              int64_t lease_owner, struct metrics *metrics, struct recent *recent,
                              struct error *err) __attribute__((warn_unused_result));

/* Hands a batch over; the slot must be empty. The settler owns it until it's taken back. */
void settler_put(struct settler *s, struct batch *b);
/* The batch in the slot, NULL when empty; still the settler's. */
const struct batch *settler_busy_with(const struct settler *s);
/* Whether a batch is in its hands; one that is done and waits to be taken isn't. */
bool settler_is_working(struct settler *s);
/* Has `wake` called whenever a batch is done, by the settler's thread. NULL: not any more, once this
 * returned. */
void settler_on_done(struct settler *s, void (*wake)(void *ctx), void *ctx);
/* Waits up to `wait_ms` for the batch to be done; then empties the slot, fills
 * `result` and (for SETTLER_REFUSED) `err`, and returns it. NULL: not yet, or nothing there. */
struct batch *settler_take(struct settler *s, int64_t wait_ms, enum settler_result *result,
                           struct error *err);
/* The month below which events are too old, as last read from usage_floor. Any thread. */
int32_t settler_closed_before(const struct settler *s);
/* Forgets which alerts were seen, on assignment, and takes the floor as read then. The slot must be empty. */
void settler_new_assignment(struct settler *s, int32_t closed_before);
/* Lets a batch that can't be settled go (SETTLER_DROPPED) instead of trying on. Any thread. */
void settler_abandon(struct settler *s);
/* Ends the thread, whose slot must be empty, and frees everything. */
void settler_stop(struct settler *s);

#endif
