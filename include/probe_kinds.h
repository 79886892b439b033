/* SPDX-License-Identifier: MIT */
/* What is tried of each dependency, and what that tells besides. None of it
 * changes anything.
 *
 * kafka  the three topics are there for us, and the ends of the partitions we have
 * redis  the decision script itself, for a family that's never there, and a write that finds nothing to
 * change: what a server that answers may refuse mysql  the group's ledger and the outbox; the server isn't
 * read-only */
#ifndef TALLYD_PROBE_KINDS_H
#define TALLYD_PROBE_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe.h"

extern const struct probe_kind probe_kafka, probe_redis, probe_mysql;

/* Which partitions' ends are asked for from the next try on. Any thread. */
void probe_kafka_follow(void *state, const int32_t *ids, size_t n);
/* The end of a partition's log as last seen; -1: not seen yet. Any thread. */
int64_t probe_kafka_end(void *state, int32_t id);

#define PROBE_OUTBOX_MAX 100000 /* rows are counted up to here */

struct probe_outbox {
    bool known;
    int64_t pending, failed; /* at most PROBE_OUTBOX_MAX: that many, or more */
    int64_t oldest_age_ms;   /* of those pending; 0: there are none */
};
/* The outbox as last seen. Any thread. */
void probe_mysql_outbox(void *state, struct probe_outbox *out);

#endif
