/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config_yaml.h"

struct config_rule {
    bool (*accepts)(const char *text);
    const char *must; /* "must be …" */
};

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

static const struct config_rule secret_rule = {is_secret, "one line of text"};
static const struct config_rule text_rule = {is_text, "printable ASCII"};
static const struct config_rule word_rule = {is_word, "printable ASCII without spaces"};
static const struct config_rule brokers_rule = {is_word,
                                                "host:port, or several with commas and no spaces between"};
static const struct config_rule topic_rule = {is_topic, "a Kafka topic name (A–Z a–z 0–9 . _ -)"};
static const struct config_rule zone_rule = {is_zone, "the name of a time zone such as Asia/Seoul"};
static const struct config_rule locale_rule = {is_locale, "ko or en"};

#define AT(member) offsetof(struct config, member)
#define TEXT(name, member, fallback, min, max, rule, about)                                                  \
    { name, CONFIG_STRING, AT(member), fallback, min, max, 0, &rule, about }
#define SECRET(name, member, about)                                                                          \
    { name, CONFIG_SECRET, AT(member), "\"\"", 0, 1024, 0, &secret_rule, about }
#define INT(name, member, fallback, min, max, step, about)                                                   \
    { name, CONFIG_INT, AT(member), fallback, min, max, step, NULL, about }

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
    {"kafka.skip_lost_offsets", CONFIG_BOOL, AT(kafka.skip_lost_offsets), "false", 0, 0, 0, NULL,
     "go on where the log has lost records that nobody settled"},

    TEXT("redis.host", redis.host, "localhost", 1, 255, word_rule, "host name or address"),
    INT("redis.port", redis.port, "6379", 1, 65535, 1, "TCP port"),
    INT("redis.database", redis.database, "0", 0, 65535, 1, "number of the database"),
    TEXT("redis.username", redis.username, "\"\"", 0, 255, word_rule, "ACL user, \"\" for the default one"),
    SECRET("redis.password", redis.password, "password, \"\" for none"),
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
    INT("mysql.connect_timeout_ms", mysql.connect_timeout_ms, "5000", 1000, 600000, 1000,
        "how long connecting may take"),
    INT("mysql.timeout_ms", mysql.timeout_ms, "30000", 1000, 600000, 1000,
        "how long one read or write on the connection may take"),
    INT("mysql.lock_wait_timeout_ms", mysql.lock_wait_timeout_ms, "5000", 1000, 600000, 1000,
        "how long a statement waits for another transaction's rows"),
    INT("mysql.session_wait_timeout_ms", mysql.session_wait_timeout_ms, "60000", 1000, 28800000, 1000,
        "the server drops a client that is silent for this long, and with it its locks"),

    INT("workers", workers, "1", 1, 64, 1, "members of the consumer group in this process"),

    INT("batch.max_records", batch.max_records, "1000", 1, 10000, 1, "most records settled in one transaction"),
    INT("batch.max_bytes", batch.max_bytes, "4194304", 1024, 67108864, 1, "most bytes of record values in one batch"),
    INT("batch.linger_ms", batch.linger_ms, "5", 0, 1000, 1, "how long a lone event waits for company"),

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

    INT("shutdown.deadline_ms", shutdown.deadline_ms, "30000", 1000, 600000, 1,
        "from SIGTERM to exit at most"),

    INT("retry.interval_ms", retry.interval_ms, "1000", 10, 60000, 1,
        "pause between tries while a dependency is away"),
    INT("retry.report_interval_ms", retry.report_interval_ms, "10000", 10, 3600000, 1,
        "how often the log says what is waited for"),

    {"log.level", CONFIG_LEVEL, AT(log_level), "info", 0, 0, 0, NULL, "least important lines that are written"},
};
/* clang-format on */

#define KEY_COUNT (sizeof keys / sizeof *keys)

