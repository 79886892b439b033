/* SPDX-License-Identifier: MIT */
/* The commands. Each gets its own arguments (argv[0] is the command's name) and
 * returns the process's exit code. */
#ifndef TALLYD_CLI_H
#define TALLYD_CLI_H

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "mysql_db.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_INTERNAL = 1,
    EXIT_USAGE = 2,
    EXIT_CONFIG = 3,
    EXIT_KAFKA = 4,
    EXIT_REDIS = 5,
    EXIT_MYSQL = 6,
    EXIT_SCHEMA = 7,    /* the database isn't migrated, or is migrated to what this binary can't run on */
    EXIT_DEADLINE = 8,  /* the shutdown deadline passed; nothing is lost by it */
    EXIT_BROKEN = 9,    /* audit: a promise is broken */
    EXIT_DRIFT = 10,    /* audit: none is, but entries in Redis drifted: they cost a second try, and no sum */
    EXIT_NOT_DONE = 11, /* something that was asked for isn't there, or wasn't done; the output says what */
};

int cli_run(int argc, char **argv);
int cli_migrate(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_warm(int argc, char **argv);
int cli_audit(int argc, char **argv);
int cli_explain(int argc, char **argv);
int cli_show(int argc, char **argv);
int cli_simulate(int argc, char **argv);
int cli_lag(int argc, char **argv);
int cli_rewind(int argc, char **argv);
int cli_pause(int argc, char **argv);
int cli_resume(int argc, char **argv);
int cli_maintain(int argc, char **argv);
int cli_outbox(int argc, char **argv);
int cli_dlt(int argc, char **argv);

/* `tallyd COMMAND: what: why (what to do)` on standard error; `hint` may be NULL. */
void cli_error(const char *command, const char *what, const char *why, const char *hint);
/* `tallyd COMMAND: usage: WHAT must (tallyd help COMMAND)`; `what` may be "". Returns EXIT_USAGE. */
int cli_usage(const char *command, const char *what, const char *must);
/* The next option as by getopt_long, whose messages have another form: on a wrong
 * one cli_usage says so, and it returns '?'. `shorts` begins with ':'. */
int cli_option(int argc, char **argv, const char *shorts, const struct option *longs);
/* An argument as a message may repeat it: itself where it is plain text, otherwise what it is called. */
const char *cli_shown(const char *argument, const char *name);
/* A family's number as an argument: 1 … 2^53 - 1 in digits without a leading zero. */
bool cli_family(const char *text, int64_t *out);
/* Partitions as an argument, `0,3,5`, added to a list that the caller frees. */
struct cli_partitions {
    int32_t *ids;
    size_t count;
};
bool cli_partitions_add(struct cli_partitions *list, const char *text);
/* Whether the partition is meant: one of the list, or any where nothing was named. */
bool cli_partitions_has(const struct cli_partitions *list, int32_t id);
/* An instant as local time with its offset; null for a negative one, which is none. New. */
json_t *cli_time_json(int64_t ms);
/* Text as JSON; null where it's NULL or isn't UTF-8. New. */
json_t *cli_text_json(const char *text);
/* The exit code for an error. */
int cli_exit_code(const struct error *err);
/* Says an error as `tallyd COMMAND: area: text`; returns its exit code. */
int cli_failed(const char *command, const struct error *err);
/* Connects and sees that the database has all migrations. EXIT_OK, or an exit code after a message. */
int cli_migrated(const char *command, struct db *db);
/* Loads the configuration, sets the zone and the log level; NULL after a message. */
struct config *cli_config(const char *command, const char *path);

/* A command's work on its configuration and a connection; `options` are the command's own. Returns an exit
 * code. */
typedef int cli_work_fn(const struct config *cfg, struct db *db, void *options);
/* Loads the configuration at `path`, connects, sees that the database has all migrations, and does the work;
 * an exit code after a message where that can't be had. The log goes to standard error from `lowest` on. */
int cli_with_database(const char *command, const char *path, enum log_level lowest, cli_work_fn *work,
                      void *options);

/* A page for each command: usage, options, exit codes, an example. */
void cli_help_overview(void);
/* False when there is no page of that name. */
bool cli_help_page(const char *command);

#endif
