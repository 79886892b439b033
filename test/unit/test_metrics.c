/* SPDX-License-Identifier: MIT */
/* The table of metrics, counting from many threads, and Prometheus' text of it. */
#include "metrics.h"

#include <math.h>
#include <pthread.h>
#include <regex.h>

#include "metrics_internal.h"
#include "testing.h"

static struct metrics *m;
static struct buf text;

static void setup(void) {
    m = metrics_new();
}

static void teardown(void) {
    metrics_free(m);
    buf_free(&text);
}

static const char *render(const struct metrics_samples *samples) {
    buf_reset(&text);
    metrics_render(m, samples, &text);
    return buf_cstr(&text);
}

/* Whether the text has exactly this line. */
static bool has_line(const char *all, const char *line) {
    size_t len = strlen(line);
    for (const char *at = all; (at = strstr(at, line)); at++) {
        if ((at == all || at[-1] == '\n') && at[len] == '\n')
            return true;
    }
    return false;
}

#define assert_line(all, line) ck_assert_msg(has_line(all, line), "no line %s in:\n%s", line, all)
#define assert_no_line(all, line) ck_assert_msg(!has_line(all, line), "a line %s in:\n%s", line, all)

static bool matches(const char *pattern, const char *s) {
    regex_t re;
    ck_assert_int_eq(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bool ok = regexec(&re, s, 0, NULL, 0) == 0;
    regfree(&re);
    return ok;
}

static bool ends_in(const char *s, const char *end) {
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* ---- the table ---- */

START_TEST(the_table_is_whole) {
    for (int i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *row = &metric_rows[i];
        ck_assert_msg(row->name != NULL, "metric %d has no row", i);
        ck_assert_msg(matches("^[a-z][a-z0-9_]*$", row->name), "%s", row->name);
        ck_assert_msg(row->help && matches("^[A-Z0-9][^\\|]+[^.|]$", row->help) &&
                          !strpbrk(row->help, "\\\n"),
                      "%s: %s", row->name, row->help);
        ck_assert_msg(ends_in(row->name, "_total") == (row->kind == METRIC_COUNTER), "%s", row->name);
        ck_assert_msg(!ends_in(row->name, "_sum") && !ends_in(row->name, "_count") &&
                          !ends_in(row->name, "_bucket"),
                      "%s", row->name);
        ck_assert_msg(!row->seconds || ends_in(row->name, "_seconds"), "%s", row->name);
        ck_assert_msg(row->expected <= row->count, "%s", row->name);
        ck_assert_msg(row->count <= 1 || (row->label && row->labels), "%s", row->name);
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(row->name, metric_rows[k].name);
    }
}
END_TEST

START_TEST(bounds_ascend_and_fit) {
    int histograms = 0;
    for (int i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *row = &metric_rows[i];
        ck_assert_msg((row->bounds != NULL) == (row->kind == METRIC_HISTOGRAM), "%s", row->name);
        size_t n = 0;
        while (row->bounds && row->bounds[n]) {
            ck_assert_msg(row->bounds[n] > (n ? row->bounds[n - 1] : 0), "%s: bound %zu", row->name, n);
            n++;
        }
        ck_assert_msg(n <= METRIC_BUCKETS_MAX, "%s: %zu bounds", row->name, n);
        histograms += row->bounds != NULL;
    }
    ck_assert_int_eq(histograms, 5);
}
END_TEST

/* The names in `out="…",code="…"` as the row's `labels` gives them. */
static void names_of(const char *label, char *out, size_t size) {
    size_t n = 0;
    for (const char *at = label; *at; at++) {
        const char *equals = strchr(at, '=');
        ck_assert_ptr_nonnull(equals);
        n += (size_t)snprintf(out + n, size - n, "%s%.*s", n ? ", " : "", (int)(equals - at), at);
        at = strchr(equals + 2, '"') + 1;
        if (!*at)
            return;
    }
}

START_TEST(a_label_names_each_value_once) {
    for (int id = 0; id < METRIC_COUNT; id++) {
        const struct metric_row *row = &metric_rows[id];
        char **seen = calloc(row->count + 1, sizeof *seen), names[64];
        size_t n = 0;
        for (size_t i = 0; row->label && i < row->count; i++) {
            struct buf label = {0};
            row->label(&label, i);
            if (!label.len) {
                buf_free(&label);
                continue;
            }
            ck_assert_msg(matches("^[a-z]+=\"[A-Za-z0-9_/.]+\"(,[a-z]+=\"[A-Za-z0-9_]+\")?$", label.data),
                          "%s: %s", row->name, label.data);
            names_of(label.data, names, sizeof names);
            ck_assert_msg(strncmp(row->labels, names, strlen(names)) == 0, "%s by %s: %s", row->name,
                          row->labels, label.data);
            for (size_t k = 0; k < n; k++)
                ck_assert_msg(strcmp(seen[k], label.data) != 0, "%s: %s twice", row->name, label.data);
            seen[n++] = label.data;
        }
        ck_assert_msg(!row->label || n >= 2, "%s: %zu values", row->name, n);
        while (n)
            free(seen[--n]);
        free(seen);
    }
}
END_TEST

START_TEST(no_label_is_a_customers) {
    for (int i = 0; i < METRIC_COUNT; i++) {
        const char *labels = metric_rows[i].labels;
        ck_assert_msg(!labels || (!strstr(labels, "family") && !strstr(labels, "customer") &&
                                  !strstr(labels, "event") && !strstr(labels, "app")),
                      "%s by %s", metric_rows[i].name, labels);
    }
}
END_TEST

/* ---- counters ---- */

static size_t lines_of(const char *all, const char *name) {
    size_t n = 0, len = strlen(name);
    for (const char *at = all; (at = strstr(at, name)); at++)
        n += (at == all || at[-1] == '\n') && (at[len] == ' ' || at[len] == '{');
    return n;
}

START_TEST(outcomes_are_shown_by_code) {
    const char *all = render(NULL);
    ck_assert_uint_eq(lines_of(all, "tallyd_events_total"), 4 + REJECT_SETTLEMENT_REJECTED);
    assert_line(all, "tallyd_events_total{outcome=\"ignored\"} 0");
    ck_assert_ptr_null(strstr(all, "open"));
    ck_assert_ptr_null(strstr(all, "NONE"));
    ck_assert_ptr_null(strstr(all, "{}"));
    metrics_add(m, METRIC_EVENTS, metric_outcome(OUTCOME_SETTLED, REJECT_NONE), 5);
    /* whatever code a record carries that wasn't rejected in the end */
    metrics_add(m, METRIC_EVENTS, metric_outcome(OUTCOME_SETTLED, REJECT_ID_CONFLICT), 2);
    metrics_add(m, METRIC_EVENTS, metric_outcome(OUTCOME_REJECTED, REJECT_EVENT_TOO_LARGE), 1);
    metrics_add(m, METRIC_EVENTS, metric_outcome(OUTCOME_REJECTED, REJECT_SETTLEMENT_REJECTED), 3);
    all = render(NULL);
    assert_line(all, "# TYPE tallyd_events_total counter");
    assert_line(all, "tallyd_events_total{outcome=\"settled\"} 7");
    assert_line(all, "tallyd_events_total{outcome=\"rejected\",code=\"EVENT_TOO_LARGE\"} 1");
    assert_line(all, "tallyd_events_total{outcome=\"rejected\",code=\"SETTLEMENT_REJECTED\"} 3");
    assert_line(all, "tallyd_events_total{outcome=\"rejected\",code=\"ID_CONFLICT\"} 0");
    ck_assert_int_eq(metrics_total(m, METRIC_EVENTS), 11);
}
END_TEST

START_TEST(the_broker_acknowledges_every_code) {
    const char *all = render(NULL);
    ck_assert_uint_eq(lines_of(all, "tallyd_dlt_records_total"), REJECT_SETTLEMENT_REJECTED);
    metrics_add(m, METRIC_DLT, REJECT_NOT_A_MEMBER, 2);
    assert_line(render(NULL), "tallyd_dlt_records_total{code=\"NOT_A_MEMBER\"} 2");
}
END_TEST

START_TEST(decisions_are_shown_by_status) {
    const char *all = render(NULL);
    assert_line(all, "tallyd_decisions_total{status=\"NORMAL\"} 0");
    assert_line(all, "tallyd_decisions_total{status=\"FAMILY_QUOTA_EXCEEDED\"} 0");
    ck_assert_ptr_null(strstr(all, "WARNING"));
    ck_assert_uint_eq(lines_of(all, "tallyd_decisions_total"), 6);
    metrics_expect(m, METRIC_DECISIONS, metric_decision(STATUS_WARNING, 10));
    assert_line(render(NULL), "tallyd_decisions_total{status=\"WARNING_10\"} 0");
    metrics_add(m, METRIC_DECISIONS, metric_decision(STATUS_WARNING, 1), 1);
    metrics_add(m, METRIC_DECISIONS, metric_decision(STATUS_WARNING, 99), 2);
    metrics_add(m, METRIC_DECISIONS, metric_decision(STATUS_NORMAL, 0), 3);
    all = render(NULL);
    assert_line(all, "tallyd_decisions_total{status=\"WARNING_1\"} 1");
    assert_line(all, "tallyd_decisions_total{status=\"WARNING_99\"} 2");
    assert_line(all, "tallyd_decisions_total{status=\"NORMAL\"} 3");
    ck_assert_uint_eq(lines_of(all, "tallyd_decisions_total"), 9);
}
END_TEST

START_TEST(alerts_are_shown_by_kind) {
    static const char *const names[] = {
        [STATUS_WARNING] = "THRESHOLD",
        [STATUS_MANUAL] = "MANUAL",
        [STATUS_APP_BLOCK] = "APP_BLOCK",
        [STATUS_TIME_BLOCK] = "TIME_BLOCK",
        [STATUS_MONTHLY_LIMIT_EXCEEDED] = "MONTHLY_LIMIT_EXCEEDED",
        [STATUS_FAMILY_QUOTA_EXCEEDED] = "FAMILY_QUOTA_EXCEEDED",
    };
    for (int s = STATUS_WARNING; s <= STATUS_FAMILY_QUOTA_EXCEEDED; s++) {
        char line[80];
        metrics_add(m, METRIC_ALERTS, metric_alert((enum decision_status)s), s);
        snprintf(line, sizeof line, "tallyd_alerts_total{kind=\"%s\"} %d", names[s], s);
        assert_line(render(NULL), line);
    }
    ck_assert_uint_eq(lines_of(render(NULL), "tallyd_alerts_total"), 6);
}
END_TEST

START_TEST(requests_are_shown_once_they_were) {
    ck_assert_ptr_null(strstr(render(NULL), "tallyd_http_requests_total"));
    metrics_add(m, METRIC_HTTP_REQUESTS, metric_http(1, 200), 1);
    metrics_add(m, METRIC_HTTP_REQUESTS, metric_http(3, 503), 1);
    metrics_add(m, METRIC_HTTP_REQUESTS, metric_http(77, 418), 1); /* neither is known */
    const char *all = render(NULL);
    assert_line(all, "tallyd_http_requests_total{path=\"/metrics\",code=\"200\"} 1");
    assert_line(all, "tallyd_http_requests_total{path=\"/readyz\",code=\"503\"} 1");
    assert_line(all, "tallyd_http_requests_total{path=\"other\",code=\"500\"} 1");
    ck_assert_uint_eq(lines_of(all, "tallyd_http_requests_total"), 3);
}
END_TEST

START_TEST(labels_add_up_at_once) {
    int64_t n[METRIC_OUTCOMES] = {0};
    n[metric_outcome(OUTCOME_BLOCKED, REJECT_NONE)] = 4;
    n[metric_outcome(OUTCOME_REJECTED, REJECT_SETTLEMENT_REJECTED)] = 1;
    metrics_add_each(m, METRIC_EVENTS, n);
    metrics_add_each(m, METRIC_EVENTS, n);
    ck_assert_int_eq(metrics_get(m, METRIC_EVENTS, metric_outcome(OUTCOME_BLOCKED, REJECT_NONE)), 8);
    ck_assert_int_eq(metrics_total(m, METRIC_EVENTS), 10);
    ck_assert_uint_eq(metric_rows[METRIC_EVENTS].count, METRIC_OUTCOMES);
    ck_assert_uint_eq(metric_rows[METRIC_DECISIONS].count, METRIC_STATUSES);
}
END_TEST

/* ---- histograms ---- */

START_TEST(buckets_are_cumulative) {
    metrics_observe(m, METRIC_BATCH_EVENTS, 1);
    metrics_observe(m, METRIC_BATCH_EVENTS, 2); /* a bound belongs to its bucket */
    metrics_observe(m, METRIC_BATCH_EVENTS, 3);
    metrics_observe(m, METRIC_BATCH_EVENTS, 10001);
    metrics_observe(m, METRIC_BATCH_EVENTS, -5); /* counts as 0 */
    const char *all = render(NULL);
    assert_line(all, "# TYPE tallyd_batch_events histogram");
    assert_line(all, "tallyd_batch_events_bucket{le=\"1\"} 2");
    assert_line(all, "tallyd_batch_events_bucket{le=\"2\"} 3");
    assert_line(all, "tallyd_batch_events_bucket{le=\"5\"} 4");
    assert_line(all, "tallyd_batch_events_bucket{le=\"10000\"} 4");
    assert_line(all, "tallyd_batch_events_bucket{le=\"+Inf\"} 5");
    assert_line(all, "tallyd_batch_events_sum 10007");
    assert_line(all, "tallyd_batch_events_count 5");
    ck_assert_int_eq(metrics_total(m, METRIC_BATCH_EVENTS), 5);
}
END_TEST

START_TEST(seconds_are_shown_of_microseconds) {
    metrics_observe(m, METRIC_SCRIPT_DURATION, 250);
    metrics_observe(m, METRIC_SCRIPT_DURATION, 1500000);
    const char *all = render(NULL);
    assert_line(all, "tallyd_script_duration_seconds_bucket{le=\"0.0001\"} 0");
    assert_line(all, "tallyd_script_duration_seconds_bucket{le=\"0.00025\"} 1");
    assert_line(all, "tallyd_script_duration_seconds_bucket{le=\"1\"} 1");
    assert_line(all, "tallyd_script_duration_seconds_bucket{le=\"2.5\"} 2");
    assert_line(all, "tallyd_script_duration_seconds_sum 1.50025");
    assert_line(all, "tallyd_script_duration_seconds_count 2");
}
END_TEST

START_TEST(years_of_millions_of_events_fit) {
    const int64_t year_us = INT64_C(365) * 86400 * 1000000;
    struct metric_histogram h = {0};
    for (int i = 0; i < 1000; i++)
        metric_histogram_add(&h, METRIC_COMMIT_LATENCY, year_us);
    for (int i = 0; i < 10000; i++)
        metrics_merge(m, METRIC_COMMIT_LATENCY, &h);
    const char *all = render(NULL);
    assert_line(all, "tallyd_commit_latency_seconds_count 10000000");
    assert_line(all, "tallyd_commit_latency_seconds_sum 315360000000000");
    assert_line(all, "tallyd_commit_latency_seconds_bucket{le=\"3600\"} 0");
}
END_TEST

START_TEST(gathered_measurements_are_the_same) {
    struct metric_histogram h = {0}, one, other;
    struct metrics *each = metrics_new();
    uint64_t seed = testing_seed();
    for (int i = 0; i < 1000; i++) {
        int64_t value = testing_between(&seed, -10, 100000000);
        metric_histogram_add(&h, METRIC_PUBLISH_LATENCY, value);
        metrics_observe(each, METRIC_PUBLISH_LATENCY, value);
    }
    metrics_merge(m, METRIC_PUBLISH_LATENCY, &h);
    metrics_histogram(m, METRIC_PUBLISH_LATENCY, &one);
    metrics_histogram(each, METRIC_PUBLISH_LATENCY, &other);
    ck_assert_mem_eq(&one, &other, sizeof one);
    ck_assert_int_eq(one.count, 1000);
    metrics_free(each);
}
END_TEST

START_TEST(quantiles_are_of_a_window) {
    struct metric_histogram before, now;
    metrics_histogram(m, METRIC_BATCH_EVENTS, &before);
    ck_assert(metrics_quantile(METRIC_BATCH_EVENTS, &before, &before, 0.5) < 0);
    for (int i = 0; i < 100; i++)
        metrics_observe(m, METRIC_BATCH_EVENTS, 1);
    metrics_histogram(m, METRIC_BATCH_EVENTS, &before);
    for (int i = 0; i < 50; i++)
        metrics_observe(m, METRIC_BATCH_EVENTS, 20); /* 10 … 25 */
    for (int i = 0; i < 50; i++)
        metrics_observe(m, METRIC_BATCH_EVENTS, 200); /* 100 … 250 */
    metrics_histogram(m, METRIC_BATCH_EVENTS, &now);
    ck_assert_double_eq_tol(metrics_quantile(METRIC_BATCH_EVENTS, &before, &now, 0.25), 17.5, 1e-9);
    ck_assert_double_eq_tol(metrics_quantile(METRIC_BATCH_EVENTS, &before, &now, 0.5), 25, 1e-9);
    ck_assert_double_eq_tol(metrics_quantile(METRIC_BATCH_EVENTS, &before, &now, 0.75), 175, 1e-9);
    ck_assert_double_eq_tol(metrics_quantile(METRIC_BATCH_EVENTS, &before, &now, 1), 250, 1e-9);
    ck_assert_double_eq_tol(metrics_quantile(METRIC_BATCH_EVENTS, &before, &now, 0), 10, 1e-9);
    metrics_observe(m, METRIC_BATCH_EVENTS, 1000000);
    before = now;
    metrics_histogram(m, METRIC_BATCH_EVENTS, &now);
    ck_assert_double_eq_tol(metrics_quantile(METRIC_BATCH_EVENTS, &before, &now, 0.5), 10000, 1e-9);
}
END_TEST

/* ---- samples and text ---- */

START_TEST(samples_stand_under_their_metric) {
    struct metrics_samples samples = {0};
    ck_assert_ptr_null(strstr(render(&samples), "tallyd_partition_lag")); /* nothing without a value */
    metrics_sample(&samples, METRIC_LAG, "partition=\"0\"", 12);
    metrics_sample(&samples, METRIC_OUTBOX_AGE, "", 1.25);
    metrics_sample(&samples, METRIC_LAG, "partition=\"1\"", 9007199254740991.0);
    metrics_sample(&samples, METRIC_PROCESS_START, "", 1796000000.125);
    metrics_sample(&samples, METRIC_OUTBOX_PENDING, "", NAN);
    metrics_sample(&samples, METRIC_OUTBOX_FAILED, "", -HUGE_VAL);
    const char *all = render(&samples);
    ck_assert_ptr_nonnull(strstr(all, "# TYPE tallyd_partition_lag gauge\n"
                                      "tallyd_partition_lag{partition=\"0\"} 12\n"
                                      "tallyd_partition_lag{partition=\"1\"} 9007199254740991\n#"));
    assert_line(all, "tallyd_outbox_oldest_age_seconds 1.25");
    assert_line(all, "process_start_time_seconds 1796000000.125");
    assert_line(all, "tallyd_outbox_pending NaN");
    assert_line(all, "tallyd_outbox_failed -Inf");
    metrics_samples_free(&samples);
    ck_assert_uint_eq(samples.count, 0);
}
END_TEST

START_TEST(every_metric_comes_once_under_its_head) {
    struct metrics_samples samples = {0};
    for (int i = 0; i < METRIC_COUNT; i++) {
        if (metric_rows[i].kind == METRIC_GAUGE || metric_rows[i].count == 0)
            metrics_sample(&samples, (enum metric)i, "", i);
    }
    metrics_add(m, METRIC_HTTP_REQUESTS, 0, 1);
    const char *all = render(&samples);
    for (int i = 0; i < METRIC_COUNT; i++) {
        char head[300];
        snprintf(head, sizeof head, "# HELP %s %s", metric_rows[i].name, metric_rows[i].help);
        assert_line(all, head);
        snprintf(head, sizeof head, "# TYPE %s ", metric_rows[i].name);
        ck_assert_ptr_nonnull(strstr(all, head));
        ck_assert_ptr_null(strstr(strstr(all, head) + 1, head));
    }
    ck_assert(all[strlen(all) - 1] == '\n');
    metrics_samples_free(&samples);
}
END_TEST

START_TEST(label_values_are_escaped) {
    struct buf out = {0};
    metrics_label_value(&out, "a\"b\\c\nd é");
    ck_assert_str_eq(out.data, "a\\\"b\\\\c\\nd é");
    buf_free(&out);
}
END_TEST

static char printed[20000];

static const char *print_table(bool markdown) {
    FILE *f = fmemopen(printed, sizeof printed, "w");
    ck_assert_ptr_nonnull(f);
    metrics_print_table(f, markdown);
    fclose(f);
    return printed;
}

START_TEST(the_table_is_printed) {
    const char *rows = print_table(true);
    assert_line(rows, "| metric | kind | labels | means |");
    assert_line(rows, "| `tallyd_alerts_total` | counter | kind | Alerts stored, each with its outbox row |");
    assert_line(
        rows,
        "| `tallyd_outbox_pending` | gauge |  | Outbox rows that wait to be published, of all processes |");
    size_t lines = 0;
    for (const char *at = rows; (at = strchr(at, '\n')); at++)
        lines++;
    ck_assert_uint_eq(lines, METRIC_COUNT + 2);
    const char *page = print_table(false);
    assert_line(page, "tallyd_events_total (counter, by outcome, code)");
    assert_line(page, "tallyd_batch_events (histogram)");
    assert_line(page, "  Alerts stored, each with its outbox row");
}
END_TEST

/* ---- threads ---- */

#define THREADS 8
#define ROUNDS 20000

static void *count_much(void *arg) {
    (void)arg;
    struct metric_histogram h = {0};
    for (int i = 0; i < ROUNDS; i++) {
        metrics_add(m, METRIC_FENCED, 0, 1);
        metrics_add(m, METRIC_DECISIONS, (size_t)i % 3 + METRIC_STATUSES - 99, 2);
        metrics_observe(m, METRIC_BATCH_EVENTS, i % 4);
        metric_histogram_add(&h, METRIC_BATCH_EVENTS, 7);
    }
    metrics_merge(m, METRIC_BATCH_EVENTS, &h);
    return NULL;
}

START_TEST(many_threads_lose_nothing) {
    pthread_t threads[THREADS];
    struct metric_histogram h;
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_much, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        render(NULL); /* looked at meanwhile */
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_int_eq(metrics_get(m, METRIC_FENCED, 0), THREADS * ROUNDS);
    ck_assert_int_eq(metrics_total(m, METRIC_DECISIONS), THREADS * ROUNDS * 2);
    metrics_histogram(m, METRIC_BATCH_EVENTS, &h);
    ck_assert_int_eq(h.count, THREADS * ROUNDS * 2);
    const int64_t sum = (int64_t)THREADS * (ROUNDS / 4 * 6 + ROUNDS * 7);
    ck_assert_double_eq(h.sum, (double)sum);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("metrics");
    TCase *table = tcase_create("table"), *text_case = tcase_create("text"),
          *threads = tcase_create("threads");
    tcase_add_test(table, the_table_is_whole);
    tcase_add_test(table, bounds_ascend_and_fit);
    tcase_add_test(table, a_label_names_each_value_once);
    tcase_add_test(table, no_label_is_a_customers);
    tcase_add_checked_fixture(text_case, setup, teardown);
    tcase_add_test(text_case, outcomes_are_shown_by_code);
    tcase_add_test(text_case, the_broker_acknowledges_every_code);
    tcase_add_test(text_case, decisions_are_shown_by_status);
    tcase_add_test(text_case, alerts_are_shown_by_kind);
    tcase_add_test(text_case, requests_are_shown_once_they_were);
    tcase_add_test(text_case, labels_add_up_at_once);
    tcase_add_test(text_case, buckets_are_cumulative);
    tcase_add_test(text_case, seconds_are_shown_of_microseconds);
    tcase_add_test(text_case, years_of_millions_of_events_fit);
    tcase_add_test(text_case, gathered_measurements_are_the_same);
    tcase_add_test(text_case, quantiles_are_of_a_window);
    tcase_add_test(text_case, samples_stand_under_their_metric);
    tcase_add_test(text_case, every_metric_comes_once_under_its_head);
    tcase_add_test(text_case, label_values_are_escaped);
    tcase_add_test(text_case, the_table_is_printed);
    tcase_add_checked_fixture(threads, setup, teardown);
    tcase_set_timeout(threads, 60);
    tcase_add_test(threads, many_threads_lose_nothing);
    suite_add_tcase(suite, table);
    suite_add_tcase(suite, text_case);
    suite_add_tcase(suite, threads);
    return testing_run(suite);
}
