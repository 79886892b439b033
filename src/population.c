/* SPDX-License-Identifier: MIT */
#include "population.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "period.h"

#define MB INT64_C(1000000)
#define GB (INT64_C(1000) * MB)

/* Families in one transaction: some 20,000 rows, and statements far below max_allowed_packet. */
#define SEED_FAMILIES 2000

/* By this a family is known to be simulated. */
#define NAME_SUFFIX " family (simulated)"

/* What each family's sequence is for; they must not run in step. */
enum lane { LANE_SIZE = 1, LANE_PLAN, LANE_RULES };

/* ---- numbers ---- */

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t dice_roll(struct dice *d) {
    d->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(d->state);
}

struct dice dice_new(uint64_t seed, uint64_t number) {
    struct dice d = {.state = mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^
                              mix(number * UINT64_C(0xd1342543de82ef95) + 1)};
    return d;
}

uint64_t dice_below(struct dice *d, uint64_t n) {
    return (uint64_t)(((unsigned __int128)dice_roll(d) * n) >> 64);
}

double dice_fraction(struct dice *d) {
    return (double)(dice_roll(d) >> 11) * 0x1.0p-53;
}

/* ---- people ---- */

static uint32_t family_size(uint32_t family) {
    struct dice d = dice_new(LANE_SIZE, family);
    uint64_t percent = dice_below(&d, 100);
    if (percent < 15)
        return 2;
    if (percent < 40)
        return 3;
    if (percent < 80)
        return 4;
    if (percent < 95)
        return 5;
    return 6 + (uint32_t)dice_below(&d, 5);
}

void population_init(struct population *p, uint32_t families) {
    p->families = families;
    p->first_member = mem_alloc(((size_t)families + 1) * sizeof *p->first_member);
    p->first_member[0] = 0;
    for (uint32_t i = 0; i < families; i++)
        p->first_member[i + 1] = p->first_member[i] + family_size(i);
}

void population_deinit(struct population *p) {
    free(p->first_member);
    *p = (struct population){0};
}

uint32_t population_members(const struct population *p) {
    return p->first_member[p->families];
}

int64_t population_family_id(uint32_t family) {
    return (int64_t)family + POPULATION_FIRST_FAMILY;
}

int64_t population_customer_id(uint32_t member) {
    return (int64_t)member + POPULATION_FIRST_CUSTOMER;
}

static uint32_t smaller(uint64_t a, uint64_t b) {
    return (uint32_t)(a < b ? a : b);
}

void population_draw(const struct population *p, struct dice *d, int64_t *family_id, int64_t *customer_id) {
    uint32_t family = (uint32_t)dice_below(d, p->families);
    if (dice_below(d, 9) < 2) /* with the tenth that any draw gives them: three in ten */
        family -= family % 10;
    population_draw_in(p, d, family, family_id, customer_id);
}

void population_draw_in(const struct population *p, struct dice *d, uint32_t family, int64_t *family_id,
                        int64_t *customer_id) {
    uint32_t first = p->first_member[family], size = p->first_member[family + 1] - first;
    *family_id = population_family_id(family);
    *customer_id = population_customer_id(first + smaller(dice_below(d, size), dice_below(d, size)));
}

/* ---- what they use ---- */

/* Shares in percent. Sizes lie in the range with most of them near its lower end. */
static const struct app_kind {
    const char *apps[2];
    uint64_t share;
    int64_t low, high;
} app_kinds[] = {
    {{"com.kakao.talk", "com.whatsapp"}, 30, MB / 2, 5 * MB},                     /* messages */
    {{"com.android.chrome", "com.nhn.android.search"}, 25, MB, 20 * MB},          /* the web */
    {{"com.instagram.android", "com.zhiliaoapp.musically"}, 18, 5 * MB, 80 * MB}, /* social media */
    {{"com.iloen.melon", "com.spotify.music"}, 10, 3 * MB, 15 * MB},              /* music */
    {{"com.youtube.app", "com.netflix.mediaclient"}, 12, 50 * MB, 500 * MB},      /* films */
    {{"com.supercell.clashofclans", "com.nexon.maplem"}, 5, 10 * MB, 200 * MB},   /* games */
};

