/* SPDX-License-Identifier: MIT */
/* Warming a real Redis from a real MySQL (CONTRACT §1.1 rule 9, §3, §4; DESIGN §3).
 * Needs REDIS_* and MYSQL_* (scripts/with-stack.sh). */
#include "warm.h"

#include <inttypes.h>
#include <pthread.h>

#include "batches.h"
#include "decide.h"
#include "redis.h"
#include "stores.h"

#define DATABASE "tallyd_test_warm"
#define DAY_S INT64_C(86400)

static struct config *cfg;
static struct db *db, *warmer_db; /* the test's own, the warmer's */
static struct redis *redis;
static struct warmer *warmer;
static struct decider *decider;
static redisContext *raw;
static struct assignment *assignment;
static struct batch *b;
static int64_t now;

static void create(void) {
    stores_create_database(DATABASE);
}

static void drop(void) {
    stores_drop_database(DATABASE);
}

static void set_up(void) {
    struct error err = {0};
    cfg = stores_config(DATABASE);
    static const int thresholds[] = {10, 30, 50};
    memcpy(cfg->thresholds, thresholds, sizeof thresholds);
    cfg->threshold_count = 3;
    db = stores_db(cfg, DB_READ_COMMITTED);
    stores_empty_tables(db);
    warmer_db = stores_db(cfg, DB_REPEATABLE_READ);
    raw = stores_redis(cfg);
    stores_do(raw, "FLUSHDB");
    redis = redis_new(cfg);
    ck_assert_msg(redis_ensure(redis, &err), "%s", err.text);
    warmer = warmer_new(cfg, warmer_db, redis);
    decider = decider_new(cfg, redis);
    assignment = batches_assignment(1, 1);
    b = batch_new(assignment);
    now = time(NULL);
}

static void tear_down(void) {
    batch_free(b);
    assignment_unref(assignment);
    decider_free(decider);
    warmer_free(warmer);
    redis_free(redis);
    redisFree(raw);
    db_free(warmer_db);
    db_free(db);
    config_free(cfg);
}

static void next_batch(void) {
    batch_free(b);
    b = batch_new(assignment);
}

static size_t put(const char *id, int64_t family, int64_t customer, int64_t bytes, int32_t month) {
    struct usage_event u = batches_event(id, family, customer, bytes);
    u.month = month;
    batches_put_usage(b, &assignment->parts[0], u);
    return b->count - 1;
}

static void prepare(void) {
    batch_prepare(b);
    for (size_t g = 0; g < b->group_count; g++)
        b->groups[g].dirty = true;
}

static bool any_dirty(void) {
    for (size_t g = 0; g < b->group_count; g++) {
        if (b->groups[g].dirty)
            return true;
    }
    return false;
}

static void warm_all(void) {
    struct error err = {0};
    for (int round = 0; any_dirty(); round++) {
        ck_assert_int_lt(round, 10);
        ck_assert_msg(warmer_warm(warmer, b, now, &err), "%s", err.text);
    }
}

static enum decide_answer decide(size_t i) {
    enum decide_answer answer;
    struct error err = {0};
    b->events[i].looked_up = true; /* as every id is before its family is warmed */
    ck_assert_msg(decider_run(decider, b, &i, 1, now, &answer, &err), "%s", err.text);
    return answer;
}

/* Warms for one event of a batch of its own and decides it. */
static enum decide_answer warm_and_decide(int64_t family, int64_t customer, int32_t month,
                                          struct decision *d) {
    next_batch();
    put("probe", family, customer, 1, month);
    prepare();
    warm_all();
    if (b->events[0].outcome == OUTCOME_REJECTED)
        return DECIDE_NOT_MEMBER;
    enum decide_answer answer = decide(0);
    *d = b->events[0].decision;
    return answer;
}

/* A family of `members` customers, its id × 10 + 0, 1, …; without quota. */
static void make_family(int64_t family, int members) {
    stores_sql(db, "INSERT INTO family VALUES (%" PRId64 ", '가족 %" PRId64 "')", family, family);
    for (int i = 0; i < members; i++)
        stores_sql(db, "INSERT INTO family_member VALUES (%" PRId64 ", %" PRId64 ")", family,
                   family * 10 + i);
}

static void give_quota(int64_t family, const char *month, int64_t total, int64_t used) {
    stores_sql(
        db,
        "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes, used_bytes) VALUES (%" PRId64
        ", '%s', %" PRId64 ", %" PRId64 ")",
        family, month, total, used);
}

static void expect_key(const char *key, const char *expected) {
    redisReply *reply = stores_ask(raw, "GET %s", key);
    const char *got = reply->type == REDIS_REPLY_STRING ? reply->str : "(nothing)";
    ck_assert_msg(strcmp(got, expected) == 0, "%s is %s instead of %s", key, got, expected);
    freeReplyObject(reply);
}

