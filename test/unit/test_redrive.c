/* SPDX-License-Identifier: MIT */
/* The DLT read and sent again, on a broker in this process: which records, what is sent, and what stands when
 * the broker refuses or goes away in the middle. */
#include "redrive.h"

#include <librdkafka/rdkafka_mock.h>

#include "buf.h"
#include "kafka.h"
#include "testing.h"

#define TIME 1796007600123LL
#define FROM_TOPIC "usage-events"

static rd_kafka_t *host;
static rd_kafka_mock_cluster_t *cluster;
static struct config *cfg;

static void set_up(void) {
    static const char yaml[] = "zone: Asia/Seoul\nkafka: {message_timeout_ms: 5000}\n";
    char why[256];
    struct error err = {0};
    cfg = config_parse("test", yaml, sizeof yaml - 1, &err);
    ck_assert_msg(cfg != NULL, "%s", err.text);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "3", why, sizeof why);
    host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    ck_assert_msg(host != NULL, "%s", why);
    cluster = rd_kafka_mock_cluster_new(host, 1);
    rd_kafka_mock_topic_create(cluster, cfg->kafka.usage_topic, 1, 1);
    rd_kafka_mock_topic_create(cluster, cfg->kafka.dlt_topic, 2, 1);
    free(cfg->kafka.brokers);
    cfg->kafka.brokers = mem_strdup(rd_kafka_mock_cluster_bootstraps(cluster));
}

static void tear_down(void) {
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(host);
    config_free(cfg);
}

/* ---- what lies in the DLT ---- */

