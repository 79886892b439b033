#!/bin/sh
# SPDX-License-Identifier: MIT
# The measuring tool: every verb does what it says that it measures, on counts that must come out. How fast is no question here.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin bench_tool
seed=${TALLYD_TEST_SEED:-1}
bench=$build/test/bench

# measure LABEL VERB ARGUMENT...: to its end; what it prints lies in $work/LABEL.json.
measure() {
    measure_label=$1
    measure_verb=$2
    shift 2
    "$bench" "$measure_verb" -c "$work/bench.yaml" "$@" >"$work/$measure_label.json" 2>"$work/$measure_label.err" ||
        die "bench $measure_verb: exit code $?"
}

# holds LABEL FILTER: a filter that's true of what a verb printed.
holds() {
    jq -e "$2" "$work/$1.json" >/dev/null || die "not so: $2: $(cat "$work/$1.json")"
}

# exits CODE VERB ARGUMENT...
exits() {
    exits_wanted=$1
    exits_code=0
    shift
    "$bench" "$@" >"$work/exits.out" 2>"$work/exits.err" || exits_code=$?
    assert_eq "bench $*: exit code" "$exits_wanted" "$exits_code"
    [ ! -s "$work/exits.out" ] || die "bench $*: something on standard output"
    [ -s "$work/exits.err" ] || die "bench $*: nothing on standard error"
}

rows() {
    sql "SELECT COUNT(*) FROM $1"
}

# What a settlement decided and told, whatever the order of batches; ids of outbox rows and times apart.
outcomes() {
    sql "SELECT event_id, family_id, customer_id, bytes_used, quota_month FROM usage_record ORDER BY 1;
         SELECT event_id, reason, remaining_bytes, monthly_used_bytes, monthly_limit_bytes FROM usage_block ORDER BY 1;
         SELECT family_id, quota_month, total_quota_bytes, used_bytes FROM family_quota ORDER BY 1, 2;
         SELECT family_id, customer_id, quota_month, monthly_used_bytes, is_blocked, block_reason, state_event_time
            FROM customer_quota ORDER BY 1, 2, 3;
         SELECT family_id, customer_id, alert, event_id, remaining_bytes FROM alert_state ORDER BY 1, 2, 3;
         SELECT event_id, payload_json FROM usage_event_outbox ORDER BY 1" >"$work/outcomes.$1"
}

# Several batches, so that some repeats come in a later one.
{ cat "$work/owner.yaml" && echo 'batch: {max_events: 500}'; } >"$work/bench.yaml"
simulate events --seed-db --families 200 --count 4000 --rate 0 --broken 0.05 --duplicates 0.05 --seed "$seed"
fresh=$(produced '.produced.normal + .produced.late' events)

measure consume consume
holds consume '.events == 4000 and .seconds > 0 and .eventsPerSecond > 0 and .cpuMicros.self > 0'
measure consume_some consume --count 700 --pid "shell=$$"
holds consume_some '.events == 700 and (.cpuMicros | keys) == ["self", "shell"]'
assert_eq 'rows of the ledger after reading' 0 "$(rows consumer_ledger)"
echo "ok bench_tool: consume reads the whole topic, or as much as it's told, and nobody's offsets move"

measure script script
conflicts=$(produced '.brokenByCode.ID_CONFLICT // 0' events) # to the script alone some of them are new ones
holds script ".undecided == 0 and .allowed + .blocked + .repeats == .events and .events + .leftOut == 4000"
holds script ".allowed + .blocked >= $fresh and .allowed + .blocked <= $fresh + $conflicts and .blocked > 0 and .repeats > 0"
assert_eq 'decisions in Redis' "$fresh" "$(redis --scan --pattern 'event:dedup:usage:*' | wc -l)"
measure script_again script --count 1500
holds script_again '.events + .leftOut == 1500 and .allowed > 0'
assert_eq 'rows written by the script alone' '0 0 0' "$(rows usage_record) $(rows usage_block) $(rows consumer_ledger)"
echo "ok bench_tool: script decides each event, and MySQL knows nothing of it"

