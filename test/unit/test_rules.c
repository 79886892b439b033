/* SPDX-License-Identifier: MIT */
/* The decision rules (CONTRACT §2, §3) through the real scripts on a real Redis:
 * a data file of single decisions, what makes a family cold, and long random
 * sequences against a plain model. Needs REDIS_* (scripts/with-stack.sh). */
#include <ctype.h>
#include <inttypes.h>

#include "batches.h"
#include "decide.h"
#include "redis.h"
#include "stores.h"

#define FAMILY 100042
#define CUSTOMER 200187
#define NOW INT64_C(1796007700)
#define MOST INT64_C(9007199254740991)
#define PEOPLE 3
#define LARGE 40 /* over what a family's note of its plain members holds */
#define ALERTS 12

struct person {
    int64_t customer, used, limit; /* limit -1: none */
    bool manual, unreadable;
    bool plain; /* its month was last warmed without a rule for it: later ones count from the month's next
                   warming */
    char block[10];
    char apps[4][64]; /* "" behind the last */
    char told[ALERTS][128];
};

struct family {
    int64_t id, total, left, gen, warmed;
    int32_t month;
    size_t count;
    struct person people[LARGE];
};

static struct config *cfg;
static struct redis *redis;
static struct decider *decider;
static redisContext *raw;
static int64_t last_gen, expire, expire_other; /* expiries by Redis' clock, which is the real one */

static void set_up(void) {
    struct error err = {0};
    cfg = stores_config(NULL);
    expire = time(NULL) + 40 * INT64_C(86400);
    expire_other = expire + 1;
    static const int thresholds[] = {10, 30, 50};
    memcpy(cfg->thresholds, thresholds, sizeof thresholds);
    cfg->threshold_count = 3;
    redis = redis_new(cfg);
    ck_assert_msg(redis_ensure(redis, &err), "%s", err.text);
    decider = decider_new(cfg, redis);
    raw = stores_redis(cfg);
    stores_do(raw, "FLUSHDB");
}

static void tear_down(void) {
    decider_free(decider);
    redis_free(redis);
    redisFree(raw);
    config_free(cfg);
}

/* ---- warming by the script itself ---- */

/* The contract's encoding, written anew: src/buf.c's is what is tested. */
static void encode(struct buf *out, const char *text) {
    for (const char *c = text; *c; c++) {
        if (isascii(*c) && (isalnum(*c) || strchr("._-", *c)))
            buf_char(out, *c);
        else
            buf_printf(out, "%%%02X", (unsigned char)*c);
    }
}

static void append_rule(struct redis_command *c, const char *field, const char *value) {
    buf_str(redis_command_arg(c), field);
    buf_str(redis_command_arg(c), value);
}

static void append_person(struct redis_command *c, struct person *p) {
    size_t apps = 0;
    while (apps < TESTING_LENGTH(p->apps) && p->apps[apps][0])
        apps++;
    buf_i64(redis_command_arg(c), p->customer);
    buf_i64(redis_command_arg(c), p->used);
    int64_t fields = (int64_t)apps + p->manual + p->unreadable + (p->limit >= 0) + (p->block[0] != 0);
    buf_i64(redis_command_arg(c), fields);
    p->plain = fields == 0;
    if (p->manual)
        append_rule(c, "BLOCK:ACCESS", "1");
    if (p->unreadable)
        append_rule(c, "UNREADABLE", "1");
    if (p->block[0])
        append_rule(c, "BLOCK:TIME", p->block);
    if (p->limit >= 0) {
        buf_str(redis_command_arg(c), "LIMIT:DATA:MONTHLY");
        buf_i64(redis_command_arg(c), p->limit);
    }
    for (size_t i = 0; i < apps; i++) {
        struct buf *field = redis_command_arg(c);
        buf_str(field, "BLOCK:APP:");
        encode(field, p->apps[i]);
        buf_str(redis_command_arg(c), "1");
    }
}

static size_t append_keys(struct redis_command *c, const struct family *f) {
    size_t told = 0;
    buf_printf(redis_command_arg(c), "family:%" PRId64 ":info:%d", f->id, f->month);
    buf_printf(redis_command_arg(c), "family:%" PRId64 ":remaining:%d", f->id, f->month);
    buf_printf(redis_command_arg(c), "family:%" PRId64 ":members", f->id);
    for (size_t i = 0; i < f->count; i++) {
        int64_t who = f->people[i].customer;
        buf_printf(redis_command_arg(c), "family:%" PRId64 ":customer:%" PRId64 ":usage:monthly:%d", f->id,
                   who, f->month);
        buf_printf(redis_command_arg(c), "family:%" PRId64 ":customer:%" PRId64 ":constraints", f->id, who);
    }
    for (size_t i = 0; i < f->count; i++) {
        for (size_t k = 0; k < ALERTS && f->people[i].told[k][0]; k++, told++)
            buf_printf(redis_command_arg(c), "family:%" PRId64 ":customer:%" PRId64 ":alert:%s:%d", f->id,
                       f->people[i].customer, f->people[i].told[k], f->month);
    }
    return told;
}

static void on_warmed(void *ctx, size_t i, const struct redis_reply_view *v) {
    (void)i;
    *(bool *)ctx = v->kind == REDIS_TEXT && strcmp(v->text, "OK") == 0;
}

static void warm(struct family *f) {
    struct redis_command keys = {0}, c = {0};
    size_t told = append_keys(&keys, f);
    f->gen = ++last_gen;
    buf_str(redis_command_arg(&c), "EVALSHA");
    buf_str(redis_command_arg(&c), redis_script_sha(redis, REDIS_SCRIPT_WARM));
    buf_i64(redis_command_arg(&c), (int64_t)keys.count);
    for (size_t i = 0; i < keys.count; i++) {
        size_t end = i + 1 < keys.count ? keys.start[i + 1] : keys.text.len;
        buf_append(redis_command_arg(&c), keys.text.data + keys.start[i], end - keys.start[i]);
    }
    buf_i64(redis_command_arg(&c), f->gen);
    buf_i64(redis_command_arg(&c), f->warmed ? f->warmed : NOW);
    buf_i64(redis_command_arg(&c), f->total);
    buf_i64(redis_command_arg(&c), f->left);
    decide_thresholds_text(redis_command_arg(&c), cfg);
    decide_cuts_text(redis_command_arg(&c), cfg, f->total);
    buf_str(redis_command_arg(&c), "a family");
    buf_i64(redis_command_arg(&c), expire);
    buf_i64(redis_command_arg(&c), expire_other);
    buf_i64(redis_command_arg(&c), (int64_t)f->count);
    buf_i64(redis_command_arg(&c), (int64_t)told);
    for (size_t i = 0; i < f->count; i++)
        append_person(&c, &f->people[i]);
    struct error err = {0};
    bool warmed = false;
    redis_append(redis, &c);
    ck_assert_msg(redis_collect(redis, on_warmed, &warmed, &err) && warmed, "warming: %s", err.text);
    redis_command_free(&c);
    redis_command_free(&keys);
}

static struct family usual_family(void) {
    return (struct family){.id = FAMILY,
                           .month = BATCHES_MONTH,
                           .total = 1000,
                           .left = 1000,
                           .count = 1,
                           .people = {{.customer = CUSTOMER, .limit = -1}}};
}

/* ---- deciding ---- */

static enum decide_answer decide_event(const struct usage_event *u, int64_t now, bool looked_up,
                                       struct decision *d) {
    struct batch_event e = {.usage = *u, .parsed = true, .twin_of = EVENT_NO_TWIN, .looked_up = looked_up};
    struct batch b = {.events = &e, .count = 1};
    size_t index = 0;
    enum decide_answer answer;
    struct error err = {0};
    ck_assert_msg(decider_run(decider, &b, &index, 1, now, &answer, &err), "%s", err.text);
    ck_assert_int_eq(e.decided, answer == DECIDE_DONE);
    if (d)
        *d = e.decision;
    return answer;
}

