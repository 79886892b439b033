/* SPDX-License-Identifier: MIT */
#include "kafka.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "clock.h"
#include "heartbeat.h"
#include "log.h"

/* The topic's own limit decides what is too large: the client's must not come first. */
#define PRODUCER_MESSAGE_MAX (100 * 1000 * 1000)

/* What is read ahead, by all workers together: most of a backlog's memory, some 600 bytes an event. A client
 * (2.0) whose queue is full looks again when its broker's thread next wakes up, up to a second later: a
 * backlog of known ids, at 90,000 events/s, would wait for that. Asking for metadata wakes it. A fetch
 * overshoots by its size; a record batch larger than that comes all the same. */
#define QUEUED_EVENTS 40000
#define LEAST_QUEUED_EVENTS 5000
#define QUEUED_KIB 16384
#define LEAST_QUEUED_KIB 2048
#define FETCH_MAX (1024 * 1024)
#define METADATA_MS 500
#define METADATA_AGE_MS                                                                                      \
    900000 /* the client's default; else three times the interval, as little as an outage lasts */

/* One row a code that isn't simply "try again". */
static const struct {
    rd_kafka_resp_err_t code;
    enum error_action action;
} known_codes[] = {
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, ERROR_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, ERROR_REJECT},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, ERROR_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, ERROR_STOP},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, ERROR_REJECT},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, ERROR_STOP},
    {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, ERROR_STOP},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, ERROR_STOP},
    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, ERROR_STOP},
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, ERROR_STOP},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, ERROR_STOP},
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, ERROR_STOP},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, ERROR_STOP},
    {RD_KAFKA_RESP_ERR__INVALID_ARG, ERROR_STOP},
    {RD_KAFKA_RESP_ERR__FATAL, ERROR_STOP},
};

bool kafka_error(rd_kafka_resp_err_t code, const char *what, const char *detail, struct error *err) {
    enum error_action action = ERROR_RETRY;
    for (size_t i = 0; i < sizeof known_codes / sizeof *known_codes; i++) {
        if (known_codes[i].code == code)
            action = known_codes[i].action;
    }
    enum error_effect effect = action == ERROR_REJECT ? ERROR_NOT_DONE : ERROR_UNKNOWN;
    return error_set(err, ERROR_KAFKA, action, effect, code, "%s: %s%s%s", what, rd_kafka_err2str(code),
                     detail ? ": " : "", detail ? detail : "");
}

/* kafka.properties holds what consumers and producers need; each ignores the other's, as it should. */
static bool is_others_property(const char *facility, const char *text) {
    return strcmp(facility, "CONFWARN") == 0 && strstr(text, " property and will be ignored by this ");
}

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text) {
    LOG(level <= 4 && !is_others_property(facility, text) ? LOG_WARN : LOG_DEBUG, "kafka_client",
        LOG_S("client", rd_kafka_name(rk)), LOG_S("facility", facility), LOG_S("message", text));
}

static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque) {
    (void)opaque;
    LOG(LOG_WARN, "kafka_connection", LOG_S("client", rd_kafka_name(rk)),
        LOG_S("code", rd_kafka_err2name((rd_kafka_resp_err_t)code)), LOG_S("message", reason));
}

struct setting {
    const char *name;
    const char *text; /* NULL: take `number` */
    int64_t number;
};

static bool apply(rd_kafka_conf_t *conf, const struct setting *s, size_t n, struct error *err) {
    char why[256], digits[24];
    for (size_t i = 0; i < n; i++) {
        snprintf(digits, sizeof digits, "%lld", (long long)s[i].number);
        if (rd_kafka_conf_set(conf, s[i].name, s[i].text ? s[i].text : digits, why, sizeof why) !=
            RD_KAFKA_CONF_OK)
            return error_set(err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0, "kafka: %s: %s", s[i].name,
                             why);
    }
    return true;
}

/* ---- kafka.properties ---- */

/* What kafka.properties can't have: tallyd sets it and its promises hang on it, or another value would make
 * the client behave in a way tallyd isn't written for. Names that mean the same stand together. */
