#!/bin/sh
# SPDX-License-Identifier: MIT
# `tallyd maintain`, and the daemon's own: what was sent long ago and the events of closed months go, nothing else does; a settlement under
# way is waited for, an event of a closed month is EVENT_TOO_OLD at once; killed in the middle it goes on there; the audit stays right.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin maintain 3

# month N: the first day of the month so many before this one, in the zone.
this=$(TZ=Asia/Seoul date +%Y-%m)
month() {
    date -d "$this-01 -$1 month" +%Y-%m-01
}
yyyymm() {
    month "$1" | cut -c 1-7
}
dump() {
    for dump_table in family_quota customer_quota usage_record usage_block alert_state usage_event_outbox usage_floor maintenance; do
        sql "SELECT * FROM $dump_table"
    done
}
# maintains CODE CONFIG ARGUMENT...: its JSON lies in $work/maintain.json.
maintains() {
    maintains_code=$1 maintains_config=$2
    shift 2
    found=0
    timeout 60 "$tallyd" maintain -c "$work/$maintains_config.yaml" --json "$@" >"$work/maintain.json" 2>"$work/maintain.err" || found=$?
    assert_eq "maintain $*: exit code" "$maintains_code" "$found"
    assert_eq "maintain $*: lines on stderr" "$((maintains_code != 0))" "$(wc -l <"$work/maintain.err")"
    ! grep -qvE '^tallyd maintain: [^:]+: .+' "$work/maintain.err" || die 'the message has another form'
}
did() {
    jq -r "$1" "$work/maintain.json" | tr '\n' ' ' | sed 's/ $//'
}
audits() {
    found=0
    "$tallyd" audit -c "$work/config.yaml" --json >"$work/audit.json" 2>"$work/audit.err" || found=$?
    assert_eq "audit: exit code, with $(jq -c '.checks[] | select(.status != "holds")' "$work/audit.json" | head -n 3)" "$1" "$found"
}
# event ID MONTHS [BYTES]: of customer 11, so many months ago.
event() {
    echo "1	{\"eventId\":\"$1\",\"eventType\":\"DATA_USAGE\",\"timestamp\":\"$(yyyymm "$2")-01T00:00:01\",\"payload\":{\"familyId\":1,\"customerId\":11,\"bytesUsed\":${3:-1}}}"
}
produce() {
    kcat -b "$KAFKA_BROKERS" -P -q -t "$usage_topic" -K '	' -X topic.partitioner=murmur2_random
}
# rejected_as CODE: records in the DLT.
rejected_as() {
    records "$dlt_topic" '%h\n' | tr ',' '\n' | grep -c "^x-error-code=$1\$" || :
}
rights() {
    sed -n "s/^-- GRANT/$1/p" "$root/config/grants.sql" | sed "s/'tallyd'@/'tallyd_run'@/; s/ TO / $2 /" |
        mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" "$MYSQL_DATABASE"
}

# ---- what there is ----------------------------------------------------------------------------------------------------

sql "INSERT INTO family VALUES (1, 'One');
     INSERT INTO family_member VALUES (1, 11), (1, 12);
     INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (1, '2020-01-01', 1000)"
# The daemon takes events of the last four months still, and months are closed behind its back.
configure "$work/config.yaml" 'event:
  max_past_months: 4
maintain:
  sent_retention_days: 0'
configure "$work/months.yaml" 'maintain:
  usage_months: 2
  batch_rows: 7
  pause_ms: 0'
configure "$work/sent.yaml" 'maintain:
  sent_retention_days: 2
  batch_rows: 2
  pause_ms: 0'
launch daemon "$tallyd" run -c "$work/config.yaml"
daemon=$launched
await 'the daemon reads' 30 opened "$work/daemon.log"
for ago in 0 1 2 3 4; do
    for n in $(seq 20); do event "e$ago-$n" "$ago" 20; done
    event "big$ago" "$ago" 5000
    echo "1	{\"eventId\":\"b$ago\",\"eventType\":\"DATA_USAGE\",\"timestamp\":\"$(yyyymm "$ago")-01T00:00:02\",\"payload\":{\"familyId\":1,\"customerId\":12,\"bytesUsed\":9000}}"
done | produce
await 'all is settled and told' 60 caught_up
assert_eq 'settled, blocked' '100 10' "$(sql 'SELECT (SELECT COUNT(*) FROM usage_record), (SELECT COUNT(*) FROM usage_block)' | tr '\t' ' ')"
sums_hold
audits 0
sql 'SELECT * FROM family_quota; SELECT * FROM customer_quota; SELECT * FROM alert_state' >"$work/sums"

