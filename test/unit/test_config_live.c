/* SPDX-License-Identifier: MIT */
/* TLS to MySQL and a user's rights in Redis, on servers of the suite's own: one
 * MariaDB with a certificate for "localhost", one without, one Redis whose
 * default user is off. Their folder and their certificates are made on the
 * spot. Runs from the root of the checkout. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "buf.h"
#include "config.h"
#include "mysql_db.h"
#include "redis.h"
#include "testing.h"

static char folder[] = "/tmp/tallyd-live.XXXXXX";

struct server {
    pid_t pid;
    int output; /* read end of its standard output and error; open as long as it runs */
    int port;
};
static pid_t owner; /* who started them */
static struct server tls_server, clear_server, redis_server;

/* ---- processes ---- */

static void run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *fmt, ...) {
    struct buf command = {0};
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_printf(&command, "cd '%s' && { %s; } >output 2>&1 || { cat output >&2; exit 1; }", folder, text);
    if (system(buf_cstr(&command)) != 0) {
        fprintf(stderr, "failed: %s\n", text);
        exit(EXIT_FAILURE);
    }
    buf_free(&command);
}

static int free_port(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof any) != 0 ||
        getsockname(fd, (struct sockaddr *)&any, &len) != 0)
        abort();
    close(fd);
    return ntohs(any.sin_port);
}

/* Whether it said that it is ready; otherwise it has ended, and `said` is what it said instead. */
static bool is_ready(const struct server *s, const char *word, struct buf *said) {
    for (;;) {
        char *room = buf_room(said, 4096);
        ssize_t n = read(s->output, room, 4096);
        buf_end(said, n > 0 ? (size_t)n : 0);
        if (n <= 0)
            return false;
        if (strstr(buf_cstr(said), word))
            return true;
    }
}

static void stop(struct server *s) {
    if (s->pid > 0) {
        kill(s->pid, SIGKILL); /* its data is thrown away */
        waitpid(s->pid, NULL, 0);
        close(s->output);
    }
    s->pid = 0;
}

/* Starts `command PORT`, on another port when somebody was quicker to take it. */
static void start(struct server *s, const char *command, const char *word) {
    struct buf said = {0};
    for (int attempt = 0; attempt < 5; attempt++) {
        int ends[2];
        char whole[1024];
        s->port = free_port();
        snprintf(whole, sizeof whole, "cd '%s' && exec %s %d", folder, command, s->port);
        if (pipe2(ends, O_CLOEXEC) != 0)
            abort();
        s->output = ends[0];
        s->pid = fork();
        if (s->pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); /* however this suite ends */
            dup2(ends[1], STDOUT_FILENO);
            dup2(ends[1], STDERR_FILENO);
            execl("/bin/sh", "sh", "-c", whole, (char *)NULL);
            _exit(127);
        }
        close(ends[1]);
        buf_reset(&said);
        if (is_ready(s, word, &said)) {
            buf_free(&said);
            return;
        }
        stop(s);
    }
    fprintf(stderr, "%s doesn't start:\n%s\n", command, buf_cstr(&said));
    exit(EXIT_FAILURE);
}

/* ---- what they are made of ---- */

/* NAME.pem and NAME.key, signed by `issuer`, or by itself where that is NULL. */
static void make_certificate(const char *name, const char *issuer, const char *extension) {
    static const char key[] = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    if (!issuer) {
        run("openssl req -x509 %s -keyout %s.key -out %s.pem -days 2 -subj /CN=%s", key, name, name, name);
        return;
    }
    run("openssl req %s -keyout %s.key -out %s.csr -subj /CN=%s && echo '%s' >%s.ext && "
        "openssl x509 -req -in %s.csr -CA %s.pem -CAkey %s.key -CAcreateserial -days 2 -out %s.pem -extfile %s.ext",
        key, name, name, name, extension, name, name, issuer, issuer, name, name);
}

static void write_file(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

static void start_mysql(struct server *s, const char *name, const char *more) {
    char command[768];
    snprintf(
        command, sizeof command,
        "mariadbd --no-defaults --user=\"$(id -un)\" --datadir=%s/%s --socket=%s/%s.sock --init-file=%s/init.sql "
        "--bind-address=127.0.0.1 --skip-name-resolve --skip-log-bin --performance-schema=OFF "
        "--innodb-buffer-pool-size=16M --innodb-log-file-size=8M --innodb-flush-log-at-trx-commit=0 %s --port",
        folder, name, folder, name, folder, more);
    start(s, command, "ready for connections");
}

/* At the suite's exit, whatever leads to it; the tests' own processes exit too. */
static void stop_all(void) {
    if (getpid() != owner)
        return;
    stop(&clear_server);
    stop(&tls_server);
    stop(&redis_server);
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0)
        fprintf(stderr, "failed: %s\n", command);
}

