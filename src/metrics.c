/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "metrics_internal.h"

#define MICROSECONDS 1e6

struct metrics {
    /* any thread */
    atomic_llong *cells;        /* owned: of each metric its label values, or its buckets and the sum */
    size_t first[METRIC_COUNT]; /* where a metric's begin; set before any thread starts */
};

struct metrics_sample {
    enum metric id;
    char *labels; /* owned */
    double value;
};

static size_t bounds_of(enum metric id) {
    size_t n = 0;
    while (metric_rows[id].bounds && metric_rows[id].bounds[n])
        n++;
    return n;
}

static size_t cells_of(enum metric id) {
    return metric_rows[id].kind == METRIC_HISTOGRAM ? bounds_of(id) + 2 : metric_rows[id].count;
}

struct metrics *metrics_new(void) {
    struct metrics *m = mem_zero(1, sizeof *m);
    size_t n = 0;
    for (int id = 0; id < METRIC_COUNT; id++) {
        m->first[id] = n;
        n += cells_of((enum metric)id);
    }
    m->cells = mem_alloc(n * sizeof *m->cells);
    for (size_t i = 0; i < n; i++)
        atomic_init(&m->cells[i], 0);
    return m;
}

void metrics_free(struct metrics *m) {
    if (!m)
        return;
    free(m->cells);
    free(m);
}

static atomic_llong *cell(const struct metrics *m, enum metric id, size_t i) {
    assert(i < cells_of(id));
    return &m->cells[m->first[id] + i];
}

static int64_t read_cell(const struct metrics *m, enum metric id, size_t i) {
    return atomic_load_explicit(cell(m, id, i), memory_order_relaxed);
}

static void add_cell(struct metrics *m, enum metric id, size_t i, int64_t n) {
    atomic_fetch_add_explicit(cell(m, id, i), n, memory_order_relaxed);
}

void metrics_add(struct metrics *m, enum metric id, size_t label, int64_t n) {
    assert(metric_rows[id].kind == METRIC_COUNTER);
    if (n)
        add_cell(m, id, label, n);
}

void metrics_observe(struct metrics *m, enum metric id, int64_t value) {
    const int64_t *bounds = metric_rows[id].bounds;
    size_t i = 0;
    value = value < 0 ? 0 : value;
    while (bounds[i] && value > bounds[i])
        i++;
    add_cell(m, id, i, 1);
    add_cell(m, id, bounds_of(id) + 1, value);
}

int64_t metrics_get(const struct metrics *m, enum metric id, size_t label) {
    return read_cell(m, id, label);
}

int64_t metrics_total(const struct metrics *m, enum metric id) {
    size_t n = metric_rows[id].kind == METRIC_HISTOGRAM ? bounds_of(id) + 1 : cells_of(id);
    int64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += read_cell(m, id, i);
    return total;
}

void metrics_histogram(const struct metrics *m, enum metric id, struct metric_histogram *out) {
    size_t n = bounds_of(id);
    *out = (struct metric_histogram){.sum = read_cell(m, id, n + 1)};
    for (size_t i = 0; i <= n; i++) {
        out->buckets[i] = read_cell(m, id, i);
        out->count += out->buckets[i];
    }
}

double metrics_quantile(enum metric id, const struct metric_histogram *before,
                        const struct metric_histogram *now, double q) {
    const int64_t *bounds = metric_rows[id].bounds;
    size_t n = bounds_of(id);
    double wanted = q * (double)(now->count - before->count), passed = 0;
    if (now->count <= before->count)
        return -1;
    for (size_t i = 0; i < n; i++) {
        double in = (double)(now->buckets[i] - before->buckets[i]);
        double low = i ? (double)bounds[i - 1] : 0;
        if (in > 0 && passed + in >= wanted)
            return low + ((double)bounds[i] - low) * (wanted - passed) / in;
        passed += in;
    }
    return (double)bounds[n - 1];
}

/* ---- samples ---- */

