/* SPDX-License-Identifier: MIT */
/* What the errors of Kafka, Redis and MySQL mean to callers: provoked on real servers, with the state of the
 * connection afterwards and that the next call works. Needs REDIS_* and MYSQL_* (scripts/with-stack.sh). */
#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "batches.h"
#include "decide.h"
#include "kafka.h"
#include "redis.h"
#include "stores.h"

#define DATABASE "tallyd_test_errors"
#define NOW INT64_C(1796007700)

static struct config *cfg, *admin_cfg;

static void expect_error(const char *what, const struct error *err, enum error_area area,
                         enum error_action action, enum error_effect effect) {
    ck_assert_msg(err->area == area && err->action == action && err->effect == effect,
                  "%s: area %s, action %s, effect %d, code %d: %s", what, error_area_name(err->area),
                  error_action_name(err->action), err->effect, err->code, err->text);
}

/* ---- Kafka: the table ---- */

START_TEST(kafka_codes) {
    static const struct {
        rd_kafka_resp_err_t code;
        enum error_action action;
    } codes[] = {
        {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, ERROR_REJECT},
        {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, ERROR_REJECT},
        {RD_KAFKA_RESP_ERR_INVALID_RECORD, ERROR_REJECT},
        {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, ERROR_STOP},
        {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, ERROR_STOP},
        {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, ERROR_STOP},
        {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, ERROR_STOP},
        {RD_KAFKA_RESP_ERR__AUTHENTICATION, ERROR_STOP},
        {RD_KAFKA_RESP_ERR__FATAL, ERROR_STOP},
        {RD_KAFKA_RESP_ERR__TRANSPORT, ERROR_RETRY},
        {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, ERROR_RETRY},
        {RD_KAFKA_RESP_ERR__TIMED_OUT, ERROR_RETRY},
        {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, ERROR_RETRY},
        {RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, ERROR_RETRY},
        {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, ERROR_RETRY},
        {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, ERROR_RETRY},
        {RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, ERROR_RETRY},
        {RD_KAFKA_RESP_ERR__PURGE_QUEUE, ERROR_RETRY},
        {RD_KAFKA_RESP_ERR_UNKNOWN, ERROR_RETRY},
    };
    for (size_t i = 0; i < TESTING_LENGTH(codes); i++) {
        struct error err = {0};
        ck_assert(!kafka_error(codes[i].code, "producing", i % 2 ? "a-topic" : NULL, &err));
        expect_error(rd_kafka_err2name(codes[i].code), &err, ERROR_KAFKA, codes[i].action,
                     codes[i].action == ERROR_REJECT ? ERROR_NOT_DONE : ERROR_UNKNOWN);
        ck_assert_int_eq(err.code, codes[i].code);
        ck_assert_msg(strncmp(err.text, "producing: ", 11) == 0 &&
                          (strstr(err.text, "a-topic") != NULL) == i % 2,
                      "%s", err.text);
    }
}
END_TEST

/* ---- Redis ---- */

static struct redis *redis;
static redisContext *raw;

static void redis_set_up(void) {
    struct error err = {0};
    cfg = stores_config(NULL);
    raw = stores_redis(cfg);
    /* whatever a failed test left */
    stores_do(raw, "REPLICAOF NO ONE");
    stores_do(raw, "CONFIG SET maxmemory 0");
    stores_do(raw, "CONFIG SET busy-reply-threshold 5000");
    stores_do(raw, "CONFIG SET key-load-delay 0");
    stores_do(raw, "ACL DELUSER tallyd-test");
    stores_do(raw, "FLUSHDB");
    redis = redis_new(cfg);
    ck_assert_msg(redis_ensure(redis, &err), "%s", err.text);
}

static void redis_tear_down(void) {
    redis_free(redis);
    redisFree(raw);
    config_free(cfg);
}

/* Appends a command of words separated by one space each. */
static void append(const char *words) {
    struct redis_command c = {0};
    for (;;) {
        size_t n = strcspn(words, " ");
        buf_append(redis_command_arg(&c), words, n);
        if (!words[n])
            break;
        words += n + 1;
    }
    redis_append(redis, &c);
    redis_command_free(&c);
}

/* What came back, in order: T=text, N7, -, L2, S (no script), W (wrong type). */
static void note_reply(void *ctx, size_t i, const struct redis_reply_view *v) {
    static const char kinds[] = {[REDIS_TEXT] = 'T', [REDIS_NUMBER] = 'N',    [REDIS_NIL] = '-',
                                 [REDIS_LIST] = 'L', [REDIS_NO_SCRIPT] = 'S', [REDIS_WRONG_DATA] = 'W'};
    struct buf *out = ctx;
    buf_printf(out, "%s%zu%c", out->len ? " " : "", i, kinds[v->kind]);
    if (v->kind == REDIS_TEXT)
        buf_printf(out, "%s", v->text);
    if (v->kind == REDIS_NUMBER)
        buf_printf(out, "%lld", (long long)v->number);
    if (v->kind == REDIS_LIST)
        buf_printf(out, "%zu", v->count);
}

