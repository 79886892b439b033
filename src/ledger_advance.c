/* SPDX-License-Identifier: MIT */
/* What a batch's settlement writes of it. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "ledger.h"
#include "mark.h"

struct ledger_counts ledger_count(const struct batch *b, const struct batch_span *span) {
    struct ledger_counts c = {0};
    int64_t counted = 0, floor = span->part->next_offset;
    for (size_t i = 0; i < b->count; i++) {
        const struct batch_event *e = &b->events[i];
        if (e->part != span->part || e->offset < floor)
            continue;
        counted++;
        switch (e->outcome) {
        case OUTCOME_IGNORED:
            c.ignored++;
            break;
        case OUTCOME_REJECTED:
            c.rejected++;
            break;
        case OUTCOME_DUPLICATE:
            c.duplicate++;
            break;
        case OUTCOME_BLOCKED:
            c.blocked++;
            break;
        case OUTCOME_SETTLED:
            c.settled++;
            break;
        case OUTCOME_OPEN:
            *(e->decision.allowed ? &c.settled : &c.blocked) += 1;
            break;
        }
    }
    if (span->next > floor)
        c.gap = span->next - floor - counted;
    return c;
}

/* The last of the span's records that are counted now. */
static struct mark last_counted(const struct batch *b, const struct batch_span *span) {
    for (size_t i = b->count; i-- > 0;) {
        const struct batch_event *e = &b->events[i];
        if (e->part == span->part)
            return e->msg && e->offset >= span->part->next_offset ? mark_of(e->msg) : MARK_NONE;
    }
    return MARK_NONE;
}

/* Why the UPDATE moved no row. */
static enum ledger_step why_none_moved(struct db *db, const struct config *cfg, const struct batch *b,
                                       struct error *err) {
    struct buf sql = {0};
    buf_str(&sql, "SELECT partition_id, owner, batch_no FROM consumer_ledger");
    ledger_where(db, &sql, cfg);
    struct db_rows rows;
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return LEDGER_FAILED;
    size_t done = 0;
    while (db_next(&rows)) {
        for (size_t i = 0; i < b->span_count; i++) {
            const struct part *p = b->spans[i].part;
            if (p->id == db_i64(&rows, 0, -1) && db_i64(&rows, 1, 0) == b->assignment->owner &&
                db_i64(&rows, 2, 0) == p->batch_no + 1)
                done++;
        }
    }
    db_rows_free(&rows);
    return done == b->span_count ? LEDGER_COMMITTED : LEDGER_FENCED;
}

static int by_partition(const void *x, const void *y) {
    const struct batch_span *a = x, *b = y;
    return (a->part->id > b->part->id) - (a->part->id < b->part->id);
}

/* What the statement says of one span. */
struct step {
    int32_t partition;
    int64_t batch_no, next;
    struct ledger_counts counts;
    struct mark last;
};

static struct step *plan(struct batch *b) {
    struct step *steps = mem_alloc(b->span_count * sizeof *steps);
    qsort(b->spans, b->span_count, sizeof *b->spans, by_partition);
    for (size_t i = 0; i < b->span_count; i++) {
        const struct batch_span *s = &b->spans[i];
        steps[i] = (struct step){.partition = s->part->id,
                                 .batch_no = s->part->batch_no,
                                 .next = s->next,
                                 .counts = ledger_count(b, s),
                                 .last = last_counted(b, s)};
    }
    return steps;
}

static int64_t at(const struct step *step, size_t field) {
    int64_t value;
    memcpy(&value, (const char *)step + field, sizeof value);
    return value;
}

/* The step's value by partition; the others keep `otherwise`. */
static void append_case(struct buf *sql, const struct step *steps, size_t n, size_t field,
                        const char *otherwise) {
    buf_str(sql, "CASE partition_id");
    for (size_t i = 0; i < n; i++)
        buf_printf(sql, " WHEN %d THEN %lld", steps[i].partition, (long long)at(&steps[i], field));
    buf_printf(sql, " ELSE %s END", otherwise);
}

