/* SPDX-License-Identifier: MIT */
#include "audit_usage.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "event.h"

/* ---- digests and tables ---- */

uint64_t audit_digest(const void *data, size_t len) {
    return digest_bytes(DIGEST_START, data, len);
}

/* Its low bits choose the slot: FNV's alone are poor for numbers that differ in their high bytes. */
static uint64_t mixed(uint64_t h) {
    h ^= h >> 32;
    h *= 0x9E3779B97F4A7C15ULL;
    return h ^ h >> 29;
}

static uint64_t use_hash(int64_t family, int64_t customer, int32_t month) {
    uint64_t h = digest_bytes(DIGEST_START, &family, sizeof family);
    h = digest_bytes(h, &customer, sizeof customer);
    return mixed(digest_bytes(h, &month, sizeof month));
}

/* Room for one more: the slots are never over half full. True when they are to be filled anew. */
static bool grow_slots(uint32_t **slots, size_t *slot_count, size_t count) {
    if ((count + 1) * 2 <= *slot_count)
        return false;
    *slot_count = *slot_count ? *slot_count * 2 : 1024;
    free(*slots);
    *slots = mem_zero(*slot_count, sizeof **slots);
    return true;
}

static void fill_slot(uint32_t *slots, size_t slot_count, uint64_t hash, size_t index) {
    size_t at = hash & (slot_count - 1);
    while (slots[at])
        at = (at + 1) & (slot_count - 1);
    slots[at] = (uint32_t)(index + 1);
}

/* ---- uses ---- */

void audit_uses_free(struct audit_uses *u) {
    free(u->items);
    free(u->slots);
    *u = (struct audit_uses){0};
}

static bool is_of(const struct audit_use *use, int64_t family, int64_t customer, int32_t month) {
    return use->family == family && use->customer == customer && use->month == month;
}

struct audit_use *audit_uses_find(const struct audit_uses *u, int64_t family, int64_t customer,
                                  int32_t month) {
    if (u->slot_count == 0)
        return NULL;
    size_t at = use_hash(family, customer, month) & (u->slot_count - 1);
    for (; u->slots[at]; at = (at + 1) & (u->slot_count - 1)) {
        struct audit_use *use = &u->items[u->slots[at] - 1];
        if (is_of(use, family, customer, month))
            return use;
    }
    return NULL;
}

static void fill_slots(struct audit_uses *u) {
    for (size_t i = 0; i < u->count; i++)
        fill_slot(u->slots, u->slot_count,
                  use_hash(u->items[i].family, u->items[i].customer, u->items[i].month), i);
}

struct audit_use *audit_uses_get(struct audit_uses *u, int64_t family, int64_t customer, int32_t month) {
    struct audit_use *found = audit_uses_find(u, family, customer, month);
    if (found)
        return found;
    if (grow_slots(&u->slots, &u->slot_count, u->count))
        fill_slots(u);
    if (u->count == u->capacity) {
        u->capacity = u->capacity ? u->capacity * 2 : 512;
        u->items = mem_realloc(u->items, u->capacity * sizeof *u->items);
    }
    u->items[u->count] = (struct audit_use){.family = family,
                                            .customer = customer,
                                            .month = month,
                                            .partition = AUDIT_NOWHERE,
                                            .last = {.offset = -1},
                                            .block = {.offset = -1}};
    fill_slot(u->slots, u->slot_count, use_hash(family, customer, month), u->count);
    return &u->items[u->count++];
}

static void note_partition(struct audit_use *use, int32_t partition) {
    if (use->partition == AUDIT_NOWHERE)
        use->partition = partition;
    else if (use->partition != partition)
        use->partition = AUDIT_SEVERAL;
}

/* Whether a was settled before b by both its offset and its time; `*agree` is false where these differ, as
 * for a record that was passed over at first and settled after a rewind. Of one transaction the offset
 * decides. */
