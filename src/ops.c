/* SPDX-License-Identifier: MIT */
#include "ops.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "fault.h"
#include "log.h"
#include "maintain.h"
#include "mysql_db.h"
#include "stop.h"

/* What the end of the process must not wait for when MySQL hangs. */
#define ANSWER_MS 10000

struct ops {
    struct stop stop; /* any thread */
    /* the thread's own */
    struct config cfg; /* borrows everything */
    struct db *db;
    struct metrics *metrics; /* borrowed */
    pthread_t thread;
    int64_t next_report_ms;
};

/* False when the process ends. */
static bool ops_pause(void *ctx, int64_t ms) {
    struct ops *o = ctx;
    return !stop_asked_by(&o->stop, clock_monotonic_ms() + ms);
}

static void report(struct ops *o, const struct error *err) {
    int64_t now = clock_monotonic_ms();
    if (now < o->next_report_ms)
        return;
    o->next_report_ms = now + o->cfg.retry.report_interval_ms;
    LOG(LOG_WARN, "maintenance_waiting", LOG_E(err));
}

static void tell(const struct maintain_report *r, int64_t took_ms) {
    bool some =
        r->sent_rows || r->record_rows || r->block_rows || r->floor > r->floor_before || maintain_held_by(r);
    if (!r->busy)
        LOG(some ? LOG_INFO : LOG_DEBUG, "maintained", LOG_I("outbox_rows", r->sent_rows),
            LOG_I("usage_record_rows", r->record_rows), LOG_I("usage_block_rows", r->block_rows),
            LOG_I("closed_before", r->floor), LOG_B("months_closed", r->floor > r->floor_before),
            LOG_O("held_by", maintain_held_by(r)), LOG_B("stopped", r->stopped), LOG_I("took_ms", took_ms));
}

/* After an error soon again, with what was in the way perhaps gone. */
static int64_t maintain(struct ops *o) {
    struct error err = {0};
    struct maintain_report r;
    int64_t since = clock_monotonic_ms();
    bool ok = maintain_run(o->db, &o->cfg, false, ops_pause, o, &r, &err);
    metrics_add(o->metrics, METRIC_MAINTAINED, METRIC_MAINTAINED_OUTBOX, r.sent_rows);
    metrics_add(o->metrics, METRIC_MAINTAINED, METRIC_MAINTAINED_RECORD, r.record_rows);
    metrics_add(o->metrics, METRIC_MAINTAINED, METRIC_MAINTAINED_BLOCK, r.block_rows);
    if (ok || r.sent_rows || r.record_rows || r.block_rows || r.floor > r.floor_before)
        tell(&r, clock_monotonic_ms() - since);
    if (!ok)
        report(o, &err);
    db_close(o->db); /* the next time is far away */
    maintain_report_free(&r);
    int64_t soon = o->cfg.retry.report_interval_ms;
    return ok || soon > o->cfg.maintain.interval_ms ? o->cfg.maintain.interval_ms : soon;
}

static void *ops_main(void *arg) {
    struct ops *o = arg;
    pthread_setname_np(pthread_self(), "ops");
    while (ops_pause(o, 0) && ops_pause(o, maintain(o)))
        ;
    fault_at("ops.shutdown");
    stop_done(&o->stop);
    return NULL;
}

static void ops_free(struct ops *o) {
    db_free(o->db);
    stop_deinit(&o->stop);
    free(o);
}

struct ops *ops_start(const struct config *cfg, struct metrics *metrics, struct error *err) {
    struct ops *o = mem_zero(1, sizeof *o);
    stop_init(&o->stop);
    o->cfg = *cfg;
    o->metrics = metrics;
    db_hurry(&o->cfg, ANSWER_MS);
    o->db = db_new(&o->cfg, DB_READ_COMMITTED);
    int rc = pthread_create(&o->thread, NULL, ops_main, o);
    if (rc == 0)
        return o;
    error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, rc, "ops: thread: %s", strerror(rc));
    ops_free(o);
    return NULL;
}

void ops_stop(struct ops *o) {
    stop_ask(&o->stop);
}

bool ops_join(struct ops *o, int64_t deadline_ms) {
    if (!stop_wait(&o->stop, deadline_ms))
        return false;
    pthread_join(o->thread, NULL);
    ops_free(o);
    return true;
}
