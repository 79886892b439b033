#!/bin/sh
# SPDX-License-Identifier: MIT
# The scenario runner must be able to fail. A scenario is run once; then what it left is compared with expectations that are wrong
# in one way each, and each must be refused with the difference named. So must one that's right but whose stores were touched.
# Runs on the stack whose variables are exported, or on one of its own.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
if [ -z "${KAFKA_BROKERS:-}" ] || [ -z "${MYSQL_PORT:-}" ] || [ -z "${REDIS_PORT:-}" ]; then
    exec sh "$root/scripts/with-stack.sh" -- sh "$root/test/integration/scenario_can_fail.sh"
fi
build=${TALLYD_BUILD:-build}
case $build in
/*) ;;
*) build=$root/$build ;;
esac
tool=$build/test/scenario
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-can-fail.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
failures=0
checks=0

fail() {
    echo "FAILED scenario_can_fail: $*"
    failures=$((failures + 1))
}

# verdict NAME TEXT: the comparison just made ended with 1, and its differences say TEXT.
verdict() {
    checks=$((checks + 1))
    if [ "$code" != 1 ]; then
        fail "$1: expected exit code 1, found $code"
        cat "$tmp/out"
    elif ! grep '^DIFF ' "$tmp/out" | grep -qF -e "$2"; then
        fail "$1: expected a difference that says: $2; found:"
        cat "$tmp/out"
    fi
}

compare() {
    code=0
    "$tool" compare "$tmp/work/rejections" "$1" >"$tmp/out" 2>&1 || code=$?
}

# expected NAME FILTER TEXT: expected.json changed by jq, a difference that says TEXT.
expected() {
    rm -rf "$tmp/altered"
    cp -r "$scenario" "$tmp/altered"
    jq "$2" "$scenario/expected.json" >"$tmp/altered/expected.json"
    if cmp -s "$scenario/expected.json" "$tmp/altered/expected.json"; then
        fail "$1: the change changes nothing"
    fi
    compare "$tmp/altered"
    verdict "$1" "$3"
}

# record NAME LINE FILTER TEXT: the same for one line of records.jsonl.
record() {
    rm -rf "$tmp/altered"
    cp -r "$scenario" "$tmp/altered"
    {
        head -n "$(($2 - 1))" "$scenario/records.jsonl"
        sed -n "$2p" "$scenario/records.jsonl" | jq -c "$3"
        tail -n +"$(($2 + 1))" "$scenario/records.jsonl"
    } >"$tmp/altered/records.jsonl"
    compare "$tmp/altered"
    verdict "$1" "$4"
}

sql() {
    # shellcheck disable=SC2153 # from the stack's environment
    mariadb --no-defaults -h "$MYSQL_HOST" -P "$MYSQL_PORT" -u "$MYSQL_USER" -p"$MYSQL_PASSWORD" "$MYSQL_DATABASE" -e "$1"
}

# touched NAME CHANGE UNDO TEXT: right expectations, a row changed in MySQL.
touched() {
    sql "$2"
    compare "$scenario"
    sql "$3"
    verdict "$1" "$4"
}

# One scenario made of two: rejections has all kinds of outcomes but tells only one alert, so a family with several is added.
scenario=$tmp/rejections
mkdir "$scenario"
scenarios=$root/test/scenarios
jq -s '{families: (.[0].families + [.[1].families[0] | .familyId = 9 | .members = [11, 12, 13, 14]])}' \
    "$scenarios/rejections/setup.json" "$scenarios/last-10mb/setup.json" >"$scenario/setup.json"
{
    cat "$scenarios/rejections/records.jsonl"
    jq -c '.key = "9" | .value |= sub("\"familyId\":1,"; "\"familyId\":9,")' "$scenarios/last-10mb/records.jsonl"
} >"$scenario/records.jsonl"
jq -s '(.[1] | .familyQuota, .customerQuota, .usageRecord, .usageBlock, .outbox) |= map(.familyId = 9) | . as [$a, $b]
    | $a | .familyQuota += $b.familyQuota | .customerQuota += $b.customerQuota | .usageRecord += $b.usageRecord
    | .usageBlock += $b.usageBlock | .outbox += $b.outbox
    | .ledger.settled += $b.ledger.settled | .ledger.blocked += $b.ledger.blocked' \
    "$scenarios/rejections/expected.json" "$scenarios/last-10mb/expected.json" >"$scenario/expected.json"

code=0
sh "$root/scripts/scenario.sh" --partitions 2 --work "$tmp/work" "$scenario" >"$tmp/out" 2>&1 || code=$?
if [ "$code" != 0 ]; then
    echo "FAILED scenario_can_fail: the right expectations came out wrong"
    cat "$tmp/out"
    exit 1
fi

expected 'a wrong family sum' '.familyQuota[0].used += 1' 'family_quota family 1 month 2026-11-01: expected'
expected 'a wrong total' '.familyQuota[1].total += 1' 'family_quota family 2 month 2026-11-01: expected'
expected 'a family row too many' '.familyQuota += [{familyId: 77, month: "2026-11", total: 1, used: 0}]' \
    'family_quota family 77 month 2026-11-01: expected total 1 used 0, found nothing'
expected 'a wrong customer sum' '.customerQuota[0].used -= 1' 'customer_quota family 1 customer 1 month 2026-11-01: expected'
expected 'a wrong block state' '.customerQuota[1] |= (.isBlocked = false | .blockReason = null)' \
    'expected used 5 blocked 0 reason null, found used 5 blocked 1 reason FAMILY_QUOTA_EXCEEDED'
expected 'an extra usage row' '.usageRecord += [.usageRecord[0] | .eventId = "invented"]' 'usage_record invented: expected'
expected 'a missing usage row' 'del(.usageRecord[] | select(.eventId == "t-04"))' 'usage_record t-04: expected nothing, found'
expected 'an app that is null' '(.usageRecord[] | select(.eventId == "app-wide")).appId = null' 'usage_record app-wide: expected'
expected 'a wrong block reason' '.usageBlock[0].reason = "MANUAL"' 'usage_block blk-1: expected'
# shellcheck disable=SC2016 # jq's variable, not the shell's
expected 'an outbox in another order' \
    '(.outbox | map(.eventId) | index("last-1")) as $i | .outbox |= (.[:$i] + [.[$i + 1], .[$i]] + .[$i + 2:])' \
    'outbox family 9 #1: expected event last-2'
expected 'an outbox row too few' 'del(.outbox[] | select(.eventId == "last-6"))' 'outbox family 9 #6: expected nothing'
expected 'a wrong threshold' '(.outbox[] | select(.eventId == "last-1")).threshold = 30' 'outbox family 9 #1: expected'
expected 'a missing rejection' 'del(.rejected[] | select(.line == 18))' 'rejected line 18 copy 1 time 1: expected nothing'
expected 'a rejection too many' '.rejected += [{line: 1, code: "MALFORMED_JSON"}]' 'rejected line 1 copy 1 time 1: expected'
expected 'a wrong code' '(.rejected[] | select(.line == 96)).code = "MALFORMED_JSON"' \
    'rejected line 96 copy 1 time 1: expected MALFORMED_JSON, found ID_CONFLICT'
expected 'a wrong member' '(.rejected[] | select(.line == 18)).field = "customerId"' 'DLT of line 18: expected the member customerId'
expected 'a wrong count' '.ledger.ignored += 1' 'consumer_ledger in sum: expected'
record 'a wrong outcome' 1 '.outcome = "ignored"' 'outcome of line 1 copy 1: expected ignored, found settled'
record 'a rejection called settled' 3 '.outcome = "settled"' 'line 3: expected settled, but its value is no usage event'
record 'a duplicate called settled' 100 '.outcome = "settled"' 'outcome of line 100 copy 1: expected settled, found duplicate'
record 'another time' 60 '.value |= sub("T11:00"; "T11:01")' "usage_record's origin t-00: expected"
record 'another value in the DLT' 3 '.value = "{ "' 'DLT of line 3: expected value { '
record 'another key in the DLT' 3 '.key = "2"' 'DLT of line 3: expected key 2, found 1'
record 'another timestamp in the DLT' 3 '.timestampMs += 1' 'DLT of line 3: expected timestamp'

touched 'a quota nobody used' 'UPDATE family_quota SET used_bytes = used_bytes + 1 WHERE family_id = 2' \
    'UPDATE family_quota SET used_bytes = used_bytes - 1 WHERE family_id = 2' \
    "promise \"a family's use is the sum of its customers'\": expected no breach, found family 2"
touched 'a total Redis has not seen' 'UPDATE family_quota SET total_quota_bytes = total_quota_bytes + 1 WHERE family_id = 2' \
    'UPDATE family_quota SET total_quota_bytes = total_quota_bytes - 1 WHERE family_id = 2' 'Redis family:2:remaining:202611: expected'
touched 'a row not sent' "UPDATE usage_event_outbox SET status = 'PUBLISH_PENDING' WHERE event_id = 'last-2'" \
    "UPDATE usage_event_outbox SET status = 'SENT' WHERE event_id = 'last-2'" 'outbox last-2: expected SENT'
touched 'a payload of other bytes' "UPDATE usage_event_outbox SET payload_json = REPLACE(payload_json, ',', ', ') WHERE event_id = 'last-2'" \
    "UPDATE usage_event_outbox SET payload_json = REPLACE(payload_json, ', ', ',') WHERE event_id = 'last-2'" \
    'payload of last-2: expected the compact form'
touched 'other bytes than on the topic' "UPDATE usage_event_outbox SET created_at = created_at - INTERVAL 1 SECOND WHERE event_id = 'last-2'" \
    "UPDATE usage_event_outbox SET created_at = created_at + INTERVAL 1 SECOND WHERE event_id = 'last-2'" \
    'notification-events family 9 #2: expected'
touched 'a mark of another event' "UPDATE alert_state SET event_id = 'blk-1' WHERE event_id = 'last-2'" \
    "UPDATE alert_state SET event_id = 'last-2' WHERE event_id = 'blk-1' AND family_id = 9" 'alert_state family 9 customer 12'
touched 'an older block state' 'UPDATE customer_quota SET state_event_time = state_event_time - INTERVAL 1 SECOND WHERE customer_id = 14' \
    'UPDATE customer_quota SET state_event_time = state_event_time + INTERVAL 1 SECOND WHERE customer_id = 14' \
    'promise "the block state is as new as the newest event": expected no breach, found family 9 customer 14'
touched 'a ledger that lags' 'UPDATE consumer_ledger SET next_offset = next_offset - 1, ignored = ignored - 1 WHERE ignored > 0' \
    'UPDATE consumer_ledger SET next_offset = next_offset + 1, ignored = ignored + 1 WHERE ignored > 0' \
    'expected no more than the ledger'
touched 'a ledger that does not add up' 'UPDATE consumer_ledger SET gap = gap + 1' 'UPDATE consumer_ledger SET gap = gap - 1' \
    "'s way: expected from 0 to"

# The command itself must say no, also when the daemon fails or hangs.
code=0
"$tool" run "$tmp/work/rejections" 20 /bin/sh -c 'echo last words; exit 3' >"$tmp/out" 2>&1 || code=$?
sed -i 's/^last words/DIFF last words/' "$tmp/out"
verdict 'a daemon that fails' 'last words'
code=0
"$tool" run "$tmp/work/rejections" 1 /bin/sleep 30 >"$tmp/out" 2>&1 || code=$?
sed -i 's/^DIFF:/DIFF /' "$tmp/out"
verdict 'a daemon that hangs' 'still running'
code=0
cp "$scenario/expected.json" "$tmp/right.json"
jq '.ledger.ignored += 1' "$tmp/right.json" >"$scenario/expected.json"
sh "$root/scripts/scenario.sh" --partitions 2 "$scenario" >"$tmp/out" 2>&1 || code=$?
verdict 'the whole command' 'consumer_ledger in sum: expected'

[ "$failures" = 0 ] || exit 1
echo "ok scenario_can_fail: $checks wrong expectations, all refused by name"
