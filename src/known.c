/* SPDX-License-Identifier: MIT */
#include "known.h"

#include <stdlib.h>
#include <string.h>

#define IDS_A_QUERY 1000 /* bounds the statement */

static int by_id(const void *x, const void *y, void *batch) {
    const struct batch *b = batch;
    return strcmp(b->events[*(const size_t *)x].usage.id, b->events[*(const size_t *)y].usage.id);
}

/* The index among sorted ones whose event has that id, or NULL. */
static const size_t *find_id(const struct batch *b, const size_t *indexes, size_t n, const char *id) {
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = strcmp(b->events[indexes[mid]].usage.id, id);
        if (c == 0)
            return &indexes[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* A character of a JSON text within an SQL one. Ids are printable ASCII (CONTRACT §1.1). */
static void append_id_char(struct buf *sql, char c) {
    if (c == '\'')
        buf_str(sql, "\\'");
    else if (c == '"')
        buf_str(sql, "\\\\\"");
    else if (c == '\\')
        buf_str(sql, "\\\\\\\\");
    else
        buf_char(sql, c);
}

static void append_id(struct buf *sql, const char *id) {
    size_t len = strlen(id);
    if (strcspn(id, "'\"\\") == len) {
        buf_append(sql, id, len);
        return;
    }
    for (; *id; id++)
        append_id_char(sql, *id);
}

#define IDS_BEGIN "JSON_TABLE('["

static void append_one(struct buf *sql, size_t i, const char *id) {
    buf_str(sql, i ? ",\"" : "\"");
    append_id(sql, id);
    buf_char(sql, '"');
}

static void append_end(struct buf *sql) {
    buf_str(sql, "]', '$[*]' COLUMNS (id VARCHAR(191) CHARACTER SET ascii COLLATE ascii_bin PATH '$')) j");
}

void known_append_ids(struct buf *sql, const struct batch *b, const size_t *indexes, size_t n) {
    buf_str(sql, IDS_BEGIN);
    for (size_t i = 0; i < n; i++)
        append_one(sql, i, b->events[indexes[i]].usage.id);
    append_end(sql);
}

void known_append_texts(struct buf *sql, char *const *ids, size_t n) {
    buf_str(sql, IDS_BEGIN);
    for (size_t i = 0; i < n; i++)
        append_one(sql, i, ids[i]);
    append_end(sql);
}

static bool take_some(struct db *db, struct batch *b, const size_t *indexes, size_t n, known_take_fn *take,
                      void *ctx, struct error *err) {
    struct buf sql = {0};
    static const char *const tables[] = {"usage_record", "usage_block"};
    for (int i = 0; i < 2; i++) {
        buf_printf(&sql, "%sSELECT u.event_id, u.family_id, u.customer_id, u.bytes_used, %d FROM ",
                   i ? " UNION ALL " : "", i);
        known_append_ids(&sql, b, indexes, n);
        buf_printf(&sql, " STRAIGHT_JOIN %s u ON u.event_id = j.id", tables[i]);
    }
    struct db_rows rows;
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    while (db_next(&rows)) {
        const size_t *at = find_id(b, indexes, n, rows.row[0]);
        const struct known_row row = {.family = db_i64(&rows, 1, 0),
                                      .customer = db_i64(&rows, 2, 0),
                                      .bytes = db_i64(&rows, 3, 0),
                                      .blocked = db_i64(&rows, 4, 0) != 0};
        if (at)
            take(ctx, b, *at, &row);
    }
    db_rows_free(&rows);
    return true;
}

bool known_rows(struct db *db, struct batch *b, size_t *indexes, size_t n, known_take_fn *take, void *ctx,
                struct error *err) {
    if (n && !db_ensure(db, err))
        return false;
    if (n)
        qsort_r(indexes, n, sizeof *indexes, by_id, b);
    for (size_t i = 0; i < n; i += IDS_A_QUERY) {
        size_t some = n - i < IDS_A_QUERY ? n - i : IDS_A_QUERY;
        if (!take_some(db, b, indexes + i, some, take, ctx, err))
            return false;
    }
    return true;
}

static void judge(void *ctx, struct batch *b, size_t index, const struct known_row *row) {
    size_t *found = ctx;
    batch_judge_known(b, index, row->family, row->customer, row->bytes);
    ++*found;
}

bool known_look_up(struct db *db, struct batch *b, size_t *indexes, size_t n, size_t *found,
                   struct error *err) {
    size_t known = 0;
    if (!known_rows(db, b, indexes, n, judge, &known, err))
        return false;
    for (size_t i = 0; i < n; i++)
        b->events[indexes[i]].looked_up = true;
    if (found)
        *found = known;
    return true;
}
