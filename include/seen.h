/* SPDX-License-Identifier: MIT */
/* A bounded set of texts: what was seen already. Forgets everything when full,
 * so it may only save work, never decide. */
#ifndef TALLYD_SEEN_H
#define TALLYD_SEEN_H

#include <stdbool.h>
#include <stddef.h>

struct seen {
    char **slots; /* owned, as the texts are; NULL: free */
    size_t size;  /* a power of two, or 0 */
    size_t count, limit;
};

void seen_init(struct seen *s, size_t limit);
void seen_clear(struct seen *s);
bool seen_has(const struct seen *s, const char *text);
void seen_add(struct seen *s, const char *text);

#endif
