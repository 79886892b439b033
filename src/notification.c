/* SPDX-License-Identifier: MIT */
/* Catalogues are read by libyaml's event parser, which allows far more than a
 * catalogue may have (duplicate keys, aliases, several documents): everything
 * but a mapping of mappings of texts is an error here. Texts are checked when
 * the catalogue is read, so that telling somebody can't fail. */
#include "notification.h"

#include <assert.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "period.h"

/* A text's length bounds the notification's: one of nothing but placeholders
 * becomes a hundred kilobytes at worst, far below a broker's limit for a record. */
#define CATALOGUE_MAX 65536
#define TITLE_MAX 256
#define MESSAGE_MAX 1024

enum { TITLE, MESSAGE, TEXTS };

static const char *const text_names[TEXTS] = {"title", "message"};
static const size_t text_max[TEXTS] = {TITLE_MAX, MESSAGE_MAX};

static const char *const kind_names[] = {
    "THRESHOLD_ALERT", "MANUAL", "APP_BLOCK", "TIME_BLOCK", "MONTHLY_LIMIT_EXCEEDED", "FAMILY_QUOTA_EXCEEDED",
};

#define KINDS (sizeof kind_names / sizeof kind_names[0])

enum placeholder {
    THRESHOLD,
    APP_ID,
    BYTES_USED,
    REMAINING,
    TOTAL,
    MONTHLY_USED,
    MONTHLY_LIMIT,
    MONTH,
    FAMILY_ID,
    CUSTOMER_ID,
    PLACEHOLDERS,
};

static const char *const placeholder_names[PLACEHOLDERS] = {
    "threshold",   "appId",        "bytesUsed", "remaining", "total",
    "monthlyUsed", "monthlyLimit", "month",     "familyId",  "customerId",
};

struct messages {
    char *texts[KINDS][TEXTS]; /* owned; checked */
};

/* Texts with placeholders */

struct part {
    enum { PART_TEXT, PART_PLACEHOLDER } type;
    const char *text; /* literal bytes, or what stood in the braces */
    size_t len;
    int placeholder; /* an enum placeholder, or PLACEHOLDERS when it's unknown */
};

static int find_name(const char *const names[], size_t count, const char *s, size_t len) {
    size_t i = 0;
    while (i < count && (strlen(names[i]) != len || memcmp(names[i], s, len) != 0))
        i++;
    return (int)i;
}

/* Takes the next part off *s, which isn't empty. False for a lone brace. */
static bool next_part(const char **s, struct part *out) {
    const char *p = *s;
    size_t plain = strcspn(p, "{}");
    if (plain > 0) {
        *out = (struct part){PART_TEXT, p, plain, 0};
        *s = p + plain;
        return true;
    }
    if (p[1] == p[0]) { /* {{ or }} */
        *out = (struct part){PART_TEXT, p, 1, 0};
        *s = p + 2;
        return true;
    }
    size_t name = strcspn(p + 1, "{}");
    if (p[0] == '}' || p[1 + name] != '}')
        return false;
    int which = find_name(placeholder_names, PLACEHOLDERS, p + 1, name);
    *out = (struct part){PART_PLACEHOLDER, p + 1, name, which};
    *s = p + name + 2;
    return true;
}

/* Binary units under their everyday names, as data plans count, cut to one
 * decimal: what is left is never shown as more. Less than nothing is nothing. */
static void put_amount(struct buf *out, int64_t bytes) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    size_t unit = 0;
    int64_t size = 1;
    if (bytes < 0)
        bytes = 0;
    while (unit + 1 < sizeof units / sizeof units[0] && bytes / 1024 >= size) {
        size *= 1024;
        unit++;
    }
    buf_i64(out, bytes / size);
    if (unit > 0)
        buf_printf(out, ".%d", (int)(bytes % size * 10 / size));
    buf_printf(out, " %s", units[unit]);
}

