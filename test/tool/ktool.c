/* SPDX-License-Identifier: MIT */
/*
 * ktool: what the test scripts need from a broker's admin interface, without the second that a JVM takes to
 * start.
 *
 *   ktool [-b BROKERS] wait-ready [SECONDS [CLUSTER_ID]]   until a broker answers (and it's that cluster)
 *   ktool [-b BROKERS] topic-create NAME PARTITIONS [CONFIG=VALUE]...   until every partition has a leader
 *   ktool [-b BROKERS] topic-delete NAME                   until it's gone; no error when it never was
 *   ktool [-b BROKERS] topic-config NAME CONFIG=VALUE...   these and no others; the rest go to their defaults
 *   ktool [-b BROKERS] topic-grow NAME PARTITIONS          to so many
 *   ktool [-b BROKERS] records-delete NAME PARTITION BELOW deletes the records below an offset (-1: all)
 *   ktool [-b BROKERS] committed GROUP TOPIC               what the group has committed: PARTITION OFFSET a
 * line ktool [-b BROKERS] allow|forbid USER OPERATION topic|group NAME   an ACL more or less; OPERATION as
 * read, write, describe
 *
 * BROKERS defaults to $KAFKA_BROKERS. Exit code: 0 done, 1 not done (reason on stderr), 2 wrong usage.
 */
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEADLINE_MS = 20000, CALL_MS = 5000, METADATA_MS = 500, PAUSE_MS = 20 };

static long long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_briefly(void) {
    struct timespec t = {.tv_sec = 0, .tv_nsec = PAUSE_MS * 1000000L};
    nanosleep(&t, NULL);
}

static rd_kafka_t *client_new(const char *brokers) {
    const char *const settings[][2] = {
        {"bootstrap.servers", brokers},
        {"client.id", "ktool"},
        {"log_level", "1"}, /* a server that is still starting refuses connections: no news */
        {"reconnect.backoff.ms", "20"},
        {"reconnect.backoff.max.ms", "50"},
    };
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (rd_kafka_conf_set(conf, settings[i][0], settings[i][1], why, sizeof(why)) != RD_KAFKA_CONF_OK) {
            fprintf(stderr, "ktool: %s\n", why);
            rd_kafka_conf_destroy(conf);
            return NULL;
        }
    }
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
    if (rk == NULL) {
        fprintf(stderr, "ktool: %s\n", why);
        rd_kafka_conf_destroy(conf);
    }
    return rk;
}

