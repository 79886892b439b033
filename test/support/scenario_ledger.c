/* SPDX-License-Identifier: MIT */
/* Every record's way: by the ledger's counts, by what it left behind, and by
 * the offsets the group committed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "scenario_check.h"
#include "scenario_sql.h"

/* Where a record left its mark, by place (as in places.items). */
struct trace {
    bool settled;
    bool blocked;
    bool rejected;
};

static void ledger_text(struct sc_rows *rows, const char *key, const int64_t counts[SC_OUTCOMES]) {
    sc_rows_addf(rows, key, "settled %ld blocked %ld duplicate %ld rejected %ld ignored %ld",
                 counts[SC_SETTLED], counts[SC_BLOCKED], counts[SC_DUPLICATE], counts[SC_REJECTED],
                 counts[SC_IGNORED]);
}

/* What expected.json says of one delivery, for all deliveries so far. */
static void sums_expected(const struct sc_check *c, struct sc_rows *rows) {
    const json_t *ledger = sc_json_get(c->scenario->expected, "ledger");
    int64_t counts[SC_OUTCOMES];
    for (size_t i = 0; i < SC_OUTCOMES; i++)
        counts[i] = sc_json_int(ledger, sc_outcome_name((enum sc_outcome)i));
    int64_t again = c->state.copies - 1;
    counts[SC_DUPLICATE] += again * (counts[SC_SETTLED] + counts[SC_BLOCKED] + counts[SC_DUPLICATE]);
    counts[SC_REJECTED] += again * counts[SC_REJECTED];
    counts[SC_IGNORED] += again * counts[SC_IGNORED];
    ledger_text(rows, "in sum", counts);
}

static void partition_expected(const struct sc_check *c, int partition, int64_t end, struct sc_rows *rows) {
    int64_t counts[SC_OUTCOMES] = {0};
    int64_t records = 0;
    for (size_t i = 0; i < c->places.count; i++) {
        const struct sc_place *p = &c->places.items[i];
        if (p->partition != partition)
            continue;
        counts[sc_place_outcome(c->scenario, p)]++;
        records++;
    }
    if (end == 0)
        return; /* an empty partition may have a row or not */
    char key[64];
    snprintf(key, sizeof key, "partition %d", partition);
    ledger_text(rows, key, counts);
    snprintf(key, sizeof key, "partition %d's way", partition);
    sc_rows_addf(rows, key, "from 0 to %ld gap %ld paused 0", end, end - records);
}

static void ledger_found(struct sc_check *c, struct sc_rows *rows, int64_t *next) {
    char *group = sc_sql_quote(c->db, c->state.group);
    MYSQL_RES *res =
        sc_sql_rows(c->db,
                    "SELECT topic, partition_id, settled, blocked, duplicate, rejected, ignored, gap, "
                    "first_offset, next_offset, paused, group_id = %s FROM consumer_ledger",
                    group);
    free(group);
    int64_t sums[SC_OUTCOMES] = {0};
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        int64_t partition = sc_sql_int(r[1]);
        int64_t from = sc_sql_int(r[8]), to = sc_sql_int(r[9]), gap = sc_sql_int(r[7]), sum = gap;
        if (strcmp(r[0], c->state.usage_topic) != 0 || sc_sql_int(r[11]) != 1 ||
            partition >= c->state.partitions) {
            sc_differ(&c->report, "consumer_ledger: expected no row for %s/%s of that group, found one", r[0],
                      r[1]);
            continue;
        }
        int64_t counts[SC_OUTCOMES];
        for (size_t i = 0; i < SC_OUTCOMES; i++) {
            counts[i] = sc_sql_int(r[2 + i]);
            sums[i] += counts[i];
            sum += counts[i];
        }
        if (sum != to - from)
            sc_differ(&c->report,
                      "consumer_ledger partition %s: expected %ld records from %ld to %ld, found %ld", r[1],
                      to - from, from, to, sum);
        next[partition] = to;
        if (from == 0 && to == 0 && sum == 0)
            continue;
        char key[64];
        snprintf(key, sizeof key, "partition %ld", partition);
        ledger_text(rows, key, counts);
        snprintf(key, sizeof key, "partition %ld's way", partition);
        sc_rows_addf(rows, key, "from %ld to %ld gap %ld paused %s", from, to, gap, r[10]);
    }
    ledger_text(rows, "in sum", sums);
    mysql_free_result(res);
}

