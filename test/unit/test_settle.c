/* SPDX-License-Identifier: MIT */
/* Settlements of hand-made decided batches on a real MySQL (CONTRACT §4, §5; DESIGN §4).
 * Needs MYSQL_* (scripts/with-stack.sh); Kafka isn't used: no rejected record is left to be written. */
#include "settle.h"

#include <inttypes.h>
#include <pthread.h>

#include "batches.h"
#include "ledger.h"
#include "stores.h"

#define DATABASE "tallyd_test_settle"
#define OWNER 4711
#define FAMILY 100042
#define CUSTOMER 200187

static struct config *cfg;
static struct db *db; /* the test's own */
static struct messages *messages;
static struct metrics *metrics;
static struct settle settle;
static struct assignment *assignment;
static struct batch *b;

static bool text_only; /* as on a server that takes no values in bulk */

static void create(void) {
    stores_create_database(DATABASE);
}

static void create_for_text(void) {
    text_only = true;
    create();
}

static void drop(void) {
    stores_drop_database(DATABASE);
}

static void settle_init(struct settle *s) {
    *s = (struct settle){.cfg = cfg,
                         .messages = messages,
                         .db = db_new(cfg, DB_READ_COMMITTED),
                         .dlt = dlt_new(cfg, metrics),
                         .metrics = metrics,
                         .lease_owner = 99};
    if (text_only)
        db_text_only(s->db);
    seen_init(&s->told, 1000);
}

static void settle_free(struct settle *s) {
    db_free(s->db);
    dlt_free(s->dlt);
    settle_deinit(s);
}

static void set_up(void) {
    struct error err = {0};
    size_t len;
    cfg = stores_config(DATABASE);
    db = stores_db(cfg, DB_READ_COMMITTED);
    stores_empty_tables(db);
    char *yaml = testing_file("config/messages.en.yaml", &len);
    messages = messages_parse("messages.en.yaml", yaml, len, &err);
    ck_assert_msg(messages != NULL, "%s", err.text);
    free(yaml);
    metrics = metrics_new();
    settle_init(&settle);
    assignment = batches_assignment(OWNER, 2);
    b = batch_new(assignment);
    for (int i = 0; i < 2; i++)
        stores_sql(
            db,
            "INSERT INTO consumer_ledger (group_id, topic, partition_id, owner, first_offset, next_offset, updated_at) "
            "VALUES ('%s', '%s', %d, %d, 0, 0, '2026-11-30')",
            cfg->kafka.group_id, cfg->kafka.usage_topic, i, OWNER);
}

static void tear_down(void) {
    batch_free(b);
    assignment_unref(assignment);
    settle_free(&settle);
    metrics_free(metrics);
    messages_free(messages);
    db_free(db);
    config_free(cfg);
}

/* ---- what the decisions start from ---- */

struct figures {
    int64_t family, customer, total, used, monthly;
};

static struct figures usual(void) {
    return (struct figures){FAMILY, CUSTOMER, 1000, 0, 0};
}

static void give_quota(const struct figures *f) {
    stores_sql(
        db,
        "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes, used_bytes) VALUES (%" PRId64
        ", '2026-11-01', %" PRId64 ", %" PRId64 ") ON DUPLICATE KEY UPDATE used_bytes = VALUES(used_bytes)",
        f->family, f->total, f->used);
    if (f->monthly)
        stores_sql(
            db,
            "INSERT INTO customer_quota (family_id, customer_id, quota_month, monthly_used_bytes) VALUES (%" PRId64
            ", %" PRId64 ", '2026-11-01', %" PRId64 ")",
            f->family, f->customer, f->monthly);
}

static struct batch_event *put(struct part *part, const struct figures *f, const char *id, int64_t bytes) {
    struct batch_event *e = batches_put_usage(b, part, batches_event(id, f->family, f->customer, bytes));
    e->decided = true;
    e->decision = (struct decision){.total_bytes = f->total, .monthly_limit_bytes = -1};
    return e;
}

/* An allowed event; `threshold` 0: NORMAL. The figures move. */
static struct batch_event *allow(struct figures *f, const char *id, int64_t bytes, int threshold) {
    struct batch_event *e = put(&assignment->parts[0], f, id, bytes);
    e->decision.allowed = true;
    e->decision.status = threshold ? STATUS_WARNING : STATUS_NORMAL;
    e->decision.threshold = threshold;
    e->decision.remaining_bytes = f->total - (f->used += bytes);
    e->decision.monthly_used_bytes = f->monthly += bytes;
    return e;
}

static struct batch_event *block(struct figures *f, const char *id, int64_t bytes,
                                 enum decision_status status) {
    struct batch_event *e = put(&assignment->parts[0], f, id, bytes);
    e->decision.status = status;
    e->decision.remaining_bytes = f->total - f->used;
    e->decision.monthly_used_bytes = f->monthly;
    return e;
}

static enum settle_result run(struct settle *s) {
    struct error err = {0};
    enum settle_result result = settle_batch(s, b, &err);
    ck_assert_msg(result == SETTLE_FAILED || result == SETTLE_REFUSED || err.area == ERROR_NONE, "%s",
                  err.text);
    return result;
}

/* As the settler does. */
static void take_born(void) {
    outbox_list_free(settle.born.head);
    settle.born = (struct outbox_list){0};
}

/* Which of the last batch's events had an alert stored. */
static void expect_alerted(const char *expected) {
    struct buf found = {0};
    for (size_t i = 0; i < settle.alerted_count; i++)
        buf_printf(&found, "%s%zu", i ? " " : "", settle.alerted[i]);
    ck_assert_str_eq(buf_cstr(&found), expected);
    buf_free(&found);
}

/* Prepares and settles the batch in hand, and begins the next. */
static void settle_done(void) {
    struct error err = {0};
    take_born();
    batch_prepare(b);
    enum settle_result result = settle_batch(&settle, b, &err);
    ck_assert_msg(result == SETTLE_DONE, "result %d: %s", result, err.text);
    batch_free(b);
    b = batch_new(assignment);
}

/* Settles the batch as it is; expects that result, and not a byte changed in any table. */
static void expect_untouched(enum settle_result expected) {
    struct buf before = {0}, after = {0};
    struct error err = {0};
    stores_dump_tables(db, &before);
    enum settle_result result = settle_batch(&settle, b, &err);
    stores_dump_tables(db, &after);
    ck_assert_msg(result == expected, "result %d instead of %d: %s", result, expected, err.text);
    ck_assert_msg(strcmp(buf_cstr(&before), buf_cstr(&after)) == 0, "changed\n%s\nto\n%s", buf_cstr(&before),
                  buf_cstr(&after));
    ck_assert_ptr_null(settle.born.head);
    ck_assert_uint_eq(settle.told.count, 0);
    buf_free(&before);
    buf_free(&after);
}

static bool group_is_dirty(int64_t family) {
    for (size_t g = 0; g < b->group_count; g++) {
        if (b->groups[g].family_id == family)
            return b->groups[g].dirty;
    }
    ck_abort_msg("no group of %" PRId64, family);
}

#define FAMILY_FIGURES "SELECT family_id, used_bytes, delta_bytes, rev FROM family_quota ORDER BY 1"
#define CUSTOMER_FIGURES                                                                                     \
    "SELECT family_id, customer_id, monthly_used_bytes, delta_bytes, rev FROM customer_quota ORDER BY 1, 2"
#define LEDGER                                                                                               \
    "SELECT partition_id, batch_no, next_offset, settled, blocked, duplicate, rejected, ignored, gap "       \
    "FROM consumer_ledger ORDER BY 1"

