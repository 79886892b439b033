/* SPDX-License-Identifier: MIT */
/* Sends rejected records again: to the topic they came from, with key, value, remaining headers and the
 * original time (CONTRACT §1.2). A record counts as sent once the brokers have acknowledged it. */
#ifndef TALLYD_REDRIVE_H
#define TALLYD_REDRIVE_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "dlt_reader.h"
#include "error.h"

/* Why a record can't go at all; NULL: it can. */
const char *redrive_obstacle(const struct dlt_record *r, const char *topic);

/* Called for each record that the brokers refuse for good. */
typedef void redrive_refused_fn(void *ctx, int32_t partition, int64_t offset, const char *why);

struct redrive;

/* NULL with an error when there is no producer. `topic` is borrowed. */
struct redrive *redrive_new(const struct config *cfg, const char *topic, redrive_refused_fn *refused,
                            void *ctx, struct error *err) __attribute__((warn_unused_result));
/* Takes the message over; sends when enough is gathered. False with an error: the brokers are away, see
 * redrive_position. */
bool redrive_add(struct redrive *r, rd_kafka_message_t *msg, int64_t time_ms, struct error *err)
    __attribute__((warn_unused_result));
/* Sends what is gathered. */
bool redrive_flush(struct redrive *r, struct error *err) __attribute__((warn_unused_result));
int64_t redrive_sent(const struct redrive *r);
int64_t redrive_refused(const struct redrive *r);
/* Where one that was given up goes on: the first record that wasn't acknowledged, or behind the last one that
 * was; false: nothing was gathered yet. */
bool redrive_position(const struct redrive *r, int32_t *partition, int64_t *offset);
void redrive_free(struct redrive *r);

#endif
