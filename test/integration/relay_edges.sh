#!/bin/sh
# SPDX-License-Identifier: MIT
# The relay where it gets difficult: a burst of one family, rows that others lease or take away, two relays on one outbox, a relay
# killed with rows in hand, the broker away, a notification that is too large.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
case ${BROKER_KIND:-} in
embedded*)
    echo 'skipped relay_edges: the embedded broker neither comes back nor refuses a size'
    exit 0
    ;;
esac
session_timeout_ms=2000 # how long a dead member's partitions wait
export session_timeout_ms
begin relay_edges 3
small_topic=$group.small
broker=$TALLYD_TEST_DIR/kafka

freeze() { kill -s STOP "$(cat "$broker/pid")"; }
thaw() { kill -s CONT "$(cat "$broker/pid")"; }

# However this ends, the next test finds a broker.
leave() {
    thaw 2>/dev/null || :
    sh "$root/scripts/stack.sh" start-one "$TALLYD_TEST_DIR" kafka || :
    "$ktool" topic-delete "$small_topic" || :
    finish
}
trap leave EXIT

# ---- what happens -----------------------------------------------------------------------------------------------------

# One instant for all events: no month ends between them.
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)

# event ID FAMILY CUSTOMER BYTES: a record for kcat.
event() {
    printf '%s|{"eventId":"%s","eventType":"DATA_USAGE","timestamp":"%s","payload":{"familyId":%s,"customerId":%s,"bytesUsed":%s}}\n' \
        "$2" "$1" "$now" "$2" "$3" "$4"
}

# alerts ID FAMILY FIRST LAST: an event of each of these customers. The family has one byte a month, so the first event of all is
# settled and warned of, every other is blocked; and each is its customer's first: as many alerts as events.
alerts() {
    for alerts_n in $(seq "$3" "$4"); do
        event "$1-$alerts_n" "$2" $(($2 * 1000 + alerts_n)) 1
    done
}

produce() {
    kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -K '|' -X topic.partitioner=murmur2_random
}

# families FIRST LAST CUSTOMERS TOTAL
families() {
    families_members=$3
    for family in $(seq "$1" "$2"); do
        echo "INSERT INTO family (family_id, name) VALUES ($family, 'F$family');"
        echo "INSERT INTO family_member (family_id, customer_id) SELECT $family, $family * 1000 + seq FROM seq_1_to_$families_members;"
        echo "INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES ($family, '2026-01-01', $4);"
    done | sql
}

# put EVENT FAMILY OWNER LEASE: a row as another process would have left it. OWNER NULL: nobody's.
put() {
    sql "INSERT INTO usage_event_outbox (event_id, family_id, customer_id, status, payload_json, lease_owner, lease_until, created_at)
         VALUES ('$1', $2, 1, 'PUBLISH_PENDING', '{\"n\":\"$1\"}', $3, UTC_TIMESTAMP(3) + INTERVAL $4 SECOND, UTC_TIMESTAMP(3))"
}

# The foreign leases on rows by this pattern run out now.
end_leases() {
    sql "UPDATE usage_event_outbox SET lease_until = UTC_TIMESTAMP(3) WHERE event_id LIKE '$1' AND lease_owner = 1"
}

# rows CONDITION: how many.
rows() {
    sql "SELECT COUNT(*) FROM usage_event_outbox WHERE $1"
}
are() { # are COUNT CONDITION
    [ "$(rows "$2")" -eq "$1" ]
}
at_least() { # at_least COUNT CONDITION
    [ "$(rows "$2")" -ge "$1" ]
}
all_sent() {
    are 0 "status <> 'SENT'"
}
row() { # status and owner
    sql "SELECT status, COALESCE(lease_owner, 'nobody') FROM usage_event_outbox WHERE event_id = '$1'" | tr '\t' ' '
}
logged() { # logged LABEL EVENT
    grep -qs "\"event\":\"$2\"" "$work/$1.log"
}

