/* SPDX-License-Identifier: MIT */
/* The consumer ledger: who owns a partition, how far it is settled, and what
 * became of its records (CONTRACT §4, §5.4; DESIGN §4 step 1, §5). */
#ifndef TALLYD_LEDGER_H
#define TALLYD_LEDGER_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

#include "batch.h"
#include "config.h"
#include "error.h"
#include "mysql_db.h"

/* Takes the partitions for a new owner number and finds where each is to start:
 * the lower of Kafka's committed offset and the ledger's. The first member of a
 * group that was never here makes rows for all partitions of the topic, so that
 * later ones don't take a new group for a topic that grew. Waits for whatever
 * the predecessor has in flight. Returns a new assignment whose positions are
 * set; parts whose log and ledger disagree are `stopped`, and logged; those that
 * an operator paused say since when. NULL with
 * an error when a store can't be asked: try again. */
struct assignment *ledger_claim(struct db *db, rd_kafka_t *rk, const struct config *cfg, const int32_t *ids,
                                size_t n, struct error *err) __attribute__((warn_unused_result));

/* The month below which events are too old (usage_floor). */
bool ledger_floor(struct db *db, int32_t *closed_before, struct error *err)
    __attribute__((warn_unused_result));

/* Appends the condition that finds the rows of the configured group and topic. The handle must be connected.
 */
void ledger_where(struct db *db, struct buf *sql, const struct config *cfg);

/* A row's column: since when it's paused, in milliseconds since 1970; 0 where it isn't. Whoever paused it by
 * hand without saying since when did so now. */
#define LEDGER_PAUSED_SINCE                                                                                  \
    "IF(paused = 0, 0, CAST(UNIX_TIMESTAMP(COALESCE(paused_since, UTC_TIMESTAMP(3))) * 1000 AS SIGNED))"

/* How step 1 of a settlement went. */
enum ledger_step {
    LEDGER_ADVANCED,  /* the rows are locked, and say the batch is settled once the transaction commits */
    LEDGER_COMMITTED, /* an earlier attempt had committed before its reply was lost */
    LEDGER_FENCED,    /* somebody else owns a partition, or the database is another one than before */
    LEDGER_FAILED,    /* `err` says why */
};

/* Counts of a batch for one span, at first passage of each offset. */
struct ledger_counts {
    int64_t settled, blocked, duplicate, rejected, ignored, gap;
};

/* Counts the outcomes of the span's records at or above the part's next_offset. */
struct ledger_counts ledger_count(const struct batch *b, const struct batch_span *span);

/* Within the settlement's transaction, first: one UPDATE that moves every span's row, or finds that they
 * aren't all as this owner left them; then nothing of the transaction may be committed. */
enum ledger_step ledger_advance(struct db *db, const struct config *cfg, struct batch *b, struct error *err);

/* After COMMIT: takes the new batch_no and next_offset over into the parts. */
void ledger_committed(struct batch *b);

#endif
