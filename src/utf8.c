/* SPDX-License-Identifier: MIT */
#include "utf8.h"

size_t utf8_sequence(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
               : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
               : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    }
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool outside = (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF4 && s[1] > 0x8F);
    return overlong || outside ? 0 : n;
}

uint32_t utf8_code_point(const char *s, size_t n) {
    static const unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = (unsigned char)s[0] & first_bits[n];
    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)s[i] & 0x3F);
    return c;
}

bool utf8_is_unseen(uint32_t c) {
    static const struct {
        uint32_t first, last;
    } unseen[] = {
        {0x00, 0x1F},       /* C0 */
        {0x7F, 0x9F},       /* DEL, C1 */
        {0xAD, 0xAD},       /* soft hyphen */
        {0x34F, 0x34F},     /* grapheme joiner */
        {0x61C, 0x61C},     /* Arabic letter mark */
        {0x115F, 0x1160},   /* Hangul fillers */
        {0x17B4, 0x17B5},   /* Khmer inherent vowels */
        {0x180B, 0x180F},   /* Mongolian selectors */
        {0x200B, 0x200F},   /* without width; marks of direction */
        {0x2028, 0x202E},   /* separators of lines and paragraphs; embeddings and overrides */
        {0x2060, 0x206F},   /* word joiner, invisible operators, isolates */
        {0x3164, 0x3164},   /* Hangul filler */
        {0xFEFF, 0xFEFF},   /* byte order mark */
        {0xFFA0, 0xFFA0},   /* half-width Hangul filler */
        {0xFFF0, 0xFFFB},   /* interlinear annotation */
        {0xFFFE, 0xFFFF},   /* no characters */
        {0x1BCA0, 0x1BCA3}, /* shorthand format controls */
        {0x1D173, 0x1D17A}, /* musical format controls */
        {0xE0000, 0xE0FFF}, /* tags, further variation selectors */
    };
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++) {
        if (c >= unseen[i].first && c <= unseen[i].last)
            return true;
    }
    return false;
}

void utf8_json_escape(struct buf *out, uint32_t c) {
    if (c < 0x10000)
        buf_printf(out, "\\u%04x", c);
    else
        buf_printf(out, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
}

void utf8_shown(struct buf *out, const char *text) {
    while (*text) {
        size_t n = utf8_sequence(text);
        if (n == 0 || utf8_is_unseen(utf8_code_point(text, n)))
            buf_char(out, '?');
        else
            buf_append(out, text, n);
        text += n ? n : 1;
    }
}

void utf8_print(FILE *out, const char *text) {
    struct buf shown = {0};
    utf8_shown(&shown, text);
    fputs(buf_cstr(&shown), out);
    buf_free(&shown);
}