static void expect_born_as_stored(void) {
    struct buf born = {0};
    for (const struct outbox_row *r = settle.born.head; r; r = r->next)
        buf_printf(&born, "%" PRId64 "|%" PRId64 "|%s|%s\n", r->outbox_id, r->family_id, r->event_id,
                   r->payload_json);
    stores_expect(
        db, "SELECT outbox_id, family_id, event_id, payload_json FROM usage_event_outbox ORDER BY outbox_id",
        4, buf_cstr(&born));
    buf_free(&born);
}

/* ---- what is written ---- */

START_TEST(figures_rows_and_ledger) {
    struct figures f = usual(), g = {FAMILY + 1, CUSTOMER, 5000, 10, 10}, h = f;
    give_quota(&f);
    give_quota(&g);
    batches_set_app(&allow(&f, "e1", 100, 0)->usage, "it's \"카\\");
    allow(&g, "e2", 1, 0);
    h.customer = CUSTOMER + 1;
    h.used = f.used;
    allow(&h, "e3", 5, 0);
    block(&h, "e4", 900, STATUS_MONTHLY_LIMIT_EXCEEDED)->decision.monthly_limit_bytes = 904;
    f.used = h.used;
    allow(&f, "e5", 20, 0);
    batches_put(b, &assignment->parts[1])->outcome = OUTCOME_IGNORED;
    batch_prepare(b);
    ck_assert_int_eq(run(&settle), SETTLE_DONE);
    static const enum outcome outcomes[] = {OUTCOME_SETTLED, OUTCOME_SETTLED, OUTCOME_SETTLED,
                                            OUTCOME_BLOCKED, OUTCOME_SETTLED, OUTCOME_IGNORED};
    for (size_t i = 0; i < b->count; i++)
        ck_assert_int_eq(b->events[i].outcome, outcomes[i]);
    stores_expect(db, FAMILY_FIGURES, 4, "100042|125|125|1\n100043|11|1|1\n");
    stores_expect(db, CUSTOMER_FIGURES, 5,
                  "100042|200187|120|120|1\n100042|200188|5|5|1\n100043|200187|11|1|1\n");
    stores_expect(db, LEDGER, 9, "0|1|5|4|1|0|0|0|0\n1|1|1|0|0|0|0|1|0\n");
    stores_expect(
        db,
        "SELECT event_id, family_id, customer_id, app_id, bytes_used, event_time, quota_month, partition_id, record_offset "
        "FROM usage_record ORDER BY 1",
        9,
        "e1|100042|200187|it's \"카\\|100|2026-11-30 03:00:00.000|2026-11-01|0|0\n"
        "e2|100043|200187|NULL|1|2026-11-30 03:00:00.000|2026-11-01|0|1\n"
        "e3|100042|200188|NULL|5|2026-11-30 03:00:00.000|2026-11-01|0|2\n"
        "e5|100042|200187|NULL|20|2026-11-30 03:00:00.000|2026-11-01|0|4\n");
    stores_expect(
        db,
        "SELECT event_id, bytes_used, record_offset, reason, remaining_bytes, monthly_used_bytes, monthly_limit_bytes "
        "FROM usage_block",
        7, "e4|900|3|MONTHLY_LIMIT_EXCEEDED|895|5|904\n");
    ck_assert_int_eq(assignment->parts[0].batch_no, 1);
    ck_assert_int_eq(assignment->parts[0].next_offset, 5);
}
END_TEST

START_TEST(delta_and_rev_are_of_the_last_settlement) {
    struct figures f = usual();
    give_quota(&f);
    allow(&f, "e1", 100, 0);
    allow(&f, "e2", 10, 0);
    settle_done();
    allow(&f, "e3", 7, 0);
    settle_done();
    block(&f, "e4", 5, STATUS_MANUAL);
    settle_done();
    stores_expect(db, FAMILY_FIGURES, 4, "100042|117|0|3\n");
    stores_expect(db, CUSTOMER_FIGURES, 5, "100042|200187|117|0|3\n");
    stores_expect(db, LEDGER, 9, "0|3|4|3|1|0|0|0|0\n1|0|0|0|0|0|0|0|0\n");
}
END_TEST

START_TEST(a_first_event_that_is_blocked_makes_its_customers_row) {
    struct figures f = usual();
    give_quota(&f);
    block(&f, "e1", 5, STATUS_TIME_BLOCK);
    settle_done();
    stores_expect(db, "SELECT monthly_used_bytes, is_blocked, block_reason FROM customer_quota", 3,
                  "0|1|TIME_BLOCK\n");
}
END_TEST

/* Customers of one family: two that have no row yet, one whose row is there at 0, one that has used
 * something. */
static void put_old_and_new(void) {
    struct figures f = {FAMILY, CUSTOMER + 1, 1000, 0, 0};
    give_quota(&f);
    block(&f, "e0", 5, STATUS_MANUAL);
    settle_done();
    take_born();
    seen_clear(&settle.told);
    stores_sql(db,
               "INSERT INTO customer_quota (family_id, customer_id, quota_month, monthly_used_bytes) VALUES "
               "(100042, 200190, '2026-11-01', 100)");
    static const struct {
        int customer, bytes, monthly;
    } puts[] = {{3, 40, 100}, {0, 10, 0}, {1, 20, 0}, {2, 0, 0}, {0, 7, 10}};
    for (size_t i = 0; i < TESTING_LENGTH(puts); i++) {
        char id[16];
        snprintf(id, sizeof id, "f%zu", i);
        f.customer = CUSTOMER + puts[i].customer;
        f.monthly = puts[i].monthly;
        if (puts[i].bytes)
            allow(&f, id, puts[i].bytes, 0);
        else
            block(&f, id, 5, STATUS_TIME_BLOCK);
    }
}

START_TEST(customers_with_and_without_a_row) {
    put_old_and_new();
    settle_done();
    stores_expect(
        db, CUSTOMER_FIGURES, 5,
        "100042|200187|17|17|1\n100042|200188|20|20|2\n100042|200189|0|0|1\n100042|200190|140|40|1\n");
    stores_expect(
        db, "SELECT customer_id, is_blocked, block_reason, state_event_time FROM customer_quota ORDER BY 1",
        4,
        "200187|0|NULL|2026-11-30 03:00:00.000\n200188|0|NULL|2026-11-30 03:00:00.000\n"
        "200189|1|TIME_BLOCK|2026-11-30 03:00:00.000\n200190|0|NULL|2026-11-30 03:00:00.000\n");
}
END_TEST

/* What one row lacks in the count of changed rows mustn't be made up for by another that is new. */
static const char *const customer_disturbances[] = {
    "UPDATE customer_quota SET monthly_used_bytes = 5 WHERE customer_id = 200188",
    "UPDATE customer_quota SET monthly_used_bytes = 20 WHERE customer_id = 200188",
    "UPDATE customer_quota SET monthly_used_bytes = 0 WHERE customer_id = 200190",
    "UPDATE customer_quota SET monthly_used_bytes = 140 WHERE customer_id = 200190",
    "DELETE FROM customer_quota WHERE customer_id = 200190",
    "DELETE FROM customer_quota",
    "INSERT INTO customer_quota (family_id, customer_id, quota_month, monthly_used_bytes) VALUES "
    "(100042, 200187, '2026-11-01', 17)",
    "INSERT INTO customer_quota (family_id, customer_id, quota_month, monthly_used_bytes) VALUES "
    "(100042, 200189, '2026-11-01', 1)",
};

START_TEST(customers_that_differ_come_back_beside_new_ones) {
    put_old_and_new();
    stores_sql(db, "%s", customer_disturbances[_i]);
    batch_prepare(b);
    expect_untouched(SETTLE_CAME_BACK);
    ck_assert(group_is_dirty(FAMILY));
}
END_TEST

