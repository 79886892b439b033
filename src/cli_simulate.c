/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "kafka.h"
#include "log.h"
#include "migrate.h"
#include "period.h"
#include "simulate.h"

#define COMMAND "simulate"
#define DEFAULT_FAMILIES 1000
#define DEFAULT_RATE 1000.0
#define DEFAULT_DUPLICATES 0.02
#define DEFAULT_LATE 0.02
#define DEFAULT_BROKEN 0.01
#define COUNT_MAX INT64_C(1000000000000)
#define RATE_MAX 10000000.0
#define DURATION_MAX_MS (INT64_C(366) * 24 * 3600 * 1000)
#define ASK_TIMEOUT_MS 10000
#define FULL_QUEUE_POLL_MS 10
#define PAUSE_MAX_MS 50 /* a signal is noticed within it */
#define POLL_EVERY 256  /* events between two looks at reports and clock */
#define TTY_PROGRESS_MS 200
#define LINE_PROGRESS_MS 5000
#define LAST_REPORTS_MS 5000 /* after the client's own time-out every report must be here */

static volatile sig_atomic_t interrupted;

struct job {
    /* what is wanted */
    const char *config_path;
    struct simulate_options o;
    bool has_seed, seed_db, from_now, json, print;
    const char *start;
    /* what it's done with */
    struct config *cfg;
    struct simulation *simulation;
    rd_kafka_t *producer;
    rd_kafka_topic_t *topic;
    struct simulate_event event;
    /* what was done */
    bool seeded_db;
    struct population_seeded seeded;
    int64_t seeded_ms;
    int64_t produced[SIMULATE_KINDS], acked[SIMULATE_KINDS];
    int64_t codes[REJECT_SETTLEMENT_REJECTED + 1];
    int64_t refused; /* not even taken into the client's queue */
    int64_t started_ms, elapsed_ms;
    rd_kafka_resp_err_t first_failure;
    /* telling about it */
    bool tty, line_open;
    int64_t next_progress_ms;
};

static int64_t clock_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t sum(const int64_t n[SIMULATE_KINDS]) {
    int64_t all = 0;
    for (int i = 0; i < SIMULATE_KINDS; i++)
        all += n[i];
    return all;
}

/* ---- options ---- */

static const char help[] =
    "tallyd simulate -c FILE (--count N | --duration TIME | --seed-db) [OPTION...]\n"
    "\n"
    "Produces usage events of a made-up population to the topic of the configuration.\n"
    "\n"
    "  --count N          so many events\n"
    "  --duration TIME    events for so long: 30s, 5m, 1h\n"
    "  --rate N           events a second (1000); 0 is as fast as possible\n"
    "  --pattern NAME     constant (default), ramp-up, burst, or realistic: 0.2 times the\n"
    "                     rate at night, 1.8 times in the evening\n"
    "  --families N       how many families there are (1000)\n"
    "  --hot-family SHARE of the uses that is one family's, the first, besides its usual one (0)\n"
    "  --duplicates SHARE of the events that are repeats (0.02)\n"
    "  --late SHARE       of those that happened up to three days before (0.02)\n"
    "  --broken SHARE     of those that are to be rejected (0.01)\n"
    "  --seed N           the same events again; without it others each time\n"
    "  --start TIME       as if it were TIME (2026-11-30T12:00:00+09:00) at the first event\n"
    "  --from-now         events happen when they are sent, unless late (default)\n"
    "  --seed-db          first puts the families with members, quotas of this month and\n"
    "                     rules into MySQL; with no --count or --duration does only that\n"
    "  --json             the summary as one JSON object\n"
    "  --print            prints the events, key and value with a tab between, and produces none\n";

static bool usage(const char *option, const char *must) {
    char why[200];
    snprintf(why, sizeof why, "%s%s%s", option, *option ? " " : "", must);
    cli_error(COMMAND, "usage", why, "tallyd simulate --help");
    return false;
}

