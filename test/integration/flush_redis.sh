#!/bin/sh
# SPDX-License-Identifier: MIT
# Redis loses everything, again and again, in the middle of 50,000 events; it loses its scripts, and it has no room for a moment. The
# sums are right without any repair.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin flush_redis
seed=${TALLYD_TEST_SEED:-21}

simulate seeding --seed-db --families 300
launch tallyd "$tallyd" run -c "$work/config.yaml"
daemon=$launched
await 'the daemon reads' 20 opened "$work/tallyd.log"
simulate_on events --families 300 --rate 8000 --count 50000 --seed "$seed"
events=$launched
flushes=0
while kill -0 "$events" 2>/dev/null; do
    redis FLUSHALL >/dev/null
    flushes=$((flushes + 1))
    case $flushes in
    2 | 6) redis SCRIPT FLUSH >/dev/null ;;
    4)
        redis CONFIG SET maxmemory 1 >/dev/null
        sleep 0.3
        redis CONFIG SET maxmemory 0 >/dev/null
        ;;
    esac
    sleep 0.3
done
ended 'simulate' "$events" 0
[ "$flushes" -gt 6 ] || die "only $flushes flushes happened"
await 'all is settled' 120 caught_up
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
settled_all events
echo "ok flush_redis: $(ledger_end) records and $flushes flushes; $(figure "$work/tallyd.log" stopped warmed) families warmed," \
    "$(figure "$work/tallyd.log" stopped came_back) settlements came back; every sum is right"