/* A batch of hundreds of families and customers in no order. */
START_TEST(many_rows) {
    enum { FAMILIES = 150 };
    struct figures all[FAMILIES];
    uint64_t seed = testing_seed(), state = seed;
    int64_t sum = 0;
    for (int i = 0; i < FAMILIES; i++) {
        all[i] = (struct figures){1000 + (i * 7919) % 1000, i, 1000000, 0, 0};
        give_quota(&all[i]);
    }
    for (int i = 0; i < 700; i++) {
        char id[16];
        int64_t bytes = testing_between(&state, 1, 1000);
        struct figures *f = &all[testing_between(&state, 0, FAMILIES - 1)];
        snprintf(id, sizeof id, "%x", i * 31);
        if (testing_between(&state, 0, 9) == 0) {
            block(f, id, bytes, STATUS_MANUAL);
        } else {
            allow(f, id, bytes, 0);
            sum += bytes;
        }
    }
    settle_done();
    char expected[128];
    snprintf(expected, sizeof expected, "%" PRId64 "|%" PRId64 "|%" PRId64 "|700\n", sum, sum, sum);
    stores_expect(
        db,
        "SELECT (SELECT SUM(used_bytes) FROM family_quota), (SELECT SUM(monthly_used_bytes) FROM customer_quota), "
        "(SELECT SUM(bytes_used) FROM usage_record), (SELECT COUNT(*) FROM usage_record) + (SELECT COUNT(*) FROM usage_block)",
        4, expected);
    stores_expect(
        db,
        "SELECT COUNT(*) FROM family_quota q WHERE used_bytes <> (SELECT COALESCE(SUM(bytes_used), 0) FROM usage_record r "
        "WHERE r.family_id = q.family_id)",
        1, "0\n");
}
END_TEST

/* ---- what comes back ---- */

/* MySQL differs from what was decided on: the statement that makes it so, and whether it's the second
 * family's. */
static const char *const disturbances[] = {
    "UPDATE family_quota SET used_bytes = 1 WHERE family_id = 100042",
    "UPDATE family_quota SET total_quota_bytes = 1001 WHERE family_id = 100042",
    "UPDATE family_quota SET total_quota_bytes = 999 WHERE family_id = 100042",
    "DELETE FROM family_quota WHERE family_id = 100042",
    "UPDATE family_quota SET quota_month = '2026-10-01' WHERE family_id = 100042",
    "UPDATE customer_quota SET monthly_used_bytes = 51 WHERE family_id = 100042",
    "UPDATE customer_quota SET monthly_used_bytes = 0 WHERE family_id = 100042",
    "DELETE FROM customer_quota WHERE family_id = 100042",
};

START_TEST(figures_that_differ_come_back) {
    struct figures f = {FAMILY, CUSTOMER, 1000, 50, 50}, g = {FAMILY + 1, CUSTOMER, 1000, 0, 0};
    give_quota(&f);
    give_quota(&g);
    stores_sql(db, "%s", disturbances[_i]);
    allow(&f, "e1", 500, 50);
    allow(&g, "e2", 600, 50);
    block(&g, "e3", 600, STATUS_MANUAL);
    batch_prepare(b);
    expect_untouched(SETTLE_CAME_BACK);
    ck_assert_msg(group_is_dirty(FAMILY), "the family that differs isn't decided again");
    ck_assert_msg(!group_is_dirty(FAMILY + 1), "a family that is right is decided again");
    ck_assert_int_eq(b->events[0].outcome, OUTCOME_OPEN);
    ck_assert_int_eq(b->came_back, CAME_BACK_FIGURES);
    ck_assert_int_eq(metrics_total(metrics, METRIC_TRANSACTION_DURATION), 0);
}
END_TEST

START_TEST(a_customer_used_elsewhere_comes_back) {
    struct figures f = usual();
    give_quota(&f);
    stores_sql(
        db,
        "INSERT INTO customer_quota (family_id, customer_id, quota_month, monthly_used_bytes) VALUES (%d, %d, '2026-11-01', 3)",
        FAMILY, CUSTOMER);
    allow(&f, "e1", 1, 0);
    batch_prepare(b);
    expect_untouched(SETTLE_CAME_BACK);
    ck_assert(group_is_dirty(FAMILY));
}
END_TEST

/* Blocked events are validated as well. */
START_TEST(blocks_on_wrong_figures_come_back) {
    struct figures f = usual();
    f.used = f.monthly = 999;
    give_quota(&f);
    f.used = 998;
    block(&f, "e1", 5, STATUS_FAMILY_QUOTA_EXCEEDED);
    batch_prepare(b);
    expect_untouched(SETTLE_CAME_BACK);
    ck_assert(group_is_dirty(FAMILY));
}
END_TEST

/* Decisions that don't follow from each other never reach MySQL. */
START_TEST(broken_chains_come_back) {
    for (int i = 0; i < 6; i++) {
        struct figures f = usual();
        stores_empty_tables(db);
        give_quota(&f);
        allow(&f, "e1", 100, 0);
        if (i == 0)
            f.used += 1;
        else if (i == 1)
            f.monthly += 1;
        else if (i == 2)
            f.total += 1;
        else if (i == 4)
            f.used -= 1;
        else if (i == 5)
            f.monthly -= 1;
        struct batch_event *e = allow(&f, "e2", 100, 0);
        if (i == 3)
            e->decided = false;
        batch_prepare(b);
        expect_untouched(SETTLE_CAME_BACK);
        ck_assert_msg(group_is_dirty(FAMILY), "case %d", i);
        ck_assert_int_eq(b->came_back, i == 3 ? CAME_BACK_OTHER : CAME_BACK_NO_CHAIN);
        tear_down();
        set_up();
    }
}
END_TEST

/* Id e1 stands in one of the two tables already, with the same figures or others. */
START_TEST(known_ids_come_back) {
    bool in_blocks = _i & 1, allowed = _i & 2, same = _i & 4;
    struct figures f = usual(), g = {FAMILY + 1, CUSTOMER, 1000, 0, 0};
    give_quota(&f);
    give_quota(&g);
    stores_sql(
        db,
        "INSERT INTO %s (event_id, family_id, customer_id, bytes_used, event_time, quota_month, partition_id, record_offset, "
        "created_at%s) VALUES ('e1', %d, %d, %d, '2026-11-30', '2026-11-01', 5, 5, '2026-11-30'%s)",
        in_blocks ? "usage_block" : "usage_record",
        in_blocks ? ", reason, remaining_bytes, monthly_used_bytes, monthly_limit_bytes" : "", FAMILY,
        CUSTOMER, same ? 500 : 501, in_blocks ? ", 'MANUAL', 0, 0, -1" : "");
    if (allowed)
        allow(&f, "e1", 500, 50);
    else
        block(&f, "e1", 500, STATUS_MANUAL);
    allow(&f, "e2", 1, 50);
    allow(&g, "e3", 1, 0);
    batch_prepare(b);
    expect_untouched(SETTLE_CAME_BACK);
    ck_assert_int_eq(b->events[0].outcome, same ? OUTCOME_DUPLICATE : OUTCOME_REJECTED);
    ck_assert_int_eq(b->events[0].why.code, same ? REJECT_NONE : REJECT_ID_CONFLICT);
    ck_assert_int_eq(b->events[1].outcome, OUTCOME_OPEN);
    ck_assert(group_is_dirty(FAMILY) && !group_is_dirty(FAMILY + 1));
    ck_assert_int_eq(b->came_back, CAME_BACK_KNOWN_ID);
}
END_TEST

