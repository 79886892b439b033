/* SPDX-License-Identifier: MIT */
#include "rewind.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "moment.h"

#define DIGITS_MAX 18 /* below 2^63 */

static bool all_digits(const char *s, size_t n) {
    return n > 0 && n <= DIGITS_MAX && strspn(s, "0123456789") >= n;
}

bool rewind_target_parse(const char *text, int64_t now_ms, struct rewind_target *out) {
    *out = (struct rewind_target){.kind = REWIND_EARLIEST};
    if (strcmp(text, "earliest") == 0)
        return true;
    out->kind = REWIND_LATEST;
    if (strcmp(text, "latest") == 0)
        return true;
    out->kind = REWIND_OFFSET;
    out->value = strtoll(text, NULL, 10);
    if (all_digits(text, strlen(text)))
        return true;
    out->kind = REWIND_TIME;
    return moment_parse(text, now_ms, &out->value);
}

/* ---- planning ---- */

static const struct ledger_row *row_of(const struct ledger_row *rows, size_t n, int32_t id) {
    for (size_t i = 0; i < n; i++) {
        if (rows[i].partition == id)
            return &rows[i];
    }
    return NULL;
}

static int64_t highest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void plan_part(struct rewind_part *p, const struct ledger_row *row, bool group_known) {
    p->settled_to = row ? row->next_offset : -1;
    p->from = ledger_start(p->low, p->committed, p->settled_to, group_known);
    p->again = p->to < p->from ? p->from - p->to : 0;
    int64_t unsettled = row ? row->next_offset : p->from;
    /* what the log has lost is skipped by whoever goes beyond it, and not by going back to where it begins */
    bool ahead = p->to > highest(unsettled, p->low);
    p->skipped = ahead ? p->to - unsettled : 0;
    p->moves_ledger =
        ahead && group_known; /* one that isn't there yet begins where the group's offsets say */
    p->skip = (struct ledger_skip){.partition = p->id,
                                   .from = row ? row->next_offset : p->low,
                                   .to = p->to,
                                   .has_row = row != NULL,
                                   .owner = row ? row->owner : 0,
                                   .batch_no = row ? row->batch_no : 0};
}

static enum rewind_refusal refuse(enum rewind_refusal refusal, struct error *err, const char *text) {
    error_set(err, ERROR_KAFKA, ERROR_STOP, ERROR_NOT_DONE, 0, "%s", text);
    return refusal;
}

static enum rewind_refusal check_part(const struct rewind_part *p, const struct rewind_target *target,
                                      struct error *err) {
    char why[256];
    if (p->settled_to > p->high) {
        snprintf(
            why, sizeof why,
            "partition %d: the ledger has settled up to %lld, and the log ends at %lld: it was made anew, "
            "or this is another cluster",
            p->id, (long long)p->settled_to, (long long)p->high);
        return refuse(REWIND_OTHER_LOG, err, why);
    }
    if (target->kind == REWIND_OFFSET && (p->to < p->low || p->to > p->high)) {
        snprintf(why, sizeof why, "partition %d has no offset %lld: its log goes from %lld to %lld", p->id,
                 (long long)p->to, (long long)p->low, (long long)p->high);
        return refuse(REWIND_OUT_OF_RANGE, err, why);
    }
    return REWIND_PLANNED;
}

/* The partitions meant, with their targets. */
static enum rewind_refusal choose(rd_kafka_t *rk, const struct config *cfg,
                                  const struct rewind_target *target, const int32_t *ids, size_t n,
                                  struct rewind *r, struct error *err) {
    const struct group *g = &r->group;
    int64_t *at = mem_zero(g->partition_count, sizeof *at);
    bool ok = target->kind != REWIND_TIME || group_offsets_at(rk, cfg, g, target->value, at, err);
    r->parts = mem_zero(g->partition_count, sizeof *r->parts);
    for (size_t i = 0; ok && i < g->partition_count; i++) {
        const struct group_partition *p = &g->partitions[i];
        bool meant = n == 0;
        for (size_t k = 0; k < n; k++)
            meant = meant || ids[k] == p->id;
        if (!meant)
            continue;
        r->parts[r->count++] =
            (struct rewind_part){.id = p->id,
                                 .low = p->low,
                                 .high = p->high,
                                 .committed = p->committed,
                                 .to = target->kind == REWIND_EARLIEST ? p->low
                                       : target->kind == REWIND_LATEST ? p->high
                                       : target->kind == REWIND_TIME   ? highest(at[i], p->low)
                                                                       : target->value};
    }
    free(at);
    return ok ? REWIND_PLANNED : REWIND_FAILED;
}

static enum rewind_refusal all_there(struct rewind *r, const struct config *cfg, const int32_t *ids, size_t n,
                                     struct error *err) {
    char why[320];
    for (size_t i = 0; i < n; i++) {
        if (group_partition(&r->group, ids[i]))
            continue;
        snprintf(why, sizeof why, "%s has no partition %d", cfg->kafka.usage_topic, ids[i]);
        return refuse(REWIND_NO_PARTITION, err, why);
    }
    return REWIND_PLANNED;
}

enum rewind_refusal rewind_plan(rd_kafka_t *rk, struct db *db, const struct config *cfg,
                                const struct rewind_target *target, const int32_t *ids, size_t n,
                                struct rewind *r, struct error *err) {
    struct ledger_row *rows = NULL;
    size_t row_count = 0;
    *r = (struct rewind){0};
    if (!group_read(rk, cfg, &r->group, err) || !ledger_rows_read(db, cfg, &rows, &row_count, err))
        return REWIND_FAILED;
    if (!group_renew_ends(rk, cfg, &r->group,
                          err)) { /* last, since the ledger goes on while there are members */
        free(rows);
        return REWIND_FAILED;
    }
    enum rewind_refusal refusal = all_there(r, cfg, ids, n, err);
    if (refusal == REWIND_PLANNED)
        refusal = choose(rk, cfg, target, ids, n, r, err);
    for (size_t i = 0; refusal == REWIND_PLANNED && i < r->count; i++) {
        struct rewind_part *p = &r->parts[i];
        plan_part(p, row_of(rows, row_count, p->id), row_count > 0);
        refusal = check_part(p, target, err);
        r->again += p->again;
        r->skipped += p->skipped;
    }
    free(rows);
    return refusal;
}

void rewind_free(struct rewind *r) {
    group_free(&r->group);
    free(r->parts);
    *r = (struct rewind){0};
}

/* ---- doing it ---- */

bool rewind_apply(rd_kafka_t *rk, struct db *db, const struct config *cfg, const struct rewind *r,
                  bool *moved, struct error *err) {
    int32_t *ids = mem_alloc(r->count * sizeof *ids);
    int64_t *offsets = mem_alloc(r->count * sizeof *offsets);
    struct ledger_skip *skips = mem_alloc(r->count * sizeof *skips);
    size_t n = 0, skip_count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct rewind_part *p = &r->parts[i];
        if (p->committed != p->to) {
            ids[n] = p->id;
            offsets[n++] = p->to;
        }
        if (p->moves_ledger)
            skips[skip_count++] = p->skip;
    }
    bool ok = group_commit(rk, cfg, ids, offsets, n, err);
    *moved = ok && n > 0;
    ok = ok && ledger_rows_skip(db, cfg, skips, skip_count, err);
    free(ids);
    free(offsets);
    free(skips);
    return ok;
}
