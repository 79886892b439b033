/* SPDX-License-Identifier: MIT */
/* One rule orders everything: a row is produced only when no earlier row of its
 * family is PUBLISH_PENDING, whoever leases that. So one row of a family is in
 * the producer at a time, and a retry can't overtake. Work goes in rounds: ask
 * for each family's first pending row, produce those that are in hand, wait for
 * their reports, mark them, and look again. */
#include "relay.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fault.h"
#include "heartbeat.h"
#include "kafka.h"
#include "log.h"
#include "notification.h"
#include "retry.h"
#include "trace.h"

#define ROUND_ROWS 500       /* rows looked at in one round: bounds the statements */
#define LEASE_MARGIN_MS 2000 /* for marking after the last possible report */
#define RETRY_AFTER_OUTAGE_MS 1000

/* Shared, under `lock`: queue, stopping, done. Everything else is the thread's own. */
struct relay {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct outbox_list queue;
    bool stopping, done;
    atomic_llong give_up_ms; /* any thread: when waiting for acknowledgements ends */

    const struct config *cfg;
    int64_t owner;
    struct metrics *metrics;
    pthread_t thread;
    struct db *db;
    rd_kafka_t *producer;
    struct outbox_list hand; /* rows leased to us, in the order they came */
    size_t in_flight;
    int64_t next_sweep_ms, next_report_ms;
};

/* A row in the producer. */
struct flight {
    struct relay *relay;
    struct outbox_row *row;
    rd_kafka_resp_err_t result;
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *msg, void *opaque) {
    (void)rk;
    struct relay *r = opaque;
    struct flight *f = msg->_private;
    struct fault fault = fault_at("relay.ack");
    f->result = fault.verdict == FAULT_NONE ? msg->err
                : fault.code                ? (rd_kafka_resp_err_t)fault.code
                                            : RD_KAFKA_RESP_ERR__MSG_TIMED_OUT;
    if (f->result == RD_KAFKA_RESP_ERR_NO_ERROR)
        metrics_observe(r->metrics, METRIC_PUBLISH_LATENCY, (clock_wall_ms() - f->row->created_at_ms) * 1000);
    r->in_flight--;
}

void relay_offer(struct relay *r, struct outbox_list *rows) {
    struct outbox_row *row;
    pthread_mutex_lock(&r->lock);
    while ((row = outbox_list_pop(rows))) {
        if ((int64_t)r->queue.count < r->cfg->outbox.queue_rows)
            outbox_list_push(&r->queue, row);
        else
            outbox_row_free(row);
    }
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
}

void relay_stop(struct relay *r, int64_t deadline_ms) {
    atomic_store(&r->give_up_ms, deadline_ms);
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
}

/* Says once a period what the relay waits for. */
static void report(struct relay *r, const struct error *err) {
    int64_t now = clock_monotonic_ms();
    if (now < r->next_report_ms)
        return;
    r->next_report_ms = now + r->cfg->retry.report_interval_ms;
    LOG(LOG_WARN, "relay_waiting", LOG_E(err), LOG_I("rows_in_hand", r->hand.count));
}

/* Moves queued rows to the hand; waits up to `until_ms` when there is nothing to do. True when stopping. */
static bool take_rows(struct relay *r, int64_t until_ms) {
    struct timespec ts = clock_timespec(until_ms);
    pthread_mutex_lock(&r->lock);
    heartbeat_idle();
    while (r->hand.count == 0 && r->queue.count == 0 && !r->stopping) {
        if (pthread_cond_timedwait(&r->wake, &r->lock, &ts) == ETIMEDOUT)
            break;
    }
    heartbeat_beat();
    while (r->hand.count < ROUND_ROWS && r->queue.count)
        outbox_list_push(&r->hand, outbox_list_pop(&r->queue));
    bool stopping = r->stopping;
    pthread_mutex_unlock(&r->lock);
    return stopping;
}

