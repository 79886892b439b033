/* SPDX-License-Identifier: MIT */
/* Prunes what nobody needs any more: outbox rows that were sent long ago, and the events of months that
 * are closed. Months are closed first, which is committed before anything of theirs goes: a settlement reads
 * usage_floor under a shared lock, so from then on none can add to them (DESIGN §4). Of a closed month the
 * quotas, sums and told alerts stay; rows that are pending or failed are never touched. A month isn't closed
 * while events of it may wait on a paused partition or unread (backlog.h).
 *
 * Everything goes in small transactions, each with a pause behind it, that lock no row but those that they
 * delete. How far it is stands in the table `maintenance`, so that it goes on there after a restart. */
#ifndef TALLYD_MAINTAIN_H
#define TALLYD_MAINTAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backlog.h"
#include "config.h"
#include "error.h"
#include "mysql_db.h"

/* What went of one month, or would. */
struct maintain_month {
    int32_t month;
    int64_t records, blocks;
};

struct maintain_report {
    bool busy;              /* another process is at it: nothing was done */
    bool stopped;           /* the pause said to end: there may be more */
    int64_t sent_before_ms; /* rows sent before this; 0: none go */
    int64_t sent_rows;
    int32_t floor_before;   /* usage_floor as it was found */
    int32_t floor;          /* and as it is now, or would be */
    int32_t months_before;  /* events of months before this one go; 0: none do */
    bool paused;            /* more months would go, but for a paused partition */
    struct backlog backlog; /* more would go, but for what isn't read yet */
    int64_t record_rows, block_rows;
    struct maintain_month *months; /* owned */
    size_t month_count;
};
void maintain_report_free(struct maintain_report *r);
/* Why months stay open that would be closed else: "paused", "backlog", "unknown", "not begun"; NULL: none
 * do. */
const char *maintain_held_by(const struct maintain_report *r);

/* Called between two transactions; returns false to end it there. */
typedef bool maintain_pause_fn(void *ctx, int64_t ms);

/* Does all that is due, by the database's clock; where the own one is behind, months go by that. With
 * `dry_run` it only counts. False with an error: what was done until then stands, and is in the report. */
bool maintain_run(struct db *db, const struct config *cfg, bool dry_run, maintain_pause_fn *pause, void *ctx,
                  struct maintain_report *r, struct error *err) __attribute__((warn_unused_result));

/* Until when outbox rows that were sent may be gone (UTC ms); 0: none are. */
bool maintain_sent_before(struct db *db, int64_t *sent_before_ms, struct error *err)
    __attribute__((warn_unused_result));

#endif
