/* SPDX-License-Identifier: MIT */
/* Redis' entries against MySQL's figures, fresh ones, not the snapshot's.
 *
 * Decisions run ahead: an entry may differ because some of its family's events are decided and not settled.
 * So what differs is written down with the figures of both sides; then everything is waited for that lay on
 * the topic by then; then it's looked at again. Whatever was in flight at the first look has changed MySQL's
 * figures by now, or Redis'. An entry whose figures are all the same as then, and still differ, differs for
 * no event's sake: it drifted. One that moved is given another round, and after the last it's left open.
 *
 * An entry that the script wouldn't use (not whole, too old, of other thresholds) promises nothing. Neither
 * does one of a total that others have changed since: what it lacks is the next warming. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit_internal.h"
#include "clock.h"
#include "decide.h"
#include "keys.h"
#include "redis.h"

#define ENTRIES_A_READ 200
#define ROUNDS 3
#define ROUND_WAIT_MS 3000
/* Of entries that differ so many are looked at again; more of them are no few drifted ones. */
#define CANDIDATES_MAX 100000

enum verdict { COLD, OTHER_TOTAL, AGREES, DIFFERS };

/* A member as MySQL knows them, and what Redis says. */
struct figure {
    int64_t customer, used;
    int64_t cached;
    bool is_member, has_cached;
};

/* A family's month. */
struct entry {
    int64_t family;
    int32_t month;
    int64_t total, used;
    size_t first, count; /* members, a run of figures */
    bool usable;         /* as far as info goes */
    int64_t cached_total, remaining;
    bool has_remaining;
    uint64_t digest; /* of both sides' figures, at the last look */
    enum verdict verdict;
    char what[160]; /* in which figure they differ */
};

struct look {
    struct audit *a;
    struct db *db;
    struct redis *redis;
    struct redis_command command;
    struct buf thresholds;
    struct entry *entries;
    size_t count, capacity;
    struct figure *figures;
    size_t figure_count, figure_capacity;
    /* of the replies being read */
    size_t at_entry, at_reply, sent_entries;
};

/* ---- MySQL's side ---- */

static void add_entry(struct look *l, const struct entry *e) {
    if (l->count == l->capacity) {
        l->capacity = l->capacity ? l->capacity * 2 : ENTRIES_A_READ;
        l->entries = mem_realloc(l->entries, l->capacity * sizeof *l->entries);
    }
    l->entries[l->count++] = *e;
}

static void add_figure(struct look *l, int64_t customer, int64_t used) {
    if (l->figure_count == l->figure_capacity) {
        l->figure_capacity = l->figure_capacity ? l->figure_capacity * 2 : ENTRIES_A_READ;
        l->figures = mem_realloc(l->figures, l->figure_capacity * sizeof *l->figures);
    }
    l->figures[l->figure_count++] = (struct figure){.customer = customer, .used = used};
}

/* One question, so one view of the figures: quotas by `where`, each with its members. */
static bool read_figures(struct look *l, const char *where, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_printf(
        &sql,
        "SELECT q.family_id, q.quota_month, q.total_quota_bytes, q.used_bytes, m.customer_id, "
        "c.monthly_used_bytes FROM (SELECT family_id, quota_month, total_quota_bytes, used_bytes FROM "
        "family_quota WHERE %s) q LEFT JOIN family_member m ON m.family_id = q.family_id LEFT JOIN "
        "customer_quota c ON c.family_id = m.family_id AND c.customer_id = m.customer_id AND c.quota_month = "
        "q.quota_month ORDER BY q.family_id, q.quota_month, m.customer_id",
        where);
    l->count = l->figure_count = 0;
    bool ok = db_ensure(l->db, err) && db_query(l->db, &sql, &rows, err);
    buf_free(&sql);
    while (ok && db_next(&rows)) {
        struct entry e = {.family = db_i64(&rows, 0, 0), .month = period_date_month(rows.row[1])};
        const struct entry *last = l->count ? &l->entries[l->count - 1] : NULL;
        if (!last || last->family != e.family || last->month != e.month) {
            e.total = db_i64(&rows, 2, 0);
            e.used = db_i64(&rows, 3, 0);
            e.first = l->figure_count;
            add_entry(l, &e);
        }
        if (!rows.row[4])
            continue;
        add_figure(l, db_i64(&rows, 4, 0), db_i64(&rows, 5, 0));
        l->entries[l->count - 1].count++;
    }
    if (ok)
        db_rows_free(&rows);
    return ok;
}

