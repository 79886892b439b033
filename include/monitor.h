/* SPDX-License-Identifier: MIT */
/* What a running daemon tells of itself: a thread watches the dependencies, the
 * partitions and the other threads, tells the log, the supervisor and the metrics
 * how it stands, and what it found is served over HTTP:
 *
 *   /             a page for people
 *   /metrics      Prometheus
 *   /healthz      200 while every thread gives signs of life, whatever it waits for; else 503 and which
 * doesn't /readyz       200 while ready, else 503; the state and its reasons (health.h) /status.json  what
 * the page shows */
#ifndef TALLYD_MONITOR_H
#define TALLYD_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "metrics.h"
#include "recent.h"
#include "worker.h"

struct monitor; /* opaque; owned by whoever started it */

/* All borrowed. */
struct monitor_setup {
    const struct config *cfg;
    struct metrics *metrics;
    struct recent *recent;
};

/* Listens, where the configuration says so, and starts the threads. Before the others of the process, so that
 * a port in use is said before anything is joined. NULL with an error. */
struct monitor *monitor_start(const struct monitor_setup *setup, struct error *err)
    __attribute__((warn_unused_result));
/* The workers to look at from now on; 0 of them before they are freed: what was seen last is then told. */
void monitor_watch(struct monitor *m, struct worker *const *workers, size_t n);
/* Everything has been started: the supervisor may go on. Dependencies may be away, and partitions to come. */
void monitor_started(struct monitor *m);
/* The end has begun: not ready from the moment this returns. */
void monitor_stopping(struct monitor *m);
/* Ends all of it and frees, until the deadline (monotonic). False: a dependency holds a thread up, which is
 * left running: what was borrowed must stay. NULL has ended. */
bool monitor_stop(struct monitor *m, int64_t deadline_ms);

#endif
