/* SPDX-License-Identifier: MIT */
#include "model_world.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "model_event.h"
#include "scenario_base.h"

/* ---- changes as SQL ---- */

static void quoted(struct buf *sql, const char *text) {
    buf_char(sql, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            buf_char(sql, '\\');
        buf_char(sql, *text);
    }
    buf_char(sql, '\'');
}

static void rule_sql(const char *line, struct buf *sql) {
    int64_t id, family, customer, updated;
    char type[33], stamp[40], owner[24] = "NULL";
    int active, text = 0;
    if (sscanf(line, "%ld %ld %ld %32s %d %ld %n", &id, &family, &customer, type, &active, &updated, &text) !=
        6)
        sc_die("no rule: %s", line);
    if (customer >= 0)
        snprintf(owner, sizeof owner, "%ld", customer);
    model_time_utc(updated, stamp);
    buf_printf(sql,
               "REPLACE INTO policy_assignment (policy_assignment_id, family_id, customer_id, policy_type, "
               "is_active, updated_at, rules) VALUES (%ld, %ld, %s, '%s', %d, '%s', ",
               id, family, owner, type, active, stamp);
    quoted(sql, line + text);
    buf_str(sql, ");\n");
}

static void family_sql(const char *line, struct buf *sql) {
    int64_t id;
    int name = 0;
    if (sscanf(line, "%ld %n", &id, &name) != 1)
        sc_die("no family: %s", line);
    buf_printf(sql, "INSERT INTO family (family_id, name) VALUES (%ld, ", id);
    quoted(sql, line + name);
    buf_str(sql, ");\n");
}

void model_world_sql(const char *line, struct buf *sql) {
    int64_t a, b;
    int year, month;
    if (strncmp(line, "family ", 7) == 0)
        family_sql(line + 7, sql);
    else if (strncmp(line, "rule ", 5) == 0)
        rule_sql(line + 5, sql);
    else if (sscanf(line, "member %ld %ld", &a, &b) == 2)
        buf_printf(sql, "INSERT INTO family_member (family_id, customer_id) VALUES (%ld, %ld);\n", a, b);
    else if (sscanf(line, "unmember %ld %ld", &a, &b) == 2)
        buf_printf(sql, "DELETE FROM family_member WHERE family_id = %ld AND customer_id = %ld;\n", a, b);
    else if (sscanf(line, "quota %ld %d-%d %ld", &a, &year, &month, &b) == 4)
        buf_printf(
            sql,
            "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (%ld, '%04d-%02d-01', "
            "%ld) ON DUPLICATE KEY UPDATE total_quota_bytes = VALUES(total_quota_bytes);\n",
            a, year, month, b);
    else if (sscanf(line, "floor %d-%d", &year, &month) == 2)
        buf_printf(sql, "UPDATE usage_floor SET closed_before = '%04d-%02d-01' WHERE id = 1;\n", year, month);
    else if (sscanf(line, "refuse %ld", &a) == 1)
        buf_printf(sql,
                   "ALTER TABLE usage_record ADD CONSTRAINT model_refuses CHECK (bytes_used <> %ld);\n"
                   "ALTER TABLE usage_block ADD CONSTRAINT model_refuses CHECK (bytes_used <> %ld);\n",
                   a, a);
    else
        sc_die("no such change: %s", line);
}

/* ---- the folder ---- */

char *model_world_path(const char *dir, int phase, const char *extension) {
    struct buf b = {0};
    buf_printf(&b, "%s/phase-%d.%s", dir, phase, extension);
    return b.data;
}

int model_world_phases(const char *dir) {
    for (int phase = 0;; phase++) {
        char *path = model_world_path(dir, phase, "records");
        bool there = access(path, R_OK) == 0;
        free(path);
        if (there)
            continue;
        if (phase == 0)
            sc_die("%s has no phase-0.records: make it first", dir);
        return phase;
    }
}

void model_world_changes(const char *dir, int phase, void (*each)(void *arg, const char *line), void *arg) {
    char *path = model_world_path(dir, phase, "changes");
    char *text = sc_file_read(path, NULL), *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (*line)
            each(arg, line);
    }
    free(text);
    free(path);
}

static void bytes_write(FILE *f, const char *bytes, size_t len) {
    if (bytes && len)
        fwrite(bytes, 1, len, f);
}

void model_record_write(FILE *f, const struct sc_record *r) {
    fprintf(f, "record %ld %d %ld %ld %ld %zu\n", r->offset, r->partition, r->timestamp_ms,
            r->key ? (long)r->key_len : -1L, r->value ? (long)r->value_len : -1L, r->header_count);
    bytes_write(f, r->key, r->key_len);
    bytes_write(f, r->value, r->value_len);
    for (size_t i = 0; i < r->header_count; i++) {
        const struct sc_header *h = &r->headers[i];
        fprintf(f, "%zu %ld\n%s", strlen(h->name), h->value ? (long)h->len : -1L, h->name);
        bytes_write(f, h->value, h->len);
    }
    fputc('\n', f);
}