static void start_all(void) {
    char path[1024];
    const char *old = getenv("PATH");
    snprintf(path, sizeof path, "%s:/usr/local/sbin:/usr/sbin:/sbin", old ? old : "/usr/bin:/bin");
    setenv("PATH", path, 1);
    if (!mkdtemp(folder))
        abort();
    owner = getpid();
    atexit(stop_all);
    make_certificate("good", NULL, "");
    make_certificate("other", NULL, "");
    make_certificate("server", "good", "subjectAltName=DNS:localhost");
    make_certificate("client", "good", "basicConstraints=CA:FALSE");
    write_file("init.sql", "CREATE DATABASE IF NOT EXISTS tallyd;\n"
                           "CREATE USER IF NOT EXISTS tallyd@'%' IDENTIFIED BY 'hunter2';\n"
                           "CREATE USER IF NOT EXISTS shown@'%' IDENTIFIED BY 'hunter2' REQUIRE X509;\n"
                           "GRANT ALL ON tallyd.* TO tallyd@'%';\nGRANT ALL ON tallyd.* TO shown@'%';\n");
    run("mariadb-install-db --no-defaults --datadir='%s/clear' --user=\"$(id -un)\" --skip-test-db "
        "--skip-name-resolve && cp -a clear tls",
        folder);
    start_mysql(&clear_server, "clear", "");
    start_mysql(&tls_server, "tls", "--ssl-ca=../good.pem --ssl-cert=../server.pem --ssl-key=../server.key");
    write_file("redis.conf", "bind 127.0.0.1\nsave \"\"\nappendonly no\nmaxmemory-policy noeviction\n"
                             "user default off\n"
                             "user tallyd on >hunter2 ~family:* ~event:* +@all\n"
                             "user reader on >hunter2 ~* +@read +@connection\n");
    write_file("password", "hunter2\n");
    run("chmod 600 password");
    start(&redis_server, "redis-server redis.conf --port", "Ready to accept connections");
}

static struct config *must_parse(const struct buf *yaml) {
    struct error err = {0};
    struct config *c = config_parse("t.yaml", yaml->data, yaml->len, &err);
    ck_assert_msg(c != NULL, "%s\nin:\n%s", err.text, buf_cstr(yaml));
    return c;
}

/* ---- MySQL ---- */

/* Files are named without their folder; an outcome is "clear", "encrypted", or a part of the error. */
static const struct tls_case {
    const struct server *server;
    const char *host, *mode, *ca, *cert, *key, *user, *outcome;
} tls_cases[] = {
    {&clear_server, "localhost", "disabled", "", "", "", "tallyd", "clear"},
    {&tls_server, "localhost", "disabled", "", "", "", "tallyd", "clear"},

    {&clear_server, "localhost", "required", "", "", "", "tallyd", "the server offers no TLS"},
    {&clear_server, "localhost", "required", "good.pem", "", "", "tallyd", "the server offers no TLS"},
    {&clear_server, "localhost", "required", "", "client.pem", "client.key", "tallyd",
     "the server offers no TLS"},
    {&tls_server, "localhost", "required", "", "", "", "tallyd", "encrypted"},
    {&tls_server, "127.0.0.1", "required", "", "", "", "tallyd", "encrypted"},
    {&tls_server, "127.0.0.1", "required", "good.pem", "", "", "tallyd", "encrypted"},
    {&tls_server, "localhost", "required", "other.pem", "", "", "tallyd", "self-signed certificate"},

    {&clear_server, "localhost", "verify_identity", "good.pem", "", "", "tallyd",
     "SSL is required, but the server does not support it"},
    {&tls_server, "localhost", "verify_identity", "good.pem", "", "", "tallyd", "encrypted"},
    {&tls_server, "127.0.0.1", "verify_identity", "good.pem", "", "", "tallyd",
     "Validation of SSL server certificate failed"},
    {&tls_server, "localhost", "verify_identity", "other.pem", "", "", "tallyd", "self-signed certificate"},
    {&tls_server, "localhost", "verify_identity", "nothing.pem", "", "", "tallyd",
     "/nothing.pem: No such file or directory"},
    {&tls_server, "localhost", "verify_identity", "init.sql", "", "", "tallyd",
     "no certificate or crl found"},

    {&tls_server, "localhost", "required", "", "", "", "shown", "Access denied"},
    {&tls_server, "localhost", "required", "", "client.pem", "client.key", "shown", "encrypted"},
    {&tls_server, "localhost", "verify_identity", "good.pem", "client.pem", "client.key", "shown",
     "encrypted"},
    {&tls_server, "localhost", "required", "", "client.pem", "other.key", "shown", "key values mismatch"},
    {&tls_server, "localhost", "required", "", "client.pem", "nothing.key", "shown", "mysql.tls.key: "},
};

