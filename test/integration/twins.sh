#!/bin/sh
# SPDX-License-Identifier: MIT
# An id that is settled already comes again in one batch, first with other bytes and then as it was: the first is a
# conflict, the second a duplicate, wherever batches begin and end.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin twins 1

sql <"$root/config/quickstart/family.sql"
event() { # event ID BYTES
    printf '100042|{"eventId":"%s","eventType":"DATA_USAGE","payload":{"familyId":100042,"customerId":200187,"bytesUsed":%s}}\n' "$1" "$2"
}
settled_first() { [ "$(sql "SELECT COALESCE(SUM(settled), 0) FROM consumer_ledger")" = 1 ]; }
all_counted() { [ "$(sql "SELECT COALESCE(SUM(next_offset), 0) FROM consumer_ledger")" = 7 ]; }

launch tallyd "$tallyd" run -c "$work/config.yaml"
event e-1 5 | kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -K '|'
await 'the first event is settled' 30 settled_first
# e-2 is new and conflicts with its own first occurrence; one call, so that all lie in one batch
{ event e-1 6; event e-1 5; event e-1 5; event e-2 7; event e-2 8; event e-2 7; } |
    kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -K '|'
await 'all records are counted' 30 all_counted
assert_eq 'settled, duplicate, rejected' '2	3	2' "$(sql "SELECT SUM(settled), SUM(duplicate), SUM(rejected) FROM consumer_ledger")"
assert_eq 'the family used' 12 "$(sql "SELECT SUM(used_bytes) FROM family_quota WHERE family_id = 100042 AND used_bytes > 0")"
assert_eq 'codes on the DLT' '2 ID_CONFLICT' \
    "$(kcat -C -q -e -b "$KAFKA_BROKERS" -t "$dlt_topic" -f '%h\n' | grep -o 'x-error-code=[A-Z_]*' | sort | uniq -c | sed 's/^ *\([0-9]*\) x-error-code=/\1 /')"
echo "ok twins: repeats are judged by what stands in MySQL"

# The first of an id is refused by the database: the next is decided in its place, and the others in the batch settle.
sql "ALTER TABLE usage_record ADD CONSTRAINT refuse_666 CHECK (bytes_used <> 666)"
{ event e-3 9; event e-4 666; event e-4 5; event e-4 666; event e-5 9; } |
    kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -K '|'
counted_twelve() { [ "$(sql "SELECT SUM(next_offset) FROM consumer_ledger")" = 12 ]; }
await 'all records are counted' 30 counted_twelve
assert_eq 'settled' 'e-1:5 e-2:7 e-3:9 e-4:5 e-5:9' \
    "$(sql "SELECT GROUP_CONCAT(event_id, ':', bytes_used ORDER BY event_id SEPARATOR ' ') FROM usage_record")"
assert_eq 'codes on the DLT' '3 ID_CONFLICT 1 SETTLEMENT_REJECTED' \
    "$(kcat -C -q -e -b "$KAFKA_BROKERS" -t "$dlt_topic" -f '%h\n' | grep -o 'x-error-code=[A-Z_]*' | sort | uniq -c |
        sed 's/^ *\([0-9]*\) x-error-code=/\1 /' | paste -sd ' ')"
remaining() { redis GET "family:100042:remaining:$(TZ=Asia/Seoul date +%Y%m)"; }
assert_eq 'what Redis holds' "$(sql "SELECT total_quota_bytes - used_bytes FROM family_quota WHERE used_bytes > 0")" "$(remaining)"
echo "ok twins: one that the database refuses is rejected alone, and the next takes its place"
