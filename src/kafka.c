/* SPDX-License-Identifier: MIT */
#include "kafka.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "log.h"

int64_t clock_monotonic_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The topic's own limit decides what is too large: the client's must not come first. */
#define PRODUCER_MESSAGE_MAX (100 * 1000 * 1000)

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

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text) {
    LOG(level <= 4 ? LOG_WARN : LOG_DEBUG, "kafka_client", LOG_S("client", rd_kafka_name(rk)),
        LOG_S("facility", facility), LOG_S("message", text));
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

/* Takes over `conf`. */
static rd_kafka_t *handle_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, const struct config *cfg,
                              const struct setting *own, size_t own_count, struct error *err) {
    const struct setting common[] = {
        {"bootstrap.servers", cfg->kafka.brokers, 0}, {"client.id", cfg->kafka.client_id, 0},
        {"log.connection.close", "false", 0},         {"socket.keepalive.enable", "true", 0},
        {"reconnect.backoff.max.ms", "2000", 0},
    };
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_conf_set_error_cb(conf, on_error);
    char why[256];
    rd_kafka_t *rk = NULL;
    if (apply(conf, common, sizeof common / sizeof *common, err) && apply(conf, own, own_count, err)) {
        rk = rd_kafka_new(type, conf, why, sizeof why);
        if (rk)
            return rk;
        error_set(err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0, "kafka: %s", why);
    }
    rd_kafka_conf_destroy(conf);
    return NULL;
}

rd_kafka_t *kafka_consumer_new(const struct config *cfg, kafka_rebalance_fn *rebalance, void *opaque,
                               struct error *err) {
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
        {"fetch.error.backoff.ms", "100", 0},
        {"queued.max.messages.kbytes", "16384", 0},
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_rebalance_cb(conf, rebalance);
    rd_kafka_conf_set_opaque(conf, opaque);
    rd_kafka_t *rk = handle_new(RD_KAFKA_CONSUMER, conf, cfg, own, sizeof own / sizeof *own, err);
    if (rk)
        rd_kafka_poll_set_consumer(rk);
    return rk;
}

rd_kafka_t *kafka_observer_new(const struct config *cfg, struct error *err) {
    const struct setting own[] = {{"group.id", cfg->kafka.group_id, 0}, {"enable.auto.commit", "false", 0}};
    return handle_new(RD_KAFKA_CONSUMER, rd_kafka_conf_new(), cfg, own, sizeof own / sizeof *own, err);
}

rd_kafka_t *kafka_producer_new(const struct config *cfg, kafka_delivery_fn *delivered, void *opaque,
                               struct error *err) {
    const struct setting own[] = {
        {"enable.idempotence", "true", 0},
        {"acks", "all", 0},
        {"partitioner", "murmur2_random", 0},
        {"message.timeout.ms", NULL, cfg->kafka.message_timeout_ms},
        {"linger.ms", "1", 0},
        {"message.max.bytes", NULL, PRODUCER_MESSAGE_MAX},
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_conf_set_opaque(conf, opaque);
    return handle_new(RD_KAFKA_PRODUCER, conf, cfg, own, sizeof own / sizeof *own, err);
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

void kafka_consumer_close(rd_kafka_t *rk, int64_t deadline_ms) {
    int64_t until = clock_monotonic_ms() + deadline_ms;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(rk, queue);
    bool closing = error == NULL;
    if (error)
        rd_kafka_error_destroy(error);
    /* Serving the queue runs the rebalance callback, which gives the partitions back. */
    while (closing && !rd_kafka_consumer_closed(rk) && clock_monotonic_ms() < until) {
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
    if (closed)
        rd_kafka_destroy(rk);
    else
        rd_kafka_destroy_flags(rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}
