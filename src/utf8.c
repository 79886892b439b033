/* SPDX-License-Identifier: MIT */
#include "utf8.h"

size_t utf8_length(const unsigned char *s) {
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

uint32_t utf8_code_point(const unsigned char *s, size_t n) {
    static const unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = s[0] & first_bits[n];
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3F);
    return c;
}

bool utf8_is_unseen(uint32_t c) {
    static const struct {
        uint32_t first, last;
    } unseen[] = {
        {0x00, 0x1F},     {0x7F, 0x9F},                       /* C0, DEL, C1 */
        {0xAD, 0xAD},     {0x61C, 0x61C},   {0x180E, 0x180E}, /* soft hyphen; direction; a separator */
        {0x200B, 0x200F}, {0x2028, 0x202E},                   /* without width; line ends; direction */
        {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F},
    };
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++) {
        if (c >= unseen[i].first && c <= unseen[i].last)
            return true;
    }
    return false;
}

void utf8_append_escaped(struct buf *b, uint32_t c) {
    if (c < 0x10000)
        buf_printf(b, "\\u%04x", c);
    else
        buf_printf(b, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
}

void utf8_append_visible(struct buf *out, const char *json) {
    for (const unsigned char *s = (const unsigned char *)json; *s;) {
        size_t n = utf8_length(s);
        uint32_t c = n ? utf8_code_point(s, n) : 0;
        if (n && c != '\n' && utf8_is_unseen(c))
            utf8_append_escaped(out, c);
        else
            buf_append(out, s, n ? n : 1);
        s += n ? n : 1;
    }
}
