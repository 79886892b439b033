/* SPDX-License-Identifier: MIT */
/* Deciding and handing over. What makes it subtle (DESIGN §3, §4):
 *
 * 1. A family's month is decided in order or not at all. If one of its events
 *    finds it cold, all its events of the batch are decided again, from a warm start.
 * 2. Warming reads MySQL, so the batch in flight must have settled, or come back
 *    and settled after all, before: else its decisions would be missing.
 * 3. When the batch in flight comes back, some families are warmed and decided
 *    anew in it. Whatever the batch in hand had decided on those is void. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fault.h"
#include "heartbeat.h"
#include "known.h"
#include "log.h"
#include "retry.h"
#include "worker_internal.h"

#define ROUNDS_BEFORE_PAUSE 20 /* of warming one batch: somebody keeps taking the cache away */
#define WAIT_BEFORE_PAUSING_MS 250

static int64_t now_seconds(void) {
    return (int64_t)time(NULL);
}

static bool gone(const struct worker *w, const struct batch *b) {
    return atomic_load(&b->assignment->lost) || worker_out_of_time(w);
}

/* A store failed: says so once a period and keeps the member alive for a while. False when it's over. */
static bool wait_for_store(struct worker *w, const struct batch *b, struct error *err) {
    worker_report(w, "decision_waiting", err);
    worker_keep_alive(w, w->cfg->retry.interval_ms);
    bool again = !gone(w, b);
    if (again)
        retry_count(w->shared.metrics, err);
    error_clear(err);
    return again;
}

static bool look_up(struct worker *w, struct batch *b, size_t *indexes, size_t n) {
    struct error err = {0};
    while (!known_look_up(w->db, b, indexes, n, NULL, &err)) {
        if (!wait_for_store(w, b, &err))
            return false;
    }
    return true;
}

/* Repeats are likely below what the ledger had settled on assignment, and for
 * records that outlived their dedup entry: they are looked up first. */
static bool look_up_likely_repeats(struct worker *w, struct batch *b) {
    int64_t forgotten_ms = (now_seconds() - w->cfg->dedup_ttl_seconds) * 1000;
    size_t *indexes = mem_alloc(b->count * sizeof *indexes), n = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct batch_event *e = &b->events[i];
        if (batch_event_live(e) && (e->offset < e->part->replay_below || e->record_ts_ms < forgotten_ms))
            indexes[n++] = i;
    }
    bool ok = look_up(w, b, indexes, n);
    free(indexes);
    return ok;
}

static bool any_void(const struct batch *b) {
    for (size_t i = 0; i < b->group_count; i++) {
        if (b->groups[i].void_decisions)
            return true;
    }
    return false;
}

/* What an answer other than a decision means for the event's group. */
static void take_answer(struct batch *b, size_t i, enum decide_answer answer) {
    struct batch_event *e = &b->events[i];
    struct family_group *g = &b->groups[e->group];
    if (answer == DECIDE_UNREADABLE && g->warmed) {
        /* read again for this very batch, and still so */
        batch_reject(b, i, REJECT_POLICY_UNREADABLE, "a rule that applies to the customer can't be read");
    } else if (answer == DECIDE_NOT_MEMBER || answer == DECIDE_KNOWN) {
        g->suspect = true;
    } else if (answer != DECIDE_DONE) {
        g->dirty = true;
    }
}

static bool run_script(struct worker *w, struct batch *b, const size_t *indexes, size_t n,
                       enum decide_answer *answers, struct error *err) {
    int64_t since = clock_monotonic_us();
    if (!decider_run(w->decider, b, indexes, n, now_seconds(), answers, err))
        return false;
    metrics_observe(w->shared.metrics, METRIC_SCRIPT_DURATION, clock_monotonic_us() - since);
    return true;
}

/* Runs the script for the live events of groups whose decisions are void, in the order delivered. */
static bool run_void_groups(struct worker *w, struct batch *b) {
    size_t *indexes = mem_alloc(b->count * sizeof *indexes), n = 0;
    for (size_t i = 0; i < b->count; i++) {
        struct batch_event *e = &b->events[i];
        if (!e->parsed || !b->groups[e->group].void_decisions)
            continue;
        if (e->decided)
            e->looked_up = true; /* the dedup entry that Redis may hold is its own */
        e->decided = false;
        if (batch_event_live(e))
            indexes[n++] = i;
    }
    enum decide_answer *answers = mem_alloc(n * sizeof *answers);
    struct error err = {0};
    bool ok = true;
    while (ok && n && !run_script(w, b, indexes, n, answers, &err))
        ok = wait_for_store(w, b, &err);
    for (size_t i = 0; ok && i < b->group_count; i++)
        b->groups[i].void_decisions = false;
    for (size_t i = 0; ok && i < n; i++)
        take_answer(b, indexes[i], answers[i]);
    free(indexes);
    free(answers);
    return ok;
}

