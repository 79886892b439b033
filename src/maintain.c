/* SPDX-License-Identifier: MIT */
#include "maintain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "event.h"
#include "known.h"
#include "period.h"

#define DAY_MS 86400000LL
/* Of this database: the names of locks are the whole server's. */
#define LOCK_NAME "CONCAT('tallyd.maintain.', MD5(DATABASE()))"
#define OUTBOX "outbox"

#define ON_ITS_WAY_MS 3600000
/* Settlements queue behind who wants to raise the floor: it rather tries again later. */
#define LOCK_SHORTLY "SET SESSION innodb_lock_wait_timeout = 1"

struct job {
    struct db *db;
    const struct config *cfg;
    bool dry_run;
    maintain_pause_fn *pause;
    void *ctx;
    struct maintain_report *r;
    struct error *err;
    char **ids; /* of the page in hand; owned, as is each */
    size_t id_count;
};

void maintain_report_free(struct maintain_report *r) {
    free(r->months);
    *r = (struct maintain_report){0};
}

/* False when it is to end here. A pause as long as the server bears silence would cost the connection. */
static bool rest(struct job *j) {
    int64_t most = j->cfg->mysql.session_wait_timeout_ms / 2, ms = j->cfg->maintain.pause_ms;
    j->r->stopped = !j->pause(j->ctx, ms < most ? ms : most);
    return !j->r->stopped;
}

/* ---- pages ---- */

static void forget_ids(struct job *j) {
    while (j->id_count)
        free(j->ids[--j->id_count]);
}

static void note_id(struct job *j, const char *id) {
    j->ids[j->id_count++] = mem_strdup(id);
}

/* One transaction: the rows in hand go, and the table says how far it is. */
static bool delete_page(struct job *j, const struct buf *delete, const struct buf *state, int64_t *pruned) {
    struct buf sql = {0};
    int64_t n = 0;
    bool ok = db_exec_text(j->db, "START TRANSACTION", NULL, j->err) &&
              (j->id_count == 0 || db_exec(j->db, delete, &n, j->err));
    buf_printf(&sql, "UPDATE maintenance SET pruned = pruned + %lld, updated_at = UTC_TIMESTAMP(3)%s",
               (long long)n, buf_cstr(state));
    ok = ok && db_exec(j->db, &sql, NULL, j->err) && db_exec_text(j->db, "COMMIT", NULL, j->err);
    buf_free(&sql);
    if (ok)
        *pruned += n;
    else
        db_rollback(j->db);
    return ok;
}

/* ---- the outbox ---- */

static void outbox_delete_sql(const struct job *j, const char *before, struct buf *sql) {
    buf_str(sql, "DELETE usage_event_outbox FROM JSON_TABLE('[");
    for (size_t i = 0; i < j->id_count; i++)
        buf_printf(sql, "%s%s", i ? "," : "", j->ids[i]);
    buf_printf(sql,
               "]', '$[*]' COLUMNS (id BIGINT PATH '$')) j STRAIGHT_JOIN usage_event_outbox FORCE INDEX "
               "(PRIMARY) ON outbox_id = j.id WHERE status = 'SENT' AND sent_at < '%s'",
               before);
}

/* Notes the next rows that are old enough. `*more` is false where the rows begin that were born too late. */
static bool outbox_page(struct job *j, const char *before, int64_t *after, bool *more) {
    struct buf sql = {0};
    struct db_rows rows;
    int64_t n = 0;
    forget_ids(j);
    buf_printf(&sql,
               "SELECT outbox_id, sent_at < '%s', created_at < '%s' FROM usage_event_outbox FORCE INDEX "
               "(usage_event_outbox_status) WHERE status = 'SENT' AND outbox_id > %lld ORDER BY outbox_id "
               "LIMIT %lld",
               before, before, (long long)*after, (long long)j->cfg->maintain.batch_rows);
    bool ok = db_query(j->db, &sql, &rows, j->err);
    buf_free(&sql);
    *more = ok;
    for (; ok && db_next(&rows); n++) {
        *after = db_i64(&rows, 0, 0);
        if (db_i64(&rows, 1, 0))
            note_id(j, rows.row[0]);
        *more = *more && db_i64(&rows, 2, 0);
    }
    db_rows_free(&rows);
    *more = *more && n == j->cfg->maintain.batch_rows;
    return ok;
}

