/* SPDX-License-Identifier: MIT */
#include "period.h"

#include <inttypes.h>
#include <pthread.h>

#include "testing.h"

#define DAY_MS INT64_C(86400000)

static void use_zone(const char *zone) {
    struct error err = {0};
    ck_assert_msg(period_zone_init(zone, &err), "%s: %s", zone, err.text);
}

static int64_t at(const char *text) {
    int64_t t_ms;
    ck_assert_msg(period_parse(text, strlen(text), &t_ms), "%s isn't read", text);
    return t_ms;
}

static void check_timestamp(const char *where, char *line) {
    char *rest = line;
    const char *zone = strsep(&rest, "\t"), *text = strsep(&rest, "\t");
    const char *expected = strsep(&rest, "\t"), *shown = rest;
    ck_assert_msg(expected != NULL, "%s: four fields are needed", where);
    use_zone(zone);
    int64_t t_ms = 0;
    char local[PERIOD_LOCAL_SIZE];
    bool ok = period_parse(text, strlen(text), &t_ms);
    if (strcmp(expected, "invalid") == 0) {
        ck_assert_msg(!ok, "%s: \"%s\" was taken for %" PRId64, where, text, t_ms);
        return;
    }
    ck_assert_msg(ok, "%s: \"%s\" was refused", where, text);
    ck_assert_msg(t_ms == strtoll(expected, NULL, 10), "%s: \"%s\" became %" PRId64 " instead of %s", where,
                  text, t_ms, expected);
    period_format_local(t_ms, local);
    ck_assert_msg(shown && strcmp(local, shown) == 0, "%s: \"%s\" is shown as %s", where, text, local);
}

START_TEST(timestamps) {
    testing_lines("test/data/timestamps.txt", check_timestamp);
}
END_TEST

START_TEST(text_ends_where_its_length_says) {
    use_zone("Asia/Seoul");
    int64_t t_ms;
    ck_assert(period_parse("2026-11-30T12:00:00junk", 19, &t_ms));
    ck_assert_int_eq(t_ms, 1796007600000);
    ck_assert(!period_parse("2026-11-30T12:00:00\0", 20, &t_ms));
    ck_assert(!period_parse("2026-11-30T12:00:00\n", 20, &t_ms));
    ck_assert(!period_parse("2026-11-30T12:00", 0, &t_ms));
    for (size_t len = 0; len < 16; len++)
        ck_assert_msg(!period_parse("2026-11-30T12:00", len, &t_ms), "the first %zu bytes were taken", len);
}
END_TEST

START_TEST(zones_that_are_refused) {
    static const char *const names[] = {
        "",
        "Asia/Nowhere",
        "../zoneinfo/UTC",
        "Asia/../UTC",
        "/usr/share/zoneinfo/UTC",
        "/Asia/Seoul",
        "leapseconds",
        "Asia",
        "Asia/",
        ".",
        ":UTC",
        "UTC0",
        "EST5EDT,M3.2.0,M11.1.0",
        "Asia/Seoul ",
        "Asia/Seoul\n",
        "asia/seoul",
        "tzdata.zi",
        "zone.tab",
        "right/UTC",
        "right/Asia/Seoul",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    };
    use_zone("Asia/Seoul");
    for (size_t i = 0; i < TESTING_LENGTH(names); i++) {
        struct error err = {0};
        ck_assert_msg(!period_zone_init(names[i], &err), "\"%s\" was taken", names[i]);
        ck_assert_int_eq(err.area, ERROR_CONFIG);
        ck_assert_int_eq(err.action, ERROR_STOP);
        ck_assert_msg(strncmp(err.text, "zone: ", 6) == 0, "%s", err.text);
    }
    ck_assert(!period_zone_init(NULL, NULL));
    ck_assert_int_eq(period_hhmm(0), 900); /* the zone before stays */
}
END_TEST

START_TEST(environment_has_no_say) {
    setenv("TZDIR", "/nowhere", 1);
    setenv("TZ", "America/New_York", 1);
    use_zone("Asia/Seoul");
    ck_assert_int_eq(period_hhmm(0), 900);
}
END_TEST

START_TEST(changing_the_zone_forgets_the_old_one) {
    int64_t t = 1796007600000;
    use_zone("Asia/Seoul");
    ck_assert_int_eq(period_hhmm(t), 1200);
    use_zone("America/New_York");
    ck_assert_int_eq(period_hhmm(t), 2200);
    ck_assert_int_eq(at("2026-11-29T22:00"), t);
    use_zone("UTC");
    ck_assert_int_eq(period_hhmm(t), 300);
}
END_TEST

