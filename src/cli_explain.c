/* SPDX-License-Identifier: MIT */
/* `tallyd explain EVENT_ID`: the answer in a sentence, then what it's taken from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "explain.h"
#include "family_print.h"
#include "keys.h"
#include "period.h"

#define COMMAND "explain"

struct options {
    const char *path, *id;
    bool json;
    struct explain_options explain;
};

/* ---- for people ---- */

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

/* What the decision was made on, as far as anything holds it still. */
struct figures {
    const char *from; /* NULL: nothing does */
    bool has_total;
    int64_t total, left, used, limit; /* limit -1: none */
    bool after;                       /* they count the event */
};

static struct figures figures_of(const struct explanation *x) {
    struct figures f = {.limit = -1};
    if (x->has_row && x->row.blocked) {
        f = (struct figures){.from = "stored with its row",
                             .left = x->row.remaining,
                             .used = x->row.monthly_used,
                             .limit = x->row.monthly_limit};
    } else if (x->has_row && x->dedup_read) {
        f = (struct figures){.from = x->dedup_current ? "as Redis cached them"
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
    struct figures f = figures_of(x);
    const struct family_member *member = m->member_count ? &m->members[0] : NULL; /* of one customer */
    int64_t limit = member ? member->rules.monthly_limit : -1;
    struct table *t = table_new("figures", "when decided>", "now>", NULL);
    figure_row(t, "family's total", f.has_total, f.total, m->total_of != 0, m->total);
    figure_row(t, "family's used", f.has_total, f.total - f.left, true, m->used);
    figure_row(t, "family's left", f.from != NULL, f.left, m->total_of != 0, m->total - m->used);
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

static void print_rejections(const struct explanation *x) {
    struct table *t = table_new("in the DLT", "partition>", "offset>", "code", "came from", "message", NULL);
    for (size_t i = 0; i < x->rejection_count; i++) {
        const struct explain_rejection *r = &x->rejections[i];
        table_text(t, x->dlt.topic);
        table_i64(t, r->partition);
        table_i64(t, r->offset);
        table_text(t, r->code);
        if (r->has_place)
            table_format(t, "%s %d, %lld", r->topic ? r->topic : "-", (int)r->from_partition,
                         (long long)r->from_offset);
        else
            table_text(t, NULL);
        table_format(t, "%s%s%s", r->message, r->cut ? " (cut)" : "",
                     r->match == EXPLAIN_TEXT ? " (no JSON; its text has the id)" : "");
    }
    table_print(t, stdout);
    table_free(t);
    if (x->rejection_count)
        putchar('\n');
}

static void print_redis(const struct explanation *x) {
    struct buf status = {0};
    if (!x->cache_asked)
        return;
    if (x->has_month && x->month.cache != FAMILY_CACHE_UNASKED && x->month.total_of)
        print_cache(&x->month);
    if (x->dedup_read)
        decision_status_name(&status, &x->dedup);
    if (!x->has_dedup)
        printf("Redis remembers no result of the event.\n");
    else if (!x->dedup_read)
        printf("Redis has an entry for the event that can't be read.\n");
    else
        printf("Redis remembers its result%s: %s.\n", x->dedup_current ? "" : ", of an earlier warming",
               buf_cstr(&status));
    buf_free(&status);
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
        table_text(t, "not to its end: that's as far as --scan and its 10 s go");
    else if (s->partition >= 0)
        table_text(t, "from when the outbox's row was made");
    else
        table_text(t, s->whole ? NULL : "--scan all looks at all, --since TIME further back");
}

static void print_searched(const struct explanation *x) {
    struct table *t = table_new("searched", "records>", "from", "how", NULL);
    searched_row(t, &x->usage);
    searched_row(t, &x->dlt);
    searched_row(t, &x->notifications);
    table_print(t, stdout);
    table_free(t);
    if (x->left_out)
        printf("%lld more of them aren't shown.\n", (long long)x->left_out);
}

static void print_people(const struct explanation *x) {
    struct buf sentence = {0};
    explain_sentence(&sentence, x);
    printf("%s\n\n", buf_cstr(&sentence));
    buf_free(&sentence);
    print_event(x);
    print_deliveries(x);
    print_rejections(x);
    print_figures(x);
    print_rules(x);
    print_told(x);
    print_letter(x);
    print_redis(x);
    print_searched(x);
}

/* ---- for machines ---- */

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
    struct figures f = figures_of(x);
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
    if (!x->has_month)
        return json_null();
    json_t *o = json_object();
    json_object_set_new(o, "family", json_integer(m->family));
    json_object_set_new(o, "customer", json_integer(m->only_customer));
    json_object_set_new(o, "familyKnown", json_boolean(m->name != NULL));
    json_object_set_new(o, "member", json_boolean(member && member->is_member));
    json_object_set_new(o, "total", print_i64_json(m->total_of != 0, m->total));
    json_object_set_new(o, "used", json_integer(m->used));
    json_object_set_new(o, "remaining", print_i64_json(m->total_of != 0, m->total - m->used));
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
    json_object_set_new(o, "sure", json_boolean(r->match == EXPLAIN_SAME));
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
    return o;
}

static json_t *dedup_json(const struct explanation *x) {
    struct buf status = {0};
    if (!x->has_dedup)
        return json_null();
    json_t *o = json_object();
    if (x->dedup_read)
        decision_status_name(&status, &x->dedup);
    json_object_set_new(o, "status", x->dedup_read ? json_string(buf_cstr(&status)) : json_null());
    json_object_set_new(o, "current", json_boolean(x->dedup_current));
    buf_free(&status);
    return o;
}

/* The arrays: each item by its function. */
static void set_lists(json_t *whole, const struct explanation *x) {
    json_t *deliveries = json_array(), *rejections = json_array(), *notices = json_array(),
           *alerts = json_array();
    for (size_t i = 0; i < x->delivery_count; i++)
        json_array_append_new(deliveries, delivery_json(&x->deliveries[i]));
    for (size_t i = 0; i < x->rejection_count; i++)
        json_array_append_new(rejections, rejection_json(&x->rejections[i]));
    for (size_t i = 0; i < x->notice_count; i++)
        json_array_append_new(notices, notice_json(&x->notices[i]));
    for (size_t i = 0; i < x->month.alert_count; i++)
        json_array_append_new(alerts, print_alert_json(&x->month.alerts[i]));
    json_object_set_new(whole, "deliveries", deliveries);
    json_object_set_new(whole, "rejections", rejections);
    json_object_set_new(whole, "notifications", notices);
    json_object_set_new(whole, "alerts", alerts);
    json_object_set_new(whole, "leftOut", json_integer(x->left_out));
}

static void print_machines(const struct explanation *x) {
    json_t *whole = json_object(), *searched = json_object();
    struct buf sentence = {0};
    explain_sentence(&sentence, x);
    json_object_set_new(whole, "event", json_string(x->id));
    json_object_set_new(whole, "verdict", json_string(explain_verdict_name(x->verdict)));
    json_object_set_new(whole, "sentence", print_text_json(buf_cstr(&sentence)));
    json_object_set_new(whole, "kafka", print_error_json(&x->kafka));
    json_object_set_new(whole, "redis", print_error_json(&x->redis));
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

/* ---- the command ---- */

/* A time as in an event, or so long ago: 90s, 15m, 24h, 7d. */
static bool read_since(const char *text, int64_t *since_ms) {
    static const char units[] = "smhd";
    static const int64_t seconds[] = {1, 60, 3600, 86400};
    size_t digits = strspn(text, "0123456789");
    const char *unit = digits && digits <= 6 && text[digits] ? strchr(units, text[digits]) : NULL;
    if (!unit || text[digits + 1])
        return period_parse(text, strlen(text), since_ms) && *since_ms >= 0;
    *since_ms = ((int64_t)time(NULL) - strtoll(text, NULL, 10) * seconds[unit - units]) * 1000;
    *since_ms = *since_ms < 0 ? 0 : *since_ms;
    return true;
}

static bool read_scan(const char *text, int64_t *records) {
    size_t digits = strspn(text, "0123456789");
    if (strcmp(text, "all") == 0) {
        *records = -1;
        return true;
    }
    *records = strtoll(text, NULL, 10);
    return digits && digits <= 12 && !text[digits];
}

static int take_option(int c, struct options *o) {
    if (c == 'c')
        o->path = optarg;
    else if (c == 'j')
        o->json = true;
    else if (c == 's' && !read_since(optarg, &o->explain.since_ms))
        return cli_usage(COMMAND, "--since",
                         "must be a time as 2026-11-30T12:00, or so long ago as 90s, 15m, 24h, 7d");
    else if (c == 'n' && !read_scan(optarg, &o->explain.records))
        return cli_usage(COMMAND, "--scan", "must be a number of records, or all");
    o->explain.patient = o->explain.patient || c == 's' || c == 'n';
    return EXIT_OK;
}

static int read_options(int argc, char **argv, struct options *o) {
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"since", required_argument, NULL, 's'},
                                          {"scan", required_argument, NULL, 'n'},
                                          {0}};
    int c, code = EXIT_OK;
    while (code == EXIT_OK && (c = cli_option(argc, argv, ":c:", longs)) != -1)
        code = c == '?' ? EXIT_USAGE : take_option(c, o);
    if (code != EXIT_OK)
        return code;
    if (!o->path)
        return cli_usage(COMMAND, "-c FILE", "is missing");
    if (optind == argc)
        return cli_usage(COMMAND, "EVENT_ID", "is missing");
    if (optind + 1 < argc)
        return cli_usage(COMMAND, "", "one event id at a time, please: there are more arguments");
    o->id = argv[optind];
    if (!explain_id_ok(o->id))
        return cli_usage(COMMAND, "EVENT_ID", "must be 1 to 191 printable ASCII characters without spaces");
    return EXIT_OK;
}

static int say_away(const struct error *away) {
    cli_error(COMMAND, error_area_name(away->area), away->text, "what it would have said is left out");
    return cli_exit_code(away);
}

static int explain(const struct config *cfg, const struct options *o) {
    struct explanation x;
    struct error err = {0};
    int code = EXIT_OK;
    if (!explain_run(cfg, o->id, &o->explain, &x, &err)) {
        code = cli_failed(COMMAND, &err);
    } else {
        if (o->json)
            print_machines(&x);
        else
            print_people(&x);
        fflush(stdout);
        if (x.redis.area != ERROR_NONE)
            code = say_away(&x.redis);
        if (x.kafka.area != ERROR_NONE)
            code = say_away(&x.kafka);
    }
    explain_free(&x);
    return code;
}

int cli_explain(int argc, char **argv) {
    struct options o = {.explain = {.records = EXPLAIN_RECORDS, .since_ms = -1}};
    int code = read_options(argc, argv, &o);
    if (code != EXIT_OK)
        return code;
    log_init(2, LOG_ERROR);
    struct config *cfg = cli_config(COMMAND, o.path);
    if (!cfg)
        return EXIT_CONFIG;
    struct db *db = db_new(cfg, DB_READ_COMMITTED);
    code = cli_migrated(COMMAND, db);
    db_free(db);
    if (code == EXIT_OK)
        code = explain(cfg, &o);
    config_free(cfg);
    return code;
}
