/* SPDX-License-Identifier: MIT */
/* What is pure of explain and show: which record is an event's, what became of it, the sentence, what is to
 * be read of a topic. */
#include "explain.h"
#include "family_print.h"
#include "period.h"
#include "testing.h"
#include "topic_scan.h"

/* ---- ids ---- */

static enum explain_match match(const char *id, const char *value) {
    return explain_match(id, value, strlen(value));
}

START_TEST(knows_the_records_of_an_id) {
    ck_assert_int_eq(match("a1", "{\"eventId\":\"a1\",\"eventType\":\"DATA_USAGE\"}"), EXPLAIN_SAME);
    ck_assert_int_eq(match("a1", "{\"eventId\":\"a12\"}"), EXPLAIN_OTHER);
    ck_assert_int_eq(match("a1", "{\"eventId\":\"A1\"}"), EXPLAIN_OTHER);
    ck_assert_int_eq(match("a1", "{\"eventId\":\"b\",\"payload\":{\"eventId\":\"a1\"}}"), EXPLAIN_OTHER);
    ck_assert_int_eq(match("a1", "{\"eventId\":\"b\",\"note\":\"a1\"}"), EXPLAIN_OTHER);
    ck_assert_int_eq(match("a1", "{\"eventId\":1,\"note\":\"a1\"}"), EXPLAIN_OTHER);
    ck_assert_int_eq(match("a1", "[\"a1\"]"), EXPLAIN_OTHER);
    ck_assert_int_eq(explain_match("a1", NULL, 0), EXPLAIN_OTHER);
    ck_assert_int_eq(match("a1", ""), EXPLAIN_OTHER);
}
END_TEST

START_TEST(knows_an_id_that_is_written_otherwise) {
    ck_assert_int_eq(match("a/1", "{\"eventId\":\"a\\/1\"}"), EXPLAIN_SAME);
    ck_assert_int_eq(match("a1", "{\"eventId\":\"\\u0061\\u0031\"}"), EXPLAIN_SAME);
    ck_assert_int_eq(match("a\"1", "{\"eventId\":\"a\\\"1\"}"), EXPLAIN_SAME);
    ck_assert_int_eq(match("a1", "{\"title\":\"가\",\"eventId\":\"a1\"}"), EXPLAIN_SAME);
}
END_TEST

START_TEST(takes_broken_text_for_what_it_is) {
    ck_assert_int_eq(match("a1", "{\"eventId\":\"a1\",\"eventT"), EXPLAIN_TEXT);
    ck_assert_int_eq(match("a1", "{\"eventId\":\"a12\",\"eventT"), EXPLAIN_OTHER);
    ck_assert_int_eq(match("a1", "{ \"eventId\" :\t\"a1\" "), EXPLAIN_TEXT);
    ck_assert_int_eq(match("a1", "a1"), EXPLAIN_OTHER);
}
END_TEST

START_TEST(tells_a_quoted_id_from_a_named_one) {
    ck_assert_int_eq(match("a1", "{\"eventId\":\"b\",\"note\":\"a1\",\"eventT"), EXPLAIN_QUOTED);
    ck_assert_int_eq(match("a1", "\"a1\"}"), EXPLAIN_QUOTED);
    ck_assert_int_eq(match("a1", ":\"a1\"}"), EXPLAIN_QUOTED);
    ck_assert_int_eq(match("a1", "eventId\":\"a1\"}"), EXPLAIN_QUOTED);
    ck_assert_int_eq(match("a1", "{\"note\":\"a1\",\"eventId\":\"a1\",\"eventT"), EXPLAIN_TEXT);
}
END_TEST

