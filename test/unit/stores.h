/* SPDX-License-Identifier: MIT */
/* What suites share that need a real Redis or MySQL, as scripts/with-stack.sh
 * makes them: a configuration out of the environment, a database of the suite's
 * own, and dumps that tell whether anything at all was written. */
#ifndef TALLYD_STORES_H
#define TALLYD_STORES_H

#include <hiredis/hiredis.h>
#include <stdarg.h>

#include "buf.h"
#include "config.h"
#include "migrate.h"
#include "mysql_db.h"
#include "period.h"
#include "testing.h"

#define STORES_REDIS_DATABASE 9 /* flushed by tests; nobody else's */

static inline const char *stores_env(const char *name) {
    const char *value = getenv(name);
    ck_assert_msg(value && *value, "%s isn't set; run `sh scripts/with-stack.sh -- build/test/test_…`", name);
    return value;
}

static inline void stores_set(char **text, const char *value) {
    free(*text);
    *text = mem_strdup(value);
}

/* The defaults with the stack's servers; `database` may be NULL. Also sets the zone. */
static inline struct config *stores_config(const char *database) {
    static const char yaml[] = "zone: Asia/Seoul\n";
    struct error err = {0};
    struct config *cfg = config_parse("test", yaml, sizeof yaml - 1, &err);
    ck_assert_msg(cfg != NULL, "%s", err.text);
    stores_set(&cfg->redis.host, stores_env("REDIS_HOST"));
    cfg->redis.port = atoi(stores_env("REDIS_PORT"));
    cfg->redis.database = STORES_REDIS_DATABASE;
    stores_set(&cfg->mysql.host, stores_env("MYSQL_HOST"));
    cfg->mysql.port = atoi(stores_env("MYSQL_PORT"));
    stores_set(&cfg->mysql.user, stores_env("MYSQL_USER"));
    stores_set(&cfg->mysql.password, stores_env("MYSQL_PASSWORD"));
    stores_set(&cfg->mysql.database, database ? database : stores_env("MYSQL_DATABASE"));
    cfg->redis.timeout_ms = cfg->mysql.timeout_ms = 20000; /* nothing here is to depend on a busy machine */
    ck_assert_msg(period_zone_init(cfg->zone, &err), "%s", err.text);
    return cfg;
}

/* ---- MySQL ---- */

