#!/bin/sh
# SPDX-License-Identifier: MIT
# MySQL refuses data: poison records at the first and last place of a batch, several in one, in all batches of a stream, with twins
# before and behind them. Only the poison is rejected. What isn't known to be the data's fault rejects nothing: it's waited for.
set -eu
# shellcheck source=test/fault/lib_mysql.sh
. "$(dirname "$0")/lib_mysql.sh"
workers=1
report_interval_ms=1000
mysql_begin mysql_refused 1
# batches end after 50 records, not by the clock
mysql_configure 'batch:
  max_events: 50
  linger_ms: 1000'

# Customers to poison: those of the biggest quotas, so that nothing is blocked for want of it.
sql "UPDATE family_quota SET total_quota_bytes = 9000000000000"
sql "DELETE FROM policy_assignment"
family=$(sql 'SELECT MIN(family_id) FROM family_member')
customer=$(sql "SELECT MIN(customer_id) FROM family_member WHERE family_id = $family")

# event ID BYTES [APP]: as simulate writes them.
event() {
    printf '%s|{"eventId":"%s","eventType":"DATA_USAGE","payload":{"familyId":%s,"customerId":%s,"appId":"%s","bytesUsed":%s,"metadata":{"networkType":"5G"}}}\n' \
        "$family" "$1" "$family" "$customer" "${3:-com.example}" "$2"
}
# good FROM TO: plain events.
good() {
    good_n=$1
    while [ "$good_n" -le "$2" ]; do
        event "good-$good_n" 3
        good_n=$((good_n + 1))
    done
}
send() {
    kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -K '|'
}
# summary LABEL NORMAL DUPLICATE REJECTED NEVER: what was sent, as simulate says it; how many ids never end.
summary() {
    jq -n --argjson n "$2" --argjson d "$3" --argjson r "$4" --argjson never "$5" '{failed: 0, acked: {total: ($n + $d + $r)}, brokenByCode: {SETTLEMENT_REJECTED: $never},
        produced: {normal: $n, late: 0, duplicate: $d, broken: $r}}' >"$work/$1.json"
    labels="$labels $1" traffic_label=$1
}
# The ids that were rejected for their data.
rejected_ids() {
    records "$dlt_topic" '%h %s\n' | grep 'x-error-code=SETTLEMENT_REJECTED' |
        grep -o '"eventId":"[^"]*"' | cut -d '"' -f 4 | sort -u | paste -sd ' '
}

# ---- in one batch -----------------------------------------------------------------------------------------------------

# Before the daemon reads, so that the batches are known: 50 with poison at the first and the last place, twins of poison, and others.
sql "ALTER TABLE usage_record ADD CONSTRAINT poisoned CHECK (app_id <> 'poison' AND bytes_used <> 666)"
{
    event p-first 5 poison
    event p-first 5 poison
    good 1 20
    event p-middle 666
    event p-neighbour 666
    good 21 30
    event twin 5 poison
    event twin 6
    event twin 6
    good 31 42
    event p-last 7 poison
    good 43 92
} | send
summary checked 93 1 6 4
daemon tallyd
await 'the batch is split' 60 said batch_split '"records":50'
rest
assert_eq 'batches split' 1 "$(grep -c batch_split "$log")"
assert_eq 'rejected for their data' 'p-first p-last p-middle p-neighbour twin' "$(rejected_ids)"
assert_eq 'the one that took its twin'\''s place' 6 "$(sql "SELECT bytes_used FROM usage_record WHERE event_id = 'twin'")"
assert_eq 'used' $((92 * 3 + 6)) "$(sql "SELECT SUM(monthly_used_bytes) FROM customer_quota")"
told 'refused data (4025)' 'poison first and last in its batch, two side by side, and poison twins: each rejected alone'

# ---- in a stream ------------------------------------------------------------------------------------------------------

# app N: a name of so many letters.
app() {
    printf "%0$1d" 0 | tr 0 a
}
sql 'ALTER TABLE usage_record DROP CONSTRAINT poisoned, MODIFY app_id VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL'
traffic shrunk
n=0
while [ "$n" -lt 3 ]; do
    event "long-$n" 9 "$(app 51)" | send
    event "short-$n" 9 "$(app 50)" | send
    n=$((n + 1))
    flows_on 100
done
summary long $n 0 $n $n
quiet
assert_eq 'rejected for their data' 'long-0 long-1 long-2 p-first p-last p-middle p-neighbour twin' "$(rejected_ids)"
told 'refused data (1406)' "$n over-long values in a stream, each rejected alone"

# ---- what isn't the data's fault --------------------------------------------------------------------------------------

# waits_out CODE TIMES: nothing is settled, nothing is rejected, the log says why once a period.
waits_out() {
    await "the log tells of $1" 60 said settlement_waiting "\"error_code\":$1"
    mark
    waits_at=$(ledger_end)
    waits_from=$(date +%s)
    waits_left=$2
    while [ "$waits_left" -gt 0 ]; do
        await "the log tells of $1 again" 60 said settlement_waiting "\"error_code\":$1"
        mark
        waits_left=$((waits_left - 1))
    done
    assert_eq 'settled meanwhile' "$waits_at" "$(ledger_end)"
    [ $(($(date +%s) - waits_from)) -ge $(($2 - 1)) ] || die "$2 reports within $(($(date +%s) - waits_from)) s"
}

traffic signalled
sql "
DELIMITER //
CREATE TRIGGER trouble BEFORE INSERT ON usage_record FOR EACH ROW IF NEW.app_id = 'trouble' THEN SIGNAL SQLSTATE '45000'; END IF //"
event trouble 9 trouble | send
summary trouble 1 0 0 0
waits_out 1644 2
sql 'DROP TRIGGER trouble'
quiet
assert_eq 'the event that the trigger stopped' 9 "$(sql "SELECT bytes_used FROM usage_record WHERE event_id = 'trouble'")"
told 'an unknown code (1644)' 'waited for and told once a period, rejected nothing, healed with the trigger gone'

traffic ledger
sql "ALTER TABLE consumer_ledger ADD CONSTRAINT full CHECK (next_offset < $(($(ledger_end) + 1500)))"
waits_out 4025 2
sql 'ALTER TABLE consumer_ledger DROP CONSTRAINT full'
quiet
told 'refused data, in the ledger (4025)' 'waited for and told once a period, rejected nothing, healed with the constraint gone'
daemon_ends
