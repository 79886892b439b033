/* SPDX-License-Identifier: MIT */
#include "status.h"

#include <jansson.h>
#include <math.h>

#include "testing.h"

static const struct probe_outbox no_outbox = {0}, some_outbox = {true, 7, 2, 1500};

static double last(const json_t *series, const char *name) {
    const json_t *list = json_object_get(series, name);
    const json_t *v = json_array_get(list, json_array_size(list) - 1);
    return json_is_null(v) ? -1 : json_number_value(v);
}

static json_t *document(const struct status *s) {
    struct buf text = {0};
    json_error_t why;
    status_print(s, &text);
    json_t *o = json_loads(buf_cstr(&text), 0, &why);
    ck_assert_msg(o != NULL, "%s: %s", why.text, buf_cstr(&text));
    buf_free(&text);
    return o;
}

/* A daemon's parts, as much as the document needs. */
struct world {
    struct config *cfg;
    struct metrics *metrics;
    struct recent *recent;
    struct health health;
    struct status_series *series;
    struct status status;
};

static void world_make(struct world *w) {
    struct error err = {0};
    w->cfg = config_parse("t.yaml", "", 0, &err);
    ck_assert_msg(w->cfg != NULL, "%s", err.text);
    w->metrics = metrics_new();
    w->recent = recent_new();
    w->series = mem_zero(1, sizeof *w->series);
    health_init(&w->health, 60000, 1000);
    w->status = (struct status){.cfg = w->cfg,
                                .metrics = w->metrics,
                                .recent = w->recent,
                                .health = &w->health,
                                .series = w->series,
                                .now_ms = 5000,
                                .wall_ms = 900000,
                                .started_wall_ms = 895000,
                                .uptime_ms = 5000,
                                .healthy = true};
}

static void world_end(struct world *w) {
    config_free(w->cfg);
    metrics_free(w->metrics);
    recent_free(w->recent);
    health_free(&w->health);
    free(w->series);
}

/* What isn't known is null, and nothing is missing. */
START_TEST(test_at_first) {
    static const char *const members[] = {
        "now",      "version",    "librdkafka", "groupId",      "topic",      "clientId",   "startedAt",
        "uptimeMs", "state",      "healthy",    "dependencies", "partitions", "totals",     "decisions",
        "alerts",   "rejections", "outbox",     "latency",      "series",     "lastAlerts", "lastRejections"};
    struct world w;
    world_make(&w);
    json_t *o = document(&w.status);
    ck_assert_uint_eq(json_object_size(o), TESTING_LENGTH(members));
    for (size_t i = 0; i < TESTING_LENGTH(members); i++)
        ck_assert_msg(json_object_get(o, members[i]) != NULL, "%s", members[i]);
    ck_assert(json_is_null(json_object_get(o, "outbox")));
    ck_assert(json_is_null(json_object_get(json_object_get(o, "latency"), "commitP99Ms")));
    ck_assert_uint_eq(json_object_size(json_object_get(o, "rejections")), 10);
    ck_assert(json_object_get(json_object_get(o, "decisions"), "WARNING_50") != NULL);
    ck_assert_uint_eq(json_object_size(json_object_get(o, "alerts")), 6);
    json_decref(o);
    world_end(&w);
}
END_TEST

