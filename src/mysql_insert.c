/* SPDX-License-Identifier: MIT */
#include "mysql_insert.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "heartbeat.h"
#include "mysql_db_internal.h"
#include "period.h"

#define CODE_TOO_MANY_PREPARED 1461
#define CODE_CANNOT_BE_PREPARED 1295

void insert_begin(struct insert *i, const struct insert_form *form) {
    i->form = form;
    i->count = 0;
}

union insert_value *insert_row(struct insert *i) {
    size_t columns = strlen(i->form->columns);
    if (i->count + columns > i->capacity) {
        i->capacity = i->capacity ? i->capacity * 2 : 64 * INSERT_COLUMNS_MAX;
        i->values = mem_realloc(i->values, i->capacity * sizeof *i->values);
    }
    union insert_value *row = i->values + i->count;
    i->count += columns;
    return row;
}

size_t insert_rows(const struct insert *i) {
    return i->count / strlen(i->form->columns);
}

void insert_free(struct insert *i) {
    free(i->values);
    *i = (struct insert){0};
}

static void append_value(struct db *db, struct buf *sql, char type, union insert_value v) {
    char moment[PERIOD_UTC_SIZE > PERIOD_DATE_SIZE ? PERIOD_UTC_SIZE : PERIOD_DATE_SIZE];
    if (type == 'n') {
        buf_i64(sql, v.number);
    } else if (type == 's') {
        if (v.text)
            db_quote(db, sql, v.text, strlen(v.text));
        else
            buf_str(sql, "NULL");
    } else {
        if (type == 'm')
            period_month_date((int32_t)v.number, moment);
        else
            period_format_utc(v.number, moment);
        buf_printf(sql, "'%s'", moment);
    }
}

static bool run_as_text(const struct insert *i, struct db *db, int64_t *affected, struct error *err) {
    struct buf sql = {0};
    buf_str(&sql, i->form->head);
    for (const union insert_value *v = i->values, *end = v + i->count; v < end;) {
        if (v != i->values)
            buf_char(&sql, ',');
        const char *type = i->form->columns;
        for (const char *c = i->form->row; *c; c++) {
            if (*c == '?')
                append_value(db, &sql, *type++, *v++);
            else
                buf_char(&sql, *c);
        }
    }
    buf_str(&sql, i->form->tail);
    bool ok = db_exec(db, &sql, affected, err);
    buf_free(&sql);
    return ok;
}

/* What the client library reads one row's values from. */
struct binding {
    const struct insert *insert;
    MYSQL_BIND binds[INSERT_COLUMNS_MAX];
    MYSQL_TIME moments[INSERT_COLUMNS_MAX];
    char nulls[INSERT_COLUMNS_MAX];
};

static void bind_columns(struct binding *b) {
    for (size_t k = 0; b->insert->form->columns[k]; k++) {
        MYSQL_BIND *to = &b->binds[k];
        char type = b->insert->form->columns[k];
        to->u.indicator = &b->nulls[k];
        to->buffer = &b->moments[k];
        to->buffer_type = type == 'n'   ? MYSQL_TYPE_LONGLONG
                          : type == 's' ? MYSQL_TYPE_STRING
                          : type == 'm' ? MYSQL_TYPE_DATE
                                        : MYSQL_TYPE_DATETIME;
    }
}

static void bind_instant(MYSQL_TIME *to, int64_t t_ms) {
    struct period_utc t = period_utc(t_ms);
    *to = (MYSQL_TIME){.year = (unsigned)t.year,
                       .month = (unsigned)t.month,
                       .day = (unsigned)t.day,
                       .hour = (unsigned)t.hour,
                       .minute = (unsigned)t.minute,
                       .second = (unsigned)t.second,
                       .second_part = (unsigned long)t.ms * 1000,
                       .time_type = MYSQL_TIMESTAMP_DATETIME};
}

/* The library asks for each row in turn; `to` is its own copy of the bindings. */
static my_bool bind_row(void *data, MYSQL_BIND *to, unsigned row) {
    struct binding *b = data;
    const char *types = b->insert->form->columns;
    union insert_value *v = b->insert->values + row * strlen(types);
    for (size_t k = 0; types[k]; k++, v++) {
        if (types[k] == 'n') {
            to[k].buffer = &v->number;
        } else if (types[k] == 's') {
            b->nulls[k] = v->text ? STMT_INDICATOR_NONE : STMT_INDICATOR_NULL;
            to[k].buffer = (char *)v->text;
            to[k].buffer_length = v->text ? strlen(v->text) : 0;
        } else if (types[k] == 'm') {
            b->moments[k] = (MYSQL_TIME){.year = (unsigned)v->number / 100,
                                         .month = (unsigned)v->number % 100,
                                         .day = 1,
                                         .time_type = MYSQL_TIMESTAMP_DATE};
        } else {
            bind_instant(&b->moments[k], v->number);
        }
    }
    return 0;
}

