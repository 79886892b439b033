/* SPDX-License-Identifier: MIT */
/* `tallyd lag`: where each partition stands, in Kafka and in the ledger, what is left, and who reads it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "buf.h"
#include "cli.h"
#include "group.h"
#include "kafka.h"
#include "ledger_rows.h"
#include "log.h"
#include "mysql_db.h"
#include "period.h"
#include "table.h"

#define COMMAND "lag"
#define DESTROY_MS 2000

struct options {
    const char *path;
    bool json;
};

/* One partition; what isn't known there is NULL. */
struct line {
    int32_t id;
    const struct group_partition *log;
    const struct ledger_row *row;
};

struct view {
    struct group group;
    struct ledger_row *rows;
    size_t row_count;
    struct line *lines;
    size_t count;
};

static int by_id(const void *x, const void *y) {
    const struct line *a = x, *b = y;
    return (a->id > b->id) - (a->id < b->id);
}

/* Partitions of the topic with their rows, and rows whose partitions are gone. */
static void join(struct view *v) {
    v->lines = mem_zero(v->group.partition_count + v->row_count, sizeof *v->lines);
    for (size_t i = 0; i < v->group.partition_count; i++)
        v->lines[v->count++] = (struct line){.id = v->group.partitions[i].id, .log = &v->group.partitions[i]};
    for (size_t i = 0; i < v->row_count; i++) {
        size_t k = 0;
        while (k < v->count && v->lines[k].id != v->rows[i].partition)
            k++;
        if (k == v->count)
            v->lines[v->count++] = (struct line){.id = v->rows[i].partition};
        v->lines[k].row = &v->rows[i];
    }
    if (v->count)
        qsort(v->lines, v->count, sizeof *v->lines, by_id);
}

/* Offsets that are left to read, and how many of them are below what the ledger has counted. */
struct left {
    int64_t all, again;
};

/* By where a claim would start: what the log has lost before its start isn't left, and what is run again is.
 * A member that reads is ahead of what it has committed, by what it has settled since its last commit. */
static struct left left_of(const struct view *v, const struct line *l) {
    if (!l->log)
        return (struct left){0};
    int64_t next = l->row ? l->row->next_offset : -1, high = l->log->high;
    int64_t from = ledger_start(l->log->low, l->log->committed, next, v->row_count > 0);
    int64_t settled_to = next < high ? next : high;
    return (struct left){.all = high > from ? high - from : 0,
                         .again = settled_to > from ? settled_to - from : 0};
}

static struct left left_in_all(const struct view *v) {
    struct left sum = {0};
    for (size_t i = 0; i < v->count; i++) {
        struct left left = left_of(v, &v->lines[i]);
        sum.all += left.all;
        sum.again += left.again;
    }
    return sum;
}

static const char *state(const struct line *l) {
    if (!l->log)
        return "not on the topic";
    if (l->row && l->row->next_offset > l->log->high)
        return "log made anew?";
    if (l->row && l->row->next_offset < l->log->low)
        return "records lost";
    if (l->row && l->row->paused_since_ms)
        return "paused";
    return l->log->member < 0 ? "no member" : "read";
}

static const struct group_member *member(const struct view *v, const struct line *l) {
    return l->log && l->log->member >= 0 ? &v->group.members[l->log->member] : NULL;
}

/* ---- for people ---- */

static void print_positions(const struct view *v) {
    struct table *t = table_new("partition>", "log start>", "log end>", "committed>", "settled to>", "lag>",
                                "again>", "state", "paused since", "member", NULL);
    struct left total = left_in_all(v);
    for (size_t i = 0; i < v->count; i++) {
        const struct line *l = &v->lines[i];
        const struct group_member *m = member(v, l);
        struct left left = left_of(v, l);
        char since[PERIOD_LOCAL_SIZE] = "";
        if (l->row && l->row->paused_since_ms)
            period_format_local(l->row->paused_since_ms, since);
        table_i64(t, l->id);
        table_i64_if(t, l->log, l->log ? l->log->low : 0);
        table_i64_if(t, l->log, l->log ? l->log->high : 0);
        table_i64_if(t, l->log && l->log->committed >= 0, l->log ? l->log->committed : 0);
        table_i64_if(t, l->row, l->row ? l->row->next_offset : 0);
        table_i64_if(t, l->log, left.all);
        table_i64_if(t, l->log, left.again);
        table_text(t, state(l));
        table_text(t, *since ? since : NULL);
        if (m)
            table_format(t, "%s %s", m->client_id, m->host);
        else
            table_text(t, NULL);
    }
    table_text(t, "total");
    for (int i = 0; i < 4; i++)
        table_text(t, "");
    table_i64(t, total.all);
    table_i64(t, total.again);
    table_text(t, "");
    table_text(t, "");
    table_format(t, "%zu, group %s", v->group.member_count, v->group.state);
    table_print(t, stdout);
    table_free(t);
}

