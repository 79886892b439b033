/* SPDX-License-Identifier: MIT */
/* Makes what was changed in MySQL count at once: a family's `info` is deleted,
 * and its worker warms the family from MySQL when it's next needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "keys.h"
#include "log.h"
#include "mysql_db.h"
#include "period.h"
#include "redis.h"

#define COMMAND "warm"

struct job {
    struct config *cfg;
    struct db *db;
    struct redis *redis;
    int32_t *months; /* of the family in hand */
    size_t month_count;
    int64_t deleted;
};

/* ---- which months ---- */

static void add_month(struct job *j, int32_t month) {
    for (size_t i = 0; i < j->month_count; i++) {
        if (j->months[i] == month)
            return;
    }
    j->months = mem_realloc(j->months, (j->month_count + 1) * sizeof *j->months);
    j->months[j->month_count++] = month;
}

/* The months that Redis can hold: looking for its keys would mean walking through all of them. Warming makes
 * a month's family_quota row; the three around now are for one that somebody has deleted since. */
static bool find_months(struct job *j, int64_t family, bool *known, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    int32_t now = period_month((int64_t)time(NULL) * 1000);
    j->month_count = 0;
    add_month(j, period_month_before(now));
    add_month(j, now);
    add_month(j, period_month_after(now));
    buf_printf(&sql,
               "SELECT NULL FROM family WHERE family_id = %lld UNION ALL "
               "SELECT quota_month FROM family_quota WHERE family_id = %lld",
               (long long)family, (long long)family);
    bool ok = db_query(j->db, &sql, &rows, err);
    buf_free(&sql);
    *known = false;
    if (!ok)
        return false;
    while (db_next(&rows)) {
        int32_t month = rows.row[0] ? period_date_month(rows.row[0]) : 0;
        *known = *known || !rows.row[0];
        if (month)
            add_month(j, month);
    }
    db_rows_free(&rows);
    return true;
}

/* ---- one family ---- */

static void take_deleted(void *ctx, size_t i, const struct redis_reply_view *v) {
    struct job *j = ctx;
    (void)i;
    j->deleted = v->kind == REDIS_NUMBER ? v->number : 0;
}

static bool delete_info(struct job *j, int64_t family, struct error *err) {
    struct redis_command c = {0};
    buf_str(redis_command_arg(&c), "DEL");
    for (size_t i = 0; i < j->month_count; i++)
        key_info(redis_command_arg(&c), family, j->months[i]);
    if (!redis_ensure(j->redis, err)) {
        redis_command_free(&c);
        return false;
    }
    redis_append(j->redis, &c);
    redis_command_free(&c);
    return redis_collect(j->redis, take_deleted, j, err);
}

static int warm_family(struct job *j, int64_t family) {
    struct error err = {0};
    bool known = false;
    if (!db_ensure(j->db, &err) || !find_months(j, family, &known, &err) || !delete_info(j, family, &err))
        return cli_failed(COMMAND, &err);
    if (known) {
        printf("family %lld: %lld month%s in Redis dropped%s\n", (long long)family, (long long)j->deleted,
               j->deleted == 1 ? "" : "s", j->deleted ? "; read from MySQL when next needed" : "");
        return EXIT_OK;
    }
    char what[40];
    snprintf(what, sizeof what, "family %lld", (long long)family);
    cli_error(COMMAND, what, "MySQL has no such family", "look at the number");
    return EXIT_USAGE;
}

/* ---- the command ---- */

static int read_options(int argc, char **argv, const char **path) {
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'}, {0}};
    int c;
    int64_t family;
    while ((c = cli_option(argc, argv, ":c:", longs)) != -1) {
        if (c == '?')
            return EXIT_USAGE;
        *path = optarg;
    }
    if (!*path)
        return cli_usage(COMMAND, "-c FILE", "is missing");
    if (optind == argc)
        return cli_usage(COMMAND, "FAMILY", "is missing");
    for (int i = optind; i < argc; i++) {
        if (!cli_family(argv[i], &family))
            return cli_usage(COMMAND, argv[i], "must be a family's number, 1 … 9007199254740991");
    }
    return EXIT_OK;
}

/* All of them, whichever isn't known; a store that doesn't answer ends it. */
static int warm_all(struct job *j, int count, char **families) {
    int worst = cli_migrated(COMMAND, j->db);
    if (worst != EXIT_OK)
        return worst;
    for (int i = 0; i < count; i++) {
        int64_t family = 0;
        if (!cli_family(families[i], &family)) /* read_options has seen to it */
            return EXIT_INTERNAL;
        int code = warm_family(j, family);
        if (code != EXIT_OK)
            worst = code;
        if (code != EXIT_OK && code != EXIT_USAGE)
            break;
    }
    return worst;
}

int cli_warm(int argc, char **argv) {
    const char *path = NULL;
    int code = read_options(argc, argv, &path);
    if (code != EXIT_OK)
        return code;
    log_init(2, LOG_ERROR);
    struct job j = {.cfg = cli_config(COMMAND, path)};
    if (!j.cfg)
        return EXIT_CONFIG;
    j.db = db_new(j.cfg, DB_READ_COMMITTED);
    j.redis = redis_new(j.cfg);
    code = warm_all(&j, argc - optind, argv + optind);
    redis_free(j.redis);
    db_free(j.db);
    free(j.months);
    config_free(j.cfg);
    return code;
}
