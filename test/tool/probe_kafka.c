/* SPDX-License-Identifier: MIT */
/*
 * probe_kafka: does this broker keep what tallyd builds on, with the librdkafka it's built on?
 *
 * Run against $KAFKA_BROKERS. One line a check, `ok NAME: what was seen` or `FAIL NAME: what was seen`; exit
 * code 1 when any fails. Every check makes topics of its own and leaves none behind. Nothing sleeps: each
 * wait is for a condition, with a deadline.
 */
#include <librdkafka/rdkafka.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 15000, ADMIN_MS = 10000, POLL_MS = 50, SEEN_SIZE = 400, MAX_RECORDS = 1000 };

#define FOREVER "9223372036854775807"
#define DAY_MS (24LL * 3600 * 1000)

static const char *brokers;
static char seen[SEEN_SIZE]; /* what the running check has to tell */

static void see(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void see(const char *format, ...) {
    size_t used = strlen(seen);
    va_list args;
    va_start(args, format);
    vsnprintf(seen + used, sizeof(seen) - used, format, args);
    va_end(args);
}

/* For conditions: tells what was false. */
static bool hold(bool condition, const char *text) {
    if (!condition)
        see("[not: %s] ", text);
    return condition;
}
#define HOLD(condition) hold(condition, #condition)

static long long now_ms(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool before(long long deadline) {
    return now_ms(CLOCK_MONOTONIC) < deadline;
}

static long long deadline_in(int ms) {
    return now_ms(CLOCK_MONOTONIC) + ms;
}

/* ---- clients
 * -------------------------------------------------------------------------------------------------------- */

/* What became of one produced record; its delivery report fills it. */
struct delivery {
    bool done;
    rd_kafka_resp_err_t err;
    rd_kafka_msg_status_t status;
    int32_t partition;
    int64_t offset;
};

/* Bytes that went over the wire for a client's records, from its statistics. */
struct wire {
    long long records;
    long long bytes;
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque) {
    struct delivery *d = m->_private;
    (void)rk;
    (void)opaque;
    if (d == NULL)
        return;
    d->err = m->err;
    d->status = rd_kafka_message_status(m);
    d->partition = m->partition;
    d->offset = m->offset;
    d->done = true;
}

static long long number_after(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at == NULL ? -1 : strtoll(at + strlen(name), NULL, 10);
}

static int on_stats(rd_kafka_t *rk, char *json, size_t size, void *opaque) {
    struct wire *wire = opaque;
    (void)rk;
    (void)size;
    if (wire != NULL) {
        wire->records = number_after(json, "\"txmsgs\":");
        wire->bytes = number_after(json, "\"tx_bytes\":");
    }
    return 0;
}

/* A new client from NULL-terminated pairs of name and value, or NULL with the reason seen. */
static rd_kafka_t *client(rd_kafka_type_t type, void *opaque, const char *const *pairs) {
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_res_t res = rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof(why));
    if (res == RD_KAFKA_CONF_OK)
        res = rd_kafka_conf_set(conf, "log_level", "3", why,
                                sizeof(why)); /* a coordinator that is still loading is no news */
    for (; res == RD_KAFKA_CONF_OK && pairs[0] != NULL; pairs += 2)
        res = rd_kafka_conf_set(conf, pairs[0], pairs[1], why, sizeof(why));
    rd_kafka_conf_set_opaque(conf, opaque);
    rd_kafka_conf_set_stats_cb(conf, on_stats);
    if (type == RD_KAFKA_PRODUCER)
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *rk = res == RD_KAFKA_CONF_OK ? rd_kafka_new(type, conf, why, sizeof(why)) : NULL;
    if (rk == NULL) {
        see("%s ", why);
        rd_kafka_conf_destroy(conf);
    } else if (type == RD_KAFKA_CONSUMER) {
        rd_kafka_poll_set_consumer(rk);
    }
    return rk;
}
#define PAIRS(...)                                                                                           \
    (const char *const[]) {                                                                                  \
        __VA_ARGS__, NULL                                                                                    \
    }

/* A consumer that reads partition 0 (of 1) of the topic from its beginning, without a group's duties. */
static rd_kafka_t *reader(const char *topic, const char *isolation) {
    rd_kafka_t *rk =
        client(RD_KAFKA_CONSUMER, NULL,
               PAIRS("group.id", "probe-reader", "enable.auto.commit", "false", "auto.offset.reset", "error",
                     "enable.partition.eof", "true", "check.crcs", "true", "fetch.wait.max.ms", "20",
                     "fetch.error.backoff.ms", "20", "isolation.level", isolation));
    if (rk == NULL)
        return NULL;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0)->offset = 0;
    rd_kafka_resp_err_t err = rd_kafka_assign(rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
        see("assign: %s ", rd_kafka_err2name(err));
    return rk;
}

/* Closes as the daemon does, with a deadline: rd_kafka_consumer_close has none. Returns the milliseconds it
 * took, -1 for too long. */
static long long consumer_end(rd_kafka_t *rk) {
    long long start = now_ms(CLOCK_MONOTONIC);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(rk, queue);
    bool closed = error != NULL;
    while (!closed && before(start + WAIT_MS)) {
        rd_kafka_event_t *ev = rd_kafka_queue_poll(queue, POLL_MS);
        if (ev != NULL && rd_kafka_event_type(ev) == RD_KAFKA_EVENT_REBALANCE) {
            if (rd_kafka_event_error(ev) == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS)
                rd_kafka_assign(rk, rd_kafka_event_topic_partition_list(ev));
            else
                rd_kafka_assign(rk, NULL);
        }
        if (ev != NULL)
            rd_kafka_event_destroy(ev);
        closed = rd_kafka_consumer_closed(rk);
    }
    if (error != NULL)
        rd_kafka_error_destroy(error);
    rd_kafka_queue_destroy(queue);
    long long took = now_ms(CLOCK_MONOTONIC) - start;
    if (closed)
        rd_kafka_destroy(rk);
    else
        rd_kafka_destroy_flags(rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    return closed ? took : -1;
}

/* ---- topics
 * ---------------------------------------------------------------------------------------------------------
 */

/* A name that no other run uses. */
static const char *topic_name(const char *check) {
    static char name[4][64];
    static unsigned next;
    char *n = name[next++ % 4];
    snprintf(n, sizeof(name[0]), "probe-%s-%ld-%u", check, (long)getpid(), next);
    return n;
}

static rd_kafka_t *admin;

/* Sends one admin request (already made by the caller on this queue) and returns its event; the caller
 * destroys it. */
static rd_kafka_event_t *admin_answer(rd_kafka_queue_t *queue) {
    rd_kafka_event_t *ev = rd_kafka_queue_poll(queue, ADMIN_MS);
    if (ev == NULL || rd_kafka_event_error(ev) != RD_KAFKA_RESP_ERR_NO_ERROR)
        see("admin: %s ", ev == NULL ? "no answer" : rd_kafka_event_error_string(ev));
    return ev;
}

/* Partitions with a leader, -1 for no such topic. */
static int topic_leaders(const char *topic) {
    const struct rd_kafka_metadata *md = NULL;
    int leaders = -1;
    if (rd_kafka_metadata(admin, 1, NULL, &md, ADMIN_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return -2;
    for (int t = 0; t < md->topic_cnt; t++) {
        if (strcmp(md->topics[t].topic, topic) != 0)
            continue;
        leaders = 0;
        for (int p = 0; p < md->topics[t].partition_cnt; p++)
            leaders += md->topics[t].partitions[p].leader >= 0;
    }
    rd_kafka_metadata_destroy(md);
    return leaders;
}

static bool await_leaders(const char *topic, int wanted) {
    long long deadline = deadline_in(WAIT_MS);
    struct timespec pause = {.tv_sec = 0, .tv_nsec = 10 * 1000000L};
    while (topic_leaders(topic) != wanted) {
        if (!before(deadline))
            return HOLD(topic_leaders(topic) == wanted);
        nanosleep(&pause, NULL);
    }
    return true;
}

static bool topic_create(const char *topic, int partitions, const char *const *pairs) {
    char why[256] = "";
    bool ok = false;
    rd_kafka_NewTopic_t *new_topic = rd_kafka_NewTopic_new(topic, partitions, 1, why, sizeof(why));
    rd_kafka_queue_t *queue = rd_kafka_queue_new(admin);
    for (; pairs[0] != NULL; pairs += 2)
        rd_kafka_NewTopic_set_config(new_topic, pairs[0], pairs[1]);
    rd_kafka_CreateTopics(admin, &new_topic, 1, NULL, queue);
    rd_kafka_event_t *ev = admin_answer(queue);
    const rd_kafka_CreateTopics_result_t *result = ev ? rd_kafka_event_CreateTopics_result(ev) : NULL;
    if (result != NULL) {
        size_t count;
        const rd_kafka_topic_result_t **results = rd_kafka_CreateTopics_result_topics(result, &count);
        ok = count == 1 && rd_kafka_topic_result_error(results[0]) == RD_KAFKA_RESP_ERR_NO_ERROR;
        if (count == 1 && !ok)
            see("create: %s ", rd_kafka_topic_result_error_string(results[0]));
    }
    if (ev != NULL)
        rd_kafka_event_destroy(ev);
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewTopic_destroy(new_topic);
    return ok && await_leaders(topic, partitions);
}

/*
 * Creates a topic for this producer to write to, and asks for its metadata first: the first record would wait
 * up to a second for librdkafka's timer to do so.
 */
static bool topic_open(rd_kafka_t *rk, const char *topic, int partitions, const char *const *pairs) {
    const struct rd_kafka_metadata *md = NULL;
    if (rk == NULL || !topic_create(topic, partitions, pairs))
        return false;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(rk, topic, NULL);
    bool ok = HOLD(rd_kafka_metadata(rk, 0, handle, &md, ADMIN_MS) == RD_KAFKA_RESP_ERR_NO_ERROR);
    if (ok)
        rd_kafka_metadata_destroy(md);
    rd_kafka_topic_destroy(handle);
    return ok;
}

static bool topic_delete(const char *topic) {
    rd_kafka_DeleteTopic_t *del = rd_kafka_DeleteTopic_new(topic);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(admin);
    rd_kafka_DeleteTopics(admin, &del, 1, NULL, queue);
    rd_kafka_event_t *ev = admin_answer(queue);
    bool ok = ev != NULL && rd_kafka_event_error(ev) == RD_KAFKA_RESP_ERR_NO_ERROR;
    if (ev != NULL)
        rd_kafka_event_destroy(ev);
    rd_kafka_queue_destroy(queue);
    rd_kafka_DeleteTopic_destroy(del);
    return ok && await_leaders(topic, -1);
}

/* ---- producing and reading
 * ------------------------------------------------------------------------------------------ */

struct record {
    const char *key; /* NULL: none */
    const void *value;
    size_t size;
    int64_t timestamp; /* 0: now */
    int32_t partition;
    rd_kafka_headers_t *headers; /* copied */
};

/* Hands one record over. Where that fails at once the code is returned, and no delivery report follows. */
static rd_kafka_resp_err_t hand_over(rd_kafka_t *rk, const char *topic, const struct record *r,
                                     struct delivery *d) {
    rd_kafka_headers_t *headers = r->headers ? rd_kafka_headers_copy(r->headers) : rd_kafka_headers_new(1);
    rd_kafka_resp_err_t err =
        rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(r->partition),
                          RD_KAFKA_V_KEY(r->key, r->key ? strlen(r->key) : 0),
                          RD_KAFKA_V_VALUE((void *)(uintptr_t)r->value, r->size),
                          RD_KAFKA_V_TIMESTAMP(r->timestamp), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                          RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(d), RD_KAFKA_V_END);
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_headers_destroy(headers);
    return err;
}

/* Waits for all reports; false unless every record was acknowledged. */
static bool await_deliveries(rd_kafka_t *rk, const struct delivery *d, int count) {
    long long deadline = deadline_in(WAIT_MS);
    int done = 0;
    while (done < count && before(deadline)) {
        rd_kafka_poll(rk, POLL_MS);
        while (done < count && d[done].done)
            done++;
    }
    int good = 0;
    for (int i = 0; i < done; i++)
        good += d[i].err == RD_KAFKA_RESP_ERR_NO_ERROR && d[i].status == RD_KAFKA_MSG_STATUS_PERSISTED;
    if (good < count)
        see("%d of %d acknowledged, %s ", good, count,
            done > 0 ? rd_kafka_err2name(d[done - 1].err) : "no report");
    return good == count;
}

static rd_kafka_resp_err_t produce_one(rd_kafka_t *rk, const char *topic, const struct record *r,
                                       struct delivery *d) {
    long long deadline = deadline_in(WAIT_MS);
    memset(d, 0, sizeof(*d));
    rd_kafka_resp_err_t err = hand_over(rk, topic, r, d);
    while (err == RD_KAFKA_RESP_ERR_NO_ERROR && !d->done && before(deadline))
        rd_kafka_poll(rk, POLL_MS);
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err;
    return d->done ? d->err : RD_KAFKA_RESP_ERR__TIMED_OUT;
}

/* Reads until the end of the partition; returns how many records came, and the offset that the end was
 * announced with. */
static int read_all(rd_kafka_t *rk, rd_kafka_message_t **out, int room, int64_t *end) {
    long long deadline = deadline_in(WAIT_MS);
    int count = 0;
    *end = -1;
    while (*end < 0 && count < room && before(deadline)) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, POLL_MS);
        if (m == NULL)
            continue;
        if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            out[count++] = m;
            continue;
        }
        if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            *end = m->offset;
        else
            see("consume: %s ", rd_kafka_err2name(m->err));
        rd_kafka_message_destroy(m);
    }
    return count;
}

