/* SPDX-License-Identifier: MIT */
/* Configuration: what comes from the environment and from files, that it's taken
 * as it is, and that nobody gets to see it. Refusals are in
 * test/data/config_errors.txt. Runs from the root of the checkout. */
#include <fcntl.h>
#include <sys/mman.h>

#include "config.h"
#include "config_cases.h"
#include "config_value.h"

static struct config *must_parse(const char *yaml) {
    struct error err = {0};
    struct config *c = config_parse("t.yaml", yaml, strlen(yaml), &err);
    ck_assert_msg(c != NULL, "%s\nin:\n%s", err.text, yaml);
    return c;
}

static const struct {
    const char *written, *meant;
} texts[] = {
    {"${T_WORD}", "word"},
    {"a${T_WORD}b${T_WORD}", "awordbword"},
    {"${T_EMPTY}${T_WORD}${T_EMPTY}", "word"},
    {"${T_MARKS}", "${T_WORD} file:x $${"},
    {"$", "$"},
    {"$$", "$$"},
    {"$T_WORD", "$T_WORD"},
    {"{$}", "{$}"},
    {"$${", "${"},
    {"$${T_WORD}", "${T_WORD}"},
    {"$$${T_WORD}", "$${T_WORD}"},
    {"$${${T_WORD}}", "${word}"},
    {"${T_WORD}$", "word$"},
    {"file:${T_WORD}", "file:word"},
};

/* Also that what is printed means the same again. */
START_TEST(test_texts_from_the_environment) {
    for (size_t i = 0; i < TESTING_LENGTH(texts); i++) {
        char yaml[128];
        snprintf(yaml, sizeof yaml, "mysql: {user: '%s'}\nkafka: {properties: {client.rack: '%s'}}",
                 texts[i].written, texts[i].written);
        struct config *c = must_parse(yaml);
        ck_assert_str_eq(c->mysql.user, texts[i].meant);
        ck_assert_str_eq(c->kafka.properties[0].value, texts[i].meant);
        struct buf printed = {0};
        config_print(c, &printed);
        struct config *again = must_parse(buf_cstr(&printed));
        ck_assert_str_eq(again->mysql.user, texts[i].meant);
        ck_assert_str_eq(again->kafka.properties[0].value, texts[i].meant);
        buf_free(&printed);
        config_free(again);
        config_free(c);
    }
}
END_TEST

START_TEST(test_passwords_from_files) {
    static const struct {
        const char *content, *password;
    } tries[] = {
        {"hunter2", "hunter2"},     {"hunter2\n", "hunter2"},   {" hunter2 \n", " hunter2 "},
        {"${T_WORD}", "${T_WORD}"}, {"file:good", "file:good"}, {"p\xC3\xA4ss #\"'\n", "p\xC3\xA4ss #\"'"},
    };
    for (size_t i = 0; i < TESTING_LENGTH(tries); i++) {
        config_folder_put("try", tries[i].content, strlen(tries[i].content), 0400);
        struct config *c = must_parse("mysql: {password: 'file:${T_DIR}/try'}");
        ck_assert_str_eq(c->mysql.password, tries[i].password);
        config_free(c);
        unlink(config_folder_put("try", "", 0, 0600));
    }
    struct config *c = must_parse("redis: {password: 'file:${T_DIR}/full'}");
    ck_assert_uint_eq(strlen(c->redis.password), 1024);
    config_free(c);
}
END_TEST