static void put_placeholder(struct buf *out, int placeholder, const struct notification *n) {
    switch ((enum placeholder)placeholder) {
    case THRESHOLD:
        buf_i64(out, n->threshold);
        break;
    case APP_ID:
        buf_str(out, n->event->has_app ? n->event->app : "-");
        break;
    case BYTES_USED:
        put_amount(out, n->event->bytes_used);
        break;
    case REMAINING:
        put_amount(out, n->remaining_bytes);
        break;
    case TOTAL:
        put_amount(out, n->total_bytes);
        break;
    case MONTHLY_USED:
        put_amount(out, n->monthly_used_bytes);
        break;
    case MONTHLY_LIMIT:
        if (n->monthly_limit_bytes < 0)
            buf_char(out, '-');
        else
            put_amount(out, n->monthly_limit_bytes);
        break;
    case MONTH:
        buf_printf(out, "%04d-%02d", (int)(n->event->month / 100), (int)(n->event->month % 100));
        break;
    case FAMILY_ID:
        buf_i64(out, n->event->family_id);
        break;
    case CUSTOMER_ID:
        buf_i64(out, n->event->customer_id);
        break;
    case PLACEHOLDERS:
        assert(!"texts are checked when the catalogue is read");
        break;
    }
}

static void put_text(struct buf *out, const char *text, const struct notification *n) {
    struct part part;
    while (*text) {
        bool ok = next_part(&text, &part);
        assert(ok);
        (void)ok;
        if (part.type == PART_TEXT)
            buf_append(out, part.text, part.len);
        else
            put_placeholder(out, part.placeholder, n);
    }
}

/* Reading a catalogue */

struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one; owned */
    const char *name;   /* borrowed: the file's */
    const char *yaml;   /* borrowed: the text */
    char key[64];       /* where we are, for errors: "document", "MANUAL", "MANUAL.title" */
    struct error *err;
};

static bool fail_at(struct reader *r, size_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail_at(struct reader *r, size_t line, const char *fmt, ...) {
    char reason[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    return error_set(r->err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0, "%s:%zu: %s: %s", r->name, line,
                     r->key, reason);
}

static size_t line_of(const struct reader *r) {
    return r->event.start_mark.line + 1;
}

static bool fail_syntax(struct reader *r) {
    size_t line = r->parser.problem_mark.line + 1;
    if (r->parser.error == YAML_READER_ERROR) { /* bad UTF-8: only an offset is known */
        line = 1;
        for (size_t i = 0; i < r->parser.problem_offset; i++)
            line += r->yaml[i] == '\n';
    }
    return fail_at(r, line, "%s", r->parser.problem ? r->parser.problem : "out of memory");
}

/* Moves on to the next event. */
static bool next_event(struct reader *r) {
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event))
        return true;
    memset(&r->event, 0, sizeof r->event);
    return fail_syntax(r);
}

static bool next_mapping(struct reader *r) {
    if (!next_event(r))
        return false;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return fail_at(r, line_of(r), "must be a mapping");
    if (r->event.data.mapping_start.anchor || r->event.data.mapping_start.tag)
        return fail_at(r, line_of(r), "anchors and tags aren't allowed");
    return true;
}

static bool next_scalar(struct reader *r, const char *reason) {
    if (!next_event(r))
        return false;
    if (r->event.type == YAML_ALIAS_EVENT)
        return fail_at(r, line_of(r), "aliases aren't allowed");
    if (r->event.type != YAML_SCALAR_EVENT)
        return fail_at(r, line_of(r), "%s", reason);
    if (r->event.data.scalar.anchor || r->event.data.scalar.tag)
        return fail_at(r, line_of(r), "anchors and tags aren't allowed");
    return true;
}

/* A mapping whose keys are known: each must come, and once. */
struct mapping {
    const char *path; /* "" for the top */
    size_t line;      /* where it begins */
    const char *const *names;
    int count;
    bool seen[KINDS];
};

static bool mapping_end(struct reader *r, const struct mapping *map) {
    for (int i = 0; i < map->count; i++) {
        if (!map->seen[i])
            return fail_at(r, map->line, "%s is missing", map->names[i]);
    }
    return true;
}

