/* SPDX-License-Identifier: MIT */
#include "bench_figures.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "period.h"
#include "policy.h"

#define EVERY_MONTH 0 /* of a figure that is of none: a member's rules */
#define FAMILY 0      /* in a customer's place: the family's own figure */

struct figure {
    int64_t family, customer;
    int32_t month;
    int64_t used, total;        /* total: a family's only */
    struct policy_rules *rules; /* owned, NULL for none; a member's only */
};

struct bench_figures {
    const struct config *cfg;
    struct db *db;
    struct bench_set loaded; /* families */
    struct figure *slots;    /* by hash; family 0: free */
    size_t count, capacity;
};

struct bench_figures *bench_figures_new(const struct config *cfg, struct db *db) {
    struct bench_figures *f = mem_zero(1, sizeof *f);
    f->cfg = cfg;
    f->db = db;
    return f;
}

void bench_figures_free(struct bench_figures *f) {
    if (!f)
        return;
    for (size_t i = 0; i < f->capacity; i++) {
        if (f->slots[i].rules)
            policy_rules_free(f->slots[i].rules);
        free(f->slots[i].rules);
    }
    free(f->slots);
    bench_set_free(&f->loaded);
    free(f);
}

static struct figure *slot_of(struct figure *slots, size_t capacity, int64_t family, int64_t customer,
                              int32_t month) {
    const int64_t key[3] = {family, customer, month};
    size_t at = bench_hash(key, sizeof key) & (capacity - 1);
    while (slots[at].family &&
           (slots[at].family != family || slots[at].customer != customer || slots[at].month != month))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static struct figure *find(struct bench_figures *f, int64_t family, int64_t customer, int32_t month) {
    struct figure *slot = f->capacity ? slot_of(f->slots, f->capacity, family, customer, month) : NULL;
    return slot && slot->family ? slot : NULL;
}

static void grow(struct bench_figures *f) {
    size_t capacity = f->capacity ? f->capacity * 2 : 4096;
    struct figure *slots = mem_zero(capacity, sizeof *slots);
    for (size_t i = 0; i < f->capacity; i++) {
        const struct figure *old = &f->slots[i];
        if (old->family)
            *slot_of(slots, capacity, old->family, old->customer, old->month) = *old;
    }
    free(f->slots);
    f->slots = slots;
    f->capacity = capacity;
}

/* Found or made, at 0. Others may move by it. */
static struct figure *get(struct bench_figures *f, int64_t family, int64_t customer, int32_t month) {
    if (f->count * 2 >= f->capacity)
        grow(f);
    struct figure *slot = slot_of(f->slots, f->capacity, family, customer, month);
    if (!slot->family) {
        *slot = (struct figure){.family = family, .customer = customer, .month = month};
        f->count++;
    }
    return slot;
}

/* ---- what MySQL holds ---- */

/* The batch's families that aren't loaded yet, as a list for IN; empty when there are none. */
static void list_new(struct bench_figures *f, const struct batch *b, struct buf *list) {
    for (size_t i = 0; i < b->group_count; i++) {
        int64_t family = b->groups[i].family_id;
        if (!bench_set_add(&f->loaded, bench_hash(&family, sizeof family)))
            continue;
        buf_char(list, list->len ? ',' : '(');
        buf_i64(list, family);
    }
    if (list->len)
        buf_char(list, ')');
}

static bool ask(struct bench_figures *f, const char *select, const struct buf *families, const char *rest,
                struct db_rows *rows, struct error *err) {
    struct buf sql = {0};
    buf_printf(&sql, "%s WHERE family_id IN %s%s", select, buf_cstr(families), rest);
    bool ok = db_query(f->db, &sql, rows, err);
    buf_free(&sql);
    return ok;
}

static bool load_usage(struct bench_figures *f, const struct buf *families, struct error *err) {
    struct db_rows rows;
    if (!ask(f, "SELECT family_id, quota_month, used_bytes, total_quota_bytes FROM family_quota", families,
             "", &rows, err))
        return false;
    while (db_next(&rows)) {
        struct figure *slot = get(f, db_i64(&rows, 0, 0), FAMILY, period_date_month(rows.row[1]));
        slot->used = db_i64(&rows, 2, 0);
        slot->total = db_i64(&rows, 3, 0);
    }
    db_rows_free(&rows);
    if (!ask(f, "SELECT family_id, customer_id, quota_month, monthly_used_bytes FROM customer_quota",
             families, "", &rows, err))
        return false;
    while (db_next(&rows))
        get(f, db_i64(&rows, 0, 0), db_i64(&rows, 1, 0), period_date_month(rows.row[2]))->used =
            db_i64(&rows, 3, 0);
    db_rows_free(&rows);
    return true;
}

struct policies {
    struct db_rows stored; /* borrowed texts live in it */
    int64_t *families;
    struct policy_row *rows; /* by family, oldest first */
    size_t count, capacity;
};

static bool load_policies(struct bench_figures *f, const struct buf *families, struct policies *p,
                          struct error *err) {
    if (!ask(f, "SELECT family_id, customer_id, policy_type, rules FROM policy_assignment", families,
             " AND is_active = 1 ORDER BY family_id, updated_at, policy_assignment_id", &p->stored, err))
        return false;
    while (db_next(&p->stored)) {
        if (p->count == p->capacity) {
            p->capacity = p->capacity ? p->capacity * 2 : 64;
            p->families = mem_realloc(p->families, p->capacity * sizeof *p->families);
            p->rows = mem_realloc(p->rows, p->capacity * sizeof *p->rows);
        }
        p->families[p->count] = db_i64(&p->stored, 0, 0);
        p->rows[p->count++] = (struct policy_row){.customer_id = db_i64(&p->stored, 1, POLICY_FOR_FAMILY),
                                                  .type = p->stored.row[2],
                                                  .rules = p->stored.row[3]};
    }
    return true;
}

static void policies_free(struct policies *p) {
    db_rows_free(&p->stored);
    free(p->families);
    free(p->rows);
}

/* Members come by family too, so one walk along both finds each one's rules. */
static bool load_members(struct bench_figures *f, const struct buf *families, const struct policies *p,
                         struct error *err) {
    struct db_rows rows;
    if (!ask(f, "SELECT family_id, customer_id FROM family_member", families, " ORDER BY family_id", &rows,
             err))
        return false;
    size_t first = 0, end = 0;
    while (db_next(&rows)) {
        int64_t family = db_i64(&rows, 0, 0), customer = db_i64(&rows, 1, 0);
        while (first < p->count && p->families[first] < family)
            first++;
        for (end = first; end < p->count && p->families[end] == family;)
            end++;
        struct figure *member = get(f, family, customer, EVERY_MONTH);
        if (end == first)
            continue;
        member->rules = mem_alloc(sizeof *member->rules);
        policy_rules_build(member->rules, p->rows + first, end - first, customer);
    }
    db_rows_free(&rows);
    return true;
}

bool bench_figures_load(struct bench_figures *f, const struct batch *b, struct error *err) {
    struct buf families = {0};
    struct policies p = {0};
    list_new(f, b, &families);
    bool ok = !families.len || (db_ensure(f->db, err) && load_usage(f, &families, err) &&
                                load_policies(f, &families, &p, err) && load_members(f, &families, &p, err));
    policies_free(&p);
    buf_free(&families);
    return ok;
}

/* ---- the decision ---- */

static bool app_blocked(const struct policy_rules *r, const struct usage_event *u) {
    for (size_t i = 0; u->has_app && i < r->app_count; i++) {
        if (strcmp(r->apps[i], u->app) == 0)
            return true;
    }
    return false;
}

static bool time_blocked(const struct policy_rules *r, int hhmm) {
    if (!r->time_block[0])
        return false;
    int from = (int)strtol(r->time_block, NULL, 10), to = (int)strtol(r->time_block + 5, NULL, 10);
    return from < to ? hhmm >= from && hhmm < to : from == to || hhmm >= from || hhmm < to;
}

static enum decision_status status_of(const struct policy_rules *r, const struct usage_event *u,
                                      int64_t remaining, int64_t monthly) {
    if (r->manual_block)
        return STATUS_MANUAL;
    if (app_blocked(r, u))
        return STATUS_APP_BLOCK;
    if (time_blocked(r, u->hhmm))
        return STATUS_TIME_BLOCK;
    if (r->monthly_limit >= 0 && monthly > r->monthly_limit - u->bytes_used)
        return STATUS_MONTHLY_LIMIT_EXCEEDED;
    return remaining < u->bytes_used ? STATUS_FAMILY_QUOTA_EXCEEDED : STATUS_NORMAL;
}

/* The lowest that is reached, 0 for none. */
static int threshold_of(const struct config *cfg, int64_t total, int64_t remaining) {
    for (size_t i = 0; i < cfg->threshold_count; i++) {
        if (remaining * 100 <= total * cfg->thresholds[i])
            return cfg->thresholds[i];
    }
    return 0;
}

bool bench_figures_decide(struct bench_figures *f, const struct usage_event *u, struct decision *out) {
    static const struct policy_rules none = {.monthly_limit = -1};
    const struct figure *member = find(f, u->family_id, u->customer_id, EVERY_MONTH);
    if (!member || (member->rules && member->rules->unreadable) || !find(f, u->family_id, FAMILY, u->month))
        return false;
    const struct policy_rules *rules = member->rules ? member->rules : &none;
    struct figure *customer = get(f, u->family_id, u->customer_id, u->month);
    struct figure *family = find(f, u->family_id, FAMILY, u->month); /* after what may move it */
    *out = (struct decision){.status = status_of(rules, u, family->total - family->used, customer->used),
                             .total_bytes = family->total,
                             .monthly_limit_bytes = rules->monthly_limit};
    out->allowed = out->status == STATUS_NORMAL;
    if (out->allowed) {
        family->used += u->bytes_used;
        customer->used += u->bytes_used;
        out->threshold = threshold_of(f->cfg, family->total, family->total - family->used);
        out->status = out->threshold ? STATUS_WARNING : STATUS_NORMAL;
    }
    out->remaining_bytes = family->total - family->used;
    out->monthly_used_bytes = customer->used;
    return true;
}
