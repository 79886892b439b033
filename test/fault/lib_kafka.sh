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
# shellcheck source=test/fault/lib_faults.sh
. "$(dirname "$0")/lib_faults.sh"

area=kafka
families=${families:-100}
seed=${TALLYD_TEST_SEED:-61}
extra_topics=
sampler=
report_interval_ms=${report_interval_ms:-500}

# ---- beginning and end --------------------------------------------------------------------------------------------------

kafka_begin() {
    begin "$@"
    trap kafka_leave EXIT
    need_fault_points
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

# daemon LABEL [FILE [CMD...]]
daemon() {
    kafka_label=$1
    kafka_file=${2:-$work/config.yaml}
    [ $# -lt 2 ] || shift
    shift
    daemon_on "$kafka_file" "$kafka_label" "$@"
}

# daemon_faulty LABEL FAULTS [FILE]: one with fault points; each that fires is a line in $work/LABEL.fired.
daemon_faulty() {
    daemon "$1" "${3:-$work/config.yaml}" env TALLYD_FAULT="$2" TALLYD_FAULT_LOG="$work/$1.fired"
}

# fired LABEL PATTERN: such a fault point has fired.
fired() {
    grep -qs "$2" "$work/$1.fired"
}

# said_times TEXT: how many lines have it.
said_times() {
    said_since | grep -c -e "$1" || :
}

# ---- traffic and rest ---------------------------------------------------------------------------------------------------

rest() {
    await 'all is settled' 120 caught_up
    # shellcheck disable=SC2086 # a list of words
    settled_all $labels
    committed_below_ledger
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
