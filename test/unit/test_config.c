/* SPDX-License-Identifier: MIT */
/* Configuration: the table, its errors (test/data/config_errors.txt), the sample
 * file and printing. Runs from the root of the checkout. */
#include "config.h"
#include "config_cases.h"
#include "config_yaml.h"
#include "testing.h"

#define SAMPLE "config/tallyd.yaml"
#define CASES "test/data/config_errors.txt"

static struct config *parse(const char *yaml, struct error *err) {
    *err = (struct error){0};
    return config_parse("t.yaml", yaml, strlen(yaml), err);
}

static struct config *must_parse(const char *yaml) {
    struct error err;
    struct config *c = parse(yaml, &err);
    ck_assert_msg(c != NULL, "%s\nin:\n%s", err.text, yaml);
    return c;
}

static void must_read(const char *path, struct buf *text) {
    struct error err = {0};
    ck_assert_msg(config_yaml_read(path, text, &err), "%s", err.text);
}

/* "a.b.c" and "1" → "a: {b: {c: 1}}" */
static void nest(const char *name, const char *value, struct buf *out) {
    int braces = 0;
    for (const char *dot; (dot = strchr(name, '.')); name = dot + 1, braces++)
        buf_printf(out, "%.*s: {", (int)(dot - name), name);
    buf_printf(out, "%s: %s", name, value);
    while (braces-- > 0)
        buf_char(out, '}');
}

static bool is_text_key(const struct config_key *k) {
    return k->type == CONFIG_STRING || k->type == CONFIG_SECRET;
}

/* ---- error cases from the data file ---- */

static void judge(const char *yaml, size_t len, struct buf *verdict) {
    struct error err = {0};
    struct config *c = config_parse("t.yaml", yaml, len, &err);
    buf_str(verdict, c ? "ok" : err.text);
    if (!c && (err.area != ERROR_CONFIG || err.action != ERROR_STOP || err.effect != ERROR_NOT_DONE))
        buf_str(verdict, " (as another kind of error)");
    config_free(c);
}

START_TEST(test_error_cases) {
    ck_assert_int_gt(config_cases_run(CASES, judge), 150);
}
END_TEST

/* ---- the table ---- */

START_TEST(test_defaults) {
    struct config *c = must_parse("");
    struct buf printed = {0}, expected = {0};
    config_print(c, &printed);
    must_read("test/data/config_defaults.yaml", &expected);
    ck_assert_str_eq(buf_cstr(&printed), buf_cstr(&expected));
    ck_assert_uint_eq(c->threshold_count, 3);
    ck_assert_int_eq(c->thresholds[0], 10);
    ck_assert_int_eq(c->thresholds[2], 50);
    ck_assert_str_eq(c->redis.password, "");
    ck_assert_int_eq(c->log_level, LOG_INFO);
    buf_free(&printed);
    buf_free(&expected);
    config_free(c);
}
END_TEST