/* What must hold between two values. */
static const struct order {
    const char *larger, *smaller;
    int64_t by;  /* added to the smaller */
    bool strict; /* equal isn't enough */
    const char *why;
} orders[] = {
    {"outbox.lease_ms", "kafka.message_timeout_ms", 5000, true,
     "a lease must outlive the publishing it covers"},
    {"kafka.max_poll_interval_ms", "kafka.session_timeout_ms", 0, false, "Kafka's client wants it so"},
    {"mysql.timeout_ms", "mysql.lock_wait_timeout_ms", 0, true,
     "otherwise a wait for a lock looks like a lost connection"},
};

struct loader {
    const char *file;
    struct config *config;
    const struct config_node *given[KEY_COUNT]; /* where each key was set; borrowed */
    struct error *err;
};

const struct config_key *config_keys(size_t *count) {
    *count = KEY_COUNT;
    return keys;
}

static void *member(const struct config *c, const struct config_key *k) {
    return (char *)c + k->offset;
}

static char **member_text(const struct config *c, const struct config_key *k) {
    return member(c, k);
}

static void wipe_free(char *text) {
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

static const struct config_key *find_key(const char *name) {
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    }
    return NULL;
}

static bool is_section(const char *name) {
    size_t len = strlen(name);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strncmp(keys[i].name, name, len) == 0 && keys[i].name[len] == '.')
            return true;
    }
    return false;
}

/* ---- errors ---- */

static void append_must(struct buf *out, const struct config_key *k) {
    long long min = (long long)k->min, max = (long long)k->max;
    switch (k->type) {
    case CONFIG_STRING:
    case CONFIG_SECRET:
        buf_str(out, k->rule->must);
        if (k->max)
            buf_printf(out, ", %lld … %lld bytes", min, max);
        break;
    case CONFIG_INT:
        buf_printf(out, "a whole number, %lld … %lld", min, max);
        if (k->step > 1)
            buf_printf(out, " in steps of %lld", (long long)k->step);
        break;
    case CONFIG_BOOL:
        buf_str(out, "true or false");
        break;
    case CONFIG_LEVEL:
        buf_str(out, "debug, info, warn or error");
        break;
    case CONFIG_PERCENTS:
        buf_printf(out, "a list of 1 … %d whole numbers, each %lld … %lld", CONFIG_THRESHOLDS_MAX, min, max);
        break;
    }
}

static void append_found(struct buf *out, const struct config_key *k, const struct config_node *n) {
    char text[CONFIG_SHOWN_SIZE];
    if (n->kind != CONFIG_NODE_SCALAR) {
        buf_str(out, n->kind == CONFIG_NODE_LIST ? n->first ? "a list" : "an empty list" : "a mapping");
    } else if (config_node_is_null(n)) {
        buf_str(out, "without a value");
        if (k->rule && k->max && !k->min)
            buf_str(out, "; write \"\" for none");
    } else if (k->type == CONFIG_SECRET) {
        buf_str(out, "something else (not shown)");
    } else {
        config_show(text, n->text);
        buf_printf(out, n->quoted ? "\"%s\" in quotes" : "%s", text);
    }
}

/* "must be X, is Y" */
static bool refuse(const struct loader *l, const struct config_key *k, const struct config_node *n) {
    struct buf reason = {0};
    buf_str(&reason, "must be ");
    append_must(&reason, k);
    buf_str(&reason, ", is ");
    append_found(&reason, k, n);
    config_node_error(l->file, n, l->err, "%s", buf_cstr(&reason));
    buf_free(&reason);
    return false;
}

/* How many letters to change, add or drop to get from a to b; large when one of them is too long to be a key.
 */
