/* SPDX-License-Identifier: MIT */
/* Fault points: named places where a test build (`make faults`) can kill or stop
 * the process, wait, fail, or do the thing and then report failure. In any other
 * build they are nothing. test/README.md lists the points and how to use them.
 *
 * TALLYD_FAULT='POINT@HIT:ACTION[;…]'
 *   HIT     N: the Nth time the point is reached, counted from 1; N+: from then on; *: every time
 *   ACTION  kill | stop (SIGSTOP) | delay=MS | fail[=CODE] | after[=CODE] | fatal[=CODE]
 * TALLYD_FAULT_LOG=FILE     "POINT HIT ACTION" is appended before the action
 * TALLYD_FAULT_COUNTS=FILE  "POINT HITS" of every point reached, 64 bytes a line; outlives the process
 *
 * Every SQL statement is a point as well, named by its thread and what it does:
 * settler.insert_usage_record, settler.commit, worker.select_usage_record, …;
 * the threads are worker, settler, relay, and tallyd for the first. */
#ifndef TALLYD_FAULT_H
#define TALLYD_FAULT_H

#include "error.h"

enum fault_verdict {
    FAULT_NONE,
    FAULT_FAIL,  /* don't do it, report an error */
    FAULT_AFTER, /* do it, then report an error */
    FAULT_FATAL, /* the client library is to be told of a fatal error */
};

struct fault {
    enum fault_verdict verdict;
    int code; /* the vendor's number to report; 0: the place's usual one */
};

#ifdef TALLYD_FAULTS
/* Counts the hit and acts. Any thread. Ends the process at a TALLYD_FAULT that it can't read. */
struct fault fault_at(const char *point);
/* The same for what several threads do: the point is THREAD.what. */
struct fault fault_in_thread(const char *what);
/* The same for a statement. */
struct fault fault_at_statement(const char *sql, size_t len);
/* Whether it asks for that; never in a release, which so holds nothing of what would follow. */
static inline bool fault_asks(const struct fault *f, enum fault_verdict verdict) {
    return f->verdict == verdict;
}
#else
static inline struct fault fault_at(const char *point) {
    (void)point;
    return (struct fault){FAULT_NONE, 0};
}
static inline struct fault fault_in_thread(const char *what) {
    (void)what;
    return (struct fault){FAULT_NONE, 0};
}
static inline struct fault fault_at_statement(const char *sql, size_t len) {
    (void)sql;
    (void)len;
    return (struct fault){FAULT_NONE, 0};
}
static inline bool fault_asks(const struct fault *f, enum fault_verdict verdict) {
    (void)f;
    (void)verdict;
    return false;
}
#endif

#endif
