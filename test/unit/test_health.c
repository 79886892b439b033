/* SPDX-License-Identifier: MIT */
/* A clock of the test's own: cases are steps in time, each with what is known and what must be said. */
#include "health.h"

#include <jansson.h>

#include "testing.h"

#define STUCK_AFTER_MS 60000
#define WALL_MS 1700000000000

enum { KAFKA, REDIS, MYSQL, DEPENDENCIES };

/* What is known of a dependency: '+' up, '-' down, '?' not tried. */
struct step {
    int64_t at_ms;
    const char *dependencies; /* of kafka, redis, mysql */
    size_t joined;            /* of one member */
    int64_t settled_to, end;  /* of partition 3; end -1: not known; settled_to -1: the partition isn't ours */
    bool paused, stopped, stopping;
    enum health_state state;
    const char *line; /* a part of it; NULL: nothing besides the state */
};

static void apply(struct health *h, const struct step *s) {
    static const char *const names[DEPENDENCIES] = {"kafka", "redis", "mysql"};
    struct health_dependency d[DEPENDENCIES];
    for (int i = 0; i < DEPENDENCIES; i++) {
        char c = s->dependencies[i];
        d[i] = (struct health_dependency){
            .name = names[i], .known = c != '?', .up = c == '+', .since_ms = WALL_MS + 1, .latency_ms = -1};
        if (c == '-')
            snprintf(d[i].error, sizeof d[i].error, "no \"answer\"");
    }
    const struct health_partition p = {.id = 3,
                                       .settled_to = s->settled_to,
                                       .end = s->end,
                                       .paused = s->paused,
                                       .paused_since_ms = s->paused ? WALL_MS + 2 : 0,
                                       .stopped = s->stopped};
    const struct health_input in = {.now_ms = s->at_ms,
                                    .wall_ms = WALL_MS + s->at_ms,
                                    .stopping = s->stopping,
                                    .dependencies = d,
                                    .dependency_count = DEPENDENCIES,
                                    .partitions = &p,
                                    .partition_count = s->settled_to >= 0,
                                    .members = 1,
                                    .members_joined = s->joined};
    enum health_state before = h->state;
    bool changed = health_update(h, &in);
    ck_assert(changed == (before != h->state));
}

static void check_steps(const struct step *steps, size_t n) {
    struct health h;
    health_init(&h, STUCK_AFTER_MS, WALL_MS);
    for (size_t i = 0; i < n; i++) {
        struct buf line = {0};
        apply(&h, &steps[i]);
        health_line(&h, &line);
        ck_assert_msg(h.state == steps[i].state, "step %zu: is %s, must be %s", i, buf_cstr(&line),
                      health_state_name(steps[i].state));
        if (steps[i].line)
            ck_assert_msg(strstr(buf_cstr(&line), steps[i].line) != NULL, "step %zu: \"%s\" isn't in \"%s\"",
                          i, steps[i].line, buf_cstr(&line));
        else
            ck_assert_str_eq(buf_cstr(&line), health_state_name(steps[i].state));
        buf_free(&line);
    }
    health_free(&h);
}

#define CHECK_STEPS(steps) check_steps(steps, TESTING_LENGTH(steps))

START_TEST(test_from_start_to_stop) {
    static const struct step steps[] = {
        {0, "???", 0, -1, -1, 0, 0, 0, HEALTH_STARTING,
         "kafka hasn't answered yet; redis hasn't answered yet"},
        {100, "++?", 0, -1, -1, 0, 0, 0, HEALTH_STARTING, "mysql hasn't answered yet"},
        {200, "+++", 0, -1, -1, 0, 0, 0, HEALTH_STARTING, "the consumer group isn't joined"},
        {300, "+++", 1, 0, -1, 0, 0, 0, HEALTH_READY, NULL},
        {400, "+-+", 1, 0, 9, 0, 0, 0, HEALTH_DEGRADED, "redis is down: no \"answer\""},
        {500, "+++", 1, 5, 9, 0, 0, 0, HEALTH_READY, NULL},
        {600, "+++", 1, 5, 9, 0, 0, 1, HEALTH_STOPPING, "told to stop"},
        {700, "+-+", 0, 5, 9, 0, 1, 1, HEALTH_STOPPING, "redis is down"},
    };
    CHECK_STEPS(steps);
}
END_TEST

