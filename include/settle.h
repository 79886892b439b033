/* SPDX-License-Identifier: MIT */
/* The settlement: one MySQL transaction a batch that validates, in the very
 * statements that write, that MySQL's figures are the ones the decisions
 * started from (CONTRACT §4, §5; DESIGN §4). */
#ifndef TALLYD_SETTLE_H
#define TALLYD_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "batch.h"
#include "config.h"
#include "dlt.h"
#include "error.h"
#include "metrics.h"
#include "mysql_db.h"
#include "mysql_insert.h"
#include "notification.h"
#include "outbox.h"
#include "seen.h"

enum settle_result {
    SETTLE_DONE,      /* committed: outcomes are final */
    SETTLE_CAME_BACK, /* nothing written: dirty groups are to be warmed and decided again */
    SETTLE_REFUSED,   /* nothing written: MySQL refuses the data of some event */
    SETTLE_FENCED,    /* somebody else owns a partition: drop everything in hand */
    SETTLE_FAILED,    /* `err` says why; the same batch again, unchanged */
};

/* Everything an attempt needs; owned by the settler thread. */
struct settle {
    const struct config *cfg;        /* borrowed */
    const struct messages *messages; /* borrowed */
    struct db *db;                   /* borrowed; READ COMMITTED */
    struct dlt *dlt;                 /* borrowed */
    struct metrics *metrics;         /* borrowed */
    int64_t lease_owner;             /* this start of the process: rows are born leased to it */
    struct seen told;                /* alerts seen in alert_state; cleared on assignment */
    struct buf to_remember;          /* names of those that will be once the attempt is committed */
    size_t *alerted, alerted_count;  /* owned: events whose alerts the last attempt stored, as they came */
    int32_t closed_before;           /* usage_floor, as last read */
    bool maybe_committed;            /* the last COMMIT wasn't acknowledged */
    struct insert insert;            /* rows of the statement at hand */
    struct error duplicate;          /* why an id counts as known, in this attempt; none: it was found */
    struct outbox_list born;         /* rows of the last commit, in event order; the caller takes them */
};

/* One attempt. On SETTLE_DONE events' outcomes are OUTCOME_SETTLED, _BLOCKED and
 * so on, `born` holds the outbox rows and `alerted` says whose they are. On SETTLE_CAME_BACK and
 * SETTLE_REFUSED known ids are sorted out already. A lost reply to COMMIT is
 * SETTLE_FAILED; the next attempt finds out by the ledger. */
enum settle_result settle_batch(struct settle *s, struct batch *b, struct error *err);

/* An alert that a decision calls for, with the event that calls first. Used by
 * settle.c and settle_alerts.c only. */
bool settle_alerts(struct settle *s, const struct batch *b, int64_t now_ms, struct error *err)
    __attribute__((warn_unused_result));
/* After a COMMIT whose reply was lost went through: finds the outbox rows it made. Rows it doesn't find wait
 * for the sweep. */
void settle_alerts_find_born(struct settle *s, const struct batch *b);
/* After COMMIT: what the transaction wrote or found in alert_state counts as seen. */
void settle_alerts_remember(struct settle *s);

/* Frees what it owns; what is borrowed stays. */
void settle_deinit(struct settle *s);

#endif
