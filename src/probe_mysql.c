/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdlib.h>

#include "ledger.h"
#include "mysql_db.h"
#include "probe_kinds.h"

struct mysql_state {
    /* shared, under `lock` */
    pthread_mutex_t lock;
    struct probe_outbox outbox;
    /* the prober's thread's own */
    const struct config *cfg;
    struct db *db;
};

static void *mysql_open(const struct config *cfg) {
    struct mysql_state *s = mem_zero(1, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    s->cfg = cfg;
    s->db = db_new(cfg, DB_READ_COMMITTED);
    return s;
}

static void mysql_end(void *state) {
    struct mysql_state *s = state;
    db_free(s->db);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void probe_mysql_outbox(void *state, struct probe_outbox *out) {
    struct mysql_state *s = state;
    pthread_mutex_lock(&s->lock);
    *out = s->outbox;
    pthread_mutex_unlock(&s->lock);
}

/* A statement of its own: beside an aggregate MariaDB 10.11 answers 0 whatever it is. */
static bool ask_read_only(struct mysql_state *s, struct error *err) {
    struct db_rows rows;
    if (!db_query_text(s->db, "SELECT @@global.read_only", &rows, err))
        return false;
    bool read_only = db_next(&rows) && db_i64(&rows, 0, 0) != 0;
    db_rows_free(&rows);
    return !read_only ||
           error_set(err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE, 0, "the server is read-only");
}

/* A row a partition at most. */
static bool ask_ledger(struct mysql_state *s, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_str(&sql, "SELECT COUNT(*), SUM(next_offset) FROM consumer_ledger");
    ledger_where(s->db, &sql, s->cfg);
    bool ok = db_query(s->db, &sql, &rows, err);
    buf_free(&sql);
    if (ok)
        db_rows_free(&rows);
    return ok;
}

static void take_outbox(struct mysql_state *s, struct probe_outbox outbox) {
    pthread_mutex_lock(&s->lock);
    s->outbox = outbox;
    pthread_mutex_unlock(&s->lock);
}

/* Each part is a piece of an index, and no more of it than PROBE_OUTBOX_MAX rows: what was sent long ago
 * isn't looked at, however much of it there is. The index by state has the rows of a state in the order of
 * their ids. */
static bool ask_outbox(struct mysql_state *s, struct error *err) {
    struct db_rows rows;
    struct buf sql = {0};
    buf_printf(
        &sql,
        "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM usage_event_outbox FORCE INDEX (usage_event_outbox_status) "
        "WHERE status = 'PUBLISH_PENDING' LIMIT %d) p), "
        "(SELECT COUNT(*) FROM (SELECT 1 FROM usage_event_outbox FORCE INDEX (usage_event_outbox_status) "
        "WHERE status = 'FAILED' LIMIT %d) f), "
        "(SELECT TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(3)) DIV 1000 FROM usage_event_outbox "
        "FORCE INDEX (usage_event_outbox_status) WHERE status = 'PUBLISH_PENDING' ORDER BY outbox_id LIMIT 1)",
        PROBE_OUTBOX_MAX, PROBE_OUTBOX_MAX);
    bool ok = db_query(s->db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    struct probe_outbox found = {.known = db_next(&rows)};
    if (found.known) {
        found.pending = db_i64(&rows, 0, 0);
        found.failed = db_i64(&rows, 1, 0);
        found.oldest_age_ms = db_i64(&rows, 2, 0) > 0 ? db_i64(&rows, 2, 0) : 0;
    }
    db_rows_free(&rows);
    take_outbox(s, found);
    return true;
}

static bool mysql_attempt(void *state, struct error *err) {
    struct mysql_state *s = state;
    bool ok = db_ensure(s->db, err) && ask_read_only(s, err) && ask_ledger(s, err) && ask_outbox(s, err);
    if (!ok)
        take_outbox(s, (struct probe_outbox){0}); /* what it was before is no news */
    return ok;
}

const struct probe_kind probe_mysql = {"mysql", "probe_mysql", mysql_open, mysql_attempt, mysql_end};
