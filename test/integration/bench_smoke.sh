#!/bin/sh
# SPDX-License-Identifier: MIT
# What `make bench` runs, with tiny counts: every row is in the report, and none is left unmeasured. A promise that is broken, or a part
# that fails, ends it with 1, says which, and leaves no report.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin bench_smoke

# bench VARIABLE=VALUE...: its report and what it says are in $work.
bench() {
    bench_code=0
    env BENCH_EVENTS=1000 BENCH_FAMILIES=40 BENCH_REPEATS=1 BENCH_SECONDS=2 BENCH_RATE=500 BENCH_RESULTS="$work/results" "$@" \
        sh "$root/scripts/bench/measure.sh" >"$work/report" 2>"$work/bench.err" || bench_code=$?
}

# refuses WHAT VARIABLE=VALUE...: it ends with 1 and says WHAT.
refuses() {
    refuses_what=$1
    shift
    rm -rf "$work/results"
    bench "$@"
    assert_eq "$*: exit code" 1 "$bench_code"
    grep -q "^FAILED bench: $refuses_what" "$work/bench.err" || die "$*: it doesn't say that $refuses_what"
    [ ! -s "$work/report" ] || die "$*: there is a report"
    [ ! -e "$work/results" ] || die "$*: there is a file"
}

bench
assert_eq 'exit code' 0 "$bench_code"
cmp -s "$work/report" "$work"/results/*-trial.md || die 'what was printed is not what lies in the file'
for row in 'consumed and parsed only' 'the script alone' 'settled alone' '\*\*two-core bound' '\*\*end to end, workers: 1' '\*\*end to end, workers: 2' \
    'one event a transaction' 'replay, all known' 'cold Redis' 'one hot family' 'a steady 500/s' 'steady: produced → committed' \
    'steady: produced → notification' 'Redis flushed in the midst: produced → committed' 'a lone event' 'machine' 'versions' 'MariaDB'; do
    grep -q "^| $row" "$work/report" || die "no row: $row"
done
assert_eq 'targets' 12 "$(grep -c '^| [1-7] |' "$work/report")"
# what comes after the first minute isn't there in so short a run
assert_eq 'targets that were not measured' '' "$(grep 'not measured' "$work/report" | grep -v 'cold Redis')"
! grep -E 'null|NaN|nan' "$work/report" || die 'figures that are none'

refuses "a customer's use is the sum" BENCH_ONLY=cold BENCH_SPOIL='UPDATE customer_quota SET monthly_used_bytes = monthly_used_bytes + 1 LIMIT 1'
refuses "each partition's ledger adds up" BENCH_ONLY=cold BENCH_SPOIL='UPDATE consumer_ledger SET settled = settled + 1 LIMIT 1'
refuses 'everything in the outbox is sent' BENCH_ONLY=cold BENCH_SPOIL="UPDATE usage_event_outbox SET status = 'PUBLISH_PENDING' LIMIT 1"
refuses 'bench consume: exit code 1' BENCH_ONLY=consume BENCH_TOOL=/bin/false
refuses 'consume: consume.tool holds nothing' BENCH_ONLY=consume BENCH_TOOL=/bin/true
refuses 'BENCH_EVENTS=some must be' BENCH_EVENTS=some
echo "ok bench_smoke: every row is there, and what is broken is refused"
