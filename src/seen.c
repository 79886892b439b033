/* SPDX-License-Identifier: MIT */
#include "seen.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "digest.h"

#define SLOTS_AT_FIRST 64

void seen_init(struct seen *s, size_t limit) {
    *s = (struct seen){.limit = limit};
}

void seen_clear(struct seen *s) {
    for (size_t i = 0; i < s->size; i++)
        free(s->slots[i]);
    free(s->slots);
    seen_init(s, s->limit);
}

static uint64_t hash(const char *text) {
    uint64_t h = digest_bytes(DIGEST_START, text, strlen(text));
    return h ^ h >> 32;
}

/* The slot that holds the text, or the free one where it would go: at least half of them are free. */
static char **find(char **slots, size_t size, const char *text) {
    size_t i = hash(text) & (size - 1);
    while (slots[i] && strcmp(slots[i], text) != 0)
        i = (i + 1) & (size - 1);
    return &slots[i];
}

bool seen_has(const struct seen *s, const char *text) {
    return s->size && *find(s->slots, s->size, text);
}

static void grow(struct seen *s) {
    size_t size = s->size ? s->size * 2 : SLOTS_AT_FIRST;
    char **slots = mem_zero(size, sizeof *slots);
    for (size_t i = 0; i < s->size; i++) {
        if (s->slots[i])
            *find(slots, size, s->slots[i]) = s->slots[i];
    }
    free(s->slots);
    s->slots = slots;
    s->size = size;
}

void seen_add(struct seen *s, const char *text) {
    if (seen_has(s, text))
        return;
    if (s->count >= s->limit)
        seen_clear(s);
    if (2 * (s->count + 1) > s->size)
        grow(s);
    *find(s->slots, s->size, text) = mem_strdup(text);
    s->count++;
}
