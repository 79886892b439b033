/* SPDX-License-Identifier: MIT */
/* The generator: families, rules and events of every kind, from a seed. It
 * drives a model of its own while it writes, so that it knows what is left and
 * can hit a line exactly. One run has one right outcome: within a phase the
 * records that decide a family lie on one partition, and what lies on several
 * belongs to families whose events may come in any order, or was decided in an
 * earlier phase. */
#ifndef MODEL_MAKE_H
#define MODEL_MAKE_H

#include <stdbool.h>
#include <stdint.h>

struct model_size {
    uint64_t seed;
    int families;
    int events;
    int phases;
    int partitions;
    int64_t base_ms; /* the newest records carry about this time */
    bool floor;      /* months are closed too; a daemon that runs then sees it from its second batch on */
    bool refuse;     /* MySQL refuses some events' data */
};

/* Writes the folder (model_world.h); the same size gives the same bytes. */
void model_make(const char *dir, const struct model_size *size);

#endif
