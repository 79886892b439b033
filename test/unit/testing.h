/* SPDX-License-Identifier: MIT */
/* What every suite needs: a main that can't lose a failure, data files, seeds. */
#ifndef TALLYD_TESTING_H
#define TALLYD_TESTING_H

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TESTING_LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* ck_assert_msg for loops of many thousands: check writes to a file at each of its own asserts. */
#define testing_require(condition, ...)                                                                      \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            ck_abort_msg(__VA_ARGS__);                                                                       \
    } while (0)

/* Runs a suite (steals it) and prints the summary, more with CK_VERBOSITY. The
 * exit status: non-zero when a test failed, or none ran. */
static inline int testing_run(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner), ran = srunner_ntests_run(runner);
    srunner_free(runner);
    if (ran == 0)
        fputs("no test ran\n", stderr);
    return failed > 0 || ran == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* A whole file, NUL-terminated; fails the test when it can't be read. Paths
 * start at the source tree, where tests are run. The caller frees it. */
static inline char *testing_file(const char *path, size_t *len) {
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s can't be opened; tests run in the source tree", path);
    size_t cap = 4096, n = 0;
    char *data = malloc(cap);
    ck_assert_ptr_nonnull(data);
    for (size_t got; (got = fread(data + n, 1, cap - n - 1, f)) > 0;) {
        n += got;
        if (cap - n < 2) {
            cap *= 2;
            char *more = realloc(data, cap);
            ck_assert_ptr_nonnull(more);
            data = more;
        }
    }
    ck_assert_msg(!ferror(f), "%s can't be read", path);
    fclose(f);
    data[n] = '\0';
    if (len)
        *len = n;
    return data;
}

/* Calls `each` with every line of a data file that isn't empty or a comment
 * (#), without its end. `where` is "path:line", for the messages of failures.
 * Returns how many there were; none fails the test. */
static inline int testing_lines(const char *path, void (*each)(const char *where, char *line)) {
    char *data = testing_file(path, NULL), *next = data;
    int number = 0, cases = 0;
    while (*next) {
        char *line = next, *end = strchrnul(line, '\n');
        next = *end ? end + 1 : end;
        *end = '\0';
        number++;
        if (*line == '\0' || *line == '#')
            continue;
        char where[256];
        snprintf(where, sizeof where, "%s:%d", path, number);
        each(where, line);
        cases++;
    }
    free(data);
    ck_assert_msg(cases > 0, "%s holds no case", path);
    return cases;
}

/* The seed of a property test: TALLYD_TEST_SEED, or a new one. Failures must name it. */
static inline uint64_t testing_seed(void) {
    const char *given = getenv("TALLYD_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 1000003u ^ (uint64_t)getpid();
    printf("TALLYD_TEST_SEED=%llu\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

/* splitmix64: the next of a reproducible sequence. */
static inline uint64_t testing_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Uniform enough in low … high. */
static inline int64_t testing_between(uint64_t *state, int64_t low, int64_t high) {
    return low + (int64_t)(testing_random(state) % ((uint64_t)high - (uint64_t)low + 1));
}

#endif
