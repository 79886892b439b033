/* SPDX-License-Identifier: MIT */
/* How long it takes a running tallyd from an event's being produced until its
 * settlement is seen in MySQL, and until its notification lies on the topic:
 * under a steady load, or one event at a time. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench_listen.h"
#include "bench_load.h"
#include "bench_meter.h"
#include "bench_watch.h"
#include "buf.h"
#include "clock.h"
#include "kafka.h"
#include "mysql_db.h"
#include "population.h"

#define LOOK_EVERY_NS 2000000     /* at the ledger, under load: more would be a load of its own */
#define STREAM_LINGER_MS "5"      /* the clients' own default, librdkafka's and Java's */
#define LONE_LOOK_EVERY_NS 200000 /* beside an idle server */
#define DEADLINE_MS 60000
#define ASK_TIMEOUT_MS 10000
#define TOLD_PAUSE_MS 20

struct measuring {
    const struct config *cfg;
    const struct bench_options *o;
    struct bench_watch *watch;
    struct bench_listen *listen; /* not for lone events */
    struct bench_load load;
    struct db *db;
    struct bench_meter meter;
    int64_t last_outbox_id; /* before */
    size_t first;           /* of the events that count: those before it are the warm-up's */
    int64_t expected, matched;
    struct bench_times acked, committed, notified;
};

static int64_t deadline(void) {
    return clock_monotonic_ms() + DEADLINE_MS;
}

/* What lies on the topic already must be settled, or the events measured would wait for it. */
static bool await_idle(struct measuring *m, struct error *err) {
    const char *topic = m->cfg->kafka.usage_topic;
    size_t n = 0;
    int32_t *ids = kafka_topic_partitions(m->load.producer, topic, ASK_TIMEOUT_MS, &n, err);
    bool ok = ids != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        int64_t low, high;
        rd_kafka_resp_err_t code =
            rd_kafka_query_watermark_offsets(m->load.producer, topic, ids[i], &low, &high, ASK_TIMEOUT_MS);
        ok = code == RD_KAFKA_RESP_ERR_NO_ERROR ? bench_watch_await(m->watch, ids[i], high, deadline(), err)
                                                : kafka_error(code, "watermarks", topic, err);
    }
    free(ids);
    return ok;
}

static bool ask_number(struct db *db, const char *sql, int64_t *out, struct error *err) {
    struct db_rows rows;
    if (!db_ensure(db, err) || !db_query_text(db, sql, &rows, err))
        return false;
    *out = db_next(&rows) ? db_i64(&rows, 0, 0) : 0;
    db_rows_free(&rows);
    return true;
}

/* Alerts of before must be published, or they'd be taken for those of the events measured. */
static bool await_told(struct measuring *m, struct error *err) {
    int64_t until = deadline(), pending = 0;
    do {
        if (pending)
            clock_sleep_ms(TOLD_PAUSE_MS);
        if (!ask_number(m->db, "SELECT COUNT(*) FROM usage_event_outbox WHERE status = 'PUBLISH_PENDING'",
                        &pending, err))
            return false;
    } while (pending && clock_monotonic_ms() < until);
    return pending == 0 ||
           bench_error(err, "%lld alerts of before aren't published (does tallyd run?)", (long long)pending);
}

static bool produce(struct measuring *m, struct error *err) {
    int64_t warmup_ns = m->o->warmup * INT64_C(1000000000),
            end_ns = warmup_ns + m->o->seconds * INT64_C(1000000000), begin = bench_clock_ns(), due;
    bool warm = false;
    while ((due = simulation_due_ns(m->load.simulation)) < end_ns) {
        bench_sleep_until_ns(begin + due);
        if (!warm && due >= warmup_ns) {
            warm = true;
            m->first = m->load.count;
            if (!bench_meter_start(&m->meter, err))
                return false;
        }
        if (!bench_load_send(&m->load, err))
            return false;
    }
    return warm || bench_error(err, "--rate and --seconds make no event at all");
}

static bool await_committed(struct measuring *m, struct error *err) {
    int64_t until = deadline();
    bool ok = bench_load_flush(&m->load, err);
    for (size_t i = m->load.count; ok && i-- > 0;) /* the last of a partition is waited for first */
        ok = bench_watch_await(m->watch, m->load.sent[i].partition, m->load.sent[i].offset + 1, until, err);
    return ok;
}

static bool await_notified(struct measuring *m, struct error *err) {
    char sql[96];
    snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM usage_event_outbox WHERE outbox_id > %lld",
             (long long)m->last_outbox_id);
    return ask_number(m->db, sql, &m->expected, err) &&
           bench_listen_await(m->listen, (size_t)m->expected, deadline(), err);
}

static bool run_load(struct measuring *m, struct error *err) {
    return await_idle(m, err) && await_told(m, err) && (m->listen = bench_listen_start(m->cfg, err)) &&
           ask_number(m->db, "SELECT COALESCE(MAX(outbox_id), 0) FROM usage_event_outbox", &m->last_outbox_id,
                      err) &&
           produce(m, err) && await_committed(m, err) && await_notified(m, err) &&
           bench_meter_stop(&m->meter, err);
}

static void take_committed(struct measuring *m) {
    for (size_t i = m->first; i < m->load.count; i++) {
        const struct bench_sent *s = &m->load.sent[i];
        bench_times_add(&m->acked, s->acked_ns - s->at_ns);
        bench_times_add(&m->committed, bench_watch_settled_ns(m->watch, s->partition, s->offset) - s->at_ns);
    }
}

