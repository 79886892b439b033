/* SPDX-License-Identifier: MIT */
/* What Redis holds of an event: the result that the script cached, and the figures of its family's month. */
#include <stdlib.h>
#include <string.h>

#include "decide.h"
#include "explain.h"
#include "keys.h"
#include "redis.h"

/* The next number of an entry, with a space behind it. */
static bool take_number(const char **at, int64_t *out) {
    size_t digits = strspn(*at, "0123456789");
    if (digits < 1 || digits > 18 || (*at)[digits] != ' ')
        return false;
    *out = strtoll(*at, NULL, 10);
    *at += digits + 1;
    return true;
}

/* An entry is "GEN FAMILY CUSTOMER BYTES RESULT"; the generation is copied out. */
static bool read_entry(struct explanation *x, const char *entry, char *gen, size_t size) {
    const char *end = strchr(entry, ' '), *rest;
    if (!end || (size_t)(end - entry) >= size)
        return false;
    memcpy(gen, entry, (size_t)(end - entry));
    gen[end - entry] = '\0';
    rest = end + 1;
    return take_number(&rest, &x->dedup_family) && take_number(&rest, &x->dedup_customer) &&
           take_number(&rest, &x->dedup_bytes) && decide_parse_reply(rest, strlen(rest), &x->dedup);
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
