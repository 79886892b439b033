/* SPDX-License-Identifier: MIT */
/* What settled batches and tries made again add to the counters, and what was last. */
#include "tally.h"

#include "batches.h"
#include "retry.h"

#define NOW (BATCHES_TIME + 7000)

static struct metrics *m;
static struct recent *recent;
static struct assignment *assignment;
static struct batch *b;
static int64_t ends[OUTCOME_BLOCKED + 1];

static void setup(void) {
    m = metrics_new();
    recent = recent_new();
    assignment = batches_assignment(1, 2);
    b = batch_new(assignment);
    memset(ends, 0, sizeof ends);
}

static void teardown(void) {
    batch_free(b);
    assignment_unref(assignment);
    recent_free(recent);
    metrics_free(m);
}

static struct batch_event *put(enum outcome outcome, enum decision_status status, int threshold) {
    struct usage_event u = batches_event("e1", 100042, 200187, 5);
    struct batch_event *e = batches_put_usage(b, &assignment->parts[1], u);
    e->outcome = outcome;
    e->decided = true;
    e->decision =
        (struct decision){.status = status, .threshold = threshold, .allowed = outcome == OUTCOME_SETTLED};
    return e;
}

static void tally(const size_t *alerted, size_t n) {
    tally_batch(m, recent, b, alerted, n, NOW, ends);
}

static int64_t outcome(enum outcome o, enum reject_code code) {
    return metrics_get(m, METRIC_EVENTS, metric_outcome(o, code));
}

static int64_t decision(enum decision_status status, int threshold) {
    return metrics_get(m, METRIC_DECISIONS, metric_decision(status, threshold));
}

START_TEST(each_event_counts_once) {
    put(OUTCOME_SETTLED, STATUS_NORMAL, 0);
    put(OUTCOME_SETTLED, STATUS_NORMAL, 0);
    put(OUTCOME_SETTLED, STATUS_WARNING, 30);
    put(OUTCOME_BLOCKED, STATUS_TIME_BLOCK, 0);
    /* decided, and found to be something else afterwards */
    put(OUTCOME_DUPLICATE, STATUS_NORMAL, 0);
    put(OUTCOME_REJECTED, STATUS_MANUAL, 0)->why.code = REJECT_ID_CONFLICT;
    batches_put(b, &assignment->parts[0])->outcome = OUTCOME_IGNORED;
    for (int i = 1; i <= 2; i++) {
        tally(NULL, 0);
        ck_assert_int_eq(outcome(OUTCOME_SETTLED, REJECT_NONE), i * 3);
        ck_assert_int_eq(outcome(OUTCOME_BLOCKED, REJECT_NONE), i);
        ck_assert_int_eq(outcome(OUTCOME_DUPLICATE, REJECT_NONE), i);
        ck_assert_int_eq(outcome(OUTCOME_IGNORED, REJECT_NONE), i);
        ck_assert_int_eq(outcome(OUTCOME_REJECTED, REJECT_ID_CONFLICT), i);
        ck_assert_int_eq(metrics_total(m, METRIC_EVENTS), i * 7);
        ck_assert_int_eq(decision(STATUS_NORMAL, 0), i * 2);
        ck_assert_int_eq(decision(STATUS_WARNING, 30), i);
        ck_assert_int_eq(decision(STATUS_TIME_BLOCK, 0), i);
        ck_assert_int_eq(metrics_total(m, METRIC_DECISIONS), i * 4);
        ck_assert_int_eq(metrics_total(m, METRIC_BATCH_EVENTS), i);
        ck_assert_int_eq(ends[OUTCOME_SETTLED], i * 3);
        ck_assert_int_eq(ends[OUTCOME_REJECTED], i);
    }
    ck_assert_int_eq(metrics_total(m, METRIC_ALERTS), 0);
}
END_TEST

START_TEST(latency_is_of_events_settled_or_blocked) {
    struct metric_histogram h;
    put(OUTCOME_SETTLED, STATUS_NORMAL, 0); /* 7 s ago */
    put(OUTCOME_BLOCKED, STATUS_MANUAL, 0)->record_ts_ms = NOW - 3;
    put(OUTCOME_SETTLED, STATUS_NORMAL, 0)->record_ts_ms = NOW + 3600000; /* a clock that is ahead */
    put(OUTCOME_SETTLED, STATUS_NORMAL, 0)->record_ts_ms = INT64_MAX;
    put(OUTCOME_SETTLED, STATUS_NORMAL, 0)->record_ts_ms = -1; /* none */
    put(OUTCOME_DUPLICATE, STATUS_NORMAL, 0);
    put(OUTCOME_REJECTED, STATUS_NORMAL, 0)->why.code = REJECT_NOT_A_MEMBER;
    tally(NULL, 0);
    metrics_histogram(m, METRIC_COMMIT_LATENCY, &h);
    ck_assert_int_eq(h.count, 4);
    ck_assert_double_eq(h.sum, 7003000);
    ck_assert_int_eq(h.buckets[0], 2);
}
END_TEST

