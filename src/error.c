/* SPDX-License-Identifier: MIT */
#include "error.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool error_set(struct error *e, enum error_area area, enum error_action action, enum error_effect effect,
               int code, const char *fmt, ...) {
    if (!e || e->area != ERROR_NONE)
        return false;
    e->area = area;
    e->action = action;
    e->effect = effect;
    e->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return false;
}

void error_clear(struct error *e) {
    memset(e, 0, sizeof *e);
}

void error_prefix(struct error *e, const char *fmt, ...) {
    char prefix[256], whole[sizeof e->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    snprintf(whole, sizeof whole, "%s: %.*s", prefix, (int)(sizeof whole - sizeof prefix - 3), e->text);
    memcpy(e->text, whole, sizeof whole);
}

void error_hide_quoted(const char *text, char *out, size_t size) {
    static const char marks[] = "'\"";
    const char *first = strpbrk(text, marks), *last;
    while (first && first > text && isalpha((unsigned char)first[-1])) /* as in can't */
        first = strpbrk(first + 1, marks);
    last = first;
    for (const char *s = first; s; s = strpbrk(s + 1, marks))
        last = s;
    if (!first)
        snprintf(out, size, "%s", text);
    else /* cut by the store, it may have lost its second mark */
        snprintf(out, size, "%.*s'…'%s", (int)(first - text), text, last > first ? last + 1 : "");
}

const char *error_area_name(enum error_area a) {
    static const char *const names[] = {"none", "config", "kafka", "redis", "mysql", "event", "internal"};
    return names[a];
}

const char *error_action_name(enum error_action a) {
    static const char *const names[] = {"retry", "reject", "stop"};
    return names[a];
}
