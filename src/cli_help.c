/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* A command's page. simulate prints its usage and options itself; here is the rest. */
struct page {
    const char *name, *usage, *what;
    const char *options; /* NULL: the command's own, by --help */
    const char *codes;   /* those of its own, in the order of their numbers */
    const char *example;
};

#define CONFIG_OPTION "  -c, --config FILE  the configuration; config/tallyd.yaml documents every key\n"
#define CODES_ALWAYS "  0  done\n  1  something unforeseen\n  2  wrong usage\n"
#define CODE_CONFIG "  3  the configuration is wrong\n"
#define CODE_KAFKA "  4  Kafka\n"
#define CODE_REDIS "  5  Redis\n"
#define CODE_MYSQL "  6  MySQL\n"
#define CODE_SCHEMA "  7  the database lacks migrations, or isn't one that this version can run on\n"

static const struct page pages[] = {
    {"run", "run -c FILE [--until-drained]",
     "consume, decide, settle and notify until told to stop, or until drained",
     CONFIG_OPTION
     "  --until-drained    end when every partition is settled up to the end that it had at the\n"
     "                     start, and every notification is sent\n"
     "\n"
     "SIGTERM or SIGINT ends it within shutdown.deadline_ms, a second one at once; nothing is\n"
     "lost by either. SIGHUP has it read log.level again, and say which other keys changed. Logs\n"
     "go to standard output, one JSON object a line; `tallyd help events` lists them.\n",
     CODES_ALWAYS CODE_CONFIG CODE_KAFKA CODE_REDIS CODE_MYSQL CODE_SCHEMA
     "  8  the shutdown deadline passed; nothing is lost by it\n",
     "tallyd run -c tallyd.yaml"},
    {"migrate", "migrate -c FILE [--status | --dry-run]", "bring the database's tables up to date",
     CONFIG_OPTION
     "  --status           one line a migration: applied, missing, changed, or newer than this\n"
     "                     tallyd; exit code 7 when `tallyd run` wouldn't start on it\n"
     "  --dry-run          the SQL that would run, for a look or for other hands\n"
     "\n"
     "One process at a time: a second one waits, and has nothing to do then. Migrations only\n"
     "add, so that the release before still runs after a rollback.\n",
     CODES_ALWAYS CODE_CONFIG CODE_MYSQL CODE_SCHEMA, "tallyd migrate -c tallyd.yaml --status"},
    {"check", "check -c FILE [--json | --print]", "say whether everything is there and as it must be",
     CONFIG_OPTION
     "  --json             one JSON document instead of lines\n"
     "  --print            the configuration as it holds, defaults included, secrets masked;\n"
     "                     nothing is asked\n"
     "\n"
     "One line a finding: ok, warn (it runs; somebody should look), FAIL, or -- (can't be seen).\n"
     "All are looked at; the first that fails gives the exit code. Nothing is written anywhere, so\n"
     "the right to write to a topic isn't tried. Clocks: over 1 s apart warns, over 60 s fails.\n",
     CODES_ALWAYS CODE_CONFIG CODE_KAFKA CODE_REDIS CODE_MYSQL CODE_SCHEMA,
     "tallyd check -c tallyd.yaml && tallyd run -c tallyd.yaml"},
    {"warm", "warm -c FILE FAMILY...", "make changes in MySQL count at once for these families",
     CONFIG_OPTION "  FAMILY             a family's number\n"
                   "\n"
                   "Drops what Redis holds about them; they are read from MySQL when they are next needed.\n"
                   "Run it after the change has committed. Without it a change counts within\n"
                   "cache.max_age_seconds.\n",
     "  0  done\n  1  something unforeseen\n  2  wrong usage, or no such family; the others are done\n" CODE_CONFIG
         CODE_REDIS CODE_MYSQL CODE_SCHEMA,
     "tallyd warm -c tallyd.yaml 100042 100043"},
    {"audit", "audit -c FILE [--family N] [--fix-cache] [--json]",
     "say whether everything that tallyd promises holds",
     CONFIG_OPTION
     "  --family N         of this family alone; what isn't a family's is left out\n"
     "  --fix-cache        have entries of Redis warmed anew that drifted from MySQL\n"
     "  --json             one JSON document instead of lines\n"
     "\n"
     "One line a question, with the number of the promise: ok, FAIL (broken), warn (nothing is broken,\n"
     "and somebody should look), or -- (can't be judged), with how much was looked at and the first\n"
     "that are wrong. Reads one snapshot of MySQL, the topics as far as they are kept, and Redis;\n"
     "locks nothing, and may run beside tallyd: what is in flight isn't called broken. Writes\n"
     "nothing, but that --fix-cache deletes what `tallyd warm` would. The snapshot lasts as long as\n"
     "the audit: minutes, for tens of millions of events.\n",
     CODES_ALWAYS CODE_CONFIG CODE_KAFKA
     "  5  Redis; as with Kafka the rest is judged\n" CODE_MYSQL CODE_SCHEMA
     "  9  a promise is broken; comes before all others\n"
     "  10 none is, but entries of Redis drifted and weren't dropped: each costs a second try\n",
     "tallyd audit -c tallyd.yaml --fix-cache"},
    {"simulate", "simulate -c FILE [options]", "produce usage events with the shape of a real population",
     NULL, CODES_ALWAYS CODE_CONFIG CODE_KAFKA CODE_MYSQL CODE_SCHEMA,
     "tallyd simulate -c tallyd.yaml --seed-db --count 50000 --rate 2000"},
    {"help", "help [COMMAND | events]", "this page, or a command's; or the log's events",
     "  --markdown         of events: the rows of a table\n", "  0  done\n  2  no such command\n",
     "tallyd help check"},
    {"version", "version", "the version, and those of the libraries in use", "", "  0  done\n",
     "tallyd --version"},
};
#define PAGE_COUNT (sizeof pages / sizeof *pages)

void cli_help_overview(void) {
    printf("tallyd: settles usage events against shared quotas, and tells people once\n\n");
    for (size_t i = 0; i < PAGE_COUNT; i++)
        printf("  tallyd %-39s %s\n", pages[i].usage, pages[i].what);
    printf("\n`tallyd help COMMAND` shows a command's options, exit codes and an example.\n"
           "\nExit codes: 0 done, 1 internal, 2 usage, 3 configuration, 4 Kafka, 5 Redis, 6 MySQL,\n"
           "7 not migrated, 8 the shutdown deadline passed, 9 a promise is broken, 10 Redis drifted.\n"
           "Errors go to standard error as `tallyd COMMAND: what: why (what to do)`.\n");
}

static void print_own_help(const char *name) {
    char copy[16], option[] = "--help";
    snprintf(copy, sizeof copy, "%s", name);
    char *argv[] = {copy, option, NULL};
    cli_simulate(2, argv);
}

bool cli_help_page(const char *command) {
    for (size_t i = 0; i < PAGE_COUNT; i++) {
        const struct page *p = &pages[i];
        if (strcmp(p->name, command) != 0)
            continue;
        if (p->options)
            printf("tallyd %s\n\n%c%s.\n\n%s%s", p->usage, p->what[0] - 'a' + 'A', p->what + 1, p->options,
                   *p->options ? "\n" : "");
        else
            print_own_help(p->name);
        printf("%sExit codes:\n%s\nExample: %s\n", p->options ? "" : "\n", p->codes, p->example);
        return true;
    }
    return false;
}
