/* SPDX-License-Identifier: MIT */
#include "outbox.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "period.h"
#include "trace.h"

#define SWEEP_LOCK "tallyd.outbox.sweep"

void outbox_row_free(struct outbox_row *r) {
    if (!r)
        return;
    free(r->event_id);
    free(r->payload_json);
    free(r->traceparent);
    free(r);
}

void outbox_list_free(struct outbox_row *list) {
    while (list) {
        struct outbox_row *next = list->next;
        outbox_row_free(list);
        list = next;
    }
}

void outbox_list_push(struct outbox_list *l, struct outbox_row *r) {
    r->next = NULL;
    if (l->tail)
        l->tail->next = r;
    else
        l->head = r;
    l->tail = r;
    l->count++;
}

struct outbox_row *outbox_list_pop(struct outbox_list *l) {
    struct outbox_row *r = l->head;
    if (!r)
        return NULL;
    l->head = r->next;
    if (!l->head)
        l->tail = NULL;
    l->count--;
    r->next = NULL;
    return r;
}

bool outbox_first_pending(struct db *db, const int64_t *families, size_t n, int64_t *first_pending,
                          struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    memset(first_pending, 0, n * sizeof *first_pending);
    if (n == 0)
        return true;
    buf_str(
        &sql,
        "SELECT family_id, MIN(outbox_id) FROM usage_event_outbox WHERE status = 'PUBLISH_PENDING' AND family_id IN ");
    db_append_list(&sql, families, n);
    buf_str(&sql, " GROUP BY family_id ORDER BY family_id");
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    size_t i = 0;
    while (ok && db_next(&rows)) {
        int64_t family = db_i64(&rows, 0, 0);
        while (i < n && families[i] < family)
            i++;
        if (i < n && families[i] == family)
            first_pending[i] = db_i64(&rows, 1, 0);
    }
    db_rows_free(&rows);
    return ok;
}

static struct outbox_row *row_from(const struct db_rows *rows, int64_t lease_end_ms) {
    struct outbox_row *r = mem_zero(1, sizeof *r);
    r->outbox_id = db_i64(rows, 0, 0);
    r->family_id = db_i64(rows, 1, 0);
    r->event_id = mem_strdup(rows->row[2]);
    r->payload_json = mem_strdup(rows->row[3]);
    if (!period_parse_utc(rows->row[4], &r->created_at_ms))
        r->created_at_ms = 0;
    r->retry_count = (int)db_i64(rows, 5, 0);
    char parent[TRACE_PARENT_SIZE];
    if (rows->row[6] && trace_parent_parse(rows->row[6], strlen(rows->row[6]), parent))
        r->traceparent = mem_strdup(parent);
    r->lease_end_ms = lease_end_ms;
    return r;
}

/* The claim proper: a short transaction, while holding the sweep's lock. */
static bool claim_rows(struct db *db, const struct config *cfg, int64_t owner, size_t limit,
                       struct outbox_list *out, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows = {0};
    struct outbox_list got = {0};
    int64_t lease_end =
        clock_monotonic_ms() +
        cfg->outbox.lease_ms; /* before the database's clock is read: never later than its end */
    buf_printf(
        &sql,
        "SELECT o.outbox_id, o.family_id, o.event_id, o.payload_json, o.created_at, o.retry_count, o.traceparent "
        "FROM usage_event_outbox o WHERE o.status = 'PUBLISH_PENDING' "
        "AND (o.lease_until IS NULL OR o.lease_until <= UTC_TIMESTAMP(3)) "
        "AND (o.next_retry_at IS NULL OR o.next_retry_at <= UTC_TIMESTAMP(3)) "
        "AND NOT EXISTS (SELECT 1 FROM usage_event_outbox e WHERE e.status = 'PUBLISH_PENDING' "
        "AND e.family_id = o.family_id AND e.outbox_id < o.outbox_id) "
        "ORDER BY o.outbox_id LIMIT %zu FOR UPDATE SKIP LOCKED",
        limit);
    bool ok = db_exec_text(db, "START TRANSACTION", NULL, err) && db_query(db, &sql, &rows, err);
    while (ok && db_next(&rows))
        outbox_list_push(&got, row_from(&rows, lease_end));
    db_rows_free(&rows);
    buf_reset(&sql);
    buf_printf(
        &sql,
        "UPDATE usage_event_outbox SET lease_owner = %lld, lease_until = UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND WHERE outbox_id IN ",
        (long long)owner, (long long)cfg->outbox.lease_ms * 1000);
    for (struct outbox_row *r = got.head; r; r = r->next) {
        buf_char(&sql, r == got.head ? '(' : ',');
        buf_i64(&sql, r->outbox_id);
    }
    buf_char(&sql, ')');
    ok = ok && (got.count == 0 || db_exec(db, &sql, NULL, err)) && db_exec_text(db, "COMMIT", NULL, err);
    buf_free(&sql);
    if (!ok) {
        db_rollback(db);
        outbox_list_free(got.head);
        return false;
    }
    struct outbox_row *r;
    while ((r = outbox_list_pop(&got)))
        outbox_list_push(out, r);
    return true;
}

