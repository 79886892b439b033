/* SPDX-License-Identifier: MIT */
/* What follows from what was found, and what doesn't: a search may have missed a record, the DLT keeps its
 * records for a while only, and rows of closed months are pruned. Pure. */
#include <jansson.h>
#include <string.h>

#include "explain.h"
#include "period.h"

/* ---- what was searched ---- */

int64_t explain_unread(const struct explain_searched *s) {
    int64_t n = 0;
    for (size_t i = 0; i < s->span_count; i++)
        n += s->spans[i].high - s->spans[i].next;
    return n;
}

/* Whether a rejection that isn't found in it never was there. */
static bool dlt_is_complete(const struct explanation *x) {
    for (size_t i = 0; i < x->dlt.span_count; i++) {
        if (x->dlt.spans[i].low > 0)
            return false;
    }
    return x->dlt.whole;
}

/* ---- records of the DLT ---- */

static bool is_code(const char *code, enum reject_code c) {
    return code && strcmp(code, reject_code_name(c)) == 0;
}

static bool from_usage(const struct explanation *x, const struct explain_rejection *r) {
    return r->topic && x->usage.topic && strcmp(r->topic, x->usage.topic) == 0;
}

static bool is_of(const struct explanation *x, const struct explain_rejection *r,
                  const struct explain_delivery *d) {
    return from_usage(x, r) && r->has_place && r->from_partition == d->partition &&
           r->from_offset == d->offset;
}

/* As what the DLT has it; NULL: not at all. A record too large for the DLT lies there cut, and is no JSON. */
static const char *refused_as(const struct explanation *x, const struct explain_delivery *d) {
    for (size_t i = 0; i < x->rejection_count; i++) {
        if (is_of(x, &x->rejections[i], d))
            return x->rejections[i].code;
    }
    for (size_t i = 0; i < x->mention_count; i++) {
        if (x->mentions[i].in_dlt && is_of(x, &x->mentions[i].at, d))
            return x->mentions[i].at.code;
    }
    return NULL;
}

static bool is_conflict(const struct explanation *x, const struct explain_delivery *d) {
    return is_code(refused_as(x, d), REJECT_ID_CONFLICT);
}

/* ---- mentions ---- */

static void judge_mention(const struct explanation *x, struct explain_mention *m) {
    m->of_delivery = false;
    for (size_t i = 0; m->in_dlt && i < x->delivery_count; i++)
        m->of_delivery = m->of_delivery || is_of(x, &m->at, &x->deliveries[i]);
}

/* The same record as one on the usage topic. */
static bool is_told_there(const struct explanation *x, const struct explain_mention *m) {
    for (size_t i = 0; m->in_dlt && i < x->mention_count; i++) {
        const struct explain_mention *other = &x->mentions[i];
        if (!other->in_dlt && from_usage(x, &m->at) && m->at.has_place &&
            m->at.from_partition == other->at.partition && m->at.from_offset == other->at.offset)
            return true;
    }
    return false;
}

size_t explain_mentioned(const struct explanation *x) {
    size_t n = 0;
    for (size_t i = 0; i < x->mention_count; i++)
        n += !x->mentions[i].of_delivery && !is_told_there(x, &x->mentions[i]);
    return n;
}

/* ---- what became of each delivery ---- */

static const struct explain_ledger *ledger_of(const struct explanation *x, int32_t partition) {
    for (size_t i = 0; i < x->ledger_count; i++) {
        if (x->ledger[i].partition == partition)
            return &x->ledger[i];
    }
    return NULL;
}

static bool same_figures(const struct explanation *x, const struct explain_delivery *d) {
    return x->row.family == d->family && x->row.customer == d->customer && x->row.bytes == d->bytes;
}

/* Against the row, of a record whose rejection wasn't found. A partition is settled in order: what lies
 * behind the settled record met its row, what lies before it didn't. Between partitions there's no order. */
static enum explain_fate fate_beside_row(const struct explanation *x, struct explain_delivery *d) {
    bool same = same_figures(x, d);
    bool ordered = d->partition == x->row.partition && x->place != EXPLAIN_PLACE_OTHER;
    if (ordered && d->offset < x->row.offset)
        return EXPLAIN_UNFOUND;
    bool met_row = ordered && d->month >= x->closed_before; /* of a closed month it came too late */
    if (met_row && !same) {
        d->refused_as = reject_code_name(REJECT_ID_CONFLICT);
        return EXPLAIN_REFUSED;
    }
    if (!same)
        return EXPLAIN_UNFOUND;
    return met_row || dlt_is_complete(x) ? EXPLAIN_DUPLICATE : EXPLAIN_REPEATED;
}

