#!/bin/sh
# SPDX-License-Identifier: MIT
# What `make bench-scale` runs, with tiny counts: a row for each size, and the pictures; a broken promise ends it with 1.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin bench_scale_smoke

scale() {
    scale_code=0
    env SCALE_FAMILIES='20 40' SCALE_ROWS=5000 SCALE_EVENTS=1000 SCALE_SECONDS=2 SCALE_RATE=200 SCALE_SOAK=3 BENCH_RESULTS="$work/results" "$@" \
        sh "$root/scripts/bench/scale.sh" >"$work/report" 2>"$work/scale.err" || scale_code=$?
}

scale
if ! command -v gnuplot >/dev/null; then
    grep -q 'gnuplot is missing' "$work/scale.err" || die 'it does not say that gnuplot is missing'
    echo 'ok bench_scale_smoke: gnuplot is missing, and said to be'
    exit 0
fi
assert_eq 'exit code' 0 "$scale_code"
cmp -s "$work/report" "$work"/results/*-scale-trial.md || die 'what was printed is not what lies in the file'
assert_eq 'rows of the two sizes' 4 "$(grep -cE '^\| (20|40) \|' "$work/report")"
grep -q '^Memory under a steady' "$work/report" || die 'nothing about memory'
grep -q '5,000 records of months before' "$work/report" || die 'nothing about the old records'
! grep -E 'null|NaN|nan' "$work/report" || die 'figures that are none'
for picture in throughput latency; do
    grep -q '</svg>' "$work"/results/*-scale-trial-$picture.svg || die "no picture of $picture"
done

scale SCALE_FAMILIES=20 BENCH_SPOIL='UPDATE customer_quota SET monthly_used_bytes = monthly_used_bytes + 1 LIMIT 1'
assert_eq 'exit code with a spoiled sum' 1 "$scale_code"
grep -q "^FAILED scale: a customer's use is the sum" "$work/scale.err" || die 'it does not say what is broken'
echo 'ok bench_scale_smoke: a row a size, pictures, and what is broken is refused'
