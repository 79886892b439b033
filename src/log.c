/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "buf.h"

static int log_fd = STDERR_FILENO;
static enum log_level log_lowest = LOG_INFO;
static atomic_uint_fast64_t lines_lost;

void log_init(int fd, enum log_level lowest) {
    log_fd = fd;
    log_lowest = lowest;
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

void log_write(enum log_level level, const char *event, const struct log_field *fields) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm tm;
    gmtime_r(&now.tv_sec, &tm);
    char stamp[40];
    size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    stamp[n] = '\0';
    struct buf line = {0};
    buf_printf(&line, "{\"ts\":\"%s.%03ldZ\",\"level\":\"%s\",\"event\":\"%s\"", stamp, now.tv_nsec / 1000000,
               names[level], event);
    for (; fields->name; fields++)
        append_field(&line, fields);
    buf_str(&line, "}\n");
    ssize_t written;
    do
        written = write(log_fd, line.data, line.len);
    while (written < 0 && errno == EINTR);
    if (written != (ssize_t)line.len)
        atomic_fetch_add(&lines_lost, 1);
    buf_free(&line);
}
