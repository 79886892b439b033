/* SPDX-License-Identifier: MIT */
#include "notification.h"

#include <jansson.h>

#include "period.h"
#include "testing.h"

#define EVENT_TIME INT64_C(1796007600123) /* 2026-11-30T12:00:00.123+09:00 */

static void use_zone(const char *zone) {
    struct error err = {0};
    ck_assert_msg(period_zone_init(zone, &err), "%s: %s", zone, err.text);
}

/* A catalogue that has `title` and `message`, YAML scalars, for every kind. */
static char *catalogue_text(const char *title, const char *message) {
    static const char *const kinds[] = {
        "THRESHOLD_ALERT",      "MANUAL", "APP_BLOCK", "TIME_BLOCK", "MONTHLY_LIMIT_EXCEEDED",
        "FAMILY_QUOTA_EXCEEDED"};
    struct buf b = {0};
    for (size_t i = 0; i < TESTING_LENGTH(kinds); i++) {
        buf_str(&b, kinds[i]);
        buf_str(&b, ":\n  title: ");
        buf_str(&b, title);
        buf_str(&b, "\n  message: ");
        buf_str(&b, message);
        buf_str(&b, "\n");
    }
    return b.data;
}

static struct messages *catalogue(const char *title, const char *message) {
    struct error err = {0};
    char *text = catalogue_text(title, message);
    struct messages *m = messages_parse("test", text, strlen(text), &err);
    ck_assert_msg(m != NULL, "%s", err.text);
    free(text);
    return m;
}

static struct usage_event usual_event(void) {
    struct usage_event e = {
        .id = "a1b2c3d4-e5f6-4890-abcd-ef1234567890",
        .family_id = 100042,
        .customer_id = 200187,
        .bytes_used = 5242880,
        .time_ms = EVENT_TIME,
        .month = 202611,
        .hhmm = 1200,
        .has_app = true,
        .app = "com.youtube.app",
    };
    return e;
}

static struct notification usual(const struct usage_event *e) {
    return (struct notification){
        .event = e,
        .status = "WARNING_50",
        .threshold = 50,
        .total_bytes = 10737418240,
        .remaining_bytes = 5368709120,
        .monthly_used_bytes = 104857600,
        .monthly_limit_bytes = -1,
    };
}

static void check_payload(const struct messages *m, const struct notification *n, const char *expected) {
    struct buf b = {0};
    notification_payload(&b, m, n);
    ck_assert_str_eq(buf_cstr(&b), expected);
    ck_assert_uint_eq(b.len, strlen(expected));
    buf_free(&b);
}

START_TEST(threshold_alert) {
    use_zone("Asia/Seoul");
    struct messages *m = catalogue("\"제목 {threshold}\"", "\"남은 {remaining} / {total}\"");
    struct usage_event e = usual_event();
    struct notification n = usual(&e);
    check_payload(
        m, &n,
        "{\"familyId\":100042,\"customerId\":200187,\"type\":\"THRESHOLD_ALERT\",\"title\":\"제목 50\","
        "\"message\":\"남은 5.0 GB / 10.0 GB\",\"data\":{\"originEventId\":"
        "\"a1b2c3d4-e5f6-4890-abcd-ef1234567890\",\"eventTime\":\"2026-11-30T12:00:00.123+09:00\","
        "\"status\":\"WARNING_50\",\"familyId\":100042,\"customerId\":200187,\"appId\":"
        "\"com.youtube.app\",\"bytesUsed\":5242880,\"threshold\":50}}");
    messages_free(m);
}
END_TEST

START_TEST(customer_blocked) {
    use_zone("America/New_York");
    struct messages *m = catalogue("\"t\"", "\"{appId}\"");
    struct usage_event e = usual_event();
    e.has_app = false;
    e.app = "";
    struct notification n = usual(&e);
    n.status = "FAMILY_QUOTA_EXCEEDED";
    n.threshold = 0;
    check_payload(m, &n,
                  "{\"familyId\":100042,\"customerId\":200187,\"type\":\"CUSTOMER_BLOCKED\",\"title\":\"t\","
                  "\"message\":\"-\",\"data\":{\"originEventId\":\"a1b2c3d4-e5f6-4890-abcd-ef1234567890\","
                  "\"eventTime\":\"2026-11-29T22:00:00.123-05:00\",\"status\":\"FAMILY_QUOTA_EXCEEDED\","
                  "\"familyId\":100042,\"customerId\":200187,\"appId\":null,\"bytesUsed\":5242880,"
                  "\"reason\":\"FAMILY_QUOTA_EXCEEDED\"}}");
    messages_free(m);
}
END_TEST

