#!/bin/sh
# SPDX-License-Identifier: MIT
# What `tallyd show` prints of a family and of a customer, against what SQL and Redis say: used up in part, with rules and blocks, alerts,
# notifications that wait; a month without a row yet; a former member; a customer of two families; Redis ahead, emptied, away.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin show 3
good=$work/config.yaml

# shows CODE ARGUMENT...: its JSON lies in $work/show.json.
shows() {
    shows_code=$1
    shift
    found=0
    timeout 60 "$tallyd" show -c "$good" --json "$@" >"$work/show.json" 2>"$work/show.err" || found=$?
    assert_eq "show $*: exit code" "$shows_code" "$found"
    assert_eq "show $*: lines on stderr" "$((shows_code != 0))" "$(wc -l <"$work/show.err")"
}
of() {
    jq -r "$1" "$work/show.json"
}
# event ID FAMILY CUSTOMER BYTES [APP]
event() {
    echo "$2	{\"eventId\":\"$1\",\"eventType\":\"DATA_USAGE\",\"payload\":{\"familyId\":$2,\"customerId\":$3,\"bytesUsed\":$4${5:+,\"appId\":\"$5\"}}}"
}

sql "INSERT INTO family VALUES (1, CONCAT('One ', CHAR(27), '[31m')), (2, '둘'), (3, 'Three');
     INSERT INTO family_member VALUES (1, 11), (1, 12), (2, 11), (2, 22);
     INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (1, '2020-01-01', 1000), (2, '2020-01-01', 100000),
         (1, '2020-03-01', 3000);
     INSERT INTO policy_assignment (family_id, customer_id, policy_type, rules) VALUES
         (1, NULL, 'MONTHLY_LIMIT', '{\"limitBytes\":700}'), (1, 12, 'MONTHLY_LIMIT', '{\"limitBytes\":20}'),
         (1, 12, 'TIME_BLOCK', '{\"start\":\"22:00\",\"end\":\"22:00\"}'), (2, 22, 'APP_BLOCK', '{\"blockedApps\":[\"a b\",\"c\"]}'),
         (2, 11, 'TIME_BLOCK', 'nonsense')"
{
    event a1 1 11 600
    event a2 1 12 5
    event a3 1 11 500
    event b1 2 22 7
} | kcat -b "$KAFKA_BROKERS" -P -q -t "$usage_topic" -K '	' -X topic.partitioner=murmur2_random
sql "UPDATE family_quota SET total_quota_bytes = 1000 WHERE quota_month = '2020-03-01'"
timeout 90 "$tallyd" run -c "$good" --until-drained >"$work/tallyd.log" 2>"$work/tallyd.err" || die "run: exit code $?"
month=$(TZ=Asia/Seoul date +%Y%m)

shows 0 family 1
assert_eq 'the quota' "1 $(TZ=Asia/Seoul date +%Y-%m) 1000 600 400 40 WARNING_50 null 0 0" \
    "$(of '.families[0] | "\(.family) \(.month) \(.total) \(.used) \(.remaining) \(.percentLeft) \(.state) \(.carriedOverFrom) \(.pending) \(.failed)"')"
assert_eq 'the quota by SQL' "$(sql 'SELECT total_quota_bytes, used_bytes FROM family_quota WHERE rev > 0 AND family_id = 1' | tr '\t' ' ')" \
    "$(of '.families[0] | "\(.total) \(.used)"')"
assert_eq 'the members' "$(sql "SELECT customer_id, monthly_used_bytes, COALESCE(block_reason, 'null') FROM customer_quota WHERE family_id = 1
    ORDER BY customer_id" | tr '\t\n' '  ')" "$(of '.families[0].members[] | "\(.customer) \(.used) \(.blocked)"' | tr '\n' ' ')"
assert_eq 'their rules' '700 null,20 2200-2200,' "$(of '.families[0].members[] | "\(.limit) \(.rules.timeBlock)"' | tr '\n' ',')"
assert_eq 'the alerts' "$(sql "SELECT customer_id, alert, event_id FROM alert_state WHERE family_id = 1 ORDER BY told_at, customer_id, alert" |
    tr '\t\n' '  ')" "$(of '.families[0].alerts[] | "\(.customer) \(.alert) \(.event)"' | tr '\n' ' ')"
assert_eq 'the stores' 'agree agree agree agree' \
    "$(of '.families[0].stores | "\(.state) \(.remaining.state) \(.used[0].state) \(.used[1].state)"')"
"$tallyd" show -c "$good" family 1 >"$work/out"
! grep -q "$(printf '\033')" "$work/out" || die 'a terminal would obey the name'
grep -qE '^1 +One \?\[31m +[0-9]{4}-[0-9]{2} +1,000 +600 +400 +40\.0 % +WARNING_50 +0 +0$' "$work/out" || die "for people: $(cat "$work/out")"
grep -qE '^12 +5? *0? *20 +TIME_BLOCK +20.* limit 20, not 2200-2200$' "$work/out" || die "a member for people: $(cat "$work/out")"

# A customer of two families: one block each, of them alone.
shows 0 customer 11
assert_eq 'the families' '1 1 600,2 1 0,' "$(of '.families[] | "\(.family) \(.members | length) \(.members[0].used)"' | tr '\n' ',')"
assert_eq 'their alerts only' 11 "$(of '[.families[].alerts[].customer] | unique | join(",")')"
of '.families[1].members[0].rules.unreadable' | grep -q . || die 'an unreadable rule is not told'
shows 0 customer 22
assert_eq 'the rules' 'a b|c' "$(of '.families[0].members[0].rules.blockedApps | join("|")')"
echo 'ok show: a family and a customer as SQL says'

