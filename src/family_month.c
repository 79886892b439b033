/* SPDX-License-Identifier: MIT */
/* MySQL's side. */
#include "family_month.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "period.h"

static char *copy_of(const char *text) {
    return text ? mem_strdup(text) : NULL;
}

/* Of a column that's NOT NULL, or one where NULL says no more than the empty text. */
static char *text_of(const char *text) {
    return mem_strdup(text ? text : "");
}

/* ---- the family and its quota ---- */

/* Its name, and the latest quota row up to the month: the month's own, or the one it will be carried over
 * from. */
static bool read_quota(struct db *db, struct family_month *m, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    char date[PERIOD_DATE_SIZE];
    period_month_date(m->month, date);
    buf_printf(
        &sql,
        "SELECT (SELECT name FROM family WHERE family_id = %lld), q.quota_month, q.total_quota_bytes, "
        "q.used_bytes, EXISTS (SELECT 1 FROM family_quota WHERE family_id = %lld) FROM (SELECT 1 AS one) "
        "o LEFT JOIN family_quota q ON q.family_id = %lld AND q.quota_month = (SELECT "
        "MAX(p.quota_month) FROM family_quota p WHERE p.family_id = %lld AND p.quota_month <= '%s')",
        (long long)m->family, (long long)m->family, (long long)m->family, (long long)m->family, date);
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    if (db_next(&rows)) {
        m->name = copy_of(rows.row[0]);
        m->known = m->name || db_i64(&rows, 4, 0);
        m->total_of = rows.row[1] ? period_date_month(rows.row[1]) : 0;
        m->has_row = m->total_of == m->month;
        m->total = db_i64(&rows, 2, 0);
        m->used = m->has_row ? db_i64(&rows, 3, 0) : 0;
    }
    db_rows_free(&rows);
    return true;
}

/* ---- members and rules ---- */

/* Both those who are in the family and those who have a row of the month and left it. */
static void members_sql(const struct family_month *m, struct buf *sql) {
    char date[PERIOD_DATE_SIZE], only[64] = "";
    period_month_date(m->month, date);
    if (m->only_customer)
        snprintf(only, sizeof only, " AND customer_id = %lld", (long long)m->only_customer);
    buf_printf(
        sql,
        "SELECT x.customer_id, MAX(x.member), q.monthly_used_bytes, q.is_blocked, q.block_reason, "
        "q.state_event_time FROM (SELECT customer_id, 1 AS member FROM family_member WHERE family_id = "
        "%lld%s UNION ALL SELECT customer_id, 0 FROM customer_quota WHERE family_id = %lld AND "
        "quota_month = '%s'%s) x LEFT JOIN customer_quota q ON q.family_id = %lld AND q.customer_id = "
        "x.customer_id AND q.quota_month = '%s' GROUP BY x.customer_id, q.monthly_used_bytes, "
        "q.is_blocked, q.block_reason, q.state_event_time ORDER BY x.customer_id",
        (long long)m->family, only, (long long)m->family, date, only, (long long)m->family, date);
}

static bool read_members(struct db *db, struct family_month *m, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    size_t capacity = 0;
    members_sql(m, &sql);
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    while (db_next(&rows)) {
        if (m->member_count == capacity) {
            capacity = capacity ? capacity * 2 : 8;
            m->members = mem_realloc(m->members, capacity * sizeof *m->members);
        }
        m->members[m->member_count++] = (struct family_member){
            .customer = db_i64(&rows, 0, 0),
            .is_member = db_i64(&rows, 1, 0) != 0,
            .has_row = rows.row[2] != NULL,
            .used = db_i64(&rows, 2, 0),
            .blocked = db_i64(&rows, 3, 0) ? text_of(rows.row[4]) : NULL,
            .state_ms = db_utc_ms(&rows, 5, 0),
            .rules = {.monthly_limit = -1},
        };
    }
    db_rows_free(&rows);
    return true;
}

static bool read_rules(struct db *db, struct family_month *m, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    struct policy_row *policies = NULL;
    size_t n = 0, capacity = 0;
    buf_printf(&sql,
               "SELECT customer_id, policy_type, rules FROM policy_assignment WHERE is_active = 1 AND "
               "family_id = %lld ORDER BY updated_at, policy_assignment_id",
               (long long)m->family);
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    while (db_next(&rows)) {
        if (n == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            policies = mem_realloc(policies, capacity * sizeof *policies);
        }
        policies[n++] = (struct policy_row){.customer_id = db_i64(&rows, 0, POLICY_FOR_FAMILY),
                                            .type = text_of(rows.row[1]),
                                            .rules = text_of(rows.row[2])};
    }
    db_rows_free(&rows);
    for (size_t i = 0; i < m->member_count; i++)
        policy_rules_build(&m->members[i].rules, policies, n, m->members[i].customer);
    for (size_t i = 0; i < n; i++) {
        free((char *)(uintptr_t)policies[i].type);
        free((char *)(uintptr_t)policies[i].rules);
    }
    free(policies);
    return true;
}

