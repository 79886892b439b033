/* SPDX-License-Identifier: MIT */
#include "mysql_db.h"

#include <errmsg.h>
#include <errno.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "heartbeat.h"
#include "mysql_db_internal.h"
#include "period.h"

#define CODE_LOCK_WAIT 1205
#define CODE_DEADLOCK 1213
#define CODE_DUPLICATE 1062
#define CODE_SIGNAL 1644

/* One row a code that means more than "a fault to wait for" (DESIGN §4). */
static const struct {
    unsigned code;
    enum error_action action;
    enum error_effect effect;
    bool broken; /* the connection is of no use any more */
} known_codes[] = {
    {CODE_DEADLOCK, ERROR_RETRY, ERROR_NOT_DONE, false},
    {CODE_LOCK_WAIT, ERROR_RETRY, ERROR_NOT_DONE, false},
    {1020, ERROR_RETRY, ERROR_NOT_DONE, false}, /* record changed since the snapshot */
    {CODE_DUPLICATE, ERROR_STOP, ERROR_NOT_DONE, false},
    {CR_CONNECTION_ERROR, ERROR_RETRY, ERROR_NOT_DONE, true},
    {CR_CONN_HOST_ERROR, ERROR_RETRY, ERROR_NOT_DONE, true},
    /* Also what a broken connection looks like while it's being made: a wait that the log explains is right
     * for both, and the check at the start ends with it anyway. */
    {CR_SSL_CONNECTION_ERROR, ERROR_RETRY, ERROR_UNKNOWN, true},
    {CR_SERVER_GONE_ERROR, ERROR_RETRY, ERROR_UNKNOWN, true},
    {CR_SERVER_LOST, ERROR_RETRY, ERROR_UNKNOWN, true},
    {2055, ERROR_RETRY, ERROR_UNKNOWN, true},
    {CR_COMMANDS_OUT_OF_SYNC, ERROR_RETRY, ERROR_UNKNOWN, true},
    {1040, ERROR_RETRY, ERROR_NOT_DONE, true}, /* too many connections */
    {1203, ERROR_RETRY, ERROR_NOT_DONE, true}, /* too many for this user, by the server's limit */
    {1226, ERROR_RETRY, ERROR_NOT_DONE, true}, /* and by the account's */
    {1053, ERROR_RETRY, ERROR_UNKNOWN, true},  /* shutting down */
    {1077, ERROR_RETRY, ERROR_UNKNOWN, true},
    {1079, ERROR_RETRY, ERROR_UNKNOWN, true},
    {1158, ERROR_RETRY, ERROR_UNKNOWN, true},
    {1159, ERROR_RETRY, ERROR_UNKNOWN, true},
    {1160, ERROR_RETRY, ERROR_UNKNOWN, true},
    {1161, ERROR_RETRY, ERROR_UNKNOWN, true},
    {1317, ERROR_RETRY, ERROR_UNKNOWN, false}, /* query interrupted */
    {4031, ERROR_RETRY, ERROR_UNKNOWN, true},  /* MySQL 8 ended a silent session */
    {1927, ERROR_RETRY, ERROR_UNKNOWN, true},  /* killed */
    {1290, ERROR_RETRY, ERROR_NOT_DONE, true}, /* read-only: also at COMMIT, which is then rolled back */
    {1836, ERROR_RETRY, ERROR_NOT_DONE, true},
    {ER_NET_PACKET_TOO_LARGE, ERROR_REJECT, ERROR_NOT_DONE, true},
    {CR_NET_PACKET_TOO_LARGE, ERROR_REJECT, ERROR_NOT_DONE, true},
    {1264, ERROR_REJECT, ERROR_NOT_DONE, false},
    {1366, ERROR_REJECT, ERROR_NOT_DONE, false},
    {1406, ERROR_REJECT, ERROR_NOT_DONE, false},
    {1048, ERROR_REJECT, ERROR_NOT_DONE, false},
    {1292, ERROR_REJECT, ERROR_NOT_DONE, false},
    {1690, ERROR_REJECT, ERROR_NOT_DONE, false},
    {3819, ERROR_REJECT, ERROR_NOT_DONE, false},
    {4025, ERROR_REJECT, ERROR_NOT_DONE, false},
};

/* Server messages that quote names only: of tables, columns, users, variables, never a value. */
static bool quotes_names(unsigned code) {
    static const unsigned codes[] = {
        1044, 1045, 1049, 1050, 1054, 1060, 1061, 1091, 1109, 1129, 1130, 1142,
        1143, 1144, 1146, 1193, 1203, 1226, 1227, 1231, 1238, 1264, 1265, 1290,
        1305, 1364, 1370, 1406, 1048, 1524, 1698, 3118, 3819, 4025, 4151,
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i] == code)
            return true;
    }
    return code >= CR_MIN_ERROR && code <= CR_MAX_ERROR; /* the client library's own */
}

