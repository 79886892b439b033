/* SPDX-License-Identifier: MIT */
#include "audit_usage.h"

#include "audit.h"
#include "testing.h"

static struct audit_place at(int64_t offset, int64_t settled_ms) {
    return (struct audit_place){.partition = 1, .offset = offset, .settled_ms = settled_ms};
}

static void allowed(struct audit_use *use, int64_t offset, int64_t settled_ms, int64_t bytes) {
    struct audit_place place = at(offset, settled_ms);
    audit_use_allowed(use, &place, bytes);
}

static void blocked(struct audit_use *use, int64_t offset, int64_t settled_ms, int64_t monthly) {
    struct audit_place place = at(offset, settled_ms);
    audit_use_blocked(use, &place, monthly);
}

START_TEST(uses_are_kept_apart) {
    struct audit_uses u = {0};
    ck_assert_ptr_null(audit_uses_find(&u, 1, 1, 202611));
    for (int64_t i = 0; i < 30000; i++)
        audit_uses_get(&u, i % 100, i % 1000, 202601 + (int32_t)(i % 12))->bytes += i;
    ck_assert_uint_eq(u.count, 3000);
    int64_t sum = 0;
    for (size_t i = 0; i < u.count; i++) {
        sum += u.items[i].bytes;
        testing_require(audit_uses_find(&u, u.items[i].family, u.items[i].customer, u.items[i].month) ==
                            &u.items[i],
                        "item %zu isn't found", i);
    }
    ck_assert_int_eq(sum, 30000LL * 29999 / 2);
    ck_assert_ptr_null(audit_uses_find(&u, 1, 1, 202614));
    ck_assert_ptr_null(audit_uses_find(&u, 1, 2, 202602));
    audit_uses_free(&u);
}
END_TEST

START_TEST(what_a_block_was_decided_on) {
    struct audit_uses u = {0};
    struct audit_use *use = audit_uses_get(&u, 1, 11, 202611);
    blocked(use, 30, 500, 7);
    blocked(use, 40, 600, 8);
    blocked(use, 20, 500, 6); /* rows come in any order */
    allowed(use, 50, 700, 1000);
    allowed(use, 35, 500, 100);
    allowed(use, 10, 400, 10);
    ck_assert_int_eq(use->block_monthly, 8);
    ck_assert_int_eq(use->bytes_before_block, 110);
    ck_assert_int_eq(use->bytes, 1110);
    ck_assert_int_eq(use->last.offset, 50);
    ck_assert_int_eq(use->last.settled_ms, 700);
    ck_assert_int_eq(use->partition, 1);
    ck_assert(!use->unordered);
    audit_uses_free(&u);
}
END_TEST

START_TEST(offsets_of_one_transaction_decide) {
    struct audit_uses u = {0};
    struct audit_use *use = audit_uses_get(&u, 1, 11, 202611);
    blocked(use, 30, 500, 7);
    allowed(use, 29, 500, 7);
    allowed(use, 31, 500, 5);
    ck_assert_int_eq(use->bytes_before_block, 7);
    ck_assert(!use->unordered);
    audit_uses_free(&u);
}
END_TEST

/* A record that was rejected at first, and settled after a rewind. */
START_TEST(orders_that_disagree_are_noticed) {
    struct audit_uses u = {0};
    struct audit_use *late = audit_uses_get(&u, 1, 11, 202611), *twice;
    blocked(late, 30, 500, 7);
    allowed(late, 10, 900, 7);
    ck_assert(late->unordered);
    twice = audit_uses_get(&u, 1, 12, 202611);
    blocked(twice, 30, 500, 7);
    blocked(twice, 20, 900, 7);
    ck_assert(twice->unordered);
    struct audit_place elsewhere = {.partition = 2, .offset = 5, .settled_ms = 1};
    audit_use_allowed(twice, &elsewhere, 1);
    ck_assert_int_eq(twice->partition, AUDIT_SEVERAL);
    audit_uses_free(&u);
}
END_TEST

