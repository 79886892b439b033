/* SPDX-License-Identifier: MIT */
#include "model_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "model_json.h"
#include "scenario_base.h"

#define AHEAD_MS INT64_C(300000)

const int model_thresholds[MODEL_THRESHOLDS] = {10, 30, 50};

const char *model_outcome_name(enum model_outcome outcome) {
    static const char *const names[] = {"settled", "blocked", "duplicate", "rejected", "ignored"};
    return names[outcome];
}

/* ---- rows by their keys ---- */

__attribute__((format(printf, 2, 3))) static void *find(const struct model_list *list, const char *fmt, ...) {
    char key[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(key, sizeof key, fmt, ap);
    va_end(ap);
    int64_t at = sc_map_get(list->index, key, -1);
    return at < 0 ? NULL : (char *)list->items + (size_t)at * list->size;
}

/* A row of zeros at the end, found by that key from now on. */
__attribute__((format(printf, 2, 3))) static void *add(struct model_list *list, const char *fmt, ...) {
    char key[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(key, sizeof key, fmt, ap);
    va_end(ap);
    sc_map_set(list->index, key, (int64_t)list->count);
    list->items = mem_realloc(list->items, (list->count + 1) * list->size);
    char *row = (char *)list->items + list->count++ * list->size;
    memset(row, 0, list->size);
    return row;
}

static struct model_list list_of(size_t size) {
    return (struct model_list){.size = size, .index = json_object()};
}

static void list_free(struct model_list *list) {
    free(list->items);
    json_decref(list->index);
}

struct model *model_new(void) {
    struct model *m = mem_zero(1, sizeof *m);
    m->families = list_of(sizeof(struct model_family));
    m->quotas = list_of(sizeof(struct model_quota));
    m->customers = list_of(sizeof(struct model_customer));
    m->rules = list_of(sizeof(struct model_rule));
    m->alerts = list_of(sizeof(struct model_alert));
    m->decisions = list_of(sizeof(struct model_decision));
    m->told = list_of(sizeof(size_t));
    m->members = json_object();
    return m;
}

void model_free(struct model *m) {
    if (!m)
        return;
    for (size_t i = 0; i < m->families.count; i++)
        free(MODEL_AT(m->families, struct model_family, i)->name);
    for (size_t i = 0; i < m->rules.count; i++)
        free(MODEL_AT(m->rules, struct model_rule, i)->text);
    for (size_t i = 0; i < m->alerts.count; i++)
        free(MODEL_AT(m->alerts, struct model_alert, i)->kind);
    for (size_t i = 0; i < m->decisions.count; i++)
        model_event_free(&MODEL_AT(m->decisions, struct model_decision, i)->event);
    list_free(&m->families);
    list_free(&m->quotas);
    list_free(&m->customers);
    list_free(&m->rules);
    list_free(&m->alerts);
    list_free(&m->decisions);
    list_free(&m->told);
    json_decref(m->members);
    free(m);
}

const struct model_decision *model_decided(const struct model *m, const char *id) {
    return find(&m->decisions, "%s", id);
}

const struct model_quota *model_quota_of(const struct model *m, int64_t family, int month) {
    return find(&m->quotas, "%ld/%d", family, month);
}

const struct model_quota *model_quota_carried(const struct model *m, int64_t family, int month) {
    const struct model_quota *best = NULL;
    for (size_t i = 0; i < m->quotas.count; i++) {
        const struct model_quota *q = MODEL_AT(m->quotas, struct model_quota, i);
        if (q->family == family && q->month <= month && (!best || q->month > best->month))
            best = q;
    }
    return best;
}

const struct model_customer *model_customer_of(const struct model *m, int64_t family, int64_t customer,
                                               int month) {
    return find(&m->customers, "%ld/%ld/%d", family, customer, month);
}

bool model_is_member(const struct model *m, int64_t family, int64_t customer) {
    char key[64];
    snprintf(key, sizeof key, "%ld/%ld", family, customer);
    return sc_map_get(m->members, key, 0) == 1;
}

/* ---- what others change ---- */

static void rule_change(struct model *m, const char *line) {
    struct model_rule r = {0};
    int active, text = 0;
    if (sscanf(line, "%ld %ld %ld %32s %d %ld %n", &r.id, &r.family, &r.customer, r.type, &active,
               &r.updated_ms, &text) != 6 ||
        !text)
        sc_die("no rule: %s", line);
    r.active = active;
    r.text = mem_strdup(line + text);
    struct model_rule *row = find(&m->rules, "%ld", r.id);
    if (!row)
        row = add(&m->rules, "%ld", r.id);
    free(row->text);
    *row = r;
}

static void quota_change(struct model *m, const char *line) {
    int64_t family, total;
    int year, month;
    if (sscanf(line, "%ld %d-%d %ld", &family, &year, &month, &total) != 4)
        sc_die("no quota: %s", line);
    month += year * 12 - 1;
    struct model_quota *q = find(&m->quotas, "%ld/%d", family, month);
    if (!q)
        q = add(&m->quotas, "%ld/%d", family, month);
    *q = (struct model_quota){family, month, total, q->used};
}

static void member_change(struct model *m, const char *line, int is) {
    int64_t family, customer;
    char key[64];
    if (sscanf(line, "%ld %ld", &family, &customer) != 2)
        sc_die("no member: %s", line);
    snprintf(key, sizeof key, "%ld/%ld", family, customer);
    sc_map_set(m->members, key, is);
}

static void family_change(struct model *m, const char *line) {
    int64_t id;
    int name = 0;
    if (sscanf(line, "%ld %n", &id, &name) != 1)
        sc_die("no family: %s", line);
    struct model_family *f = add(&m->families, "%ld", id);
    *f = (struct model_family){id, mem_strdup(line + name)};
}

void model_change(struct model *m, const char *line) {
    char what[16];
    int rest = 0, year, month;
    if (sscanf(line, "%15s %n", what, &rest) != 1 || !rest)
        sc_die("no change: %s", line);
    if (strcmp(what, "family") == 0)
        family_change(m, line + rest);
    else if (strcmp(what, "member") == 0)
        member_change(m, line + rest, 1);
    else if (strcmp(what, "unmember") == 0)
        member_change(m, line + rest, 0);
    else if (strcmp(what, "quota") == 0)
        quota_change(m, line + rest);
    else if (strcmp(what, "rule") == 0)
        rule_change(m, line + rest);
    else if (strcmp(what, "floor") == 0 && sscanf(line + rest, "%d-%d", &year, &month) == 2)
        m->floor = year * 12 + month - 1;
    else if (strcmp(what, "refuse") == 0)
        m->refused = strtoll(line + rest, NULL, 10);
    else
        sc_die("no such change: %s", line);
}

/* ---- rules (CONTRACT §4) ---- */

static bool minute_read(const struct mj *v, int *out) {
    const char *s = v && v->kind == MJ_TEXT ? v->text : "";
    size_t n = strlen(s), colon = n == 5 && s[2] == ':' ? 1 : 0;
    int64_t hour, minute;
    if (n - colon != 4)
        return false;
    for (size_t i = 0; i < n; i++) {
        if ((s[i] < '0' || s[i] > '9') && !(colon && i == 2))
            return false;
    }
    hour = (s[0] - '0') * 10 + (s[1] - '0');
    minute = (s[2 + colon] - '0') * 10 + (s[3 + colon] - '0');
    *out = (int)(hour * 60 + minute);
    return hour <= 23 && minute <= 59;
}

static bool limit_read(const struct mj *v, int64_t *out) {
    if (v && v->kind == MJ_TEXT)
        return model_digits(v->text, v->len, 0, out);
    if (!v || v->kind != MJ_INTEGER)
        return false;
    *out = v->number;
    return v->number >= 0 && v->number <= MODEL_AMOUNT_MAX;
}

static bool apps_read(const struct mj *list, json_t *apps) {
    if (!list || list->kind != MJ_LIST)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i]->kind != MJ_TEXT)
            return false;
        char *app = model_trimmed(list->items[i]->text);
        if (*app)
            sc_map_set(apps, app, 1);
        free(app);
    }
    return true;
}

