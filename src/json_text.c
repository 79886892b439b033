/* SPDX-License-Identifier: MIT */
#include "json_text.h"

#include <stdlib.h>

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

void json_text_dump(struct buf *out, json_t *document) {
    json_dump_callback(document, append, out, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    json_decref(document);
}

void json_text(struct buf *out, const char *text) {
    json_text_dump(out, json_text_new(text));
}
