/* SPDX-License-Identifier: MIT */
/* Which event ids MySQL holds already (CONTRACT §1.1 rule 8). */
#ifndef TALLYD_KNOWN_H
#define TALLYD_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "error.h"
#include "mysql_db.h"

/* Looks the ids of events[indexes[0 … n-1]] up in usage_record and usage_block.
 * Known ones end as duplicate or ID_CONFLICT; the others get `looked_up`. The
 * indexes may be put in another order. `found` (may be NULL) counts the known. */
bool known_look_up(struct db *db, struct batch *b, size_t *indexes, size_t n, size_t *found,
                   struct error *err) __attribute__((warn_unused_result));

/* A row that holds an id. */
struct known_row {
    bool blocked;
    int64_t family, customer, bytes;
};
typedef void known_take_fn(void *ctx, struct batch *b, size_t index, const struct known_row *row);
/* Looks them up likewise, and only says what was found; `indexes` may be put in another order. */
bool known_rows(struct db *db, struct batch *b, size_t *indexes, size_t n, known_take_fn *take, void *ctx,
                struct error *err) __attribute__((warn_unused_result));

/* Appends a table `j` with those ids as its column `id`, to be joined by key (STRAIGHT_JOIN): ids in an IN
 * list cost three times as much, and a long list scans the whole index. */
void known_append_ids(struct buf *sql, const struct batch *b, const size_t *indexes, size_t n);
/* The same for ids as texts. */
void known_append_texts(struct buf *sql, char *const *ids, size_t n);

#endif
