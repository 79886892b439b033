/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "buf.h"
#include "cli.h"

static int cli_help(int argc, char **argv);
static int cli_version(int argc, char **argv);

static const struct {
    const char *name, *usage, *what;
    int (*main)(int argc, char **argv);
} commands[] = {
    {"run", "run -c FILE [--until-drained]",
     "consume, decide, settle and notify until told to stop, or until drained", cli_run},
    {"migrate", "migrate -c FILE", "bring the database's tables up to date", cli_migrate},
    {"simulate", "simulate -c FILE [options]", "produce usage events with the shape of a real population",
     cli_simulate},
    {"help", "help", "this page", cli_help},
    {"version", "version", "the version", cli_version},
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static int cli_version(int argc, char **argv) {
    (void)argc;
    (void)argv;
    printf("tallyd %s\n", TALLYD_VERSION);
    return EXIT_OK;
}

static int cli_help(int argc, char **argv) {
    (void)argc;
    (void)argv;
    printf("tallyd: settles usage events against shared quotas, and tells people once\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  tallyd %-32s %s\n", commands[i].usage, commands[i].what);
    printf(
        "\nExit codes: 0 done, 1 internal, 2 usage, 3 configuration, 4 Kafka, 5 Redis, 6 MySQL,\n"
        "7 not migrated, 8 the shutdown deadline passed. Logs go to standard output, one JSON object a line.\n");
    return EXIT_OK;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    srandom((unsigned)getpid() ^ (unsigned)time(NULL)); /* jitter: processes must differ */
    json_set_alloc_funcs(mem_alloc, free);              /* out of memory must not look like malformed JSON */
    json_object_seed(0);                                /* before threads */
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--version") == 0)
        name = "version";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].main(argc - 1, argv + 1);
    }
    fprintf(stderr, "tallyd: %s%s: no such command (see `tallyd help`)\n", argc > 1 ? "" : "no command",
            name);
    return EXIT_USAGE;
}