START_TEST(test_down_from_the_start_is_degraded) {
    static const struct step steps[] = {
        {0, "?-?", 0, -1, -1, 0, 0, 0, HEALTH_DEGRADED, "mysql hasn't answered yet"},
        {1, "+-+", 1, 0, 0, 0, 0, 0, HEALTH_DEGRADED, NULL},
    };
    struct step both[] = {steps[0], steps[1]};
    both[1].line = "degraded: redis is down";
    CHECK_STEPS(both);
}
END_TEST

START_TEST(test_stuck_goes_by_progress) {
    static const struct step steps[] = {
        {0, "+++", 1, 100, 100, 0, 0, 0, HEALTH_READY, NULL},
        /* idle for long, then a record comes: it's that one that counts from now */
        {900000, "+++", 1, 100, 101, 0, 0, 0, HEALTH_READY, NULL},
        {900000 + STUCK_AFTER_MS - 1, "+++", 1, 100, 500, 0, 0, 0, HEALTH_READY, NULL},
        {900000 + STUCK_AFTER_MS, "+++", 1, 100, 500, 0, 0, 0, HEALTH_STUCK,
         "partition 3 has 400 records to settle and hasn't moved for 60 s"},
        /* what is settled, however little, is progress */
        {960001, "+++", 1, 101, 9999, 0, 0, 0, HEALTH_READY, NULL},
        {960001 + STUCK_AFTER_MS, "+++", 1, 101, 9999, 0, 0, 0, HEALTH_STUCK, "hasn't moved for 60 s"},
        /* taken away and given back as it was it hasn't moved, also while its end isn't known again */
        {1020002, "+++", 1, -1, -1, 0, 0, 0, HEALTH_READY, NULL},
        {1020003, "+++", 1, 101, -1, 0, 0, 0, HEALTH_STUCK, "9898 records to settle"},
        {1020004, "+++", 1, 101, 9999, 0, 0, 0, HEALTH_STUCK, "hasn't moved for 60 s"},
        /* one that others had meanwhile has */
        {1020005, "+++", 1, -1, -1, 0, 0, 0, HEALTH_READY, NULL},
        {1020006, "+++", 1, 102, 9999, 0, 0, 0, HEALTH_READY, NULL},
        /* and of one that was away for long nothing is known */
        {1020007, "+++", 1, -1, -1, 0, 0, 0, HEALTH_READY, NULL},
        {1020006 + STUCK_AFTER_MS, "+++", 1, -1, -1, 0, 0, 0, HEALTH_READY, NULL},
        {1020007 + STUCK_AFTER_MS, "+++", 1, 102, 9999, 0, 0, 0, HEALTH_READY, NULL},
    };
    CHECK_STEPS(steps);
}
END_TEST

START_TEST(test_stuck_though_it_comes_and_goes) {
    struct health h;
    health_init(&h, STUCK_AFTER_MS, WALL_MS);
    for (int64_t at = 0; at < 2 * STUCK_AFTER_MS; at += 1000) {
        const bool away = at % 10000 < 3000;
        const struct step s = {at, "+++", 1, away ? -1 : 100, away ? -1 : 500, 0, 0, 0, HEALTH_READY, NULL};
        apply(&h, &s);
        if (!away && at >= STUCK_AFTER_MS + 10000)
            ck_assert_msg(h.state == HEALTH_STUCK, "at %lld ms it's %s", (long long)at,
                          health_state_name(h.state));
    }
    health_free(&h);
}
END_TEST

