/* SPDX-License-Identifier: MIT */
/* `tallyd show family N` and `tallyd show customer N`: a month as both stores hold it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "family_month.h"
#include "family_print.h"
#include "period.h"
#include "redis.h"

#define COMMAND "show"

struct options {
    const char *path, *month_text;
    bool json, customer; /* customer: of one customer, not of a family */
    int64_t number;
};

/* A customer's families are few; one that's in very many is shown as far as that. */
#define FAMILIES_MAX 1000

struct show {
    struct config *cfg;
    struct db *db;
    struct redis *redis;
    struct error away; /* Redis' */
    int64_t families[FAMILIES_MAX];
    size_t count;
    struct family_month *months; /* one a family */
    size_t month_count;
};

/* ---- reading ---- */

static bool find_families(struct show *s, int64_t customer, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows;
    buf_printf(&sql,
               "SELECT family_id FROM family_member WHERE customer_id = %lld ORDER BY family_id LIMIT %d",
               (long long)customer, FAMILIES_MAX);
    bool ok = db_query(s->db, &sql, &rows, err);
    buf_free(&sql);
    if (!ok)
        return false;
    while (db_next(&rows))
        s->families[s->count++] = db_i64(&rows, 0, 0);
    db_rows_free(&rows);
    return true;
}

static bool read_months(struct show *s, int64_t customer, int32_t month, struct error *err) {
    s->months = mem_zero(s->count, sizeof *s->months);
    for (; s->month_count < s->count; s->month_count++) {
        struct family_month *m = &s->months[s->month_count];
        if (!family_month_read(s->db, s->families[s->month_count], customer, month, m, err)) {
            family_month_free(m);
            return false;
        }
    }
    for (size_t i = 0; i < s->month_count && s->away.area == ERROR_NONE; i++) {
        if (!family_month_ask_cache(s->redis, s->cfg, &s->months[i], &s->away))
            s->months[i].cache = FAMILY_CACHE_UNASKED;
    }
    return true;
}

/* ---- for people ---- */

static int64_t tenths_left(const struct family_month *m) {
    return family_tenths_left(m->total, family_left(m));
}

static void percent_left(char *out, size_t size, const struct family_month *m) {
    int64_t tenths = tenths_left(m);
    snprintf(out, size, "%lld.%lld %%", (long long)(tenths / 10), (long long)(tenths % 10));
}

/* False where the month's events have no state, since none is decided. */
static bool state_text(char *out, size_t size, const struct config *cfg, const struct family_month *m) {
    int reached = family_threshold(cfg, m->total, family_left(m));
    if (reached)
        snprintf(out, size, "WARNING_%d", reached);
    else
        snprintf(out, size, "NORMAL");
    return m->total_of != 0 && family_total_decides(m->total);
}

static void print_family(const struct config *cfg, const struct family_month *m) {
    struct table *t = table_new("family", "name", "month", "total>", "used>", "left>", "left>", "state",
                                "pending>", "failed>", NULL);
    char month[8], percent[32], state[16];
    print_month(month, m->month);
    percent_left(percent, sizeof percent, m);
    bool has_state = state_text(state, sizeof state, cfg, m);
    table_i64(t, m->family);
    table_text(t, m->name);
    table_text(t, month);
    table_i64_if(t, m->total_of != 0, m->total);
    table_i64(t, m->used);
    table_i64_if(t, m->total_of != 0, family_left(m));
    table_text(t, m->total_of ? percent : NULL);
    table_text(t, has_state ? state : NULL);
    table_i64(t, m->pending);
    table_i64(t, m->failed);
    table_print(t, stdout);
    table_free(t);
    if (m->total_of == 0)
        printf(
            "No quota for this month nor for an earlier one: its events are rejected as UNKNOWN_FAMILY.\n");
    else if (!m->has_row) {
        print_month(month, m->total_of);
        printf(
            "The month has no row yet; its total is carried over from %s when a member's event needs it.\n",
            month);
    }
    if (m->total_of != 0 && !family_total_decides(m->total))
        printf("Its total is %s: its events are rejected as UNKNOWN_FAMILY.\n",
               m->total < 0 ? "negative" : "larger than 9007199254740991");
    if (!m->name)
        printf("MySQL's table family has no such row: its events are rejected as UNKNOWN_FAMILY.\n");
    putchar('\n');
}

