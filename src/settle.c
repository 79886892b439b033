/* SPDX-License-Identifier: MIT */
#include "settle.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "fault.h"
#include "keys.h"
#include "known.h"
#include "ledger.h"
#include "log.h"
#include "period.h"
#include "settle_internal.h"

static void attempt_free(struct attempt *a) {
    free(a->live);
    free(a->by_id);
    free(a->families);
    free(a->customers);
}

static int64_t base_remaining(const struct batch_event *e) {
    return e->decision.remaining_bytes + (e->decision.allowed ? e->usage.bytes_used : 0);
}

static int64_t base_monthly(const struct batch_event *e) {
    return e->decision.monthly_used_bytes - (e->decision.allowed ? e->usage.bytes_used : 0);
}

/* Results out of the dedup cache count only if their id isn't known, and the
 * first of an id that comes again judges the others, so it is looked up too. */
static bool look_up_duplicates(struct settle *s, struct batch *b, struct error *err) {
    size_t *indexes = mem_alloc(b->count * sizeof *indexes), n = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct batch_event *e = &b->events[i];
        if (batch_event_decided(e) && (e->decision.duplicate || e->has_twin))
            indexes[n++] = i;
    }
    bool ok = n == 0 || known_look_up(s->db, b, indexes, n, NULL, err);
    for (size_t i = 0; ok && i < n; i++) {
        const struct batch_event *e = &b->events[indexes[i]];
        /* known, but not by the settlement of the cached result: what it left in Redis is wrong */
        if (e->outcome == OUTCOME_REJECTED || (e->outcome == OUTCOME_DUPLICATE && !e->decision.duplicate))
            b->groups[e->group].dirty = true;
    }
    free(indexes);
    return ok;
}

/* A family's decisions must each start where the one before ended. */
static void chain_families(struct attempt *a) {
    struct batch *b = a->b;
    a->families = mem_alloc(b->group_count * sizeof *a->families);
    for (size_t g = 0; g < b->group_count; g++) {
        struct family_group *group = &b->groups[g];
        struct family_row *row = NULL;
        for (size_t i = 0; i < group->count; i++) {
            const struct batch_event *e = &b->events[b->order[group->first + i]];
            if (!batch_event_decided(e))
                continue;
            int64_t base = e->decision.total_bytes - base_remaining(e),
                    end = e->decision.total_bytes - e->decision.remaining_bytes;
            if (!row) {
                row = &a->families[a->family_count++];
                *row = (struct family_row){.family = group->family_id,
                                           .month = group->month,
                                           .group = g,
                                           .total = e->decision.total_bytes,
                                           .base = base};
            } else if (row->total != e->decision.total_bytes || row->end != base) {
                group->dirty = true;
            }
            row->end = end;
        }
    }
}

static int by_customer(const void *x, const void *y, void *events) {
    const struct batch_event *all = events;
    size_t i = *(const size_t *)x, k = *(const size_t *)y;
    const struct usage_event *a = &all[i].usage, *c = &all[k].usage;
    if (a->family_id != c->family_id)
        return a->family_id < c->family_id ? -1 : 1;
    if (a->customer_id != c->customer_id)
        return a->customer_id < c->customer_id ? -1 : 1;
    if (a->month != c->month)
        return a->month < c->month ? -1 : 1;
    return (i > k) - (i < k);
}

static bool row_is_of(const struct customer_row *row, const struct usage_event *u) {
    return row->family == u->family_id && row->customer == u->customer_id && row->month == u->month;
}

/* The decided events by (family, customer, month), in order within each: the groups are by family already. */
static size_t *order_by_customer(const struct attempt *a) {
    struct batch *b = a->b;
    size_t *out = mem_alloc(a->live_count * sizeof *out), n = 0;
    for (size_t g = 0; g < b->group_count;) {
        int64_t family = b->groups[g].family_id;
        size_t begin = n;
        for (; g < b->group_count && b->groups[g].family_id == family; g++) {
            const struct family_group *group = &b->groups[g];
            for (size_t i = group->first; i < group->first + group->count; i++) {
                if (batch_event_decided(&b->events[b->order[i]]))
                    out[n++] = b->order[i];
            }
        }
        if (n - begin > 1)
            qsort_r(out + begin, n - begin, sizeof *out, by_customer, b->events);
    }
    return out;
}

