/* SPDX-License-Identifier: MIT */
/* Runs the decision script over events, in order, pipelined (DESIGN §3). */
#ifndef TALLYD_DECIDE_H
#define TALLYD_DECIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "config.h"
#include "error.h"
#include "redis.h"

/* What came back for one event besides a decision. */
enum decide_answer {
    DECIDE_DONE,       /* event.decision is filled */
    DECIDE_COLD,       /* its family's month must be warmed; nothing was changed */
    DECIDE_NOT_MEMBER, /* the warm family has no such customer; nothing was changed */
    DECIDE_KNOWN, /* Redis has seen the id, under other figures or an older warming: look it up; nothing was
                     changed */
    DECIDE_UNREADABLE, /* a rule of that customer couldn't be read; nothing was changed */
};

struct decider; /* holds the buffers; one a worker */

/* `cfg` and `redis` are borrowed. */
struct decider *decider_new(const struct config *cfg, struct redis *redis);
void decider_free(struct decider *d);

/* Runs the script for events[indexes[0 … n-1]] in that order; answers go to
 * `answers` (n of them). `now_s` is the wall clock, for the cache's age. Where
 * the script cache was lost in mid-way the affected events answer DECIDE_COLD,
 * after the scripts were loaded again. After an error nothing is known about
 * any of them: run the same call again. */
bool decider_run(struct decider *d, struct batch *b, const size_t *indexes, size_t n, int64_t now_s,
                 enum decide_answer *answers, struct error *err) __attribute__((warn_unused_result));

/* The thresholds as "10,30,50" and their cut-offs for a total as "10:100 30:300 50:500" (DESIGN §3). */
void decide_thresholds_text(struct buf *out, const struct config *cfg);
void decide_cuts_text(struct buf *out, const struct config *cfg, int64_t total_bytes);

/* Whether a decision is the one its own figures lead to (CONTRACT §2): Redis
 * could hold anything, and MySQL validates figures, not the status. */
bool decide_is_consistent(const struct config *cfg, const struct usage_event *u, const struct decision *d);

/* Reads the script's text reply into `out`. False when it isn't of the documented form. */
bool decide_parse_reply(const char *text, size_t len, struct decision *out)
    __attribute__((warn_unused_result));

#endif
