/* SPDX-License-Identifier: MIT */
/* What MySQL holds of an event: by its id, and with the ledger in one view, so that a record below the
 * ledger's next offset has its row here if it ever will. */
#include <string.h>

#include "explain.h"
#include "ledger.h"
#include "mysql_db.h"
#include "period.h"

/* What usage_floor says before the first pruning. */
#define NOTHING_CLOSED 197001

static void take_row(struct explain_row *r, const struct db_rows *rows) {
    *r = (struct explain_row){
        .family = db_i64(rows, 0, 0),
        .customer = db_i64(rows, 1, 0),
        .app = rows->row[2] ? mem_strdup(rows->row[2]) : NULL,
        .bytes = db_i64(rows, 3, 0),
        .event_ms = db_utc_ms(rows, 4, 0),
        .month = period_date_month(rows->row[5]),
        .partition = (int32_t)db_i64(rows, 6, -1),
        .offset = db_i64(rows, 7, -1),
        .settled_ms = db_utc_ms(rows, 8, 0),
        .blocked = rows->row[9] != NULL,
        .reason = rows->row[9] ? mem_strdup(rows->row[9]) : NULL,
        .remaining = db_i64(rows, 10, 0),
        .monthly_used = db_i64(rows, 11, 0),
        .monthly_limit = db_i64(rows, 12, -1),
    };
}

static bool read_row(struct db *db, struct explanation *x, const char *table, const char *figures,
                     struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_printf(&sql,
               "SELECT family_id, customer_id, app_id, bytes_used, event_time, quota_month, partition_id, "
               "record_offset, created_at, %s FROM %s WHERE event_id = ",
               figures, table);
    db_quote(db, &sql, x->id, strlen(x->id));
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    if (!x->has_row && db_next(&rows)) {
        take_row(&x->row, &rows);
        x->has_row = true;
    }
    db_rows_free(&rows);
    return true;
}

static bool read_letter(struct db *db, struct explanation *x, struct error *err) {
    struct buf where = {0};
    buf_str(&where, "event_id = ");
    db_quote(db, &where, x->id, strlen(x->id));
    bool ok = family_letters_read(db, &where, &x->letter, &x->letter_count, err);
    buf_free(&where);
    return ok;
}

static bool read_ledger(const struct config *cfg, struct db *db, struct explanation *x, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_str(&sql, "SELECT partition_id, first_offset, next_offset FROM consumer_ledger WHERE group_id = ");
    db_quote(db, &sql, cfg->kafka.group_id, strlen(cfg->kafka.group_id));
    buf_str(&sql, " AND topic = ");
    db_quote(db, &sql, cfg->kafka.usage_topic, strlen(cfg->kafka.usage_topic));
    buf_str(&sql, " ORDER BY partition_id");
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    while (db_next(&rows)) {
        x->ledger = mem_realloc(x->ledger, (x->ledger_count + 1) * sizeof *x->ledger);
        x->ledger[x->ledger_count++] = (struct explain_ledger){.partition = (int32_t)db_i64(&rows, 0, -1),
                                                               .first = db_i64(&rows, 1, 0),
                                                               .next = db_i64(&rows, 2, 0)};
    }
    db_rows_free(&rows);
    return true;
}

bool explain_mysql(const struct config *cfg, struct db *db, struct explanation *x, struct error *err) {
    bool ok = db_ensure(db, err) &&
              db_exec_text(db, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", NULL, err) &&
              read_row(db, x, "usage_record", "NULL, NULL, NULL, NULL", err) &&
              read_row(db, x, "usage_block",
                       "reason, remaining_bytes, monthly_used_bytes, monthly_limit_bytes", err) &&
              read_letter(db, x, err) && read_ledger(cfg, db, x, err) &&
              ledger_floor(db, &x->closed_before, err) && db_exec_text(db, "COMMIT", NULL, err);
    if (!ok)
        db_rollback(db);
    if (x->closed_before <= NOTHING_CLOSED)
        x->closed_before = 0;
    return ok;
}

bool explain_mysql_month(struct db *db, struct explanation *x, struct error *err) {
    int64_t family;
    int32_t month;
    int64_t customer = explain_customer(x, &family, &month);
    if (!customer)
        return true;
    x->has_month = true;
    return family_month_read(db, family, customer, month, &x->month, err);
}
