/* SPDX-License-Identifier: MIT */
/* Redis' side of a family's month. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "decide.h"
#include "family_month.h"
#include "keys.h"

/* Members a MGET asks for. */
#define MEMBERS_A_READ 200

struct asking {
    struct family_month *m;
    const struct config *cfg;
    struct buf thresholds;
    bool usable, has_remaining;
};

const char *family_cache_name(enum family_cache c) {
    static const char *const names[] = {"not asked", "cold", "other total", "agree", "differ"};
    return names[c];
}

enum family_cache family_cache_judge(bool usable, int64_t cached, int64_t mysql) {
    if (!usable)
        return FAMILY_CACHE_COLD;
    return cached == mysql ? FAMILY_CACHE_AGREES : FAMILY_CACHE_DIFFERS;
}

static bool number_of(const char *text, int64_t *out) {
    char *end;
    if (!text || !*text)
        return false;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *end == '\0' && errno == 0;
}

/* Whether the script would use it, as far as info goes. */
static void take_info(struct asking *a, const struct redis_reply_view *v) {
    struct family_month *m = a->m;
    if (v->kind != REDIS_LIST || v->count != 4)
        return;
    a->usable = v->items[0] && number_of(v->items[1], &m->warmed_s) &&
                m->warmed_s >= (int64_t)time(NULL) - a->cfg->cache_max_age_seconds &&
                number_of(v->items[2], &m->cached_total) && v->items[3] &&
                strcmp(v->items[3], buf_cstr(&a->thresholds)) == 0;
    if (a->usable)
        m->gen = mem_strdup(v->items[0]);
}

static void take_amounts(struct asking *a, const struct redis_reply_view *v, size_t first) {
    struct family_month *m = a->m;
    if (v->kind != REDIS_LIST || v->count < 1)
        return;
    a->has_remaining = number_of(v->items[0], &m->cached_remaining);
    for (size_t i = 1; i < v->count && first + i - 1 < m->member_count; i++) {
        struct family_member *member = &m->members[first + i - 1];
        member->has_cached = number_of(v->items[i], &member->cached_used);
    }
}

static void take_reply(void *ctx, size_t i, const struct redis_reply_view *v) {
    if (i == 0)
        take_info(ctx, v);
    else
        take_amounts(ctx, v, (i - 1) * MEMBERS_A_READ);
}

static void ask_info(struct redis *redis, struct redis_command *c, const struct family_month *m) {
    redis_command_reset(c);
    buf_str(redis_command_arg(c), "HMGET");
    key_info(redis_command_arg(c), m->family, m->month);
    buf_str(redis_command_arg(c), "gen");
    buf_str(redis_command_arg(c), "warmed");
    buf_str(redis_command_arg(c), "totalQuota");
    buf_str(redis_command_arg(c), "thresholds");
    redis_append(redis, c);
}

static void ask_amounts(struct redis *redis, struct redis_command *c, const struct family_month *m,
                        size_t first) {
    redis_command_reset(c);
    buf_str(redis_command_arg(c), "MGET");
    key_remaining(redis_command_arg(c), m->family, m->month);
    for (size_t i = first; i < m->member_count && i < first + MEMBERS_A_READ; i++)
        key_usage(redis_command_arg(c), m->family, m->members[i].customer, m->month);
    redis_append(redis, c);
}

static void judge(struct asking *a) {
    struct family_month *m = a->m;
    m->has_cached = a->usable && a->has_remaining;
    m->cache = family_cache_judge(m->has_cached, m->cached_remaining, family_left(m));
    if (m->has_cached && m->cached_total != m->total)
        m->cache = FAMILY_CACHE_OTHER_TOTAL;
    for (size_t i = 0; i < m->member_count; i++) {
        struct family_member *member = &m->members[i];
        member->has_cached = member->has_cached && m->has_cached;
        if (m->cache == FAMILY_CACHE_AGREES && member->has_cached && member->cached_used != member->used)
            m->cache = FAMILY_CACHE_DIFFERS;
    }
}

bool family_month_ask_cache(struct redis *redis, const struct config *cfg, struct family_month *m,
                            struct error *err) {
    struct asking a = {.m = m, .cfg = cfg};
    struct redis_command c = {0};
    bool ok = redis_ensure(redis, err);
    decide_thresholds_text(&a.thresholds, cfg);
    if (ok) {
        size_t first = 0;
        ask_info(redis, &c, m);
        do {
            ask_amounts(redis, &c, m, first);
            first += MEMBERS_A_READ;
        } while (first < m->member_count);
        ok = redis_collect(redis, take_reply, &a, err);
    }
    if (ok)
        judge(&a);
    redis_command_free(&c);
    buf_free(&a.thresholds);
    return ok;
}
