/* SPDX-License-Identifier: MIT */
/* INSERTs of many rows of one form. Where the server takes values in bulk
 * (MariaDB) and the form allows it, the statement is prepared once a connection
 * and its values go as they are, which saves the server reading them as text: a
 * quarter of such a statement's cost. Elsewhere its text is made.
 *
 * In bulk the affected count is of no use: MariaDB adds to it what triggers
 * change, so that one row that wasn't written could be made up for. */
#ifndef TALLYD_MYSQL_INSERT_H
#define TALLYD_MYSQL_INSERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "mysql_db.h"

#define INSERT_COLUMNS_MAX 16

/* What such a statement looks like. A constant: a connection knows what it has prepared by the address. */
struct insert_form {
    const char *head;    /* up to and with VALUES and a space */
    const char *row;     /* one row, with ? for a value: "(?,?,0)" */
    const char *tail;    /* behind the rows */
    const char *columns; /* a letter for each ?: n a number, s a text, m a month, t an instant */
    bool bulk;           /* nobody asks how many rows were affected */
};

union insert_value {
    int64_t number;   /* n: itself; m: yyyymm, stored as its first day; t: milliseconds, stored as UTC */
    const char *text; /* s: borrowed until insert_run; NULL: SQL NULL */
};

/* The rows of one statement; zeroed: empty. The memory is kept from one statement to the next. */
struct insert {
    const struct insert_form *form;
    union insert_value *values; /* owned; row by row */
    size_t count, capacity;
};

void insert_begin(struct insert *i, const struct insert_form *form);
/* The next row's values, to be filled in the order of the form's columns. */
union insert_value *insert_row(struct insert *i);
size_t insert_rows(const struct insert *i);
/* Runs it, unless there are no rows; as db_exec. `affected` (NULL for a form that goes in bulk) is right
 * whatever triggers there are. */
bool insert_run(const struct insert *i, struct db *db, int64_t *affected, struct error *err)
    __attribute__((warn_unused_result));
void insert_free(struct insert *i);

#endif
