/* SPDX-License-Identifier: MIT */
#include "family_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "period.h"

void print_time(struct table *t, int64_t ms) {
    char text[PERIOD_LOCAL_SIZE];
    if (ms > 0)
        period_format_local(ms, text);
    table_text(t, ms > 0 ? text : NULL);
}

json_t *print_time_json(int64_t ms) {
    char text[PERIOD_LOCAL_SIZE];
    if (ms <= 0)
        return json_null();
    period_format_local(ms, text);
    return json_string(text);
}

json_t *print_text_json(const char *text) {
    if (!text)
        return json_null();
    json_t *whole = json_string(text);
    if (whole)
        return whole;
    struct buf shown = {0};
    for (; *text; text++)
        buf_char(&shown, *text >= ' ' && *text <= '~' ? *text : '?');
    whole = json_string(buf_cstr(&shown));
    buf_free(&shown);
    return whole;
}

json_t *print_i64_json(bool known, int64_t number) {
    return known ? json_integer(number) : json_null();
}

json_t *print_error_json(const struct error *e) {
    if (e->area == ERROR_NONE)
        return json_null();
    json_t *o = json_object();
    json_object_set_new(o, "area", json_string(error_area_name(e->area)));
    json_object_set_new(o, "text", print_text_json(e->text));
    return o;
}

void print_month(char out[8], int32_t month) {
    char date[PERIOD_DATE_SIZE];
    period_month_date(month, date);
    memcpy(out, date, 7);
    out[7] = '\0';
}

bool print_month_parse(const char *text, int32_t *month) {
    char digits[7];
    size_t len = strlen(text);
    if (len == 7 && text[4] == '-')
        snprintf(digits, sizeof digits, "%.4s%.2s", text, text + 5);
    else if (len == 6)
        snprintf(digits, sizeof digits, "%.6s", text);
    else
        return false;
    *month = (int32_t)strtol(digits, NULL, 10);
    return strspn(digits, "0123456789") == 6 && *month >= 100001 && *month % 100 >= 1 && *month % 100 <= 12;
}

/* ---- parts as JSON ---- */

json_t *print_rules_json(const struct policy_rules *r) {
    json_t *o = json_object(), *apps = json_array();
    for (size_t i = 0; i < r->app_count; i++)
        json_array_append_new(apps, print_text_json(r->apps[i]));
    json_object_set_new(o, "unreadable", r->unreadable ? print_text_json(r->why) : json_null());
    json_object_set_new(o, "manualBlock", json_boolean(r->manual_block));
    json_object_set_new(o, "timeBlock", *r->time_block ? json_string(r->time_block) : json_null());
    json_object_set_new(o, "monthlyLimit", print_i64_json(r->monthly_limit >= 0, r->monthly_limit));
    json_object_set_new(o, "blockedApps", apps);
    return o;
}

json_t *print_alert_json(const struct family_alert *a) {
    json_t *o = json_object();
    json_object_set_new(o, "alert", print_text_json(a->alert));
    json_object_set_new(o, "customer", json_integer(a->customer));
    json_object_set_new(o, "event", print_text_json(a->event_id));
    json_object_set_new(o, "told", json_boolean(!a->only_marked));
    json_object_set_new(o, "at", print_time_json(a->told_ms));
    json_object_set_new(o, "total", json_integer(a->total));
    json_object_set_new(o, "remaining", json_integer(a->remaining));
    return o;
}

json_t *print_letter_json(const struct family_letter *l) {
    json_t *o = json_object(), *lease = json_null();
    json_object_set_new(o, "id", json_integer(l->outbox_id));
    json_object_set_new(o, "event", print_text_json(l->event_id));
    json_object_set_new(o, "customer", json_integer(l->customer));
    json_object_set_new(o, "status", print_text_json(l->status));
    json_object_set_new(o, "tries", json_integer(l->retry_count));
    json_object_set_new(o, "nextTry", print_time_json(l->next_retry_ms));
    json_object_set_new(o, "lastError", print_text_json(l->last_error));
    if (l->lease_until_ms) {
        lease = json_object();
        json_object_set_new(lease, "owner", json_integer(l->lease_owner));
        json_object_set_new(lease, "until", print_time_json(l->lease_until_ms));
        json_object_set_new(lease, "holds", json_boolean(l->leased));
    }
    json_object_set_new(o, "lease", lease);
    json_object_set_new(o, "created", print_time_json(l->created_ms));
    json_object_set_new(o, "sent", print_time_json(l->sent_ms));
    return o;
}

