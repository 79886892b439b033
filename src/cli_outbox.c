/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "cli_outbox_internal.h"
#include "explain.h"
#include "log.h"
#include "outbox_admin.h"
#include "plain_text.h"

#define LIMIT_MAX 100000

static bool is_number(const char *text, int64_t most, int64_t *out) {
    size_t len = strlen(text);
    *out = strtoll(text, NULL, 10);
    return len && len < 19 && strspn(text, "0123456789") == len && *out >= 1 && *out <= most;
}

static bool is_status(const char *text) {
    static const char *const words[] = {"pending", "failed", "sent", "all"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

static int read_option(struct outbox_options *o, int c) {
    const char *fault;
    if (c == 'c')
        o->path = optarg;
    else if (c == 's' && !is_status(o->status = optarg))
        return cli_usage(COMMAND, "--status", "must be pending, failed, sent or all");
    else if (c == 'f' && !cli_family(optarg, &o->family))
        return cli_usage(COMMAND, "--family", "must be a family's number, 1 … 9007199254740991");
    else if (c == 'l' && !is_number(optarg, LIMIT_MAX, &o->limit))
        return cli_usage(COMMAND, "--limit", "must be a whole number, 1 … 100000");
    else if (c == 'r' && (fault = plain_text_fault(o->reason = optarg, OUTBOX_ADMIN_REASON_MAX)))
        return cli_usage(COMMAND, "--reason", fault);
    o->json = o->json || c == 'j';
    o->all_failed = o->all_failed || c == 'a';
    o->dry_run = o->dry_run || c == 'd';
    o->force = o->force || c == 'F';
    return c == '?' ? EXIT_USAGE : EXIT_OK;
}

static int read_options(int argc, char **argv, struct outbox_options *o) {
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'}, {"json", no_argument, NULL, 'j'},
        {"status", required_argument, NULL, 's'}, {"family", required_argument, NULL, 'f'},
        {"limit", required_argument, NULL, 'l'},  {"all-failed", no_argument, NULL, 'a'},
        {"dry-run", no_argument, NULL, 'd'},      {"reason", required_argument, NULL, 'r'},
        {"force", no_argument, NULL, 'F'},        {0}};
    int c, code = EXIT_OK;
    while (code == EXIT_OK && (c = cli_option(argc, argv, ":c:", longs)) != -1)
        code = read_option(o, c);
    if (code != EXIT_OK)
        return code;
    if (!o->path)
        return cli_usage(COMMAND, "-c FILE", "is missing");
    if (optind == argc)
        return cli_usage(COMMAND, "list, show, retry or skip", "is missing");
    o->verb = argv[optind];
    o->ids = argv + optind + 1;
    o->id_count = (size_t)(argc - optind - 1);
    return EXIT_OK;
}

static int check_ids(const struct outbox_options *o) {
    int64_t id;
    for (size_t i = 0; i < o->id_count; i++) {
        if (!is_number(o->ids[i], INT64_MAX, &id))
            return cli_usage(COMMAND, cli_shown(o->ids[i], "ID"),
                             "must be the number of a row, as list shows it");
    }
    return EXIT_OK;
}

/* An option that the verb doesn't know must not pass for one that was minded. */
static int check_list(const struct outbox_options *o) {
    if (o->id_count || o->all_failed || o->dry_run || o->reason || o->force)
        return cli_usage(COMMAND, "list", "takes --status, --family, --limit and --json only");
    return EXIT_OK;
}

static int check_show(const struct outbox_options *o) {
    if (o->id_count != 1 || o->status || o->family || o->limit || o->all_failed || o->dry_run || o->reason ||
        o->force)
        return cli_usage(COMMAND, "show", "takes one number or event id, and --json only");
    return explain_id_ok(o->ids[0]) ? EXIT_OK
                                    : cli_usage(COMMAND, "ID", "must be a row's number or an event's id");
}

static int check_retry(const struct outbox_options *o) {
    if (o->status || o->reason || o->force)
        return cli_usage(COMMAND, "retry",
                         "takes ID..., --all-failed, --family, --limit, --dry-run and --json only");
    if (o->all_failed == (o->id_count > 0))
        return cli_usage(COMMAND, "retry", "takes either ID... or --all-failed");
    if (!o->all_failed && (o->limit || o->family))
        return cli_usage(COMMAND, "retry", "takes --family and --limit with --all-failed only");
    return check_ids(o);
}

static int check_skip(const struct outbox_options *o) {
    if (o->status || o->family || o->limit || o->all_failed)
        return cli_usage(COMMAND, "skip", "takes ID..., --reason, --force, --dry-run and --json only");
    if (!o->id_count)
        return cli_usage(COMMAND, "ID", "is missing");
    return o->reason ? check_ids(o) : cli_usage(COMMAND, "--reason TEXT", "is missing");
}

static const struct verb {
    const char *name;
    int (*check)(const struct outbox_options *o);
    cli_work_fn *run;
} verbs[] = {
    {"list", check_list, cli_outbox_list},
    {"show", check_show, cli_outbox_show},
    {"retry", check_retry, cli_outbox_change},
    {"skip", check_skip, cli_outbox_change},
};

int cli_outbox(int argc, char **argv) {
    struct outbox_options o = {.verb = ""};
    int code = read_options(argc, argv, &o);
    if (code != EXIT_OK)
        return code;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, o.verb) != 0)
            continue;
        code = verbs[i].check(&o);
        return code == EXIT_OK ? cli_with_database(COMMAND, o.path, LOG_INFO, verbs[i].run, &o) : code;
    }
    return cli_usage(COMMAND, cli_shown(o.verb, "the verb"), "must be list, show, retry or skip");
}
