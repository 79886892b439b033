/* SPDX-License-Identifier: MIT */
/* Steps 2 and 3 of a settlement: the ids, and the quotas that they move (DESIGN §4). */
#include "keys.h"
#include "known.h"
#include "settle_internal.h"

/* An id that is known is an error, and so needs no count of rows (mysql_insert.h). Never INSERT IGNORE: it
 * truncates ids and zeroes bad numbers in silence. */
#define USAGE_COLUMNS                                                                                        \
    "event_id, family_id, customer_id, app_id, bytes_used, event_time, quota_month, partition_id, "          \
    "record_offset, created_at"

static const struct insert_form record_form = {
    .head = "INSERT INTO usage_record (" USAGE_COLUMNS ") VALUES ",
    .row = "(?,?,?,?,?,?,?,?,?,?)",
    .tail = "",
    .columns = "snnsntmnnt",
    .bulk = true,
};

static const struct insert_form block_form = {
    .head = "INSERT INTO usage_block (" USAGE_COLUMNS
            ", reason, remaining_bytes, monthly_used_bytes, monthly_limit_bytes) VALUES ",
    .row = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    .tail = "",
    .columns = "snnsntmnntsnnn",
    .bulk = true,
};

/* The validation: each assignment stands under the condition that MySQL's figures are the ones decided on.
 * The figure itself comes last, since assignments see the ones before. */
#define FAMILY_HOLDS                                                                                         \
    "used_bytes = VALUES(used_bytes) - VALUES(delta_bytes) AND total_quota_bytes = VALUES(total_quota_bytes)"
static const struct insert_form family_form = {
    .head = "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes, used_bytes, delta_bytes, "
            "rev) VALUES ",
    .row = "(?,?,?,?,?,0)",
    .tail = " ON DUPLICATE KEY UPDATE rev = IF(" FAMILY_HOLDS ", rev + 1, rev), "
            "delta_bytes = IF(" FAMILY_HOLDS ", VALUES(delta_bytes), delta_bytes), "
            "used_bytes = IF(" FAMILY_HOLDS ", VALUES(used_bytes), used_bytes)",
    .columns = "nmnnn",
};

#define CUSTOMER_HEAD                                                                                        \
    "INSERT INTO customer_quota (family_id, customer_id, quota_month, monthly_used_bytes, delta_bytes, "     \
    "is_blocked, block_reason, state_event_time, rev) VALUES "
#define CUSTOMER_HOLDS "monthly_used_bytes = VALUES(monthly_used_bytes) - VALUES(delta_bytes)"
#define STATE_IS_NEWER                                                                                       \
    CUSTOMER_HOLDS " AND (state_event_time IS NULL OR state_event_time <= VALUES(state_event_time))"
#define CUSTOMER_COLUMNS "nnmnnnst"
static const struct insert_form customer_form = {
    .head = CUSTOMER_HEAD,
    .row = "(?,?,?,?,?,?,?,?,0)",
    .tail = " ON DUPLICATE KEY UPDATE rev = IF(" CUSTOMER_HOLDS ", rev + 1, rev), "
            "delta_bytes = IF(" CUSTOMER_HOLDS ", VALUES(delta_bytes), delta_bytes), "
            "is_blocked = IF(" STATE_IS_NEWER ", VALUES(is_blocked), is_blocked), "
            "block_reason = IF(" STATE_IS_NEWER ", VALUES(block_reason), block_reason), "
            "state_event_time = IF(" STATE_IS_NEWER ", VALUES(state_event_time), state_event_time), "
            "monthly_used_bytes = IF(" CUSTOMER_HOLDS ", VALUES(monthly_used_bytes), monthly_used_bytes)",
    .columns = CUSTOMER_COLUMNS,
};

/* New rows only, at 0, to be written by the validation as well; and as they end, to be left alone by it. */
#define KEEP_CUSTOMER " ON DUPLICATE KEY UPDATE rev = customer_quota.rev"
static const struct insert_form idle_customer_form = {
    .head = CUSTOMER_HEAD, .row = "(?,?,?,?,?,?,?,?,0)", .tail = KEEP_CUSTOMER, .columns = CUSTOMER_COLUMNS};
static const struct insert_form new_customer_form = {
    .head = CUSTOMER_HEAD, .row = "(?,?,?,?,?,?,?,?,1)", .tail = KEEP_CUSTOMER, .columns = CUSTOMER_COLUMNS};

static void add_usage(struct insert *to, const struct attempt *a, const struct batch_event *e) {
    const struct usage_event *u = &e->usage;
    union insert_value *v = insert_row(to);
    v[0].text = u->id;
    v[1].number = u->family_id;
    v[2].number = u->customer_id;
    v[3].text = u->has_app ? u->app : NULL;
    v[4].number = u->bytes_used;
    v[5].number = u->time_ms;
    v[6].number = u->month;
    v[7].number = e->part->id;
    v[8].number = e->offset;
    v[9].number = a->now_ms;
    if (e->decision.allowed)
        return;
    v[10].text = decision_block_name(&e->decision);
    v[11].number = e->decision.remaining_bytes;
    v[12].number = e->decision.monthly_used_bytes;
    v[13].number = e->decision.monthly_limit_bytes;
}

