/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "keys.h"
#include "redis.h"

/* Before, errors inside scripts come wrapped: READONLY and OOM would look like wrong data. */
#define MAJOR_MIN 7
#define MINOR_MIN 0
#define MEMORY_WARN_SHARE 0.9

struct probe {
    const struct config *cfg;
    struct check_report *r;
    struct redis *redis;
    struct buf info; /* INFO's answer */
    char word[32];   /* a short answer */
};

static struct check_item item(enum check_status status, const char *name, const char *hint, json_t *figures) {
    return (struct check_item){
        .area = CHECK_REDIS, .status = status, .name = name, .hint = hint, .figures = figures};
}

/* A field of INFO, cut to `size`; "" when there is none. */
static void field(const struct probe *p, const char *name, char *out, size_t size) {
    size_t len = strlen(name);
    out[0] = '\0';
    for (const char *line = buf_cstr(&p->info); line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) != 0 || line[len] != ':')
            continue;
        const char *value = line + len + 1;
        snprintf(out, size, "%.*s", (int)strcspn(value, "\r\n"), value);
        return;
    }
}

static int64_t number(const struct probe *p, const char *name) {
    char text[32];
    field(p, name, text, sizeof text);
    return strtoll(text, NULL, 10);
}

static void take_info(void *ctx, size_t i, const struct redis_reply_view *v) {
    struct probe *p = ctx;
    (void)i;
    if (v->kind == REDIS_TEXT)
        buf_append(&p->info, v->text, v->len);
}

/* False when Redis doesn't tell, as with a user who may not ask. */
static bool ask_info(struct probe *p, struct error *err) {
    struct redis_command c = {0};
    buf_str(redis_command_arg(&c), "INFO");
    redis_append(p->redis, &c);
    redis_command_free(&c);
    return redis_collect(p->redis, take_info, p, err) && p->info.len > 0;
}

static void server(struct probe *p) {
    char version[32], cluster[8];
    field(p, "redis_version", version, sizeof version);
    field(p, "cluster_enabled", cluster, sizeof cluster);
    json_t *figures = json_pack("{s:s}", "version", version);
    if (!check_version_reaches(version, MAJOR_MIN, MINOR_MIN))
        check_add(p->r, item(CHECK_FAIL, "server", "upgrade it", figures),
                  "version %s, and 7.0 or newer is needed", version);
    else if (strcmp(cluster, "1") == 0)
        check_add(p->r, item(CHECK_FAIL, "server", "use a Redis of its own", figures),
                  "a cluster, and one decision touches keys of several slots");
    else
        check_add(p->r, item(CHECK_OK, "server", NULL, figures), "version %s at %s:%lld", version,
                  p->cfg->redis.host, (long long)p->cfg->redis.port);
}

static void role(struct probe *p) {
    char name[16], master[256];
    field(p, "role", name, sizeof name);
    field(p, "master_host", master, sizeof master);
    json_t *figures = json_pack("{s:s}", "role", name);
    if (strcmp(name, "master") == 0)
        check_add(p->r, item(CHECK_OK, "role", NULL, figures), "master");
    else
        check_add(p->r, item(CHECK_FAIL, "role", "point redis.host at the master", figures),
                  "a replica of %s, which can't be written to", master);
}

static void memory(struct probe *p) {
    int64_t used = number(p, "used_memory"), most = number(p, "maxmemory");
    json_t *figures = json_pack("{s:I,s:I}", "usedBytes", (json_int_t)used, "maxmemory", (json_int_t)most);
    double mib = (double)used / 1048576;
    if (most == 0)
        check_add(p->r, item(CHECK_OK, "memory", NULL, figures), "%.1f MiB used, without a limit", mib);
    else if ((double)used >= (double)most * MEMORY_WARN_SHARE)
        check_add(p->r,
                  item(CHECK_WARN, "memory", "raise maxmemory: a full Redis makes tallyd wait", figures),
                  "%.1f MiB used of %.1f", mib, (double)most / 1048576);
    else
        check_add(p->r, item(CHECK_OK, "memory", NULL, figures), "%.1f MiB used of %.1f", mib,
                  (double)most / 1048576);
}

/* INFO tells it to users who may not ask for the configuration. */
static bool eviction(struct probe *p, struct error *err) {
    static const char setting[] = "maxmemory-policy";
    char policy[40];
    field(p, "maxmemory_policy", policy, sizeof policy);
    if (!*policy && !redis_config_get(p->redis, setting, policy, sizeof policy, err))
        return false;
    json_t *figures = json_pack("{s:s}", "policy", policy);
    if (!*policy)
        check_add(p->r, item(CHECK_WARN, "eviction", "see that it is noeviction", figures),
                  "this user may not ask for %s", setting);
    else if (strcmp(policy, "noeviction") != 0)
        check_add(p->r, item(CHECK_FAIL, "eviction", "CONFIG SET maxmemory-policy noeviction", figures),
                  "%s is %s, must be noeviction: it takes counters away under pressure", setting, policy);
    else
        check_add(p->r, item(CHECK_OK, "eviction", NULL, figures), "%s", policy);
    return true;
}