daemon() { # daemon LABEL CONFIG
    launch "$1" "$tallyd" run -c "$work/$2.yaml"
    await "$1 reads" 30 opened "$work/$1.log"
}
stop() { # stop LABEL PID
    kill -s TERM "$2"
    ended "$1" "$2" 0
}

# slowly FILE: a copy of the configuration whose relay needs a while for each round, so that rows wait.
slowly() {
    awk '{ print } /^kafka:/ { print "  properties:"; print "    linger.ms: '"'$2'"'" }' "$1" >"$1.new"
    mv "$1.new" "$1"
}

# On the topic a family's notifications appear, at first, in the order of their rows, all in one partition under the family's key;
# nothing else is there, and everything that counts as sent is. Prints how many came again.
told_in_order() {
    sql 'SELECT event_id, outbox_id, family_id, status FROM usage_event_outbox' >"$work/order.rows"
    records "$1" '%k %p %s\n' | sed 's/^\([^ ]* [^ ]*\) {"eventId":"\([^"]*\)".*/\1 \2/' >"$work/order.topic"
    awk 'NR == FNR { id[$1] = $2; family[$1] = $3; status[$1] = $4; next }
        !($3 in id) { print "nobody told " $3; next }
        $1 != family[$3] { print $3 " has the key " $1 }
        ($1 in part) && $2 != part[$1] { print $1 " lies in two partitions" }
        { part[$1] = $2 }
        $3 in seen { again++; next }
        { seen[$3] = 1; if (id[$3] + 0 <= last[$1] + 0) print $3 " was overtaken"; last[$1] = id[$3] }
        END {
            for (e in id) if (status[e] == "SENT" && !(e in seen)) print e " was never told"
            print "again " again + 0
        }' "$work/order.rows" "$work/order.topic" >"$work/order.found"
    [ "$(wc -l <"$work/order.found")" -eq 1 ] || die "the order told: $(head -n 5 "$work/order.found")"
    sed 's/again //' "$work/order.found"
}

# Who marked which row, by the lease it held then.
sql 'CREATE TABLE publishers (outbox_id BIGINT NOT NULL, owner BIGINT NULL);
     CREATE TRIGGER publishers_note BEFORE UPDATE ON usage_event_outbox FOR EACH ROW
     INSERT INTO publishers SELECT OLD.outbox_id, OLD.lease_owner FROM (SELECT 1) x WHERE NEW.status <> OLD.status'

# ---- a burst of one family in one batch -------------------------------------------------------------------------------

# 40 % left, 20, 8, nothing: each customer is told what it causes; 12 and 13 are blocked; 10 has nothing new to be told.
families 10 10 20 100
families 11 13 20 1
{
    event burst-01 10 10001 60
    event burst-02 10 10001 20
    event burst-03 10 10001 12
    alerts burst-x 11 1 8
    event burst-04 10 10002 1
    event burst-05 10 10001 1
    event burst-06 10 10001 50
    event burst-07 10 10003 6
    event burst-08 10 10002 1
    event burst-09 10 10003 2
    event burst-10 10 10004 1
} | produce
message_timeout_ms=15000 lease_ms=30000
configure "$work/patient.yaml"
launch patient "$tallyd" run -c "$work/patient.yaml"
patient=$launched
await 'the burst is told' 30 at_least 16 "status = 'SENT'"
await 'all of it is settled' 30 caught_up
cat >"$work/burst.expected" <<'END'
burst-01 WARNING_50
burst-02 WARNING_30
burst-03 WARNING_10
burst-04 WARNING_10
burst-06 FAMILY_QUOTA_EXCEEDED
burst-07 WARNING_10
burst-08 FAMILY_QUOTA_EXCEEDED
burst-09 FAMILY_QUOTA_EXCEEDED
burst-10 FAMILY_QUOTA_EXCEEDED
END
records "$notification_topic" '%k %s\n' | sed -n 's/^10 {"eventId":"\([^"]*\)".*"status":"\([^"]*\)".*/\1 \2/p' >"$work/burst.found"
cmp -s "$work/burst.expected" "$work/burst.found" || die "the burst was told as: $(diff "$work/burst.expected" "$work/burst.found")"
assert_eq 'instants at which the burst was settled' 1 "$(sql 'SELECT COUNT(DISTINCT created_at) FROM usage_event_outbox WHERE family_id = 10')"
assert_eq 'told again' 0 "$(told_in_order "$notification_topic")"

