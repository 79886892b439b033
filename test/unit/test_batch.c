/* SPDX-License-Identifier: MIT */
/* Batches: groups, repeated ids and what becomes of them, offsets. Without Kafka. */
#include "batches.h"
#include "ledger.h"

static struct assignment *assignment;
static struct batch *b;

static void set_up(void) {
    assignment = batches_assignment(7, 3);
    b = batch_new(assignment);
}

static void tear_down(void) {
    batch_free(b);
    assignment_unref(assignment);
}

static size_t put(const char *id, int64_t family, int64_t customer, int64_t bytes) {
    batches_put_usage(b, &assignment->parts[0], batches_event(id, family, customer, bytes));
    return b->count - 1;
}

static size_t put_month(const char *id, int64_t family, int32_t month) {
    size_t i = put(id, family, 1, 1);
    b->events[i].usage.month = month;
    return i;
}

static struct family_group *group_of(size_t i) {
    return &b->groups[b->events[i].group];
}

/* An event's fate in a letter: open, live (open and the script's), duplicate, conflict, rejected otherwise.
 */
static char fate(size_t i) {
    const struct batch_event *e = &b->events[i];
    if (e->outcome == OUTCOME_OPEN)
        return batch_event_live(e) ? 'L' : 'o';
    if (e->outcome == OUTCOME_DUPLICATE)
        return 'd';
    if (e->outcome == OUTCOME_REJECTED)
        return e->why.code == REJECT_ID_CONFLICT ? 'c' : 'r';
    return '?';
}

static void expect_fates(const char *expected) {
    char got[64] = "";
    for (size_t i = 0; i < b->count; i++)
        got[i] = fate(i);
    ck_assert_str_eq(got, expected);
}

/* ---- groups ---- */

static uint64_t same_for_all(const char *id) {
    (void)id;
    return 7;
}

static uint64_t by_first_letter(const char *id) {
    return (uint64_t)id[0];
}

START_TEST(equal_hashes_make_no_twins) {
    uint64_t (*const hashes[])(const char *) = {same_for_all, by_first_letter};
    for (size_t h = 0; h < TESTING_LENGTH(hashes); h++) {
        size_t a = put("a1", 1, 1, 1), other = put("a2", 1, 1, 1), again = put("a1", 1, 1, 1);
        size_t third = put("a1", 2, 1, 1), c = put("c", 1, 1, 1), other_again = put("a2", 1, 1, 1);
        batch_prepare_hashed(b, hashes[h]);
        ck_assert(b->events[a].twin_of == EVENT_NO_TWIN && b->events[a].has_twin);
        ck_assert(b->events[other].twin_of == EVENT_NO_TWIN && b->events[other].has_twin);
        ck_assert(b->events[c].twin_of == EVENT_NO_TWIN && !b->events[c].has_twin);
        ck_assert_uint_eq(b->events[again].twin_of, a);
        ck_assert_uint_eq(b->events[third].twin_of, a);
        ck_assert_uint_eq(b->events[other_again].twin_of, other);
        ck_assert_uint_eq(b->group_count, 2);
        batch_free(b);
        b = batch_new(assignment);
    }
}
END_TEST

START_TEST(groups_by_family_and_month) {
    static const struct {
        int64_t family;
        int32_t month;
    } put_in[] = {{2, 202611}, {1, 202612}, {2, 202610}, {1, 202612}, {2, 202611}, {1, 202611}};
    for (size_t i = 0; i < TESTING_LENGTH(put_in); i++) {
        char id[16];
        snprintf(id, sizeof id, "e%zu", i);
        put_month(id, put_in[i].family, put_in[i].month);
    }
    batch_prepare(b);
    static const struct {
        int64_t family;
        int32_t month;
        size_t count, events[2];
    } expected[] = {{1, 202611, 1, {5}}, {1, 202612, 2, {1, 3}}, {2, 202610, 1, {2}}, {2, 202611, 2, {0, 4}}};
    ck_assert_uint_eq(b->group_count, TESTING_LENGTH(expected));
    for (size_t g = 0; g < b->group_count; g++) {
        ck_assert_int_eq(b->groups[g].family_id, expected[g].family);
        ck_assert_int_eq(b->groups[g].month, expected[g].month);
        ck_assert_uint_eq(b->groups[g].count, expected[g].count);
        for (size_t i = 0; i < expected[g].count; i++) {
            ck_assert_uint_eq(b->order[b->groups[g].first + i], expected[g].events[i]);
            ck_assert_uint_eq(b->events[expected[g].events[i]].group, g);
        }
    }
}
END_TEST

