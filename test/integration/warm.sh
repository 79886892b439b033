#!/bin/sh
# SPDX-License-Identifier: MIT
# A rule changed in MySQL by others counts after cache.max_age_seconds, an hour here, and at once by `tallyd warm`.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin warm
good=$work/config.yaml

# warms CODE OUTPUT ARGUMENT...: ends with CODE and prints OUTPUT.
warms() {
    warms_code=$1 warms_output=$2
    shift 2
    found=0
    timeout 30 "$tallyd" warm "$@" >"$work/out" 2>"$work/case.err" || found=$?
    assert_eq "warm $*: exit code" "$warms_code" "$found"
    assert_eq "warm $*: output" "$warms_output" "$(cat "$work/out")"
    ! grep -qvE '^tallyd warm: [^:]+: .+' "$work/case.err" || die "warm $*: a message has another form"
}
says() {
    grep -qF -e "$1" "$work/case.err" || die "expected a message that says: $1"
}
# event ID [TIME]: one of customer 200187 is settled or blocked.
events=0
event() {
    events=$((events + 1))
    echo "{\"eventId\":\"$1\",\"eventType\":\"DATA_USAGE\",${2:+\"timestamp\":\"$2\",}\"payload\":{\"familyId\":100042,\"customerId\":200187,\"bytesUsed\":10}}" |
        kcat -b "$KAFKA_BROKERS" -P -t "$usage_topic" -k 100042 -X topic.partitioner=murmur2_random
    await "$1 is settled" 20 ended_events
}
ended_events() {
    [ "$(ledger_end)" = "$events" ]
}
became() {
    sql "SELECT 'NORMAL' FROM usage_record WHERE event_id = '$1' UNION ALL SELECT reason FROM usage_block WHERE event_id = '$1'"
}
cached() {
    redis --raw KEYS 'family:100042:info:*' | grep -c . || :
}

sql "INSERT INTO family VALUES (100042, 'Warm'), (100043, 'Cold');
     INSERT INTO family_member VALUES (100042, 200187), (100043, 200190);
     INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (100042, '2020-01-01', 1000000), (100043, '2020-01-01', 1000000)"
launch tallyd "$tallyd" run -c "$good"
daemon=$launched
await 'the daemon reads' 20 opened "$work/tallyd.log"
last_month=$(date -d "$(TZ=Asia/Seoul date +%Y-%m-15) -1 month" +%Y-%m-%d)
event before
event before-last-month "${last_month}T12:00:00"
assert_eq 'months in Redis' 2 "$(cached)"

sql "INSERT INTO policy_assignment (family_id, policy_type, rules) VALUES (100042, 'MANUAL_BLOCK', '{\"reason\":\"test\"}')"
event not-yet
assert_eq 'a rule that nobody told Redis about' NORMAL "$(became not-yet)"
warms 0 'family 100042: 2 months in Redis dropped; read from MySQL when next needed' -c "$good" 100042
assert_eq 'months in Redis' 0 "$(cached)"
event at-once
event at-once-last-month "${last_month}T12:00:01"
assert_eq 'the rule, at once' MANUAL "$(became at-once)"
assert_eq 'the rule, at once, for the month before' MANUAL "$(became at-once-last-month)"
assert_eq 'months in Redis' 2 "$(cached)"
sql 'UPDATE policy_assignment SET is_active = 0'
event still
assert_eq 'the rule that was' MANUAL "$(became still)"
warms 0 'family 100043: 0 months in Redis dropped
family 100042: 2 months in Redis dropped; read from MySQL when next needed' -c "$good" 100043 100042
event free
assert_eq 'without the rule' NORMAL "$(became free)"
# A total too: the figures are MySQL's in any case.
sql "UPDATE family_quota SET total_quota_bytes = 40 WHERE family_id = 100042 AND quota_month = DATE_FORMAT(UTC_TIMESTAMP() + INTERVAL 9 HOUR, '%Y-%m-01')"
warms 0 'family 100042: 1 month in Redis dropped; read from MySQL when next needed' -c "$good" 100042
event cut-1
event cut-2
assert_eq 'within the new total, and beyond it' 'NORMAL FAMILY_QUOTA_EXCEEDED' "$(became cut-1) $(became cut-2)"
# Months that are long past too, and one that nobody has used yet.
redis HSET family:100042:info:202001 gen 1 >/dev/null
redis HSET "family:100042:info:$(date -d "$(TZ=Asia/Seoul date +%Y-%m-15) +1 month" +%Y%m)" gen 1 >/dev/null
redis HSET family:1000421:info:202001 gen 1 >/dev/null
warms 0 'family 100042: 3 months in Redis dropped; read from MySQL when next needed' -c "$good" 100042
assert_eq "another family's month" 1 "$(redis EXISTS family:1000421:info:202001)"
event last
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
# Two months, so two.
assert_eq 'alerts of the block' 2 "$(sql "SELECT COUNT(*) FROM alert_state WHERE alert = 'MANUAL'")"
echo 'ok warm: rules and totals changed in MySQL count at once'

# ---- what it refuses --------------------------------------------------------------------------------------------------

# Of a family that MySQL has no more, what is left in Redis goes too.
for month in "$(TZ=Asia/Seoul date +%Y%m)" "$(date -d "$last_month" +%Y%m)"; do
    redis HSET "family:7:info:$month" gen 1 >/dev/null
done
warms 2 'family 100042: 1 month in Redis dropped; read from MySQL when next needed' -c "$good" 7 100042 8
assert_eq 'lines on stderr' 2 "$(wc -l <"$work/case.err")"
says 'tallyd warm: family 7: MySQL has no such family (look at the number)'
says 'tallyd warm: family 8: '
assert_eq 'months of a family that is no more' '' "$(redis --raw KEYS 'family:7:*')"
cases=0
for number in 0 -1 +1 01 1x 1.0 '' ' 1' 9007199254740992 99999999999999999999; do
    warms 2 '' -c "$good" -- 100042 "$number"
    says "usage: ${number:+$number }must be a family's number"
    cases=$((cases + 1))
done
warms 2 'family 100042: 0 months in Redis dropped' -c "$good" 100042 9007199254740991
says 'family 9007199254740991: MySQL has no such family'
warms 2 '' -c "$good"
says 'usage: FAMILY is missing (tallyd help warm)'
warms 2 '' 100042
says 'usage: -c FILE is missing'
closed=$("$build/test/freeport" 1)
sed "s/port: $REDIS_PORT/port: $closed/" "$good" >"$work/no_redis.yaml"
sed "s/port: $MYSQL_PORT/port: $closed/" "$good" >"$work/no_mysql.yaml"
warms 3 '' -c "$work/no-such-file" 100042
warms 5 '' -c "$work/no_redis.yaml" 100042 100043
assert_eq 'lines on stderr' 1 "$(wc -l <"$work/case.err")"
warms 6 '' -c "$work/no_mysql.yaml" 100042
sql 'DELETE FROM schema_migration'
warms 7 '' -c "$good" 100042
says 'run `tallyd migrate'
echo "ok warm: $cases wrong numbers, unknown families, and each dependency away"
