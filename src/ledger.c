/* SPDX-License-Identifier: MIT */
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "draw.h"
#include "heartbeat.h"
#include "kafka.h"
#include "ledger_rows.h"
#include "log.h"
#include "mark.h"
#include "period.h"

#define BROKER_TIMEOUT_MS 5000
#define CLAIM_TRIES 3 /* a row is inserted by others once only */

/* What is known about one partition while it is being claimed. */
struct claim {
    int32_t id;
    int64_t committed; /* Kafka's, or -1 */
    int64_t low, high; /* the log's start and end */
    int64_t batch_no, next_offset;
    struct mark last; /* the last record counted, as the ledger knows it */
    int64_t paused_since_ms;
    bool in_ledger;
    bool recreated; /* the log isn't the one that the ledger counts */
    bool anew;      /* and the ledger counts the new one now */
};

void ledger_where(struct db *db, struct buf *sql, const struct config *cfg) {
    buf_str(sql, " WHERE group_id = ");
    db_quote(db, sql, cfg->kafka.group_id, strlen(cfg->kafka.group_id));
    buf_str(sql, " AND topic = ");
    db_quote(db, sql, cfg->kafka.usage_topic, strlen(cfg->kafka.usage_topic));
}

static bool ask_committed(rd_kafka_t *rk, const struct config *cfg, struct claim *claims, size_t n,
                          struct error *err) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)n);
    for (size_t i = 0; i < n; i++)
        rd_kafka_topic_partition_list_add(list, cfg->kafka.usage_topic, claims[i].id);
    heartbeat_beat();
    rd_kafka_resp_err_t code = rd_kafka_committed(rk, list, BROKER_TIMEOUT_MS);
    for (int i = 0; code == RD_KAFKA_RESP_ERR_NO_ERROR && i < list->cnt; i++) {
        code = list->elems[i].err;
        claims[i].committed = list->elems[i].offset >= 0 ? list->elems[i].offset : -1;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "committed offsets", NULL, err);
}

static bool ask_watermarks(rd_kafka_t *rk, const struct config *cfg, struct claim *claims, size_t n,
                           struct error *err) {
    for (size_t i = 0; i < n; i++) {
        heartbeat_beat();
        rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(
            rk, cfg->kafka.usage_topic, claims[i].id, &claims[i].low, &claims[i].high, BROKER_TIMEOUT_MS);
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
            return kafka_error(code, "watermarks", cfg->kafka.usage_topic, err);
    }
    return true;
}

/* All partitions the topic has now, as claims; NULL with an error. */
static struct claim *ask_partitions(rd_kafka_t *rk, const struct config *cfg, size_t *n, struct error *err) {
    int32_t *ids = kafka_topic_partitions(rk, cfg->kafka.usage_topic, BROKER_TIMEOUT_MS, n, err);
    if (!ids)
        return NULL;
    struct claim *claims = mem_zero(*n, sizeof *claims);
    for (size_t i = 0; i < *n; i++)
        claims[i].id = ids[i];
    free(ids);
    return claims;
}

static bool insert_rows(struct db *db, const struct config *cfg, const struct claim *claims, size_t n,
                        int64_t owner, struct error *err) {
    struct ledger_begin *begins = mem_alloc(n * sizeof *begins);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!claims[i].in_ledger)
            begins[count++] = (struct ledger_begin){claims[i].id, claims[i].next_offset};
    }
    bool ok = ledger_rows_begin(db, cfg, begins, count, owner, err);
    free(begins);
    return ok;
}

/* A group that was never here: every partition of the topic gets its row now,
 * starting at Kafka's committed offset or the log's start. */
static bool found_group(struct db *db, rd_kafka_t *rk, const struct config *cfg, struct error *err) {
    size_t n = 0;
    struct claim *all = ask_partitions(rk, cfg, &n, err);
    bool ok = all && ask_committed(rk, cfg, all, n, err) && ask_watermarks(rk, cfg, all, n, err);
    for (size_t i = 0; ok && i < n; i++)
        all[i].next_offset = ledger_start(all[i].low, all[i].committed, -1, false);
    ok = ok && insert_rows(db, cfg, all, n, 0, err);
    free(all);
    return ok;
}

/* Takes the rows over by a locking update, then reads them, in one transaction. A row that another member
 * inserted between the two is there but not ours: it's *missed. */
