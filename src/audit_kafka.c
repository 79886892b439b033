/* SPDX-License-Identifier: MIT */
/* Reads what the audit needs from Kafka: by a consumer that belongs to no group and commits nothing, up to an
 * end that was asked for before. Of a topic that may hold millions of notifications only digests are kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_internal.h"
#include "clock.h"
#include "dlt_reader.h"
#include "kafka.h"

#define ANSWER_MS 5000
/* Without a record or an end of a partition for so long the broker counts as silent. */
#define DESTROY_MS 5000
#define SILENCE_MS 30000

/* ---- questions ---- */

static bool watermarks(struct audit *a, const char *topic, int32_t id, int64_t *low, int64_t *high,
                       struct error *err) {
    rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(a->reader, topic, id, low, high, ANSWER_MS);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "watermarks", topic, err);
}

static bool ask_partitions(struct audit *a, struct error *err) {
    size_t n = 0;
    int32_t *ids = kafka_topic_partitions(a->reader, a->cfg->kafka.usage_topic, ANSWER_MS, &n, err);
    for (size_t i = 0; ids && i < n; i++)
        audit_partition(a, ids[i])->on_topic = true;
    free(ids);
    return ids != NULL;
}

static bool ask_committed(struct audit *a, struct error *err) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)a->partition_count);
    for (size_t i = 0; i < a->partition_count; i++)
        rd_kafka_topic_partition_list_add(list, a->cfg->kafka.usage_topic, a->partitions[i].id);
    rd_kafka_resp_err_t code = rd_kafka_committed(a->reader, list, ANSWER_MS);
    for (int i = 0; code == RD_KAFKA_RESP_ERR_NO_ERROR && i < list->cnt; i++) {
        code = list->elems[i].err;
        a->partitions[i].committed = list->elems[i].offset >= 0 ? list->elems[i].offset : -1;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "committed offsets", NULL, err);
}

/* How far the usage topic reaches. Partitions that only the ledger knows keep their -1. */
static bool ask_ends(struct audit *a, struct error *err) {
    int64_t in_flight = 0;
    for (size_t i = 0; i < a->partition_count; i++) {
        struct audit_partition *p = &a->partitions[i];
        int64_t low, high;
        if (!p->on_topic)
            continue;
        if (!watermarks(a, a->cfg->kafka.usage_topic, p->id, &low, &high, err))
            return false;
        p->end = high;
        int64_t from = p->in_ledger ? p->next : low;
        in_flight += high > from ? high - from : 0;
    }
    a->r->in_flight = in_flight;
    return true;
}

/* ---- reading ---- */

static bool log_open(struct audit *a, struct audit_log *log, const char *topic, struct error *err) {
    log->topic = topic;
    log->ids = kafka_topic_partitions(a->reader, topic, ANSWER_MS, &log->count, err);
    if (!log->ids)
        return false;
    log->start = mem_zero(log->count, sizeof *log->start);
    log->start_ms = mem_zero(log->count, sizeof *log->start_ms);
    log->next = mem_zero(log->count, sizeof *log->next);
    for (size_t i = 0; i < log->count; i++) {
        int64_t low, high;
        if (!watermarks(a, topic, log->ids[i], &low, &high, err))
            return false;
        log->start[i] = log->next[i] = low;
    }
    return true;
}

static void log_free(struct audit_log *log) {
    free(log->ids);
    free(log->start);
    free(log->start_ms);
    free(log->next);
    *log = (struct audit_log){0};
}

typedef void take_record(struct audit *a, const rd_kafka_message_t *msg, bool before);

/* A reading under way. */
struct reading {
    struct audit *a;
    struct audit_log *log;
    take_record *take;
    bool before;
    int64_t *ends;
    size_t left; /* partitions not read to their ends */
};

static bool assign(struct reading *r, struct error *err) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)r->log->count);
    for (size_t i = 0; i < r->log->count; i++) {
        int64_t low, high;
        if (!watermarks(r->a, r->log->topic, r->log->ids[i], &low, &high, err)) {
            rd_kafka_topic_partition_list_destroy(list);
            return false;
        }
        r->ends[i] = high;
        if (r->log->next[i] >= high)
            continue;
        rd_kafka_topic_partition_list_add(list, r->log->topic, r->log->ids[i])->offset = r->log->next[i];
        r->left++;
    }
    rd_kafka_resp_err_t code = r->left ? rd_kafka_assign(r->a->reader, list) : RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "assign", r->log->topic, err);
}