/* Inserts the ids of some of a->by_id; `*fresh` stays true only if every one is new. */
static bool insert_usage(struct settle *s, const struct attempt *a, const struct insert_form *form,
                         size_t first, size_t end, bool *fresh, struct error *err) {
    insert_begin(&s->insert, form);
    for (size_t i = first; *fresh && i < end; i++)
        add_usage(&s->insert, a, &a->b->events[a->by_id[i]]);
    if (insert_run(&s->insert, s->db, NULL, err))
        return true;
    if (!db_error_is_duplicate(err))
        return false;
    s->duplicate = *err;
    error_clear(err);
    *fresh = false;
    return true;
}

/* Whether one of the allowed (blocked) ids stands among the blocked (allowed) ones: a locking read by key. */
static bool check_other_table(struct settle *s, const struct attempt *a, const char *table, size_t first,
                              size_t end, bool *fresh, struct error *err) {
    if (first == end)
        return true;
    struct buf sql = {0};
    struct db_rows rows;
    buf_str(&sql, "SELECT u.event_id FROM ");
    known_append_ids(&sql, a->b, a->by_id + first, end - first);
    buf_printf(&sql, " STRAIGHT_JOIN %s u ON u.event_id = j.id LOCK IN SHARE MODE", table);
    bool ok = db_query(s->db, &sql, &rows, err);
    if (ok && db_next(&rows))
        *fresh = false;
    db_rows_free(&rows);
    buf_free(&sql);
    return ok;
}

bool settle_write_ids(struct settle *s, const struct attempt *a, bool *fresh, struct error *err) {
    size_t mid = a->allowed_count, end = a->live_count;
    *fresh = true;
    return insert_usage(s, a, &record_form, 0, mid, fresh, err) &&
           insert_usage(s, a, &block_form, mid, end, fresh, err) &&
           (!*fresh || (check_other_table(s, a, "usage_block", 0, mid, fresh, err) &&
                        check_other_table(s, a, "usage_record", mid, end, fresh, err)));
}

static bool write_families(struct settle *s, const struct attempt *a, bool *valid, struct error *err) {
    int64_t affected = 0;
    insert_begin(&s->insert, &family_form);
    for (size_t i = 0; i < a->family_count; i++) {
        const struct family_row *r = &a->families[i];
        union insert_value *v = insert_row(&s->insert);
        v[0].number = r->family;
        v[1].number = r->month;
        v[2].number = r->total;
        v[3].number = r->end;
        v[4].number = r->end - r->base;
    }
    bool ok = insert_run(&s->insert, s->db, &affected, err);
    *valid = affected == 2 * (int64_t)a->family_count;
    return ok;
}

static void add_customer(struct insert *to, const struct customer_row *r) {
    union insert_value *v = insert_row(to);
    const struct decision *state = &r->state->decision;
    v[0].number = r->family;
    v[1].number = r->customer;
    v[2].number = r->month;
    v[3].number = r->end;
    v[4].number = r->end - r->base;
    v[5].number = !state->allowed;
    v[6].text = state->allowed ? NULL : decision_block_name(state);
    v[7].number = r->state->usage.time_ms;
}

/* A customer's row may not exist yet where the base is 0; then it has used nothing, as decided on. */
static bool may_be_new(const struct customer_row *r) {
    return r->base == 0 && r->end > 0;
}

static bool may_be_new_and_idle(const struct customer_row *r) {
    return r->base == 0 && r->end == 0;
}

static bool make_customers(struct settle *s, const struct attempt *a, const struct insert_form *form,
                           bool (*wanted)(const struct customer_row *), int64_t *wanted_count, int64_t *made,
                           struct error *err) {
    insert_begin(&s->insert, form);
    for (size_t i = 0; i < a->customer_count; i++) {
        if (wanted(&a->customers[i]))
            add_customer(&s->insert, &a->customers[i]);
    }
    *wanted_count = (int64_t)insert_rows(&s->insert);
    return insert_run(&s->insert, s->db, made, err);
}

/* Rows that aren't there yet are made first. Those with usage are made as they end, in one go: `made` of
 * them. Wherever one of that kind was there already the validation covers all of that kind; it changes none
 * that was made just now, whose figure is the end and no longer the base. So in either case it changes, at
 * two a row, exactly all rows but the `made` ones, if all figures hold. */
static bool write_customers(struct settle *s, const struct attempt *a, bool *valid, struct error *err) {
    int64_t idle = 0, candidates = 0, made = 0, affected = 0;
    if (!make_customers(s, a, &idle_customer_form, may_be_new_and_idle, &idle, NULL, err) ||
        !make_customers(s, a, &new_customer_form, may_be_new, &candidates, &made, err))
        return false;
    insert_begin(&s->insert, &customer_form);
    for (size_t i = 0; i < a->customer_count; i++) {
        if (made < candidates || !may_be_new(&a->customers[i]))
            add_customer(&s->insert, &a->customers[i]);
    }
    bool ok = insert_run(&s->insert, s->db, &affected, err);
    *valid = affected == 2 * ((int64_t)a->customer_count - made);
    return ok;
}

bool settle_write_quotas(struct settle *s, const struct attempt *a, bool *valid, struct error *err) {
    *valid = true;
    if (a->family_count == 0)
        return true;
    return write_families(s, a, valid, err) && (!*valid || write_customers(s, a, valid, err));
}
