/* SPDX-License-Identifier: MIT */
#include "worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fault.h"
#include "fill.h"
#include "heartbeat.h"
#include "ledger.h"
#include "log.h"
#include "period.h"
#include "retry.h"
#include "worker_internal.h"

#define CLAIM_POLL_MS 5 /* while partitions are to be claimed */
#define NAP_MS 1
#define NAPS_MS 50 /* a batch that waits for longer has something to wait for: a store that is away */
#define REVOKE_DEADLINE_MS 10000 /* others wait for the partitions meanwhile */
#define CLOSE_DEADLINE_MS 5000
#define WATCH_TIMEOUT_MS 1000

bool worker_out_of_time(const struct worker *w) {
    return atomic_load(&w->stopping) && clock_monotonic_ms() > atomic_load(&w->stop_deadline_ms);
}

void worker_report(struct worker *w, const char *event, const struct error *err) {
    int64_t now = clock_monotonic_ms();
    if (now < w->next_report_ms)
        return;
    w->next_report_ms = now + w->cfg->retry.report_interval_ms;
    LOG(err->action == ERROR_STOP ? LOG_ERROR : LOG_WARN, event, LOG_I("worker", w->number), LOG_E(err));
}

static void set_assignment(struct worker *w, struct assignment *a) {
    pthread_mutex_lock(&w->lock);
    struct assignment *before = w->assignment;
    w->assignment = a;
    pthread_mutex_unlock(&w->lock);
    assignment_unref(before);
}

static void drop_carried(struct worker *w) {
    for (size_t i = 0; i < w->carried_count; i++) {
        if (w->carried[i])
            rd_kafka_message_destroy(w->carried[i]);
    }
    w->carried_count = 0;
}

/* The assignment as a list that says where each partition starts. Stopped parts are left out. */
static rd_kafka_topic_partition_list_t *start_list(const struct worker *w) {
    const struct assignment *a = w->assignment;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)a->count + 1);
    for (size_t i = 0; i < a->count; i++) {
        if (a->parts[i].stopped)
            continue;
        rd_kafka_topic_partition_list_add(list, w->cfg->kafka.usage_topic, a->parts[i].id)->offset =
            a->parts[i].read_from;
    }
    return list;
}

void worker_store_offsets(struct worker *w, struct batch *b) {
    if (atomic_load(&b->assignment->lost) || b->assignment != w->assignment ||
        rd_kafka_assignment_lost(w->consumer))
        return;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)b->span_count + 1);
    for (size_t i = 0; i < b->span_count; i++) {
        struct part *p = b->spans[i].part;
        if (b->spans[i].next <= atomic_load(&p->settled_to))
            continue; /* stored offsets only grow */
        atomic_store(&p->settled_to, b->spans[i].next);
        rd_kafka_topic_partition_list_add(list, w->cfg->kafka.usage_topic, p->id)->offset = b->spans[i].next;
    }
    bool store = list->cnt && fault_at("worker.store").verdict != FAULT_FAIL;
    rd_kafka_resp_err_t code = store ? rd_kafka_offsets_store(w->consumer, list) : RD_KAFKA_RESP_ERR_NO_ERROR;
    for (int i = 0; i < list->cnt; i++) {
        if (list->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR)
            code = list->elems[i].err;
    }
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) /* they're read again, and found to be duplicates */
        LOG(LOG_WARN, "offsets_not_stored", LOG_S("reason", rd_kafka_err2str(code)));
    fault_at("worker.stored");
    rd_kafka_topic_partition_list_destroy(list);
}

static void set_state(struct worker *w, enum worker_state state) {
    pthread_mutex_lock(&w->lock);
    if (w->status.state != state)
        w->status.since_ms = clock_monotonic_ms();
    w->status.state = state;
    w->status.given = w->given_count;
    pthread_mutex_unlock(&w->lock);
}

/* Tells the client to hold these, or to go on with them; it refuses one by one. What it has refused is as it
 * was and is tried again with the next look at the pauses. */
