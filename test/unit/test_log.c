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

#include "log_repeats.h"
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

/* ---- what a line may hold ---- */

/* A line that was just logged to the pipe, raw. */
static char *line_with(int ends[2], const char *text) {
    LOG(LOG_INFO, "text", LOG_S("text", text));
    return read_all(ends[0]);
}

/* Every code point: read back as it was, and nothing in the line that a terminal obeys. */
START_TEST(nothing_unescaped) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    log_init(ends[1], LOG_INFO);
    static const uint32_t shown[] = {0x20,   0x7E,   0xA0,   0xE9,    0xD55C,
                                     0x2027, 0x202F, 0xFFFD, 0x1F600, 0xDFFFF};
    static const uint32_t unseen[] = {0x01,   0x09,   0x0A,   0x1B,    0x1F,    0x7F,   0x80,
                                      0x85,   0x9B,   0x9F,   0xAD,    0x61C,   0x200B, 0x200E,
                                      0x200F, 0x2028, 0x2029, 0x202A,  0x202E,  0x2060, 0x2066,
                                      0x2069, 0xFEFF, 0xFFF9, 0xE0000, 0xE0041, 0xE007F};
    for (size_t i = 0; i < TESTING_LENGTH(shown) + TESTING_LENGTH(unseen); i++) {
        bool is_shown = i < TESTING_LENGTH(shown);
        uint32_t c = is_shown ? shown[i] : unseen[i - TESTING_LENGTH(shown)];
        char text[8] = {0};
        if (c < 0x80) {
            text[0] = (char)c;
        } else if (c < 0x800) {
            text[0] = (char)(0xC0 | c >> 6);
            text[1] = (char)(0x80 | (c & 0x3F));
        } else if (c < 0x10000) {
            text[0] = (char)(0xE0 | c >> 12);
            text[1] = (char)(0x80 | (c >> 6 & 0x3F));
            text[2] = (char)(0x80 | (c & 0x3F));
        } else {
            text[0] = (char)(0xF0 | c >> 18);
            text[1] = (char)(0x80 | (c >> 12 & 0x3F));
            text[2] = (char)(0x80 | (c >> 6 & 0x3F));
            text[3] = (char)(0x80 | (c & 0x3F));
        }
        char *line = line_with(ends, text);
        size_t len = strlen(line);
        ck_assert_msg(len && strchr(line, '\n') == line + len - 1, "U+%04X: not one line", c);
        ck_assert_msg(is_shown == (strstr(line, text) != NULL && c != '\n'), "U+%04X: %s", c, line);
        json_t *o = json_loads(line, 0, NULL);
        ck_assert_msg(o != NULL, "U+%04X: not JSON: %s", c, line);
        ck_assert_str_eq(json_string_value(json_object_get(o, "text")), text);
        json_decref(o);
        free(line);
    }
    char *line = line_with(ends, "\xC3(\xFF\xE2\x80");
    ck_assert_msg(strstr(line, "\"\\ufffd(\\ufffd\\ufffd\\ufffd\"") != NULL, "%s", line);
    free(line);
}
END_TEST

START_TEST(optional_fields) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    log_init(ends[1], LOG_INFO);
    LOG(LOG_INFO, "optional", LOG_O("absent", NULL), LOG_O("there", "x"), LOG_S("null", NULL));
    char *line = read_all(ends[0]);
    ck_assert_msg(strstr(line, "\"event\":\"optional\",\"there\":\"x\",\"null\":null}") != NULL, "%s", line);
    free(line);
}
END_TEST

START_TEST(hidden_quotes) {
    static const char *const cases[][2] = {
        {"Deadlock found", "Deadlock found"},
        {"Duplicate entry 'secret' for key 'PRIMARY'", "Duplicate entry '…'"},
        {"Incorrect string value: '\\xF0\\x9F' for column `d`.`t`.`c` at row 1",
         "Incorrect string value: '…' for column `d`.`t`.`c` at row 1"},
        {"near 'it's \"secret\"' at line 1", "near '…' at line 1"},
        {"args beginning with: \"secret\" \"another\"", "args beginning with: '…'"},
        {"The user can't", "The user can't"},
        {"it can't take 'secret' here", "it can't take '…' here"},
        {"'secret'", "'…'"},
        {"cut short 'secret", "cut short '…'"},
        {"", ""},
    };
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++) {
        char out[200];
        error_hide_quoted(cases[i][0], out, sizeof out);
        ck_assert_str_eq(out, cases[i][1]);
    }
    char small[12];
    error_hide_quoted("a long sentence without any", small, sizeof small);
    ck_assert_str_eq(small, "a long sent");
}
END_TEST

