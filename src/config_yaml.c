/* SPDX-License-Identifier: MIT */
#include "config_yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

/* A longer path would push the reason out of the message. */
#define FILE_SHOWN 160

struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the one being looked at */
    const char *file;
    const char *yaml;
    struct error *err;
};

/* The end of a path tells more than its beginning. */
static const char *shown_file(const char *file) {
    size_t len = strlen(file);
    return len > FILE_SHOWN ? file + len - FILE_SHOWN : file;
}

static bool fail(const struct reader *r, size_t line, const char *what) {
    return error_set(r->err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0, "%s:%zu: %s", shown_file(r->file),
                     line, what);
}

void config_show(char out[CONFIG_SHOWN_SIZE], const char *text) {
    static const char more[] = "…";
    const size_t room = CONFIG_SHOWN_SIZE - sizeof more;
    size_t n = strlen(text);
    bool cut = n > room;
    if (cut) {
        n = room;
        while (n && ((unsigned char)text[n] & 0xC0) == 0x80)
            n--;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i];
    memcpy(out + n, cut ? more : "", cut ? sizeof more : 1);
}

void config_node_path(const struct config_node *node, struct buf *path) {
    if (node->parent)
        config_node_path(node->parent, path);
    if (!node->key)
        return;
    if (path->len)
        buf_char(path, '.');
    buf_str(path, *node->key ? node->key : "\"\"");
}

bool config_node_error(const char *file, const struct config_node *node, struct error *err, const char *fmt,
                       ...) {
    char reason[384], key[CONFIG_SHOWN_SIZE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    struct buf path = {0};
    config_node_path(node, &path);
    config_show(key, buf_cstr(&path));
    buf_free(&path);
    return error_set(err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0, "%s:%zu: %s%s%s", shown_file(file),
                     node->line, key, *key ? ": " : "", reason);
}

bool config_node_is_null(const struct config_node *node) {
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    if (node->kind != CONFIG_NODE_SCALAR || node->quoted)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(node->text, words[i]) == 0)
            return true;
    }
    return false;
}

