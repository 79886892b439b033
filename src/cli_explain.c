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
    struct explain_options explain;
};

/* A time as in an event, or so long ago: 90s, 15m, 24h, 7d. */
static bool read_since(const char *text, int64_t *since_ms) {
    static const char units[] = "smhd";
    static const int64_t seconds[] = {1, 60, 3600, 86400};
    size_t digits = strspn(text, "0123456789");
    const char *unit = digits && digits <= 6 && text[digits] ? strchr(units, text[digits]) : NULL;
    if (!unit || text[digits + 1])
        return period_parse(text, strlen(text), since_ms) && *since_ms >= 0;
    *since_ms = ((int64_t)time(NULL) - strtoll(text, NULL, 10) * seconds[unit - units]) * 1000;
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
    if (c == 'c')
        o->path = optarg;
    else if (c == 'j')
        o->json = true;
    else if (c == 's')
        o->since = optarg;
    else if (c == 'n' && !read_scan(optarg, &o->explain.records))
        return cli_usage(COMMAND, "--scan", "must be a number of records, or all");
    o->explain.patient = o->explain.patient || c == 's' || c == 'n';
    return EXIT_OK;
}

static int read_options(int argc, char **argv, struct options *o) {
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"since", required_argument, NULL, 's'},
                                          {"scan", required_argument, NULL, 'n'},
                                          {0}};
    int c, code = EXIT_OK;
    while (code == EXIT_OK && (c = cli_option(argc, argv, ":c:", longs)) != -1)
        code = c == '?' ? EXIT_USAGE : take_option(c, o);
    if (code != EXIT_OK)
        return code;
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

static int say_unfinished(const struct explanation *x) {
    cli_error(COMMAND, x->usage.to_end ? x->dlt.topic : x->usage.topic,
              "10 s were up before all of it was searched",
              "--scan N or --since TIME take the time they need");
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
        if (x.kafka.area == ERROR_NONE && x.verdict == EXPLAIN_UNDETERMINED)
            code = say_unfinished(&x);
        if (x.redis.area != ERROR_NONE)
            code = say_away(&x.redis);
        if (x.kafka.area != ERROR_NONE)
            code = say_away(&x.kafka);
    }
    explain_free(&x);
    return code;
}

int cli_explain(int argc, char **argv) {
    struct options o = {.explain = {.records = EXPLAIN_RECORDS, .since_ms = -1}};
    int code = read_options(argc, argv, &o);
    if (code != EXIT_OK)
        return code;
    return cli_with_database(COMMAND, o.path, LOG_ERROR, explain, &o);
}
