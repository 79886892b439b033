/* SPDX-License-Identifier: MIT */
/* MySQL is asked first, since its rows and its ledger are one view: a record that lies below the ledger's
 * next offset has its row in it, or its rejection in the DLT by then, as both come before the ledger moves.
 */
#include "explain.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "mysql_db.h"
#include "period.h"

#define FIRST_MONTH 197001 /* usage_floor as it's made: no month was ever closed */

/* ---- names ---- */

const char *explain_verdict_name(enum explain_verdict v) {
    static const char *const names[] = {
        "settled", "settled_with_warning", "blocked",    "pruned",       "rejected", "waiting",
        "ignored", "unaccounted",          "never_seen", "undetermined",
    };
    return names[v];
}

const char *explain_fate_name(enum explain_fate f) {
    static const char *const names[] = {"decided", "duplicate",        "rejected",       "ignored",
                                        "waiting", "before the group", "before the row", "unknown"};
    return names[f];
}

const char *explain_place_name(enum explain_place p) {
    static const char *const names[] = {"not asked", "there", "gone", "other record"};
    return names[p];
}

const char *explain_match_name(enum explain_match m) {
    static const char *const names[] = {"none", "event", "text", "quoted"};
    return names[m];
}

/* ---- what became of each delivery ---- */

static const struct explain_ledger *ledger_of(const struct explanation *x, int32_t partition) {
    for (size_t i = 0; i < x->ledger_count; i++) {
        if (x->ledger[i].partition == partition)
            return &x->ledger[i];
    }
    return NULL;
}

static const struct explain_rejection *rejection_of(const struct explanation *x,
                                                    const struct explain_delivery *d) {
    for (size_t i = 0; i < x->rejection_count; i++) {
        const struct explain_rejection *r = &x->rejections[i];
        bool same_topic = r->topic && x->usage.topic && strcmp(r->topic, x->usage.topic) == 0;
        if (same_topic && r->has_place && r->from_partition == d->partition && r->from_offset == d->offset)
            return r;
    }
    return NULL;
}

static bool same_figures(const struct explanation *x, const struct explain_delivery *d) {
    return x->row.family == d->family && x->row.customer == d->customer && x->row.bytes == d->bytes;
}

/* By the contract's order of checks, for a record that the ledger has passed. */
static enum explain_fate fate_passed(const struct explanation *x, struct explain_delivery *d) {
    if (d->kind == EVENT_IGNORED)
        return EXPLAIN_NO_USAGE;
    if (d->kind == EVENT_REJECTED) {
        d->refused_as = reject_code_name(d->code);
        return EXPLAIN_REFUSED;
    }
    if (x->has_row && d->partition == x->row.partition && d->offset < x->row.offset)
        return EXPLAIN_BEFORE_ROW; /* its rejection isn't among what was searched */
    if (x->has_row && same_figures(x, d))
        return EXPLAIN_DUPLICATE;
    if (x->has_row) {
        d->refused_as = reject_code_name(REJECT_ID_CONFLICT);
        return EXPLAIN_REFUSED;
    }
    return EXPLAIN_UNKNOWN_FATE;
}

static void judge_delivery(const struct explanation *x, struct explain_delivery *d) {
    const struct explain_ledger *l = ledger_of(x, d->partition);
    const struct explain_rejection *r = rejection_of(x, d);
    d->ledger_next = l ? l->next : -1;
    if (x->has_row && x->row.partition == d->partition && x->row.offset == d->offset &&
        d->match == EXPLAIN_SAME) {
        d->fate = EXPLAIN_DECIDED;
    } else if (r) {
        d->fate = EXPLAIN_REFUSED;
        d->refused_as = r->code;
    } else if (!l || d->offset >= l->next) {
        d->fate = EXPLAIN_NOT_REACHED;
        d->before = l ? d->offset - l->next : -1;
    } else if (d->offset < l->first) {
        d->fate = EXPLAIN_BEFORE_GROUP;
    } else {
        d->fate = fate_passed(x, d);
    }
}

size_t explain_count(const struct explanation *x, enum explain_fate fate) {
    size_t n = 0;
    for (size_t i = 0; i < x->delivery_count; i++)
        n += x->deliveries[i].fate == fate && x->deliveries[i].match != EXPLAIN_QUOTED;
    return n;
}

size_t explain_rejections(const struct explanation *x) {
    size_t n = 0;
    for (size_t i = 0; i < x->rejection_count; i++)
        n += x->rejections[i].match != EXPLAIN_QUOTED;
    return n;
}

size_t explain_rejected_as(const struct explanation *x, enum reject_code code) {
    size_t n = 0;
    for (size_t i = 0; i < x->rejection_count; i++)
        n += x->rejections[i].match != EXPLAIN_QUOTED &&
             strcmp(x->rejections[i].code, reject_code_name(code)) == 0;
    return n;
}

bool explain_searched_all(const struct explanation *x) {
    return x->usage.done && x->usage.to_end && x->dlt.done && x->dlt.to_end;
}

/* It was told, whether or not the letter is still in the outbox. */
static bool told(const struct explanation *x) {
    for (size_t i = 0; i < x->month.alert_count; i++) {
        if (!x->month.alerts[i].only_marked && strcmp(x->month.alerts[i].event_id, x->id) == 0)
            return true;
    }
    return x->letter_count > 0;
}

/* Of a closed month the events' rows are gone, or may be: one that was settled can't be told from one that
 * came too late. But where another event met its id, its row had been there. */
static bool may_be_pruned(const struct explanation *x) {
    int64_t family;
    int32_t month;
    size_t too_old = explain_rejected_as(x, REJECT_EVENT_TOO_OLD);
    if (explain_rejected_as(x, REJECT_ID_CONFLICT))
        return x->closed_before > FIRST_MONTH;
    return explain_customer(x, &family, &month) && month < x->closed_before &&
           explain_rejections(x) == too_old && (too_old || explain_count(x, EXPLAIN_UNKNOWN_FATE));
}

