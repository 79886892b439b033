/* SPDX-License-Identifier: MIT */
/* The answer in a sentence. Nothing of an event's own text goes into it but its id, which is printable ASCII,
 * and a rejection's message, of which what isn't is shown as "?". */
#include <string.h>

#include "explain.h"
#include "period.h"

static void add_time(struct buf *out, int64_t ms) {
    char text[PERIOD_LOCAL_SIZE];
    period_format_local(ms, text);
    buf_str(out, text);
}

static void add_ascii(struct buf *out, const char *text) {
    for (; *text; text++)
        buf_char(out, *text >= ' ' && *text <= '~' ? *text : '?');
}

static void add_whose(struct buf *out, const struct explain_row *r) {
    buf_printf(out, "%lld bytes of customer %lld in family %lld, month %06d", (long long)r->bytes,
               (long long)r->customer, (long long)r->family, (int)r->month);
}

static void add_block(struct buf *out, const struct explain_row *r) {
    if (strcmp(r->reason, "MANUAL") == 0)
        buf_str(out, "an access block was on");
    else if (strcmp(r->reason, "APP_BLOCK") == 0)
        buf_str(out, "its app was blocked");
    else if (strcmp(r->reason, "TIME_BLOCK") == 0)
        buf_str(out, "its time of day was blocked");
    else if (strcmp(r->reason, "MONTHLY_LIMIT_EXCEEDED") == 0)
        buf_printf(out, "with %lld used its %lld bytes would pass the customer's limit of %lld",
                   (long long)r->monthly_used, (long long)r->bytes, (long long)r->monthly_limit);
    else
        buf_printf(out, "its %lld bytes were more than the %lld that the family had left",
                   (long long)r->bytes, (long long)r->remaining);
    buf_printf(out, " (%s)", r->reason);
}

/* The threshold this event told; without one, what Redis says it had reached. */
static void add_warning(struct buf *out, const struct explanation *x) {
    const char *told = NULL;
    for (size_t i = 0; i < x->month.alert_count; i++) {
        const struct family_alert *a = &x->month.alerts[i];
        if (!a->only_marked && strcmp(a->event_id, x->id) == 0)
            told = strchr(a->alert, ':');
    }
    if (told)
        buf_printf(out, ", and told WARNING_%s", told + 1);
    else if (x->letter_count)
        buf_str(out, ", and told a threshold");
    else
        buf_printf(out, " with WARNING_%d, which was told before", x->dedup.threshold);
}

static const struct explain_delivery *first_of(const struct explanation *x, enum explain_fate fate) {
    for (size_t i = 0; i < x->delivery_count; i++) {
        if (x->deliveries[i].fate == fate)
            return &x->deliveries[i];
    }
    return NULL;
}

static void add_decided(struct buf *out, const struct explanation *x) {
    buf_str(out, x->row.blocked ? "Blocked at " : "Settled at ");
    add_time(out, x->row.settled_ms);
    if (x->verdict == EXPLAIN_SETTLED_WITH_WARNING)
        add_warning(out, x);
    if (x->row.blocked) {
        buf_str(out, ", because ");
        add_block(out, &x->row);
    }
    buf_str(out, ": ");
    add_whose(out, &x->row);
}

/* The last one; of a record that was too large for the DLT what it holds of it is no JSON. */
static const struct explain_rejection *rejection_of(const struct explanation *x) {
    const struct explain_rejection *r = x->rejection_count ? &x->rejections[x->rejection_count - 1] : NULL;
    for (size_t i = 0; !r && i < x->mention_count; i++)
        r = x->mentions[i].of_delivery ? &x->mentions[i].at : NULL;
    return r;
}

static void add_rejected(struct buf *out, const struct explanation *x) {
    const struct explain_delivery *d = first_of(x, EXPLAIN_REFUSED);
    const struct explain_rejection *r = rejection_of(x);
    if (r) {
        buf_str(out, "Rejected, and in the DLT, as ");
        add_ascii(out, *r->code ? r->code : "(its headers have no code)");
        buf_str(out, *r->message ? ": " : "");
        add_ascii(out, r->message);
    } else if (d) {
        buf_printf(
            out,
            "Rejected as %s, by its form: it lies in partition %d at offset %lld, which the ledger has passed",
            d->refused_as, (int)d->partition, (long long)d->offset);
    }
}