/* Gives up rows whose lease might end before their report: the sweep finds them again. */
static bool drop_expiring(struct relay *r, struct error *err) {
    int64_t enough = clock_monotonic_ms() + r->cfg->kafka.message_timeout_ms + LEASE_MARGIN_MS;
    struct outbox_list kept = {0};
    struct outbox_row *row;
    size_t n = 0;
    int64_t *ids = mem_alloc(r->hand.count * sizeof *ids);
    while ((row = outbox_list_pop(&r->hand))) {
        if (row->lease_end_ms >= enough) {
            outbox_list_push(&kept, row);
        } else {
            /* one that has run out may be leased anew already, perhaps by ourselves */
            if (row->lease_end_ms > clock_monotonic_ms())
                ids[n++] = row->outbox_id;
            outbox_row_free(row);
        }
    }
    r->hand = kept;
    bool ok = n == 0 || outbox_release(r->db, r->owner, ids, n, 0, false, NULL, err);
    free(ids);
    return ok;
}

static int by_number(const void *x, const void *y) {
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

/* Distinct families of the hand, ascending, with the first pending row of each. */
struct firsts {
    int64_t *families, *rows;
    size_t count;
};

static bool ask_firsts(struct relay *r, struct firsts *f, struct error *err) {
    f->families = mem_alloc(r->hand.count * sizeof *f->families);
    f->rows = mem_alloc(r->hand.count * sizeof *f->rows);
    f->count = 0;
    for (const struct outbox_row *row = r->hand.head; row; row = row->next)
        f->families[f->count++] = row->family_id;
    qsort(f->families, f->count, sizeof *f->families, by_number);
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (n == 0 || f->families[n - 1] != f->families[i])
            f->families[n++] = f->families[i];
    }
    f->count = n;
    return outbox_first_pending(r->db, f->families, n, f->rows, err);
}

static int64_t first_of(const struct firsts *f, int64_t family) {
    const int64_t *at = bsearch(&family, f->families, f->count, sizeof family, by_number);
    return at ? f->rows[at - f->families] : 0;
}

static bool in_hand(const int64_t *sorted_ids, size_t n, int64_t id) {
    return bsearch(&id, sorted_ids, n, sizeof id, by_number) != NULL;
}

/* Splits the hand: what may be produced now, what waits for a row in hand, and
 * what waits for somebody else's row, whose lease is given up. */
static bool choose(struct relay *r, const struct firsts *f, struct outbox_list *now, struct error *err) {
    size_t n = 0, freed = 0;
    int64_t *ids = mem_alloc(r->hand.count * sizeof *ids),
            *give_up = mem_alloc(r->hand.count * sizeof *give_up);
    for (const struct outbox_row *row = r->hand.head; row; row = row->next)
        ids[n++] = row->outbox_id;
    qsort(ids, n, sizeof *ids, by_number);
    struct outbox_list kept = {0};
    struct outbox_row *row;
    while ((row = outbox_list_pop(&r->hand))) {
        int64_t first = first_of(f, row->family_id);
        if (first == row->outbox_id) {
            outbox_list_push(now, row);
        } else if (first != 0 && first < row->outbox_id && in_hand(ids, n, first)) {
            outbox_list_push(&kept, row);
        } else {
            if (first != 0 && first < row->outbox_id)
                give_up[freed++] = row->outbox_id;
            outbox_row_free(row); /* else it isn't pending any more */
        }
    }
    r->hand = kept;
    bool ok = freed == 0 || outbox_release(r->db, r->owner, give_up, freed, 0, false, NULL, err);
    free(ids);
    free(give_up);
    return ok;
}

/* The header belongs to the row: the same at the first publish and at every later one. */
static rd_kafka_headers_t *headers_for(const struct outbox_row *row) {
    if (!row->traceparent)
        return NULL;
    rd_kafka_headers_t *headers = rd_kafka_headers_new(1);
    rd_kafka_header_add(headers, TRACE_HEADER, -1, row->traceparent, -1);
    return headers;
}

