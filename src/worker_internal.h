/* SPDX-License-Identifier: MIT */
/* What worker.c (the thread, the group) and pipeline.c (deciding, handing over) share. */
#ifndef TALLYD_WORKER_INTERNAL_H
#define TALLYD_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "batch.h"
#include "decide.h"
#include "kafka.h"
#include "mysql_db.h"
#include "redis.h"
#include "settler.h"
#include "warm.h"
#include "worker.h"

struct worker {
    /* any thread */
    atomic_bool stopping;
    atomic_llong stop_deadline_ms, close_deadline_ms;
    /* shared, under `lock` */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct assignment *assignment; /* written by the worker only, so it reads without the lock; NULL: none, or
                                      not open yet */
    struct worker_status status;
    bool done;
    /* the thread's own */
    struct worker_shared shared;
    const struct config *cfg; /* shared.cfg */
    int number;
    pthread_t thread;
    rd_kafka_t *consumer;
    rd_kafka_queue_t *polled; /* what polling it waits at; NULL: not open */
    struct redis *redis;
    struct db *db; /* REPEATABLE READ: look-ups, warming, claims */
    struct decider *decider;
    struct warmer *warmer;
    struct settler *settler;
    int32_t *given; /* partitions the group gave us */
    size_t given_count;
    bool to_open; /* they are to be claimed in the ledger before any is read */
    int64_t next_open_ms;
    bool paused;              /* the assignment's partitions are held, all of them: something is waited for */
    bool hold_refused;        /* the client didn't take all of what it was last told of that */
    int64_t pauses_looked_ms; /* what an operator paused was taken over as it stood then */
    struct batch_pool batches;
    rd_kafka_message_t **carried; /* came while paused; taken first */
    size_t carried_count, carried_capacity;
    struct batch
        *hand; /* the batch being decided, for voiding decisions when the one in flight is decided again */
    int64_t next_report_ms;
    bool heard;                     /* a record came since the silence was last put off */
    int64_t next_watch_ms;          /* when the silence is looked into */
    bool kafka_away, kafka_refuses; /* what was found then */
};

/* Whether waiting is over: told to stop and past the deadline. */
bool worker_out_of_time(const struct worker *w);
/* Keeps the member in the group while something is waited for: pauses reading
 * and polls, for about `ms`. Rebalances happen in here. */
void worker_keep_alive(struct worker *w, int64_t ms);
/* Resumes what worker_keep_alive paused, but for what an operator did. */
void worker_resume(struct worker *w);
/* After SETTLER_DONE: stores the batch's offsets, if the assignment still stands. */
void worker_store_offsets(struct worker *w, struct batch *b);
/* After SETTLER_FENCED: gives everything up and joins the group again. */
void worker_rejoin(struct worker *w);
/* Logs, once a period, what is waited for. */
void worker_report(struct worker *w, const char *event, const struct error *err);

/* Decides a full batch and hands it over, after the one in flight came back
 * settled. Takes the batch. When the assignment is lost or time is up it's dropped. */
void pipeline_process(struct worker *w, struct batch *b);
/* Takes a finished batch from the settler, if there is one, and deals with its
 * result; waits up to `wait_ms` for it. True when the settler's slot is empty. */
bool pipeline_collect(struct worker *w, int64_t wait_ms);
/* Frees a batch that won't be settled here. Its records go to whoever has the
 * partition now, and may have been settled there before they were decided here: a
 * woken process doesn't know how long it slept. Then nobody's settlement would
 * notice what that left in Redis until the family's next event, so its families are made cold. */
void pipeline_drop(struct worker *w, struct batch *b);
/* Waits until the slot is empty, whatever it takes, keeping the member alive. */
void pipeline_drain(struct worker *w);

#endif