START_TEST(test_a_line_names_the_cause_and_some_partitions) {
    enum { PARTITIONS = 64 };
    struct health_partition p[PARTITIONS];
    const struct health_dependency d = {.name = "mysql", .known = true, .error = "gone"};
    struct health_input in = {.dependencies = &d,
                              .dependency_count = 1,
                              .partitions = p,
                              .partition_count = PARTITIONS,
                              .members = 2,
                              .members_joined = 1,
                              .members_claiming = 1};
    struct health h;
    struct buf line = {0};
    for (int32_t i = 0; i < PARTITIONS; i++)
        p[i] = (struct health_partition){.id = i, .settled_to = 0, .end = 9, .stopped = true};
    health_init(&h, STUCK_AFTER_MS, WALL_MS);
    in.wall_ms = WALL_MS;
    health_update(&h, &in);
    health_line(&h, &line);
    ck_assert_msg(strncmp(buf_cstr(&line), "stuck: mysql is down: gone; partitions are given", 48) == 0, "%s",
                  buf_cstr(&line));
    ck_assert_ptr_nonnull(strstr(buf_cstr(&line), "partition 4 isn't read"));
    ck_assert_ptr_null(strstr(buf_cstr(&line), "partition 5 isn't read"));
    ck_assert_ptr_nonnull(strstr(buf_cstr(&line), "; and 59 more partitions"));
    buf_free(&line);
    health_free(&h);
}
END_TEST

START_TEST(test_what_isnt_known_isnt_stuck) {
    static const struct step steps[] = {
        {0, "+++", 1, 100, -1, 0, 0, 0, HEALTH_READY, NULL},
        {STUCK_AFTER_MS, "+++", 1, 100, -1, 0, 0, 0, HEALTH_READY, NULL},
        {STUCK_AFTER_MS + 1, "+++", 1, 100, 90, 0, 0, 0, HEALTH_READY, NULL}, /* seen before the settling */
    };
    CHECK_STEPS(steps);
}
END_TEST

START_TEST(test_paused_is_told_and_ready) {
    static const struct step steps[] = {
        {0, "+++", 1, 100, 200, 1, 0, 0, HEALTH_READY, NULL},
        {2 * STUCK_AFTER_MS, "+++", 1, 100, 300, 1, 0, 0, HEALTH_READY, NULL},
        /* resumed it has its time again */
        {2 * STUCK_AFTER_MS + 1, "+++", 1, 100, 300, 0, 0, 0, HEALTH_READY, NULL},
        {3 * STUCK_AFTER_MS, "+++", 1, 100, 300, 0, 0, 0, HEALTH_READY, NULL},
        {3 * STUCK_AFTER_MS + 1, "+++", 1, 100, 300, 0, 0, 0, HEALTH_STUCK, "partition 3"},
    };
    CHECK_STEPS(steps);
}
END_TEST

START_TEST(test_stopped_partition_is_stuck_at_once) {
    static const struct step steps[] = {
        {0, "+++", 1, 100, 100, 0, 1, 0, HEALTH_STUCK,
         "partition 3 isn't read: its log and the ledger disagree"},
        {1, "+-+", 1, 100, 100, 0, 1, 0, HEALTH_STUCK, "redis is down"}, /* all reasons are told */
    };
    CHECK_STEPS(steps);
}
END_TEST

START_TEST(test_out_of_the_group) {
    static const struct step steps[] = {
        {0, "+++", 1, 5, 5, 0, 0, 0, HEALTH_READY, NULL},
        {1000, "+++", 0, -1, -1, 0, 0, 0, HEALTH_READY, NULL}, /* a rebalance */
        {2000, "+++", 1, 5, 5, 0, 0, 0, HEALTH_READY, NULL},
        {3000, "+++", 0, -1, -1, 0, 0, 0, HEALTH_READY, NULL},
        {3000 + STUCK_AFTER_MS, "+++", 0, -1, -1, 0, 0, 0, HEALTH_STUCK, "the consumer group isn't joined"},
        {4000 + STUCK_AFTER_MS, "+++", 1, -1, -1, 0, 0, 0, HEALTH_READY,
         NULL}, /* more members than partitions */
    };
    CHECK_STEPS(steps);
}
END_TEST

