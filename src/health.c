/* SPDX-License-Identifier: MIT */
#include "health.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_text.h"

static const char *const state_names[HEALTH_STATES] = {"starting", "ready", "degraded", "stuck", "stopping"};

const char *health_state_name(enum health_state s) {
    return state_names[s];
}

void health_init(struct health *h, int64_t stuck_after_ms, int64_t wall_ms) {
    *h = (struct health){.stuck_after_ms = stuck_after_ms, .state = HEALTH_STARTING, .since_ms = wall_ms};
}

#define LINE_PARTITIONS 5 /* named in one line; /readyz tells all */

void health_free(struct health *h) {
    free(h->tracks);
    free(h->gone);
    free(h->reasons);
    *h = (struct health){0};
}

int64_t health_lag(const struct health_partition *p) {
    if (p->end < 0 || p->settled_to < 0)
        return -1;
    return p->end > p->settled_to ? p->end - p->settled_to : 0;
}

int64_t health_progress_age_ms(const struct health_track *t, int64_t now_ms) {
    return health_lag(&t->is) > 0 ? now_ms - t->moved_at_ms : 0;
}

/* ---- partitions ---- */

static const struct health_track *find(const struct health_track *tracks, size_t n, int32_t id) {
    for (size_t i = 0; i < n; i++) {
        if (tracks[i].is.id == id)
            return &tracks[i];
    }
    return NULL;
}

static const struct health_track *track_of(const struct health *h, int32_t id) {
    const struct health_track *t = find(h->tracks, h->track_count, id);
    return t ? t : find(h->gone, h->gone_count, id);
}

/* A group that never comes to rest takes partitions and gives them back, and none of them moves. */
static void keep_gone(struct health *h, const struct health_track *now, size_t n, int64_t now_ms) {
    struct health_track *gone = mem_zero(h->track_count + h->gone_count + 1, sizeof *gone);
    size_t kept = 0;
    for (size_t i = 0; i < h->track_count + h->gone_count; i++) {
        const struct health_track *t = i < h->track_count ? &h->tracks[i] : &h->gone[i - h->track_count];
        if (!find(now, n, t->is.id) && now_ms - t->seen_at_ms < h->stuck_after_ms)
            gone[kept++] = *t;
    }
    free(h->gone);
    h->gone = gone;
    h->gone_count = kept;
}

/* One that's new here, has moved, or had nothing to move to until now, begins anew. So does one that an
 * operator lets go on. */
static bool stands_still(const struct health_track *before, const struct health_partition *now) {
    return before && before->is.settled_to == now->settled_to && health_lag(&before->is) > 0 &&
           (now->paused || !before->is.paused);
}

static struct health_track follow(const struct health_track *before, const struct health_partition *p,
                                  int64_t now_ms) {
    struct health_track t = {.is = *p, .moved_at_ms = now_ms, .seen_at_ms = now_ms};
    if (!stands_still(before, p))
        return t;
    t.moved_at_ms = before->moved_at_ms;
    if (t.is.end < 0) /* not asked for since it came back: a log only grows */
        t.is.end = before->is.end;
    return t;
}

static void follow_partitions(struct health *h, const struct health_input *in) {
    struct health_track *tracks = mem_zero(in->partition_count + 1, sizeof *tracks);
    for (size_t i = 0; i < in->partition_count; i++)
        tracks[i] = follow(track_of(h, in->partitions[i].id), &in->partitions[i], in->now_ms);
    keep_gone(h, tracks, in->partition_count, in->now_ms);
    free(h->tracks);
    h->tracks = tracks;
    h->track_count = in->partition_count;
}

/* ---- reasons ---- */

static struct health_reason *add_reason(struct health *h, enum health_reason_kind kind) {
    if (h->reason_count == h->reason_capacity) {
        h->reason_capacity = h->reason_capacity ? 2 * h->reason_capacity : 8;
        h->reasons = mem_realloc(h->reasons, h->reason_capacity * sizeof *h->reasons);
    }
    struct health_reason *r = &h->reasons[h->reason_count++];
    *r = (struct health_reason){.kind = kind};
    return r;
}

