/* SPDX-License-Identifier: MIT */
#include "settler.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "fault.h"
#include "heartbeat.h"
#include "keys.h"
#include "log.h"
#include "retry.h"
#include "tally.h"

#define TOLD_LIMIT 200000 /* alerts remembered, some 60 bytes each */

enum slot_state { SLOT_EMPTY, SLOT_FULL, SLOT_WORKING, SLOT_RETURNED };

struct settler {
    /* shared, under `lock` */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum slot_state state;
    struct batch *batch;
    enum settler_result result;
    struct error refused;
    bool quit;
    void (*wake)(void *ctx); /* NULL: nobody waits elsewhere */
    void *wake_ctx;
    /* any thread */
    atomic_bool abandoned;
    atomic_int closed_before;
    /* the thread's own */
    struct settle settle;
    struct relay *relay;
    struct metrics *metrics;
    struct recent *recent;
    pthread_t thread;
    int64_t next_report_ms;
};

/* Says once a period what is waited for; a fault that keeps somebody up at night says so at once. */
static void report_failure(struct settler *s, const struct error *err) {
    int64_t now = clock_monotonic_ms();
    if (now < s->next_report_ms)
        return;
    s->next_report_ms = now + s->settle.cfg->retry.report_interval_ms;
    LOG(err->action == ERROR_STOP ? LOG_ERROR : LOG_WARN, "settlement_waiting", LOG_E(err));
}

/* Waits before the next try, in steps short enough to notice that it's over. A deadlock is over as soon as
 * it's noticed; one that waited for a lock in vain has waited for long, and somebody should know. */
static void wait_before_retry(struct settler *s, const struct error *err) {
    if (db_error_is_lock(err)) {
        if (db_error_is_lock_wait(err))
            report_failure(s, err);
        clock_sleep_ms(1 + (int64_t)random() % 20);
        return;
    }
    report_failure(s, err);
    for (int64_t left = s->settle.cfg->retry.interval_ms; left > 0 && !atomic_load(&s->abandoned);
         left -= 20) {
        clock_sleep_ms(left < 20 ? left : 20);
        heartbeat_beat();
    }
}

static enum settler_result settle_until_known(struct settler *s, struct batch *b, struct error *err) {
    s->settle.maybe_committed = false;
    s->settle.alerted_count = 0;
    for (;;) {
        if (atomic_load(&b->assignment->lost) || atomic_load(&s->abandoned))
            return SETTLER_DROPPED;
        heartbeat_beat();
        retry_count(s->metrics, err);
        error_clear(err);
        switch (settle_batch(&s->settle, b, err)) {
        case SETTLE_DONE:
            s->next_report_ms = 0;
            return SETTLER_DONE;
        case SETTLE_CAME_BACK:
            metrics_add(s->metrics, METRIC_CAME_BACK, 0, 1);
            return SETTLER_CAME_BACK;
        case SETTLE_REFUSED:
            metrics_add(s->metrics, METRIC_REFUSED, 0, 1);
            return SETTLER_REFUSED;
        case SETTLE_FENCED:
            metrics_add(s->metrics, METRIC_FENCED, 0, 1);
            return SETTLER_FENCED;
        case SETTLE_FAILED:
            wait_before_retry(s, err);
            break;
        }
    }
}

static void count_outcomes(struct settler *s, const struct batch *b) {
    int64_t n[OUTCOME_BLOCKED + 1] = {0};
    tally_batch(s->metrics, s->recent, b, s->settle.alerted, s->settle.alerted_count, clock_wall_ms(), n);
    LOG(LOG_DEBUG, "batch_settled", LOG_I("records", b->count), LOG_I("settled", n[OUTCOME_SETTLED]),
        LOG_I("blocked", n[OUTCOME_BLOCKED]), LOG_I("duplicate", n[OUTCOME_DUPLICATE]),
        LOG_I("rejected", n[OUTCOME_REJECTED]), LOG_I("ignored", n[OUTCOME_IGNORED]));
}

/* Of rejected ones the DLT's writer says so. */
static void log_ends(const struct batch *b) {
    static const char *const names[] = {
        [OUTCOME_SETTLED] = "settled", [OUTCOME_BLOCKED] = "blocked", [OUTCOME_DUPLICATE] = "duplicate"};
    struct buf status = {0};
    for (size_t i = 0; i < b->count; i++) {
        const struct batch_event *e = &b->events[i];
        char trace[TRACE_ID_SIZE];
        if (e->outcome > OUTCOME_BLOCKED || !names[e->outcome])
            continue;
        buf_reset(&status);
        if (e->decided && e->outcome != OUTCOME_DUPLICATE)
            decision_status_name(&status, &e->decision);
        LOG(LOG_DEBUG, "event_ended", LOG_S("outcome", names[e->outcome]),
            LOG_O("status", status.len ? buf_cstr(&status) : NULL), LOG_S("event_id", e->usage.id),
            LOG_I("family_id", e->usage.family_id), LOG_I("customer_id", e->usage.customer_id),
            LOG_I("partition", e->part->id), LOG_I("offset", e->offset),
            LOG_O("trace_id", batch_event_trace_id(e, trace)));
    }
    buf_free(&status);
}