START_TEST(takes_ids_as_the_contract_does) {
    char longest[EVENT_ID_MAX + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[EVENT_ID_MAX + 1] = '\0';
    ck_assert(!explain_id_ok(longest));
    longest[EVENT_ID_MAX] = '\0';
    ck_assert(explain_id_ok(longest));
    ck_assert(explain_id_ok("!~'\"\\;"));
    ck_assert(!explain_id_ok(""));
    ck_assert(!explain_id_ok("a b"));
    ck_assert(!explain_id_ok("a\n"));
    ck_assert(!explain_id_ok("a\x7f"));
    ck_assert(!explain_id_ok("é"));
}
END_TEST

/* ---- fates and verdicts ---- */

/* A ledger of partition 0 that began at 10 and is at 100. */
static struct explain_ledger ledger = {.partition = 0, .first = 10, .next = 100};
static char topic[] = "usage", letters_payload[] = "{}", quota[] = "FAMILY_QUOTA_EXCEEDED",
            limit[] = "MONTHLY_LIMIT_EXCEEDED", by_time[] = "TIME_BLOCK";

static struct explanation with(struct explain_delivery *d, size_t n) {
    return (struct explanation){
        .id = "a1",
        .ledger = &ledger,
        .ledger_count = 1,
        .deliveries = d,
        .delivery_count = n,
        .usage = {.topic = topic, .done = true, .whole = true, .to_end = true, .records = 7},
        .dlt = {.topic = "dlt", .done = true, .to_end = true, .records = 3, .since_ms = -1}};
}

static struct explain_row row(bool blocked) {
    return (struct explain_row){.blocked = blocked,
                                .family = 1,
                                .customer = 11,
                                .bytes = 5,
                                .month = 202611,
                                .partition = 0,
                                .offset = 20,
                                .reason = blocked ? quota : NULL,
                                .remaining = 4};
}

static struct explain_delivery at(int64_t offset, int64_t bytes) {
    return (struct explain_delivery){.offset = offset,
                                     .match = EXPLAIN_SAME,
                                     .kind = EVENT_USAGE,
                                     .has_figures = true,
                                     .family = 1,
                                     .customer = 11,
                                     .bytes = bytes};
}

static void ends(const struct explanation *x, enum explain_verdict verdict, const char *says) {
    struct buf out = {0};
    explain_sentence(&out, x);
    ck_assert_msg(x->verdict == verdict, "%s: %s", explain_verdict_name(x->verdict), buf_cstr(&out));
    ck_assert_msg(strstr(buf_cstr(&out), says) != NULL, "'%s' doesn't say '%s'", buf_cstr(&out), says);
    buf_free(&out);
}

START_TEST(tells_a_settled_one_from_its_repeats) {
    struct explain_delivery d[] = {at(20, 5), at(30, 5), at(40, 6), at(100, 5), at(5, 5)};
    struct explanation x = with(d, TESTING_LENGTH(d));
    x.has_row = true;
    x.row = row(false);
    explain_judge(&x);
    ck_assert_int_eq(d[0].fate, EXPLAIN_DECIDED);
    ck_assert_int_eq(d[1].fate, EXPLAIN_DUPLICATE);
    ck_assert_int_eq(d[2].fate, EXPLAIN_REFUSED);
    ck_assert_str_eq(d[2].refused_as, "ID_CONFLICT");
    ck_assert_int_eq(d[3].fate, EXPLAIN_NOT_REACHED);
    ck_assert_int_eq(d[3].before, 0);
    ck_assert_int_eq(d[4].fate, EXPLAIN_BEFORE_GROUP);
    ends(&x, EXPLAIN_SETTLED,
         "; delivered again, as a duplicate; delivered once more, which the ledger hasn't reached.");
}
END_TEST

START_TEST(tells_a_rejection_that_was_settled_later) {
    struct explain_delivery d[] = {at(20, 5)};
    char code[] = "NOT_A_MEMBER", none[] = "";
    struct explain_rejection r = {
        .code = code, .message = none, .topic = topic, .has_place = true, .from_offset = 20};
    struct explanation x = with(d, 1);
    x.rejections = &r;
    x.rejection_count = 1;
    explain_judge(&x);
    ck_assert_int_eq(d[0].fate, EXPLAIN_REFUSED);
    ends(&x, EXPLAIN_REJECTED, "in the DLT, as NOT_A_MEMBER.");
    x.has_row = true; /* of the same place: the group was moved back */
    x.row = row(false);
    explain_judge(&x);
    ck_assert_int_eq(d[0].fate, EXPLAIN_DECIDED);
    ends(&x, EXPLAIN_SETTLED, "; rejected once, as NOT_A_MEMBER.");
}
END_TEST

START_TEST(takes_another_topics_rejection_for_no_fate) {
    struct explain_delivery d[] = {at(20, 5)};
    char code[] = "NOT_A_MEMBER", none[] = "\x1b", other[] = "other";
    struct explain_rejection r = {
        .code = code, .message = none, .topic = other, .has_place = true, .from_offset = 20};
    struct explanation x = with(d, 1);
    x.rejections = &r;
    x.rejection_count = 1;
    explain_judge(&x);
    ck_assert_int_eq(d[0].fate, EXPLAIN_UNKNOWN_FATE);
    ends(&x, EXPLAIN_REJECTED, "NOT_A_MEMBER: ?."); /* and nothing that a terminal obeys */
}
END_TEST

START_TEST(tells_why_one_is_blocked) {
    struct explanation x = with(NULL, 0);
    x.has_row = true;
    x.row = row(true);
    explain_judge(&x);
    ends(&x, EXPLAIN_BLOCKED,
         "its 5 bytes were more than the 4 that the family had left (FAMILY_QUOTA_EXCEEDED)");
    x.row.reason = limit;
    x.row.monthly_used = 7;
    x.row.monthly_limit = 9;
    ends(&x, EXPLAIN_BLOCKED, "with 7 used its 5 bytes would pass the customer's limit of 9");
    x.row.reason = by_time;
    ends(&x, EXPLAIN_BLOCKED, "its time of day was blocked");
}
END_TEST

START_TEST(tells_what_warned) {
    struct explanation x = with(NULL, 0);
    struct family_letter letter = {.family = 1, .customer = 11, .created_ms = 1, .payload = letters_payload};
    char alert[] = "THRESHOLD:30", higher[] = "THRESHOLD:50", id[] = "a1";
    struct family_alert alerts[] = {{.customer = 11, .alert = higher, .event_id = id},
                                    {.customer = 11, .alert = alert, .event_id = id}};
    family_alerts_mark(alerts, 2);
    ck_assert(alerts[0].only_marked && !alerts[1].only_marked);
    x.has_row = true;
    x.row = row(false);
    x.dedup_read = x.dedup_current = true;
    x.dedup_family = 1;
    x.dedup_customer = 11;
    x.dedup_bytes = 5;
    x.dedup.status = STATUS_WARNING;
    x.dedup.threshold = 10;
    explain_judge(&x);
    ends(&x, EXPLAIN_SETTLED_WITH_WARNING, " with WARNING_10, which was told before:");
    ck_assert_ptr_nonnull(explain_figures(&x).from);
    int64_t *const figures[] = {&x.dedup_family, &x.dedup_customer, &x.dedup_bytes};
    for (size_t i = 0; i < TESTING_LENGTH(figures); i++) { /* another event's, under its id */
        *figures[i] += 1;
        explain_judge(&x);
        ends(&x, EXPLAIN_SETTLED, "Settled at ");
        ck_assert_ptr_null(explain_figures(&x).from);
        *figures[i] -= 1;
    }
    x.dedup_current = false; /* of a decision that may have been dropped */
    explain_judge(&x);
    ends(&x, EXPLAIN_SETTLED, "Settled at ");
    x.letter = &letter;
    x.letter_count = 1;
    x.month.alerts = alerts;
    x.month.alert_count = 2;
    explain_judge(&x);
    ends(&x, EXPLAIN_SETTLED_WITH_WARNING, ", and told WARNING_30:");
    x.has_row = false;
    explain_judge(&x);
    ends(&x, EXPLAIN_PRUNED, "whose rows are gone");
}
END_TEST

START_TEST(claims_nothing_of_a_closed_month) {
    struct explain_delivery d[] = {at(50, 5)};
    struct explain_rejection r = {.code = "EVENT_TOO_OLD", .message = "its month is closed"};
    struct explanation x = with(d, 1);
    d[0].has_figures = true;
    d[0].family = 1;
    d[0].customer = 11;
    d[0].month = 202601;
    x.closed_before = 202601;
    explain_judge(&x);
    ends(&x, EXPLAIN_UNACCOUNTED, "in partition 0 at offset 50");
    x.closed_before = 202602;
    explain_judge(&x);
    ends(&x, EXPLAIN_PRUNED, "can't be told any more");
    x.rejections = &r;
    x.rejection_count = 1;
    explain_judge(&x);
    ends(&x, EXPLAIN_PRUNED, "rejected once, as EVENT_TOO_OLD");
    x.closed_before = 0;
    explain_judge(&x);
    ends(&x, EXPLAIN_REJECTED, "EVENT_TOO_OLD");
}
END_TEST

START_TEST(tells_a_pruned_one_by_who_met_its_id) {
    struct explain_rejection r = {.code = "ID_CONFLICT",
                                  .message = "",
                                  .match = EXPLAIN_SAME,
                                  .has_figures = true,
                                  .family = 1,
                                  .customer = 11,
                                  .month = 202612};
    struct explanation x = with(NULL, 0);
    x.rejections = &r;
    x.rejection_count = 1;
    x.closed_before = 202602;
    explain_judge(&x);
    ends(&x, EXPLAIN_PRUNED,
         "another event met its id; another event under its id was rejected (ID_CONFLICT).");
    x.closed_before = 197001; /* nothing was ever pruned */
    explain_judge(&x);
    ends(&x, EXPLAIN_REJECTED, "ID_CONFLICT");
}
END_TEST

START_TEST(takes_a_letters_month_from_its_event) {
    static char late[] = "{\"data\":{\"eventTime\":\"2026-10-31T23:59:59+00:00\"}}", odd[] = "{\"data\":{}}";
    struct family_letter letter = {.family = 1, .customer = 11, .created_ms = 1793491201000, .payload = late};
    struct explanation x = with(NULL, 0);
    int64_t family;
    int32_t month;
    x.letter = &letter;
    x.letter_count = 1;
    ck_assert_int_eq(explain_customer(&x, &family, &month), 11);
    ck_assert_int_eq(month, 202610);
    letter.payload = odd;
    ck_assert_int_eq(explain_customer(&x, &family, &month), 11);
    ck_assert_int_eq(month, 202611);
}
END_TEST

START_TEST(claims_no_repeat_before_the_first) {
    struct explain_delivery d[] = {at(15, 5), at(20, 5), at(15, 5)};
    struct explanation x = with(d, TESTING_LENGTH(d));
    d[2].partition = 1; /* which of the two came first isn't known */
    struct explain_ledger both[] = {ledger, {.partition = 1, .first = 10, .next = 100}};
    x.ledger = both;
    x.ledger_count = 2;
    x.has_row = true;
    x.row = row(false);
    explain_judge(&x);
    ck_assert_int_eq(d[0].fate, EXPLAIN_BEFORE_ROW);
    ck_assert_int_eq(d[1].fate, EXPLAIN_DECIDED);
    ck_assert_int_eq(d[2].fate, EXPLAIN_DUPLICATE);
    ends(&x, EXPLAIN_SETTLED, "delivered before as well, and rejected then");
}
END_TEST

START_TEST(goes_by_no_record_that_quotes_an_id) {
    struct explain_delivery d[] = {at(50, 5)};
    struct explain_rejection r = {.code = "MALFORMED_JSON", .message = "", .match = EXPLAIN_QUOTED};
    struct explanation x = with(d, 1);
    x.rejections = &r;
    x.rejection_count = 1;
    d[0].match = EXPLAIN_QUOTED;
    d[0].kind = EVENT_REJECTED;
    d[0].code = REJECT_MALFORMED_JSON;
    explain_judge(&x);
    ends(&x, EXPLAIN_NEVER_SEEN, "; a record that can't be read quotes its id.");
    d[0].offset = 103;
    explain_judge(&x);
    ends(&x, EXPLAIN_NEVER_SEEN, "; a record that can't be read quotes its id.");
    r.match = EXPLAIN_TEXT;
    explain_judge(&x);
    ends(&x, EXPLAIN_REJECTED, "as MALFORMED_JSON; a record that can't be read quotes its id.");
}
END_TEST

START_TEST(says_what_was_not_searched) {
    struct explanation x = with(NULL, 0);
    struct explain_searched *const parts[] = {&x.usage, &x.dlt};
    for (size_t i = 0; i < TESTING_LENGTH(parts); i++) {
        parts[i]->to_end = false;
        parts[i]->whole = false;
        parts[i]->since_ms = -1;
        explain_judge(&x);
        ends(&x, EXPLAIN_UNDETERMINED, "Not found, and not all was searched");
        ends(&x, EXPLAIN_UNDETERMINED,
             i == 0
                 ? "those 7 records of usage that could be looked at in 10 s nor the last 3 records of dlt."
                 : "the last 7 records of usage nor those 3 records of dlt that could be looked at in 10 s.");
        parts[i]->to_end = true;
    }
    explain_judge(&x);
    ends(&x, EXPLAIN_NEVER_SEEN, "the last 7 records of usage");
}
END_TEST

START_TEST(tells_an_alert_whose_letter_is_gone) {
    char kind[] = "THRESHOLD:30", mine[] = "a-1", others[] = "a-2";
    struct family_alert alert = {.customer = 11, .alert = kind, .event_id = mine};
    struct explanation x = with(NULL, 0);
    snprintf(x.id, sizeof x.id, "%s", mine);
    x.has_row = true;
    x.row = row(false);
    x.month.alerts = &alert;
    x.month.alert_count = 1;
    explain_judge(&x);
    ends(&x, EXPLAIN_SETTLED_WITH_WARNING, "told WARNING_30");
    alert.event_id = others;
    explain_judge(&x);
    ends(&x, EXPLAIN_SETTLED, "Settled at ");
}
END_TEST

START_TEST(tells_what_it_cannot_tell) {
    struct explain_delivery d[] = {at(50, 5)};
    struct explanation x = with(NULL, 0);
    explain_judge(&x);
    ends(&x, EXPLAIN_NEVER_SEEN, "all 7 records of usage nor the last 3 records of dlt.");
    x.kafka.area = ERROR_KAFKA;
    explain_judge(&x);
    ends(&x, EXPLAIN_UNDETERMINED, "couldn't be asked");
    x = with(d, 1);
    explain_judge(&x);
    ends(&x, EXPLAIN_UNACCOUNTED, "in partition 0 at offset 50, which the ledger has passed");
    d[0].partition = 1;
    explain_judge(&x);
    ends(&x, EXPLAIN_WAITING, "of which nothing is settled yet");
    d[0] = at(103, 5);
    explain_judge(&x);
    ends(&x, EXPLAIN_WAITING, "with 3 records to be settled before it");
    d[0] = at(50, 5);
    d[0].kind = EVENT_IGNORED;
    explain_judge(&x);
    ends(&x, EXPLAIN_IGNORED, "Ignored");
    d[0].kind = EVENT_REJECTED;
    d[0].code = REJECT_MALFORMED_JSON;
    explain_judge(&x);
    ends(&x, EXPLAIN_REJECTED, "Rejected as MALFORMED_JSON, by its form");
}
END_TEST

/* ---- what is to be read ---- */

START_TEST(shares_the_newest_records_out) {
    struct topic_span spans[] = {{.partition = 0, .low = 5, .high = 105},
                                 {.partition = 1, .low = 0, .high = 3},
                                 {.partition = 2, .low = 0, .high = 50}};
    struct topic_scan s = {.topic = topic, .spans = spans, .count = 3};
    static const struct {
        int64_t records, from[3];
    } cases[] = {
        {0, {105, 3, 50}}, {1, {104, 3, 50}}, {3, {104, 2, 49}}, {4, {103, 2, 49}},    {23, {95, 0, 40}},
        {103, {55, 0, 0}}, {153, {5, 0, 0}},  {152, {6, 0, 0}},  {1000000, {5, 0, 0}},
    };
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++) {
        topic_scan_newest(&s, cases[i].records);
        for (size_t p = 0; p < 3; p++) {
            ck_assert_msg(spans[p].from == cases[i].from[p], "%lld records: partition %zu from %lld",
                          (long long)cases[i].records, p, (long long)spans[p].from);
            ck_assert_int_eq(spans[p].to, spans[p].high);
            ck_assert_int_eq(spans[p].next, spans[p].from);
        }
    }
    ck_assert(!topic_scan_is_whole(&s));
    for (size_t p = 0; p < 3; p++)
        spans[p].next = spans[p].high;
    ck_assert(topic_scan_is_whole(&s));
}
END_TEST

