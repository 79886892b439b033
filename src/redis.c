/* SPDX-License-Identifier: MIT */
#include "redis.h"

#include <assert.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "embedded.h"
#include "fault.h"
#include "heartbeat.h"

#define PIPELINES_UNDER_WAY 2

struct redis {
    redisContext *conn; /* NULL: not connected, or failed */
    const struct config *cfg;
    char sha[REDIS_SCRIPT_COUNT][41];
    size_t pending_commands, pending_bytes;
    size_t sent[PIPELINES_UNDER_WAY]; /* commands of each pipeline whose replies aren't read */
    size_t sent_count;
    const char **argv; /* scratch of redis_append */
    size_t *lens;
    size_t argv_capacity;
};

static const char *const script_paths[REDIS_SCRIPT_COUNT] = {"lua/decide.lua", "lua/warm.lua"};

/* One row a reply prefix; what isn't here is a fault that somebody has to look at. */
static const struct {
    const char *prefix;
    enum error_action action;
} known_replies[] = {
    {"BUSY", ERROR_RETRY},        {"LOADING", ERROR_RETRY},    {"READONLY", ERROR_RETRY},
    {"MASTERDOWN", ERROR_RETRY},  {"OOM", ERROR_RETRY},        {"TRYAGAIN", ERROR_RETRY},
    {"CLUSTERDOWN", ERROR_RETRY}, {"NOREPLICAS", ERROR_RETRY}, {"MISCONF", ERROR_RETRY},
    {"UNBLOCKED", ERROR_RETRY},   {"NOAUTH", ERROR_STOP},      {"WRONGPASS", ERROR_STOP},
    {"NOPERM", ERROR_STOP},       {"-NOPERM", ERROR_STOP},
};

static bool reply_fail(const char *text, struct error *err) {
    enum error_action action = ERROR_STOP;
    char told[256];
    error_hide_quoted(text, told,
                      sizeof told); /* some quote the arguments they are about, but none of those */
    for (size_t i = 0; i < sizeof known_replies / sizeof *known_replies; i++) {
        if (strncmp(text, known_replies[i].prefix, strlen(known_replies[i].prefix)) == 0) {
            action = known_replies[i].action;
            snprintf(told, sizeof told, "%s", text);
        }
    }
    return error_set(err, ERROR_REDIS, action, ERROR_NOT_DONE, 0, "redis: %s", told);
}

/* A lost or late answer: the commands may have run. */
static bool connection_fail(struct redis *r, const char *why, struct error *err) {
    error_set(err, ERROR_REDIS, ERROR_RETRY, ERROR_UNKNOWN, 0, "redis: %s", why);
    redis_close(r);
    return false;
}

struct redis *redis_new(const struct config *cfg) {
    struct redis *r = mem_zero(1, sizeof *r);
    r->cfg = cfg;
    return r;
}

void redis_close(struct redis *r) {
    if (r->conn)
        redisFree(r->conn);
    r->conn = NULL;
    r->pending_commands = r->pending_bytes = r->sent_count = 0;
}

void redis_free(struct redis *r) {
    if (!r)
        return;
    redis_close(r);
    free(r->argv);
    free(r->lens);
    free(r);
}

const char *redis_script_sha(const struct redis *r, enum redis_script script) {
    return r->sha[script];
}

size_t redis_pending_commands(const struct redis *r) {
    return r->pending_commands;
}

size_t redis_pending_bytes(const struct redis *r) {
    return r->pending_bytes;
}

void redis_command_reset(struct redis_command *c) {
    buf_reset(&c->text);
    c->count = 0;
}

struct buf *redis_command_arg(struct redis_command *c) {
    if (c->count == c->capacity) {
        c->capacity = c->capacity ? c->capacity * 2 : 32;
        c->start = mem_realloc(c->start, c->capacity * sizeof *c->start);
    }
    c->start[c->count++] = c->text.len;
    return &c->text;
}

void redis_command_free(struct redis_command *c) {
    buf_free(&c->text);
    free(c->start);
    *c = (struct redis_command){0};
}

void redis_append(struct redis *r, const struct redis_command *c) {
    r->pending_commands++;
    r->pending_bytes += c->text.len;
    if (!r->conn)
        return;
    if (r->argv_capacity < c->count) {
        r->argv_capacity = c->capacity;
        r->argv = mem_realloc(r->argv, c->capacity * sizeof *r->argv);
        r->lens = mem_realloc(r->lens, c->capacity * sizeof *r->lens);
    }
    for (size_t i = 0; i < c->count; i++) {
        size_t end = i + 1 < c->count ? c->start[i + 1] : c->text.len;
        r->argv[i] = buf_cstr(&c->text) + c->start[i];
        r->lens[i] = end - c->start[i];
    }
    redisAppendCommandArgv(r->conn, (int)c->count, r->argv, r->lens);
}