START_TEST(odd_characters) {
    use_zone("Asia/Seoul");
    struct messages *m = catalogue("\"{{{appId}}}\"", "\"a\\tb \\\" / \\u00e9 😀\"");
    struct usage_event e = usual_event();
    e.id = "\"\\/<>";
    e.app = "x{total}\n\x01\x7f\"\\/한";
    e.family_id = e.customer_id = e.bytes_used = EVENT_AMOUNT_MAX;
    struct notification n = usual(&e);
    n.status = "APP_BLOCK";
    n.threshold = 0;
    check_payload(
        m, &n,
        "{\"familyId\":9007199254740991,\"customerId\":9007199254740991,\"type\":\"CUSTOMER_BLOCKED\","
        "\"title\":\"{x{total}\\n\\u0001\x7f\\\"\\\\/한}\",\"message\":\"a\\tb \\\" / é 😀\","
        "\"data\":{\"originEventId\":\"\\\"\\\\/<>\",\"eventTime\":\"2026-11-30T12:00:00.123+09:00\","
        "\"status\":\"APP_BLOCK\",\"familyId\":9007199254740991,\"customerId\":9007199254740991,"
        "\"appId\":\"x{total}\\n\\u0001\x7f\\\"\\\\/한\",\"bytesUsed\":9007199254740991,"
        "\"reason\":\"APP_BLOCK\"}}");
    messages_free(m);
}
END_TEST

START_TEST(envelope) {
    static const char payload[] = "{\"any\": bytes}not read";
    struct buf b = {0};
    use_zone("Asia/Seoul");
    buf_str(&b, "before ");
    notification_envelope(&b, "a1b2\"\\c3", 1796007600456, payload, 14);
    ck_assert_str_eq(buf_cstr(&b),
                     "before {\"eventId\":\"a1b2\\\"\\\\c3\",\"eventType\":\"NOTIFICATION\",\"timestamp\":"
                     "\"2026-11-30T12:00:00.456+09:00\",\"payload\":{\"any\": bytes}}");
    buf_free(&b);
}
END_TEST

/* The title that a notification gets from a catalogue whose titles are `title`. */
static void check_title(const char *title, const struct notification *n, const char *expected) {
    struct messages *m = catalogue(title, "m");
    struct buf b = {0};
    notification_payload(&b, m, n);
    json_t *payload = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(payload != NULL, "%s", b.data);
    ck_assert_str_eq(json_string_value(json_object_get(payload, "title")), expected);
    json_decref(payload);
    buf_free(&b);
    messages_free(m);
}

START_TEST(placeholders) {
    use_zone("Asia/Seoul");
    struct usage_event e = usual_event();
    struct notification n = usual(&e);
    check_title("\"{threshold}|{appId}|{bytesUsed}|{remaining}|{total}|{monthlyUsed}\"", &n,
                "50|com.youtube.app|5.0 MB|5.0 GB|10.0 GB|100.0 MB");
    check_title("\"{monthlyLimit}|{month}|{familyId}|{customerId}\"", &n, "-|2026-11|100042|200187");
    n.monthly_limit_bytes = 0;
    check_title("\"{monthlyLimit}{{month}}{{{month}}}}}\"", &n, "0 B{month}{2026-11}}");
    e.month = 202701;
    check_title("\"{month}\"", &n, "2027-01");
    check_title("plain text", &n, "plain text");
    check_title("|-\n    {{two\n    lines}}", &n, "{two\nlines}");
}
END_TEST

