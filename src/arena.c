/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#endif
#ifdef SANITIZED
#include <sanitizer/asan_interface.h>
#define GUARD 16 /* poisoned behind each allocation */
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define GUARD 0
#endif

#define ALIGNMENT sizeof(max_align_t)
#define FIRST_BLOCK ((size_t)16 << 10)   /* a usual event as JSON, five times over */
#define LARGEST_STEP ((size_t)1 << 20)   /* blocks double up to this */
#define LARGEST_KEPT ((size_t)256 << 10) /* one odd document mustn't be paid for ever after */

struct arena_block {
    struct arena_block *before;
    size_t size; /* of data */
    alignas(max_align_t) char data[];
};

static size_t rounded(size_t size) {
    return (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

static void use_whole(struct arena *a, struct arena_block *b) {
    ASAN_POISON_MEMORY_REGION(b->data, b->size);
    a->newest = b;
    a->at = b->data;
    a->end = b->data + b->size;
}

static void add_block(struct arena *a, size_t needed) {
    size_t size = a->newest ? a->newest->size * 2 : FIRST_BLOCK;
    if (size > LARGEST_STEP)
        size = LARGEST_STEP;
    if (size < needed)
        size = needed;
    struct arena_block *b = mem_alloc(sizeof *b + size);
    b->before = a->newest;
    b->size = size;
    use_whole(a, b);
}

static void free_blocks(struct arena_block *b) {
    while (b) {
        struct arena_block *before = b->before;
        ASAN_UNPOISON_MEMORY_REGION(b->data, b->size);
        free(b);
        b = before;
    }
}

void *arena_alloc(struct arena *a, size_t size) {
    size_t needed = rounded(size) + GUARD;
    if (needed > (size_t)(a->end - a->at))
        add_block(a, needed);
    char *p = a->at;
    a->at += needed;
    ASAN_UNPOISON_MEMORY_REGION(p, size);
    return p;
}

char *arena_text(struct arena *a, const char *s, size_t len) {
    char *copy = arena_alloc(a, len + 1);
    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

void arena_reset(struct arena *a) {
    struct arena_block *newest = a->newest; /* the largest, as they double */
    if (!newest)
        return;
    if (newest->size > LARGEST_KEPT) {
        arena_free(a);
        return;
    }
    free_blocks(newest->before);
    newest->before = NULL;
    use_whole(a, newest);
}

void arena_free(struct arena *a) {
    free_blocks(a->newest);
    *a = (struct arena){0};
}
