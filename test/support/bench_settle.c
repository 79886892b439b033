/* SPDX-License-Identifier: MIT */
/* The topic's rows settled from ready batches, one after the other, without
 * Kafka and Redis: the decisions are made here, from MySQL's own figures. Left
 * out is what a settlement would write nothing of: repeats, and what is to be
 * rejected. The ledger is a group's of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_figures.h"
#include "bench_meter.h"
#include "bench_topic.h"
#include "buf.h"
#include "draw.h"
#include "embedded.h"
#include "ledger.h"
#include "settle.h"

#define SLICE_RECORDS 20000 /* some 30 MiB */
#define TOLD_LIMIT 200000   /* as the settler has it */

struct settling {
    struct bench_topic topic;
    struct assignment *assignment;
    struct bench_slice slice;
    struct messages *messages;
    struct metrics *metrics;
    struct settle settle;
    struct bench_figures *figures;
    struct event_limits limits;
    struct bench_set ids;
    struct bench_meter meter;
    int64_t settled, blocked, notifications, left_out;
};

static struct messages *load_messages(const struct config *cfg, struct error *err) {
    char path[64];
    snprintf(path, sizeof path, "config/messages.%s.yaml", cfg->locale);
    const struct embedded_file *f = embedded_find(path);
    if (f)
        return messages_parse(path, f->data, f->len, err);
    bench_error(err, "there is no %s", path);
    return NULL;
}

/* Claims every partition of the topic as a worker does on assignment. */
static bool claim(struct settling *s, struct error *err) {
    int32_t *ids = mem_alloc(s->topic.count * sizeof *ids);
    for (size_t i = 0; i < s->topic.count; i++)
        ids[i] = s->topic.parts[i].id;
    int32_t closed_before = 0;
    if (ledger_floor(s->settle.db, &closed_before, err))
        s->assignment = ledger_claim(s->settle.db, s->topic.consumer, s->topic.cfg, ids, s->topic.count, err);
    free(ids);
    s->limits = event_limits_of(s->topic.cfg, closed_before);
    s->settle.closed_before = closed_before;
    return s->assignment != NULL;
}

/* Ignored: it keeps its place in the batch and in the ledger's count, and nothing is written of it. */
static void leave_out(struct settling *s, struct batch_event *e) {
    e->outcome = OUTCOME_IGNORED;
    s->left_out++;
}

/* Of an id that comes again only the first is settled. */
static void on_added(void *ctx, struct batch_event *e) {
    struct settling *s = ctx;
    e->parsed = e->parsed && bench_set_add(&s->ids, bench_hash(e->usage.id, strlen(e->usage.id)));
    if (!e->parsed)
        leave_out(s, e);
}

static bool decide(struct settling *s, struct batch *b, struct error *err) {
    if (!bench_figures_load(s->figures, b, err))
        return false;
    for (size_t i = 0; i < b->count; i++) {
        struct batch_event *e = &b->events[i];
        if (!batch_event_live(e))
            continue;
        e->decided = bench_figures_decide(s->figures, &e->usage, &e->decision);
        if (!e->decided)
            leave_out(s, e);
    }
    return true;
}

static const char *result_name(enum settle_result result) {
    switch (result) {
    case SETTLE_CAME_BACK:
        return "came back: MySQL's figures aren't those decided on, or ids are settled already "
               "(nobody else may write, and the records must be new to the database)";
    case SETTLE_REFUSED:
        return "was refused";
    case SETTLE_FENCED:
        return "was fenced";
    default:
        return "failed";
    }
}

static bool settle_one(struct settling *s, struct batch *b, struct error *err) {
    struct error why = {0};
    enum settle_result result = settle_batch(&s->settle, b, &why);
    s->notifications += (int64_t)s->settle.born.count;
    outbox_list_free(s->settle.born.head); /* no relay takes them */
    s->settle.born = (struct outbox_list){0};
    return result == SETTLE_DONE || bench_error(err, "a batch of %zu records %s%s%s", b->count,
                                                result_name(result), why.text[0] ? ": " : "", why.text);
}

static void count_outcomes(struct settling *s, const struct batch *b) {
    for (size_t i = 0; i < b->count; i++) {
        s->settled += b->events[i].outcome == OUTCOME_SETTLED;
        s->blocked += b->events[i].outcome == OUTCOME_BLOCKED;
    }
}

static bool settle_slice(struct settling *s, struct error *err) {
    bool ok = true;
    for (size_t i = 0; ok && i < s->slice.count; i++)
        ok = decide(s, s->slice.batches[i], err);
    ok = ok && bench_meter_start(&s->meter, err);
    for (size_t i = 0; ok && i < s->slice.count; i++)
        ok = settle_one(s, s->slice.batches[i], err);
    ok = ok && bench_meter_stop(&s->meter, err);
    for (size_t i = 0; ok && i < s->slice.count; i++)
        count_outcomes(s, s->slice.batches[i]);
    return ok;
}

static bool settle_all(struct settling *s, const struct bench_options *o, struct error *err) {
    int64_t left = o->count ? o->count : INT64_MAX;
    do {
        bench_slice_clear(&s->slice);
        if (!bench_slice_read(&s->slice, &s->topic, s->assignment, &s->limits, SLICE_RECORDS, &left, on_added,
                              s, err) ||
            !settle_slice(s, err))
            return false;
    } while (s->slice.count);
    return s->settled + s->blocked > 0 ||
           bench_error(err, "none of %lld records could be settled: the families must be in the database",
                       (long long)s->left_out);
}

static json_t *result_of(const struct settling *s) {
    json_t *o = bench_meter_json(&s->meter, s->settled + s->blocked);
    json_object_set_new(o, "settled", json_integer(s->settled));
    json_object_set_new(o, "blocked", json_integer(s->blocked));
    json_object_set_new(o, "notifications", json_integer(s->notifications));
    json_object_set_new(o, "leftOut", json_integer(s->left_out));
    return o;
}

json_t *bench_settle(struct config *cfg, const struct bench_options *o, struct error *err) {
    struct settling s = {.meter = {.options = o}};
    json_t *result = NULL;
    bench_own_group(cfg);
    s.messages = load_messages(cfg, err);
    s.metrics = metrics_new();
    s.settle = (struct settle){
        .cfg = cfg, .messages = s.messages, .metrics = s.metrics, .lease_owner = draw_number()};
    s.settle.db = db_new(cfg, DB_READ_COMMITTED);
    s.settle.dlt = dlt_new(cfg, s.metrics);
    seen_init(&s.settle.told, TOLD_LIMIT);
    s.figures = bench_figures_new(cfg, s.settle.db);
    if (s.messages && bench_topic_open(&s.topic, cfg, err) && claim(&s, err) && settle_all(&s, o, err))
        result = result_of(&s);
    bench_slice_free(&s.slice);
    assignment_unref(s.assignment);
    bench_topic_close(&s.topic);
    bench_set_free(&s.ids);
    bench_figures_free(s.figures);
    settle_deinit(&s.settle);
    dlt_free(s.settle.dlt);
    db_free(s.settle.db);
    metrics_free(s.metrics);
    messages_free(s.messages);
    return result;
}
