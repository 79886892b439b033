#!/bin/sh
# SPDX-License-Identifier: MIT
# `tallyd dlt`: rejected records by code, time, partition and offset; one with its headers and every byte; and sent again, first dry, once
# what was missing is there: settled exactly, with the original time, key, value and headers, and no header of a rejection added.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin dlt 3
good=$work/config.yaml

# asks CODE ARGUMENT...: its output lies in $work/out; the log's lines apart, stderr has one line where the code isn't 0.
asks() {
    asks_code=$1
    shift
    found=0
    timeout 90 "$tallyd" dlt "$@" -c "$good" >"$work/out" 2>"$work/all.err" || found=$?
    grep -v '^{' "$work/all.err" >"$work/case.err" || :
    assert_eq "dlt $*: exit code" "$asks_code" "$found"
    assert_eq "dlt $*: lines on stderr" "$((asks_code != 0))" "$(wc -l <"$work/case.err")"
    ! grep -qvE '^tallyd dlt: [^:]+: .+' "$work/case.err" || die "dlt $*: the message has another form"
}
out() {
    jq -r "$1" "$work/out" | tr '\n' ' ' | sed 's/ $//'
}
shows() {
    grep -qE -e "$1" "$work/out" || die "expected a line that shows: $1; found: $(cat "$work/out")"
}
event() { # event ID FAMILY CUSTOMER
    echo "$2	{\"eventId\":\"$1\",\"eventType\":\"DATA_USAGE\",\"payload\":{\"familyId\":$2,\"customerId\":$3,\"bytesUsed\":10}}"
}
produce() { # produce [KCAT ARGUMENT...]
    kcat -b "$KAFKA_BROKERS" -P -q -t "$usage_topic" -K '	' -X topic.partitioner=murmur2_random "$@"
}
settle_all() {
    timeout 90 "$tallyd" run -c "$good" --until-drained >>"$work/tallyd.log" 2>"$work/tallyd.err" || die "run: exit code $?"
}
counts() {
    sql 'SELECT SUM(settled), SUM(duplicate), SUM(rejected) FROM consumer_ledger' | tr '\t' ' '
}

# ---- what there is ----------------------------------------------------------------------------------------------------

for usage in '' 'lsit' 'list x' 'list --yes' 'list --raw' 'list --code x' 'list --limit -1' 'list --since yesterday' 'list --offset 5' 'list --partition 0 --offset 5-3' \
    'list --partition x' 'show' 'show 1' 'show 1:x' 'show 1:2 3:4' 'show 1:2 --raw --json' 'show 1:2 --code A' 'redrive --raw' 'redrive 1:2' 'redrive --from 5' 'redrive --yes --limit 5' 'redrive --topic a/b'; do
    # shellcheck disable=SC2086 # a list of words
    asks 2 $usage
done
for odd in "$(printf 'lsit\033[31m')" "$(printf 'redrive\302\233')"; do
    asks 2 "$odd"
    ! grep -qP '[\x00-\x09\x0b-\x1f\x7f-\xff]' "$work/case.err" || die 'the message repeats what a terminal would obey'
