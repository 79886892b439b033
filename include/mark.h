/* SPDX-License-Identifier: MIT */
/* A mark: what a record is known again by. Kafka tells a topic that was made
 * anew from the one before by an id that its client doesn't hand on, so the
 * ledger keeps each partition's last record's mark, and a claim compares. */
#ifndef TALLYD_MARK_H
#define TALLYD_MARK_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"

struct mark {
    int64_t offset; /* -1: there is none */
    int64_t timestamp_ms;
    int64_t checksum; /* of key and value */
};

#define MARK_NONE ((struct mark){.offset = -1})

struct mark mark_of(const rd_kafka_message_t *msg);

enum mark_found {
    MARK_UNJUDGED, /* the log doesn't hold that record any more (retention, compaction) */
    MARK_SAME,
    MARK_DIFFERS,
};

struct mark_look {
    int32_t partition;
    struct mark mark;
    enum mark_found found;
};

/* Reads the marked records from the usage topic, all partitions at once, by a
 * client of its own that joins nothing, and fills in what was found. False with
 * an error when that took over `timeout_ms`. */
bool mark_look_up(const struct config *cfg, struct mark_look *looks, size_t n, int64_t timeout_ms,
                  struct error *err) __attribute__((warn_unused_result));

#endif
