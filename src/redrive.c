/* SPDX-License-Identifier: MIT */
#include "redrive.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "dlt.h"
#include "kafka.h"

/* In flight at a time: what is in doubt after an outage is never more. */
#define CHUNK_RECORDS 500
#define CHUNK_BYTES (4 << 20)
#define DESTROY_MS 5000

struct parcel {
    struct redrive *r;
    rd_kafka_message_t *msg; /* owned */
    int64_t time_ms;
    rd_kafka_resp_err_t result;
};

struct redrive {
    const struct config *cfg;
    const char *topic;
    redrive_refused_fn *refused;
    void *ctx;
    rd_kafka_t *producer;
    struct parcel parcels[CHUNK_RECORDS];
    size_t count, bytes, in_flight;
    int64_t sent, refused_count;
    bool begun, stopped;
    int32_t next_partition; /* begun: behind the last that was acknowledged or refused; */
    int64_t next_offset;    /* stopped: the first that was neither */
};

const char *redrive_obstacle(const struct dlt_record *r, const char *topic) {
    if (r->cut)
        return "cut: only its beginning is in the DLT (x-truncated)";
    if (r->topic[0] == '\0')
        return "not known where it came from (x-original-topic)";
    return strcmp(r->topic, topic) == 0 ? NULL : "from another topic";
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *msg, void *opaque) {
    (void)rk;
    (void)opaque;
    struct parcel *p = msg->_private;
    p->result = msg->err;
    p->r->in_flight--;
}

struct redrive *redrive_new(const struct config *cfg, const char *topic, redrive_refused_fn *refused,
                            void *ctx, struct error *err) {
    struct redrive *r = mem_zero(1, sizeof *r);
    r->cfg = cfg;
    r->topic = topic;
    r->refused = refused;
    r->ctx = ctx;
    r->producer = kafka_producer_new(cfg, on_delivery, r, err);
    if (!r->producer) {
        free(r);
        return NULL;
    }
    kafka_topic_prefetch(r->producer, topic);
    return r;
}

static rd_kafka_headers_t *headers_of(const rd_kafka_message_t *msg) {
    rd_kafka_headers_t *own = NULL;
    if (rd_kafka_message_headers(msg, &own) != RD_KAFKA_RESP_ERR_NO_ERROR || !own)
        return rd_kafka_headers_new(0);
    rd_kafka_headers_t *h = rd_kafka_headers_copy(own);
    dlt_headers_remove(h);
    return h;
}

static rd_kafka_resp_err_t produce_once(struct redrive *r, struct parcel *p) {
    const rd_kafka_message_t *m = p->msg;
    rd_kafka_headers_t *headers = headers_of(m);
    rd_kafka_vu_t vus[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = r->topic},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {.ptr = m->key, .size = m->key_len}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {.ptr = m->payload, .size = m->len}},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = p},
        {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = p->time_ms},
    };
    /* The value isn't copied: the parcel keeps the record until its report came. */
    size_t n = sizeof vus / sizeof *vus - (p->time_ms < 0 ? 1 : 0);
    rd_kafka_error_t *error = rd_kafka_produceva(r->producer, vus, n);
    if (!error) {
        r->in_flight++;
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    rd_kafka_headers_destroy(headers);
    return code;
}

static void produce(struct redrive *r, struct parcel *p) {
    rd_kafka_resp_err_t code;
    while ((code = produce_once(r, p)) == RD_KAFKA_RESP_ERR__QUEUE_FULL)
        rd_kafka_poll(r->producer, 50);
    p->result = code; /* a report, which comes by polling only, writes the final one */
}

/* Bounded by the message time-out. */
static void await_reports(struct redrive *r) {
    while (r->in_flight)
        rd_kafka_poll(r->producer, 100);
}

/* For good, of this very record. Brokers refuse a whole batch for one of its records, so it's asked alone. */
static bool is_refusal(rd_kafka_resp_err_t code) {
    struct error why = {0};
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    kafka_error(code, "redrive", NULL, &why);
    return code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP || why.action == ERROR_REJECT;
}

