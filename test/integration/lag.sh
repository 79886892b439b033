#!/bin/sh
# SPDX-License-Identifier: MIT
# What `tallyd lag` says of each partition: before the group's first start, behind, caught up, paused, with members and without, in a
# replay, where log and ledger disagree, and without Kafka or MySQL.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin lag 3
seed=${TALLYD_TEST_SEED:-71}

# lags: it succeeds; its answer lies in $work/lag.json, the table in $work/out.
lags() {
    "$tallyd" lag -c "$work/config.yaml" --json >"$work/lag.json" 2>"$work/case.err" || die "lag: exit code $?: $(cat "$work/case.err")"
    "$tallyd" lag -c "$work/config.yaml" >"$work/out" || die "lag: exit code $?"
}

# fails CODE TEXT ARGUMENT...
fails() {
    fails_code=$1 fails_text=$2
    shift 2
    found=0
    "$tallyd" lag "$@" >"$work/out" 2>"$work/case.err" || found=$?
    assert_eq "lag $*: exit code" "$fails_code" "$found"
    grep -qF -- "$fails_text" "$work/case.err" || die "lag $*: says $(cat "$work/case.err")"
    [ ! -s "$work/out" ] || die "lag $*: has something on standard output"
}

said() {
    jq -r "$1" "$work/lag.json"
}

each() {
    said "[.partitions[] | $1 | tostring] | join(\" \")"
}

# ends [-1 or -2]: of each partition's log.
ends() {
    for ends_part in 0 1 2; do
        kcat -b "$KAFKA_BROKERS" -Q -t "$usage_topic:$ends_part:${1:--1}" | awk '{ printf "%s ", $NF }'
    done | sed 's/ $//'
}

fails 2 '-c FILE is missing'
fails 2 'one argument too many' -c "$work/config.yaml" 1

simulate seeding --seed-db --families 100
simulate first --families 100 --count 1200 --rate 0 --seed "$seed"

# ---- a group that was never here ----
lags
assert_eq 'of a new group' "1200 Dead 0" "$(said '"\(.lag) \(.groupState) \(.members | length)"')"
assert_eq 'its partitions' "$(ends)|null null null|no member no member no member" "$(each .logEnd)|$(each .committed)|$(said '[.partitions[].state] | join(" ")')"
assert_eq 'its ledger' 'null null null' "$(each .ledger)"
grep -q '^the ledger has no partition of this topic' "$work/out" || die "the table says $(cat "$work/out")"

# ---- read by a member; the table and the document say the same ----
launch one "$tallyd" run -c "$work/config.yaml"
one=$launched
await 'all is settled' 30 caught_up
committed_all() {
    lags && [ "$(each .committed)" = "$(ends)" ]
}
await 'all is committed' 20 committed_all
assert_eq 'caught up' "0 Stable 1 3" "$(said '"\(.lag) \(.groupState) \(.members | length) \(.members[0].partitions)"')"
assert_eq 'read' 'read read read' "$(each .state)"
assert_eq 'clients' 'tallyd tallyd tallyd' "$(each .clientId)"
assert_eq 'the ledger' "$(sql 'SELECT SUM(settled), SUM(blocked), SUM(duplicate), SUM(rejected), SUM(ignored), SUM(gap) FROM consumer_ledger' | tr '\t' ' ')" \
    "$(said '[.partitions[].ledger] | "\(map(.settled) | add) \(map(.blocked) | add) \(map(.duplicate) | add) \(map(.rejected) | add) \(map(.ignored) | add) \(map(.gap) | add)"')"
grep -Eq '^ *total +0 +0 +1, group Stable$' "$work/out" || die "the table says $(cat "$work/out")"
assert_eq 'lines' 11 "$(wc -l <"$work/out")" # 3 partitions, headings and totals, twice, and an empty one

# ---- in a stream the ledger goes on while it's asked: never beyond the log ----
simulate_on stream --families 100 --duration 5s --rate 3000 --seed "$((seed + 9))"
stream=$launched
looks=0
while [ "$looks" -lt 5 ] || ours "$stream" && [ "$looks" -lt 40 ] && [ "$(state_of "$stream")" != Z ]; do
    lags
    looks=$((looks + 1))
    assert_eq "read, in a stream, look $looks" 'read read read' "$(each .state)"
    "$tallyd" rewind -c "$work/config.yaml" --to latest --dry-run --limit 1 >"$work/dry.out" 2>"$work/dry.err" ||
        die "a dry run in a stream: $(cat "$work/dry.err")"
done
ended 'the stream' "$stream" 0
await 'all is settled' 30 caught_up

