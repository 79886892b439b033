/* SPDX-License-Identifier: MIT */
#include "dlt.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "fault.h"
#include "heartbeat.h"
#include "kafka.h"
#include "log.h"

struct dlt {
    const struct config *cfg;
    struct metrics *metrics;
    rd_kafka_t *producer;
    size_t in_flight;
    bool purged;           /* what the brokers took of it nobody knows: the producer is to be made anew */
    atomic_bool abandoned; /* any thread */
};

/* A record on its way; lives until its delivery report came. */
struct letter {
    struct dlt *dlt;
    struct batch_event *event;
    size_t cut; /* bytes of the value that go, SIZE_MAX: all */
    rd_kafka_resp_err_t result;
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *msg, void *opaque) {
    (void)rk;
    (void)opaque;
    struct letter *l = msg->_private;
    struct fault fault = fault_at("dlt.ack");
    l->result = fault.verdict == FAULT_NONE ? msg->err
                : fault.code                ? (rd_kafka_resp_err_t)fault.code
                                            : RD_KAFKA_RESP_ERR__MSG_TIMED_OUT;
    l->dlt->in_flight--;
}

struct dlt *dlt_new(const struct config *cfg, struct metrics *metrics) {
    struct dlt *d = mem_zero(1, sizeof *d);
    d->cfg = cfg;
    d->metrics = metrics;
    atomic_init(&d->abandoned, false);
    return d;
}

static void close_producer(struct dlt *d) {
    if (!d->producer)
        return;
    rd_kafka_purge(d->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    while (d->in_flight)
        rd_kafka_poll(d->producer, 100); /* purged records report at once; letters must outlive that */
    rd_kafka_destroy(d->producer);
    d->producer = NULL;
    d->purged = false;
}

void dlt_abandon(struct dlt *d) {
    atomic_store(&d->abandoned, true);
}

void dlt_free(struct dlt *d) {
    if (!d)
        return;
    close_producer(d);
    free(d);
}

static void add_number(rd_kafka_headers_t *h, const char *name, int64_t value) {
    struct buf digits = {0};
    buf_i64(&digits, value);
    rd_kafka_header_add(h, name, -1, digits.data, (ssize_t)digits.len);
    buf_free(&digits);
}

void dlt_headers_remove(rd_kafka_headers_t *h) {
    static const char *const ours[] = {"x-error-code",         "x-error-message",      "x-error-action",
                                       "x-original-topic",     "x-original-partition", "x-original-offset",
                                       "x-original-timestamp", "x-truncated"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        rd_kafka_header_remove(h, ours[i]);
}

/* The record's own headers without ours, which it may carry from before, and ours. */
static rd_kafka_headers_t *headers_for(const struct dlt *d, const struct letter *l) {
    const struct batch_event *e = l->event;
    rd_kafka_headers_t *h = NULL, *own = NULL;
    if (rd_kafka_message_headers(e->msg, &own) == RD_KAFKA_RESP_ERR_NO_ERROR)
        h = rd_kafka_headers_copy(own);
    if (!h)
        h = rd_kafka_headers_new(8);
    dlt_headers_remove(h);
    rd_kafka_header_add(h, "x-error-code", -1, reject_code_name(e->why.code), -1);
    rd_kafka_header_add(h, "x-error-message", -1, e->why.message, -1);
    rd_kafka_header_add(h, "x-error-action", -1, "DLQ", -1);
    rd_kafka_header_add(h, "x-original-topic", -1, d->cfg->kafka.usage_topic, -1);
    add_number(h, "x-original-partition", e->part->id);
    add_number(h, "x-original-offset", e->offset);
    add_number(h, "x-original-timestamp", e->record_ts_ms);
    if (l->cut != SIZE_MAX)
        add_number(h, "x-truncated", (int64_t)e->msg->len);
    return h;
}

static rd_kafka_resp_err_t produce(struct dlt *d, struct letter *l) {
    const rd_kafka_message_t *m = l->event->msg;
    rd_kafka_headers_t *headers = headers_for(d, l);
    size_t len = l->cut < m->len ? l->cut : m->len;
    rd_kafka_vu_t vus[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = d->cfg->kafka.dlt_topic},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {.ptr = m->key, .size = m->key_len}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {.ptr = m->payload, .size = len}},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = l},
        {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = l->event->record_ts_ms},
    };
    size_t n = sizeof vus / sizeof *vus - (l->event->record_ts_ms < 0 ? 1 : 0);
    /* The value isn't copied: the batch keeps the record until the report came. */
    rd_kafka_error_t *error = rd_kafka_produceva(d->producer, vus, n);
    if (!error) {
        d->in_flight++;
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    rd_kafka_headers_destroy(headers);
    return code;
}