/* A wrong offset in the table would put a value where another belongs. */
START_TEST(test_each_key_lands_in_its_member) {
    struct config *c = must_parse(
        "kafka:\n  brokers: b1\n  client_id: c1\n  group_id: g1\n  topics: {usage: t1, notification: t2, dlt: t3}\n"
        "  session_timeout_ms: 1001\n  max_poll_interval_ms: 1002\n  auto_commit_interval_ms: 1003\n"
        "  fetch_wait_max_ms: 1004\n  message_timeout_ms: 1005\n  skip_lost_offsets: true\n  accept_recreated_topic: true\n"
        "  properties: {p1: v1, p2: v2}\n"
        "redis: {host: r1, port: 2001, database: 2002, username: r2, password: r3, connect_timeout_ms: 2003,\n"
        "  timeout_ms: 2004}\n"
        "mysql: {host: m1, port: 3001, user: m3, password: m4, database: m5, connect_timeout_ms: 4000,\n"
        "  tls: {mode: verify_identity, ca: /m6, cert: /m7, key: /m8},\n"
        "  timeout_ms: 5000, lock_wait_timeout_ms: 3000, session_wait_timeout_ms: 6000}\n"
        "workers: 7\nbatch: {max_events: 71, max_bytes: 7200, linger_ms: 73}\n"
        "event: {max_bytes: 8100, max_future_ms: 82, max_past_months: 8}\n"
        "zone: Europe/Oslo\nlocale: en\nthresholds: [7, 90, 20]\ndedup: {ttl_seconds: 91}\ncache: {max_age_seconds: 92}\n"
        "outbox: {lease_ms: 9301, sweep_interval_ms: 94, queue_rows: 95, max_attempts: 96}\n"
        "shutdown: {deadline_ms: 9700}\nretry: {interval_ms: 98, report_interval_ms: 99}\nlog: {level: error}\n"
        "http: {address: '::1', port: 101}\n"
        "health: {probe_interval_ms: 102, probe_timeout_ms: 103, stuck_after_ms: 104, hung_after_ms: 15500}\n");
    ck_assert_str_eq(c->kafka.brokers, "b1");
    ck_assert_str_eq(c->kafka.client_id, "c1");
    ck_assert_str_eq(c->kafka.group_id, "g1");
    ck_assert_str_eq(c->kafka.usage_topic, "t1");
    ck_assert_str_eq(c->kafka.notification_topic, "t2");
    ck_assert_str_eq(c->kafka.dlt_topic, "t3");
    ck_assert_int_eq(c->kafka.session_timeout_ms, 1001);
    ck_assert_int_eq(c->kafka.max_poll_interval_ms, 1002);
    ck_assert_int_eq(c->kafka.auto_commit_interval_ms, 1003);
    ck_assert_int_eq(c->kafka.fetch_wait_max_ms, 1004);
    ck_assert_int_eq(c->kafka.message_timeout_ms, 1005);
    ck_assert(c->kafka.skip_lost_offsets);
    ck_assert(c->kafka.accept_recreated_topic);
    ck_assert_uint_eq(c->kafka.property_count, 2);
    ck_assert_str_eq(c->kafka.properties[1].name, "p2");
    ck_assert_str_eq(c->kafka.properties[1].value, "v2");
    ck_assert_str_eq(c->redis.host, "r1");
    ck_assert_int_eq(c->redis.port, 2001);
    ck_assert_int_eq(c->redis.database, 2002);
    ck_assert_str_eq(c->redis.username, "r2");
    ck_assert_str_eq(c->redis.password, "r3");
    ck_assert_int_eq(c->redis.connect_timeout_ms, 2003);
    ck_assert_int_eq(c->redis.timeout_ms, 2004);
    ck_assert_str_eq(c->mysql.host, "m1");
    ck_assert_int_eq(c->mysql.port, 3001);
    ck_assert_int_eq(c->mysql.tls_mode, CONFIG_TLS_VERIFY_IDENTITY);
    ck_assert_str_eq(c->mysql.tls_ca, "/m6");
    ck_assert_str_eq(c->mysql.tls_cert, "/m7");
    ck_assert_str_eq(c->mysql.tls_key, "/m8");
    ck_assert_str_eq(c->mysql.user, "m3");
    ck_assert_str_eq(c->mysql.password, "m4");
    ck_assert_str_eq(c->mysql.database, "m5");
    ck_assert_int_eq(c->mysql.connect_timeout_ms, 4000);
    ck_assert_int_eq(c->mysql.timeout_ms, 5000);
    ck_assert_int_eq(c->mysql.lock_wait_timeout_ms, 3000);
    ck_assert_int_eq(c->mysql.session_wait_timeout_ms, 6000);
    ck_assert_int_eq(c->workers, 7);
    ck_assert_int_eq(c->batch.max_events, 71);
    ck_assert_int_eq(c->batch.max_bytes, 7200);
    ck_assert_int_eq(c->batch.linger_ms, 73);
    ck_assert_int_eq(c->event.max_bytes, 8100);
    ck_assert_int_eq(c->event.max_future_ms, 82);
    ck_assert_int_eq(c->event.max_past_months, 8);
    ck_assert_str_eq(c->zone, "Europe/Oslo");
    ck_assert_str_eq(c->locale, "en");
    ck_assert_uint_eq(c->threshold_count, 3);
    ck_assert_int_eq(c->thresholds[0], 7);
    ck_assert_int_eq(c->thresholds[1], 20);
    ck_assert_int_eq(c->thresholds[2], 90);
    ck_assert_int_eq(c->dedup_ttl_seconds, 91);
    ck_assert_int_eq(c->cache_max_age_seconds, 92);
    ck_assert_int_eq(c->outbox.lease_ms, 9301);
    ck_assert_int_eq(c->outbox.sweep_interval_ms, 94);
    ck_assert_int_eq(c->outbox.queue_rows, 95);
    ck_assert_int_eq(c->outbox.max_attempts, 96);
    ck_assert_int_eq(c->shutdown.deadline_ms, 9700);
    ck_assert_int_eq(c->retry.interval_ms, 98);
    ck_assert_int_eq(c->retry.report_interval_ms, 99);
    ck_assert_int_eq(c->log_level, LOG_ERROR);
    ck_assert_str_eq(c->http.address, "::1");
    ck_assert_int_eq(c->http.port, 101);
    ck_assert_int_eq(c->health.probe_interval_ms, 102);
    ck_assert_int_eq(c->health.probe_timeout_ms, 103);
    ck_assert_int_eq(c->health.stuck_after_ms, 104);
    ck_assert_int_eq(c->health.hung_after_ms, 15500);
    config_free(c);
    c = must_parse("mysql: {socket: m2}"); /* which doesn't go with TLS */
    ck_assert_str_eq(c->mysql.socket, "m2");
    config_free(c);
}
END_TEST

