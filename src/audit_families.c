/* SPDX-License-Identifier: MIT */
/* Family by family: quotas against the usage that was gathered, alerts against decisions, the outbox against
 * alerts.
 *
 * What MySQL can prove of a threshold that nobody was told: usage_record doesn't keep what was left after an
 * event, and family_quota not what the total was then. But a customer's last allowed event left no more than
 * the total less what the family's events up to it used; and that the total and the thresholds were the
 * present ones is known where an alert was stored with them before. Where that holds a missing row is a lost
 * alert. Where it doesn't, the total may have been cut, or the threshold added, since: it's counted as open.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_internal.h"
#include "event.h"

#define FAMILIES_A_READ 500
/* On top of what a lease and a broker may take before a row that waits is worth a look. */
#define PENDING_NOTE_MS 60000

struct month {
    int32_t month;
    bool has_quota;
    int64_t total, used, sum;
    int64_t known_ms;  /* an alert was stored with the present total at this time; 0: none */
    bool other_totals; /* an alert was stored with another one */
    int64_t last_ms;   /* its last allowed event was settled */
};

struct member {
    int64_t customer, used;
    int32_t month;
    const struct audit_use *use; /* NULL: no usage */
    int lowest_told;             /* threshold; 0: none */
};

struct alert {
    int64_t customer;
    int32_t month;
    int64_t total, remaining, told_ms;
    char *name, *event; /* owned */
    bool has_letter;
};

/* The family in hand. */
struct family {
    int64_t id;
    struct month *months;
    size_t month_count, month_capacity;
    struct member *members;
    size_t member_count, member_capacity;
    struct alert *alerts;
    size_t alert_count, alert_capacity;
    int64_t first_pending; /* outbox_id; 0: none */
    struct audit_order order;
};

/* Rows sorted by family. */
struct cursor {
    struct db_rows rows;
    bool more;
};

struct range {
    struct audit *a;
    struct audit_uses *uses;
    struct audit_calls *calls;
    struct cursor quotas, customers, alerts, letters;
    struct family f;
};

#define ROOM(array, count, capacity)                                                                         \
    do {                                                                                                     \
        if ((count) == (capacity)) {                                                                         \
            (capacity) = (capacity) ? (capacity)*2 : 16;                                                     \
            (array) = mem_realloc((array), (capacity) * sizeof *(array));                                    \
        }                                                                                                    \
    } while (0)

static void cursor_next(struct cursor *c) {
    c->more = db_next(&c->rows);
}

static int64_t family_at(const struct cursor *c) {
    return c->more ? db_i64(&c->rows, 0, 0) : INT64_MAX;
}

/* ---- reading ---- */

static bool load(struct range *g, const char *head, const char *tail, int64_t lo, int64_t hi,
                 struct cursor *c, struct error *err) {
    struct buf sql = {0};
    buf_str(&sql, head);
    audit_where(g->a, &sql, lo, hi);
    buf_str(&sql, tail);
    bool ok = db_query(g->a->db, &sql, &c->rows, err);
    buf_free(&sql);
    if (ok)
        cursor_next(c);
    return ok;
}

static bool load_open(struct range *g, const char *columns, const char *tail, int64_t lo, int64_t hi,
                      struct cursor *c, struct error *err) {
    struct buf head = {0};
    buf_printf(&head, "%s WHERE quota_month >= '%s'", columns, g->a->floor);
    bool ok = load(g, buf_cstr(&head), tail, lo, hi, c, err);
    buf_free(&head);
    return ok;
}

#define OF_ITS_EVENT(t)                                                                                      \
    t ".family_id <=> a.family_id AND " t ".customer_id <=> a.customer_id AND " t                            \
      ".quota_month <=> a.quota_month"

