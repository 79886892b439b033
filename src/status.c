/* SPDX-License-Identifier: MIT */
#include "status.h"

#include <jansson.h>
#include <librdkafka/rdkafka.h>
#include <string.h>

#include "json_text.h"
#include "keys.h"
#include "log.h"
#include "version.h"

static const enum metric histograms[STATUS_HISTOGRAMS] = {
    METRIC_COMMIT_LATENCY, METRIC_SCRIPT_DURATION, METRIC_TRANSACTION_DURATION, METRIC_PUBLISH_LATENCY};

/* ---- the series ---- */

static double percentile_ms(size_t which, const struct metric_histogram *before,
                            const struct metric_histogram *now, double q) {
    double us = metrics_quantile(histograms[which], before, now, q);
    return us < 0 ? -1 : us / 1000;
}

/* Looks are kept for the length of the window: the oldest is what now is measured against. */
static void take_latencies(struct status_series *s, const struct metrics *m, struct status_point *p) {
    struct metric_histogram now[STATUS_HISTOGRAMS];
    for (size_t i = 0; i < STATUS_HISTOGRAMS; i++)
        metrics_histogram(m, histograms[i], &now[i]);
    const struct metric_histogram *last = s->before[(s->looks + STATUS_WINDOW - 1) % STATUS_WINDOW],
                                  *oldest =
                                      s->before[s->looks < STATUS_WINDOW ? 0 : s->looks % STATUS_WINDOW];
    p->commit_p50_ms = p->commit_p99_ms = -1;
    s->latency = (struct status_latency){-1, -1, -1, -1, -1};
    if (s->looks) {
        p->commit_p50_ms = percentile_ms(0, &last[0], &now[0], 0.5);
        p->commit_p99_ms = percentile_ms(0, &last[0], &now[0], 0.99);
        s->latency.commit_p50_ms = percentile_ms(0, &oldest[0], &now[0], 0.5);
        s->latency.commit_p99_ms = percentile_ms(0, &oldest[0], &now[0], 0.99);
        s->latency.script_p99_ms = percentile_ms(1, &oldest[1], &now[1], 0.99);
        s->latency.transaction_p99_ms = percentile_ms(2, &oldest[2], &now[2], 0.99);
        s->latency.publish_p99_ms = percentile_ms(3, &oldest[3], &now[3], 0.99);
    }
    memcpy(s->before[s->looks++ % STATUS_WINDOW], now, sizeof now);
}

void status_series_take(struct status_series *s, const struct metrics *m, int64_t now_ms, int64_t wall_ms,
                        int64_t lag, const struct probe_outbox *outbox) {
    struct status_point p = {.events_per_second = -1,
                             .lag = (double)lag,
                             .outbox_pending = outbox->known ? (double)outbox->pending : -1,
                             .outbox_age_ms = outbox->known ? (double)outbox->oldest_age_ms : -1};
    int64_t events = metrics_total(m, METRIC_EVENTS);
    if (s->looks && now_ms > s->taken_at_ms)
        p.events_per_second = (double)(events - s->events) * 1000 / (double)(now_ms - s->taken_at_ms);
    take_latencies(s, m, &p);
    s->events = events;
    s->taken_at_ms = now_ms;
    s->ends_at_ms = wall_ms;
    s->points[s->next] = p;
    s->next = (s->next + 1) % STATUS_POINTS;
    if (s->count < STATUS_POINTS)
        s->count++;
}

/* ---- the document ---- */

static json_t *number_or_null(double v) {
    return v < 0 ? json_null() : json_real((double)(int64_t)(v * 1000 + 0.5) / 1000);
}

static json_t *integer_or_null(int64_t v, bool known) {
    return known ? json_integer(v) : json_null();
}

int64_t status_outcomes(const struct metrics *m, enum outcome outcome) {
    int64_t n = metrics_get(m, METRIC_EVENTS, metric_outcome(outcome, REJECT_NONE));
    for (int code = REJECT_NONE + 1; outcome == OUTCOME_REJECTED && code <= REJECT_SETTLEMENT_REJECTED;
         code++)
        n += metrics_get(m, METRIC_EVENTS, metric_outcome(outcome, (enum reject_code)code));
    return n;
}

int64_t status_lag(const struct health *h) {
    int64_t sum = 0;
    for (size_t i = 0; i < h->track_count; i++) {
        int64_t lag = health_lag(&h->tracks[i].is);
        if (lag < 0)
            return -1;
        sum += lag;
    }
    return sum;
}

static json_t *state_of(const struct status *s) {
    json_t *reasons = json_array();
    for (size_t i = 0; i < s->health->reason_count; i++) {
        struct buf text = {0};
        health_reason_text(&s->health->reasons[i], &text);
        json_array_append_new(reasons, json_text_new(buf_cstr(&text)));
        buf_free(&text);
    }
    return json_pack("{s:s,s:I,s:o}", "name", health_state_name(s->health->state), "since",
                     (json_int_t)s->health->since_ms, "reasons", reasons);
}

