#!/bin/sh
# SPDX-License-Identifier: MIT
# measure.sh: what tallyd and its stores can do, on the stack whose variables are exported (scripts/bench/run.sh starts one). Prints one
# report and writes it to test/bench/results. Timing never makes it fail; a broken promise or a part that fails does (1).
#
# BENCH_EVENTS (1000000), BENCH_FAMILIES (50000), BENCH_REPEATS (3), BENCH_SECONDS (60), BENCH_RATE (5000): smaller for a trial, whose
# report is DATE-trial.md.
# BENCH_ONLY=REGEX: only rows whose names match (measure.sh --list). BENCH_RESULTS: another folder for the report.
# shellcheck disable=SC2154 # what lib.sh has set
set -eu

ROWS='consume script settle batch1 workers replay cold hot latency flush lone'
if [ "${1:-}" = --list ]; then
    echo "$ROWS"
    exit 0
fi
# shellcheck source=/dev/null
. "$(dirname "$0")/lib.sh"
# shellcheck source=/dev/null
. "$bench_folder/head.sh"

events=${BENCH_EVENTS:-1000000}
families=${BENCH_FAMILIES:-50000}
repeats=${BENCH_REPEATS:-3}
seconds=${BENCH_SECONDS:-60}
rate=${BENCH_RATE:-5000} # of the steady stream
SINGLES=50000 # events settled one by one, at most
LONE=200      # events that come alone, at most
trial="${BENCH_EVENTS:-}${BENCH_FAMILIES:-}${BENCH_REPEATS:-}${BENCH_SECONDS:-}${BENCH_RATE:-}${BENCH_ONLY:-}"

smaller() {
    if [ "$1" -lt "$2" ]; then echo "$1"; else echo "$2"; fi
}

wanted() {
    echo "$1" | grep -qE -e "${BENCH_ONLY:-.}"
}

# ---- before the rows --------------------------------------------------------------------------------------------------

# load TOPIC LABEL ARGUMENT...: a topic full of events.
load() {
    load_topic=$1
    shift
    topic_new "$load_topic"
    usage_topic=$load_topic
    owner
    simulate "$@" --families "$families" --rate 0
}

prepare() {
    say "$families families, $events events"
    simulate families --seed-db --families "$families"
    produce_warmers ''
    main_topic=$usage_topic
    simulate events --families "$families" --rate 0 --count "$events" --seed 1
    load "$bench_group.passes" passes --count "$pass_events" --seed 7
    pass_topic=$usage_topic
    settle_down
}

# ---- the parts alone --------------------------------------------------------------------------------------------------

ceiling() {
    say "$1 alone"
    start_over cold
    member_on "$main_topic"
    # shellcheck disable=SC2046 # several options
    with_tool "$1" --count "$2" $(server_pids)
    keep "$1" "$work/$1.tool"
}

row_consume() {
    ceiling consume "$events"
}
row_script() {
    ceiling script "$part_events"
}
row_settle() {
    ceiling settle "$part_events"
    promises_hold
}

# ---- end to end -------------------------------------------------------------------------------------------------------

# pass ROW STORES TOPIC LABEL [SECTIONS]: settles a topic whose summary is LABEL's; the row is kept once the promises hold.
pass() {
    start_over "$2"
    member_on "$3" "${5:-}"
    drain "$1"
    tick
    tick_produced "$4"
    drained "$1"
    keep "$1" "$work/$1.row"
    stores=used
}

row_batch1() {
    singles=$(smaller $SINGLES "$events")
    say "$singles events, one a transaction"
    load "$bench_group.singles" singles --count "$singles" --seed 2
    pass batch1 warm "$usage_topic" singles 'batch: {max_events: 1}'
}

# Other numbers of workers in turn, so that a machine that gets slower is no worker's fault. The last one is what a replay repeats.
row_workers() {
    for number in $(seq "$repeats"); do
        for workers in 2 1; do
            say "end to end, workers: $workers, pass $number of $repeats"
            pass "workers$workers" warm "$pass_topic" passes "workers: $workers"
        done
    done
    stores=settled
}

# The group goes back to the beginning; its ledger knows how far it was.
row_replay() {
    if [ "$stores" != settled ]; then
        say 'a first pass, to be replayed'
        pass workers1 warm "$pass_topic" passes 'workers: 1'
    fi
    say 'replay'
    replay_before=$(sql 'SELECT SUM(settled), SUM(blocked), SUM(duplicate), SUM(rejected) FROM consumer_ledger')
    printf '{"group":"%s","usageTopic":"%s","notificationTopic":"%s","dltTopic":"%s","partitions":%s,"copies":1,"reads":1,"ranMs":0}' \
        "$group" "$usage_topic" "$notification_topic" "$dlt_topic" "$partitions" >"$work/state.json"
    "$build/test/scenario" rewind "$work" >"$work/rewind.log" 2>"$work/rewind.err" || die "the group can't be moved back: exit code $?"
    drain replay
    assert_eq 'where the replay began' 0 "$(jq -s 'map(select(.event == "partition_opened").start) | add' "$work/replay.log")"
    assert_eq 'the ledger after the replay' "$replay_before" \
        "$(sql 'SELECT SUM(settled), SUM(blocked), SUM(duplicate), SUM(rejected) FROM consumer_ledger')"
    tick
    tick_produced passes
    drained replay
    keep replay "$work/replay.row"
    stores=used
}

