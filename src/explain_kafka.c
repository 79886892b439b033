/* SPDX-License-Identifier: MIT */
/* Looks for an event on the three topics. The row of a known one names its record's place, and a repeat
 * often lies near it; beyond that the newest records are looked through, or what the options say. The
 * notification lies in its family's partition, from when its row was made on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dlt_reader.h"
#include "event_fields.h"
#include "explain.h"
#include "kafka.h"
#include "notification.h"
#include "topic_scan.h"

#define DESTROY_MS 5000
/* On both sides of the place that the row names. */
#define NEAR_RECORDS 5000
/* How far the clocks of the database and of the broker may be apart. */
#define CLOCKS_MS 300000

struct search {
    const struct config *cfg;
    const struct explain_options *options;
    struct explanation *x;
    rd_kafka_t *reader;
    struct event_memory memory;
    struct event_limits limits;
    struct buf expected;        /* the notification's bytes, by the outbox */
    int64_t near_from, near_to; /* of the row's partition: looked through already */
    bool found_other;           /* another record lies at the row's place */
};

/* ---- values ---- */

bool explain_id_ok(const char *id) {
    size_t len = strlen(id);
    if (len < 1 || len > EVENT_ID_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (id[i] <= ' ' || id[i] > '~')
            return false;
    }
    return true;
}

static const char *skip_space_back(const char *value, const char *at) {
    while (at > value && strchr(" \t\r\n", at[-1]))
        at--;
    return at;
}

/* Whether "eventId": stands before it. */
static bool is_named(const char *value, const char *at) {
    static const char name[] = "\"eventId\"";
    const size_t len = sizeof name - 1;
    at = skip_space_back(value, at);
    if (at == value || *--at != ':')
        return false;
    at = skip_space_back(value, at);
    return (size_t)(at - value) >= len && memcmp(at - len, name, len) == 0;
}

/* Of what can't be read as JSON. */
static enum explain_match match_broken(const char *id, const char *value, size_t len) {
    struct buf quoted = {0};
    enum explain_match match = EXPLAIN_OTHER;
    const char *end = value + len, *at = value;
    buf_printf(&quoted, "\"%s\"", id);
    while (match != EXPLAIN_NAMED && (at = memmem(at, (size_t)(end - at), quoted.data, quoted.len))) {
        match = is_named(value, at) ? EXPLAIN_NAMED : EXPLAIN_TEXT;
        at++;
    }
    buf_free(&quoted);
    return match;
}

static bool field_is(const struct field *f, const char *id) {
    return f->kind == FIELD_TEXT && f->len == strlen(id) && memcmp(f->text, id, f->len) == 0;
}

enum explain_match explain_match(const char *id, const void *value, size_t len) {
    struct event_fields fields;
    /* an id that isn't there as it is may still be there escaped */
    if (!value || (!memmem(value, len, id, strlen(id)) && !memchr(value, '\\', len)))
        return EXPLAIN_OTHER;
    if (event_fields_scan(value, len, &fields))
        return field_is(&fields.id, id) ? EXPLAIN_SAME : EXPLAIN_OTHER;
    json_t *root = json_loadb(value, len, 0, NULL);
    if (!root)
        return match_broken(id, value, len);
    event_fields_take(root, &fields);
    bool same = json_is_object(root) && field_is(&fields.id, id);
    json_decref(root);
    return same ? EXPLAIN_SAME : EXPLAIN_OTHER;
}

static int64_t time_of(const rd_kafka_message_t *msg) {
    rd_kafka_timestamp_type_t type;
    return rd_kafka_message_timestamp(msg, &type);
}

static char *text_of(const void *bytes, size_t len) {
    if (!bytes)
        return NULL;
    len = len < 512 ? len : 512;
    char *text = mem_alloc(len + 1);
    memcpy(text, bytes, len);
    text[len] = '\0';
    return text;
}

/* Room for one more, unless there are enough. */
static void *grown(struct explanation *x, void *items, size_t count, size_t size) {
    if (count < EXPLAIN_KEPT)
        return mem_realloc(items, (count + 1) * size);
    x->left_out++;
    return NULL;
}

