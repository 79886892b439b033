/* SPDX-License-Identifier: MIT */
#include "keys.h"
#include "metrics_internal.h"

#define CODES (REJECT_SETTLEMENT_REJECTED + 1)
#define STATUSES (STATUS_FAMILY_QUOTA_EXCEEDED + 1)
#define PERCENTS 100
#define ENDS (OUTCOME_BLOCKED + 1)

static const char *const paths[] = {"/", "/metrics", "/healthz", "/readyz", "/status.json", "other"};
static const int http_codes[] = {200, 400, 404, 405, 503, 500};

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
    else if (i > ENDS)
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
    if (i == STATUS_WARNING || i == STATUSES)
        return; /* a warning is one of some threshold */
    buf_str(out, "status=\"");
    decision_status_name(out, &d);
    buf_char(out, '"');
}

static void alert_label(struct buf *out, size_t i) {
    static const char *const names[] = {
        "THRESHOLD", "MANUAL", "APP_BLOCK", "TIME_BLOCK", "MONTHLY_LIMIT_EXCEEDED", "FAMILY_QUOTA_EXCEEDED"};
    one_label(out, "kind", names[i]);
}

/* ---- causes ---- */

static void redecided_label(struct buf *out, size_t i) {
    static const char *const names[] = {"figures", "known_id", "no_chain", "other"};
    one_label(out, "cause", names[i]);
}

static void warmup_label(struct buf *out, size_t i) {
    static const char *const names[] = {"cold", "came_back"};
    one_label(out, "cause", names[i]);
}

static void retry_label(struct buf *out, size_t i) {
    static const char *const names[] = {"deadlock", "lock_wait", "mysql", "redis", "kafka"};
    one_label(out, "cause", names[i]);
}

static void rebalance_label(struct buf *out, size_t i) {
    static const char *const names[] = {"assigned", "revoked", "lost"};
    one_label(out, "kind", names[i]);
}

static void maintained_label(struct buf *out, size_t i) {
    static const char *const names[] = {"usage_event_outbox", "usage_record", "usage_block"};
    one_label(out, "table", names[i]);
}

/* ---- requests ---- */

#define PATHS (sizeof paths / sizeof *paths)
#define HTTP_CODES (sizeof http_codes / sizeof *http_codes)

size_t metric_http(size_t path, int code) {
    size_t i = 0;
    while (i + 1 < HTTP_CODES && http_codes[i] != code)
        i++;
    return (path < PATHS ? path : PATHS - 1) * HTTP_CODES + i;
}

static void http_label(struct buf *out, size_t i) {
    buf_printf(out, "path=\"%s\",code=\"%d\"", paths[i / HTTP_CODES], http_codes[i % HTTP_CODES]);
}

/* ---- the table ---- */

/* Microseconds. From a memory-speed answer to a dependency that is away. */
static const int64_t durations[] = {500,    1000,   2500,    5000,    10000,   25000,    50000,    100000,
                                    250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000, 0};
static const int64_t latencies[] = {1000,    2500,     5000,     10000,    20000,     30000,      50000,
                                    75000,   100000,   150000,   250000,   500000,    1000000,    2500000,
                                    5000000, 10000000, 30000000, 60000000, 300000000, 3600000000, 0};
static const int64_t sizes[] = {1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2000, 4000, 10000, 0};

