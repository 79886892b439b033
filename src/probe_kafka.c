/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdlib.h>

#include "kafka.h"
#include "probe_kinds.h"

struct end {
    int32_t id;
    int64_t offset; /* -1: not seen */
};

struct kafka_state {
    /* shared, under `lock` */
    pthread_mutex_t lock;
    struct end *ends; /* owned: of the partitions followed */
    size_t count;
    /* the prober's thread's own */
    const struct config *cfg;
    rd_kafka_t *observer; /* NULL: not made yet */
};

static void *kafka_open(const struct config *cfg) {
    struct kafka_state *s = mem_zero(1, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    s->cfg = cfg;
    return s;
}

/* A handle whose broker doesn't answer may never be destroyed: then it's left as it is. */
static void kafka_close(void *state) {
    struct kafka_state *s = state;
    if (s->observer)
        kafka_destroy(s->observer, s->cfg->health.probe_timeout_ms);
    pthread_mutex_destroy(&s->lock);
    free(s->ends);
    free(s);
}

static const struct end *find_end(const struct kafka_state *s, int32_t id) {
    for (size_t i = 0; i < s->count; i++) {
        if (s->ends[i].id == id)
            return &s->ends[i];
    }
    return NULL;
}

void probe_kafka_follow(void *state, const int32_t *ids, size_t n) {
    struct kafka_state *s = state;
    struct end *ends = mem_zero(n + 1, sizeof *ends);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        const struct end *before = find_end(s, ids[i]);
        ends[i] = (struct end){.id = ids[i], .offset = before ? before->offset : -1};
    }
    free(s->ends);
    s->ends = ends;
    s->count = n;
    pthread_mutex_unlock(&s->lock);
}

int64_t probe_kafka_end(void *state, int32_t id) {
    struct kafka_state *s = state;
    pthread_mutex_lock(&s->lock);
    const struct end *e = find_end(s, id);
    int64_t offset = e ? e->offset : -1;
    pthread_mutex_unlock(&s->lock);
    return offset;
}

/* The partitions followed, each with the wish for its end; NULL: there are none. */
static rd_kafka_topic_partition_list_t *wanted_ends(struct kafka_state *s) {
    rd_kafka_topic_partition_list_t *list = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->count)
        list = rd_kafka_topic_partition_list_new((int)s->count);
    for (size_t i = 0; i < s->count; i++)
        rd_kafka_topic_partition_list_add(list, s->cfg->kafka.usage_topic, s->ends[i].id)->offset =
            RD_KAFKA_OFFSET_END;
    pthread_mutex_unlock(&s->lock);
    return list;
}

static void take_ends(struct kafka_state *s, const rd_kafka_topic_partition_list_t *list) {
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < list->cnt; i++) {
        for (size_t k = 0; k < s->count; k++) {
            if (s->ends[k].id == list->elems[i].partition) /* what is old would look like no lag */
                s->ends[k].offset =
                    list->elems[i].err == RD_KAFKA_RESP_ERR_NO_ERROR ? list->elems[i].offset : -1;
        }
    }
    pthread_mutex_unlock(&s->lock);
}

/* One request a broker: a time of -1 is the log's end in Kafka's protocol. */
static bool ask_ends(struct kafka_state *s, struct error *err) {
    rd_kafka_topic_partition_list_t *list = wanted_ends(s);
    if (!list)
        return true;
    rd_kafka_resp_err_t code =
        rd_kafka_offsets_for_times(s->observer, list, (int)s->cfg->health.probe_timeout_ms);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        take_ends(s, list);
    for (int i = 0; i < list->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        code = list->elems[i].err;
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ||
           kafka_error(code, "the log's ends", s->cfg->kafka.usage_topic, err);
}

static bool ask_topic(struct kafka_state *s, const char *topic, struct error *err) {
    size_t n;
    int32_t *ids = kafka_topic_partitions(s->observer, topic, (int)s->cfg->health.probe_timeout_ms, &n, err);
    free(ids);
    return ids != NULL;
}

static bool kafka_attempt(void *state, struct error *err) {
    struct kafka_state *s = state;
    if (!s->observer && !(s->observer = kafka_observer_new(s->cfg, err)))
        return false;
    rd_kafka_poll(s->observer, 0); /* what it has to say would pile up */
    return ask_topic(s, s->cfg->kafka.usage_topic, err) &&
           ask_topic(s, s->cfg->kafka.notification_topic, err) &&
           ask_topic(s, s->cfg->kafka.dlt_topic, err) && ask_ends(s, err);
}

const struct probe_kind probe_kafka = {"kafka", "probe_kafka", kafka_open, kafka_attempt, kafka_close};
