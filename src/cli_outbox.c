/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "event.h"
#include "log.h"
#include "outbox_admin.h"
#include "period.h"
#include "plain_text.h"
#include "table.h"

#define COMMAND "outbox"
#define LIST_LIMIT 100
#define CHANGE_LIMIT 10000
#define LIMIT_MAX 100000
#define NOTE_SIZE 640 /* holds a last_error */

struct options {
    const char *path, *verb, *status, *reason;
    int64_t family, limit;
    bool json, all_failed, dry_run, force;
    char **ids; /* borrowed: the rest of the arguments */
    size_t id_count;
};

/* ---- times ---- */

static void age_text(int64_t ms, char out[24]) {
    int64_t s = ms < 0 ? 0 : ms / 1000;
    if (s < 120)
        snprintf(out, 24, "%lld s", (long long)s);
    else if (s < 7200)
        snprintf(out, 24, "%lld min", (long long)(s / 60));
    else if (s < 172800)
        snprintf(out, 24, "%lld h", (long long)(s / 3600));
    else
        snprintf(out, 24, "%lld d", (long long)(s / 86400));
}

/* "in 12 s", "3 min ago", "-". */
static void distance_text(int64_t at_ms, int64_t now_ms, char out[40]) {
    char age[24];
    age_text(at_ms > now_ms ? at_ms - now_ms : now_ms - at_ms, age);
    if (at_ms == OUTBOX_ADMIN_NEVER)
        snprintf(out, 40, "-");
    else
        snprintf(out, 40, at_ms > now_ms ? "in %s" : "%s ago", age);
}

static json_t *time_json(int64_t ms) {
    char text[PERIOD_LOCAL_SIZE];
    if (ms == OUTBOX_ADMIN_NEVER)
        return json_null();
    period_format_local(ms, text);
    return json_string(text);
}

/* Text of the database, which has it as UTF-8; what isn't stays out. */
static json_t *text_json(const char *text) {
    json_t *j = text ? json_string(text) : NULL;
    return j ? j : json_null();
}

/* ---- rows ---- */

static const char *word_of(const char *status) {
    return strcmp(status, "PUBLISH_PENDING") == 0 ? "pending"
           : strcmp(status, "FAILED") == 0        ? "failed"
                                                  : "sent";
}

static void lease_text(const struct outbox_entry *e, int64_t now_ms, char out[80]) {
    char distance[40];
    distance_text(e->lease_until_ms, now_ms, distance);
    if (e->lease_until_ms == OUTBOX_ADMIN_NEVER)
        snprintf(out, 80, "-");
    else
        snprintf(out, 80, "%s %s", e->leased ? "ends" : "ended", distance);
}

static json_t *entry_json(const struct outbox_entry *e) {
    return json_pack(
        "{s:I,s:o,s:I,s:I,s:s,s:o,s:I,s:o,s:o,s:{s:o,s:o,s:b},s:o,s:o,s:o,s:b}", "outboxId",
        (json_int_t)e->outbox_id, "eventId", text_json(e->event_id), "familyId", (json_int_t)e->family_id,
        "customerId", (json_int_t)e->customer_id, "status", e->status, "createdAt", time_json(e->created_ms),
        "tries", (json_int_t)e->retry_count, "nextRetryAt", time_json(e->next_retry_ms), "lastError",
        text_json(e->last_error), "lease", "owner",
        e->lease_owner ? json_integer((json_int_t)e->lease_owner) : json_null(), "until",
        time_json(e->lease_until_ms), "held", e->leased, "heldBackBy",
        e->behind ? json_integer((json_int_t)e->behind) : json_null(), "sentAt", time_json(e->sent_ms),
        "retriedAt", time_json(e->retried_ms), "mayBePublished", e->may_be_published);
}

