#!/bin/sh
# SPDX-License-Identifier: MIT
# What `tallyd audit` sees. A settled system is green. Then each of its questions is made red by spoiling the stores behind its back,
# one at a time, and named with its offender. Under traffic, beside a killed daemon and with stores away nothing is called broken
# that isn't. An entry of Redis that drifted heals by --fix-cache.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin audit 3
seed=${TALLYD_TEST_SEED:-61}
good=$work/config.yaml

# audits CODE ARGUMENT...: its JSON lies in $work/audit.json.
audits() {
    audits_code=$1
    shift
    found=0
    timeout 120 "$tallyd" audit -c "$good" --json "$@" >"$work/audit.json" 2>"$work/audit.err" || found=$?
    [ "$audits_code" = "$found" ] ||
        die "audit $*: exit code $found instead of $audits_code: $(jq -c '.checks[] | select(.status != "holds")' "$work/audit.json" | head -n 5)"
    if [ "$audits_code" = 0 ]; then
        [ ! -s "$work/audit.err" ] || die "audit $*: all is well, and stderr isn't empty"
    else
        assert_eq "audit $*: lines on stderr" 1 "$(wc -l <"$work/audit.err")"
    fi
}
# of CHECK FILTER: a figure of the last audit.
of() {
    jq -r --arg check "$1" ".checks[] | select(.check == \$check) | $2" "$work/audit.json"
}
names() {
    of "$1" '.named[]' | grep -qF -e "$2" || die "$1: expected that $2 is named, found $(of "$1" '. | tojson')"
}
# The checks that don't simply hold.
unwell() {
    jq -r '.checks[] | select(.status != "holds") | .check' "$work/audit.json" | tr '\n' ' '
}

# ---- a settled system -------------------------------------------------------------------------------------------------

# event ID FAMILY CUSTOMER BYTES [APP]
event() {
    echo "$2	{\"eventId\":\"$1\",\"eventType\":\"DATA_USAGE\",\"payload\":{\"familyId\":$2,\"customerId\":$3,\"bytesUsed\":$4${5:+,\"appId\":\"$5\"}}}"
}
produce() {
    kcat -b "$KAFKA_BROKERS" -P -q -t "${1:-$usage_topic}" -K '	' -X topic.partitioner=murmur2_random
}
settle_all() {
    timeout 90 "$tallyd" run -c "$good" --until-drained >>"$work/tallyd.log" 2>"$work/tallyd.err" || die "run: exit code $?"
}

sql "INSERT INTO family VALUES (1, 'One'), (2, 'Two'), (3, 'Three');
     INSERT INTO family_member VALUES (1, 11), (1, 12), (2, 21), (2, 22), (3, 31);
     INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (1, '2020-01-01', 1000), (2, '2020-01-01', 100000),
         (3, '2020-01-01', 100000);
     INSERT INTO policy_assignment (family_id, customer_id, policy_type, rules) VALUES
         (2, 21, 'MONTHLY_LIMIT', '{\"limitBytes\":500}'), (2, 22, 'APP_BLOCK', '{\"blockedApps\":[\"a b\",\"c\"]}'),
         (3, NULL, 'MANUAL_BLOCK', '{\"reason\":\"test\"}')"
{
    event a1 1 11 450
    event a2 1 11 100   # half is left: 11 is told
    event a3 1 12 60    # and 12
    event a4 1 12 100   # 290 left: 12 is told 30
    event a5 1 11 100   # 190: 11 is told 30
    event a6 1 11 191   # too much
    event b1 2 21 300
    event b2 2 21 201   # over the limit
    event b3 2 21 200
    event b4 2 22 5 'a b'
    event b5 2 22 5 c
    event b6 2 22 5 d
    event c1 3 31 7
    event c2 3 31 7
    event x1 4 41 7     # nobody's
    event b1 2 21 300   # once more
    echo '2	{"eventId":'
} | produce
settle_all
month=$(TZ=Asia/Seoul date +%Y%m)

