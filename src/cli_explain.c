/* SPDX-License-Identifier: MIT */
/* `tallyd explain EVENT_ID`: the answer in a sentence, then what it's taken from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "explain.h"
#include "explain_print.h"
#include "period.h"

#define COMMAND "explain"

struct options {
    const char *path, *id;
    const char *since; /* as written: a local time is in the zone, which the configuration says */
    bool json;
    bool far; /* how far to search was said */
    struct explain_options explain;
};

/* 500ms, 90s, 15m, 24h, 7d. */
static bool read_duration(const char *text, int64_t *ms) {
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (digits && digits <= 6 && strcmp(text + digits, units[i].name) == 0) {
            *ms = strtoll(text, NULL, 10) * units[i].ms;
            return true;
        }
    }
    return false;
}

/* A time as in an event, or so long ago. */
static bool read_since(const char *text, int64_t *since_ms) {
    int64_t ago_ms;
    if (!read_duration(text, &ago_ms))
        return period_parse(text, strlen(text), since_ms) && *since_ms >= 0;
    *since_ms = (int64_t)time(NULL) * 1000 - ago_ms;
    *since_ms = *since_ms < 0 ? 0 : *since_ms;
    return true;
}

static bool read_scan(const char *text, int64_t *records) {
    size_t digits = strspn(text, "0123456789");
    if (strcmp(text, "all") == 0) {
        *records = -1;
        return true;
    }
    *records = strtoll(text, NULL, 10);
    return digits && digits <= 12 && !text[digits];
}

static int take_option(int c, struct options *o) {
    o->far = o->far || c == 's' || c == 'n';
    if (c == 'c')
        o->path = optarg;
    else if (c == 'j')
        o->json = true;
    else if (c == 's')
        o->since = optarg;
    else if (c == 'n' && !read_scan(optarg, &o->explain.records))
        return cli_usage(COMMAND, "--scan", "must be a number of records, or all");
    else if (c == 'w' && (!read_duration(optarg, &o->explain.within_ms) || o->explain.within_ms == 0))
        return cli_usage(COMMAND, "--within", "must be so long as 500ms, 30s, 5m");
    return EXIT_OK;
}

static int read_options(int argc, char **argv, struct options *o) {
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'}, {"json", no_argument, NULL, 'j'},
        {"since", required_argument, NULL, 's'},  {"scan", required_argument, NULL, 'n'},
        {"within", required_argument, NULL, 'w'}, {0}};
    int c, code = EXIT_OK;
    while (code == EXIT_OK && (c = cli_option(argc, argv, ":c:", longs)) != -1)
        code = c == '?' ? EXIT_USAGE : take_option(c, o);
    if (code != EXIT_OK)
        return code;
    if (o->explain.within_ms < 0) /* what is asked for in words takes the time it takes */
        o->explain.within_ms = o->far ? 0 : EXPLAIN_WITHIN_MS;
    if (!o->path)
        return cli_usage(COMMAND, "-c FILE", "is missing");
    if (optind == argc)
        return cli_usage(COMMAND, "EVENT_ID", "is missing");
    if (optind + 1 < argc)
        return cli_usage(COMMAND, "", "one event id at a time, please: there are more arguments");
    o->id = argv[optind];
    if (!explain_id_ok(o->id))
        return cli_usage(COMMAND, "EVENT_ID", "must be 1 to 191 printable ASCII characters without spaces");
    return EXIT_OK;
}

static int say_away(const struct error *away) {
    cli_error(COMMAND, error_area_name(away->area), away->text, "what it would have said is left out");
    return cli_exit_code(away);
}

/* 0 is for answers; that nothing was found in a part of what there is is none. */
static int say_unsure(const struct explanation *x) {
    bool whole = x->usage.whole && x->dlt.whole, timed_out = !x->usage.to_end || !x->dlt.to_end;
    cli_error(COMMAND, "search", "what became of the event isn't in what was searched",
              whole       ? NULL
              : timed_out ? "--within gives it longer, --since another beginning"
                          : "--scan all looks at all that the topics keep, --since further back");
    return EXIT_NOT_DONE;
}

static int explain(const struct config *cfg, struct db *db, void *options) {
    struct options *o = options;
    (void)db;
    if (o->since && !read_since(o->since, &o->explain.since_ms))
        return cli_usage(COMMAND, "--since",
                         "must be a time as 2026-11-30T12:00, or so long ago as 90s, 15m, 24h, 7d");
    struct explanation x;
    struct error err = {0};
    int code = EXIT_OK;
    if (!explain_run(cfg, o->id, &o->explain, &x, &err)) {
        code = cli_failed(COMMAND, &err);
    } else {
        if (o->json)
            explain_print_json(&x);
        else
            explain_print(&x);
        fflush(stdout);
        if (x.redis.area != ERROR_NONE)
            code = say_away(&x.redis);
        if (x.verdict == EXPLAIN_UNDETERMINED && x.kafka.area == ERROR_NONE)
            code = say_unsure(&x);
        if (x.kafka.area != ERROR_NONE)
            code = say_away(&x.kafka);
    }
    explain_free(&x);
    return code;
}

int cli_explain(int argc, char **argv) {
    struct options o = {.explain = {.records = EXPLAIN_RECORDS, .since_ms = -1, .within_ms = -1}};
    int code = read_options(argc, argv, &o);
    if (code != EXIT_OK)
        return code;
    return cli_with_database(COMMAND, o.path, LOG_ERROR, explain, &o);
}
