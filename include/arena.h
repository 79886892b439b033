/* SPDX-License-Identifier: MIT */
/* Memory that is given back all at once. An arena that is all zero is empty and
 * usable. What it gave out is gone after arena_reset; a sanitizer sees a use
 * after that, and one past an allocation's end. */
#ifndef TALLYD_ARENA_H
#define TALLYD_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *newest; /* owned; each knows the one before it */
    char *at, *end;             /* what is left of the newest */
};

/* Room for `size` bytes, aligned for anything. Never NULL: aborts when memory is exhausted. */
void *arena_alloc(struct arena *a, size_t size);
/* A copy with a NUL behind it. */
char *arena_text(struct arena *a, const char *s, size_t len);
/* Takes everything back. Keeps one block, if it's not a large one, for what comes next. */
void arena_reset(struct arena *a);
/* Takes everything back and releases the memory. The arena is empty and usable again. */
void arena_free(struct arena *a);

#endif
