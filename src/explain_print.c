/* SPDX-License-Identifier: MIT */
/* An explanation for people: the sentence, then a table for each thing it's taken from. Text from outside is
 * printed by tables alone. */
#include "explain_print.h"

#include <stdio.h>
#include <string.h>

#include "family_print.h"
#include "keys.h"

static void print_event(const struct explanation *x) {
    const struct explain_row *r = &x->row;
    struct table *t = table_new("event", "family", "customer", "bytes>", "month", "event time", "app",
                                r->blocked ? "blocked at" : "settled at", NULL);
    char month[8];
    if (!x->has_row) {
        table_free(t);
        return;
    }
    print_month(month, r->month);
    table_text(t, x->id);
    table_i64(t, r->family);
    table_i64(t, r->customer);
    table_i64(t, r->bytes);
    table_text(t, month);
    print_time(t, r->event_ms);
    table_text(t, r->app);
    print_time(t, r->settled_ms);
    table_print(t, stdout);
    table_free(t);
    putchar('\n');
}

static void figure_row(struct table *t, const char *name, bool then_known, int64_t then, bool now_known,
                       int64_t now) {
    table_text(t, name);
    table_i64_if(t, then_known, then);
    table_i64_if(t, now_known, now);
}

static void print_figures(const struct explanation *x) {
    const struct family_month *m = &x->month;
    if (!x->has_month || (!x->has_row && m->total_of == 0))
        return;
    struct explain_figures f = explain_figures(x);
    const struct family_member *member = m->member_count ? &m->members[0] : NULL; /* of one customer */
    int64_t limit = member ? member->rules.monthly_limit : -1;
    struct table *t = table_new("figures", "when decided>", "now>", NULL);
    figure_row(t, "family's total", f.has_total, f.total, m->total_of != 0, m->total);
    figure_row(t, "family's used", f.has_total, (int64_t)((uint64_t)f.total - (uint64_t)f.left), true,
               m->used);
    figure_row(t, "family's left", f.from != NULL, f.left, m->total_of != 0, family_left(m));
    figure_row(t, "customer's used", f.from != NULL, f.used, member != NULL, member ? member->used : 0);
    figure_row(t, "customer's limit", f.from && f.limit >= 0, f.limit, limit >= 0, limit);
    table_print(t, stdout);
    table_free(t);
    if (f.from)
        printf("When decided: %s%s.\n", f.from, f.after ? ", the event counted" : ", before the event");
    else if (x->has_row)
        printf("What an allowed event was decided on isn't kept, but by an alert that it told.\n");
    putchar('\n');
}

static void print_rules(const struct explanation *x) {
    const struct family_month *m = &x->month;
    struct buf rules = {0};
    if (!x->has_month)
        return;
    struct table *t = table_new("rules now", "of family", "are", NULL);
    for (size_t i = 0; i < m->member_count; i++) {
        buf_reset(&rules);
        family_rules_text(&rules, &m->members[i].rules);
        table_format(t, "customer %lld", (long long)m->members[i].customer);
        table_i64(t, m->family);
        table_text(t, m->members[i].is_member ? buf_cstr(&rules) : "no member now");
    }
    if (m->member_count == 0) {
        table_text(t, "-");
        table_i64(t, m->family);
        table_text(t, m->known ? "the family has no such customer" : "MySQL has no such family");
    }
    table_print(t, stdout);
    table_free(t);
    buf_free(&rules);
    putchar('\n');
}

static void print_told(const struct explanation *x) {
    size_t own = 0;
    for (size_t i = 0; i < x->month.alert_count; i++)
        own += strcmp(x->month.alerts[i].event_id, x->id) == 0;
    if (own) {
        print_alerts(&x->month, x->id);
        putchar('\n');
    } else if (x->has_row && x->month.alert_count) {
        printf("It told nothing. What had been or is told to this customer this month:\n");
        print_alerts(&x->month, NULL);
        putchar('\n');
    } else if (x->has_row) {
        printf("It told nothing, and nothing is told to this customer this month.\n\n");
    }
}

