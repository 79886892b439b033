#!/bin/sh
# SPDX-License-Identifier: MIT
# The group moved over its topic: back by a day over settled data, which changes nothing; back to the beginning over a database
# from before, which brings all of it back; ahead, which counts as gap. What it says beforehand is held against what is known.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
session_timeout_ms=2000 # how long a frozen one counts as a member
message_timeout_ms=1000
lease_ms=7000
export session_timeout_ms message_timeout_ms lease_ms
begin rewind 3
seed=${TALLYD_TEST_SEED:-61}
config=$work/config.yaml
# For as long somebody frozen may stand in the way.
sed -i 's/^mysql:/mysql:\n  session_wait_timeout_ms: 4000/' "$config"
first_day=2026-11-10T12:00:00+09:00 second_day=2026-11-11T12:00:00+09:00

# fails CODE TEXT ARGUMENT...: rewind ends with CODE and one line that has TEXT.
fails() {
    fails_code=$1 fails_text=$2
    shift 2
    found=0
    "$tallyd" rewind "$@" >"$work/out" 2>"$work/case.err" || found=$?
    assert_eq "rewind $*: exit code" "$fails_code" "$found"
    grep -qF -- "$fails_text" "$work/case.err" || die "rewind $*: says $(cat "$work/case.err")"
    assert_eq "rewind $*: lines on stderr" 1 "$(wc -l <"$work/case.err")"
    [ ! -s "$work/out" ] || die "rewind $*: has something on standard output"
}

# rewinds ARGUMENT...: it succeeds; its answer lies in $work/rewind.json.
rewinds() {
    "$tallyd" rewind -c "$config" --json "$@" >"$work/rewind.json" 2>"$work/case.err" || die "rewind $*: exit code $?: $(cat "$work/case.err")"
}

said() {
    jq -r "$1" "$work/rewind.json"
}

# drain LABEL: settles everything.
drain() {
    "$tallyd" run -c "$config" --until-drained >"$work/$1.log" 2>"$work/$1.err" || die "run: exit code $?"
}

offsets() {
    "$ktool" committed "$group" "$usage_topic" | sort -n | awk '{ printf "%s%s", sep, $2; sep = " " }'
}

ends() {
    for ends_part in 0 1 2; do
        kcat -b "$KAFKA_BROKERS" -Q -t "$usage_topic:$ends_part:${1:--1}" | awk '{ printf "%s ", $NF }'
    done | sed 's/ $//'
}

ledger() {
    sql "SELECT partition_id, first_offset, next_offset, settled, blocked, duplicate, rejected, ignored, gap, last_offset FROM consumer_ledger
         WHERE topic = '$usage_topic' ORDER BY 1"
}

# state FILE: everything that a replay must leave or bring back; not when, nor by how many settlements.
state() {
    {
        sql 'SELECT event_id, family_id, customer_id, app_id, bytes_used, event_time, quota_month, partition_id, record_offset FROM usage_record ORDER BY 1'
        sql 'SELECT event_id, family_id, customer_id, app_id, bytes_used, event_time, quota_month, partition_id, record_offset, reason,
                remaining_bytes, monthly_used_bytes, monthly_limit_bytes FROM usage_block ORDER BY 1'
        sql 'SELECT family_id, quota_month, total_quota_bytes, used_bytes FROM family_quota ORDER BY 1, 2'
        sql 'SELECT family_id, customer_id, quota_month, monthly_used_bytes, is_blocked, block_reason, state_event_time FROM customer_quota ORDER BY 1, 2, 3'
        sql 'SELECT family_id, customer_id, quota_month, alert, arming, event_id, total_quota_bytes, remaining_bytes FROM alert_state ORDER BY 1, 2, 3, 4'
        sql 'SELECT event_id, family_id, customer_id, status, payload_json FROM usage_event_outbox ORDER BY 1'
        ledger
    } >"$1"
}

told() {
    records "$notification_topic" '%p %o %s\n' | LC_ALL=C sort
}

