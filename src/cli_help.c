/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* A command's page. simulate prints its usage and options itself; here is the rest. */
struct page {
    const char *name, *usage, *what;
    const char *options; /* NULL: the command's own, by --help */
    const char *codes;   /* those of its own, in the order of their numbers */
    const char *example;
};

#define CONFIG_OPTION "  -c, --config FILE  the configuration; config/tallyd.yaml documents every key\n"
#define CODES_ALWAYS "  0  done\n  1  something unforeseen\n  2  wrong usage\n"
#define CODE_CONFIG "  3  the configuration is wrong\n"
#define CODE_KAFKA "  4  Kafka\n"
#define CODE_REDIS "  5  Redis\n"
#define CODE_MYSQL "  6  MySQL\n"
#define CODE_NOT_DONE "  11 something that was asked for isn't there, or wasn't done; the output says what\n"
#define CODE_SCHEMA "  7  the database lacks migrations, or isn't one that this version can run on\n"
#define PARTITION_OPTION                                                                                     \
    "  -p, --partition N,...\n"                                                                              \
    "                     these partitions; without it all of them\n"
#define JSON_OPTION "  --json             one JSON document instead of a table\n"
#define PAUSE_OPTIONS CONFIG_OPTION PARTITION_OPTION JSON_OPTION "\n"

