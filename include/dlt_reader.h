/* SPDX-License-Identifier: MIT */
/* Reads the dead letter topic as a stream, a partition after the other, up to where it reached at the
 * beginning: what is rejected meanwhile isn't seen. Joins no group and commits nothing. */
#ifndef TALLYD_DLT_READER_H
#define TALLYD_DLT_READER_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"

#define DLT_MESSAGE_MAX 512 /* of x-error-message (CONTRACT §1.2) */
#define DLT_CODE_MAX 64
#define DLT_TOPIC_MAX 249

/* Which records; all bounds hold at once. */
struct dlt_selection {
    const char *code;       /* NULL: any */
    int64_t since_ms;       /* the record's time: not before this */
    int64_t until_ms;       /* and before this */
    int32_t partition;      /* of the DLT; -1: all */
    int64_t first, last;    /* offsets in each, both included */
    int32_t from_partition; /* partitions before this one are left out, */
    int64_t from_offset;    /* and of it what lies before this */
};
/* Everything. */
struct dlt_selection dlt_selection_all(void);

struct dlt_record {
    int32_t partition; /* where it lies in the DLT */
    int64_t offset;
    int64_t time_ms; /* the original record's; -1: none */
    char code[DLT_CODE_MAX + 1];
    char message[DLT_MESSAGE_MAX + 1];
    char topic[DLT_TOPIC_MAX + 1];               /* where it came from; "" not known */
    int64_t original_partition, original_offset; /* -1: not known */
    bool cut;                                    /* only its beginning is there */
};

/* What its headers and its place say. */
void dlt_record_read(const rd_kafka_message_t *msg, struct dlt_record *r);

/* Called for each record; takes the message over by setting it to NULL. False with an error ends the reading.
 */
typedef bool dlt_take_fn(void *ctx, rd_kafka_message_t **msg, const struct dlt_record *r, struct error *err);

/* `rk` is a kafka_reader_new handle. A partition that is asked for and isn't there is an error. */
bool dlt_read(rd_kafka_t *rk, const struct config *cfg, const struct dlt_selection *sel, dlt_take_fn *take,
              void *ctx, struct error *err) __attribute__((warn_unused_result));

#endif