/* Partitions of the topic that have a leader; -1 when there's no such topic, -2 when no broker said. */
static int topic_leaders(rd_kafka_t *rk, const char *name) {
    const struct rd_kafka_metadata *md = NULL;
    int leaders = -1;
    if (rd_kafka_metadata(rk, 1, NULL, &md, METADATA_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return -2;
    for (int t = 0; t < md->topic_cnt; t++) {
        if (strcmp(md->topics[t].topic, name) != 0 ||
            md->topics[t].err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
            continue;
        leaders = 0;
        for (int p = 0; p < md->topics[t].partition_cnt; p++)
            leaders += md->topics[t].partitions[p].leader >= 0;
    }
    rd_kafka_metadata_destroy(md);
    return leaders;
}

static bool await_leaders(rd_kafka_t *rk, const char *name, int wanted, long long deadline) {
    while (topic_leaders(rk, name) != wanted) {
        if (now_ms() > deadline) {
            fprintf(stderr, "ktool: %s: still not as wanted after %d ms\n", name, DEADLINE_MS);
            return false;
        }
        pause_briefly();
    }
    return true;
}

static bool broker_answers(rd_kafka_t *rk, const char *cluster_id) {
    const struct rd_kafka_metadata *md = NULL;
    if (rd_kafka_metadata(rk, 1, NULL, &md, METADATA_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    bool found = md->broker_cnt > 0;
    rd_kafka_metadata_destroy(md);
    if (!found || cluster_id == NULL)
        return found;
    char *id = rd_kafka_clusterid(rk, METADATA_MS);
    bool same = id != NULL && strcmp(id, cluster_id) == 0;
    if (id != NULL)
        rd_kafka_mem_free(rk, id);
    return same;
}

static int wait_ready(rd_kafka_t *rk, int argc, char **argv) {
    double seconds = argc > 0 ? atof(argv[0]) : DEADLINE_MS / 1000.0;
    const char *cluster_id = argc > 1 ? argv[1] : NULL;
    long long deadline = now_ms() + (long long)(seconds * 1000);
    while (!broker_answers(rk, cluster_id)) {
        if (now_ms() >= deadline)
            return 1;
        pause_briefly();
    }
    return 0;
}

/* The one topic result of a create or delete event; text is valid until the event is destroyed. */
static rd_kafka_resp_err_t event_result(rd_kafka_event_t *ev, const char **text) {
    size_t count = 0;
    const rd_kafka_topic_result_t **results = NULL;
    *text = rd_kafka_event_error_string(ev);
    if (rd_kafka_event_error(ev) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rd_kafka_event_error(ev);
    if (rd_kafka_event_type(ev) == RD_KAFKA_EVENT_CREATETOPICS_RESULT)
        results = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(ev), &count);
    else if (rd_kafka_event_type(ev) == RD_KAFKA_EVENT_DELETETOPICS_RESULT)
        results = rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(ev), &count);
    if (count != 1)
        return RD_KAFKA_RESP_ERR__FAIL;
    if (rd_kafka_topic_result_error_string(results[0]) != NULL)
        *text = rd_kafka_topic_result_error_string(results[0]);
    return rd_kafka_topic_result_error(results[0]);
}

/* What a broker says that has only just come up. */
static bool worth_retrying(rd_kafka_resp_err_t err) {
    switch (err) {
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_NOT_CONTROLLER:
    case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR:
        return true;
    default:
        return false;
    }
}

/* One request; done says which outcome of an earlier, unanswered try counts as success. */
static bool admin_request(rd_kafka_t *rk, rd_kafka_NewTopic_t *create, rd_kafka_DeleteTopic_t *delete,
                          rd_kafka_resp_err_t done, long long deadline) {
    char why[256] = "";
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(rk, create ? RD_KAFKA_ADMIN_OP_CREATETOPICS
                                                                            : RD_KAFKA_ADMIN_OP_DELETETOPICS);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_resp_err_t err;
    rd_kafka_AdminOptions_set_request_timeout(options, CALL_MS, why, sizeof(why));
    for (int attempt = 0;; attempt++) {
        const char *text;
        if (create != NULL)
            rd_kafka_CreateTopics(rk, &create, 1, options, queue);
        else
            rd_kafka_DeleteTopics(rk, &delete, 1, options, queue);
        rd_kafka_event_t *ev = rd_kafka_queue_poll(queue, -1);
        err = event_result(ev, &text);
        snprintf(why, sizeof(why), "%s: %s", rd_kafka_err2name(err), text ? text : "");
        rd_kafka_event_destroy(ev);
        if (err == done && (attempt > 0 || delete != NULL))
            err = RD_KAFKA_RESP_ERR_NO_ERROR;
        if (!worth_retrying(err) || now_ms() > deadline)
            break;
        pause_briefly();
    }
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
        fprintf(stderr, "ktool: %s\n", why);
    return err == RD_KAFKA_RESP_ERR_NO_ERROR;
}

static int topic_create(rd_kafka_t *rk, int argc, char **argv) {
    char why[256];
    long long deadline = now_ms() + DEADLINE_MS;
    int partitions = atoi(argv[1]);
    bool ok = true;
    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(argv[0], partitions, 1, why, sizeof(why));
    if (topic == NULL) {
        fprintf(stderr, "ktool: %s\n", why);
        return 1;
    }
    for (int i = 2; ok && i < argc; i++) {
        char *value = strchr(argv[i], '=');
        ok = value != NULL;
        if (!ok) {
            fprintf(stderr, "ktool: %s: not CONFIG=VALUE\n", argv[i]);
            break;
        }
        *value = '\0';
        ok = rd_kafka_NewTopic_set_config(topic, argv[i], value + 1) == RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    ok = ok && admin_request(rk, topic, NULL, RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS, deadline);
    ok = ok && await_leaders(rk, argv[0], partitions, deadline);
    rd_kafka_NewTopic_destroy(topic);
    return ok ? 0 : 1;
}

static int topic_delete(rd_kafka_t *rk, char **argv) {
    long long deadline = now_ms() + DEADLINE_MS;
    rd_kafka_DeleteTopic_t *topic = rd_kafka_DeleteTopic_new(argv[0]);
    bool ok = admin_request(rk, NULL, topic, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, deadline) &&
              await_leaders(rk, argv[0], -1, deadline);
    rd_kafka_DeleteTopic_destroy(topic);
    return ok ? 0 : 1;
}

/* ---- what is asked once: the caller looks at the answer ---- */

static int complain(rd_kafka_resp_err_t err, const char *text) {
    if (err == RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    fprintf(stderr, "ktool: %s: %s\n", rd_kafka_err2name(err), text ? text : "");
    return 1;
}

static int complain_of(const rd_kafka_error_t *error) {
    return error ? complain(rd_kafka_error_code(error), rd_kafka_error_string(error)) : 0;
}

/* The answer to a request whose queue this is; NULL after complaining. */
static rd_kafka_event_t *answer(rd_kafka_queue_t *queue) {
    rd_kafka_event_t *ev = rd_kafka_queue_poll(queue, DEADLINE_MS);
    rd_kafka_queue_destroy(queue);
    if (ev == NULL)
        complain(RD_KAFKA_RESP_ERR__TIMED_OUT, "no answer");
    else if (rd_kafka_event_error(ev) == RD_KAFKA_RESP_ERR_NO_ERROR)
        return ev;
    else
        complain(rd_kafka_event_error(ev), rd_kafka_event_error_string(ev));
    if (ev)
        rd_kafka_event_destroy(ev);
    return NULL;
}

static int topic_config(rd_kafka_t *rk, int argc, char **argv) {
    rd_kafka_ConfigResource_t *resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, argv[0]);
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value == NULL) {
            fprintf(stderr, "ktool: %s: not CONFIG=VALUE\n", argv[i]);
            rd_kafka_ConfigResource_destroy(resource);
            return 1;
        }
        *value = '\0';
        rd_kafka_ConfigResource_set_config(resource, argv[i], value + 1);
    }
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_AlterConfigs(rk, &resource, 1, NULL, queue);
    rd_kafka_ConfigResource_destroy(resource);
    rd_kafka_event_t *ev = answer(queue);
    if (ev == NULL)
        return 1;
    size_t n;
    const rd_kafka_ConfigResource_t **done =
        rd_kafka_AlterConfigs_result_resources(rd_kafka_event_AlterConfigs_result(ev), &n);
    int code =
        complain(rd_kafka_ConfigResource_error(done[0]), rd_kafka_ConfigResource_error_string(done[0]));
    rd_kafka_event_destroy(ev);
    return code;
}

static int topic_grow(rd_kafka_t *rk, char **argv) {
    char why[256] = "";
    rd_kafka_NewPartitions_t *grown =
        rd_kafka_NewPartitions_new(argv[0], (size_t)atoi(argv[1]), why, sizeof(why));
    if (grown == NULL)
        return complain(RD_KAFKA_RESP_ERR__INVALID_ARG, why);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_CreatePartitions(rk, &grown, 1, NULL, queue);
    rd_kafka_NewPartitions_destroy(grown);
    rd_kafka_event_t *ev = answer(queue);
    if (ev == NULL)
        return 1;
    size_t n;
    const rd_kafka_topic_result_t **done =
        rd_kafka_CreatePartitions_result_topics(rd_kafka_event_CreatePartitions_result(ev), &n);
    int code = complain(rd_kafka_topic_result_error(done[0]), rd_kafka_topic_result_error_string(done[0]));
    rd_kafka_event_destroy(ev);
    return code || !await_leaders(rk, argv[0], atoi(argv[1]), now_ms() + DEADLINE_MS);
}

static int records_delete(rd_kafka_t *rk, char **argv) {
    rd_kafka_topic_partition_list_t *below = rd_kafka_topic_partition_list_new(1);
    long long offset = atoll(argv[2]);
    rd_kafka_topic_partition_list_add(below, argv[0], atoi(argv[1]))->offset =
        offset < 0 ? RD_KAFKA_OFFSET_END : offset;
    rd_kafka_DeleteRecords_t *records = rd_kafka_DeleteRecords_new(below);
    rd_kafka_topic_partition_list_destroy(below);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_DeleteRecords(rk, &records, 1, NULL, queue);
    rd_kafka_DeleteRecords_destroy(records);
    rd_kafka_event_t *ev = answer(queue);
    if (ev == NULL)
        return 1;
    const rd_kafka_topic_partition_list_t *done =
        rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(ev));
    int code = complain(done->elems[0].err, "records-delete");
    rd_kafka_event_destroy(ev);
    return code;
}

static rd_kafka_t *group_client_new(const char *brokers, const char *group) {
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof(why)) == RD_KAFKA_CONF_OK &&
        rd_kafka_conf_set(conf, "group.id", group, why, sizeof(why)) == RD_KAFKA_CONF_OK &&
        rd_kafka_conf_set(conf, "log_level", "1", why, sizeof(why)) == RD_KAFKA_CONF_OK) {
        rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
        if (rk != NULL)
            return rk;
    }
    fprintf(stderr, "ktool: %s\n", why);
    rd_kafka_conf_destroy(conf);
    return NULL;
}

