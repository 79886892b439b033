/* SPDX-License-Identifier: MIT */
/* What monitor.c (the thread) and monitor_http.c (what is served) share. */
#ifndef TALLYD_MONITOR_INTERNAL_H
#define TALLYD_MONITOR_INTERNAL_H

#include <pthread.h>

#include "health.h"
#include "heartbeat.h"
#include "http.h"
#include "monitor.h"
#include "notify.h"
#include "probe.h"
#include "status.h"

enum { MONITOR_KAFKA, MONITOR_REDIS, MONITOR_MYSQL, MONITOR_PROBES };

struct monitor {
    /* shared, under `lock` */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started, stopping, quit;
    struct worker *const *workers; /* borrowed; NULL: not there yet, or not any more */
    size_t worker_count;
    struct health_dependency dependencies[MONITOR_PROBES];
    struct probe_outbox outbox;
    struct worker_partition *seen; /* owned: the partitions of the last look */
    size_t seen_count, seen_capacity;
    size_t joined;   /* members that have what the group gave them */
    size_t claiming; /* members that claim it in the ledger */
    struct health health;
    struct status_series series;
    /* set before the thread starts */
    struct monitor_setup setup;
    struct probe *probes[MONITOR_PROBES];
    struct notify *notify;
    struct http *http; /* NULL: nothing is served */
    pthread_t thread;
    bool running;
    int64_t started_ms, started_wall_ms;
    /* the thread's own */
    bool hung; /* a thread is */
    bool ready_told;
    struct buf line;
    int64_t next_watchdog_ms, next_line_ms, next_point_ms;
};

/* Threads that give no sign of life. Any thread. */
size_t monitor_hung(const struct monitor *m, struct heartbeat_silence *out, size_t max);
/* Listens, unless there is to be no server. */
bool monitor_serve(struct monitor *m, struct error *err) __attribute__((warn_unused_result));

#endif