/* Most columns stand still in most batches. */
static void append_counts(struct buf *sql, const struct step *steps, size_t n) {
    static const struct {
        const char *column;
        size_t field;
    } counts[] = {
        {"settled", offsetof(struct step, counts.settled)},
        {"blocked", offsetof(struct step, counts.blocked)},
        {"duplicate", offsetof(struct step, counts.duplicate)},
        {"rejected", offsetof(struct step, counts.rejected)},
        {"ignored", offsetof(struct step, counts.ignored)},
        {"gap", offsetof(struct step, counts.gap)},
    };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int64_t any = 0;
        for (size_t i = 0; i < n; i++)
            any |= at(&steps[i], counts[c].field);
        if (any == 0)
            continue;
        buf_printf(sql, ", %s = %s + ", counts[c].column, counts[c].column);
        append_case(sql, steps, n, counts[c].field, "0");
    }
}

static void append_marks(struct buf *sql, const struct step *steps, size_t n) {
    static const struct {
        const char *column;
        size_t field;
    } marks[] = {
        {"last_offset", offsetof(struct step, last.offset)},
        {"last_timestamp_ms", offsetof(struct step, last.timestamp_ms)},
        {"last_checksum", offsetof(struct step, last.checksum)},
    };
    struct step *marked = mem_alloc(n * sizeof *marked);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (steps[i].last.offset >= 0)
            marked[count++] = steps[i];
    }
    for (size_t c = 0; count > 0 && c < sizeof marks / sizeof *marks; c++) {
        buf_printf(sql, ", %s = ", marks[c].column);
        append_case(sql, marked, count, marks[c].field, marks[c].column);
    }
    free(marked);
}

/* One statement whatever the partitions: each would be a round trip within every transaction. READ COMMITTED
 * waits for no row that isn't meant, and the key's order is the partitions'. */
static void append_advance(struct db *db, const struct config *cfg, struct buf *sql, const struct step *steps,
                           size_t n, int64_t owner) {
    buf_str(sql, "UPDATE consumer_ledger SET batch_no = batch_no + 1, updated_at = UTC_TIMESTAMP(3), "
                 "next_offset = GREATEST(next_offset, ");
    append_case(sql, steps, n, offsetof(struct step, next), "0");
    buf_char(sql, ')');
    append_counts(sql, steps, n);
    append_marks(sql, steps, n);
    ledger_where(db, sql, cfg);
    buf_str(sql, " AND partition_id IN (");
    for (size_t i = 0; i < n; i++)
        buf_printf(sql, "%s%d", i ? "," : "", steps[i].partition);
    buf_printf(sql, ") AND owner = %lld AND batch_no = ", (long long)owner);
    append_case(sql, steps, n, offsetof(struct step, batch_no), "-1");
}

enum ledger_step ledger_advance(struct db *db, const struct config *cfg, struct batch *b, struct error *err) {
    struct buf sql = {0};
    struct step *steps = plan(b);
    int64_t affected = 0;
    append_advance(db, cfg, &sql, steps, b->span_count, b->assignment->owner);
    bool ok = db_exec(db, &sql, &affected, err);
    buf_free(&sql);
    free(steps);
    if (!ok)
        return LEDGER_FAILED;
    if (affected == (int64_t)b->span_count)
        return LEDGER_ADVANCED;
    /* an earlier attempt moved all or none: some only is somebody else's doing, and what moved is this
     * attempt's */
    return affected == 0 ? why_none_moved(db, cfg, b, err) : LEDGER_FENCED;
}

void ledger_committed(struct batch *b) {
    for (size_t i = 0; i < b->span_count; i++) {
        struct part *p = b->spans[i].part;
        p->batch_no++;
        if (b->spans[i].next > p->next_offset)
            p->next_offset = b->spans[i].next;
    }
}