static bool whole(const char *option, const char *text, uint64_t low, uint64_t high, uint64_t *out) {
    char must[80], *end;
    unsigned long long v = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && !*end && strlen(text) < 20 && v >= low && v <= high) {
        *out = v;
        return true;
    }
    snprintf(must, sizeof must, "must be a whole number, %llu … %llu", (unsigned long long)low,
             (unsigned long long)high);
    return usage(option, must);
}

static bool fraction(const char *option, const char *text, double high, double *out) {
    char must[80], *end;
    double v = strtod(text, &end);
    if (text[0] && strspn(text, "0123456789.") == strlen(text) && !*end && v <= high) {
        *out = v;
        return true;
    }
    snprintf(must, sizeof must, "must be a number, 0 … %.0f", high);
    return usage(option, must);
}

static bool duration(const char *text, int64_t *out_ms) {
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"", 1000}, {"s", 1000}, {"ms", 1}, {"m", 60000}, {"h", 3600000}};
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double v = strtod(text, &end);
    for (size_t i = 0; digits && end == text + digits && i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].unit) != 0)
            continue;
        v *= units[i].ms;
        if (v < 1 || v > (double)DURATION_MAX_MS)
            break;
        *out_ms = (int64_t)v;
        return true;
    }
    return usage("--duration", "must be a time such as 30s, 5m or 1h");
}

enum {
    OPT_COUNT = 256,
    OPT_DURATION,
    OPT_RATE,
    OPT_PATTERN,
    OPT_FAMILIES,
    OPT_HOT_FAMILY,
    OPT_DUPLICATES,
    OPT_LATE,
    OPT_BROKEN,
    OPT_SEED,
    OPT_START,
    OPT_FROM_NOW,
    OPT_SEED_DB,
    OPT_JSON,
    OPT_PRINT
};

static const struct option options[] = {
    {"config", required_argument, NULL, 'c'},
    {"help", no_argument, NULL, 'h'},
    {"count", required_argument, NULL, OPT_COUNT},
    {"duration", required_argument, NULL, OPT_DURATION},
    {"rate", required_argument, NULL, OPT_RATE},
    {"pattern", required_argument, NULL, OPT_PATTERN},
    {"families", required_argument, NULL, OPT_FAMILIES},
    {"hot-family", required_argument, NULL, OPT_HOT_FAMILY},
    {"duplicates", required_argument, NULL, OPT_DUPLICATES},
    {"late", required_argument, NULL, OPT_LATE},
    {"broken", required_argument, NULL, OPT_BROKEN},
    {"seed", required_argument, NULL, OPT_SEED},
    {"start", required_argument, NULL, OPT_START},
    {"from-now", no_argument, NULL, OPT_FROM_NOW},
    {"seed-db", no_argument, NULL, OPT_SEED_DB},
    {"json", no_argument, NULL, OPT_JSON},
    {"print", no_argument, NULL, OPT_PRINT},
    {0},
};

static bool take_option(struct job *j, int c, char **argv) {
    uint64_t n = 0;
    bool ok = true;
    switch (c) {
    case 'c':
        j->config_path = optarg;
        break;
    case OPT_COUNT:
        ok = whole("--count", optarg, 1, COUNT_MAX, &n);
        j->o.count = (int64_t)n;
        break;
    case OPT_DURATION:
        return duration(optarg, &j->o.duration_ms);
    case OPT_RATE:
        return fraction("--rate", optarg, RATE_MAX, &j->o.rate);
    case OPT_PATTERN:
        return simulate_pattern_parse(optarg, &j->o.pattern) ||
               usage("--pattern", "must be constant, ramp-up, burst or realistic");
    case OPT_FAMILIES:
        ok = whole("--families", optarg, 1, POPULATION_FAMILIES_MAX, &n);
        j->o.families = (uint32_t)n;
        break;
    case OPT_HOT_FAMILY:
        return fraction("--hot-family", optarg, 1, &j->o.hot_family);
    case OPT_DUPLICATES:
        return fraction("--duplicates", optarg, 1, &j->o.duplicates);
    case OPT_LATE:
        return fraction("--late", optarg, 1, &j->o.late);
    case OPT_BROKEN:
        return fraction("--broken", optarg, 1, &j->o.broken);
    case OPT_SEED:
        j->has_seed = true;
        return whole("--seed", optarg, 0, INT64_MAX, &j->o.seed);
    case OPT_START:
        j->start = optarg;
        break;
    case OPT_FROM_NOW:
        j->from_now = true;
        break;
    case OPT_SEED_DB:
        j->seed_db = true;
        break;
    case OPT_JSON:
        j->json = true;
        break;
    case OPT_PRINT:
        j->print = true;
        break;
    case ':':
        return usage(argv[optind - 1], "needs a value");
    default:
        return usage(argv[optind - 1], "is no option");
    }
    return ok;
}

