/* SPDX-License-Identifier: MIT */
#include "trace.h"

#include <string.h>

/* Where its parts begin: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 */
#define TRACE_AT 3
#define TRACE_DIGITS 32
#define SPAN_AT 36
#define SPAN_DIGITS 16
#define FLAGS_AT 53
#define LENGTH 55

static bool is_hex(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!(s[i] >= '0' && s[i] <= '9') && !(s[i] >= 'a' && s[i] <= 'f'))
            return false;
    }
    return true;
}

static bool is_id(const char *s, size_t n) {
    static const char zeros[] = "00000000000000000000000000000000";
    return is_hex(s, n) && memcmp(s, zeros, n) != 0;
}

static int hex_digit(char c) {
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

bool trace_parent_parse(const void *value, size_t len, char out[TRACE_PARENT_SIZE]) {
    const char *s = value;
    out[0] = '\0';
    if (!s || len < LENGTH || !is_hex(s, 2) || memcmp(s, "ff", 2) == 0)
        return false;
    bool ours = memcmp(s, "00", 2) == 0;
    if (len > LENGTH && (ours || s[LENGTH] != '-'))
        return false;
    if (s[TRACE_AT - 1] != '-' || s[SPAN_AT - 1] != '-' || s[FLAGS_AT - 1] != '-' ||
        !is_id(s + TRACE_AT, TRACE_DIGITS) || !is_id(s + SPAN_AT, SPAN_DIGITS) || !is_hex(s + FLAGS_AT, 2))
        return false;
    memcpy(out, s, LENGTH);
    out[LENGTH] = '\0';
    if (!ours) { /* of its flags only the first is known to mean the same */
        out[0] = out[1] = out[FLAGS_AT] = '0';
        out[FLAGS_AT + 1] = (char)('0' + (hex_digit(s[FLAGS_AT + 1]) & 1));
    }
    return true;
}

const char *trace_id(const char *parent, char out[TRACE_ID_SIZE]) {
    char checked[TRACE_PARENT_SIZE];
    if (!parent || !trace_parent_parse(parent, strlen(parent), checked))
        return NULL;
    memcpy(out, checked + TRACE_AT, TRACE_DIGITS);
    out[TRACE_DIGITS] = '\0';
    return out;
}
