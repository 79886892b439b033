/* SPDX-License-Identifier: MIT */
/* Redis at rest. What isn't there is fine; a month whose info is gone isn't looked at, since nobody would. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "model_check.h"

struct cache {
    struct model_check *check;
    redisContext *redis;
    json_t *spread; /* families whose records lay on several partitions of one phase */
    bool is_spread; /* the family looked at is one of them */
    size_t drifted; /* figures of such that are older than MySQL's */
};

/* Several workers may have had such a family at once; then one may have warmed it while another's batch was
 * about to commit, and Redis lacks that batch until the next decision finds out. It decides nothing wrong, so
 * it's counted, no more. */
static json_t *spread_families(const struct model_check *c) {
    json_t *seen = json_object(), *spread = json_object();
    for (size_t i = 0; i < c->count; i++) {
        const struct model_delivery *d = &c->deliveries[i];
        struct model_event event;
        const char *code, *member;
        char key[64], family[32];
        if (model_event_read(d->record->value, d->record->value_len, d->record->timestamp_ms, &event, &code,
                             &member) == MODEL_USAGE) {
            snprintf(key, sizeof key, "%d/%ld", d->phase, event.family);
            snprintf(family, sizeof family, "%ld", event.family);
            if (sc_map_get(seen, key, d->record->partition) != d->record->partition)
                sc_map_set(spread, family, 1);
            sc_map_set(seen, key, d->record->partition);
        }
        model_event_free(&event);
    }
    json_decref(seen);
    return spread;
}