static int committed(const char *brokers, char **argv) {
    rd_kafka_t *rk = group_client_new(brokers, argv[0]);
    if (rk == NULL)
        return 1;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    int partitions = topic_leaders(rk, argv[1]);
    if (partitions > 0)
        rd_kafka_topic_partition_list_add_range(list, argv[1], 0, partitions - 1);
    rd_kafka_resp_err_t err =
        partitions > 0 ? rd_kafka_committed(rk, list, CALL_MS) : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    int code = complain(err, "committed");
    for (int i = 0; code == 0 && i < list->cnt; i++) {
        code = complain(list->elems[i].err, "committed");
        if (list->elems[i].offset >= 0)
            printf("%d %lld\n", (int)list->elems[i].partition, (long long)list->elems[i].offset);
    }
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(rk);
    return code;
}

static rd_kafka_AclOperation_t operation(const char *name) {
    static const struct {
        const char *name;
        rd_kafka_AclOperation_t operation;
    } known[] = {{"read", RD_KAFKA_ACL_OPERATION_READ},
                 {"write", RD_KAFKA_ACL_OPERATION_WRITE},
                 {"describe", RD_KAFKA_ACL_OPERATION_DESCRIBE}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(name, known[i].name) == 0)
            return known[i].operation;
    }
    return RD_KAFKA_ACL_OPERATION_UNKNOWN;
}