static void add_waiting(struct buf *out, const struct explanation *x) {
    const struct explain_delivery *d = first_of(x, EXPLAIN_NOT_REACHED);
    buf_printf(out, "Waiting: it lies in partition %d at offset %lld, ", (int)d->partition,
               (long long)d->offset);
    if (d->before < 0)
        buf_str(out, "of which nothing is settled yet");
    else if (d->before == 0)
        buf_str(out, "and is the next record to be settled");
    else
        buf_printf(out, "with %lld record%s to be settled before it", (long long)d->before,
                   d->before == 1 ? "" : "s");
}

static int64_t offsets_of(const struct explain_searched *s) {
    int64_t n = 0;
    for (size_t i = 0; i < s->span_count; i++)
        n += s->spans[i].high - s->spans[i].low;
    return n;
}

/* What was looked through; nothing is said of the rest. */
static void add_searched(struct buf *out, const struct explain_searched *s) {
    long long records = (long long)s->records;
    const char *plural = s->records == 1 ? "" : "s";
    if (s->whole) {
        buf_printf(out, "all %lld record%s of %s", records, plural, s->topic);
        return;
    }
    if (!s->to_end)
        buf_printf(out, "the %lld record%s of %s that its time sufficed for, without the newest %lld",
                   records, plural, s->topic, (long long)explain_unread(s));
    else
        buf_printf(out, "the last %lld of about %lld records of %s", records, (long long)offsets_of(s),
                   s->topic);
    if (s->since_ms >= 0) {
        buf_str(out, " (since ");
        add_time(out, s->since_ms);
        buf_str(out, ")");
    }
}

static void add_topics(struct buf *out, const struct explanation *x) {
    add_searched(out, &x->usage);
    buf_str(out, " nor ");
    add_searched(out, &x->dlt);
}

static void add_floor(struct buf *out, const struct explanation *x) {
    if (x->closed_before)
        buf_printf(out, "; of months before %06d the rows are pruned", (int)x->closed_before);
}

static void add_never_seen(struct buf *out, const struct explanation *x) {
    buf_str(out, "Never seen: MySQL has no row of it, and it isn't among ");
    add_topics(out, x);
    add_floor(out, x);
}

static void add_lies(struct buf *out, const struct explain_delivery *d) {
    buf_printf(out, "it lies in partition %d at offset %lld, ", (int)d->partition, (long long)d->offset);
    buf_str(out, d->fate == EXPLAIN_BEFORE_GROUP ? "which is before the first offset of this group's ledger"
                                                 : "which the ledger has passed");
}

static void add_undetermined(struct buf *out, const struct explanation *x) {
    const struct explain_delivery *d = x->delivery_count ? &x->deliveries[x->delivery_count - 1] : NULL;
    buf_str(out, "Undetermined: ");
    if (d)
        add_lies(out, d);
    buf_str(out, d ? "; MySQL has no row of it, and " : "MySQL has no row of it, and ");
    if (x->kafka.area != ERROR_NONE) {
        buf_str(out, "Kafka couldn't be asked ");
        buf_str(out, d ? "what became of it" : "whether it's there");
    } else if (x->usage.whole && x->dlt.whole) {
        buf_str(out, "it isn't among ");
        add_topics(out, x);
    } else {
        buf_str(out, d ? "what became of it isn't in what was searched: "
                       : "it isn't in what was searched, which isn't all: ");
        add_topics(out, x);
    }
    if (x->has_dedup)
        buf_str(out, "; Redis has an entry under its id");
    add_floor(out, x);
}

static void add_pruned(struct buf *out, const struct explanation *x) {
    static const char *const proofs[] = {
        [EXPLAIN_PROOF_LETTER] = "the outbox has its notification",
        [EXPLAIN_PROOF_ALERT] = "an alert that it told is stored",
        [EXPLAIN_PROOF_CONFLICT] =
            "another event under its id was rejected as ID_CONFLICT, which proves that "
            "the id was known",
    };
    enum explain_proof proof = explain_proof(x);
    if (proof == EXPLAIN_PROOF_NONE) {
        buf_str(out, "Its month is closed, and the rows of its events are gone: whether it was settled or "
                     "blocked before, or came too late, can't be told any more");
        return;
    }
    buf_printf(out, "Settled or blocked once, and its row is gone: %s", proofs[proof]);
    if (x->closed_before)
        add_floor(out, x);
    else
        buf_str(out, "; no month's rows are pruned yet");
}

