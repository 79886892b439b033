/* SPDX-License-Identifier: MIT */
#include "drain.h"

#include <stdio.h>
#include <stdlib.h>

#include "buf.h"
#include "heartbeat.h"
#include "kafka.h"
#include "ledger_rows.h"
#include "log.h"
#include "mysql_db.h"
#include "outbox.h"
#include "period.h"

#define ASK_TIMEOUT_MS 10000

struct goal {
    int32_t id;
    int64_t low, end;
    /* as last looked at */
    int64_t settled_to; /* -1: nothing yet */
    int64_t paused_since_ms;
};

struct drain {
    const struct config *cfg;
    rd_kafka_t *observer;
    struct db *db;
    struct goal *goals;
    size_t count;
};

static bool ask_goals(struct drain *d, struct error *err) {
    const char *topic = d->cfg->kafka.usage_topic;
    int32_t *ids = kafka_topic_partitions(d->observer, topic, ASK_TIMEOUT_MS, &d->count, err);
    if (!ids)
        return false;
    d->goals = mem_zero(d->count, sizeof *d->goals);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (size_t i = 0; i < d->count && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        struct goal *g = &d->goals[i];
        g->id = ids[i];
        code = rd_kafka_query_watermark_offsets(d->observer, topic, g->id, &g->low, &g->end, ASK_TIMEOUT_MS);
    }
    free(ids);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "watermarks", topic, err);
}

struct drain *drain_new(const struct config *cfg, struct error *err) {
    struct drain *d = mem_zero(1, sizeof *d);
    d->cfg = cfg;
    d->db = db_new(cfg, DB_READ_COMMITTED);
    d->observer = kafka_observer_new(cfg, err);
    if (d->observer && ask_goals(d, err))
        return d;
    drain_free(d);
    return NULL;
}

void drain_free(struct drain *d) {
    if (!d)
        return;
    if (d->observer)
        rd_kafka_destroy(d->observer);
    db_free(d->db);
    free(d->goals);
    free(d);
}

/* How far one of our workers has settled the partition; -1: none has it. */
static int64_t settled_here(const struct goal *g, struct worker *const *workers, size_t n) {
    int64_t to = -1;
    for (size_t i = 0; i < n && to < 0; i++)
        to = worker_settled_to(workers[i], g->id);
    return to;
}

/* Where the group has committed: of the partitions of others, by Kafka. */
static bool ask_committed(struct drain *d, struct error *err) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)d->count + 1);
    for (size_t i = 0; i < d->count; i++) {
        if (d->goals[i].settled_to < 0)
            rd_kafka_topic_partition_list_add(list, d->cfg->kafka.usage_topic, d->goals[i].id);
    }
    heartbeat_beat();
    rd_kafka_resp_err_t code =
        list->cnt ? rd_kafka_committed(d->observer, list, ASK_TIMEOUT_MS) : RD_KAFKA_RESP_ERR_NO_ERROR;
    for (int k = 0; k < list->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; k++) {
        for (size_t i = 0; i < d->count; i++) {
            if (d->goals[i].id == list->elems[k].partition)
                d->goals[i].settled_to = list->elems[k].offset;
        }
    }
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "committed offsets", NULL, err);
}

/* Partitions of others, or of nobody yet, are as far as the lower of Kafka and the ledger, as for whoever
 * claims them: a replay isn't done while the ledger is ahead, nor a database put back while Kafka is. */
static bool ask_others(struct drain *d, struct error *err) {
    struct ledger_row *rows = NULL;
    size_t n = 0;
    bool *others = mem_zero(d->count, sizeof *others);
    for (size_t i = 0; i < d->count; i++)
        others[i] = d->goals[i].settled_to < 0;
    bool ok = ledger_rows_read(d->db, d->cfg, &rows, &n, err) && ask_committed(d, err);
    for (size_t i = 0; ok && i < d->count; i++) {
        int64_t next = -1;
        for (size_t k = 0; k < n; k++) {
            if (rows[k].partition == d->goals[i].id)
                next = rows[k].next_offset;
        }
        if (others[i] && next < d->goals[i].settled_to)
            d->goals[i].settled_to = next;
    }
    free(others);
    free(rows);
    return ok;
}

/* Sets each goal's settled_to and paused_since_ms; `ours`: what is still to be done here is being done, so
 * that nobody else need be asked. */
static bool look_at_goals(struct drain *d, struct worker *const *workers, size_t n, struct pauses *pauses,
                          struct error *err) {
    bool ours = false;
    for (size_t i = 0; i < d->count; i++) {
        struct goal *g = &d->goals[i];
        g->paused_since_ms = pauses_since(pauses, g->id);
        g->settled_to = g->end <= g->low ? g->end : settled_here(g, workers, n);
        ours = ours || (g->settled_to >= 0 && g->settled_to < g->end && !g->paused_since_ms);
    }
    bool others = false;
    for (size_t i = 0; i < d->count; i++)
        others = others || d->goals[i].settled_to < 0;
    return ours || !others || ask_others(d, err);
}

enum drain_state drain_check(struct drain *d, struct worker *const *workers, size_t n, struct pauses *pauses,
                             struct error *err) {
    int64_t pending = 0;
    bool paused = false;
    if (!look_at_goals(d, workers, n, pauses, err))
        return DRAIN_ON;
    for (size_t i = 0; i < d->count; i++) {
        const struct goal *g = &d->goals[i];
        if (g->settled_to >= g->end)
            continue;
        if (!g->paused_since_ms)
            return DRAIN_ON;
        paused = true;
    }
    /* what couldn't be asked isn't done */
    if (!db_ensure(d->db, err) || !outbox_pending(d->db, 1, &pending, err) || pending)
        return DRAIN_ON;
    return paused ? DRAIN_PAUSED : DRAIN_DONE;
}

void drain_say_paused(const struct drain *d, char *out, size_t size) {
    struct buf list = {0};
    for (size_t i = 0; i < d->count; i++) {
        const struct goal *g = &d->goals[i];
        if (g->settled_to >= g->end)
            continue;
        char since[PERIOD_LOCAL_SIZE];
        period_format_local(g->paused_since_ms, since);
        LOG(LOG_WARN, "drained_but_paused", LOG_I("partition", g->id), LOG_I("settled_to", g->settled_to),
            LOG_I("end", g->end), LOG_S("since", since));
        buf_printf(&list, "%s%d", list.len ? "," : "", g->id);
    }
    snprintf(out, size, "%.*s", (int)list.len, list.data ? list.data : "");
    buf_free(&list);
}
