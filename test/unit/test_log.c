/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "testing.h"

#define LINES_THAT_FILL 4000 /* of some hundred bytes: more than a pipe or a socket holds */

static void log_numbered(int i) {
    LOG(LOG_INFO, "numbered", LOG_I("number", i),
        LOG_S("padding", "0123456789012345678901234567890123456789"));
}

static void not_inherited(int fd) {
    ck_assert_msg(!(fcntl(fd, F_GETFL) & O_NONBLOCK), "the description that others share was changed");
}

/* Everything there is to read now, as a string that the caller frees. */
static char *read_all(int fd) {
    size_t n = 0, cap = 1 << 20;
    char *text = malloc(cap);
    ck_assert_ptr_nonnull(text);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (ssize_t got; (got = read(fd, text + n, cap - n - 1)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    return text;
}

struct seen {
    int numbered, last_number;
    json_int_t said_lost, said_since_start;
};

/* Every line is a whole JSON object, and the numbers rise. */
static struct seen read_lines(char *text) {
    struct seen s = {.last_number = -1};
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        ck_assert_msg(rest != NULL, "the last line has no end: %.60s", line);
        ck_assert_uint_lt(strlen(line), PIPE_BUF);
        json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_msg(o != NULL, "not JSON: %s", line);
        const char *event = json_string_value(json_object_get(o, "event"));
        if (strcmp(event, "log_lines_lost") == 0) {
            s.said_lost += json_integer_value(json_object_get(o, "lines"));
            s.said_since_start = json_integer_value(json_object_get(o, "since_start"));
        } else {
            int number = (int)json_integer_value(json_object_get(o, "number"));
            ck_assert_int_gt(number, s.last_number);
            s.last_number = number;
            s.numbered++;
        }
        json_decref(o);
    }
    free(text);
    return s;
}

/* Fills it, reads it empty, goes on: nothing waited, and what is missing was said. */
static void fill_and_empty(int to, int from) {
    log_init(to, LOG_INFO);
    for (int i = 0; i < LINES_THAT_FILL; i++)
        log_numbered(i);
    uint64_t lost = log_lost();
    ck_assert_uint_gt(lost, 0);
    not_inherited(to);
    struct seen full = read_lines(read_all(from));
    ck_assert_int_eq(full.said_lost, 0);
    log_numbered(LINES_THAT_FILL);
    log_numbered(LINES_THAT_FILL + 1);
    struct seen after = read_lines(read_all(from));
    ck_assert_uint_eq(log_lost(), lost);
    ck_assert_int_eq(after.said_lost, (json_int_t)lost);
    ck_assert_int_eq(after.said_since_start, (json_int_t)lost);
    ck_assert_int_eq(full.numbered + after.numbered + (json_int_t)lost, LINES_THAT_FILL + 2);
}

START_TEST(pipe_that_nobody_reads) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    fill_and_empty(ends[1], ends[0]);
}
END_TEST

START_TEST(socket_that_nobody_reads) {
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    fill_and_empty(ends[1], ends[0]);
}
END_TEST