static bool load_range(struct range *g, int64_t lo, int64_t hi, struct error *err) {
    return load_open(g, "SELECT family_id, quota_month, total_quota_bytes, used_bytes FROM family_quota",
                     " ORDER BY family_id", lo, hi, &g->quotas, err) &&
           load_open(g, "SELECT family_id, customer_id, quota_month, monthly_used_bytes FROM customer_quota",
                     " ORDER BY family_id, customer_id", lo, hi, &g->customers, err) &&
           load_open(
               g,
               "SELECT a.family_id, a.customer_id, a.quota_month, a.alert, a.event_id, a.total_quota_bytes, "
               "a.remaining_bytes, a.told_at, " OF_ITS_EVENT("r") ", " OF_ITS_EVENT(
                   "b") ", b.reason, b.app_id, b.remaining_bytes FROM (SELECT * FROM alert_state",
               ") a LEFT JOIN usage_record r ON r.event_id = a.event_id LEFT JOIN usage_block b ON b.event_id = "
               "a.event_id ORDER BY a.family_id, a.customer_id",
               lo, hi, &g->alerts, err) &&
           load(
               g,
               "SELECT o.family_id, o.outbox_id, o.customer_id, o.event_id, o.status, o.payload_json, o.created_at, "
               "o.last_error, COALESCE(r.quota_month, b.quota_month), o.retried_at FROM (SELECT * FROM usage_event_outbox WHERE "
               "status IN ('PUBLISH_PENDING', 'SENT', 'FAILED')",
               ") o LEFT JOIN usage_record r ON r.event_id = o.event_id LEFT JOIN usage_block b ON b.event_id = "
               "o.event_id ORDER BY o.family_id, o.outbox_id",
               lo, hi, &g->letters, err);
}

static void unload_range(struct range *g) {
    struct cursor *all[] = {&g->quotas, &g->customers, &g->alerts, &g->letters};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        db_rows_free(&all[i]->rows);
        all[i]->more = false;
    }
}

/* Once an audit: since when each threshold of the configuration is known to be in force. */
static bool thresholds_in_force(struct audit *a, struct error *err) {
    struct db_rows rows;
    if (!db_query_text(
            a->db,
            "SELECT alert, MIN(told_at) FROM alert_state WHERE alert LIKE 'THRESHOLD:%' GROUP BY alert",
            &rows, err))
        return false;
    while (db_next(&rows)) {
        for (size_t i = 0; i < a->cfg->threshold_count; i++) {
            if (a->cfg->thresholds[i] == audit_alert_threshold(rows.row[0]) &&
                !period_parse_utc(rows.row[1], &a->in_force_ms[i]))
                a->in_force_ms[i] = 0;
        }
    }
    db_rows_free(&rows);
    return true;
}

/* ---- a family's rows ---- */

static struct month *month_of(struct family *f, int32_t month) {
    for (size_t i = 0; i < f->month_count; i++) {
        if (f->months[i].month == month)
            return &f->months[i];
    }
    ROOM(f->months, f->month_count, f->month_capacity);
    f->months[f->month_count] = (struct month){.month = month};
    return &f->months[f->month_count++];
}

static void take_quota(struct range *g) {
    const struct db_rows *rows = &g->quotas.rows;
    struct month *m = month_of(&g->f, period_date_month(rows->row[1]));
    m->has_quota = true;
    m->total = db_i64(rows, 2, 0);
    m->used = db_i64(rows, 3, 0);
}

static void take_customer(struct range *g) {
    const struct db_rows *rows = &g->customers.rows;
    struct member c = {
        .customer = db_i64(rows, 1, 0), .month = period_date_month(rows->row[2]), .used = db_i64(rows, 3, 0)};
    struct audit_use *use = audit_uses_find(g->uses, g->f.id, c.customer, c.month);
    struct month *m = month_of(&g->f, c.month);
    if (use)
        use->seen = true;
    if (use && use->records && use->last.settled_ms > m->last_ms)
        m->last_ms = use->last.settled_ms;
    c.use = use;
    m->sum += c.used;
    ROOM(g->f.members, g->f.member_count, g->f.member_capacity);
    g->f.members[g->f.member_count++] = c;
}

