/* SPDX-License-Identifier: MIT */
/*
 * broker: a small stand-in for Apache Kafka, around librdkafka's mock cluster, for machines without Java.
 *
 *   broker [-w PATH] PARTITIONS [TOPIC...]   makes the topics, prints HOST:PORT and serves
 *
 * It speaks Kafka's protocol on a loopback port of the system's choice and keeps everything in memory: at
 * most 5 MiB and 100,000 records a partition, the oldest go first. Other topics come to be when they're first
 * used, with the mock's own number of partitions. It ends on SIGTERM or SIGINT, and with its parent; with -w
 * it outlives its parent and ends when PATH is gone.
 */
#include <librdkafka/rdkafka.h>
/* needs the header above, which the blank line keeps first */

#include <librdkafka/rdkafka_mock.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { BROKERS = 1, PARTITIONS_MAX = 1000, LOOK_SECONDS = 1 };

static bool topics_create(rd_kafka_mock_cluster_t *cluster, int partitions, char **names) {
    for (; *names != NULL; names++) {
        rd_kafka_resp_err_t err = rd_kafka_mock_topic_create(cluster, *names, partitions, BROKERS);
        if (err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            fprintf(stderr, "broker: topic %s: %s\n", *names, rd_kafka_err2str(err));
            return false;
        }
    }
    return true;
}

/* Until a signal comes or what is watched is gone. */
static void serve(const sigset_t *signals, const char *watched) {
    const struct timespec look = {.tv_sec = LOOK_SECONDS};
    while (sigtimedwait(signals, NULL, &look) < 0) {
        if (watched != NULL && access(watched, F_OK) != 0)
            return;
    }
}

static int run(int partitions, char **topics, const char *watched, const sigset_t *signals) {
    char why[256];
    int code = 1;
    /* The mock cluster lives inside a client, which itself never connects to anything and would warn of it.
     */
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "3", why, sizeof(why));
    rd_kafka_t *host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
    if (host == NULL) {
        fprintf(stderr, "broker: %s\n", why);
        rd_kafka_conf_destroy(conf);
        return code;
    }
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(host, BROKERS);
    if (cluster == NULL) {
        fprintf(stderr, "broker: the mock cluster doesn't start\n");
    } else {
        if (topics_create(cluster, partitions, topics)) {
            printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
            fflush(stdout);
            serve(signals, watched);
            code = 0;
        }
        rd_kafka_mock_cluster_destroy(cluster);
    }
    rd_kafka_destroy(host);
    return code;
}

int main(int argc, char **argv) {
    const pid_t parent = getppid();
    const char *watched = NULL;
    char *end = NULL;
    int at = 1;
    if (argc > 2 && strcmp(argv[1], "-w") == 0) {
        watched = argv[2];
        at = 3;
    }
    long partitions = at < argc ? strtol(argv[at], &end, 10) : 0;
    if (at >= argc || *end != '\0' || partitions < 1 || partitions > PARTITIONS_MAX) {
        fprintf(stderr, "usage: broker [-w PATH] PARTITIONS [TOPIC...]\n");
        return 2;
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before any thread: they inherit the mask */
    signal(SIGPIPE, SIG_IGN);
    if (watched == NULL) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) /* it went before we asked to be told */
            return 0;
    }
    return run((int)partitions, argv + at + 1, watched, &signals);
}
