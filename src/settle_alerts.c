/* SPDX-License-Identifier: MIT */
/* Step 4 of a settlement: what is to be told, once (CONTRACT §2 "Once", §5.5).
 *
 * Every (customer, alert) that the decisions call for goes into alert_state,
 * whatever Redis' marks say: an old dump can bring back the mark of a decision
 * that was dropped. Only an alert whose row is this event's gets an outbox row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "keys.h"
#include "period.h"
#include "settle.h"

struct call {
    const struct batch_event *event;
    size_t index;
    char *alert; /* owned */
    bool told;   /* its alert_state row is this event's */
};

struct calls {
    struct call *items; /* by (family, customer, month, alert), the first event that calls for each */
    size_t count;
};

static void calls_free(struct calls *c) {
    for (size_t i = 0; i < c->count; i++)
        free(c->items[i].alert);
    free(c->items);
}

static int by_alert(const void *x, const void *y) {
    const struct call *a = x, *b = y;
    const struct usage_event *u = &a->event->usage, *v = &b->event->usage;
    if (u->family_id != v->family_id)
        return u->family_id < v->family_id ? -1 : 1;
    if (u->customer_id != v->customer_id)
        return u->customer_id < v->customer_id ? -1 : 1;
    if (u->month != v->month)
        return u->month < v->month ? -1 : 1;
    int c = strcmp(a->alert, b->alert);
    return c ? c : (a->index > b->index) - (a->index < b->index);
}

static bool same_alert(const struct call *a, const struct call *b) {
    const struct usage_event *u = &a->event->usage, *v = &b->event->usage;
    return u->family_id == v->family_id && u->customer_id == v->customer_id && u->month == v->month &&
           strcmp(a->alert, b->alert) == 0;
}

static void seen_name(struct buf *out, const struct call *c) {
    const struct usage_event *u = &c->event->usage;
    buf_reset(out);
    buf_i64(out, u->family_id);
    buf_char(out, '/');
    buf_i64(out, u->customer_id);
    buf_char(out, '/');
    buf_i64(out, u->month);
    buf_char(out, '/');
    buf_str(out, c->alert);
}

/* In the order of the table's key; of several for the same alert, the first event's stays. */
static void sort_and_keep_first(struct calls *c) {
    size_t n = 0;
    qsort(c->items, c->count, sizeof *c->items, by_alert);
    for (size_t i = 0; i < c->count; i++) {
        if (n && same_alert(&c->items[n - 1], &c->items[i]))
            free(c->items[i].alert);
        else
            c->items[n++] = c->items[i];
    }
    c->count = n;
}

/* What the batch's decisions call for and this worker hasn't seen in alert_state; once this is committed it
 * will have. */
static void collect(struct calls *out, struct settle *s, const struct batch *b) {
    struct buf name = {0}, seen = {0};
    *out = (struct calls){.items = mem_alloc(b->count * sizeof *out->items)};
    buf_reset(&s->to_remember);
    for (size_t i = 0; i < b->count; i++) {
        const struct batch_event *e = &b->events[i];
        buf_reset(&name);
        if (!batch_event_decided(e) || !decision_alert_name(&name, &e->decision, &e->usage))
            continue;
        struct call c = {.event = e, .index = i, .alert = name.data};
        seen_name(&seen, &c);
        if (seen_has(&s->told, buf_cstr(&seen)))
            continue;
        buf_append(&s->to_remember, seen.data, seen.len + 1);
        c.alert = mem_strdup(name.data);
        out->items[out->count++] = c;
    }
    buf_free(&name);
    buf_free(&seen);
    sort_and_keep_first(out);
}

static void append_key(struct settle *s, struct buf *sql, const struct call *c, const char *alert) {
    const struct usage_event *u = &c->event->usage;
    char date[PERIOD_DATE_SIZE];
    period_month_date(u->month, date);
    buf_printf(sql, "%lld,%lld,'%s',", (long long)u->family_id, (long long)u->customer_id, date);
    db_quote(s->db, sql, alert, strlen(alert));
    buf_str(sql, ",0");
}

static void append_state_row(struct settle *s, struct buf *sql, const struct call *c, const char *alert,
                             const char *now) {
    buf_char(sql, '(');
    append_key(s, sql, c, alert);
    buf_char(sql, ',');
    db_quote(s->db, sql, c->event->usage.id, strlen(c->event->usage.id));
    buf_printf(sql, ",%lld,%lld,'%s')", (long long)c->event->decision.total_bytes,
               (long long)c->event->decision.remaining_bytes, now);
}

