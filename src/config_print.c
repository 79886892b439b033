/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <strings.h>

#include "config_keys.h"
#include "config_value.h"

/* Without quotes where it can only be read as the text it is. */
static bool is_plain(const char *s) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-,:";
    size_t len = strlen(s);
    return len && s[strspn(s, letters)] == '\0' && !strchr("-,:", s[0]) && s[len - 1] != ':' &&
           strcasecmp(s, "null") != 0;
}

static void append_quoted(struct buf *out, const char *s) {
    struct buf escaped = {0};
    config_value_escape(s, &escaped);
    buf_char(out, '"');
    for (s = buf_cstr(&escaped); *s; s++) {
        if (*s == '"' || *s == '\\')
            buf_char(out, '\\');
        if (*s == '\n')
            buf_str(out, "\\n");
        else
            buf_char(out, *s);
    }
    buf_char(out, '"');
    buf_free(&escaped);
}

static void append_text(struct buf *out, const char *s) {
    if (is_plain(s))
        buf_str(out, s);
    else
        append_quoted(out, s);
}

static void append_secret(struct buf *out, const char *s) {
    buf_str(out, *s ? "\"********\"" : "\"\"");
}

/* In braces, where indentation says nothing; everything in quotes, since commas and colons do. */
static void append_properties(struct buf *out, const struct config *c) {
    for (size_t i = 0; i < c->kafka.property_count; i++) {
        const struct config_property *p = &c->kafka.properties[i];
        buf_str(out, i ? ",\n    " : "{\n    ");
        append_quoted(out, p->name);
        buf_str(out, ": ");
        if (p->secret)
            append_secret(out, p->value);
        else
            append_quoted(out, p->value);
    }
    buf_str(out, c->kafka.property_count ? "}" : "{}");
}

void config_print_value(const struct config *c, const struct config_key *k, struct buf *out) {
    switch (k->type) {
    case CONFIG_STRING:
        append_text(out, *config_member_text(c, k));
        break;
    case CONFIG_SECRET:
        append_secret(out, *config_member_text(c, k));
        break;
    case CONFIG_INT:
        buf_i64(out, *(int64_t *)config_member(c, k));
        break;
    case CONFIG_BOOL:
        buf_str(out, *(bool *)config_member(c, k) ? "true" : "false");
        break;
    case CONFIG_CHOICE:
        buf_str(out, k->rule->words[*(unsigned *)config_member(c, k)]);
        break;
    case CONFIG_PROPERTIES:
        append_properties(out, c);
        break;
    case CONFIG_PERCENTS:
        for (size_t i = c->threshold_count; i-- > 0;)
            buf_printf(out, "%s%d", i + 1 == c->threshold_count ? "[" : ", ", c->thresholds[i]);
        buf_char(out, ']');
        break;
    }
}

void config_print(const struct config *c, struct buf *out) {
    const char *before = "";
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        const char *name = keys[i].name, *dot;
        size_t shared = 0; /* how much of the name the sections that are open already make up */
        int depth = 0;
        for (size_t n = 0; name[n] && name[n] == before[n]; n++) {
            if (name[n] == '.') {
                shared = n + 1;
                depth++;
            }
        }
        before = name;
        for (name += shared; (dot = strchr(name, '.')); name = dot + 1)
            buf_printf(out, "%*s%.*s:\n", 2 * depth++, "", (int)(dot - name), name);
        buf_printf(out, "%*s%s: ", 2 * depth, "", name);
        config_print_value(c, &keys[i], out);
        buf_char(out, '\n');
    }
}