# ---- leases of others -------------------------------------------------------------------------------------------------

put foreign 12 1 3600
alerts behind 12 1 2 | produce
await 'rows behind a foreign one are given up' 30 are 2 "family_id = 12 AND event_id <> 'foreign' AND lease_owner IS NULL"
for canary in 1 2; do # two sweeps have looked
    put canary-$canary 90 NULL 0
    await "canary $canary is told" 30 are 1 "event_id = 'canary-$canary' AND status = 'SENT'"
done
assert_eq 'the foreign row' 'PUBLISH_PENDING 1' "$(row foreign)"
assert_eq 'rows behind it' 2 "$(rows "family_id = 12 AND status = 'PUBLISH_PENDING' AND event_id <> 'foreign'")"
end_leases foreign
await 'a lease that ran out is taken over' 30 all_sent
assert_eq 'told again' 0 "$(told_in_order "$notification_topic")"

# Taken away while the record is on its way: the loser doesn't mark it, the thief's row goes once more.
freeze
put stolen 13 NULL 0
await 'the relay has it' 10 are 1 "event_id = 'stolen' AND lease_owner IS NOT NULL"
sql "UPDATE usage_event_outbox SET lease_owner = 1, lease_until = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR WHERE event_id = 'stolen'"
thaw
await 'the loss is noticed' 30 logged patient outbox_lease_lost
assert_eq 'rows lost' 1 "$(figure "$work/patient.log" outbox_lease_lost rows)"
assert_eq 'the stolen row' 'PUBLISH_PENDING 1' "$(row stolen)"
put after-stolen 13 NULL 0
put canary-3 90 NULL 0
await 'canary 3 is told' 30 are 1 "event_id = 'canary-3' AND status = 'SENT'"
assert_eq 'the row behind the stolen one' 'PUBLISH_PENDING nobody' "$(row after-stolen)"
end_leases stolen
await 'the stolen row is taken over' 30 all_sent
assert_eq 'told again' 1 "$(told_in_order "$notification_topic")"
assert_eq 'losses noticed' 1 "$(grep -c outbox_lease_lost "$work/patient.log")"
assert_eq 'rows that used up a try' 0 "$(rows 'retry_count > 0')"

# ---- two relays on one outbox -----------------------------------------------------------------------------------------

# Of different groups, so that both settle every family and its rows are born to one or the other.
families 20 39 12 1
first_group=$group
group=$group.second
configure "$work/second.yaml"
daemon second second
second=$launched
group=$first_group
for piece in 1 2 3; do
    for family in $(seq 20 39); do
        alerts "two-$family" "$family" $((piece * 4 - 3)) $((piece * 4))
    done | produce
done
await 'two relays told everything' 30 at_least 240 "event_id LIKE 'two-%' AND status = 'SENT'"
both_read() { [ "$(ledger_end)" -eq $((2 * $(topic_end))) ]; }
await 'both have read everything' 30 both_read
# Rows that nobody leases, until both have published some.
both_published() {
    [ "$(sql "SELECT COUNT(DISTINCT p.owner) FROM publishers p JOIN usage_event_outbox o USING (outbox_id) WHERE o.event_id LIKE 'sweep-%'")" = 2 ]
}
wave=0
until both_published; do
    wave=$((wave + 1))
    [ $wave -le 40 ] || die 'one relay never published anything'
    sql "INSERT INTO usage_event_outbox (event_id, family_id, customer_id, status, payload_json, created_at)
         SELECT CONCAT('sweep-$wave-', seq), 40 + seq % 10, 1, 'PUBLISH_PENDING', '{}', UTC_TIMESTAMP(3) FROM seq_1_to_40"
    await "wave $wave is told" 30 all_sent
