/* SPDX-License-Identifier: MIT */
#include "keys.h"
#include "metrics_internal.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define ENDS (OUTCOME_BLOCKED + 1)
#define CODES (REJECT_SETTLEMENT_REJECTED + 1)
#define STATUSES (STATUS_FAMILY_QUOTA_EXCEEDED + 1)

static void one_label(struct buf *out, const char *name, const char *value) {
    buf_printf(out, "%s=\"%s\"", name, value);
}

/* ---- outcomes: the ends, and behind them the codes of those rejected ---- */

size_t metric_outcome(enum outcome outcome, enum reject_code code) {
    return outcome == OUTCOME_REJECTED ? (size_t)ENDS + code : (size_t)outcome;
}

static void outcome_label(struct buf *out, size_t i) {
    static const char *const names[ENDS] = {
        [OUTCOME_IGNORED] = "ignored",
        [OUTCOME_DUPLICATE] = "duplicate",
        [OUTCOME_SETTLED] = "settled",
        [OUTCOME_BLOCKED] = "blocked",
    };
    if (i < ENDS && names[i])
        one_label(out, "outcome", names[i]);
    else if (i > ENDS + REJECT_NONE)
        buf_printf(out, "outcome=\"rejected\",code=\"%s\"", reject_code_name((enum reject_code)(i - ENDS)));
}

static void code_label(struct buf *out, size_t i) {
    if (i != REJECT_NONE)
        one_label(out, "code", reject_code_name((enum reject_code)i));
}

/* ---- decisions: the statuses, a warning by its threshold ---- */

size_t metric_decision(enum decision_status status, int threshold) {
    return status == STATUS_WARNING ? (size_t)STATUSES + (size_t)threshold : (size_t)status;
}

static void decision_label(struct buf *out, size_t i) {
    const struct decision d = {
        .status = i < STATUSES ? (enum decision_status)i : STATUS_WARNING,
        .threshold = i < STATUSES ? 0 : (int)(i - STATUSES),
    };
    if (d.status == STATUS_WARNING && d.threshold == 0)
        return; /* a warning is one of some threshold */
    buf_str(out, "status=\"");
    decision_status_name(out, &d);
    buf_char(out, '"');
}

/* By kind: a threshold's is one, and the blocks' are named as they are. */
static const enum decision_status alert_kinds[] = {
    STATUS_WARNING,
    STATUS_MANUAL,
    STATUS_APP_BLOCK,
    STATUS_TIME_BLOCK,
    STATUS_MONTHLY_LIMIT_EXCEEDED,
    STATUS_FAMILY_QUOTA_EXCEEDED,
};

size_t metric_alert(enum decision_status status) {
    size_t i = 0;
    while (i + 1 < COUNT(alert_kinds) && alert_kinds[i] != status)
        i++;
    return i;
}

static void alert_label(struct buf *out, size_t i) {
    const struct decision d = {.status = alert_kinds[i]};
    one_label(out, "kind", d.status == STATUS_WARNING ? "THRESHOLD" : decision_block_name(&d));
}

/* ---- causes and kinds ---- */

static const char *const redecided[] = {
    [CAME_BACK_FIGURES] = "figures",
    [CAME_BACK_KNOWN_ID] = "known_id",
    [CAME_BACK_NO_CHAIN] = "no_chain",
    [CAME_BACK_OTHER] = "other",
};
static const char *const warmups[] = {
    [METRIC_WARMUP_COLD] = "cold",
    [METRIC_WARMUP_CAME_BACK] = "came_back",
};
static const char *const retries[] = {
    [METRIC_RETRY_DEADLOCK] = "deadlock", [METRIC_RETRY_LOCK_WAIT] = "lock_wait",
    [METRIC_RETRY_MYSQL] = "mysql",       [METRIC_RETRY_REDIS] = "redis",
    [METRIC_RETRY_KAFKA] = "kafka",
};
static const char *const rebalances[] = {
    [METRIC_REBALANCE_ASSIGNED] = "assigned",
    [METRIC_REBALANCE_REVOKED] = "revoked",
    [METRIC_REBALANCE_LOST] = "lost",
};
static const char *const maintained[] = {
    [METRIC_MAINTAINED_OUTBOX] = "usage_event_outbox",
    [METRIC_MAINTAINED_RECORD] = "usage_record",
    [METRIC_MAINTAINED_BLOCK] = "usage_block",
};

static void redecided_label(struct buf *out, size_t i) {
    one_label(out, "cause", redecided[i]);
}

static void warmup_label(struct buf *out, size_t i) {
    one_label(out, "cause", warmups[i]);
}

static void retry_label(struct buf *out, size_t i) {
    one_label(out, "cause", retries[i]);
}