/* hiredis' own time-out is per read(), so a trickling server could hold us for ever: wait here. */
static bool wait_ready(struct redis *r, short events, int64_t deadline, struct error *err) {
    for (;;) {
        int64_t left = deadline - clock_monotonic_ms();
        if (left <= 0)
            return connection_fail(r, "no answer in time", err);
        struct pollfd p = {.fd = r->conn->fd, .events = events};
        int n = poll(&p, 1, (int)left);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return connection_fail(r, strerror(errno), err);
    }
}

static bool send_all(struct redis *r, int64_t deadline, struct error *err) {
    int done = 0;
    while (!done) {
        if (!wait_ready(r, POLLOUT, deadline, err))
            return false;
        if (redisBufferWrite(r->conn, &done) != REDIS_OK)
            return connection_fail(r, r->conn->errstr, err);
    }
    return true;
}

static bool next_reply(struct redis *r, int64_t deadline, redisReply **out, struct error *err) {
    for (;;) {
        void *reply = NULL;
        if (redisGetReplyFromReader(r->conn, &reply) != REDIS_OK)
            return connection_fail(r, r->conn->errstr, err);
        if (reply) {
            *out = reply;
            return true;
        }
        if (!wait_ready(r, POLLIN, deadline, err))
            return false;
        if (redisBufferRead(r->conn) != REDIS_OK)
            return connection_fail(r, r->conn->errstr, err);
    }
}

/* Turns a reply into what callers see; false when it ends the pipeline with an error. */
static bool view_reply(const redisReply *reply, struct redis_reply_view *v, struct error *err) {
    *v = (struct redis_reply_view){.text = reply->str, .len = (size_t)reply->len, .number = reply->integer};
    switch (reply->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        v->kind = REDIS_TEXT;
        return true;
    case REDIS_REPLY_INTEGER:
        v->kind = REDIS_NUMBER;
        return true;
    case REDIS_REPLY_NIL:
        v->kind = REDIS_NIL;
        return true;
    case REDIS_REPLY_ARRAY:
        v->kind = REDIS_LIST;
        return true;
    default:
        break;
    }
    if (strncmp(reply->str, "NOSCRIPT", 8) == 0) {
        v->kind = REDIS_NO_SCRIPT;
        return true;
    }
    /* a script only fails on what it finds in keys, and warming replaces all of that; or for want of a right
     */
    if (!strstr(reply->str, "The user executing the script") &&
        (strstr(reply->str, "WRONGTYPE") ||
         (strncmp(reply->str, "ERR ", 4) == 0 && strstr(reply->str, "user_script")))) {
        v->kind = REDIS_WRONG_DATA;
        return true;
    }
    return reply_fail(reply->str, err);
}

bool redis_send(struct redis *r, struct error *err) {
    size_t n = r->pending_commands;
    heartbeat_beat();
    r->pending_commands = r->pending_bytes = 0;
    if (!r->conn)
        return error_set(err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE, 0, "redis: not connected");
    assert(r->sent_count < PIPELINES_UNDER_WAY);
    r->sent[r->sent_count++] = n;
    if (fault_in_thread("redis_send").verdict == FAULT_FAIL)
        return connection_fail(r, "a fault point's: not sent", err);
    return send_all(r, clock_monotonic_ms() + r->cfg->redis.timeout_ms, err);
}

bool redis_collect(struct redis *r, void (*each)(void *ctx, size_t i, const struct redis_reply_view *reply),
                   void *ctx, struct error *err) {
    return redis_send(r, err) && redis_collect_sent(r, each, ctx, err);
}

