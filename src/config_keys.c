/* SPDX-License-Identifier: MIT */
#include "config_keys.h"

#include <arpa/inet.h>
#include <string.h>

static bool is_secret(const char *s) {
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7F)
            return false;
    }
    return true;
}

/* ASCII, because these texts go into logs, SQL and other systems' names. */
static bool is_text(const char *s) {
    for (; *s; s++) {
        if (*s < 0x20 || *s > 0x7E)
            return false;
    }
    return true;
}

static bool is_word(const char *s) {
    return is_text(s) && !strchr(s, ' ');
}

static bool is_topic(const char *s) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return s[strspn(s, allowed)] == '\0' && strcmp(s, ".") != 0 && strcmp(s, "..") != 0;
}

/* Plausible only; the system's zone files are asked when the process starts. The
 * name becomes part of a path there. */
static bool is_zone(const char *s) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";
    size_t len = strlen(s);
    return len && s[strspn(s, allowed)] == '\0' && ((s[0] | 0x20) >= 'a' && (s[0] | 0x20) <= 'z') &&
           s[len - 1] != '/' && !strstr(s, "//");
}

static bool is_locale(const char *s) {
    return strcmp(s, "ko") == 0 || strcmp(s, "en") == 0;
}

/* The client library would look for a relative one where the process happens to stand. */
static bool is_path(const char *s) {
    return is_text(s) && (*s == '\0' || *s == '/');
}

/* No names: what one means can change, and whoever listens on more than was meant isn't told. */
static bool is_listen_address(const char *s) {
    unsigned char bytes[16];
    return *s == '\0' || inet_pton(AF_INET, s, bytes) == 1 || inet_pton(AF_INET6, s, bytes) == 1;
}

static const struct config_rule secret_rule = {is_secret, "one line of text", NULL};
static const struct config_rule text_rule = {is_text, "printable ASCII", NULL};
static const struct config_rule word_rule = {is_word, "printable ASCII without spaces", NULL};
static const struct config_rule brokers_rule = {
    is_word, "host:port, or several with commas and no spaces between", NULL};
static const struct config_rule topic_rule = {is_topic, "a Kafka topic name (A–Z a–z 0–9 . _ -)", NULL};
static const struct config_rule zone_rule = {is_zone, "the name of a time zone such as Asia/Seoul", NULL};
static const struct config_rule locale_rule = {is_locale, "ko or en", NULL};
static const struct config_rule path_rule = {is_path, "an absolute path in printable ASCII", NULL};
static const struct config_rule listen_rule = {is_listen_address, "an IPv4 or IPv6 address, or \"\" for none",
                                               NULL};

/* In the order of the enums. */
static const char *const level_words[] = {"debug", "info", "warn", "error", NULL};
static const char *const tls_words[] = {"disabled", "required", "verify_identity", NULL};
static const struct config_rule level_rule = {NULL, "debug, info, warn or error", level_words};
static const struct config_rule tls_rule = {NULL, "disabled, required or verify_identity", tls_words};

#define AT(member) offsetof(struct config, member)
#define TEXT(name, member, fallback, min, max, rule, about)                                                  \
    { name, CONFIG_STRING, AT(member), fallback, min, max, 0, &rule, about }
#define SECRET(name, member, about)                                                                          \
    { name, CONFIG_SECRET, AT(member), "\"\"", 0, 1024, 0, &secret_rule, about }
#define CHOICE(name, member, fallback, rule, about)                                                          \
    { name, CONFIG_CHOICE, AT(member), fallback, 0, 0, 0, &rule, about }
#define BOOL(name, member, fallback, about)                                                                  \
    { name, CONFIG_BOOL, AT(member), fallback, 0, 0, 0, NULL, about }
#define INT(name, member, fallback, min, max, step, about)                                                   \
    { name, CONFIG_INT, AT(member), fallback, min, max, step, NULL, about }

/* Over what no key shortens: 10 s for a broker's answer, 5 s for leaving a group. */
#define HUNG_MIN_MS 15000

/* Bounds keep out what can only be a slip; where one has another reason, `about`
 * or the sample file says it. Kafka's lie within librdkafka's own. Steps of
 * 1000: what takes the figure on the other side counts in whole seconds. */
