/* SPDX-License-Identifier: MIT */
/* What the measuring tool's verbs are given, and what they are made of: each
 * measures one thing and prints one JSON object. */
#ifndef BENCH_H
#define BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "event.h"

#define BENCH_PIDS_MAX 16
#define BENCH_NAME_MAX 32

/* A process whose CPU is measured along. */
struct bench_pid {
    char name[BENCH_NAME_MAX];
    int pid;
};

struct bench_options {
    const char *config_path;
    int64_t count; /* events; 0: all there are */
    double rate;   /* events a second */
    int64_t seconds, warmup;
    int64_t families;
    int64_t seed;
    int64_t pause_ms;
    struct bench_pid pids[BENCH_PIDS_MAX];
    size_t pid_count;
};

/* The verbs. `cfg` is the verb's to change. A new object, or NULL with an error. */
json_t *bench_consume(struct config *cfg, const struct bench_options *o, struct error *err);
json_t *bench_script(struct config *cfg, const struct bench_options *o, struct error *err);
json_t *bench_settle(struct config *cfg, const struct bench_options *o, struct error *err);
json_t *bench_latency(struct config *cfg, const struct bench_options *o, struct error *err);
json_t *bench_lone(struct config *cfg, const struct bench_options *o, struct error *err);

/* The monotonic clock. */
int64_t bench_clock_ns(void);
void bench_sleep_until_ns(int64_t at_ns);

/* Records what's wrong with what is measured. Returns false. */
bool bench_error(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A consumer group that nobody has: what the real one holds must not move. */
void bench_own_group(struct config *cfg);

/* A set of numbers, which texts become by their hash: of a million the chance that two
 * are taken for one is 1 : 10^7. Zeroed: empty. */
struct bench_set {
    uint64_t *slots; /* 0: free */
    size_t count, capacity;
};
/* False when it was there already. */
bool bench_set_add(struct bench_set *s, uint64_t key);
void bench_set_free(struct bench_set *s);
uint64_t bench_hash(const void *data, size_t len);

#endif