static bool reason_read(const struct mj *reason) {
    return !reason || reason->kind == MJ_TEXT || reason->kind == MJ_NULL;
}

/* Takes one rule into account; false when it can't be read. */
static bool rule_read(const struct model_rule *rule, struct model_rules *out) {
    struct mj *doc = mj_parse(rule->text, strlen(rule->text));
    bool ok = doc && doc->kind == MJ_OBJECT;
    if (ok && strcmp(rule->type, "MANUAL_BLOCK") == 0) {
        ok = reason_read(mj_member(doc, "reason"));
        out->manual = true;
    } else if (ok && strcmp(rule->type, "APP_BLOCK") == 0) {
        ok = apps_read(mj_member(doc, "blockedApps"), out->apps);
    } else if (ok && strcmp(rule->type, "TIME_BLOCK") == 0) {
        ok = minute_read(mj_member(doc, "start"), &out->from) && minute_read(mj_member(doc, "end"), &out->to);
    } else if (ok && strcmp(rule->type, "MONTHLY_LIMIT") == 0) {
        ok = limit_read(mj_member(doc, "limitBytes"), &out->limit);
    } else {
        ok = false; /* a rule of an unknown type can't be read either */
    }
    mj_free(doc);
    return ok;
}

static bool applies(const struct model_rule *r, int64_t family, int64_t customer) {
    return r->active && r->family == family && (r->customer == customer || r->customer == MODEL_EVERYBODY);
}