static size_t distance(const char *a, const char *b) {
    size_t row[64], m = strlen(a), n = strlen(b);
    if (m >= 64 || n >= 64)
        return 64;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

/* The key or section nearest to an unknown one into `out`; empty when none is near. */
static void nearest(const char *path, char out[64]) {
    size_t best = 4;
    out[0] = '\0';
    for (size_t i = 0; i < KEY_COUNT; i++) {
        for (const char *end = keys[i].name; end; end = *end ? strchr(end + 1, '.') : NULL) {
            char name[64];
            size_t len = end == keys[i].name ? strlen(end) : (size_t)(end - keys[i].name);
            snprintf(name, sizeof name, "%.*s", (int)len, keys[i].name);
            size_t d = distance(path, name);
            if (d < best && d * 2 < len) {
                best = d;
                memcpy(out, name, sizeof name);
            }
        }
    }
}

static bool unknown(const struct loader *l, const struct config_node *n, const char *path) {
    char near[64];
    if (strchr(n->key, '.') && find_key(path))
        return config_node_error(l->file, n, l->err,
                                 "unknown key; sections are nested here, not written with dots");
    nearest(path, near);
    return config_node_error(l->file, n, l->err, *near ? "unknown key; did you mean %s?" : "unknown key%s",
                             near);
}

/* ---- one value ---- */

/* Decimal digits with an optional minus: what else YAML calls a number (0x10, 1e3, 1_000, 010) reads
 * differently to different people. */
static bool parse_int(const struct config_node *n, int64_t *out) {
    if (n->kind != CONFIG_NODE_SCALAR || n->quoted)
        return false;
    bool negative = n->text[0] == '-';
    const char *s = n->text + negative;
    int64_t v = 0;
    if (*s == '\0' || (*s == '0' && s[1]))
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, (int64_t)10, &v) ||
            __builtin_sub_overflow(v, (int64_t)(*s - '0'), &v))
            return false;
    }
    if (!negative && v == INT64_MIN)
        return false;
    *out = negative ? v : -v;
    return true;
}

static bool set_text(struct loader *l, const struct config_key *k, const struct config_node *n) {
    char **at = member_text(l->config, k);
    if (n->kind != CONFIG_NODE_SCALAR || config_node_is_null(n) || !k->rule->accepts(n->text))
        return refuse(l, k, n);
    int64_t len = (int64_t)strlen(n->text);
    if (k->max && (len < k->min || len > k->max))
        return refuse(l, k, n);
    free(*at); /* the default: a key is set once */
    *at = mem_strdup(n->text);
    return true;
}

static bool set_int(struct loader *l, const struct config_key *k, const struct config_node *n) {
    int64_t v;
    if (!parse_int(n, &v) || v < k->min || v > k->max || v % k->step)
        return refuse(l, k, n);
    *(int64_t *)member(l->config, k) = v;
    return true;
}

static bool set_bool(struct loader *l, const struct config_key *k, const struct config_node *n) {
    bool plain = n->kind == CONFIG_NODE_SCALAR && !n->quoted;
    if (!plain || (strcmp(n->text, "true") != 0 && strcmp(n->text, "false") != 0))
        return refuse(l, k, n);
    *(bool *)member(l->config, k) = n->text[0] == 't';
    return true;
}

static bool set_level(struct loader *l, const struct config_key *k, const struct config_node *n) {
    if (n->kind != CONFIG_NODE_SCALAR || !log_level_parse(n->text, member(l->config, k)))
        return refuse(l, k, n);
    return true;
}

static bool set_percents(struct loader *l, const struct config_key *k, const struct config_node *list) {
    struct config *c = l->config;
    if (list->kind != CONFIG_NODE_LIST || !list->first)
        return refuse(l, k, list);
    c->threshold_count = 0;
    for (const struct config_node *n = list->first; n; n = n->next) {
        int64_t v;
        if (!parse_int(n, &v) || v < k->min || v > k->max)
            return refuse(l, k, n);
        size_t at = 0; /* where it goes, so that they ascend */
        while (at < c->threshold_count && c->thresholds[at] < v)
            at++;
        if (at < c->threshold_count && c->thresholds[at] == v)
            return config_node_error(l->file, n, l->err, "%d is in the list twice", (int)v);
        if (c->threshold_count == CONFIG_THRESHOLDS_MAX)
            return config_node_error(l->file, n, l->err, "must be at most %d numbers", CONFIG_THRESHOLDS_MAX);
        memmove(c->thresholds + at + 1, c->thresholds + at,
                (c->threshold_count - at) * sizeof *c->thresholds);
        c->thresholds[at] = (int)v;
        c->threshold_count++;
    }
    return true;
}