/* Whether a value passes its own key's check; another key's (the pairs) doesn't count. */
static bool value_passes(const struct config_key *k, const char *value) {
    struct buf yaml = {0};
    struct error err;
    nest(k->name, value, &yaml);
    struct config *c = parse(buf_cstr(&yaml), &err);
    bool passes = c || !strstr(err.text, ": must be ");
    config_free(c);
    buf_free(&yaml);
    return passes;
}

static void check_number_bounds(const struct config_key *k) {
    const struct {
        int64_t value;
        bool passes;
    } tries[] = {{k->min, true}, {k->max, true}, {k->min - k->step, false}, {k->max + k->step, false}};
    for (size_t i = 0; i < TESTING_LENGTH(tries); i++) {
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)tries[i].value);
        ck_assert_msg(value_passes(k, text) == tries[i].passes, "%s: %s", k->name, text);
    }
}

static void check_length_bounds(const struct config_key *k) {
    char text[2048];
    int letter = strncmp(k->name, "mysql.tls.", 10) == 0 ? '/' : 'a'; /* those are absolute paths */
    for (int64_t len = k->max; len <= k->max + 1; len++) {
        memset(text, letter, (size_t)len);
        text[len] = '\0';
        ck_assert_msg(value_passes(k, text) == (len <= k->max), "%s: %lld bytes", k->name, (long long)len);
    }
    ck_assert_msg(value_passes(k, "\"\"") == (k->min == 0), "%s: empty", k->name);
}

START_TEST(test_bounds_of_every_key) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    ck_assert_uint_gt(count, 40);
    for (size_t i = 0; i < count; i++) {
        ck_assert_msg(*keys[i].about, "%s has no meaning", keys[i].name);
        if (keys[i].type == CONFIG_INT)
            check_number_bounds(&keys[i]);
        if (is_text_key(&keys[i]) && keys[i].max)
            check_length_bounds(&keys[i]);
    }
}
END_TEST

/* ---- the sample file ---- */

static const struct config_node *find(const struct config_node *map, const char *name) {
    size_t len = strcspn(name, ".");
    for (const struct config_node *n = map->first; n; n = n->next) {
        if (strlen(n->key) == len && strncmp(n->key, name, len) == 0)
            return name[len] ? find(n, name + len + 1) : n;
    }
    return NULL;
}