/* A customer's own rule before the family's, the newer before the older. */
static bool goes_before(const struct model_rule *a, const struct model_rule *b) {
    if (a->customer != b->customer)
        return a->customer != MODEL_EVERYBODY;
    return a->updated_ms != b->updated_ms ? a->updated_ms > b->updated_ms : a->id > b->id;
}

static bool overruled(const struct model *m, const struct model_rule *r, int64_t customer) {
    for (size_t i = 0; i < m->rules.count; i++) {
        const struct model_rule *other = MODEL_AT(m->rules, struct model_rule, i);
        if (other != r && applies(other, r->family, customer) && strcmp(other->type, r->type) == 0 &&
            goes_before(other, r))
            return true;
    }
    return false;
}

struct model_rules model_rules_of(const struct model *m, int64_t family, int64_t customer) {
    struct model_rules out = {.from = -1, .to = -1, .limit = -1, .apps = json_object()};
    for (size_t i = 0; i < m->rules.count; i++) {
        const struct model_rule *r = MODEL_AT(m->rules, struct model_rule, i);
        if (!applies(r, family, customer))
            continue;
        if (strcmp(r->type, "APP_BLOCK") != 0 && overruled(m, r, customer))
            continue;
        if (!rule_read(r, &out))
            out.unreadable = true;
    }
    return out;
}

void model_rules_free(struct model_rules *rules) {
    json_decref(rules->apps);
    *rules = (struct model_rules){0};
}

/* ---- a decision (CONTRACT §2) ---- */

bool model_reached(int64_t remaining, int64_t total, int n) {
    return (__int128)remaining * 100 <= (__int128)total * n;
}

static bool in_block(const struct model_rules *rules, int minute) {
    if (rules->from < 0)
        return false;
    if (rules->from == rules->to)
        return true;
    if (rules->from < rules->to)
        return minute >= rules->from && minute < rules->to;
    return minute >= rules->from || minute < rules->to;
}

static const char *block_reason(const struct model_rules *rules, const struct model_event *e,
                                int64_t remaining, int64_t used) {
    if (rules->manual)
        return "MANUAL";
    if (e->app && json_object_get(rules->apps, e->app))
        return "APP_BLOCK";
    if (in_block(rules, model_minute(e->time_ms)))
        return "TIME_BLOCK";
    if (rules->limit >= 0 && used + e->bytes > rules->limit)
        return "MONTHLY_LIMIT_EXCEEDED";
    return remaining < e->bytes ? "FAMILY_QUOTA_EXCEEDED" : NULL;
}