static void chain_customers(struct attempt *a) {
    struct batch *b = a->b;
    size_t *order = order_by_customer(a);
    a->customers = mem_alloc(a->live_count * sizeof *a->customers);
    struct customer_row *row = NULL;
    for (size_t i = 0; i < a->live_count; i++) {
        const struct batch_event *e = &b->events[order[i]];
        if (!row || !row_is_of(row, &e->usage)) {
            row = &a->customers[a->customer_count++];
            *row = (struct customer_row){.family = e->usage.family_id,
                                         .customer = e->usage.customer_id,
                                         .month = e->usage.month,
                                         .group = e->group,
                                         .base = base_monthly(e),
                                         .state = e};
        } else if (row->end != base_monthly(e)) {
            b->groups[e->group].dirty = true;
        }
        row->end = e->decision.monthly_used_bytes;
        if (e->usage.time_ms >= row->state->usage.time_ms) /* of equal times the later delivered wins */
            row->state = e;
    }
    free(order);
}

/* An id's first bytes in an order that numbers have too: nearly always they decide. */
struct id_key {
    uint64_t head;
    size_t index;
};

static struct id_key id_key(const struct batch *b, size_t index) {
    struct id_key key = {.index = index};
    const char *id = b->events[index].usage.id;
    for (size_t i = 0; i < sizeof key.head; i++)
        key.head = key.head << 8 | (*id ? (unsigned char)*id++ : 0);
    return key;
}

static int by_id(const void *x, const void *y, void *events) {
    const struct id_key *a = x, *c = y;
    const struct batch_event *all = events;
    if (a->head != c->head)
        return a->head < c->head ? -1 : 1;
    return strcmp(all[a->index].usage.id, all[c->index].usage.id);
}

/* The allowed ones, then the blocked ones, each by id. */
static void order_by_id(struct attempt *a) {
    struct batch *b = a->b;
    struct id_key *keys = mem_alloc(a->live_count * sizeof *keys);
    size_t allowed = 0, blocked = a->live_count;
    for (size_t i = 0; i < a->live_count; i++)
        keys[b->events[a->live[i]].decision.allowed ? allowed++ : --blocked] = id_key(b, a->live[i]);
    qsort_r(keys, allowed, sizeof *keys, by_id, b->events);
    qsort_r(keys + allowed, a->live_count - allowed, sizeof *keys, by_id, b->events);
    a->by_id = mem_alloc(a->live_count * sizeof *a->by_id);
    for (size_t i = 0; i < a->live_count; i++)
        a->by_id[i] = keys[i].index;
    a->allowed_count = allowed;
    free(keys);
}

static void attempt_derive(struct attempt *a, struct batch *b) {
    *a = (struct attempt){.b = b};
    a->live = mem_alloc(b->count * sizeof *a->live);
    for (size_t i = 0; i < b->count; i++) {
        if (batch_event_decided(&b->events[i]))
            a->live[a->live_count++] = i;
    }
    order_by_id(a);
    chain_families(a);
    chain_customers(a);
}

/* An open event without a decision: its family's month must be decided first. */
static bool all_decided(struct batch *b) {
    bool ok = true;
    for (size_t i = 0; i < b->count; i++) {
        if (batch_event_live(&b->events[i]) && !b->events[i].decided) {
            b->groups[b->events[i].group].dirty = true;
            ok = false;
        }
    }
    return ok;
}

static bool start(struct settle *s, struct error *err) {
    return db_exec_text(s->db, "START TRANSACTION", NULL, err);
}

