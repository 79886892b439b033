/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "buf.h"
#include "digest.h"
#include "draw.h"

#define SECOND_NS INT64_C(1000000000)

int64_t bench_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec;
}

void bench_sleep_until_ns(int64_t at_ns) {
    const struct timespec at = {.tv_sec = at_ns / SECOND_NS, .tv_nsec = at_ns % SECOND_NS};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        ;
}

bool bench_error(struct error *err, const char *fmt, ...) {
    char why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_UNKNOWN, 0, "%s", why);
}

void bench_own_group(struct config *cfg) {
    char name[40];
    snprintf(name, sizeof name, "bench-%llx", (unsigned long long)draw_number());
    free(cfg->kafka.group_id);
    cfg->kafka.group_id = mem_strdup(name);
}

/* Mixed, since a set takes its low bits. */
uint64_t bench_hash(const void *data, size_t len) {
    uint64_t h = digest_bytes(DIGEST_START, data, len);
    h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 31;
    return h ? h : 1;
}

static bool put(uint64_t *slots, size_t capacity, uint64_t key) {
    size_t at = key & (capacity - 1);
    while (slots[at] && slots[at] != key)
        at = (at + 1) & (capacity - 1);
    bool fresh = !slots[at];
    slots[at] = key;
    return fresh;
}

static void grow(struct bench_set *s) {
    size_t capacity = s->capacity ? s->capacity * 2 : 1024;
    uint64_t *slots = mem_zero(capacity, sizeof *slots);
    for (size_t i = 0; i < s->capacity; i++) {
        if (s->slots[i])
            put(slots, capacity, s->slots[i]);
    }
    free(s->slots);
    s->slots = slots;
    s->capacity = capacity;
}

bool bench_set_add(struct bench_set *s, uint64_t key) {
    if (s->count * 2 >= s->capacity)
        grow(s);
    bool fresh = put(s->slots, s->capacity, key);
    s->count += fresh;
    return fresh;
}

void bench_set_free(struct bench_set *s) {
    free(s->slots);
    *s = (struct bench_set){0};
}
