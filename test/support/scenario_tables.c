/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "scenario_check.h"
#include "scenario_sql.h"

/* Tables that a repeated delivery leaves alone, and how many of their first
 * columns are the primary key. */
static const struct {
    const char *name;
    unsigned key_columns;
} dumped[] = {
    {"family_quota", 2}, {"customer_quota", 3}, {"usage_record", 1},
    {"usage_block", 1},  {"alert_state", 5},    {"usage_event_outbox", 1},
};

static const char *or_null(const char *text) {
    return text ? text : "null";
}

static void check_family_quota(struct sc_check *c) {
    struct sc_rows expected = {0}, found = {0};
    size_t i;
    const json_t *row;
    json_array_foreach(sc_json_get(c->scenario->expected, "familyQuota"), i, row) {
        char key[64];
        snprintf(key, sizeof key, "family %ld month %s-01", sc_json_int(row, "familyId"),
                 sc_json_text(row, "month"));
        sc_rows_addf(&expected, key, "total %ld used %ld", sc_json_int(row, "total"),
                     sc_json_int(row, "used"));
    }
    MYSQL_RES *res = sc_sql_rows(c->db, "SELECT family_id, quota_month, total_quota_bytes, used_bytes "
                                        "FROM family_quota");
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        char key[64];
        snprintf(key, sizeof key, "family %s month %s", r[0], r[1]);
        sc_rows_addf(&found, key, "total %s used %s", r[2], r[3]);
    }
    mysql_free_result(res);
    sc_rows_diff(&c->report, "family_quota", &expected, &found);
    sc_rows_free(&expected);
    sc_rows_free(&found);
}

static void check_customer_quota(struct sc_check *c) {
    struct sc_rows expected = {0}, found = {0};
    size_t i;
    const json_t *row;
    json_array_foreach(sc_json_get(c->scenario->expected, "customerQuota"), i, row) {
        char key[96];
        snprintf(key, sizeof key, "family %ld customer %ld month %s-01", sc_json_int(row, "familyId"),
                 sc_json_int(row, "customerId"), sc_json_text(row, "month"));
        sc_rows_addf(&expected, key, "used %ld blocked %d reason %s", sc_json_int(row, "used"),
                     json_is_true(sc_json_get(row, "isBlocked")),
                     or_null(sc_json_text_or_null(row, "blockReason")));
    }
    MYSQL_RES *res = sc_sql_rows(c->db, "SELECT family_id, customer_id, quota_month, monthly_used_bytes, "
                                        "is_blocked, block_reason FROM customer_quota");
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        char key[96];
        snprintf(key, sizeof key, "family %s customer %s month %s", r[0], r[1], r[2]);
        sc_rows_addf(&found, key, "used %s blocked %s reason %s", r[3], r[4], or_null(r[5]));
    }
    mysql_free_result(res);
    sc_rows_diff(&c->report, "customer_quota", &expected, &found);
    sc_rows_free(&expected);
    sc_rows_free(&found);
}

/* One row of usage_record or usage_block; the texts are NULL where there's none. */
static void usage_add(struct sc_rows *rows, const char *id, const char *family, const char *customer,
                      const char *bytes, const char *month, const char *app, const char *reason) {
    const char *mark = app ? "\"" : "";
    sc_rows_addf(rows, id, "family %s customer %s bytes %s month %s app %s%s%s%s%s", family, customer, bytes,
                 month, mark, or_null(app), mark, reason ? " reason " : "", reason ? reason : "");
}

static void check_usage(struct sc_check *c, const char *table, const char *member, bool blocks) {
    struct sc_rows expected = {0}, found = {0};
    size_t i;
    const json_t *row;
    json_array_foreach(sc_json_get(c->scenario->expected, member), i, row) {
        char family[24], customer[24], bytes[24], month[24];
        snprintf(family, sizeof family, "%ld", sc_json_int(row, "familyId"));
        snprintf(customer, sizeof customer, "%ld", sc_json_int(row, "customerId"));
        snprintf(bytes, sizeof bytes, "%ld", sc_json_int(row, "bytesUsed"));
        snprintf(month, sizeof month, "%.7s-01", sc_json_text(row, "month"));
        usage_add(&expected, sc_json_text(row, "eventId"), family, customer, bytes, month,
                  sc_json_text_or_null(row, "appId"), blocks ? sc_json_text(row, "reason") : NULL);
    }
    MYSQL_RES *res =
        sc_sql_rows(c->db,
                    "SELECT event_id, family_id, customer_id, bytes_used, quota_month, app_id, %s "
                    "FROM %s",
                    blocks ? "reason" : "NULL", table);
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));)
        usage_add(&found, r[0], r[1], r[2], r[3], r[4], r[5], r[6]);
    mysql_free_result(res);
    sc_rows_diff(&c->report, table, &expected, &found);
    sc_rows_free(&expected);
    sc_rows_free(&found);
}