/* ---- Redis' side ---- */

/* Three kinds of replies an entry: info; remaining with the members' figures; whether each is a member. */
static bool number_of(const char *text, int64_t *out) {
    char *end;
    if (!text || !*text)
        return false;
    *out = strtoll(text, &end, 10);
    return *end == '\0';
}

static void take_info(struct look *l, struct entry *e, const struct redis_reply_view *v) {
    int64_t warmed;
    e->usable = v->kind == REDIS_LIST && v->count == 4 && v->items[0] && number_of(v->items[1], &warmed) &&
                warmed >= (int64_t)time(NULL) - l->a->cfg->cache_max_age_seconds &&
                number_of(v->items[2], &e->cached_total) && v->items[3] &&
                strcmp(v->items[3], buf_cstr(&l->thresholds)) == 0;
}

static void take_amounts(struct look *l, struct entry *e, const struct redis_reply_view *v) {
    if (v->kind != REDIS_LIST || v->count != e->count + 1)
        return;
    e->has_remaining = number_of(v->items[0], &e->remaining);
    for (size_t i = 0; i < e->count; i++) {
        struct figure *f = &l->figures[e->first + i];
        f->has_cached = number_of(v->items[i + 1], &f->cached);
    }
}

static void take_reply(void *ctx, size_t i, const struct redis_reply_view *v) {
    struct look *l = ctx;
    struct entry *e = &l->entries[l->at_entry];
    (void)i;
    if (l->at_reply == 0)
        take_info(l, e, v);
    else if (l->at_reply == 1)
        take_amounts(l, e, v);
    else
        l->figures[e->first + l->at_reply - 2].is_member = v->kind == REDIS_NUMBER && v->number == 1;
    if (++l->at_reply == e->count + 2) {
        l->at_entry++;
        l->at_reply = 0;
    }
}

static void ask_entry(struct look *l, const struct entry *e) {
    struct redis_command *c = &l->command;
    redis_command_reset(c);
    buf_str(redis_command_arg(c), "HMGET");
    key_info(redis_command_arg(c), e->family, e->month);
    buf_str(redis_command_arg(c), "gen");
    buf_str(redis_command_arg(c), "warmed");
    buf_str(redis_command_arg(c), "totalQuota");
    buf_str(redis_command_arg(c), "thresholds");
    redis_append(l->redis, c);
    redis_command_reset(c);
    buf_str(redis_command_arg(c), "MGET");
    key_remaining(redis_command_arg(c), e->family, e->month);
    for (size_t i = 0; i < e->count; i++)
        key_usage(redis_command_arg(c), e->family, l->figures[e->first + i].customer, e->month);
    redis_append(l->redis, c);
    for (size_t i = 0; i < e->count; i++) {
        redis_command_reset(c);
        buf_str(redis_command_arg(c), "SISMEMBER");
        key_members(redis_command_arg(c), e->family);
        buf_i64(redis_command_arg(c), l->figures[e->first + i].customer);
        redis_append(l->redis, c);
    }
}

static bool read_redis(struct look *l, struct error *err) {
    l->at_entry = l->at_reply = 0;
    if (!redis_ensure(l->redis, err))
        return false;
    for (size_t i = 0; i < l->count; i++) {
        ask_entry(l, &l->entries[i]);
        bool full = redis_pending_commands(l->redis) >= REDIS_PIPELINE_COMMANDS ||
                    redis_pending_bytes(l->redis) >= REDIS_PIPELINE_BYTES;
        if ((full || i + 1 == l->count) && !redis_collect(l->redis, take_reply, l, err))
            return false;
    }
    return true;
}

/* ---- one against the other ---- */

static void differs(struct entry *e, const char *figure, int64_t cached, int64_t mysql) {
    if (e->verdict != DIFFERS)
        snprintf(e->what, sizeof e->what, "%s is %" PRId64 ", by MySQL %" PRId64, figure, cached, mysql);
    e->verdict = DIFFERS;
}

