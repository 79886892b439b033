/* SPDX-License-Identifier: MIT */
#include "scenario_topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "scenario_base.h"

#define CALL_MS 20000
#define READ_MS 60000

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char why[256];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        sc_die("Kafka: %s", why);
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char why[256];
    set(conf, "bootstrap.servers", sc_env("KAFKA_BROKERS"));
    set(conf, "client.id", "scenario");
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
    if (!rk)
        sc_die("Kafka: %s", why);
    return rk;
}

static rd_kafka_t *reader(const char *group) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "group.id", group);
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.partition.eof", "true");
    set(conf, "auto.offset.reset", "error");
    set(conf, "fetch.wait.max.ms", "20");
    set(conf, "isolation.level", "read_committed");
    return client(RD_KAFKA_CONSUMER, conf);
}

static void pause_ms(int ms) {
    struct timespec t = {.tv_nsec = ms * 1000000L};
    nanosleep(&t, NULL);
}

static int partitions_now(rd_kafka_t *rk, const char *name) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
    const struct rd_kafka_metadata *md = NULL;
    int count = 0;
    if (rd_kafka_metadata(rk, 0, topic, &md, CALL_MS) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        bool led = md->topic_cnt == 1 && md->topics[0].err == RD_KAFKA_RESP_ERR_NO_ERROR;
        for (int i = 0; led && i < md->topics[0].partition_cnt; i++)
            led = md->topics[0].partitions[i].leader >= 0;
        count = led ? md->topics[0].partition_cnt : 0;
        rd_kafka_metadata_destroy(md);
    }
    rd_kafka_topic_destroy(topic);
    return count;
}

/* A topic is there some time after it was made, and led some time after that. */
static int partitions(rd_kafka_t *rk, const char *name) {
    int count = 0;
    for (int i = 0; i < 400 && count == 0; i++) {
        count = partitions_now(rk, name);
        if (count == 0)
            pause_ms(50);
    }
    if (count == 0)
        sc_die("Kafka: topic %s does not come to be", name);
    return count;
}

int sc_topic_partitions(const char *name) {
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, rd_kafka_conf_new());
    int count = partitions(rk, name);
    rd_kafka_destroy(rk);
    return count;
}

static void create_result(rd_kafka_event_t *event, const char *name) {
    const rd_kafka_CreateTopics_result_t *result = event ? rd_kafka_event_CreateTopics_result(event) : NULL;
    size_t count = 0;
    const rd_kafka_topic_result_t **topics =
        result ? rd_kafka_CreateTopics_result_topics(result, &count) : NULL;
    if (count == 1 && rd_kafka_topic_result_error(topics[0]))
        sc_die("Kafka: topic %s: %s", name, rd_kafka_topic_result_error_string(topics[0]));
    if (count != 1)
        sc_die("Kafka: topic %s: %s", name, event ? rd_kafka_event_error_string(event) : "no answer");
}

void sc_topic_create(const char *name, int count, const char *kind) {
    static const char *const config[][2] = {
        {"retention.ms", "-1"},
        {"message.timestamp.type", "CreateTime"},
        {"message.timestamp.before.max.ms", "9223372036854775807"},
        {"message.timestamp.after.max.ms", "9223372036854775807"},
    };
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, rd_kafka_conf_new());
    /* There asking for it brings it about; a request to make it is never answered. */
    if (strncmp(kind, "embedded", 8) == 0) {
        partitions(rk, name);
        rd_kafka_destroy(rk);
        return;
    }
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    char why[256];
    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(name, count, 1, why, sizeof why);
    if (!topic)
        sc_die("Kafka: topic %s: %s", name, why);
    for (size_t i = 0; i < sizeof config / sizeof config[0]; i++)
        rd_kafka_NewTopic_set_config(topic, config[i][0], config[i][1]);
    rd_kafka_CreateTopics(rk, &topic, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, CALL_MS);
    create_result(event, name);
    if (event)
        rd_kafka_event_destroy(event);
    partitions(rk, name);
    rd_kafka_NewTopic_destroy(topic);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(rk);
}

void sc_topic_ends(const char *name, int count, int64_t *ends) {
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, rd_kafka_conf_new());
    for (int i = 0; i < count; i++) {
        int64_t low;
        rd_kafka_resp_err_t err = rd_kafka_query_watermark_offsets(rk, name, i, &low, &ends[i], CALL_MS);
        if (err)
            sc_die("Kafka: end of %s/%d: %s", name, i, rd_kafka_err2str(err));
    }
    rd_kafka_destroy(rk);
}

static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk;
    (void)opaque;
    struct sc_outgoing *item = message->_private;
    if (message->err)
        sc_die("Kafka: a record was not taken: %s", rd_kafka_err2str(message->err));
    item->partition = message->partition;
    item->offset = message->offset;
    item->delivered = true;
}

static void record_send(rd_kafka_t *rk, const char *name, struct sc_outgoing *item) {
    rd_kafka_resp_err_t err;
    /* A full queue empties as reports come in; order is kept by waiting. */
    do {
        err = rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(name), RD_KAFKA_V_KEY(item->key, item->key_len),
                                RD_KAFKA_V_VALUE((void *)(uintptr_t)item->value, item->value_len),
                                RD_KAFKA_V_TIMESTAMP(item->timestamp_ms), RD_KAFKA_V_HEADERS(item->headers),
                                RD_KAFKA_V_OPAQUE(item), RD_KAFKA_V_MSGFLAGS(0), RD_KAFKA_V_END);
        rd_kafka_poll(rk, err == RD_KAFKA_RESP_ERR__QUEUE_FULL ? 100 : 0);
    } while (err == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    if (err)
        sc_die("Kafka: producing to %s: %s", name, rd_kafka_err2str(err));
    item->headers = NULL;
}

