/* SPDX-License-Identifier: MIT */
/* The members of an event that tallyd reads, out of JSON in one of two ways. A
 * usual event is scanned where it lies; anything else is jansson's to judge, at
 * ten times the cost: an escape, a character beyond ASCII, an array, a fraction,
 * and whatever may not be JSON at all. Where scanning succeeds both say the same. */
#ifndef TALLYD_EVENT_FIELDS_H
#define TALLYD_EVENT_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_kind { FIELD_ABSENT, FIELD_NULL, FIELD_TEXT, FIELD_INTEGER, FIELD_OBJECT, FIELD_OTHER };

struct field {
    enum field_kind kind;
    const char *text; /* borrowed, and not NUL-terminated */
    size_t len;
    int64_t number;
};

struct event_fields {
    struct field id, type, time, payload;
    struct field family, customer, bytes, app; /* the payload's */
};

/* Reads a usual event. False: it isn't one, which says nothing of whether it is JSON. `value` may be NULL. */
bool event_fields_scan(const char *value, size_t len, struct event_fields *out);
/* Reads an object. Its texts are borrowed. */
void event_fields_take(const json_t *root, struct event_fields *out);

#endif
