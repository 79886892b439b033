#!/bin/sh
# SPDX-License-Identifier: MIT
# Redis keeps what it holds, but doesn't take, doesn't answer, or answers too late: out of memory, read-only, too few replicas, master
# down, loading, busy, frozen, connections cut, script cache gone. tallyd waits, and what it had decided stands. ROUNDS (2): how often the short ones are done.
set -eu
rounds=${ROUNDS:-2}
# shellcheck source=test/fault/lib_redis.sh
. "$(dirname "$0")/lib_redis.sh"
redis_begin redis_refusing
daemon tallyd

retries_of_redis() {
    http_get tallyd /metrics | sed -n 's/^tallyd_retries_total{cause="redis"} //p'
}
retried_past() {
    [ "$(retries_of_redis)" -gt "$1" ]
}

# ---- out of memory ----------------------------------------------------------------------------------------------------
traffic oom
set_config maxmemory 1
await 'it says that Redis is full' 60 said 'OOM command not allowed'
set_config maxmemory 0
flows_on 200
quiet
all_agree
told 'out of memory' "maxmemory 1 for a while, $agreed figures in Redis agree"

# ---- read-only --------------------------------------------------------------------------------------------------------
traffic read_only
redis REPLICAOF 127.0.0.1 1 >/dev/null
await 'it says that Redis is read-only' 60 said "READONLY You can't write"
redis REPLICAOF NO ONE >/dev/null
flows_on 200
quiet
all_agree
told 'read-only' "a replica of nobody for a while, $agreed figures in Redis agree"

# ---- too few replicas -------------------------------------------------------------------------------------------------
traffic no_replicas
set_config min-replicas-to-write 1
await 'it says that Redis has too few replicas' 60 said 'NOREPLICAS Not enough good replicas to write'
tries=$(retries_of_redis)
await 'it tries on, and each try counts as Redis'\''s' 60 retried_past $((tries + 3))
set_config min-replicas-to-write 0
flows_on 200
quiet
all_agree
told 'too few replicas' "min-replicas-to-write 1 for a while, $agreed figures in Redis agree"

# ---- master down ------------------------------------------------------------------------------------------------------
traffic master_down
set_config replica-serve-stale-data no
redis REPLICAOF 127.0.0.1 1 >/dev/null
await 'it says that the master is down' 60 said 'MASTERDOWN'
redis REPLICAOF NO ONE >/dev/null
set_config replica-serve-stale-data yes
flows_on 200
quiet
all_agree
told 'master down' "$agreed figures in Redis agree"

# ---- loading ----------------------------------------------------------------------------------------------------------
traffic loading
keys=$(redis DBSIZE)
set_config loading-process-events-interval-bytes 1024
set_config key-load-delay $((1000000 / keys))
redis DEBUG RELOAD >/dev/null &
reload=$!
await 'it says that Redis loads' 60 said 'LOADING Redis is loading'
wait "$reload"
set_config key-load-delay 0
flows_on 200
quiet
all_agree
told 'loading' "$keys keys came back slowly, $agreed figures in Redis agree"

# ---- busy -------------------------------------------------------------------------------------------------------------
traffic busy
set_config busy-reply-threshold 50
redis EVAL 'while true do end' 0 >/dev/null 2>&1 &
endless=$!
await 'it says that Redis is busy' 60 said 'BUSY Redis is busy'
redis SCRIPT KILL >/dev/null
wait "$endless" || :
set_config busy-reply-threshold 5000
flows_on 200
quiet
all_agree
told 'busy' "with somebody's endless script, killed; $agreed figures in Redis agree"

# ---- frozen -----------------------------------------------------------------------------------------------------------
# For longer than tallyd waits for a reply; awake it serves what lies in the old connection, too.
traffic frozen
late=0
for _ in $(seq "$rounds"); do
    mark
    kill -s STOP "$(cat "$redis_dir/pid")"
    await 'it says that no answer comes' 60 said 'no answer in time'
    kill -s CONT "$(cat "$redis_dir/pid")"
    late=$((late + 1))
    flows_on 200
done
quiet
all_agree
told 'frozen' "$late times for longer than timeout_ms, $agreed figures in Redis agree"

# ---- connections cut --------------------------------------------------------------------------------------------------
traffic cut
cuts=0
for _ in $(seq $((rounds * 2))); do
    cuts=$((cuts + $(redis CLIENT KILL TYPE normal)))
    flows_on 30
done
[ "$cuts" -ge $((rounds * 2)) ] || die "only $cuts connections were cut"
await 'it says that a connection was cut' 60 said 'Server closed the connection'
quiet
all_agree
told 'connections cut' "$cuts of them, $agreed figures in Redis agree"

# ---- script cache gone ------------------------------------------------------------------------------------------------
traffic no_script
redis CONFIG RESETSTAT >/dev/null
flushes=0
while [ "$flushes" -lt $((rounds * 5)) ]; do
    redis SCRIPT FLUSH >/dev/null
    flushes=$((flushes + 1))
    flows_on 20
done
refused=$(info errorstats errorstat_NOSCRIPT | cut -d = -f 2)
[ "${refused:-0}" -ge "$flushes" ] || die "only ${refused:-0} scripts were gone"
quiet
all_agree
told 'script cache gone in mid-pipeline' "$flushes times, $refused calls found none, $agreed figures in Redis agree"

daemon_ends
