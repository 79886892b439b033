/* SPDX-License-Identifier: MIT */
#include "batch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"

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

void batch_free(struct batch *b) {
    if (!b)
        return;
    for (size_t i = 0; i < b->count; i++) {
        if (b->events[i].msg)
            rd_kafka_message_destroy(b->events[i].msg);
    }
    free(b->events);
    free(b->spans);
    free(b->order);
    free(b->groups);
    assignment_unref(b->assignment);
    free(b);
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

void batch_add(struct batch *b, struct part *part, rd_kafka_message_t *msg,
               const struct event_limits *limits) {
    if (b->count == b->capacity) {
        b->capacity = b->capacity ? b->capacity * 2 : 64;
        b->events = mem_realloc(b->events, b->capacity * sizeof *b->events);
    }
    struct batch_event *e = &b->events[b->count++];
    memset(e, 0, sizeof *e);
    e->msg = msg;
    e->part = part;
    e->offset = msg->offset;
    e->twin_of = EVENT_NO_TWIN;
    rd_kafka_timestamp_type_t type;
    int64_t ts = rd_kafka_message_timestamp(msg, &type);
    e->record_ts_ms = type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? -1 : ts;
    switch (event_parse(msg->payload, msg->len, e->record_ts_ms, limits, &e->usage, &e->why)) {
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

static int by_id(const void *x, const void *y, void *events) {
    const struct batch_event *all = events;
    size_t i = *(const size_t *)x, k = *(const size_t *)y;
    int c = strcmp(all[i].usage.id, all[k].usage.id);
    return c ? c : (i > k) - (i < k);
}

static int by_family_month(const void *x, const void *y, void *events) {
    const struct batch_event *all = events;
    size_t i = *(const size_t *)x, k = *(const size_t *)y;
    const struct usage_event *a = &all[i].usage, *c = &all[k].usage;
    if (a->family_id != c->family_id)
        return a->family_id < c->family_id ? -1 : 1;
    if (a->month != c->month)
        return a->month < c->month ? -1 : 1;
    return (i > k) - (i < k);
}

static void link_twin(struct batch *b, size_t later, size_t first) {
    b->events[later].twin_of = first;
    b->events[first].has_twin = true;
}

void batch_prepare(struct batch *b) {
    b->order = mem_alloc(b->count * sizeof *b->order);
    size_t n = 0;
    for (size_t i = 0; i < b->count; i++) {
        if (b->events[i].parsed)
            b->order[n++] = i;
    }
    qsort_r(b->order, n, sizeof *b->order, by_id, b->events);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (strcmp(b->events[b->order[i]].usage.id, b->events[b->order[first]].usage.id) == 0)
            link_twin(b, b->order[i], b->order[first]);
        else
            first = i;
    }
    qsort_r(b->order, n, sizeof *b->order, by_family_month, b->events);
    b->groups = mem_zero(n, sizeof *b->groups);
    struct family_group *g = NULL;
    for (size_t i = 0; i < n; i++) {
        struct batch_event *e = &b->events[b->order[i]];
        if (!g || g->family_id != e->usage.family_id || g->month != e->usage.month) {
            g = &b->groups[b->group_count++];
            *g = (struct family_group){.family_id = e->usage.family_id, .month = e->usage.month, .first = i};
        }
        g->count++;
        e->group = b->group_count - 1;
    }
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
    e->why.code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->why.message, sizeof e->why.message, fmt, ap);
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
    } else {
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