static bool collect(struct buf *out, struct error *err) {
    *err = (struct error){0};
    buf_reset(out);
    return redis_collect(redis, note_reply, out, err);
}

/* The connection is the same, and its next answer belongs to its next question. */
static void expect_connection_good(const char *what) {
    struct buf got = {0};
    struct error err;
    append("ECHO still-here");
    ck_assert_msg(collect(&got, &err), "%s: %s", what, err.text);
    ck_assert_str_eq(buf_cstr(&got), "0Tstill-here");
    buf_free(&got);
}

/* A pipeline of one command fails so; the connection survives. */
static void expect_refusal(const char *command, const char *prefix, enum error_action action) {
    struct buf got = {0};
    struct error err;
    append(command);
    ck_assert_msg(!collect(&got, &err), "%s was answered: %s", command, buf_cstr(&got));
    expect_error(command, &err, ERROR_REDIS, action, ERROR_NOT_DONE);
    ck_assert_msg(strstr(err.text, prefix) != NULL, "%s: %s", command, err.text);
    buf_free(&got);
}

START_TEST(redis_replies_of_a_pipeline) {
    struct buf got = {0};
    struct error err;
    stores_do(raw, "RPUSH list a b");
    append("SET text x");
    append("GET list");
    append("EVALSHA 0123456789012345678901234567890123456789 0");
    append("GET none");
    append("LLEN list");
    append("LRANGE list 0 -1");
    append("GET text");
    ck_assert_msg(collect(&got, &err), "%s", err.text);
    ck_assert_str_eq(buf_cstr(&got), "0TOK 1W 2S 3- 4N2 5L2 6Tx");
    /* one bad reply: the others are seen nevertheless, under their own numbers */
    append("GET text");
    append("NOSUCHCOMMAND");
    append("GET text");
    ck_assert_uint_eq(redis_pending_commands(redis), 3);
    ck_assert(!collect(&got, &err));
    ck_assert_uint_eq(redis_pending_commands(redis), 0);
    expect_error("an unknown command", &err, ERROR_REDIS, ERROR_STOP, ERROR_NOT_DONE);
    ck_assert_str_eq(buf_cstr(&got), "0Tx 2Tx");
    expect_connection_good("after an unknown command");
    buf_free(&got);
}
END_TEST

static struct usage_event usual_event(void) {
    return batches_event("e1", 7, 8, 600);
}

static enum decide_answer decide(bool *ok, struct error *err) {
    struct batch_event e = {.usage = usual_event(), .twin_of = EVENT_NO_TWIN};
    struct batch b = {.events = &e, .count = 1};
    size_t index = 0;
    enum decide_answer answer = DECIDE_COLD;
    struct decider *d = decider_new(cfg, redis);
    *err = (struct error){0};
    *ok = decider_run(d, &b, &index, 1, NOW, &answer, err);
    decider_free(d);
    return answer;
}

static void warm_by_hand(bool blocked) {
    struct buf thresholds = {0}, cuts = {0};
    decide_thresholds_text(&thresholds, cfg);
    decide_cuts_text(&cuts, cfg, 1000);
    stores_do(raw,
              "HSET family:7:info:202611 gen 1 warmed %lld totalQuota 1000 thresholds %s cuts %s expire %lld",
              (long long)NOW, buf_cstr(&thresholds), buf_cstr(&cuts), (long long)time(NULL) + 86400);
    stores_do(raw, "SET family:7:remaining:202611 1000");
    stores_do(raw, "SADD family:7:members 8");
    stores_do(raw, "SET family:7:customer:8:usage:monthly:202611 0");
    stores_do(raw, "HSET family:7:customer:8:constraints WARM 1");
    if (blocked)
        stores_do(raw, "HSET family:7:customer:8:constraints BLOCK:ACCESS 1");
    buf_free(&thresholds);
    buf_free(&cuts);
}

/* A server that refuses writes: deciding waits for it and has changed nothing. */
static void check_refused_writes(const char *prefix, const char *forbid, const char *allow, bool reconnects) {
    for (int blocked = 0; blocked < 2; blocked++) {
        struct buf before = {0}, after = {0};
        struct error err;
        bool ok;
        stores_do(raw, "FLUSHDB");
        warm_by_hand(blocked);
        stores_dump_redis(raw, &before);
        stores_do(raw, forbid);
        decide(&ok, &err);
        ck_assert_msg(!ok, "%s: answered without an error", prefix);
        expect_error(prefix, &err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE);
        ck_assert_msg(strstr(err.text, prefix) != NULL, "%s", err.text);
        if (reconnects) { /* the name may lead to another server by now */
            struct error closed = {0};
            ck_assert(!redis_collect(redis, NULL, NULL, &closed));
            ck_assert(redis_ensure(redis, &closed));
        }
        expect_connection_good(prefix);
        expect_refusal("SET x y", prefix, ERROR_RETRY);
        stores_dump_redis(raw, &after);
        ck_assert_str_eq(buf_cstr(&before), buf_cstr(&after));
        stores_do(raw, allow);
        ck_assert_int_eq(decide(&ok, &err), DECIDE_DONE);
        ck_assert_msg(ok, "%s", err.text);
        buf_free(&before);
        buf_free(&after);
    }
}

