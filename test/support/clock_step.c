/* SPDX-License-Identifier: MIT */
/* A wall clock that a test can step, for a process that has this library preloaded: TALLYD_CLOCK_FILE holds
 * the milliseconds it is ahead, as decimal text, and is read again ten times a second. The monotonic clock
 * isn't touched. As the kernel does, waits that go by the wall clock are measured by it as it is now, so
 * whoever waits for a point of it while it steps back waits longer: librdkafka's waits are such ones. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

#define SLICE_MS 100

static atomic_llong ahead_ms, read_at_ms;

static int real_clock(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    return real(id, t);
}

static long long ms_of(const struct timespec *t) {
    return (long long)t->tv_sec * 1000 + t->tv_nsec / 1000000;
}

static long long ahead(void) {
    struct timespec t;
    real_clock(CLOCK_MONOTONIC, &t);
    long long now = ms_of(&t), last = atomic_load(&read_at_ms);
    if (last && now - last < SLICE_MS)
        return atomic_load(&ahead_ms);
    atomic_store(&read_at_ms, now);
    const char *path = getenv("TALLYD_CLOCK_FILE");
    FILE *f = path ? fopen(path, "re") : NULL;
    long long value;
    if (f && fscanf(f, "%lld", &value) == 1)
        atomic_store(&ahead_ms, value);
    if (f)
        fclose(f);
    return atomic_load(&ahead_ms);
}

static void add_ms(struct timespec *t, long long ms) {
    long long ns = t->tv_nsec + ms % 1000 * 1000000;
    t->tv_sec += ms / 1000 + ns / 1000000000 - (ns < 0);
    t->tv_nsec = (ns % 1000000000 + 1000000000) % 1000000000;
}

int clock_gettime(clockid_t id, struct timespec *t) {
    int rc = real_clock(id, t);
    if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        add_ms(t, ahead());
    return rc;
}

int timespec_get(struct timespec *t, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, t) == 0 ? base : 0;
}

time_t time(time_t *out) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *tv, void *zone) {
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}

/* In slices of the real time, so that a step is noticed. */
int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *until) {
    static int (*real)(cnd_t *, mtx_t *, const struct timespec *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "cnd_timedwait");
    for (;;) {
        struct timespec now, slice;
        clock_gettime(CLOCK_REALTIME, &now);
        long long left = ms_of(until) - ms_of(&now);
        real_clock(CLOCK_REALTIME, &slice);
        add_ms(&slice, left < 0 ? 0 : left < SLICE_MS ? left : SLICE_MS);
        int rc = real(cond, mutex, &slice);
        if (rc != thrd_timedout || left <= SLICE_MS)
            return rc;
    }
}