/* Whether that's further than before, and asked for. */
static bool reached(struct reading *r, size_t i, int64_t next) {
    bool was_left = r->log->next[i] < r->ends[i];
    if (!was_left || next <= r->log->next[i])
        return false;
    r->log->next[i] = next < r->ends[i] ? next : r->ends[i];
    if (r->log->next[i] >= r->ends[i])
        r->left--;
    return true;
}

/* False: it's nothing that was waited for. */
static bool take_message(struct reading *r, const rd_kafka_message_t *msg) {
    struct audit_log *log = r->log;
    size_t i = 0;
    while (i < log->count && log->ids[i] != msg->partition)
        i++;
    if (i == log->count)
        return false;
    if (msg->err == RD_KAFKA_RESP_ERR_NO_ERROR && msg->offset >= log->next[i] && msg->offset < r->ends[i]) {
        if (log->start_ms[i] == 0) {
            rd_kafka_timestamp_type_t type;
            log->start_ms[i] = rd_kafka_message_timestamp(msg, &type);
            log->start[i] = msg->offset;
        }
        r->take(r->a, msg, r->before);
    }
    /* the end may lie behind offsets that hold no record */
    return reached(r, i, msg->err == RD_KAFKA_RESP_ERR_NO_ERROR ? msg->offset + 1 : msg->offset);
}

static bool read_on(struct reading *r, struct error *err) {
    int64_t silent_at = clock_monotonic_ms() + SILENCE_MS;
    while (r->left) {
        rd_kafka_message_t *msg = rd_kafka_consumer_poll(r->a->reader, 100);
        rd_kafka_resp_err_t code = msg ? msg->err : RD_KAFKA_RESP_ERR_NO_ERROR;
        bool end = code == RD_KAFKA_RESP_ERR__PARTITION_EOF;
        /* what goes on behind the ends, in other partitions, is no sign of life */
        if (msg && (code == RD_KAFKA_RESP_ERR_NO_ERROR || end) && take_message(r, msg))
            silent_at = clock_monotonic_ms() + SILENCE_MS;
        if (msg)
            rd_kafka_message_destroy(msg);
        if (clock_monotonic_ms() > silent_at)
            return kafka_error(code == RD_KAFKA_RESP_ERR_NO_ERROR ? RD_KAFKA_RESP_ERR__TIMED_OUT : code,
                               "read", r->log->topic, err);
    }
    return true;
}

/* Up to where the topic reaches now. */
static bool read_log(struct audit *a, struct audit_log *log, take_record *take, bool before,
                     struct error *err) {
    struct reading r = {.a = a, .log = log, .take = take, .before = before};
    r.ends = mem_zero(log->count, sizeof *r.ends);
    bool ok = assign(&r, err) && read_on(&r, err);
    rd_kafka_assign(a->reader, NULL);
    free(r.ends);
    return ok;
}

static bool key_is_of(const rd_kafka_message_t *msg, int64_t family) {
    struct buf key = {0};
    buf_i64(&key, family);
    bool same = msg->key_len == key.len && memcmp(msg->key, key.data, key.len) == 0;
    buf_free(&key);
    return same;
}

/* It carries its row's created_at, unless the topic has the brokers put their own time there. */
static int64_t notification_time(const rd_kafka_message_t *msg) {
    rd_kafka_timestamp_type_t type;
    int64_t ms = rd_kafka_message_timestamp(msg, &type);
    return type == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME ? ms - AUDIT_CLOCKS_MS : ms;
}

static void take_notification(struct audit *a, const rd_kafka_message_t *msg, bool before) {
    struct buf id = {0};
    if (a->options.family && !key_is_of(msg, a->options.family))
        return;
    if (!msg->payload || !audit_notification_id(&id, msg->payload, msg->len))
        buf_str(&id, " "); /* nobody's */
    if (a->notice_count == a->notice_capacity) {
        a->notice_capacity = a->notice_capacity ? a->notice_capacity * 2 : 1024;
        a->notices = mem_realloc(a->notices, a->notice_capacity * sizeof *a->notices);
    }
    a->notices[a->notice_count++] =
        (struct audit_notice){.id = audit_digest(id.data, id.len),
                              .value = audit_digest(msg->payload ? msg->payload : "", msg->len),
                              .offset = msg->offset,
                              .partition = msg->partition,
                              .time_ms = notification_time(msg),
                              .before = before};
    buf_free(&id);
}