static const struct {
    const char *name, *why;
} owned[] = {
    {"bootstrap.servers", "set kafka.brokers instead"},
    {"metadata.broker.list", "set kafka.brokers instead"},
    {"client.id", "set kafka.client_id instead"},
    {"group.id", "set kafka.group_id instead"},
    {"session.timeout.ms", "set kafka.session_timeout_ms instead"},
    {"heartbeat.interval.ms", "it follows kafka.session_timeout_ms"},
    {"max.poll.interval.ms", "set kafka.max_poll_interval_ms instead"},
    {"auto.commit.interval.ms", "set kafka.auto_commit_interval_ms instead"},
    {"fetch.wait.max.ms", "set kafka.fetch_wait_max_ms instead"},
    {"message.timeout.ms", "set kafka.message_timeout_ms instead"},
    {"delivery.timeout.ms", "set kafka.message_timeout_ms instead"},
    {"message.max.bytes", "the topics' own limits decide what is too large"},
    {"enable.auto.commit", "offsets are committed by themselves once their records are settled"},
    {"auto.commit.enable", "offsets are committed by themselves once their records are settled"},
    {"enable.auto.offset.store", "an offset is stored when its record is settled, never when it's read"},
    {"offset.store.method", "offsets lie with the brokers and in the ledger"},
    {"auto.offset.reset", "an offset out of range is never skipped in silence; see kafka.skip_lost_offsets"},
    {"enable.partition.eof", "the end of a partition is how the ledger learns of gaps"},
    {"partition.assignment.strategy", "it is range,roundrobin, the same for all members of the group"},
    {"group.protocol.type", "members of one group have to agree on it"},
    {"group.instance.id", "the members in this process would put each other out of the group with it"},
    {"enable.idempotence", "it is true, or records would double and change places"},
    {"enable.gapless.guarantee", "one lost record would end the publishing of all others"},
    {"transactional.id", "records are written once by idempotence and the outbox, not by transactions"},
    {"acks", "it is all, or a record that counts as written could be lost"},
    {"request.required.acks", "it is all, or a record that counts as written could be lost"},
    {"partitioner", "it is murmur2_random, as Java's clients partition"},
    {"queuing.strategy", "it is fifo, or notifications would change places"},
    {"delivery.report.only.error", "an alert counts as sent when the brokers' acknowledgement is reported"},
    {"enabled_events", "they are handed over by callbacks"},
    {"log.queue", "the client's log goes straight to tallyd's"},
};

static const char *why_owned(const char *name) {
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        if (strcmp(owned[i].name, name) == 0)
            return owned[i].why;
    }
    return NULL;
}

static bool apply_properties(rd_kafka_conf_t *conf, const struct config *cfg, struct error *err) {
    char why[256], reason[320];
    for (size_t i = 0; i < cfg->kafka.property_count; i++) {
        const struct config_property *p = &cfg->kafka.properties[i];
        const char *own = why_owned(p->name);
        if (own) {
            snprintf(reason, sizeof reason, "is tallyd's own: %s", own);
            return config_property_error(cfg, p, err, reason);
        }
        rd_kafka_conf_res_t result = rd_kafka_conf_set(conf, p->name, p->value, why, sizeof why);
        if (result == RD_KAFKA_CONF_OK)
            continue;
        bool hide = p->secret && result != RD_KAFKA_CONF_UNKNOWN;
        why[strcspn(why, "\n")] = '\0'; /* some of the client's reasons end in one */
        snprintf(reason, sizeof reason, "Kafka's client refuses it: %s", hide ? "(not shown)" : why);
        return config_property_error(cfg, p, err, reason);
    }
    return true;
}

/* What the client said of all its properties, with the line of the one it names. */
static bool refused_together(const struct config *cfg, const char *why, struct error *err) {
    const struct config_property *at = NULL;
    char reason[320];
    if (cfg->kafka.property_count == 0)
        return error_set(err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0, "kafka: %s", why);
    for (size_t i = 0; i < cfg->kafka.property_count && !at; i++) {
        if (strstr(why, cfg->kafka.properties[i].name))
            at = &cfg->kafka.properties[i];
    }
    snprintf(reason, sizeof reason, "Kafka's client refuses %s: %s", at ? "it" : "them together", why);
    return config_property_error(cfg, at, err, reason);
}

/* ---- handles ---- */

/* New, for any handle: what suits tallyd, here (`also`) and in general, then what the operator wants in its
 * place, then `own`, which is nobody else's. NULL with an error. */
