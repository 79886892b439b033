/* SPDX-License-Identifier: MIT */
/* An explanation for machines. */
#include <stdio.h>

#include "explain_print.h"
#include "family_print.h"
#include "keys.h"

static json_t *row_json(const struct explanation *x) {
    const struct explain_row *r = &x->row;
    char month[8];
    if (!x->has_row)
        return json_null();
    json_t *o = json_object();
    print_month(month, r->month);
    json_object_set_new(o, "table", json_string(r->blocked ? "usage_block" : "usage_record"));
    json_object_set_new(o, "family", json_integer(r->family));
    json_object_set_new(o, "customer", json_integer(r->customer));
    json_object_set_new(o, "bytes", json_integer(r->bytes));
    json_object_set_new(o, "app", print_text_json(r->app));
    json_object_set_new(o, "month", json_string(month));
    json_object_set_new(o, "eventTime", print_time_json(r->event_ms));
    json_object_set_new(o, "settledAt", print_time_json(r->settled_ms));
    json_object_set_new(o, "partition", json_integer(r->partition));
    json_object_set_new(o, "offset", json_integer(r->offset));
    json_object_set_new(o, "record", json_string(explain_place_name(x->place)));
    json_object_set_new(o, "reason", print_text_json(r->reason));
    return o;
}

static json_t *decided_json(const struct explanation *x) {
    struct explain_figures f = explain_figures(x);
    if (!f.from)
        return json_null();
    json_t *o = json_object();
    json_object_set_new(o, "from",
                        json_string(x->row.blocked     ? "row"
                                    : x->dedup_current ? "redis"
                                                       : "redis, earlier warming"));
    json_object_set_new(o, "total", print_i64_json(f.has_total, f.total));
    json_object_set_new(o, "remaining", json_integer(f.left));
    json_object_set_new(o, "monthlyUsed", json_integer(f.used));
    json_object_set_new(o, "monthlyLimit", print_i64_json(f.limit >= 0, f.limit));
    json_object_set_new(o, "eventCounted", json_boolean(f.after));
    return o;
}

static json_t *now_json(const struct explanation *x) {
    const struct family_month *m = &x->month;
    const struct family_member *member = m->member_count ? &m->members[0] : NULL;
    char month[8];
    if (!x->has_month)
        return json_null();
    json_t *o = json_object();
    print_month(month, m->month);
    json_object_set_new(o, "family", json_integer(m->family));
    json_object_set_new(o, "customer", json_integer(m->only_customer));
    json_object_set_new(o, "month", json_string(month));
    json_object_set_new(o, "familyKnown", json_boolean(m->name != NULL));
    json_object_set_new(o, "member", json_boolean(member && member->is_member));
    json_object_set_new(o, "total", print_i64_json(m->total_of != 0, m->total));
    json_object_set_new(o, "used", json_integer(m->used));
    json_object_set_new(o, "remaining", print_i64_json(m->total_of != 0, family_left(m)));
    json_object_set_new(o, "monthlyUsed", print_i64_json(member != NULL, member ? member->used : 0));
    json_object_set_new(o, "blocked", print_text_json(member ? member->blocked : NULL));
    json_object_set_new(o, "rules", member ? print_rules_json(&member->rules) : json_null());
    return o;
}

static json_t *delivery_json(const struct explain_delivery *d) {
    json_t *o = json_object();
    json_object_set_new(o, "partition", json_integer(d->partition));
    json_object_set_new(o, "offset", json_integer(d->offset));
    json_object_set_new(o, "time", print_time_json(d->record_ms));
    json_object_set_new(o, "key", print_text_json(d->key));
    json_object_set_new(o, "became", json_string(explain_fate_name(d->fate)));
    json_object_set_new(o, "code", d->fate == EXPLAIN_REFUSED ? print_text_json(d->refused_as) : json_null());
    json_object_set_new(o, "before",
                        print_i64_json(d->fate == EXPLAIN_NOT_REACHED && d->before >= 0, d->before));
    json_object_set_new(o, "family", print_i64_json(d->has_figures, d->family));
    json_object_set_new(o, "customer", print_i64_json(d->has_figures, d->customer));
    json_object_set_new(o, "bytes", print_i64_json(d->has_figures, d->bytes));
    return o;
}

static json_t *rejection_json(const struct explain_rejection *r) {
    json_t *o = json_object();
    json_object_set_new(o, "partition", json_integer(r->partition));
    json_object_set_new(o, "offset", json_integer(r->offset));
    json_object_set_new(o, "time", print_time_json(r->record_ms));
    json_object_set_new(o, "code", print_text_json(r->code));
    json_object_set_new(o, "message", print_text_json(r->message));
    json_object_set_new(o, "originalTopic", print_text_json(r->topic));
    json_object_set_new(o, "originalPartition", print_i64_json(r->has_place, r->from_partition));
    json_object_set_new(o, "originalOffset", print_i64_json(r->has_place, r->from_offset));
    json_object_set_new(o, "truncated", json_boolean(r->cut));
    return o;
}

static json_t *mention_json(const struct explanation *x, const struct explain_mention *m) {
    json_t *o = rejection_json(&m->at);
    json_object_set_new(o, "topic", print_text_json(m->in_dlt ? x->dlt.topic : x->usage.topic));
    json_object_set_new(o, "ofDelivery", json_boolean(m->of_delivery));
    return o;
}