/* The dirty and suspect groups' live ids are looked up before any of them is rejected; `again`: those too
 * that were looked up already. */
static bool look_up_groups(struct worker *w, struct batch *b, bool again) {
    size_t *indexes = mem_alloc(b->count * sizeof *indexes), n = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct batch_event *e = &b->events[i];
        if (batch_event_live(e) && (again || !e->looked_up) &&
            (b->groups[e->group].dirty || b->groups[e->group].suspect))
            indexes[n++] = i;
    }
    bool ok = look_up(w, b, indexes, n);
    free(indexes);
    return ok;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Whether an id of the groups in question is in the batch in flight too: then
 * MySQL doesn't know yet what it is. Ids never change after parsing, so the
 * settler's batch may be read. */
static bool ids_in_flight(const struct batch *b, const struct batch *flight) {
    if (!flight)
        return false;
    const char **ids = mem_alloc(flight->count * sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; i < flight->count; i++) {
        if (flight->events[i].parsed)
            ids[n++] = flight->events[i].usage.id;
    }
    qsort(ids, n, sizeof *ids, by_text);
    bool found = false;
    for (size_t i = 0; i < b->count && !found; i++) {
        const struct batch_event *e = &b->events[i];
        const char *id = e->usage.id;
        if (batch_event_live(e) && (b->groups[e->group].dirty || b->groups[e->group].suspect))
            found = bsearch(&id, ids, n, sizeof *ids, by_text) != NULL;
    }
    free(ids);
    return found;
}

/* Ends events that MySQL has no place for without making the others wait. */
static bool weed_out(struct worker *w, struct batch *b) {
    struct error err = {0};
    if (!look_up_groups(w, b, true))
        return false;
    while (!warmer_weed_out(w->warmer, b, &err)) {
        if (!wait_for_store(w, b, &err))
            return false;
    }
    return true;
}

/* What was weeded just now was looked up as well, but for the twins that took a rejected event's place. */
static bool warm_dirty(struct worker *w, struct batch *b, bool weeded, enum metric_warmup cause) {
    struct error err = {0};
    int64_t before = warmer_warmed(w->warmer);
    bool ok = look_up_groups(w, b, !weeded);
    while (ok && !warmer_warm(w->warmer, b, now_seconds(), &err))
        ok = wait_for_store(w, b, &err);
    metrics_add(w->shared.metrics, METRIC_WARMUPS, cause, warmer_warmed(w->warmer) - before);
    return ok;
}

static bool wait_for_flight(struct worker *w, const struct batch *b) {
    pipeline_drain(w);
    return !gone(w, b);
}

static bool any_suspect(const struct batch *b) {
    for (size_t i = 0; i < b->group_count; i++) {
        if (b->groups[i].suspect)
            return true;
    }
    return false;
}

static void void_in_hand(struct worker *w, const struct batch *disturbed, bool all);

static size_t count_live(const struct batch *b) {
    size_t n = 0;
    for (size_t i = 0; i < b->count; i++)
        n += b->events[i].parsed && b->events[i].outcome == OUTCOME_OPEN;
    return n;
}

/* Decides everything that is void or dirty. `flight`: this is the batch that was in flight itself. */
static bool decide(struct worker *w, struct batch *b, bool flight) {
    size_t open = count_live(b);
    for (int round = 0;; round++) {
        if (any_void(b) && !run_void_groups(w, b))
            return false;
        if (!batch_any_dirty(b) && !any_suspect(b))
            return true;
        bool waited = flight;
        if (!waited && ids_in_flight(b, settler_busy_with(w->settler))) {
            if (!batch_any_dirty(b))
                return true; /* nothing else waits for them: asked when the flight has settled, before
                                hand-over */
            waited = true;
            if (!wait_for_flight(w, b))
                return false;
        }
        bool weed = !flight || any_suspect(b);
        if (weed) {
            if (!weed_out(w, b))
                return false;
            if (!batch_any_dirty(b))
                continue;
        }
        if (!waited && !wait_for_flight(w, b))
            return false;
        if (flight) /* also what became dirty since it came back */
            void_in_hand(w, b, false);
        if (!warm_dirty(w, b, weed, flight ? METRIC_WARMUP_CAME_BACK : METRIC_WARMUP_COLD))
            return false;
        size_t left = count_live(b);
        if (left < open) { /* events ended: no round in vain */
            open = left;
            round = 0;
        }
        if (round >= ROUNDS_BEFORE_PAUSE) {
            struct error err = {0};
            error_set(&err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE, 0,
                      "redis: families are cold again as soon as they are warmed");
            if (!wait_for_store(w, b, &err))
                return false;
        }
    }
}