static void print_members(const struct family_month *m) {
    struct table *t = table_new("customer", "used>", "limit>", "blocked", "by an event of", "rules", NULL);
    for (size_t i = 0; i < m->member_count; i++) {
        const struct family_member *member = &m->members[i];
        struct buf rules = {0};
        family_rules_text(&rules, &member->rules);
        table_format(t, "%lld%s", (long long)member->customer, member->is_member ? "" : " (left the family)");
        table_i64(t, member->used);
        table_i64_if(t, member->rules.monthly_limit >= 0, member->rules.monthly_limit);
        table_text(t, member->blocked ? member->blocked : "no");
        print_time(t, member->state_ms);
        table_text(t, buf_cstr(&rules));
        buf_free(&rules);
    }
    table_print(t, stdout);
    table_free(t);
    if (m->member_count)
        putchar('\n');
}

static void print_letters(const struct family_month *m) {
    struct table *t =
        table_new("pending", "event", "customer", "created", "tries>", "next try", "last error", NULL);
    for (size_t i = 0; i < m->letter_count; i++) {
        const struct family_letter *l = &m->letters[i];
        table_i64(t, l->outbox_id);
        table_text(t, l->event_id);
        table_i64(t, l->customer);
        print_time(t, l->created_ms);
        table_i64(t, l->retry_count);
        print_time(t, l->next_retry_ms);
        table_text(t, l->last_error);
    }
    table_print(t, stdout);
    table_free(t);
    if (m->pending > (int64_t)m->letter_count)
        printf("… and %lld more.\n", (long long)(m->pending - (int64_t)m->letter_count));
    if (m->letter_count)
        putchar('\n');
}

static void print_people(const struct show *s) {
    for (size_t i = 0; i < s->month_count; i++) {
        const struct family_month *m = &s->months[i];
        if (i)
            putchar('\n');
        print_family(s->cfg, m);
        print_members(m);
        print_alerts(m, NULL);
        if (m->alert_count)
            putchar('\n');
        print_letters(m);
        print_cache(m);
    }
}

/* ---- for machines ---- */

static json_t *member_json(const struct family_member *member) {
    json_t *o = json_object();
    json_object_set_new(o, "customer", json_integer(member->customer));
    json_object_set_new(o, "member", json_boolean(member->is_member));
    json_object_set_new(o, "used", json_integer(member->used));
    json_object_set_new(o, "limit",
                        print_i64_json(member->rules.monthly_limit >= 0, member->rules.monthly_limit));
    json_object_set_new(o, "blocked", print_text_json(member->blocked));
    json_object_set_new(o, "stateOf", print_time_json(member->state_ms));
    json_object_set_new(o, "rules", print_rules_json(&member->rules));
    return o;
}

static void set_quota_json(json_t *o, const struct config *cfg, const struct family_month *m) {
    char month[8], state[16];
    print_month(month, m->month);
    bool has_state = state_text(state, sizeof state, cfg, m);
    json_object_set_new(o, "family", json_integer(m->family));
    json_object_set_new(o, "name", print_text_json(m->name));
    json_object_set_new(o, "month", json_string(month));
    json_object_set_new(o, "total", print_i64_json(m->total_of != 0, m->total));
    json_object_set_new(o, "used", json_integer(m->used));
    json_object_set_new(o, "remaining", print_i64_json(m->total_of != 0, family_left(m)));
    json_object_set_new(o, "percentLeft", m->total_of ? json_real((double)tenths_left(m) / 10) : json_null());
    json_object_set_new(o, "state", has_state ? json_string(state) : json_null());
    print_month(month, m->total_of);
    json_object_set_new(o, "carriedOverFrom", m->total_of && !m->has_row ? json_string(month) : json_null());
}

static json_t *month_json(const struct config *cfg, const struct family_month *m) {
    json_t *o = json_object(), *members = json_array(), *alerts = json_array(), *pending = json_array();
    for (size_t i = 0; i < m->member_count; i++)
        json_array_append_new(members, member_json(&m->members[i]));
    for (size_t i = 0; i < m->alert_count; i++)
        json_array_append_new(alerts, print_alert_json(&m->alerts[i]));
    for (size_t i = 0; i < m->letter_count; i++)
        json_array_append_new(pending, print_letter_json(&m->letters[i]));
    set_quota_json(o, cfg, m);
    json_object_set_new(o, "members", members);
    json_object_set_new(o, "alerts", alerts);
    json_object_set_new(o, "pending", json_integer(m->pending));
    json_object_set_new(o, "failed", json_integer(m->failed));
    json_object_set_new(o, "pendingRows", pending);
    json_object_set_new(o, "stores", print_cache_json(m));
    return o;
}