static void expect_field(const char *key, const char *field, const char *expected) {
    redisReply *reply = stores_ask(raw, "HGET %s %s", key, field);
    const char *got = reply->type == REDIS_REPLY_STRING ? reply->str : "(nothing)";
    ck_assert_msg(strcmp(got, expected) == 0, "%s of %s is %s instead of %s", field, key, got, expected);
    freeReplyObject(reply);
}

/* ---- the month's row ---- */

#define QUOTAS                                                                                               \
    "SELECT quota_month, total_quota_bytes, used_bytes, delta_bytes, rev FROM family_quota ORDER BY 1"

/* The quotas there are (total and used by month), who asks for 2026-11, and the rows afterwards. */
static const struct {
    const char *what;
    struct {
        const char *month;
        int64_t total, used;
    } before[3];
    int64_t customer;
    enum reject_code code;
    const char *rows;
} carried[] = {
    {"its own row",
     {{"2026-11-01", 5, 0}, {"2026-10-01", 700, 9}},
     10,
     REJECT_NONE,
     "2026-10-01|700|9|0|0\n2026-11-01|5|0|0|0\n"},
    {"the month before",
     {{"2026-10-01", 700, 9}},
     10,
     REJECT_NONE,
     "2026-10-01|700|9|0|0\n2026-11-01|700|0|0|0\n"},
    {"the latest of the earlier ones",
     {{"2026-08-01", 900, 9}, {"2025-12-01", 500, 0}, {"2026-12-01", 1, 0}},
     10,
     REJECT_NONE,
     "2025-12-01|500|0|0|0\n2026-08-01|900|9|0|0\n2026-11-01|900|0|0|0\n2026-12-01|1|0|0|0\n"},
    {"a total of zero", {{"2026-10-01", 0, 0}}, 10, REJECT_NONE, "2026-10-01|0|0|0|0\n2026-11-01|0|0|0|0\n"},
    {"the largest total",
     {{"2026-11-01", 9007199254740991, 0}},
     10,
     REJECT_NONE,
     "2026-11-01|9007199254740991|0|0|0\n"},
    {"a total too large",
     {{"2026-11-01", 9007199254740992, 0}},
     10,
     REJECT_UNKNOWN_FAMILY,
     "2026-11-01|9007199254740992|0|0|0\n"},
    {"none at all", {{0}}, 10, REJECT_UNKNOWN_FAMILY, ""},
    {"none but later ones", {{"2026-12-01", 700, 0}}, 10, REJECT_UNKNOWN_FAMILY, "2026-12-01|700|0|0|0\n"},
    {"a stranger who asks", {{"2026-10-01", 700, 0}}, 99, REJECT_NOT_A_MEMBER, "2026-10-01|700|0|0|0\n"},
};

START_TEST(a_months_row_is_carried_over) {
    make_family(1, 2);
    for (size_t i = 0; i < TESTING_LENGTH(carried[0].before) && carried[_i].before[i].month; i++)
        give_quota(1, carried[_i].before[i].month, carried[_i].before[i].total, carried[_i].before[i].used);
    put("e1", 1, carried[_i].customer, 1, 202611);
    prepare();
    warm_all();
    ck_assert_msg(b->events[0].why.code == carried[_i].code, "%s: %s", carried[_i].what,
                  reject_code_name(b->events[0].why.code));
    ck_assert_int_eq(b->events[0].outcome, carried[_i].code == REJECT_NONE ? OUTCOME_OPEN : OUTCOME_REJECTED);
    stores_expect(db, QUOTAS, 5, carried[_i].rows);
    ck_assert_int_eq(stores_number(raw, "EXISTS %s", "family:1:info:202611"),
                     carried[_i].code == REJECT_NONE);
}
END_TEST

static void *warm_in_thread(void *err) {
    static bool ok;
    ok = warmer_warm(warmer, b, now, err);
    return &ok;
}

/* Somebody else makes the month's row between the reading and the making: the family isn't unknown by that.
 */
START_TEST(a_months_row_made_by_somebody_else_meanwhile) {
    struct error err = {0};
    pthread_t thread;
    void *ok;
    make_family(1, 1);
    give_quota(1, "2026-10-01", 700, 0);
    struct db *other = stores_db(cfg, DB_READ_COMMITTED);
    stores_sql(other, "START TRANSACTION");
    stores_sql(other, "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes, used_bytes) "
                      "VALUES (1, '2026-11-01', 800, 5)");
    put("e1", 1, 10, 1, 202611);
    prepare();
    ck_assert_int_eq(pthread_create(&thread, NULL, warm_in_thread, &err), 0);
    stores_await_waiting(db, "INSERT INTO family_quota%");
    stores_sql(other, "COMMIT");
    pthread_join(thread, &ok);
    db_free(other);
    ck_assert_msg(*(bool *)ok, "%s", err.text);
    ck_assert_msg(b->events[0].outcome == OUTCOME_OPEN, "%s", b->events[0].why.message);
    ck_assert_int_eq(decide(0), DECIDE_DONE);
    ck_assert_int_eq(b->events[0].decision.remaining_bytes, 794);
}
END_TEST