static enum health_state look_at_dependencies(struct health *h, const struct health_input *in) {
    enum health_state state = HEALTH_READY;
    for (size_t i = 0; i < in->dependency_count; i++) {
        const struct health_dependency *d = &in->dependencies[i];
        if (d->known && d->up)
            continue;
        struct health_reason *r =
            add_reason(h, d->known ? HEALTH_DEPENDENCY_DOWN : HEALTH_DEPENDENCY_UNTRIED);
        r->dependency = d->name;
        r->since_ms = d->known ? d->since_ms : 0;
        memcpy(r->error, d->error, sizeof r->error);
        if (d->known)
            state = HEALTH_DEGRADED;
        else if (state == HEALTH_READY)
            state = HEALTH_STARTING;
    }
    return state;
}

static enum health_state look_at_partitions(struct health *h, const struct health_input *in) {
    enum health_state state = HEALTH_READY;
    for (size_t i = 0; i < h->track_count; i++) {
        const struct health_track *t = &h->tracks[i];
        int64_t age = health_progress_age_ms(t, in->now_ms);
        bool unmoved = !t->is.paused && age >= h->stuck_after_ms;
        if (!t->is.stopped && !unmoved)
            continue;
        struct health_reason *r =
            add_reason(h, t->is.stopped ? HEALTH_PARTITION_STOPPED : HEALTH_PARTITION_UNMOVED);
        r->partition = t->is.id;
        r->lag = health_lag(&t->is);
        r->unmoved_ms = age;
        state = HEALTH_STUCK;
    }
    return state;
}

/* A rebalance takes members out for a moment, which is nothing to tell; at the start it is. */
static enum health_state look_at_members(struct health *h, const struct health_input *in) {
    bool out = in->members == 0 || in->members_joined < in->members;
    if (!out) {
        h->joined_once = true;
        h->out_since_ms = h->out_since_wall_ms = 0;
        return HEALTH_READY;
    }
    if (!h->out_since_wall_ms) {
        h->out_since_ms = in->now_ms;
        h->out_since_wall_ms = in->wall_ms;
    }
    bool long_since = in->now_ms - h->out_since_ms >= h->stuck_after_ms;
    if (h->joined_once && !long_since)
        return HEALTH_READY;
    bool claiming = in->members && in->members_joined + in->members_claiming == in->members;
    add_reason(h, claiming ? HEALTH_CLAIMING : HEALTH_NOT_JOINED)->since_ms = h->out_since_wall_ms;
    return long_since ? HEALTH_STUCK : HEALTH_STARTING;
}

static enum health_state worst(enum health_state a, enum health_state b) {
    static const int rank[HEALTH_STATES] = {[HEALTH_READY] = 0,
                                            [HEALTH_STARTING] = 1,
                                            [HEALTH_DEGRADED] = 2,
                                            [HEALTH_STUCK] = 3,
                                            [HEALTH_STOPPING] = 4};
    return rank[a] >= rank[b] ? a : b;
}

bool health_update(struct health *h, const struct health_input *in) {
    enum health_state state = in->stopping ? HEALTH_STOPPING : HEALTH_READY;
    h->reason_count = 0;
    if (in->stopping)
        add_reason(h, HEALTH_SIGNAL);
    follow_partitions(h, in);
    state = worst(state, look_at_partitions(h, in));
    state = worst(state, look_at_dependencies(h, in));
    /* who stops leaves the group */
    if (!in->stopping)
        state = worst(state, look_at_members(h, in));
    if (state == h->state)
        return false;
    h->state = state;
    h->since_ms = in->wall_ms;
    return true;
}

/* ---- what is told ---- */

void health_reason_text(const struct health_reason *r, struct buf *out) {
    switch (r->kind) {
    case HEALTH_DEPENDENCY_DOWN:
        buf_printf(out, "%s is down: %s", r->dependency, r->error);
        break;
    case HEALTH_DEPENDENCY_UNTRIED:
        buf_printf(out, "%s hasn't answered yet", r->dependency);
        break;
    case HEALTH_PARTITION_UNMOVED:
        buf_printf(
            out, "partition %" PRId32 " has %" PRId64 " records to settle and hasn't moved for %" PRId64 " s",
            r->partition, r->lag, r->unmoved_ms / 1000);
        break;
    case HEALTH_PARTITION_STOPPED:
        buf_printf(
            out, "partition %" PRId32 " isn't read: its log and the ledger disagree (see partition_stopped)",
            r->partition);
        break;
    case HEALTH_NOT_JOINED:
        buf_str(out, "the consumer group isn't joined");
        break;
    case HEALTH_CLAIMING:
        buf_str(out, "partitions are given and can't be claimed in the ledger yet (see claim_waiting)");
        break;
    case HEALTH_SIGNAL:
        buf_str(out, "told to stop");
        break;
    }
}

