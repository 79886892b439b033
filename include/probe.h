/* SPDX-License-Identifier: MIT */
/* Whether a dependency does what tallyd needs of it: a thread each, so that one
 * that's frozen holds up nobody else. Every interval the thread tries; a try
 * that's under way for longer than the time-out has failed at once, though the
 * thread still waits in it. Connections are its own, with waits no longer than the
 * time-out (whole seconds with MySQL, whose library counts in those). */
#ifndef TALLYD_PROBE_H
#define TALLYD_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "health.h"

/* A kind of dependency. */
struct probe_kind {
    const char *name;   /* "kafka" */
    const char *thread; /* its thread's, at most 15 characters */
    /* New state of one prober; `cfg` is borrowed. */
    void *(*open)(const struct config *cfg);
    /* Tries what is needed; the thread's. */
    bool (*attempt)(void *state, struct error *err);
    void (*close)(void *state);
};

struct probe; /* opaque; owned by whoever started it */

struct probe *probe_start(const struct probe_kind *kind, const struct config *cfg, struct error *err)
    __attribute__((warn_unused_result));
/* What is known now. Any thread. */
void probe_look(struct probe *p, struct health_dependency *out);
/* The kind's state, for what it has to tell besides. */
void *probe_state(struct probe *p);
/* Asks it to end. Any thread. */
void probe_stop(struct probe *p);
/* Waits for its end until the deadline (monotonic ms) and frees it. False: it didn't end in time; it's left
 * running, and what it has borrowed must stay. */
bool probe_join(struct probe *p, int64_t deadline_ms);

#endif
