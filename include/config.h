/* SPDX-License-Identifier: MIT */
/* The configuration: one YAML file, read by one table (src/config_keys.c) that
 * gives each key its name, type, default, bounds and meaning. config/tallyd.yaml
 * documents every key. Immutable once loaded, so threads share it. */
#ifndef TALLYD_CONFIG_H
#define TALLYD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "error.h"
#include "log.h"

#define CONFIG_THRESHOLDS_MAX 16

/* Kafka's client knows about 130 properties; the largest values are certificates in PEM. */
#define CONFIG_PROPERTIES_MAX 200
#define CONFIG_PROPERTY_NAME_MAX 128
#define CONFIG_PROPERTY_VALUE_MAX 65536

/* An entry of kafka.properties, not looked into: kafka_properties_check does. */
struct config_property {
    char *name;  /* owned */
    char *value; /* owned; wiped when freed */
    size_t line; /* in the file, for errors that are found later */
    bool secret; /* never printed */
};

enum config_tls {
    CONFIG_TLS_DISABLED,        /* clear text */
    CONFIG_TLS_REQUIRED,        /* nothing is read or written without TLS; whose it is isn't asked */
    CONFIG_TLS_VERIFY_IDENTITY, /* TLS with whom the certificate names, known before the login */
};

struct config {
    char *file; /* what errors that are found later call the file */
    struct {
        char *brokers;                   /* kafka.brokers: host:port[,…] */
        char *client_id;                 /* kafka.client_id */
        char *group_id;                  /* kafka.group_id */
        char *usage_topic;               /* kafka.topics.usage */
        char *notification_topic;        /* kafka.topics.notification */
        char *dlt_topic;                 /* kafka.topics.dlt */
        int64_t session_timeout_ms;      /* kafka.session_timeout_ms */
        int64_t max_poll_interval_ms;    /* kafka.max_poll_interval_ms */
        int64_t auto_commit_interval_ms; /* kafka.auto_commit_interval_ms */
        int64_t fetch_wait_max_ms;       /* kafka.fetch_wait_max_ms */
        int64_t message_timeout_ms;      /* kafka.message_timeout_ms: from producing to the ack */
        bool skip_lost_offsets; /* kafka.skip_lost_offsets: go on where the log lost records nobody settled */
        bool accept_recreated_topic; /* kafka.accept_recreated_topic: read a topic that was made anew */
        struct config_property *properties; /* kafka.properties, in the order of the file */
        size_t property_count;
    } kafka;
    struct {
        char *host; /* redis.host */
        int64_t port;
        int64_t database;
        char *username; /* redis.username: ACL user, "" for the default one */
        char *password; /* redis.password, "" for none; secret */
        bool tls;       /* redis.tls: false, or the configuration is refused */
        int64_t connect_timeout_ms;
        int64_t timeout_ms; /* redis.timeout_ms: for one pipeline as a whole */
    } redis;
    struct {
        char *host; /* mysql.host */
        int64_t port;
        char *socket; /* mysql.socket: path, "" for TCP */
        char *user;
        char *password; /* secret */
        char *database;
        enum config_tls tls_mode; /* mysql.tls.mode */
        char *tls_ca, *tls_cert,
            *tls_key; /* mysql.tls.…: absolute paths, "" for none; cert and key together */
        int64_t connect_timeout_ms;
        int64_t timeout_ms;              /* mysql.timeout_ms: for one read or write on the connection */
        int64_t lock_wait_timeout_ms;    /* mysql.lock_wait_timeout_ms: innodb_lock_wait_timeout */
        int64_t session_wait_timeout_ms; /* mysql.session_wait_timeout_ms: wait_timeout */
    } mysql;
    int64_t workers; /* workers: group members in this process */
    struct {
        int64_t max_events; /* batch.max_events */
        int64_t max_bytes;  /* batch.max_bytes, of record values */
        int64_t linger_ms;  /* batch.linger_ms: how long a lone event waits for company */
    } batch;
    struct {
        int64_t max_bytes;       /* event.max_bytes */
        int64_t max_future_ms;   /* event.max_future_ms */
        int64_t max_past_months; /* event.max_past_months */
    } event;
    char *zone;                            /* zone: IANA name */
    char *locale;                          /* locale: ko or en */
    int thresholds[CONFIG_THRESHOLDS_MAX]; /* thresholds: percent left, ascending, no repeats */
    size_t threshold_count;
    int64_t dedup_ttl_seconds;     /* dedup.ttl_seconds */
    int64_t cache_max_age_seconds; /* cache.max_age_seconds */
    struct {
        int64_t lease_ms;          /* outbox.lease_ms: longer than kafka.message_timeout_ms */
        int64_t sweep_interval_ms; /* outbox.sweep_interval_ms */
        int64_t queue_rows;        /* outbox.queue_rows: rows handed over in memory */
        int64_t max_attempts; /* outbox.max_attempts: tries before FAILED, neither outages nor final errors */
    } outbox;
    struct {
        int64_t interval_ms;         /* maintain.interval_ms */
        int64_t sent_retention_days; /* maintain.sent_retention_days: 0: for ever */
        int64_t usage_months;        /* maintain.usage_months: kept before the current one; 0: all */
        int64_t batch_rows;          /* maintain.batch_rows: looked at, and pruned, in one transaction */
        int64_t pause_ms;            /* maintain.pause_ms: after each of them */
    } maintain;
    struct {
        int64_t deadline_ms; /* shutdown.deadline_ms: SIGTERM to exit, at most */
    } shutdown;
    struct {
        int64_t interval_ms;        /* retry.interval_ms: pause between tries while a dependency is away */
        int64_t report_interval_ms; /* retry.report_interval_ms: how often the log says what is waited for */
    } retry;
    struct {
        char *address; /* http.address: "" for no server */
        int64_t port;  /* http.port: 0 for any that is free */
    } http;
    struct {
        int64_t probe_interval_ms; /* health.probe_interval_ms: how often each dependency is tried */
        int64_t probe_timeout_ms;  /* health.probe_timeout_ms: a try that takes longer has failed */
        int64_t stuck_after_ms; /* health.stuck_after_ms: a partition with lag that didn't move for so long */
        int64_t hung_after_ms;  /* health.hung_after_ms: a thread that gave no sign of life for so long */
    } health;
    enum log_level log_level; /* log.level */
};

