/* SPDX-License-Identifier: MIT */
#include "event.h"

#include <inttypes.h>
#include <jansson.h>

#include "json_arena.h"
#include "period.h"
#include "testing.h"

#define RECORD_TS INT64_C(1796007600000) /* 2026-11-30T12:00:00+09:00 */

static const struct event_limits defaults = {
    .max_bytes = 65536, .max_future_ms = 300000, .max_past_months = 1, .closed_before = 0};

static const char plain[] =
    "{\"eventId\":\"e\",\"eventType\":\"DATA_USAGE\",\"timestamp\":\"2026-11-30T11:00:00\","
    "\"payload\":{\"familyId\":1,\"customerId\":2,\"bytesUsed\":3}}";

static struct event_memory memory;

static void use_zone(const char *zone) {
    struct error err = {0};
    ck_assert_msg(period_zone_init(zone, &err), "%s: %s", zone, err.text);
}

/* Parses a copy that ends where its allocation ends, so that a sanitizer sees
 * every byte read too far. Checks what holds for every outcome. */
static enum event_kind parse(const char *value, size_t len, int64_t ts, const struct event_limits *limits,
                             struct usage_event *out, struct event_reason *why) {
    char *copy = malloc(len ? len : 1);
    memcpy(copy, value, len);
    memset(out, 0xa5, sizeof *out);
    memset(why, 0xa5, sizeof *why);
    arena_reset(&memory.texts); /* so does it each use of what came of the call before */
    enum event_kind kind = event_parse(copy, len, ts, limits, &memory, out, why);
    free(copy);
    if (kind == EVENT_REJECTED) {
        size_t n = strlen(why->message);
        testing_require(n > 0 && n < EVENT_MESSAGE_MAX && why->code != REJECT_NONE,
                        "a rejection has no reason");
        for (size_t i = 0; i < n; i++)
            testing_require(why->message[i] >= ' ' && why->message[i] <= '~', "not ASCII: %s", why->message);
    }
    return kind;
}

static int64_t number(const json_t *c, const char *member, int64_t otherwise) {
    const json_t *n = json_object_get(c, member);
    return n ? json_integer_value(n) : otherwise;
}

static const char *text(const json_t *c, const char *member) {
    return json_string_value(json_object_get(c, member));
}

static void check_usage(const char *where, const json_t *want, const struct usage_event *e) {
    ck_assert_msg(want != NULL, "%s: a USAGE case needs \"want\"", where);
    const char *app = text(want, "app");
    ck_assert_msg(strcmp(e->id, text(want, "id")) == 0, "%s: id is %s", where, e->id);
    ck_assert_msg(e->family_id == number(want, "familyId", -1), "%s: familyId is %" PRId64, where,
                  e->family_id);
    ck_assert_msg(e->customer_id == number(want, "customerId", -1), "%s: customerId is %" PRId64, where,
                  e->customer_id);
    ck_assert_msg(e->bytes_used == number(want, "bytesUsed", -1), "%s: bytesUsed is %" PRId64, where,
                  e->bytes_used);
    ck_assert_msg(e->has_app == (app != NULL) && strcmp(e->app, app ? app : "") == 0, "%s: app is %d \"%s\"",
                  where, e->has_app, e->app);
    ck_assert_msg(e->time_ms == number(want, "timeMs", e->time_ms), "%s: time is %" PRId64, where,
                  e->time_ms);
    ck_assert_msg(e->month == number(want, "month", period_month(e->time_ms)), "%s: month is %d", where,
                  e->month);
    ck_assert_msg(e->hhmm == number(want, "hhmm", period_hhmm(e->time_ms)), "%s: hhmm is %d", where, e->hhmm);
}