static void expect_password(const char *path) {
    struct error err = {0};
    struct config *c = config_load(path, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert_str_eq(c->mysql.password, "hunter2");
    config_free(c);
}

/* A relative path begins at the configuration's folder, wherever the process stands; without a folder in the
 * configuration's path that is the same. */
START_TEST(test_paths) {
    static const char relative[] = "mysql:\n  password: file:good\n",
                      absolute[] = "mysql: {password: 'file:${T_DIR}/good'}";
    struct error err = {0};
    expect_password(config_folder_put("absolute.yaml", absolute, sizeof absolute - 1, 0600));
    expect_password(config_folder_put("t.yaml", relative, sizeof relative - 1, 0600));
    ck_assert_ptr_null(config_parse("t.yaml", relative, sizeof relative - 1, &err));
    ck_assert_str_eq(err.text,
                     "t.yaml:2: mysql.password: file:good: can't be read: No such file or directory");
    char *back = getcwd(NULL, 0);
    ck_assert_int_eq(chdir(config_folder), 0);
    expect_password("t.yaml");
    ck_assert_int_eq(chdir(back), 0);
    free(back);
}
END_TEST

/* ---- properties ---- */

static const char properties[] = "kafka:\n"
                                 "  properties:\n"
                                 "    security.protocol: sasl_ssl\n"
                                 "    sasl.username: ${T_WORD}\n"
                                 "    sasl.password: file:${T_DIR}/good\n"
                                 "    ssl.key.pem: file:${T_DIR}/lines\n"
                                 "    ssl.certificate.pem: \"a\\nb\\n\"\n"
                                 "    Sasl.OauthBearer.Config: hunter2\n"
                                 "    sasl.oauthbearer.client.secret: ${T_SECRET}\n"
                                 "    ssl.keystore.password: ''\n"
                                 "    ssl.ca.location: file:x\n";

START_TEST(test_properties) {
    static const struct {
        const char *name, *value;
        bool secret;
    } expected[] = {
        {"security.protocol", "sasl_ssl", false},
        {"sasl.username", "word", false},
        {"sasl.password", "hunter2", true},
        {"ssl.key.pem", "hunter2\nhunter3", true},
        {"ssl.certificate.pem", "a\nb\n", false},
        {"Sasl.OauthBearer.Config", "hunter2", true},
        {"sasl.oauthbearer.client.secret", "hunter2", true},
        {"ssl.keystore.password", "", true},
        {"ssl.ca.location", "file:x", false},
    };
    struct config *c = must_parse(properties);
    ck_assert_uint_eq(c->kafka.property_count, TESTING_LENGTH(expected));
    for (size_t i = 0; i < TESTING_LENGTH(expected); i++) {
        const struct config_property *p = &c->kafka.properties[i];
        ck_assert_str_eq(p->name, expected[i].name);
        ck_assert_str_eq(p->value, expected[i].value);
        ck_assert_msg(p->secret == expected[i].secret, "%s", p->name);
        ck_assert_uint_eq(p->line, 3 + i);
    }
    struct error err = {0};
    ck_assert(!config_property_error(c, &c->kafka.properties[2], &err, "reason"));
    ck_assert_str_eq(err.text, "t.yaml:5: kafka.properties.sasl.password: reason");
    config_free(c);
}
END_TEST

START_TEST(test_properties_are_printed_with_masks) {
    struct config *c = must_parse(properties);
    struct buf printed = {0}, twice = {0};
    config_print(c, &printed);
    ck_assert_msg(!strstr(buf_cstr(&printed), "hunter"), "%s", buf_cstr(&printed));
    ck_assert_msg(strstr(buf_cstr(&printed), "  properties: {\n"
                                             "    \"security.protocol\": \"sasl_ssl\",\n"
                                             "    \"sasl.username\": \"word\",\n"
                                             "    \"sasl.password\": \"********\",\n"
                                             "    \"ssl.key.pem\": \"********\",\n"
                                             "    \"ssl.certificate.pem\": \"a\\nb\\n\",\n"
                                             "    \"Sasl.OauthBearer.Config\": \"********\",\n"
                                             "    \"sasl.oauthbearer.client.secret\": \"********\",\n"
                                             "    \"ssl.keystore.password\": \"\",\n"
                                             "    \"ssl.ca.location\": \"file:x\"}\n"),
                  "%s", buf_cstr(&printed));
    struct config *again = must_parse(buf_cstr(&printed));
    config_print(again, &twice);
    ck_assert_str_eq(buf_cstr(&printed), buf_cstr(&twice));
    buf_free(&printed);
    buf_free(&twice);
    config_free(again);
    config_free(c);
}
END_TEST

/* Values have a bound, and so has their number: the check for twins is quadratic. */
START_TEST(test_property_bounds) {
    struct buf yaml = {0};
    struct error err = {0};
    for (int more = 0; more < 2; more++) {
        buf_reset(&yaml);
        buf_str(&yaml, "kafka:\n  properties:\n");
        for (int i = 0; i < CONFIG_PROPERTIES_MAX + more; i++)
            buf_printf(&yaml, "    p%d: %d\n", i, i);
        struct config *c = config_parse("t.yaml", yaml.data, yaml.len, &err);
        ck_assert_msg((c != NULL) == (more == 0), "%s", err.text);
        config_free(c);
    }
    ck_assert_str_eq(err.text, "t.yaml:203: kafka.properties.p200: more than 200 properties");
    for (int more = 0; more < 2; more++) {
        error_clear(&err);
        buf_reset(&yaml);
        buf_str(&yaml, "kafka: {properties: {a: ");
        for (int i = 0; i < CONFIG_PROPERTY_VALUE_MAX + more; i++)
            buf_char(&yaml, 'x');
        buf_str(&yaml, "}}");
        struct config *c = config_parse("t.yaml", yaml.data, yaml.len, &err);
        ck_assert_msg((c != NULL) == (more == 0), "%s", err.text);
        config_free(c);
    }
    ck_assert_str_eq(
        err.text, "t.yaml:1: kafka.properties.a: must be printable ASCII of at most 65536 bytes (not shown)");
    buf_free(&yaml);
}
END_TEST

/* ---- nobody sees them ---- */

/* Whatever is wrong with a secret or with what stands for one, the message doesn't hold it. */
START_TEST(test_errors_show_no_secret) {
    static const char *const keys[] = {"redis: {password: %s}",
                                       "mysql: {password: %s}",
                                       "mysql: {user: %s}",
                                       "kafka: {brokers: %s}",
                                       "zone: %s",
                                       "mysql: {tls: {mode: required, ca: %s}}",
                                       "log: {level: info}\nx: %s"};
    static const char *const values[] = {
        "'${T_SECRET} ${T_LINES}'", "'${T_BYTES} ${T_LINES}'", "'file:${T_DIR}/lines'",
        "'file:${T_DIR}/readable'", "'file:${T_SECRET}'",      "'file:/${T_SECRET}/x'",
        "'${T_SECRET}${T_UNSET}'",  "[${T_SECRET}]",           "file:${T_DIR}/nul",
    };
    static const char *const property_names[] = {"sasl.password", "ssl.key.pem", "a.secret"};
    int refused = 0;
    for (size_t k = 0; k < TESTING_LENGTH(keys) + TESTING_LENGTH(property_names); k++) {
        for (size_t v = 0; v < TESTING_LENGTH(values); v++) {
            struct buf yaml = {0};
            struct error err = {0};
            const char *before, *after = "";
            char start[64];
            if (k < TESTING_LENGTH(keys)) {
                const char *mark = strstr(keys[k], "%s");
                snprintf(start, sizeof start, "%.*s", (int)(mark - keys[k]), keys[k]);
                after = mark + 2;
            } else {
                snprintf(start, sizeof start,
                         "kafka: {properties: {%s: ", property_names[k - TESTING_LENGTH(keys)]);
                after = "}}";
            }
            before = start;
            buf_printf(&yaml, "%s%s%s", before, values[v], after);
            struct config *c = config_parse("t.yaml", yaml.data, yaml.len, &err);
            refused += c == NULL;
            ck_assert_msg(!strstr(err.text, "hunter"), "%s\nof %s", err.text, yaml.data);
            config_free(c);
            buf_free(&yaml);
        }
    }
    ck_assert_int_gt(refused, 60);
}
END_TEST

/* Looks at memory that was given back, through the kernel: no sanitizer minds. */
static void check_wiped(uintptr_t address, size_t len) {
    char left[2048] = "";
    FILE *f = fopen("/proc/self/mem", "rb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_le(len, sizeof left);
    ssize_t n = pread(fileno(f), left, len, (off_t)address);
    ck_assert_msg(n < 0 || !memmem(left, (size_t)n, "sssss", 5), "a secret is still in memory");
    fclose(f);
}

START_TEST(test_secrets_are_wiped) {
    char secret[1024];
    memset(secret, 's', sizeof secret - 1);
    secret[sizeof secret - 1] = '\0';
    setenv("T_S", secret, 1);
    struct config *c = must_parse("redis: {password: 'file:${T_DIR}/full'}\nmysql: {password: '${T_S}'}\n"
                                  "kafka: {properties: {sasl.password: '${T_S}'}}");
    uintptr_t at[] = {(uintptr_t)c->redis.password, (uintptr_t)c->mysql.password,
                      (uintptr_t)c->kafka.properties[0].value};
    config_free(c);
    for (size_t i = 0; i < TESTING_LENGTH(at); i++)
        check_wiped(at[i], 1000);
    unsetenv("T_S");
}
END_TEST

/* Everything the heap holds, read through the kernel, or nothing: a sanitizer's allocator has its own place.
 * Nothing is allocated before, as that would write over what was freed. */
static char *read_heap(size_t *len) {
    static char maps[1 << 17];
    unsigned long from = 0, to = 0;
    size_t got = 0;
    int fd = open("/proc/self/maps", O_RDONLY);
    for (ssize_t n; got < sizeof maps - 1 && (n = read(fd, maps + got, sizeof maps - 1 - got)) > 0;)
        got += (size_t)n;
    close(fd);
    maps[got] = '\0';
    char *line = strstr(maps, "[heap]");
    while (line && line > maps && line[-1] != '\n')
        line--;
    if (line)
        ck_assert_int_eq(sscanf(line, "%lx-%lx", &from, &to), 2);
    fd = open("/proc/self/mem", O_RDONLY);
    char *heap = mmap(NULL, to - from + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(heap != MAP_FAILED);
    ssize_t n = pread(fd, heap, to - from, (off_t)from);
    *len = n > 0 ? (size_t)n : 0;
    close(fd);
    return heap;
}

/* A file of the alphabet backwards, over and over, in two lines; never in this process before it's read. */
static void put_letters(const char *name, int len) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", config_folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < len; i++) {
        char c = i == 80 ? '\n' : (char)('z' - i % 26);
        ck_assert_int_eq(write(fd, &c, 1), 1);
    }
    close(fd);
}

/* A value that is refused, or that stands in a configuration that is, lies in no memory of ours either. */
START_TEST(test_refused_secrets_are_wiped) {
    static const char *const yamls[] = {
        "redis: {password: 'file:${T_DIR}/refused'}", /* it has two lines */
        "redis: {password: 'file:${T_DIR}/large'}",
        "kafka: {properties: {ssl.key.pem: 'file:${T_DIR}/refused', x: [1]}}",
        "kafka: {properties: {ssl.key.pem: 'file:${T_DIR}/refused'}}\nworkers: 0",
    };
    put_letters("refused", 160);
    put_letters("large", 2000);
    for (size_t i = 0; i < TESTING_LENGTH(yamls); i++) {
        struct error err = {0};
        size_t len;
        ck_assert_ptr_null(config_parse("t.yaml", yamls[i], strlen(yamls[i]), &err));
        char *heap = read_heap(&len);
        ck_assert_msg(!memmem(heap, len, "onmlkjih", 8), "%s leaves a secret in memory", yamls[i]);
        munmap(heap, len + 1);
    }
}
END_TEST

static Suite *values_suite(void) {
    const TTest *const tests[] = {
        test_texts_from_the_environment,
        test_passwords_from_files,
        test_paths,
        test_properties,
        test_properties_are_printed_with_masks,
        test_property_bounds,
        test_errors_show_no_secret,
        test_secrets_are_wiped,
        test_refused_secrets_are_wiped,
    };
    Suite *s = suite_create("config_values");
    TCase *t = tcase_create("config_values");
    tcase_set_timeout(t, 120);
    tcase_add_unchecked_fixture(t, config_folder_make, config_folder_remove);
    for (size_t i = 0; i < TESTING_LENGTH(tests); i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return testing_run(values_suite());
}