struct letter {
    int32_t partition;
    const char *code, *time; /* headers; NULL: without */
    int64_t record_ms;
    const char *key, *value; /* NULL: none, which isn't empty */
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *msg, void *opaque) {
    (void)rk;
    *(size_t *)opaque += msg->err == RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_headers_t *letter_headers(const struct letter *l) {
    rd_kafka_headers_t *h = rd_kafka_headers_new(8);
    rd_kafka_header_add(h, "own", -1, "first", -1);
    if (l->code)
        rd_kafka_header_add(h, "x-error-code", -1, l->code, -1);
    rd_kafka_header_add(h, "x-original-topic", -1, FROM_TOPIC, -1);
    if (l->time)
        rd_kafka_header_add(h, "x-original-timestamp", -1, l->time, -1);
    rd_kafka_header_add(h, "own", -1, "second", -1);
    rd_kafka_header_add(h, "empty", -1, "", 0);
    rd_kafka_header_add(h, "none", -1, NULL, 0);
    return h;
}

static void put(const struct letter *letters, size_t n) {
    struct error err = {0};
    size_t delivered = 0;
    rd_kafka_t *rk = kafka_producer_new(cfg, on_delivery, &delivered, &err);
    ck_assert_msg(rk != NULL, "%s", err.text);
    for (size_t i = 0; i < n; i++) {
        const struct letter *l = &letters[i];
        rd_kafka_vu_t vus[] = {
            {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = cfg->kafka.dlt_topic},
            {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = l->partition},
            {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {(void *)l->key, l->key ? strlen(l->key) : 0}},
            {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {(void *)l->value, l->value ? strlen(l->value) : 0}},
            {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = l->record_ms},
            {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = letter_headers(l)},
        };
        ck_assert_ptr_null(rd_kafka_produceva(rk, vus, TESTING_LENGTH(vus)));
    }
    rd_kafka_flush(rk, 20000);
    ck_assert_uint_eq(delivered, n);
    rd_kafka_destroy(rk);
}

/* ---- reading ---- */

#define TAKEN_MAX 16
struct taken {
    rd_kafka_message_t *msgs[TAKEN_MAX];
    struct dlt_record records[TAKEN_MAX];
    size_t count;
};

static bool take(void *ctx, rd_kafka_message_t **msg, const struct dlt_record *r, struct error *err) {
    struct taken *t = ctx;
    (void)err;
    ck_assert_uint_lt(t->count, TAKEN_MAX);
    t->records[t->count] = *r;
    t->msgs[t->count++] = *msg;
    *msg = NULL;
    return true;
}

static rd_kafka_t *read_all(const struct dlt_selection *sel, struct taken *t) {
    struct error err = {0};
    rd_kafka_t *rk = kafka_reader_new(cfg, &err);
    ck_assert_msg(rk != NULL, "%s", err.text);
    ck_assert_msg(dlt_read(rk, cfg, sel, take, t, &err), "%s", err.text);
    return rk;
}

static void drop(struct taken *t, rd_kafka_t *rk) {
    while (t->count)
        rd_kafka_message_destroy(t->msgs[--t->count]);
    kafka_destroy(rk, 5000);
}

static const struct letter some[] = {
    {0, "UNKNOWN_FAMILY", "1796007600123", TIME, "1", "a"},
    {0, "MALFORMED_JSON", "1796007600124", TIME + 1, "1", "b"},
    {0, "UNKNOWN_FAMILY", "1796007600125", TIME + 2, "1", "c"},
    {1, "UNKNOWN_FAMILY", "1796007600126", TIME + 3, "1", "d"},
    {1, NULL, NULL, TIME + 4, "1", "e"},
};

/* The values of those that are selected. */
static void expect(struct dlt_selection sel, const char *values) {
    struct taken t = {0};
    char found[TAKEN_MAX + 1] = "";
    rd_kafka_t *rk = read_all(&sel, &t);
    for (size_t i = 0; i < t.count; i++)
        found[i] = *(const char *)t.msgs[i]->payload;
    ck_assert_str_eq(found, values);
    drop(&t, rk);
}

START_TEST(selects_by_all_bounds_at_once) {
    struct dlt_selection all = dlt_selection_all(), sel;
    put(some, TESTING_LENGTH(some));
    expect(all, "abcde");
    sel = all, sel.code = "UNKNOWN_FAMILY";
    expect(sel, "acd");
    sel.until_ms = TIME + 3; /* not included */
    expect(sel, "ac");
    sel.partition = 1;
    expect(sel, "");
    sel = all, sel.partition = 0, sel.first = 1, sel.last = 2; /* both included */
    expect(sel, "bc");
    sel.last = INT64_MAX;
    expect(sel, "bc");
    sel = all, sel.from_partition = 0, sel.from_offset = 2;
    expect(sel, "cde");
    sel.from_partition = 1, sel.from_offset = 1;
    expect(sel, "e");
    sel.from_partition = 2, sel.from_offset = 0;
    expect(sel, "");
}
END_TEST

START_TEST(a_partition_that_isnt_there_is_an_error) {
    struct error err = {0};
    struct taken t = {0};
    struct dlt_selection sel = dlt_selection_all();
    sel.partition = 7;
    rd_kafka_t *rk = kafka_reader_new(cfg, &err);
    ck_assert(!dlt_read(rk, cfg, &sel, take, &t, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "has no partition 7"));
    drop(&t, rk);
}
END_TEST

/* The record's own time is the original's, too: a header that can't be read must not make it today's. */
START_TEST(the_original_time) {
    static const struct letter times[] = {
        {0, "A", "1796007600999", TIME, NULL, "a"},
        {0, "A", NULL, TIME, NULL, "b"},
        {0, "A", "yesterday", TIME, NULL, "c"},
        {0, "A", "", TIME, NULL, "d"},
        {0, "A", "99999999999999999999", TIME, NULL, "e"},
    };
    struct taken t = {0};
    struct dlt_selection all = dlt_selection_all();
    put(times, TESTING_LENGTH(times));
    rd_kafka_t *rk = read_all(&all, &t);
    ck_assert_uint_eq(t.count, TESTING_LENGTH(times));
    for (size_t i = 0; i < t.count; i++)
        testing_require(t.records[i].time_ms == (i ? TIME : 1796007600999), "record %zu: %lld", i,
                        (long long)t.records[i].time_ms);
    drop(&t, rk);
}
END_TEST

/* ---- sending ---- */

START_TEST(obstacles) {
    struct dlt_record r = {.topic = FROM_TOPIC};
    ck_assert_ptr_null(redrive_obstacle(&r, FROM_TOPIC));
    ck_assert_str_eq(redrive_obstacle(&r, "other"), "from another topic");
    r.cut = true;
    ck_assert_ptr_nonnull(strstr(redrive_obstacle(&r, FROM_TOPIC), "x-truncated"));
    r = (struct dlt_record){0};
    ck_assert_ptr_nonnull(strstr(redrive_obstacle(&r, FROM_TOPIC), "x-original-topic"));
    ck_assert_ptr_nonnull(redrive_obstacle(&r, ""));
}
END_TEST

static void refused(void *ctx, int32_t partition, int64_t offset, const char *why) {
    struct buf *told = ctx;
    (void)why;
    buf_printf(told, "%d:%lld ", partition, (long long)offset);
}

/* What a redrive has is of this handle, which must outlive it. */
static rd_kafka_t *source;

/* Gives all of the DLT to a redrive, and sends nothing yet. */
static struct redrive *redrive_of(struct buf *told) {
    struct error err = {0};
    struct taken t = {0};
    struct dlt_selection all = dlt_selection_all();
    source = read_all(&all, &t);
    struct redrive *r = redrive_new(cfg, cfg->kafka.usage_topic, refused, told, &err);
    ck_assert_msg(r != NULL, "%s", err.text);
    for (size_t i = 0; i < t.count; i++)
        ck_assert_msg(redrive_add(r, t.msgs[i], t.records[i].time_ms, &err), "%s", err.text);
    return r;
}

static void end(struct redrive *r, struct buf *told) {
    redrive_free(r);
    kafka_destroy(source, 5000);
    buf_free(told);
}

static bool same(const void *data, size_t len, const char *expected) {
    return expected ? data && len == strlen(expected) && memcmp(data, expected, len) == 0 : !data;
}

static void expect_own_headers(const rd_kafka_message_t *m) {
    static const char *const pairs[][2] = {
        {"own", "first"}, {"own", "second"}, {"empty", ""}, {"none", NULL}};
    rd_kafka_headers_t *h = NULL;
    const char *name;
    const void *value;
    size_t len, n = 0;
    ck_assert_int_eq(rd_kafka_message_headers(m, &h), RD_KAFKA_RESP_ERR_NO_ERROR);
    for (; rd_kafka_header_get_all(h, n, &name, &value, &len) == RD_KAFKA_RESP_ERR_NO_ERROR; n++)
        testing_require(n < 4 && strcmp(name, pairs[n][0]) == 0 && same(value, len, pairs[n][1]),
                        "header %zu is %s", n, name);
    ck_assert_uint_eq(n, 4);
}

START_TEST(none_and_empty_stay_what_they_are) {
    static const struct letter kinds[] = {{0, "A", NULL, TIME, NULL, NULL},
                                          {0, "A", NULL, TIME, "", ""},
                                          {0, "A", NULL, TIME, NULL, "value"},
                                          {0, "A", NULL, TIME, "key", NULL}};
    struct error err = {0};
    struct buf told = {0};
    struct taken t = {0};
    put(kinds, TESTING_LENGTH(kinds));
    struct redrive *r = redrive_of(&told);
    ck_assert_msg(redrive_flush(r, &err), "%s", err.text);
    ck_assert_int_eq(redrive_sent(r), TESTING_LENGTH(kinds));
    end(r, &told);
    free(cfg->kafka.dlt_topic);
    cfg->kafka.dlt_topic = mem_strdup(cfg->kafka.usage_topic); /* to read what came */
    struct dlt_selection all = dlt_selection_all();
    rd_kafka_t *rk = read_all(&all, &t);
    ck_assert_uint_eq(t.count, TESTING_LENGTH(kinds));
    for (size_t i = 0; i < t.count; i++) {
        testing_require(same(t.msgs[i]->key, t.msgs[i]->key_len, kinds[i].key), "key %zu", i);
        testing_require(same(t.msgs[i]->payload, t.msgs[i]->len, kinds[i].value), "value %zu", i);
        testing_require(rd_kafka_message_timestamp(t.msgs[i], NULL) == TIME, "time %zu", i);
        expect_own_headers(t.msgs[i]);
    }
    drop(&t, rk);
}
END_TEST

/* Where each answer comes from the list, in turn. */
static void answer(size_t n, const rd_kafka_resp_err_t *codes) {
    rd_kafka_mock_push_request_errors_array(cluster, 0 /* Produce */, n, codes);
}

START_TEST(one_refused_in_company_doesnt_hold_up_the_others) {
    static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                                                RD_KAFKA_RESP_ERR_NO_ERROR,
                                                RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE};
    struct error err = {0};
    struct buf told = {0};
    put(some, 3);
    struct redrive *r = redrive_of(&told);
    answer(TESTING_LENGTH(codes), codes);
    ck_assert_msg(redrive_flush(r, &err), "%s", err.text);
    ck_assert_int_eq(redrive_sent(r), 2);
    ck_assert_int_eq(redrive_refused(r), 1);
    ck_assert_str_eq(buf_cstr(&told), "0:1 ");
    end(r, &told);
}
END_TEST

