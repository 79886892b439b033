/* SPDX-License-Identifier: MIT */
#include "outbox_admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "period.h"

/* Another transaction may hold a row for a moment. */
#define LOCK_TRIES 3
/* How last_error begins of a row that was skipped. */
#define SKIPPED "skipped by an operator: "
#define SKIPPED_IN_DOUBT "skipped by an operator, may have been sent: "

static void entry_free(struct outbox_entry *e) {
    free(e->event_id);
    free(e->status);
    free(e->last_error);
    free(e->payload);
}

static void truncate_to(struct outbox_entries *e, size_t count) {
    while (e->count > count)
        entry_free(&e->items[--e->count]);
}

void outbox_entries_free(struct outbox_entries *e) {
    truncate_to(e, 0);
    free(e->items);
    *e = (struct outbox_entries){0};
}

static struct outbox_entry *add_entry(struct outbox_entries *out) {
    if (out->count == out->capacity) {
        out->capacity = out->capacity ? out->capacity * 2 : 64;
        out->items = mem_realloc(out->items, out->capacity * sizeof *out->items);
    }
    out->items[out->count] = (struct outbox_entry){0};
    return &out->items[out->count++];
}

static bool begins(const char *text, const char *with) {
    return text && strncmp(text, with, strlen(with)) == 0;
}

bool outbox_admin_may_be_published(const struct outbox_entry *e) {
    if (strcmp(e->status, "SENT") == 0 || e->lease_owner != 0 || e->leased)
        return true;
    if (strcmp(e->status, "FAILED") == 0)
        return begins(e->last_error, SKIPPED_IN_DOUBT);
    return e->last_error && !begins(e->last_error, SKIPPED);
}

/* ---- reading ---- */

/* Subqueries by the index on status and family, whose end is the primary key. */
#define OF_ITS_FAMILY(name, state)                                                                           \
    "FROM usage_event_outbox " name " FORCE INDEX (usage_event_outbox_family) WHERE " name                   \
    ".status = '" state "' AND " name ".family_id = o.family_id AND " name ".outbox_id "

#define COLUMNS                                                                                              \
    "o.outbox_id, o.event_id, o.family_id, o.customer_id, o.status, o.retry_count, o.next_retry_at, "        \
    "o.last_error, o.lease_owner, o.lease_until, o.lease_until > UTC_TIMESTAMP(3), o.created_at, "           \
    "o.sent_at, o.retried_at, UTC_TIMESTAMP(3), "                                                            \
    "IF(o.status = 'PUBLISH_PENDING', (SELECT e.outbox_id " OF_ITS_FAMILY(                                   \
        "e", "PUBLISH_PENDING") "< o.outbox_id ORDER BY e.outbox_id LIMIT 1), NULL), "                       \
                                "IF(o.status = 'FAILED', (SELECT COUNT(*) " OF_ITS_FAMILY(                   \
                                    "l", "SENT") "> o.outbox_id), 0), "

static char *text_of(const struct db_rows *rows, int column) {
    return rows->row[column] ? mem_strdup(rows->row[column]) : NULL;
}

static void take_row(const struct db_rows *rows, struct outbox_entries *out) {
    struct outbox_entry *e = add_entry(out);
    e->outbox_id = db_i64(rows, 0, 0);
    e->event_id = mem_strdup(rows->row[1]);
    e->family_id = db_i64(rows, 2, 0);
    e->customer_id = db_i64(rows, 3, 0);
    e->status = mem_strdup(rows->row[4]);
    e->retry_count = db_i64(rows, 5, 0);
    e->next_retry_ms = db_utc_ms(rows, 6, OUTBOX_ADMIN_NEVER);
    e->last_error = text_of(rows, 7);
    e->lease_owner = db_i64(rows, 8, 0);
    e->lease_until_ms = db_utc_ms(rows, 9, OUTBOX_ADMIN_NEVER);
    e->leased = db_i64(rows, 10, 0) != 0;
    e->created_ms = db_utc_ms(rows, 11, OUTBOX_ADMIN_NEVER);
    e->sent_ms = db_utc_ms(rows, 12, OUTBOX_ADMIN_NEVER);
    e->retried_ms = db_utc_ms(rows, 13, OUTBOX_ADMIN_NEVER);
    out->now_ms = db_utc_ms(rows, 14, OUTBOX_ADMIN_NEVER);
    e->behind = db_i64(rows, 15, 0);
    e->later_sent = db_i64(rows, 16, 0);
    e->payload = text_of(rows, 17);
    e->may_be_published = outbox_admin_may_be_published(e);
}

