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
    ck_assert_int_eq(match("a1", "{\"eventId\":\"a1\",\"eventT"), EXPLAIN_NAMED);
    ck_assert_int_eq(match("a1", "{ \"eventId\" :\t\"a1\" "), EXPLAIN_NAMED);
    ck_assert_int_eq(match("a1", "{\"note\":\"a1\",\"eventId\":\"a1\",\"eventT"), EXPLAIN_NAMED);
    ck_assert_int_eq(match("a1", "{\"eventId\":\"b\",\"note\":\"a1\",\"eventT"), EXPLAIN_TEXT);
    ck_assert_int_eq(match("a1", "\"a1\"}"), EXPLAIN_TEXT);
    ck_assert_int_eq(match("a1", ":\"a1\"}"), EXPLAIN_TEXT);
    ck_assert_int_eq(match("a1", "eventId\":\"a1\"}"), EXPLAIN_TEXT);
    ck_assert_int_eq(match("a1", "{\"eventId\":\"a12\",\"eventT"), EXPLAIN_OTHER);
    ck_assert_int_eq(match("a1", "a1"), EXPLAIN_OTHER);
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

static struct explain_searched whole_topic(const char *name, int64_t records) {
    return (struct explain_searched){.topic = name,
                                     .done = true,
                                     .whole = true,
                                     .to_end = true,
                                     .records = records,
                                     .since_ms = -1,
                                     .partition = -1};
}

/* Of 100 records of its one partition: read from `from` to below `next`. */
static void read_part(struct explain_searched *s, struct explain_span *p, int64_t from, int64_t next) {
    *p = (struct explain_span){.low = 0, .high = 100, .from = from, .next = next};
    s->spans = p;
    s->span_count = 1;
    s->records = next - from;
    s->whole = from == 0 && next == 100;
    s->to_end = next == 100;
}

static struct explanation with(struct explain_delivery *d, size_t n) {
    return (struct explanation){.id = "a1",
                                .ledger = &ledger,
                                .ledger_count = 1,
                                .deliveries = d,
                                .delivery_count = n,
                                .place = EXPLAIN_PLACE_KEPT,
                                .usage = whole_topic(topic, 7),
                                .dlt = whole_topic("dlt", 3)};
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
    x.has_dedup = x.dedup_read = x.dedup_current = true;
    x.dedup_family = x.row.family;
    x.dedup_customer = x.row.customer;
    x.dedup_bytes = x.row.bytes;
    x.dedup.status = STATUS_WARNING;
    x.dedup.threshold = 10;
    explain_judge(&x);
    ends(&x, EXPLAIN_SETTLED_WITH_WARNING, " with WARNING_10, which was told before:");
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
    ends(&x, EXPLAIN_PRUNED, "its row is gone: the outbox has its notification; no month's rows are pruned");
    x.letter_count = 0; /* sent, and pruned as well */
    explain_judge(&x);
    ends(&x, EXPLAIN_PRUNED, "its row is gone: an alert that it told is stored");
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

/* ---- what a search that isn't complete doesn't say ---- */

START_TEST(never_claims_what_was_not_read) {
    struct explain_span part;
    struct explanation x = with(NULL, 0);
    read_part(&x.usage, &part, 0, 40);
    explain_judge(&x);
    ends(
        &x, EXPLAIN_UNDETERMINED,
        "the 40 records of usage that its time sufficed for, without the newest 60 nor all 3 records of dlt.");
    ck_assert_int_eq(explain_unread(&x.usage), 60);
    read_part(&x.usage, &part, 40, 100); /* as far as was asked */
    explain_judge(&x);
    ends(&x, EXPLAIN_UNDETERMINED, "the last 60 of about 100 records of usage nor");
    x.usage = whole_topic(topic, 7);
    read_part(&x.dlt, &part, 0, 99);
    explain_judge(&x);
    ends(&x, EXPLAIN_UNDETERMINED, "without the newest 1.");
    read_part(&x.dlt, &part, 0, 100);
    explain_judge(&x);
    ends(&x, EXPLAIN_NEVER_SEEN, "Never seen");
}
END_TEST

START_TEST(accuses_nobody_by_half_a_search) {
    struct explain_delivery d[] = {at(50, 5)};
    struct explain_span part;
    struct explanation x = with(d, 1);
    read_part(&x.dlt, &part, 50, 100);
    explain_judge(&x);
    ends(&x, EXPLAIN_UNDETERMINED,
         "in partition 0 at offset 50, which the ledger has passed; MySQL has no row");
    read_part(&x.dlt, &part, 0, 100);
    explain_judge(&x);
    ends(&x, EXPLAIN_UNACCOUNTED, "neither MySQL nor all that the DLT keeps");
}
END_TEST

START_TEST(says_where_a_found_one_was_not_looked_for) {
    struct explain_delivery d[] = {at(20, 5)};
    struct explain_span part;
    struct explanation x = with(d, 1);
    x.has_row = true;
    x.row = row(false);
    read_part(&x.usage, &part, 0, 40);
    explain_judge(&x);
    ends(&x, EXPLAIN_SETTLED, "; the time didn't suffice for the newest 60 of usage.");
}
END_TEST

/* ---- another event under the same id ---- */

static void cache(struct explanation *x, int64_t family, int64_t customer, int64_t bytes) {
    x->has_dedup = x->dedup_read = x->dedup_current = x->cache_asked = true;
    x->dedup_family = family;
    x->dedup_customer = customer;
    x->dedup_bytes = bytes;
    x->dedup.status = STATUS_WARNING;
    x->dedup.threshold = 10;
}

START_TEST(takes_no_figures_of_another_event) {
    static const struct {
        int64_t family, customer, bytes;
        enum explain_entry entry;
    } cases[] = {{1, 11, 5, EXPLAIN_ENTRY_OWN},
                 {2, 11, 5, EXPLAIN_ENTRY_OTHER},
                 {1, 12, 5, EXPLAIN_ENTRY_OTHER},
                 {1, 11, 6, EXPLAIN_ENTRY_OTHER}};
    struct explanation x = with(NULL, 0);
    ck_assert_int_eq(explain_entry(&x), EXPLAIN_ENTRY_NONE);
    x.has_row = true;
    x.row = row(false);
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++) {
        cache(&x, cases[i].family, cases[i].customer, cases[i].bytes);
        explain_judge(&x);
        bool own = cases[i].entry == EXPLAIN_ENTRY_OWN;
        ck_assert_int_eq(explain_entry(&x), cases[i].entry);
        ck_assert_int_eq(explain_figures(&x).from != NULL, own);
        ck_assert_int_eq(x.verdict, own ? EXPLAIN_SETTLED_WITH_WARNING : EXPLAIN_SETTLED);
    }
    x.dedup_read = false;
    ck_assert_int_eq(explain_entry(&x), EXPLAIN_ENTRY_UNREADABLE);
}
END_TEST