/* Moves on to the next key: its index in *which, `count` when there are no more. */
static bool next_key(struct reader *r, struct mapping *map, int *which) {
    snprintf(r->key, sizeof r->key, "%s", *map->path ? map->path : "document");
    *which = map->count;
    if (!next_event(r))
        return false;
    if (r->event.type == YAML_MAPPING_END_EVENT)
        return mapping_end(r, map);
    if (r->event.type != YAML_SCALAR_EVENT || r->event.data.scalar.anchor || r->event.data.scalar.tag)
        return fail_at(r, line_of(r), "a key must be plain text");
    const char *key = (const char *)r->event.data.scalar.value;
    *which = find_name(map->names, (size_t)map->count, key, r->event.data.scalar.length);
    if (*which == map->count)
        return fail_at(r, line_of(r), "unknown key %.40s", key);
    snprintf(r->key, sizeof r->key, "%s%s%s", map->path, *map->path ? "." : "", map->names[*which]);
    if (map->seen[*which])
        return fail_at(r, line_of(r), "is there twice");
    map->seen[*which] = true;
    return true;
}

/* Checks the current scalar as a text of at most `max` bytes. */
static bool check_text(struct reader *r, size_t max) {
    const char *text = (const char *)r->event.data.scalar.value;
    size_t len = r->event.data.scalar.length;
    if (len == 0)
        return fail_at(r, line_of(r), "is empty");
    if (len > max)
        return fail_at(r, line_of(r), "is over %zu bytes long", max);
    if (strlen(text) != len)
        return fail_at(r, line_of(r), "has a NUL character");
    struct part part;
    while (*text) {
        if (!next_part(&text, &part))
            return fail_at(r, line_of(r), "has a lone brace (write {{ or }} for the character)");
        if (part.type == PART_PLACEHOLDER && part.placeholder == PLACEHOLDERS)
            return fail_at(r, line_of(r), "unknown placeholder {%.*s}", part.len > 40 ? 40 : (int)part.len,
                           part.text);
    }
    return true;
}

static bool read_kind(struct reader *r, const char *kind, char *texts[TEXTS]) {
    struct mapping map = {.path = kind, .line = line_of(r), .names = text_names, .count = TEXTS};
    int which;
    if (!next_mapping(r))
        return false;
    while (next_key(r, &map, &which)) {
        if (which == TEXTS)
            return true;
        if (!next_scalar(r, "must be text (put it in quotes)") || !check_text(r, text_max[which]))
            return false;
        texts[which] = mem_strdup((const char *)r->event.data.scalar.value);
    }
    return false;
}

static bool read_kinds(struct reader *r, struct messages *m) {
    struct mapping map = {.path = "", .line = 1, .names = kind_names, .count = (int)KINDS};
    int which;
    if (!next_mapping(r))
        return false;
    while (next_key(r, &map, &which)) {
        if (which == (int)KINDS)
            return true;
        if (!read_kind(r, kind_names[which], m->texts[which]))
            return false;
    }
    return false;
}

static bool read_catalogue(struct reader *r, struct messages *m) {
    snprintf(r->key, sizeof r->key, "document");
    if (!next_event(r) || !next_event(r)) /* the stream's start, the document's */
        return false;
    if (r->event.type != YAML_DOCUMENT_START_EVENT)
        return fail_at(r, line_of(r), "is empty");
    if (!read_kinds(r, m))
        return false;
    snprintf(r->key, sizeof r->key, "document");
    if (!next_event(r) || !next_event(r)) /* the document's end, the stream's */
        return false;
    return r->event.type == YAML_STREAM_END_EVENT || fail_at(r, line_of(r), "only one document is allowed");
}