static void print_entries(const struct outbox_entries *found) {
    char age[24], retry[40], lease[80];
    struct table *t = table_new("id", "event", "family", "customer", "status", "age>", "tries>", "next try",
                                "lease", "waits for", "last error", NULL);
    for (size_t i = 0; i < found->count; i++) {
        const struct outbox_entry *e = &found->items[i];
        age_text(found->now_ms - e->created_ms, age);
        distance_text(e->next_retry_ms, found->now_ms, retry);
        lease_text(e, found->now_ms, lease);
        table_i64(t, e->outbox_id);
        table_text(t, e->event_id);
        table_i64(t, e->family_id);
        table_i64(t, e->customer_id);
        table_text(t, word_of(e->status));
        table_text(t, age);
        table_i64(t, e->retry_count);
        table_text(t, retry);
        table_text(t, lease);
        table_i64_if(t, e->behind != 0, e->behind);
        table_text(t, e->last_error);
    }
    table_print(t, stdout);
    table_free(t);
}

static int list(const struct config *cfg, struct db *db, void *options) {
    const struct options *o = options;
    (void)cfg;
    struct error err = {0};
    struct outbox_entries found = {0};
    bool all = o->status && strcmp(o->status, "all") == 0;
    const struct outbox_filter filter = {
        .pending = !o->status || all || strcmp(o->status, "pending") == 0,
        .failed = !o->status || all || strcmp(o->status, "failed") == 0,
        .sent = all || (o->status && strcmp(o->status, "sent") == 0),
        .family = o->family,
        .limit = o->limit ? o->limit : LIST_LIMIT,
    };
    if (!outbox_admin_list(db, &filter, &found, &err))
        return cli_failed(COMMAND, &err);
    bool more = (int64_t)found.count == filter.limit;
    if (o->json) {
        json_t *rows = json_array();
        for (size_t i = 0; i < found.count; i++)
            json_array_append_new(rows, entry_json(&found.items[i]));
        table_print_json(json_pack("{s:o,s:b}", "rows", rows, "limitReached", more), stdout);
    } else {
        print_entries(&found);
        printf("%zu row%s%s\n", found.count, found.count == 1 ? "" : "s",
               more ? "; there may be more (--limit)" : "");
    }
    outbox_entries_free(&found);
    return EXIT_OK;
}

/* ---- one of them ---- */

static void add_field(struct table *t, const char *name, const char *value) {
    table_text(t, name);
    table_text(t, value);
}

static void add_time(struct table *t, const char *name, int64_t ms, int64_t now_ms) {
    char text[PERIOD_LOCAL_SIZE], distance[40];
    if (ms == OUTBOX_ADMIN_NEVER) {
        add_field(t, name, NULL);
        return;
    }
    period_format_local(ms, text);
    distance_text(ms, now_ms, distance);
    table_text(t, name);
    table_format(t, "%s (%s)", text, distance);
}

static void add_number(struct table *t, const char *name, bool known, int64_t number) {
    table_text(t, name);
    table_i64_if(t, known, number);
}

/* A line of the payload a row, so that the table's printer sees to its text. */
static void add_payload(struct table *t, const char *payload) {
    json_t *root = json_loads(payload, 0, NULL);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    char *rest = text ? text : mem_strdup(payload), *whole = rest, *line;
    for (const char *name = "payload"; (line = strsep(&rest, "\n")); name = "")
        add_field(t, name, line);
    free(whole);
    json_decref(root);
}

