/* SPDX-License-Identifier: MIT */
#include "model_draft.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_event.h"
#include "scenario_base.h"

#define VALUE_MAX 65536
#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

/* splitmix64 */
int64_t dice(struct model_dice *d, int64_t n) {
    uint64_t z = (d->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return n < 2 ? 0 : (int64_t)(z % (uint64_t)n);
}

bool dice_percent(struct model_dice *d, int percent) {
    return dice(d, 100) < percent;
}

char *draft_format(const char *fmt, ...) {
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int len = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (len < 0)
        sc_die("out of memory");
    return text;
}

void draft_set(struct model_draft *d, int member, char *json) {
    free(d->member[member]);
    d->member[member] = json;
}

void draft_free(struct model_draft *d) {
    for (int i = 0; i < DRAFT_MEMBERS; i++)
        free(d->member[i]);
    free(d->payload);
    free(d->extra);
    *d = (struct model_draft){0};
}

/* The code point at *s, which is UTF-8. Moves *s behind it. */
static unsigned point_of(const char **s) {
    const unsigned char *u = (const unsigned char *)*s;
    int more = *u < 0x80 ? 0 : *u < 0xe0 ? 1 : *u < 0xf0 ? 2 : 3;
    unsigned c = more ? *u & (0x3fu >> more) : *u;
    for (int i = 1; i <= more; i++)
        c = (c << 6) | (u[i] & 63u);
    *s += more + 1;
    return c;
}

char *draft_text(struct model_dice *d, const char *text) {
    struct buf out = {0};
    int escaped = dice_percent(d, 20) ? 30 : 0;
    buf_char(&out, '"');
    while (*text) {
        const char *start = text;
        unsigned c = point_of(&text);
        if (c < 0x20 || (escaped && c < 0x10000 && dice_percent(d, escaped)))
            buf_printf(&out, dice_percent(d, 50) ? "\\u%04x" : "\\u%04X", c);
        else if (c >= 0x10000 && escaped)
            buf_printf(&out, "\\u%04x\\u%04X", 0xd800 + ((c - 0x10000) >> 10),
                       0xdc00 + ((c - 0x10000) & 0x3ff));
        else if (c == '"' || c == '\\')
            buf_printf(&out, "\\%c", (char)c);
        else
            buf_append(&out, start, (size_t)(text - start));
    }
    buf_char(&out, '"');
    return out.data;
}

char *draft_time(struct model_dice *d, int64_t t_ms) {
    char local[40], utc[40];
    model_time_local(t_ms, local);
    model_time_utc(t_ms, utc);
    utc[10] = 'T';
    bool whole_minute = t_ms % 60000 == 0, whole_second = t_ms % 1000 == 0;
    switch (dice(d, 8)) {
    case 0:
        return draft_format("\"%sZ\"", utc);
    case 1:
        return draft_format("\"%s+09:00\"", local);
    case 2: /* more digits are cut, never rounded */
        return draft_format("\"%s999999%s\"", local, dice_percent(d, 50) ? "" : "+09:00");
    case 3: { /* another place's clock, 18 hours off at most */
        int64_t minutes = dice(d, 2161) - 1080;
        model_time_utc(t_ms + minutes * 60000, utc);
        utc[10] = 'T';
        return draft_format("\"%s%c%02d:%02d\"", utc, minutes < 0 ? '-' : '+', abs((int)minutes) / 60,
                            abs((int)minutes) % 60);
    }
    case 4:
        if (whole_minute)
            return draft_format("\"%.16s\"", local);
        return draft_format(whole_second ? "\"%.19s\"" : "\"%s\"", local);
    case 5:
        if (whole_second)
            return draft_format("\"%.19sZ\"", utc);
        return draft_format("\"%s\"", local);
    default:
        return draft_format("\"%s\"", local);
    }
}

/* ---- the document ---- */

static void member_write(struct model_dice *d, struct buf *out, const char *name, const char *json,
                         int *written) {
    static const char *const gaps[] = {" ", "\n  ", "\t", " \r\n"};
    const char *gap = dice_percent(d, 5) ? gaps[dice(d, COUNT(gaps))] : "";
    if (!json)
        return;
    buf_printf(out, "%s%s", (*written)++ ? "," : "", gap);
    if (dice_percent(d, 1)) /* a name is the same when a letter of it is escaped */
        buf_printf(out, "\"\\u%04x%s\"", (unsigned char)name[0], name + 1);
    else
        buf_printf(out, "\"%s\"", name);
    buf_printf(out, "%s:%s%s", gap, gap, json);
}

static void payload_write(struct model_dice *d, const struct model_draft *draft, struct buf *out) {
    static const char *const names[] = {"familyId", "customerId", "bytesUsed", "appId"};
    int written = 0;
    int64_t first = dice_percent(d, 80) ? 0 : dice(d, 4);
    buf_char(out, '{');
    for (int64_t i = 0; i < 4; i++) {
        int64_t at = (first + i) % 4;
        member_write(d, out, names[at], draft->member[DRAFT_FAMILY + at], &written);
    }
    if (dice_percent(d, 20))
        member_write(d, out, "metadata", "{\"networkType\":\"5G\",\"cell\":-0.5e-3,\"eventId\":null}",
                     &written);
    buf_char(out, '}');
}

void draft_write(struct model_dice *d, const struct model_draft *draft, struct buf *out) {
    struct buf payload = {0};
    if (draft->payload)
        buf_str(&payload, draft->payload);
    else if (!draft->no_payload)
        payload_write(d, draft, &payload);
    const char *names[] = {"eventId", "eventType", "timestamp", "payload"};
    const char *texts[] = {draft->member[DRAFT_ID], draft->member[DRAFT_TYPE], draft->member[DRAFT_TIME],
                           payload.data};
    int written = 0;
    int64_t first = dice_percent(d, 80) ? 0 : dice(d, 4);
    buf_str(out, dice_percent(d, 2) ? " \n{" : "{");
    for (int64_t i = 0; i < 4; i++)
        member_write(d, out, names[(first + i) % 4], texts[(first + i) % 4], &written);
    if (draft->extra)
        buf_printf(out, "%s%s", written ? "," : "", draft->extra);
    buf_str(out, dice_percent(d, 2) ? "}\r\n" : "}");
    buf_free(&payload);
}

/* ---- what is wrong with it ---- */

static char *run_of(const char *piece, int times) {
    struct buf b = {0};
    buf_char(&b, '"');
    for (int i = 0; i < times; i++)
        buf_str(&b, piece);
    buf_char(&b, '"');
    return b.data;
}

static const char *const bad_ids[] = {
    "null",           "7",       "\"\"",          "\"a b\"",     "\"\\u00e9v\\u00e9nement\"",
    "\"tab\\there\"", "[\"a\"]", "\"trailing \"", "\"\\u007f\"", "true"};
static const char *const bad_times[] = {"1796007600000",
                                        "\"\"",
                                        "\"2026-11-30\"",
                                        "\"2026-02-30T10:00:00\"",
                                        "\"2026-11-30T24:00:00\"",
                                        "\"2026-11-30T10:60:00\"",
                                        "\"2026-11-30T10:00:60\"",
                                        "\"2026-11-30t10:00:00Z\"",
                                        "\"2026-11-30T10:00:00z\"",
                                        "\"2026-11-30 10:00:00\"",
                                        "\"2026-11-30T10:00:00.\"",
                                        "\"2026-11-30T10:00:00.1234567890\"",
                                        "\"2026-11-30T10:00:00+18:01\"",
                                        "\"2026-11-30T10:00:00+09\"",
                                        "\"2026-11-30T10:00:00+0900\"",
                                        "\"2026-11-30T10:00:00 Z\"",
                                        "\" 2026-11-30T10:00:00\"",
                                        "\"2026-11-30T10\"",
                                        "\"26-11-30T10:00\"",
                                        "\"2026-13-01T10:00\"",
                                        "\"2026-11-30T10:00:00,5\"",
                                        "\"2026-11-30T10:00:00-09:60\"",
                                        "false",
                                        "{}"};
static const char *const bad_amounts[] = {"0",
                                          "-1",
                                          "1.0",
                                          "1e3",
                                          "\"\"",
                                          "\"01\"",
                                          "\"+1\"",
                                          "\" 1\"",
                                          "\"1 \"",
                                          "null",
                                          "true",
                                          "[1]",
                                          "\"-1\"",
                                          "\"0x10\"",
                                          "\"0\"",
                                          "-0",
                                          "\"1e3\"",
                                          "\"1.0\"",
                                          "\"１\"",
                                          "{}",
                                          "0.5",
                                          "\"\\t1\"",
                                          "9007199254740992",
                                          "\"9007199254740992\"",
                                          "9223372036854775807",
                                          "\"99999999999999999999\""};
static const char *const bad_apps[] = {"5", "true", "[]", "{}", "0.5", "[\"com.youtube.app\"]"};
static const char *const bad_payloads[] = {"null", "[]", "\"{}\"", "1", "[{\"familyId\":1}]", "false"};
static const char *const bad_types[] = {"null", "1", "[\"DATA_USAGE\"]", "{}", "true"};

static char *picked(struct model_dice *d, const char *const *list, int64_t count) {
    return mem_strdup(list[dice(d, count)]);
}

void draft_spoil(struct model_dice *d, struct model_draft *draft) {
    bool away = dice_percent(d, 15);
    int64_t which = dice(d, 9);
    if (which == DRAFT_TYPE)
        draft_set(draft, DRAFT_TYPE, away ? NULL : picked(d, bad_types, COUNT(bad_types)));
    else if (which == DRAFT_ID)
        draft_set(draft, DRAFT_ID,
                  away                  ? NULL
                  : dice_percent(d, 20) ? run_of("i", 192)
                                        : picked(d, bad_ids, COUNT(bad_ids)));
    else if (which == DRAFT_TIME || which == 7)
        draft_set(draft, DRAFT_TIME, picked(d, bad_times, COUNT(bad_times)));
    else if (which >= DRAFT_FAMILY && which <= DRAFT_BYTES)
        draft_set(draft, (int)which, away ? NULL : picked(d, bad_amounts, COUNT(bad_amounts)));
    else if (which == DRAFT_APP)
        draft_set(draft, DRAFT_APP,
                  dice_percent(d, 40) ? run_of("\\u00fc", 51) : picked(d, bad_apps, COUNT(bad_apps)));
    else if (away)
        draft->no_payload = true;
    else if (!draft->payload)
        draft->payload = picked(d, bad_payloads, COUNT(bad_payloads));
}

static void replace(struct buf *b, const char *text) {
    buf_reset(b);
    buf_str(b, text);
}

/* Puts the text in front of the closing brace (and what may follow it). */
static void insert_last(struct buf *b, const char *text, size_t len) {
    struct buf tail = {0};
    size_t at = b->len;
    while (at > 0 && b->data[at - 1] != '}')
        at--;
    if (at > 0)
        at--;
    buf_append(&tail, b->data + at, b->len - at);
    b->len = at;
    buf_append(b, text, len);
    buf_append(b, tail.data, tail.len);
    buf_free(&tail);
}

static void nest(struct buf *b, int levels) {
    struct buf text = {0};
    buf_str(&text, ",\"deep\":");
    for (int i = 0; i < levels; i++)
        buf_str(&text, i % 2 ? "{\"a\":" : "[");
    buf_str(&text, "\"\"");
    for (int i = levels; i-- > 0;)
        buf_char(&text, i % 2 ? '}' : ']');
    insert_last(b, text.data, text.len);
    buf_free(&text);
}

void draft_break(struct model_dice *d, struct buf *value) {
    static const char *const instead[] = {"",
                                          "[]",
                                          "\"text\"",
                                          "7",
                                          "null",
                                          "{",
                                          "{'eventType':'DATA_USAGE'}",
                                          " ",
                                          "{\"eventType\":\"DATA_USAGE\",}",
                                          "\xff\xfe{}"};
    static const char *const inserted[] = {",\"x\":\"\\ud800\"",
                                           ",\"x\":\"\\udc00\\ud800\"",
                                           ",\"x\":\"\\u0000\"",
                                           ",\"x\":9223372036854775808",
                                           ",\"x\":-9223372036854775809",
                                           ",\"x\":1e999",
                                           ",\"x\":NaN",
                                           ",\"x\":01",
                                           ",\"x\":+1",
                                           ",\"x\":1.",
                                           ",\"x\":.5",
                                           ",\"x\":\"\x01\"",
                                           ",\"x\":\"\xc3\"",
                                           ",\"x\":\"\xc0\xaf\"",
                                           ",\"x\":\"\xed\xa0\x80\"",
                                           ",\"x\":\"\xf4\x90\x80\x80\"",
                                           ",\"x\":\"\\x\"",
                                           ",\"x\":1,\"\\u0078\":2",
                                           ",\"x\":{\"y\":1,\"y\":1}",
                                           ",\"eventType\":\"DATA_USAGE\",\"eventType\":\"X\"",
                                           ",x:1",
                                           ",\"x\":True",
                                           ",",
                                           ",\"x\":[1,]",
                                           ",\"x\" 1"};
    int64_t kind = dice(d, 100);
    if (kind < 25) {
        replace(value, instead[dice(d, COUNT(instead))]);
    } else if (kind < 35) {
        value->len -= (size_t)(1 + dice(d, (int64_t)value->len - 1));
        while (value->len > 0 && strchr("}\r\n ", value->data[value->len - 1]))
            value->len--;
    } else if (kind < 42) {
        buf_str(value, dice_percent(d, 50) ? "x" : "{}");
    } else if (kind < 47) {
        struct buf with_mark = {0};
        buf_str(&with_mark, "\xef\xbb\xbf");
        buf_append(&with_mark, value->data, value->len);
        buf_free(value);
        *value = with_mark;
    } else if (kind < 50) {
        nest(value, 32);
    } else if (kind < 58) {
        while (value->len <= VALUE_MAX)
            buf_char(value, ' ');
    } else {
        const char *text = inserted[dice(d, COUNT(inserted))];
        insert_last(value, text, strlen(text));
    }
}