static void take_word(void *ctx, size_t i, const struct redis_reply_view *v) {
    struct probe *p = ctx;
    (void)i;
    bool word = v->kind == REDIS_LIST && v->count == 1 && v->items[0];
    snprintf(p->word, sizeof p->word, "%s", word ? v->items[0] : "");
}

/* Lets the script decide for family 0, which no event can name: it finds nothing, changes nothing and says
 * COLD. */
static bool script(struct probe *p, struct error *err) {
    struct redis_command c = {0};
    static const char *const arguments[] = {"0", "1", "50", "0", "0", "0", "", "0000", "0"};
    buf_str(redis_command_arg(&c), "EVALSHA");
    buf_str(redis_command_arg(&c), redis_script_sha(p->redis, REDIS_SCRIPT_DECIDE));
    buf_str(redis_command_arg(&c), "6");
    key_info(redis_command_arg(&c), 0, 190001);
    key_remaining(redis_command_arg(&c), 0, 190001);
    key_members(redis_command_arg(&c), 0);
    key_usage(redis_command_arg(&c), 0, 0, 190001);
    key_constraints(redis_command_arg(&c), 0, 0);
    key_dedup(redis_command_arg(&c), "0");
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        buf_str(redis_command_arg(&c), arguments[i]);
    redis_append(p->redis, &c);
    redis_command_free(&c);
    if (!redis_collect(p->redis, take_word, p, err))
        return false;
    if (strcmp(p->word, "COLD") == 0)
        check_add(p->r, item(CHECK_OK, "script", NULL, NULL), "loaded, and it runs");
    else
        check_add(p->r, item(CHECK_FAIL, "script", "look who else writes family:0:*", NULL),
                  "it answers \"%s\", expected was COLD", p->word);
    return true;
}

static void take_nothing(void *ctx, size_t i, const struct redis_reply_view *v) {
    (void)ctx;
    (void)i;
    (void)v;
}

/* A write that changes nothing, as the key isn't there: refused for what a decision's would be refused for.
 */
static bool writes(struct probe *p, struct error *err) {
    struct redis_command c = {0};
    buf_str(redis_command_arg(&c), "SET");
    key_remaining(redis_command_arg(&c), 0, 190001);
    buf_str(redis_command_arg(&c), "0");
    buf_str(redis_command_arg(&c), "XX");
    redis_append(p->redis, &c);
    redis_command_free(&c);
    if (!redis_collect(p->redis, take_nothing, NULL, err))
        return false;
    check_add(p->r, item(CHECK_OK, "writes", NULL, NULL), "taken");
    return true;
}

struct time_answer {
    int64_t ms;
};

static void take_time(void *ctx, size_t i, const struct redis_reply_view *v) {
    struct time_answer *t = ctx;
    (void)i;
    if (v->kind == REDIS_LIST && v->count == 2 && v->items[0] && v->items[1])
        t->ms = strtoll(v->items[0], NULL, 10) * 1000 + strtoll(v->items[1], NULL, 10) / 1000;
}

static bool clock_of(struct probe *p, struct error *err) {
    struct redis_command c = {0};
    struct time_answer t = {0};
    buf_str(redis_command_arg(&c), "TIME");
    redis_append(p->redis, &c);
    redis_command_free(&c);
    int64_t before = check_now_ms();
    if (!redis_collect(p->redis, take_time, &t, err))
        return false;
    check_clock(p->r, CHECK_REDIS, before, t.ms, check_now_ms());
    return true;
}

/* What a user may not ask doesn't stop tallyd; what doesn't answer does. */
static void unanswered(struct probe *p, const char *name, struct error *err) {
    if (strstr(err->text, "NOPERM"))
        check_add(p->r, item(CHECK_WARN, name, NULL, NULL), "can't be seen: %s", err->text);
    else
        check_add_error(p->r, CHECK_REDIS, name, err, NULL);
    error_clear(err);
}

static void look(struct probe *p) {
    struct error err = {0};
    if (ask_info(p, &err)) {
        server(p);
        role(p);
        memory(p);
    } else {
        unanswered(p, "server", &err);
    }
    if (!eviction(p, &err))
        unanswered(p, "eviction", &err);
    if (!script(p, &err)) {
        check_add_error(p->r, CHECK_REDIS, "script", &err, NULL);
        error_clear(&err);
    }
    if (!writes(p, &err)) {
        check_add_error(p->r, CHECK_REDIS, "writes", &err, "nothing is decided until it takes them");
        error_clear(&err);
    }
    if (!clock_of(p, &err))
        unanswered(p, "clock", &err);
}

void check_redis(const struct config *cfg, struct check_report *r) {
    struct config quick = *cfg; /* its texts are cfg's */
    struct error err = {0};
    if (quick.redis.connect_timeout_ms > CHECK_ANSWER_MS)
        quick.redis.connect_timeout_ms = CHECK_ANSWER_MS;
    if (quick.redis.timeout_ms > CHECK_ANSWER_MS)
        quick.redis.timeout_ms = CHECK_ANSWER_MS;
    struct probe p = {.cfg = &quick, .r = r, .redis = redis_new(&quick)};
    if (redis_ensure(p.redis, &err))
        look(&p);
    else
        check_add_error(r, CHECK_REDIS, "server", &err, "look at the section redis, and whether it runs");
    redis_free(p.redis);
    buf_free(&p.info);
}