static bool try_rows(struct db *db, const struct config *cfg, struct claim *claims, size_t n, int64_t owner,
                     bool *group_known, bool *missed, struct error *err) {
    struct buf sql = {0};
    struct db_rows rows = {0};
    bool ok = db_exec_text(db, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", NULL, err) &&
              db_exec_text(db, "START TRANSACTION", NULL, err);
    for (size_t i = 0; ok && i < n; i++) {
        buf_reset(&sql);
        buf_printf(&sql, "UPDATE consumer_ledger SET owner = %lld, updated_at = UTC_TIMESTAMP(3)",
                   (long long)owner);
        ledger_where(db, &sql, cfg);
        buf_printf(&sql, " AND partition_id = %d", claims[i].id);
        ok = db_exec(db, &sql, NULL, err);
    }
    if (ok) {
        buf_reset(&sql);
        buf_str(
            &sql,
            "SELECT partition_id, batch_no, owner, next_offset, last_offset, last_timestamp_ms, last_checksum, " LEDGER_PAUSED_SINCE
            " FROM consumer_ledger");
        ledger_where(db, &sql, cfg);
        ok = db_query(db, &sql, &rows, err);
    }
    *group_known = *missed = false;
    while (ok && db_next(&rows)) {
        *group_known = true;
        for (size_t i = 0; i < n; i++) {
            if (claims[i].id != db_i64(&rows, 0, -1))
                continue;
            claims[i].batch_no = db_i64(&rows, 1, 0);
            claims[i].next_offset = db_i64(&rows, 3, 0);
            claims[i].last = (struct mark){.offset = db_i64(&rows, 4, -1),
                                           .timestamp_ms = db_i64(&rows, 5, -1),
                                           .checksum = db_i64(&rows, 6, 0)};
            claims[i].paused_since_ms = db_i64(&rows, 7, 0);
            claims[i].in_ledger = true;
            if (db_i64(&rows, 2, 0) != owner)
                *missed = true;
        }
    }
    db_rows_free(&rows);
    buf_free(&sql);
    if (ok && db_exec_text(db, "COMMIT", NULL, err))
        return true;
    db_rollback(db);
    return false;
}

static bool take_rows(struct db *db, const struct config *cfg, struct claim *claims, size_t n, int64_t owner,
                      bool *group_known, struct error *err) {
    bool missed = true;
    for (int i = 0; i < CLAIM_TRIES && missed; i++) {
        if (!try_rows(db, cfg, claims, n, owner, group_known, &missed, err))
            return false;
    }
    if (missed)
        return error_set(err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE, 0,
                         "the ledger's rows are claimed by others at once");
    return true;
}

/* Finds the partitions whose log isn't the one that the ledger counts: it ends before what was settled, or
 * holds another record where the last one settled lay. A record that retention or compaction took away
 * proves nothing. */
static bool find_recreated(const struct config *cfg, struct claim *claims, size_t n, struct error *err) {
    struct mark_look *looks = mem_zero(n, sizeof *looks);
    struct claim **asked = mem_zero(n, sizeof(struct claim *));
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        struct claim *c = &claims[i];
        c->recreated = c->next_offset > c->high;
        if (!c->recreated && c->last.offset >= c->low && c->last.offset < c->high) {
            asked[k] = c;
            looks[k++] = (struct mark_look){.partition = c->id, .mark = c->last};
        }
    }
    bool ok = mark_look_up(cfg, looks, k, BROKER_TIMEOUT_MS, err);
    for (size_t i = 0; ok && i < k; i++)
        asked[i]->recreated = looks[i].found == MARK_DIFFERS;
    free(asked);
    free(looks);
    return ok;
}

/* Lets a row count on from a new log's start: what was counted of the logs before stays counted, below
 * first_offset, which moves along. So next_offset says again how far this very log is settled, and the sum
 * of the counts is still next_offset - first_offset. */
static bool start_anew(struct db *db, const struct config *cfg, struct claim *c, int64_t owner,
                       struct error *err) {
    struct buf sql = {0};
    int64_t affected = 0;
    buf_printf(
        &sql,
        "UPDATE consumer_ledger SET first_offset = first_offset - next_offset + %lld, next_offset = %lld, "
        "last_offset = NULL, last_timestamp_ms = NULL, last_checksum = NULL, updated_at = UTC_TIMESTAMP(3)",
        (long long)c->low, (long long)c->low);
    ledger_where(db, &sql, cfg);
    buf_printf(&sql, " AND partition_id = %d AND owner = %lld AND batch_no = %lld", c->id, (long long)owner,
               (long long)c->batch_no);
    bool ok = db_exec(db, &sql, &affected, err);
    buf_free(&sql);
    if (!ok)
        return false;
    if (affected != 1)
        return error_set(err, ERROR_MYSQL, ERROR_RETRY, ERROR_NOT_DONE, 0,
                         "consumer_ledger: partition %d was taken over meanwhile", c->id);
    LOG(LOG_WARN, "partition_started_anew", LOG_S("topic", cfg->kafka.usage_topic), LOG_I("partition", c->id),
        LOG_S("reason", "the topic was made anew, and kafka.accept_recreated_topic is true"),
        LOG_I("from", c->next_offset), LOG_I("to", c->low), LOG_I("log_end", c->high));
    c->next_offset = c->low;
    c->last = MARK_NONE;
    c->recreated = false;
    c->anew = true;
    return true;
}

static bool handle_recreated(struct db *db, const struct config *cfg, struct claim *claims, size_t n,
                             int64_t owner, struct error *err) {
    bool ok = find_recreated(cfg, claims, n, err);
    for (size_t i = 0; ok && cfg->kafka.accept_recreated_topic && i < n; i++) {
        if (claims[i].recreated)
            ok = start_anew(db, cfg, &claims[i], owner, err);
    }
    return ok;
}