static void print_machines(const struct show *s, const struct options *o) {
    json_t *whole = json_object(), *families = json_array();
    for (size_t i = 0; i < s->month_count; i++)
        json_array_append_new(families, month_json(s->cfg, &s->months[i]));
    json_object_set_new(whole, o->customer ? "customer" : "family", json_integer(o->number));
    json_object_set_new(whole, "redis", print_error_json(&s->away));
    json_object_set_new(whole, "families", families);
    table_print_json(whole, stdout);
}

/* ---- the command ---- */

static int read_number(const char *text, struct options *o) {
    if (cli_family(text, &o->number))
        return EXIT_OK;
    return cli_usage(COMMAND, o->customer ? "CUSTOMER" : "FAMILY", "must be a number, 1 … 9007199254740991");
}

static int read_words(int argc, char **argv, struct options *o) {
    if (optind == argc)
        return cli_usage(COMMAND, "family FAMILY, or customer CUSTOMER,", "is missing");
    const char *what = argv[optind];
    o->customer = strcmp(what, "customer") == 0;
    if (!o->customer && strcmp(what, "family") != 0)
        return cli_usage(COMMAND, what, "is neither family nor customer");
    if (optind + 1 == argc)
        return cli_usage(COMMAND, o->customer ? "CUSTOMER" : "FAMILY", "is missing");
    if (optind + 2 < argc)
        return cli_usage(COMMAND, argv[optind + 2], "is one argument too many");
    return read_number(argv[optind + 1], o);
}

static int read_options(int argc, char **argv, struct options *o) {
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"month", required_argument, NULL, 'm'},
                                          {0}};
    int c;
    int32_t month;
    while ((c = cli_option(argc, argv, ":c:", longs)) != -1) {
        if (c == '?')
            return EXIT_USAGE;
        if (c == 'c')
            o->path = optarg;
        else if (c == 'j')
            o->json = true;
        else
            o->month_text = optarg;
    }
    if (!o->path)
        return cli_usage(COMMAND, "-c FILE", "is missing");
    if (o->month_text && !print_month_parse(o->month_text, &month))
        return cli_usage(COMMAND, "--month", "must be a month as 2026-11 or 202611");
    return read_words(argc, argv, o);
}

static int nobody(const struct options *o) {
    char what[48];
    snprintf(what, sizeof what, "%s %lld", o->customer ? "customer" : "family", (long long)o->number);
    cli_error(COMMAND, what, o->customer ? "is in no family of MySQL's" : "MySQL has no such family",
              "look at the number");
    return EXIT_USAGE;
}

static int show(struct show *s, const struct options *o) {
    struct error err = {0};
    int32_t month = period_month((int64_t)time(NULL) * 1000);
    if (o->month_text && !print_month_parse(o->month_text, &month))
        return EXIT_INTERNAL; /* read_options has seen to it */
    s->families[0] = o->number;
    s->count = o->customer ? 0 : 1;
    if (!db_ensure(s->db, &err) || (o->customer && !find_families(s, o->number, &err)) ||
        !read_months(s, o->customer ? o->number : 0, month, &err))
        return cli_failed(COMMAND, &err);
    if (s->count == 0 || (!o->customer && !s->months[0].known))
        return nobody(o);
    if (o->json)
        print_machines(s, o);
    else
        print_people(s);
    fflush(stdout);
    if (s->away.area == ERROR_NONE)
        return EXIT_OK;
    cli_error(COMMAND, error_area_name(s->away.area), s->away.text, "what it holds is left out");
    return cli_exit_code(&s->away);
}

int cli_show(int argc, char **argv) {
    struct options o = {0};
    int code = read_options(argc, argv, &o);
    if (code != EXIT_OK)
        return code;
    log_init(2, LOG_ERROR);
    struct show s = {.cfg = cli_config(COMMAND, o.path)};
    if (!s.cfg)
        return EXIT_CONFIG;
    s.db = db_new(s.cfg, DB_REPEATABLE_READ);
    s.redis = redis_new(s.cfg);
    code = cli_migrated(COMMAND, s.db);
    if (code == EXIT_OK)
        code = show(&s, &o);
    for (size_t i = 0; i < s.month_count; i++)
        family_month_free(&s.months[i]);
    free(s.months);
    redis_free(s.redis);
    db_free(s.db);
    config_free(s.cfg);
    return code;
}
