/* SPDX-License-Identifier: MIT */
/* Arenas, and JSON parsed in one. A sanitizer sees what these tests can't: reads past an end or after a
 * reset. */
#include "arena.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>

#include "json_arena.h"
#include "testing.h"

static size_t block_count(const struct arena *a) {
    struct arena probe = *a;
    size_t n = 0;
    for (; probe.newest; n++)
        probe.newest = *(struct arena_block **)(void *)probe.newest; /* its first member: the one before */
    return n;
}

START_TEST(allocations_are_apart_and_aligned) {
    struct arena a = {0};
    enum { COUNT = 2000 };
    static unsigned char *given[COUNT];
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            given[i] = arena_alloc(&a, i % 97);
            testing_require((uintptr_t)given[i] % alignof(max_align_t) == 0, "%zu isn't aligned", i);
            memset(given[i], (int)(i % 251), i % 97);
        }
        for (size_t i = 0; i < COUNT; i++) {
            for (size_t k = 0; k < i % 97; k++)
                testing_require(given[i][k] == i % 251, "%zu was written to", i);
        }
        arena_reset(&a);
        ck_assert_uint_le(block_count(&a), 1);
    }
    arena_free(&a);
    ck_assert_uint_eq(block_count(&a), 0);
    arena_free(&a);
}
END_TEST

START_TEST(texts_end) {
    struct arena a = {0};
    ck_assert_str_eq(arena_text(&a, "abc", 2), "ab");
    ck_assert_str_eq(arena_text(&a, "", 0), "");
    arena_free(&a);
}
END_TEST

START_TEST(memory_is_used_again) {
    struct arena a = {0};
    const void *first = arena_alloc(&a, 100);
    for (int i = 0; i < 1000; i++) {
        arena_reset(&a);
        testing_require(arena_alloc(&a, 100) == first, "round %d took other memory", i);
    }
    memset(arena_alloc(&a, 10 << 20), 'x', 10 << 20); /* more than any step */
    arena_reset(&a);
    ck_assert_msg(block_count(&a) == 0, "a large block is kept");
    arena_free(&a);
}
END_TEST

/* ---- JSON ---- */

static json_t *nested(size_t depth) {
    json_t *j = json_string("the innermost");
    for (size_t i = 0; i < depth; i++)
        j = json_pack("{s:o, s:[i, n, b, f]}", "in", j, "more", (int)i, 1, 0.5);
    return j;
}

/* Parses the text in the arena and expects it to mean the value, which isn't in it. */
static void expect_parsed(struct arena *a, const char *written, const json_t *value) {
    json_arena_begin(a);
    json_t *parsed = json_loads(written, JSON_REJECT_DUPLICATES, NULL);
    bool same = parsed && json_equal(parsed, value);
    json_arena_end(parsed);
    testing_require(same, "%.60s… is something else", written);
}

START_TEST(json_of_all_sizes) {
    struct arena a = {0};
    json_t *small = json_pack("{s:s}", "a", "b"), *deep = nested(30), *huge = json_array();
    for (int i = 0; i < 100000; i++)
        json_array_append_new(huge, i % 2 ? json_integer(i) : json_sprintf("text %d", i));
    const json_t *const values[] = {small, huge, small, deep, small, huge, deep};
    for (size_t i = 0; i < TESTING_LENGTH(values); i++) {
        char *written = json_dumps(values[i], JSON_COMPACT);
        expect_parsed(&a, written, values[i]);
        free(written);
        ck_assert_uint_le(block_count(&a), 1);
    }
    json_arena_begin(&a);
    ck_assert_ptr_null(json_loads("{\"a\":[1,{\"b\":\"c\"}", 0, NULL));
    json_arena_end(NULL);
    json_decref(huge);
    json_decref(deep);
    json_decref(small);
    arena_free(&a);
}
END_TEST

START_TEST(json_outside_is_left_alone) {
    struct arena a = {0};
    json_t *before = json_pack("{s:s}", "a", "b");
    json_arena_begin(&a);
    json_t *inside = json_loads("{\"a\":\"b\"}", 0, NULL);
    ck_assert(json_equal(before, inside));
    json_arena_end(inside);
    memset(arena_alloc(&a, 4096), 'x', 4096); /* over whatever had been there */
    json_t *after = json_deep_copy(before);
    ck_assert(json_equal(before, after));
    json_decref(before); /* a sanitizer sees it if these are the arena's */
    json_decref(after);
    arena_free(&a);
}
END_TEST

static void *parse_many(void *with_arena) {
    struct arena a = {0};
    json_t *value = nested(5);
    char *written = json_dumps(value, JSON_COMPACT);
    for (int i = 0; i < 5000; i++) {
        if (with_arena) {
            expect_parsed(&a, written, value);
        } else {
            json_t *again = json_loads(written, 0, NULL);
            testing_require(json_equal(again, value), "round %d differs", i);
            json_decref(again);
        }
    }
    free(written);
    json_decref(value);
    arena_free(&a);
    return NULL;
}

START_TEST(json_in_threads) {
    pthread_t threads[3];
    for (size_t i = 0; i < TESTING_LENGTH(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, parse_many, i < 2 ? &threads[i] : NULL), 0);
    for (size_t i = 0; i < TESTING_LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
}
END_TEST

int main(void) {
    json_arena_install();
    Suite *suite = suite_create("arena");
    TCase *tc = tcase_create("arena");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, allocations_are_apart_and_aligned);
    tcase_add_test(tc, texts_end);
    tcase_add_test(tc, memory_is_used_again);
    tcase_add_test(tc, json_of_all_sizes);
    tcase_add_test(tc, json_outside_is_left_alone);
    tcase_add_test(tc, json_in_threads);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
