/* SPDX-License-Identifier: MIT */
/* `tallyd pause` and `tallyd resume`: what an operator wants is written into the ledger, where the running
 * daemons see it within a second or two. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "cli.h"
#include "group.h"
#include "kafka.h"
#include "ledger_rows.h"
#include "log.h"
#include "mysql_db.h"
#include "period.h"
#include "table.h"

#define ANSWER_MS 5000
#define DESTROY_MS 2000

struct options {
    const char *command; /* "pause" or "resume" */
    const char *path;
    bool json, pause;
    struct cli_partitions partitions;
};

/* The rows as they were and as they are now: rows come with partitions, and stay. */
struct change {
    const struct options *o;
    const struct config *cfg;
    struct db *db;
    struct ledger_row *before, *after; /* owned */
    size_t before_count, after_count;
    struct error away; /* why the topic couldn't be looked at for more partitions */
};

static const struct ledger_row *row_of(const struct ledger_row *rows, size_t n, int32_t id) {
    for (size_t i = 0; i < n; i++) {
        if (rows[i].partition == id)
            return &rows[i];
    }
    return NULL;
}

/* ---- what it says ---- */

static void since_text(int64_t since_ms, char out[PERIOD_LOCAL_SIZE]) {
    out[0] = '\0';
    if (since_ms)
        period_format_local(since_ms, out);
}

static const char *state(const struct ledger_row *row) {
    return !row ? "not begun" : row->paused_since_ms ? "paused" : "read";
}

static void print_table(const struct change *c) {
    struct table *t = table_new("partition>", "was", "is", "since", "settled to>", NULL);
    char since[PERIOD_LOCAL_SIZE];
    for (size_t i = 0; i < c->after_count; i++) {
        const struct ledger_row *row = &c->after[i];
        if (!cli_partitions_has(&c->o->partitions, row->partition))
            continue;
        since_text(row->paused_since_ms, since);
        table_i64(t, row->partition);
        table_text(t, state(row_of(c->before, c->before_count, row->partition)));
        table_text(t, state(row));
        table_text(t, *since ? since : NULL);
        table_i64(t, row->next_offset);
    }
    table_print(t, stdout);
    table_free(t);
    if (c->before_count == 0)
        printf("\nthe group was never here: it begins paused, where its first start would have begun\n");
}

static json_t *row_json(const struct change *c, const struct ledger_row *row) {
    const struct ledger_row *before = row_of(c->before, c->before_count, row->partition);
    json_t *p = json_object();
    char since[PERIOD_LOCAL_SIZE];
    since_text(row->paused_since_ms, since);
    json_object_set_new(p, "partition", json_integer(row->partition));
    json_object_set_new(p, "begun", json_boolean(before != NULL));
    json_object_set_new(p, "wasPaused", json_boolean(before && before->paused_since_ms != 0));
    json_object_set_new(p, "paused", json_boolean(row->paused_since_ms != 0));
    json_object_set_new(p, "pausedSince", *since ? json_string(since) : json_null());
    json_object_set_new(p, "settledTo", json_integer(row->next_offset));
    return p;
}

static void print_json(const struct change *c) {
    json_t *whole = json_object(), *list = json_array();
    for (size_t i = 0; i < c->after_count; i++) {
        if (cli_partitions_has(&c->o->partitions, c->after[i].partition))
            json_array_append_new(list, row_json(c, &c->after[i]));
    }
    json_object_set_new(whole, "group", json_string(c->cfg->kafka.group_id));
    json_object_set_new(whole, "topic", json_string(c->cfg->kafka.usage_topic));
    json_object_set_new(whole, "complete", json_boolean(c->away.area == ERROR_NONE));
    json_object_set_new(whole, "partitions", list);
    table_print_json(whole, stdout);
}

/* ---- partitions without a row ---- */

/* One that is meant. */
static bool lacks_row(const struct change *c, int32_t id) {
    return cli_partitions_has(&c->o->partitions, id) && !row_of(c->before, c->before_count, id);
}