/* Reads the floor under a shared lock, and the time. */
static bool read_floor(struct settle *s, struct attempt *a, struct error *err) {
    struct db_rows rows;
    if (!db_query_text(
            s->db, "SELECT closed_before, UTC_TIMESTAMP(3) FROM usage_floor WHERE id = 1 LOCK IN SHARE MODE",
            &rows, err))
        return false;
    bool ok = db_next(&rows) && period_parse_utc(rows.row[1], &a->now_ms);
    if (ok)
        s->closed_before = period_date_month(rows.row[0]);
    db_rows_free(&rows);
    if (!ok)
        return error_set(err, ERROR_MYSQL, ERROR_STOP, ERROR_NOT_DONE, 0, "usage_floor: its row is missing");
    return true;
}

/* Events of a month that was closed meanwhile; true when there are any. */
static bool reject_closed(struct settle *s, struct attempt *a) {
    bool any = false;
    for (size_t i = 0; i < a->live_count; i++) {
        const struct batch_event *e = &a->b->events[a->live[i]];
        if (e->usage.month >= s->closed_before)
            continue;
        a->b->groups[e->group].dirty = true;
        batch_reject(a->b, a->live[i], REJECT_EVENT_TOO_OLD, "timestamp: the event's month is closed");
        any = true;
    }
    return any;
}

static void append_month(struct buf *sql, int32_t month) {
    char date[PERIOD_DATE_SIZE];
    period_month_date(month, date);
    buf_printf(sql, "'%s'", date);
}

/* Marks the families whose rows aren't what was decided on; sets `*any` when there are some. */
static bool find_differing_families(struct settle *s, struct attempt *a, bool *any, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_str(
        &sql,
        "SELECT family_id, quota_month, total_quota_bytes, used_bytes FROM family_quota WHERE (family_id, quota_month) IN ");
    for (size_t k = 0; k < a->family_count; k++) {
        buf_str(&sql, k ? ",(" : "((");
        buf_i64(&sql, a->families[k].family);
        buf_char(&sql, ',');
        append_month(&sql, a->families[k].month);
        buf_char(&sql, ')');
    }
    buf_str(&sql, ") ORDER BY family_id, quota_month");
    bool ok = db_query(s->db, &sql, &rows, err), more = ok && db_next(&rows);
    buf_free(&sql);
    for (size_t i = 0; ok && i < a->family_count; i++) {
        const struct family_row *r = &a->families[i];
        bool there = more && db_i64(&rows, 0, -1) == r->family && period_date_month(rows.row[1]) == r->month;
        if (!there || db_i64(&rows, 2, -1) != r->total || db_i64(&rows, 3, -1) != r->base) {
            LOG(LOG_DEBUG, "family_differs", LOG_I("family_id", r->family), LOG_I("month", r->month),
                LOG_I("decided_on_total", r->total), LOG_I("decided_on_used", r->base),
                LOG_I("total", there ? db_i64(&rows, 2, -1) : -1),
                LOG_I("used", there ? db_i64(&rows, 3, -1) : -1));
            a->b->groups[r->group].dirty = true;
            *any = true;
        }
        if (there)
            more = db_next(&rows);
    }
    db_rows_free(&rows);
    return ok;
}

/* The same by the customers' rows; a customer without one has used nothing. */
static bool find_differing_customers(struct settle *s, struct attempt *a, bool *any, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_str(&sql, "SELECT family_id, customer_id, quota_month, monthly_used_bytes FROM customer_quota WHERE "
                  "(family_id, customer_id, quota_month) IN ");
    for (size_t k = 0; k < a->customer_count; k++) {
        buf_str(&sql, k ? ",(" : "((");
        buf_i64(&sql, a->customers[k].family);
        buf_char(&sql, ',');
        buf_i64(&sql, a->customers[k].customer);
        buf_char(&sql, ',');
        append_month(&sql, a->customers[k].month);
        buf_char(&sql, ')');
    }
    buf_str(&sql, ") ORDER BY family_id, customer_id, quota_month");
    bool ok = db_query(s->db, &sql, &rows, err), more = ok && db_next(&rows);
    buf_free(&sql);
    for (size_t i = 0; ok && i < a->customer_count; i++) {
        const struct customer_row *r = &a->customers[i];
        bool there = more && db_i64(&rows, 0, -1) == r->family && db_i64(&rows, 1, -1) == r->customer &&
                     period_date_month(rows.row[2]) == r->month;
        if ((there ? db_i64(&rows, 3, -1) : 0) != r->base) {
            LOG(LOG_DEBUG, "customer_differs", LOG_I("family_id", r->family),
                LOG_I("customer_id", r->customer), LOG_I("month", r->month),
                LOG_I("decided_on_used", r->base), LOG_I("used", there ? db_i64(&rows, 3, -1) : 0));
            a->b->groups[r->group].dirty = true;
            *any = true;
        }
        if (there)
            more = db_next(&rows);
    }
    db_rows_free(&rows);
    return ok;
}