bool outbox_claim(struct db *db, const struct config *cfg, int64_t owner, size_t limit,
                  struct outbox_list *out, bool *busy, struct error *err) {
    struct db_rows rows;
    if (!db_query_text(db, "SELECT GET_LOCK('" SWEEP_LOCK "', 0)", &rows, err))
        return false;
    *busy = !db_next(&rows) || db_i64(&rows, 0, 0) != 1;
    db_rows_free(&rows);
    if (*busy)
        return true;
    bool ok = claim_rows(db, cfg, owner, limit, out, err);
    struct error ignored = {0};
    if (db_query_text(db, "SELECT RELEASE_LOCK('" SWEEP_LOCK "')", &rows, &ignored))
        db_rows_free(&rows); /* a lost connection gives the lock up by itself */
    return ok;
}

#define HELD " AND status = 'PUBLISH_PENDING' AND lease_owner = %lld AND lease_until > UTC_TIMESTAMP(3)"

static void append_event_ids(struct db *db, struct buf *sql, const char *const *event_ids, size_t n) {
    for (size_t i = 0; i < n; i++) {
        buf_char(sql, i ? ',' : '(');
        db_quote(db, sql, event_ids[i], strlen(event_ids[i]));
    }
    buf_char(sql, ')');
}

/* By the primary key, like every other statement that locks these rows. */
#define UPDATE_BY_ID "UPDATE usage_event_outbox FORCE INDEX (PRIMARY) SET "

bool outbox_mark_sent(struct db *db, int64_t owner, const int64_t *ids, const char *const *event_ids,
                      size_t n, int64_t *marked, struct error *err) {
    *marked = 0;
    if (n == 0)
        return true;
    struct buf sql = {0};
    buf_str(&sql, UPDATE_BY_ID
            "status = 'SENT', sent_at = UTC_TIMESTAMP(3), lease_owner = NULL, lease_until = NULL, "
            "next_retry_at = NULL, last_error = NULL WHERE outbox_id IN ");
    db_append_list(&sql, ids, n);
    buf_str(&sql, " AND event_id IN ");
    append_event_ids(db, &sql, event_ids, n);
    buf_printf(&sql, HELD, (long long)owner);
    bool ok = db_exec(db, &sql, marked, err);
    buf_free(&sql);
    return ok;
}

bool outbox_mark_failed(struct db *db, int64_t owner, int64_t id, const char *event_id, const char *why,
                        struct error *err) {
    struct buf sql = {0};
    buf_str(&sql, UPDATE_BY_ID
            "status = 'FAILED', retry_count = retry_count + 1, lease_owner = NULL, lease_until = NULL, "
            "next_retry_at = NULL, last_error = ");
    db_quote(db, &sql, why, strlen(why));
    buf_printf(&sql, " WHERE outbox_id = %lld AND event_id IN ", (long long)id);
    append_event_ids(db, &sql, &event_id, 1);
    buf_printf(&sql, HELD, (long long)owner);
    bool ok = db_exec(db, &sql, NULL, err);
    buf_free(&sql);
    return ok;
}

bool outbox_release(struct db *db, int64_t owner, const int64_t *ids, size_t n, int64_t retry_in_ms,
                    bool count_try, const char *why, struct error *err) {
    struct buf sql = {0};
    if (n == 0)
        return true;
    buf_str(&sql, "UPDATE usage_event_outbox SET lease_owner = NULL, lease_until = NULL, next_retry_at = ");
    if (retry_in_ms > 0)
        buf_printf(&sql, "UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND", (long long)retry_in_ms * 1000);
    else
        buf_str(&sql, "NULL");
    if (count_try)
        buf_str(&sql, ", retry_count = retry_count + 1");
    if (why) {
        buf_str(&sql, ", last_error = ");
        db_quote(db, &sql, why, strlen(why));
    }
    buf_str(&sql, " WHERE outbox_id IN ");
    db_append_list(&sql, ids, n);
    buf_printf(&sql, HELD, (long long)owner);
    bool ok = db_exec(db, &sql, NULL, err);
    buf_free(&sql);
    return ok;
}

bool outbox_release_all(struct db *db, int64_t owner, struct error *err) {
    struct buf sql = {0};
    buf_str(&sql, "UPDATE usage_event_outbox SET lease_until = UTC_TIMESTAMP(3) WHERE 1 = 1");
    buf_printf(&sql, HELD, (long long)owner);
    bool ok = db_exec(db, &sql, NULL, err);
    buf_free(&sql);
    return ok;
}

bool outbox_find_held(struct db *db, int64_t owner, const char *const *event_ids, size_t n,
                      struct outbox_list *out, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    if (n == 0)
        return true;
    int64_t now = clock_monotonic_ms();
    buf_str(&sql,
            "SELECT outbox_id, family_id, event_id, payload_json, created_at, retry_count, traceparent, "
            "TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), lease_until) DIV 1000 FROM usage_event_outbox "
            "WHERE event_id IN ");
    append_event_ids(db, &sql, event_ids, n);
    buf_printf(&sql, HELD, (long long)owner);
    buf_str(&sql, " ORDER BY outbox_id");
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    while (ok && db_next(&rows))
        outbox_list_push(out, row_from(&rows, now + db_i64(&rows, 7, 0)));
    db_rows_free(&rows);
    return ok;
}

bool outbox_pending(struct db *db, int64_t limit, int64_t *count, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_printf(
        &sql,
        "SELECT COUNT(*) FROM (SELECT 1 FROM usage_event_outbox WHERE status = 'PUBLISH_PENDING' LIMIT %lld) p",
        (long long)limit);
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (ok)
        *count = db_next(&rows) ? db_i64(&rows, 0, 0) : 0;
    db_rows_free(&rows);
    return ok;
}
