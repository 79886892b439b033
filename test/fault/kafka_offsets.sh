#!/bin/sh
# SPDX-License-Identifier: MIT
# The log and the ledger disagree: records deleted before they were settled, while the daemon is away and under a reading one; the topic
# made anew, shorter than the ledger and longer, while the daemon is away and under a running one. Such a partition stops, and the log
# says what is missing; the configuration says to go on, and it goes on.
# shellcheck disable=SC2119 # arguments that may be left out
set -eu
# shellcheck source=test/fault/lib_kafka.sh
. "$(dirname "$0")/lib_kafka.sh"
case ${BROKER_KIND:-} in
embedded*)
    echo 'skipped kafka_offsets: the embedded broker deletes no records'
    exit 0
    ;;
esac
session_timeout_ms=30000 # a reader that is frozen for a moment isn't what this is about
export session_timeout_ms
kafka_begin kafka_offsets 3
# A deleted topic is noticed, and one made anew, without the usual five minutes' wait.
quick='  properties:
    topic.metadata.refresh.interval.ms: 1000'
kafka_configure "$work/config.yaml" "$quick"
kafka_configure "$work/skip.yaml" "  skip_lost_offsets: true
$quick"
kafka_configure "$work/accept.yaml" "  accept_recreated_topic: true
$quick"

next_of() { # next_of PARTITION: the ledger's
    sql "SELECT next_offset FROM consumer_ledger WHERE topic = '$usage_topic' AND partition_id = $1"
}
# What is on the topic now, as partition, offset and id; added to what was kept before.
keep() {
    records "$usage_topic" '%p %o %s\n' | sed -n 's/^\([0-9]* [0-9]*\) .*"eventId":"\([^"]*\)".*/'"$1"' \1 \2/p' >>"$work/kept"
}
# all_ended CONDITION: of the records kept (incarnation $1, partition $2, offset $3) by awk's CONDITION every id has its row, and no other
# id has one.
all_ended() {
    awk "$1 { print \$4 }" "$work/kept" | LC_ALL=C sort -u >"$work/ids.expected"
    sql 'SELECT event_id FROM usage_record UNION ALL SELECT event_id FROM usage_block' | LC_ALL=C sort >"$work/ids.ended"
    cmp -s "$work/ids.expected" "$work/ids.ended" || die "ids that should have ended and those that did: $(
        LC_ALL=C comm -3 "$work/ids.expected" "$work/ids.ended" | head -n 3
    )"
    promises_hold
    await "the group's offsets are below the ledger's" 10 none_above
}
none_above() { # the group learns of a topic made anew by the next automatic commit
    [ -z "$(committed_above_ledger)" ]
}
figures() { # settled, blocked and so on of all partitions
    sql "SELECT SUM(settled + blocked + duplicate), SUM(gap), SUM(next_offset - first_offset) FROM consumer_ledger WHERE topic = '$usage_topic'" |
        tr '\t' ' '
}
others_caught_up() { # all partitions but 0
    [ "$(($(ledger_end) - $(next_of 0)))" = "$(kcat -b "$KAFKA_BROKERS" -Q -t "$usage_topic:1:-1" -t "$usage_topic:2:-1" | awk '{ sum += $NF } END { print sum }')" ]
}
log_end() { # log_end PARTITION
    kcat -b "$KAFKA_BROKERS" -Q -t "$usage_topic:$1:-1" | awk '{ print $NF }'
}
log_reaches() { # log_reaches PARTITION OFFSET
    [ "$(log_end "$1")" -gt "$2" ]
}
in_log() { # in_log EVENT PARTITION NAME: a figure of the last such line about a partition
    said_since | jq -r "select(.event == \"$1\" and .partition == $2) | .$3" | tail -n 1
}
plain() { # no broken events: each id ends in a row
    traffic_on "$1" --broken 0
}

# ---- below the log's start --------------------------------------------------------------------------------------------------

plain below
daemon settles
flows_on
daemon_ends
stood=$(next_of 0)
await 'the log runs ahead' 60 log_reaches 0 $((stood + 500))
keep below
low=$((stood + 400))
"$ktool" records-delete "$usage_topic" 0 "$low"
daemon stops
await 'the partition stops' 60 said '"event":"partition_stopped"' '"partition":0,' 'skip_lost_offsets'
assert_eq 'the gap that the log names' "$stood $low 400" \
    "$(in_log partition_stopped 0 ledger_next_offset) $(in_log partition_stopped 0 log_start) $(in_log partition_stopped 0 lost)"
traffic_ends
await 'the other partitions are settled' 60 others_caught_up
assert_eq "the stopped partition's ledger" "$stood" "$(next_of 0)"
promises_hold
daemon_ends
daemon skips "$work/skip.yaml"
await 'the gap is skipped' 60 said '"event":"offsets_skipped"' '"partition":0,' '"lost":400'
await 'all is settled' 60 caught_up
keep below
all_ended "\$1 == \"below\" && !(\$2 == 0 && \$3 >= $stood && \$3 < $low)"
assert_eq 'accounted for' "$(($(topic_end) - 400)) 400 $(topic_end)" "$(figures)"
echo "ok kafka: offset out of range, below the log's start: 400 records deleted unsettled; the partition stopped and named them, the other" \
    "two went on; with skip_lost_offsets they are the gap, the other $(figures | cut -d ' ' -f 1) records are accounted for"

# ---- the same under a daemon that reads ---------------------------------------------------------------------------------------

