/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"

/* A clock that somebody keeps is within a second, so more is worth a look. A minute means that nobody does;
 * it's a fifth of how far an event may lie ahead of its record's timestamp (event.max_future_ms), and about
 * what a lease or a key near its expiry could be wrong by without harm. */
#define CLOCK_WARN_MS 1000
#define CLOCK_FAIL_MS 60000

const char *check_status_name(enum check_status s) {
    static const char *const names[] = {"ok", "warn", "fail", "skipped"};
    return names[s];
}

const char *check_area_name(enum check_area a) {
    static const char *const names[] = {"config", "kafka", "redis", "mysql", "mysql"};
    return names[a];
}

void check_add(struct check_report *r, struct check_item item, const char *fmt, ...) {
    struct buf text = {0};
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    buf_str(&text, line);
    item.text = text.data;
    r->items = mem_realloc(r->items, (r->count + 1) * sizeof *r->items);
    r->items[r->count++] = item;
    if (r->each)
        r->each(&item, r->ctx);
}

/* Without the area's name in front, which the item has already. */
static const char *sentence(const struct error *err) {
    const char *area = error_area_name(err->area);
    size_t len = strlen(area);
    return strncmp(err->text, area, len) == 0 && strncmp(err->text + len, ": ", 2) == 0 ? err->text + len + 2
                                                                                        : err->text;
}

void check_add_error(struct check_report *r, enum check_area area, const char *name, const struct error *err,
                     const char *hint) {
    if (err->area == ERROR_CONFIG)
        area = CHECK_CONFIG;
    check_add(r, (struct check_item){.area = area, .status = CHECK_FAIL, .name = name, .hint = hint}, "%s",
              sentence(err));
}

const struct check_item *check_first_failure(const struct check_report *r) {
    for (size_t i = 0; i < r->count; i++) {
        if (r->items[i].status == CHECK_FAIL)
            return &r->items[i];
    }
    return NULL;
}

void check_report_free(struct check_report *r) {
    for (size_t i = 0; i < r->count; i++) {
        free(r->items[i].text);
        json_decref(r->items[i].figures);
    }
    free(r->items);
    *r = (struct check_report){0};
}

int64_t check_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void check_clock(struct check_report *r, enum check_area area, int64_t before, int64_t server,
                 int64_t after) {
    int64_t ahead = server - (before + (after - before) / 2);
    /* What the question itself took may all be the way there or the way back: no reproach out of that. */
    int64_t surely = llabs((long long)ahead) - (after - before + 1) / 2;
    struct check_item item = {
        .area = area,
        .name = "clock",
        .status = surely > CLOCK_FAIL_MS   ? CHECK_FAIL
                  : surely > CLOCK_WARN_MS ? CHECK_WARN
                                           : CHECK_OK,
        .figures = json_pack("{s:I}", "aheadMs", (json_int_t)ahead),
    };
    if (item.status != CHECK_OK)
        item.hint = "keep both clocks by NTP";
    check_add(r, item, "%lld ms %s ours", llabs((long long)ahead), ahead < 0 ? "behind" : "ahead of");
}

bool check_version_parse(const char *text, int *major, int *minor) {
    char *end;
    long a = strtol(text, &end, 10);
    if (end == text || *end != '.')
        return false;
    const char *second = end + 1;
    long b = strtol(second, &end, 10);
    if (end == second || a < 0 || a > 9999 || b < 0 || b > 9999)
        return false;
    *major = (int)a;
    *minor = (int)b;
    return true;
}

bool check_version_reaches(const char *text, int major, int minor) {
    int a, b;
    return check_version_parse(text, &a, &b) && (a > major || (a == major && b >= minor));
}

void check_all(const struct config *cfg, struct check_report *r) {
    check_kafka(cfg, r);
    check_redis(cfg, r);
    check_mysql(cfg, r);
}