START_TEST(amounts) {
    static const struct {
        int64_t bytes;
        const char *shown;
    } table[] = {
        {0, "0 B"},
        {1, "1 B"},
        {999, "999 B"},
        {1023, "1023 B"},
        {1024, "1.0 KB"},
        {1025, "1.0 KB"},
        {1126, "1.0 KB"},
        {1127, "1.1 KB"},
        {2047, "1.9 KB"},
        {1048575, "1023.9 KB"},
        {1048576, "1.0 MB"},
        {5242880, "5.0 MB"},
        {1073741823, "1023.9 MB"},
        {1073741824, "1.0 GB"},
        {1099511627775, "1023.9 GB"},
        {1099511627776, "1.0 TB"},
        {9007199254740991, "8191.9 TB"},
        {INT64_MAX, "8388607.9 TB"},
        {-1, "0 B"},
        {INT64_MIN, "0 B"},
    };
    use_zone("Asia/Seoul");
    struct usage_event e = usual_event();
    struct notification n = usual(&e);
    for (size_t i = 0; i < TESTING_LENGTH(table); i++) {
        n.remaining_bytes = table[i].bytes;
        check_title("\"{remaining}\"", &n, table[i].shown);
    }
}
END_TEST

static void check_refused(const char *yaml, size_t len, const char *expected) {
    struct error err = {0};
    struct messages *m = messages_parse("m.yaml", yaml, len, &err);
    ck_assert_msg(m == NULL, "taken instead of: %s", expected);
    ck_assert_int_eq(err.area, ERROR_CONFIG);
    ck_assert_int_eq(err.action, ERROR_STOP);
    ck_assert_str_eq(err.text, expected);
}

static void check_refused_text(const char *title, const char *expected) {
    char *yaml = catalogue_text(title, "m");
    check_refused(yaml, strlen(yaml), expected);
    free(yaml);
}

START_TEST(texts_that_are_refused) {
    static const struct {
        const char *title, *error;
    } table[] = {
        {"", "m.yaml:2: THRESHOLD_ALERT.title: is empty"},
        {"\"\"", "m.yaml:2: THRESHOLD_ALERT.title: is empty"},
        {"\"{\"", "m.yaml:2: THRESHOLD_ALERT.title: has a lone brace (write {{ or }} for the character)"},
        {"\"a}\"", "m.yaml:2: THRESHOLD_ALERT.title: has a lone brace (write {{ or }} for the character)"},
        {"\"{total\"",
         "m.yaml:2: THRESHOLD_ALERT.title: has a lone brace (write {{ or }} for the character)"},
        {"\"{total{\"",
         "m.yaml:2: THRESHOLD_ALERT.title: has a lone brace (write {{ or }} for the character)"},
        {"\"{{total}\"",
         "m.yaml:2: THRESHOLD_ALERT.title: has a lone brace (write {{ or }} for the character)"},
        {"\"{nobody}\"", "m.yaml:2: THRESHOLD_ALERT.title: unknown placeholder {nobody}"},
        {"\"{Total}\"", "m.yaml:2: THRESHOLD_ALERT.title: unknown placeholder {Total}"},
        {"\"{tot}\"", "m.yaml:2: THRESHOLD_ALERT.title: unknown placeholder {tot}"},
        {"\"{totals}\"", "m.yaml:2: THRESHOLD_ALERT.title: unknown placeholder {totals}"},
        {"\"{ total}\"", "m.yaml:2: THRESHOLD_ALERT.title: unknown placeholder { total}"},
        {"\"{}\"", "m.yaml:2: THRESHOLD_ALERT.title: unknown placeholder {}"},
        {"\"a\\0b\"", "m.yaml:2: THRESHOLD_ALERT.title: has a NUL character"},
        {"[a]", "m.yaml:2: THRESHOLD_ALERT.title: must be text (put it in quotes)"},
        {"{total}", "m.yaml:2: THRESHOLD_ALERT.title: must be text (put it in quotes)"},
        {"&a text", "m.yaml:2: THRESHOLD_ALERT.title: anchors and tags aren't allowed"},
        {"!!str text", "m.yaml:2: THRESHOLD_ALERT.title: anchors and tags aren't allowed"},
        {"*a", "m.yaml:2: THRESHOLD_ALERT.title: aliases aren't allowed"},
    };
    for (size_t i = 0; i < TESTING_LENGTH(table); i++)
        check_refused_text(table[i].title, table[i].error);
    char title[300];
    memset(title, 'x', sizeof title);
    title[256] = '\0';
    messages_free(catalogue(title, "m"));
    memcpy(title + 256, "x", 2);
    check_refused_text(title, "m.yaml:2: THRESHOLD_ALERT.title: is over 256 bytes long");
}
END_TEST