static const struct app_kind *draw_kind(struct dice *d) {
    uint64_t percent = dice_below(d, 100);
    const struct app_kind *kind = app_kinds;
    while (percent >= kind->share)
        percent -= kind++->share;
    return kind;
}

struct population_use population_draw_use(struct dice *d) {
    static const char *const networks[] = {"WIFI", "WIFI", "5G", "5G", "4G"};
    const struct app_kind *kind = draw_kind(d);
    double x = dice_fraction(d);
    return (struct population_use){
        .app_id = kind->apps[dice_below(d, 2)],
        .network = networks[dice_below(d, sizeof networks / sizeof *networks)],
        .bytes = kind->low + (int64_t)(x * x * x * (double)(kind->high - kind->low)),
    };
}

/* ---- what MySQL is told about them ---- */

struct seeding {
    const struct population *population;
    struct db *db;
    char date[PERIOD_DATE_SIZE];
    struct population_seeded *done;
    struct buf family, member, quota, rule;
};

static void append_name(struct buf *sql, uint32_t family) {
    static const char *const names[] = {"Kim",  "Lee",   "Park", "Choi", "Jung", "Kang", "Cho",
                                        "Yoon", "Jang",  "Lim",  "Han",  "Oh",   "Seo",  "Shin",
                                        "Kwon", "Hwang", "Ahn",  "Song", "Jeon", "Hong"};
    buf_char(sql, '\'');
    buf_str(sql, names[family % (sizeof names / sizeof *names)]);
    buf_str(sql, NAME_SUFFIX "'");
}

/* Small plans, so that a few dozen uses a family show every kind of outcome. */
static int64_t plan_bytes(uint32_t family) {
    static const int64_t plans[] = {1 * GB, 1 * GB, 2 * GB, 2 * GB,  2 * GB,
                                    3 * GB, 3 * GB, 5 * GB, 10 * GB, 50 * GB};
    struct dice d = dice_new(LANE_PLAN, family);
    return plans[dice_below(&d, sizeof plans / sizeof *plans)];
}

/* The first of a statement brings its head along. */
static void begin_row(struct buf *sql, const char *head) {
    buf_str(sql, sql->len ? ",(" : head);
}

/* `customer` 0: for the whole family. */
static void append_rule(struct seeding *s, uint32_t family, int64_t customer, const char *type,
                        const char *rules) {
    begin_row(&s->rule,
              "INSERT INTO policy_assignment (family_id, customer_id, policy_type, rules) VALUES (");
    buf_i64(&s->rule, population_family_id(family));
    buf_char(&s->rule, ',');
    if (customer)
        buf_i64(&s->rule, customer);
    else
        buf_str(&s->rule, "NULL");
    buf_printf(&s->rule, ",'%s','%s')", type, rules);
    s->done->rules++;
}

/* Three families in ten have rules, mostly about the youngest, who comes last. */
static void append_rules(struct seeding *s, uint32_t family, int64_t youngest) {
    struct dice d = dice_new(LANE_RULES, family);
    uint64_t percent = dice_below(&d, 100);
    if (percent < 12) {
        char limit[64];
        snprintf(limit, sizeof limit, "{\"limitBytes\":%lld}",
                 (long long)((int64_t)(1 + dice_below(&d, 8)) * 50 * MB));
        append_rule(s, family, youngest, "MONTHLY_LIMIT", limit);
    }
    if (percent >= 8 && percent < 18)
        append_rule(s, family, youngest, "TIME_BLOCK", "{\"start\":\"22:00\",\"end\":\"07:00\"}");
    if (percent >= 16 && percent < 24)
        append_rule(s, family, youngest, "APP_BLOCK",
                    "{\"blockedApps\":[\"com.youtube.app\",\"com.supercell.clashofclans\"]}");
    if (percent >= 24 && percent < 27)
        append_rule(s, family, 0, "APP_BLOCK", "{\"blockedApps\":[\"com.zhiliaoapp.musically\"]}");
    if (percent >= 27 && percent < 29)
        append_rule(s, family, 0, "TIME_BLOCK", "{\"start\":\"01:00\",\"end\":\"05:00\"}");
    if (percent == 29)
        append_rule(s, family, youngest, "MANUAL_BLOCK", "{\"reason\":\"asked for by a parent\"}");
}

