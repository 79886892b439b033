/* SPDX-License-Identifier: MIT */
#include "mark.h"

#include <stdlib.h>

#include "buf.h"
#include "digest.h"
#include "heartbeat.h"
#include "kafka.h"

/* Length and bytes, so that what ends one can't begin the other. */
static uint64_t add_part(uint64_t sum, const void *data, size_t len) {
    return digest_bytes(digest_number(sum, len), data, len);
}

struct mark mark_of(const rd_kafka_message_t *msg) {
    rd_kafka_timestamp_type_t type;
    uint64_t sum = add_part(DIGEST_START, msg->key, msg->key_len);
    sum = add_part(sum, msg->payload, msg->len);
    return (struct mark){.offset = msg->offset,
                         .timestamp_ms = rd_kafka_message_timestamp(msg, &type),
                         .checksum = (int64_t)sum};
}

static struct mark_look *look_at(struct mark_look *looks, size_t n, int32_t partition) {
    for (size_t i = 0; i < n; i++) {
        if (looks[i].partition == partition)
            return &looks[i];
    }
    return NULL;
}

/* Whether the message settles the matter for its partition; `trouble` is why it doesn't. */
static bool judge(struct mark_look *look, const rd_kafka_message_t *m, rd_kafka_resp_err_t *trouble) {
    switch (m->err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        if (m->offset < look->mark.offset)
            return false; /* it came in one compressed piece with the one asked for */
        struct mark found = mark_of(m);
        if (found.offset == look->mark.offset)
            look->found =
                found.timestamp_ms == look->mark.timestamp_ms && found.checksum == look->mark.checksum
                    ? MARK_SAME
                    : MARK_DIFFERS;
        return true;
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET: /* taken away since the log's bounds were asked for */
        return true;
    default:
        *trouble = m->err;
        return false;
    }
}

/* Stops reading a partition as soon as it's judged. Returns how many aren't. */
static size_t judge_all(rd_kafka_topic_t *topic, rd_kafka_queue_t *queue, struct mark_look *looks, size_t n,
                        int64_t until_ms, rd_kafka_resp_err_t *trouble) {
    bool *judged = mem_zero(n, sizeof *judged);
    size_t left = n;
    while (left && clock_monotonic_ms() < until_ms) {
        heartbeat_beat();
        rd_kafka_message_t *m = rd_kafka_consume_queue(queue, 20);
        struct mark_look *look = m ? look_at(looks, n, m->partition) : NULL;
        if (look && !judged[look - looks] && judge(look, m, trouble)) {
            judged[look - looks] = true;
            left--;
            rd_kafka_consume_stop(topic, look->partition);
        }
        if (m)
            rd_kafka_message_destroy(m);
    }
    for (size_t i = 0; i < n; i++) {
        if (!judged[i])
            rd_kafka_consume_stop(topic, looks[i].partition);
    }
    free(judged);
    return left;
}

bool mark_look_up(const struct config *cfg, struct mark_look *looks, size_t n, int64_t timeout_ms,
                  struct error *err) {
    int64_t until = clock_monotonic_ms() + timeout_ms;
    rd_kafka_resp_err_t trouble = RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (n == 0)
        return true;
    rd_kafka_t *rk = kafka_peeker_new(cfg, err);
    if (!rk)
        return false;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, cfg->kafka.usage_topic, NULL);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    size_t started = 0;
    while (topic && started < n &&
           rd_kafka_consume_start_queue(topic, looks[started].partition, looks[started].mark.offset, queue) ==
               0)
        looks[started++].found = MARK_UNJUDGED;
    if (started < n) {
        trouble = rd_kafka_last_error();
        until = 0;
    }
    size_t unjudged = n - started + judge_all(topic, queue, looks, started, until, &trouble);
    rd_kafka_queue_destroy(queue);
    if (topic)
        rd_kafka_topic_destroy(topic);
    kafka_destroy(rk, timeout_ms);
    return unjudged == 0 || kafka_error(trouble, "the last settled record", cfg->kafka.usage_topic, err);
}