/* Records that are no usage events belong to no family, and their ids say nothing. */
START_TEST(only_parsed_events_are_grouped) {
    size_t first = put("e1", 1, 1, 1), ignored = put("e1", 1, 1, 1), rejected = put("e1", 1, 1, 1);
    b->events[first].parsed = b->events[ignored].parsed = false;
    b->events[first].outcome = OUTCOME_REJECTED;
    b->events[ignored].outcome = OUTCOME_IGNORED;
    size_t last = put("e1", 1, 1, 1);
    batch_prepare(b);
    ck_assert_uint_eq(b->group_count, 1);
    ck_assert_uint_eq(b->groups[0].count, 2);
    ck_assert(batch_event_live(&b->events[rejected]) && b->events[rejected].has_twin);
    ck_assert_uint_eq(b->events[last].twin_of, rejected);
}
END_TEST

START_TEST(an_empty_batch) {
    batch_prepare(b);
    ck_assert_uint_eq(b->group_count, 0);
    batch_judge_twins(b);
}
END_TEST

/* Random batches: every parsed event in exactly one run, runs distinct, sorted and in delivery order. */
START_TEST(groups_hold_every_event_once) {
    uint64_t seed = testing_seed(), state = seed;
    for (int round = 0; round < 200; round++) {
        size_t n = (size_t)testing_between(&state, 0, 60), seen = 0;
        tear_down();
        set_up();
        for (size_t i = 0; i < n; i++) {
            char id[16];
            snprintf(id, sizeof id, "e%d", (int)testing_between(&state, 0, 30));
            put_month(id, testing_between(&state, 1, 5), (int32_t)testing_between(&state, 202609, 202611));
            b->events[i].parsed = testing_between(&state, 0, 5) != 0;
        }
        batch_prepare(b);
        for (size_t g = 0; g < b->group_count; g++) {
            const struct family_group *now = &b->groups[g], *before = g ? now - 1 : NULL;
            testing_require(now->first == seen && now->count > 0, "seed %llu", (unsigned long long)seed);
            testing_require(!before || before->family_id < now->family_id ||
                                (before->family_id == now->family_id && before->month < now->month),
                            "seed %llu", (unsigned long long)seed);
            for (size_t i = 0; i < now->count; i++) {
                size_t at = b->order[now->first + i];
                testing_require(b->events[at].parsed && b->events[at].usage.family_id == now->family_id &&
                                    b->events[at].usage.month == now->month &&
                                    (!i || b->order[now->first + i - 1] < at),
                                "seed %llu", (unsigned long long)seed);
            }
            seen += now->count;
        }
        for (size_t i = 0; i < n; i++) {
            size_t first = EVENT_NO_TWIN;
            for (size_t k = 0; k < i && first == EVENT_NO_TWIN && b->events[i].parsed; k++) {
                if (b->events[k].parsed && strcmp(b->events[k].usage.id, b->events[i].usage.id) == 0)
                    first = k;
            }
            seen -= b->events[i].parsed;
            testing_require(b->events[i].twin_of == first, "seed %llu", (unsigned long long)seed);
            testing_require(first == EVENT_NO_TWIN || b->events[first].has_twin, "seed %llu",
                            (unsigned long long)seed);
        }
        testing_require(seen == 0, "seed %llu", (unsigned long long)seed);
    }
}
END_TEST

/* ---- repeated ids ---- */