/* Ids are any printable ASCII; they are looked up in a text within a text. */
START_TEST(known_ids_of_odd_characters_come_back) {
    static const char *const ids[] = {"it's", "\"", "\\", "a\\\"b\\'", "\\\\u0041", "%s"};
    bool blocked = _i >= (int)TESTING_LENGTH(ids); /* found in the other table, and then by looking up */
    const char *id = ids[(size_t)_i % TESTING_LENGTH(ids)];
    struct figures f = usual();
    give_quota(&f);
    allow(&f, id, 400, 0);
    settle_done();
    if (blocked)
        block(&f, id, 400, STATUS_MANUAL);
    else
        allow(&f, id, 400, 0);
    allow(&f, "e2", 1, 0);
    batch_prepare(b);
    expect_untouched(SETTLE_CAME_BACK);
    ck_assert_int_eq(b->events[0].outcome, OUTCOME_DUPLICATE);
    ck_assert_int_eq(b->events[1].outcome, OUTCOME_OPEN);
}
END_TEST

/* A cached result of an id that is settled already is a duplicate, and the rest of the family stands. */
START_TEST(cached_results_of_known_ids) {
    struct figures f = usual();
    give_quota(&f);
    allow(&f, "e1", 100, 0);
    settle_done();
    struct figures again = usual();
    allow(&again, "e1", 100, 0)->decision.duplicate = true;
    allow(&f, "e2", 10, 0);
    settle_done();
    stores_expect(db, FAMILY_FIGURES, 4, "100042|110|10|2\n");
    stores_expect(db, LEDGER, 9, "0|2|3|2|0|1|0|0|0\n1|0|0|0|0|0|0|0|0\n");
}
END_TEST

/* A cached result whose settlement was dropped counts, if it chains. */
START_TEST(cached_results_of_unknown_ids) {
    struct figures f = usual();
    give_quota(&f);
    allow(&f, "e1", 100, 0)->decision.duplicate = true;
    allow(&f, "e2", 10, 0);
    settle_done();
    stores_expect(db, FAMILY_FIGURES, 4, "100042|110|110|1\n");
    stores_expect(db, LEDGER, 9, "0|1|2|2|0|0|0|0|0\n1|0|0|0|0|0|0|0|0\n");
}
END_TEST

START_TEST(cached_results_of_conflicting_ids_come_back) {
    struct figures f = usual(), g = {FAMILY + 1, CUSTOMER, 1000, 0, 0};
    give_quota(&f);
    give_quota(&g);
    allow(&g, "e1", 100, 0);
    settle_done();
    allow(&f, "e1", 100, 0)->decision.duplicate = true;
    batch_prepare(b);
    expect_untouched(SETTLE_CAME_BACK);
    ck_assert(group_is_dirty(FAMILY));
    ck_assert_int_eq(b->events[0].why.code, REJECT_ID_CONFLICT);
    ck_assert_int_eq(b->came_back, CAME_BACK_KNOWN_ID);
}
END_TEST

START_TEST(twins_are_counted_and_written_once) {
    struct figures f = usual(), same = usual();
    give_quota(&f);
    allow(&f, "e1", 100, 0);
    allow(&same, "e1", 100, 0)->decided = false;
    struct figures other = {FAMILY + 1, CUSTOMER, 1000, 0, 0};
    struct batch_event *conflict = allow(&other, "e1", 100, 0);
    conflict->decided = false;
    conflict->dlt_acked = true; /* as if the dead letter topic had it: there is no Kafka here */
    settle_done();
    stores_expect(db, FAMILY_FIGURES, 4, "100042|100|100|1\n");
    stores_expect(db, LEDGER, 9, "0|1|3|1|0|1|1|0|0\n1|0|0|0|0|0|0|0|0\n");
}
END_TEST

/* ---- the ledger ---- */

static const char *const thefts[] = {
    "UPDATE consumer_ledger SET owner = 1 WHERE partition_id = 0",
    "UPDATE consumer_ledger SET owner = 1 WHERE partition_id = 1",
    "UPDATE consumer_ledger SET batch_no = 1 WHERE partition_id = 0", /* one of two only: another database */
    "UPDATE consumer_ledger SET batch_no = 1 WHERE partition_id = 1",
    "UPDATE consumer_ledger SET batch_no = 7",
    "UPDATE consumer_ledger SET batch_no = 1, owner = 1",
    "DELETE FROM consumer_ledger WHERE partition_id = 1",
    "UPDATE consumer_ledger SET group_id = 'another'",
    "UPDATE consumer_ledger SET topic = 'another'",
};

START_TEST(another_owner_fences) {
    for (int lost = 0; lost < 2; lost++) {
        struct figures f = usual();
        give_quota(&f);
        stores_sql(db, "%s", thefts[_i]);
        allow(&f, "e1", 600, 50);
        batches_put(b, &assignment->parts[1])->outcome = OUTCOME_IGNORED;
        batch_prepare(b);
        settle.maybe_committed = lost;
        expect_untouched(SETTLE_FENCED);
        ck_assert_int_eq(assignment->parts[0].batch_no, 0);
        tear_down();
        set_up();
    }
}
END_TEST

START_TEST(only_first_passages_count) {
    struct figures f = usual();
    give_quota(&f);
    allow(&f, "e0", 1, 0);
    allow(&f, "e1", 1, 0);
    batch_advance(b, &assignment->parts[0], 5); /* offsets 2, 3 and 4 hold nothing */
    settle_done();
    stores_expect(db, LEDGER, 9, "0|1|5|2|0|0|0|0|3\n1|0|0|0|0|0|0|0|0\n");
    assignment->parts[0].position = 1; /* rewound */
    batches_put_usage(b, &assignment->parts[0], batches_event("e1", FAMILY, CUSTOMER, 1))->outcome =
        OUTCOME_DUPLICATE;
    batch_advance(b, &assignment->parts[0], 5);
    settle_done();
    stores_expect(db, LEDGER, 9, "0|2|5|2|0|0|0|0|3\n1|0|0|0|0|0|0|0|0\n");
    assignment->parts[0].position = 4; /* a replay that runs into what is new */
    batches_put_usage(b, &assignment->parts[0], batches_event("e1", FAMILY, CUSTOMER, 1))->outcome =
        OUTCOME_DUPLICATE;
    batches_put_usage(b, &assignment->parts[0], batches_event("e1", FAMILY, CUSTOMER, 1))->outcome =
        OUTCOME_DUPLICATE;
    allow(&f, "e6", 1, 0);
    settle_done();
    stores_expect(db, LEDGER, 9, "0|3|7|3|0|1|0|0|3\n1|0|0|0|0|0|0|0|0\n");
    stores_expect(db, FAMILY_FIGURES, 4, "100042|3|1|2\n");
}
END_TEST

START_TEST(each_partition_has_its_own_counts) {
    struct figures f = usual();
    give_quota(&f);
    allow(&f, "e0", 1, 0);
    batches_put(b, &assignment->parts[1])->outcome = OUTCOME_IGNORED;
    batches_put(b, &assignment->parts[1])->outcome = OUTCOME_IGNORED;
    block(&f, "e1", 1, STATUS_MANUAL);
    batch_advance(b, &assignment->parts[1], 7);
    settle_done();
    stores_expect(db, LEDGER, 9, "0|1|2|1|1|0|0|0|0\n1|1|7|0|0|0|0|2|5\n");
}
END_TEST

START_TEST(batches_without_events) {
    batch_advance(b, &assignment->parts[1], 4);
    settle_done();
    stores_expect(db, LEDGER, 9, "0|0|0|0|0|0|0|0|0\n1|1|4|0|0|0|0|0|4\n");
}
END_TEST