START_TEST(reads_one_partition_within_its_log) {
    struct topic_span spans[] = {{.partition = 0, .low = 5, .high = 105},
                                 {.partition = 1, .low = 0, .high = 3}};
    struct topic_scan s = {.topic = topic, .spans = spans, .count = 2};
    topic_scan_only(&s, 0, -100, 20);
    ck_assert_int_eq(spans[0].from, 5);
    ck_assert_int_eq(spans[0].to, 20);
    ck_assert_int_eq(spans[1].from, spans[1].to);
    topic_scan_only(&s, 0, 200, 300);
    ck_assert_int_eq(spans[0].from, 105);
    ck_assert_int_eq(spans[0].to, 105);
    topic_scan_only(&s, 0, 0, 2); /* what was asked for is gone */
    ck_assert_int_eq(spans[0].from, spans[0].to);
    ck_assert_ptr_null(topic_scan_span(&s, 7));
}
END_TEST

/* ---- a family's month ---- */

START_TEST(reads_months) {
    static const char *const wrong[] = {"",        "2026",    "2026-13", "2026-00", "202613",
                                        "2026/11", "26-11-1", "2026-1",  "20261",   "2026111",
                                        "x02611",  "000111",  "2026-1x"};
    int32_t month = 0;
    char text[8];
    ck_assert(print_month_parse("2026-11", &month) && month == 202611);
    ck_assert(print_month_parse("202601", &month) && month == 202601);
    print_month(text, 202601);
    ck_assert_str_eq(text, "2026-01");
    for (size_t i = 0; i < TESTING_LENGTH(wrong); i++)
        ck_assert_msg(!print_month_parse(wrong[i], &month), "'%s'", wrong[i]);
}
END_TEST

