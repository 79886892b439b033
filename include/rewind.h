/* SPDX-License-Identifier: MIT */
/* Moving the group over its topic (DESIGN §5): back, so that records are run
 * again, which moves the group's committed offsets alone; or ahead, so that they
 * are skipped, which moves the ledger too. A partition starts at the lower of the
 * two, and that gives the order: Kafka first. Whatever ends between the two steps,
 * nothing is skipped by it: the ledger is still where it was, and is the lower one. */
#ifndef TALLYD_REWIND_H
#define TALLYD_REWIND_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "event.h"
#include "group.h"
#include "ledger_rows.h"
#include "mysql_db.h"

enum rewind_kind { REWIND_EARLIEST, REWIND_LATEST, REWIND_OFFSET, REWIND_TIME };

struct rewind_target {
    enum rewind_kind kind;
    int64_t value; /* an offset, or an instant in milliseconds since 1970 */
};

/* Reads "earliest", "latest", an offset in digits, or a point of time (moment.h). */
bool rewind_target_parse(const char *text, int64_t now_ms, struct rewind_target *out)
    __attribute__((warn_unused_result));

/* What is to happen to a partition. */
struct rewind_part {
    int32_t id;
    int64_t low, high;
    int64_t committed;       /* -1: nothing is */
    int64_t settled_to;      /* the ledger's next_offset; -1: it has no row */
    int64_t from;            /* where reading would start as things stand */
    int64_t to;              /* where it's to start */
    int64_t again;           /* offsets below `from` that would be read again */
    int64_t skipped;         /* offsets from there on that were never settled and never would be */
    bool moves_ledger;       /* they become gap there */
    struct ledger_skip skip; /* by this */
};

struct rewind {
    struct group group;
    struct rewind_part *parts; /* those meant, by id */
    size_t count;
    int64_t again, skipped; /* over all */
};

/* Why there's no plan. */
enum rewind_refusal {
    REWIND_PLANNED,
    REWIND_NO_PARTITION, /* one that is meant isn't on the topic */
    REWIND_OUT_OF_RANGE, /* the offset isn't in a partition's log */
    REWIND_OTHER_LOG,    /* the ledger is beyond a log's end: another log */
    REWIND_FAILED,       /* somebody couldn't be asked */
};

/* Plans it for these partitions, all of them if `n` is 0. On anything but REWIND_PLANNED `err` has a
 * sentence. The caller calls rewind_free in any case. */
enum rewind_refusal rewind_plan(rd_kafka_t *rk, struct db *db, const struct config *cfg,
                                const struct rewind_target *target, const int32_t *ids, size_t n,
                                struct rewind *r, struct error *err);
void rewind_free(struct rewind *r);

/* Does it. The group must have no members: the broker refuses it otherwise. `moved`: the group's offsets have
 * moved, also when what follows fails. */
bool rewind_apply(rd_kafka_t *rk, struct db *db, const struct config *cfg, const struct rewind *r,
                  bool *moved, struct error *err) __attribute__((warn_unused_result));

/* ---- what running it again would find ---- */

#define REWIND_CODES (REJECT_SETTLEMENT_REJECTED + 1)

/* Each record is one of these. */
struct rewind_found {
    int64_t records;
    int64_t settled, blocked; /* known, with the same figures: duplicates */
    int64_t fresh;            /* ids that nobody knows: they'd be decided */
    int64_t repeated;         /* of those, once more */
    int64_t ignored;
    int64_t rejected[REWIND_CODES]; /* by the parser, and ID_CONFLICT */
    int64_t first_ms, last_ms;      /* the earliest and latest of the records' timestamps; -1: none */
};

struct rewind_look {
    struct rewind_found again, ahead; /* of partitions that go back, of those that go ahead */
    int64_t offsets;                  /* that the plan moves over */
    bool cut;                         /* not all were read: there are more than the limit */
};

/* Called now and then while it reads, with the offsets done. */
typedef void rewind_progress(int64_t done, int64_t all);

/* Reads the records that the plan moves over, at most `limit`, and looks their ids up. Changes nothing. */
bool rewind_look(struct db *db, const struct config *cfg, const struct rewind *r, int64_t limit,
                 rewind_progress *progress, struct rewind_look *look, struct error *err)
    __attribute__((warn_unused_result));

#endif
