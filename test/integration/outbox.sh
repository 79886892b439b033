#!/bin/sh
# SPDX-License-Identifier: MIT
# `tallyd outbox`: what it lists and shows of rows that wait, are stuck or have failed; failed ones go again, and come behind those that
# went meanwhile; stuck ones are skipped, unless a relay leases them; what can't be done is said and nothing else is touched.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin outbox 3
good=$work/config.yaml

# asks CODE ARGUMENT...: its output lies in $work/out; the log's lines apart, stderr has one line where the code isn't 0.
asks() {
    asks_code=$1
    shift
    found=0
    timeout 60 "$tallyd" outbox "$@" -c "$good" >"$work/out" 2>"$work/all.err" || found=$?
    grep -v '^{' "$work/all.err" >"$work/case.err" || :
    grep '^{' "$work/all.err" >"$work/changes" || :
    assert_eq "outbox $*: exit code" "$asks_code" "$found"
    assert_eq "outbox $*: lines on stderr" "$((asks_code != 0))" "$(wc -l <"$work/case.err")"
    ! grep -qvE '^tallyd outbox: [^:]+: .+' "$work/case.err" || die "outbox $*: the message has another form"
}
out() {
    jq -r "$1" "$work/out" | tr '\n' ' ' | sed 's/ $//'
}
shows() {
    grep -qE -e "$1" "$work/out" || die "expected a line that shows: $1; found: $(cat "$work/out")"
}
audits() {
    found=0
    "$tallyd" audit -c "$good" --json >"$work/audit.json" 2>"$work/audit.err" || found=$?
    assert_eq "audit: exit code, with $(jq -c '.checks[] | select(.status != "holds")' "$work/audit.json" | head -n 3)" "$1" "$found"
}
row() {
    sql "SELECT status, retry_count, COALESCE(last_error, '-'), COALESCE(lease_owner, 'nobody') FROM usage_event_outbox WHERE event_id = '$1'" | tr '\t' ' '
}
id() {
    sql "SELECT outbox_id FROM usage_event_outbox WHERE event_id = '$1'"
}
# put EVENT FAMILY STATUS OWNER LEASE [ERROR]: a row as a relay would have left it, with the alert that it tells.
put() {
    sql "SET @at = UTC_TIMESTAMP(3);
         INSERT INTO usage_record VALUES ('$1', $2, 1, NULL, 1, @at, '2030-01-01', 0, $(sql 'SELECT COUNT(*) + 1000000 FROM usage_record'), @at);
         INSERT INTO alert_state VALUES ($2, 1, '2030-01-01', 'THRESHOLD:$(($(sql "SELECT COUNT(*) FROM alert_state WHERE family_id = $2") + 1))', 0, '$1', 1000, 1, @at);
         INSERT INTO family_quota (family_id, quota_month, total_quota_bytes, used_bytes) VALUES ($2, '2030-01-01', 1000, 1) ON DUPLICATE KEY UPDATE used_bytes = used_bytes + 1;
         INSERT INTO customer_quota (family_id, customer_id, quota_month, monthly_used_bytes) VALUES ($2, 1, '2030-01-01', 1) ON DUPLICATE KEY UPDATE monthly_used_bytes = monthly_used_bytes + 1;
         INSERT INTO usage_event_outbox (event_id, family_id, customer_id, status, payload_json, lease_owner, lease_until, last_error, created_at)
         VALUES ('$1', $2, 1, '$3', JSON_OBJECT('data', JSON_OBJECT('status', CONCAT('WARNING_', (SELECT COUNT(*) FROM alert_state WHERE family_id = $2)), 'appId', '앱')),
            $4, UTC_TIMESTAMP(3) + INTERVAL $5 SECOND, ${6:-NULL}, @at)"
}
sent() { # sent EVENT...
    for sent_event; do
        [ "$(sql "SELECT status FROM usage_event_outbox WHERE event_id = '$sent_event'")" = SENT ] || return 1
    done
}

# ---- list and show ----------------------------------------------------------------------------------------------------