/* The comment lines above a line (from 1) and the comment behind it. */
static void comment_of(const char *yaml, size_t line, struct buf *out) {
    const char *at[2048] = {0};
    size_t lines = 0;
    for (const char *s = yaml; s && *s && lines + 1 < 2048; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL)
        at[++lines] = s;
    for (size_t above = line - 1; above && at[above][strspn(at[above], " ")] == '#'; above--)
        buf_append(out, at[above], strcspn(at[above], "\n"));
    const char *hash = memchr(at[line], '#', strcspn(at[line], "\n"));
    if (hash)
        buf_append(out, hash, strcspn(hash, "\n"));
}

static void complain_about(const char *yaml, const struct config_node *root, const struct config *c,
                           const struct config *defaults, const struct config_key *k,
                           struct buf *complaints) {
    struct buf comment = {0}, value = {0}, wanted = {0}, bounds = {0};
    const struct config_node *n = find(root, k->name);
    config_print_value(c, k, &value);
    config_print_value(defaults, k, &wanted);
    buf_printf(&bounds, "%lld … %lld", (long long)k->min, (long long)k->max);
    if (n)
        comment_of(yaml, n->line, &comment);
    if (!n)
        buf_printf(complaints, "%s: is missing\n", k->name);
    else if (strcmp(buf_cstr(&value), buf_cstr(&wanted)) != 0)
        buf_printf(complaints, "%s: is %s, the default %s\n", k->name, buf_cstr(&value), buf_cstr(&wanted));
    else if (comment.len < 5)
        buf_printf(complaints, "%s: has no comment\n", k->name);
    else if (!is_text_key(k) && k->max && !strstr(buf_cstr(&comment), buf_cstr(&bounds)))
        buf_printf(complaints, "%s: its comment doesn't say %s\n", k->name, buf_cstr(&bounds));
    buf_free(&comment);
    buf_free(&value);
    buf_free(&wanted);
    buf_free(&bounds);
}

/* What a sample file leaves undocumented or gets wrong, a line each. */
static void complain(const char *yaml, struct buf *complaints) {
    struct error err = {0};
    struct config *c = parse(yaml, &err), *defaults = must_parse("");
    struct config_node *root = config_yaml_parse("t.yaml", yaml, strlen(yaml), &err);
    size_t count;
    const struct config_key *keys = config_keys(&count);
    if (!c || !root)
        buf_printf(complaints, "%s\n", err.text);
    for (size_t i = 0; c && root && i < count; i++)
        complain_about(yaml, root, c, defaults, &keys[i], complaints);
    config_yaml_free(root);
    config_free(c);
    config_free(defaults);
}

START_TEST(test_sample_documents_every_key) {
    struct buf yaml = {0}, complaints = {0};
    must_read(SAMPLE, &yaml);
    complain(buf_cstr(&yaml), &complaints);
    ck_assert_msg(complaints.len == 0, SAMPLE ":\n%s", buf_cstr(&complaints));
    buf_free(&yaml);
    buf_free(&complaints);
}
END_TEST

/* The check above is worth what it notices: without a key's line it must name the key. */
START_TEST(test_sample_check_notices_a_missing_key) {
    struct buf yaml = {0};
    size_t count;
    const struct config_key *keys = config_keys(&count);
    must_read(SAMPLE, &yaml);
    struct error err = {0};
    struct config_node *root = config_yaml_parse("t.yaml", yaml.data, yaml.len, &err);
    ck_assert_msg(root != NULL, "%s", err.text);
    for (size_t i = 0; i < count; i++) {
        struct buf less = {0}, complaints = {0}, expected = {0};
        const struct config_node *n = find(root, keys[i].name);
        ck_assert_msg(n != NULL, "%s", keys[i].name);
        size_t line = 1;
        for (const char *s = yaml.data; *s; line++) {
            size_t len = strcspn(s, "\n") + 1;
            if (line != n->line)
                buf_append(&less, s, len);
            s += len;
        }
        complain(buf_cstr(&less), &complaints);
        buf_printf(&expected, "%s: is missing\n", keys[i].name);
        ck_assert_msg(strstr(buf_cstr(&complaints), buf_cstr(&expected)), "%s", keys[i].name);
        buf_free(&less);
        buf_free(&complaints);
        buf_free(&expected);
    }
    config_yaml_free(root);
    buf_free(&yaml);
}
END_TEST

