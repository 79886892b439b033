/* SPDX-License-Identifier: MIT */
#include "bench_listen.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "kafka.h"

#define ASK_TIMEOUT_MS 10000
#define POLL_MS 50
#define CLOSE_MS 5000

struct bench_listen {
    /* any thread */
    atomic_bool stopping;
    /* shared, under `lock` */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct bench_heard *heard;
    size_t count, capacity;
    size_t at_end; /* partitions whose end was reached */
    struct error failure;
    /* the thread's own */
    const struct config *cfg;
    rd_kafka_t *reader;
    size_t parts;
    struct bench_set ids;
    pthread_t thread;
    bool running;
};

/* The envelope's bytes are known up to the id (CONTRACT §1.3), which is ASCII without quotes but for escaped
 * ones. */
static bool envelope_id(const rd_kafka_message_t *m, uint64_t *id) {
    static const char head[] = "{\"eventId\":\"";
    const char *value = m->payload, *from = value + sizeof head - 1;
    if (m->len < sizeof head || memcmp(value, head, sizeof head - 1) != 0)
        return false;
    const char *quote = memchr(from, '"', m->len - (sizeof head - 1));
    if (!quote)
        return false;
    *id = bench_hash(from, (size_t)(quote - from));
    return true;
}

static void hear(struct bench_listen *l, const rd_kafka_message_t *m, int64_t now) {
    uint64_t id;
    if (!envelope_id(m, &id) || !bench_set_add(&l->ids, id))
        return;
    if (l->count == l->capacity) {
        l->capacity = l->capacity ? l->capacity * 2 : 1024;
        l->heard = mem_realloc(l->heard, l->capacity * sizeof *l->heard);
    }
    l->heard[l->count++] = (struct bench_heard){.id = id, .at_ns = now};
}

static void take(struct bench_listen *l, const rd_kafka_message_t *m) {
    int64_t now = bench_clock_ns();
    pthread_mutex_lock(&l->lock);
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        hear(l, m, now);
    else if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        l->at_end++; /* counts only until each was reached once, when nothing is produced yet */
    else
        kafka_error(m->err, "consume", rd_kafka_message_errstr(m), &l->failure);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

static void *listen_main(void *arg) {
    struct bench_listen *l = arg;
    while (!atomic_load(&l->stopping)) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(l->reader, POLL_MS);
        if (m) {
            take(l, m);
            rd_kafka_message_destroy(m);
        }
    }
    return NULL;
}

static bool assign_ends(struct bench_listen *l, struct error *err) {
    const char *topic = l->cfg->kafka.notification_topic;
    int32_t *ids = kafka_topic_partitions(l->reader, topic, ASK_TIMEOUT_MS, &l->parts, err);
    if (!ids)
        return false;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)l->parts);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (size_t i = 0; code == RD_KAFKA_RESP_ERR_NO_ERROR && i < l->parts; i++) {
        int64_t low, high;
        code = rd_kafka_query_watermark_offsets(l->reader, topic, ids[i], &low, &high, ASK_TIMEOUT_MS);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            rd_kafka_topic_partition_list_add(list, topic, ids[i])->offset = high;
    }
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code = rd_kafka_assign(l->reader, list);
    rd_kafka_topic_partition_list_destroy(list);
    free(ids);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "read", topic, err);
}

/* Waits for `*value` to become `goal`, both of the shared part. */
static bool await(struct bench_listen *l, const size_t *value, size_t goal, int64_t deadline_ms,
                  struct error *err) {
    struct timespec until = clock_timespec(deadline_ms);
    pthread_mutex_lock(&l->lock);
    while (*value < goal && l->failure.area == ERROR_NONE &&
           pthread_cond_timedwait(&l->changed, &l->lock, &until) == 0)
        ;
    size_t found = *value;
    if (l->failure.area != ERROR_NONE)
        *err = l->failure;
    pthread_mutex_unlock(&l->lock);
    if (err->area != ERROR_NONE)
        return false;
    return found >= goal ||
           bench_error(err, "%s: %zu of %zu came in time", l->cfg->kafka.notification_topic, found, goal);
}

struct bench_listen *bench_listen_start(const struct config *cfg, struct error *err) {
    struct bench_listen *l = mem_zero(1, sizeof *l);
    atomic_init(&l->stopping, false);
    pthread_mutex_init(&l->lock, NULL);
    clock_cond_init(&l->changed);
    l->cfg = cfg;
    l->reader = kafka_reader_new(cfg, err);
    if (l->reader && assign_ends(l, err)) {
        l->running = pthread_create(&l->thread, NULL, listen_main, l) == 0;
        if (!l->running)
            bench_error(err, "there is no thread to be had");
    }
    if (l->running && await(l, &l->at_end, l->parts, clock_monotonic_ms() + ASK_TIMEOUT_MS, err))
        return l;
    bench_listen_free(l);
    return NULL;
}

bool bench_listen_await(struct bench_listen *l, size_t count, int64_t deadline_ms, struct error *err) {
    return await(l, &l->count, count, deadline_ms, err);
}

const struct bench_heard *bench_listen_stop(struct bench_listen *l, size_t *count) {
    if (l->running) {
        atomic_store(&l->stopping, true);
        pthread_join(l->thread, NULL);
        l->running = false;
    }
    *count = l->count;
    return l->heard;
}

void bench_listen_free(struct bench_listen *l) {
    size_t count;
    if (!l)
        return;
    bench_listen_stop(l, &count);
    if (l->reader)
        kafka_consumer_close(l->reader, CLOSE_MS);
    bench_set_free(&l->ids);
    free(l->heard);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