START_TEST(redis_out_of_memory) {
    check_refused_writes("OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", false);
}
END_TEST

START_TEST(redis_read_only) {
    check_refused_writes("READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", true);
}
END_TEST

/* A right that only the script misses is said too, and isn't taken for keys gone wrong. */
START_TEST(redis_right_missing_in_script) {
    static const char *const commands[] = {"incrby", "hmget", "mget"};
    for (size_t i = 0; i < TESTING_LENGTH(commands); i++) {
        struct error err;
        bool ok;
        warm_by_hand(false);
        stores_do(raw, "ACL SETUSER default -%s", commands[i]);
        decide(&ok, &err);
        stores_do(raw, "ACL SETUSER default +%s", commands[i]);
        ck_assert_msg(!ok, "%s: answered without an error", commands[i]);
        ck_assert_int_eq(err.action, ERROR_STOP);
        ck_assert_msg(strstr(err.text, "can't run this command") != NULL, "%s", err.text);
    }
}
END_TEST

START_TEST(redis_master_down) {
    stores_do(raw, "CONFIG SET replica-serve-stale-data no");
    stores_do(raw, "REPLICAOF 127.0.0.1 1");
    struct error err;
    bool ok;
    decide(&ok, &err);
    stores_do(raw, "REPLICAOF NO ONE");
    stores_do(raw, "CONFIG SET replica-serve-stale-data yes");
    ck_assert(!ok);
    expect_error("MASTERDOWN", &err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE);
    decide(&ok, &err);
    ck_assert_msg(ok, "%s", err.text);
}
END_TEST

/* Asks until the answer begins so. */
static void await_answer(const char *prefix) {
    for (;;) {
        redisReply *reply = redisCommand(raw, "PING");
        ck_assert_ptr_nonnull(reply);
        bool there = strncmp(reply->str, prefix, strlen(prefix)) == 0;
        freeReplyObject(reply);
        if (there)
            return;
    }
}

START_TEST(redis_busy) {
    struct error err;
    bool ok;
    int sent = 0;
    stores_do(raw, "CONFIG SET busy-reply-threshold 1");
    redisContext *other = stores_redis(cfg);
    redisAppendCommand(other, "EVAL %s 0", "while true do end");
    while (!sent)
        ck_assert_int_eq(redisBufferWrite(other, &sent), REDIS_OK);
    await_answer("BUSY");
    expect_refusal("GET x", "BUSY", ERROR_RETRY);
    decide(&ok, &err);
    ck_assert(!ok);
    expect_error("BUSY", &err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE);
    /* connecting is no better: the same error, not "no script" */
    redis_close(redis);
    err = (struct error){0};
    ck_assert(!redis_ensure(redis, &err));
    expect_error("connecting to a busy server", &err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE);
    stores_do(raw, "SCRIPT KILL");
    await_answer("PONG");
    redisFree(other);
    stores_do(raw, "CONFIG SET busy-reply-threshold 5000");
    decide(&ok, &err);
    ck_assert_msg(ok, "%s", err.text);
}
END_TEST

/* A restarted Redis is to come back empty. */
static void forget_dump(void) {
    char path[512];
    redisReply *dir = stores_ask(raw, "CONFIG GET dir"), *name = stores_ask(raw, "CONFIG GET dbfilename");
    snprintf(path, sizeof path, "%s/%s", dir->element[1]->str, name->element[1]->str);
    ck_assert_msg(unlink(path) == 0, "%s can't be removed", path);
    freeReplyObject(dir);
    freeReplyObject(name);
}

START_TEST(redis_loading) {
    struct error err;
    bool ok;
    int sent = 0;
    stores_do(raw, "CONFIG SET loading-process-events-interval-bytes 1024");
    stores_do(raw, "DEBUG POPULATE 3000");
    stores_do(raw, "CONFIG SET key-load-delay 1000");
    redisContext *other = stores_redis(cfg);
    redisAppendCommand(other, "DEBUG RELOAD");
    while (!sent)
        ck_assert_int_eq(redisBufferWrite(other, &sent), REDIS_OK);
    await_answer("LOADING");
    expect_refusal("GET x", "LOADING", ERROR_RETRY);
    decide(&ok, &err);
    ck_assert(!ok);
    expect_error("LOADING", &err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE);
    stores_do(raw, "CONFIG SET key-load-delay 0");
    redisReply *reply = NULL;
    ck_assert_int_eq(redisGetReply(other, (void **)&reply), REDIS_OK);
    freeReplyObject(reply);
    redisFree(other);
    stores_do(raw, "FLUSHDB");
    forget_dump();
    decide(&ok, &err);
    ck_assert_msg(ok, "%s", err.text);
}
END_TEST