/* Decisions of the batch in hand on families that are about to be decided anew
 * are void: on the dirty ones, or on all of them. */
static void void_in_hand(struct worker *w, const struct batch *disturbed, bool all) {
    struct batch *hand = w->hand;
    if (!hand || hand == disturbed)
        return;
    for (size_t i = 0, k = 0; i < disturbed->group_count; i++) {
        const struct family_group *d = &disturbed->groups[i];
        if (!d->dirty && !all)
            continue;
        while (k < hand->group_count &&
               (hand->groups[k].family_id < d->family_id ||
                (hand->groups[k].family_id == d->family_id && hand->groups[k].month < d->month)))
            k++;
        if (k < hand->group_count && hand->groups[k].family_id == d->family_id &&
            hand->groups[k].month == d->month)
            hand->groups[k].void_decisions = true;
    }
}

static void note_failures(struct worker *w, struct batch *b) {
    for (size_t i = 0; i < b->group_count; i++) {
        struct family_group *g = &b->groups[i];
        if (!g->dirty)
            continue;
        g->warmed = false;
        metrics_add(w->shared.metrics, METRIC_REDECIDED, b->came_back, 1);
        if (++g->failures >= 3)
            LOG(LOG_WARN, "family_contended", LOG_I("family_id", g->family_id), LOG_I("month", g->month),
                LOG_I("failures", g->failures));
    }
}

/* Somebody else keeps writing these families: tries at random moments get through. */
static void back_off(struct worker *w, const struct batch *b) {
    int worst = 0;
    for (size_t i = 0; i < b->group_count; i++) {
        if (b->groups[i].dirty && b->groups[i].failures > worst)
            worst = b->groups[i].failures;
    }
    if (worst >= 3)
        worker_keep_alive(w, 1 + (int64_t)random() % (worst > 10 ? 100 : 10 * worst));
}

void pipeline_drop(struct worker *w, struct batch *b) {
    struct error err = {0};
    if (atomic_load(&b->assignment->lost) && !worker_out_of_time(w) && !warmer_forget(w->warmer, b, &err))
        worker_report(w, "trace_left", &err); /* the validation finds it */
    batch_free(b);
}

/* Hands over, and sees it through: the batch is settled or dropped when this returns. Takes the batch. */
static void settle_now(struct worker *w, struct batch *b) {
    settler_put(w->settler, b);
    pipeline_drain(w);
}

/* A batch of the one event. */
static struct batch *batch_of_one(struct batch *b, size_t i) {
    struct batch_event *e = &b->events[i];
    struct batch *one = batch_new(b->assignment);
    batch_move(one, e);
    one->events[0].twin_of = EVENT_NO_TWIN;
    one->events[0].has_twin = false;
    one->events[0].decided = false;
    /* what a twin was judged by is settled by itself now, or refused; only an acknowledged rejection stands
     */
    bool twin_rejected = e->twin_of != EVENT_NO_TWIN && e->outcome == OUTCOME_REJECTED && !e->dlt_acked;
    if (e->outcome == OUTCOME_DUPLICATE || twin_rejected)
        one->events[0].outcome = OUTCOME_OPEN;
    one->spans = mem_zero(1, sizeof *one->spans);
    one->span_count = one->span_capacity = 1;
    one->spans[0] = (struct batch_span){.part = e->part, .from = e->offset, .next = e->offset + 1};
    batch_prepare(one);
    for (size_t k = 0; k < one->group_count; k++)
        one->groups[k].dirty = true;
    return one;
}

/* What the batch accounts for behind its last records, and where it has none. */
static struct batch *rest_of(const struct batch *b) {
    struct batch *rest = batch_new(b->assignment);
    rest->spans = mem_zero(b->span_count, sizeof *rest->spans);
    for (size_t k = 0; k < b->span_count; k++) {
        int64_t covered = b->spans[k].from;
        for (size_t i = 0; i < b->count; i++) {
            if (b->events[i].part == b->spans[k].part)
                covered = b->events[i].offset + 1;
        }
        if (covered < b->spans[k].next)
            rest->spans[rest->span_count++] =
                (struct batch_span){.part = b->spans[k].part, .from = covered, .next = b->spans[k].next};
    }
    return rest;
}

static void decide_and_settle(struct worker *w, struct batch *b) {
    if (decide(w, b, true))
        settle_now(w, b);
    else
        pipeline_drop(w, b);
}

