/* SPDX-License-Identifier: MIT */
/* A customer's rules out of policy_assignment rows (CONTRACT §4). */
#include "buf.h"
#include "policy.h"
#include "testing.h"

#define CUSTOMER 200187
#define OTHER 200188

/* What was built, as one line. */
static void rules_text(const struct policy_rules *r, struct buf *out) {
    buf_reset(out);
    if (r->unreadable) {
        buf_str(out, "unreadable");
        return;
    }
    if (r->manual_block)
        buf_str(out, "manual ");
    if (r->time_block[0])
        buf_printf(out, "time=%s ", r->time_block);
    if (r->monthly_limit != -1)
        buf_printf(out, "limit=%lld ", (long long)r->monthly_limit);
    for (size_t i = 0; i < r->app_count; i++)
        buf_printf(out, "app=%s ", r->apps[i]);
    if (out->len)
        out->data[--out->len] = '\0';
}

static void expect_rules(const char *what, const struct policy_row *rows, size_t n, const char *expected) {
    struct policy_rules r;
    struct buf got = {0};
    memset(&r, 0xa5, sizeof r);
    policy_rules_build(&r, rows, n, CUSTOMER);
    rules_text(&r, &got);
    ck_assert_msg(strcmp(buf_cstr(&got), expected) == 0, "%s: \"%s\" instead of \"%s\"", what, buf_cstr(&got),
                  expected);
    ck_assert_msg(!r.unreadable || strlen(r.why) > 0, "%s: nobody learns why", what);
    policy_rules_free(&r);
    buf_free(&got);
}

/* One row of the family, read alone: type, rules, result. */
static const char *const alone[][3] = {
    {"MONTHLY_LIMIT", "{\"limitBytes\":5000}", "limit=5000"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":0}", "limit=0"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":\"5000\"}", "limit=5000"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":\"0\"}", "limit=0"},
    {"MONTHLY_LIMIT", " { \"limitBytes\" : 1 , \"note\" : [1,2] } ", "limit=1"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":9007199254740991}", "limit=9007199254740991"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":\"9007199254740991\"}", "limit=9007199254740991"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":9007199254740992}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":\"9007199254740992\"}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":9223372036854775808}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":-1}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":\"-1\"}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":\"05\"}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":\" 5\"}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":\"\"}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":1.5}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":5.0}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":1e3}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":null}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":true}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":[5000]}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitbytes\":5000}", "unreadable"},
    {"MONTHLY_LIMIT", "{}", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":1,\"limitBytes\":2}", "unreadable"},
    {"MONTHLY_LIMIT", "5000", "unreadable"},
    {"MONTHLY_LIMIT", "[5000]", "unreadable"},
    {"MONTHLY_LIMIT", "null", "unreadable"},
    {"MONTHLY_LIMIT", "", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":5000", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":5000} x", "unreadable"},
    {"MONTHLY_LIMIT", "{\"limitBytes\":5000,\"n\":\"\xff\"}", "unreadable"},

    {"TIME_BLOCK", "{\"start\":\"22:00\",\"end\":\"07:00\"}", "time=2200-0700"},
    {"TIME_BLOCK", "{\"start\":\"2200\",\"end\":\"0700\"}", "time=2200-0700"},
    {"TIME_BLOCK", "{\"start\":\"22:00\",\"end\":\"0700\"}", "time=2200-0700"},
    {"TIME_BLOCK", "{\"start\":\"00:00\",\"end\":\"23:59\"}", "time=0000-2359"},
    {"TIME_BLOCK", "{\"start\":\"09:00\",\"end\":\"09:00\"}", "time=0900-0900"},
    {"TIME_BLOCK", "{\"start\":\"24:00\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"22:00\",\"end\":\"24:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"22:60\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"2260\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"30:00\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"9:00\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"22-00\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"22:00:00\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"22:0\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"2a:00\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"22:0x\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\" 220\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"-100\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"\",\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":2200,\"end\":700}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"22:00\",\"end\":null}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"22:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"end\":\"07:00\"}", "unreadable"},
    {"TIME_BLOCK", "{\"start\":\"22:00\",\"start\":\"22:00\",\"end\":\"07:00\"}", "unreadable"},

    {"APP_BLOCK", "{\"blockedApps\":[\"a\",\"b\"]}", "app=a app=b"},
    {"APP_BLOCK", "{\"blockedApps\":[]}", ""},
    {"APP_BLOCK", "{\"blockedApps\":[\" \\t com.game\\r\\n\"]}", "app=com.game"},
    {"APP_BLOCK", "{\"blockedApps\":[\"a b\"]}", "app=a b"},
    {"APP_BLOCK", "{\"blockedApps\":[\"\",\"  \",\"c\"]}", "app=c"},
    {"APP_BLOCK", "{\"blockedApps\":[\"카카오톡\"]}", "app=카카오톡"},
    {"APP_BLOCK", "{\"blockedApps\":[\"\\uce74\"]}", "app=카"},
    /* no-break space is no ASCII white space */
    {"APP_BLOCK", "{\"blockedApps\":[\"\\u00a0x\"]}", "app=\u00a0x"},
    {"APP_BLOCK", "{\"blockedApps\":\"a\"}", "unreadable"},
    {"APP_BLOCK", "{\"blockedApps\":[\"a\",1]}", "unreadable"},
    {"APP_BLOCK", "{\"blockedApps\":[null]}", "unreadable"},
    {"APP_BLOCK", "{\"blockedApps\":{\"a\":1}}", "unreadable"},
    {"APP_BLOCK", "{\"blockedApps\":[\"\\u0000\"]}", "unreadable"},
    {"APP_BLOCK", "{\"blockedApps\":[\"\\ud800\"]}", "unreadable"},
    {"APP_BLOCK", "{}", "unreadable"},

    {"MANUAL_BLOCK", "{\"reason\":\"text\"}", "manual"},
    {"MANUAL_BLOCK", "{\"reason\":\"\"}", "manual"},
    {"MANUAL_BLOCK", "{}", "manual"},
    {"MANUAL_BLOCK", "[]", "unreadable"},
    {"MANUAL_BLOCK", "", "unreadable"},

    {"MANUAL", "{\"reason\":\"text\"}", "unreadable"},
    {"monthly_limit", "{\"limitBytes\":1}", "unreadable"},
    {"", "{}", "unreadable"},
};

