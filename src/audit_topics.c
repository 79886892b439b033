/* SPDX-License-Identifier: MIT */
/* What lies on the topics against what the snapshot says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_internal.h"
#include "notification.h"

static int by_id(const void *x, const void *y) {
    const struct audit_notice *a = x, *b = y;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static int by_offset(const void *x, const void *y) {
    const struct audit_rejection *a = x, *b = y;
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a->time_ms > b->time_ms) - (a->time_ms < b->time_ms);
}

void audit_topic_sort(struct audit *a) {
    if (a->notice_count)
        qsort(a->notices, a->notice_count, sizeof *a->notices, by_id);
    if (a->rejection_count)
        qsort(a->rejections, a->rejection_count, sizeof *a->rejections, by_offset);
}

static const char *kafka_says(const struct audit *a) {
    return a->r->kafka.area == ERROR_NONE ? "Kafka wasn't asked" : a->r->kafka.text;
}

/* ---- notifications ---- */

/* The first with that id, and how many there are. */
static struct audit_notice *find(const struct audit *a, const char *event_id, size_t *n) {
    uint64_t id = audit_digest(event_id, strlen(event_id));
    size_t lo = 0, hi = a->notice_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (a->notices[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (hi = lo; hi < a->notice_count && a->notices[hi].id == id; hi++)
        ;
    *n = hi - lo;
    return *n ? &a->notices[lo] : NULL;
}

static size_t log_index(const struct audit_log *log, int32_t partition) {
    size_t i = 0;
    while (i + 1 < log->count && log->ids[i] != partition)
        i++;
    return i;
}

/* Whether a record made at that time would still be there, in whichever partition it went to; a partition
 * that has lost everything tells no times, and counts for families that go there now. */
static bool is_kept(const struct audit *a, const struct audit_letter *l) {
    const struct audit_log *log = &a->notifications;
    struct buf key = {0};
    buf_i64(&key, l->family);
    int32_t own = rd_kafka_msg_partitioner_murmur2(NULL, key.data, key.len, (int32_t)log->count, NULL, NULL);
    buf_free(&key);
    for (size_t i = 0; i < log->count; i++) {
        if (log->start[i] == 0)
            continue;
        if (log->start_ms[i] ? l->created_ms < log->start_ms[i] + AUDIT_CLOCKS_MS : log->ids[i] == own)
            return false;
    }
    return true;
}

static void judge_missing(struct audit *a, const struct audit_letter *l) {
    if (!is_kept(a, l)) {
        audit_leave_open(a->r, AUDIT_PUBLISHED, 1, "older than what the topic keeps");
        return;
    }
    a->r->findings[AUDIT_PUBLISHED].looked++;
    audit_break(a->r, AUDIT_PUBLISHED, "family %lld, event %s: SENT, and not on the topic",
                (long long)l->family, l->event_id);
}

/* To the byte, each time it's there. */
static void judge_bytes(struct audit *a, const struct audit_letter *l, struct audit_notice *at, size_t n) {
    struct buf value = {0};
    notification_envelope(&value, l->event_id, l->created_ms, l->payload, l->payload_len);
    uint64_t expected = audit_digest(value.data, value.len);
    buf_free(&value);
    a->r->findings[AUDIT_PUBLISHED].looked++;
    for (size_t i = 0; i < n; i++)
        at[i].matched = true;
    for (size_t i = 0; i < n; i++) {
        if (at[i].value == expected)
            continue;
        audit_break(a->r, AUDIT_PUBLISHED,
                    "family %lld, event %s: other bytes than its row's, at partition %d, offset %lld",
                    (long long)l->family, l->event_id, at[i].partition, (long long)at[i].offset);
        return;
    }
}

/* Its first time on the topic comes after that of the family's one before. */
static void judge_order(struct audit *a, const struct audit_letter *l, const struct audit_notice *at,
                        size_t n, struct audit_order *order) {
    const struct audit_log *log = &a->notifications;
    size_t i = log_index(log, at->partition);
    bool first_lost = log->start[i] > 0 && l->created_ms < log->start_ms[i] + AUDIT_CLOCKS_MS;
    if (at[n - 1].partition != at->partition || first_lost) {
        audit_leave_open(a->r, AUDIT_PUBLISHED_ORDER, 1, "%s",
                         first_lost ? "their first time may be older than what the topic keeps"
                                    : "they lie in several partitions");
        return;
    }
    a->r->findings[AUDIT_PUBLISHED_ORDER].looked++;
    if (order->partition == at->partition && at->offset <= order->offset)
        audit_break(a->r, AUDIT_PUBLISHED_ORDER,
                    "family %lld: event %s at partition %d, offset %lld, and event %s, told before, at %lld",
                    (long long)l->family, l->event_id, at->partition, (long long)at->offset, order->event_id,
                    (long long)order->offset);
    order->partition = at->partition;
    order->offset = at->offset;
    snprintf(order->event_id, sizeof order->event_id, "%s", l->event_id);
}

void audit_topic_letter(struct audit *a, const struct audit_letter *l, struct audit_order *order) {
    bool sent = strcmp(l->status, "SENT") == 0;
    if (!a->notifications.read) {
        if (sent) {
            audit_leave_open(a->r, AUDIT_PUBLISHED, 1, "%s", kafka_says(a));
            audit_leave_open(a->r, AUDIT_PUBLISHED_ORDER, 1, "%s", kafka_says(a));
        }
        return;
    }
    size_t n;
    struct audit_notice *at = find(a, l->event_id, &n);
    if (at)
        judge_bytes(a, l, at, n);
    else if (sent)
        judge_missing(a, l);
    if (at && sent && l->retried)
        audit_leave_open(a->r, AUDIT_PUBLISHED_ORDER, 1, "they had failed, and were sent again later");
    else if (at && sent)
        judge_order(a, l, at, n, order);
}

void audit_topic_strangers(struct audit *a) {
    struct audit_finding *f = &a->r->findings[AUDIT_STRANGERS];
    if (!a->notifications.read) {
        audit_leave_open(a->r, AUDIT_STRANGERS, 1, "%s", kafka_says(a));
        return;
    }
    for (size_t i = 0; i < a->notice_count; i++) {
        const struct audit_notice *n = &a->notices[i];
        /* a database that was put back lacks them until their events are settled again */
        const char *why = !n->before                       ? "they came after the snapshot was taken"
                          : n->time_ms < a->sent_pruned_ms ? "their rows may be pruned"
                          : n->time_ms < a->oldest_letter_ms || a->oldest_letter_ms == 0
                              ? "they are older than the outbox's oldest row"
                          : a->r->in_flight != 0 ? "events are in flight"
                                                 : NULL;
        if (!n->matched && why) {
            audit_leave_open(a->r, AUDIT_STRANGERS, 1, "%s", why);
            continue;
        }
        f->looked++;
        if (!n->matched)
            audit_break(a->r, AUDIT_STRANGERS, "partition %d, offset %lld: the outbox has no such row",
                        n->partition, (long long)n->offset);
    }
}

/* ---- the ledger ---- */

static void judge_sum(struct audit *a, const struct audit_partition *p) {
    int64_t sum = p->settled + p->blocked + p->duplicate + p->rejected + p->ignored + p->gap;
    a->r->findings[AUDIT_LEDGER].looked++;
    if (sum != p->next - p->first)
        audit_break(a->r, AUDIT_LEDGER,
                    "partition %d: the counts add up to %lld, from %lld to %lld are %lld offsets", p->id,
                    (long long)sum, (long long)p->first, (long long)p->next, (long long)(p->next - p->first));
}

/* At least: a rewind over offsets that were counted otherwise can settle some of them. */
static void judge_rows(struct audit *a, const struct audit_partition *p) {
    if (a->months_closed) {
        audit_leave_open(a->r, AUDIT_LEDGER_ROWS, 1, "rows of closed months may be pruned");
        return;
    }
    a->r->findings[AUDIT_LEDGER_ROWS].looked++;
    if (p->settled_rows < p->settled || p->blocked_rows < p->blocked)
        audit_break(a->r, AUDIT_LEDGER_ROWS,
                    "partition %d: %lld settled and %lld blocked are counted, and %lld and %lld have rows",
                    p->id, (long long)p->settled, (long long)p->blocked, (long long)p->settled_rows,
                    (long long)p->blocked_rows);
}

static void judge_committed(struct audit *a, const struct audit_partition *p) {
    if (!a->kafka_known || (!p->in_ledger && p->committed > 0)) {
        audit_leave_open(a->r, AUDIT_COMMITTED, 1, "%s",
                         a->kafka_known ? "the ledger has no row of them" : kafka_says(a));
        return;
    }
    a->r->findings[AUDIT_COMMITTED].looked++;
    if (p->in_ledger && p->committed > p->next)
        audit_break(a->r, AUDIT_COMMITTED, "partition %d: %lld is committed, and the ledger is at %lld",
                    p->id, (long long)p->committed, (long long)p->next);
}

static void judge_lag(struct audit *a, const struct audit_partition *p) {
    if (!a->kafka_known || p->end < 0) {
        audit_leave_open(a->r, AUDIT_LAG, 1, "%s", kafka_says(a));
        return;
    }
    a->r->findings[AUDIT_LAG].looked++;
    if (p->in_ledger && p->end < p->next)
        audit_note(a->r, AUDIT_LAG,
                   "partition %d: the log ends at %lld, and the ledger is at %lld: made anew?", p->id,
                   (long long)p->end, (long long)p->next);
}

void audit_topic_ledger(struct audit *a) {
    struct audit_finding *lag = &a->r->findings[AUDIT_LAG];
    for (size_t i = 0; i < a->partition_count; i++) {
        const struct audit_partition *p = &a->partitions[i];
        if (p->in_ledger) {
            judge_sum(a, p);
            judge_rows(a, p);
        }
        judge_committed(a, p);
        judge_lag(a, p);
    }
    if (a->kafka_known)
        snprintf(lag->detail, sizeof lag->detail, "%lld records", (long long)a->r->in_flight);
}

/* Distinct records of the partition in the DLT, of those that the ledger has counted. A first offset below
 * zero is that of a topic made anew: then offsets don't tell what was counted of the logs before. */
static int64_t in_dlt(const struct audit *a, const struct audit_partition *p) {
    int64_t n = 0;
    for (size_t i = 0; i < a->rejection_count; i++) {
        const struct audit_rejection *r = &a->rejections[i];
        bool again = i && by_offset(r - 1, r) == 0, counted = r->offset >= p->first && r->offset < p->next;
        n += !again && r->partition == p->id && (counted || p->first < 0);
    }
    return n;
}

void audit_topic_dlt(struct audit *a) {
    bool whole = true;
    for (size_t i = 0; i < a->dlt.count; i++)
        whole = whole && a->dlt.start[i] == 0;
    for (size_t i = 0; i < a->partition_count; i++) {
        const struct audit_partition *p = &a->partitions[i];
        if (!a->dlt.read) {
            audit_leave_open(a->r, AUDIT_DLT, p->rejected, "%s", kafka_says(a));
            continue;
        }
        int64_t there = in_dlt(a, p), missing = p->rejected > there ? p->rejected - there : 0;
        a->r->findings[AUDIT_DLT].looked += whole ? p->rejected : p->rejected - missing;
        if (missing && !whole)
            audit_leave_open(a->r, AUDIT_DLT, missing, "older than what the topic keeps");
        else if (missing)
            audit_break(a->r, AUDIT_DLT, "partition %d: %lld are counted, and %lld are in the DLT", p->id,
                        (long long)p->rejected, (long long)there);
    }
}