static bool is_before(const struct audit_place *a, const struct audit_place *b, bool *agree) {
    bool by_offset = a->offset < b->offset;
    bool by_time = a->settled_ms == b->settled_ms ? by_offset : a->settled_ms < b->settled_ms;
    *agree = by_offset == by_time;
    return by_offset;
}

void audit_use_blocked(struct audit_use *use, const struct audit_place *at, int64_t monthly_used) {
    bool agree = true;
    note_partition(use, at->partition);
    if (use->blocks++ == 0 || is_before(&use->block, at, &agree)) {
        use->block = *at;
        use->block_monthly = monthly_used;
    }
    if (!agree)
        use->unordered = true;
}

void audit_use_allowed(struct audit_use *use, const struct audit_place *at, int64_t bytes) {
    bool agree = true;
    note_partition(use, at->partition);
    if (use->blocks && is_before(at, &use->block, &agree))
        use->bytes_before_block += bytes;
    if (!agree)
        use->unordered = true;
    bool later = at->settled_ms == use->last.settled_ms ? at->offset > use->last.offset
                                                        : at->settled_ms > use->last.settled_ms;
    if (use->records++ == 0 || later)
        use->last = *at;
    use->bytes += bytes;
}

static int by_family(const void *x, const void *y) {
    const struct audit_use *a = x, *b = y;
    if (a->family != b->family)
        return a->family < b->family ? -1 : 1;
    if (a->month != b->month)
        return a->month < b->month ? -1 : 1;
    return (a->customer > b->customer) - (a->customer < b->customer);
}

void audit_uses_sort(struct audit_uses *u) {
    if (u->count == 0)
        return;
    qsort(u->items, u->count, sizeof *u->items, by_family);
    memset(u->slots, 0, u->slot_count * sizeof *u->slots);
    fill_slots(u);
}

void audit_use_others(struct audit_uses *u, const struct audit_use *own, const struct audit_place *at,
                      int64_t bytes) {
    size_t first = (size_t)(own - u->items);
    while (first && u->items[first - 1].family == own->family && u->items[first - 1].month == own->month)
        first--;
    for (size_t i = first; i < u->count; i++) {
        struct audit_use *other = &u->items[i];
        bool agree;
        if (other->family != own->family || other->month != own->month)
            break;
        if (other != own && other->records && other->partition == at->partition &&
            is_before(at, &other->last, &agree) && agree)
            other->others_before += bytes;
    }
}

int audit_threshold_due(const struct config *cfg, int64_t total, int64_t used) {
    if (total < 0 || total > EVENT_AMOUNT_MAX || used < 0 || used > EVENT_AMOUNT_MAX)
        return 0; /* others may write any total; nothing is settled on such a one */
    for (size_t i = 0; i < cfg->threshold_count; i++) {
        /* amounts are below 2^53, so that a hundred times one is a number yet */
        if ((total - used) * 100 <= total * cfg->thresholds[i])
            return cfg->thresholds[i];
    }
    return 0;
}

/* ---- blocks and alerts ---- */

static bool over_limit(const struct audit_block *b) {
    return b->monthly_limit >= 0 && b->monthly_used > b->monthly_limit - b->bytes;
}

const char *audit_block_fault(const struct audit_block *b) {
    bool known = false;
    static const char *const reasons[] = {"MANUAL", "APP_BLOCK", "TIME_BLOCK", "MONTHLY_LIMIT_EXCEEDED",
                                          "FAMILY_QUOTA_EXCEEDED"};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        known = known || strcmp(reasons[i], b->reason) == 0;
    if (!known)
        return "no such reason";
    if (b->monthly_used < 0)
        return "less than nothing was used";
    if (b->monthly_limit < -1)
        return "the limit is below zero";
    if (strcmp(b->reason, "APP_BLOCK") == 0 && !b->app)
        return "the event has no app";
    if (strcmp(b->reason, "MONTHLY_LIMIT_EXCEEDED") == 0 && !over_limit(b))
        return "it was within the limit";
    if (strcmp(b->reason, "FAMILY_QUOTA_EXCEEDED") == 0 && b->remaining >= b->bytes)
        return "enough was left";
    if (strcmp(b->reason, "FAMILY_QUOTA_EXCEEDED") == 0 && over_limit(b))
        return "it was over the limit, which comes first";
    return NULL;
}