redis FLUSHALL >/dev/null
measure settle settle
holds settle ".settled + .blocked == .events and .events == $fresh and .events + .leftOut == 4000 and .blocked > 0"
assert_eq 'rows settled' "$(jq '.settled' "$work/settle.json")" "$(rows usage_record)"
assert_eq 'rows blocked' "$(jq '.blocked' "$work/settle.json")" "$(rows usage_block)"
assert_eq 'rows in the outbox' "$(jq '.notifications' "$work/settle.json")" "$(rows usage_event_outbox)"
assert_eq "the ledger's settled, blocked, ignored, gap" "$(jq -r '"\(.settled) \(.blocked) \(.leftOut) 0"' "$work/settle.json")" \
    "$(sql 'SELECT SUM(settled), SUM(blocked), SUM(ignored), SUM(gap) FROM consumer_ledger' | tr '\t' ' ')"
assert_eq 'rows of the real group in the ledger' 0 "$(rows "consumer_ledger WHERE group_id = '$group'")"
promises_hold
assert_eq 'keys in Redis after settling' 0 "$(redis DBSIZE)"
outcomes tool
exits 1 settle -c "$work/owner.yaml"
outcomes again
cmp -s "$work/outcomes.tool" "$work/outcomes.again" || die 'settling twice changed something'

# What tallyd itself makes of the same records is the same, to the byte.
for table in usage_record usage_block alert_state usage_event_outbox consumer_ledger customer_quota; do
    sql "DELETE FROM $table"
done
sql 'UPDATE family_quota SET used_bytes = 0, delta_bytes = 0, rev = 0'
launch tallyd "$tallyd" run -c "$work/config.yaml"
daemon=$launched
await 'all is settled and told' 60 caught_up
outcomes tallyd
cmp -s "$work/outcomes.tool" "$work/outcomes.tallyd" || die "the tool settled otherwise than tallyd: $(
    diff "$work/outcomes.tool" "$work/outcomes.tallyd" | head -n 6
)"
echo "ok bench_tool: settle writes what tallyd writes: $(jq '.settled' "$work/settle.json") settled, $(jq '.blocked' "$work/settle.json") blocked, $(
    jq '.notifications' "$work/settle.json"
) to be told"

told=$(rows usage_event_outbox)
measure latency latency --rate 500 --warmup 1 --seconds 2 --families 200 --pid "tallyd=$daemon"
holds latency '.produced == 1500 and .measured == 1000 and .acked.count == 1000 and .committed.count == 1000 and .achievedRate > 0'
holds latency '.committed | .p50Ms > 0 and .p50Ms <= .p95Ms and .p95Ms <= .p99Ms and .p99Ms <= .maxMs'
holds latency '.notification | .expected > 0 and .came == .expected and .count <= .came'
holds latency '(.cpuMicros | keys) == ["self", "tallyd"]'
assert_eq "the topic's end" 5500 "$(topic_end)"
assert_eq "the ledger's end" 5500 "$(ledger_end)"
assert_eq 'notifications stored meanwhile' "$(jq '.notification.expected' "$work/latency.json")" "$(($(rows usage_event_outbox) - told))"
measure lone lone --count 5 --pause-ms 1 --families 200
holds lone '.acked.count == 5 and .committed.count == 5 and .committed.p50Ms > 0'
assert_eq "the ledger's end" 5505 "$(ledger_end)"
kill -s TERM "$daemon"
ended tallyd "$daemon" 0
promises_hold
assert_eq 'rejected among the events to measure by' "$(produced .produced.broken events)" "$(sql 'SELECT SUM(rejected) FROM consumer_ledger')"
echo "ok bench_tool: latency sees each event committed and each notification come: 1000 and $(jq '.notification.count' "$work/latency.json")"

exits 2
exits 2 lone -c "$work/owner.yaml"
exits 2 consume -c "$work/owner.yaml" --rate 5
exits 2 consume -c "$work/owner.yaml" --count 0
exits 2 consume -c "$work/owner.yaml" --pid nobody
exits 1 consume -c "$work/no-such-file.yaml"
exits 1 consume -c "$work/owner.yaml" --pid "gone=$daemon"
echo 'ok bench_tool: called wrongly or not done, it says so'
