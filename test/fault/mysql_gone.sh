#!/bin/sh
# SPDX-License-Identifier: MIT
# MySQL ends the connections: one by one (KILLS, 30), for their silence, all at once since there are too many, or with the server itself
# (CRASHES, 2).
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
    WHILE @kills < ${KILLS:-30} DO
        FOR s IN (SELECT id FROM information_schema.processlist WHERE user = 'tallyd_run' ORDER BY RAND() LIMIT 1) DO
            EXECUTE IMMEDIATE CONCAT('KILL CONNECTION ', s.id);
            SET @kills = @kills + 1;
        END FOR;
        DO SLEEP(0.05);
    END WHILE;
    SELECT @kills;
END //" >"$work/kills"
await 'the log tells of lost connections' 20 said settlement_waiting '"error_code":\(2006\|2013\|1927\)'
flows_on 100
quiet
told 'gone away, killed' "$(cat "$work/kills") connections of settlers, workers and relay killed," \
    "$(said_since | grep -c '_waiting"') waits told"

# ---- wait_timeout -----------------------------------------------------------------------------------------------------

# Only the relay, the probe and who reads what is paused look again and again, and keep their own.
all_dropped() {
    [ "$(sessions | wc -l)" -le 3 ]
}
mark
await 'the silent are dropped' 20 all_dropped
traffic silent
! said _waiting || die 'a connection that the server had dropped was used unasked'
quiet
told 'gone away, for silence' 'the connections of both workers and settlers dropped by the server, no statement lost to it'

# ---- too many ---------------------------------------------------------------------------------------------------------

# crowd N: strangers who keep a connection each, until they are sent away.
crowd() {
    crowd_left=$1
    while [ "$crowd_left" -gt 0 ]; do
        sql 'SELECT SLEEP(60)' >/dev/null 2>&1 &
        pids="$pids $!"
        crowd_left=$((crowd_left - 1))
    done
    await 'the strangers are there' 20 strangers_are "$1"
}
strangers() {
    admin "SELECT id FROM information_schema.processlist WHERE info = 'SELECT SLEEP(60)'"
}
strangers_are() {
    [ "$(strangers | wc -l)" = "$1" ]
}
crowd_leaves() {
    for crowd_id in $(strangers); do
        admin "KILL CONNECTION $crowd_id" || :
    done
}

# There are more than the server takes from now on, so that whoever has lost a connection gets no other.
traffic crowded
crowd 10
admin "
DELIMITER //
BEGIN NOT ATOMIC
    DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; -- it's gone already
    SET GLOBAL max_connections = 10;
    FOR s IN (SELECT id FROM information_schema.processlist WHERE user = 'tallyd_run') DO
        EXECUTE IMMEDIATE CONCAT('KILL CONNECTION ', s.id);
    END FOR;
END //"
await 'there are too many connections' 30 said settlement_waiting '"error_code":1040'
until admin 'SET GLOBAL max_connections = 100' 2>/dev/null; do # the one connection kept for us may be in use still
    sleep 0.1
done
crowd_leaves
flows_on 100
quiet
told 'too many connections (1040)' "$(said_since | grep -c '"error_code":1040') times told"

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
flows_on 100
quiet
told "too many connections of this user ($(said_since | grep -o '"error_code":1\(226\|203\)' | head -n 1 | cut -d : -f 2))" \
    "$(said_since | grep -c '"error_code":\(1226\|1203\)') times told"

# ---- the server -------------------------------------------------------------------------------------------------------

traffic restarted
server stop-one
server start-one
await 'the log tells of it' 20 said settlement_waiting '"error_code":20'
flows_on 100
quiet
told 'gone away, restarted' "$(said_since | grep -c '_waiting"') waits told"

traffic crashed
crashes=0
while [ "$crashes" -lt "${CRASHES:-2}" ]; do
    server stop-one KILL
    server start-one
    crashes=$((crashes + 1))
    flows_on 100
done
said settlement_waiting '"error_code":20' || die 'the log tells nothing of it'
quiet
told 'gone away, kill -9' "$crashes times, $(said_since | grep -c '_waiting"') waits told"
daemon_ends
assert_eq 'fenced' 0 "$(figure "$log" stopped fenced)"