audits 0
assert_eq 'what is unwell in a settled system' '' "$(unwell)"
[ "$(jq '.checks | length' "$work/audit.json")" = 23 ] || die 'there are other checks than this test knows'
assert_eq 'what was looked at' '5 6 6 6 4 3 14 3 3 3 3 2 5 2 9 9 9 0 0 9 9 9 1 ' "$(jq -r '.checks[].looked' "$work/audit.json" | tr '\n' ' ')"
assert_eq 'what is open' 0 "$(jq '[.checks[].open] | add' "$work/audit.json")"
"$tallyd" audit -c "$good" >"$work/out"
assert_eq 'lines for people' 23 "$(grep -cE '^ok    [1-7]  [a-z ]+ +[0-9]+ ' "$work/out")"
audits 0 --family 2
assert_eq 'of one family' '2 2 2 3 2 1 6 3 0 3 3 3 0 0 3 3 3 ' "$(jq -r '.checks[].looked' "$work/audit.json" | tr '\n' ' ')"
audits 2 --family 5
grep -q 'MySQL has no such family' "$work/audit.err" || die 'an unknown family is not told'
echo 'ok audit: a settled system is green'

# ---- each question made red ---------------------------------------------------------------------------------------------

tables='family_quota customer_quota usage_record usage_block alert_state usage_event_outbox consumer_ledger'
for table in $tables; do
    sql "CREATE TABLE kept_$table AS SELECT * FROM $table"
done
restore() {
    for restore_table in $tables; do
        echo "DELETE FROM $restore_table; INSERT INTO $restore_table SELECT * FROM kept_$restore_table;"
    done | sql
}
spoilt=0
# spoil SQL CHECK OFFENDER: the check is broken and names its offender; standard error tells the first that is broken.
spoil() {
    spoilt=$((spoilt + 1))
    sql "$1"
    audits 9
    grep -qE '^tallyd audit: promise [1-7]: .+' "$work/audit.err" || die 'the message has another form'
    assert_eq "$2, spoilt by $1" broken "$(of "$2" .status)"
    names "$2" "$3"
    restore
}
# red CHECK OFFENDER SQL: perhaps with others, as one thing can break several.
red() {
    spoil "$3" "$1" "$2"
}
# only CHECK OFFENDER SQL: and no other.
only() {
    spoil "$3" "$1" "$2"
    assert_eq "what is unwell, spoilt by $3" "$1 " "$(unwell)"
}
# mild STATUS CODE CHECK SQL: nothing is broken, and it's told.
mild() {
    spoilt=$((spoilt + 1))
    sql "$4"
    audits "$2"
    assert_eq "$3, by $4" "$1" "$(of "$3" .status)"
    restore
}

red 'customer sums' "family 1, customer 12, $month: used 161, the records add up to 160" \
    'UPDATE customer_quota SET monthly_used_bytes = 161 WHERE customer_id = 12'
red 'customer sums' "family 1, customer 12, $month: no quota row" 'DELETE FROM customer_quota WHERE customer_id = 12'
red 'customer sums' "family 1, customer 11, $month: used 650, the records add up to 550" "DELETE FROM usage_record WHERE event_id = 'a5'"
red 'family sums' "family 2, $month: used 506, its customers' add up to 505" \
    "UPDATE family_quota SET used_bytes = 506 WHERE family_id = 2 AND used_bytes > 0"
red 'family sums' "family 1, $month: no quota row" "DELETE FROM family_quota WHERE family_id = 1 AND used_bytes > 0"
red 'quota kept' "family 1, $month: used 810 of 809" "
    UPDATE family_quota SET total_quota_bytes = 809 WHERE family_id = 1 AND used_bytes > 0;
    UPDATE alert_state SET total_quota_bytes = 809 WHERE family_id = 1"
only 'block figures' 'event a6: FAMILY_QUOTA_EXCEEDED, and enough was left' "
    UPDATE usage_block SET remaining_bytes = 191 WHERE event_id = 'a6';
    UPDATE alert_state SET remaining_bytes = 191 WHERE event_id = 'a6'"
only 'block figures' 'event b2: MONTHLY_LIMIT_EXCEEDED, and it was within the limit' \
    "UPDATE usage_block SET monthly_limit_bytes = 501 WHERE event_id = 'b2'"
