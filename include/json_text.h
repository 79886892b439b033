/* SPDX-License-Identifier: MIT */
/* Text from anywhere as a JSON string, and documents as bytes. What a terminal would obey (utf8.h) is
 * escaped.
 */
#ifndef TALLYD_JSON_TEXT_H
#define TALLYD_JSON_TEXT_H

#include <jansson.h>
#include <stdio.h>

#include "buf.h"

/* Appends it quoted and escaped. NULL is null. In what isn't UTF-8 as a whole only the ASCII is kept. */
void json_text(struct buf *out, const char *text);
/* The same as a new value. */
json_t *json_text_new(const char *text);
/* Appends a document without white space. Takes it over. */
void json_text_dump(struct buf *out, json_t *document);
/* Prints a document, indented, with a line end. Takes it over. */
void json_text_print(json_t *document, FILE *out);

#endif
