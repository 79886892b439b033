/* SPDX-License-Identifier: MIT */
#include "model_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buf.h"
#include "model_world.h"
#include "scenario_sql.h"

struct model_delivery *model_check_at(const struct model_check *c, int64_t partition, int64_t offset) {
    char key[64];
    snprintf(key, sizeof key, "%ld/%ld", partition, offset);
    int64_t at = sc_map_get(c->places, key, -1);
    return at < 0 ? NULL : &c->deliveries[at];
}

/* ---- what was delivered ---- */

static bool same_bytes(const char *a, size_t a_len, const char *b, size_t b_len) {
    return !a == !b && a_len == b_len && (!a || !b || memcmp(a, b, a_len) == 0);
}

static int by_phase(const void *left, const void *right) {
    const struct model_delivery *a = left, *b = right;
    if (a->phase != b->phase)
        return a->phase < b->phase ? -1 : 1;
    if (a->record->partition != b->record->partition)
        return a->record->partition < b->record->partition ? -1 : 1;
    return (a->record->offset > b->record->offset) - (a->record->offset < b->record->offset);
}

/* Reads the topic; each of its records must be one of the folder's, byte for byte. */
static void deliveries_read(struct model_check *c) {
    int phases = model_world_phases(c->question->dir);
    struct sc_records *wanted = mem_zero((size_t)phases, sizeof *wanted);
    for (int i = 0; i < phases; i++)
        wanted[i] = model_records_read(c->question->dir, i);
    c->topic = sc_topic_read(c->question->usage_topic);
    c->deliveries = mem_zero(c->topic.count + 1, sizeof *c->deliveries);
    for (size_t i = 0; i < c->topic.count; i++) {
        const struct sc_record *r = &c->topic.items[i];
        int phase;
        int64_t index;
        if (!model_header_of(r, &phase, &index) || phase < 0 || phase >= phases || index < 0 ||
            (size_t)index >= wanted[phase].count)
            sc_die("%s %d/%ld isn't one of the run's records", c->question->usage_topic, r->partition,
                   r->offset);
        const struct sc_record *w = &wanted[phase].items[index];
        if (!same_bytes(r->key, r->key_len, w->key, w->key_len) ||
            !same_bytes(r->value, r->value_len, w->value, w->value_len) || r->timestamp_ms != w->timestamp_ms)
            sc_die("%s %d/%ld isn't record %d/%ld byte for byte", c->question->usage_topic, r->partition,
                   r->offset, phase, index);
        c->deliveries[c->count++] = (struct model_delivery){.phase = phase, .record = r};
        c->phases = phase >= c->phases ? phase + 1 : c->phases;
    }
    for (int i = 0; i < phases; i++)
        sc_records_free(&wanted[i]);
    free(wanted);
    if (c->count)
        qsort(c->deliveries, c->count, sizeof *c->deliveries, by_phase);
    for (size_t i = 0; i < c->count; i++) {
        char key[64];
        snprintf(key, sizeof key, "%d/%ld", c->deliveries[i].record->partition,
                 c->deliveries[i].record->offset);
        sc_map_set(c->places, key, (int64_t)i);
    }
}

/* What the broker acknowledged must be there. */
static void places_check(const struct model_check *c) {
    char *path = sc_path(c->question->dir, "places");
    FILE *f = fopen(path, "r");
    int phase, partition, wanted_phase;
    long index, offset;
    int64_t wanted_index;
    while (f && fscanf(f, "%d %ld %d %ld", &phase, &index, &partition, &offset) == 4) {
        const struct model_delivery *d = model_check_at(c, partition, offset);
        if (!d || !model_header_of(d->record, &wanted_phase, &wanted_index) || wanted_phase != phase ||
            wanted_index != index)
            sc_die("record %d/%ld was acknowledged at %d/%ld and isn't there", phase, index, partition,
                   offset);
    }
    if (f)
        fclose(f);
    free(path);
}

/* ---- running the model ---- */

static void change_take(void *model, const char *line) {
    model_change(model, line);
}

static void phase_run(struct model_check *c, struct model *m, size_t from, size_t to, bool backwards) {
    /* Within a phase partitions may be taken in any order; each is taken from its beginning. */
    for (size_t end = to, start; from < to;) {
        start = backwards ? end - 1 : from;
        if (backwards) {
            while (start > from &&
                   c->deliveries[start - 1].record->partition == c->deliveries[start].record->partition)
                start--;
        }
        size_t stop = backwards ? end : to;
        for (size_t i = start; i < stop; i++) {
            struct model_delivery *d = &c->deliveries[i];
            d->verdict = model_take(m, d->record->value, d->record->value_len, d->record->timestamp_ms, i);
        }
        if (!backwards || start == from)
            return;
        end = start;
    }
}

static struct model *run(struct model_check *c, bool backwards) {
    struct model *m = model_new();
    size_t from = 0;
    for (int phase = 0; phase == 0 || phase < c->phases; phase++) {
        model_world_changes(c->question->dir, phase, change_take, m);
        size_t to = from;
        while (to < c->count && c->deliveries[to].phase == phase)
            to++;
        phase_run(c, m, from, to, backwards);
        from = to;
    }
    return m;
}

