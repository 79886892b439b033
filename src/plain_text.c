/* SPDX-License-Identifier: MIT */
#include "plain_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "utf8.h"

const char *plain_text_fault(const char *text, size_t most) {
    static _Thread_local char fault[96];
    const char *s = text;
    if (!*text || strlen(text) > most) {
        snprintf(fault, sizeof fault, "must be one line of text, 1 … %zu bytes", most);
        return fault;
    }
    for (size_t n; *s; s += n) {
        if ((n = utf8_sequence(s)) == 0)
            return "must be UTF-8";
        uint32_t c = utf8_code_point(s, n);
        if (utf8_is_unseen(c)) {
            snprintf(fault, sizeof fault, "must be one line that is seen as it is, without U+%04X", c);
            return fault;
        }
    }
    return NULL;
}
