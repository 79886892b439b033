/* SPDX-License-Identifier: MIT */
/* Signs of life. A thread that is watched beats in its loops, those in which it
 * only waits included, and every statement and pipeline to a store is a beat
 * (mysql_db.c, redis.c): so it's silent for no longer than a single call may
 * take. One that waits for work without a limit says that it's idle. As with the
 * log there is one list a process, and a thread finds itself in it. */
#ifndef TALLYD_HEARTBEAT_H
#define TALLYD_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEARTBEAT_THREADS_MAX 160 /* 64 workers with a settler each, and some */
#define HEARTBEAT_NAME_MAX 24

/* The calling thread is watched from now on, as NAME or, from 0, NAME-NUMBER. */
void heartbeat_begin(const char *name, int number);
/* It's alive. Nothing in a thread that isn't watched. Called before each call that waits, so that the longest
 * silence is one such call: what config_keys.c holds health.hung_after_ms against. */
void heartbeat_beat(void);
/* It waits for work, for however long: its silence means nothing until the next beat. */
void heartbeat_idle(void);
/* It isn't watched any more. */
void heartbeat_end(void);

struct heartbeat_silence {
    char thread[HEARTBEAT_NAME_MAX];
    int64_t for_ms;
};
/* Threads silent for longer than `longer_than_ms` at `now_ms` (monotonic), at most `max`; returns how many.
 * Any thread. */
size_t heartbeat_silent(int64_t now_ms, int64_t longer_than_ms, struct heartbeat_silence *out, size_t max);

#endif