audit_clean() {
    "$tallyd" audit -c "$config" >"$work/audit.out" 2>"$work/audit.err" || die "audit: exit code $?: $(cat "$work/audit.err" "$work/audit.out")"
}

# none_of_it_settled FILE: what a rewind ahead skipped, by its answer, has no row.
none_of_it_settled() {
    jq -r '.partitions[] | "\(.partition) \(.settledTo) \(.to)"' "$1" >"$work/skipped.ranges"
    while read -r part from to; do
        [ "$to" -gt "$from" ] || die "partition $part: nothing was skipped"
        no_rows "partition $part: settled although skipped" "
            SELECT event_id FROM usage_record WHERE partition_id = $part AND record_offset >= $from AND record_offset < $to
            UNION ALL SELECT event_id FROM usage_block WHERE partition_id = $part AND record_offset >= $from AND record_offset < $to"
    done <"$work/skipped.ranges"
}

simulate seeding --seed-db --families 150 --start $first_day
MYSQL_PWD=$MYSQL_PASSWORD mariadb-dump --no-defaults -h "$MYSQL_HOST" -P "$MYSQL_PORT" -u "$MYSQL_USER" --single-transaction \
    --skip-lock-tables --no-tablespaces "$MYSQL_DATABASE" >"$work/before.sql"

# ---- wrong usage ----
fails 2 '--to WHERE is missing' -c "$config"
fails 2 '-c FILE is missing' --to 1
fails 2 'must be an offset, a time' -c "$config" --to yesterday
fails 2 'must be an offset, a time' -c "$config" --to -1
fails 2 'must be 1 … 10000000' -c "$config" --to 1 --limit 0
fails 2 "must be partitions' numbers" -c "$config" --to 1 --partition x
fails 2 'has no partition 3' -c "$config" --to earliest --partition 0,3
fails 2 'partition 1 has no offset 1: its log goes from 0 to 0' -c "$config" --to 1 --partition 1

# ---- two days, settled; what running them again would find ----
simulate first --families 150 --count 3000 --rate 0 --start $first_day --seed "$seed" --broken 0.05 --duplicates 0.05
simulate second --families 150 --count 3000 --rate 0 --start $second_day --seed "$((seed + 1))" --broken 0.05 --duplicates 0.05
rewinds --to earliest --dry-run # before anything: all is where it is
assert_eq 'moved over, from the beginning to the beginning' '0 0 0' "$(said '"\(.again) \(.skipped) \(.runAgain.records)"')"
drain settling
settled_all first second
state "$work/state.settled"
told >"$work/told.settled"
rewinds --to earliest --dry-run
known="$(produced '.produced.normal + .produced.late + .produced.duplicate' first second)"
assert_eq 'run again: records, known' "6000 $known" "$(said '"\(.runAgain.records) \(.runAgain.settled + .runAgain.blocked)"')"
assert_eq 'run again: rejected, by code' "$(jq -s '[.[].brokenByCode | to_entries[]] | group_by(.key) | map({key: .[0].key, value: map(.value) | add})
    | map(select(.key != "UNKNOWN_FAMILY" and .key != "NOT_A_MEMBER" and .value > 0)) | from_entries' -S -c "$work/first.json" "$work/second.json")" \
    "$(jq -S -c .runAgain.rejected "$work/rewind.json")"
assert_eq 'run again: what only MySQL could refuse counts as new' "$(produced '.brokenByCode.UNKNOWN_FAMILY + .brokenByCode.NOT_A_MEMBER' first second)" \
    "$(said '.runAgain.new + .runAgain.repeated')"