static void take_rejected(struct audit *a, const rd_kafka_message_t *msg, bool before) {
    struct dlt_record r;
    (void)before;
    dlt_record_read(msg, &r);
    if (strcmp(r.topic, a->cfg->kafka.usage_topic) != 0 || r.original_partition < 0 ||
        r.original_partition > INT32_MAX || r.original_offset < 0)
        return;
    if (a->rejection_count == a->rejection_capacity) {
        a->rejection_capacity = a->rejection_capacity ? a->rejection_capacity * 2 : 1024;
        a->rejections = mem_realloc(a->rejections, a->rejection_capacity * sizeof *a->rejections);
    }
    a->rejections[a->rejection_count++] = (struct audit_rejection){
        .partition = (int32_t)r.original_partition, .offset = r.original_offset, .time_ms = r.time_ms};
}

/* ---- before and after the snapshot ---- */

static bool read_logs(struct audit *a, bool before, struct error *err) {
    return read_log(a, &a->notifications, take_notification, before, err) &&
           (a->options.family || read_log(a, &a->dlt, take_rejected, before, err));
}

static void close_reader(struct audit *a) {
    if (a->reader)
        kafka_destroy(a->reader, DESTROY_MS); /* of a process that ends soon */
    a->reader = NULL;
}

static void give_up(struct audit *a) {
    close_reader(a);
    a->kafka_known = a->notifications.read = a->dlt.read = false;
    a->r->in_flight = -1;
}

void audit_kafka_before(struct audit *a) {
    struct error *err = &a->r->kafka;
    a->reader = kafka_reader_new(a->cfg, err);
    if (!a->reader || !ask_partitions(a, err) || !ask_committed(a, err) ||
        !log_open(a, &a->notifications, a->cfg->kafka.notification_topic, err) ||
        !log_open(a, &a->dlt, a->cfg->kafka.dlt_topic, err) || !read_logs(a, true, err))
        give_up(a);
}

void audit_kafka_after(struct audit *a) {
    struct error *err = &a->r->kafka;
    if (!a->reader)
        return;
    a->kafka_known = ask_ends(a, err);
    a->notifications.read = a->kafka_known && read_logs(a, false, err);
    a->dlt.read = a->notifications.read;
    if (!a->notifications.read)
        give_up(a);
}

void audit_kafka_close(struct audit *a) {
    close_reader(a);
    log_free(&a->notifications);
    log_free(&a->dlt);
}

/* ---- waiting ---- */

/* Records below the ends that the ledger, as it is now, hasn't settled; -1 with an error. */
static int64_t unsettled(struct audit *a, struct db *db, const int64_t *ends, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    int64_t left = 0;
    if (!db_ensure(db, err))
        return -1;
    buf_str(&sql, "SELECT partition_id, next_offset FROM consumer_ledger WHERE group_id = ");
    db_quote(db, &sql, a->cfg->kafka.group_id, strlen(a->cfg->kafka.group_id));
    buf_str(&sql, " AND topic = ");
    db_quote(db, &sql, a->cfg->kafka.usage_topic, strlen(a->cfg->kafka.usage_topic));
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    for (size_t i = 0; i < a->partition_count; i++)
        left += ends[i];
    while (ok && db_next(&rows)) {
        for (size_t i = 0; i < a->partition_count; i++) {
            int64_t next = db_i64(&rows, 1, 0);
            if (a->partitions[i].id == db_i64(&rows, 0, -1))
                left -= next < ends[i] ? next : ends[i];
        }
    }
    db_rows_free(&rows);
    return ok ? left : -1;
}

static bool ask_all_ends(struct audit *a, int64_t *ends, struct error *err) {
    int64_t low;
    for (size_t i = 0; i < a->partition_count; i++) {
        if (a->partitions[i].on_topic &&
            !watermarks(a, a->cfg->kafka.usage_topic, a->partitions[i].id, &low, &ends[i], err))
            return false;
    }
    return true;
}

bool audit_kafka_settled(struct audit *a, struct db *db, int64_t wait_ms, char *why, size_t size) {
    struct error err = {0};
    int64_t until = clock_monotonic_ms() + wait_ms, left = -1;
    if (!a->reader) {
        snprintf(why, size, "Kafka doesn't say whether events are in flight");
        return false;
    }
    int64_t *ends = mem_zero(a->partition_count, sizeof *ends);
    if (ask_all_ends(a, ends, &err)) {
        while ((left = unsettled(a, db, ends, &err)) > 0 && clock_monotonic_ms() < until)
            clock_sleep_ms(50);
    }
    free(ends);
    if (left < 0)
        snprintf(why, size, "%.200s", err.text);
    else
        snprintf(why, size, "%lld records are in flight", (long long)left);
    return left == 0;
}
