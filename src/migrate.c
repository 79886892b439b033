/* SPDX-License-Identifier: MIT */
#include "migrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embedded.h"

#define PREFIX "migrations/"
#define LOCK "tallyd.migrate"
#define LOCK_WAIT_S 60
#define CODE_UNFIT (-1) /* no vendor's number is negative */

static const char create_table[] = "CREATE TABLE IF NOT EXISTS schema_migration (\n"
                                   "  version INT NOT NULL,\n"
                                   "  name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,\n"
                                   "  checksum CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,\n"
                                   "  applied_at DATETIME(3) NOT NULL,\n"
                                   "  PRIMARY KEY (version)\n"
                                   ") ENGINE=InnoDB";

/* ---- files ---- */

static const struct embedded_file *next_migration(const struct embedded_file *f) {
    f = f ? f + 1 : embedded_files;
    while (f->path && strncmp(f->path, PREFIX, strlen(PREFIX)) != 0)
        f++;
    return f->path ? f : NULL;
}

static const char *name_of(const struct embedded_file *f) {
    return f->path + strlen(PREFIX);
}

bool migrate_name_parse(const char *name, int *version, bool *breaking) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    if (strspn(name, "0123456789") != 4 || name[4] != '_')
        return false;
    *version = atoi(name);
    size_t word = strspn(name + 5, letters);
    const char *rest = name + 5 + word;
    *breaking = strcmp(rest, ".breaking.sql") == 0;
    return word && *version > 0 && (*breaking || strcmp(rest, ".sql") == 0);
}

bool migrate_next_statement(struct migrate_statement *s) {
    buf_reset(&s->sql);
    while (*s->rest) {
        const char *text = s->rest;
        size_t len = strcspn(text, "\n");
        s->rest += len + (text[len] == '\n');
        s->lines_read++;
        while (len && strchr(" \t\r", text[len - 1]))
            len--;
        size_t blanks = strspn(text, " \t");
        if (len == 0 || (len >= blanks + 2 && text[blanks] == '-' && text[blanks + 1] == '-'))
            continue;
        if (s->sql.len)
            buf_char(&s->sql, '\n');
        else
            s->line = s->lines_read;
        bool last = text[len - 1] == ';';
        buf_append(&s->sql, text, last ? len - 1 : len);
        if (last && s->sql.len) {
            s->number++;
            return true;
        }
    }
    return false;
}

/* ---- how a database stands ---- */

const char *migrate_status_name(enum migrate_status s) {
    static const char *const names[MIGRATE_STATUSES] = {"applied", "missing", "changed", "newer"};
    return names[s];
}

void migrate_state_free(struct migrate_state *state) {
    for (size_t i = 0; i < state->count; i++) {
        free(state->entries[i].name);
        free(state->entries[i].applied_at);
    }
    free(state->entries);
    *state = (struct migrate_state){0};
}

static struct migrate_entry *add_entry(struct migrate_state *state, const char *name) {
    state->entries = mem_realloc(state->entries, (state->count + 1) * sizeof *state->entries);
    struct migrate_entry *e = &state->entries[state->count++];
    *e = (struct migrate_entry){.name = mem_strdup(name)};
    return e;
}

static struct migrate_entry *find_entry(struct migrate_state *state, int version) {
    for (size_t i = 0; i < state->count; i++) {
        if (state->entries[i].version == version)
            return &state->entries[i];
    }
    return NULL;
}

static int by_version(const void *a, const void *b) {
    const struct migrate_entry *x = a, *y = b;
    return (x->version > y->version) - (x->version < y->version);
}

/* Computed by the server, as what is recorded was. */
static bool ask_checksum(struct db *db, struct migrate_entry *e, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_str(&sql, "SELECT SHA2(");
    db_quote(db, &sql, e->file->data, e->file->len);
    buf_str(&sql, ", 256)");
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    if (db_next(&rows) && rows.row[0])
        snprintf(e->checksum, sizeof e->checksum, "%s", rows.row[0]);
    db_rows_free(&rows);
    return true;
}

static bool read_own(struct db *db, struct migrate_state *state, struct error *err) {
    for (const struct embedded_file *f = next_migration(NULL); f; f = next_migration(f)) {
        struct migrate_entry *e = add_entry(state, name_of(f));
        bool breaking;
        e->status = MIGRATE_MISSING;
        e->file = f;
        if (!migrate_name_parse(e->name, &e->version, &breaking))
            return error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, 0,
                             "%s: this binary was built with a migration of that name", f->path);
        if (!ask_checksum(db, e, err))
            return false;
    }
    return true;
}

