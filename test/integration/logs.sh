#!/bin/sh
# SPDX-License-Identifier: MIT
# What the log says of a running daemon, and doesn't: its level by SIGHUP, both ways, with a file that is right or isn't; a flood of the same
# message collapses, and the counts add up; nothing of a record's value, no secret and no byte that a terminal obeys, whatever goes wrong.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin logs 1
cfg=$work/config.yaml log=$work/tallyd.log
sql <"$root/config/quickstart/family.sql"
sql "UPDATE family_quota SET total_quota_bytes = 1000000000"

# ---- the level --------------------------------------------------------------------------------------------------------

level() { # LEVEL: in the file
    sed -i '/^log:/,$d' "$cfg"
    printf 'log:\n  level: %s\n' "$1" >>"$cfg"
}
lines() { grep -c "\"event\":\"$1\"" "$log" || :; }
said() { # EVENT TIMES
    [ "$(lines "$1")" -ge "$2" ]
}
reload() { # EVENT: SIGHUP, until the log has one more of these
    reload_before=$(lines "$1")
    kill -s HUP "$daemon"
    await "$1 is said" 20 said "$1" $((reload_before + 1))
}
# A SIGHUP that comes while the process still starts doesn't end it.
level info
launch tallyd "$tallyd" run -c "$cfg"
daemon=$launched
held() { # SIGHUP is blocked in it
    [ $((0x$(sed -n 's/^SigBlk:[[:space:]]*//p' "/proc/$daemon/status") & 1)) = 1 ]
}
await 'SIGHUP is held back' 20 held
kill -s HUP "$daemon"
await 'it reads' 60 opened "$log"
await 'the early SIGHUP is answered' 20 said reload_unchanged 1
assert_eq 'debug lines at info' 0 "$(grep -c '"level":"debug"' "$log" || :)"
level debug
reload log_level_changed
assert_eq 'the change' 'info debug' "$(figure "$log" log_level_changed from) $(figure "$log" log_level_changed to)"
event() { # ID BYTES [APP]
    printf '100042|{"eventId":"%s","eventType":"DATA_USAGE","payload":{"familyId":100042,"customerId":200187,"appId":"%s","bytesUsed":%s,"metadata":{"k":"MARKER-meta"}}}\n' \
        "$1" "${3:-MARKER-app}" "$2"
}
send() {
    kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -K '|' "$@"
}
counted() { [ "$(ledger_end)" = "$(topic_end)" ]; }
settle_all() { await 'all records are counted' 60 counted; }
event e-1 1 | send
settle_all
await 'a batch is said' 20 said batch_settled 1

level error
reload log_level_changed
mute=$(lines batch_settled)
event e-2 1 | send
settle_all
assert_eq 'debug lines at error' "$mute" "$(lines batch_settled)"

# A file that isn't right changes nothing, and is said whatever the level.
cp "$cfg" "$work/right.yaml"
level loud
reload reload_failed
figure "$log" reload_failed error | grep -qE 'config.yaml:[0-9]+: log.level: must be .*, is loud' || die 'the line at fault is not named'
level debug
sed -i 's/^retry:/retry:\n  no_such_key: 1/' "$cfg"
reload reload_failed
mv "$cfg" "$work/away.yaml"
reload reload_failed
event e-3 1 | send
settle_all
assert_eq 'debug lines after files that are not right' "$mute" "$(lines batch_settled)"
cp "$work/right.yaml" "$cfg"

# Other keys are named, and what they say isn't: neither before nor after.
sed -i "s/^  password: .*/  password: SECRET-new/; s/^  session_timeout_ms: .*/  session_timeout_ms: 7000/" "$cfg"
reload restart_needed
assert_eq 'keys that want a restart' 'kafka.session_timeout_ms, redis.password, mysql.password' "$(figure "$log" restart_needed keys)"
cp "$work/right.yaml" "$cfg"
level info
for _ in 1 2 3 4 5 6 7 8; do
    kill -s HUP "$daemon"
done
await 'the level is back' 20 said log_level_changed 3
assert_eq 'the change' 'error info' "$(figure "$log" log_level_changed from) $(figure "$log" log_level_changed to)"
echo 'ok logs: SIGHUP changes the level, both ways; three files that are not right change nothing; other keys are named'

# ---- a flood ----------------------------------------------------------------------------------------------------------

sql "ALTER TABLE usage_record ADD CONSTRAINT refuse_7 CHECK (bytes_used <> 7)"
n=0
while [ "$n" -lt 60 ]; do
    event "flood-$n" 7
    event "good-$n" 1
    n=$((n + 1))
