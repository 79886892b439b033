/* SPDX-License-Identifier: MIT */
/* Text that a person gives and that is kept: one line of UTF-8 of which everything is seen. Control
 * characters (C0, DEL, C1), separators of lines, what turns the direction of writing and what has no shape
 * are none of it: they'd wait in the table for whoever prints it next. */
#ifndef TALLYD_PLAIN_TEXT_H
#define TALLYD_PLAIN_TEXT_H

#include <stddef.h>

/* NULL: it is such a text, of 1 … `most` bytes. Otherwise what it must be, as a predicate ("must be UTF-8");
 * valid until the thread asks again. */
const char *plain_text_fault(const char *text, size_t most);

#endif