START_TEST(what_others_used_before) {
    struct audit_uses u = {0};
    static const struct {
        int64_t customer, offset, settled_ms, bytes;
    } rows[] = {
        {12, 10, 100, 1},
        {11, 20, 100, 2},
        {13, 30, 200, 4},
        {11, 40, 300, 8},
        {12, 50, 400, 16},
        {13, 5, 900, 32},
        /* the topic made anew: offsets begin again, and these two are of one transaction */
        {14, 900, 100, 64},
        {14, 7, 950, 128},
        {15, 500, 950, 256},
    };
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < TESTING_LENGTH(rows); i++) {
            struct audit_place place = at(rows[i].offset, rows[i].settled_ms);
            struct audit_use *use = audit_uses_get(&u, 1, rows[i].customer, 202611);
            if (pass == 0)
                audit_use_allowed(use, &place, rows[i].bytes);
            else
                audit_use_others(&u, use, &place, rows[i].bytes);
        }
        for (int64_t family = 0; family < 3; family += 2) /* neighbours, of no concern */
            allowed(audit_uses_get(&u, family, 11, 202611), 60, 900, 1000);
        allowed(audit_uses_get(&u, 1, 11, 202612), 60, 900, 1000);
        audit_uses_sort(&u);
    }
    ck_assert_int_eq(audit_uses_find(&u, 1, 11, 202611)->others_before, 1 + 4);
    /* the last of 13 came by offset 5 after a rewind: before nobody's, for all that is known */
    ck_assert_int_eq(audit_uses_find(&u, 1, 12, 202611)->others_before, 2 + 4 + 8);
    ck_assert_int_eq(audit_uses_find(&u, 1, 13, 202611)->others_before, 0);
    ck_assert_int_eq(audit_uses_find(&u, 1, 14, 202611)->others_before, 32);
    ck_assert_int_eq(audit_uses_find(&u, 1, 15, 202611)->others_before, 1 + 2 + 4 + 8 + 16 + 32 + 128);
    ck_assert_int_eq(audit_uses_find(&u, 0, 11, 202611)->others_before, 0);
    ck_assert_int_eq(audit_uses_find(&u, 1, 11, 202612)->others_before, 0);
    audit_uses_free(&u);
}
END_TEST

static struct config two_thresholds(void) {
    struct config cfg = {.thresholds = {10, 50}, .threshold_count = 2};
    return cfg;
}

START_TEST(thresholds_due) {
    static const struct {
        int64_t total, used;
        int due;
    } cases[] = {
        {1000, 0, 0},
        {1000, 499, 0},
        {1000, 500, 50},
        {1000, 899, 50},
        {1000, 900, 10},
        {1000, 1000, 10},
        {1000, 2000, 10}, /* a total that was cut */
        {999, 499, 0},
        {999, 500, 50},
        {(INT64_C(1) << 53) - 1, (INT64_C(1) << 52) - 1, 0},
        {(INT64_C(1) << 53) - 1, INT64_C(1) << 52, 50},
    };
    const struct config cfg = two_thresholds();
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++)
        ck_assert_msg(audit_threshold_due(&cfg, cases[i].total, cases[i].used) == cases[i].due, "case %zu",
                      i);
}
END_TEST

START_TEST(block_faults) {
    static const struct {
        struct audit_block block;
        const char *fault; /* part of it; NULL: none */
    } cases[] = {
        {{"MANUAL", NULL, 5, 100, 0, -1}, NULL},
        {{"MANUAL", NULL, 5, -3, 0, -1}, NULL}, /* what is left of a total that was cut */
        {{"TIME_BLOCK", NULL, 5, 100, 0, 9}, NULL},
        {{"APP_BLOCK", "a", 5, 100, 0, -1}, NULL},
        {{"APP_BLOCK", NULL, 5, 100, 0, -1}, "no app"},
        {{"MONTHLY_LIMIT_EXCEEDED", NULL, 5, 100, 6, 10}, NULL},
        {{"MONTHLY_LIMIT_EXCEEDED", NULL, 5, 100, 5, 10}, "within"},
        {{"MONTHLY_LIMIT_EXCEEDED", NULL, 5, 100, 5, -1}, "within"},
        {{"MONTHLY_LIMIT_EXCEEDED", NULL, 5, 100, 0, 0}, NULL},
        {{"FAMILY_QUOTA_EXCEEDED", NULL, 5, 4, 0, -1}, NULL},
        {{"FAMILY_QUOTA_EXCEEDED", NULL, 5, 5, 0, -1}, "enough"},
        {{"FAMILY_QUOTA_EXCEEDED", NULL, 5, 4, 0, 5}, NULL},
        {{"FAMILY_QUOTA_EXCEEDED", NULL, 5, 4, 1, 5}, "first"},
        {{"NORMAL", NULL, 5, 4, 0, -1}, "no such reason"},
        {{"MANUAL", NULL, 5, 4, -1, -1}, "less than nothing"},
        {{"MANUAL", NULL, 5, 4, 0, -2}, "below zero"},
    };
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++) {
        const char *fault = audit_block_fault(&cases[i].block);
        ck_assert_msg(cases[i].fault ? fault && strstr(fault, cases[i].fault) : !fault, "case %zu: %s", i,
                      fault ? fault : "none");
    }
}
END_TEST