static void rebalance_label(struct buf *out, size_t i) {
    one_label(out, "kind", rebalances[i]);
}

static void maintained_label(struct buf *out, size_t i) {
    one_label(out, "table", maintained[i]);
}

/* ---- requests: whatever else was asked for or answered counts as the last ---- */

static const char *const http_paths[] = {"/", "/metrics", "/healthz", "/readyz", "/status.json", "other"};
static const int http_codes[] = {200, 400, 404, 405, 503, 500};

size_t metric_http(size_t path, int code) {
    size_t i = 0;
    while (i + 1 < COUNT(http_codes) && http_codes[i] != code)
        i++;
    return (path < COUNT(http_paths) ? path : COUNT(http_paths) - 1) * COUNT(http_codes) + i;
}

static void http_label(struct buf *out, size_t i) {
    buf_printf(out, "path=\"%s\",code=\"%d\"", http_paths[i / COUNT(http_codes)],
               http_codes[i % COUNT(http_codes)]);
}

/* ---- the table ---- */

/* Microseconds: from an answer out of memory to a dependency that is away. */
static const int64_t durations[] = {100,     250,     500,     1000,     2500,     5000,
                                    10000,   25000,   50000,   100000,   250000,   500000,
                                    1000000, 2500000, 5000000, 10000000, 30000000, 0};
/* From what one transaction takes to hours of waiting. */
static const int64_t latencies[] = {1000,    2500,     5000,     10000,    20000,     30000,      50000,
                                    75000,   100000,   150000,   250000,   500000,    1000000,    2500000,
                                    5000000, 10000000, 30000000, 60000000, 300000000, 3600000000, 0};
static const int64_t sizes[] = {1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2000, 4000, 10000, 0};

/* Counted here, without labels or by them; of the label values all are expected, or so many. */
#define COUNTED .kind = METRIC_COUNTER, .count = 1, .expected = 1
#define COUNTED_BY(names, n, namer) COUNTED_SOME(names, n, namer, n)
#define COUNTED_SOME(names, n, namer, some)                                                                  \
    .kind = METRIC_COUNTER, .labels = (names), .count = (n), .label = (namer), .expected = (some)
#define MEASURED(of) .kind = METRIC_HISTOGRAM, .bounds = (of)
#define MEASURED_SECONDS(of) MEASURED(of), .seconds = true
/* Looked at when somebody asks. */
#define SAMPLED .kind = METRIC_GAUGE
#define SAMPLED_BY(names) .kind = METRIC_GAUGE, .labels = (names)
#define SAMPLED_COUNT .kind = METRIC_COUNTER

