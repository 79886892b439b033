#!/bin/sh
# SPDX-License-Identifier: MIT
# While events flow, others change totals, and somebody settles usage of its own with both quota rows, behind tallyd's back. The
# settlements of those families notice and are decided again; every promise holds.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin behind_the_back
seed=${TALLYD_TEST_SEED:-11}

families=200
# A call settles something of a customer in use, or changes a family's total; one that meets a deadlock is rolled back whole.
sql <<'SQL'
DELIMITER //
CREATE PROCEDURE settle_behind() BEGIN
    DECLARE f, c BIGINT;
    DECLARE m DATE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK;
    START TRANSACTION;
    SELECT family_id, customer_id, quota_month INTO f, c, m FROM customer_quota ORDER BY RAND() LIMIT 1;
    IF f IS NOT NULL THEN
        SET @id = CONCAT('foreign-', UUID()), @bytes = 1 + FLOOR(RAND() * 3000000);
        INSERT INTO usage_record (event_id, family_id, customer_id, bytes_used, event_time, quota_month, partition_id, record_offset, created_at)
            VALUES (@id, f, c, @bytes, UTC_TIMESTAMP(3), m, -1, 0, UTC_TIMESTAMP(3));
        UPDATE family_quota SET used_bytes = used_bytes + @bytes WHERE family_id = f AND quota_month = m;
        UPDATE customer_quota SET monthly_used_bytes = monthly_used_bytes + @bytes WHERE family_id = f AND customer_id = c AND quota_month = m;
    END IF;
    COMMIT;
END //
CREATE PROCEDURE change_total() BEGIN
    DECLARE f BIGINT;
    DECLARE m DATE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK;
    START TRANSACTION;
    SELECT family_id, quota_month INTO f, m FROM family_quota ORDER BY RAND() LIMIT 1;
    UPDATE family_quota SET total_quota_bytes = FLOOR(total_quota_bytes * (0.6 + RAND())) WHERE family_id = f AND quota_month = m;
    UPDATE totals_changed SET n = n + 1;
    COMMIT;
END //
DELIMITER ;
CREATE TABLE totals_changed (n BIGINT NOT NULL) ENGINE=InnoDB;
INSERT INTO totals_changed VALUES (0);
SQL

disturb() {
    while [ ! -e "$work/calm" ]; do
        sql "CALL settle_behind(); CALL change_total(); CALL settle_behind(); CALL change_total();" || exit 1
        sleep 0.05
    done
}

# No broken events: a conflict of ids would be noticed too, and what is noticed here must be the others' doing.
simulate seeding --seed-db --families $families
launch tallyd "$tallyd" run -c "$work/config.yaml"
daemon=$launched
await 'the daemon reads' 20 opened "$work/tallyd.log"
launch disturbing disturb
disturber=$launched
simulate disturbed --families $families --broken 0 --rate 4000 --duration 6s --seed "$seed"
: >"$work/calm"
ended 'the disturber' "$disturber" 0
foreign=$(sql "SELECT COUNT(*) FROM usage_record WHERE event_id LIKE 'foreign-%'")
totals=$(sql 'SELECT n FROM totals_changed')
if [ "$foreign" -le 20 ] || [ "$totals" -le 20 ]; then
    die "only $foreign foreign settlements and $totals changed totals"
fi

# What is settled from here on was validated after the last disturbance.
calm=$(sql 'SELECT UTC_TIMESTAMP(3)')
simulate calm --families $families --broken 0 --rate 5000 --count 5000 --seed "$((seed + 1))"
await 'all is settled' 120 caught_up
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
came_back=$(figure "$work/tallyd.log" stopped came_back)

settled_all disturbed calm
cached=$(cache_agrees "f.family_id IN (SELECT family_id FROM usage_record WHERE created_at > '$calm'
    UNION SELECT family_id FROM usage_block WHERE created_at > '$calm')")
[ "$cached" -gt $families ] || die "only $cached figures in Redis could be compared"
[ "$came_back" -gt 0 ] || die 'no settlement noticed anything'
echo "ok behind_the_back: $(ledger_end) records, $foreign foreign settlements, $totals changed totals; $came_back settlements noticed," \
    "$(figure "$work/tallyd.log" stopped redecided) families decided again; every promise holds, $cached figures in Redis agree"