static int allow(rd_kafka_t *rk, rd_kafka_AclBinding_t *acl) {
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_CreateAcls(rk, &acl, 1, NULL, queue);
    rd_kafka_AclBinding_destroy(acl);
    rd_kafka_event_t *ev = answer(queue);
    if (ev == NULL)
        return 1;
    size_t n;
    const rd_kafka_acl_result_t **done =
        rd_kafka_CreateAcls_result_acls(rd_kafka_event_CreateAcls_result(ev), &n);
    int code = complain_of(rd_kafka_acl_result_error(done[0]));
    rd_kafka_event_destroy(ev);
    return code;
}

static int forbid(rd_kafka_t *rk, rd_kafka_AclBindingFilter_t *acl) {
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_DeleteAcls(rk, &acl, 1, NULL, queue);
    rd_kafka_AclBinding_destroy(acl);
    rd_kafka_event_t *ev = answer(queue);
    if (ev == NULL)
        return 1;
    size_t n, matching;
    const rd_kafka_DeleteAcls_result_response_t **done =
        rd_kafka_DeleteAcls_result_responses(rd_kafka_event_DeleteAcls_result(ev), &n);
    int code = complain_of(rd_kafka_DeleteAcls_result_response_error(done[0]));
    rd_kafka_DeleteAcls_result_response_matching_acls(done[0], &matching);
    if (code == 0 && matching == 0)
        code = complain(RD_KAFKA_RESP_ERR__NOENT, "there was no such ACL");
    rd_kafka_event_destroy(ev);
    return code;
}

