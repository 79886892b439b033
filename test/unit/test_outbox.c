/* SPDX-License-Identifier: MIT */
/* The outbox table on a real MySQL: claims, leases, ends (CONTRACT §5.6; DESIGN §6).
 * Leases are ended by moving them in the table, never by waiting. Needs MYSQL_* (scripts/with-stack.sh). */
#include "outbox.h"

#include <inttypes.h>

#include "kafka.h"
#include "stores.h"

#define DATABASE "tallyd_test_outbox"
#define ME 99
#define SOMEBODY 1

static struct config *cfg;
static struct db *db, *other;
static struct outbox_list claimed;

static void create(void) {
    stores_create_database(DATABASE);
}

static void drop(void) {
    stores_drop_database(DATABASE);
}

static void set_up(void) {
    cfg = stores_config(DATABASE);
    cfg->outbox.lease_ms = 600000; /* no test is to see a lease end by itself */
    db = stores_db(cfg, DB_READ_COMMITTED);
    other = stores_db(cfg, DB_READ_COMMITTED);
    stores_empty_tables(db);
    claimed = (struct outbox_list){0};
}

static void tear_down(void) {
    outbox_list_free(claimed.head);
    db_free(db);
    db_free(other);
    config_free(cfg);
}

/* A row with its lease and next try so many seconds from now; NULL for none. */
static void put(int64_t id, int64_t family, const char *status, const char *owner, const char *lease,
                const char *retry) {
    stores_sql(
        db,
        "INSERT INTO usage_event_outbox (outbox_id, event_id, family_id, customer_id, status, payload_json, lease_owner, lease_until, "
        "next_retry_at, created_at) VALUES (%" PRId64 ", 'e%" PRId64 "', %" PRId64
        ", 5, '%s', '{\"n\":\"카 %" PRId64 "\"}', %s, "
        "UTC_TIMESTAMP(3) + INTERVAL %s SECOND, UTC_TIMESTAMP(3) + INTERVAL %s SECOND, '2026-11-30 03:00:00.123')",
        id, id, family, status, id, owner, lease, retry);
}

static void put_pending(int64_t id, int64_t family) {
    put(id, family, "PUBLISH_PENDING", "NULL", "NULL", "NULL");
}

static void put_mine(int64_t id, int64_t family) {
    put(id, family, "PUBLISH_PENDING", "99", "600", "NULL");
}