assert_eq 'settled and blocked, told apart' "$(sql "SELECT COUNT(*) FROM usage_block" | awk '{ print ($1 > 0) }')" "$(said '.runAgain.blocked' | awk '{ print ($1 > 0) }')"
assert_eq 'changed by a dry run' "$(ends) false true" "$(offsets) $(said '"\(.applied) \(.dryRun)"')"
rewinds --to earliest --dry-run --limit 100
assert_eq 'with a limit' '100 true' "$(said '"\(.runAgain.records) \(.cut)"')"
"$tallyd" rewind -c "$config" --to earliest --dry-run >"$work/out"
for line in 'known, settled' 'new: to be decided' '^nothing is changed$'; do
    grep -q "$line" "$work/out" || die "the table says $(cat "$work/out")"
done

# ---- in use ----
launch running "$tallyd" run -c "$config"
running=$launched
await 'it reads' 20 opened "$work/running.log"
fails 4 'is in use (Stable), by tallyd/' -c "$config" --to earliest
assert_eq 'moved although in use' "$(ends)" "$(offsets)"
kill -s TERM "$running"
ended 'the daemon' "$running" 0

# ---- back by a day: by time, in each of its forms; nothing changes ----
at=$(ends "$(date -d $second_day +%s)000")
for to in $second_day 2026-11-11T12:00 2026-11-11T03:00:00Z; do
    rewinds --to "$to" --dry-run
    assert_eq "to $to" "$at" "$(said '[.partitions[].to] | map(tostring) | join(" ")')"
done
rewinds --to 2026-11-11T12:00
assert_eq 'records run again' '3000 true' "$(said '"\(.again) \(.applied)"')"
assert_eq 'committed' "$at" "$(offsets)"
ledger >"$work/ledger.moved"
drain replay
assert_eq 'duplicates in the replay' "$(produced '.produced.normal + .produced.late + .produced.duplicate' second)" "$(figure "$work/replay.log" stopped duplicate)"
state "$work/state.replayed"
cmp -s "$work/state.settled" "$work/state.replayed" || die "the replay changed $(diff "$work/state.settled" "$work/state.replayed" | head -n 5)"
told >"$work/told.replayed"
cmp -s "$work/told.settled" "$work/told.replayed" || die 'the replay told something'
assert_eq 'committed' "$(ends)" "$(offsets)"
settled_all first second
audit_clean

# One partition alone, by offset; and a relative time that is after all of it.
rewinds --to 7 --partition 1
assert_eq 'committed' "$(ends | awk '{ print $1, 7, $3 }')" "$(offsets)"
rewinds --to -1s --dry-run
assert_eq 'to a second ago' "$(ends)" "$(said '[.partitions[].to] | map(tostring) | join(" ")')"
rewinds --to latest # over what is settled already: no word of skipping
assert_eq 'skipped, over what is settled' '0 true' "$(said '"\(.skipped) \(.applied)"')"
assert_eq 'committed' "$(ends)" "$(offsets)"

# ---- a database from before the group's first start: all comes back ----
# Told again alerts differ by their times from those that lie on the topic: they get another one, for the audit.
empty_database
sql <"$work/before.sql"
"$ktool" topic-delete "$notification_topic"
notification_topic=$group.told
"$ktool" topic-create "$notification_topic" "$partitions" retention.ms=-1
sed -i "s/notification: .*/notification: '$notification_topic'/" "$config"
rewinds --to earliest --dry-run
assert_eq 'run again, all of it new' "0 0 6000" "$(said '"\(.runAgain.settled) \(.runAgain.blocked) \(.runAgain.records)"')"
rewinds --to earliest
drain restored
state "$work/state.restored"
cmp -s "$work/state.settled" "$work/state.restored" || die "what came back differs: $(diff "$work/state.settled" "$work/state.restored" | head -n 5)"
promises_hold

