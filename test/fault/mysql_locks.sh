#!/bin/sh
# SPDX-License-Identifier: MIT
# Others lock what tallyd writes: in the opposite order, for too long, and by writing it themselves. And tallyd's own processes, which
# share families when keys are wrong, never deadlock: rows are written in the order of their keys. More of it: SHARED (3000) records in
# shared families, GATES (6) times that both processes are stopped among them, DEADLOCKS (2) that cost tallyd's transaction,
# WRITES (20) of another writer.
set -eu
writes=${WRITES:-20}
# shellcheck source=test/fault/lib_mysql.sh
. "$(dirname "$0")/lib_mysql.sh"
families=60
mysql_begin mysql_locks

deadlocks() {
    status_of Innodb_deadlocks
}

# ---- two processes on shared families ---------------------------------------------------------------------------------

# Each record goes anywhere, whatever its family. Its repeats, too.
"$tallyd" simulate -c "$work/owner.yaml" --print --families "$families" --count "${SHARED:-3000}" --broken 0 --seed "$seed" 2>"$work/print.err" |
    cut -f 2 | awk '{ print int(rand() * 1000000) "|" $0 }' >"$work/shared"
count=$(wc -l <"$work/shared")
ids=$(grep -o '"eventId":"[^"]*"' "$work/shared" | sort -u | wc -l)
jq -n --argjson n "$ids" --argjson all "$count" '{failed: 0, acked: {total: $all}, brokenByCode: {}, produced: {normal: $n, late: 0, duplicate: ($all - $n), broken: 0}}' \
    >"$work/shared.json"
labels=shared traffic_label=shared
before=$(deadlocks)
workers=1
timeout_ms=30000
lock_wait_timeout_ms=20000 # what waits must be let through, or end by a deadlock
mysql_configure 'batch:
  max_events: 100'
daemon one
one=$daemon
daemon two
two=$daemon
# A gate: one of the middle rows is held again and again, so that both processes stand in the middle of theirs when it opens.
admin "
DELIMITER //
BEGIN NOT ATOMIC
    DECLARE n INT DEFAULT ${GATES:-6};
    DECLARE f BIGINT DEFAULT (SELECT family_id FROM family ORDER BY family_id LIMIT 1 OFFSET 30);
    WHILE n > 0 DO
        START TRANSACTION;
        SELECT COUNT(*) INTO @held FROM (SELECT 1 FROM family_quota WHERE family_id = f FOR UPDATE) x;
        DO SLEEP(0.3);
        COMMIT;
        DO SLEEP(0.02);
        SET n = n - 1;
    END WHILE;
END //" &
gate=$!
pids="$pids $gate"
kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -K '|' -l "$work/shared"
wait "$gate" || die 'the gate failed'
rest
kill -s TERM "$one" "$two"
ended one "$one" 0
ended two "$two" 0
met=0
for label in one two; do
    assert_eq "lock retries of $label" 0 "$(figure "$work/$label.log" stopped lock_retries)"
    came=$(figure "$work/$label.log" stopped came_back)
    [ "$(figure "$work/$label.log" stopped settled)" -gt 0 ] || die "$label settled nothing"
    met=$((met + came))
done
assert_eq 'deadlocks in the server' "$before" "$(deadlocks)"
[ "$met" -gt 0 ] || die 'the two never met'
told 'two processes on shared families' "$count records keyed at random, $met settlements met the other's, no deadlock"

# ---- deadlock ---------------------------------------------------------------------------------------------------------

admin "
CREATE TABLE heavy (n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, waited INT NOT NULL) ENGINE=InnoDB;
CREATE TABLE others (done BIGINT NOT NULL) ENGINE=InnoDB;
INSERT INTO others VALUES (0);
DELIMITER //
-- Takes two families' rows, the later first. What it has written before makes the server prefer to end the other one.
CREATE PROCEDURE lock_backwards() BEGIN
    DECLARE low, high BIGINT;
    DECLARE EXIT HANDLER FOR 1213 ROLLBACK;
    START TRANSACTION;
    INSERT INTO heavy (waited) SELECT seq FROM seq_1_to_3000;
    SELECT MIN(family_id), MAX(family_id) INTO low, high FROM (SELECT family_id FROM family_quota ORDER BY RAND() LIMIT 8) x;
    UPDATE family_quota SET rev = rev + 1 WHERE family_id = high;
    DO SLEEP(0.3); -- some settlement comes to this row meanwhile
    UPDATE family_quota SET rev = rev + 1 WHERE family_id = low;
    COMMIT;
    UPDATE others SET done = done + 1;
    TRUNCATE heavy;
