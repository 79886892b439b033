/* SPDX-License-Identifier: MIT */
/* What a reading of the dead letter topic keeps: counts of each code, the newest records whatever the order
 * they come in, and no more than its bounds. */
#include "dlt_survey.h"

#include "testing.h"

static struct dlt_survey s;

static struct dlt_record record(const char *code, int64_t time_ms, int32_t partition, int64_t offset) {
    struct dlt_record r = {.partition = partition, .offset = offset, .time_ms = time_ms};
    snprintf(r.code, sizeof r.code, "%s", code);
    return r;
}

static void add(const char *code, int64_t time_ms, int64_t offset, bool again, const char *obstacle) {
    struct dlt_record r = record(code, time_ms, 0, offset);
    dlt_survey_add(&s, &r, again, obstacle);
}

static void is(const struct dlt_code_count *c, const char *code, int64_t records, int64_t again,
               int64_t cannot, int64_t oldest_ms, int64_t newest_ms) {
    ck_assert_str_eq(c->code, code);
    ck_assert_int_eq(c->records, records);
    ck_assert_int_eq(c->rejected_again, again);
    ck_assert_int_eq(c->cannot, cannot);
    ck_assert_int_eq(c->oldest_ms, oldest_ms);
    ck_assert_int_eq(c->newest_ms, newest_ms);
}

START_TEST(counts_by_code) {
    dlt_survey_init(&s, 0);
    add("B", 20, 1, false, NULL);
    add("A", 30, 2, true, NULL);
    add("B", 10, 3, false, "cut");
    add("B", 15, 4, true, NULL);
    dlt_survey_sort(&s);
    ck_assert_uint_eq(s.code_count, 2);
    is(&s.codes[0], "A", 1, 1, 0, 30, 30);
    is(&s.codes[1], "B", 3, 1, 1, 10, 20);
    ck_assert_int_eq(s.records, 4);
    ck_assert_int_eq(s.rejected_again, 2);
    ck_assert_int_eq(s.cannot, 1);
    ck_assert_uint_eq(s.named_count, 1);
    ck_assert_int_eq(s.named[0].offset, 3);
    ck_assert_str_eq(s.named[0].why, "cut");
    ck_assert_uint_eq(s.row_count, 0);
    dlt_survey_free(&s);
}
END_TEST

START_TEST(keeps_the_newest_in_any_order) {
    for (int order = 0; order < 200; order++) {
        int64_t times[40];
        dlt_survey_init(&s, 7);
        for (int64_t i = 0; i < 40; i++)
            times[i] = i;
        for (int i = 39; i > 0; i--) { /* another order each time, the same in each run */
            int k = (i * 7919 + order * 104729) % (i + 1);
            int64_t kept = times[i];
            times[i] = times[k];
            times[k] = kept;
        }
        for (int i = 0; i < 40; i++)
            add("A", times[i], times[i], false, NULL);
        dlt_survey_sort(&s);
        ck_assert_uint_eq(s.row_count, 7);
        for (int64_t i = 0; i < 7; i++)
            ck_assert_int_eq(s.rows[i].time_ms, 33 + i);
        dlt_survey_free(&s);
    }
}
END_TEST

START_TEST(orders_equal_times_by_place) {
    static const struct {
        int32_t partition;
        int64_t offset;
    } places[] = {{1, 5}, {0, 9}, {1, 4}, {0, 2}};
    dlt_survey_init(&s, 3);
    for (size_t i = 0; i < TESTING_LENGTH(places); i++) {
        struct dlt_record r = record("A", 1, places[i].partition, places[i].offset);
        dlt_survey_add(&s, &r, false, NULL);
    }
    dlt_survey_sort(&s);
    ck_assert_uint_eq(s.row_count, 3);
    ck_assert_int_eq(s.rows[0].offset, 9);
    ck_assert_int_eq(s.rows[1].offset, 4);
    ck_assert_int_eq(s.rows[2].offset, 5);
    dlt_survey_free(&s);
}
END_TEST

START_TEST(grows_with_nobodys_codes) {
    char code[16];
    dlt_survey_init(&s, 1);
    for (int i = 0; i < 200; i++) {
        snprintf(code, sizeof code, "CODE_%03d", i);
        add(code, i, i, false, "from another topic");
    }
    ck_assert_uint_eq(s.code_count, DLT_CODES_MAX);
    ck_assert_str_eq(s.codes[DLT_CODES_MAX - 1].code, "others");
    ck_assert_int_eq(s.codes[DLT_CODES_MAX - 1].records, 200 - DLT_CODES_MAX + 1);
    ck_assert_uint_eq(s.named_count, DLT_NAMED_MAX);
    ck_assert_int_eq(s.cannot, 200);
    dlt_survey_free(&s);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("dlt survey");
    TCase *tc = tcase_create("dlt survey");
    tcase_add_test(tc, counts_by_code);
    tcase_add_test(tc, keeps_the_newest_in_any_order);
    tcase_add_test(tc, orders_equal_times_by_place);
    tcase_add_test(tc, grows_with_nobodys_codes);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
