/* SPDX-License-Identifier: MIT */
/* What Redis holds of an event: the result that the script cached, and the figures of its family's month. */
#include <stdlib.h>
#include <string.h>

#include "decide.h"
#include "explain.h"
#include "keys.h"
#include "redis.h"

/* An entry is "GEN FAMILY CUSTOMER BYTES RESULT"; the generation is copied out. */
static bool read_entry(struct explanation *x, const char *entry, char *gen, size_t size) {
    const char *end = strchr(entry, ' '), *result = end;
    if (!end || (size_t)(end - entry) >= size)
        return false;
    memcpy(gen, entry, (size_t)(end - entry));
    gen[end - entry] = '\0';
    int64_t *const figures[] = {&x->dedup_family, &x->dedup_customer, &x->dedup_bytes};
    for (int i = 0; i < 3 && result; i++) {
        *figures[i] = strtoll(result + 1, NULL, 10);
        result = strchr(result + 1, ' ');
    }
    return result && decide_parse_reply(result + 1, strlen(result + 1), &x->dedup);
}

struct asking {
    struct explanation *x;
    char gen[64];
};

static void take_entry(void *ctx, size_t i, const struct redis_reply_view *v) {
    struct asking *a = ctx;
    (void)i;
    a->x->has_dedup = v->kind == REDIS_TEXT;
    if (!a->x->has_dedup)
        return;
    char *entry = mem_alloc(v->len + 1);
    memcpy(entry, v->text, v->len);
    entry[v->len] = '\0';
    a->x->dedup_read = read_entry(a->x, entry, a->gen, sizeof a->gen);
    free(entry);
}

static bool ask(struct redis *redis, const struct config *cfg, struct explanation *x, struct error *err) {
    struct redis_command c = {0};
    struct asking a = {.x = x};
    bool ok = redis_ensure(redis, err);
    if (ok) {
        buf_str(redis_command_arg(&c), "GET");
        key_dedup(redis_command_arg(&c), x->id);
        redis_append(redis, &c);
        ok = redis_collect(redis, take_entry, &a, err);
    }
    redis_command_free(&c);
    if (ok && x->has_month)
        ok = family_month_ask_cache(redis, cfg, &x->month, err);
    x->dedup_current = ok && x->dedup_read && x->month.gen && strcmp(x->month.gen, a.gen) == 0;
    return ok;
}

void explain_redis(const struct config *cfg, struct explanation *x) {
    struct redis *redis = redis_new(cfg);
    x->cache_asked = ask(redis, cfg, x, &x->redis);
    redis_free(redis);
}
