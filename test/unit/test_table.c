/* SPDX-License-Identifier: MIT */
#include "table.h"

#include "json_text.h"
#include "testing.h"
#include "utf8.h"

static char printed[4096];

static const char *print(const struct table *t) {
    FILE *f = fmemopen(printed, sizeof printed, "w");
    ck_assert_ptr_nonnull(f);
    table_print(t, f);
    fclose(f);
    return printed;
}

START_TEST(aligns_text_to_the_left_and_figures_to_the_right) {
    struct table *t = table_new("name", "bytes>", "state", NULL);
    table_text(t, "a");
    table_i64(t, 1234567);
    table_text(t, "ok");
    table_text(t, "longer");
    table_i64(t, -1000);
    table_text(t, NULL);
    ck_assert_str_eq(print(t), "name        bytes  state\n"
                               "a       1,234,567  ok\n"
                               "longer     -1,000  -\n");
    table_free(t);
}
END_TEST

START_TEST(groups_no_digits_of_what_is_text) {
    struct table *t = table_new("family", "n>", NULL);
    table_i64(t, 100042);
    table_i64_if(t, false, 5);
    ck_assert_str_eq(print(t), "family  n\n100042  -\n");
    table_free(t);
}
END_TEST

START_TEST(counts_what_a_terminal_shows) {
    struct table *t = table_new("name", "x", NULL);
    table_text(t, "가족");
    table_text(t, "1");
    table_text(t, "é");
    table_text(t, "2");
    ck_assert_str_eq(print(t), "name  x\n가족  1\né     2\n");
    table_free(t);
}
END_TEST

START_TEST(shows_nothing_that_a_terminal_would_obey) {
    struct table *t = table_new("text", NULL);
    table_text(t, "a\x1b[2Jb\nc\xff"
                  "d");
    ck_assert_str_eq(print(t), "text\na?[2Jb?c?d\n");
    table_free(t);
}
END_TEST

/* Of each kind: C0 as a line end, DEL, C1 (one that begins a sequence, as ESC [ does), a line separator, a
 * turn to right-to-left and what ends it, and what has no width. */
static const uint32_t unseen[] = {0x0A,   0x7F,   0x80,   0x85,   0x9B,   0x9F,   0x200E, 0x200F,
                                  0x2028, 0x2029, 0x202A, 0x202E, 0x2066, 0x2069, 0x200B, 0xE0001};

static void put_character(struct buf *b, uint32_t c) {
    if (c < 0x80) {
        buf_char(b, (char)c);
    } else if (c < 0x800) {
        buf_char(b, (char)(0xC0 | c >> 6));
    } else if (c < 0x10000) {
        buf_char(b, (char)(0xE0 | c >> 12));
        buf_char(b, (char)(0x80 | (c >> 6 & 0x3F)));
    } else {
        buf_char(b, (char)(0xF0 | c >> 18));
        buf_char(b, (char)(0x80 | (c >> 12 & 0x3F)));
        buf_char(b, (char)(0x80 | (c >> 6 & 0x3F)));
    }
    if (c >= 0x80)
        buf_char(b, (char)(0x80 | (c & 0x3F)));
}

static void put_text(struct buf *b, uint32_t c) {
    buf_reset(b);
    buf_str(b, "가");
    put_character(b, c);
    buf_str(b, "é");
}

START_TEST(shows_nothing_unseen_in_cells) {
    struct buf text = {0};
    for (size_t i = 0; i < TESTING_LENGTH(unseen); i++) {
        struct table *t = table_new("text", "x", NULL);
        put_text(&text, unseen[i]);
        table_text(t, buf_cstr(&text));
        table_text(t, "1");
        ck_assert_msg(strcmp(print(t), "text  x\n가?é  1\n") == 0, "U+%04X: %s", unseen[i], printed);
        table_free(t);
        struct buf shown = {0};
        utf8_shown(&shown, buf_cstr(&text));
        ck_assert_str_eq(buf_cstr(&shown), "가?é");
        buf_free(&shown);
    }
    buf_free(&text);
}
END_TEST

static const char *print_json(const char *text) {
    FILE *f = fmemopen(printed, sizeof printed, "w");
    ck_assert_ptr_nonnull(f);
    table_print_json(json_pack("{s:s}", text, text), f);
    fclose(f);
    return printed;
}

START_TEST(writes_nothing_unseen_as_json) {
    struct buf text = {0}, escaped = {0}, expected = {0};
    for (size_t i = 0; i < TESTING_LENGTH(unseen); i++) {
        put_text(&text, unseen[i]);
        buf_reset(&escaped);
        if (unseen[i] == 0x0A)
            buf_str(&escaped, "\\n");
        else
            utf8_json_escape(&escaped, unseen[i]);
        buf_reset(&expected);
        buf_printf(&expected, "{\n \"가%sé\": \"가%sé\"\n}\n", buf_cstr(&escaped), buf_cstr(&escaped));
        ck_assert_msg(strcmp(print_json(buf_cstr(&text)), buf_cstr(&expected)) == 0, "U+%04X: %s", unseen[i],
                      printed);
        json_t *root = json_loads(printed, 0, NULL); /* and it's the same text still */
        ck_assert_ptr_nonnull(root);
        ck_assert_str_eq(json_string_value(json_object_get(root, buf_cstr(&text))), buf_cstr(&text));
        json_decref(root);
        buf_reset(&expected);
        buf_printf(&expected, "\"가%sé\"", buf_cstr(&escaped));
        buf_reset(&escaped);
        json_text(&escaped, buf_cstr(&text));
        ck_assert_str_eq(buf_cstr(&escaped), buf_cstr(&expected));
    }
    buf_free(&text);
    buf_free(&escaped);
    buf_free(&expected);
}
END_TEST

START_TEST(shows_bytes_that_are_not_utf8) {
    static const char *const wrong[] = {
        "\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8", "\xc2"};
    for (size_t i = 0; i < TESTING_LENGTH(wrong); i++) {
        struct buf shown = {0};
        utf8_shown(&shown, wrong[i]);
        ck_assert_int_eq(strspn(buf_cstr(&shown), "?"), strlen(wrong[i]));
        buf_free(&shown);
    }
}
END_TEST

START_TEST(prints_nothing_without_rows) {
    struct table *t = table_new("text", "other", NULL);
    table_text(t, "half a row");
    printed[0] = '\0';
    ck_assert_str_eq(print(t), "");
    table_free(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("table");
    TCase *tc = tcase_create("table");
    tcase_add_test(tc, aligns_text_to_the_left_and_figures_to_the_right);
    tcase_add_test(tc, groups_no_digits_of_what_is_text);
    tcase_add_test(tc, counts_what_a_terminal_shows);
    tcase_add_test(tc, shows_nothing_that_a_terminal_would_obey);
    tcase_add_test(tc, shows_nothing_unseen_in_cells);
    tcase_add_test(tc, writes_nothing_unseen_as_json);
    tcase_add_test(tc, shows_bytes_that_are_not_utf8);
    tcase_add_test(tc, prints_nothing_without_rows);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
