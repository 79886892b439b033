/* SPDX-License-Identifier: MIT */
/* The events of `tallyd simulate`: whose they are. */
#include "simulate.h"

#include "period.h"
#include "testing.h"

#define EVENTS 20000
#define START_MS INT64_C(1796050800000)

static const struct simulate_options usual = {.seed = 7,
                                              .families = 500,
                                              .count = EVENTS,
                                              .duplicates = 0.02,
                                              .late = 0.02,
                                              .broken = 0.01,
                                              .start_ms = START_MS,
                                              .own_time = true,
                                              .max_future_ms = 300000,
                                              .max_past_months = 1};

static void use_zone(void) {
    struct error err = {0};
    ck_assert_msg(period_zone_init("Asia/Seoul", &err), "%s", err.text);
}

/* So many of the events are the first family's. */
static int first_familys(const struct simulate_options *o) {
    struct simulation *s = simulation_new(o);
    struct simulate_event e = {0};
    int64_t first = population_family_id(0);
    char key[24];
    int n = 0;
    use_zone();
    snprintf(key, sizeof key, "%lld", (long long)first);
    for (int i = 0; i < EVENTS; i++) {
        simulation_next(s, START_MS, &e);
        n += e.key_len == strlen(key) && memcmp(e.key, key, e.key_len) == 0;
    }
    ck_assert_int_eq(simulation_due_ns(s), -1);
    buf_free(&e.value);
    simulation_free(s);
    return n;
}

START_TEST(a_hot_family_has_its_share) {
    struct simulate_options o = usual;
    ck_assert_int_lt(first_familys(&o), EVENTS / 50);
    o.hot_family = 0.5;
    int half = first_familys(&o);
    ck_assert_int_gt(half, EVENTS * 48 / 100);
    ck_assert_int_lt(half, EVENTS * 52 / 100);
    o.hot_family = 1;
    o.broken = 0; /* some of these are of families that don't exist */
    ck_assert_int_eq(first_familys(&o), EVENTS);
}
END_TEST

/* Figures that were measured once must be measurable again: a seed's first events are for ever the same. */
START_TEST(a_seed_keeps_its_events) {
    static const char *const values[] = {
        "{\"eventId\":\"923d2dd2-05dc-40d4-92ab-864f91fe6e02\",\"eventType\":\"DATA_USAGE\",\"timestamp\":\"2026-12-01T00:00:00.000\",\"payload\":{\"familyId\":1000296,\"customerId\":10001114,\"appId\":\"com.kakao.talk\",\"bytesUsed\":641085,\"metadata\":{\"networkType\":\"5G\"}}}",
        "{\"eventId\":\"97f2f2ba-9169-4caf-8519-52e58c074dce\",\"eventType\":\"DATA_USAGE\",\"timestamp\":\"2026-12-01T00:00:00.001\",\"payload\":{\"familyId\":1000441,\"customerId\":10001635,\"appId\":\"com.youtube.app\",\"bytesUsed\":119147242,\"metadata\":{\"networkType\":\"WIFI\"}}}",
    };
    use_zone();
    struct simulation *s = simulation_new(&usual);
    struct simulate_event e = {0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        simulation_next(s, START_MS, &e);
        ck_assert_mem_eq(e.value.data, values[i], strlen(values[i]));
        ck_assert_uint_eq(e.value.len, strlen(values[i]));
    }
    buf_free(&e.value);
    simulation_free(s);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simulate");
    TCase *tc = tcase_create("simulate");
    tcase_add_test(tc, a_hot_family_has_its_share);
    tcase_add_test(tc, a_seed_keeps_its_events);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