START_TEST(redis_users) {
    struct error err = {0};
    stores_do(raw, "ACL SETUSER tallyd-test on >right ~* +@all -evalsha");
    redis_close(redis);
    stores_set(&cfg->redis.username, "tallyd-test");
    stores_set(&cfg->redis.password, "wrong");
    ck_assert(!redis_ensure(redis, &err));
    expect_error("a wrong password", &err, ERROR_REDIS, ERROR_STOP, ERROR_NOT_DONE);
    ck_assert_msg(strstr(err.text, "WRONGPASS") && !strstr(err.text, "wrong "), "%s", err.text);
    err = (struct error){0};
    ck_assert(!redis_collect(redis, NULL, NULL, &err)); /* it isn't connected now */
    expect_error("not connected", &err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE);
    stores_set(&cfg->redis.password, "right");
    err = (struct error){0};
    ck_assert_msg(redis_ensure(redis, &err), "%s", err.text);
    bool ok;
    decide(&ok, &err);
    ck_assert(!ok);
    expect_error("a forbidden command", &err, ERROR_REDIS, ERROR_STOP, ERROR_NOT_DONE);
    expect_connection_good("after a forbidden command");
    stores_do(raw, "ACL DELUSER tallyd-test"); /* which cuts the connection */
    append("PING");
    err = (struct error){0};
    ck_assert(!redis_collect(redis, NULL, NULL, &err));
    expect_error("a cut connection", &err, ERROR_REDIS, ERROR_RETRY, ERROR_UNKNOWN);
    stores_set(&cfg->redis.username, "");
    stores_set(&cfg->redis.password, "");
    err = (struct error){0};
    ck_assert_msg(redis_ensure(redis, &err), "%s", err.text);
    expect_connection_good("as before");
}
END_TEST

START_TEST(redis_nobody_there) {
    struct error err = {0};
    redis_close(redis);
    cfg->redis.port = 1;
    ck_assert(!redis_ensure(redis, &err));
    expect_error("no server", &err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE);
    append("PING");
    err = (struct error){0};
    ck_assert(!redis_collect(redis, NULL, NULL, &err));
    expect_error("no connection", &err, ERROR_REDIS, ERROR_RETRY, ERROR_NOT_DONE);
    ck_assert_uint_eq(redis_pending_commands(redis), 0);
    ck_assert_uint_eq(redis_pending_bytes(redis), 0);
}
END_TEST

START_TEST(redis_settings) {
    struct error err = {0};
    char value[32];
    ck_assert_msg(redis_config_get(redis, "maxmemory-policy", value, sizeof value, &err), "%s", err.text);
    ck_assert_str_eq(value, "noeviction");
    ck_assert_msg(redis_config_get(redis, "no-such-setting", value, sizeof value, &err), "%s", err.text);
    ck_assert_str_eq(value, "");
    char small[5];
    ck_assert(redis_config_get(redis, "maxmemory-policy", small, sizeof small, &err));
    ck_assert_str_eq(small, "noev");
}
END_TEST

/* ---- a server that misbehaves ---- */

enum manner { FROZEN, TRICKLING, CLOSING, TALKING_NONSENSE };

struct bad_server {
    int listener, port;
    enum manner manner;
    const char *greeting; /* sent on accepting */
    atomic_bool stop;
    pthread_t thread;
};

/* Reads until the word was seen: what is asked while connecting was answered by the greeting. */
static void await_word(int fd, const char *word) {
    char got[8192];
    size_t n = 0;
    ssize_t more;
    while (n < sizeof got - 1 && (more = recv(fd, got + n, sizeof got - 1 - n, 0)) > 0) {
        got[n += (size_t)more] = '\0';
        if (strstr(got, word))
            return;
        if (n > sizeof got / 2) { /* keeps the end, where the word may have begun */
            memmove(got, got + n - 16, 16);
            n = 16;
        }
    }
}

static void misbehave(struct bad_server *s, int fd) {
    const char *first = s->manner == TRICKLING          ? "$100000\r\n"
                        : s->manner == TALKING_NONSENSE ? "nonsense\r\n"
                                                        : "";
    struct timespec pause = {.tv_nsec = 2000000};
    if (s->greeting && send(fd, s->greeting, strlen(s->greeting), MSG_NOSIGNAL) < 0)
        return;
    if (s->greeting)
        await_word(fd, "GET-BAD");
    if (*first && send(fd, first, strlen(first), MSG_NOSIGNAL) < 0)
        return;
    while (s->manner != CLOSING && !atomic_load(&s->stop)) {
        if (s->manner == TRICKLING && send(fd, "x", 1, MSG_NOSIGNAL) < 0)
            return;
        nanosleep(&pause, NULL);
    }
}