void metrics_sample(struct metrics_samples *s, enum metric id, const char *labels, double value) {
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 32;
        s->items = mem_realloc(s->items, s->capacity * sizeof *s->items);
    }
    s->items[s->count++] = (struct metrics_sample){.id = id, .labels = mem_strdup(labels), .value = value};
}

void metrics_samples_free(struct metrics_samples *s) {
    for (size_t i = 0; i < s->count; i++)
        free(s->items[i].labels);
    free(s->items);
    *s = (struct metrics_samples){0};
}

void metrics_label_value(struct buf *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\n') {
            buf_str(out, "\\n");
            continue;
        }
        if (*text == '\\' || *text == '"')
            buf_char(out, '\\');
        buf_char(out, *text);
    }
}

/* ---- Prometheus' text ---- */

static void append_number(struct buf *out, double value) {
    if (isfinite(value) && value == floor(value) && fabs(value) < 9e15)
        buf_i64(out, (int64_t)value);
    else
        buf_printf(out, "%.9g", value);
}

static void append_line(struct buf *out, const char *name, const char *suffix, const char *labels,
                        double value) {
    buf_str(out, name);
    buf_str(out, suffix);
    if (*labels)
        buf_printf(out, "{%s}", labels);
    buf_char(out, ' ');
    append_number(out, value);
    buf_char(out, '\n');
}

static void append_counters(const struct metrics *m, enum metric id, struct buf *out) {
    const struct metric_row *row = &metric_rows[id];
    struct buf label = {0};
    for (size_t i = 0; i < row->count; i++) {
        int64_t value = read_cell(m, id, i);
        buf_reset(&label);
        if (row->label)
            row->label(&label, i);
        bool named = !row->label || label.len;
        if (named && (value || row->shown_at_zero))
            append_line(out, row->name, "", buf_cstr(&label), (double)value);
    }
    buf_free(&label);
}

static void append_histogram(const struct metrics *m, enum metric id, struct buf *out) {
    const struct metric_row *row = &metric_rows[id];
    const double unit = row->seconds ? MICROSECONDS : 1;
    struct metric_histogram h;
    char label[48];
    int64_t below = 0;
    metrics_histogram(m, id, &h);
    size_t n = bounds_of(id);
    for (size_t i = 0; i < n; i++) {
        below += h.buckets[i];
        snprintf(label, sizeof label, "le=\"%g\"", (double)row->bounds[i] / unit);
        append_line(out, row->name, "_bucket", label, (double)below);
    }
    append_line(out, row->name, "_bucket", "le=\"+Inf\"", (double)h.count);
    append_line(out, row->name, "_sum", "", (double)h.sum / unit);
    append_line(out, row->name, "_count", "", (double)h.count);
}

static void append_samples(const struct metrics_samples *s, enum metric id, struct buf *out) {
    for (size_t i = 0; s && i < s->count; i++) {
        if (s->items[i].id == id)
            append_line(out, metric_rows[id].name, "", s->items[i].labels, s->items[i].value);
    }
}

static const char *kind_name(enum metric_kind kind) {
    return kind == METRIC_COUNTER ? "counter" : kind == METRIC_GAUGE ? "gauge" : "histogram";
}

void metrics_render(const struct metrics *m, const struct metrics_samples *samples, struct buf *out) {
    for (int i = 0; i < METRIC_COUNT; i++) {
        enum metric id = (enum metric)i;
        const struct metric_row *row = &metric_rows[id];
        buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                   kind_name(row->kind));
        if (row->kind == METRIC_HISTOGRAM)
            append_histogram(m, id, out);
        else
            append_counters(m, id, out);
        append_samples(samples, id, out);
    }
}

void metrics_print_table(FILE *out) {
    fputs("| metric | kind | labels | means |\n|---|---|---|---|\n", out);
    for (int i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *row = &metric_rows[i];
        fprintf(out, "| `%s` | %s | %s | %s |\n", row->name, kind_name(row->kind), row->labels, row->help);
    }
}
