# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# What the tests of Kafka's faults share. Each fault falls into steady traffic, is seen to have hit, and then, at rest, every promise is
# checked before the next one comes. All the time the offsets in Kafka are held against the ledger's.
#
#   kafka_begin NAME [PARTITIONS]   the stack, families; the broker is back and its topics are gone however the test ends
#   kafka_configure FILE [LINES [SECTIONS]]   a configuration with more lines under kafka:, and more sections
#   daemon LABEL [FILE [CMD...]]    a daemon that reads (CMD in front of it, say env)
#   traffic LABEL [OPTION...]       events from now on, in the background
#   …the fault…                     `said`, `fired` and the like: it was seen
#   quiet                           the traffic ends, all is settled, every promise holds
#   told FAULT FIGURES…             the fault's line
# shellcheck disable=SC2120 # arguments that may be left out
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"

families=${families:-100}
rate=${rate:-600}
seed=${TALLYD_TEST_SEED:-61}
labels=
extra_topics=
sampler=
report_interval_ms=${report_interval_ms:-500}

# ---- beginning and end --------------------------------------------------------------------------------------------------

kafka_begin() {
    begin "$@"
    trap kafka_leave EXIT
    # a sanitizer's build has the fault points too
    grep -q TALLYD_FAULT_LOG "$tallyd" || tallyd=$root/build-fault/tallyd
    [ -x "$tallyd" ] || die "$tallyd isn't built: make faults"
    kafka_configure "$work/config.yaml"
    # What is produced while the broker is away waits for it, however long that takes. A broker that was killed knows of each producer
    # no more than the last batch; had others been on their way with it, the broker would take them for out of order, which is fatal.
    sed -i 's/message_timeout_ms: .*/message_timeout_ms: 600000/; s/lease_ms: .*/lease_ms: 900000/
        s/^kafka:$/&\n  properties:\n    max.in.flight.requests.per.connection: 1/' "$work/owner.yaml"
    simulate seeding --seed-db --families "$families"
}

# However this ends, the next test finds a broker.
kafka_leave() {
    kill -s CONT "$(broker_pid)" 2>/dev/null || :
    broker start-one >/dev/null 2>&1 || :
    for leave_topic in $extra_topics; do
        "$ktool" topic-delete "$leave_topic" || :
    done
    finish
}

broker() { # broker VERB [SIGNAL]
    sh "$root/scripts/stack.sh" "$1" "$TALLYD_TEST_DIR" kafka ${2+"$2"}
}

broker_pid() {
    cat "$TALLYD_TEST_DIR/kafka/pid"
}

kafka_configure() {
    configure "$1" "${3:-}"
    { # kafka: is its first line
        printf '%s\n' 'kafka:' ${2:+"$2"}
        sed '1d; s/^retry:$/&\n  report_interval_ms: '"$report_interval_ms"'/' "$1"
    } >"$1.new"
    mv "$1.new" "$1"
}

# ---- the daemons --------------------------------------------------------------------------------------------------------

# Sets daemon to its pid and log to its log.
daemon() {
    daemon_label=$1
    daemon_file=${2:-$work/config.yaml}
    [ $# -lt 2 ] || shift
    shift
    launch "$daemon_label" "${@:-env}" "$tallyd" run -c "$daemon_file"
    daemon=$launched
    log=$work/$daemon_label.log
    log_from=1
    await 'the daemon reads' 60 opened "$log"
}

# daemon_faulty LABEL FAULTS [FILE]: one with fault points; each that fires is a line in $work/LABEL.fired.
daemon_faulty() {
    daemon "$1" "${3:-$work/config.yaml}" env TALLYD_FAULT="$2" TALLYD_FAULT_LOG="$work/$1.fired"
}

# fired LABEL PATTERN: such a fault point has fired.
fired() {
    grep -qs "$2" "$work/$1.fired"
}

daemon_ends() {
    kill -s TERM "${1:-$daemon}"
    ended 'the daemon' "${1:-$daemon}" 0
}

# What the daemon says is looked for from here on.
mark() {
    log_from=$(($(wc -l <"$log") + 1))
}

said_since() {
    tail -n "+$log_from" "$log"
}

# said TEXT...: a line with all of them.
said() {
    said_since >"$work/said"
    for said_text in "$@"; do
        grep -e "$said_text" "$work/said" >"$work/said.some" || return 1
        mv "$work/said.some" "$work/said"
    done
}

# said_times TEXT: how many lines have it.
said_times() {
    said_since | grep -c -e "$1" || :
}

# ---- traffic and rest ---------------------------------------------------------------------------------------------------

# traffic LABEL [OPTION...]: returns when some of it is settled.
traffic() {
    traffic_on "$@"
    mark
    flows_on
}

traffic_on() {
    traffic_label=$1
    shift
    labels="$labels $traffic_label"
    seed=$((seed + 1))
    simulate_on "$traffic_label" --families "$families" --rate "$rate" --duration 1h --seed "$seed" "$@"
    events=$launched
}

settled_past() {
    [ "$(ledger_end)" -ge "$1" ]
}

# flows_on [N]: N more records are settled.
flows_on() {
    await 'settling goes on' 60 settled_past $(($(ledger_end) + ${1:-200}))
}

traffic_ends() {
    kill -s TERM "$events"
    ended simulate "$events" 0
}

rest() {
    await 'all is settled' 120 caught_up
    # shellcheck disable=SC2086 # a list of words
    settled_all $labels
    committed_below_ledger
}

quiet() {
    traffic_ends
    rest
}

told() {
    told_fault=$1
    shift
    echo "ok kafka: $told_fault: $*; $(produced .acked.total "${labels##* }") events in it, $(ledger_end) so far, every promise holds"
}

# From now on the group's offsets are held against the ledger; `sampling_ends` prints how often they were.
sampling() {
    rm -f "$work/enough"
    (
        sampled=0
        while [ -d "$work" ] && [ ! -e "$work/enough" ]; do
            if committed_above=$(committed_above_ledger); then
                [ -z "$committed_above" ] || die "committed in Kafka but not settled, partition $committed_above"
                sampled=$((sampled + 1))
            fi
            sleep 0.3
        done
        echo "$sampled" >"$work/sampled"
    ) &
    sampler=$!
    pids="$pids $sampler"
}

sampling_ends() {
    : >"$work/enough"
    ended 'the comparing of offsets' "$sampler" 0
    [ "$(cat "$work/sampled")" -gt 0 ] || die 'the offsets were never compared'
    echo "ok kafka: the group's offsets were compared $(cat "$work/sampled") times, never above the ledger's"
}