static json_t *dependencies_of(const struct status *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->dependency_count; i++) {
        const struct health_dependency *d = &s->dependencies[i];
        json_t *o = json_object();
        json_object_set_new(o, "name", json_string(d->name));
        json_object_set_new(o, "up", json_boolean(d->known && d->up));
        json_object_set_new(o, "since", json_integer(d->known ? d->since_ms : s->started_wall_ms));
        json_object_set_new(o, "detail",
                            json_text_new(!d->known ? "no answer yet"
                                          : d->up   ? NULL
                                                    : d->error));
        json_object_set_new(o, "latencyMs", number_or_null(d->latency_ms));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *partitions_of(const struct status *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->health->track_count; i++) {
        const struct health_track *t = &s->health->tracks[i];
        int64_t lag = health_lag(&t->is);
        json_t *o = json_object();
        json_object_set_new(o, "id", json_integer(t->is.id));
        json_object_set_new(o, "lag", integer_or_null(lag, lag >= 0));
        json_object_set_new(o, "settledTo", json_integer(t->is.settled_to));
        json_object_set_new(o, "progressAgeMs", json_integer(health_progress_age_ms(t, s->now_ms)));
        json_object_set_new(o, "paused", json_boolean(t->is.paused));
        json_object_set_new(o, "pausedSince", integer_or_null(t->is.paused_since_ms, t->is.paused));
        json_object_set_new(o, "stopped", json_boolean(t->is.stopped));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *totals_of(const struct metrics *m) {
    const struct {
        const char *name;
        int64_t value;
    } totals[] = {
        {"settled", status_outcomes(m, OUTCOME_SETTLED)},
        {"blocked", status_outcomes(m, OUTCOME_BLOCKED)},
        {"duplicate", status_outcomes(m, OUTCOME_DUPLICATE)},
        {"rejected", status_outcomes(m, OUTCOME_REJECTED)},
        {"ignored", status_outcomes(m, OUTCOME_IGNORED)},
        {"published", metrics_total(m, METRIC_PUBLISHED)},
        {"publishFailed", metrics_total(m, METRIC_PUBLISH_FAILED)},
        {"cameBack", metrics_total(m, METRIC_CAME_BACK)},
        {"redecided", metrics_total(m, METRIC_REDECIDED)},
        {"warmups", metrics_total(m, METRIC_WARMUPS)},
        {"retries", metrics_total(m, METRIC_RETRIES)},
        {"fenced", metrics_total(m, METRIC_FENCED)},
        {"misplacedKeys", metrics_total(m, METRIC_MISPLACED_KEY)},
        {"logLinesLost", (int64_t)log_lost()},
    };
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        json_object_set_new(o, totals[i].name, json_integer(totals[i].value));
    return o;
}

static void add_decision(json_t *o, const struct metrics *m, enum decision_status status, int threshold) {
    const struct decision d = {.status = status, .threshold = threshold};
    struct buf name = {0};
    decision_status_name(&name, &d);
    json_object_set_new(o, buf_cstr(&name),
                        json_integer(metrics_get(m, METRIC_DECISIONS, metric_decision(status, threshold))));
    buf_free(&name);
}

static json_t *decisions_of(const struct status *s) {
    json_t *o = json_object();
    add_decision(o, s->metrics, STATUS_NORMAL, 0);
    for (size_t i = s->cfg->threshold_count; i-- > 0;)
        add_decision(o, s->metrics, STATUS_WARNING, s->cfg->thresholds[i]);
    for (int status = STATUS_MANUAL; status <= STATUS_FAMILY_QUOTA_EXCEEDED; status++)
        add_decision(o, s->metrics, (enum decision_status)status, 0);
    return o;
}

static json_t *alerts_of(const struct metrics *m) {
    json_t *o = json_object();
    for (int status = STATUS_WARNING; status <= STATUS_FAMILY_QUOTA_EXCEEDED; status++) {
        const struct decision d = {.status = (enum decision_status)status};
        json_object_set_new(o, d.status == STATUS_WARNING ? "THRESHOLD" : decision_block_name(&d),
                            json_integer(metrics_get(m, METRIC_ALERTS, metric_alert(d.status))));
    }
    return o;
}

static json_t *rejections_of(const struct metrics *m) {
    json_t *o = json_object();
    for (int code = REJECT_NONE + 1; code <= REJECT_SETTLEMENT_REJECTED; code++)
        json_object_set_new(o, reject_code_name((enum reject_code)code),
                            json_integer(metrics_get(
                                m, METRIC_EVENTS, metric_outcome(OUTCOME_REJECTED, (enum reject_code)code))));
    return o;
}

static json_t *outbox_of(const struct probe_outbox *outbox) {
    if (!outbox->known)
        return json_null();
    return json_pack("{s:I,s:I,s:I}", "pending", (json_int_t)outbox->pending, "oldestAgeMs",
                     (json_int_t)outbox->oldest_age_ms, "failed", (json_int_t)outbox->failed);
}

static json_t *latency_of(const struct status_series *s) {
    const struct status_latency none = {-1, -1, -1, -1, -1}, *l = s->looks ? &s->latency : &none;
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "commitP50Ms", number_or_null(l->commit_p50_ms), "commitP99Ms",
                     number_or_null(l->commit_p99_ms), "scriptP99Ms", number_or_null(l->script_p99_ms),
                     "transactionP99Ms", number_or_null(l->transaction_p99_ms), "publishP99Ms",
                     number_or_null(l->publish_p99_ms));
}

/* One member of the points, oldest first. */
static json_t *points_of(const struct status_series *s, size_t offset) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->count; i++) {
        const struct status_point *p = &s->points[(s->next + STATUS_POINTS - s->count + i) % STATUS_POINTS];
        double value;
        memcpy(&value, (const char *)p + offset, sizeof value);
        json_array_append_new(list, number_or_null(value));
    }
    return list;
}

