#!/bin/sh
# SPDX-License-Identifier: MIT
# `tallyd check` against one thing wrong at a time: the line that says so, one line on stderr, the exit code, and the same facts as JSON.
# All else is still looked at, every question ends in time, and nothing is written.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin check
good=$work/config.yaml
cases=0
schema_rows=$(sql "SELECT GROUP_CONCAT('(', version, ',', QUOTE(name), ',', QUOTE(checksum), ',', QUOTE(applied_at), ')') FROM schema_migration")
migrations=$(find "$root/migrations" -name '*.sql' | wc -l)
later=$(printf %04d $((migrations + 1)))_later

# The server's own administrator, for what tallyd's user must not be able to do.
admin() {
    # shellcheck disable=SC2153 # from the stack's environment
    mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" -BNr "$MYSQL_DATABASE" -e "$1"
}
server_pid() {
    cat "$TALLYD_TEST_DIR/$1/pid"
}

# Servers and settings that a failing case may have left as they must not stay.
restore() {
    for restore_server in redis mysql kafka; do
        kill -s CONT "$(server_pid $restore_server)" || :
    done
    admin "SET GLOBAL read_only = 0; SET GLOBAL init_connect = ''; SET GLOBAL max_allowed_packet = 16777216;
           DROP USER IF EXISTS 'check_weak'@'127.0.0.1'" || :
    redis REPLICAOF NO ONE >/dev/null || :
    redis CONFIG SET maxmemory-policy noeviction maxmemory 0 min-replicas-to-write 0 >/dev/null || :
    redis ACL DELUSER check_weak >/dev/null || :
}
trap 'restore; finish' EXIT

# altered NAME SED: a configuration with one thing changed.
altered() {
    sed "$2" "$good" >"$work/$1.yaml"
    ! cmp -s "$good" "$work/$1.yaml" || die "the change for $1 changes nothing"
}

# checks CODE LINE [CONFIG]: ends with CODE; one of the lines is LINE, a regular expression from its beginning. A failure's first line is
# repeated on stderr in the common form, and nothing else is there.
checks() {
    checks_config=${3:-$good}
    cases=$((cases + 1))
    found=0
    timeout 60 "$tallyd" check -c "$checks_config" >"$work/out" 2>"$work/case.err" </dev/null || found=$?
    cp "$work/out" "$work/case.log"
    assert_eq "$2: exit code" "$1" "$found"
    says "$2"
    ! grep -qvE '^(ok  |warn|FAIL|--  )  (config|kafka|redis|mysql )+ +[A-Za-z][A-Za-z, ]* {2,}[^ ].+$' "$work/out" || die 'a line has another form'
    # By the kind of the first failure the code is known.
    if [ "$1" = 0 ]; then
        [ ! -s "$work/case.err" ] || die "$2: something is on stderr"
        ! grep -q '^FAIL' "$work/out" || die "$2: a FAIL, and exit code 0"
    else
        assert_eq "$2: lines on stderr" 1 "$(wc -l <"$work/case.err")"
        grep -qE '^tallyd check: (configuration|kafka|redis|mysql|schema): .+' "$work/case.err" || die "$2: the message has another form"
        [ "$1" = 3 ] || grep -qF "$(grep '^FAIL' "$work/out" | head -n 1 | cut -c 35-)" "$work/case.err" || die "$2: stderr says something else"
    fi
}

# says LINE...: so do other lines, each a regular expression from its beginning.
says() {
    for says_line in "$@"; do
        grep -qE "^$says_line" "$work/out" || die "no such line: $says_line"
    done
}

# agrees CODE CONFIG: as JSON it's one document with the same findings.
agrees() {
    found=0
    "$tallyd" check -c "$2" --json >"$work/out.json" 2>/dev/null || found=$?
    assert_eq 'as JSON: exit code' "$1" "$found"
    assert_eq 'as JSON: exit code and ok' "$1 $([ "$1" = 0 ] && echo true || echo false)" "$(jq -r '"\(.exitCode) \(.ok)"' "$work/out.json")"
    jq -r '.checks[] | "\({ok: "ok", warn: "warn", fail: "FAIL", skipped: "--"}[.status]) \(.area) \(.check)"' "$work/out.json" >"$work/json.lines"
    sed -E 's/^(.{4})  (.{6})  (.{18}).*/\1 \2 \3/; s/ +/ /g; s/ $//' "$work/out" >"$work/text.lines"
    cmp -s "$work/json.lines" "$work/text.lines" || die "lines and JSON differ: $(diff "$work/json.lines" "$work/text.lines" | head -n 4)"
}