static void print_counts(const struct view *v) {
    struct table *t = table_new("partition>", "first offset>", "settled>", "blocked>", "duplicate>",
                                "rejected>", "ignored>", "gap>", NULL);
    struct ledger_row sum = {0};
    for (size_t i = 0; i < v->row_count; i++) {
        const struct ledger_row *r = &v->rows[i];
        const int64_t cells[] = {r->partition, r->first_offset, r->settled, r->blocked,
                                 r->duplicate, r->rejected,     r->ignored, r->gap};
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            table_i64(t, cells[k]);
        sum.settled += r->settled;
        sum.blocked += r->blocked;
        sum.duplicate += r->duplicate;
        sum.rejected += r->rejected;
        sum.ignored += r->ignored;
        sum.gap += r->gap;
    }
    table_text(t, "total");
    table_text(t, "");
    const int64_t sums[] = {sum.settled, sum.blocked, sum.duplicate, sum.rejected, sum.ignored, sum.gap};
    for (size_t k = 0; k < sizeof sums / sizeof *sums; k++)
        table_i64(t, sums[k]);
    table_print(t, stdout);
    table_free(t);
}

/* What the figures can't tell apart from outside is said. */
static void print_again(const struct view *v, const struct config *cfg) {
    struct left left = left_in_all(v);
    bool may_commit = false;
    for (size_t i = 0; i < v->count; i++)
        may_commit = may_commit || (left_of(v, &v->lines[i]).again && member(v, &v->lines[i]));
    if (left.again == 0)
        return;
    printf("\n%lld of these %lld were settled before: a replay runs them again first; %lld are new\n",
           (long long)left.again, (long long)left.all, (long long)(left.all - left.again));
    if (may_commit)
        printf("what a member has settled and not committed yet is among them; it commits every %lld ms\n",
               (long long)cfg->kafka.auto_commit_interval_ms);
}

static void print_tables(const struct view *v, const struct config *cfg) {
    print_positions(v);
    print_again(v, cfg);
    if (v->row_count == 0) {
        printf("\nthe ledger has no partition of this topic and group yet\n");
        return;
    }
    putchar('\n');
    print_counts(v);
}

/* ---- for machines ---- */

static json_t *number(bool known, int64_t n) {
    return known ? json_integer(n) : json_null();
}

/* What comes from outside may not be UTF-8: then it's left out. */
static json_t *text(const char *s) {
    json_t *t = json_string(s);
    return t ? t : json_null();
}

static json_t *counts_json(const struct ledger_row *r) {
    if (!r)
        return json_null();
    json_t *o = json_object();
    json_object_set_new(o, "firstOffset", json_integer(r->first_offset));
    json_object_set_new(o, "nextOffset", json_integer(r->next_offset));
    json_object_set_new(o, "batchNo", json_integer(r->batch_no));
    json_object_set_new(o, "owner", json_integer(r->owner));
    json_object_set_new(o, "settled", json_integer(r->settled));
    json_object_set_new(o, "blocked", json_integer(r->blocked));
    json_object_set_new(o, "duplicate", json_integer(r->duplicate));
    json_object_set_new(o, "rejected", json_integer(r->rejected));
    json_object_set_new(o, "ignored", json_integer(r->ignored));
    json_object_set_new(o, "gap", json_integer(r->gap));
    return o;
}

