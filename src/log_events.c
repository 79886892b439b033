/* SPDX-License-Identifier: MIT */
#include "log_events.h"

#include <string.h>

#define D LOG_LEVEL_BIT(LOG_DEBUG)
#define I LOG_LEVEL_BIT(LOG_INFO)
#define W LOG_LEVEL_BIT(LOG_WARN)
#define E LOG_LEVEL_BIT(LOG_ERROR)

#define COUNTERS                                                                                             \
    "settled blocked duplicate rejected ignored batches came_back redecided warmed lock_retries refused "    \
    "fenced misplaced_key published publish_failed log_lines_lost uptime_ms"
#define SAID_AGAIN "; said once in `retry.report_interval_ms`"

static const struct log_event events[] = {
    /* the process */
    {"started", I, "group_id topic workers librdkafka", NULL, "every dependency answered, and work begins",
     ""},
    {"progress", I, COUNTERS, NULL, "every 10 s: the counters since the start", ""},
    {"stopping", I, "reason", NULL, "a signal came, or all is drained: what is in hand is finished", ""},
    {"stopped", I, COUNTERS, NULL, "the final counters", ""},
    {"stopped_at_once", W, "reason", NULL,
     "a second signal ended the process; nothing is lost by it, and some of it is done again", ""},
    {"deadline_passed", E, "deadline_ms", NULL,
     "the shutdown took longer than `shutdown.deadline_ms`, and the process ended with code 8; nothing is "
     "lost by it",
     "look for the `…_waiting` before it"},
    {"log_level_changed", I, "from to", NULL, "SIGHUP: the file's `log.level` holds from here on", ""},
    {"reload_unchanged", I, "log_level", NULL, "SIGHUP: the file says the same `log.level`", ""},
    {"reload_failed", E, "error", NULL, "SIGHUP: the file can't be read; everything stays as it is",
     "mend the line it names, send SIGHUP again"},
    {"restart_needed", W, "keys", NULL,
     "SIGHUP: these keys changed in the file, and are read at a start only", "restart when it suits"},
    {"log_lines_lost", W, "lines since_start", NULL,
     "so many lines couldn't be written (full disk, full or closed pipe): tallyd never waits for its log",
     "look at whoever reads it"},
    {"redis_policy_unknown", W, "reason", NULL, "Redis doesn't say its eviction policy",
     "see that it's `noeviction`"},
    {"drain_check_waiting", W, "error", "error",
     "`--until-drained`: whether all is done can't be asked at the moment", "mend the dependency named"},
    {"drained_but_paused", W, "partition settled_to end since", NULL,
     "`--until-drained`: all is done, but for what lies on this paused partition; the exit code is 11",
     "`tallyd resume`, and run again"},
    {"state_changed", I | W, "from to reason", NULL,
     "what /readyz says: starting, ready, degraded (a dependency), stuck (a partition) or stopping",
     "warn: mend what the reason names"},
    {"thread_hung", E, "thread silent_ms", NULL,
     "a thread hasn't come round for `health.hung_after_ms`: /healthz is 503, and the watchdog isn't fed",
     "keep a trace of its threads if you can; the supervisor restarts it, and nothing is lost by that"},
    {"http_started", I, "address port", NULL, "where the page, /metrics, /healthz and /readyz are", ""},
    {"http_server", D | W, "message", NULL, "what the HTTP server says of itself", "look at the message"},
    {"http_panic", E, "file line message", NULL, "the HTTP server found itself broken, and ends the process",
     "send the line with a report"},
    {"notify_impossible", W, "reason", NULL, "the supervisor can't be told how it stands (sd_notify)",
     "look at the unit"},
    {"probe_left", W, "dependency", NULL, "a dependency hangs, and its probe is left behind at the end", ""},
    {"maintained", D | I,
     "outbox_rows usage_record_rows usage_block_rows closed_before months_closed stopped took_ms", NULL,
     "what was pruned (`tallyd maintain`), and whether months were closed", ""},
    {"maintenance_waiting", W, "error", NULL,
     "pruning failed and is tried again; nothing else waits for it" SAID_AGAIN,
     "mend MySQL or the rights (config/grants.sql)"},

    /* the group and its partitions */
    {"partitions_assigned", I, "worker partitions", NULL, "the group gave partitions", ""},
    {"partitions_revoked", I | W, "worker partitions lost", NULL,
     "the group took them; `lost` (warn): without being asked, and what was in hand is dropped and read "
     "again by others",
     "when `lost` comes often: look for long waits, and at `kafka.max_poll_interval_ms`"},
    {"partition_opened", I,
     "topic partition owner start ledger_next_offset committed_offset log_start log_end", NULL,
     "where reading starts, and on which figures", ""},
    {"partition_stopped", E, "topic partition reason hint ledger_next_offset log_start log_end lost", NULL,
     "the log and the ledger disagree: records gone before they were settled, or the last settled record isn't "
     "the one on the topic (made anew, another cluster)",
     "look at the offsets and at `hint`: `kafka.skip_lost_offsets: true` goes on behind a gap, "
     "`kafka.accept_recreated_topic: true` starts over with a new log"},
    {"offsets_skipped", W, "topic partition from to lost", NULL, "what `kafka.skip_lost_offsets` did", ""},
    {"partition_started_anew", W, "topic partition reason from to log_end", NULL,
     "what `kafka.accept_recreated_topic` did", ""},
    {"log_changed", W, "topic partition position error", NULL,
     "the offset to read, or the topic, is gone under a reader; it claims its partitions anew",
     "see what follows"},
    {"claim_waiting", W | E, "worker error", NULL,
     "partitions can't be claimed in the ledger yet; the member stays in its group" SAID_AGAIN,
     "mend the dependency named"},
    {"consume_waiting", W | E, "worker error", NULL, "no broker answers, or none lets it read" SAID_AGAIN,
     "mend Kafka or the rights"},
    {"consume_goes_on", I, "worker", NULL, "it reads again", ""},
    {"partition_paused", I, "worker partition since settled_to", NULL,
     "an operator's `tallyd pause` holds; the partition keeps its member and its place",
     "`tallyd resume` when it's over"},
    {"partition_resumed", I, "worker partition settled_to", NULL, "it's read again, from where it was", ""},
    {"pauses_waiting", W | E, "error", NULL,
     "MySQL doesn't say which partitions are paused; what was known holds" SAID_AGAIN,
     "mend the dependency named"},
    {"consume_failed", W | E, "worker error", NULL, "Kafka answers a read with an error" SAID_AGAIN,
     "look at the error"},
    {"offsets_not_stored", W, "reason", "reason",
     "what is settled couldn't be noted for the group's commit; the ledger has it",
     "nothing, unless it stays"},
    {"consumer_closed", D | W, "left_group", NULL,
     "warn: the broker didn't answer while leaving; the group notices by the session time-out", ""},
    {"client_not_destroyed", W, "waited_ms", NULL, "the same, of a client's end", ""},
    {"kafka_client", D | W, "client facility message", "facility", "what Kafka's client says of itself",
     "look at the message"},
    {"kafka_connection", W, "client code message", "code", "a connection to a broker failed; it tries again",
     "nothing, unless a `…_waiting` follows"},

    /* batches and events */
    {"decision_waiting", W | E, "worker error", NULL,
     "Redis or MySQL is away or refuses, in deciding; the member stays in its group" SAID_AGAIN,
     "mend the dependency named"},
    {"settlement_waiting", W | E, "error", NULL,
     "MySQL is away or refuses, or the DLT can't be written, in settling" SAID_AGAIN,
     "mend the dependency named"},
    {"trace_left", W | E, "worker error", NULL,
     "Redis couldn't be told to forget what was decided and dropped; the validation finds it" SAID_AGAIN,
     "mend Redis"},
    {"batch_split", W, "records", "",
     "MySQL refused an event's data; the batch's records go one by one to find it", "see `event_refused`"},
    {"event_refused", E, "event_id family_id customer_id partition offset error trace_id?", "error",
     "MySQL refuses this event's data; it goes to the DLT as `SETTLEMENT_REJECTED`", "look at the event"},
    {"policy_unreadable", W, "family_id customer_id reason", "reason",
     "a rule in `policy_assignment` can't be read; that customer's events go to the DLT",
     "mend the rule, `updated_at` included"},
    {"family_contended", W, "family_id month failures", "", "somebody else keeps writing a family's rows",
     "find the writer"},
    {"fenced", W, "owner records", "",
     "another process owns the partition; what was in hand is dropped, and read again by its owner", ""},
    {"batch_dropped", I, "records", NULL, "its partitions were taken; it's read again by their owner", ""},
    {"batch_settled", D, "records settled blocked duplicate rejected ignored", NULL,
     "how a batch's records ended", ""},
    {"event_ended", D, "outcome status? event_id family_id customer_id partition offset trace_id?", NULL,
     "how an event ended: settled, blocked or duplicate, and what it was decided to be", ""},
    {"record_rejected", D, "code reason partition offset trace_id?", NULL, "a record is in the DLT", ""},
    {"batch_came_back", D, "reason records families first_family_id", NULL,
     "MySQL's figures or ids weren't those decided on; decided again",
     "nothing, unless `came_back` keeps growing: who else writes the quotas?"},
    {"family_differs", D, "family_id month decided_on_total decided_on_used total used", NULL,
     "which family's figures, of a batch that came back", ""},
    {"customer_differs", D, "family_id customer_id month decided_on_used used", NULL,
     "which customer's figures, of a batch that came back", ""},

    /* notifications */
    {"relay_waiting", W, "error rows_in_hand", NULL,
     "Kafka or MySQL is away or refuses, in publishing" SAID_AGAIN, "mend the dependency named"},
    {"notification_failed", E, "outbox_id family_id event_id error trace_id?", "error",
     "the broker can't take a notification, for good; its row is `FAILED` with the reason",
     "look at the row's `last_error`"},
    {"outbox_lease_lost", W, "rows", "",
     "rows were published after their lease had run out: they may be published again, same `eventId`", ""},
    {"outbox_swept", D, "rows", NULL, "rows whose lease had run out were taken over", ""},
    {"producer_renewed", W, "reason", "", "the producer failed for good and is made anew",
     "nothing, unless it comes often"},

    /* said by commands, on standard error */
    {"outbox_retried", I, "outbox_id family_id event_id last_error", NULL,
     "`tallyd outbox retry` sends a failed notification again", ""},
    {"outbox_skipped", I, "outbox_id family_id event_id reason was_leased may_be_published", NULL,
     "`tallyd outbox skip` gave a pending one up", ""},
    {"dlt_redriven", I, "records sent cannot_go refused topic code", NULL,
     "`tallyd dlt redrive --yes` sent rejected records again", ""},
};
#define EVENT_COUNT (sizeof events / sizeof *events)

