/* SPDX-License-Identifier: MIT */
/* The measuring tool's own arithmetic: percentiles, CPU by event, and its set. */
#include <signal.h>
#include <sys/wait.h>

#include "../support/bench_meter.h"
#include "testing.h"

static double member(const json_t *o, const char *name) {
    const json_t *v = json_object_get(o, name);
    ck_assert_msg(json_is_number(v), "%s isn't a number", name);
    return json_number_value(v);
}

/* Of 1 … n milliseconds, shuffled. */
static void expect_percentiles(int64_t n, double p50, double p95, double p99, double max) {
    struct bench_times t = {0};
    for (int64_t i = 0; i < n; i++)
        bench_times_add(&t, ((i * 7919 % n) + 1) * 1000000);
    json_t *o = bench_times_json(&t);
    ck_assert_int_eq((int64_t)member(o, "count"), n);
    ck_assert_double_eq(member(o, "p50Ms"), p50);
    ck_assert_double_eq(member(o, "p95Ms"), p95);
    ck_assert_double_eq(member(o, "p99Ms"), p99);
    ck_assert_double_eq(member(o, "maxMs"), max);
    json_decref(o);
    bench_times_free(&t);
}

START_TEST(percentiles_are_exact) {
    expect_percentiles(1, 1, 1, 1, 1);
    expect_percentiles(2, 1, 2, 2, 2);
    expect_percentiles(3, 2, 3, 3, 3);
    expect_percentiles(100, 50, 95, 99, 100);
    expect_percentiles(101, 51, 96, 100, 101);
    expect_percentiles(10000, 5000, 9500, 9900, 10000);
}
END_TEST

START_TEST(of_nothing_there_is_none) {
    struct bench_times t = {0};
    json_t *o = bench_times_json(&t);
    ck_assert_int_eq((int64_t)member(o, "count"), 0);
    ck_assert(json_is_null(json_object_get(o, "p50Ms")));
    ck_assert(json_is_null(json_object_get(o, "maxMs")));
    json_decref(o);
}
END_TEST

/* A child that has used CPU before it's measured, and uses some more in the second of two stretches. */
START_TEST(stretches_add_up) {
    int idle[2];
    struct error err = {0};
    ck_assert_int_eq(pipe(idle), 0);
    pid_t child = fork();
    if (child == 0) {
        volatile uint64_t spun = 0;
        while (clock() < CLOCKS_PER_SEC / 10)
            spun++;
        ck_assert_int_eq(write(idle[1], "x", 1), 1);
        for (;;)
            pause();
    }
    const struct bench_options o = {.pids = {{"child", child}}, .pid_count = 1};
    struct bench_meter from_start = {.options = &o}, later = {.options = &o};
    char byte;
    ck_assert(bench_meter_start(&from_start, &err));
    ck_assert_int_eq(read(idle[0], &byte, 1), 1);
    ck_assert(bench_meter_stop(&from_start, &err));
    ck_assert(bench_meter_start(&later, &err) && bench_meter_stop(&later, &err));
    ck_assert(bench_meter_start(&later, &err) && bench_meter_stop(&later, &err));
    ck_assert_int_ge(from_start.us[0], 50000);
    ck_assert_int_le(later.us[0], 10000); /* a tick may end meanwhile */
    json_t *cpu = bench_meter_cpu_json(&from_start, 1000);
    ck_assert_double_eq(member(cpu, "child"), (double)from_start.us[0] / 1000);
    ck_assert(json_object_get(cpu, "self") != NULL);
    json_decref(cpu);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ck_assert(!bench_meter_start(&later, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "child"));
}
END_TEST

START_TEST(a_set_knows_what_it_holds) {
    struct bench_set s = {0};
    for (int64_t i = 0; i < 20000; i++)
        testing_require(bench_set_add(&s, bench_hash(&i, sizeof i)), "%d is new", (int)i);
    for (int64_t i = 0; i < 20000; i++)
        testing_require(!bench_set_add(&s, bench_hash(&i, sizeof i)), "%d is there", (int)i);
    ck_assert_uint_eq(s.count, 20000);
    ck_assert(bench_hash("a", 1) != bench_hash("b", 1) && bench_hash("", 0) != 0);
    bench_set_free(&s);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bench");
    TCase *tc = tcase_create("bench");
    tcase_add_test(tc, percentiles_are_exact);
    tcase_add_test(tc, of_nothing_there_is_none);
    tcase_add_test(tc, stretches_add_up);
    tcase_add_test(tc, a_set_knows_what_it_holds);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