static const struct page pages[] = {
    {"run", "run -c FILE [--until-drained]",
     "consume, decide, settle and notify until told to stop, or until drained",
     CONFIG_OPTION
     "  --until-drained    end when every partition is settled up to the end that it had at the\n"
     "                     start, and every notification is sent; what lies on paused partitions\n"
     "                     isn't waited for: then the exit code is 11\n"
     "\n"
     "SIGTERM or SIGINT ends it within shutdown.deadline_ms, a second one at once; nothing is\n"
     "lost by either. SIGHUP has it read log.level again, and say which other keys changed. Logs\n"
     "go to standard output, one JSON object a line; `tallyd help events` lists them.\n",
     CODES_ALWAYS CODE_CONFIG CODE_KAFKA CODE_REDIS CODE_MYSQL CODE_SCHEMA
     "  8  the shutdown deadline passed; nothing is lost by it\n"
     "  11 drained, but for what lies on paused partitions\n",
     "tallyd run -c tallyd.yaml"},
    {"migrate", "migrate -c FILE [--status | --dry-run]", "bring the database's tables up to date",
     CONFIG_OPTION
     "  --status           one line a migration: applied, missing, changed, or newer than this\n"
     "                     tallyd; exit code 7 when `tallyd run` wouldn't start on it\n"
     "  --dry-run          the SQL that would run, for a look or for other hands\n"
     "\n"
     "One process at a time: a second one waits, and has nothing to do then. Migrations only\n"
     "add, so that the release before still runs after a rollback.\n",
     CODES_ALWAYS CODE_CONFIG CODE_MYSQL CODE_SCHEMA, "tallyd migrate -c tallyd.yaml --status"},
    {"check", "check -c FILE [--json | --print]", "say whether everything is there and as it must be",
     CONFIG_OPTION
     "  --json             one JSON document instead of lines\n"
     "  --print            the configuration as it holds, defaults included, secrets masked;\n"
     "                     nothing is asked\n"
     "\n"
     "One line a finding: ok, warn (it runs; somebody should look), FAIL, or -- (can't be seen).\n"
     "All are looked at; the first that fails gives the exit code. Nothing is written anywhere, so\n"
     "the right to write to a topic isn't tried. Clocks: over 1 s apart warns, over 60 s fails.\n",
     CODES_ALWAYS CODE_CONFIG CODE_KAFKA CODE_REDIS CODE_MYSQL CODE_SCHEMA,
     "tallyd check -c tallyd.yaml && tallyd run -c tallyd.yaml"},
    {"warm", "warm -c FILE FAMILY...", "make changes in MySQL count at once for these families",
     CONFIG_OPTION "  FAMILY             a family's number\n"
                   "\n"
                   "Drops what Redis holds about them; they are read from MySQL when they are next needed.\n"
                   "Run it after the change has committed. Without it a change counts within\n"
                   "cache.max_age_seconds.\n",
     "  0  done\n  1  something unforeseen\n  2  wrong usage, or no such family; the others are done\n" CODE_CONFIG
         CODE_REDIS CODE_MYSQL CODE_SCHEMA,
     "tallyd warm -c tallyd.yaml 100042 100043"},
    {"audit", "audit -c FILE [--family N] [--fix-cache] [--json]",
     "say whether everything that tallyd promises holds",
     CONFIG_OPTION
     "  --family N         of this family alone; what isn't a family's is left out\n"
     "  --fix-cache        have entries of Redis warmed anew that drifted from MySQL\n"
     "  --json             one JSON document instead of lines\n"
     "\n"
     "One line a question, with the number of the promise: ok, FAIL (broken), warn (nothing is broken,\n"
     "and somebody should look), or -- (can't be judged), with how much was looked at and the first\n"
     "that are wrong. Reads one snapshot of MySQL, the topics as far as they are kept, and Redis;\n"
     "locks nothing, and may run beside tallyd: what is in flight isn't called broken. Writes\n"
     "nothing, but that --fix-cache deletes what `tallyd warm` would. The snapshot lasts as long as\n"
     "the audit: minutes, for tens of millions of events.\n",
     CODES_ALWAYS CODE_CONFIG CODE_KAFKA
     "  5  Redis; as with Kafka the rest is judged\n" CODE_MYSQL CODE_SCHEMA
     "  9  a promise is broken; comes before all others\n"
     "  10 none is, but entries of Redis drifted and weren't dropped: each costs a second try\n",
     "tallyd audit -c tallyd.yaml --fix-cache"},
    {"lag", "lag -c FILE [--json]", "say where each partition stands and who reads it",
     CONFIG_OPTION JSON_OPTION
     "\n"
     "Two tables by partition. Where it stands: the log's start and end, what the group has\n"
     "committed, up to where the ledger has settled, what is left from the lower of the two on (lag),\n"
     "how much of that was settled before and is run again (again: a replay, or what a member hasn't\n"
     "committed yet), and whether a member reads it, it's paused, nobody has it, or log and ledger\n"
     "disagree. And what the ledger has counted since the first offset. Asks Kafka and MySQL, changes\n"
     "nothing.\n",
     CODES_ALWAYS CODE_CONFIG CODE_KAFKA CODE_MYSQL CODE_SCHEMA, "tallyd lag -c tallyd.yaml"},
    {"rewind", "rewind -c FILE --to WHERE [--dry-run]", "move the group back, to replay, or ahead, to skip",
     CONFIG_OPTION
     "  -t, --to WHERE     an offset; a time as 2026-11-30T12:00, with Z, +09:00 or in the zone; a\n"
     "                     day as 2026-11-30, its beginning; one back from now as -90s, -30m, -24h\n"
     "                     or -7d; earliest; latest\n" PARTITION_OPTION
     "  --dry-run          change nothing; read the records between, and say what would become of\n"
     "                     them: known already, conflicts, new, rejected by code, ignored\n"
     "  --limit N          records that --dry-run reads at most (1,000,000)\n"
     "  --yes              skip events that were never settled; without it that's refused\n" JSON_OPTION "\n"
     "Times are those of the records in Kafka. Refuses while the group has members: stop tallyd\n"
     "first. Back moves the group's committed offsets alone: what is run again and known already\n"
     "changes nothing, and `tallyd run --until-drained` is the replay. Ahead moves the ledger too:\n"
     "what is skipped counts as gap, and is never settled unless it's rewound to.\n",
     "  0  done\n  1  something unforeseen\n"
     "  2  wrong usage, an offset outside the log, or events would be skipped without --yes\n" CODE_CONFIG
     "  4  Kafka, or the group has members\n" CODE_MYSQL CODE_SCHEMA,
     "tallyd rewind -c tallyd.yaml --to -24h --dry-run"},
    {"pause", "pause -c FILE [--partition N,...] [--json]", "have partitions not be read for a while",
     PAUSE_OPTIONS
     "A running tallyd sees it within a second or two; what it had read by then is settled. The\n"
     "partition keeps its member, its committed offset and its place in the ledger, also through a\n"
     "restart or when another member takes over, until `tallyd resume`. A partition that nobody has\n"
     "begun yet, or a group that was never started, begins paused, where it would have begun; which\n"
     "those are Kafka is asked. Without Kafka all that the ledger knows is paused, and the exit code\n"
     "is 11; for partitions that are named and begun it isn't asked.\n",
     "  0  done\n  1  something unforeseen\n"
     "  2  wrong usage, or the topic has no such partition; nothing is changed\n" CODE_CONFIG
     "  4  Kafka; nothing is changed\n" CODE_MYSQL CODE_SCHEMA
     "  11 all that the ledger knows is paused; whether the topic has more couldn't be seen\n",
     "tallyd pause -c tallyd.yaml --partition 3"},
    {"resume", "resume -c FILE [--partition N,...] [--json]", "have paused partitions be read again",
     PAUSE_OPTIONS
     "A running tallyd sees it within a second or two, and goes on where it left off. Needs MySQL\n"
     "only.\n",
     "  0  done\n  1  something unforeseen\n"
     "  2  wrong usage, or the ledger has no such partition; nothing is changed\n" CODE_CONFIG CODE_MYSQL
         CODE_SCHEMA,
     "tallyd resume -c tallyd.yaml"},
    {"explain", "explain -c FILE [--scan N | --since TIME] [--within TIME] [--json] EVENT_ID",
     "say all that is known of one event",
     CONFIG_OPTION
     "  --scan N           look at the N newest records of each topic, shared out among its partitions;\n"
     "                     100,000 by default; with `all` at all that it keeps\n"
     "  --since TIME       instead at those from then on: 2026-11-30T12:00, or 90s, 15m, 24h, 7d ago\n"
     "  --within TIME      give each topic so long, as 30s or 5m; 10s by default, and as long as it\n"
     "                     takes where --scan or --since say how far\n"
     "  --json             one JSON document; `verdict` is the answer\n"
     "\n"
     "The answer comes first, in a sentence: settled, blocked, rejected, waiting, never seen. Then where\n"
     "it was delivered and what became of each, on which figures it was decided, the rules that apply\n"
     "now, what was told, the outbox, the notification, what Redis holds, and how far was searched.\n"
     "An event that is settled or blocked is found by its id; only its repeats and rejections depend on\n"
     "the search. Verdicts: settled, settled_with_warning, blocked, pruned (its month's rows are gone),\n"
     "rejected, waiting, ignored, unaccounted, never_seen (nowhere in all that the topics keep), and\n"
     "undetermined: it isn't in what was searched, and that wasn't all, or Kafka didn't answer. A\n"
     "malformed record that only quotes the id is listed, and decides nothing. Writes nothing; needs\n"
     "the right to read the notification topic and the DLT.\n",
     "  0  done, also where the answer is that it was never seen\n  1  something unforeseen\n  2  wrong usage\n" CODE_CONFIG
     "  4  Kafka; the rest is answered\n  5  Redis; the rest is answered\n" CODE_MYSQL CODE_SCHEMA
     "  11 undetermined: not all was searched\n",
     "tallyd explain -c tallyd.yaml --since 24h a1b2c3d4-e5f6-4890-abcd-ef1234567890"},
    {"show", "show -c FILE [--month M] family|customer N", "show a month's figures of a family or a customer",
     CONFIG_OPTION
     "  --month M          2026-11 or 202611; without it the current month in the configured zone\n"
     "  --json             one JSON document instead of tables\n"
     "  family N           a family's quota, members with their rules and blocks, alerts, notifications\n"
     "  customer N         the same of one customer, for each family that they're in\n"
     "\n"
     "Figures are MySQL's, of one moment, beside what Redis holds of them: events that are decided and\n"
     "not settled yet make them differ. A month without a row yet shows the total that it will take\n"
     "over from an earlier one. Writes nothing.\n",
     "  0  done\n  1  something unforeseen\n  2  wrong usage, or MySQL has no such family or customer\n" CODE_CONFIG
     "  5  Redis; MySQL's figures are shown\n" CODE_MYSQL CODE_SCHEMA,
     "tallyd show -c tallyd.yaml --month 2026-11 family 100042"},
    {"outbox", "outbox list|show|retry|skip -c FILE ...",
     "look at notifications on their way, and send or drop what is stuck",
     CONFIG_OPTION
     "  list               the pending and failed ones, the oldest first, with what holds them back\n"
     "    --status S       pending, failed, sent or all\n"
     "    --family N       of this family alone\n"
     "    --limit N        at most so many (100)\n"
     "  show ID            all of one, by its number in the outbox or its event's id: its payload,\n"
     "                     and the alert it tells\n"
     "  retry ID...        failed ones go on their way again, as if never tried\n"
     "    --all-failed     all of them in place of ID..., --limit at most (10000)\n"
     "    --dry-run        only say which\n"
     "  skip ID...         pending ones end as failed, and those behind them go on\n"
     "    --reason TEXT    why, for the next who looks: one line, without characters that aren't seen\n"
     "    --force          also those that a relay leases; it may be publishing them just now\n"
     "  --json             one JSON document instead of a table\n"
     "\n"
     "A family's notifications go in order, except past a failed one: one that is sent again comes\n"
     "after those that went meanwhile, which retry tells. A relay leases what it's about to publish;\n"
     "a lease that has run out (a killed process') is taken over by the next sweep. A row is marked as\n"
     "sent only after the topic has it, so what a relay leases or leased may have been sent: skip says\n"
     "so (mayBePublished), and notes it in last_error.\n",
     CODES_ALWAYS CODE_CONFIG CODE_MYSQL CODE_SCHEMA CODE_NOT_DONE,
     "tallyd outbox skip -c tallyd.yaml 4711 --reason 'the customer has left'"},
    {"dlt", "dlt list|show|redrive -c FILE ...", "look at rejected records, and send them again",
     CONFIG_OPTION
     "  list               how many by code, and the newest of them\n"
     "  show PART:OFFSET   one with its headers and its value\n"
     "    --raw            the value's bytes as they are, and nothing else\n"
     "  redrive            says what would go; with --yes sends it: back to its topic, with key,\n"
     "                     value, headers and the original time\n"
     "    --yes            do it\n"
     "    --from PART:OFFSET  begin there, as a redrive that stopped says\n"
     "    --topic NAME     those that came from this topic, which they go back to, in place of\n"
     "                     the configuration's usage topic\n"
     "  Which of them, for list and redrive:\n"
     "    --code CODE      rejected for this reason\n"
     "    --since TIME     whose record's time is not before it: 2026-11-30T12:00, with Z or an offset\n"
     "                     or else in the zone, or a day alone\n"
     "    --until TIME     and before this one\n"
     "    --partition N    of the DLT\n"
     "    --offset A[-B]   of that partition's, both included\n"
     "  --limit N          rows to be shown at most (100); not with --yes, which sends all of them\n"
     "  --json             one JSON document instead of a table\n"
     "\n"
     "Looks as far as the topic reached when it began, so that what is rejected again isn't sent\n"
     "again. A record that is sent twice is a duplicate, or is rejected twice: that changes no sum.\n"
     "What was cut because it didn't fit (x-truncated) can't be sent. Needs read on the DLT, and\n"
     "redrive write on the usage topic.\n",
     CODES_ALWAYS CODE_CONFIG CODE_KAFKA CODE_NOT_DONE,
     "tallyd dlt redrive -c tallyd.yaml --code UNKNOWN_FAMILY --since 2026-11-30"},
    {"maintain", "maintain -c FILE [--dry-run] [--json]", "prune what nobody needs any more",
     CONFIG_OPTION
     "  --dry-run          count what would go\n"
     "  --json             one JSON document instead of a table\n"
     "\n"
     "Notifications that were sent more than maintain.sent_retention_days ago; and with\n"
     "maintain.usage_months, which is off by default, the events of older months: such a month is closed\n"
     "first (an event of it is EVENT_TOO_OLD then), and its quotas, sums and told alerts stay. It isn't\n"
     "closed while events of it may wait: on a paused partition, or on one whose last settled record is\n"
     "that old and that has more, which Kafka is asked then; the answer says which. Goes in small\n"
     "transactions with pauses. The daemon does the same every maintain.interval_ms; one process at a\n"
     "time.\n",
     CODES_ALWAYS CODE_CONFIG CODE_MYSQL CODE_SCHEMA CODE_NOT_DONE,
     "tallyd maintain -c tallyd.yaml --dry-run"},
    {"simulate", "simulate -c FILE [options]", "produce usage events with the shape of a real population",
     NULL, CODES_ALWAYS CODE_CONFIG CODE_KAFKA CODE_MYSQL CODE_SCHEMA,
     "tallyd simulate -c tallyd.yaml --seed-db --count 50000 --rate 2000"},
    {"help", "help [COMMAND | events | metrics]", "this page, or a command's; the log's events; the metrics",
     "  --markdown         of events and metrics: a table in Markdown\n", "  0  done\n  2  no such command\n",
     "tallyd help check"},
    {"version", "version", "the version, and those of the libraries in use", "", "  0  done\n",
     "tallyd --version"},
};
#define PAGE_COUNT (sizeof pages / sizeof *pages)