/* Where each decided event lay and when it happened, by its own line. */
static void check_origins(struct sc_check *c, const char *table, enum sc_outcome outcome) {
    struct sc_rows expected = {0}, found = {0};
    for (size_t i = 0; i < c->places.count; i++) {
        const struct sc_place *p = &c->places.items[i];
        const struct sc_line *line = &c->scenario->lines[p->line];
        if (p->copy != 1 || line->outcome != outcome)
            continue;
        if (!line->readable) {
            sc_differ(&c->report, "line %zu: expected %s, but its value is no usage event", p->line + 1,
                      sc_outcome_name(outcome));
            continue;
        }
        char utc[40];
        sc_time_utc(line->event.time_ms, utc);
        sc_rows_addf(&expected, line->event.id, "partition %d offset %ld time %s", p->partition, p->offset,
                     utc);
    }
    MYSQL_RES *res =
        sc_sql_rows(c->db, "SELECT event_id, partition_id, record_offset, event_time FROM %s", table);
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));)
        sc_rows_addf(&found, r[0], "partition %s offset %s time %.23s", r[1], r[2], r[3]);
    mysql_free_result(res);
    char what[64];
    snprintf(what, sizeof what, "%s's origin", table);
    sc_rows_diff(&c->report, what, &expected, &found);
    sc_rows_free(&expected);
    sc_rows_free(&found);
}

/* The customer's monthly limit by setup.json: his own newest active rule, else
 * the family's; -1 without one. */
static int64_t limit_expected(const json_t *setup, int64_t family, int64_t customer) {
    int64_t own = -1, shared = -1;
    size_t i, j;
    const json_t *f, *policy;
    json_array_foreach(sc_json_get(setup, "families"), i, f) {
        if (sc_json_int(f, "familyId") != family)
            continue;
        json_array_foreach(sc_json_get(f, "policies"), j, policy) {
            const json_t *who = sc_json_get(policy, "customerId");
            if (strcmp(sc_json_text(policy, "type"), "MONTHLY_LIMIT") != 0 ||
                json_is_false(json_object_get(policy, "active")))
                continue;
            const json_t *amount = sc_json_get(sc_json_get(policy, "rules"), "limitBytes");
            int64_t limit = json_is_string(amount) ? strtoll(json_string_value(amount), NULL, 10)
                                                   : json_integer_value(amount);
            if (json_is_null(who))
                shared = limit;
            else if (json_integer_value(who) == customer)
                own = limit;
        }
    }
    return own >= 0 ? own : shared;
}

/* The figures each block was decided on. */
static void check_block_figures(struct sc_check *c) {
    MYSQL_RES *res =
        sc_sql_rows(c->db, "SELECT event_id, remaining_bytes, monthly_used_bytes, monthly_limit_bytes "
                           "FROM usage_block ORDER BY event_id");
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        int64_t i = sc_map_get(c->line_by_id, r[0], -1);
        if (i < 0 || c->scenario->lines[i].outcome != SC_BLOCKED)
            continue; /* reported by the table's own comparison */
        const struct sc_event *e = &c->scenario->lines[i].event;
        const struct sc_figures *f = &c->figures[i];
        int64_t limit = limit_expected(c->scenario->setup, e->family, e->customer);
        if (limit != sc_sql_int(r[3]))
            sc_differ(&c->report, "usage_block %s: expected limit %ld, found %s", r[0], limit, r[3]);
        if (f->known && (f->remaining != sc_sql_int(r[1]) || f->used != sc_sql_int(r[2])))
            sc_differ(&c->report,
                      "usage_block %s: expected remaining %ld used %ld, found remaining %s used %s", r[0],
                      f->remaining, f->used, r[1], r[2]);
    }
    mysql_free_result(res);
}

