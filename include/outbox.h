/* SPDX-License-Identifier: MIT */
/* The outbox table: rows born in a settlement, claimed, sent or failed by a
 * relay (CONTRACT §1.3, §4, §5.6; DESIGN §6). Leases go by the database's clock. */
#ifndef TALLYD_OUTBOX_H
#define TALLYD_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "config.h"
#include "error.h"
#include "mysql_db.h"

struct outbox_row {
    int64_t outbox_id;
    int64_t family_id;
    char *event_id;     /* owned */
    char *payload_json; /* owned */
    char *traceparent;  /* owned; NULL: its event named no trace */
    int64_t created_at_ms;
    int retry_count;
    int64_t lease_end_ms;    /* monotonic clock: the lease surely holds until then */
    struct outbox_row *next; /* in a list */
};

void outbox_row_free(struct outbox_row *r);
void outbox_list_free(struct outbox_row *list);

/* A list with its tail, to append in order. Zeroed: empty. */
struct outbox_list {
    struct outbox_row *head, *tail;
    size_t count;
};
void outbox_list_push(struct outbox_list *l, struct outbox_row *r); /* steals r */
struct outbox_row *outbox_list_pop(struct outbox_list *l);          /* NULL when empty; the caller owns it */

/* Sets `first_pending` of n families (distinct, ascending): the lowest
 * outbox_id that is PUBLISH_PENDING, whoever leases it; 0 for none. */
bool outbox_first_pending(struct db *db, const int64_t *families, size_t n, int64_t *first_pending,
                          struct error *err) __attribute__((warn_unused_result));

/* Leases up to `limit` pending rows whose lease ran out and whose retry is due,
 * and that are the first pending ones of their family, in order of outbox_id, and appends them. One process
 * at a time: `*busy` says that another one is at it. */
bool outbox_claim(struct db *db, const struct config *cfg, int64_t owner, size_t limit,
                  struct outbox_list *out, bool *busy, struct error *err) __attribute__((warn_unused_result));

/* Marks rows SENT, those only whose lease the owner still holds, and that are these events' still: in a
 * database put back to an older state an id may be another one's by now. `marked` counts them. */
bool outbox_mark_sent(struct db *db, int64_t owner, const int64_t *ids, const char *const *event_ids,
                      size_t n, int64_t *marked, struct error *err) __attribute__((warn_unused_result));
/* Ends such a row for good, with its error. */
bool outbox_mark_failed(struct db *db, int64_t owner, int64_t id, const char *event_id, const char *why,
                        struct error *err) __attribute__((warn_unused_result));
/* Gives the rows' leases up; with `retry_in_ms` > 0 they are due again only after it. `count_try`: it was a
 * try that failed for a reason of the row's own; `why` (may be NULL) is recorded. */
bool outbox_release(struct db *db, int64_t owner, const int64_t *ids, size_t n, int64_t retry_in_ms,
                    bool count_try, const char *why, struct error *err) __attribute__((warn_unused_result));
/* Ends every lease of the owner, at shutdown. Whose it was stays: some may have been published and not
 * marked, when the database was away, which an operator who skips them has to know. */
bool outbox_release_all(struct db *db, int64_t owner, struct error *err) __attribute__((warn_unused_result));
/* The pending rows of these events that the owner holds, in order, with what is left of their leases. */
bool outbox_find_held(struct db *db, int64_t owner, const char *const *event_ids, size_t n,
                      struct outbox_list *out, struct error *err) __attribute__((warn_unused_result));
/* Rows that are PUBLISH_PENDING, counted up to `limit`. */
bool outbox_pending(struct db *db, int64_t limit, int64_t *count, struct error *err)
    __attribute__((warn_unused_result));

#endif
