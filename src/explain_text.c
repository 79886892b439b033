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
        if (x->deliveries[i].fate == fate && x->deliveries[i].match != EXPLAIN_QUOTED)
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

static void add_rejected(struct buf *out, const struct explanation *x) {
    const struct explain_delivery *d = first_of(x, EXPLAIN_REFUSED);
    const struct explain_rejection *r = NULL;
    for (size_t i = 0; i < x->rejection_count; i++) {
        if (x->rejections[i].match != EXPLAIN_QUOTED)
            r = &x->rejections[i];
    }
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

static void add_searched(struct buf *out, const struct explain_searched *s) {
    buf_printf(out, "%s %lld record%s of %s",
               s->whole    ? "all"
               : s->to_end ? "the last"
                           : "those",
               (long long)s->records, s->records == 1 ? "" : "s", s->topic);
    if (!s->to_end) {
        buf_str(out, " that could be looked at in 10 s");
    } else if (!s->whole && s->since_ms >= 0) {
        buf_str(out, " (since ");
        add_time(out, s->since_ms);
        buf_str(out, ")");
    }
}

static void add_never_seen(struct buf *out, const struct explanation *x) {
    buf_str(out, "Never seen: MySQL has no row of it, and it isn't among ");
    add_searched(out, &x->usage);
    buf_str(out, " nor ");
    add_searched(out, &x->dlt);
}

static void add_undetermined(struct buf *out, const struct explanation *x) {
    if (x->kafka.area != ERROR_NONE) {
        buf_str(out, "Not known to MySQL, and Kafka couldn't be asked whether it's there");
        return;
    }
    buf_str(out, "Not found, and not all was searched: MySQL has no row of it, and it isn't among ");
    add_searched(out, &x->usage);
    buf_str(out, " nor ");
    add_searched(out, &x->dlt);
}

static void add_unaccounted(struct buf *out, const struct explanation *x) {
    const struct explain_delivery *d = first_of(x, EXPLAIN_UNKNOWN_FATE);
    d = d ? d : first_of(x, EXPLAIN_BEFORE_GROUP);
    buf_printf(out, "Unaccounted for: it lies in partition %d at offset %lld, ", (int)d->partition,
               (long long)d->offset);
    buf_str(out,
            d->fate == EXPLAIN_BEFORE_GROUP
                ? "which is before the first offset of this group's ledger"
                : "which the ledger has passed, and neither MySQL nor the part of the DLT that was searched "
                  "knows it");
}

/* What else happened to its id. */
static void add_more(struct buf *out, const struct explanation *x) {
    size_t again = explain_count(x, EXPLAIN_DUPLICATE),
           conflicts = explain_rejected_as(x, REJECT_ID_CONFLICT),
           quoted = x->rejection_count - explain_rejections(x);
    const char *rejected = NULL;
    for (size_t i = 0; i < x->rejection_count; i++) {
        const struct explain_rejection *r = &x->rejections[i];
        if (r->match != EXPLAIN_QUOTED && strcmp(r->code, reject_code_name(REJECT_ID_CONFLICT)) != 0)
            rejected = r->code;
    }
    if (again)
        buf_printf(out, "; delivered again, as a duplicate%s", again > 1 ? ", several times" : "");
    if (rejected && x->verdict != EXPLAIN_REJECTED) {
        buf_str(out, "; rejected once, as ");
        add_ascii(out, rejected);
    }
    if (conflicts && x->verdict != EXPLAIN_REJECTED)
        buf_str(out, "; another event under its id was rejected (ID_CONFLICT)");
    if (x->has_row && explain_count(x, EXPLAIN_NOT_REACHED))
        buf_str(out, "; delivered once more, which the ledger hasn't reached");
    if (explain_count(x, EXPLAIN_BEFORE_ROW))
        buf_str(out,
                "; delivered before as well, and rejected then: its DLT record isn't among those searched");
    for (size_t i = 0; i < x->delivery_count; i++)
        quoted += x->deliveries[i].match == EXPLAIN_QUOTED;
    if (quoted)
        buf_str(out, "; a record that can't be read quotes its id");
}

void explain_sentence(struct buf *out, const struct explanation *x) {
    switch (x->verdict) {
    case EXPLAIN_SETTLED:
    case EXPLAIN_SETTLED_WITH_WARNING:
    case EXPLAIN_BLOCKED:
        add_decided(out, x);
        break;
    case EXPLAIN_PRUNED:
        buf_str(out,
                x->letter_count
                    ? "Settled or blocked in a month whose rows are gone: the outbox has its notification"
                : explain_rejected_as(x, REJECT_ID_CONFLICT)
                    ? "Settled or blocked in a month whose rows are gone: another event met its id"
                    : "Its month is closed, and the rows of its events are gone: whether it was settled or "
                      "blocked before, or came too late, can't be told any more");
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
    buf_char(out, '.');
}