done
stop 'the second daemon' "$second"
stop 'the patient daemon' "$patient"
all_sent || die "rows are left: $(sql "SELECT outbox_id, status, last_error FROM usage_event_outbox WHERE status <> 'SENT' LIMIT 3")"
twice=$(told_in_order "$notification_topic")
no_rows 'each row is marked once' 'SELECT outbox_id, COUNT(*) FROM publishers GROUP BY 1 HAVING COUNT(*) <> 1'
assert_eq 'rows that somebody marked' "$(rows '1 = 1')" "$(sql 'SELECT COUNT(*) FROM publishers')"
shares=$(sql "SELECT COUNT(*) FROM publishers p JOIN usage_event_outbox o USING (outbox_id) WHERE o.event_id LIKE 'two-%' GROUP BY p.owner" | tr '\n' ' ')

# ---- killed with rows in hand -----------------------------------------------------------------------------------------

families 50 50 30 1
families 60 64 10 1
message_timeout_ms=1000 lease_ms=7000
configure "$work/hasty.yaml"
cp "$work/hasty.yaml" "$work/slow.yaml"
slowly "$work/slow.yaml" 400
daemon slow slow
slow=$launched
alerts killed 50 1 30 | produce
await 'a few are told' 30 at_least 2 "event_id LIKE 'killed-%' AND status = 'SENT'"
kill -s KILL "$slow"
wait "$slow" 2>/dev/null || :
sql "CREATE TABLE orphans AS SELECT outbox_id, lease_owner, lease_until FROM usage_event_outbox WHERE status = 'PUBLISH_PENDING'"
orphans=$(sql 'SELECT COUNT(*) FROM orphans')
[ "$orphans" -gt 0 ] || die 'no row was left'
no_rows 'the dead one leases what it left' 'SELECT outbox_id FROM orphans WHERE lease_owner IS NULL OR lease_until IS NULL'
assert_eq 'alerts of the family' 30 "$(rows "event_id LIKE 'killed-%'")"
daemon hasty hasty
hasty=$launched
await 'what the dead one left is told' 30 all_sent
no_rows 'nobody took a row before its lease ran out' 'SELECT outbox_id FROM orphans JOIN usage_event_outbox o USING (outbox_id) WHERE o.sent_at < orphans.lease_until'
no_rows 'somebody else told it' 'SELECT outbox_id FROM orphans JOIN publishers USING (outbox_id) WHERE owner = lease_owner'
told_in_order "$notification_topic" >/dev/null

# ---- the broker away --------------------------------------------------------------------------------------------------

for family in $(seq 60 64); do
    put "hold-$family" "$family" 1 3600
done
for family in $(seq 60 64); do
    alerts "before-$family" "$family" 1 4
done | produce
await 'rows wait' 30 are 20 "event_id LIKE 'before-%' AND status = 'PUBLISH_PENDING' AND lease_owner IS NULL"
statements() { sql "SHOW GLOBAL STATUS LIKE 'Questions'" | cut -f 2; }
tried() { sql "SELECT COALESCE(MIN(next_retry_at), '') FROM usage_event_outbox WHERE event_id LIKE 'hold-%'"; }
tried_again() { [ "$(tried)" != "$last_try" ]; }
sh "$root/scripts/stack.sh" stop-one "$TALLYD_TEST_DIR" kafka KILL
gone=$(date +%s)
lines=$(wc -l <"$work/hasty.log") said=$(statements) ran=$(ticks_of "$hasty")
end_leases 'hold-%'
for round in 1 2 3; do
    last_try=$(tried)
    await "try $round has failed" 30 tried_again
