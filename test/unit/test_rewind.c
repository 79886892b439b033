/* SPDX-License-Identifier: MIT */
#include "rewind.h"

#include <stdlib.h>

#include "cli.h"
#include "period.h"
#include "testing.h"

#define NOW 1796080000000LL
#define HOUR 3600000LL

static const struct {
    const char *text;
    enum rewind_kind kind;
    int64_t value;
} targets[] = {
    {"earliest", REWIND_EARLIEST, 0},
    {"latest", REWIND_LATEST, 0},
    {"0", REWIND_OFFSET, 0},
    {"123456", REWIND_OFFSET, 123456},
    {"999999999999999999", REWIND_OFFSET, 999999999999999999},
    {"-90s", REWIND_TIME, NOW - 90000},
    {"-30m", REWIND_TIME, NOW - 30 * 60000},
    {"-24h", REWIND_TIME, NOW - 24 * HOUR},
    {"-7d", REWIND_TIME, NOW - 7 * 24 * HOUR},
    {"-0s", REWIND_TIME, NOW},
    {"2026-11-30T03:00:00Z", REWIND_TIME, 1796007600000},
    {"2026-11-30T12:00:00+09:00", REWIND_TIME, 1796007600000},
    {"2026-11-30T12:00", REWIND_TIME, 1796007600000}, /* in the zone */
    {"2026-11-30T12:00:00.250", REWIND_TIME, 1796007600250},
    {"2026-11-30", REWIND_TIME, 1796007600000 - 12 * HOUR}, /* its beginning in the zone */
    {"24h", REWIND_TIME, NOW - 24 * HOUR},
};

static const char *const no_targets[] = {
    "",
    "first",
    "Earliest",
    "earliest ",
    "-1",
    "-",
    "-h",
    "--24h",
    "+24h",
    "-24w",
    "-1.5h",
    "1e3",
    "1 000",
    " 5",
    "0x10",
    "now",
    "2026-11-3",
    "2026-1-300",
    "2026-02-30",
    "-2026-11-3",
    "24hs",
    "h",
    "s",
    "2026-11-31T12:00",
    "2026-11-30T25:00Z",
    "1969-12-31T00:00:00Z",
    "1000000000000000000000",
    "-999999999d",
    "-9999999999s",
};

START_TEST(reads_a_target) {
    struct rewind_target t;
    ck_assert_msg(rewind_target_parse(targets[_i].text, NOW, &t), "%s isn't read", targets[_i].text);
    ck_assert_msg(t.kind == targets[_i].kind, "%s: kind %d", targets[_i].text, t.kind);
    ck_assert_msg(t.kind < REWIND_OFFSET || t.value == targets[_i].value, "%s: %lld", targets[_i].text,
                  (long long)t.value);
}
END_TEST

START_TEST(refuses_what_is_no_target) {
    struct rewind_target t;
    ck_assert_msg(!rewind_target_parse(no_targets[_i], NOW, &t), "'%s' is read as kind %d, %lld",
                  no_targets[_i], t.kind, (long long)t.value);
}
END_TEST

static const struct {
    int64_t low, committed, next_offset;
    bool group_known;
    int64_t start;
} starts[] = {
    {0, 70, 70, true, 70},  /* caught up */
    {0, 60, 70, true, 60},  /* a crash, or a replay */
    {0, 80, 70, true, 70},  /* a database put back */
    {0, -1, 70, true, 70},  /* nothing is committed */
    {65, 60, 70, true, 65}, /* a replay whose beginning is gone */
    {90, 80, 70, true, 90}, /* what was never settled is gone */
    {0, 0, 70, true, 0},    /* from the beginning */
    {5, 70, -1, true, 5},   /* added to the topic since */
    {5, 70, -1, false, 70}, /* a new group, told where to begin */
    {5, 3, -1, false, 5},   /* told so of what is gone */
    {5, -1, -1, false, 5},  /* not told */
    {0, INT64_MAX, INT64_MAX - 1, true, INT64_MAX - 1},
};

START_TEST(knows_where_a_claim_starts) {
    ck_assert_int_eq(
        ledger_start(starts[_i].low, starts[_i].committed, starts[_i].next_offset, starts[_i].group_known),
        starts[_i].start);
}
END_TEST

static const struct {
    const char *text;
    bool ok;
    size_t count;
    int32_t last;
} lists[] = {
    {"0", true, 1, 0},           {"0,3,5", true, 3, 5},
    {"5,5,5", true, 1, 5},       {"999999999", true, 1, 999999999},
    {"", false, 0, 0},           {",", false, 0, 0},
    {"1,", false, 0, 0},         {",1", false, 0, 0},
    {"1,,2", false, 0, 0},       {"-1", false, 0, 0},
    {"1 2", false, 0, 0},        {"1;2", false, 0, 0},
    {"x", false, 0, 0},          {"1x", false, 0, 0},
    {"9999999999", false, 0, 0},
};

START_TEST(reads_partitions) {
    struct cli_partitions list = {0};
    bool ok = cli_partitions_add(&list, lists[_i].text);
    ck_assert_msg(ok == lists[_i].ok, "'%s'", lists[_i].text);
    if (ok) {
        ck_assert_uint_eq(list.count, lists[_i].count);
        ck_assert_int_eq(list.ids[list.count - 1], lists[_i].last);
        ck_assert(cli_partitions_has(&list, lists[_i].last));
        ck_assert(!cli_partitions_has(&list, 17));
    }
    free(list.ids);
}
END_TEST

START_TEST(no_list_means_all) {
    struct cli_partitions list = {0};
    ck_assert(cli_partitions_has(&list, 17));
}
END_TEST

int main(void) {
    struct error err = {0};
    if (!period_zone_init("Asia/Seoul", &err))
        return EXIT_FAILURE;
    Suite *suite = suite_create("rewind");
    TCase *tc = tcase_create("arguments");
    tcase_add_loop_test(tc, reads_a_target, 0, TESTING_LENGTH(targets));
    tcase_add_loop_test(tc, refuses_what_is_no_target, 0, TESTING_LENGTH(no_targets));
    tcase_add_loop_test(tc, reads_partitions, 0, TESTING_LENGTH(lists));
    tcase_add_test(tc, no_list_means_all);
    tcase_add_loop_test(tc, knows_where_a_claim_starts, 0, TESTING_LENGTH(starts));
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