static void print_one(const struct outbox_entry *e, int64_t now_ms, const char *alerts) {
    struct table *t = table_new("column", "value", NULL);
    add_number(t, "outbox_id", true, e->outbox_id);
    add_field(t, "event_id", e->event_id);
    add_number(t, "family_id", true, e->family_id);
    add_number(t, "customer_id", true, e->customer_id);
    add_field(t, "status", e->status);
    add_field(t, "tells", alerts);
    add_time(t, "created_at", e->created_ms, now_ms);
    add_time(t, "sent_at", e->sent_ms, now_ms);
    add_number(t, "retry_count", true, e->retry_count);
    add_time(t, "next_retry_at", e->next_retry_ms, now_ms);
    add_time(t, "retried_at", e->retried_ms, now_ms);
    add_field(t, "last_error", e->last_error);
    add_number(t, "lease_owner", e->lease_owner != 0, e->lease_owner);
    add_time(t, "lease_until", e->lease_until_ms, now_ms);
    add_field(t, "on the topic",
              e->sent_ms != OUTBOX_ADMIN_NEVER ? "yes"
              : e->may_be_published            ? "it may be"
                                               : "no");
    add_number(t, "waits for row", e->behind != 0, e->behind);
    add_payload(t, e->payload ? e->payload : "");
    table_print(t, stdout);
    table_free(t);
}

static json_t *one_json(const struct outbox_entry *e, const char *alerts) {
    json_t *j = entry_json(e);
    json_t *payload = e->payload ? json_loads(e->payload, 0, NULL) : NULL;
    json_object_set_new(j, "alerts", text_json(alerts));
    json_object_set_new(j, "payload", payload ? payload : json_null());
    if (!payload)
        json_object_set_new(j, "payloadText", text_json(e->payload));
    return j;
}

static int show(const struct config *cfg, struct db *db, void *options) {
    const struct options *o = options;
    (void)cfg;
    struct error err = {0};
    struct outbox_entries found = {0};
    bool ok = outbox_admin_find(db, o->ids[0], &found, &err);
    json_t *all = json_array();
    for (size_t i = 0; ok && i < found.count; i++) {
        char *alerts = NULL;
        ok = outbox_admin_alerts(db, &found.items[i], &alerts, &err);
        if (ok && o->json)
            json_array_append_new(all, one_json(&found.items[i], alerts));
        else if (ok)
            print_one(&found.items[i], found.now_ms, alerts);
        free(alerts);
    }
    int code = !ok ? cli_failed(COMMAND, &err) : found.count ? EXIT_OK : EXIT_NOT_DONE;
    if (ok && found.count && o->json)
        table_print_json(json_pack("{s:O}", "rows", all), stdout);
    if (code == EXIT_NOT_DONE)
        cli_error(COMMAND, "show", "the outbox has no row of that number or event",
                  "it may be pruned, see maintain.sent_retention_days");
    json_decref(all);
    outbox_entries_free(&found);
    return code;
}

/* ---- changes ---- */

static void log_change(const struct options *o, const struct outbox_entry *e) {
    if (e->changed && o->reason)
        LOG(LOG_INFO, "outbox_skipped", LOG_I("outbox_id", e->outbox_id), LOG_I("family_id", e->family_id),
            LOG_S("event_id", e->event_id), LOG_S("reason", o->reason), LOG_B("was_leased", e->leased),
            LOG_B("may_be_published", e->may_be_published));
    else if (e->changed)
        LOG(LOG_INFO, "outbox_retried", LOG_I("outbox_id", e->outbox_id), LOG_I("family_id", e->family_id),
            LOG_S("event_id", e->event_id), LOG_S("last_error", e->last_error));
}

/* Of one that is skipped: why the topic may have it. */
static void doubt_text(const struct outbox_entry *e, char out[NOTE_SIZE]) {
    char until[PERIOD_LOCAL_SIZE] = "?";
    if (e->lease_until_ms != OUTBOX_ADMIN_NEVER)
        period_format_local(e->lease_until_ms, until);
    if (e->leased || e->lease_owner)
        snprintf(out, NOTE_SIZE, "%s being published by %lld until %s; it may %s", e->leased ? "is" : "was",
                 (long long)e->lease_owner, until, e->leased ? "be sent nevertheless" : "have been sent");
    else
        snprintf(out, NOTE_SIZE, "a try to publish it ended as '%s'; it may have been sent",
                 e->last_error ? e->last_error : "");
}

