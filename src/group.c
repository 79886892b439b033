/* SPDX-License-Identifier: MIT */
#include "group.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "kafka.h"

#define ANSWER_MS 5000
#define RETRY_MS 100

static bool failed(rd_kafka_resp_err_t code, const char *what, const char *detail, struct error *err) {
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? false : !kafka_error(code, what, detail, err);
}

static bool failed_with(const rd_kafka_error_t *error, const char *what, struct error *err) {
    return error && failed(rd_kafka_error_code(error), what, rd_kafka_error_string(error), err);
}

bool group_name_right(const struct config *cfg, const char *right, struct error *err) {
    bool group = err->code == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    if (err->area != ERROR_KAFKA || (!group && err->code != RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED))
        return false;
    struct error named = {0};
    size_t what = strcspn(err->text, ":");
    error_set(&named, err->area, err->action, err->effect, err->code,
              "%.*s: %s (it needs %s on %s %s: config/kafka.acl)", (int)what, err->text,
              rd_kafka_err2str((rd_kafka_resp_err_t)err->code), right, group ? "group" : "topic",
              group ? cfg->kafka.group_id : cfg->kafka.usage_topic);
    *err = named;
    return false;
}

/* ---- the topic ---- */

static rd_kafka_topic_partition_list_t *all_partitions(const struct config *cfg, const struct group *g) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)g->partition_count + 1);
    for (size_t i = 0; i < g->partition_count; i++)
        rd_kafka_topic_partition_list_add(list, cfg->kafka.usage_topic, g->partitions[i].id);
    return list;
}

static int by_id(const void *x, const void *y) {
    const struct group_partition *a = x, *b = y;
    return (a->id > b->id) - (a->id < b->id);
}

bool group_renew_ends(rd_kafka_t *rk, const struct config *cfg, struct group *g, struct error *err) {
    const char *topic = cfg->kafka.usage_topic;
    for (size_t i = 0; i < g->partition_count; i++) {
        struct group_partition *p = &g->partitions[i];
        if (failed(rd_kafka_query_watermark_offsets(rk, topic, p->id, &p->low, &p->high, ANSWER_MS),
                   "watermarks", topic, err))
            return group_name_right(cfg, "DESCRIBE", err);
    }
    return true;
}

static bool ask_log(rd_kafka_t *rk, const struct config *cfg, struct group *g, struct error *err) {
    const char *topic = cfg->kafka.usage_topic;
    int32_t *ids = kafka_topic_partitions(rk, topic, ANSWER_MS, &g->partition_count, err);
    if (!ids)
        return false;
    g->partitions = mem_zero(g->partition_count, sizeof *g->partitions);
    for (size_t i = 0; i < g->partition_count; i++)
        g->partitions[i] = (struct group_partition){.id = ids[i], .committed = -1, .member = -1};
    free(ids);
    if (g->partition_count)
        qsort(g->partitions, g->partition_count, sizeof *g->partitions, by_id);
    return group_renew_ends(rk, cfg, g, err);
}