# ---- other months, members and rows -----------------------------------------------------------------------------------------

for asked in 2020-02 202002; do
    shows 0 family --month $asked 1
    assert_eq 'carried over' '1000 0 2020-01 2 cold' \
        "$(of '.families[0] | "\(.total) \(.used) \(.carriedOverFrom) \(.members | length) \(.stores.state)"')"
done
"$tallyd" show -c "$good" family 1 --month 2020-02 | grep -q 'carried over from 2020-01' || die 'carried over, and people are not told'
shows 0 family 1 --month 2019-12
assert_eq 'before any quota' 'null null' "$(of '.families[0] | "\(.total) \(.state)"')"
shows 0 family 3
assert_eq 'a family without quota' 'Three null 0' "$(of '.families[0] | "\(.name) \(.total) \(.members | length)"')"
# Totals that others may write, as far as the column goes; beyond 2^53 - 1 no event is decided by them.
sql "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes, used_bytes) VALUES (3, '2020-01-01', 9223372036854775807, 1),
        (3, '2020-02-01', 9007199254740991, 4503599627370496)"
shows 0 family 3 --month 2020-01
grep -q '"remaining": 9223372036854775806,' "$work/show.json" || die "what is left: $(grep remaining "$work/show.json")"
assert_eq 'the largest total' '99.9 null' "$(of '.families[0] | "\(.percentLeft) \(.state)"')"
"$tallyd" show -c "$good" family 3 --month 2020-01 >"$work/out"
grep -qE '9,223,372,036,854,775,806 +99.9 % +- ' "$work/out" || die "for people: $(cat "$work/out")"
grep -q 'larger than 9007199254740991.*UNKNOWN_FAMILY' "$work/out" || die 'that it decides nothing is not told'
shows 0 family 3 --month 2020-02
assert_eq 'the largest that decides' '49.9 WARNING_50' "$(of '.families[0] | "\(.percentLeft) \(.state)"')"
sql "DELETE FROM family_member WHERE customer_id = 12;
     UPDATE usage_event_outbox SET status = 'PUBLISH_PENDING', sent_at = NULL, retry_count = 2, last_error = 'no luck' WHERE event_id = 'a1';
     UPDATE usage_event_outbox SET status = 'FAILED', last_error = 'too large' WHERE event_id = 'a3'"
shows 0 family 1
assert_eq 'a former member' '11 true,12 false,' "$(of '.families[0].members[] | "\(.customer) \(.member)"' | tr '\n' ',')"
assert_eq 'the outbox' '1 1 a1 2 no luck' "$(of '.families[0] | "\(.pending) \(.failed) \(.pendingRows[0] | "\(.event) \(.tries) \(.lastError)")"')"
shows 2 customer 12
grep -q '^tallyd show: customer 12: is in no family' "$work/show.err" || die 'a stranger is not told'
shows 2 family 77
grep -q '^tallyd show: family 77: MySQL has no such family' "$work/show.err" || die 'an unknown family is not told'
echo 'ok show: months to come and past, a former member, notifications that wait'

# ---- Redis --------------------------------------------------------------------------------------------------------------------

redis INCRBY "family:1:customer:11:usage:monthly:$month" 5 >/dev/null
shows 0 family 1
assert_eq 'the stores' 'differ agree differ 5' \
    "$(of '.families[0].stores | "\(.state) \(.remaining.state) \(.used[0] | "\(.state) \(.difference)")"')"
sql 'UPDATE family_quota SET total_quota_bytes = 2000 WHERE family_id = 1 AND rev > 0'
shows 0 family 1
assert_eq 'the stores' 'other total' "$(of '.families[0].stores.state')"
redis FLUSHALL >/dev/null
shows 0 family 1
assert_eq 'the stores' 'cold null' "$(of '.families[0].stores | "\(.state) \(.remaining.redis)"')"
closed=$("$build/test/freeport" 1)
sed "s/port: $REDIS_PORT/port: $closed/" "$work/config.yaml" >"$work/away.yaml"
good=$work/away.yaml
shows 5 family 1
assert_eq 'the rest' '2000 not asked redis' "$(of '"\(.families[0].total) \(.families[0].stores.state) \(.redis.area)"')"
good=$work/config.yaml

# refused CODE SED ARGUMENT...
refused() {
    sed "$2" "$work/config.yaml" >"$work/away.yaml"
    refused_code=$1
    shift 2
    found=0
    timeout 30 "$tallyd" show -c "$work/away.yaml" "$@" >"$work/out" 2>"$work/case.err" || found=$?
    assert_eq "show $*: exit code" "$refused_code" "$found"
    [ ! -s "$work/out" ] || die 'a refusal, and something on standard output'
    grep -qE '^tallyd show: [^:]+: .+' "$work/case.err" || die 'the message has another form'
}
refused 6 "s/port: $MYSQL_PORT/port: $closed/" family 1
refused 2 ''
refused 2 '' family
refused 2 '' household 1
refused 2 '' family 0
refused 2 '' customer 1x
refused 2 '' family 1 2
refused 2 '' family 1 --month 2026-13
refused 2 '' family 1 --month 2026
refused 2 '' family 1 --month 26-11-1
refused 3 's/interval_ms: 100/interval_ms: 1/' family 1
echo 'ok show: Redis ahead, emptied, away; wrong usage'
