/* SPDX-License-Identifier: MIT */
/* The document behind the page: what a daemon knows of itself, and how it went in the last minutes. */
#ifndef TALLYD_STATUS_H
#define TALLYD_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "config.h"
#include "health.h"
#include "metrics.h"
#include "probe_kinds.h"
#include "recent.h"

#define STATUS_STEP_MS 2000
#define STATUS_POINTS 300 /* ten minutes */
#define STATUS_WINDOW 5   /* steps that the latencies of now look back over */

/* One step of the series; below 0: not known. */
struct status_point {
    double events_per_second, lag, outbox_pending, outbox_age_ms, commit_p50_ms, commit_p99_ms;
};

/* Percentiles over the window; below 0: nothing was measured in it. */
struct status_latency {
    double commit_p50_ms, commit_p99_ms, script_p99_ms, transaction_p99_ms, publish_p99_ms;
};

#define STATUS_HISTOGRAMS 4 /* commit, script, transaction, publish */

/* The series, a ring; one thread's at a time. Zero it at first. */
struct status_series {
    struct status_point points[STATUS_POINTS];
    size_t next, count;
    int64_t ends_at_ms; /* 1970: when the last point was taken */
    struct status_latency latency;
    /* what the next point is measured against */
    int64_t taken_at_ms, events; /* monotonic */
    struct metric_histogram before[STATUS_WINDOW][STATUS_HISTOGRAMS];
    size_t looks;
};

/* Takes a point. `lag` is -1 while it isn't known. */
void status_series_take(struct status_series *s, const struct metrics *m, int64_t now_ms, int64_t wall_ms,
                        int64_t lag, const struct probe_outbox *outbox);

/* What a document is made of; all borrowed. */
struct status {
    const struct config *cfg;
    const struct metrics *metrics;
    struct recent *recent;
    const struct health *health;
    const struct health_dependency *dependencies;
    size_t dependency_count;
    struct probe_outbox outbox;
    const struct status_series *series;
    int64_t now_ms, wall_ms, started_wall_ms, uptime_ms; /* now_ms is monotonic */
    bool healthy;
};
void status_print(const struct status *s, struct buf *out);

/* Over all partitions; -1 while one of them isn't known. */
int64_t status_lag(const struct health *h);
/* Records that ended in that way. */
int64_t status_outcomes(const struct metrics *m, enum outcome outcome);

#endif
