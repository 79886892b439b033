/* SPDX-License-Identifier: MIT */
#include "schema.h"

#include <locale.h>
#include <math.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct check {
    const json_t *root;   /* where $ref looks */
    const json_t *schema; /* the one whose keyword is being checked */
    char *why;
};

typedef bool keyword_fn(struct check *c, const json_t *argument, const json_t *value);

static bool meets(struct check *c, const json_t *schema, const json_t *value);

static bool fail(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct check *c, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->why, SCHEMA_WHY_SIZE, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- values ---- */

static bool has_type(const json_t *v, const char *type) {
    static const char *const names[] = {
        [JSON_OBJECT] = "object",  [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "number", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",  [JSON_NULL] = "null"};
    if (strcmp(type, "integer") == 0) /* with nothing behind the point, however it's written */
        return json_is_integer(v) || (json_is_real(v) && trunc(json_real_value(v)) == json_real_value(v));
    return strcmp(type, names[json_typeof(v)]) == 0;
}

static json_int_t characters(const json_t *text) {
    const char *s = json_string_value(text);
    json_int_t n = 0;
    for (size_t i = 0; i < json_string_length(text); i++)
        n += (s[i] & 0xC0) != 0x80;
    return n;
}

/* -1, 0 or 1. Exact between integers, which a double isn't from 2^53 on. */
static int compare(const json_t *a, const json_t *b) {
    if (json_is_integer(a) && json_is_integer(b)) {
        json_int_t x = json_integer_value(a), y = json_integer_value(b);
        return (x > y) - (x < y);
    }
    double x = json_number_value(a), y = json_number_value(b);
    return (x > y) - (x < y);
}

/* 0: matches, 1: doesn't, 2: the pattern can't be compiled. In a UTF-8 locale, whatever the program's is. */
static int match(const char *pattern, const char *text) {
    regex_t regex;
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (utf8 == (locale_t)0)
        return 2;
    locale_t before = uselocale(utf8);
    int result = 2;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) == 0) {
        result = regexec(&regex, text, 0, NULL, 0) != 0;
        regfree(&regex);
    }
    uselocale(before);
    freelocale(utf8);
    return result;
}

/* ---- keywords; one that speaks of another type of value is met ---- */

static bool type(struct check *c, const json_t *argument, const json_t *value) {
    return has_type(value, json_string_value(argument)) || fail(c, "is no %s", json_string_value(argument));
}

static bool constant(struct check *c, const json_t *argument, const json_t *value) {
    return json_equal(argument, value) || fail(c, "isn't the constant");
}

static bool enumeration(struct check *c, const json_t *argument, const json_t *value) {
    for (size_t i = 0; i < json_array_size(argument); i++) {
        if (json_equal(json_array_get(argument, i), value))
            return true;
    }
    return fail(c, "isn't in the enumeration");
}

static bool minimum(struct check *c, const json_t *argument, const json_t *value) {
    return !json_is_number(value) || compare(value, argument) >= 0 || fail(c, "is below the minimum");
}

static bool maximum(struct check *c, const json_t *argument, const json_t *value) {
    return !json_is_number(value) || compare(value, argument) <= 0 || fail(c, "is above the maximum");
}

static bool min_length(struct check *c, const json_t *argument, const json_t *value) {
    return !json_is_string(value) || characters(value) >= json_integer_value(argument) ||
           fail(c, "is too short");
}

static bool max_length(struct check *c, const json_t *argument, const json_t *value) {
    return !json_is_string(value) || characters(value) <= json_integer_value(argument) ||
           fail(c, "is too long");
}

static bool pattern(struct check *c, const json_t *argument, const json_t *value) {
    return !json_is_string(value) || match(json_string_value(argument), json_string_value(value)) == 0 ||
           fail(c, "doesn't match %s", json_string_value(argument));
}

static bool required(struct check *c, const json_t *argument, const json_t *value) {
    for (size_t i = 0; json_is_object(value) && i < json_array_size(argument); i++) {
        const char *name = json_string_value(json_array_get(argument, i));
        if (!json_object_get(value, name))
            return fail(c, "lacks %s", name);
    }
    return true;
}

/* Puts the member's name before what its schema said. */
static bool member_meets(struct check *c, const json_t *schema, const char *name, const json_t *value) {
    char said[SCHEMA_WHY_SIZE];
    if (meets(c, schema, value))
        return true;
    snprintf(said, sizeof said, "%s", c->why);
    return fail(c, "%.100s: %.400s", name, said);
}

static bool properties(struct check *c, const json_t *argument, const json_t *value) {
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)argument, name, member) {
        const json_t *found = json_object_get(value, name);
        if (found && !member_meets(c, member, name, found))
            return false;
    }
    return true;
}

static bool additional(struct check *c, const json_t *argument, const json_t *value) {
    const json_t *known = json_object_get(c->schema, "properties");
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)value, name, member) {
        if (!json_object_get(known, name) && !member_meets(c, argument, name, member))
            return false;
    }
    return true;
}

