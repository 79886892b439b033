/* SPDX-License-Identifier: MIT */
#include "warm.h"

#include <stdlib.h>
#include <string.h>

#include "decide.h"
#include "draw.h"
#include "fault.h"
#include "keys.h"
#include "log.h"
#include "period.h"
#include "policy.h"

/* Families' months of one snapshot: bounds the IN lists and the time it is held. */
#define GROUPS_A_READ 300
#define DAY_S 86400

struct warmer {
    const struct config *cfg;
    struct db *db;
    struct redis *redis;
    struct redis_command command;
    struct buf thresholds;
    int64_t warmed;
};

/* Every query of a warming gives these columns, sorted by family and then by what its reader needs. */
struct row {
    int64_t family, customer; /* customer POLICY_FOR_FAMILY where NULL */
    int32_t month;
    int64_t n1, n2;
    char *text1, *text2;
};

struct table {
    struct row *rows;
    size_t count, capacity;
};

struct snapshot {
    struct table families, quotas, members, policies, usage, alerts;
};

struct warmer *warmer_new(const struct config *cfg, struct db *db, struct redis *redis) {
    struct warmer *w = mem_zero(1, sizeof *w);
    w->cfg = cfg;
    w->db = db;
    w->redis = redis;
    decide_thresholds_text(&w->thresholds, cfg);
    return w;
}

void warmer_free(struct warmer *w) {
    if (!w)
        return;
    redis_command_free(&w->command);
    buf_free(&w->thresholds);
    free(w);
}

int64_t warmer_warmed(const struct warmer *w) {
    return w->warmed;
}

static void table_free(struct table *t) {
    for (size_t i = 0; i < t->count; i++) {
        free(t->rows[i].text1);
        free(t->rows[i].text2);
    }
    free(t->rows);
    *t = (struct table){0};
}

static void snapshot_free(struct snapshot *s) {
    table_free(&s->families);
    table_free(&s->quotas);
    table_free(&s->members);
    table_free(&s->policies);
    table_free(&s->usage);
    table_free(&s->alerts);
}

static bool table_load(struct db *db, const struct buf *sql, struct table *t, struct error *err) {
    struct db_rows rows;
    if (!db_query(db, sql, &rows, err))
        return false;
    while (db_next(&rows)) {
        if (t->count == t->capacity) {
            t->capacity = t->capacity ? t->capacity * 2 : 64;
            t->rows = mem_realloc(t->rows, t->capacity * sizeof *t->rows);
        }
        t->rows[t->count++] = (struct row){
            .family = db_i64(&rows, 0, 0),
            .customer = db_i64(&rows, 1, POLICY_FOR_FAMILY),
            .month = rows.row[2] ? period_date_month(rows.row[2]) : 0,
            .n1 = db_i64(&rows, 3, 0),
            .n2 = db_i64(&rows, 4, 0),
            .text1 = rows.row[5] ? mem_strdup(rows.row[5]) : NULL,
            .text2 = rows.row[6] ? mem_strdup(rows.row[6]) : NULL,
        };
    }
    db_rows_free(&rows);
    return true;
}

