/* SPDX-License-Identifier: MIT */
/* The log's events: one row a name, which README's table and `tallyd help events` are made from. A test holds
 * every LOG in the source against it: name, level and fields; and each row must be used. */
#ifndef TALLYD_LOG_EVENTS_H
#define TALLYD_LOG_EVENTS_H

#include <stdio.h>

#include "log.h"

#define LOG_LEVEL_BIT(level) (1u << (level))

struct log_event {
    const char *name;
    unsigned levels; /* LOG_LEVEL_BIT of each level that it's written with */
    /* In their order, with blanks between; "error" stands for error_area, error_action, error_code and error;
     * one that ends in "?" isn't always there. */
    const char *fields;
    /* Fields that make two lines the same message, "" when the name alone does; NULL: each line counts, and
     * none is collapsed. Of "error" it's area, action and code. */
    const char *same;
    const char *means;
    const char *action; /* what to do; "" for nothing */
};

const struct log_event *log_events(size_t *count);
/* NULL when there is no such event. */
const struct log_event *log_event_find(const char *name);

/* A page for people, or the rows of a table in Markdown. */
void log_events_print(FILE *out, bool markdown);

#endif