static bool set_value(struct loader *l, const struct config_key *k, const struct config_node *n) {
    switch (k->type) {
    case CONFIG_STRING:
    case CONFIG_SECRET:
        return set_text(l, k, n);
    case CONFIG_INT:
        return set_int(l, k, n);
    case CONFIG_BOOL:
        return set_bool(l, k, n);
    case CONFIG_LEVEL:
        return set_level(l, k, n);
    case CONFIG_PERCENTS:
        return set_percents(l, k, n);
    }
    abort();
}

/* ---- the whole ---- */

/* Defaults are read the way a file is, so they obey the same bounds; one that doesn't is a bug here. */
static void set_defaults(struct config *c) {
    for (size_t i = 0; i < KEY_COUNT; i++) {
        struct error err = {0};
        struct loader l = {.file = keys[i].name, .config = c, .err = &err};
        struct buf yaml = {0};
        buf_printf(&yaml, "default: %s", keys[i].fallback);
        struct config_node *root = config_yaml_parse(keys[i].name, yaml.data, yaml.len, &err);
        if (!root || !set_value(&l, &keys[i], root->first)) {
            fprintf(stderr, "tallyd: default of a key: %s\n", err.text);
            abort();
        }
        config_yaml_free(root);
        buf_free(&yaml);
    }
}

static bool read_map(struct loader *l, const struct config_node *map);

static bool read_key(struct loader *l, const struct config_node *n, const char *path) {
    const struct config_key *k = strchr(n->key, '.') ? NULL : find_key(path);
    if (!k && !is_section(path))
        return unknown(l, n, path);
    /* The ones before are different known keys, so this is short even in a hostile file. */
    for (const struct config_node *twin = n->parent->first; twin != n; twin = twin->next) {
        if (strcmp(twin->key, n->key) == 0)
            return config_node_error(l->file, n, l->err, "given twice, first in line %zu", twin->line);
    }
    if (k) {
        l->given[k - keys] = n;
        return set_value(l, k, n);
    }
    if (config_node_is_null(n)) /* all of its keys are commented out */
        return true;
    if (n->kind != CONFIG_NODE_MAP)
        return config_node_error(l->file, n, l->err, "must be a section with keys of its own, is %s",
                                 n->kind == CONFIG_NODE_LIST ? "a list" : "a single value");
    return read_map(l, n);
}

static bool read_map(struct loader *l, const struct config_node *map) {
    struct buf path = {0};
    bool ok = true;
    for (const struct config_node *n = map->first; ok && n; n = n->next) {
        buf_reset(&path);
        config_node_path(n, &path);
        ok = read_key(l, n, buf_cstr(&path));
    }
    buf_free(&path);
    return ok;
}

/* Of two keys that contradict each other the one that was set; the first when both were. Two defaults agree.
 */
static const struct config_node *to_blame(const struct loader *l, const struct config_key *a,
                                          const struct config_key *b) {
    return l->given[a - keys] ? l->given[a - keys] : l->given[b - keys];
}

static bool check_orders(const struct loader *l) {
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        const struct order *o = &orders[i];
        const struct config_key *larger = find_key(o->larger), *smaller = find_key(o->smaller);
        int64_t high = *(int64_t *)member(l->config, larger), low = *(int64_t *)member(l->config, smaller);
        char margin[32] = "";
        if (o->strict ? high > low + o->by : high >= low + o->by)
            continue;
        if (o->by)
            snprintf(margin, sizeof margin, " + %lld", (long long)o->by);
        return config_node_error(l->file, to_blame(l, larger, smaller), l->err,
                                 "%s (%lld) must be %s %s (%lld)%s: %s", o->larger, (long long)high,
                                 o->strict ? "more than" : "at least", o->smaller, (long long)low, margin,
                                 o->why);
    }
    return true;
}