/* The reply to a COMMIT was lost: the next attempt learns by the ledger whether it had gone through. */
START_TEST(a_commit_without_reply_counts_once) {
    bool told = _i & 1; /* whether the settler knows that the reply was lost */
    struct buf before = {0}, after = {0};
    struct figures f = usual(), same = usual();
    give_quota(&f);
    allow(&f, "e1", 600, 50);
    settle_done();
    take_born();
    seen_clear(&settle.told);
    assignment->parts[0].position = assignment->parts[0].next_offset = assignment->parts[0].batch_no = 0;
    /* a cached result isn't taken for a duplicate of itself */
    allow(&same, "e1", 600, 50)->decision.duplicate = told;
    batch_prepare(b);
    settle.maybe_committed = told;
    stores_dump_tables(db, &before);
    ck_assert_int_eq(run(&settle), SETTLE_DONE);
    stores_dump_tables(db, &after);
    ck_assert_str_eq(buf_cstr(&before), buf_cstr(&after));
    ck_assert_int_eq(b->events[0].outcome, OUTCOME_SETTLED);
    ck_assert_int_eq(assignment->parts[0].batch_no, 1);
    ck_assert_int_eq(assignment->parts[0].next_offset, 1);
    ck_assert(!settle.maybe_committed);
    ck_assert_uint_eq(settle.born.count, 1); /* what it wrote is still ours to publish */
    expect_born_as_stored();
    ck_assert_uint_eq(settle.told.count, 1);
    expect_alerted("0");
    buf_free(&before);
    buf_free(&after);
}
END_TEST

START_TEST(a_commit_without_reply_that_was_none) {
    struct figures f = usual();
    give_quota(&f);
    allow(&f, "e1", 100, 0);
    settle.maybe_committed = true;
    settle_done();
    ck_assert(!settle.maybe_committed);
    stores_expect(db, FAMILY_FIGURES, 4, "100042|100|100|1\n");
}
END_TEST

/* ---- the block state ---- */

/* Events as time:status (N allowed, M manual, T time block), in order of delivery; / begins a new batch. */
static const struct {
    const char *events, *expected;
} states[] = {
    {"5N", "0|NULL|05"},          {"5M", "1|MANUAL|05"},    {"5M 6N", "0|NULL|06"},
    {"5N 6M", "1|MANUAL|06"},     {"6M 5N", "1|MANUAL|06"}, {"6N 5M", "0|NULL|06"},
    {"5M 5N", "0|NULL|05"},       {"5N 5M", "1|MANUAL|05"}, {"5M 5T", "1|TIME_BLOCK|05"},
    {"5M/6N", "0|NULL|06"},       {"5N/6M", "1|MANUAL|06"}, {"6M/5N", "1|MANUAL|06"},
    {"6N/5M", "0|NULL|06"},       {"5M/5N", "0|NULL|05"},   {"5N/5M", "1|MANUAL|05"},
    {"5T/5M", "1|MANUAL|05"},     {"6M/5T", "1|MANUAL|06"}, {"7M 6N 5T/6N", "1|MANUAL|07"},
    {"5M/4N 6N 3T", "0|NULL|06"},
};

START_TEST(block_state_goes_by_event_time) {
    struct figures f = usual();
    int n = 0;
    give_quota(&f);
    for (const char *c = states[_i].events; *c; c += 2 + (c[2] != '\0')) {
        char id[16];
        snprintf(id, sizeof id, "e%d", n++);
        struct batch_event *e = c[1] == 'N'
                                    ? allow(&f, id, 1, 0)
                                    : block(&f, id, 1, c[1] == 'M' ? STATUS_MANUAL : STATUS_TIME_BLOCK);
        e->usage.time_ms = BATCHES_TIME + (c[0] - '0') * 1000;
        if (c[2] != ' ')
            settle_done();
    }
    char expected[128];
    snprintf(expected, sizeof expected, "%.*s2026-11-30 03:00:%s.000\n", (int)strlen(states[_i].expected) - 2,
             states[_i].expected, states[_i].expected + strlen(states[_i].expected) - 2);
    stores_expect(db, "SELECT is_blocked, block_reason, state_event_time FROM customer_quota", 3, expected);
}
END_TEST

/* ---- alerts ---- */

#define ALERTS "SELECT customer_id, alert, event_id, remaining_bytes FROM alert_state ORDER BY 1, 2"
#define OUTBOX                                                                                               \
    "SELECT event_id, family_id, customer_id, status, lease_owner FROM usage_event_outbox ORDER BY outbox_id"

START_TEST(thresholds_in_one_batch) {
    struct figures f = usual();
    give_quota(&f);
    allow(&f, "e1", 500, 50);
    allow(&f, "e2", 100, 50);
    allow(&f, "e3", 100, 30);
    allow(&f, "e4", 1, 30);
    settle_done();
    stores_expect(db, ALERTS, 4, "200187|THRESHOLD:30|e3|300\n200187|THRESHOLD:50|e1|500\n");
    stores_expect(db, OUTBOX, 5,
                  "e1|100042|200187|PUBLISH_PENDING|99\ne3|100042|200187|PUBLISH_PENDING|99\n");
    expect_born_as_stored();
    expect_alerted("0 2");
    ck_assert_int_eq(metrics_total(metrics, METRIC_TRANSACTION_DURATION), 1);
}
END_TEST

START_TEST(a_jump_marks_the_higher_ones) {
    struct figures f = usual();
    give_quota(&f);
    allow(&f, "e1", 950, 10);
    settle_done();
    stores_expect(db, ALERTS, 4,
                  "200187|THRESHOLD:10|e1|50\n200187|THRESHOLD:30|e1|50\n200187|THRESHOLD:50|e1|50\n");
    stores_expect(db, OUTBOX, 5, "e1|100042|200187|PUBLISH_PENDING|99\n");
    expect_born_as_stored();
    expect_alerted("0"); /* a mark isn't told */
}
END_TEST

/* Two events of a batch mark the same threshold: the earlier one does, whatever the alerts' names. */
START_TEST(the_earlier_of_two_marks) {
    struct figures f = usual();
    give_quota(&f);
    allow(&f, "e2", 700, 30);
    allow(&f, "e1", 200, 10);
    settle_done();
    stores_expect(db, ALERTS, 4,
                  "200187|THRESHOLD:10|e1|100\n200187|THRESHOLD:30|e2|300\n200187|THRESHOLD:50|e2|300\n");
    stores_expect(db, OUTBOX, 5,
                  "e2|100042|200187|PUBLISH_PENDING|99\ne1|100042|200187|PUBLISH_PENDING|99\n");
}
END_TEST

START_TEST(told_once_a_month) {
    struct figures f = usual();
    give_quota(&f);
    block(&f, "e1", 5, STATUS_MANUAL);
    settle_done();
    for (int forget = 0; forget < 2; forget++) {
        char id[16];
        if (forget)
            seen_clear(&settle.told);
        snprintf(id, sizeof id, "f%d", forget);
        block(&f, id, 5, STATUS_MANUAL)->decision.should_notify = true; /* Redis' mark was lost */
        settle_done();
        ck_assert_ptr_null(settle.born.head);
        ck_assert_uint_eq(settle.told.count, 1);
        expect_alerted("");
    }
    stores_expect(db, ALERTS, 4, "200187|MANUAL|e1|1000\n");
    stores_expect(db, OUTBOX, 5, "e1|100042|200187|PUBLISH_PENDING|99\n");
}
END_TEST

