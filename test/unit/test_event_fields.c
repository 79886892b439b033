/* SPDX-License-Identifier: MIT */
/* The two ways to an event's fields: where scanning succeeds jansson must say the same. */
#include "event_fields.h"

#include <inttypes.h>

#include "testing.h"

static const char usual[] =
    "{\"eventId\":\"a1b2c3d4-e5f6-4890-abcd-ef1234567890\",\"eventType\":\"DATA_USAGE\",\"timestamp\":"
    "\"2026-11-30T12:00:00.123\",\n \"payload\":{\"familyId\":100042,\"customerId\":200187,\"appId\":"
    "\"com.youtube.app\",\"bytesUsed\":5242880,\"metadata\":{\"networkType\":\"5G\"}}}";

static bool same_field(const struct field *a, const struct field *b) {
    return a->kind == b->kind && (a->kind != FIELD_INTEGER || a->number == b->number) &&
           (a->kind != FIELD_TEXT || (a->len == b->len && memcmp(a->text, b->text, a->len) == 0));
}

/* Scans a copy that ends where its allocation ends. True: scanned, and jansson says the same. */
static bool scans(const char *value, size_t len) {
    char *copy = malloc(len ? len : 1);
    memcpy(copy, value, len);
    struct event_fields scanned, taken;
    bool ok = event_fields_scan(copy, len, &scanned);
    json_t *root = ok ? json_loadb(copy, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    testing_require(!ok || json_is_object(root), "not JSON: %.*s", (int)len, value);
    if (ok) {
        event_fields_take(root, &taken);
        testing_require(same_field(&scanned.id, &taken.id) && same_field(&scanned.type, &taken.type) &&
                            same_field(&scanned.time, &taken.time) &&
                            same_field(&scanned.payload, &taken.payload) &&
                            same_field(&scanned.family, &taken.family) &&
                            same_field(&scanned.customer, &taken.customer) &&
                            same_field(&scanned.bytes, &taken.bytes) && same_field(&scanned.app, &taken.app),
                        "something else in: %.*s", (int)len, value);
    }
    json_decref(root);
    free(copy);
    return ok;
}

START_TEST(reads_all) {
    struct event_fields f;
    ck_assert(event_fields_scan(usual, strlen(usual), &f));
    ck_assert(f.id.kind == FIELD_TEXT && f.id.len == 36 && memcmp(f.id.text, "a1b2", 4) == 0);
    ck_assert(f.type.kind == FIELD_TEXT && f.type.len == 10);
    ck_assert(f.time.kind == FIELD_TEXT && f.time.len == 23);
    ck_assert(f.payload.kind == FIELD_OBJECT);
    ck_assert(f.family.kind == FIELD_INTEGER && f.family.number == 100042);
    ck_assert(f.customer.kind == FIELD_INTEGER && f.customer.number == 200187);
    ck_assert(f.bytes.kind == FIELD_INTEGER && f.bytes.number == 5242880);
    ck_assert(f.app.kind == FIELD_TEXT && f.app.len == 15);
}
END_TEST

/* Whether it is scanned; what it means, if so, jansson tells. */
static const struct {
    const char *value;
    bool scanned;
} table[] = {
    {"{}", true},
    {" { } \r\n\t", true},
    {"", false},
    {"{", false},
    {"}", false},
    {"{}x", false},
    {"{}{}", false},
    {"[]", false},
    {"\"a\"", false},
    {"null", false},
    {"{\"a\":null,\"b\":true,\"c\":false,\"d\":\"\",\"e\":0,\"\":{}}", true},
    {"{\"a\":nul}", false},
    {"{\"a\":nullx}", false},
    {"{\"a\":tru", false},
    {"{\"a\"}", false},
    {"{\"a\":}", false},
    {"{\"a\" 1}", false},
    {"{\"a\":1,}", false},
    {"{,\"a\":1}", false},
    {"{\"a\":1 \"b\":2}", false},
    {"{a:1}", false},
    {"{'a':1}", false},
    {"{\"eventId\":\"x\" , \"payload\" : { \"familyId\" : \"1\" , \"appId\" : null } }", true},
    {"{\"payload\":{\"payload\":{\"familyId\":1},\"eventId\":\"no\"},\"familyId\":2}", true},
    {"{\"metadata\":{\"eventId\":\"no\",\"familyId\":1,\"payload\":{\"familyId\":2}}}", true},
    {"{\"payload\":5,\"eventId\":7,\"eventType\":null,\"timestamp\":{}}", true},
    {"{\"eventid\":\"x\",\"eventIdx\":\"y\",\"eventI\":\"z\"}", true},
    {"{\"a\":1,\"a\":1}", false},
    {"{\"a\":{\"b\":1,\"c\":2,\"b\":1}}", false},
    {"{\"payload\":{\"familyId\":1},\"payload\":{\"familyId\":1}}", false},
    {"{\"a\":{\"a\":{\"a\":{}}}}", true},
    {"{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}", false},
    {"{\"payload\":{\"bytesUsed\":999999999999999999}}", true},
    {"{\"payload\":{\"bytesUsed\":1000000000000000000}}", false},
    {"{\"payload\":{\"bytesUsed\":01}}", false},
    {"{\"payload\":{\"bytesUsed\":00}}", false},
    {"{\"payload\":{\"bytesUsed\":-1}}", false},
    {"{\"payload\":{\"bytesUsed\":-0}}", false},
    {"{\"payload\":{\"bytesUsed\":+1}}", false},
    {"{\"payload\":{\"bytesUsed\":1.0}}", false},
    {"{\"payload\":{\"bytesUsed\":1e3}}", false},
    {"{\"payload\":{\"bytesUsed\":1E3}}", false},
    {"{\"payload\":{\"bytesUsed\":0x1}}", false},
    {"{\"payload\":{\"bytesUsed\":1 2}}", false},
    {"{\"a\":[]}", false},
    {"{\"a\":\"\\u0041\"}", false},
    {"{\"a\":\"\\\"\"}", false},
    {"{\"a\":\"\t\"}", false},
    {"{\"a\":\"\x7f\"}", false},
    {"{\"a\":\"\xed\x95\x9c\"}", false},
    {"{\"\xed\x95\x9c\":1}", false},
    {"{\"a\":\"x}", false},
    {"\xef\xbb\xbf{}", false},
    {"{\v}", false},
    {"{\f}", false},
};

START_TEST(scanned_or_not) {
    const char *value = table[_i].value;
    ck_assert_msg(scans(value, strlen(value)) == table[_i].scanned, "%s", value);
}
END_TEST

START_TEST(zero_bytes) {
    static const char inside[] = "{\"a\":\"\0\"}", behind[] = "{}\0", between[] = "{\0}";
    ck_assert(!scans(inside, sizeof inside - 1));
    ck_assert(!scans(behind, sizeof behind - 1));
    ck_assert(!scans(between, sizeof between - 1));
    struct event_fields f;
    ck_assert(!event_fields_scan(NULL, 0, &f));
}
END_TEST

START_TEST(many_members) {
    for (int count = 1; count < 40; count++) {
        char value[1024] = "{";
        for (int i = 0; i < count; i++)
            sprintf(value + strlen(value), "%s\"m%d\":%d", i ? "," : "", i, i);
        strcat(value, "}");
        ck_assert_msg(scans(value, strlen(value)) == (count <= 16), "%d members", count);
    }
}
END_TEST

START_TEST(every_prefix) {
    ck_assert(scans(usual, strlen(usual)));
    for (size_t len = 0; len < strlen(usual); len++)
        ck_assert(!scans(usual, len));
}
END_TEST

static void check_value(const char *where, char *line) {
    json_t *sample = json_loads(line, 0, NULL);
    const json_t *value = json_object_get(sample, "value");
    ck_assert_msg(json_is_string(value), "%s", where);
    scans(json_string_value(value), json_string_length(value));
    json_decref(sample);
}

START_TEST(cases) {
    ck_assert_int_gt(testing_lines("test/data/events.jsonl", check_value), 300);
}
END_TEST

/* Pieces of it exchanged for others that are likely to mean something. */
START_TEST(random_damage) {
    static const char *const pieces[] = {"{",
                                         "}",
                                         "\"",
                                         ":",
                                         ",",
                                         "\\",
                                         "0",
                                         "1",
                                         "-",
                                         ".",
                                         "e",
                                         " ",
                                         "\n",
                                         "[",
                                         "]",
                                         "null",
                                         "true",
                                         "\x80",
                                         "{}",
                                         "[]",
                                         "\"a\"",
                                         "1.5",
                                         "\xc3\xa9",
                                         "\"payload\":",
                                         "\x7f",
                                         "\"familyId\":",
                                         "\"eventId\":",
                                         "\\u0041",
                                         "99999999999999999999"};
    uint64_t seed = testing_seed(), state = seed;
    int scanned = 0;
    for (int i = 0; i < 200000; i++) {
        char value[2 * sizeof usual];
        size_t len = strlen(usual);
        memcpy(value, usual, len);
        for (int64_t changes = testing_between(&state, 1, 3); changes > 0; changes--) {
            size_t at = (size_t)testing_between(&state, 0, (int64_t)len);
            size_t gone = (size_t)testing_between(&state, 0, 3);
            const char *piece = pieces[testing_between(&state, 0, (int64_t)TESTING_LENGTH(pieces) - 1)];
            if (gone > len - at)
                gone = len - at;
            memmove(value + at + strlen(piece), value + at + gone, len - at - gone);
            memcpy(value + at, piece, strlen(piece));
            len += strlen(piece) - gone;
        }
        scanned += scans(value, len);
    }
    ck_assert_msg(scanned > 1000, "seed %" PRIu64 ": only %d were scanned", seed, scanned);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("event_fields");
    TCase *tc = tcase_create("event_fields");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, reads_all);
    tcase_add_loop_test(tc, scanned_or_not, 0, TESTING_LENGTH(table));
    tcase_add_test(tc, zero_bytes);
    tcase_add_test(tc, many_members);
    tcase_add_test(tc, every_prefix);
    tcase_add_test(tc, cases);
    tcase_add_test(tc, random_damage);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