static json_t *series_of(const struct status_series *s) {
    static const struct {
        const char *name;
        size_t offset;
    } members[] = {
        {"eventsPerSecond", offsetof(struct status_point, events_per_second)},
        {"lag", offsetof(struct status_point, lag)},
        {"outboxPending", offsetof(struct status_point, outbox_pending)},
        {"outboxAgeMs", offsetof(struct status_point, outbox_age_ms)},
        {"commitP50Ms", offsetof(struct status_point, commit_p50_ms)},
        {"commitP99Ms", offsetof(struct status_point, commit_p99_ms)},
    };
    json_t *o = json_object();
    json_object_set_new(o, "stepMs", json_integer(STATUS_STEP_MS));
    json_object_set_new(o, "endsAt", json_integer(s->ends_at_ms));
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        json_object_set_new(o, members[i].name, points_of(s, members[i].offset));
    return o;
}

static json_t *alert_of(const struct recent_item *i) {
    json_t *o = json_object();
    json_object_set_new(o, "at", json_integer(i->at_ms));
    json_object_set_new(o, "kind", json_text_new(i->what));
    json_object_set_new(o, "familyId", json_integer(i->family_id));
    json_object_set_new(o, "customerId", json_integer(i->customer_id));
    json_object_set_new(o, "eventId", json_text_new(i->event_id));
    json_object_set_new(o, "partition", json_integer(i->partition));
    json_object_set_new(o, "offset", json_integer(i->offset));
    return o;
}

static json_t *rejection_of(const struct recent_item *i) {
    json_t *o = json_object();
    json_object_set_new(o, "at", json_integer(i->at_ms));
    json_object_set_new(o, "code", json_text_new(i->what));
    json_object_set_new(o, "message", json_text_new(i->message));
    json_object_set_new(o, "eventId", json_text_new(i->event_id[0] ? i->event_id : NULL));
    json_object_set_new(o, "partition", json_integer(i->partition));
    json_object_set_new(o, "offset", json_integer(i->offset));
    return o;
}

static json_t *last_of(struct recent *recent, enum recent_kind kind) {
    struct recent_item items[RECENT_MAX];
    size_t n = recent_list(recent, kind, items, RECENT_MAX);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, kind == RECENT_ALERT ? alert_of(&items[i]) : rejection_of(&items[i]));
    return list;
}

void status_print(const struct status *s, struct buf *out) {
    json_t *o = json_object();
    json_object_set_new(o, "now", json_integer(s->wall_ms));
    json_object_set_new(o, "version", json_text_new(version_text()));
    json_object_set_new(o, "librdkafka", json_text_new(rd_kafka_version_str()));
    json_object_set_new(o, "groupId", json_text_new(s->cfg->kafka.group_id));
    json_object_set_new(o, "topic", json_text_new(s->cfg->kafka.usage_topic));
    json_object_set_new(o, "clientId", json_text_new(s->cfg->kafka.client_id));
    json_object_set_new(o, "startedAt", json_integer(s->started_wall_ms));
    json_object_set_new(o, "uptimeMs", json_integer(s->uptime_ms));
    json_object_set_new(o, "state", state_of(s));
    json_object_set_new(o, "healthy", json_boolean(s->healthy));
    json_object_set_new(o, "dependencies", dependencies_of(s));
    json_object_set_new(o, "partitions", partitions_of(s));
    json_object_set_new(o, "totals", totals_of(s->metrics));
    json_object_set_new(o, "decisions", decisions_of(s));
    json_object_set_new(o, "alerts", alerts_of(s->metrics));
    json_object_set_new(o, "rejections", rejections_of(s->metrics));
    json_object_set_new(o, "outbox", outbox_of(&s->outbox));
    json_object_set_new(o, "latency", latency_of(s->series));
    json_object_set_new(o, "series", series_of(s->series));
    json_object_set_new(o, "lastAlerts", last_of(s->recent, RECENT_ALERT));
    json_object_set_new(o, "lastRejections", last_of(s->recent, RECENT_REJECTION));
    json_text_dump(out, o);
    buf_char(out, '\n');
}