/* Marked as told by a lower threshold: the total grew since, and it's reached again. */
START_TEST(marked_thresholds_are_not_told) {
    struct figures f = usual();
    give_quota(&f);
    allow(&f, "e1", 950, 10);
    settle_done();
    f.total = 2500;
    stores_sql(db, "UPDATE family_quota SET total_quota_bytes = 2500");
    allow(&f, "e2", 350, 50);
    settle_done();
    stores_expect(db, OUTBOX, 5, "e1|100042|200187|PUBLISH_PENDING|99\n");
}
END_TEST

/* Redis' mark decides nothing: what alert_state doesn't hold is told. */
START_TEST(told_whatever_redis_marks_say) {
    struct figures f = usual();
    give_quota(&f);
    allow(&f, "e1", 600, 50)->decision.should_notify = false;
    settle_done();
    stores_expect(db, OUTBOX, 5, "e1|100042|200187|PUBLISH_PENDING|99\n");
}
END_TEST

/* Each customer and kind for itself; apps percent-encoded; rows in the order of the events, not of their
 * keys. */
START_TEST(kinds_customers_and_order) {
    struct figures f = usual(), g = {FAMILY - 1, CUSTOMER - 1, 1000, 0, 0}, h = f;
    give_quota(&f);
    give_quota(&g);
    h.customer = CUSTOMER + 1;
    block(&f, "z9", 1, STATUS_TIME_BLOCK);
    batches_set_app(&block(&f, "e2", 1, STATUS_APP_BLOCK)->usage, "카 a");
    batches_set_app(&block(&f, "e3", 1, STATUS_APP_BLOCK)->usage, "b");
    batches_set_app(&block(&f, "e4", 1, STATUS_APP_BLOCK)->usage, "b");
    allow(&h, "y1", 1, 0);
    block(&h, "e5", 1, STATUS_TIME_BLOCK);
    block(&g, "a1", 1, STATUS_MANUAL);
    f.used = h.used;
    block(&f, "e6", 1, STATUS_FAMILY_QUOTA_EXCEEDED);
    block(&f, "e7", 1, STATUS_MONTHLY_LIMIT_EXCEEDED);
    settle_done();
    stores_expect(
        db, ALERTS, 4,
        "200186|MANUAL|a1|1000\n200187|APP_BLOCK:%EC%B9%B4%20a|e2|1000\n200187|APP_BLOCK:b|e3|1000\n"
        "200187|FAMILY_QUOTA_EXCEEDED|e6|999\n200187|MONTHLY_LIMIT_EXCEEDED|e7|999\n"
        "200187|TIME_BLOCK|z9|1000\n200188|TIME_BLOCK|e5|999\n");
    stores_expect(db, "SELECT GROUP_CONCAT(event_id ORDER BY outbox_id) FROM usage_event_outbox", 1,
                  "z9,e2,e3,e5,a1,e6,e7\n");
    expect_born_as_stored();
    expect_alerted("0 1 2 5 6 7 8");
}
END_TEST

START_TEST(a_new_month_starts_with_none_told) {
    struct figures f = usual();
    give_quota(&f);
    stores_sql(
        db,
        "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (%d, '2026-10-01', 1000)",
        FAMILY);
    block(&f, "e1", 1, STATUS_MANUAL);
    block(&f, "e2", 1, STATUS_MANUAL)->usage.month = 202610;
    settle_done();
    stores_expect(db, "SELECT quota_month, event_id FROM alert_state ORDER BY 1", 2,
                  "2026-10-01|e2\n2026-11-01|e1\n");
    stores_expect(db, "SELECT COUNT(*) FROM usage_event_outbox", 1, "2\n");
}
END_TEST

START_TEST(rows_are_born_leased_to_the_creator) {
    struct figures f = usual();
    give_quota(&f);
    block(&f, "e1", 1, STATUS_MANUAL);
    settle_done();
    stores_expect(
        db,
        "SELECT lease_until > created_at + INTERVAL 1 SECOND, created_at = (SELECT told_at FROM alert_state) "
        "FROM usage_event_outbox",
        2, "1|1\n");
}
END_TEST

/* ---- refusals, at every statement ---- */

static const struct {
    const char *table, *when;
} refusing[] = {
    {"usage_record", "BEFORE INSERT"},       {"usage_block", "BEFORE INSERT"},
    {"family_quota", "BEFORE UPDATE"},       {"customer_quota", "BEFORE INSERT"},
    {"customer_quota", "BEFORE UPDATE"},     {"alert_state", "BEFORE INSERT"},
    {"usage_event_outbox", "BEFORE INSERT"}, {"consumer_ledger", "BEFORE UPDATE"},
};
static const struct {
    int code;
    enum settle_result result;
    enum error_action action;
} refusals[] = {
    {1264, SETTLE_REFUSED, ERROR_REJECT}, {1366, SETTLE_REFUSED, ERROR_REJECT},
    {1406, SETTLE_REFUSED, ERROR_REJECT}, {1048, SETTLE_REFUSED, ERROR_REJECT},
    {1292, SETTLE_REFUSED, ERROR_REJECT}, {1690, SETTLE_REFUSED, ERROR_REJECT},
    {3819, SETTLE_REFUSED, ERROR_REJECT}, {4025, SETTLE_REFUSED, ERROR_REJECT},
    {1213, SETTLE_FAILED, ERROR_RETRY},   {1205, SETTLE_FAILED, ERROR_RETRY},
    {1290, SETTLE_FAILED, ERROR_RETRY},   {1146, SETTLE_FAILED, ERROR_STOP},
    {1062, SETTLE_FAILED, ERROR_STOP},    {1452, SETTLE_FAILED, ERROR_STOP},
    {1644, SETTLE_FAILED, ERROR_STOP},
};

static void check_refusal(size_t where, size_t what) {
    struct buf before = {0}, after = {0};
    struct error err = {0};
    stores_sql(db, "DROP TRIGGER IF EXISTS test_refuse");
    stores_sql(
        db,
        "CREATE TRIGGER test_refuse %s ON %s FOR EACH ROW SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'no'",
        refusing[where].when, refusing[where].table, refusals[what].code);
    stores_dump_tables(db, &before);
    enum settle_result result = settle_batch(&settle, b, &err);
    /* the ledger holds nothing of any event's: what it refuses is a fault to wait for */
    enum settle_result expected =
        strcmp(refusing[where].table, "consumer_ledger") == 0 ? SETTLE_FAILED : refusals[what].result;
    stores_dump_tables(db, &after);
    stores_sql(db, "DROP TRIGGER test_refuse");
    ck_assert_msg(result == expected && err.code == refusals[what].code &&
                      err.action == refusals[what].action && err.area == ERROR_MYSQL,
                  "%s, code %d: result %d, code %d, action %d", refusing[where].table, refusals[what].code,
                  result, err.code, err.action);
    ck_assert_msg(strcmp(buf_cstr(&before), buf_cstr(&after)) == 0, "%s, code %d: something was written",
                  refusing[where].table, refusals[what].code);
    ck_assert_ptr_null(settle.born.head);
    ck_assert_uint_eq(settle.told.count, 0);
    buf_free(&before);
    buf_free(&after);
}

START_TEST(refused_data_leaves_nothing) {
    struct figures f = usual(), older = {FAMILY, CUSTOMER + 1, 1000, 600, 100}; /* one has a row already */
    give_quota(&older);
    give_quota(&f);
    allow(&f, "e1", 600, 50);
    block(&f, "e2", 600, STATUS_MANUAL);
    allow(&older, "e3", 10, 50);
    batch_prepare(b);
    for (size_t where = 0; where < TESTING_LENGTH(refusing); where++) {
        for (size_t what = 0; what < TESTING_LENGTH(refusals); what++) {
            bool duplicate = refusals[what].code == 1062; /* of usage_record an id that is known */
            if (duplicate ? where == 6 : where == 0 || what == 0 || what == 8)
                check_refusal(where, what);
        }
    }
    ck_assert_int_eq(run(&settle),
                     SETTLE_DONE); /* and the same batch, unchanged, once nothing is in the way */
}
END_TEST