void audit_block_alert(struct buf *out, const char *reason, const char *app) {
    buf_str(out, reason);
    if (strcmp(reason, "APP_BLOCK") != 0)
        return;
    buf_char(out, ':');
    buf_percent(out, app ? app : "", app ? strlen(app) : 0);
}

bool audit_payload_alert(struct buf *out, const char *payload, size_t len) {
    json_t *root = json_loadb(payload, len, 0, NULL);
    const json_t *data = json_object_get(root, "data");
    const char *status = json_string_value(json_object_get(data, "status"));
    if (status && strncmp(status, "WARNING_", 8) == 0)
        buf_printf(out, "THRESHOLD:%s", status + 8);
    else if (status)
        audit_block_alert(out, status, json_string_value(json_object_get(data, "appId")));
    json_decref(root);
    return status != NULL;
}

int audit_alert_threshold(const char *alert) {
    return strncmp(alert, "THRESHOLD:", 10) == 0 ? (int)strtol(alert + 10, NULL, 10) : 0;
}

/* ---- calls ---- */

void audit_calls_free(struct audit_calls *c) {
    for (size_t i = 0; i < c->count; i++) {
        free(c->items[i].text);
        free(c->items[i].by);
    }
    free(c->items);
    free(c->slots);
    *c = (struct audit_calls){0};
}

static uint64_t text_hash(const char *text) {
    return mixed(audit_digest(text, strlen(text)));
}

static struct audit_call *find_call(const struct audit_calls *c, const char *text) {
    if (c->slot_count == 0)
        return NULL;
    size_t at = text_hash(text) & (c->slot_count - 1);
    for (; c->slots[at]; at = (at + 1) & (c->slot_count - 1)) {
        struct audit_call *call = &c->items[c->slots[at] - 1];
        if (strcmp(call->text, text) == 0)
            return call;
    }
    return NULL;
}

void audit_calls_add(struct audit_calls *c, const char *text, const char *by) {
    if (find_call(c, text))
        return;
    if (grow_slots(&c->slots, &c->slot_count, c->count)) {
        for (size_t i = 0; i < c->count; i++)
            fill_slot(c->slots, c->slot_count, text_hash(c->items[i].text), i);
    }
    if (c->count == c->capacity) {
        c->capacity = c->capacity ? c->capacity * 2 : 64;
        c->items = mem_realloc(c->items, c->capacity * sizeof *c->items);
    }
    c->items[c->count] = (struct audit_call){.text = mem_strdup(text), .by = mem_strdup(by)};
    fill_slot(c->slots, c->slot_count, text_hash(text), c->count);
    c->count++;
}

void audit_calls_answer(struct audit_calls *c, const char *text) {
    struct audit_call *call = find_call(c, text);
    if (call)
        call->answered = true;
}

/* ---- notifications ---- */

static bool id_by_json(struct buf *out, const char *value, size_t len) {
    json_t *root = json_loadb(value, len, 0, NULL);
    const char *id = json_string_value(json_object_get(root, "eventId"));
    if (id)
        buf_str(out, id);
    json_decref(root);
    return id != NULL;
}

bool audit_notification_id(struct buf *out, const char *value, size_t len) {
    static const char front[] = "{\"eventId\":\"";
    size_t from = sizeof front - 1, to = from;
    if (len <= from || memcmp(value, front, from) != 0)
        return id_by_json(out, value, len);
    while (to < len && value[to] != '"' && value[to] != '\\')
        to++;
    if (to == len || value[to] == '\\')
        return id_by_json(out, value, len);
    buf_append(out, value + from, to - from);
    return to > from;
}
