#!/bin/sh
# SPDX-License-Identifier: MIT
# MySQL is there and takes nothing: read-only, frozen in the middle of a COMMIT, gone for a while (AWAY_SECONDS, 10). tallyd waits: it
# neither ends nor leaves the group nor runs idle, and the log says once a period what it waits for.
set -eu
# shellcheck source=test/fault/lib_mysql.sh
. "$(dirname "$0")/lib_mysql.sh"
report_interval_ms=1000
mysql_begin mysql_away

# ---- read-only --------------------------------------------------------------------------------------------------------

# It begins between the last statement of a settlement and its COMMIT.
daemon_faulty tallyd 'settler.commit@20:delay=1500'
traffic read_only
await 'a settlement stands before its COMMIT' 60 fired_once 'settler.commit 20 '
admin 'SET GLOBAL read_only = ON'
await 'the COMMIT is refused' 20 said settlement_waiting '"error_code":1290' '"error":"COMMIT'
mark
await 'the log tells of it again' 20 said settlement_waiting '"error_code":1290'
admin 'SET GLOBAL read_only = OFF'
flows_on 200
quiet
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
daemon_ends
workers=1
mysql_configure ''
daemon_faulty frozen 'settler.commit@20:delay=4000;settler.commit@40:delay=4000;settler.commit@60:delay=4000'
traffic frozen
late=0
for hit in 20 40 60; do
    mark
    await 'a settlement stands before its COMMIT' 60 fired_once "settler.commit $hit "
    id=$(settling_id)
    before=$(batches)
    kill -s STOP "$(server_pid)"
    await 'tallyd has given the COMMIT up' 30 gave_up
    kill -s STOP "$daemon"
    kill -s CONT "$(server_pid)"
    await 'the session given up has ended' 20 ended_session "$id"
    [ "$(batches)" -gt "$before" ] || die 'the frozen COMMIT did nothing'
    kill -s CONT "$daemon"
    late=$((late + 1))
done
flows_on 200
quiet
assert_eq 'groups left' 0 "$(grep -c partitions_revoked "$log")"
daemon_ends
assert_eq 'fenced' 0 "$(figure "$log" stopped fenced)"
told 'frozen' "$late COMMITs done by the server after tallyd had given them up"

# ---- away -------------------------------------------------------------------------------------------------------------

# CPU time of the daemon in ticks.
ticks() {
    sed 's/.*) //' "/proc/$daemon/stat" | awk '{ print $12 + $13 }'
}

workers=2
mysql_configure ''
daemon away
traffic away
server stop-one
mark
from=$(ticks)
sleep "${AWAY_SECONDS:-10}"
used=$(($(ticks) - from))
for event in settlement_waiting relay_waiting; do
    reports=$(said_since | grep -c "\"event\":\"$event\"")
    most=$((${AWAY_SECONDS:-10} * 2 + 2)) # a settler a worker
    if [ "$reports" -lt $((${AWAY_SECONDS:-10} / 2)) ] || [ "$reports" -gt "$most" ]; then
        die "$event $reports times in ${AWAY_SECONDS:-10} s"
    fi
done
lines=$(said_since | wc -l)
# a line a second each of two settlers, two workers and the relay, and their progress
[ "$lines" -le $((${AWAY_SECONDS:-10} * 6 + 6)) ] || die "$lines lines in ${AWAY_SECONDS:-10} s"
[ "$used" -le $((${AWAY_SECONDS:-10} * $(getconf CLK_TCK) / 4)) ] || die "$used ticks of CPU time in ${AWAY_SECONDS:-10} s"
server start-one
flows_on 200
quiet
assert_eq 'groups left' 0 "$(grep -c partitions_revoked "$log")"
daemon_ends
told "away for ${AWAY_SECONDS:-10} s" "no restart, no group left, $used ticks of CPU time, $lines lines; said once a period what it waits for"