/* MySQL refuses some event's data: its records go as batches of one, and the refused one is rejected. */
static void settle_one_by_one(struct worker *w, struct batch *b) {
    LOG(LOG_WARN, "batch_split", LOG_I("records", b->count));
    int64_t polled = clock_monotonic_ms();
    void_in_hand(w, b, true);
    for (size_t i = 0; i < b->count && !gone(w, b); i++) {
        decide_and_settle(w, batch_of_one(b, i));
        if (clock_monotonic_ms() - polled > WAIT_BEFORE_PAUSING_MS) {
            worker_keep_alive(w, 0);
            polled = clock_monotonic_ms();
        }
    }
    struct batch *rest = rest_of(b);
    if (rest->span_count && !gone(w, b))
        decide_and_settle(w, rest);
    else
        batch_free(rest);
    pipeline_drop(w, b);
}

static void decide_again(struct worker *w, struct batch *b) {
    note_failures(w, b);
    void_in_hand(w, b, false);
    back_off(w, b);
    if (!gone(w, b) && decide(w, b, true))
        settler_put(w->settler, b);
    else
        pipeline_drop(w, b);
}

static void refused(struct worker *w, struct batch *b, const struct error *err) {
    if (b->count > 1) {
        settle_one_by_one(w, b);
        return;
    }
    if (b->count == 1 && batch_event_live(&b->events[0]) && !b->groups[0].warmed) {
        b->groups[0].dirty = true; /* was it what Redis held? Decided again from MySQL it can't be */
        b->came_back = CAME_BACK_OTHER;
        decide_again(w, b);
        return;
    }
    if (b->count == 1 && batch_event_live(&b->events[0])) {
        const struct batch_event *e = &b->events[0];
        char trace[TRACE_ID_SIZE];
        LOG(LOG_ERROR, "event_refused", LOG_S("event_id", e->usage.id),
            LOG_I("family_id", e->usage.family_id), LOG_I("customer_id", e->usage.customer_id),
            LOG_I("partition", e->part->id), LOG_I("offset", e->offset), LOG_E(err),
            LOG_O("trace_id", batch_event_trace_id(e, trace)));
        batch_reject(b, 0, REJECT_SETTLEMENT_REJECTED, "the database refuses the event's data (code %d)",
                     err->code);
        b->groups[0].dirty = true; /* what was decided and is dropped must leave no trace */
        b->came_back = CAME_BACK_OTHER;
        decide_again(w, b);
        return;
    }
    /* no usage data in it: a fault to wait for, like any other */
    struct error waiting = *err;
    if (wait_for_store(w, b, &waiting))
        settler_put(w->settler, b);
    else
        pipeline_drop(w, b);
}

static void handle(struct worker *w, struct batch *b, enum settler_result result, const struct error *err) {
    switch (result) {
    case SETTLER_DONE:
        worker_store_offsets(w, b);
        batch_free(b);
        break;
    case SETTLER_CAME_BACK:
        decide_again(w, b);
        break;
    case SETTLER_REFUSED:
        refused(w, b, err);
        break;
    case SETTLER_FENCED:
        LOG(LOG_WARN, "fenced", LOG_I("owner", b->assignment->owner), LOG_I("records", b->count));
        if (b->assignment == w->assignment) /* else it's of an assignment that has ended already */
            worker_rejoin(w);
        pipeline_drop(w, b);
        break;
    case SETTLER_DROPPED:
        LOG(LOG_INFO, "batch_dropped", LOG_I("records", b->count));
        pipeline_drop(w, b);
        break;
    }
}

bool pipeline_collect(struct worker *w, int64_t wait_ms) {
    enum settler_result result;
    struct error err = {0};
    struct batch *b = settler_take(w->settler, wait_ms, &result, &err);
    if (b)
        handle(w, b, result, &err);
    return settler_busy_with(w->settler) == NULL;
}

void pipeline_drain(struct worker *w) {
    int64_t since = clock_monotonic_ms();
    while (!pipeline_collect(w, 20)) {
        heartbeat_beat();
        if (worker_out_of_time(w))
            settler_abandon(w->settler);
        else if (clock_monotonic_ms() - since > WAIT_BEFORE_PAUSING_MS)
            worker_keep_alive(w, 0);
    }
}

void pipeline_process(struct worker *w, struct batch *b) {
    batch_prepare(b);
    for (size_t i = 0; i < b->group_count; i++)
        b->groups[i].void_decisions = true;
    w->hand = b;
    bool ok = look_up_likely_repeats(w, b) && decide(w, b, false);
    while (ok) {
        ok = wait_for_flight(w, b);
        if (!ok || (!any_void(b) && !batch_any_dirty(b) && !any_suspect(b)))
            break;
        ok = decide(w, b, false);
    }
    w->hand = NULL;
    fault_at("worker.handover");
    if (ok)
        settler_put(w->settler, b);
    else
        pipeline_drop(w, b);
}
