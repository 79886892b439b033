/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "check.h"
#include "migrate.h"
#include "mysql_db.h"
#include "period.h"

/* A row of the largest statements: usage_record with the longest id and app takes 0.6 KiB, an alert's payload
 * 1.2. */
#define ROW_BYTES 2048

/* What some rights are for. */
enum purpose { FOR_ALL, FOR_SENT, FOR_MONTHS, FOR_NOTHING };

/* What tallyd does to each table; `sets` are the columns it updates. */
static const struct table {
    const char *name;
    bool inserts;
    const char *sets;
    bool locks; /* reads it under a shared lock */
    enum purpose updates, deletes;
} tables[] = {
    {"schema_migration", false, NULL, false, FOR_NOTHING, FOR_NOTHING},
    {"family", false, NULL, false, FOR_NOTHING, FOR_NOTHING},
    {"family_member", false, NULL, false, FOR_NOTHING, FOR_NOTHING},
    {"policy_assignment", false, NULL, false, FOR_NOTHING, FOR_NOTHING},
    {"family_quota", true, "used_bytes = used_bytes, delta_bytes = delta_bytes, rev = rev", true, FOR_ALL,
     FOR_NOTHING},
    {"customer_quota", true,
     "monthly_used_bytes = monthly_used_bytes, delta_bytes = delta_bytes, rev = rev, is_blocked = is_blocked, "
     "block_reason = block_reason, state_event_time = state_event_time",
     true, FOR_ALL, FOR_NOTHING},
    {"usage_record", true, "event_id = event_id", true, FOR_ALL, FOR_MONTHS},
    {"usage_block", true, "event_id = event_id", true, FOR_ALL, FOR_MONTHS},
    {"alert_state", true, "arming = arming", false, FOR_ALL, FOR_NOTHING},
    {"usage_event_outbox", true,
     "status = status, retry_count = retry_count, next_retry_at = next_retry_at, last_error = last_error, "
     "lease_owner = lease_owner, lease_until = lease_until, sent_at = sent_at",
     true, FOR_ALL, FOR_SENT},
    {"consumer_ledger", true,
     "owner = owner, batch_no = batch_no, first_offset = first_offset, next_offset = next_offset, settled = settled, blocked = blocked, "
     "duplicate = duplicate, rejected = rejected, ignored = ignored, gap = gap, last_offset = last_offset, "
     "last_timestamp_ms = last_timestamp_ms, last_checksum = last_checksum, updated_at = updated_at",
     true, FOR_ALL, FOR_NOTHING},
    {"maintenance", true, "goal = goal, walked_to = walked_to, pruned = pruned, updated_at = updated_at",
     false, FOR_ALL, FOR_NOTHING},
    {"usage_floor", false, "closed_before = closed_before", true, FOR_MONTHS, FOR_NOTHING},
};
#define TABLE_COUNT (sizeof tables / sizeof *tables)

struct probe {
    const struct config *cfg;
    struct check_report *r;
    struct db *db;
    bool read_only;
    bool fits;              /* tallyd's tables are there */
    bool lost;              /* it answered and doesn't any more: each further question would only wait */
    char binlog_format[24]; /* "" when there is no log */
};

static struct check_item item(enum check_status status, const char *name, const char *hint, json_t *figures) {
    return (struct check_item){
        .area = CHECK_MYSQL, .status = status, .name = name, .hint = hint, .figures = figures};
}

static void add_failure(struct probe *p, const char *name, const struct error *err) {
    p->lost = p->lost || (err->action == ERROR_RETRY && !db_error_is_lock(err));
    check_add_error(p->r, CHECK_MYSQL, name, err, NULL);
}

/* One value; false after adding the failure. */
static bool ask(struct probe *p, const char *name, const char *sql, char *out, size_t size) {
    struct error err = {0};
    struct db_rows rows;
    out[0] = '\0';
    if (!db_ensure(p->db, &err) || !db_query_text(p->db, sql, &rows, &err)) {
        add_failure(p, name, &err);
        return false;
    }
    if (db_next(&rows) && rows.row[0])
        snprintf(out, size, "%s", rows.row[0]);
    db_rows_free(&rows);
    return true;
}