START_TEST(twins_are_judged_by_the_first) {
    put("e1", 1, 1, 1);
    put("e1", 1, 1, 1);
    put("e1", 2, 1, 1);
    put("e1", 1, 2, 1);
    put("e1", 1, 1, 2);
    put("E1", 2, 1, 1); /* byte by byte: another id */
    batch_prepare(b);
    expect_fates("LooooL");
    batch_judge_twins(b);
    expect_fates("LdcccL");
    batch_judge_twins(b);
    expect_fates("LdcccL");
}
END_TEST

START_TEST(an_unknown_first_is_rejected) {
    size_t first = put("e1", 1, 1, 1), second = put("e1", 2, 1, 1), third = put("e1", 2, 1, 1);
    put("e1", 1, 1, 1);
    batch_prepare(b);
    b->events[first].decided = true;
    batch_reject(b, first, REJECT_UNKNOWN_FAMILY, "payload.familyId: no %s family %d", "such", 7);
    expect_fates("rLoo");
    ck_assert(!b->events[first].decided);
    ck_assert_str_eq(b->events[first].why.message, "payload.familyId: no such family 7");
    ck_assert(group_of(second)->dirty && !group_of(second)->left_trace);
    ck_assert(group_of(first)->dirty && group_of(first)->left_trace); /* Redis had counted it */
    ck_assert_uint_eq(b->events[third].twin_of, second);
    batch_judge_twins(b);
    expect_fates("rLdc");
    /* and so may the next be */
    group_of(first)->dirty = group_of(second)->dirty = false;
    batch_reject(b, second, REJECT_NOT_A_MEMBER, "no member");
    expect_fates("rrLc"); /* as it was judged before */
    batch_judge_twins(b);
    expect_fates("rrLc");
    batch_reject(b, third, REJECT_NOT_A_MEMBER, "no member");
    expect_fates("rrrL");
    ck_assert(group_of(first)->dirty);
    batch_reject(b, 3, REJECT_NOT_A_MEMBER, "no member");
    expect_fates("rrrr");
}
END_TEST

/* What Redis has counted and won't be settled makes its family be warmed anew; a cached result had counted
 * before. */
START_TEST(ended_decisions_leave_a_trace) {
    size_t counted = put("e1", 1, 1, 1), cached = put("e2", 2, 1, 1), undecided = put("e3", 3, 1, 1);
    batch_prepare(b);
    b->events[counted].decided = b->events[cached].decided = true;
    b->events[cached].decision.duplicate = true;
    batch_judge_known(b, counted, 1, 1, 1);
    batch_judge_known(b, cached, 2, 1, 1);
    batch_judge_known(b, undecided, 3, 1, 1);
    expect_fates("ddd");
    ck_assert(group_of(counted)->dirty && group_of(counted)->left_trace);
    ck_assert(!group_of(cached)->dirty && !group_of(undecided)->dirty);
    ck_assert(!b->events[counted].decided && !b->events[cached].decided);
}
END_TEST

/* Twins judged already are judged again once another stands in the first one's place. */
START_TEST(a_first_rejected_after_its_twins_were_judged) {
    put("e1", 1, 1, 1);
    put("e1", 1, 1, 1);
    put("e1", 2, 2, 2);
    put("e1", 2, 2, 2);
    batch_prepare(b);
    batch_judge_twins(b);
    expect_fates("Ldcc");
    batch_reject(b, 0, REJECT_SETTLEMENT_REJECTED, "refused");
    ck_assert_int_eq(fate(1), 'L');
    batch_judge_twins(b);
    expect_fates("rLcc");
    batch_reject(b, 1, REJECT_SETTLEMENT_REJECTED, "refused");
    ck_assert_int_eq(fate(2), 'L');
    batch_judge_twins(b);
    expect_fates("rrLd");
}
END_TEST

/* An acknowledged rejection stands: it's neither promoted nor judged again. */
START_TEST(acknowledged_rejections_stand) {
    put("e1", 1, 1, 1);
    put("e1", 2, 2, 2);
    put("e1", 2, 2, 2);
    put("e1", 1, 1, 1);
    batch_prepare(b);
    batch_judge_twins(b);
    expect_fates("Lccd");
    b->events[1].dlt_acked = true;
    batch_reject(b, 0, REJECT_EVENT_TOO_OLD, "closed");
    expect_fates("rcLd");
    batch_judge_twins(b);
    expect_fates("rcLc");
    b->events[3].dlt_acked = true;
    batch_reject(b, 2, REJECT_EVENT_TOO_OLD, "closed");
    expect_fates("rcrc");
    batch_judge_twins(b);
    expect_fates("rcrc");
}
END_TEST

