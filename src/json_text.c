/* SPDX-License-Identifier: MIT */
#include "json_text.h"

#include <stdlib.h>

#include "utf8.h"

json_t *json_text_new(const char *text) {
    if (!text)
        return json_null();
    json_t *value = json_string(text);
    if (value)
        return value;
    char *ascii = mem_strdup(text);
    for (char *c = ascii; *c; c++) {
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    }
    value = json_string(ascii);
    free(ascii);
    return value;
}

static int append(const char *data, size_t len, void *out) {
    buf_append(out, data, len);
    return 0;
}

/* Jansson escapes what lies below the space, and leaves the rest as it is. */
static void append_seen(struct buf *out, const char *text) {
    while (*text) {
        size_t n = utf8_sequence(text);
        uint32_t c = n ? utf8_code_point(text, n) : 0;
        if (c >= 0x7F && utf8_is_unseen(c))
            utf8_json_escape(out, c);
        else
            buf_append(out, text, n ? n : 1);
        text += n ? n : 1;
    }
}

static void dump(struct buf *out, json_t *document, size_t flags) {
    struct buf whole = {0};
    json_dump_callback(document, append, &whole, flags);
    append_seen(out, buf_cstr(&whole));
    buf_free(&whole);
    json_decref(document);
}

void json_text_dump(struct buf *out, json_t *document) {
    dump(out, document, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
}

void json_text_print(json_t *document, FILE *out) {
    struct buf text = {0};
    dump(&text, document, JSON_INDENT(1));
    buf_char(&text, '\n');
    fwrite(text.data, 1, text.len, out);
    buf_free(&text);
}

void json_text(struct buf *out, const char *text) {
    json_text_dump(out, json_text_new(text));
}
