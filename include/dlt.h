/* SPDX-License-Identifier: MIT */
/* The dead letter topic: rejected records with their reason (CONTRACT §1.2). */
#ifndef TALLYD_DLT_H
#define TALLYD_DLT_H

#include <stdbool.h>

#include "batch.h"
#include "config.h"
#include "error.h"
#include "metrics.h"

struct dlt; /* one a settler; makes its producer when first needed */

/* Both are borrowed. */
struct dlt *dlt_new(const struct config *cfg, struct metrics *metrics);
/* Drops what isn't acknowledged: only batches that aren't settled have such records. */
void dlt_free(struct dlt *d);

/* Ends the waiting for acknowledgements, now and later, as it also ends when the
 * batch's assignment is lost: then dlt_write fails at once. Any thread. */
void dlt_abandon(struct dlt *d);

/* Writes the rejected records of the batch that aren't acknowledged yet and waits
 * for the acks. `twins`: also those judged by an earlier record of the batch,
 * whose own fate must be sure by then. False when one couldn't be written:
 * nothing is lost, call again. */
bool dlt_write(struct dlt *d, struct batch *b, bool twins, struct error *err)
    __attribute__((warn_unused_result));

/* Removes the headers that a record gets when it's rejected. */
void dlt_headers_remove(rd_kafka_headers_t *h);

#endif
