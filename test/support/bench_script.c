/* SPDX-License-Identifier: MIT */
/* The decision script alone, pipelined as a worker runs it: records are read
 * and their families warmed beforehand, a slice at a time. */
#include <stdlib.h>
#include <time.h>

#include "bench_meter.h"
#include "bench_topic.h"
#include "buf.h"
#include "decide.h"
#include "ledger.h"
#include "warm.h"

#define SLICE_RECORDS 50000 /* some 60 MiB */

struct scripting {
    struct bench_topic topic;
    struct assignment *assignment;
    struct bench_slice slice;
    struct db *db;
    struct redis *redis;
    struct warmer *warmer;
    struct decider *decider;
    struct bench_set warm; /* families' months: a later warming would take back what was decided */
    struct bench_meter meter;
    int64_t allowed, blocked, repeats, undecided, left_out;
};

/* A batch's events for the script, and what it answered. */
struct job {
    size_t *indexes;
    enum decide_answer *answers;
    size_t count;
};

/* Ends what MySQL has no place for, and warms each family's month when it comes for the first time. */
static bool make_ready(struct scripting *s, struct batch *b, struct error *err) {
    for (size_t i = 0; i < b->group_count; i++)
        b->groups[i].suspect = true;
    if (!warmer_weed_out(s->warmer, b, err))
        return false;
    do {
        for (size_t i = 0; i < b->group_count; i++) {
            struct family_group *g = &b->groups[i];
            const int64_t key[2] = {g->family_id, g->month};
            g->dirty = bench_set_add(&s->warm, bench_hash(key, sizeof key));
        }
        if (!warmer_warm(s->warmer, b, (int64_t)time(NULL), err))
            return false;
    } while (batch_any_dirty(b));
    return true;
}

static struct job job_new(struct scripting *s, struct batch *b) {
    struct job job = {.indexes = mem_alloc(b->count * sizeof *job.indexes),
                      .answers = mem_alloc(b->count * sizeof *job.answers)};
    for (size_t i = 0; i < b->count; i++) {
        struct batch_event *e = &b->events[i];
        e->looked_up = true; /* an entry of an earlier run doesn't count */
        if (batch_event_live(e))
            job.indexes[job.count++] = i;
    }
    s->left_out += (int64_t)(b->count - job.count);
    return job;
}

static void count_answers(struct scripting *s, const struct batch *b, const struct job *job) {
    for (size_t i = 0; i < job->count; i++) {
        const struct decision *d = &b->events[job->indexes[i]].decision;
        if (job->answers[i] != DECIDE_DONE)
            s->undecided++;
        else if (d->duplicate)
            s->repeats++;
        else if (d->allowed)
            s->allowed++;
        else
            s->blocked++;
    }
}

static bool run_jobs(struct scripting *s, struct job *jobs, struct error *err) {
    if (!bench_meter_start(&s->meter, err))
        return false;
    for (size_t i = 0; i < s->slice.count; i++) {
        if (!decider_run(s->decider, s->slice.batches[i], jobs[i].indexes, jobs[i].count, (int64_t)time(NULL),
                         jobs[i].answers, err))
            return false;
    }
    return bench_meter_stop(&s->meter, err);
}

static bool run_slice(struct scripting *s, struct error *err) {
    struct job *jobs = mem_zero(s->slice.count, sizeof *jobs);
    bool ok = true;
    for (size_t i = 0; ok && i < s->slice.count; i++) {
        ok = make_ready(s, s->slice.batches[i], err);
        jobs[i] = job_new(s, s->slice.batches[i]);
    }
    ok = ok && run_jobs(s, jobs, err);
    for (size_t i = 0; i < s->slice.count; i++) {
        if (ok)
            count_answers(s, s->slice.batches[i], &jobs[i]);
        free(jobs[i].indexes);
        free(jobs[i].answers);
    }
    free(jobs);
    return ok;
}

static bool run_all(struct scripting *s, const struct bench_options *o, struct error *err) {
    int32_t closed_before;
    int64_t left = o->count ? o->count : INT64_MAX;
    if (!redis_ensure(s->redis, err) || !ledger_floor(s->db, &closed_before, err))
        return false;
    const struct event_limits limits = event_limits_of(s->topic.cfg, closed_before);
    do {
        bench_slice_clear(&s->slice);
        if (!bench_slice_read(&s->slice, &s->topic, s->assignment, &limits, SLICE_RECORDS, &left, NULL, NULL,
                              err) ||
            !run_slice(s, err))
            return false;
    } while (s->slice.count);
    return s->allowed + s->blocked > 0 ||
           bench_error(err, "none of %lld records could be decided: the families must be in the database",
                       (long long)(s->repeats + s->undecided + s->left_out));
}

static json_t *result_of(const struct scripting *s) {
    json_t *o = bench_meter_json(&s->meter, s->allowed + s->blocked + s->repeats + s->undecided);
    json_object_set_new(o, "allowed", json_integer(s->allowed));
    json_object_set_new(o, "blocked", json_integer(s->blocked));
    json_object_set_new(o, "repeats", json_integer(s->repeats));
    json_object_set_new(o, "undecided", json_integer(s->undecided));
    json_object_set_new(o, "leftOut", json_integer(s->left_out));
    return o;
}

json_t *bench_script(struct config *cfg, const struct bench_options *o, struct error *err) {
    struct scripting s = {.meter = {.options = o}};
    json_t *result = NULL;
    bench_own_group(cfg);
    s.db = db_new(cfg, DB_REPEATABLE_READ);
    s.redis = redis_new(cfg);
    s.warmer = warmer_new(cfg, s.db, s.redis);
    s.decider = decider_new(cfg, s.redis);
    if (bench_topic_open(&s.topic, cfg, err)) {
        s.assignment = bench_topic_assignment(&s.topic);
        if (run_all(&s, o, err))
            result = result_of(&s);
        bench_slice_free(&s.slice);
        assignment_unref(s.assignment);
    }
    bench_topic_close(&s.topic);
    bench_set_free(&s.warm);
    decider_free(s.decider);
    warmer_free(s.warmer);
    redis_free(s.redis);
    db_free(s.db);
    return result;
}