static char *replaced(const char *text, const char *old, const char *new) {
    const char *at = strstr(text, old);
    ck_assert_msg(at != NULL, "%s isn't in the catalogue", old);
    struct buf b = {0};
    buf_append(&b, text, (size_t)(at - text));
    buf_str(&b, new);
    buf_str(&b, at + strlen(old));
    return b.data;
}

/* Changes to a good catalogue: kinds begin on lines 1, 4, 7, 10, 13 and 16. */
START_TEST(catalogues_that_are_refused) {
    static const struct {
        const char *old, *new, *error;
    } table[] = {
        {"MANUAL:\n  title: t\n  message: m\n", "", "m.yaml:1: document: MANUAL is missing"},
        {"MANUAL:\n  title: t\n", "MANUAL:\n", "m.yaml:4: MANUAL: title is missing"},
        {"MANUAL:\n  title: t\n  message: m\n", "MANUAL:\n  title: t\n",
         "m.yaml:4: MANUAL: message is missing"},
        {"MANUAL:\n  title: t\n  message: m\n", "MANUAL: {}\n", "m.yaml:4: MANUAL: title is missing"},
        {"MANUAL:\n  title: t\n  message: m\n", "MANUAL:\n", "m.yaml:4: MANUAL: must be a mapping"},
        {"MANUAL:\n  title: t\n  message: m\n", "MANUAL: text\n", "m.yaml:4: MANUAL: must be a mapping"},
        {"MANUAL:\n  title: t\n  message: m\n", "MANUAL: [t, m]\n", "m.yaml:4: MANUAL: must be a mapping"},
        {"MANUAL:\n  title: t\n", "MANUAL:\n  title: t\n  title: u\n",
         "m.yaml:6: MANUAL.title: is there twice"},
        {"APP_BLOCK:", "MANUAL:", "m.yaml:7: MANUAL: is there twice"},
        {"APP_BLOCK:", "APP_BLOCKS:", "m.yaml:7: document: unknown key APP_BLOCKS"},
        {"APP_BLOCK:", "app_block:", "m.yaml:7: document: unknown key app_block"},
        {"MANUAL:\n  title: t\n", "MANUAL:\n  title: t\n  text: t\n", "m.yaml:6: MANUAL: unknown key text"},
        {"MANUAL:\n  title: t\n", "MANUAL:\n  \"title\\0\": t\n", "m.yaml:5: MANUAL: unknown key title"},
        {"MANUAL:\n  title: t\n", "MANUAL:\n  ? [a]\n  : t\n", "m.yaml:5: MANUAL: a key must be plain text"},
        {"MANUAL:\n  title: t\n", "MANUAL:\n  &k title: t\n", "m.yaml:5: MANUAL: a key must be plain text"},
        {"MANUAL:\n", "MANUAL: &m\n", "m.yaml:4: MANUAL: anchors and tags aren't allowed"},
        {"MANUAL:\n", "MANUAL: !!map\n", "m.yaml:4: MANUAL: anchors and tags aren't allowed"},
        {"APP_BLOCK:\n  title: t\n  message: m\n", "APP_BLOCK: *m\n",
         "m.yaml:7: APP_BLOCK: must be a mapping"},
        {"MANUAL:\n", "<<: {}\nMANUAL:\n", "m.yaml:4: document: unknown key <<"},
        {"THRESHOLD_ALERT:\n", "--- &a\nTHRESHOLD_ALERT:\n",
         "m.yaml:1: document: anchors and tags aren't allowed"},
        {"MANUAL:\n", "---\nMANUAL:\n", "m.yaml:1: document: MANUAL is missing"},
        {"MANUAL:\n  title: t\n", "MANUAL:\n  title: \"t\n",
         "m.yaml:19: MANUAL.title: found unexpected end of stream"},
        {"MANUAL:\n  title: t\n", "MANUAL:\n\ttitle: t\n",
         "m.yaml:5: MANUAL: found character that cannot start any token"},
        {"MANUAL:\n  title: t\n", "MANUAL:\n  title: \x80\n",
         "m.yaml:5: document: invalid leading UTF-8 octet"},
        {"MANUAL:\n  title: t\n", "MANUAL:\n  title: \x01\n",
         "m.yaml:5: document: control characters are not allowed"},
    };
    char *good = catalogue_text("t", "m");
    for (size_t i = 0; i < TESTING_LENGTH(table); i++) {
        char *bad = replaced(good, table[i].old, table[i].new);
        check_refused(bad, strlen(bad), table[i].error);
        free(bad);
    }
    char *second = replaced(good, "FAMILY_QUOTA_EXCEEDED:\n  title: t\n  message: m\n",
                            "FAMILY_QUOTA_EXCEEDED:\n  title: t\n  message: m\n---\na: b\n");
    check_refused(second, strlen(second), "m.yaml:19: document: only one document is allowed");
    free(second);
    free(good);
    check_refused("", 0, "m.yaml:1: document: is empty");
    check_refused("# nothing\n", 10, "m.yaml:2: document: is empty");
    check_refused("text", 4, "m.yaml:1: document: must be a mapping");
    check_refused("- a\n", 4, "m.yaml:1: document: must be a mapping");
    check_refused("{}", 2, "m.yaml:1: document: THRESHOLD_ALERT is missing");
}
END_TEST