bool group_offsets_at(rd_kafka_t *rk, const struct config *cfg, const struct group *g, int64_t t_ms,
                      int64_t *offsets, struct error *err) {
    rd_kafka_topic_partition_list_t *list = all_partitions(cfg, g);
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = t_ms;
    bool ok = !failed(rd_kafka_offsets_for_times(rk, list, ANSWER_MS), "offsets by time",
                      cfg->kafka.usage_topic, err);
    for (int i = 0; ok && i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *p = &list->elems[i];
        ok = !failed(p->err, "offsets by time", cfg->kafka.usage_topic, err);
        offsets[i] = p->offset >= 0 ? p->offset : g->partitions[i].high;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return ok || group_name_right(cfg, "DESCRIBE", err);
}

/* ---- the group ---- */

static bool ask_committed(rd_kafka_t *rk, const struct config *cfg, struct group *g, struct error *err) {
    rd_kafka_topic_partition_list_t *list = all_partitions(cfg, g);
    bool ok = !failed(rd_kafka_committed(rk, list, ANSWER_MS), "committed offsets", NULL, err);
    for (int i = 0; ok && i < list->cnt; i++) {
        ok = !failed(list->elems[i].err, "committed offsets", NULL, err);
        g->partitions[i].committed = list->elems[i].offset >= 0 ? list->elems[i].offset : -1;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return ok;
}

/* The answer to what was asked, or NULL with an error. */
static rd_kafka_event_t *answer(rd_kafka_queue_t *queue, const char *what, struct error *err) {
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, ANSWER_MS + 1000);
    rd_kafka_resp_err_t code = event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (!failed(code, what, event ? rd_kafka_event_error_string(event) : NULL, err))
        return event;
    rd_kafka_event_destroy(event);
    return NULL;
}

static rd_kafka_AdminOptions_t *options_new(rd_kafka_t *rk, rd_kafka_admin_op_t op) {
    char why[128];
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(rk, op);
    rd_kafka_AdminOptions_set_request_timeout(options, ANSWER_MS, why, sizeof why);
    return options;
}

static void take_member(struct group *g, const char *topic, const rd_kafka_MemberDescription_t *m) {
    const rd_kafka_MemberAssignment_t *assignment = rd_kafka_MemberDescription_assignment(m);
    const rd_kafka_topic_partition_list_t *list =
        assignment ? rd_kafka_MemberAssignment_partitions(assignment) : NULL;
    const char *client = rd_kafka_MemberDescription_client_id(m), *host = rd_kafka_MemberDescription_host(m);
    struct group_member *member = &g->members[g->member_count++];
    *member = (struct group_member){.client_id = mem_strdup(client ? client : ""),
                                    .host = mem_strdup(host ? host : "")};
    for (int i = 0; list && i < list->cnt; i++) {
        struct group_partition *p =
            strcmp(list->elems[i].topic, topic) == 0 ? group_partition(g, list->elems[i].partition) : NULL;
        if (!p)
            continue;
        p->member = (int)g->member_count - 1;
        member->partitions++;
    }
}

static bool take_group(const struct config *cfg, struct group *g,
                       const rd_kafka_ConsumerGroupDescription_t *d, struct error *err) {
    const rd_kafka_error_t *error = rd_kafka_ConsumerGroupDescription_error(d);
    rd_kafka_consumer_group_state_t state = rd_kafka_ConsumerGroupDescription_state(d);
    if (error && rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND)
        state = RD_KAFKA_CONSUMER_GROUP_STATE_DEAD;
    else if (failed_with(error, "the group", err))
        return false;
    size_t n = rd_kafka_ConsumerGroupDescription_member_count(d);
    g->state = rd_kafka_consumer_group_state_name(state);
    g->members = mem_zero(n, sizeof *g->members);
    for (size_t i = 0; i < n; i++)
        take_member(g, cfg->kafka.usage_topic, rd_kafka_ConsumerGroupDescription_member(d, i));
    g->active = n > 0 ||
                (state != RD_KAFKA_CONSUMER_GROUP_STATE_EMPTY && state != RD_KAFKA_CONSUMER_GROUP_STATE_DEAD);
    return true;
}

static bool ask_group_once(rd_kafka_t *rk, const struct config *cfg, struct group *g, struct error *err) {
    const char *ids[] = {cfg->kafka.group_id};
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_AdminOptions_t *options = options_new(rk, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS);
    rd_kafka_DescribeConsumerGroups(rk, ids, 1, options, queue);
    rd_kafka_event_t *event = answer(queue, "the group", err);
    bool ok = false;
    if (event) {
        size_t n = 0;
        const rd_kafka_ConsumerGroupDescription_t **groups = rd_kafka_DescribeConsumerGroups_result_groups(
            rd_kafka_event_DescribeConsumerGroups_result(event), &n);
        ok = n == 1 ? take_group(cfg, g, groups[0], err)
                    : !failed(RD_KAFKA_RESP_ERR__FAIL, "the group", "no answer about it", err);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_queue_destroy(queue);
    return ok;
}

/* The client asks once only, and a broker that has just started, or has never had a group, isn't ready yet.
 */
static bool ask_group(rd_kafka_t *rk, const struct config *cfg, struct group *g, struct error *err) {
    int64_t until = clock_monotonic_ms() + ANSWER_MS;
    while (!ask_group_once(rk, cfg, g, err)) {
        if (err->action != ERROR_RETRY || clock_monotonic_ms() > until)
            return false;
        error_clear(err);
        clock_sleep_ms(RETRY_MS);
    }
    return true;
}

bool group_read(rd_kafka_t *rk, const struct config *cfg, struct group *g, struct error *err) {
    *g = (struct group){0};
    /* the group first: whoever may not ask for it is told so, and waits in vain for its offsets */
    if (ask_log(rk, cfg, g, err) && ask_group(rk, cfg, g, err) && ask_committed(rk, cfg, g, err))
        return true;
    group_free(g);
    return group_name_right(cfg, "DESCRIBE", err);
}

void group_free(struct group *g) {
    for (size_t i = 0; i < g->member_count; i++) {
        free(g->members[i].client_id);
        free(g->members[i].host);
    }
    free(g->members);
    free(g->partitions);
    *g = (struct group){0};
}

struct group_partition *group_partition(struct group *g, int32_t id) {
    for (size_t i = 0; i < g->partition_count; i++) {
        if (g->partitions[i].id == id)
            return &g->partitions[i];
    }
    return NULL;
}

/* ---- moving it ---- */

static bool take_commit(const rd_kafka_event_t *event, struct error *err) {
    size_t n = 0;
    const rd_kafka_group_result_t **results = rd_kafka_AlterConsumerGroupOffsets_result_groups(
        rd_kafka_event_AlterConsumerGroupOffsets_result((rd_kafka_event_t *)event), &n);
    for (size_t i = 0; i < n; i++) {
        const rd_kafka_topic_partition_list_t *list = rd_kafka_group_result_partitions(results[i]);
        if (failed_with(rd_kafka_group_result_error(results[i]), "moving the group", err))
            return false;
        for (int k = 0; list && k < list->cnt; k++) {
            rd_kafka_resp_err_t code = list->elems[k].err;
            bool joined =
                code == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID || code == RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION;
            if (failed(code, "moving the group", joined ? "a member has joined meanwhile" : NULL, err))
                return false;
        }
    }
    return true;
}

bool group_commit(rd_kafka_t *rk, const struct config *cfg, const int32_t *ids, const int64_t *offsets,
                  size_t n, struct error *err) {
    if (n == 0)
        return true;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)n);
    for (size_t i = 0; i < n; i++)
        rd_kafka_topic_partition_list_add(list, cfg->kafka.usage_topic, ids[i])->offset = offsets[i];
    rd_kafka_AlterConsumerGroupOffsets_t *alter =
        rd_kafka_AlterConsumerGroupOffsets_new(cfg->kafka.group_id, list);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_AdminOptions_t *options = options_new(rk, RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS);
    rd_kafka_AlterConsumerGroupOffsets(rk, &alter, 1, options, queue);
    rd_kafka_event_t *event = answer(queue, "moving the group", err);
    bool ok = event && take_commit(event, err);
    rd_kafka_event_destroy(event);
    rd_kafka_AlterConsumerGroupOffsets_destroy(alter);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_queue_destroy(queue);
    return ok || group_name_right(cfg, "READ", err);
}