static void server(struct probe *p) {
    char version[80];
    if (!ask(p, "server", "SELECT VERSION()", version, sizeof version))
        return;
    bool maria = strcasestr(version, "mariadb") != NULL;
    json_t *figures = json_pack("{s:s}", "version", version);
    if (!check_version_reaches(version, maria ? 10 : 8, maria ? 6 : 0))
        check_add(p->r, item(CHECK_FAIL, "server", "upgrade it", figures),
                  "version %s, and MariaDB 10.6 or MySQL 8.0 or newer is needed", version);
    else
        check_add(p->r, item(CHECK_OK, "server", NULL, figures), "version %s at %s, database %s", version,
                  *p->cfg->mysql.socket ? p->cfg->mysql.socket : p->cfg->mysql.host, p->cfg->mysql.database);
}

/* ---- settings ---- */

static bool is_on(const char *value) {
    return strcasecmp(value, "OFF") != 0 && strcmp(value, "0") != 0;
}

/* By SHOW, since not every server knows each of them. */
static bool read_settings(struct probe *p, struct error *err) {
    struct db_rows rows;
    char format[24] = "";
    bool logs = false;
    if (!db_ensure(p->db, err) ||
        !db_query_text(p->db,
                       "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', "
                       "'innodb_read_only', 'log_bin', 'binlog_format')",
                       &rows, err))
        return false;
    while (db_next(&rows)) {
        const char *name = rows.row[0], *value = rows.row[1] ? rows.row[1] : "";
        if (strstr(name, "read_only"))
            p->read_only = p->read_only || is_on(value);
        else if (strcmp(name, "log_bin") == 0)
            logs = is_on(value);
        else
            snprintf(format, sizeof format, "%s", value);
    }
    db_rows_free(&rows);
    if (logs)
        memcpy(p->binlog_format, format, sizeof format);
    return true;
}

static void writable(struct probe *p) {
    struct error err = {0};
    if (!read_settings(p, &err))
        add_failure(p, "writable", &err);
    else if (p->read_only)
        check_add(p->r,
                  item(CHECK_FAIL, "writable", "point mysql.host at the primary, or SET GLOBAL read_only = 0",
                       NULL),
                  "the server is read-only");
    else
        check_add(p->r, item(CHECK_OK, "writable", NULL, NULL), "the server isn't read-only");
}

/* The session asked for it already; what can stand in the way is a log of statements. */
static void isolation(struct probe *p) {
    char level[32];
    struct error err = {0};
    struct db_rows rows;
    if (!db_ensure(p->db, &err) ||
        !db_query_text(
            p->db, "SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')",
            &rows, &err)) {
        add_failure(p, "isolation", &err);
        return;
    }
    snprintf(level, sizeof level, "%s", db_next(&rows) && rows.row[1] ? rows.row[1] : "unknown");
    db_rows_free(&rows);
    json_t *figures = json_pack("{s:s,s:s}", "isolation", level, "binlogFormat", p->binlog_format);
    if (strcmp(level, "READ-COMMITTED") != 0)
        check_add(p->r, item(CHECK_FAIL, "isolation", NULL, figures),
                  "%s although READ COMMITTED was asked for", level);
    else if (strcasecmp(p->binlog_format, "STATEMENT") == 0)
        check_add(p->r, item(CHECK_FAIL, "isolation", "set binlog_format to ROW or MIXED", figures),
                  "binlog_format is STATEMENT, under which READ COMMITTED can't write");
    else
        check_add(p->r, item(CHECK_OK, "isolation", NULL, figures), "READ COMMITTED");
}

static void packet(struct probe *p) {
    char text[32];
    int64_t needed = p->cfg->batch.max_events * ROW_BYTES;
    if (!ask(p, "packet", "SELECT @@max_allowed_packet", text, sizeof text))
        return;
    int64_t most = strtoll(text, NULL, 10);
    json_t *figures =
        json_pack("{s:I,s:I}", "maxAllowedPacket", (json_int_t)most, "needed", (json_int_t)needed);
    if (most < needed)
        check_add(p->r,
                  item(CHECK_FAIL, "packet", "raise max_allowed_packet, or lower batch.max_events", figures),
                  "max_allowed_packet is %" PRId64 ", and a batch of %" PRId64 " records can need %" PRId64,
                  most, p->cfg->batch.max_events, needed);
    else
        check_add(p->r, item(CHECK_OK, "packet", NULL, figures),
                  "max_allowed_packet is %" PRId64 ", a batch needs at most %" PRId64, most, needed);
}

/* ---- schema ---- */