/* Several families at once: each gets its own total. */
START_TEST(months_rows_of_many_families) {
    for (int f = 1; f <= 40; f++) {
        char id[16];
        snprintf(id, sizeof id, "e%d", f);
        make_family(f, 1);
        if (f % 4)
            give_quota(f, "2026-09-01", f * 100, 5);
        if (f % 2)
            give_quota(f, "2026-11-01", f * 1000, 1);
        put(id, f, f * 10, 1, f % 8 == 2 ? 202612 : 202611);
    }
    prepare();
    warm_all();
    stores_expect(
        db,
        "SELECT COUNT(*), SUM(total_quota_bytes = family_id * IF(family_id % 2, 1000, 100)), SUM(used_bytes) FROM family_quota "
        "WHERE quota_month > '2026-10-01'",
        3, "30|30|20\n");
    for (size_t i = 0; i < b->count; i++)
        ck_assert_int_eq(b->events[i].outcome, (i + 1) % 4 ? OUTCOME_OPEN : OUTCOME_REJECTED);
}
END_TEST

/* ---- what Redis holds ---- */

START_TEST(figures_members_and_names) {
    make_family(7, 3);
    make_family(8, 1);
    give_quota(7, "2026-11-01", 1000, 300);
    give_quota(7, "2026-10-01", 500, 500);
    give_quota(8, "2026-11-01", 50, 0);
    stores_sql(
        db,
        "INSERT INTO customer_quota (family_id, customer_id, quota_month, monthly_used_bytes) VALUES "
        "(7, 70, '2026-11-01', 100), (7, 72, '2026-11-01', 180), (7, 70, '2026-10-01', 999), (8, 70, '2026-11-01', 5), "
        "(7, 79, '2026-11-01', 20)"); /* 79 was a member once */
    put("e1", 7, 70, 1, 202611);
    put("e2", 8, 80, 1, 202611);
    prepare();
    warm_all();
    expect_field("family:7:info:202611", "totalQuota", "1000");
    expect_field("family:7:info:202611", "name", "가족 7");
    expect_key("family:7:remaining:202611", "700");
    expect_key("family:7:customer:70:usage:monthly:202611", "100");
    expect_key("family:7:customer:71:usage:monthly:202611", "0");
    expect_key("family:7:customer:72:usage:monthly:202611", "180");
    expect_key("family:7:customer:79:usage:monthly:202611", "(nothing)");
    expect_key("family:8:remaining:202611", "50");
    ck_assert_int_eq(stores_number(raw, "SCARD %s", "family:7:members"), 3);
    ck_assert_int_eq(stores_number(raw, "SISMEMBER %s 71", "family:7:members"), 1);
    ck_assert_int_eq(stores_number(raw, "SCARD %s", "family:8:members"), 1);
    ck_assert_int_eq(decide(0), DECIDE_DONE);
    ck_assert_int_eq(b->events[0].decision.remaining_bytes, 699);
    ck_assert_int_eq(b->events[0].decision.monthly_used_bytes, 101);
    ck_assert(b->groups[0].warmed && b->groups[0].void_decisions && !b->groups[0].dirty);
    ck_assert_int_eq(warmer_warmed(warmer), 2);
}
END_TEST

/* More was used than the total is by now. */
START_TEST(a_total_below_what_is_used) {
    struct decision d;
    make_family(1, 1);
    give_quota(1, "2026-11-01", 100, 250);
    ck_assert_int_eq(warm_and_decide(1, 10, 202611, &d), DECIDE_DONE);
    ck_assert_int_eq(d.status, STATUS_FAMILY_QUOTA_EXCEEDED);
    ck_assert_int_eq(d.remaining_bytes, -150);
}
END_TEST

START_TEST(former_members_are_gone) {
    struct decision d;
    make_family(1, 2);
    give_quota(1, "2026-11-01", 100, 0);
    ck_assert_int_eq(warm_and_decide(1, 11, 202611, &d), DECIDE_DONE);
    stores_sql(db, "DELETE FROM family_member WHERE customer_id = 11");
    ck_assert_int_eq(warm_and_decide(1, 10, 202611, &d), DECIDE_DONE);
    ck_assert_int_eq(stores_number(raw, "SCARD %s", "family:1:members"), 1);
    next_batch();
    put("e2", 1, 11, 1, 202611);
    prepare();
    ck_assert_int_eq(decide(0), DECIDE_NOT_MEMBER);
    warm_all();
    ck_assert_int_eq(b->events[0].why.code, REJECT_NOT_A_MEMBER);
}
END_TEST