done | send
settle_all
sql 'ALTER TABLE usage_record DROP CONSTRAINT refuse_7'
# What is counted is told at the end of its window, though nobody says it again.
of_refused() { # what lines say and count
    jq -s 'map(select(.event == "event_refused")) | map(.repeated // 1) | add' "$log"
}
all_told() { [ "$(of_refused)" = 60 ]; }
await 'all refused events are told or counted' 30 all_told
assert_eq 'lines about them' true "$(jq -s 'map(select(.event == "event_refused")) | (map(select(.repeated)) | length) as $told
    | length == 5 + $told and $told >= 1 and $told <= 4' "$log")"
assert_eq 'what a line says of the last one' true \
    "$(jq -s 'map(select(.event == "event_refused" and .repeated)) | all(.error_code == 4025 and .over_ms > 0 and (.event_id | startswith("flood-")))' "$log")"
assert_eq 'rejected' 60 "$(sql 'SELECT SUM(rejected) FROM consumer_ledger')"
# SIGHUP while it shuts down is no second signal.
kill -s TERM "$daemon"
kill -s HUP "$daemon" 2>/dev/null || :
kill -s HUP "$daemon" 2>/dev/null || :
ended 'the daemon' "$daemon" 0
cp "$log" "$work/flood.log"
echo "ok logs: 60 refused events: $(lines event_refused) lines that add up to them"

# ---- what must never be there -----------------------------------------------------------------------------------------

# The client is told a secret it doesn't need, and to say its configuration.
level debug
sed -i "s/^  group_id: .*/&\n  properties: {debug: 'conf,msg,protocol,security', sasl.username: someone, sasl.password: SECRET-sasl}/" "$cfg"
sql "INSERT INTO family (family_id, name) VALUES (7, 'MARKER-family'); INSERT INTO family_member (family_id, customer_id) VALUES (7, 70);
    INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (7, '2026-01-01', 10);
    INSERT INTO policy_assignment (family_id, customer_id, policy_type, rules, is_active, updated_at)
        VALUES (7, 70, 'TIME_BLOCK', '{\"start\":\"MARKER-rule\",\"end\":1}', 1, UTC_TIMESTAMP(3))"
launch tallyd "$tallyd" run -c "$cfg"
daemon=$launched
await 'it reads' 60 opened "$log"
raw() { # VALUE...: a record as it is
    printf '%s\n' "$@" | sed 's/^/100042|/' | send
}
usage() { # FAMILY CUSTOMER BYTES [MORE]: members in JSON, as they are
    printf '{"eventId":"m-%s","eventType":"DATA_USAGE","payload":{"familyId":%s,"customerId":%s,"appId":"MARKER-app","bytesUsed":%s,"metadata":{"MARKER-key":"MARKER-value"}}%s}' \
        "$(date +%s%N)" "$1" "$2" "$3" "${4:-}"
}
long=$(printf '%0101d' 0 | tr 0 x)
raw 'MARKER-text' '{"MARKER-text":' '["MARKER-text"]' '{"MARKER-a":1,"MARKER-a":2}' \
    '{"eventType":7,"MARKER-b":1}' '{"eventType":"MARKER-type"}' \
    '{"eventId":"MARKER id","eventType":"DATA_USAGE"}' '{"eventId":"m","eventType":"DATA_USAGE","timestamp":"MARKER-time","payload":{}}' \
    '{"eventId":"m","eventType":"DATA_USAGE","payload":"MARKER-payload"}' \
    "$(usage '"MARKER-family"' 1 1)" "$(usage 100042 '"MARKER-customer"' 1)" "$(usage 100042 200187 '"MARKER-bytes"')" \
    "$(usage 100042 200187 1.5)" "$(usage 999 1 1)" "$(usage 100042 999 1)" "$(usage 7 70 1)" \
    "$(usage 100042 200187 1 ',"timestamp":"2099-01-01T00:00:00"')" "$(usage 100042 200187 1 ',"timestamp":"2001-01-01T00:00:00"')" \
    "{\"eventId\":\"m-app\",\"eventType\":\"DATA_USAGE\",\"payload\":{\"familyId\":100042,\"customerId\":200187,\"bytesUsed\":1,\"appId\":\"MARKER$long\"}}" \
    "{\"eventId\":\"m-big\",\"eventType\":\"DATA_USAGE\",\"MARKER-big\":\"$(printf '%070000d' 0)\"}"
event conflict 5 | send
settle_all
event conflict 6 | send
event with-header 1 | send -H 'traceparent=MARKER-trace' -H 'MARKER-header=MARKER-value'
settle_all
codes=$(records "$dlt_topic" '%h\n' | grep -o 'x-error-code=[A-Z_]*' | sort -u | cut -d = -f 2 | paste -sd ' ')
assert_eq 'kinds of rejection' 'EVENT_IN_FUTURE EVENT_TOO_LARGE EVENT_TOO_OLD ID_CONFLICT INVALID_FIELD MALFORMED_JSON NOT_A_MEMBER POLICY_UNREADABLE SETTLEMENT_REJECTED UNKNOWN_FAMILY' \
    "$codes"