static bool options_agree(const struct job *j) {
    if (!j->config_path)
        return usage("-c FILE", "is missing");
    if (!j->o.count && !j->o.duration_ms && !j->seed_db)
        return usage("", "one of --count, --duration and --seed-db is missing");
    if (j->o.rate <= 0 && j->o.pattern != SIMULATE_CONSTANT)
        return usage("--pattern", "needs a --rate");
    if (j->o.duplicates + j->o.late + j->o.broken > 1)
        return usage("", "--duplicates, --late and --broken make more than 1 together");
    if (j->start && j->from_now)
        return usage("--start", "and --from-now contradict each other");
    if (j->print && (j->json || j->seed_db))
        return usage("--print", "goes with neither --json nor --seed-db");
    return true;
}

/* 1: go on; 0: help was printed; -1: a message was. */
static int read_options(struct job *j, int argc, char **argv) {
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":c:h", options, NULL)) != -1) {
        if (c == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (!take_option(j, c, argv))
            return -1;
    }
    if (optind < argc) {
        usage(argv[optind], "is one argument too many");
        return -1;
    }
    return options_agree(j) ? 1 : -1;
}

/* What hangs on the zone and the clock. */
static bool finish_options(struct job *j) {
    j->o.own_time = j->start != NULL;
    j->o.start_ms = clock_now_ms();
    if (j->start && !period_parse(j->start, strlen(j->start), &j->o.start_ms))
        return usage("--start", "must be a time such as 2026-11-30T12:00:00+09:00");
    while (!j->has_seed) {
        j->has_seed = getrandom(&j->o.seed, sizeof j->o.seed, 0) == (ssize_t)sizeof j->o.seed;
        j->o.seed &= INT64_MAX;
    }
    j->o.max_future_ms = j->cfg->event.max_future_ms;
    j->o.max_past_months = (int)j->cfg->event.max_past_months;
    return true;
}

/* ---- progress ---- */

static void progress_line(struct job *j, const char *text) {
    /* On a terminal the line is written over, blanks and all. */
    fprintf(stderr, j->tty ? "\r%-78s" : "%s\n", text);
    j->line_open = j->tty;
}

static void progress_end(struct job *j) {
    if (j->line_open)
        fputc('\n', stderr);
    j->line_open = false;
}

static bool progress_due(struct job *j) {
    int64_t now = clock_monotonic_ms();
    if (now < j->next_progress_ms)
        return false;
    j->next_progress_ms = now + (j->tty ? TTY_PROGRESS_MS : LINE_PROGRESS_MS);
    return true;
}

static void progress_events(struct job *j) {
    char text[160], goal[64] = "";
    int64_t produced = sum(j->produced), ms = clock_monotonic_ms() - j->started_ms;
    if (j->o.count)
        snprintf(goal, sizeof goal, " of %lld (%lld %%)", (long long)j->o.count,
                 (long long)(produced * 100 / j->o.count));
    else
        snprintf(goal, sizeof goal, " in %lld s of %lld", (long long)(ms / 1000),
                 (long long)(j->o.duration_ms / 1000));
    snprintf(text, sizeof text, "simulate: %lld events%s, %lld acknowledged, %lld a second",
             (long long)produced, goal, (long long)sum(j->acked),
             (long long)(ms > 0 ? produced * 1000 / ms : 0));
    progress_line(j, text);
}

