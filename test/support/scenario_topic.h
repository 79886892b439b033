/* SPDX-License-Identifier: MIT */
/* Kafka for the scenario tool: topics made, filled and read to their end, and
 * a group's committed offsets looked at and moved. */
#ifndef SCENARIO_TOPIC_H
#define SCENARIO_TOPIC_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sc_header {
    char *name;
    char *value; /* NULL: a header without value */
    size_t len;
};

struct sc_record {
    int32_t partition;
    int64_t offset;
    int64_t timestamp_ms;
    bool create_time; /* the timestamp is the producer's */
    char *key;        /* NULL: none */
    size_t key_len;
    char *value; /* NULL: a tombstone */
    size_t value_len;
    struct sc_header *headers;
    size_t header_count;
};

struct sc_records {
    struct sc_record *items; /* by partition, then offset */
    size_t count;
};

/* One record to produce, and where it went. */
struct sc_outgoing {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
    int64_t timestamp_ms;
    rd_kafka_headers_t *headers; /* owned; taken when it's sent */
    int32_t partition;           /* out */
    int64_t offset;              /* out */
    bool delivered;              /* out */
};

/* Makes a topic that keeps and takes records of any time. A broker that can't
 * create topics (librdkafka's mock cluster makes them when they're first used)
 * is tolerated when `kind` starts with "mock". */
void sc_topic_create(const char *name, int partitions, const char *kind);
/* How many partitions it has. */
int sc_topic_partitions(const char *name);
/* The end of each of its `count` partitions. */
void sc_topic_ends(const char *name, int count, int64_t *ends);
/* Produces in order, idempotently, waits for every ack, and fills in the places. */
void sc_topic_produce(const char *name, struct sc_outgoing *items, size_t count);
/* All records from the beginning to the end it has now. */
struct sc_records sc_topic_read(const char *name);
void sc_records_free(struct sc_records *records);
/* The record's header of that name: the only one, or NULL. */
const struct sc_header *sc_record_header(const struct sc_record *record, const char *name);

/* The offsets a group has committed in a topic's partitions; -1 where it has none. */
void sc_group_committed(const char *group, const char *name, int count, int64_t *offsets);
/* Commits offset 0 for all of them; the group must be empty. */
void sc_group_rewind(const char *group, const char *name, int count);

#endif
