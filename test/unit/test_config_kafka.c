/* SPDX-License-Identifier: MIT */
/* kafka.properties: which ones are refused (test/data/config_properties.txt),
 * that they reach every kind of handle, and what of them gets into the log.
 * Nothing here connects to a broker. Runs from the root of the checkout. */
#include <fcntl.h>

#include "config.h"
#include "config_cases.h"
#include "kafka.h"
#include "log.h"

static struct config *must_parse(const char *yaml) {
    struct error err = {0};
    struct config *c = config_parse("t.yaml", yaml, strlen(yaml), &err);
    ck_assert_msg(c != NULL, "%s\nin:\n%s", err.text, yaml);
    return c;
}

static void rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code, rd_kafka_topic_partition_list_t *parts,
                      void *opaque) {
    (void)rk, (void)code, (void)parts, (void)opaque;
}

static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *msg, void *opaque) {
    (void)rk, (void)msg, (void)opaque;
}

/* A handle of each kind, or NULL. */
static rd_kafka_t *handle(int kind, const struct config *c, struct error *err) {
    return kind == 0   ? kafka_consumer_new(c, rebalance, NULL, err)
           : kind == 1 ? kafka_observer_new(c, err)
                       : kafka_producer_new(c, delivered, NULL, err);
}

/* ---- refusals ---- */

/* What is wrong with a property alone is also found by whoever makes a handle without the check. */
static void judge(const char *yaml, size_t len, struct buf *verdict) {
    struct error err = {0}, late = {0};
    struct config *c = config_parse("t.yaml", yaml, len, &err);
    bool ok = c && kafka_properties_check(c, &err);
    buf_str(verdict, ok ? "ok" : err.text);
    if (!ok && (err.area != ERROR_CONFIG || err.action != ERROR_STOP || err.effect != ERROR_NOT_DONE))
        buf_str(verdict, " (as another kind of error)");
    if (!ok && strstr(err.text, "hunter"))
        buf_str(verdict, " (shows a secret)");
    for (int kind = 0; c && !ok && strstr(err.text, "own: ") && kind < 3; kind++) {
        error_clear(&late);
        if (handle(kind, c, &late) || strcmp(late.text, err.text) != 0)
            buf_printf(verdict, " (but a handle says: %s)", late.text);
    }
    config_free(c);
}

START_TEST(test_properties_check) {
    ck_assert_int_gt(config_cases_run("test/data/config_properties.txt", judge), 50);
    char path[128];
    snprintf(path, sizeof path, "%s/ran", config_folder);
    ck_assert_msg(access(path, F_OK) != 0, "the check ran the command for a Kerberos ticket");
}
END_TEST

/* ---- handles ---- */

static const char security[] = "kafka:\n"
                               "  brokers: 127.0.0.1:1\n"
                               "  properties:\n"
                               "    security.protocol: sasl_ssl\n"
                               "    sasl.mechanism: PLAIN\n"
                               "    sasl.username: tallyd\n"
                               "    sasl.password: hunter2\n"
                               "    sasl.oauthbearer.config: principal=hunter2\n"
                               "    ssl.keystore.password: hunter2\n"
                               "    ssl.key.password: hunter2\n"
                               "    fetch.min.bytes: 77\n"
                               "    linger.ms: 33\n"
                               "    compression.type: lz4\n";

static void expect_property(rd_kafka_t *rk, const char *name, const char *expected) {
    char value[256] = "";
    size_t size = sizeof value;
    ck_assert_int_eq(rd_kafka_conf_get(rd_kafka_conf(rk), name, value, &size), RD_KAFKA_CONF_OK);
    ck_assert_msg(strcmp(value, expected) == 0, "%s: %s is %s", rd_kafka_name(rk), name, value);
}

START_TEST(test_properties_reach_every_handle) {
    static const char *const expected[][2] = {
        {"security.protocol", "sasl_ssl"}, {"sasl.mechanisms", "PLAIN"}, {"sasl.username", "tallyd"},
        {"sasl.password", "hunter2"},      {"fetch.min.bytes", "77"},    {"linger.ms", "33"},
    };
    struct config *c = must_parse(security);
    log_init(open("/dev/null", O_WRONLY), LOG_ERROR);
    for (int kind = 0; kind < 3; kind++) {
        struct error err = {0};
        rd_kafka_t *rk = handle(kind, c, &err);
        ck_assert_msg(rk != NULL, "%s", err.text);
        for (size_t i = 0; i < TESTING_LENGTH(expected); i++)
            expect_property(rk, expected[i][0], expected[i][1]);
        rd_kafka_destroy(rk);
    }
    config_free(c);
}
END_TEST

