/* SPDX-License-Identifier: MIT */
#include "topic_scan.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "kafka.h"

#define ANSWER_MS 5000
#define SILENCE_MS 10000

/* ---- what is to be read ---- */

static int by_id(const void *x, const void *y) {
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

bool topic_scan_open(rd_kafka_t *rk, const char *topic, struct topic_scan *s, struct error *err) {
    size_t n = 0;
    *s = (struct topic_scan){.topic = topic, .silence_ms = SILENCE_MS};
    int32_t *ids = kafka_topic_partitions(rk, topic, ANSWER_MS, &n, err);
    if (!ids)
        return false;
    if (n)
        qsort(ids, n, sizeof *ids, by_id);
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

void topic_scan_bound(struct topic_span *p, int64_t from, int64_t to) {
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
        topic_scan_bound(p, len > most ? p->high - most : p->low, p->high);
    }
}

void topic_scan_only(struct topic_scan *s, int32_t partition, int64_t from, int64_t to) {
    for (size_t i = 0; i < s->count; i++) {
        struct topic_span *p = &s->spans[i];
        if (p->partition == partition)
            topic_scan_bound(p, from, to);
        else
            topic_scan_bound(p, p->high, p->high);
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
        topic_scan_bound(p, found->offset >= 0 ? found->offset : p->high, p->high);
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

/* `n` partitions from the `first` one on. */
static bool assign(rd_kafka_t *rk, struct reading *r, size_t first, size_t n, struct error *err) {
    struct topic_scan *s = r->scan;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)n);
    for (size_t i = first; i < first + n; i++) {
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

static bool take_record(struct reading *r, struct topic_span *p, rd_kafka_message_t **msg,
                        struct error *err) {
    rd_kafka_timestamp_type_t type;
    if (p->first_ms < 0)
        p->first_ms = rd_kafka_message_timestamp(*msg, &type);
    r->scan->records++;
    return r->take(r->ctx, msg, err);
}

/* A record, or what stands for the end of a partition, which may lie behind offsets that hold no record.
 * `*moved`: it's further than before. */
static bool take_message(struct reading *r, rd_kafka_message_t **msg, bool *moved, struct error *err) {
    const rd_kafka_message_t *m = *msg;
    struct topic_span *p = topic_scan_span(r->scan, m->partition);
    bool record = m->err == RD_KAFKA_RESP_ERR_NO_ERROR, end = m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
    int64_t offset = m->offset, next = record ? offset + 1 : offset;
    *moved = (record || end) && m->rkt && strcmp(rd_kafka_topic_name(m->rkt), r->scan->topic) == 0 && p &&
             p->next < p->to && next > p->next;
    if (!*moved)
        return true;
    bool ok = !record || offset >= p->to || take_record(r, p, msg, err);
    p->next = next < p->to ? next : p->to;
    r->left -= p->next >= p->to;
    return ok;
}

static bool read_on(rd_kafka_t *rk, struct reading *r, int64_t until, struct error *err) {
    int64_t silent_at = clock_monotonic_ms() + r->scan->silence_ms;
    while (r->left && !r->scan->timed_out) {
        rd_kafka_message_t *msg = rd_kafka_consumer_poll(rk, 100);
        rd_kafka_resp_err_t code = msg ? msg->err : RD_KAFKA_RESP_ERR_NO_ERROR;
        bool moved = false, ok = !msg || take_message(r, &msg, &moved, err);
        if (msg)
            rd_kafka_message_destroy(msg);
        if (!ok)
            return false;
        int64_t now = clock_monotonic_ms();
        if (moved)
            silent_at = now + r->scan->silence_ms;
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
    size_t at_once = s->in_order ? 1 : s->count;
    bool ok = true;
    for (size_t i = 0; ok && i < s->count && !s->timed_out; i += at_once) {
        ok = assign(rk, &r, i, at_once, err) && read_on(rk, &r, until, err);
        rd_kafka_assign(rk, NULL);
    }
    return ok;
}
