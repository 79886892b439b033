/* SPDX-License-Identifier: MIT */
/* What a process counts and measures: one table (src/metrics_table.c) gives each
 * metric its name, kind, labels, unit and meaning; Prometheus' text and README's
 * table are made from it. Any thread may add and observe: cells are atomics.
 * A label never names a customer, a family or an event: its values are few. */
#ifndef TALLYD_METRICS_H
#define TALLYD_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "batch.h"
#include "buf.h"
#include "event.h"

enum metric {
    /* counted where it happens */
    METRIC_EVENTS,    /* by metric_outcome(): records, as the ledger counts them or again when read again */
    METRIC_DECISIONS, /* by metric_decision(): events settled or blocked */
    METRIC_ALERTS,    /* by metric_alert(): alerts stored */
    METRIC_DLT,       /* by reject_code: records the broker has acknowledged */
    METRIC_CAME_BACK, /* settlements refused because MySQL's figures or ids differed */
    METRIC_REDECIDED, /* by enum came_back: families' months decided again */
    METRIC_WARMUPS,   /* by enum metric_warmup: families' months read from MySQL */
    METRIC_RETRIES,   /* by enum metric_retry: what was tried again */
    METRIC_REFUSED,   /* settlements whose data MySQL refused */
    METRIC_FENCED,    /* batches dropped because the partition is somebody else's */
    METRIC_MISPLACED_KEY, /* records whose key isn't their familyId */
    METRIC_REBALANCES,    /* by enum metric_rebalance */
    METRIC_PUBLISHED,     /* notifications acknowledged and marked SENT */
    METRIC_PUBLISH_FAILED,
    METRIC_MAINTAINED,    /* by enum metric_maintained: rows deleted */
    METRIC_HTTP_REQUESTS, /* by metric_http() */
    /* measured where it happens; seconds are observed in microseconds */
    METRIC_BATCH_EVENTS,   /* records a batch, of those settled */
    METRIC_COMMIT_LATENCY, /* events settled or blocked */
    METRIC_SCRIPT_DURATION,
    METRIC_TRANSACTION_DURATION,
    METRIC_PUBLISH_LATENCY,
    /* asked for when somebody looks: metrics_sample() */
    METRIC_LAG, /* by partition, as the next two */
    METRIC_PROGRESS_AGE,
    METRIC_PAUSED_AGE,
    METRIC_PARTITIONS,
    METRIC_OUTBOX_PENDING,
    METRIC_OUTBOX_AGE,
    METRIC_OUTBOX_FAILED,
    METRIC_DEPENDENCY_UP,
    METRIC_STATE,
    METRIC_LOG_LOST,
    METRIC_BUILD_INFO,
    METRIC_PROCESS_START,
    METRIC_PROCESS_CPU,
    METRIC_PROCESS_MEMORY,
    METRIC_PROCESS_FDS,
    METRIC_COUNT
};

enum metric_warmup {
    METRIC_WARMUP_COLD,      /* Redis had no whole entry, or one too old */
    METRIC_WARMUP_CAME_BACK, /* a settlement was refused */
};
enum metric_retry {
    METRIC_RETRY_DEADLOCK,
    METRIC_RETRY_LOCK_WAIT,
    METRIC_RETRY_MYSQL, /* away, read-only, a fault of its own: settling, looking up, claiming, publishing */
    METRIC_RETRY_REDIS,
    METRIC_RETRY_KAFKA, /* writing to the DLT or the notification topic, asking for offsets */
};
enum metric_rebalance { METRIC_REBALANCE_ASSIGNED, METRIC_REBALANCE_REVOKED, METRIC_REBALANCE_LOST };
enum metric_maintained { METRIC_MAINTAINED_OUTBOX, METRIC_MAINTAINED_RECORD, METRIC_MAINTAINED_BLOCK };

/* Labels that are made of more than one enum's values, and how many there are. */
#define METRIC_OUTCOMES (OUTCOME_BLOCKED + 1 + REJECT_SETTLEMENT_REJECTED + 1)
size_t metric_outcome(enum outcome outcome, enum reject_code code);
#define METRIC_STATUSES (STATUS_FAMILY_QUOTA_EXCEEDED + 1 + 100)
size_t metric_decision(enum decision_status status, int threshold);
/* The kind of alert that a decision calls for; of any but STATUS_NORMAL. */
size_t metric_alert(enum decision_status status);
/* `path` is one of the fixed ones, by its number; `code` an HTTP status. */
size_t metric_http(size_t path, int code);

struct metrics; /* opaque; owned by whoever made it */

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);
/* Shows a label's value also before it has happened, as those always are that are sure to be possible: an
 * alarm goes by the increase, which needs a first 0. Before any thread uses it. */
void metrics_expect(struct metrics *m, enum metric id, size_t label);

/* Counts. `label` is 0 for a metric without labels. */
void metrics_add(struct metrics *m, enum metric id, size_t label, int64_t n);
/* The same for all labels at once: `n` has one number a label. */
void metrics_add_each(struct metrics *m, enum metric id, const int64_t *n);
/* Adds a measurement: microseconds, or the number itself where the unit isn't seconds. Below zero counts as
 * 0. */
void metrics_observe(struct metrics *m, enum metric id, int64_t value);

int64_t metrics_get(const struct metrics *m, enum metric id, size_t label);
/* Over all labels; of a histogram the number of measurements. */
int64_t metrics_total(const struct metrics *m, enum metric id);

/* A histogram as it stands, for quantiles over a window: the difference of two. */
#define METRIC_BUCKETS_MAX 24
struct metric_histogram {
    int64_t buckets[METRIC_BUCKETS_MAX + 1]; /* not cumulative; the last used is what lies above all bounds */
    int64_t count;
    double sum; /* a replay measures years, of millions of events */
};
void metrics_histogram(const struct metrics *m, enum metric id, struct metric_histogram *out);
/* Measurements gathered by one thread, and added in one go. */
void metric_histogram_add(struct metric_histogram *h, enum metric id, int64_t value);
void metrics_merge(struct metrics *m, enum metric id, const struct metric_histogram *h);
/* The value below which a share `q` (0 … 1) of what was measured between two looks lies, interpolated within
 * its bucket, in the unit of metrics_observe; -1 when nothing was. What lies above all bounds counts as the
 * highest bound. */
double metrics_quantile(enum metric id, const struct metric_histogram *before,
                        const struct metric_histogram *now, double q);

/* What is looked at now: `labels` is the text between the braces, "" for none; copied. */
struct metrics_samples {
    struct metrics_sample *items; /* owned */
    size_t count, capacity;
};
void metrics_sample(struct metrics_samples *s, enum metric id, const char *labels, double value);
void metrics_samples_free(struct metrics_samples *s);

/* Appends Prometheus' text format 0.0.4: every metric of the table that has a value. */
void metrics_render(const struct metrics *m, const struct metrics_samples *samples, struct buf *out);
/* The value of a label as it must stand between quotation marks. */
void metrics_label_value(struct buf *out, const char *text);

/* The table itself: a page for people, or Markdown: name, kind, labels, meaning. */
void metrics_print_table(FILE *out, bool markdown);

#endif