/* clang-format off */
static const struct config_key keys[] = {
    TEXT("kafka.brokers", kafka.brokers, "localhost:9092", 1, 1024, brokers_rule,
         "brokers to find the cluster by"),
    TEXT("kafka.client_id", kafka.client_id, "tallyd", 1, 191, word_rule,
         "name of this client in the brokers' logs and quotas"),
    TEXT("kafka.group_id", kafka.group_id, "tallyd", 1, 191, word_rule,
         "consumer group, and the ledger's name for it"),
    TEXT("kafka.topics.usage", kafka.usage_topic, "usage-events", 1, 249, topic_rule,
         "topic the usage events are read from"),
    TEXT("kafka.topics.notification", kafka.notification_topic, "notification-events", 1, 249, topic_rule,
         "topic the alerts are written to"),
    TEXT("kafka.topics.dlt", kafka.dlt_topic, "usage-events.DLT", 1, 249, topic_rule,
         "topic the rejected records are written to"),
    INT("kafka.session_timeout_ms", kafka.session_timeout_ms, "45000", 1000, 3600000, 1,
        "a silent member's partitions go to others after this"),
    INT("kafka.max_poll_interval_ms", kafka.max_poll_interval_ms, "300000", 1000, 86400000, 1,
        "a member that is stuck leaves the group after this"),
    INT("kafka.auto_commit_interval_ms", kafka.auto_commit_interval_ms, "1000", 10, 60000, 1,
        "how often the offsets of settled records are committed"),
    INT("kafka.fetch_wait_max_ms", kafka.fetch_wait_max_ms, "50", 1, 10000, 1,
        "how long a broker holds a fetch it has nothing for"),
    INT("kafka.message_timeout_ms", kafka.message_timeout_ms, "15000", 1000, 600000, 1,
        "how long a produced record waits for its acknowledgement"),
    BOOL("kafka.skip_lost_offsets", kafka.skip_lost_offsets, "false",
         "go on where the log has lost records that nobody settled"),
    BOOL("kafka.accept_recreated_topic", kafka.accept_recreated_topic, "false",
         "read a topic that was made anew from its beginning"),
    {"kafka.properties", CONFIG_PROPERTIES, AT(kafka.properties), "{}", 0, 0, 0, NULL,
     "handed to Kafka's client as they are: TLS, SASL and whatever else it knows"},

    TEXT("redis.host", redis.host, "localhost", 1, 255, word_rule, "host name or address"),
    INT("redis.port", redis.port, "6379", 1, 65535, 1, "TCP port"),
    INT("redis.database", redis.database, "0", 0, 65535, 1, "number of the database"),
    TEXT("redis.username", redis.username, "\"\"", 0, 255, word_rule, "ACL user, \"\" for the default one"),
    SECRET("redis.password", redis.password, "password, \"\" for none"),
    BOOL("redis.tls", redis.tls, "false", "must be false: the client library can't do TLS, a local stunnel can"),
    INT("redis.connect_timeout_ms", redis.connect_timeout_ms, "3000", 10, 600000, 1,
        "how long connecting may take"),
    INT("redis.timeout_ms", redis.timeout_ms, "3000", 10, 600000, 1,
        "how long one pipeline of commands may take as a whole"),

    TEXT("mysql.host", mysql.host, "localhost", 1, 255, word_rule, "host name or address"),
    INT("mysql.port", mysql.port, "3306", 1, 65535, 1, "TCP port"),
    /* 107 bytes: sun_path of a socket's address, and its NUL. */
    TEXT("mysql.socket", mysql.socket, "\"\"", 0, 107, text_rule, "path of a Unix socket, \"\" for TCP"),
    TEXT("mysql.user", mysql.user, "tallyd", 1, 128, text_rule, "user"),
    SECRET("mysql.password", mysql.password, "password, \"\" for none"),
    TEXT("mysql.database", mysql.database, "tallyd", 1, 64, text_rule, "database (schema)"),
    CHOICE("mysql.tls.mode", mysql.tls_mode, "disabled", tls_rule,
           "clear text, TLS or nothing, or TLS with the server that the certificate names or nothing"),
    TEXT("mysql.tls.ca", mysql.tls_ca, "\"\"", 0, 1023, path_rule,
         "file (PEM) of the authorities that may have signed the server's certificate, \"\" for none"),
    TEXT("mysql.tls.cert", mysql.tls_cert, "\"\"", 0, 1023, path_rule,
         "file (PEM) of the client's own certificate, \"\" for none"),
    TEXT("mysql.tls.key", mysql.tls_key, "\"\"", 0, 1023, path_rule, "file (PEM) of its key, \"\" for none"),
    INT("mysql.connect_timeout_ms", mysql.connect_timeout_ms, "5000", 1000, 600000, 1000,
        "how long connecting may take"),
    INT("mysql.timeout_ms", mysql.timeout_ms, "30000", 1000, 600000, 1000,
        "how long one read or write on the connection may take"),
    INT("mysql.lock_wait_timeout_ms", mysql.lock_wait_timeout_ms, "5000", 1000, 600000, 1000,
        "how long a statement waits for another transaction's rows"),
    INT("mysql.session_wait_timeout_ms", mysql.session_wait_timeout_ms, "60000", 1000, 28800000, 1000,
        "the server drops a client that is silent for this long, and with it its locks"),

    INT("workers", workers, "1", 1, 64, 1, "members of the consumer group in this process"),

    INT("batch.max_events", batch.max_events, "4000", 1, 10000, 1, "most events settled in one transaction"),
    INT("batch.max_bytes", batch.max_bytes, "4194304", 1024, 67108864, 1, "most bytes of record values in one batch"),
    INT("batch.linger_ms", batch.linger_ms, "2", 0, 1000, 1, "how long a lone event waits for company"),

    INT("event.max_bytes", event.max_bytes, "65536", 1024, 900000, 1,
        "a larger record is rejected; under a topic's usual 1 MB by the room its key and headers need in the DLT"),
    INT("event.max_future_ms", event.max_future_ms, "300000", 0, 86400000, 1,
        "how far an event may lie ahead of its record's timestamp"),
    INT("event.max_past_months", event.max_past_months, "1", 0, 12, 1,
        "how many months an event may lie before its record's month"),

    TEXT("zone", zone, "Asia/Seoul", 1, 64, zone_rule, "time zone of months, block times and messages"),
    TEXT("locale", locale, "ko", 0, 0, locale_rule, "language of the messages: ko or en"),
    {"thresholds", CONFIG_PERCENTS, 0, "[50, 30, 10]", 1, 99, 0, NULL,
     "percent left of the family's quota at which people are told"},

    INT("dedup.ttl_seconds", dedup_ttl_seconds, "3600", 1, 2678400, 1,
        "how long Redis remembers an event's result; MySQL remembers for ever"),
    /* A day: a month's keys live at least that long after they were warmed. */
    INT("cache.max_age_seconds", cache_max_age_seconds, "3600", 1, 86400, 1,
        "changes made in MySQL by others count after this at the latest"),

    INT("outbox.lease_ms", outbox.lease_ms, "30000", 1000, 3600000, 1,
        "how long an alert is its publisher's alone"),
    INT("outbox.sweep_interval_ms", outbox.sweep_interval_ms, "3000", 10, 3600000, 1,
        "how often alerts are looked for whose lease ran out"),
    INT("outbox.queue_rows", outbox.queue_rows, "10000", 1, 1000000, 1,
        "alerts handed over in memory; more of them wait for the sweep"),
    INT("outbox.max_attempts", outbox.max_attempts, "10", 1, 1000, 1,
        "tries before FAILED, for errors that are neither an outage nor final"),

    INT("maintain.interval_ms", maintain.interval_ms, "3600000", 10, 86400000, 1,
        "how often the daemon looks for rows that nobody needs any more"),
    INT("maintain.sent_retention_days", maintain.sent_retention_days, "30", 0, 3650, 1,
        "sent alerts leave the outbox after this, 0 for never"),
    INT("maintain.usage_months", maintain.usage_months, "0", 0, 1200, 1,
        "usage rows of months before so many are closed and pruned, 0 for never"),
    INT("maintain.batch_rows", maintain.batch_rows, "1000", 1, 10000, 1,
        "most rows looked at and pruned in one transaction"),
    INT("maintain.pause_ms", maintain.pause_ms, "50", 0, 60000, 1, "pause after each of them"),

    INT("shutdown.deadline_ms", shutdown.deadline_ms, "30000", 1000, 600000, 1,
        "from SIGTERM to exit at most"),

    INT("retry.interval_ms", retry.interval_ms, "1000", 10, 60000, 1,
        "pause between tries while a dependency is away"),
    INT("retry.report_interval_ms", retry.report_interval_ms, "10000", 10, 3600000, 1,
        "how often the log says what is waited for"),

    TEXT("http.address", http.address, "127.0.0.1", 0, 0, listen_rule,
         "address that metrics, health and the page are served on, \"\" for no server"),
    INT("http.port", http.port, "9464", 0, 65535, 1, "TCP port, 0 for any that is free"),

    INT("health.probe_interval_ms", health.probe_interval_ms, "1000", 50, 60000, 1,
        "how often each dependency is tried"),
    INT("health.probe_timeout_ms", health.probe_timeout_ms, "2000", 50, 60000, 1,
        "a dependency that hasn't answered a try after this is down"),
    INT("health.stuck_after_ms", health.stuck_after_ms, "60000", 100, 86400000, 1,
        "a partition with lag that hasn't moved for this long is stuck"),
    INT("health.hung_after_ms", health.hung_after_ms, "120000", HUNG_MIN_MS, 86400000, 1,
        "a thread that gave no sign of life for this long hangs; longer than any single wait"),

    CHOICE("log.level", log_level, "info", level_rule, "least important lines that are written"),
};
/* clang-format on */

