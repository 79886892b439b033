#!/bin/sh
# SPDX-License-Identifier: MIT
# A daemon is told to end: at work, twice, and while Kafka, Redis or MySQL is frozen and there is more to settle. It ends within its
# deadline, and after the thaw the next one settles the rest.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
session_timeout_ms=1000
message_timeout_ms=1000
lease_ms=7000
export session_timeout_ms message_timeout_ms lease_ms
begin process_terminated
seed=${TALLYD_TEST_SEED:-61}
deadline_ms=3000
late_ms=1000 # a busy machine's own
server_pid() {
    cat "$TALLYD_TEST_DIR/$1/pid"
}
thaw() {
    for thaw_server in redis mysql kafka; do
        kill -s CONT "$(server_pid $thaw_server)" 2>/dev/null || :
    done
}
trap 'thaw; finish' EXIT
sed -i "\$ a shutdown:\n  deadline_ms: $deadline_ms" "$work/config.yaml"

# Small batches: it doesn't keep up, so that there is more to settle whenever it's told to end.
sed '$ a batch:\n  max_events: 20' "$work/config.yaml" >"$work/slow.yaml"

now_ms() {
    date +%s%3N
}
labels=
# traffic LABEL: in the background, for long enough.
traffic() {
    simulate_on "$1" --families 300 --rate 3000 --duration 3s --seed "$seed"
    events=$launched
    labels="$labels $1"
    seed=$((seed + 1))
}
# daemon LABEL [OPTION]: in the middle of the traffic that begins when it reads.
daemon() {
    daemon_from=$(ledger_end)
    daemon_label=$1
    shift
    launch "$daemon_label" "$tallyd" run -c "$work/slow.yaml" "$@"
    pid=$launched
    await "$daemon_label reads" 60 opened "$work/$daemon_label.log"
    traffic "during_$daemon_label"
    await "$daemon_label settles" 60 grown $((daemon_from + 500))
}
grown() {
    [ "$(ledger_end)" -gt "$1" ]
}
# terminate LABEL PID: waits for its end; sets code and took_ms.
terminate() {
    terminate_at=$(now_ms)
    kill -s TERM "$2"
    code=0
    wait "$2" || code=$?
    took_ms=$(($(now_ms) - terminate_at))
}
some_left() {
    at=$(($(topic_end) - $(ledger_end)))
    [ "$at" -gt 0 ]
}
# the_rest: after the thaw another one settles what is left; sets at to how much that is.
the_rest() {
    ended 'simulate' "$events" 0
    await 'it shows that not all was settled' 30 some_left # a broker that was frozen has no answer at first
    launch rest "$tallyd" run -c "$work/config.yaml"
    rest=$launched
    await 'all is settled' 60 caught_up
    kill -s TERM "$rest"
    ended 'the next daemon' "$rest" 0
    # shellcheck disable=SC2086 # a list of words
    settled_all $labels
}
pending() {
    sql "SELECT COUNT(*) FROM usage_event_outbox WHERE status = 'PUBLISH_PENDING'"
}

simulate seeding --seed-db --families 300

daemon healthy
terminate healthy "$pid"
assert_eq 'told to end while all is well: exit code' 0 "$code"
assert_eq 'told to end while all is well: alerts not sent' 0 "$(pending)"
[ "$took_ms" -le $((deadline_ms + late_ms)) ] || die "it took $took_ms ms"
the_rest
echo "ok process: SIGTERM: exit code 0 after $took_ms ms, nothing left in the outbox, $at records left to the next one"

# frozen SERVER: it is frozen under load, then the daemon is told to end.
frozen() {
    frozen_server=$1
    daemon "without_$frozen_server"
    kill -s STOP "$(server_pid "$frozen_server")"
    # into the hang: what was under way when it froze has come to a stand, or waits
    sleep 0.5
    kill -0 "$pid" || die "the daemon ended by itself"
    terminate "without $frozen_server" "$pid"
    thaw
    case $code in
    0 | 8) ;;
    *) die "SIGTERM with a frozen $frozen_server: exit code $code" ;;
    esac
    [ "$took_ms" -le $((deadline_ms + late_ms)) ] || die "SIGTERM with a frozen $frozen_server: it took $took_ms ms"
    the_rest
    echo "ok process: SIGTERM with a frozen $frozen_server: exit code $code after $took_ms of $deadline_ms ms, $at records left to the next one"
}
frozen kafka
frozen redis
frozen mysql

# Where the end of the work is watched for, the stores are asked as well: by the thread that is to notice the signal. An alert that
# nobody publishes keeps it waiting.
alert_of_nobody() {
    sql "INSERT INTO usage_event_outbox (event_id, family_id, customer_id, status, payload_json, lease_owner, lease_until, created_at)
         VALUES ('nobody', 1, 1, 'PUBLISH_PENDING', '{}', 1, UTC_TIMESTAMP(3) + INTERVAL 1 DAY, UTC_TIMESTAMP(3))"
}
all_read() {
    [ "$(ledger_end)" = "$(topic_end)" ]
}
alert_of_nobody
simulate drained --families 300 --rate 0 --count 1000 --seed "$seed"
seed=$((seed + 1)) labels="$labels drained"
daemon watching --until-drained
ended 'simulate' "$events" 0
await 'all is settled' 60 all_read
kill -s STOP "$(server_pid mysql)"
sleep 0.5
traffic undrained
terminate watching "$pid"
thaw
assert_eq 'SIGTERM while waiting for the last alert: exit code' 8 "$code"
[ "$took_ms" -le $((deadline_ms + late_ms)) ] || die "SIGTERM while waiting for the last alert: it took $took_ms ms"
sql "DELETE FROM usage_event_outbox WHERE event_id = 'nobody'"
the_rest
echo "ok process: SIGTERM with a frozen mysql that is being asked for the end of the work: exit code 8 after $took_ms of $deadline_ms ms"

# Twice: the second one doesn't wait for anything.
daemon twice
kill -s STOP "$(server_pid mysql)"
kill -s TERM "$pid"
stopping() {
    grep -q '"event":"stopping"' "$work/twice.log"
}
await 'it is stopping' 10 stopping
terminate twice "$pid"
thaw
assert_eq 'a second SIGTERM: exit code' 143 "$code"
grep -q '"event":"stopped_at_once"' "$work/twice.log" || die 'it was not the second signal that ended it'
the_rest
echo "ok process: a second SIGTERM: exit code 143 after $took_ms ms, $at records left to the next one"
