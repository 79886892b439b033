#!/bin/sh
# SPDX-License-Identifier: MIT
# What `tallyd explain` answers, against what SQL and the topics say: for an event that is settled, told a threshold, blocked, delivered
# twice, rejected, refused under another's id, rejected and settled later, ignored, waiting and never seen; with its record gone, its
# notification not sent yet, Redis emptied or away, Kafka away.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin explain 3
good=$work/config.yaml

# explains CODE VERDICT ID [ARGUMENT...]: its JSON lies in $work/explain.json; for people it begins with the same sentence.
explains() {
    explains_code=$1 explains_verdict=$2 explains_id=$3
    shift 3
    found=0
    timeout 60 "$tallyd" explain -c "$good" --json "$@" "$explains_id" >"$work/explain.json" 2>"$work/explain.err" || found=$?
    assert_eq "explain $explains_id: exit code" "$explains_code" "$found"
    assert_eq "explain $explains_id: lines on stderr" "$((explains_code != 0))" "$(wc -l <"$work/explain.err")"
    assert_eq "explain $explains_id" "$explains_verdict" "$(jq -r .verdict "$work/explain.json")"
}
of() {
    jq -r "$1" "$work/explain.json"
}
says() {
    of .sentence | grep -qF -e "$1" || die "expected a sentence that says '$1', found: $(of .sentence)"
}
# event ID FAMILY CUSTOMER BYTES [APP]
event() {
    echo "$2	{\"eventId\":\"$1\",\"eventType\":\"DATA_USAGE\",\"payload\":{\"familyId\":$2,\"customerId\":$3,\"bytesUsed\":$4${5:+,\"appId\":\"$5\"}}}"
}
produce() {
    kcat -b "$KAFKA_BROKERS" -P -q -t "$usage_topic" -K '	' -X topic.partitioner=murmur2_random
}
settle_all() {
    timeout 90 "$tallyd" run -c "$good" --until-drained >>"$work/tallyd.log" 2>"$work/tallyd.err" || die "run: exit code $?"
}
# mentioned TOPIC ID: the same of what isn't JSON.
mentioned() {
    records "$1" '%p %o %s\n' | grep -F "\"note\":\"$2\"" | cut -d ' ' -f 1,2
}
# places TOPIC ID: partition and offset of the records with that id, a line each.
places() {
    records "$1" '%p %o %s\n' | grep -F "\"eventId\":\"$2\"" | cut -d ' ' -f 1,2
}

sql "INSERT INTO family VALUES (1, 'One'), (2, 'Two'), (3, 'Three'), (5, 'Five');
     INSERT INTO family_member VALUES (1, 11), (1, 12), (2, 21), (2, 22), (3, 31);
     INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (1, '2020-01-01', 1000), (2, '2020-01-01', 100000),
         (3, '2020-01-01', 100000), (5, '2020-01-01', 100000);
     INSERT INTO policy_assignment (family_id, customer_id, policy_type, rules) VALUES
         (2, 21, 'MONTHLY_LIMIT', '{\"limitBytes\":500}'), (2, 22, 'APP_BLOCK', '{\"blockedApps\":[\"a b\",\"c\"]}'),
         (3, NULL, 'MANUAL_BLOCK', '{\"reason\":\"test\"}')"
{
    event a1 1 11 450
    event a2 1 11 100 # 450 left: 11 is told 50
    event a3 1 11 10  # and not again
    event a6 1 12 441 # too much
    event a2 1 11 100 # again
    event a1 1 11 451 # another event
    event b1 2 21 300
    event b2 2 21 201 # over the limit
    event b4 2 22 5 'a b'
    event c1 3 31 7
    event x1 4 41 7   # nobody's
    event f1 5 51 8   # no member yet
    echo '2	{"eventId":"m1","eventType":'
    echo '2	{"eventId":"m2","note":"q1","eventType":'
    echo '2	{"note":"b1"' # no JSON, and another's id in it
    event k1 2 22 3
    echo '2	{"eventId":"o1","eventType":"OTHER"}'
    # shellcheck disable=SC1003 # two backslashes
    echo '2	{"eventId":"\u0065sc","eventType":"DATA_USAGE","payload":{"familyId":2,"customerId":22,"bytesUsed":1,"appId":"\u001b[31m\u009b31m\u202ered"}}'
} | produce
settle_all
month=$(TZ=Asia/Seoul date +%Y-%m)

# ---- by what became of it ---------------------------------------------------------------------------------------------