static void tell_holds(struct worker *w, rd_kafka_topic_partition_list_t *list, bool hold) {
    if (list->cnt == 0)
        return;
    rd_kafka_resp_err_t code =
        hold ? rd_kafka_pause_partitions(w->consumer, list) : rd_kafka_resume_partitions(w->consumer, list);
    for (int i = 0; i < list->cnt; i++) {
        rd_kafka_resp_err_t why = code == RD_KAFKA_RESP_ERR_NO_ERROR ? list->elems[i].err : code;
        struct part *p = assignment_part(w->assignment, list->elems[i].partition);
        if (why == RD_KAFKA_RESP_ERR_NO_ERROR || !p)
            continue;
        p->held = !hold;
        w->hold_refused = true;
        LOG(LOG_WARN, "hold_refused", LOG_I("worker", w->number), LOG_I("partition", p->id),
            LOG_B("hold", hold), LOG_S("reason", rd_kafka_err2str(why)));
    }
}

/* There are two reasons to read nothing of a partition: something is waited for, which holds all of them, and
 * an operator. The client knows one pause only and reads old records again when it's told to go on with what
 * wasn't paused: so it's told of what changes alone. `release`: it's to forget all of it. */
static void set_holds(struct worker *w, bool release) {
    struct assignment *a = w->assignment;
    rd_kafka_topic_partition_list_t *hold = rd_kafka_topic_partition_list_new(1),
                                    *go_on = rd_kafka_topic_partition_list_new(1);
    w->hold_refused = false;
    for (size_t i = 0; a && i < a->count; i++) {
        struct part *p = &a->parts[i];
        bool held = !p->stopped && !release && (w->paused || atomic_load(&p->paused_since_ms));
        if (held != p->held)
            rd_kafka_topic_partition_list_add(held ? hold : go_on, w->cfg->kafka.usage_topic, p->id);
        p->held = held;
    }
    tell_holds(w, hold, true);
    if (release)
        rd_kafka_resume_partitions(w->consumer, go_on); /* they may be no more */
    else
        tell_holds(w, go_on, false);
    rd_kafka_topic_partition_list_destroy(hold);
    rd_kafka_topic_partition_list_destroy(go_on);
}

void worker_resume(struct worker *w) {
    if (!w->paused)
        return;
    w->paused = false;
    set_holds(w, false);
}

static void log_paused(const struct worker *w, const struct part *p) {
    char since[PERIOD_LOCAL_SIZE];
    period_format_local(atomic_load(&p->paused_since_ms), since);
    LOG(LOG_INFO, "partition_paused", LOG_I("worker", w->number), LOG_I("partition", p->id),
        LOG_S("since", since), LOG_I("settled_to", atomic_load(&p->settled_to)));
}

/* Takes over what an operator paused or resumed since. What was read of it before is settled as ever. A look
 * at the ledger that began before the claim may be older than what the claim has seen. */
static void take_pauses(struct worker *w) {
    struct assignment *a = w->assignment;
    int64_t looked = a && w->shared.pauses ? pauses_looked_ms(w->shared.pauses) : 0;
    bool changed = w->hold_refused;
    if (looked <= w->pauses_looked_ms)
        return;
    w->pauses_looked_ms = looked;
    for (size_t i = 0; i < a->count; i++) {
        struct part *p = &a->parts[i];
        int64_t since = pauses_since(w->shared.pauses, p->id), before = atomic_load(&p->paused_since_ms);
        if (!since == !before)
            continue;
        changed = true;
        atomic_store(&p->paused_since_ms, since);
        if (since)
            log_paused(w, p);
        else
            LOG(LOG_INFO, "partition_resumed", LOG_I("worker", w->number), LOG_I("partition", p->id),
                LOG_I("settled_to", atomic_load(&p->settled_to)));
    }
    if (changed)
        set_holds(w, false);
}

