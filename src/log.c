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
#include "digest.h"
#include "log_repeats.h"
#include "utf8.h"

#define LINE_MAX_BYTES PIPE_BUF /* a pipe takes that much whole or not at all */
/* Of 1 ms: should a write hang after all, it holds up one thread for good, not all. */
#define LOCK_TRIES 100

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static atomic_int log_lowest = LOG_INFO;
static atomic_bool collapsing;
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
    log_set_level(lowest);
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
    return (int)level >= atomic_load_explicit(&log_lowest, memory_order_relaxed);
}

void log_set_level(enum log_level lowest) {
    atomic_store(&log_lowest, (int)lowest);
}

enum log_level log_level(void) {
    return (enum log_level)atomic_load(&log_lowest);
}

const char *log_level_name(enum log_level level) {
    return level_names[level];
}

uint64_t log_lost(void) {
    return atomic_load(&lines_lost);
}

bool log_level_parse(const char *word, enum log_level *out) {
    for (int i = 0; i < 4; i++) {
        if (strcmp(word, level_names[i]) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

static void append_json_string(struct buf *b, const char *text) {
    buf_char(b, '"');
    for (const char *s = text; *s;) {
        size_t n = utf8_sequence(s);
        if (n == 0) {
            buf_str(b, "\\ufffd");
            n = 1;
        } else if (*s == '"' || *s == '\\') {
            buf_char(b, '\\');
            buf_char(b, *s);
        } else if (*s >= 0x20 && *s < 0x7F) {
            buf_char(b, *s);
        } else if (utf8_is_unseen(utf8_code_point(s, n))) {
            utf8_json_escape(b, utf8_code_point(s, n));
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
    if (f->kind == LOG_FIELD_OPTIONAL && !f->text)
        return;
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
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm tm;
    gmtime_r(&now.tv_sec, &tm);
    char stamp[40];
    size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    stamp[n] = '\0';
    buf_printf(line, "{\"ts\":\"%s.%03ldZ\",\"level\":\"%s\",\"event\":\"%s\"", stamp, now.tv_nsec / 1000000,
               level_names[level], event);
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

/* False when it couldn't be; the caller counts it. */
static bool write_line(const struct buf *line) {
    bool written = false;
    if (lock_sink()) {
        written = tell_lost() && sink_put(line->data, line->len);
        pthread_mutex_unlock(&sink_lock);
    }
    return written;
}

static void end_line(struct buf *line) {
    buf_str(line, "}\n");
}

/* Those that have room, its end included. */
static void append_fields(struct buf *line, const struct log_field *fields) {
    static const char cut[] = ",\"cut\":true";
    for (; fields->name; fields++) {
        size_t before = line->len;
        append_field(line, fields);
        if (line->len + sizeof cut + sizeof "}\n" > LINE_MAX_BYTES) {
            line->len = before;
            buf_str(line, cut);
            return;
        }
    }
}

static uint64_t digest_field(uint64_t digest, const struct log_field *f) {
    if (f->kind == LOG_FIELD_ERROR) {
        const struct error *e = f->text;
        digest = digest_number(digest, (uint64_t)e->area);
        digest = digest_number(digest, (uint64_t)e->action);
        return digest_number(digest, (uint64_t)e->code);
    }
    if (f->kind == LOG_FIELD_INT || f->kind == LOG_FIELD_BOOL)
        return digest_number(digest, (uint64_t)f->number);
    return f->text ? digest_bytes(digest, f->text, strlen(f->text) + 1) : digest_number(digest, 256);
}

/* What makes it the same message as another of its event. */
static uint64_t key_of(const struct log_event *event, const struct log_field *fields) {
    uint64_t digest = DIGEST_START;
    for (; *event->same && fields->name; fields++) {
        size_t len = strlen(fields->name);
        for (const char *word = event->same; *word;) {
            size_t word_len = strcspn(word, " ");
            if (word_len == len && memcmp(word, fields->name, len) == 0)
                digest = digest_field(digest, fields);
            word += word_len + strspn(word + word_len, " ");
        }
    }
    return digest;
}

/* Whether the line, whose fields begin at `from`, is to be written now. */
static bool is_due(enum log_level level, const char *name, const struct log_field *fields,
                   const struct buf *line, size_t from) {
    if (level == LOG_DEBUG || !atomic_load_explicit(&collapsing, memory_order_relaxed))
        return true; /* who asks for that wants to see it all */
    const struct log_event *event = log_event_find(name);
    return !event || !event->same ||
           log_repeats_note(event, level, key_of(event, fields), clock_monotonic_ms(), line->data + from,
                            line->len - from);
}

void log_write(enum log_level level, const char *event, const struct log_field *fields) {
    struct buf line = {0};
    begin_line(&line, level, event);
    size_t from = line.len;
    append_fields(&line, fields);
    if (is_due(level, event, fields, &line, from)) {
        end_line(&line);
        if (!write_line(&line))
            atomic_fetch_add(&lines_lost, 1);
    }
    buf_free(&line);
}

/* ---- what was counted instead ---- */

static bool write_repeat(const struct log_repeat *r, int64_t now_ms) {
    struct buf line = {0};
    begin_line(&line, r->level, r->event->name);
    buf_append(&line, r->fields, r->len);
    buf_printf(&line, ",\"repeated\":%llu,\"over_ms\":%lld", (unsigned long long)r->repeated,
               (long long)(now_ms - r->since_ms));
    end_line(&line);
    bool written = write_line(&line);
    buf_free(&line);
    return written;
}

void log_collapse(int64_t window_ms) {
    log_repeats_init(window_ms);
    atomic_store(&collapsing, window_ms > 0);
}

void log_tick(void) {
    struct log_repeat r;
    if (!atomic_load(&collapsing))
        return;
    int64_t now_ms = clock_monotonic_ms();
    while (log_repeats_take(now_ms, false, &r)) {
        if (!write_repeat(&r, now_ms) && !log_repeats_put_back(&r))
            atomic_fetch_add(&lines_lost, r.repeated);
    }
}

void log_flush(void) {
    struct log_repeat r;
    if (!atomic_load(&collapsing))
        return;
    int64_t now_ms = clock_monotonic_ms();
    while (log_repeats_take(now_ms, true, &r)) {
        if (!write_repeat(&r, now_ms))
            atomic_fetch_add(&lines_lost, r.repeated);
    }
}