static void add_unaccounted(struct buf *out, const struct explanation *x) {
    const struct explain_delivery *d = &x->deliveries[x->delivery_count - 1];
    buf_str(out, "Unaccounted for: ");
    add_lies(out, d);
    if (d->fate != EXPLAIN_BEFORE_GROUP)
        buf_str(out, ", and neither MySQL nor all that the DLT keeps knows it");
}

/* Its rows aren't there to say whether it was settled later. */
static bool is_of_closed_month(const struct explanation *x) {
    int64_t family;
    int32_t month;
    return explain_customer(x, &family, &month) && month < x->closed_before;
}

static void add_unread(struct buf *out, const struct explain_searched *s) {
    if (s->done && !s->to_end)
        buf_printf(out, "; the time didn't suffice for the newest %lld of %s", (long long)explain_unread(s),
                   s->topic);
}

/* Where the sentence doesn't say it yet. */
static void add_rest(struct buf *out, const struct explanation *x) {
    size_t mentions = explain_mentioned(x);
    if (x->verdict == EXPLAIN_REJECTED && is_of_closed_month(x))
        buf_str(out,
                "; whether it was settled as well can't be told any more, as its month's rows are pruned");
    if (mentions)
        buf_printf(out, "; %s",
                   mentions > 1 ? "malformed records mention it, which say nothing of it"
                                : "a malformed record mentions it, which says nothing of it");
    if (x->verdict != EXPLAIN_UNDETERMINED) {
        add_unread(out, &x->usage);
        add_unread(out, &x->dlt);
    }
}

/* What else happened to its id. */
static void add_more(struct buf *out, const struct explanation *x) {
    size_t again = explain_count(x, EXPLAIN_DUPLICATE), conflicts = 0;
    const char *rejected = NULL;
    for (size_t i = 0; i < x->rejection_count; i++) {
        if (strcmp(x->rejections[i].code, reject_code_name(REJECT_ID_CONFLICT)) == 0)
            conflicts++;
        else
            rejected = x->rejections[i].code;
    }
    if (again)
        buf_printf(out, "; delivered again, as a duplicate%s", again > 1 ? ", several times" : "");
    if (explain_count(x, EXPLAIN_REPEATED))
        buf_str(out, "; delivered elsewhere too, a duplicate or rejected");
    if (explain_count(x, EXPLAIN_UNFOUND))
        buf_str(out, "; another delivery was rejected or skipped, and no DLT record of that was found");
    if (rejected && x->verdict != EXPLAIN_REJECTED) {
        buf_str(out, "; rejected once, as ");
        add_ascii(out, rejected);
    }
    bool is_proof = x->verdict == EXPLAIN_PRUNED && explain_proof(x) == EXPLAIN_PROOF_CONFLICT;
    if (conflicts && x->verdict != EXPLAIN_REJECTED && !is_proof)
        buf_str(out, "; another event under its id was rejected (ID_CONFLICT)");
    if (x->verdict != EXPLAIN_WAITING && explain_count(x, EXPLAIN_NOT_REACHED))
        buf_str(out, "; delivered once more, which the ledger hasn't reached");
}

void explain_sentence(struct buf *out, const struct explanation *x) {
    switch (x->verdict) {
    case EXPLAIN_SETTLED:
    case EXPLAIN_SETTLED_WITH_WARNING:
    case EXPLAIN_BLOCKED:
        add_decided(out, x);
        break;
    case EXPLAIN_PRUNED:
        add_pruned(out, x);
        break;
    case EXPLAIN_REJECTED:
        add_rejected(out, x);
        break;
    case EXPLAIN_WAITING:
        add_waiting(out, x);
        break;
    case EXPLAIN_IGNORED:
        buf_str(out, "Ignored: it's on the topic, and its eventType is another one than DATA_USAGE");
        break;
    case EXPLAIN_UNACCOUNTED:
        add_unaccounted(out, x);
        break;
    case EXPLAIN_NEVER_SEEN:
        add_never_seen(out, x);
        break;
    case EXPLAIN_UNDETERMINED:
        add_undetermined(out, x);
        break;
    }
    add_more(out, x);
    add_rest(out, x);
    buf_char(out, '.');
}