static int by_id(const void *x, const void *y) {
    const struct bench_heard *a = x, *b = y;
    return (a->id > b->id) - (a->id < b->id);
}

/* A notification is that of the first event of its id. */
static void take_notified(struct measuring *m) {
    size_t count;
    const struct bench_heard *heard = bench_listen_stop(m->listen, &count);
    struct bench_heard *sorted = mem_alloc(count * sizeof *sorted);
    for (size_t i = 0; i < count; i++)
        sorted[i] = heard[i];
    qsort(sorted, count, sizeof *sorted, by_id);
    struct bench_set seen = {0};
    for (size_t i = 0; i < m->load.count; i++) {
        const struct bench_sent *s = &m->load.sent[i];
        const struct bench_heard key = {.id = s->id}, *found = NULL;
        if (bench_set_add(&seen, s->id))
            found = bsearch(&key, sorted, count, sizeof *sorted, by_id);
        m->matched += found != NULL;
        if (found && i >= m->first)
            bench_times_add(&m->notified, found->at_ns - s->at_ns);
    }
    bench_set_free(&seen);
    free(sorted);
}

static json_t *load_result(struct measuring *m, struct error *err) {
    size_t events = m->load.count - m->first;
    int64_t took_ns = m->load.sent[m->load.count - 1].at_ns - m->load.sent[m->first].at_ns;
    take_committed(m);
    take_notified(m);
    if (m->matched != m->expected) {
        bench_error(err, "%lld notifications were stored, %lld of these events came", (long long)m->expected,
                    (long long)m->matched);
        return NULL;
    }
    json_t *notification = bench_times_json(&m->notified);
    json_object_set_new(notification, "expected", json_integer(m->expected));
    json_object_set_new(notification, "came", json_integer(m->matched));
    return json_pack("{s:I,s:I,s:o,s:o,s:o,s:f,s:o}", "produced", (json_int_t)m->load.count, "measured",
                     (json_int_t)events, "acked", bench_times_json(&m->acked), "committed",
                     bench_times_json(&m->committed), "notification", notification, "achievedRate",
                     took_ns > 0 ? (double)(events - 1) * 1e9 / (double)took_ns : 0, "cpuMicros",
                     bench_meter_cpu_json(&m->meter, (int64_t)events));
}

static void deinit(struct measuring *m) {
    bench_listen_free(m->listen);
    bench_watch_stop(m->watch);
    bench_load_close(&m->load);
    db_free(m->db);
    bench_times_free(&m->acked);
    bench_times_free(&m->committed);
    bench_times_free(&m->notified);
}

/* How long the producer waits for company. */
static void linger(struct config *cfg, const char *ms) {
    cfg->kafka.properties =
        mem_realloc(cfg->kafka.properties, (cfg->kafka.property_count + 1) * sizeof *cfg->kafka.properties);
    cfg->kafka.properties[cfg->kafka.property_count++] =
        (struct config_property){.name = mem_strdup("linger.ms"), .value = mem_strdup(ms)};
}

json_t *bench_latency(struct config *cfg, const struct bench_options *o, struct error *err) {
    struct measuring m = {.cfg = cfg, .o = o, .meter = {.options = o}};
    json_t *result = NULL;
    m.db = db_new(cfg, DB_READ_COMMITTED);
    linger(cfg, STREAM_LINGER_MS);
    if ((m.watch = bench_watch_start(cfg, LOOK_EVERY_NS, err)) &&
        bench_load_open(&m.load, cfg, o, o->rate, err) && run_load(&m, err))
        result = load_result(&m, err);
    deinit(&m);
    return result;
}

/* ---- one at a time ---- */

static bool send_one(struct measuring *m, struct error *err) {
    if (!bench_load_send(&m->load, err) || !bench_load_flush(&m->load, err))
        return false;
    const struct bench_sent *s = &m->load.sent[m->load.count - 1];
    if (!bench_watch_await(m->watch, s->partition, s->offset + 1, deadline(), err))
        return false;
    bench_times_add(&m->acked, s->acked_ns - s->at_ns);
    bench_times_add(&m->committed, bench_watch_settled_ns(m->watch, s->partition, s->offset) - s->at_ns);
    return true;
}

/* Pauses of half to one and a half times the length, so that nothing runs in step with them. */
static bool run_lone(struct measuring *m, struct error *err) {
    struct dice dice = dice_new((uint64_t)m->o->seed, 0);
    if (!await_idle(m, err) || !bench_meter_start(&m->meter, err))
        return false;
    for (int64_t i = 0; i < m->o->count; i++) {
        double ms = (double)m->o->pause_ms * (0.5 + dice_fraction(&dice));
        bench_sleep_until_ns(bench_clock_ns() + (int64_t)(ms * 1e6));
        if (!send_one(m, err))
            return false;
    }
    return bench_meter_stop(&m->meter, err);
}

json_t *bench_lone(struct config *cfg, const struct bench_options *o, struct error *err) {
    struct measuring m = {.cfg = cfg, .o = o, .meter = {.options = o}};
    json_t *result = NULL;
    linger(cfg, "0");
    if ((m.watch = bench_watch_start(cfg, LONE_LOOK_EVERY_NS, err)) &&
        bench_load_open(&m.load, cfg, o, 0, err) && run_lone(&m, err))
        result = json_pack("{s:o,s:o,s:o}", "acked", bench_times_json(&m.acked), "committed",
                           bench_times_json(&m.committed), "cpuMicros",
                           bench_meter_cpu_json(&m.meter, (int64_t)m.load.count));
    deinit(&m);
    return result;
}
