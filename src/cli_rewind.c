/* SPDX-License-Identifier: MIT */
/* `tallyd rewind`: shows where the group would start and where it's to, and what that means; then does it. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "kafka.h"
#include "log.h"
#include "mysql_db.h"
#include "period.h"
#include "rewind.h"
#include "table.h"

#define COMMAND "rewind"
#define DESTROY_MS 2000
#define LIMIT_DEFAULT 1000000
#define LIMIT_MAX 10000000 /* an id that nobody knows takes up to 32 bytes */
#define NAMED_MEMBERS 3
#define ALWAYS_SHOWN 3 /* of what records would be: known or new */

struct options {
    const char *path, *to;
    struct rewind_target target;
    int64_t limit;
    bool dry_run, yes, json;
    struct cli_partitions partitions;
};

/* What became of it, for the answer. */
struct result {
    bool applied, looked;
    struct rewind_look look;
};

/* ---- for people ---- */

static const char *direction(const struct rewind_part *p) {
    return p->to < p->from ? "back" : p->to > p->from ? "ahead" : "stays";
}

static void print_plan(const struct rewind *r) {
    struct table *t = table_new("partition>", "log start>", "log end>", "committed>", "settled to>", "from>",
                                "to>", "", "run again>", "skipped>", NULL);
    for (size_t i = 0; i < r->count; i++) {
        const struct rewind_part *p = &r->parts[i];
        table_i64(t, p->id);
        table_i64(t, p->low);
        table_i64(t, p->high);
        table_i64_if(t, p->committed >= 0, p->committed);
        table_i64_if(t, p->settled_to >= 0, p->settled_to);
        table_i64(t, p->from);
        table_i64(t, p->to);
        table_text(t, direction(p));
        table_i64(t, p->again);
        table_i64(t, p->skipped);
    }
    table_text(t, "total");
    for (int i = 0; i < 7; i++)
        table_text(t, "");
    table_i64(t, r->again);
    table_i64(t, r->skipped);
    table_print(t, stdout);
    table_free(t);
}

static void print_found(const char *heading, const struct rewind_found *f) {
    const struct {
        int64_t n;
        const char *what;
    } lines[] = {{f->settled, "known, settled"},
                 {f->blocked, "known, blocked"},
                 {f->fresh, "new: to be decided (an unknown family or customer is seen only then)"},
                 {f->repeated, "the same new ids once more: duplicates"},
                 {f->ignored, "of another type: ignored"}};
    if (f->records == 0)
        return;
    struct table *t = table_new("records>", heading, NULL);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (lines[i].n == 0 && i >= ALWAYS_SHOWN)
            continue;
        table_i64(t, lines[i].n);
        table_text(t, lines[i].what);
    }
    for (int code = 0; code < REWIND_CODES; code++) {
        if (f->rejected[code] == 0)
            continue;
        table_i64(t, f->rejected[code]);
        table_format(t, "rejected: %s", reject_code_name((enum reject_code)code));
    }
    table_i64(t, f->records);
    char first[PERIOD_LOCAL_SIZE], last[PERIOD_LOCAL_SIZE];
    period_format_local(f->first_ms, first);
    period_format_local(f->last_ms, last);
    table_format(t, "in all, of %s … %s", first, last);
    putchar('\n');
    table_print(t, stdout);
    table_free(t);
}

static bool moves(const struct rewind *r) {
    for (size_t i = 0; i < r->count; i++) {
        if (r->parts[i].to != r->parts[i].from)
            return true;
    }
    return false;
}

static void print_answer(const struct options *o, const struct rewind *r, const struct result *res) {
    print_plan(r);
    if (res->looked) {
        print_found("run again they would be", &res->look.again);
        print_found("of those between, on partitions that go ahead", &res->look.ahead);
        if (res->look.cut)
            printf("\nonly the first %" PRId64 " records were read: more with --limit\n", o->limit);
    }
    if (o->dry_run)
        printf("\nnothing is changed\n%s",
               r->group.active ? "the group has members: they must be stopped before it's done\n" : "");
    else if (res->applied)
        printf("\n%s: the next `tallyd run` starts there\n", moves(r) ? "done" : "nothing to do");
}

/* ---- for machines ---- */

static json_t *found_json(const struct rewind_found *f) {
    json_t *o = json_object(), *codes = json_object();
    for (int code = 0; code < REWIND_CODES; code++) {
        if (f->rejected[code])
            json_object_set_new(codes, reject_code_name((enum reject_code)code),
                                json_integer(f->rejected[code]));
    }
    json_object_set_new(o, "records", json_integer(f->records));
    json_object_set_new(o, "settled", json_integer(f->settled));
    json_object_set_new(o, "blocked", json_integer(f->blocked));
    json_object_set_new(o, "new", json_integer(f->fresh));
    json_object_set_new(o, "repeated", json_integer(f->repeated));
    json_object_set_new(o, "ignored", json_integer(f->ignored));
    json_object_set_new(o, "rejected", codes);
    json_object_set_new(o, "first", cli_time_json(f->first_ms));
    json_object_set_new(o, "last", cli_time_json(f->last_ms));
    return o;
}

