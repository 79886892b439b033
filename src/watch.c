/* SPDX-License-Identifier: MIT */
#include "watch.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "log.h"

#define TICK_MS 100

struct watch {
    /* shared, under `lock` */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int signal;         /* the first to come; 0: none yet */
    bool reload;        /* SIGHUP came, and nobody has taken it */
    int64_t ends_at_ms; /* by when the shutdown has to be over; 0: it hasn't begun */
    bool over;
    /* set before the thread starts */
    sigset_t signals;
    int64_t deadline_ms;
    int late_code;
    pthread_t thread;
};

static void begin_shutdown(struct watch *w) {
    if (!w->ends_at_ms)
        w->ends_at_ms = clock_monotonic_ms() + w->deadline_ms;
}

/* What a signal means, under the lock. */
static void take_signal(struct watch *w, int signal) {
    if (w->over)
        return;
    if (signal == SIGHUP) { /* while it shuts down nobody takes it any more */
        w->reload = true;
        pthread_cond_broadcast(&w->changed);
        return;
    }
    if (w->ends_at_ms) {
        LOG(LOG_WARN, "stopped_at_once", LOG_S("reason", strsignal(signal)));
        log_flush();
        _exit(128 + signal);
    }
    w->signal = signal;
    begin_shutdown(w);
    pthread_cond_broadcast(&w->changed);
}

/* Under the lock: how long to wait for the next signal. */
static int64_t time_left(const struct watch *w) {
    int64_t left = w->ends_at_ms ? w->ends_at_ms - clock_monotonic_ms() : TICK_MS;
    if (left <= 0) {
        LOG(LOG_ERROR, "deadline_passed", LOG_I("deadline_ms", w->deadline_ms));
        log_flush();
        _exit(w->late_code);
    }
    return left < TICK_MS ? left : TICK_MS;
}

static void *watch_main(void *arg) {
    struct watch *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->over) {
        const struct timespec wait = clock_timespec(time_left(w));
        pthread_mutex_unlock(&w->lock);
        int signal = sigtimedwait(&w->signals, NULL, &wait);
        pthread_mutex_lock(&w->lock);
        if (signal > 0)
            take_signal(w, signal);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void watch_free(struct watch *w) {
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

struct watch *watch_start(int64_t deadline_ms, int late_code, struct error *err) {
    struct watch *w = mem_zero(1, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    clock_cond_init(&w->changed);
    w->deadline_ms = deadline_ms;
    w->late_code = late_code;
    sigemptyset(&w->signals);
    sigaddset(&w->signals, SIGTERM);
    sigaddset(&w->signals, SIGINT);
    sigaddset(&w->signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &w->signals, NULL);
    int rc = pthread_create(&w->thread, NULL, watch_main, w);
    if (rc == 0)
        return w;
    error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, rc, "watch: thread: %s", strerror(rc));
    watch_free(w);
    return NULL;
}

int watch_wait(struct watch *w, int64_t ms) {
    struct timespec until = clock_timespec(clock_monotonic_ms() + ms);
    pthread_mutex_lock(&w->lock);
    while (!w->signal && !w->reload && pthread_cond_timedwait(&w->changed, &w->lock, &until) == 0)
        ;
    int signal = w->signal;
    pthread_mutex_unlock(&w->lock);
    return signal;
}

bool watch_take_reload(struct watch *w) {
    pthread_mutex_lock(&w->lock);
    bool reload = w->reload;
    w->reload = false;
    pthread_mutex_unlock(&w->lock);
    return reload;
}

int64_t watch_deadline(struct watch *w) {
    pthread_mutex_lock(&w->lock);
    begin_shutdown(w);
    int64_t at = w->ends_at_ms;
    pthread_mutex_unlock(&w->lock);
    return at;
}

void watch_end(struct watch *w) {
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->over = true;
    pthread_mutex_unlock(&w->lock);
    pthread_kill(w->thread, SIGINT); /* it waits for one */
    pthread_join(w->thread, NULL);
    watch_free(w);
}
