/* SPDX-License-Identifier: MIT */
/* What SIGHUP takes over, and what it says of the rest: never a value. */
#include "reload.h"

#include <fcntl.h>
#include <jansson.h>

#include "testing.h"

static struct config *parse(const char *yaml) {
    struct error err = {0};
    struct config *c = config_parse("t.yaml", yaml, strlen(yaml), &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    return c;
}

static void expect_keys(const char *before, const char *after, const char *keys) {
    struct config *a = parse(before), *b = parse(after);
    struct buf out = {0};
    reload_changed_keys(a, b, &out);
    ck_assert_str_eq(buf_cstr(&out), keys);
    buf_free(&out);
    config_free(a);
    config_free(b);
}

START_TEST(changed_keys) {
    expect_keys("workers: 2\n", "workers: 2\n", "");
    expect_keys("log: {level: debug}\n", "log: {level: error}\n", "");
    expect_keys("workers: 1\nzone: Asia/Seoul\n", "workers: 2\nzone: Europe/Berlin\n", "workers, zone");
    expect_keys("thresholds: [50, 30]\n", "thresholds: [30, 50]\n", "");
    expect_keys("thresholds: [50, 30]\n", "thresholds: [50, 20]\n", "thresholds");
    /* secrets, though they print alike */
    expect_keys("mysql: {password: one}\n", "mysql: {password: two}\n", "mysql.password");
    expect_keys("mysql: {password: one}\n", "mysql: {password: one}\n", "");
    expect_keys("kafka: {properties: {sasl.password: one}}\n", "kafka: {properties: {sasl.password: two}}\n",
                "kafka.properties");
    expect_keys("kafka: {properties: {sasl.password: one}}\n", "kafka: {properties: {sasl.password: one}}\n",
                "");
    expect_keys("kafka: {properties: {linger.ms: 5}}\n", "workers: 1\n", "kafka.properties");
}
END_TEST

/* Everything there is to read, line after line: event and one member. */
static void expect_line(FILE *log, const char *event, const char *member, const char *text) {
    char line[4096];
    ck_assert_msg(fgets(line, sizeof line, log) != NULL, "no line; expected %s", event);
    ck_assert_msg(!strstr(line, "hunter2"), "a secret: %s", line);
    json_t *o = json_loads(line, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(o, "event")), event);
    ck_assert_msg(strstr(json_string_value(json_object_get(o, member)), text) != NULL, "%s", line);
    json_decref(o);
}

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

START_TEST(reloads) {
    char folder[] = "/tmp/tallyd-reload-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.yaml", folder);
    FILE *log = tmpfile();
    ck_assert_ptr_nonnull(log);
    struct config *running = parse("log: {level: error}\nmysql: {password: hunter2}\n");
    log_init(fileno(log), LOG_ERROR);
    write_file(path, "log: {level: warn}\nmysql: {password: hunter22}\n");
    reload_log_level(path, running);
    ck_assert_int_eq(log_level(), LOG_WARN);
    write_file(path, "log: {level: warn}\nmysql: {password: hunter2}\n");
    reload_log_level(path, running);
    write_file(path, "log: {level: debug}\nmysql: {password: [hunter2]}\n");
    reload_log_level(path, running);
    write_file(path, "log: {level: debug}\nmysql: {passwort: hunter2}\n");
    reload_log_level(path, running);
    unlink(path);
    reload_log_level(path, running);
    ck_assert_int_eq(log_level(), LOG_WARN);
    rmdir(folder);
    rewind(log);
    expect_line(log, "log_level_changed", "from", "error");
    expect_line(log, "restart_needed", "keys", "mysql.password");
    expect_line(log, "reload_unchanged", "log_level", "warn");
    expect_line(log, "reload_failed", "error", "t.yaml:2: mysql.password");
    expect_line(log, "reload_failed", "error", "t.yaml:2: mysql.passwort");
    expect_line(log, "reload_failed", "error", "t.yaml");
    ck_assert_int_eq(fgetc(log), EOF);
    config_free(running);
    fclose(log);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("reload");
    TCase *tc = tcase_create("reload");
    tcase_add_test(tc, changed_keys);
    tcase_add_test(tc, reloads);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