START_TEST(alerts_are_those_stored) {
    struct recent_item out[RECENT_MAX];
    const size_t alerted[] = {0, 2};
    put(OUTCOME_SETTLED, STATUS_WARNING, 50);
    put(OUTCOME_SETTLED, STATUS_WARNING, 50); /* told by the one before */
    batches_set_app(&put(OUTCOME_BLOCKED, STATUS_APP_BLOCK, 0)->usage, "com.youtube.app 카");
    tally(alerted, 2);
    ck_assert_int_eq(metrics_get(m, METRIC_ALERTS, metric_alert(STATUS_WARNING)), 1);
    ck_assert_int_eq(metrics_get(m, METRIC_ALERTS, metric_alert(STATUS_APP_BLOCK)), 1);
    ck_assert_int_eq(metrics_total(m, METRIC_ALERTS), 2);
    ck_assert_uint_eq(recent_list(recent, RECENT_ALERT, out, RECENT_MAX), 2);
    ck_assert_str_eq(out[0].what, "APP_BLOCK:com.youtube.app%20%EC%B9%B4");
    ck_assert_str_eq(out[1].what, "THRESHOLD:50");
    ck_assert_str_eq(out[1].event_id, "e1");
    ck_assert_int_eq(out[1].family_id, 100042);
    ck_assert_int_eq(out[1].customer_id, 200187);
    ck_assert_int_eq(out[1].partition, 1);
    ck_assert_int_eq(out[0].offset, 2);
    ck_assert_int_eq(out[0].at_ms, NOW);
    ck_assert_str_eq(out[0].message, "");
}
END_TEST

START_TEST(texts_that_are_too_long_are_cut) {
    struct recent_item out[RECENT_MAX];
    const size_t alerted[] = {0};
    char app[EVENT_APP_MAX + 1] = {0}, id[EVENT_ID_MAX + 1] = {0};
    memset(app, '%', EVENT_APP_MAX);
    memset(id, 'x', EVENT_ID_MAX);
    struct batch_event *e = put(OUTCOME_BLOCKED, STATUS_APP_BLOCK, 0);
    batches_set_app(&e->usage, app);
    e->usage.id = batches_text(id);
    tally(alerted, 1);
    ck_assert_uint_eq(recent_list(recent, RECENT_ALERT, out, RECENT_MAX), 1);
    ck_assert_uint_eq(strlen(out[0].what), sizeof out[0].what - 1);
    ck_assert_str_eq(out[0].event_id, id);
}
END_TEST

START_TEST(the_last_rejections_are_shown) {
    struct recent_item out[RECENT_MAX];
    for (int i = 0; i < RECENT_MAX + 5; i++) {
        struct batch_event *e = put(OUTCOME_REJECTED, STATUS_NORMAL, 0);
        e->why = (struct event_reason){.code = REJECT_UNKNOWN_FAMILY, .message = "there is no such family"};
        put(OUTCOME_SETTLED, STATUS_NORMAL, 0);
    }
    struct batch_event *unread = batches_put(b, &assignment->parts[0]);
    unread->outcome = OUTCOME_REJECTED;
    unread->why.code = REJECT_INVALID_FIELD;
    unread->usage.id = "read-before"; /* what is wrong was found; the rest of its usage is nothing */
    unread->usage.family_id = 77;
    ends[OUTCOME_REJECTED] = 3; /* of a batch before */
    tally(NULL, 0);
    ck_assert_int_eq(ends[OUTCOME_REJECTED], 3 + RECENT_MAX + 6);
    ck_assert_uint_eq(recent_list(recent, RECENT_REJECTION, out, RECENT_MAX), RECENT_MAX);
    ck_assert_str_eq(out[0].what, "INVALID_FIELD");
    ck_assert_str_eq(out[0].message, "");
    ck_assert_str_eq(out[0].event_id, "read-before");
    ck_assert_int_eq(out[0].family_id, 0);
    for (int i = 1; i < RECENT_MAX; i++) {
        ck_assert_str_eq(out[i].what, "UNKNOWN_FAMILY");
        ck_assert_str_eq(out[i].message, "there is no such family");
        ck_assert_int_eq(out[i].offset, 2 * (RECENT_MAX + 5 - i));
    }
    ck_assert_uint_eq(recent_list(recent, RECENT_ALERT, out, RECENT_MAX), 0);
}
END_TEST

START_TEST(tries_count_by_what_failed) {
    static const struct {
        enum error_area area;
        int code;
        int counts_as; /* -1: as nothing */
    } errors[] = {
        {ERROR_MYSQL, 1213, METRIC_RETRY_DEADLOCK},
        {ERROR_MYSQL, 1205, METRIC_RETRY_LOCK_WAIT},
        {ERROR_MYSQL, 2006, METRIC_RETRY_MYSQL},
        {ERROR_MYSQL, 1290, METRIC_RETRY_MYSQL},
        {ERROR_REDIS, 0, METRIC_RETRY_REDIS},
        {ERROR_KAFKA, 1213, METRIC_RETRY_KAFKA},
        {ERROR_NONE, 0, -1},
        {ERROR_INTERNAL, 1205, -1},
    };
    for (size_t i = 0; i < TESTING_LENGTH(errors); i++) {
        struct error err = {.area = errors[i].area, .code = errors[i].code};
        int64_t before = metrics_total(m, METRIC_RETRIES);
        size_t label = errors[i].counts_as < 0 ? 0 : (size_t)errors[i].counts_as;
        int64_t one = metrics_get(m, METRIC_RETRIES, label);
        retry_count(m, &err);
        ck_assert_int_eq(metrics_total(m, METRIC_RETRIES) - before, errors[i].counts_as >= 0);
        ck_assert_int_eq(metrics_get(m, METRIC_RETRIES, label) - one, errors[i].counts_as >= 0);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tally");
    TCase *tc = tcase_create("tally");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, each_event_counts_once);
    tcase_add_test(tc, latency_is_of_events_settled_or_blocked);
    tcase_add_test(tc, alerts_are_those_stored);
    tcase_add_test(tc, texts_that_are_too_long_are_cut);
    tcase_add_test(tc, the_last_rejections_are_shown);
    tcase_add_test(tc, tries_count_by_what_failed);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