static void append_file(struct buf *yaml, const char *key, const char *file) {
    if (*file)
        buf_printf(yaml, ", %s: %s/%s", key, folder, file);
}

static struct config *tls_config(const struct tls_case *t) {
    struct buf yaml = {0};
    buf_printf(&yaml, "mysql: {host: %s, port: %d, user: %s, password: hunter2, tls: {mode: %s", t->host,
               t->server->port, t->user, t->mode);
    append_file(&yaml, "ca", t->ca);
    append_file(&yaml, "cert", t->cert);
    append_file(&yaml, "key", t->key);
    buf_str(&yaml, "}}\n");
    struct config *c = must_parse(&yaml);
    buf_free(&yaml);
    return c;
}

static void must_ask(struct db *db, const char *sql, char *answer, size_t size) {
    struct error err = {0};
    struct db_rows rows;
    ck_assert_msg(db_query_text(db, sql, &rows, &err), "%s", err.text);
    ck_assert(db_next(&rows));
    snprintf(answer, size, "%s", rows.row[1]);
    db_rows_free(&rows);
}

START_TEST(test_mysql_tls) {
    const struct tls_case *t = &tls_cases[_i];
    struct config *c = tls_config(t);
    struct db *db = db_new(c, DB_READ_COMMITTED);
    struct error err = {0};
    char outcome[600], cipher[64];
    bool connected = db_ensure(db, &err);
    snprintf(outcome, sizeof outcome, "%s", err.text);
    if (connected) { /* as the server sees it */
        must_ask(db, "SHOW SESSION STATUS LIKE 'Ssl_cipher'", cipher, sizeof cipher);
        snprintf(outcome, sizeof outcome, "%s", *cipher ? "encrypted" : "clear");
    }
    ck_assert_msg(strstr(outcome, t->outcome), "case %d, host %s, mode %s, ca %s: expected %s, is %s", _i,
                  t->host, t->mode, t->ca, t->outcome, outcome);
    ck_assert_msg(!strstr(err.text, "hunter2"), "%s", err.text);
    if (!connected) {
        error_clear(&err);
        ck_assert(!db_exec_text(db, "DO 1", NULL, &err));
        ck_assert_str_eq(err.text, "not connected");
    }
    db_free(db);
    config_free(c);
}
END_TEST

/* A server without TLS gets to see no statement: its own count says so. */
START_TEST(test_mysql_sends_nothing_in_clear_text) {
    static const struct tls_case watch = {&clear_server, "localhost", "disabled", "", "", "", "tallyd", ""},
                                 tries[] = {
                                     {&clear_server, "localhost", "required", "", "", "", "tallyd", ""},
                                     {&clear_server, "localhost", "verify_identity", "good.pem", "", "",
                                      "tallyd", ""}};
    struct config *c = tls_config(&watch);
    struct db *watcher = db_new(c, DB_READ_COMMITTED);
    struct error err = {0};
    char before[32], after[32];
    ck_assert_msg(db_ensure(watcher, &err), "%s", err.text);
    must_ask(watcher, "SHOW GLOBAL STATUS LIKE 'Com_set_option'", before, sizeof before);
    for (size_t i = 0; i < TESTING_LENGTH(tries); i++) {
        struct config *other = tls_config(&tries[i]);
        struct db *db = db_new(other, DB_READ_COMMITTED);
        error_clear(&err);
        ck_assert(!db_ensure(db, &err));
        ck_assert_int_eq(err.area, ERROR_MYSQL);
        db_free(db);
        config_free(other);
    }
    must_ask(watcher, "SHOW GLOBAL STATUS LIKE 'Com_set_option'", after, sizeof after);
    ck_assert_str_eq(before, after);
    db_free(watcher);
    config_free(c);
}
END_TEST

