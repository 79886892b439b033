/* SPDX-License-Identifier: MIT */
/* The schemas and samples in config/ against what tallyd reads and writes. config/samples/index.json says
 * what each sample is. */
#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>

#include "../support/schema.h"
#include "batch.h"
#include "buf.h"
#include "config.h"
#include "dlt.h"
#include "event.h"
#include "kafka.h"
#include "notification.h"
#include "period.h"
#include "testing.h"

/* needs rdkafka.h first */
#include <librdkafka/rdkafka_mock.h>

#define SAMPLES "config/samples/"
#define RECORD_TS INT64_C(1796007600000) /* 2026-11-30T12:00:00+09:00 */

static const struct event_limits defaults = {
    .max_bytes = 65536, .max_future_ms = 300000, .max_past_months = 1, .closed_before = 0};

static struct event_memory memory;

static void use_zone(const char *zone) {
    struct error err = {0};
    ck_assert_msg(period_zone_init(zone, &err), "%s: %s", zone, err.text);
}

static json_t *load(const char *path) {
    size_t len;
    json_error_t err;
    char *text = testing_file(path, &len);
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &err);
    ck_assert_msg(json != NULL, "%s:%d: %s", path, err.line, err.text);
    free(text);
    return json;
}

static json_t *load_schema(const char *name) {
    char path[128], why[SCHEMA_WHY_SIZE];
    snprintf(path, sizeof path, "config/schemas/%s.schema.json", name);
    json_t *schema = load(path);
    ck_assert_msg(schema_usable(schema, why), "%s: %s", path, why);
    return schema;
}

static json_t *load_index(void) {
    json_t *index = load(SAMPLES "index.json");
    ck_assert_int_eq(json_integer_value(json_object_get(index, "recordTimestampMs")), RECORD_TS);
    return index;
}

static char *sample_file(const char *name, size_t *len) {
    char path[128];
    snprintf(path, sizeof path, SAMPLES "%s", name);
    return testing_file(path, len);
}

static const char *text(const json_t *of, const char *member) {
    return json_string_value(json_object_get(of, member));
}

static int64_t number(const json_t *of, const char *member, int64_t otherwise) {
    const json_t *n = json_object_get(of, member);
    return n ? json_integer_value(n) : otherwise;
}

/* What a validator makes of a record's value: it has a reader of its own, which doesn't mind duplicates. */
enum verdict { ACCEPTS, REFUSES, NO_JSON };

static const char *const verdicts[] = {"accepts", "refuses", "no JSON"};

static enum verdict judge(const json_t *schema, const char *value, size_t len, char why[SCHEMA_WHY_SIZE]) {
    json_error_t err;
    json_t *json = json_loadb(value, len, JSON_DECODE_ANY, &err);
    snprintf(why, SCHEMA_WHY_SIZE, "%s", err.text);
    if (!json)
        return NO_JSON;
    bool ok = schema_meets(schema, json, why);
    json_decref(json);
    return ok ? ACCEPTS : REFUSES;
}

/* ---- usage events ---- */

static void check_reads(const char *file, const json_t *reads, const struct usage_event *e) {
    const char *app = text(reads, "app");
    ck_assert_msg(strcmp(e->id, text(reads, "id")) == 0, "%s: id %s", file, e->id);
    ck_assert_msg(e->has_app == (app != NULL) && strcmp(e->app, app ? app : "") == 0, "%s: app \"%s\"", file,
                  e->app);
    ck_assert_msg(e->family_id == number(reads, "familyId", 0) &&
                      e->customer_id == number(reads, "customerId", 0) &&
                      e->bytes_used == number(reads, "bytesUsed", 0),
                  "%s: %" PRId64 " %" PRId64 " %" PRId64, file, e->family_id, e->customer_id, e->bytes_used);
    ck_assert_msg(e->time_ms == number(reads, "timeMs", 0) && e->month == number(reads, "month", 0) &&
                      e->hhmm == number(reads, "hhmm", -1),
                  "%s: %" PRId64 " %d %d", file, e->time_ms, e->month, e->hhmm);
}