# ---- months -----------------------------------------------------------------------------------------------------------

dump >"$work/before"
maintains 0 months --dry-run
assert_eq 'what would go' "true $(yyyymm 2) $(yyyymm 4) 20 2 $(yyyymm 3) 20 2 40 4" \
    "$(did '.dryRun, .usage.closedBefore, (.usage.months[] | .month, .usageRecordRows, .usageBlockRows), .usage.usageRecordRows, .usage.usageBlockRows')"
maintains 0 config --dry-run
assert_eq 'what would go by default' '0 0 0' "$(did '.outbox.rows, .usage.usageRecordRows, .usage.usageBlockRows')"
dump | cmp -s - "$work/before" || die 'a dry run has changed something'
maintains 6 months
grep -q 'UPDATE command denied .*usage_floor' "$work/maintain.err" || die 'it closes months without the right for it'
dump | grep -v '^outbox' >"$work/after"
sed '/^outbox/d' "$work/before" | cmp -s - "$work/after" || die 'without rights it has changed something'
rights GRANT TO

# A settlement that read the floor before is waited for, and what it has settled goes as well.
launch settlement sh -c "cat <<'END' | MYSQL_PWD=$MYSQL_PASSWORD mariadb --no-defaults -h $MYSQL_HOST -P $MYSQL_PORT -u $MYSQL_USER $MYSQL_DATABASE
START TRANSACTION;
SELECT closed_before FROM usage_floor WHERE id = 1 LOCK IN SHARE MODE;
INSERT INTO usage_record SELECT 'in-flight', 1, 11, NULL, 0, event_time, quota_month, 0, 0, created_at FROM usage_record WHERE event_id = 'e4-1';
DO GET_LOCK('maintain.sh', 0);
SELECT SLEEP(0.5);
COMMIT;
END"
in_flight() { [ "$(sql "SELECT IS_USED_LOCK('maintain.sh') IS NOT NULL")" = 1 ]; }
await 'a settlement is under way' 20 in_flight
maintains 0 months
assert_eq 'what went' "$(yyyymm 2) 41 4" "$(did '.usage.closedBefore, .usage.usageRecordRows, .usage.usageBlockRows')"
ended 'the settlement' "$launched" 0
assert_eq 'the floor' "$(month 2)" "$(sql 'SELECT closed_before FROM usage_floor')"
assert_eq 'events of closed months' 0 "$(sql "SELECT (SELECT COUNT(*) FROM usage_record WHERE quota_month < '$(month 2)') + (SELECT COUNT(*) FROM usage_block WHERE quota_month < '$(month 2)')")"
assert_eq 'events of open ones' '60 6' "$(sql 'SELECT (SELECT COUNT(*) FROM usage_record), (SELECT COUNT(*) FROM usage_block)' | tr '\t' ' ')"
sql 'SELECT * FROM family_quota; SELECT * FROM customer_quota; SELECT * FROM alert_state' | cmp -s - "$work/sums" || die 'sums or alerts have changed'
audits 0
months="quota_month >= '$(month 2)'" && sums_hold

# The daemon finds out at once, and takes nothing of such a month: neither new nor known.
{
    event late 3
    event e3-1 3 20
    event open 2
    event e2-1 2 20
} | produce
await 'these are settled' 30 caught_up
assert_eq 'rejections' 'EVENT_TOO_OLD EVENT_TOO_OLD' "$(records "$dlt_topic" '%h\n' | tr ',' '\n' | sed -n 's/^x-error-code=//p' | tr '\n' ' ' | sed 's/ $//')"
assert_eq 'the others' '61 1' "$(sql 'SELECT (SELECT COUNT(*) FROM usage_record), SUM(duplicate) FROM consumer_ledger' | tr '\t' ' ')"
months="quota_month >= '$(month 2)'" && sums_hold
audits 0

# Nothing new is closed, so nobody walks through the tables again.
sql "INSERT INTO usage_record SELECT 'unseen', 1, 11, NULL, 0, event_time, '$(month 9)', 0, 0, created_at FROM usage_record WHERE event_id = 'e1-1'"
maintains 0 months
assert_eq 'what goes the next time' '0 0' "$(did '.usage.usageRecordRows, .usage.usageBlockRows')"
assert_eq 'what it has not looked at' 1 "$(sql "SELECT COUNT(*) FROM usage_record WHERE event_id = 'unseen'")"
echo 'ok maintain: closed months lose their events and keep their sums; what comes for them is too old'

# ---- killed in the middle ---------------------------------------------------------------------------------------------

