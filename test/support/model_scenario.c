/* SPDX-License-Identifier: MIT */
/* The scenarios' folders, whose outcomes were worked out by another hand, held
 * against the model: it must be right before it judges others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "model_check.h"

struct scenario {
    json_t *setup, *expected;
    struct model *model;
    struct sc_report report;
    struct sc_rows outcomes, outcomes_found, rejected, rejected_found;
    int64_t counts[MODEL_OUTCOMES];
};

__attribute__((format(printf, 2, 3))) static void change(struct model *m, const char *fmt, ...) {
    char *line = NULL;
    va_list ap;
    va_start(ap, fmt);
    int len = vasprintf(&line, fmt, ap);
    va_end(ap);
    if (len < 0)
        sc_die("out of memory");
    model_change(m, line);
    free(line);
}

static void rules_load(struct model *m, const json_t *family, int64_t *rules) {
    size_t i;
    const json_t *rule;
    int64_t id = sc_json_int(family, "familyId");
    json_array_foreach(json_object_get(family, "policies"), i, rule) {
        const json_t *text = json_object_get(rule, "rules"), *customer = json_object_get(rule, "customerId");
        char *json =
            json_is_string(text) ? mem_strdup(json_string_value(text)) : json_dumps(text, JSON_COMPACT);
        int64_t owner = json_is_integer(customer) ? json_integer_value(customer) : MODEL_EVERYBODY;
        ++*rules;
        change(m, "rule %ld %ld %ld %s %d %ld %s", *rules, id, owner, sc_json_text(rule, "type"),
               !json_is_false(json_object_get(rule, "active")), *rules, json);
        free(json);
    }
}

static void setup_load(struct scenario *s) {
    size_t i, k;
    const json_t *family, *member, *quota;
    const char *month;
    int64_t rules = 0;
    json_array_foreach(sc_json_get(s->setup, "families"), i, family) {
        int64_t id = sc_json_int(family, "familyId");
        change(s->model, "family %ld %s", id, sc_json_text(family, "name"));
        json_array_foreach(sc_json_get(family, "members"), k, member) {
            change(s->model, "member %ld %lld", id, json_integer_value(member));
        }
        json_object_foreach((json_t *)(uintptr_t)sc_json_get(family, "quotas"), month, quota) {
            change(s->model, "quota %ld %s %ld", id, month, sc_json_int(quota, "total"));
        }
        rules_load(s->model, family, &rules);
    }
}

static void record_take(struct scenario *s, size_t line, const json_t *doc) {
    const json_t *value = sc_json_get(doc, "value");
    char key[32];
    snprintf(key, sizeof key, "line %zu", line);
    struct model_verdict v = model_take(s->model, json_string_value(value), json_string_length(value),
                                        sc_json_int(doc, "timestampMs"), line);
    sc_rows_addf(&s->outcomes, key, "%s", sc_json_text(doc, "outcome"));
    sc_rows_addf(&s->outcomes_found, key, "%s", model_outcome_name(v.outcome));
    s->counts[v.outcome]++;
    if (v.outcome == MODEL_REJECTED)
        sc_rows_addf(&s->rejected_found, key, "%s %s", v.code, v.member ? v.member : "-");
}

static void records_take(struct scenario *s, const char *dir) {
    char *path = sc_path(dir, "records.jsonl");
    char *text = sc_file_read(path, NULL), *rest = text;
    size_t n = 0;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (!*line)
            continue;
        json_t *doc = json_loads(line, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        if (!doc)
            sc_die("%s:%zu is no JSON", path, n + 1);
        record_take(s, ++n, doc);
        json_decref(doc);
    }
    free(text);
    free(path);
}

/* The rows of a list in expected.json, each as the JSON of its members in the order of names. */
static void rows_expected(const struct scenario *s, const char *list, struct sc_rows *rows) {
    size_t i;
    const json_t *row;
    json_array_foreach(sc_json_get(s->expected, list), i, row) {
        char *text = json_dumps(row, JSON_COMPACT | JSON_SORT_KEYS);
        sc_rows_add(rows, text, text, strlen(text));
        free(text);
    }
}