static void post(struct dlt *d, struct letter *l) {
    rd_kafka_resp_err_t code;
    struct fault fault = fault_at("dlt.produce");
    if (fault.verdict == FAULT_FATAL)
        rd_kafka_test_fatal_error(d->producer, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
                                  "a fault point's");
    if (fault.verdict == FAULT_FAIL) {
        l->result = fault.code ? (rd_kafka_resp_err_t)fault.code : RD_KAFKA_RESP_ERR__MSG_TIMED_OUT;
        return;
    }
    while ((code = produce(d, l)) == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        heartbeat_beat();
        rd_kafka_poll(d->producer, 50);
    }
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        l->result = code;
    }
}

/* Bounded by the message time-out; shorter when nobody wants the batch settled any more. */
static void await_reports(struct dlt *d, const struct batch *b) {
    while (d->in_flight) {
        heartbeat_beat();
        rd_kafka_poll(d->producer, 100);
        if (d->in_flight && (atomic_load(&d->abandoned) || atomic_load(&b->assignment->lost))) {
            rd_kafka_purge(d->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
            d->purged = true;
        }
    }
}

static bool too_large(const struct letter *l) {
    return l->result == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE ||
           l->result == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE ||
           l->result == RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE;
}

/* At first to what an event may have, then ever smaller. */
static bool cut_further(const struct dlt *d, struct letter *l) {
    size_t limit = (size_t)d->cfg->event.max_bytes;
    size_t now = l->cut < l->event->msg->len ? l->cut : l->event->msg->len;
    if (now == 0)
        return false;
    l->cut = now > limit ? limit : now / 2;
    return true;
}

/* The topic's limit is for a whole produce batch: what was refused in company
 * may fit alone, and only what doesn't fit alone goes cut. */
static void deliver_alone(struct dlt *d, const struct batch *b, struct letter *l) {
    do {
        post(d, l);
        await_reports(d, b);
    } while (too_large(l) && cut_further(d, l));
}

static void deliver_all(struct dlt *d, const struct batch *b, struct letter *letters, size_t n) {
    for (size_t i = 0; i < n; i++)
        post(d, &letters[i]);
    await_reports(d, b);
    for (size_t i = 0; i < n; i++) {
        if (too_large(&letters[i]))
            deliver_alone(d, b, &letters[i]);
    }
}

static bool is_due(const struct batch_event *e, bool twins) {
    return e->outcome == OUTCOME_REJECTED && !e->dlt_acked && (twins || e->twin_of == EVENT_NO_TWIN);
}

static void note_acked(struct dlt *d, struct batch_event *e) {
    char trace[TRACE_ID_SIZE];
    e->dlt_acked = true;
    metrics_add(d->metrics, METRIC_DLT, e->why.code, 1);
    LOG(LOG_DEBUG, "record_rejected", LOG_S("code", reject_code_name(e->why.code)),
        LOG_S("reason", e->why.message), LOG_I("partition", e->part->id), LOG_I("offset", e->offset),
        LOG_O("trace_id", batch_event_trace_id(e, trace)));
}

bool dlt_write(struct dlt *d, struct batch *b, bool twins, struct error *err) {
    size_t n = 0;
    for (size_t i = 0; i < b->count; i++)
        n += is_due(&b->events[i], twins);
    if (n == 0)
        return true;
    if (!d->producer) {
        d->producer = kafka_producer_new(d->cfg, on_delivery, d, err);
        if (!d->producer)
            return false;
        kafka_topic_prefetch(d->producer, d->cfg->kafka.dlt_topic);
    }
    struct letter *letters = mem_zero(n, sizeof *letters);
    size_t k = 0;
    for (size_t i = 0; i < b->count; i++) {
        if (is_due(&b->events[i], twins))
            letters[k++] = (struct letter){.dlt = d, .event = &b->events[i], .cut = SIZE_MAX};
    }
    deliver_all(d, b, letters, n);
    fault_at("dlt.delivered");
    rd_kafka_resp_err_t failure = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (size_t i = 0; i < n; i++) {
        if (letters[i].result == RD_KAFKA_RESP_ERR_NO_ERROR)
            note_acked(d, letters[i].event);
        else
            failure = letters[i].result;
    }
    free(letters);
    if (failure == RD_KAFKA_RESP_ERR_NO_ERROR)
        return true;
    if (d->purged || rd_kafka_fatal_error(d->producer, NULL, 0) != RD_KAFKA_RESP_ERR_NO_ERROR)
        close_producer(d);
    return kafka_error(failure, "dead letter topic", d->cfg->kafka.dlt_topic, err);
}