START_TEST(valid_samples) {
    use_zone("Asia/Seoul");
    json_t *index = load_index(), *schema = load_schema("usage-event"), *sample;
    size_t i;
    ck_assert_uint_gt(json_array_size(json_object_get(index, "usageEvents")), 15);
    json_array_foreach(json_object_get(index, "usageEvents"), i, sample) {
        const char *file = text(sample, "file");
        char why[SCHEMA_WHY_SIZE];
        struct usage_event e;
        struct event_reason reason;
        size_t len;
        char *value = sample_file(file, &len);
        ck_assert_msg(judge(schema, value, len, why) == ACCEPTS, "%s: %s", file, why);
        ck_assert_msg(event_parse(value, len, RECORD_TS, &defaults, &memory, &e, &reason) == EVENT_USAGE,
                      "%s: %s", file, reason.message);
        check_reads(file, json_object_get(sample, "reads"), &e);
        free(value);
    }
    json_decref(schema);
    json_decref(index);
}
END_TEST

static void check_rejected(const json_t *schema, const json_t *sample) {
    const char *file = text(sample, "file"), *member = text(sample, "member");
    char why[SCHEMA_WHY_SIZE];
    struct usage_event e;
    struct event_reason reason;
    size_t len;
    char *value = sample_file(file, &len);
    ck_assert_msg(event_parse(value, len, RECORD_TS, &defaults, &memory, &e, &reason) == EVENT_REJECTED,
                  "%s isn't rejected", file);
    ck_assert_msg(strcmp(reject_code_name(reason.code), text(sample, "code")) == 0, "%s: %s: %s", file,
                  reject_code_name(reason.code), reason.message);
    ck_assert_msg((member != NULL) == (reason.code == REJECT_INVALID_FIELD), "%s: its member", file);
    ck_assert_msg(!member || (strncmp(reason.message, member, strlen(member)) == 0 &&
                              reason.message[strlen(member)] == ':'),
                  "%s: %s", file, reason.message);
    const char *verdict = verdicts[judge(schema, value, len, why)];
    ck_assert_msg(strcmp(verdict, text(sample, "schema")) == 0, "%s: a validator %s: %s", file, verdict, why);
    free(value);
}

START_TEST(rejected_samples) {
    use_zone("Asia/Seoul");
    json_t *index = load_index(), *schema = load_schema("usage-event"), *sample;
    size_t i;
    ck_assert_uint_gt(json_array_size(json_object_get(index, "rejected")), 25);
    json_array_foreach(json_object_get(index, "rejected"), i, sample) {
        check_rejected(schema, sample);
    }
    json_decref(schema);
    json_decref(index);
}
END_TEST

/* Cases of test/data/events.jsonl that a schema accepts and tallyd rejects. That is all of EVENT_IN_FUTURE
 * and EVENT_TOO_OLD, as a schema knows neither the record's time nor the closed month, and these. */
static struct {
    const char *note;
    bool seen;
} exceptions[] = {
    /* duplicate members, of which a reader keeps one */
    {"rejections:14", false},
    /* whole numbers with fraction or exponent, which are integers */
    {"rejections:37", false},
    {"rejections:38", false},
    {"rejections:59", false},
    {"familyId 1.0", false},
    {"familyId 1e0", false},
    {"familyId 1E3", false},
    {"familyId 10.0", false},
    {"familyId 4294967296.0", false},
    {"customerId 1.0", false},
    {"customerId 1e0", false},
    {"customerId 1E3", false},
    {"customerId 10.0", false},
    {"customerId 4294967296.0", false},
    {"bytesUsed 1.0", false},
    {"bytesUsed 1e0", false},
    {"bytesUsed 1E3", false},
    {"bytesUsed 10.0", false},
    {"bytesUsed 4294967296.0", false},
    /* over 100 bytes in fewer characters */
    {"app \"한한한한한한한한한한한", false},
    {"app \"\\u00e9\\u00e", false},
    /* no timestamp, and none in the record or one that can't be stored */
    {"no time anywhere", false},
    {"null time, none in the record", false},
    {"record of a time that can't be stored", false},
    {"record of the year 10000", false},
};

/* And one whose time no schema needs to know. */
static const char *const too_old_anyway = "the year 1";

static json_t *cases_schema;

static bool is_exception(const char *note) {
    for (size_t i = 0; i < TESTING_LENGTH(exceptions); i++) {
        if (strcmp(exceptions[i].note, note) == 0)
            return exceptions[i].seen = true;
    }
    return false;
}

