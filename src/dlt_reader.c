/* SPDX-License-Identifier: MIT */
#include "dlt_reader.h"

#include <stdlib.h>
#include <string.h>

#include "kafka.h"
#include "topic_scan.h"

#define ANSWER_MS 10000
/* Without a record or a partition's end for so long the broker counts as silent. */
#define SILENCE_MS 30000

struct dlt_selection dlt_selection_all(void) {
    return (struct dlt_selection){.since_ms = INT64_MIN,
                                  .until_ms = INT64_MAX,
                                  .partition = -1,
                                  .last = INT64_MAX,
                                  .from_partition = 0,
                                  .from_offset = 0};
}

/* ---- one record ---- */

/* Not more than fits; what isn't there is "". */
static void header_text(const rd_kafka_headers_t *h, const char *name, char *out, size_t size) {
    const void *value = NULL;
    size_t len = 0;
    out[0] = '\0';
    if (!h || rd_kafka_header_get_last(h, name, &value, &len) != RD_KAFKA_RESP_ERR_NO_ERROR || !value)
        return;
    len = len < size ? len : size - 1;
    memcpy(out, value, len);
    out[len] = '\0';
}

static int64_t header_number(const rd_kafka_headers_t *h, const char *name) {
    char digits[24];
    header_text(h, name, digits, sizeof digits);
    size_t len = strlen(digits);
    return len && len < 20 && strspn(digits, "0123456789") == len ? strtoll(digits, NULL, 10) : -1;
}

void dlt_record_read(const rd_kafka_message_t *msg, struct dlt_record *r) {
    rd_kafka_headers_t *h = NULL;
    rd_kafka_timestamp_type_t type;
    const void *value;
    size_t len;
    if (rd_kafka_message_headers(msg, &h) != RD_KAFKA_RESP_ERR_NO_ERROR)
        h = NULL;
    *r = (struct dlt_record){.partition = msg->partition, .offset = msg->offset};
    header_text(h, "x-error-code", r->code, sizeof r->code);
    header_text(h, "x-error-message", r->message, sizeof r->message);
    header_text(h, "x-original-topic", r->topic, sizeof r->topic);
    r->original_partition = header_number(h, "x-original-partition");
    r->original_offset = header_number(h, "x-original-offset");
    r->time_ms = header_number(h, "x-original-timestamp");
    if (r->time_ms < 0) /* the record keeps the original's, too */
        r->time_ms = rd_kafka_message_timestamp(msg, &type);
    r->cut = h && rd_kafka_header_get_last(h, "x-truncated", &value, &len) == RD_KAFKA_RESP_ERR_NO_ERROR;
}

static bool selected(const struct dlt_selection *sel, const struct dlt_record *r) {
    return (!sel->code || strcmp(sel->code, r->code) == 0) && r->time_ms >= sel->since_ms &&
           r->time_ms < sel->until_ms;
}

/* ---- the topic ---- */

/* The first record that isn't older; where brokers don't answer that, the beginning. */
static int64_t first_since(rd_kafka_t *rk, const char *topic, int32_t partition, int64_t since_ms) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, partition)->offset = since_ms;
    bool known = rd_kafka_offsets_for_times(rk, list, ANSWER_MS) == RD_KAFKA_RESP_ERR_NO_ERROR &&
                 list->elems[0].err == RD_KAFKA_RESP_ERR_NO_ERROR;
    int64_t offset = known ? list->elems[0].offset : 0;
    rd_kafka_topic_partition_list_destroy(list);
    return offset == RD_KAFKA_OFFSET_END ? INT64_MAX : offset < 0 ? 0 : offset;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Where to begin and to end in a partition. */
static void bound(rd_kafka_t *rk, const struct topic_scan *s, const struct dlt_selection *sel,
                  struct topic_span *p) {
    int64_t first = larger(p->low, sel->first);
    if ((sel->partition >= 0 && p->partition != sel->partition) || p->partition < sel->from_partition) {
        topic_scan_bound(p, p->high, p->high);
        return;
    }
    if (p->partition == sel->from_partition)
        first = larger(first, sel->from_offset);
    if (sel->since_ms > 0)
        first = larger(first, first_since(rk, s->topic, p->partition, sel->since_ms));
    topic_scan_bound(p, first, sel->last < p->high ? sel->last + 1 : p->high);
}

struct reading {
    const struct dlt_selection *sel;
    dlt_take_fn *take;
    void *ctx;
};

static bool take_selected(void *ctx, rd_kafka_message_t **msg, struct error *err) {
    struct reading *r = ctx;
    struct dlt_record record;
    dlt_record_read(*msg, &record);
    return !selected(r->sel, &record) || r->take(r->ctx, msg, &record, err);
}

bool dlt_read(rd_kafka_t *rk, const struct config *cfg, const struct dlt_selection *sel, dlt_take_fn *take,
              void *ctx, struct error *err) {
    struct reading r = {.sel = sel, .take = take, .ctx = ctx};
    struct topic_scan s;
    bool ok = topic_scan_open(rk, cfg->kafka.dlt_topic, &s, err);
    if (ok && sel->partition >= 0 && !topic_scan_span(&s, sel->partition))
        ok = error_set(err, ERROR_KAFKA, ERROR_STOP, ERROR_NOT_DONE, 0, "%s has no partition %d", s.topic,
                       sel->partition);
    for (size_t i = 0; ok && i < s.count; i++)
        bound(rk, &s, sel, &s.spans[i]);
    s.in_order = true;
    s.silence_ms = SILENCE_MS;
    ok = ok && topic_scan_read(rk, &s, 0, take_selected, &r, err);
    topic_scan_free(&s);
    return ok;
}
