/* SPDX-License-Identifier: MIT */
/* What is known of one event id: by MySQL's rows, on Kafka's topics as far as they are searched, in Redis.
 * Reads only, and no more than it's told to. Kafka's and Redis' errors leave open what they'd have said. */
#ifndef TALLYD_EXPLAIN_H
#define TALLYD_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "buf.h"
#include "config.h"
#include "error.h"
#include "event.h"
#include "family_month.h"

/* Records looked through by default, of each topic. */
#define EXPLAIN_RECORDS 100000
/* Of each kind so many are kept; more are counted. */
#define EXPLAIN_KEPT 50

struct explain_options {
    int64_t records;  /* newest ones of each topic; -1: all that it keeps */
    int64_t since_ms; /* instead: those from this time on; -1: not given */
    bool patient;     /* asked for in words: takes the time it takes */
};

/* What the answer comes down to. */
enum explain_verdict {
    EXPLAIN_SETTLED,
    EXPLAIN_SETTLED_WITH_WARNING, /* told, or Redis still holds a result that says so */
    EXPLAIN_BLOCKED,
    EXPLAIN_PRUNED,      /* its month is closed, and the rows of its events are gone or may be */
    EXPLAIN_REJECTED,    /* and never settled */
    EXPLAIN_WAITING,     /* on the topic, and the ledger hasn't reached it */
    EXPLAIN_IGNORED,     /* not a usage event */
    EXPLAIN_UNACCOUNTED, /* on the topic, passed, and nothing says what became of it */
    EXPLAIN_NEVER_SEEN,  /* nowhere in what was to be searched, and all of that was */
    EXPLAIN_UNDETERMINED /* MySQL doesn't know it, and Kafka couldn't be asked, or not to the end */
};
/* "settled", "settled_with_warning" … for machines. */
const char *explain_verdict_name(enum explain_verdict v);

/* The row of usage_record or usage_block. */
struct explain_row {
    bool blocked;
    int64_t family, customer, bytes, event_ms, settled_ms, offset;
    int32_t month, partition;
    char *app;    /* owned; NULL: none */
    char *reason; /* owned; of a blocked one, with the figures it was decided on */
    int64_t remaining, monthly_used, monthly_limit; /* limit -1: none */
};

/* What a value says of an event id. */
enum explain_match {
    EXPLAIN_OTHER, /* it's another event's, or none */
    EXPLAIN_SAME,
    EXPLAIN_TEXT,   /* it can't be read as JSON, and names the id as its eventId */
    EXPLAIN_QUOTED, /* … and holds the id in quotes somewhere: a hint, which decides nothing */
};
/* "event", "text" (of what can't be read), "quoted" … */
const char *explain_match_name(enum explain_match m);
/* Pure. */
enum explain_match explain_match(const char *id, const void *value, size_t len);
/* Pure: 1–191 printable ASCII characters without spaces. */
bool explain_id_ok(const char *id);

/* What became of a record of the usage topic. */
enum explain_fate {
    EXPLAIN_DECIDED, /* the row is this record's */
    EXPLAIN_DUPLICATE,
    EXPLAIN_REFUSED, /* its rejection was found */
    EXPLAIN_NO_USAGE,
    EXPLAIN_NOT_REACHED,  /* by the ledger */
    EXPLAIN_BEFORE_GROUP, /* below where the ledger began: not this group's */
    EXPLAIN_BEFORE_ROW,   /* passed before the one that was decided, so it was no duplicate then */
    EXPLAIN_UNKNOWN_FATE,
};
/* "decided", "duplicate" … */
const char *explain_fate_name(enum explain_fate f);

/* A record of the usage topic with that id. */
struct explain_delivery {
    int32_t partition;
    int64_t offset, record_ms; /* record_ms -1: none */
    char *key;                 /* owned; NULL: none */
    enum explain_match match;
    enum event_kind kind;  /* as it would be read today */
    enum reject_code code; /* of a rejected one, for its form alone */
    bool has_figures;      /* the next are read from it */
    int64_t family, customer, bytes;
    int32_t month;
    enum explain_fate fate;
    const char *refused_as; /* EXPLAIN_REFUSED: the code; borrowed from the rejection */
    int64_t before;         /* EXPLAIN_NOT_REACHED: records to be read before it; -1: not known */
    int64_t ledger_next;    /* how far its partition is settled; -1: the ledger has no row of it */
};

/* A record of the DLT with that id. */
struct explain_rejection {
    int32_t partition;
    int64_t offset, record_ms;
    char *code, *message; /* owned, as the headers have them; "" without */
    char *topic;          /* owned: x-original-topic */
    bool has_place;       /* the next are known */
    int32_t from_partition;
    int64_t from_offset, from_ms; /* from_ms: the original record's time, or this one's; -1: none */
    bool cut;                     /* x-truncated */
    enum explain_match match;
    bool has_figures;
    int64_t family, customer, bytes;
    int32_t month;
};

