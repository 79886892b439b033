/* SPDX-License-Identifier: MIT */
/* Redis at rest: what is there must agree with MySQL, and must expire one day.
 * What isn't there is fine: losing any of it loses nothing. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "scenario_cache.h"
#include "scenario_check.h"
#include "scenario_sql.h"

redisContext *sc_redis_open(void) {
    struct timeval patience = {.tv_sec = 10};
    redisContext *redis = redisConnectWithTimeout(sc_env("REDIS_HOST"), atoi(sc_env("REDIS_PORT")), patience);
    if (!redis || redis->err)
        sc_die("Redis: %s", redis ? redis->errstr : "out of memory");
    redisSetTimeout(redis, patience);
    return redis;
}

redisReply *sc_redis_call(redisContext *redis, int argc, const char *const *argv) {
    redisReply *reply = redisCommandArgv(redis, argc, (const char **)(uintptr_t)argv, NULL);
    if (!reply)
        sc_die("Redis: %s", redis->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        sc_die("Redis: %s %s: %s", argv[0], argc > 1 ? argv[1] : "", reply->str);
    return reply;
}

void sc_redis_flush(void) {
    redisContext *redis = sc_redis_open();
    const char *const flush[] = {"FLUSHALL"};
    freeReplyObject(sc_redis_call(redis, 1, flush));
    redisFree(redis);
}

/* A string key's or a hash field's value; the caller frees it. NULL when it isn't there. */
static char *value_of(redisContext *redis, const char *key, const char *field) {
    const char *const get[] = {field ? "HGET" : "GET", key, field};
    redisReply *reply = sc_redis_call(redis, field ? 3 : 2, get);
    char *value = reply->type == REDIS_REPLY_STRING ? mem_strdup(reply->str) : NULL;
    freeReplyObject(reply);
    return value;
}

static void key_is(struct sc_check *c, redisContext *redis, const char *key, const char *field,
                   const char *expected) {
    char *found = value_of(redis, key, field);
    if (found && strcmp(found, expected) != 0)
        sc_differ(&c->report, "Redis %s%s%s: expected %s, found %s", key, field ? " " : "",
                  field ? field : "", expected, found);
    free(found);
}

static void check_families(struct sc_check *c, redisContext *redis) {
    MYSQL_RES *res =
        sc_sql_rows(c->db, "SELECT family_id, DATE_FORMAT(quota_month, '%%Y%%m'), total_quota_bytes, "
                           "total_quota_bytes - used_bytes FROM family_quota");
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        char key[96];
        snprintf(key, sizeof key, "family:%s:remaining:%s", r[0], r[1]);
        key_is(c, redis, key, NULL, r[3]);
        snprintf(key, sizeof key, "family:%s:info:%s", r[0], r[1]);
        key_is(c, redis, key, "totalQuota", r[2]);
    }
    mysql_free_result(res);
}

/* What a "usage:monthly" key must hold; 0 for a customer without a row. */
static void check_customer_key(struct sc_check *c, redisContext *redis, const char *key) {
    int64_t family, customer;
    int year, month;
    char rest;
    if (sscanf(key, "family:%ld:customer:%ld:usage:monthly:%4d%2d%c", &family, &customer, &year, &month,
               &rest) != 4)
        return;
    MYSQL_RES *res = sc_sql_rows(c->db,
                                 "SELECT COALESCE(SUM(monthly_used_bytes), 0) FROM customer_quota WHERE "
                                 "family_id = %ld AND customer_id = %ld AND quota_month = '%04d-%02d-01'",
                                 family, customer, year, month);
    key_is(c, redis, key, NULL, mysql_fetch_row(res)[0]);
    mysql_free_result(res);
}

/* A mark in Redis that MySQL doesn't know would keep an alert from being told. */
static void check_alert_key(struct sc_check *c, const char *key) {
    int64_t family, customer;
    int at = 0;
    if (sscanf(key, "family:%ld:customer:%ld:alert:%n", &family, &customer, &at) != 2 || at == 0)
        return;
    const char *kind = key + at;
    const char *month = strrchr(kind, ':');
    if (!month || strlen(month + 1) != 6) {
        sc_differ(&c->report, "Redis %s: expected a month at its end", key);
        return;
    }
    char *alert = strndup(kind, (size_t)(month - kind));
    char *quoted = sc_sql_quote(c->db, alert);
    MYSQL_RES *res =
        sc_sql_rows(c->db,
                    "SELECT COUNT(*) FROM alert_state WHERE family_id = %ld AND customer_id = %ld "
                    "AND quota_month = '%.4s-%.2s-01' AND alert = %s",
                    family, customer, month + 1, month + 5, quoted);
    if (sc_sql_int(mysql_fetch_row(res)[0]) == 0)
        sc_differ(&c->report, "Redis %s: expected its row in alert_state, found none", key);
    mysql_free_result(res);
    free(quoted);
    free(alert);
}

static void check_members_key(struct sc_check *c, redisContext *redis, const char *key) {
    int64_t family;
    int at = 0;
    if (sscanf(key, "family:%ld:members%n", &family, &at) != 1 || at == 0 || key[at])
        return;
    struct sc_rows expected = {0}, found = {0};
    MYSQL_RES *res =
        sc_sql_rows(c->db, "SELECT customer_id FROM family_member WHERE family_id = %ld", family);
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));)
        sc_rows_add(&expected, r[0], "a member", 8);
    mysql_free_result(res);
    const char *const smembers[] = {"SMEMBERS", key};
    redisReply *reply = sc_redis_call(redis, 2, smembers);
    for (size_t i = 0; i < reply->elements; i++)
        sc_rows_add(&found, reply->element[i]->str, "a member", 8);
    freeReplyObject(reply);
    sc_rows_diff(&c->report, key, &expected, &found);
    sc_rows_free(&expected);
    sc_rows_free(&found);
}

static void check_expiry(struct sc_check *c, redisContext *redis, const char *key) {
    const char *const ttl[] = {"TTL", key};
    redisReply *reply = sc_redis_call(redis, 2, ttl);
    if (reply->integer == -1)
        sc_differ(&c->report, "Redis %s: expected to expire, found no expiry", key);
    freeReplyObject(reply);
}

static void check_key(struct sc_check *c, redisContext *redis, const char *key) {
    if (strncmp(key, "family:", 7) == 0 || strncmp(key, "event:", 6) == 0)
        check_expiry(c, redis, key);
    check_customer_key(c, redis, key);
    check_alert_key(c, key);
    check_members_key(c, redis, key);
}

void sc_check_cache(struct sc_check *c) {
    redisContext *redis = sc_redis_open();
    char *cursor = mem_strdup("0");
    check_families(c, redis);
    do {
        const char *const scan[] = {"SCAN", cursor, "COUNT", "1000"};
        redisReply *reply = sc_redis_call(redis, 4, scan);
        free(cursor);
        cursor = mem_strdup(reply->element[0]->str);
        for (size_t i = 0; i < reply->element[1]->elements; i++)
            check_key(c, redis, reply->element[1]->element[i]->str);
        freeReplyObject(reply);
    } while (strcmp(cursor, "0") != 0);
    free(cursor);
    redisFree(redis);
}
