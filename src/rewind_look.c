/* SPDX-License-Identifier: MIT */
/* What running records again would find: they are read as a worker reads them, parsed, and their ids looked
 * up, a thousand at a time; of the ids that nobody knows digests are kept, to know them when they come again.
 */
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "buf.h"
#include "digest.h"
#include "kafka.h"
#include "known.h"
#include "ledger.h"
#include "rewind.h"

#define RECORDS_A_LOOK 1000
#define SILENCE_MS 30000 /* without a record or an end for so long the broker counts as silent */
#define DESTROY_MS 5000

/* ---- ids that were met ---- */

struct met {
    uint64_t *slots; /* owned; 0: free */
    size_t size, count;
};

/* Adds it. False: it was there. */
static bool met_put(struct met *m, uint64_t digest) {
    size_t i = (size_t)(digest ^ digest >> 32) & (m->size - 1);
    while (m->slots[i] && m->slots[i] != digest)
        i = (i + 1) & (m->size - 1);
    if (m->slots[i])
        return false;
    m->slots[i] = digest;
    m->count++;
    return true;
}

static bool met_add(struct met *m, const char *id) {
    uint64_t digest = digest_bytes(DIGEST_START, id, strlen(id));
    if (2 * (m->count + 1) > m->size) {
        struct met larger = {.size = m->size ? m->size * 2 : 1024};
        larger.slots = mem_zero(larger.size, sizeof *larger.slots);
        for (size_t i = 0; i < m->size; i++) {
            if (m->slots[i])
                met_put(&larger, m->slots[i]);
        }
        free(m->slots);
        *m = larger;
    }
    return met_put(m, digest ? digest : 1);
}

/* ---- judging ---- */

struct looking {
    struct db *db;
    const struct config *cfg;
    const struct rewind *r;
    struct rewind_look *look;
    rd_kafka_t *reader;
    struct assignment *parts;
    struct event_limits limits;
    struct batch *batch;
    struct rewind_found *found; /* of the partition being read */
    struct met met;
    int64_t limit;  /* records left to read */
    int64_t passed; /* offsets of partitions done */
    rewind_progress *progress;
};

static void take_known(void *ctx, struct batch *b, size_t index, const struct known_row *row) {
    struct batch_event *e = &b->events[index];
    (void)ctx;
    e->has_known = true;
    e->decision.allowed = !row->blocked;
    e->known_family = row->family;
    e->known_customer = row->customer;
    e->known_bytes = row->bytes;
}

/* Takes the rows that hold the ids of the live events. */
static bool look_up(struct looking *l, struct error *err) {
    struct batch *b = l->batch;
    size_t *indexes = mem_alloc(b->count * sizeof *indexes), n = 0;
    for (size_t i = 0; i < b->count; i++) {
        if (batch_event_live(&b->events[i]))
            indexes[n++] = i;
    }
    bool ok = known_rows(l->db, b, indexes, n, take_known, NULL, err);
    free(indexes);
    return ok;
}

/* Ends an event by what is known of its id: the row that holds it, or its first time in the batch. */
static void end_known(struct batch *b, size_t i) {
    struct batch_event *e = &b->events[i];
    const struct usage_event *u = &e->usage;
    const struct batch_event *first = e->twin_of == EVENT_NO_TWIN ? e : &b->events[e->twin_of];
    bool same = u->family_id == first->known_family && u->customer_id == first->known_customer &&
                u->bytes_used == first->known_bytes;
    if (first->has_known && same)
        e->outcome = first->decision.allowed ? OUTCOME_SETTLED : OUTCOME_BLOCKED;
    if (!first->has_known)
        same = u->family_id == first->usage.family_id && u->customer_id == first->usage.customer_id &&
               u->bytes_used == first->usage.bytes_used;
    if (!same)
        batch_reject(b, i, REJECT_ID_CONFLICT, "known with other figures");
}

static void count_event(struct looking *l, const struct batch_event *e) {
    struct rewind_found *f = l->found;
    if (f->first_ms < 0 || e->record_ts_ms < f->first_ms)
        f->first_ms = e->record_ts_ms;
    if (e->record_ts_ms > f->last_ms)
        f->last_ms = e->record_ts_ms;
    f->records++;
    if (e->outcome == OUTCOME_IGNORED)
        f->ignored++;
    else if (e->outcome == OUTCOME_REJECTED)
        f->rejected[e->why.code]++;
    else if (e->outcome == OUTCOME_SETTLED)
        f->settled++;
    else if (e->outcome == OUTCOME_BLOCKED)
        f->blocked++;
    else if (e->outcome == OUTCOME_OPEN && met_add(&l->met, e->usage.id))
        f->fresh++;
    else
        f->repeated++;
}

