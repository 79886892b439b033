#!/bin/sh
# SPDX-License-Identifier: MIT
# Partitions that an operator pauses: before the start, in mid-work, through a kill and a restart, while a second member takes its
# share, and while Redis is away. What was paused isn't read, nothing is lost or doubled by it, and --until-drained doesn't hang.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
session_timeout_ms=2000 # how long a killed one's partitions wait
message_timeout_ms=1000
lease_ms=7000
export session_timeout_ms message_timeout_ms lease_ms
begin pause 4
seed=${TALLYD_TEST_SEED:-51}

# fails CODE TEXT ARGUMENT...: the command ends with CODE and one line that has TEXT.
fails() {
    fails_code=$1 fails_text=$2
    shift 2
    found=0
    "$tallyd" "$@" >"$work/out" 2>"$work/case.err" || found=$?
    assert_eq "tallyd $*: exit code" "$fails_code" "$found"
    grep -qF "$fails_text" "$work/case.err" || die "tallyd $*: says $(cat "$work/case.err")"
    [ ! -s "$work/out" ] || die "tallyd $*: has something on standard output"
}

# does ARGUMENT...: the command succeeds; what it says lies in $work/out.
does() {
    "$tallyd" "$@" >"$work/out" 2>"$work/case.err" || die "tallyd $*: exit code $?: $(cat "$work/case.err")"
}

# next PARTITION: up to where it's settled.
next() {
    sql "SELECT next_offset FROM consumer_ledger WHERE topic = '$usage_topic' AND partition_id = $1"
}

# ends PARTITION: the end of its log.
ends() {
    kcat -b "$KAFKA_BROKERS" -Q -t "$usage_topic:$1:-1" | awk '{ print $NF }'
}

settled_up() {
    for settled_part in "$@"; do
        [ "$(next "$settled_part")" = "$(ends "$settled_part")" ] || return 1
    done
}