static void compare(struct look *l, struct entry *e) {
    struct buf all = {0};
    char name[64];
    e->verdict = AGREES;
    if (!e->usable || !e->has_remaining) {
        e->verdict = COLD;
        return;
    }
    if (e->cached_total != e->total) {
        e->verdict = OTHER_TOTAL;
        return;
    }
    if (e->remaining != e->total - e->used)
        differs(e, "remaining", e->remaining, e->total - e->used);
    buf_printf(&all, "%" PRId64 " %" PRId64 " %" PRId64, e->total, e->used, e->remaining);
    for (size_t i = 0; i < e->count; i++) {
        const struct figure *f = &l->figures[e->first + i];
        if (!f->is_member || !f->has_cached) /* the script would have it warmed */
            continue;
        snprintf(name, sizeof name, "usage:monthly of customer %" PRId64, f->customer);
        if (f->cached != f->used)
            differs(e, name, f->cached, f->used);
        buf_printf(&all, " %" PRId64 " %" PRId64 " %" PRId64, f->customer, f->used, f->cached);
    }
    e->digest = audit_digest(all.data, all.len);
    buf_free(&all);
}

/* What MySQL and Redis say of the entries that `where` selects. */
static bool look_at(struct look *l, const char *where, struct error *err) {
    if (!read_figures(l, where, err) || !read_redis(l, &l->a->r->redis))
        return false;
    for (size_t i = 0; i < l->count; i++)
        compare(l, &l->entries[i]);
    return true;
}

/* ---- all entries, and those that differ once more ---- */

struct candidates {
    struct entry *items; /* without members; owned */
    size_t count, capacity;
    int64_t beyond; /* there was no room for these */
};

static void add_candidate(struct candidates *c, const struct entry *e) {
    if (c->count == CANDIDATES_MAX) {
        c->beyond++;
        return;
    }
    if (c->count == c->capacity) {
        c->capacity = c->capacity ? c->capacity * 2 : 64;
        c->items = mem_realloc(c->items, c->capacity * sizeof *c->items);
    }
    c->items[c->count++] = *e;
}

static void count_verdict(struct look *l, const struct entry *e, int64_t *cold, int64_t *other_total) {
    *cold += e->verdict == COLD;
    *other_total += e->verdict == OTHER_TOTAL;
    l->a->r->findings[AUDIT_CACHE].looked += e->verdict == AGREES;
}

static bool first_look(struct look *l, struct candidates *c, struct error *err) {
    int64_t family = -1, cold = 0, other_total = 0;
    char date[PERIOD_DATE_SIZE] = "1970-01-01";
    struct buf where = {0};
    bool ok = true;
    do {
        buf_reset(&where);
        buf_printf(&where,
                   "quota_month >= '%s' AND family_id >= %lld AND (family_id > %lld OR quota_month > '%s')",
                   l->a->floor, (long long)family, (long long)family, date);
        audit_where(l->a, &where, -1, INT64_MAX);
        buf_printf(&where, " ORDER BY family_id, quota_month LIMIT %d", ENTRIES_A_READ);
        ok = look_at(l, buf_cstr(&where), err);
        for (size_t i = 0; ok && i < l->count; i++) {
            count_verdict(l, &l->entries[i], &cold, &other_total);
            if (l->entries[i].verdict == DIFFERS)
                add_candidate(c, &l->entries[i]);
        }
        if (ok && l->count) {
            family = l->entries[l->count - 1].family;
            period_month_date(l->entries[l->count - 1].month, date);
        }
    } while (ok && l->count == ENTRIES_A_READ);
    buf_free(&where);
    struct audit_finding *f = &l->a->r->findings[AUDIT_CACHE];
    snprintf(f->detail, sizeof f->detail, "%lld not warm, %lld of another total, not yet warmed anew",
             (long long)cold, (long long)other_total);
    return ok;
}

static void candidates_where(const struct candidates *c, size_t from, size_t n, struct buf *where) {
    char date[PERIOD_DATE_SIZE];
    buf_reset(where);
    buf_str(where, "(family_id, quota_month) IN (");
    for (size_t i = 0; i < n; i++) {
        period_month_date(c->items[from + i].month, date);
        buf_printf(where, "%s(%lld,'%s')", i ? "," : "", (long long)c->items[from + i].family, date);
    }
    buf_char(where, ')');
}

