/* SPDX-License-Identifier: MIT */
#include "table.h"

#include "testing.h"

static char printed[4096];

static const char *print(const struct table *t) {
    FILE *f = fmemopen(printed, sizeof printed, "w");
    ck_assert_ptr_nonnull(f);
    table_print(t, f);
    fclose(f);
    return printed;
}

START_TEST(aligns_text_to_the_left_and_figures_to_the_right) {
    struct table *t = table_new("name", "bytes>", "state", NULL);
    table_text(t, "a");
    table_i64(t, 1234567);
    table_text(t, "ok");
    table_text(t, "longer");
    table_i64(t, -1000);
    table_text(t, NULL);
    ck_assert_str_eq(print(t), "name        bytes  state\n"
                               "a       1,234,567  ok\n"
                               "longer     -1,000  -\n");
    table_free(t);
}
END_TEST

START_TEST(groups_no_digits_of_what_is_text) {
    struct table *t = table_new("family", "n>", NULL);
    table_i64(t, 100042);
    table_i64_if(t, false, 5);
    ck_assert_str_eq(print(t), "family  n\n100042  -\n");
    table_free(t);
}
END_TEST

START_TEST(counts_what_a_terminal_shows) {
    struct table *t = table_new("name", "x", NULL);
    table_text(t, "가족");
    table_text(t, "1");
    table_text(t, "é");
    table_text(t, "2");
    ck_assert_str_eq(print(t), "name  x\n가족  1\né     2\n");
    table_free(t);
}
END_TEST

START_TEST(shows_nothing_that_a_terminal_would_obey) {
    struct table *t = table_new("text", NULL);
    table_text(t, "a\x1b[2Jb\nc\xff"
                  "d");
    ck_assert_str_eq(print(t), "text\na?[2Jb?c?d\n");
    table_free(t);
}
END_TEST

START_TEST(shows_nothing_that_turns_a_line) {
    struct table *t = table_new("text", NULL);
    table_text(t, "a\xc2\x9b"
                  "b\xe2\x80\xae"
                  "c\xe2\x81\xa6"
                  "d\xe2\x80\xa8"
                  "e가");
    ck_assert_str_eq(print(t), "text\na?b?c?d?e가\n");
    table_free(t);
}
END_TEST

START_TEST(escapes_in_json_what_a_terminal_would_obey) {
    FILE *f = fmemopen(printed, sizeof printed, "w");
    ck_assert_ptr_nonnull(f);
    table_print_json(json_pack("[s]", "a\x1b\x7f\xc2\x9b\xe2\x80\xae\xf3\xa0\x80\x81\n가\""), f);
    fclose(f);
    ck_assert_str_eq(printed, "[\n \"a\\u001B\\u007f\\u009b\\u202e\\udb40\\udc01\\n가\\\"\"\n]\n");
}
END_TEST

START_TEST(prints_nothing_without_rows) {
    struct table *t = table_new("text", "other", NULL);
    table_text(t, "half a row");
    printed[0] = '\0';
    ck_assert_str_eq(print(t), "");
    table_free(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("table");
    TCase *tc = tcase_create("table");
    tcase_add_test(tc, aligns_text_to_the_left_and_figures_to_the_right);
    tcase_add_test(tc, groups_no_digits_of_what_is_text);
    tcase_add_test(tc, counts_what_a_terminal_shows);
    tcase_add_test(tc, shows_nothing_that_a_terminal_would_obey);
    tcase_add_test(tc, shows_nothing_that_turns_a_line);
    tcase_add_test(tc, escapes_in_json_what_a_terminal_would_obey);
    tcase_add_test(tc, prints_nothing_without_rows);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
