/* SPDX-License-Identifier: MIT */
/* Looking at rows: list and show. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_outbox_internal.h"
#include "outbox_admin.h"
#include "period.h"
#include "table.h"

#define LIST_LIMIT 100

/* ---- times ---- */

static void age_text(int64_t ms, char out[24]) {
    int64_t s = ms < 0 ? 0 : ms / 1000;
    if (s < 120)
        snprintf(out, 24, "%lld s", (long long)s);
    else if (s < 7200)
        snprintf(out, 24, "%lld min", (long long)(s / 60));
    else if (s < 172800)
        snprintf(out, 24, "%lld h", (long long)(s / 3600));
    else
        snprintf(out, 24, "%lld d", (long long)(s / 86400));
}

/* "in 12 s", "3 min ago", "-". */
static void distance_text(int64_t at_ms, int64_t now_ms, char out[40]) {
    char age[24];
    age_text(at_ms > now_ms ? at_ms - now_ms : now_ms - at_ms, age);
    if (at_ms == OUTBOX_ADMIN_NEVER)
        snprintf(out, 40, "-");
    else
        snprintf(out, 40, at_ms > now_ms ? "in %s" : "%s ago", age);
}

/* ---- rows ---- */

const char *cli_outbox_word(const char *status) {
    return strcmp(status, "PUBLISH_PENDING") == 0 ? "pending"
           : strcmp(status, "FAILED") == 0        ? "failed"
                                                  : "sent";
}

static void lease_text(const struct outbox_entry *e, int64_t now_ms, char out[80]) {
    char distance[40];
    distance_text(e->lease_until_ms, now_ms, distance);
    if (e->lease_until_ms == OUTBOX_ADMIN_NEVER)
        snprintf(out, 80, "-");
    else
        snprintf(out, 80, "%s %s", e->leased ? "ends" : "ended", distance);
}

static json_t *entry_json(const struct outbox_entry *e) {
    return json_pack(
        "{s:I,s:o,s:I,s:I,s:s,s:o,s:I,s:o,s:o,s:{s:o,s:o,s:b},s:o,s:o,s:o,s:b}", "outboxId",
        (json_int_t)e->outbox_id, "eventId", cli_text_json(e->event_id), "familyId", (json_int_t)e->family_id,
        "customerId", (json_int_t)e->customer_id, "status", e->status, "createdAt",
        cli_time_json(e->created_ms), "tries", (json_int_t)e->retry_count, "nextRetryAt",
        cli_time_json(e->next_retry_ms), "lastError", cli_text_json(e->last_error), "lease", "owner",
        e->lease_owner ? json_integer((json_int_t)e->lease_owner) : json_null(), "until",
        cli_time_json(e->lease_until_ms), "held", e->leased, "heldBackBy",
        e->behind ? json_integer((json_int_t)e->behind) : json_null(), "sentAt", cli_time_json(e->sent_ms),
        "retriedAt", cli_time_json(e->retried_ms), "mayBePublished", e->may_be_published);
}

static void print_entries(const struct outbox_entries *found) {
    char age[24], retry[40], lease[80];
    struct table *t = table_new("id", "event", "family", "customer", "status", "age>", "tries>", "next try",
                                "lease", "waits for", "last error", NULL);
    for (size_t i = 0; i < found->count; i++) {
        const struct outbox_entry *e = &found->items[i];
        age_text(found->now_ms - e->created_ms, age);
        distance_text(e->next_retry_ms, found->now_ms, retry);
        lease_text(e, found->now_ms, lease);
        table_i64(t, e->outbox_id);
        table_text(t, e->event_id);
        table_i64(t, e->family_id);
        table_i64(t, e->customer_id);
        table_text(t, cli_outbox_word(e->status));
        table_text(t, age);
        table_i64(t, e->retry_count);
        table_text(t, retry);
        table_text(t, lease);
        table_i64_if(t, e->behind != 0, e->behind);
        table_text(t, e->last_error);
    }
    table_print(t, stdout);
    table_free(t);
}

int cli_outbox_list(const struct config *cfg, struct db *db, void *options) {
    const struct outbox_options *o = options;
    (void)cfg;
    struct error err = {0};
    struct outbox_entries found = {0};
    bool all = o->status && strcmp(o->status, "all") == 0;
    const struct outbox_filter filter = {
        .pending = !o->status || all || strcmp(o->status, "pending") == 0,
        .failed = !o->status || all || strcmp(o->status, "failed") == 0,
        .sent = all || (o->status && strcmp(o->status, "sent") == 0),
        .family = o->family,
        .limit = o->limit ? o->limit : LIST_LIMIT,
    };
    if (!outbox_admin_list(db, &filter, &found, &err))
        return cli_failed(COMMAND, &err);
    bool more = (int64_t)found.count == filter.limit;
    if (o->json) {
        json_t *rows = json_array();
        for (size_t i = 0; i < found.count; i++)
            json_array_append_new(rows, entry_json(&found.items[i]));
        table_print_json(json_pack("{s:o,s:b}", "rows", rows, "limitReached", more), stdout);
    } else {
        print_entries(&found);
        printf("%zu row%s%s\n", found.count, found.count == 1 ? "" : "s",
               more ? "; there may be more (--limit)" : "");
    }
    outbox_entries_free(&found);
    return EXIT_OK;
}

