/* SPDX-License-Identifier: MIT */
/* The outbox and what lies on the two outgoing topics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "model_check.h"
#include "model_json.h"
#include "model_world.h"
#include "scenario_sql.h"

#define MESSAGE_MAX 512
#define QUOTED 24 /* that much of a body in a message is a quotation */

/* "family 3 #2": what is told to a family is told in order. */
static void family_key(json_t *counts, const char *family, char *out, size_t size) {
    sc_map_set(counts, family, sc_map_get(counts, family, 0) + 1);
    snprintf(out, size, "family %.60s #%ld", family, sc_map_get(counts, family, 0));
}

static void json_text(struct buf *out, const char *text) {
    if (!text) {
        buf_str(out, "null");
        return;
    }
    buf_char(out, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            buf_char(out, '\\');
        buf_char(out, *text);
    }
    buf_char(out, '"');
}

/* payload_json with an ellipsis for each of the texts that are tallyd's own. */
static void payload_expected(const struct model_decision *d, struct buf *out) {
    const struct model_event *e = &d->event;
    char time[40];
    model_time_local(e->time_ms, time);
    buf_printf(
        out,
        "{\"familyId\":%ld,\"customerId\":%ld,\"type\":\"%s\",\"title\":…,\"message\":…,\"data\":{\"originEventId\":",
        e->family, e->customer, d->reason ? "CUSTOMER_BLOCKED" : "THRESHOLD_ALERT");
    json_text(out, e->id);
    buf_printf(out, ",\"eventTime\":\"%s+09:00\",\"status\":\"", time);
    if (d->reason)
        buf_str(out, d->reason);
    else
        buf_printf(out, "WARNING_%d", d->threshold);
    buf_printf(out, "\",\"familyId\":%ld,\"customerId\":%ld,\"appId\":", e->family, e->customer);
    json_text(out, e->app);
    buf_printf(out, ",\"bytesUsed\":%ld,", e->bytes);
    if (d->reason)
        buf_printf(out, "\"reason\":\"%s\"}}", d->reason);
    else
        buf_printf(out, "\"threshold\":%d}}", d->threshold);
}

/* Puts an ellipsis in place of the text behind `"name":`; an empty one stays, so that it's noticed. */
static void text_cut(struct buf *payload, const char *name) {
    char *at = strstr(payload->data, name);
    if (!at)
        return;
    at += strlen(name);
    const char *end = at + 1;
    while (*end && *end != '"')
        end += *end == '\\' && end[1] ? 2 : 1;
    if (*at != '"' || *end != '"' || end == at + 1)
        return;
    struct buf cut = {0};
    buf_append(&cut, payload->data, (size_t)(at - payload->data));
    buf_str(&cut, "…");
    buf_str(&cut, end + 1);
    buf_free(payload);
    *payload = cut;
}

static void payload_found(const char *text, size_t len, struct buf *out) {
    buf_append(out, text, len);
    struct mj *doc = mj_parse(text, len);
    if (!doc)
        buf_str(out, " (no JSON)");
    mj_free(doc);
    text_cut(out, "\"title\":");
    text_cut(out, "\"message\":");
}

static void outbox_expected(const struct model_check *c, struct sc_rows *rows) {
    json_t *counts = json_object();
    for (size_t i = 0; i < c->model->told.count; i++) {
        const struct model_decision *d =
            MODEL_AT(c->model->decisions, struct model_decision, *MODEL_AT(c->model->told, size_t, i));
        char family[32], key[96];
        struct buf text = {0};
        snprintf(family, sizeof family, "%ld", d->event.family);
        family_key(counts, family, key, sizeof key);
        buf_printf(&text, "event %s customer %ld SENT ", d->event.id, d->event.customer);
        payload_expected(d, &text);
        sc_rows_add(rows, key, text.data, text.len);
        buf_free(&text);
    }
    json_decref(counts);
}

/* created_at in the zone, from UTC as MySQL prints it. */
static void local_of(const char *utc, char out[48]) {
    char query_like[40];
    int y, mo, d, h, mi, s, ms = 0;
    if (sscanf(utc, "%d-%d-%d %d:%d:%d.%d", &y, &mo, &d, &h, &mi, &s, &ms) < 6)
        sc_die("MySQL printed no time: %s", utc);
    /* model_month_start gives the month's first midnight in the zone, nine hours before UTC's. */
    int64_t t = model_month_start(y * 12 + mo - 1) + (((d - 1) * INT64_C(24) + h + 9) * 60 + mi) * 60000 +
                s * 1000 + ms;
    model_time_local(t, query_like);
    snprintf(out, 48, "%.23s+09:00", query_like);
}