static char *bytes_read(FILE *f, long len) {
    if (len < 0)
        return NULL;
    char *bytes = mem_zero(1, (size_t)len + 1);
    if (fread(bytes, 1, (size_t)len, f) != (size_t)len)
        sc_die("a file of records ends too early");
    return bytes;
}

/* The line's end is eaten by hand: a space in a format would eat white space of what follows. */
static bool record_read(FILE *f, struct sc_record *r) {
    long key, value, name, len;
    *r = (struct sc_record){.create_time = true};
    if (fscanf(f, "record %ld %d %ld %ld %ld %zu", &r->offset, &r->partition, &r->timestamp_ms, &key, &value,
               &r->header_count) != 6)
        return false;
    fgetc(f);
    r->key = bytes_read(f, key);
    r->key_len = key < 0 ? 0 : (size_t)key;
    r->value = bytes_read(f, value);
    r->value_len = value < 0 ? 0 : (size_t)value;
    r->headers = mem_zero(r->header_count + 1, sizeof *r->headers);
    for (size_t i = 0; i < r->header_count; i++) {
        if (fscanf(f, "%ld %ld", &name, &len) != 2 || name < 0)
            sc_die("a file of records is broken");
        fgetc(f);
        r->headers[i].name = bytes_read(f, name);
        r->headers[i].value = bytes_read(f, len);
        r->headers[i].len = len < 0 ? 0 : (size_t)len;
    }
    fgetc(f);
    return true;
}

struct sc_records model_records_read(const char *dir, int phase) {
    struct sc_records records = {0};
    char *path = model_world_path(dir, phase, "records");
    FILE *f = fopen(path, "rb");
    if (!f)
        sc_die("%s: %s", path, strerror(errno));
    struct sc_record r;
    while (record_read(f, &r)) {
        if ((records.count & (records.count - 1)) == 0)
            records.items = mem_realloc(records.items, (2 * records.count + 1) * sizeof *records.items);
        records.items[records.count++] = r;
    }
    if (!feof(f))
        sc_die("%s is broken", path);
    fclose(f);
    free(path);
    return records;
}

bool model_header_of(const struct sc_record *record, int *phase, int64_t *index) {
    const struct sc_header *h = sc_record_header(record, MODEL_HEADER);
    return h && h->value && sscanf(h->value, "%d/%ld", phase, index) == 2;
}

/* ---- producing ---- */

struct run {
    rd_kafka_t *rk;
    const char *topic;
    FILE *places;
    int phase;
    size_t acknowledged;
    bool broken; /* the producer gave up: another one goes on where it stopped */
};

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char why[256];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        sc_die("Kafka: %s", why);
}

static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk;
    struct run *run = opaque;
    const struct sc_record *r = message->_private;
    if (message->err) {
        if (!run->broken)
            fprintf(stderr, "model: record %ld was not taken: %s\n", r->offset,
                    rd_kafka_err2str(message->err));
        run->broken = true;
        return;
    }
    fprintf(run->places, "%d %ld %d %ld\n", run->phase, r->offset, message->partition, message->offset);
    run->acknowledged++;
}

static rd_kafka_t *producer(struct run *run) {
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", sc_env("KAFKA_BROKERS"));
    set(conf, "client.id", "model");
    set(conf, "enable.idempotence", "true");
    set(conf, "linger.ms", "5");
    set(conf, "partitioner", "murmur2_random");
    /* A broker that is down for a while is part of the test. */
    set(conf, "message.timeout.ms", "600000");
    set(conf, "reconnect.backoff.max.ms", "500");
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_conf_set_opaque(conf, run);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (!rk)
        sc_die("Kafka: %s", why);
    return rk;
}

static rd_kafka_headers_t *headers_of(const struct sc_record *r) {
    rd_kafka_headers_t *headers = rd_kafka_headers_new(r->header_count);
    for (size_t i = 0; i < r->header_count; i++) {
        const struct sc_header *h = &r->headers[i];
        rd_kafka_header_add(headers, h->name, -1, h->value, h->value ? (ssize_t)h->len : 0);
    }
    return headers;
}

