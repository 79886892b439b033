/* SPDX-License-Identifier: MIT */
/* Changing rows: retry and skip, and what is said of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_outbox_internal.h"
#include "log.h"
#include "outbox_admin.h"
#include "period.h"
#include "table.h"

#define CHANGE_LIMIT 10000
#define NOTE_SIZE 640 /* holds a last_error */

static void log_change(const struct outbox_options *o, const struct outbox_entry *e) {
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
static void note_text(const struct outbox_options *o, const struct outbox_entry *e, char out[NOTE_SIZE]) {
    out[0] = '\0';
    if (!e->changed)
        snprintf(out, NOTE_SIZE, "not changed: %s%s", e->why,
                 e->status && e->leased && strstr(e->why, "leases") ? " (--force)" : "");
    else if (!o->reason)
        again_text(e, out);
    else if (e->may_be_published)
        doubt_text(e, out);
}

static void print_changes(const struct outbox_options *o, const struct outbox_entries *done) {
    char note[NOTE_SIZE];
    struct table *t = table_new("id", "event", "family", "was", "is", "note", NULL);
    for (size_t i = 0; i < done->count; i++) {
        const struct outbox_entry *e = &done->items[i];
        note_text(o, e, note);
        table_i64(t, e->outbox_id);
        table_text(t, e->event_id);
        table_i64_if(t, e->status != NULL, e->family_id);
        table_text(t, e->status ? cli_outbox_word(e->status) : NULL);
        table_text(t, !e->changed ? NULL : o->reason ? "failed" : "pending");
        table_text(t, note);
    }
    table_print(t, stdout);
    table_free(t);
}

static json_t *change_json(const struct outbox_options *o, const struct outbox_entry *e) {
    char note[NOTE_SIZE];
    note_text(o, e, note);
    return json_pack("{s:I,s:o,s:o,s:o,s:b,s:b,s:b,s:I,s:o,s:o}", "outboxId", (json_int_t)e->outbox_id,
                     "eventId", cli_text_json(e->event_id), "familyId",
                     e->status ? json_integer((json_int_t)e->family_id) : json_null(), "was",
                     cli_text_json(e->status), "changed", e->changed, "leased", e->leased, "mayBePublished",
                     e->may_be_published, "laterSent", (json_int_t)e->later_sent, "why",
                     *e->why ? json_string(e->why) : json_null(), "note",
                     *note ? cli_text_json(note) : json_null());
}

static int tell_changes(const struct outbox_options *o, const struct outbox_entries *done, bool more) {
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

static bool change_ids(struct db *db, const struct outbox_options *o, const struct outbox_change *c,
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
static bool change_all(struct db *db, const struct outbox_options *o, const struct outbox_change *c,
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
int cli_outbox_change(const struct config *cfg, struct db *db, void *options) {
    const struct outbox_options *o = options;
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