/* All of a model but the places. */
static void digest(const struct model *m, struct sc_rows *rows) {
    char key[200];
    json_t *counts = json_object();
    for (size_t i = 0; i < m->quotas.count; i++) {
        const struct model_quota *q = MODEL_AT(m->quotas, struct model_quota, i);
        snprintf(key, sizeof key, "quota %ld/%d", q->family, q->month);
        sc_rows_addf(rows, key, "%ld %ld", q->total, q->used);
    }
    for (size_t i = 0; i < m->customers.count; i++) {
        const struct model_customer *q = MODEL_AT(m->customers, struct model_customer, i);
        snprintf(key, sizeof key, "customer %ld/%ld/%d", q->family, q->customer, q->month);
        sc_rows_addf(rows, key, "%ld %s %ld", q->used, q->reason ? q->reason : "free", q->state_ms);
    }
    for (size_t i = 0; i < m->decisions.count; i++) {
        const struct model_decision *d = MODEL_AT(m->decisions, struct model_decision, i);
        sc_rows_addf(rows, d->event.id, "%ld/%ld %ld at %ld: %s, %s, %d", d->event.family, d->event.customer,
                     d->event.bytes, d->event.time_ms, d->reason ? d->reason : "allowed",
                     d->told ? "told" : "not told", d->threshold);
    }
    for (size_t i = 0; i < m->told.count; i++) {
        const struct model_decision *d =
            MODEL_AT(m->decisions, struct model_decision, *MODEL_AT(m->told, size_t, i));
        snprintf(key, sizeof key, "told %ld", d->event.family);
        sc_map_set(counts, key, sc_map_get(counts, key, 0) + 1);
        snprintf(key, sizeof key, "told %ld #%ld", d->event.family, sc_map_get(counts, key, 0));
        sc_rows_addf(rows, key, "%s", d->event.id);
    }
    json_decref(counts);
}

/* A run with several right outcomes can't be judged by one of them. */
static void determined_check(struct model_check *c) {
    struct model *backwards = run(c, true);
    c->model = run(c, false);
    struct sc_rows a = {0}, b = {0};
    struct sc_report report = {.name = "order of partitions"};
    digest(c->model, &a);
    digest(backwards, &b);
    sc_rows_diff(&report, "outcome", &a, &b);
    sc_rows_free(&a);
    sc_rows_free(&b);
    model_free(backwards);
    if (report.differences)
        sc_die("this run has several right outcomes");
}

/* ---- which of several copies came first ---- */

/* Whether the row's record may have been the first: a copy, byte for byte, on another partition of the same
 * phase, and the first one there that isn't rejected for its record's own time. */
static bool may_be_first(const struct model_check *c, const struct model_delivery *first,
                         const struct model_delivery *other) {
    const struct sc_record *a = first->record, *b = other->record;
    if (other->verdict.outcome != MODEL_DUPLICATE || first->phase != other->phase ||
        a->partition == b->partition || !same_bytes(a->value, a->value_len, b->value, b->value_len))
        return false;
    for (const struct model_delivery *d = other; d-- > c->deliveries;) {
        if (d->phase != other->phase || d->record->partition != b->partition)
            break;
        if (d->verdict.outcome != MODEL_REJECTED &&
            same_bytes(d->record->value, d->record->value_len, b->value, b->value_len))
            return false;
    }
    return true;
}

/* Where copies of an event lay on several partitions, the one that has its row was the first. */
static void copies_sort_out(struct model_check *c) {
    MYSQL_RES *res =
        sc_sql_rows(c->db, "SELECT event_id, partition_id, record_offset FROM usage_record UNION ALL "
                           "SELECT event_id, partition_id, record_offset FROM usage_block");
    for (MYSQL_ROW r; (r = mysql_fetch_row(res));) {
        struct model_decision *d = (struct model_decision *)(uintptr_t)model_decided(c->model, r[0]);
        struct model_delivery *found = model_check_at(c, sc_sql_int(r[1]), sc_sql_int(r[2]));
        if (!d || !found || found == &c->deliveries[d->delivery])
            continue;
        struct model_delivery *first = &c->deliveries[d->delivery];
        if (!may_be_first(c, first, found))
            continue; /* comes out as a different row */
        struct model_verdict verdict = first->verdict;
        first->verdict = found->verdict;
        found->verdict = verdict;
        d->delivery = (size_t)(found - c->deliveries);
    }
    mysql_free_result(res);
}

bool model_check(const struct model_question *question) {
    struct model_check c = {.question = question, .report.name = "model"};
    c.places = json_object();
    deliveries_read(&c);
    places_check(&c);
    determined_check(&c);
    c.db = sc_sql_open();
    copies_sort_out(&c);
    model_check_tables(&c);
    model_check_ledger(&c);
    model_check_notifications(&c);
    model_check_rejections(&c);
    if (question->cache)
        model_check_cache(&c);
    size_t outcomes[MODEL_OUTCOMES] = {0};
    for (size_t i = 0; i < c.count; i++)
        outcomes[c.deliveries[i].verdict.outcome]++;
    printf("%s: %zu records: %zu settled, %zu blocked, %zu duplicate, %zu rejected, %zu ignored; %zu told",
           c.report.differences ? "DIFFERS" : "same", c.count, outcomes[0], outcomes[1], outcomes[2],
           outcomes[3], outcomes[4], c.model->told.count);
    if (c.report.differences)
        printf("; %zu differences", c.report.differences);
    putchar('\n');
    mysql_close(c.db);
    model_free(c.model);
    json_decref(c.places);
    free(c.deliveries);
    sc_records_free(&c.topic);
    return c.report.differences == 0;
}