asks 0 list
assert_eq 'an empty outbox' '0 rows' "$(cat "$work/out")"
put head 1 PUBLISH_PENDING 77 3600
put second 1 PUBLISH_PENDING NULL 0
put third 1 PUBLISH_PENDING 77 -5
put evil 2 FAILED NULL 0 "CONCAT('a', CHAR(27), '[31mred', CHAR(10), 'x')"
put other 2 PUBLISH_PENDING NULL 0
put 'done' 3 SENT NULL 0
put 3 4 FAILED NULL 0 "'too large'" # its event's id is another one's number
asks 0 list
assert_eq 'rows, and their heading' 8 "$(wc -l <"$work/out")"
shows '^id +event +family +customer +status +age +tries +next try +lease +waits for +last error$'
shows '^1 +head +1 +1 +pending +[0-9]+ s +0 +- +ends in (59|60) min +- +-$'
shows '^2 +second +1 +1 +pending +.* ended [0-9] s ago +1 +-$'
shows '^4 +evil +2 +1 +failed +.* - +a\?\[31mred\?x$'
shows '^6 rows$'
asks 0 list --json
assert_eq 'the same for machines' 'false head,true,77,null second,false,null,1 third,false,77,1 evil,false,null,null other,false,null,null 3,false,null,null' \
    "$(out '.limitReached, (.rows[] | "\(.eventId),\(.lease.held),\(.lease.owner),\(.heldBackBy)")')"
asks 0 list --json --status all --limit 2
assert_eq 'the oldest two' 'true head second' "$(out '.limitReached, .rows[].eventId')"
for case in 'pending:head second third other' 'failed:evil 3' 'sent:done' 'all:head second third evil other done 3'; do
    asks 0 list --json --status "${case%%:*}"
    assert_eq "--status ${case%%:*}" "${case#*:}" "$(out '.rows[].eventId')"
done
asks 0 list --json --family 2
assert_eq 'of one family' 'evil other' "$(out '.rows[].eventId')"
asks 0 show evil
shows '^tells +THRESHOLD:1$'
shows '^last_error +a\?\[31mred\?x$'
shows '^ +"appId": "앱"'
asks 0 show head --json
assert_eq 'one for machines' 'head THRESHOLD:1 WARNING_1' "$(out '.rows[] | .eventId, .alerts, .payload.data.status')"
asks 0 show 3 --json
assert_eq 'a number that is also an id' 'third 3' "$(out '.rows[].eventId')"
asks 11 show no-such
[ "$(grep -c . "$work/out" || :)" = 0 ] || die 'it shows something of a row that is not there'
for usage in '' 'lsit' 'list 5' 'list --status no' 'list --limit 0' 'list --family 0' 'list --force' 'show' 'show 1 2' 'show a b' 'retry' 'retry x' \
    'retry 0' 'retry --all-failed 1' 'retry 1 --limit 5' 'retry 1 --reason x' 'skip 1' 'skip --reason x' 'skip 1 --reason' 'skip --all-failed --reason x'; do
    # shellcheck disable=SC2086 # a list of words
    asks 2 $usage
done
asks 2 skip 1 --reason ''
asks 2 skip 1 --reason "$(printf 'two\nlines')"
asks 2 skip 1 --reason "$(printf 'bad \377 byte')"
asks 2 skip 1 --reason "$(head -c 401 /dev/zero | tr '\0' x)"
# C1, what turns the direction, what isn't seen: none may wait in the table for the next terminal.
for hidden in '\0302\0233' '\0342\0200\0256' '\0342\0200\0213' '\0363\0240\0201\0201' '\0342\0200\0250' '\0355\0240\0200' '\0300\0257'; do
    asks 2 skip 1 --reason "$(printf '%b' "a${hidden}b")"
    ! grep -q "$(printf '%b' "$hidden")" "$work/case.err" || die 'the message repeats what a terminal would obey'
done
grep -q 'must be UTF-8' "$work/case.err" || die 'the message does not say what is wrong with it'
for verb in show retry skip "$(printf 'list\033[31m')"; do
    asks 2 "$verb" "$(printf 'x\302\233\033y')" --reason x
    ! grep -qP '[\x00-\x09\x0b-\x1f\x7f-\xff]' "$work/case.err" || die "outbox $verb: the message repeats what a terminal would obey"
done
echo 'ok outbox: list and show, with nothing a terminal would obey'

# ---- skip -------------------------------------------------------------------------------------------------------------