void family_rules_text(struct buf *out, const struct policy_rules *r) {
    size_t before = out->len;
    if (r->unreadable) {
        buf_printf(out, "unreadable: %s", r->why);
        return;
    }
    if (r->manual_block)
        buf_str(out, "blocked by hand, ");
    if (r->monthly_limit >= 0)
        buf_printf(out, "limit %lld, ", (long long)r->monthly_limit);
    if (*r->time_block)
        buf_printf(out, "not %s, ", r->time_block);
    for (size_t i = 0; i < r->app_count; i++)
        buf_printf(out, "%s'%s'%s", i ? " " : "no app of ", r->apps[i], i + 1 == r->app_count ? ", " : "");
    if (out->len == before) {
        buf_str(out, "none");
        return;
    }
    out->len -= 2;
    out->data[out->len] = '\0';
}

/* ---- alerts ---- */

static int threshold_of(const char *alert) {
    return strncmp(alert, "THRESHOLD:", 10) == 0 ? atoi(alert + 10) : 0;
}

void family_alerts_mark(struct family_alert *alerts, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int threshold = threshold_of(alerts[i].alert);
        for (size_t k = 0; threshold && k < n; k++) {
            int other = threshold_of(alerts[k].alert);
            if (other && other < threshold && alerts[k].customer == alerts[i].customer &&
                strcmp(alerts[k].event_id, alerts[i].event_id) == 0)
                alerts[i].only_marked = true;
        }
    }
}

static bool read_alerts(struct db *db, struct family_month *m, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    size_t capacity = 0;
    char date[PERIOD_DATE_SIZE];
    period_month_date(m->month, date);
    buf_printf(&sql,
               "SELECT customer_id, alert, event_id, total_quota_bytes, remaining_bytes, told_at FROM "
               "alert_state WHERE family_id = %lld AND quota_month = '%s'",
               (long long)m->family, date);
    if (m->only_customer)
        buf_printf(&sql, " AND customer_id = %lld", (long long)m->only_customer);
    buf_str(&sql, " ORDER BY told_at, customer_id, alert");
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    while (db_next(&rows)) {
        if (m->alert_count == capacity) {
            capacity = capacity ? capacity * 2 : 8;
            m->alerts = mem_realloc(m->alerts, capacity * sizeof *m->alerts);
        }
        m->alerts[m->alert_count++] = (struct family_alert){
            .customer = db_i64(&rows, 0, 0),
            .alert = text_of(rows.row[1]),
            .event_id = text_of(rows.row[2]),
            .total = db_i64(&rows, 3, 0),
            .remaining = db_i64(&rows, 4, 0),
            .told_ms = db_utc_ms(&rows, 5, 0),
        };
    }
    db_rows_free(&rows);
    family_alerts_mark(m->alerts, m->alert_count);
    return true;
}

/* ---- the outbox ---- */

bool family_letters_read(struct db *db, const struct buf *where, struct family_letter **letters, size_t *n,
                         struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    size_t capacity = 0;
    *letters = NULL;
    *n = 0;
    buf_printf(&sql,
               "SELECT outbox_id, family_id, customer_id, created_at, event_id, status, payload_json, "
               "last_error, retry_count, next_retry_at, lease_until, sent_at, lease_owner, lease_until > "
               "UTC_TIMESTAMP(3) FROM usage_event_outbox WHERE %s",
               buf_cstr(where));
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    while (db_next(&rows)) {
        if (*n == capacity) {
            capacity = capacity ? capacity * 2 : 4;
            *letters = mem_realloc(*letters, capacity * sizeof **letters);
        }
        (*letters)[(*n)++] = (struct family_letter){
            .outbox_id = db_i64(&rows, 0, 0),
            .family = db_i64(&rows, 1, 0),
            .customer = db_i64(&rows, 2, 0),
            .created_ms = db_utc_ms(&rows, 3, 0),
            .event_id = text_of(rows.row[4]),
            .status = text_of(rows.row[5]),
            .payload = text_of(rows.row[6]),
            .last_error = copy_of(rows.row[7]),
            .retry_count = db_i64(&rows, 8, 0),
            .next_retry_ms = db_utc_ms(&rows, 9, 0),
            .lease_until_ms = db_utc_ms(&rows, 10, 0),
            .sent_ms = db_utc_ms(&rows, 11, 0),
            .lease_owner = db_i64(&rows, 12, 0),
            .leased = db_i64(&rows, 13, 0) != 0,
        };
    }
    db_rows_free(&rows);
    return true;
}

