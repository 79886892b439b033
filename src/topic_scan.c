/* SPDX-License-Identifier: MIT */
#include "topic_scan.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "kafka.h"

#define ANSWER_MS 5000
/* Without a record or an end of a partition for so long the broker counts as silent. */
#define SILENCE_MS 10000

/* ---- what is to be read ---- */

bool topic_scan_open(rd_kafka_t *rk, const char *topic, struct topic_scan *s, struct error *err) {
    size_t n = 0;
    *s = (struct topic_scan){.topic = topic};
    int32_t *ids = kafka_topic_partitions(rk, topic, ANSWER_MS, &n, err);
    if (!ids)
        return false;
    s->spans = mem_zero(n, sizeof *s->spans);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (; code == RD_KAFKA_RESP_ERR_NO_ERROR && s->count < n; s->count++) {
        struct topic_span *p = &s->spans[s->count];
        *p = (struct topic_span){.partition = ids[s->count], .first_ms = -1};
        code = rd_kafka_query_watermark_offsets(rk, topic, p->partition, &p->low, &p->high, ANSWER_MS);
        p->from = p->next = p->low;
        p->to = p->high;
    }
    free(ids);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "watermarks", topic, err);
}

void topic_scan_free(struct topic_scan *s) {
    free(s->spans);
    *s = (struct topic_scan){0};
}

struct topic_span *topic_scan_span(const struct topic_scan *s, int32_t partition) {
    for (size_t i = 0; i < s->count; i++) {
        if (s->spans[i].partition == partition)
            return &s->spans[i];
    }
    return NULL;
}

static void set_span(struct topic_span *p, int64_t from, int64_t to) {
    p->from = from < p->low ? p->low : from > p->high ? p->high : from;
    p->to = to < p->from ? p->from : to > p->high ? p->high : to;
    p->next = p->from;
}

static int64_t total_of(const struct topic_scan *s, int64_t most) {
    int64_t sum = 0;
    for (size_t i = 0; i < s->count; i++) {
        int64_t len = s->spans[i].high - s->spans[i].low;
        sum += len < most ? len : most;
    }
    return sum;
}

void topic_scan_newest(struct topic_scan *s, int64_t records) {
    int64_t lo = 0, hi = records; /* the most that one partition may have */
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (total_of(s, mid) <= records)
            lo = mid;
        else
            hi = mid - 1;
    }
    int64_t rest = records - total_of(s, lo); /* less than one more for each that has more */
    for (size_t i = 0; i < s->count; i++) {
        struct topic_span *p = &s->spans[i];
        int64_t len = p->high - p->low;
        int64_t most = lo + (len > lo && rest > 0);
        rest -= most > lo;
        set_span(p, len > most ? p->high - most : p->low, p->high);
    }
}

void topic_scan_only(struct topic_scan *s, int32_t partition, int64_t from, int64_t to) {
    for (size_t i = 0; i < s->count; i++) {
        struct topic_span *p = &s->spans[i];
        if (p->partition == partition)
            set_span(p, from, to);
        else
            set_span(p, p->high, p->high);
    }
}

bool topic_scan_since(rd_kafka_t *rk, struct topic_scan *s, int64_t time_ms, struct error *err) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)s->count);
    for (size_t i = 0; i < s->count; i++)
        rd_kafka_topic_partition_list_add(list, s->topic, s->spans[i].partition)->offset = time_ms;
    rd_kafka_resp_err_t code = rd_kafka_offsets_for_times(rk, list, ANSWER_MS);
    for (int i = 0; i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *found = &list->elems[i];
        struct topic_span *p = topic_scan_span(s, found->partition);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            code = found->err;
        set_span(p, found->offset >= 0 ? found->offset : p->high, p->high);
    }
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "offsets by time", s->topic, err);
}

