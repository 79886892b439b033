/* SPDX-License-Identifier: MIT */
#include "table.h"

#include <inttypes.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "buf.h"
#include "json_text.h"
#include "utf8.h"

#define COLUMNS_MAX 16
#define GAP "  "

struct table {
    const char *headings[COLUMNS_MAX];
    size_t columns;
    char **cells; /* row by row; owned */
    size_t count, capacity;
};

struct table *table_new(const char *heading, ...) {
    struct table *t = mem_zero(1, sizeof *t);
    va_list more;
    va_start(more, heading);
    for (; heading && t->columns < COLUMNS_MAX; heading = va_arg(more, const char *))
        t->headings[t->columns++] = heading;
    va_end(more);
    return t;
}

void table_free(struct table *t) {
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t);
}

static bool is_figure(const struct table *t, size_t column) {
    size_t len = strlen(t->headings[column]);
    return len && t->headings[column][len - 1] == '>';
}

/* Takes over the text. */
static void add_cell(struct table *t, char *text) {
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 64;
        t->cells = mem_realloc(t->cells, t->capacity * sizeof *t->cells);
    }
    t->cells[t->count++] = text;
}

/* One character of UTF-8 at `s`: its bytes, and the columns a terminal gives it, -1 for what it would obey.
 */
static size_t next_character(const char *s, mbstate_t *state, int *columns) {
    wchar_t wide = 0;
    size_t n = mbrtowc(&wide, s, strlen(s), state);
    if (n == (size_t)-1 || n == (size_t)-2) {
        memset(state, 0, sizeof *state);
        *columns = -1;
        return 1;
    }
    *columns = utf8_is_unseen((uint32_t)wide) ? -1 : wcwidth(wide);
    return n ? n : 1;
}

/* By a locale of its own: the process' is left as it is. */
static locale_t enter_utf8(locale_t *before) {
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    *before = utf8 ? uselocale(utf8) : (locale_t)0;
    return utf8;
}

static void leave_utf8(locale_t utf8, locale_t before) {
    if (!utf8)
        return;
    uselocale(before);
    freelocale(utf8);
}

void table_text(struct table *t, const char *text) {
    struct buf shown = {0};
    mbstate_t state = {0};
    locale_t before, utf8 = enter_utf8(&before);
    for (const char *s = text ? text : "-"; *s;) {
        int columns;
        size_t n = next_character(s, &state, &columns);
        buf_append(&shown, columns < 0 ? "?" : s, columns < 0 ? 1 : n);
        s += n;
    }
    leave_utf8(utf8, before);
    add_cell(t, shown.data ? shown.data : mem_strdup(""));
}

void table_format(struct table *t, const char *fmt, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    table_text(t, n < 0 ? NULL : text);
    free(n < 0 ? NULL : text);
}

void table_i64(struct table *t, int64_t number) {
    char digits[24], grouped[32];
    size_t n = (size_t)snprintf(digits, sizeof digits, "%" PRId64, number), at = 0;
    bool group = is_figure(t, t->count % t->columns);
    for (size_t i = 0; i < n; i++) {
        if (group && i && digits[i - 1] != '-' && (n - i) % 3 == 0)
            grouped[at++] = ',';
        grouped[at++] = digits[i];
    }
    grouped[at] = '\0';
    add_cell(t, mem_strdup(grouped));
}

void table_i64_if(struct table *t, bool known, int64_t number) {
    if (known)
        table_i64(t, number);
    else
        add_cell(t, mem_strdup("-"));
}

static size_t width_of(const char *text) {
    mbstate_t state = {0};
    size_t width = 0;
    while (*text) {
        int columns;
        text += next_character(text, &state, &columns);
        width += columns > 0 ? (size_t)columns : 0;
    }
    return width;
}

static void print_cell(const struct table *t, size_t column, const char *text, size_t width, FILE *out) {
    int pad = (int)(width - width_of(text));
    bool last = column + 1 == t->columns;
    if (is_figure(t, column))
        fprintf(out, "%*s%s%s", pad, "", text, last ? "\n" : GAP);
    else if (last)
        fprintf(out, "%s\n", text);
    else
        fprintf(out, "%s%*s" GAP, text, pad, "");
}

static void heading_of(const struct table *t, size_t column, char *out, size_t size) {
    snprintf(out, size, "%.*s", (int)(strlen(t->headings[column]) - (is_figure(t, column) ? 1 : 0)),
             t->headings[column]);
}

void table_print(const struct table *t, FILE *out) {
    char heading[64];
    size_t rows = t->count / t->columns, widths[COLUMNS_MAX] = {0};
    locale_t before, utf8 = enter_utf8(&before);
    for (size_t c = 0; c < t->columns; c++) {
        heading_of(t, c, heading, sizeof heading);
        widths[c] = width_of(heading);
        for (size_t r = 0; r < rows; r++) {
            size_t width = width_of(t->cells[r * t->columns + c]);
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    for (size_t c = 0; rows && c < t->columns; c++) {
        heading_of(t, c, heading, sizeof heading);
        print_cell(t, c, heading, widths[c], out);
    }
    for (size_t i = 0; i < rows * t->columns; i++)
        print_cell(t, i % t->columns, t->cells[i], widths[i % t->columns], out);
    leave_utf8(utf8, before);
}

void table_print_json(json_t *document, FILE *out) {
    json_text_print(document, out);
}
