/* SPDX-License-Identifier: MIT */
/* The order in which the stores are read is what keeps a living system from looking broken:
 *
 *  1. Kafka's committed offsets, and how far the topics reach. Whatever they say was caused by commits that
 * lie before the snapshot: a committed offset follows its settlement, a notification its outbox row. So a
 * committed offset above the snapshot's ledger, or a notification the snapshot's outbox doesn't know, is
 * wrong.
 *  2. The snapshot: all of MySQL as of one commit. Its sums need no rest.
 *  3. How far the topics reach now. Whatever the snapshot says was caused by acknowledgements that lie before
 * it: SENT follows the broker's, and a counted rejection the DLT's. So they must be there by now.
 *  4. Redis, last, since it has no snapshot: decisions run ahead of settlements. What differs is looked at
 * again with fresh figures of MySQL's until everything that was in flight at the first look is settled. */
#include "audit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_internal.h"

/* Aggregates may take their time, and meanwhile the connection is silent. A snapshot that is forgotten makes
 * the server keep old versions of rows, so it ends with its process or after this. */
#define PATIENCE_MS 600000

static const struct audit_about abouts[AUDIT_KINDS] = {
    [AUDIT_CUSTOMER_SUMS] = {1, "customer sums", "months of customers", true},
    [AUDIT_FAMILY_SUMS] = {1, "family sums", "months of families", true},
    [AUDIT_FAMILY_USED] = {2, "quota kept", "months of families", true},
    [AUDIT_BLOCK_FIGURES] = {2, "block figures", "blocked events", true},
    [AUDIT_BLOCK_BASES] = {2, "block bases", "customers' last blocked events", true},
    [AUDIT_CACHE] = {2, "redis", "entries", true},
    [AUDIT_IDS] = {3, "decided once", "event ids", true},
    [AUDIT_LEDGER] = {4, "ledger", "partitions", false},
    [AUDIT_LEDGER_ROWS] = {4, "ledger rows", "partitions", false},
    [AUDIT_COMMITTED] = {4, "committed offsets", "partitions", false},
    [AUDIT_LAG] = {4, "in flight", "partitions", false},
    [AUDIT_DLT] = {4, "rejections", "rejected records", false},
    [AUDIT_BLOCKS_TOLD] = {5, "blocks told", "first blocks of their kind", true},
    [AUDIT_THRESHOLDS_TOLD] = {5, "thresholds told", "customers below a threshold", true},
    [AUDIT_ALERTS] = {5, "alerts", "alerts", true},
    [AUDIT_OUTBOX] = {5, "outbox", "outbox rows", true},
    [AUDIT_STRANGERS] = {5, "notifications", "notifications on the topic", true},
    [AUDIT_PENDING] = {6, "pending", "outbox rows", true},
    [AUDIT_FAILED] = {6, "failed", "outbox rows", true},
    [AUDIT_ORDER] = {6, "order of sending", "outbox rows", true},
    [AUDIT_PUBLISHED] = {6, "published", "notifications of the outbox", true},
    [AUDIT_PUBLISHED_ORDER] = {6, "order on the topic", "notifications", true},
    [AUDIT_REPEATS] = {7, "repeats", "duplicates", false},
};

const struct audit_about *audit_about(enum audit_kind kind) {
    return &abouts[kind];
}

const char *audit_status_name(enum audit_status s) {
    static const char *const names[] = {"holds", "broken", "drift", "note", "open"};
    return names[s];
}

enum audit_status audit_status(enum audit_kind kind, const struct audit_finding *f) {
    if (f->broken)
        return kind == AUDIT_CACHE ? AUDIT_DRIFT : AUDIT_BROKEN;
    if (f->noted)
        return AUDIT_NOTE;
    return f->open && !f->looked ? AUDIT_OPEN : AUDIT_HOLDS;
}

int audit_first_broken(const struct audit_report *r) {
    for (int k = 0; k < AUDIT_KINDS; k++) {
        if (audit_status((enum audit_kind)k, &r->findings[k]) == AUDIT_BROKEN)
            return abouts[k].promise;
    }
    return 0;
}

/* ---- findings ---- */

