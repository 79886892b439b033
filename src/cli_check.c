/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "cli.h"
#include "log.h"
#include "period.h"
#include "table.h"
#include "utf8.h"

#define COMMAND "check"

struct options {
    const char *path;
    bool json, print;
};

static int exit_code(const struct check_report *r) {
    static const int codes[] = {EXIT_CONFIG, EXIT_KAFKA, EXIT_REDIS, EXIT_MYSQL, EXIT_SCHEMA};
    const struct check_item *failed = check_first_failure(r);
    return failed ? codes[failed->area] : EXIT_OK;
}

/* ---- what it found ---- */

static void print_line(const struct check_item *i, void *ctx) {
    static const char *const words[] = {"ok", "warn", "FAIL", "--"};
    (void)ctx;
    printf("%-4s  %-6s  %-18s  ", words[i->status], check_area_name(i->area), i->name);
    utf8_print(stdout, i->text);
    printf("%s%s%s\n", i->hint ? " (" : "", i->hint ? i->hint : "", i->hint ? ")" : "");
    fflush(stdout);
}

static void print_json(const struct check_report *r) {
    json_t *items = json_array(), *whole = json_object();
    for (size_t n = 0; n < r->count; n++) {
        const struct check_item *i = &r->items[n];
        json_t *o = json_object();
        json_object_set_new(o, "area", json_string(check_area_name(i->area)));
        json_object_set_new(o, "check", json_string(i->name));
        json_object_set_new(o, "status", json_string(check_status_name(i->status)));
        json_object_set_new(o, "text", json_string(i->text));
        json_object_set_new(o, "hint", i->hint ? json_string(i->hint) : json_null());
        json_object_set_new(o, "figures", i->figures ? json_incref(i->figures) : json_object());
        json_array_append_new(items, o);
    }
    json_object_set_new(whole, "ok", json_boolean(exit_code(r) == EXIT_OK));
    json_object_set_new(whole, "exitCode", json_integer(exit_code(r)));
    json_object_set_new(whole, "checks", items);
    table_print_json(whole, stdout);
}

/* Standard error and exit code name the first; the others stand among the lines. */
static int verdict(const struct check_report *r, bool json) {
    const struct check_item *failed = check_first_failure(r);
    if (json)
        print_json(r);
    if (failed && failed->area == CHECK_CONFIG) {
        cli_error(COMMAND, "configuration", failed->text, failed->hint); /* as every command says it */
    } else if (failed) {
        char why[1200];
        snprintf(why, sizeof why, "%s: %s", failed->name, failed->text);
        cli_error(COMMAND, failed->area == CHECK_SCHEMA ? "schema" : check_area_name(failed->area), why,
                  failed->hint);
    }
    return exit_code(r);
}

/* ---- the command ---- */

static int read_options(int argc, char **argv, struct options *o) {
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"print", no_argument, NULL, 'p'},
                                          {0}};
    int c;
    while ((c = cli_option(argc, argv, ":c:", longs)) != -1) {
        if (c == '?')
            return EXIT_USAGE;
        if (c == 'c')
            o->path = optarg;
        else
            *(c == 'j' ? &o->json : &o->print) = true;
    }
    if (optind < argc)
        return cli_usage(COMMAND, argv[optind], "is one argument too many");
    if (o->json && o->print)
        return cli_usage(COMMAND, "--json", "and --print don't go together");
    return o->path ? EXIT_OK : cli_usage(COMMAND, "-c FILE", "is missing");
}

static int print_config(const struct config *cfg) {
    struct buf yaml = {0};
    config_print(cfg, &yaml);
    fputs(buf_cstr(&yaml), stdout);
    buf_free(&yaml);
    return EXIT_OK;
}

int cli_check(int argc, char **argv) {
    struct options o = {0};
    struct error err = {0};
    int code = read_options(argc, argv, &o);
    if (code != EXIT_OK)
        return code;
    struct check_report r = {.each = o.json || o.print ? NULL : print_line};
    log_init(STDERR_FILENO, LOG_ERROR); /* the lines say what came of it */
    struct config *cfg = config_load(o.path, &err);
    if (!cfg || !period_zone_init(cfg->zone, &err)) {
        check_add_error(&r, CHECK_CONFIG, "file", &err, NULL);
        code = verdict(&r, o.json);
    } else if (o.print) {
        code = print_config(cfg);
    } else {
        check_add(&r, (struct check_item){.area = CHECK_CONFIG, .name = "file"}, "%s: %lld worker%s, zone %s",
                  o.path, (long long)cfg->workers, cfg->workers == 1 ? "" : "s", cfg->zone);
        check_all(cfg, &r);
        code = verdict(&r, o.json);
    }
    check_report_free(&r);
    config_free(cfg);
    return code;
}