static int change_acl(rd_kafka_t *rk, bool grant, char **argv) {
    char why[256] = "", principal[256];
    rd_kafka_ResourceType_t type = strcmp(argv[2], "topic") == 0   ? RD_KAFKA_RESOURCE_TOPIC
                                   : strcmp(argv[2], "group") == 0 ? RD_KAFKA_RESOURCE_GROUP
                                                                   : RD_KAFKA_RESOURCE_UNKNOWN;
    snprintf(principal, sizeof(principal), "User:%s", argv[0]);
    if (grant) {
        rd_kafka_AclBinding_t *acl =
            rd_kafka_AclBinding_new(type, argv[3], RD_KAFKA_RESOURCE_PATTERN_LITERAL, principal, "*",
                                    operation(argv[1]), RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, why, sizeof(why));
        return acl ? allow(rk, acl) : complain(RD_KAFKA_RESP_ERR__INVALID_ARG, why);
    }
    rd_kafka_AclBindingFilter_t *acl = rd_kafka_AclBindingFilter_new(
        type, argv[3], RD_KAFKA_RESOURCE_PATTERN_LITERAL, principal, "*", operation(argv[1]),
        RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, why, sizeof(why));
    return acl ? forbid(rk, acl) : complain(RD_KAFKA_RESP_ERR__INVALID_ARG, why);
}

static int usage(void) {
    fprintf(stderr,
            "usage: ktool [-b BROKERS] VERB ARGUMENT...; the verbs stand at the top of test/tool/ktool.c\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *brokers = getenv("KAFKA_BROKERS");
    int at = 1;
    int code;
    if (argc > 2 && strcmp(argv[1], "-b") == 0) {
        brokers = argv[2];
        at = 3;
    }
    if (brokers == NULL || at >= argc)
        return usage();
    const char *verb = argv[at++];
    rd_kafka_t *rk = client_new(brokers);
    if (rk == NULL)
        return 1;
    if (strcmp(verb, "wait-ready") == 0 && argc - at <= 2)
        code = wait_ready(rk, argc - at, argv + at);
    else if (strcmp(verb, "topic-create") == 0 && argc - at >= 2)
        code = topic_create(rk, argc - at, argv + at);
    else if (strcmp(verb, "topic-delete") == 0 && argc - at == 1)
        code = topic_delete(rk, argv + at);
    else if (strcmp(verb, "topic-config") == 0 && argc - at >= 2)
        code = topic_config(rk, argc - at, argv + at);
    else if (strcmp(verb, "topic-grow") == 0 && argc - at == 2)
        code = topic_grow(rk, argv + at);
    else if (strcmp(verb, "records-delete") == 0 && argc - at == 3)
        code = records_delete(rk, argv + at);
    else if (strcmp(verb, "committed") == 0 && argc - at == 2)
        code = committed(brokers, argv + at);
    else if ((strcmp(verb, "allow") == 0 || strcmp(verb, "forbid") == 0) && argc - at == 4)
        code = change_acl(rk, strcmp(verb, "allow") == 0, argv + at);
    else
        code = usage();
    rd_kafka_destroy(rk);
    return code;
}