START_TEST(names_of_alerts) {
    static const struct {
        const char *payload, *alert; /* NULL: none */
    } cases[] = {
        {"{\"data\":{\"status\":\"WARNING_50\"}}", "THRESHOLD:50"},
        {"{\"data\":{\"status\":\"MANUAL\",\"appId\":\"x\"}}", "MANUAL"},
        {"{\"data\":{\"status\":\"APP_BLOCK\",\"appId\":\"a b/\xed\x95\x9c\"}}",
         "APP_BLOCK:a%20b%2F%ED%95%9C"},
        {"{\"data\":{}}", NULL},
        {"{\"data\":", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++) {
        struct buf name = {0};
        bool ok = audit_payload_alert(&name, cases[i].payload, strlen(cases[i].payload));
        ck_assert_msg(ok == (cases[i].alert != NULL), "case %zu", i);
        ck_assert_msg(!ok || strcmp(buf_cstr(&name), cases[i].alert) == 0, "case %zu: %s", i,
                      buf_cstr(&name));
        buf_free(&name);
    }
    ck_assert_int_eq(audit_alert_threshold("THRESHOLD:30"), 30);
    ck_assert_int_eq(audit_alert_threshold("MANUAL"), 0);
}
END_TEST

START_TEST(ids_of_notifications) {
    static const struct {
        const char *value, *id; /* NULL: none */
    } cases[] = {
        {"{\"eventId\":\"a1\",\"payload\":{}}", "a1"},
        {"{\"eventId\":\"a\\\"\\\\1\",\"payload\":{}}", "a\"\\1"},
        {"{\"payload\":{}, \"eventId\": \"late\"}", "late"},
        {"{\"eventId\":\"cut", NULL},
        {"{\"eventId\":\"\"}", NULL},
        {"{\"eventId\":7}", NULL},
        {"{\"payload\":{}}", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++) {
        struct buf id = {0};
        bool ok = audit_notification_id(&id, cases[i].value, strlen(cases[i].value));
        ck_assert_msg(ok == (cases[i].id != NULL), "case %zu", i);
        ck_assert_msg(!ok || strcmp(buf_cstr(&id), cases[i].id) == 0, "case %zu: %s", i, buf_cstr(&id));
        buf_free(&id);
    }
}
END_TEST

START_TEST(calls_are_answered_once_added) {
    struct audit_calls c = {0};
    char text[32];
    audit_calls_answer(&c, "none");
    for (int i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "call %d", i % 2500);
        audit_calls_add(&c, text, i < 2500 ? "first" : "second");
    }
    ck_assert_uint_eq(c.count, 2500);
    audit_calls_answer(&c, "call 7");
    audit_calls_answer(&c, "call 2500");
    for (size_t i = 0; i < c.count; i++)
        testing_require(c.items[i].answered == (i == 7) && strcmp(c.items[i].by, "first") == 0, "call %zu",
                        i);
    audit_calls_free(&c);
}
END_TEST

START_TEST(what_findings_come_to) {
    struct audit_report r = {0};
    struct audit_finding *f = &r.findings[AUDIT_LEDGER];
    ck_assert_int_eq(audit_status(AUDIT_LEDGER, f), AUDIT_HOLDS);
    audit_leave_open(&r, AUDIT_LEDGER, 2, "first %d", 1);
    audit_leave_open(&r, AUDIT_LEDGER, 3, "second");
    audit_name_open(&r, AUDIT_LEDGER, "open one");
    ck_assert_int_eq(audit_status(AUDIT_LEDGER, f), AUDIT_OPEN);
    ck_assert_int_eq(f->open, 5);
    ck_assert_str_eq(f->why, "first 1");
    f->looked = 1;
    ck_assert_int_eq(audit_status(AUDIT_LEDGER, f), AUDIT_HOLDS);
    audit_note(&r, AUDIT_LEDGER, "noted one");
    ck_assert_int_eq(audit_status(AUDIT_LEDGER, f), AUDIT_NOTE);
    ck_assert_str_eq(f->named[0], "noted one");
    ck_assert_int_eq(audit_first_broken(&r), 0);
    for (int i = 0; i < AUDIT_NAMED + 3; i++)
        audit_break(&r, AUDIT_LEDGER, "broken %d", i);
    audit_note(&r, AUDIT_LEDGER, "noted two");
    ck_assert_int_eq(audit_status(AUDIT_LEDGER, f), AUDIT_BROKEN);
    ck_assert_uint_eq(f->named_count, AUDIT_NAMED);
    ck_assert_str_eq(f->named[0], "broken 0");
    ck_assert_int_eq(f->broken, AUDIT_NAMED + 3);
    ck_assert_int_eq(audit_first_broken(&r), 4);
    audit_break(&r, AUDIT_CACHE, "drifted");
    ck_assert_int_eq(audit_status(AUDIT_CACHE, &r.findings[AUDIT_CACHE]), AUDIT_DRIFT);
    ck_assert_int_eq(audit_first_broken(&r), 4);
    audit_report_free(&r);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("audit");
    TCase *tc = tcase_create("audit");
    tcase_add_test(tc, uses_are_kept_apart);
    tcase_add_test(tc, what_a_block_was_decided_on);
    tcase_add_test(tc, offsets_of_one_transaction_decide);
    tcase_add_test(tc, orders_that_disagree_are_noticed);
    tcase_add_test(tc, what_others_used_before);
    tcase_add_test(tc, thresholds_due);
    tcase_add_test(tc, block_faults);
    tcase_add_test(tc, names_of_alerts);
    tcase_add_test(tc, ids_of_notifications);
    tcase_add_test(tc, calls_are_answered_once_added);
    tcase_add_test(tc, what_findings_come_to);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