/* Whether it was read as far as its amounts, and these are right. */
static bool has_figures(enum event_kind kind, enum reject_code code) {
    return kind == EVENT_USAGE || code == REJECT_EVENT_IN_FUTURE || code == REJECT_EVENT_TOO_OLD;
}

/* ---- what a rejection says by its headers ---- */

static void take_headers(struct explain_rejection *r, const rd_kafka_message_t *msg) {
    struct dlt_record d;
    dlt_record_read(msg, &d);
    r->code = mem_strdup(d.code);
    r->message = mem_strdup(d.message);
    r->topic = *d.topic ? mem_strdup(d.topic) : NULL;
    r->has_place = d.original_partition >= 0 && d.original_partition <= INT32_MAX && d.original_offset >= 0;
    r->from_partition = (int32_t)d.original_partition;
    r->from_offset = d.original_offset;
    r->from_ms = d.time_ms;
    r->cut = d.cut;
}

/* ---- the usage topic ---- */

static void take_delivery(struct search *s, const rd_kafka_message_t *msg) {
    struct explanation *x = s->x;
    struct usage_event u = {0};
    struct event_reason why = {0};
    void *room = grown(x, x->deliveries, x->delivery_count, sizeof *x->deliveries);
    if (!room)
        return;
    x->deliveries = room;
    struct explain_delivery *d = &x->deliveries[x->delivery_count++];
    *d = (struct explain_delivery){.partition = msg->partition,
                                   .offset = msg->offset,
                                   .record_ms = time_of(msg),
                                   .key = text_of(msg->key, msg->key_len)};
    arena_reset(&s->memory.texts);
    d->kind = event_parse(msg->payload, msg->len, d->record_ms, &s->limits, &s->memory, &u, &why);
    d->code = why.code;
    d->has_figures = has_figures(d->kind, d->code);
    d->family = u.family_id;
    d->customer = u.customer_id;
    d->bytes = u.bytes_used;
    d->month = u.month;
}

/* Where and when; on the DLT the headers say the rest. */
static void take_mention(struct explanation *x, const rd_kafka_message_t *msg, bool in_dlt) {
    void *room = grown(x, x->mentions, x->mention_count, sizeof *x->mentions);
    if (!room)
        return;
    x->mentions = room;
    struct explain_mention *m = &x->mentions[x->mention_count++];
    *m = (struct explain_mention){.in_dlt = in_dlt};
    m->at.partition = msg->partition;
    m->at.offset = msg->offset;
    m->at.record_ms = time_of(msg);
    if (in_dlt)
        take_headers(&m->at, msg);
}

static bool at_row(const struct explanation *x, int32_t partition, int64_t offset) {
    return x->has_row && x->row.partition == partition && x->row.offset == offset;
}

static bool take_usage(void *ctx, rd_kafka_message_t **taken, struct error *err) {
    struct search *s = ctx;
    const rd_kafka_message_t *msg = *taken;
    (void)err;
    enum explain_match match = explain_match(s->x->id, msg->payload, msg->len);
    if (match == EXPLAIN_SAME || match == EXPLAIN_NAMED)
        take_delivery(s, msg);
    if (match != EXPLAIN_SAME)
        s->found_other = s->found_other || at_row(s->x, msg->partition, msg->offset);
    if (match == EXPLAIN_TEXT)
        take_mention(s->x, msg, false);
    return true;
}

static bool take_usage_elsewhere(void *ctx, rd_kafka_message_t **taken, struct error *err) {
    struct search *s = ctx;
    const rd_kafka_message_t *msg = *taken;
    bool near = s->x->has_row && msg->partition == s->x->row.partition && msg->offset >= s->near_from &&
                msg->offset < s->near_to;
    if (near)
        s->x->usage.records--; /* counted there */
    return near || take_usage(ctx, taken, err);
}

/* What the options want of a topic. */
static bool choose(struct search *s, struct topic_scan *scan, struct error *err) {
    if (s->options->since_ms >= 0)
        return topic_scan_since(s->reader, scan, s->options->since_ms, err);
    if (s->options->records >= 0)
        topic_scan_newest(scan, s->options->records);
    return true;
}