done
asks 2 redrive --topic "$(printf 'a\033[31m')" --yes
asks 4 redrive --partition 99 --yes
grep -q "$dlt_topic has no partition 99" "$work/case.err" || die 'it does not say that there is no such partition'
asks 0 list
assert_eq 'an empty DLT' '0 records' "$(cat "$work/out")"
asks 11 show 0:0
sql "INSERT INTO family VALUES (1, 'One'); INSERT INTO family_member VALUES (1, 11);
     INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (1, '2020-01-01', 1000000), (2, '2020-01-01', 1000000)"
{
    event known 1 11
    for n in $(seq 30); do event "later-$n" 2 21; done
    event stranger 1 99
} | produce -H 'traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' -H 'own=mine'
# Bytes that aren't text, with what a terminal would obey.
printf '%b' '\0001\0033[31m\0377\0376{"eventId":\0134' >"$work/broken"
kcat -b "$KAFKA_BROKERS" -P -q -t "$usage_topic" -p 2 -k "$(printf 'k\033y')" "$work/broken"
settle_all
assert_eq 'settled, duplicate, rejected' '1 0 32' "$(counts)"
asks 0 list
shows '^MALFORMED_JSON +1 +20'
shows '^NOT_A_MEMBER +1 +20'
shows '^UNKNOWN_FAMILY +30 +20'
shows '^32 records$'
shows "^2:[0-9]+ +MALFORMED_JSON +$usage_topic 2:[0-9]+ +20"
! grep -q "$(printf '\033')" "$work/out" || die 'a terminal would obey it'
asks 0 list --json --code UNKNOWN_FAMILY --limit 4
assert_eq 'of one code, the newest' '30 4' "$(out '.records, (.rows | length)')"
part=$(out '.rows[0].partition') last=$(out '[.rows[].offset] | max')
asks 0 list --json --partition "$part" --offset "$((last - 9))-$last" --limit 0
assert_eq 'of a range' '10 0' "$(out '.records, (.rows | length)')"
asks 0 list --json --partition "$part" --offset "$last"
assert_eq 'of one offset' "1 $last" "$(out '.records, .rows[].offset')"
asks 0 list --json --since "$(date -u -d '-1 hour' +%Y-%m-%dT%H:%MZ)" --until "$(date -u -d '+1 hour' +%Y-%m-%dT%H:%MZ)"
assert_eq 'of these hours' 32 "$(out .records)"
asks 0 list --json --since "$(date -u -d '+1 hour' +%Y-%m-%dT%H:%MZ)"
assert_eq 'of later' 0 "$(out .records)"
asks 0 list --json --until 2020-01-01
assert_eq 'of before' 0 "$(out .records)"
asks 0 list --json --code MALFORMED_JSON
place=$(out '.rows[0] | "\(.partition):\(.offset)"')
asks 0 show "$place" --raw
cmp -s "$work/out" "$work/broken" || die 'the bytes are others'
asks 0 show "$place"
shows '^key +k\\x1by$'
shows '^value +\\x01\\x1b\[31m\\xff\\xfe\{"eventId":\\\\$'
shows '^x-error-code +MALFORMED_JSON$'
asks 0 show "$place" --json
assert_eq 'the headers' 'x-error-action x-error-code x-error-message x-original-offset x-original-partition x-original-timestamp x-original-topic' "$(out '[.headers[].name] | sort[]')"
asks 11 show 2:999999
echo 'ok dlt: list and show, by code, time, partition and offset; every byte, and none a terminal would obey'

# ---- redrive ----------------------------------------------------------------------------------------------------------

end=$(topic_end)
asks 0 redrive --limit 0
shows '^UNKNOWN_FAMILY +30 +0 +0 '
shows '^MALFORMED_JSON +1 +1 +0 '
shows '^32 of 32 records would go to .*nothing is sent without --yes$'
shows '^1 of them would be rejected again'
assert_eq 'what a dry run has sent' "$end" "$(topic_end)"
records "$usage_topic" '%k %T %s %h\n' | grep later- | sort >"$work/first"
sql "INSERT INTO family VALUES (2, 'Two'); INSERT INTO family_member VALUES (2, 21)"
asks 0 redrive --code UNKNOWN_FAMILY --yes --json
assert_eq 'what was sent' 'false 30 30 0 0 null' "$(out '.dryRun, .records, .sent, .refused, .cannotGo, .resumeFrom')"
grep -q '"event":"dlt_redriven","records":30,"sent":30,' "$work/all.err" || die 'it is not logged'
assert_eq "the topic's end" $((end + 30)) "$(topic_end)"
settle_all
assert_eq 'settled, duplicate, rejected' '31 0 32' "$(counts)"
assert_eq 'what they used' 300 "$(sql 'SELECT SUM(used_bytes) FROM family_quota WHERE family_id = 2')"
promises_hold
# Key, time, value and headers are those of the first time; nothing of the rejection is left.
records "$usage_topic" '%k %T %s %h\n' | grep later- | sort >"$work/both"
sort "$work/first" "$work/first" | cmp -s - "$work/both" || die "they came back otherwise: $(tail -n 1 "$work/both")"
grep -q 'own=mine' "$work/both" || die 'their own headers are gone'
"$tallyd" audit -c "$good" --json >"$work/audit.json" || die "audit: exit code $?: $(jq -c '.checks[] | select(.status != "holds")' "$work/audit.json" | head -n 3)"
# Once more: duplicates, and no sum moves.
asks 0 redrive --code UNKNOWN_FAMILY --yes
shows '^30 of 30 records sent to '
settle_all
assert_eq 'settled, duplicate, rejected' '31 30 32' "$(counts)"
# What is rejected again isn't sent again by the same redrive, and its headers are replaced, not added to.
for time in 1 2; do
    asks 0 redrive --code MALFORMED_JSON --yes --json
    assert_eq "the $time. time" "$time" "$(out .sent)"
    settle_all
