/* SPDX-License-Identifier: MIT */
/* The outbox mended by hand: what may be changed, what is known of it, and that neither a relay nor another
 * operator is overwritten (CONTRACT §5.6). Needs MYSQL_* (scripts/with-stack.sh). */
#include "outbox_admin.h"

#include <inttypes.h>

#include "outbox.h"
#include "stores.h"

#define DATABASE "tallyd_test_outbox_admin"
#define RELAY 99

static struct config *cfg;
static struct db *db, *other;
static struct outbox_entries rows;

/* ---- pure ---- */

#define PENDING "PUBLISH_PENDING"
#define REFUSED "Broker: Message size too large"

static const struct {
    const char *status, *last_error;
    int64_t owner;
    bool leased, may_be_published;
} known[] = {
    {PENDING, NULL, 0, false, false},
    {PENDING, NULL, 7, true, true},
    {PENDING, NULL, 7, false, true}, /* run out: nobody wrote down how it ended */
    {PENDING, NULL, 0, true, true},
    {PENDING, "Local: Message timed out", 0, false, true},
    {PENDING, "skipped by an operator: x", 0, false, false}, /* and sent on its way again */
    {PENDING, "skipped by an operator, may have been sent: x", 0, false, true},
    {"FAILED", REFUSED, 0, false, false},
    {"FAILED", NULL, 0, false, false},
    {"FAILED", "skipped by an operator: may have been sent: x", 0, false, false},
    {"FAILED", "skipped by an operator, may have been sent: x", 0, false, true},
    {"SENT", NULL, 0, false, true},
};

START_TEST(what_the_topic_may_have) {
    for (size_t i = 0; i < TESTING_LENGTH(known); i++) {
        const struct outbox_entry e = {.status = (char *)(uintptr_t)known[i].status,
                                       .last_error = (char *)(uintptr_t)known[i].last_error,
                                       .lease_owner = known[i].owner,
                                       .leased = known[i].leased};
        testing_require(outbox_admin_may_be_published(&e) == known[i].may_be_published, "case %zu", i);
    }
}
END_TEST

static const struct {
    const char *status;
    bool leased, skip, force;
    const char *why; /* "": it's changed */
} judged[] = {
    {PENDING, false, true, false, ""},
    {PENDING, true, true, false, "a relay leases it and may be publishing it"},
    {PENDING, true, true, true, ""},
    {PENDING, false, false, false, "it is on its way already"},
    {PENDING, true, false, false, "it is on its way already"},
    {"FAILED", false, false, false, ""},
    {"FAILED", false, true, false, "it has failed already"},
    {"FAILED", false, true, true, "it has failed already"},
    {"SENT", false, true, true, "it is sent"},
    {"SENT", false, false, false, "it is sent"},
};

START_TEST(what_may_be_changed) {
    for (size_t i = 0; i < TESTING_LENGTH(judged); i++) {
        struct outbox_entry e = {.status = (char *)(uintptr_t)judged[i].status, .leased = judged[i].leased};
        const struct outbox_change c = {.skip = judged[i].skip, .force = judged[i].force, .reason = "x"};
        bool due = outbox_admin_judge(&c, &e);
        testing_require(due == (*judged[i].why == '\0') && strcmp(e.why, judged[i].why) == 0,
                        "case %zu: %d, %s", i, due, e.why);
    }
}
END_TEST

/* ---- on a table ---- */

static void create(void) {
    stores_create_database(DATABASE);
}

static void drop(void) {
    stores_drop_database(DATABASE);
}

static void set_up(void) {
    cfg = stores_config(DATABASE);
    db = stores_db(cfg, DB_READ_COMMITTED);
    other = stores_db(cfg, DB_READ_COMMITTED);
    stores_empty_tables(db);
}

static void tear_down(void) {
    outbox_entries_free(&rows);
    db_free(db);
    db_free(other);
    config_free(cfg);
}

/* `lease` in seconds from now. */
static void put(int64_t id, int64_t family, const char *status, const char *owner, const char *lease) {
    stores_sql(db,
               "INSERT INTO usage_event_outbox (outbox_id, event_id, family_id, customer_id, status, "
               "payload_json, lease_owner, lease_until, created_at) VALUES (%" PRId64 ", 'e%" PRId64
               "', %" PRId64 ", 5, '%s', '{}', %s, UTC_TIMESTAMP(3) + INTERVAL %s SECOND, UTC_TIMESTAMP(3))",
               id, id, family, status, owner, lease);
}

