/* SPDX-License-Identifier: MIT */
/* Names of Redis keys and alerts (CONTRACT §2 "Once", §3). Pure. */
#ifndef TALLYD_KEYS_H
#define TALLYD_KEYS_H

#include <stdint.h>

#include "batch.h"
#include "buf.h"

/* Each appends one key. */
void key_info(struct buf *out, int64_t family, int32_t month);
void key_remaining(struct buf *out, int64_t family, int32_t month);
void key_members(struct buf *out, int64_t family);
void key_usage(struct buf *out, int64_t family, int64_t customer, int32_t month);
void key_constraints(struct buf *out, int64_t family, int64_t customer);
/* `kind` is an alert's name as below, percent-encoded already where it must be. */
void key_alert(struct buf *out, int64_t family, int64_t customer, const char *kind, int32_t month);
void key_dedup(struct buf *out, const char *event_id);

/* "MANUAL", "WARNING_50", … */
void decision_status_name(struct buf *out, const struct decision *d);
/* The status of a decision that isn't allowed. */
const char *decision_block_name(const struct decision *d);
/* The alert a decision calls for: "THRESHOLD:50", "APP_BLOCK:com.game", …; false when it calls for none. */
bool decision_alert_name(struct buf *out, const struct decision *d, const struct usage_event *u);

#endif
