/* SPDX-License-Identifier: MIT */
/* MySQL is asked first, since its rows and its ledger are one view: a record that lies below the ledger's
 * next offset has its row in it, or its rejection in the DLT by then, as both come before the ledger moves.
 */
#include "explain.h"

#include <stdlib.h>
#include <string.h>

#include "mysql_db.h"

/* ---- names ---- */

const char *explain_verdict_name(enum explain_verdict v) {
    static const char *const names[] = {
        "settled", "settled_with_warning", "blocked",    "pruned",       "rejected", "waiting",
        "ignored", "unaccounted",          "never_seen", "undetermined",
    };
    return names[v];
}

const char *explain_fate_name(enum explain_fate f) {
    static const char *const names[] = {
        "decided",
        "duplicate",
        "rejected",
        "ignored",
        "waiting",
        "before the group",
        "duplicate or rejected",
        "rejected or skipped",
        "unknown",
    };
    return names[f];
}

const char *explain_place_name(enum explain_place p) {
    static const char *const names[] = {"not asked", "there", "gone", "other record"};
    return names[p];
}

const char *explain_entry_name(enum explain_entry e) {
    static const char *const names[] = {"none", "unreadable", "own", "other", "open"};
    return names[e];
}

/* ---- all of it ---- */

bool explain_run(const struct config *cfg, const char *id, const struct explain_options *options,
                 struct explanation *x, struct error *err) {
    *x = (struct explanation){.notifications.partition = -1, .usage.partition = -1, .dlt.partition = -1};
    size_t len = strlen(id);
    memcpy(x->id, id, len < EVENT_ID_MAX ? len : EVENT_ID_MAX);
    struct db *db = db_new(cfg, DB_REPEATABLE_READ);
    bool ok = explain_mysql(cfg, db, x, err);
    if (ok) {
        explain_kafka(cfg, options, x);
        ok = explain_mysql_month(db, x, err);
    }
    if (ok) {
        explain_redis(cfg, x);
        explain_judge(x);
    }
    db_free(db);
    return ok;
}

static void free_rejection(struct explain_rejection *r) {
    free(r->code);
    free(r->message);
    free(r->topic);
}

void explain_free(struct explanation *x) {
    free(x->row.app);
    free(x->row.reason);
    family_letters_free(x->letter, x->letter_count);
    free(x->ledger);
    family_month_free(&x->month);
    for (size_t i = 0; i < x->delivery_count; i++)
        free(x->deliveries[i].key);
    for (size_t i = 0; i < x->rejection_count; i++)
        free_rejection(&x->rejections[i]);
    for (size_t i = 0; i < x->mention_count; i++)
        free_rejection(&x->mentions[i].at);
    free(x->deliveries);
    free(x->rejections);
    free(x->mentions);
    free(x->notices);
    free(x->usage.spans);
    free(x->dlt.spans);
    free(x->notifications.spans);
    *x = (struct explanation){0};
}