static const struct outbox_change skip = {.skip = true, .reason = "it's \"gone\" \\"},
                                  forced = {.skip = true, .reason = "now", .force = true}, retry = {0};

static void change(const struct outbox_change *c, const int64_t *ids, size_t n, const char *changed) {
    struct error err = {0};
    char found[64] = "";
    outbox_entries_free(&rows);
    ck_assert_msg(outbox_admin_change(db, c, ids, n, &rows, &err), "%s", err.text);
    for (size_t i = 0; i < rows.count; i++) {
        size_t len = strlen(found);
        snprintf(found + len, sizeof found - len, "%s%" PRId64 "%s", len ? " " : "", rows.items[i].outbox_id,
                 rows.items[i].changed ? "+" : "-");
    }
    ck_assert_str_eq(found, changed);
}

#define STATES                                                                                               \
    "SELECT outbox_id, status, COALESCE(last_error, '-'), lease_owner, lease_until FROM usage_event_outbox " \
    "ORDER BY 1"

START_TEST(skip_notes_what_may_have_been_sent) {
    static const int64_t ids[] = {5, 4, 3, 2, 1, 1};
    put(1, 1, PENDING, "NULL", "NULL");
    put(2, 1, PENDING, "7", "-5");
    put(3, 2, PENDING, "7", "600");
    put(4, 3, "SENT", "NULL", "NULL");
    change(&skip, ids, TESTING_LENGTH(ids), "1+ 2+ 3- 4- 5-");
    ck_assert_str_eq(rows.items[4].why, "there is no such row");
    stores_expect(
        db,
        "SELECT outbox_id, status, last_error, lease_owner FROM usage_event_outbox WHERE outbox_id < 4 "
        "ORDER BY 1",
        4,
        "1|FAILED|skipped by an operator: it's \"gone\" \\|NULL\n"
        "2|FAILED|skipped by an operator, may have been sent: it's \"gone\" \\|NULL\n"
        "3|PUBLISH_PENDING|NULL|7\n");
}
END_TEST

/* The relay that had it in the producer comes back: its marks are for a row that it holds. */
START_TEST(a_relay_that_is_late_changes_nothing) {
    struct error err = {0};
    static const int64_t id = 1;
    const char *event = "e1";
    int64_t marked = -1;
    put(1, 1, PENDING, "99", "600");
    change(&skip, &id, 1, "1-");
    change(&forced, &id, 1, "1+");
    ck_assert(outbox_mark_sent(other, RELAY, &id, &event, 1, &marked, &err));
    ck_assert_int_eq(marked, 0);
    ck_assert(outbox_mark_failed(other, RELAY, id, event, REFUSED, &err));
    ck_assert(outbox_release(other, RELAY, &id, 1, 500, true, "away", &err));
    stores_expect(db, STATES, 5, "1|FAILED|skipped by an operator, may have been sent: now|NULL|NULL\n");
    /* nor once it's on its way again: whoever claims it then publishes it */
    change(&retry, &id, 1, "1+");
    ck_assert(rows.items[0].may_be_published);
    ck_assert(outbox_mark_sent(other, RELAY, &id, &event, 1, &marked, &err));
    ck_assert_int_eq(marked, 0);
    stores_expect(db, "SELECT status, retry_count, retried_at IS NOT NULL FROM usage_event_outbox", 3,
                  "PUBLISH_PENDING|0|1\n");
}
END_TEST

/* The other way round: what a relay marked meanwhile is as it marked it. */
START_TEST(a_skip_that_is_late_changes_nothing) {
    struct error err = {0};
    static const int64_t id = 1;
    const char *event = "e1";
    int64_t marked;
    put(1, 1, PENDING, "99", "600");
    ck_assert(outbox_mark_sent(other, RELAY, &id, &event, 1, &marked, &err));
    change(&forced, &id, 1, "1-");
    ck_assert_str_eq(rows.items[0].why, "it is sent");
    change(&retry, &id, 1, "1-");
    stores_expect(db, "SELECT status, last_error FROM usage_event_outbox", 2, "SENT|NULL\n");
}
END_TEST

START_TEST(of_two_operators_one_does_it) {
    static const int64_t ids[] = {1, 2};
    put(1, 1, "FAILED", "NULL", "NULL");
    put(2, 1, "FAILED", "NULL", "NULL");
    change(&retry, ids, 1, "1+");
    change(&retry, ids, 2, "1- 2+");
    ck_assert_str_eq(rows.items[0].why, "it is on its way already");
}
END_TEST

