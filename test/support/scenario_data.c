/* SPDX-License-Identifier: MIT */
#include "scenario_data.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "scenario_base.h"

static const char *const outcome_names[SC_OUTCOMES] = {"settled", "blocked", "duplicate", "rejected",
                                                       "ignored"};

const char *sc_outcome_name(enum sc_outcome outcome) {
    return outcome_names[outcome];
}

void sc_zone_init(void) {
    setenv("TZ", "Asia/Seoul", 1);
    tzset();
}

void sc_time_local(int64_t t_ms, char out[40]) {
    time_t seconds = (time_t)(t_ms / 1000);
    struct tm tm;
    localtime_r(&seconds, &tm);
    char stamp[24];
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    int minutes = abs((int)(tm.tm_gmtoff / 60));
    snprintf(out, 40, "%.19s.%03u%c%02u:%02u", stamp, (unsigned)(t_ms % 1000) % 1000u,
             tm.tm_gmtoff < 0 ? '-' : '+', (unsigned)minutes / 60 % 24, (unsigned)minutes % 60);
}

void sc_time_utc(int64_t t_ms, char out[40]) {
    time_t seconds = (time_t)(t_ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    char stamp[24];
    strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &tm);
    snprintf(out, 40, "%.19s.%03u", stamp, (unsigned)(t_ms % 1000) % 1000u);
}

int64_t sc_time_from_utc(const char *text) {
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
    if (!rest)
        sc_die("MySQL printed no time: %s", text);
    int ms = 0;
    if (*rest == '.')
        ms = atoi(rest + 1);
    return (int64_t)timegm(&tm) * 1000 + ms;
}

/* Digits behind the point, cut to milliseconds. Moves *s behind them. */
static int fraction_read(const char **s) {
    int ms = 0;
    int weight = 100;
    for (++*s; isdigit((unsigned char)**s); ++*s) {
        ms += (**s - '0') * weight;
        weight /= 10;
    }
    return ms;
}

/* Reads well-formed times only: whether others are refused is what the
 * scenarios' outcomes say. */
static bool time_read(const char *text, int64_t *t_ms) {
    struct tm tm = {.tm_isdst = -1};
    const char *s = strptime(text, "%Y-%m-%dT%H:%M", &tm);
    if (!s)
        return false;
    if (*s == ':' && !(s = strptime(s, ":%S", &tm)))
        return false;
    int ms = *s == '.' ? fraction_read(&s) : 0;
    if (*s == 0) {
        *t_ms = (int64_t)mktime(&tm) * 1000 + ms;
        return true;
    }
    int hours = 0, minutes = 0;
    if (*s != 'Z' && sscanf(s + 1, "%2d:%2d", &hours, &minutes) != 2)
        return false;
    int64_t offset = (hours * 60 + minutes) * INT64_C(60000);
    *t_ms = (int64_t)timegm(&tm) * 1000 + ms - (*s == '-' ? -offset : offset);
    return true;
}

/* A whole number, or its digits as text; 0 when it's neither. */
static int64_t amount_read(const json_t *value) {
    return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10) : json_integer_value(value);
}

static char *app_read(const json_t *value) {
    const char *s = json_string_value(value);
    if (!s)
        return NULL;
    const char *end = s + strlen(s);
    while (s < end && isspace((unsigned char)*s))
        s++;
    while (s < end && isspace((unsigned char)end[-1]))
        end--;
    return s < end ? strndup(s, (size_t)(end - s)) : NULL;
}