static void check_case(const char *where, char *line) {
    json_error_t err;
    char why[SCHEMA_WHY_SIZE];
    json_t *c = json_loads(line, 0, &err);
    ck_assert_msg(c != NULL, "%s: %s", where, err.text);
    const char *outcome = text(c, "outcome"), *note = text(c, "note");
    const json_t *value = json_object_get(c, "value");
    bool window = strcmp(outcome, "EVENT_IN_FUTURE") == 0 || strcmp(outcome, "EVENT_TOO_OLD") == 0;
    enum verdict verdict = judge(cases_schema, json_string_value(value), json_string_length(value), why);
    if (verdict == NO_JSON)
        ck_assert_msg(strcmp(outcome, "MALFORMED_JSON") == 0, "%s (%s): %s", where, note, why);
    else if (strcmp(outcome, "USAGE") == 0 || (window && strcmp(note, too_old_anyway) != 0))
        ck_assert_msg(verdict == ACCEPTS, "%s (%s): %s, but: %s", where, note, outcome, why);
    else
        ck_assert_msg((verdict == ACCEPTS) == is_exception(note), "%s (%s): %s, but a validator %s", where,
                      note, outcome, verdicts[verdict]);
    json_decref(c);
}

START_TEST(parser_and_schema_agree) {
    cases_schema = load_schema("usage-event");
    ck_assert_int_gt(testing_lines("test/data/events.jsonl", check_case), 300);
    for (size_t i = 0; i < TESTING_LENGTH(exceptions); i++)
        ck_assert_msg(exceptions[i].seen, "no case is \"%s\"", exceptions[i].note);
    json_decref(cases_schema);
}
END_TEST

/* Does an event of that time meet the schema? */
static bool takes_time(const char *time) {
    char why[SCHEMA_WHY_SIZE];
    json_t *event = json_pack("{s:s, s:s, s:s, s:{s:i, s:i, s:i}}", "eventId", "e", "eventType", "DATA_USAGE",
                              "timestamp", time, "payload", "familyId", 1, "customerId", 2, "bytesUsed", 3);
    bool ok = event && schema_meets(cases_schema, event, why);
    json_decref(event);
    return ok;
}

/* Years before 1000 can be read but not stored. */
static void check_time(const char *where, char *line) {
    char *rest = line;
    strsep(&rest, "\t"); /* the zone */
    const char *time = strsep(&rest, "\t"), *instant = strsep(&rest, "\t");
    ck_assert_msg(instant != NULL, "%s: four fields are needed", where);
    bool expected = strcmp(instant, "invalid") != 0 && time[0] != '0';
    testing_require(takes_time(time) == expected, "%s: \"%s\" is %s", where, time,
                    expected ? "refused" : "accepted");
}

START_TEST(times_and_schema_agree) {
    static const int years[] = {999, 1000, 1900, 2000, 2024, 2026, 2028, 2100, 9999};
    use_zone("UTC");
    cases_schema = load_schema("usage-event");
    ck_assert_int_gt(testing_lines("test/data/timestamps.txt", check_time), 100);
    for (size_t y = 0; y < TESTING_LENGTH(years); y++) {
        for (int day = 0; day < 14 * 33; day++) { /* of impossible months, too */
            char time[32];
            int64_t t;
            snprintf(time, sizeof time, "%04d-%02d-%02dT12:00", years[y], day / 33, day % 33);
            bool exists = period_parse(time, strlen(time), &t) && years[y] >= 1000;
            testing_require(takes_time(time) == exists, "%s is %s", time, exists ? "refused" : "accepted");
        }
    }
    json_decref(cases_schema);
}
END_TEST

/* ---- notifications ---- */

static struct messages *catalogue(const char *locale) {
    char path[128];
    size_t len;
    struct error err = {0};
    snprintf(path, sizeof path, "config/messages.%s.yaml", locale);
    char *yaml = testing_file(path, &len);
    struct messages *m = messages_parse(path, yaml, len, &err);
    ck_assert_msg(m != NULL, "%s", err.text);
    free(yaml);
    return m;
}

/* Local times are the sample's own zone's. */
static void parse_sample(const char *file, struct usage_event *e) {
    struct event_reason reason;
    size_t len;
    char *value = sample_file(file, &len);
    ck_assert_msg(event_parse(value, len, RECORD_TS, &defaults, &memory, e, &reason) == EVENT_USAGE, "%s: %s",
                  file, reason.message);
    free(value);
}