only 'block bases' "family 1, customer 11, $month: blocked at offset " \
    "UPDATE usage_block SET monthly_used_bytes = 649 WHERE event_id = 'a6'"
red 'decided once' 'event a1: blocked, and settled' "
    INSERT INTO usage_block SELECT event_id, family_id, customer_id, app_id, bytes_used, event_time, quota_month, partition_id,
        record_offset, created_at, 'MANUAL', 0, 0, -1 FROM usage_record WHERE event_id = 'a1'"
part=$(sql "SELECT partition_id FROM usage_record WHERE event_id = 'a1'")
only ledger "partition $part: the counts add up to" "UPDATE consumer_ledger SET gap = gap + 1 WHERE partition_id = $part"
only 'ledger rows' "partition $part: " "UPDATE consumer_ledger SET blocked = blocked + 1, settled = settled - 1 WHERE partition_id = $part"
red 'committed offsets' "partition $part: " "
    UPDATE consumer_ledger SET next_offset = next_offset - 1, settled = settled - 1 WHERE partition_id = $part"
only rejections "partition $part: " "UPDATE consumer_ledger SET rejected = rejected + 1, settled = settled - 1 WHERE partition_id = $part"
red 'blocks told' "family 2, customer 22, $month: APP_BLOCK:c isn't told (event b5)" "
    DELETE FROM alert_state WHERE event_id = 'b5'; DELETE FROM usage_event_outbox WHERE event_id = 'b5'"
red 'thresholds told' "family 1, customer 11, $month: THRESHOLD:30 isn't told, with at least 810 of 1000 used" "
    DELETE FROM alert_state WHERE event_id = 'a5'; DELETE FROM usage_event_outbox WHERE event_id = 'a5'"
red 'thresholds told' "family 1, customer 12, $month: THRESHOLD:30 isn't told, with at least 710 of 1000 used" "
    DELETE FROM alert_state WHERE event_id = 'a4'; DELETE FROM usage_event_outbox WHERE event_id = 'a4'"
only alerts "THRESHOLD:30: the threshold wasn't reached (event a4)" "UPDATE alert_state SET remaining_bytes = 301 WHERE event_id = 'a4'"
only alerts "MANUAL: its event was decided on another figure (event c1)" "UPDATE alert_state SET remaining_bytes = 7 WHERE event_id = 'c1'"
red alerts "THRESHOLD:30: the outbox has no row of event a4" "DELETE FROM usage_event_outbox WHERE event_id = 'a4'"
red notifications 'the outbox has no such row' "DELETE FROM usage_event_outbox WHERE event_id = 'a4'"
only outbox "family 1, event a3: tells THRESHOLD:50, which isn't stored as its alert" "DELETE FROM alert_state WHERE event_id = 'a3'"
only failed 'family 3, event c1: FAILED without an error' "UPDATE usage_event_outbox SET status = 'FAILED' WHERE event_id = 'c1'"
only 'order of sending' 'family 1, event a3: SENT' "UPDATE usage_event_outbox SET status = 'PUBLISH_PENDING' WHERE event_id = 'a2'"
only published 'family 1, event a2: other bytes' "UPDATE usage_event_outbox SET payload_json = CONCAT(payload_json, ' ') WHERE event_id = 'a2'"
red published 'family 2, event b6: SENT, and not on the topic' "
    INSERT INTO usage_event_outbox (event_id, family_id, customer_id, status, payload_json, created_at, sent_at)
        SELECT 'b6', family_id, customer_id, status, payload_json, created_at, sent_at FROM usage_event_outbox WHERE event_id = 'b5'"
only 'order on the topic' 'family 1: event a2 at partition ' "
    UPDATE usage_event_outbox SET outbox_id = outbox_id + 1000;
    UPDATE usage_event_outbox SET outbox_id = outbox_id - 1000 WHERE event_id <> 'a2'"

mild note 0 failed "UPDATE usage_event_outbox SET status = 'FAILED', last_error = 'too large' WHERE event_id = 'c1'"
mild note 0 'in flight' 'UPDATE consumer_ledger SET next_offset = next_offset + 5, gap = gap + 5'
sql 'UPDATE family_quota SET total_quota_bytes = 809 WHERE family_id = 1 AND used_bytes > 0'
audits 0
assert_eq 'a total that was cut' '1 1 of another total' \
    "$(of 'quota kept' .open) $(of redis .detail | grep -o '[0-9]* of another total')"