/* Somebody holds a row: all of the page waits, and none of it is done. */
START_TEST(locked_is_an_error_and_nothing_is_done) {
    struct error err = {0};
    static const int64_t ids[] = {1, 2};
    put(1, 1, "FAILED", "NULL", "NULL");
    put(2, 1, "FAILED", "NULL", "NULL");
    stores_sql(db, "SET SESSION innodb_lock_wait_timeout = 1");
    stores_sql(other, "START TRANSACTION");
    stores_sql(other, "UPDATE usage_event_outbox SET last_error = 'x' WHERE outbox_id = 2");
    outbox_entries_free(&rows);
    ck_assert(!outbox_admin_change(db, &retry, ids, 2, &rows, &err));
    ck_assert(db_error_is_lock(&err));
    ck_assert_uint_eq(rows.count, 0);
    stores_sql(other, "ROLLBACK");
    stores_expect(db, "SELECT DISTINCT status FROM usage_event_outbox", 1, "FAILED\n");
    change(&retry, ids, 2, "1+ 2+");
}
END_TEST

START_TEST(a_dry_run_says_what_would_be_done) {
    static const int64_t ids[] = {1, 2};
    struct outbox_change dry = skip;
    dry.dry_run = true;
    put(1, 1, PENDING, "7", "-5");
    put(2, 1, PENDING, "7", "600");
    change(&dry, ids, 2, "1+ 2-");
    ck_assert(rows.items[0].may_be_published);
    stores_expect(db, "SELECT outbox_id, status, lease_owner FROM usage_event_outbox ORDER BY 1", 3,
                  "1|PUBLISH_PENDING|7\n2|PUBLISH_PENDING|7\n");
}
END_TEST

START_TEST(lists_by_state_and_family) {
    struct error err = {0};
    struct outbox_filter f = {.pending = true, .failed = true, .limit = 10};
    put(1, 1, "SENT", "NULL", "NULL");
    put(2, 1, PENDING, "NULL", "NULL");
    put(3, 1, PENDING, "NULL", "NULL");
    put(4, 2, "FAILED", "NULL", "NULL");
    put(5, 2, "SENT", "NULL", "NULL");
    outbox_entries_free(&rows);
    ck_assert_msg(outbox_admin_list(db, &f, &rows, &err), "%s", err.text);
    ck_assert_uint_eq(rows.count, 3);
    ck_assert_int_eq(rows.items[1].behind, 2);
    ck_assert_int_eq(rows.items[2].later_sent, 1);
    outbox_entries_free(&rows);
    f = (struct outbox_filter){.sent = true, .family = 2, .limit = 10};
    ck_assert_msg(outbox_admin_list(db, &f, &rows, &err), "%s", err.text);
    ck_assert_uint_eq(rows.count, 1);
    ck_assert_int_eq(rows.items[0].outbox_id, 5);
    outbox_entries_free(&rows);
    f = (struct outbox_filter){.pending = true, .failed = true, .sent = true, .after = 1, .limit = 2};
    ck_assert_msg(outbox_admin_list(db, &f, &rows, &err), "%s", err.text);
    ck_assert_uint_eq(rows.count, 2);
    ck_assert_int_eq(rows.items[0].outbox_id, 2);
    ck_assert_int_eq(rows.items[1].outbox_id, 3);
}
END_TEST

int main(void) {
    Suite *s = suite_create("outbox_admin");
    TCase *pure = tcase_create("pure"), *tc = tcase_create("table");
    tcase_add_test(pure, what_the_topic_may_have);
    tcase_add_test(pure, what_may_be_changed);
    tcase_set_timeout(tc, 60);
    tcase_add_unchecked_fixture(tc, create, drop);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, skip_notes_what_may_have_been_sent);
    tcase_add_test(tc, a_relay_that_is_late_changes_nothing);
    tcase_add_test(tc, a_skip_that_is_late_changes_nothing);
    tcase_add_test(tc, of_two_operators_one_does_it);
    tcase_add_test(tc, locked_is_an_error_and_nothing_is_done);
    tcase_add_test(tc, a_dry_run_says_what_would_be_done);
    tcase_add_test(tc, lists_by_state_and_family);
    suite_add_tcase(s, pure);
    suite_add_tcase(s, tc);
    return testing_run(s);
}