static void *serve_badly(void *ctx) {
    struct bad_server *s = ctx;
    int fd;
    while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
        misbehave(s, fd);
        close(fd);
    }
    return NULL;
}

static void bad_server_start(struct bad_server *s, enum manner manner, const char *greeting) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    *s = (struct bad_server){
        .manner = manner, .greeting = greeting, .listener = socket(AF_INET, SOCK_STREAM, 0)};
    ck_assert(s->listener >= 0 && bind(s->listener, (struct sockaddr *)&at, len) == 0 &&
              listen(s->listener, 4) == 0 && getsockname(s->listener, (struct sockaddr *)&at, &len) == 0);
    s->port = ntohs(at.sin_port);
    ck_assert_int_eq(pthread_create(&s->thread, NULL, serve_badly, s), 0);
}

static void bad_server_stop(struct bad_server *s) {
    atomic_store(&s->stop, true);
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
}

/* Answers late, in crumbs or not at all, while connecting (no greeting) and in a pipeline. A trickle alone
 * would last 200 s; the bound is far above the deadline, so that a busy machine doesn't matter. */
START_TEST(redis_deadline_is_for_the_pipeline) {
    enum manner manner = (enum manner)(_i / 2);
    bool connected = _i % 2;
    struct bad_server server;
    struct error err = {0};
    bad_server_start(&server, manner, connected ? "+OK\r\n+OK\r\n+OK\r\n" : NULL);
    redis_close(redis);
    int64_t port = cfg->redis.port, begun = clock_monotonic_ms();
    cfg->redis.port = server.port;
    cfg->redis.timeout_ms = 150;
    if (connected) {
        ck_assert_msg(redis_ensure(redis, &err), "%s", err.text);
        append("GET GET-BAD");
        append("GET y");
        ck_assert(!redis_collect(redis, NULL, NULL, &err));
    } else {
        ck_assert(!redis_ensure(redis, &err));
    }
    int64_t took = clock_monotonic_ms() - begun;
    bad_server_stop(&server);
    ck_assert_msg(took < 30000, "it took %" PRId64 " ms", took);
    ck_assert_int_eq(err.area, ERROR_REDIS);
    ck_assert_int_eq(err.action, ERROR_RETRY);
    ck_assert_int_eq(err.effect, ERROR_UNKNOWN);
    err = (struct error){0};
    append("PING");
    ck_assert(
        !redis_collect(redis, NULL, NULL, &err)); /* it's closed: nothing late can answer a later call */
    ck_assert_int_eq(err.effect, ERROR_NOT_DONE);
    cfg->redis.port = port;
    cfg->redis.timeout_ms = 20000;
    err = (struct error){0};
    ck_assert_msg(redis_ensure(redis, &err), "%s", err.text);
    expect_connection_good("after a bad server");
}
END_TEST

/* ---- MySQL ---- */

static struct db *db, *other;

static void create(void) {
    stores_create_database(DATABASE);
}

static void drop(void) {
    stores_drop_database(DATABASE);
}

/* Someone who may set global variables: by socket, without password. */
static struct db *admin(void) {
    admin_cfg = stores_config(DATABASE);
    stores_set(&admin_cfg->mysql.socket, stores_env("MYSQL_SOCKET"));
    stores_set(&admin_cfg->mysql.user, stores_env("MYSQL_ADMIN_USER"));
    stores_set(&admin_cfg->mysql.password, "");
    return stores_db(admin_cfg, DB_READ_COMMITTED);
}

static void mysql_set_up(void) {
    struct db *root = admin();
    stores_sql(root, "SET GLOBAL read_only = 0"); /* whatever a failed test left */
    db_free(root);
    config_free(admin_cfg);
    cfg = stores_config(DATABASE);
    db = stores_db(cfg, DB_READ_COMMITTED);
    other = stores_db(cfg, DB_READ_COMMITTED);
    stores_empty_tables(db);
    stores_sql(db, "INSERT INTO family VALUES (1, 'one'), (2, 'two')");
}

static void mysql_tear_down(void) {
    db_free(db);
    db_free(other);
    config_free(cfg);
}

static int64_t connection_id(struct db *of) {
    struct error err = {0};
    struct db_rows rows;
    ck_assert_msg(db_query_text(of, "SELECT CONNECTION_ID()", &rows, &err), "%s", err.text);
    ck_assert(db_next(&rows));
    int64_t id = db_i64(&rows, 0, 0);
    db_rows_free(&rows);
    return id;
}

/* After an error: whether it's the same connection still, and that db_ensure heals it if it isn't. */
static void expect_healed(int64_t id_before, bool same) {
    struct error err = {0};
    if (!same) {
        ck_assert(!db_exec_text(db, "DO 1", NULL, &err));
        expect_error("a closed connection", &err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE);
        err = (struct error){0};
    }
    ck_assert_msg(db_ensure(db, &err), "%s", err.text);
    ck_assert_int_eq(connection_id(db) == id_before, same);
    stores_sql(db, "UPDATE family SET name = 'healed' WHERE family_id = 1");
}