# ---- ahead: gap, never settled; refused unless said ----
simulate third --families 150 --count 900 --rate 0 --start 2026-11-12T12:00:00+09:00 --seed "$((seed + 2))"
before=$(ledger)
fails 2 '900 offsets that were never settled would be skipped' -c "$config" --to latest
assert_eq 'changed by what was refused' "$before" "$(ledger)"
rewinds --to latest --dry-run
assert_eq 'what would be skipped' '900 900 true' "$(said '"\(.skipped) \(.passedOver.records) \(.passedOver.new > 700)"')"
rewinds --to latest --yes
cp "$work/rewind.json" "$work/skipped.json"
assert_eq 'gap' "900 $(ends)" "$(sql 'SELECT SUM(gap) FROM consumer_ledger') $(sql 'SELECT next_offset FROM consumer_ledger ORDER BY partition_id' | paste -sd ' ')"
drain nothing
simulate fourth --families 150 --count 600 --rate 0 --start 2026-11-13T12:00:00+09:00 --seed "$((seed + 3))"
drain after
assert_eq 'gap' 900 "$(sql 'SELECT SUM(gap) FROM consumer_ledger')"
none_of_it_settled "$work/skipped.json"
promises_hold
all_settled || die 'not all is settled'
audit_clean

# Ended between the two steps, Kafka moved and the ledger didn't: nothing is skipped.
simulate fifth --families 150 --count 300 --rate 0 --start 2026-11-14T12:00:00+09:00 --seed "$((seed + 4))"
sql 'CREATE TABLE kept AS SELECT * FROM consumer_ledger'
rewinds --to latest --yes
sql 'UPDATE consumer_ledger l JOIN kept k USING (group_id, topic, partition_id) SET l.next_offset = k.next_offset, l.gap = k.gap; DROP TABLE kept'
drain unskipped
assert_eq 'gap' 900 "$(sql 'SELECT SUM(gap) FROM consumer_ledger')"
assert_eq 'read after all' 300 "$(jq -s 'map(select(.event == "stopped"))[0] | .settled + .blocked + .duplicate + .rejected + .ignored' "$work/unskipped.log")"
audit_clean

# Back over what was skipped: then it's settled, and counted once.
ledger >"$work/ledger.before"
rewinds --to 2026-11-12T11:00 --dry-run
assert_eq 'run again: new' true "$(said '.runAgain.new > 700')"
rewinds --to 2026-11-12T11:00
drain unskipping
ledger >"$work/ledger.after"
cmp -s "$work/ledger.before" "$work/ledger.after" || die 'the ledger counts what it had counted'
promises_hold
audit_clean

# ---- a frozen member that isn't one any more settles nothing of what was skipped ----
launch zombie "$tallyd" run -c "$config"
zombie=$launched
await 'it reads' 20 opened "$work/zombie.log"
simulate_on sixth --families 150 --duration 2s --rate 3000 --start 2026-11-15T12:00:00+09:00 --seed "$((seed + 5))"
events=$launched
flows() {
    [ "$(ledger_end)" -gt "$((at_start + 500))" ]
}
at_start=$(ledger_end)
await 'it flows' 20 flows
kill -s STOP "$zombie"
ended 'simulate' "$events" 0
empty() {
    "$tallyd" lag -c "$config" --json | jq -e '.groupState == "Empty"' >/dev/null
}
await 'it is no member any more' 30 empty
skipped() { # unless it was frozen with the ledger's lock in hand, which ends with its session
    "$tallyd" rewind -c "$config" --to latest --yes --json >"$work/rewind.json" 2>"$work/case.err"
}
await 'it is skipped' 90 skipped
kill -s CONT "$zombie"
simulate seventh --families 150 --count 300 --rate 0 --start 2026-11-16T12:00:00+09:00 --seed "$((seed + 6))"
await 'what came after is settled' 60 all_settled
kill -s TERM "$zombie"
ended 'the zombie' "$zombie" 0
none_of_it_settled "$work/rewind.json"
promises_hold
audit_clean