char *model_alert_kind(const char *reason, int threshold, const char *app) {
    struct buf kind = {0};
    if (!reason)
        buf_printf(&kind, "THRESHOLD:%d", threshold);
    else
        buf_str(&kind, reason);
    if (reason && strcmp(reason, "APP_BLOCK") == 0) {
        buf_char(&kind, ':');
        for (const unsigned char *s = (const unsigned char *)app; *s; s++) {
            bool plain = (*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') ||
                         strchr("._-", *s);
            buf_printf(&kind, plain ? "%c" : "%%%02X", *s);
        }
    }
    return kind.data;
}

/* Notes an alert of that kind, unless the customer was told it this month. Takes `kind`. */
static bool alert_note(struct model *m, const struct model_decision *d, char *kind) {
    const struct model_event *e = &d->event;
    if (find(&m->alerts, "%ld/%ld/%d/%s", e->family, e->customer, d->month, kind)) {
        free(kind);
        return false;
    }
    struct model_alert *a = add(&m->alerts, "%ld/%ld/%d/%s", e->family, e->customer, d->month, kind);
    *a = (struct model_alert){e->family, e->customer, d->month, kind, e->id, d->total, d->remaining};
    return true;
}

static void tell(struct model *m, struct model_decision *d, size_t number) {
    if (!d->reason && !d->threshold)
        return;
    d->told = alert_note(m, d, model_alert_kind(d->reason, d->threshold, d->event.app));
    if (!d->told)
        return;
    for (size_t i = 0; !d->reason && i < MODEL_THRESHOLDS; i++) {
        if (model_thresholds[i] > d->threshold)
            alert_note(m, d, model_alert_kind(NULL, model_thresholds[i], NULL));
    }
    size_t *told = add(&m->told, "%zu", number);
    *told = number;
}

static void block_state(struct model_customer *c, const struct model_decision *d, bool first) {
    if (!first && d->event.time_ms < c->state_ms)
        return;
    c->reason = d->reason;
    c->state_ms = d->event.time_ms;
}

/* The event's decision, with the figures it leaves. Takes the event. */
static enum model_outcome decide(struct model *m, struct model_event *e, int month, struct model_quota *q,
                                 const struct model_rules *rules, size_t delivery) {
    struct model_customer *c = find(&m->customers, "%ld/%ld/%d", e->family, e->customer, month);
    bool first = !c;
    if (first) {
        c = add(&m->customers, "%ld/%ld/%d", e->family, e->customer, month);
        *c = (struct model_customer){.family = e->family, .customer = e->customer, .month = month};
    }
    size_t number = m->decisions.count;
    struct model_decision *d = add(&m->decisions, "%s", e->id);
    *d = (struct model_decision){.event = *e, .month = month, .delivery = delivery, .limit = rules->limit};
    d->reason = block_reason(rules, e, q->total - q->used, c->used);
    if (!d->reason) {
        q->used += e->bytes;
        c->used += e->bytes;
    }
    d->total = q->total;
    d->remaining = q->total - q->used;
    d->used = c->used;
    for (size_t i = MODEL_THRESHOLDS; !d->reason && i > 0; i--) {
        if (model_reached(d->remaining, d->total, model_thresholds[i - 1]))
            d->threshold = model_thresholds[i - 1];
    }
    block_state(c, d, first);
    tell(m, d, number);
    return d->reason ? MODEL_BLOCKED : MODEL_SETTLED;
}

/* Check 9: the code, or NULL; then the month has its row. */
static const char *admitted(struct model *m, const struct model_event *e, int month,
                            struct model_quota **quota) {
    if (!find(&m->families, "%ld", e->family))
        return "UNKNOWN_FAMILY";
    if (!model_is_member(m, e->family, e->customer))
        return "NOT_A_MEMBER";
    const struct model_quota *from = model_quota_carried(m, e->family, month);
    if (!from || from->total > MODEL_AMOUNT_MAX)
        return "UNKNOWN_FAMILY";
    int64_t total = from->total;
    *quota = find(&m->quotas, "%ld/%d", e->family, month);
    if (!*quota) {
        *quota = add(&m->quotas, "%ld/%d", e->family, month);
        **quota = (struct model_quota){.family = e->family, .month = month, .total = total};
    }
    return NULL;
}

/* Checks 7 to 9 and the decision. Takes the event's insides when it's decided. */
static struct model_verdict judge(struct model *m, struct model_event *e, int64_t record_ms,
                                  size_t delivery) {
    int month = model_month(e->time_ms);
    struct model_verdict v = {.outcome = MODEL_REJECTED};
    if (e->time_ms > record_ms + AHEAD_MS) {
        v.code = "EVENT_IN_FUTURE";
        return v;
    }
    if (month < model_month(record_ms) - 1 || month < m->floor) {
        v.code = "EVENT_TOO_OLD";
        return v;
    }
    const struct model_decision *known = model_decided(m, e->id);
    if (known) {
        bool same = known->event.family == e->family && known->event.customer == e->customer &&
                    known->event.bytes == e->bytes;
        v.outcome = same ? MODEL_DUPLICATE : MODEL_REJECTED;
        v.code = "ID_CONFLICT";
        return v;
    }
    struct model_quota *quota = NULL;
    v.code = admitted(m, e, month, &quota);
    if (v.code)
        return v;
    struct model_rules rules = model_rules_of(m, e->family, e->customer);
    if (rules.unreadable) {
        v.code = "POLICY_UNREADABLE";
    } else if (m->refused && e->bytes == m->refused) {
        v.code = "SETTLEMENT_REJECTED";
    } else {
        v.outcome = decide(m, e, month, quota, &rules, delivery);
        *e = (struct model_event){0};
    }
    model_rules_free(&rules);
    return v;
}

struct model_verdict model_take(struct model *m, const char *value, size_t len, int64_t record_ms,
                                size_t delivery) {
    struct model_event event;
    struct model_verdict v = {.outcome = MODEL_REJECTED};
    enum model_reading reading = model_event_read(value, len, record_ms, &event, &v.code, &v.member);
    if (reading == MODEL_USAGE)
        v = judge(m, &event, record_ms, delivery);
    else if (reading == MODEL_OTHER_TYPE)
        v.outcome = MODEL_IGNORED;
    model_event_free(&event);
    return v;
}