/* A conflict that isn't acknowledged yet is judged anew, and may turn out to be none. */
START_TEST(conflicts_in_hand_are_judged_anew) {
    put("e1", 1, 1, 1);
    put("e1", 2, 2, 2);
    put("e1", 1, 1, 1);
    batch_prepare(b);
    batch_judge_twins(b);
    expect_fates("Lcd");
    batch_judge_known(b, 0, 2, 2, 2);
    batch_judge_twins(b);
    expect_fates("cdc");
}
END_TEST

/* ---- ids known to MySQL ---- */

START_TEST(known_ids) {
    static const struct {
        int64_t family, customer, bytes;
        const char *fates;
    } rows[] = {{1, 1, 1, "ddcc"}, {1, 1, 2, "cccd"}, {2, 1, 1, "ccdc"}, {9, 9, 9, "cccc"}};
    for (size_t i = 0; i < TESTING_LENGTH(rows); i++) {
        tear_down();
        set_up();
        put("e1", 1, 1, 1);
        put("e1", 1, 1, 1);
        put("e1", 2, 1, 1);
        put("e1", 1, 1, 2);
        batch_prepare(b);
        b->events[0].decided = true;
        batch_judge_known(b, 0, rows[i].family, rows[i].customer, rows[i].bytes);
        ck_assert(!b->events[0].decided);
        ck_assert_msg(fate(1) == 'o' && fate(2) == 'o', "a known id promotes nobody");
        batch_judge_twins(b);
        expect_fates(rows[i].fates);
    }
}
END_TEST

/* All of: whose figures the row has, whether the first is rejected instead, what its twins are like. */
START_TEST(every_combination_of_two) {
    enum { KNOWN_SAME, KNOWN_OTHER, REJECTED, CONFLICTING, LEFT_ALONE, FIRSTS };
    for (int first = 0; first < FIRSTS; first++) {
        for (int same = 0; same < 2; same++) {
            for (int acked = 0; acked < 2; acked++) {
                static const char *const expected[FIRSTS][2] = {/* the twin differs, the twin is the same */
                                                                {"dc", "dd"},
                                                                {"cd", "cc"},
                                                                {"rL", "rL"},
                                                                {"cd", "cc"},
                                                                {"Lc", "Ld"}};
                char wanted[3];
                tear_down();
                set_up();
                put("e1", 1, 1, 1);
                put("e1", 1, 1, same ? 1 : 2);
                batch_prepare(b);
                if (acked) { /* judged and acknowledged by an earlier attempt */
                    batch_judge_twins(b);
                    b->events[1].dlt_acked = b->events[1].outcome == OUTCOME_REJECTED;
                }
                if (first == KNOWN_SAME)
                    batch_judge_known(b, 0, 1, 1, 1);
                else if (first == KNOWN_OTHER || first == CONFLICTING)
                    batch_judge_known(b, 0, 1, 1, 2);
                else if (first == REJECTED)
                    batch_reject(b, 0, REJECT_POLICY_UNREADABLE, "unreadable");
                batch_judge_twins(b);
                strcpy(wanted, expected[first][same]);
                if (acked && !same)
                    wanted[1] = 'c';
                expect_fates(wanted);
            }
        }
    }
}
END_TEST

START_TEST(messages_are_cut) {
    char text[2 * EVENT_MESSAGE_MAX];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    put("e1", 1, 1, 1);
    batch_prepare(b);
    batch_reject(b, 0, REJECT_SETTLEMENT_REJECTED, "%s", text);
    ck_assert_uint_eq(strlen(b->events[0].why.message), EVENT_MESSAGE_MAX - 1);
}
END_TEST

/* ---- offsets ---- */

