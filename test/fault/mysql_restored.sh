#!/bin/sh
# SPDX-License-Identifier: MIT
# The database is put back to an older state: a dump taken in mid-traffic, back while tallyd runs and while it's stopped, and the
# server's own files. What was settled since is settled again; what was told since may be told again, under the same id.
set -eu
# shellcheck source=test/fault/lib_mysql.sh
. "$(dirname "$0")/lib_mysql.sh"
workers=1
mysql_begin mysql_restored

# Alerts of what was lost lie on the topic as well; told again they differ by the envelope's time alone.
alerts_published() {
    records "$notification_topic" '%s\n' | sed 's/,"timestamp":"[^"]*"//' | LC_ALL=C sort -u >"$work/alerts.topic"
    sql "SELECT CONCAT('{\"eventId\":\"', event_id, '\",\"eventType\":\"NOTIFICATION\",\"payload\":', payload_json, '}') FROM usage_event_outbox" |
        LC_ALL=C sort >"$work/alerts.outbox"
    cmp -s "$work/alerts.topic" "$work/alerts.outbox" || die "alerts on the topic and in the outbox differ: $(
        LC_ALL=C comm -3 "$work/alerts.topic" "$work/alerts.outbox" | head -n 3
    )"
}

dump() {
    MYSQL_PWD=$MYSQL_PASSWORD mariadb-dump --no-defaults -h "$MYSQL_HOST" -P "$MYSQL_PORT" -u "$MYSQL_USER" --single-transaction \
        --skip-lock-tables --no-tablespaces --routines "$MYSQL_DATABASE" >"$1"
}

# swap_in FILE: all tables at once become those of the dump. Sets older to what it had settled; where each partition stood lies in
# $work/older.offsets.
swap_in() {
    admin "DROP DATABASE IF EXISTS tallyd_older; CREATE DATABASE tallyd_older; DROP DATABASE IF EXISTS tallyd_newer; CREATE DATABASE tallyd_newer"
    mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" tallyd_older <"$1"
    admin 'SELECT partition_id, next_offset FROM tallyd_older.consumer_ledger' >"$work/older.offsets"
    older=$(awk '{ sum += $2 } END { print sum }' "$work/older.offsets")
    admin "RENAME TABLE $(admin "SELECT GROUP_CONCAT(CONCAT('$MYSQL_DATABASE.', table_name, ' TO tallyd_newer.', table_name,
            ', tallyd_older.', table_name, ' TO $MYSQL_DATABASE.', table_name) SEPARATOR ', ')
        FROM information_schema.tables WHERE table_schema = 'tallyd_older'")"
    admin 'DROP DATABASE tallyd_newer; DROP DATABASE tallyd_older'
}

went_back() {
    said '"event":"partition_opened"' '"start":'
}
# opened_at FILE: each partition was opened where FILE says that the ledger stood.
opened_at() {
    said_since | jq -r 'select(.event == "partition_opened") | [.partition, .start, .ledger_next_offset] | @tsv' |
        awk -v bound="$1" 'BEGIN { while ((getline line < bound) > 0) { split(line, f, "\t"); stood[f[1]] = f[2] } }
            $2 > stood[$1] || $3 > stood[$1] { exit 1 } { n++ } END { exit n < 1 }'
}

# ---- while tallyd runs ------------------------------------------------------------------------------------------------

daemon tallyd
traffic running
dump "$work/older.sql"
flows_on 1000
lost=$(ledger_end)
mark
swap_in "$work/older.sql"
[ "$older" -lt "$lost" ] || die 'the older state is not older'
await 'tallyd goes back' 60 went_back
opened_at "$work/older.offsets" || die "opened beyond the older ledger: $(said_since | grep partition_opened)"
flows_on 100
quiet
said '"event":"fenced"' || die 'the worker was not fenced'
told 'restored from an older backup, while tallyd runs' "from $lost back to $older records, fenced and settled again"

# ---- while it's stopped -----------------------------------------------------------------------------------------------

traffic stopped
dump "$work/older.sql"
flows_on 1000
daemon_ends
lost=$(ledger_end)
swap_in "$work/older.sql"
[ "$older" -lt "$lost" ] || die 'the older state is not older'
daemon again
opened_at "$work/older.offsets" || die "opened beyond the older ledger: $(said_since | grep partition_opened)"
quiet
told 'restored from an older backup, while tallyd is stopped' "from $lost back to $older records, settled again"

# ---- the server's files -----------------------------------------------------------------------------------------------

data=$TALLYD_TEST_DIR/mysql/data
traffic files
server stop-one
cp -a "$data" "$data.older"
server start-one
flows_on 1000
lost=$(ledger_end)
mark
server stop-one
rm -rf "$data"
mv "$data.older" "$data"
server start-one
await 'tallyd goes back' 60 went_back
flows_on 100
quiet
said '"event":"fenced"' || die 'the worker was not fenced'
daemon_ends
told "restored from an older backup of the server's files, while tallyd runs" "$lost records were settled before, fenced and settled again"