static void record_send(struct run *run, struct sc_record *r) {
    rd_kafka_headers_t *headers = headers_of(r);
    rd_kafka_resp_err_t err;
    do {
        err = rd_kafka_producev(run->rk, RD_KAFKA_V_TOPIC(run->topic), RD_KAFKA_V_PARTITION(r->partition),
                                RD_KAFKA_V_KEY(r->key, r->key_len), RD_KAFKA_V_VALUE(r->value, r->value_len),
                                RD_KAFKA_V_TIMESTAMP(r->timestamp_ms), RD_KAFKA_V_HEADERS(headers),
                                RD_KAFKA_V_OPAQUE(r), RD_KAFKA_V_MSGFLAGS(0), RD_KAFKA_V_END);
        rd_kafka_poll(run->rk, err == RD_KAFKA_RESP_ERR__QUEUE_FULL ? 100 : 0);
    } while (err == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    if (!err)
        return;
    rd_kafka_headers_destroy(headers);
    if (err != RD_KAFKA_RESP_ERR__FATAL)
        sc_die("Kafka: producing to %s: %s", run->topic, rd_kafka_err2str(err));
    run->broken = true;
}

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static volatile sig_atomic_t enough;

static void on_term(int number) {
    (void)number;
    enough = 1;
}

/* Waits, serving reports, until record number `sent` is due. */
static void pace(struct run *run, int64_t began_us, size_t sent, long rate) {
    for (;;) {
        int64_t wait = rate ? began_us + (int64_t)sent * 1000000 / rate - now_us() : 0;
        if (wait <= 0 || enough)
            return;
        rd_kafka_poll(run->rk, wait < 1000 ? 1 : (int)(wait / 1000));
    }
}

/* Marks the records that lie on the topic already, and notes the places of those whose acknowledgement was
 * lost. */
static size_t mark_landed(struct run *run, json_t *noted, bool *landed, size_t count) {
    struct sc_records there = sc_topic_read(run->topic);
    size_t n = 0;
    for (size_t i = 0; i < there.count; i++) {
        const struct sc_record *r = &there.items[i];
        int of;
        int64_t index;
        char place[64];
        if (!model_header_of(r, &of, &index) || of != run->phase || index < 0 || (size_t)index >= count)
            continue;
        n += !landed[index];
        landed[index] = true;
        snprintf(place, sizeof place, "%d/%ld", r->partition, r->offset);
        if (!json_object_get(noted, place))
            fprintf(run->places, "%d %ld %d %ld\n", of, index, r->partition, r->offset);
    }
    sc_records_free(&there);
    return n;
}

/* The places noted so far, "partition/offset". */
static json_t *places_noted(const char *path) {
    json_t *noted = json_object();
    FILE *f = fopen(path, "r");
    int phase, partition;
    long index, offset;
    while (f && fscanf(f, "%d %ld %d %ld", &phase, &index, &partition, &offset) == 4) {
        char place[64];
        snprintf(place, sizeof place, "%d/%ld", partition, offset);
        sc_map_set(noted, place, 1);
    }
    if (f)
        fclose(f);
    return noted;
}

/* Sends what isn't there yet, in order, until told to stop, and waits for the acknowledgements; false when
 * the producer gave up on the way, as an idempotent one does when a broker comes back and doesn't know it any
 * more. How many were sent is in *sent. */
static bool send_missing(struct run *run, struct sc_records *records, const bool *landed, int64_t from,
                         int64_t to, long rate, size_t *sent) {
    int64_t began_us = now_us();
    *sent = 0;
    run->broken = false;
    run->acknowledged = 0;
    run->rk = producer(run);
    for (int64_t i = from; i < to && !run->broken; i++) {
        if (landed[i])
            continue;
        pace(run, began_us, *sent, rate);
        if (enough)
            break;
        record_send(run, &records->items[i]);
        ++*sent;
    }
    while (rd_kafka_flush(run->rk, 1000) == RD_KAFKA_RESP_ERR__TIMED_OUT)
        ;
    rd_kafka_destroy(run->rk);
    if (!run->broken && run->acknowledged != *sent)
        sc_die("Kafka: %zu records sent, %zu acknowledged", *sent, run->acknowledged);
    return !run->broken;
}

void model_produce(const char *dir, int phase, const char *topic, long rate, int64_t from, int64_t to) {
    struct sc_records records = model_records_read(dir, phase);
    if (to < 0 || (size_t)to > records.count)
        to = (int64_t)records.count;
    bool *landed = mem_zero(records.count + 1, sizeof *landed);
    char *path = sc_path(dir, "places");
    struct run run = {.topic = topic, .phase = phase, .places = fopen(path, "a")};
    if (!run.places)
        sc_die("%s: %s", path, strerror(errno));
    setvbuf(run.places, NULL, _IOLBF, 4096);
    size_t before, sent;
    bool done;
    const struct sigaction end_early = {.sa_handler = on_term};
    sigaction(SIGTERM, &end_early, NULL);
    do {
        json_t *noted = places_noted(path);
        before = mark_landed(&run, noted, landed, records.count);
        json_decref(noted);
        done = send_missing(&run, &records, landed, from, to, rate, &sent);
    } while (!done);
    if (fclose(run.places) != 0)
        sc_die("%s: cannot be written", path);
    printf("produced %zu records of phase %d (%zu lay there)\n", sent, phase, before);
    free(path);
    free(landed);
    sc_records_free(&records);
}