static json_t *line_json(const struct view *v, const struct line *l) {
    const struct group_member *m = member(v, l);
    struct left left = left_of(v, l);
    json_t *o = json_object();
    char since[PERIOD_LOCAL_SIZE] = "";
    if (l->row && l->row->paused_since_ms)
        period_format_local(l->row->paused_since_ms, since);
    json_object_set_new(o, "partition", json_integer(l->id));
    json_object_set_new(o, "logStart", number(l->log, l->log ? l->log->low : 0));
    json_object_set_new(o, "logEnd", number(l->log, l->log ? l->log->high : 0));
    json_object_set_new(o, "committed",
                        number(l->log && l->log->committed >= 0, l->log ? l->log->committed : 0));
    json_object_set_new(o, "lag", number(l->log, left.all));
    json_object_set_new(o, "again", number(l->log, left.again));
    json_object_set_new(o, "new", number(l->log, left.all - left.again));
    json_object_set_new(o, "state", json_string(state(l)));
    json_object_set_new(o, "pausedSince", *since ? json_string(since) : json_null());
    json_object_set_new(o, "clientId", m ? text(m->client_id) : json_null());
    json_object_set_new(o, "host", m ? text(m->host) : json_null());
    json_object_set_new(o, "ledger", counts_json(l->row));
    return o;
}

static void print_json(const struct view *v, const struct config *cfg) {
    json_t *whole = json_object(), *list = json_array(), *members = json_array();
    struct left total = left_in_all(v);
    for (size_t i = 0; i < v->count; i++)
        json_array_append_new(list, line_json(v, &v->lines[i]));
    for (size_t i = 0; i < v->group.member_count; i++) {
        const struct group_member *m = &v->group.members[i];
        json_t *o = json_object();
        json_object_set_new(o, "clientId", text(m->client_id));
        json_object_set_new(o, "host", text(m->host));
        json_object_set_new(o, "partitions", json_integer((json_int_t)m->partitions));
        json_array_append_new(members, o);
    }
    json_object_set_new(whole, "group", json_string(cfg->kafka.group_id));
    json_object_set_new(whole, "topic", json_string(cfg->kafka.usage_topic));
    json_object_set_new(whole, "groupState", json_string(v->group.state));
    json_object_set_new(whole, "lag", json_integer(total.all));
    json_object_set_new(whole, "again", json_integer(total.again));
    json_object_set_new(whole, "new", json_integer(total.all - total.again));
    json_object_set_new(whole, "members", members);
    json_object_set_new(whole, "partitions", list);
    table_print_json(whole, stdout);
}

/* ---- the command ---- */

static int read_options(int argc, char **argv, struct options *o) {
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'}, {"json", no_argument, NULL, 'j'}, {0}};
    int c;
    while ((c = cli_option(argc, argv, ":c:", longs)) != -1) {
        if (c == '?')
            return EXIT_USAGE;
        if (c == 'c')
            o->path = optarg;
        else
            o->json = true;
    }
    if (optind < argc)
        return cli_usage(COMMAND, argv[optind], "is one argument too many");
    return o->path ? EXIT_OK : cli_usage(COMMAND, "-c FILE", "is missing");
}

/* The group first: the ledger only grows, so what it has then was committed by nobody before. The logs' ends
 * last: a ledger beyond them is of another log. */
static int show(const struct config *cfg, struct db *db, void *options) {
    const struct options *o = options;
    struct error err = {0};
    struct view v = {0};
    rd_kafka_t *rk = kafka_observer_new(cfg, &err);
    bool ok = rk && group_read(rk, cfg, &v.group, &err) &&
              ledger_rows_read(db, cfg, &v.rows, &v.row_count, &err) &&
              group_renew_ends(rk, cfg, &v.group, &err);
    if (ok) {
        join(&v);
        if (o->json)
            print_json(&v, cfg);
        else
            print_tables(&v, cfg);
    }
    group_free(&v.group);
    free(v.rows);
    free(v.lines);
    if (rk)
        kafka_destroy(rk, DESTROY_MS);
    return ok ? EXIT_OK : cli_failed(COMMAND, &err);
}

int cli_lag(int argc, char **argv) {
    struct options o = {0};
    int code = read_options(argc, argv, &o);
    if (code != EXIT_OK)
        return code;
    return cli_with_database(COMMAND, o.path, LOG_ERROR, show, &o);
}