/* ---- repeats ---- */

/* What is written, by its text: fields of one are its number. */
static bool note(uint64_t key, int64_t now_ms, const char *fields) {
    return log_repeats_note(log_event_find("fenced"), LOG_WARN, key, now_ms, fields, strlen(fields));
}

START_TEST(windows) {
    struct log_repeat r;
    log_repeats_init(1000);
    for (int i = 0; i < REPEATS_WRITTEN; i++)
        ck_assert(note(1, 100 + i, ",\"n\":1"));
    ck_assert(!note(1, 110, ",\"n\":6"));
    ck_assert(!note(1, 120, ",\"n\":7"));
    ck_assert(note(2, 120, "")); /* another */
    ck_assert(!log_repeats_take(1099, false, &r));
    ck_assert(log_repeats_take(1100, false, &r));
    ck_assert_uint_eq(r.repeated, 2);
    ck_assert_int_eq(r.since_ms, 100);
    ck_assert_msg(r.len == 6 && memcmp(r.fields, ",\"n\":7", 6) == 0, "not the last one's fields");
    ck_assert(!log_repeats_take(1100, false, &r));
    /* while it goes on, once a window */
    ck_assert(!note(1, 1200, ",\"n\":8"));
    ck_assert(!log_repeats_take(2099, false, &r));
    ck_assert(!note(1, 2500, ",\"n\":9")); /* its window's end has passed, and wasn't told yet */
    ck_assert(log_repeats_take(2600, false, &r));
    ck_assert_uint_eq(r.repeated, 2);
    ck_assert_int_eq(r.since_ms, 1100);
    /* after a window without any it begins anew */
    ck_assert(!log_repeats_take(3600, false, &r));
    for (int i = 0; i < REPEATS_WRITTEN; i++)
        ck_assert(note(1, 3600, ""));
    ck_assert(!note(1, 3600, ""));
    ck_assert(log_repeats_take(3601, true, &r)); /* at the end */
    ck_assert_uint_eq(r.repeated, 1);
    ck_assert(!log_repeats_take(3601, true, &r));
}
END_TEST

START_TEST(told_later) {
    struct log_repeat r;
    log_repeats_init(1000);
    for (int i = 0; i < REPEATS_WRITTEN + 3; i++)
        note(1, 0, "");
    ck_assert(log_repeats_take(1000, false, &r));
    ck_assert(!note(1, 1500, ""));
    ck_assert(log_repeats_put_back(&r));
    ck_assert(log_repeats_take(2000, false, &r));
    ck_assert_uint_eq(r.repeated, 4);
    ck_assert_int_eq(r.since_ms, 0);
    ck_assert(!log_repeats_take(2000, true, &r));
}
END_TEST

/* More messages than there is room for: those without room are written, and the count is right all the same.
 */
START_TEST(more_than_fit) {
    struct log_repeat r;
    uint64_t written = 0, repeated = 0, calls = 0;
    char fields[REPEATS_TEXT_MAX + 2];
    memset(fields, 'x', sizeof fields);
    log_repeats_init(1000);
    for (int64_t now = 0; now < 5000; now += 100) {
        for (uint64_t key = 0; key < REPEATS_MESSAGES * 2; key++) {
            for (int i = 0; i < 10; i++, calls++)
                written +=
                    log_repeats_note(log_event_find("fenced"), LOG_WARN, key, now, fields, sizeof fields);
        }
        while (log_repeats_take(now, false, &r)) {
            ck_assert_uint_eq(r.len, 0); /* too long to be kept */
            repeated += r.repeated;
        }
    }
    while (log_repeats_take(5000, true, &r))
        repeated += r.repeated;
    ck_assert_uint_gt(repeated, calls / 3);
    ck_assert_uint_eq(written + repeated, calls);
}
END_TEST

#define FLOOD_THREADS 4
#define FLOOD_CALLS 20000
static atomic_int flooding;

static void *flood(void *arg) {
    const struct error err = {.area = ERROR_MYSQL, .code = *(int *)arg % 2 ? 1406 : 1366, .text = "no"};
    for (int i = 0; i < FLOOD_CALLS; i++)
        LOG(LOG_ERROR, "event_refused", LOG_S("event_id", "an-id"), LOG_I("offset", i), LOG_E(&err));
    atomic_fetch_sub(&flooding, 1);
    return NULL;
}

