/* SPDX-License-Identifier: MIT */
/* What mysql_db.c shares with mysql_insert.c only. */
#ifndef TALLYD_MYSQL_DB_INTERNAL_H
#define TALLYD_MYSQL_DB_INTERNAL_H

#include <mysql.h>

#include "fault.h"
#include "mysql_db.h"
#include "mysql_insert.h"

#define DB_PREPARED_MAX 4 /* forms that go in bulk */

struct db {
    MYSQL *conn; /* NULL: not connected, or failed */
    const struct config *cfg;
    enum db_isolation isolation;
    int64_t last_used; /* clock_monotonic_ms */
    int64_t increment_step;
    int64_t packet_max; /* the server's max_allowed_packet */
    bool bulk;          /* the server takes values in bulk */
    bool text_only;     /* and isn't to */
    /* the connection's own: end with it */
    struct db_prepared {
        const struct insert_form *form;
        MYSQL_STMT *stmt;
    } prepared[DB_PREPARED_MAX];
    size_t prepared_count;
};

/* A statement on its way: every one goes between db_enter and db_leave. */
struct db_call {
    char what[48]; /* its beginning, for errors */
    struct fault fault;
};

/* `bytes`: how much will be sent. */
bool db_enter(struct db *db, struct db_call *call, const char *sql, size_t len, size_t bytes,
              struct error *err) __attribute__((warn_unused_result));
bool db_leave(struct db *db, const struct db_call *call, struct error *err)
    __attribute__((warn_unused_result));
/* Classifies and records an error; a broken connection is closed. Always false. */
bool db_fail_with(struct db *db, unsigned code, const char *what, const char *why, struct error *err);

#endif
