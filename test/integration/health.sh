#!/bin/sh
# SPDX-License-Identifier: MIT
# What a running tallyd says of itself over HTTP: each dependency frozen in turn, full and read-only ones, a paused partition, one that
# stands still while everything answers, the end, and a port that is taken. Who only waits stays healthy.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
session_timeout_ms=20000 # a frozen broker isn't also a rebalance
export session_timeout_ms
begin health 3
HUNG_MS=15000 # the least there is
locker=

# configure_health FILE STUCK_AFTER_MS: short patience, so that what is silent for longer than a call may take shows.
configure_health() {
    configure "$1" "health: {probe_interval_ms: 100, probe_timeout_ms: 400, stuck_after_ms: $2, hung_after_ms: $HUNG_MS}"
    sed -i 's/^mysql:$/&\n  timeout_ms: 2000\n  connect_timeout_ms: 2000\n  lock_wait_timeout_ms: 1000/
        s/^redis:$/&\n  timeout_ms: 1000\n  connect_timeout_ms: 1000/' "$1"
}

server_pid() {
    cat "$TALLYD_TEST_DIR/$1/pid"
}

admin() {
    mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" -BNr "$MYSQL_DATABASE" -e "$1"
}

# Somebody else's transaction holds the ledger's rows: no settlement gets through.
lock() {
    mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" "$MYSQL_DATABASE" >"$work/lock.out" 2>&1 <<END &
BEGIN;
SELECT partition_id FROM consumer_ledger WHERE topic = '$usage_topic' FOR UPDATE;
SELECT SLEEP(600);
END
    locker=$!
    pids="$pids $locker"
    await 'the rows are held' 30 locked
}
locked() {
    [ "$(admin "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP(600)%'")" = 1 ]
}
unlock() {
    [ -n "$locker" ] || return 0
    unlock_id=$(admin "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP(600)%'")
    [ -z "$unlock_id" ] || admin "KILL $unlock_id" || :
    wait "$locker" 2>/dev/null || :
    locker=
}

# However this ends, the next test finds the servers as they were.
leave() {
    thaw
    unlock
    admin 'SET GLOBAL read_only = OFF' || :
    redis REPLICAOF NO ONE >/dev/null || :
    redis CONFIG SET maxmemory 0 min-replicas-to-write 0 >/dev/null || :
    finish
}
trap leave EXIT

# readyz FILTER: what it says, with the status as .code.
readyz() {
    http_get tallyd /readyz -w '{"code":%{http_code}}' | jq -s -r ".[0] + .[1] | $1"
}

is_ready() {
    [ "$(readyz '.code, .state' | tr '\n' ' ')" = '200 ready ' ]
}

# is_down NAME TEXT: it's said that this dependency doesn't do its work, since when, and why.
is_down() {
    [ "$(readyz ".code as \$code | .reasons[] | select(.dependency == \"$1\" and .since > $began_ms and (.error | contains(\"$2\"))) | \$code")" = 503 ]
}

metric() {
    http_get tallyd /metrics | sed -n "s/^$1 //p"
}

healthy() {
    [ "$(http_code tallyd /healthz)" = 200 ] || die "healthz says $(http_get tallyd /healthz)"
}

now_ms() {
    date +%s%3N
}

thaw() {
    for thaw_server in mysql redis kafka; do
        kill -s CONT "$(server_pid $thaw_server)" 2>/dev/null || :
    done
}

# frozen NAME...: each is told within its limit, by name, and who waits is healthy.
frozen() {
    began_ms=$(($(now_ms) - 1))
    for frozen_name; do
        kill -s STOP "$(server_pid "$frozen_name")"
    done
    for frozen_name; do
        await "$frozen_name is down" 30 is_down "$frozen_name" ''
        assert_eq "the metric of $frozen_name" 0 "$(metric "tallyd_dependency_up{dependency=\"$frozen_name\"}")"
    done
    healthy
}

# thawed NAME...: it's over when it's over.
thawed() {
    thaw
    await "ready after $*" 60 is_ready
    for thawed_name; do
        assert_eq "the metric of $thawed_name" 1 "$(metric "tallyd_dependency_up{dependency=\"$thawed_name\"}")"
        jq -r 'select(.event == "state_changed" and .to == "degraded").reason' "$work/tallyd.log" | grep -q "$thawed_name is down" ||
            die "the log doesn't say that $thawed_name was down"
    done
}

# All frozen, for longer than a thread may be silent: each that waits shows all the time that it's alive.
frozen_for_long() {
    frozen mysql redis kafka
    until [ "$(now_ms)" -gt $((began_ms + HUNG_MS + 1500)) ]; do
        healthy
        for long_name in mysql redis kafka; do
            is_down "$long_name" '' || die "$long_name is frozen, and readyz says $(readyz .)"
        done
        sleep 0.2
    done
    thawed mysql redis kafka
}

# ---- the beginning ----------------------------------------------------------------------------------------------------

simulate seeding --seed-db --families 60
configure_health "$work/config.yaml" 60000
launch tallyd "$tallyd" run -c "$work/config.yaml"
daemon=$launched
await 'HTTP is served' 30 http_serves tallyd
await 'ready' 60 is_ready
healthy
http_get tallyd / >"$work/page.html"
grep -qi '<!doctype html>' "$work/page.html" || die 'there is no page'
assert_eq 'status.json: group' "$group" "$(http_get tallyd /status.json | jq -r .groupId)"
assert_eq 'an unknown path' 404 "$(http_code tallyd /metrics/)"
assert_eq 'another host' 400 "$(http_get tallyd /status.json -o /dev/null -w '%{http_code}' -H 'Host: rebound.example')"
assert_eq 'a method that writes' 405 "$(http_get tallyd /readyz -o /dev/null -w '%{http_code}' -X POST)"

# ---- a second one on the same port ------------------------------------------------------------------------------------

taken=$(http_at tallyd)
http_port=${taken##*:}
configure_health "$work/taken.yaml" 60000
sed -i 's/^  group_id: .*/  group_id: another/' "$work/taken.yaml"
http_port=0
code=0
timeout 30 "$tallyd" run -c "$work/taken.yaml" >"$work/taken.log" 2>"$work/taken.err" || code=$?
assert_eq 'a port in use: exit code' 1 "$code"
grep -q "^tallyd run: internal: http: 127.0.0.1:${taken##*:}: Address already in use.*http.port" "$work/taken.err" ||
    die "a port in use: says $(cat "$work/taken.err")"
! grep -q partitions_assigned "$work/taken.log" || die 'it joined its group before it looked at its port'
echo 'ok health: a port in use is said before anything is joined'

# ---- dependencies -----------------------------------------------------------------------------------------------------

simulate_on steady --families 60 --rate 60 --count 100000
for server in mysql redis kafka; do
    frozen "$server"
    assert_eq 'who is down' "$server" "$(readyz '[.reasons[].dependency] | join(" ")')"
    thawed "$server"
done
echo 'ok health: a frozen MySQL, Redis and Kafka are told, each by its name'
frozen_for_long
echo "ok health: with all of them frozen for $((HUNG_MS + 1500)) ms nobody who waits is taken for hung"
began_ms=0
admin 'SET GLOBAL read_only = ON'
await 'MySQL is read-only' 8 is_down mysql 'the server is read-only'
admin 'SET GLOBAL read_only = OFF'
# What Redis refuses is what is written: a script that comes to no write runs all the same.
redis CONFIG SET maxmemory 1 >/dev/null
await 'Redis is full' 30 is_down redis 'OOM command not allowed'
redis CONFIG SET maxmemory 0 >/dev/null
redis CONFIG SET min-replicas-to-write 1 >/dev/null
await 'Redis has too few replicas' 30 is_down redis 'NOREPLICAS'
redis CONFIG SET min-replicas-to-write 0 >/dev/null
await 'ready' 30 is_ready
redis REPLICAOF 127.0.0.1 1 >/dev/null
await 'Redis is a replica' 30 is_down redis 'READONLY'
redis REPLICAOF NO ONE >/dev/null
# After a save that failed, here because a folder is in its file's way, Redis refuses writes.
dump=$(redis CONFIG GET dir | tail -n 1)/$(redis CONFIG GET dbfilename | tail -n 1)
saves=$(redis CONFIG GET save | tail -n 1)
rm -f "$dump"
mkdir "$dump"
redis CONFIG SET save '3600 1' >/dev/null
redis BGSAVE >/dev/null
await 'Redis refuses writes' 30 is_down redis MISCONF
rmdir "$dump"
redis BGSAVE >/dev/null
redis CONFIG SET save "$saves" >/dev/null
redis SCRIPT FLUSH >/dev/null # which everybody deals with
await 'ready' 30 is_ready
redis --scan --pattern 'family:0:*' >"$work/left"
assert_eq 'what the probe leaves in Redis' '' "$(cat "$work/left")"
echo 'ok health: a read-only MySQL, a Redis that is full, a replica, without replicas or whose save failed answer, and are down all the same'

# ---- a paused partition -----------------------------------------------------------------------------------------------

paused() {
    [ "$(readyz '.code, .state, (.paused[] | .partition, (.since > 0))' | tr '\n' ' ')" = '200 ready 1 true ' ]
}
not_paused() {
    [ "$(readyz '.code, (.paused | length)' | tr '\n' ' ')" = '200 0 ' ]
}
paused_age() {
    [ "$(http_get tallyd /status.json | jq -r '.partitions[] | select(.id == 1 and .lag > 0 and .progressAgeMs > 0) | .paused')" = true ] &&
        metric 'tallyd_partition_paused_age_seconds{partition="1"}' | grep -qv '^0$'
}
"$tallyd" pause -c "$work/config.yaml" --partition 1 >"$work/pause.out"
await 'the pause is told' 30 paused
await 'its age is told' 30 paused_age
"$tallyd" resume -c "$work/config.yaml" --partition 1 >"$work/pause.out"
await 'the pause is over' 30 not_paused
echo 'ok health: a paused partition is told, and ready'
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0

# ---- a partition that stands still while everything answers -----------------------------------------------------------

stuck() {
    [ "$(readyz '[.code, .state, ([.reasons[] | select(.partition != null and .lag > 0 and .unmovedForMs >= 1000)] | length > 0),
        ([.reasons[] | select(.dependency != null)] | length)] | join(" ")')" = '503 stuck true 0' ]
}
rm "$work/tallyd.log"
configure_health "$work/config.yaml" 1000
launch tallyd "$tallyd" run -c "$work/config.yaml"
daemon=$launched
await 'HTTP is served' 30 http_serves tallyd
await 'ready' 60 is_ready
lock
await 'stuck' 30 stuck
assert_eq 'the metric of the state' 1 "$(metric 'tallyd_state{state="stuck"}')"
healthy
unlock
await 'ready' 30 is_ready
echo 'ok health: partitions that stand still while everything answers are told'

# ---- the end ----------------------------------------------------------------------------------------------------------

stopping() {
    [ "$(readyz '[.code, .state] | join(" ")')" = '503 stopping' ]
}
lock
await 'a settlement is held up' 30 stuck
kill -s TERM "$daemon"
await 'it says that it stops' 10 stopping
healthy
unlock # what was in flight settles
ended 'the daemon' "$daemon" 0
assert_eq 'states told in the log, the last' stopping "$(figure "$work/tallyd.log" state_changed to)"
committed_below_ledger
promises_hold
echo 'ok health: it is unready from the signal on, and ends what it has begun'
