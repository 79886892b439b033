/* SPDX-License-Identifier: MIT */
/* A scenario's folder read into memory, its events read by a reader of its own
 * (nothing here is shared with tallyd's parser), and where the records went. */
#ifndef SCENARIO_DATA_H
#define SCENARIO_DATA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sc_outcome { SC_SETTLED, SC_BLOCKED, SC_DUPLICATE, SC_REJECTED, SC_IGNORED, SC_OUTCOMES };

const char *sc_outcome_name(enum sc_outcome outcome);

struct sc_event {
    char *id;
    int64_t family;
    int64_t customer;
    int64_t bytes;
    char *app;       /* trimmed; NULL when absent */
    int64_t time_ms; /* the event's instant */
    char month[11];  /* "2026-11-01": its month's first day in the zone */
};

struct sc_line {
    char *key; /* NULL: the record has none */
    size_t key_len;
    char *value; /* NULL: a tombstone */
    size_t value_len;
    int64_t timestamp_ms;
    enum sc_outcome outcome;
    bool other_type;       /* a JSON object whose eventType is text other than DATA_USAGE */
    bool readable;         /* `event` could be read; rejected records may be readable too */
    struct sc_event event; /* all NULL and zero when it isn't readable */
};

struct sc_scenario {
    char *name;       /* the folder's */
    json_t *setup;    /* setup.json */
    json_t *expected; /* expected.json */
    struct sc_line *lines;
    size_t count;
};

/* Reads a folder; sc_die when it isn't a scenario. New, freed by sc_scenario_free. */
struct sc_scenario *sc_scenario_read(const char *dir);
void sc_scenario_free(struct sc_scenario *sc);

/* The zone all months and local times are seen in: tallyd's default. */
void sc_zone_init(void);
/* "2026-11-30T12:00:00.123+09:00". */
void sc_time_local(int64_t t_ms, char out[40]);
/* "2026-11-30 03:00:00.123", as MySQL prints a DATETIME(3). */
void sc_time_utc(int64_t t_ms, char out[40]);
/* The reverse, for what MySQL printed. */
int64_t sc_time_from_utc(const char *text);

/* Where a line's record lies; a line has one place a copy produced. */
struct sc_place {
    size_t line; /* from 0 */
    int copy;    /* from 1 */
    int32_t partition;
    int64_t offset;
};
struct sc_places {
    struct sc_place *items;
    size_t count;
};
/* Reads and appends to the work folder's list of places. */
struct sc_places sc_places_read(const char *work);
void sc_places_append(const char *work, const struct sc_place *items, size_t count);
void sc_places_free(struct sc_places *places);
/* The place of a partition and offset, or NULL. */
const struct sc_place *sc_places_find(const struct sc_places *places, int32_t partition, int64_t offset);
/* What the record of that place has to end as: later copies are repeats. */
enum sc_outcome sc_place_outcome(const struct sc_scenario *sc, const struct sc_place *place);

#endif