/* Claims; returns the ids in order, as "1 2 3". */
static const char *claim(struct db *by, int64_t owner, size_t limit, bool *busy) {
    static char text[256];
    struct error err = {0};
    outbox_list_free(claimed.head);
    claimed = (struct outbox_list){0};
    ck_assert_msg(outbox_claim(by, cfg, owner, limit, &claimed, busy, &err), "%s", err.text);
    text[0] = '\0';
    size_t n = 0;
    for (const struct outbox_row *r = claimed.head; r; r = r->next, n++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%" PRId64, n ? " " : "", r->outbox_id);
    ck_assert_uint_eq(n, claimed.count);
    return text;
}

static void expect_claim(const char *expected) {
    bool busy = true;
    ck_assert_str_eq(claim(db, ME, 100, &busy), expected);
    ck_assert(!busy);
}

/* ---- claiming ---- */

START_TEST(claims_what_is_due) {
    put_pending(5, 1);
    put_pending(2, 2);
    put(3, 3, "SENT", "NULL", "NULL", "NULL");
    put(4, 4, "FAILED", "NULL", "NULL", "NULL");
    put(6, 5, "PUBLISH_PENDING", "1", "600", "NULL");    /* leased */
    put(7, 6, "PUBLISH_PENDING", "1", "-1", "NULL");     /* its lease ran out */
    put(8, 7, "PUBLISH_PENDING", "99", "600", "NULL");   /* our own, in hand already */
    put(9, 8, "PUBLISH_PENDING", "NULL", "NULL", "600"); /* not due */
    put(10, 9, "PUBLISH_PENDING", "NULL", "NULL", "-1");
    put(11, 10, "PUBLISH_PENDING", "1", "-1", "600");
    expect_claim("2 5 7 10");
    stores_expect(
        db,
        "SELECT outbox_id, lease_until > UTC_TIMESTAMP(3) + INTERVAL 590 SECOND, lease_until <= UTC_TIMESTAMP(3) + INTERVAL 600 SECOND "
        "FROM usage_event_outbox WHERE lease_owner = 99 AND outbox_id <> 8 ORDER BY 1",
        3, "2|1|1\n5|1|1\n7|1|1\n10|1|1\n");
    stores_expect(
        db, "SELECT COUNT(*) FROM usage_event_outbox WHERE outbox_id IN (3, 4, 9, 11) AND lease_owner = 99",
        1, "0\n");
    expect_claim("");
}
END_TEST

START_TEST(claims_carry_the_row) {
    int64_t before = clock_monotonic_ms();
    put_pending(2, 7);
    stores_sql(db, "UPDATE usage_event_outbox SET retry_count = 3");
    expect_claim("2");
    const struct outbox_row *r = claimed.head;
    ck_assert_int_eq(r->family_id, 7);
    ck_assert_str_eq(r->event_id, "e2");
    ck_assert_str_eq(r->payload_json, "{\"n\":\"카 2\"}");
    ck_assert_int_eq(r->created_at_ms, INT64_C(1796007600123));
    ck_assert_int_eq(r->retry_count, 3);
    ck_assert_msg(r->lease_end_ms >= before + 600000 && r->lease_end_ms <= clock_monotonic_ms() + 600000,
                  "%" PRId64, r->lease_end_ms);
}
END_TEST

START_TEST(claims_are_bounded) {
    bool busy;
    for (int i = 1; i <= 10; i++)
        put_pending(i, i);
    ck_assert_str_eq(claim(db, ME, 4, &busy), "1 2 3 4");
    ck_assert_str_eq(claim(other, SOMEBODY, 4, &busy), "5 6 7 8");
    ck_assert_str_eq(claim(db, ME, 4, &busy), "9 10");
    stores_sql(
        db,
        "UPDATE usage_event_outbox SET lease_until = UTC_TIMESTAMP(3) - INTERVAL 1 SECOND WHERE lease_owner = 1");
    ck_assert_str_eq(claim(db, ME, 100, &busy), "5 6 7 8");
}
END_TEST

START_TEST(claims_append) {
    struct error err = {0};
    bool busy;
    put_pending(1, 1);
    ck_assert(outbox_claim(db, cfg, ME, 10, &claimed, &busy, &err));
    put_pending(2, 2);
    ck_assert(outbox_claim(db, cfg, ME, 10, &claimed, &busy, &err));
    ck_assert_uint_eq(claimed.count, 2);
    ck_assert_int_eq(claimed.head->outbox_id, 1);
    ck_assert_int_eq(claimed.tail->outbox_id, 2);
}
END_TEST

START_TEST(one_sweeps_at_a_time) {
    bool busy = false;
    put_pending(1, 1);
    stores_expect(other, "SELECT GET_LOCK('tallyd.outbox.sweep', 0)", 1, "1\n");
    ck_assert_str_eq(claim(db, ME, 10, &busy), "");
    ck_assert(busy);
    stores_expect(db, "SELECT lease_owner FROM usage_event_outbox", 1, "NULL\n");
    stores_expect(other, "SELECT RELEASE_LOCK('tallyd.outbox.sweep')", 1, "1\n");
    expect_claim("1");
    /* and gives the lock back */
    stores_expect(other, "SELECT GET_LOCK('tallyd.outbox.sweep', 0)", 1, "1\n");
}
END_TEST

/* Notifications of a family keep their order: a row waits for the pending ones before it, whoever has those.
 */
START_TEST(only_the_first_of_a_family_is_claimed) {
    put_pending(1, 1);
    put_pending(2, 1);
    put(3, 2, "PUBLISH_PENDING", "1", "600", "NULL");
    put_pending(4, 2);
    put(5, 3, "FAILED", "NULL", "NULL", "NULL");
    put_pending(6, 3);
    put(7, 4, "PUBLISH_PENDING", "NULL", "NULL", "600");
    put_pending(8, 4);
    put(9, 5, "SENT", "NULL", "NULL", "NULL");
    put_pending(10, 5);
    expect_claim("1 6 10");
}
END_TEST

START_TEST(locked_rows_are_passed_over) {
    put_pending(1, 1);
    put_pending(2, 2);
    put_pending(3, 3);
    stores_sql(other, "START TRANSACTION");
    stores_sql(other, "UPDATE usage_event_outbox SET retry_count = 1 WHERE outbox_id = 2");
    expect_claim("1 3");
    stores_sql(other, "ROLLBACK");
    expect_claim("2");
}
END_TEST

/* Passed over isn't gone: what comes after a locked row waits as well. */
START_TEST(locked_rows_hold_their_family_back) {
    put_pending(1, 1);
    put_pending(2, 1);
    put_pending(3, 2);
    stores_sql(other, "START TRANSACTION");
    stores_sql(other, "UPDATE usage_event_outbox SET retry_count = 1 WHERE outbox_id = 1");
    expect_claim("3");
    stores_sql(other, "ROLLBACK");
    expect_claim("1");
}
END_TEST

START_TEST(claiming_without_a_connection) {
    struct error err = {0};
    bool busy;
    put_pending(1, 1);
    db_close(db);
    ck_assert(!outbox_claim(db, cfg, ME, 10, &claimed, &busy, &err));
    ck_assert_int_eq(err.action, ERROR_RETRY);
    ck_assert_ptr_null(claimed.head);
    err = (struct error){0};
    ck_assert(db_ensure(db, &err));
    expect_claim("1");
}
END_TEST

/* ---- ends ---- */

#define STATES                                                                                               \
    "SELECT outbox_id, status, lease_owner, sent_at IS NOT NULL, retry_count FROM usage_event_outbox ORDER BY 1"

static void put_all_kinds(void) {
    put_mine(1, 1);
    put(2, 2, "PUBLISH_PENDING", "1", "600", "NULL"); /* somebody's by now */
    put(3, 3, "PUBLISH_PENDING", "99", "-1", "NULL"); /* ran out */
    put(4, 4, "PUBLISH_PENDING", "NULL", "NULL", "NULL");
    put(5, 5, "SENT", "99", "600", "NULL");
    put(6, 6, "FAILED", "99", "600", "NULL");
    put_mine(7, 7);
    put_mine(8, 8); /* not asked for */
}

static const int64_t asked[] = {1, 2, 3, 4, 5, 6, 7};
static const char *const asked_events[] = {"e1", "e2", "e3", "e4", "e5", "e6", "e7"};

/* The database was put back to an older state, and gave the id to another event since. */
START_TEST(marked_only_while_the_id_is_the_events) {
    struct error err = {0};
    const int64_t ids[] = {1, 2};
    const char *const events[] = {"older", "e2"};
    int64_t marked = -1;
    put_mine(1, 1);
    put_mine(2, 2);
    ck_assert_msg(outbox_mark_sent(db, ME, ids, events, 2, &marked, &err), "%s", err.text);
    ck_assert_int_eq(marked, 1);
    ck_assert_msg(outbox_mark_failed(db, ME, 1, "older", "too large", &err), "%s", err.text);
    stores_expect(db, "SELECT outbox_id, status FROM usage_event_outbox ORDER BY 1", 2,
                  "1|PUBLISH_PENDING\n2|SENT\n");
}
END_TEST

START_TEST(sent_only_while_the_lease_holds) {
    struct error err = {0};
    int64_t marked = -1;
    put_all_kinds();
    ck_assert_msg(outbox_mark_sent(db, ME, asked, asked_events, TESTING_LENGTH(asked), &marked, &err), "%s",
                  err.text);
    ck_assert_int_eq(marked, 2);
    stores_expect(
        db, STATES, 5,
        "1|SENT|NULL|1|0\n2|PUBLISH_PENDING|1|0|0\n3|PUBLISH_PENDING|99|0|0\n4|PUBLISH_PENDING|NULL|0|0\n5|SENT|99|0|0\n"
        "6|FAILED|99|0|0\n7|SENT|NULL|1|0\n8|PUBLISH_PENDING|99|0|0\n");
    stores_expect(
        db,
        "SELECT COUNT(*) FROM usage_event_outbox WHERE status = 'SENT' AND lease_until IS NULL AND next_retry_at IS NULL",
        1, "2\n");
    ck_assert(outbox_mark_sent(db, ME, asked, asked_events, TESTING_LENGTH(asked), &marked, &err));
    ck_assert_int_eq(marked, 0);
}
END_TEST

START_TEST(failed_only_while_the_lease_holds) {
    struct error err = {0};
    put_all_kinds();
    for (size_t i = 0; i < TESTING_LENGTH(asked) - 1; i++)
        ck_assert_msg(outbox_mark_failed(db, ME, asked[i], asked_events[i], "it's \"too\" large \\", &err),
                      "%s", err.text);
    stores_expect(
        db, STATES, 5,
        "1|FAILED|NULL|0|1\n2|PUBLISH_PENDING|1|0|0\n3|PUBLISH_PENDING|99|0|0\n4|PUBLISH_PENDING|NULL|0|0\n5|SENT|99|0|0\n"
        "6|FAILED|99|0|0\n7|PUBLISH_PENDING|99|0|0\n8|PUBLISH_PENDING|99|0|0\n");
    stores_expect(db, "SELECT outbox_id, last_error FROM usage_event_outbox WHERE last_error IS NOT NULL", 2,
                  "1|it's \"too\" large \\\n");
}
END_TEST

/* The longest sentence an error can hold. */
START_TEST(long_errors_are_kept) {
    struct error err = {0};
    char why[sizeof err.text];
    memset(why, 'x', sizeof why);
    why[sizeof why - 1] = '\0';
    put_mine(1, 1);
    ck_assert_msg(outbox_mark_failed(db, ME, 1, "e1", why, &err), "%s", err.text);
    stores_expect(db, "SELECT status, LENGTH(last_error) FROM usage_event_outbox", 2, "FAILED|511\n");
}
END_TEST

START_TEST(released_only_while_the_lease_holds) {
    struct error err = {0};
    put_all_kinds();
    ck_assert_msg(outbox_release(db, ME, asked, TESTING_LENGTH(asked), 0, false, NULL, &err), "%s", err.text);
    stores_expect(
        db, STATES, 5,
        "1|PUBLISH_PENDING|NULL|0|0\n2|PUBLISH_PENDING|1|0|0\n3|PUBLISH_PENDING|99|0|0\n4|PUBLISH_PENDING|NULL|0|0\n5|SENT|99|0|0\n"
        "6|FAILED|99|0|0\n7|PUBLISH_PENDING|NULL|0|0\n8|PUBLISH_PENDING|99|0|0\n");
    expect_claim("1 3 4 7");
}
END_TEST

START_TEST(released_for_later) {
    struct error err = {0};
    const int64_t first = 1, second = 2;
    put_mine(1, 1);
    put_mine(2, 2);
    ck_assert_msg(outbox_release(db, ME, &first, 1, 500000, true, "broker said no", &err), "%s", err.text);
    ck_assert_msg(outbox_release(db, ME, &second, 1, 500000, false, NULL, &err), "%s", err.text);
    stores_expect(
        db,
        "SELECT outbox_id, retry_count, last_error, next_retry_at > UTC_TIMESTAMP(3) + INTERVAL 490 SECOND, "
        "next_retry_at <= UTC_TIMESTAMP(3) + INTERVAL 500 SECOND FROM usage_event_outbox ORDER BY 1",
        5, "1|1|broker said no|1|1\n2|0|NULL|1|1\n");
    expect_claim("");
    stores_sql(db, "UPDATE usage_event_outbox SET next_retry_at = UTC_TIMESTAMP(3) - INTERVAL 1 SECOND");
    expect_claim("1 2");
    /* a later outage is no try of the row's, and keeps its error */
    ck_assert(outbox_release(db, ME, &first, 1, 0, false, NULL, &err));
    stores_expect(db,
                  "SELECT retry_count, last_error, next_retry_at FROM usage_event_outbox WHERE outbox_id = 1",
                  3, "1|broker said no|NULL\n");
}
END_TEST

START_TEST(all_released_at_shutdown) {
    struct error err = {0};
    put_all_kinds();
    ck_assert_msg(outbox_release_all(db, ME, &err), "%s", err.text);
    stores_expect(
        db, STATES, 5,
        "1|PUBLISH_PENDING|99|0|0\n2|PUBLISH_PENDING|1|0|0\n3|PUBLISH_PENDING|99|0|0\n4|PUBLISH_PENDING|NULL|0|0\n5|SENT|99|0|0\n"
        "6|FAILED|99|0|0\n7|PUBLISH_PENDING|99|0|0\n8|PUBLISH_PENDING|99|0|0\n");
    stores_expect(
        db,
        "SELECT COUNT(*) FROM usage_event_outbox WHERE status = 'PUBLISH_PENDING' AND lease_owner = 99 "
        "AND lease_until > UTC_TIMESTAMP(3)",
        1, "0\n");
}
END_TEST

/* ---- the order rule ---- */

START_TEST(first_pending_of_families) {
    struct error err = {0};
    static const int64_t families[] = {-1, 1, 2, 3, 4, 5, 9};
    int64_t first[TESTING_LENGTH(families)];
    put(10, 1, "SENT", "NULL", "NULL", "NULL");
    put_pending(11, 1);
    put_pending(12, 1);
    put(13, 2, "PUBLISH_PENDING", "1", "600", "NULL"); /* whoever leases it */
    put_pending(14, 2);
    put(15, 3, "FAILED", "NULL", "NULL", "NULL");         /* a failed one holds nobody back */
    put(16, 3, "PUBLISH_PENDING", "NULL", "NULL", "600"); /* one that isn't due does */
    put_mine(17, 3);
    put(18, 4, "SENT", "NULL", "NULL", "NULL");
    put_pending(19, 6);
    memset(first, 0xff, sizeof first);
    ck_assert_msg(outbox_first_pending(db, families, TESTING_LENGTH(families), first, &err), "%s", err.text);
    static const int64_t expected[] = {0, 11, 13, 16, 0, 0, 0};
    for (size_t i = 0; i < TESTING_LENGTH(families); i++)
        ck_assert_msg(first[i] == expected[i], "family %" PRId64 ": %" PRId64, families[i], first[i]);
    ck_assert(outbox_first_pending(db, families, 0, first, &err));
}
END_TEST

/* After a COMMIT whose reply was lost: what is still ours of these events. */
START_TEST(held_rows_are_found) {
    struct error err = {0};
    static const char *const ids[] = {"e7", "e2", "e3", "e4", "e5", "e6", "e1", "none", "it's"};
    int64_t before = clock_monotonic_ms();
    put_all_kinds();
    ck_assert_msg(outbox_find_held(db, ME, ids, TESTING_LENGTH(ids), &claimed, &err), "%s", err.text);
    ck_assert_uint_eq(claimed.count, 2);
    ck_assert_int_eq(claimed.head->outbox_id, 1);
    ck_assert_int_eq(claimed.tail->outbox_id, 7);
    ck_assert_msg(claimed.head->lease_end_ms > before + 1000 &&
                      claimed.head->lease_end_ms <= clock_monotonic_ms() + 600000,
                  "%" PRId64, claimed.head->lease_end_ms - before);
    ck_assert_str_eq(claimed.head->payload_json, "{\"n\":\"카 1\"}");
    ck_assert(outbox_find_held(db, ME, ids, 0, &claimed, &err));
    ck_assert_uint_eq(claimed.count, 2);
}
END_TEST

START_TEST(pending_are_counted_to_a_limit) {
    struct error err = {0};
    int64_t n = -1;
    ck_assert(outbox_pending(db, 5, &n, &err));
    ck_assert_int_eq(n, 0);
    put_all_kinds();
    ck_assert(outbox_pending(db, 100, &n, &err));
    ck_assert_int_eq(n, 6);
    ck_assert(outbox_pending(db, 2, &n, &err));
    ck_assert_int_eq(n, 2);
}
END_TEST

START_TEST(lists) {
    struct outbox_list l = {0};
    ck_assert_ptr_null(outbox_list_pop(&l));
    for (int i = 1; i <= 3; i++) {
        struct outbox_row *r = mem_zero(1, sizeof *r);
        r->outbox_id = i;
        outbox_list_push(&l, r);
    }
    ck_assert_uint_eq(l.count, 3);
    for (int i = 1; i <= 3; i++) {
        struct outbox_row *r = outbox_list_pop(&l);
        ck_assert_int_eq(r->outbox_id, i);
        ck_assert_ptr_null(r->next);
        outbox_row_free(r);
    }
    ck_assert(l.count == 0 && !l.head && !l.tail);
    outbox_list_push(&l, mem_zero(1, sizeof(struct outbox_row)));
    ck_assert(l.head == l.tail && l.count == 1);
    outbox_list_free(l.head);
    outbox_row_free(NULL);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("outbox");
    TCase *tc = tcase_create("outbox");
    tcase_add_unchecked_fixture(tc, create, drop);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, claims_what_is_due);
    tcase_add_test(tc, claims_carry_the_row);
    tcase_add_test(tc, claims_are_bounded);
    tcase_add_test(tc, claims_append);
    tcase_add_test(tc, one_sweeps_at_a_time);
    tcase_add_test(tc, only_the_first_of_a_family_is_claimed);
    tcase_add_test(tc, locked_rows_are_passed_over);
    tcase_add_test(tc, marked_only_while_the_id_is_the_events);
    tcase_add_test(tc, locked_rows_hold_their_family_back);
    tcase_add_test(tc, claiming_without_a_connection);
    tcase_add_test(tc, sent_only_while_the_lease_holds);
    tcase_add_test(tc, failed_only_while_the_lease_holds);
    tcase_add_test(tc, long_errors_are_kept);
    tcase_add_test(tc, released_only_while_the_lease_holds);
    tcase_add_test(tc, released_for_later);
    tcase_add_test(tc, all_released_at_shutdown);
    tcase_add_test(tc, first_pending_of_families);
    tcase_add_test(tc, held_rows_are_found);
    tcase_add_test(tc, pending_are_counted_to_a_limit);
    tcase_add_test(tc, lists);
    suite_add_tcase(s, tc);
    return s;
}

int main(void) {
    return testing_run(suite());
}