static const struct entry *find_entry(const struct look *l, const struct entry *e) {
    for (size_t i = 0; i < l->count; i++) {
        if (l->entries[i].family == e->family && l->entries[i].month == e->month)
            return &l->entries[i];
    }
    return NULL;
}

/* Looks at them again; what agrees by now is dropped. `same`: how many still differ by the very same figures.
 */
static bool look_again(struct look *l, struct candidates *c, struct error *err) {
    struct buf where = {0};
    size_t kept = 0, n;
    bool ok = true;
    for (size_t from = 0; ok && from < c->count; from += n) {
        n = c->count - from < ENTRIES_A_READ ? c->count - from : ENTRIES_A_READ;
        candidates_where(c, from, n, &where);
        ok = look_at(l, buf_cstr(&where), err);
        for (size_t i = 0; ok && i < n; i++) {
            const struct entry *now = find_entry(l, &c->items[from + i]);
            if (!now || now->verdict != DIFFERS) {
                l->a->r->findings[AUDIT_CACHE].looked += now && now->verdict == AGREES;
                continue;
            }
            struct entry e = *now;
            e.usable = now->digest == c->items[from + i].digest; /* from here on: unmoved */
            c->items[kept++] = e;
        }
    }
    buf_free(&where);
    if (ok)
        c->count = kept;
    return ok;
}

static void drop_entry(struct look *l, const struct entry *e, struct error *err) {
    redis_command_reset(&l->command);
    buf_str(redis_command_arg(&l->command), "DEL");
    key_info(redis_command_arg(&l->command), e->family, e->month);
    redis_append(l->redis, &l->command);
    if (redis_collect(l->redis, NULL, NULL, err))
        l->a->r->dropped++;
}

static void take_drifted(struct look *l, const struct entry *e) {
    struct audit_report *r = l->a->r;
    r->findings[AUDIT_CACHE].looked++;
    audit_break(r, AUDIT_CACHE, "family %" PRId64 ", %d: %s", e->family, e->month, e->what);
    if (l->a->options.fix_cache && r->redis.area == ERROR_NONE)
        drop_entry(l, e, &r->redis);
}

/* Takes those out that haven't moved since everything in flight was settled. */
static void take_unmoved(struct look *l, struct candidates *c) {
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (c->items[i].usable)
            take_drifted(l, &c->items[i]);
        else
            c->items[kept++] = c->items[i];
    }
    c->count = kept;
}

static bool confirm(struct look *l, struct candidates *c, struct error *err) {
    char why[320] = "their figures kept moving";
    bool settled = true;
    /* the first look at all of them came too early to be the one that is compared with */
    bool ok = c->count == 0 || look_again(l, c, err);
    for (int round = 0; ok && c->count && settled && round < ROUNDS; round++) {
        settled = audit_kafka_settled(l->a, l->db, ROUND_WAIT_MS, why, sizeof why);
        ok = look_again(l, c, err);
        if (ok && settled)
            take_unmoved(l, c);
    }
    if (ok && c->count)
        audit_leave_open(l->a->r, AUDIT_CACHE, (int64_t)c->count, "%s", why);
    for (size_t i = 0; ok && i < c->count; i++)
        audit_name_open(l->a->r, AUDIT_CACHE, "family %" PRId64 ", %d: %s", c->items[i].family,
                        c->items[i].month, c->items[i].what);
    if (ok && c->beyond)
        audit_leave_open(l->a->r, AUDIT_CACHE, c->beyond, "too many differ to look at each again");
    return ok;
}

bool audit_redis(struct audit *a, struct error *err) {
    struct look l = {.a = a};
    struct candidates c = {0};
    l.db = db_new(&a->patient, DB_READ_COMMITTED);
    l.redis = redis_new(a->cfg);
    decide_thresholds_text(&l.thresholds, a->cfg);
    bool ok = first_look(&l, &c, err) && confirm(&l, &c, err);
    if (!ok && a->r->redis.area != ERROR_NONE && err->area == ERROR_NONE) {
        audit_leave_open(a->r, AUDIT_CACHE, 1, "%s", a->r->redis.text);
        ok = true;
    }
    free(c.items);
    free(l.entries);
    free(l.figures);
    buf_free(&l.thresholds);
    redis_command_free(&l.command);
    redis_free(l.redis);
    db_free(l.db);
    return ok;
}