static bool any_of(struct check *c, const json_t *argument, const json_t *value) {
    for (size_t i = 0; i < json_array_size(argument); i++) {
        if (meets(c, json_array_get(argument, i), value))
            return true;
    }
    return fail(c, "meets none of anyOf");
}

/* Only into $defs of the same document. */
static const json_t *referred(const struct check *c, const json_t *argument) {
    static const char start[] = "#/$defs/";
    const char *to = json_string_value(argument);
    if (!to || strncmp(to, start, sizeof start - 1) != 0)
        return NULL;
    return json_object_get(json_object_get(c->root, "$defs"), to + sizeof start - 1);
}

static bool reference(struct check *c, const json_t *argument, const json_t *value) {
    return meets(c, referred(c, argument), value);
}

enum argument { TEXT, PATTERN, REF, ANY, NUMBER, LENGTH, LIST, SCHEMA, SCHEMAS };

static const struct {
    const char *name;
    enum argument argument;
    keyword_fn *check; /* NULL: says nothing about values */
} keywords[] = {{"$schema", TEXT, NULL},
                {"$id", TEXT, NULL},
                {"$comment", TEXT, NULL},
                {"title", TEXT, NULL},
                {"description", TEXT, NULL},
                {"$defs", SCHEMAS, NULL},
                {"type", TEXT, type},
                {"const", ANY, constant},
                {"enum", LIST, enumeration},
                {"minimum", NUMBER, minimum},
                {"maximum", NUMBER, maximum},
                {"minLength", LENGTH, min_length},
                {"maxLength", LENGTH, max_length},
                {"pattern", PATTERN, pattern},
                {"required", LIST, required},
                {"properties", SCHEMAS, properties},
                {"anyOf", SCHEMAS, any_of},
                {"$ref", REF, reference},
                {"additionalProperties", SCHEMA, additional}};

#define KEYWORDS (sizeof keywords / sizeof *keywords)

static size_t find(const char *name) {
    size_t i = 0;
    while (i < KEYWORDS && strcmp(keywords[i].name, name) != 0)
        i++;
    return i;
}

static bool meets(struct check *c, const json_t *schema, const json_t *value) {
    const char *name;
    json_t *argument;
    if (json_is_boolean(schema))
        return json_is_true(schema) || fail(c, "isn't allowed");
    bool ok = true;
    json_object_foreach((json_t *)schema, name, argument) {
        size_t k = find(name);
        c->schema = schema;
        ok = ok && (k < KEYWORDS || fail(c, "unknown keyword %s", name)) &&
             (!keywords[k].check || keywords[k].check(c, argument, value));
    }
    return ok;
}

bool schema_meets(const json_t *schema, const json_t *value, char why[SCHEMA_WHY_SIZE]) {
    struct check c = {.root = schema, .why = why};
    why[0] = '\0';
    return meets(&c, schema, value);
}

/* ---- the schema's own form ---- */

static bool usable(struct check *c, const json_t *schema, const char *at);

static bool each_usable(struct check *c, const json_t *schemas, const char *at) {
    const char *name;
    json_t *schema;
    bool ok = true;
    json_object_foreach((json_t *)schemas, name, schema) {
        ok = ok && usable(c, schema, name);
    }
    for (size_t i = 0; i < json_array_size(schemas); i++)
        ok = ok && usable(c, json_array_get(schemas, i), at);
    return ok;
}

static bool argument_fits(struct check *c, enum argument kind, const json_t *a, const char *at) {
    switch (kind) {
    case PATTERN:
        return json_is_string(a) && match(json_string_value(a), "") != 2;
    case REF:
        return referred(c, a) != NULL;
    case TEXT:
        return json_is_string(a);
    case NUMBER:
        return json_is_number(a);
    case LENGTH:
        return json_is_integer(a) && json_integer_value(a) >= 0;
    case LIST:
        return json_array_size(a) > 0;
    case ANY:
        return true;
    case SCHEMA:
        return usable(c, a, at);
    case SCHEMAS:
        return (strcmp(at, "anyOf") == 0 ? json_is_array(a) : json_is_object(a)) && each_usable(c, a, at);
    }
    return false;
}

static bool usable(struct check *c, const json_t *schema, const char *at) {
    const char *name;
    json_t *argument;
    if (json_is_boolean(schema))
        return true;
    if (!json_is_object(schema))
        return fail(c, "%s: is no schema", at);
    json_object_foreach((json_t *)schema, name, argument) {
        size_t k = find(name);
        if (k == KEYWORDS)
            return fail(c, "%s: unknown keyword %s", at, name);
        c->why[0] = '\0';
        if (!argument_fits(c, keywords[k].argument, argument, name))
            return c->why[0] ? false : fail(c, "%s: %s has no use for this value", at, name);
    }
    return true;
}

bool schema_usable(const json_t *schema, char why[SCHEMA_WHY_SIZE]) {
    struct check c = {.root = schema, .why = why};
    why[0] = '\0';
    return usable(&c, schema, "schema");
}