#define STATE_INSERT                                                                                                              \
    "INSERT INTO alert_state (family_id, customer_id, quota_month, alert, arming, event_id, total_quota_bytes, remaining_bytes, " \
    "told_at) VALUES "
#define STATE_KEEP " ON DUPLICATE KEY UPDATE arming = alert_state.arming"

/* Some rows were there: reads which event each belongs to. */
static bool find_told(struct settle *s, struct calls *calls, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_str(&sql, "SELECT family_id, customer_id, quota_month, alert, event_id FROM alert_state WHERE "
                  "(family_id, customer_id, quota_month, alert, arming) IN ");
    for (size_t i = 0; i < calls->count; i++) {
        buf_str(&sql, i ? ",(" : "((");
        append_key(s, &sql, &calls->items[i], calls->items[i].alert);
        buf_char(&sql, ')');
    }
    buf_char(&sql, ')');
    bool ok = db_query(s->db, &sql, &rows, err);
    buf_free(&sql);
    while (ok && db_next(&rows)) {
        struct batch_event key_event = {.usage = {.family_id = db_i64(&rows, 0, 0),
                                                  .customer_id = db_i64(&rows, 1, 0),
                                                  .month = period_date_month(rows.row[2])}};
        for (size_t i = 0; i < calls->count; i++) {
            struct call *c = &calls->items[i];
            const struct call key = {.event = &key_event, .alert = rows.row[3]};
            if (same_alert(c, &key))
                c->told = strcmp(c->event->usage.id, rows.row[4]) == 0;
        }
    }
    db_rows_free(&rows);
    return ok;
}

static bool insert_states(struct settle *s, struct calls *calls, const char *now, struct error *err) {
    struct buf sql = {0};
    buf_str(&sql, STATE_INSERT);
    for (size_t i = 0; i < calls->count; i++) {
        if (i)
            buf_char(&sql, ',');
        append_state_row(s, &sql, &calls->items[i], calls->items[i].alert, now);
        calls->items[i].told = true;
    }
    buf_str(&sql, STATE_KEEP);
    int64_t affected = 0;
    bool ok = db_exec(s->db, &sql, &affected, err);
    buf_free(&sql);
    return ok && (affected == (int64_t)calls->count || find_told(s, calls, err));
}

/* A threshold that is told also marks the higher ones as told, without a
 * notification. Where two of a batch mark the same one, the earlier event does. */
static bool mark_higher(struct settle *s, const struct calls *calls, const char *now, struct error *err) {
    struct calls marks = {.items = mem_alloc(calls->count * s->cfg->threshold_count * sizeof *marks.items)};
    for (size_t i = 0; i < calls->count; i++) {
        const struct call *c = &calls->items[i];
        for (size_t k = 0;
             c->told && c->event->decision.status == STATUS_WARNING && k < s->cfg->threshold_count; k++) {
            char alert[32];
            if (s->cfg->thresholds[k] <= c->event->decision.threshold)
                continue;
            snprintf(alert, sizeof alert, "THRESHOLD:%d", s->cfg->thresholds[k]);
            marks.items[marks.count++] =
                (struct call){.event = c->event, .index = c->index, .alert = mem_strdup(alert)};
        }
    }
    sort_and_keep_first(&marks);
    struct buf sql = {0};
    for (size_t i = 0; i < marks.count; i++) {
        buf_str(&sql, i ? "," : STATE_INSERT);
        append_state_row(s, &sql, &marks.items[i], marks.items[i].alert, now);
    }
    buf_str(&sql, STATE_KEEP);
    bool ok = marks.count == 0 || db_exec(s->db, &sql, NULL, err);
    buf_free(&sql);
    calls_free(&marks);
    return ok;
}

static int by_event(const void *x, const void *y) {
    const struct call *a = x, *b = y;
    return (a->index > b->index) - (a->index < b->index);
}