/* Of one that goes again. */
static void again_text(const struct outbox_entry *e, char out[NOTE_SIZE]) {
    char later[80] = "";
    if (e->later_sent)
        snprintf(later, sizeof later, "%lld later one%s of its family went before it",
                 (long long)e->later_sent, e->later_sent == 1 ? "" : "s");
    snprintf(out, NOTE_SIZE, "%s%s%s",
             e->may_be_published ? "it was skipped when it may have been sent, so it may come twice" : "",
             e->may_be_published && *later ? "; " : "", later);
}

/* What else there is to say of a row that is changed, or why it isn't; "": nothing. */
static void note_text(const struct options *o, const struct outbox_entry *e, char out[NOTE_SIZE]) {
    out[0] = '\0';
    if (!e->changed)
        snprintf(out, NOTE_SIZE, "not changed: %s%s", e->why,
                 e->status && e->leased && strstr(e->why, "leases") ? " (--force)" : "");
    else if (!o->reason)
        again_text(e, out);
    else if (e->may_be_published)
        doubt_text(e, out);
}

static void print_changes(const struct options *o, const struct outbox_entries *done) {
    char note[NOTE_SIZE];
    struct table *t = table_new("id", "event", "family", "was", "is", "note", NULL);
    for (size_t i = 0; i < done->count; i++) {
        const struct outbox_entry *e = &done->items[i];
        note_text(o, e, note);
        table_i64(t, e->outbox_id);
        table_text(t, e->event_id);
        table_i64_if(t, e->status != NULL, e->family_id);
        table_text(t, e->status ? word_of(e->status) : NULL);
        table_text(t, !e->changed ? NULL : o->reason ? "failed" : "pending");
        table_text(t, note);
    }
    table_print(t, stdout);
    table_free(t);
}

static json_t *change_json(const struct options *o, const struct outbox_entry *e) {
    char note[NOTE_SIZE];
    note_text(o, e, note);
    return json_pack(
        "{s:I,s:o,s:o,s:o,s:b,s:b,s:b,s:I,s:o,s:o}", "outboxId", (json_int_t)e->outbox_id, "eventId",
        text_json(e->event_id), "familyId", e->status ? json_integer((json_int_t)e->family_id) : json_null(),
        "was", text_json(e->status), "changed", e->changed, "leased", e->leased, "mayBePublished",
        e->may_be_published, "laterSent", (json_int_t)e->later_sent, "why",
        *e->why ? json_string(e->why) : json_null(), "note", *note ? text_json(note) : json_null());
}

static int tell_changes(const struct options *o, const struct outbox_entries *done, bool more) {
    size_t changed = 0;
    json_t *rows = json_array();
    for (size_t i = 0; i < done->count; i++) {
        changed += done->items[i].changed;
        if (!o->dry_run)
            log_change(o, &done->items[i]);
        if (o->json)
            json_array_append_new(rows, change_json(o, &done->items[i]));
    }
    if (o->json) {
        table_print_json(json_pack("{s:b,s:I,s:O,s:b}", "dryRun", o->dry_run, "changed", (json_int_t)changed,
                                   "rows", rows, "limitReached", more),
                         stdout);
    } else {
        print_changes(o, done);
        printf("%zu row%s %s%s%s\n", changed, changed == 1 ? "" : "s", o->dry_run ? "would be " : "",
               o->reason ? "skipped" : "sent on their way again",
               more ? "; there may be more (--limit)" : "");
    }
    json_decref(rows);
    if (changed == done->count)
        return EXIT_OK;
    char what[40];
    snprintf(what, sizeof what, "%zu of %zu rows", done->count - changed, done->count);
    cli_error(COMMAND, what, "not changed", "the output says why");
    return EXIT_NOT_DONE;
}