static void name_one(struct audit_finding *f, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

static void name_one(struct audit_finding *f, const char *fmt, va_list ap) {
    char text[512];
    if (f->named_count == AUDIT_NAMED)
        return;
    vsnprintf(text, sizeof text, fmt, ap);
    f->named[f->named_count++] = mem_strdup(text);
}

static void forget_names(struct audit_finding *f) {
    while (f->named_count)
        free(f->named[--f->named_count]);
}

void audit_break(struct audit_report *r, enum audit_kind kind, const char *fmt, ...) {
    struct audit_finding *f = &r->findings[kind];
    va_list ap;
    if (f->broken++ == 0)
        forget_names(f);
    va_start(ap, fmt);
    name_one(f, fmt, ap);
    va_end(ap);
}

void audit_note(struct audit_report *r, enum audit_kind kind, const char *fmt, ...) {
    struct audit_finding *f = &r->findings[kind];
    va_list ap;
    if (f->noted++ == 0 && f->broken == 0)
        forget_names(f);
    va_start(ap, fmt);
    if (f->broken == 0)
        name_one(f, fmt, ap);
    va_end(ap);
}

void audit_leave_open(struct audit_report *r, enum audit_kind kind, int64_t n, const char *fmt, ...) {
    struct audit_finding *f = &r->findings[kind];
    va_list ap;
    va_start(ap, fmt);
    if (f->open == 0)
        vsnprintf(f->why, sizeof f->why, fmt, ap);
    va_end(ap);
    f->open += n;
}

void audit_name_open(struct audit_report *r, enum audit_kind kind, const char *fmt, ...) {
    struct audit_finding *f = &r->findings[kind];
    va_list ap;
    va_start(ap, fmt);
    if (f->broken == 0 && f->noted == 0)
        name_one(f, fmt, ap);
    va_end(ap);
}

void audit_report_free(struct audit_report *r) {
    for (int k = 0; k < AUDIT_KINDS; k++)
        forget_names(&r->findings[k]);
    *r = (struct audit_report){0};
}

/* ---- the whole ---- */

struct audit_partition *audit_partition(struct audit *a, int32_t id) {
    for (size_t i = 0; i < a->partition_count; i++) {
        if (a->partitions[i].id == id)
            return &a->partitions[i];
    }
    a->partitions = mem_realloc(a->partitions, (a->partition_count + 1) * sizeof *a->partitions);
    a->partitions[a->partition_count] = (struct audit_partition){.id = id, .committed = -1, .end = -1};
    return &a->partitions[a->partition_count++];
}

/* What isn't seen by looking once; were it broken, the others would show it. */
static void repeats(struct audit *a) {
    struct audit_finding *f = &a->r->findings[AUDIT_REPEATS];
    int first = audit_first_broken(a->r);
    for (size_t i = 0; i < a->partition_count; i++)
        f->looked += a->partitions[i].duplicate;
    if (first == 1 || first == 3) {
        audit_leave_open(a->r, AUDIT_REPEATS, f->looked, "sums or ids are broken, perhaps by a repeat");
        f->looked = 0;
    } else {
        snprintf(f->detail, sizeof f->detail, "none has a row of its own (3), none moved a sum (1)");
    }
}

static bool judge(struct audit *a, struct error *err) {
    if (!audit_mysql_oldest(a, err))
        return false;
    audit_kafka_before(a);
    if (!audit_mysql_start(a, err))
        return false;
    audit_kafka_after(a);
    audit_topic_sort(a);
    if (!audit_mysql_read(a, err))
        return false;
    audit_topic_strangers(a);
    if (a->options.family == 0) {
        audit_topic_ledger(a);
        audit_topic_dlt(a);
    }
    return audit_redis(a, err);
}

bool audit_run(const struct config *cfg, const struct audit_options *options, struct audit_report *r,
               struct error *err) {
    struct audit a = {.cfg = cfg, .options = *options, .r = r, .patient = *cfg};
    a.patient.mysql.timeout_ms = PATIENCE_MS;
    a.patient.mysql.session_wait_timeout_ms = PATIENCE_MS;
    a.db = db_new(&a.patient, DB_REPEATABLE_READ);
    *r = (struct audit_report){.in_flight = -1};
    for (int k = 0; k < AUDIT_KINDS; k++)
        r->findings[k].asked = options->family == 0 || abouts[k].of_one_family;
    bool ok = judge(&a, err);
    if (ok && options->family == 0)
        repeats(&a);
    audit_kafka_close(&a);
    db_free(a.db);
    free(a.partitions);
    free(a.notices);
    free(a.rejections);
    return ok;
}