static const struct {
    int code;
    const char *sql;
    enum error_action action;
} refused[] = {
    {1406, "INSERT INTO family VALUES (3, REPEAT('x', 256))", ERROR_REJECT},
    {1264, "INSERT INTO family VALUES (99999999999999999999, 'x')", ERROR_REJECT},
    {4025, "INSERT INTO family VALUES (-1, 'x')", ERROR_REJECT},
    {1366, "INSERT INTO family VALUES ('x', 'x')", ERROR_REJECT},
    {1366,
     "INSERT INTO usage_record VALUES ('\xc3\xa9', 1, 1, NULL, 1, '2026-11-30', '2026-11-01', 1, 1, '2026-11-30')",
     ERROR_REJECT},
    {1048, "INSERT INTO family VALUES (3, NULL)", ERROR_REJECT},
    {1292, "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (1, '2026-13-01', 1)",
     ERROR_REJECT},
    {1690, "UPDATE family SET family_id = 9223372036854775807 + family_id", ERROR_REJECT},
    {1062, "INSERT INTO family VALUES (1, 'x')", ERROR_STOP},
    {1064, "NONSENSE", ERROR_STOP},
    {1146, "INSERT INTO no_such_table VALUES (1)", ERROR_STOP},
    {1054, "UPDATE family SET no_such_column = 1", ERROR_STOP},
};

START_TEST(mysql_refuses_data) {
    struct error err = {0};
    int64_t id = connection_id(db);
    ck_assert(!db_exec_text(db, refused[_i].sql, NULL, &err));
    expect_error(refused[_i].sql, &err, ERROR_MYSQL, refused[_i].action, ERROR_NOT_DONE);
    ck_assert_msg(err.code == refused[_i].code, "%s: %s", refused[_i].sql, err.text);
    ck_assert(!db_error_is_lock(&err));
    bool duplicate = refused[_i].code == 1062;
    ck_assert(db_error_is_duplicate(&err) == duplicate);
    /* a fault of another kind may be the server's: a new one */
    expect_healed(id, duplicate || refused[_i].action == ERROR_REJECT);
}
END_TEST

/* Told before it's sent: the server would hang up, which looks like an outage. */
START_TEST(mysql_statement_too_large) {
    struct error err = {0};
    struct buf sql = {0};
    struct db_rows rows;
    int64_t id = connection_id(db);
    ck_assert(db_query_text(db, "SELECT @@max_allowed_packet", &rows, &err) && db_next(&rows));
    size_t most = (size_t)db_i64(&rows, 0, 0);
    db_rows_free(&rows);
    buf_str(&sql, "SET @x = '");
    memset(buf_room(&sql, most), 'x', most);
    buf_end(&sql, most);
    buf_str(&sql, "'");
    ck_assert(!db_exec(db, &sql, NULL, &err));
    expect_error("a statement too large", &err, ERROR_MYSQL, ERROR_REJECT, ERROR_NOT_DONE);
    expect_healed(id, true);
    buf_free(&sql);
}
END_TEST

START_TEST(mysql_lock_wait) {
    struct error err = {0};
    db_free(db);
    cfg->mysql.lock_wait_timeout_ms = 0; /* at once */
    db = stores_db(cfg, DB_READ_COMMITTED);
    int64_t id = connection_id(db);
    stores_sql(other, "START TRANSACTION");
    stores_sql(other, "UPDATE family SET name = 'x' WHERE family_id = 1");
    ck_assert(!db_exec_text(db, "UPDATE family SET name = 'y' WHERE family_id = 1", NULL, &err));
    expect_error("a lock wait", &err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE);
    ck_assert_int_eq(err.code, 1205);
    ck_assert(db_error_is_lock(&err));
    stores_sql(other, "ROLLBACK");
    expect_healed(id, true);
}
END_TEST

struct statement {
    struct db *db;
    const char *sql;
    bool ok;
    struct error err;
};

static void *run_statement(void *ctx) {
    struct statement *s = ctx;
    s->ok = db_exec_text(s->db, s->sql, NULL, &s->err);
    return NULL;
}