static inline void stores_sql(struct db *db, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void stores_sql(struct db *db, const char *fmt, ...) {
    char sql[4096];
    struct error err = {0};
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(sql, sizeof sql, fmt, ap);
    va_end(ap);
    ck_assert_msg(n > 0 && (size_t)n < sizeof sql, "a statement is too long");
    ck_assert_msg(db_exec_text(db, sql, NULL, &err), "%s\nin: %s", err.text, sql);
}

/* A query's rows as text: cells with | between them, a line a row. */
static inline void stores_rows(struct db *db, const char *sql, size_t columns, struct buf *out) {
    struct error err = {0};
    struct db_rows rows;
    ck_assert_msg(db_query_text(db, sql, &rows, &err), "%s\nin: %s", err.text, sql);
    while (db_next(&rows)) {
        for (size_t i = 0; i < columns; i++)
            buf_printf(out, "%s%s", i ? "|" : "", rows.row[i] ? rows.row[i] : "NULL");
        buf_char(out, '\n');
    }
    db_rows_free(&rows);
}

static inline void stores_expect_at(const char *file, int line, struct db *db, const char *sql,
                                    size_t columns, const char *expected) {
    struct buf got = {0};
    stores_rows(db, sql, columns, &got);
    ck_assert_msg(strcmp(buf_cstr(&got), expected) == 0, "%s:%d: %s\nexpected:\n%sgot:\n%s", file, line, sql,
                  expected, buf_cstr(&got));
    buf_free(&got);
}
#define stores_expect(db, sql, columns, expected)                                                            \
    stores_expect_at(__FILE__, __LINE__, db, sql, columns, expected)

/* Everything in every table, to be compared with a later dump. */
static inline void stores_dump_tables(struct db *db, struct buf *out) {
    static const struct {
        const char *sql;
        size_t columns;
    } tables[] = {
        {"SELECT * FROM family ORDER BY 1", 2},
        {"SELECT * FROM family_member ORDER BY 1, 2", 2},
        {"SELECT * FROM policy_assignment ORDER BY 1", 7},
        {"SELECT * FROM family_quota ORDER BY 1, 2", 6},
        {"SELECT * FROM customer_quota ORDER BY 1, 2, 3", 9},
        {"SELECT * FROM usage_record ORDER BY 1", 10},
        {"SELECT * FROM usage_block ORDER BY 1", 14},
        {"SELECT * FROM alert_state ORDER BY 1, 2, 3, 4, 5", 9},
        {"SELECT * FROM usage_event_outbox ORDER BY 1", 13},
        {"SELECT * FROM consumer_ledger ORDER BY 1, 2, 3", 15},
        {"SELECT * FROM usage_floor ORDER BY 1", 2},
    };
    for (size_t i = 0; i < TESTING_LENGTH(tables); i++) {
        buf_printf(out, "-- %s\n", tables[i].sql);
        stores_rows(db, tables[i].sql, tables[i].columns, out);
    }
}

static inline struct db *stores_db(const struct config *cfg, enum db_isolation isolation) {
    struct error err = {0};
    struct db *db = db_new(cfg, isolation);
    ck_assert_msg(db_ensure(db, &err), "MySQL of the stack: %s", err.text);
    return db;
}

/* Makes the database anew with all migrations; `name` must begin with tallyd_. */
static inline void stores_create_database(const char *name) {
    struct config *cfg = stores_config(NULL);
    struct error err = {0};
    struct db *db = stores_db(cfg, DB_READ_COMMITTED);
    stores_sql(db, "DROP DATABASE IF EXISTS %s", name);
    stores_sql(db, "CREATE DATABASE %s CHARACTER SET utf8mb4", name);
    db_free(db);
    stores_set(&cfg->mysql.database, name);
    db = db_new(cfg, DB_READ_COMMITTED);
    ck_assert_msg(migrate_apply(db, NULL, NULL, &err), "%s", err.text);
    db_free(db);
    config_free(cfg);
}

static inline void stores_drop_database(const char *name) {
    struct config *cfg = stores_config(NULL);
    struct db *db = stores_db(cfg, DB_READ_COMMITTED);
    stores_sql(db, "DROP DATABASE IF EXISTS %s", name);
    db_free(db);
    config_free(cfg);
}

/* Waits until a statement LIKE `pattern` has been at it for a moment, as one does that waits for a lock; the
 * server's own list says so. Returns its connection's id. */
static inline int64_t stores_await_waiting(struct db *db, const char *pattern) {
    char sql[320];
    snprintf(sql, sizeof sql,
             "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE '%s' AND "
             "id <> CONNECTION_ID() AND time_ms > 20",
             pattern);
    for (;;) {
        struct error err = {0};
        struct db_rows rows;
        ck_assert_msg(db_query_text(db, sql, &rows, &err), "%s", err.text);
        int64_t id = db_next(&rows) ? db_i64(&rows, 0, 0) : 0;
        db_rows_free(&rows);
        if (id)
            return id;
    }
}

static inline void stores_empty_tables(struct db *db) {
    static const char *const tables[] = {
        "family",       "family_member", "policy_assignment", "family_quota",       "customer_quota",
        "usage_record", "usage_block",   "alert_state",       "usage_event_outbox", "consumer_ledger"};
    for (size_t i = 0; i < TESTING_LENGTH(tables); i++)
        stores_sql(db, "DELETE FROM %s", tables[i]);
    stores_sql(db, "UPDATE usage_floor SET closed_before = '1970-01-01'");
}

/* ---- Redis, by hiredis itself ---- */

static inline redisContext *stores_redis(const struct config *cfg) {
    redisContext *raw = redisConnect(cfg->redis.host, (int)cfg->redis.port);
    ck_assert_msg(raw && !raw->err, "Redis of the stack at %s:%d doesn't answer", cfg->redis.host,
                  (int)cfg->redis.port);
    redisReply *reply = redisCommand(raw, "SELECT %d", STORES_REDIS_DATABASE);
    ck_assert(reply && reply->type != REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    return raw;
}

/* One command that mustn't fail; the caller frees the reply. */
static inline redisReply *stores_ask(redisContext *raw, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    redisReply *reply = redisvCommand(raw, fmt, ap);
    va_end(ap);
    ck_assert_msg(reply != NULL, "Redis: %s", raw->errstr);
    ck_assert_msg(reply->type != REDIS_REPLY_ERROR, "Redis: %s: %s", fmt, reply->str);
    return reply;
}
#define stores_do(raw, ...) freeReplyObject(stores_ask(raw, __VA_ARGS__))

static inline int64_t stores_number(redisContext *raw, const char *fmt, const char *key) {
    redisReply *reply = stores_ask(raw, fmt, key);
    ck_assert_int_eq(reply->type, REDIS_REPLY_INTEGER);
    int64_t n = reply->integer;
    freeReplyObject(reply);
    return n;
}

static inline int stores_by_name(const void *a, const void *b) {
    const redisReply *const *x = a, *const *y = b;
    return strcmp((*x)->str, (*y)->str);
}

/* Every key with its serialized value and its expiry, to be compared with a later dump. */
static inline void stores_dump_redis(redisContext *raw, struct buf *out) {
    redisReply *keys = stores_ask(raw, "KEYS *");
    if (keys->elements)
        qsort(keys->element, keys->elements, sizeof *keys->element, stores_by_name);
    for (size_t i = 0; i < keys->elements; i++) {
        redisReply *value = stores_ask(raw, "DUMP %s", keys->element[i]->str);
        buf_printf(out, "%s ", keys->element[i]->str);
        for (size_t k = 0; k < value->len; k++)
            buf_printf(out, "%02x", (unsigned char)value->str[k]);
        buf_printf(out, " %lld\n", (long long)stores_number(raw, "PEXPIRETIME %s", keys->element[i]->str));
        freeReplyObject(value);
    }
    freeReplyObject(keys);
}

#endif