/* A connection is refused anew at each try, and made when it can be. */
START_TEST(test_mysql_tls_after_a_refusal) {
    static const struct tls_case refused = {&clear_server, "localhost", "required", "", "", "", "tallyd", ""};
    struct config *c = tls_config(&refused);
    struct db *db = db_new(c, DB_READ_COMMITTED);
    for (int i = 0; i < 3; i++) {
        struct error err = {0};
        ck_assert(!db_ensure(db, &err));
        ck_assert_msg(strstr(err.text, "the server offers no TLS"), "%s", err.text);
    }
    struct error err = {0};
    c->mysql.port = tls_server.port;
    ck_assert_msg(db_ensure(db, &err), "%s", err.text);
    db_free(db);
    config_free(c);
}
END_TEST

/* ---- Redis ---- */

static const struct {
    const char *user, *outcome; /* as YAML; @ stands for the folder */
} users[] = {
    {"username: tallyd, password: hunter2", "ok"},
    {"username: tallyd, password: 'file:@/password'", "ok"},
    {"username: tallyd, password: '${T_REDIS_PASSWORD}'", "ok"},
    {"username: tallyd, password: hunter3", "WRONGPASS"},
    {"username: nobody, password: hunter2", "WRONGPASS"},
    {"password: hunter2", "WRONGPASS"}, /* the default user, which is off */
    {"", "NOAUTH"},                     /* nobody at all */
    {"username: reader, password: hunter2", "NOPERM"},
};

static void take_number(void *ctx, size_t i, const struct redis_reply_view *reply) {
    (void)i;
    *(int64_t *)ctx = reply->kind == REDIS_NUMBER ? reply->number : -1;
}

/* INCR of a key; the user may write only below family: and event:. */
static bool increment(struct redis *r, const char *key, int64_t *value, struct error *err) {
    struct redis_command command = {0};
    buf_str(redis_command_arg(&command), "INCR");
    buf_str(redis_command_arg(&command), key);
    redis_append(r, &command);
    redis_command_free(&command);
    return redis_collect(r, take_number, value, err);
}

START_TEST(test_redis_acl) {
    struct buf yaml = {0};
    struct error err = {0};
    const char *user = users[_i].user;
    setenv("T_REDIS_PASSWORD", "hunter2", 1);
    buf_printf(&yaml, "redis: {host: 127.0.0.1, port: %d, ", redis_server.port);
    for (const char *at = user; *at; at++)
        *at == '@' ? buf_str(&yaml, folder) : buf_char(&yaml, *at);
    buf_str(&yaml, "}\n");
    struct config *c = must_parse(&yaml);
    struct redis *r = redis_new(c);
    bool ok = redis_ensure(r, &err);
    ck_assert_msg(ok ? strcmp(users[_i].outcome, "ok") == 0 : strstr(err.text, users[_i].outcome) != NULL,
                  "%s: expected %s, is %s", user, users[_i].outcome, ok ? "ok" : err.text);
    ck_assert_msg(ok || (err.area == ERROR_REDIS && err.action == ERROR_STOP), "%s", err.text);
    ck_assert_msg(!strstr(err.text, "hunter"), "%s", err.text);
    if (ok) {
        int64_t value = 0;
        ck_assert_msg(increment(r, "family:1:test", &value, &err), "%s", err.text);
        ck_assert_int_gt(value, 0);
        ck_assert(!increment(r, "elsewhere", &value, &err));
        ck_assert_msg(strstr(err.text, "NOPERM"), "%s", err.text);
    }
    redis_free(r);
    config_free(c);
    buf_free(&yaml);
}
END_TEST

static Suite *live_suite(void) {
    Suite *s = suite_create("config_live");
    TCase *t = tcase_create("config_live");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, test_mysql_tls, 0, (int)TESTING_LENGTH(tls_cases));
    tcase_add_test(t, test_mysql_sends_nothing_in_clear_text);
    tcase_add_test(t, test_mysql_tls_after_a_refusal);
    tcase_add_loop_test(t, test_redis_acl, 0, (int)TESTING_LENGTH(users));
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    start_all();
    return testing_run(live_suite());
}
