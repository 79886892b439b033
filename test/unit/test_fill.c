/* SPDX-License-Identifier: MIT */
#include "fill.h"

#include "testing.h"

static const struct {
    const char *what;
    struct fill fill;
    int wait_ms;
} table[] = {
    {"nothing yet, nothing under way", {.linger_ms = 5}, FILL_IDLE_MS},
    {"nothing for a while", {.for_ms = 40, .linger_ms = 5}, FILL_IDLE_MS - 40},
    {"nothing for long", {.for_ms = FILL_IDLE_MS, .linger_ms = 5}, 0},
    {"nothing, and one under way", {.settling = true, .linger_ms = 5}, FILL_IDLE_MS},
    {"nothing, and one is done", {.settled = true, .linger_ms = 5}, 0},
    {"a lone one", {.any = true, .linger_ms = 5}, 5},
    {"a lone one for a while", {.any = true, .for_ms = 3, .linger_ms = 5}, 2},
    {"a lone one has waited", {.any = true, .for_ms = 5, .linger_ms = 5}, 0},
    {"a lone one has waited longer", {.any = true, .for_ms = 500, .linger_ms = 5}, 0},
    {"without linger", {.any = true, .linger_ms = 0}, 0},
    {"a long linger", {.any = true, .linger_ms = 1000}, FILL_IDLE_MS},
    {"some, and one under way", {.any = true, .settling = true, .for_ms = 1, .linger_ms = 5}, FILL_IDLE_MS},
    {"they would only wait", {.any = true, .settling = true, .for_ms = 500, .linger_ms = 5}, FILL_IDLE_MS},
    {"the one before is done now", {.any = true, .settled = true, .for_ms = 500, .linger_ms = 5}, 0},
    {"it was done quickly", {.any = true, .settled = true, .for_ms = 1, .linger_ms = 5}, 4},
    {"stopping with nothing", {.stopping = true, .linger_ms = 5}, 0},
    {"stopping with some", {.any = true, .stopping = true, .settling = true, .linger_ms = 5}, 0},
};

START_TEST(waits) {
    int got = fill_wait_ms(&table[_i].fill);
    ck_assert_msg(got == table[_i].wait_ms, "%s: %d ms instead of %d", table[_i].what, got,
                  table[_i].wait_ms);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fill");
    TCase *tc = tcase_create("fill");
    tcase_add_loop_test(tc, waits, 0, TESTING_LENGTH(table));
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