# ---- all is well, and nothing is written ------------------------------------------------------------------------------

written() {
    redis DBSIZE
    sql "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()" | while read -r written_table; do
        sql "CHECKSUM TABLE $written_table"
    done
    for written_topic in "$usage_topic" "$notification_topic" "$dlt_topic"; do
        kcat -b "$KAFKA_BROKERS" -Q -t "$written_topic:0:-1"
    done
}
written >"$work/before"
checks 0 'ok    kafka   usage topic         .*: 6 partitions, 1 replica$'
! grep -qE '^(warn|FAIL)' "$work/out" || die 'something is wrong with a stack as it must be'
for finding in 'config  file' 'kafka   brokers .* 1 broker' 'kafka   notification topic' 'kafka   DLT ' 'kafka   timestamps .*CreateTime' \
    'kafka   retention .*for ever' 'kafka   record size .*takes 1048588 bytes' 'kafka   group .*0 of 6' 'redis   server .*version [6-9]' \
    'redis   role .*master' 'redis   memory' 'redis   eviction .*noeviction' 'redis   script' 'redis   writes .*taken' 'redis   clock .* ms (ahead of|behind) ours' \
    'mysql   server .*version' 'mysql   writable' 'mysql   isolation .*READ COMMITTED' 'mysql   packet .*16777216' 'mysql   schema .*applied' \
    'mysql   engine .*InnoDB' 'mysql   rights .*13 tables' 'mysql   clock .* ms (ahead of|behind) ours'; do
    says "ok    $finding"
done
says '--    kafka   clock  .*nothing is written'
agrees 0 "$good"
assert_eq 'a figure as JSON' 6 "$(jq '.checks[] | select(.check == "usage topic").figures.partitions' "$work/out.json")"
written >"$work/after"
cmp -s "$work/before" "$work/after" || die "it wrote something: $(diff "$work/before" "$work/after")"
echo "ok check: all is well; $(grep -c '^ok' "$work/out") findings, nothing written"

"$tallyd" check -c "$good" --print >"$work/printed.yaml"
! grep -q "$MYSQL_PASSWORD" "$work/printed.yaml" || die 'the password is printed'
grep -qE '^  password: "\*{8}"$' "$work/printed.yaml" || die 'no masked password is printed'
sed "s/\"\*\*\*\*\*\*\*\*\"/'$MYSQL_PASSWORD'/" "$work/printed.yaml" >"$work/again.yaml"
"$tallyd" check -c "$work/again.yaml" --print | cmp -s - "$work/printed.yaml" || die 'what is printed reads back as something else'
checks 0 'ok    mysql   server' "$work/again.yaml"
echo 'ok check: --print shows the effective configuration, which reads back'

# ---- one thing wrong at a time ----------------------------------------------------------------------------------------

cases=0
# wrong CODE TEXT ARGUMENT...: what never comes to looking.
wrong() {
    wrong_code=$1 wrong_text=$2
    shift 2
    cases=$((cases + 1))
    found=0
    "$tallyd" check "$@" >"$work/out" 2>"$work/case.err" </dev/null || found=$?
    assert_eq "check $*: exit code" "$wrong_code" "$found"
    assert_eq "check $*: lines on stderr" 1 "$(wc -l <"$work/case.err")"
    grep -qE "^tallyd check: $wrong_text" "$work/case.err" || die "check $*: expected a message that begins: $wrong_text"
}
altered unknown_key 's/^redis:/redis:\n  hots: here/'
altered bad_value 's/interval_ms: 100/interval_ms: 1/'
altered bad_zone '$ a zone: Asia/Nowhere'
wrong 2 'usage: -c FILE is missing'
wrong 2 'usage: -c needs a value' -c
wrong 2 'usage: --config needs a value' --config
wrong 2 'usage: --no-such is no option' -c "$good" --no-such
wrong 2 'usage: -x is no option' --json -xc "$good"
wrong 2 'usage: --json=1 is no option' --json=1 -c "$good"
wrong 2 'usage: surplus is one' -c "$good" surplus
wrong 2 'usage: --json and --print' -c "$good" --json --print
wrong 3 'configuration: .*no-such-file' -c "$work/no-such-file"
wrong 3 'configuration: .*unknown_key.yaml:[0-9]+: ' -c "$work/unknown_key.yaml"
wrong 3 'configuration: .*bad_value.yaml:[0-9]+: retry.interval_ms: must be' -c "$work/bad_value.yaml"
wrong 3 'configuration: .*Asia/Nowhere' -c "$work/bad_zone.yaml"
wrong 3 'configuration: .*unknown_key.yaml:[0-9]+: ' -c "$work/unknown_key.yaml" --print
checks 3 'FAIL  config  file  .*bad_value.yaml:[0-9]+: retry' "$work/bad_value.yaml"
agrees 3 "$work/bad_value.yaml"
echo "ok check: $cases wrong usages and configurations"

