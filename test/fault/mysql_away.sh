#!/bin/sh
# SPDX-License-Identifier: MIT
# MySQL is there and takes nothing: read-only, frozen in the middle of a COMMIT, gone for a while (AWAY_SECONDS, 8). tallyd waits: it
# neither ends nor leaves the group nor runs idle, and the log says once a period what it waits for.
set -eu
away=${AWAY_SECONDS:-8}
# shellcheck source=test/fault/lib_mysql.sh
. "$(dirname "$0")/lib_mysql.sh"
report_interval_ms=1000
mysql_begin mysql_away

# A settlement stands before its COMMIT: at that fault point the daemon stops itself, so it stays there for as long as we like.
before_commit() { # before_commit HIT
    fired_once "settler.commit $1 " && stands_still "$daemon"
}
# stands_still PID: a signal stops a process thread by thread, and those that aren't stopped yet go on.
stands_still() {
    ! sed 's/.*) //' "/proc/$1/task"/*/stat | grep -qv '^T'
}

# ---- read-only --------------------------------------------------------------------------------------------------------

daemon_faulty tallyd 'settler.commit@10:stop'
traffic_on read_only
await 'a settlement stands before its COMMIT' 60 before_commit 10
admin 'SET GLOBAL read_only = ON'
kill -s CONT "$daemon"
await 'the COMMIT is refused' 20 said settlement_waiting '"error_code":1290' '"error":"COMMIT'
mark
await 'the log tells of it again' 20 said settlement_waiting '"error_code":1290'
admin 'SET GLOBAL read_only = OFF'
flows_on 100
quiet
daemon_ends
told 'read-only (1290)' 'a COMMIT refused, and all that came after it'

# ---- frozen -----------------------------------------------------------------------------------------------------------

# The server stands still when a COMMIT is sent, for longer than tallyd waits. Then it wakes, reads it, and does it.
settling_id() {
    admin "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx JOIN information_schema.processlist p ON p.id = trx_mysql_thread_id
        WHERE p.user = 'tallyd_run' AND trx_rows_modified > 3 LIMIT 1"
}
ended_session() {
    [ -z "$(admin "SELECT id FROM information_schema.processlist WHERE id = $1")" ]
}
batches() {
    sql 'SELECT SUM(batch_no) FROM consumer_ledger'
}
gave_up() {
    said settlement_waiting '"error_code":20' '"error":"COMMIT'
}
workers=1
timeout_ms=2000
session_timeout_ms=30000 # it's stopped now and then, and must not leave the group for that
mysql_configure ''
daemon_faulty frozen 'settler.commit@10:stop;settler.commit@20:stop;settler.commit@30:stop'
traffic_on frozen
late=0
for hit in 10 20 30; do
    mark
    await 'a settlement stands before its COMMIT' 60 before_commit "$hit"
    id=$(settling_id)
    before=$(batches)
    kill -s STOP "$(server_pid)"
    await 'the server stands still' 20 stands_still "$(server_pid)"
    kill -s CONT "$daemon"
    await 'tallyd has given the COMMIT up' 30 gave_up
    kill -s STOP "$daemon"
    await 'the daemon stands still' 20 stands_still "$daemon"
    kill -s CONT "$(server_pid)"
    await 'the session given up has ended' 20 ended_session "$id"
    [ "$(batches)" -gt "$before" ] || die 'the frozen COMMIT did nothing'
    kill -s CONT "$daemon"
    late=$((late + 1))
done
flows_on 100
quiet
assert_eq 'groups left' 0 "$(grep -c partitions_revoked "$log")"
daemon_ends
assert_eq 'fenced' 0 "$(figure "$log" stopped fenced)"
told 'frozen' "$late COMMITs done by the server after tallyd had given them up"

# ---- away -------------------------------------------------------------------------------------------------------------

# Both workers have their half of the partitions.
both_read() {
    grep -q '"partitions_assigned","worker":0,"partitions":3}' "$log" && grep -q '"partitions_assigned","worker":1,"partitions":3}' "$log"
}
# How often a worker was given partitions, or left them.
moves() {
    grep -c '"event":"partitions_\(assigned\|revoked\)"' "$log" || :
}

workers=2
timeout_ms=3000
session_timeout_ms=6000
mysql_configure ''
daemon away
await 'both workers read' 60 both_read
moves=$(moves)
traffic away
server stop-one
mark
from=$(ticks_of "$daemon")
sleep "$away"
used=$(($(ticks_of "$daemon") - from))
for event in settlement_waiting relay_waiting; do
    reports=$(said_since | grep -c "\"event\":\"$event\"")
    most=$((away * 2 + 2)) # a settler a worker
    if [ "$reports" -lt $((away / 2)) ] || [ "$reports" -gt "$most" ]; then
        die "$event $reports times in $away s"
    fi
done
lines=$(said_since | wc -l)
# a line a second each of two settlers, two workers and the relay, and their progress
[ "$lines" -le $((away * 6 + 6)) ] || die "$lines lines in $away s"
[ "$used" -le $((away * $(getconf CLK_TCK) / 4)) ] || die "$used ticks of CPU time in $away s"
server start-one
flows_on 100
quiet
assert_eq 'partitions given or left' "$moves" "$(moves)"
daemon_ends
told "away for $away s" "no restart, no group left, $used ticks of CPU time, $lines lines; said once a period what it waits for"