/* After a mismatch: whose figures differ. Marks all families where none does any more. */
static bool find_differing(struct settle *s, struct attempt *a, struct error *err) {
    bool any = false;
    if (!find_differing_families(s, a, &any, err) || !find_differing_customers(s, a, &any, err))
        return false;
    for (size_t i = 0; !any && i < a->family_count; i++)
        a->b->groups[a->families[i].group].dirty = true;
    return true;
}

/* After an id turned out to be known: sorts the known ones out, and voids what was decided with them. */
static bool find_known(struct settle *s, struct attempt *a, struct error *err) {
    size_t found = 0;
    if (!known_look_up(s->db, a->b, a->live, a->live_count, &found, err))
        return false;
    if (found == 0 && s->duplicate.area != ERROR_NONE) { /* of a table that somebody's trigger writes? */
        *err = s->duplicate;
        return false;
    }
    for (size_t i = 0; i < a->live_count; i++) {
        const struct batch_event *e = &a->b->events[a->live[i]];
        if (e->outcome != OUTCOME_OPEN || found == 0)
            a->b->groups[e->group].dirty = true;
    }
    return true;
}

static enum settle_result give_up(struct settle *s, const struct error *err) {
    db_rollback(s->db);
    outbox_list_free(s->born.head);
    s->born = (struct outbox_list){0};
    return err->area == ERROR_MYSQL && err->action == ERROR_REJECT ? SETTLE_REFUSED : SETTLE_FAILED;
}

/* A settlement that came back is one whose refusal was found out; if it can't be, the same batch again. */
static enum settle_result come_back(struct batch *b, enum came_back cause, const char *why, bool found_out) {
    b->came_back = cause;
    if (!found_out)
        return SETTLE_FAILED;
    int64_t dirty = 0, first = 0;
    for (size_t i = b->group_count; i-- > 0;) {
        if (b->groups[i].dirty) {
            dirty++;
            first = b->groups[i].family_id;
        }
    }
    LOG(LOG_DEBUG, "batch_came_back", LOG_S("reason", why), LOG_I("records", b->count),
        LOG_I("families", dirty), LOG_I("first_family_id", first));
    return SETTLE_CAME_BACK;
}

static enum settle_result already_committed(struct settle *s, const struct batch *b) {
    settle_alerts_find_born(s, b);
    return SETTLE_DONE;
}