START_TEST(one_row) {
    for (size_t i = 0; i < TESTING_LENGTH(alone); i++) {
        for (int own = 0; own < 2; own++) {
            char what[256];
            snprintf(what, sizeof what, "%s %s", alone[i][0], alone[i][1]);
            struct policy_row row = {own ? CUSTOMER : POLICY_FOR_FAMILY, alone[i][0], alone[i][1]};
            expect_rules(what, &row, 1, alone[i][2]);
            row.customer_id = OTHER; /* another's rules say nothing, not even when they can't be read */
            expect_rules(what, &row, 1, "");
        }
    }
}
END_TEST

/* Rows in order of age: F the family's, C the customer's own, O another's; type by letter; rules. */
struct row {
    char whose;
    const char *type, *rules;
};
#define LIMIT(n) "MONTHLY_LIMIT", "{\"limitBytes\":" #n "}"
#define BAD_LIMIT "MONTHLY_LIMIT", "{\"limitBytes\":-1}"
#define APPS(list) "APP_BLOCK", "{\"blockedApps\":[" list "]}"

static const struct {
    const char *what;
    struct row rows[6];
    const char *expected;
} several[] = {
    {"nothing", {{0}}, ""},
    {"own over the family's, whichever is newer", {{'C', LIMIT(1)}, {'F', LIMIT(2)}}, "limit=1"},
    {"own over the family's, older", {{'F', LIMIT(2)}, {'C', LIMIT(1)}}, "limit=1"},
    {"own zero over the family's", {{'F', LIMIT(2)}, {'C', LIMIT(0)}}, "limit=0"},
    {"the newest of the family's", {{'F', LIMIT(3)}, {'F', LIMIT(1)}, {'F', LIMIT(2)}}, "limit=2"},
    {"the newest of one's own", {{'C', LIMIT(3)}, {'C', LIMIT(1)}, {'F', LIMIT(9)}}, "limit=1"},
    {"another's doesn't count", {{'F', LIMIT(3)}, {'O', LIMIT(1)}}, "limit=3"},
    {"times alike",
     {{'C', "TIME_BLOCK", "{\"start\":\"0100\",\"end\":\"0200\"}"},
      {'F', "TIME_BLOCK", "{\"start\":\"0300\",\"end\":\"0400\"}"}},
     "time=0100-0200"},
    {"types don't shade each other",
     {{'C', LIMIT(1)},
      {'F', "TIME_BLOCK", "{\"start\":\"0300\",\"end\":\"0400\"}"},
      {'F', "MANUAL_BLOCK", "{}"}},
     "manual time=0300-0400 limit=1"},
    {"apps add up",
     {{'F', APPS("\"a\"")}, {'C', APPS("\"b\"")}, {'F', APPS("\"c\"")}, {'O', APPS("\"d\"")}},
     "app=a app=b app=c"},
    {"an unreadable one that is shaded", {{'F', BAD_LIMIT}, {'C', LIMIT(1)}}, "limit=1"},
    {"an unreadable one that is older", {{'F', BAD_LIMIT}, {'F', LIMIT(1)}}, "limit=1"},
    {"an unreadable one that is newer", {{'F', LIMIT(1)}, {'F', BAD_LIMIT}}, "unreadable"},
    {"an unreadable one of one's own", {{'F', LIMIT(1)}, {'C', BAD_LIMIT}}, "unreadable"},
    {"unreadable apps among others", {{'C', APPS("\"a\"")}, {'F', APPS("1")}}, "unreadable"},
    {"an unknown type among others", {{'C', LIMIT(1)}, {'F', "SPEED_LIMIT", "{}"}}, "unreadable"},
    {"an unknown type of another's", {{'C', LIMIT(1)}, {'O', "SPEED_LIMIT", "{}"}}, "limit=1"},
};

