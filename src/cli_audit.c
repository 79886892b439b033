/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "cli.h"
#include "log.h"
#include "mysql_db.h"
#include "table.h"
#include "utf8.h"

#define COMMAND "audit"

struct options {
    const char *path;
    bool json;
    struct audit_options audit;
};

/* A broken promise is the worst there is; then that something couldn't be asked; drift costs little and
 * heals. */
static int exit_code(const struct audit_report *r) {
    const struct audit_finding *cache = &r->findings[AUDIT_CACHE];
    if (audit_first_broken(r))
        return EXIT_BROKEN;
    if (r->kafka.area != ERROR_NONE)
        return cli_exit_code(&r->kafka);
    if (r->redis.area != ERROR_NONE)
        return cli_exit_code(&r->redis);
    return cache->broken > r->dropped ? EXIT_DRIFT : EXIT_OK;
}

/* ---- for people ---- */

static void print_named(const struct audit_finding *f, int64_t all) {
    for (size_t i = 0; i < f->named_count; i++) {
        printf("         ");
        utf8_print(stdout, f->named[i]);
        putchar('\n');
    }
    if (f->named_count && all > (int64_t)f->named_count)
        printf("         and %" PRId64 " more\n", all - (int64_t)f->named_count);
}

static void print_finding(enum audit_kind kind, const struct audit_finding *f) {
    static const char *const words[] = {"ok", "FAIL", "warn", "warn", "--"};
    const struct audit_about *about = audit_about(kind);
    enum audit_status status = audit_status(kind, f);
    printf("%-4s  %d  %-18s  %" PRId64 " %s", words[status], about->promise, about->name, f->looked,
           about->what);
    if (f->broken)
        printf(", %" PRId64 " %s", f->broken, kind == AUDIT_CACHE ? "drifted" : "BROKEN");
    if (f->noted)
        printf(", %" PRId64 " to look at", f->noted);
    if (*f->detail)
        printf("; ");
    utf8_print(stdout, f->detail);
    if (f->open) {
        printf("; %" PRId64 " can't be judged: ", f->open);
        utf8_print(stdout, f->why);
    }
    putchar('\n');
    print_named(f, f->broken ? f->broken : f->noted ? f->noted : f->open);
}

static void print_table(const struct audit_report *r) {
    for (int k = 0; k < AUDIT_KINDS; k++) {
        if (r->findings[k].asked)
            print_finding((enum audit_kind)k, &r->findings[k]);
    }
    if (r->dropped)
        printf("\n%" PRId64 " of %" PRId64
               " drifted entries dropped; they are read from MySQL when next needed\n",
               r->dropped, r->findings[AUDIT_CACHE].broken);
}

/* ---- for machines ---- */

static json_t *error_json(const struct error *err) {
    return err->area == ERROR_NONE ? json_null() : json_string(err->text);
}

static json_t *finding_json(enum audit_kind kind, const struct audit_finding *f) {
    const struct audit_about *about = audit_about(kind);
    json_t *o = json_object(), *named = json_array();
    for (size_t i = 0; i < f->named_count; i++)
        json_array_append_new(named, json_string(f->named[i]));
    json_object_set_new(o, "promise", json_integer(about->promise));
    json_object_set_new(o, "check", json_string(about->name));
    json_object_set_new(o, "status", json_string(audit_status_name(audit_status(kind, f))));
    json_object_set_new(o, "of", json_string(about->what));
    json_object_set_new(o, "looked", json_integer(f->looked));
    json_object_set_new(o, "broken", json_integer(f->broken));
    json_object_set_new(o, "noted", json_integer(f->noted));
    json_object_set_new(o, "open", json_integer(f->open));
    json_object_set_new(o, "why", f->open ? json_string(f->why) : json_null());
    json_object_set_new(o, "detail", *f->detail ? json_string(f->detail) : json_null());
    json_object_set_new(o, "named", named);
    return o;
}