# ---- paused and stopped ----
"$tallyd" pause -c "$work/config.yaml" --partition 1 --json >"$work/paused.json"
stands() {
    grep -q '"event":"partition_paused"' "$work/one.log"
}
await 'it is paused' 20 stands
simulate second --families 100 --count 600 --rate 0 --seed "$((seed + 1))"
others() {
    lags && [ "$(each .lag | cut -d ' ' -f 1,3)" = '0 0' ]
}
await 'the others are settled' 30 others
assert_eq 'paused' 'read paused read' "$(each .state)"
assert_eq 'since' "$(jq -r '.partitions[0].pausedSince' "$work/paused.json")" "$(said '.partitions[1].pausedSince')"
lag=$(said '.partitions[1].new') # what is settled may not be committed yet
[ "$lag" -gt 0 ] || die 'a paused partition without lag'
assert_eq 'lag of what is paused' "$(said '.partitions[1].logEnd - .partitions[1].ledger.nextOffset') $lag" "$(said '.new') $lag"
kill -s TERM "$one"
ended 'the daemon' "$one" 0
lags
assert_eq 'without a member' "Empty no member paused no member" "$(said .groupState) $(each .state)"

# ---- a replay: what is to be run again is lag, as for Kafka's own tools and for the running daemon ----
back=$(said '.partitions[0].ledger.nextOffset')
"$tallyd" rewind -c "$work/config.yaml" --to earliest --partition 0 >"$work/rewind.out" 2>"$work/rewind.err" || die "rewind: exit code $?"
lags
assert_eq 'of what is run again' "$back $back 0 0" "$(said '.partitions[0] | "\(.lag) \(.again) \(.new) \(.committed)"')"
assert_eq 'of what is not' "$lag 0 $lag" "$(said '.partitions[1] | "\(.lag) \(.again) \(.new)"')"
assert_eq 'in all' "$((back + lag)) $back $lag" "$(said '"\(.lag) \(.again) \(.new)"')"
grep -q "^$back of these $((back + lag)) were settled before" "$work/out" || die "the table says $(cat "$work/out")"
"$tallyd" pause -c "$work/config.yaml" --partition 0 >"$work/paused.json" # so that it stands
launch replay "$tallyd" run -c "$work/config.yaml"
replay=$launched
metric() {
    http_get replay /metrics | sed -n "s/^tallyd_partition_lag{partition=\"$1\"} //p"
}
told() { http_serves replay && [ "$(metric 0)" = "$back" ] && [ "$(metric 1)" = "$lag" ]; }
await 'the daemon says the same of its lag' 30 told
lags
assert_eq 'paused in a replay' "paused $back $back 0" "$(said '.partitions[0] | "\(.state) \(.lag) \(.again) \(.new)"')"
"$tallyd" resume -c "$work/config.yaml" --partition 0 >"$work/paused.json"
replayed() { lags && [ "$(said '.partitions[0] | "\(.lag) \(.again) \(.committed)"')" = "0 0 $back" ]; }
await 'the replay is over' 30 replayed
! grep -q 'settled before' "$work/out" || die "the table says $(cat "$work/out")"
kill -s TERM "$replay"
ended 'the replay' "$replay" 0

# ---- where log and ledger disagree ----
"$ktool" records-delete "$usage_topic" 1 -1
sql 'UPDATE consumer_ledger SET next_offset = next_offset + 5, gap = gap + 5 WHERE partition_id = 2'
lags
assert_eq 'states' 'no member|records lost|log made anew?' "$(said '[.partitions[].state] | join("|")')"
assert_eq 'log starts and lag' "$(ends -2)|0 0 0" "$(each .logStart)|$(each .lag)"
sql "UPDATE consumer_ledger SET partition_id = 9 WHERE partition_id = 2"
lags
assert_eq 'a row without partition, a partition without row' 'no member|records lost|no member|not on the topic' "$(said '[.partitions[].state] | join("|")')"
assert_eq 'it begins at the log' "$(ends | cut -d ' ' -f 3)" "$(said '.partitions[2].lag')"

# ---- away ----
sed "s/port: $MYSQL_PORT/port: 1/" "$work/config.yaml" >"$work/away.yaml"
fails 6 'mysql: ' -c "$work/away.yaml"
sed "s/brokers: .*/brokers: 'localhost:1'/" "$work/config.yaml" >"$work/away.yaml"
fails 4 'kafka: ' -c "$work/away.yaml"
sed "s/usage: .*/usage: 'no-such-topic'/" "$work/config.yaml" >"$work/away.yaml"
fails 4 'no-such-topic' -c "$work/away.yaml"
echo 'ok lag: a new group, a member, caught up, paused, replayed, lost, made anew, and each store away'