/* What tallyd writes for an alert of the index. */
static void write_notification(const json_t *sample, struct buf *out) {
    const json_t *decision = json_object_get(sample, "decision");
    struct messages *m = catalogue(text(sample, "locale"));
    struct usage_event e;
    struct buf payload = {0};
    parse_sample(text(sample, "event"), &e);
    const struct notification n = {.event = &e,
                                   .status = text(decision, "status"),
                                   .threshold = (int)number(decision, "threshold", 0),
                                   .total_bytes = number(decision, "totalBytes", 0),
                                   .remaining_bytes = number(decision, "remainingBytes", 0),
                                   .monthly_used_bytes = number(decision, "monthlyUsedBytes", 0),
                                   .monthly_limit_bytes = number(decision, "monthlyLimitBytes", 0)};
    notification_payload(&payload, m, &n);
    notification_envelope(out, e.id, number(sample, "createdAtMs", 0), payload.data, payload.len);
    buf_free(&payload);
    messages_free(m);
}

START_TEST(notification_samples) {
    use_zone("Asia/Seoul");
    json_t *index = load_index(), *schema = load_schema("notification"), *sample;
    size_t i;
    ck_assert_uint_ge(json_array_size(json_object_get(index, "notifications")), 2);
    json_array_foreach(json_object_get(index, "notifications"), i, sample) {
        char why[SCHEMA_WHY_SIZE];
        struct buf written = {0};
        size_t len;
        char *golden = sample_file(text(sample, "file"), &len);
        write_notification(sample, &written);
        ck_assert_msg(len == written.len && memcmp(golden, written.data, len) == 0, "%s:\n%s\nwritten:\n%s",
                      text(sample, "file"), golden, buf_cstr(&written));
        ck_assert_msg(judge(schema, golden, len, why) == ACCEPTS, "%s: %s", text(sample, "file"), why);
        free(golden);
        buf_free(&written);
    }
    json_decref(schema);
    json_decref(index);
}
END_TEST

/* Whatever event and status: the schema takes what is written, and it has no room for anything else. */
START_TEST(every_notification_meets_its_schema) {
    static const char *const statuses[] = {"WARNING_1",
                                           "WARNING_50",
                                           "WARNING_99",
                                           "MANUAL",
                                           "APP_BLOCK",
                                           "TIME_BLOCK",
                                           "MONTHLY_LIMIT_EXCEEDED",
                                           "FAMILY_QUOTA_EXCEEDED"};
    static const char *const zones[] = {"Asia/Seoul", "UTC", "America/New_York", "Asia/Kathmandu"};
    json_t *schema = load_schema("notification");
    struct messages *m = catalogue("ko");
    char why[SCHEMA_WHY_SIZE];
    for (size_t z = 0; z < TESTING_LENGTH(zones); z++) {
        for (size_t s = 0; s < TESTING_LENGTH(statuses); s++) {
            struct buf payload = {0}, value = {0};
            struct usage_event e;
            bool app = strcmp(statuses[s], "APP_BLOCK") == 0 || s % 2 == 0;
            use_zone("Asia/Seoul");
            parse_sample(app ? "usage-event.trimmed-app.json" : "usage-event.text-numbers.json", &e);
            use_zone(zones[z]);
            const struct notification n = {.event = &e,
                                           .status = statuses[s],
                                           .threshold = s < 3 ? atoi(statuses[s] + sizeof "WARNING_" - 1) : 0,
                                           .monthly_limit_bytes = -1};
            notification_payload(&payload, m, &n);
            notification_envelope(&value, e.id, RECORD_TS + 456, payload.data, payload.len);
            ck_assert_msg(judge(schema, value.data, value.len, why) == ACCEPTS, "%s\n%s", why, value.data);
            buf_free(&payload);
            buf_free(&value);
        }
    }
    messages_free(m);
    json_decref(schema);
}
END_TEST

