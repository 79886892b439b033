/* SPDX-License-Identifier: MIT */
#include "model_json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"

#define LEVELS_MAX 32

struct reader {
    const char *at;
    const char *end;
    int level;
};

static struct mj *value_read(struct reader *r);

void mj_free(struct mj *v) {
    if (!v)
        return;
    for (size_t i = 0; i < v->count; i++) {
        mj_free(v->items[i]);
        if (v->names)
            free(v->names[i]);
    }
    free(v->items);
    free(v->names);
    free(v->text);
    free(v);
}

const struct mj *mj_member(const struct mj *v, const char *name) {
    for (size_t i = 0; v && v->kind == MJ_OBJECT && i < v->count; i++) {
        if (strcmp(v->names[i], name) == 0)
            return v->items[i];
    }
    return NULL;
}

static void space_skip(struct reader *r) {
    while (r->at < r->end && memchr(" \t\r\n", *r->at, 4))
        r->at++;
}

static bool eat(struct reader *r, char c) {
    if (r->at >= r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool eat_word(struct reader *r, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static struct mj *made(enum mj_kind kind) {
    struct mj *v = mem_zero(1, sizeof *v);
    v->kind = kind;
    return v;
}

/* Four hexadecimal digits, or -1. */
static long hex_read(struct reader *r) {
    long code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        if (r->at >= r->end)
            return -1;
        char c = *r->at;
        if (c >= '0' && c <= '9')
            code = code * 16 + (c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            code = code * 16 + ((c | 32) - 'a' + 10);
        else
            return -1;
    }
    return code;
}

static void utf8_put(struct buf *out, long c) {
    if (c < 0x80) {
        buf_char(out, (char)c);
        return;
    }
    if (c < 0x800) {
        buf_char(out, (char)(0xc0 | (c >> 6)));
    } else {
        if (c < 0x10000) {
            buf_char(out, (char)(0xe0 | (c >> 12)));
        } else {
            buf_char(out, (char)(0xf0 | (c >> 18)));
            buf_char(out, (char)(0x80 | ((c >> 12) & 63)));
        }
        buf_char(out, (char)(0x80 | ((c >> 6) & 63)));
    }
    buf_char(out, (char)(0x80 | (c & 63)));
}

/* Behind "\u"; a surrogate must come as a pair, and NUL not at all. */
static bool code_read(struct reader *r, struct buf *out) {
    long c = hex_read(r);
    if (c <= 0 || (c >= 0xdc00 && c <= 0xdfff))
        return false;
    if (c >= 0xd800 && c <= 0xdbff) {
        if (!eat(r, '\\') || !eat(r, 'u'))
            return false;
        long low = hex_read(r);
        if (low < 0xdc00 || low > 0xdfff)
            return false;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    utf8_put(out, c);
    return true;
}

static bool escape_read(struct reader *r, struct buf *out) {
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (r->at >= r->end)
        return false;
    char c = *r->at++;
    if (c == 'u')
        return code_read(r, out);
    const char *found = c ? strchr(names, c) : NULL;
    if (!found)
        return false;
    buf_char(out, meant[found - names]);
    return true;
}

/* One character of several bytes: no overlong form, no surrogate, nothing above U+10FFFF. */
static bool utf8_copy(struct reader *r, struct buf *out) {
    unsigned char first = (unsigned char)*r->at;
    int more = first >= 0xc2 && first <= 0xdf   ? 1
               : first >= 0xe0 && first <= 0xef ? 2
               : first >= 0xf0 && first <= 0xf4 ? 3
                                                : 0;
    if (!more || r->end - r->at <= more)
        return false;
    long c = first & (0x3f >> more);
    for (int i = 1; i <= more; i++) {
        unsigned char next = (unsigned char)r->at[i];
        if ((next & 0xc0) != 0x80)
            return false;
        c = (c << 6) | (next & 63);
    }
    if ((more == 2 && c < 0x800) || (more == 3 && c < 0x10000) || c > 0x10ffff ||
        (c >= 0xd800 && c <= 0xdfff))
        return false;
    buf_append(out, r->at, (size_t)more + 1);
    r->at += more + 1;
    return true;
}

/* Behind the opening quote, to behind the closing one. */
static bool text_read(struct reader *r, struct buf *out) {
    buf_str(out, "");
    while (r->at < r->end) {
        unsigned char c = (unsigned char)*r->at;
        bool ok = true;
        if (c == '"') {
            r->at++;
            return true;
        }
        if (c < 0x20) {
            return false;
        } else if (c == '\\') {
            r->at++;
            ok = escape_read(r, out);
        } else if (c < 0x80) {
            buf_char(out, (char)c);
            r->at++;
        } else {
            ok = utf8_copy(r, out);
        }
        if (!ok)
            return false;
    }
    return false;
}

static size_t digits_skip(struct reader *r) {
    const char *start = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return (size_t)(r->at - start);
}

static struct mj *number_made(const char *text, bool real) {
    errno = 0;
    if (real) {
        double d = strtod(text, NULL);
        return isfinite(d) ? made(MJ_REAL) : NULL;
    }
    long long n = strtoll(text, NULL, 10);
    if (errno == ERANGE)
        return NULL;
    struct mj *v = made(MJ_INTEGER);
    v->number = n;
    return v;
}

static struct mj *number_read(struct reader *r) {
    const char *start = r->at;
    bool real = false;
    eat(r, '-');
    const char *whole = r->at;
    size_t n = digits_skip(r);
    if (n == 0 || (n > 1 && *whole == '0'))
        return NULL;
    if (eat(r, '.')) {
        real = true;
        if (!digits_skip(r))
            return NULL;
    }
    if (r->at < r->end && (*r->at | 32) == 'e') {
        real = true;
        r->at++;
        if (!eat(r, '+'))
            eat(r, '-');
        if (!digits_skip(r))
            return NULL;
    }
    char *text = strndup(start, (size_t)(r->at - start));
    struct mj *v = number_made(text, real);
    free(text);
    return v;
}

static void item_add(struct mj *v, char *name, struct mj *item) {
    v->items = mem_realloc(v->items, (v->count + 1) * sizeof(struct mj *));
    if (v->kind == MJ_OBJECT) {
        v->names = mem_realloc(v->names, (v->count + 1) * sizeof(char *));
        v->names[v->count] = name;
    }
    v->items[v->count++] = item;
}

static bool list_read(struct reader *r, struct mj *v) {
    space_skip(r);
    if (eat(r, ']'))
        return true;
    do {
        struct mj *item = value_read(r);
        if (!item)
            return false;
        item_add(v, NULL, item);
        space_skip(r);
    } while (eat(r, ','));
    return eat(r, ']');
}

/* "name": value, of a name that wasn't there before. */
static bool member_read(struct reader *r, struct mj *v) {
    struct buf name = {0};
    space_skip(r);
    if (!eat(r, '"') || !text_read(r, &name) || mj_member(v, buf_cstr(&name))) {
        buf_free(&name);
        return false;
    }
    space_skip(r);
    struct mj *item = eat(r, ':') ? value_read(r) : NULL;
    if (!item) {
        buf_free(&name);
        return false;
    }
    item_add(v, name.data, item);
    space_skip(r);
    return true;
}

static bool object_read(struct reader *r, struct mj *v) {
    space_skip(r);
    if (eat(r, '}'))
        return true;
    do {
        if (!member_read(r, v))
            return false;
    } while (eat(r, ','));
    return eat(r, '}');
}

static struct mj *nested_read(struct reader *r, enum mj_kind kind) {
    if (r->level == LEVELS_MAX)
        return NULL;
    r->level++;
    struct mj *v = made(kind);
    bool ok = kind == MJ_OBJECT ? object_read(r, v) : list_read(r, v);
    r->level--;
    if (ok)
        return v;
    mj_free(v);
    return NULL;
}

static struct mj *string_read(struct reader *r) {
    struct buf text = {0};
    if (!text_read(r, &text)) {
        buf_free(&text);
        return NULL;
    }
    struct mj *v = made(MJ_TEXT);
    v->len = text.len;
    v->text = text.data;
    return v;
}

static struct mj *value_read(struct reader *r) {
    space_skip(r);
    if (eat(r, '{'))
        return nested_read(r, MJ_OBJECT);
    if (eat(r, '['))
        return nested_read(r, MJ_LIST);
    if (eat(r, '"'))
        return string_read(r);
    if (eat_word(r, "null"))
        return made(MJ_NULL);
    if (eat_word(r, "true"))
        return made(MJ_TRUE);
    if (eat_word(r, "false"))
        return made(MJ_FALSE);
    return number_read(r);
}

struct mj *mj_parse(const char *s, size_t len) {
    if (!s)
        return NULL;
    struct reader r = {.at = s, .end = s + len};
    struct mj *v = value_read(&r);
    space_skip(&r);
    if (v && r.at == r.end)
        return v;
    mj_free(v);
    return NULL;
}
