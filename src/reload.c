/* SPDX-License-Identifier: MIT */
#include "reload.h"

#include <string.h>

#include "config_keys.h"

static bool same_properties(const struct config *a, const struct config *b) {
    if (a->kafka.property_count != b->kafka.property_count)
        return false;
    for (size_t i = 0; i < a->kafka.property_count; i++) {
        const struct config_property *p = &a->kafka.properties[i], *q = &b->kafka.properties[i];
        if (strcmp(p->name, q->name) != 0 || strcmp(p->value, q->value) != 0)
            return false;
    }
    return true;
}

static bool same_printed(const struct config *a, const struct config *b, const struct config_key *k) {
    struct buf left = {0}, right = {0};
    config_print_value(a, k, &left);
    config_print_value(b, k, &right);
    bool same = strcmp(buf_cstr(&left), buf_cstr(&right)) == 0;
    buf_free(&left);
    buf_free(&right);
    return same;
}

/* What is printed of a secret is always the same. */
static bool same_value(const struct config *a, const struct config *b, const struct config_key *k) {
    if (k->type == CONFIG_PROPERTIES)
        return same_properties(a, b);
    if (k->type == CONFIG_SECRET)
        return strcmp(*config_member_text(a, k), *config_member_text(b, k)) == 0;
    return same_printed(a, b, k);
}

void reload_changed_keys(const struct config *a, const struct config *b, struct buf *out) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i].name, "log.level") == 0 || same_value(a, b, &keys[i]))
            continue;
        if (out->len)
            buf_str(out, ", ");
        buf_str(out, keys[i].name);
    }
}

/* Who sent the signal wants an answer, also where the level leaves out what isn't an error. */
#define ANSWER(level, event, ...)                                                                            \
    log_write(level, event, (const struct log_field[]){__VA_ARGS__, {.name = NULL}})

static void take_level(enum log_level to) {
    enum log_level from = log_level();
    log_set_level(to);
    if (from == to)
        ANSWER(LOG_INFO, "reload_unchanged", LOG_S("log_level", log_level_name(to)));
    else
        ANSWER(LOG_INFO, "log_level_changed", LOG_S("from", log_level_name(from)),
               LOG_S("to", log_level_name(to)));
}

void reload_log_level(const char *path, const struct config *running) {
    struct error err = {0};
    struct buf keys = {0};
    struct config *read = config_load(path, &err);
    if (!read) {
        ANSWER(LOG_ERROR, "reload_failed", LOG_E(&err));
        return;
    }
    take_level(read->log_level);
    reload_changed_keys(running, read, &keys);
    if (keys.len)
        ANSWER(LOG_WARN, "restart_needed", LOG_S("keys", buf_cstr(&keys)));
    buf_free(&keys);
    config_free(read);
}
