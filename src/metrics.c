/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "metrics_internal.h"

#define MICROSECONDS 1e6
#define EXACT_MAX 9007199254740992.0 /* 2^53: whole numbers up to it are shown to the last digit */

struct metrics {
    /* any thread */
    atomic_llong *cells;               /* owned: of each metric its label values, or its buckets */
    _Atomic double sums[METRIC_COUNT]; /* of histograms */
    /* set before any thread starts */
    size_t first[METRIC_COUNT], size[METRIC_COUNT]; /* where a metric's cells begin, and how many it has */
    bool *expected;                                 /* owned: a cell is shown though it's 0 */
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
    return metric_rows[id].kind == METRIC_HISTOGRAM ? bounds_of(id) + 1 : metric_rows[id].count;
}

struct metrics *metrics_new(void) {
    struct metrics *m = mem_zero(1, sizeof *m);
    size_t n = 0;
    for (int id = 0; id < METRIC_COUNT; id++) {
        m->first[id] = n;
        m->size[id] = cells_of((enum metric)id);
        n += m->size[id];
        atomic_init(&m->sums[id], 0);
    }
    m->cells = mem_alloc(n * sizeof *m->cells);
    m->expected = mem_zero(n, sizeof *m->expected);
    for (size_t i = 0; i < n; i++)
        atomic_init(&m->cells[i], 0);
    for (int id = 0; id < METRIC_COUNT; id++) {
        for (size_t i = 0; i < metric_rows[id].expected; i++)
            m->expected[m->first[id] + i] = true;
    }
    return m;
}

void metrics_free(struct metrics *m) {
    if (!m)
        return;
    free(m->cells);
    free(m->expected);
    free(m);
}

static size_t place(const struct metrics *m, enum metric id, size_t i) {
    assert(i < m->size[id]);
    return m->first[id] + i;
}

static int64_t read_cell(const struct metrics *m, enum metric id, size_t i) {
    return atomic_load_explicit(&m->cells[place(m, id, i)], memory_order_relaxed);
}

static void add_cell(struct metrics *m, enum metric id, size_t i, int64_t n) {
    if (n)
        atomic_fetch_add_explicit(&m->cells[place(m, id, i)], n, memory_order_relaxed);
}

void metrics_expect(struct metrics *m, enum metric id, size_t label) {
    m->expected[place(m, id, label)] = true;
}

void metrics_add(struct metrics *m, enum metric id, size_t label, int64_t n) {
    assert(metric_rows[id].kind == METRIC_COUNTER);
    add_cell(m, id, label, n);
}

void metrics_add_each(struct metrics *m, enum metric id, const int64_t *n) {
    for (size_t i = 0; i < m->size[id]; i++)
        metrics_add(m, id, i, n[i]);
}

int64_t metrics_get(const struct metrics *m, enum metric id, size_t label) {
    return read_cell(m, id, label);
}

int64_t metrics_total(const struct metrics *m, enum metric id) {
    int64_t total = 0;
    for (size_t i = 0; i < m->size[id]; i++)
        total += read_cell(m, id, i);
    return total;
}

/* ---- histograms ---- */

static size_t bucket_of(enum metric id, int64_t value) {
    const int64_t *bounds = metric_rows[id].bounds;
    size_t i = 0;
    while (bounds[i] && value > bounds[i])
        i++;
    return i;
}

static void add_sum(struct metrics *m, enum metric id, double more) {
    double sum = atomic_load_explicit(&m->sums[id], memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&m->sums[id], &sum, sum + more, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

void metrics_observe(struct metrics *m, enum metric id, int64_t value) {
    value = value < 0 ? 0 : value;
    add_cell(m, id, bucket_of(id, value), 1);
    add_sum(m, id, (double)value);
}

void metric_histogram_add(struct metric_histogram *h, enum metric id, int64_t value) {
    value = value < 0 ? 0 : value;
    h->buckets[bucket_of(id, value)]++;
    h->count++;
    h->sum += (double)value;
}

void metrics_merge(struct metrics *m, enum metric id, const struct metric_histogram *h) {
    if (h->count == 0)
        return;
    for (size_t i = 0; i < m->size[id]; i++)
        add_cell(m, id, i, h->buckets[i]);
    add_sum(m, id, h->sum);
}

void metrics_histogram(const struct metrics *m, enum metric id, struct metric_histogram *out) {
    *out = (struct metric_histogram){.sum = atomic_load_explicit(&m->sums[id], memory_order_relaxed)};
    for (size_t i = 0; i < m->size[id]; i++) {
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
    if (isnan(value))
        buf_str(out, "NaN");
    else if (isinf(value))
        buf_str(out, value > 0 ? "+Inf" : "-Inf");
    else if (value == floor(value) && fabs(value) <= EXACT_MAX)
        buf_i64(out, (int64_t)value);
    else
        buf_printf(out, "%.15g", value);
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
    for (size_t i = 0; i < m->size[id]; i++) {
        int64_t value = read_cell(m, id, i);
        buf_reset(&label);
        if (row->label)
            row->label(&label, i);
        bool named = !row->label || label.len;
        if (named && (value || m->expected[place(m, id, i)]))
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
    for (size_t i = 0; row->bounds[i]; i++) {
        below += h.buckets[i];
        snprintf(label, sizeof label, "le=\"%g\"", (double)row->bounds[i] / unit);
        append_line(out, row->name, "_bucket", label, (double)below);
    }
    append_line(out, row->name, "_bucket", "le=\"+Inf\"", (double)h.count);
    append_line(out, row->name, "_sum", "", h.sum / unit);
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
    struct buf values = {0};
    for (int i = 0; i < METRIC_COUNT; i++) {
        enum metric id = (enum metric)i;
        const struct metric_row *row = &metric_rows[id];
        buf_reset(&values);
        if (row->kind == METRIC_HISTOGRAM)
            append_histogram(m, id, &values);
        else
            append_counters(m, id, &values);
        append_samples(samples, id, &values);
        if (values.len == 0)
            continue;
        buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                   kind_name(row->kind));
        buf_append(out, values.data, values.len);
    }
    buf_free(&values);
}

/* ---- the table for people ---- */

static void print_markdown(FILE *out) {
    fputs("| metric | kind | labels | means |\n|---|---|---|---|\n", out);
    for (int i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *row = &metric_rows[i];
        fprintf(out, "| `%s` | %s | %s | %s |\n", row->name, kind_name(row->kind),
                row->labels ? row->labels : "", row->help);
    }
}

static void print_page(FILE *out) {
    fputs(
        "What /metrics shows, in Prometheus' text format. No label names a customer, a family or an event.\n",
        out);
    for (int i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *row = &metric_rows[i];
        fprintf(out, "\n%s (%s%s%s)\n  %s\n", row->name, kind_name(row->kind), row->labels ? ", by " : "",
                row->labels ? row->labels : "", row->help);
    }
}

void metrics_print_table(FILE *out, bool markdown) {
    if (markdown)
        print_markdown(out);
    else
        print_page(out);
}
