/* SPDX-License-Identifier: MIT */
#include "policy.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "event.h"

static void unreadable(struct policy_rules *r, const struct policy_row *row, const char *why) {
    if (r->unreadable)
        return;
    r->unreadable = true;
    snprintf(r->why, sizeof r->why, "%.32s of %s: %s", row->type,
             row->customer_id == POLICY_FOR_FAMILY ? "the family" : "the customer", why);
}

/* "22:00" or "2200" → four digits; false when it's no time of day. */
static bool read_time(const json_t *v, char out[5]) {
    const char *s = json_string_value(v);
    size_t n = s ? strlen(s) : 0;
    if (n == 5 && s[2] == ':')
        snprintf(out, 5, "%.2s%.2s", s, s + 3);
    else if (n == 4)
        snprintf(out, 5, "%.4s", s);
    else
        return false;
    return strspn(out, "0123456789") == 4 && strncmp(out, "24", 2) < 0 && out[2] < '6';
}

static void read_time_block(struct policy_rules *r, const struct policy_row *row, const json_t *rules) {
    char start[5], end[5];
    if (read_time(json_object_get(rules, "start"), start) && read_time(json_object_get(rules, "end"), end))
        snprintf(r->time_block, sizeof r->time_block, "%s-%s", start, end);
    else
        unreadable(r, row, "start and end must be times of day such as 22:00");
}

static void read_limit(struct policy_rules *r, const struct policy_row *row, const json_t *rules) {
    const json_t *v = json_object_get(rules, "limitBytes");
    int64_t limit = json_is_integer(v) ? json_integer_value(v) : -1;
    bool ok = json_is_string(v) ? event_amount_parse(json_string_value(v), json_string_length(v), 0, &limit)
                                : limit >= 0 && limit <= EVENT_AMOUNT_MAX;
    if (ok)
        r->monthly_limit = limit;
    else
        unreadable(r, row, "limitBytes must be a whole number from 0 to 9007199254740991");
}

static void read_apps(struct policy_rules *r, const struct policy_row *row, const json_t *rules) {
    const json_t *list = json_object_get(rules, "blockedApps"), *v;
    size_t i;
    if (!json_is_array(list)) {
        unreadable(r, row, "blockedApps must be a list of texts");
        return;
    }
    json_array_foreach(list, i, v) {
        if (!json_is_string(v)) {
            unreadable(r, row, "blockedApps must be a list of texts");
            return;
        }
        const char *s = json_string_value(v);
        size_t n = event_trim(&s, json_string_length(v));
        if (n == 0 || n > EVENT_APP_MAX)
            continue; /* no event can have such an app */
        char *app = mem_alloc(n + 1);
        memcpy(app, s, n);
        app[n] = '\0';
        r->apps = mem_realloc(r->apps, (r->app_count + 1) * sizeof *r->apps);
        r->apps[r->app_count++] = app;
    }
}

static void read_manual(struct policy_rules *r, const struct policy_row *row, const json_t *rules) {
    const json_t *reason = json_object_get(rules, "reason");
    if (reason && !json_is_string(reason) && !json_is_null(reason))
        unreadable(r, row, "reason must be text");
    else
        r->manual_block = true;
}

static const struct {
    const char *type;
    bool adds_up;
    void (*read)(struct policy_rules *r, const struct policy_row *row, const json_t *rules);
} types[] = {
    {"MANUAL_BLOCK", false, read_manual},
    {"APP_BLOCK", true, read_apps},
    {"TIME_BLOCK", false, read_time_block},
    {"MONTHLY_LIMIT", false, read_limit},
};
#define TYPE_COUNT (sizeof types / sizeof *types)

static void read_row(struct policy_rules *r, const struct policy_row *row, size_t type) {
    json_t *rules = json_loads(row->rules, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(rules))
        types[type].read(r, row, rules);
    else
        unreadable(r, row, "rules is not one JSON object");
    json_decref(rules);
}

void policy_rules_build(struct policy_rules *out, const struct policy_row *rows, size_t n,
                        int64_t customer_id) {
    const struct policy_row *own[TYPE_COUNT] = {0}, *family[TYPE_COUNT] = {0};
    *out = (struct policy_rules){.monthly_limit = -1};
    for (size_t i = 0; i < n; i++) {
        const struct policy_row *row = &rows[i];
        if (row->customer_id != POLICY_FOR_FAMILY && row->customer_id != customer_id)
            continue;
        size_t t = 0;
        while (t < TYPE_COUNT && strcmp(row->type, types[t].type) != 0)
            t++;
        if (t == TYPE_COUNT)
            unreadable(out, row, "no such policy_type");
        else if (types[t].adds_up)
            read_row(out, row, t);
        else if (row->customer_id == POLICY_FOR_FAMILY)
            family[t] = row;
        else
            own[t] = row;
    }
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        const struct policy_row *row = own[t] ? own[t] : family[t];
        if (row)
            read_row(out, row, t);
    }
}

void policy_rules_free(struct policy_rules *r) {
    for (size_t i = 0; i < r->app_count; i++)
        free(r->apps[i]);
    free(r->apps);
    *r = (struct policy_rules){0};
}
