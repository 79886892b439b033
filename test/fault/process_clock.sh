#!/bin/sh
# SPDX-License-Identifier: MIT
# The wall clock of one of two daemons is stepped by hours, forwards and backwards, while events flow and while none do; the other one's
# and MySQL's stay as they are, so the two machines' clocks differ as well. It costs time at most: leases go by the database's clock.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
begin process_clock
seed=${TALLYD_TEST_SEED:-81}
shim=$build/test/clock_step.so
[ -e "$shim" ] || die "$shim isn't built"
sed -i '$ a log:\n  level: debug' "$work/config.yaml" # lines by which the clock can be read

hours() {
    echo $(($1 * 3600000))
}
# ahead_by HOURS: the daemon's latest lines are by a clock that many hours ahead.
ahead_by() {
    ahead_by_ts=$(tail -n 1 "$work/stepped.log" | jq -r '.ts // ""' 2>/dev/null) || return 1
    ahead_by_off=$((($(date -d "$ahead_by_ts" +%s) - $(date +%s)) / 60 - $1 * 60))
    [ "$ahead_by_off" -ge -2 ] && [ "$ahead_by_off" -le 2 ]
}
grown() {
    [ "$(ledger_end)" -gt "$1" ]
}
labels='events later'
# step HOURS: and afterwards both settle on.
step() {
    hours "$1" >"$work/clock.new"
    mv "$work/clock.new" "$work/clock"
    await "the clock is $1 hours ahead" 60 ahead_by "$1"
    step_from=$(ledger_end)
    simulate "after$1" --families 300 --rate 2000 --count 500 --seed "$((seed + 50 + $1))"
    labels="$labels after$1"
    await 'more is settled' 60 grown "$step_from"
}

simulate seeding --seed-db --families 300
hours 2 >"$work/clock"
launch stepped env LD_PRELOAD="$shim" TALLYD_CLOCK_FILE="$work/clock" "$tallyd" run -c "$work/config.yaml"
stepped=$launched
launch steady "$tallyd" run -c "$work/config.yaml"
steady=$launched
both_read() {
    opened "$work/stepped.log" && opened "$work/steady.log"
}
await 'both read' 60 both_read
simulate_on events --families 300 --rate 1000 --duration 8s --seed "$seed"
events=$launched
await 'some is settled' 60 grown 500
for to in 5 -3 26 0 -7; do
    step "$to"
done
ended 'simulate' "$events" 0
await 'all is settled' 60 caught_up

# With nothing to do it steps back once more: whoever waits by the wall clock now waits for hours. The work goes on all the same.
hours -16 >"$work/clock"
sleep 1
simulate later --families 300 --rate 1000 --count 1000 --seed "$((seed + 1))"
await 'all of it is settled' 60 caught_up
ahead_by -16 || await 'the clock is 16 hours behind' 60 ahead_by -16
! grep -q '"event":"relay_waiting"' "$work/stepped.log" || die 'the clock kept alerts from being published'
# Told to end with nothing to do, just after a step back.
hours -40 >"$work/clock"
sleep 1
kill -s TERM "$stepped" "$steady"
ended 'the stepped daemon' "$stepped" 0
ended 'the steady daemon' "$steady" 0
# shellcheck disable=SC2086 # a list of words
settled_all $labels
for label in stepped steady; do
    [ "$(figure "$work/$label.log" stopped settled)" -gt 0 ] || die "the $label one settled nothing"
done
echo "ok process: clock stepped, and differing from MySQL's: by 2, 5, -3, 26, 0, -7, -16 hours; $(ledger_end) records, the stepped one settled" \
    "$(figure "$work/stepped.log" stopped settled), warmed $(figure "$work/stepped.log" stopped warmed), saw" \
    "$(figure "$work/stepped.log" stopped duplicate) duplicates; every promise holds"