static void check_committed(struct sc_check *c, const int64_t *ends, const int64_t *next) {
    int n = c->state.partitions;
    int64_t *committed = mem_zero((size_t)n, sizeof *committed);
    sc_group_committed(c->state.group, c->state.usage_topic, n, committed);
    for (int i = 0; i < n; i++) {
        if (committed[i] > next[i])
            sc_differ(&c->report,
                      "committed offset of partition %d: expected no more than the ledger's %ld, found %ld",
                      i, next[i], committed[i]);
        if (committed[i] != ends[i] && !(ends[i] == 0 && committed[i] < 0))
            sc_differ(&c->report, "committed offset of partition %d: expected %ld, found %ld", i, ends[i],
                      committed[i]);
    }
    free(committed);
}

static void trace_rows(struct sc_check *c, const char *table, struct trace *traces, json_t *ids,
                       bool blocks) {
    MYSQL_RES *res = sc_sql_rows(c->db, "SELECT event_id, partition_id, record_offset FROM %s", table);
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        sc_map_set(ids, r[0], 1);
        const struct sc_place *p = sc_places_find(&c->places, (int32_t)sc_sql_int(r[1]), sc_sql_int(r[2]));
        if (!p)
            continue; /* reported as a wrong origin */
        struct trace *t = &traces[p - c->places.items];
        if (blocks)
            t->blocked = true;
        else
            t->settled = true;
    }
    mysql_free_result(res);
}

static void trace_dlt(const struct sc_check *c, struct trace *traces) {
    for (size_t i = 0; i < c->dlt.count; i++) {
        const struct sc_header *partition = sc_record_header(&c->dlt.items[i], "x-original-partition");
        const struct sc_header *offset = sc_record_header(&c->dlt.items[i], "x-original-offset");
        if (!partition || !partition->value || !offset || !offset->value)
            continue;
        const struct sc_place *p =
            sc_places_find(&c->places, (int32_t)atoi(partition->value), strtoll(offset->value, NULL, 10));
        if (p)
            traces[p - c->places.items].rejected = true;
    }
}

/* A duplicate leaves nothing but the row of the first delivery, an ignored
 * record nothing at all. */
static const char *outcome_found(const struct sc_line *line, const struct trace *t, const json_t *ids) {
    if (t->settled + t->blocked + t->rejected > 1)
        return "more than one outcome";
    if (t->settled)
        return sc_outcome_name(SC_SETTLED);
    if (t->blocked)
        return sc_outcome_name(SC_BLOCKED);
    if (t->rejected)
        return sc_outcome_name(SC_REJECTED);
    if (line->other_type)
        return sc_outcome_name(SC_IGNORED);
    if (line->readable && json_object_get(ids, line->event.id))
        return sc_outcome_name(SC_DUPLICATE);
    return "nothing";
}

static void check_outcomes(struct sc_check *c) {
    struct trace *traces = mem_zero(c->places.count, sizeof *traces);
    json_t *ids = json_object();
    struct sc_rows expected = {0}, found = {0};
    trace_rows(c, "usage_record", traces, ids, false);
    trace_rows(c, "usage_block", traces, ids, true);
    trace_dlt(c, traces);
    for (size_t i = 0; i < c->places.count; i++) {
        const struct sc_place *p = &c->places.items[i];
        char key[64];
        snprintf(key, sizeof key, "line %zu copy %d", p->line + 1, p->copy);
        sc_rows_addf(&expected, key, "%s", sc_outcome_name(sc_place_outcome(c->scenario, p)));
        sc_rows_addf(&found, key, "%s", outcome_found(&c->scenario->lines[p->line], &traces[i], ids));
    }
    sc_rows_diff(&c->report, "outcome of", &expected, &found);
    sc_rows_free(&expected);
    sc_rows_free(&found);
    json_decref(ids);
    free(traces);
}

void sc_check_ledger(struct sc_check *c) {
    struct sc_rows expected = {0}, found = {0};
    int n = c->state.partitions;
    int64_t *ends = mem_zero((size_t)n, sizeof *ends);
    int64_t *next = mem_zero((size_t)n, sizeof *next);
    sc_topic_ends(c->state.usage_topic, n, ends);
    sums_expected(c, &expected);
    for (int i = 0; i < n; i++)
        partition_expected(c, i, ends[i], &expected);
    ledger_found(c, &found, next);
    sc_rows_diff(&c->report, "consumer_ledger", &expected, &found);
    check_committed(c, ends, next);
    check_outcomes(c);
    sc_rows_free(&expected);
    sc_rows_free(&found);
    free(ends);
    free(next);
}
