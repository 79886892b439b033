/* SPDX-License-Identifier: MIT */
/* Kafka handles made from the configuration, and the classifier of their errors. */
#ifndef TALLYD_KAFKA_H
#define TALLYD_KAFKA_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

#include "clock.h"
#include "config.h"
#include "error.h"

typedef void kafka_rebalance_fn(rd_kafka_t *rk, rd_kafka_resp_err_t code,
                                rd_kafka_topic_partition_list_t *parts, void *opaque);
typedef void kafka_delivery_fn(rd_kafka_t *rk, const rd_kafka_message_t *msg, void *opaque);

/* Whether Kafka's client takes kafka.properties, alone and together, and none of them is one that tallyd
 * must own. Connects to nothing. Errors name file and line; making a handle gives the same ones, but later.
 */
bool kafka_properties_check(const struct config *cfg, struct error *err) __attribute__((warn_unused_result));

/* A member of the group, not yet subscribed: offsets are stored by hand and
 * committed automatically; the group protocol is range,roundrobin; an offset
 * out of range is reported, never reset in silence. `opaque` is handed to
 * `rebalance`. NULL with an error when the configuration can't be used. */
rd_kafka_t *kafka_consumer_new(const struct config *cfg, kafka_rebalance_fn *rebalance, void *opaque,
                               struct error *err) __attribute__((warn_unused_result));

/* A handle for questions only (watermarks, committed offsets); joins nothing. */
rd_kafka_t *kafka_observer_new(const struct config *cfg, struct error *err)
    __attribute__((warn_unused_result));

/* A handle that reads partitions assigned to it by hand, from wherever it's told, and reports their ends;
 * joins nothing and commits nothing. Where the log begins later than asked it begins there. */
rd_kafka_t *kafka_reader_new(const struct config *cfg, struct error *err) __attribute__((warn_unused_result));

/* A reader without group for a record here and there (rd_kafka_consume_start). */
rd_kafka_t *kafka_peeker_new(const struct config *cfg, struct error *err) __attribute__((warn_unused_result));

/* An idempotent producer, acks=all, Java's partitioning. */
rd_kafka_t *kafka_producer_new(const struct config *cfg, kafka_delivery_fn *delivered, void *opaque,
                               struct error *err) __attribute__((warn_unused_result));

/* Records what a code means to the caller: RETRY for whatever a broker or network
 * may get over, REJECT where this very record can't be taken (too large, invalid),
 * STOP where somebody has to look (authorization, configuration). Returns false. */
bool kafka_error(rd_kafka_resp_err_t code, const char *what, const char *detail, struct error *err);

/* Asks the broker for a topic beforehand: a producer's first record to it would
 * otherwise wait about a second on a timer. What goes wrong shows when producing. */
void kafka_topic_prefetch(rd_kafka_t *rk, const char *topic);

/* Destroys a handle, which waits for whatever the client still holds: for ever with a broker that doesn't
 * answer, or where the client has lost count (seen, rarely, with a topic made anew under a reader). False:
 * that took longer, and it's left as it is, with a line in the log. */
bool kafka_destroy(rd_kafka_t *rk, int64_t deadline_ms);

/* Closes a consumer without waiting for ever: leaves the group and destroys the
 * handle if the broker answers within the deadline. If not the handle is left as
 * it is: this is for a process that ends. Messages and lists must be freed before. */
void kafka_consumer_close(rd_kafka_t *rk, int64_t deadline_ms);

/* The partitions a topic has now: a new array of `*n` ids, freed by the caller,
 * or NULL with an error, also when there is no such topic. */
int32_t *kafka_topic_partitions(rd_kafka_t *rk, const char *topic, int timeout_ms, size_t *n,
                                struct error *err) __attribute__((warn_unused_result));

#endif