/* What is wrong with an alert by its event's row; NULL: nothing. */
static const char *alert_fault(const struct db_rows *rows, const struct alert *al) {
    int n = audit_alert_threshold(al->name);
    if (n) {
        if (!db_i64(rows, 8, 0))
            return "its event isn't settled for this customer and month";
        return al->total < 0 || al->total > EVENT_AMOUNT_MAX || al->remaining < 0 ||
                       al->remaining > al->total || al->remaining * 100 > al->total * n
                   ? "the threshold wasn't reached"
                   : NULL;
    }
    if (!db_i64(rows, 9, 0))
        return "its event isn't blocked for this customer and month";
    struct buf name = {0};
    audit_block_alert(&name, rows->row[10], rows->row[11]);
    bool same = strcmp(buf_cstr(&name), al->name) == 0;
    buf_free(&name);
    if (!same)
        return "its event is blocked for another reason";
    return db_i64(rows, 12, 0) != al->remaining ? "its event was decided on another figure" : NULL;
}

static void note_told(struct family *f, const struct alert *al) {
    int n = audit_alert_threshold(al->name);
    struct month *m = month_of(f, al->month);
    if (!m->has_quota || al->total != m->total)
        m->other_totals = true;
    else if (m->known_ms == 0 || al->told_ms < m->known_ms)
        m->known_ms = al->told_ms;
    for (size_t i = 0; n && i < f->member_count; i++) {
        struct member *c = &f->members[i];
        if (c->customer == al->customer && c->month == al->month &&
            (c->lowest_told == 0 || n < c->lowest_told))
            c->lowest_told = n;
    }
}

static void take_alert(struct range *g) {
    const struct db_rows *rows = &g->alerts.rows;
    struct audit_report *r = g->a->r;
    struct alert al = {
        .customer = db_i64(rows, 1, 0),
        .month = period_date_month(rows->row[2]),
        .name = mem_strdup(rows->row[3]),
        .event = mem_strdup(rows->row[4]),
        .total = db_i64(rows, 5, 0),
        .remaining = db_i64(rows, 6, 0),
    };
    if (!period_parse_utc(rows->row[7], &al.told_ms))
        al.told_ms = 0;
    struct buf name = {0};
    audit_call_name(&name, g->f.id, al.customer, al.month, al.name);
    audit_calls_answer(g->calls, buf_cstr(&name));
    const char *fault = alert_fault(rows, &al);
    r->findings[AUDIT_ALERTS].looked++;
    if (fault)
        audit_break(r, AUDIT_ALERTS, "%s: %s (event %s)", buf_cstr(&name), fault, al.event);
    buf_free(&name);
    note_told(&g->f, &al);
    ROOM(g->f.alerts, g->f.alert_count, g->f.alert_capacity);
    g->f.alerts[g->f.alert_count++] = al;
}

/* ---- sums and thresholds ---- */

static void judge_member(struct range *g, const struct member *c) {
    struct audit_report *r = g->a->r;
    int64_t sum = c->use ? c->use->bytes : 0;
    r->findings[AUDIT_CUSTOMER_SUMS].looked++;
    if (sum != c->used)
        audit_break(r, AUDIT_CUSTOMER_SUMS,
                    "family %lld, customer %lld, %d: used %lld, the records add up to %lld",
                    (long long)g->f.id, (long long)c->customer, c->month, (long long)c->used, (long long)sum);
    if (!c->use || !c->use->blocks)
        return;
    if (c->use->partition < 0 || c->use->unordered) {
        audit_leave_open(r, AUDIT_BLOCK_BASES, 1, "events came by several partitions, or after a rewind");
        return;
    }
    r->findings[AUDIT_BLOCK_BASES].looked++;
    if (c->use->block_monthly != c->use->bytes_before_block)
        audit_break(
            r, AUDIT_BLOCK_BASES,
            "family %lld, customer %lld, %d: blocked at offset %lld of partition %d as if %lld were used, and "
            "the records before it add up to %lld",
            (long long)g->f.id, (long long)c->customer, c->month, (long long)c->use->block.offset,
            c->use->partition, (long long)c->use->block_monthly, (long long)c->use->bytes_before_block);
}