/* Lines and what they say was repeated, of a flood; progress lines stand for themselves. */
static json_int_t read_flood(char *text, int *lines) {
    json_int_t sum = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) && *line; (*lines)++) {
        json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL), *repeated;
        ck_assert_msg(o != NULL, "not JSON: %s", line);
        repeated = json_object_get(o, "repeated");
        ck_assert_int_eq(repeated != NULL, json_object_get(o, "over_ms") != NULL);
        ck_assert(!repeated || json_integer_value(repeated) > 0);
        sum += repeated ? json_integer_value(repeated) : 1;
        json_decref(o);
    }
    free(text);
    return sum;
}

/* Threads that say the same while another tells what was counted: of all calls each is written, counted or
 * lost. */
static void flood_into(int fd, int64_t window_ms) {
    int numbers[FLOOD_THREADS];
    pthread_t all[FLOOD_THREADS];
    log_init(fd, LOG_INFO);
    log_collapse(window_ms);
    atomic_store(&flooding, FLOOD_THREADS);
    for (int i = 0; i < FLOOD_THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&all[i], NULL, flood, &numbers[i]), 0);
    }
    while (atomic_load(&flooding))
        log_tick();
    for (int i = 0; i < FLOOD_THREADS; i++)
        pthread_join(all[i], NULL);
    log_flush();
}

START_TEST(flood_of_threads) {
    char path[] = "/tmp/tallyd-log-XXXXXX";
    int fd = mkstemp(path), lines = 0;
    ck_assert_int_ge(fd, 0);
    unlink(path);
    flood_into(fd, _i);
    lseek(fd, 0, SEEK_SET);
    json_int_t told = read_flood(read_all(fd), &lines);
    ck_assert_int_eq(told + (json_int_t)log_lost(), FLOOD_THREADS * FLOOD_CALLS);
    if (_i >= 60000) /* within one window: two messages, and a line with the rest of each */
        ck_assert_int_eq(lines, 2 * (REPEATS_WRITTEN + 1));
}
END_TEST

START_TEST(flood_that_cant_be_written) {
    flood_into(open("/dev/full", O_WRONLY), 2);
    ck_assert_uint_eq(log_lost(), FLOOD_THREADS * FLOOD_CALLS);
}
END_TEST

/* Lines whose event doesn't collapse, or that nobody knows, are all written. */
START_TEST(never_collapsed) {
    int ends[2], lines = 0;
    ck_assert_int_eq(pipe(ends), 0);
    log_init(ends[1], LOG_INFO);
    log_collapse(60000);
    for (int i = 0; i < 30; i++) {
        LOG(LOG_INFO, "started", LOG_I("workers", 1));
        LOG(LOG_ERROR, "partition_stopped", LOG_I("partition", 1));
        LOG(LOG_WARN, "not_in_the_table", LOG_I("n", 1));
    }
    log_flush();
    ck_assert_int_eq(read_flood(read_all(ends[0]), &lines), 90);
    ck_assert_int_eq(lines, 90);
}
END_TEST

START_TEST(levels) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    log_init(ends[1], LOG_WARN);
    ck_assert_int_eq(log_level(), LOG_WARN);
    ck_assert(!log_enabled(LOG_INFO) && log_enabled(LOG_WARN));
    log_set_level(LOG_DEBUG);
    ck_assert(log_enabled(LOG_DEBUG));
    log_set_level(LOG_ERROR);
    ck_assert(!log_enabled(LOG_WARN) && log_enabled(LOG_ERROR));
    for (int i = LOG_DEBUG; i <= LOG_ERROR; i++) {
        enum log_level parsed;
        ck_assert(log_level_parse(log_level_name((enum log_level)i), &parsed) && (int)parsed == i);
    }
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
    tcase_add_test(tc, nothing_unescaped);
    tcase_add_test(tc, optional_fields);
    tcase_add_test(tc, hidden_quotes);
    tcase_add_test(tc, windows);
    tcase_add_test(tc, told_later);
    tcase_add_test(tc, more_than_fit);
    tcase_add_loop_test(tc, flood_of_threads, 1, 4);
    tcase_add_loop_test(tc, flood_of_threads, 60000, 60001);
    tcase_add_test(tc, flood_that_cant_be_written);
    tcase_add_test(tc, never_collapsed);
    tcase_add_test(tc, levels);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
