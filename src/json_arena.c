/* SPDX-License-Identifier: MIT */
#include "json_arena.h"

#include <stdbool.h>
#include <stdlib.h>

#include "buf.h"

static bool installed;
static _Thread_local struct arena *in_use;

static void *take(size_t size) {
    return in_use ? arena_alloc(in_use, size) : mem_alloc(size);
}

static void give_back(void *p) {
    if (!in_use)
        free(p);
}

void json_arena_install(void) {
    json_set_alloc_funcs(take, give_back); /* out of memory aborts: it must not look like malformed JSON */
    json_object_seed(0);
    installed = true;
}

void json_arena_begin(struct arena *a) {
    if (installed)
        in_use = a;
}

void json_arena_end(json_t *root) {
    if (!in_use) {
        json_decref(root);
        return;
    }
    arena_reset(in_use);
    in_use = NULL;
}