static json_t *part_json(const struct rewind_part *p) {
    json_t *o = json_object();
    json_object_set_new(o, "partition", json_integer(p->id));
    json_object_set_new(o, "logStart", json_integer(p->low));
    json_object_set_new(o, "logEnd", json_integer(p->high));
    json_object_set_new(o, "committed", p->committed < 0 ? json_null() : json_integer(p->committed));
    json_object_set_new(o, "settledTo", p->settled_to < 0 ? json_null() : json_integer(p->settled_to));
    json_object_set_new(o, "from", json_integer(p->from));
    json_object_set_new(o, "to", json_integer(p->to));
    json_object_set_new(o, "direction", json_string(direction(p)));
    json_object_set_new(o, "again", json_integer(p->again));
    json_object_set_new(o, "skipped", json_integer(p->skipped));
    return o;
}

static void print_json(const struct options *o, const struct config *cfg, const struct rewind *r,
                       const struct result *res) {
    json_t *whole = json_object(), *list = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(list, part_json(&r->parts[i]));
    json_object_set_new(whole, "group", json_string(cfg->kafka.group_id));
    json_object_set_new(whole, "topic", json_string(cfg->kafka.usage_topic));
    json_object_set_new(whole, "to", json_string(o->to));
    json_object_set_new(whole, "dryRun", json_boolean(o->dry_run));
    json_object_set_new(whole, "applied", json_boolean(res->applied));
    json_object_set_new(whole, "groupActive", json_boolean(r->group.active));
    json_object_set_new(whole, "again", json_integer(r->again));
    json_object_set_new(whole, "skipped", json_integer(r->skipped));
    json_object_set_new(whole, "partitions", list);
    json_object_set_new(whole, "runAgain", res->looked ? found_json(&res->look.again) : json_null());
    json_object_set_new(whole, "passedOver", res->looked ? found_json(&res->look.ahead) : json_null());
    json_object_set_new(whole, "cut", json_boolean(res->look.cut));
    table_print_json(whole, stdout);
}

/* ---- refusing ---- */

static int refused(enum rewind_refusal refusal, const struct error *err) {
    switch (refusal) {
    case REWIND_NO_PARTITION:
        cli_error(COMMAND, "--partition", err->text, "nothing is changed; `tallyd lag` lists them");
        return EXIT_USAGE;
    case REWIND_OUT_OF_RANGE:
        cli_error(COMMAND, "--to", err->text, "nothing is changed; earliest and latest are its ends");
        return EXIT_USAGE;
    case REWIND_OTHER_LOG:
        cli_error(COMMAND, "kafka", err->text,
                  "nothing is changed; look at kafka.brokers, and at kafka.accept_recreated_topic");
        return EXIT_KAFKA;
    default:
        return cli_failed(COMMAND, err);
    }
}

/* A member's name may hold whatever its owner wanted: it's shown as a terminal may have it. */
static void append_plain(char *out, size_t size, const char *text) {
    size_t len = strlen(out);
    for (; *text && len + 1 < size; text++)
        out[len++] = *text > ' ' && *text < 0x7f ? *text : '?';
    out[len] = '\0';
}

static int refuse_active(const struct config *cfg, const struct rewind *r) {
    const struct group *g = &r->group;
    char why[400] = "the group ";
    append_plain(why, 200, cfg->kafka.group_id);
    size_t len = strlen(why);
    snprintf(why + len, sizeof why - len, " is in use (%s)", g->state);
    for (size_t i = 0; i < g->member_count && i < NAMED_MEMBERS; i++) {
        len = strlen(why);
        snprintf(why + len, sizeof why - len, "%s", i ? ", " : ", by ");
        append_plain(why, sizeof why, g->members[i].client_id);
        append_plain(why, sizeof why, g->members[i].host); /* begins with a slash */
    }
    len = strlen(why);
    if (g->member_count > NAMED_MEMBERS)
        snprintf(why + len, sizeof why - len, " and %zu more", g->member_count - NAMED_MEMBERS);
    cli_error(COMMAND, "group", why, "stop them; a killed one counts until kafka.session_timeout_ms is over");
    return EXIT_KAFKA;
}

static int refuse_skip(const struct rewind *r) {
    char why[160];
    snprintf(why, sizeof why, "%" PRId64 " offsets that were never settled would be skipped", r->skipped);
    cli_error(COMMAND, "--to", why, "nothing is changed; --dry-run says what they hold, --yes skips them");
    return EXIT_USAGE;
}

/* ---- the command ---- */

static void show_progress(int64_t done, int64_t all) {
    fprintf(stderr, "\rread %" PRId64 " of %" PRId64 " ", done, all);
}

static int look(const struct options *o, const struct config *cfg, struct db *db, const struct rewind *r,
                struct result *res) {
    struct error err = {0};
    bool tty = isatty(STDERR_FILENO) == 1;
    bool ok = rewind_look(db, cfg, r, o->limit, tty ? show_progress : NULL, &res->look, &err);
    if (tty)
        fputs("\r\033[K", stderr);
    res->looked = ok;
    return ok ? EXIT_OK : cli_failed(COMMAND, &err);
}