static void check_case(const char *where_line, char *line) {
    json_error_t json_error;
    json_t *c = json_loads(line, 0, &json_error);
    ck_assert_msg(c != NULL, "%s: %s", where_line, json_error.text);
    char where[512];
    snprintf(where, sizeof where, "%s (%s)", where_line, text(c, "note"));
    const char *outcome = text(c, "outcome"), *member = text(c, "member"), *zone = text(c, "zone");
    struct event_limits limits = defaults;
    limits.max_future_ms = number(c, "maxFutureMs", limits.max_future_ms);
    limits.max_past_months = (int)number(c, "maxPastMonths", limits.max_past_months);
    limits.closed_before = (int32_t)number(c, "closedBefore", limits.closed_before);
    use_zone(zone ? zone : "Asia/Seoul");

    const json_t *value = json_object_get(c, "value");
    struct usage_event e;
    struct event_reason why;
    enum event_kind kind = parse(json_string_value(value), json_string_length(value),
                                 number(c, "recordTs", RECORD_TS), &limits, &e, &why);
    const char *got = kind == EVENT_USAGE     ? "USAGE"
                      : kind == EVENT_IGNORED ? "IGNORED"
                                              : reject_code_name(why.code);
    ck_assert_msg(strcmp(got, outcome) == 0, "%s: %s instead of %s (%s)", where, got, outcome,
                  kind == EVENT_REJECTED ? why.message : "");
    if (kind == EVENT_USAGE)
        check_usage(where, json_object_get(c, "want"), &e);
    if (strcmp(outcome, "INVALID_FIELD") == 0) {
        ck_assert_msg(member != NULL, "%s: an INVALID_FIELD case needs \"member\"", where);
        size_t n = strlen(member);
        ck_assert_msg(strncmp(why.message, member, n) == 0 && why.message[n] == ':', "%s: %s doesn't name %s",
                      where, why.message, member);
    }
    json_decref(c);
}

START_TEST(cases) {
    ck_assert_int_gt(testing_lines("test/data/events.jsonl", check_case), 300);
}
END_TEST

static void expect(const char *what, const char *value, size_t len, enum event_kind kind,
                   enum reject_code code) {
    struct usage_event e;
    struct event_reason why;
    enum event_kind got = parse(value, len, RECORD_TS, &defaults, &e, &why);
    ck_assert_msg(got == kind && (got != EVENT_REJECTED || why.code == code), "%s: outcome %d, %s", what, got,
                  got == EVENT_REJECTED ? why.message : "");
}

START_TEST(no_value) {
    struct usage_event e;
    struct event_reason why;
    ck_assert_int_eq(event_parse(NULL, 0, RECORD_TS, &defaults, &memory, &e, &why), EVENT_REJECTED);
    ck_assert_int_eq(why.code, REJECT_MALFORMED_JSON);
    ck_assert_str_eq(why.message, "no value");
    expect("empty", "", 0, EVENT_REJECTED, REJECT_MALFORMED_JSON);
}
END_TEST

/* A value of `len` bytes: the plain event with a filler behind it. */
static char *filled(size_t len) {
    char *value = malloc(len + 1);
    size_t head = sizeof plain - 2; /* without the last brace */
    memcpy(value, plain, head);
    memcpy(value + head, ",\"f\":\"", 6);
    memset(value + head + 6, 'x', len - head - 8);
    memcpy(value + len - 2, "\"}", 3);
    return value;
}

START_TEST(size) {
    use_zone("Asia/Seoul");
    char *fits = filled(65536), *over = filled(65537);
    expect("65536 bytes", fits, 65536, EVENT_USAGE, REJECT_NONE);
    expect("65537 bytes", over, 65537, EVENT_REJECTED, REJECT_EVENT_TOO_LARGE);
    memset(over, '[', 65537);
    expect("too large and malformed", over, 65537, EVENT_REJECTED, REJECT_EVENT_TOO_LARGE);
    expect("65536 brackets", over, 65536, EVENT_REJECTED, REJECT_MALFORMED_JSON);
    free(fits);
    free(over);
}
END_TEST

START_TEST(every_prefix_is_malformed) {
    use_zone("Asia/Seoul");
    for (size_t len = 0; len < sizeof plain - 1; len++)
        expect("a prefix", plain, len, EVENT_REJECTED, REJECT_MALFORMED_JSON);
    expect("all of it", plain, sizeof plain - 1, EVENT_USAGE, REJECT_NONE);
    expect("and its NUL", plain, sizeof plain, EVENT_REJECTED, REJECT_MALFORMED_JSON);
}
END_TEST