sql 'SELECT * FROM usage_event_outbox' >"$work/before"
asks 11 skip 1 6 4 99 --reason 'no more'
shows "^1 +head +1 +pending +- +not changed: a relay leases it .*--force"
shows '^6 +done +3 +sent +- +not changed: it is sent$'
shows '^4 +evil +2 +failed +- +not changed: it has failed already$'
shows '^99 +- +- +- +- +not changed: there is no such row$'
grep -q '4 of 4 rows: not changed' "$work/case.err" || die 'it does not say how many'
[ ! -s "$work/changes" ] || die 'it has logged a change'
asks 0 skip 2 --dry-run --reason x
sql 'SELECT * FROM usage_event_outbox' | cmp -s - "$work/before" || die 'something has changed'
asks 11 skip 3 1 --reason "it's \"gone\" \\ 없음" --json
assert_eq 'the one whose lease ran out, and the one leased' '1 false head,false,true third,true,true' \
    "$(out '.changed, .dryRun, (.rows[] | "\(.eventId),\(.changed),\(.mayBePublished)")')"
out '.rows[1].note' | grep -qE '^was being published by 77 until 20[0-9T:.+-]+; it may have been sent$' || die "it doesn't say that a relay had it: $(out '.rows[1].note')"
assert_eq 'a skipped row' "FAILED 0 skipped by an operator, may have been sent: it's \"gone\" \\ 없음 nobody" "$(row third)"
assert_eq 'the log' "outbox_skipped 3 it's \"gone\" \\ 없음 true" "$(jq -r '.event, .outbox_id, .reason, .may_be_published' "$work/changes" | tr '\n' ' ' | sed 's/ $//')"
asks 0 show 3 --json
assert_eq 'whether the skipped one may be on the topic' 'third true 3 false' "$(out '.rows[] | .eventId, .mayBePublished')"
asks 0 skip 2 --json --reason 'not due' --dry-run
assert_eq 'one that no relay had' 'false null' "$(out '.rows[] | .mayBePublished, .note')"
# A try without an answer gives the lease up, and may have reached the topic all the same.
put unknown 7 PUBLISH_PENDING NULL 0 "'Local: Message timed out'"
asks 0 skip "$(id unknown)" --reason 'no more'
shows 'failed +a try to publish it ended as .Local: Message timed out.; it may have been sent$'
asks 0 retry "$(id unknown)" --dry-run
shows 'pending +it was skipped when it may have been sent, so it may come twice$'
sql "DELETE FROM usage_event_outbox WHERE event_id = 'unknown'; DELETE FROM alert_state WHERE event_id = 'unknown'"
# What waits behind a stuck one goes on once that is skipped.
launch daemon "$tallyd" run -c "$good"
daemon=$launched
await 'others are told' 30 sent other
assert_eq 'the one behind it' 'PUBLISH_PENDING 0 - nobody' "$(row second)"
asks 0 skip 1 --force --reason 'its relay is gone'
shows '^1 +head +1 +pending +failed +is being published by 77 until 20[0-9T:.+-]+; it may be sent nevertheless$'
await 'the one behind it is told' 30 sent second
assert_eq 'the skipped one' "FAILED 0 skipped by an operator, may have been sent: its relay is gone nobody" "$(row head)"
sql "DELETE FROM usage_event_outbox WHERE event_id = 'done'; DELETE FROM alert_state WHERE event_id = 'done'" # nobody had told it
audits 0
case ${BROKER_KIND:-} in
embedded*) ;;
*)
    # A relay has it in hand, with a broker that doesn't answer: it isn't skipped, and told once.
    trap 'kill -s CONT "$(cat "$TALLYD_TEST_DIR/kafka/pid")" 2>/dev/null || :; finish' EXIT
    kill -s STOP "$(cat "$TALLYD_TEST_DIR/kafka/pid")"
    put inhand 5 PUBLISH_PENDING NULL 0
    leased() { [ "$(sql "SELECT lease_until > UTC_TIMESTAMP(3) FROM usage_event_outbox WHERE event_id = '$1'")" = 1 ]; }
    await 'the relay has it' 30 leased inhand
    asks 11 skip "$(id inhand)" --reason late
    kill -s CONT "$(cat "$TALLYD_TEST_DIR/kafka/pid")"
    await 'it is told' 60 sent inhand
    # Forced, it ends as failed, whatever the relay marks afterwards; the topic has it nevertheless.
    kill -s STOP "$(cat "$TALLYD_TEST_DIR/kafka/pid")"
    put forced 8 PUBLISH_PENDING NULL 0
    await 'the relay has it' 30 leased forced
    asks 0 skip "$(id forced)" --force --reason now --json
    assert_eq 'what is in hand, forced' 'true true' "$(out '.rows[] | .changed, .mayBePublished')"
    kill -s CONT "$(cat "$TALLYD_TEST_DIR/kafka/pid")"
    lost() { grep -q '"event":"outbox_lease_lost"' "$work/daemon.log"; }
    await 'the relay finds that it is not its own' 60 lost
    assert_eq 'one that was sent after its skip' 'FAILED 0 skipped by an operator, may have been sent: now nobody' "$(row forced)"
    assert_eq 'on the topic' 1 "$(records "$notification_topic" '%s\n' | grep -c '"eventId":"forced"')"
    audits 0
    sql "UPDATE usage_event_outbox SET status = 'SENT', sent_at = UTC_TIMESTAMP(3), last_error = NULL WHERE event_id = 'forced'"
    ;;
