#!/bin/sh
# SPDX-License-Identifier: MIT
# Two daemons share the work; one is killed in the middle. The other takes over, and nothing is lost or doubled.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
session_timeout_ms=2000 # how long the dead one's partitions wait
message_timeout_ms=1000
lease_ms=7000 # how long its alerts do
export session_timeout_ms message_timeout_ms lease_ms
begin takeover
seed=${TALLYD_TEST_SEED:-31}

simulate seeding --seed-db --families 300
launch first "$tallyd" run -c "$work/config.yaml"
first=$launched
launch second "$tallyd" run -c "$work/config.yaml"
second=$launched
both_read() {
    opened "$work/first.log" && opened "$work/second.log"
}
await 'both read' 20 both_read
simulate_on events --families 300 --rate 4000 --count 24000 --seed "$seed"
events=$launched
some_settled() {
    [ "$(ledger_end)" -gt 6000 ]
}
await 'some of it is settled' 20 some_settled
kill -s KILL "$first"
wait "$first" 2>/dev/null || :
killed_at=$(ledger_end)
ended 'simulate' "$events" 0
await 'all is settled' 120 caught_up
kill -s TERM "$second"
ended 'the second daemon' "$second" 0
settled_all events
echo "ok takeover: $(ledger_end) records, killed at $killed_at; the second settled $(figure "$work/second.log" stopped settled) and saw" \
    "$(figure "$work/second.log" stopped duplicate) duplicates; every promise holds"