/* Takes the row. */
static void row_found(struct sc_rows *rows, json_t *row) {
    char *text = json_dumps(row, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        sc_die("out of memory");
    sc_rows_add(rows, text, text, strlen(text));
    free(text);
    json_decref(row);
}

static void compare(struct scenario *s, const char *list, struct sc_rows *found) {
    struct sc_rows expected = {0};
    rows_expected(s, list, &expected);
    sc_rows_diff(&s->report, list, &expected, found);
    sc_rows_free(&expected);
    sc_rows_free(found);
}

static const char *month_of(int month) {
    static char date[16];
    model_month_date(month, date);
    date[7] = '\0';
    return date;
}

static void quotas_compare(struct scenario *s) {
    struct sc_rows families = {0}, customers = {0};
    for (size_t i = 0; i < s->model->quotas.count; i++) {
        const struct model_quota *q = MODEL_AT(s->model->quotas, struct model_quota, i);
        row_found(&families,
                  json_pack("{s:I, s:s, s:I, s:I}", "familyId", (json_int_t)q->family, "month",
                            month_of(q->month), "total", (json_int_t)q->total, "used", (json_int_t)q->used));
    }
    for (size_t i = 0; i < s->model->customers.count; i++) {
        const struct model_customer *q = MODEL_AT(s->model->customers, struct model_customer, i);
        row_found(&customers,
                  json_pack("{s:I, s:I, s:s, s:I, s:b, s:s?}", "familyId", (json_int_t)q->family,
                            "customerId", (json_int_t)q->customer, "month", month_of(q->month), "used",
                            (json_int_t)q->used, "isBlocked", q->reason != NULL, "blockReason", q->reason));
    }
    compare(s, "familyQuota", &families);
    compare(s, "customerQuota", &customers);
}

static void usage_compare(struct scenario *s) {
    struct sc_rows records = {0}, blocks = {0};
    for (size_t i = 0; i < s->model->decisions.count; i++) {
        const struct model_decision *d = MODEL_AT(s->model->decisions, struct model_decision, i);
        json_t *row =
            json_pack("{s:s, s:I, s:I, s:I, s:s, s:s?}", "eventId", d->event.id, "familyId",
                      (json_int_t)d->event.family, "customerId", (json_int_t)d->event.customer, "bytesUsed",
                      (json_int_t)d->event.bytes, "month", month_of(d->month), "appId", d->event.app);
        if (d->reason)
            json_object_set_new(row, "reason", json_string(d->reason));
        row_found(d->reason ? &blocks : &records, row);
    }
    compare(s, "usageRecord", &records);
    compare(s, "usageBlock", &blocks);
}

static void family_key(json_t *counts, int64_t family, char *out, size_t size) {
    char key[32];
    snprintf(key, sizeof key, "%ld", family);
    sc_map_set(counts, key, sc_map_get(counts, key, 0) + 1);
    snprintf(out, size, "family %ld #%ld", family, sc_map_get(counts, key, 0));
}

static void told_compare(struct scenario *s) {
    struct sc_rows expected = {0}, found = {0};
    json_t *counts = json_object();
    char key[64];
    size_t i;
    const json_t *row;
    json_array_foreach(sc_json_get(s->expected, "outbox"), i, row) {
        family_key(counts, sc_json_int(row, "familyId"), key, sizeof key);
        sc_rows_addf(&expected, key, "%s %ld %s", sc_json_text(row, "eventId"),
                     sc_json_int(row, "customerId"), sc_json_text(row, "status"));
    }
    json_object_clear(counts);
    for (i = 0; i < s->model->told.count; i++) {
        const struct model_decision *d =
            MODEL_AT(s->model->decisions, struct model_decision, *MODEL_AT(s->model->told, size_t, i));
        family_key(counts, d->event.family, key, sizeof key);
        if (d->reason)
            sc_rows_addf(&found, key, "%s %ld %s", d->event.id, d->event.customer, d->reason);
        else
            sc_rows_addf(&found, key, "%s %ld WARNING_%d", d->event.id, d->event.customer, d->threshold);
    }
    sc_rows_diff(&s->report, "outbox", &expected, &found);
    json_decref(counts);
    sc_rows_free(&expected);
    sc_rows_free(&found);
}

static void rejected_compare(struct scenario *s) {
    size_t i;
    const json_t *row;
    json_array_foreach(sc_json_get(s->expected, "rejected"), i, row) {
        const char *field = json_string_value(json_object_get(row, "field"));
        char key[32];
        snprintf(key, sizeof key, "line %ld", sc_json_int(row, "line"));
        sc_rows_addf(&s->rejected, key, "%s %s", sc_json_text(row, "code"), field ? field : "-");
    }
    sc_rows_diff(&s->report, "rejected", &s->rejected, &s->rejected_found);
    sc_rows_diff(&s->report, "outcome of", &s->outcomes, &s->outcomes_found);
    const json_t *ledger = sc_json_get(s->expected, "ledger");
    for (int o = 0; o < MODEL_OUTCOMES; o++) {
        int64_t expected = sc_json_int(ledger, model_outcome_name((enum model_outcome)o));
        if (s->counts[o] != expected)
            sc_differ(&s->report, "%s: expected %ld, found %ld", model_outcome_name((enum model_outcome)o),
                      expected, s->counts[o]);
    }
}

bool model_scenario(const char *dir) {
    struct scenario s = {.model = model_new(), .report.name = dir};
    char *setup = sc_path(dir, "setup.json"), *expected = sc_path(dir, "expected.json");
    s.setup = sc_json_read(setup);
    s.expected = sc_json_read(expected);
    setup_load(&s);
    records_take(&s, dir);
    quotas_compare(&s);
    usage_compare(&s);
    told_compare(&s);
    rejected_compare(&s);
    printf("%s %s: %zu records\n", s.report.differences ? "DIFFERS" : "ok", dir, s.outcomes.count);
    sc_rows_free(&s.outcomes);
    sc_rows_free(&s.outcomes_found);
    sc_rows_free(&s.rejected);
    sc_rows_free(&s.rejected_found);
    json_decref(s.setup);
    json_decref(s.expected);
    model_free(s.model);
    free(setup);
    free(expected);
    return s.report.differences == 0;
}
