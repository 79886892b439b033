/* SPDX-License-Identifier: MIT */
/* The last few alerts and rejections, for the page an operator keeps open. Any thread. */
#ifndef TALLYD_RECENT_H
#define TALLYD_RECENT_H

#include <stddef.h>
#include <stdint.h>

#include "event.h"

#define RECENT_MAX 20

enum recent_kind { RECENT_ALERT, RECENT_REJECTION, RECENT_KINDS };

struct recent_item {
    int64_t at_ms;                   /* since 1970: when it was stored, or rejected */
    char what[64];                   /* an alert's kind as in alert_state, cut; a rejection's code */
    int64_t family_id, customer_id;  /* 0: not known */
    char event_id[EVENT_ID_MAX + 1]; /* "" when not known */
    char message[EVENT_MESSAGE_MAX]; /* a rejection's; never quotes the body */
    int32_t partition;
    int64_t offset; /* of the event's record */
};

struct recent; /* opaque; owned by whoever made it */

struct recent *recent_new(void);
void recent_free(struct recent *r);
/* Copies the item; the oldest of its kind goes. */
void recent_add(struct recent *r, enum recent_kind kind, const struct recent_item *item);
/* Copies the newest first, at most `max`; returns how many. */
size_t recent_list(struct recent *r, enum recent_kind kind, struct recent_item *out, size_t max);

#endif