START_TEST(month_and_time_of_day) {
    static const struct {
        const char *zone, *text;
        int month, hhmm;
    } cases[] = {
        {"Asia/Seoul", "2026-11-30T14:59:59.999Z", 202611, 2359},
        {"Asia/Seoul", "2026-11-30T15:00:00Z", 202612, 0},
        {"Asia/Seoul", "2026-12-31T14:59:59.999Z", 202612, 2359},
        {"Asia/Seoul", "2026-12-31T15:00:00Z", 202701, 0},
        {"Asia/Seoul", "2024-02-29T14:59:59Z", 202402, 2359},
        {"Asia/Seoul", "2024-02-29T15:00Z", 202403, 0},
        {"Asia/Seoul", "2026-02-28T15:00Z", 202603, 0},
        {"Asia/Seoul", "1969-12-31T14:59:59.999Z", 196912, 2359},
        {"Asia/Seoul", "1969-12-31T15:00Z", 197001, 0},
        {"UTC", "1969-12-31T23:59:59.999Z", 196912, 2359},
        {"UTC", "1970-01-01T00:00Z", 197001, 0},
        {"UTC", "0001-01-01T00:00Z", 101, 0},
        {"UTC", "9999-12-31T23:59Z", 999912, 2359},
        {"America/New_York", "2026-12-01T04:59Z", 202611, 2359},
        {"America/New_York", "2026-12-01T05:00Z", 202612, 0},
        {"America/New_York", "2026-03-08T06:59Z", 202603, 159},
        {"America/New_York", "2026-03-08T07:00Z", 202603, 300},
        {"America/New_York", "2026-11-01T05:59Z", 202611, 159},
        {"America/New_York", "2026-11-01T06:00Z", 202611, 100},
        {"Australia/Lord_Howe", "2026-04-04T14:59Z", 202604, 159},
        {"Australia/Lord_Howe", "2026-04-04T15:00Z", 202604, 130},
        {"Asia/Kathmandu", "2026-11-30T18:15Z", 202612, 0},
    };
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++) {
        use_zone(cases[i].zone);
        int64_t t = at(cases[i].text);
        ck_assert_msg(period_month(t) == cases[i].month && period_hhmm(t) == cases[i].hhmm,
                      "%s in %s: %d %04d", cases[i].text, cases[i].zone, period_month(t), period_hhmm(t));
    }
}
END_TEST

START_TEST(months_before_and_after) {
    ck_assert_int_eq(period_month_before(202611), 202610);
    ck_assert_int_eq(period_month_before(202601), 202512);
    ck_assert_int_eq(period_month_before(202612), 202611);
    ck_assert_int_eq(period_month_after(202611), 202612);
    ck_assert_int_eq(period_month_after(202612), 202701);
    ck_assert_int_eq(period_month_after(202601), 202602);
}
END_TEST

START_TEST(ends_of_months) {
    static const struct {
        const char *zone;
        int month;
        const char *end;
    } cases[] = {
        {"Asia/Seoul", 202611, "2026-11-30T15:00:00Z"},
        {"Asia/Seoul", 202612, "2026-12-31T15:00:00Z"},
        {"Asia/Seoul", 202402, "2024-02-29T15:00:00Z"},
        {"Asia/Seoul", 202602, "2026-02-28T15:00:00Z"},
        {"UTC", 202611, "2026-12-01T00:00:00Z"},
        {"America/New_York", 202610, "2026-11-01T04:00:00Z"},
        {"America/New_York", 202611, "2026-12-01T05:00:00Z"},
        {"America/New_York", 202603, "2026-04-01T04:00:00Z"},
        {"Australia/Lord_Howe", 202603, "2026-03-31T13:00Z"},
        /* clocks skipped from 00:00 to 01:00 on the first */
        {"America/Asuncion", 201709, "2017-10-01T04:00:00Z"},
    };
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++) {
        use_zone(cases[i].zone);
        int64_t end = period_month_end(cases[i].month);
        ck_assert_msg(end == at(cases[i].end), "%d in %s ends at %" PRId64, cases[i].month, cases[i].zone,
                      end);
        ck_assert_int_eq(period_month(end), period_month_after(cases[i].month));
        ck_assert_int_eq(period_month(end - 1), cases[i].month);
    }
}
END_TEST

