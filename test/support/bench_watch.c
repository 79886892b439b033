/* SPDX-License-Identifier: MIT */
#include "bench_watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "mysql_db.h"

/* What was seen of one partition. */
struct seen_part {
    int32_t id;
    struct sight {
        int64_t next, at_ns;
    } * sights; /* ascending */
    size_t count, capacity;
};

struct bench_watch {
    /* any thread */
    atomic_bool stopping;
    /* shared, under `lock` */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct seen_part *parts;
    size_t count;
    struct error failure;
    /* the thread's own */
    struct db *db;
    struct buf sql;
    int64_t period_ns;
    pthread_t thread;
};

static struct seen_part *find_part(const struct bench_watch *w, int32_t id) {
    for (size_t i = 0; i < w->count; i++) {
        if (w->parts[i].id == id)
            return &w->parts[i];
    }
    return NULL;
}

static void note(struct bench_watch *w, int32_t id, int64_t next, int64_t at_ns) {
    struct seen_part *p = find_part(w, id);
    if (!p) {
        w->parts = mem_realloc(w->parts, (w->count + 1) * sizeof *w->parts);
        p = &w->parts[w->count++];
        *p = (struct seen_part){.id = id};
    }
    if (p->count && p->sights[p->count - 1].next >= next)
        return;
    if (p->count == p->capacity) {
        p->capacity = p->capacity ? p->capacity * 2 : 256;
        p->sights = mem_realloc(p->sights, p->capacity * sizeof *p->sights);
    }
    p->sights[p->count++] = (struct sight){.next = next, .at_ns = at_ns};
    pthread_cond_broadcast(&w->changed);
}

static bool look(struct bench_watch *w, struct error *err) {
    struct db_rows rows;
    if (!db_query(w->db, &w->sql, &rows, err))
        return false;
    int64_t now = bench_clock_ns();
    pthread_mutex_lock(&w->lock);
    while (db_next(&rows))
        note(w, (int32_t)db_i64(&rows, 0, -1), db_i64(&rows, 1, 0), now);
    pthread_mutex_unlock(&w->lock);
    db_rows_free(&rows);
    return true;
}

static void *watch_main(void *arg) {
    struct bench_watch *w = arg;
    struct error err = {0};
    while (!atomic_load(&w->stopping) && look(w, &err))
        bench_sleep_until_ns(bench_clock_ns() + w->period_ns);
    pthread_mutex_lock(&w->lock);
    w->failure = err;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void watch_free(struct bench_watch *w) {
    for (size_t i = 0; i < w->count; i++)
        free(w->parts[i].sights);
    free(w->parts);
    buf_free(&w->sql);
    db_free(w->db);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

struct bench_watch *bench_watch_start(const struct config *cfg, int64_t period_ns, struct error *err) {
    struct bench_watch *w = mem_zero(1, sizeof *w);
    atomic_init(&w->stopping, false);
    pthread_mutex_init(&w->lock, NULL);
    clock_cond_init(&w->changed);
    w->period_ns = period_ns;
    w->db = db_new(cfg, DB_READ_COMMITTED);
    if (!db_ensure(w->db, err)) {
        watch_free(w);
        return NULL;
    }
    buf_str(&w->sql, "SELECT partition_id, next_offset FROM consumer_ledger WHERE group_id = ");
    db_quote(w->db, &w->sql, cfg->kafka.group_id, strlen(cfg->kafka.group_id));
    buf_str(&w->sql, " AND topic = ");
    db_quote(w->db, &w->sql, cfg->kafka.usage_topic, strlen(cfg->kafka.usage_topic));
    if (pthread_create(&w->thread, NULL, watch_main, w) == 0)
        return w;
    bench_error(err, "there is no thread to be had");
    watch_free(w);
    return NULL;
}

static int64_t settled_to(const struct bench_watch *w, int32_t partition) {
    const struct seen_part *p = find_part(w, partition);
    return p ? p->sights[p->count - 1].next : -1;
}

bool bench_watch_await(struct bench_watch *w, int32_t partition, int64_t next, int64_t deadline_ms,
                       struct error *err) {
    struct timespec until = clock_timespec(deadline_ms);
    pthread_mutex_lock(&w->lock);
    while (settled_to(w, partition) < next && w->failure.area == ERROR_NONE &&
           pthread_cond_timedwait(&w->changed, &w->lock, &until) == 0)
        ;
    int64_t found = settled_to(w, partition);
    bool failed = w->failure.area != ERROR_NONE;
    if (found < next && failed)
        *err = w->failure;
    pthread_mutex_unlock(&w->lock);
    if (found >= next || failed)
        return found >= next;
    return bench_error(err, "partition %d isn't settled in time: up to %lld of %lld (does tallyd run?)",
                       partition, (long long)found, (long long)next);
}

int64_t bench_watch_settled_ns(struct bench_watch *w, int32_t partition, int64_t offset) {
    int64_t at = -1;
    pthread_mutex_lock(&w->lock);
    const struct seen_part *p = find_part(w, partition);
    size_t lo = 0, hi = p ? p->count : 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (p->sights[mid].next <= offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (p && lo < p->count)
        at = p->sights[lo].at_ns;
    pthread_mutex_unlock(&w->lock);
    return at;
}

void bench_watch_stop(struct bench_watch *w) {
    if (!w)
        return;
    atomic_store(&w->stopping, true);
    pthread_join(w->thread, NULL);
    watch_free(w);
}
