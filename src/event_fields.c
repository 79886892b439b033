/* SPDX-License-Identifier: MIT */
#include "event_fields.h"

#include <string.h>

#define MEMBERS_MAX 16 /* in one object, to be looked through for repeated names */
#define LEVELS_MAX 4
#define DIGITS_MAX 18 /* within 64 bits, whatever they are */

enum place { PLACE_ROOT, PLACE_PAYLOAD, PLACE_ELSEWHERE };

#define NAME(text) text, sizeof(text) - 1
static const struct {
    enum place place;
    const char *name;
    size_t len;
    size_t offset;
} wanted[] = {
    {PLACE_ROOT, NAME("eventId"), offsetof(struct event_fields, id)},
    {PLACE_ROOT, NAME("eventType"), offsetof(struct event_fields, type)},
    {PLACE_ROOT, NAME("timestamp"), offsetof(struct event_fields, time)},
    {PLACE_ROOT, NAME("payload"), offsetof(struct event_fields, payload)},
    {PLACE_PAYLOAD, NAME("familyId"), offsetof(struct event_fields, family)},
    {PLACE_PAYLOAD, NAME("customerId"), offsetof(struct event_fields, customer)},
    {PLACE_PAYLOAD, NAME("bytesUsed"), offsetof(struct event_fields, bytes)},
    {PLACE_PAYLOAD, NAME("appId"), offsetof(struct event_fields, app)},
};
#define WANTED (sizeof wanted / sizeof *wanted)

static struct field *slot(struct event_fields *fields, size_t i) {
    return (struct field *)((char *)fields + wanted[i].offset);
}

/* ---- scanned ---- */

struct name {
    const char *text;
    size_t len;
};

struct scan {
    const char *at, *end;
    struct event_fields *fields;
};

static bool same_name(const struct name *a, const char *text, size_t len) {
    return a->len == len && memcmp(a->text, text, len) == 0;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* What comes next, behind white space; '\0' at the end. */
static char next(struct scan *s) {
    while (s->at < s->end && is_space(*s->at))
        s->at++;
    return s->at < s->end ? *s->at : '\0';
}

static bool take(struct scan *s, char wanted_char) {
    if (next(s) != wanted_char)
        return false;
    s->at++;
    return true;
}

/* Printable ASCII in quotes, none of it escaped. */
static bool scan_text(struct scan *s, const char **text, size_t *len) {
    if (!take(s, '"'))
        return false;
    const char *from = s->at;
    while (s->at < s->end && *s->at >= ' ' && *s->at <= '~' && *s->at != '"' && *s->at != '\\')
        s->at++;
    *text = from;
    *len = (size_t)(s->at - from);
    return s->at < s->end && *s->at++ == '"';
}

/* Digits that are no fraction's or exponent's: then something else than a comma or bracket follows, which
 * whoever called doesn't take. */
static bool scan_integer(struct scan *s, int64_t *number) {
    const char *from = s->at;
    *number = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9' && s->at - from < DIGITS_MAX; s->at++)
        *number = *number * 10 + (*s->at - '0');
    return s->at > from && (*from != '0' || s->at - from == 1);
}

static bool scan_word(struct scan *s, const char *word) {
    size_t len = strlen(word);
    if ((size_t)(s->end - s->at) < len || memcmp(s->at, word, len) != 0)
        return false;
    s->at += len;
    return true;
}

static bool scan_object(struct scan *s, enum place place, int level);

static bool scan_value(struct scan *s, struct field *out, enum place inside, int level) {
    switch (next(s)) {
    case '"':
        out->kind = FIELD_TEXT;
        return scan_text(s, &out->text, &out->len);
    case '{':
        out->kind = FIELD_OBJECT;
        return scan_object(s, inside, level);
    case 'n':
        out->kind = FIELD_NULL;
        return scan_word(s, "null");
    case 't':
        out->kind = FIELD_OTHER;
        return scan_word(s, "true");
    case 'f':
        out->kind = FIELD_OTHER;
        return scan_word(s, "false");
    default:
        out->kind = FIELD_INTEGER;
        return scan_integer(s, &out->number);
    }
}

static bool scan_member(struct scan *s, enum place place, int level, struct name *name) {
    struct field unread = {0}, *to = &unread;
    enum place inside = PLACE_ELSEWHERE;
    if (!scan_text(s, &name->text, &name->len) || !take(s, ':'))
        return false;
    for (size_t i = 0; i < WANTED; i++) {
        if (wanted[i].place == place && same_name(name, wanted[i].name, wanted[i].len))
            to = slot(s->fields, i);
    }
    if (to == &s->fields->payload)
        inside = PLACE_PAYLOAD;
    return scan_value(s, to, inside, level + 1);
}

static bool scan_object(struct scan *s, enum place place, int level) {
    struct name names[MEMBERS_MAX];
    if (level > LEVELS_MAX || !take(s, '{'))
        return false;
    if (take(s, '}'))
        return true;
    for (size_t n = 0; n < MEMBERS_MAX; n++) {
        if (!scan_member(s, place, level, &names[n]))
            return false;
        for (size_t i = 0; i < n; i++) {
            if (same_name(&names[i], names[n].text, names[n].len))
                return false;
        }
        if (!take(s, ','))
            return take(s, '}');
    }
    return false;
}

bool event_fields_scan(const char *value, size_t len, struct event_fields *out) {
    *out = (struct event_fields){0};
    if (!value)
        return false;
    struct scan s = {.at = value, .end = value + len, .fields = out};
    return scan_object(&s, PLACE_ROOT, 1) && next(&s) == '\0' && s.at == s.end;
}

/* ---- taken from jansson's values ---- */

static struct field field_of(const json_t *value) {
    if (!value)
        return (struct field){.kind = FIELD_ABSENT};
    switch (json_typeof(value)) {
    case JSON_NULL:
        return (struct field){.kind = FIELD_NULL};
    case JSON_STRING:
        return (struct field){
            .kind = FIELD_TEXT, .text = json_string_value(value), .len = json_string_length(value)};
    case JSON_INTEGER:
        return (struct field){.kind = FIELD_INTEGER, .number = json_integer_value(value)};
    case JSON_OBJECT:
        return (struct field){.kind = FIELD_OBJECT};
    default:
        return (struct field){.kind = FIELD_OTHER};
    }
}

void event_fields_take(const json_t *root, struct event_fields *out) {
    const json_t *payload = json_object_get(root, "payload");
    for (size_t i = 0; i < WANTED; i++)
        *slot(out, i) =
            field_of(json_object_get(wanted[i].place == PLACE_ROOT ? root : payload, wanted[i].name));
}
