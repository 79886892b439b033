/* SPDX-License-Identifier: MIT */
/* Reads the notification topic from its end as it was at the start, on a thread
 * of its own, and notes when each usage event's notification came. */
#ifndef BENCH_LISTEN_H
#define BENCH_LISTEN_H

#include "bench.h"

struct bench_listen;

/* One that came: the envelope's eventId by its hash, the first time. */
struct bench_heard {
    uint64_t id;
    int64_t at_ns;
};

/* Reading has begun in every partition when this returns. NULL with an error. */
struct bench_listen *bench_listen_start(const struct config *cfg, struct error *err);
/* Waits until notifications of so many different events came. False after the deadline, or when reading
 * failed. */
bool bench_listen_await(struct bench_listen *l, size_t count, int64_t deadline_ms, struct error *err)
    __attribute__((warn_unused_result));
/* Ends the thread. What it heard stays until bench_listen_free. */
const struct bench_heard *bench_listen_stop(struct bench_listen *l, size_t *count);
/* Stops first, where that wasn't done. NULL is allowed. */
void bench_listen_free(struct bench_listen *l);

#endif