const struct log_event *log_events(size_t *count) {
    *count = EVENT_COUNT;
    return events;
}

const struct log_event *log_event_find(const char *name) {
    for (size_t i = 0; i < EVENT_COUNT; i++) {
        if (strcmp(events[i].name, name) == 0)
            return &events[i];
    }
    return NULL;
}

static void print_levels(FILE *out, const struct log_event *e) {
    const char *between = "";
    for (int level = LOG_DEBUG; level <= LOG_ERROR; level++) {
        if (e->levels & LOG_LEVEL_BIT(level)) {
            fprintf(out, "%s%s", between, log_level_name((enum log_level)level));
            between = ", ";
        }
    }
}

static void print_rows(FILE *out) {
    fputs("| event | level | fields | means | do |\n|---|---|---|---|---|\n", out);
    for (size_t i = 0; i < EVENT_COUNT; i++) {
        const struct log_event *e = &events[i];
        fprintf(out, "| `%s`%s | ", e->name, e->same ? " ×" : "");
        print_levels(out, e);
        fprintf(out, " | %s | %s | %s |\n", e->fields, e->means, *e->action ? e->action : "nothing");
    }
}

/* Words from `text` in lines of at most this many columns; backquotes are for Markdown. */
#define PAGE_COLUMNS 96