const struct metric_row metric_rows[METRIC_COUNT] = {
    [METRIC_EVENTS] =
        {"tallyd_events_total", METRIC_COUNTER, "outcome, code", ENDS + CODES, outcome_label, true, NULL,
         false, "Records by how they ended; of the rejected ones by code. Read again they count again"},
    [METRIC_DECISIONS] = {"tallyd_decisions_total", METRIC_COUNTER, "status", STATUSES + PERCENTS,
                          decision_label, false, NULL, false, "Events settled or blocked, by decision"},
    [METRIC_ALERTS] = {"tallyd_alerts_total", METRIC_COUNTER, "kind", METRIC_ALERT_FAMILY_QUOTA + 1,
                       alert_label, true, NULL, false, "Alerts stored, each with its outbox row"},
    [METRIC_DLT] = {"tallyd_dlt_records_total", METRIC_COUNTER, "code", CODES, code_label, true, NULL, false,
                    "Records that the broker acknowledged on the dead letter topic"},
    [METRIC_CAME_BACK] =
        {"tallyd_settlements_came_back_total", METRIC_COUNTER, "", 1, NULL, true, NULL, false,
         "Settlements that wrote nothing because MySQL's figures or ids weren't those decided on"},
    [METRIC_REDECIDED] = {"tallyd_redecided_total", METRIC_COUNTER, "cause", METRIC_REDECIDED_OTHER + 1,
                          redecided_label, true, NULL, false,
                          "Families' months decided again after a settlement came back"},
    [METRIC_WARMUPS] = {"tallyd_warmups_total", METRIC_COUNTER, "cause", METRIC_WARMUP_CAME_BACK + 1,
                        warmup_label, true, NULL, false, "Families' months read from MySQL into Redis"},
    [METRIC_RETRIES] = {"tallyd_retries_total", METRIC_COUNTER, "cause", METRIC_RETRY_KAFKA + 1, retry_label,
                        true, NULL, false, "Tries again after a lock or while a dependency is away"},
    [METRIC_REFUSED] = {"tallyd_settlements_refused_total", METRIC_COUNTER, "", 1, NULL, true, NULL, false,
                        "Settlements whose data MySQL refused"},
    [METRIC_FENCED] = {"tallyd_fenced_batches_total", METRIC_COUNTER, "", 1, NULL, true, NULL, false,
                       "Batches dropped because another process owns their partition"},
    [METRIC_MISPLACED_KEY] = {"tallyd_misplaced_keys_total", METRIC_COUNTER, "", 1, NULL, true, NULL, false,
                              "Records whose key isn't their familyId: right, only slower"},
    [METRIC_REBALANCES] = {"tallyd_rebalances_total", METRIC_COUNTER, "kind", METRIC_REBALANCE_LOST + 1,
                           rebalance_label, true, NULL, false,
                           "Assignments given, taken and lost by the group's coordinator"},
    [METRIC_PUBLISHED] = {"tallyd_notifications_published_total", METRIC_COUNTER, "", 1, NULL, true, NULL,
                          false, "Notifications acknowledged by the broker and marked SENT"},
    [METRIC_PUBLISH_FAILED] = {"tallyd_notifications_failed_total", METRIC_COUNTER, "", 1, NULL, true, NULL,
                               false, "Notifications that ended FAILED"},
    [METRIC_MAINTAINED] = {"tallyd_maintained_rows_total", METRIC_COUNTER, "table",
                           METRIC_MAINTAINED_BLOCK + 1, maintained_label, true, NULL, false,
                           "Rows past their retention that were deleted"},
    [METRIC_HTTP_REQUESTS] = {"tallyd_http_requests_total", METRIC_COUNTER, "path, code", PATHS *HTTP_CODES,
                              http_label, false, NULL, false, "Requests answered"},
    [METRIC_BATCH_EVENTS] = {"tallyd_batch_events", METRIC_HISTOGRAM, "", 0, NULL, true, sizes, false,
                             "Records a settled batch had"},
    [METRIC_COMMIT_LATENCY] = {"tallyd_commit_latency_seconds", METRIC_HISTOGRAM, "", 0, NULL, true,
                               latencies, true, "From a record's timestamp to the commit of its settlement"},
    [METRIC_SCRIPT_DURATION] = {"tallyd_script_duration_seconds", METRIC_HISTOGRAM, "", 0, NULL, true,
                                durations, true,
                                "Deciding a batch in Redis: one measurement a batch and try"},
    [METRIC_TRANSACTION_DURATION] = {"tallyd_transaction_duration_seconds", METRIC_HISTOGRAM, "", 0, NULL,
                                     true, durations, true,
                                     "A settlement that committed, from its first statement"},
    [METRIC_PUBLISH_LATENCY] = {"tallyd_publish_latency_seconds", METRIC_HISTOGRAM, "", 0, NULL, true,
                                latencies, true,
                                "From an alert's settlement to the broker's acknowledgement"},
    [METRIC_LAG] = {"tallyd_partition_lag", METRIC_GAUGE, "partition", 0, NULL, false, NULL, false,
                    "Records of a partition assigned here that aren't settled yet"},
    [METRIC_PROGRESS_AGE] =
        {"tallyd_partition_progress_age_seconds", METRIC_GAUGE, "partition", 0, NULL, false, NULL, false,
         "Since when a partition that has lag hasn't moved; 0 without lag. Paused ones age too"},
    [METRIC_PAUSED_AGE] = {"tallyd_partition_paused_age_seconds", METRIC_GAUGE, "partition", 0, NULL, false,
                           NULL, false, "Since when a partition is paused by an operator; 0 when it isn't"},
    [METRIC_PARTITIONS] = {"tallyd_partitions_assigned", METRIC_GAUGE, "", 0, NULL, false, NULL, false,
                           "Partitions that this process reads"},
    [METRIC_OUTBOX_PENDING] = {"tallyd_outbox_pending", METRIC_GAUGE, "", 0, NULL, false, NULL, false,
                               "Outbox rows that wait to be published, of all processes"},
    [METRIC_OUTBOX_AGE] = {"tallyd_outbox_oldest_age_seconds", METRIC_GAUGE, "", 0, NULL, false, NULL, false,
                           "Age of the oldest of them; 0 when there is none"},
    [METRIC_OUTBOX_FAILED] = {"tallyd_outbox_failed", METRIC_GAUGE, "", 0, NULL, false, NULL, false,
                              "Outbox rows that ended FAILED"},
    [METRIC_DEPENDENCY_UP] = {"tallyd_dependency_up", METRIC_GAUGE, "dependency", 0, NULL, false, NULL, false,
                              "1: it answers what tallyd needs of it; 0: it doesn't"},
    [METRIC_STATE] = {"tallyd_state", METRIC_GAUGE, "state", 0, NULL, false, NULL, false,
                      "1 for the state that /readyz tells, 0 for the others"},
    [METRIC_LOG_LOST] = {"tallyd_log_lines_lost_total", METRIC_COUNTER, "", 0, NULL, false, NULL, false,
                         "Log lines that nobody took"},
    [METRIC_BUILD_INFO] = {"tallyd_build_info", METRIC_GAUGE, "version, librdkafka", 0, NULL, false, NULL,
                           false, "1; the versions are in its labels"},
    [METRIC_PROCESS_START] = {"process_start_time_seconds", METRIC_GAUGE, "", 0, NULL, false, NULL, false,
                              "When the process started, in seconds since 1970"},
    [METRIC_PROCESS_CPU] = {"process_cpu_seconds_total", METRIC_COUNTER, "", 0, NULL, false, NULL, false,
                            "CPU time the process has had"},
    [METRIC_PROCESS_MEMORY] = {"process_resident_memory_bytes", METRIC_GAUGE, "", 0, NULL, false, NULL, false,
                               "Its resident memory"},
    [METRIC_PROCESS_FDS] = {"process_open_fds", METRIC_GAUGE, "", 0, NULL, false, NULL, false,
                            "Its open file descriptors"},
};