static bool ask_table(struct db *db, bool *there, struct error *err) {
    struct db_rows rows;
    if (!db_query_text(db,
                       "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND "
                       "table_name = 'schema_migration'",
                       &rows, err))
        return false;
    *there = db_next(&rows);
    db_rows_free(&rows);
    return true;
}

static void take_recorded(struct migrate_state *state, const struct db_rows *rows) {
    int version = (int)db_i64(rows, 0, 0);
    struct migrate_entry *e = find_entry(state, version);
    if (!e) {
        e = add_entry(state, rows->row[1]);
        e->version = version;
        e->status = MIGRATE_NEWER;
    } else if (strcmp(e->name, rows->row[1]) == 0 && strcmp(e->checksum, rows->row[2]) == 0) {
        e->status = MIGRATE_APPLIED;
    } else {
        free(e->name);
        e->name = mem_strdup(rows->row[1]);
        e->status = MIGRATE_CHANGED;
    }
    e->applied_at = mem_strdup(rows->row[3]);
}

static bool read_recorded(struct db *db, struct migrate_state *state, struct error *err) {
    struct db_rows rows;
    if (!ask_table(db, &state->has_table, err))
        return false;
    if (!state->has_table)
        return true;
    if (!db_query_text(db, "SELECT version, name, checksum, applied_at FROM schema_migration", &rows, err))
        return false;
    while (db_next(&rows))
        take_recorded(state, &rows);
    db_rows_free(&rows);
    return true;
}

/* On the connection there is: a new one wouldn't hold the lock. */
static bool read_state(struct db *db, struct migrate_state *state, struct error *err) {
    *state = (struct migrate_state){0};
    if (!read_own(db, state, err) || !read_recorded(db, state, err)) {
        migrate_state_free(state);
        return false;
    }
    if (state->count)
        qsort(state->entries, state->count, sizeof *state->entries, by_version);
    for (size_t i = 0; i < state->count; i++)
        state->number[state->entries[i].status]++;
    return true;
}

bool migrate_read(struct db *db, struct migrate_state *state, struct error *err) {
    return db_ensure(db, err) && read_state(db, state, err);
}

static bool unfit(struct error *err, const struct migrate_entry *e, const char *why, const char *remedy) {
    return error_set(err, ERROR_MYSQL, ERROR_STOP, ERROR_NOT_DONE, CODE_UNFIT, "migration %04d, %s: %s (%s)",
                     e->version, e->name, why, remedy);
}

bool migrate_error_is_unfit(const struct error *err) {
    return err->area == ERROR_MYSQL && err->code == CODE_UNFIT;
}

bool migrate_judge(const struct migrate_state *state, struct error *err) {
    const struct migrate_entry *missing = NULL;
    int expected = 1;
    for (size_t i = 0; i < state->count; i++, expected++) {
        const struct migrate_entry *e = &state->entries[i];
        int version = 0;
        bool breaking = false;
        if (!migrate_name_parse(e->name, &version, &breaking) || version != e->version)
            return unfit(err, e, "not the name of a migration of that number",
                         "look who wrote it into schema_migration");
        if (e->status == MIGRATE_CHANGED)
            return unfit(
                err, e, "was applied as something else than this tallyd has",
                "run the release that applied it; a migration is never edited, a new one follows it");
        if (e->version != expected)
            return unfit(err, e, "is applied, and the one before it is not recorded",
                         "look what became of that row of schema_migration");
        if (e->status == MIGRATE_MISSING)
            missing = e;
        else if (missing)
            return unfit(err, missing, "is missing, and a later one is applied",
                         "look what became of its row in schema_migration");
        if (e->status == MIGRATE_NEWER && breaking)
            return unfit(err, e, "was applied by a newer tallyd, and this one can't run on it",
                         "run the newer release");
    }
    return true;
}

bool migrate_missing(struct db *db, size_t *missing, struct error *err) {
    struct migrate_state state;
    *missing = 0;
    if (!migrate_read(db, &state, err))
        return false;
    bool ok = migrate_judge(&state, err);
    *missing = state.number[MIGRATE_MISSING];
    migrate_state_free(&state);
    return ok;
}

/* ---- applying ---- */