#define KEY_COUNT (sizeof keys / sizeof *keys)
_Static_assert(KEY_COUNT <= CONFIG_KEYS_MAX, "raise CONFIG_KEYS_MAX");
/* A choice is written as an unsigned int, which is what an enum without negative values is. */
_Static_assert(sizeof(enum log_level) == sizeof(unsigned) && sizeof(enum config_tls) == sizeof(unsigned),
               "an enum of another size");

/* A thread gives a sign of life before each call that waits. This is for what it does besides, and for names
 * that are looked up in the call. */
#define HUNG_MARGIN_MS 5000
#define HUNG_WHY "otherwise a thread that waits for an answer counts as hung"

/* What must hold between two values. */
static const struct config_order orders[] = {
    {"outbox.lease_ms", "kafka.message_timeout_ms", NULL, 5000, true,
     "a lease must outlive the publishing it covers", false},
    {"kafka.max_poll_interval_ms", "kafka.session_timeout_ms", NULL, 0, false, "Kafka's client wants it so",
     false},
    {"mysql.timeout_ms", "mysql.lock_wait_timeout_ms", NULL, 0, true,
     "otherwise a wait for a lock looks like a lost connection", false},
    /* What a thread may wait for in one call: connecting to MySQL is one, the answer to its login included.
     */
    {"health.hung_after_ms", "mysql.timeout_ms", "mysql.connect_timeout_ms", HUNG_MARGIN_MS, true, HUNG_WHY,
     false},
    {"health.hung_after_ms", "redis.timeout_ms", NULL, HUNG_MARGIN_MS, true, HUNG_WHY, false},
    {"health.hung_after_ms", "redis.connect_timeout_ms", NULL, HUNG_MARGIN_MS, true, HUNG_WHY, false},
    {"health.hung_after_ms", "retry.interval_ms", NULL, HUNG_MARGIN_MS, true, HUNG_WHY, false},
    {"maintain.usage_months", "event.max_past_months", NULL, 0, false,
     "a month that events are taken for can't be closed", true},
};

const struct config_key *config_keys(size_t *count) {
    *count = KEY_COUNT;
    return keys;
}

const struct config_order *config_orders(size_t *count) {
    *count = sizeof orders / sizeof *orders;
    return orders;
}

const struct config_key *config_find_key(const char *name) {
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    }
    return NULL;
}

bool config_is_section(const char *name) {
    size_t len = strlen(name);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strncmp(keys[i].name, name, len) == 0 && keys[i].name[len] == '.')
            return true;
    }
    return false;
}
