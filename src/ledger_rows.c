/* SPDX-License-Identifier: MIT */
#include "ledger_rows.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "draw.h"
#include "ledger.h"

int64_t ledger_start(int64_t low, int64_t committed, int64_t next_offset, bool group_known) {
    int64_t at = next_offset;
    if (next_offset < 0)
        at = group_known ? low : committed;
    else if (committed >= 0 && committed < next_offset)
        at = committed;
    return at > low ? at : low;
}

static void take_row(const struct db_rows *rows, struct ledger_row *r) {
    *r = (struct ledger_row){.partition = (int32_t)db_i64(rows, 0, -1),
                             .owner = db_i64(rows, 1, 0),
                             .batch_no = db_i64(rows, 2, 0),
                             .first_offset = db_i64(rows, 3, 0),
                             .next_offset = db_i64(rows, 4, 0),
                             .settled = db_i64(rows, 5, 0),
                             .blocked = db_i64(rows, 6, 0),
                             .duplicate = db_i64(rows, 7, 0),
                             .rejected = db_i64(rows, 8, 0),
                             .ignored = db_i64(rows, 9, 0),
                             .gap = db_i64(rows, 10, 0),
                             .paused_since_ms = db_i64(rows, 11, 0),
                             .last_ms = db_i64(rows, 12, 0)};
    if (r->last_ms < 0)
        r->last_ms = 0;
}

static bool read_rows(struct db *db, const struct config *cfg, const char *where, struct ledger_row **list,
                      size_t *n, struct error *err) {
    struct db_rows rows;
    struct buf sql = {0};
    *list = NULL;
    *n = 0;
    if (!db_ensure(db, err))
        return false;
    buf_str(&sql,
            "SELECT partition_id, owner, batch_no, first_offset, next_offset, settled, blocked, duplicate, "
            "rejected, ignored, gap, " LEDGER_PAUSED_SINCE ", last_timestamp_ms FROM consumer_ledger");
    ledger_where(db, &sql, cfg);
    buf_printf(&sql, "%s ORDER BY partition_id", where);
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    size_t capacity = 0;
    while (db_next(&rows)) {
        if (*n == capacity) {
            capacity = capacity ? capacity * 2 : 8;
            *list = mem_realloc(*list, capacity * sizeof **list);
        }
        take_row(&rows, &(*list)[(*n)++]);
    }
    db_rows_free(&rows);
    return true;
}

bool ledger_rows_read(struct db *db, const struct config *cfg, struct ledger_row **rows, size_t *n,
                      struct error *err) {
    return read_rows(db, cfg, "", rows, n, err);
}

bool ledger_rows_paused(struct db *db, const struct config *cfg, struct ledger_row **rows, size_t *n,
                        struct error *err) {
    return read_rows(db, cfg, " AND paused <> 0", rows, n, err);
}

static bool set_paused(struct db *db, const struct config *cfg, const int32_t *partitions, size_t n,
                       bool paused, struct error *err) {
    struct buf sql = {0};
    if (n == 0)
        return true;
    /* an UPDATE assigns from left to right: the time goes by what the row was */
    buf_str(&sql, paused ? "UPDATE consumer_ledger SET paused_since = IF(paused = 0 OR paused_since IS NULL, "
                           "UTC_TIMESTAMP(3), paused_since), paused = 1"
                         : "UPDATE consumer_ledger SET paused_since = NULL, paused = 0");
    ledger_where(db, &sql, cfg);
    buf_str(&sql, " AND partition_id IN (");
    for (size_t i = 0; i < n; i++)
        buf_printf(&sql, "%s%d", i ? "," : "", partitions[i]);
    buf_char(&sql, ')');
    bool ok = db_exec(db, &sql, NULL, err);
    buf_free(&sql);
    return ok;
}

bool ledger_rows_pause(struct db *db, const struct config *cfg, const int32_t *partitions, size_t n,
                       bool paused, struct error *err) {
    return db_ensure(db, err) && set_paused(db, cfg, partitions, n, paused, err);
}

/* ---- new rows ---- */

static void append_key(struct db *db, const struct config *cfg, int32_t partition, struct buf *sql) {
    db_quote(db, sql, cfg->kafka.group_id, strlen(cfg->kafka.group_id));
    buf_char(sql, ',');
    db_quote(db, sql, cfg->kafka.usage_topic, strlen(cfg->kafka.usage_topic));
    buf_printf(sql, ",%d", partition);
}

