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

/* A write that changes nothing, since there's nothing under its key: refused for all that a decision's writes
 * would be refused for (no room, a replica, too few replicas of its own, a save that failed), which a cold
 * script doesn't come to. */
static void append_write(struct redis_state *s) {
    struct redis_command *c = &s->command;
    redis_command_reset(c);
    buf_str(redis_command_arg(c), "SET");
    key_remaining(redis_command_arg(c), NOBODY, NEVER);
    buf_str(redis_command_arg(c), "0");
    buf_str(redis_command_arg(c), "XX");
    redis_append(s->redis, c);
}

struct replies {
    char answer[40]; /* the script's, cut */
    bool no_script;
};

static void take_replies(void *ctx, size_t i, const struct redis_reply_view *v) {
    struct replies *r = ctx;
    if (i > 0)
        return;
    r->no_script = v->kind == REDIS_NO_SCRIPT;
    const char *text = v->kind == REDIS_LIST && v->count == 1 && v->items[0] ? v->items[0] : "something else";
    snprintf(r->answer, sizeof r->answer, "%s", text);
}

static bool redis_attempt(void *state, struct error *err) {
    struct redis_state *s = state;
    struct replies r = {0};
    if (!redis_ensure(s->redis, err))
        return false;
    append_script(s);
    append_write(s);
    if (!redis_collect(s->redis, take_replies, &r, err))
        return false;
    if (r.no_script) /* emptied, which every caller deals with in the same way */
        return redis_load_scripts(s->redis, err);
    return strcmp(r.answer, "COLD") == 0 || error_set(err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE, 0,
                                                      "redis: the script answers with %s", r.answer);
}

const struct probe_kind probe_redis = {"redis", "probe_redis", redis_open, redis_attempt, redis_end};
