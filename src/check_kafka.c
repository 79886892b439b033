/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "kafka.h"

/* Over the largest event: its key, the headers tallyd adds (under 1.5 KiB), and some of the record's own. */
#define HEADER_ROOM 8192

enum { USAGE, NOTIFICATION, DLT, TOPICS };

struct topic {
    const char *name, *label;
    bool exists;
    int partitions, replicas;
    /* "" where the broker doesn't tell */
    char timestamps[32], cleanup[64], retention_ms[32], max_bytes[32];
    char untold[160]; /* why it doesn't */
};

struct probe {
    const struct config *cfg;
    struct check_report *r;
    rd_kafka_t *rk;
    struct topic topics[TOPICS];
};

static struct check_item item(enum check_status status, const char *name, const char *hint, json_t *figures) {
    return (struct check_item){
        .area = CHECK_KAFKA, .status = status, .name = name, .hint = hint, .figures = figures};
}

/* ---- brokers ---- */

/* What the connections complained about meanwhile: "Connection refused" helps where "timed out" doesn't. */
static void complaint(rd_kafka_t *rk, char *out, size_t size) {
    rd_kafka_queue_t *queue = rd_kafka_queue_get_main(rk);
    rd_kafka_event_t *event;
    out[0] = '\0';
    while ((event = rd_kafka_queue_poll(queue, 0))) {
        bool tells = rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR &&
                     rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
        if (tells) {
            snprintf(out, size, "%s", rd_kafka_event_error_string(event));
            char *aside = strstr(out, " (after "); /* how often, and in which state of the client */
            if (aside)
                *aside = '\0';
        }
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
}

static bool brokers(struct probe *p) {
    const struct rd_kafka_metadata *meta = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(p->rk, 0, NULL, &meta, CHECK_ANSWER_MS);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        char why[256];
        complaint(p->rk, why, sizeof why);
        check_add(p->r, item(CHECK_FAIL, "brokers", "look at kafka.brokers, and whether they run", NULL),
                  "no broker answers: %s", *why ? why : rd_kafka_err2str(code));
        return false;
    }
    check_add(p->r, item(CHECK_OK, "brokers", NULL, json_pack("{s:i}", "brokers", meta->broker_cnt)),
              "%d broker%s, found by %s", meta->broker_cnt, meta->broker_cnt == 1 ? "" : "s",
              p->cfg->kafka.brokers);
    rd_kafka_metadata_destroy(meta);
    return true;
}

/* ---- topics ---- */

static json_t *topic_figures(const struct topic *t) {
    return json_pack("{s:s,s:i,s:i}", "topic", t->name, "partitions", t->partitions, "replicas", t->replicas);
}

static void topic_found(struct probe *p, struct topic *t, const struct rd_kafka_metadata_topic *m) {
    int leaderless = 0;
    t->exists = m->partition_cnt > 0;
    t->partitions = m->partition_cnt;
    t->replicas = t->exists ? m->partitions[0].replica_cnt : 0;
    for (int i = 0; i < m->partition_cnt; i++)
        leaderless += m->partitions[i].leader < 0;
    struct check_item it = item(CHECK_OK, t->label, NULL, topic_figures(t));
    if (leaderless) {
        it.status = CHECK_FAIL;
        it.hint = "look at the brokers";
        check_add(p->r, it, "%s: %d of %d partitions have no leader", t->name, leaderless, t->partitions);
    } else if (t == &p->topics[USAGE] && p->cfg->workers > t->partitions) {
        it.status = CHECK_WARN;
        it.hint = "set workers to at most the partitions, or add partitions";
        check_add(p->r, it, "%s: %d partitions for %lld workers, so that some have nothing to do", t->name,
                  t->partitions, (long long)p->cfg->workers);
    } else {
        check_add(p->r, it, "%s: %d partition%s, %d replica%s", t->name, t->partitions,
                  t->partitions == 1 ? "" : "s", t->replicas, t->replicas == 1 ? "" : "s");
    }
}

/* A consumer's handle asks without making the topic. */
static void topic(struct probe *p, struct topic *t) {
    const struct rd_kafka_metadata *meta = NULL;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(p->rk, t->name, NULL);
    rd_kafka_resp_err_t code =
        handle ? rd_kafka_metadata(p->rk, 0, handle, &meta, CHECK_ANSWER_MS) : rd_kafka_last_error();
    bool told = code == RD_KAFKA_RESP_ERR_NO_ERROR && meta;
    if (told)
        code = meta->topic_cnt == 1 ? meta->topics[0].err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (told && code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        topic_found(p, t, &meta->topics[0]);
    } else {
        bool denied = code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
        bool absent =
            code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
        check_add(p->r,
                  item(CHECK_FAIL, t->label,
                       denied   ? "allow it to this user"
                       : absent ? "make it, or look at kafka.topics"
                                : NULL,
                       json_pack("{s:s}", "topic", t->name)),
                  "%s: %s", t->name, absent ? "no such topic" : rd_kafka_err2str(code));
    }
    if (meta)
        rd_kafka_metadata_destroy(meta);
    if (handle)
        rd_kafka_topic_destroy(handle);
}