static void add_rule(int customer, const char *type, const char *rules, int active, int second) {
    stores_sql(
        db,
        "INSERT INTO policy_assignment (family_id, customer_id, policy_type, rules, is_active, updated_at) VALUES "
        "(1, NULLIF(%d, 0), '%s', '%s', %d, '2026-11-01 00:00:%02d')",
        customer, type, rules, active, second);
}

static void expect_limit(int64_t customer, int64_t limit) {
    struct decision d;
    ck_assert_int_eq(warm_and_decide(1, customer, 202611, &d), DECIDE_DONE);
    ck_assert_int_eq(d.monthly_limit_bytes, limit);
}

START_TEST(limits_own_newest_active) {
    make_family(1, 2);
    give_quota(1, "2026-11-01", 100000, 0);
    expect_limit(10, -1);
    add_rule(0, "MONTHLY_LIMIT", "{\"limitBytes\":5000}", 1, 10);
    expect_limit(10, 5000);
    add_rule(0, "MONTHLY_LIMIT", "{\"limitBytes\":4000}", 1, 9); /* a later row, an older rule */
    expect_limit(10, 5000);
    add_rule(0, "MONTHLY_LIMIT", "{\"limitBytes\":3000}", 1, 10); /* just as new: the later row */
    expect_limit(10, 3000);
    add_rule(0, "MONTHLY_LIMIT", "{\"limitBytes\":2000}", 0, 20); /* inactive */
    expect_limit(10, 3000);
    add_rule(10, "MONTHLY_LIMIT", "{\"limitBytes\":\"9000\"}", 1, 1);
    expect_limit(10, 9000);
    expect_limit(11, 3000);
    add_rule(10, "MONTHLY_LIMIT", "oops", 0, 30);
    expect_limit(10, 9000);
    stores_sql(db, "UPDATE policy_assignment SET is_active = 0 WHERE customer_id = 10");
    expect_limit(10, 3000);
}
END_TEST

START_TEST(rules_of_all_types) {
    struct decision d;
    make_family(1, 2);
    give_quota(1, "2026-11-01", 100000, 0);
    add_rule(10, "TIME_BLOCK", "{\"start\":\"22:00\",\"end\":\"0700\"}", 1, 1);
    add_rule(0, "APP_BLOCK", "{\"blockedApps\":[\"com.game\",\" 카카오톡 \"]}", 1, 1);
    add_rule(10, "APP_BLOCK", "{\"blockedApps\":[\"a b\",\"com.game\"]}", 1, 2);
    ck_assert_int_eq(warm_and_decide(1, 10, 202611, &d), DECIDE_DONE);
    expect_field("family:1:customer:10:constraints", "BLOCK:TIME", "2200-0700");
    expect_field("family:1:customer:10:constraints", "BLOCK:APP:com.game", "1");
    expect_field("family:1:customer:10:constraints", "BLOCK:APP:%EC%B9%B4%EC%B9%B4%EC%98%A4%ED%86%A1", "1");
    expect_field("family:1:customer:10:constraints", "BLOCK:APP:a%20b", "1");
    expect_field("family:1:customer:11:constraints", "BLOCK:TIME", "(nothing)");
    expect_field("family:1:customer:11:constraints", "BLOCK:APP:a%20b", "(nothing)");
    expect_field("family:1:customer:11:constraints", "BLOCK:APP:com.game", "1");
    ck_assert_int_eq(d.status, STATUS_NORMAL);
    add_rule(0, "MANUAL_BLOCK", "{\"reason\":\"lost\"}", 1, 1);
    ck_assert_int_eq(warm_and_decide(1, 11, 202611, &d), DECIDE_DONE);
    ck_assert_int_eq(d.status, STATUS_MANUAL);
    expect_field("family:1:customer:11:constraints", "BLOCK:ACCESS", "1");
}
END_TEST

START_TEST(unreadable_rules_are_the_customers_alone) {
    struct decision d;
    make_family(1, 2);
    give_quota(1, "2026-11-01", 100000, 0);
    add_rule(10, "MONTHLY_LIMIT", "{\"limitBytes\":1.5}", 1, 1);
    ck_assert_int_eq(warm_and_decide(1, 10, 202611, &d), DECIDE_UNREADABLE);
    ck_assert_int_eq(warm_and_decide(1, 11, 202611, &d), DECIDE_DONE);
}
END_TEST