enum config_type {
    CONFIG_STRING,     /* char *: printable ASCII; ${NAME} is the environment's */
    CONFIG_SECRET,     /* char *: one line; the same, or file:PATH; never printed, wiped when freed */
    CONFIG_INT,        /* int64_t */
    CONFIG_BOOL,       /* bool */
    CONFIG_CHOICE,     /* an enum: one of a few words */
    CONFIG_PERCENTS,   /* thresholds with threshold_count */
    CONFIG_PROPERTIES, /* kafka.properties with property_count */
};

struct config_rule; /* what a value must look like; config_keys.h */

struct config_key {
    const char *name; /* dotted: outbox.lease_ms is lease_ms in the section outbox */
    enum config_type type;
    size_t offset;        /* in struct config */
    const char *fallback; /* the default, as it would stand in the file */
    int64_t min, max; /* of a number (of each of CONFIG_PERCENTS); of a text's bytes, max 0 for no bound */
    int64_t step;     /* CONFIG_INT: must be a multiple of it */
    const struct config_rule *rule; /* CONFIG_STRING, CONFIG_SECRET and CONFIG_CHOICE */
    const char *about;              /* its meaning in one sentence without a full stop */
};

/* The table; sections and their keys stand together. */
const struct config_key *config_keys(size_t *count);

/* Reads `path`. Every error names file, line, key and reason ("tallyd.yaml:12:
 * batch.max_events: must be a whole number, 1 … 10000, is 0"); the first one is reported.
 * Returns a new configuration, freed with config_free, or NULL. */
struct config *config_load(const char *path, struct error *err) __attribute__((warn_unused_result));

/* The same from text already read; `name` stands for the path in errors. */
struct config *config_parse(const char *name, const char *yaml, size_t len, struct error *err)
    __attribute__((warn_unused_result));

/* Records "FILE:LINE: kafka.properties.NAME: reason", or of all of them, when there are any, with the line of
 * the first one where `p` is NULL. Always false. */
bool config_property_error(const struct config *c, const struct config_property *p, struct error *err,
                           const char *reason);

/* Appends the value of a key as YAML; a secret that is set as ********. */
void config_print_value(const struct config *c, const struct config_key *key, struct buf *out);

/* Appends every key with its value as YAML that reads back to the same
 * configuration, secrets apart. */
void config_print(const struct config *c, struct buf *out);

/* Frees a configuration; NULL is allowed. Secrets are wiped. */
void config_free(struct config *c);

#endif