static enum decide_answer decide_at(const struct usage_event *u, int64_t now, struct decision *d) {
    return decide_event(u, now, false, d);
}

static enum decide_answer decide(const struct usage_event *u, struct decision *d) {
    return decide_event(u, NOW, false, d);
}

/* The same once MySQL was asked and has no such id: a dedup entry that doesn't count is no hindrance. */
static enum decide_answer decide_unknown(const struct usage_event *u, struct decision *d) {
    return decide_event(u, NOW, true, d);
}

static struct usage_event usual_event(const char *id, int64_t bytes) {
    return batches_event(id, FAMILY, CUSTOMER, bytes);
}

/* Decides, expects the answer and not one byte changed. */
static void expect_untouched(const char *what, const struct usage_event *u, int64_t now,
                             enum decide_answer expected) {
    struct buf before = {0}, after = {0};
    stores_dump_redis(raw, &before);
    enum decide_answer answer = decide_at(u, now, NULL);
    stores_dump_redis(raw, &after);
    ck_assert_msg(answer == expected, "%s: answer %d instead of %d", what, answer, expected);
    ck_assert_msg(strcmp(buf_cstr(&before), buf_cstr(&after)) == 0, "%s changed\n%sto\n%s", what,
                  buf_cstr(&before), buf_cstr(&after));
    buf_free(&before);
    buf_free(&after);
}

/* The status as the contract spells it. */
static void status_text(const struct decision *d, char out[40]) {
    static const char *const names[] = {"NORMAL",
                                        "WARNING_",
                                        "MANUAL",
                                        "APP_BLOCK",
                                        "TIME_BLOCK",
                                        "MONTHLY_LIMIT_EXCEEDED",
                                        "FAMILY_QUOTA_EXCEEDED"};
    if (d->status == STATUS_WARNING)
        snprintf(out, 40, "WARNING_%d", d->threshold);
    else
        snprintf(out, 40, "%s", names[d->status]);
}

