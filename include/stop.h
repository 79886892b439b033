/* SPDX-License-Identifier: MIT */
/* How a thread that does something now and then is told to end: it pauses here,
 * whoever asks wakes it, and whoever waits for its end does so until a deadline.
 * What the thread shares besides has a lock of its own. */
#ifndef TALLYD_STOP_H
#define TALLYD_STOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct stop {
    /* shared, under `lock` */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool asked, done;
};

void stop_init(struct stop *s);
void stop_deinit(struct stop *s);
/* Asks it to end. Any thread. */
void stop_ask(struct stop *s);
/* Pauses until then (monotonic ms), or until it's asked to end; returns whether it is. The thread's. */
bool stop_asked_by(struct stop *s, int64_t at_ms);
/* It has ended, but for its return. The thread's, last of all. */
void stop_done(struct stop *s);
/* Waits for that until the deadline (monotonic ms), which is also enough for joining it. False: it didn't end
 * in time. */
bool stop_wait(struct stop *s, int64_t deadline_ms) __attribute__((warn_unused_result));

#endif