static void check_alerts(struct sc_check *c) {
    struct sc_rows expected = {0}, found = {0};
    sc_check_alerts_expected(c, &expected);
    MYSQL_RES *res =
        sc_sql_rows(c->db, "SELECT family_id, customer_id, quota_month, alert, arming, event_id, "
                           "total_quota_bytes, remaining_bytes FROM alert_state");
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        struct buf key = {0};
        buf_printf(&key, "family %s customer %s month %s %s arming %s", r[0], r[1], r[2], r[3], r[4]);
        int64_t i = sc_map_get(c->line_by_id, r[5], -1);
        if (i >= 0 && !c->figures[i].known)
            sc_rows_addf(&found, buf_cstr(&key), "event %s", r[5]);
        else
            sc_rows_addf(&found, buf_cstr(&key), "event %s total %s remaining %s", r[5], r[6], r[7]);
        buf_free(&key);
    }
    mysql_free_result(res);
    sc_rows_diff(&c->report, "alert_state", &expected, &found);
    sc_rows_free(&expected);
    sc_rows_free(&found);
}

/* Each query yields one line a breach, as text. They don't look at
 * expected.json: they hold whatever happened. */
static const struct {
    const char *promise;
    const char *sql;
} promises[] = {
    {"a customer's use is the sum of its records",
     "SELECT CONCAT_WS(' ', 'family', k.family_id, 'customer', k.customer_id, 'month', k.quota_month, 'records',"
     " COALESCE(u.bytes, 0), 'quota', COALESCE(q.monthly_used_bytes, 'missing')) FROM"
     " (SELECT family_id, customer_id, quota_month FROM customer_quota UNION"
     "  SELECT family_id, customer_id, quota_month FROM usage_record UNION"
     "  SELECT family_id, customer_id, quota_month FROM usage_block) k"
     " LEFT JOIN (SELECT family_id, customer_id, quota_month, SUM(bytes_used) AS bytes FROM usage_record"
     "  GROUP BY family_id, customer_id, quota_month) u"
     " ON u.family_id = k.family_id AND u.customer_id = k.customer_id AND u.quota_month = k.quota_month"
     " LEFT JOIN customer_quota q"
     " ON q.family_id = k.family_id AND q.customer_id = k.customer_id AND q.quota_month = k.quota_month"
     " WHERE q.family_id IS NULL OR q.monthly_used_bytes <> COALESCE(u.bytes, 0)"},
    {"a family's use is the sum of its customers'",
     "SELECT CONCAT_WS(' ', 'family', k.family_id, 'month', k.quota_month, 'customers', COALESCE(u.bytes, 0),"
     " 'quota', COALESCE(q.used_bytes, 'missing')) FROM"
     " (SELECT family_id, quota_month FROM family_quota UNION SELECT family_id, quota_month FROM customer_quota) k"
     " LEFT JOIN (SELECT family_id, quota_month, SUM(monthly_used_bytes) AS bytes FROM customer_quota"
     "  GROUP BY family_id, quota_month) u ON u.family_id = k.family_id AND u.quota_month = k.quota_month"
     " LEFT JOIN family_quota q ON q.family_id = k.family_id AND q.quota_month = k.quota_month"
     " WHERE q.family_id IS NULL OR q.used_bytes <> COALESCE(u.bytes, 0)"},
    {"all tables add up to one sum",
     "SELECT CONCAT_WS(' ', 'records', a.n, 'customers', b.n, 'families', c.n) FROM"
     " (SELECT COALESCE(SUM(bytes_used), 0) AS n FROM usage_record) a,"
     " (SELECT COALESCE(SUM(monthly_used_bytes), 0) AS n FROM customer_quota) b,"
     " (SELECT COALESCE(SUM(used_bytes), 0) AS n FROM family_quota) c WHERE a.n <> b.n OR b.n <> c.n"},
    {"the block state is as new as the newest event",
     "SELECT CONCAT_WS(' ', 'family', q.family_id, 'customer', q.customer_id, 'month', q.quota_month, 'state',"
     " COALESCE(q.state_event_time, 'null'), 'newest', e.newest) FROM customer_quota q JOIN"
     " (SELECT family_id, customer_id, quota_month, MAX(event_time) AS newest FROM"
     "  (SELECT family_id, customer_id, quota_month, event_time FROM usage_record UNION ALL"
     "   SELECT family_id, customer_id, quota_month, event_time FROM usage_block) u"
     "  GROUP BY family_id, customer_id, quota_month) e"
     " ON e.family_id = q.family_id AND e.customer_id = q.customer_id AND e.quota_month = q.quota_month"
     " WHERE NOT (q.state_event_time <=> e.newest)"},
    {"an id is settled or blocked, never both",
     "SELECT event_id FROM usage_record JOIN usage_block USING (event_id)"},
    {"a record is decided once",
     "SELECT CONCAT_WS(' ', 'partition', partition_id, 'offset', record_offset, 'events', COUNT(*)) FROM"
     " (SELECT partition_id, record_offset FROM usage_record UNION ALL"
     "  SELECT partition_id, record_offset FROM usage_block) p"
     " GROUP BY partition_id, record_offset HAVING COUNT(*) > 1"},
    {"what is told has its mark, and the other way round",
     "SELECT CONCAT_WS(' ', 'outbox', o.event_id) FROM usage_event_outbox o"
     " LEFT JOIN alert_state a ON a.event_id = o.event_id WHERE a.event_id IS NULL"
     " UNION SELECT CONCAT_WS(' ', 'alert_state', a.event_id) FROM alert_state a"
     " LEFT JOIN usage_event_outbox o ON o.event_id = a.event_id WHERE o.event_id IS NULL"},
    {"what is told was decided",
     "SELECT o.event_id FROM usage_event_outbox o LEFT JOIN usage_record r ON r.event_id = o.event_id"
     " LEFT JOIN usage_block b ON b.event_id = o.event_id WHERE r.event_id IS NULL AND b.event_id IS NULL"},
};