explains 0 settled b1
assert_eq 'where it lay' "$(places "$usage_topic" b1)" "$(of '.row | "\(.partition) \(.offset)"')"
assert_eq 'its record' 'there decided 1 2' "$(of '"\(.row.record) \(.deliveries[0].became) \(.deliveries | length) \(.deliveries[0].key)"')"
assert_eq 'its row' "2 21 300 $month usage_record" "$(of '.row | "\(.family) \(.customer) \(.bytes) \(.month) \(.table)"')"
assert_eq 'its figures' '100000 99700 300 500 true' "$(of '.decidedOn | "\(.total) \(.remaining) \(.monthlyUsed) \(.monthlyLimit) \(.eventCounted)"')"
assert_eq 'now' "$(sql "SELECT total_quota_bytes, used_bytes FROM family_quota WHERE family_id = 2 AND rev > 0" | tr '\t' ' ') 300" \
    "$(of '.now | "\(.total) \(.used) \(.monthlyUsed)"')"
assert_eq 'stores' 'agree agree NORMAL' "$(of '"\(.stores.remaining.state) \(.stores.used[0].state) \(.dedup.status)"')"
assert_eq 'told' '0 null' "$(of '"\([.alerts[] | select(.event == "b1")] | length) \(.outbox)"')"
says "Settled at $(TZ=Asia/Seoul date +%Y)-"
says '300 bytes of customer 21 in family 2'

says 'a malformed record mentions it'

explains 0 settled_with_warning a2
says 'told WARNING_50'
says 'delivered again, as a duplicate'
assert_eq 'deliveries' "$(places "$usage_topic" a2 | tr '\n' ' ')" "$(of '.deliveries[] | "\(.partition) \(.offset)"' | tr '\n' ' ')"
assert_eq 'what became of them' 'decided duplicate ' "$(of '.deliveries[].became' | tr '\n' ' ')"
assert_eq 'its alerts' 'THRESHOLD:50 true 1000 450 a2' "$(of '.alerts[] | "\(.alert) \(.told) \(.total) \(.remaining) \(.event)"')"
assert_eq 'its outbox row' "$(sql "SELECT outbox_id, status, retry_count FROM usage_event_outbox WHERE event_id = 'a2'" | tr '\t' ' ')" \
    "$(of '.outbox | "\(.id) \(.status) \(.tries)"')"
assert_eq 'its notification' "$(places "$notification_topic" a2) true" "$(of '.notifications[] | "\(.partition) \(.offset) \(.same)"')"

explains 0 settled_with_warning a3
says 'WARNING_50, which was told before'
assert_eq 'told by another' 'a2' "$(of '.alerts[].event')"

explains 0 blocked a6
says 'its 441 bytes were more than the 440 that the family had left (FAMILY_QUOTA_EXCEEDED)'
assert_eq 'its figures' "$(sql "SELECT remaining_bytes, monthly_used_bytes, reason FROM usage_block WHERE event_id = 'a6'" | tr '\t' ' ')" \
    "$(of '"\(.decidedOn.remaining) \(.decidedOn.monthlyUsed) \(.row.reason)"')"
assert_eq 'its alert' 'FAMILY_QUOTA_EXCEEDED true SENT 1' "$(of '"\(.alerts[0].alert) \(.alerts[0].told) \(.outbox.status) \(.notifications | length)"')"
explains 0 blocked b2
says "with 300 used its 201 bytes would pass the customer's limit of 500 (MONTHLY_LIMIT_EXCEEDED)"
explains 0 blocked b4
says 'its app was blocked'
assert_eq 'its rules' 'a b,c' "$(of '.now.rules.blockedApps | join(",")')"
explains 0 blocked c1
says 'an access block was on'
assert_eq 'its rules' true "$(of .now.rules.manualBlock)"

explains 0 settled a1
says 'another event under its id was rejected (ID_CONFLICT)'
assert_eq 'the conflict' "$(places "$dlt_topic" a1) ID_CONFLICT $(places "$usage_topic" a1 | tail -n 1)" \
    "$(of '.rejections[] | "\(.partition) \(.offset) \(.code) \(.originalPartition) \(.originalOffset)"')"
assert_eq 'deliveries' 'decided null,rejected ID_CONFLICT' "$(of '[.deliveries[] | "\(.became) \(.code)"] | join(",")')"

explains 0 rejected x1
says 'Rejected, and in the DLT, as UNKNOWN_FAMILY: '
assert_eq 'its place' "$(places "$dlt_topic" x1) $(places "$usage_topic" x1)" \
    "$(of '.rejections[] | "\(.partition) \(.offset) \(.originalPartition) \(.originalOffset)"')"