done
gone=$(($(date +%s) - gone + 1)) lines=$(($(wc -l <"$work/hasty.log") - lines)) said=$(($(statements) - said)) ran=$(($(ticks_of "$hasty") - ran))
assert_eq 'rows that wait' 25 "$(rows "status = 'PUBLISH_PENDING' AND retry_count = 0")"
assert_eq 'what is known of the outage' 'Local: Message timed out' \
    "$(sql "SELECT DISTINCT last_error FROM usage_event_outbox WHERE event_id LIKE 'hold-%'")"
kill -0 "$hasty" || die 'the daemon ended'
waits=$(grep -c '"event":"relay_waiting"' "$work/hasty.log" || :) # one in ten seconds
[ "$waits" -ge 1 ] || die 'the log is silent about it'
[ "$waits" -le $((gone / 10 + 1)) ] || die "$waits lines about it in $gone s"
[ "$lines" -le $((gone * 20)) ] || die "$lines lines in the log in $gone s"
[ "$said" -le $((gone * 60)) ] || die "$said statements in $gone s"
[ "$ran" -le $((gone * $(getconf CLK_TCK) / 10)) ] || die "$ran ticks of the processor in $gone s"
sh "$root/scripts/stack.sh" start-one "$TALLYD_TEST_DIR" kafka
for family in $(seq 60 64); do
    alerts "after-$family" "$family" 5 8
done | produce
await 'what happened after the outage is told' 30 at_least 20 "event_id LIKE 'after-%' AND status = 'SENT'"
await 'what waited is told' 30 all_sent
assert_eq 'rows that used up a try' 0 "$(rows 'retry_count > 0')"
stop 'the hasty daemon' "$hasty"
told_in_order "$notification_topic" >/dev/null
alerts_published
no_rows 'each row is marked once' 'SELECT outbox_id, COUNT(*) FROM publishers GROUP BY 1 HAVING COUNT(*) <> 1'

# ---- too large --------------------------------------------------------------------------------------------------------

# Each fits alone but the fat ones; the first rows of all families together don't. They go together: the relay waits for company.
main_topic=$notification_topic
notification_topic=$small_topic
"$ktool" topic-create "$notification_topic" 1 retention.ms=-1 max.message.bytes=800
families 70 79 4 1
fat=fat-$(printf '%0180d' 0)
configure "$work/small.yaml"
notification_topic=$main_topic
slowly "$work/small.yaml" 50
sql 'DELETE FROM usage_event_outbox' # those of the other topic
{
    event "$fat-1" 70 70001 1
    event small-70-2 70 70002 1
    event small-70-3 70 70003 1
    event small-71-1 71 71001 1
    event "$fat-2" 71 71002 1
    event small-71-3 71 71003 1
    for family in $(seq 72 79); do
        alerts "small-$family" "$family" 1 2
    done
} | produce
daemon small small
small=$launched
await 'each has its end' 30 are 22 "status <> 'PUBLISH_PENDING'"
# At once: it can't heal.
assert_eq 'failed, with its reason, at the first try' "$fat-1 FAILED 1 1
$fat-2 FAILED 1 1" "$(sql "SELECT event_id, status, last_error LIKE '%Message size too large%', retry_count FROM usage_event_outbox WHERE status <> 'SENT' ORDER BY 1" | tr '\t' ' ')"
assert_eq 'sent without a try used up or an error' 20 "$(rows "status = 'SENT' AND retry_count = 0 AND last_error IS NULL")"
stop 'the daemon' "$small"
assert_eq 'failures in the log' 2 "$(grep -c '"event":"notification_failed"' "$work/small.log")"
assert_eq 'failures counted' 2 "$(figure "$work/small.log" stopped publish_failed)"
assert_eq 'told again' 0 "$(told_in_order "$small_topic")"
assert_eq 'on the topic' 20 "$(records "$small_topic" '.\n' | wc -l)"

echo "ok relay_edges: two relays told $shares rows of 240, $twice of all twice; $orphans rows of a killed one; $lines lines, $said statements and" \
    "$ran ticks in $gone s without a broker; 2 too large; order kept"