static void schema_item(struct probe *p, enum check_status status, const char *hint,
                        const struct migrate_state *s, const char *text) {
    struct check_item it = item(status, "schema", hint, NULL);
    it.area = CHECK_SCHEMA;
    it.figures =
        json_pack("{s:I,s:I,s:I,s:I}", "applied", (json_int_t)s->number[MIGRATE_APPLIED], "missing",
                  (json_int_t)s->number[MIGRATE_MISSING], "changed", (json_int_t)s->number[MIGRATE_CHANGED],
                  "newer", (json_int_t)s->number[MIGRATE_NEWER]);
    check_add(p->r, it, "%s", text);
}

static void schema(struct probe *p) {
    struct error err = {0};
    struct migrate_state s;
    char text[160];
    if (!migrate_read(p->db, &s, &err)) {
        add_failure(p, "schema", &err);
        return;
    }
    bool fits = migrate_judge(&s, &err);
    size_t missing = s.number[MIGRATE_MISSING], newer = s.number[MIGRATE_NEWER];
    if (!fits) {
        schema_item(p, CHECK_FAIL, NULL, &s, err.text);
    } else if (missing) {
        snprintf(text, sizeof text, "%zu of %zu migrations are missing", missing, s.count);
        schema_item(p, CHECK_FAIL, "run `tallyd migrate -c FILE`", &s, text);
    } else {
        snprintf(text, sizeof text, "%zu migration%s applied", s.number[MIGRATE_APPLIED],
                 s.number[MIGRATE_APPLIED] == 1 ? "" : "s");
        if (newer)
            snprintf(text + strlen(text), sizeof text - strlen(text),
                     ", and %zu newer that this tallyd can run on", newer);
        schema_item(p, CHECK_OK, NULL, &s, text);
    }
    migrate_state_free(&s);
    p->fits = fits && missing == 0;
    if (!p->fits)
        check_add(p->r, item(CHECK_SKIPPED, "engine, rights", NULL, NULL),
                  "the tables aren't as they must be");
}

static void engine(struct probe *p) {
    struct error err = {0};
    struct db_rows rows;
    struct buf sql = {0};
    if (!p->fits)
        return;
    buf_str(&sql,
            "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = DATABASE() AND "
            "engine <> 'InnoDB' AND table_name IN (");
    for (size_t i = 0; i < TABLE_COUNT; i++)
        buf_printf(&sql, "%s'%s'", i ? ", " : "", tables[i].name);
    buf_str(&sql, ") LIMIT 1");
    bool ok = db_ensure(p->db, &err) && db_query(p->db, &sql, &rows, &err);
    buf_free(&sql);
    if (!ok) {
        add_failure(p, "engine", &err);
        return;
    }
    if (db_next(&rows))
        check_add(p->r, item(CHECK_FAIL, "engine", "ALTER TABLE … ENGINE = InnoDB", NULL),
                  "%s is kept by %s, which has no transactions", rows.row[0], rows.row[1]);
    else
        check_add(p->r, item(CHECK_OK, "engine", NULL, NULL), "all tables are InnoDB's");
    db_rows_free(&rows);
}

/* ---- rights ---- */

/* Asks for no row, and is rolled back besides: it finds out what the server says, nothing else. */
static bool try_statement(struct probe *p, const struct buf *sql, struct error *err) {
    bool ok = db_ensure(p->db, err) && db_exec_text(p->db, "START TRANSACTION", NULL, err) &&
              db_exec(p->db, sql, NULL, err);
    db_rollback(p->db);
    return ok;
}

enum right { MAY_SELECT, MAY_LOCK, MAY_INSERT, MAY_UPDATE, MAY_DELETE, RIGHTS };
static const char *const right_names[RIGHTS] = {"SELECT", "SELECT … LOCK IN SHARE MODE", "INSERT", "UPDATE",
                                                "DELETE"};

static bool wanted(const struct config *cfg, enum purpose purpose) {
    return purpose == FOR_ALL || (purpose == FOR_SENT && cfg->maintain.sent_retention_days > 0) ||
           (purpose == FOR_MONTHS && cfg->maintain.usage_months > 0);
}