/* Ends the assignment; `settle_first`: what is in flight may still settle, for a while. */
static void give_up_assignment(struct worker *w, bool settle_first) {
    struct assignment *a = w->assignment;
    enum settler_result result;
    struct error err = {0};
    struct batch *b = NULL;
    if (a && settle_first && settler_busy_with(w->settler))
        b = settler_take(w->settler, REVOKE_DEADLINE_MS, &result, &err);
    if (b && result == SETTLER_DONE) {
        worker_store_offsets(w, b);
        batch_free(b);
        b = NULL;
    }
    /* the pause belongs to the client's handle, not to the assignment: partitions
     * that come back to this worker would never be read again */
    w->paused = false;
    set_holds(w, true);
    if (a)
        atomic_store(&a->lost, true);
    set_assignment(w, NULL);
    if (b)
        pipeline_drop(w, b);
    drop_carried(w);
    w->to_open = false;
    w->given_count = 0;
    set_state(w, WORKER_JOINING);
}

static void on_assign(struct worker *w, const rd_kafka_topic_partition_list_t *parts) {
    fault_at("worker.assign");
    give_up_assignment(w, false);
    w->given = mem_realloc(w->given, (size_t)parts->cnt * sizeof *w->given);
    for (int i = 0; i < parts->cnt; i++)
        w->given[w->given_count++] = parts->elems[i].partition;
    w->to_open = w->given_count > 0;
    w->next_open_ms = 0;
    set_state(w, w->to_open ? WORKER_CLAIMING : WORKER_IDLE);
    metrics_add(w->shared.metrics, METRIC_REBALANCES, METRIC_REBALANCE_ASSIGNED, 1);
    LOG(LOG_INFO, "partitions_assigned", LOG_I("worker", w->number), LOG_I("partitions", w->given_count));
}

/* Runs inside the worker's own poll. Nothing is read before the ledger was
 * claimed, which may take a while: an empty assignment holds the place. */
static void on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code, rd_kafka_topic_partition_list_t *parts,
                         void *opaque) {
    struct worker *w = opaque;
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        on_assign(w, parts);
        rd_kafka_topic_partition_list_t *none = rd_kafka_topic_partition_list_new(1);
        rd_kafka_assign(rk, none);
        rd_kafka_topic_partition_list_destroy(none);
        return;
    }
    bool lost = rd_kafka_assignment_lost(rk);
    fault_at("worker.revoke");
    metrics_add(w->shared.metrics, METRIC_REBALANCES, lost ? METRIC_REBALANCE_LOST : METRIC_REBALANCE_REVOKED,
                1);
    LOG(lost ? LOG_WARN : LOG_INFO, "partitions_revoked", LOG_I("worker", w->number),
        LOG_I("partitions", parts ? parts->cnt : 0), LOG_B("lost", lost));
    give_up_assignment(w, code == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS && !lost);
    rd_kafka_assign(rk, NULL);
    fault_at("worker.revoked");
}

void worker_rejoin(struct worker *w) {
    give_up_assignment(w, false);
    rd_kafka_unsubscribe(w->consumer);
    if (atomic_load(&w->stopping)) /* a client that is closed while it joins aborts the process */
        return;
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, w->cfg->kafka.usage_topic, RD_KAFKA_PARTITION_UA);
    rd_kafka_subscribe(w->consumer, topics);
    rd_kafka_topic_partition_list_destroy(topics);
}

/* What is read may not be what the ledger counts any more: claims the partitions anew, which looks at both.
 */
static void claim_again(struct worker *w) {
    size_t given = w->given_count;
    give_up_assignment(w, false);
    w->given_count = given;
    w->to_open = given > 0;
    w->next_open_ms = clock_monotonic_ms() + w->cfg->retry.interval_ms;
    set_state(w, w->to_open ? WORKER_CLAIMING : WORKER_IDLE);
    rd_kafka_topic_partition_list_t *none = rd_kafka_topic_partition_list_new(1);
    rd_kafka_assign(w->consumer, none);
    rd_kafka_topic_partition_list_destroy(none);
}

/* What Kafka holds may lie above the ledger: it's of a topic before this one, or of a time after the one that
 * the database was restored to. The client would commit nothing until the offsets settled have passed it. */
