#!/bin/sh
# SPDX-License-Identifier: MIT
# size.sh: how many bytes an entry takes in Redis and a row in MySQL, on the stack whose variables are exported (scripts/bench/run.sh
# starts one), and what that comes to. Prints Markdown. A broken promise ends it (1).
#
# SIZE_FAMILIES (20000), SIZE_EVENTS (400000). Of the tables pages are counted, after a run in which ids came in no order: as full as they
# are then.
# shellcheck disable=SC2034,SC2154 # what lib.sh works with, and what it has set
set -eu

# shellcheck source=/dev/null
. "$(dirname "$0")/lib.sh"

families=${SIZE_FAMILIES:-20000}
events=${SIZE_EVENTS:-400000}

# Data and indexes, as the server estimates them after a look at the table.
table_bytes() {
    admin "ANALYZE TABLE $1" >/dev/null
    admin "SELECT data_length + index_length FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '$1'"
}

redis_bytes() {
    redis info memory | tr -d '\r' | sed -n 's/^used_memory://p'
}

rows_of() {
    sql "SELECT COUNT(*) FROM $1"
}

# line WHAT COUNT BYTES
line() {
    awk -v what="$1" -v n="$2" -v bytes="$3" 'BEGIN { printf "| %s | %d | %.1f MiB | %.0f |\n", what, n, bytes / 1048576, n ? bytes / n : 0 }'
}

bench_begin size
for given in "$families" "$events"; do
    count 'SIZE_…' "$given"
done
say "$families families"
simulate families --seed-db --families "$families"
produce_warmers ''
empty=$(redis_bytes)
start_over warm
warm=$(redis_bytes)
warmed=$(rows_of usage_record)
redis --scan --pattern 'event:dedup:*' | head -n 1 >"$work/dedup.key"
one=$(redis MEMORY USAGE "$(cat "$work/dedup.key")")
say "$events events"
topic_new "$bench_group.size"
usage_topic=$bench_group.size
owner
simulate size --families "$families" --rate 0 --count "$events" --seed 21 --duplicates 0 --late 0 --broken 0
sql "UPDATE family_quota SET total_quota_bytes = total_quota_bytes * GREATEST(1, $events DIV ($families * 20))"
member_on "$bench_group.size"
drain size
tick
after=$(redis_bytes)
decided=$(sql 'SELECT (SELECT COUNT(*) FROM usage_record) + (SELECT COUNT(*) FROM usage_block)')
decided=$((decided - warmed))
members=$(rows_of family_member)

echo "Families: $families with $members customers; events: $decided"
echo
echo '| what | how many | in all | bytes each |'
echo '|---|---|---|---|'
line "Redis: a family's month, with its customers" "$families" $((warm - empty - warmed * one))
line "Redis: an event's dedup entry, marks and new counters included" "$decided" $((after - warm))
for table in usage_record usage_block customer_quota family_quota alert_state usage_event_outbox; do
    line "MySQL: \`$table\`" "$(rows_of "$table")" "$(table_bytes "$table")"
done