/* Takes away each member in turn, and adds one: the schema has to notice. */
static void check_strict(const json_t *schema, json_t *whole, json_t *object) {
    char why[SCHEMA_WHY_SIZE];
    json_t *names = json_array(), *name;
    const char *member;
    json_t *value;
    size_t i;
    json_object_foreach(object, member, value) {
        json_array_append_new(names, json_string(member));
    }
    json_array_foreach(names, i, name) {
        member = json_string_value(name);
        value = json_incref(json_object_get(object, member));
        json_object_del(object, member);
        ck_assert_msg(!schema_meets(schema, whole, why), "%s can be absent", member);
        json_object_set_new(object, member, json_array());
        ck_assert_msg(!schema_meets(schema, whole, why), "%s can be an array", member);
        json_object_set_new(object, member, value);
        ck_assert_msg(schema_meets(schema, whole, why), "%s", why);
    }
    json_object_set_new(object, "more", json_null());
    ck_assert_msg(!schema_meets(schema, whole, why), "there can be more");
    json_object_del(object, "more");
    json_decref(names);
}

START_TEST(notification_schema_is_strict) {
    static const char *const files[] = {"notification.threshold.json", "notification.blocked.json"};
    json_t *schema = load_schema("notification");
    for (size_t i = 0; i < TESTING_LENGTH(files); i++) {
        char path[128], why[SCHEMA_WHY_SIZE];
        snprintf(path, sizeof path, SAMPLES "%s", files[i]);
        json_t *whole = load(path);
        json_t *payload = json_object_get(whole, "payload"), *data = json_object_get(payload, "data");
        check_strict(schema, whole, whole);
        check_strict(schema, whole, payload);
        check_strict(schema, whole, data);
        json_object_set_new(data, "status", json_string("NORMAL"));
        ck_assert_msg(!schema_meets(schema, whole, why), "nobody is told of NORMAL");
        json_decref(whole);
    }
    json_decref(schema);
}
END_TEST

/* ---- the dead letter topic ---- */

START_TEST(codes_are_those_of_the_schema) {
    json_t *schema = load_schema("dlt-headers");
    const json_t *codes =
        json_object_get(json_object_get(json_object_get(schema, "properties"), "x-error-code"), "enum");
    ck_assert_uint_eq(json_array_size(codes), REJECT_SETTLEMENT_REJECTED);
    for (int code = REJECT_NONE + 1; code <= REJECT_SETTLEMENT_REJECTED; code++)
        ck_assert_str_eq(json_string_value(json_array_get(codes, (size_t)code - 1)),
                         reject_code_name((enum reject_code)code));
    json_decref(schema);
}
END_TEST

/* A broker in this process, with the default topics. */
struct broker {
    rd_kafka_t *host;
    rd_kafka_mock_cluster_t *cluster;
    struct config *cfg;
};

static void broker_start(struct broker *b) {
    static const char yaml[] = "zone: Asia/Seoul\n";
    char why[256];
    struct error err = {0};
    b->cfg = config_parse("test", yaml, sizeof yaml - 1, &err);
    ck_assert_msg(b->cfg != NULL, "%s", err.text);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "3", why, sizeof why); /* it connects to nothing itself */
    b->host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    ck_assert_msg(b->host != NULL, "%s", why);
    b->cluster = rd_kafka_mock_cluster_new(b->host, 1);
    ck_assert_ptr_nonnull(b->cluster);
    rd_kafka_mock_topic_create(b->cluster, b->cfg->kafka.usage_topic, 4, 1);
    rd_kafka_mock_topic_create(b->cluster, b->cfg->kafka.dlt_topic, 4, 1);
    free(b->cfg->kafka.brokers);
    b->cfg->kafka.brokers = mem_strdup(rd_kafka_mock_cluster_bootstraps(b->cluster));
}

static void broker_end(struct broker *b) {
    rd_kafka_mock_cluster_destroy(b->cluster);
    rd_kafka_destroy(b->host);
    config_free(b->cfg);
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *msg, void *opaque) {
    (void)rk;
    *(int *)opaque += msg->err == RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* The same record `count` times, as it was redriven once: with a code from before and a header of its
 * producer. */
static void produce_usage(const struct broker *b, int32_t partition, int count, char *value, size_t len,
                          const char *traceparent) {
    struct error err = {0};
    int delivered = 0;
    rd_kafka_t *rk = kafka_producer_new(b->cfg, on_delivery, &delivered, &err);
    ck_assert_msg(rk != NULL, "%s", err.text);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(b->cfg->kafka.usage_topic),
                                           RD_KAFKA_V_PARTITION(partition), RD_KAFKA_V_KEY("100042", 6),
                                           RD_KAFKA_V_VALUE(value, len), RD_KAFKA_V_TIMESTAMP(RECORD_TS),
                                           RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                           RD_KAFKA_V_HEADER("x-error-code", "EVENT_TOO_OLD", -1),
                                           RD_KAFKA_V_HEADER("traceparent", traceparent, -1), RD_KAFKA_V_END),
                         RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_flush(rk, 20000);
    ck_assert_int_eq(delivered, count);
    rd_kafka_destroy(rk);
}

