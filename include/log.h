/* SPDX-License-Identifier: MIT */
/* Structured logs: one JSON object a line, with a stable event name.
 *
 *   LOG(LOG_INFO, "batch_settled", LOG_I("records", n), LOG_S("topic", t));
 *
 * takes at least one field.
 *
 * Lines never mix, and nobody waits for whoever reads them: a line that isn't
 * taken at once (a full pipe, a full disk, a closed output) is lost and counted,
 * and the first one that is taken again has one before it, log_lines_lost, that
 * says how many. A line has at most PIPE_BUF bytes: fields that don't fit are left
 * out, which `cut` says.
 *
 * log_events.h lists the events. Text is escaped so that a line is safe on any
 * terminal: controls, C1 and DEL too, line ends of Unicode's, and what turns the
 * direction of writing or can't be seen. What is logged is never a record's value,
 * a message of a store's with data in it, or a secret: ids, figures, names and
 * reasons of our own. */
#ifndef TALLYD_LOG_H
#define TALLYD_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log_field {
    const char *name; /* NULL ends the list */
    enum { LOG_FIELD_INT, LOG_FIELD_STR, LOG_FIELD_BOOL, LOG_FIELD_ERROR, LOG_FIELD_OPTIONAL } kind;
    int64_t number;
    const void *text; /* borrowed: a C string, or a struct error */
};

#define LOG_I(n, v) ((struct log_field){.name = (n), .kind = LOG_FIELD_INT, .number = (int64_t)(v)})
#define LOG_S(n, v) ((struct log_field){.name = (n), .kind = LOG_FIELD_STR, .text = (v)})
/* Text that isn't there when it's NULL. */
#define LOG_O(n, v) ((struct log_field){.name = (n), .kind = LOG_FIELD_OPTIONAL, .text = (v)})
#define LOG_B(n, v) ((struct log_field){.name = (n), .kind = LOG_FIELD_BOOL, .number = (v) ? 1 : 0})
/* Expands to area, action, code and message of a struct error. */
#define LOG_E(e) ((struct log_field){.name = "error", .kind = LOG_FIELD_ERROR, .text = (e)})
#define LOG(level, event, ...)                                                                               \
    do {                                                                                                     \
        if (log_enabled(level))                                                                              \
            log_write((level), (event), (const struct log_field[]){__VA_ARGS__, {.name = NULL}});            \
    } while (0)

/* Where lines go (a file descriptor, kept open by the caller) and the lowest level that is written. Call
 * before threads start. */
void log_init(int fd, enum log_level lowest);
bool log_enabled(enum log_level level);
/* May be changed at any time, by any thread. */
void log_set_level(enum log_level lowest);
enum log_level log_level(void);
/* Writes one line whatever the level: ts (UTC, ms), level, event, then the fields. Never fails; a line that
 * can't be written is counted. */
void log_write(enum log_level level, const char *event, const struct log_field *fields);
/* From here on the same message doesn't fill the log (log_repeats.h); what is counted is told by log_tick, to
 * be called several times a second, and by log_flush, before the process ends. `window_ms` 0: no more of it.
 * Call before threads start. */
void log_collapse(int64_t window_ms);
void log_tick(void);
void log_flush(void);
/* Messages that could not be written since the start. */
uint64_t log_lost(void);
/* "debug", "info", "warn", "error" → level; false for another word. */
bool log_level_parse(const char *word, enum log_level *out);
const char *log_level_name(enum log_level level);

#endif
