/* SPDX-License-Identifier: MIT */
/* What the scenario implies beyond what it spells out: each event's figures, by
 * running the expected outcomes through plain sums, and the alert marks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "scenario_check.h"
#include "scenario_sql.h"

/* tallyd's default thresholds, lowest first. */
static const int thresholds[] = {10, 30, 50};

struct sc_state sc_state_read(const char *work) {
    char *path = sc_path(work, "state.json");
    json_t *doc = sc_json_read(path);
    struct sc_state s = {
        .group = mem_strdup(sc_json_text(doc, "group")),
        .usage_topic = mem_strdup(sc_json_text(doc, "usageTopic")),
        .notification_topic = mem_strdup(sc_json_text(doc, "notificationTopic")),
        .dlt_topic = mem_strdup(sc_json_text(doc, "dltTopic")),
        .partitions = (int)sc_json_int(doc, "partitions"),
        .copies = (int)sc_json_int(doc, "copies"),
        .reads = (int)sc_json_int(doc, "reads"),
        .ran_ms = sc_json_int(doc, "ranMs"),
    };
    json_decref(doc);
    free(path);
    return s;
}

void sc_state_write(const char *work, const struct sc_state *s) {
    char *path = sc_path(work, "state.json");
    json_t *doc =
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:I}", "group", s->group, "usageTopic", s->usage_topic,
                  "notificationTopic", s->notification_topic, "dltTopic", s->dlt_topic, "partitions",
                  s->partitions, "copies", s->copies, "reads", s->reads, "ranMs", (json_int_t)s->ran_ms);
    if (!doc || json_dump_file(doc, path, JSON_INDENT(1)) != 0)
        sc_die("%s: cannot be written", path);
    json_decref(doc);
    free(path);
}

void sc_state_free(struct sc_state *s) {
    free(s->group);
    free(s->usage_topic);
    free(s->notification_topic);
    free(s->dlt_topic);
}

static bool decides(const struct sc_line *line) {
    return line->readable && (line->outcome == SC_SETTLED || line->outcome == SC_BLOCKED);
}

/* Marks families whose decided events came under several keys: with more than
 * one partition nobody can say in which order they were decided. */
static json_t *disordered_families(const struct sc_scenario *sc, int partitions) {
    json_t *keys = json_object();
    json_t *mixed = json_object();
    for (size_t i = 0; i < sc->count && partitions > 1; i++) {
        const struct sc_line *line = &sc->lines[i];
        if (!decides(line))
            continue;
        char family[32];
        snprintf(family, sizeof family, "%ld", line->event.family);
        int64_t first = sc_map_get(keys, family, -1);
        if (first < 0) {
            sc_map_set(keys, family, (int64_t)i);
            continue;
        }
        const struct sc_line *other = &sc->lines[first];
        if (!line->key || !other->key || line->key_len != other->key_len ||
            memcmp(line->key, other->key, line->key_len) != 0)
            sc_map_set(mixed, family, 1);
    }
    json_decref(keys);
    return mixed;
}

/* "1/2026-11-01" → the family's total in that month. */
static json_t *totals_read(const struct sc_scenario *sc) {
    json_t *totals = json_object();
    size_t i;
    const json_t *row;
    json_array_foreach(sc_json_get(sc->expected, "familyQuota"), i, row) {
        char key[64];
        snprintf(key, sizeof key, "%ld/%s-01", sc_json_int(row, "familyId"), sc_json_text(row, "month"));
        sc_map_set(totals, key, sc_json_int(row, "total"));
    }
    return totals;
}

static struct sc_figures *figures_new(const struct sc_scenario *sc, int partitions) {
    struct sc_figures *all = mem_zero(sc->count, sizeof *all);
    json_t *mixed = disordered_families(sc, partitions);
    json_t *totals = totals_read(sc);
    json_t *used = json_object();
    for (size_t i = 0; i < sc->count; i++) {
        const struct sc_event *e = &sc->lines[i].event;
        if (!decides(&sc->lines[i]))
            continue;
        char id[32], family[64], customer[96];
        snprintf(id, sizeof id, "%ld", e->family);
        snprintf(family, sizeof family, "%ld/%s", e->family, e->month);
        snprintf(customer, sizeof customer, "%ld/%s/%ld", e->family, e->month, e->customer);
        if (sc->lines[i].outcome == SC_SETTLED) {
            sc_map_set(used, family, sc_map_get(used, family, 0) + e->bytes);
            sc_map_set(used, customer, sc_map_get(used, customer, 0) + e->bytes);
        }
        int64_t total = sc_map_get(totals, family, -1);
        all[i] = (struct sc_figures){
            .known = total >= 0 && !json_object_get(mixed, id),
            .total = total,
            .remaining = total - sc_map_get(used, family, 0),
            .used = sc_map_get(used, customer, 0),
        };
    }
    json_decref(mixed);
    json_decref(totals);
    json_decref(used);
    return all;
}

