/* SPDX-License-Identifier: MIT */
/* Reads a part of a topic that is bounded beforehand, by offsets and by time, and says how far it came. By
 * a handle of kafka_reader_new: belongs to no group and commits nothing.
 *
 *   struct topic_scan s;
 *   if (topic_scan_open(rk, topic, &s, err)) {
 *       topic_scan_newest(&s, 100000);
 *       ok = topic_scan_read(rk, &s, 10000, take, ctx, err);
 *   }
 *   topic_scan_free(&s);
 */
#ifndef TALLYD_TOPIC_SCAN_H
#define TALLYD_TOPIC_SCAN_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct topic_span {
    int32_t partition;
    int64_t low, high; /* what the log held when it was opened: low ≤ offset < high */
    int64_t from, to;  /* what is to be read of it */
    int64_t next;      /* all below it, from `from` on, is read */
    int64_t first_ms;  /* the time of the first record read; -1: none */
};

struct topic_scan {
    const char *topic;        /* borrowed */
    struct topic_span *spans; /* by partition */
    size_t count;
    bool in_order;      /* for the caller to set: one partition after the other, or all at once */
    int64_t silence_ms; /* … without a record or an end for so long the broker counts as silent; 10 s */
    int64_t records;    /* that were read */
    bool timed_out;     /* the time was up before all of it was read */
};

/* The topic's partitions and what they hold; all of it is to be read. Give it to topic_scan_free in any case.
 */
bool topic_scan_open(rd_kafka_t *rk, const char *topic, struct topic_scan *s, struct error *err)
    __attribute__((warn_unused_result));
void topic_scan_free(struct topic_scan *s);

/* The partition's span, or NULL. */
struct topic_span *topic_scan_span(const struct topic_scan *s, int32_t partition);

/* Pure: what is to be read. The newest records, shared out so that a long partition has what a short one
 * leaves. */
void topic_scan_newest(struct topic_scan *s, int64_t records);
/* Of this partition, from ≤ offset < to, as far as the log holds it. */
void topic_scan_bound(struct topic_span *p, int64_t from, int64_t to);
/* Of one partition, from ≤ offset < to, as far as the log holds it; nothing of the others. */
void topic_scan_only(struct topic_scan *s, int32_t partition, int64_t from, int64_t to);
/* Records whose time is at or after it, as the broker finds the first one of each partition. */
bool topic_scan_since(rd_kafka_t *rk, struct topic_scan *s, int64_t time_ms, struct error *err)
    __attribute__((warn_unused_result));

/* Whether all that the log held is read. */
bool topic_scan_is_whole(const struct topic_scan *s);
/* From when on every record is read, -1 where that's the log's beginning or nothing was read. */
int64_t topic_scan_since_ms(const struct topic_scan *s);

/* Called for each record; takes the message over by setting it to NULL. False with an error ends the reading.
 */
typedef bool topic_scan_take(void *ctx, rd_kafka_message_t **msg, struct error *err);

/* Reads it, within so many ms (0: as long as records come). Time that is up is no error. */
bool topic_scan_read(rd_kafka_t *rk, struct topic_scan *s, int64_t within_ms, topic_scan_take *take,
                     void *ctx, struct error *err) __attribute__((warn_unused_result));

#endif
