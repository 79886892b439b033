/* SPDX-License-Identifier: MIT */
#include "plain_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What isn't seen, or changes how the rest is seen. */
static const struct range {
    uint32_t first, last;
} hidden[] = {
    {0x00, 0x1f},       /* C0 */
    {0x7f, 0x9f},       /* DEL, C1 */
    {0xad, 0xad},       /* soft hyphen */
    {0x34f, 0x34f},     /* grapheme joiner */
    {0x61c, 0x61c},     /* Arabic letter mark */
    {0x115f, 0x1160},   /* Hangul fillers */
    {0x17b4, 0x17b5},   /* Khmer inherent vowels */
    {0x180b, 0x180f},   /* Mongolian selectors */
    {0x200b, 0x200f},   /* zero width; marks of direction */
    {0x2028, 0x202e},   /* separators of lines and paragraphs; embeddings and overrides */
    {0x2060, 0x206f},   /* word joiner, invisible operators, isolates */
    {0x3164, 0x3164},   /* Hangul filler */
    {0xfe00, 0xfe0f},   /* variation selectors */
    {0xfeff, 0xfeff},   /* byte order mark */
    {0xffa0, 0xffa0},   /* half-width Hangul filler */
    {0xfff0, 0xfffb},   /* interlinear annotation */
    {0xfffe, 0xffff},   /* no characters */
    {0x1bca0, 0x1bca3}, /* shorthand format controls */
    {0x1d173, 0x1d17a}, /* musical format controls */
    {0xe0000, 0xe0fff}, /* tags, further variation selectors */
};

/* One character; its bytes, 0 where that's no UTF-8. */
static size_t next_of(const unsigned char *s, uint32_t *c) {
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    *c = n < 2 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *c = *c << 6 | (s[i] & 0x3f);
    }
    return *c < lowest[n] || *c > 0x10ffff || (*c >= 0xd800 && *c <= 0xdfff) ? 0 : n;
}

static bool is_hidden(uint32_t c) {
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        if (c >= hidden[i].first && c <= hidden[i].last)
            return true;
    }
    return false;
}

const char *plain_text_fault(const char *text, size_t most) {
    static _Thread_local char fault[96];
    const unsigned char *s = (const unsigned char *)text;
    uint32_t c = 0;
    if (!*text || strlen(text) > most) {
        snprintf(fault, sizeof fault, "must be one line of text, 1 … %zu bytes", most);
        return fault;
    }
    for (size_t n; *s; s += n) {
        if ((n = next_of(s, &c)) == 0)
            return "must be UTF-8";
        if (is_hidden(c)) {
            snprintf(fault, sizeof fault, "must be one line that is seen as it is, without U+%04X", c);
            return fault;
        }
    }
    return NULL;
}
