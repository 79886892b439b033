/* SPDX-License-Identifier: MIT */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "scenario_check.h"
#include "scenario_sql.h"

/* "outbox family 3 #2": what is told to a family is told in order. */
static void family_key(json_t *counts, const char *family, char *out, size_t size) {
    int64_t n = sc_map_get(counts, family, 0) + 1;
    sc_map_set(counts, family, n);
    snprintf(out, size, "family %s #%ld", family, n);
}

/* The detail is the threshold or the reason. */
static void told_add(struct sc_rows *rows, const char *key, const char *event, const char *customer,
                     const char *type, const char *status, const json_t *threshold, const json_t *reason) {
    if (threshold)
        sc_rows_addf(rows, key, "event %s customer %s %s %s threshold %" JSON_INTEGER_FORMAT, event, customer,
                     type, status, json_integer_value(threshold));
    else
        sc_rows_addf(rows, key, "event %s customer %s %s %s reason %s", event, customer, type, status,
                     json_is_string(reason) ? json_string_value(reason) : "none");
}

static void told_expected(const struct sc_check *c, struct sc_rows *rows) {
    json_t *counts = json_object();
    size_t i;
    const json_t *row;
    json_array_foreach(sc_json_get(c->scenario->expected, "outbox"), i, row) {
        char family[32], customer[32], key[96];
        snprintf(family, sizeof family, "%ld", sc_json_int(row, "familyId"));
        snprintf(customer, sizeof customer, "%ld", sc_json_int(row, "customerId"));
        family_key(counts, family, key, sizeof key);
        told_add(rows, key, sc_json_text(row, "eventId"), customer, sc_json_text(row, "type"),
                 sc_json_text(row, "status"), json_object_get(row, "threshold"),
                 json_object_get(row, "reason"));
    }
    json_decref(counts);
}

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* An object's members by name, in their order. */
static void members(const json_t *object, struct buf *out) {
    buf_reset(out);
    for (void *i = json_object_iter((json_t *)(uintptr_t)object); i;
         i = json_object_iter_next((json_t *)(uintptr_t)object, i))
        buf_printf(out, "%s%s", out->len ? " " : "", json_object_iter_key(i));
}

static void check_members(struct sc_check *c, const char *event, const json_t *object, const char *expected) {
    struct buf found = {0};
    members(object, &found);
    if (strcmp(buf_cstr(&found), expected) != 0)
        sc_differ(&c->report, "payload of %s: expected members %s, found %s", event, expected,
                  buf_cstr(&found));
    buf_free(&found);
}

static void check_number(struct sc_check *c, const char *event, const json_t *object, const char *name,
                         int64_t expected) {
    const json_t *found = json_object_get(object, name);
    if (!json_is_integer(found) || json_integer_value(found) != expected)
        sc_differ(&c->report, "payload of %s: expected %s %ld, found %" JSON_INTEGER_FORMAT "%s", event, name,
                  expected, json_integer_value(found), json_is_integer(found) ? "" : " (no whole number)");
}

static void check_text(struct sc_check *c, const char *event, const json_t *object, const char *name,
                       const char *expected) {
    const json_t *value = json_object_get(object, name);
    const char *found = json_is_string(value) ? json_string_value(value) : NULL;
    if (!expected && json_is_null(value))
        return;
    if (!expected || !found || strcmp(found, expected) != 0)
        sc_differ(&c->report, "payload of %s: expected %s %s, found %s", event, name,
                  expected ? expected : "null", found ? found : "no text");
}

/* Wording is tallyd's own; that there is some, with every placeholder filled, isn't. */
static void check_wording(struct sc_check *c, const struct sc_event *e, const json_t *payload,
                          const char *name) {
    const char *text = text_of(payload, name);
    bool braces_of_app = e->app && strpbrk(e->app, "{}");
    if (!*text || (!braces_of_app && strpbrk(text, "{}")))
        sc_differ(&c->report, "payload of %s: expected a %s with nothing left to fill in, found \"%s\"",
                  e->id, name, text);
}

static void check_values(struct sc_check *c, const struct sc_event *e, const json_t *payload) {
    const json_t *data = json_object_get(payload, "data");
    const char *type = text_of(payload, "type");
    bool threshold = strcmp(type, "THRESHOLD_ALERT") == 0;
    char local[40];
    sc_time_local(e->time_ms, local);
    check_members(c, e->id, payload, "familyId customerId type title message data");
    check_members(c, e->id, data,
                  threshold ? "originEventId eventTime status familyId customerId appId bytesUsed threshold"
                            : "originEventId eventTime status familyId customerId appId bytesUsed reason");
    check_number(c, e->id, payload, "familyId", e->family);
    check_number(c, e->id, payload, "customerId", e->customer);
    check_wording(c, e, payload, "title");
    check_wording(c, e, payload, "message");
    check_text(c, e->id, data, "originEventId", e->id);
    check_text(c, e->id, data, "eventTime", local);
    check_number(c, e->id, data, "familyId", e->family);
    check_number(c, e->id, data, "customerId", e->customer);
    check_text(c, e->id, data, "appId", e->app);
    check_number(c, e->id, data, "bytesUsed", e->bytes);
    if (!threshold)
        check_text(c, e->id, data, "reason", text_of(data, "status"));
}

