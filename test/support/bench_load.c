/* SPDX-License-Identifier: MIT */
#include "bench_load.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "kafka.h"

#define ASK_TIMEOUT_MS 10000
#define REPEATS 0.02 /* as `tallyd simulate` has it by default */
#define LATE 0.02

static void on_delivered(rd_kafka_t *rk, const rd_kafka_message_t *msg, void *opaque) {
    struct bench_load *l = opaque;
    (void)rk;
    if (msg->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        l->failure = msg->err;
        return;
    }
    struct bench_sent *s = &l->sent[(uintptr_t)msg->_private];
    s->partition = msg->partition;
    s->offset = msg->offset;
    s->acked_ns = bench_clock_ns();
    l->acked++;
}

static int64_t wall_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool bench_load_open(struct bench_load *l, const struct config *cfg, const struct bench_options *o,
                     double rate, struct error *err) {
    const struct simulate_options simulated = {.seed = (uint64_t)o->seed,
                                               .families = (uint32_t)o->families,
                                               .rate = rate,
                                               .pattern = SIMULATE_CONSTANT,
                                               .duplicates = REPEATS,
                                               .late = LATE,
                                               .start_ms = wall_ms(),
                                               .max_future_ms = cfg->event.max_future_ms,
                                               .max_past_months = (int)cfg->event.max_past_months};
    *l = (struct bench_load){.cfg = cfg, .simulation = simulation_new(&simulated)};
    size_t partitions;
    const char *topic = cfg->kafka.usage_topic;
    l->producer = kafka_producer_new(cfg, on_delivered, l, err);
    int32_t *ids =
        l->producer ? kafka_topic_partitions(l->producer, topic, ASK_TIMEOUT_MS, &partitions, err) : NULL;
    if (!ids)
        return false;
    free(ids);
    l->topic = rd_kafka_topic_new(l->producer, topic, NULL);
    return l->topic != NULL || kafka_error(rd_kafka_last_error(), "topic", topic, err);
}

void bench_load_close(struct bench_load *l) {
    if (l->topic)
        rd_kafka_topic_destroy(l->topic);
    if (l->producer)
        rd_kafka_destroy(l->producer);
    simulation_free(l->simulation);
    buf_free(&l->event.value);
    free(l->sent);
    *l = (struct bench_load){0};
}

/* The simulator's events begin with their id. */
static uint64_t id_of(const struct buf *value) {
    const char *from = value->data + strlen("{\"eventId\":\"");
    return bench_hash(from, strcspn(from, "\""));
}

static bool failed(const struct bench_load *l, struct error *err) {
    return l->failure != RD_KAFKA_RESP_ERR_NO_ERROR &&
           !kafka_error(l->failure, "produce", l->cfg->kafka.usage_topic, err);
}

bool bench_load_send(struct bench_load *l, struct error *err) {
    const struct simulate_event *e = &l->event;
    rd_kafka_resp_err_t code;
    simulation_next(l->simulation, wall_ms(), &l->event);
    if (l->count == l->capacity) {
        l->capacity = l->capacity ? l->capacity * 2 : 4096;
        l->sent = mem_realloc(l->sent, l->capacity * sizeof *l->sent);
    }
    struct bench_sent *s = &l->sent[l->count];
    *s = (struct bench_sent){.id = id_of(&e->value), .offset = -1, .partition = -1};
    do {
        s->at_ns = bench_clock_ns();
        code = rd_kafka_producev(l->producer, RD_KAFKA_V_RKT(l->topic), RD_KAFKA_V_KEY(e->key, e->key_len),
                                 RD_KAFKA_V_VALUE(e->value.data, e->value.len),
                                 RD_KAFKA_V_TIMESTAMP(e->now_ms), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                 RD_KAFKA_V_OPAQUE((void *)l->count), RD_KAFKA_V_END);
        rd_kafka_poll(l->producer, code == RD_KAFKA_RESP_ERR__QUEUE_FULL ? 1 : 0);
    } while (code == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_error(code, "produce", l->cfg->kafka.usage_topic, err);
    l->count++;
    return !failed(l, err);
}

bool bench_load_flush(struct bench_load *l, struct error *err) {
    int64_t until = clock_monotonic_ms() + l->cfg->kafka.message_timeout_ms + 5000;
    while (l->acked < l->count && l->failure == RD_KAFKA_RESP_ERR_NO_ERROR && clock_monotonic_ms() < until)
        rd_kafka_poll(l->producer, 10);
    return !failed(l, err) &&
           (l->acked == l->count || bench_error(err, "%s: %zu of %zu records were not acknowledged",
                                                l->cfg->kafka.usage_topic, l->count - l->acked, l->count));
}
