/* SPDX-License-Identifier: MIT */
/* MySQL for the scenario tool: one connection, text in, text out. */
#ifndef SCENARIO_SQL_H
#define SCENARIO_SQL_H

#include <mysql.h>
#include <stdint.h>

/* Connects by the stack's environment; sessions are in UTC. New, closed with mysql_close. */
MYSQL *sc_sql_open(void);
/* Runs a statement; sc_die when it fails. */
void sc_sql_run(MYSQL *db, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Its whole result. New, freed with mysql_free_result. */
MYSQL_RES *sc_sql_rows(MYSQL *db, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text as a quoted literal, or NULL unquoted. The caller frees it. */
char *sc_sql_quote(MYSQL *db, const char *text);
/* A column's number; 0 for NULL. */
int64_t sc_sql_int(const char *column);

#endif