/* A message of the server's as it may be told. Some hold the value that they are about, a syntax error a
 * piece of the statement, and what a trigger says is up to whoever wrote it. */
static void tellable(unsigned code, const char *why, char *out, size_t size) {
    if (code == CODE_SIGNAL)
        snprintf(out, size, "a trigger or procedure of the database's signals an error of its own");
    else if (quotes_names(code))
        snprintf(out, size, "%s", why);
    else
        error_hide_quoted(why, out, size);
}

bool db_fail_with(struct db *db, unsigned code, const char *what, const char *why, struct error *err) {
    char told[512];
    enum error_action action = ERROR_STOP;
    enum error_effect effect = code >= CR_MIN_ERROR && code <= CR_MAX_ERROR ? ERROR_UNKNOWN : ERROR_NOT_DONE;
    bool broken = true; /* of what isn't known a new connection may know better: after a failover, say */
    for (size_t i = 0; i < sizeof known_codes / sizeof *known_codes; i++) {
        if (known_codes[i].code == code) {
            action = known_codes[i].action;
            effect = known_codes[i].effect;
            broken = known_codes[i].broken;
        }
    }
    tellable(code, why, told, sizeof told);
    error_set(err, ERROR_MYSQL, action, effect, (int)code, "%s: %.450s", what, told);
    if (broken)
        db_close(db);
    return false;
}

static bool db_fail(struct db *db, const char *what, struct error *err) {
    return db_fail_with(db, mysql_errno(db->conn), what, mysql_error(db->conn), err);
}

bool db_error_is_duplicate(const struct error *err) {
    return err->area == ERROR_MYSQL && err->code == CODE_DUPLICATE;
}

bool db_error_is_lock(const struct error *err) {
    return err->area == ERROR_MYSQL &&
           (err->code == CODE_DEADLOCK || err->code == CODE_LOCK_WAIT || err->code == 1020);
}

bool db_error_is_lock_wait(const struct error *err) {
    return err->area == ERROR_MYSQL && err->code == CODE_LOCK_WAIT;
}

struct db *db_new(const struct config *cfg, enum db_isolation isolation) {
    struct db *db = mem_zero(1, sizeof *db);
    db->cfg = cfg;
    db->isolation = isolation;
    return db;
}

void db_free(struct db *db) {
    if (!db)
        return;
    db_close(db);
    free(db);
}

void db_close(struct db *db) {
    for (size_t i = 0; i < db->prepared_count; i++)
        mysql_stmt_close(db->prepared[i].stmt);
    db->prepared_count = 0;
    if (db->conn)
        mysql_close(db->conn);
    db->conn = NULL;
}

int64_t db_increment_step(const struct db *db) {
    return db->increment_step;
}