static bool outbox_delete(struct job *j, const char *before) {
    struct buf sql = {0}, state = {0};
    if (j->dry_run || j->id_count == 0) {
        j->r->sent_rows += (int64_t)j->id_count;
        return true;
    }
    outbox_delete_sql(j, before, &sql);
    buf_str(&state, " WHERE task = '" OUTBOX "'");
    bool ok = delete_page(j, &sql, &state, &j->r->sent_rows);
    buf_free(&sql);
    buf_free(&state);
    return ok;
}

/* Said before the first row goes: who misses one knows why (tallyd audit). */
static bool outbox_announce(struct job *j, const char *before) {
    struct buf sql = {0};
    if (j->dry_run)
        return true;
    buf_printf(&sql,
               "INSERT INTO maintenance (task, goal, updated_at) VALUES ('" OUTBOX
               "', '%s', UTC_TIMESTAMP(3)) ON DUPLICATE KEY UPDATE goal = GREATEST(goal, VALUES(goal))",
               before);
    bool ok = db_exec(j->db, &sql, NULL, j->err);
    buf_free(&sql);
    return ok;
}

static bool prune_outbox(struct job *j, int64_t now_ms) {
    char before[PERIOD_UTC_SIZE];
    int64_t after = 0;
    bool more = true;
    if (j->cfg->maintain.sent_retention_days == 0)
        return true;
    j->r->sent_before_ms = now_ms - j->cfg->maintain.sent_retention_days * DAY_MS;
    period_format_utc(j->r->sent_before_ms, before);
    if (!outbox_announce(j, before))
        return false;
    while (more) {
        if (!outbox_page(j, before, &after, &more) || !outbox_delete(j, before))
            return false;
        if (more && !rest(j))
            break;
    }
    return true;
}

/* ---- months ---- */

static struct maintain_month *month_of(struct maintain_report *r, int32_t month) {
    for (size_t i = 0; i < r->month_count; i++) {
        if (r->months[i].month == month)
            return &r->months[i];
    }
    r->months = mem_realloc(r->months, (r->month_count + 1) * sizeof *r->months);
    r->months[r->month_count] = (struct maintain_month){.month = month};
    return &r->months[r->month_count++];
}

static bool read_floor(struct job *j) {
    struct db_rows rows;
    if (!db_query_text(j->db, "SELECT closed_before FROM usage_floor WHERE id = 1", &rows, j->err))
        return false;
    bool ok = db_next(&rows);
    if (ok)
        j->r->floor_before = j->r->floor = period_date_month(rows.row[0]);
    db_rows_free(&rows);
    return ok ||
           error_set(j->err, ERROR_MYSQL, ERROR_STOP, ERROR_NOT_DONE, 0, "usage_floor: its row is missing");
}

/* Waits for the settlements that read the floor as it was; every later one reads this. */
static bool raise_floor(struct job *j) {
    char date[PERIOD_DATE_SIZE];
    struct buf sql = {0};
    if (j->r->floor >= j->r->months_before)
        return true;
    j->r->floor = j->r->months_before;
    if (j->dry_run)
        return true;
    period_month_date(j->r->months_before, date);
    buf_printf(&sql, "UPDATE usage_floor SET closed_before = '%s' WHERE id = 1 AND closed_before < '%s'",
               date, date);
    bool ok = db_exec_text(j->db, LOCK_SHORTLY, NULL, j->err) && db_exec(j->db, &sql, NULL, j->err);
    buf_free(&sql);
    if (!ok)
        j->r->floor = j->r->floor_before;
    return ok;
}

/* Where the walk over one of the tables of usage is. */
struct walk {
    const char *table; /* and the task's name */
    char goal[PERIOD_DATE_SIZE];
    char at[EVENT_ID_MAX + 1];
    bool done;
};