static void wipe_free(char *text) {
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void config_yaml_free(struct config_node *node) {
    while (node) {
        struct config_node *next = node->next;
        config_yaml_free(node->first);
        wipe_free(node->key);
        wipe_free(node->text);
        free(node);
        node = next;
    }
}

static void drop_event(struct reader *r) {
    if (r->event.type == YAML_SCALAR_EVENT)
        explicit_bzero(r->event.data.scalar.value, r->event.data.scalar.length);
    yaml_event_delete(&r->event);
}

static size_t event_line(const struct reader *r) {
    return r->event.start_mark.line + 1;
}

/* libyaml gives a mark for what its scanner and parser refuse, but only an offset for bytes its reader
 * refuses. */
static bool syntax_error(const struct reader *r) {
    const yaml_parser_t *p = &r->parser;
    char text[256];
    const char *problem = p->problem ? p->problem : "out of memory";
    size_t line = p->problem_mark.line + 1;
    if (p->error == YAML_READER_ERROR) {
        line = 1;
        for (size_t i = 0; i < p->problem_offset; i++)
            line += r->yaml[i] == '\n';
    }
    if (p->context && p->context_mark.line + 1 != line)
        snprintf(text, sizeof text, "not YAML: %s %s that begins in line %zu", problem, p->context,
                 p->context_mark.line + 1);
    else
        snprintf(text, sizeof text, "not YAML: %s%s%s", problem, p->context ? " " : "",
                 p->context ? p->context : "");
    return fail(r, line, text);
}

static bool next_event(struct reader *r) {
    drop_event(r);
    return yaml_parser_parse(&r->parser, &r->event) ? true : syntax_error(r);
}

/* The scalar event's text as a new string; NULL when it holds a NUL, which "\0" can write. */
static char *take_text(const struct reader *r) {
    const yaml_char_t *value = r->event.data.scalar.value;
    size_t len = r->event.data.scalar.length;
    if (memchr(value, '\0', len))
        return NULL;
    char *text = mem_alloc(len + 1);
    memcpy(text, value, len);
    text[len] = '\0';
    return text;
}

/* What the event has that we don't take, NULL when it's nothing. */
static const char *unwanted(const yaml_event_t *e) {
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (e->type) {
    case YAML_ALIAS_EVENT:
        return "an alias (*name) isn't taken; write the value out";
    case YAML_SCALAR_EVENT:
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
        break;
    default:
        break;
    }
    return anchor ? "an anchor (&name) isn't taken" : tag ? "a tag (!name) isn't taken" : NULL;
}

static bool read_node(struct reader *r, struct config_node *node, int depth);

/* The key at hand into `child`, and on to its value. */
static bool read_key(struct reader *r, struct config_node *child) {
    const char *bad = unwanted(&r->event);
    if (bad)
        return config_node_error(r->file, child, r->err, "%s", bad);
    if (r->event.type != YAML_SCALAR_EVENT)
        return config_node_error(r->file, child, r->err, "a key must be a word, not a list or a mapping");
    child->key = take_text(r);
    if (!child->key)
        return config_node_error(r->file, child, r->err, "a key must not hold a NUL character");
    return next_event(r);
}

/* The children of a list or mapping, up to its end. */
static bool read_children(struct reader *r, struct config_node *node, int depth) {
    struct config_node **tail = &node->first;
    if (depth >= CONFIG_YAML_MAX_DEPTH)
        return config_node_error(r->file, node, r->err, "nested over %d levels deep", CONFIG_YAML_MAX_DEPTH);
    for (;;) {
        if (!next_event(r))
            return false;
        if (r->event.type == YAML_MAPPING_END_EVENT || r->event.type == YAML_SEQUENCE_END_EVENT)
            return true;
        struct config_node *child = mem_zero(1, sizeof *child);
        *tail = child;
        tail = &child->next;
        child->parent = node;
        child->line = event_line(r);
        if (node->kind == CONFIG_NODE_MAP && !read_key(r, child))
            return false;
        if (!read_node(r, child, depth + 1))
            return false;
    }
}

/* Reads the value that begins at the event at hand; that value's last event stays at hand. */
static bool read_node(struct reader *r, struct config_node *node, int depth) {
    const char *bad = unwanted(&r->event);
    if (bad)
        return config_node_error(r->file, node, r->err, "%s", bad);
    if (r->event.type == YAML_SCALAR_EVENT) {
        node->kind = CONFIG_NODE_SCALAR;
        node->quoted = r->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        node->text = take_text(r);
        return node->text ? true : config_node_error(r->file, node, r->err, "must not hold a NUL character");
    }
    node->kind = r->event.type == YAML_MAPPING_START_EVENT ? CONFIG_NODE_MAP : CONFIG_NODE_LIST;
    return read_children(r, node, depth);
}

/* One document or none, and nothing after it. */
static bool read_stream(struct reader *r, struct config_node *root) {
    root->kind = CONFIG_NODE_MAP;
    root->line = 1;
    if (!next_event(r) || !next_event(r)) /* the stream's start, then a document's or the stream's end */
        return false;
    if (r->event.type == YAML_STREAM_END_EVENT)
        return true;
    if (!next_event(r))
        return false;
    root->line = event_line(r);
    if (!read_node(r, root, 0))
        return false;
    if (config_node_is_null(root)) { /* only comments after a `---` */
        wipe_free(root->text);
        root->text = NULL;
        root->kind = CONFIG_NODE_MAP;
    }
    if (root->kind != CONFIG_NODE_MAP)
        return fail(r, root->line, "must be a mapping (key: value), is a list or a single value");
    if (!next_event(r) || !next_event(r)) /* the document's end, then the stream's */
        return false;
    return r->event.type == YAML_STREAM_END_EVENT ? true
                                                  : fail(r, event_line(r), "a second document begins here");
}

static bool too_large(const char *file, struct error *err) {
    return error_set(err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0, "%s: larger than %d KiB",
                     shown_file(file), CONFIG_YAML_MAX_BYTES / 1024);
}

struct config_node *config_yaml_parse(const char *file, const char *yaml, size_t len, struct error *err) {
    if (len > CONFIG_YAML_MAX_BYTES) {
        too_large(file, err);
        return NULL;
    }
    if (len >= 3 && memcmp(yaml, "\xEF\xBB\xBF", 3) == 0) { /* libyaml would count it as indentation */
        yaml += 3;
        len -= 3;
    }
    struct reader r = {.file = file, .yaml = yaml, .err = err};
    if (!yaml_parser_initialize(&r.parser)) {
        fail(&r, 1, "out of memory");
        return NULL;
    }
    /* Otherwise a first byte of FF or FE makes it UTF-16, and offsets aren't bytes of the file. */
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)(len ? yaml : ""), len);
    struct config_node *root = mem_zero(1, sizeof *root);
    if (!read_stream(&r, root)) {
        config_yaml_free(root);
        root = NULL;
    }
    drop_event(&r);
    yaml_parser_delete(&r.parser);
    return root;
}

bool config_yaml_read(const char *path, struct buf *text, struct error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : 1;
    char *room = buf_room(text, CONFIG_YAML_MAX_BYTES + 1);
    size_t got = 0;
    while (n > 0 && got <= CONFIG_YAML_MAX_BYTES) {
        n = read(fd, room + got, CONFIG_YAML_MAX_BYTES + 1 - got);
        if (n > 0)
            got += (size_t)n;
        else if (n < 0 && errno == EINTR)
            n = 1;
    }
    int cause = errno;
    buf_end(text, got);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return error_set(err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, cause, "%s: can't be read: %s",
                         shown_file(path), strerror(cause));
    return got > CONFIG_YAML_MAX_BYTES ? too_large(path, err) : true;
}