/* Makes the rows that those meant lack, and pauses all those meant, at once. A group that has none at all
 * gets them all, or the others would begin as if the topic had grown. */
static bool begin_paused(struct change *c, const struct group *g, struct error *err) {
    struct ledger_begin *begins = mem_zero(g->partition_count, sizeof *begins);
    int32_t *paused = mem_zero(g->partition_count, sizeof *paused);
    size_t n = 0, paused_count = 0;
    bool known = c->before_count > 0;
    for (size_t i = 0; i < g->partition_count; i++) {
        const struct group_partition *p = &g->partitions[i];
        if (lacks_row(c, p->id) || !known)
            begins[n++] = (struct ledger_begin){p->id, ledger_start(p->low, p->committed, -1, known)};
        if (cli_partitions_has(&c->o->partitions, p->id))
            paused[paused_count++] = p->id;
    }
    bool ok = ledger_rows_begin_paused(c->db, c->cfg, begins, n, paused, paused_count, err);
    free(begins);
    free(paused);
    return ok;
}

/* EXIT_USAGE after a message when one that was named isn't on the topic. */
static int all_there(const struct change *c, const int32_t *ids, size_t n) {
    char why[512];
    for (size_t i = 0; i < c->o->partitions.count; i++) {
        int32_t id = c->o->partitions.ids[i];
        bool there = row_of(c->before, c->before_count, id) != NULL;
        for (size_t k = 0; k < n; k++)
            there = there || ids[k] == id;
        if (there)
            continue;
        snprintf(why, sizeof why, "%s has no partition %d", c->cfg->kafka.usage_topic, id);
        cli_error(c->o->command, "--partition", why, "nothing is changed; `tallyd lag` lists them");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* Asks the topic which partitions it has, and pauses those meant that have no row. EXIT_OK, EXIT_USAGE after
 * a message, or another one with an error. */
static int add_rows_by(rd_kafka_t *rk, struct change *c, struct error *err) {
    size_t n = 0;
    int32_t *ids = kafka_topic_partitions(rk, c->cfg->kafka.usage_topic, ANSWER_MS, &n, err);
    if (!ids) {
        group_name_right(c->cfg, "DESCRIBE", err);
        return cli_exit_code(err);
    }
    int code = all_there(c, ids, n);
    bool some = false;
    for (size_t i = 0; i < n; i++)
        some = some || lacks_row(c, ids[i]);
    free(ids);
    if (code != EXIT_OK || !some)
        return code;
    struct group g;
    if (!group_read(rk, c->cfg, &g, err))
        return cli_exit_code(err);
    bool ok = begin_paused(c, &g, err);
    group_free(&g);
    return ok ? EXIT_OK : cli_exit_code(err);
}

static int add_rows(struct change *c, struct error *err) {
    rd_kafka_t *rk = kafka_observer_new(c->cfg, err);
    int code = rk ? add_rows_by(rk, c, err) : cli_exit_code(err);
    if (rk)
        kafka_destroy(rk, DESTROY_MS);
    return code;
}

/* ---- partitions with one ---- */

static bool set_rows(struct change *c, struct error *err) {
    int32_t *ids = mem_alloc(c->before_count * sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; i < c->before_count; i++) {
        if (cli_partitions_has(&c->o->partitions, c->before[i].partition))
            ids[n++] = c->before[i].partition;
    }
    bool ok = ledger_rows_pause(c->db, c->cfg, ids, n, c->o->pause, err);
    free(ids);
    return ok;
}

/* Whether all that were named have rows. */
static bool all_begun(const struct change *c) {
    bool all = true;
    for (size_t i = 0; i < c->o->partitions.count; i++)
        all = all && row_of(c->before, c->before_count, c->o->partitions.ids[i]);
    return all;
}

/* What is named is paused whole or not at all. Where all is meant nothing waits for Kafka but what only Kafka
 * knows of: it may be why somebody pauses. */
static int pause_them(struct change *c) {
    struct error err = {0};
    bool all = c->o->partitions.count == 0;
    if (all && !set_rows(c, &err))
        return cli_failed(c->o->command, &err);
    int code = all || !all_begun(c) ? add_rows(c, &err) : EXIT_OK;
    if (err.area == ERROR_KAFKA && all && c->before_count) {
        c->away = err;
        return EXIT_NOT_DONE;
    }
    if (err.area != ERROR_NONE)
        return cli_failed(c->o->command, &err);
    if (code == EXIT_OK && !all && !set_rows(c, &err))
        return cli_failed(c->o->command, &err);
    return code;
}

/* What has no row isn't paused either. EXIT_USAGE after a message. */
static int all_known(const struct change *c) {
    char why[512];
    if (c->before_count == 0) {
        snprintf(why, sizeof why, "the ledger has no partition of %s in group %s yet",
                 c->cfg->kafka.usage_topic, c->cfg->kafka.group_id);
        cli_error(c->o->command, "group", why, "nothing is paused; is it the right configuration?");
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < c->o->partitions.count; i++) {
        int32_t id = c->o->partitions.ids[i];
        if (row_of(c->before, c->before_count, id))
            continue;
        snprintf(why, sizeof why, "the ledger has no partition %d of %s", id, c->cfg->kafka.usage_topic);
        cli_error(c->o->command, "--partition", why, "nothing is changed; `tallyd lag` lists them");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static int resume_them(struct change *c) {
    struct error err = {0};
    int code = all_known(c);
    return code != EXIT_OK || set_rows(c, &err) ? code : cli_failed(c->o->command, &err);
}

/* ---- the command ---- */

static int change_and_say(struct change *c) {
    struct error err = {0};
    if (!ledger_rows_read(c->db, c->cfg, &c->before, &c->before_count, &err))
        return cli_failed(c->o->command, &err);
    int code = c->o->pause ? pause_them(c) : resume_them(c);
    if (code != EXIT_OK && c->away.area == ERROR_NONE)
        return code;
    if (!ledger_rows_read(c->db, c->cfg, &c->after, &c->after_count, &err))
        return cli_failed(c->o->command, &err);
    if (c->o->json)
        print_json(c);
    else
        print_table(c);
    fflush(stdout);
    if (c->away.area != ERROR_NONE)
        cli_error(c->o->command, error_area_name(c->away.area), c->away.text,
                  "the partitions that the ledger knows are paused; the topic may have more: run it again");
    return code;
}

static int change(const struct config *cfg, struct db *db, void *options) {
    struct change c = {.o = options, .cfg = cfg, .db = db};
    int code = change_and_say(&c);
    free(c.before);
    free(c.after);
    return code;
}

static int read_options(int argc, char **argv, struct options *o) {
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"partition", required_argument, NULL, 'p'},
                                          {0}};
    int c;
    while ((c = cli_option(argc, argv, ":c:p:", longs)) != -1) {
        if (c == '?')
            return EXIT_USAGE;
        if (c == 'c')
            o->path = optarg;
        else if (c == 'j')
            o->json = true;
        else if (!cli_partitions_add(&o->partitions, optarg))
            return cli_usage(o->command, "--partition", "must be partitions' numbers, as in 0,3");
    }
    if (optind < argc)
        return cli_usage(o->command, argv[optind], "is one argument too many");
    return o->path ? EXIT_OK : cli_usage(o->command, "-c FILE", "is missing");
}

static int run(struct options *o, int argc, char **argv) {
    int code = read_options(argc, argv, o);
    if (code == EXIT_OK)
        code = cli_with_database(o->command, o->path, LOG_ERROR, change, o);
    free(o->partitions.ids);
    return code;
}

int cli_pause(int argc, char **argv) {
    struct options o = {.command = "pause", .pause = true};
    return run(&o, argc, argv);
}

int cli_resume(int argc, char **argv) {
    struct options o = {.command = "resume"};
    return run(&o, argc, argv);
}