/* What was cut in two by a full pipe is put together again. */
START_TEST(terminal_that_stands_still) {
    int leader = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_ge(leader, 0);
    ck_assert_int_eq(grantpt(leader), 0);
    ck_assert_int_eq(unlockpt(leader), 0);
    int terminal = open(ptsname(leader), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(terminal, 0);
    log_init(terminal, LOG_INFO);
    for (int i = 0; i < LINES_THAT_FILL; i++)
        log_numbered(i);
    ck_assert_uint_gt(log_lost(), 0);
    not_inherited(terminal);
    char *first = read_all(leader);
    for (int i = 0; i < 8; i++) /* a terminal gets room bit by bit */
        log_numbered(LINES_THAT_FILL + i);
    char *second = read_all(leader), *whole = malloc(strlen(first) + strlen(second) + 1), *to = whole;
    ck_assert_ptr_nonnull(whole);
    for (int part = 0; part < 2; part++) {
        for (const char *c = part ? second : first; *c; c++) {
            if (*c != '\r')
                *to++ = *c;
        }
    }
    *to = '\0';
    free(first);
    free(second);
    struct seen all = read_lines(whole);
    ck_assert_int_gt(all.said_lost, 0);
    ck_assert_int_eq(all.last_number, LINES_THAT_FILL + 7);
}
END_TEST

static void every_line_is_lost(int fd) {
    uint64_t before = log_lost();
    log_init(fd, LOG_INFO);
    for (int i = 0; i < 10; i++)
        log_numbered(i);
    ck_assert_uint_eq(log_lost(), before + 10);
}

START_TEST(outputs_that_take_nothing) {
    int ends[2], pair[2];
    signal(SIGPIPE, SIG_IGN); /* as main does */
    every_line_is_lost(open("/dev/full", O_WRONLY));
    every_line_is_lost(open("/dev/null", O_RDONLY));
    every_line_is_lost(1000);
    ck_assert_int_eq(pipe(ends), 0);
    close(ends[0]);
    every_line_is_lost(ends[1]);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    close(pair[0]);
    every_line_is_lost(pair[1]);
}
END_TEST

/* Where the pipe can't be opened anew (here its reader is gone for a moment) it's asked for room first. */
START_TEST(pipe_that_cant_be_opened_anew) {
    char path[] = "/tmp/tallyd-log-XXXXXX";
    signal(SIGPIPE, SIG_IGN);
    ck_assert_ptr_nonnull(mkdtemp(path));
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    int reader = open(fifo, O_RDONLY | O_NONBLOCK), writer = open(fifo, O_WRONLY);
    ck_assert_int_ge(writer, 0);
    close(reader);
    log_init(writer, LOG_INFO);
    reader = open(fifo, O_RDONLY | O_NONBLOCK);
    unlink(fifo);
    rmdir(path);
    for (int i = 0; i < LINES_THAT_FILL; i++)
        log_numbered(i);
    ck_assert_uint_gt(log_lost(), 0);
    ck_assert_int_gt(read_lines(read_all(reader)).numbered, 0);
}
END_TEST

/* Text from outside can be long: whole fields are left out, and the line says so. */
START_TEST(long_lines) {
    int ends[2];
    char text[PIPE_BUF + 100];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ck_assert_int_eq(pipe(ends), 0);
    log_init(ends[1], LOG_INFO);
    for (size_t len = PIPE_BUF - 200; len < sizeof text - 1; len++) {
        char keep = text[len];
        text[len] = '\0';
        LOG(LOG_INFO, "long", LOG_I("number", len), LOG_S("text", text), LOG_I("behind", 1));
        text[len] = keep;
        char *line = read_all(ends[0]);
        ck_assert_uint_le(strlen(line), PIPE_BUF);
        json_t *o = json_loads(line, 0, NULL);
        ck_assert_msg(o != NULL, "not JSON: %.80s", line);
        bool cut = json_is_true(json_object_get(o, "cut"));
        ck_assert_int_eq(json_object_get(o, "behind") != NULL, !cut);
        ck_assert_ptr_nonnull(json_object_get(o, "number"));
        json_decref(o);
        free(line);
    }
    ck_assert_uint_eq(log_lost(), 0);
}
END_TEST

static atomic_int next_number;

static void *log_many(void *arg) {
    (void)arg;
    for (int i = 0; i < 1000; i++)
        LOG(LOG_INFO, "from_a_thread", LOG_I("number", atomic_fetch_add(&next_number, 1)),
            LOG_S("padding", "01234567890123456789"));
    return NULL;
}

/* Threads' lines don't mix, and each is there or counted. */
START_TEST(threads) {
    char path[] = "/tmp/tallyd-log-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    log_init(fd, LOG_INFO);
    pthread_t all[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&all[i], NULL, log_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    lseek(fd, 0, SEEK_SET);
    char *text = read_all(fd), *rest = text;
    int lines = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line; lines++) {
        json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_msg(o != NULL, "not JSON: %s", line);
        json_decref(o);
    }
    free(text);
    ck_assert_int_eq(lines + (int)log_lost(), 4000);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("log");
    TCase *tc = tcase_create("log");
    tcase_set_timeout(tc, 30); /* a writer that waits is what this would show */
    tcase_add_test(tc, pipe_that_nobody_reads);
    tcase_add_test(tc, socket_that_nobody_reads);
    tcase_add_test(tc, terminal_that_stands_still);
    tcase_add_test(tc, outputs_that_take_nothing);
    tcase_add_test(tc, pipe_that_cant_be_opened_anew);
    tcase_add_test(tc, long_lines);
    tcase_add_test(tc, threads);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