START_TEST(mysql_deadlock) {
    struct statement theirs = {.db = other, .sql = "UPDATE family SET name = 'b' WHERE family_id = 1"};
    struct statement ours = {.db = db, .sql = "UPDATE family SET name = 'a' WHERE family_id = 2"};
    pthread_t thread;
    struct db *watcher = stores_db(cfg, DB_READ_COMMITTED);
    int64_t id = connection_id(db);
    stores_sql(db, "START TRANSACTION");
    stores_sql(other, "START TRANSACTION");
    stores_sql(db, "UPDATE family SET name = 'a' WHERE family_id = 1");
    stores_sql(other, "UPDATE family SET name = 'b' WHERE family_id = 2");
    ck_assert_int_eq(pthread_create(&thread, NULL, run_statement, &theirs), 0);
    stores_await_waiting(watcher, "UPDATE family%");
    run_statement(&ours);
    pthread_join(thread, NULL);
    ck_assert_msg(ours.ok != theirs.ok, "both or none went through");
    const struct error *err = ours.ok ? &theirs.err : &ours.err;
    expect_error("a deadlock", err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE);
    ck_assert_int_eq(err->code, 1213);
    ck_assert(db_error_is_lock(err));
    db_rollback(other);
    db_rollback(db);
    expect_healed(id, true);
    db_free(watcher);
}
END_TEST

START_TEST(mysql_killed_while_idle) {
    struct error err = {0};
    int64_t id = connection_id(db);
    stores_sql(other, "KILL %" PRId64, id);
    ck_assert(!db_exec_text(db, "DO 1", NULL, &err));
    expect_error("a killed connection", &err, ERROR_MYSQL, ERROR_RETRY, ERROR_UNKNOWN);
    ck_assert(!db_error_is_lock(&err));
    expect_healed(id, false);
}
END_TEST

/* KILL and KILL QUERY of a statement that waits. */
START_TEST(mysql_killed_in_a_statement) {
    bool query_only = _i;
    struct statement s = {.db = db, .sql = "UPDATE family SET name = 'y' WHERE family_id = 1"};
    pthread_t thread;
    struct db *watcher = stores_db(cfg, DB_READ_COMMITTED);
    int64_t id = connection_id(db);
    stores_sql(other, "START TRANSACTION");
    stores_sql(other, "UPDATE family SET name = 'x' WHERE family_id = 1");
    ck_assert_int_eq(pthread_create(&thread, NULL, run_statement, &s), 0);
    ck_assert_int_eq(stores_await_waiting(watcher, "UPDATE family%"), id);
    stores_sql(watcher, "KILL %s %" PRId64, query_only ? "QUERY" : "CONNECTION", id);
    pthread_join(thread, NULL);
    stores_sql(other, "ROLLBACK");
    ck_assert(!s.ok);
    expect_error("killed", &s.err, ERROR_MYSQL, ERROR_RETRY, ERROR_UNKNOWN);
    if (query_only)
        ck_assert_int_eq(s.err.code, 1317);
    expect_healed(id, query_only);
    db_free(watcher);
}
END_TEST

START_TEST(mysql_read_only) {
    struct error err = {0};
    struct db *root = admin();
    int64_t id = connection_id(db);
    stores_sql(root, "SET GLOBAL read_only = 1");
    ck_assert(!db_exec_text(db, "UPDATE family SET name = 'x' WHERE family_id = 1", NULL, &err));
    expect_error("read-only", &err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE);
    ck_assert_int_eq(err.code, 1290);
    stores_sql(root, "SET GLOBAL read_only = 0");
    expect_healed(id, false);
    db_free(root);
    config_free(admin_cfg);
}
END_TEST

/* The server became read-only in mid-transaction: COMMIT is refused and nothing of it stays. */
START_TEST(mysql_read_only_at_commit) {
    struct error err = {0};
    struct db *root = admin();
    int64_t id = connection_id(db);
    stores_sql(db, "START TRANSACTION");
    stores_sql(db, "UPDATE family SET name = 'half' WHERE family_id = 2");
    stores_sql(root, "SET GLOBAL read_only = 1");
    bool ok = db_exec_text(db, "COMMIT", NULL, &err);
    stores_sql(root, "SET GLOBAL read_only = 0");
    ck_assert(!ok);
    expect_error("read-only at COMMIT", &err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE);
    expect_healed(id, false);
    stores_expect(db, "SELECT name FROM family WHERE family_id = 2", 1, "two\n");
    db_free(root);
    config_free(admin_cfg);
}
END_TEST

/* What can be wrong with connecting; the port, password and so on are put right afterwards. */
static const struct {
    const char *what;
    enum { PORT, SOCKET, PASSWORD, NAME } field;
    enum error_action action;
    int code; /* 0: whatever */
} unreachable[] = {
    {"no server", PORT, ERROR_RETRY, 0},
    {"no socket", SOCKET, ERROR_RETRY, 0},
    {"a wrong password", PASSWORD, ERROR_STOP, 1045},
    {"no such database", NAME, ERROR_STOP, 0},
};

