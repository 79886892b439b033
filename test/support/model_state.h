/* SPDX-License-Identifier: MIT */
/* The reference model: what CONTRACT.md promises of each record, in memory, one
 * record after the other, with nothing remembered but what the contract names. */
#ifndef MODEL_STATE_H
#define MODEL_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model_event.h"

#define MODEL_EVERYBODY (-1) /* a rule's customer: every member */

enum model_outcome {
    MODEL_SETTLED,
    MODEL_BLOCKED,
    MODEL_DUPLICATE,
    MODEL_REJECTED,
    MODEL_IGNORED,
    MODEL_OUTCOMES
};
const char *model_outcome_name(enum model_outcome outcome);

struct model_family {
    int64_t id;
    char *name;
};
struct model_quota {
    int64_t family;
    int month;
    int64_t total;
    int64_t used;
};
struct model_customer {
    int64_t family, customer;
    int month;
    int64_t used;
    const char *reason; /* NULL: not blocked */
    int64_t state_ms;
};
struct model_rule {
    int64_t id, family, customer;
    char type[33];
    char *text;
    bool active;
    int64_t updated_ms;
};
struct model_alert {
    int64_t family, customer;
    int month;
    char *kind;
    const char *event_id; /* borrowed from the decision */
    int64_t total, remaining;
};
/* An id that was settled or blocked, with the figures after it. */
struct model_decision {
    struct model_event event; /* owned */
    int month;
    size_t delivery;    /* the number its record was given to model_take with */
    const char *reason; /* NULL: settled */
    int threshold;      /* reached, 0: none */
    bool told;
    int64_t total, remaining, used, limit;
};

struct model_list {
    void *items;
    size_t count, size;
    json_t *index; /* key → place in items */
};

struct model {
    struct model_list families, quotas, customers, rules, alerts, decisions;
    json_t *members;
    int64_t refused;        /* MySQL takes no event of so many bytes; 0: it takes all */
    int floor;              /* the first month still open */
    struct model_list told; /* size_t: decisions that are told, in order */
};

/* What a customer may not do, from the rules as they stand. */
struct model_rules {
    bool unreadable;
    bool manual;
    int from, to;  /* minutes; from < 0: no time block */
    int64_t limit; /* < 0: none */
    json_t *apps;  /* a map; owned */
};

struct model_verdict {
    enum model_outcome outcome;
    const char *code;   /* MODEL_REJECTED */
    const char *member; /* of INVALID_FIELD */
};

struct model *model_new(void);
void model_free(struct model *m);
/* A change made by others, as one line (see model_world.h). */
void model_change(struct model *m, const char *line);
/* One delivered record, called by any number the caller likes. */
struct model_verdict model_take(struct model *m, const char *value, size_t len, int64_t record_ms,
                                size_t delivery);

/* Look-ups; NULL when there is none. */
const struct model_decision *model_decided(const struct model *m, const char *id);
const struct model_quota *model_quota_of(const struct model *m, int64_t family, int month);
/* That month's row or the latest earlier one's. */
const struct model_quota *model_quota_carried(const struct model *m, int64_t family, int month);
const struct model_customer *model_customer_of(const struct model *m, int64_t family, int64_t customer,
                                               int month);
bool model_is_member(const struct model *m, int64_t family, int64_t customer);
struct model_rules model_rules_of(const struct model *m, int64_t family, int64_t customer);
void model_rules_free(struct model_rules *rules);
/* "APP_BLOCK:{app}" and the like; new. */
char *model_alert_kind(const char *reason, int threshold, const char *app);
/* Whether remaining is at or under n percent of the total. */
bool model_reached(int64_t remaining, int64_t total, int n);

/* The tallyd defaults, lowest first. */
extern const int model_thresholds[];
#define MODEL_THRESHOLDS 3

#define MODEL_AT(list, type, i) (&((type *)(list).items)[i])

#endif