/* A recorded checksum is the server's of the bytes that ran. */
static void append_record(struct db *db, const struct migrate_entry *e, struct buf *sql) {
    buf_printf(sql, "INSERT INTO schema_migration (version, name, checksum, applied_at) VALUES (%d, ",
               e->version);
    db_quote(db, sql, e->name, strlen(e->name));
    buf_printf(sql, ", '%s', UTC_TIMESTAMP(3))", e->checksum);
}

static bool run_file(struct db *db, const struct migrate_entry *e, struct error *err) {
    struct migrate_statement s = {.rest = e->file->data};
    bool ok = true;
    while (ok && migrate_next_statement(&s))
        ok = db_exec(db, &s.sql, NULL, err);
    if (!ok)
        error_prefix(err, "%s:%d: statement %d", e->name, s.line, s.number);
    else if (s.sql.len)
        ok = error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, 0,
                       "%s:%d: a statement without a semicolon at its end", e->name, s.line);
    buf_free(&s.sql);
    return ok;
}

static bool record(struct db *db, const struct migrate_entry *e, struct error *err) {
    struct buf sql = {0};
    append_record(db, e, &sql);
    bool ok = db_exec(db, &sql, NULL, err);
    buf_free(&sql);
    if (!ok)
        error_prefix(err, "%s: recording it", e->name);
    return ok;
}

static bool apply_missing(struct db *db, const struct migrate_state *state, migrate_applied_fn *applied,
                          void *ctx, struct error *err) {
    /* Not where nothing is missing: a user who may no more make tables can still find that out. */
    if (state->number[MIGRATE_MISSING] && !state->has_table && !db_exec_text(db, create_table, NULL, err))
        return false;
    for (size_t i = 0; i < state->count; i++) {
        const struct migrate_entry *e = &state->entries[i];
        if (e->status != MIGRATE_MISSING)
            continue;
        if (!run_file(db, e, err) || !record(db, e, err))
            return false;
        if (applied)
            applied(e->name, ctx);
    }
    return true;
}

/* One number, which the query selects. */
static bool ask_number(struct db *db, const char *sql, int64_t *out, struct error *err) {
    struct db_rows rows;
    if (!db_query_text(db, sql, &rows, err))
        return false;
    *out = db_next(&rows) ? db_i64(&rows, 0, 0) : 0;
    db_rows_free(&rows);
    return true;
}

static bool take_lock(struct db *db, struct error *err) {
    char sql[64];
    int64_t got = 0;
    snprintf(sql, sizeof sql, "SELECT GET_LOCK('" LOCK "', %d)", LOCK_WAIT_S);
    if (!ask_number(db, sql, &got, err))
        return false;
    return got == 1 || error_set(err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE, 0,
                                 "another migration has been running for over %d s (wait for it, then try "
                                 "again)",
                                 LOCK_WAIT_S);
}

static void release_lock(struct db *db) {
    struct error ignored = {0}; /* it goes with the connection at the latest */
    int64_t released;
    if (!ask_number(db, "SELECT RELEASE_LOCK('" LOCK "')", &released, &ignored))
        db_close(db);
}

bool migrate_lock_free(struct db *db, bool *is_free, struct error *err) {
    int64_t n = 0;
    bool ok = db_ensure(db, err) && ask_number(db, "SELECT IS_FREE_LOCK('" LOCK "')", &n, err);
    *is_free = n == 1;
    return ok;
}

bool migrate_apply(struct db *db, migrate_applied_fn *applied, void *ctx, struct error *err) {
    struct migrate_state state;
    if (!db_ensure(db, err) || !take_lock(db, err))
        return false;
    bool ok = read_state(db, &state, err); /* under the lock: what another one did counts */
    if (ok) {
        ok = migrate_judge(&state, err) && apply_missing(db, &state, applied, ctx, err);
        migrate_state_free(&state);
    }
    release_lock(db);
    return ok;
}

void migrate_append_sql(struct db *db, const struct migrate_state *state, struct buf *out) {
    if (state->number[MIGRATE_MISSING] && !state->has_table)
        buf_printf(out, "%s;\n\n", create_table);
    for (size_t i = 0; i < state->count; i++) {
        const struct migrate_entry *e = &state->entries[i];
        if (e->status != MIGRATE_MISSING)
            continue;
        struct migrate_statement s = {.rest = e->file->data};
        buf_printf(out, "-- %s\n\n", e->name);
        while (migrate_next_statement(&s))
            buf_printf(out, "%s;\n\n", buf_cstr(&s.sql));
        buf_free(&s.sql);
        append_record(db, e, out);
        buf_str(out, ";\n\n");
    }
}
