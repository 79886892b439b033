/* SPDX-License-Identifier: MIT */
#include "recent.h"

#include <pthread.h>
#include <stdlib.h>

#include "buf.h"

struct recent {
    /* shared, under `lock` */
    pthread_mutex_t lock;
    struct recent_item items[RECENT_KINDS][RECENT_MAX];
    size_t added[RECENT_KINDS]; /* since the start: the next one's place, modulo the ring's size */
};

struct recent *recent_new(void) {
    struct recent *r = mem_zero(1, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void recent_free(struct recent *r) {
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r);
}

void recent_add(struct recent *r, enum recent_kind kind, const struct recent_item *item) {
    pthread_mutex_lock(&r->lock);
    r->items[kind][r->added[kind]++ % RECENT_MAX] = *item;
    pthread_mutex_unlock(&r->lock);
}

size_t recent_list(struct recent *r, enum recent_kind kind, struct recent_item *out, size_t max) {
    size_t n = 0;
    pthread_mutex_lock(&r->lock);
    for (size_t i = r->added[kind]; i > 0 && n < max && r->added[kind] - i < RECENT_MAX; i--)
        out[n++] = r->items[kind][(i - 1) % RECENT_MAX];
    pthread_mutex_unlock(&r->lock);
    return n;
}
