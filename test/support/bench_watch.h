/* SPDX-License-Identifier: MIT */
/* Looks at the consumer ledger again and again, on a connection and a thread of
 * its own, and notes when which offset was first seen to be settled. What it
 * sees was true a moment before, so times are too long by up to a period, never too short. */
#ifndef BENCH_WATCH_H
#define BENCH_WATCH_H

#include "bench.h"

struct bench_watch;

/* Of the configuration's group and topic. NULL with an error. */
struct bench_watch *bench_watch_start(const struct config *cfg, int64_t period_ns, struct error *err);
/* Waits until a partition is settled up to `next`. False with an error after the deadline, or when MySQL
 * can't be asked. */
bool bench_watch_await(struct bench_watch *w, int32_t partition, int64_t next, int64_t deadline_ms,
                       struct error *err) __attribute__((warn_unused_result));
/* When (bench_clock_ns) the record at `offset` was seen to be settled; -1: not yet. */
int64_t bench_watch_settled_ns(struct bench_watch *w, int32_t partition, int64_t offset);
/* Ends the thread and frees everything. NULL is allowed. */
void bench_watch_stop(struct bench_watch *w);

#endif