bool redis_collect_sent(struct redis *r,
                        void (*each)(void *ctx, size_t i, const struct redis_reply_view *reply), void *ctx,
                        struct error *err) {
    if (!r->conn || r->sent_count == 0)
        return error_set(err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE, 0, "redis: not connected");
    size_t n = r->sent[0];
    heartbeat_beat();
    memmove(r->sent, r->sent + 1, --r->sent_count * sizeof *r->sent);
    int64_t deadline = clock_monotonic_ms() + r->cfg->redis.timeout_ms;
    if (fault_in_thread("redis_collect").verdict != FAULT_NONE) {
        wait_ready(r, POLLIN, deadline, err);
        return connection_fail(r, "a fault point's: not read", err);
    }
    bool ok = true, demoted = false;
    for (size_t i = 0; i < n; i++) {
        redisReply *reply;
        if (!next_reply(r, deadline, &reply, err))
            return false;
        struct redis_reply_view v;
        if (!view_reply(reply, &v, err)) {
            ok = false;
            demoted = demoted || strncmp(reply->str, "READONLY", 8) == 0 ||
                      strncmp(reply->str, "MASTERDOWN", 10) == 0;
        } else if (v.kind == REDIS_LIST) {
            const char **items = mem_zero(reply->elements, sizeof *items);
            for (size_t k = 0; k < reply->elements; k++)
                items[k] = reply->element[k]->str;
            v.items = items;
            v.count = reply->elements;
            if (each)
                each(ctx, i, &v);
            free(items);
        } else if (each) {
            each(ctx, i, &v);
        }
        freeReplyObject(reply);
    }
    if (demoted) /* the name may lead to another server by now */
        redis_close(r);
    return ok;
}

/* Runs one command; its text reply goes to `out` when that isn't NULL. */
struct one_reply {
    char *out;
    size_t size;
    bool list_value; /* take the second item of a list (CONFIG GET) */
};

static void take_text(void *ctx, size_t i, const struct redis_reply_view *v) {
    struct one_reply *one = ctx;
    (void)i;
    const char *text = v->kind == REDIS_TEXT                                      ? v->text
                       : one->list_value && v->kind == REDIS_LIST && v->count > 1 ? v->items[1]
                                                                                  : "";
    if (one->out && text) {
        strncpy(one->out, text, one->size - 1);
        one->out[one->size - 1] = '\0';
    }
}

static bool run_command(struct redis *r, int argc, const char *const *argv, struct one_reply *one,
                        struct error *err) {
    struct redis_command c = {0};
    for (int i = 0; i < argc; i++)
        buf_str(redis_command_arg(&c), argv[i]);
    redis_append(r, &c);
    redis_command_free(&c);
    return redis_collect(r, take_text, one, err);
}

bool redis_config_get(struct redis *r, const char *name, char *out, size_t size, struct error *err) {
    out[0] = '\0';
    struct one_reply one = {.out = out, .size = size, .list_value = true};
    if (run_command(r, 3, (const char *const[]){"CONFIG", "GET", name}, &one, err))
        return true;
    if (err->action != ERROR_STOP)
        return false;
    error_clear(err); /* renamed away or not permitted, as managed servers do */
    return true;
}

bool redis_load_scripts(struct redis *r, struct error *err) {
    for (int i = 0; i < REDIS_SCRIPT_COUNT; i++) {
        const struct embedded_file *f = embedded_find(script_paths[i]);
        struct one_reply one = {.out = r->sha[i], .size = sizeof r->sha[i]};
        if (!f || !run_command(r, 3, (const char *const[]){"SCRIPT", "LOAD", f->data}, &one, err))
            return error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, 0, "no script %s",
                             script_paths[i]);
    }
    return true;
}

static bool authenticate(struct redis *r, struct error *err) {
    const char *user = r->cfg->redis.username, *password = r->cfg->redis.password;
    struct one_reply none = {0};
    if (user[0])
        return run_command(r, 3, (const char *const[]){"AUTH", user, password}, &none, err);
    if (password[0])
        return run_command(r, 2, (const char *const[]){"AUTH", password}, &none, err);
    return true;
}

static bool redis_connect(struct redis *r, struct error *err) {
    int64_t ms = r->cfg->redis.connect_timeout_ms;
    heartbeat_beat();
    struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    r->conn = redisConnectWithTimeout(r->cfg->redis.host, (int)r->cfg->redis.port, tv);
    if (!r->conn || r->conn->err) {
        error_set(err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE, 0, "redis: connect to %s:%d: %s",
                  r->cfg->redis.host, (int)r->cfg->redis.port, r->conn ? r->conn->errstr : "out of memory");
        redis_close(r);
        return false;
    }
    ms = r->cfg->redis.timeout_ms;
    tv = (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    redisSetTimeout(r->conn, tv);
    struct one_reply none = {0};
    char database[24];
    struct buf number = {0};
    buf_i64(&number, r->cfg->redis.database);
    strncpy(database, buf_cstr(&number), sizeof database - 1);
    database[sizeof database - 1] = '\0';
    buf_free(&number);
    if (!authenticate(r, err) || !run_command(r, 2, (const char *const[]){"SELECT", database}, &none, err) ||
        !redis_load_scripts(r, err)) {
        redis_close(r);
        return false;
    }
    return true;
}

bool redis_ensure(struct redis *r, struct error *err) {
    return r->conn || redis_connect(r, err);
}
