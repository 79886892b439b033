/* SPDX-License-Identifier: MIT */
#include "backlog.h"

#include <stdlib.h>

#include "buf.h"
#include "clock.h"
#include "kafka.h"
#include "ledger_rows.h"
#include "period.h"

#define ANSWER_MS 3000 /* for all partitions: whoever asks is to end soon when it's told to */
#define DESTROY_MS 1000

int32_t backlog_month(const struct config *cfg, int64_t record_ms) {
    if (record_ms <= 0)
        return 0;
    int32_t month = period_month(record_ms);
    for (int64_t i = 0; i < cfg->event.max_past_months; i++)
        month = period_month_before(month);
    return month;
}

/* Offsets that are still to be read: none that the log has lost, and all of a log that isn't the ledger's. */
static int64_t unread(const struct ledger_row *row, int64_t low, int64_t high) {
    int64_t from = row->next_offset < low || row->next_offset > high ? low : row->next_offset;
    return high - from;
}

/* One that has no row of its own, in a group that has some, will be read from its beginning. */
static bool add_partitions(rd_kafka_t *rk, const struct config *cfg, struct ledger_row **rows, size_t *n,
                           struct error *why) {
    size_t count = 0;
    int32_t *ids = kafka_topic_partitions(rk, cfg->kafka.usage_topic, ANSWER_MS, &count, why);
    size_t known = *n;
    for (size_t i = 0; ids && i < count; i++) {
        bool has_row = false;
        for (size_t k = 0; k < known; k++)
            has_row = has_row || (*rows)[k].partition == ids[i];
        if (has_row)
            continue;
        *rows = mem_realloc(*rows, (*n + 1) * sizeof **rows);
        (*rows)[(*n)++] = (struct ledger_row){.partition = ids[i]};
    }
    free(ids);
    return ids != NULL;
}

static void take(struct backlog *b, const struct ledger_row *row, int32_t month, int64_t count) {
    if (count <= 0 || (b->reason == BACKLOG_UNREAD && b->month <= month))
        return;
    *b = (struct backlog){.reason = BACKLOG_UNREAD,
                          .partition = row->partition,
                          .unread = count,
                          .last_ms = row->last_ms,
                          .month = month};
}

/* What isn't known counts as the oldest of all partitions that couldn't be asked about. */
static void give_up(struct backlog *b, const struct config *cfg, const struct ledger_row *rows, size_t n,
                    int32_t before) {
    b->reason = BACKLOG_UNKNOWN;
    b->month = before;
    for (size_t i = 0; i < n; i++) {
        int32_t month = backlog_month(cfg, rows[i].last_ms);
        if (month < b->month) {
            b->month = month;
            b->partition = rows[i].partition;
            b->last_ms = rows[i].last_ms;
        }
    }
}

/* False with why when Kafka doesn't answer. */
static bool ask(rd_kafka_t *rk, const struct config *cfg, const struct ledger_row *rows, size_t n,
                int32_t before, struct backlog *b, struct error *why) {
    const char *topic = cfg->kafka.usage_topic;
    int64_t until = clock_monotonic_ms() + ANSWER_MS;
    for (size_t i = 0; i < n; i++) {
        int64_t low = 0, high = 0, left = until - clock_monotonic_ms();
        int32_t month = backlog_month(cfg, rows[i].last_ms);
        if (month >= before)
            continue;
        rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(rk, topic, rows[i].partition, &low, &high,
                                                                    left > 0 ? (int)left : 0);
        if (code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
            continue; /* its topic was made anew, with less of them */
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
            return kafka_error(code, "watermarks", topic, why);
        take(b, &rows[i], month, unread(&rows[i], low, high));
    }
    return true;
}

static void look(const struct config *cfg, struct ledger_row **rows, size_t *n, int32_t before,
                 struct backlog *b) {
    struct error why = {0};
    rd_kafka_t *rk = kafka_observer_new(cfg, &why);
    if (!rk || !add_partitions(rk, cfg, rows, n, &why) || !ask(rk, cfg, *rows, *n, before, b, &why)) {
        *b = (struct backlog){.why = why};
        give_up(b, cfg, *rows, *n, before);
    }
    if (rk)
        kafka_destroy(rk, DESTROY_MS);
}

bool backlog_find(struct db *db, const struct config *cfg, int32_t month, struct backlog *b,
                  struct error *err) {
    struct ledger_row *rows = NULL;
    size_t n = 0;
    bool old = false;
    *b = (struct backlog){.reason = BACKLOG_NONE};
    if (!ledger_rows_read(db, cfg, &rows, &n, err))
        return false;
    for (size_t i = 0; i < n; i++)
        old = old || backlog_month(cfg, rows[i].last_ms) < month;
    if (n == 0)
        b->reason = BACKLOG_NOT_BEGUN;
    else if (old)
        look(cfg, &rows, &n, month, b);
    free(rows);
    return true;
}