/* Judges what was gathered, and begins anew. */
static bool judge(struct looking *l, struct error *err) {
    struct batch *b = l->batch;
    if (b->count == 0)
        return true;
    batch_prepare(b);
    bool ok = look_up(l, err);
    for (size_t i = 0; ok && i < b->count; i++) {
        if (b->events[i].parsed)
            end_known(b, i);
        count_event(l, &b->events[i]);
    }
    batch_free(b);
    l->batch = batch_new(l->parts);
    return ok;
}

/* ---- reading ---- */

/* What the message says of how far the partition is read; takes it over. -1 with an error. */
static int64_t take_message(struct looking *l, struct part *part, rd_kafka_message_t *m, int64_t until,
                            struct error *err) {
    int64_t at = part->position;
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF && m->partition == part->id) {
        at = m->offset; /* below the end may lie what is no record */
    } else if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR && m->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        kafka_error(m->err, "reading", rd_kafka_message_errstr(m), err);
        group_name_right(l->cfg, "READ", err);
        at = -1;
    } else if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR && m->partition == part->id && m->offset >= at) {
        at = m->offset + 1;
        if (m->offset < until) {
            batch_add(l->batch, part, m, &l->limits);
            l->limit--;
            return at;
        }
    }
    rd_kafka_message_destroy(m);
    return at;
}

static bool read_on(struct looking *l, struct part *part, int64_t from, int64_t until, struct error *err) {
    int64_t heard = clock_monotonic_ms(), at = from;
    while (at < until && l->limit > 0) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(l->reader, 100);
        if (!m && clock_monotonic_ms() - heard > SILENCE_MS)
            return kafka_error(RD_KAFKA_RESP_ERR__TIMED_OUT, "reading", l->cfg->kafka.usage_topic, err);
        if (!m)
            continue;
        heard = clock_monotonic_ms();
        at = take_message(l, part, m, until, err);
        if (at < 0)
            return false;
        if (l->batch->count < RECORDS_A_LOOK)
            continue;
        if (!judge(l, err))
            return false;
        if (l->progress)
            l->progress(l->passed + at - from, l->look->offsets);
    }
    if (at < until)
        l->look->cut = true;
    l->passed += until - from;
    return judge(l, err);
}

static bool read_part(struct looking *l, size_t i, struct error *err) {
    const struct rewind_part *p = &l->r->parts[i];
    int64_t from = p->to < p->from ? p->to : p->from, until = p->to < p->from ? p->from : p->to;
    if (from < p->low)
        from = p->low;
    l->found = p->to < p->from ? &l->look->again : &l->look->ahead;
    if (from >= until)
        return true;
    if (l->limit <= 0) {
        l->look->cut = true;
        return true;
    }
    l->parts->parts[i].position = from;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, l->cfg->kafka.usage_topic, p->id)->offset = from;
    rd_kafka_resp_err_t code = rd_kafka_assign(l->reader, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_error(code, "assign", l->cfg->kafka.usage_topic, err);
    return read_on(l, &l->parts->parts[i], from, until, err);
}

static int64_t distance(const struct rewind_part *p) {
    return p->to < p->from ? p->from - p->to : p->to - p->from;
}

static void begin(struct looking *l) {
    const struct rewind *r = l->r;
    l->parts = assignment_new(0, r->count);
    for (size_t i = 0; i < r->count; i++) {
        l->parts->parts[i].id = r->parts[i].id;
        l->look->offsets += distance(&r->parts[i]);
    }
    l->look->again.first_ms = l->look->again.last_ms = -1;
    l->look->ahead.first_ms = l->look->ahead.last_ms = -1;
    l->batch = batch_new(l->parts);
    l->limits = event_limits_of(l->cfg, 0);
}

static void end(struct looking *l) {
    batch_free(l->batch);
    assignment_unref(l->parts);
    free(l->met.slots);
    if (l->reader) {
        rd_kafka_assign(l->reader, NULL);
        kafka_destroy(l->reader, DESTROY_MS);
    }
}

bool rewind_look(struct db *db, const struct config *cfg, const struct rewind *r, int64_t limit,
                 rewind_progress *progress, struct rewind_look *look, struct error *err) {
    *look = (struct rewind_look){0};
    struct looking l = {.db = db, .cfg = cfg, .r = r, .look = look, .limit = limit, .progress = progress};
    begin(&l);
    bool ok = ledger_floor(db, &l.limits.closed_before, err);
    l.reader = ok ? kafka_reader_new(cfg, err) : NULL;
    ok = l.reader != NULL;
    for (size_t i = 0; ok && i < r->count; i++)
        ok = read_part(&l, i, err);
    end(&l);
    return ok;
}
