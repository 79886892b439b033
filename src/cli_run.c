/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "drain.h"
#include "draw.h"
#include "embedded.h"
#include "fault.h"
#include "heartbeat.h"
#include "kafka.h"
#include "log.h"
#include "metrics.h"
#include "migrate.h"
#include "monitor.h"
#include "mysql_db.h"
#include "ops.h"
#include "pauses.h"
#include "recent.h"
#include "redis.h"
#include "relay.h"
#include "reload.h"
#include "status.h"
#include "watch.h"
#include "worker.h"

#define TICK_MS 100
#define DRAIN_CHECK_MS 200
#define PROGRESS_MS 10000
#define REPEAT_WINDOW_MS 10000
#define LAST_WORDS_MS 500 /* left of the deadline for saying so and exiting */

/* A running daemon; main starts it top down and ends it bottom up. */
struct daemon {
    const char *config_path;
    struct config *cfg;
    struct watch *watch;
    struct messages *messages;
    struct metrics *metrics;
    struct recent *recent;
    struct relay *relay;
    struct pauses *pauses;
    struct worker **workers;
    size_t worker_count;
    struct drain *drain;
    struct monitor *monitor;
    struct ops *ops;
    int64_t started_ms;
};

static bool check_mysql(const struct config *cfg, bool *migrated, struct error *err) {
    size_t missing = 0;
    struct db *db = db_new(cfg, DB_READ_COMMITTED);
    bool ok = migrate_missing(db, &missing, err);
    db_free(db);
    *migrated = missing == 0;
    return ok;
}

/* An eviction policy other than noeviction takes counters away under pressure. */
static bool check_redis(const struct config *cfg, struct error *err) {
    char policy[40];
    struct redis *r = redis_new(cfg);
    bool ok = redis_ensure(r, err) && redis_config_get(r, "maxmemory-policy", policy, sizeof policy, err);
    redis_free(r);
    if (ok && !policy[0])
        LOG(LOG_WARN, "redis_policy_unknown",
            LOG_S("reason", "CONFIG GET maxmemory-policy isn't answered; it must be noeviction"));
    if (ok && policy[0] && strcmp(policy, "noeviction") != 0)
        return error_set(err, ERROR_REDIS, ERROR_STOP, ERROR_NOT_DONE, 0,
                         "redis: maxmemory-policy is %s, must be noeviction", policy);
    return ok;
}

/* Every dependency answers and fits, or a message and an exit code say which doesn't. */
static int check_dependencies(const struct config *cfg) {
    struct error err = {0};
    bool migrated = false;
    if (!check_mysql(cfg, &migrated, &err)) {
        cli_error("run", "mysql", err.text, NULL);
        return cli_exit_code(&err);
    }
    if (!migrated) {
        cli_error("run", "mysql", "the database lacks migrations", "run `tallyd migrate -c FILE`");
        return EXIT_SCHEMA;
    }
    if (!check_redis(cfg, &err)) {
        cli_error("run", "redis", err.text, NULL);
        return EXIT_REDIS;
    }
    return EXIT_OK;
}

static struct messages *load_messages(const struct config *cfg, struct error *err) {
    char path[64];
    snprintf(path, sizeof path, "config/messages.%s.yaml", cfg->locale);
    const struct embedded_file *f = embedded_find(path);
    if (!f) {
        error_set(err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0, "locale: no catalogue %s", path);
        return NULL;
    }
    return messages_parse(path, f->data, f->len, err);
}

static bool daemon_start(struct daemon *d, bool until_drained, struct error *err) {
    int64_t lease_owner = draw_number();
    for (size_t i = 0; i < d->cfg->threshold_count; i++)
        metrics_expect(d->metrics, METRIC_DECISIONS, metric_decision(STATUS_WARNING, d->cfg->thresholds[i]));
    const struct monitor_setup monitored = {.cfg = d->cfg, .metrics = d->metrics, .recent = d->recent};
    d->monitor = monitor_start(&monitored, err); /* first: a port in use is said before anything is joined */
    if (!d->monitor)
        return false;
    d->messages = load_messages(d->cfg, err);
    if (!d->messages || (until_drained && !(d->drain = drain_new(d->cfg, err))))
        return false;
    d->relay = relay_start(d->cfg, lease_owner, d->metrics, err);
    if (!d->relay)
        return false;
    d->pauses = pauses_start(d->cfg, err);
    if (!d->pauses)
        return false;
    d->ops = ops_start(d->cfg, d->metrics, err);
    if (!d->ops)
        return false;
    const struct worker_shared shared = {.cfg = d->cfg,
                                         .messages = d->messages,
                                         .relay = d->relay,
                                         .pauses = d->pauses,
                                         .metrics = d->metrics,
                                         .recent = d->recent,
                                         .lease_owner = lease_owner};
    d->workers = mem_zero((size_t)d->cfg->workers, sizeof *d->workers);
    for (int i = 0; i < d->cfg->workers; i++) {
        d->workers[i] = worker_start(&shared, i, err);
        if (!d->workers[i])
            return false;
        d->worker_count++;
    }
    monitor_watch(d->monitor, d->workers, d->worker_count);
    monitor_started(d->monitor);
    return true;
}

