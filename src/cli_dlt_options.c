/* SPDX-License-Identifier: MIT */
#include "cli_dlt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "period.h"

#define COMMAND "dlt"
#define ROWS_SHOWN 100
#define ROWS_MAX 100000

static bool read_number(const char **s, int64_t most, int64_t *out) {
    size_t len = strspn(*s, "0123456789");
    *out = strtoll(*s, NULL, 10);
    *s += len;
    return len && len < 19 && *out <= most;
}

static bool read_place(const char *s, int32_t *partition, int64_t *offset) {
    int64_t number;
    if (!read_number(&s, INT32_MAX, &number) || *s++ != ':')
        return false;
    *partition = (int32_t)number;
    return read_number(&s, INT64_MAX - 1, offset) && *s == '\0';
}

static bool read_offsets(const char *s, struct dlt_selection *sel) {
    if (!read_number(&s, INT64_MAX - 1, &sel->first))
        return false;
    sel->last = sel->first;
    return *s == '\0' || (*s++ == '-' && read_number(&s, INT64_MAX - 1, &sel->last) && *s == '\0' &&
                          sel->last >= sel->first);
}

static bool read_partition(const char *s, struct dlt_selection *sel) {
    int64_t number;
    bool ok = read_number(&s, INT32_MAX, &number) && *s == '\0';
    sel->partition = (int32_t)number;
    return ok;
}

static bool is_code(const char *text) {
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    return len && len <= DLT_CODE_MAX && !text[len];
}

/* As Kafka has them. */
static bool is_topic(const char *text) {
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return len && len <= DLT_TOPIC_MAX && !text[len] && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

/* A day alone is its beginning. In the zone, which is known only once the configuration is read. */
static bool read_time(const char *text, int64_t *out) {
    char whole[40];
    snprintf(whole, sizeof whole, "%s%s", text, strlen(text) == 10 ? "T00:00" : "");
    return strlen(text) < 36 && period_parse(whole, strlen(whole), out);
}

static int take_option(struct cli_dlt_options *o, int c) {
    const char *limit = optarg;
    if (c == 'c')
        o->path = optarg;
    else if (c == 'C' && !is_code(o->sel.code = optarg))
        return cli_usage(COMMAND, "--code", "must be a code such as UNKNOWN_FAMILY");
    else if (c == 'S')
        o->since = optarg;
    else if (c == 'U')
        o->until = optarg;
    else if (c == 'T' && !is_topic(o->topic = optarg))
        return cli_usage(COMMAND, "--topic", "must be a topic's name");
    else if (c == 'p' && !read_partition(optarg, &o->sel))
        return cli_usage(COMMAND, "--partition", "must be a partition's number");
    else if (c == 'o' && !read_offsets(optarg, &o->sel))
        return cli_usage(COMMAND, "--offset", "must be an offset, or the first and the last as A-B");
    else if (c == 'l' && (!read_number(&limit, ROWS_MAX, &o->limit) || *limit))
        return cli_usage(COMMAND, "--limit", "must be a whole number, 0 … 100000");
    else if (c == 'f' && !read_place(optarg, &o->sel.from_partition, &o->sel.from_offset))
        return cli_usage(COMMAND, "--from", "must be PARTITION:OFFSET");
    o->selects = o->selects || strchr("CSUpo", c);
    o->limited = o->limited || c == 'l';
    o->from = o->from || c == 'f';
    o->json = o->json || c == 'j';
    o->raw = o->raw || c == 'r';
    o->yes = o->yes || c == 'y';
    return c == '?' ? EXIT_USAGE : EXIT_OK;
}

static int check_verb(struct cli_dlt_options *o, int rest) {
    bool redrives = strcmp(o->verb, "redrive") == 0, lists = strcmp(o->verb, "list") == 0;
    if (strcmp(o->verb, "show") == 0) {
        if (rest != 1 || !o->place || !read_place(o->place, &o->sel.partition, &o->sel.first))
            return cli_usage(COMMAND, "show", "takes one PARTITION:OFFSET");
        if (o->selects || o->limited || o->from || o->yes || o->topic || (o->raw && o->json))
            return cli_usage(COMMAND, "show", "takes either --raw or --json, and no other option");
        o->sel.last = o->sel.first;
        return EXIT_OK;
    }
    if (!redrives && !lists)
        return cli_usage(COMMAND, cli_shown(o->verb, "the verb"), "must be list, show or redrive");
    if (rest)
        return cli_usage(COMMAND, cli_shown(o->place, "an argument"), "isn't an option");
    if (o->raw || (lists && (o->yes || o->topic || o->from)))
        return cli_usage(COMMAND, o->verb,
                         lists ? "takes no --raw, --yes, --from or --topic" : "takes no --raw");
    if (o->yes && o->limited) /* must not pass for so many that are sent */
        return cli_usage(COMMAND, "--limit", "goes with no --yes, which sends all that are chosen");
    if (o->sel.last != INT64_MAX && o->sel.partition < 0)
        return cli_usage(COMMAND, "--offset", "needs --partition");
    return EXIT_OK;
}

int cli_dlt_read_options(int argc, char **argv, struct cli_dlt_options *o) {
    *o = (struct cli_dlt_options){.verb = "", .sel = dlt_selection_all(), .limit = ROWS_SHOWN};
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"code", required_argument, NULL, 'C'},
                                          {"since", required_argument, NULL, 'S'},
                                          {"until", required_argument, NULL, 'U'},
                                          {"partition", required_argument, NULL, 'p'},
                                          {"offset", required_argument, NULL, 'o'},
                                          {"limit", required_argument, NULL, 'l'},
                                          {"raw", no_argument, NULL, 'r'},
                                          {"yes", no_argument, NULL, 'y'},
                                          {"from", required_argument, NULL, 'f'},
                                          {"topic", required_argument, NULL, 'T'},
                                          {0}};
    int c, code = EXIT_OK;
    while (code == EXIT_OK && (c = cli_option(argc, argv, ":c:", longs)) != -1)
        code = take_option(o, c);
    if (code != EXIT_OK)
        return code;
    if (!o->path)
        return cli_usage(COMMAND, "-c FILE", "is missing");
    if (optind == argc)
        return cli_usage(COMMAND, "list, show or redrive", "is missing");
    o->verb = argv[optind];
    o->place = optind + 1 < argc ? argv[optind + 1] : NULL;
    return check_verb(o, argc - optind - 1);
}

int cli_dlt_read_times(struct cli_dlt_options *o) {
    static const char must[] = "must be a time such as 2026-11-30T12:00 or 2026-11-30";
    if (o->since && !read_time(o->since, &o->sel.since_ms))
        return cli_usage(COMMAND, "--since", must);
    if (o->until && !read_time(o->until, &o->sel.until_ms))
        return cli_usage(COMMAND, "--until", must);
    return EXIT_OK;
}
