/* SPDX-License-Identifier: MIT */
/* The relay: one thread a process that publishes outbox rows to the
 * notification topic, in order within a family (DESIGN §6). */
#ifndef TALLYD_RELAY_H
#define TALLYD_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "metrics.h"
#include "outbox.h"

struct relay;

/* Starts the thread. `owner` names this start of the process in leases; `cfg`
 * and `metrics` are borrowed. NULL with an error when the producer can't be made. */
struct relay *relay_start(const struct config *cfg, int64_t owner, struct metrics *metrics, struct error *err)
    __attribute__((warn_unused_result));

/* Hands rows over in event order; takes what fits and frees the rest, which
 * waits in the table for the sweep. Any thread. Empties the list. */
void relay_offer(struct relay *r, struct outbox_list *rows);

/* Asks the thread to publish what it has and end; what the brokers haven't
 * acknowledged by the deadline (monotonic ms), or refuse, is left to the sweep
 * of the next start. Any thread. */
void relay_stop(struct relay *r, int64_t deadline_ms);
/* Waits for it until the deadline (monotonic ms) and frees it. False when it
 * didn't end in time: the thread is left running and its memory alone. */
bool relay_join(struct relay *r, int64_t deadline_ms);

#endif