static void commit_starts(struct worker *w) {
    const struct assignment *a = w->assignment;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    for (size_t i = 0; i < a->count; i++) {
        if (a->parts[i].commit_start && !a->parts[i].stopped)
            rd_kafka_topic_partition_list_add(list, w->cfg->kafka.usage_topic, a->parts[i].id)->offset =
                a->parts[i].position;
    }
    if (list->cnt)
        rd_kafka_commit(w->consumer, list, true);
    rd_kafka_topic_partition_list_destroy(list);
}

/* Before anything is polled, so that nothing of what is paused is read. */
static void start_paused(struct worker *w) {
    const struct assignment *a = w->assignment;
    set_holds(w, false);
    for (size_t i = 0; i < a->count; i++) {
        if (a->parts[i].held)
            log_paused(w, &a->parts[i]);
    }
}

/* Claims the partitions given in the ledger and starts reading them. */
static void open_assignment(struct worker *w) {
    int64_t now = clock_monotonic_ms();
    struct error err = {0};
    if (!w->to_open || now < w->next_open_ms || settler_busy_with(w->settler))
        return;
    int32_t closed_before = 0;
    struct assignment *a = NULL;
    if (rd_kafka_assignment_lost(w->consumer))
        return; /* the poll that follows takes it away */
    fault_at("worker.claim");
    if (ledger_floor(w->db, &closed_before, &err))
        a = ledger_claim(w->db, w->consumer, w->cfg, w->given, w->given_count, &err);
    if (!a) {
        worker_report(w, "claim_waiting", &err);
        retry_count(w->shared.metrics, &err);
        w->next_open_ms = now + w->cfg->retry.interval_ms;
        return;
    }
    fault_at("worker.claimed");
    settler_new_assignment(w->settler, closed_before);
    set_assignment(w, a);
    w->pauses_looked_ms = a->read_ms;
    w->to_open = false;
    rd_kafka_topic_partition_list_t *list = start_list(w);
    rd_kafka_resp_err_t code = rd_kafka_assign(w->consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        kafka_error(code, "assign", NULL, &err);
        worker_report(w, "claim_waiting", &err);
        worker_rejoin(w);
        return;
    }
    start_paused(w);
    set_state(w, WORKER_READING);
    commit_starts(w);
}

static void put_off_watch(struct worker *w) {
    w->next_watch_ms = clock_monotonic_ms() + w->cfg->retry.report_interval_ms;
}

/* Records came: once for many of them, a look at the clock has its price. */
static void note_heard(struct worker *w) {
    if (w->heard)
        put_off_watch(w);
    w->heard = false;
}

static rd_kafka_message_t *poll_consumer(struct worker *w, int timeout_ms) {
    fault_at("worker.poll");
    rd_kafka_message_t *m = rd_kafka_consumer_poll(w->consumer, timeout_ms);
    w->heard = w->heard || (m && m->err == RD_KAFKA_RESP_ERR_NO_ERROR);
    return m;
}

/* A client that reaches no broker says so once and then only returns nothing, as it does when there is
 * nothing: so a silence that lasts a period is looked into, and what is waited for is said. Who was refused
 * joins again when it isn't any more: the client would look for the topic some minutes later. */
static void watch(struct worker *w) {
    struct error err = {0};
    size_t n;
    if (w->to_open || clock_monotonic_ms() < w->next_watch_ms)
        return;
    int32_t *ids = kafka_topic_partitions(w->consumer, w->cfg->kafka.usage_topic, WATCH_TIMEOUT_MS, &n, &err);
    put_off_watch(w);
    if (!ids) {
        worker_report(w, "consume_waiting", &err);
        w->kafka_away = true;
        w->kafka_refuses = err.action == ERROR_STOP;
        return;
    }
    free(ids);
    if (w->kafka_away)
        LOG(LOG_INFO, "consume_goes_on", LOG_I("worker", w->number));
    if (w->kafka_refuses && !w->assignment)
        worker_rejoin(w);
    w->kafka_away = w->kafka_refuses = false;
}