assert_eq 'its family' '4 false' "$(of '"\(.now.family) \(.now.familyKnown)"')"
# of a month of its own, which its first record's time says
echo '1	{"eventId":"old1","eventType":"DATA_USAGE","payload":{"familyId":1,"customerId":11,"bytesUsed":5}}' |
    kcat -b "$KAFKA_BROKERS" -P -q -t "$dlt_topic" -K '	' -H x-error-code=UNKNOWN_FAMILY -H x-original-timestamp=1737000000000
explains 0 rejected old1
assert_eq 'its month' '2025-01 1' "$(of '.now | "\(.month) \(.family)"')"
explains 0 rejected m1 # cut in the middle, and still its own
says 'as MALFORMED_JSON'
assert_eq 'deliveries' 'rejected MALFORMED_JSON 1 0' "$(of '"\(.deliveries[0].became) \(.deliveries[0].code) \(.rejections | length) \(.mentions | length)"')"
explains 0 never_seen q1
says 'a malformed record mentions it, which says nothing of it'
assert_eq 'where it is mentioned' "$usage_topic $(mentioned "$usage_topic" q1) null, $dlt_topic $(mentioned "$dlt_topic" q1) MALFORMED_JSON" \
    "$(of '[.mentions[] | "\(.topic) \(.partition) \(.offset) \(.code)"] | sort_by(. | endswith("MALFORMED_JSON")) | join(", ")')"
assert_eq 'and no more' '0 0' "$(of '"\(.deliveries | length) \(.rejections | length)"')"
"$tallyd" explain -c "$good" q1 >"$work/out"
grep -q "^$dlt_topic .* rejected: MALFORMED_JSON$" "$work/out" || die 'its mention in the DLT is not shown'
explains 0 ignored o1
says 'another one than DATA_USAGE'
explains 0 settled esc
"$tallyd" explain -c "$good" esc >"$work/out"
for obeyed in '\033' '\302\233' '\342\200\256'; do # ESC, CSI, right-to-left
    # shellcheck disable=SC2059 # an escape is meant
    ! grep -qF -e "$(printf "$obeyed")" "$work/out" "$work/explain.json" || die "a terminal would obey $obeyed"
done
grep -qF '?[31m?31m?red' "$work/out" || die 'its app is not shown'
assert_eq 'its app' "$(sql "SELECT HEX(app_id) FROM usage_record WHERE event_id = 'esc'")" "$(of .row.app | tr -d '\n' | od -An -tx1 -v | tr -d ' \n' | tr a-f A-F)"

explains 0 never_seen nobody
assert_eq 'the sentence' "Never seen: MySQL has no row of it, and it isn't among all $(records "$usage_topic" 'x\n' | wc -l) records of $usage_topic nor all $(records "$dlt_topic" 'x\n' | wc -l) records of $dlt_topic." "$(of .sentence)"
explains 11 undetermined nobody --scan 4
assert_eq 'looked at' '4 false true' "$(of '.searched.usage | "\(.records) \(.whole) \(.toEnd)"')"
says "isn't in what was searched, which isn't all: the last 4 of about $(records "$usage_topic" 'x\n' | wc -l) records of $usage_topic"
grep -q '^tallyd explain: search: .* (--scan all .*)$' "$work/explain.err" || die 'how to search all is not told'
explains 11 undetermined x1 --scan 0

# more than its time suffices for
many=$group.many
"$ktool" topic-create "$many" 2 retention.ms=-1
trap '"$ktool" topic-delete "$many" || :; finish' EXIT
seq 100000 | kcat -b "$KAFKA_BROKERS" -P -q -t "$many" -X topic.partitioner=random -X linger.ms=50
sed "s/usage: '.*/usage: '$many'/" "$work/config.yaml" >"$work/many.yaml"
good=$work/many.yaml
explains 11 undetermined nobody --within 1ms
says 'that its time sufficed for, without the newest '
assert_eq 'what was searched and what not' '100000 false false' \
    "$(of '.searched.usage | "\(.unread + ([.partitions[] | .readTo - .readFrom] | add)) \(.whole) \(.toEnd)"')"
