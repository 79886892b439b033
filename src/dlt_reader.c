/* SPDX-License-Identifier: MIT */
#include "dlt_reader.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "kafka.h"

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

/* ---- one partition ---- */

struct reading {
    rd_kafka_t *rk;
    const char *topic;
    const struct dlt_selection *sel;
    dlt_take_fn *take;
    void *ctx;
    int32_t partition;
    int64_t next, end;
};

static bool assign_one(struct reading *r, struct error *err) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, r->topic, r->partition)->offset = r->next;
    rd_kafka_resp_err_t code = rd_kafka_assign(r->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "read", r->topic, err);
}

/* A message of this partition, or what stands for its end. `*moved`: it's further than before. */
static bool take_message(struct reading *r, rd_kafka_message_t **msg, bool *moved, struct error *err) {
    struct dlt_record record;
    const rd_kafka_message_t *m = *msg;
    bool end = m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
    *moved = false;
    if (!m->rkt || m->partition != r->partition || (m->err && !end) || m->offset < r->next)
        return true;
    *moved = true;
    r->next = end ? m->offset : m->offset + 1;
    if (end) { /* offsets behind the last record may hold none */
        r->end = r->next < r->end ? r->next : r->end;
        return true;
    }
    if (m->offset >= r->end)
        return true;
    dlt_record_read(m, &record);
    return !selected(r->sel, &record) || r->take(r->ctx, msg, &record, err);
}

static bool read_partition(struct reading *r, struct error *err) {
    int64_t silent_at = clock_monotonic_ms() + SILENCE_MS;
    bool ok = assign_one(r, err);
    while (ok && r->next < r->end) {
        rd_kafka_message_t *msg = rd_kafka_consumer_poll(r->rk, 100);
        rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;
        bool moved = false;
        if (msg) {
            code = msg->err ? msg->err : code;
            ok = take_message(r, &msg, &moved, err);
        }
        if (msg)
            rd_kafka_message_destroy(msg);
        if (moved)
            silent_at = clock_monotonic_ms() + SILENCE_MS;
        else if (ok &&
                 (clock_monotonic_ms() > silent_at || code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED))
            ok = kafka_error(code, "read", r->topic, err);
    }
    rd_kafka_assign(r->rk, NULL);
    return ok;
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

/* Where to begin and to end in a partition, before anything is read. */
static bool find_bounds(rd_kafka_t *rk, const char *topic, const struct dlt_selection *sel, int32_t partition,
                        int64_t *first, int64_t *end, struct error *err) {
    int64_t low, high;
    *first = *end = 0;
    if ((sel->partition >= 0 && partition != sel->partition) || partition < sel->from_partition)
        return true;
    rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(rk, topic, partition, &low, &high, ANSWER_MS);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_error(code, "watermarks", topic, err);
    *first = larger(low, sel->first);
    if (partition == sel->from_partition)
        *first = larger(*first, sel->from_offset);
    if (sel->since_ms > 0)
        *first = larger(*first, first_since(rk, topic, partition, sel->since_ms));
    *end = sel->last < high ? sel->last + 1 : high;
    return true;
}

static int by_id(const void *x, const void *y) {
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

static bool has_partition(const int32_t *ids, size_t n, const char *topic, int32_t partition,
                          struct error *err) {
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == partition)
            return true;
    }
    return error_set(err, ERROR_KAFKA, ERROR_STOP, ERROR_NOT_DONE, 0, "%s has no partition %d", topic,
                     partition);
}

bool dlt_read(rd_kafka_t *rk, const struct config *cfg, const struct dlt_selection *sel, dlt_take_fn *take,
              void *ctx, struct error *err) {
    const char *topic = cfg->kafka.dlt_topic;
    size_t n = 0;
    int32_t *ids = kafka_topic_partitions(rk, topic, ANSWER_MS, &n, err);
    if (!ids)
        return false;
    if (n)
        qsort(ids, n, sizeof *ids, by_id);
    int64_t *first = mem_zero(n, sizeof *first), *end = mem_zero(n, sizeof *end);
    bool ok = sel->partition < 0 || has_partition(ids, n, topic, sel->partition, err);
    for (size_t i = 0; ok && i < n; i++)
        ok = find_bounds(rk, topic, sel, ids[i], &first[i], &end[i], err);
    for (size_t i = 0; ok && i < n; i++) {
        struct reading r = {.rk = rk, .topic = topic, .sel = sel, .take = take, .ctx = ctx};
        r.partition = ids[i];
        r.next = first[i];
        r.end = end[i];
        ok = r.next >= r.end || read_partition(&r, err);
    }
    free(ids);
    free(first);
    free(end);
    return ok;
}