START_TEST(knows_an_entry_by_deliveries_without_a_row) {
    struct explain_delivery d[] = {at(120, 5)};
    struct explanation x = with(NULL, 0);
    cache(&x, 1, 11, 5);
    explain_judge(&x);
    ck_assert_int_eq(explain_entry(&x), EXPLAIN_ENTRY_OPEN);
    ends(&x, EXPLAIN_UNDETERMINED, "; Redis has an entry under its id"); /* some event of the id came */
    x.deliveries = d;
    x.delivery_count = 1;
    ck_assert_int_eq(explain_entry(&x), EXPLAIN_ENTRY_OWN);
    d[0] = at(120, 6);
    ck_assert_int_eq(explain_entry(&x), EXPLAIN_ENTRY_OTHER);
}
END_TEST

static struct explain_rejection conflict(int64_t offset) {
    static char code[] = "ID_CONFLICT", none[] = "";
    return (struct explain_rejection){.code = code,
                                      .message = none,
                                      .topic = topic,
                                      .has_place = true,
                                      .from_offset = offset,
                                      .has_figures = true,
                                      .family = 9,
                                      .customer = 99,
                                      .bytes = 6,
                                      .month = 202612};
}

START_TEST(knows_by_a_conflict_that_the_id_was_known) {
    struct explain_delivery d[] = {at(50, 6)};
    struct explain_rejection r = conflict(50);
    struct explanation x = with(NULL, 0);
    int64_t family;
    int32_t month;
    x.rejections = &r;
    x.rejection_count = 1;
    x.closed_before = 202612;
    explain_judge(&x);
    ends(&x, EXPLAIN_PRUNED, "the id was known; of months before 202612 the rows are pruned.");
    ck_assert_int_eq(explain_customer(&x, &family, &month), 0); /* the other one's figures aren't its */
    x.deliveries = d;
    x.delivery_count = 1;
    d[0].family = 9;
    d[0].customer = 99;
    d[0].month = 202612;
    explain_judge(&x);
    ends(&x, EXPLAIN_PRUNED, "the id was known");
    ck_assert_int_eq(explain_customer(&x, &family, &month), 0);
    cache(&x, 9, 99, 6);
    ck_assert_int_eq(explain_entry(&x), EXPLAIN_ENTRY_OTHER);
    r.topic = letters_payload; /* another topic's says nothing of this one's ids */
    d[0] = at(50, 6);
    explain_judge(&x);
    ends(&x, EXPLAIN_REJECTED, "in the DLT, as ID_CONFLICT");
}
END_TEST

