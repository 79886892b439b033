#!/bin/sh
# SPDX-License-Identifier: MIT
# MySQL ends the connections: one by one, for their silence, all at once since there are too many, or with the server itself.
set -eu
# shellcheck source=test/fault/lib_mysql.sh
. "$(dirname "$0")/lib_mysql.sh"
session_wait_timeout_ms=3000
mysql_begin mysql_gone
daemon tallyd

# ---- KILL -------------------------------------------------------------------------------------------------------------

traffic killed
# one after the other, each time a random one
admin "
DELIMITER //
BEGIN NOT ATOMIC
    DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; -- it's gone already
    SET @kills = 0;
    WHILE @kills < ${KILLS:-60} DO
        FOR s IN (SELECT id FROM information_schema.processlist WHERE user = 'tallyd_run' ORDER BY RAND() LIMIT 1) DO
            EXECUTE IMMEDIATE CONCAT('KILL CONNECTION ', s.id);
            SET @kills = @kills + 1;
        END FOR;
        DO SLEEP(0.05);
    END WHILE;
    SELECT @kills;
END //" >"$work/kills"
await 'the log tells of lost connections' 20 said settlement_waiting '"error_code":\(2006\|2013\|1927\)'
flows_on 200
quiet
told 'gone away, killed' "$(cat "$work/kills") connections of settlers, workers and relay killed," \
    "$(said_since | grep -c '_waiting"') waits told"

# ---- wait_timeout -----------------------------------------------------------------------------------------------------

# Only the relay, which looks for rows again and again, keeps its own.
all_dropped() {
    [ "$(sessions | wc -l)" -le 1 ]
}
mark
await 'the silent are dropped' 20 all_dropped
traffic silent
! said _waiting || die 'a connection that the server had dropped was used unasked'
quiet
told 'gone away, for silence' 'the connections of both workers and settlers dropped by the server, no statement lost to it'

# ---- too many ---------------------------------------------------------------------------------------------------------

# crowd N: strangers who take every connection there is, in front of the daemon's.
crowd() {
    crowd_pids=
    crowd_left=$1
    while [ "$crowd_left" -gt 0 ]; do
        while [ ! -e "$work/room" ]; do
            sql 'SELECT SLEEP(30)' >/dev/null 2>&1 || :
        done &
        crowd_pids="$crowd_pids $!"
        crowd_left=$((crowd_left - 1))
    done
    pids="$pids $crowd_pids"
}

crowd_leaves() {
    : >"$work/room"
    until admin 'SET GLOBAL max_connections = 100' 2>/dev/null; do # the one connection kept for us may be in use still
        sleep 0.1
    done
    for crowd_id in $(admin "SELECT id FROM information_schema.processlist WHERE info = 'SELECT SLEEP(30)'"); do
        admin "KILL CONNECTION $crowd_id" 2>/dev/null || :
    done
}

traffic crowded
admin 'SET GLOBAL max_connections = 10'
crowd 12
kill_all_and_look() {
    for id in $(sessions); do
        admin "KILL CONNECTION $id" 2>/dev/null || :
    done
    said settlement_waiting '"error_code":1040'
}
await 'there are too many connections' 30 kill_all_and_look
crowd_leaves
refused=$(status_of Connection_errors_max_connections)
flows_on 200
quiet
told 'too many connections (1040)' "$refused connections refused, $(said_since | grep -c '"error_code":1040') times told"

traffic limited
admin "ALTER USER tallyd_run@'%' WITH MAX_USER_CONNECTIONS 1"
kill_and_look() {
    for id in $(sessions | shuf -n 1); do
        admin "KILL CONNECTION $id" 2>/dev/null || :
    done
    said settlement_waiting '"error_code":\(1226\|1203\)'
}
await 'there are too many for this user' 30 kill_and_look
admin "ALTER USER tallyd_run@'%' WITH MAX_USER_CONNECTIONS 0"
flows_on 200
quiet
told "too many connections of this user ($(said_since | grep -o '"error_code":1\(226\|203\)' | head -n 1 | cut -d : -f 2))" \
    "$(said_since | grep -c '"error_code":\(1226\|1203\)') times told"

# ---- the server -------------------------------------------------------------------------------------------------------

traffic restarted
server stop-one
server start-one
await 'the log tells of it' 20 said settlement_waiting '"error_code":20'
flows_on 200
quiet
told 'gone away, restarted' "$(said_since | grep -c '_waiting"') waits told"

traffic crashed
crashes=0
while [ "$crashes" -lt 3 ]; do
    server stop-one KILL
    server start-one
    crashes=$((crashes + 1))
    flows_on 200
done
said settlement_waiting '"error_code":20' || die 'the log tells nothing of it'
quiet
told 'gone away, kill -9' "$crashes times, $(said_since | grep -c '_waiting"') waits told"
daemon_ends
assert_eq 'fenced' 0 "$(figure "$log" stopped fenced)"