/* False when tallyd doesn't do that to the table. */
static bool build_statement(const struct config *cfg, const struct table *t, enum right right,
                            struct buf *sql) {
    buf_reset(sql);
    switch (right) {
    case MAY_SELECT:
        buf_printf(sql, "SELECT * FROM %s WHERE 1 = 0", t->name);
        return true;
    case MAY_LOCK:
        buf_printf(sql, "SELECT * FROM %s WHERE 1 = 0 LOCK IN SHARE MODE", t->name);
        return t->locks;
    case MAY_INSERT:
        buf_printf(sql, "INSERT INTO %s SELECT * FROM %s WHERE 1 = 0", t->name, t->name);
        return t->inserts;
    case MAY_UPDATE:
        buf_printf(sql, "UPDATE %s SET %s WHERE 1 = 0", t->name, t->sets ? t->sets : "");
        return t->sets && wanted(cfg, t->updates);
    case MAY_DELETE:
        buf_printf(sql, "DELETE FROM %s WHERE 1 = 0", t->name);
        return wanted(cfg, t->deletes);
    default:
        return false;
    }
}

/* Tries what tallyd does to a table; true when all of it went. Who can't even read it is asked no more. */
static bool try_table(struct probe *p, const struct table *t, struct buf *denied, struct error *first) {
    struct buf sql = {0};
    bool all = true;
    for (int right = 0; right < RIGHTS; right++) {
        struct error err = {0};
        bool writes = right >= MAY_INSERT;
        if (!build_statement(p->cfg, t, (enum right)right, &sql) || (writes && p->read_only) ||
            try_statement(p, &sql, &err))
            continue;
        buf_printf(denied, "%s%s", !all ? "/" : denied->len ? ", " : "", right_names[right]);
        all = false;
        if (first->area == ERROR_NONE)
            *first = err;
        p->lost = p->lost || (err.action == ERROR_RETRY && !db_error_is_lock(&err));
        if (right == MAY_SELECT || p->lost)
            break;
    }
    if (!all)
        buf_printf(denied, " on %s", t->name);
    buf_free(&sql);
    return all;
}

static void rights(struct probe *p) {
    struct buf denied = {0};
    struct error first = {0};
    size_t good = 0;
    if (!p->fits)
        return;
    for (size_t i = 0; i < TABLE_COUNT && !p->lost; i++)
        good += try_table(p, &tables[i], &denied, &first);
    json_t *figures = json_pack("{s:I,s:I}", "tables", (json_int_t)TABLE_COUNT, "usable", (json_int_t)good);
    if (denied.len)
        check_add(p->r,
                  item(CHECK_FAIL, "rights", "see README for the rights that tallyd's user needs", figures),
                  "%s: %s", buf_cstr(&denied), first.text);
    else
        check_add(p->r, item(CHECK_OK, "rights", NULL, figures), "%s %zu tables as it must",
                  p->read_only ? "may read" : "may read and write", good);
    buf_free(&denied);
}

static void clock_of(struct probe *p) {
    char text[40];
    int64_t before = check_now_ms(), server_ms = 0;
    if (!ask(p, "clock", "SELECT UTC_TIMESTAMP(3)", text, sizeof text))
        return;
    int64_t after = check_now_ms();
    if (period_parse_utc(text, &server_ms))
        check_clock(p->r, CHECK_MYSQL, before, server_ms, after);
    else
        check_add(p->r, item(CHECK_FAIL, "clock", NULL, NULL), "the server's time reads \"%s\"", text);
}

void check_mysql(const struct config *cfg, struct check_report *r) {
    struct config quick = *cfg; /* its texts are cfg's */
    struct error err = {0};
    if (quick.mysql.connect_timeout_ms > CHECK_ANSWER_MS)
        quick.mysql.connect_timeout_ms = CHECK_ANSWER_MS;
    if (quick.mysql.timeout_ms > CHECK_ANSWER_MS)
        quick.mysql.timeout_ms = CHECK_ANSWER_MS;
    if (quick.mysql.lock_wait_timeout_ms > CHECK_ANSWER_MS / 5)
        quick.mysql.lock_wait_timeout_ms = CHECK_ANSWER_MS / 5;
    struct probe p = {.cfg = &quick, .r = r, .db = db_new(&quick, DB_READ_COMMITTED)};
    static void (*const looks[])(struct probe *) = {server, writable, isolation, packet,
                                                    schema, engine,   rights,    clock_of};
    if (!db_ensure(p.db, &err)) {
        check_add_error(r, CHECK_MYSQL, "server", &err, "look at the section mysql, and whether it runs");
        p.lost = true;
    }
    for (size_t i = 0; i < sizeof looks / sizeof *looks && !p.lost; i++)
        looks[i](&p);
    db_free(p.db);
}
