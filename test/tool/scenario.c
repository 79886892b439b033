/* SPDX-License-Identifier: MIT */
/*
 * scenario: prepares, delivers and judges one scenario folder on a running stack (scripts/scenario.sh puts
 * the steps together). What it has to remember between steps lies in a work folder.
 *
 *   scenario prepare WORK DIR [PARTITIONS [BATCH]]   empty database, Redis and topics; WORK/config.yaml for
 * tallyd scenario load WORK DIR               families, members, policies and quotas, once the tables are
 * there scenario produce WORK DIR            delivers the records in order; a second time gives them new
 * offsets scenario run WORK SECONDS CMD...     runs the daemon until it ends by itself; its log goes to
 * WORK/tallyd.log scenario snapshot WORK               remembers the tables that a repeat may not change
 *   scenario rewind WORK                 moves the group's offsets back to the beginning
 *   scenario compare WORK DIR [repeats]  judges; "repeats" allows the copies that a crash may leave on the
 * two outgoing topics
 *
 * Exit code: 0 all as expected, 1 something differs or the daemon failed, 2 the tool could not do its work.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../support/scenario_cache.h"
#include "../support/scenario_check.h"
#include "../support/scenario_sql.h"
#include "buf.h"

#define LOG_TAIL 4096 /* bytes of the daemon's log shown when it fails */

static void tables_drop(void) {
    MYSQL *db = sc_sql_open();
    MYSQL_RES *res = sc_sql_rows(db, "SHOW TABLES");
    sc_sql_run(db, "SET foreign_key_checks = 0");
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));)
        sc_sql_run(db, "DROP TABLE `%s`", r[0]);
    mysql_free_result(res);
    mysql_close(db);
}

/* A single-quoted YAML scalar. */
static void yaml_text(FILE *f, const char *key, const char *value) {
    fprintf(f, "  %s: '", key);
    for (const char *s = value; *s; s++) {
        if (*s == '\'')
            fputc('\'', f);
        fputc(*s, f);
    }
    fputs("'\n", f);
}

/* Short times where waiting would only make a test slow; zone, thresholds and
 * limits stay at their defaults, which the scenarios are worked out for. */
static void config_write(const char *work, const struct sc_state *state, int batch) {
    char *path = sc_path(work, "config.yaml");
    FILE *f = fopen(path, "w");
    if (!f)
        sc_die("%s: %s", path, strerror(errno));
    fputs("kafka:\n", f);
    yaml_text(f, "brokers", sc_env("KAFKA_BROKERS"));
    yaml_text(f, "group_id", state->group);
    fputs("  session_timeout_ms: 6000\n  auto_commit_interval_ms: 200\n  fetch_wait_max_ms: 20\n  topics:\n",
          f);
    fprintf(f, "    usage: '%s'\n    notification: '%s'\n    dlt: '%s'\n", state->usage_topic,
            state->notification_topic, state->dlt_topic);
    fputs("redis:\n", f);
    yaml_text(f, "host", sc_env("REDIS_HOST"));
    fprintf(f, "  port: %s\n  database: 0\n", sc_env("REDIS_PORT"));
    fputs("mysql:\n", f);
    yaml_text(f, "host", sc_env("MYSQL_HOST"));
    fprintf(f, "  port: %s\n", sc_env("MYSQL_PORT"));
    yaml_text(f, "user", sc_env("MYSQL_USER"));
    yaml_text(f, "password", sc_env_or("MYSQL_PASSWORD", ""));
    yaml_text(f, "database", sc_env("MYSQL_DATABASE"));
    if (batch > 0)
        fprintf(f, "batch:\n  max_events: %d\n", batch);
    fputs("retry:\n  interval_ms: 100\nhttp:\n  port: 0\n", f);
    if (fclose(f) != 0)
        sc_die("%s: cannot be written", path);
    free(path);
}

static int prepare(const char *work, const char *dir, int partitions, int batch) {
    struct sc_scenario *sc = sc_scenario_read(dir);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct buf base = {0};
    buf_printf(&base, "%s-%lx%05lx", sc->name, (unsigned long)now.tv_sec, (unsigned long)now.tv_nsec / 1000);
    struct buf names[3] = {{0}, {0}, {0}};
    buf_printf(&names[0], "%s.usage", buf_cstr(&base));
    buf_printf(&names[1], "%s.notification", buf_cstr(&base));
    buf_printf(&names[2], "%s.usage.DLT", buf_cstr(&base));
    struct sc_state state = {.group = base.data,
                             .usage_topic = names[0].data,
                             .notification_topic = names[1].data,
                             .dlt_topic = names[2].data,
                             .reads = 1};
    const char *kind = sc_env_or("BROKER_KIND", "kafka");
    for (size_t i = 0; i < 3; i++)
        sc_topic_create(names[i].data, partitions, kind);
    state.partitions = sc_topic_partitions(state.usage_topic);
    tables_drop();
    sc_redis_flush();
    config_write(work, &state, batch);
    sc_state_write(work, &state);
    sc_state_free(&state);
    sc_scenario_free(sc);
    return 0;
}