/* An integer where JSON's reader here has one for it, else the nearest number. */
static json_t *difference_json(int64_t redis, int64_t mysql) {
    char text[FAMILY_DIFFERENCE_SIZE];
    int64_t difference;
    if (!__builtin_sub_overflow(redis, mysql, &difference))
        return json_integer(difference);
    family_difference(text, redis, mysql);
    return json_real(strtod(text, NULL));
}

json_t *print_figure_json(enum family_cache state, bool cached, int64_t redis, int64_t mysql) {
    json_t *o = json_object();
    json_object_set_new(o, "mysql", json_integer(mysql));
    json_object_set_new(o, "redis", print_i64_json(cached, redis));
    json_object_set_new(o, "state", json_string(family_cache_name(state)));
    json_object_set_new(o, "difference", cached ? difference_json(redis, mysql) : json_null());
    return o;
}

/* ---- alerts ---- */

void print_alerts(const struct family_month *m, const char *event_id) {
    struct table *t =
        table_new("alert", "customer", "told", "at", "total then>", "left then>", "event", NULL);
    for (size_t i = 0; i < m->alert_count; i++) {
        const struct family_alert *a = &m->alerts[i];
        if (event_id && strcmp(a->event_id, event_id) != 0)
            continue;
        table_text(t, a->alert);
        table_i64(t, a->customer);
        table_text(t, a->only_marked ? "with a lower one" : "yes");
        print_time(t, a->told_ms);
        table_i64(t, a->total);
        table_i64(t, a->remaining);
        table_text(t, a->event_id);
    }
    table_print(t, stdout);
    table_free(t);
}

/* ---- both stores ---- */

static void figure_row(struct table *t, enum family_cache state, bool cached, int64_t redis, int64_t mysql) {
    char difference[FAMILY_DIFFERENCE_SIZE];
    table_i64(t, mysql);
    table_i64_if(t, cached, redis);
    family_difference(difference, redis, mysql);
    if (state == FAMILY_CACHE_DIFFERS)
        table_format(t, "differ by %s: decided and not settled yet, or drifted (tallyd audit --family)",
                     difference);
    else if (state == FAMILY_CACHE_COLD)
        table_text(t, "cold: read from MySQL when next needed");
    else if (state == FAMILY_CACHE_OTHER_TOTAL)
        table_text(t, "of another total, not warmed anew yet (tallyd warm)");
    else
        table_text(t, family_cache_name(state));
}

static enum family_cache left_state(const struct family_month *m) {
    if (m->cache == FAMILY_CACHE_UNASKED || m->cache == FAMILY_CACHE_OTHER_TOTAL)
        return m->cache;
    return family_cache_judge(m->has_cached, m->cached_remaining, family_left(m));
}

static enum family_cache used_state(const struct family_month *m, const struct family_member *member) {
    return m->cache == FAMILY_CACHE_UNASKED
               ? FAMILY_CACHE_UNASKED
               : family_cache_judge(member->has_cached, member->cached_used, member->used);
}

/* The family's figure, and of the members those that say more than it does: the one asked about, and those
 * that differ. */
void print_cache(const struct family_month *m) {
    struct table *t = table_new("stores", "in MySQL>", "in Redis>", "they", NULL);
    table_text(t, "family's left");
    figure_row(t, left_state(m), m->has_cached, m->cached_remaining, family_left(m));
    for (size_t i = 0; i < m->member_count; i++) {
        const struct family_member *member = &m->members[i];
        enum family_cache state = used_state(m, member);
        if (!m->only_customer && state != FAMILY_CACHE_DIFFERS)
            continue;
        table_format(t, "used by %lld", (long long)member->customer);
        figure_row(t, state, member->has_cached, member->cached_used, member->used);
    }
    table_print(t, stdout);
    table_free(t);
}

/* What stands in Redis for a time may be any number. */
static int64_t warmed_ms(const struct family_month *m) {
    return m->warmed_s < INT64_MAX / 1000 ? m->warmed_s * 1000 : INT64_MAX;
}

json_t *print_cache_json(const struct family_month *m) {
    json_t *o = json_object(), *members = json_array();
    for (size_t i = 0; i < m->member_count; i++) {
        const struct family_member *member = &m->members[i];
        json_t *one =
            print_figure_json(used_state(m, member), member->has_cached, member->cached_used, member->used);
        json_object_set_new(one, "customer", json_integer(member->customer));
        json_array_append_new(members, one);
    }
    json_object_set_new(o, "state", json_string(family_cache_name(m->cache)));
    json_object_set_new(o, "warmed", print_time_json(m->has_cached ? warmed_ms(m) : 0));
    json_object_set_new(o, "remaining",
                        print_figure_json(left_state(m), m->has_cached, m->cached_remaining, family_left(m)));
    json_object_set_new(o, "used", members);
    return o;
}
