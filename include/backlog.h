/* SPDX-License-Identifier: MIT */
/* Records that nobody has read yet, and of which months their events may be: a month that is closed before
 * they are read would have them all rejected (CONTRACT §1.1 rule 7). Records come in the order of their time,
 * more or less, so none that waits is older than the last one that the ledger has counted. Only partitions
 * whose last one is old are looked at in Kafka: where records keep coming nobody is asked. */
#ifndef TALLYD_BACKLOG_H
#define TALLYD_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "mysql_db.h"

enum backlog_reason {
    BACKLOG_NONE,      /* nothing waits that is of a month before */
    BACKLOG_UNREAD,    /* a partition has records that may be */
    BACKLOG_UNKNOWN,   /* Kafka couldn't be asked whether it has */
    BACKLOG_NOT_BEGUN, /* the group has no partition in the ledger: nothing is known of its records */
};

struct backlog {
    enum backlog_reason reason;
    int32_t partition; /* the one whose records may be oldest */
    int64_t unread;    /* offsets */
    int64_t last_ms;   /* the timestamp of the last record counted; 0: none was */
    int32_t month;     /* the first month whose events may wait; 0: any */
    struct error why;  /* of BACKLOG_UNKNOWN */
};

/* The first month that an event may be of whose record isn't older than this; 0 of 0. */
int32_t backlog_month(const struct config *cfg, int64_t record_ms);

/* Finds what waits in the configured group and topic that may be of months before this one. False with an
 * error when MySQL can't be asked. */
bool backlog_find(struct db *db, const struct config *cfg, int32_t month, struct backlog *b,
                  struct error *err) __attribute__((warn_unused_result));

#endif
