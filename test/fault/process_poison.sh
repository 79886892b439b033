#!/bin/sh
# SPDX-License-Identifier: MIT
# Poison: as many broken events as good ones, of every kind. The broken ones end in the DLT, and the good ones among them aren't held up:
# each batch goes through as a whole, none comes back or is taken apart.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
begin process_poison
seed=${TALLYD_TEST_SEED:-95}

simulate seeding --seed-db --families 300
launch tallyd "$tallyd" run -c "$work/config.yaml"
daemon=$launched
await 'the daemon reads' 60 opened "$work/tallyd.log"
now_ms() {
    date +%s%3N
}
# took LABEL ARGUMENT...: how long 5,000 good events take from the first one sent to the last one settled.
took() {
    took_from=$(now_ms)
    simulate "$@" --families 300 --rate 0
    await 'all is settled' 60 caught_up
    took_ms=$(($(now_ms) - took_from))
}
took good --broken 0 --count 5000 --seed "$seed"
alone_ms=$took_ms
took mixed --broken 0.5 --count 10000 --seed "$((seed + 1))"
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
settled_all good mixed
broken=$(produced .produced.broken mixed)
[ "$broken" -gt 4500 ] || die "only $broken broken events"
assert_eq 'batches taken apart' 0 "$(figure "$work/tallyd.log" stopped refused)"
! grep -q '"event":"\(batch_split\|settlement_waiting\|decision_waiting\)"' "$work/tallyd.log" || die 'the flood made something wait'
echo "ok process: a flood of poison: $broken broken events in 10,000, all in the DLT; 5,000 good ones took $alone_ms ms alone," \
    "$((10000 - broken)) among them $took_ms ms; $(figure "$work/tallyd.log" stopped came_back) batches came back"