struct sc_check *sc_check_new(const char *work, const char *dir, bool repeats) {
    struct sc_check *c = mem_zero(1, sizeof *c);
    c->work = work;
    c->repeats = repeats;
    c->state = sc_state_read(work);
    c->scenario = sc_scenario_read(dir);
    c->places = sc_places_read(work);
    c->db = sc_sql_open();
    c->dlt = sc_topic_read(c->state.dlt_topic);
    c->figures = figures_new(c->scenario, c->state.partitions);
    c->report.name = c->scenario->name;
    c->line_by_id = json_object();
    for (size_t i = 0; i < c->scenario->count; i++) {
        if (decides(&c->scenario->lines[i]))
            sc_map_set(c->line_by_id, c->scenario->lines[i].event.id, (int64_t)i);
    }
    for (size_t i = 0; i < c->places.count; i++) {
        if (c->places.items[i].line >= c->scenario->count)
            sc_die("%s has fewer records than were produced", dir);
    }
    if (c->places.count != c->scenario->count * (size_t)c->state.copies)
        sc_die("%zu places for %zu records, %d times", c->places.count, c->scenario->count, c->state.copies);
    return c;
}

void sc_check_free(struct sc_check *c) {
    if (!c)
        return;
    sc_state_free(&c->state);
    sc_scenario_free(c->scenario);
    sc_places_free(&c->places);
    sc_records_free(&c->dlt);
    mysql_close(c->db);
    free(c->figures);
    json_decref(c->line_by_id);
    free(c);
}

const struct sc_line *sc_check_line(const struct sc_check *c, const char *event_id) {
    int64_t i = sc_map_get(c->line_by_id, event_id, -1);
    return i < 0 ? NULL : &c->scenario->lines[i];
}

/* One mark, unless the customer has it already. */
static void alert_expect(const struct sc_check *c, json_t *told, struct sc_rows *rows, size_t line,
                         const char *alert) {
    const struct sc_event *e = &c->scenario->lines[line].event;
    const struct sc_figures *f = &c->figures[line];
    struct buf key = {0};
    buf_printf(&key, "family %ld customer %ld month %s %s arming 0", e->family, e->customer, e->month, alert);
    if (!json_object_get(told, buf_cstr(&key))) {
        sc_map_set(told, buf_cstr(&key), 1);
        if (f->known)
            sc_rows_addf(rows, buf_cstr(&key), "event %s total %ld remaining %ld", e->id, f->total,
                         f->remaining);
        else
            sc_rows_addf(rows, buf_cstr(&key), "event %s", e->id);
    }
    buf_free(&key);
}

void sc_check_alerts_expected(const struct sc_check *c, struct sc_rows *rows) {
    json_t *told = json_object();
    size_t i;
    const json_t *row;
    json_array_foreach(sc_json_get(c->scenario->expected, "outbox"), i, row) {
        int64_t line = sc_map_get(c->line_by_id, sc_json_text(row, "eventId"), -1);
        if (line < 0)
            continue; /* the outbox's own comparison names it */
        struct buf alert = {0};
        if (strcmp(sc_json_text(row, "type"), "THRESHOLD_ALERT") == 0) {
            int64_t reached = sc_json_int(row, "threshold");
            for (size_t t = 0; t < sizeof thresholds / sizeof thresholds[0]; t++) {
                if (thresholds[t] < reached)
                    continue;
                buf_reset(&alert);
                buf_printf(&alert, "THRESHOLD:%d", thresholds[t]);
                alert_expect(c, told, rows, (size_t)line, buf_cstr(&alert));
            }
        } else {
            const char *status = sc_json_text(row, "status");
            const char *app = c->scenario->lines[line].event.app;
            buf_str(&alert, status);
            if (strcmp(status, "APP_BLOCK") == 0 && app) {
                buf_char(&alert, ':');
                buf_percent(&alert, app, strlen(app));
            }
            alert_expect(c, told, rows, (size_t)line, buf_cstr(&alert));
        }
        buf_free(&alert);
    }
    json_decref(told);
}
