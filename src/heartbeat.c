/* SPDX-License-Identifier: MIT */
#include "heartbeat.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "clock.h"

#define IDLE INT64_MAX

struct heart {
    /* shared, under `lock` */
    bool taken;
    char name[HEARTBEAT_NAME_MAX];
    /* any thread */
    atomic_int_fast64_t at_ms; /* the last beat, or IDLE */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct heart hearts[HEARTBEAT_THREADS_MAX];
static _Thread_local struct heart *own;

void heartbeat_begin(const char *name, int number) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < HEARTBEAT_THREADS_MAX && !own; i++) {
        if (!hearts[i].taken)
            own = &hearts[i];
    }
    if (own) {
        own->taken = true;
        if (number < 0)
            snprintf(own->name, sizeof own->name, "%s", name);
        else
            snprintf(own->name, sizeof own->name, "%s-%d", name, number);
        atomic_store(&own->at_ms, clock_monotonic_ms());
    }
    pthread_mutex_unlock(&lock);
}

void heartbeat_beat(void) {
    if (own)
        atomic_store_explicit(&own->at_ms, clock_monotonic_ms(), memory_order_relaxed);
}

void heartbeat_idle(void) {
    if (own)
        atomic_store_explicit(&own->at_ms, IDLE, memory_order_relaxed);
}

void heartbeat_end(void) {
    if (!own)
        return;
    pthread_mutex_lock(&lock);
    own->taken = false;
    own = NULL;
    pthread_mutex_unlock(&lock);
}

size_t heartbeat_silent(int64_t now_ms, int64_t longer_than_ms, struct heartbeat_silence *out, size_t max) {
    size_t n = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < HEARTBEAT_THREADS_MAX && n < max; i++) {
        int64_t at = atomic_load(&hearts[i].at_ms);
        if (!hearts[i].taken || at == IDLE || now_ms - at <= longer_than_ms)
            continue;
        snprintf(out[n].thread, sizeof out[n].thread, "%s", hearts[i].name);
        out[n++].for_ms = now_ms - at;
    }
    pthread_mutex_unlock(&lock);
    return n;
}