START_TEST(says_that_a_rejected_one_may_have_been_settled) {
    struct explain_rejection r = conflict(50);
    static char code[] = "NOT_A_MEMBER";
    struct explanation x = with(NULL, 0);
    r.code = code;
    r.month = 202611;
    x.rejections = &r;
    x.rejection_count = 1;
    x.closed_before = 202612;
    explain_judge(&x);
    ends(&x, EXPLAIN_REJECTED, "; whether it was settled as well can't be told any more");
    x.closed_before = 202611;
    explain_judge(&x);
    ends(&x, EXPLAIN_REJECTED, "as NOT_A_MEMBER.");
}
END_TEST

START_TEST(takes_the_month_of_a_letters_event) {
    char payload[] = "{\"data\":{\"eventTime\":\"2026-11-30T23:59:59.000Z\"}}", none[] = "{\"data\":{}}";
    struct family_letter letter = {.family = 1, .customer = 11, .payload = payload};
    struct explanation x = with(NULL, 0);
    int64_t family = 0;
    int32_t month = 0;
    ck_assert(period_parse("2026-12-01T00:00:05Z", 20, &letter.created_ms)); /* its row came a moment later */
    x.letter = &letter;
    x.letter_count = 1;
    ck_assert_int_eq(explain_customer(&x, &family, &month), 11);
    ck_assert_int_eq(month, 202611);
    ck_assert_int_eq(family, 1);
    letter.payload = none;
    ck_assert_int_eq(explain_customer(&x, &family, &month), 0);
    ck_assert_int_eq(month, 0);
}
END_TEST

/* ---- what is a duplicate, and what only may be ---- */

START_TEST(calls_nothing_a_duplicate_that_came_before) {
    struct explain_delivery d[] = {at(15, 5), at(16, 6), at(20, 5), at(30, 5)};
    struct explanation x = with(d, TESTING_LENGTH(d));
    x.has_row = true;
    x.row = row(false);
    explain_judge(&x);
    ck_assert_int_eq(d[0].fate, EXPLAIN_UNFOUND);
    ck_assert_int_eq(d[1].fate, EXPLAIN_UNFOUND);
    ck_assert_int_eq(d[2].fate, EXPLAIN_DECIDED);
    ck_assert_int_eq(d[3].fate, EXPLAIN_DUPLICATE);
    ends(&x, EXPLAIN_SETTLED,
         "; another delivery was rejected or skipped, and no DLT record of that was found");
}
END_TEST

START_TEST(takes_no_broken_record_for_the_settled_one) {
    struct explain_delivery d[] = {at(20, 5)};
    struct explanation x = with(d, 1);
    x.has_row = true;
    x.row = row(false);
    x.place = EXPLAIN_PLACE_OTHER; /* a topic made anew */
    d[0].kind = EVENT_REJECTED;
    d[0].code = REJECT_MALFORMED_JSON;
    d[0].has_figures = false;
    explain_judge(&x);
    ck_assert_int_eq(d[0].fate, EXPLAIN_REFUSED);
    ck_assert_str_eq(d[0].refused_as, "MALFORMED_JSON");
    ends(&x, EXPLAIN_SETTLED, "Settled at ");
}
END_TEST

START_TEST(calls_nothing_a_duplicate_beside_an_unread_dlt) {
    struct explain_ledger both[] = {{.partition = 0, .first = 10, .next = 100},
                                    {.partition = 1, .first = 0, .next = 100}};
    struct explain_delivery d[] = {at(20, 5), at(30, 5), at(31, 6)};
    struct explain_span part;
    struct explanation x = with(d, TESTING_LENGTH(d));
    x.ledger = both;
    x.ledger_count = 2;
    x.has_row = true;
    x.row = row(false);
    d[1].partition = d[2].partition = 1; /* which isn't in order with the row's */
    explain_judge(&x);
    ck_assert_int_eq(d[1].fate, EXPLAIN_DUPLICATE); /* the DLT would have it */
    ck_assert_int_eq(d[2].fate, EXPLAIN_UNFOUND);
    read_part(&x.dlt, &part, 10, 100);
    explain_judge(&x);
    ck_assert_int_eq(d[1].fate, EXPLAIN_REPEATED);
    ends(&x, EXPLAIN_SETTLED, "; delivered elsewhere too, a duplicate or rejected;");
    read_part(&x.dlt, &part, 0, 100);
    part.low = 1; /* its oldest records are gone */
    explain_judge(&x);
    ck_assert_int_eq(d[1].fate, EXPLAIN_REPEATED);
    d[1].partition = 0;
    explain_judge(&x);
    ck_assert_int_eq(d[1].fate, EXPLAIN_DUPLICATE);
    x.place = EXPLAIN_PLACE_OTHER; /* a topic made anew: the row's offset is the old one's */
    explain_judge(&x);
    ck_assert_int_eq(d[1].fate, EXPLAIN_REPEATED);
    x.place = EXPLAIN_PLACE_KEPT;
    d[1].month = 202610;
    x.closed_before = 202611; /* and since then it comes too late */
    explain_judge(&x);
    ck_assert_int_eq(d[1].fate, EXPLAIN_REPEATED);
}
END_TEST

