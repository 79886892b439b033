/* SPDX-License-Identifier: MIT */
/* A growing byte buffer, always NUL-terminated after its `len` bytes. Running
 * out of memory aborts: there is no sensible way to go on, and every store
 * recovers from a killed process. */
#ifndef TALLYD_BUF_H
#define TALLYD_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data; /* owned; NULL while nothing was appended */
    size_t len;
    size_t cap;
};

/* Releases the memory; the buffer is empty and usable again. */
void buf_free(struct buf *b);
/* Empties the buffer and keeps its memory. */
void buf_reset(struct buf *b);
void buf_append(struct buf *b, const void *data, size_t len);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
/* Appends a decimal number without a format string (hot paths). */
void buf_i64(struct buf *b, int64_t v);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes room for `more` bytes and returns where they go; the caller adds what
 * it wrote to `len` and terminates with buf_end(). */
char *buf_room(struct buf *b, size_t more);
void buf_end(struct buf *b, size_t written);
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

#endif
