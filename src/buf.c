/* SPDX-License-Identifier: MIT */
#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void out_of_memory(size_t size) {
    fprintf(stderr, "tallyd: out of memory: %zu bytes were refused\n", size);
    abort();
}

void *mem_alloc(size_t size) {
    void *p = malloc(size ? size : 1);
    if (!p)
        out_of_memory(size);
    return p;
}

void *mem_zero(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p)
        out_of_memory(count * size);
    return p;
}

void *mem_realloc(void *p, size_t size) {
    void *q = realloc(p, size ? size : 1);
    if (!q)
        out_of_memory(size);
    return q;
}

char *mem_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    return memcpy(mem_alloc(n), s, n);
}

void buf_free(struct buf *b) {
    free(b->data);
    *b = (struct buf){0};
}

void buf_reset(struct buf *b) {
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

char *buf_grow(struct buf *b, size_t more) {
    size_t need = b->len + more + 1, cap = b->cap ? b->cap : 256;
    while (cap < need)
        cap *= 2;
    b->data = mem_realloc(b->data, cap);
    b->cap = cap;
    return b->data + b->len;
}

void buf_i64(struct buf *b, int64_t v) {
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
        "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
        "8081828384858687888990919293949596979899";
    char digits[24], *p = digits + sizeof digits;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    for (; u >= 100; u /= 100) {
        p -= 2;
        memcpy(p, pairs + u % 100 * 2, 2);
    }
    if (u >= 10) {
        p -= 2;
        memcpy(p, pairs + u * 2, 2);
    } else {
        *--p = (char)('0' + u);
    }
    if (v < 0)
        *--p = '-';
    buf_append(b, p, (size_t)(digits + sizeof digits - p));
}

void buf_printf(struct buf *b, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n > 0) {
        char *to = buf_room(b, (size_t)n);
        vsnprintf(to, (size_t)n + 1, fmt, again);
        buf_end(b, (size_t)n);
    }
    va_end(again);
}

void buf_percent(struct buf *b, const char *s, size_t len) {
    static const char hex[] = "0123456789ABCDEF";
    char *to = buf_room(b, len * 3);
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
            c == '_' || c == '-') {
            to[n++] = (char)c;
        } else {
            to[n++] = '%';
            to[n++] = hex[c >> 4];
            to[n++] = hex[c & 15];
        }
    }
    buf_end(b, n);
}

const char *buf_cstr(const struct buf *b) {
    return b->data ? b->data : "";
}
