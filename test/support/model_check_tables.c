/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "model_check.h"
#include "scenario_sql.h"

static const char *or_null(const char *text) {
    return text ? text : "null";
}

/* Every row of the query: the first column is the key, the rest is named by `names`, separated by spaces. */
static void rows_found(struct model_check *c, struct sc_rows *rows, const char *sql) {
    MYSQL_RES *res = sc_sql_rows(c->db, "%s", sql);
    unsigned columns = mysql_num_fields(res);
    const MYSQL_FIELD *fields = mysql_fetch_fields(res);
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        struct buf text = {0};
        for (unsigned i = 1; i < columns; i++)
            buf_printf(&text, "%s%s %s", i > 1 ? " " : "", fields[i].name, or_null(r[i]));
        sc_rows_add(rows, r[0], buf_cstr(&text), text.len);
        buf_free(&text);
    }
    mysql_free_result(res);
}

static void compare(struct model_check *c, const char *what, struct sc_rows *expected, const char *sql) {
    struct sc_rows found = {0};
    rows_found(c, &found, sql);
    sc_rows_diff(&c->report, what, expected, &found);
    sc_rows_free(expected);
    sc_rows_free(&found);
}

static void check_family_quota(struct model_check *c) {
    struct sc_rows expected = {0};
    for (size_t i = 0; i < c->model->quotas.count; i++) {
        const struct model_quota *q = MODEL_AT(c->model->quotas, struct model_quota, i);
        char key[64], month[16];
        model_month_date(q->month, month);
        snprintf(key, sizeof key, "family %ld month %s", q->family, month);
        sc_rows_addf(&expected, key, "total %ld used %ld", q->total, q->used);
    }
    compare(
        c, "family_quota", &expected,
        "SELECT CONCAT('family ', family_id, ' month ', quota_month), total_quota_bytes total, used_bytes used "
        "FROM family_quota");
}

static void check_customer_quota(struct model_check *c) {
    struct sc_rows expected = {0};
    for (size_t i = 0; i < c->model->customers.count; i++) {
        const struct model_customer *q = MODEL_AT(c->model->customers, struct model_customer, i);
        char key[96], month[16], state[40];
        model_month_date(q->month, month);
        model_time_utc(q->state_ms, state);
        snprintf(key, sizeof key, "family %ld customer %ld month %s", q->family, q->customer, month);
        sc_rows_addf(&expected, key, "used %ld blocked %d reason %s since %s", q->used, q->reason != NULL,
                     or_null(q->reason), state);
    }
    compare(
        c, "customer_quota", &expected,
        "SELECT CONCAT('family ', family_id, ' customer ', customer_id, ' month ', quota_month), monthly_used_bytes "
        "used, is_blocked blocked, block_reason reason, state_event_time since FROM customer_quota");
}

static void check_usage(struct model_check *c) {
    struct sc_rows records = {0}, blocks = {0};
    for (size_t i = 0; i < c->model->decisions.count; i++) {
        const struct model_decision *d = MODEL_AT(c->model->decisions, struct model_decision, i);
        const struct sc_record *at = c->deliveries[d->delivery].record;
        struct buf key = {0}, text = {0};
        char month[16], time[40];
        model_month_date(d->month, month);
        model_time_utc(d->event.time_ms, time);
        buf_printf(&key, "event %s", d->event.id);
        buf_printf(&text, "family %ld customer %ld bytes %ld time %s month %s at %d/%ld app %s",
                   d->event.family, d->event.customer, d->event.bytes, time, month, at->partition, at->offset,
                   or_null(d->event.app));
        if (d->reason)
            buf_printf(&text, " reason %s remaining %ld used %ld limit %ld", d->reason, d->remaining, d->used,
                       d->limit);
        sc_rows_add(d->reason ? &blocks : &records, key.data, text.data, text.len);
        buf_free(&key);
        buf_free(&text);
    }
#define USAGE                                                                                                        \
    "SELECT CONCAT('event ', event_id), family_id family, customer_id customer, bytes_used bytes, event_time time, " \
    "quota_month month, CONCAT(partition_id, '/', record_offset) at, app_id app"
    compare(c, "usage_record", &records, USAGE " FROM usage_record");
    compare(c, "usage_block", &blocks,
            USAGE
            ", reason, remaining_bytes remaining, monthly_used_bytes used, monthly_limit_bytes `limit` FROM "
            "usage_block");
#undef USAGE
}