/* Whether an alert shows that the total was the present one before that time, and none that it was another.
 */
static bool total_is_known(const struct month *m, int64_t at_ms) {
    return m->known_ms && m->known_ms <= at_ms && !m->other_totals;
}

static bool threshold_is_known(const struct audit *a, int threshold, int64_t at_ms) {
    for (size_t i = 0; i < a->cfg->threshold_count; i++) {
        if (a->cfg->thresholds[i] == threshold)
            return a->in_force_ms[i] && a->in_force_ms[i] <= at_ms;
    }
    return false;
}

static void judge_month(struct range *g, const struct month *m) {
    struct audit_report *r = g->a->r;
    r->findings[AUDIT_FAMILY_SUMS].looked++;
    if (!m->has_quota)
        audit_break(r, AUDIT_FAMILY_SUMS, "family %lld, %d: no quota row, its customers used %lld",
                    (long long)g->f.id, m->month, (long long)m->sum);
    else if (m->used != m->sum)
        audit_break(r, AUDIT_FAMILY_SUMS, "family %lld, %d: used %lld, its customers' add up to %lld",
                    (long long)g->f.id, m->month, (long long)m->used, (long long)m->sum);
    if (!m->has_quota)
        return;
    if (m->used > m->total && !total_is_known(m, m->last_ms)) {
        audit_leave_open(r, AUDIT_FAMILY_USED, 1,
                         "more is used than the present total: it was cut, as far as MySQL can tell");
        audit_name_open(r, AUDIT_FAMILY_USED, "family %lld, %d: %lld of %lld", (long long)g->f.id, m->month,
                        (long long)m->used, (long long)m->total);
        return;
    }
    r->findings[AUDIT_FAMILY_USED].looked++;
    if (m->used > m->total || m->used < 0)
        audit_break(r, AUDIT_FAMILY_USED, "family %lld, %d: used %lld of %lld", (long long)g->f.id, m->month,
                    (long long)m->used, (long long)m->total);
}

static void judge_threshold(struct range *g, const struct member *c, const struct month *m) {
    struct audit_report *r = g->a->r;
    int64_t used = c->use->bytes + c->use->others_before, at_ms = c->use->last.settled_ms;
    int due = audit_threshold_due(g->a->cfg, m->total, used);
    if (due == 0)
        return;
    bool told = c->lowest_told && c->lowest_told <= due;
    if (told || (total_is_known(m, at_ms) && threshold_is_known(g->a, due, at_ms))) {
        r->findings[AUDIT_THRESHOLDS_TOLD].looked++;
        if (!told)
            audit_break(
                r, AUDIT_THRESHOLDS_TOLD,
                "family %lld, customer %lld, %d: THRESHOLD:%d isn't told, with at least %lld of %lld used",
                (long long)g->f.id, (long long)c->customer, m->month, due, (long long)used,
                (long long)m->total);
        return;
    }
    audit_leave_open(
        r, AUDIT_THRESHOLDS_TOLD, 1,
        "nobody told them: the total was cut or the threshold added since, as far as MySQL can tell");
    audit_name_open(r, AUDIT_THRESHOLDS_TOLD, "family %lld, customer %lld, %d: THRESHOLD:%d",
                    (long long)g->f.id, (long long)c->customer, m->month, due);
}

static void judge_thresholds(struct range *g, const struct month *m) {
    for (size_t i = 0; m->has_quota && i < g->f.member_count; i++) {
        const struct member *c = &g->f.members[i];
        if (c->month == m->month && c->use && c->use->records)
            judge_threshold(g, c, m);
    }
}

/* ---- the outbox ---- */

