/* SPDX-License-Identifier: MIT */
/* Time and CPU over one or several measured stretches, and how long each of
 * many things took. */
#ifndef BENCH_METER_H
#define BENCH_METER_H

#include "bench.h"

struct bench_meter {
    const struct bench_options *options;                          /* whose CPU */
    int64_t since_ns, ns;                                         /* of this stretch; of all that ended */
    int64_t since_us[BENCH_PIDS_MAX + 1], us[BENCH_PIDS_MAX + 1]; /* the last one is this process */
};

/* False when a process isn't there (any more). */
bool bench_meter_start(struct bench_meter *m, struct error *err) __attribute__((warn_unused_result));
bool bench_meter_stop(struct bench_meter *m, struct error *err) __attribute__((warn_unused_result));
/* {"events":…,"seconds":…,"eventsPerSecond":…,"cpuMicros":{"self":…,NAME:…}}, CPU by event. New. */
json_t *bench_meter_json(const struct bench_meter *m, int64_t events);
json_t *bench_meter_cpu_json(const struct bench_meter *m, int64_t events);

struct bench_times {
    int64_t *ns;
    size_t count, capacity;
};

void bench_times_add(struct bench_times *t, int64_t ns);
/* {"count":…,"p50Ms":…,"p95Ms":…,"p99Ms":…,"maxMs":…}, exact: the smallest time that so
 * many didn't pass. Null where there is none. Sorts them. New. */
json_t *bench_times_json(struct bench_times *t);
void bench_times_free(struct bench_times *t);

#endif
