/* SPDX-License-Identifier: MIT */
/* Nobody who logs may be held up by whoever reads the log. Waiting for room first
 * wouldn't do: others that write to the same pipe may take it in between. And
 * O_NONBLOCK on the descriptor as it was handed to us would be set for them as well:
 * it belongs to the open file, not to the process. So a pipe or a terminal is opened
 * anew, which gives a file description of our own; a socket is asked a call at a time. */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"

#define LINE_MAX_BYTES PIPE_BUF /* a pipe takes that much whole or not at all */
/* Of 1 ms: should a write hang after all, it holds up one thread for good, not all. */
#define LOCK_TRIES 100

static enum log_level log_lowest = LOG_INFO;
static atomic_uint_fast64_t lines_lost;
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
/* Under sink_lock. */
static struct {
    int fd;
    bool own; /* opened here, and so ours to close */
    bool socket;
    bool wait_for_room;        /* a write could wait: only when poll says that it won't */
    uint64_t told;             /* of the lost lines */
    char rest[LINE_MAX_BYTES]; /* of a line that was taken in part: it goes before the next */
    size_t rest_len;
} sink = {.fd = STDERR_FILENO};

/* The pipe or terminal behind `fd` by a description of our own that never waits; -1 where that can't be. */
static int open_anew(int fd, const struct stat *st) {
    char path[40];
    if (!S_ISFIFO(st->st_mode) && !(S_ISCHR(st->st_mode) && isatty(fd)))
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void log_init(int fd, enum log_level lowest) {
    struct stat st = {0};
    log_lowest = lowest;
    if (sink.own)
        close(sink.fd);
    int own = fstat(fd, &st) == 0 ? open_anew(fd, &st) : -1;
    sink.own = own >= 0;
    sink.fd = sink.own ? own : fd;
    sink.socket = S_ISSOCK(st.st_mode);
    sink.wait_for_room = !sink.own && !sink.socket;
    sink.rest_len = 0;
}

bool log_enabled(enum log_level level) {
    return level >= log_lowest;
}

uint64_t log_lost(void) {
    return atomic_load(&lines_lost);
}

bool log_level_parse(const char *word, enum log_level *out) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(word, names[i]) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

/* Length of the UTF-8 sequence at s, 0 when it isn't one. Vendors' messages are not ours to trust. */
static size_t utf8_sequence(const unsigned char *s) {
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
               : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
               : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    }
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool outside = (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF4 && s[1] > 0x8F);
    return overlong || outside ? 0 : n;
}

static void append_json_string(struct buf *b, const char *text) {
    buf_char(b, '"');
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t n = utf8_sequence(s);
        if (n == 0) {
            buf_str(b, "\\ufffd");
            n = 1;
        } else if (*s == '"' || *s == '\\') {
            buf_char(b, '\\');
            buf_char(b, (char)*s);
        } else if (*s < 0x20) {
            buf_printf(b, "\\u%04x", *s);
        } else {
            buf_append(b, s, n);
        }
        s += n;
    }
    buf_char(b, '"');
}

static void append_name(struct buf *b, const char *name) {
    buf_str(b, ",\"");
    buf_str(b, name);
    buf_str(b, "\":");
}

static void append_error(struct buf *b, const struct error *e) {
    buf_printf(b, ",\"error_area\":\"%s\",\"error_action\":\"%s\",\"error_code\":%d,\"error\":",
               error_area_name(e->area), error_action_name(e->action), e->code);
    append_json_string(b, e->text);
}

static void append_field(struct buf *b, const struct log_field *f) {
    if (f->kind == LOG_FIELD_ERROR) {
        append_error(b, f->text);
        return;
    }
    append_name(b, f->name);
    if (f->kind == LOG_FIELD_INT)
        buf_i64(b, f->number);
    else if (f->kind == LOG_FIELD_BOOL)
        buf_str(b, f->number ? "true" : "false");
    else if (f->text)
        append_json_string(b, f->text);
    else
        buf_str(b, "null");
}

/* How many bytes were taken, without waiting for the reader. */
static size_t sink_take(const char *data, size_t len) {
    struct pollfd room = {.fd = sink.fd, .events = POLLOUT};
    if (sink.wait_for_room && (poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT)))
        return 0;
    ssize_t n;
    do
        n = sink.socket ? send(sink.fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL) : write(sink.fd, data, len);
    while (n < 0 && errno == EINTR);
    return n > 0 ? (size_t)n : 0;
}

/* False when nothing of the line was taken; the rest of one that was is kept. */
static bool sink_put(const char *line, size_t len) {
    if (sink.rest_len) {
        size_t taken = sink_take(sink.rest, sink.rest_len);
        sink.rest_len -= taken;
        memmove(sink.rest, sink.rest + taken, sink.rest_len);
        if (sink.rest_len)
            return false;
    }
    size_t taken = sink_take(line, len);
    if (taken == 0)
        return false;
    sink.rest_len = len - taken;
    memcpy(sink.rest, line + taken, sink.rest_len);
    return true;
}

static bool lock_sink(void) {
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (pthread_mutex_trylock(&sink_lock) == 0)
            return true;
        clock_sleep_ms(1);
    }
    return false;
}

static void begin_line(struct buf *line, enum log_level level, const char *event) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm tm;
    gmtime_r(&now.tv_sec, &tm);
    char stamp[40];
    size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    stamp[n] = '\0';
    buf_printf(line, "{\"ts\":\"%s.%03ldZ\",\"level\":\"%s\",\"event\":\"%s\"", stamp, now.tv_nsec / 1000000,
               names[level], event);
}

/* Says how many lines were lost since that was last said; false when it can't be said either. */
static bool tell_lost(void) {
    uint64_t lost = log_lost();
    if (lost == sink.told)
        return true;
    struct buf line = {0};
    begin_line(&line, LOG_WARN, "log_lines_lost");
    buf_printf(&line, ",\"lines\":%llu,\"since_start\":%llu}\n", (unsigned long long)(lost - sink.told),
               (unsigned long long)lost);
    bool told = sink_put(line.data, line.len);
    if (told)
        sink.told = lost;
    buf_free(&line);
    return told;
}

static void write_line(const struct buf *line) {
    bool written = false;
    if (lock_sink()) {
        written = tell_lost() && sink_put(line->data, line->len);
        pthread_mutex_unlock(&sink_lock);
    }
    if (!written)
        atomic_fetch_add(&lines_lost, 1);
}

void log_write(enum log_level level, const char *event, const struct log_field *fields) {
    static const char cut[] = ",\"cut\":true", end[] = "}\n";
    struct buf line = {0};
    begin_line(&line, level, event);
    for (; fields->name; fields++) {
        size_t before = line.len;
        append_field(&line, fields);
        if (line.len + sizeof cut + sizeof end > LINE_MAX_BYTES) {
            line.len = before;
            buf_str(&line, cut);
            break;
        }
    }
    buf_str(&line, end);
    write_line(&line);
    buf_free(&line);
}