/* Reads a topic's partitions until a record comes. The caller destroys it before the consumer. */
static rd_kafka_message_t *consume(rd_kafka_t *rk, const char *topic, int32_t first, int32_t last,
                                   int64_t offset) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
    for (int32_t p = first; p <= last; p++)
        rd_kafka_topic_partition_list_add(list, topic, p)->offset = offset;
    rd_kafka_assign(rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    for (int tries = 0; tries < 200; tries++) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 100);
        if (m && m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            return m;
        if (m)
            rd_kafka_message_destroy(m);
    }
    ck_abort_msg("no record came");
}

static json_t *headers_of(const rd_kafka_message_t *m) {
    json_t *object = json_object();
    rd_kafka_headers_t *headers = NULL;
    const char *name;
    const void *value;
    size_t size;
    ck_assert_int_eq(rd_kafka_message_headers(m, &headers), RD_KAFKA_RESP_ERR_NO_ERROR);
    for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == 0; i++) {
        ck_assert_msg(!json_object_get(object, name), "%s is there twice", name);
        json_object_set_new(object, name, json_stringn(value, size));
    }
    return object;
}

/* Rejects the record as a batch does and writes its letter. */
static void reject(const struct broker *b, rd_kafka_message_t *msg) {
    struct error err = {0};
    struct assignment *a = assignment_new(1, 1);
    a->parts[0].id = msg->partition;
    a->parts[0].position = msg->offset;
    struct batch *batch = batch_new(a);
    batch_add(batch, &a->parts[0], msg, &defaults);
    struct metrics *metrics = metrics_new();
    struct dlt *dlt = dlt_new(b->cfg, metrics);
    ck_assert_msg(dlt_write(dlt, batch, true, &err), "%s", err.text);
    ck_assert(batch->events[0].dlt_acked);
    ck_assert_int_eq(metrics_get(metrics, METRIC_DLT, batch->events[0].why.code), 1);
    ck_assert_int_eq(metrics_total(metrics, METRIC_DLT), 1);
    dlt_free(dlt);
    metrics_free(metrics);
    batch_free(batch);
    assignment_unref(a);
}

START_TEST(dead_letter_samples) {
    use_zone("Asia/Seoul");
    json_t *index = load_index(), *schema = load_schema("dlt-headers");
    const json_t *sample = json_array_get(json_object_get(index, "deadLetters"), 0);
    char path[128], why[SCHEMA_WHY_SIZE];
    snprintf(path, sizeof path, SAMPLES "%s", text(sample, "file"));
    json_t *golden = load(path);
    ck_assert_msg(schema_meets(schema, golden, why), "%s: %s", path, why);

    struct broker b;
    struct error err = {0};
    size_t len;
    int32_t partition = (int32_t)number(sample, "partition", 0);
    int64_t offset = number(sample, "offset", 0);
    broker_start(&b);
    char *value = sample_file(text(sample, "rejected"), &len);
    produce_usage(&b, partition, (int)offset + 1, value, len, text(golden, "traceparent"));
    rd_kafka_t *rk = kafka_observer_new(b.cfg, &err);
    ck_assert_msg(rk != NULL, "%s", err.text);
    rd_kafka_poll_set_consumer(rk);
    reject(&b, consume(rk, b.cfg->kafka.usage_topic, partition, partition, offset));

    rd_kafka_message_t *letter = consume(rk, b.cfg->kafka.dlt_topic, 0, 3, RD_KAFKA_OFFSET_BEGINNING);
    json_t *written = headers_of(letter);
    char *told = json_dumps(written, JSON_INDENT(2));
    ck_assert_msg(json_equal(written, golden), "%s, but written is:\n%s", path, told);
    ck_assert_uint_eq(letter->len, len);
    ck_assert_mem_eq(letter->payload, value, len);
    ck_assert_int_eq(rd_kafka_message_timestamp(letter, NULL), RECORD_TS);
    rd_kafka_message_destroy(letter);
    rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
    broker_end(&b);
    free(told);
    free(value);
    json_decref(written);
    json_decref(golden);
    json_decref(schema);
    json_decref(index);
}
END_TEST

