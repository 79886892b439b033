#!/bin/sh
# SPDX-License-Identifier: MIT
# The reply to COMMIT is lost, both ways: what wasn't done, and what was done or will be done only later. First by fault points, then
# for real: COMMITs are held up in the server, by its own lock for backups, the connections are cut in the forwarder in front of it or ended
# by KILL, and the daemon stands still until the server has finished with them. TIMES (4): how often each.
set -eu
# shellcheck source=test/fault/lib_mysql.sh
. "$(dirname "$0")/lib_mysql.sh"
times=${TIMES:-4}
workers=1
mysql_begin mysql_commit_lost

# ---- by fault points --------------------------------------------------------------------------------------------------

# Every other way each third COMMIT.
faults=
n=0
while [ "$n" -lt "$times" ]; do
    faults="${faults}settler.commit@$((10 + 6 * n)):fail;settler.commit@$((13 + 6 * n)):after;"
    n=$((n + 1))
done
daemon_faulty pointed "${faults%;}"
traffic pointed
all_fired() {
    [ "$(fired '^settler.commit .* fail')" -ge "$times" ] && [ "$(fired '^settler.commit .* after')" -ge "$times" ]
}
await 'all COMMITs have lost their reply' 60 all_fired
flows_on 100
quiet
daemon_ends
assert_eq 'fenced' 0 "$(figure "$log" stopped fenced)"
assert_eq 'settled again' 0 "$(figure "$log" stopped came_back)"
told 'reply to COMMIT lost, by fault points' "$(fired ' fail') not done, $(fired ' after') done"

# ---- for real ---------------------------------------------------------------------------------------------------------

port=$("$build/test/freeport" 1)
launch forwarder socat "TCP-LISTEN:$port,bind=127.0.0.1,fork,reuseaddr" "TCP:127.0.0.1:$MYSQL_PORT"
forwarder=$launched
timeout_ms=30000
lock_wait_timeout_ms=20000 # COMMITs wait for as long, too
mysql_configure ''
sed -i "s/^  port: $MYSQL_PORT\$/  port: $port/" "$work/config.yaml"
daemon forwarded
traffic forwarded

# A session of our own that holds that lock while we say so.
mkfifo "$work/lock"
admin <"$work/lock" >"$work/lock.log" 2>&1 &
pids="$pids $!"
exec 7>"$work/lock"

committing() {
    [ -n "$(committing_id)" ]
}
committing_id() {
    admin "SELECT id FROM information_schema.processlist WHERE user = 'tallyd_run' AND info = 'COMMIT' AND id IN (
        SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_rows_modified > 3) LIMIT 1"
}
ended_session() {
    [ -z "$(admin "SELECT id FROM information_schema.processlist WHERE id = $1")" ]
}
batches() {
    sql 'SELECT SUM(batch_no) FROM consumer_ledger'
}
cut_connections() {
    for cut_pid in $(pgrep -P "$forwarder"); do
        kill -s KILL "$cut_pid" 2>/dev/null || :
    done
}

done_after=0
not_done=0
while [ "$not_done" -lt "$times" ] || [ "$done_after" -lt "$times" ]; do
    echo 'BACKUP STAGE START; BACKUP STAGE BLOCK_COMMIT;' >&7
    await 'a COMMIT waits' 20 committing
    id=$(committing_id)
    before=$(batches)
    kill -s STOP "$daemon"
    if [ "$not_done" -lt "$times" ]; then
        admin "KILL CONNECTION $id"
        await 'the killed one has ended' 20 ended_session "$id"
        echo 'BACKUP STAGE END;' >&7
        assert_eq 'settled by a COMMIT that was killed' "$before" "$(batches)"
        not_done=$((not_done + 1))
    else
        cut_connections
        echo 'BACKUP STAGE END;' >&7
        await 'the one cut off has ended' 20 ended_session "$id"
        [ "$(batches)" -gt "$before" ] || die 'a COMMIT that was cut off did nothing'
        done_after=$((done_after + 1))
    fi
    kill -s CONT "$daemon"
    flows_on 1
done
quiet
daemon_ends
assert_eq 'fenced' 0 "$(figure "$log" stopped fenced)"
told 'reply to COMMIT lost, for real' "$not_done killed before they were done, $done_after cut off and done later;" \
    "$(said_since | grep -c '"event":"settlement_waiting"') waits told"
