/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "clock.h"
#include "log.h"
#include "maintain.h"
#include "period.h"
#include "table.h"

#define COMMAND "maintain"

struct options {
    const char *path;
    bool dry_run, json;
};

static bool wait_ms(void *ctx, int64_t ms) {
    (void)ctx;
    clock_sleep_ms(ms);
    return true;
}

/* ---- what it says ---- */

static int by_month(const void *x, const void *y) {
    const struct maintain_month *a = x, *b = y;
    return (a->month > b->month) - (a->month < b->month);
}

static void month_text(int32_t month, char out[16]) {
    snprintf(out, 16, "%04d-%02d", month / 100, month % 100);
}

static void print_rows(const struct maintain_report *r) {
    char text[PERIOD_LOCAL_SIZE], month[16];
    struct table *t = table_new("what", "of", "rows>", NULL);
    if (r->sent_before_ms) {
        period_format_local(r->sent_before_ms, text);
        table_text(t, "notifications in the outbox");
        table_format(t, "sent before %s", text);
        table_i64(t, r->sent_rows);
    }
    for (size_t i = 0; i < r->month_count; i++) {
        month_text(r->months[i].month, month);
        table_text(t, "settled events");
        table_text(t, month);
        table_i64(t, r->months[i].records);
        table_text(t, "blocked events");
        table_text(t, month);
        table_i64(t, r->months[i].blocks);
    }
    table_print(t, stdout);
    table_free(t);
}

static void print_held(const struct maintain_report *r) {
    static const char stay[] = "months whose events may wait there stay open (`tallyd lag`)";
    const struct backlog *b = &r->backlog;
    char last[PERIOD_LOCAL_SIZE];
    period_format_local(b->last_ms, last);
    if (r->paused)
        printf("a partition is paused: %s\n", stay);
    if (b->reason == BACKLOG_UNREAD && b->last_ms)
        printf("partition %d has %lld records that aren't read, behind one of %s: %s\n", b->partition,
               (long long)b->unread, last, stay);
    else if (b->reason == BACKLOG_UNREAD)
        printf("partition %d has %lld records, and none of it was read yet: %s\n", b->partition,
               (long long)b->unread, stay);
    else if (b->reason == BACKLOG_NOT_BEGUN)
        printf("the group has begun no partition, so that no month is closed now: what waits isn't known\n");
    else if (b->reason == BACKLOG_UNKNOWN)
        printf("whether records of old months wait couldn't be asked (%s): months stay open\n", b->why.text);
}

static void print_months(const struct config *cfg, const struct maintain_report *r, bool dry_run) {
    char before[16], after[16];
    month_text(r->floor_before, before);
    month_text(r->floor, after);
    if (r->floor > r->floor_before)
        printf(
            "months before %s %s closed (so far: before %s); their events are EVENT_TOO_OLD from then on\n",
            after, dry_run ? "would be" : "are", before);
    else if (r->floor > 197001)
        printf("months before %s are closed\n", after);
    print_held(r);
    if (cfg->maintain.usage_months == 0)
        printf("maintain.usage_months is 0: no month is closed, no event pruned\n");
    if (cfg->maintain.sent_retention_days == 0)
        printf("maintain.sent_retention_days is 0: no notification is pruned\n");
}

static void print_people(const struct config *cfg, const struct maintain_report *r, bool dry_run) {
    int64_t all = r->sent_rows + r->record_rows + r->block_rows;
    print_rows(r);
    print_months(cfg, r, dry_run);
    printf("%lld row%s %spruned\n", (long long)all, all == 1 ? "" : "s", dry_run ? "would be " : "");
}

static json_t *month_json(int32_t month) {
    char text[16];
    month_text(month, text);
    return month ? json_string(text) : json_null();
}

static json_t *held_json(const struct maintain_report *r) {
    const struct backlog *b = &r->backlog;
    char last[PERIOD_LOCAL_SIZE];
    if (!maintain_held_by(r))
        return json_null();
    bool unread = b->reason == BACKLOG_UNREAD;
    period_format_local(b->last_ms, last);
    return json_pack("{s:s,s:o,s:o,s:o}", "reason", maintain_held_by(r), "partition",
                     unread ? json_integer(b->partition) : json_null(), "unread",
                     unread ? json_integer(b->unread) : json_null(), "lastRead",
                     unread && b->last_ms ? json_string(last) : json_null());
}

static void print_json(const struct maintain_report *r, bool dry_run) {
    char text[PERIOD_LOCAL_SIZE];
    json_t *months = json_array();
    for (size_t i = 0; i < r->month_count; i++)
        json_array_append_new(months, json_pack("{s:o,s:I,s:I}", "month", month_json(r->months[i].month),
                                                "usageRecordRows", (json_int_t)r->months[i].records,
                                                "usageBlockRows", (json_int_t)r->months[i].blocks));
    if (r->sent_before_ms)
        period_format_local(r->sent_before_ms, text);
    table_print_json(json_pack("{s:b,s:{s:o,s:I},s:{s:o,s:o,s:o,s:o,s:I,s:I,s:o}}", "dryRun", dry_run,
                               "outbox", "sentBefore", r->sent_before_ms ? json_string(text) : json_null(),
                               "rows", (json_int_t)r->sent_rows, "usage", "closedBeforeUntilNow",
                               month_json(r->floor_before), "closedBefore", month_json(r->floor), "heldBy",
                               held_json(r), "prunedBefore", month_json(r->months_before), "usageRecordRows",
                               (json_int_t)r->record_rows, "usageBlockRows", (json_int_t)r->block_rows,
                               "months", months),
                     stdout);
}

/* ---- the command ---- */

static int read_options(int argc, char **argv, struct options *o) {
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"dry-run", no_argument, NULL, 'd'},
                                          {"json", no_argument, NULL, 'j'},
                                          {0}};
    int c;
    while ((c = cli_option(argc, argv, ":c:", longs)) != -1) {
        if (c == '?')
            return EXIT_USAGE;
        if (c == 'c')
            o->path = optarg;
        o->dry_run = o->dry_run || c == 'd';
        o->json = o->json || c == 'j';
    }
    if (!o->path)
        return cli_usage(COMMAND, "-c FILE", "is missing");
    return optind < argc ? cli_usage(COMMAND, argv[optind], "isn't an option") : EXIT_OK;
}

static int maintain(const struct config *cfg, struct db *db, void *options) {
    const struct options *o = options;
    struct error err = {0};
    struct maintain_report r;
    bool ok = maintain_run(db, cfg, o->dry_run, wait_ms, NULL, &r, &err);
    if (ok && r.busy) {
        cli_error(COMMAND, "lock", "another process is at it", "it does the same; try again later");
        return EXIT_NOT_DONE;
    }
    if (r.month_count)
        qsort(r.months, r.month_count, sizeof *r.months, by_month);
    if (o->json)
        print_json(&r, o->dry_run);
    else
        print_people(cfg, &r, o->dry_run);
    maintain_report_free(&r);
    return ok ? EXIT_OK : cli_failed(COMMAND, &err);
}

int cli_maintain(int argc, char **argv) {
    struct options o = {0};
    int code = read_options(argc, argv, &o);
    if (code != EXIT_OK)
        return code;
    return cli_with_database(COMMAND, o.path, LOG_ERROR, maintain, &o);
}
