/* SPDX-License-Identifier: MIT */
/* The snapshot, and the two tables of usage. These are by far the largest and have no index but their ids, so
 * they are read in the order of ids, some thousand rows a question, and added up here: no sorting, no
 * temporary table and no long question on a server that has other work. What is gathered is bounded too: of
 * so many customers that it would be too much, the tables are read once a slice of families. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_internal.h"
#include "maintain.h"

#define ROWS_A_READ 10000
/* Customers' months gathered at a time: some 150 bytes each. */
#define SLICE_CUSTOMERS 1000000

/* ---- the snapshot ---- */

static bool read_floor(struct audit *a, struct error *err) {
    struct db_rows rows;
    if (!db_query_text(
            a->db,
            "SELECT closed_before, closed_before > '1970-01-01', UTC_TIMESTAMP(3) FROM usage_floor WHERE "
            "id = 1",
            &rows, err))
        return false;
    bool ok = db_next(&rows) && period_parse_utc(rows.row[2], &a->now_ms);
    if (ok) {
        snprintf(a->floor, sizeof a->floor, "%s", rows.row[0]);
        a->months_closed = db_i64(&rows, 1, 0) != 0;
    }
    db_rows_free(&rows);
    return ok ||
           error_set(err, ERROR_MYSQL, ERROR_STOP, ERROR_NOT_DONE, 0, "usage_floor: its row is missing");
}

static bool read_ledger(struct audit *a, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_str(&sql,
            "SELECT partition_id, first_offset, next_offset, settled, blocked, duplicate, rejected, ignored, "
            "gap FROM consumer_ledger WHERE group_id = ");
    db_quote(a->db, &sql, a->cfg->kafka.group_id, strlen(a->cfg->kafka.group_id));
    buf_str(&sql, " AND topic = ");
    db_quote(a->db, &sql, a->cfg->kafka.usage_topic, strlen(a->cfg->kafka.usage_topic));
    buf_str(&sql, " ORDER BY partition_id");
    bool ok = db_query(a->db, &sql, &rows, err);
    buf_free(&sql);
    while (ok && db_next(&rows)) {
        struct audit_partition *p = audit_partition(a, (int32_t)db_i64(&rows, 0, 0));
        p->in_ledger = true;
        p->first = db_i64(&rows, 1, 0);
        p->next = db_i64(&rows, 2, 0);
        p->settled = db_i64(&rows, 3, 0);
        p->blocked = db_i64(&rows, 4, 0);
        p->duplicate = db_i64(&rows, 5, 0);
        p->rejected = db_i64(&rows, 6, 0);
        p->ignored = db_i64(&rows, 7, 0);
        p->gap = db_i64(&rows, 8, 0);
    }
    db_rows_free(&rows);
    return ok;
}

bool audit_mysql_oldest(struct audit *a, struct error *err) {
    struct db_rows rows;
    if (!db_ensure(a->db, err) ||
        !db_query_text(a->db, "SELECT created_at FROM usage_event_outbox ORDER BY outbox_id LIMIT 1", &rows,
                       err))
        return false;
    if (!db_next(&rows) || !period_parse_utc(rows.row[0], &a->oldest_letter_ms))
        a->oldest_letter_ms = 0;
    db_rows_free(&rows);
    return true;
}

static bool find_family(struct audit *a, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    a->r->known = true;
    if (a->options.family == 0)
        return true;
    buf_printf(
        &sql,
        "SELECT 1 FROM family WHERE family_id = %lld UNION ALL SELECT 1 FROM family_quota WHERE family_id = %lld",
        (long long)a->options.family, (long long)a->options.family);
    bool ok = db_query(a->db, &sql, &rows, err);
    buf_free(&sql);
    a->r->known = ok && db_next(&rows);
    db_rows_free(&rows);
    return ok;
}