static void append_family(struct seeding *s, uint32_t family) {
    const uint32_t *first = s->population->first_member + family;
    int64_t id = population_family_id(family);
    begin_row(&s->family, "INSERT INTO family (family_id, name) VALUES (");
    buf_i64(&s->family, id);
    buf_char(&s->family, ',');
    append_name(&s->family, family);
    buf_char(&s->family, ')');
    for (uint32_t m = first[0]; m < first[1]; m++) {
        begin_row(&s->member, "INSERT INTO family_member (family_id, customer_id) VALUES (");
        buf_i64(&s->member, id);
        buf_char(&s->member, ',');
        buf_i64(&s->member, population_customer_id(m));
        buf_char(&s->member, ')');
    }
    begin_row(&s->quota, "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (");
    buf_i64(&s->quota, id);
    buf_printf(&s->quota, ",'%s',", s->date);
    buf_i64(&s->quota, plan_bytes(family));
    buf_char(&s->quota, ')');
    append_rules(s, family, population_customer_id(first[1] - 1));
    s->done->families++;
    s->done->members += first[1] - first[0];
}

static bool run(struct seeding *s, struct buf *sql, const char *on_duplicate, struct error *err) {
    if (!sql->len)
        return true;
    buf_str(sql, on_duplicate);
    bool ok = db_exec(s->db, sql, NULL, err);
    buf_reset(sql);
    return ok;
}

static bool forget_rules(struct seeding *s, uint32_t from, uint32_t to, struct error *err) {
    struct buf sql = {0};
    buf_printf(&sql, "DELETE FROM policy_assignment WHERE family_id BETWEEN %lld AND %lld",
               (long long)population_family_id(from), (long long)population_family_id(to - 1));
    bool ok = db_exec(s->db, &sql, NULL, err);
    buf_free(&sql);
    return ok;
}

static bool seed_some(struct seeding *s, uint32_t from, uint32_t to, struct error *err) {
    for (uint32_t i = from; i < to; i++)
        append_family(s, i);
    if (db_exec_text(s->db, "START TRANSACTION", NULL, err) && forget_rules(s, from, to, err) &&
        run(s, &s->family, " ON DUPLICATE KEY UPDATE name = VALUES(name)", err) &&
        run(s, &s->member, " ON DUPLICATE KEY UPDATE customer_id = VALUES(customer_id)", err) &&
        run(s, &s->quota, " ON DUPLICATE KEY UPDATE total_quota_bytes = VALUES(total_quota_bytes)", err) &&
        run(s, &s->rule, "", err) && db_exec_text(s->db, "COMMIT", NULL, err))
        return true;
    db_rollback(s->db);
    return false;
}

static bool nobody_elses(const struct population *p, struct db *db, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_printf(
        &sql,
        "SELECT family_id FROM family WHERE family_id BETWEEN %lld AND %lld AND name NOT LIKE '%%" NAME_SUFFIX
        "' ORDER BY family_id LIMIT 1",
        (long long)population_family_id(0), (long long)population_family_id(p->families - 1));
    bool ok = db_query(db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    int64_t family = db_next(&rows) ? db_i64(&rows, 0, 0) : 0;
    db_rows_free(&rows);
    return family == 0 || error_set(err, ERROR_MYSQL, ERROR_STOP, ERROR_NOT_DONE, 0,
                                    "family %lld is a real one; nothing was written", (long long)family);
}

bool population_seed(const struct population *p, struct db *db, int32_t month,
                     population_progress_fn *progress, void *ctx, struct population_seeded *done,
                     struct error *err) {
    struct seeding s = {.population = p, .db = db, .done = done};
    period_month_date(month, s.date);
    *done = (struct population_seeded){0};
    bool ok = db_ensure(db, err) && nobody_elses(p, db, err);
    for (uint32_t from = 0; ok && from < p->families; from += SEED_FAMILIES) {
        ok = seed_some(&s, from, smaller((uint64_t)from + SEED_FAMILIES, p->families), err);
        if (ok && progress)
            progress(done, ctx);
    }
    buf_free(&s.family);
    buf_free(&s.member);
    buf_free(&s.quota);
    buf_free(&s.rule);
    return ok;
}