# What is to be skipped is deleted up to the very end: the gap must come into the ledger with no record behind it.
before=$(topic_end)
plain running
flows_on
kill -s STOP "$daemon"
lost_from=$(next_of 1)
await 'the log runs ahead' 60 log_reaches 1 $((lost_from + 500))
traffic_ends
keep running
"$ktool" records-delete "$usage_topic" 1 -1
mark
kill -s CONT "$daemon"
await 'the reader finds its place gone' 60 said '"event":"log_changed"' '"partition":1,'
await 'it goes on behind the gap' 60 said '"event":"offsets_skipped"' '"partition":1,'
await 'all is settled' 60 caught_up
lost_from=$(in_log offsets_skipped 1 from) lost_to=$(in_log offsets_skipped 1 to)
assert_eq 'the end of the gap' "$(log_end 1)" "$lost_to"
[ "$lost_to" -gt "$lost_from" ] || die 'nothing was lost'
keep running
all_ended "!(\$1 == \"below\" && \$2 == 0 && \$3 >= $stood && \$3 < $low) && !(\$1 == \"running\" && \$2 == 1 && \$3 >= $lost_from && \$3 < $lost_to)"
assert_eq 'accounted for' "$(($(topic_end) - 400 - lost_to + lost_from)) $((400 + lost_to - lost_from)) $(topic_end)" "$(figures)"
daemon_ends
echo "ok kafka: offset out of range under a reading daemon: $((lost_to - lost_from)) records deleted up to the log's end; counted as gap with" \
    "no record behind it, $(($(topic_end) - before)) events in it"

# ---- made anew ----------------------------------------------------------------------------------------------------------------

lost_running="\$1 == \"running\" && \$2 == 1 && \$3 >= $lost_from && \$3 < $lost_to"
lost_below="\$1 == \"below\" && \$2 == 0 && \$3 >= $stood && \$3 < $low"
counted=$(topic_end) # by logs that are gone
gap=$((400 + lost_to - lost_from))
anew() { # the topic again, empty
    "$ktool" topic-delete "$usage_topic"
    "$ktool" topic-create "$usage_topic" "$partitions" retention.ms=-1
}
some() { # some LABEL COUNT: events, now
    seed=$((seed + 1))
    simulate "$1" --families "$families" --rate 0 --count "$2" --seed "$seed" --broken 0
    labels="$labels $1"
    keep "$1"
}
lines() { # lines EVENT N: at least so many since the mark
    [ "$(said_times "\"event\":\"$1\"")" -ge "$2" ]
}
settled_anew() { # all of the new log is settled, and what was counted before still counts
    await 'all is settled' 60 caught_up
    all_ended "!($lost_running) && !($lost_below)"
    assert_eq 'accounted for' "$((counted + $(topic_end) - gap)) $gap $((counted + $(topic_end)))" "$(figures)"
}
stays_stopped() { # stays_stopped REASON: all partitions stop for it, and their rows stay as they are
    await 'all partitions stop' 60 lines partition_stopped 3
    said "$1" 'accept_recreated_topic: true' || die "the log doesn't say why"
    assert_eq 'the ledger' "$1: $rows_before" "$1: $(ledger_rows)"
}
ledger_rows() {
    sql "SELECT GROUP_CONCAT(partition_id, ' ', first_offset, ' ', next_offset, ' ', settled ORDER BY 1) FROM consumer_ledger WHERE topic = '$usage_topic'"
}

anew
some shorter 300
rows_before=$(ledger_rows)
daemon stops_short
stays_stopped 'the log ends before'
daemon_ends
daemon accepts_short "$work/accept.yaml"
await 'all partitions start anew' 60 lines partition_started_anew 3
settled_anew
daemon_ends
echo "ok kafka: offset out of range, above the log's end: the topic made anew with $(topic_end) records; its partitions stopped, and with" \
    "accept_recreated_topic they were read from their beginning; $(figures | cut -d ' ' -f 1) records accounted for"

counted=$((counted + $(topic_end)))
anew
some longer 3000
rows_before=$(ledger_rows)
daemon stops_long
stays_stopped "isn't the one on the topic"
daemon_ends
daemon accepts_long "$work/accept.yaml"
await 'all partitions start anew' 60 lines partition_started_anew 3
settled_anew
daemon_ends
daemon again "$work/accept.yaml"
some again 300
settled_anew
assert_eq 'started anew, the second time' 0 "$(said_times partition_started_anew)"
echo "ok kafka: topic recreated: $(topic_end) records lie where $((counted)) were settled; its partitions stopped by their last settled record," \
    "and with accept_recreated_topic they were read from their beginning, once"

counted=$((counted + $(topic_end)))
mark
anew
some running_anew 2000
await 'all partitions start anew' 60 lines partition_started_anew 3
settled_anew
daemon_ends
counted=$((counted + $(topic_end)))
daemon plain
rows_before=$(ledger_rows)
mark
anew
some running_stopped 200
stays_stopped 'the log ends before'
daemon_ends
daemon last "$work/accept.yaml"
settled_anew
alerts_published
daemon_ends
"$tallyd" audit -c "$work/accept.yaml" >"$work/audit.log" 2>&1 || die "the audit after all that: exit code $?: $(cat "$work/audit.log")"
echo "ok kafka: topic recreated under a running daemon: read from its beginning, or stopped, as the configuration says;" \
    "$(figures | cut -d ' ' -f 1) records of five logs accounted for, $gap of them a gap"
