/* SPDX-License-Identifier: MIT */
/* Warming: replaces a family's month in Redis from one consistent read of MySQL (DESIGN §3). */
#ifndef TALLYD_WARM_H
#define TALLYD_WARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "config.h"
#include "error.h"
#include "mysql_db.h"
#include "redis.h"

struct warmer; /* one a worker */

/* `db` must be a REPEATABLE READ connection. All are borrowed. */
struct warmer *warmer_new(const struct config *cfg, struct db *db, struct redis *redis);
void warmer_free(struct warmer *w);

/* Warms every dirty group of the batch, whose ids must have been looked up, and
 * ends the events that MySQL has no place for: UNKNOWN_FAMILY, NOT_A_MEMBER,
 * POLICY_UNREADABLE. Makes the month's carried-over family_quota row where one
 * of the events is a member's. Warmed groups are no longer dirty, `warmed` and
 * `void_decisions` are set: their live events are to be decided from the start.
 * A rejection may promote a twin and so dirty another group: call until none is.
 * `now_s` is the wall clock. After an error the groups not yet warmed stay dirty. */
bool warmer_warm(struct warmer *w, struct batch *b, int64_t now_s, struct error *err)
    __attribute__((warn_unused_result));

/* Ends the live events of dirty and suspect groups that MySQL has no place for,
 * without warming: a flood of them must not make the others wait. Groups that
 * have undecided events left are dirty afterwards, the others aren't. */
bool warmer_weed_out(struct warmer *w, struct batch *b, struct error *err)
    __attribute__((warn_unused_result));

/* Deletes the `info` of the batch's families' months: what was decided for a batch that isn't
 * settled here any more leaves no trace, and whoever has them now warms them when they're next needed. */
bool warmer_forget(struct warmer *w, const struct batch *b, struct error *err)
    __attribute__((warn_unused_result));

/* Families' months warmed and queries run, since the start. */
int64_t warmer_warmed(const struct warmer *w);

#endif
