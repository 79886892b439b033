#!/bin/sh
# SPDX-License-Identifier: MIT
# How fast a backlog of 50,000 events of 1,000 families is settled. A number, not a target; the sums must be right.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin throughput
seed=${TALLYD_TEST_SEED:-1}

simulate events --seed-db --count 50000 --rate 0 --seed "$seed"
launch tallyd "$tallyd" run -c "$work/config.yaml" --until-drained
ended 'the daemon' "$launched" 0
settled_all events
cached=$(cache_agrees 'f.used_bytes > 0')

# The first batches are cold: their families' warming is in the figures.
jq -rs '
    def ms: (.[:19] + "Z" | fromdate) * 1000 + (.[20:23] | tonumber);
    def at($event): map(select(.event == $event).ts | ms);
    (at("started")[0]) as $started | (at("partition_opened") | max) as $opened | (at("stopping")[0]) as $drained
    | (map(select(.event == "stopped"))[0]) as $stopped
    | "\(50000000 / ($drained - $opened) | floor) events/s (\($drained - $opened) ms after the group was joined), "
        + "\(50000000 / (($stopped.ts | ms) - $started) | floor) events/s from start to stop (\(($stopped.ts | ms) - $started) ms)",
      "settled \($stopped.settled), blocked \($stopped.blocked), duplicate \($stopped.duplicate), rejected \($stopped.rejected), batches \($stopped.batches), "
        + "came_back \($stopped.came_back), warmed \($stopped.warmed), lock_retries \($stopped.lock_retries), published \($stopped.published)"' \
    "$work/tallyd.log" >"$work/figures"
echo "ok throughput: every sum is right, $cached figures in Redis agree"
sed -n '2s/^/ok throughput: /p' "$work/figures"
sed -n '1s/^/ok throughput: /p' "$work/figures" # last: the line that a run of all tests shows
