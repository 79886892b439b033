/* SPDX-License-Identifier: MIT */
#include "migrate.h"

#include <stdlib.h>
#include <string.h>

#include "embedded.h"

#define PREFIX "migrations/"
#define LOCK_WAIT_S 60

static const struct embedded_file *next_migration(const struct embedded_file *f) {
    f = f ? f + 1 : embedded_files;
    while (f->path && strncmp(f->path, PREFIX, strlen(PREFIX)) != 0)
        f++;
    return f->path ? f : NULL;
}

static int version_of(const struct embedded_file *f) {
    return atoi(f->path + strlen(PREFIX));
}

static bool ensure_table(struct db *db, struct error *err) {
    return db_exec_text(
        db,
        "CREATE TABLE IF NOT EXISTS schema_migration ("
        "version INT NOT NULL, name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, "
        "checksum CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, applied_at DATETIME(3) NOT NULL, "
        "PRIMARY KEY (version)) ENGINE=InnoDB",
        NULL, err);
}

static bool is_applied(struct db *db, const struct embedded_file *f, bool *applied, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_printf(&sql, "SELECT 1 FROM schema_migration WHERE version = %d", version_of(f));
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    *applied = ok && db_next(&rows);
    db_rows_free(&rows);
    return ok;
}

/* Runs a file's statements: each ends with a semicolon at the end of a line; lines of comment are left out.
 */
static bool run_file(struct db *db, const struct embedded_file *f, struct error *err) {
    struct buf sql = {0};
    bool ok = true;
    for (const char *line = f->data; ok && *line;) {
        size_t n = strcspn(line, "\n");
        bool comment = n >= 2 && line[0] == '-' && line[1] == '-';
        if (!comment && n) {
            buf_append(&sql, line, n);
            buf_char(&sql, '\n');
            if (line[n - 1] == ';') {
                sql.len -= 2; /* the semicolon and the newline */
                ok = db_exec(db, &sql, NULL, err);
                buf_reset(&sql);
            }
        }
        line += n + (line[n] == '\n');
    }
    buf_free(&sql);
    return ok;
}

static bool record(struct db *db, const struct embedded_file *f, struct error *err) {
    struct buf sql = {0};
    buf_printf(&sql, "INSERT INTO schema_migration (version, name, checksum, applied_at) VALUES (%d, ",
               version_of(f));
    db_quote(db, &sql, f->path + strlen(PREFIX), strlen(f->path) - strlen(PREFIX));
    buf_str(&sql, ", SHA2(");
    db_quote(db, &sql, f->data, f->len);
    buf_str(&sql, ", 256), UTC_TIMESTAMP(3))");
    bool ok = db_exec(db, &sql, NULL, err);
    buf_free(&sql);
    return ok;
}

static bool apply_one(struct db *db, const struct embedded_file *f, migrate_applied_fn *applied, void *ctx,
                      struct error *err) {
    bool there = false;
    if (!is_applied(db, f, &there, err))
        return false;
    if (there)
        return true;
    if (!run_file(db, f, err) || !record(db, f, err)) {
        error_prefix(err, "%s", f->path + strlen(PREFIX));
        return false;
    }
    if (applied)
        applied(f->path + strlen(PREFIX), ctx);
    return true;
}

static bool take_lock(struct db *db, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_printf(&sql, "SELECT GET_LOCK('tallyd.migrate', %d)", LOCK_WAIT_S);
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    bool got = ok && db_next(&rows) && db_i64(&rows, 0, 0) == 1;
    db_rows_free(&rows);
    return got || (ok && error_set(err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE, 0,
                                   "another migration is still running"));
}

bool migrate_apply(struct db *db, migrate_applied_fn *applied, void *ctx, struct error *err) {
    if (!db_ensure(db, err) || !take_lock(db, err))
        return false;
    bool ok = ensure_table(db, err);
    for (const struct embedded_file *f = next_migration(NULL); ok && f; f = next_migration(f))
        ok = apply_one(db, f, applied, ctx, err);
    struct error ignored = {0};
    struct db_rows rows;
    if (db_query_text(db, "SELECT RELEASE_LOCK('tallyd.migrate')", &rows, &ignored))
        db_rows_free(&rows);
    return ok;
}

bool migrate_missing(struct db *db, size_t *missing, struct error *err) {
    struct db_rows rows;
    *missing = 0;
    if (!db_ensure(db, err) ||
        !db_query_text(
            db,
            "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'schema_migration'",
            &rows, err))
        return false;
    bool table = db_next(&rows);
    db_rows_free(&rows);
    for (const struct embedded_file *f = next_migration(NULL); f; f = next_migration(f)) {
        bool there = false;
        if (table && !is_applied(db, f, &there, err))
            return false;
        *missing += !there;
    }
    return true;
}