static void check_promises(struct sc_check *c) {
    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
        MYSQL_RES *res = sc_sql_rows(c->db, "%s", promises[i].sql);
        for (MYSQL_ROW r; (r = mysql_fetch_row(res));)
            sc_differ(&c->report, "promise \"%s\": expected no breach, found %s", promises[i].promise, r[0]);
        mysql_free_result(res);
    }
}

void sc_check_tables(struct sc_check *c) {
    check_family_quota(c);
    check_customer_quota(c);
    check_usage(c, "usage_record", "usageRecord", false);
    check_usage(c, "usage_block", "usageBlock", true);
    check_origins(c, "usage_record", SC_SETTLED);
    check_origins(c, "usage_block", SC_BLOCKED);
    check_block_figures(c);
    check_alerts(c);
    check_promises(c);
}

static void table_dump(MYSQL *db, const char *table, unsigned key_columns, struct sc_rows *rows) {
    MYSQL_RES *res = sc_sql_rows(db, "SELECT * FROM %s", table);
    const MYSQL_FIELD *fields = mysql_fetch_fields(res);
    unsigned columns = mysql_num_fields(res);
    struct buf key = {0}, text = {0};
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        buf_reset(&key);
        buf_reset(&text);
        buf_str(&key, table);
        for (unsigned i = 0; i < columns; i++) {
            if (i < key_columns)
                buf_printf(&key, " %s", or_null(r[i]));
            else
                buf_printf(&text, "%s%s=%s", text.len ? " " : "", fields[i].name, or_null(r[i]));
        }
        sc_rows_add(rows, buf_cstr(&key), buf_cstr(&text), text.len);
    }
    buf_free(&key);
    buf_free(&text);
    mysql_free_result(res);
}

void sc_tables_dump(MYSQL *db, struct sc_rows *rows) {
    for (size_t i = 0; i < sizeof dumped / sizeof dumped[0]; i++)
        table_dump(db, dumped[i].name, dumped[i].key_columns, rows);
}

void sc_snapshot_write(MYSQL *db, const char *work) {
    struct sc_rows rows = {0};
    sc_tables_dump(db, &rows);
    json_t *doc = json_array();
    for (size_t i = 0; i < rows.count; i++)
        json_array_append_new(doc, json_pack("[ss]", rows.items[i].key, rows.items[i].text));
    char *path = sc_path(work, "tables.json");
    if (json_dump_file(doc, path, JSON_INDENT(0)) != 0)
        sc_die("%s: cannot be written", path);
    free(path);
    json_decref(doc);
    sc_rows_free(&rows);
}

void sc_check_snapshot(struct sc_check *c) {
    char *path = sc_path(c->work, "tables.json");
    FILE *there = fopen(path, "r");
    if (there) {
        fclose(there);
        struct sc_rows before = {0}, now = {0};
        json_t *doc = sc_json_read(path);
        size_t i;
        const json_t *row;
        json_array_foreach(doc, i, row) {
            const char *text = json_string_value(json_array_get(row, 1));
            sc_rows_add(&before, json_string_value(json_array_get(row, 0)), text, strlen(text));
        }
        json_decref(doc);
        sc_tables_dump(c->db, &now);
        sc_rows_diff(&c->report, "after the repeat", &before, &now);
        sc_rows_free(&before);
        sc_rows_free(&now);
    }
    free(path);
}