START_TEST(test_sample_check_notices_wrong_values_and_comments) {
    static const struct {
        const char *yaml, *complaint;
    } tries[] = {
        {"# 1 … 64\nworkers: 2\n", "workers: is 2, the default 1\n"},
        {"# 1 … 65\nworkers: 1\n", "workers: its comment doesn't say 1 … 64\n"},
        {"# 1 … 64\n\nworkers: 1\n", "workers: has no comment\n"},
        {"zone: Asia/Seoul\n", "zone: has no comment\n"},
        {"worker: 1\n", "t.yaml:1: worker: unknown key; did you mean workers?\n"},
    };
    for (size_t i = 0; i < TESTING_LENGTH(tries); i++) {
        struct buf complaints = {0};
        complain(tries[i].yaml, &complaints);
        ck_assert_msg(strstr(buf_cstr(&complaints), tries[i].complaint), "%s\n%s", tries[i].complaint,
                      buf_cstr(&complaints));
        buf_free(&complaints);
    }
}
END_TEST

/* ---- printing, secrets ---- */

/* Prints, reads that, prints again: both are the same. */
static void check_round_trip(const struct config *c) {
    struct buf once = {0}, twice = {0};
    config_print(c, &once);
    struct config *again = must_parse(buf_cstr(&once));
    config_print(again, &twice);
    ck_assert_str_eq(buf_cstr(&once), buf_cstr(&twice));
    buf_free(&once);
    buf_free(&twice);
    config_free(again);
}

START_TEST(test_print_reads_back) {
    static const char *const texts[] = {
        "true",  "null", "~",      "42",         "-",        "- a",
        "---",   "a: b", "pa #ss", "#",          "'",        "\\\"\\\\\\\"x",
        "[a]",   "{a",   "*a",     "&a",         "!a",       "|",
        ">",     "%a",   "@a",     "`",          " leading", "last ",
        "\\\\n", "a:",   "?",      "Asia/Seoul", ".",        "...",
        "yes",   "a:,b", ",a",     ":a",         "a:1,b:2",  "NuLL",
        "_",     "a,",   "=",      "<<",
    };
    for (size_t i = 0; i < TESTING_LENGTH(texts); i++) {
        char yaml[64], plain[64];
        snprintf(yaml, sizeof yaml, "mysql: {user: \"%s\"}", texts[i]);
        struct config *c = must_parse(yaml);
        snprintf(plain, sizeof plain, "%s", c->mysql.user);
        struct buf printed = {0};
        config_print(c, &printed);
        struct config *again = must_parse(buf_cstr(&printed));
        ck_assert_str_eq(again->mysql.user, plain);
        check_round_trip(c);
        buf_free(&printed);
        config_free(again);
        config_free(c);
    }
}
END_TEST

START_TEST(test_print_masks_secrets) {
    struct config *c = must_parse("redis: {password: hunter2}\nmysql: {password: \"pa #ss\"}\n");
    ck_assert_str_eq(c->redis.password, "hunter2");
    ck_assert_str_eq(c->mysql.password, "pa #ss");
    struct buf printed = {0};
    config_print(c, &printed);
    ck_assert(!strstr(buf_cstr(&printed), "hunter2"));
    ck_assert(!strstr(buf_cstr(&printed), "pa #ss"));
    const char *first = strstr(buf_cstr(&printed), "  password: \"********\"\n");
    ck_assert(first && strstr(first + 1, "  password: \"********\"\n"));
    check_round_trip(c);
    buf_free(&printed);
    config_free(c);
}
END_TEST