/* Where it left off, unless there are more months to prune than there were then. */
static bool walk_find(struct job *j, struct walk *w) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_printf(&sql, "SELECT goal < '%s', walked_to FROM maintenance WHERE task = '%s'", w->goal, w->table);
    bool ok = db_query(j->db, &sql, &rows, j->err), begin = true;
    buf_free(&sql);
    if (!ok)
        return false;
    if (db_next(&rows) && !db_i64(&rows, 0, 1)) {
        begin = false;
        w->done = rows.row[1] == NULL;
        snprintf(w->at, sizeof w->at, "%s", rows.row[1] ? rows.row[1] : "");
    }
    db_rows_free(&rows);
    if (!begin || j->dry_run)
        return true;
    buf_printf(&sql,
               "INSERT INTO maintenance (task, goal, walked_to, updated_at) VALUES ('%s', '%s', '', "
               "UTC_TIMESTAMP(3)) ON DUPLICATE KEY UPDATE goal = VALUES(goal), walked_to = ''",
               w->table, w->goal);
    ok = db_exec(j->db, &sql, NULL, j->err);
    buf_free(&sql);
    return ok;
}

static bool walk_page(struct job *j, struct walk *w) {
    struct buf sql = {0};
    struct db_rows rows;
    int64_t n = 0;
    bool records = strcmp(w->table, "usage_record") == 0;
    forget_ids(j);
    buf_printf(&sql, "SELECT event_id, quota_month FROM %s WHERE event_id > ", w->table);
    db_quote(j->db, &sql, w->at, strlen(w->at));
    buf_printf(&sql, " ORDER BY event_id LIMIT %lld", (long long)j->cfg->maintain.batch_rows);
    bool ok = db_query(j->db, &sql, &rows, j->err);
    buf_free(&sql);
    for (; ok && db_next(&rows); n++) {
        int32_t month = period_date_month(rows.row[1]);
        snprintf(w->at, sizeof w->at, "%s", rows.row[0]);
        if (month >= j->r->months_before)
            continue;
        note_id(j, rows.row[0]);
        *(records ? &month_of(j->r, month)->records : &month_of(j->r, month)->blocks) += 1;
    }
    db_rows_free(&rows);
    w->done = ok && n < j->cfg->maintain.batch_rows;
    return ok;
}

static bool walk_delete(struct job *j, const struct walk *w, int64_t *pruned) {
    struct buf sql = {0}, state = {0};
    if (j->dry_run) {
        *pruned += (int64_t)j->id_count;
        return true;
    }
    buf_printf(&sql, "DELETE %s FROM ", w->table);
    known_append_texts(&sql, j->ids, j->id_count);
    buf_printf(&sql, " STRAIGHT_JOIN %s ON %s.event_id = j.id WHERE quota_month < '%s'", w->table, w->table,
               w->goal);
    buf_str(&state, ", walked_to = ");
    if (w->done)
        buf_str(&state, "NULL");
    else
        db_quote(j->db, &state, w->at, strlen(w->at));
    buf_printf(&state, " WHERE task = '%s'", w->table);
    bool ok = delete_page(j, &sql, &state, pruned);
    buf_free(&sql);
    buf_free(&state);
    return ok;
}

static bool prune_usage(struct job *j, const char *table, int64_t *pruned) {
    struct walk w = {.table = table};
    period_month_date(j->r->months_before, w.goal);
    if (!walk_find(j, &w))
        return false;
    while (!w.done) {
        if (!walk_page(j, &w) || !walk_delete(j, &w, pruned))
            return false;
        if (!w.done && !rest(j))
            break;
    }
    return true;
}

static int32_t months_back(int32_t month, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        month = period_month_before(month);
    return month;
}

/* The month that so many lie between and the present one. A clock that is fast must not take a month away
 * too soon: of two the slower one counts. Nor must the turn of a month, from what is on its way just then. */
static int32_t first_kept(const struct config *cfg, int64_t now_ms) {
    int64_t own_ms = (int64_t)time(NULL) * 1000;
    return months_back(period_month((own_ms < now_ms ? own_ms : now_ms) - ON_ITS_WAY_MS),
                       cfg->maintain.usage_months);
}

/* Keeps this month and those after it open, but for those that are closed already. False: it isn't in the
 * way.
 */
static bool hold(struct job *j, int32_t month) {
    if (month >= j->r->months_before || j->r->months_before <= j->r->floor)
        return false;
    j->r->months_before = month > j->r->floor ? month : j->r->floor;
    return true;
}