# ---- what the log has lost is skipped by nobody who only goes back; who goes beyond it must say so ----
simulate eighth --families 150 --count 600 --rate 0 --start 2026-11-17T12:00:00+09:00 --seed "$((seed + 7))"
"$ktool" records-delete "$usage_topic" 0 -1
before=$(ledger)
rewinds --to earliest
assert_eq 'the ledger, by going back' "$before" "$(ledger)"
lost=$(sql "SELECT $(ends | awk '{ print $1 }') - next_offset FROM consumer_ledger WHERE partition_id = 0")
simulate ninth --families 150 --count 300 --rate 0 --start 2026-11-17T13:00:00+09:00 --seed "$((seed + 8))"
behind=$(sql "SELECT $(ends | awk '{ print $1 }') - next_offset FROM consumer_ledger WHERE partition_id = 0")
if [ "$lost" -le 0 ] || [ "$behind" -le "$lost" ]; then die "partition 0 lacks nothing: $lost, $behind"; fi
fails 2 "$behind offsets that were never settled would be skipped" -c "$config" --to latest --partition 0
rewinds --to latest --partition 0 --yes
drain lost
promises_hold
all_settled || die 'not all is settled'

# ---- a group that was never here begins where it's told ----
group=$group.fresh
configure "$work/fresh.yaml"
config=$work/fresh.yaml
fails 2 'would be skipped' -c "$config" --to latest
rewinds --to latest --yes
drain fresh
assert_eq 'its ledger' "$(ends)" "$(sql "SELECT first_offset FROM consumer_ledger WHERE group_id = '$group' ORDER BY partition_id" | paste -sd ' ')"
assert_eq 'records it read' 0 "$(figure "$work/fresh.log" stopped duplicate)"

# ---- rights: what is missing is named, at once ----
case ${BROKER_KIND:-} in
embedded*) echo 'skipped rewind, rights: the embedded broker knows none' ;;
*)
    sed "s/brokers: .*/brokers: '$KAFKA_USERS_BROKERS'/; s/^kafka:\$/&\n  properties:\n    security.protocol: sasl_plaintext\n    sasl.mechanism: PLAIN\n    sasl.username: $KAFKA_USERS_USER\n    sasl.password: '$KAFKA_USERS_PASSWORD'/" \
        "$config" >"$work/users.yaml"
    fails 4 "Topic authorization failed (it needs DESCRIBE on topic $usage_topic: config/kafka.acl)" -c "$work/users.yaml" --to earliest
    "$ktool" allow "$KAFKA_USERS_USER" describe topic "$usage_topic"
    fails 4 "Group authorization failed (it needs DESCRIBE on group $group: config/kafka.acl)" -c "$work/users.yaml" --to earliest
    "$ktool" allow "$KAFKA_USERS_USER" describe group "$group"
    fails 4 "Topic authorization failed (it needs READ on topic $usage_topic: config/kafka.acl)" -c "$work/users.yaml" --to earliest --dry-run
    "$ktool" allow "$KAFKA_USERS_USER" read topic "$usage_topic"
    fails 4 "Group authorization failed (it needs READ on group $group: config/kafka.acl)" -c "$work/users.yaml" --to earliest
    "$ktool" allow "$KAFKA_USERS_USER" read group "$group"
    before=$config config=$work/users.yaml
    rewinds --to earliest
    config=$before
    assert_eq 'moved with the rights named' "$(ends -2)" "$(offsets)"
    for right in 'read topic' 'describe topic' 'read group' 'describe group'; do
        case $right in *topic) of=$usage_topic ;; *) of=$group ;; esac
        # shellcheck disable=SC2086 # two words
        "$ktool" forbid "$KAFKA_USERS_USER" $right "$of"
    done
    ;;
esac

# ---- away ----
sed "s/port: $MYSQL_PORT/port: 1/" "$config" >"$work/away.yaml"
fails 6 'mysql: ' -c "$work/away.yaml" --to earliest
sed "s/brokers: .*/brokers: 'localhost:1'/" "$config" >"$work/away.yaml"
fails 4 'kafka: ' -c "$work/away.yaml" --to earliest
echo "ok rewind: 6,000 records replayed by a day and from the beginning, 900 skipped and found again, a zombie fenced"
