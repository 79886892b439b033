#!/bin/sh
# SPDX-License-Identifier: MIT
# Two members meet a group that has no ledger yet: the other's rows appear just when this one has looked for its own in vain. It takes
# them over all the same, rather than settling its first batch in vain.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
begin ledger_founded 2
fault=${TALLYD_FAULT_BIN:-$root/build-fault/tallyd}
[ -x "$fault" ] || make -s -C "$root" faults >/dev/null || die "the build with fault points can't be made"

sql <"$root/config/quickstart/family.sql"
for n in 1 2 3 4; do
    printf '100042|{"eventId":"e-%s","eventType":"DATA_USAGE","payload":{"familyId":100042,"customerId":200187,"bytesUsed":5}}\n' "$n"
done | kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -K '|'

launch tallyd env TALLYD_FAULT='worker.select_consumer_ledger@1:delay=1500' TALLYD_FAULT_LOG="$work/fired" "$fault" run -c "$work/config.yaml"
daemon=$launched
fired() { [ -s "$work/fired" ]; }
await 'it has updated no row and is about to look' 60 fired
sql "INSERT INTO consumer_ledger (group_id, topic, partition_id, owner, first_offset, next_offset, updated_at)
     VALUES ('$group', '$usage_topic', 0, 0, 0, 0, UTC_TIMESTAMP(3)), ('$group', '$usage_topic', 1, 0, 0, 0, UTC_TIMESTAMP(3))"
await 'all is settled' 60 caught_up
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
assert_eq 'settled' 4 "$(sql "SELECT SUM(settled) FROM consumer_ledger")"
assert_eq 'fenced' 0 "$(figure "$work/tallyd.log" stopped fenced)"
promises_hold
echo 'ok ledger_founded: rows that another member founds meanwhile are taken over'
