/* SPDX-License-Identifier: MIT */
/* Which of the counted causes made something be tried again. */
#ifndef TALLYD_RETRY_H
#define TALLYD_RETRY_H

#include "error.h"
#include "metrics.h"

/* Counts a try that is made after `err`; nothing without an error, and nothing for one that isn't a
 * dependency's. */
void retry_count(struct metrics *m, const struct error *err);

#endif
