/* SPDX-License-Identifier: MIT */
#include "stop.h"

#include <time.h>

#include "clock.h"

void stop_init(struct stop *s) {
    pthread_mutex_init(&s->lock, NULL);
    clock_cond_init(&s->changed);
    s->asked = s->done = false;
}

void stop_deinit(struct stop *s) {
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

static void set(struct stop *s, bool *what) {
    pthread_mutex_lock(&s->lock);
    *what = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static bool wait_for(struct stop *s, const bool *what, int64_t until_ms) {
    struct timespec until = clock_timespec(until_ms);
    pthread_mutex_lock(&s->lock);
    while (!*what && pthread_cond_timedwait(&s->changed, &s->lock, &until) == 0)
        ;
    bool is = *what;
    pthread_mutex_unlock(&s->lock);
    return is;
}

void stop_ask(struct stop *s) {
    set(s, &s->asked);
}

bool stop_asked_by(struct stop *s, int64_t at_ms) {
    return wait_for(s, &s->asked, at_ms);
}

void stop_done(struct stop *s) {
    set(s, &s->done);
}

bool stop_wait(struct stop *s, int64_t deadline_ms) {
    return wait_for(s, &s->done, deadline_ms);
}
