/* SPDX-License-Identifier: MIT */
#include "dlt_survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"

void dlt_survey_init(struct dlt_survey *s, size_t rows) {
    *s = (struct dlt_survey){.row_limit = rows};
}

void dlt_survey_free(struct dlt_survey *s) {
    free(s->rows);
    *s = (struct dlt_survey){0};
}

/* ---- codes ---- */

static struct dlt_code_count *count_of(struct dlt_survey *s, const char *code) {
    for (size_t i = 0; i < s->code_count; i++) {
        if (strcmp(s->codes[i].code, code) == 0)
            return &s->codes[i];
    }
    if (s->code_count == DLT_CODES_MAX)
        return &s->codes[DLT_CODES_MAX - 1];
    struct dlt_code_count *c = &s->codes[s->code_count++];
    *c = (struct dlt_code_count){.oldest_ms = INT64_MAX, .newest_ms = INT64_MIN};
    snprintf(c->code, sizeof c->code, "%s", s->code_count == DLT_CODES_MAX ? "others" : code);
    return c;
}

static void count_record(struct dlt_survey *s, const struct dlt_record *r, bool again, bool cannot) {
    struct dlt_code_count *c = count_of(s, r->code);
    s->records++;
    c->records++;
    s->rejected_again += again;
    c->rejected_again += again;
    s->cannot += cannot;
    c->cannot += cannot;
    c->oldest_ms = r->time_ms < c->oldest_ms ? r->time_ms : c->oldest_ms;
    c->newest_ms = r->time_ms > c->newest_ms ? r->time_ms : c->newest_ms;
}

/* ---- the newest rows: a heap whose first is the oldest of them ---- */

static int by_time(const void *x, const void *y) {
    const struct dlt_record *a = x, *b = y;
    if (a->time_ms != b->time_ms)
        return a->time_ms < b->time_ms ? -1 : 1;
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static void swap_rows(struct dlt_survey *s, size_t a, size_t b) {
    struct dlt_record kept = s->rows[a];
    s->rows[a] = s->rows[b];
    s->rows[b] = kept;
}

static void sift_down(struct dlt_survey *s) {
    for (size_t at = 0, child; (child = 2 * at + 1) < s->row_count; at = child) {
        if (child + 1 < s->row_count && by_time(&s->rows[child + 1], &s->rows[child]) < 0)
            child++;
        if (by_time(&s->rows[at], &s->rows[child]) <= 0)
            return;
        swap_rows(s, at, child);
    }
}

static void sift_up(struct dlt_survey *s) {
    for (size_t at = s->row_count - 1; at && by_time(&s->rows[at], &s->rows[(at - 1) / 2]) < 0;
         at = (at - 1) / 2)
        swap_rows(s, at, (at - 1) / 2);
}

static void keep_row(struct dlt_survey *s, const struct dlt_record *r) {
    if (s->row_count == s->row_limit) {
        if (s->row_count && by_time(r, &s->rows[0]) > 0) {
            s->rows[0] = *r;
            sift_down(s);
        }
        return;
    }
    if (s->row_count == s->row_capacity) {
        s->row_capacity = s->row_capacity ? s->row_capacity * 2 : 64;
        s->rows = mem_realloc(s->rows, s->row_capacity * sizeof *s->rows);
    }
    s->rows[s->row_count++] = *r;
    sift_up(s);
}

/* ---- all of it ---- */

void dlt_survey_name(void *survey, int32_t partition, int64_t offset, const char *why) {
    struct dlt_survey *s = survey;
    if (s->named_count == DLT_NAMED_MAX)
        return;
    struct dlt_named *n = &s->named[s->named_count++];
    *n = (struct dlt_named){.partition = partition, .offset = offset};
    snprintf(n->why, sizeof n->why, "%s", why);
}

void dlt_survey_add(struct dlt_survey *s, const struct dlt_record *r, bool again, const char *obstacle) {
    count_record(s, r, again, obstacle != NULL);
    keep_row(s, r);
    if (obstacle)
        dlt_survey_name(s, r->partition, r->offset, obstacle);
}

static int by_code(const void *x, const void *y) {
    const struct dlt_code_count *a = x, *b = y;
    return strcmp(a->code, b->code);
}

void dlt_survey_sort(struct dlt_survey *s) {
    if (s->code_count)
        qsort(s->codes, s->code_count, sizeof *s->codes, by_code);
    if (s->row_count)
        qsort(s->rows, s->row_count, sizeof *s->rows, by_time);
}