START_TEST(told_alerts_become_marks) {
    struct decision d;
    make_family(1, 2);
    give_quota(1, "2026-11-01", 100, 49);
    stores_sql(
        db,
        "INSERT INTO customer_quota (family_id, customer_id, quota_month, monthly_used_bytes) VALUES (1, 10, '2026-11-01', 49)");
    stores_sql(
        db,
        "INSERT INTO alert_state (family_id, customer_id, quota_month, alert, event_id, total_quota_bytes, remaining_bytes, told_at) "
        "VALUES (1, 10, '2026-11-01', 'THRESHOLD:50', 'x', 1, 1, '2026-11-30'), (1, 10, '2026-11-01', 'APP_BLOCK:a%%20b', 'y', 1, 1, "
        "'2026-11-30'), (1, 11, '2026-10-01', 'THRESHOLD:50', 'z', 1, 1, '2026-11-30'), (2, 11, '2026-11-01', 'THRESHOLD:50', 'v', 1, 1, "
        "'2026-11-30')");
    ck_assert_int_eq(warm_and_decide(1, 10, 202611, &d), DECIDE_DONE);
    ck_assert(d.status == STATUS_WARNING && !d.should_notify);
    ck_assert_int_eq(stores_number(raw, "EXISTS %s", "family:1:customer:10:alert:APP_BLOCK:a%20b:202611"), 1);
    ck_assert_int_eq(warm_and_decide(1, 11, 202611, &d), DECIDE_DONE);
    ck_assert_msg(d.status == STATUS_WARNING && d.should_notify, "another month's or family's alert counts");
}
END_TEST

/* A month's keys: the later of 35 days after its end and a day from now; the others 45 days. */
START_TEST(expiries) {
    static const struct {
        int32_t month;
        const char *date;
        int64_t end; /* in Seoul; 0: long ago */
    } months[] = {{209911, "2099-11-01", INT64_C(4099734000)}, {202001, "2020-01-01", 0}};
    static const char *const keys[] = {"info:%d", "remaining:%d", "customer:10:usage:monthly:%d",
                                       "customer:10:alert:MANUAL:%d"};
    make_family(1, 1);
    for (size_t i = 0; i < TESTING_LENGTH(months); i++) {
        struct decision d;
        give_quota(1, months[i].date, 100, 0);
        stores_sql(
            db,
            "INSERT INTO alert_state (family_id, customer_id, quota_month, alert, event_id, total_quota_bytes, remaining_bytes, told_at) "
            "VALUES (1, 10, '%s', 'MANUAL', 'x', 1, 1, '2026-11-30')",
            months[i].date);
        ck_assert_int_eq(warm_and_decide(1, 10, months[i].month, &d), DECIDE_DONE);
        for (size_t k = 0; k < TESTING_LENGTH(keys); k++) {
            char key[96];
            int n = snprintf(key, sizeof key, "family:1:%.*s%d", (int)strlen(keys[k]) - 2, keys[k],
                             months[i].month);
            ck_assert_int_gt(n, 0);
            ck_assert_msg(stores_number(raw, "EXPIRETIME %s", key) ==
                              (months[i].end ? months[i].end + 35 * DAY_S : now + DAY_S),
                          "%s", key);
        }
        ck_assert_int_eq(stores_number(raw, "EXPIRETIME %s", "family:1:members"), now + 45 * DAY_S);
        ck_assert_int_eq(stores_number(raw, "EXPIRETIME %s", "family:1:customer:10:constraints"),
                         now + 45 * DAY_S);
    }
}
END_TEST

START_TEST(two_months_of_a_family) {
    struct error err = {0};
    make_family(1, 1);
    give_quota(1, "2026-11-01", 1000, 0);
    give_quota(1, "2026-10-01", 500, 10);
    stores_sql(db, "INSERT INTO customer_quota (family_id, customer_id, quota_month, monthly_used_bytes) "
                   "VALUES (1, 10, '2026-10-01', 7), (1, 10, '2026-11-01', 3)");
    put("e1", 1, 10, 1, 202611);
    put("e2", 1, 10, 1, 202610);
    prepare();
    ck_assert_uint_eq(b->group_count, 2);
    ck_assert_msg(warmer_warm(warmer, b, now, &err), "%s", err.text);
    ck_assert_int_eq(decide(0), DECIDE_DONE);
    ck_assert_int_eq(decide(1), DECIDE_DONE);
    ck_assert_int_eq(b->events[0].decision.remaining_bytes, 999);
    ck_assert_int_eq(b->events[1].decision.remaining_bytes, 489);
    ck_assert_int_eq(b->events[0].decision.monthly_used_bytes, 4);
    ck_assert_int_eq(b->events[1].decision.monthly_used_bytes, 8);
    /* and one after the other */
    b->groups[1].dirty = true;
    ck_assert_msg(warmer_warm(warmer, b, now, &err), "%s", err.text);
    ck_assert_int_eq(decide(1), DECIDE_DONE);
    ck_assert_int_eq(decide(0), DECIDE_DONE);
    ck_assert_msg(b->events[1].decision.duplicate && !b->events[0].decision.duplicate,
                  "the wrong month got a new generation");
}
END_TEST