START_TEST(dlt_schema_is_strict) {
    json_t *schema = load_schema("dlt-headers"), *golden = load(SAMPLES "dlt-headers.json"), *names, *name;
    char why[SCHEMA_WHY_SIZE];
    size_t i;
    static const char *const numbers[] = {"x-original-partition", "x-original-offset", "x-original-timestamp",
                                          "x-truncated"};
    names = json_object_get(schema, "required");
    ck_assert_uint_eq(json_array_size(names), 7);
    json_array_foreach(names, i, name) {
        json_t *one_less = json_copy(golden);
        json_object_del(one_less, json_string_value(name));
        ck_assert_msg(!schema_meets(schema, one_less, why), "%s can be absent", json_string_value(name));
        json_decref(one_less);
    }
    for (i = 0; i < TESTING_LENGTH(numbers); i++) {
        static const char *const bad[] = {"", "01", "+1", "1.0", " 1", "-2", "x"};
        for (size_t k = 0; k < TESTING_LENGTH(bad); k++) {
            json_t *changed = json_copy(golden);
            json_object_set_new(changed, numbers[i], json_string(bad[k]));
            ck_assert_msg(!schema_meets(schema, changed, why), "%s can be \"%s\"", numbers[i], bad[k]);
            json_decref(changed);
        }
    }
    json_object_set_new(golden, "x-truncated", json_string("70000"));
    json_object_set_new(golden, "x-original-timestamp", json_string("-1"));
    ck_assert_msg(schema_meets(schema, golden, why), "%s", why);
    json_decref(golden);
    json_decref(schema);
}
END_TEST

/* ---- the validator, and that nothing lies about unchecked ---- */

static void check_verdict(const char *schema_text, const char *value_text, bool expected) {
    char why[SCHEMA_WHY_SIZE];
    json_t *schema = json_loads(schema_text, 0, NULL);
    json_t *value = json_loads(value_text, JSON_DECODE_ANY, NULL);
    ck_assert_msg(schema && value, "%s or %s is no JSON", schema_text, value_text);
    ck_assert_msg(schema_usable(schema, why), "%s: %s", schema_text, why);
    ck_assert_msg(schema_meets(schema, value, why) == expected, "%s and %s: %s", schema_text, value_text,
                  why);
    json_decref(schema);
    json_decref(value);
}

START_TEST(validator_as_the_specification_says) {
    static const struct {
        const char *schema, *meets, *doesnt;
    } table[] = {
        {"{\"type\":\"integer\"}", "1", "1.5"},
        {"{\"type\":\"integer\"}", "1.0", "\"1\""},
        {"{\"type\":\"integer\"}", "1e3", "true"},
        {"{\"type\":\"number\"}", "1.5", "null"},
        {"{\"type\":\"boolean\"}", "false", "0"},
        {"{\"type\":\"object\"}", "{}", "[]"},
        {"{\"type\":\"array\"}", "[]", "\"\""},
        {"{\"type\":\"null\"}", "null", "false"},
        {"{\"const\":{\"a\":[1]}}", "{\"a\":[1]}", "{\"a\":[1,1]}"},
        {"{\"enum\":[\"a\",1]}", "1", "\"1\""},
        {"{\"minimum\":9007199254740991}", "9007199254740991", "9007199254740990"},
        {"{\"maximum\":9007199254740991}", "9007199254740991", "9007199254740992"},
        {"{\"minimum\":1,\"maximum\":2}", "\"x\"", "0.5"},
        {"{\"minLength\":2}", "\"한한\"", "\"한\""},
        {"{\"maxLength\":2}", "\"한한\"", "\"한한한\""},
        {"{\"maxLength\":0}", "[1]", "\"a\""},
        {"{\"pattern\":\"b\"}", "\"abc\"", "\"ac\""},
        {"{\"pattern\":\"^b$\"}", "\"b\"", "\"b\\n\""},
        {"{\"pattern\":\"^[^a]{2}$\"}", "\"한한\"", "\"한\""},
        {"{\"pattern\":\"b\"}", "7", "\"\""},
        {"{\"required\":[\"a\"]}", "{\"a\":null}", "{\"b\":1}"},
        {"{\"required\":[\"a\"]}", "[]", "{}"},
        {"{\"properties\":{\"a\":{\"type\":\"null\"}}}", "{\"b\":1}", "{\"a\":1}"},
        {"{\"properties\":{\"a\":{}},\"additionalProperties\":false}", "{\"a\":1}", "{\"b\":1}"},
        {"{\"additionalProperties\":{\"type\":\"null\"}}", "{\"b\":null}", "{\"b\":1}"},
        {"{\"properties\":{\"a\":false}}", "{}", "{\"a\":1}"},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"minimum\":2}]}", "2", "1"},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"string\"}],\"maxLength\":1}", "null", "\"aa\""},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"type\":\"null\"}}}", "null", "1"},
        {"{\"type\":\"null\",\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{}}}", "null", "1"},
    };
    for (size_t i = 0; i < TESTING_LENGTH(table); i++) {
        check_verdict(table[i].schema, table[i].meets, true);
        check_verdict(table[i].schema, table[i].doesnt, false);
    }
}
END_TEST

