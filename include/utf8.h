/* SPDX-License-Identifier: MIT */
/* UTF-8 (RFC 3629), and what of it mustn't reach a terminal or a log as it is. Pure. */
#ifndef TALLYD_UTF8_H
#define TALLYD_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* Bytes of the sequence at s, which a NUL ends; 0 where it isn't one. */
size_t utf8_length(const unsigned char *s);
/* Of a whole sequence of n bytes. */
uint32_t utf8_code_point(const unsigned char *s, size_t n);

/* What a terminal or an editor obeys instead of showing it: controls of C0 and C1, what has no width, what
 * turns the direction, line ends. */
bool utf8_is_unseen(uint32_t code_point);
/* As JSON escapes it: \uXXXX, two of them beyond U+FFFF. */
void utf8_append_escaped(struct buf *out, uint32_t code_point);

/* Appends a JSON document with every unseen character escaped but its line ends, which stand between its
 * parts: within its texts JSON has them escaped. */
void utf8_append_visible(struct buf *out, const char *json);

#endif