/* userRatio goes nowhere but into the cached result: generation, family, customer, bytes, then the result. */
static void cached_ratio(const char *id, char out[32]) {
    redisReply *reply = stores_ask(raw, "GET event:dedup:usage:%s", id);
    ck_assert_msg(reply->type == REDIS_REPLY_STRING, "%s left no dedup entry", id);
    ck_assert_msg(sscanf(reply->str, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %31s", out) == 1, "%s", reply->str);
    freeReplyObject(reply);
}

/* The alerts marked for a customer, by their keys' names, sorted. */
static void marks_text(struct buf *out) {
    char prefix[80];
    int n = snprintf(prefix, sizeof prefix, "family:%d:customer:%d:alert:", FAMILY, CUSTOMER);
    redisReply *keys = stores_ask(raw, "KEYS %s*", prefix);
    if (keys->elements)
        qsort(keys->element, keys->elements, sizeof *keys->element, stores_by_name);
    for (size_t i = 0; i < keys->elements; i++) {
        const char *name = keys->element[i]->str + n, *month = strrchr(name, ':');
        ck_assert_str_eq(month, ":202611");
        buf_printf(out, "%s%.*s", i ? "," : "", (int)(month - name), name);
    }
    freeReplyObject(keys);
}

/* ---- the data file ---- */

/* \xNN in place. */
static void unescape(char *text) {
    char *to = text;
    for (const char *c = text; *c; to++) {
        unsigned byte;
        if (sscanf(c, "\\x%2x", &byte) == 1) {
            *to = (char)byte;
            c += 4;
        } else {
            *to = *c++;
        }
    }
    *to = '\0';
}

static void split_apps(struct person *p, char *list) {
    size_t n = 0;
    for (char *app; (app = strsep(&list, ","));) {
        ck_assert_uint_lt(n, TESTING_LENGTH(p->apps));
        unescape(app);
        snprintf(p->apps[n++], sizeof p->apps[0], "%s", app);
    }
}

static void split_told(struct person *p, char *list) {
    size_t n = 0;
    for (char *alert; (alert = strsep(&list, ","));)
        snprintf(p->told[n++], sizeof p->told[0], "%s", alert);
}

static void read_word(const char *where, char *word, struct family *f, struct usage_event *u) {
    char *value = strchr(word, '=');
    ck_assert_msg(value != NULL, "%s: %s has no value", where, word);
    *value++ = '\0';
    struct person *p = &f->people[0];
    if (strcmp(word, "total") == 0) {
        f->total = strtoll(value, NULL, 10);
    } else if (strcmp(word, "left") == 0) {
        f->left = strtoll(value, NULL, 10);
    } else if (strcmp(word, "used") == 0) {
        p->used = strtoll(value, NULL, 10);
    } else if (strcmp(word, "limit") == 0) {
        p->limit = strtoll(value, NULL, 10);
    } else if (strcmp(word, "bytes") == 0) {
        u->bytes_used = strtoll(value, NULL, 10);
    } else if (strcmp(word, "at") == 0) {
        u->hhmm = (int16_t)atoi(value);
    } else if (strcmp(word, "block") == 0) {
        snprintf(p->block, sizeof p->block, "%s", value);
    } else if (strcmp(word, "manual") == 0) {
        p->manual = true;
    } else if (strcmp(word, "app") == 0) {
        unescape(value);
        batches_set_app(u, value);
    } else if (strcmp(word, "apps") == 0) {
        split_apps(p, value);
    } else if (strcmp(word, "told") == 0) {
        split_told(p, value);
    } else {
        ck_abort_msg("%s: unknown word %s", where, word);
    }
}

static void check_rule(const char *where, char *line) {
    char *expected = strstr(line, " => ");
    ck_assert_msg(expected != NULL, "%s: no =>", where);
    *expected = '\0';
    expected += 4;
    struct family f = usual_family();
    struct usage_event u = usual_event("e1", 0);
    for (char *word, *rest = line; (word = strsep(&rest, " "));)
        read_word(where, word, &f, &u);
    stores_do(raw, "FLUSHDB");
    warm(&f);
    struct decision d;
    char status[40], ratio[32];
    enum decide_answer answer = decide_unknown(&u, &d);
    ck_assert_msg(answer == DECIDE_DONE, "%s: answer %d", where, answer);
    status_text(&d, status);
    cached_ratio("e1", ratio);
    struct buf got = {0};
    buf_printf(&got,
               "%s left=%" PRId64 " used=%" PRId64 " limit=%" PRId64 " ratio=%s notify=%d marks=", status,
               d.remaining_bytes, d.monthly_used_bytes, d.monthly_limit_bytes, ratio, d.should_notify);
    marks_text(&got);
    ck_assert_msg(strcmp(buf_cstr(&got), expected) == 0, "%s:\nexpected %s\ngot      %s", where, expected,
                  buf_cstr(&got));
    ck_assert_msg(d.total_bytes == f.total && !d.duplicate &&
                      d.allowed == (strncmp(status, "WARN", 4) == 0 || strcmp(status, "NORMAL") == 0),
                  "%s: total %" PRId64 ", duplicate %d, allowed %d", where, d.total_bytes, d.duplicate,
                  d.allowed);
    buf_free(&got);
}

START_TEST(rules) {
    testing_lines("test/data/rules.txt", check_rule);
}
END_TEST

/* Every set of the five blocks' conditions at once: the first in the contract's order wins. */
START_TEST(precedence) {
    static const char *const order[] = {
        "MANUAL", "APP_BLOCK", "TIME_BLOCK", "MONTHLY_LIMIT_EXCEEDED", "FAMILY_QUOTA_EXCEEDED", "NORMAL"};
    for (unsigned set = 0; set < 32; set++) {
        struct family f = usual_family();
        struct usage_event u = usual_event("e1", 100);
        struct person *p = &f.people[0];
        struct decision d;
        char status[40];
        batches_set_app(&u, "com.game");
        p->manual = set & 1;
        if (set & 2)
            strcpy(p->apps[0], "com.game");
        if (set & 4)
            strcpy(p->block, "1100-1300");
        if (set & 8)
            p->limit = 99;
        if (set & 16)
            f.left = 99;
        stores_do(raw, "FLUSHDB");
        warm(&f);
        ck_assert_int_eq(decide(&u, &d), DECIDE_DONE);
        status_text(&d, status);
        size_t first = 0;
        while (first < 5 && !(set & 1u << first))
            first++;
        ck_assert_msg(strcmp(status, order[first]) == 0, "conditions %02x: %s instead of %s", set, status,
                      order[first]);
        ck_assert_int_eq(d.remaining_bytes, f.left - (set ? 0 : 100));
        ck_assert_int_eq(d.monthly_used_bytes, set ? 0 : 100);
    }
}
END_TEST

/* used / total cut to four decimals, by arithmetic that can't be wrong. */
static void exact_ratio(int64_t used, int64_t total, char out[32]) {
    unsigned __int128 q = total > 0 ? (unsigned __int128)used * 10000 / (unsigned __int128)total : 0;
    snprintf(out, 32, "%" PRIu64 ".%04d", (uint64_t)(q / 10000), (int)(q % 10000));
}

static void check_ratio(int64_t used, int64_t total, uint64_t seed) {
    struct family f = usual_family();
    struct usage_event u = usual_event("e1", 1);
    char got[32], expected[32];
    f.total = total;
    f.left = 0; /* blocked: the figures stay as they are */
    f.people[0].used = used;
    warm(&f);
    ck_assert_int_eq(decide_unknown(&u, NULL), DECIDE_DONE);
    cached_ratio("e1", got);
    exact_ratio(used, total, expected);
    testing_require(strcmp(got, expected) == 0,
                    "%" PRId64 " / %" PRId64 ": %s instead of %s (seed %" PRIu64 ")", used, total, got,
                    expected, seed);
}

START_TEST(ratio_is_exact) {
    static const int64_t edges[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    9,
                                    10,
                                    11,
                                    99,
                                    100,
                                    9999,
                                    10000,
                                    10001,
                                    899999999999,
                                    900000000000,
                                    900000000001,
                                    MOST / 10000,
                                    MOST / 10000 + 1,
                                    MOST / 3,
                                    MOST / 2,
                                    MOST / 2 + 1,
                                    MOST - 7,
                                    MOST - 1,
                                    MOST};
    for (size_t i = 0; i < TESTING_LENGTH(edges); i++) {
        for (size_t k = 0; k < TESTING_LENGTH(edges); k++)
            check_ratio(edges[i], edges[k], 0);
    }
    uint64_t seed = testing_seed(), state = seed;
    for (int i = 0; i < 3000; i++) {
        int64_t total = testing_between(&state, 1, MOST >> testing_between(&state, 0, 52));
        int64_t used = testing_between(&state, 0, 3)
                           ? testing_between(&state, 0, total)
                           : testing_between(&state, 0, MOST >> testing_between(&state, 0, 52));
        /* next to a digit's edge, where cutting wrongly shows */
        if (testing_between(&state, 0, 1)) {
            __int128 edge = (__int128)total * testing_between(&state, 0, 10000) / 10000;
            used = (int64_t)edge + testing_between(&state, -1, 1);
            used = used < 0 ? 0 : used > MOST ? MOST : used;
        }
        check_ratio(used, total, seed);
    }
}
END_TEST

START_TEST(cut_offs_are_exact) {
    uint64_t seed = testing_seed(), state = seed;
    for (int i = 0; i < 200000; i++) {
        int64_t total = i < 1000 ? i : i < 1100 ? MOST - (i - 1000) : testing_between(&state, 0, MOST);
        int n = (int)testing_between(&state, 1, 99);
        cfg->thresholds[0] = n;
        cfg->threshold_count = 1;
        struct buf text = {0};
        long long got = -1;
        decide_cuts_text(&text, cfg, total);
        sscanf(buf_cstr(&text), "%*d:%lld", &got);
        testing_require(got == (long long)((__int128)total * n / 100), "%s of %" PRId64 " (seed %" PRIu64 ")",
                        buf_cstr(&text), total, seed);
        buf_free(&text);
    }
}
END_TEST

START_TEST(other_thresholds) {
    static const int thresholds[] = {1, 20, 99};
    memcpy(cfg->thresholds, thresholds, sizeof thresholds);
    decider_free(decider);
    decider = decider_new(cfg, redis);
    struct family f = usual_family();
    static const struct {
        int64_t bytes;
        const char *status;
        bool notify;
    } steps[] = {{9, "NORMAL", false},    {1, "WARNING_99", true},    {789, "WARNING_99", false},
                 {1, "WARNING_20", true}, {189, "WARNING_20", false}, {1, "WARNING_1", true},
                 {10, "WARNING_1", false}};
    warm(&f);
    for (size_t i = 0; i < TESTING_LENGTH(steps); i++) {
        char id[8], status[40];
        snprintf(id, sizeof id, "e%zu", i);
        struct usage_event u = usual_event(id, steps[i].bytes);
        struct decision d;
        ck_assert_int_eq(decide(&u, &d), DECIDE_DONE);
        status_text(&d, status);
        ck_assert_msg(strcmp(status, steps[i].status) == 0 && d.should_notify == steps[i].notify,
                      "step %zu: %s, notify %d", i, status, d.should_notify);
    }
}
END_TEST

/* ---- once, and repeats ---- */

START_TEST(told_once_per_generation) {
    struct family f = usual_family();
    struct decision d;
    f.left = 600;
    warm(&f);
    struct usage_event u = usual_event("e1", 100), again = usual_event("e2", 1);
    ck_assert_int_eq(decide(&u, &d), DECIDE_DONE);
    ck_assert(d.should_notify);
    ck_assert_int_eq(decide(&again, &d), DECIDE_DONE);
    ck_assert(!d.should_notify);
    /* dropped, and warmed anew: the mark is another generation's, so it's to be told after all */
    warm(&f);
    struct usage_event third = usual_event("e3", 100);
    ck_assert_int_eq(decide(&third, &d), DECIDE_DONE);
    ck_assert(d.should_notify && d.status == STATUS_WARNING && d.threshold == 50);
}
END_TEST

START_TEST(told_to_each_customer) {
    struct family f = usual_family();
    struct decision d;
    f.count = 2;
    f.people[1] = (struct person){.customer = CUSTOMER + 1, .limit = -1};
    f.left = 501;
    warm(&f);
    struct usage_event first = usual_event("e1", 1), second = batches_event("e2", FAMILY, CUSTOMER + 1, 1);
    ck_assert_int_eq(decide(&first, &d), DECIDE_DONE);
    ck_assert(d.should_notify);
    ck_assert_int_eq(decide(&second, &d), DECIDE_DONE);
    ck_assert(d.should_notify);
    ck_assert_int_eq(d.monthly_used_bytes, 1);
    ck_assert_int_eq(d.remaining_bytes, 499);
}
END_TEST

START_TEST(repeats_get_the_cached_result) {
    struct family f = usual_family();
    f.left = 600;
    warm(&f);
    struct usage_event u = usual_event("e 1%", 100), other = usual_event("e2", 7);
    struct decision first, second;
    struct buf before = {0}, after = {0};
    ck_assert_int_eq(decide(&u, &first), DECIDE_DONE);
    ck_assert_int_eq(decide(&other, NULL), DECIDE_DONE);
    stores_dump_redis(raw, &before);
    ck_assert_int_eq(decide(&u, &second), DECIDE_DONE);
    stores_dump_redis(raw, &after);
    ck_assert_str_eq(buf_cstr(&before), buf_cstr(&after));
    ck_assert(!first.duplicate && second.duplicate && first.should_notify && second.should_notify);
    ck_assert_int_eq(second.remaining_bytes, 500);
    ck_assert_int_eq(second.monthly_used_bytes, 100);
    ck_assert_int_eq(second.total_bytes, 1000);
    ck_assert_int_eq(second.threshold, 50);
    ck_assert(second.allowed);
    ck_assert_int_eq(stores_number(raw, "EXISTS %s", "event:dedup:usage:e%201%25"), 1);
    buf_free(&before);
    buf_free(&after);
}
END_TEST

START_TEST(repeats_of_blocked_events) {
    struct family f = usual_family();
    f.people[0].manual = true;
    warm(&f);
    struct usage_event u = usual_event("e1", 100);
    struct decision d;
    ck_assert_int_eq(decide(&u, &d), DECIDE_DONE);
    ck_assert_int_eq(decide(&u, &d), DECIDE_DONE);
    ck_assert(d.duplicate && !d.allowed && d.should_notify && d.status == STATUS_MANUAL);
}
END_TEST

/* A cached result counts only with the same generation, family, customer and bytes. */
START_TEST(cached_results_that_do_not_count) {
    struct usage_event u = usual_event("e1", 100);
    struct usage_event bytes = usual_event("e1", 101),
                       customer = batches_event("e1", FAMILY, CUSTOMER + 1, 100);
    struct usage_event family = batches_event("e1", FAMILY + 1, CUSTOMER, 100), month = u;
    month.month = 202610;
    const struct usage_event *const others[] = {&bytes, &customer, &family, &month, &u};
    for (size_t i = 0; i < TESTING_LENGTH(others); i++) {
        struct family f = usual_family(), other = usual_family(), earlier = usual_family();
        struct decision d;
        f.count = 2;
        f.people[1] = (struct person){.customer = CUSTOMER + 1, .limit = -1};
        other.id = FAMILY + 1;
        earlier.month = 202610;
        earlier.count = 2;
        earlier.people[1] = f.people[1];
        stores_do(raw, "FLUSHDB");
        warm(&other);
        warm(&earlier);
        warm(&f);
        ck_assert_int_eq(decide(&u, NULL), DECIDE_DONE);
        if (others[i] == &u)
            warm(&f); /* another generation */
        expect_untouched("an id that is known under other figures", others[i], NOW, DECIDE_KNOWN);
        ck_assert_int_eq(decide_unknown(others[i], &d), DECIDE_DONE);
        ck_assert_msg(!d.duplicate, "case %zu is taken for a repeat", i);
        ck_assert_int_eq(decide(others[i], &d), DECIDE_DONE);
        ck_assert_msg(d.duplicate, "case %zu isn't cached", i);
    }
}
END_TEST

START_TEST(cached_results_expire) {
    struct family f = usual_family();
    struct usage_event u = usual_event("e1", 1);
    cfg->dedup_ttl_seconds = 1234;
    warm(&f);
    ck_assert_int_eq(decide(&u, NULL), DECIDE_DONE);
    int64_t ttl = stores_number(raw, "TTL %s", "event:dedup:usage:e1");
    ck_assert_msg(ttl > 1234 - 120 && ttl <= 1234, "%" PRId64, ttl);
}
END_TEST

/* Deciding keeps the month's expiry, and gives it to the marks it sets. */
START_TEST(keys_keep_their_expiry) {
    static const char *const month[] = {"info:202611",
                                        "remaining:202611",
                                        "customer:200187:usage:monthly:202611",
                                        "customer:200187:alert:MANUAL:202611",
                                        "customer:200187:alert:THRESHOLD:10:202611",
                                        "customer:200187:alert:THRESHOLD:30:202611",
                                        "customer:200187:alert:THRESHOLD:50:202611"};
    static const char *const rest[] = {"members", "customer:200187:constraints"};
    struct family f = usual_family();
    struct usage_event u = usual_event("e1", 1000);
    char key[128];
    strcpy(f.people[0].told[0], "MANUAL");
    warm(&f);
    ck_assert_int_eq(decide(&u, NULL), DECIDE_DONE);
    for (size_t i = 0; i < TESTING_LENGTH(month); i++) {
        snprintf(key, sizeof key, "family:%d:%s", FAMILY, month[i]);
        ck_assert_msg(stores_number(raw, "EXPIRETIME %s", key) == expire, "%s", key);
    }
    for (size_t i = 0; i < TESTING_LENGTH(rest); i++) {
        snprintf(key, sizeof key, "family:%d:%s", FAMILY, rest[i]);
        ck_assert_msg(stores_number(raw, "EXPIRETIME %s", key) == expire_other, "%s", key);
    }
}
END_TEST

/* ---- nothing but answers ---- */

/* A family with all kinds of rules, none of which holds. */
static struct family full_family(void) {
    struct family f = usual_family();
    f.people[0].limit = 900;
    strcpy(f.people[0].block, "0100-0200");
    strcpy(f.people[0].apps[0], "com.video");
    return f;
}

static const char *const needed_keys[] = {"family:100042:info:202611", "family:100042:remaining:202611",
                                          "family:100042:customer:200187:usage:monthly:202611",
                                          "family:100042:customer:200187:constraints"};

START_TEST(cold_without_a_key) {
    struct usage_event u = usual_event("e1", 600);
    expect_untouched("an empty Redis", &u, NOW, DECIDE_COLD);
    for (size_t i = 0; i < TESTING_LENGTH(needed_keys); i++) {
        struct family f = full_family();
        warm(&f);
        stores_do(raw, "DEL %s", needed_keys[i]);
        expect_untouched(needed_keys[i], &u, NOW, DECIDE_COLD);
    }
    struct family f = full_family();
    warm(&f);
    ck_assert_int_eq(decide(&u, NULL), DECIDE_DONE);
}
END_TEST

START_TEST(cold_without_a_field) {
    static const char *const fields[][2] = {{"info:202611", "gen"},
                                            {"info:202611", "warmed"},
                                            {"info:202611", "totalQuota"},
                                            {"info:202611", "thresholds"},
                                            {"info:202611", "cuts"},
                                            {"info:202611", "expire"},
                                            {"customer:200187:constraints", "WARM"}};
    struct usage_event u = usual_event("e1", 600);
    for (size_t i = 0; i < TESTING_LENGTH(fields); i++) {
        struct family f = full_family();
        warm(&f);
        stores_do(raw, "HDEL family:100042:%s %s", fields[i][0], fields[i][1]);
        expect_untouched(fields[i][1], &u, NOW, DECIDE_COLD);
    }
}
END_TEST

START_TEST(cold_with_a_key_of_another_type) {
    struct usage_event u = usual_event("e1", 700);
    for (size_t i = 0; i < TESTING_LENGTH(needed_keys); i++) {
        struct family f = full_family();
        warm(&f);
        stores_do(raw, "DEL %s", needed_keys[i]);
        stores_do(raw, "RPUSH %s x", needed_keys[i]);
        expect_untouched(needed_keys[i], &u, NOW, DECIDE_COLD);
    }
}
END_TEST

/* What warming doesn't replace must not stay in the way: marks and cached results that are none count as
 * absent. */
START_TEST(marks_of_another_type_are_none) {
    struct usage_event events[] = {usual_event("e1", 700), usual_event("e2", 901), usual_event("e3", 150)};
    static const char *const keys[] = {"family:100042:customer:200187:alert:THRESHOLD:30:202611",
                                       "family:100042:customer:200187:alert:MONTHLY_LIMIT_EXCEEDED:202611",
                                       "event:dedup:usage:e3"};
    for (size_t i = 0; i < TESTING_LENGTH(keys); i++) {
        struct family f = full_family();
        struct decision d;
        warm(&f);
        stores_do(raw, "RPUSH %s x", keys[i]);
        ck_assert_int_eq(decide(&events[i], &d), DECIDE_DONE);
        ck_assert_msg(!d.duplicate && d.should_notify == (i < 2), "%s", keys[i]);
        ck_assert_int_eq(decide(&events[i], &d), DECIDE_DONE);
        ck_assert_msg(d.duplicate, "%s: the result isn't cached", keys[i]);
    }
}
END_TEST

/* What no warming writes, in the place of each number. */
START_TEST(cold_with_text_for_a_number) {
    static const char *const texts[] = {
        "",    "x",   "1.5", "1e3", "+5", " 5", "5 ", "0x10", "-", "--5", "nan", "inf", "123456789012345678",
        "5,0", "5\n", "05",  "007", "-0", "00", "-05"};
    struct usage_event u = usual_event("e1", 1);
    for (size_t i = 0; i < TESTING_LENGTH(texts); i++) {
        struct family f = full_family();
        warm(&f);
        stores_do(raw, "SET family:100042:remaining:202611 %s", texts[i]);
        expect_untouched(texts[i], &u, NOW, DECIDE_COLD);
        warm(&f);
        stores_do(raw, "SET family:100042:customer:200187:usage:monthly:202611 %s", texts[i]);
        expect_untouched(texts[i], &u, NOW, DECIDE_COLD);
        warm(&f);
        stores_do(raw, "HSET family:100042:info:202611 totalQuota %s", texts[i]);
        expect_untouched(texts[i], &u, NOW, DECIDE_COLD);
        warm(&f);
        stores_do(raw, "HSET family:100042:customer:200187:constraints LIMIT:DATA:MONTHLY %s", texts[i]);
        expect_untouched(texts[i], &u, NOW, DECIDE_COLD);
        warm(&f);
        stores_do(raw, "HSET family:100042:customer:200187:constraints BLOCK:TIME %s", texts[i]);
        expect_untouched(texts[i], &u, NOW, DECIDE_COLD);
    }
}
END_TEST

START_TEST(cold_with_figures_that_cannot_be) {
    struct usage_event u = usual_event("e1", 1);
    struct family f = full_family();
    warm(&f);
    stores_do(raw, "SET family:100042:remaining:202611 1001");
    expect_untouched("more left than there is", &u, NOW, DECIDE_COLD);
    warm(&f);
    stores_do(raw, "SET family:100042:customer:200187:usage:monthly:202611 -1");
    expect_untouched("less than nothing used", &u, NOW, DECIDE_COLD);
    warm(&f);
    stores_do(raw, "HSET family:100042:info:202611 totalQuota -1");
    expect_untouched("a total below zero", &u, NOW, DECIDE_COLD);
    warm(&f);
    /* found out only afterwards, by what the figures lead to */
    stores_do(raw, "HSET family:100042:info:202611 cuts %s", "10:1000 30:1000 50:1000");
    ck_assert_int_eq(decide(&u, NULL), DECIDE_COLD);
    warm(&f);
    ck_assert_int_eq(decide_unknown(&u, NULL), DECIDE_DONE);
}
END_TEST

/* Whether a decision of those figures (total 1000, an event of 100 bytes) can be. */
START_TEST(consistent_decisions) {
    static const struct {
        enum decision_status status;
        int threshold;
        int64_t left, used, limit;
        bool consistent;
    } cases[] = {
        {STATUS_NORMAL, 0, 900, 100, -1, true},
        {STATUS_NORMAL, 0, 501, 100, -1, true},
        {STATUS_NORMAL, 0, 500, 100, -1, false},
        {STATUS_WARNING, 50, 501, 100, -1, false},
        {STATUS_WARNING, 50, 500, 100, -1, true},
        {STATUS_WARNING, 50, 300, 100, -1, false},
        {STATUS_WARNING, 30, 300, 100, -1, true},
        {STATUS_WARNING, 10, 0, 100, -1, true},
        {STATUS_WARNING, 10, -1, 100, -1, false},
        {STATUS_WARNING, 30, 0, 100, -1, false},
        {STATUS_NORMAL, 0, 900, 99, -1, false},
        {STATUS_NORMAL, 0, 1001, 100, -1, false},
        {STATUS_NORMAL, 0, 900, 100, 100, true},
        {STATUS_NORMAL, 0, 900, 100, 99, false},
        {STATUS_FAMILY_QUOTA_EXCEEDED, 0, 99, 0, -1, true},
        {STATUS_FAMILY_QUOTA_EXCEEDED, 0, 100, 0, -1, false},
        {STATUS_MONTHLY_LIMIT_EXCEEDED, 0, 900, 1, 100, true},
        {STATUS_MONTHLY_LIMIT_EXCEEDED, 0, 900, 0, 100, false},
        {STATUS_MONTHLY_LIMIT_EXCEEDED, 0, 900, 500, -1, false},
        {STATUS_MANUAL, 0, 900, 0, -1, true},
        {STATUS_MANUAL, 0, 900, -1, -1, false},
        {STATUS_APP_BLOCK, 0, 900, 0, -1, false}, /* the event has no app */
        {STATUS_TIME_BLOCK, 0, 900, 0, -1, true},
    };
    struct usage_event u = usual_event("e1", 100);
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++) {
        const struct decision d = {.status = cases[i].status,
                                   .threshold = cases[i].threshold,
                                   .allowed = cases[i].status <= STATUS_WARNING,
                                   .total_bytes = 1000,
                                   .remaining_bytes = cases[i].left,
                                   .monthly_used_bytes = cases[i].used,
                                   .monthly_limit_bytes = cases[i].limit};
        ck_assert_msg(decide_is_consistent(cfg, &u, &d) == cases[i].consistent, "case %zu", i);
    }
}
END_TEST

START_TEST(cold_when_warmed_too_long_ago) {
    struct usage_event u = usual_event("e1", 1), second = usual_event("e2", 1);
    struct family f = usual_family();
    f.warmed = NOW;
    warm(&f);
    expect_untouched("a second too old", &u, NOW + cfg->cache_max_age_seconds + 1, DECIDE_COLD);
    ck_assert_int_eq(decide_at(&u, NOW + cfg->cache_max_age_seconds, NULL), DECIDE_DONE);
    /* not even a repeat is answered from what is too old */
    expect_untouched("a repeat", &u, NOW + cfg->cache_max_age_seconds + 1, DECIDE_COLD);
    ck_assert_int_eq(decide_at(&second, NOW - 100000, NULL), DECIDE_DONE); /* a clock that went back */
}
END_TEST

START_TEST(cold_under_other_thresholds) {
    struct usage_event u = usual_event("e1", 1);
    struct family f = usual_family();
    warm(&f);
    static const int other[][3] = {{10, 30, 51}, {10, 30, 0}, {30, 50, 0}};
    for (size_t i = 0; i < TESTING_LENGTH(other); i++) {
        memcpy(cfg->thresholds, other[i], sizeof other[i]);
        cfg->threshold_count = other[i][2] ? 3 : 2;
        struct decider *same = decider;
        decider = decider_new(cfg, redis);
        expect_untouched("other thresholds", &u, NOW, DECIDE_COLD);
        decider_free(decider);
        decider = same;
    }
    cfg->threshold_count = 3;
    ck_assert_int_eq(decide(&u, NULL), DECIDE_DONE);
}
END_TEST

START_TEST(strangers) {
    struct usage_event u = batches_event("e1", FAMILY, CUSTOMER + 1, 1);
    struct family f = usual_family();
    warm(&f);
    expect_untouched("a stranger", &u, NOW, DECIDE_NOT_MEMBER);
    /* what is left of a former member makes him none */
    stores_do(raw, "SET family:100042:customer:200188:usage:monthly:202611 0");
    stores_do(raw, "HSET family:100042:customer:200188:constraints WARM 0");
    expect_untouched("a former member", &u, NOW, DECIDE_NOT_MEMBER);
    /* a family of nobody has no set in Redis: unknown, not empty */
    f.count = 0;
    warm(&f);
    expect_untouched("a family of nobody", &u, NOW, DECIDE_COLD);
}
END_TEST

/* Who has rules of this warming, or is noted as having none, is a member. The set is asked about others. */
START_TEST(the_set_of_members_is_asked_last) {
    struct usage_event first = usual_event("e1", 1), second = usual_event("e2", 1),
                       third = usual_event("e3", 1);
    struct family f = full_family(), plain = usual_family(), other_month = full_family();
    other_month.month = 202610;
    warm(&f);
    stores_do(raw, "DEL family:100042:members");
    ck_assert_int_eq(decide(&first, NULL), DECIDE_DONE);
    warm(&f);
    warm(&other_month);
    ck_assert_int_eq(decide(&second, NULL), DECIDE_DONE);
    stores_do(raw, "DEL family:100042:members");
    expect_untouched("rules of another month's warming, and no set", &third, NOW, DECIDE_COLD);
    stores_do(raw, "SADD family:100042:members 1");
    expect_untouched("the same, and another set", &third, NOW, DECIDE_NOT_MEMBER);
    warm(&plain);
    stores_do(raw, "DEL family:100042:members family:100042:customer:200187:constraints");
    ck_assert_int_eq(decide(&third, NULL), DECIDE_DONE);
}
END_TEST

/* Nobody's rules are overlooked in a family too large for a note of all who have none. */
START_TEST(large_families) {
    struct family f = usual_family();
    struct usage_event u = usual_event("e", 1);
    struct decision d;
    f.count = LARGE;
    for (int i = 0; i < LARGE; i++)
        f.people[i] = (struct person){.customer = CUSTOMER + i, .limit = -1, .manual = i % 10 == 9};
    warm(&f);
    for (int i = 0; i < LARGE; i++) {
        char id[16];
        snprintf(id, sizeof id, "e%d", i);
        u = batches_event(id, FAMILY, CUSTOMER + i, 1);
        ck_assert_int_eq(decide(&u, &d), DECIDE_DONE);
        ck_assert_int_eq(d.status, i % 10 == 9 ? STATUS_MANUAL : STATUS_NORMAL);
    }
    u.customer_id = CUSTOMER + LARGE;
    expect_untouched("a stranger", &u, NOW, DECIDE_KNOWN);
    ck_assert_int_eq(decide_unknown(&u, NULL), DECIDE_NOT_MEMBER);
}
END_TEST

START_TEST(unreadable_rules) {
    struct usage_event u = usual_event("e1", 1);
    struct family f = full_family();
    f.people[0].unreadable = f.people[0].manual = true;
    warm(&f);
    expect_untouched("unreadable rules", &u, NOW, DECIDE_UNREADABLE);
}
END_TEST

/* Warming replaces: no rule, mark or member of before is left. */
START_TEST(warming_replaces_everything) {
    struct family f = full_family();
    struct usage_event u = usual_event("e1", 1), gone = batches_event("e2", FAMILY, CUSTOMER + 1, 1);
    struct decision d;
    f.count = 2;
    f.people[1] = (struct person){.customer = CUSTOMER + 1, .limit = -1};
    f.people[0].manual = f.people[0].unreadable = true;
    warm(&f);
    f = usual_family();
    warm(&f);
    batches_set_app(&u, "com.video");
    u.hhmm = 130;
    ck_assert_int_eq(decide(&u, &d), DECIDE_DONE);
    ck_assert_int_eq(d.status, STATUS_NORMAL);
    ck_assert_int_eq(d.monthly_limit_bytes, -1);
    ck_assert_int_eq(decide(&gone, NULL), DECIDE_NOT_MEMBER);
    f.count = 0;
    warm(&f);
    ck_assert_int_eq(stores_number(raw, "EXISTS %s", "family:100042:members"), 0);
}
END_TEST

START_TEST(warming_over_keys_of_another_type) {
    struct family f = full_family();
    struct usage_event u = usual_event("e1", 1);
    strcpy(f.people[0].told[0], "MANUAL");
    for (size_t i = 0; i < TESTING_LENGTH(needed_keys); i++)
        stores_do(raw, "RPUSH %s x", needed_keys[i]);
    stores_do(raw, "RPUSH family:100042:customer:200187:alert:MANUAL:202611 x");
    warm(&f);
    ck_assert_int_eq(decide(&u, NULL), DECIDE_DONE);
}
END_TEST

START_TEST(months_of_a_family_are_apart) {
    struct family now = usual_family(), before = usual_family();
    struct usage_event u = usual_event("e1", 100), old = usual_event("e2", 10);
    struct decision d;
    old.month = before.month = 202610;
    before.left = 20;
    warm(&now);
    warm(&before);
    ck_assert_int_eq(decide(&u, &d), DECIDE_DONE);
    ck_assert_int_eq(d.remaining_bytes, 900);
    ck_assert_int_eq(decide(&old, &d), DECIDE_DONE);
    ck_assert_int_eq(d.remaining_bytes, 10);
    ck_assert_int_eq(d.monthly_used_bytes, 10);
    warm(&now);
    ck_assert_int_eq(decide(&old, &d), DECIDE_DONE);
    ck_assert_msg(d.duplicate, "warming one month touched the other's generation");
}
END_TEST

START_TEST(lost_scripts_answer_cold_once) {
    struct family f = usual_family();
    struct usage_event u = usual_event("e1", 1);
    warm(&f);
    stores_do(raw, "SCRIPT FLUSH");
    expect_untouched("an emptied script cache", &u, NOW, DECIDE_COLD);
    ck_assert_int_eq(decide(&u, NULL), DECIDE_DONE);
}
END_TEST

/* More than one pipeline, in order. */
START_TEST(many_in_order) {
    enum { MANY = 3 * REDIS_PIPELINE_COMMANDS + 5 };
    struct family f = usual_family();
    f.total = f.left = 10 * MANY;
    warm(&f);
    struct batch_event *events = mem_zero(MANY, sizeof *events);
    size_t *indexes = mem_zero(MANY, sizeof *indexes);
    enum decide_answer *answers = mem_zero(MANY, sizeof *answers);
    for (size_t i = 0; i < MANY; i++) {
        char id[16];
        snprintf(id, sizeof id, "e%zu", i);
        events[i] = (struct batch_event){.usage = usual_event(id, 1), .twin_of = EVENT_NO_TWIN};
        indexes[i] = MANY - 1 - i; /* the order of the indexes counts */
    }
    struct batch b = {.events = events, .count = MANY};
    struct error err = {0};
    ck_assert_msg(decider_run(decider, &b, indexes, MANY, NOW, answers, &err), "%s", err.text);
    for (size_t i = 0; i < MANY; i++) {
        testing_require(answers[i] == DECIDE_DONE, "answer %d", answers[i]);
        testing_require(events[indexes[i]].decision.monthly_used_bytes == (int64_t)i + 1, "the %zu-th isn't",
                        i);
    }
    free(events);
    free(indexes);
    free(answers);
}
END_TEST

START_TEST(replies_that_are_none) {
    static const char *const bad[] = {"",
                                      "NORMAL",
                                      "NORMAL ",
                                      "NORMAL 1 2",
                                      "NORMAL 100 900 100 -1 0.1000 0 0 1000",
                                      "NORMAL 100 900 100 -1 0.1000 0 0 1000 0",
                                      "NORMAL 101 900 100 -1 0.1000 0 0 1000 1",
                                      "MANUAL 100 900 100 -1 0.1000 0 0 1000 1",
                                      "SURPRISE 100 900 100 -1 0.1000 0 0 1000 1",
                                      "WARNING_ 100 900 100 -1 0.1000 0 0 1000 1",
                                      "NORMAL x 900 100 -1 0.1000 0 0 1000 1",
                                      "NORMAL 100 900x 100 -1 0.1000 0 0 1000 1"};
    struct decision d;
    for (size_t i = 0; i < TESTING_LENGTH(bad); i++)
        ck_assert_msg(!decide_parse_reply(bad[i], strlen(bad[i]), &d), "\"%s\" was taken", bad[i]);
    const char *good = "WARNING_30 750 250 100 5000 0.1000 1 0 1000 1";
    ck_assert(decide_parse_reply(good, strlen(good), &d));
    ck_assert_int_eq(d.threshold, 30);
    ck_assert(d.allowed && d.should_notify && !d.duplicate);
    ck_assert_int_eq(d.remaining_bytes, 250);
    ck_assert_int_eq(d.monthly_limit_bytes, 5000);
}
END_TEST

/* ---- against a model written from CONTRACT §2 alone ---- */

#define FAMILIES 4
#define MONTHS 2
#define IDS 160

struct said {
    char status[40];
    int64_t left, used, limit, total;
    bool notify, allowed;
};

struct cached {
    int64_t gen, family, customer, bytes;
    struct said said;
};

static struct cached cache[IDS];

static bool model_told(const struct person *p, const char *alert) {
    for (size_t i = 0; i < ALERTS && p->told[i][0]; i++) {
        if (strcmp(p->told[i], alert) == 0)
            return true;
    }
    return false;
}

static bool model_tell(struct person *p, const char *alert) {
    if (model_told(p, alert))
        return false;
    size_t i = 0;
    while (p->told[i][0])
        ck_assert_uint_lt(++i, ALERTS);
    snprintf(p->told[i], sizeof p->told[i], "%s", alert);
    return true;
}

static bool model_in_block(const char *block, int hhmm) {
    int from = 0, to = 0;
    if (sscanf(block, "%4d-%4d", &from, &to) != 2)
        return false;
    for (int minute = 0, at = from; minute < 1440; minute++) {
        if (at == hhmm)
            return true;
        at = at % 100 == 59 ? (at / 100 + 1) % 24 * 100 : at + 1;
        if (at == to)
            return false;
    }
    return true; /* equal ends */
}

static const char *model_block(const struct family *f, const struct person *p, const struct usage_event *u,
                               struct buf *alert) {
    buf_reset(alert);
    if (p->plain)
        return f->left < u->bytes_used ? "FAMILY_QUOTA_EXCEEDED" : NULL;
    if (p->manual)
        return "MANUAL";
    for (size_t i = 0; u->has_app && i < TESTING_LENGTH(p->apps) && p->apps[i][0]; i++) {
        if (strcmp(p->apps[i], u->app) == 0) {
            buf_str(alert, "APP_BLOCK:");
            encode(alert, u->app);
            return "APP_BLOCK";
        }
    }
    if (model_in_block(p->block, u->hhmm))
        return "TIME_BLOCK";
    if (p->limit >= 0 && (__int128)p->used + u->bytes_used > p->limit)
        return "MONTHLY_LIMIT_EXCEEDED";
    return f->left < u->bytes_used ? "FAMILY_QUOTA_EXCEEDED" : NULL;
}

static struct said model_decide(struct family *f, struct person *p, const struct usage_event *u) {
    struct said s = {.limit = p->plain ? -1 : p->limit, .total = f->total};
    struct buf alert = {0};
    const char *block = model_block(f, p, u, &alert);
    if (block) {
        snprintf(s.status, sizeof s.status, "%s", block);
        s.notify = model_tell(p, alert.len ? buf_cstr(&alert) : block);
    } else {
        s.allowed = true;
        f->left -= u->bytes_used;
        p->used += u->bytes_used;
        strcpy(s.status, "NORMAL");
        for (size_t i = 0; i < cfg->threshold_count; i++) {
            char name[32];
            if ((__int128)f->left * 100 > (__int128)f->total * cfg->thresholds[i])
                continue;
            snprintf(s.status, sizeof s.status, "WARNING_%d", cfg->thresholds[i]);
            snprintf(name, sizeof name, "THRESHOLD:%d", cfg->thresholds[i]);
            s.notify = model_tell(p, name);
            while (s.notify && ++i < cfg->threshold_count) {
                snprintf(name, sizeof name, "THRESHOLD:%d", cfg->thresholds[i]);
                model_tell(p, name);
            }
            break;
        }
    }
    s.left = f->left;
    s.used = p->used;
    buf_free(&alert);
    return s;
}

static const char *const app_names[] = {"", "com.game", "카카오톡", "a b%", "com.Game"};

static int random_hhmm(uint64_t *state) {
    return (int)(testing_between(state, 0, 23) * 100 + testing_between(state, 0, 59));
}

/* Rules as they may stand in MySQL when a family is warmed; the same in all its months. */
static void random_rules(uint64_t *state, struct person *p) {
    size_t apps = 0;
    memset(p->apps, 0, sizeof p->apps);
    p->manual = testing_between(state, 0, 9) == 0;
    p->limit = testing_between(state, 0, 2) ? -1 : p->used + testing_between(state, 0, 400);
    p->block[0] = '\0';
    if (testing_between(state, 0, 3) == 0)
        snprintf(p->block, sizeof p->block, "%04d-%04d", random_hhmm(state), random_hhmm(state));
    for (size_t i = 1; i < TESTING_LENGTH(app_names); i++) {
        if (testing_between(state, 0, 4) == 0)
            strcpy(p->apps[apps++], app_names[i]);
    }
}

static void random_total(uint64_t *state, struct family *f) {
    int64_t used = f->total - f->left;
    f->total = testing_between(state, 0, 5) ? used + testing_between(state, 0, 3000)
                                            : testing_between(state, 0, MOST - 4000);
    f->left = f->total - used;
}

static void model_warm(uint64_t *state, struct family months[MONTHS], size_t month, bool anew) {
    struct family *f = &months[month];
    if (testing_between(state, 0, 3) == 0)
        random_total(state, f);
    for (size_t i = 0; anew && i < f->count; i++) {
        random_rules(state, &f->people[i]);
        for (size_t m = 0; m < MONTHS; m++) {
            char told[ALERTS][128];
            int64_t used = months[m].people[i].used;
            bool plain = months[m].people[i].plain;
            memcpy(told, months[m].people[i].told, sizeof told);
            months[m].people[i] = f->people[i];
            months[m].people[i].used = used;
            months[m].people[i].plain = plain;
            memcpy(months[m].people[i].told, told, sizeof told);
        }
    }
    warm(f);
}

static void model_init(uint64_t *state, struct family all[FAMILIES][MONTHS]) {
    memset(cache, 0, sizeof cache);
    for (size_t i = 0; i < FAMILIES; i++) {
        for (size_t m = 0; m < MONTHS; m++) {
            struct family *f = &all[i][m];
            *f = (struct family){.id = FAMILY + (int64_t)i, .month = m ? 202610 : 202611, .count = PEOPLE};
            for (size_t k = 0; k < PEOPLE; k++)
                f->people[k] = (struct person){.customer = CUSTOMER + (int64_t)k, .limit = -1};
            random_total(state, f);
        }
        for (size_t m = 0; m < MONTHS; m++)
            model_warm(state, all[i], m, m == 0);
    }
}

static struct usage_event random_event(uint64_t *state, const struct family *f, size_t *id_number) {
    char id[16];
    *id_number = (size_t)testing_between(state, 0, IDS - 1);
    snprintf(id, sizeof id, "e/%zu", *id_number);
    int64_t bytes =
        testing_between(state, 0, 7) ? testing_between(state, 1, 40) : testing_between(state, 1, 2000);
    struct usage_event u = batches_event(id, f->id, CUSTOMER + testing_between(state, 0, PEOPLE - 1), bytes);
    const struct cached *known = &cache[*id_number];
    if (known->gen && testing_between(state, 0, 3) == 0) { /* a true repeat now and then */
        u.family_id = known->family;
        u.customer_id = known->customer;
        u.bytes_used = known->bytes;
    }
    u.month = f->month;
    u.hhmm = (int16_t)random_hhmm(state);
    /* the app goes with the id: a repeat with another one is answered COLD, if the first was an APP_BLOCK */
    batches_set_app(&u, app_names[*id_number % TESTING_LENGTH(app_names)]);
    return u;
}

static enum decide_answer model_answer(struct family all[FAMILIES][MONTHS], const struct batch_event *e,
                                       size_t id_number, bool *duplicate, struct said *said) {
    const struct usage_event *u = &e->usage;
    struct family *f = &all[u->family_id - FAMILY][u->month == 202610];
    struct cached *c = &cache[id_number];
    *duplicate = c->gen == f->gen && c->family == u->family_id && c->customer == u->customer_id &&
                 c->bytes == u->bytes_used;
    if (!*duplicate && c->gen && !e->looked_up)
        return DECIDE_KNOWN;
    *said = c->said;
    if (*duplicate)
        return DECIDE_DONE;
    *c = (struct cached){
        .gen = f->gen, .family = u->family_id, .customer = u->customer_id, .bytes = u->bytes_used};
    *said = c->said = model_decide(f, &f->people[u->customer_id - CUSTOMER], u);
    return DECIDE_DONE;
}

static void check_said(const struct batch_event *e, const struct said *s, bool duplicate, uint64_t seed,
                       int step) {
    const struct decision *d = &e->decision;
    char status[40];
    status_text(d, status);
    testing_require(
        strcmp(status, s->status) == 0 && d->remaining_bytes == s->left && d->monthly_used_bytes == s->used &&
            d->monthly_limit_bytes == s->limit && d->total_bytes == s->total &&
            d->should_notify == s->notify && d->allowed == s->allowed && d->duplicate == duplicate,
        "seed %" PRIu64 ", step %d, %s: %s left %" PRId64 " used %" PRId64 " limit %" PRId64 " total %" PRId64
        " notify %d duplicate %d\nthe model says %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d %d",
        seed, step, e->usage.id, status, d->remaining_bytes, d->monthly_used_bytes, d->monthly_limit_bytes,
        d->total_bytes, d->should_notify, d->duplicate, s->status, s->left, s->used, s->limit, s->total,
        s->notify, duplicate);
}

static int run_batch(uint64_t *state, struct family all[FAMILIES][MONTHS], uint64_t seed, int step) {
    enum { MOST_A_BATCH = 40 };
    struct batch_event events[MOST_A_BATCH];
    size_t indexes[MOST_A_BATCH], ids[MOST_A_BATCH], n = (size_t)testing_between(state, 1, MOST_A_BATCH);
    enum decide_answer answers[MOST_A_BATCH];
    for (size_t i = 0; i < n; i++) {
        const struct family *f =
            &all[testing_between(state, 0, FAMILIES - 1)][testing_between(state, 0, MONTHS - 1)];
        events[i] = (struct batch_event){.usage = random_event(state, f, &ids[i]),
                                         .twin_of = EVENT_NO_TWIN,
                                         .looked_up = testing_between(state, 0, 3) != 0};
        indexes[i] = i;
    }
    struct batch b = {.events = events, .count = n};
    struct error err = {0};
    testing_require(decider_run(decider, &b, indexes, n, NOW, answers, &err), "%s", err.text);
    for (size_t i = 0; i < n; i++) {
        bool duplicate;
        struct said s;
        enum decide_answer expected = model_answer(all, &events[i], ids[i], &duplicate, &s);
        testing_require(answers[i] == expected, "seed %" PRIu64 ", step %d: answer %d", seed, step,
                        answers[i]);
        if (expected == DECIDE_DONE)
            check_said(&events[i], &s, duplicate, seed, step);
    }
    return (int)n;
}

/* Takes a key away: the next decision is cold, or rests on what is left and is right; warming heals it. */
static void lose_a_key(uint64_t *state, struct family months[MONTHS], size_t month, uint64_t seed) {
    struct family *f = &months[month];
    int64_t who = CUSTOMER + testing_between(state, 0, PEOPLE - 1);
    char key[128];
    const int which = (int)testing_between(state, 0, 4);
    if (which < 2)
        snprintf(key, sizeof key, "family:%" PRId64 ":%s:%d", f->id, which ? "remaining" : "info", f->month);
    else if (which == 2)
        snprintf(key, sizeof key, "family:%" PRId64 ":members", f->id);
    else if (which == 3)
        snprintf(key, sizeof key, "family:%" PRId64 ":customer:%" PRId64 ":usage:monthly:%d", f->id, who,
                 f->month);
    else
        snprintf(key, sizeof key, "family:%" PRId64 ":customer:%" PRId64 ":constraints", f->id, who);
    stores_do(raw, "DEL %s", key);
    struct usage_event u = batches_event("unheard of", f->id, who, 1);
    u.month = f->month;
    struct decision d;
    enum decide_answer answer = decide_unknown(&u, &d);
    bool right =
        answer == DECIDE_COLD ||
        ((which == 2 || which == 4) && answer == DECIDE_DONE && d.remaining_bytes == f->left - d.allowed &&
         d.monthly_used_bytes == f->people[who - CUSTOMER].used + d.allowed);
    testing_require(right, "seed %" PRIu64 ": without %s: answer %d", seed, key, answer);
    warm(f);
}

START_TEST(sequences_follow_the_model) {
    static struct family all[FAMILIES][MONTHS];
    uint64_t seed = testing_seed(), state = seed;
    model_init(&state, all);
    for (int step = 0, decisions = 0; decisions < 6000; step++) {
        decisions += run_batch(&state, all, seed, step);
        size_t month = (size_t)testing_between(&state, 0, MONTHS - 1);
        struct family *months = all[testing_between(&state, 0, FAMILIES - 1)];
        switch (testing_between(&state, 0, 7)) {
        case 0:
            model_warm(&state, months, month, true);
            break;
        case 1:
            lose_a_key(&state, months, month, seed);
            break;
        case 2: /* losing cached results and marks loses nothing once the family is warmed */
            stores_do(raw, "FLUSHDB");
            memset(cache, 0, sizeof cache);
            for (size_t i = 0; i < FAMILIES; i++) {
                for (size_t m = 0; m < MONTHS; m++)
                    warm(&all[i][m]);
            }
            break;
        default:
            break;
        }
    }
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("rules");
    TCase *tc = tcase_create("rules");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, rules);
    tcase_add_test(tc, precedence);
    tcase_add_test(tc, ratio_is_exact);
    tcase_add_test(tc, cut_offs_are_exact);
    tcase_add_test(tc, other_thresholds);
    tcase_add_test(tc, told_once_per_generation);
    tcase_add_test(tc, told_to_each_customer);
    tcase_add_test(tc, repeats_get_the_cached_result);
    tcase_add_test(tc, repeats_of_blocked_events);
    tcase_add_test(tc, cached_results_that_do_not_count);
    tcase_add_test(tc, cached_results_expire);
    tcase_add_test(tc, keys_keep_their_expiry);
    tcase_add_test(tc, cold_without_a_key);
    tcase_add_test(tc, cold_without_a_field);
    tcase_add_test(tc, cold_with_a_key_of_another_type);
    tcase_add_test(tc, marks_of_another_type_are_none);
    tcase_add_test(tc, cold_with_text_for_a_number);
    tcase_add_test(tc, cold_with_figures_that_cannot_be);
    tcase_add_test(tc, consistent_decisions);
    tcase_add_test(tc, cold_when_warmed_too_long_ago);
    tcase_add_test(tc, cold_under_other_thresholds);
    tcase_add_test(tc, strangers);
    tcase_add_test(tc, the_set_of_members_is_asked_last);
    tcase_add_test(tc, large_families);
    tcase_add_test(tc, unreadable_rules);
    tcase_add_test(tc, warming_replaces_everything);
    tcase_add_test(tc, warming_over_keys_of_another_type);
    tcase_add_test(tc, months_of_a_family_are_apart);
    tcase_add_test(tc, lost_scripts_answer_cold_once);
    tcase_add_test(tc, many_in_order);
    tcase_add_test(tc, replies_that_are_none);
    tcase_add_test(tc, sequences_follow_the_model);
    suite_add_tcase(s, tc);
    return s;
}

int main(void) {
    return testing_run(suite());
}
