#!/bin/sh
# SPDX-License-Identifier: MIT
# The broker goes away under traffic: killed, frozen for longer than sessions and message time-outs last, stopped and away for a while
# (AWAY_SECONDS=120 for two minutes; 6 by default) and frozen at SIGTERM; the producers end in fatal errors. The daemon waits without a
# restart and without a busy loop, says once a period what it waits for, and goes on.
# shellcheck disable=SC2119 # arguments that may be left out
set -eu
# shellcheck source=test/fault/lib_kafka.sh
. "$(dirname "$0")/lib_kafka.sh"
case ${BROKER_KIND:-} in
embedded*)
    echo 'skipped kafka_broker: the embedded broker does not come back'
    exit 0
    ;;
esac
away=${AWAY_SECONDS:-6}
families=300 # the fewer there are the sooner all quotas are used up, and no alert comes any more
message_timeout_ms=1000
lease_ms=7000
session_timeout_ms=3000
report_interval_ms=1000
max_poll='  max_poll_interval_ms: 600000'
export message_timeout_ms lease_ms session_timeout_ms
kafka_begin kafka_broker
kafka_configure "$work/config.yaml" '' 'workers: 3'
sampling

joined() { # how often partitions were given to one of its members
    grep -c '"event":"partitions_assigned"' "$log" || :
}
# waited SECONDS: looks at what the daemon does for so long with nothing to reach, and judges it.
waited() {
    waited_lines=$(wc -l <"$log") waited_ticks=$(ticks_of "$daemon") waited_from=$(date +%s%3N)
    mark
    sleep "$1" # it's about this very time
    kill -0 "$daemon" || die 'the daemon has ended'
    waited_ms=$(($(date +%s%3N) - waited_from))
    waited_lines=$(($(wc -l <"$log") - waited_lines)) waited_ticks=$(($(ticks_of "$daemon") - waited_ticks))
    # a tenth of a processor; three workers and the relay, each with a handful of lines a period
    [ "$waited_ticks" -le $((waited_ms * $(getconf CLK_TCK) / 10000 + 10)) ] || die "$waited_ticks ticks in $waited_ms ms"
    [ "$waited_lines" -le $((waited_ms * 15 / 1000 + 40)) ] || die "$waited_lines lines in $waited_ms ms"
    waited_told=$(said_times '"event":"consume_waiting"')
    [ "$waited_told" -ge $((waited_ms / report_interval_ms / 2)) ] || die "$waited_told lines about what it waits for in $waited_ms ms"
    [ "$waited_told" -le $((3 * (waited_ms / report_interval_ms + 2))) ] || die "$waited_told lines about what it waits for in $waited_ms ms"
}
# ---- fatal ---------------------------------------------------------------------------------------------------------------------

daemon_faulty fatal 'relay.produce@20:fatal;dlt.produce@30:fatal'
traffic fatal --broken 0.05
both_fatal() {
    fired fatal '^relay.produce .*fatal' && fired fatal '^dlt.produce .*fatal'
}
await 'both producers had a fatal error' 60 both_fatal
flows_on 500
quiet
[ "$(said_times '"event":"producer_renewed"')" -ge 1 ] || die "the relay's producer wasn't renewed"
told 'producer fatal' "the relay's and the DLT's producer were told of a fatal error and made anew"
daemon_ends

# ---- the broker goes away ------------------------------------------------------------------------------------------------------

daemon steady

traffic killed
broker stop-one KILL
waited 3
broker start-one
flows_on 500
quiet
told 'broker down, killed' "$waited_told lines said what was waited for in $waited_ms ms, $waited_lines in all, $waited_ticks ticks of the processor"

traffic frozen
kill -s STOP "$(broker_pid)"
waited 5 # a session lasts 3 s, a message 1 s
kill -s CONT "$(broker_pid)"
flows_on 500
quiet
said SESSTMOUT || said '"lost":true' || die 'no session timed out'
told 'broker frozen' "$waited_told lines said what was waited for in $waited_ms ms, $waited_lines in all, $waited_ticks ticks; every session had timed out"
daemon_ends

# longer than the broker needs to come back on a busy machine
session_timeout_ms=$((away * 1000 + 170000))
kafka_configure "$work/config.yaml" "$max_poll" 'workers: 3'
session_timeout_ms=3000
daemon away
all_in_place() { # each of the three has been given its two partitions, last of all
    [ "$(jq -r 'select(.event == "partitions_assigned") | "\(.worker) \(.partitions)"' "$log" | tail -n 3 | sort -u | tr '\n' ';')" = '0 2;1 2;2 2;' ]
}
await 'each member has its share' 60 all_in_place
traffic away
joined_before=$(joined)
broker stop-one TERM
waited "$away"
broker start-one
flows_on 500
quiet
assert_eq 'times that partitions were given' "$joined_before" "$(joined)"
told 'broker stopped, away for a while' "$waited_told lines said what was waited for in $waited_ms ms, $waited_lines in all, $waited_ticks ticks; the members kept their partitions"
daemon_ends

# ---- SIGTERM with a frozen broker ------------------------------------------------------------------------------------------------

kafka_configure "$work/config.yaml" '' 'workers: 3
shutdown:
  deadline_ms: 10000'
daemon ends
traffic ends
kill -s STOP "$(broker_pid)"
since=$(date +%s%3N)
daemon_ends
took=$(($(date +%s%3N) - since))
kill -s CONT "$(broker_pid)"
[ "$took" -le 10500 ] || die "SIGTERM took $took ms of 10000"
daemon afterwards
flows_on
quiet
told 'broker frozen at SIGTERM' "the daemon ended in $took ms of 10000, with 0"
daemon_ends

sampling_ends
