/* SPDX-License-Identifier: MIT */
/* Files that travel inside the binary: lua/, migrations/, config/messages.*, the page. */
#ifndef TALLYD_EMBEDDED_H
#define TALLYD_EMBEDDED_H

#include <stddef.h>

struct embedded_file {
    const char *path; /* as in the source tree, e.g. "lua/decide.lua" */
    const char *data; /* NUL-terminated */
    size_t len;
};

/* Sorted by path; the last one has a NULL path. */
extern const struct embedded_file embedded_files[];

/* The Content-Security-Policy of config/page.html: its script and style stand in it and are named by their
 * hashes, and nothing of it comes from elsewhere. */
extern const char embedded_page_policy[];

/* The file of that path, or NULL. */
const struct embedded_file *embedded_find(const char *path);

#endif