sed 's/usage_months: 2/usage_months: 1/; s/pause_ms: 0/pause_ms: 20000/' "$work/months.yaml" >"$work/slow.yaml"
sed 's/usage_months: 2/usage_months: 1/' "$work/months.yaml" >"$work/fast.yaml"
launch slow "$tallyd" maintain -c "$work/slow.yaml"
begun() { [ -n "$(sql "SELECT walked_to FROM maintenance WHERE task = 'usage_record' AND goal = '$(month 1)' AND walked_to <> ''")" ]; }
await 'some is done' 30 begun
maintains 11 fast
grep -q 'another process is at it' "$work/maintain.err" || die 'a second one is not told of the first'
kill -s KILL "$launched"
wait "$launched" 2>/dev/null || :
lock_free() { [ "$(sql "SELECT IS_FREE_LOCK(CONCAT('tallyd.maintain.', MD5(DATABASE())))")" = 1 ]; }
await 'the server has noticed' 30 lock_free
walked=$(sql "SELECT walked_to FROM maintenance WHERE task = 'usage_record'")
sql "INSERT INTO usage_record SELECT '!before', 1, 11, NULL, 0, event_time, '$(month 9)', 0, 0, created_at FROM usage_record WHERE event_id = 'e1-1'"
maintains 0 fast
assert_eq "what it has gone on from, $walked" 1 "$(sql "SELECT COUNT(*) FROM usage_record WHERE event_id = '!before'")"
assert_eq 'what is left of closed months' '!before' "$(sql "SELECT event_id FROM usage_record WHERE quota_month < '$(month 1)' UNION ALL SELECT event_id FROM usage_block WHERE quota_month < '$(month 1)'")"
assert_eq 'how far it is' 2 "$(sql "SELECT COUNT(*) FROM maintenance WHERE task <> 'outbox' AND walked_to IS NULL AND goal = '$(month 1)'")"
assert_eq 'what went in all' '63 6' "$(sql "SELECT GROUP_CONCAT(pruned ORDER BY task DESC SEPARATOR ' ') FROM maintenance WHERE task <> 'outbox'")"
audits 0
echo "ok maintain: killed at $walked, it goes on from there"

# ---- the outbox -------------------------------------------------------------------------------------------------------

# letter ID AGE STATUS: an alert of family 2 whose notification is so many days old, settled and told by all the books. What went before
# in this test is today's, so it gets later numbers.
sql "UPDATE usage_event_outbox SET outbox_id = outbox_id + 1000 ORDER BY outbox_id DESC;
     INSERT INTO family VALUES (2, 'Two');
     INSERT INTO family_member VALUES (2, 21);
     INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (2, '$(month 0)', 1000);
     INSERT INTO customer_quota (family_id, customer_id, quota_month) VALUES (2, 21, '$(month 0)')"
letters=0
letter() {
    letters=$((letters + 1))
    sql "SET @at = UTC_TIMESTAMP(3) - INTERVAL $2 DAY;
         INSERT INTO usage_record VALUES ('$1', 2, 21, NULL, 1, @at, '$(month 0)', 0, 1000000 + $letters, @at);
         INSERT INTO alert_state VALUES (2, 21, '$(month 0)', 'THRESHOLD:$letters', 0, '$1', 1000, 1, @at);
         INSERT INTO usage_event_outbox (outbox_id, event_id, family_id, customer_id, status, payload_json, created_at, last_error)
             VALUES ($letters, '$1', 2, 21, '$3', '{\"data\":{\"status\":\"WARNING_$letters\"}}', @at, IF('$3' = 'FAILED', 'too large', NULL));
         UPDATE customer_quota SET monthly_used_bytes = monthly_used_bytes + 1 WHERE customer_id = 21 AND quota_month = '$(month 0)';
         UPDATE family_quota SET used_bytes = used_bytes + 1 WHERE family_id = 2 AND quota_month = '$(month 0)'"
}
for n in 1 2 3 4 5; do letter "old-$n" 3 PUBLISH_PENDING; done
letter failed 3 FAILED
letter young 1 PUBLISH_PENDING
told() { [ "$(sql "SELECT COUNT(*) FROM usage_event_outbox WHERE event_id REGEXP '^(old-|young)' AND status = 'SENT'")" = 6 ]; }
await 'they are told' 30 told
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
sql "UPDATE usage_event_outbox SET sent_at = created_at + INTERVAL 1 MINUTE WHERE event_id REGEXP '^(old-|young)'"
sql "UPDATE usage_event_outbox SET sent_at = UTC_TIMESTAMP(3) WHERE event_id = 'old-3'" # it was stuck for long
letter pending 3 PUBLISH_PENDING
sql "SELECT event_id FROM usage_event_outbox WHERE event_id NOT IN ('old-1', 'old-2', 'old-4', 'old-5')" >"$work/stay"
maintains 0 sent --dry-run
assert_eq 'what would go' 4 "$(did .outbox.rows)"
maintains 0 sent
assert_eq 'what went' 4 "$(did .outbox.rows)"
sql 'SELECT event_id FROM usage_event_outbox' | cmp -s - "$work/stay" || die "the outbox holds: $(sql 'SELECT event_id, status FROM usage_event_outbox')"
audits 0
assert_eq 'what the audit leaves open of alerts' 4 "$(jq '.checks[] | select(.check == "alerts").open' "$work/audit.json")"
assert_eq 'and of the topic' 4 "$(jq '.checks[] | select(.check == "notifications").open' "$work/audit.json")"
# What can't have been pruned is missed.
sql "CREATE TABLE kept AS SELECT * FROM usage_event_outbox WHERE event_id = 'young'; DELETE FROM usage_event_outbox WHERE event_id = 'young'"
audits 9
jq -r '.checks[] | select(.check == "alerts").named[]' "$work/audit.json" | grep -q 'no row of event young' || die 'a row that is lost is not missed'
sql 'INSERT INTO usage_event_outbox SELECT * FROM kept; DROP TABLE kept'
audits 0
echo 'ok maintain: what was sent long ago goes; what is pending, failed or was stuck stays, and the audit knows'