static bool is_partitions(const struct health_reason *r) {
    return r->kind == HEALTH_PARTITION_UNMOVED || r->kind == HEALTH_PARTITION_STOPPED;
}

static void add_to_line(const struct health_reason *r, const char **between, struct buf *out) {
    buf_str(out, *between);
    health_reason_text(r, out);
    *between = "; ";
}

/* A line has its bounds: what may be the cause of all stands first, and of the partitions some. */
void health_line(const struct health *h, struct buf *out) {
    const char *between = ": ";
    size_t left_out = 0;
    buf_str(out, health_state_name(h->state));
    for (size_t i = 0; i < h->reason_count; i++) {
        if (!is_partitions(&h->reasons[i]))
            add_to_line(&h->reasons[i], &between, out);
    }
    for (size_t i = 0, named = 0; i < h->reason_count; i++) {
        if (is_partitions(&h->reasons[i]) && named++ < LINE_PARTITIONS)
            add_to_line(&h->reasons[i], &between, out);
        else
            left_out += is_partitions(&h->reasons[i]);
    }
    if (left_out)
        buf_printf(out, "%sand %zu more partitions", between, left_out);
}

static void print_since(struct buf *out, const char *name, int64_t ms) {
    if (ms)
        buf_printf(out, ",\"%s\":%" PRId64, name, ms);
}

static void print_reason(const struct health_reason *r, struct buf *out) {
    struct buf text = {0};
    buf_char(out, '{');
    switch (r->kind) {
    case HEALTH_DEPENDENCY_DOWN:
    case HEALTH_DEPENDENCY_UNTRIED:
        buf_str(out, "\"dependency\":");
        json_text(out, r->dependency);
        print_since(out, "since", r->since_ms);
        buf_str(out, ",\"error\":");
        json_text(out, r->kind == HEALTH_DEPENDENCY_DOWN ? r->error : "no answer yet");
        break;
    case HEALTH_PARTITION_UNMOVED:
        buf_printf(out, "\"partition\":%" PRId32 ",\"lag\":%" PRId64 ",\"unmovedForMs\":%" PRId64,
                   r->partition, r->lag, r->unmoved_ms);
        break;
    case HEALTH_PARTITION_STOPPED:
        buf_printf(out, "\"partition\":%" PRId32 ",\"stopped\":true", r->partition);
        break;
    case HEALTH_NOT_JOINED:
        buf_str(out, "\"group\":\"not joined\"");
        print_since(out, "since", r->since_ms);
        break;
    case HEALTH_CLAIMING:
        buf_str(out, "\"group\":\"claiming\"");
        print_since(out, "since", r->since_ms);
        break;
    case HEALTH_SIGNAL:
        buf_str(out, "\"signal\":\"told to stop\"");
        break;
    }
    buf_str(out, ",\"text\":");
    health_reason_text(r, &text);
    json_text(out, buf_cstr(&text));
    buf_char(out, '}');
    buf_free(&text);
}

void health_print_json(const struct health *h, struct buf *out) {
    buf_printf(out, "{\"state\":\"%s\",\"since\":%" PRId64 ",\"reasons\":[", health_state_name(h->state),
               h->since_ms);
    for (size_t i = 0; i < h->reason_count; i++) {
        if (i)
            buf_char(out, ',');
        print_reason(&h->reasons[i], out);
    }
    buf_str(out, "],\"paused\":[");
    bool any = false;
    for (size_t i = 0; i < h->track_count; i++) {
        const struct health_partition *p = &h->tracks[i].is;
        if (!p->paused)
            continue;
        buf_printf(out, "%s{\"partition\":%" PRId32, any ? "," : "", p->id);
        print_since(out, "since", p->paused_since_ms);
        buf_char(out, '}');
        any = true;
    }
    buf_str(out, "]}\n");
}