START_TEST(several_rows) {
    for (size_t i = 0; i < TESTING_LENGTH(several); i++) {
        struct policy_row rows[TESTING_LENGTH(several[0].rows)];
        size_t n = 0;
        for (; n < TESTING_LENGTH(rows) && several[i].rows[n].whose; n++) {
            const struct row *r = &several[i].rows[n];
            rows[n] = (struct policy_row){r->whose == 'F'   ? POLICY_FOR_FAMILY
                                          : r->whose == 'C' ? CUSTOMER
                                                            : OTHER,
                                          r->type, r->rules};
        }
        expect_rules(several[i].what, rows, n, several[i].expected);
    }
}
END_TEST

/* An app no event can have isn't worth a field; one of just the longest length is. */
START_TEST(long_apps) {
    char rules[400], expected[200], app[102];
    for (size_t n = 100; n <= 101; n++) {
        memset(app, 'a', n);
        app[n] = '\0';
        snprintf(rules, sizeof rules, "{\"blockedApps\":[\" %s \"]}", app);
        snprintf(expected, sizeof expected, "app=%s", app);
        struct policy_row row = {POLICY_FOR_FAMILY, "APP_BLOCK", rules};
        expect_rules("a long app", &row, 1, n == 100 ? expected : "");
    }
}
END_TEST

START_TEST(reasons_name_the_row) {
    struct policy_row rows[] = {{CUSTOMER, "TIME_BLOCK", "{}"},
                                {POLICY_FOR_FAMILY, "A_TYPE_OF_A_LENGTH_NOBODY_EXPECTS_TO_SEE", "{}"}};
    struct policy_rules r;
    policy_rules_build(&r, rows, 1, CUSTOMER);
    ck_assert_msg(strstr(r.why, "TIME_BLOCK") && strstr(r.why, "customer"), "%s", r.why);
    policy_rules_free(&r);
    policy_rules_build(&r, rows + 1, 1, CUSTOMER);
    ck_assert_msg(strstr(r.why, "A_TYPE_OF_A_LENGTH") && strstr(r.why, "family"), "%s", r.why);
    policy_rules_free(&r);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("policy");
    TCase *tc = tcase_create("policy");
    tcase_add_test(tc, one_row);
    tcase_add_test(tc, several_rows);
    tcase_add_test(tc, long_apps);
    tcase_add_test(tc, reasons_name_the_row);
    suite_add_tcase(s, tc);
    return s;
}

int main(void) {
    return testing_run(suite());
}
