#!/bin/sh
# SPDX-License-Identifier: MIT
# The reference model before it judges: it agrees with the scenarios, whose outcomes were worked out by another hand; a seed makes the
# same run every time; and its check is able to fail. A run that came out right is spoilt in one way after the other, a row here, a
# record or a key there, and each must be refused with the difference named.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin model_can_fail 3
model=$build/test/model
checks=0

for dir in "$root"/test/scenarios/*/; do
    "$model" scenario "$dir" >"$work/scenario.log" || die "the model and the scenario differ: $(head -n 5 "$work/scenario.log")"
done
echo "ok model_can_fail: the model agrees with the scenarios"

base=$(date +%s)
run=$work/run
size="--partitions 3 --events 900 --families 24 --base $base"
# shellcheck disable=SC2086 # a list of words
for dir in run again; do
    "$model" make "$work/$dir" --seed 11 $size >/dev/null
done
diff -r "$run" "$work/again" || die 'the same seed makes another run'
# shellcheck disable=SC2086
"$model" make "$work/other" --seed 12 $size >/dev/null
if cmp -s "$run/phase-0.records" "$work/other/phase-0.records"; then
    die 'another seed makes the same run'
fi
"$model" make "$work/large" --seed 14 --base 1796000000 --floor --refuse >"$work/kinds"
for kind in EVENT_TOO_LARGE MALFORMED_JSON INVALID_FIELD EVENT_IN_FUTURE EVENT_TOO_OLD ID_CONFLICT UNKNOWN_FAMILY NOT_A_MEMBER \
    POLICY_UNREADABLE SETTLEMENT_REJECTED MANUAL APP_BLOCK TIME_BLOCK MONTHLY_LIMIT_EXCEEDED FAMILY_QUOTA_EXCEEDED WARNING_10 WARNING_30 \
    WARNING_50 NORMAL duplicate ignored; do
    grep -q "^$kind " "$work/kinds" || die "a run has no $kind"
done
echo "ok model_can_fail: a run is its seed's, and has records of every kind"

sql <"$run/population.sql"
for phase in 0 1 2; do
    if [ "$phase" -gt 0 ]; then
        sql <"$run/phase-$phase.sql"
        while read -r family; do
            "$tallyd" warm -c "$work/config.yaml" "$family" >>"$work/warm.log"
        done <"$run/phase-$phase.warm"
    fi
    "$model" produce "$run" "$phase" "$usage_topic" >>"$work/produce.log"
    "$tallyd" run -c "$work/config.yaml" --until-drained >"$work/tallyd.log" 2>"$work/tallyd.err" || die "tallyd: exit code $?"
done
# what lies on the topic isn't produced a second time
"$model" produce "$run" 2 "$usage_topic" | grep -q '^produced 0 records' || die 'a phase was produced twice'

# check [OPTION...]: its exit code in code, what it says in $work/check.log. The last of several options counts.
check() {
    code=0
    "$model" check "$run" --group "$group" --usage-topic "$usage_topic" --notification-topic "$notification_topic" \
        --dlt-topic "$dlt_topic" --cache "$@" >"$work/check.log" 2>&1 || code=$?
}
# accepted WHAT [OPTION...]
accepted() {
    accepted_what=$1
    shift
    check "$@"
    [ "$code" = 0 ] || die "$accepted_what: expected to be accepted, found exit code $code: $(head -n 5 "$work/check.log")"
    checks=$((checks + 1))
}
# refused WHAT CODE TEXT [OPTION...]: the check ends with that code and says that text.
refused() {
    refused_what=$1 refused_code=$2 refused_text=$3
    shift 3
    check "$@"
    assert_eq "$refused_what: exit code" "$refused_code" "$code"
    grep -qF -e "$refused_text" "$work/check.log" || die "$refused_what: expected to be told '$refused_text', found $(head -n 5 "$work/check.log")"
    checks=$((checks + 1))
}

accepted 'what came out right'

# ---- tables -----------------------------------------------------------------------------------------------------------

# spoilt TABLE TEXT STATEMENT: refused with that text; afterwards the table is as it was.
spoilt() {
    sql "DROP TABLE IF EXISTS spare; CREATE TABLE spare AS SELECT * FROM $1"
    sql "$3"
    same=$(sql "SELECT COUNT(*) FROM (SELECT * FROM $1 EXCEPT SELECT * FROM spare UNION ALL (SELECT * FROM spare EXCEPT SELECT * FROM $1)) x")
    [ "$same" != 0 ] || die "nothing was changed by $3"
    refused "$3" 1 "$2"
    sql "SET foreign_key_checks = 0; DELETE FROM $1; INSERT INTO $1 SELECT * FROM spare; DROP TABLE spare"
}

settled="event_id = (SELECT MIN(event_id) FROM (SELECT event_id FROM usage_record) x)"
blocked="event_id = (SELECT MIN(event_id) FROM (SELECT event_id FROM usage_block) x)"
spoilt usage_record 'usage_record event' "DELETE FROM usage_record WHERE $settled"
for change in 'bytes_used = bytes_used + 1' 'customer_id = customer_id + 1' "app_id = 'another'" \
    'event_time = event_time + INTERVAL 1000 MICROSECOND' 'quota_month = quota_month - INTERVAL 1 MONTH' \
    'record_offset = record_offset + 1' 'partition_id = (partition_id + 1) % 3' 'family_id = family_id + 1'; do
    spoilt usage_record 'usage_record event' "UPDATE usage_record SET $change WHERE $settled"
done
spoilt usage_block 'usage_block event' "DELETE FROM usage_block WHERE $blocked"
for change in "reason = 'MANUAL', remaining_bytes = remaining_bytes + 1" 'remaining_bytes = remaining_bytes - 1' \
    'monthly_used_bytes = monthly_used_bytes + 1' 'monthly_limit_bytes = monthly_limit_bytes + 1' 'record_offset = record_offset + 1'; do
    spoilt usage_block 'usage_block event' "UPDATE usage_block SET $change WHERE $blocked"
done
spoilt usage_block 'expected nothing, found family' "INSERT INTO usage_block SELECT CONCAT(event_id, 'x'), family_id, customer_id, app_id,
    bytes_used, event_time, quota_month, partition_id, record_offset, created_at, reason, remaining_bytes, monthly_used_bytes,
    monthly_limit_bytes FROM usage_block LIMIT 1"
spoilt family_quota 'family_quota family' 'UPDATE family_quota SET used_bytes = used_bytes + 1 LIMIT 1'
spoilt family_quota 'family_quota family' 'UPDATE family_quota SET total_quota_bytes = total_quota_bytes + 1 LIMIT 1'
spoilt family_quota 'found nothing' 'DELETE FROM family_quota LIMIT 1'
for change in 'monthly_used_bytes = monthly_used_bytes + 1' 'is_blocked = 1 - is_blocked' "block_reason = 'NONE'" \
    'state_event_time = state_event_time + INTERVAL 1 SECOND'; do
    spoilt customer_quota 'customer_quota family' "UPDATE customer_quota SET $change LIMIT 1"
done
for change in "event_id = 'another'" 'total_quota_bytes = total_quota_bytes + 1' 'remaining_bytes = remaining_bytes + 1' "alert = 'THRESHOLD:1'" \
    'arming = 1'; do
    spoilt alert_state 'alert_state family' "UPDATE alert_state SET $change LIMIT 1"
done
spoilt alert_state 'found nothing' 'DELETE FROM alert_state LIMIT 1'
spoilt usage_event_outbox 'outbox family' 'DELETE FROM usage_event_outbox LIMIT 1'
for change in "status = 'FAILED'" "status = 'PUBLISH_PENDING'" "payload_json = REPLACE(payload_json, '\"type\":', '\"Type\":')" \
    "payload_json = REPLACE(payload_json, '\"bytesUsed\":', '\"bytesUsed\":1')" "payload_json = CONCAT(' ', payload_json)" \
    "payload_json = REGEXP_REPLACE(payload_json, '\"title\":\"[^\"]*\"', '\"title\":\"\"')" 'customer_id = customer_id + 1'; do
    spoilt usage_event_outbox 'outbox family' "UPDATE usage_event_outbox SET $change LIMIT 1"
done
# a word of the message is tallyd's own; but the topic has the other one
spoilt usage_event_outbox 'notification topic' "UPDATE usage_event_outbox
    SET payload_json = REGEXP_REPLACE(payload_json, '\"message\":\"', '\"message\":\"x') LIMIT 1"
spoilt usage_event_outbox 'notification topic' 'UPDATE usage_event_outbox SET created_at = created_at - INTERVAL 1 SECOND LIMIT 1'
spoilt usage_event_outbox 'expected to be sent after' 'UPDATE usage_event_outbox SET sent_at = NULL LIMIT 1'
spoilt usage_event_outbox 'expected no retry' 'UPDATE usage_event_outbox SET retry_count = 1 LIMIT 1'
# told in another order: two of a family change places
spoilt usage_event_outbox 'outbox family' "UPDATE usage_event_outbox o JOIN (SELECT MIN(outbox_id) a, MAX(outbox_id) b FROM usage_event_outbox
    GROUP BY family_id HAVING COUNT(*) > 1 LIMIT 1) x ON outbox_id = a SET outbox_id = b + 100000"
for change in 'settled = settled + 1, duplicate = duplicate - 1' 'rejected = rejected + 1, ignored = ignored - 1' 'gap = gap + 1' \
    'next_offset = next_offset + 1' 'paused = 1' 'first_offset = 1'; do
    spoilt consumer_ledger 'consumer_ledger partition' "UPDATE consumer_ledger SET $change WHERE duplicate > 0 AND ignored > 0 LIMIT 1"
done
spoilt consumer_ledger 'committed offset of partition' 'UPDATE consumer_ledger SET next_offset = next_offset - 1 LIMIT 1'
accepted 'the tables, put back'

# ---- Redis ------------------------------------------------------------------------------------------------------------

# Of a family that one worker alone has at a time: others' figures may be older.
remaining=$(redis --scan --pattern 'family:100000:info:*' | LC_ALL=C sort | head -n 1 | sed 's/:info:/:remaining:/')
left=$(redis GET "$remaining")
redis SET "$remaining" "$((left - 1))" KEEPTTL >/dev/null
refused 'a wrong figure in Redis' 1 "Redis $remaining: expected $left"
redis SET "$remaining" "$left" >/dev/null
refused 'a key for ever' 1 "Redis $remaining: expected to expire"
redis EXPIRE "$remaining" 3000 >/dev/null
info=$(echo "$remaining" | sed 's/:remaining:/:info:/')
family=${info%%:info:*} month=${info##*:}
customer=$(redis SMEMBERS "$family:members" | head -n 1)
redis INCRBY "$family:customer:$customer:usage:monthly:$month" 1 >/dev/null
refused "a wrong customer's figure" 1 "usage:monthly:$month: expected"
redis DECRBY "$family:customer:$customer:usage:monthly:$month" 1 >/dev/null
redis SADD "$family:members" 4711 >/dev/null
refused 'a member too many' 1 "$family:members 4711: expected nothing"
redis SREM "$family:members" 4711 >/dev/null
redis HSET "$family:customer:$customer:constraints" BLOCK:APP:x 1 >/dev/null
refused 'a rule too many' 1 'constraints BLOCK:APP:x: expected nothing'
redis HDEL "$family:customer:$customer:constraints" BLOCK:APP:x >/dev/null
mark=$family:customer:$customer:alert:APP_BLOCK:nobody:$month
redis SET "$mark" "$(redis HGET "$info" gen)" EX 3000 >/dev/null
refused 'a mark of what nobody was told' 1 "Redis $mark"
redis DEL "$mark" >/dev/null
total=$(redis HGET "$info" totalQuota)
redis HSET "$info" totalQuota 1234567 >/dev/null
refused 'a wrong total' 1 'expected totalQuota'
redis HSET "$info" totalQuota "$total" >/dev/null
accepted 'Redis, put back'

# ---- topics -----------------------------------------------------------------------------------------------------------

made=
topic() {
    "$ktool" topic-create "$1" 3 retention.ms=-1
    made="$made $1"
}
produce() {
    kcat -P -q -b "$KAFKA_BROKERS" -t "$1" -X partitioner=murmur2_random -K '|'
}
records "$notification_topic" '%k|%s\n' >"$work/notifications"
topic "$group.same"
produce "$group.same" <"$work/notifications"
accepted 'the same notifications in the same order' --notification-topic "$group.same"
topic "$group.reversed"
tac "$work/notifications" | produce "$group.reversed"
refused 'notifications in the wrong order' 1 'notification topic family' --notification-topic "$group.reversed" --crashes
head -n 1 "$work/notifications" | produce "$group.same"
refused 'a notification twice' 1 'notification topic family' --notification-topic "$group.same"
accepted 'a notification twice after a crash' --notification-topic "$group.same" --crashes
head -n 1 "$work/notifications" | sed 's/"payload"/ "payload"/' | produce "$group.same"
refused 'a notification that is no copy' 1 'notification topic family' --notification-topic "$group.same" --crashes
topic "$group.short"
head -n -1 "$work/notifications" | produce "$group.short"
refused 'a notification less' 1 'found nothing' --notification-topic "$group.short" --crashes
sed 1d "$work/notifications" >"$work/elsewhere"
topic "$group.elsewhere"
head -n 1 "$work/notifications" | cut -d '|' -f 2- | kcat -P -q -b "$KAFKA_BROKERS" -t "$group.elsewhere" -p 0
produce "$group.elsewhere" <"$work/elsewhere"
refused 'a notification without its key' 1 'notification topic family' --notification-topic "$group.elsewhere" --crashes

topic "$group.empty"
refused 'no rejections at all' 1 'DLT record' --dlt-topic "$group.empty" --crashes
# an event that was settled, under a code
place=$(sql "SELECT CONCAT(partition_id, ' ', record_offset) FROM usage_record LIMIT 1")
rejection() { # rejection PARTITION OFFSET CODE
    echo x | kcat -P -q -b "$KAFKA_BROKERS" -t "$dlt_topic" -H "x-error-code=$3" -H x-error-message=because -H x-error-action=DLQ \
        -H "x-original-topic=$usage_topic" -H "x-original-partition=$1" -H "x-original-offset=$2" -H x-original-timestamp=1
}
rejection "${place% *}" "${place#* }" MALFORMED_JSON
refused 'a rejection of what was settled' 1 "record ${place% *}/${place#* }: expected nothing" --crashes
refused 'the same without crashes' 1 "record ${place% *}/${place#* }: expected nothing"

# ---- what can't be judged -----------------------------------------------------------------------------------------------

echo '0 0 0 999999' >>"$run/places"
refused 'a record that the broker lost' 2 "isn't there"
sed -i '$d' "$run/places"
echo '{}' | kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic"
refused "a stranger's record" 2 "isn't one of the run's records"
for topic in $made; do
    "$ktool" topic-delete "$topic"
done
echo "ok model_can_fail: $checks checks; what is spoilt is refused by name"
