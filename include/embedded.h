/* SPDX-License-Identifier: MIT */
/* Files that travel inside the binary: lua/, migrations/, config/messages.*. */
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

/* The file of that path, or NULL. */
const struct embedded_file *embedded_find(const char *path);

#endif