START_TEST(spans_of_partitions) {
    struct part *p = assignment->parts;
    p[0].position = 10;
    p[2].position = 5;
    batches_put(b, &p[0]);
    batches_put(b, &p[2]);
    batches_put(b, &p[0]);
    batch_advance(b, &p[0], 20); /* a gap at the end */
    batch_advance(b, &p[1], 3);  /* nothing but a gap */
    ck_assert_uint_eq(b->span_count, 3);
    ck_assert(b->spans[0].part == &p[0] && b->spans[0].from == 10 && b->spans[0].next == 20);
    ck_assert(b->spans[1].part == &p[2] && b->spans[1].from == 5 && b->spans[1].next == 6);
    ck_assert(b->spans[2].part == &p[1] && b->spans[2].from == 0 && b->spans[2].next == 3);
    ck_assert_int_eq(p[0].position, 20);
    batches_put(b, &p[0]);
    ck_assert_int_eq(b->events[b->count - 1].offset, 20);
    ck_assert_int_eq(b->spans[0].next, 21);
}
END_TEST

/* Offsets from where the ledger stands: each counted once, what holds no record as a gap. */
START_TEST(counts_at_first_passage) {
    static const struct {
        int64_t next_offset, settled, duplicate, ignored, rejected, blocked, gap;
    } cases[] = {
        {0, 1, 1, 1, 1, 1, 15}, /* operator skipped 0 … 9 */
        {10, 1, 1, 1, 1, 1, 5}, /* as usual */
        {11, 0, 1, 1, 1, 1, 5}, /* one was counted before */
        {14, 0, 0, 0, 0, 1, 5}, {15, 0, 0, 0, 0, 0, 5}, {17, 0, 0, 0, 0, 0, 3},
        {20, 0, 0, 0, 0, 0, 0}, {99, 0, 0, 0, 0, 0, 0},
    };
    struct part *p = &assignment->parts[0];
    p->position = 10;
    batches_put(b, p)->decision.allowed = true;
    batches_put(b, p)->outcome = OUTCOME_DUPLICATE;
    batches_put(b, p)->outcome = OUTCOME_IGNORED;
    batches_put(b, p)->outcome = OUTCOME_REJECTED;
    batches_put(b, p)->decision.allowed = false;
    batches_put(b, &assignment->parts[1]); /* another partition's records don't count */
    batch_advance(b, p, 20);
    for (size_t i = 0; i < TESTING_LENGTH(cases); i++) {
        p->next_offset = cases[i].next_offset;
        struct ledger_counts c = ledger_count(b, &b->spans[0]);
        ck_assert_msg(c.settled == cases[i].settled && c.duplicate == cases[i].duplicate &&
                          c.ignored == cases[i].ignored && c.rejected == cases[i].rejected &&
                          c.blocked == cases[i].blocked && c.gap == cases[i].gap,
                      "case %zu: %d %d %d %d %d %d", i, (int)c.settled, (int)c.duplicate, (int)c.ignored,
                      (int)c.rejected, (int)c.blocked, (int)c.gap);
    }
}
END_TEST

START_TEST(committed_batches_move_the_ledger) {
    struct part *p = &assignment->parts[0], *q = &assignment->parts[1];
    p->next_offset = 1;
    q->next_offset = 100;
    batches_put(b, p);
    batches_put(b, p);
    batches_put(b, q);
    ledger_committed(b);
    ck_assert(p->batch_no == 1 && p->next_offset == 2);
    ck_assert_msg(q->batch_no == 1 && q->next_offset == 100, "next_offset fell in a replay");
    ck_assert_int_eq(assignment->parts[2].batch_no, 0);
}
END_TEST

START_TEST(assignments_live_as_long_as_their_batches) {
    struct assignment *a = batches_assignment(1, 2);
    struct batch *other = batch_new(a);
    ck_assert(assignment_part(a, 1) == &a->parts[1]);
    ck_assert_ptr_null(assignment_part(a, 2));
    assignment_unref(a);
    ck_assert_int_eq(other->assignment->owner, 1); /* a sanitizer sees it if this is gone */
    batch_free(other);
    batch_free(NULL);
    assignment_unref(NULL);
}
END_TEST

/* ---- used again ---- */