static void policies_load(MYSQL *db, int64_t family, const json_t *policies, int64_t *age) {
    size_t i;
    const json_t *policy;
    json_array_foreach(policies, i, policy) {
        const json_t *customer = sc_json_get(policy, "customerId");
        char who[24] = "NULL";
        if (!json_is_null(customer))
            snprintf(who, sizeof who, "%ld", sc_json_int(policy, "customerId"));
        char *rules = json_dumps(sc_json_get(policy, "rules"), JSON_COMPACT);
        char *rules_sql = sc_sql_quote(db, rules);
        char *type_sql = sc_sql_quote(db, sc_json_text(policy, "type"));
        sc_sql_run(
            db,
            "INSERT INTO policy_assignment (family_id, customer_id, policy_type, rules, is_active, updated_at) "
            "VALUES (%ld, %s, %s, %s, %d, '2026-01-01 00:00:00' + INTERVAL %ld SECOND)",
            family, who, type_sql, rules_sql, !json_is_false(json_object_get(policy, "active")), ++*age);
        free(type_sql);
        free(rules_sql);
        free(rules);
    }
}

static void family_load(MYSQL *db, const json_t *family, int64_t *age) {
    int64_t id = sc_json_int(family, "familyId");
    char *name = sc_sql_quote(db, sc_json_text(family, "name"));
    sc_sql_run(db, "INSERT INTO family (family_id, name) VALUES (%ld, %s)", id, name);
    free(name);
    size_t i;
    const json_t *member;
    json_array_foreach(sc_json_get(family, "members"), i, member)
        sc_sql_run(db, "INSERT INTO family_member (family_id, customer_id) VALUES (%ld, %ld)", id,
                   (int64_t)json_integer_value(member));
    const char *month;
    const json_t *quota;
    json_object_foreach(sc_json_get(family, "quotas"), month, quota) sc_sql_run(
        db, "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (%ld, '%s-01', %ld)",
        id, month, sc_json_int(quota, "total"));
    policies_load(db, id, sc_json_get(family, "policies"), age);
}

static int load(const char *dir) {
    struct sc_scenario *sc = sc_scenario_read(dir);
    MYSQL *db = sc_sql_open();
    int64_t age = 0; /* policies are in order of age, and updated_at is the age */
    size_t i;
    const json_t *family;
    sc_sql_run(db, "START TRANSACTION");
    json_array_foreach(sc_json_get(sc->setup, "families"), i, family) family_load(db, family, &age);
    sc_sql_run(db, "COMMIT");
    mysql_close(db);
    sc_scenario_free(sc);
    return 0;
}

/* Headers by which the DLT is checked for carrying a record's own: text, bytes
 * that are no text, one without value, one name twice. */
static rd_kafka_headers_t *headers_new(size_t number) {
    static const char bytes[] = {0, (char)0xff, 'x'};
    char text[32];
    int len = snprintf(text, sizeof text, "%zu", number);
    rd_kafka_headers_t *headers = rd_kafka_headers_new(4);
    rd_kafka_header_add(headers, "scenario-line", -1, text, len);
    rd_kafka_header_add(headers, "scenario-bytes", -1, bytes, sizeof bytes);
    rd_kafka_header_add(headers, "scenario-null", -1, NULL, 0);
    rd_kafka_header_add(headers, "scenario-line", -1, text, len);
    return headers;
}