static bool take_rows(struct db *db, const struct buf *sql, struct outbox_entries *out, struct error *err) {
    struct db_rows rows;
    bool ok = db_query(db, sql, &rows, err);
    while (ok && db_next(&rows))
        take_row(&rows, out);
    db_rows_free(&rows);
    return ok;
}

/* One status, in the order of an index. */
static void append_some(struct buf *sql, const struct outbox_filter *f, const char *status) {
    buf_str(sql, sql->len ? " UNION ALL (SELECT " : "(SELECT ");
    buf_str(sql, COLUMNS "NULL FROM usage_event_outbox o FORCE INDEX ");
    buf_printf(sql, "(%s) WHERE o.status = '%s' AND o.outbox_id > %lld",
               f->family ? "usage_event_outbox_family" : "usage_event_outbox_status", status,
               (long long)f->after);
    if (f->family)
        buf_printf(sql, " AND o.family_id = %lld", (long long)f->family);
    buf_printf(sql, " ORDER BY o.outbox_id LIMIT %lld)", (long long)f->limit);
}

bool outbox_admin_list(struct db *db, const struct outbox_filter *filter, struct outbox_entries *out,
                       struct error *err) {
    struct buf sql = {0};
    if (filter->pending)
        append_some(&sql, filter, "PUBLISH_PENDING");
    if (filter->failed)
        append_some(&sql, filter, "FAILED");
    if (filter->sent)
        append_some(&sql, filter, "SENT");
    buf_printf(&sql, " ORDER BY 1 LIMIT %lld", (long long)filter->limit);
    bool ok = db_ensure(db, err) && take_rows(db, &sql, out, err);
    buf_free(&sql);
    return ok;
}

bool outbox_admin_find(struct db *db, const char *id, struct outbox_entries *out, struct error *err) {
    struct buf sql = {0};
    if (!db_ensure(db, err))
        return false;
    buf_str(&sql, "SELECT " COLUMNS "o.payload_json FROM usage_event_outbox o WHERE o.event_id = ");
    db_quote(db, &sql, id, strlen(id));
    if (strspn(id, "0123456789") == strlen(id) && strlen(id) < 19)
        buf_printf(&sql,
                   " UNION SELECT " COLUMNS "o.payload_json FROM usage_event_outbox o WHERE o.outbox_id = %s",
                   id);
    buf_str(&sql, " ORDER BY 1");
    bool ok = take_rows(db, &sql, out, err);
    buf_free(&sql);
    return ok;
}

bool outbox_admin_alerts(struct db *db, const struct outbox_entry *e, char **alerts, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    *alerts = NULL;
    buf_printf(&sql,
               "SELECT GROUP_CONCAT(DISTINCT alert ORDER BY alert SEPARATOR ', ') FROM alert_state WHERE "
               "family_id = %lld AND customer_id = %lld AND event_id = ",
               (long long)e->family_id, (long long)e->customer_id);
    db_quote(db, &sql, e->event_id, strlen(e->event_id));
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (ok && db_next(&rows))
        *alerts = text_of(&rows, 0);
    db_rows_free(&rows);
    return ok;
}

/* ---- changing ---- */

/* By the primary key alone, like the relay's statements. */
static bool lock_rows(struct db *db, const int64_t *ids, size_t n, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_str(&sql, "SELECT outbox_id FROM usage_event_outbox FORCE INDEX (PRIMARY) WHERE outbox_id IN ");
    db_append_list(&sql, ids, n);
    buf_str(&sql, " ORDER BY outbox_id FOR UPDATE");
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    db_rows_free(&rows);
    return ok;
}

static bool read_rows(struct db *db, const int64_t *ids, size_t n, struct outbox_entries *out,
                      struct error *err) {
    struct buf sql = {0};
    buf_str(&sql,
            "SELECT " COLUMNS "NULL FROM usage_event_outbox o FORCE INDEX (PRIMARY) WHERE o.outbox_id IN ");
    db_append_list(&sql, ids, n);
    buf_str(&sql, " ORDER BY o.outbox_id");
    bool ok = take_rows(db, &sql, out, err);
    buf_free(&sql);
    return ok;
}

