/* SPDX-License-Identifier: MIT */
/* What a batch that is settled adds to the counters and to what was last. */
#ifndef TALLYD_TALLY_H
#define TALLYD_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "metrics.h"
#include "recent.h"

/* Once a batch, when it's committed. `alerted`: indexes of the events whose alerts it stored. `now_ms` is the
 * wall clock. `ends` has a number an enum outcome, to which its events are added. */
void tally_batch(struct metrics *m, struct recent *recent, const struct batch *b, const size_t *alerted,
                 size_t alerted_count, int64_t now_ms, int64_t *ends);

#endif
