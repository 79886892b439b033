/* SPDX-License-Identifier: MIT */
#include "batch.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "digest.h"

struct assignment *assignment_new(int64_t owner, size_t count) {
    struct assignment *a = mem_zero(1, sizeof *a + count * sizeof a->parts[0]);
    atomic_init(&a->refs, 1);
    atomic_init(&a->lost, false);
    a->owner = owner;
    a->count = count;
    return a;
}

struct assignment *assignment_ref(struct assignment *a) {
    atomic_fetch_add(&a->refs, 1);
    return a;
}

void assignment_unref(struct assignment *a) {
    if (a && atomic_fetch_sub(&a->refs, 1) == 1)
        free(a);
}

struct part *assignment_part(struct assignment *a, int32_t id) {
    for (size_t i = 0; i < a->count; i++) {
        if (a->parts[i].id == id)
            return &a->parts[i];
    }
    return NULL;
}

struct batch *batch_new(struct assignment *a) {
    struct batch *b = mem_zero(1, sizeof *b);
    b->assignment = assignment_ref(a);
    return b;
}

struct batch *batch_take(struct batch_pool *pool, struct assignment *a) {
    if (pool->count == 0) {
        struct batch *b = batch_new(a);
        b->pool = pool;
        return b;
    }
    struct batch *b = pool->idle[--pool->count];
    b->assignment = assignment_ref(a);
    return b;
}

/* Lets go of everything but the memory. */
static void clear(struct batch *b) {
    for (size_t i = 0; i < b->count; i++) {
        if (b->events[i].msg)
            rd_kafka_message_destroy(b->events[i].msg);
    }
    assignment_unref(b->assignment);
    b->assignment = NULL;
    b->count = b->bytes = b->span_count = b->group_count = 0;
    arena_reset(&b->memory.texts);
}

static void destroy(struct batch *b) {
    free(b->events);
    free(b->spans);
    free(b->order);
    free(b->groups);
    free(b->sorting);
    event_memory_free(&b->memory);
    free(b);
}

void batch_free(struct batch *b) {
    if (!b)
        return;
    clear(b);
    struct batch_pool *pool = b->pool;
    if (pool && pool->count < sizeof pool->idle / sizeof *pool->idle)
        pool->idle[pool->count++] = b;
    else
        destroy(b);
}

void batch_pool_free(struct batch_pool *pool) {
    while (pool->count)
        destroy(pool->idle[--pool->count]);
}

void batch_advance(struct batch *b, struct part *part, int64_t next) {
    struct batch_span *s = NULL;
    for (size_t i = 0; i < b->span_count && !s; i++) {
        if (b->spans[i].part == part)
            s = &b->spans[i];
    }
    if (!s) {
        if (b->span_count == b->span_capacity) {
            b->span_capacity = b->span_capacity ? b->span_capacity * 2 : 8;
            b->spans = mem_realloc(b->spans, b->span_capacity * sizeof *b->spans);
        }
        s = &b->spans[b->span_count++];
        *s = (struct batch_span){.part = part, .from = part->position};
    }
    s->next = next;
    part->position = next;
}

static struct batch_event *add_event(struct batch *b) {
    if (b->count == b->capacity) {
        b->capacity = b->capacity ? b->capacity * 2 : 64;
        b->events = mem_realloc(b->events, b->capacity * sizeof *b->events);
    }
    return &b->events[b->count++];
}

void batch_add(struct batch *b, struct part *part, rd_kafka_message_t *msg,
               const struct event_limits *limits) {
    struct batch_event *e = add_event(b);
    memset(e, 0, sizeof *e);
    e->msg = msg;
    e->part = part;
    e->offset = msg->offset;
    e->twin_of = EVENT_NO_TWIN;
    rd_kafka_timestamp_type_t type;
    int64_t ts = rd_kafka_message_timestamp(msg, &type);
    e->record_ts_ms = type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? -1 : ts;
    switch (event_parse(msg->payload, msg->len, e->record_ts_ms, limits, &b->memory, &e->usage, &e->why)) {
    case EVENT_USAGE:
        e->parsed = true;
        break;
    case EVENT_IGNORED:
        e->outcome = OUTCOME_IGNORED;
        break;
    case EVENT_REJECTED:
        e->outcome = OUTCOME_REJECTED;
        break;
    }
    b->bytes += msg->len;
    batch_advance(b, part, msg->offset + 1);
}