static json_t *notice_json(const struct explain_notice *n) {
    json_t *o = json_object();
    json_object_set_new(o, "partition", json_integer(n->partition));
    json_object_set_new(o, "offset", json_integer(n->offset));
    json_object_set_new(o, "time", print_time_json(n->record_ms));
    json_object_set_new(o, "same", json_boolean(n->same));
    return o;
}

static json_t *span_json(const struct explain_span *p) {
    json_t *o = json_object();
    json_object_set_new(o, "partition", json_integer(p->partition));
    json_object_set_new(o, "logBegin", json_integer(p->low));
    json_object_set_new(o, "logEnd", json_integer(p->high));
    json_object_set_new(o, "readFrom", json_integer(p->from));
    json_object_set_new(o, "readTo", json_integer(p->next));
    return o;
}

static json_t *searched_json(const struct explain_searched *s) {
    if (!s->done)
        return json_null();
    json_t *o = json_object();
    json_object_set_new(o, "topic", print_text_json(s->topic));
    json_object_set_new(o, "partition", print_i64_json(s->partition >= 0, s->partition));
    json_object_set_new(o, "records", json_integer(s->records));
    json_object_set_new(o, "whole", json_boolean(s->whole));
    json_object_set_new(o, "since", print_time_json(s->since_ms));
    json_object_set_new(o, "toEnd", json_boolean(s->to_end));
    json_object_set_new(o, "unread", json_integer(explain_unread(s)));
    json_t *spans = json_array();
    for (size_t i = 0; i < s->span_count; i++)
        json_array_append_new(spans, span_json(&s->spans[i]));
    json_object_set_new(o, "partitions", spans);
    return o;
}

/* Only of the event's own entry: what else lies there isn't to be taken for it. */
static json_t *dedup_json(const struct explanation *x) {
    struct buf status = {0};
    enum explain_entry entry = explain_entry(x);
    bool own = entry == EXPLAIN_ENTRY_OWN;
    if (entry == EXPLAIN_ENTRY_NONE)
        return json_null();
    json_t *o = json_object();
    decision_status_name(&status, &x->dedup);
    json_object_set_new(o, "of", json_string(explain_entry_name(entry)));
    json_object_set_new(o, "family", print_i64_json(x->dedup_read, x->dedup_family));
    json_object_set_new(o, "customer", print_i64_json(x->dedup_read, x->dedup_customer));
    json_object_set_new(o, "bytes", print_i64_json(x->dedup_read, x->dedup_bytes));
    json_object_set_new(o, "status", own ? json_string(buf_cstr(&status)) : json_null());
    json_object_set_new(o, "current", own ? json_boolean(x->dedup_current) : json_null());
    buf_free(&status);
    return o;
}

/* The arrays: each item by its function. */
static void set_lists(json_t *whole, const struct explanation *x) {
    json_t *deliveries = json_array(), *rejections = json_array(), *mentions = json_array(),
           *notices = json_array(), *alerts = json_array();
    for (size_t i = 0; i < x->delivery_count; i++)
        json_array_append_new(deliveries, delivery_json(&x->deliveries[i]));
    for (size_t i = 0; i < x->rejection_count; i++)
        json_array_append_new(rejections, rejection_json(&x->rejections[i]));
    for (size_t i = 0; i < x->mention_count; i++)
        json_array_append_new(mentions, mention_json(x, &x->mentions[i]));
    for (size_t i = 0; i < x->notice_count; i++)
        json_array_append_new(notices, notice_json(&x->notices[i]));
    for (size_t i = 0; i < x->month.alert_count; i++)
        json_array_append_new(alerts, print_alert_json(&x->month.alerts[i]));
    json_object_set_new(whole, "deliveries", deliveries);
    json_object_set_new(whole, "rejections", rejections);
    json_object_set_new(whole, "mentions", mentions);
    json_object_set_new(whole, "notifications", notices);
    json_object_set_new(whole, "alerts", alerts);
    json_object_set_new(whole, "leftOut", json_integer(x->left_out));
}

void explain_print_json(const struct explanation *x) {
    json_t *whole = json_object(), *searched = json_object();
    struct buf sentence = {0};
    char month[8];
    explain_sentence(&sentence, x);
    print_month(month, x->closed_before);
    json_object_set_new(whole, "event", json_string(x->id));
    json_object_set_new(whole, "verdict", json_string(explain_verdict_name(x->verdict)));
    json_object_set_new(whole, "sentence", print_text_json(buf_cstr(&sentence)));
    json_object_set_new(whole, "kafka", print_error_json(&x->kafka));
    json_object_set_new(whole, "redis", print_error_json(&x->redis));
    json_object_set_new(whole, "closedBefore", x->closed_before ? json_string(month) : json_null());
    json_object_set_new(whole, "row", row_json(x));
    json_object_set_new(whole, "decidedOn", decided_json(x));
    json_object_set_new(whole, "now", now_json(x));
    set_lists(whole, x);
    json_object_set_new(whole, "outbox", x->letter_count ? print_letter_json(&x->letter[0]) : json_null());
    json_object_set_new(whole, "dedup", dedup_json(x));
    json_object_set_new(whole, "stores",
                        x->has_month && x->month.cache != FAMILY_CACHE_UNASKED ? print_cache_json(&x->month)
                                                                               : json_null());
    json_object_set_new(searched, "usage", searched_json(&x->usage));
    json_object_set_new(searched, "dlt", searched_json(&x->dlt));
    json_object_set_new(searched, "notifications", searched_json(&x->notifications));
    json_object_set_new(whole, "searched", searched);
    buf_free(&sentence);
    table_print_json(whole, stdout);
}