static void carry(struct worker *w, rd_kafka_message_t *m) {
    if (w->carried_count == w->carried_capacity) {
        w->carried_capacity = w->carried_capacity ? w->carried_capacity * 2 : 16;
        w->carried = mem_realloc(w->carried, w->carried_capacity * sizeof *w->carried);
    }
    w->carried[w->carried_count++] = m;
}

void worker_keep_alive(struct worker *w, int64_t ms) {
    int64_t until = clock_monotonic_ms() + ms;
    do {
        heartbeat_beat();
        take_pauses(w);
        if (w->assignment && !w->paused) {
            w->paused = true;
            set_holds(w, false);
        }
        int64_t left = until - clock_monotonic_ms();
        rd_kafka_message_t *m = poll_consumer(w, left <= 0 ? 0 : left < 50 ? (int)left : 50);
        if (m)
            carry(w, m); /* under way when it was paused */
        note_heard(w);
    } while (clock_monotonic_ms() < until && !worker_out_of_time(w));
}

static rd_kafka_message_t *next_message(struct worker *w, size_t *taken, int timeout_ms) {
    if (*taken < w->carried_count) {
        rd_kafka_message_t *m = w->carried[*taken];
        w->carried[(*taken)++] = NULL; /* handling it may drop the rest */
        return m;
    }
    if (w->carried_count)
        w->carried_count = *taken = 0;
    return poll_consumer(w, timeout_ms);
}

static bool key_is_family(const rd_kafka_message_t *m, int64_t family) {
    char digits[24] = "";
    struct buf b = {.data = digits, .cap = sizeof digits};
    buf_i64(&b, family);
    return m->key_len == b.len && memcmp(m->key, digits, b.len) == 0;
}

/* Something other than a record. */
static void handle_event(struct worker *w, struct batch *b, const rd_kafka_message_t *m) {
    struct part *p = w->assignment && m->rkt ? assignment_part(w->assignment, m->partition) : NULL;
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        if (p && b && !p->stopped && m->offset > p->position)
            batch_advance(b, p, m->offset); /* what lies before the end and isn't a record */
        return;
    }
    struct error err = {0};
    kafka_error(m->err, "consume", rd_kafka_message_errstr(m), &err);
    if (p && (m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
              m->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)) {
        LOG(LOG_WARN, "log_changed", LOG_S("topic", w->cfg->kafka.usage_topic), LOG_I("partition", p->id),
            LOG_I("position", p->position), LOG_E(&err));
        claim_again(w);
        return;
    }
    worker_report(w, "consume_failed", &err);
}

/* Takes over the message. */
static void take_message(struct worker *w, struct batch *b, rd_kafka_message_t *m,
                         const struct event_limits *limits) {
    struct part *p =
        m->err == RD_KAFKA_RESP_ERR_NO_ERROR ? assignment_part(b->assignment, m->partition) : NULL;
    if (!p || m->offset < p->position || p->stopped) {
        if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            handle_event(w, b, m);
        rd_kafka_message_destroy(m);
        return;
    }
    batch_add(b, p, m, limits);
    const struct batch_event *e = &b->events[b->count - 1];
    if (e->parsed && !key_is_family(m, e->usage.family_id))
        metrics_add(w->shared.metrics, METRIC_MISPLACED_KEY, 0, 1);
}

static bool is_full(const struct worker *w, const struct batch *b) {
    return (int64_t)b->count >= w->cfg->batch.max_events || (int64_t)b->bytes >= w->cfg->batch.max_bytes;
}

/* How long to wait for the batch's next record. */
static int wait_for_next(struct worker *w, const struct batch *b, int64_t since_ms) {
    bool working = settler_is_working(w->settler);
    const struct fill f = {
        .any = b->count > 0,
        .stopping = atomic_load(&w->stopping),
        .settling = working,
        .settled = !working && settler_busy_with(w->settler),
        .for_ms = clock_monotonic_ms() - since_ms,
        .linger_ms = w->cfg->batch.linger_ms,
    };
    return fill_wait_ms(&f);
}

/* In a stream each record would end the poll. So a batch that waits for more sleeps, and then takes what has
 * come; not for long, the settler's return can't end it. Returns how long is left for the poll to wait. */
