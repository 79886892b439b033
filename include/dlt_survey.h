/* SPDX-License-Identifier: MIT */
/* What a reading of the dead letter topic found: how many of each code, the newest records, and the first
 * ones that can't go back. Bounded, whatever lies there. Pure. */
#ifndef TALLYD_DLT_SURVEY_H
#define TALLYD_DLT_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dlt_reader.h"

#define DLT_CODES_MAX 64 /* tallyd has ten; whoever else writes there doesn't make it grow */
#define DLT_NAMED_MAX 10

struct dlt_code_count {
    char code[DLT_CODE_MAX + 1];             /* the last of DLT_CODES_MAX is "others" */
    int64_t records, rejected_again, cannot; /* of them: by the parser; can't be sent */
    int64_t oldest_ms, newest_ms;
};

struct dlt_named {
    int32_t partition;
    int64_t offset;
    char why[128];
};

struct dlt_survey {
    struct dlt_code_count codes[DLT_CODES_MAX];
    size_t code_count;
    int64_t records, rejected_again, cannot;
    struct dlt_record *rows; /* owned; the newest ones, by time once sorted */
    size_t row_count, row_capacity, row_limit;
    struct dlt_named named[DLT_NAMED_MAX]; /* the first that can't be sent, or were refused */
    size_t named_count;
};

/* `rows`: so many of the newest are kept. Give it to dlt_survey_free. */
void dlt_survey_init(struct dlt_survey *s, size_t rows);
void dlt_survey_free(struct dlt_survey *s);

/* Counts a record. `again`: the parser would reject it once more; `obstacle`: why it can't be sent, NULL: it
 * can. */
void dlt_survey_add(struct dlt_survey *s, const struct dlt_record *r, bool again, const char *obstacle);
/* Names one that can't be sent (a redrive_refused_fn; `survey` is the struct dlt_survey). */
void dlt_survey_name(void *survey, int32_t partition, int64_t offset, const char *why);
/* Codes by name, rows by time and place. Nothing may be added after it. */
void dlt_survey_sort(struct dlt_survey *s);

#endif