static bool session_setup(struct db *db, struct error *err) {
    struct buf sql = {0};
    long long lock_wait_s = db->cfg->mysql.lock_wait_timeout_ms / 1000;
    buf_printf(
        &sql,
        "SET SESSION sql_mode='STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
        "NO_ENGINE_SUBSTITUTION', time_zone='+00:00', innodb_lock_wait_timeout=%lld, lock_wait_timeout=%lld, "
        "wait_timeout=%lld",
        lock_wait_s, lock_wait_s, (long long)(db->cfg->mysql.session_wait_timeout_ms / 1000));
    bool ok = db_exec(db, &sql, NULL, err) &&
              db_exec_text(db,
                           db->isolation == DB_READ_COMMITTED
                               ? "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
                               : "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                           NULL, err);
    buf_free(&sql);
    struct db_rows rows;
    if (!ok || !db_query_text(db, "SELECT @@auto_increment_increment, @@max_allowed_packet", &rows, err))
        return false;
    bool row = db_next(&rows);
    db->increment_step = row ? db_i64(&rows, 0, 1) : 1;
    db->packet_max = row ? db_i64(&rows, 1, 0) : 0;
    db_rows_free(&rows);
    return true;
}

static unsigned whole_seconds(int64_t ms) {
    return (unsigned)((ms + 999) / 1000);
}

/* One of mysql.tls.ca, cert and key; the library's own complaint doesn't name the file. */
static bool tls_file(struct db *db, const char *name, const char *path, enum mysql_option option,
                     struct error *err) {
    if (*path == '\0')
        return true;
    if (access(path, R_OK) != 0)
        return error_set(err, ERROR_CONFIG, ERROR_RETRY, ERROR_NOT_DONE, errno, "mysql.tls.%s: %s: %s", name,
                         path, strerror(errno));
    mysql_options(db->conn, option, path);
    return true;
}

/* The enforcing option alone isn't obeyed: against a server without TLS the library goes on in clear text,
 * unless it is to verify the server, and then it ends before the login. So modes that don't verify have to
 * look afterwards (tls_holds). With a CA the library checks the chain in either mode. */
static bool tls_options(struct db *db, struct error *err) {
    const struct config *c = db->cfg;
    my_bool on = 1, verify = c->mysql.tls_mode == CONFIG_TLS_VERIFY_IDENTITY;
    if (c->mysql.tls_mode == CONFIG_TLS_DISABLED)
        return true;
    mysql_options(db->conn, MYSQL_OPT_SSL_ENFORCE, &on);
    mysql_options(db->conn, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    mysql_options(db->conn, MARIADB_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3");
    return tls_file(db, "ca", c->mysql.tls_ca, MYSQL_OPT_SSL_CA, err) &&
           tls_file(db, "cert", c->mysql.tls_cert, MYSQL_OPT_SSL_CERT, err) &&
           tls_file(db, "key", c->mysql.tls_key, MYSQL_OPT_SSL_KEY, err);
}

/* Nothing was asked on this connection yet, so nothing went out in clear text but the login, which isn't the
 * password. */
static bool tls_holds(struct db *db, struct error *err) {
    return db->cfg->mysql.tls_mode == CONFIG_TLS_DISABLED || mysql_get_ssl_cipher(db->conn) ||
           error_set(err, ERROR_MYSQL, ERROR_STOP, ERROR_NOT_DONE, CR_SSL_CONNECTION_ERROR,
                     "connect: the server offers no TLS, and mysql.tls.mode doesn't allow clear text");
}

static bool db_connect(struct db *db, struct error *err) {
    const struct config *c = db->cfg;
    heartbeat_beat();
    db->conn = mysql_init(NULL);
    if (!db->conn)
        return error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, 0, "mysql_init: out of memory");
    unsigned connect_s = whole_seconds(c->mysql.connect_timeout_ms),
             io_s = whole_seconds(c->mysql.timeout_ms);
    my_bool off = 0;
    unsigned local_infile = 0, tcp = MYSQL_PROTOCOL_TCP;
    mysql_options(db->conn, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    mysql_options(db->conn, MYSQL_OPT_READ_TIMEOUT, &io_s);
    mysql_options(db->conn, MYSQL_OPT_WRITE_TIMEOUT, &io_s);
    mysql_options(db->conn, MYSQL_OPT_RECONNECT, &off);
    mysql_options(db->conn, MYSQL_OPT_LOCAL_INFILE, &local_infile);
    mysql_options(db->conn, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (!tls_options(db, err)) {
        db_close(db);
        return false;
    }
    bool by_socket = c->mysql.socket[0] != '\0';
    if (!by_socket)
        mysql_options(db->conn, MYSQL_OPT_PROTOCOL, &tcp);
    /* Without CLIENT_FOUND_ROWS: the affected count of a no-op upsert must stay 0. */
    if (!mysql_real_connect(db->conn, by_socket ? NULL : c->mysql.host, c->mysql.user, c->mysql.password,
                            c->mysql.database, by_socket ? 0 : (unsigned)c->mysql.port,
                            by_socket ? c->mysql.socket : NULL, 0)) {
        db_fail(db, "connect", err);
        db_close(db);
        return false;
    }
    if (!tls_holds(db, err) || !session_setup(db, err)) {
        db_close(db);
        return false;
    }
    unsigned long more = 0; /* what MariaDB's servers can do beyond MySQL's */
    mariadb_get_infov(db->conn, MARIADB_CONNECTION_EXTENDED_SERVER_CAPABILITIES, &more);
    db->bulk = more & (MARIADB_CLIENT_STMT_BULK_OPERATIONS >> 32);
    return true;
}

void db_text_only(struct db *db) {
    db->text_only = true;
}

bool db_ensure(struct db *db, struct error *err) {
    int64_t now = clock_monotonic_ms(), silence = db->cfg->mysql.session_wait_timeout_ms / 3;
    heartbeat_beat();
    if (db->conn && now - db->last_used > silence && mysql_ping(db->conn) != 0)
        db_close(db);
    if (!db->conn && !db_connect(db, err))
        return false;
    db->last_used = now;
    return true;
}

/* What a fault point asks for, in test builds. A statement that was run leaves no rows unread. */
static bool db_fail_injected(struct db *db, const struct fault *fault, const char *what, struct error *err) {
    if (fault->verdict == FAULT_AFTER)
        mysql_free_result(mysql_store_result(db->conn));
    return db_fail_with(db, fault->code ? (unsigned)fault->code : CR_SERVER_LOST, what, "a fault point's",
                        err);
}

bool db_enter(struct db *db, struct db_call *call, const char *sql, size_t len, size_t bytes,
              struct error *err) {
    if (!db->conn)
        return error_set(err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE, CR_SERVER_GONE_ERROR,
                         "not connected");
    db->last_used = clock_monotonic_ms();
    heartbeat_beat();
    if (db->packet_max &&
        (int64_t)bytes + 1 > db->packet_max) /* the server would hang up, which looks like an outage */
        return error_set(err, ERROR_MYSQL, ERROR_REJECT, ERROR_NOT_DONE, ER_NET_PACKET_TOO_LARGE,
                         "a statement of %zu bytes is over the server's max_allowed_packet of %lld", bytes,
                         (long long)db->packet_max);
    size_t n = strcspn(sql, "\n(");
    if (n >= sizeof call->what)
        n = sizeof call->what - 1;
    memcpy(call->what, sql, n);
    call->what[n] = '\0';
    call->fault = fault_at_statement(sql, len);
    return !fault_asks(&call->fault, FAULT_FAIL) || db_fail_injected(db, &call->fault, call->what, err);
}

bool db_leave(struct db *db, const struct db_call *call, struct error *err) {
    return !fault_asks(&call->fault, FAULT_AFTER) || db_fail_injected(db, &call->fault, call->what, err);
}

static bool db_run(struct db *db, const char *sql, size_t len, struct error *err) {
    struct db_call call;
    if (!db_enter(db, &call, sql, len, len, err))
        return false;
    if (mysql_real_query(db->conn, sql, len) != 0)
        return db_fail(db, call.what, err);
    return db_leave(db, &call, err);
}

bool db_exec(struct db *db, const struct buf *sql, int64_t *affected, struct error *err) {
    if (!db_run(db, buf_cstr(sql), sql->len, err))
        return false;
    MYSQL_RES *result =
        mysql_store_result(db->conn); /* none is expected; one left unread would block the connection */
    if (result)
        mysql_free_result(result);
    if (affected)
        *affected = (int64_t)mysql_affected_rows(db->conn);
    return true;
}

bool db_exec_text(struct db *db, const char *sql, int64_t *affected, struct error *err) {
    struct buf b = {.data = (char *)sql, .len = strlen(sql)};
    return db_exec(db, &b, affected, err);
}

int64_t db_insert_id(struct db *db) {
    return db->conn ? (int64_t)mysql_insert_id(db->conn) : 0;
}

bool db_query(struct db *db, const struct buf *sql, struct db_rows *rows, struct error *err) {
    *rows = (struct db_rows){0};
    if (!db_run(db, buf_cstr(sql), sql->len, err))
        return false;
    rows->result = mysql_store_result(db->conn);
    return rows->result ? true : db_fail(db, "reading rows", err);
}

bool db_query_text(struct db *db, const char *sql, struct db_rows *rows, struct error *err) {
    struct buf b = {.data = (char *)sql, .len = strlen(sql)};
    return db_query(db, &b, rows, err);
}

bool db_next(struct db_rows *rows) {
    rows->row = mysql_fetch_row(rows->result);
    rows->lengths = rows->row ? mysql_fetch_lengths(rows->result) : NULL;
    return rows->row != NULL;
}

void db_rows_free(struct db_rows *rows) {
    if (rows->result)
        mysql_free_result(rows->result);
    *rows = (struct db_rows){0};
}

int64_t db_i64(const struct db_rows *rows, int column, int64_t otherwise) {
    return rows->row[column] ? strtoll(rows->row[column], NULL, 10) : otherwise;
}

int64_t db_utc_ms(const struct db_rows *rows, int column, int64_t otherwise) {
    int64_t ms;
    return rows->row[column] && period_parse_utc(rows->row[column], &ms) ? ms : otherwise;
}

void db_rollback(struct db *db) {
    heartbeat_beat();
    if (db->conn &&
        (fault_at_statement("ROLLBACK", 8).verdict == FAULT_FAIL || mysql_rollback(db->conn) != 0))
        db_close(db);
}

void db_quote(struct db *db, struct buf *sql, const char *text, size_t len) {
    buf_char(sql, '\'');
    char *to = buf_room(sql, len * 2 + 1);
    buf_end(sql, mysql_real_escape_string(db->conn, to, text, len));
    buf_char(sql, '\'');
}

void db_append_list(struct buf *sql, const int64_t *numbers, size_t n) {
    for (size_t i = 0; i < n; i++) {
        buf_char(sql, i ? ',' : '(');
        buf_i64(sql, numbers[i]);
    }
    buf_char(sql, ')');
}

static int64_t at_most(int64_t ms, int64_t most) {
    return ms < most ? ms : most;
}

void db_hurry(struct config *cfg, int64_t ms) {
    cfg->mysql.connect_timeout_ms = at_most(cfg->mysql.connect_timeout_ms, ms);
    cfg->mysql.timeout_ms = at_most(cfg->mysql.timeout_ms, ms);
}
