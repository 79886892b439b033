/* SPDX-License-Identifier: MIT */
#include "monitor.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "heartbeat.h"
#include "log.h"
#include "monitor_internal.h"
#include "notify.h"
#include "probe_kinds.h"

#define TICK_MS 200
#define STATUS_LINE_MS 1000 /* a line has ages in it */

/* ---- looking ---- */

static void look_at_dependencies(struct monitor *m) {
    for (size_t i = 0; i < MONITOR_PROBES; i++)
        probe_look(m->probes[i], &m->dependencies[i]);
    probe_mysql_outbox(probe_state(m->probes[MONITOR_MYSQL]), &m->outbox);
}

/* A worker's open partitions, behind those of the others. */
static void add_partitions(struct monitor *m, struct worker *w, struct worker_status *status) {
    for (;;) {
        size_t room = m->seen_capacity - m->seen_count;
        size_t n = worker_partitions(w, status, m->seen ? m->seen + m->seen_count : NULL, room);
        if (n <= room) {
            m->seen_count += n;
            return;
        }
        m->seen_capacity = 2 * (m->seen_count + n);
        m->seen = mem_realloc(m->seen, m->seen_capacity * sizeof *m->seen);
    }
}

static void look_at_workers(struct monitor *m) {
    m->seen_count = m->joined = m->claiming = 0;
    for (size_t i = 0; i < m->worker_count; i++) {
        struct worker_status status;
        add_partitions(m, m->workers[i], &status);
        m->joined += status.state == WORKER_READING || status.state == WORKER_IDLE;
        m->claiming += status.state == WORKER_CLAIMING;
    }
    int32_t *ids = mem_alloc((m->seen_count + 1) * sizeof *ids);
    for (size_t i = 0; i < m->seen_count; i++)
        ids[i] = m->seen[i].id;
    probe_kafka_follow(probe_state(m->probes[MONITOR_KAFKA]), ids, m->seen_count);
    free(ids);
}

static struct health_partition *partitions_of(struct monitor *m) {
    struct health_partition *list = mem_zero(m->seen_count + 1, sizeof *list);
    for (size_t i = 0; i < m->seen_count; i++) {
        const struct worker_partition *p = &m->seen[i];
        list[i] =
            (struct health_partition){.id = p->id,
                                      .settled_to = p->settled_to,
                                      .end = probe_kafka_end(probe_state(m->probes[MONITOR_KAFKA]), p->id),
                                      .paused = p->paused_since_ms != 0,
                                      .paused_since_ms = p->paused_since_ms,
                                      .stopped = p->stopped};
    }
    return list;
}

static void log_state(const struct monitor *m, enum health_state before) {
    struct buf line = {0};
    bool bad = m->health.state == HEALTH_DEGRADED || m->health.state == HEALTH_STUCK;
    health_line(&m->health, &line);
    LOG(bad ? LOG_WARN : LOG_INFO, "state_changed", LOG_S("from", health_state_name(before)),
        LOG_S("to", health_state_name(m->health.state)), LOG_S("reason", buf_cstr(&line)));
    buf_free(&line);
}

/* Under the lock. */
static void look(struct monitor *m) {
    enum health_state before = m->health.state;
    look_at_dependencies(m);
    if (m->workers)
        look_at_workers(m);
    struct health_partition *partitions = partitions_of(m);
    const struct health_input in = {.now_ms = clock_monotonic_ms(),
                                    .wall_ms = clock_wall_ms(),
                                    .stopping = m->stopping,
                                    .dependencies = m->dependencies,
                                    .dependency_count = MONITOR_PROBES,
                                    .partitions = partitions,
                                    .partition_count = m->seen_count,
                                    .members = (size_t)m->setup.cfg->workers,
                                    .members_joined = m->joined,
                                    .members_claiming = m->claiming};
    if (health_update(&m->health, &in))
        log_state(m, before);
    free(partitions);
}

/* ---- telling ---- */

size_t monitor_hung(const struct monitor *m, struct heartbeat_silence *out, size_t max) {
    return heartbeat_silent(clock_monotonic_ms(), m->setup.cfg->health.hung_after_ms, out, max);
}

static void tell_hung(struct monitor *m) {
    struct heartbeat_silence one;
    bool hung = monitor_hung(m, &one, 1) > 0;
    if (hung && !m->hung)
        LOG(LOG_ERROR, "thread_hung", LOG_S("thread", one.thread), LOG_I("silent_ms", one.for_ms));
    m->hung = hung;
}

/* What the supervisor wants to hear. A watchdog that hears nothing ends the process: so it's fed by all
 * threads' signs of life, not by this one's. */