static void judge_letter_alert(struct range *g, const struct db_rows *rows, const char *event) {
    struct family *f = &g->f;
    struct audit_report *r = g->a->r;
    struct buf name = {0};
    bool stored = false;
    bool tells = audit_payload_alert(&name, rows->row[5], rows->lengths[5]);
    for (size_t i = 0; i < f->alert_count; i++) {
        struct alert *al = &f->alerts[i];
        if (strcmp(al->event, event) != 0 || al->customer != db_i64(rows, 2, -1))
            continue;
        al->has_letter = true;
        stored = stored || (tells && strcmp(al->name, buf_cstr(&name)) == 0);
    }
    bool closed = g->a->months_closed && (!rows->row[8] || strcmp(rows->row[8], g->a->floor) < 0);
    if (!stored && closed) {
        audit_leave_open(r, AUDIT_OUTBOX, 1, "their months are closed");
    } else {
        r->findings[AUDIT_OUTBOX].looked++;
        if (!stored)
            audit_break(r, AUDIT_OUTBOX, "family %lld, event %s: tells %s, which isn't stored as its alert",
                        (long long)f->id, event, tells ? buf_cstr(&name) : "nothing");
    }
    buf_free(&name);
}

static void judge_letter_state(struct range *g, const struct db_rows *rows, const struct audit_letter *l) {
    struct audit *a = g->a;
    struct audit_finding *pending = &a->r->findings[AUDIT_PENDING];
    struct family *f = &g->f;
    if (strcmp(l->status, "PUBLISH_PENDING") == 0) {
        int64_t age = a->now_ms - l->created_ms;
        pending->looked++;
        if (age > a->oldest_pending_ms)
            a->oldest_pending_ms = age;
        if (age > a->cfg->outbox.lease_ms + a->cfg->kafka.message_timeout_ms + PENDING_NOTE_MS)
            audit_note(a->r, AUDIT_PENDING, "family %lld, event %s: waits for %lld s", (long long)l->family,
                       l->event_id, (long long)age / 1000);
        if (f->first_pending == 0 && !l->retried) /* later ones went while it was FAILED */
            f->first_pending = l->id;
    } else if (strcmp(l->status, "FAILED") == 0) {
        const char *why = rows->row[7] ? rows->row[7] : "";
        a->r->findings[AUDIT_FAILED].looked++;
        if (!*why)
            audit_break(a->r, AUDIT_FAILED, "family %lld, event %s: FAILED without an error",
                        (long long)l->family, l->event_id);
        else
            audit_note(a->r, AUDIT_FAILED, "family %lld, event %s: %s", (long long)l->family, l->event_id,
                       why);
    } else {
        a->r->findings[AUDIT_ORDER].looked++;
        if (f->first_pending)
            audit_break(a->r, AUDIT_ORDER,
                        "family %lld, event %s: SENT (row %lld), and row %lld before it waits",
                        (long long)l->family, l->event_id, (long long)l->id, (long long)f->first_pending);
    }
}

static void take_letter(struct range *g) {
    const struct db_rows *rows = &g->letters.rows;
    struct audit_letter l = {
        .family = g->f.id,
        .id = db_i64(rows, 1, 0),
        .event_id = rows->row[3],
        .status = rows->row[4],
        .payload = rows->row[5],
        .payload_len = rows->lengths[5],
        .retried = rows->row[9] != NULL,
    };
    if (!period_parse_utc(rows->row[6], &l.created_ms))
        l.created_ms = 0;
    judge_letter_alert(g, rows, l.event_id);
    judge_letter_state(g, rows, &l);
    audit_topic_letter(g->a, &l, &g->f.order);
}

static void judge_alerts_have_letters(struct range *g) {
    for (size_t i = 0; i < g->f.alert_count; i++) {
        const struct alert *al = &g->f.alerts[i];
        if (!al->has_letter && al->told_ms < g->a->sent_pruned_ms) {
            g->a->r->findings[AUDIT_ALERTS].looked--;
            audit_leave_open(g->a->r, AUDIT_ALERTS, 1, "their rows in the outbox may be pruned");
        } else if (!al->has_letter) {
            audit_break(g->a->r, AUDIT_ALERTS,
                        "family %lld, customer %lld, %d: %s: the outbox has no row of event %s",
                        (long long)g->f.id, (long long)al->customer, al->month, al->name, al->event);
        }
    }
}

