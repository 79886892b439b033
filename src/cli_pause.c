/* SPDX-License-Identifier: MIT */
/* `tallyd pause` and `tallyd resume`: what an operator wants is written into the ledger, where the running
 * daemons see it within a second or two. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "ledger_rows.h"
#include "log.h"
#include "mysql_db.h"
#include "period.h"
#include "table.h"

struct options {
    const char *command; /* "pause" or "resume" */
    const char *path;
    bool json, pause;
    struct cli_partitions partitions;
};

static void since_text(int64_t since_ms, char out[PERIOD_LOCAL_SIZE]) {
    out[0] = '\0';
    if (since_ms)
        period_format_local(since_ms, out);
}

/* Both lists have the same rows: rows come with partitions, and stay. */
static void print_table(const struct options *o, const struct ledger_row *before,
                        const struct ledger_row *after, size_t n) {
    struct table *t = table_new("partition>", "was", "is", "since", "settled to>", NULL);
    char since[PERIOD_LOCAL_SIZE];
    for (size_t i = 0; i < n; i++) {
        if (!cli_partitions_has(&o->partitions, after[i].partition))
            continue;
        since_text(after[i].paused_since_ms, since);
        table_i64(t, after[i].partition);
        table_text(t, before[i].paused_since_ms ? "paused" : "read");
        table_text(t, after[i].paused_since_ms ? "paused" : "read");
        table_text(t, *since ? since : NULL);
        table_i64(t, after[i].next_offset);
    }
    table_print(t, stdout);
    table_free(t);
}

static void print_json(const struct options *o, const struct config *cfg, const struct ledger_row *before,
                       const struct ledger_row *after, size_t n) {
    json_t *whole = json_object(), *list = json_array();
    char since[PERIOD_LOCAL_SIZE];
    json_object_set_new(whole, "group", json_string(cfg->kafka.group_id));
    json_object_set_new(whole, "topic", json_string(cfg->kafka.usage_topic));
    for (size_t i = 0; i < n; i++) {
        if (!cli_partitions_has(&o->partitions, after[i].partition))
            continue;
        json_t *p = json_object();
        since_text(after[i].paused_since_ms, since);
        json_object_set_new(p, "partition", json_integer(after[i].partition));
        json_object_set_new(p, "wasPaused", json_boolean(before[i].paused_since_ms != 0));
        json_object_set_new(p, "paused", json_boolean(after[i].paused_since_ms != 0));
        json_object_set_new(p, "pausedSince", *since ? json_string(since) : json_null());
        json_object_set_new(p, "settledTo", json_integer(after[i].next_offset));
        json_array_append_new(list, p);
    }
    json_object_set_new(whole, "partitions", list);
    table_print_json(whole, stdout);
}

static bool has_row(const struct ledger_row *rows, size_t n, int32_t id) {
    for (size_t i = 0; i < n; i++) {
        if (rows[i].partition == id)
            return true;
    }
    return false;
}

/* The partitions meant have rows, or a message says which hasn't. The ids meant go to `ids`. */
static int choose(const struct options *o, const struct config *cfg, const struct ledger_row *rows, size_t n,
                  int32_t *ids, size_t *count) {
    char why[512];
    if (n == 0) {
        snprintf(why, sizeof why, "the ledger has no partition of %s in group %s yet", cfg->kafka.usage_topic,
                 cfg->kafka.group_id);
        cli_error(o->command, "group", why,
                  "the first `tallyd run` makes them; is it the right configuration?");
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < o->partitions.count; i++) {
        if (has_row(rows, n, o->partitions.ids[i]))
            continue;
        snprintf(why, sizeof why, "the ledger has no partition %d of %s", o->partitions.ids[i],
                 cfg->kafka.usage_topic);
        cli_error(o->command, "--partition", why, "nothing is changed; `tallyd lag` lists them");
        return EXIT_USAGE;
    }
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        if (cli_partitions_has(&o->partitions, rows[i].partition))
            ids[(*count)++] = rows[i].partition;
    }
    return EXIT_OK;
}

static int change(const struct config *cfg, struct db *db, void *options) {
    const struct options *o = options;
    struct error err = {0};
    struct ledger_row *before = NULL, *after = NULL;
    size_t n = 0, then = 0, count = 0;
    int code;
    if (!ledger_rows_read(db, cfg, &before, &n, &err))
        return cli_failed(o->command, &err);
    int32_t *ids = mem_alloc(n * sizeof *ids);
    code = choose(o, cfg, before, n, ids, &count);
    if (code == EXIT_OK && (!ledger_rows_pause(db, cfg, ids, count, o->pause, &err) ||
                            !ledger_rows_read(db, cfg, &after, &then, &err)))
        code = cli_failed(o->command, &err);
    n = then < n ? then : n;
    if (code == EXIT_OK && o->json)
        print_json(o, cfg, before, after, n);
    else if (code == EXIT_OK)
        print_table(o, before, after, n);
    free(ids);
    free(before);
    free(after);
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
