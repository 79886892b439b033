/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "scenario_check.h"

#define MESSAGE_MAX 512
#define BODY_PART 24 /* that much of the body in a message is a quotation, less may be a name or a bound */

static bool same(const char *a, size_t a_len, const char *b, size_t b_len) {
    return !a == !b && a_len == b_len && (a_len == 0 || !a || !b || memcmp(a, b, a_len) == 0);
}

static bool printable(const struct sc_header *h) {
    for (size_t i = 0; i < h->len; i++) {
        if ((unsigned char)h->value[i] < 0x20 || (unsigned char)h->value[i] > 0x7e)
            return false;
    }
    return true;
}

static bool quotes_body(const char *message, const struct sc_line *line) {
    for (size_t i = 0; line->value && i + BODY_PART <= line->value_len; i++) {
        if (memmem(message, strlen(message), line->value + i, BODY_PART))
            return true;
    }
    return false;
}

/* The header's text; reports one that's missing, there twice or no plain ASCII, and then returns "". */
static const char *header(struct sc_check *c, const struct sc_record *r, const char *name) {
    const struct sc_header *h = sc_record_header(r, name);
    if (!h || !h->value) {
        sc_differ(&c->report, "DLT %d/%ld: expected one header %s, found none or several", r->partition,
                  r->offset, name);
        return "";
    }
    if (!printable(h))
        sc_differ(&c->report, "DLT %d/%ld header %s: expected printable ASCII, found %s", r->partition,
                  r->offset, name, h->value);
    return h->value;
}

static void header_is(struct sc_check *c, const struct sc_record *r, const char *name, const char *expected) {
    const char *found = header(c, r, name);
    if (strcmp(found, expected) != 0)
        sc_differ(&c->report, "DLT %d/%ld header %s: expected %s, found %s", r->partition, r->offset, name,
                  expected, found);
}

/* The headers the runner gave the record, in order, ahead of or among tallyd's. */
static void check_own_headers(struct sc_check *c, const struct sc_record *r, const struct sc_place *p) {
    static const char bytes[] = {0, (char)0xff, 'x'};
    char number[32];
    int len = snprintf(number, sizeof number, "%zu", p->line + 1);
    const struct sc_header own[] = {
        {.name = (char *)(uintptr_t) "scenario-line", .value = number, .len = (size_t)len},
        {.name = (char *)(uintptr_t) "scenario-bytes",
         .value = (char *)(uintptr_t)bytes,
         .len = sizeof bytes},
        {.name = (char *)(uintptr_t) "scenario-null", .value = NULL, .len = 0},
        {.name = (char *)(uintptr_t) "scenario-line", .value = number, .len = (size_t)len},
    };
    const size_t wanted = sizeof own / sizeof own[0];
    size_t found = 0;
    for (size_t i = 0; i < r->header_count; i++) {
        const struct sc_header *h = &r->headers[i];
        if (strncmp(h->name, "x-", 2) == 0)
            continue;
        if (found >= wanted || strcmp(h->name, own[found].name) != 0 ||
            !same(h->value, h->len, own[found].value, own[found].len)) {
            sc_differ(&c->report, "DLT of line %zu: expected the record's own headers, found %s in place %zu",
                      p->line + 1, h->name, found + 1);
            return;
        }
        found++;
    }
    if (found != wanted)
        sc_differ(&c->report, "DLT of line %zu: expected %zu headers of its own, found %zu", p->line + 1,
                  wanted, found);
}

static void check_message(struct sc_check *c, const struct sc_record *r, const struct sc_line *line,
                          size_t number, const char *field) {
    const char *message = header(c, r, "x-error-message");
    if (strlen(message) > MESSAGE_MAX)
        sc_differ(&c->report, "DLT of line %zu: expected a message of at most %d bytes, found %zu", number,
                  MESSAGE_MAX, strlen(message));
    if (!*message)
        sc_differ(&c->report, "DLT of line %zu: expected a message, found none", number);
    if (field && !strstr(message, field))
        sc_differ(&c->report, "DLT of line %zu: expected the member %s named, found message \"%s\"", number,
                  field, message);
    if (quotes_body(message, line))
        sc_differ(&c->report, "DLT of line %zu: expected nothing of the body, found message \"%s\"", number,
                  message);
}

