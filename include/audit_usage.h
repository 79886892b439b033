/* SPDX-License-Identifier: MIT */
/* What usage_record and usage_block say of each customer's month, gathered in a
 * pass or two over each, in whatever order their rows come; and what follows from it.
 * Pure: no store is asked. */
#ifndef TALLYD_AUDIT_USAGE_H
#define TALLYD_AUDIT_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "config.h"

#define AUDIT_NOWHERE (-2) /* no row yet */
#define AUDIT_SEVERAL (-3) /* rows from more than one partition: offsets don't tell their order */

/* One row of either table, as far as the order of settlements goes. */
struct audit_place {
    int32_t partition;
    int64_t offset;
    int64_t settled_ms; /* created_at */
};

/* One customer's month. */
struct audit_use {
    int64_t family, customer;
    int32_t month;
    int32_t partition;
    int64_t bytes, records;  /* of allowed events */
    struct audit_place last; /* of the allowed ones: the one settled last */
    int64_t blocks;
    struct audit_place block;   /* of the blocked one with the highest offset */
    int64_t block_monthly;      /* monthly_used_bytes that it was decided on */
    int64_t bytes_before_block; /* of the allowed events before it */
    int64_t others_before; /* of other members' allowed events before its own last one; known after the second
                              pass, and never too much */
    bool unordered;        /* offsets and times of settlement don't give the same order */
    bool seen;             /* its customer_quota row was */
};

struct audit_uses {
    struct audit_use *items; /* owned; moved by audit_uses_get */
    size_t count, capacity;
    uint32_t *slots; /* index + 1 into items; 0 is free */
    size_t slot_count;
};

void audit_uses_free(struct audit_uses *u);
/* Finds or makes it. */
struct audit_use *audit_uses_get(struct audit_uses *u, int64_t family, int64_t customer, int32_t month);
/* NULL when there is none. */
struct audit_use *audit_uses_find(const struct audit_uses *u, int64_t family, int64_t customer,
                                  int32_t month);

/* All blocked events first, then the allowed ones. */
void audit_use_blocked(struct audit_use *use, const struct audit_place *at, int64_t monthly_used);
void audit_use_allowed(struct audit_use *use, const struct audit_place *at, int64_t bytes);

/* Puts the members of a family's month side by side; pointers into it move. */
void audit_uses_sort(struct audit_uses *u);
/* Then each allowed event once more: it counts for those members whose last one was settled after it. */
void audit_use_others(struct audit_uses *u, const struct audit_use *own, const struct audit_place *at,
                      int64_t bytes);

/* The threshold that an allowed event tells which leaves total - used: the lowest n with remaining × 100 ≤
 * total × n; 0: none. */
int audit_threshold_due(const struct config *cfg, int64_t total, int64_t used);

/* What a usage_block row says. */
struct audit_block {
    const char *reason, *app; /* app: NULL when absent */
    int64_t bytes, remaining, monthly_used, monthly_limit;
};
/* Why the figures don't lead to the reason (CONTRACT §2); NULL when they do. */
const char *audit_block_fault(const struct audit_block *b);
/* The alert that it calls for: "MANUAL", "APP_BLOCK:com.game", … */
void audit_block_alert(struct buf *out, const char *reason, const char *app);
/* The alert that a notification's payload tells: "THRESHOLD:50", "APP_BLOCK:com.game"; false when it isn't
 * one. */
bool audit_payload_alert(struct buf *out, const char *payload, size_t len);
/* n of "THRESHOLD:n", else 0. */
int audit_alert_threshold(const char *alert);

/* FNV-1a: tells texts apart; who would want two to look the same can write to the stores anyway. */
uint64_t audit_digest(const void *data, size_t len);

/* A set of texts, each with another one and a mark. */
struct audit_call {
    char *text, *by; /* owned */
    bool answered;
};
struct audit_calls {
    struct audit_call *items;
    size_t count, capacity;
    uint32_t *slots;
    size_t slot_count;
};
void audit_calls_free(struct audit_calls *c);
/* Adds it unless it's there. */
void audit_calls_add(struct audit_calls *c, const char *text, const char *by);
void audit_calls_answer(struct audit_calls *c, const char *text);

/* Reads the eventId off the front of a notification's value, where tallyd writes it; false: there is none. */
bool audit_notification_id(struct buf *out, const char *value, size_t len);

#endif