struct messages *messages_parse(const char *name, const char *yaml, size_t len, struct error *err) {
    struct reader r = {.name = name, .yaml = yaml, .key = "document", .err = err};
    if (len > CATALOGUE_MAX) {
        fail_at(&r, 1, "is over %d bytes long", CATALOGUE_MAX);
        return NULL;
    }
    if (!yaml_parser_initialize(&r.parser)) {
        fail_at(&r, 1, "out of memory");
        return NULL;
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)yaml, len);
    struct messages *m = mem_zero(1, sizeof *m);
    if (!read_catalogue(&r, m)) {
        messages_free(m);
        m = NULL;
    }
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return m;
}

void messages_free(struct messages *m) {
    if (!m)
        return;
    for (size_t kind = 0; kind < KINDS; kind++) {
        for (size_t text = 0; text < TEXTS; text++)
            free(m->texts[kind][text]);
    }
    free(m);
}

/* The notification's bytes */

static int append(const char *data, size_t len, void *out) {
    buf_append(out, data, len);
    return 0;
}

/* Steals the value. What fails here is memory, or text that isn't UTF-8, which
 * only a bug could have let in: events and catalogues are checked. */
static void put_json(struct buf *out, json_t *value) {
    if (json_dump_callback(value, append, out, JSON_COMPACT | JSON_ENCODE_ANY) != 0) {
        fputs("tallyd: a notification can't be written as JSON\n", stderr);
        abort();
    }
    json_decref(value);
}

/* Steals the value. */
static void set(json_t *object, const char *member, json_t *value) {
    if (json_object_set_new_nocheck(object, member, value) != 0) {
        fputs("tallyd: out of memory\n", stderr);
        abort();
    }
}

static json_t *text_json(const char *text, const struct notification *n) {
    struct buf b = {0};
    put_text(&b, text, n);
    json_t *json = json_stringn_nocheck(buf_cstr(&b), b.len);
    buf_free(&b);
    return json;
}

static json_t *data_json(const struct notification *n) {
    const struct usage_event *e = n->event;
    char time[PERIOD_LOCAL_SIZE];
    period_format_local(e->time_ms, time);
    json_t *data = json_object();
    set(data, "originEventId", json_string_nocheck(e->id));
    set(data, "eventTime", json_string_nocheck(time));
    set(data, "status", json_string_nocheck(n->status));
    set(data, "familyId", json_integer(e->family_id));
    set(data, "customerId", json_integer(e->customer_id));
    set(data, "appId", e->has_app ? json_string_nocheck(e->app) : json_null());
    set(data, "bytesUsed", json_integer(e->bytes_used));
    if (n->threshold > 0)
        set(data, "threshold", json_integer(n->threshold));
    else
        set(data, "reason", json_string_nocheck(n->status));
    return data;
}

void notification_payload(struct buf *out, const struct messages *m, const struct notification *n) {
    const char *kind_name = n->threshold > 0 ? "THRESHOLD_ALERT" : n->status;
    size_t kind = (size_t)find_name(kind_names, KINDS, kind_name, strlen(kind_name));
    assert(kind < KINDS);
    json_t *payload = json_object();
    set(payload, "familyId", json_integer(n->event->family_id));
    set(payload, "customerId", json_integer(n->event->customer_id));
    set(payload, "type", json_string_nocheck(n->threshold > 0 ? "THRESHOLD_ALERT" : "CUSTOMER_BLOCKED"));
    set(payload, "title", text_json(m->texts[kind][TITLE], n));
    set(payload, "message", text_json(m->texts[kind][MESSAGE], n));
    set(payload, "data", data_json(n));
    put_json(out, payload);
}

void notification_envelope(struct buf *out, const char *event_id, int64_t created_at_ms, const char *payload,
                           size_t payload_len) {
    char time[PERIOD_LOCAL_SIZE];
    period_format_local(created_at_ms, time);
    buf_str(out, "{\"eventId\":");
    put_json(out, json_string_nocheck(event_id));
    buf_str(out, ",\"eventType\":\"NOTIFICATION\",\"timestamp\":\"");
    buf_str(out, time);
    buf_str(out, "\",\"payload\":");
    buf_append(out, payload, payload_len);
    buf_char(out, '}');
}
