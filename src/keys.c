/* SPDX-License-Identifier: MIT */
#include "keys.h"

#include <string.h>

static void family_prefix(struct buf *out, int64_t family) {
    buf_str(out, "family:");
    buf_i64(out, family);
}

static void customer_prefix(struct buf *out, int64_t family, int64_t customer) {
    family_prefix(out, family);
    buf_str(out, ":customer:");
    buf_i64(out, customer);
}

void key_info(struct buf *out, int64_t family, int32_t month) {
    family_prefix(out, family);
    buf_str(out, ":info:");
    buf_i64(out, month);
}

void key_remaining(struct buf *out, int64_t family, int32_t month) {
    family_prefix(out, family);
    buf_str(out, ":remaining:");
    buf_i64(out, month);
}

void key_members(struct buf *out, int64_t family) {
    family_prefix(out, family);
    buf_str(out, ":members");
}

void key_usage(struct buf *out, int64_t family, int64_t customer, int32_t month) {
    customer_prefix(out, family, customer);
    buf_str(out, ":usage:monthly:");
    buf_i64(out, month);
}

void key_constraints(struct buf *out, int64_t family, int64_t customer) {
    customer_prefix(out, family, customer);
    buf_str(out, ":constraints");
}

void key_alert(struct buf *out, int64_t family, int64_t customer, const char *kind, int32_t month) {
    customer_prefix(out, family, customer);
    buf_str(out, ":alert:");
    buf_str(out, kind);
    buf_char(out, ':');
    buf_i64(out, month);
}

void key_dedup(struct buf *out, const char *event_id) {
    buf_str(out, "event:dedup:usage:");
    buf_percent(out, event_id, strlen(event_id));
}

static const char *const status_names[] = {
    "NORMAL",
    "WARNING_",
    "MANUAL",
    "APP_BLOCK",
    "TIME_BLOCK",
    "MONTHLY_LIMIT_EXCEEDED",
    "FAMILY_QUOTA_EXCEEDED",
};

void decision_status_name(struct buf *out, const struct decision *d) {
    buf_str(out, status_names[d->status]);
    if (d->status == STATUS_WARNING)
        buf_i64(out, d->threshold);
}

const char *decision_block_name(const struct decision *d) {
    return status_names[d->status];
}

bool decision_alert_name(struct buf *out, const struct decision *d, const struct usage_event *u) {
    switch (d->status) {
    case STATUS_NORMAL:
        return false;
    case STATUS_WARNING:
        buf_str(out, "THRESHOLD:");
        buf_i64(out, d->threshold);
        return true;
    case STATUS_APP_BLOCK:
        buf_str(out, "APP_BLOCK:");
        buf_percent(out, u->app, strlen(u->app));
        return true;
    default:
        buf_str(out, status_names[d->status]);
        return true;
    }
}