START_TEST(not_utf8) {
    static const char *const bytes[] = {
        "\x80",             /* a continuation alone */
        "\xff",             /* no UTF-8 at all */
        "\xc3",             /* cut short */
        "\xc0\xaf",         /* overlong */
        "\xe0\x80\xaf",     /* overlong */
        "\xed\xa0\x80",     /* a surrogate */
        "\xf4\x90\x80\x80", /* beyond U+10FFFF */
        "\xf5\x80\x80\x80",
    };
    for (size_t i = 0; i < TESTING_LENGTH(bytes); i++) {
        char value[128];
        int n = snprintf(value, sizeof value, "{\"eventType\":\"OTHER\",\"s\":\"%s\"}", bytes[i]);
        expect("in text", value, (size_t)n, EVENT_REJECTED, REJECT_MALFORMED_JSON);
        n = snprintf(value, sizeof value, "{\"eventType\":\"OTHER\",\"%s\":1}", bytes[i]);
        expect("in a name", value, (size_t)n, EVENT_REJECTED, REJECT_MALFORMED_JSON);
        n = snprintf(value, sizeof value, "{\"eventType\":\"OTHER\"}%s", bytes[i]);
        expect("behind", value, (size_t)n, EVENT_REJECTED, REJECT_MALFORMED_JSON);
    }
    expect("NUL in text", "{\"eventType\":\"a\0b\"}", 19, EVENT_REJECTED, REJECT_MALFORMED_JSON);
    expect("NUL between tokens", "{\0\"eventType\":\"a\"}", 18, EVENT_REJECTED, REJECT_MALFORMED_JSON);
    expect("NUL before", "\0{}", 3, EVENT_REJECTED, REJECT_MALFORMED_JSON);
}
END_TEST

START_TEST(messages_quote_nothing) {
    static const char *const values[] = {
        "{\"eventId\":SECRET}",
        "{\"SECRET\":1,\"SECRET\":2}",
        "SECRET",
        "{\"a\":\"SECRET",
        "[\"SECRET\"]",
        "{\"eventType\":[\"SECRET\"]}",
        "{\"eventType\":\"DATA_USAGE\",\"eventId\":\"SECRET SECRET\"}",
        "{\"eventType\":\"DATA_USAGE\",\"eventId\":\"e\",\"timestamp\":\"SECRET\"}",
        "{\"eventType\":\"DATA_USAGE\",\"eventId\":\"e\",\"payload\":\"SECRET\"}",
        "{\"eventType\":\"DATA_USAGE\",\"eventId\":\"e\",\"payload\":{\"familyId\":\"SECRET\"}}",
    };
    use_zone("Asia/Seoul");
    for (size_t i = 0; i < TESTING_LENGTH(values); i++) {
        struct usage_event e;
        struct event_reason why;
        ck_assert_int_eq(parse(values[i], strlen(values[i]), RECORD_TS, &defaults, &e, &why), EVENT_REJECTED);
        ck_assert_msg(!strstr(why.message, "SECRET"), "%s", why.message);
    }
}
END_TEST

START_TEST(malformed_says_where) {
    static const struct {
        const char *value, *message;
    } table[] = {
        {"{\"a\":1}x", "not one JSON object: error at byte 8"},
        {"{\"a\":1", "not one JSON object: error at byte 6"},
        {"[]", "not one JSON object: an array"},
        {"{\"\xed\x95\x9c\":x}", "not one JSON object: error at byte 8"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "over 32 levels deep at byte 32"},
    };
    for (size_t i = 0; i < TESTING_LENGTH(table); i++) {
        struct usage_event e;
        struct event_reason why;
        parse(table[i].value, strlen(table[i].value), RECORD_TS, &defaults, &e, &why);
        ck_assert_str_eq(why.message, table[i].message);
    }
}
END_TEST

START_TEST(names_of_codes) {
    static const char *const names[] = {
        "NONE",
        "EVENT_TOO_LARGE",
        "MALFORMED_JSON",
        "INVALID_FIELD",
        "EVENT_IN_FUTURE",
        "EVENT_TOO_OLD",
        "ID_CONFLICT",
        "UNKNOWN_FAMILY",
        "NOT_A_MEMBER",
        "POLICY_UNREADABLE",
        "SETTLEMENT_REJECTED",
    };
    for (size_t i = 0; i < TESTING_LENGTH(names); i++)
        ck_assert_str_eq(reject_code_name((enum reject_code)i), names[i]);
}
END_TEST