static void progress_seeding(const struct population_seeded *done, void *ctx) {
    struct job *j = ctx;
    char text[120];
    if (!progress_due(j))
        return;
    snprintf(text, sizeof text, "simulate: %lld of %lld families in the database", (long long)done->families,
             (long long)j->o.families);
    progress_line(j, text);
}

/* ---- the database ---- */

static int seed_database(struct job *j) {
    struct error err = {0};
    size_t missing = 0;
    int64_t since = clock_monotonic_ms();
    j->next_progress_ms = since + (j->tty ? TTY_PROGRESS_MS : LINE_PROGRESS_MS);
    struct db *db = db_new(j->cfg, DB_READ_COMMITTED);
    bool ok = migrate_missing(db, &missing, &err);
    if (ok && missing == 0)
        ok = population_seed(simulation_population(j->simulation), db, period_month(j->o.start_ms),
                             progress_seeding, j, &j->seeded, &err);
    db_free(db);
    progress_end(j);
    if (!ok) {
        cli_error(COMMAND, "mysql", err.text, NULL);
        return cli_exit_code(&err);
    }
    if (missing) {
        cli_error(COMMAND, "mysql", "the database lacks migrations", "run `tallyd migrate -c FILE`");
        return EXIT_SCHEMA;
    }
    j->seeded_db = true;
    j->seeded_ms = clock_monotonic_ms() - since;
    return EXIT_OK;
}

/* ---- events ---- */

static void on_delivered(rd_kafka_t *rk, const rd_kafka_message_t *msg, void *opaque) {
    (void)rk;
    struct job *j = opaque;
    if (msg->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        j->acked[(intptr_t)msg->_private]++;
    else if (j->first_failure == RD_KAFKA_RESP_ERR_NO_ERROR)
        j->first_failure = msg->err;
}

static bool open_producer(struct job *j, struct error *err) {
    size_t partitions;
    j->producer = kafka_producer_new(j->cfg, on_delivered, j, err);
    if (!j->producer)
        return false;
    int32_t *ids =
        kafka_topic_partitions(j->producer, j->cfg->kafka.usage_topic, ASK_TIMEOUT_MS, &partitions, err);
    if (!ids)
        return false;
    free(ids);
    j->topic = rd_kafka_topic_new(j->producer, j->cfg->kafka.usage_topic, NULL);
    return j->topic != NULL || kafka_error(rd_kafka_last_error(), "topic", j->cfg->kafka.usage_topic, err);
}

static void produce(struct job *j) {
    const struct simulate_event *e = &j->event;
    for (;;) {
        rd_kafka_resp_err_t code =
            rd_kafka_producev(j->producer, RD_KAFKA_V_RKT(j->topic), RD_KAFKA_V_KEY(e->key, e->key_len),
                              RD_KAFKA_V_VALUE(e->value.data, e->value.len), RD_KAFKA_V_TIMESTAMP(e->now_ms),
                              RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                              RD_KAFKA_V_OPAQUE((void *)(intptr_t)e->kind), RD_KAFKA_V_END);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            return;
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            j->refused++;
            if (j->first_failure == RD_KAFKA_RESP_ERR_NO_ERROR)
                j->first_failure = code;
            return;
        }
        rd_kafka_poll(j->producer, FULL_QUEUE_POLL_MS);
        if (progress_due(j))
            progress_events(j);
    }
}

static void print_event(const struct simulate_event *e) {
    fwrite(e->key, 1, e->key_len, stdout);
    putchar('\t');
    fwrite(e->value.data, 1, e->value.len, stdout);
    putchar('\n');
}

/* How long until the next event, 0 when it's due, -1 when there is none. */
static int64_t pause_ns(const struct job *j, int64_t begin_ns) {
    int64_t due = simulation_due_ns(j->simulation);
    if (due < 0 || interrupted)
        return -1;
    if (j->o.rate > 0 && j->print) /* nobody waits for a listing */
        return 0;
    int64_t elapsed = clock_ns() - begin_ns;
    if (j->o.rate <= 0)
        return j->o.duration_ms && elapsed >= j->o.duration_ms * 1000000 ? -1 : 0;
    return due > elapsed ? due - elapsed : 0;
}

/* Reports are served while it waits; a pause below a millisecond becomes one, and what is due then goes
 * together. */
