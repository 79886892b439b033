/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <jansson.h>
#include <librdkafka/rdkafka.h>
#include <mysql.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <yaml.h>

#include "cli.h"
#include "json_arena.h"
#include "log_events.h"
#include "metrics.h"

static int cli_help(int argc, char **argv);
static int cli_version(int argc, char **argv);

static const struct command {
    const char *name;
    int (*main)(int argc, char **argv);
} commands[] = {
    {"run", cli_run},         {"migrate", cli_migrate},   {"check", cli_check},       {"warm", cli_warm},
    {"audit", cli_audit},     {"explain", cli_explain},   {"show", cli_show},         {"lag", cli_lag},
    {"rewind", cli_rewind},   {"pause", cli_pause},       {"resume", cli_resume},     {"outbox", cli_outbox},
    {"dlt", cli_dlt},         {"maintain", cli_maintain}, {"simulate", cli_simulate}, {"help", cli_help},
    {"version", cli_version},
};

static int cli_version(int argc, char **argv) {
    if (argc > 1)
        return cli_usage("version", argv[1], "is one argument too many");
    printf("tallyd %s\nlibrdkafka %s, hiredis %d.%d.%d, libmariadb %s, jansson %s, libyaml %s\n",
           TALLYD_VERSION, rd_kafka_version_str(), HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH,
           mysql_get_client_info(), jansson_version_str(), yaml_get_version_string());
    return EXIT_OK;
}

/* What `tallyd help` tells of besides commands: a page for people, or Markdown. */
static const struct topic {
    const char *name;
    void (*print)(FILE *out, bool markdown);
} topics[] = {
    {"events", log_events_print},
    {"metrics", metrics_print_table},
};

static bool print_topic(const char *name, bool markdown) {
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        if (strcmp(topics[i].name, name) == 0) {
            topics[i].print(stdout, markdown);
            return true;
        }
    }
    return false;
}

static int cli_help(int argc, char **argv) {
    bool markdown = argc > 2 && strcmp(argv[2], "--markdown") == 0;
    if (argc > 2 + markdown)
        return cli_usage("help", argv[2 + markdown], "is one argument too many");
    if (argc > 1 && print_topic(argv[1], markdown))
        return EXIT_OK;
    if (markdown)
        return cli_usage("help", argv[2], "is for what isn't a command: events, metrics");
    if (argc == 1) {
        cli_help_overview();
        return EXIT_OK;
    }
    if (cli_help_page(argv[1]))
        return EXIT_OK;
    cli_error("help", argv[1], "no such command", "see `tallyd help`");
    return EXIT_USAGE;
}

static bool wants_help(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            return false;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

static int run_command(const struct command *c, int argc, char **argv) {
    if (!wants_help(argc, argv))
        return c->main(argc, argv);
    cli_help_page(c->name);
    return EXIT_OK;
}

/* A full disk or a closed pipe must not pass for an answer. */
static int finish(const char *name, int code) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (code != EXIT_OK)
        return code;
    cli_error(name, "standard output", "can't be written", NULL);
    return EXIT_INTERNAL;
}

/* A standard stream that is closed would be the number of the next connection: log lines would go to a
 * database. It's taken by what can't be used in its direction, so that using it fails as it would have. */
static void hold_standard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(EXIT_INTERNAL);
    }
}

int main(int argc, char **argv) {
    hold_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a reader that went away and a file at its limit are errors like others */
    signal(SIGXFSZ, SIG_IGN);
    srandom((unsigned)getpid() ^ (unsigned)time(NULL)); /* jitter: processes must differ */
    json_arena_install();
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(name, commands[i].name) == 0)
            return finish(name, run_command(&commands[i], argc - 1, argv + 1));
    }
    if (argc > 1)
        fprintf(stderr, "tallyd: %s: no such command (see `tallyd help`)\n", name);
    else
        fputs("tallyd: no command: one must be named (see `tallyd help`)\n", stderr);
    return EXIT_USAGE;
}
