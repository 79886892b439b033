/* SPDX-License-Identifier: MIT */
/* The events of `tallyd simulate`, one after the other: who uses what, which of
 * them are repeats, late or broken, and when each is due. The same options give
 * the same events in the same order. Pure: no I/O, no clock of its own. */
#ifndef TALLYD_SIMULATE_H
#define TALLYD_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "event.h"
#include "population.h"

enum simulate_kind {
    SIMULATE_NORMAL,
    SIMULATE_DUPLICATE, /* an earlier normal or late one once more, to the byte */
    SIMULATE_LATE,      /* happened up to three days before, but in the same month */
    SIMULATE_BROKEN,    /* to be rejected; `code` says how */
    SIMULATE_KINDS,
};
const char *simulate_kind_name(enum simulate_kind kind);

enum simulate_pattern {
    SIMULATE_CONSTANT,
    SIMULATE_RAMP_UP,   /* from a tenth of the rate up to all of it, evenly */
    SIMULATE_BURST,     /* ten seconds at the rate on average: nine at half, one at 5.5 times */
    SIMULATE_REALISTIC, /* by the time of day in the zone: 0.2 times at 4, 1.8 times at 21 o'clock */
};
bool simulate_pattern_parse(const char *word, enum simulate_pattern *out);

struct simulate_options {
    uint64_t seed;
    uint32_t families;
    int64_t count;                   /* events; 0: no bound */
    int64_t duration_ms;             /* 0: no bound */
    double rate;                     /* events a second; 0: as fast as they are asked for */
    enum simulate_pattern pattern;   /* SIMULATE_CONSTANT when the rate is 0 */
    double duplicates, late, broken; /* shares of all events, at most 1 together */
    double hot_family; /* share of the uses that is the first family's, on top of what it draws */
    int64_t start_ms;  /* the instant the first event happens at, or the present one */
    bool own_time; /* events' times follow from start_ms and the rate (1,000 a second when that's 0), not from
                      the clock */
    int64_t max_future_ms; /* how the consumer is configured: broken events are to be beyond it */
    int max_past_months;
};

struct simulate_event {
    enum simulate_kind kind;
    enum reject_code code; /* of a broken one */
    char key[24];          /* familyId as decimal text */
    size_t key_len;
    struct buf value; /* reused; free it with buf_free */
    int64_t now_ms;   /* the instant it's sent at: the record's timestamp */
};

struct simulation;

struct simulation *simulation_new(const struct simulate_options *options);
void simulation_free(struct simulation *s);
/* Who they are. Borrowed. */
const struct population *simulation_population(const struct simulation *s);
/* When the next event is due, in nanoseconds since the first; -1: there is none. With a rate of 0 it's always
 * due, and the caller minds the duration. */
int64_t simulation_due_ns(const struct simulation *s);
/* Makes the next event. `now_ms` is the clock's, ignored with own_time. */
void simulation_next(struct simulation *s, int64_t now_ms, struct simulate_event *e);

#endif