/* Without brokers each would wait as long as a message may take, and wasn't refused for good. */
static void retry_refused_alone(struct redrive *r) {
    rd_kafka_resp_err_t away = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (size_t i = 0; r->count > 1 && i < r->count; i++) {
        struct parcel *p = &r->parcels[i];
        if (!is_refusal(p->result))
            continue;
        if (away != RD_KAFKA_RESP_ERR_NO_ERROR) {
            p->result = away;
            continue;
        }
        produce(r, p);
        await_reports(r);
        if (p->result != RD_KAFKA_RESP_ERR_NO_ERROR && !is_refusal(p->result))
            away = p->result;
    }
}

static void set_next(struct redrive *r, const struct parcel *p, int64_t beyond) {
    r->next_partition = p->msg->partition;
    r->next_offset = p->msg->offset + beyond;
    r->begun = true;
}

/* Parcels are in the order of the DLT. */
static rd_kafka_resp_err_t count_results(struct redrive *r) {
    rd_kafka_resp_err_t failure = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (size_t i = 0; i < r->count; i++) {
        const struct parcel *p = &r->parcels[i];
        bool refused = is_refusal(p->result);
        if (p->result == RD_KAFKA_RESP_ERR_NO_ERROR)
            r->sent++;
        else if (!refused && !r->stopped) {
            r->stopped = true;
            set_next(r, p, 0);
            failure = p->result;
        }
        if (refused) {
            r->refused_count++;
            r->refused(r->ctx, p->msg->partition, p->msg->offset, rd_kafka_err2str(p->result));
        }
        if (!r->stopped)
            set_next(r, p, 1);
    }
    return failure;
}

static void drop_parcels(struct redrive *r) {
    while (r->count)
        rd_kafka_message_destroy(r->parcels[--r->count].msg);
    r->bytes = 0;
}

bool redrive_flush(struct redrive *r, struct error *err) {
    for (size_t i = 0; i < r->count; i++)
        produce(r, &r->parcels[i]);
    await_reports(r);
    retry_refused_alone(r);
    rd_kafka_resp_err_t failure = count_results(r);
    drop_parcels(r);
    return failure == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(failure, "redrive", r->topic, err);
}

/* What the record holds in memory, its headers included: they have no limit of their own. */
static size_t size_of(const rd_kafka_message_t *msg) {
    size_t size = msg->len + msg->key_len, len;
    rd_kafka_headers_t *h = NULL;
    const char *name;
    const void *value;
    if (rd_kafka_message_headers(msg, &h) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return size;
    for (size_t i = 0; rd_kafka_header_get_all(h, i, &name, &value, &len) == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        size += strlen(name) + len;
    return size;
}

bool redrive_add(struct redrive *r, rd_kafka_message_t *msg, int64_t time_ms, struct error *err) {
    r->parcels[r->count++] = (struct parcel){.r = r, .msg = msg, .time_ms = time_ms};
    r->bytes += size_of(msg);
    return (r->count < CHUNK_RECORDS && r->bytes < CHUNK_BYTES) || redrive_flush(r, err);
}

int64_t redrive_sent(const struct redrive *r) {
    return r->sent;
}

int64_t redrive_refused(const struct redrive *r) {
    return r->refused_count;
}

bool redrive_position(const struct redrive *r, int32_t *partition, int64_t *offset) {
    bool unsent = !r->stopped && r->count; /* gathered when reading failed */
    *partition = unsent ? r->parcels[0].msg->partition : r->next_partition;
    *offset = unsent ? r->parcels[0].msg->offset : r->next_offset;
    return r->begun || unsent;
}

void redrive_free(struct redrive *r) {
    if (!r)
        return;
    drop_parcels(r);
    kafka_destroy(r->producer, DESTROY_MS); /* of a process that ends soon */
    free(r);
}