/* The notification on its topic. */
struct explain_notice {
    int32_t partition;
    int64_t offset, record_ms;
    bool same; /* the bytes that the outbox's row makes */
};

/* How far a topic was searched. */
struct explain_searched {
    const char *topic;
    bool done;         /* asked for, and it answered */
    int64_t records;   /* looked at */
    bool whole;        /* all that the topic keeps */
    bool to_end;       /* up to where it ended; false: its time was up, or the number of records reached */
    int64_t since_ms;  /* else from here on every record; -1: not known */
    int32_t partition; /* the only one searched; -1: all */
};

/* The ledger's row of a partition. */
struct explain_ledger {
    int32_t partition;
    int64_t first, next;
};

/* The place that the row names. */
enum explain_place {
    EXPLAIN_PLACE_UNASKED,
    EXPLAIN_PLACE_KEPT,  /* the record is there, and is this event */
    EXPLAIN_PLACE_GONE,  /* the log begins later */
    EXPLAIN_PLACE_OTHER, /* another record lies there, or none: the topic was made anew */
};
const char *explain_place_name(enum explain_place p);

struct explanation {
    char id[EVENT_ID_MAX + 1];
    enum explain_verdict verdict;
    struct error kafka, redis; /* area ERROR_NONE: it answered */

    /* MySQL */
    bool has_row;
    struct explain_row row;
    struct family_letter *letter; /* of the outbox; NULL: none */
    size_t letter_count;
    struct explain_ledger *ledger;
    size_t ledger_count;
    int32_t closed_before; /* usage_floor; 0: not known */
    bool has_month;        /* the family as it is now is known */
    struct family_month month;

    /* Kafka */
    enum explain_place place;
    int64_t log_low, log_high;           /* of the row's partition; once `place` is known */
    struct explain_delivery *deliveries; /* by time, then place */
    size_t delivery_count;
    struct explain_rejection *rejections;
    size_t rejection_count;
    struct explain_notice *notices;
    size_t notice_count;
    int64_t left_out; /* of these three, beyond EXPLAIN_KEPT */
    struct explain_searched usage, dlt, notifications;

    /* Redis */
    bool cache_asked, has_dedup; /* has_dedup: it has an entry for the id */
    bool dedup_read;             /* … that can be read: the result of a decision */
    bool dedup_current;          /* … of the warming that counts now */
    bool dedup_foreign;          /* … of another event under its id than the row's */
    int64_t dedup_family, dedup_customer, dedup_bytes;
    struct decision dedup;
};

/* Asks everything. False with an error when MySQL doesn't answer. Give it to explain_free in any case. */
bool explain_run(const struct config *cfg, const char *id, const struct explain_options *options,
                 struct explanation *x, struct error *err) __attribute__((warn_unused_result));
void explain_free(struct explanation *x);

/* Pure: what became of each delivery, and the verdict, from what was found. */
void explain_judge(struct explanation *x);
/* Pure: the answer in one sentence. */
void explain_sentence(struct buf *out, const struct explanation *x);
/* Pure: deliveries that end so, but for those that only quote the id. */
size_t explain_count(const struct explanation *x, enum explain_fate fate);
/* Pure: whether the usage topic and the DLT were searched as far as was to be. */
bool explain_searched_all(const struct explanation *x);
/* Pure: rejections, but for those that only quote the id. */
size_t explain_rejections(const struct explanation *x);
/* … and with this code. */
size_t explain_rejected_as(const struct explanation *x, enum reject_code code);
/* Pure: the customer whose event it is, 0 when nothing says; the family in *family. */
int64_t explain_customer(const struct explanation *x, int64_t *family, int32_t *month);

/* What the decision was made on, as far as anything holds it still. */
struct explain_figures {
    const char *from; /* NULL: nothing does */
    bool has_total;
    int64_t total, left, used, limit; /* limit -1: none */
    bool after;                       /* they count the event */
};
/* Pure. */
struct explain_figures explain_figures(const struct explanation *x);

/* explain_kafka.c, explain_mysql.c and explain_redis.c; used by explain_run. */
void explain_kafka(const struct config *cfg, const struct explain_options *options, struct explanation *x);
bool explain_mysql(const struct config *cfg, struct db *db, struct explanation *x, struct error *err)
    __attribute__((warn_unused_result));
bool explain_mysql_month(struct db *db, struct explanation *x, struct error *err)
    __attribute__((warn_unused_result));
void explain_redis(const struct config *cfg, struct explanation *x);

#endif
