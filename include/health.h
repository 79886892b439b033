/* SPDX-License-Identifier: MIT */
/* Whether the process does its work, and if not, why: what /readyz tells. Pure:
 * what is known comes in, a state and its reasons come out.
 *
 * The first that holds is the state; all reasons are told.
 *   stopping   a signal came: no more work is taken
 *   stuck      a partition of ours has lag and hasn't moved for stuck_after_ms, or isn't read because log and
 *              ledger disagree, or a member has been out of the group for as long
 *   degraded   a dependency doesn't do what is needed of it
 *   starting   not all dependencies have answered yet, or not all members are in the group
 *   ready
 * A partition that an operator paused isn't stuck: that's told, and wanted. */
#ifndef TALLYD_HEALTH_H
#define TALLYD_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

enum health_state {
    HEALTH_STARTING,
    HEALTH_READY,
    HEALTH_DEGRADED,
    HEALTH_STUCK,
    HEALTH_STOPPING,
    HEALTH_STATES
};

/* "starting" … */
const char *health_state_name(enum health_state s);

#define HEALTH_ERROR_MAX 256

/* What is known of a dependency. */
struct health_dependency {
    const char *name;             /* borrowed, for as long as the process lives */
    bool known;                   /* it was tried */
    bool up;                      /* the last try did what is needed of it */
    int64_t since_ms;             /* 1970: up, or down, since then */
    double latency_ms;            /* of the last try that succeeded; below 0: none did */
    char error[HEALTH_ERROR_MAX]; /* "" while it's up */
};

/* What is known of a partition that this process has. */
struct health_partition {
    int32_t id;
    int64_t settled_to;      /* everything below is settled */
    int64_t end;             /* of the log; -1: not known yet */
    bool paused;             /* by an operator */
    int64_t paused_since_ms; /* 1970 */
    bool stopped;            /* not read: its log and the ledger disagree */
};

struct health_input {
    int64_t now_ms;  /* monotonic */
    int64_t wall_ms; /* 1970 */
    bool stopping;
    const struct health_dependency *dependencies;
    size_t dependency_count;
    const struct health_partition *partitions;
    size_t partition_count;
    size_t members, members_joined; /* of the group, in this process */
    size_t members_claiming; /* of those that aren't: they have partitions, and claim them in the ledger */
};

enum health_reason_kind {
    HEALTH_DEPENDENCY_DOWN,
    HEALTH_DEPENDENCY_UNTRIED,
    HEALTH_PARTITION_UNMOVED,
    HEALTH_PARTITION_STOPPED,
    HEALTH_NOT_JOINED,
    HEALTH_CLAIMING,
    HEALTH_SIGNAL,
};

struct health_reason {
    enum health_reason_kind kind;
    const char *dependency; /* its name */
    char error[HEALTH_ERROR_MAX];
    int64_t since_ms; /* 1970, of a dependency or a member that's out */
    int32_t partition;
    int64_t lag, unmoved_ms; /* of a partition */
};

/* What was looked at, and since when it stands still. */
struct health_track {
    struct health_partition is;
    int64_t moved_at_ms; /* monotonic: it moved, or had nothing to move to */
    int64_t seen_at_ms;  /* monotonic: it was this process' */
};

struct health {
    int64_t stuck_after_ms; /* set by the owner */
    enum health_state state;
    int64_t since_ms;            /* 1970: in this state */
    struct health_track *tracks; /* owned: one a partition of the last look */
    size_t track_count;
    struct health_track *gone; /* owned: taken away a while ago; one that comes back as it was hasn't moved */
    size_t gone_count;
    struct health_reason *reasons; /* owned: of the last look */
    size_t reason_count, reason_capacity;
    bool joined_once;
    int64_t out_since_ms, out_since_wall_ms; /* since when members are out of the group; 0: none is */
};

void health_init(struct health *h, int64_t stuck_after_ms, int64_t wall_ms);
void health_free(struct health *h);
/* Takes what is known now. True when the state is another one than before. */
bool health_update(struct health *h, const struct health_input *in);
/* Records not settled yet; -1: not known. */
int64_t health_lag(const struct health_partition *p);
/* Since when a partition that has lag hasn't moved; 0 when it has none. */
int64_t health_progress_age_ms(const struct health_track *t, int64_t now_ms);

/* /readyz's document. */
void health_print_json(const struct health *h, struct buf *out);
/* A reason as one sentence without a full stop. */
void health_reason_text(const struct health_reason *r, struct buf *out);
/* State and reasons on one line: for the log, and for a supervisor. */
void health_line(const struct health *h, struct buf *out);

#endif
