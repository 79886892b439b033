/* SPDX-License-Identifier: MIT */
/* What `tallyd audit` finds out: whether what lies in MySQL, in Redis and on the
 * topics is what CONTRACT §5 promises. It reads only, takes no lock on any row,
 * and never calls a promise broken because of something still under way: what
 * can't be judged yet, or no more, is counted apart and its reason given. */
#ifndef TALLYD_AUDIT_H
#define TALLYD_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"

/* One row a question; audit_about() says which promise it belongs to. */
enum audit_kind {
    AUDIT_CUSTOMER_SUMS,
    AUDIT_FAMILY_SUMS,
    AUDIT_FAMILY_USED,
    AUDIT_BLOCK_FIGURES,
    AUDIT_BLOCK_BASES,
    AUDIT_CACHE,
    AUDIT_IDS,
    AUDIT_LEDGER,
    AUDIT_LEDGER_ROWS,
    AUDIT_COMMITTED,
    AUDIT_LAG,
    AUDIT_DLT,
    AUDIT_BLOCKS_TOLD,
    AUDIT_THRESHOLDS_TOLD,
    AUDIT_ALERTS,
    AUDIT_OUTBOX,
    AUDIT_STRANGERS,
    AUDIT_PENDING,
    AUDIT_FAILED,
    AUDIT_ORDER,
    AUDIT_PUBLISHED,
    AUDIT_PUBLISHED_ORDER,
    AUDIT_REPEATS,
    AUDIT_KINDS
};

struct audit_about {
    int promise;        /* of CONTRACT §5 */
    const char *name;   /* for people and machines: "customer sums" */
    const char *what;   /* what `looked` counts: "months of customers" */
    bool of_one_family; /* can be asked of one family alone */
};
const struct audit_about *audit_about(enum audit_kind kind);

#define AUDIT_NAMED 5

struct audit_finding {
    bool asked;               /* false: left out, as it isn't a question about the one family */
    int64_t looked;           /* how much was judged, the broken included */
    int64_t broken;           /* of these; for AUDIT_CACHE: entries that drifted */
    int64_t open;             /* what can't be judged, besides */
    int64_t noted;            /* breaks nothing, and somebody should look */
    char why[320];            /* of the first that is open, or "" */
    char detail[200];         /* further figures for people, or "" */
    char *named[AUDIT_NAMED]; /* owned: the first that are broken, else the first noted or open */
    size_t named_count;
};

enum audit_status {
    AUDIT_HOLDS,
    AUDIT_BROKEN,
    AUDIT_DRIFT, /* Redis: costs its worker a second try, and breaks no sum */
    AUDIT_NOTE,  /* holds, and somebody should look */
    AUDIT_OPEN,  /* nothing of it can be judged */
};
const char *audit_status_name(enum audit_status s);
enum audit_status audit_status(enum audit_kind kind, const struct audit_finding *f);

struct audit_report {
    struct audit_finding findings[AUDIT_KINDS];
    struct error kafka, redis; /* area ERROR_NONE: it answered; else what it said */
    bool known;                /* the family asked about, if one is, is in MySQL */
    int64_t in_flight;         /* records on the topic that aren't settled; -1: not known */
    int64_t dropped;           /* entries of Redis to be warmed anew, by fix_cache */
};

struct audit_options {
    int64_t family; /* 0: all */
    bool fix_cache;
};

/* Asks everything. False with an error when MySQL doesn't answer: without its snapshot there is nothing to
 * judge. Kafka's and Redis' errors leave their questions open. */
bool audit_run(const struct config *cfg, const struct audit_options *options, struct audit_report *r,
               struct error *err) __attribute__((warn_unused_result));
void audit_report_free(struct audit_report *r);

/* The first promise that is broken, 0 when none is. */
int audit_first_broken(const struct audit_report *r);

/* Used by the audit's own files: each counts one, and names it where there is room. */
void audit_break(struct audit_report *r, enum audit_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void audit_note(struct audit_report *r, enum audit_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Counts n that can't be judged; the first reason stays. */
void audit_leave_open(struct audit_report *r, enum audit_kind kind, int64_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Names one of those left open. */
void audit_name_open(struct audit_report *r, enum audit_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
