/* SPDX-License-Identifier: MIT */
/* What a running daemon tells of itself: it watches the threads, the
 * dependencies and the partitions, and serves what it knows over HTTP. */
#ifndef TALLYD_MONITOR_H
#define TALLYD_MONITOR_H

#include <stdbool.h>

#include "config.h"
#include "error.h"
#include "metrics.h"

struct monitor; /* opaque; owned by whoever started it */

/* All borrowed. */
struct monitor_setup {
    const struct config *cfg;
    struct metrics *metrics;
};

struct monitor *monitor_start(const struct monitor_setup *setup, struct error *err)
    __attribute__((warn_unused_result));
void monitor_stop(struct monitor *m);

#endif
