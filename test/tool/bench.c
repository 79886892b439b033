/* SPDX-License-Identifier: MIT */
/* Measures parts of tallyd, and a running one: each verb prints one JSON object.
 *
 *   bench consume -c FILE [--count N]      the usage topic consumed and parsed, and nothing else
 *   bench script -c FILE [--count N]       the decision script alone, pipelined, on the topic's events
 *   bench settle -c FILE [--count N]       the same rows settled from ready batches, without Kafka and Redis
 *   bench latency -c FILE --rate N --seconds S [--warmup S] [--families N] [--seed N]
 *                                          produced -> committed and -> notification, with a tallyd at work
 *   bench lone -c FILE --count N [--pause-ms N] [--families N] [--seed N]
 *                                          one event at a time, with an idle tallyd
 *
 * Any of them takes --pid NAME=PID, repeatedly: that process's CPU by event. The first three read the topic
 * from its beginning in a group of their own; script and settle need the families in the database, and settle
 * a database that hasn't settled the topic's events yet.
 *
 * Exit codes: 0 done, 1 not done, 2 called wrongly. */
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "draw.h"
#include "json_arena.h"
#include "kafka.h"
#include "log.h"
#include "period.h"
#include "population.h"

#define COUNT_MAX INT64_C(1000000000)
#define RATE_MAX 1000000

static const char help[] =
    "usage: bench consume|script|settle -c FILE [--count N] [--pid NAME=PID...]\n"
    "       bench latency -c FILE --rate N --seconds N [--warmup N] [--families N] [--seed N] [--pid NAME=PID...]\n"
    "       bench lone -c FILE --count N [--pause-ms N] [--families N] [--seed N] [--pid NAME=PID...]\n";

/* `takes`: options besides -c and --pid. `needs`: those that must be there. */
static const struct verb {
    const char *name;
    json_t *(*run)(struct config *cfg, const struct bench_options *o, struct error *err);
    const char *takes, *needs;
} verbs[] = {
    {"consume", bench_consume, "n", ""}, {"script", bench_script, "n", ""},
    {"settle", bench_settle, "n", ""},   {"latency", bench_latency, "rswfS", "rs"},
    {"lone", bench_lone, "npfS", "n"},
};

static const struct option options[] = {
    {"config", required_argument, NULL, 'c'},   {"pid", required_argument, NULL, 'P'},
    {"count", required_argument, NULL, 'n'},    {"rate", required_argument, NULL, 'r'},
    {"seconds", required_argument, NULL, 's'},  {"warmup", required_argument, NULL, 'w'},
    {"families", required_argument, NULL, 'f'}, {"seed", required_argument, NULL, 'S'},
    {"pause-ms", required_argument, NULL, 'p'}, {0},
};

static int usage(const char *what) {
    fprintf(stderr, "bench: %s\n%s", what, help);
    return 2;
}

static bool whole(const char *text, int64_t low, int64_t high, int64_t *out) {
    size_t digits = strspn(text, "0123456789");
    *out = strtoll(text, NULL, 10);
    return digits && digits < 19 && !text[digits] && *out >= low && *out <= high;
}

static bool take_pid(struct bench_options *o, const char *text) {
    const char *equals = strchr(text, '=');
    int64_t pid;
    if (!equals || equals == text || equals - text >= BENCH_NAME_MAX || o->pid_count == BENCH_PIDS_MAX ||
        !whole(equals + 1, 1, INT_MAX, &pid))
        return false;
    struct bench_pid *p = &o->pids[o->pid_count++];
    memcpy(p->name, text, (size_t)(equals - text));
    p->name[equals - text] = '\0';
    p->pid = (int)pid;
    return true;
}

static bool take_option(struct bench_options *o, int c, const char *value) {
    int64_t rate = 0;
    switch (c) {
    case 'c':
        o->config_path = value;
        return true;
    case 'P':
        return take_pid(o, value);
    case 'n':
        return whole(value, 1, COUNT_MAX, &o->count);
    case 'r':
        if (!whole(value, 1, RATE_MAX, &rate))
            return false;
        o->rate = (double)rate;
        return true;
    case 's':
        return whole(value, 1, 86400, &o->seconds);
    case 'w':
        return whole(value, 0, 86400, &o->warmup);
    case 'f':
        return whole(value, 1, POPULATION_FAMILIES_MAX, &o->families);
    case 'S':
        return whole(value, 0, INT64_MAX, &o->seed);
    default:
        return whole(value, 0, 60000, &o->pause_ms);
    }
}

/* 0, or 2 after a message. */
static int read_options(const struct verb *v, int argc, char **argv, struct bench_options *o) {
    char given[16] = "", why[128];
    int c, at = 0;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":c:", options, &at)) != -1) {
        if (c == ':' || c == '?' || (c != 'c' && c != 'P' && !strchr(v->takes, c))) {
            snprintf(why, sizeof why, "%s: %s %s", v->name, argv[optind - 1],
                     c == ':' ? "needs a value" : "is no option of it");
            return usage(why);
        }
        if (!take_option(o, c, optarg)) {
            snprintf(why, sizeof why, "%s: %s: not such a value: %.60s", v->name, options[at].name, optarg);
            return usage(why);
        }
        if (!strchr(given, c) && strlen(given) + 1 < sizeof given)
            given[strlen(given)] = (char)c;
    }
    bool complete = o->config_path && optind == argc;
    for (const char *need = v->needs; *need; need++)
        complete = complete && strchr(given, *need);
    return complete ? 0 : usage("an option is missing, or an argument too many");
}

static struct config *load(const char *path, struct error *err) {
    struct config *cfg = config_load(path, err);
    if (cfg && period_zone_init(cfg->zone, err) && kafka_properties_check(cfg, err))
        return cfg;
    config_free(cfg);
    return NULL;
}

static int run(const struct verb *v, const struct bench_options *o) {
    struct error err = {0};
    struct config *cfg = load(o->config_path, &err);
    json_t *result = cfg ? v->run(cfg, o, &err) : NULL;
    bool printed = result && json_dumpf(result, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7)) == 0 &&
                   putchar('\n') != EOF && fflush(stdout) == 0;
    if (!result)
        fprintf(stderr, "bench %s: %s\n", v->name, err.text);
    else if (!printed)
        fprintf(stderr, "bench %s: standard output can't be written\n", v->name);
    json_decref(result);
    config_free(cfg);
    return printed ? 0 : 1;
}

int main(int argc, char **argv) {
    struct bench_options o = {.families = 1000, .pause_ms = 50, .seed = draw_number()};
    signal(SIGPIPE, SIG_IGN);
    json_arena_install(); /* as the daemon has it: events are parsed here too */
    log_init(STDERR_FILENO, LOG_ERROR);
    for (size_t i = 0; argc > 1 && i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(argv[1], verbs[i].name) != 0)
            continue;
        int code = read_options(&verbs[i], argc - 1, argv + 1, &o);
        return code ? code : run(&verbs[i], &o);
    }
    return usage("a verb must come first");
}
