#!/bin/sh
# SPDX-License-Identifier: MIT
# The only daemon is killed at random moments, again and again, while events flow: as it starts, joins, claims, decides, settles,
# publishes. KILLS=N: how often.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
session_timeout_ms=1000 # how long a dead one's partitions wait
message_timeout_ms=1000
lease_ms=7000 # how long its alerts do
export session_timeout_ms message_timeout_ms lease_ms
begin process_killed
seed=${TALLYD_TEST_SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
kills=${KILLS:-10}
echo "seed $seed"

# One line a life: whether it gets to work first, and the seconds to live from then or from its start.
lives() {
    awk -v seed="$seed" -v n="$kills" 'BEGIN { srand(seed); for (i = 0; i < n; i++) print(rand() < 0.3 ? "young" : "at_work", rand() * 0.8) }'
}

simulate seeding --seed-db --families 300
simulate_on events --families 300 --rate 2000 --duration "$((kills * 3 / 2))s" --seed "$seed"
events=$launched
killed=0 at_work=0
lives >"$work/lives"
while read -r when life; do
    launch "tallyd$killed" "$tallyd" run -c "$work/config.yaml"
    if [ "$when" = at_work ]; then
        await "daemon $killed reads" 60 opened "$work/tallyd$killed.log"
        at_work=$((at_work + 1))
    fi
    sleep "$life"
    kill -s KILL "$launched"
    ended "daemon $killed" "$launched" 137 2>/dev/null
    killed=$((killed + 1))
done <"$work/lives"
[ "$at_work" -gt 0 ] || die 'none was killed at work'
launch last "$tallyd" run -c "$work/config.yaml"
last=$launched
ended 'simulate' "$events" 0
await 'all is settled' 60 caught_up
kill -s TERM "$last"
ended 'the last daemon' "$last" 0
settled_all events
echo "ok process: killed anywhere: seed $seed, $killed SIGKILLs, $at_work of them at work; $(ledger_end) records, the last daemon saw" \
    "$(figure "$work/last.log" stopped duplicate) duplicates; every promise holds"