static void event_read(struct sc_line *line) {
    json_t *doc = line->value ? json_loadb(line->value, line->value_len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const char *type = json_string_value(json_object_get(doc, "eventType"));
    const char *id = json_string_value(json_object_get(doc, "eventId"));
    const char *stamp = json_string_value(json_object_get(doc, "timestamp"));
    const json_t *payload = json_object_get(doc, "payload");
    struct sc_event *e = &line->event;
    line->other_type = type && strcmp(type, "DATA_USAGE") != 0;
    e->time_ms = line->timestamp_ms;
    if (type && !line->other_type && id && payload && (!stamp || time_read(stamp, &e->time_ms))) {
        line->readable = true;
        e->id = mem_strdup(id);
        e->family = amount_read(json_object_get(payload, "familyId"));
        e->customer = amount_read(json_object_get(payload, "customerId"));
        e->bytes = amount_read(json_object_get(payload, "bytesUsed"));
        e->app = app_read(json_object_get(payload, "appId"));
        char local[40];
        sc_time_local(e->time_ms, local);
        snprintf(e->month, sizeof e->month, "%.7s-01", local);
    }
    json_decref(doc);
}

/* Text with its length, since a record may hold any byte JSON can spell; NULL for null. */
static char *bytes_read(const json_t *object, const char *name, size_t *len) {
    const json_t *value = sc_json_get(object, name);
    if (json_is_null(value))
        return NULL;
    if (!json_is_string(value))
        sc_die("a member of the scenario is neither text nor null: %s", name);
    *len = json_string_length(value);
    char *copy = mem_alloc(*len + 1);
    memcpy(copy, json_string_value(value), *len + 1);
    return copy;
}

static void line_read(struct sc_line *line, const json_t *doc) {
    *line = (struct sc_line){.timestamp_ms = sc_json_int(doc, "timestampMs")};
    line->key = bytes_read(doc, "key", &line->key_len);
    line->value = bytes_read(doc, "value", &line->value_len);
    const char *outcome = sc_json_text(doc, "outcome");
    size_t i = 0;
    while (i < SC_OUTCOMES && strcmp(outcome, outcome_names[i]) != 0)
        i++;
    if (i == SC_OUTCOMES)
        sc_die("no such outcome: %s", outcome);
    line->outcome = (enum sc_outcome)i;
    event_read(line);
}

static void lines_read(struct sc_scenario *sc, const char *path) {
    size_t len, cap = 0;
    char *text = sc_file_read(path, &len);
    char *end = text + len;
    for (char *s = text; s < end;) {
        char *eol = memchr(s, '\n', (size_t)(end - s));
        size_t n = (size_t)((eol ? eol : end) - s);
        if (sc->count == cap) {
            cap = cap ? cap * 2 : 256;
            sc->lines = mem_realloc(sc->lines, cap * sizeof *sc->lines);
        }
        json_error_t err;
        json_t *doc = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &err);
        if (!doc)
            sc_die("%s:%zu: %s", path, sc->count + 1, err.text);
        line_read(&sc->lines[sc->count++], doc);
        json_decref(doc);
        s += n + 1;
    }
    free(text);
}

struct sc_scenario *sc_scenario_read(const char *dir) {
    struct sc_scenario *sc = mem_zero(1, sizeof *sc);
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    size_t start = len;
    while (start > 0 && dir[start - 1] != '/')
        start--;
    sc->name = strndup(dir + start, len - start);
    char *setup = sc_path(dir, "setup.json");
    char *expected = sc_path(dir, "expected.json");
    char *records = sc_path(dir, "records.jsonl");
    sc->setup = sc_json_read(setup);
    sc->expected = sc_json_read(expected);
    lines_read(sc, records);
    free(setup);
    free(expected);
    free(records);
    return sc;
}

void sc_scenario_free(struct sc_scenario *sc) {
    if (!sc)
        return;
    for (size_t i = 0; i < sc->count; i++) {
        free(sc->lines[i].key);
        free(sc->lines[i].value);
        free(sc->lines[i].event.id);
        free(sc->lines[i].event.app);
    }
    free(sc->lines);
    json_decref(sc->setup);
    json_decref(sc->expected);
    free(sc->name);
    free(sc);
}

static int place_compare(const void *left, const void *right) {
    const struct sc_place *a = left;
    const struct sc_place *b = right;
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

struct sc_places sc_places_read(const char *work) {
    struct sc_places places = {0};
    char *path = sc_path(work, "places.txt");
    size_t cap = 0;
    FILE *f = fopen(path, "r");
    struct sc_place p;
    while (f && fscanf(f, "%d %zu %d %ld", &p.copy, &p.line, &p.partition, &p.offset) == 4) {
        if (places.count == cap) {
            cap = cap ? cap * 2 : 256;
            places.items = mem_realloc(places.items, cap * sizeof *places.items);
        }
        places.items[places.count++] = p;
    }
    if (f)
        fclose(f);
    free(path);
    if (places.count > 1)
        qsort(places.items, places.count, sizeof *places.items, place_compare);
    return places;
}

void sc_places_append(const char *work, const struct sc_place *items, size_t count) {
    char *path = sc_path(work, "places.txt");
    FILE *f = fopen(path, "a");
    if (!f)
        sc_die("%s: cannot be written", path);
    for (size_t i = 0; i < count; i++)
        fprintf(f, "%d %zu %d %ld\n", items[i].copy, items[i].line, items[i].partition, items[i].offset);
    if (fclose(f) != 0)
        sc_die("%s: cannot be written", path);
    free(path);
}

void sc_places_free(struct sc_places *places) {
    free(places->items);
    *places = (struct sc_places){0};
}

const struct sc_place *sc_places_find(const struct sc_places *places, int32_t partition, int64_t offset) {
    struct sc_place key = {.partition = partition, .offset = offset};
    if (!places->count)
        return NULL;
    return bsearch(&key, places->items, places->count, sizeof key, place_compare);
}

enum sc_outcome sc_place_outcome(const struct sc_scenario *sc, const struct sc_place *place) {
    enum sc_outcome first = sc->lines[place->line].outcome;
    if (place->copy == 1 || first == SC_REJECTED || first == SC_IGNORED)
        return first;
    return SC_DUPLICATE;
}
