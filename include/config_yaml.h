/* SPDX-License-Identifier: MIT */
/* The YAML that tallyd takes: one document of mappings, lists and scalars, read
 * into a tree that remembers lines, without any knowledge of the keys. What
 * YAML offers beyond that (anchors, aliases, tags, more documents) is refused:
 * nobody needs it in a configuration, and libyaml hands it over half done.
 * Wraps libyaml. */
#ifndef TALLYD_CONFIG_YAML_H
#define TALLYD_CONFIG_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "error.h"

/* A configuration is a few KiB; without the bound a wrong path (a core dump, /dev/zero) would be read whole.
 */
#define CONFIG_YAML_MAX_BYTES (256 * 1024)
/* Ours has four levels. libyaml needs 16 s for 100,000 open brackets, so it is stopped early. */
#define CONFIG_YAML_MAX_DEPTH 8
/* Room for a piece of somebody's text in an error message. */
#define CONFIG_SHOWN_SIZE 72

enum config_node_kind { CONFIG_NODE_SCALAR, CONFIG_NODE_LIST, CONFIG_NODE_MAP };

struct config_node {
    enum config_node_kind kind;
    size_t line; /* from 1: where its key stands, or the node itself in a list */
    char *key;   /* owned; its name in the mapping around it, NULL in a list and for the root */
    char *text;  /* owned; what a scalar says, never with a NUL inside; NULL for the other kinds */
    bool quoted; /* a scalar in quotes or in block style */
    const struct config_node *parent; /* borrowed; NULL for the root */
    struct config_node *first, *next; /* owned; children in the order of the file */
};

/* Reads YAML text. The root is a mapping, an empty one when the text holds no
 * value at all. `file` stands for the path in errors. Returns a new tree, freed
 * with config_yaml_free, or NULL. */
struct config_node *config_yaml_parse(const char *file, const char *yaml, size_t len, struct error *err)
    __attribute__((warn_unused_result));

/* Reads a whole file of at most CONFIG_YAML_MAX_BYTES into `text`. */
bool config_yaml_read(const char *path, struct buf *text, struct error *err)
    __attribute__((warn_unused_result));

/* Frees a tree and wipes its text, which may hold passwords; NULL is allowed. */
void config_yaml_free(struct config_node *node);

/* `password:` and `password: null`: a key without a value, which is not the same as "". */
bool config_node_is_null(const struct config_node *node);

/* Appends the node's name from the root on, with dots between; nothing for the root. */
void config_node_path(const struct config_node *node, struct buf *path);

/* Records "FILE:LINE: PATH: reason". Always false, for `return config_node_error(…)`. */
bool config_node_error(const char *file, const struct config_node *node, struct error *err, const char *fmt,
                       ...) __attribute__((format(printf, 4, 5)));

/* Cuts text to what fits a message, between whole UTF-8 characters, and takes its control characters out. */
void config_show(char out[CONFIG_SHOWN_SIZE], const char *text);

#endif
