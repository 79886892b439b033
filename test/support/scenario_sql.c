/* SPDX-License-Identifier: MIT */
#include "scenario_sql.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "scenario_base.h"

MYSQL *sc_sql_open(void) {
    MYSQL *db = mysql_init(NULL);
    if (!db)
        sc_die("out of memory");
    mysql_options(db, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (!mysql_real_connect(db, sc_env("MYSQL_HOST"), sc_env("MYSQL_USER"), sc_env_or("MYSQL_PASSWORD", ""),
                            sc_env("MYSQL_DATABASE"), (unsigned)atoi(sc_env("MYSQL_PORT")), NULL, 0))
        sc_die("MySQL: %s", mysql_error(db));
    sc_sql_run(db, "SET time_zone = '+00:00'");
    return db;
}

__attribute__((format(printf, 2, 0))) static void run(MYSQL *db, const char *fmt, va_list ap) {
    char *sql = NULL;
    int len = vasprintf(&sql, fmt, ap);
    if (len < 0)
        sc_die("out of memory");
    if (mysql_real_query(db, sql, (unsigned long)len) != 0)
        sc_die("MySQL: %s in: %.300s", mysql_error(db), sql);
    free(sql);
}

void sc_sql_run(MYSQL *db, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    run(db, fmt, ap);
    va_end(ap);
}

MYSQL_RES *sc_sql_rows(MYSQL *db, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    run(db, fmt, ap);
    va_end(ap);
    MYSQL_RES *rows = mysql_store_result(db);
    if (!rows)
        sc_die("MySQL: %s", mysql_error(db));
    return rows;
}

char *sc_sql_quote(MYSQL *db, const char *text) {
    if (!text)
        return mem_strdup("NULL");
    size_t len = strlen(text);
    char *out = mem_alloc(2 * len + 3);
    out[0] = '\'';
    size_t n = mysql_real_escape_string(db, out + 1, text, len);
    memcpy(out + 1 + n, "'", 2);
    return out;
}

int64_t sc_sql_int(const char *column) {
    return column ? strtoll(column, NULL, 10) : 0;
}
