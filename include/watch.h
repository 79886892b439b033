/* SPDX-License-Identifier: MIT */
/* Signals: a thread of its own takes them. SIGHUP is noted for whoever asks, and means nothing once the
 * shutdown has begun. SIGTERM and SIGINT say that the process is to end; the thread holds the shutdown to its
 * deadline, whatever hangs meanwhile, a frozen store or a library. Nothing runs inside a signal handler. A
 * signal once the shutdown has begun ends the process at once with 128 + its number, the deadline with the
 * code given; nothing is lost by either. */
#ifndef TALLYD_WATCH_H
#define TALLYD_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

struct watch;

/* Call before any other thread is started: they inherit that the signals are blocked. `deadline_ms`: how long
 * the shutdown may take from its beginning; `late_code`: the process' exit code when it takes longer. */
struct watch *watch_start(int64_t deadline_ms, int late_code, struct error *err)
    __attribute__((warn_unused_result));
/* Waits up to `ms` for a signal to end; 0: none yet. Returns early for SIGHUP. */
int watch_wait(struct watch *w, int64_t ms);
/* Whether SIGHUP came since this was last asked; several are one. */
bool watch_take_reload(struct watch *w);
/* Begins the shutdown, unless a signal has. Returns its end by clock_monotonic_ms. */
int64_t watch_deadline(struct watch *w);
/* The shutdown is done: ends the thread and frees. */
void watch_end(struct watch *w);

#endif
