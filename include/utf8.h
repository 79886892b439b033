/* SPDX-License-Identifier: MIT */
/* Text from outside, a character at a time: what may be shown, and what a terminal or an editor would obey
 * instead. Logs, tables and JSON all go by this. Pure. */
#ifndef TALLYD_UTF8_H
#define TALLYD_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "buf.h"

/* Bytes of the character at `s`, which ends in NUL; 0 when they're not UTF-8. */
size_t utf8_sequence(const char *s);
/* Of a whole sequence of `n` bytes. */
uint32_t utf8_code_point(const char *s, size_t n);
/* Controls (C0, DEL, C1), line ends, what has no width, and what turns the direction of writing. */
bool utf8_is_unseen(uint32_t c);

/* Appends it as JSON writes it: \u0085, beyond the BMP as a pair. */
void utf8_json_escape(struct buf *out, uint32_t c);
/* Appends text for a terminal: "?" for each character that isn't seen and each byte that isn't UTF-8. */
void utf8_shown(struct buf *out, const char *text);
/* Prints it so. */
void utf8_print(FILE *out, const char *text);

#endif