/* The first row at or after (family, customer), in a table sorted by them. */
static size_t first_at(const struct table *t, int64_t family, int64_t customer) {
    size_t lo = 0, hi = t->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct row *r = &t->rows[mid];
        if (r->family < family || (r->family == family && r->customer < customer))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static size_t first_of_family(const struct table *t, int64_t family) {
    return first_at(t, family, INT64_MIN);
}

static const struct row *find_quota(const struct table *t, int64_t family, int32_t month) {
    for (size_t i = first_of_family(t, family); i < t->count && t->rows[i].family == family; i++) {
        if (t->rows[i].month == month)
            return &t->rows[i];
    }
    return NULL;
}

static bool has_family(const struct snapshot *s, int64_t family) {
    size_t i = first_of_family(&s->families, family);
    return i < s->families.count && s->families.rows[i].family == family;
}

static bool has_member(const struct snapshot *s, int64_t family, int64_t customer) {
    size_t i = first_at(&s->members, family, customer);
    return i < s->members.count && s->members.rows[i].family == family &&
           s->members.rows[i].customer == customer;
}

static void family_list(struct buf *sql, const struct batch *b, const size_t *groups, size_t n) {
    int64_t last = 0;
    buf_char(sql, '(');
    for (size_t i = 0; i < n; i++) {
        int64_t f = b->groups[groups[i]].family_id;
        if (i && f == last)
            continue;
        if (i)
            buf_char(sql, ',');
        buf_i64(sql, f);
        last = f;
    }
    buf_char(sql, ')');
}

static void month_literal(struct buf *sql, int32_t month) {
    char date[PERIOD_DATE_SIZE];
    period_month_date(month, date);
    buf_printf(sql, "'%s'", date);
}

static void family_month_list(struct buf *sql, const struct batch *b, const size_t *groups, size_t n) {
    buf_char(sql, '(');
    for (size_t i = 0; i < n; i++) {
        buf_str(sql, i ? ",(" : "(");
        buf_i64(sql, b->groups[groups[i]].family_id);
        buf_char(sql, ',');
        month_literal(sql, b->groups[groups[i]].month);
        buf_char(sql, ')');
    }
    buf_char(sql, ')');
}

static void month_list(struct buf *sql, const struct batch *b, const size_t *groups, size_t n) {
    buf_char(sql, '(');
    size_t written = 0;
    for (size_t i = 0; i < n; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = b->groups[groups[k]].month == b->groups[groups[i]].month;
        if (seen)
            continue;
        if (written++)
            buf_char(sql, ',');
        month_literal(sql, b->groups[groups[i]].month);
    }
    buf_char(sql, ')');
}

static bool load_families(struct warmer *w, const struct batch *b, const size_t *groups, size_t n,
                          struct snapshot *s, struct error *err) {
    struct buf sql = {0};
    buf_str(&sql, "SELECT family_id, NULL, NULL, NULL, NULL, name, NULL FROM family WHERE family_id IN ");
    family_list(&sql, b, groups, n);
    buf_str(&sql, " ORDER BY family_id");
    bool ok = table_load(w->db, &sql, &s->families, err);
    buf_reset(&sql);
    buf_str(
        &sql,
        "SELECT family_id, customer_id, NULL, NULL, NULL, NULL, NULL FROM family_member WHERE family_id IN ");
    family_list(&sql, b, groups, n);
    buf_str(&sql, " ORDER BY family_id, customer_id");
    ok = ok && table_load(w->db, &sql, &s->members, err);
    buf_free(&sql);
    return ok;
}

static bool load_quotas(struct warmer *w, const struct batch *b, const size_t *groups, size_t n,
                        struct snapshot *s, struct error *err) {
    struct buf sql = {0};
    buf_str(
        &sql,
        "SELECT family_id, NULL, quota_month, total_quota_bytes, used_bytes, NULL, NULL FROM family_quota "
        "WHERE (family_id, quota_month) IN ");
    family_month_list(&sql, b, groups, n);
    buf_str(&sql, " ORDER BY family_id");
    bool ok = table_load(w->db, &sql, &s->quotas, err);
    buf_free(&sql);
    return ok;
}

static bool load_rest(struct warmer *w, const struct batch *b, const size_t *groups, size_t n,
                      struct snapshot *s, struct error *err) {
    struct buf sql = {0};
    buf_str(&sql,
            "SELECT family_id, customer_id, NULL, NULL, NULL, policy_type, rules FROM policy_assignment "
            "WHERE is_active = 1 AND family_id IN ");
    family_list(&sql, b, groups, n);
    buf_str(&sql, " ORDER BY family_id, updated_at, policy_assignment_id");
    bool ok = table_load(w->db, &sql, &s->policies, err);
    buf_reset(&sql);
    buf_str(&sql, "SELECT q.family_id, q.customer_id, q.quota_month, q.monthly_used_bytes, NULL, NULL, NULL "
                  "FROM family_member m STRAIGHT_JOIN customer_quota q "
                  "ON q.family_id = m.family_id AND q.customer_id = m.customer_id AND q.quota_month IN ");
    month_list(&sql, b, groups, n);
    buf_str(&sql, " WHERE m.family_id IN ");
    family_list(&sql, b, groups, n);
    buf_str(&sql, " ORDER BY q.family_id, q.customer_id");
    ok = ok && table_load(w->db, &sql, &s->usage, err);
    buf_reset(&sql);
    buf_str(
        &sql,
        "SELECT a.family_id, a.customer_id, a.quota_month, NULL, NULL, a.alert, NULL "
        "FROM family_member m STRAIGHT_JOIN alert_state a "
        "ON a.family_id = m.family_id AND a.customer_id = m.customer_id AND a.arming = 0 AND a.quota_month IN ");
    month_list(&sql, b, groups, n);
    buf_str(&sql, " WHERE m.family_id IN ");
    family_list(&sql, b, groups, n);
    buf_str(&sql, " ORDER BY a.family_id, a.customer_id");
    ok = ok && table_load(w->db, &sql, &s->alerts, err);
    buf_free(&sql);
    return ok;
}

static bool group_has_member_event(const struct batch *b, const struct family_group *g,
                                   const struct snapshot *s) {
    for (size_t i = 0; i < g->count; i++) {
        const struct batch_event *e = &b->events[b->order[g->first + i]];
        if (batch_event_live(e) && has_member(s, g->family_id, e->usage.customer_id))
            return true;
    }
    return false;
}

/* Makes the months' rows that members' events need and nobody has, with the total of the latest earlier
 * month. */
static bool carry_over(struct warmer *w, const struct batch *b, const size_t *groups, size_t n,
                       const struct snapshot *s, bool *made, struct error *err) {
    struct buf sql = {0}, wanted = {0};
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const struct family_group *g = &b->groups[groups[i]];
        if (!has_family(s, g->family_id) || find_quota(&s->quotas, g->family_id, g->month) ||
            !group_has_member_event(b, g, s))
            continue;
        buf_str(&wanted, count++ ? " UNION ALL SELECT " : "SELECT ");
        buf_i64(&wanted, g->family_id);
        buf_str(&wanted, count == 1 ? " AS f, CAST(" : ", CAST(");
        month_literal(&wanted, g->month);
        buf_str(&wanted, count == 1 ? " AS DATE) AS m" : " AS DATE)");
    }
    bool ok = true;
    if (count) {
        buf_str(
            &sql,
            "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes, used_bytes, delta_bytes, rev) "
            "SELECT w.f, w.m, q.total_quota_bytes, 0, 0, 0 FROM (");
        buf_append(&sql, buf_cstr(&wanted), wanted.len);
        buf_str(
            &sql,
            ") w JOIN family_quota q ON q.family_id = w.f AND q.quota_month = (SELECT MAX(p.quota_month) FROM "
            "family_quota p WHERE p.family_id = w.f AND p.quota_month < w.m) "
            "ON DUPLICATE KEY UPDATE rev = family_quota.rev");
        /* Without gap locks on the rows it reads: settlements go on meanwhile. */
        ok = db_exec_text(w->db, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", NULL, err) &&
             db_exec(w->db, &sql, NULL, err);
    }
    *made = count > 0; /* also where somebody else made them meanwhile: read again */
    buf_free(&sql);
    buf_free(&wanted);
    return ok;
}

static bool begin_snapshot(struct warmer *w, struct error *err) {
    return db_exec_text(w->db, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", NULL, err);
}

static bool read_snapshot(struct warmer *w, const struct batch *b, const size_t *groups, size_t n,
                          struct snapshot *s, struct error *err) {
    for (int round = 0;; round++) {
        bool made = false;
        if (!begin_snapshot(w, err) || !load_families(w, b, groups, n, s, err) ||
            !load_quotas(w, b, groups, n, s, err) || !load_rest(w, b, groups, n, s, err) ||
            !db_exec_text(w->db, "COMMIT", NULL, err))
            break;
        if (round == 1)
            return true;
        if (!carry_over(w, b, groups, n, s, &made, err))
            break;
        if (!made)
            return true;
        snapshot_free(s);
    }
    db_rollback(w->db);
    return false;
}

static void append_member(const struct snapshot *s, const struct family_group *g, int64_t customer,
                          struct redis_command *c) {
    int64_t used = 0;
    for (size_t i = first_at(&s->usage, g->family_id, customer); i < s->usage.count; i++) {
        const struct row *r = &s->usage.rows[i];
        if (r->family != g->family_id || r->customer != customer)
            break;
        if (r->month == g->month)
            used = r->n1;
    }
    size_t first = first_of_family(&s->policies, g->family_id), count = 0;
    while (first + count < s->policies.count && s->policies.rows[first + count].family == g->family_id)
        count++;
    struct policy_row *rows = mem_zero(count, sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        const struct row *r = &s->policies.rows[first + i];
        rows[i] = (struct policy_row){
            .customer_id = r->customer, .type = r->text1 ? r->text1 : "", .rules = r->text2 ? r->text2 : ""};
    }
    struct policy_rules rules;
    policy_rules_build(&rules, rows, count, customer);
    free(rows);
    if (rules.unreadable)
        LOG(LOG_WARN, "policy_unreadable", LOG_I("family_id", g->family_id), LOG_I("customer_id", customer),
            LOG_S("reason", rules.why));
    buf_i64(redis_command_arg(c), customer);
    buf_i64(redis_command_arg(c), used);
    size_t fields = rules.unreadable + rules.manual_block + (rules.time_block[0] != '\0') +
                    (rules.monthly_limit >= 0) + rules.app_count;
    buf_i64(redis_command_arg(c), (int64_t)fields);
    if (rules.unreadable) {
        buf_str(redis_command_arg(c), "UNREADABLE");
        buf_str(redis_command_arg(c), "1");
    }
    if (rules.manual_block) {
        buf_str(redis_command_arg(c), "BLOCK:ACCESS");
        buf_str(redis_command_arg(c), "1");
    }
    if (rules.time_block[0]) {
        buf_str(redis_command_arg(c), "BLOCK:TIME");
        buf_str(redis_command_arg(c), rules.time_block);
    }
    if (rules.monthly_limit >= 0) {
        buf_str(redis_command_arg(c), "LIMIT:DATA:MONTHLY");
        buf_i64(redis_command_arg(c), rules.monthly_limit);
    }
    for (size_t i = 0; i < rules.app_count; i++) {
        struct buf *field = redis_command_arg(c);
        buf_str(field, "BLOCK:APP:");
        buf_percent(field, rules.apps[i], strlen(rules.apps[i]));
        buf_str(redis_command_arg(c), "1");
    }
    policy_rules_free(&rules);
}

static void append_warm_keys(struct redis_command *c, const struct snapshot *s, const struct family_group *g,
                             size_t members, size_t first_member, size_t *alerts) {
    key_info(redis_command_arg(c), g->family_id, g->month);
    key_remaining(redis_command_arg(c), g->family_id, g->month);
    key_members(redis_command_arg(c), g->family_id);
    for (size_t i = 0; i < members; i++) {
        int64_t customer = s->members.rows[first_member + i].customer;
        key_usage(redis_command_arg(c), g->family_id, customer, g->month);
        key_constraints(redis_command_arg(c), g->family_id, customer);
    }
    *alerts = 0;
    for (size_t i = first_of_family(&s->alerts, g->family_id);
         i < s->alerts.count && s->alerts.rows[i].family == g->family_id; i++) {
        const struct row *r = &s->alerts.rows[i];
        if (r->month != g->month || !r->text1)
            continue;
        key_alert(redis_command_arg(c), g->family_id, r->customer, r->text1, g->month);
        ++*alerts;
    }
}

static void append_warm(struct warmer *w, const struct snapshot *s, const struct family_group *g,
                        int64_t now_s) {
    const struct row *quota = find_quota(&s->quotas, g->family_id, g->month);
    size_t first = first_of_family(&s->members, g->family_id), members = 0, alerts;
    while (first + members < s->members.count && s->members.rows[first + members].family == g->family_id)
        members++;
    struct redis_command *c = &w->command, keys = {0};
    append_warm_keys(&keys, s, g, members, first, &alerts);
    redis_command_reset(c);
    buf_str(redis_command_arg(c), "EVALSHA");
    buf_str(redis_command_arg(c), redis_script_sha(w->redis, REDIS_SCRIPT_WARM));
    buf_i64(redis_command_arg(c), (int64_t)keys.count);
    for (size_t i = 0; i < keys.count; i++) {
        size_t end = i + 1 < keys.count ? keys.start[i + 1] : keys.text.len;
        buf_append(redis_command_arg(c), keys.text.data + keys.start[i], end - keys.start[i]);
    }
    redis_command_free(&keys);
    int64_t month_expiry = period_month_end(g->month) / 1000 + 35 * DAY_S;
    buf_i64(redis_command_arg(c), draw_number());
    buf_i64(redis_command_arg(c), now_s);
    buf_i64(redis_command_arg(c), quota->n1);
    buf_i64(redis_command_arg(c), quota->n1 - quota->n2);
    buf_str(redis_command_arg(c), buf_cstr(&w->thresholds));
    decide_cuts_text(redis_command_arg(c), w->cfg, quota->n1);
    const struct row *family = &s->families.rows[first_of_family(&s->families, g->family_id)];
    buf_str(redis_command_arg(c), family->text1 ? family->text1 : "");
    buf_i64(redis_command_arg(c), month_expiry > now_s + DAY_S ? month_expiry : now_s + DAY_S);
    buf_i64(redis_command_arg(c), now_s + 45 * DAY_S);
    buf_i64(redis_command_arg(c), (int64_t)members);
    buf_i64(redis_command_arg(c), (int64_t)alerts);
    for (size_t i = 0; i < members; i++)
        append_member(s, g, s->members.rows[first + i].customer, c);
    redis_append(w->redis, c);
}

/* Ends the group's live events that MySQL has no place for, in the contract's order of checks. */
static void reject_strangers(struct batch *b, const struct family_group *g, const struct snapshot *s) {
    bool family = has_family(s, g->family_id);
    for (size_t i = 0; i < g->count; i++) {
        size_t at = b->order[g->first + i];
        if (!batch_event_live(&b->events[at]))
            continue;
        if (!family)
            batch_reject(b, at, REJECT_UNKNOWN_FAMILY, "payload.familyId: no such family");
        else if (!has_member(s, g->family_id, b->events[at].usage.customer_id))
            batch_reject(b, at, REJECT_NOT_A_MEMBER, "payload.customerId: not a member of the family");
    }
}

static void reject_without_quota(struct batch *b, const struct family_group *g) {
    for (size_t i = 0; i < g->count; i++) {
        size_t at = b->order[g->first + i];
        if (batch_event_live(&b->events[at]))
            batch_reject(b, at, REJECT_UNKNOWN_FAMILY,
                         "payload.familyId: no usable quota in the event's month nor in an earlier one");
    }
}

static bool group_is_live(const struct batch *b, const struct family_group *g) {
    for (size_t i = 0; i < g->count; i++) {
        if (batch_event_live(&b->events[b->order[g->first + i]]))
            return true;
    }
    return false;
}

static size_t dirty_groups(const struct batch *b, size_t *out, bool suspect_too) {
    size_t n = 0;
    for (size_t i = 0; i < b->group_count; i++) {
        if (b->groups[i].dirty || (suspect_too && b->groups[i].suspect))
            out[n++] = i;
    }
    return n;
}

static bool group_is_undecided(const struct batch *b, const struct family_group *g) {
    for (size_t i = 0; i < g->count; i++) {
        const struct batch_event *e = &b->events[b->order[g->first + i]];
        if (batch_event_live(e) && !e->decided)
            return true;
    }
    return false;
}

static void on_warm_reply(void *ctx, size_t i, const struct redis_reply_view *v) {
    enum redis_reply_kind *worst = ctx;
    (void)i;
    if (v->kind != REDIS_TEXT)
        *worst = v->kind;
}

static bool collect_warm(struct warmer *w, struct error *err) {
    enum redis_reply_kind worst = REDIS_TEXT;
    fault_at("warm.write");
    if (!redis_collect(w->redis, on_warm_reply, &worst, err))
        return false;
    fault_at("warm.written");
    if (worst == REDIS_TEXT)
        return true;
    if (worst != REDIS_NO_SCRIPT)
        return error_set(err, ERROR_REDIS, ERROR_STOP, ERROR_UNKNOWN, 0, "redis: the warming script failed");
    return redis_load_scripts(w->redis, err) &&
           error_set(err, ERROR_REDIS, ERROR_RETRY, ERROR_UNKNOWN, 0, "redis: the script cache was emptied");
}

/* The warming replaces whatever was decided: nothing of it leaves a trace. */
static void forget_decisions(struct batch *b, struct family_group *g) {
    for (size_t i = 0; i < g->count; i++) {
        struct batch_event *e = &b->events[b->order[g->first + i]];
        e->looked_up = e->looked_up || e->decided; /* the dedup entry that Redis may hold is its own */
        e->decided = false;
    }
    g->left_trace = false;
}

static bool warm_some(struct warmer *w, struct batch *b, const size_t *groups, size_t n, int64_t now_s,
                      struct error *err) {
    struct snapshot s = {0};
    bool ok = read_snapshot(w, b, groups, n, &s, err) && redis_ensure(w->redis, err);
    for (size_t i = 0; ok && i < n; i++) {
        struct family_group *g = &b->groups[groups[i]];
        const struct row *quota = find_quota(&s.quotas, g->family_id, g->month);
        forget_decisions(b, g);
        reject_strangers(b, g, &s);
        if (!quota || quota->n1 < 0 || quota->n1 > EVENT_AMOUNT_MAX)
            reject_without_quota(b, g);
        /* also where no event is left: what one of them left in Redis must go */
        if (!has_family(&s, g->family_id) || !quota || quota->n1 < 0 || quota->n1 > EVENT_AMOUNT_MAX)
            continue;
        append_warm(w, &s, g, now_s);
        w->warmed++;
        if (redis_pending_commands(w->redis) >= REDIS_PIPELINE_COMMANDS ||
            redis_pending_bytes(w->redis) >= REDIS_PIPELINE_BYTES)
            ok = collect_warm(w, err);
    }
    if (ok && redis_pending_commands(w->redis))
        ok = collect_warm(w, err);
    snapshot_free(&s);
    return ok;
}

bool warmer_warm(struct warmer *w, struct batch *b, int64_t now_s, struct error *err) {
    size_t *groups = mem_alloc(b->group_count * sizeof *groups);
    size_t n = dirty_groups(b, groups, false);
    fault_at("warm.read");
    bool ok = n == 0 || db_ensure(w->db, err);
    for (size_t i = 0; ok && i < n; i += GROUPS_A_READ) {
        size_t some = n - i < GROUPS_A_READ ? n - i : GROUPS_A_READ;
        for (size_t k = i; k < i + some; k++)
            b->groups[groups[k]].dirty = false; /* a twin promoted meanwhile sets it again */
        ok = warm_some(w, b, groups + i, some, now_s, err);
        for (size_t k = i; k < i + some; k++) {
            struct family_group *g = &b->groups[groups[k]];
            g->warmed = ok;
            g->void_decisions = true;
            if (!ok)
                g->dirty = true;
        }
    }
    free(groups);
    return ok;
}

bool warmer_forget(struct warmer *w, const struct batch *b, struct error *err) {
    struct redis_command *c = &w->command;
    if (b->group_count == 0)
        return true;
    if (redis_pending_commands(w->redis))
        redis_close(w->redis); /* of a call that was given up */
    if (!redis_ensure(w->redis, err))
        return false;
    redis_command_reset(c);
    buf_str(redis_command_arg(c), "DEL");
    for (size_t i = 0; i < b->group_count; i++)
        key_info(redis_command_arg(c), b->groups[i].family_id, b->groups[i].month);
    redis_append(w->redis, c);
    return redis_collect(w->redis, NULL, NULL, err);
}

bool warmer_weed_out(struct warmer *w, struct batch *b, struct error *err) {
    size_t *groups = mem_alloc(b->group_count * sizeof *groups);
    size_t n = dirty_groups(b, groups, true);
    bool ok = n == 0 || db_ensure(w->db, err);
    for (size_t i = 0; ok && i < n; i += GROUPS_A_READ) {
        size_t some = n - i < GROUPS_A_READ ? n - i : GROUPS_A_READ;
        struct snapshot s = {0};
        ok = begin_snapshot(w, err) && load_families(w, b, groups + i, some, &s, err) &&
             db_exec_text(w->db, "COMMIT", NULL, err);
        for (size_t k = i; ok && k < i + some; k++) {
            struct family_group *g = &b->groups[groups[k]];
            reject_strangers(b, g, &s);
            g->suspect = false;
            /* undecided: a member after all, whom Redis doesn't know yet */
            g->dirty = g->left_trace || (g->dirty && group_is_live(b, g)) || group_is_undecided(b, g);
        }
        snapshot_free(&s);
        if (!ok)
            db_rollback(w->db);
    }
    free(groups);
    return ok;
}