cases=0
closed=$("$build/test/freeport" 1)
altered no_kafka "s/brokers: .*/brokers: 127.0.0.1:$closed/"
checks 4 'FAIL  kafka   brokers             no broker answers: .*Connection refused \(look at' "$work/no_kafka.yaml"
says '--    kafka   topics, group' 'ok    redis   script' 'ok    mysql   rights'
for topic in usage notification dlt; do
    altered no_topic "s/^    $topic: .*/    $topic: check-no-such-topic/"
    checks 4 'FAIL  kafka   (usage topic|notification topic|DLT) +check-no-such-topic: no such topic \(make it' "$work/no_topic.yaml"
    agrees 4 "$work/no_topic.yaml"
done
# odd_topic SETTING: a topic that has it.
odd_topic() {
    "$ktool" topic-delete check-odd 2>/dev/null || :
    "$ktool" topic-create check-odd 2 "$1"
}
trap 'restore; "$ktool" topic-delete check-odd || :; finish' EXIT
altered odd_usage 's/^    usage: .*/    usage: check-odd/'
altered odd_dlt 's/^    dlt: .*/    dlt: check-odd/'
odd_topic message.timestamp.type=LogAppendTime
checks 0 'warn  kafka   timestamps          check-odd: LogAppendTime, so that a redriven .*CreateTime\)$' "$work/odd_usage.yaml"
agrees 0 "$work/odd_usage.yaml"
checks 0 'warn  kafka   timestamps          check-odd: LogAppendTime, so that rejected' "$work/odd_dlt.yaml"
odd_topic cleanup.policy=compact
checks 4 'FAIL  kafka   retention           check-odd: cleanup.policy is compact, .*cleanup.policy=delete\)$' "$work/odd_usage.yaml"
odd_topic max.message.bytes=70000
checks 4 'FAIL  kafka   record size         check-odd: takes 70000 bytes, and an event of 65536 .*needs 73728 \(raise' "$work/odd_dlt.yaml"
odd_topic retention.ms=7200000
checks 0 'ok    kafka   retention           check-odd: kept for 2 hours$' "$work/odd_usage.yaml"
altered many_workers '$ a workers: 7'
checks 0 'warn  kafka   usage topic         .*6 partitions for 7 workers' "$work/many_workers.yaml"
echo "ok check: $cases things about Kafka"

