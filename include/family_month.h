/* SPDX-License-Identifier: MIT */
/* A family's month as commands show it: what MySQL holds, by one view of it, and what Redis holds of the
 * same. Of the whole family, or of one customer in it. Writes nothing. */
#ifndef TALLYD_FAMILY_MONTH_H
#define TALLYD_FAMILY_MONTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "mysql_db.h"
#include "policy.h"
#include "redis.h"

/* How an entry of Redis stands to MySQL's figures. */
enum family_cache {
    FAMILY_CACHE_UNASKED,
    FAMILY_CACHE_COLD,        /* nothing there that the script would use: it promises nothing */
    FAMILY_CACHE_OTHER_TOTAL, /* of a total that others have changed since */
    FAMILY_CACHE_AGREES,
    FAMILY_CACHE_DIFFERS, /* decided and not settled yet, or drifted: `tallyd audit` tells which */
};
/* "cold", "other total" … for people and machines. */
const char *family_cache_name(enum family_cache c);

struct family_member {
    int64_t customer;
    bool is_member;            /* false: has figures of the month, and isn't in the family any more */
    bool has_row;              /* of customer_quota; without it nothing is used yet */
    int64_t used;              /* monthly_used_bytes */
    char *blocked;             /* owned: the reason; NULL: not blocked */
    int64_t state_ms;          /* the time of the event that the block state is of; 0: none */
    struct policy_rules rules; /* that apply now */
    bool has_cached;
    int64_t cached_used;
};

struct family_alert {
    int64_t customer;
    char *alert, *event_id; /* owned */
    int64_t total, remaining, told_ms;
    bool only_marked; /* a higher threshold, marked as told when its event told a lower one */
};

/* A row of the outbox. */
struct family_letter {
    int64_t outbox_id, family, customer, created_ms;
    char *event_id, *status, *payload, *last_error; /* owned; last_error may be NULL */
    int64_t retry_count;
    int64_t next_retry_ms, lease_until_ms, sent_ms; /* 0: none */
    int64_t lease_owner;                            /* 0: none */
    bool leased;                                    /* by the database's clock, now */
};

#define FAMILY_LETTERS_MAX 20

struct family_month {
    int64_t family, only_customer; /* only_customer 0: all */
    int32_t month;
    bool known;   /* there's a row of it in `family` or `family_quota` */
    char *name;   /* owned; NULL: `family` has no such row */
    bool has_row; /* of family_quota, for this month */
    int32_t
        total_of; /* the month whose row says the total: an earlier one where it's carried over, 0: none */
    int64_t total, used;
    struct family_member *members; /* by customer */
    size_t member_count;
    struct family_alert *alerts; /* in the order told */
    size_t alert_count;
    struct family_letter *letters; /* that wait, the first FAMILY_LETTERS_MAX */
    size_t letter_count;
    int64_t pending, failed; /* rows of the outbox */
    /* Redis */
    enum family_cache cache; /* of the family's figure and all members' */
    bool has_cached;         /* an entry that the script would use */
    char *gen;               /* owned: the warming it's of; NULL without one */
    int64_t cached_total, cached_remaining, warmed_s;
};

/* Reads it: one snapshot, of its own. Give it to family_month_free in any
 * case. */
bool family_month_read(struct db *db, int64_t family, int64_t customer, int32_t month, struct family_month *m,
                       struct error *err) __attribute__((warn_unused_result));
/* Asks Redis for the same figures, and compares. */
bool family_month_ask_cache(struct redis *redis, const struct config *cfg, struct family_month *m,
                            struct error *err) __attribute__((warn_unused_result));
void family_month_free(struct family_month *m);

/* The member of that number, or NULL. */
const struct family_member *family_month_member(const struct family_month *m, int64_t customer);

/* Rows of the outbox `where` (SQL behind WHERE), in their order; a new array of `*n`. */
bool family_letters_read(struct db *db, const struct buf *where, struct family_letter **letters, size_t *n,
                         struct error *err) __attribute__((warn_unused_result));
void family_letters_free(struct family_letter *letters, size_t n);

/* Pure: marks those alerts of which another one of the same event was told. */
void family_alerts_mark(struct family_alert *alerts, size_t n);
/* Pure: total - used. Exact for what the columns hold, both 0 and more; beyond it the nearest there is. */
int64_t family_left(const struct family_month *m);
/* Pure: tenths of a percent of the total, cut; 0 where nothing is left, or of no total. */
int64_t family_tenths_left(int64_t total, int64_t left);
/* Pure: whether events are decided by this total; by others they are rejected (CONTRACT §1.1 rule 9). */
bool family_total_decides(int64_t total);
/* Pure: a - b in digits. Exact: Redis may hold any number. */
#define FAMILY_DIFFERENCE_SIZE 24
void family_difference(char out[FAMILY_DIFFERENCE_SIZE], int64_t a, int64_t b);
/* Pure: the lowest threshold that is reached, 0: none (CONTRACT §2). */
int family_threshold(const struct config *cfg, int64_t total, int64_t remaining);
/* Pure: a figure of Redis against MySQL's: by how much it's more. */
enum family_cache family_cache_judge(bool usable, int64_t cached, int64_t mysql);
/* Appends a customer's rules for people: "limit 5000, time 2200-0700, apps 2, manual", or "none". */
void family_rules_text(struct buf *out, const struct policy_rules *r);

#endif
