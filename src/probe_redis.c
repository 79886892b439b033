/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decide.h"
#include "keys.h"
#include "probe_kinds.h"
#include "redis.h"

#define NOBODY 0     /* a family's number begins at 1: this one is never warm, so the script stops at COLD */
#define NEVER 197001 /* a month */
#define INFO_SECTIONS 2

struct redis_state {
    const struct config *cfg;
    struct redis *redis;
    struct redis_command command;
};

static void *redis_open(const struct config *cfg) {
    struct redis_state *s = mem_zero(1, sizeof *s);
    s->cfg = cfg;
    s->redis = redis_new(cfg);
    return s;
}

static void redis_end(void *state) {
    struct redis_state *s = state;
    redis_free(s->redis);
    redis_command_free(&s->command);
    free(s);
}

/* One event of a family that isn't there, as lua/decide.lua takes it. */
static void append_script(struct redis_state *s) {
    struct redis_command *c = &s->command;
    redis_command_reset(c);
    buf_str(redis_command_arg(c), "EVALSHA");
    buf_str(redis_command_arg(c), redis_script_sha(s->redis, REDIS_SCRIPT_DECIDE));
    buf_str(redis_command_arg(c), "6");
    key_info(redis_command_arg(c), NOBODY, NEVER);
    key_remaining(redis_command_arg(c), NOBODY, NEVER);
    key_members(redis_command_arg(c), NOBODY);
    key_usage(redis_command_arg(c), NOBODY, NOBODY, NEVER);
    key_constraints(redis_command_arg(c), NOBODY, NOBODY);
    key_dedup(redis_command_arg(c), "-");
    buf_str(redis_command_arg(c), "0"); /* any warming would be good */
    buf_i64(redis_command_arg(c), s->cfg->dedup_ttl_seconds);
    decide_thresholds_text(redis_command_arg(c), s->cfg);
    buf_i64(redis_command_arg(c), NOBODY);
    buf_i64(redis_command_arg(c), NOBODY);
    buf_str(redis_command_arg(c), "1");
    buf_str(redis_command_arg(c), "");
    buf_str(redis_command_arg(c), "0000");
    buf_str(redis_command_arg(c), "0");
    redis_append(s->redis, c);
}

/* The server refuses it where it would refuse writes after a failed save, which a cold script doesn't come
 * to. */
static void append_ping(struct redis_state *s) {
    redis_command_reset(&s->command);
    buf_str(redis_command_arg(&s->command), "PING");
    redis_append(s->redis, &s->command);
}

static void append_info(struct redis_state *s, const char *section) {
    redis_command_reset(&s->command);
    buf_str(redis_command_arg(&s->command), "INFO");
    buf_str(redis_command_arg(&s->command), section);
    redis_append(s->redis, &s->command);
}

struct replies {
    char answer[40]; /* the script's, cut */
    bool no_script, replica, full;
};

/* `name:value` in an answer to INFO. */
static int64_t info_number(const char *info, const char *name) {
    const char *at = info;
    size_t len = strlen(name);
    while ((at = strstr(at, name)) && !((at == info || at[-1] == '\n') && at[len] == ':'))
        at += len;
    return at ? strtoll(at + len + 1, NULL, 10) : 0;
}

static void take_replies(void *ctx, size_t i, const struct redis_reply_view *v) {
    struct replies *r = ctx;
    if (i == 0) {
        r->no_script = v->kind == REDIS_NO_SCRIPT;
        const char *text =
            v->kind == REDIS_LIST && v->count == 1 && v->items[0] ? v->items[0] : "something else";
        snprintf(r->answer, sizeof r->answer, "%s", text);
        return;
    }
    if (v->kind != REDIS_TEXT)
        return;
    /* the server's own rules for refusing writes */
    if (strstr(v->text, "role:slave") && info_number(v->text, "slave_read_only"))
        r->replica = true;
    int64_t most = info_number(v->text, "maxmemory");
    if (most > 0 &&
        info_number(v->text, "used_memory") - info_number(v->text, "mem_not_counted_for_evict") > most)
        r->full = true;
}

static bool say(struct error *err, const char *what, const char *detail) {
    return error_set(err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE, 0, "redis: %s%s", what, detail);
}

static bool redis_attempt(void *state, struct error *err) {
    struct redis_state *s = state;
    struct replies r = {0};
    if (!redis_ensure(s->redis, err))
        return false;
    append_script(s);
    append_info(s, "replication");
    append_info(s, "memory");
    append_ping(s);
    if (!redis_collect(s->redis, take_replies, &r, err))
        return false;
    if (r.no_script) /* emptied, which every caller deals with in the same way */
        return redis_load_scripts(s->redis, err);
    if (strcmp(r.answer, "COLD") != 0)
        return say(err, "the script answers with ", r.answer);
    if (r.replica)
        return say(err, "it's a read-only replica", "");
    return !r.full || say(err, "its memory is full (maxmemory), it takes nothing in", "");
}

const struct probe_kind probe_redis = {"redis", "probe_redis", redis_open, redis_attempt, redis_end};