static int nap(const struct batch *b, int wait_ms, int64_t waited_ms) {
    if (b->count == 0 || waited_ms > NAPS_MS)
        return wait_ms;
    clock_sleep_ms(NAP_MS);
    return 0;
}

/* Takes records until the batch is full, or full enough when there is none at hand. False: a rebalance
 * ran inside the poll, or the group was left. */
static bool take_records(struct worker *w, struct batch *b) {
    const struct event_limits limits = event_limits_of(w->cfg, settler_closed_before(w->settler));
    int64_t since = clock_monotonic_ms();
    size_t taken = 0;
    int wait = 0;
    do {
        bool first = b->count == 0;
        rd_kafka_message_t *m = next_message(w, &taken, wait);
        bool some = m != NULL;
        if (m && w->assignment == b->assignment)
            take_message(w, b, m, &limits);
        else if (m)
            rd_kafka_message_destroy(m);
        if (w->assignment != b->assignment)
            return false;
        if (first && b->count)
            since = clock_monotonic_ms();
        if (!some) {
            note_heard(w);
            heartbeat_beat(); /* a batch grows for as long as the one before is being settled */
        }
        wait = some ? 0 : wait_for_next(w, b, since);
        if (!some && !wait)
            break;
        if (wait)
            wait = nap(b, wait, clock_monotonic_ms() - since);
    } while (!is_full(w, b));
    /* carried messages that didn't fit stay, in order */
    if (taken) {
        memmove(w->carried, w->carried + taken, (w->carried_count - taken) * sizeof *w->carried);
        w->carried_count -= taken;
    }
    return true;
}

/* Reads a batch. NULL when there was nothing, or the assignment was lost meanwhile. */
static struct batch *fill(struct worker *w) {
    struct batch *b = batch_take(&w->batches, w->assignment);
    bool ours = take_records(w, b);
    note_heard(w);
    if (ours && b->span_count)
        return b;
    batch_free(b);
    return NULL;
}

static void poll_unassigned(struct worker *w) {
    rd_kafka_message_t *m = poll_consumer(w, w->to_open ? CLAIM_POLL_MS : FILL_IDLE_MS);
    note_heard(w);
    if (!m)
        return;
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        handle_event(w, NULL, m);
    rd_kafka_message_destroy(m);
}

static void work(struct worker *w) {
    while (!atomic_load(&w->stopping)) {
        heartbeat_beat();
        bool free_slot = pipeline_collect(w, 0);
        if (w->to_open && !free_slot) {
            pipeline_drain(w);
            continue;
        }
        open_assignment(w);
        watch(w);
        if (!w->assignment) {
            poll_unassigned(w);
            continue;
        }
        take_pauses(w);
        worker_resume(w);
        struct batch *b = fill(w);
        if (b)
            pipeline_process(w, b);
    }
    pipeline_drain(w);
}

/* The settler may be at work for longer than the consumer is there. */
static void forget_queue(struct worker *w) {
    settler_on_done(w->settler, NULL, NULL);
    if (w->polled)
        rd_kafka_queue_destroy(w->polled);
    w->polled = NULL;
}

/* Ends the poll that waits, or the next one: whoever polled without time looks at the settler before waiting.
 */
static void end_poll(void *polled) {
    rd_kafka_queue_yield(polled);
}

