/* SPDX-License-Identifier: MIT */
/* The topic consumed and parsed, and nothing else. */
#include "bench_meter.h"
#include "bench_topic.h"

struct consuming {
    struct bench_topic topic;
    struct assignment *assignment;
    struct batch_pool pool;
    struct batch *batch;
    struct bench_meter meter;
    int64_t events;
};

static void take(struct consuming *c, rd_kafka_message_t *m, const struct event_limits *limits) {
    batch_add(c->batch, assignment_part(c->assignment, m->partition), m, limits);
    c->events++;
    if (bench_batch_full(c->topic.cfg, c->batch)) {
        batch_free(c->batch);
        c->batch = batch_take(&c->pool, c->assignment);
    }
}

/* Time begins with the first record: to connect is no part of a record's cost. */
static bool consume(struct consuming *c, const struct bench_options *o, struct error *err) {
    const struct event_limits limits = event_limits_of(c->topic.cfg, 0);
    rd_kafka_message_t *m;
    if (!bench_topic_resume(&c->topic, err))
        return false;
    while ((!o->count || c->events < o->count) && (m = bench_topic_next(&c->topic, err))) {
        if (!c->events && !bench_meter_start(&c->meter, err)) {
            rd_kafka_message_destroy(m);
            return false;
        }
        take(c, m, &limits);
    }
    if (err->area != ERROR_NONE)
        return false;
    if (!c->events)
        return bench_error(err, "%s is empty", c->topic.cfg->kafka.usage_topic);
    return bench_meter_stop(&c->meter, err);
}

json_t *bench_consume(struct config *cfg, const struct bench_options *o, struct error *err) {
    struct consuming c = {.meter = {.options = o}};
    json_t *result = NULL;
    bench_own_group(cfg);
    if (bench_topic_open(&c.topic, cfg, err)) {
        c.assignment = bench_topic_assignment(&c.topic);
        c.batch = batch_take(&c.pool, c.assignment);
        if (consume(&c, o, err))
            result = bench_meter_json(&c.meter, c.events);
        batch_free(c.batch);
        batch_pool_free(&c.pool);
        assignment_unref(c.assignment);
    }
    bench_topic_close(&c.topic);
    return result;
}