__attribute__((format(printf, 2, 3))) static redisReply *call(struct cache *cache, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    redisReply *reply = redisvCommand(cache->redis, fmt, ap);
    va_end(ap);
    if (!reply)
        sc_die("Redis: %s", cache->redis->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        sc_die("Redis: %s: %s", fmt, reply->str);
    return reply;
}

/* "YYYYMM" */
static void month_text(int month, char out[16]) {
    snprintf(out, 16, "%04u%02u", (unsigned)(month / 12) % 10000u, (unsigned)(month % 12) + 1);
}

static void value_is(struct cache *cache, const char *key, int64_t expected) {
    redisReply *reply = call(cache, "GET %s", key);
    char text[32];
    snprintf(text, sizeof text, "%ld", expected);
    if (reply->type == REDIS_REPLY_STRING && strcmp(reply->str, text) != 0) {
        if (cache->is_spread)
            cache->drifted++;
        else
            sc_differ(&cache->check->report, "Redis %s: expected %s, found %s", key, text, reply->str);
    }
    freeReplyObject(reply);
}

static void expires(struct cache *cache, const char *key) {
    redisReply *reply = call(cache, "TTL %s", key);
    if (reply->integer == -1)
        sc_differ(&cache->check->report, "Redis %s: expected to expire, found no expiry", key);
    freeReplyObject(reply);
}

static void rows_from(struct sc_rows *rows, const redisReply *reply, bool pairs) {
    for (size_t i = 0; i + pairs < reply->elements; i += pairs ? 2 : 1) {
        const redisReply *value = pairs ? reply->element[i + 1] : reply->element[i];
        if (!pairs || strcmp(reply->element[i]->str, "WARM") != 0)
            sc_rows_add(rows, reply->element[i]->str, value->str, value->len);
    }
}

static void check_members(struct cache *cache, int64_t family) {
    struct sc_rows expected = {0}, found = {0};
    struct model *m = cache->check->model;
    char key[64];
    snprintf(key, sizeof key, "family:%ld:members", family);
    const char *member;
    json_t *is;
    json_object_foreach(m->members, member, is) {
        int64_t of, customer;
        if (json_integer_value(is) == 1 && sscanf(member, "%ld/%ld", &of, &customer) == 2 && of == family)
            sc_rows_add(&expected, strchr(member, '/') + 1, strchr(member, '/') + 1,
                        strlen(strchr(member, '/') + 1));
    }
    redisReply *reply = call(cache, "SMEMBERS %s", key);
    rows_from(&found, reply, false);
    if (reply->elements) {
        sc_rows_diff(&cache->check->report, key, &expected, &found);
        expires(cache, key);
    }
    freeReplyObject(reply);
    sc_rows_free(&expected);
    sc_rows_free(&found);
}

static void rules_expected(const struct model_rules *rules, struct sc_rows *rows) {
    const char *app;
    json_t *one;
    if (rules->manual)
        sc_rows_addf(rows, "BLOCK:ACCESS", "1");
    if (rules->from >= 0)
        sc_rows_addf(rows, "BLOCK:TIME", "%02d%02d-%02d%02d", rules->from / 60, rules->from % 60,
                     rules->to / 60, rules->to % 60);
    if (rules->limit >= 0)
        sc_rows_addf(rows, "LIMIT:DATA:MONTHLY", "%ld", rules->limit);
    json_object_foreach(rules->apps, app, one) {
        char *kind = model_alert_kind("APP_BLOCK", 0, app);
        struct buf field = {0};
        buf_printf(&field, "BLOCK:APP:%s", strchr(kind, ':') + 1);
        sc_rows_addf(rows, buf_cstr(&field), "1");
        buf_free(&field);
        free(kind);
    }
}

static void check_rules(struct cache *cache, int64_t family, int64_t customer) {
    struct sc_rows expected = {0}, found = {0};
    struct model_rules rules = model_rules_of(cache->check->model, family, customer);
    char key[96];
    snprintf(key, sizeof key, "family:%ld:customer:%ld:constraints", family, customer);
    redisReply *reply = call(cache, "HGETALL %s", key);
    rules_expected(&rules, &expected);
    rows_from(&found, reply, true);
    if (reply->elements && !rules.unreadable) {
        sc_rows_diff(&cache->check->report, key, &expected, &found);
        expires(cache, key);
    }
    freeReplyObject(reply);
    model_rules_free(&rules);
    sc_rows_free(&expected);
    sc_rows_free(&found);
}

/* A mark of the generation that counts, for what nobody was told, would keep it from being told. */
static void check_mark(struct cache *cache, const char *key, const char *gen, int64_t family,
                       int64_t customer, int month) {
    redisReply *reply = call(cache, "GET %s", key);
    const char *kind = strstr(key, ":alert:") + 7, *end = strrchr(kind, ':');
    bool told = false;
    for (size_t i = 0; i < cache->check->model->alerts.count; i++) {
        const struct model_alert *a = MODEL_AT(cache->check->model->alerts, struct model_alert, i);
        told = told ||
               (a->family == family && a->customer == customer && a->month == month &&
                strlen(a->kind) == (size_t)(end - kind) && strncmp(a->kind, kind, (size_t)(end - kind)) == 0);
    }
    if (!told && reply->type == REDIS_REPLY_STRING && strcmp(reply->str, gen) == 0)
        sc_differ(&cache->check->report, "Redis %s: expected nothing, as it wasn't told; found a mark", key);
    freeReplyObject(reply);
    expires(cache, key);
}

static void check_marks(struct cache *cache, const redisReply *keys, const char *gen, int64_t family,
                        int month) {
    char yyyymm[16];
    month_text(month, yyyymm);
    for (size_t i = 0; i < keys->elements; i++) {
        const char *key = keys->element[i]->str;
        int64_t of, customer;
        int at = 0;
        if (sscanf(key, "family:%ld:customer:%ld:alert:%n", &of, &customer, &at) != 2 || !at || of != family)
            continue;
        if (strcmp(strrchr(key, ':') + 1, yyyymm) == 0)
            check_mark(cache, key, gen, family, customer, month);
    }
}

static void check_customers(struct cache *cache, int64_t family, int month) {
    const char *member;
    json_t *is;
    char yyyymm[16];
    month_text(month, yyyymm);
    json_object_foreach(cache->check->model->members, member, is) {
        int64_t of, customer;
        if (json_integer_value(is) != 1 || sscanf(member, "%ld/%ld", &of, &customer) != 2 || of != family)
            continue;
        const struct model_customer *c = model_customer_of(cache->check->model, family, customer, month);
        char key[128];
        snprintf(key, sizeof key, "family:%ld:customer:%ld:usage:monthly:%s", family, customer, yyyymm);
        value_is(cache, key, c ? c->used : 0);
        expires(cache, key);
        check_rules(cache, family, customer);
    }
}

static void check_month(struct cache *cache, const redisReply *keys, const char *info, int64_t family,
                        int month) {
    const struct model_quota *q = model_quota_of(cache->check->model, family, month);
    if (!q) {
        sc_differ(&cache->check->report, "Redis %s: expected nothing, as the month has no quota; found it",
                  info);
        return;
    }
    char key[96], yyyymm[16], total[32];
    month_text(month, yyyymm);
    snprintf(key, sizeof key, "%ld", family);
    cache->is_spread = json_object_get(cache->spread, key) != NULL;
    redisReply *reply = call(cache, "HMGET %s totalQuota gen", info);
    snprintf(total, sizeof total, "%ld", q->total);
    const char *found = reply->element[0]->str, *gen = reply->element[1]->str;
    if (!found || !gen || strcmp(found, total) != 0)
        sc_differ(&cache->check->report, "Redis %s: expected totalQuota %s and a generation, found %s and %s",
                  info, total, found ? found : "none", gen ? gen : "none");
    snprintf(key, sizeof key, "family:%ld:remaining:%s", family, yyyymm);
    value_is(cache, key, q->total - q->used);
    expires(cache, key);
    expires(cache, info);
    check_customers(cache, family, month);
    check_members(cache, family);
    if (gen)
        check_marks(cache, keys, gen, family, month);
    freeReplyObject(reply);
}

void model_check_cache(struct model_check *c) {
    const char *host = sc_env("REDIS_HOST");
    struct cache cache = {.check = c, .redis = redisConnect(host, atoi(sc_env("REDIS_PORT")))};
    if (!cache.redis || cache.redis->err)
        sc_die("Redis: %s", cache.redis ? cache.redis->errstr : "out of memory");
    cache.spread = spread_families(c);
    redisReply *keys = call(&cache, "KEYS *");
    for (size_t i = 0; i < keys->elements; i++) {
        int64_t family;
        int year, month, end = 0;
        const char *key = keys->element[i]->str;
        if (sscanf(key, "family:%ld:info:%4d%2d%n", &family, &year, &month, &end) == 3 && end && !key[end])
            check_month(&cache, keys, key, family, year * 12 + month - 1);
    }
    freeReplyObject(keys);
    json_decref(cache.spread);
    if (cache.drifted)
        printf("Redis: %zu figures older than MySQL's, of families that several workers had at once\n",
               cache.drifted);
    redisFree(cache.redis);
}