/* Somebody's triggers change rows of theirs with ours: those are no rows of ours. */
START_TEST(triggers_change_no_count) {
    static const char *const events[] = {"INSERT ON usage_record", "UPDATE ON family_quota",
                                         "UPDATE ON customer_quota", "INSERT ON customer_quota"};
    struct figures f = usual(), g = {FAMILY, CUSTOMER + 1, 1000, 0, 0};
    give_quota(&f);
    stores_sql(db, "CREATE TABLE test_seen (n BIGINT NOT NULL) ENGINE=InnoDB");
    stores_sql(db, "INSERT INTO test_seen VALUES (0)");
    for (size_t i = 0; i < TESTING_LENGTH(events); i++)
        stores_sql(db, "CREATE TRIGGER test_seen_%zu AFTER %s FOR EACH ROW UPDATE test_seen SET n = n + 1", i,
                   events[i]);
    allow(&f, "e1", 1, 0);
    settle_done();
    for (int i = 0; i < 2;
         i++) { /* a known id beside a new one, then a figure that differs beside one that holds */
        struct figures used = f;
        allow(&f, i ? "e2" : "e1", 1, 0);
        g.used = f.used;
        allow(&g, "e3", 1, 0);
        if (i)
            stores_sql(db, "UPDATE customer_quota SET monthly_used_bytes = 5");
        batch_prepare(b);
        ck_assert_int_eq(run(&settle), SETTLE_CAME_BACK);
        batch_free(b);
        b = batch_new(assignment);
        f = used;
    }
    stores_sql(db, "DROP TABLE test_seen");
    for (size_t i = 0; i < TESTING_LENGTH(events); i++)
        stores_sql(db, "DROP TRIGGER test_seen_%zu", i);
}
END_TEST

/* A duplicate that isn't one of an id is somebody's fault to be told of, not a known id to be sought for
 * ever. */
START_TEST(a_duplicate_of_another_table) {
    struct figures f = usual();
    struct error why = {0};
    give_quota(&f);
    stores_sql(db, "CREATE TABLE test_copy (n BIGINT NOT NULL PRIMARY KEY) ENGINE=InnoDB");
    stores_sql(db, "INSERT INTO test_copy VALUES (1)");
    stores_sql(
        db,
        "CREATE TRIGGER test_copies AFTER INSERT ON usage_record FOR EACH ROW INSERT INTO test_copy VALUES (1)");
    allow(&f, "e1", 1, 0);
    batch_prepare(b);
    enum settle_result result = settle_batch(&settle, b, &why);
    stores_sql(db, "DROP TRIGGER test_copies");
    ck_assert_int_eq(result, SETTLE_FAILED);
    ck_assert_int_eq(why.code, 1062);
    ck_assert_int_eq(run(&settle), SETTLE_DONE);
    stores_sql(db, "DROP TABLE test_copy");
}
END_TEST

/* ---- closed months ---- */

START_TEST(closed_months_are_too_old) {
    struct figures f = usual(), g = {FAMILY + 1, CUSTOMER, 1000, 0, 0};
    give_quota(&f);
    stores_sql(
        db,
        "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (%d, '2026-12-01', 1000)",
        FAMILY + 1);
    stores_sql(db, "UPDATE usage_floor SET closed_before = '2026-12-01'");
    allow(&f, "e1", 100, 0);
    allow(&g, "e2", 100, 0)->usage.month = 202612;
    batch_prepare(b);
    expect_untouched(SETTLE_CAME_BACK);
    ck_assert_int_eq(settle.closed_before, 202612);
    ck_assert_int_eq(b->events[0].why.code, REJECT_EVENT_TOO_OLD);
    ck_assert_int_eq(b->came_back, CAME_BACK_OTHER);
    ck_assert(group_is_dirty(FAMILY) && !group_is_dirty(FAMILY + 1));
    b->groups[b->events[0].group].dirty = false;
    b->events[0].dlt_acked = true;
    ck_assert_int_eq(run(&settle), SETTLE_DONE);
    stores_expect(db, LEDGER, 9, "0|1|2|1|0|0|1|0|0\n1|0|0|0|0|0|0|0|0\n");
    stores_expect(db, "SELECT event_id FROM usage_record", 1, "e2\n");
}
END_TEST

START_TEST(a_floor_that_is_gone) {
    struct figures f = usual();
    struct error err = {0};
    give_quota(&f);
    stores_sql(db, "DELETE FROM usage_floor");
    allow(&f, "e1", 100, 0);
    batch_prepare(b);
    enum settle_result result = settle_batch(&settle, b, &err);
    stores_sql(db, "INSERT INTO usage_floor (id, closed_before) VALUES (1, '1970-01-01')");
    ck_assert_int_eq(result, SETTLE_FAILED);
    ck_assert_int_eq(err.action, ERROR_STOP);
    ck_assert_int_eq(run(&settle), SETTLE_DONE);
}
END_TEST

/* ---- others at the same time ---- */

static void *settle_in_thread(void *result) {
    struct error err = {0};
    *(enum settle_result *)result = settle_batch(&settle, b, &err);
    return NULL;
}

/* Somebody has changed the family in a transaction that isn't committed yet. */
START_TEST(waits_for_a_writer_and_comes_back) {
    struct figures f = usual();
    enum settle_result result;
    pthread_t thread;
    give_quota(&f);
    struct db *other = stores_db(cfg, DB_READ_COMMITTED);
    stores_sql(other, "START TRANSACTION");
    stores_sql(other, "UPDATE family_quota SET used_bytes = 1");
    allow(&f, "e1", 100, 0);
    batch_prepare(b);
    ck_assert_int_eq(pthread_create(&thread, NULL, settle_in_thread, &result), 0);
    stores_await_waiting(db, "INSERT INTO family_quota%");
    stores_sql(other, "COMMIT");
    pthread_join(thread, NULL);
    db_free(other);
    ck_assert_int_eq(result, SETTLE_CAME_BACK);
    stores_expect(db, FAMILY_FIGURES, 4, "100042|1|0|0\n");
    stores_expect(db, "SELECT COUNT(*) FROM usage_record", 1, "0\n");
}
END_TEST

/* The connection is killed in mid-transaction: nothing is written, and the same batch goes through on a new
 * one. */
START_TEST(survives_a_killed_connection) {
    struct figures f = usual();
    enum settle_result result;
    pthread_t thread;
    give_quota(&f);
    struct db *other = stores_db(cfg, DB_READ_COMMITTED);
    stores_sql(other, "START TRANSACTION");
    stores_sql(other, "UPDATE family_quota SET used_bytes = 0, rev = 7");
    allow(&f, "e1", 100, 0);
    batch_prepare(b);
    ck_assert_int_eq(pthread_create(&thread, NULL, settle_in_thread, &result), 0);
    stores_sql(db, "KILL %" PRId64, stores_await_waiting(db, "INSERT INTO family_quota%"));
    pthread_join(thread, NULL);
    ck_assert_int_eq(result, SETTLE_FAILED);
    stores_sql(other, "ROLLBACK");
    db_free(other);
    stores_expect(db, "SELECT COUNT(*) FROM usage_record", 1, "0\n");
    ck_assert_int_eq(run(&settle), SETTLE_DONE);
    stores_expect(db, FAMILY_FIGURES, 4, "100042|100|100|1\n");
}
END_TEST