static bool check_topics(const struct loader *l) {
    static const char *const names[] = {"kafka.topics.dlt", "kafka.topics.notification",
                                        "kafka.topics.usage"};
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = i + 1; j < 3; j++) {
            const struct config_key *a = find_key(names[i]), *b = find_key(names[j]);
            if (strcmp(*member_text(l->config, a), *member_text(l->config, b)) == 0)
                return config_node_error(l->file, to_blame(l, a, b), l->err,
                                         "%s and %s must be different topics", a->name, b->name);
        }
    }
    return true;
}

struct config *config_parse(const char *name, const char *yaml, size_t len, struct error *err) {
    struct config_node *root = config_yaml_parse(name, yaml, len, err);
    if (!root)
        return NULL;
    struct config *c = mem_zero(1, sizeof *c);
    struct loader l = {.file = name, .config = c, .err = err};
    set_defaults(c);
    if (!read_map(&l, root) || !check_orders(&l) || !check_topics(&l)) {
        config_free(c);
        c = NULL;
    }
    config_yaml_free(root);
    return c;
}

struct config *config_load(const char *path, struct error *err) {
    struct config *c = NULL;
    struct buf text = {0};
    if (config_yaml_read(path, &text, err))
        c = config_parse(path, buf_cstr(&text), text.len, err);
    if (text.data)
        explicit_bzero(text.data, text.len);
    buf_free(&text);
    return c;
}

void config_free(struct config *c) {
    if (!c)
        return;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (keys[i].type == CONFIG_STRING || keys[i].type == CONFIG_SECRET)
            wipe_free(*member_text(c, &keys[i]));
    }
    free(c);
}

/* ---- printing ---- */

/* Without quotes where it can only be read as the text it is. */
static bool is_plain(const char *s) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-,:";
    size_t len = strlen(s);
    return len && s[strspn(s, letters)] == '\0' && !strchr("-,:", s[0]) && s[len - 1] != ':' &&
           strcasecmp(s, "null") != 0;
}

static void append_text(struct buf *out, const char *s) {
    if (is_plain(s)) {
        buf_str(out, s);
        return;
    }
    buf_char(out, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            buf_char(out, '\\');
        buf_char(out, *s);
    }
    buf_char(out, '"');
}

void config_print_value(const struct config *c, const struct config_key *k, struct buf *out) {
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    switch (k->type) {
    case CONFIG_STRING:
        append_text(out, *member_text(c, k));
        break;
    case CONFIG_SECRET:
        buf_str(out, **member_text(c, k) ? "\"********\"" : "\"\"");
        break;
    case CONFIG_INT:
        buf_i64(out, *(int64_t *)member(c, k));
        break;
    case CONFIG_BOOL:
        buf_str(out, *(bool *)member(c, k) ? "true" : "false");
        break;
    case CONFIG_LEVEL:
        buf_str(out, levels[*(enum log_level *)member(c, k)]);
        break;
    case CONFIG_PERCENTS:
        for (size_t i = c->threshold_count; i-- > 0;)
            buf_printf(out, "%s%d", i + 1 == c->threshold_count ? "[" : ", ", c->thresholds[i]);
        buf_char(out, ']');
        break;
    }
}

void config_print(const struct config *c, struct buf *out) {
    const char *before = "";
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const char *name = keys[i].name, *dot;
        size_t shared = 0; /* how much of the name the sections that are open already make up */
        int depth = 0;
        for (size_t n = 0; name[n] && name[n] == before[n]; n++) {
            if (name[n] == '.') {
                shared = n + 1;
                depth++;
            }
        }
        before = name;
        for (name += shared; (dot = strchr(name, '.')); name = dot + 1)
            buf_printf(out, "%*s%.*s:\n", 2 * depth++, "", (int)(dot - name), name);
        buf_printf(out, "%*s%s: ", 2 * depth, "", name);
        config_print_value(c, &keys[i], out);
        buf_char(out, '\n');
    }
}