static enum settle_result transact(struct settle *s, struct attempt *a, struct error *err) {
    bool fresh, valid;
    if (!db_ensure(s->db, err))
        return SETTLE_FAILED;
    int64_t since = clock_monotonic_us();
    if (!start(s, err))
        return SETTLE_FAILED;
    enum ledger_step step = ledger_advance(s->db, s->cfg, a->b, err);
    if (step == LEDGER_FAILED) { /* it holds nothing of any event's: a refusal here is no event's fault */
        give_up(s, err);
        return SETTLE_FAILED;
    }
    if (step != LEDGER_ADVANCED) {
        db_rollback(s->db);
        return step == LEDGER_COMMITTED ? already_committed(s, a->b) : SETTLE_FENCED;
    }
    if (!read_floor(s, a, err))
        return give_up(s, err);
    if (reject_closed(s, a)) {
        db_rollback(s->db);
        return come_back(a->b, CAME_BACK_OTHER, "month_closed", true);
    }
    error_clear(&s->duplicate);
    if (!settle_write_ids(s, a, &fresh, err))
        return give_up(s, err);
    if (!fresh) {
        db_rollback(s->db);
        return come_back(a->b, CAME_BACK_KNOWN_ID, "id_known", find_known(s, a, err));
    }
    if (!settle_write_quotas(s, a, &valid, err))
        return give_up(s, err);
    if (!valid) {
        db_rollback(s->db);
        return come_back(a->b, CAME_BACK_FIGURES, "figures_differ", find_differing(s, a, err));
    }
    if (!settle_alerts(s, a->b, a->now_ms, err))
        return give_up(s, err);
    /* everything is validated: now a twin's rejection is sure (rare, so locks are held meanwhile) */
    if (!dlt_write(s->dlt, a->b, true, err))
        return give_up(s, err);
    if (!db_exec_text(s->db, "COMMIT", NULL, err)) {
        s->maybe_committed = true; /* whatever the code: the ledger knows better */
        give_up(s, err);
        return SETTLE_FAILED;
    }
    metrics_observe(s->metrics, METRIC_TRANSACTION_DURATION, clock_monotonic_us() - since);
    return SETTLE_DONE;
}

static void finish(struct settle *s, struct batch *b) {
    fault_at("settler.committed");
    ledger_committed(b);
    settle_alerts_remember(s);
    for (size_t i = 0; i < b->count; i++) {
        struct batch_event *e = &b->events[i];
        if (batch_event_decided(e))
            e->outcome = e->decision.allowed ? OUTCOME_SETTLED : OUTCOME_BLOCKED;
    }
    s->maybe_committed = false;
}

/* Whether the attempt whose COMMIT went unanswered had gone through. */
static enum settle_result ask_ledger(struct settle *s, struct batch *b, struct error *err) {
    if (!db_ensure(s->db, err) || !start(s, err))
        return SETTLE_FAILED;
    enum ledger_step step = ledger_advance(s->db, s->cfg, b, err);
    db_rollback(s->db);
    if (step == LEDGER_ADVANCED) {
        s->maybe_committed = false;
        return SETTLE_CAME_BACK;
    }
    return step == LEDGER_COMMITTED ? already_committed(s, b)
           : step == LEDGER_FENCED  ? SETTLE_FENCED
                                    : SETTLE_FAILED;
}

enum settle_result settle_batch(struct settle *s, struct batch *b, struct error *err) {
    enum settle_result result;
    if (s->maybe_committed && (result = ask_ledger(s, b, err)) != SETTLE_CAME_BACK) {
        if (result == SETTLE_DONE)
            finish(s, b);
        return result;
    }
    if (!all_decided(b))
        return come_back(b, CAME_BACK_OTHER, "undecided", true);
    bool found_before = batch_any_dirty(b); /* by an attempt that failed while it looked for more */
    if (!look_up_duplicates(s, b, err))
        return SETTLE_FAILED;
    bool known = batch_any_dirty(b);
    struct attempt a;
    attempt_derive(&a, b);
    if (known) {
        result = come_back(b, found_before ? b->came_back : CAME_BACK_KNOWN_ID, "id_known", true);
    } else if (batch_any_dirty(b)) {
        result = come_back(b, CAME_BACK_NO_CHAIN, "no_chain", true);
    } else {
        batch_judge_twins(b);
        result = dlt_write(s->dlt, b, false, err) ? transact(s, &a, err) : SETTLE_FAILED;
    }
    attempt_free(&a);
    if (result == SETTLE_DONE)
        finish(s, b);
    return result;
}

void settle_deinit(struct settle *s) {
    seen_clear(&s->told);
    insert_free(&s->insert);
    buf_free(&s->to_remember);
    outbox_list_free(s->born.head);
    free(s->alerted);
}