static int apply(rd_kafka_t *rk, const struct config *cfg, struct db *db, const struct rewind *r,
                 struct result *res) {
    struct error err = {0};
    bool moved = false;
    res->applied = rewind_apply(rk, db, cfg, r, &moved, &err);
    if (res->applied)
        return EXIT_OK;
    if (!moved)
        return cli_failed(COMMAND, &err);
    cli_error(COMMAND, error_area_name(err.area), err.text,
              "the group's offsets have moved, the ledger hasn't: nothing is skipped; run it again");
    return cli_exit_code(&err);
}

static int work(const struct options *o, const struct config *cfg, struct db *db, rd_kafka_t *rk) {
    struct error err = {0};
    struct rewind r;
    struct result res = {0};
    enum rewind_refusal refusal =
        rewind_plan(rk, db, cfg, &o->target, o->partitions.ids, o->partitions.count, &r, &err);
    int code = EXIT_OK;
    if (refusal != REWIND_PLANNED)
        code = refused(refusal, &err);
    else if (o->dry_run)
        code = look(o, cfg, db, &r, &res);
    else if (r.group.active)
        code = refuse_active(cfg, &r);
    else if (r.skipped && !o->yes)
        code = refuse_skip(&r);
    else
        code = apply(rk, cfg, db, &r, &res);
    if (code == EXIT_OK && o->json)
        print_json(o, cfg, &r, &res);
    else if (code == EXIT_OK)
        print_answer(o, &r, &res);
    rewind_free(&r);
    return code;
}

static bool read_limit(const char *text, int64_t *limit) {
    size_t digits = strspn(text, "0123456789");
    *limit = strtoll(text, NULL, 10);
    return digits && digits <= 8 && !text[digits] && *limit >= 1 && *limit <= LIMIT_MAX;
}

static int read_option(int c, struct options *o) {
    if (c == 'c')
        o->path = optarg;
    else if (c == 't')
        o->to = optarg;
    else if (c == 'n')
        o->dry_run = true;
    else if (c == 'y')
        o->yes = true;
    else if (c == 'j')
        o->json = true;
    else if (c == 'l' && !read_limit(optarg, &o->limit))
        return cli_usage(COMMAND, "--limit", "must be 1 … 10000000");
    else if (c == 'p' && !cli_partitions_add(&o->partitions, optarg))
        return cli_usage(COMMAND, "--partition", "must be partitions' numbers, as in 0,3");
    return EXIT_OK;
}

static int read_options(int argc, char **argv, struct options *o) {
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"to", required_argument, NULL, 't'},
                                          {"partition", required_argument, NULL, 'p'},
                                          {"dry-run", no_argument, NULL, 'n'},
                                          {"limit", required_argument, NULL, 'l'},
                                          {"yes", no_argument, NULL, 'y'},
                                          {"json", no_argument, NULL, 'j'},
                                          {0}};
    int c, code = EXIT_OK;
    while (code == EXIT_OK && (c = cli_option(argc, argv, ":c:t:p:", longs)) != -1)
        code = c == '?' ? EXIT_USAGE : read_option(c, o);
    if (code != EXIT_OK)
        return code;
    if (optind < argc)
        return cli_usage(COMMAND, argv[optind], "is one argument too many");
    if (!o->to)
        return cli_usage(COMMAND, "--to WHERE", "is missing");
    return o->path ? EXIT_OK : cli_usage(COMMAND, "-c FILE", "is missing");
}

/* A time without an offset is in the zone, which the configuration says. */
static int read_target(struct options *o) {
    if (rewind_target_parse(o->to, (int64_t)time(NULL) * 1000, &o->target))
        return EXIT_OK;
    return cli_usage(COMMAND, "--to",
                     "must be an offset, a time (2026-11-30T12:00+09:00), -24h, earliest or latest");
}

static int run(struct options *o, const struct config *cfg) {
    struct error err = {0};
    struct db *db = db_new(cfg, DB_READ_COMMITTED);
    int code = cli_migrated(COMMAND, db);
    rd_kafka_t *rk = code == EXIT_OK ? kafka_observer_new(cfg, &err) : NULL;
    if (rk)
        code = work(o, cfg, db, rk);
    else if (code == EXIT_OK)
        code = cli_failed(COMMAND, &err);
    if (rk)
        kafka_destroy(rk, DESTROY_MS);
    db_free(db);
    return code;
}

int cli_rewind(int argc, char **argv) {
    struct options o = {.limit = LIMIT_DEFAULT};
    int code = read_options(argc, argv, &o);
    struct config *cfg = NULL;
    if (code == EXIT_OK) {
        log_init(2, LOG_ERROR);
        cfg = cli_config(COMMAND, o.path);
        code = cfg ? read_target(&o) : EXIT_CONFIG;
    }
    if (code == EXIT_OK)
        code = run(&o, cfg);
    config_free(cfg);
    free(o.partitions.ids);
    return code;
}
