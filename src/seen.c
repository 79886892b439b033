/* SPDX-License-Identifier: MIT */
#include "seen.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

void seen_init(struct seen *s, size_t limit) {
    *s = (struct seen){.limit = limit};
}

void seen_clear(struct seen *s) {
    tdestroy(s->root, free);
    s->root = NULL;
    s->count = 0;
}

bool seen_has(const struct seen *s, const char *text) {
    return tfind(text, &s->root, by_text) != NULL;
}

void seen_add(struct seen *s, const char *text) {
    if (seen_has(s, text))
        return;
    if (s->count >= s->limit)
        seen_clear(s);
    char *copy = mem_strdup(text);
    if (!tsearch(copy, &s->root, by_text)) {
        free(copy);
        return;
    }
    s->count++;
}
