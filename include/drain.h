/* SPDX-License-Identifier: MIT */
/* When `--until-drained` is done: every partition is settled up to the end it
 * had at the start, and the outbox is empty. A paused partition isn't waited for. */
#ifndef TALLYD_DRAIN_H
#define TALLYD_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "pauses.h"
#include "worker.h"

struct drain;

/* Notes each partition's end as it is now. NULL with an error when Kafka can't
 * be asked or has no such topic. */
struct drain *drain_new(const struct config *cfg, struct error *err) __attribute__((warn_unused_result));
void drain_free(struct drain *d);

enum drain_state {
    DRAIN_ON,     /* something isn't settled or told yet */
    DRAIN_DONE,   /* all is */
    DRAIN_PAUSED, /* all is, but for what lies on partitions that an operator paused: nobody will settle that
                   */
};

/* Says how far it is; DRAIN_ON with an error when somebody can't be asked. Partitions of this process are
 * judged by what it has settled, those of other members, or of nobody yet, by the lower of the group's
 * committed offset and the ledger's. */
enum drain_state drain_check(struct drain *d, struct worker *const *workers, size_t n, struct pauses *pauses,
                             struct error *err);
/* After DRAIN_PAUSED: says in the log which partitions are left, and as "1,4" in `out`. */
void drain_say_paused(const struct drain *d, char *out, size_t size);

#endif
