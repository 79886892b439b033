/* SPDX-License-Identifier: MIT */
/* The consumer group and its topic as Kafka has them: for commands; joins nothing. */
#ifndef TALLYD_GROUP_H
#define TALLYD_GROUP_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"

struct group_member {
    char *client_id, *host; /* owned; text from outside */
    size_t partitions;      /* of the usage topic */
};

struct group_partition {
    int32_t id;
    int64_t low, high; /* the log's start and end */
    int64_t committed; /* -1: nothing is */
    int member;        /* index into members; -1: nobody has it */
};

struct group {
    const char *state; /* "Stable", "Empty", "Dead" (there is no such group), …; the client library's */
    bool active;       /* it has members, or is about to have some */
    struct group_member *members;
    size_t member_count;
    struct group_partition *partitions; /* by id */
    size_t partition_count;
};

/* Asks for everything of the configured group and topic. On success, and only then, the caller calls
 * group_free. `rk` belongs to any group or none. */
bool group_read(rd_kafka_t *rk, const struct config *cfg, struct group *g, struct error *err)
    __attribute__((warn_unused_result));
/* Asks for the logs' ends again: what is read between the two, of a running group, may lie beyond the first.
 */
bool group_renew_ends(rd_kafka_t *rk, const struct config *cfg, struct group *g, struct error *err)
    __attribute__((warn_unused_result));
void group_free(struct group *g);
struct group_partition *group_partition(struct group *g, int32_t id);

/* The first offset of each partition whose record's timestamp is at or after the instant; the log's end where
 * there is none. As many as there are partitions, into `offsets`. */
bool group_offsets_at(rd_kafka_t *rk, const struct config *cfg, const struct group *g, int64_t t_ms,
                      int64_t *offsets, struct error *err) __attribute__((warn_unused_result));

/* Sets the group's committed offsets. The broker refuses it while the group has members. */
bool group_commit(rd_kafka_t *rk, const struct config *cfg, const int32_t *ids, const int64_t *offsets,
                  size_t n, struct error *err) __attribute__((warn_unused_result));

/* Where the error is that of a right that is missing, says which one is needed, on the configured group or
 * topic: what Kafka answers names neither. Other errors stay as they are. Returns false. */
bool group_name_right(const struct config *cfg, const char *right, struct error *err);

#endif