/* ---- one of them ---- */

static void add_field(struct table *t, const char *name, const char *value) {
    table_text(t, name);
    table_text(t, value);
}

static void add_time(struct table *t, const char *name, int64_t ms, int64_t now_ms) {
    char text[PERIOD_LOCAL_SIZE], distance[40];
    if (ms == OUTBOX_ADMIN_NEVER) {
        add_field(t, name, NULL);
        return;
    }
    period_format_local(ms, text);
    distance_text(ms, now_ms, distance);
    table_text(t, name);
    table_format(t, "%s (%s)", text, distance);
}

static void add_number(struct table *t, const char *name, bool known, int64_t number) {
    table_text(t, name);
    table_i64_if(t, known, number);
}

/* A line of the payload a row, so that the table's printer sees to its text. */
static void add_payload(struct table *t, const char *payload) {
    json_t *root = json_loads(payload, 0, NULL);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    char *rest = text ? text : mem_strdup(payload), *whole = rest, *line;
    for (const char *name = "payload"; (line = strsep(&rest, "\n")); name = "")
        add_field(t, name, line);
    free(whole);
    json_decref(root);
}

static void print_one(const struct outbox_entry *e, int64_t now_ms, const char *alerts) {
    struct table *t = table_new("column", "value", NULL);
    add_number(t, "outbox_id", true, e->outbox_id);
    add_field(t, "event_id", e->event_id);
    add_number(t, "family_id", true, e->family_id);
    add_number(t, "customer_id", true, e->customer_id);
    add_field(t, "status", e->status);
    add_field(t, "tells", alerts);
    add_time(t, "created_at", e->created_ms, now_ms);
    add_time(t, "sent_at", e->sent_ms, now_ms);
    add_number(t, "retry_count", true, e->retry_count);
    add_time(t, "next_retry_at", e->next_retry_ms, now_ms);
    add_time(t, "retried_at", e->retried_ms, now_ms);
    add_field(t, "last_error", e->last_error);
    add_number(t, "lease_owner", e->lease_owner != 0, e->lease_owner);
    add_time(t, "lease_until", e->lease_until_ms, now_ms);
    add_field(t, "on the topic",
              e->sent_ms != OUTBOX_ADMIN_NEVER ? "yes"
              : e->may_be_published            ? "it may be"
                                               : "no");
    add_number(t, "waits for row", e->behind != 0, e->behind);
    add_payload(t, e->payload ? e->payload : "");
    table_print(t, stdout);
    table_free(t);
}

static json_t *one_json(const struct outbox_entry *e, const char *alerts) {
    json_t *j = entry_json(e);
    json_t *payload = e->payload ? json_loads(e->payload, 0, NULL) : NULL;
    json_object_set_new(j, "alerts", cli_text_json(alerts));
    json_object_set_new(j, "payload", payload ? payload : json_null());
    if (!payload)
        json_object_set_new(j, "payloadText", cli_text_json(e->payload));
    return j;
}

int cli_outbox_show(const struct config *cfg, struct db *db, void *options) {
    const struct outbox_options *o = options;
    (void)cfg;
    struct error err = {0};
    struct outbox_entries found = {0};
    bool ok = outbox_admin_find(db, o->ids[0], &found, &err);
    json_t *all = json_array();
    for (size_t i = 0; ok && i < found.count; i++) {
        char *alerts = NULL;
        ok = outbox_admin_alerts(db, &found.items[i], &alerts, &err);
        if (ok && o->json)
            json_array_append_new(all, one_json(&found.items[i], alerts));
        else if (ok)
            print_one(&found.items[i], found.now_ms, alerts);
        free(alerts);
    }
    int code = !ok ? cli_failed(COMMAND, &err) : found.count ? EXIT_OK : EXIT_NOT_DONE;
    if (ok && found.count && o->json)
        table_print_json(json_pack("{s:O}", "rows", all), stdout);
    if (code == EXIT_NOT_DONE)
        cli_error(COMMAND, "show", "the outbox has no row of that number or event",
                  "it may be pruned, see maintain.sent_retention_days");
    json_decref(all);
    outbox_entries_free(&found);
    return code;
}