START_TEST(size) {
    char *good = catalogue_text("t", "m");
    size_t len = strlen(good);
    char *big = malloc(65537);
    memcpy(big, good, len);
    memset(big + len, '#', 65537 - len);
    struct error err = {0};
    struct messages *m = messages_parse("m.yaml", big, 65536, &err);
    ck_assert_msg(m != NULL, "%s", err.text);
    messages_free(m);
    check_refused(big, 65537, "m.yaml:1: document: is over 65536 bytes long");
    /* the first bracket is one too many: however many follow, it's quick */
    memset(big, '[', 65536);
    check_refused(big, 65536, "m.yaml:1: document: must be a mapping");
    memset(big, '{', 65536);
    check_refused(big, 65536, "m.yaml:1: document: a key must be plain text");
    free(big);
    free(good);
    messages_free(NULL);
}
END_TEST

/* Every text of the catalogues that are shipped, for every kind. */
START_TEST(shipped_catalogues) {
    static const char *const paths[] = {"config/messages.ko.yaml", "config/messages.en.yaml"};
    static const char *const statuses[] = {
        "WARNING_10", "MANUAL", "APP_BLOCK", "TIME_BLOCK", "MONTHLY_LIMIT_EXCEEDED", "FAMILY_QUOTA_EXCEEDED"};
    use_zone("Asia/Seoul");
    struct usage_event e = usual_event();
    for (size_t p = 0; p < TESTING_LENGTH(paths); p++) {
        struct error err = {0};
        size_t len;
        char *yaml = testing_file(paths[p], &len);
        struct messages *m = messages_parse(paths[p], yaml, len, &err);
        ck_assert_msg(m != NULL, "%s", err.text);
        for (size_t s = 0; s < TESTING_LENGTH(statuses); s++) {
            struct notification n = usual(&e);
            n.status = statuses[s];
            n.threshold = s == 0 ? 10 : 0;
            n.monthly_limit_bytes = 209715200;
            struct buf b = {0};
            notification_payload(&b, m, &n);
            json_t *payload = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
            ck_assert_msg(payload != NULL, "%s", b.data);
            const char *title = json_string_value(json_object_get(payload, "title"));
            const char *message = json_string_value(json_object_get(payload, "message"));
            ck_assert_msg(title && *title && message && *message, "%s", b.data);
            ck_assert_msg(!strpbrk(title, "{}\n") && !strpbrk(message, "{}\n"), "%s", b.data);
            if (getenv("TALLYD_TEST_SHOW"))
                printf("%s\n  %s\n  %s\n", statuses[s], title, message);
            json_decref(payload);
            buf_free(&b);
        }
        messages_free(m);
        free(yaml);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("notification");
    TCase *tc = tcase_create("notification");
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, threshold_alert);
    tcase_add_test(tc, customer_blocked);
    tcase_add_test(tc, odd_characters);
    tcase_add_test(tc, envelope);
    tcase_add_test(tc, placeholders);
    tcase_add_test(tc, amounts);
    tcase_add_test(tc, texts_that_are_refused);
    tcase_add_test(tc, catalogues_that_are_refused);
    tcase_add_test(tc, size);
    tcase_add_test(tc, shipped_catalogues);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
