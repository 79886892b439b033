/* SPDX-License-Identifier: MIT */
/* What keeps a flood of the same message from filling the log: how often each came lately, in a small table.
 *
 * A message is written REPEATS_WRITTEN times within a window. What comes beyond that is counted, and told in
 * one line when the window ends; while it goes on, in one line a window. So of n calls as many lines and
 * counted ones come out, always. A message that the table has no room for is written. Knows no clock. */
#ifndef TALLYD_LOG_REPEATS_H
#define TALLYD_LOG_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log_events.h"

#define REPEATS_WRITTEN 5   /* times within a window, before it's counted instead */
#define REPEATS_MESSAGES 32 /* told apart at a time */
#define REPEATS_TEXT_MAX 2048

/* What is to be told of a message. */
struct log_repeat {
    const struct log_event *event;
    enum log_level level;
    uint64_t key;
    uint64_t repeated; /* how often it came and wasn't written */
    int64_t since_ms;  /* when the first of them may have come */
    size_t len;
    char fields[REPEATS_TEXT_MAX]; /* the last one's, as they stand in a line; left out where they are longer
                                    */
};

/* How long a window lasts; 0 (the default): each message is written. Call before threads start. */
void log_repeats_init(int64_t window_ms);
/* Notes a message, known again by event, level and `key`; `fields` are copied. True: it's to be written. */
bool log_repeats_note(const struct log_event *event, enum log_level level, uint64_t key, int64_t now_ms,
                      const char *fields, size_t len);
/* Takes one that is to be told, by its window's end or, with `all`, at once; false when there is none. */
bool log_repeats_take(int64_t now_ms, bool all, struct log_repeat *out);
/* Counts again what was taken and couldn't be told, for the next window. False: there is no room for it. */
bool log_repeats_put_back(const struct log_repeat *r);

#endif