void batch_move(struct batch *b, struct batch_event *from) {
    struct arena *texts = &b->memory.texts;
    struct batch_event *e = add_event(b);
    *e = *from;
    from->msg = NULL;
    if (e->usage.id) /* of a rejected one too, where it was read */
        e->usage.id = arena_text(texts, e->usage.id, strlen(e->usage.id));
    if (e->parsed)
        e->usage.app = arena_text(texts, e->usage.app, strlen(e->usage.app));
    if (e->why.message)
        e->why.message = arena_text(texts, e->why.message, strlen(e->why.message));
}

/* What events are sorted by: few bytes, next to each other. */
struct sort_key {
    uint64_t major;
    uint32_t minor, index;
};

static int by_key(const void *x, const void *y) {
    const struct sort_key *a = x, *b = y;
    if (a->major != b->major)
        return a->major < b->major ? -1 : 1;
    if (a->minor != b->minor)
        return a->minor < b->minor ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Room for sorting and grouping all its events. */
static void make_room(struct batch *b) {
    if (b->sorting && b->sorting_capacity >= b->count)
        return;
    b->sorting_capacity = b->capacity;
    b->sorting = mem_realloc(b->sorting, b->capacity * sizeof(struct sort_key));
    b->order = mem_realloc(b->order, b->capacity * sizeof *b->order);
    b->groups = mem_realloc(b->groups, b->capacity * sizeof *b->groups);
}

static void link_twin(struct batch *b, size_t later, size_t first) {
    b->events[later].twin_of = first;
    b->events[first].has_twin = true;
}

/* Of equal hashes, in the order delivered: each one's first is the first with the same id. */
static void link_twins(struct batch *b, const struct sort_key *keys, size_t n) {
    for (size_t i = 1; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct batch_event *first = &b->events[keys[k].index];
            if (first->twin_of != EVENT_NO_TWIN ||
                strcmp(first->usage.id, b->events[keys[i].index].usage.id) != 0)
                continue;
            link_twin(b, keys[i].index, keys[k].index);
            break;
        }
    }
}

static size_t find_twins(struct batch *b, uint64_t (*hash)(const char *id)) {
    struct sort_key *keys = b->sorting;
    size_t n = 0;
    for (size_t i = 0; i < b->count; i++) {
        if (b->events[i].parsed)
            keys[n++] = (struct sort_key){.major = hash(b->events[i].usage.id), .index = (uint32_t)i};
    }
    qsort(keys, n, sizeof *keys, by_key);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && keys[to].major == keys[from].major;)
            to++;
        link_twins(b, keys + from, to - from);
    }
    return n;
}

static void make_groups(struct batch *b, size_t n) {
    struct sort_key *keys = b->sorting;
    for (size_t i = 0; i < n; i++) {
        const struct usage_event *u = &b->events[keys[i].index].usage;
        keys[i].major = (uint64_t)u->family_id;
        keys[i].minor = (uint32_t)u->month;
    }
    qsort(keys, n, sizeof *keys, by_key);
    struct family_group *g = NULL;
    for (size_t i = 0; i < n; i++) {
        struct batch_event *e = &b->events[keys[i].index];
        if (!g || g->family_id != e->usage.family_id || g->month != e->usage.month) {
            g = &b->groups[b->group_count++];
            *g = (struct family_group){.family_id = e->usage.family_id, .month = e->usage.month, .first = i};
        }
        g->count++;
        e->group = b->group_count - 1;
        b->order[i] = keys[i].index;
    }
}

void batch_prepare_hashed(struct batch *b, uint64_t (*hash)(const char *id)) {
    make_room(b);
    make_groups(b, find_twins(b, hash));
}

static uint64_t hash_of(const char *id) {
    return digest_bytes(DIGEST_START, id, strlen(id));
}

void batch_prepare(struct batch *b) {
    batch_prepare_hashed(b, hash_of);
}

/* Its DLT record is acknowledged: whatever is found out later, it stays rejected. */
static bool rejection_stands(const struct batch_event *e) {
    return e->outcome == OUTCOME_REJECTED && e->dlt_acked;
}

