/* SPDX-License-Identifier: MIT */
#include "heartbeat.h"

#include <pthread.h>

#include "clock.h"
#include "testing.h"

static struct heartbeat_silence found[4];

static size_t silent(int64_t in_ms) {
    return heartbeat_silent(clock_monotonic_ms() + in_ms, 1000, found, TESTING_LENGTH(found));
}

START_TEST(test_silence) {
    heartbeat_beat(); /* nothing in a thread that isn't watched */
    ck_assert_uint_eq(silent(100000), 0);
    heartbeat_begin("worker", 7);
    ck_assert_uint_eq(silent(0), 0);
    ck_assert_uint_eq(silent(5000), 1);
    ck_assert_str_eq(found[0].thread, "worker-7");
    ck_assert_int_ge(found[0].for_ms, 4000);
    heartbeat_idle(); /* waits for work, for however long */
    ck_assert_uint_eq(silent(100000), 0);
    heartbeat_beat();
    ck_assert_uint_eq(silent(5000), 1);
    heartbeat_end();
    ck_assert_uint_eq(silent(100000), 0);
}
END_TEST

static void *other(void *arg) {
    heartbeat_begin(arg, -1);
    return NULL;
}

START_TEST(test_a_thread_beats_for_itself) {
    pthread_t thread;
    char name[] = "settler";
    ck_assert_int_eq(pthread_create(&thread, NULL, other, name), 0);
    pthread_join(thread, NULL); /* it ended without a word: that's silence too */
    heartbeat_begin("main", -1);
    heartbeat_beat();
    ck_assert_uint_eq(silent(5000), 2);
    ck_assert_str_eq(found[0].thread, "settler");
    ck_assert_str_eq(found[1].thread, "main");
    heartbeat_idle();
    ck_assert_uint_eq(silent(5000), 1);
}
END_TEST

START_TEST(test_room) {
    for (int i = 0; i < HEARTBEAT_THREADS_MAX + 10; i++) {
        pthread_t thread;
        char name[] = "t";
        ck_assert_int_eq(pthread_create(&thread, NULL, other, name), 0);
        pthread_join(thread, NULL);
    }
    heartbeat_begin("late", -1); /* isn't watched, and does no harm */
    heartbeat_beat();
    heartbeat_end();
    ck_assert_uint_eq(silent(5000), TESTING_LENGTH(found));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("heartbeat");
    TCase *tc = tcase_create("heartbeat");
    tcase_add_test(tc, test_silence);
    tcase_add_test(tc, test_a_thread_beats_for_itself);
    tcase_add_test(tc, test_room);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