/* One of two settlers, with a partition, a connection and a batch of its own. */
struct rival {
    struct settle settle;
    struct assignment *assignment;
    struct batch *batch;
    pthread_barrier_t *start;
    enum settle_result result;
};

static void *rival_run(void *ctx) {
    struct rival *r = ctx;
    struct error err;
    pthread_barrier_wait(r->start);
    do {
        err = (struct error){0};
        r->result = settle_batch(&r->settle, r->batch, &err);
    } while (r->result == SETTLE_FAILED && db_error_is_lock(&err));
    return NULL;
}

static void rival_init(struct rival *r, int32_t partition, pthread_barrier_t *start) {
    struct error err = {0};
    *r = (struct rival){.assignment = batches_assignment(OWNER, 1), .start = start};
    settle_init(&r->settle);
    ck_assert(db_ensure(r->settle.db, &err));
    r->assignment->parts[0].id = partition;
    r->batch = batch_new(r->assignment);
}

static void rival_free(struct rival *r) {
    batch_free(r->batch);
    assignment_unref(r->assignment);
    settle_free(&r->settle);
}

/* Lets the two settle what `fill` puts into their batches (by the globals that allow and block use). */
static void compete(struct rival rivals[2], void (*fill)(int which)) {
    pthread_barrier_t start;
    pthread_t threads[2];
    struct assignment *own_assignment = assignment;
    struct batch *own_batch = b;
    pthread_barrier_init(&start, NULL, 2);
    for (int i = 0; i < 2; i++) {
        rival_init(&rivals[i], i, &start);
        assignment = rivals[i].assignment;
        b = rivals[i].batch;
        fill(i);
        batch_prepare(b);
    }
    assignment = own_assignment;
    b = own_batch;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, rival_run, &rivals[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    ck_assert_msg((rivals[0].result == SETTLE_DONE && rivals[1].result == SETTLE_CAME_BACK) ||
                      (rivals[1].result == SETTLE_DONE && rivals[0].result == SETTLE_CAME_BACK),
                  "results %d and %d", rivals[0].result, rivals[1].result);
}

static void fill_same_family(int which) {
    struct figures f = usual();
    f.customer += which;
    allow(&f, which ? "e1" : "e0", 100 + which, 0);
}

static void fill_same_id(int which) {
    struct figures f = usual();
    f.family += which;
    if (which)
        block(&f, "e1", 100, STATUS_MANUAL);
    else
        allow(&f, "e1", 100, 0);
}

START_TEST(two_settlers_of_one_family) {
    for (int round = 0; round < 15; round++) {
        struct rival rivals[2];
        struct figures f = usual();
        tear_down();
        set_up();
        give_quota(&f);
        compete(rivals, fill_same_family);
        stores_expect(db, FAMILY_FIGURES, 4,
                      rivals[0].result == SETTLE_DONE ? "100042|100|100|1\n" : "100042|101|101|1\n");
        stores_expect(db, "SELECT COUNT(*) FROM usage_record", 1, "1\n");
        ck_assert(rivals[rivals[0].result == SETTLE_DONE].batch->groups[0].dirty);
        rival_free(&rivals[0]);
        rival_free(&rivals[1]);
    }
}
END_TEST

/* Settled by one and blocked by the other at the same moment: one row in both tables together. */
START_TEST(two_settlers_of_one_id) {
    for (int round = 0; round < 15; round++) {
        struct rival rivals[2];
        struct figures f = usual(), g = {FAMILY + 1, CUSTOMER, 1000, 0, 0};
        tear_down();
        set_up();
        give_quota(&f);
        give_quota(&g);
        compete(rivals, fill_same_id);
        stores_expect(db, "SELECT (SELECT COUNT(*) FROM usage_record) + (SELECT COUNT(*) FROM usage_block)",
                      1, "1\n");
        const struct rival *loser = &rivals[rivals[0].result == SETTLE_DONE];
        ck_assert_int_eq(loser->batch->events[0].why.code, REJECT_ID_CONFLICT);
        rival_free(&rivals[0]);
        rival_free(&rivals[1]);
    }
}
END_TEST

static void add_writing(TCase *tc) {
    tcase_add_test(tc, figures_rows_and_ledger);
    tcase_add_test(tc, delta_and_rev_are_of_the_last_settlement);
    tcase_add_test(tc, a_first_event_that_is_blocked_makes_its_customers_row);
    tcase_add_test(tc, customers_with_and_without_a_row);
    tcase_add_loop_test(tc, customers_that_differ_come_back_beside_new_ones, 0,
                        TESTING_LENGTH(customer_disturbances));
    tcase_add_test(tc, many_rows);
    tcase_add_loop_test(tc, figures_that_differ_come_back, 0, TESTING_LENGTH(disturbances));
    tcase_add_test(tc, a_customer_used_elsewhere_comes_back);
    tcase_add_test(tc, blocks_on_wrong_figures_come_back);
    tcase_add_test(tc, broken_chains_come_back);
    tcase_add_loop_test(tc, known_ids_come_back, 0, 8);
    tcase_add_loop_test(tc, known_ids_of_odd_characters_come_back, 0, 12);
    tcase_add_test(tc, cached_results_of_known_ids);
    tcase_add_test(tc, cached_results_of_unknown_ids);
    tcase_add_test(tc, cached_results_of_conflicting_ids_come_back);
    tcase_add_test(tc, twins_are_counted_and_written_once);
    tcase_add_loop_test(tc, another_owner_fences, 0, TESTING_LENGTH(thefts));
    tcase_add_test(tc, only_first_passages_count);
    tcase_add_test(tc, each_partition_has_its_own_counts);
    tcase_add_test(tc, batches_without_events);
    tcase_add_loop_test(tc, a_commit_without_reply_counts_once, 0, 2);
    tcase_add_test(tc, a_commit_without_reply_that_was_none);
    tcase_add_loop_test(tc, block_state_goes_by_event_time, 0, TESTING_LENGTH(states));
}

static void add_rest(TCase *tc) {
    tcase_add_test(tc, thresholds_in_one_batch);
    tcase_add_test(tc, a_jump_marks_the_higher_ones);
    tcase_add_test(tc, the_earlier_of_two_marks);
    tcase_add_test(tc, told_once_a_month);
    tcase_add_test(tc, marked_thresholds_are_not_told);
    tcase_add_test(tc, told_whatever_redis_marks_say);
    tcase_add_test(tc, kinds_customers_and_order);
    tcase_add_test(tc, a_new_month_starts_with_none_told);
    tcase_add_test(tc, rows_are_born_leased_to_the_creator);
    tcase_add_test(tc, refused_data_leaves_nothing);
    tcase_add_test(tc, triggers_change_no_count);
    tcase_add_test(tc, a_duplicate_of_another_table);
    tcase_add_test(tc, closed_months_are_too_old);
    tcase_add_test(tc, a_floor_that_is_gone);
    tcase_add_test(tc, waits_for_a_writer_and_comes_back);
    tcase_add_test(tc, survives_a_killed_connection);
    tcase_add_test(tc, two_settlers_of_one_family);
    tcase_add_test(tc, two_settlers_of_one_id);
}

static void add_all(Suite *s, const char *name, SFun before) {
    TCase *tc = tcase_create(name);
    tcase_add_unchecked_fixture(tc, before, drop);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 120);
    add_writing(tc);
    add_rest(tc);
    suite_add_tcase(s, tc);
}

static Suite *suite(void) {
    Suite *s = suite_create("settle");
    add_all(s, "settle", create);
    add_all(s, "settle by text", create_for_text);
    return s;
}

int main(void) {
    return testing_run(suite());
}