/* ---- how topics are configured ---- */

static void take_entry(struct topic *t, const char *name, const char *value) {
    const struct {
        const char *name;
        char *to;
        size_t size;
    } wanted[] = {
        {"message.timestamp.type", t->timestamps, sizeof t->timestamps},
        {"cleanup.policy", t->cleanup, sizeof t->cleanup},
        {"retention.ms", t->retention_ms, sizeof t->retention_ms},
        {"max.message.bytes", t->max_bytes, sizeof t->max_bytes},
    };
    for (size_t i = 0; value && i < sizeof wanted / sizeof *wanted; i++) {
        if (strcmp(name, wanted[i].name) == 0)
            snprintf(wanted[i].to, wanted[i].size, "%s", value);
    }
}

static void take_resources(struct probe *p, const rd_kafka_DescribeConfigs_result_t *result) {
    size_t n, entry_count;
    const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(result, &n);
    for (size_t i = 0; i < n; i++) {
        const char *name = rd_kafka_ConfigResource_name(resources[i]);
        const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resources[i], &entry_count);
        rd_kafka_resp_err_t code = rd_kafka_ConfigResource_error(resources[i]);
        for (int k = 0; k < TOPICS; k++) {
            struct topic *t = &p->topics[k];
            if (strcmp(t->name, name) != 0)
                continue;
            snprintf(t->untold, sizeof t->untold, "%s",
                     code == RD_KAFKA_RESP_ERR_NO_ERROR ? "" : rd_kafka_err2str(code));
            for (size_t e = 0; e < entry_count; e++)
                take_entry(t, rd_kafka_ConfigEntry_name(entries[e]), rd_kafka_ConfigEntry_value(entries[e]));
        }
    }
}

static void ask_configs(struct probe *p) {
    rd_kafka_ConfigResource_t *wanted[TOPICS];
    size_t n = 0;
    char why[160];
    for (int k = 0; k < TOPICS; k++) {
        snprintf(p->topics[k].untold, sizeof p->topics[k].untold, "no answer");
        if (p->topics[k].exists)
            wanted[n++] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, p->topics[k].name);
    }
    if (n == 0)
        return;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(p->rk);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(p->rk, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_AdminOptions_set_request_timeout(options, CHECK_ANSWER_MS, why, sizeof why);
    rd_kafka_DescribeConfigs(p->rk, wanted, n, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, CHECK_ANSWER_MS + 1000);
    const rd_kafka_DescribeConfigs_result_t *result =
        event ? rd_kafka_event_DescribeConfigs_result(event) : NULL;
    if (result && rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR)
        take_resources(p, result);
    for (int k = 0; event && k < TOPICS && rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR; k++)
        snprintf(p->topics[k].untold, sizeof p->topics[k].untold, "%s", rd_kafka_event_error_string(event));
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_queue_destroy(queue);
    rd_kafka_ConfigResource_destroy_array(wanted, n);
}

/* Adds that a property of a topic can't be seen; true when that's so. */
static bool unseen(struct probe *p, const struct topic *t, const char *name, const char *value) {
    if (!t->exists)
        check_add(p->r, item(CHECK_SKIPPED, name, NULL, NULL), "%s: there is no such topic", t->name);
    else if (!*value)
        check_add(p->r, item(CHECK_WARN, name, "allow DescribeConfigs on it to see", NULL),
                  "%s: the broker doesn't tell: %s", t->name,
                  *t->untold ? t->untold : "it has no such setting");
    return !t->exists || !*value;
}

static void timestamps(struct probe *p, const struct topic *t) {
    bool created = strcmp(t->timestamps, "CreateTime") == 0;
    if (unseen(p, t, "timestamps", t->timestamps))
        return;
    check_add(p->r,
              item(created ? CHECK_OK : CHECK_WARN, "timestamps",
                   created ? NULL : "set message.timestamp.type=CreateTime",
                   json_pack("{s:s,s:s}", "topic", t->name, "timestampType", t->timestamps)),
              "%s: %s%s", t->name, t->timestamps,
              created                  ? ""
              : t == &p->topics[USAGE] ? ", so that a redriven event is judged by the time of redriving"
                                       : ", so that rejected records lose their own timestamps");
}

