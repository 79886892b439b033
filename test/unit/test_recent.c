/* SPDX-License-Identifier: MIT */
/* The rings of the last alerts and rejections. */
#include "recent.h"

#include <pthread.h>

#include "testing.h"

static struct recent *r;

static void setup(void) {
    r = recent_new();
}

static void teardown(void) {
    recent_free(r);
}

static void add(enum recent_kind kind, int64_t number) {
    struct recent_item item = {.at_ms = number, .family_id = number * 2, .offset = number};
    snprintf(item.what, sizeof item.what, "what-%d", (int)number);
    recent_add(r, kind, &item);
}

START_TEST(the_newest_come_first) {
    struct recent_item out[RECENT_MAX];
    ck_assert_uint_eq(recent_list(r, RECENT_ALERT, out, RECENT_MAX), 0);
    for (int i = 1; i <= 3; i++)
        add(RECENT_ALERT, i);
    ck_assert_uint_eq(recent_list(r, RECENT_ALERT, out, RECENT_MAX), 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(out[i].at_ms, 3 - i);
        ck_assert_int_eq(out[i].family_id, 2 * (3 - i));
    }
    ck_assert_str_eq(out[0].what, "what-3");
    ck_assert_uint_eq(recent_list(r, RECENT_ALERT, out, 2), 2);
    ck_assert_int_eq(out[1].at_ms, 2);
    ck_assert_uint_eq(recent_list(r, RECENT_ALERT, out, 0), 0);
}
END_TEST

START_TEST(the_oldest_go) {
    struct recent_item out[RECENT_MAX + 5];
    for (int i = 1; i <= 3 * RECENT_MAX + 7; i++) {
        add(RECENT_REJECTION, i);
        size_t n = recent_list(r, RECENT_REJECTION, out, RECENT_MAX + 5);
        ck_assert_uint_eq(n, i < RECENT_MAX ? (size_t)i : RECENT_MAX);
        for (size_t k = 0; k < n; k++)
            ck_assert_int_eq(out[k].at_ms, i - (int)k);
    }
}
END_TEST

START_TEST(kinds_are_kept_apart) {
    struct recent_item out[RECENT_MAX];
    add(RECENT_ALERT, 1);
    for (int i = 0; i < 2 * RECENT_MAX; i++)
        add(RECENT_REJECTION, 100 + i);
    ck_assert_uint_eq(recent_list(r, RECENT_ALERT, out, RECENT_MAX), 1);
    ck_assert_int_eq(out[0].at_ms, 1);
    ck_assert_uint_eq(recent_list(r, RECENT_REJECTION, out, RECENT_MAX), RECENT_MAX);
}
END_TEST

static void *add_many(void *arg) {
    (void)arg;
    for (int i = 1; i <= 5000; i++)
        add(RECENT_ALERT, i);
    return NULL;
}

START_TEST(items_are_whole_while_others_add) {
    pthread_t threads[4];
    struct recent_item out[RECENT_MAX];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_many, NULL), 0);
    for (int look = 0; look < 2000; look++) {
        size_t n = recent_list(r, RECENT_ALERT, out, RECENT_MAX);
        for (size_t i = 0; i < n; i++) {
            char what[64];
            snprintf(what, sizeof what, "what-%d", (int)out[i].at_ms);
            testing_require(strcmp(what, out[i].what) == 0 && out[i].family_id == out[i].at_ms * 2,
                            "%s beside %s", out[i].what, what);
        }
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(recent_list(r, RECENT_ALERT, out, RECENT_MAX), RECENT_MAX);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("recent");
    TCase *tc = tcase_create("recent");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, the_newest_come_first);
    tcase_add_test(tc, the_oldest_go);
    tcase_add_test(tc, kinds_are_kept_apart);
    tcase_add_test(tc, items_are_whole_while_others_add);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
