/* SPDX-License-Identifier: MIT */
/* What metrics.c (counting, rendering) has from metrics_table.c (which metrics there are). */
#ifndef TALLYD_METRICS_INTERNAL_H
#define TALLYD_METRICS_INTERNAL_H

#include "metrics.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_row {
    const char *name;
    const char *help;
    enum metric_kind kind;
    const char *labels; /* their names, as README shows them; NULL for none */
    /* Of a counter how many label values there are, 0 for one that is sampled, and how each is written
     * (`outcome="settled"`): nothing for a value that can't be. */
    size_t count;
    void (*label)(struct buf *out, size_t i);
    size_t expected;       /* so many of them, the first ones, are shown before they have happened */
    const int64_t *bounds; /* of a histogram, ascending, ended by 0; in the unit of metrics_observe */
    bool seconds;          /* observed in microseconds, shown in seconds */
};

extern const struct metric_row metric_rows[METRIC_COUNT];

#endif