/* Looks at memory that was given back, through the kernel: no sanitizer minds. */
static void check_wiped(uintptr_t address, size_t len) {
    char left[256] = "";
    FILE *f = fopen("/proc/self/mem", "rb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_lt(len, sizeof left);
    ssize_t n = pread(fileno(f), left, len, (off_t)address);
    ck_assert_msg(n < 0 || !memmem(left, (size_t)n, "sssss", 5), "a secret is still in memory");
    fclose(f);
}

START_TEST(test_free_wipes_secrets) {
    char yaml[512], secret[200];
    memset(secret, 's', sizeof secret);
    snprintf(yaml, sizeof yaml, "mysql: {password: %.200s}", secret);
    struct config *c = must_parse(yaml);
    uintptr_t at = (uintptr_t)c->mysql.password;
    config_free(c);
    check_wiped(at, sizeof secret);

    struct error err = {0};
    struct config_node *root = config_yaml_parse("t.yaml", yaml, strlen(yaml), &err);
    ck_assert_msg(root != NULL, "%s", err.text);
    at = (uintptr_t)root->first->first->text;
    config_yaml_free(root);
    check_wiped(at, sizeof secret);
}
END_TEST

/* As the sample says: what an unquoted # costs. */
START_TEST(test_unquoted_hash_is_a_comment) {
    struct config *c = must_parse("redis:\n  password: pa #ss\nmysql:\n  password: 'it''s #1'\n");
    ck_assert_str_eq(c->redis.password, "pa");
    ck_assert_str_eq(c->mysql.password, "it's #1");
    config_free(c);
}
END_TEST

/* ---- files and hostile input ---- */

static void check_load_error(const char *path, const char *expected) {
    struct error err = {0};
    ck_assert_ptr_null(config_load(path, &err));
    ck_assert_str_eq(err.text, expected);
    ck_assert_int_eq(err.area, ERROR_CONFIG);
}

START_TEST(test_load) {
    struct error err = {0};
    struct config *c = config_load(SAMPLE, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    check_round_trip(c);
    config_free(c);
    config_free(NULL);
    check_load_error("/nonexistent/t.yaml", "/nonexistent/t.yaml: can't be read: No such file or directory");
    check_load_error("/", "/: can't be read: Is a directory");
    check_load_error("/dev/zero", "/dev/zero: larger than 256 KiB");
}
END_TEST

/* The reason survives however long the path is. */
START_TEST(test_long_path) {
    char path[2048];
    struct error err = {0};
    memset(path, 'p', sizeof path);
    strcpy(path + 1000, "/t.yaml");
    ck_assert_ptr_null(config_parse(path, "workers: 0", 10, &err));
    ck_assert(strstr(err.text, "/t.yaml:1: workers: must be a whole number, 1 … 64, is 0"));
}
END_TEST

START_TEST(test_size_limit) {
    struct buf yaml = {0};
    struct error err = {0};
    while (yaml.len < CONFIG_YAML_MAX_BYTES)
        buf_char(&yaml, '\n');
    struct config *c = config_parse("t.yaml", yaml.data, yaml.len, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    config_free(c);
    buf_char(&yaml, '\n');
    ck_assert_ptr_null(config_parse("t.yaml", yaml.data, yaml.len, &err));
    ck_assert_str_eq(err.text, "t.yaml: larger than 256 KiB");
    buf_free(&yaml);
}
END_TEST

/* Once 16 s: libyaml on its own takes quadratic time for open brackets. */
START_TEST(test_hostile_files_are_refused_quickly) {
    static const char *const pieces[] = {"[",   "{",      "{a: ",  "- ", "? ",    "a: [",         "[\n",
                                         "&a ", "a: b\n", "[a], ", "'",  "\"\\n", "workers: 1\n", "a",
                                         "!",   "%",      "a:\n ", "*a "};
    for (size_t i = 0; i < TESTING_LENGTH(pieces); i++) {
        struct buf yaml = {0};
        struct error err = {0};
        while (yaml.len + strlen(pieces[i]) <= CONFIG_YAML_MAX_BYTES)
            buf_str(&yaml, pieces[i]);
        clock_t start = clock();
        ck_assert_ptr_null(config_parse("t.yaml", yaml.data, yaml.len, &err));
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        ck_assert_msg(seconds < 5, "%s: %.1f s", pieces[i], seconds);
        ck_assert_msg(err.area == ERROR_CONFIG, "%s", pieces[i]);
        buf_free(&yaml);
    }
}
END_TEST

static uint64_t random_state;

static uint32_t draw(uint32_t below) {
    return (uint32_t)(testing_random(&random_state) % below);
}

/* The sample, damaged a little: cut, bytes changed, pieces doubled, removed or put in. */
static void damage(const struct buf *sample, struct buf *out) {
    static const char *const pieces[] = {"[",       "]",    "{",
                                         "}",       ": ",   "\n",
                                         "\n---\n", "&a ",  "*a",
                                         "!!x ",    "\"",   "'",
                                         "- ",      "? ",   "|\n",
                                         "\\0",     "\t",   "99999999999999999999",
                                         "-1",      "~",    "\xEF\xBB\xBF",
                                         "%",       "${",   "${HOME}",
                                         "$",       "file:"};
    size_t from = draw(2) ? draw((uint32_t)sample->len) : 0;
    size_t len = draw(2) ? draw(1500) : sample->len;
    buf_reset(out);
    buf_append(out, sample->data + from, len < sample->len - from ? len : sample->len - from);
    for (uint32_t times = draw(4); times-- > 0 && out->len > 1;) {
        size_t at = draw((uint32_t)out->len);
        switch (draw(4)) {
        case 0:
            out->len = at;
            break;
        case 1:
            out->data[at] = (char)draw(256);
            break;
        case 2:
            memmove(out->data + at, out->data + at + 1, out->len - at - 1);
            out->len--;
            break;
        default: {
            const char *piece = pieces[draw(TESTING_LENGTH(pieces))];
            struct buf tail = {0};
            buf_append(&tail, out->data + at, out->len - at);
            out->len = at;
            buf_str(out, piece);
            buf_append(out, tail.data, tail.len);
            buf_free(&tail);
        }
        }
    }
}

START_TEST(test_damaged_input_never_crashes) {
    struct buf sample = {0}, yaml = {0};
    int taken = 0, refused = 0;
    must_read(SAMPLE, &sample);
    for (int i = 0; i < 4000; i++) {
        struct error err = {0};
        damage(&sample, &yaml);
        if (i % 8 == 0) {
            buf_reset(&yaml);
            for (uint32_t n = draw(200); n-- > 0;)
                buf_char(&yaml, (char)draw(256));
        }
        struct config *c = config_parse("t.yaml", buf_cstr(&yaml), yaml.len, &err);
        if (c)
            check_round_trip(c);
        else
            ck_assert(err.area == ERROR_CONFIG && strncmp(err.text, "t.yaml:", 7) == 0);
        taken += c != NULL;
        refused += c == NULL;
        config_free(c);
    }
    ck_assert_int_gt(taken, 100);
    ck_assert_int_gt(refused, 100);
    buf_free(&sample);
    buf_free(&yaml);
}
END_TEST

/* Every beginning of the sample is taken or refused, and the whole one is taken. */
START_TEST(test_cut_sample) {
    struct buf sample = {0};
    must_read(SAMPLE, &sample);
    for (size_t len = 0; len <= sample.len; len += len + 16 < sample.len ? 1 + draw(16) : 1) {
        struct error err = {0};
        struct config *c = config_parse("t.yaml", sample.data, len, &err);
        ck_assert_msg(c || err.area == ERROR_CONFIG, "%zu bytes", len);
        ck_assert_msg(c || len < sample.len, "%s", err.text);
        config_free(c);
    }
    buf_free(&sample);
}
END_TEST

static Suite *config_suite(void) {
    const TTest *const tests[] = {
        test_error_cases,
        test_defaults,
        test_each_key_lands_in_its_member,
        test_bounds_of_every_key,
        test_sample_documents_every_key,
        test_sample_check_notices_a_missing_key,
        test_sample_check_notices_wrong_values_and_comments,
        test_print_reads_back,
        test_print_masks_secrets,
        test_free_wipes_secrets,
        test_unquoted_hash_is_a_comment,
        test_load,
        test_long_path,
        test_size_limit,
        test_hostile_files_are_refused_quickly,
        test_damaged_input_never_crashes,
        test_cut_sample,
    };
    Suite *s = suite_create("config");
    TCase *t = tcase_create("config");
    tcase_set_timeout(t, 120);
    tcase_add_unchecked_fixture(t, config_folder_make, config_folder_remove);
    for (size_t i = 0; i < TESTING_LENGTH(tests); i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    random_state = testing_seed();
    return testing_run(config_suite());
}