bool outbox_admin_judge(const struct outbox_change *c, struct outbox_entry *e) {
    bool pending = strcmp(e->status, "PUBLISH_PENDING") == 0, failed = strcmp(e->status, "FAILED") == 0;
    const char *why = !pending && !failed   ? "it is sent"
                      : c->skip && failed   ? "it has failed already"
                      : !c->skip && pending ? "it is on its way already"
                      : c->skip && pending && e->leased && !c->force
                          ? "a relay leases it and may be publishing it"
                          : "";
    snprintf(e->why, sizeof e->why, "%s", why);
    return *why == '\0';
}

static void change_sql(struct db *db, const struct outbox_change *c, bool in_doubt, struct buf *sql) {
    buf_str(sql, "UPDATE usage_event_outbox FORCE INDEX (PRIMARY) SET next_retry_at = NULL, lease_owner = "
                 "NULL, lease_until = NULL, ");
    if (c->skip) {
        char text[OUTBOX_ADMIN_REASON_MAX + sizeof SKIPPED_IN_DOUBT];
        snprintf(text, sizeof text, "%s%s", in_doubt ? SKIPPED_IN_DOUBT : SKIPPED, c->reason);
        buf_str(sql, "status = 'FAILED', last_error = ");
        db_quote(db, sql, text, strlen(text));
        buf_str(sql, " WHERE status = 'PUBLISH_PENDING'");
        if (!c->force)
            buf_str(sql, " AND (lease_until IS NULL OR lease_until <= UTC_TIMESTAMP(3))");
    } else {
        buf_str(sql, "status = 'PUBLISH_PENDING', retry_count = 0, retried_at = UTC_TIMESTAMP(3) WHERE "
                     "status = 'FAILED'");
    }
    buf_str(sql, " AND outbox_id IN ");
}

/* Writes those that were judged so, the ones in doubt apart; they are locked, so each must still be what it
 * was judged by. */
static bool write_rows(struct db *db, const struct outbox_change *c, const struct outbox_entries *rows,
                       size_t first, bool in_doubt, struct error *err) {
    int64_t due[OUTBOX_ADMIN_PAGE], changed = 0;
    struct buf sql = {0};
    size_t n = 0;
    for (size_t i = first; i < rows->count; i++) {
        if (rows->items[i].changed && rows->items[i].may_be_published == in_doubt)
            due[n++] = rows->items[i].outbox_id;
    }
    if (n == 0 || c->dry_run)
        return true;
    change_sql(db, c, in_doubt, &sql);
    db_append_list(&sql, due, n);
    bool ok = db_exec(db, &sql, &changed, err);
    buf_free(&sql);
    if (ok && changed != (int64_t)n)
        return error_set(err, ERROR_MYSQL, ERROR_STOP, ERROR_NOT_DONE, 0,
                         "outbox: %lld rows changed instead of %zu: nothing is", (long long)changed, n);
    return ok;
}

static bool change_once(struct db *db, const struct outbox_change *c, const int64_t *ids, size_t n,
                        struct outbox_entries *out, struct error *err) {
    size_t first = out->count;
    if (!db_ensure(db, err) || !db_exec_text(db, "START TRANSACTION", NULL, err) ||
        !lock_rows(db, ids, n, err) || !read_rows(db, ids, n, out, err))
        return false;
    for (size_t i = first; i < out->count; i++)
        out->items[i].changed = outbox_admin_judge(c, &out->items[i]);
    return write_rows(db, c, out, first, false, err) && write_rows(db, c, out, first, true, err) &&
           db_exec_text(db, "COMMIT", NULL, err);
}

/* What was asked for and isn't there. */
static void add_missing(const int64_t *ids, size_t n, size_t first, struct outbox_entries *out) {
    size_t end = out->count;
    for (size_t k = 0; k < n; k++) {
        bool found = false;
        for (size_t i = first; i < end && !found; i++)
            found = out->items[i].outbox_id == ids[k];
        if (found)
            continue;
        struct outbox_entry *e = add_entry(out);
        e->outbox_id = ids[k];
        snprintf(e->why, sizeof e->why, "there is no such row");
    }
}

bool outbox_admin_change(struct db *db, const struct outbox_change *change, const int64_t *ids, size_t n,
                         struct outbox_entries *out, struct error *err) {
    size_t first = out->count;
    for (int tries = 1;; tries++) {
        if (change_once(db, change, ids, n, out, err)) {
            add_missing(ids, n, first, out);
            return true;
        }
        db_rollback(db);
        truncate_to(out, first);
        if (!db_error_is_lock(err) || tries == LOCK_TRIES)
            return false;
        error_clear(err);
    }
}