static rd_kafka_resp_err_t produce_row(struct relay *r, struct flight *f, const struct buf *key,
                                       const struct buf *value) {
    rd_kafka_headers_t *headers = headers_for(f->row);
    rd_kafka_vu_t vus[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = r->cfg->kafka.notification_topic},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {.ptr = key->data, .size = key->len}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {.ptr = value->data, .size = value->len}},
        {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = f->row->created_at_ms},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = f},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers}, /* last: left out without any */
    };
    rd_kafka_error_t *error =
        rd_kafka_produceva(r->producer, vus, sizeof vus / sizeof *vus - (headers ? 0 : 1));
    if (!error)
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    if (headers)
        rd_kafka_headers_destroy(headers);
    return code;
}

static void produce(struct relay *r, struct flight *f) {
    struct fault fault = fault_at("relay.produce");
    if (fault.verdict == FAULT_FATAL)
        rd_kafka_test_fatal_error(r->producer, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
                                  "a fault point's");
    if (fault.verdict == FAULT_FAIL) {
        f->result = fault.code ? (rd_kafka_resp_err_t)fault.code : RD_KAFKA_RESP_ERR__MSG_TIMED_OUT;
        return;
    }
    struct buf key = {0}, value = {0};
    buf_i64(&key, f->row->family_id);
    notification_envelope(&value, f->row->event_id, f->row->created_at_ms, f->row->payload_json,
                          strlen(f->row->payload_json));
    rd_kafka_resp_err_t code;
    while ((code = produce_row(r, f, &key, &value)) == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        heartbeat_beat();
        rd_kafka_poll(r->producer, 50);
    }
    heartbeat_beat();
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        r->in_flight++;
    else
        f->result = code;
    buf_free(&key);
    buf_free(&value);
}

static bool mark_sent(struct relay *r, const struct flight *flights, size_t n, struct error *err) {
    int64_t *ids = mem_alloc(n * sizeof *ids), marked = 0;
    const char **event_ids = mem_alloc(n * sizeof *event_ids);
    size_t sent = 0;
    for (size_t i = 0; i < n; i++) {
        if (flights[i].result != RD_KAFKA_RESP_ERR_NO_ERROR)
            continue;
        ids[sent] = flights[i].row->outbox_id;
        event_ids[sent++] = flights[i].row->event_id;
    }
    bool ok = sent == 0 || outbox_mark_sent(r->db, r->owner, ids, event_ids, sent, &marked, err);
    if (ok && marked < (int64_t)sent)
        LOG(LOG_WARN, "outbox_lease_lost", LOG_I("rows", (int64_t)sent - marked));
    fault_at("relay.marked");
    if (ok)
        metrics_add(r->metrics, METRIC_PUBLISHED, 0, marked);
    free(ids);
    free(event_ids);
    return ok;
}

static bool out_of_time(struct relay *r) {
    return clock_monotonic_ms() > atomic_load(&r->give_up_ms);
}

