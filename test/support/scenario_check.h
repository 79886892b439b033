/* SPDX-License-Identifier: MIT */
/* The judgement: everything a finished run left behind, against the scenario.
 * Each check reports what differs and goes on. */
#ifndef SCENARIO_CHECK_H
#define SCENARIO_CHECK_H

#include <jansson.h>
#include <mysql.h>
#include <stdbool.h>
#include <stdint.h>

#include "scenario_base.h"
#include "scenario_data.h"
#include "scenario_topic.h"

/* What the work folder remembers of a run (state.json). */
struct sc_state {
    char *group;
    char *usage_topic;
    char *notification_topic;
    char *dlt_topic;
    int partitions; /* of the usage topic */
    int copies;     /* how often the records were produced */
    int reads;      /* how often they were read from the beginning */
    int64_t ran_ms; /* how long the daemon took the last time */
};
struct sc_state sc_state_read(const char *work);
void sc_state_write(const char *work, const struct sc_state *state);
void sc_state_free(struct sc_state *state);

/* A family's and a customer's figures after a line's event. */
struct sc_figures {
    bool known; /* false: the family's events have no one order, so its figures aren't foretold */
    int64_t total;
    int64_t remaining;
    int64_t used; /* by the customer in the month */
};

struct sc_check {
    const char *work;
    bool repeats; /* after a crash: copies on the two outgoing topics are allowed */
    struct sc_state state;
    struct sc_scenario *scenario;
    struct sc_places places;
    MYSQL *db;
    struct sc_records dlt;
    struct sc_figures *figures; /* a line */
    json_t *line_by_id;         /* event id → the line that settles or blocks it */
    struct sc_report report;
};

/* Reads all that the checks share. New, freed by sc_check_free. */
struct sc_check *sc_check_new(const char *work, const char *dir, bool repeats);
void sc_check_free(struct sc_check *check);
/* The line that decides an event, or NULL when the scenario has none. */
const struct sc_line *sc_check_line(const struct sc_check *check, const char *event_id);
/* Rows of alert_state that follow from what is told, in order. */
void sc_check_alerts_expected(const struct sc_check *check, struct sc_rows *rows);

/* MySQL: quotas, usage, blocks, alerts, sums. */
void sc_check_tables(struct sc_check *check);
/* The ledger, the records' outcomes and the group's offsets. */
void sc_check_ledger(struct sc_check *check);
/* The outbox and notification-events. */
void sc_check_notifications(struct sc_check *check);
/* The DLT. */
void sc_check_rejections(struct sc_check *check);
/* Redis against MySQL, at rest. */
void sc_check_cache(struct sc_check *check);

/* All rows of the tables that a repeated delivery may not change. */
void sc_tables_dump(MYSQL *db, struct sc_rows *rows);
void sc_snapshot_write(MYSQL *db, const char *work);
/* Against the snapshot, when there is one. */
void sc_check_snapshot(struct sc_check *check);

#endif