void family_letters_free(struct family_letter *letters, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(letters[i].event_id);
        free(letters[i].status);
        free(letters[i].payload);
        free(letters[i].last_error);
    }
    free(letters);
}

/* By (status, family): never a look at rows that are sent. */
static bool count_letters(struct db *db, struct family_month *m, const char *status, int64_t *count,
                          struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_printf(&sql, "SELECT COUNT(*) FROM usage_event_outbox WHERE status = '%s' AND family_id = %lld",
               status, (long long)m->family);
    if (m->only_customer)
        buf_printf(&sql, " AND customer_id = %lld", (long long)m->only_customer);
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    *count = db_next(&rows) ? db_i64(&rows, 0, 0) : 0;
    db_rows_free(&rows);
    return true;
}

static bool read_letters(struct db *db, struct family_month *m, struct error *err) {
    struct buf where = {0};
    buf_printf(&where, "status = 'PUBLISH_PENDING' AND family_id = %lld", (long long)m->family);
    if (m->only_customer)
        buf_printf(&where, " AND customer_id = %lld", (long long)m->only_customer);
    buf_printf(&where, " ORDER BY outbox_id LIMIT %d", FAMILY_LETTERS_MAX);
    bool ok = count_letters(db, m, "PUBLISH_PENDING", &m->pending, err) &&
              count_letters(db, m, "FAILED", &m->failed, err) &&
              family_letters_read(db, &where, &m->letters, &m->letter_count, err);
    buf_free(&where);
    return ok;
}

/* ---- the whole ---- */

bool family_month_read(struct db *db, int64_t family, int64_t customer, int32_t month, struct family_month *m,
                       struct error *err) {
    *m = (struct family_month){.family = family, .only_customer = customer, .month = month};
    bool ok = db_ensure(db, err) &&
              db_exec_text(db, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", NULL, err) &&
              read_quota(db, m, err) && read_members(db, m, err) && read_rules(db, m, err) &&
              read_alerts(db, m, err) && read_letters(db, m, err) && db_exec_text(db, "COMMIT", NULL, err);
    if (!ok)
        db_rollback(db);
    return ok;
}

void family_month_free(struct family_month *m) {
    for (size_t i = 0; i < m->member_count; i++) {
        free(m->members[i].blocked);
        policy_rules_free(&m->members[i].rules);
    }
    for (size_t i = 0; i < m->alert_count; i++) {
        free(m->alerts[i].alert);
        free(m->alerts[i].event_id);
    }
    family_letters_free(m->letters, m->letter_count);
    free(m->members);
    free(m->alerts);
    free(m->name);
    free(m->gen);
    *m = (struct family_month){0};
}

const struct family_member *family_month_member(const struct family_month *m, int64_t customer) {
    for (size_t i = 0; i < m->member_count; i++) {
        if (m->members[i].customer == customer)
            return &m->members[i];
    }
    return NULL;
}

/* ---- figures ---- */

int64_t family_left(const struct family_month *m) {
    int64_t left;
    if (!__builtin_sub_overflow(m->total, m->used, &left))
        return left;
    return m->used < 0 ? INT64_MAX : INT64_MIN;
}

int64_t family_tenths_left(int64_t total, int64_t left) {
    if (total <= 0 || left <= 0)
        return 0;
    __int128 tenths = (__int128)left * 1000 / total;
    return tenths < INT64_MAX ? (int64_t)tenths : INT64_MAX;
}

bool family_total_decides(int64_t total) {
    return total >= 0 && total <= EVENT_AMOUNT_MAX;
}

void family_difference(char out[FAMILY_DIFFERENCE_SIZE], int64_t a, int64_t b) {
    bool less = a < b;
    uint64_t by = less ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
    snprintf(out, FAMILY_DIFFERENCE_SIZE, "%s%" PRIu64, less ? "-" : "", by);
}

int family_threshold(const struct config *cfg, int64_t total, int64_t remaining) {
    for (size_t i = 0; i < cfg->threshold_count; i++) {
        if ((__int128)remaining * 100 <= (__int128)total * cfg->thresholds[i])
            return cfg->thresholds[i];
    }
    return 0;
}