/* A broker that goes away while they're asked one by one: each would wait as long as a message may take, and
 * what wasn't asked alone isn't refused. */
START_TEST(gone_while_asked_alone) {
    static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                                                RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS};
    struct error err = {0};
    struct buf told = {0};
    int32_t partition;
    int64_t offset;
    put(some, 3);
    struct redrive *r = redrive_of(&told);
    answer(TESTING_LENGTH(codes), codes);
    ck_assert(!redrive_flush(r, &err));
    ck_assert_int_eq(redrive_sent(r), 0);
    ck_assert_int_eq(redrive_refused(r), 0);
    ck_assert(redrive_position(r, &partition, &offset));
    ck_assert_int_eq(partition, 0);
    ck_assert_int_eq(offset, 0);
    end(r, &told);
}
END_TEST

START_TEST(position_of_what_isnt_sent) {
    struct error err = {0};
    struct buf told = {0};
    int32_t partition;
    int64_t offset;
    struct redrive *none = redrive_new(cfg, cfg->kafka.usage_topic, refused, &told, &err);
    ck_assert(!redrive_position(none, &partition, &offset));
    redrive_free(none);
    put(some, TESTING_LENGTH(some));
    struct redrive *r = redrive_of(&told);
    ck_assert(redrive_position(r, &partition, &offset)); /* gathered, when reading fails */
    ck_assert_int_eq(partition, 0);
    ck_assert_int_eq(offset, 0);
    ck_assert_msg(redrive_flush(r, &err), "%s", err.text);
    ck_assert(redrive_position(r, &partition, &offset)); /* all are sent: behind the last */
    ck_assert_int_eq(partition, 1);
    ck_assert_int_eq(offset, 2);
    end(r, &told);
}
END_TEST

int main(void) {
    Suite *s = suite_create("redrive");
    TCase *tc = tcase_create("redrive");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, selects_by_all_bounds_at_once);
    tcase_add_test(tc, a_partition_that_isnt_there_is_an_error);
    tcase_add_test(tc, the_original_time);
    tcase_add_test(tc, obstacles);
    tcase_add_test(tc, none_and_empty_stay_what_they_are);
    tcase_add_test(tc, one_refused_in_company_doesnt_hold_up_the_others);
    tcase_add_test(tc, gone_while_asked_alone);
    tcase_add_test(tc, position_of_what_isnt_sent);
    suite_add_tcase(s, tc);
    return testing_run(s);
}