static size_t columns_of(const char *s, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += s[i] != '`' && ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

static void print_wrapped(FILE *out, const char *indent, const char *lead, const char *text) {
    size_t column = (size_t)fprintf(out, "%s%s", indent, lead);
    for (bool first = true; *text; first = false) {
        size_t len = strcspn(text, " "), wide = columns_of(text, len);
        if (!first && column + 1 + wide > PAGE_COLUMNS)
            column = (size_t)fprintf(out, "\n%s  ", indent) - 1;
        else if (!first)
            column += (size_t)fprintf(out, " ");
        for (size_t i = 0; i < len; i++) {
            if (text[i] != '`')
                fputc(text[i], out);
        }
        column += wide;
        text += len + strspn(text + len, " ");
    }
    fputc('\n', out);
}

static void print_page(FILE *out) {
    fputs(
        "The log's events. Each line is a JSON object: ts (UTC), level and event, then the fields.\n"
        "\"error\" stands for error_area, error_action, error_code and error; a field with \"?\" isn't\n"
        "always there. cut: fields were left out, so that the line has its bounds.\n"
        "\n"
        "Those with \"x\" collapse: the same message (by the fields after \"x\"; of an error: area, action\n"
        "and code) is written five times within 10 s; from then on a line in 10 s says of the last one\n"
        "what it said, how many were left out, repeated, and in how long, over_ms. Debug lines don't.\n",
        out);
    for (size_t i = 0; i < EVENT_COUNT; i++) {
        const struct log_event *e = &events[i];
        fprintf(out, "\n%s (", e->name);
        print_levels(out, e);
        fprintf(out, ")%s%s%s\n", e->same ? " x" : "", e->same && *e->same ? " " : "",
                e->same ? e->same : "");
        print_wrapped(out, "  ", "", e->means);
        print_wrapped(out, "  ", "fields: ", e->fields);
        if (*e->action)
            print_wrapped(out, "  ", "do: ", e->action);
    }
}

void log_events_print(FILE *out, bool markdown) {
    if (markdown)
        print_rows(out);
    else
        print_page(out);
}
