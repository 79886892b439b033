/* SPDX-License-Identifier: MIT */
#include "stop.h"

#include <stdatomic.h>

#include "clock.h"
#include "testing.h"

#define FAR_MS 3600000

static struct stop s;
static atomic_int rounds;

static void *works(void *arg) {
    bool often = *(bool *)arg;
    do
        atomic_fetch_add(&rounds, 1);
    while (!stop_asked_by(&s, clock_monotonic_ms() + (often ? 0 : FAR_MS)));
    stop_done(&s);
    return NULL;
}

static void end_of(bool often) {
    pthread_t thread;
    atomic_store(&rounds, 0);
    stop_init(&s);
    ck_assert_int_eq(pthread_create(&thread, NULL, works, &often), 0);
    while (atomic_load(&rounds) < (often ? 2 : 1))
        clock_sleep_ms(1);
    ck_assert(!stop_wait(&s, clock_monotonic_ms())); /* nobody asked */
    stop_ask(&s);
    ck_assert(stop_wait(&s, clock_monotonic_ms() + FAR_MS));
    pthread_join(thread, NULL);
    ck_assert(often || atomic_load(&rounds) == 1);
    stop_deinit(&s);
}

START_TEST(test_a_pause_ends_when_asked) {
    end_of(false);
}
END_TEST

START_TEST(test_work_goes_on_until_asked) {
    end_of(true);
}
END_TEST

START_TEST(test_what_was_before_holds) {
    stop_init(&s);
    ck_assert(!stop_asked_by(&s, 0));
    ck_assert(!stop_wait(&s, 0));
    stop_ask(&s);
    stop_done(&s);
    ck_assert(stop_asked_by(&s, 0));
    ck_assert(stop_wait(&s, 0));
    stop_deinit(&s);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("stop");
    TCase *tc = tcase_create("stop");
    tcase_add_test(tc, test_a_pause_ends_when_asked);
    tcase_add_test(tc, test_work_goes_on_until_asked);
    tcase_add_test(tc, test_what_was_before_holds);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