static struct outbox_row *row_for(struct settle *s, const struct call *c, int64_t now_ms) {
    struct buf payload = {0}, status = {0};
    const struct decision *d = &c->event->decision;
    decision_status_name(&status, d);
    const struct notification n = {
        .event = &c->event->usage,
        .status = buf_cstr(&status),
        .threshold = d->status == STATUS_WARNING ? d->threshold : 0,
        .total_bytes = d->total_bytes,
        .remaining_bytes = d->remaining_bytes,
        .monthly_used_bytes = d->monthly_used_bytes,
        .monthly_limit_bytes = d->monthly_limit_bytes,
    };
    notification_payload(&payload, s->messages, &n);
    struct outbox_row *row = mem_zero(1, sizeof *row);
    row->family_id = c->event->usage.family_id;
    row->event_id = mem_strdup(c->event->usage.id);
    row->payload_json = payload.data; /* taken over */
    char parent[TRACE_PARENT_SIZE];
    if (*batch_event_trace(c->event, parent))
        row->traceparent = mem_strdup(parent);
    row->created_at_ms = now_ms;
    row->lease_end_ms =
        clock_monotonic_ms() + s->cfg->outbox.lease_ms; /* the database's lease ends later than this */
    buf_free(&status);
    return row;
}

static void append_outbox_row(struct settle *s, struct buf *sql, const struct call *c,
                              const struct outbox_row *row, const char *now) {
    buf_char(sql, '(');
    db_quote(s->db, sql, row->event_id, strlen(row->event_id));
    buf_printf(sql, ",%lld,%lld,'PUBLISH_PENDING',", (long long)row->family_id,
               (long long)c->event->usage.customer_id);
    db_quote(s->db, sql, row->payload_json, strlen(row->payload_json));
    buf_printf(sql, ",%lld,UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND,'%s',", (long long)s->lease_owner,
               (long long)s->cfg->outbox.lease_ms * 1000, now);
    if (row->traceparent)
        db_quote(s->db, sql, row->traceparent, strlen(row->traceparent));
    else
        buf_str(sql, "NULL");
    buf_char(sql, ')');
}

/* Rows in event order: their ids say in which order a family was told. */
static bool insert_outbox(struct settle *s, struct calls *calls, const char *now, int64_t now_ms,
                          struct error *err) {
    struct buf sql = {0};
    struct outbox_list born = {0};
    qsort(calls->items, calls->count, sizeof *calls->items, by_event);
    buf_str(
        &sql,
        "INSERT INTO usage_event_outbox (event_id, family_id, customer_id, status, payload_json, lease_owner, lease_until, "
        "created_at, traceparent) VALUES ");
    for (size_t i = 0; i < calls->count; i++) {
        if (!calls->items[i].told)
            continue;
        struct outbox_row *row = row_for(s, &calls->items[i], now_ms);
        if (born.count)
            buf_char(&sql, ',');
        append_outbox_row(s, &sql, &calls->items[i], row, now);
        outbox_list_push(&born, row);
        s->alerted[s->alerted_count++] = calls->items[i].index;
    }
    bool ok = born.count == 0 || db_exec(s->db, &sql, NULL, err);
    buf_free(&sql);
    if (!ok) {
        outbox_list_free(born.head);
        return false;
    }
    int64_t id = db_insert_id(s->db);
    for (struct outbox_row *row = born.head; row; row = row->next, id += db_increment_step(s->db))
        row->outbox_id = id;
    s->born = born;
    return true;
}

bool settle_alerts(struct settle *s, const struct batch *b, int64_t now_ms, struct error *err) {
    struct calls calls;
    char now[PERIOD_UTC_SIZE];
    period_format_utc(now_ms, now);
    collect(&calls, s, b);
    s->alerted = mem_realloc(s->alerted, calls.count * sizeof *s->alerted);
    s->alerted_count = 0;
    bool ok = calls.count == 0 || (insert_states(s, &calls, now, err) && mark_higher(s, &calls, now, err) &&
                                   insert_outbox(s, &calls, now, now_ms, err));
    calls_free(&calls);
    return ok;
}

void settle_alerts_remember(struct settle *s) {
    const char *name = buf_cstr(&s->to_remember);
    for (const char *end = name + s->to_remember.len; name < end; name += strlen(name) + 1)
        seen_add(&s->told, name);
    buf_reset(&s->to_remember);
}

void settle_alerts_find_born(struct settle *s, const struct batch *b) {
    struct calls calls;
    struct error ignored = {0};
    collect(&calls, s, b);
    const char **ids = mem_alloc(calls.count * sizeof *ids);
    for (size_t i = 0; i < calls.count; i++)
        ids[i] = calls.items[i].event->usage.id;
    if (!db_ensure(s->db, &ignored) ||
        !outbox_find_held(s->db, s->lease_owner, ids, calls.count, &s->born, &ignored))
        s->born = (struct outbox_list){0};
    free(ids);
    calls_free(&calls);
}