# ---- the daemon's own -------------------------------------------------------------------------------------------------

sql "UPDATE usage_event_outbox SET sent_at = created_at WHERE event_id = 'old-3'"
configure "$work/own.yaml" 'event:
  max_past_months: 4
maintain:
  interval_ms: 100
  sent_retention_days: 2
  batch_rows: 1
  pause_ms: 0'
launch own "$tallyd" run -c "$work/own.yaml"
own=$launched
maintained() { grep -qs '"event":"maintained","outbox_rows":1,' "$work/own.log"; }
await 'it has pruned' 30 maintained
assert_eq 'the row' 0 "$(sql "SELECT COUNT(*) FROM usage_event_outbox WHERE event_id = 'old-3'")"
# Again later, and without the right it says so and goes on.
revoked="DELETE ON usage_event_outbox"
echo "REVOKE $revoked FROM tallyd_run@'%'" | mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" "$MYSQL_DATABASE"
sql "UPDATE usage_event_outbox SET sent_at = created_at - INTERVAL 9 DAY, created_at = sent_at WHERE event_id = 'young'"
said() { grep -qs '"event":"maintenance_waiting"' "$work/own.log"; }
await 'it says what is in the way' 30 said
echo "GRANT $revoked TO tallyd_run@'%'" | mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" "$MYSQL_DATABASE"
gone() { [ "$(sql "SELECT COUNT(*) FROM usage_event_outbox WHERE event_id = 'young'")" = 0 ]; }
await 'it goes on' 30 gone
event alive 0 | produce
await 'it settles' 30 all_settled
# In the middle of much work it ends at once: a whole pause would take a minute.
sed 's/pause_ms: 0/pause_ms: 60000/' "$work/own.yaml" >"$work/resting.yaml"
kill -s TERM "$own"
ended 'the daemon' "$own" 0
sql "UPDATE usage_event_outbox SET outbox_id = 900 WHERE event_id = 'pending';
     INSERT INTO usage_event_outbox (outbox_id, event_id, family_id, customer_id, status, payload_json, created_at, sent_at)
     SELECT 100 + seq, CONCAT('much-', seq), 9, 9, 'SENT', '{}', '2020-01-01', '2020-01-01' FROM seq_1_to_5"
launch resting "$tallyd" run -c "$work/resting.yaml"
resting=$launched
some() { [ "$(sql "SELECT COUNT(*) FROM usage_event_outbox WHERE event_id LIKE 'much-%'")" = 4 ]; }
await 'it is at it' 30 some
kill -s TERM "$resting"
ended 'the resting daemon' "$resting" 0
assert_eq 'whether it was cut short' true "$(figure "$work/resting.log" maintained stopped)"
echo 'ok maintain: the daemon does it by itself, says what is in the way, and ends in the middle of it'

# ---- what isn't read yet keeps its months open ------------------------------------------------------------------------------------

# As after a long outage, or with a database put back: the last record settled is of five months ago, as is what waits behind it.
sql "UPDATE usage_floor SET closed_before = '1970-01-01'; DELETE FROM maintenance;
     DELETE FROM usage_event_outbox WHERE family_id IN (2, 9); DELETE FROM usage_record WHERE family_id = 2"