/* How much will be sent, at most. */
static size_t bulk_size(const struct insert *i) {
    size_t n = 64;
    const char *type = i->form->columns;
    for (size_t k = 0; k < i->count; k++) {
        n += 14; /* an instant with its length and its indicator */
        if (*type == 's' && i->values[k].text)
            n += strlen(i->values[k].text);
        if (*++type == '\0')
            type = i->form->columns;
    }
    return n;
}

static bool fail(struct db *db, MYSQL_STMT *stmt, const char *what, struct error *err) {
    return db_fail_with(db, mysql_stmt_errno(stmt), what, mysql_stmt_error(stmt), err);
}

/* Many rows in one call were fewer in the table: nothing of it may be settled. */
static bool too_few(const char *what, struct error *err) {
    return error_set(err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE, 0,
                     "%s: the server wrote fewer rows than it was given", what);
}

/* So many are prepared already, by whomever, or somebody between doesn't let it through. */
static bool cannot_prepare(MYSQL_STMT *stmt) {
    return mysql_stmt_errno(stmt) == CODE_TOO_MANY_PREPARED ||
           mysql_stmt_errno(stmt) == CODE_CANNOT_BE_PREPARED;
}

/* NULL: with an error, or without one where this connection takes text only from now on. */
static MYSQL_STMT *prepare(const struct insert_form *form, struct db *db, const char *what,
                           struct error *err) {
    for (size_t i = 0; i < db->prepared_count; i++) {
        if (db->prepared[i].form == form)
            return db->prepared[i].stmt;
    }
    assert(db->prepared_count < DB_PREPARED_MAX);
    MYSQL_STMT *stmt = mysql_stmt_init(db->conn);
    if (!stmt) {
        error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, 0, "mysql_stmt_init: out of memory");
        return NULL;
    }
    db->prepared[db->prepared_count++] = (struct db_prepared){form, stmt}; /* a broken connection ends it */
    struct buf sql = {0};
    buf_printf(&sql, "%s%s%s", form->head, form->row, form->tail);
    int failed = mysql_stmt_prepare(stmt, sql.data, sql.len);
    buf_free(&sql);
    if (!failed)
        return stmt;
    if (cannot_prepare(stmt))
        db->bulk = false;
    else
        fail(db, stmt, what, err);
    if (db->conn) {
        db->prepared_count--;
        mysql_stmt_close(stmt);
    }
    return NULL;
}

static bool run_in_bulk(const struct insert *i, struct db *db, struct error *err) {
    struct db_call call;
    if (!db_enter(db, &call, i->form->head, strlen(i->form->head), bulk_size(i), err))
        return false;
    MYSQL_STMT *stmt = prepare(i->form, db, call.what, err);
    if (!stmt)
        return !db->bulk && db->conn && run_as_text(i, db, NULL, err);
    struct binding b = {.insert = i};
    bind_columns(&b);
    unsigned rows = (unsigned)insert_rows(i);
    mysql_stmt_attr_set(stmt, STMT_ATTR_ARRAY_SIZE, &rows);
    mysql_stmt_attr_set(stmt, STMT_ATTR_CB_USER_DATA, &b);
    mysql_stmt_attr_set(stmt, STMT_ATTR_CB_PARAM, (void *)bind_row);
    heartbeat_beat(); /* preparing waits, too */
    if (mysql_stmt_bind_param(stmt, b.binds) != 0 || mysql_stmt_execute(stmt) != 0)
        return fail(db, stmt, call.what, err);
    if (mysql_stmt_affected_rows(stmt) < rows) /* more there may be: what triggers change is added */
        return too_few(call.what, err);
    return db_leave(db, &call, err);
}

bool insert_run(const struct insert *i, struct db *db, int64_t *affected, struct error *err) {
    assert(!i->form->bulk || !affected);
    if (affected)
        *affected = 0;
    if (i->count == 0)
        return true;
    bool bulk = i->form->bulk && db->bulk && !db->text_only;
    return bulk ? run_in_bulk(i, db, err) : run_as_text(i, db, affected, err);
}