static rd_kafka_conf_t *conf_with(const struct config *cfg, const struct setting *also, size_t also_count,
                                  const struct setting *own, size_t own_count, struct error *err) {
    static const struct setting suits[] = {
        {"log.connection.close", "false", 0},
        {"socket.keepalive.enable", "true", 0},
        {"reconnect.backoff.max.ms", "2000", 0},
        {"fetch.error.backoff.ms", "100", 0},
        {"linger.ms", "1", 0},
        {"queued.max.messages.kbytes", "16384", 0},
    };
    const struct setting name = {"client.id", cfg->kafka.client_id, 0};
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (apply(conf, suits, sizeof suits / sizeof *suits, err) && apply(conf, also, also_count, err) &&
        apply_properties(conf, cfg, err) && apply(conf, &name, 1, err) && apply(conf, own, own_count, err))
        return conf;
    rd_kafka_conf_destroy(conf);
    return NULL;
}

static rd_kafka_conf_t *conf_new(const struct config *cfg, const struct setting *own, size_t own_count,
                                 struct error *err) {
    return conf_with(cfg, NULL, 0, own, own_count, err);
}

static int64_t share(int64_t whole, int64_t workers, int64_t least) {
    return whole / workers > least ? whole / workers : least;
}

static rd_kafka_conf_t *consumer_conf(const struct config *cfg, struct error *err) {
    const struct setting own[] = {
        {"group.id", cfg->kafka.group_id, 0},
        {"session.timeout.ms", NULL, cfg->kafka.session_timeout_ms},
        {"heartbeat.interval.ms", NULL,
         cfg->kafka.session_timeout_ms / 3 < 3000 ? cfg->kafka.session_timeout_ms / 3 : 3000},
        {"max.poll.interval.ms", NULL, cfg->kafka.max_poll_interval_ms},
        {"partition.assignment.strategy", "range,roundrobin", 0},
        {"enable.auto.commit", "true", 0},
        {"auto.commit.interval.ms", NULL, cfg->kafka.auto_commit_interval_ms},
        {"enable.auto.offset.store", "false", 0},
        {"auto.offset.reset", "error", 0},
        {"enable.partition.eof", "true", 0},
        {"fetch.wait.max.ms", NULL, cfg->kafka.fetch_wait_max_ms},
    };
    const struct setting bounds[] = {
        {"queued.min.messages", NULL, share(QUEUED_EVENTS, cfg->workers, LEAST_QUEUED_EVENTS)},
        {"queued.max.messages.kbytes", NULL, share(QUEUED_KIB, cfg->workers, LEAST_QUEUED_KIB)},
        {"fetch.max.bytes", NULL, FETCH_MAX},
        {"topic.metadata.refresh.interval.ms", NULL, METADATA_MS},
        {"metadata.max.age.ms", NULL, METADATA_AGE_MS},
    };
    return conf_with(cfg, bounds, sizeof bounds / sizeof *bounds, own, sizeof own / sizeof *own, err);
}

static rd_kafka_conf_t *producer_conf(const struct config *cfg, struct error *err) {
    const struct setting own[] = {
        {"enable.idempotence", "true", 0},
        {"acks", "all", 0},
        {"partitioner", "murmur2_random", 0},
        {"message.timeout.ms", NULL, cfg->kafka.message_timeout_ms},
        {"message.max.bytes", NULL, PRODUCER_MESSAGE_MAX},
    };
    return conf_new(cfg, own, sizeof own / sizeof *own, err);
}

/* Takes over `conf`; NULL passes through. */
static rd_kafka_t *handle_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, const struct config *cfg,
                              struct error *err) {
    const struct setting brokers = {"bootstrap.servers", cfg->kafka.brokers, 0};
    char why[256];
    if (!conf)
        return NULL;
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_conf_set_error_cb(conf, on_error);
    if (apply(conf, &brokers, 1, err)) {
        rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
        if (rk)
            return rk;
        refused_together(cfg, why, err);
    }
    rd_kafka_conf_destroy(conf);
    return NULL;
}