restore
# Of an alert whose total is gone from every row nothing can be proved.
sql "DELETE FROM alert_state WHERE family_id = 1 AND alert LIKE 'THRESHOLD:%'; DELETE FROM usage_event_outbox WHERE event_id REGEXP 'a[2-5]'"
audits 9
assert_eq 'thresholds without a known total' '0 2' "$(of 'thresholds told' .broken) $(of 'thresholds told' .open)"
restore
sql "UPDATE usage_event_outbox SET status = 'PUBLISH_PENDING', created_at = created_at - INTERVAL 1 HOUR WHERE event_id = 'c1'"
audits 9
assert_eq 'a row that waits for long' note "$(of pending .status)"
restore
# What is another family's isn't seen.
sql 'UPDATE customer_quota SET monthly_used_bytes = 161 WHERE customer_id = 12'
audits 0 --family 2
audits 9 --family 1
restore
audits 0
assert_eq 'what is unwell after all of it' '' "$(unwell)"
echo "ok audit: spoilt in $spoilt ways, told by name each time"

# ---- Redis --------------------------------------------------------------------------------------------------------------

for key in "family:1:remaining:$month" "family:2:customer:21:usage:monthly:$month"; do
    redis INCRBY "$key" 5 >/dev/null
    audits 10
    assert_eq "$key" "drift 1" "$(of redis .status) $(of redis .broken)"
    [ "$(jq .dropped "$work/audit.json")" = 0 ] || die 'dropped without being asked to'
    redis DECRBY "$key" 5 >/dev/null
done
audits 0
# What the script wouldn't use promises nothing.
redis DEL "family:2:remaining:$month" >/dev/null
audits 0
assert_eq 'entries' 2 "$(of redis .looked)"
redis SET "family:3:info:$month" text >/dev/null
audits 0
assert_eq 'entries' 1 "$(of redis .looked)"
redis FLUSHALL >/dev/null
audits 0
assert_eq 'entries' 0 "$(of redis .looked)"

launch healed "$tallyd" run -c "$good"
daemon=$launched
await 'the daemon reads' 30 opened "$work/healed.log"
settled() {
    [ "$(sql "SELECT COUNT(*) FROM usage_record WHERE event_id = '$1'")" = 1 ]
}
event d1 1 12 10 | produce
await 'd1 is settled' 60 settled d1
redis SET "family:1:remaining:$month" 3 >/dev/null
audits 10
names redis "family 1, $month: remaining is 3, by MySQL 180"
audits 0 --fix-cache
assert_eq 'dropped' 1 "$(jq .dropped "$work/audit.json")"
assert_eq 'what is left of the entry' '0 3' "$(redis EXISTS "family:1:info:$month") $(redis GET "family:1:remaining:$month")"
# With the 3 that it held before the script would have blocked it, and the settlement would have come back.
event d2 1 12 10 | produce
await 'd2 is settled' 60 settled d2
audits 0
assert_eq 'entries after the next event' '1 170' "$(of redis .looked) $(redis GET "family:1:remaining:$month")"
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
assert_eq 'settlements that came back' 0 "$(figure "$work/healed.log" stopped came_back)"
echo 'ok audit: an entry of Redis that drifted is told, and heals by --fix-cache'

# ---- stores away ----------------------------------------------------------------------------------------------------------