START_TEST(validator_passes_over_nothing) {
    static const char *const schemas[] = {
        "{\"format\":\"date\"}",
        "{\"Type\":\"null\"}",
        "{\"properties\":{\"a\":{\"minProperties\":1}}}",
        "{\"$defs\":{\"unused\":{\"not\":{}}}}",
        "{\"anyOf\":[{},{\"if\":{}}]}",
        "{\"additionalProperties\":{\"items\":{}}}",
        "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"b\":{}}}",
        "{\"$ref\":\"other.json\"}",
        "{\"type\":7}",
        "{\"pattern\":\"(\"}",
        "{\"required\":\"a\"}",
        "{\"minLength\":-1}",
        "{\"maximum\":\"1\"}",
        "{\"properties\":[]}",
        "{\"properties\":{\"a\":null}}",
        "[]",
    };
    for (size_t i = 0; i < TESTING_LENGTH(schemas); i++) {
        char why[SCHEMA_WHY_SIZE] = "";
        json_t *schema = json_loads(schemas[i], 0, NULL);
        ck_assert_msg(schema != NULL, "%s is no JSON", schemas[i]);
        ck_assert_msg(!schema_usable(schema, why), "%s counts as usable", schemas[i]);
        ck_assert_msg(strlen(why) > 0, "%s: nothing said", schemas[i]);
        json_decref(schema);
    }
}
END_TEST

/* How often the index names a file as a sample. */
static int mentions(const json_t *index, const char *file) {
    static const char *const lists[] = {"usageEvents", "rejected", "notifications", "deadLetters"};
    int n = 0;
    for (size_t l = 0; l < TESTING_LENGTH(lists); l++) {
        const json_t *sample;
        size_t i;
        json_array_foreach(json_object_get(index, lists[l]), i, sample) {
            n += strcmp(text(sample, "file"), file) == 0;
        }
    }
    return n;
}

START_TEST(every_sample_is_in_the_index) {
    json_t *index = load_index();
    DIR *dir = opendir(SAMPLES);
    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *d; (d = readdir(dir)) != NULL;) {
        if (d->d_name[0] != '.' && strcmp(d->d_name, "index.json") != 0)
            ck_assert_msg(mentions(index, d->d_name) == 1, "%s is in the index %d times", d->d_name,
                          mentions(index, d->d_name));
    }
    closedir(dir);
    json_decref(index);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schemas");
    TCase *tc = tcase_create("schemas");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, valid_samples);
    tcase_add_test(tc, rejected_samples);
    tcase_add_test(tc, parser_and_schema_agree);
    tcase_add_test(tc, times_and_schema_agree);
    tcase_add_test(tc, notification_samples);
    tcase_add_test(tc, every_notification_meets_its_schema);
    tcase_add_test(tc, notification_schema_is_strict);
    tcase_add_test(tc, codes_are_those_of_the_schema);
    tcase_add_test(tc, dead_letter_samples);
    tcase_add_test(tc, dlt_schema_is_strict);
    tcase_add_test(tc, validator_as_the_specification_says);
    tcase_add_test(tc, validator_passes_over_nothing);
    tcase_add_test(tc, every_sample_is_in_the_index);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