rd_kafka_t *kafka_consumer_new(const struct config *cfg, kafka_rebalance_fn *rebalance, void *opaque,
                               struct error *err) {
    rd_kafka_conf_t *conf = consumer_conf(cfg, err);
    if (!conf)
        return NULL;
    rd_kafka_conf_set_rebalance_cb(conf, rebalance);
    rd_kafka_conf_set_opaque(conf, opaque);
    rd_kafka_t *rk = handle_new(RD_KAFKA_CONSUMER, conf, cfg, err);
    if (rk)
        rd_kafka_poll_set_consumer(rk);
    return rk;
}

rd_kafka_t *kafka_observer_new(const struct config *cfg, struct error *err) {
    const struct setting own[] = {{"group.id", cfg->kafka.group_id, 0}, {"enable.auto.commit", "false", 0}};
    return handle_new(RD_KAFKA_CONSUMER, conf_new(cfg, own, sizeof own / sizeof *own, err), cfg, err);
}

rd_kafka_t *kafka_reader_new(const struct config *cfg, struct error *err) {
    const struct setting own[] = {
        /* for questions about it; reading by hand makes no member of it */
        {"group.id", cfg->kafka.group_id, 0},
        {"enable.auto.commit", "false", 0},
        {"auto.offset.reset", "earliest", 0},
        {"enable.partition.eof", "true", 0},
        {"fetch.wait.max.ms", NULL, cfg->kafka.fetch_wait_max_ms},
    };
    rd_kafka_t *rk =
        handle_new(RD_KAFKA_CONSUMER, conf_new(cfg, own, sizeof own / sizeof *own, err), cfg, err);
    if (rk)
        rd_kafka_poll_set_consumer(rk);
    return rk;
}

rd_kafka_t *kafka_peeker_new(const struct config *cfg, struct error *err) {
    const struct setting own[] = {
        {"enable.auto.commit", "false", 0},
        {"auto.offset.reset", "error", 0},
        {"enable.partition.eof", "true", 0},
        {"fetch.wait.max.ms", "10", 0},
        /* a piece that's larger than this comes for one partition at a time, once a second */
        {"fetch.message.max.bytes", "4194304", 0},
    };
    return handle_new(RD_KAFKA_CONSUMER, conf_new(cfg, own, sizeof own / sizeof *own, err), cfg, err);
}

rd_kafka_t *kafka_producer_new(const struct config *cfg, kafka_delivery_fn *delivered, void *opaque,
                               struct error *err) {
    rd_kafka_conf_t *conf = producer_conf(cfg, err);
    if (!conf)
        return NULL;
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_conf_set_opaque(conf, opaque);
    return handle_new(RD_KAFKA_PRODUCER, conf, cfg, err);
}