closed=$("$build/test/freeport" 1)
# away CODE CHECKS SED: with something unreachable; CHECKS are open, the others hold.
away() {
    sed "$3" "$work/config.yaml" >"$work/away.yaml"
    good=$work/away.yaml
    audits "$1"
    assert_eq "open with exit code $1" "$2" "$(unwell)"
    good=$work/config.yaml
}
away 4 'committed offsets in flight rejections notifications published order on the topic ' "s/brokers: .*/brokers: 127.0.0.1:$closed/"
away 5 'redis ' "s/port: $REDIS_PORT/port: $closed/"
sql 'UPDATE customer_quota SET monthly_used_bytes = monthly_used_bytes + 1 WHERE customer_id = 12'
sed "s/brokers: .*/brokers: 127.0.0.1:$closed/" "$work/config.yaml" >"$work/away.yaml"
good=$work/away.yaml
audits 9
good=$work/config.yaml
sql 'UPDATE customer_quota SET monthly_used_bytes = monthly_used_bytes - 1 WHERE customer_id = 12'
# refused CODE SED ARGUMENT...
refused() {
    sed "$2" "$work/config.yaml" >"$work/away.yaml"
    refused_code=$1
    shift 2
    found=0
    timeout 30 "$tallyd" audit -c "$work/away.yaml" "$@" >"$work/out" 2>"$work/case.err" || found=$?
    assert_eq "audit $*: exit code" "$refused_code" "$found"
    [ ! -s "$work/out" ] || die 'a refusal, and something on standard output'
    grep -qE '^tallyd audit: [^:]+: .+' "$work/case.err" || die 'the message has another form'
}
refused 6 "s/port: $MYSQL_PORT/port: $closed/"
refused 2 '' --family 0
refused 2 '' --family 1x
refused 2 '' surplus
refused 3 's/interval_ms: 100/interval_ms: 1/'
sql 'CREATE TABLE kept_schema_migration AS SELECT * FROM schema_migration; DELETE FROM schema_migration'
refused 7 ''
sql 'INSERT INTO schema_migration SELECT * FROM kept_schema_migration'
echo 'ok audit: with a store away the rest is judged'

# ---- a living system --------------------------------------------------------------------------------------------------------

audits_living=0
# While CMD succeeds: nothing is broken, and nothing drifted.
audit_while() {
    while "$@"; do
        audits 0
        audits_living=$((audits_living + 1))
    done
}
simulate seeding --seed-db --families 200
daemons=
for label in one two; do
    launch $label "$tallyd" run -c "$good"
    daemons="$daemons $launched"
    await "$label reads" 60 opened "$work/$label.log"
done
simulate_on living --families 200 --rate 1000 --count 20000 --seed "$seed"
events=$launched
flowing() {
    kill -0 "$events" 2>/dev/null
}
audit_while flowing
ended 'simulate' "$events" 0
[ "$audits_living" -ge 1 ] || die "no audit of a living system"
await 'all is settled' 90 caught_up
audits 0
assert_eq 'what is unwell at rest' '' "$(unwell)"

# Killed in the middle: Redis is ahead of MySQL, and will be right again.
simulate_on killed --families 200 --rate 4000 --count 8000 --seed "$((seed + 1))"
events=$launched
busy() {
    [ "$(ledger_end)" -gt "$busy_from" ]
}
busy_from=$(($(ledger_end) + 2000))
await 'events flow' 60 busy
# shellcheck disable=SC2086 # a list of words
kill -s KILL $daemons
for daemon in $daemons; do
    ended 'a killed daemon' "$daemon" 137
done
ended 'simulate' "$events" 0
audits 0
[ "$(jq .inFlight "$work/audit.json")" -gt 0 ] || die 'nothing is in flight'
in_flight=$(jq .inFlight "$work/audit.json")
settle_all
audits 0
assert_eq 'what is unwell after it' '' "$(unwell)"
assert_eq 'in flight' 0 "$(jq .inFlight "$work/audit.json")"
echo "ok audit: $audits_living audits under traffic, one with $in_flight records left by a kill, and no false alarm"

# ---- spoilt topics ------------------------------------------------------------------------------------------------------------

records "$notification_topic" '%k\t%s\n' >"$work/told"
head -n 1 "$work/told" | produce "$notification_topic"
audits 0 # a repeat to the byte
echo '1	{"eventId":"nobody","eventType":"NOTIFICATION"}' | produce "$notification_topic"
audits 9
assert_eq 'a notification that nobody stored' 'notifications ' "$(unwell)"
head -n 1 "$work/told" | sed 's/}}}$/}} }/' | produce "$notification_topic"
audits 9
assert_eq 'a repeat of other bytes' 'notifications published ' "$(unwell)"
echo 'ok audit: a repeat to the byte, a stranger and a changed repeat on the topic'