static void tell_supervisor(struct monitor *m) {
    int64_t now = clock_monotonic_ms(), every = notify_watchdog_ms(m->notify);
    if (m->started && !m->ready_told) /* again when it wasn't taken: it's waited for */
        m->ready_told = notify_send(m->notify, "READY=1");
    if (every && !m->hung && now >= m->next_watchdog_ms) {
        notify_send(m->notify, "WATCHDOG=1");
        m->next_watchdog_ms = now + every;
    }
    if (now < m->next_line_ms)
        return;
    struct buf line = {0};
    health_line(&m->health, &line);
    if (strcmp(buf_cstr(&line), buf_cstr(&m->line)) != 0)
        notify_status(m->notify, buf_cstr(&line));
    buf_free(&m->line);
    m->line = line;
    m->next_line_ms = now + STATUS_LINE_MS;
}

static void take_point(struct monitor *m) {
    int64_t now = clock_monotonic_ms();
    if (now < m->next_point_ms)
        return;
    int64_t lag = m->joined || m->seen_count ? status_lag(&m->health) : -1;
    status_series_take(&m->series, m->setup.metrics, now, clock_wall_ms(), lag, &m->outbox);
    m->next_point_ms =
        now - m->next_point_ms < STATUS_STEP_MS ? m->next_point_ms + STATUS_STEP_MS : now + STATUS_STEP_MS;
}

static void *monitor_main(void *arg) {
    struct monitor *m = arg;
    pthread_setname_np(pthread_self(), "monitor");
    heartbeat_begin("monitor", -1);
    pthread_mutex_lock(&m->lock);
    while (!m->quit) {
        heartbeat_beat();
        look(m);
        tell_hung(m);
        tell_supervisor(m);
        take_point(m);
        struct timespec until = clock_timespec(clock_monotonic_ms() + TICK_MS);
        pthread_cond_timedwait(&m->changed, &m->lock, &until);
    }
    pthread_mutex_unlock(&m->lock);
    heartbeat_end();
    return NULL;
}

/* ---- life ---- */

static const struct probe_kind *const kinds[MONITOR_PROBES] = {
    [MONITOR_KAFKA] = &probe_kafka, [MONITOR_REDIS] = &probe_redis, [MONITOR_MYSQL] = &probe_mysql};

static bool start_probes(struct monitor *m, struct error *err) {
    for (size_t i = 0; i < MONITOR_PROBES; i++) {
        m->probes[i] = probe_start(kinds[i], m->setup.cfg, err);
        if (!m->probes[i])
            return false;
    }
    return true;
}

static bool start_thread(struct monitor *m, struct error *err) {
    int rc = pthread_create(&m->thread, NULL, monitor_main, m);
    m->running = rc == 0;
    return rc == 0 || error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, rc, "monitor: thread: %s",
                                strerror(rc));
}

struct monitor *monitor_start(const struct monitor_setup *setup, struct error *err) {
    struct monitor *m = mem_zero(1, sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    clock_cond_init(&m->changed);
    m->setup = *setup;
    m->started_ms = clock_monotonic_ms();
    m->started_wall_ms = clock_wall_ms();
    m->next_point_ms = m->started_ms;
    m->notify = notify_open();
    health_init(&m->health, setup->cfg->health.stuck_after_ms, m->started_wall_ms);
    for (size_t i = 0; i < MONITOR_PROBES; i++)
        m->dependencies[i] = (struct health_dependency){.name = kinds[i]->name, .latency_ms = -1};
    if (monitor_serve(m, err) && start_probes(m, err) && start_thread(m, err))
        return m;
    monitor_stop(m, clock_monotonic_ms() + setup->cfg->health.probe_timeout_ms);
    return NULL;
}

void monitor_watch(struct monitor *m, struct worker *const *workers, size_t n) {
    pthread_mutex_lock(&m->lock);
    m->workers = n ? workers : NULL;
    m->worker_count = n;
    pthread_mutex_unlock(&m->lock);
}

void monitor_started(struct monitor *m) {
    pthread_mutex_lock(&m->lock);
    m->started = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

void monitor_stopping(struct monitor *m) {
    if (!m)
        return;
    notify_send(m->notify, "STOPPING=1");
    pthread_mutex_lock(&m->lock);
    m->stopping = true;
    look(m);
    pthread_mutex_unlock(&m->lock);
}

static bool join_probes(struct monitor *m, int64_t deadline_ms) {
    bool ended = true;
    for (size_t i = 0; i < MONITOR_PROBES; i++) {
        if (m->probes[i])
            probe_stop(m->probes[i]);
    }
    for (size_t i = 0; i < MONITOR_PROBES; i++) {
        bool joined = !m->probes[i] || probe_join(m->probes[i], deadline_ms);
        if (!joined)
            LOG(LOG_WARN, "probe_left", LOG_S("dependency", m->dependencies[i].name));
        ended = joined && ended;
    }
    return ended;
}

bool monitor_stop(struct monitor *m, int64_t deadline_ms) {
    if (!m)
        return true;
    http_stop(m->http);
    pthread_mutex_lock(&m->lock);
    m->quit = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
    if (m->running)
        pthread_join(m->thread, NULL);
    bool ended = join_probes(m, deadline_ms);
    notify_close(m->notify);
    health_free(&m->health);
    buf_free(&m->line);
    free(m->seen);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
    return ended;
}