static void work_on(struct settler *s, struct batch *b) {
    struct error err = {0};
    fault_at("settler.taken");
    enum settler_result result = settle_until_known(s, b, &err);
    atomic_store(&s->closed_before, s->settle.closed_before);
    if (result == SETTLER_DONE) {
        count_outcomes(s, b);
        if (log_enabled(LOG_DEBUG))
            log_ends(b);
        fault_at("settler.offer");
        relay_offer(s->relay, &s->settle.born);
    }
    fault_at("settler.returned");
    pthread_mutex_lock(&s->lock);
    s->result = result;
    s->refused = err;
    s->state = SLOT_RETURNED;
    pthread_cond_signal(&s->changed); /* one of the two threads waits here at most */
    if (s->wake)
        s->wake(s->wake_ctx);
    pthread_mutex_unlock(&s->lock);
}

static void *settler_main(void *arg) {
    struct settler *s = arg;
    pthread_setname_np(pthread_self(), "settler");
    heartbeat_begin("settler", -1);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        heartbeat_idle();
        while (s->state != SLOT_FULL && !s->quit)
            pthread_cond_wait(&s->changed, &s->lock);
        if (s->quit)
            break;
        struct batch *b = s->batch;
        heartbeat_beat();
        s->state = SLOT_WORKING;
        pthread_mutex_unlock(&s->lock);
        work_on(s, b);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    heartbeat_end();
    return NULL;
}

static void settler_free(struct settler *s) {
    settle_deinit(&s->settle);
    dlt_free(s->settle.dlt);
    db_free(s->settle.db);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

struct settler *settler_start(const struct config *cfg, const struct messages *messages, struct relay *relay,
                              int64_t lease_owner, struct metrics *metrics, struct recent *recent,
                              struct error *err) {
    struct settler *s = mem_zero(1, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    clock_cond_init(&s->changed);
    atomic_init(&s->abandoned, false);
    atomic_init(&s->closed_before, 0);
    s->relay = relay;
    s->metrics = metrics;
    s->recent = recent;
    s->settle =
        (struct settle){.cfg = cfg, .messages = messages, .metrics = metrics, .lease_owner = lease_owner};
    s->settle.db = db_new(cfg, DB_READ_COMMITTED);
    s->settle.dlt = dlt_new(cfg, metrics);
    seen_init(&s->settle.told, TOLD_LIMIT);
    int rc = pthread_create(&s->thread, NULL, settler_main, s);
    if (rc == 0)
        return s;
    error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, rc, "settler: thread: %s", strerror(rc));
    settler_free(s);
    return NULL;
}

void settler_put(struct settler *s, struct batch *b) {
    pthread_mutex_lock(&s->lock);
    s->batch = b;
    s->state = SLOT_FULL;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

const struct batch *settler_busy_with(const struct settler *s) {
    return s->batch; /* written by the worker alone */
}

bool settler_is_working(struct settler *s) {
    pthread_mutex_lock(&s->lock);
    bool working = s->state == SLOT_FULL || s->state == SLOT_WORKING;
    pthread_mutex_unlock(&s->lock);
    return working;
}

void settler_on_done(struct settler *s, void (*wake)(void *ctx), void *ctx) {
    pthread_mutex_lock(&s->lock);
    s->wake = wake;
    s->wake_ctx = ctx;
    pthread_mutex_unlock(&s->lock);
}

struct batch *settler_take(struct settler *s, int64_t wait_ms, enum settler_result *result,
                           struct error *err) {
    if (!s->batch)
        return NULL;
    int64_t until = clock_monotonic_ms() + wait_ms;
    struct timespec ts = clock_timespec(until);
    pthread_mutex_lock(&s->lock);
    while (s->state != SLOT_RETURNED && pthread_cond_timedwait(&s->changed, &s->lock, &ts) == 0)
        ;
    struct batch *b = NULL;
    if (s->state == SLOT_RETURNED) {
        b = s->batch;
        *result = s->result;
        *err = s->refused;
        s->batch = NULL;
        s->state = SLOT_EMPTY;
    }
    pthread_mutex_unlock(&s->lock);
    return b;
}

int32_t settler_closed_before(const struct settler *s) {
    return atomic_load(&s->closed_before);
}

void settler_new_assignment(struct settler *s, int32_t closed_before) {
    seen_clear(&s->settle.told);
    s->settle.closed_before = closed_before;
    atomic_store(&s->closed_before, closed_before);
}

void settler_abandon(struct settler *s) {
    atomic_store(&s->abandoned, true);
    dlt_abandon(s->settle.dlt);
}

void settler_stop(struct settler *s) {
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->quit = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    settler_free(s);
}
