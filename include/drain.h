/* SPDX-License-Identifier: MIT */
/* When `--until-drained` is done: every partition is settled up to the end it
 * had at the start, and the outbox is empty. */
#ifndef TALLYD_DRAIN_H
#define TALLYD_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "worker.h"

struct drain;

/* Notes each partition's end as it is now. NULL with an error when Kafka can't
 * be asked or has no such topic. */
struct drain *drain_new(const struct config *cfg, struct error *err) __attribute__((warn_unused_result));
void drain_free(struct drain *d);

/* Sets `done`. Partitions of this process are judged by what it has settled,
 * those of other members by the group's committed offsets. */
bool drain_check(struct drain *d, struct worker *const *workers, size_t n, bool *done, struct error *err)
    __attribute__((warn_unused_result));

#endif
