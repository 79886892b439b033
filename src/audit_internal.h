/* SPDX-License-Identifier: MIT */
/* What the audit's files share: one audit under way. */
#ifndef TALLYD_AUDIT_INTERNAL_H
#define TALLYD_AUDIT_INTERNAL_H

#include <librdkafka/rdkafka.h>

#include "audit.h"
#include "audit_usage.h"
#include "mysql_db.h"
#include "period.h"

/* How far apart the clocks of the database and of those who produce may be. */
#define AUDIT_CLOCKS_MS 300000

/* A partition of the usage topic, as this group's ledger, its committed offset and the log tell of it. */
struct audit_partition {
    int32_t id;
    bool on_topic, in_ledger;
    int64_t first, next, settled, blocked, duplicate, rejected, ignored, gap;
    int64_t settled_rows, blocked_rows; /* of usage_record and usage_block, between first and next */
    int64_t committed;                  /* before the snapshot; -1: none, or not known */
    int64_t end;                        /* the log's, after the snapshot; -1: not known */
};

/* A notification on its topic. */
struct audit_notice {
    uint64_t id, value; /* digests */
    int64_t offset;
    int32_t partition;
    int64_t time_ms; /* never later than its row's */
    bool before;     /* it was there before the snapshot was taken */
    bool matched;    /* the outbox has its row */
};

/* How a topic was read, by partition. */
struct audit_log {
    const char *topic;
    size_t count;
    int32_t *ids;
    int64_t *start;    /* the first offset that is still there */
    int64_t *start_ms; /* that record's time; 0: the log is empty */
    int64_t *next;     /* read up to here */
    bool read;         /* up to an end that was taken after the snapshot */
};

struct audit_rejection {
    int32_t partition; /* where the record lay */
    int64_t offset;
    int64_t time_ms; /* its own; -1: none */
};

struct audit {
    const struct config *cfg;
    struct audit_options options;
    struct audit_report *r;
    struct config patient; /* the configuration, with time for long questions; borrows everything */
    struct db *db;         /* the snapshot's */
    char floor[PERIOD_DATE_SIZE];
    bool months_closed; /* rows of months before the floor may be gone */
    int64_t now_ms;     /* the database's clock, when the snapshot was taken */
    int64_t
        in_force_ms[CONFIG_THRESHOLDS_MAX]; /* when the first alert of each threshold was stored; 0: never */
    int64_t oldest_pending_ms;              /* the age of the outbox row that waits the longest */
    int64_t sent_pruned_ms;                 /* outbox rows sent before may be pruned; 0: none are */
    int64_t oldest_letter_ms; /* created_at of the outbox's oldest row, before anything was read; 0: none */

    rd_kafka_t *reader; /* NULL: no Kafka */
    bool kafka_known;   /* partitions, committed offsets and ends are known */
    struct audit_log notifications, dlt;
    struct audit_notice *notices; /* sorted by id, partition, offset once all is read */
    size_t notice_count, notice_capacity;
    struct audit_rejection *rejections;
    size_t rejection_count, rejection_capacity;

    struct audit_partition *partitions;
    size_t partition_count;
};

/* The partition's, made when it isn't there. */
struct audit_partition *audit_partition(struct audit *a, int32_t id);

/* audit_kafka.c. Before the snapshot: the committed offsets, and the topics so far. */
void audit_kafka_before(struct audit *a);
/* After it was taken: the ends, and the rest of the topics. */
void audit_kafka_after(struct audit *a);
void audit_kafka_close(struct audit *a);

/* audit_topics.c: what lies on the topics against the snapshot. */
struct audit_letter {
    int64_t id, family, created_ms;
    const char *event_id, *status, *payload;
    size_t payload_len;
    bool retried; /* it had failed, and an operator sent it on its way again */
};
/* Where the family's last notification lies that was looked at. */
struct audit_order {
    int32_t partition;
    int64_t offset;
    char event_id[192];
};
/* Once both topics are read. */
void audit_topic_sort(struct audit *a);
void audit_topic_letter(struct audit *a, const struct audit_letter *l, struct audit_order *order);
void audit_topic_strangers(struct audit *a);
void audit_topic_ledger(struct audit *a);
void audit_topic_dlt(struct audit *a);

/* audit_mysql.c: the ledger, and both usage tables a slice of families at a time. */
/* Before anything is read. */
bool audit_mysql_oldest(struct audit *a, struct error *err) __attribute__((warn_unused_result));
bool audit_mysql_start(struct audit *a, struct error *err) __attribute__((warn_unused_result));
bool audit_mysql_read(struct audit *a, struct error *err) __attribute__((warn_unused_result));
/* audit_families.c: the families of one slice, lo < family ≤ hi, against what was gathered of them. */
bool audit_families(struct audit *a, struct audit_uses *uses, struct audit_calls *calls, int64_t lo,
                    int64_t hi, struct error *err) __attribute__((warn_unused_result));
/* Appends the condition on families: the slice, or the one asked about. */
void audit_where(const struct audit *a, struct buf *sql, int64_t lo, int64_t hi);
/* Where a call for an alert is kept in audit_calls. */
void audit_call_name(struct buf *out, int64_t family, int64_t customer, int32_t month, const char *alert);

/* audit_redis.c */
bool audit_redis(struct audit *a, struct error *err) __attribute__((warn_unused_result));
/* Waits until everything is settled that lies on the topic now; false: it isn't, in the time given, and `why`
 * says so. */
bool audit_kafka_settled(struct audit *a, struct db *db, int64_t wait_ms, char *why, size_t size);

#endif
