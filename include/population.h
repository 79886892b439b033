/* SPDX-License-Identifier: MIT */
/* A made-up population for `tallyd simulate`: families of 2–10 members, their
 * quotas and rules, and how much of which app they use. All of it follows from
 * the number of a family alone, so that a larger population contains every
 * smaller one and runs with different seeds meet the same people. */
#ifndef TALLYD_POPULATION_H
#define TALLYD_POPULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "mysql_db.h"

/* Ids that are unlikely to be anybody's: a family that isn't simulated is never touched. */
#define POPULATION_FIRST_FAMILY 1000001
#define POPULATION_FIRST_CUSTOMER 10000001
#define POPULATION_FAMILIES_MAX 1000000

struct population {
    uint32_t families;
    uint32_t *first_member; /* owned; of family i, counted from 0; one more than there are families */
};

/* A reproducible sequence of numbers (splitmix64). */
struct dice {
    uint64_t state;
};

uint64_t dice_roll(struct dice *d);
/* The sequence that belongs to two numbers, say a seed and an event's. */
struct dice dice_new(uint64_t seed, uint64_t number);
/* In 0 … n − 1. */
uint64_t dice_below(struct dice *d, uint64_t n);
/* In 0 ≤ x < 1. */
double dice_fraction(struct dice *d);

void population_init(struct population *p, uint32_t families);
void population_deinit(struct population *p);
uint32_t population_members(const struct population *p);
int64_t population_family_id(uint32_t family);
int64_t population_customer_id(uint32_t member);

/* Draws who uses something: one family in ten is busy and has three uses in
 * ten, and within a family the first members use more than the last. */
void population_draw(const struct population *p, struct dice *d, int64_t *family_id, int64_t *customer_id);
/* The same within one family, counted from 0. */
void population_draw_in(const struct population *p, struct dice *d, uint32_t family, int64_t *family_id,
                        int64_t *customer_id);

/* A use of an app. Text is static. */
struct population_use {
    const char *app_id;
    const char *network; /* 4G, WIFI or 5G */
    int64_t bytes;
};
struct population_use population_draw_use(struct dice *d);

struct population_seeded {
    int64_t families, members, rules;
};

/* Told about the families done so far, after each batch. */
typedef void population_progress_fn(const struct population_seeded *done, void *ctx);

/* Fills family, family_member, family_quota for `month` and policy_assignment,
 * many families a transaction. What is there already of the simulated families
 * is brought to the same state (`used_bytes` is left alone), so an interrupted
 * run can be repeated. Refuses, before it writes anything, when one of the ids belongs to a family that isn't
 * simulated. */
bool population_seed(const struct population *p, struct db *db, int32_t month,
                     population_progress_fn *progress, void *ctx, struct population_seeded *done,
                     struct error *err) __attribute__((warn_unused_result));

#endif