START_TEST(utc_text) {
    static const struct {
        const char *text;
        int64_t t_ms;
    } good[] = {
        {"2026-11-30 03:00:00.123", 1796007600123},
        {"2026-11-30 03:00:00", 1796007600000},
        {"2026-11-30 03:00:00.123999", 1796007600123},
        {"2026-11-30 03:00:00.1", 1796007600100},
        {"1970-01-01 00:00:00.000", 0},
        {"1969-12-31 23:59:59.999", -1},
        {"9999-12-31 23:59:59.999", 253402300799999},
    };
    static const char *const bad[] = {
        "",
        "0000-00-00 00:00:00",
        "2026-11-30",
        "2026-11-30 03:00",
        "2026-11-30T03:00:00",
        "2026-11-30 03:00:00Z",
        "2026-11-30 03:00:00.",
        "2026-02-29 00:00:00",
        "2026-11-30 24:00:00",
        "2026-11-30 03:00:00 ",
        "2026-11-30  3:00:00.123",
    };
    use_zone("Asia/Seoul");
    int64_t t_ms;
    char text[PERIOD_UTC_SIZE];
    for (size_t i = 0; i < TESTING_LENGTH(good); i++) {
        ck_assert_msg(period_parse_utc(good[i].text, &t_ms), "%s is refused", good[i].text);
        ck_assert_msg(t_ms == good[i].t_ms, "%s became %" PRId64, good[i].text, t_ms);
    }
    for (size_t i = 0; i < TESTING_LENGTH(bad); i++)
        ck_assert_msg(!period_parse_utc(bad[i], &t_ms), "\"%s\" is taken", bad[i]);
    period_format_utc(1796007600123, text);
    ck_assert_str_eq(text, "2026-11-30 03:00:00.123");
    period_format_utc(-1, text);
    ck_assert_str_eq(text, "1969-12-31 23:59:59.999");
}
END_TEST

START_TEST(dates_of_months) {
    char date[PERIOD_DATE_SIZE];
    period_month_date(202611, date);
    ck_assert_str_eq(date, "2026-11-01");
    period_month_date(202701, date);
    ck_assert_str_eq(date, "2027-01-01");
    ck_assert_int_eq(period_date_month("2026-11-01"), 202611);
    ck_assert_int_eq(period_date_month("2024-02-29"), 202402);
    static const char *const bad[] = {"",           "2026-11",     "2026-11-00", "0000-00-00",
                                      "2026-13-01", "2026-02-29",  "2026-11-1",  "2026-11-01 00:00:00",
                                      "20261101",   "2026-11-011", "202611"};
    for (size_t i = 0; i < TESTING_LENGTH(bad); i++)
        ck_assert_msg(period_date_month(bad[i]) == 0, "\"%s\" is a date", bad[i]);
}
END_TEST

START_TEST(instants_beyond_four_digits) {
    static const char *const zones[] = {"UTC", "Asia/Seoul", "America/New_York"};
    char local[PERIOD_LOCAL_SIZE], utc[PERIOD_UTC_SIZE];
    for (size_t i = 0; i < TESTING_LENGTH(zones); i++) {
        use_zone(zones[i]);
        ck_assert_int_eq(period_month(INT64_MAX), 999912);
        ck_assert_int_eq(period_month(INT64_MIN), 101);
        period_format_local(INT64_MAX, local);
        ck_assert_uint_eq(strlen(local), PERIOD_LOCAL_SIZE - 1);
        period_format_local(INT64_MIN, local);
        ck_assert_uint_eq(strlen(local), PERIOD_LOCAL_SIZE - 1);
        period_format_utc(INT64_MAX, utc);
        ck_assert_str_eq(utc, "9999-12-31 23:59:59.999");
        period_format_utc(INT64_MIN, utc);
        ck_assert_str_eq(utc, "0001-01-01 00:00:00.000");
    }
}
END_TEST

/* What glibc says of an instant, without period.c's cache and calendar. */
static void oracle(int64_t t_ms, int32_t *month, int *hhmm, int *offset_s) {
    time_t t = (time_t)((t_ms - (t_ms % 1000 + 1000) % 1000) / 1000);
    struct tm tm;
    testing_require(localtime_r(&t, &tm), "%" PRId64 " has no local time", t_ms);
    *month = (tm.tm_year + 1900) * 100 + tm.tm_mon + 1;
    *hhmm = tm.tm_hour * 100 + tm.tm_min;
    *offset_s = (int)tm.tm_gmtoff;
}