static void free_all(rd_kafka_message_t **messages, int count) {
    for (int i = 0; i < count; i++)
        rd_kafka_message_destroy(messages[i]);
}

/* ---- checks
 * ---------------------------------------------------------------------------------------------------------
 */

static bool same_numbered_records(rd_kafka_message_t **m, int count, const char *format) {
    char expected[256];
    for (int i = 0; i < count; i++) {
        int size = snprintf(expected, sizeof(expected), "event %06d ", i);
        snprintf(expected + size, sizeof(expected) - (size_t)size, "%s", format);
        if (m[i]->offset != i || m[i]->len != strlen(expected) ||
            memcmp(m[i]->payload, expected, m[i]->len) != 0)
            return false;
    }
    return true;
}

/* Compressed by the client, kept by the broker, the same after the way back. The wire's bytes show that it
 * was compressed. */
static bool codec_round_trip(const char *codec) {
    enum { COUNT = 500 };
    static const char tail[] = "the same text again and again, the same text again and again, the same text";
    struct wire wire = {0, 0};
    struct delivery d[COUNT];
    rd_kafka_message_t *m[COUNT + 1];
    const char *topic = topic_name(codec);
    int64_t end = -1;
    int got = 0;
    long long plain = 0;
    memset(d, 0, sizeof(d));
    rd_kafka_t *rk = client(
        RD_KAFKA_PRODUCER, &wire,
        PAIRS("compression.codec", codec, "linger.ms", "50", "acks", "all", "statistics.interval.ms", "50"));
    bool ok = topic_open(rk, topic, 1, PAIRS("retention.ms", "-1"));
    for (int i = 0; ok && i < COUNT; i++) {
        char value[256];
        int size = snprintf(value, sizeof(value), "event %06d %s", i, tail);
        struct record r = {.value = value, .size = (size_t)size};
        plain += size;
        ok = HOLD(hand_over(rk, topic, &r, &d[i]) == RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    ok = ok && await_deliveries(rk, d, COUNT);
    for (long long deadline = deadline_in(WAIT_MS); ok && wire.records < COUNT && before(deadline);)
        rd_kafka_poll(rk, POLL_MS);
    rd_kafka_t *in = ok ? reader(topic, "read_uncommitted") : NULL;
    if (in != NULL) {
        got = read_all(in, m, COUNT + 1, &end);
        ok = HOLD(got == COUNT) && HOLD(end == COUNT) && HOLD(same_numbered_records(m, got, tail));
        free_all(m, got);
        consumer_end(in);
    }
    if (ok && strcmp(codec, "none") != 0)
        ok = HOLD(wire.bytes < plain / 2);
    if (rk != NULL)
        rd_kafka_destroy(rk);
    see("%d records back whole, %lld bytes of values, %lld on the wire", got, plain, wire.bytes);
    return topic_delete(topic) && ok;
}

static bool check_none(void) {
    return codec_round_trip("none");
}
static bool check_gzip(void) {
    return codec_round_trip("gzip");
}
static bool check_snappy(void) {
    return codec_round_trip("snappy");
}
static bool check_lz4(void) {
    return codec_round_trip("lz4");
}
static bool check_zstd(void) {
    return codec_round_trip("zstd");
}

/* Every record acknowledged as persisted, each partition's offsets without a hole. */
static bool check_idempotent(void) {
    enum { COUNT = MAX_RECORDS, PARTITIONS = 6 };
    struct delivery d[COUNT];
    int64_t next[PARTITIONS] = {0};
    char fatal[128] = "";
    const char *topic = topic_name("idempotent");
    memset(d, 0, sizeof(d));
    rd_kafka_t *rk = client(
        RD_KAFKA_PRODUCER, NULL,
        PAIRS("enable.idempotence", "true", "acks", "all", "linger.ms", "1", "batch.num.messages", "50"));
    bool ok = topic_open(rk, topic, PARTITIONS, PAIRS("retention.ms", "-1"));
    for (int i = 0; ok && i < COUNT; i++) {
        struct record r = {.value = "x", .size = 1, .partition = i % PARTITIONS};
        ok = HOLD(hand_over(rk, topic, &r, &d[i]) == RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    ok = ok && await_deliveries(rk, d, COUNT);
    for (int i = 0; ok && i < COUNT; i++)
        ok = HOLD(d[i].offset == next[d[i].partition]++);
    if (rk != NULL)
        ok = HOLD(rd_kafka_fatal_error(rk, fatal, sizeof(fatal)) == RD_KAFKA_RESP_ERR_NO_ERROR) && ok;
    see("%d records persisted in %d partitions, offsets without a hole, no fatal error%s", COUNT, PARTITIONS,
        fatal);
    if (rk != NULL)
        rd_kafka_destroy(rk);
    return topic_delete(topic) && ok;
}

/* murmur2 as Java's client has it. */
static uint32_t murmur2(const char *key) {
    const uint32_t m = 0x5bd1e995;
    size_t left = strlen(key);
    const unsigned char *p = (const unsigned char *)key;
    uint32_t h = 0x9747b28c ^ (uint32_t)left;
    for (; left >= 4; left -= 4, p += 4) {
        uint32_t k = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        k *= m;
        k ^= k >> 24;
        h = (h * m) ^ (k * m);
    }
    if (left == 3)
        h ^= (uint32_t)p[2] << 16;
    if (left >= 2)
        h ^= (uint32_t)p[1] << 8;
    if (left >= 1)
        h = (h ^ p[0]) * m;
    h ^= h >> 13;
    h *= m;
    return h ^ h >> 15;
}

/* The reference against the values in Kafka's own test of its hash, then librdkafka's placement against the
 * reference. */
static bool check_partitioner(void) {
    static const struct {
        const char *key;
        int32_t hash;
    } known[] = {{"21", -973932308},
                 {"foobar", -790332482},
                 {"a-little-bit-long-string", -985981536},
                 {"a-little-bit-longer-string", -1486304829},
                 {"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
                 {"abc", 479470107}};
    enum { KEYS = 200, PARTITIONS = 6 };
    struct delivery d[KEYS];
    char key[KEYS][24];
    bool used[PARTITIONS] = {false};
    bool ok = true;
    int agreed = 0;
    const char *topic = topic_name("murmur2");
    memset(d, 0, sizeof(d));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        ok = HOLD((int32_t)murmur2(known[i].key) == known[i].hash) && ok;
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, NULL, PAIRS("partitioner", "murmur2_random", "acks", "all"));
    ok = ok && topic_open(rk, topic, PARTITIONS, PAIRS("retention.ms", "-1"));
    for (int i = 0; ok && i < KEYS; i++) {
        snprintf(key[i], sizeof(key[i]), "%lld", i == 0 ? 9007199254740991LL : 100000LL + i * 7LL);
        struct record r = {.key = key[i], .value = "x", .size = 1, .partition = RD_KAFKA_PARTITION_UA};
        ok = HOLD(hand_over(rk, topic, &r, &d[i]) == RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    ok = ok && await_deliveries(rk, d, KEYS);
    for (int i = 0; ok && i < KEYS; i++) {
        agreed += d[i].partition == (int32_t)((murmur2(key[i]) & 0x7fffffff) % PARTITIONS);
        used[d[i].partition] = true;
    }
    ok = ok && HOLD(agreed == KEYS);
    for (int p = 0; ok && p < PARTITIONS; p++)
        ok = HOLD(used[p]);
    if (rk != NULL)
        rd_kafka_destroy(rk);
    see("%d of %d decimal keys where Java puts them, over %d partitions", agreed, KEYS, PARTITIONS);
    return topic_delete(topic) && ok;
}

static bool check_timestamps(void) {
    const long long now = now_ms(CLOCK_REALTIME);
    const long long wanted[] = {now - 365 * DAY_MS, now + 3650 * DAY_MS, 1, now - 3650 * DAY_MS, now};
    enum { COUNT = sizeof(wanted) / sizeof(wanted[0]) };
    rd_kafka_message_t *m[COUNT + 1];
    struct delivery d;
    int64_t end;
    int exact = 0;
    rd_kafka_resp_err_t ahead = RD_KAFKA_RESP_ERR__FAIL;
    rd_kafka_resp_err_t past = RD_KAFKA_RESP_ERR__FAIL;
    const char *topic = topic_name("time-wide");
    const char *narrow = topic_name("time-default");
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, NULL, PAIRS("acks", "all"));
    bool ok = topic_open(rk, narrow, 1, PAIRS("retention.ms", "-1")) &&
              topic_open(rk, topic, 1,
                         PAIRS("retention.ms", "-1", "message.timestamp.type", "CreateTime",
                               "message.timestamp.before.max.ms", FOREVER, "message.timestamp.after.max.ms",
                               FOREVER));
    for (int i = 0; ok && i < COUNT; i++) {
        struct record r = {.value = "x", .size = 1, .timestamp = wanted[i]};
        ok = HOLD(produce_one(rk, topic, &r, &d) == RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    rd_kafka_t *in = ok ? reader(topic, "read_uncommitted") : NULL;
    if (in != NULL) {
        int got = read_all(in, m, COUNT + 1, &end);
        for (int i = 0; i < got && i < COUNT; i++) {
            rd_kafka_timestamp_type_t type;
            exact += rd_kafka_message_timestamp(m[i], &type) == wanted[i] &&
                     type == RD_KAFKA_TIMESTAMP_CREATE_TIME;
        }
        ok = HOLD(got == COUNT) && HOLD(exact == COUNT);
        free_all(m, got);
        consumer_end(in);
    }
    if (ok) {
        struct record r = {.value = "x", .size = 1, .timestamp = now + 2 * 3600 * 1000};
        ahead = produce_one(rk, narrow, &r, &d);
        r.timestamp = now - 365 * DAY_MS;
        past = produce_one(rk, narrow, &r, &d);
        ok = HOLD(ahead == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP) && HOLD(past == RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    if (rk != NULL)
        rd_kafka_destroy(rk);
    see("-10 y, -1 y, +10 y and 1 ms after 1970 kept to the millisecond; a topic of defaults says %s to +2 h and %s to -1 y",
        rd_kafka_err2name(ahead), rd_kafka_err2name(past));
    return topic_delete(topic) && topic_delete(narrow) && ok;
}

static bool header_is(const rd_kafka_headers_t *headers, size_t at, const char *name, const void *value,
                      size_t size) {
    const char *n;
    const void *v;
    size_t s;
    if (rd_kafka_header_get_all(headers, at, &n, &v, &s) != RD_KAFKA_RESP_ERR_NO_ERROR ||
        strcmp(n, name) != 0)
        return false;
    if (value == NULL)
        return v == NULL;
    return v != NULL && s == size && memcmp(v, value, size) == 0;
}

/* Order, repeats, an empty and a missing value, bytes; and a record that has neither key nor value. */
static bool check_headers(void) {
    static const char bytes[] = {'\0', '\xff', 'a', '\0'};
    rd_kafka_message_t *m[2];
    struct delivery d;
    int64_t end;
    const char *topic = topic_name("headers");
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, NULL, PAIRS("acks", "all"));
    rd_kafka_headers_t *out = rd_kafka_headers_new(5);
    rd_kafka_header_add(out, "x-a", -1, "one", 3);
    rd_kafka_header_add(out, "x-b", -1, bytes, sizeof(bytes));
    rd_kafka_header_add(out, "x-a", -1, "two", 3);
    rd_kafka_header_add(out, "x-empty", -1, "", 0);
    rd_kafka_header_add(out, "x-null", -1, NULL, 0);
    struct record r = {.headers = out};
    bool ok = topic_open(rk, topic, 1, PAIRS("retention.ms", "-1")) &&
              HOLD(produce_one(rk, topic, &r, &d) == RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_t *in = ok ? reader(topic, "read_uncommitted") : NULL;
    if (in != NULL) {
        rd_kafka_headers_t *h = NULL;
        int got = read_all(in, m, 2, &end);
        ok = HOLD(got == 1) && HOLD(rd_kafka_message_headers(m[0], &h) == RD_KAFKA_RESP_ERR_NO_ERROR) &&
             HOLD(rd_kafka_header_cnt(h) == 5) && HOLD(header_is(h, 0, "x-a", "one", 3)) &&
             HOLD(header_is(h, 1, "x-b", bytes, sizeof(bytes))) && HOLD(header_is(h, 2, "x-a", "two", 3)) &&
             HOLD(header_is(h, 3, "x-empty", "", 0)) && HOLD(header_is(h, 4, "x-null", NULL, 0)) &&
             HOLD(m[0]->payload == NULL && m[0]->len == 0) && HOLD(m[0]->key == NULL);
        free_all(m, got);
        consumer_end(in);
    }
    rd_kafka_headers_destroy(out);
    if (rk != NULL)
        rd_kafka_destroy(rk);
    see("5 headers in order, with a repeat, bytes, an empty and a null value; key and value null");
    return topic_delete(topic) && ok;
}

static rd_kafka_t *member(const char *group, const char *topic, const char *reset) {
    rd_kafka_t *rk =
        client(RD_KAFKA_CONSUMER, NULL,
               PAIRS("group.id", group, "partition.assignment.strategy", "range,roundrobin",
                     "auto.offset.reset", reset, "enable.auto.commit", "true", "auto.commit.interval.ms",
                     "100", "enable.auto.offset.store", "false", "session.timeout.ms", "6000",
                     "heartbeat.interval.ms", "100", "fetch.wait.max.ms", "20"));
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, RD_KAFKA_PARTITION_UA);
    if (rk != NULL && rd_kafka_subscribe(rk, list) != RD_KAFKA_RESP_ERR_NO_ERROR)
        see("[not: subscribe] ");
    rd_kafka_topic_partition_list_destroy(list);
    return rk;
}

static int assigned(rd_kafka_t *rk) {
    rd_kafka_topic_partition_list_t *list = NULL;
    int count = 0;
    if (rd_kafka_assignment(rk, &list) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        count = list->cnt;
        rd_kafka_topic_partition_list_destroy(list);
    }
    return count;
}

/* Polls both members until they have that many partitions; the milliseconds it took, or -1. b may be NULL. */
static long long await_assignment(rd_kafka_t *a, int a_wants, rd_kafka_t *b, int b_wants) {
    long long start = now_ms(CLOCK_MONOTONIC);
    while (before(start + WAIT_MS)) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(a, 10);
        if (m != NULL)
            rd_kafka_message_destroy(m);
        m = b ? rd_kafka_consumer_poll(b, 10) : NULL;
        if (m != NULL)
            rd_kafka_message_destroy(m);
        if (assigned(a) == a_wants && (b == NULL || assigned(b) == b_wants))
            return now_ms(CLOCK_MONOTONIC) - start;
    }
    return -1;
}

static bool check_group(void) {
    const char *topic = topic_name("group");
    long long alone = -1, shared = -1, rest = -1, close_a = -1, close_b = -1;
    bool ok = topic_create(topic, 6, PAIRS("retention.ms", "-1"));
    rd_kafka_t *a = ok ? member(topic, topic, "earliest") : NULL;
    rd_kafka_t *b = NULL;
    if (a != NULL) {
        alone = await_assignment(a, 6, NULL, 0);
        b = member(topic, topic, "earliest");
    }
    if (b != NULL) {
        shared = await_assignment(a, 3, b, 3);
        /* a must go on polling while b leaves: close b, then let a take over. */
        close_b = consumer_end(b);
        rest = await_assignment(a, 6, NULL, 0);
    }
    if (a != NULL)
        close_a = consumer_end(a);
    ok = ok && HOLD(alone >= 0) && HOLD(shared >= 0) && HOLD(rest >= 0) &&
         HOLD(close_b >= 0 && close_b < 5000) && HOLD(close_a >= 0 && close_a < 5000);
    see("one member has 6 after %lld ms, two 3 + 3 after %lld ms, the last 6 again after %lld ms; closed in %lld and %lld ms",
        alone, shared, rest, close_b, close_a);
    return topic_delete(topic) && ok;
}

/* A wake-up from elsewhere ends a poll, also one that only begins: how a worker learns that a batch is
 * settled. */
static bool check_wake(void) {
    long long took = -1;
    const char *topic = topic_name("wake");
    bool ok = topic_create(topic, 1, PAIRS("retention.ms", "-1"));
    rd_kafka_t *rk = ok ? member(topic, topic, "earliest") : NULL;
    if (rk != NULL && await_assignment(rk, 1, NULL, 0) >= 0) {
        rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(rk);
        rd_kafka_queue_yield(queue);
        long long start = now_ms(CLOCK_MONOTONIC);
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, WAIT_MS);
        took = now_ms(CLOCK_MONOTONIC) - start;
        ok = HOLD(m == NULL) && HOLD(took < WAIT_MS / 2);
        if (m != NULL)
            rd_kafka_message_destroy(m);
        rd_kafka_queue_destroy(queue);
    }
    if (rk != NULL)
        consumer_end(rk);
    ok = ok && HOLD(took >= 0);
    see("a poll of %d ms ended after %lld", WAIT_MS, took);
    return topic_delete(topic) && ok;
}

static bool store_offset(rd_kafka_t *rk, const char *topic, int64_t offset) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0)->offset = offset;
    bool ok = HOLD(rd_kafka_offsets_store(rk, list) == RD_KAFKA_RESP_ERR_NO_ERROR) &&
              HOLD(list->elems[0].err == RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_topic_partition_list_destroy(list);
    return ok;
}

/* What the group has committed for partition 0, by the broker's word; RD_KAFKA_OFFSET_INVALID for nothing. */
static int64_t committed(rd_kafka_t *rk, const char *topic) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0);
    rd_kafka_resp_err_t err = rd_kafka_committed(rk, list, ADMIN_MS);
    int64_t offset = err == RD_KAFKA_RESP_ERR_NO_ERROR ? list->elems[0].offset : -1;
    rd_kafka_topic_partition_list_destroy(list);
    return offset;
}

/* The next record a member gets, or -1. */
static int64_t next_offset(rd_kafka_t *rk) {
    int64_t offset = -1;
    for (long long deadline = deadline_in(WAIT_MS); offset < 0 && before(deadline);) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, POLL_MS);
        if (m == NULL)
            continue;
        if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            offset = m->offset;
        rd_kafka_message_destroy(m);
    }
    return offset;
}

/* Only what was stored by hand is committed, in the background and on close; a successor goes on there. */
static bool check_commit(void) {
    struct delivery d[10];
    int64_t first = -1, in_background = -1, last = -1, resumed = -1, nothing = 0;
    const char *topic = topic_name("commit");
    memset(d, 0, sizeof(d));
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, NULL, PAIRS("acks", "all"));
    bool ok = topic_open(rk, topic, 1, PAIRS("retention.ms", "-1"));
    for (int i = 0; ok && i < 10; i++) {
        struct record r = {.value = "x", .size = 1};
        ok = HOLD(hand_over(rk, topic, &r, &d[i]) == RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    ok = ok && await_deliveries(rk, d, 10);
    /* A client outside the group that asks the broker. */
    rd_kafka_t *asker = ok ? client(RD_KAFKA_CONSUMER, NULL, PAIRS("group.id", topic)) : NULL;
    rd_kafka_t *a = ok ? member(topic, topic, "earliest") : NULL;
    if (asker != NULL && a != NULL) {
        nothing = committed(asker, topic);
        first = next_offset(a);
        while (first >= 0 && next_offset(a) < 9)
            ;
        ok = store_offset(a, topic, 4);
        for (long long deadline = deadline_in(WAIT_MS); in_background != 4 && before(deadline);) {
            rd_kafka_message_t *m = rd_kafka_consumer_poll(a, 10);
            if (m != NULL)
                rd_kafka_message_destroy(m);
            in_background = committed(asker, topic);
        }
        ok = store_offset(a, topic, 7) && ok;
        ok = HOLD(consumer_end(a) >= 0) && ok;
        last = committed(asker, topic);
        a = member(topic, topic, "error");
        resumed = a ? next_offset(a) : -1;
        ok = HOLD(nothing == RD_KAFKA_OFFSET_INVALID) && HOLD(first == 0) && HOLD(in_background == 4) &&
             HOLD(last == 7) && HOLD(resumed == 7) && ok;
    }
    if (a != NULL)
        consumer_end(a);
    if (asker != NULL)
        rd_kafka_destroy(asker);
    if (rk != NULL)
        rd_kafka_destroy(rk);
    see("read 10; stored 4, committed %lld in the background; stored 7, committed %lld on close; the next member begins at %lld",
        (long long)in_background, (long long)last, (long long)resumed);
    return topic_delete(topic) && ok;
}

static int64_t offset_at(rd_kafka_t *rk, const char *topic, int64_t timestamp) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0)->offset = timestamp;
    rd_kafka_resp_err_t err = rd_kafka_offsets_for_times(rk, list, ADMIN_MS);
    int64_t offset = err == RD_KAFKA_RESP_ERR_NO_ERROR && list->elems[0].err == RD_KAFKA_RESP_ERR_NO_ERROR
                         ? list->elems[0].offset
                         : -99;
    rd_kafka_topic_partition_list_destroy(list);
    return offset;
}