/* What waits on a paused partition is of its own time, and must not find its month closed. */
static bool hold_for_paused(struct job *j) {
    struct db_rows rows;
    int64_t since_ms = 0;
    if (!db_query_text(j->db, "SELECT MIN(paused_since) FROM consumer_ledger WHERE paused <> 0", &rows,
                       j->err))
        return false;
    bool some = db_next(&rows) && rows.row[0] && period_parse_utc(rows.row[0], &since_ms);
    db_rows_free(&rows);
    j->r->paused = some && hold(j, backlog_month(j->cfg, since_ms));
    return true;
}

/* Nor must what nobody has read yet, after a long outage or with a database put back. */
static bool hold_for_unread(struct job *j) {
    struct backlog *b = &j->r->backlog;
    if (j->r->months_before <= j->r->floor)
        return true;
    if (!backlog_find(j->db, j->cfg, j->r->months_before, b, j->err))
        return false;
    if (b->reason != BACKLOG_NONE)
        hold(j, b->month);
    return true;
}

const char *maintain_held_by(const struct maintain_report *r) {
    static const char *const names[] = {NULL, "backlog", "unknown", "not begun"};
    return names[r->backlog.reason] || !r->paused ? names[r->backlog.reason] : "paused";
}

static bool prune_months(struct job *j, int64_t now_ms) {
    if (j->cfg->maintain.usage_months == 0)
        return true;
    j->r->months_before = first_kept(j->cfg, now_ms);
    return hold_for_paused(j) && hold_for_unread(j) && raise_floor(j) &&
           prune_usage(j, "usage_record", &j->r->record_rows) &&
           (j->r->stopped || prune_usage(j, "usage_block", &j->r->block_rows));
}

/* ---- the whole ---- */

static bool take_lock(struct job *j) {
    struct db_rows rows;
    if (!db_query_text(j->db, "SELECT GET_LOCK(" LOCK_NAME ", 0)", &rows, j->err))
        return false;
    j->r->busy = !db_next(&rows) || db_i64(&rows, 0, 0) != 1;
    db_rows_free(&rows);
    return true;
}

static void release_lock(struct job *j) {
    struct db_rows rows;
    struct error ignored = {0};
    if (db_query_text(j->db, "SELECT RELEASE_LOCK(" LOCK_NAME ")", &rows, &ignored))
        db_rows_free(&rows); /* a lost connection gives the lock up by itself */
}

static bool read_clock(struct job *j, int64_t *now_ms) {
    struct db_rows rows;
    if (!db_query_text(j->db, "SELECT UTC_TIMESTAMP(3)", &rows, j->err))
        return false;
    bool ok = db_next(&rows) && period_parse_utc(rows.row[0], now_ms);
    db_rows_free(&rows);
    return ok ||
           error_set(j->err, ERROR_MYSQL, ERROR_STOP, ERROR_NOT_DONE, 0, "the server's time can't be read");
}

static bool prune(struct job *j) {
    int64_t now_ms = 0;
    if (!read_clock(j, &now_ms) || !read_floor(j))
        return false;
    bool ok = prune_outbox(j, now_ms);
    if (j->r->stopped || (!ok && j->err->action == ERROR_RETRY)) /* away it is for the months too */
        return ok;
    /* a right that is missing for one may be there for the other; the first error stays */
    return prune_months(j, now_ms) && ok;
}

bool maintain_run(struct db *db, const struct config *cfg, bool dry_run, maintain_pause_fn *pause, void *ctx,
                  struct maintain_report *r, struct error *err) {
    *r = (struct maintain_report){0};
    struct job j = {.db = db, .cfg = cfg, .dry_run = dry_run, .pause = pause, .ctx = ctx, .r = r, .err = err};
    if (!db_ensure(db, err) || (!dry_run && !take_lock(&j)))
        return false;
    if (r->busy)
        return true;
    j.ids = mem_alloc((size_t)cfg->maintain.batch_rows * sizeof *j.ids);
    bool ok = prune(&j);
    if (!dry_run)
        release_lock(&j);
    forget_ids(&j);
    free(j.ids);
    return ok;
}

bool maintain_sent_before(struct db *db, int64_t *sent_before_ms, struct error *err) {
    struct db_rows rows;
    *sent_before_ms = 0;
    if (!db_query_text(db, "SELECT goal FROM maintenance WHERE task = '" OUTBOX "'", &rows, err))
        return false;
    if (db_next(&rows) && !period_parse_utc(rows.row[0], sent_before_ms))
        *sent_before_ms = 0;
    db_rows_free(&rows);
    return true;
}
