/* SPDX-License-Identifier: MIT */
/* What metrics.c (counting, rendering) has from metrics_table.c (which metrics there are). */
#ifndef TALLYD_METRICS_INTERNAL_H
#define TALLYD_METRICS_INTERNAL_H

#include "metrics.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_row {
    const char *name;
    enum metric_kind kind;
    const char *labels; /* their names, as README shows them; "" for none */
    /* Of a counted metric: how many label values there are, and how each is written (`outcome="settled"`). */
    size_t count;
    void (*label)(struct buf *out, size_t i);
    bool shown_at_zero;    /* also label values that never happened: alarms go by their increase */
    const int64_t *bounds; /* of a histogram, ascending, ended by 0; in the unit of metrics_observe */
    bool seconds;          /* observed in microseconds, shown in seconds */
    const char *help;
};

extern const struct metric_row metric_rows[METRIC_COUNT];

#endif
