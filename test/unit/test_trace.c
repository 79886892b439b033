/* SPDX-License-Identifier: MIT */
#include "trace.h"

#include "testing.h"

/* \xNN becomes a byte. Returns the length. */
static size_t unescape(char *s) {
    char *begin = s, *to = s;
    while (*s) {
        unsigned byte;
        if (sscanf(s, "\\x%2x", &byte) == 1) {
            *to++ = (char)byte;
            s += 4;
        } else {
            *to++ = *s++;
        }
    }
    return (size_t)(to - begin);
}

static void one_case(const char *where, char *line) {
    char *arrow = strstr(line, " => "), given[128], out[TRACE_PARENT_SIZE];
    ck_assert_msg(arrow != NULL, "%s: no arrow", where);
    *arrow = '\0';
    const char *expected = arrow + 4;
    snprintf(given, sizeof given, "%s", line);
    size_t len = unescape(given);
    char *exact = malloc(len ? len : 1); /* so that a sanitizer sees what is read beyond it */
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, given, len);
    bool ok = trace_parent_parse(exact, len, out);
    free(exact);
    ck_assert_msg(ok == (strcmp(expected, "-") != 0), "%s: %s", where, ok ? "accepted" : "refused");
    ck_assert_msg(strcmp(out, ok ? expected : "") == 0, "%s: found \"%s\"", where, out);
    char again[TRACE_PARENT_SIZE];
    if (ok) /* what is stored is read back as it is */
        ck_assert_msg(trace_parent_parse(out, strlen(out), again) && strcmp(out, again) == 0, "%s", where);
}

START_TEST(traceparents) {
    testing_lines("test/data/traceparents.txt", one_case);
}
END_TEST

START_TEST(ids) {
    char id[TRACE_ID_SIZE], out[TRACE_PARENT_SIZE];
    ck_assert_ptr_null(trace_id(NULL, id));
    ck_assert_ptr_null(trace_id("", id));
    ck_assert_ptr_null(trace_id("00-4bf92f3577b34da6a3ce929d0e0e4736", id));
    ck_assert_str_eq(trace_id("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", id),
                     "4bf92f3577b34da6a3ce929d0e0e4736");
    ck_assert(!trace_parent_parse(NULL, 0, out));
    ck_assert(!trace_parent_parse("", 0, out));
}
END_TEST

/* Every single byte of a good one changed to every other: what is accepted differs in hexadecimal digits
 * only. */
START_TEST(one_byte_changed) {
    static const char good[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    char text[sizeof good], out[TRACE_PARENT_SIZE];
    for (size_t at = 0; at + 1 < sizeof good; at++) {
        for (int byte = 0; byte < 256; byte++) {
            memcpy(text, good, sizeof good);
            text[at] = (char)byte;
            bool ok = trace_parent_parse(text, sizeof good - 1, out);
            bool digit = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
            testing_require(ok == (good[at] == '-' ? byte == '-' : digit), "byte %d at %zu", byte, at);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("trace");
    TCase *tc = tcase_create("trace");
    tcase_add_test(tc, traceparents);
    tcase_add_test(tc, ids);
    tcase_add_test(tc, one_byte_changed);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