static void retention_text(const char *ms, char out[64]) {
    int64_t v = strtoll(ms, NULL, 10);
    if (v < 0)
        snprintf(out, 64, "for ever");
    else if (v >= 2 * 86400000LL)
        snprintf(out, 64, "for %" PRId64 " days", v / 86400000);
    else if (v >= 2 * 3600000LL)
        snprintf(out, 64, "for %" PRId64 " hours", v / 3600000);
    else
        snprintf(out, 64, "for %" PRId64 " s", v / 1000);
}

static void retention(struct probe *p, const struct topic *t) {
    char kept[64];
    if (unseen(p, t, "retention", t->cleanup))
        return;
    retention_text(t->retention_ms, kept);
    json_t *figures = json_pack("{s:s,s:s,s:I}", "topic", t->name, "cleanupPolicy", t->cleanup, "retentionMs",
                                (json_int_t)strtoll(t->retention_ms, NULL, 10));
    /* All events of a family have the same key. */
    if (strstr(t->cleanup, "compact"))
        check_add(p->r, item(CHECK_FAIL, "retention", "set cleanup.policy=delete", figures),
                  "%s: cleanup.policy is %s, which deletes all but a family's last event", t->name,
                  t->cleanup);
    else
        check_add(p->r, item(CHECK_OK, "retention", NULL, figures), "%s: kept %s", t->name, kept);
}

static void dlt_size(struct probe *p, const struct topic *t) {
    int64_t takes = strtoll(t->max_bytes, NULL, 10), event = p->cfg->event.max_bytes;
    if (unseen(p, t, "record size", t->max_bytes))
        return;
    json_t *figures = json_pack("{s:s,s:I,s:I}", "topic", t->name, "maxMessageBytes", (json_int_t)takes,
                                "eventMaxBytes", (json_int_t)event);
    if (takes < event + HEADER_ROOM)
        check_add(
            p->r,
            item(CHECK_FAIL, "record size", "raise its max.message.bytes, or lower event.max_bytes", figures),
            "%s: takes %" PRId64 " bytes, and an event of %" PRId64 " with its headers needs %" PRId64,
            t->name, takes, event, event + HEADER_ROOM);
    else
        check_add(p->r, item(CHECK_OK, "record size", NULL, figures),
                  "%s: takes %" PRId64 " bytes, an event has at most %" PRId64, t->name, takes, event);
}

/* ---- the group ---- */

static void group(struct probe *p) {
    const struct topic *t = &p->topics[USAGE];
    const char *id = p->cfg->kafka.group_id;
    int committed = 0;
    if (!t->exists) {
        check_add(p->r, item(CHECK_SKIPPED, "group", NULL, NULL), "%s: there is no topic to read", id);
        return;
    }
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(t->partitions);
    for (int i = 0; i < t->partitions; i++)
        rd_kafka_topic_partition_list_add(list, t->name, i);
    rd_kafka_resp_err_t code = rd_kafka_committed(p->rk, list, CHECK_ANSWER_MS);
    for (int i = 0; i < list->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        code = list->elems[i].err;
        committed += list->elems[i].offset >= 0;
    }
    rd_kafka_topic_partition_list_destroy(list);
    json_t *figures = json_pack("{s:s,s:i}", "group", id, "committedPartitions", committed);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        check_add(p->r,
                  item(CHECK_FAIL, "group",
                       code == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED ? "allow it to this user" : NULL,
                       figures),
                  "%s: %s", id, rd_kafka_err2str(code));
    else
        check_add(p->r, item(CHECK_OK, "group", NULL, figures),
                  "%s: offsets are committed for %d of %d partitions", id, committed, t->partitions);
}

void check_kafka(const struct config *cfg, struct check_report *r) {
    struct probe p = {.cfg = cfg,
                      .r = r,
                      .topics = {{.name = cfg->kafka.usage_topic, .label = "usage topic"},
                                 {.name = cfg->kafka.notification_topic, .label = "notification topic"},
                                 {.name = cfg->kafka.dlt_topic, .label = "DLT"}}};
    struct error err = {0};
    p.rk = kafka_observer_new(cfg, &err);
    if (!p.rk) {
        check_add_error(r, CHECK_KAFKA, "client", &err, NULL);
        return;
    }
    if (brokers(&p)) {
        for (int k = 0; k < TOPICS; k++)
            topic(&p, &p.topics[k]);
        ask_configs(&p);
        timestamps(&p, &p.topics[USAGE]);
        timestamps(&p, &p.topics[DLT]);
        retention(&p, &p.topics[USAGE]);
        dlt_size(&p, &p.topics[DLT]);
        group(&p);
        check_add(r, item(CHECK_SKIPPED, "clock", NULL, NULL),
                  "a broker shows its time only in what is written to it, and nothing is written here");
    } else {
        check_add(r, item(CHECK_SKIPPED, "topics, group", NULL, NULL), "no broker answers");
    }
    rd_kafka_destroy(p.rk);
}
