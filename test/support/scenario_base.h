/* SPDX-License-Identifier: MIT */
/* What the scenario tool is made of: the end of the program when it can't
 * judge, rows to compare, and the report that counts what differs. */
#ifndef SCENARIO_BASE_H
#define SCENARIO_BASE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Status 2: the tool could not do its work, so nothing is said about tallyd.
 * Status 1 is kept for "it came out differently". */
extern const char *sc_program; /* the name its messages begin with */
void sc_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* An environment variable that has to be there. Borrowed. */
const char *sc_env(const char *name);
/* The same with a value for when it's absent or empty. */
const char *sc_env_or(const char *name, const char *fallback);

/* "dir/name". The caller frees it. */
char *sc_path(const char *dir, const char *name);
/* A whole file, NUL-terminated. The caller frees it. */
char *sc_file_read(const char *path, size_t *len);
/* One JSON document. The caller owns the reference. */
json_t *sc_json_read(const char *path);

/* Members that must be there with this type; anything else ends the program,
 * naming the member: a malformed scenario is no finding about tallyd. */
json_t *sc_json_get(const json_t *object, const char *name);
const char *sc_json_text(const json_t *object, const char *name);
int64_t sc_json_int(const json_t *object, const char *name);
/* Text, or NULL when the member is null. */
const char *sc_json_text_or_null(const json_t *object, const char *name);

/* Counts in an object used as a map from text to numbers. */
int64_t sc_map_get(const json_t *map, const char *key, int64_t fallback);
void sc_map_set(json_t *map, const char *key, int64_t value);

/* Differences of one scenario. All are counted, the first ones printed. */
struct sc_report {
    const char *name;
    size_t differences;
};
void sc_differ(struct sc_report *report, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A set of rows: the key says which one, the text what it holds. Texts are
 * bytes with a length, as they may come from a topic. */
struct sc_row {
    char *key;
    char *text;
    size_t len;
};
struct sc_rows {
    struct sc_row *items;
    size_t count;
    size_t cap;
};
/* Both copy what they're given. */
void sc_rows_add(struct sc_rows *rows, const char *key, const void *text, size_t len);
void sc_rows_addf(struct sc_rows *rows, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Reports every row that is missing, unexpected or different. Sorts both sets. */
void sc_rows_diff(struct sc_report *report, const char *what, struct sc_rows *expected,
                  struct sc_rows *found);
void sc_rows_free(struct sc_rows *rows);

#endif