END //
-- Settles something of a customer in use, and changes a family's total.
CREATE PROCEDURE settle_behind() BEGIN
    DECLARE f, c BIGINT;
    DECLARE m DATE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK;
    START TRANSACTION;
    SELECT family_id, customer_id, quota_month INTO f, c, m FROM customer_quota ORDER BY RAND() LIMIT 1;
    SET @id = CONCAT('foreign-', UUID()), @bytes = 1 + FLOOR(RAND() * 3000000);
    INSERT INTO usage_record (event_id, family_id, customer_id, bytes_used, event_time, quota_month, partition_id, record_offset, created_at)
        VALUES (@id, f, c, @bytes, UTC_TIMESTAMP(3), m, -1, 0, UTC_TIMESTAMP(3));
    UPDATE family_quota SET used_bytes = used_bytes + @bytes WHERE family_id = f AND quota_month = m;
    UPDATE customer_quota SET monthly_used_bytes = monthly_used_bytes + @bytes WHERE family_id = f AND customer_id = c AND quota_month = m;
    UPDATE others SET done = done + 1;
    COMMIT;
END //
CREATE PROCEDURE change_total() BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK;
    START TRANSACTION;
    UPDATE family_quota SET total_quota_bytes = FLOOR(total_quota_bytes * (0.6 + RAND())) ORDER BY RAND() LIMIT 1;
    UPDATE others SET done = done + 1;
    COMMIT;
END //
CREATE PROCEDURE repeat_calls(what TEXT, times INT) BEGIN
    UPDATE others SET done = 0;
    WHILE times > 0 DO
        EXECUTE IMMEDIATE what;
        DO SLEEP(0.03);
        SET times = times - 1;
    END WHILE;
END //"
others_done() {
    admin 'SELECT done FROM others'
}

workers=2
timeout_ms=3000
lock_wait_timeout_ms=1000
mysql_configure ''
daemon_faulty tallyd 'settler.update_consumer_ledger@4:fail=1213;settler.insert_usage_record@9:fail=1213;settler.insert_usage_block@12:after=1205;settler.insert_family_quota@15:after=1213;settler.insert_customer_quota@30:fail=1205;settler.insert_alert_state@5:after=1213;settler.insert_usage_event_outbox@6:after=1213;settler.commit@40:fail=1213'
traffic deadlocked
before=$(deadlocks)
# Now the server ends the one, now the other.
theirs=0
enough_ours() {
    admin "CALL repeat_calls('CALL lock_backwards()', 5)"
    theirs=$((theirs + 5 - $(others_done)))
    ours=$(($(deadlocks) - before - theirs))
    [ "$ours" -ge "${DEADLOCKS:-2}" ]
}
await "the server has ended transactions of tallyd's" 120 enough_ours
admin 'SHOW ENGINE INNODB STATUS' | grep -q 'LATEST DETECTED DEADLOCK' || die 'the server tells of no deadlock'
all_pointed() {
    [ "$(fired .)" -ge 8 ]
}
await 'all fault points have fired' 60 all_pointed
flows_on 100
quiet
told 'deadlock (1213)' "$ours of tallyd's transactions ended by the server, $theirs of the other one's; 8 errors by fault points"

# ---- lock wait --------------------------------------------------------------------------------------------------------

traffic locked
admin 'START TRANSACTION; SELECT COUNT(*) FROM (SELECT 1 FROM family_quota FOR UPDATE) x; DO SLEEP(2)' >/dev/null &
holder=$!
pids="$pids $holder"
await 'the log tells of the wait' 20 said settlement_waiting '"error_code":1205'
wait "$holder"
waits=$(said_since | grep -c '"error_code":1205')
flows_on 100
quiet
told 'lock wait (1205)' "all families' rows held for 2 s, told $waits times"

# ---- others write -----------------------------------------------------------------------------------------------------

traffic totals
admin "CALL repeat_calls('CALL change_total()', $writes)"
changed=$(others_done)
[ "$changed" -gt 0 ] || die 'no total was changed'
flows_on 100
quiet
told 'totals changed by another writer' "$changed changes"

traffic touched
admin "CALL repeat_calls('CALL settle_behind()', $writes)"
foreign=$(others_done)
[ "$foreign" -gt 0 ] || die 'nobody else settled anything'
flows_on 100
quiet
daemon_ends
[ "$(figure "$log" stopped came_back)" -gt 0 ] || die 'no settlement noticed anything'
[ "$(figure "$log" stopped lock_retries)" -ge $((ours + 8)) ] || die "only $(figure "$log" stopped lock_retries) lock retries"
told 'quota rows touched by another writer' "$foreign foreign settlements; in all $(figure "$log" stopped came_back) settlements noticed others'," \
    "$(figure "$log" stopped lock_retries) lock retries"