static void check_alerts(struct model_check *c) {
    struct sc_rows expected = {0};
    for (size_t i = 0; i < c->model->alerts.count; i++) {
        const struct model_alert *a = MODEL_AT(c->model->alerts, struct model_alert, i);
        struct buf key = {0};
        char month[16];
        model_month_date(a->month, month);
        buf_printf(&key, "family %ld customer %ld month %s %s arming 0", a->family, a->customer, month,
                   a->kind);
        sc_rows_addf(&expected, buf_cstr(&key), "event %s total %ld remaining %ld", a->event_id, a->total,
                     a->remaining);
        buf_free(&key);
    }
    compare(
        c, "alert_state", &expected,
        "SELECT CONCAT('family ', family_id, ' customer ', customer_id, ' month ', quota_month, ' ', alert, ' arming ', "
        "arming), event_id event, total_quota_bytes total, remaining_bytes remaining FROM alert_state");
}

void model_check_tables(struct model_check *c) {
    check_family_quota(c);
    check_customer_quota(c);
    check_usage(c);
    check_alerts(c);
}

/* ---- the ledger ---- */

static void ledger_expected(const struct model_check *c, int partition, struct sc_rows *rows) {
    int64_t counts[MODEL_OUTCOMES] = {0}, all = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (c->deliveries[i].record->partition != partition)
            continue;
        counts[c->deliveries[i].verdict.outcome]++;
        all++;
    }
    char key[32];
    snprintf(key, sizeof key, "partition %d", partition);
    if (all)
        sc_rows_addf(
            rows, key,
            "settled %ld blocked %ld duplicate %ld rejected %ld ignored %ld gap 0 first 0 next %ld paused 0",
            counts[MODEL_SETTLED], counts[MODEL_BLOCKED], counts[MODEL_DUPLICATE], counts[MODEL_REJECTED],
            counts[MODEL_IGNORED], all);
}

/* What the group committed never runs ahead of what the ledger has settled. */
static void committed_check(struct model_check *c, int partitions) {
    int64_t *committed = mem_zero((size_t)partitions, sizeof *committed);
    char *group = sc_sql_quote(c->db, c->question->group),
         *topic = sc_sql_quote(c->db, c->question->usage_topic);
    sc_group_committed(c->question->group, c->question->usage_topic, partitions, committed);
    MYSQL_RES *res = sc_sql_rows(
        c->db, "SELECT partition_id, next_offset FROM consumer_ledger WHERE group_id = %s AND topic = %s",
        group, topic);
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        int64_t partition = sc_sql_int(r[0]);
        if (partition < partitions && committed[partition] > sc_sql_int(r[1]))
            sc_differ(&c->report, "committed offset of partition %ld: expected at most %s, found %ld",
                      partition, r[1], committed[partition]);
    }
    mysql_free_result(res);
    free(group);
    free(topic);
    free(committed);
}

void model_check_ledger(struct model_check *c) {
    struct sc_rows expected = {0};
    int partitions = sc_topic_partitions(c->question->usage_topic);
    for (int i = 0; i < partitions; i++)
        ledger_expected(c, i, &expected);
    struct buf sql = {0};
    char *group = sc_sql_quote(c->db, c->question->group),
         *topic = sc_sql_quote(c->db, c->question->usage_topic);
    buf_printf(
        &sql,
        "SELECT CONCAT('partition ', partition_id), settled, blocked, duplicate, rejected, ignored, gap, "
        "first_offset first, next_offset next, paused FROM consumer_ledger WHERE group_id = %s AND topic = %s "
        "AND NOT (first_offset = 0 AND next_offset = 0 AND settled + blocked + duplicate + rejected + ignored + gap = 0)",
        group, topic);
    compare(c, "consumer_ledger", &expected, buf_cstr(&sql));
    committed_check(c, partitions);
    buf_free(&sql);
    free(group);
    free(topic);
}
