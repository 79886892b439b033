/* SPDX-License-Identifier: MIT */
/* What one attempt to settle a batch writes: settle.c derives it from the batch,
 * settle_write.c writes it, and it's dropped with the attempt. */
#ifndef TALLYD_SETTLE_INTERNAL_H
#define TALLYD_SETTLE_INTERNAL_H

#include "settle.h"

struct family_row {
    int64_t family;
    int32_t month;
    size_t group;
    int64_t total, base, end;
};

struct customer_row {
    int64_t family, customer;
    int32_t month;
    size_t group;
    int64_t base, end;
    const struct batch_event *state; /* decides the block state: the latest by event time */
};

struct attempt {
    struct batch *b;
    size_t *live; /* decided events that are to be written, in order */
    size_t live_count;
    size_t *by_id; /* the same: the allowed ones by id, then the blocked ones by id */
    size_t allowed_count;
    struct family_row *families; /* by (family, month) */
    size_t family_count;
    struct customer_row *customers; /* by (family, customer, month) */
    size_t customer_count;
    int64_t now_ms; /* the database's clock */
};

/* Step 2: `*fresh` says whether every id was new, in both tables. */
bool settle_write_ids(struct settle *s, const struct attempt *a, bool *fresh, struct error *err)
    __attribute__((warn_unused_result));
/* Step 3: `*valid` says whether all figures were the ones decided on, and so written. */
bool settle_write_quotas(struct settle *s, const struct attempt *a, bool *valid, struct error *err)
    __attribute__((warn_unused_result));

#endif
