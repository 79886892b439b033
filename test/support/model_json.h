/* SPDX-License-Identifier: MIT */
/* The reference model's own reader of JSON (CONTRACT §1.1): slow, strict and
 * shared with nobody, so that what a library lets pass is noticed. */
#ifndef MODEL_JSON_H
#define MODEL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mj_kind { MJ_NULL, MJ_FALSE, MJ_TRUE, MJ_INTEGER, MJ_REAL, MJ_TEXT, MJ_LIST, MJ_OBJECT };

struct mj {
    enum mj_kind kind;
    int64_t number; /* MJ_INTEGER */
    char *text;     /* MJ_TEXT, NUL-terminated; it holds no NUL itself */
    size_t len;
    char **names; /* MJ_OBJECT: a member's name */
    struct mj **items;
    size_t count; /* MJ_LIST, MJ_OBJECT */
};

/* One whole document, at most 32 levels deep; NULL when it is none. The caller frees it with mj_free. */
struct mj *mj_parse(const char *s, size_t len);
void mj_free(struct mj *value);
/* An object's member, or NULL: absent, or `value` is no object. */
const struct mj *mj_member(const struct mj *value, const char *name);

#endif
