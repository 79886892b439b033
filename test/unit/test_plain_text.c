/* SPDX-License-Identifier: MIT */
#include "plain_text.h"

#include "testing.h"

#define MOST 40
#define HIDDEN(c) "must be one line that is seen as it is, without U+" c
#define LENGTH "must be one line of text, 1 … 40 bytes"
#define UTF8 "must be UTF-8"

static const struct {
    const char *text, *fault; /* NULL: none */
} cases[] = {
    {"a", NULL},
    {"it's \"gone\" \\ 없음 ünïcode 🙂", NULL},
    {"1234567890123456789012345678901234567890", NULL},
    {"12345678901234567890123456789012345678901", LENGTH},
    {"", LENGTH},
    {"two\nlines", HIDDEN("000A")},
    {"tab\t", HIDDEN("0009")},
    {"\x1b[31m", HIDDEN("001B")},
    {"\x7f", HIDDEN("007F")},
    {"a\xc2\x80", HIDDEN("0080")},
    {"a\xc2\x9b", HIDDEN("009B")},
    {"a\xc2\x9f", HIDDEN("009F")},
    {"a\xc2\xa0z", NULL}, /* a space that doesn't break is a space */
    {"\xc2\xad", HIDDEN("00AD")},
    {"\xd8\x9c", HIDDEN("061C")},
    {"\xe2\x80\x8a", NULL},
    {"\xe2\x80\x8b", HIDDEN("200B")},
    {"\xe2\x80\x8f", HIDDEN("200F")},
    {"\xe2\x80\x90", NULL},
    {"\xe2\x80\xa8", HIDDEN("2028")},
    {"\xe2\x80\xae", HIDDEN("202E")},
    {"\xe2\x80\xaf", NULL},
    {"\xe2\x81\xa6", HIDDEN("2066")},
    {"\xe2\x81\xa9", HIDDEN("2069")},
    {"\xe3\x85\xa4", HIDDEN("3164")},
    {"\xef\xbb\xbfx", HIDDEN("FEFF")},
    {"\xf3\xa0\x81\x81", HIDDEN("E0041")},
    {"\x80", UTF8},
    {"a\xff", UTF8},
    {"\xc2", UTF8},
    {"\xc0\xaf", UTF8},         /* longer than need be */
    {"\xe0\x80\xaf", UTF8},     /* likewise */
    {"\xf0\x80\x80\xaf", UTF8}, /* likewise */
    {"\xed\xa0\x80", UTF8},     /* a surrogate */
    {"\xf4\x90\x80\x80", UTF8}, /* beyond the last */
    {"\xe2\x82", UTF8},
};

START_TEST(says_what_is_wrong) {
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++) {
        const char *fault = plain_text_fault(cases[i].text, MOST);
        testing_require((fault == NULL) == (cases[i].fault == NULL) &&
                            (!fault || strcmp(fault, cases[i].fault) == 0),
                        "case %zu: expected %s, found %s", i, cases[i].fault ? cases[i].fault : "none",
                        fault ? fault : "none");
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("plain_text");
    TCase *tc = tcase_create("plain_text");
    tcase_add_test(tc, says_what_is_wrong);
    suite_add_tcase(s, tc);
    return testing_run(s);
}