static bool warns(const struct explanation *x) {
    return told(x) ||
           (x->dedup_read && x->dedup_current && !x->dedup_foreign && x->dedup.status == STATUS_WARNING);
}

static enum explain_verdict verdict_of(const struct explanation *x) {
    if (x->has_row)
        return x->row.blocked ? EXPLAIN_BLOCKED : warns(x) ? EXPLAIN_SETTLED_WITH_WARNING : EXPLAIN_SETTLED;
    if (x->letter_count)
        return EXPLAIN_PRUNED;
    if (explain_count(x, EXPLAIN_NOT_REACHED))
        return EXPLAIN_WAITING;
    if (may_be_pruned(x))
        return EXPLAIN_PRUNED;
    if (explain_rejections(x) || explain_count(x, EXPLAIN_REFUSED))
        return EXPLAIN_REJECTED;
    if (explain_count(x, EXPLAIN_NO_USAGE))
        return EXPLAIN_IGNORED;
    if (x->kafka.area != ERROR_NONE)
        return EXPLAIN_UNDETERMINED;
    if (explain_count(x, EXPLAIN_UNKNOWN_FATE) || explain_count(x, EXPLAIN_BEFORE_GROUP))
        return EXPLAIN_UNACCOUNTED;
    return explain_searched_all(x) ? EXPLAIN_NEVER_SEEN : EXPLAIN_UNDETERMINED;
}

void explain_judge(struct explanation *x) {
    for (size_t i = 0; i < x->delivery_count; i++)
        judge_delivery(x, &x->deliveries[i]);
    x->dedup_foreign = x->has_row && x->dedup_read &&
                       (x->dedup_family != x->row.family || x->dedup_customer != x->row.customer ||
                        x->dedup_bytes != x->row.bytes);
    x->verdict = verdict_of(x);
}

/* The event's own, which its payload has: it may have been settled in the next. */
static int32_t month_of_letter(const struct family_letter *l) {
    int64_t event_ms = l->created_ms;
    const char *text = NULL;
    json_t *payload = json_loads(l->payload, 0, NULL);
    if (json_unpack(payload, "{s:{s:s}}", "data", "eventTime", &text) != 0 ||
        !period_parse(text, strlen(text), &event_ms))
        event_ms = l->created_ms;
    json_decref(payload);
    return period_month(event_ms);
}

int64_t explain_customer(const struct explanation *x, int64_t *family, int32_t *month) {
    *family = *month = 0;
    if (x->has_row) {
        *family = x->row.family;
        *month = x->row.month;
        return x->row.customer;
    }
    if (x->letter_count) {
        *family = x->letter[0].family;
        *month = month_of_letter(&x->letter[0]);
        return x->letter[0].customer;
    }
    for (size_t i = 0; i < x->delivery_count; i++) {
        if (x->deliveries[i].has_figures) {
            *family = x->deliveries[i].family;
            *month = x->deliveries[i].month;
            return x->deliveries[i].customer;
        }
    }
    for (size_t i = 0; i < x->rejection_count; i++) {
        if (x->rejections[i].has_figures) {
            *family = x->rejections[i].family;
            *month = x->rejections[i].month;
            return x->rejections[i].customer;
        }
    }
    return 0;
}

/* ---- figures ---- */

struct explain_figures explain_figures(const struct explanation *x) {
    struct explain_figures f = {.limit = -1};
    if (x->has_row && x->row.blocked) {
        f = (struct explain_figures){.from = "stored with its row",
                                     .left = x->row.remaining,
                                     .used = x->row.monthly_used,
                                     .limit = x->row.monthly_limit};
    } else if (x->has_row && x->dedup_read && !x->dedup_foreign) {
        f = (struct explain_figures){.from = x->dedup_current
                                                 ? "as Redis cached them"
                                                 : "as Redis cached them, under an earlier warming",
                                     .has_total = true,
                                     .total = x->dedup.total_bytes,
                                     .left = x->dedup.remaining_bytes,
                                     .used = x->dedup.monthly_used_bytes,
                                     .limit = x->dedup.monthly_limit_bytes,
                                     .after = true};
    }
    return f;
}

/* ---- all of it ---- */

bool explain_run(const struct config *cfg, const char *id, const struct explain_options *options,
                 struct explanation *x, struct error *err) {
    *x = (struct explanation){.notifications.partition = -1, .usage.partition = -1, .dlt.partition = -1};
    size_t len = strlen(id);
    memcpy(x->id, id, len < EVENT_ID_MAX ? len : EVENT_ID_MAX);
    struct db *db = db_new(cfg, DB_REPEATABLE_READ);
    bool ok = explain_mysql(cfg, db, x, err);
    if (ok) {
        explain_kafka(cfg, options, x);
        ok = explain_mysql_month(db, x, err);
    }
    if (ok) {
        explain_redis(cfg, x);
        explain_judge(x);
    }
    db_free(db);
    return ok;
}

void explain_free(struct explanation *x) {
    free(x->row.app);
    free(x->row.reason);
    family_letters_free(x->letter, x->letter_count);
    free(x->ledger);
    family_month_free(&x->month);
    for (size_t i = 0; i < x->delivery_count; i++)
        free(x->deliveries[i].key);
    for (size_t i = 0; i < x->rejection_count; i++) {
        free(x->rejections[i].code);
        free(x->rejections[i].message);
        free(x->rejections[i].topic);
    }
    free(x->deliveries);
    free(x->rejections);
    free(x->notices);
    *x = (struct explanation){0};
}
