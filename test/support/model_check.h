/* SPDX-License-Identifier: MIT */
/* What tallyd left behind, held against the model: every table, both outgoing
 * topics, the ledger, and Redis. */
#ifndef MODEL_CHECK_H
#define MODEL_CHECK_H

#include <mysql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model_state.h"
#include "scenario_base.h"
#include "scenario_topic.h"

struct model_question {
    const char *dir;
    const char *group;
    const char *usage_topic;
    const char *notification_topic;
    const char *dlt_topic;
    bool crashes; /* copies on the outgoing topics are allowed */
    bool cache;   /* Redis too; it must have been left alone since it was last warmed */
};

/* True when all is as the model says; the first differences are printed. */
bool model_check(const struct model_question *question);
/* Runs a scenario's folder (test/scenarios/README.md) through the model, and
 * holds the model against what is expected there. */
bool model_scenario(const char *dir);

/* ---- between the parts of the check ---- */

/* A record as it lies on the usage topic. */
struct model_delivery {
    int phase;
    const struct sc_record *record;
    struct model_verdict verdict;
};

struct model_check {
    const struct model_question *question;
    struct sc_records topic; /* the usage topic's, whole */
    struct model_delivery *deliveries;
    size_t count;
    int phases;     /* that were produced, at least in part */
    json_t *places; /* "partition/offset" → delivery */
    struct model *model;
    MYSQL *db;
    struct sc_report report;
};

/* The delivery of that place, or NULL. */
struct model_delivery *model_check_at(const struct model_check *c, int64_t partition, int64_t offset);

void model_check_tables(struct model_check *c);
void model_check_ledger(struct model_check *c);
void model_check_notifications(struct model_check *c);
void model_check_rejections(struct model_check *c);
void model_check_cache(struct model_check *c);

#endif