/* The next occurrence of a rejected id is decided in its place. */
static void promote_twin(struct batch *b, size_t i) {
    if (!b->events[i].has_twin)
        return;
    b->events[i].has_twin = false;
    size_t first = EVENT_NO_TWIN;
    for (size_t k = i + 1; k < b->count; k++) {
        struct batch_event *e = &b->events[k];
        if (e->twin_of != i || rejection_stands(e))
            continue;
        if (first == EVENT_NO_TWIN) {
            first = k;
            e->twin_of = EVENT_NO_TWIN;
            e->outcome = OUTCOME_OPEN; /* whatever it was judged by the one before */
            b->groups[e->group].dirty = true;
        } else {
            e->twin_of = first;
            b->events[first].has_twin = true;
        }
    }
}

/* Ends an event that may have been decided: then Redis has counted what won't be settled. */
static void drop_decision(struct batch *b, struct batch_event *e) {
    if (e->decided && !e->decision.duplicate) {
        b->groups[e->group].left_trace = true;
        b->groups[e->group].dirty = true;
    }
    e->decided = false;
}

void batch_reject(struct batch *b, size_t i, enum reject_code code, const char *fmt, ...) {
    struct batch_event *e = &b->events[i];
    e->outcome = OUTCOME_REJECTED;
    drop_decision(b, e);
    va_list ap;
    va_start(ap, fmt);
    e->why = (struct event_reason){.code = code, .message = event_message(&b->memory.texts, fmt, ap)};
    va_end(ap);
    if (code != REJECT_ID_CONFLICT && e->twin_of == EVENT_NO_TWIN)
        promote_twin(b, i);
}

static bool same_figures(const struct usage_event *u, int64_t family, int64_t customer, int64_t bytes) {
    return u->family_id == family && u->customer_id == customer && u->bytes_used == bytes;
}

static void judge_against(struct batch *b, size_t i, int64_t family, int64_t customer, int64_t bytes) {
    struct batch_event *e = &b->events[i];
    if (same_figures(&e->usage, family, customer, bytes)) {
        e->outcome = OUTCOME_DUPLICATE;
        drop_decision(b, e);
    } else if (e->outcome != OUTCOME_REJECTED || e->why.code != REJECT_ID_CONFLICT) { /* said once a batch */
        batch_reject(b, i, REJECT_ID_CONFLICT,
                     "eventId: known already with another family, customer or amount");
    }
}

void batch_judge_known(struct batch *b, size_t i, int64_t family, int64_t customer, int64_t bytes) {
    struct batch_event *e = &b->events[i];
    e->has_known = true;
    e->known_family = family;
    e->known_customer = customer;
    e->known_bytes = bytes;
    judge_against(b, i, family, customer, bytes);
}

bool batch_any_dirty(const struct batch *b) {
    for (size_t i = 0; i < b->group_count; i++) {
        if (b->groups[i].dirty)
            return true;
    }
    return false;
}

void batch_judge_twins(struct batch *b) {
    for (size_t i = 0; i < b->count; i++) {
        struct batch_event *e = &b->events[i];
        if (e->twin_of == EVENT_NO_TWIN || rejection_stands(e))
            continue;
        const struct batch_event *first = &b->events[e->twin_of];
        if (first->has_known)
            judge_against(b, i, first->known_family, first->known_customer, first->known_bytes);
        else
            judge_against(b, i, first->usage.family_id, first->usage.customer_id, first->usage.bytes_used);
    }
}

const char *batch_event_trace(const struct batch_event *e, char out[TRACE_PARENT_SIZE]) {
    rd_kafka_headers_t *headers = NULL;
    const void *value = NULL, *second = NULL;
    size_t len = 0, second_len = 0;
    out[0] = '\0';
    if (!e->msg || rd_kafka_message_headers(e->msg, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
        rd_kafka_header_get(headers, 0, TRACE_HEADER, &value, &len) != RD_KAFKA_RESP_ERR_NO_ERROR ||
        rd_kafka_header_get(headers, 1, TRACE_HEADER, &second, &second_len) == RD_KAFKA_RESP_ERR_NO_ERROR)
        return out; /* with two, neither is known to be the one that holds */
    trace_parent_parse(value, len, out);
    return out;
}

const char *batch_event_trace_id(const struct batch_event *e, char out[TRACE_ID_SIZE]) {
    char parent[TRACE_PARENT_SIZE];
    return trace_id(batch_event_trace(e, parent), out);
}
