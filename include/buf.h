/* SPDX-License-Identifier: MIT */
/* A growing byte buffer, always NUL-terminated after its `len` bytes. Running
 * out of memory aborts: there is no sensible way to go on, and every store
 * recovers from a killed process. */
#ifndef TALLYD_BUF_H
#define TALLYD_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buf {
    char *data; /* owned; NULL while nothing was appended */
    size_t len;
    size_t cap;
};

/* Releases the memory; the buffer is empty and usable again. */
void buf_free(struct buf *b);
/* Empties the buffer and keeps its memory. */
void buf_reset(struct buf *b);
/* Appends a decimal number without a format string (hot paths). */
void buf_i64(struct buf *b, int64_t v);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes room for `more` bytes and returns where they go; the caller adds what
 * it wrote to `len` and terminates with buf_end(). */
static inline char *buf_room(struct buf *b, size_t more);
static inline void buf_end(struct buf *b, size_t written);
static inline void buf_append(struct buf *b, const void *data, size_t len);
static inline void buf_str(struct buf *b, const char *s);
static inline void buf_char(struct buf *b, char c);
/* Percent-encodes outside A–Z a–z 0–9 . _ - in upper case (CONTRACT: text from
 * outside that goes into a Redis key or an alert name). */
void buf_percent(struct buf *b, const char *s, size_t len);
/* The contents as a string, "" when empty. Borrowed. */
const char *buf_cstr(const struct buf *b);

/* malloc/calloc/realloc/strdup that abort when memory is exhausted. The caller owns the result. */
void *mem_alloc(size_t size);
void *mem_zero(size_t count, size_t size);
void *mem_realloc(void *p, size_t size);
char *mem_strdup(const char *s);

/* What buf_room does where there isn't room yet. */
char *buf_grow(struct buf *b, size_t more);

static inline char *buf_room(struct buf *b, size_t more) {
    return b->len + more < b->cap ? b->data + b->len : buf_grow(b, more);
}

static inline void buf_end(struct buf *b, size_t written) {
    b->len += written;
    b->data[b->len] = '\0';
}

static inline void buf_append(struct buf *b, const void *data, size_t len) {
    char *to = buf_room(b, len);
    if (len)
        memcpy(to, data, len);
    buf_end(b, len);
}

static inline void buf_str(struct buf *b, const char *s) {
    buf_append(b, s, strlen(s));
}

static inline void buf_char(struct buf *b, char c) {
    *buf_room(b, 1) = c;
    buf_end(b, 1);
}

#endif
