/* SPDX-License-Identifier: MIT */
/* A batch of records on its way: an array of events, in the order delivered,
 * that each stage annotates and none reorders (DESIGN §1). The worker owns it,
 * except between hand-over and return, when the settler does. */
#ifndef TALLYD_BATCH_H
#define TALLYD_BATCH_H

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event.h"
#include "trace.h"

/* One partition of an assignment. */
struct part {
    int32_t id;
    /* owned by the worker */
    int64_t position; /* offset of the next record to take into a batch */
    int64_t
        read_from; /* where reading starts on assignment: above position where the log lost what's between */
    int64_t
        replay_below;  /* the ledger's next_offset on assignment: ids of records below it are likely known */
    bool commit_start; /* Kafka's committed offset lies above the position */
    bool stopped;      /* not read: its log and the ledger disagree */
    bool held;         /* the client was told to pause it */
    /* owned by whoever owns the batch in flight */
    int64_t batch_no;    /* the ledger's */
    int64_t next_offset; /* the ledger's: records below it are counted already */
    /* read by any thread */
    atomic_int_fast64_t settled_to;      /* everything below is settled, in this assignment */
    atomic_int_fast64_t paused_since_ms; /* an operator paused it then, since 1970; 0: it isn't paused */
};

/* What the group gave to a worker, under one owner number in the ledger. Shared
 * by the worker and the batches made under it; the last reference frees it. */
struct assignment {
    atomic_int refs;
    atomic_bool lost; /* revoked or fenced: nothing of it may be settled or stored any more */
    int64_t owner;
    int64_t read_ms; /* when its rows were read from the ledger, monotonic: older news of them is no news */
    size_t count;
    struct part parts[];
};

struct assignment *assignment_new(int64_t owner, size_t count);
struct assignment *assignment_ref(struct assignment *a);
void assignment_unref(struct assignment *a);
/* The part of that id, or NULL. */
struct part *assignment_part(struct assignment *a, int32_t id);

/* What the script said (CONTRACT §2), with the base it started from. */
enum decision_status {
    STATUS_NORMAL,
    STATUS_WARNING,
    STATUS_MANUAL,
    STATUS_APP_BLOCK,
    STATUS_TIME_BLOCK,
    STATUS_MONTHLY_LIMIT_EXCEEDED,
    STATUS_FAMILY_QUOTA_EXCEEDED,
};

struct decision {
    enum decision_status status;
    int threshold; /* for STATUS_WARNING */
    bool allowed;
    bool duplicate;     /* a cached result: look the id up before it counts */
    bool should_notify; /* what Redis' mark said; saves work, decides nothing */
    int64_t total_bytes;
    int64_t remaining_bytes;     /* after */
    int64_t monthly_used_bytes;  /* after */
    int64_t monthly_limit_bytes; /* -1: none */
};

enum outcome {
    OUTCOME_OPEN, /* nothing known yet, or decided and not settled */
    OUTCOME_IGNORED,
    OUTCOME_REJECTED,  /* `why` says the reason; stands once its DLT record is acknowledged */
    OUTCOME_DUPLICATE, /* known with the same family, customer and bytes */
    OUTCOME_SETTLED,
    OUTCOME_BLOCKED,
};

#define EVENT_NO_TWIN SIZE_MAX

struct batch_event {
    struct usage_event usage; /* valid unless rejected when parsed, or ignored; texts are the batch's */
    rd_kafka_message_t *msg;  /* owned by the batch */
    struct part *part;
    int64_t offset;
    int64_t record_ts_ms;
    enum outcome outcome;
    bool parsed;    /* a usage event that passed rules 1-7 */
    bool decided;   /* `decision` is valid */
    bool looked_up; /* MySQL had no such id at the last look, or the dedup entry is its own */
    bool dlt_acked;
    struct event_reason why;
    bool has_twin;  /* it is the first of an id that comes again in this batch */
    size_t twin_of; /* index of the id's first occurrence in this batch, or EVENT_NO_TWIN */
    size_t group;   /* index into groups, for parsed events */
    struct decision decision;
    /* the row that holds this id, once an ID_CONFLICT or duplicate was found by looking up */
    bool has_known;
    int64_t known_family, known_customer, known_bytes;
};

