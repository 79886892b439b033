/* SPDX-License-Identifier: MIT */
#include "probe.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "mysql_db.h"
#include "stop.h"

struct probe {
    struct stop stop; /* any thread */
    /* shared, under `lock` */
    pthread_mutex_t lock;
    int64_t trying_since_ms; /* monotonic; 0: it pauses */
    struct health_dependency found;
    /* set before the thread starts */
    const struct probe_kind *kind;
    int64_t interval_ms, timeout_ms;
    struct config cfg; /* the process', with time-outs of its own; what it points at is borrowed */
    pthread_t thread;
    /* the thread's own */
    void *state;
};

/* Under the lock. */
static void note(struct probe *p, bool up, const char *error) {
    struct health_dependency *d = &p->found;
    if (!d->known || d->up != up)
        d->since_ms = clock_wall_ms();
    d->known = true;
    d->up = up;
    snprintf(d->error, sizeof d->error, "%.*s", (int)sizeof d->error - 1, up ? "" : error);
}

static void note_end(struct probe *p, bool ok, const struct error *err, int64_t took_us) {
    char text[HEALTH_ERROR_MAX];
    bool late = ok && took_us > p->timeout_ms * 1000;
    if (late)
        snprintf(text, sizeof text, "it took %lld ms to answer", (long long)(took_us / 1000));
    pthread_mutex_lock(&p->lock);
    p->trying_since_ms = 0;
    if (ok)
        p->found.latency_ms = (double)took_us / 1000;
    note(p, ok && !late, late ? text : err->text);
    pthread_mutex_unlock(&p->lock);
}

static void try_once(struct probe *p) {
    struct error err = {0};
    pthread_mutex_lock(&p->lock);
    p->trying_since_ms = clock_monotonic_ms();
    pthread_mutex_unlock(&p->lock);
    int64_t since = clock_monotonic_us();
    bool ok = p->kind->attempt(p->state, &err);
    note_end(p, ok, &err, clock_monotonic_us() - since);
}

static void *probe_main(void *arg) {
    struct probe *p = arg;
    pthread_setname_np(pthread_self(), p->kind->thread);
    do
        try_once(p);
    while (!stop_asked_by(&p->stop, clock_monotonic_ms() + p->interval_ms));
    p->kind->close(p->state);
    stop_done(&p->stop);
    return NULL;
}

static void probe_free(struct probe *p) {
    stop_deinit(&p->stop);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static int64_t no_longer(int64_t given, int64_t limit) {
    return given < limit ? given : limit;
}

/* A try waits no longer than it counts: so a connection that leads nowhere is made anew soon after. */
static void shorten_waits(struct config *cfg) {
    int64_t limit = cfg->health.probe_timeout_ms;
    cfg->redis.connect_timeout_ms = no_longer(cfg->redis.connect_timeout_ms, limit);
    cfg->redis.timeout_ms = no_longer(cfg->redis.timeout_ms, limit);
    db_hurry(cfg, (limit + 999) / 1000 * 1000);
}

struct probe *probe_start(const struct probe_kind *kind, const struct config *cfg, struct error *err) {
    struct probe *p = mem_zero(1, sizeof *p);
    stop_init(&p->stop);
    pthread_mutex_init(&p->lock, NULL);
    p->kind = kind;
    p->cfg = *cfg;
    shorten_waits(&p->cfg);
    p->interval_ms = cfg->health.probe_interval_ms;
    p->timeout_ms = cfg->health.probe_timeout_ms;
    p->found = (struct health_dependency){.name = kind->name, .latency_ms = -1};
    p->state = kind->open(&p->cfg);
    int rc = pthread_create(&p->thread, NULL, probe_main, p);
    if (rc == 0)
        return p;
    error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, rc, "%s: thread: %s", kind->thread,
              strerror(rc));
    kind->close(p->state);
    probe_free(p);
    return NULL;
}

void probe_look(struct probe *p, struct health_dependency *out) {
    char text[HEALTH_ERROR_MAX];
    pthread_mutex_lock(&p->lock);
    int64_t waited = p->trying_since_ms ? clock_monotonic_ms() - p->trying_since_ms : 0;
    if (waited > p->timeout_ms) {
        snprintf(text, sizeof text, "no answer for more than %lld ms", (long long)p->timeout_ms);
        note(p, false, text);
    }
    *out = p->found;
    pthread_mutex_unlock(&p->lock);
}

void *probe_state(struct probe *p) {
    return p->state;
}

void probe_stop(struct probe *p) {
    stop_ask(&p->stop);
}

bool probe_join(struct probe *p, int64_t deadline_ms) {
    if (!stop_wait(&p->stop, deadline_ms))
        return false;
    pthread_join(p->thread, NULL);
    probe_free(p);
    return true;
}
