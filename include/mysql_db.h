/* SPDX-License-Identifier: MIT */
/* A connection to MySQL or MariaDB and the classifier of its errors. One
 * thread uses a connection at a time. A connection that failed stays failed
 * until db_ensure() makes it anew: the client library's own reconnect would
 * run the second half of a transaction alone. */
#ifndef TALLYD_MYSQL_DB_H
#define TALLYD_MYSQL_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "config.h"
#include "error.h"

enum db_isolation { DB_READ_COMMITTED, DB_REPEATABLE_READ };

struct db; /* opaque; owned by whoever opened it */

/* Makes a handle without connecting. `cfg` is borrowed for its life. */
struct db *db_new(const struct config *cfg, enum db_isolation isolation);
void db_free(struct db *db);

/* Makes every statement go as text, whatever the server can take. */
void db_text_only(struct db *db);

/* Connected and usable: connects when there is no connection or it failed, and
 * asks the server whether it's still there after a silence. Sets strict mode,
 * UTC, utf8mb4, lock and silence time-outs (DESIGN §4). */
bool db_ensure(struct db *db, struct error *err) __attribute__((warn_unused_result));
/* Drops the connection at once; open transactions are rolled back by the server. */
void db_close(struct db *db);
/* @@auto_increment_increment, known once connected: ids of one INSERT's rows are that far apart. */
int64_t db_increment_step(const struct db *db);

/* Runs one statement that returns no rows. `affected` may be NULL. On an error
 * that breaks the connection it is closed; after any error within a transaction
 * only ROLLBACK is legal. */
bool db_exec(struct db *db, const struct buf *sql, int64_t *affected, struct error *err)
    __attribute__((warn_unused_result));
bool db_exec_text(struct db *db, const char *sql, int64_t *affected, struct error *err)
    __attribute__((warn_unused_result));
/* The id given to the first row of the last INSERT. */
int64_t db_insert_id(struct db *db);

/* Rows of a query, read whole into memory. */
struct db_rows {
    void *result; /* owned */
    char **row;   /* current row; NULL cells are SQL NULL; borrowed until the next db_next */
    unsigned long *lengths;
};
/* Runs a query; on success `rows` is filled and must be given to db_rows_free. */
bool db_query(struct db *db, const struct buf *sql, struct db_rows *rows, struct error *err)
    __attribute__((warn_unused_result));
bool db_query_text(struct db *db, const char *sql, struct db_rows *rows, struct error *err)
    __attribute__((warn_unused_result));
/* Moves to the next row; false after the last. */
bool db_next(struct db_rows *rows);
void db_rows_free(struct db_rows *rows);
/* A cell as a number; `otherwise` for SQL NULL. */
int64_t db_i64(const struct db_rows *rows, int column, int64_t otherwise);
/* A DATETIME cell, which is in UTC, as ms since 1970; `otherwise` for SQL NULL and what is no time. */
int64_t db_utc_ms(const struct db_rows *rows, int column, int64_t otherwise);

/* ROLLBACK, ignoring the outcome: a connection that can't is closed. */
void db_rollback(struct db *db);

/* Appends text as a quoted and escaped literal. The handle must be connected. */
void db_quote(struct db *db, struct buf *sql, const char *text, size_t len);
/* Appends numbers as "(1,2,3)", one at least. */
void db_append_list(struct buf *sql, const int64_t *numbers, size_t n);

/* A row of that key is there already. */
bool db_error_is_duplicate(const struct error *err);
/* Deadlock or lock wait: the transaction as a whole may simply be tried again. */
bool db_error_is_lock(const struct error *err);
/* The latter: somebody holds rows for longer than a statement waits. */
bool db_error_is_lock_wait(const struct error *err);

/* Bounds what a connection may wait for: to connect and for an answer, `ms` at the most each. For a copy of
 * the configuration, of a thread that the end of the process must not wait for. */
void db_hurry(struct config *cfg, int64_t ms);

#endif
