/* SPDX-License-Identifier: MIT */
/* An error is a value: what failed, what the caller may do about it, whether
 * the effect happened, and one sentence. Classifiers in kafka.c, redis.c and
 * mysql.c turn vendor codes into it; nobody else looks at those codes. */
#ifndef TALLYD_ERROR_H
#define TALLYD_ERROR_H

#include <stdbool.h>
#include <stddef.h>

enum error_area {
    ERROR_NONE, /* no error recorded */
    ERROR_CONFIG,
    ERROR_KAFKA,
    ERROR_REDIS,
    ERROR_MYSQL,
    ERROR_EVENT,
    ERROR_INTERNAL,
};

enum error_action {
    ERROR_RETRY,  /* the same call may succeed later; nothing wrong with its data */
    ERROR_REJECT, /* the data can't be taken, now or later */
    ERROR_STOP,   /* neither: somebody has to look */
};

enum error_effect {
    ERROR_NOT_DONE, /* nothing changed on the other side */
    ERROR_DONE,     /* it happened although the call failed */
    ERROR_UNKNOWN,  /* the answer was lost: it may have happened */
};

struct error {
    enum error_area area;
    enum error_action action;
    enum error_effect effect;
    int code; /* the vendor's number, 0 when there is none */
    char text[512];
};

/* Records an error. The first one wins: a set error is left as it is, so that
 * cleanup paths can't hide the cause. `e` may be NULL. Always returns false,
 * for `return error_set(…)`. */
bool error_set(struct error *e, enum error_area area, enum error_action action, enum error_effect effect,
               int code, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* Forgets what was recorded. */
void error_clear(struct error *e);

/* Puts "prefix: " before the recorded sentence, as a caller knows more. */
void error_prefix(struct error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A store's message without what it quotes, which may be a record's data: from its first quotation mark (not
 * a word's apostrophe) to its last, since a value may hold some itself; "…" stands for it. Cut to `size`. */
void error_hide_quoted(const char *text, char *out, size_t size);

/* Stable lower-case names for logs. */
const char *error_area_name(enum error_area a);
const char *error_action_name(enum error_action a);

#endif