/* The record itself: as it was received, byte for byte. */
static void check_record(struct sc_check *c, const struct sc_record *r, const struct sc_place *p) {
    const struct sc_line *line = &c->scenario->lines[p->line];
    size_t number = p->line + 1;
    char text[32];
    if (!same(r->key, r->key_len, line->key, line->key_len))
        sc_differ(&c->report, "DLT of line %zu: expected key %s, found %s", number,
                  line->key ? line->key : "null", r->key ? r->key : "null");
    if (!same(r->value, r->value_len, line->value, line->value_len))
        sc_differ(&c->report, "DLT of line %zu: expected value %.100s (%zu bytes), found %.100s (%zu bytes)",
                  number, line->value ? line->value : "null", line->value_len, r->value ? r->value : "null",
                  r->value_len);
    if (r->timestamp_ms != line->timestamp_ms || !r->create_time)
        sc_differ(&c->report, "DLT of line %zu: expected timestamp %ld, found %ld%s", number,
                  line->timestamp_ms, r->timestamp_ms, r->create_time ? "" : " of the broker's");
    snprintf(text, sizeof text, "%ld", line->timestamp_ms);
    header_is(c, r, "x-original-timestamp", text);
    header_is(c, r, "x-original-topic", c->state.usage_topic);
    header_is(c, r, "x-error-action", "DLQ");
    check_own_headers(c, r, p);
}

/* What expected.json says of a line, or NULL. */
static const json_t *rejection_of(const struct sc_check *c, size_t number) {
    size_t i;
    const json_t *row;
    json_array_foreach(sc_json_get(c->scenario->expected, "rejected"), i, row) {
        if ((size_t)sc_json_int(row, "line") == number)
            return row;
    }
    return NULL;
}

static void record_found(struct sc_check *c, const struct sc_record *r, json_t *seen, struct sc_rows *rows) {
    const char *partition = header(c, r, "x-original-partition");
    const char *offset = header(c, r, "x-original-offset");
    const struct sc_place *p =
        sc_places_find(&c->places, (int32_t)atoi(partition), strtoll(offset, NULL, 10));
    if (!p || !*partition || !*offset) {
        sc_differ(&c->report, "DLT %d/%ld: expected a record of the scenario, found one of %s/%s",
                  r->partition, r->offset, partition, offset);
        return;
    }
    const json_t *rejection = rejection_of(c, p->line + 1);
    const json_t *field = rejection ? json_object_get(rejection, "field") : NULL;
    check_record(c, r, p);
    check_message(c, r, &c->scenario->lines[p->line], p->line + 1, json_string_value(field));
    char key[64];
    snprintf(key, sizeof key, "line %zu copy %d", p->line + 1, p->copy);
    int64_t times = sc_map_get(seen, key, 0) + 1;
    sc_map_set(seen, key, times);
    if (c->repeats && times > c->state.reads)
        return;
    snprintf(key, sizeof key, "line %zu copy %d time %ld", p->line + 1, p->copy, times);
    sc_rows_addf(rows, key, "%s", header(c, r, "x-error-code"));
}

void sc_check_rejections(struct sc_check *c) {
    struct sc_rows expected = {0}, found = {0};
    json_t *seen = json_object();
    size_t i;
    const json_t *row;
    json_array_foreach(sc_json_get(c->scenario->expected, "rejected"), i, row) {
        for (int copy = 1; copy <= c->state.copies; copy++) {
            for (int time = 1; time <= c->state.reads; time++) {
                char key[64];
                snprintf(key, sizeof key, "line %ld copy %d time %d", sc_json_int(row, "line"), copy, time);
                sc_rows_addf(&expected, key, "%s", sc_json_text(row, "code"));
            }
        }
    }
    for (i = 0; i < c->dlt.count; i++)
        record_found(c, &c->dlt.items[i], seen, &found);
    sc_rows_diff(&c->report, "rejected", &expected, &found);
    sc_rows_free(&expected);
    sc_rows_free(&found);
    json_decref(seen);
}