static void envelope(struct buf *out, const char *id, const char *created_at, const char *payload,
                     size_t len) {
    char time[48];
    local_of(created_at, time);
    buf_str(out, "{\"eventId\":");
    json_text(out, id);
    buf_printf(out, ",\"eventType\":\"NOTIFICATION\",\"timestamp\":\"%s\",\"payload\":", time);
    buf_append(out, payload, len);
    buf_char(out, '}');
}

/* The outbox by family; `published` gets the bytes that must be on the topic. */
static void outbox_found(struct model_check *c, struct sc_rows *rows, struct sc_rows *published) {
    json_t *counts = json_object();
    MYSQL_RES *res = sc_sql_rows(
        c->db, "SELECT event_id, family_id, customer_id, status, payload_json, created_at, sent_at, "
               "retry_count, last_error FROM usage_event_outbox ORDER BY outbox_id");
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        size_t len = mysql_fetch_lengths(res)[4];
        char key[96];
        struct buf text = {0}, payload = {0}, value = {0};
        family_key(counts, r[1], key, sizeof key);
        payload_found(r[4], len, &payload);
        buf_printf(&text, "event %s customer %s %s %s", r[0], r[2], r[3], buf_cstr(&payload));
        sc_rows_add(rows, key, text.data, text.len);
        if (strcmp(r[3], "SENT") == 0 && (!r[6] || strcmp(r[6], r[5]) < 0))
            sc_differ(&c->report, "outbox event %s: expected to be sent after %s, found %s", r[0], r[5],
                      r[6] ? r[6] : "null");
        if (!c->question->crashes && (sc_sql_int(r[7]) != 0 || r[8]))
            sc_differ(&c->report, "outbox event %s: expected no retry and no error, found %s and %s", r[0],
                      r[7], r[8] ? r[8] : "null");
        envelope(&value, r[0], r[5], r[4], len);
        sc_rows_add(published, key, value.data, value.len);
        buf_free(&value);
        buf_free(&payload);
        buf_free(&text);
    }
    mysql_free_result(res);
    json_decref(counts);
}

/* Whether the same lay there before, which only a crash excuses. */
static bool repeated(const struct model_check *c, json_t *seen, const struct sc_record *r) {
    if (!c->question->crashes || !r->value || strlen(r->value) != r->value_len)
        return false;
    if (json_object_get(seen, r->value))
        return true;
    sc_map_set(seen, r->value, 1);
    return false;
}

void model_check_notifications(struct model_check *c) {
    struct sc_rows expected = {0}, rows = {0}, published = {0}, found = {0};
    outbox_expected(c, &expected);
    outbox_found(c, &rows, &published);
    sc_rows_diff(&c->report, "outbox", &expected, &rows);
    json_t *counts = json_object(), *seen = json_object();
    struct sc_records topic = sc_topic_read(c->question->notification_topic);
    int partitions = sc_topic_partitions(c->question->notification_topic);
    for (size_t i = 0; i < topic.count; i++) {
        const struct sc_record *r = &topic.items[i];
        int32_t partition =
            rd_kafka_msg_partitioner_murmur2(NULL, r->key, r->key_len, partitions, NULL, NULL);
        char key[96];
        if (r->partition != partition)
            sc_differ(&c->report, "notification with key %s: expected on partition %d, found on %d",
                      r->key ? r->key : "null", partition, r->partition);
        if (repeated(c, seen, r))
            continue;
        family_key(counts, r->key ? r->key : "null", key, sizeof key);
        sc_rows_add(&found, key, r->value ? r->value : "null", r->value ? r->value_len : 4);
    }
    sc_rows_diff(&c->report, "notification topic", &published, &found);
    sc_records_free(&topic);
    json_decref(counts);
    json_decref(seen);
    sc_rows_free(&expected);
    sc_rows_free(&rows);
    sc_rows_free(&published);
    sc_rows_free(&found);
}

/* ---- rejected records ---- */

static const char *const added[] = {"x-error-code",        "x-error-message",      "x-error-action",
                                    "x-original-topic",    "x-original-partition", "x-original-offset",
                                    "x-original-timestamp"};
#define ADDED (sizeof added / sizeof added[0])

static bool is_added(const char *name) {
    for (size_t i = 0; i < ADDED; i++) {
        if (strcmp(added[i], name) == 0)
            return true;
    }
    return false;
}

static void hex(struct buf *out, const char *bytes, size_t len) {
    if (!bytes) {
        buf_str(out, "null");
        return;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char b = (unsigned char)bytes[i];
        if (b > ' ' && b <= '~' && b != '\\')
            buf_char(out, (char)b);
        else
            buf_printf(out, "\\%02x", b);
    }
}

