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
/* For so long, where that's not said otherwise. */
#define EXPLAIN_WITHIN_MS 10000
/* Of each kind so many are kept; more are counted. */
#define EXPLAIN_KEPT 50

struct explain_options {
    int64_t records;   /* newest ones of each topic; -1: all that it keeps */
    int64_t since_ms;  /* instead: those from this time on; -1: not given */
    int64_t within_ms; /* each topic for so long; 0: as long as it takes */
};

/* What the answer comes down to. */
enum explain_verdict {
    EXPLAIN_SETTLED,
    EXPLAIN_SETTLED_WITH_WARNING, /* told, or Redis still holds a result that says so */
    EXPLAIN_BLOCKED,
    EXPLAIN_PRUNED,      /* its row is gone, or may be: of a closed month rows are pruned */
    EXPLAIN_REJECTED,    /* and never settled */
    EXPLAIN_WAITING,     /* on the topic, and the ledger hasn't reached it */
    EXPLAIN_IGNORED,     /* not a usage event */
    EXPLAIN_UNACCOUNTED, /* on the topic, passed, and nothing says what became of it */
    EXPLAIN_NEVER_SEEN,  /* nowhere, and all that the topics keep was read */
    EXPLAIN_UNDETERMINED /* MySQL doesn't know it, and Kafka couldn't be asked, or not all of it was read */
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
    EXPLAIN_NAMED, /* it can't be read as JSON, and says that this is its eventId */
    EXPLAIN_TEXT,  /* … and holds the id in quotes somewhere: a mention, no more */
};
/* Pure. */
enum explain_match explain_match(const char *id, const void *value, size_t len);
/* Pure: 1–191 printable ASCII characters without spaces. */
bool explain_id_ok(const char *id);

/* What became of a record of the usage topic. */
enum explain_fate {
    EXPLAIN_DECIDED,   /* the row is this record's */
    EXPLAIN_DUPLICATE, /* it follows that it is: it came after the settled one, or no rejection can be missing
                        */
    EXPLAIN_REFUSED,   /* its rejection was found, or follows from its form and order */
    EXPLAIN_NO_USAGE,
    EXPLAIN_NOT_REACHED,  /* by the ledger */
    EXPLAIN_BEFORE_GROUP, /* below where the ledger began: not this group's */
    EXPLAIN_REPEATED,     /* a duplicate, or rejected by a record that wasn't found */
    EXPLAIN_UNFOUND,      /* no duplicate: rejected by a record that wasn't found, or skipped by order */
    EXPLAIN_UNKNOWN_FATE,
};
/* "decided", "duplicate" … */
const char *explain_fate_name(enum explain_fate f);

/* A record of the usage topic with that id. */
struct explain_delivery {
    int32_t partition;
    int64_t offset, record_ms; /* record_ms -1: none */
    char *key;                 /* owned; NULL: none */
    enum event_kind kind;      /* as it would be read today */
    enum reject_code code;     /* of a rejected one, for its form alone */
    bool has_figures;          /* the next are read from it */
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
    int64_t from_offset, from_ms; /* from_ms: of the original record, or this one; -1: none */
    bool cut;                     /* x-truncated */
    bool has_figures;
    int64_t family, customer, bytes;
    int32_t month;
};

/* A record that is no JSON, as it is or cut, and quotes the id. It may be anybody's. */
struct explain_mention {
    struct explain_rejection at; /* on the usage topic: only where and when */
    bool in_dlt;
    bool of_delivery; /* by the place that it names it's the rejection of one of the deliveries */
};

/* The notification on its topic. */
struct explain_notice {
    int32_t partition;
    int64_t offset, record_ms;
    bool same; /* the bytes that the outbox's row makes */
};

/* How far a partition was searched: of low ≤ offset < high, which its log holds, all from `from` on was to be
 * read, and all below `next` was. */
struct explain_span {
    int32_t partition;
    int64_t low, high, from, next;
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
    struct explain_span *spans; /* owned; of those searched */
    size_t span_count;
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
    int32_t closed_before; /* usage_floor; 0: no month is closed */
    bool has_month;        /* the family as it is now is known */
    struct family_month month;

    /* Kafka */
    enum explain_place place;
    int64_t log_low, log_high;           /* of the row's partition; once `place` is known */
    struct explain_delivery *deliveries; /* by time, then place */
    size_t delivery_count;
    struct explain_rejection *rejections;
    size_t rejection_count;
    struct explain_mention *mentions;
    size_t mention_count;
    struct explain_notice *notices;
    size_t notice_count;
    int64_t left_out; /* of each of these, beyond EXPLAIN_KEPT */
    struct explain_searched usage, dlt, notifications;

    /* Redis */
    bool cache_asked, has_dedup;                       /* has_dedup: it has an entry for the id */
    bool dedup_read;                                   /* … that can be read: the result of a decision */
    bool dedup_current;                                /* … of the warming that counts now */
    int64_t dedup_family, dedup_customer, dedup_bytes; /* … whose event it decided */
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
/* Pure: whether it's the record that the row is of. What is no JSON isn't, though it lies at its place. */
bool explain_is_rows(const struct explanation *x, const struct explain_delivery *d);
/* Pure: deliveries that end so. */
size_t explain_count(const struct explanation *x, enum explain_fate fate);
/* Pure: records that the search's time didn't suffice for. */
int64_t explain_unread(const struct explain_searched *s);
/* Pure: malformed records that quote the id, each once, without those that are a delivery's rejection. */
size_t explain_mentioned(const struct explanation *x);

/* Whose event Redis' entry is of: an event that conflicts leaves one under the same id. */
enum explain_entry {
    EXPLAIN_ENTRY_NONE,
    EXPLAIN_ENTRY_UNREADABLE,
    EXPLAIN_ENTRY_OWN,   /* it has the figures of the row, or of a delivery that isn't a conflict */
    EXPLAIN_ENTRY_OTHER, /* it has others */
    EXPLAIN_ENTRY_OPEN,  /* nothing that it could be held against is known */
};
/* "none", "unreadable", "own", "other" … */
const char *explain_entry_name(enum explain_entry e);
/* Pure. */
enum explain_entry explain_entry(const struct explanation *x);

/* What proves that an event without a row was settled or blocked once. */
enum explain_proof {
    EXPLAIN_PROOF_NONE,
    EXPLAIN_PROOF_LETTER,   /* its notification is in the outbox */
    EXPLAIN_PROOF_ALERT,    /* alert_state has an alert that it told */
    EXPLAIN_PROOF_CONFLICT, /* another event was refused because its id was known */
};
/* Pure. */
enum explain_proof explain_proof(const struct explanation *x);
/* Pure: the customer whose event it is, and the month and family in question; 0 when nothing says. Not by
 * what was refused as another event. */
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