/* The events of one family and month, in order: decided in order or not at all. */
struct family_group {
    int64_t family_id;
    int32_t month;
    size_t first, count; /* a run in batch.order */
    bool dirty;          /* to be warmed and decided (again) */
    bool void_decisions; /* to be decided again; what Redis holds is good */
    bool left_trace;     /* an event that Redis has counted was ended: dirty until it's warmed */
    bool suspect; /* the script doesn't know a customer as a member, or knows an id: MySQL is to be asked */
    bool warmed;  /* warmed for this batch since it was last found wanting */
    int failures; /* times its settlement was refused */
};

/* Offsets of one partition that the batch accounts for. */
struct batch_span {
    struct part *part;
    int64_t from, next; /* next: one past the last record, or past a gap behind it */
};

struct batch_pool;

/* Why a settlement wrote nothing and the batch is to be decided again. */
enum came_back {
    CAME_BACK_FIGURES,  /* MySQL's totals weren't those decided on */
    CAME_BACK_KNOWN_ID, /* an id turned out to be known */
    CAME_BACK_NO_CHAIN, /* decisions of the batch didn't follow from one another */
    CAME_BACK_OTHER,    /* a month was closed, data refused, an event not decided yet */
};

struct batch {
    struct assignment *assignment;
    struct batch_event *events;
    size_t count, capacity;
    size_t bytes; /* of record values */
    struct batch_span *spans;
    size_t span_count, span_capacity;
    size_t *order; /* event indexes by (family, month, index) */
    struct family_group *groups;
    size_t group_count;
    enum came_back came_back;   /* valid while it's being decided again */
    struct event_memory memory; /* what the events point at */
    struct batch_pool *pool;    /* where it goes when it's freed; NULL: nowhere */
    void *sorting;              /* scratch of batch_prepare */
    size_t sorting_capacity;    /* events that order, groups and sorting have room for */
};

/* Batches that wait for their next use, with the memory they have grown. Owned by one thread. */
struct batch_pool {
    struct batch *idle[3]; /* one that fills, one in the settler's hands, one between the two */
    size_t count;
};

struct batch *batch_new(struct assignment *a);
/* The same, out of a pool, to which batch_free gives it back. The pool must outlive it. */
struct batch *batch_take(struct batch_pool *pool, struct assignment *a);
void batch_free(struct batch *b);
/* Releases what is idle. */
void batch_pool_free(struct batch_pool *pool);
/* Adds a record (takes over `msg`) and parses it. Offsets it skips count as gap. */
void batch_add(struct batch *b, struct part *part, rd_kafka_message_t *msg,
               const struct event_limits *limits);
/* Notes that the partition holds no record below `next` that the batch hasn't. */
void batch_advance(struct batch *b, struct part *part, int64_t next);
/* Adds a copy of another batch's event, with its record, which that one has no longer. Spans stay as they
 * are. */
void batch_move(struct batch *b, struct batch_event *from);
/* Links repeated ids and groups the parsed events by family and month. Call once, when it's full. */
void batch_prepare(struct batch *b);
/* The same by a given hash of ids; what two ids have in common by it alone makes them no twins. */
void batch_prepare_hashed(struct batch *b, uint64_t (*hash)(const char *id));

/* Ends an event as rejected. Its next twin takes its place and marks its group
 * dirty, except for an ID_CONFLICT, whose twins are judged by the known row. */
void batch_reject(struct batch *b, size_t i, enum reject_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Ends an event by the row that holds its id: duplicate or ID_CONFLICT. */
void batch_judge_known(struct batch *b, size_t i, int64_t family, int64_t customer, int64_t bytes);
/* Judges the repeated ids, once all first occurrences are decided. */
void batch_judge_twins(struct batch *b);

/* An event that the script decides: parsed, open, the first of its id. */
static inline bool batch_event_live(const struct batch_event *e) {
    return e->parsed && e->outcome == OUTCOME_OPEN && e->twin_of == EVENT_NO_TWIN;
}

/* One whose decision is to be settled. */
static inline bool batch_event_decided(const struct batch_event *e) {
    return batch_event_live(e) && e->decided;
}

/* The trace that the event's record says it belongs to, "" for none: looked for when it's asked for, since
 * few events need it. */
const char *batch_event_trace(const struct batch_event *e, char out[TRACE_PARENT_SIZE]);
/* Its id, for a log line; NULL for none. */
const char *batch_event_trace_id(const struct batch_event *e, char out[TRACE_ID_SIZE]);

/* Whether a family's month is to be warmed and decided (again). */
bool batch_any_dirty(const struct batch *b);

#endif
