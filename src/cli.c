/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buf.h"
#include "event.h"
#include "kafka.h"
#include "migrate.h"
#include "period.h"
#include "plain_text.h"
#include "utf8.h"

#define SHOWN_MAX 100 /* bytes of an argument that a message repeats */

/* `why` may quote an argument, a file or a server. */
void cli_error(const char *command, const char *what, const char *why, const char *hint) {
    struct buf line = {0};
    buf_printf(&line, "tallyd %s: %s: %s%s%s%s", command, what, why, hint ? " (" : "", hint ? hint : "",
               hint ? ")" : "");
    utf8_print(stderr, buf_cstr(&line));
    fputc('\n', stderr);
    buf_free(&line);
}

int cli_usage(const char *command, const char *what, const char *must) {
    char why[256], hint[64];
    snprintf(why, sizeof why, "%s%s%s", what, *what ? " " : "", must);
    snprintf(hint, sizeof hint, "tallyd help %s", command);
    cli_error(command, "usage", why, hint);
    return EXIT_USAGE;
}

/* How the wrong option was written. A letter may stand behind others in one argument, where getopt isn't past
 * it yet; a long one is the argument it has just read. */
static const char *wrong_option(char **argv, bool value_missing, char letter[3]) {
    const char *last = argv[optind - 1];
    bool is_long = optopt == 0 || (strncmp(last, "--", 2) == 0 && (value_missing || strchr(last, '=')));
    if (is_long)
        return last;
    letter[0] = '-';
    letter[1] = (char)optopt;
    letter[2] = '\0';
    return letter;
}

int cli_option(int argc, char **argv, const char *shorts, const struct option *longs) {
    char letter[3];
    opterr = 0;
    int c = getopt_long(argc, argv, shorts, longs, NULL);
    if (c != ':' && c != '?')
        return c;
    cli_usage(argv[0], wrong_option(argv, c == ':', letter), c == ':' ? "needs a value" : "is no option");
    return '?';
}

const char *cli_shown(const char *argument, const char *name) {
    return plain_text_fault(argument, SHOWN_MAX) ? name : argument;
}

bool cli_family(const char *text, int64_t *out) {
    size_t digits = strspn(text, "0123456789");
    *out = strtoll(text, NULL, 10);
    return digits && digits <= 16 && !text[digits] && text[0] != '0' && *out <= EVENT_AMOUNT_MAX;
}

bool cli_partitions_has(const struct cli_partitions *list, int32_t id) {
    bool has = list->count == 0;
    for (size_t i = 0; i < list->count; i++)
        has = has || list->ids[i] == id;
    return has;
}

bool cli_partitions_add(struct cli_partitions *list, const char *text) {
    for (;;) {
        size_t digits = strspn(text, "0123456789");
        long long id = strtoll(text, NULL, 10);
        if (digits == 0 || digits > 9 || (text[digits] && text[digits] != ','))
            return false;
        if (list->count == 0 || !cli_partitions_has(list, (int32_t)id)) {
            list->ids = mem_realloc(list->ids, (list->count + 1) * sizeof *list->ids);
            list->ids[list->count++] = (int32_t)id;
        }
        if (!text[digits])
            return true;
        text += digits + 1;
    }
}

json_t *cli_time_json(int64_t ms) {
    char text[PERIOD_LOCAL_SIZE];
    if (ms < 0)
        return json_null();
    period_format_local(ms, text);
    return json_string(text);
}

json_t *cli_text_json(const char *text) {
    json_t *j = text ? json_string(text) : NULL;
    return j ? j : json_null();
}

int cli_exit_code(const struct error *err) {
    switch (err->area) {
    case ERROR_CONFIG:
        return EXIT_CONFIG;
    case ERROR_KAFKA:
        return EXIT_KAFKA;
    case ERROR_REDIS:
        return EXIT_REDIS;
    case ERROR_MYSQL:
        return migrate_error_is_unfit(err) ? EXIT_SCHEMA : EXIT_MYSQL;
    default:
        return EXIT_INTERNAL;
    }
}

int cli_failed(const char *command, const struct error *err) {
    cli_error(command, migrate_error_is_unfit(err) ? "schema" : error_area_name(err->area), err->text, NULL);
    return cli_exit_code(err);
}

int cli_migrated(const char *command, struct db *db) {
    struct error err = {0};
    size_t missing = 0;
    if (!migrate_missing(db, &missing, &err))
        return cli_failed(command, &err);
    if (missing == 0)
        return EXIT_OK;
    cli_error(command, "schema", "the database lacks migrations", "run `tallyd migrate -c FILE`");
    return EXIT_SCHEMA;
}

struct config *cli_config(const char *command, const char *path) {
    struct error err = {0};
    struct config *cfg = config_load(path, &err);
    if (cfg && period_zone_init(cfg->zone, &err) && kafka_properties_check(cfg, &err))
        return cfg;
    cli_error(command, "configuration", err.text, NULL);
    config_free(cfg);
    return NULL;
}

int cli_with_database(const char *command, const char *path, enum log_level lowest, cli_work_fn *work,
                      void *options) {
    log_init(STDERR_FILENO, lowest);
    struct config *cfg = cli_config(command, path);
    if (!cfg)
        return EXIT_CONFIG;
    struct db *db = db_new(cfg, DB_READ_COMMITTED);
    int code = cli_migrated(command, db);
    if (code == EXIT_OK)
        code = work(cfg, db, options);
    db_free(db);
    config_free(cfg);
    return code;
}
