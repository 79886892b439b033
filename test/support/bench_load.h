/* SPDX-License-Identifier: MIT */
/* Produces the simulator's events one by one, and knows of each when it was
 * handed to the producer and where it lies. One thread. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <librdkafka/rdkafka.h>

#include "bench.h"
#include "simulate.h"

struct bench_sent {
    int64_t at_ns, acked_ns;
    uint64_t id; /* the eventId by its hash: a repeat has that of an earlier one */
    int64_t offset;
    int32_t partition; /* -1: not acknowledged */
};

struct bench_load {
    const struct config *cfg; /* borrowed */
    struct simulation *simulation;
    struct simulate_event event;
    rd_kafka_t *producer;
    rd_kafka_topic_t *topic;
    struct bench_sent *sent;
    size_t count, capacity, acked;
    rd_kafka_resp_err_t failure;
};

/* None of the events is to be rejected. `rate` 0: always due. */
bool bench_load_open(struct bench_load *l, const struct config *cfg, const struct bench_options *o,
                     double rate, struct error *err) __attribute__((warn_unused_result));
void bench_load_close(struct bench_load *l);
/* Makes and sends the next event. */
bool bench_load_send(struct bench_load *l, struct error *err) __attribute__((warn_unused_result));
/* Waits until everything sent is acknowledged. */
bool bench_load_flush(struct bench_load *l, struct error *err) __attribute__((warn_unused_result));

#endif
