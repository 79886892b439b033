/* SPDX-License-Identifier: MIT */
/* Parts of a family's month as `show` and `explain` print them: tables for people, JSON for machines. */
#ifndef TALLYD_FAMILY_PRINT_H
#define TALLYD_FAMILY_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "family_month.h"
#include "table.h"

/* An instant as local time with its offset: a cell, "-" for 0 and below; JSON, null likewise. */
void print_time(struct table *t, int64_t ms);
json_t *print_time_json(int64_t ms);
/* Text from outside: what isn't UTF-8 is shown by its ASCII. NULL is null. */
json_t *print_text_json(const char *text);
json_t *print_i64_json(bool known, int64_t number);
/* null, or {area, text}. */
json_t *print_error_json(const struct error *e);
/* "2026-11" */
void print_month(char out[8], int32_t month);
/* Reads "202611" or "2026-11". */
bool print_month_parse(const char *text, int32_t *month);

json_t *print_rules_json(const struct policy_rules *r);
json_t *print_alert_json(const struct family_alert *a);
json_t *print_letter_json(const struct family_letter *l);
/* A figure of both stores: {mysql, redis, state, difference}. */
json_t *print_figure_json(enum family_cache state, bool cached, int64_t redis, int64_t mysql);

/* What's told this month; only those of one event where `event_id` isn't NULL. */
void print_alerts(const struct family_month *m, const char *event_id);
/* What Redis holds beside what MySQL holds, and how that is to be taken. */
void print_cache(const struct family_month *m);
json_t *print_cache_json(const struct family_month *m);

#endif