cases=0
altered no_redis "s/port: $REDIS_PORT/port: $closed/"
checks 5 'FAIL  redis   server              connect to .*refused \(look at the section redis' "$work/no_redis.yaml"
agrees 5 "$work/no_redis.yaml"
says 'ok    kafka   group' 'ok    mysql   rights'
altered redis_login "/username: tallyd_run/{s/tallyd_run/check_nobody/;n;s/'.*'/wrong/}"
checks 5 'FAIL  redis   server              .*WRONGPASS' "$work/redis_login.yaml"
redis CONFIG SET maxmemory-policy allkeys-lru >/dev/null
checks 5 'FAIL  redis   eviction            maxmemory-policy is allkeys-lru, must be noeviction.* \(CONFIG SET'
agrees 5 "$good"
redis CONFIG SET maxmemory-policy noeviction maxmemory $(($(redis INFO memory | tr -d '\r' | awk -F: '$1 == "used_memory" { print $2 }') * 105 / 100)) >/dev/null
checks 0 'warn  redis   memory              [0-9.]+ MiB used of [0-9.]+ \(raise'
redis CONFIG SET maxmemory 1000 >/dev/null
checks 5 'FAIL  redis   writes              .*OOM.* \(nothing is decided'
redis CONFIG SET maxmemory 0 min-replicas-to-write 1 >/dev/null
checks 5 'FAIL  redis   writes              .*NOREPLICAS'
redis CONFIG SET min-replicas-to-write 0 >/dev/null
redis REPLICAOF 127.0.0.1 "$closed" >/dev/null
checks 5 'FAIL  redis   role                a replica of 127.0.0.1, .* \(point redis.host'
redis REPLICAOF NO ONE >/dev/null
redis ACL SETUSER check_weak on '>weak' '~*' +@all -info -config -time >/dev/null
altered redis_weak "/username: tallyd_run/{s/tallyd_run/check_weak/;n;s/'.*'/weak/}"
checks 0 "warn  redis   eviction            this user may not ask for maxmemory-policy" "$work/redis_weak.yaml"
says 'warn  redis   server  .*NOPERM' 'ok    redis   script' 'warn  redis   clock  .*NOPERM'
redis ACL SETUSER check_weak -evalsha >/dev/null
checks 5 'FAIL  redis   script              .*NOPERM' "$work/redis_weak.yaml"
redis HSET family:0:info:190001 gen 1 >/dev/null
checks 0 'ok    redis   script'
redis DEL family:0:info:190001 >/dev/null
echo "ok check: $cases things about Redis"

cases=0
altered no_mysql "s/port: $MYSQL_PORT/port: $closed/"
checks 6 'FAIL  mysql   server              connect: .* \(look at the section mysql' "$work/no_mysql.yaml"
agrees 6 "$work/no_mysql.yaml"
altered bad_login "/^mysql:/,/^outbox:/s/^  password: .*/  password: wrong/"
checks 6 'FAIL  mysql   server              connect: Access denied' "$work/bad_login.yaml"
altered other_database "s/^  database: '.*/  database: 'check_no_such'/"
checks 6 'FAIL  mysql   server              connect: ' "$work/other_database.yaml"
admin 'SET GLOBAL read_only = 1'
checks 6 'FAIL  mysql   writable            the server is read-only \(point'
agrees 6 "$good"
admin 'SET GLOBAL read_only = 0; SET GLOBAL max_allowed_packet = 1048576'
checks 6 'FAIL  mysql   packet              max_allowed_packet is 1048576, .*4000 records can need 8192000 \(raise'
altered small_batch '$ a batch: {max_events: 100}'
checks 0 'ok    mysql   packet              max_allowed_packet is 1048576' "$work/small_batch.yaml"
admin 'SET GLOBAL max_allowed_packet = 16777216'
sql 'ALTER TABLE usage_block ENGINE=Aria'
checks 6 'FAIL  mysql   engine              usage_block is kept by Aria, .* \(ALTER TABLE'
sql 'ALTER TABLE usage_block ENGINE=InnoDB'

# weak GRANT: tallyd's tables, seen by a user with these rights.
altered weak "/^mysql:/,/^outbox:/{s/^  user: .*/  user: check_weak/; s/^  password: .*/  password: weak/}"
weak() {
    admin "CREATE OR REPLACE USER 'check_weak'@'127.0.0.1' IDENTIFIED BY 'weak'; $1"
}
weak "GRANT SELECT ON $MYSQL_DATABASE.* TO 'check_weak'@'127.0.0.1'"
checks 6 'FAIL  mysql   rights              .*INSERT/UPDATE on usage_record, ' "$work/weak.yaml"
says '.*INSERT/UPDATE on family_quota, ' '.*INSERT/UPDATE on alert_state, ' '.*INSERT/UPDATE/DELETE on usage_event_outbox, ' '.*INSERT/UPDATE on consumer_ledger, .*INSERT/UPDATE on maintenance: '
weak "GRANT SELECT, INSERT, UPDATE ON $MYSQL_DATABASE.* TO 'check_weak'@'127.0.0.1'"
checks 6 'FAIL  mysql   rights              DELETE on usage_event_outbox: ' "$work/weak.yaml"
weak "GRANT SELECT, INSERT, UPDATE, DELETE ON $MYSQL_DATABASE.* TO 'check_weak'@'127.0.0.1'"
checks 0 'ok    mysql   rights              may read and write 13 tables' "$work/weak.yaml"
weak "GRANT SELECT, INSERT ON $MYSQL_DATABASE.* TO 'check_weak'@'127.0.0.1'; GRANT UPDATE ON $MYSQL_DATABASE.family_quota TO 'check_weak'@'127.0.0.1'"
checks 6 'FAIL  mysql   rights              .*UPDATE on customer_quota, .*command denied' "$work/weak.yaml"
! grep -q 'UPDATE on family_quota' "$work/out" || die 'a right that is there is said to be missing'
agrees 6 "$work/weak.yaml"
# The tables that nobody may see look like missing ones.
weak "GRANT SELECT ON $MYSQL_DATABASE.schema_migration TO 'check_weak'@'127.0.0.1'"
checks 6 'FAIL  mysql   rights              SELECT on family, ' "$work/weak.yaml"

