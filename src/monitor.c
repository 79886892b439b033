/* SPDX-License-Identifier: MIT */
#include "monitor.h"

#include <stdlib.h>

#include "embedded.h"
#include "http.h"
#include "log.h"

#define PAGE_POLICY                                                                                          \
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "             \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

struct monitor {
    struct monitor_setup setup;
    struct http *http;
};

static void answer_page(void *ctx, struct http_answer *a) {
    const struct embedded_file *f = embedded_find("config/page.html");
    (void)ctx;
    if (f)
        buf_append(&a->body, f->data, f->len);
}

static void answer_metrics(void *ctx, struct http_answer *a) {
    const struct monitor *m = ctx;
    struct metrics_samples samples = {0};
    metrics_render(m->setup.metrics, &samples, &a->body);
    metrics_samples_free(&samples);
}

static void answer_health(void *ctx, struct http_answer *a) {
    (void)ctx;
    buf_str(&a->body, "{}\n");
}

static void on_answered(void *ctx, size_t path, int status) {
    const struct monitor *m = ctx;
    metrics_add(m->setup.metrics, METRIC_HTTP_REQUESTS, metric_http(path, status), 1);
}

/* In the order of metric_http(). */
static const struct http_path paths[] = {
    {"/", "text/html; charset=utf-8", PAGE_POLICY, answer_page},
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", NULL, answer_metrics},
    {"/healthz", "application/json", NULL, answer_health},
    {"/readyz", "application/json", NULL, answer_health},
    {"/status.json", "application/json", NULL, answer_health},
    {0},
};

static bool serve(struct monitor *m, struct error *err) {
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

struct monitor *monitor_start(const struct monitor_setup *setup, struct error *err) {
    struct monitor *m = mem_zero(1, sizeof *m);
    m->setup = *setup;
    if (serve(m, err))
        return m;
    monitor_stop(m);
    return NULL;
}

void monitor_stop(struct monitor *m) {
    if (!m)
        return;
    http_stop(m->http);
    free(m);
}