static void wait_for_due(struct job *j, int64_t ns) {
    int64_t ms = ns / 1000000;
    rd_kafka_poll(j->producer, ms < 1 ? 1 : ms < PAUSE_MAX_MS ? (int)ms : PAUSE_MAX_MS);
}

static void make_events(struct job *j) {
    int64_t begin = clock_ns(), wait;
    for (int64_t made = 0; (wait = pause_ns(j, begin)) >= 0;) {
        if (j->producer && (wait > 0 || made % POLL_EVERY == 0)) {
            if (wait > 0)
                wait_for_due(j, wait);
            else
                rd_kafka_poll(j->producer, 0);
            if (progress_due(j))
                progress_events(j);
            if (wait > 0)
                continue;
        }
        simulation_next(j->simulation, clock_now_ms(), &j->event);
        j->produced[j->event.kind]++;
        j->codes[j->event.code]++;
        if (j->print)
            print_event(&j->event);
        else
            produce(j);
        made++;
    }
}

/* Until every record was reported about; a signal doesn't cut it short, since what was sent counts. */
static void await_reports(struct job *j) {
    int64_t until = clock_monotonic_ms() + j->cfg->kafka.message_timeout_ms + LAST_REPORTS_MS;
    while (rd_kafka_outq_len(j->producer) > 0 && clock_monotonic_ms() < until) {
        rd_kafka_poll(j->producer, PAUSE_MAX_MS);
        if (progress_due(j))
            progress_events(j);
    }
}

static int send_events(struct job *j) {
    struct error err = {0};
    if (!j->print && !open_producer(j, &err)) {
        cli_error(COMMAND, error_area_name(err.area), err.text, NULL);
        return cli_exit_code(&err);
    }
    j->started_ms = clock_monotonic_ms();
    j->next_progress_ms = j->started_ms + (j->tty ? TTY_PROGRESS_MS : LINE_PROGRESS_MS);
    make_events(j);
    if (j->producer)
        await_reports(j);
    j->elapsed_ms = clock_monotonic_ms() - j->started_ms;
    if (j->tty && j->producer)
        progress_events(j);
    progress_end(j);
    return EXIT_OK;
}

/* ---- summary ---- */

static int64_t a_second(int64_t n, int64_t ms) {
    return n * 1000 / (ms > 0 ? ms : 1);
}

static json_t *counts_json(const int64_t n[SIMULATE_KINDS]) {
    json_t *o = json_object();
    json_object_set_new(o, "total", json_integer(sum(n)));
    for (int i = 0; i < SIMULATE_KINDS; i++)
        json_object_set_new(o, simulate_kind_name((enum simulate_kind)i), json_integer(n[i]));
    return o;
}