static void print_json(const struct audit_report *r, int64_t family) {
    json_t *whole = json_object(), *checks = json_array();
    for (int k = 0; k < AUDIT_KINDS; k++) {
        if (r->findings[k].asked)
            json_array_append_new(checks, finding_json((enum audit_kind)k, &r->findings[k]));
    }
    json_object_set_new(whole, "ok", json_boolean(exit_code(r) == EXIT_OK));
    json_object_set_new(whole, "exitCode", json_integer(exit_code(r)));
    json_object_set_new(whole, "family", family ? json_integer(family) : json_null());
    json_object_set_new(whole, "inFlight", r->in_flight < 0 ? json_null() : json_integer(r->in_flight));
    json_object_set_new(whole, "dropped", json_integer(r->dropped));
    json_object_set_new(whole, "kafka", error_json(&r->kafka));
    json_object_set_new(whole, "redis", error_json(&r->redis));
    json_object_set_new(whole, "checks", checks);
    table_print_json(whole, stdout);
}

/* ---- the command ---- */

/* Standard error names the first that is broken, or what didn't answer; the table has all. */
static void say_verdict(const struct audit_report *r) {
    const struct error *away = r->kafka.area != ERROR_NONE ? &r->kafka : &r->redis;
    char what[40];
    for (int k = 0; k < AUDIT_KINDS; k++) {
        const struct audit_finding *f = &r->findings[k];
        if (audit_status((enum audit_kind)k, f) != AUDIT_BROKEN)
            continue;
        snprintf(what, sizeof what, "promise %d", audit_about((enum audit_kind)k)->promise);
        cli_error(COMMAND, what, f->named_count ? f->named[0] : audit_about((enum audit_kind)k)->name, NULL);
        return;
    }
    if (away->area != ERROR_NONE)
        cli_error(COMMAND, error_area_name(away->area), away->text, "what needs it is left open");
    else if (exit_code(r) == EXIT_DRIFT)
        cli_error(COMMAND, "redis", r->findings[AUDIT_CACHE].named[0], "--fix-cache has them warmed anew");
}

static int read_options(int argc, char **argv, struct options *o) {
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"family", required_argument, NULL, 'f'},
                                          {"fix-cache", no_argument, NULL, 'x'},
                                          {0}};
    int c;
    while ((c = cli_option(argc, argv, ":c:", longs)) != -1) {
        if (c == '?')
            return EXIT_USAGE;
        if (c == 'c')
            o->path = optarg;
        else if (c == 'j')
            o->json = true;
        else if (c == 'x')
            o->audit.fix_cache = true;
        else if (!cli_family(optarg, &o->audit.family))
            return cli_usage(COMMAND, "--family", "must be a family's number, 1 … 9007199254740991");
    }
    if (optind < argc)
        return cli_usage(COMMAND, argv[optind], "is one argument too many");
    return o->path ? EXIT_OK : cli_usage(COMMAND, "-c FILE", "is missing");
}

static int audit(const struct config *cfg, struct db *db, void *options) {
    const struct options *o = options;
    (void)db;
    struct audit_report r;
    struct error err = {0};
    int code = EXIT_OK;
    if (!audit_run(cfg, &o->audit, &r, &err)) {
        code = cli_failed(COMMAND, &err);
    } else if (!r.known) {
        cli_error(COMMAND, "--family", "MySQL has no such family", "look at the number");
        code = EXIT_USAGE;
    } else {
        code = exit_code(&r);
        if (o->json)
            print_json(&r, o->audit.family);
        else
            print_table(&r);
        fflush(stdout);
        say_verdict(&r);
    }
    audit_report_free(&r);
    return code;
}

int cli_audit(int argc, char **argv) {
    struct options o = {0};
    int code = read_options(argc, argv, &o);
    if (code != EXIT_OK)
        return code;
    return cli_with_database(COMMAND, o.path, LOG_ERROR, audit, &o);
}