bool topic_scan_is_whole(const struct topic_scan *s) {
    for (size_t i = 0; i < s->count; i++) {
        if (s->spans[i].from > s->spans[i].low || s->spans[i].next < s->spans[i].high)
            return false;
    }
    return true;
}

int64_t topic_scan_since_ms(const struct topic_scan *s) {
    int64_t latest = -1;
    for (size_t i = 0; i < s->count; i++) {
        const struct topic_span *p = &s->spans[i];
        if (p->from > p->low && p->first_ms > latest)
            latest = p->first_ms;
    }
    return latest;
}

/* ---- reading ---- */

struct reading {
    struct topic_scan *scan;
    topic_scan_take *take;
    void *ctx;
    size_t left; /* partitions that aren't read to where they're to */
};

static bool assign(rd_kafka_t *rk, struct reading *r, struct error *err) {
    struct topic_scan *s = r->scan;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)s->count);
    for (size_t i = 0; i < s->count; i++) {
        const struct topic_span *p = &s->spans[i];
        if (p->next >= p->to)
            continue;
        rd_kafka_topic_partition_list_add(list, s->topic, p->partition)->offset = p->next;
        r->left++;
    }
    rd_kafka_resp_err_t code = r->left ? rd_kafka_assign(rk, list) : RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "assign", s->topic, err);
}

/* False: it's nothing that was waited for. An end may lie behind offsets that hold no record. */
static bool take_message(struct reading *r, const rd_kafka_message_t *msg) {
    struct topic_span *p = topic_scan_span(r->scan, msg->partition);
    bool record = msg->err == RD_KAFKA_RESP_ERR_NO_ERROR;
    int64_t next = record ? msg->offset + 1 : msg->offset;
    if (!msg->rkt || strcmp(rd_kafka_topic_name(msg->rkt), r->scan->topic) != 0 || !p || p->next >= p->to ||
        next <= p->next)
        return false;
    if (record && msg->offset < p->to) {
        rd_kafka_timestamp_type_t type;
        if (p->first_ms < 0)
            p->first_ms = rd_kafka_message_timestamp(msg, &type);
        r->scan->records++;
        r->take(r->ctx, msg);
    }
    p->next = next < p->to ? next : p->to;
    r->left -= p->next >= p->to;
    return true;
}

static bool read_on(rd_kafka_t *rk, struct reading *r, int64_t until, struct error *err) {
    int64_t silent_at = clock_monotonic_ms() + SILENCE_MS;
    while (r->left && !r->scan->timed_out) {
        rd_kafka_message_t *msg = rd_kafka_consumer_poll(rk, 100);
        rd_kafka_resp_err_t code = msg ? msg->err : RD_KAFKA_RESP_ERR_NO_ERROR;
        bool end = code == RD_KAFKA_RESP_ERR__PARTITION_EOF;
        int64_t now = clock_monotonic_ms();
        if (msg && (code == RD_KAFKA_RESP_ERR_NO_ERROR || end) && take_message(r, msg))
            silent_at = now + SILENCE_MS;
        if (msg)
            rd_kafka_message_destroy(msg);
        if (code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
            return kafka_error(code, "read", r->scan->topic, err);
        if (r->left && now > silent_at)
            return kafka_error(code == RD_KAFKA_RESP_ERR_NO_ERROR ? RD_KAFKA_RESP_ERR__TIMED_OUT : code,
                               "read", r->scan->topic, err);
        r->scan->timed_out = r->left && until && now > until;
    }
    return true;
}

bool topic_scan_read(rd_kafka_t *rk, struct topic_scan *s, int64_t within_ms, topic_scan_take *take,
                     void *ctx, struct error *err) {
    struct reading r = {.scan = s, .take = take, .ctx = ctx};
    int64_t until = within_ms ? clock_monotonic_ms() + within_ms : 0;
    bool ok = assign(rk, &r, err) && read_on(rk, &r, until, err);
    rd_kafka_assign(rk, NULL);
    return ok;
}
