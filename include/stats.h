/* SPDX-License-Identifier: MIT */
/* Counters of a process, shared by its threads. */
#ifndef TALLYD_STATS_H
#define TALLYD_STATS_H

#include <stdatomic.h>

struct stats {
    atomic_llong batches; /* settled */
    atomic_llong settled, blocked, duplicate, rejected,
        ignored;                /* records, as the ledger counts them or again when read again */
    atomic_llong misplaced_key; /* records whose key isn't their familyId */
    atomic_llong came_back;     /* settlements refused because MySQL's figures or ids differed */
    atomic_llong redecided;     /* families' months decided again for it */
    atomic_llong refused;       /* settlements whose data MySQL refused */
    atomic_llong lock_retries;  /* deadlocks and lock waits */
    atomic_llong fenced;
    atomic_llong warmed;                    /* families' months */
    atomic_llong published, publish_failed; /* notifications */
};

#endif
