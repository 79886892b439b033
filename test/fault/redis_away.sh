#!/bin/sh
# SPDX-License-Identifier: MIT
# Redis is away for AWAY_SECONDS (8) while events keep coming. That costs time and nothing else: no restart, no left group, no busy
# loop, and the log says once a period what is waited for. The same with a Redis that is there but frozen, for a quarter as long.
set -eu
rate=${rate:-300}
# shellcheck source=test/fault/lib_redis.sh
. "$(dirname "$0")/lib_redis.sh"
away=${AWAY_SECONDS:-8}
report_ms=1000
redis_begin redis_away
sed -i "s/report_interval_ms: 100/report_interval_ms: $report_ms/" "$work/config.yaml"
daemon tallyd

lines() {
    tail -n "+$log_from" "$log" | grep -c "$1" || :
}

# away_for SECONDS: nothing is settled meanwhile; sets used (CPU), reports and others (lines in the log).
away_for() {
    mark
    ticks_before=$(ticks_of "$daemon")
    settled_before=$(ledger_end)
    sleep "$1"
    used=$(($(ticks_of "$daemon") - ticks_before))
    assert_eq 'settled without Redis' "$settled_before" "$(ledger_end)"
    reports=$(lines '"event":"decision_waiting"')
    others=$(lines '"event":"')
    others=$((others - reports))
    lives
    # two workers, each once a period, and progress every ten seconds
    [ "$reports" -ge $(($1 / 2)) ] || die "only $reports times it said what it waits for"
    [ "$reports" -le $((2 * ($1 + 1) * 1000 / report_ms)) ] || die "$reports times it said what it waits for"
    [ "$others" -le $(($1 / 10 + 5)) ] || die "$others other lines in its log"
    [ "$used" -le $((10 * $1)) ] || die "$used hundredths of a second of CPU in $1 s of waiting"
}

# Both workers have their half of the partitions.
both_read() {
    grep -q '"partitions_assigned","worker":0,"partitions":3}' "$log" && grep -q '"partitions_assigned","worker":1,"partitions":3}' "$log"
}
# How often a worker was given partitions, or left them.
moves() {
    grep -c '"event":"partitions_\(assigned\|revoked\)"' "$log" || :
}

await 'both workers read' 60 both_read
moves=$(moves)
stayed() {
    assert_eq 'partitions given or left' "$moves" "$(moves)"
}

traffic away
redis_stop
await 'it says that Redis is away' 60 said 'Connection refused'
away_for "$away"
redis_start
flows_on 200
stayed
calm
told 'away' "for $away s: $reports reports of it, $others other lines in the log, $used/100 s of CPU, no group left, $agreed figures in Redis agree"

traffic silent
kill -s STOP "$(cat "$redis_dir/pid")"
await 'it says that no answer comes' 60 said 'no answer in time'
frozen=$(((away + 3) / 4 + 2))
away_for "$frozen"
kill -s CONT "$(cat "$redis_dir/pid")"
flows_on 200
stayed
quiet
all_agree
told 'frozen for long' "for $frozen s: $reports reports of it, $others other lines in the log, $used/100 s of CPU, no group left, $agreed figures in Redis agree"

daemon_ends
