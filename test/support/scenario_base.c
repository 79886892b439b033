/* SPDX-License-Identifier: MIT */
#include "scenario_base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"

#define PRINTED_MAX 50 /* lines a scenario; after that the cause is in them or nowhere */
#define TEXT_MAX 700   /* bytes of one side in a line: a notification fits, a 64 KiB body doesn't */

const char *sc_program = "scenario";

void sc_die(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s: ", sc_program);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(2);
}

const char *sc_env_or(const char *name, const char *fallback) {
    const char *value = getenv(name);
    return value && *value ? value : fallback;
}

const char *sc_env(const char *name) {
    const char *value = sc_env_or(name, NULL);
    if (!value)
        sc_die("%s is not set: run inside a stack", name);
    return value;
}

char *sc_path(const char *dir, const char *name) {
    struct buf b = {0};
    buf_printf(&b, "%s/%s", dir, name);
    return b.data;
}

char *sc_file_read(const char *path, size_t *len) {
    FILE *f = fopen(path, "rb");
    if (!f)
        sc_die("%s: %s", path, strerror(errno));
    struct buf b = {0};
    size_t n;
    do {
        char *room = buf_room(&b, 65536);
        n = fread(room, 1, 65536, f);
        buf_end(&b, n);
    } while (n > 0);
    if (ferror(f))
        sc_die("%s: cannot be read", path);
    fclose(f);
    if (len)
        *len = b.len;
    return b.data;
}

json_t *sc_json_read(const char *path) {
    json_error_t err;
    json_t *doc = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &err);
    if (!doc)
        sc_die("%s:%d: %s", path, err.line, err.text);
    return doc;
}

json_t *sc_json_get(const json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    if (!value)
        sc_die("a member is missing in the scenario: %s", name);
    return value;
}

const char *sc_json_text(const json_t *object, const char *name) {
    const json_t *value = sc_json_get(object, name);
    if (!json_is_string(value))
        sc_die("a member of the scenario is no text: %s", name);
    return json_string_value(value);
}

const char *sc_json_text_or_null(const json_t *object, const char *name) {
    return json_is_null(sc_json_get(object, name)) ? NULL : sc_json_text(object, name);
}

int64_t sc_json_int(const json_t *object, const char *name) {
    const json_t *value = sc_json_get(object, name);
    if (!json_is_integer(value))
        sc_die("a member of the scenario is no whole number: %s", name);
    return json_integer_value(value);
}

int64_t sc_map_get(const json_t *map, const char *key, int64_t fallback) {
    const json_t *value = json_object_get(map, key);
    return value ? json_integer_value(value) : fallback;
}

void sc_map_set(json_t *map, const char *key, int64_t value) {
    if (json_object_set_new(map, key, json_integer(value)) != 0)
        sc_die("a key is not UTF-8: %s", key);
}

void sc_differ(struct sc_report *report, const char *fmt, ...) {
    report->differences++;
    if (report->differences > PRINTED_MAX)
        return;
    va_list ap;
    va_start(ap, fmt);
    printf("DIFF %s: ", report->name);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
}

void sc_rows_add(struct sc_rows *rows, const char *key, const void *text, size_t len) {
    if (rows->count == rows->cap) {
        rows->cap = rows->cap ? rows->cap * 2 : 64;
        rows->items = mem_realloc(rows->items, rows->cap * sizeof *rows->items);
    }
    struct sc_row *row = &rows->items[rows->count++];
    row->key = mem_strdup(key);
    row->text = mem_alloc(len + 1);
    if (len)
        memcpy(row->text, text, len);
    row->text[len] = 0;
    row->len = len;
}

void sc_rows_addf(struct sc_rows *rows, const char *key, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *text = NULL;
    int len = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (len < 0)
        sc_die("out of memory");
    sc_rows_add(rows, key, text, (size_t)len);
    free(text);
}

/* strverscmp puts line 10 behind line 9. */
static int row_compare(const void *left, const void *right) {
    const struct sc_row *a = left;
    const struct sc_row *b = right;
    int order = strverscmp(a->key, b->key);
    if (order != 0)
        return order;
    order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

static int shown(const struct sc_row *row) {
    return row->len > TEXT_MAX ? TEXT_MAX : (int)row->len;
}

static void rows_sort(struct sc_rows *rows) {
    if (rows->count > 1)
        qsort(rows->items, rows->count, sizeof *rows->items, row_compare);
}

void sc_rows_diff(struct sc_report *report, const char *what, struct sc_rows *expected,
                  struct sc_rows *found) {
    rows_sort(expected);
    rows_sort(found);
    size_t i = 0, j = 0;
    while (i < expected->count || j < found->count) {
        const struct sc_row *e = i < expected->count ? &expected->items[i] : NULL;
        const struct sc_row *f = j < found->count ? &found->items[j] : NULL;
        int order = e && f ? strverscmp(e->key, f->key) : 0;
        if (!f || (e && order < 0)) {
            sc_differ(report, "%s %s: expected %.*s, found nothing", what, e->key, shown(e), e->text);
            i++;
        } else if (!e || order > 0) {
            sc_differ(report, "%s %s: expected nothing, found %.*s", what, f->key, shown(f), f->text);
            j++;
        } else {
            if (row_compare(e, f) != 0)
                sc_differ(report, "%s %s: expected %.*s, found %.*s", what, e->key, shown(e), e->text,
                          shown(f), f->text);
            i++;
            j++;
        }
    }
}

void sc_rows_free(struct sc_rows *rows) {
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->items[i].key);
        free(rows->items[i].text);
    }
    free(rows->items);
    *rows = (struct sc_rows){0};
}
