/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>

#include "clock.h"
#include "embedded.h"
#include "json_text.h"
#include "log.h"
#include "monitor_internal.h"
#include "process.h"
#include "version.h"

#define HUNG_MAX 8 /* threads named */

/* ---- metrics ---- */

static void sample_partitions(const struct monitor *m, struct metrics_samples *s, int64_t now, int64_t wall) {
    char label[40];
    for (size_t i = 0; i < m->health.track_count; i++) {
        const struct health_track *t = &m->health.tracks[i];
        int64_t lag = health_lag(&t->is);
        snprintf(label, sizeof label, "partition=\"%" PRId32 "\"", t->is.id);
        if (lag >= 0)
            metrics_sample(s, METRIC_LAG, label, (double)lag);
        metrics_sample(s, METRIC_PROGRESS_AGE, label, (double)health_progress_age_ms(t, now) / 1000);
        int64_t paused_ms = t->is.paused && wall > t->is.paused_since_ms ? wall - t->is.paused_since_ms : 0;
        metrics_sample(s, METRIC_PAUSED_AGE, label, (double)paused_ms / 1000);
    }
    metrics_sample(s, METRIC_PARTITIONS, "", (double)m->health.track_count);
}

static void sample_state(const struct monitor *m, struct metrics_samples *s) {
    char label[80];
    for (size_t i = 0; i < MONITOR_PROBES; i++) {
        snprintf(label, sizeof label, "dependency=\"%s\"", m->dependencies[i].name);
        metrics_sample(s, METRIC_DEPENDENCY_UP, label, m->dependencies[i].known && m->dependencies[i].up);
    }
    for (int state = 0; state < HEALTH_STATES; state++) {
        snprintf(label, sizeof label, "state=\"%s\"", health_state_name((enum health_state)state));
        metrics_sample(s, METRIC_STATE, label, m->health.state == (enum health_state)state);
    }
    if (!m->outbox.known)
        return;
    metrics_sample(s, METRIC_OUTBOX_PENDING, "", (double)m->outbox.pending);
    metrics_sample(s, METRIC_OUTBOX_AGE, "", (double)m->outbox.oldest_age_ms / 1000);
    metrics_sample(s, METRIC_OUTBOX_FAILED, "", (double)m->outbox.failed);
}

static void sample_process(const struct monitor *m, struct metrics_samples *s) {
    struct process_figures p;
    struct buf label = {0};
    process_look(&p);
    buf_str(&label, "version=\"");
    metrics_label_value(&label, version_text());
    buf_str(&label, "\",librdkafka=\"");
    metrics_label_value(&label, rd_kafka_version_str());
    buf_char(&label, '"');
    metrics_sample(s, METRIC_BUILD_INFO, buf_cstr(&label), 1);
    metrics_sample(s, METRIC_LOG_LOST, "", (double)log_lost());
    metrics_sample(s, METRIC_PROCESS_START, "", (double)m->started_wall_ms / 1000);
    metrics_sample(s, METRIC_PROCESS_CPU, "", p.cpu_seconds);
    metrics_sample(s, METRIC_PROCESS_MEMORY, "", (double)p.resident_bytes);
    metrics_sample(s, METRIC_PROCESS_FDS, "", (double)p.open_fds);
    buf_free(&label);
}

static void answer_metrics(void *ctx, struct http_answer *a) {
    struct monitor *m = ctx;
    struct metrics_samples samples = {0};
    pthread_mutex_lock(&m->lock);
    sample_partitions(m, &samples, clock_monotonic_ms(), clock_wall_ms());
    sample_state(m, &samples);
    pthread_mutex_unlock(&m->lock);
    sample_process(m, &samples);
    metrics_render(m->setup.metrics, &samples, &a->body);
    metrics_samples_free(&samples);
}

/* ---- health ---- */

static void answer_healthz(void *ctx, struct http_answer *a) {
    struct heartbeat_silence hung[HUNG_MAX];
    size_t n = monitor_hung(ctx, hung, HUNG_MAX);
    a->status = n ? 503 : 200;
    buf_printf(&a->body, "{\"healthy\":%s,\"hung\":[", n ? "false" : "true");
    for (size_t i = 0; i < n; i++) {
        buf_str(&a->body, i ? ",{\"thread\":" : "{\"thread\":");
        json_text(&a->body, hung[i].thread);
        buf_printf(&a->body, ",\"silentForMs\":%" PRId64 "}", hung[i].for_ms);
    }
    buf_str(&a->body, "]}\n");
}

static void answer_readyz(void *ctx, struct http_answer *a) {
    struct monitor *m = ctx;
    pthread_mutex_lock(&m->lock);
    a->status = m->health.state == HEALTH_READY ? 200 : 503;
    health_print_json(&m->health, &a->body);
    pthread_mutex_unlock(&m->lock);
}

/* ---- the page ---- */

static void answer_page(void *ctx, struct http_answer *a) {
    const struct embedded_file *f = embedded_find("config/page.html");
    (void)ctx;
    if (f)
        buf_append(&a->body, f->data, f->len);
}

static void answer_status(void *ctx, struct http_answer *a) {
    struct monitor *m = ctx;
    struct heartbeat_silence one;
    pthread_mutex_lock(&m->lock);
    const struct status s = {.cfg = m->setup.cfg,
                             .metrics = m->setup.metrics,
                             .recent = m->setup.recent,
                             .health = &m->health,
                             .dependencies = m->dependencies,
                             .dependency_count = MONITOR_PROBES,
                             .outbox = m->outbox,
                             .series = &m->series,
                             .now_ms = clock_monotonic_ms(),
                             .wall_ms = clock_wall_ms(),
                             .started_wall_ms = m->started_wall_ms,
                             .uptime_ms = clock_monotonic_ms() - m->started_ms,
                             .healthy = monitor_hung(m, &one, 1) == 0};
    status_print(&s, &a->body);
    pthread_mutex_unlock(&m->lock);
}

/* ---- the server ---- */

static void on_answered(void *ctx, size_t path, int status) {
    const struct monitor *m = ctx;
    metrics_add(m->setup.metrics, METRIC_HTTP_REQUESTS, metric_http(path, status), 1);
}

/* In the order of metric_http(). */
static const struct http_path paths[] = {
    {"/", "text/html; charset=utf-8", embedded_page_policy, answer_page},
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", NULL, answer_metrics},
    {"/healthz", "application/json", NULL, answer_healthz},
    {"/readyz", "application/json", NULL, answer_readyz},
    {"/status.json", "application/json", NULL, answer_status},
    {0},
};

bool monitor_serve(struct monitor *m, struct error *err) {
    const struct config *cfg = m->setup.cfg;
    const struct http_setup setup = {.address = cfg->http.address,
                                     .port = (int)cfg->http.port,
                                     .deadline_ms = HTTP_DEADLINE_MS,
                                     .paths = paths,
                                     .answered = on_answered,
                                     .ctx = m};
    if (!cfg->http.address[0])
        return true;
    m->http = http_start(&setup, err);
    if (m->http)
        LOG(LOG_INFO, "http_started", LOG_S("address", cfg->http.address), LOG_I("port", http_port(m->http)));
    return m->http != NULL;
}
