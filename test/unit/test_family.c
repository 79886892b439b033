/* SPDX-License-Identifier: MIT */
/* A month's figures at the edges of what the columns hold. Others write the totals, and MySQL takes any that
 * fits a BIGINT. */
#include "event.h"
#include "family_month.h"
#include "family_print.h"
#include "testing.h"

#include <stdlib.h>

static const struct {
    int64_t total, used, left, tenths;
    int threshold;
} months[] = {
    {1000, 600, 400, 400, 50},
    {1000, 1000, 0, 0, 10},
    {1000, 1001, -1, 0, 10},
    {0, 0, 0, 0, 10},
    {0, INT64_MAX, -INT64_MAX, 0, 10},
    {3, 1, 2, 666, 0}, /* cut, not rounded */
    {EVENT_AMOUNT_MAX, 0, EVENT_AMOUNT_MAX, 1000, 0},
    {EVENT_AMOUNT_MAX, EVENT_AMOUNT_MAX / 2 + 1, EVENT_AMOUNT_MAX / 2, 499, 50},
    {EVENT_AMOUNT_MAX + 2, 0, EVENT_AMOUNT_MAX + 2, 1000, 0},
    {INT64_MAX / 1000 + 1, 0, INT64_MAX / 1000 + 1, 1000, 0},
    {INT64_MAX / 100 + 1, INT64_MAX / 100, 1, 0, 10},
    {INT64_MAX, 0, INT64_MAX, 1000, 0},
    {INT64_MAX, 1, INT64_MAX - 1, 999, 0},
    {INT64_MAX, INT64_MAX / 2 + 1, INT64_MAX / 2, 499, 50},
    {INT64_MAX, INT64_MAX / 2, INT64_MAX / 2 + 1, 500, 0},
    {INT64_MAX, INT64_MAX, 0, 0, 10},
    {1, INT64_MAX, 1 - INT64_MAX, 0, 10},
    /* what no CHECK would let in: not right, but not undefined */
    {INT64_MAX, -1, INT64_MAX, 1000, 0},
    {INT64_MIN, 1, INT64_MIN, 0, 10},
    {1, INT64_MIN, INT64_MAX, INT64_MAX, 0},
    {-5, INT64_MIN, INT64_MAX - 4, 0, 0},
};

START_TEST(figures_are_exact_as_far_as_a_column_goes) {
    struct config cfg = {.thresholds = {10, 30, 50}, .threshold_count = 3};
    struct family_month m = {.total = months[_i].total, .used = months[_i].used};
    ck_assert_int_eq(family_left(&m), months[_i].left);
    ck_assert_int_eq(family_tenths_left(m.total, family_left(&m)), months[_i].tenths);
    ck_assert_int_eq(family_threshold(&cfg, m.total, family_left(&m)), months[_i].threshold);
}
END_TEST

static const struct {
    int64_t redis, mysql;
    const char *difference;
} differences[] = {
    {5, 3, "2"},
    {3, 5, "-2"},
    {0, 0, "0"},
    {INT64_MAX, 0, "9223372036854775807"},
    {INT64_MIN, 0, "-9223372036854775808"},
    {INT64_MAX, -1, "9223372036854775808"},
    {INT64_MAX, INT64_MIN, "18446744073709551615"},
    {INT64_MIN, INT64_MAX, "-18446744073709551615"},
    {INT64_MIN, INT64_MIN, "0"},
};

/* Redis may hold any number, if others write there. */
START_TEST(differences_are_exact_whatever_redis_holds) {
    char text[FAMILY_DIFFERENCE_SIZE];
    int64_t redis = differences[_i].redis, mysql = differences[_i].mysql;
    family_difference(text, redis, mysql);
    ck_assert_str_eq(text, differences[_i].difference);
    json_t *o = print_figure_json(FAMILY_CACHE_DIFFERS, true, redis, mysql);
    const json_t *d = json_object_get(o, "difference");
    ck_assert(json_is_number(d));
    ck_assert(json_number_value(d) == strtod(differences[_i].difference, NULL));
    ck_assert(!json_is_integer(d) || json_integer_value(d) == strtoll(differences[_i].difference, NULL, 10));
    json_decref(o);
}
END_TEST

static const struct {
    int64_t total;
    bool usable;
} totals[] = {{0, true},          {1, true},   {EVENT_AMOUNT_MAX, true}, {EVENT_AMOUNT_MAX + 1, false},
              {INT64_MAX, false}, {-1, false}, {INT64_MIN, false}};

START_TEST(knows_totals_that_decide_nothing) {
    ck_assert_int_eq(family_total_decides(totals[_i].total), totals[_i].usable);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("family");
    TCase *tc = tcase_create("figures");
    tcase_add_loop_test(tc, figures_are_exact_as_far_as_a_column_goes, 0, TESTING_LENGTH(months));
    tcase_add_loop_test(tc, differences_are_exact_whatever_redis_holds, 0, TESTING_LENGTH(differences));
    tcase_add_loop_test(tc, knows_totals_that_decide_nothing, 0, TESTING_LENGTH(totals));
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
