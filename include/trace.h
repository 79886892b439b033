/* SPDX-License-Identifier: MIT */
/* The trace a record belongs to, as W3C's Trace Context says it in a header `traceparent`:
 * version-traceid-parentid-flags, in lower case hexadecimal. It goes with the event to its notification and
 * its log lines. It is others' word, and nothing hangs on it: what isn't valid counts as absent. Pure. */
#ifndef TALLYD_TRACE_H
#define TALLYD_TRACE_H

#include <stdbool.h>
#include <stddef.h>

#define TRACE_HEADER "traceparent"
#define TRACE_PARENT_SIZE 56 /* with its NUL */
#define TRACE_ID_SIZE 33

/* What is passed on: of version 00 the same text; of a later one its ids and whether it's sampled, said in
 * version 00. False when it isn't valid; then `out` is "". */
bool trace_parent_parse(const void *value, size_t len, char out[TRACE_PARENT_SIZE]);
/* The trace id of such a text; NULL for NULL or one that isn't valid. */
const char *trace_id(const char *parent, char out[TRACE_ID_SIZE]);

#endif