static void note(struct explain_searched *searched, const struct topic_scan *scan) {
    searched->done = true;
    searched->records += scan->records;
    searched->whole = topic_scan_is_whole(scan);
    searched->since_ms = topic_scan_since_ms(scan);
    searched->to_end = !scan->timed_out;
    searched->spans = mem_zero(scan->count, sizeof *searched->spans);
    for (size_t i = 0; i < scan->count; i++) {
        const struct topic_span *p = &scan->spans[i];
        if (searched->partition < 0 || searched->partition == p->partition)
            searched->spans[searched->span_count++] = (struct explain_span){
                .partition = p->partition, .low = p->low, .high = p->high, .from = p->from, .next = p->next};
    }
}

static bool search_topic(struct search *s, const char *topic, struct explain_searched *searched,
                         topic_scan_take *take, struct error *err) {
    struct topic_scan scan;
    bool ok = topic_scan_open(s->reader, topic, &scan, err) && choose(s, &scan, err) &&
              topic_scan_read(s->reader, &scan, s->options->within_ms, take, s, err);
    if (ok)
        note(searched, &scan);
    topic_scan_free(&scan);
    return ok;
}

static enum explain_place place_of(const struct search *s, const struct topic_span *p) {
    const struct explanation *x = s->x;
    for (size_t i = 0; i < x->delivery_count; i++) {
        if (explain_is_rows(x, &x->deliveries[i]))
            return EXPLAIN_PLACE_KEPT;
    }
    if (!p || s->found_other || x->row.offset >= p->high)
        return EXPLAIN_PLACE_OTHER;
    if (p->next <= x->row.offset && p->next < p->to)
        return EXPLAIN_PLACE_UNASKED; /* its time was up before */
    /* records may be gone one by one, where the topic is compacted */
    return EXPLAIN_PLACE_GONE;
}

/* At the row's place, and on both sides of it. */
static bool search_near(struct search *s, struct error *err) {
    struct explanation *x = s->x;
    struct topic_scan scan;
    int64_t within_ms = s->options->within_ms ? s->options->within_ms : EXPLAIN_WITHIN_MS;
    bool ok = topic_scan_open(s->reader, s->cfg->kafka.usage_topic, &scan, err);
    const struct topic_span *p = ok ? topic_scan_span(&scan, x->row.partition) : NULL;
    if (p) {
        topic_scan_only(&scan, x->row.partition, x->row.offset - NEAR_RECORDS, x->row.offset + NEAR_RECORDS);
        s->near_from = p->from;
        ok = topic_scan_read(s->reader, &scan, within_ms, take_usage, s, err);
        s->near_to = p->next;
        x->log_low = p->low;
        x->log_high = p->high;
        x->usage.records += scan.records;
    }
    if (ok)
        x->place = place_of(s, p);
    topic_scan_free(&scan);
    return ok;
}

/* ---- the DLT ---- */

static bool take_dlt(void *ctx, rd_kafka_message_t **taken, struct error *err) {
    struct search *s = ctx;
    struct explanation *x = s->x;
    const rd_kafka_message_t *msg = *taken;
    struct usage_event u = {0};
    struct event_reason why = {0};
    enum explain_match match = explain_match(x->id, msg->payload, msg->len);
    (void)err;
    if (match == EXPLAIN_TEXT)
        take_mention(x, msg, true);
    void *room = match == EXPLAIN_SAME || match == EXPLAIN_NAMED
                     ? grown(x, x->rejections, x->rejection_count, sizeof *x->rejections)
                     : NULL;
    if (!room)
        return true;
    x->rejections = room;
    struct explain_rejection *r = &x->rejections[x->rejection_count++];
    *r = (struct explain_rejection){
        .partition = msg->partition, .offset = msg->offset, .record_ms = time_of(msg)};
    take_headers(r, msg);
    arena_reset(&s->memory.texts);
    enum event_kind kind = event_parse(msg->payload, msg->len, r->from_ms, &s->limits, &s->memory, &u, &why);
    r->has_figures = has_figures(kind, why.code);
    r->family = u.family_id;
    r->customer = u.customer_id;
    r->bytes = u.bytes_used;
    r->month = u.month;
    return true;
}