static void summary_json(const struct job *j) {
    json_t *o = json_object(), *codes = json_object();
    json_object_set_new(o, "topic", json_string(j->cfg->kafka.usage_topic));
    json_object_set_new(o, "seed", json_integer((json_int_t)j->o.seed));
    json_object_set_new(o, "families", json_integer(j->o.families));
    json_object_set_new(o, "members", json_integer(population_members(simulation_population(j->simulation))));
    json_object_set_new(o, "seeded",
                        j->seeded_db
                            ? json_pack("{s:I,s:I,s:I,s:I}", "families", (json_int_t)j->seeded.families,
                                        "members", (json_int_t)j->seeded.members, "rules",
                                        (json_int_t)j->seeded.rules, "elapsedMs", (json_int_t)j->seeded_ms)
                            : json_null());
    json_object_set_new(o, "produced", counts_json(j->produced));
    json_object_set_new(o, "acked", counts_json(j->acked));
    json_object_set_new(o, "failed", json_integer(sum(j->produced) - sum(j->acked)));
    for (int code = REJECT_NONE + 1; code <= REJECT_SETTLEMENT_REJECTED; code++) {
        if (j->codes[code])
            json_object_set_new(codes, reject_code_name((enum reject_code)code),
                                json_integer(j->codes[code]));
    }
    json_object_set_new(o, "brokenByCode", codes);
    json_object_set_new(o, "elapsedMs", json_integer(j->elapsed_ms));
    json_object_set_new(o, "eventsPerSecond", json_integer(a_second(sum(j->acked), j->elapsed_ms)));
    json_object_set_new(o, "interrupted", json_boolean(interrupted));
    json_dumpf(o, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(o);
}

static void summary_text(const struct job *j) {
    FILE *to = j->print ? stderr : stdout;
    if (j->seeded_db)
        fprintf(to, "seeded    %lld families, %lld members, %lld rules in %.1f s\n",
                (long long)j->seeded.families, (long long)j->seeded.members, (long long)j->seeded.rules,
                (double)j->seeded_ms / 1000);
    if (sum(j->produced) == 0)
        return;
    fprintf(to, "%s %lld events%s%s in %.1f s, %lld a second (seed %lld)\n",
            j->print ? "printed  " : "produced ", (long long)sum(j->produced), j->print ? "" : " to ",
            j->print ? "" : j->cfg->kafka.usage_topic, (double)j->elapsed_ms / 1000,
            (long long)a_second(sum(j->produced), j->elapsed_ms), (long long)j->o.seed);
    for (int i = 0; i < SIMULATE_KINDS; i++)
        fprintf(to, "%s%lld %s", i ? ", " : "          ", (long long)j->produced[i],
                simulate_kind_name((enum simulate_kind)i));
    fputc('\n', to);
    if (!j->print)
        fprintf(to, "acked     %lld, failed %lld\n", (long long)sum(j->acked),
                (long long)(sum(j->produced) - sum(j->acked)));
}

/* A fatal error's own words say more than that there was one. */
static const char *why_failed(const struct job *j, char *text, size_t size) {
    if (rd_kafka_fatal_error(j->producer, text, size) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return text;
    return j->first_failure ? rd_kafka_err2str(j->first_failure) : "no report came in time";
}

static int verdict(const struct job *j) {
    int64_t failed = sum(j->produced) - sum(j->acked);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        cli_error(COMMAND, "standard output", "can't be written", NULL);
        return EXIT_INTERNAL;
    }
    if (j->print || failed == 0)
        return EXIT_OK;
    char what[80], why[256];
    snprintf(what, sizeof what, "kafka: %lld of %lld events were not acknowledged", (long long)failed,
             (long long)sum(j->produced));
    cli_error(COMMAND, what, why_failed(j, why, sizeof why), NULL);
    return EXIT_KAFKA;
}

static void on_signal(int signal) {
    (void)signal;
    interrupted = 1;
}

static int work(struct job *j) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    j->tty = isatty(STDERR_FILENO);
    j->simulation = simulation_new(&j->o);
    int code = j->seed_db ? seed_database(j) : EXIT_OK;
    if (code == EXIT_OK && (j->o.count || j->o.duration_ms))
        code = send_events(j);
    if (code != EXIT_OK)
        return code;
    (j->json ? summary_json : summary_text)(j);
    return verdict(j);
}

static void job_deinit(struct job *j) {
    if (j->topic)
        rd_kafka_topic_destroy(j->topic);
    if (j->producer)
        rd_kafka_destroy(j->producer);
    simulation_free(j->simulation);
    buf_free(&j->event.value);
    config_free(j->cfg);
}

int cli_simulate(int argc, char **argv) {
    struct job j = {.o = {.families = DEFAULT_FAMILIES,
                          .rate = DEFAULT_RATE,
                          .duplicates = DEFAULT_DUPLICATES,
                          .late = DEFAULT_LATE,
                          .broken = DEFAULT_BROKEN}};
    int go_on = read_options(&j, argc, argv);
    if (go_on <= 0)
        return go_on < 0 ? EXIT_USAGE : EXIT_OK;
    log_init(STDERR_FILENO, LOG_ERROR); /* the summary says what came of it */
    j.cfg = cli_config(COMMAND, j.config_path);
    int code = EXIT_CONFIG;
    if (j.cfg)
        code = finish_options(&j) ? work(&j) : EXIT_USAGE;
    job_deinit(&j);
    return code;
}
