/* SPDX-License-Identifier: MIT */
#include "tally.h"

#include <stdio.h>

#include "buf.h"
#include "keys.h"

/* Gathered first: each event would cost several locked additions. */
struct tally {
    int64_t outcomes[METRIC_OUTCOMES], decisions[METRIC_STATUSES];
    struct metric_histogram latency;
};

static void tally_event(struct tally *t, const struct batch_event *e, int64_t now_ms) {
    t->outcomes[metric_outcome(e->outcome, e->why.code)]++;
    if (e->outcome != OUTCOME_SETTLED && e->outcome != OUTCOME_BLOCKED)
        return;
    t->decisions[metric_decision(e->decision.status, e->decision.threshold)]++;
    if (e->record_ts_ms < 0)
        return;                                                                /* it has none */
    int64_t took_ms = now_ms > e->record_ts_ms ? now_ms - e->record_ts_ms : 0; /* its clock may be ahead */
    metric_histogram_add(&t->latency, METRIC_COMMIT_LATENCY, took_ms * 1000);
}

static struct recent_item recent_of(const struct batch_event *e, int64_t now_ms) {
    struct recent_item item = {.at_ms = now_ms, .partition = e->part->id, .offset = e->offset};
    if (e->usage.id) /* it was read before what is wrong was found */
        snprintf(item.event_id, sizeof item.event_id, "%s", e->usage.id);
    if (e->parsed) {
        item.family_id = e->usage.family_id;
        item.customer_id = e->usage.customer_id;
    }
    return item;
}

static void tally_alert(struct metrics *m, struct recent *recent, const struct batch_event *e,
                        int64_t now_ms) {
    struct buf name = {0};
    struct recent_item item = recent_of(e, now_ms);
    if (!decision_alert_name(&name, &e->decision, &e->usage))
        return;
    snprintf(item.what, sizeof item.what, "%s", buf_cstr(&name));
    buf_free(&name);
    metrics_add(m, METRIC_ALERTS, metric_alert(e->decision.status), 1);
    recent_add(recent, RECENT_ALERT, &item);
}

/* Of `n` rejected ones the last that there is room for. */
static void show_rejections(struct recent *recent, const struct batch *b, int64_t n, int64_t now_ms) {
    for (size_t i = 0; n > 0 && i < b->count; i++) {
        const struct batch_event *e = &b->events[i];
        if (e->outcome != OUTCOME_REJECTED || n-- > RECENT_MAX)
            continue;
        struct recent_item item = recent_of(e, now_ms);
        snprintf(item.what, sizeof item.what, "%s", reject_code_name(e->why.code));
        snprintf(item.message, sizeof item.message, "%s", e->why.message ? e->why.message : "");
        recent_add(recent, RECENT_REJECTION, &item);
    }
}

void tally_batch(struct metrics *m, struct recent *recent, const struct batch *b, const size_t *alerted,
                 size_t alerted_count, int64_t now_ms, int64_t *ends) {
    struct tally t = {0};
    int64_t rejected = -ends[OUTCOME_REJECTED];
    for (size_t i = 0; i < b->count; i++) {
        ends[b->events[i].outcome]++;
        tally_event(&t, &b->events[i], now_ms);
    }
    metrics_add_each(m, METRIC_EVENTS, t.outcomes);
    metrics_add_each(m, METRIC_DECISIONS, t.decisions);
    metrics_merge(m, METRIC_COMMIT_LATENCY, &t.latency);
    metrics_observe(m, METRIC_BATCH_EVENTS, (int64_t)b->count);
    for (size_t i = 0; i < alerted_count; i++)
        tally_alert(m, recent, &b->events[alerted[i]], now_ms);
    show_rejections(recent, b, rejected + ends[OUTCOME_REJECTED], now_ms);
}