[ "$(of .searched.usage.unread)" -gt 0 ] || die 'all was searched after all'
grep -q '^tallyd explain: search: .* (--within .*)$' "$work/explain.err" || die 'how to search longer is not told'
found=0
"$tallyd" explain -c "$good" --within 1ms nobody >"$work/out" 2>"$work/explain.err" || found=$?
assert_eq 'exit code' 11 "$found"
grep -q '^Undetermined: ' "$work/out" || die "not undetermined: $(head -n 1 "$work/out")"
! grep -qi 'never seen' "$work/out" || die 'never seen, of what was not read'
grep -A 1 '^not searched ' "$work/out" | grep -qE "^$many +[01] +(none|[0-9]+ to [0-9]+) +[0-9]+ to [0-9]+$" || die 'what was not read is not shown'
explains 0 blocked b2 --within 1ms # its row is enough
explains 0 never_seen nobody --scan 100000
good=$work/config.yaml
explains 0 rejected x1 --since 1h
explains 0 rejected x1 --since "$(TZ=Asia/Seoul date -d '-10 minutes' +%Y-%m-%dT%H:%M)" # in the zone, whatever the machine's is
explains 11 undetermined x1 --since "$(TZ=Asia/Seoul date -d '+10 minutes' +%Y-%m-%dT%H:%M)"
explains 11 undetermined x1 --since "$(date -d '+1 hour' +%Y-%m-%dT%H:%M)Z"
explains 0 rejected x1 --scan all
echo 'ok explain: settled, told, blocked, repeated, refused, rejected, ignored, never seen'

# ---- later ------------------------------------------------------------------------------------------------------------

explains 0 rejected f1
says NOT_A_MEMBER
sql 'INSERT INTO family_member VALUES (5, 51)'
{
    event f1 5 51 8
    event w1 5 51 9
    event f1 5 51 8
    event k1 2 22 4 # another event, of an id that Redis doesn't remember
} | produce
redis DEL event:dedup:usage:k1 >/dev/null
explains 0 waiting f1
assert_eq 'deliveries' 'rejected waiting waiting ' "$(of '.deliveries[].became' | tr '\n' ' ')"
says 'and is the next record to be settled; rejected once, as NOT_A_MEMBER'
explains 0 waiting w1
says 'with 1 record to be settled before it'
assert_eq 'before it' "$(of '.deliveries[0].offset')" "$(($(sql "SELECT next_offset FROM consumer_ledger WHERE partition_id = $(of '.deliveries[0].partition')") + 1))"
redis DEL "family:5:info:$(echo "$month" | tr -d -)" >/dev/null
settle_all
explains 0 settled f1
says 'delivered again, as a duplicate; rejected once, as NOT_A_MEMBER'
assert_eq 'deliveries' 'rejected decided duplicate ' "$(of '.deliveries[].became' | tr '\n' ' ')"

explains 0 settled k1
says '3 bytes of customer 22 in family 2'
says 'another event under its id was rejected (ID_CONFLICT)'
assert_eq "Redis' entry" 'other 2 22 4 null null' "$(of '.dedup | "\(.of) \(.family) \(.customer) \(.bytes) \(.status) \(.current)"')"
assert_eq 'its figures' null "$(of .decidedOn)"
"$tallyd" explain -c "$good" k1 >"$work/out"
grep -qF "Redis' entry is of another event (family 2, customer 22, 4 bytes)" "$work/out" || die "Redis' entry is taken for the event's"
explains 0 settled b1
assert_eq "Redis' entry" 'own NORMAL' "$(of '.dedup | "\(.of) \(.status)"')"

sql "UPDATE usage_event_outbox SET status = 'PUBLISH_PENDING', retry_count = 3, last_error = 'no luck', sent_at = NULL WHERE event_id = 'a6'"
explains 0 blocked a6
assert_eq 'its outbox row' 'PUBLISH_PENDING 3 no luck null' "$(of '.outbox | "\(.status) \(.tries) \(.lastError) \(.sent)"')"
sql "UPDATE usage_event_outbox SET status = 'SENT', payload_json = CONCAT(payload_json, ' ') WHERE event_id = 'a6'"
explains 0 blocked a6
assert_eq 'its notification' 'false' "$(of '.notifications[].same')"
sql "CREATE TABLE kept AS SELECT * FROM usage_record WHERE event_id IN ('a2', 'b1'); DELETE FROM usage_record WHERE event_id IN ('a2', 'b1')"
sql "UPDATE usage_event_outbox SET created_at = created_at + INTERVAL 2 MONTH WHERE event_id = 'a2'" # a row that came to be after its month
explains 0 pruned a2
says 'the outbox has its notification'
assert_eq 'its month' "$month $(sql "SELECT used_bytes FROM family_quota WHERE family_id = 1 AND rev > 0") THRESHOLD:50" "$(of '"\(.now.month) \(.now.used) \(.alerts[0].alert)"')"
sql "UPDATE usage_event_outbox SET created_at = created_at - INTERVAL 2 MONTH WHERE event_id = 'a2'"
explains 0 unaccounted b1
sql 'INSERT INTO usage_record SELECT * FROM kept'
sql "DELETE FROM usage_record WHERE event_id = 'k1'; UPDATE usage_floor SET closed_before = '2099-01-01'"
explains 0 pruned k1
says 'was rejected as ID_CONFLICT, which proves that the id was known; of months before 209901 the rows are pruned'
sql "UPDATE usage_floor SET closed_before = '1970-01-01'"