START_TEST(test_figures) {
    struct world w;
    world_make(&w);
    struct health_dependency d[] = {
        {.name = "kafka", .known = true, .up = true, .since_ms = 5, .latency_ms = 1.25},
        {.name = "mysql", .known = true, .since_ms = 6, .latency_ms = -1, .error = "a\x80z"}};
    const struct health_partition p[] = {
        {.id = 0, .settled_to = 5, .end = 9},
        {.id = 1, .settled_to = 3, .end = -1, .paused = true, .paused_since_ms = 77}};
    const struct health_input in = {.now_ms = 1000,
                                    .wall_ms = 2000,
                                    .dependencies = d,
                                    .dependency_count = 2,
                                    .partitions = p,
                                    .partition_count = 2,
                                    .members = 1,
                                    .members_joined = 1};
    health_update(&w.health, &in);
    const struct recent_item alert = {.at_ms = 1,
                                      .what = "THRESHOLD:50",
                                      .family_id = 2,
                                      .customer_id = 3,
                                      .event_id = "<e>\"",
                                      .offset = 4},
                             rejection = {
                                 .at_ms = 5, .what = "MALFORMED_JSON", .message = "m", .partition = 1};
    recent_add(w.recent, RECENT_ALERT, &alert);
    recent_add(w.recent, RECENT_REJECTION, &rejection);
    metrics_add(w.metrics, METRIC_EVENTS, metric_outcome(OUTCOME_REJECTED, REJECT_MALFORMED_JSON), 3);
    metrics_add(w.metrics, METRIC_EVENTS, metric_outcome(OUTCOME_REJECTED, REJECT_ID_CONFLICT), 1);
    metrics_add(w.metrics, METRIC_DECISIONS, metric_decision(STATUS_WARNING, 30), 8);
    w.status.dependencies = d;
    w.status.dependency_count = 2;
    w.status.outbox = some_outbox;
    json_t *o = document(&w.status);
    json_int_t rejected = 0, malformed = 0, warned = 0, pending = 0, lag = 0, age = 0, since = 0;
    const char *state = "", *reason = "", *detail = "", *kind = "", *event = "";
    ck_assert_int_eq(
        json_unpack(o,
                    "{s:{s:s,s:[s]},s:{s:I},s:{s:I},s:{s:I},s:{s:I},s:[{s:I,s:I,s:n},{s:n,s:b,s:I}],"
                    "s:[{s:n},{s:s,s:n}],s:[{s:s,s:s}],s:[{s:n}]}",
                    "state", "name", &state, "reasons", &reason, "totals", "rejected", &rejected,
                    "rejections", "MALFORMED_JSON", &malformed, "decisions", "WARNING_30", &warned, "outbox",
                    "pending", &pending, "partitions", "lag", &lag, "progressAgeMs", &age, "pausedSince",
                    "lag", "paused", &(int){0}, "pausedSince", &since, "dependencies", "detail", "detail",
                    &detail, "latencyMs", "lastAlerts", "kind", &kind, "eventId", &event, "lastRejections",
                    "eventId"),
        0);
    ck_assert_str_eq(state, "degraded");
    ck_assert(strstr(reason, "mysql is down: a") == reason);
    ck_assert_str_eq(detail, "a?z"); /* what isn't UTF-8 breaks no document */
    ck_assert_int_eq(rejected, 4);
    ck_assert_int_eq(malformed, 3);
    ck_assert_int_eq(warned, 8);
    ck_assert_int_eq(pending, 7);
    ck_assert_int_eq(lag, 4);
    ck_assert_int_eq(age, 4000);
    ck_assert_int_eq(since, 77);
    ck_assert_str_eq(kind, "THRESHOLD:50");
    ck_assert_str_eq(event, "<e>\"");
    ck_assert_int_eq(status_lag(&w.health), -1); /* one isn't known */
    json_decref(o);
    world_end(&w);
}
END_TEST

START_TEST(test_series) {
    struct world w;
    world_make(&w);
    int64_t now = 1000;
    for (int i = 0; i < STATUS_POINTS + 5; i++, now += STATUS_STEP_MS) {
        metrics_add(w.metrics, METRIC_EVENTS, metric_outcome(OUTCOME_SETTLED, REJECT_NONE), 10);
        status_series_take(w.series, w.metrics, now, 500000 + now, i, i % 2 ? &some_outbox : &no_outbox);
        json_t *o = document(&w.status), *s = json_object_get(o, "series");
        size_t n = json_array_size(json_object_get(s, "lag"));
        ck_assert_uint_eq(n, i < STATUS_POINTS ? (size_t)i + 1 : STATUS_POINTS);
        ck_assert(fabs(last(s, "eventsPerSecond") - (i ? 5 : -1)) < 0.001);
        ck_assert(fabs(last(s, "lag") - i) < 0.001);
        ck_assert(fabs(last(s, "outboxPending") - (i % 2 ? 7 : -1)) < 0.001);
        ck_assert_int_eq(json_integer_value(json_object_get(s, "endsAt")), 500000 + now);
        /* oldest first */
        ck_assert(fabs(json_number_value(json_array_get(json_object_get(s, "lag"), 0)) -
                       (double)((size_t)i + 1 - n)) < 0.001);
        json_decref(o);
    }
    world_end(&w);
}
END_TEST

/* A point is of its step alone; the latency of now looks back over the window, and forgets what is older. */
START_TEST(test_latency_windows) {
    struct world w;
    world_make(&w);
    int64_t now = 1000;
    for (int i = 0; i < STATUS_WINDOW + 3; i++, now += STATUS_STEP_MS) {
        if (i == 1)
            metrics_observe(w.metrics, METRIC_COMMIT_LATENCY, 40000);
        status_series_take(w.series, w.metrics, now, now, 0, &no_outbox);
        json_t *o = document(&w.status);
        double point = last(json_object_get(o, "series"), "commitP99Ms");
        const json_t *v = json_object_get(json_object_get(o, "latency"), "commitP99Ms");
        ck_assert_msg((point > 0) == (i == 1), "step %d: point %f", i, point);
        ck_assert_msg(json_is_null(v) == (i < 1 || i > STATUS_WINDOW), "step %d: latency", i);
        if (i == 1)
            ck_assert(point > 10 && point <= 50);
        json_decref(o);
    }
    world_end(&w);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("status");
    TCase *tc = tcase_create("status");
    tcase_add_test(tc, test_at_first);
    tcase_add_test(tc, test_figures);
    tcase_add_test(tc, test_series);
    tcase_add_test(tc, test_latency_windows);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