void sc_topic_produce(const char *name, struct sc_outgoing *items, size_t count) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "enable.idempotence", "true");
    set(conf, "acks", "all");
    set(conf, "linger.ms", "5");
    set(conf, "partitioner", "murmur2_random");
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, conf);
    for (size_t i = 0; i < count; i++)
        record_send(rk, name, &items[i]);
    rd_kafka_flush(rk, READ_MS);
    for (size_t i = 0; i < count; i++) {
        if (!items[i].delivered)
            sc_die("Kafka: record %zu was never acknowledged", i + 1);
    }
    rd_kafka_destroy(rk);
}

static char *copy(const void *data, size_t len) {
    if (!data)
        return NULL;
    char *out = mem_alloc(len + 1);
    memcpy(out, data, len);
    out[len] = 0;
    return out;
}

static void headers_read(struct sc_record *record, rd_kafka_message_t *message) {
    rd_kafka_headers_t *headers;
    if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    const char *name;
    const void *value;
    size_t len;
    record->headers = mem_zero(rd_kafka_header_cnt(headers), sizeof *record->headers);
    while (rd_kafka_header_get_all(headers, record->header_count, &name, &value, &len) == 0) {
        struct sc_header *h = &record->headers[record->header_count++];
        *h = (struct sc_header){.name = mem_strdup(name), .value = copy(value, len), .len = len};
    }
}

static void record_keep(struct sc_records *records, rd_kafka_message_t *message) {
    if ((records->count & (records->count - 1)) == 0)
        records->items =
            mem_realloc(records->items, (records->count ? 2 * records->count : 1) * sizeof *records->items);
    struct sc_record *r = &records->items[records->count++];
    rd_kafka_timestamp_type_t type;
    *r = (struct sc_record){.partition = message->partition, .offset = message->offset};
    r->timestamp_ms = rd_kafka_message_timestamp(message, &type);
    r->create_time = type == RD_KAFKA_TIMESTAMP_CREATE_TIME;
    r->key = copy(message->key, message->key_len);
    r->key_len = message->key_len;
    r->value = copy(message->payload, message->len);
    r->value_len = message->len;
    headers_read(r, message);
}

static int record_compare(const void *left, const void *right) {
    const struct sc_record *a = left;
    const struct sc_record *b = right;
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

struct sc_records sc_topic_read(const char *name) {
    struct sc_records records = {0};
    rd_kafka_t *rk = reader("scenario-reader");
    rd_kafka_poll_set_consumer(rk);
    int open = partitions(rk, name);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(open);
    for (int i = 0; i < open; i++)
        rd_kafka_topic_partition_list_add(all, name, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_assign(rk, all);
    rd_kafka_topic_partition_list_destroy(all);
    time_t give_up = time(NULL) + READ_MS / 1000;
    while (open > 0) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(rk, 200);
        if (message && message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            open--;
        else if (message && !message->err)
            record_keep(&records, message);
        else if (message)
            fprintf(stderr, "scenario: Kafka: reading %s: %s\n", name, rd_kafka_message_errstr(message));
        if (message)
            rd_kafka_message_destroy(message);
        if (open > 0 && time(NULL) > give_up)
            sc_die("Kafka: %s has no end after %d s", name, READ_MS / 1000);
    }
    rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
    if (records.count > 1)
        qsort(records.items, records.count, sizeof *records.items, record_compare);
    return records;
}

void sc_records_free(struct sc_records *records) {
    for (size_t i = 0; i < records->count; i++) {
        struct sc_record *r = &records->items[i];
        for (size_t h = 0; h < r->header_count; h++) {
            free(r->headers[h].name);
            free(r->headers[h].value);
        }
        free(r->headers);
        free(r->key);
        free(r->value);
    }
    free(records->items);
    *records = (struct sc_records){0};
}

const struct sc_header *sc_record_header(const struct sc_record *record, const char *name) {
    const struct sc_header *only = NULL;
    for (size_t i = 0; i < record->header_count; i++) {
        if (strcmp(record->headers[i].name, name) != 0)
            continue;
        if (only)
            return NULL;
        only = &record->headers[i];
    }
    return only;
}

void sc_group_committed(const char *group, const char *name, int count, int64_t *offsets) {
    rd_kafka_t *rk = reader(group);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(count);
    for (int i = 0; i < count; i++)
        rd_kafka_topic_partition_list_add(list, name, i);
    rd_kafka_resp_err_t err = rd_kafka_committed(rk, list, CALL_MS);
    if (err)
        sc_die("Kafka: committed offsets of %s: %s", group, rd_kafka_err2str(err));
    for (int i = 0; i < count; i++)
        offsets[i] = list->elems[i].offset >= 0 ? list->elems[i].offset : -1;
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(rk);
}

void sc_group_rewind(const char *group, const char *name, int count) {
    rd_kafka_t *rk = reader(group);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(count);
    for (int i = 0; i < count; i++)
        rd_kafka_topic_partition_list_add(list, name, i)->offset = 0;
    rd_kafka_resp_err_t err = rd_kafka_commit(rk, list, 0);
    if (err)
        sc_die("Kafka: rewinding %s: %s", group, rd_kafka_err2str(err));
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(rk);
}
