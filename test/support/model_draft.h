/* SPDX-License-Identifier: MIT */
/* A usage event while it is being written: each member as the JSON text that
 * will stand there, so that any of them can be spoilt. */
#ifndef MODEL_DRAFT_H
#define MODEL_DRAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* Numbers drawn from a seed, the same on every machine. */
struct model_dice {
    uint64_t state;
};
/* 0 … n−1. */
int64_t dice(struct model_dice *d, int64_t n);
bool dice_percent(struct model_dice *d, int percent);

enum {
    DRAFT_TYPE,
    DRAFT_ID,
    DRAFT_TIME,
    DRAFT_FAMILY,
    DRAFT_CUSTOMER,
    DRAFT_BYTES,
    DRAFT_APP,
    DRAFT_MEMBERS
};

struct model_draft {
    char *member[DRAFT_MEMBERS]; /* JSON text; NULL: the member isn't there. Owned */
    char *payload;               /* stands in place of the payload object; NULL: the object. Owned */
    bool no_payload;
    char *extra; /* another member of the document, "\"x\":1"; NULL: none. Owned */
};

/* Replaces a member's text; NULL takes it away. Takes over `json`. */
void draft_set(struct model_draft *d, int member, char *json);
void draft_free(struct model_draft *d);
/* The document, its members in any order, with white space or without. */
void draft_write(struct model_dice *d, const struct model_draft *draft, struct buf *out);
/* Text as JSON, some characters escaped though they needn't be. New. */
char *draft_text(struct model_dice *d, const char *text);
/* printf into a new string. */
char *draft_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The instant in one of the forms of the contract, quoted. New. */
char *draft_time(struct model_dice *d, int64_t t_ms);

/* Spoils one member so that it's an INVALID_FIELD (or takes the event's type away, which is none). */
void draft_spoil(struct model_dice *d, struct model_draft *draft);
/* Spoils the finished document so that it is MALFORMED_JSON or EVENT_TOO_LARGE. */
void draft_break(struct model_dice *d, struct buf *value);

#endif
