/* SPDX-License-Identifier: MIT */
/* The notification's bytes (CONTRACT §1.3) and the message catalogues. Pure:
 * the catalogue's text is handed in. */
#ifndef TALLYD_NOTIFICATION_H
#define TALLYD_NOTIFICATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "error.h"
#include "event.h"

/* One catalogue, of one locale: a title and a message a kind, with placeholders. */
struct messages;

/* Reads a catalogue (YAML, see config/messages.en.yaml). `name` is the file's
 * name for errors ("name:line: key: reason"). Every kind must be there, unknown
 * kinds and placeholders are errors. NULL with a config error when it can't be
 * used. The caller frees it with messages_free. Immutable, so threads share it. */
struct messages *messages_parse(const char *name, const char *yaml, size_t len, struct error *err)
    __attribute__((warn_unused_result));
void messages_free(struct messages *m);

/* What is told. Figures are those the decision was made on, after it. */
struct notification {
    const struct usage_event *event;
    const char *status;  /* "WARNING_50", "MANUAL", "APP_BLOCK", … (CONTRACT §2) */
    int threshold;       /* percent left for a threshold alert, 0 for a block */
    int64_t total_bytes; /* the family's total */
    int64_t remaining_bytes;
    int64_t monthly_used_bytes;
    int64_t monthly_limit_bytes; /* -1: none */
};

/* Appends the outbox row's payload_json: members in CONTRACT §1.3's order, no
 * white space, UTF-8 unescaped. */
void notification_payload(struct buf *out, const struct messages *m, const struct notification *n);

/* Appends the record's value: the envelope around a payload taken over to the byte. */
void notification_envelope(struct buf *out, const char *event_id, int64_t created_at_ms, const char *payload,
                           size_t payload_len);

#endif