START_TEST(trim) {
    static const struct {
        const char *in, *out;
    } table[] = {{"", ""},
                 {"a", "a"},
                 {" a ", "a"},
                 {" \t\n\v\f\ra \t\n\v\f\r", "a"},
                 {"a b", "a b"},
                 {"   ", ""},
                 {"\xc2\xa0", "\xc2\xa0"},
                 {"\x08 a", "\x08 a"},
                 {" \x0e ", "\x0e"},
                 {"\x85", "\x85"}};
    for (size_t i = 0; i < TESTING_LENGTH(table); i++) {
        const char *s = table[i].in;
        size_t len = event_trim(&s, strlen(s));
        ck_assert_msg(len == strlen(table[i].out) && memcmp(s, table[i].out, len) == 0,
                      "\"%s\" became \"%.*s\"", table[i].in, (int)len, s);
    }
}
END_TEST

START_TEST(amount) {
    static const struct {
        const char *in;
        int64_t min, out; /* out -1: refused */
    } table[] = {
        {"0", 0, 0},
        {"0", 1, -1},
        {"1", 1, 1},
        {"9", 10, -1},
        {"10", 10, 10},
        {"9007199254740991", 0, 9007199254740991},
        {"9007199254740992", 0, -1},
        {"9999999999999999", 0, -1},
        {"10000000000000000", 0, -1},
        {"99999999999999999999999999", 0, -1},
        {"00", 0, -1},
        {"01", 0, -1},
        {"", 0, -1},
        {"-1", 0, -1},
        {"+1", 0, -1},
        {" 1", 0, -1},
        {"1 ", 0, -1},
        {"1.0", 0, -1},
        {"1e1", 0, -1},
        {"0x1", 0, -1},
        {":", 0, -1},
        {"/", 0, -1},
    };
    for (size_t i = 0; i < TESTING_LENGTH(table); i++) {
        int64_t n = -1;
        bool ok = event_amount_parse(table[i].in, strlen(table[i].in), table[i].min, &n);
        ck_assert_msg(ok == (table[i].out >= 0) && n == table[i].out, "\"%s\" from %" PRId64 ": %d %" PRId64,
                      table[i].in, table[i].min, ok, n);
    }
    int64_t n;
    ck_assert(event_amount_parse("123", 2, 1, &n));
    ck_assert_int_eq(n, 12);
}
END_TEST

/* What one changed, added or lost byte can do: anything but break a promise of the outcome. */
START_TEST(random_damage) {
    static const char alphabet[] = "{}[]\":,\\0159-+.eEuTZ \t\n\x01\x7f\x80\xc3\xff";
    uint64_t seed = testing_seed(), state = seed;
    use_zone("Asia/Seoul");
    char value[sizeof plain + 8];
    for (int i = 0; i < 50000; i++) {
        size_t len = sizeof plain - 1;
        memcpy(value, plain, len);
        for (int64_t changes = testing_between(&state, 1, 3); changes > 0; changes--) {
            size_t where = (size_t)testing_between(&state, 0, (int64_t)len - 1);
            char c = alphabet[testing_between(&state, 0, (int64_t)sizeof alphabet - 1)];
            switch (testing_between(&state, 0, 2)) {
            case 0:
                value[where] = c;
                break;
            case 1:
                memmove(value + where + 1, value + where, len - where);
                value[where] = c;
                len++;
                break;
            default:
                memmove(value + where, value + where + 1, len - where - 1);
                len--;
            }
        }
        struct usage_event e;
        struct event_reason why;
        if (parse(value, len, RECORD_TS, &defaults, &e, &why) != EVENT_USAGE)
            continue;
        testing_require(e.id[0] && strlen(e.id) <= EVENT_ID_MAX && strlen(e.app) <= EVENT_APP_MAX &&
                            e.family_id >= 1 && e.customer_id >= 1 && e.bytes_used >= 1 &&
                            e.bytes_used <= EVENT_AMOUNT_MAX && e.time_ms <= RECORD_TS + 300000 &&
                            e.month >= 202610 && e.month <= 202611,
                        "seed %" PRIu64 ": %.*s", seed, (int)len, value);
    }
}
END_TEST

int main(void) {
    json_arena_install();
    Suite *suite = suite_create("event");
    TCase *tc = tcase_create("event");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, cases);
    tcase_add_test(tc, no_value);
    tcase_add_test(tc, size);
    tcase_add_test(tc, every_prefix_is_malformed);
    tcase_add_test(tc, not_utf8);
    tcase_add_test(tc, messages_quote_nothing);
    tcase_add_test(tc, malformed_says_where);
    tcase_add_test(tc, names_of_codes);
    tcase_add_test(tc, trim);
    tcase_add_test(tc, amount);
    tcase_add_test(tc, random_damage);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