esac
echo 'ok outbox: skip leaves alone what a relay leases, and what waited behind goes on'

# ---- retry ------------------------------------------------------------------------------------------------------------

asks 0 retry --all-failed --dry-run --json
assert_eq 'what would go' 'true 4 head,1 third,0 evil,1 3,0' "$(out '.dryRun, .changed, (.rows[] | "\(.eventId),\(.laterSent)")')"
assert_eq 'a dry run' 4 "$(sql "SELECT COUNT(*) FROM usage_event_outbox WHERE status = 'FAILED'")"
sql "UPDATE usage_event_outbox SET retry_count = 10, lease_owner = 5, lease_until = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR WHERE event_id = 'head'"
asks 11 retry 1 2 99 1
shows '^1 +head +1 +failed +pending +it was skipped .*; 1 later one of its family went before it$'
shows '^2 +second +1 +sent +- +not changed: it is sent$'
assert_eq 'the log' outbox_retried "$(jq -r '.event' "$work/changes")"
await 'it is told' 30 sent head
assert_eq 'its tries' 0 "$(sql "SELECT retry_count FROM usage_event_outbox WHERE event_id = 'head'")"
assert_eq 'on the topic, in the order told' 'second head' \
    "$(records "$notification_topic" '%k %s\n' | sed -n 's/^1 {"eventId":"\([^"]*\)".*/\1/p' | tr '\n' ' ' | sed 's/ $//')"
audits 0
assert_eq 'what the audit leaves open' 1 "$(jq '.checks[] | select(.check == "order on the topic").open' "$work/audit.json")"
# Without the note that it was sent again it would be an order that is broken.
sql "UPDATE usage_event_outbox SET retried_at = NULL WHERE event_id = 'head'"
audits 9
sql "UPDATE usage_event_outbox SET retried_at = UTC_TIMESTAMP(3) WHERE event_id = 'head'"
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
asks 0 retry --all-failed --limit 2 --json
assert_eq 'the first two' '2 true third evil' "$(out '.changed, .limitReached, .rows[].eventId')"
audits 0 # one waits, and later ones of its family are sent
asks 0 retry --all-failed
shows '^7 +3 +4 +failed +pending *$'
asks 0 retry --all-failed
assert_eq 'none is left' '0 rows sent on their way again' "$(cat "$work/out")"
timeout 60 "$tallyd" run -c "$good" --until-drained >>"$work/daemon.log" 2>&1 || die "run: exit code $?"
assert_eq 'what is left' 0 "$(sql "SELECT COUNT(*) FROM usage_event_outbox WHERE status <> 'SENT'")"
audits 0
echo 'ok outbox: retry sends failed ones again, and says what went before them'

# ---- too large, and then not ------------------------------------------------------------------------------------------

case ${BROKER_KIND:-} in embedded*) exit 0 ;; esac
"$ktool" topic-config "$notification_topic" retention.ms=-1 max.message.bytes=200
launch daemon "$tallyd" run -c "$good"
daemon=$launched
put large 6 PUBLISH_PENDING NULL 0
failed() { [ "$(sql "SELECT status FROM usage_event_outbox WHERE event_id = 'large'")" = FAILED ]; }
await 'the broker refuses it' 30 failed
"$ktool" topic-config "$notification_topic" retention.ms=-1
asks 0 retry "$(id large)"
await 'it is told' 30 sent large
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
audits 0
sed "s/port: $MYSQL_PORT/port: $("$build/test/freeport" 1)/" "$good" >"$work/away.yaml"
good=$work/away.yaml
asks 6 list
good=$work/no-such.yaml
asks 3 list
echo 'ok outbox: refused by the broker, mended, sent again'