/* ---- notifications ---- */

static bool take_notice(void *ctx, rd_kafka_message_t **taken, struct error *err) {
    struct search *s = ctx;
    struct explanation *x = s->x;
    const rd_kafka_message_t *msg = *taken;
    void *room = explain_match(x->id, msg->payload, msg->len) != EXPLAIN_SAME
                     ? NULL
                     : grown(x, x->notices, x->notice_count, sizeof *x->notices);
    (void)err;
    if (!room)
        return true;
    x->notices = room;
    x->notices[x->notice_count++] = (struct explain_notice){
        .partition = msg->partition,
        .offset = msg->offset,
        .record_ms = time_of(msg),
        .same = msg->len == s->expected.len && memcmp(msg->payload, s->expected.data, msg->len) == 0};
    return true;
}

static int32_t partition_of(int64_t family, size_t count) {
    struct buf key = {0};
    buf_i64(&key, family);
    int32_t p = rd_kafka_msg_partitioner_murmur2(NULL, key.data, key.len, (int32_t)count, NULL, NULL);
    buf_free(&key);
    return p;
}

/* Its family's partition from when its row was made, as many records as of the other topics. */
static bool search_notices(struct search *s, struct error *err) {
    struct explanation *x = s->x;
    const struct family_letter *l = &x->letter[0];
    struct topic_scan scan;
    int64_t most = s->options->records < 0 ? INT32_MAX : s->options->records;
    bool ok = topic_scan_open(s->reader, s->cfg->kafka.notification_topic, &scan, err) &&
              topic_scan_since(s->reader, &scan, l->created_ms - CLOCKS_MS, err);
    const struct topic_span *p = ok ? topic_scan_span(&scan, partition_of(l->family, scan.count)) : NULL;
    if (p) {
        topic_scan_only(&scan, p->partition, p->from, p->from + most);
        ok = topic_scan_read(s->reader, &scan, s->options->within_ms, take_notice, s, err);
        x->notifications.partition = p->partition;
        note(&x->notifications, &scan);
        x->notifications.done = ok;
        x->notifications.whole = false;
        x->notifications.to_end = p->next >= p->high;
        x->notifications.since_ms = l->created_ms - CLOCKS_MS;
    }
    topic_scan_free(&scan);
    return ok;
}

/* ---- all of it ---- */

static int by_time(const void *a, const void *b) {
    const struct explain_delivery *x = a, *y = b;
    if (x->record_ms != y->record_ms)
        return x->record_ms < y->record_ms ? -1 : 1;
    if (x->partition != y->partition)
        return x->partition < y->partition ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static void search(struct search *s, struct error *err) {
    struct explanation *x = s->x;
    if (x->has_row && !search_near(s, err))
        return;
    if (!search_topic(s, s->cfg->kafka.usage_topic, &x->usage, take_usage_elsewhere, err))
        return;
    if (x->letter_count && !search_notices(s, err))
        return;
    if (!search_topic(s, s->cfg->kafka.dlt_topic, &x->dlt, take_dlt, err))
        x->dlt.done = false;
}

void explain_kafka(const struct config *cfg, const struct explain_options *options, struct explanation *x) {
    struct search s = {.cfg = cfg, .options = options, .x = x, .limits = event_limits_of(cfg, 0)};
    x->usage.topic = cfg->kafka.usage_topic;
    x->dlt.topic = cfg->kafka.dlt_topic;
    x->notifications.topic = cfg->kafka.notification_topic;
    if (x->letter_count)
        notification_envelope(&s.expected, x->id, x->letter[0].created_ms, x->letter[0].payload,
                              strlen(x->letter[0].payload));
    s.reader = kafka_reader_new(cfg, &x->kafka);
    if (s.reader) {
        search(&s, &x->kafka);
        kafka_destroy(s.reader, DESTROY_MS);
    }
    if (x->delivery_count)
        qsort(x->deliveries, x->delivery_count, sizeof *x->deliveries, by_time);
    event_memory_free(&s.memory);
    buf_free(&s.expected);
}