/* ---- all of them ---- */

static void empty_family(struct family *f, int64_t id) {
    for (size_t i = 0; i < f->alert_count; i++) {
        free(f->alerts[i].name);
        free(f->alerts[i].event);
    }
    f->id = id;
    f->month_count = f->member_count = f->alert_count = 0;
    f->first_pending = 0;
    f->order = (struct audit_order){.partition = -1};
}

static void family_whole(struct range *g, int64_t id) {
    empty_family(&g->f, id);
    for (; family_at(&g->quotas) == id; cursor_next(&g->quotas))
        take_quota(g);
    for (; family_at(&g->customers) == id; cursor_next(&g->customers))
        take_customer(g);
    for (; family_at(&g->alerts) == id; cursor_next(&g->alerts))
        take_alert(g);
    for (; family_at(&g->letters) == id; cursor_next(&g->letters))
        take_letter(g);
    for (size_t i = 0; i < g->f.member_count; i++)
        judge_member(g, &g->f.members[i]);
    for (size_t i = 0; i < g->f.month_count; i++) {
        judge_month(g, &g->f.months[i]);
        judge_thresholds(g, &g->f.months[i]);
    }
    judge_alerts_have_letters(g);
}

static int64_t next_family(const struct range *g) {
    const struct cursor *all[] = {&g->quotas, &g->customers, &g->alerts, &g->letters};
    int64_t lowest = INT64_MAX;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (family_at(all[i]) < lowest)
            lowest = family_at(all[i]);
    }
    return lowest;
}

static bool range_end(struct audit *a, int64_t lo, int64_t slice_hi, int64_t *hi, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    *hi = slice_hi;
    if (a->options.family)
        return true;
    buf_printf(
        &sql,
        "SELECT family_id FROM family_quota WHERE family_id > %lld AND family_id <= %lld ORDER BY family_id "
        "LIMIT 1 OFFSET %d",
        (long long)lo, (long long)slice_hi, FAMILIES_A_READ - 1);
    bool ok = db_query(a->db, &sql, &rows, err);
    buf_free(&sql);
    if (ok && db_next(&rows))
        *hi = db_i64(&rows, 0, slice_hi);
    db_rows_free(&rows);
    return ok;
}

/* Usage of customers whose quota has no row. */
static void judge_rest(struct audit *a, const struct audit_uses *uses) {
    for (size_t i = 0; i < uses->count; i++) {
        const struct audit_use *u = &uses->items[i];
        if (u->seen)
            continue;
        a->r->findings[AUDIT_CUSTOMER_SUMS].looked++;
        audit_break(a->r, AUDIT_CUSTOMER_SUMS,
                    "family %lld, customer %lld, %d: no quota row, the records add up to %lld",
                    (long long)u->family, (long long)u->customer, u->month, (long long)u->bytes);
    }
}

bool audit_families(struct audit *a, struct audit_uses *uses, struct audit_calls *calls, int64_t lo,
                    int64_t hi, struct error *err) {
    struct range g = {.a = a, .uses = uses, .calls = calls};
    bool ok = thresholds_in_force(a, err);
    for (int64_t from = lo, to = lo; ok && to < hi; from = to) {
        ok = range_end(a, from, hi, &to, err) && load_range(&g, from, to, err);
        for (int64_t id; ok && (id = next_family(&g)) != INT64_MAX;)
            family_whole(&g, id);
        unload_range(&g);
    }
    empty_family(&g.f, 0);
    free(g.f.months);
    free(g.f.members);
    free(g.f.alerts);
    if (ok)
        judge_rest(a, uses);
    if (a->r->findings[AUDIT_PENDING].looked)
        snprintf(a->r->findings[AUDIT_PENDING].detail, sizeof a->r->findings[AUDIT_PENDING].detail,
                 "the oldest for %lld s", (long long)(a->oldest_pending_ms / 1000));
    return ok;
}