static void print_letter(const struct explanation *x) {
    struct table *t = table_new("outbox", "status", "created", "sent", "tries>", "next try", "leased until",
                                "last error", NULL);
    for (size_t i = 0; i < x->letter_count; i++) {
        const struct family_letter *l = &x->letter[i];
        table_i64(t, l->outbox_id);
        table_text(t, l->status);
        print_time(t, l->created_ms);
        print_time(t, l->sent_ms);
        table_i64(t, l->retry_count);
        print_time(t, l->next_retry_ms);
        print_time(t, l->leased ? l->lease_until_ms : 0);
        table_text(t, l->last_error);
    }
    table_print(t, stdout);
    table_free(t);
    t = table_new("notification", "partition>", "offset>", "record's time", "bytes", NULL);
    for (size_t i = 0; i < x->notice_count; i++) {
        const struct explain_notice *n = &x->notices[i];
        table_text(t, x->notifications.topic);
        table_i64(t, n->partition);
        table_i64(t, n->offset);
        print_time(t, n->record_ms);
        table_text(t, n->same ? "those of its row" : "other than its row's");
    }
    table_print(t, stdout);
    table_free(t);
    if (x->letter_count && x->notifications.done && x->notice_count == 0)
        printf("No notification of it among the %lld records looked at in partition %d of %s.\n",
               (long long)x->notifications.records, (int)x->notifications.partition, x->notifications.topic);
    if (x->letter_count)
        putchar('\n');
}

static void fate_text(struct table *t, const struct explanation *x, const struct explain_delivery *d) {
    switch (d->fate) {
    case EXPLAIN_DECIDED:
        table_text(t, x->row.blocked ? "blocked" : "settled");
        break;
    case EXPLAIN_REFUSED:
        table_format(t, "rejected: %s", d->refused_as);
        break;
    case EXPLAIN_NOT_REACHED:
        if (d->before < 0)
            table_text(t, "waiting: the ledger has no row of this partition");
        else
            table_format(t, "waiting, %lld before it", (long long)d->before);
        break;
    case EXPLAIN_REPEATED:
        table_text(t, "a duplicate, or rejected: no DLT record of it was found");
        break;
    case EXPLAIN_UNFOUND:
        table_text(t, "no duplicate: rejected or skipped, and no DLT record of it was found");
        break;
    case EXPLAIN_UNKNOWN_FATE:
        table_text(t, "passed by the ledger; what became of it isn't known");
        break;
    default:
        table_text(t, explain_fate_name(d->fate));
    }
}

static void print_deliveries(const struct explanation *x) {
    struct table *t = table_new("delivered", "partition>", "offset>", "record's time", "key", "became", NULL);
    for (size_t i = 0; i < x->delivery_count; i++) {
        const struct explain_delivery *d = &x->deliveries[i];
        table_text(t, x->usage.topic);
        table_i64(t, d->partition);
        table_i64(t, d->offset);
        print_time(t, d->record_ms);
        table_text(t, d->key);
        fate_text(t, x, d);
    }
    table_print(t, stdout);
    table_free(t);
    if (x->place == EXPLAIN_PLACE_GONE || x->place == EXPLAIN_PLACE_OTHER)
        printf("Its row names partition %d, offset %lld of %s: %s (the log holds %lld to %lld).\n",
               (int)x->row.partition, (long long)x->row.offset, x->usage.topic,
               x->place == EXPLAIN_PLACE_GONE ? "the record is gone"
                                              : "another record lies there, or none: the topic was made anew",
               (long long)x->log_low, (long long)x->log_high - 1);
    if (x->delivery_count || x->place == EXPLAIN_PLACE_GONE || x->place == EXPLAIN_PLACE_OTHER)
        putchar('\n');
}

static void came_from(struct table *t, const struct explain_rejection *r) {
    if (r->has_place)
        table_format(t, "%s %d, %lld", r->topic ? r->topic : "-", (int)r->from_partition,
                     (long long)r->from_offset);
    else
        table_text(t, NULL);
}

static void print_rejections(const struct explanation *x) {
    struct table *t = table_new("in the DLT", "partition>", "offset>", "code", "came from", "message", NULL);
    for (size_t i = 0; i < x->rejection_count; i++) {
        const struct explain_rejection *r = &x->rejections[i];
        table_text(t, x->dlt.topic);
        table_i64(t, r->partition);
        table_i64(t, r->offset);
        table_text(t, r->code);
        came_from(t, r);
        table_format(t, "%s%s", r->message, r->cut ? " (cut)" : "");
    }
    table_print(t, stdout);
    table_free(t);
    if (x->rejection_count)
        putchar('\n');
}