static bool change_ids(struct db *db, const struct options *o, const struct outbox_change *c,
                       struct outbox_entries *done, struct error *err) {
    int64_t page[OUTBOX_ADMIN_PAGE];
    size_t n = 0;
    for (size_t i = 0; i < o->id_count; i++) {
        page[n++] = strtoll(o->ids[i], NULL, 10);
        if (n < OUTBOX_ADMIN_PAGE && i + 1 < o->id_count)
            continue;
        if (!outbox_admin_change(db, c, page, n, done, err))
            return false;
        n = 0;
    }
    return true;
}

/* Those that are failed now and lie above the ones before: one that fails again isn't tried twice. */
static bool change_all(struct db *db, const struct options *o, const struct outbox_change *c,
                       struct outbox_entries *done, bool *more, struct error *err) {
    int64_t limit = o->limit ? o->limit : CHANGE_LIMIT, page[OUTBOX_ADMIN_PAGE];
    struct outbox_filter filter = {.failed = true, .family = o->family};
    for (*more = true; *more && (int64_t)done->count < limit;) {
        int64_t left = limit - (int64_t)done->count;
        struct outbox_entries found = {0};
        filter.limit = left < OUTBOX_ADMIN_PAGE ? left : OUTBOX_ADMIN_PAGE;
        bool ok = outbox_admin_list(db, &filter, &found, err);
        for (size_t i = 0; i < found.count; i++)
            page[i] = filter.after = found.items[i].outbox_id;
        size_t n = found.count;
        outbox_entries_free(&found);
        if (!ok || (n && !outbox_admin_change(db, c, page, n, done, err)))
            return false;
        *more = (int64_t)n == filter.limit;
    }
    return true;
}

/* What was done until an error stands, and is told. */
static int change(const struct config *cfg, struct db *db, void *options) {
    const struct options *o = options;
    (void)cfg;
    struct error err = {0};
    struct outbox_entries done = {0};
    bool more = false;
    const struct outbox_change c = {
        .skip = o->reason != NULL, .reason = o->reason, .force = o->force, .dry_run = o->dry_run};
    bool ok = o->all_failed ? change_all(db, o, &c, &done, &more, &err) : change_ids(db, o, &c, &done, &err);
    int code = ok || done.count ? tell_changes(o, &done, more) : EXIT_OK;
    outbox_entries_free(&done);
    return ok ? code : cli_failed(COMMAND, &err);
}

/* ---- the command ---- */

static bool is_number(const char *text, int64_t most, int64_t *out) {
    size_t len = strlen(text);
    *out = strtoll(text, NULL, 10);
    return len && len < 19 && strspn(text, "0123456789") == len && *out >= 1 && *out <= most;
}

