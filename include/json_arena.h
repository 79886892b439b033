/* SPDX-License-Identifier: MIT */
/* JSON parsed without a malloc a value. jansson takes its memory from functions
 * that hold for the whole process: between begin and end those of the calling
 * thread take it from an arena, in all other places and threads from malloc. */
#ifndef TALLYD_JSON_ARENA_H
#define TALLYD_JSON_ARENA_H

#include <jansson.h>

#include "arena.h"

/* Once, before threads, and before jansson gave out anything. Without it begin and end leave malloc in use.
 */
void json_arena_install(void);
/* No value that exists already may be released until the end. The arena is the
 * caller's and used for nothing else. */
void json_arena_begin(struct arena *a);
/* Releases `root` (may be NULL) and everything that was made since. */
void json_arena_end(json_t *root);

#endif