done
records "$dlt_topic" '%h %s\n' >"$work/rejected"
assert_eq 'malformed ones in the DLT' 4 "$(tr ',' '\n' <"$work/rejected" | grep -ac '^x-error-code=MALFORMED_JSON')"
asks 0 list --json --code MALFORMED_JSON
for place in $(out '.rows[] | "\(.partition):\(.offset)"'); do
    asks 0 show "$place" --raw
    cmp -s "$work/out" "$work/broken" || die 'the bytes are others after some times'
    asks 0 show "$place" --json
    assert_eq 'headers' 7 "$(out '.headers | length')"
done
echo 'ok dlt: what was rejected for a family that was missing is settled exactly, and again changes nothing'

# ---- what can't go ----------------------------------------------------------------------------------------------------

elsewhere=$group.elsewhere
end=$(topic_end)
kcat -b "$KAFKA_BROKERS" -P -q -t "$dlt_topic" -p 0 -k 1 -H x-error-code=CUT -H "x-original-topic=$usage_topic" -H x-truncated=99999 <"$work/first"
echo x | kcat -b "$KAFKA_BROKERS" -P -q -t "$dlt_topic" -p 0 -H x-error-code=CUT -H "x-original-topic=$elsewhere"
echo x | kcat -b "$KAFKA_BROKERS" -P -q -t "$dlt_topic" -p 0
asks 0 redrive --code CUT
shows '^0:[0-9]+ can.t go: cut: '
asks 11 redrive --code CUT --yes --json
cut=$(wc -l <"$work/first")
assert_eq 'what could go' "0 $((cut + 1))" "$(out '.sent, .cannotGo')"
assert_eq 'why' 'cut: only its beginning is in the DLT (x-truncated)' "$(out '.named[0].why')"
assert_eq "the topic's end" "$end" "$(topic_end)"
asks 0 list
shows '^- +1 '
asks 0 redrive --topic "$elsewhere" --json
assert_eq 'what could go elsewhere' 1 "$(out '.records - .cannotGo')"
case ${BROKER_KIND:-} in
embedded*) ;;
*)
    # Where nobody acknowledges, nothing counts as sent, and it says where to go on.
    sed -i 's/message_timeout_ms: .*/message_timeout_ms: 1000/; s/lease_ms: .*/lease_ms: 7000/' "$good"
    asks 4 redrive --topic "$elsewhere" --code CUT --yes --json
    from=$(out .resumeFrom)
    assert_eq 'what was sent' 0 "$(out .sent)"
    grep -q "go on with the same options and --from $from)" "$work/case.err" || die "it doesn't say where to go on: $(cat "$work/case.err")"
    "$ktool" topic-create "$elsewhere" 1 retention.ms=-1
    trap '"$ktool" topic-delete "$elsewhere" || :; finish' EXIT
    asks 0 redrive --topic "$elsewhere" --code CUT --yes --json --from "$from"
    assert_eq 'what was sent then' '1 1 null' "$(out '.records, .sent, .resumeFrom')"
    assert_eq 'what is there' x "$(records "$elsewhere" '%s%h\n')"
    asks 0 redrive --topic "$elsewhere" --code CUT --json --from "${from%:*}:$((${from#*:} + 1))"
    assert_eq 'what lies behind it' 0 "$(out .records)"
    # Of several, one that the broker refuses doesn't hold up the others.
    "$ktool" topic-config "$usage_topic" retention.ms=-1 max.message.bytes=300
    head -c 1000 /dev/zero | tr '\0' y | kcat -b "$KAFKA_BROKERS" -P -q -t "$dlt_topic" -p 1 -k 5 -H x-error-code=LARGE -H "x-original-topic=$usage_topic"
    for n in 1 2 3; do echo "$n" | kcat -b "$KAFKA_BROKERS" -P -q -t "$dlt_topic" -p 1 -k 5 -H x-error-code=LARGE -H "x-original-topic=$usage_topic"; done
    end=$(topic_end)
    asks 11 redrive --code LARGE --yes --json
    assert_eq 'refused, and sent' '1 3 Broker: Message size too large' "$(out '.refused, .sent, .named[].why')"
    assert_eq "the topic's end" $((end + 3)) "$(topic_end)"
    ;;
esac
sed "s/brokers: .*/brokers: 127.0.0.1:$("$build/test/freeport" 1)/" "$good" >"$work/away.yaml"
good=$work/away.yaml
asks 4 list
good=$work/no-such.yaml
asks 3 list
echo 'ok dlt: what is cut or from elsewhere is named and stays; cut short, it says where to go on'