START_TEST(test_progress_age) {
    struct health h;
    const struct step a = {1000, "+++", 1, 5, 5, 0, 0, 0, HEALTH_READY, NULL},
                      b = {5000, "+++", 1, 5, 9, 1, 0, 0, HEALTH_READY, NULL},
                      c = {9000, "+++", 1, 5, 9, 1, 0, 0, HEALTH_READY, NULL};
    health_init(&h, STUCK_AFTER_MS, WALL_MS);
    apply(&h, &a);
    ck_assert_int_eq(health_progress_age_ms(&h.tracks[0], 3000), 0); /* no lag */
    apply(&h, &b);
    ck_assert_int_eq(health_progress_age_ms(&h.tracks[0], 5000), 0);
    apply(&h, &c);
    ck_assert_int_eq(health_progress_age_ms(&h.tracks[0], 9000), 4000); /* paused ones age too */
    health_free(&h);
}
END_TEST

static json_t *document(const struct health *h) {
    struct buf text = {0};
    json_error_t why;
    health_print_json(h, &text);
    json_t *o = json_loads(buf_cstr(&text), 0, &why);
    ck_assert_msg(o != NULL, "%s: %s", why.text, buf_cstr(&text));
    buf_free(&text);
    return o;
}

START_TEST(test_document) {
    struct health h;
    const struct step s = {70000, "+-?", 1, 5, 9, 1, 0, 0, HEALTH_DEGRADED, NULL};
    const char *state = "", *name = "", *error = "";
    json_int_t since = 0, down_since = 0, partition = 0, paused_since = 0;
    health_init(&h, STUCK_AFTER_MS, WALL_MS);
    apply(&h, &s);
    json_t *o = document(&h);
    ck_assert_int_eq(json_unpack(o, "{s:s,s:I,s:[{s:s,s:I,s:s},{s:s}],s:[{s:I,s:I}]}", "state", &state,
                                 "since", &since, "reasons", "dependency", &name, "since", &down_since,
                                 "error", &error, "dependency", &name, "paused", "partition", &partition,
                                 "since", &paused_since),
                     0);
    ck_assert_str_eq(state, "degraded");
    ck_assert_int_eq(since, WALL_MS + 70000);
    ck_assert_int_eq(down_since, WALL_MS + 1);
    ck_assert_str_eq(error, "no \"answer\"");
    ck_assert_str_eq(name, "mysql");
    ck_assert_int_eq(partition, 3);
    ck_assert_int_eq(paused_since, WALL_MS + 2);
    json_decref(o);
    health_free(&h);
}
END_TEST

START_TEST(test_document_of_a_stuck_partition) {
    struct health h;
    const struct step a = {0, "+++", 1, 5, 9, 0, 0, 0, HEALTH_READY, NULL},
                      b = {STUCK_AFTER_MS + 7, "+++", 1, 5, 9, 0, 0, 0, HEALTH_STUCK, NULL};
    json_int_t partition = 0, lag = 0, unmoved = 0;
    health_init(&h, STUCK_AFTER_MS, WALL_MS);
    apply(&h, &a);
    apply(&h, &b);
    json_t *o = document(&h);
    ck_assert_int_eq(json_unpack(o, "{s:[{s:I,s:I,s:I}]}", "reasons", "partition", &partition, "lag", &lag,
                                 "unmovedForMs", &unmoved),
                     0);
    ck_assert_int_eq(partition, 3);
    ck_assert_int_eq(lag, 4);
    ck_assert_int_eq(unmoved, STUCK_AFTER_MS + 7);
    json_decref(o);
    health_free(&h);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("health");
    TCase *tc = tcase_create("health");
    tcase_add_test(tc, test_from_start_to_stop);
    tcase_add_test(tc, test_down_from_the_start_is_degraded);
    tcase_add_test(tc, test_stuck_goes_by_progress);
    tcase_add_test(tc, test_stuck_though_it_comes_and_goes);
    tcase_add_test(tc, test_a_line_names_the_cause_and_some_partitions);
    tcase_add_test(tc, test_what_isnt_known_isnt_stuck);
    tcase_add_test(tc, test_paused_is_told_and_ready);
    tcase_add_test(tc, test_stopped_partition_is_stuck_at_once);
    tcase_add_test(tc, test_out_of_the_group);
    tcase_add_test(tc, test_progress_age);
    tcase_add_test(tc, test_document);
    tcase_add_test(tc, test_document_of_a_stuck_partition);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