# Nothing but this pass has been in the tables, so it's the one that can be audited.
row_cold() {
    say 'cold Redis'
    pass cold cold "$main_topic" events
    say 'audit'
    audit_since=$(date +%s)
    "$tallyd" audit -c "$work/owner.yaml" --json >"$work/audit.json" 2>"$work/audit.err" ||
        die "audit: exit code $?: $(jq -c '.checks[] | select(.status != "holds")' "$work/audit.json" | head -n 5)"
    jq -c --argjson seconds $(($(date +%s) - audit_since)) '{seconds: $seconds, checks: (.checks | length)}' "$work/audit.json" >"$work/audit.row"
    keep audit "$work/audit.row"
}

# Its quota is as good as endless: blocked events would be cheaper.
row_hot() {
    say 'one family takes half of all events'
    hot_family=$(sql 'SELECT MIN(family_id) FROM family_quota')
    load "$bench_group.hot" hot --count $(((events + 1) / 2)) --seed 3 --hot-family 0.5
    hot_total=$(sql "SELECT total_quota_bytes FROM family_quota WHERE family_id = $hot_family LIMIT 1")
    sql "UPDATE family_quota SET total_quota_bytes = 1 << 52 WHERE family_id = $hot_family"
    pass hot warm "$usage_topic" hot
    sql "UPDATE family_quota SET total_quota_bytes = $hot_total WHERE family_id = $hot_family"
}

# ---- a steady stream --------------------------------------------------------------------------------------------------

# What a steady stream finds: everything warm, as far as a row before hasn't left it so.
steady() {
    [ "$stores" = warm ] || start_over warm
    serve "$1"
}

# steadied ROW VERB ARGUMENT...: the tool's stream; the row is its figures and tallyd's.
steadied() {
    steadied_row=$1
    shift
    with_tool "$@"
    served "$steadied_row"
    tick
    keep "$steadied_row" "$work/$1.tool" "$work/$steadied_row.row"
}

row_latency() {
    say "$rate events/s for $seconds s"
    steady latency
    steadied latency latency --rate "$rate" --seconds "$seconds" --warmup "$warmup" --families "$families" --seed 4
}

row_flush() {
    say "$rate events/s, and Redis flushed in the midst"
    steady flush
    (sleep $((seconds / 6 + warmup)) && redis FLUSHALL >/dev/null) &
    pids="$pids $!"
    steadied flush latency --rate "$rate" --seconds $(((seconds + 1) / 2)) --warmup "$warmup" --families "$families" --seed 5
    stores=used
}

row_lone() {
    say 'lone events'
    steady lone
    steadied lone lone --count "$(smaller $LONE $((seconds * 4)))" --pause-ms 50 --families "$families" --seed 6
}

# ---- all of it --------------------------------------------------------------------------------------------------------

report() {
    jq -nc --argjson events "$events" --argjson families "$families" --argjson repeats "$repeats" --argjson rate "$rate" \
        --argjson seconds $(($(date +%s) - bench_since)) '$ARGS.named' >"$work/run.row"
    keep run "$work/run.row"
    jq -rs -L "$bench_folder" --slurpfile head "$work/head.json" -f "$bench_folder/report.jq" "$rows" >"$work/report.md" || die 'the report could not be made'
    report_kind=bench
    [ -z "$trial" ] || report_kind=trial
    report_to=$results/$(date +%F)-$report_kind.md
    mkdir -p "$results"
    cp "$work/report.md" "$report_to"
    cat "$work/report.md"
    say "the same is in $report_to"
}

bench_begin bench
for given in "BENCH_EVENTS $events" "BENCH_FAMILIES $families" "BENCH_REPEATS $repeats" "BENCH_SECONDS $seconds" "BENCH_RATE $rate"; do
    # shellcheck disable=SC2086 # a name and a value
    count $given
done
warmup=$(((seconds + 1) / 2)) # of a steady stream: until the broker's JVM has compiled what producing needs
part_events=$(((events * 3 + 9) / 10)) # of the parts that write: enough for a figure
pass_events=$(((events * 2 + 4) / 5))  # of each of the passes that are repeated
stores=used
prepare
head_json >"$work/head.json"
for row in $ROWS; do
    ! wanted "$row" || "row_$row"
done
report
