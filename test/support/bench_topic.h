/* SPDX-License-Identifier: MIT */
/* The usage topic from its beginning to the end it had when it was opened, read
 * as a worker reads it, but by nobody's group; and its records in batches. */
#ifndef BENCH_TOPIC_H
#define BENCH_TOPIC_H

#include <librdkafka/rdkafka.h>

#include "batch.h"
#include "bench.h"

struct bench_topic {
    const struct config *cfg; /* borrowed; of a group of its own */
    rd_kafka_t *consumer;
    size_t count;
    struct bench_part {
        int32_t id;
        int64_t next, end;
    } * parts;
};

bool bench_topic_open(struct bench_topic *t, const struct config *cfg, struct error *err)
    __attribute__((warn_unused_result));
void bench_topic_close(struct bench_topic *t);
/* A new assignment of all its partitions, from where they are read. */
struct assignment *bench_topic_assignment(const struct bench_topic *t);

/* Between these two records come. What was fetched and not taken comes again after the next resume. */
bool bench_topic_resume(struct bench_topic *t, struct error *err) __attribute__((warn_unused_result));
void bench_topic_pause(struct bench_topic *t);
/* The next record, the caller's. NULL at the end of all partitions, or with an error. */
rd_kafka_message_t *bench_topic_next(struct bench_topic *t, struct error *err);

/* Some batches read beforehand: what is measured of them mustn't wait for Kafka. */
struct bench_slice {
    struct batch **batches;
    size_t count, capacity;
};

/* Told of each event as it's added, before repeats are linked. */
typedef void bench_added_fn(void *ctx, struct batch_event *e);
/* Fills full batches until they hold about `records`, or `*left` (counted down) is 0, or at the topic's end,
 * and prepares them. The assignment's parts are advanced. `added` may be NULL. */
bool bench_slice_read(struct bench_slice *s, struct bench_topic *t, struct assignment *a,
                      const struct event_limits *limits, int64_t records, int64_t *left,
                      bench_added_fn *added, void *ctx, struct error *err)
    __attribute__((warn_unused_result));
/* Frees the batches; the slice is empty. */
void bench_slice_clear(struct bench_slice *s);
void bench_slice_free(struct bench_slice *s);
/* Whether a batch holds what the configuration lets it hold. */
bool bench_batch_full(const struct config *cfg, const struct batch *b);

#endif