static void close_consumer(struct worker *w) {
    fault_at("worker.shutdown");
    give_up_assignment(w, true);
    forget_queue(w);
    int64_t left = atomic_load(&w->close_deadline_ms) - clock_monotonic_ms();
    if (w->consumer)
        kafka_consumer_close(w->consumer, left < CLOSE_DEADLINE_MS ? left : CLOSE_DEADLINE_MS);
    fault_at("worker.closed");
    w->consumer = NULL;
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    put_off_watch(w);
    pthread_setname_np(pthread_self(), "worker");
    heartbeat_begin("worker", w->number);
    work(w);
    close_consumer(w);
    heartbeat_end();
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void worker_free(struct worker *w) {
    if (w->settler)
        forget_queue(w);
    settler_stop(w->settler);
    if (w->consumer)
        rd_kafka_destroy(w->consumer);
    decider_free(w->decider);
    warmer_free(w->warmer);
    redis_free(w->redis);
    db_free(w->db);
    assignment_unref(w->assignment);
    batch_pool_free(&w->batches);
    free(w->given);
    free(w->carried);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static bool worker_make(struct worker *w, struct error *err) {
    const struct worker_shared *s = &w->shared;
    w->redis = redis_new(w->cfg);
    w->db = db_new(w->cfg, DB_REPEATABLE_READ);
    w->decider = decider_new(w->cfg, w->redis);
    w->warmer = warmer_new(w->cfg, w->db, w->redis);
    w->settler = settler_start(w->cfg, s->messages, s->relay, s->lease_owner, s->metrics, s->recent, err);
    if (!w->settler)
        return false;
    w->consumer = kafka_consumer_new(w->cfg, on_rebalance, w, err);
    if (!w->consumer)
        return false;
    w->polled = rd_kafka_queue_get_consumer(w->consumer);
    settler_on_done(w->settler, end_poll, w->polled);
    worker_rejoin(w);
    int rc = pthread_create(&w->thread, NULL, worker_main, w);
    return rc == 0 ||
           error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, rc, "worker: thread: %s", strerror(rc));
}

struct worker *worker_start(const struct worker_shared *shared, int number, struct error *err) {
    struct worker *w = mem_zero(1, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    clock_cond_init(&w->changed);
    atomic_init(&w->stopping, false);
    atomic_init(&w->stop_deadline_ms, 0);
    atomic_init(&w->close_deadline_ms, INT64_MAX);
    w->shared = *shared;
    w->cfg = shared->cfg;
    w->number = number;
    w->status.since_ms = clock_monotonic_ms();
    if (worker_make(w, err))
        return w;
    worker_free(w);
    return NULL;
}

void worker_stop(struct worker *w, int64_t settle_until_ms, int64_t close_until_ms) {
    atomic_store(&w->close_deadline_ms, close_until_ms);
    atomic_store(&w->stop_deadline_ms, settle_until_ms);
    atomic_store(&w->stopping, true);
}

bool worker_join(struct worker *w, int64_t deadline_ms) {
    struct timespec ts = clock_timespec(deadline_ms);
    pthread_mutex_lock(&w->lock);
    while (!w->done && pthread_cond_timedwait(&w->changed, &w->lock, &ts) == 0)
        ;
    bool done = w->done;
    pthread_mutex_unlock(&w->lock);
    if (!done)
        return false;
    pthread_join(w->thread, NULL);
    worker_free(w);
    return true;
}

int64_t worker_settled_to(struct worker *w, int32_t partition) {
    pthread_mutex_lock(&w->lock);
    struct part *p = w->assignment ? assignment_part(w->assignment, partition) : NULL;
    int64_t to = p ? atomic_load(&p->settled_to) : -1;
    pthread_mutex_unlock(&w->lock);
    return to;
}

size_t worker_partitions(struct worker *w, struct worker_status *status, struct worker_partition *out,
                         size_t max) {
    pthread_mutex_lock(&w->lock);
    /* between the claim and the client's start they aren't open yet */
    struct assignment *a = w->status.state == WORKER_READING ? w->assignment : NULL;
    size_t n = a ? a->count : 0;
    if (status) {
        *status = w->status;
        if (!a && status->state == WORKER_READING)
            status->state = WORKER_JOINING; /* it's being given up */
    }
    for (size_t i = 0; i < n && i < max; i++) {
        struct part *p = &a->parts[i];
        out[i] = (struct worker_partition){.id = p->id,
                                           .settled_to = atomic_load(&p->settled_to),
                                           .paused_since_ms = atomic_load(&p->paused_since_ms),
                                           .stopped = p->stopped};
    }
    pthread_mutex_unlock(&w->lock);
    return n;
}

const char *worker_state_name(enum worker_state state) {
    static const char *const names[] = {"joining", "idle", "claiming", "reading"};
    return names[state];
}