part=$(places "$usage_topic" a2 | head -n 1 | cut -d ' ' -f 1)
"$ktool" records-delete "$usage_topic" "$part" -1
explains 0 settled_with_warning a2
assert_eq 'its record' 'gone 0' "$(of '"\(.row.record) \(.deliveries | length)"')"
sql "UPDATE usage_record SET record_offset = record_offset + 1000 WHERE event_id = 'esc'"
explains 0 settled esc
assert_eq 'its record' 'other record' "$(of .row.record)"
echo 'ok explain: waiting, settled after a rejection, not sent yet, its row or its record gone'

# ---- Redis and Kafka ----------------------------------------------------------------------------------------------------

redis INCRBY "family:2:remaining:$(echo "$month" | tr -d -)" 5 >/dev/null
explains 0 settled b1
assert_eq 'stores' 'differ 5 agree' "$(of '"\(.stores.remaining.state) \(.stores.remaining.difference) \(.stores.used[0].state)"')"
redis FLUSHALL >/dev/null
explains 0 settled b1
assert_eq 'stores' 'cold null null null' "$(of '"\(.stores.state) \(.stores.remaining.redis) \(.dedup) \(.decidedOn)"')"
explains 0 settled a3 # only Redis knew of its warning

closed=$("$build/test/freeport" 1)
# away CODE SED VERDICT ID
away() {
    sed "$2" "$work/config.yaml" >"$work/away.yaml"
    good=$work/away.yaml
    explains "$1" "$3" "$4"
    good=$work/config.yaml
}
away 5 "s/port: $REDIS_PORT/port: $closed/" settled b1
assert_eq 'the rest' 'redis null null there' "$(of '"\(.redis.area) \(.kafka) \(.stores) \(.row.record)"')"
grep -q '^tallyd explain: redis: .* (what it would have said is left out)$' "$work/explain.err" || die 'that Redis is away is not told'
away 4 "s/brokers: .*/brokers: 127.0.0.1:$closed/" undetermined x1
assert_eq 'the rest' 'kafka null null null' "$(of '"\(.kafka.area) \(.redis) \(.searched.usage) \(.row)"')"
kafka_pid=$(cat "$TALLYD_TEST_DIR/kafka/pid" 2>/dev/null || :)
if [ -n "$kafka_pid" ]; then
    # however this ends, the next test finds a broker
    trap 'kill -s CONT "$kafka_pid" 2>/dev/null || :; "$ktool" topic-delete "$many" || :; finish' EXIT
    kill -s STOP "$kafka_pid"
    explains 4 blocked b2
    assert_eq 'the rest' 'kafka null cold not asked' "$(of '"\(.kafka.area) \(.redis) \(.stores.state) \(.row.record)"')"
    kill -s CONT "$kafka_pid"
    explains 0 blocked b2
    assert_eq 'the rest' 'there null' "$(of '"\(.row.record) \(.kafka)"')"
fi
away 4 "s/dlt: .*/dlt: explain-no-such-topic/" settled b1
assert_eq 'the rest' 'decided null' "$(of '"\(.deliveries[0].became) \(.searched.dlt)"')"

# refused CODE SED ARGUMENT...
refused() {
    sed "$2" "$work/config.yaml" >"$work/away.yaml"
    refused_code=$1
    shift 2
    found=0
    timeout 30 "$tallyd" explain -c "$work/away.yaml" "$@" >"$work/out" 2>"$work/case.err" || found=$?
    assert_eq "explain $*: exit code" "$refused_code" "$found"
    [ ! -s "$work/out" ] || die 'a refusal, and something on standard output'
    grep -qE '^tallyd explain: [^:]+: .+' "$work/case.err" || die 'the message has another form'
}
refused 6 "s/port: $MYSQL_PORT/port: $closed/" b1
refused 2 ''
refused 2 '' b1 b2
refused 2 '' ''
refused 2 '' 'b 1'
refused 2 '' "$(printf '%192s' '' | tr ' ' x)"
refused 2 '' --since yesterday b1
refused 2 '' --scan some b1
refused 2 '' --within 0s b1
refused 2 '' --within 5 b1
refused 3 's/interval_ms: 100/interval_ms: 1/' b1
explains 0 never_seen "$(printf '%191s' '' | tr ' ' x)"
explains 0 never_seen "a'\"\\;--%s"
echo 'ok explain: with Redis emptied, Redis or Kafka away the rest is answered'
