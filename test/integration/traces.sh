#!/bin/sh
# SPDX-License-Identifier: MIT
# A usage event's traceparent: it goes with the event to its notification, at the first publish and at a later one, to the lines that are
# about the event, and with a rejected record to the DLT. One that isn't valid, or isn't the only one, counts as absent, and rejects nothing.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin traces 1
sed -i '$ a log:\n  level: debug' "$work/config.yaml"

# Each event of a customer of its own, and each warns or blocks: a family's quota of 10 with 6 used at once.
trace() { # N: the trace and the header of event N
    printf '%032x' "$((0xabc000 + $1))"
}
parent() {
    printf '00-%s-%016x-01' "$(trace "$1")" "$1"
}
n=1
while [ "$n" -le 9 ]; do
    echo "INSERT INTO family (family_id, name) VALUES ($n, 'f'); INSERT INTO family_member (family_id, customer_id) VALUES ($n, $n);
        INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES ($n, '2026-01-01', 10);"
    n=$((n + 1))
done | sql
# event ID FAMILY BYTES [HEADER...]: HEADER as NAME=VALUE.
event() {
    event_line="$2|{\"eventId\":\"$1\",\"eventType\":\"DATA_USAGE\",\"payload\":{\"familyId\":$2,\"customerId\":$2,\"bytesUsed\":$3}}"
    shift 3
    for event_header in "$@"; do
        shift
        set -- "$@" -H "$event_header"
    done
    echo "$event_line" | kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -K '|' -X topic.partitioner=murmur2_random "$@"
}
counted() { [ "$(ledger_end)" = "$1" ]; }
# header_of ID: the notification's headers, whole.
header_of() {
    records "$notification_topic" '%h\t%s\n' | grep "\"eventId\":\"$1\"" | cut -f 1 | sort -u
}
# line_of EVENT ID: a figure of the log's line about it.
trace_in() {
    jq -r "select(.event == \"$1\" and .event_id == \"$2\") | .trace_id // \"none\"" "$work/tallyd.log" | sort -u
}

# One whose notification will be published by another process: the row waits for the sweep.
event warned 1 6 "traceparent=$(parent 1)" 'other=kept'
event blocked 2 11 "traceparent=$(parent 2)"
event quiet 3 1 "traceparent=$(parent 3)"
event without 4 6
event invalid 5 6 "traceparent=00-$(trace 5)-0000000000000000-01"
event twice 6 6 "traceparent=$(parent 6)" "traceparent=$(parent 7)"
event later 7 6 "traceparent=cc-$(trace 7)-0000000000000007-03-and-more"
event other_name 8 6 "Traceparent=$(parent 8)"
event warned 1 6 "traceparent=$(parent 9)" # delivered again
event rejected 999 6 "traceparent=$(parent 9)" 'other=kept'
launch tallyd "$tallyd" run -c "$work/config.yaml"
daemon=$launched
await 'all records are counted' 60 counted 10
await 'all is told' 60 caught_up

assert_eq 'the warned one' "traceparent=$(parent 1)" "$(header_of warned)"
assert_eq 'the blocked one' "traceparent=$(parent 2)" "$(header_of blocked)"
assert_eq 'of a later version' "traceparent=00-$(trace 7)-0000000000000007-01" "$(header_of later)"
for id in without invalid twice other_name; do
    assert_eq "$id: a notification without" '' "$(header_of $id)"
    assert_eq "$id: the line about it" none "$(trace_in event_ended $id)"
done
assert_eq 'notifications' 7 "$(records "$notification_topic" 'x\n' | wc -l)"
assert_eq 'rows with a trace' "blocked later warned" \
    "$(sql "SELECT GROUP_CONCAT(event_id ORDER BY event_id SEPARATOR ' ') FROM usage_event_outbox WHERE traceparent IS NOT NULL")"
assert_eq 'the line about a settled one' "$(trace 3)" "$(trace_in event_ended quiet)"
assert_eq 'the lines about one that came again' "$(trace 1) $(trace 9)" "$(trace_in event_ended warned | paste -sd ' ')"
assert_eq 'the line about a rejected one' "$(trace 9)" "$(jq -r 'select(.event == "record_rejected") | .trace_id' "$work/tallyd.log")"
assert_eq 'the rejected one, in the DLT' "traceparent=$(parent 9),other=kept" \
    "$(records "$dlt_topic" '%h\n' | grep -o '^traceparent=[^,]*,other=[^,]*')"
settled_now=$(sql 'SELECT COUNT(*) FROM usage_record')
assert_eq 'settled: no header rejects anything' 7 "$settled_now"
promises_hold
alerts_published
echo "ok traces: with a warning, a block and a later version's to the notification; not with four that aren't valid; in the log and the DLT"

# Published again, by whom knows the row alone: the same bytes with the same header.
records "$notification_topic" '%h %T %k %s\n' | sort >"$work/before"
sql "UPDATE usage_event_outbox SET status = 'PUBLISH_PENDING', sent_at = NULL, lease_owner = NULL, lease_until = NULL"
await 'all is told again' 60 caught_up
assert_eq 'notifications, each twice' "$(cat "$work/before" "$work/before" | sort)" "$(records "$notification_topic" '%h %T %k %s\n' | sort)"
# A row that somebody wrote something else into.
sql "UPDATE usage_event_outbox SET status = 'PUBLISH_PENDING', sent_at = NULL, traceparent = 'not-a-trace' WHERE event_id = 'warned'"
await 'it is told again' 60 caught_up
assert_eq 'what is no trace' ",traceparent=$(parent 1)" "$(header_of warned | paste -sd ,)"
echo 'ok traces: published again, the same bytes with the same header'

# What fails says whose trace it was.
sql "ALTER TABLE usage_record ADD CONSTRAINT refuse_3 CHECK (bytes_used <> 3)"
event refused 9 3 "traceparent=$(parent 9)"
await 'it is counted' 60 counted 11
assert_eq 'the line about a refused one' "$(trace 9)" "$(trace_in event_refused refused)"
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
"$ktool" topic-config "$notification_topic" max.message.bytes=100 retention.ms=-1
sql "UPDATE usage_event_outbox SET status = 'PUBLISH_PENDING', sent_at = NULL WHERE event_id = 'blocked'"
launch tallyd "$tallyd" run -c "$work/config.yaml"
daemon=$launched
failed() { [ "$(sql "SELECT COUNT(*) FROM usage_event_outbox WHERE status = 'FAILED'")" = 1 ]; }
await 'a notification fails' 60 failed
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
assert_eq 'the line about a failed one' "$(trace 2)" "$(trace_in notification_failed blocked)"
echo 'ok traces: in the lines about a refused event and a failed notification'