# What MySQL says of data that it refuses: by a length, a type, a date, a key, a trigger's own words.
refused_as() { # CODE EVENT: its line is there
    grep -q "\"event\":\"$2\".*\"error_code\":$1," "$log"
}
plain="VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL"
sql "ALTER TABLE usage_record MODIFY app_id VARCHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL" 2>/dev/null ||
    sql "UPDATE usage_record SET app_id = NULL; ALTER TABLE usage_record MODIFY app_id VARCHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL"
event long 1 | send
settle_all
refused_as 1406 event_refused || die 'no value was too long'
sql "ALTER TABLE usage_record MODIFY app_id INT NULL"
event number 1 | send
settle_all
refused_as 1366 event_refused || die 'no value was of another type'
sql "ALTER TABLE usage_record MODIFY app_id DATE NULL"
event date 1 | send
settle_all
refused_as 1292 event_refused || die 'no value was no date'
sql "ALTER TABLE usage_record MODIFY app_id $plain, ADD UNIQUE KEY apps (app_id)"
event one 1 | send
settle_all
event two 1 | send
waits() { refused_as "$1" settlement_waiting; }
await 'a key is in the way' 60 waits 1062
sql 'ALTER TABLE usage_record DROP KEY apps'
settle_all
sql "
DELIMITER //
CREATE TRIGGER trouble BEFORE INSERT ON usage_record FOR EACH ROW BEGIN DECLARE t VARCHAR(100); SET t = CONCAT('told of ', NEW.app_id);
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = t; END //"
event signalled 1 | send
await 'a trigger is in the way' 60 waits 1644
sql 'DROP TRIGGER trouble'
settle_all
# Others' text about a rule, with what a terminal obeys: C1, DEL, the direction of writing.
sql "ALTER TABLE policy_assignment MODIFY policy_type VARCHAR(32) CHARACTER SET utf8mb4 NOT NULL;
    UPDATE policy_assignment SET policy_type = CONCAT('a', UNHEX('7F'), UNHEX('C29B'), '31m', UNHEX('E280AE'), UNHEX('E280A8'))"
redis DEL family:7:info:"$(TZ=Asia/Seoul date +%Y%m)" >/dev/null
usage 7 70 1 | sed 's/^/7|/' | send
settle_all
escaped() { grep -qF 'a\u007f\u009b31m\u202e\u2028 of the customer' "$log"; }
await 'the rule is said, escaped' 20 escaped

# A notification that goes through, and one that the topic refuses.
sql "DELETE FROM policy_assignment"
redis DEL family:7:info:"$(TZ=Asia/Seoul date +%Y%m)" >/dev/null
usage 7 70 6 | sed 's/^/7|/' | send
settle_all
await 'all is told' 60 caught_up
"$ktool" topic-config "$notification_topic" max.message.bytes=100 retention.ms=-1
usage 7 70 50 | sed 's/^/7|/' | send
await 'a notification is refused' 60 said notification_failed 1
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0

for kind in record_rejected event_ended event_refused settlement_waiting policy_unreadable notification_failed kafka_client batch_settled; do
    [ "$(lines $kind)" -gt 0 ] || die "no $kind: what should be looked at isn't there"
done
! grep -n MARKER "$log" "$work/flood.log" "$work"/*.err >"$work/found" || die "a record's data: $(head -n 3 "$work/found")"
# shellcheck disable=SC2153 # from the stack's environment
! grep -nF -e SECRET -e "$MYSQL_PASSWORD" "$log" "$work/flood.log" "$work"/*.err >"$work/found" || die "a secret: $(head -n 3 "$work/found")"
! LC_ALL=C grep -nP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]' "$log" >"$work/found" ||
    die "a byte that a terminal obeys: $(head -n 3 "$work/found")"
jq -e . "$log" "$work/flood.log" >/dev/null || die 'a line is not JSON'
# Every line is in the table, with no other fields than the table says.
"$tallyd" help events --markdown >"$work/events.md"
jq -r '.event as $e | "\($e) \(keys_unsorted[])"' "$log" "$work/flood.log" | sort -u >"$work/fields"
awk -F '|' 'NR > 2 { event = $2; gsub(/[ `×]/, "", event); fields = $4; gsub(/\?/, "", fields)
        sub(/error/, "error error_area error_action error_code", fields)
        n = split("ts level event cut repeated over_ms " fields, f, " +"); for (i = 1; i <= n; i++) if (f[i] != "") print event, f[i] }' "$work/events.md" |
    sort -u >"$work/known"
assert_eq 'fields that the table has not' '' "$(comm -23 "$work/fields" "$work/known")"
echo "ok logs: $(wc -l <"$log") lines, with $(wc -w <<END
$codes
END
) kinds of rejection, five of MySQL's refusals, and no record's data, no secret and nothing unescaped"