# A session's clock can be set, and this is done for every session of an ordinary user.
admin "SET GLOBAL init_connect = 'SET timestamp = UNIX_TIMESTAMP() + 120'"
checks 6 'FAIL  mysql   clock               1(19|20)[0-9]{3} ms ahead of ours \(keep'
admin "SET GLOBAL init_connect = 'SET timestamp = UNIX_TIMESTAMP() - 30'"
checks 0 'warn  mysql   clock               [23][0-9]{4} ms behind ours'
admin "SET GLOBAL init_connect = ''"

sql 'DELETE FROM schema_migration'
checks 7 "FAIL  mysql   schema              $migrations of $migrations migrations are missing \(run \`tallyd migrate"
agrees 7 "$good"
sql "INSERT INTO schema_migration VALUES $schema_rows; UPDATE schema_migration SET checksum = REPEAT('0', 64) WHERE version = 1"
checks 7 'FAIL  mysql   schema              migration 0001, 0001_initial.sql: was applied as something else .*\)$'
sql "REPLACE INTO schema_migration VALUES $schema_rows, ($((migrations + 1)), '$later.sql', REPEAT('0', 64), UTC_TIMESTAMP(3))"
checks 0 "ok    mysql   schema              $migrations migrations applied, and 1 newer"
sql "UPDATE schema_migration SET name = '$later.breaking.sql' WHERE version = $((migrations + 1))"
checks 7 "FAIL  mysql   schema              migration 0*$((migrations + 1)), .*this one can.t run on it"
sql "DELETE FROM schema_migration WHERE version > $migrations; RENAME TABLE usage_block TO usage_block_away"
checks 6 "FAIL  mysql   rights              SELECT on usage_block: .*doesn't exist"
sql 'RENAME TABLE usage_block_away TO usage_block'
empty_database
checks 7 "FAIL  mysql   schema              $migrations of $migrations migrations are missing"
says '--    mysql   engine, rights'
"$tallyd" migrate -c "$work/owner.yaml" >/dev/null
echo "ok check: $cases things about MySQL"

# ---- several at once, and servers that don't answer -------------------------------------------------------------------

cases=0
redis CONFIG SET maxmemory-policy allkeys-lru >/dev/null
sql 'DELETE FROM schema_migration'
checks 5 'FAIL  redis   eviction'
says 'FAIL  mysql   schema'
sql "INSERT INTO schema_migration VALUES $schema_rows"
redis CONFIG SET maxmemory-policy noeviction >/dev/null

for server in redis mysql kafka; do
    kill -s STOP "$(server_pid $server)"
done
since=$(date +%s)
# Whatever the configuration has patience for.
altered patient 's/^redis:/redis:\n  connect_timeout_ms: 60000\n  timeout_ms: 60000/; s/^mysql:/mysql:\n  connect_timeout_ms: 60000\n  timeout_ms: 50000/'
checks 4 'FAIL  kafka   brokers             no broker answers: ' "$work/patient.yaml"
took=$(($(date +%s) - since))
for server in redis mysql kafka; do
    kill -s CONT "$(server_pid $server)"
done
says 'FAIL  redis   server  .*no answer in time' 'FAIL  mysql   server'
[ "$took" -le 25 ] || die "three frozen servers took $took s"
all_well() {
    "$tallyd" check -c "$good" >"$work/out" 2>"$work/case.err"
}
await 'all is well again' 20 all_well
echo "ok check: three frozen servers are told within $took s; $((cases + 1)) cases with several things wrong"
