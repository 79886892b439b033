#!/bin/sh
# SPDX-License-Identifier: MIT
# A rejected record can't be written: the DLT is gone, the broker is frozen while the daemon is to end, a record is too large. Nothing is
# settled past a record that isn't in the DLT; the log says once a period what is waited for; when it can be written again, all goes on
# by itself. (A notification that is too large: test/integration/relay_edges.sh.)
# shellcheck disable=SC2119 # arguments that may be left out
set -eu
# shellcheck source=test/fault/lib_kafka.sh
. "$(dirname "$0")/lib_kafka.sh"
case ${BROKER_KIND:-} in
embedded*)
    echo 'skipped kafka_dlt: the embedded broker refuses nothing'
    exit 0
    ;;
esac
message_timeout_ms=1000
lease_ms=7000
export message_timeout_ms lease_ms
kafka_begin kafka_dlt
report_ms=1000
kafka_configure "$work/config.yaml" '  properties:
    topic.metadata.refresh.interval.ms: 1000
    topic.metadata.propagation.max.ms: 1000'
sed -i "s/report_interval_ms: .*/report_interval_ms: $report_ms/" "$work/config.yaml"
sampling

# waits_for TEXT: three periods long the log says that the settlement waits for it, no more than once a period, and nothing is settled.
waits_for() {
    await 'the log says what it waits for' 60 said settlement_waiting "$1"
    # every partition gets broken events soon, and until then goes on
    await 'nothing is settled any more' 60 stands 1
    stands_at=$(ledger_end)
    waits_from=$(date +%s%3N) mark_lines=$(said_times settlement_waiting)
    waits_said() { [ "$(said_times settlement_waiting)" -ge $((mark_lines + 3)) ]; }
    await 'it says so again' 60 waits_said
    waits_ms=$(($(date +%s%3N) - waits_from)) waits_lines=$(($(said_times settlement_waiting) - mark_lines))
    [ "$waits_lines" -le $((waits_ms / report_ms + 2)) ] || die "$waits_lines lines in $waits_ms ms"
    assert_eq 'the ledger while the DLT is unwritable' "$stands_at" "$(ledger_end)"
}
stands() { # stands SECONDS: nothing has been settled for so long
    stands_then=$(ledger_end)
    sleep "$1"
    [ "$(ledger_end)" = "$stands_then" ]
}

# ---- the DLT is gone -------------------------------------------------------------------------------------------------------

# The few records in it go with it: the test's look at the rejections begins behind them.
daemon dlt
traffic gone --broken 0
"$ktool" topic-delete "$dlt_topic"
traffic_ends
await 'all is settled' 60 caught_up
traffic_on unwritable --broken 0.05
mark
waits_for "$dlt_topic"
kill -0 "$daemon" || die 'the daemon has ended'
"$ktool" topic-create "$dlt_topic" "$partitions" retention.ms=-1
flows_on 1000
quiet
told 'DLT unwritable, the topic deleted' "the settlement waited $((waits_ms / 1000)) s and said so $waits_lines times; on its return all went on"

# ---- SIGTERM while it can't be written ---------------------------------------------------------------------------------------

# The broker says nothing, and records are on their way to it.
daemon_ends
message_timeout_ms=30000 lease_ms=60000
kafka_configure "$work/patient.yaml" '' 'shutdown:
  deadline_ms: 10000'
message_timeout_ms=1000 lease_ms=7000
daemon patient "$work/patient.yaml"
traffic stopping --broken 0.05
kill -s STOP "$(broker_pid)"
await 'nothing is settled any more' 60 stands 2
since=$(date +%s%3N)
daemon_ends
took=$(($(date +%s%3N) - since))
kill -s CONT "$(broker_pid)"
[ "$took" -le 10500 ] || die "SIGTERM took $took ms"
daemon after
flows_on
quiet
told 'DLT frozen at SIGTERM' "records were on their way to it; the daemon ended in $took ms of 10000, with 0"

# ---- too large for the DLT ---------------------------------------------------------------------------------------------------

labels_before=$labels
traffic large --broken 0
"$ktool" topic-config "$dlt_topic" retention.ms=-1 max.message.bytes=20000
mark
for n in 1 2 3; do # not JSON, and larger than the DLT takes
    printf '%s|%s\n' "$n" "$(head -c 60000 /dev/zero | tr '\0' x)$n"
done | kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -K '|' -X topic.partitioner=murmur2_random
cut_there() {
    records "$dlt_topic" '%h,length %S\n' | grep 'x-truncated=' | tr ',' '\n' >"$work/cut"
    [ "$(grep -c '^x-truncated=60001$' "$work/cut")" -ge 3 ]
}
await 'they are in the DLT' 60 cut_there
flows_on 500
traffic_ends
await 'all is settled' 60 caught_up
assert_eq 'cut records, and their codes' '3 3' "$(grep -c '^x-truncated=' "$work/cut") $(grep -c '^x-error-code=MALFORMED_JSON$' "$work/cut")"
cut_to=$(sed -n 's/^length //p' "$work/cut" | sort -n | tail -n 1)
if [ "$cut_to" -ge 20000 ] || [ "$cut_to" -lt 10000 ]; then
    die "they were cut to $cut_to bytes"
fi
promises_hold
# shellcheck disable=SC2086 # a list of words
assert_eq 'rejected' $(($(produced .produced.broken $labels_before large) + 3)) "$(sql 'SELECT SUM(rejected) FROM consumer_ledger')"
daemon_ends
committed_below_ledger
told 'too large for the DLT' "3 records of 60001 bytes went cut to $cut_to"
sampling_ends
