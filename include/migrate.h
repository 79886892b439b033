/* SPDX-License-Identifier: MIT */
/* The migrations that travel in the binary, and how a database stands to them.
 *
 * They go forward only. A file is called NNNN_what_it_does.sql, numbered from
 * 0001 without gaps; once released it never changes. It only adds, so that the
 * binary before it still runs on the database after a rollback; one that can't
 * but break that binary is called NNNN_what_it_does.breaking.sql, and older
 * binaries refuse the database. Every statement may run again, since a crash can
 * come between any two. */
#ifndef TALLYD_MIGRATE_H
#define TALLYD_MIGRATE_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "error.h"
#include "mysql_db.h"

enum migrate_status {
    MIGRATE_APPLIED, /* with the very bytes this binary has */
    MIGRATE_MISSING, /* this binary has it, the database hasn't */
    MIGRATE_CHANGED, /* applied under another name or with other bytes than this binary has */
    MIGRATE_NEWER,   /* this binary doesn't know it */
    MIGRATE_STATUSES,
};
const char *migrate_status_name(enum migrate_status s);

#define MIGRATE_CHECKSUM_SIZE 65 /* SHA2-256 in hex, and its NUL */

struct migrate_entry {
    int version;
    enum migrate_status status;
    char *name;                           /* owned; as recorded, or this binary's where it's missing */
    char *applied_at;                     /* owned; UTC; NULL: not applied */
    const struct embedded_file *file;     /* borrowed; NULL: this binary doesn't have it */
    char checksum[MIGRATE_CHECKSUM_SIZE]; /* of the file, as the server computes it; "" without a file */
};

/* What is applied and what this binary has, by version. Free it with migrate_state_free. */
struct migrate_state {
    struct migrate_entry *entries;
    size_t count;
    size_t number[MIGRATE_STATUSES]; /* how many there are of each */
    bool has_table;                  /* schema_migration exists */
};

/* Reads and compares; changes nothing. `state` needs no preparation. */
bool migrate_read(struct db *db, struct migrate_state *state, struct error *err)
    __attribute__((warn_unused_result));
void migrate_state_free(struct migrate_state *state);

/* Refuses what no release of ours can have left: a changed one, a gap, a name that
 * can't be read; and a newer one that breaks this binary. Missing ones are no
 * reason. The error is one that migrate_error_is_unfit knows. Pure. */
bool migrate_judge(const struct migrate_state *state, struct error *err) __attribute__((warn_unused_result));
/* The database is there but isn't one for this binary, as opposed to an error of MySQL's. */
bool migrate_error_is_unfit(const struct error *err);

/* Called for each migration that was applied. */
typedef void migrate_applied_fn(const char *name, void *ctx);

/* Applies what is missing, in order, one process at a time (GET_LOCK; waits up to
 * a minute for another one: the connection's read time-out must be longer). A
 * statement that fails ends it with an error that names migration and statement;
 * those before it stay. `applied` may be NULL. */
bool migrate_apply(struct db *db, migrate_applied_fn *applied, void *ctx, struct error *err)
    __attribute__((warn_unused_result));
/* Whether nobody holds that lock just now. */
bool migrate_lock_free(struct db *db, bool *is_free, struct error *err) __attribute__((warn_unused_result));

/* Appends the SQL that migrate_apply would run, records of it included. The handle must be connected. */
void migrate_append_sql(struct db *db, const struct migrate_state *state, struct buf *out);

/* Counts the migrations of this binary that the database lacks; an unfit database is an error. */
bool migrate_missing(struct db *db, size_t *missing, struct error *err) __attribute__((warn_unused_result));

/* NNNN_what.sql or NNNN_what.breaking.sql. Pure. */
bool migrate_name_parse(const char *name, int *version, bool *breaking);

/* Walks through a file's statements. */
struct migrate_statement {
    const char *rest; /* borrowed: what isn't read yet; set it to the text and zero all else to begin */
    struct buf sql;   /* the statement without its semicolon; free it at the end */
    int line;         /* where it begins, from 1 */
    int number;       /* which it is, from 1 */
    int lines_read;
};
/* Takes the next statement: it ends with a semicolon at the end of a line; lines of
 * comment are left out. False at the end, where `sql` isn't empty when the last
 * statement lacks its semicolon. Pure. */
bool migrate_next_statement(struct migrate_statement *s);

#endif