/* What tallyd owns is what it was without any properties. */
START_TEST(test_handles_without_properties) {
    static const char *const expected[][3] = {
        {"0", "enable.auto.commit", "true"},
        {"0", "enable.auto.offset.store", "false"},
        {"0", "enable.partition.eof", "true"},
        {"0", "partition.assignment.strategy", "range,roundrobin"},
        {"0", "group.id", "tallyd"},
        {"0", "queued.max.messages.kbytes", "16384"},
        {"1", "enable.auto.commit", "false"},
        {"1", "group.id", "tallyd"},
        {"2", "enable.idempotence", "true"},
        {"2", "linger.ms", "1"},
        {"2", "message.max.bytes", "100000000"},
    };
    struct config *c = must_parse("kafka: {brokers: '127.0.0.1:1'}");
    log_init(open("/dev/null", O_WRONLY), LOG_ERROR);
    for (int kind = 0; kind < 3; kind++) {
        struct error err = {0};
        rd_kafka_t *rk = handle(kind, c, &err);
        ck_assert_msg(rk != NULL, "%s", err.text);
        for (size_t i = 0; i < TESTING_LENGTH(expected); i++) {
            if (expected[i][0][0] == '0' + kind)
                expect_property(rk, expected[i][1], expected[i][2]);
        }
        expect_property(rk, "client.id", "tallyd");
        rd_kafka_destroy(rk);
    }
    config_free(c);
}
END_TEST

/* ---- the log ---- */

/* Everything that making and ending the three handles writes at `level`. */
static char *logged(const char *yaml, enum log_level level) {
    char path[] = "/tmp/tallyd-config-log.XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    struct config *c = must_parse(yaml);
    log_init(fd, level);
    for (int kind = 0; kind < 3; kind++) {
        struct error err = {0};
        rd_kafka_t *rk = handle(kind, c, &err);
        ck_assert_msg(rk != NULL, "%s", err.text);
        rd_kafka_destroy(rk);
    }
    config_free(c);
    char *text = testing_file(path, NULL);
    close(fd);
    unlink(path);
    return text;
}

START_TEST(test_log_is_quiet_about_properties_of_the_others) {
    char *warnings = logged(security, LOG_WARN), *all = logged(security, LOG_DEBUG);
    ck_assert_msg(!strstr(warnings, "CONFWARN"), "%s", warnings);
    ck_assert_msg(strstr(all, "will be ignored by this producer"), "%s", all);
    ck_assert_msg(strstr(all, "will be ignored by this consumer"), "%s", all);
    free(warnings);
    free(all);
    /* Other warnings are worth reading. */
    warnings = logged("kafka: {brokers: '127.0.0.1:1', properties: {produce.offset.report: true}}", LOG_WARN);
    ck_assert_msg(strstr(warnings, "CONFWARN"), "%s", warnings);
    free(warnings);
}
END_TEST

/* The client can be made to write down its whole configuration. */
START_TEST(test_log_shows_no_secret) {
    char yaml[sizeof security + 64];
    snprintf(yaml, sizeof yaml, "%s    debug: all\n", security);
    char *all = logged(yaml, LOG_DEBUG);
    ck_assert_msg(strstr(all, "sasl.password"), "no longer dumped: look for what is");
    const char *leak = strstr(all, "hunter2");
    ck_assert_msg(!leak, "%.200s", leak ? leak - 100 : "");
    free(all);
}
END_TEST

static Suite *config_kafka_suite(void) {
    const TTest *const tests[] = {
        test_properties_check,           test_properties_reach_every_handle,
        test_handles_without_properties, test_log_is_quiet_about_properties_of_the_others,
        test_log_shows_no_secret,
    };
    Suite *s = suite_create("config_kafka");
    TCase *t = tcase_create("config_kafka");
    tcase_set_timeout(t, 120);
    tcase_add_unchecked_fixture(t, config_folder_make, config_folder_remove);
    for (size_t i = 0; i < TESTING_LENGTH(tests); i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return testing_run(config_kafka_suite());
}