START_TEST(generations_never_come_again) {
    enum { MANY = 60 };
    char seen[MANY][32];
    make_family(1, 1);
    give_quota(1, "2026-11-01", 1000, 0);
    put("e1", 1, 10, 1, 202611);
    prepare();
    for (size_t i = 0; i < MANY; i++) {
        b->groups[0].dirty = true;
        warm_all();
        redisReply *reply = stores_ask(raw, "HGET family:1:info:202611 gen");
        snprintf(seen[i], sizeof seen[i], "%s", reply->str);
        freeReplyObject(reply);
        for (size_t k = 0; k < i; k++)
            ck_assert_str_ne(seen[i], seen[k]);
    }
}
END_TEST

/* ---- rejections ---- */

/* Whether the family is there, its customer a member, its quota usable: the first that fails is the code. */
START_TEST(rejections_in_the_contracts_order) {
    static const char *const quotas[] = {NULL, "9007199254740992", "1000"};
    static const enum reject_code expected[2][2][3] = {
        {{REJECT_UNKNOWN_FAMILY, REJECT_UNKNOWN_FAMILY, REJECT_UNKNOWN_FAMILY},
         {REJECT_UNKNOWN_FAMILY, REJECT_UNKNOWN_FAMILY, REJECT_UNKNOWN_FAMILY}},
        {{REJECT_NOT_A_MEMBER, REJECT_NOT_A_MEMBER, REJECT_NOT_A_MEMBER},
         {REJECT_UNKNOWN_FAMILY, REJECT_UNKNOWN_FAMILY, REJECT_NONE}}};
    for (int there = 0; there < 2; there++) {
        for (int member = 0; member < 2; member++) {
            for (int quota = 0; quota < 3; quota++) {
                stores_empty_tables(db);
                if (there)
                    stores_sql(db, "INSERT INTO family VALUES (1, 'x')");
                if (member)
                    stores_sql(db, "INSERT INTO family_member VALUES (1, 10)");
                if (quotas[quota])
                    stores_sql(
                        db,
                        "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (1, '2026-11-01', %s)",
                        quotas[quota]);
                add_rule(10, "MONTHLY_LIMIT", "oops", 1, 1); /* comes last */
                next_batch();
                put("e1", 1, 10, 1, 202611);
                prepare();
                warm_all();
                ck_assert_msg(b->events[0].why.code == expected[there][member][quota], "%d %d %d: %s", there,
                              member, quota, reject_code_name(b->events[0].why.code));
            }
        }
    }
}
END_TEST

/* Strangers among members: the members' events stay, and the family is warmed for them. */
START_TEST(strangers_among_members) {
    make_family(1, 1);
    give_quota(1, "2026-10-01", 1000, 0);
    put("e1", 1, 99, 1, 202611);
    put("e2", 1, 10, 1, 202611);
    put("e3", 2, 10, 1, 202611);
    put("e4", 1, 98, 1, 202611);
    prepare();
    warm_all();
    static const enum reject_code codes[] = {REJECT_NOT_A_MEMBER, REJECT_NONE, REJECT_UNKNOWN_FAMILY,
                                             REJECT_NOT_A_MEMBER};
    for (size_t i = 0; i < b->count; i++)
        ck_assert_int_eq(b->events[i].why.code, codes[i]);
    ck_assert_int_eq(decide(1), DECIDE_DONE);
    ck_assert_int_eq(warmer_warmed(warmer), 1);
}
END_TEST

/* The first of an id is a stranger's; the next stands in for it and its family becomes dirty. */
START_TEST(a_promoted_twin_is_warmed_too) {
    struct error err = {0};
    make_family(1, 1);
    give_quota(1, "2026-11-01", 1000, 0);
    put("e1", 5, 50, 1, 202611); /* the last family of the batch */
    put("e1", 1, 10, 1, 202611);
    put("e1", 1, 10, 1, 202611);
    prepare();
    ck_assert_msg(warmer_warm(warmer, b, now, &err), "%s", err.text);
    ck_assert_int_eq(b->events[0].why.code, REJECT_UNKNOWN_FAMILY);
    ck_assert_msg(b->groups[0].dirty, "nobody warms the twin's family");
    warm_all();
    ck_assert_int_eq(decide(1), DECIDE_DONE);
    ck_assert_uint_eq(b->events[2].twin_of, 1);
}
END_TEST

/* ---- how much work it is ---- */

static int64_t questions(void) {
    struct error err = {0};
    struct db_rows rows;
    ck_assert(db_query_text(warmer_db, "SHOW SESSION STATUS LIKE 'Questions'", &rows, &err));
    ck_assert(db_next(&rows));
    int64_t n = db_i64(&rows, 1, 0);
    db_rows_free(&rows);
    return n;
}

