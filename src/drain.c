/* SPDX-License-Identifier: MIT */
#include "drain.h"

#include <stdlib.h>

#include "kafka.h"
#include "mysql_db.h"
#include "outbox.h"

#define ASK_TIMEOUT_MS 10000

struct goal {
    int32_t id;
    int64_t low, end;
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

/* Whether one of our workers has settled the partition up to its goal. */
static bool settled_here(const struct goal *g, struct worker *const *workers, size_t n, bool *ours) {
    for (size_t i = 0; i < n; i++) {
        int64_t to = worker_settled_to(workers[i], g->id);
        if (to < 0)
            continue;
        *ours = true;
        return to >= g->end;
    }
    return false;
}

static bool committed_by_others(struct drain *d, const bool *others, bool *done, struct error *err) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)d->count);
    for (size_t i = 0; i < d->count; i++) {
        if (others[i])
            rd_kafka_topic_partition_list_add(list, d->cfg->kafka.usage_topic, d->goals[i].id);
    }
    rd_kafka_resp_err_t code =
        list->cnt ? rd_kafka_committed(d->observer, list, ASK_TIMEOUT_MS) : RD_KAFKA_RESP_ERR_NO_ERROR;
    for (int k = 0; k < list->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; k++) {
        for (size_t i = 0; i < d->count; i++) {
            if (d->goals[i].id == list->elems[k].partition && list->elems[k].offset < d->goals[i].end)
                *done = false;
        }
    }
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_error(code, "committed offsets", NULL, err);
}

bool drain_check(struct drain *d, struct worker *const *workers, size_t n, bool *done, struct error *err) {
    bool *others = mem_zero(d->count, sizeof *others), some_others = false;
    *done = true;
    for (size_t i = 0; i < d->count; i++) {
        const struct goal *g = &d->goals[i];
        bool ours = false;
        if (g->end <= g->low || settled_here(g, workers, n, &ours))
            continue;
        if (ours)
            *done = false;
        else
            some_others = others[i] = true;
    }
    bool ok = true;
    if (*done && some_others)
        ok = committed_by_others(d, others, done, err);
    free(others);
    int64_t pending = 0;
    if (ok && *done)
        ok = db_ensure(d->db, err) && outbox_pending(d->db, 1, &pending, err);
    /* what couldn't be asked isn't done */
    *done = *done && ok && pending == 0;
    return ok;
}