# said LABEL EVENT PARTITION N: a log has the event so many times.
said() {
    [ "$(jq -r "select(.event == \"$2\" and .partition == $3) | .worker" "$work/$1.log" | wc -l)" = "$4" ]
}

# rows: partition:next_offset of each row, with a star where it's paused.
rows() {
    sql "SELECT GROUP_CONCAT(partition_id, ':', next_offset, IF(paused, '*', '') ORDER BY partition_id SEPARATOR ' ')
         FROM consumer_ledger WHERE group_id = '$group' AND topic = '$usage_topic' AND owner = 0"
}

# answer: each partition of a command's JSON, with what it was and is.
answer() {
    jq -r '[.partitions[] | "\(.partition) \(.begun) \(.wasPaused) \(.paused)"] | join("|")' "$work/out"
}

simulate seeding --seed-db --families 200
simulate zeroth --families 200 --count 400 --rate 0 --seed "$((seed + 6))"
fails 2 'has no partition of' resume -c "$work/config.yaml" --partition 1
sed "s/brokers: .*/brokers: 'localhost:1'/" "$work/config.yaml" >"$work/away.yaml"
fails 4 'kafka: ' pause -c "$work/away.yaml" # whose partitions nobody knows yet
fails 2 'has no partition 4' pause -c "$work/config.yaml" --partition 4
assert_eq 'rows of commands that failed' 0 "$(sql 'SELECT COUNT(*) FROM consumer_ledger')"

# ---- a group that was never here: all of it is paused before its first start ----
does pause -c "$work/config.yaml" --json
assert_eq 'paused before the first start' '0 false false true|1 false false true|2 false false true|3 false false true' "$(answer)"
assert_eq 'its rows' '0:0* 1:0* 2:0* 3:0*' "$(rows)"
does pause -c "$work/config.yaml"
grep -q '^ *3  paused  paused' "$work/out" || die "pausing again says $(cat "$work/out")"
launch founding "$tallyd" run -c "$work/config.yaml"
founding=$launched
for part in 0 1 2 3; do
    await 'the first start finds all of it paused' 30 said founding partition_paused "$part" 1
done
found=0
"$tallyd" run -c "$work/config.yaml" --until-drained >"$work/nothing.log" 2>"$work/nothing.err" || found=$?
assert_eq '--until-drained with all of it paused: exit code' 11 "$found"
assert_eq 'read of what is paused' 0 "$(ledger_end)"
does resume -c "$work/config.yaml"
await 'all of it is read' 30 caught_up
assert_eq 'settled from the first record on' 0 "$(sql 'SELECT SUM(first_offset) FROM consumer_ledger')"
kill -s TERM "$founding"
ended 'the first start' "$founding" 0

# Another group that was never here, and was told where to begin: its rows are those that its first start would make.
group=$group.b
configure "$work/other.yaml"
"$tallyd" rewind -c "$work/other.yaml" --to 3 --partition 1 --yes >"$work/out" 2>"$work/case.err" || die "rewind: $(cat "$work/case.err")"
does pause -c "$work/other.yaml" --partition 2
assert_eq 'what it says' '2 not begun paused' "$(awk '$1 == 2 { print $1, $2, $3, $4 }' "$work/out")"
assert_eq 'rows of the other group' '0:0 1:3 2:0* 3:0' "$(rows)"
sql "DELETE FROM consumer_ledger WHERE group_id = '$group'"
group=${group%.b}

# Without Kafka what the ledger knows is paused all the same, and the answer says what can't be known.
found=0
"$tallyd" pause -c "$work/away.yaml" --json >"$work/out" 2>"$work/case.err" || found=$?
assert_eq 'paused without Kafka' "11 false 0 true false true|1 true false true|2 true false true|3 true false true" "$found $(jq .complete "$work/out") $(answer)"
grep -q '^tallyd pause: kafka: .*the topic may have more' "$work/case.err" || die "pause without Kafka says $(cat "$work/case.err")"
assert_eq 'paused without Kafka' 4 "$(sql 'SELECT SUM(paused) FROM consumer_ledger')"
does resume -c "$work/away.yaml"
does pause -c "$work/away.yaml" --partition 0,3
does resume -c "$work/away.yaml" --partition 0,3
fails 2 'has no partition 7' pause -c "$work/config.yaml" --partition 1,7
assert_eq 'paused by a command that failed' 0 "$(sql 'SELECT SUM(paused) FROM consumer_ledger')"
fails 2 "must be partitions' numbers" pause -c "$work/config.yaml" --partition 1,
fails 2 "must be partitions' numbers" pause -c "$work/config.yaml" --partition -1
fails 2 'one argument too many' pause -c "$work/config.yaml" 1

# ---- before the start: not a record of it is read ----
does pause -c "$work/config.yaml" --partition 1,2 --json
assert_eq 'paused, as JSON' '1 false true|2 false true' \
    "$(jq -r '[.partitions[] | "\(.partition) \(.wasPaused) \(.paused)"] | join("|")' "$work/out")"
since=$(jq -r '.partitions[0].pausedSince' "$work/out")
does pause -c "$work/config.yaml" --partition 1 --json # again: the time stays
assert_eq 'since, paused again' "$since true" "$(jq -r '.partitions[0] | "\(.pausedSince) \(.wasPaused)"' "$work/out")"
begun_1=$(next 1) begun_2=$(next 2)
simulate first --families 200 --count 6000 --rate 0 --seed "$seed"
found=0
"$tallyd" run -c "$work/config.yaml" --until-drained >"$work/drained.log" 2>"$work/drained.err" || found=$?
assert_eq '--until-drained beside paused partitions: exit code' 11 "$found"
grep -q 'paused partitions (1,2)' "$work/drained.err" || die "--until-drained says $(cat "$work/drained.err")"
assert_eq 'what it says of each' "1 $begun_1|2 $begun_2" \
    "$(jq -rs '[.[] | select(.event == "drained_but_paused") | "\(.partition) \(.settled_to)"] | join("|")' "$work/drained.log")"
settled_up 0 3 || die 'the other partitions are settled'
assert_eq 'read of what is paused' "$begun_1 $begun_2" "$(next 1) $(next 2)"

# ---- while it runs: one resumed, another paused in mid-work, the member keeps all four ----
launch one "$tallyd" run -c "$work/config.yaml"
one=$launched
await 'it says what is paused' 20 said one partition_paused 1 1
does resume -c "$work/config.yaml" --partition 2
grep -q 'paused *read' "$work/out" || die "resume says $(cat "$work/out")"
await 'the resumed one is settled' 20 settled_up 2
said one partition_resumed 2 1 || die 'no word of resuming'
assert_eq 'read of what is paused' "$begun_1" "$(next 1)"
simulate_on second --families 200 --count 9000 --rate 3000 --seed "$((seed + 1))"
events=$launched
moved() {
    [ "$(next 3)" -gt "$three" ]
}
three=$(next 3)
await 'the third goes on' 20 moved
does pause -c "$work/config.yaml" --partition 3
await 'it is paused' 20 said one partition_paused 3 1
ended 'simulate' "$events" 0
await 'the others are settled' 30 settled_up 0 2
stood=$(next 3)
[ "$stood" -lt "$(ends 3)" ] || die 'the third was done before it was paused'
assert_eq 'partitions given back' 0 "$(jq -rs '[.[] | select(.event == "partitions_revoked")] | length' "$work/one.log")"

# ---- killed; who comes next reads nothing of it either, nor a second member that takes its share ----
kill -s KILL "$one"
wait "$one" 2>/dev/null || :
launch two "$tallyd" run -c "$work/config.yaml"
two=$launched
await 'the next one has them' 30 said two partition_paused 3 1
launch three "$tallyd" run -c "$work/config.yaml"
three=$launched
both_read() {
    opened "$work/three.log" && opened "$work/two.log"
}
await 'a second member reads' 30 both_read
simulate third --families 200 --count 3000 --rate 0 --seed "$((seed + 2))"
await 'the others are settled' 30 settled_up 0 2
assert_eq 'where the paused ones stand' "$begun_1 $stood" "$(next 1) $(next 3)"
# Each has one of them: that of the second member goes on meanwhile, and comes back to the first.
moved=$(jq -r 'select(.event == "partition_paused") | .partition' "$work/three.log" | tail -n 1)
case $moved in
1) kept=3 ;;
3) kept=1 ;;
*) die "the second member has paused $moved" ;;
esac
stood=$(next "$kept")

