/* SPDX-License-Identifier: MIT */
/* The ledger's rows as commands and other threads see them, and what an operator
 * may change in them. How a worker claims and advances them: ledger.h. */
#ifndef TALLYD_LEDGER_ROWS_H
#define TALLYD_LEDGER_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "mysql_db.h"

struct ledger_row {
    int32_t partition;
    int64_t owner, batch_no;
    int64_t first_offset, next_offset;
    int64_t settled, blocked, duplicate, rejected, ignored, gap;
    int64_t paused_since_ms; /* since 1970; 0: not paused */
    int64_t last_ms;         /* the timestamp of the last record counted; 0: none was, or it had none */
};

/* Pure: where a claim would start a partition (DESIGN §5) whose log begins at `low`: at the lower of what the
 * group has committed and the ledger's next_offset, each -1 where there is none. Without a row it's the log's
 * start; but a group that has none at all gets its rows by its first start, at what is committed then. */
int64_t ledger_start(int64_t low, int64_t committed, int64_t next_offset, bool group_known);

/* The rows of the configured group and topic, by partition: a new array of `*n`, freed by the caller; NULL
 * when there are none. */
bool ledger_rows_read(struct db *db, const struct config *cfg, struct ledger_row **rows, size_t *n,
                      struct error *err) __attribute__((warn_unused_result));
/* The same, of those paused only. */
bool ledger_rows_paused(struct db *db, const struct config *cfg, struct ledger_row **rows, size_t *n,
                        struct error *err) __attribute__((warn_unused_result));

/* Pauses these partitions, which have rows, or ends that. What is as wanted keeps its time. */
bool ledger_rows_pause(struct db *db, const struct config *cfg, const int32_t *partitions, size_t n,
                       bool paused, struct error *err) __attribute__((warn_unused_result));

/* A partition that has no row yet, and where its row is to begin. */
struct ledger_begin {
    int32_t partition;
    int64_t offset;
};

/* Makes these rows, of that owner; one that's there already stays as it is. Within the caller's transaction,
 * or a statement of its own. */
bool ledger_rows_begin(struct db *db, const struct config *cfg, const struct ledger_begin *begins, size_t n,
                       int64_t owner, struct error *err) __attribute__((warn_unused_result));
/* Makes rows as a first claim would, owned by nobody, and pauses these partitions, all or nothing: whoever
 * claims a row finds it paused. A row that somebody has made meanwhile stays as it is, but for that. */
bool ledger_rows_begin_paused(struct db *db, const struct config *cfg, const struct ledger_begin *begins,
                              size_t n, const int32_t *paused, size_t paused_count, struct error *err)
    __attribute__((warn_unused_result));

/* A partition whose unsettled offsets below `to` are to count as gap. */
struct ledger_skip {
    int32_t partition;
    int64_t from; /* the row's next_offset; where there is no row, the first offset it will have */
    int64_t to;
    bool has_row;
    int64_t owner, batch_no; /* the row's, as they were read */
};

/* Skips, all or nothing, by a new owner number, so that whoever claimed the rows before settles nothing any
 * more. A row that isn't as it was read any more is an error: somebody claimed it or went on. */
bool ledger_rows_skip(struct db *db, const struct config *cfg, const struct ledger_skip *skips, size_t n,
                      struct error *err) __attribute__((warn_unused_result));

#endif