/* Stops and frees everything. False when something didn't end in time: it's left as it is. */
static bool daemon_stop(struct daemon *d) {
    int64_t deadline = watch_deadline(d->watch);
    int64_t rest = d->cfg->shutdown.deadline_ms / 4 < 5000 ? d->cfg->shutdown.deadline_ms / 4 : 5000;
    bool ended = true;
    if (d->monitor)
        monitor_watch(d->monitor, NULL, 0);
    pauses_stop(d->pauses);
    if (d->ops)
        ops_stop(d->ops);
    for (size_t i = 0; i < d->worker_count; i++)
        worker_stop(d->workers[i], deadline - rest, deadline - rest / 4 * 3);
    for (size_t i = 0; i < d->worker_count; i++)
        ended = worker_join(d->workers[i], deadline - LAST_WORDS_MS) && ended;
    if (ended && d->relay) { /* a settler that goes on still uses it */
        relay_stop(d->relay, deadline - rest / 2);
        ended = relay_join(d->relay, deadline - LAST_WORDS_MS);
    }
    ended = ended && pauses_join(d->pauses, deadline - LAST_WORDS_MS); /* workers ask it */
    if (ended && d->ops)
        ended = ops_join(d->ops, deadline - LAST_WORDS_MS);
    if (!ended)
        return false;
    free(d->workers);
    drain_free(d->drain);
    messages_free(d->messages);
    return true;
}

static void log_progress(const struct daemon *d, const char *event) {
    const struct metrics *m = d->metrics;
    LOG(LOG_INFO, event, LOG_I("settled", status_outcomes(m, OUTCOME_SETTLED)),
        LOG_I("blocked", status_outcomes(m, OUTCOME_BLOCKED)),
        LOG_I("duplicate", status_outcomes(m, OUTCOME_DUPLICATE)),
        LOG_I("rejected", status_outcomes(m, OUTCOME_REJECTED)),
        LOG_I("ignored", status_outcomes(m, OUTCOME_IGNORED)),
        LOG_I("batches", metrics_total(m, METRIC_BATCH_EVENTS)),
        LOG_I("came_back", metrics_total(m, METRIC_CAME_BACK)),
        LOG_I("redecided", metrics_total(m, METRIC_REDECIDED)),
        LOG_I("warmed", metrics_total(m, METRIC_WARMUPS)),
        LOG_I("lock_retries", metrics_get(m, METRIC_RETRIES, METRIC_RETRY_DEADLOCK) +
                                  metrics_get(m, METRIC_RETRIES, METRIC_RETRY_LOCK_WAIT)),
        LOG_I("refused", metrics_total(m, METRIC_REFUSED)), LOG_I("fenced", metrics_total(m, METRIC_FENCED)),
        LOG_I("misplaced_key", metrics_total(m, METRIC_MISPLACED_KEY)),
        LOG_I("published", metrics_total(m, METRIC_PUBLISHED)),
        LOG_I("publish_failed", metrics_total(m, METRIC_PUBLISH_FAILED)), LOG_I("log_lines_lost", log_lost()),
        LOG_I("uptime_ms", clock_monotonic_ms() - d->started_ms));
}

static enum drain_state drained(struct daemon *d, int64_t *next_check) {
    int64_t now = clock_monotonic_ms();
    struct error err = {0};
    if (!d->drain || now < *next_check)
        return DRAIN_ON;
    enum drain_state state = drain_check(d->drain, d->workers, d->worker_count, d->pauses, &err);
    if (err.area != ERROR_NONE)
        LOG(LOG_WARN, "drain_check_waiting", LOG_E(&err));
    *next_check = now + DRAIN_CHECK_MS;
    return state;
}