/* A rejected record as it must lie there, or lies there: all in one text. */
static void rejection_text(struct buf *out, const struct sc_record *r, const char *code, const char *action,
                           const char *topic, int64_t timestamp) {
    buf_printf(out, "%s %s from %s at %ld key ", code, action, topic, timestamp);
    hex(out, r->key, r->key_len);
    buf_printf(out, " timestamp %ld headers", r->timestamp_ms);
    for (size_t i = 0; i < r->header_count; i++) {
        if (is_added(r->headers[i].name))
            continue;
        buf_printf(out, " %s=", r->headers[i].name);
        hex(out, r->headers[i].value, r->headers[i].len);
    }
    buf_str(out, " value ");
    hex(out, r->value, r->value_len);
}

static void rejections_expected(const struct model_check *c, struct sc_rows *rows) {
    for (size_t i = 0; i < c->count; i++) {
        const struct model_delivery *d = &c->deliveries[i];
        if (d->verdict.outcome != MODEL_REJECTED)
            continue;
        char key[64];
        struct buf text = {0};
        snprintf(key, sizeof key, "record %d/%ld", d->record->partition, d->record->offset);
        rejection_text(&text, d->record, d->verdict.code, "DLQ", c->question->usage_topic,
                       d->record->timestamp_ms);
        sc_rows_add(rows, key, text.data, text.len);
        buf_free(&text);
    }
}

static const char *header_text(const struct sc_record *r, const char *name) {
    const struct sc_header *h = sc_record_header(r, name);
    return h && h->value ? h->value : "(none or several)";
}

static void check_message(struct model_check *c, const struct sc_record *r, const struct model_delivery *d,
                          const char *key) {
    const struct sc_header *h = sc_record_header(r, "x-error-message");
    const char *message = h && h->value ? h->value : "";
    size_t len = strlen(message);
    if (!h || len != h->len || len < 1 || len > MESSAGE_MAX)
        sc_differ(&c->report, "DLT %s: expected a message of 1 to %d bytes, found \"%s\"", key, MESSAGE_MAX,
                  message);
    for (const char *s = message; *s; s++) {
        if (*s < ' ' || *s > '~') {
            sc_differ(&c->report, "DLT %s: expected a message in ASCII, found \"%s\"", key, message);
            break;
        }
    }
    if (d && d->verdict.member && !strstr(message, d->verdict.member))
        sc_differ(&c->report, "DLT %s: expected the message to name %s, found \"%s\"", key, d->verdict.member,
                  message);
    for (size_t i = 0; i + QUOTED <= r->value_len && len >= QUOTED; i++) {
        if (memmem(message, len, r->value + i, QUOTED)) {
            sc_differ(&c->report, "DLT %s: expected nothing of the body in \"%s\"", key, message);
            break;
        }
    }
}

static void rejection_found(struct model_check *c, const struct sc_record *r, json_t *seen,
                            struct sc_rows *rows) {
    const char *partition = header_text(r, "x-original-partition"),
               *offset = header_text(r, "x-original-offset");
    const struct model_delivery *d =
        model_check_at(c, strtoll(partition, NULL, 10), strtoll(offset, NULL, 10));
    char key[96];
    struct buf text = {0};
    snprintf(key, sizeof key, "record %.30s/%.30s", partition, offset);
    rejection_text(&text, r, header_text(r, "x-error-code"), header_text(r, "x-error-action"),
                   header_text(r, "x-original-topic"),
                   strtoll(header_text(r, "x-original-timestamp"), NULL, 10));
    check_message(c, r, d, key);
    if (!r->create_time)
        sc_differ(&c->report, "DLT %s: expected the record's own timestamp, found the broker's", key);
    /* Another copy that differs from the first is never excused. */
    const char *first = json_string_value(json_object_get(seen, key));
    if (!c->question->crashes || !first || strcmp(first, text.data) != 0)
        sc_rows_add(rows, key, text.data, text.len);
    json_object_set_new(seen, key, json_string(text.data));
    buf_free(&text);
}

void model_check_rejections(struct model_check *c) {
    struct sc_rows expected = {0}, found = {0};
    struct sc_records dlt = sc_topic_read(c->question->dlt_topic);
    json_t *seen = json_object();
    rejections_expected(c, &expected);
    for (size_t i = 0; i < dlt.count; i++)
        rejection_found(c, &dlt.items[i], seen, &found);
    sc_rows_diff(&c->report, "DLT", &expected, &found);
    json_decref(seen);
    sc_rows_free(&expected);
    sc_rows_free(&found);
    sc_records_free(&dlt);
}