/* Bounded by the message time-out, and by the deadline for stopping. */
static void await_reports(struct relay *r) {
    while (r->in_flight) {
        heartbeat_beat();
        rd_kafka_poll(r->producer, 100);
        if (r->in_flight && out_of_time(r))
            rd_kafka_purge(r->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    }
}

static enum error_action action_of(rd_kafka_resp_err_t code) {
    struct error why = {0};
    kafka_error(code, "publish", NULL, &why);
    return why.action;
}

/* Codes by which a broker refuses a whole produce batch for one of its records. */
static bool refuses_company(rd_kafka_resp_err_t code) {
    return code != RD_KAFKA_RESP_ERR_NO_ERROR &&
           (code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP || action_of(code) == ERROR_REJECT);
}

/* What was refused in company may be fine alone. */
static void produce_refused_alone(struct relay *r, struct flight *flights, size_t n) {
    for (size_t i = 0; n > 1 && i < n; i++) {
        if (!refuses_company(flights[i].result))
            continue;
        flights[i].result = RD_KAFKA_RESP_ERR_NO_ERROR;
        produce(r, &flights[i]);
        await_reports(r);
    }
}

/* Neither the row's fault nor the topic's limit: it may go later, and uses up no try. */
static bool is_outage(struct relay *r, rd_kafka_resp_err_t code) {
    return action_of(code) == ERROR_STOP || code == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT ||
           code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT ||
           code == RD_KAFKA_RESP_ERR__PURGE_QUEUE ||
           rd_kafka_fatal_error(r->producer, NULL, 0) != RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* The broker's answer was no: for good, or once more a try. */
static bool handle_refusal(struct relay *r, const struct flight *f, struct error *db_err) {
    struct error why = {0};
    kafka_error(f->result, "publish", NULL, &why);
    if (why.action == ERROR_REJECT || f->row->retry_count + 1 >= r->cfg->outbox.max_attempts) {
        char trace[TRACE_ID_SIZE];
        LOG(LOG_ERROR, "notification_failed", LOG_I("outbox_id", f->row->outbox_id),
            LOG_I("family_id", f->row->family_id), LOG_S("event_id", f->row->event_id), LOG_E(&why),
            LOG_O("trace_id", trace_id(f->row->traceparent, trace)));
        if (!outbox_mark_failed(r->db, r->owner, f->row->outbox_id, f->row->event_id, why.text, db_err))
            return false;
        metrics_add(r->metrics, METRIC_PUBLISH_FAILED, 0, 1);
        return true;
    }
    retry_count(r->metrics, &why);
    return outbox_release(r->db, r->owner, &f->row->outbox_id, 1, RETRY_AFTER_OUTAGE_MS, true, why.text,
                          db_err);
}

/* Deals with all rows that weren't acknowledged. An outage of all of them is said in `err`, for a pause. */
static bool handle_failures(struct relay *r, const struct flight *flights, size_t n, struct error *err) {
    int64_t *away = mem_alloc(n * sizeof *away);
    size_t away_count = 0;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        if (flights[i].result == RD_KAFKA_RESP_ERR_NO_ERROR)
            continue;
        if (is_outage(r, flights[i].result)) {
            away[away_count++] = flights[i].row->outbox_id;
            code = flights[i].result;
        } else {
            ok = handle_refusal(r, &flights[i], err);
        }
    }
    if (ok && away_count)
        ok = outbox_release(r->db, r->owner, away, away_count, RETRY_AFTER_OUTAGE_MS, false,
                            rd_kafka_err2str(code), err);
    free(away);
    if (!ok || away_count == 0)
        return ok;
    struct error outage = {0};
    kafka_error(code, "publish", r->cfg->kafka.notification_topic, &outage);
    if (away_count == n) {
        *err = outage;
        return false;
    }
    retry_count(r->metrics, &outage);
    return true;
}

static void renew_fatal_producer(struct relay *r) {
    char why[256];
    struct error err = {0};
    rd_kafka_resp_err_t code = rd_kafka_fatal_error(r->producer, why, sizeof why);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    LOG(LOG_WARN, "producer_renewed", LOG_S("reason", why));
    rd_kafka_t *renewed = kafka_producer_new(r->cfg, on_delivery, r, &err);
    if (!renewed)
        return;
    rd_kafka_destroy(r->producer);
    r->producer = renewed;
}

static bool publish(struct relay *r, struct outbox_list *rows, struct error *err) {
    size_t n = 0;
    struct flight *flights = mem_zero(rows->count, sizeof *flights);
    struct outbox_row *row;
    while ((row = outbox_list_pop(rows)))
        flights[n++] = (struct flight){.relay = r, .row = row};
    for (size_t i = 0; i < n; i++)
        produce(r, &flights[i]);
    await_reports(r);
    fault_at("relay.acked");
    produce_refused_alone(r, flights, n);
    bool ok = n == 0 ||
              (db_ensure(r->db, err) && mark_sent(r, flights, n, err) && handle_failures(r, flights, n, err));
    for (size_t i = 0; i < n; i++)
        outbox_row_free(flights[i].row); /* where marking failed the lease runs out and the row goes again */
    free(flights);
    renew_fatal_producer(r);
    return ok;
}

static bool publish_round(struct relay *r, struct error *err) {
    struct firsts f = {0};
    struct outbox_list now = {0};
    if (r->hand.count == 0)
        return true;
    bool ok = db_ensure(r->db, err) && drop_expiring(r, err) && ask_firsts(r, &f, err) &&
              choose(r, &f, &now, err) && publish(r, &now, err);
    outbox_list_free(now.head);
    free(f.families);
    free(f.rows);
    return ok;
}

/* Rows whose lease ran out: of dead processes, after an outage, or given up. A
 * family's later rows come to be free when its first is sent, so as long as a
 * sweep finds rows the next one follows at once. */
static bool sweep(struct relay *r, struct error *err) {
    int64_t now = clock_monotonic_ms();
    if (now < r->next_sweep_ms)
        return true;
    bool busy = false;
    size_t before = r->hand.count;
    if (!db_ensure(r->db, err) || !outbox_claim(r->db, r->cfg, r->owner, ROUND_ROWS, &r->hand, &busy, err))
        return false;
    fault_at("relay.swept");
    bool found = r->hand.count > before;
    r->next_sweep_ms = found ? now : now + r->cfg->outbox.sweep_interval_ms;
    if (found)
        LOG(LOG_DEBUG, "outbox_swept", LOG_I("rows", r->hand.count - before));
    return true;
}

static void pause_after(struct relay *r, const struct error *err) {
    report(r, err);
    heartbeat_beat();
    clock_sleep_ms(r->cfg->retry.interval_ms);
    heartbeat_beat();
    retry_count(r->metrics, err);
}

static bool nothing_left(struct relay *r) {
    pthread_mutex_lock(&r->lock);
    bool nothing = r->queue.count == 0 && r->hand.count == 0;
    pthread_mutex_unlock(&r->lock);
    return nothing;
}

static void *relay_main(void *arg) {
    struct relay *r = arg;
    struct error err = {0};
    pthread_setname_np(pthread_self(), "relay");
    heartbeat_begin("relay", -1);
    kafka_topic_prefetch(r->producer, r->cfg->kafka.notification_topic);
    for (;;) {
        bool stopping = take_rows(r, r->next_sweep_ms);
        if (stopping && nothing_left(r))
            break;
        error_clear(&err);
        if ((stopping || sweep(r, &err)) && publish_round(r, &err))
            continue;
        if (stopping && (err.area == ERROR_KAFKA || out_of_time(r)))
            break; /* the rows wait in the table */
        pause_after(r, &err);
    }
    fault_at("relay.shutdown");
    error_clear(&err);
    if (db_ensure(r->db, &err) && !outbox_release_all(r->db, r->owner, &err))
        report(r, &err);
    heartbeat_end();
    pthread_mutex_lock(&r->lock);
    r->done = true;
    pthread_cond_broadcast(&r->wake);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void relay_free(struct relay *r) {
    outbox_list_free(r->queue.head);
    outbox_list_free(r->hand.head);
    db_free(r->db);
    if (r->producer)
        rd_kafka_destroy(r->producer);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

struct relay *relay_start(const struct config *cfg, int64_t owner, struct metrics *metrics,
                          struct error *err) {
    struct relay *r = mem_zero(1, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    clock_cond_init(&r->wake);
    atomic_init(&r->give_up_ms, INT64_MAX);
    r->cfg = cfg;
    r->owner = owner;
    r->metrics = metrics;
    r->db = db_new(cfg, DB_READ_COMMITTED);
    r->producer = kafka_producer_new(cfg, on_delivery, r, err);
    int rc = r->producer ? pthread_create(&r->thread, NULL, relay_main, r) : 0;
    if (r->producer && rc == 0)
        return r;
    error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, rc, "relay: thread: %s", strerror(rc));
    relay_free(r);
    return NULL;
}

bool relay_join(struct relay *r, int64_t deadline_ms) {
    struct timespec ts = clock_timespec(deadline_ms);
    pthread_mutex_lock(&r->lock);
    while (!r->done && pthread_cond_timedwait(&r->wake, &r->lock, &ts) == 0)
        ;
    bool done = r->done;
    pthread_mutex_unlock(&r->lock);
    if (!done)
        return false;
    pthread_join(r->thread, NULL);
    relay_free(r);
    return true;
}