static void check_instant(const char *zone, uint64_t seed, int64_t t) {
    int32_t month;
    int hhmm, offset_s;
    int64_t back = 0, local_back = 0;
    char text[PERIOD_LOCAL_SIZE], again[PERIOD_LOCAL_SIZE], utc[PERIOD_UTC_SIZE];
    oracle(t, &month, &hhmm, &offset_s);
    testing_require(period_month(t) == month && period_hhmm(t) == hhmm,
                    "seed %" PRIu64 ", %s, %" PRId64 ": %d %04d instead of %d %04d", seed, zone, t,
                    period_month(t), period_hhmm(t), month, hhmm);
    period_format_local(t, text);
    testing_require(period_parse(text, strlen(text), &back) && back == t,
                    "seed %" PRIu64 ", %s, %" PRId64 ": %s is read as %" PRId64, seed, zone, t, text, back);
    period_format_utc(t, utc);
    testing_require(period_parse_utc(utc, &back) && back == t,
                    "seed %" PRIu64 ", %" PRId64 ": %s is read as %" PRId64, seed, t, utc, back);
    if (offset_s % 60 != 0)
        return; /* local mean time: the text's local part isn't the zone's */
    /* Without its offset the text means the same local time, at this instant or an earlier one. */
    testing_require(period_parse(text, strlen(text) - 6, &local_back) && local_back <= t,
                    "seed %" PRIu64 ", %s, %" PRId64 ": %.23s is read as %" PRId64, seed, zone, t, text,
                    local_back);
    period_format_local(local_back, again);
    testing_require(memcmp(text, again, strlen(text) - 6) == 0, "seed %" PRIu64 ", %s: %.23s is read as %s",
                    seed, zone, text, again);
}

static const char *const property_zones[] = {
    "UTC",
    "Asia/Seoul",
    "America/New_York",
    "Europe/London",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/St_Johns",
    "Pacific/Chatham",
    "Africa/Monrovia",
    "Pacific/Apia",
    "America/Havana",
};

START_TEST(round_trips) {
    uint64_t seed = testing_seed(), state = seed;
    for (size_t z = 0; z < TESTING_LENGTH(property_zones); z++) {
        use_zone(property_zones[z]);
        /* 1900 to 2100, and densely around the years that matter */
        for (int i = 0; i < 3000; i++)
            check_instant(property_zones[z], seed, testing_between(&state, -2208988800000, 4102444800000));
        for (int i = 0; i < 3000; i++)
            check_instant(property_zones[z], seed, testing_between(&state, 1767225600000, 1830297600000));
    }
}
END_TEST

/* Every quarter of an hour of two years, and the millisecond before it. */
START_TEST(all_quarters_of_two_years) {
    static const char *const zones[] = {"America/New_York", "Europe/London", "Australia/Lord_Howe"};
    for (size_t z = 0; z < TESTING_LENGTH(zones); z++) {
        use_zone(zones[z]);
        for (int64_t t = 1767225600000; t < 1767225600000 + 730 * DAY_MS; t += 900000) {
            check_instant(zones[z], 0, t);
            check_instant(zones[z], 0, t - 1);
        }
    }
}
END_TEST

static void *hours(void *wrong) {
    uint64_t state = (uint64_t)(uintptr_t)&wrong;
    int *count = wrong;
    for (int i = 0; i < 20000; i++) {
        int64_t t = testing_between(&state, 1767225600000, 1830297600000);
        int minutes = (int)((t + 9 * 3600000) / 60000 % 1440);
        *count += period_hhmm(t) != minutes / 60 * 100 + minutes % 60;
    }
    return NULL;
}

START_TEST(threads) {
    pthread_t thread[4];
    int wrong[4] = {0};
    use_zone("Asia/Seoul");
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, hours, &wrong[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        ck_assert_int_eq(wrong[i], 0);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("period");
    TCase *tc = tcase_create("period");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, timestamps);
    tcase_add_test(tc, text_ends_where_its_length_says);
    tcase_add_test(tc, zones_that_are_refused);
    tcase_add_test(tc, environment_has_no_say);
    tcase_add_test(tc, changing_the_zone_forgets_the_old_one);
    tcase_add_test(tc, month_and_time_of_day);
    tcase_add_test(tc, months_before_and_after);
    tcase_add_test(tc, ends_of_months);
    tcase_add_test(tc, utc_text);
    tcase_add_test(tc, dates_of_months);
    tcase_add_test(tc, instants_beyond_four_digits);
    tcase_add_test(tc, round_trips);
    tcase_add_test(tc, all_quarters_of_two_years);
    tcase_add_test(tc, threads);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