static bool is_status(const char *text) {
    static const char *const words[] = {"pending", "failed", "sent", "all"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

static int read_option(struct options *o, int c) {
    const char *fault;
    if (c == 'c')
        o->path = optarg;
    else if (c == 's' && !is_status(o->status = optarg))
        return cli_usage(COMMAND, "--status", "must be pending, failed, sent or all");
    else if (c == 'f' && !cli_family(optarg, &o->family))
        return cli_usage(COMMAND, "--family", "must be a family's number, 1 … 9007199254740991");
    else if (c == 'l' && !is_number(optarg, LIMIT_MAX, &o->limit))
        return cli_usage(COMMAND, "--limit", "must be a whole number, 1 … 100000");
    else if (c == 'r' && (fault = plain_text_fault(o->reason = optarg, OUTBOX_ADMIN_REASON_MAX)))
        return cli_usage(COMMAND, "--reason", fault);
    o->json = o->json || c == 'j';
    o->all_failed = o->all_failed || c == 'a';
    o->dry_run = o->dry_run || c == 'd';
    o->force = o->force || c == 'F';
    return c == '?' ? EXIT_USAGE : EXIT_OK;
}

static int read_options(int argc, char **argv, struct options *o) {
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'}, {"json", no_argument, NULL, 'j'},
        {"status", required_argument, NULL, 's'}, {"family", required_argument, NULL, 'f'},
        {"limit", required_argument, NULL, 'l'},  {"all-failed", no_argument, NULL, 'a'},
        {"dry-run", no_argument, NULL, 'd'},      {"reason", required_argument, NULL, 'r'},
        {"force", no_argument, NULL, 'F'},        {0}};
    int c, code = EXIT_OK;
    while (code == EXIT_OK && (c = cli_option(argc, argv, ":c:", longs)) != -1)
        code = read_option(o, c);
    if (code != EXIT_OK)
        return code;
    if (!o->path)
        return cli_usage(COMMAND, "-c FILE", "is missing");
    if (optind == argc)
        return cli_usage(COMMAND, "list, show, retry or skip", "is missing");
    o->verb = argv[optind];
    o->ids = argv + optind + 1;
    o->id_count = (size_t)(argc - optind - 1);
    return EXIT_OK;
}

static int check_ids(const struct options *o) {
    int64_t id;
    for (size_t i = 0; i < o->id_count; i++) {
        if (!is_number(o->ids[i], INT64_MAX, &id))
            return cli_usage(COMMAND, cli_shown(o->ids[i], "ID"),
                             "must be the number of a row, as list shows it");
    }
    return EXIT_OK;
}

/* An option that the verb doesn't know must not pass for one that was minded. */
static int check_list(const struct options *o) {
    if (o->id_count || o->all_failed || o->dry_run || o->reason || o->force)
        return cli_usage(COMMAND, "list", "takes --status, --family, --limit and --json only");
    return EXIT_OK;
}

static bool is_id(const char *text) {
    for (const char *s = text; *s; s++) {
        if (*s <= ' ' || *s > '~')
            return false;
    }
    return *text && strlen(text) <= EVENT_ID_MAX;
}

static int check_show(const struct options *o) {
    if (o->id_count != 1 || o->status || o->family || o->limit || o->all_failed || o->dry_run || o->reason ||
        o->force)
        return cli_usage(COMMAND, "show", "takes one number or event id, and --json only");
    return is_id(o->ids[0]) ? EXIT_OK : cli_usage(COMMAND, "ID", "must be a row's number or an event's id");
}

static int check_retry(const struct options *o) {
    if (o->status || o->reason || o->force)
        return cli_usage(COMMAND, "retry",
                         "takes ID..., --all-failed, --family, --limit, --dry-run and --json only");
    if (o->all_failed == (o->id_count > 0))
        return cli_usage(COMMAND, "retry", "takes either ID... or --all-failed");
    if (!o->all_failed && (o->limit || o->family))
        return cli_usage(COMMAND, "retry", "takes --family and --limit with --all-failed only");
    return check_ids(o);
}

static int check_skip(const struct options *o) {
    if (o->status || o->family || o->limit || o->all_failed)
        return cli_usage(COMMAND, "skip", "takes ID..., --reason, --force, --dry-run and --json only");
    if (!o->id_count)
        return cli_usage(COMMAND, "ID", "is missing");
    return o->reason ? check_ids(o) : cli_usage(COMMAND, "--reason TEXT", "is missing");
}

static const struct verb {
    const char *name;
    int (*check)(const struct options *o);
    cli_work_fn *run;
} verbs[] = {
    {"list", check_list, list},
    {"show", check_show, show},
    {"retry", check_retry, change},
    {"skip", check_skip, change},
};

int cli_outbox(int argc, char **argv) {
    struct options o = {.verb = ""};
    int code = read_options(argc, argv, &o);
    if (code != EXIT_OK)
        return code;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, o.verb) != 0)
            continue;
        code = verbs[i].check(&o);
        return code == EXIT_OK ? cli_with_database(COMMAND, o.path, LOG_INFO, verbs[i].run, &o) : code;
    }
    return cli_usage(COMMAND, cli_shown(o.verb, "the verb"), "must be list, show, retry or skip");
}