const struct metric_row metric_rows[METRIC_COUNT] = {
    [METRIC_EVENTS] =
        {COUNTED_BY("outcome, code", METRIC_OUTCOMES, outcome_label), .name = "tallyd_events_total",
         .help = "Records by how they ended, the rejected ones by code; read again they count again"},
    [METRIC_DECISIONS] = {COUNTED_SOME("status", METRIC_STATUSES, decision_label, STATUSES),
                          .name = "tallyd_decisions_total", .help = "Events settled or blocked, by decision"},
    [METRIC_ALERTS] = {COUNTED_BY("kind", COUNT(alert_kinds), alert_label), .name = "tallyd_alerts_total",
                       .help = "Alerts stored, each with its outbox row"},
    [METRIC_DLT] = {COUNTED_BY("code", CODES, code_label), .name = "tallyd_dlt_records_total",
                    .help = "Records that the broker acknowledged on the dead letter topic"},
    [METRIC_CAME_BACK] = {COUNTED, .name = "tallyd_settlements_came_back_total",
                          .help = "Settlements that wrote nothing: their batch is to be decided again"},
    [METRIC_REDECIDED] = {COUNTED_BY("cause", COUNT(redecided), redecided_label),
                          .name = "tallyd_redecided_total",
                          .help =
                              "Families' months decided again after a settlement came back or was refused"},
    [METRIC_WARMUPS] = {COUNTED_BY("cause", COUNT(warmups), warmup_label), .name = "tallyd_warmups_total",
                        .help = "Families' months read from MySQL into Redis"},
    [METRIC_RETRIES] = {COUNTED_BY("cause", COUNT(retries), retry_label), .name = "tallyd_retries_total",
                        .help = "Tries again after a lock or while a dependency is away"},
    [METRIC_REFUSED] = {COUNTED, .name = "tallyd_settlements_refused_total",
                        .help = "Settlements whose data MySQL refused"},
    [METRIC_FENCED] = {COUNTED, .name = "tallyd_fenced_batches_total",
                       .help = "Batches dropped because another process owns their partition"},
    [METRIC_MISPLACED_KEY] = {COUNTED, .name = "tallyd_misplaced_keys_total",
                              .help = "Records whose key isn't their familyId: right, only slower"},
    [METRIC_REBALANCES] = {COUNTED_BY("kind", COUNT(rebalances), rebalance_label),
                           .name = "tallyd_rebalances_total",
                           .help =
                               "Assignments that the group gave to a worker, took from it, or that it lost"},
    [METRIC_PUBLISHED] = {COUNTED, .name = "tallyd_notifications_published_total",
                          .help = "Notifications acknowledged by the broker and marked SENT"},
    [METRIC_PUBLISH_FAILED] = {COUNTED, .name = "tallyd_notifications_failed_total",
                               .help = "Notifications that ended FAILED"},
    [METRIC_MAINTAINED] = {COUNTED_BY("table", COUNT(maintained), maintained_label),
                           .name = "tallyd_maintained_rows_total",
                           .help = "Rows past their retention that were deleted"},
    [METRIC_HTTP_REQUESTS] = {COUNTED_SOME("path, code", COUNT(http_paths) * COUNT(http_codes), http_label,
                                           0),
                              .name = "tallyd_http_requests_total", .help = "Requests answered"},
    [METRIC_BATCH_EVENTS] = {MEASURED(sizes), .name = "tallyd_batch_events",
                             .help = "Records of each batch that was settled"},
    [METRIC_COMMIT_LATENCY] =
        {MEASURED_SECONDS(latencies), .name = "tallyd_commit_latency_seconds",
         .help = "From a record's timestamp to its event's commit, of those settled or blocked"},
    [METRIC_SCRIPT_DURATION] = {MEASURED_SECONDS(durations), .name = "tallyd_script_duration_seconds",
                                .help = "Deciding a batch, or what of it was void, in Redis"},
    [METRIC_TRANSACTION_DURATION] =
        {MEASURED_SECONDS(durations), .name = "tallyd_transaction_duration_seconds",
         .help = "A settlement's transaction that committed, from its first statement"},
    [METRIC_PUBLISH_LATENCY] = {MEASURED_SECONDS(latencies), .name = "tallyd_publish_latency_seconds",
                                .help = "From an alert's settlement to the broker's acknowledgement"},
    [METRIC_LAG] = {SAMPLED_BY("partition"), .name = "tallyd_partition_lag",
                    .help = "Records of a partition assigned here that aren't settled yet"},
    [METRIC_PROGRESS_AGE] =
        {SAMPLED_BY("partition"), .name = "tallyd_partition_progress_age_seconds",
         .help = "Since when a partition that has lag hasn't moved; 0 without lag. Paused ones age too"},
    [METRIC_PAUSED_AGE] = {SAMPLED_BY("partition"), .name = "tallyd_partition_paused_age_seconds",
                           .help = "Since when a partition is paused by an operator; 0 when it isn't"},
    [METRIC_PARTITIONS] = {SAMPLED, .name = "tallyd_partitions_assigned",
                           .help = "Partitions that this process reads"},
    [METRIC_OUTBOX_PENDING] = {SAMPLED, .name = "tallyd_outbox_pending",
                               .help = "Outbox rows that wait to be published, of all processes"},
    [METRIC_OUTBOX_AGE] = {SAMPLED, .name = "tallyd_outbox_oldest_age_seconds",
                           .help = "Age of the oldest of them; 0 when there is none"},
    [METRIC_OUTBOX_FAILED] = {SAMPLED, .name = "tallyd_outbox_failed",
                              .help = "Outbox rows that ended FAILED"},
    [METRIC_DEPENDENCY_UP] = {SAMPLED_BY("dependency"), .name = "tallyd_dependency_up",
                              .help = "1: it answers what tallyd needs of it; 0: it doesn't"},
    [METRIC_STATE] = {SAMPLED_BY("state"), .name = "tallyd_state",
                      .help = "1 for the state that /readyz tells, 0 for the others"},
    [METRIC_LOG_LOST] = {SAMPLED_COUNT, .name = "tallyd_log_lines_lost_total",
                         .help = "Log lines that nobody took"},
    [METRIC_BUILD_INFO] = {SAMPLED_BY("version, librdkafka"), .name = "tallyd_build_info",
                           .help = "1; the versions are in its labels"},
    [METRIC_PROCESS_START] = {SAMPLED, .name = "process_start_time_seconds",
                              .help = "When the process started, in seconds since 1970"},
    [METRIC_PROCESS_CPU] = {SAMPLED_COUNT, .name = "process_cpu_seconds_total",
                            .help = "CPU time the process has had"},
    [METRIC_PROCESS_MEMORY] = {SAMPLED, .name = "process_resident_memory_bytes",
                               .help = "Its resident memory"},
    [METRIC_PROCESS_FDS] = {SAMPLED, .name = "process_open_fds", .help = "Its open file descriptors"},
};
