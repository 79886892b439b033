/* SPDX-License-Identifier: MIT */
/* The outbox as an operator sees and mends it. A change is one transaction that locks its rows, judges each
 * by what it finds then, and writes under the same condition: it can't come between a relay and the row that
 * it publishes, since that one is leased (DESIGN §6). */
#ifndef TALLYD_OUTBOX_ADMIN_H
#define TALLYD_OUTBOX_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "mysql_db.h"

#define OUTBOX_ADMIN_NEVER (-1) /* of a time: there's none */
/* Rows changed in one transaction. */
#define OUTBOX_ADMIN_PAGE 100
/* What the column last_error takes, less what is written before it. */
#define OUTBOX_ADMIN_REASON_MAX 400

struct outbox_entry {
    int64_t outbox_id, family_id, customer_id;
    char *event_id, *status, *last_error; /* owned; last_error may be NULL */
    char *payload;                        /* owned; NULL where it wasn't asked for */
    int64_t retry_count;
    int64_t lease_owner; /* 0: nobody */
    bool leased;         /* and still */
    int64_t next_retry_ms, lease_until_ms, created_ms, sent_ms, retried_ms;
    int64_t behind;        /* the earlier pending row of its family that it waits for; 0: none */
    int64_t later_sent;    /* later rows of its family that are sent already */
    bool may_be_published; /* the topic may have it, see outbox_admin_may_be_published */
    bool changed;          /* by a change */
    char why[120];         /* why not; "" where nothing was asked */
};

struct outbox_entries {
    struct outbox_entry *items; /* owned */
    size_t count, capacity;
    int64_t now_ms; /* the database's clock, as last read */
};
void outbox_entries_free(struct outbox_entries *e);

struct outbox_filter {
    bool pending, failed, sent;
    int64_t family; /* 0: all */
    int64_t after;  /* rows above this outbox_id */
    int64_t limit;
};

/* Pure: whether the topic may have it, by what the row tells. Of a pending one a relay marks it only after
 * the acknowledgement: a lease, held or run out, is a publish whose end nobody wrote down, and so is an error
 * that it was given up with. A failed one was refused, unless it was skipped in such a doubt. */
bool outbox_admin_may_be_published(const struct outbox_entry *e);

/* Appends the rows of the filter by their number. */
bool outbox_admin_list(struct db *db, const struct outbox_filter *filter, struct outbox_entries *out,
                       struct error *err) __attribute__((warn_unused_result));
/* Appends those of that number or of that event's id, payload included. */
bool outbox_admin_find(struct db *db, const char *id, struct outbox_entries *out, struct error *err)
    __attribute__((warn_unused_result));
/* The alerts that the event of that row stored, as "THRESHOLD:50, THRESHOLD:30"; NULL when there is none.
 * New. */
bool outbox_admin_alerts(struct db *db, const struct outbox_entry *e, char **alerts, struct error *err)
    __attribute__((warn_unused_result));

struct outbox_change {
    bool skip;          /* pending → failed; else failed → pending */
    const char *reason; /* of a skip; borrowed */
    bool force;         /* skips what is leased too */
    bool dry_run;
};
/* Pure: whether the row is to be changed; `why` says why not. */
bool outbox_admin_judge(const struct outbox_change *change, struct outbox_entry *e);
/* Does that to up to OUTBOX_ADMIN_PAGE rows and appends what became of each, found or not. */
bool outbox_admin_change(struct db *db, const struct outbox_change *change, const int64_t *ids, size_t n,
                         struct outbox_entries *out, struct error *err) __attribute__((warn_unused_result));

#endif
