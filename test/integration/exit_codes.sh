#!/bin/sh
# SPDX-License-Identifier: MIT
# What stops a command before it begins: one line on stderr, `tallyd COMMAND: what: why`, and its own exit code. And what ends a running
# daemon: SIGTERM while events flow, after which the next one takes up where it was.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin exit_codes
seed=${TALLYD_TEST_SEED:-41}
good=$work/config.yaml
cases=0

# refuses CODE TEXT COMMAND ARGUMENT...: ends by itself with CODE; the only line on stderr has the common form and says TEXT.
refuses() {
    refuses_code=$1 refuses_text=$2
    shift 2
    cases=$((cases + 1))
    found=0
    timeout 25 "$tallyd" "$@" >"$work/out" 2>"$work/case.err" </dev/null || found=$?
    assert_eq "tallyd $*: exit code" "$refuses_code" "$found"
    assert_eq "tallyd $*: lines on stderr" 1 "$(wc -l <"$work/case.err")"
    grep -qE "^tallyd $1: [^:]+: .+" "$work/case.err" || die "tallyd $*: the message has another form"
    grep -qF -e "$refuses_text" "$work/case.err" || die "tallyd $*: expected a message that says: $refuses_text"
}

# altered NAME SED: a configuration with one thing changed.
altered() {
    sed "$2" "$good" >"$work/$1.yaml"
    ! cmp -s "$good" "$work/$1.yaml" || die "the change for $1 changes nothing"
}
closed=$("$build/test/freeport" 1)
altered unknown_key 's/^redis:/redis:\n  hots: here/'
altered bad_value 's/interval_ms: 100/interval_ms: 1/'
altered bad_zone '$ a zone: Asia/Nowhere'
altered no_mysql "s/port: $MYSQL_PORT/port: $closed/"
altered bad_login "/^mysql:/,/^outbox:/s/^  password: .*/  password: wrong/"
altered no_redis "s/port: $REDIS_PORT/port: $closed/"
altered no_kafka "s/brokers: .*/brokers: 127.0.0.1:$closed/"
altered no_topic "s/usage: .*/usage: exit_codes-no-such-topic/"
altered other_database "s/^  database: '.*/  database: 'exit_codes_no_such'/"

for command in run migrate simulate; do
    arguments=
    [ $command != simulate ] || arguments='--count 1'
    refuses 2 'usage' $command
    refuses 2 'usage' $command --no-such-option
    refuses 2 'usage' $command -c
    # shellcheck disable=SC2086 # none, or two
    {
        refuses 2 'usage' $command -c "$good" $arguments surplus
        refuses 3 'no-such-file' $command -c "$work/no-such-file" $arguments
        refuses 3 'unknown_key.yaml:' $command -c "$work/unknown_key.yaml" $arguments
        refuses 3 'retry.interval_ms: must be' $command -c "$work/bad_value.yaml" $arguments
        refuses 3 'Asia/Nowhere' $command -c "$work/bad_zone.yaml" $arguments
    }
done
echo "ok exit_codes: $cases wrong usages and configurations"

cases=0
for command in run migrate 'simulate --seed-db'; do
    # shellcheck disable=SC2086 # a command and its option
    {
        refuses 6 'mysql' $command -c "$work/no_mysql.yaml"
        refuses 6 'mysql' $command -c "$work/bad_login.yaml"
        refuses 6 'mysql' $command -c "$work/other_database.yaml"
    }
done
refuses 5 'redis' run -c "$work/no_redis.yaml"
redis CONFIG SET maxmemory-policy allkeys-lru >/dev/null
refuses 5 'noeviction' run -c "$good"
redis CONFIG SET maxmemory-policy noeviction >/dev/null
refuses 4 'kafka' simulate -c "$work/no_kafka.yaml" --count 1
refuses 4 'exit_codes-no-such-topic' simulate -c "$work/no_topic.yaml" --count 1
refuses 4 'exit_codes-no-such-topic' run -c "$work/no_topic.yaml" --until-drained
sql 'DELETE FROM schema_migration'
refuses 7 'migrate' run -c "$good"
refuses 7 'migrate' simulate -c "$good" --seed-db
empty_database
refuses 7 'migrate' run -c "$good"
found=0
"$tallyd" no-such-command >/dev/null 2>"$work/case.err" || found=$?
assert_eq 'an unknown command: exit code' 2 "$found"
echo "ok exit_codes: $cases missing or unfit dependencies"

"$tallyd" migrate -c "$work/owner.yaml" >/dev/null
simulate seeding --seed-db --families 300
simulate_on events --families 300 --rate 4000 --count 16000 --seed "$seed"
events=$launched
launch first "$tallyd" run -c "$good"
some_settled() {
    [ "$(ledger_end)" -gt 4000 ]
}
await 'some of it is settled' 20 some_settled
kill -s TERM "$launched"
ended 'on SIGTERM while events flow' "$launched" 0
[ "$(ledger_end)" -lt 16000 ] || die 'it had settled everything before the signal'
at=$(ledger_end)
ended 'simulate' "$events" 0
launch second "$tallyd" run -c "$good" --until-drained
ended 'the second run' "$launched" 0
# The second one's log tells what the first one left in Kafka.
jq -r 'select(.event == "partition_opened") | select(.committed_offset != .ledger_next_offset and .ledger_next_offset > 0) | .partition' \
    "$work/second.log" >"$work/behind"
assert_eq 'partitions whose committed offset is not the ledger' '' "$(cat "$work/behind")"
settled_all events
assert_eq 'settled by both' "$(sql 'SELECT SUM(settled) FROM consumer_ledger')" \
    "$(($(figure "$work/first.log" stopped settled) + $(figure "$work/second.log" stopped settled)))"
assert_eq 'duplicates seen by both' "$(sql 'SELECT SUM(duplicate) FROM consumer_ledger')" \
    "$(($(figure "$work/first.log" stopped duplicate) + $(figure "$work/second.log" stopped duplicate)))"
echo "ok exit_codes: ended at $at of 16000 events with every offset committed; the next run did the rest, once"