START_TEST(used_again_it_is_as_new) {
    struct batch_pool pool = {0};
    struct part *p = &assignment->parts[0];
    const struct batch *first = NULL;
    for (int round = 0; round < 5; round++) {
        struct batch *again = batch_take(&pool, assignment);
        ck_assert(!first || again == first);
        first = again;
        ck_assert(again->count == 0 && again->span_count == 0 && again->group_count == 0 &&
                  again->bytes == 0);
        ck_assert(again->assignment == assignment);
        for (int i = 0; i < 100 >> round; i++) {
            char id[16];
            snprintf(id, sizeof id, "e%d", i / 2); /* each twice */
            batches_put_usage(again, p, batches_event(id, i % 7 + 1, 1, 1));
        }
        batch_prepare(again);
        batch_reject(again, 0, REJECT_UNKNOWN_FAMILY, "round %d", round);
        ck_assert(!again->events[0].has_twin && again->events[1].twin_of == EVENT_NO_TWIN);
        ck_assert_uint_eq(again->events[again->count - 1].twin_of,
                          again->count % 2 ? EVENT_NO_TWIN : again->count - 2);
        batch_free(again);
    }
    batch_pool_free(&pool);
    batch_pool_free(&pool);
}
END_TEST

START_TEST(a_pool_keeps_a_few) {
    struct batch_pool pool = {0};
    struct batch *taken[10];
    for (size_t i = 0; i < TESTING_LENGTH(taken); i++)
        taken[i] = batch_take(&pool, assignment);
    for (size_t i = 0; i < TESTING_LENGTH(taken); i++)
        batch_free(taken[i]);
    ck_assert_uint_eq(pool.count, TESTING_LENGTH(pool.idle));
    ck_assert_msg(atomic_load(&assignment->refs) == 2, "idle batches hold the assignment");
    batch_pool_free(&pool);
}
END_TEST

START_TEST(a_moved_event_has_its_texts_with_it) {
    struct batch *one = batch_new(assignment);
    put("e1", 1, 1, 1);
    b->events[0].usage.id = arena_text(&b->memory.texts, "e1", 2);
    b->events[0].usage.app = arena_text(&b->memory.texts, "app", 3);
    batch_prepare(b);
    batch_reject(b, 0, REJECT_UNKNOWN_FAMILY, "why");
    batch_move(one, &b->events[0]);
    batch_free(b);
    b = batch_new(assignment);
    ck_assert_str_eq(one->events[0].usage.id, "e1");
    ck_assert_str_eq(one->events[0].usage.app, "app");
    ck_assert_str_eq(one->events[0].why.message, "why");
    batch_free(one);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("batch");
    TCase *tc = tcase_create("batch");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, equal_hashes_make_no_twins);
    tcase_add_test(tc, used_again_it_is_as_new);
    tcase_add_test(tc, a_pool_keeps_a_few);
    tcase_add_test(tc, a_moved_event_has_its_texts_with_it);
    tcase_add_test(tc, groups_by_family_and_month);
    tcase_add_test(tc, only_parsed_events_are_grouped);
    tcase_add_test(tc, an_empty_batch);
    tcase_add_test(tc, groups_hold_every_event_once);
    tcase_add_test(tc, twins_are_judged_by_the_first);
    tcase_add_test(tc, an_unknown_first_is_rejected);
    tcase_add_test(tc, a_first_rejected_after_its_twins_were_judged);
    tcase_add_test(tc, acknowledged_rejections_stand);
    tcase_add_test(tc, conflicts_in_hand_are_judged_anew);
    tcase_add_test(tc, known_ids);
    tcase_add_test(tc, every_combination_of_two);
    tcase_add_test(tc, messages_are_cut);
    tcase_add_test(tc, spans_of_partitions);
    tcase_add_test(tc, ended_decisions_leave_a_trace);
    tcase_add_test(tc, counts_at_first_passage);
    tcase_add_test(tc, committed_batches_move_the_ledger);
    tcase_add_test(tc, assignments_live_as_long_as_their_batches);
    suite_add_tcase(s, tc);
    return s;
}

int main(void) {
    return testing_run(suite());
}