/* ---- mentions ---- */

START_TEST(lets_a_mention_decide_nothing) {
    static char code[] = "MALFORMED_JSON", none[] = "";
    struct explain_mention m[] = {{.at = {.offset = 50, .record_ms = -1}},
                                  {.in_dlt = true,
                                   .at = {.offset = 3,
                                          .code = code,
                                          .message = none,
                                          .topic = topic,
                                          .has_place = true,
                                          .from_offset = 50}}};
    struct explain_delivery d[] = {at(50, 5)};
    struct explanation x = with(NULL, 0);
    x.mentions = m;
    x.mention_count = 2;
    explain_judge(&x);
    ends(&x, EXPLAIN_NEVER_SEEN, "; a malformed record mentions it, which says nothing of it.");
    x.mention_count = 1;
    m[0].at.offset = 120; /* above the ledger */
    explain_judge(&x);
    ends(&x, EXPLAIN_NEVER_SEEN, "; a malformed record mentions it");
    x.mention_count = 2;
    explain_judge(&x);
    ends(&x, EXPLAIN_NEVER_SEEN, "; malformed records mention it");
    x.mentions = &m[1]; /* a delivery's own, cut in the DLT */
    x.mention_count = 1;
    x.deliveries = d;
    x.delivery_count = 1;
    explain_judge(&x);
    ck_assert(m[1].of_delivery);
    ck_assert_int_eq(explain_mentioned(&x), 0);
    ck_assert_int_eq(d[0].fate, EXPLAIN_REFUSED);
    ck_assert_str_eq(d[0].refused_as, "MALFORMED_JSON");
    explain_judge(&x);
    ends(&x, EXPLAIN_REJECTED, "Rejected, and in the DLT, as MALFORMED_JSON.");
}
END_TEST

START_TEST(tells_what_it_cannot_tell) {
    struct explain_delivery d[] = {at(50, 5)};
    struct explanation x = with(NULL, 0);
    explain_judge(&x);
    ends(&x, EXPLAIN_NEVER_SEEN, "all 7 records of usage nor all 3 records of dlt.");
    x.closed_before = 202601;
    ends(&x, EXPLAIN_NEVER_SEEN, "all 3 records of dlt; of months before 202601 the rows are pruned.");
    x.kafka.area = ERROR_KAFKA;
    explain_judge(&x);
    ends(&x, EXPLAIN_UNDETERMINED, "Kafka couldn't be asked whether it's there");
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
    tcase_add_test(ids, takes_ids_as_the_contract_does);
    tcase_add_test(verdicts, tells_a_settled_one_from_its_repeats);
    tcase_add_test(verdicts, tells_a_rejection_that_was_settled_later);
    tcase_add_test(verdicts, takes_another_topics_rejection_for_no_fate);
    tcase_add_test(verdicts, tells_why_one_is_blocked);
    tcase_add_test(verdicts, tells_what_warned);
    tcase_add_test(verdicts, claims_nothing_of_a_closed_month);
    tcase_add_test(verdicts, tells_an_alert_whose_letter_is_gone);
    tcase_add_test(verdicts, tells_what_it_cannot_tell);
    tcase_add_test(verdicts, never_claims_what_was_not_read);
    tcase_add_test(verdicts, accuses_nobody_by_half_a_search);
    tcase_add_test(verdicts, says_where_a_found_one_was_not_looked_for);
    tcase_add_test(verdicts, takes_no_figures_of_another_event);
    tcase_add_test(verdicts, knows_an_entry_by_deliveries_without_a_row);
    tcase_add_test(verdicts, knows_by_a_conflict_that_the_id_was_known);
    tcase_add_test(verdicts, says_that_a_rejected_one_may_have_been_settled);
    tcase_add_test(verdicts, takes_the_month_of_a_letters_event);
    tcase_add_test(verdicts, calls_nothing_a_duplicate_that_came_before);
    tcase_add_test(verdicts, takes_no_broken_record_for_the_settled_one);
    tcase_add_test(verdicts, calls_nothing_a_duplicate_beside_an_unread_dlt);
    tcase_add_test(verdicts, lets_a_mention_decide_nothing);
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