void cli_help_overview(void) {
    printf("tallyd: settles usage events against shared quotas, and tells people once\n\n");
    for (size_t i = 0; i < PAGE_COUNT; i++)
        printf("  tallyd %-9s %s\n", pages[i].name, pages[i].what);
    printf("\n`tallyd help COMMAND` shows a command's options, exit codes and an example.\n"
           "\nExit codes: 0 done, 1 internal, 2 usage, 3 configuration, 4 Kafka, 5 Redis, 6 MySQL,\n"
           "7 not migrated, 8 the shutdown deadline passed, 9 a promise is broken, 10 Redis drifted,\n"
           "11 something asked for isn't there or wasn't done.\n"
           "Errors go to standard error as `tallyd COMMAND: what: why (what to do)`.\n");
}

static void print_own_help(const char *name) {
    char copy[16], option[] = "--help";
    snprintf(copy, sizeof copy, "%s", name);
    char *argv[] = {copy, option, NULL};
    cli_simulate(2, argv);
}

bool cli_help_page(const char *command) {
    for (size_t i = 0; i < PAGE_COUNT; i++) {
        const struct page *p = &pages[i];
        if (strcmp(p->name, command) != 0)
            continue;
        if (p->options)
            printf("tallyd %s\n\n%c%s.\n\n%s%s", p->usage, p->what[0] - 'a' + 'A', p->what + 1, p->options,
                   *p->options ? "\n" : "");
        else
            print_own_help(p->name);
        printf("%sExit codes:\n%s\nExample: %s\n", p->options ? "" : "\n", p->codes, p->example);
        return true;
    }
    return false;
}
