/* SPDX-License-Identifier: MIT */
/* A customer's rules out of policy_assignment rows (CONTRACT §4). Pure. */
#ifndef TALLYD_POLICY_H
#define TALLYD_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POLICY_FOR_FAMILY (-1) /* a row without customer: for every member */

/* An active row, as stored. Text is borrowed. */
struct policy_row {
    int64_t customer_id; /* or POLICY_FOR_FAMILY */
    const char *type;
    const char *rules; /* JSON in content */
};

/* What applies to one customer. */
struct policy_rules {
    bool unreadable; /* a rule that applies can't be read: nothing else here counts */
    char why[160];   /* which and why, when unreadable */
    bool manual_block;
    char time_block[10];   /* "2200-0700", "" for none */
    int64_t monthly_limit; /* bytes, -1 for none */
    char **apps;           /* blocked ones, trimmed; owned */
    size_t app_count;
};

/* Picks among a family's active rows, oldest first, what applies to the
 * customer: its own row wins over the family's of the same type, of several
 * equals the newest wins, blocked apps add up. Never fails: what can't be read
 * is said in `unreadable`. Give it to policy_rules_free. */
void policy_rules_build(struct policy_rules *out, const struct policy_row *rows, size_t n,
                        int64_t customer_id);
void policy_rules_free(struct policy_rules *r);

#endif
