/* SPDX-License-Identifier: MIT */
#include "bench_topic.h"

#include <stdlib.h>

#include "buf.h"
#include "clock.h"
#include "kafka.h"

#define ASK_TIMEOUT_MS 10000
#define SILENCE_MS 30000
#define CLOSE_MS 5000

static bool ask_bounds(struct bench_topic *t, struct error *err) {
    const char *topic = t->cfg->kafka.usage_topic;
    int32_t *ids = kafka_topic_partitions(t->consumer, topic, ASK_TIMEOUT_MS, &t->count, err);
    if (!ids)
        return false;
    t->parts = mem_zero(t->count, sizeof *t->parts);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (size_t i = 0; code == RD_KAFKA_RESP_ERR_NO_ERROR && i < t->count; i++) {
        struct bench_part *p = &t->parts[i];
        p->id = ids[i];
        code = rd_kafka_query_watermark_offsets(t->consumer, topic, p->id, &p->next, &p->end, ASK_TIMEOUT_MS);
    }
    free(ids);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "watermarks", topic, err);
}

bool bench_topic_open(struct bench_topic *t, const struct config *cfg, struct error *err) {
    *t = (struct bench_topic){.cfg = cfg};
    t->consumer = kafka_consumer_new(cfg, NULL, NULL, err);
    return t->consumer && ask_bounds(t, err);
}

void bench_topic_close(struct bench_topic *t) {
    if (t->consumer)
        kafka_consumer_close(t->consumer, CLOSE_MS);
    free(t->parts);
    *t = (struct bench_topic){0};
}

struct assignment *bench_topic_assignment(const struct bench_topic *t) {
    struct assignment *a = assignment_new(1, t->count);
    for (size_t i = 0; i < t->count; i++) {
        a->parts[i].id = t->parts[i].id;
        a->parts[i].position = t->parts[i].next;
    }
    return a;
}

bool bench_topic_resume(struct bench_topic *t, struct error *err) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)t->count);
    for (size_t i = 0; i < t->count; i++) {
        if (t->parts[i].next < t->parts[i].end)
            rd_kafka_topic_partition_list_add(list, t->cfg->kafka.usage_topic, t->parts[i].id)->offset =
                t->parts[i].next;
    }
    rd_kafka_resp_err_t code = rd_kafka_assign(t->consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "assign", NULL, err);
}

void bench_topic_pause(struct bench_topic *t) {
    rd_kafka_assign(t->consumer, NULL);
}

static bool at_end(const struct bench_topic *t) {
    for (size_t i = 0; i < t->count; i++) {
        if (t->parts[i].next < t->parts[i].end)
            return false;
    }
    return true;
}

static struct bench_part *find_part(struct bench_topic *t, int32_t id) {
    for (size_t i = 0; i < t->count; i++) {
        if (t->parts[i].id == id)
            return &t->parts[i];
    }
    return NULL;
}

/* Whether it's a record to hand on; notes how far its partition is read. */
static bool take(struct bench_topic *t, const rd_kafka_message_t *m, struct error *err) {
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR && m->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
        return kafka_error(m->err, "consume", rd_kafka_message_errstr(m), err);
    struct bench_part *p = find_part(t, m->partition);
    if (!p || m->offset < p->next)
        return false;
    bool record = m->err == RD_KAFKA_RESP_ERR_NO_ERROR && m->offset < p->end;
    p->next = m->offset + (m->err == RD_KAFKA_RESP_ERR_NO_ERROR);
    return record;
}

rd_kafka_message_t *bench_topic_next(struct bench_topic *t, struct error *err) {
    int64_t until = 0;
    while (!at_end(t)) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(t->consumer, 100);
        if (m && take(t, m, err))
            return m;
        if (m) {
            rd_kafka_message_destroy(m);
            if (err->area != ERROR_NONE)
                return NULL;
            continue;
        }
        int64_t now = clock_monotonic_ms();
        until = until ? until : now + SILENCE_MS;
        if (now > until) {
            bench_error(err, "%s: no record came for %d s, though there are more", t->cfg->kafka.usage_topic,
                        SILENCE_MS / 1000);
            return NULL;
        }
    }
    return NULL;
}

bool bench_batch_full(const struct config *cfg, const struct batch *b) {
    return (int64_t)b->count >= cfg->batch.max_events || (int64_t)b->bytes >= cfg->batch.max_bytes;
}

static struct batch *add_batch(struct bench_slice *s, struct assignment *a) {
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 16;
        s->batches = mem_realloc(s->batches, s->capacity * sizeof *s->batches);
    }
    return s->batches[s->count++] = batch_new(a);
}

bool bench_slice_read(struct bench_slice *s, struct bench_topic *t, struct assignment *a,
                      const struct event_limits *limits, int64_t records, int64_t *left,
                      bench_added_fn *added, void *ctx, struct error *err) {
    rd_kafka_message_t *m;
    struct batch *b = NULL;
    if (!bench_topic_resume(t, err))
        return false;
    while (*left > 0 && (records > 0 || b) && (m = bench_topic_next(t, err))) {
        if (!b)
            b = add_batch(s, a);
        batch_add(b, assignment_part(a, m->partition), m, limits);
        if (added)
            added(ctx, &b->events[b->count - 1]);
        if (bench_batch_full(t->cfg, b))
            b = NULL;
        records--;
        --*left;
    }
    bench_topic_pause(t);
    for (size_t i = 0; i < s->count; i++)
        batch_prepare(s->batches[i]);
    return err->area == ERROR_NONE;
}

void bench_slice_clear(struct bench_slice *s) {
    for (size_t i = 0; i < s->count; i++)
        batch_free(s->batches[i]);
    s->count = 0;
}

void bench_slice_free(struct bench_slice *s) {
    bench_slice_clear(s);
    free(s->batches);
    *s = (struct bench_slice){0};
}
