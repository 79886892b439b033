/* SPDX-License-Identifier: MIT */
#include "pauses.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "heartbeat.h"
#include "ledger_rows.h"
#include "log.h"
#include "mysql_db.h"
#include "stop.h"

#define LOOK_EVERY_MS 1000
#define ANSWER_MS 3000 /* a look is cheap; and a server that is frozen doesn't hold up the end for long */

struct paused {
    int32_t partition;
    int64_t since_ms;
};

struct pauses {
    /* any thread */
    struct stop stop;
    atomic_llong looked_ms;
    /* shared, under `lock` */
    pthread_mutex_t lock;
    struct paused *set; /* owned */
    size_t count;
    /* the thread's own */
    struct config cfg; /* the daemon's, with shorter time-outs */
    struct db *db;
    int64_t next_report_ms;
    pthread_t thread;
};

/* Returns when to look again. */
static int64_t look(struct pauses *p) {
    struct error err = {0};
    struct ledger_row *rows = NULL;
    size_t n = 0;
    int64_t began = clock_monotonic_ms();
    if (!ledger_rows_paused(p->db, &p->cfg, &rows, &n, &err)) {
        if (began >= p->next_report_ms) {
            LOG(err.action == ERROR_STOP ? LOG_ERROR : LOG_WARN, "pauses_waiting", LOG_E(&err));
            p->next_report_ms = began + p->cfg.retry.report_interval_ms;
        }
        int64_t again_ms = p->cfg.retry.interval_ms;
        return clock_monotonic_ms() + (again_ms < LOOK_EVERY_MS ? again_ms : LOOK_EVERY_MS);
    }
    p->next_report_ms = 0;
    struct paused *set = mem_zero(n, sizeof *set);
    for (size_t i = 0; i < n; i++)
        set[i] = (struct paused){.partition = rows[i].partition, .since_ms = rows[i].paused_since_ms};
    free(rows);
    pthread_mutex_lock(&p->lock);
    free(p->set);
    p->set = set;
    p->count = n;
    pthread_mutex_unlock(&p->lock);
    atomic_store(&p->looked_ms, began);
    return began + LOOK_EVERY_MS;
}

static void *pauses_main(void *arg) {
    struct pauses *p = arg;
    pthread_setname_np(pthread_self(), "pauses");
    heartbeat_begin("pauses", -1);
    while (!stop_asked_by(&p->stop, look(p)))
        ;
    heartbeat_end();
    stop_done(&p->stop);
    return NULL;
}

static void pauses_free(struct pauses *p) {
    db_free(p->db);
    free(p->set);
    stop_deinit(&p->stop);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

struct pauses *pauses_start(const struct config *cfg, struct error *err) {
    struct pauses *p = mem_zero(1, sizeof *p);
    stop_init(&p->stop);
    pthread_mutex_init(&p->lock, NULL);
    atomic_init(&p->looked_ms, 0);
    p->cfg = *cfg;
    db_hurry(&p->cfg, ANSWER_MS);
    p->db = db_new(&p->cfg, DB_READ_COMMITTED);
    int rc = pthread_create(&p->thread, NULL, pauses_main, p);
    if (rc == 0)
        return p;
    error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, rc, "pauses: thread: %s", strerror(rc));
    pauses_free(p);
    return NULL;
}

void pauses_stop(struct pauses *p) {
    if (p)
        stop_ask(&p->stop);
}

bool pauses_join(struct pauses *p, int64_t deadline_ms) {
    if (!p)
        return true;
    if (!stop_wait(&p->stop, deadline_ms))
        return false;
    pthread_join(p->thread, NULL);
    pauses_free(p);
    return true;
}

int64_t pauses_looked_ms(struct pauses *p) {
    return atomic_load(&p->looked_ms);
}

int64_t pauses_since(struct pauses *p, int32_t partition) {
    int64_t since = 0;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->count; i++) {
        if (p->set[i].partition == partition)
            since = p->set[i].since_ms;
    }
    pthread_mutex_unlock(&p->lock);
    return since;
}