static bool has_property(const struct config *cfg, const char *name) {
    for (size_t i = 0; i < cfg->kafka.property_count; i++) {
        if (strcmp(cfg->kafka.properties[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Without brokers a handle connects to nothing, and without a callback it logs nothing. Kerberos is asked
 * for no ticket: the client's own command is put together, as it complains of what it lacks, but does
 * nothing; an operator's isn't run. */
static bool try_handle(rd_kafka_type_t type, rd_kafka_conf_t *conf, const struct config *cfg,
                       struct error *err) {
    const struct setting no_ticket = {"sasl.kerberos.kinit.cmd",
                                      has_property(cfg, "sasl.kerberos.kinit.cmd")
                                          ? "true"
                                          : "true \"%{sasl.kerberos.keytab}\" %{sasl.kerberos.principal}",
                                      0};
    char why[256] = "";
    if (!conf)
        return false;
    rd_kafka_conf_set_log_cb(conf, NULL);
    rd_kafka_t *rk = NULL;
    if (apply(conf, &no_ticket, 1, err))
        rk = rd_kafka_new(type, conf, why, sizeof why);
    if (!rk) {
        rd_kafka_conf_destroy(conf);
        return refused_together(cfg, why, err);
    }
    rd_kafka_destroy(rk);
    return true;
}

bool kafka_properties_check(const struct config *cfg, struct error *err) {
    return cfg->kafka.property_count == 0 ||
           (try_handle(RD_KAFKA_CONSUMER, consumer_conf(cfg, err), cfg, err) &&
            try_handle(RD_KAFKA_PRODUCER, producer_conf(cfg, err), cfg, err));
}

int32_t *kafka_topic_partitions(rd_kafka_t *rk, const char *topic, int timeout_ms, size_t *n,
                                struct error *err) {
    rd_kafka_topic_t *handle = rd_kafka_topic_new(rk, topic, NULL);
    const struct rd_kafka_metadata *meta = NULL;
    heartbeat_beat();
    rd_kafka_resp_err_t code =
        handle ? rd_kafka_metadata(rk, 0, handle, &meta, timeout_ms) : rd_kafka_last_error();
    int32_t *ids = NULL;
    if (meta && meta->topic_cnt == 1)
        code = meta->topics[0].err;
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR && meta) {
        *n = (size_t)meta->topics[0].partition_cnt;
        ids = mem_zero(*n, sizeof *ids);
        for (size_t i = 0; i < *n; i++)
            ids[i] = meta->topics[0].partitions[i].id;
    } else {
        kafka_error(code, "topic", topic, err);
    }
    if (meta)
        rd_kafka_metadata_destroy(meta);
    if (handle)
        rd_kafka_topic_destroy(handle);
    return ids;
}

void kafka_topic_prefetch(rd_kafka_t *rk, const char *topic) {
    const struct rd_kafka_metadata *meta = NULL;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(rk, topic, NULL);
    if (!handle)
        return;
    if (rd_kafka_metadata(rk, 0, handle, &meta, 2000) == RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_metadata_destroy(meta);
    rd_kafka_topic_destroy(handle);
}

/* Shared by who waits and the thread that destroys; the last one frees it. */
struct ending {
    rd_kafka_t *rk;
    atomic_int refs;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done;
};

static void ending_unref(struct ending *e) {
    if (atomic_fetch_sub(&e->refs, 1) != 1)
        return;
    pthread_cond_destroy(&e->over);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static void *ending_main(void *arg) {
    struct ending *e = arg;
    rd_kafka_destroy(e->rk);
    pthread_mutex_lock(&e->lock);
    e->done = true;
    pthread_cond_signal(&e->over);
    pthread_mutex_unlock(&e->lock);
    ending_unref(e);
    return NULL;
}

/* NULL: there's no thread to be had. */
static struct ending *ending_start(rd_kafka_t *rk) {
    struct ending *e = mem_zero(1, sizeof *e);
    pthread_t thread;
    e->rk = rk;
    atomic_init(&e->refs, 2);
    pthread_mutex_init(&e->lock, NULL);
    clock_cond_init(&e->over);
    if (pthread_create(&thread, NULL, ending_main, e) == 0) {
        pthread_detach(thread);
        return e;
    }
    atomic_store(&e->refs, 1);
    ending_unref(e);
    return NULL;
}

bool kafka_destroy(rd_kafka_t *rk, int64_t deadline_ms) {
    struct timespec until = clock_timespec(clock_monotonic_ms() + deadline_ms);
    struct ending *e = ending_start(rk);
    if (!e)
        return false;
    heartbeat_beat();
    pthread_mutex_lock(&e->lock);
    while (!e->done && pthread_cond_timedwait(&e->over, &e->lock, &until) == 0)
        ;
    bool done = e->done;
    pthread_mutex_unlock(&e->lock);
    ending_unref(e);
    if (!done)
        LOG(LOG_WARN, "client_not_destroyed", LOG_I("waited_ms", deadline_ms));
    return done;
}

void kafka_consumer_close(rd_kafka_t *rk, int64_t deadline_ms) {
    int64_t until = clock_monotonic_ms() + deadline_ms;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(rk, queue);
    bool closing = error == NULL;
    if (error)
        rd_kafka_error_destroy(error);
    /* Serving the queue runs the rebalance callback, which gives the partitions back. */
    while (closing && !rd_kafka_consumer_closed(rk) && clock_monotonic_ms() < until) {
        heartbeat_beat();
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 50);
        if (event) {
            if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_REBALANCE)
                rd_kafka_assign(rk, NULL);
            rd_kafka_event_destroy(event);
        }
    }
    bool closed = closing && rd_kafka_consumer_closed(rk);
    rd_kafka_queue_destroy(queue);
    LOG(closed ? LOG_DEBUG : LOG_WARN, "consumer_closed", LOG_B("left_group", closed));
    /* With a frozen broker destroying it would wait for requests that are never answered. */
    if (closed)
        kafka_destroy(rk, until - clock_monotonic_ms());
}