static int64_t queries_for(int families, bool carry) {
    stores_empty_tables(db);
    next_batch();
    for (int f = 1; f <= families; f++) {
        char id[16];
        snprintf(id, sizeof id, "e%d", f);
        put(id, f, f * 10, 1, 202611);
    }
    stores_sql(db, "INSERT INTO family SELECT seq, 'x' FROM seq_1_to_%d", families);
    stores_sql(db, "INSERT INTO family_member SELECT seq, seq * 10 FROM seq_1_to_%d", families);
    stores_sql(
        db,
        "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) SELECT seq, '%s', 1000 FROM seq_1_to_%d",
        carry ? "2026-10-01" : "2026-11-01", families);
    prepare();
    int64_t before = questions();
    warm_all();
    int64_t n = questions() - before;
    ck_assert_int_eq(decide(b->count - 1), DECIDE_DONE);
    return n;
}

START_TEST(as_many_queries_for_one_family_as_for_many) {
    for (int carry = 0; carry < 2; carry++) {
        int64_t one = queries_for(1, carry), many = queries_for(290, carry),
                thousand = queries_for(1000, carry);
        ck_assert_msg(one == many && one < 30, "one: %" PRId64 ", 290: %" PRId64, one, many);
        ck_assert_msg(thousand <= 4 * one, "one: %" PRId64 ", 1000: %" PRId64, one, thousand);
    }
}
END_TEST

/* ---- weeding out ---- */

START_TEST(weeding_out) {
    struct error err = {0};
    struct buf before = {0}, after = {0};
    make_family(1, 1);
    make_family(2, 1);
    make_family(3, 1);
    make_family(4, 1);
    give_quota(1, "2026-10-01", 1000, 0);
    size_t only_stranger = put("e1", 1, 99, 1, 202611);
    size_t stranger = put("e2", 2, 99, 1, 202611), member = put("e3", 2, 20, 1, 202611);
    size_t nobody = put("e4", 9, 90, 1, 202611);
    size_t decided = put("e5", 3, 30, 1, 202611), suspected = put("e6", 3, 99, 1, 202611);
    size_t untouched = put("e7", 4, 99, 1, 202611);
    size_t fresh = put("e8", 3, 31, 1, 202612); /* a member by now, whom Redis doesn't know */
    stores_sql(db, "INSERT INTO family_member VALUES (3, 31)");
    batch_prepare(b);
    b->events[decided].decided = true;
    for (size_t g = 0; g < b->group_count; g++) {
        b->groups[g].dirty = b->groups[g].family_id != 3 && b->groups[g].family_id != 4;
        b->groups[g].suspect = b->groups[g].family_id == 3;
    }
    stores_dump_tables(db, &before);
    ck_assert_msg(warmer_weed_out(warmer, b, &err), "%s", err.text);
    stores_dump_tables(db, &after);
    ck_assert_str_eq(buf_cstr(&before), buf_cstr(&after)); /* no row is made, nothing warmed */
    ck_assert_int_eq(stores_number(raw, "EXISTS %s", "family:2:info:202611"), 0);
    ck_assert_int_eq(b->events[only_stranger].why.code, REJECT_NOT_A_MEMBER);
    ck_assert_int_eq(b->events[stranger].why.code, REJECT_NOT_A_MEMBER);
    ck_assert_int_eq(b->events[nobody].why.code, REJECT_UNKNOWN_FAMILY);
    ck_assert_int_eq(b->events[suspected].why.code, REJECT_NOT_A_MEMBER);
    ck_assert_int_eq(b->events[member].outcome, OUTCOME_OPEN);
    ck_assert_int_eq(b->events[untouched].outcome, OUTCOME_OPEN);
    ck_assert_int_eq(b->events[fresh].outcome, OUTCOME_OPEN);
    ck_assert_int_eq(b->events[decided].outcome, OUTCOME_OPEN);
    ck_assert(!b->groups[b->events[only_stranger].group].dirty && !b->groups[b->events[nobody].group].dirty);
    ck_assert(b->groups[b->events[member].group].dirty && b->groups[b->events[fresh].group].dirty);
    ck_assert_msg(!b->groups[b->events[decided].group].dirty, "a family is warmed for its strangers");
    for (size_t g = 0; g < b->group_count; g++)
        ck_assert(!b->groups[g].suspect);
    buf_free(&before);
    buf_free(&after);
}
END_TEST

/* ---- what was decided and is dropped ---- */

