/* SPDX-License-Identifier: MIT */
/* What commands print: a table for people, aligned by what a terminal shows of each
 * cell, and the same rows as JSON for machines.
 *
 *   struct table *t = table_new("partition>", "state", NULL);
 *   table_i64(t, 3);
 *   table_text(t, "paused");
 *   table_print(t, stdout);
 *   table_free(t);
 */
#ifndef TALLYD_TABLE_H
#define TALLYD_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct table; /* opaque; owned by whoever made it */

/* The columns' headings, ended by NULL; borrowed. One that ends in '>' (which isn't printed) stands for
 * figures: its cells are aligned to the right, and digits are grouped by threes. */
struct table *table_new(const char *heading, ...) __attribute__((sentinel));
void table_free(struct table *t);

/* The next cell, from left to right and row by row. Text is copied; NULL is shown as "-". What a
 * terminal would obey (utf8.h), and bytes that aren't UTF-8, are shown as "?". */
void table_text(struct table *t, const char *text);
void table_format(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void table_i64(struct table *t, int64_t number);
/* A number, or "-" where it isn't known. */
void table_i64_if(struct table *t, bool known, int64_t number);

/* Headings and all whole rows; nothing at all without a row. */
void table_print(const struct table *t, FILE *out);

/* One JSON document, as json_text_print; what it can't hold as UTF-8 is the caller's to avoid. Takes over the
 * document. */
void table_print_json(json_t *document, FILE *out);

#endif