/* By the contract's order of checks, for a record that the ledger has passed. */
static enum explain_fate fate_passed(const struct explanation *x, struct explain_delivery *d) {
    if (d->kind == EVENT_IGNORED)
        return EXPLAIN_NO_USAGE;
    if (d->kind == EVENT_REJECTED) {
        d->refused_as = reject_code_name(d->code);
        return EXPLAIN_REFUSED;
    }
    return x->has_row ? fate_beside_row(x, d) : EXPLAIN_UNKNOWN_FATE;
}

bool explain_is_rows(const struct explanation *x, const struct explain_delivery *d) {
    bool broken = d->kind == EVENT_REJECTED && d->code == REJECT_MALFORMED_JSON;
    return x->has_row && x->row.partition == d->partition && x->row.offset == d->offset && !broken;
}

static void judge_delivery(const struct explanation *x, struct explain_delivery *d) {
    const struct explain_ledger *l = ledger_of(x, d->partition);
    d->refused_as = refused_as(x, d);
    d->ledger_next = l ? l->next : -1;
    if (explain_is_rows(x, d)) {
        d->fate = EXPLAIN_DECIDED;
    } else if (d->refused_as) {
        d->fate = EXPLAIN_REFUSED;
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
        n += x->deliveries[i].fate == fate;
    return n;
}

/* ---- the verdict ---- */

static bool has_alert(const struct explanation *x, bool marked_too) {
    for (size_t i = 0; i < x->month.alert_count; i++) {
        const struct family_alert *a = &x->month.alerts[i];
        if ((marked_too || !a->only_marked) && strcmp(a->event_id, x->id) == 0)
            return true;
    }
    return false;
}

enum explain_proof explain_proof(const struct explanation *x) {
    if (x->letter_count)
        return EXPLAIN_PROOF_LETTER;
    if (has_alert(x, true))
        return EXPLAIN_PROOF_ALERT;
    for (size_t i = 0; i < x->rejection_count; i++) {
        if (from_usage(x, &x->rejections[i]) && is_code(x->rejections[i].code, REJECT_ID_CONFLICT))
            return EXPLAIN_PROOF_CONFLICT;
    }
    return EXPLAIN_PROOF_NONE;
}

/* Of a closed month the events' rows are gone, or may be: one that was settled can't be told from one that
 * came too late. */
static bool may_be_pruned(const struct explanation *x) {
    int64_t family;
    int32_t month;
    bool too_old = false, other = false;
    for (size_t i = 0; i < x->rejection_count; i++) {
        bool old = is_code(x->rejections[i].code, REJECT_EVENT_TOO_OLD);
        too_old = too_old || old;
        other = other || !old;
    }
    return explain_customer(x, &family, &month) && month < x->closed_before && !other &&
           (too_old || explain_count(x, EXPLAIN_UNKNOWN_FATE));
}

static bool warns(const struct explanation *x) {
    bool cached = explain_entry(x) == EXPLAIN_ENTRY_OWN && x->dedup_current;
    return x->letter_count || has_alert(x, false) || (cached && x->dedup.status == STATUS_WARNING);
}

static enum explain_verdict verdict_of(const struct explanation *x) {
    if (x->has_row)
        return x->row.blocked ? EXPLAIN_BLOCKED : warns(x) ? EXPLAIN_SETTLED_WITH_WARNING : EXPLAIN_SETTLED;
    if (explain_proof(x) != EXPLAIN_PROOF_NONE)
        return EXPLAIN_PRUNED;
    if (explain_count(x, EXPLAIN_NOT_REACHED))
        return EXPLAIN_WAITING;
    if (may_be_pruned(x))
        return EXPLAIN_PRUNED;
    if (x->rejection_count || explain_count(x, EXPLAIN_REFUSED))
        return EXPLAIN_REJECTED;
    if (explain_count(x, EXPLAIN_NO_USAGE))
        return EXPLAIN_IGNORED;
    /* Redis' entry says that some event of this id came, whatever else is found */
    if (x->kafka.area != ERROR_NONE || !x->usage.whole || !x->dlt.whole ||
        (x->has_dedup && !x->delivery_count))
        return EXPLAIN_UNDETERMINED;
    return x->delivery_count ? EXPLAIN_UNACCOUNTED : EXPLAIN_NEVER_SEEN;
}

void explain_judge(struct explanation *x) {
    for (size_t i = 0; i < x->delivery_count; i++)
        judge_delivery(x, &x->deliveries[i]);
    for (size_t i = 0; i < x->mention_count; i++)
        judge_mention(x, &x->mentions[i]);
    x->verdict = verdict_of(x);
}

/* ---- whose event it is ---- */

/* That of the event which the notification tells of; 0: its payload doesn't say. It may have been settled,
 * and its row made, in the month after. */
static int32_t letter_month(const struct family_letter *l) {
    int64_t event_ms;
    json_t *payload = json_loads(l->payload, 0, NULL);
    json_t *time = json_object_get(json_object_get(payload, "data"), "eventTime");
    bool known =
        json_is_string(time) && period_parse(json_string_value(time), json_string_length(time), &event_ms);
    json_decref(payload);
    return known ? period_month(event_ms) : 0;
}

int64_t explain_customer(const struct explanation *x, int64_t *family, int32_t *month) {
    int32_t of_letter = x->letter_count && !x->has_row ? letter_month(&x->letter[0]) : 0;
    *family = *month = 0;
    if (x->has_row) {
        *family = x->row.family;
        *month = x->row.month;
        return x->row.customer;
    }
    if (of_letter) {
        *family = x->letter[0].family;
        *month = of_letter;
        return x->letter[0].customer;
    }
    for (size_t i = 0; i < x->delivery_count; i++) {
        const struct explain_delivery *d = &x->deliveries[i];
        if (d->has_figures && !is_conflict(x, d)) {
            *family = d->family;
            *month = d->month;
            return d->customer;
        }
    }
    for (size_t i = 0; i < x->rejection_count; i++) {
        const struct explain_rejection *r = &x->rejections[i];
        if (r->has_figures && !is_code(r->code, REJECT_ID_CONFLICT)) {
            *family = r->family;
            *month = r->month;
            return r->customer;
        }
    }
    return 0;
}

/* ---- Redis' entry ---- */

static bool entry_is(const struct explanation *x, int64_t family, int64_t customer, int64_t bytes) {
    return x->dedup_family == family && x->dedup_customer == customer && x->dedup_bytes == bytes;
}

/* Without a row: by the deliveries and rejections that have its figures, or should. */
static enum explain_entry entry_without_row(const struct explanation *x) {
    bool other = false, own = false, conflict = false;
    for (size_t i = 0; i < x->delivery_count; i++) {
        const struct explain_delivery *d = &x->deliveries[i];
        bool same = d->has_figures && entry_is(x, d->family, d->customer, d->bytes);
        bool refused = is_conflict(x, d);
        own = own || (same && !refused);
        conflict = conflict || (same && refused);
        other = other || (d->has_figures && !same && !refused);
    }
    for (size_t i = 0; i < x->rejection_count; i++) {
        const struct explain_rejection *r = &x->rejections[i];
        conflict = conflict || (r->has_figures && is_code(r->code, REJECT_ID_CONFLICT) &&
                                entry_is(x, r->family, r->customer, r->bytes));
    }
    for (size_t i = 0; i < x->letter_count; i++)
        other = other || x->letter[i].family != x->dedup_family || x->letter[i].customer != x->dedup_customer;
    return own ? EXPLAIN_ENTRY_OWN : conflict || other ? EXPLAIN_ENTRY_OTHER : EXPLAIN_ENTRY_OPEN;
}

enum explain_entry explain_entry(const struct explanation *x) {
    if (!x->has_dedup)
        return EXPLAIN_ENTRY_NONE;
    if (!x->dedup_read)
        return EXPLAIN_ENTRY_UNREADABLE;
    if (!x->has_row)
        return entry_without_row(x);
    return entry_is(x, x->row.family, x->row.customer, x->row.bytes) ? EXPLAIN_ENTRY_OWN
                                                                     : EXPLAIN_ENTRY_OTHER;
}

struct explain_figures explain_figures(const struct explanation *x) {
    struct explain_figures f = {.limit = -1};
    if (x->has_row && x->row.blocked) {
        f = (struct explain_figures){.from = "stored with its row",
                                     .left = x->row.remaining,
                                     .used = x->row.monthly_used,
                                     .limit = x->row.monthly_limit};
    } else if (x->has_row && explain_entry(x) == EXPLAIN_ENTRY_OWN) {
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