START_TEST(forgetting_a_batch) {
    struct error err = {0};
    make_family(1, 1);
    make_family(2, 1);
    make_family(3, 1);
    for (int64_t family = 1; family <= 3; family++)
        give_quota(family, "2026-11-01", 1000, 0);
    struct decision d;
    ck_assert_int_eq(warm_and_decide(3, 30, 202611, &d), DECIDE_DONE);
    next_batch();
    put("e1", 1, 10, 7, 202611);
    put("e2", 2, 20, 7, 202611);
    prepare();
    warm_all();
    ck_assert_int_eq(decide(0), DECIDE_DONE);
    ck_assert_int_eq(decide(1), DECIDE_DONE);
    ck_assert_msg(warmer_forget(warmer, b, &err), "%s", err.text);
    ck_assert_int_eq(decide(0), DECIDE_COLD);
    ck_assert_int_eq(decide(1), DECIDE_COLD);
    ck_assert_int_eq(warm_and_decide(1, 10, 202611, &d), DECIDE_DONE);
    ck_assert_int_eq(d.remaining_bytes, 999); /* of the 7 nothing is left */
    ck_assert_int_eq(stores_number(raw, "EXISTS %s", "family:3:info:202611"), 1);
    ck_assert_int_eq(stores_number(raw, "EXISTS %s", "family:2:info:202611"), 0);
}
END_TEST

/* ---- when something is away ---- */

START_TEST(an_emptied_script_cache) {
    struct error err = {0};
    make_family(1, 1);
    give_quota(1, "2026-11-01", 1000, 0);
    put("e1", 1, 10, 1, 202611);
    prepare();
    stores_do(raw, "SCRIPT FLUSH");
    ck_assert(!warmer_warm(warmer, b, now, &err));
    ck_assert_int_eq(err.area, ERROR_REDIS);
    ck_assert_int_eq(err.action, ERROR_RETRY);
    ck_assert(b->groups[0].dirty);
    err = (struct error){0};
    ck_assert_msg(warmer_warm(warmer, b, now, &err), "%s", err.text);
    ck_assert_int_eq(decide(0), DECIDE_DONE);
}
END_TEST

START_TEST(no_redis) {
    struct error err = {0};
    make_family(1, 1);
    give_quota(1, "2026-10-01", 1000, 0);
    put("e1", 1, 10, 1, 202611);
    prepare();
    redis_close(redis);
    int64_t port = cfg->redis.port;
    cfg->redis.port = 1;
    ck_assert(!warmer_warm(warmer, b, now, &err));
    ck_assert_int_eq(err.area, ERROR_REDIS);
    ck_assert_int_eq(err.action, ERROR_RETRY);
    ck_assert(b->groups[0].dirty);
    cfg->redis.port = port;
    warm_all();
    ck_assert_int_eq(decide(0), DECIDE_DONE);
}
END_TEST

START_TEST(no_mysql) {
    struct error err = {0};
    make_family(1, 1);
    give_quota(1, "2026-11-01", 1000, 0);
    put("e1", 1, 10, 1, 202611);
    prepare();
    db_close(warmer_db);
    int64_t port = cfg->mysql.port;
    cfg->mysql.port = 1;
    ck_assert(!warmer_warm(warmer, b, now, &err));
    ck_assert_int_eq(err.area, ERROR_MYSQL);
    ck_assert_int_eq(err.action, ERROR_RETRY);
    ck_assert(b->groups[0].dirty);
    err = (struct error){0};
    ck_assert(!warmer_weed_out(warmer, b, &err));
    cfg->mysql.port = port;
    warm_all();
    ck_assert_int_eq(decide(0), DECIDE_DONE);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("warm");
    TCase *tc = tcase_create("warm");
    tcase_add_unchecked_fixture(tc, create, drop);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_months_row_is_carried_over, 0, TESTING_LENGTH(carried));
    tcase_add_test(tc, a_months_row_made_by_somebody_else_meanwhile);
    tcase_add_test(tc, months_rows_of_many_families);
    tcase_add_test(tc, figures_members_and_names);
    tcase_add_test(tc, a_total_below_what_is_used);
    tcase_add_test(tc, former_members_are_gone);
    tcase_add_test(tc, limits_own_newest_active);
    tcase_add_test(tc, rules_of_all_types);
    tcase_add_test(tc, unreadable_rules_are_the_customers_alone);
    tcase_add_test(tc, told_alerts_become_marks);
    tcase_add_test(tc, expiries);
    tcase_add_test(tc, two_months_of_a_family);
    tcase_add_test(tc, generations_never_come_again);
    tcase_add_test(tc, rejections_in_the_contracts_order);
    tcase_add_test(tc, strangers_among_members);
    tcase_add_test(tc, a_promoted_twin_is_warmed_too);
    tcase_add_test(tc, as_many_queries_for_one_family_as_for_many);
    tcase_add_test(tc, weeding_out);
    tcase_add_test(tc, forgetting_a_batch);
    tcase_add_test(tc, an_emptied_script_cache);
    tcase_add_test(tc, no_redis);
    tcase_add_test(tc, no_mysql);
    suite_add_tcase(s, tc);
    return s;
}

int main(void) {
    return testing_run(suite());
}