# ---- Redis away: everything waits, and goes on without what is paused ----
redis CONFIG SET maxmemory 1 >/dev/null
simulate fourth --families 200 --count 3000 --rate 0 --seed "$((seed + 3))"
waiting() {
    grep -qs '"event":"decision_waiting"' "$work/two.log" "$work/three.log"
}
await 'a store is waited for' 20 waiting
does pause -c "$work/config.yaml" --partition 0
paused_meanwhile() {
    said two partition_paused 0 1 || said three partition_paused 0 1
}
await 'one more is paused meanwhile' 20 paused_meanwhile
does resume -c "$work/config.yaml" --partition "$moved"
await 'one is resumed meanwhile' 20 said three partition_resumed "$moved" 1
simulate sixth --families 200 --count 500 --rate 0 --seed "$((seed + 5))" # what was in hand already is settled
redis CONFIG SET maxmemory 0 >/dev/null
await 'what is read is settled' 40 settled_up 2 "$moved"
assert_eq 'where the other stands' "$stood" "$(next "$kept")"
[ "$(next 0)" -lt "$(ends 0)" ] || die 'what was paused while Redis was away was read'

# ---- one of the two leaves: what it had comes to the other, paused as it was ----
openings() {
    jq -r "select(.event == \"partition_opened\" and .partition == $1) | .partition" "$work/two.log" | wc -l
}
before=$(openings "$moved")
kill -s TERM "$three"
ended 'the second member' "$three" 0
came_back() {
    [ "$(openings "$moved")" -gt "$before" ]
}
await 'the other has it' 20 came_back
simulate fifth --families 200 --count 500 --rate 0 --seed "$((seed + 4))"
await 'what is read is settled' 30 settled_up 2 "$moved"
assert_eq 'where the other stands' "$stood" "$(next "$kept")"

# ---- resumed, all: exact ----
does resume -c "$work/config.yaml"
assert_eq 'rows still paused' 0 "$(sql 'SELECT COUNT(*) FROM consumer_ledger WHERE paused <> 0 OR paused_since IS NOT NULL')"
catch_up
kill -s TERM "$two"
ended 'the daemon' "$two" 0
settled_all zeroth first second third fourth fifth sixth

# ---- a partition that the topic has got since: all means it too ----
"$ktool" topic-grow "$usage_topic" 5
partitions=5
simulate seventh --families 200 --count 1000 --rate 0 --seed "$((seed + 7))"
does pause -c "$work/config.yaml" --json
assert_eq 'the new one' '4 false false true' "$(answer | tr '|' '\n' | tail -n 1)"
before=$(ledger_end)
launch four "$tallyd" run -c "$work/config.yaml"
four=$launched
await 'the new one is taken, paused' 30 said four partition_paused 4 1
await 'so is the first' 30 said four partition_paused 0 1
assert_eq 'read of what is paused' "$before" "$(ledger_end)"
does resume -c "$work/config.yaml"
catch_up
kill -s TERM "$four"
ended 'the daemon' "$four" 0
settled_all zeroth first second third fourth fifth sixth seventh
committed_below_ledger
echo "ok pause: $(ledger_end) records; a group paused before its first start, partitions before the start, in mid-work, through a kill, beside a second member, without Redis, and new ones"