bool audit_mysql_start(struct audit *a, struct error *err) {
    return db_ensure(a->db, err) &&
           db_exec_text(a->db, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", NULL, err) &&
           maintain_sent_before(a->db, &a->sent_pruned_ms, err) && read_floor(a, err) &&
           read_ledger(a, err) && find_family(a, err);
}

void audit_where(const struct audit *a, struct buf *sql, int64_t lo, int64_t hi) {
    if (a->options.family)
        buf_printf(sql, " AND family_id = %lld", (long long)a->options.family);
    else
        buf_printf(sql, " AND family_id > %lld AND family_id <= %lld", (long long)lo, (long long)hi);
}

void audit_call_name(struct buf *out, int64_t family, int64_t customer, int32_t month, const char *alert) {
    buf_printf(out, "family %lld, customer %lld, %d: %s", (long long)family, (long long)customer, month,
               alert);
}

/* ---- the tables of usage ---- */

/* One slice under way. */
struct slice {
    struct audit *a;
    int64_t lo, hi;
    struct audit_uses uses;
    struct audit_calls calls;
};

/* Whatever their offsets: where the topic was made anew, rows of the log before are counted as well. */
static void count_row(struct audit *a, const struct audit_place *at, bool allowed) {
    for (size_t i = 0; i < a->partition_count; i++) {
        struct audit_partition *p = &a->partitions[i];
        if (p->id == at->partition)
            *(allowed ? &p->settled_rows : &p->blocked_rows) += 1;
    }
}

static void take_block(struct slice *s, const struct db_rows *rows, struct audit_use *use,
                       const struct audit_place *at) {
    const struct audit_block b = {
        .reason = rows->row[8],
        .app = rows->row[9],
        .bytes = db_i64(rows, 4, 0),
        .remaining = db_i64(rows, 10, 0),
        .monthly_used = db_i64(rows, 11, 0),
        .monthly_limit = db_i64(rows, 12, 0),
    };
    struct buf alert = {0}, name = {0};
    const char *fault = audit_block_fault(&b);
    s->a->r->findings[AUDIT_BLOCK_FIGURES].looked++;
    if (fault)
        audit_break(s->a->r, AUDIT_BLOCK_FIGURES,
                    "event %s: %s, and %s (bytes %lld, remaining %lld, used %lld, limit %lld)", rows->row[0],
                    b.reason, fault, (long long)b.bytes, (long long)b.remaining, (long long)b.monthly_used,
                    (long long)b.monthly_limit);
    if (db_i64(rows, 13, 0))
        audit_break(s->a->r, AUDIT_IDS, "event %s: blocked, and settled", rows->row[0]);
    audit_use_blocked(use, at, b.monthly_used);
    audit_block_alert(&alert, b.reason, b.app);
    audit_call_name(&name, use->family, use->customer, use->month, buf_cstr(&alert));
    audit_calls_add(&s->calls, buf_cstr(&name), rows->row[0]);
    buf_free(&alert);
    buf_free(&name);
}

/* What a pass does with each row. */
enum pass { PASS_BLOCKED, PASS_ALLOWED, PASS_OTHERS };

static void take_usage(struct slice *s, const struct db_rows *rows, enum pass pass) {
    struct audit_place at = {.partition = (int32_t)db_i64(rows, 5, -1), .offset = db_i64(rows, 6, -1)};
    if (!period_parse_utc(rows->row[7], &at.settled_ms))
        at.settled_ms = 0;
    struct audit_use *use =
        audit_uses_get(&s->uses, db_i64(rows, 1, 0), db_i64(rows, 2, 0), period_date_month(rows->row[3]));
    if (pass == PASS_OTHERS) {
        audit_use_others(&s->uses, use, &at, db_i64(rows, 4, 0));
        return;
    }
    s->a->r->findings[AUDIT_IDS].looked++;
    count_row(s->a, &at, pass == PASS_ALLOWED);
    if (pass == PASS_ALLOWED)
        audit_use_allowed(use, &at, db_i64(rows, 4, 0));
    else
        take_block(s, rows, use, &at);
}

static void usage_sql(const struct slice *s, struct buf *sql, enum pass pass, const char *after) {
    buf_reset(sql);
    buf_str(sql,
            "SELECT event_id, family_id, customer_id, quota_month, bytes_used, partition_id, record_offset, "
            "created_at");
    if (pass == PASS_BLOCKED)
        buf_str(sql, ", reason, app_id, remaining_bytes, monthly_used_bytes, monthly_limit_bytes, "
                     "EXISTS (SELECT 1 FROM usage_record r WHERE r.event_id = u.event_id)");
    buf_printf(sql, " FROM %s u WHERE event_id > ", pass == PASS_BLOCKED ? "usage_block" : "usage_record");
    db_quote(s->a->db, sql, after, strlen(after));
    buf_printf(sql, " AND quota_month >= '%s'", s->a->floor);
    audit_where(s->a, sql, s->lo, s->hi);
    buf_printf(sql, " ORDER BY event_id LIMIT %d", ROWS_A_READ);
}

static bool read_usage(struct slice *s, enum pass pass, struct error *err) {
    char after[192] = "";
    struct buf sql = {0};
    struct db_rows rows;
    int n = ROWS_A_READ;
    bool ok = true;
    while (ok && n == ROWS_A_READ) {
        n = 0;
        usage_sql(s, &sql, pass, after);
        ok = db_query(s->a->db, &sql, &rows, err);
        while (ok && db_next(&rows)) {
            take_usage(s, &rows, pass);
            if (++n == ROWS_A_READ)
                snprintf(after, sizeof after, "%s", rows.row[0]);
        }
        db_rows_free(&rows);
    }
    buf_free(&sql);
    return ok;
}

/* ---- slices ---- */

/* The last family of the slice that begins after `lo`. */
static bool slice_end(struct audit *a, int64_t lo, int64_t *hi, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    *hi = INT64_MAX;
    if (a->options.family)
        return true;
    buf_printf(
        &sql,
        "SELECT family_id FROM customer_quota WHERE family_id > %lld ORDER BY family_id LIMIT 1 OFFSET %d",
        (long long)lo, SLICE_CUSTOMERS - 1);
    bool ok = db_query(a->db, &sql, &rows, err);
    buf_free(&sql);
    if (ok && db_next(&rows))
        *hi = db_i64(&rows, 0, INT64_MAX);
    db_rows_free(&rows);
    return ok;
}

/* Of the blocked, whom nobody told. */
static void untold(struct slice *s) {
    struct audit_finding *f = &s->a->r->findings[AUDIT_BLOCKS_TOLD];
    for (size_t i = 0; i < s->calls.count; i++) {
        const struct audit_call *c = &s->calls.items[i];
        f->looked++;
        if (!c->answered)
            audit_break(s->a->r, AUDIT_BLOCKS_TOLD, "%s isn't told (event %s)", c->text, c->by);
    }
}

static bool read_slice(struct slice *s, struct error *err) {
    if (!read_usage(s, PASS_BLOCKED, err) || !read_usage(s, PASS_ALLOWED, err))
        return false;
    audit_uses_sort(&s->uses);
    return read_usage(s, PASS_OTHERS, err);
}

bool audit_mysql_read(struct audit *a, struct error *err) {
    struct slice s = {.a = a, .lo = -1};
    bool ok = true;
    do {
        ok = slice_end(a, s.lo, &s.hi, err) && read_slice(&s, err) &&
             audit_families(a, &s.uses, &s.calls, s.lo, s.hi, err);
        if (ok)
            untold(&s);
        audit_uses_free(&s.uses);
        audit_calls_free(&s.calls);
        s.lo = s.hi;
    } while (ok && s.hi != INT64_MAX);
    return ok && db_exec_text(a->db, "COMMIT", NULL, err);
}