static void print_mentions(const struct explanation *x) {
    struct table *t = table_new("mentioned in", "partition>", "offset>", "record's time", "came from",
                                "by a malformed record", NULL);
    for (size_t i = 0; i < x->mention_count; i++) {
        const struct explain_mention *m = &x->mentions[i];
        table_text(t, m->in_dlt ? x->dlt.topic : x->usage.topic);
        table_i64(t, m->at.partition);
        table_i64(t, m->at.offset);
        print_time(t, m->at.record_ms);
        came_from(t, &m->at);
        if (m->in_dlt)
            table_format(t, "rejected: %s%s%s", m->at.code, m->at.cut ? " (cut)" : "",
                         m->of_delivery ? "; it's the delivery's" : "");
        else
            table_text(t, "it quotes the id, and is no JSON");
    }
    table_print(t, stdout);
    table_free(t);
    if (x->mention_count)
        putchar('\n');
}

static void print_entry(const struct explanation *x) {
    struct buf status = {0};
    enum explain_entry entry = explain_entry(x);
    if (x->dedup_read)
        decision_status_name(&status, &x->dedup);
    if (entry == EXPLAIN_ENTRY_NONE)
        printf("Redis remembers no result of the event.\n");
    else if (entry == EXPLAIN_ENTRY_UNREADABLE)
        printf("Redis has an entry for the event that can't be read.\n");
    else if (entry == EXPLAIN_ENTRY_OWN)
        printf("Redis remembers its result%s: %s.\n", x->dedup_current ? "" : ", of an earlier warming",
               buf_cstr(&status));
    else
        printf("Redis' entry is of %s (family %lld, customer %lld, %lld bytes): %s.\n",
               entry == EXPLAIN_ENTRY_OTHER ? "another event" : "an event under its id",
               (long long)x->dedup_family, (long long)x->dedup_customer, (long long)x->dedup_bytes,
               entry == EXPLAIN_ENTRY_OTHER ? "what it says isn't of this one"
                                            : "whether it's this one nothing tells");
    buf_free(&status);
}

static void print_redis(const struct explanation *x) {
    if (!x->cache_asked)
        return;
    if (x->has_month && x->month.cache != FAMILY_CACHE_UNASKED && x->month.total_of)
        print_cache(&x->month);
    print_entry(x);
    putchar('\n');
}

static void searched_row(struct table *t, const struct explain_searched *s) {
    if (!s->done)
        return;
    if (s->partition >= 0)
        table_format(t, "%s %d", s->topic, (int)s->partition);
    else
        table_text(t, s->topic);
    table_i64(t, s->records);
    if (s->whole)
        table_text(t, "all that it keeps");
    else
        print_time(t, s->since_ms);
    if (!s->to_end)
        table_text(t, "not to its end: --within gives it longer, --since a later beginning");
    else if (s->partition >= 0)
        table_text(t, "from when the outbox's row was made");
    else
        table_text(t, s->whole ? NULL : "--scan all looks at all, --since TIME further back");
}

/* The partitions that a topic's time didn't suffice for. */
static void unread_rows(struct table *t, const struct explain_searched *s) {
    for (size_t i = 0; i < s->span_count; i++) {
        const struct explain_span *p = &s->spans[i];
        if (p->next >= p->high)
            continue;
        table_text(t, s->topic);
        table_i64(t, p->partition);
        if (p->next > p->from)
            table_format(t, "%lld to %lld", (long long)p->from, (long long)p->next - 1);
        else
            table_text(t, "none");
        table_format(t, "%lld to %lld", (long long)p->next, (long long)p->high - 1);
    }
}

static void print_unread(const struct explanation *x) {
    struct table *t = table_new("not searched", "partition>", "read", "not read", NULL);
    unread_rows(t, &x->usage);
    unread_rows(t, &x->dlt);
    unread_rows(t, &x->notifications);
    if (explain_unread(&x->usage) || explain_unread(&x->dlt) || explain_unread(&x->notifications))
        putchar('\n');
    table_print(t, stdout);
    table_free(t);
}

static void print_searched(const struct explanation *x) {
    struct table *t = table_new("searched", "records>", "from", "how", NULL);
    searched_row(t, &x->usage);
    searched_row(t, &x->dlt);
    searched_row(t, &x->notifications);
    table_print(t, stdout);
    table_free(t);
    print_unread(x);
    if (x->left_out)
        printf("%lld more of them aren't shown.\n", (long long)x->left_out);
}

void explain_print(const struct explanation *x) {
    struct buf sentence = {0};
    explain_sentence(&sentence, x);
    printf("%s\n\n", buf_cstr(&sentence));
    buf_free(&sentence);
    print_event(x);
    print_deliveries(x);
    print_rejections(x);
    print_mentions(x);
    print_figures(x);
    print_rules(x);
    print_told(x);
    print_letter(x);
    print_redis(x);
    print_searched(x);
}