/* Waits for a signal or for the end of the work; says which by how far that is. */
static enum drain_state daemon_wait(struct daemon *d) {
    int64_t next_progress = d->started_ms + PROGRESS_MS, next_check = 0;
    heartbeat_begin("main", -1);
    for (;;) {
        heartbeat_beat();
        int signal = watch_wait(d->watch, TICK_MS);
        enum drain_state state = signal ? DRAIN_ON : drained(d, &next_check);
        if (signal || state != DRAIN_ON) {
            LOG(LOG_INFO, "stopping",
                LOG_S("reason", signal                  ? strsignal(signal)
                                : state == DRAIN_PAUSED ? "drained, but for paused partitions"
                                                        : "drained"));
            heartbeat_end(); /* the end has a deadline of its own */
            return state;
        }
        if (watch_take_reload(d->watch))
            reload_log_level(d->config_path, d->cfg);
        log_tick();
        int64_t now = clock_monotonic_ms();
        if (now >= next_progress) {
            log_progress(d, "progress");
            next_progress = now + PROGRESS_MS; /* one line also after a long sleep */
        }
    }
}

/* What is paused stays unsettled for ever: who waits for the end must hear of it. */
static int drained_but_paused(const struct daemon *d) {
    char partitions[128], why[192];
    drain_say_paused(d->drain, partitions, sizeof partitions);
    snprintf(why, sizeof why, "all is settled but what lies on paused partitions (%s)", partitions);
    cli_error("run", "paused", why, "`tallyd resume`, and run again");
    return EXIT_NOT_DONE;
}

static int run_daemon(const char *config_path, struct config *cfg, bool until_drained) {
    struct error err = {0};
    int code = EXIT_OK;
    struct daemon d = {.config_path = config_path,
                       .cfg = cfg,
                       .metrics = metrics_new(),
                       .recent = recent_new(),
                       .started_ms = clock_monotonic_ms()};
    d.watch = watch_start(cfg->shutdown.deadline_ms, EXIT_DEADLINE, &err);
    bool started = d.watch && daemon_start(&d, until_drained, &err);
    if (started) {
        LOG(LOG_INFO, "started", LOG_S("group_id", cfg->kafka.group_id),
            LOG_S("topic", cfg->kafka.usage_topic), LOG_I("workers", cfg->workers),
            LOG_S("librdkafka", rd_kafka_version_str()));
        if (daemon_wait(&d) == DRAIN_PAUSED)
            code = drained_but_paused(&d);
    } else {
        cli_error("run", error_area_name(err.area), err.text, NULL);
    }
    if (!d.watch) {
        metrics_free(d.metrics);
        recent_free(d.recent);
        return cli_exit_code(&err);
    }
    monitor_stopping(d.monitor); /* first of all: nobody is to be sent here any more */
    fault_at("main.shutdown");
    bool ended = daemon_stop(&d);
    bool told = ended && monitor_stop(d.monitor, watch_deadline(d.watch) - LAST_WORDS_MS);
    log_flush();
    log_progress(&d, "stopped");
    if (!ended) {
        LOG(LOG_ERROR, "deadline_passed", LOG_I("deadline_ms", cfg->shutdown.deadline_ms));
        log_flush();          /* of those threads */
        _exit(EXIT_DEADLINE); /* threads still use everything */
    }
    code = started ? code : cli_exit_code(&err);
    if (!told)
        _exit(code); /* all is done, but a probe of a dependency that hangs still uses the configuration */
    watch_end(d.watch);
    metrics_free(d.metrics);
    recent_free(d.recent);
    return code;
}

/* Who sends SIGHUP wants another log level, and not the process' end because it came too early for that. */
static void hold_hangups(void) {
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &hangup, NULL);
}

int cli_run(int argc, char **argv) {
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'}, {"until-drained", no_argument, NULL, 'd'}, {0}};
    const char *path = NULL;
    bool until_drained = false;
    int c;
    while ((c = cli_option(argc, argv, ":c:", options)) != -1) {
        if (c == 'c')
            path = optarg;
        else if (c == 'd')
            until_drained = true;
        else
            return EXIT_USAGE;
    }
    if (!path)
        return cli_usage("run", "-c", "must name the configuration");
    if (optind < argc)
        return cli_usage("run", argv[optind], "isn't an option");
    struct config *cfg = cli_config("run", path);
    if (!cfg)
        return EXIT_CONFIG;
    log_init(STDOUT_FILENO, cfg->log_level);
    log_collapse(REPEAT_WINDOW_MS);
    hold_hangups();
    int code = check_dependencies(cfg);
    if (code == EXIT_OK)
        code = run_daemon(path, cfg, until_drained);
    config_free(cfg);
    return code;
}
