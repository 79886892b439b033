/* SPDX-License-Identifier: MIT */
/* What `tallyd check` finds out about the dependencies: one item a finding, each
 * with its figures. All of them are looked at, whichever fails; every question is
 * bounded in time, and nothing is written anywhere. */
#ifndef TALLYD_CHECK_H
#define TALLYD_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "error.h"

enum check_status {
    CHECK_OK,
    CHECK_WARN,    /* tallyd runs, and somebody should look */
    CHECK_FAIL,    /* tallyd doesn't start, or doesn't keep its promises */
    CHECK_SKIPPED, /* can't be found out, and the text says why */
};
const char *check_status_name(enum check_status s);

/* In the order in which they are looked at. */
enum check_area { CHECK_CONFIG, CHECK_KAFKA, CHECK_REDIS, CHECK_MYSQL, CHECK_SCHEMA };
const char *check_area_name(enum check_area a);

struct check_item {
    enum check_area area;
    enum check_status status;
    const char *name; /* static */
    char *text;       /* owned; the figure, or what is wrong */
    const char *hint; /* static; what to do, or NULL */
    json_t *figures;  /* owned; an object, or NULL */
};

struct check_report {
    void (*each)(const struct check_item *item, void *ctx); /* called as soon as it's known; may be NULL */
    void *ctx;
    struct check_item *items; /* owned */
    size_t count;
};

/* Adds an item: takes over `figures`, sets `text` from the format. */
void check_add(struct check_report *r, struct check_item item, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds the failure that an error is. */
void check_add_error(struct check_report *r, enum check_area area, const char *name, const struct error *err,
                     const char *hint);
/* The first that failed; NULL when all is well. */
const struct check_item *check_first_failure(const struct check_report *r);
void check_report_free(struct check_report *r);

/* One answer may take so long, whatever the configuration says: somebody waits in front of the screen. */
#define CHECK_ANSWER_MS 5000

/* Each looks at one of them and adds its items. */
void check_kafka(const struct config *cfg, struct check_report *r);
void check_redis(const struct config *cfg, struct check_report *r);
void check_mysql(const struct config *cfg, struct check_report *r);
/* All three, and the clock against each. */
void check_all(const struct config *cfg, struct check_report *r);

/* Adds how a server's clock stands to ours. `before` and `after` are ours around
 * the question, in ms since 1970: the answer was made somewhere between. */
void check_clock(struct check_report *r, enum check_area area, int64_t before, int64_t server, int64_t after);
/* Milliseconds since 1970. */
int64_t check_now_ms(void);
/* The first two numbers of a version text, "10.11.6-MariaDB" → 10, 11; false when it doesn't begin so. Pure.
 */
bool check_version_parse(const char *text, int *major, int *minor);
/* Whether it's at least that. */
bool check_version_reaches(const char *text, int major, int minor);

#endif