/* Says why a partition isn't read, and what to do. */
static void stop_part(struct part *p, const struct claim *c, const struct config *cfg) {
    static const char gone[] = "records that were never settled are gone from the log",
                      short_log[] =
                          "the log ends before what the ledger has settled: the topic was made anew, "
                          "or this is another cluster",
                      other_log[] =
                          "the last settled record isn't the one on the topic: it was made anew, or "
                          "this is another cluster";
    static const char to_skip[] = "kafka.skip_lost_offsets: true counts them as a gap and goes on",
                      to_accept[] = "look whether cluster and topic are the right ones; "
                                    "kafka.accept_recreated_topic: true reads it from its beginning";
    p->stopped = true;
    LOG(LOG_ERROR, "partition_stopped", LOG_S("topic", cfg->kafka.usage_topic), LOG_I("partition", c->id),
        LOG_S("reason", !c->recreated              ? gone
                        : c->next_offset > c->high ? short_log
                                                   : other_log),
        LOG_S("hint", c->recreated ? to_accept : to_skip), LOG_I("ledger_next_offset", c->next_offset),
        LOG_I("log_start", c->low), LOG_I("log_end", c->high),
        LOG_I("lost", c->recreated ? 0 : c->low - c->next_offset));
}

/* Where a partition starts, or that it can't (DESIGN §5). Behind a gap the position stays before it, so that
 * whatever comes next, a record or the log's end, brings the gap into the ledger. */
static void set_start(struct part *p, const struct claim *c, const struct config *cfg) {
    bool gap = c->next_offset < c->low;
    p->id = c->id;
    p->batch_no = c->batch_no;
    p->next_offset = c->next_offset;
    p->replay_below =
        c->anew ? c->high : c->next_offset; /* who fills a new topic often fills in the old records */
    p->position = c->committed >= 0 && c->committed < c->next_offset ? c->committed : c->next_offset;
    if (p->position < c->low)
        p->position = gap ? c->next_offset : c->low;
    p->read_from = p->position < c->low ? c->low : p->position;
    p->commit_start = c->committed > p->position;
    atomic_init(&p->settled_to, p->position);
    atomic_init(&p->paused_since_ms, c->paused_since_ms);
    if (c->recreated || (gap && !cfg->kafka.skip_lost_offsets))
        stop_part(p, c, cfg);
    else if (gap)
        LOG(LOG_WARN, "offsets_skipped", LOG_S("topic", cfg->kafka.usage_topic), LOG_I("partition", c->id),
            LOG_I("from", c->next_offset), LOG_I("to", c->low), LOG_I("lost", c->low - c->next_offset));
}

struct assignment *ledger_claim(struct db *db, rd_kafka_t *rk, const struct config *cfg, const int32_t *ids,
                                size_t n, struct error *err) {
    struct assignment *a = NULL;
    struct claim *claims = mem_zero(n, sizeof *claims);
    int64_t owner = draw_number();
    bool known = false, ok = true;
    for (size_t i = 0; i < n; i++)
        claims[i] = (struct claim){.id = ids[i], .last = MARK_NONE};
    ok = db_ensure(db, err) && take_rows(db, cfg, claims, n, owner, &known, err);
    if (ok && !known)
        ok = found_group(db, rk, cfg, err) && take_rows(db, cfg, claims, n, owner, &known, err);
    int64_t read_ms = clock_monotonic_ms();
    ok = ok && ask_committed(rk, cfg, claims, n, err) && ask_watermarks(rk, cfg, claims, n, err);
    bool grew = false;
    for (size_t i = 0; ok && i < n; i++) {
        if (!claims[i].in_ledger) { /* added to the topic since: from its beginning */
            claims[i].next_offset = claims[i].low;
            grew = true;
        }
    }
    if (ok && grew) {
        ok = insert_rows(db, cfg, claims, n, owner, err) && take_rows(db, cfg, claims, n, owner, &known, err);
        read_ms = clock_monotonic_ms();
    }
    if (ok && handle_recreated(db, cfg, claims, n, owner, err)) {
        a = assignment_new(owner, n);
        a->read_ms = read_ms;
        for (size_t i = 0; i < n; i++) {
            set_start(&a->parts[i], &claims[i], cfg);
            LOG(LOG_INFO, "partition_opened", LOG_S("topic", cfg->kafka.usage_topic),
                LOG_I("partition", claims[i].id), LOG_I("owner", owner),
                LOG_I("start", a->parts[i].read_from), LOG_I("ledger_next_offset", claims[i].next_offset),
                LOG_I("committed_offset", claims[i].committed), LOG_I("log_start", claims[i].low),
                LOG_I("log_end", claims[i].high));
        }
    }
    free(claims);
    return a;
}

bool ledger_floor(struct db *db, int32_t *closed_before, struct error *err) {
    struct db_rows rows;
    if (!db_ensure(db, err) ||
        !db_query_text(db, "SELECT closed_before FROM usage_floor WHERE id = 1", &rows, err))
        return false;
    *closed_before = db_next(&rows) ? period_date_month(rows.row[0]) : 0;
    db_rows_free(&rows);
    return true;
}
