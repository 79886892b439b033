#!/bin/sh
# SPDX-License-Identifier: MIT
# Redis is killed and comes back: empty, with an old dump, as a replica that misses the last writes. tallyd isn't restarted.
set -eu
# shellcheck source=test/fault/lib_redis.sh
. "$(dirname "$0")/lib_redis.sh"
redis_begin redis_restarted
daemon tallyd
dump=$redis_dir/dump.rdb

# Whatever was left of it, it's gone; the daemon noticed.
kill_redis() {
    redis_stop
    await 'it says that Redis is away' 60 said 'Connection refused'
}

# ---- restarted empty --------------------------------------------------------------------------------------------------
traffic empty
rm -f "$dump"
before=$(redis DBSIZE)
[ "$before" -gt 100 ] || die "only $before keys were there"
kill_redis
redis_start
warm_again() { [ "$(redis DBSIZE)" -gt 100 ]; }
await 'it is warmed again' 60 warm_again
flows_on 200
calm
told 'restarted empty' "$before keys gone, $agreed figures in Redis agree"

# ---- restarted from an old dump ---------------------------------------------------------------------------------------
# While the dump is made totals change, so that it holds generations, results and marks of decisions that are dropped; then they are
# what they were, and the dump's generations could be right again. Loading it takes a while.
change_totals() {
    sql "UPDATE family_quota SET total_quota_bytes = total_quota_bytes $1"
}

traffic old_dump
change_totals '+ 1000000'
redis SAVE >/dev/null
mv "$dump" "$work/old.rdb"
flows_on 400
change_totals '- 1000000'
flows_on 400
kill -s STOP "$daemon"
redis_stop
cp "$work/old.rdb" "$dump"
echo "key-load-delay 100" >>"$redis_dir/redis.conf"
redis_start
await 'Redis has loaded the dump' 60 loaded
off=$(figures_off)
[ "$off" -gt 20 ] || die "only $off figures of the dump were old"
kill -s CONT "$daemon"
sed -i '/^key-load-delay /d' "$redis_dir/redis.conf"
flows_on 400
calm
told 'restarted from an old dump' "$off figures in it were old, $agreed in Redis agree now"

# ---- failed over to a replica that misses the last writes -------------------------------------------------------------
# The replica gets the address; the old master follows it, and tells those still connected that it's read-only.
port=$REDIS_PORT
replica_port=$("$build/test/freeport" 1)
cat >"$work/replica.conf" <<END_OF_FILE
bind 127.0.0.1
port $replica_port
dir $work
save ""
$(grep '^user tallyd_run ' "$redis_dir/redis.conf")
END_OF_FILE
launch replica redis-server "$work/replica.conf" --replicaof 127.0.0.1 "$port"
replica=$launched
at() {
    at_port=$1
    shift
    redis-cli -h 127.0.0.1 -p "$at_port" "$@"
}
linked() { at "$1" INFO replication | grep -q '^master_link_status:up'; }

traffic failover
await 'the replica follows' 60 linked "$replica_port"
at "$replica_port" REPLICAOF 127.0.0.1 1 >/dev/null
flows_on 400
mark
spare=$("$build/test/freeport" 1)
set_config port "$spare"
missed=$(($(at "$spare" DBSIZE) - $(at "$replica_port" DBSIZE)))
[ "$missed" -gt 100 ] || die "the replica misses only $missed keys"
at "$replica_port" REPLICAOF NO ONE >/dev/null
at "$replica_port" CONFIG SET port "$port" >/dev/null
at "$spare" REPLICAOF 127.0.0.1 "$port" >/dev/null
await 'it says that the old master is read-only' 60 said "READONLY You can't write"
decides() { redis INFO commandstats | grep -q '^cmdstat_evalsha:'; }
await 'it decides on the new master' 60 decides
flows_on 400
calm
await 'the old master follows' 60 linked "$spare"
told 'failed over to a replica' "that misses $missed keys, $agreed figures in the new master agree"

# Nor does the way back stop it.
at "$spare" REPLICAOF NO ONE >/dev/null
kill -s KILL "$replica"
at "$spare" CONFIG SET port "$port" >/dev/null
daemon_ends