long_ago="$(yyyymm 5)-15T12:00:00+09:00" a_day_later="$(yyyymm 5)-16T12:00:00+09:00"
group=$group.b # it begins behind what was produced so far
configure "$work/held.yaml" 'maintain:
  sent_retention_days: 0
  interval_ms: 100
  usage_months: 2
  pause_ms: 0'
configure "$work/open.yaml"
maintains 0 held
assert_eq 'of a group that has begun nothing' 'not begun 1970-01' "$(did '.usage.heldBy.reason, .usage.closedBefore')"
"$tallyd" rewind -c "$work/open.yaml" --to latest --yes >"$work/rewind.out" 2>"$work/rewind.err" || die "rewind: $(cat "$work/rewind.err")"
simulate seeding --seed-db --families 20 --start "$long_ago"
simulate first --families 20 --count 200 --rate 0 --start "$long_ago" --seed 5
timeout 60 "$tallyd" run -c "$work/open.yaml" --until-drained >"$work/open.log" 2>"$work/open.err" || die "run: exit code $?"
simulate second --families 20 --count 200 --rate 0 --start "$a_day_later" --seed 6
unread=$("$tallyd" lag -c "$work/open.yaml" --json | jq -c '[.partitions[] | select(.lag > 0) | {key: (.partition | tostring), value: .lag}] | from_entries')
maintains 0 held --dry-run
assert_eq 'what would be held' "backlog $(yyyymm 6)" "$(did '.usage.heldBy.reason, .usage.closedBefore')"
maintains 0 held
assert_eq 'what is held' "backlog $(yyyymm 6) true" \
    "$(did ".usage.heldBy.reason, .usage.closedBefore, (${unread}[.usage.heldBy.partition | tostring] == .usage.heldBy.unread)")"
"$tallyd" maintain -c "$work/held.yaml" >"$work/out"
grep -Eq "^partition [0-2] has [0-9]+ records that aren't read, behind one of $(yyyymm 5)-15T" "$work/out" || die "for people: $(cat "$work/out")"
sed "s/brokers: .*/brokers: 'localhost:1'/" "$work/held.yaml" >"$work/away.yaml"
maintains 0 away
assert_eq 'where Kafka is not to be asked' "unknown $(yyyymm 6)" "$(did '.usage.heldBy.reason, .usage.closedBefore')"
before=$(rejected_as EVENT_TOO_OLD)
"$tallyd" pause -c "$work/open.yaml" >"$work/out" # so that it stands
launch held "$tallyd" run -c "$work/held.yaml"
held=$launched
told_held() { grep -qs '"event":"maintained".*"held_by":"backlog"' "$work/held.log"; }
await 'the daemon says what keeps months open' 30 told_held
assert_eq 'the floor' "$(month 6)" "$(sql 'SELECT closed_before FROM usage_floor')"
"$tallyd" resume -c "$work/open.yaml" >"$work/out"
closed() { [ "$(sql 'SELECT closed_before FROM usage_floor')" = "$(month 2)" ]; }
await 'the backlog is read, and then its months are closed' 60 closed
group_settled() { [ "$(sql "SELECT SUM(settled + blocked + duplicate + rejected) FROM consumer_ledger WHERE group_id = '$group'")" = 400 ]; }
group_settled || die 'months were closed before the backlog was read'
assert_eq 'events of the backlog that came too late' 0 "$(($(rejected_as EVENT_TOO_OLD) - before))"
kill -s TERM "$held"
ended 'the daemon' "$held" 0
maintains 0 held # idle since, and nothing waits: that holds nothing
assert_eq 'what is held in the end' "null $(yyyymm 2)" "$(did '.usage.heldBy, .usage.closedBefore')"
sql "UPDATE usage_floor SET closed_before = '1970-01-01'; CREATE TABLE kept_row AS SELECT * FROM consumer_ledger WHERE group_id = '$group' AND partition_id = 1;
     DELETE FROM consumer_ledger WHERE group_id = '$group' AND partition_id = 1"
maintains 0 held --dry-run
assert_eq 'what a partition without a row holds' 'backlog 1 1970-01' "$(did '.usage.heldBy.reason, .usage.heldBy.partition, .usage.closedBefore')"
sql "INSERT INTO consumer_ledger SELECT * FROM kept_row; DROP TABLE kept_row"
sql "UPDATE consumer_ledger SET paused = 1, paused_since = '$(month 4)' WHERE group_id = '$group' AND partition_id = 0"
maintains 0 held
assert_eq 'what a pause holds' "paused $(yyyymm 5)" "$(did '.usage.heldBy.reason, .usage.closedBefore')"
echo 'ok maintain: months whose events may not be read yet stay open until they are'
