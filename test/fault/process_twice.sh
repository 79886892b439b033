#!/bin/sh
# SPDX-License-Identifier: MIT
# Started twice by mistake: two daemons with the same configuration, client id included, at the same moment, and a third one later. They
# share the partitions, and none gets into another's way.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
begin process_twice
seed=${TALLYD_TEST_SEED:-91}

simulate seeding --seed-db --families 300
simulate_on events --families 300 --rate 1000 --duration 8s --seed "$seed"
events=$launched
daemons=
for label in one two; do
    launch $label "$tallyd" run -c "$work/config.yaml"
    daemons="$daemons $launched"
done
# at_work LABEL...: each of them has partitions, and between them all.
at_work() {
    for at_work_label in "$@"; do
        opened "$work/$at_work_label.log" || return 1
        figure "$work/$at_work_label.log" partitions_assigned partitions
    done | awk -v n=$# -v all="$partitions" '{ sum += $1 } END { exit !(NR == n && sum == all) }'
}
await 'both share the partitions' 60 at_work one two
launch three "$tallyd" run -c "$work/config.yaml"
daemons="$daemons $launched"
await 'all three share the partitions' 60 at_work one two three
simulate later --families 300 --rate 2000 --count 3000 --seed "$((seed + 1))"
ended 'simulate' "$events" 0
await 'all is settled' 60 caught_up
# shellcheck disable=SC2086 # a list of words
kill -s TERM $daemons
for daemon in $daemons; do
    ended "the daemon $daemon" "$daemon" 0
done
settled_all events later
shares=
for label in one two three; do
    share=$(figure "$work/$label.log" stopped settled)
    [ "$share" -gt 0 ] || die "$label settled nothing"
    shares="$shares $share"
done
echo "ok process: started twice, and once more: they settled$shares, $(ledger_end) records in all, every promise holds"
