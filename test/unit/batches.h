/* SPDX-License-Identifier: MIT */
/* Batches made by hand: events without Kafka messages, put in as batch_add would. */
#ifndef TALLYD_BATCHES_H
#define TALLYD_BATCHES_H

#include "batch.h"
#include "buf.h"
#include "testing.h"

#define BATCHES_TIME INT64_C(1796007600000) /* 2026-11-30T12:00:00+09:00 */
#define BATCHES_MONTH 202611

/* What events made by hand point at: theirs for the whole test. */
static inline const char *batches_text(const char *s) {
    static struct arena texts;
    return arena_text(&texts, s, strlen(s));
}

/* An event at 12:00 of the last day of 2026-11. */
static inline struct usage_event batches_event(const char *id, int64_t family, int64_t customer,
                                               int64_t bytes) {
    struct usage_event u = {.id = batches_text(id),
                            .app = "",
                            .family_id = family,
                            .customer_id = customer,
                            .bytes_used = bytes,
                            .time_ms = BATCHES_TIME,
                            .month = BATCHES_MONTH,
                            .hhmm = 1200};
    return u;
}

static inline void batches_set_app(struct usage_event *u, const char *app) {
    u->app = batches_text(app);
    u->has_app = *app != '\0';
}

/* Partitions 0 … count-1 from offset 0, as right after an assignment. */
static inline struct assignment *batches_assignment(int64_t owner, size_t count) {
    struct assignment *a = assignment_new(owner, count);
    for (size_t i = 0; i < count; i++)
        a->parts[i].id = (int32_t)i;
    return a;
}

/* Puts a record without message behind the partition's last one. */
static inline struct batch_event *batches_put(struct batch *b, struct part *part) {
    if (b->count == b->capacity) {
        b->capacity = b->capacity ? b->capacity * 2 : 8;
        b->events = mem_realloc(b->events, b->capacity * sizeof *b->events);
    }
    struct batch_event *e = &b->events[b->count++];
    *e = (struct batch_event){
        .part = part, .offset = part->position, .record_ts_ms = BATCHES_TIME, .twin_of = EVENT_NO_TWIN};
    batch_advance(b, part, part->position + 1);
    return e;
}

static inline struct batch_event *batches_put_usage(struct batch *b, struct part *part,
                                                    struct usage_event u) {
    struct batch_event *e = batches_put(b, part);
    e->usage = u;
    e->parsed = true;
    return e;
}

#endif