/* The payload's form; returns it parsed, NULL when it's no JSON. */
static json_t *payload_read(struct sc_check *c, const char *event, const char *text, size_t len) {
    json_t *payload = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(payload)) {
        sc_differ(&c->report, "payload of %s: expected a JSON object, found %.200s", event, text);
        json_decref(payload);
        return NULL;
    }
    char *again = json_dumps(payload, JSON_COMPACT);
    if (!again || strlen(again) != len || memcmp(again, text, len) != 0)
        sc_differ(&c->report, "payload of %s: expected the compact form %s, found %s", event,
                  again ? again : "", text);
    free(again);
    const struct sc_line *line = sc_check_line(c, event);
    if (line)
        check_values(c, &line->event, payload);
    return payload;
}

/* A row that reached the broker says so and nothing else. */
static void check_sent(struct sc_check *c, const char *event, const MYSQL_ROW r) {
    if (strcmp(r[4], "SENT") != 0 || !r[9])
        sc_differ(&c->report, "outbox %s: expected SENT with its time, found %s sent at %s", event, r[4],
                  r[9] ? r[9] : "null");
    if (!c->repeats && (sc_sql_int(r[6]) != 0 || r[7]))
        sc_differ(&c->report, "outbox %s: expected no retry and no error, found %s and %s", event, r[6],
                  r[7] ? r[7] : "null");
    if (r[9] && strcmp(r[9], r[8]) < 0)
        sc_differ(&c->report, "outbox %s: expected to be sent after %s, found %s", event, r[8], r[9]);
}

static void envelope(struct buf *out, const char *event, const char *created_at, const char *payload,
                     size_t len) {
    char local[40];
    sc_time_local(sc_time_from_utc(created_at), local);
    /* Event ids are printable ASCII, in which only these two need an escape. */
    buf_str(out, "{\"eventId\":\"");
    for (const char *s = event; *s; s++) {
        if (*s == '"' || *s == '\\')
            buf_char(out, '\\');
        buf_char(out, *s);
    }
    buf_printf(out, "\",\"eventType\":\"NOTIFICATION\",\"timestamp\":\"%s\",\"payload\":", local);
    buf_append(out, payload, len);
    buf_char(out, '}');
}

/* Reads the outbox; `told` gets what each row tells, `published` the bytes it
 * must have on the topic. */
static void outbox_found(struct sc_check *c, struct sc_rows *told, struct sc_rows *published) {
    json_t *counts = json_object();
    MYSQL_RES *res =
        sc_sql_rows(c->db, "SELECT outbox_id, event_id, family_id, customer_id, status, payload_json, "
                           "retry_count, last_error, created_at, sent_at "
                           "FROM usage_event_outbox ORDER BY outbox_id");
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        size_t len = mysql_fetch_lengths(res)[5];
        char key[96];
        struct buf value = {0};
        family_key(counts, r[2], key, sizeof key);
        json_t *payload = payload_read(c, r[1], r[5], len);
        const json_t *data = json_object_get(payload, "data");
        told_add(told, key, r[1], r[3], text_of(payload, "type"), text_of(data, "status"),
                 json_object_get(data, "threshold"), json_object_get(data, "reason"));
        json_decref(payload);
        check_sent(c, r[1], r);
        envelope(&value, r[1], r[8], r[5], len);
        sc_rows_add(published, key, value.data, value.len);
        buf_free(&value);
    }
    mysql_free_result(res);
    json_decref(counts);
}

/* Whether the same bytes were there before, which only a crash excuses. */
static bool repeated(const struct sc_check *c, json_t *seen, const struct sc_record *r) {
    if (!c->repeats || !r->value)
        return false;
    if (json_object_get(seen, r->value))
        return true;
    sc_map_set(seen, r->value, 1);
    return false;
}

static void check_topic(struct sc_check *c, struct sc_rows *expected) {
    struct sc_rows found = {0};
    json_t *counts = json_object();
    json_t *seen = json_object();
    struct sc_records records = sc_topic_read(c->state.notification_topic);
    int partitions = sc_topic_partitions(c->state.notification_topic);
    for (size_t i = 0; i < records.count; i++) {
        const struct sc_record *r = &records.items[i];
        int32_t partition =
            rd_kafka_msg_partitioner_murmur2(NULL, r->key, r->key_len, partitions, NULL, NULL);
        if (r->partition != partition)
            sc_differ(&c->report, "notification with key %s: expected partition %d (murmur2), found %d",
                      r->key ? r->key : "null", partition, r->partition);
        if (repeated(c, seen, r))
            continue;
        char key[96];
        family_key(counts, r->key ? r->key : "null", key, sizeof key);
        sc_rows_add(&found, key, r->value ? r->value : "null", r->value ? r->value_len : 4);
    }
    sc_rows_diff(&c->report, "notification-events", expected, &found);
    sc_records_free(&records);
    sc_rows_free(&found);
    json_decref(counts);
    json_decref(seen);
}

void sc_check_notifications(struct sc_check *c) {
    struct sc_rows expected = {0}, told = {0}, published = {0};
    told_expected(c, &expected);
    outbox_found(c, &told, &published);
    sc_rows_diff(&c->report, "outbox", &expected, &told);
    check_topic(c, &published);
    sc_rows_free(&expected);
    sc_rows_free(&told);
    sc_rows_free(&published);
}
