#!/bin/sh
# SPDX-License-Identifier: MIT
# A daemon is stopped with a batch in flight for longer than its session lasts; another one takes over; the first is woken and goes on
# where it stood. Three such moments: before its transaction has touched a row; in the middle of it, with locks held; and woken when the
# new owner has claimed its partitions but settled nothing yet, so that only the ledger's owner stands in its way.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
session_timeout_ms=1000
message_timeout_ms=1000
lease_ms=7000
export session_timeout_ms message_timeout_ms lease_ms
begin process_zombie
tallyd=${TALLYD_FAULT_BIN:-$root/build-fault/tallyd}
[ -x "$tallyd" ] || die "$tallyd isn't built (make faults)"
seed=${TALLYD_TEST_SEED:-51}
# For the second moment: a stopped one's locks go with its session.
short_sessions() {
    sed -i 's/^mysql:/&\n  session_wait_timeout_ms: 4000\n  lock_wait_timeout_ms: 1000/' "$work/config.yaml"
}

# faulty LABEL PLAN: a daemon with fault points; what fired lies in $work/LABEL.fired.
faulty() {
    launch "$1" env TALLYD_FAULT="$2" TALLYD_FAULT_LOG="$work/$1.fired" "$tallyd" run -c "$work/config.yaml"
}
# stands LABEL POINT PID: it has stopped at the point.
stands() {
    grep -qs "^$2 " "$work/$1.fired" && [ "$(state_of "$3")" = T ]
}
# says FILE EVENT: such a line is in a daemon's log.
says() {
    grep -qs "\"event\":\"$2\"" "$work/$1.log"
}
# grown N: the ledger's end has passed N.
grown() {
    [ "$(ledger_end)" -gt "$1" ]
}
# opened_times LABEL N: partitions were opened at least so often.
opened_times() {
    [ "$(grep -c '"event":"partition_opened"' "$work/$1.log")" -ge "$2" ]
}
owners() {
    sql "SELECT GROUP_CONCAT(DISTINCT owner), SUM(batch_no), SUM(next_offset) FROM consumer_ledger WHERE topic = '$usage_topic'"
}
# part FIELD TEXT
part() {
    echo "$2" | cut -f "$1"
}
end_both() {
    await 'all is settled' 60 caught_up
    kill -s TERM "$1" "$2"
    ended 'the first daemon' "$1" 0
    ended 'the second daemon' "$2" 0
}

simulate seeding --seed-db --families 300

# ---- stopped before its transaction touched anything, woken after the other one has settled -------------------------------
simulate_on events1 --families 300 --rate 1500 --duration 7s --seed "$seed"
events=$launched
faulty idle 'settler.start@4:stop'
first=$launched
await 'the first stands still' 60 stands idle settler.start "$first"
stopped_at=$(ledger_end)
launch heir1 "$tallyd" run -c "$work/config.yaml"
second=$launched
await 'the second settles' 60 grown $((stopped_at + 1000))
kill -s CONT "$first"
await 'the first is fenced' 60 says idle fenced
await 'the first is back at work' 60 opened_times idle "$((partitions + 1))"
ended 'simulate' "$events" 0
end_both "$first" "$second"
settled_all events1
echo "ok process: stopped and woken: stopped with a batch in flight at $stopped_at, the other one settled $(figure "$work/heir1.log" stopped settled);" \
    "woken it was fenced $(figure "$work/idle.log" stopped fenced) times and joined again"

# ---- stopped in the middle of its transaction ----------------------------------------------------------------------------
short_sessions
simulate_on events2 --families 300 --rate 1500 --duration 9s --seed "$((seed + 1))"
events=$launched
faulty locking 'settler.commit@4:stop'
first=$launched
await 'the first stands still' 60 stands locking settler.commit "$first"
stopped_at=$(ledger_end)
launch heir2 "$tallyd" run -c "$work/config.yaml"
second=$launched
await 'the second waits for its locks' 60 says heir2 claim_waiting
await 'the second settles' 60 grown $((stopped_at + 1000))
kill -s CONT "$first"
dropped() {
    says locking fenced || says locking batch_dropped
}
await 'the first drops what it had' 60 dropped
await 'the first is back at work' 60 opened_times locking "$((partitions + 1))"
ended 'simulate' "$events" 0
end_both "$first" "$second"
settled_all events1 events2
waited_for=$(jq -r 'select(.event == "claim_waiting").error_code' "$work/heir2.log" | head -n 1)
[ "$waited_for" = 1205 ] || die "the second waited for something else than locks: $waited_for"
echo "ok process: stopped in the middle of a transaction: at $stopped_at, its locks went with its session (the other one's claim waited: $waited_for)," \
    "woken it dropped its batch and joined again"

# ---- woken before the new owner's first batch ----------------------------------------------------------------------------
configure "$work/config.yaml"
simulate_on events3 --families 300 --rate 1500 --duration 9s --seed "$((seed + 2))"
events=$launched
faulty zombie 'settler.start@4:stop'
first=$launched
await 'the first stands still' 60 stands zombie settler.start "$first"
before=$(owners)
faulty owner 'worker.claimed@1:stop'
second=$launched
await 'the second has claimed' 60 stands owner worker.claimed "$second"
claimed=$(owners)
[ "$(part 1 "$before")" != "$(part 1 "$claimed")" ] || die 'the ledger has the old owner still'
assert_eq 'the ledger but for its owner' "$(part 2,3 "$before")" "$(part 2,3 "$claimed")"
kill -s CONT "$first"
await 'the first is fenced' 20 says zombie fenced
kill -s CONT "$second"
await 'the second is at work again' 60 opened_times owner "$((partitions + 1))"
ended 'simulate' "$events" 0
end_both "$first" "$second"
settled_all events1 events2 events3
echo "ok process: a zombie before the new owner's first batch: batch numbers and offsets as it left them ($(part 2 "$before"), $(part 3 "$before")), refused by" \
    "its owner alone; fenced $(figure "$work/zombie.log" stopped fenced), the new owner settled $(figure "$work/owner.log" stopped settled)"
