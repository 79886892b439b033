/* SPDX-License-Identifier: MIT */
#include "backlog.h"

#include <stdlib.h>

#include "maintain.h"
#include "period.h"
#include "testing.h"

static const struct {
    const char *record; /* NULL: there was none */
    int64_t max_past_months;
    int32_t month;
} records[] = {
    {NULL, 1, 0},
    {"2026-11-15T12:00", 1, 202610},
    {"2026-11-15T12:00", 0, 202611},
    {"2026-11-01T00:00", 1, 202610}, /* in the zone */
    {"2026-10-31T23:59:59.999", 1, 202609},
    {"2026-10-31T15:00Z", 1, 202610},
    {"2026-01-01T00:00", 1, 202512},
    {"2026-01-31T12:00", 12, 202501},
};

START_TEST(knows_the_first_month_that_may_wait) {
    struct config cfg = {.event.max_past_months = records[_i].max_past_months};
    int64_t ms = 0;
    if (records[_i].record)
        ck_assert(period_parse(records[_i].record, strlen(records[_i].record), &ms));
    ck_assert_int_eq(backlog_month(&cfg, ms), records[_i].month);
}
END_TEST

START_TEST(says_what_holds_months) {
    static const char *const names[] = {"paused", "backlog", "unknown", "not begun"};
    struct maintain_report r = {0};
    ck_assert_ptr_null(maintain_held_by(&r));
    r.paused = true;
    for (int reason = BACKLOG_NONE; reason <= BACKLOG_NOT_BEGUN; reason++) {
        r.backlog.reason = (enum backlog_reason)reason;
        ck_assert_str_eq(maintain_held_by(&r), names[reason]);
    }
}
END_TEST

int main(void) {
    struct error err = {0};
    if (!period_zone_init("Asia/Seoul", &err))
        return EXIT_FAILURE;
    Suite *suite = suite_create("backlog");
    TCase *tc = tcase_create("months");
    tcase_add_loop_test(tc, knows_the_first_month_that_may_wait, 0, TESTING_LENGTH(records));
    tcase_add_test(tc, says_what_holds_months);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