START_TEST(finds_the_threshold_exactly) {
    struct config cfg = {.thresholds = {10, 30, 50}, .threshold_count = 3};
    ck_assert_int_eq(family_threshold(&cfg, 1000, 501), 0);
    ck_assert_int_eq(family_threshold(&cfg, 1000, 500), 50);
    ck_assert_int_eq(family_threshold(&cfg, 999, 300), 50);
    ck_assert_int_eq(family_threshold(&cfg, 1000, 300), 30);
    ck_assert_int_eq(family_threshold(&cfg, 1000, 0), 10);
    ck_assert_int_eq(family_threshold(&cfg, 1000, -5), 10);
    ck_assert_int_eq(family_threshold(&cfg, 0, 0), 10);
    ck_assert_int_eq(family_threshold(&cfg, EVENT_AMOUNT_MAX, EVENT_AMOUNT_MAX / 2 + 1), 0);
    ck_assert_int_eq(family_threshold(&cfg, EVENT_AMOUNT_MAX, EVENT_AMOUNT_MAX / 2), 50);
}
END_TEST

START_TEST(marks_only_what_its_event_told_lower) {
    char a[] = "THRESHOLD:50", b[] = "THRESHOLD:30", c[] = "MANUAL", e1[] = "e1", e2[] = "e2";
    struct family_alert alerts[] = {{.customer = 1, .alert = a, .event_id = e1},
                                    {.customer = 1, .alert = b, .event_id = e2},
                                    {.customer = 2, .alert = b, .event_id = e1},
                                    {.customer = 1, .alert = c, .event_id = e1}};
    family_alerts_mark(alerts, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert(!alerts[i].only_marked);
}
END_TEST

START_TEST(says_rules_in_words) {
    char one[] = "a b", two[] = "c", *apps[] = {one, two};
    struct policy_rules r = {.monthly_limit = -1};
    struct buf out = {0};
    family_rules_text(&out, &r);
    ck_assert_str_eq(buf_cstr(&out), "none");
    buf_reset(&out);
    r = (struct policy_rules){
        .manual_block = true, .monthly_limit = 0, .time_block = "2200-0700", .apps = apps, .app_count = 2};
    family_rules_text(&out, &r);
    ck_assert_str_eq(buf_cstr(&out), "blocked by hand, limit 0, not 2200-0700, no app of 'a b' 'c'");
    buf_reset(&out);
    r = (struct policy_rules){.unreadable = true, .why = "broken", .monthly_limit = -1};
    family_rules_text(&out, &r);
    ck_assert_str_eq(buf_cstr(&out), "unreadable: broken");
    buf_free(&out);
}
END_TEST

START_TEST(holds_redis_against_mysql) {
    ck_assert_int_eq(family_cache_judge(false, 5, 5), FAMILY_CACHE_COLD);
    ck_assert_int_eq(family_cache_judge(true, 5, 5), FAMILY_CACHE_AGREES);
    ck_assert_int_eq(family_cache_judge(true, 4, 5), FAMILY_CACHE_DIFFERS);
}
END_TEST

static Suite *explain_suite(void) {
    Suite *suite = suite_create("explain");
    TCase *ids = tcase_create("ids"), *verdicts = tcase_create("verdicts"), *parts = tcase_create("parts");
    tcase_add_test(ids, knows_the_records_of_an_id);
    tcase_add_test(ids, knows_an_id_that_is_written_otherwise);
    tcase_add_test(ids, takes_broken_text_for_what_it_is);
    tcase_add_test(ids, tells_a_quoted_id_from_a_named_one);
    tcase_add_test(ids, takes_ids_as_the_contract_does);
    tcase_add_test(verdicts, tells_a_settled_one_from_its_repeats);
    tcase_add_test(verdicts, tells_a_rejection_that_was_settled_later);
    tcase_add_test(verdicts, takes_another_topics_rejection_for_no_fate);
    tcase_add_test(verdicts, tells_why_one_is_blocked);
    tcase_add_test(verdicts, tells_what_warned);
    tcase_add_test(verdicts, claims_nothing_of_a_closed_month);
    tcase_add_test(verdicts, tells_a_pruned_one_by_who_met_its_id);
    tcase_add_test(verdicts, takes_a_letters_month_from_its_event);
    tcase_add_test(verdicts, claims_no_repeat_before_the_first);
    tcase_add_test(verdicts, goes_by_no_record_that_quotes_an_id);
    tcase_add_test(verdicts, says_what_was_not_searched);
    tcase_add_test(verdicts, tells_an_alert_whose_letter_is_gone);
    tcase_add_test(verdicts, tells_what_it_cannot_tell);
    tcase_add_test(parts, shares_the_newest_records_out);
    tcase_add_test(parts, reads_one_partition_within_its_log);
    tcase_add_test(parts, reads_months);
    tcase_add_test(parts, finds_the_threshold_exactly);
    tcase_add_test(parts, marks_only_what_its_event_told_lower);
    tcase_add_test(parts, says_rules_in_words);
    tcase_add_test(parts, holds_redis_against_mysql);
    suite_add_tcase(suite, ids);
    suite_add_tcase(suite, verdicts);
    suite_add_tcase(suite, parts);
    return suite;
}

int main(void) {
    return testing_run(explain_suite());
}