static int produce(const char *work, const char *dir) {
    struct sc_scenario *sc = sc_scenario_read(dir);
    struct sc_state state = sc_state_read(work);
    struct sc_outgoing *items = mem_zero(sc->count, sizeof *items);
    struct sc_place *places = mem_zero(sc->count, sizeof *places);
    state.copies++;
    for (size_t i = 0; i < sc->count; i++) {
        const struct sc_line *line = &sc->lines[i];
        items[i] = (struct sc_outgoing){.key = line->key,
                                        .key_len = line->key_len,
                                        .value = line->value,
                                        .value_len = line->value_len,
                                        .timestamp_ms = line->timestamp_ms,
                                        .headers = headers_new(i + 1)};
    }
    sc_topic_produce(state.usage_topic, items, sc->count);
    for (size_t i = 0; i < sc->count; i++)
        places[i] = (struct sc_place){
            .line = i, .copy = state.copies, .partition = items[i].partition, .offset = items[i].offset};
    sc_places_append(work, places, sc->count);
    sc_state_write(work, &state);
    free(items);
    free(places);
    sc_state_free(&state);
    sc_scenario_free(sc);
    return 0;
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* Waits for the child, at most until the deadline; then it is killed. */
static bool await_end(pid_t child, int64_t deadline_ms, int *status) {
    while (waitpid(child, status, WNOHANG) == 0) {
        if (now_ms() > deadline_ms) {
            kill(child, SIGKILL);
            waitpid(child, status, 0);
            return false;
        }
        struct timespec pause = {.tv_nsec = 5000000};
        nanosleep(&pause, NULL);
    }
    return true;
}

static void log_show(const char *path) {
    size_t len;
    char *text = sc_file_read(path, &len);
    char *from = text + (len > LOG_TAIL ? len - LOG_TAIL : 0);
    printf("the end of %s:\n%s\n", path, from);
    free(text);
}

static int run(const char *work, const char *seconds, char **command) {
    char *path = sc_path(work, "tallyd.log");
    struct sc_state state = sc_state_read(work);
    int64_t start = now_ms();
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        sc_die("fork: %s", strerror(errno));
    if (child == 0) {
        /* A daemon never outlives the run it belongs to, and hears of an interrupt. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGINT, SIG_DFL);
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
            _exit(126);
        execv(command[0], command);
        dprintf(2, "%s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    int status = 0;
    bool in_time = await_end(child, start + strtoll(seconds, NULL, 10) * 1000, &status);
    bool ok = in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    state.ran_ms = now_ms() - start;
    sc_state_write(work, &state);
    if (!ok) {
        printf("DIFF: expected %s %s to end with 0, found it %s %d after %.1f s\n", command[0],
               command[1] ? command[1] : "",
               !in_time            ? "still running; killed by"
               : WIFEXITED(status) ? "ending with"
                                   : "killed by",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), (double)state.ran_ms / 1000);
        log_show(path);
    }
    free(path);
    sc_state_free(&state);
    return ok ? 0 : 1;
}

static int snapshot(const char *work) {
    MYSQL *db = sc_sql_open();
    sc_snapshot_write(db, work);
    mysql_close(db);
    return 0;
}

static int rewind_group(const char *work) {
    struct sc_state state = sc_state_read(work);
    sc_group_rewind(state.group, state.usage_topic, state.partitions);
    state.reads++;
    sc_state_write(work, &state);
    sc_state_free(&state);
    return 0;
}

/* The outcomes are those of all deliveries; a second reading of old offsets adds none. */
static void end_line(const struct sc_check *c) {
    if (c->report.differences > 0) {
        printf("FAILED %s: %zu differences\n", c->report.name, c->report.differences);
        return;
    }
    size_t counts[SC_OUTCOMES] = {0};
    for (size_t i = 0; i < c->places.count; i++)
        counts[sc_place_outcome(c->scenario, &c->places.items[i])]++;
    printf("ok %s", c->report.name);
    if (c->state.copies > 1)
        printf(", delivered %d times", c->state.copies);
    if (c->state.reads > 1)
        printf(", read %d times", c->state.reads);
    printf(": %zu records, %d partitions, %s, %.1f s,", c->places.count, c->state.partitions,
           sc_env_or("BROKER_KIND", "kafka"), (double)c->state.ran_ms / 1000);
    for (int i = 0; i < SC_OUTCOMES; i++)
        printf(" %s %zu", sc_outcome_name((enum sc_outcome)i), counts[i]);
    putchar('\n');
}

static int compare(const char *work, const char *dir, bool repeats) {
    struct sc_check *c = sc_check_new(work, dir, repeats);
    sc_check_tables(c);
    sc_check_ledger(c);
    sc_check_notifications(c);
    sc_check_rejections(c);
    sc_check_cache(c);
    sc_check_snapshot(c);
    end_line(c);
    int code = c->report.differences > 0 ? 1 : 0;
    sc_check_free(c);
    return code;
}

static int usage(void) {
    fputs("usage: scenario prepare WORK DIR [PARTITIONS [BATCH]]\n"
          "       scenario load|produce WORK DIR\n"
          "       scenario run WORK SECONDS CMD...\n"
          "       scenario snapshot|rewind WORK\n"
          "       scenario compare WORK DIR [repeats]\n",
          stderr);
    return 2;
}

int main(int argc, char **argv) {
    sc_zone_init();
    const char *verb = argc > 2 ? argv[1] : "";
    const char *work = argc > 2 ? argv[2] : "";
    const char *dir = argc > 3 ? argv[3] : NULL;
    if (strcmp(verb, "prepare") == 0 && dir && argc <= 6)
        return prepare(work, dir, argc > 4 ? atoi(argv[4]) : 1, argc > 5 ? atoi(argv[5]) : 0);
    if (strcmp(verb, "load") == 0 && argc == 4)
        return load(dir);
    if (strcmp(verb, "produce") == 0 && argc == 4)
        return produce(work, dir);
    if (strcmp(verb, "run") == 0 && argc > 4)
        return run(work, dir, argv + 4);
    if (strcmp(verb, "snapshot") == 0 && argc == 3)
        return snapshot(work);
    if (strcmp(verb, "rewind") == 0 && argc == 3)
        return rewind_group(work);
    if (strcmp(verb, "compare") == 0 && argc == 4)
        return compare(work, dir, false);
    if (strcmp(verb, "compare") == 0 && argc == 5 && strcmp(argv[4], "repeats") == 0)
        return compare(work, dir, true);
    return usage();
}
