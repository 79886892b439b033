/* SPDX-License-Identifier: MIT */
#include "known.h"

#include <stdlib.h>
#include <string.h>

#define IDS_A_QUERY 500 /* below the size from which MariaDB turns an IN list into a join */

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

static void id_list(struct db *db, struct buf *sql, const struct batch *b, const size_t *indexes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *id = b->events[indexes[i]].usage.id;
        buf_char(sql, i ? ',' : '(');
        db_quote(db, sql, id, strlen(id));
    }
    buf_char(sql, ')');
}

static bool look_up_some(struct db *db, struct batch *b, const size_t *indexes, size_t n, size_t *found,
                         struct error *err) {
    struct buf sql = {0};
    buf_str(&sql, "SELECT event_id, family_id, customer_id, bytes_used FROM usage_record WHERE event_id IN ");
    id_list(db, &sql, b, indexes, n);
    buf_str(
        &sql,
        " UNION ALL SELECT event_id, family_id, customer_id, bytes_used FROM usage_block WHERE event_id IN ");
    id_list(db, &sql, b, indexes, n);
    struct db_rows rows;
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    while (db_next(&rows)) {
        const size_t *at = find_id(b, indexes, n, rows.row[0]);
        if (!at)
            continue;
        batch_judge_known(b, *at, db_i64(&rows, 1, 0), db_i64(&rows, 2, 0), db_i64(&rows, 3, 0));
        ++*found;
    }
    db_rows_free(&rows);
    for (size_t i = 0; i < n; i++)
        b->events[indexes[i]].looked_up = true;
    return true;
}

bool known_look_up(struct db *db, struct batch *b, size_t *indexes, size_t n, size_t *found,
                   struct error *err) {
    size_t known = 0;
    if (n && !db_ensure(db, err))
        return false;
    if (n)
        qsort_r(indexes, n, sizeof *indexes, by_id, b);
    for (size_t i = 0; i < n; i += IDS_A_QUERY) {
        size_t some = n - i < IDS_A_QUERY ? n - i : IDS_A_QUERY;
        if (!look_up_some(db, b, indexes + i, some, &known, err))
            return false;
    }
    if (found)
        *found = known;
    return true;
}
