/* SPDX-License-Identifier: MIT */
/* What MySQL holds of some families, kept in memory, and the decisions that
 * follow from it in order (CONTRACT §2): what Redis and the script do, without
 * them. Rules are MySQL's too. */
#ifndef BENCH_FIGURES_H
#define BENCH_FIGURES_H

#include "batch.h"
#include "bench.h"
#include "mysql_db.h"

struct bench_figures;

/* Both are borrowed. */
struct bench_figures *bench_figures_new(const struct config *cfg, struct db *db);
void bench_figures_free(struct bench_figures *f);

/* Reads what isn't there yet of the batch's families. */
bool bench_figures_load(struct bench_figures *f, const struct batch *b, struct error *err)
    __attribute__((warn_unused_result));
/* Decides an event. False where it can't be: no member, no quota in its month, a rule that can't be read. */
bool bench_figures_decide(struct bench_figures *f, const struct usage_event *u, struct decision *out);

#endif