START_TEST(mysql_connecting) {
    struct error err = {0};
    struct config *right = cfg;
    cfg = stores_config(DATABASE);
    db_free(db);
    db = db_new(cfg, DB_READ_COMMITTED);
    if (unreachable[_i].field == PORT)
        cfg->mysql.port = 1;
    else if (unreachable[_i].field == SOCKET)
        stores_set(&cfg->mysql.socket, "/nowhere/sock");
    else if (unreachable[_i].field == PASSWORD)
        stores_set(&cfg->mysql.password, "wrong-one");
    else
        stores_set(&cfg->mysql.database, "tallyd_no_such_database");
    ck_assert(!db_ensure(db, &err));
    expect_error(unreachable[_i].what, &err, ERROR_MYSQL, unreachable[_i].action, ERROR_NOT_DONE);
    ck_assert_msg(!unreachable[_i].code || err.code == unreachable[_i].code, "%s: %s", unreachable[_i].what,
                  err.text);
    ck_assert_msg(!strstr(err.text, "wrong-one"), "the password is told: %s", err.text);
    cfg->mysql.port = right->mysql.port;
    stores_set(&cfg->mysql.socket, "");
    stores_set(&cfg->mysql.password, right->mysql.password);
    stores_set(&cfg->mysql.database, right->mysql.database);
    expect_healed(0, false);
    config_free(right);
}
END_TEST

/* A server that accepts and says nothing, or hangs up. */
START_TEST(mysql_bad_servers) {
    struct bad_server server;
    struct error err = {0};
    int64_t port = cfg->mysql.port, begun = clock_monotonic_ms();
    bad_server_start(&server, _i ? CLOSING : FROZEN, NULL);
    db_close(db);
    cfg->mysql.port = server.port;
    cfg->mysql.connect_timeout_ms = cfg->mysql.timeout_ms = 1000;
    ck_assert(!db_ensure(db, &err));
    int64_t took = clock_monotonic_ms() - begun;
    bad_server_stop(&server);
    ck_assert_msg(took < 60000, "it took %" PRId64 " ms", took);
    ck_assert_int_eq(err.area, ERROR_MYSQL);
    ck_assert_int_eq(err.action, ERROR_RETRY);
    cfg->mysql.port = port;
    cfg->mysql.connect_timeout_ms = cfg->mysql.timeout_ms = 20000;
    expect_healed(0, false);
}
END_TEST

START_TEST(mysql_sessions) {
    stores_expect(
        db,
        "SELECT @@tx_isolation, @@time_zone, @@character_set_connection, @@sql_mode LIKE '%STRICT_ALL_TABLES%', @@wait_timeout",
        5, "READ-COMMITTED|+00:00|utf8mb4|1|60\n");
    struct db *snapshots = stores_db(cfg, DB_REPEATABLE_READ);
    stores_expect(snapshots, "SELECT @@tx_isolation", 1, "REPEATABLE-READ\n");
    db_free(snapshots);
    struct buf sql = {0};
    static const char odd[] = "it's \\ \"카\" \n\r\x1a%_";
    buf_str(&sql, "SELECT ");
    db_quote(db, &sql, odd, strlen(odd));
    char expected[64];
    snprintf(expected, sizeof expected, "%s\n", odd);
    stores_expect(db, buf_cstr(&sql), 1, expected);
    buf_free(&sql);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("errors");
    TCase *kafka = tcase_create("kafka"), *r = tcase_create("redis"), *m = tcase_create("mysql");
    tcase_add_test(kafka, kafka_codes);
    tcase_add_checked_fixture(r, redis_set_up, redis_tear_down);
    tcase_set_timeout(r, 90);
    tcase_add_test(r, redis_replies_of_a_pipeline);
    tcase_add_test(r, redis_out_of_memory);
    tcase_add_test(r, redis_read_only);
    tcase_add_test(r, redis_master_down);
    tcase_add_test(r, redis_right_missing_in_script);
    tcase_add_test(r, redis_busy);
    tcase_add_test(r, redis_loading);
    tcase_add_test(r, redis_users);
    tcase_add_test(r, redis_nobody_there);
    tcase_add_test(r, redis_settings);
    tcase_add_loop_test(r, redis_deadline_is_for_the_pipeline, 0, 8);
    tcase_add_unchecked_fixture(m, create, drop);
    tcase_add_checked_fixture(m, mysql_set_up, mysql_tear_down);
    tcase_set_timeout(m, 90);
    tcase_add_loop_test(m, mysql_refuses_data, 0, TESTING_LENGTH(refused));
    tcase_add_test(m, mysql_statement_too_large);
    tcase_add_test(m, mysql_lock_wait);
    tcase_add_test(m, mysql_deadlock);
    tcase_add_test(m, mysql_killed_while_idle);
    tcase_add_loop_test(m, mysql_killed_in_a_statement, 0, 2);
    tcase_add_test(m, mysql_read_only);
    tcase_add_test(m, mysql_read_only_at_commit);
    tcase_add_loop_test(m, mysql_connecting, 0, TESTING_LENGTH(unreachable));
    tcase_add_loop_test(m, mysql_bad_servers, 0, 2);
    tcase_add_test(m, mysql_sessions);
    suite_add_tcase(s, kafka);
    suite_add_tcase(s, r);
    suite_add_tcase(s, m);
    return s;
}

int main(void) {
    return testing_run(suite());
}