bool ledger_rows_begin(struct db *db, const struct config *cfg, const struct ledger_begin *begins, size_t n,
                       int64_t owner, struct error *err) {
    struct buf sql = {0};
    if (n == 0)
        return true;
    buf_str(&sql, "INSERT INTO consumer_ledger (group_id, topic, partition_id, owner, first_offset, "
                  "next_offset, updated_at) VALUES ");
    for (size_t i = 0; i < n; i++) {
        buf_str(&sql, i ? ",(" : "(");
        append_key(db, cfg, begins[i].partition, &sql);
        buf_printf(&sql, ",%lld,%lld,%lld,UTC_TIMESTAMP(3))", (long long)owner, (long long)begins[i].offset,
                   (long long)begins[i].offset);
    }
    buf_str(&sql, " ON DUPLICATE KEY UPDATE group_id = VALUES(group_id)");
    bool ok = db_exec(db, &sql, NULL, err);
    buf_free(&sql);
    return ok;
}

bool ledger_rows_begin_paused(struct db *db, const struct config *cfg, const struct ledger_begin *begins,
                              size_t n, const int32_t *paused, size_t paused_count, struct error *err) {
    if (db_ensure(db, err) && db_exec_text(db, "START TRANSACTION", NULL, err) &&
        ledger_rows_begin(db, cfg, begins, n, 0, err) &&
        set_paused(db, cfg, paused, paused_count, true, err) && db_exec_text(db, "COMMIT", NULL, err))
        return true;
    db_rollback(db);
    return false;
}

/* ---- skipping ---- */

static void insert_skip(struct db *db, const struct config *cfg, const struct ledger_skip *s, int64_t owner,
                        struct buf *sql) {
    buf_str(sql, "INSERT INTO consumer_ledger (group_id, topic, partition_id, owner, first_offset, "
                 "next_offset, gap, updated_at) VALUES (");
    append_key(db, cfg, s->partition, sql);
    buf_printf(sql, ",%lld,%lld,%lld,%lld,UTC_TIMESTAMP(3))", (long long)owner, (long long)s->from,
               (long long)s->to, (long long)(s->to - s->from));
}

/* The last record accounted for stays the one it was: by it the log is known again. */
static void update_skip(struct db *db, const struct config *cfg, const struct ledger_skip *s, int64_t owner,
                        struct buf *sql) {
    buf_printf(sql,
               "UPDATE consumer_ledger SET owner = %lld, next_offset = %lld, gap = gap + %lld, "
               "updated_at = UTC_TIMESTAMP(3)",
               (long long)owner, (long long)s->to, (long long)(s->to - s->from));
    ledger_where(db, sql, cfg);
    buf_printf(sql, " AND partition_id = %d AND owner = %lld AND batch_no = %lld AND next_offset = %lld",
               s->partition, (long long)s->owner, (long long)s->batch_no, (long long)s->from);
}

static bool skip_one(struct db *db, const struct config *cfg, const struct ledger_skip *s, int64_t owner,
                     struct error *err) {
    struct buf sql = {0};
    int64_t affected = 0;
    if (s->has_row)
        update_skip(db, cfg, s, owner, &sql);
    else
        insert_skip(db, cfg, s, owner, &sql);
    bool ok = db_exec(db, &sql, &affected, err);
    buf_free(&sql);
    bool moved = ok ? affected != 1 : db_error_is_duplicate(err);
    if (!moved)
        return ok;
    error_clear(err);
    return error_set(err, ERROR_MYSQL, ERROR_STOP, ERROR_NOT_DONE, 0,
                     "consumer_ledger: partition %d was claimed or went on meanwhile: nothing is skipped",
                     s->partition);
}

bool ledger_rows_skip(struct db *db, const struct config *cfg, const struct ledger_skip *skips, size_t n,
                      struct error *err) {
    int64_t owner = draw_number();
    if (n == 0)
        return true;
    bool ok = db_ensure(db, err) && db_exec_text(db, "START TRANSACTION", NULL, err);
    for (size_t i = 0; ok && i < n; i++)
        ok = skip_one(db, cfg, &skips[i], owner, err);
    if (ok && db_exec_text(db, "COMMIT", NULL, err))
        return true;
    db_rollback(db);
    return false;
}