static bool check_lookup(void) {
    const int64_t year_ago = now_ms(CLOCK_REALTIME) - 365 * DAY_MS;
    struct delivery d;
    int64_t low = -1, high = -1, exact = -1, between = -1, after = -1;
    const char *topic = topic_name("lookup");
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, NULL, PAIRS("acks", "all"));
    bool ok = topic_open(rk, topic, 1, PAIRS("retention.ms", "-1"));
    for (int i = 0; ok && i < 10; i++) {
        struct record r = {.value = "x", .size = 1, .timestamp = year_ago + i * 1000};
        ok = HOLD(produce_one(rk, topic, &r, &d) == RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    if (ok) {
        ok = HOLD(rd_kafka_query_watermark_offsets(rk, topic, 0, &low, &high, ADMIN_MS) ==
                  RD_KAFKA_RESP_ERR_NO_ERROR);
        exact = offset_at(rk, topic, year_ago + 3000);
        between = offset_at(rk, topic, year_ago + 3001);
        after = offset_at(rk, topic, year_ago + 3600 * 1000);
        ok = HOLD(low == 0) && HOLD(high == 10) && HOLD(exact == 3) && HOLD(between == 4) &&
             HOLD(after == RD_KAFKA_OFFSET_END) && ok;
    }
    if (rk != NULL)
        rd_kafka_destroy(rk);
    see("watermarks %lld and %lld; by time: exact %lld, between %lld, after the last %lld (OFFSET_END)",
        (long long)low, (long long)high, (long long)exact, (long long)between, (long long)after);
    return topic_delete(topic) && ok;
}

/* Does the topic describe itself with exactly these values? */
static int configs_that_hold(const char *topic, const char *const *pairs) {
    rd_kafka_ConfigResource_t *resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(admin);
    int good = 0;
    rd_kafka_DescribeConfigs(admin, &resource, 1, NULL, queue);
    rd_kafka_event_t *ev = admin_answer(queue);
    const rd_kafka_DescribeConfigs_result_t *result = ev ? rd_kafka_event_DescribeConfigs_result(ev) : NULL;
    size_t count = 0;
    const rd_kafka_ConfigResource_t **found =
        result ? rd_kafka_DescribeConfigs_result_resources(result, &count) : NULL;
    size_t entries = 0;
    const rd_kafka_ConfigEntry_t **entry =
        count == 1 ? rd_kafka_ConfigResource_configs(found[0], &entries) : NULL;
    for (; pairs[0] != NULL; pairs += 2)
        for (size_t i = 0; i < entries; i++)
            good += strcmp(rd_kafka_ConfigEntry_name(entry[i]), pairs[0]) == 0 &&
                    rd_kafka_ConfigEntry_value(entry[i]) != NULL &&
                    strcmp(rd_kafka_ConfigEntry_value(entry[i]), pairs[1]) == 0;
    if (ev != NULL)
        rd_kafka_event_destroy(ev);
    rd_kafka_queue_destroy(queue);
    rd_kafka_ConfigResource_destroy(resource);
    return good;
}

static bool check_admin(void) {
    const char *const *pairs =
        PAIRS("retention.ms", "-1", "max.message.bytes", "2097152", "message.timestamp.before.max.ms",
              FOREVER, "message.timestamp.after.max.ms", FOREVER, "message.timestamp.type", "CreateTime");
    const char *topic = topic_name("admin");
    bool ok = topic_create(topic, 3, pairs);
    int good = ok ? configs_that_hold(topic, pairs) : 0;
    ok = HOLD(topic_leaders(topic) == 3) && HOLD(good == 5) && ok;
    ok = HOLD(topic_delete(topic)) && HOLD(topic_leaders(topic) == -1) && ok;
    see("created with 3 partitions, %d of 5 settings described as given, deleted", good);
    return ok;
}

/* Over the broker's 1 MiB: refused by a topic of defaults, taken and given back whole by a widened one. */
static bool check_large(void) {
    const size_t size = 3 * 512 * 1024;
    struct delivery d;
    rd_kafka_message_t *m[2];
    int64_t end;
    rd_kafka_resp_err_t refused = RD_KAFKA_RESP_ERR__FAIL;
    rd_kafka_resp_err_t taken = RD_KAFKA_RESP_ERR__FAIL;
    const char *narrow = topic_name("size-default");
    const char *wide = topic_name("size-wide");
    char *value = malloc(size);
    rd_kafka_t *rk =
        client(RD_KAFKA_PRODUCER, NULL,
               PAIRS("acks", "all", "enable.idempotence", "true", "message.max.bytes", "2097152"));
    bool ok = value != NULL && topic_open(rk, narrow, 1, PAIRS("retention.ms", "-1")) &&
              topic_open(rk, wide, 1, PAIRS("retention.ms", "-1", "max.message.bytes", "2097152"));
    if (ok) {
        uint32_t x = 1;
        for (size_t i = 0; i < size; i++)
            value[i] = (char)((x = x * 1664525 + 1013904223) >> 24);
        struct record r = {.value = value, .size = size};
        refused = produce_one(rk, narrow, &r, &d);
        taken = produce_one(rk, wide, &r, &d);
        /* The refusal must not poison an idempotent producer. */
        r.size = 10;
        ok = HOLD(produce_one(rk, narrow, &r, &d) == RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    rd_kafka_t *in = ok ? reader(wide, "read_uncommitted") : NULL;
    if (in != NULL) {
        int got = read_all(in, m, 2, &end);
        ok = HOLD(refused == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) &&
             HOLD(taken == RD_KAFKA_RESP_ERR_NO_ERROR) && HOLD(got == 1) &&
             HOLD(m[0]->len == size && memcmp(m[0]->payload, value, size) == 0);
        free_all(m, got);
        consumer_end(in);
    }
    if (rk != NULL)
        rd_kafka_destroy(rk);
    free(value);
    see("1.5 MiB: %s from a topic of defaults (by delivery report; small ones still pass), %s from one of 2 MiB, whole when read",
        rd_kafka_err2name(refused), rd_kafka_err2name(taken));
    return topic_delete(narrow) && topic_delete(wide) && ok;
}

/* Over the client's own limit: an error at once and never a delivery report. */
static bool check_local_limit(void) {
    static char value[1100000];
    struct delivery d;
    memset(&d, 0, sizeof(d));
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, NULL, PAIRS("acks", "all"));
    struct record r = {.value = value, .size = sizeof(value)};
    rd_kafka_resp_err_t err = rk ? hand_over(rk, "probe-never-sent", &r, &d) : RD_KAFKA_RESP_ERR__FAIL;
    bool ok =
        rk != NULL && HOLD(err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) && HOLD(rd_kafka_outq_len(rk) == 0);
    if (rk != NULL) {
        rd_kafka_poll(rk, 0);
        ok = HOLD(!d.done) && ok;
        rd_kafka_destroy(rk);
    }
    see("1.1 MB: producev says %s, no delivery report", rd_kafka_err2name(err));
    return ok;
}

static bool transaction_step(rd_kafka_error_t *error, const char *step) {
    if (error == NULL)
        return true;
    see("%s: %s ", step, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return false;
}

/* One transaction of so many records, committed, aborted, or left open. */
static bool transaction(rd_kafka_t *rk, const char *topic, int records, char how) {
    struct delivery d;
    bool ok = transaction_step(rd_kafka_begin_transaction(rk), "begin");
    for (int i = 0; ok && i < records; i++) {
        struct record r = {.value = "x", .size = 1};
        ok = HOLD(produce_one(rk, topic, &r, &d) == RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    if (how == 'c')
        ok = ok && transaction_step(rd_kafka_commit_transaction(rk, WAIT_MS), "commit");
    else if (how == 'a')
        ok = ok && transaction_step(rd_kafka_abort_transaction(rk, WAIT_MS), "abort");
    return ok;
}

/* Reads to the end under that isolation and compares the offsets that came, as text. */
static bool offsets_are(const char *topic, const char *isolation, const char *offsets, int64_t wanted_end) {
    rd_kafka_message_t *m[20];
    char text[128] = "";
    int64_t end = -1;
    rd_kafka_t *in = reader(topic, isolation);
    if (in == NULL)
        return false;
    int got = read_all(in, m, 20, &end);
    for (int i = 0; i < got; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%lld", i ? " " : "",
                 (long long)m[i]->offset);
    free_all(m, got);
    consumer_end(in);
    see("%s: %s, end at %lld; ", isolation, text, (long long)end);
    return HOLD(strcmp(text, offsets) == 0) && HOLD(end == wanted_end);
}

/* The partition's end by the broker's word, under that isolation. */
static int64_t high_watermark(const char *topic, const char *isolation) {
    int64_t low = -1, high = -1;
    rd_kafka_t *rk =
        client(RD_KAFKA_CONSUMER, NULL, PAIRS("group.id", "probe-reader", "isolation.level", isolation));
    if (rk == NULL)
        return -1;
    if (rd_kafka_query_watermark_offsets(rk, topic, 0, &low, &high, ADMIN_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        high = -1;
    rd_kafka_destroy(rk);
    return high;
}

/*
 * Offsets 0-2 committed (marker 3), 4-5 aborted (marker 6), 7 committed (marker 8), 9-10 in a transaction
 * still open. A reader of committed records sees gaps; its end, announced or asked for, lies behind the
 * markers and before what is still open.
 */
static bool check_transactions(void) {
    int64_t settled = -1, committed_end = -1, full_end = -1;
    const char *topic = topic_name("txn");
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, NULL, PAIRS("transactional.id", topic, "acks", "all"));
    bool ok = topic_open(rk, topic, 1, PAIRS("retention.ms", "-1"));
    ok = ok && transaction_step(rd_kafka_init_transactions(rk, WAIT_MS), "init") &&
         transaction(rk, topic, 3, 'c') && transaction(rk, topic, 2, 'a') && transaction(rk, topic, 1, 'c');
    if (ok) {
        ok = offsets_are(topic, "read_committed", "0 1 2 7", 9);
        settled = high_watermark(topic, "read_committed");
        ok = transaction(rk, topic, 2, 'o') && ok;
        ok = offsets_are(topic, "read_committed", "0 1 2 7", 9) && ok;
        ok = offsets_are(topic, "read_uncommitted", "0 1 2 4 5 7 9 10", 11) && ok;
        committed_end = high_watermark(topic, "read_committed");
        full_end = high_watermark(topic, "read_uncommitted");
        ok = HOLD(settled == 9) && HOLD(committed_end == 9) && HOLD(full_end == 11) && ok;
        ok = transaction_step(rd_kafka_abort_transaction(rk, WAIT_MS), "abort") && ok;
    }
    if (rk != NULL)
        rd_kafka_destroy(rk);
    see("watermark %lld; with one open %lld when asked under read_committed, %lld under read_uncommitted",
        (long long)settled, (long long)committed_end, (long long)full_end);
    return topic_delete(topic) && ok;
}

/* ---- all of them
 * ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool (*run)(void);
} checks[] = {
    {"uncompressed", check_none},
    {"gzip", check_gzip},
    {"snappy", check_snappy},
    {"lz4", check_lz4},
    {"zstd", check_zstd},
    {"idempotent producer", check_idempotent},
    {"murmur2 partitioner", check_partitioner},
    {"record timestamps", check_timestamps},
    {"headers", check_headers},
    {"group of two", check_group},
    {"poll ended from elsewhere", check_wake},
    {"stored offsets committed", check_commit},
    {"watermarks, offsets by time", check_lookup},
    {"topic admin", check_admin},
    {"large record", check_large},
    {"client's size limit", check_local_limit},
    {"transaction markers", check_transactions},
};

static void print_client(void) {
    char features[256] = "";
    size_t size = sizeof(features);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_get(conf, "builtin.features", features, &size);
    rd_kafka_conf_destroy(conf);
    const char *kind = getenv("BROKER_KIND");
    printf("# librdkafka %s (%s) against %s at %s\n", rd_kafka_version_str(), features,
           kind ? kind : "a broker", brokers);
}

int main(void) {
    int failed = 0;
    const int count = (int)(sizeof(checks) / sizeof(checks[0]));
    long long start = now_ms(CLOCK_MONOTONIC);
    brokers = getenv("KAFKA_BROKERS");
    if (brokers == NULL) {
        fprintf(stderr, "probe_kafka: KAFKA_BROKERS isn't set\n");
        return 2;
    }
    print_client();
    admin = client(RD_KAFKA_PRODUCER, NULL, PAIRS("client.id", "probe-admin"));
    if (admin == NULL || topic_leaders("") == -2) {
        fprintf(stderr, "probe_kafka: no broker at %s answers %s\n", brokers, seen);
        return 2;
    }
    for (int i = 0; i < count; i++) {
        long long began = now_ms(CLOCK_MONOTONIC);
        seen[0] = '\0';
        bool ok = checks[i].run();
        failed += !ok;
        printf("%s %s: %s (%lld ms)\n", ok ? "ok" : "FAIL", checks[i].name, seen,
               now_ms(CLOCK_MONOTONIC) - began);
        fflush(stdout);
    }
    rd_kafka_destroy(admin);
    printf("# %d of %d checks passed in %lld ms\n", count - failed, count, now_ms(CLOCK_MONOTONIC) - start);
    return failed == 0 ? 0 : 1;
}
