# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# What the integration tests share. A test sources it first thing:
#
#   set -eu
#   . "$(dirname "$0")/lib.sh"
#   begin NAME [PARTITIONS]     a stack (its own, unless one is exported), empty stores, new topics, a folder $work
#
# On an exported stack the database and Redis are emptied. Whatever the test starts ends with it. At the first failure it ends with 1.
# TALLYD_TEST_SEED=N: other events. TALLYD_TEST_KEEP=1 leaves the topics, the tables and the folder for a look.

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${TALLYD_BUILD:-build}
case $build in
/*) ;;
*) build=$root/$build ;;
esac
# TALLYD_BIN: another build of the daemon, say one with sanitizers.
tallyd=${TALLYD_BIN:-$build/tallyd}
ktool=$build/test/ktool

die() {
    echo "FAILED $name: $*" >&2
    for die_log in "$work"/*.err "$work"/*.log; do
        if [ -s "$die_log" ]; then
            echo "--- the end of $(basename "$die_log")" >&2
            tail -n 12 "$die_log" >&2
        fi
    done
    exit 1
}

# assert_eq WHAT EXPECTED FOUND
assert_eq() {
    [ "$2" = "$3" ] || die "$1: expected $2, found $3"
}

# no_rows WHAT QUERY: what breaks a promise is listed by the query; nothing must be.
no_rows() {
    no_rows_found=$(sql "$2 LIMIT 5")
    [ -z "$no_rows_found" ] || die "$1: found $no_rows_found"
}

# Rows as tab-separated text, without names. With no argument the statements come from standard input.
sql() {
    # shellcheck disable=SC2153 # from the stack's environment
    MYSQL_PWD=$MYSQL_PASSWORD mariadb --no-defaults --default-character-set=utf8mb4 -h "$MYSQL_HOST" -P "$MYSQL_PORT" -u "$MYSQL_USER" -BNr \
        "$MYSQL_DATABASE" ${1+-e "$1"}
}

redis() {
    # shellcheck disable=SC2153 # from the stack's environment
    redis-cli -h "$REDIS_HOST" -p "$REDIS_PORT" "$@"
}

# await WHAT SECONDS CMD...: until CMD succeeds.
await() {
    await_what=$1
    await_end=$(($(date +%s) + $2))
    shift 2
    until "$@"; do
        [ "$(date +%s)" -le "$await_end" ] || die "waited in vain until $await_what"
        sleep 0.1
    done
}

# ---- the stack and what lies on it ------------------------------------------------------------------------------------

# ours PID: a child of this shell still; the number of one that has ended may be a stranger's by now.
ours() {
    { read -r ours_stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    # shellcheck disable=SC2086 # a list of fields: the state, the parent
    set -- ${ours_stat##*) }
    [ "$2" = $$ ]
}

finish() {
    for finish_pid in $pids; do
        ! ours "$finish_pid" || kill -s KILL "$finish_pid" 2>/dev/null || :
    done
    [ -z "${TALLYD_TEST_KEEP:-}" ] || return 0
    for finish_topic in ${usage_topic:+"$usage_topic" "$notification_topic" "$dlt_topic"}; do
        "$ktool" topic-delete "$finish_topic" || :
    done
    rm -rf "$work"
}

empty_database() {
    sql "SELECT CONCAT('DROP TABLE IF EXISTS \`', table_name, '\`;') FROM information_schema.tables WHERE table_schema = DATABASE()
         UNION ALL SELECT CONCAT('DROP PROCEDURE \`', routine_name, '\`;') FROM information_schema.routines WHERE routine_schema = DATABASE()" |
        { echo 'SET foreign_key_checks = 0;' && cat; } | sql
}

begin() {
    name=$1
    if [ -z "${KAFKA_BROKERS:-}" ] || [ -z "${MYSQL_PORT:-}" ] || [ -z "${REDIS_PORT:-}" ]; then
        exec sh "$root/scripts/with-stack.sh" -- sh "$0"
    fi
    pids=
    usage_topic=
    run_user=
    work=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-$name.XXXXXX") # private: the configuration holds a password
    trap finish EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    [ -x "$tallyd" ] || die "$tallyd isn't built"
    partitions=${2:-6}
    group=$name-$$-$(date +%s)
    notification_topic=$group.notification
    dlt_topic=$group.usage.DLT
    usage_topic=$group.usage
    for begin_topic in "$usage_topic" "$notification_topic" "$dlt_topic"; do
        "$ktool" topic-create "$begin_topic" "$partitions" retention.ms=-1
    done
    empty_database
    redis FLUSHALL >/dev/null
    owner # of the tables: migrates, and fills what others fill
    "$tallyd" migrate -c "$work/owner.yaml" >"$work/migrate.log" 2>&1 || die "migrate: exit code $?"
    restrict
    configure "$work/config.yaml"
}

# The owner's configuration also produces, and isn't in a hurry: a record must not time out because the machine is busy.
owner() {
    configure "$work/owner.yaml"
    sed -i 's/message_timeout_ms: .*/message_timeout_ms: 60000/; s/lease_ms: .*/lease_ms: 90000/' "$work/owner.yaml"
}

# From here on tallyd runs with no more rights than README tells operators to give: config/grants.sql, config/redis.acl.
restrict() {
    # shellcheck disable=SC2046 # a list of words
    redis ACL SETUSER $(sed -n "s/^user tallyd /tallyd_run /; s/>PASSWORD/>$MYSQL_PASSWORD/p" "$root/config/redis.acl") >/dev/null
    {
        echo "DROP USER IF EXISTS tallyd_run@'%'; CREATE USER tallyd_run@'%' IDENTIFIED BY '$MYSQL_PASSWORD';"
        sed "s/'tallyd'@/'tallyd_run'@/" "$root/config/grants.sql"
    } | mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" "$MYSQL_DATABASE"
    run_user=tallyd_run run_password="'$MYSQL_PASSWORD'"
}

# Where the stores are, and who tallyd is there: two sections of a configuration.
stores_yaml() {
    cat <<END
redis:
  host: '$REDIS_HOST'
  port: $REDIS_PORT
  ${run_user:+username: $run_user}
  ${run_user:+password: $run_password}
mysql:
  host: '$MYSQL_HOST'
  port: $MYSQL_PORT
  user: '${run_user:-$MYSQL_USER}'
  password: '$MYSQL_PASSWORD'
  database: '$MYSQL_DATABASE'
END
}

# configure FILE [SECTIONS]: as the stack needs it, with short times where waiting would only make a test slow. SECTIONS is
# more YAML, of other sections than these.
configure() {
    cat >"$1" <<END
kafka:
  brokers: '$KAFKA_BROKERS'
  group_id: '$group'
  session_timeout_ms: ${session_timeout_ms:-6000}
  message_timeout_ms: ${message_timeout_ms:-15000}
  auto_commit_interval_ms: 200
  fetch_wait_max_ms: 20
  topics:
    usage: '$usage_topic'
    notification: '$notification_topic'
    dlt: '$dlt_topic'
$(stores_yaml)
outbox:
  lease_ms: ${lease_ms:-30000}
  sweep_interval_ms: 500
retry:
  interval_ms: 100
http:
  port: ${http_port:-0}
${2:-}
END
}

# ---- what runs --------------------------------------------------------------------------------------------------------

# launch LABEL CMD...: in the background; its output goes to $work/LABEL.log and .err. Sets launched to its pid.
launch() {
    launch_label=$1
    shift
    "$@" >"$work/$launch_label.log" 2>"$work/$launch_label.err" &
    launched=$!
    pids="$pids $launched"
}

# state_of PID: as the kernel has it: R, S, T (stopped), Z, … or nothing when it's gone.
state_of() {
    sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null || :
}

# ticks_of PID: the processor's time it had so far.
ticks_of() {
    sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

# ended LABEL PID CODE: waits for it; it must end with CODE.
ended() {
    ended_code=0
    wait "$2" || ended_code=$?
    assert_eq "$1: exit code" "$3" "$ended_code"
}

# simulate LABEL ARGUMENT...: produces, to its end; the summary lies in $work/LABEL.json.
simulate() {
    simulate_label=$1
    shift
    "$tallyd" simulate -c "$work/owner.yaml" --json "$@" >"$work/$simulate_label.json" 2>"$work/$simulate_label.err" ||
        die "simulate: exit code $?"
}

# simulate_on LABEL ARGUMENT...: the same in the background; its pid is in launched.
simulate_on() {
    simulate_label=$1
    shift
    "$tallyd" simulate -c "$work/owner.yaml" --json "$@" >"$work/$simulate_label.json" 2>"$work/$simulate_label.err" &
    launched=$!
    pids="$pids $launched"
}

# produced FILTER LABEL...: the sum of a figure in several summaries.
produced() {
    produced_filter=$1
    shift
    for produced_label in "$@"; do
        shift
        set -- "$@" "$work/$produced_label.json"
    done
    jq -s "map($produced_filter) | add" "$@"
}

# figure FILE EVENT NAME: a figure of the last such line of a log.
figure() {
    jq -r "select(.event == \"$2\") | .$3" "$1" | tail -n 1
}

# http_at LABEL: where the daemon launched as LABEL serves; nothing until it does.
http_at() {
    jq -r 'select(.event == "http_started") | if .address | contains(":") then "http://[\(.address)]:\(.port)" else "http://\(.address):\(.port)" end' \
        "$work/$1.log" 2>/dev/null | tail -n 1
}

http_serves() {
    [ -n "$(http_at "$1")" ]
}

# http_get LABEL PATH [CURL'S ARGUMENTS]: the answer's body, of whatever status.
http_get() {
    http_url=$(http_at "$1")$2
    shift 2
    curl -sS --noproxy '*' --max-time 10 "$@" "$http_url"
}

# http_code LABEL PATH: its status alone.
http_code() {
    http_get "$1" "$2" -o /dev/null -w '%{http_code}'
}

# opened FILE: a daemon's log says that it reads all partitions it was given.
opened() {
    grep -qs '"event":"partition_opened"' "$1"
}

# The sum of the topic's end offsets.
topic_end() {
    set --
    topic_end_part=0
    while [ "$topic_end_part" -lt "$partitions" ]; do
        set -- "$@" -t "$usage_topic:$topic_end_part:-1"
        topic_end_part=$((topic_end_part + 1))
    done
    kcat -b "$KAFKA_BROKERS" -Q "$@" | awk '{ sum += $NF } END { print sum + 0 }'
}

ledger_end() {
    sql "SELECT COALESCE(SUM(next_offset), 0) FROM consumer_ledger WHERE topic = '$usage_topic'"
}

# Everything on the topic is settled.
all_settled() {
    [ "$(ledger_end)" = "$(topic_end)" ]
}

# Everything on the topic is settled and told.
caught_up() {
    all_settled && [ "$(sql "SELECT COUNT(*) FROM usage_event_outbox WHERE status <> 'SENT'")" = 0 ]
}

# The same, where a fault has cut off the publishing of alerts: their leases end early, to wait for that would show nothing more.
catch_up() {
    await 'all is settled' 120 all_settled
    cut_leases
    await 'all is told' 120 caught_up
}

cut_leases() {
    sql 'UPDATE usage_event_outbox SET lease_until = UTC_TIMESTAMP(3) WHERE lease_until IS NOT NULL'
}

# Partitions whose offset in Kafka is above what the ledger has settled, with both; there must never be one. Kafka is asked first, since
# the ledger only grows. Fails without a broker's answer.
committed_above_ledger() {
    "$ktool" committed "$group" "$usage_topic" >"$work/committed" 2>"$work/committed.err" || return 1
    sql "SELECT partition_id, next_offset FROM consumer_ledger WHERE topic = '$usage_topic'" |
        awk 'NR == FNR { next_offset[$1] = $2; next } !($1 in next_offset) || $2 > next_offset[$1] { print $1 ": " $2 " above " next_offset[$1] }' \
            - "$work/committed"
}

committed_below_ledger() {
    committed_above=$(committed_above_ledger) || die "the group's offsets: $(cat "$work/committed.err")"
    [ -z "$committed_above" ] || die "committed in Kafka but not settled, partition $committed_above"
}

# The records of a topic, by kcat's format. At a partition's end nobody waits for more.
records() {
    kcat -b "$KAFKA_BROKERS" -C -t "$1" -o beginning -e -q -X fetch.wait.max.ms=10 -f "$2"
}

# ---- the promises -----------------------------------------------------------------------------------------------------

# What holds at every commit, by SQL alone.
promises_hold() {
    sums_hold
    alerts_hold
}

# months, a condition in SQL, limits them to some months.
sums_hold() {
    sums_where=${months:-TRUE}
    no_rows "a customer's use is the sum of its records" "
        SELECT family_id, customer_id, quota_month, SUM(used), SUM(bytes) FROM (
            SELECT family_id, customer_id, quota_month, monthly_used_bytes used, 0 bytes FROM customer_quota WHERE $sums_where
            UNION ALL SELECT family_id, customer_id, quota_month, 0, bytes_used FROM usage_record WHERE $sums_where) x
        GROUP BY 1, 2, 3 HAVING SUM(used) <> SUM(bytes)"
    no_rows "a family's use is the sum of its customers'" "
        SELECT family_id, quota_month, SUM(used), SUM(bytes) FROM (
            SELECT family_id, quota_month, used_bytes used, 0 bytes FROM family_quota WHERE $sums_where
            UNION ALL SELECT family_id, quota_month, 0, monthly_used_bytes FROM customer_quota WHERE $sums_where) x
        GROUP BY 1, 2 HAVING SUM(used) <> SUM(bytes)"
    no_rows 'no id is settled and blocked' 'SELECT event_id FROM usage_record JOIN usage_block USING (event_id)'
    no_rows "each partition's ledger adds up" "
        SELECT topic, partition_id FROM consumer_ledger
        WHERE settled + blocked + duplicate + rejected + ignored + gap <> next_offset - first_offset"
}

# Of apps whose names need no encoding.
alerts_hold() {
    no_rows 'each blocked customer was told' "
        SELECT b.event_id FROM usage_block b LEFT JOIN alert_state a ON a.family_id = b.family_id AND a.customer_id = b.customer_id
            AND a.quota_month = b.quota_month AND a.alert = IF(b.reason = 'APP_BLOCK', CONCAT('APP_BLOCK:', b.app_id), b.reason)
        WHERE a.event_id IS NULL"
    no_rows 'each row of the outbox is an alert told, and each alert told has its row' "
        SELECT a.event_id, o.event_id FROM (SELECT DISTINCT event_id FROM alert_state) a
            LEFT JOIN usage_event_outbox o ON o.event_id = a.event_id WHERE o.event_id IS NULL
        UNION ALL SELECT a.event_id, o.event_id FROM usage_event_outbox o LEFT JOIN alert_state a ON a.event_id = o.event_id
            WHERE a.event_id IS NULL"
    no_rows 'nothing is told twice' "
        SELECT family_id, customer_id, JSON_VALUE(payload_json, '\$.data.status') status,
            IF(JSON_VALUE(payload_json, '\$.data.status') = 'APP_BLOCK', JSON_VALUE(payload_json, '\$.data.appId'), '') app, COUNT(*)
        FROM usage_event_outbox GROUP BY 1, 2, 3, 4 HAVING COUNT(*) > 1"
}

# settled_all LABEL...: at rest, what the summaries say was produced has come to exactly its ends.
settled_all() {
    promises_hold
    no_rows 'everything in the outbox is sent' "SELECT outbox_id, status, last_error FROM usage_event_outbox WHERE status <> 'SENT'"
    assert_eq "the ledger's end" "$(topic_end)" "$(ledger_end)"
    assert_eq 'failed deliveries' 0 "$(produced .failed "$@")"
    ends=$(sql "SELECT SUM(settled + blocked), SUM(duplicate), SUM(rejected), SUM(ignored), SUM(gap) FROM consumer_ledger
                WHERE topic = '$usage_topic'" | tr '\t' ' ')
    assert_eq 'settled or blocked, duplicate, rejected, ignored, gap' \
        "$(produced '.produced.normal + .produced.late' "$@") $(produced .produced.duplicate "$@") $(produced .produced.broken "$@") 0 0" "$ends"
    ids_ended_once "$@"
    rejections_told "$@"
    alerts_published
}

# Every id on the topic has its row in one of two tables, except the broken events', which have none; and no other id has one.
ids_ended_once() {
    records "$usage_topic" '%s\n' | grep '}}}$' | grep -o '"eventId":"[^"]*"' | cut -d '"' -f 4 | LC_ALL=C sort -u >"$work/ids.produced"
    sql "SELECT event_id FROM usage_record WHERE event_id NOT LIKE 'foreign-%' UNION ALL SELECT event_id FROM usage_block" |
        LC_ALL=C sort >"$work/ids.ended"
    assert_eq 'ids that ended twice' '' "$(uniq -d "$work/ids.ended" | head -n 3)"
    assert_eq 'ids that nobody produced' '' "$(LC_ALL=C comm -13 "$work/ids.produced" "$work/ids.ended" | head -n 3)"
    assert_eq 'ids that never ended' \
        "$(produced '[.brokenByCode | to_entries[] | select(.key != "MALFORMED_JSON" and .key != "ID_CONFLICT").value] | add // 0' "$@")" \
        "$(LC_ALL=C comm -23 "$work/ids.produced" "$work/ids.ended" | wc -l)"
}

# Each rejected record is in the DLT, under its code. After a crash it may be there twice.
rejections_told() {
    records "$dlt_topic" '%h\n' | tr ',' '\n' | awk -F= '
        $1 == "x-error-code" { code = $2 } $1 == "x-original-partition" { part = $2 } $1 == "x-original-offset" { print part, $2, code }' |
        sort -u >"$work/rejections"
    rejections_due=$(produced '.brokenByCode | to_entries' "$@" | jq -r 'group_by(.key)[] | "\(.[0].key)=\(map(.value) | add)"')
    for told_code in MALFORMED_JSON INVALID_FIELD EVENT_IN_FUTURE EVENT_TOO_OLD ID_CONFLICT UNKNOWN_FAMILY NOT_A_MEMBER; do
        told_due=$(echo "$rejections_due" | sed -n "s/^$told_code=//p")
        assert_eq "rejected as $told_code" "${told_due:-0}" "$(grep -c " $told_code\$" "$work/rejections")"
    done
}

# Each alert lies on its topic, to the byte; after a crash or two tries perhaps twice.
alerts_published() {
    records "$notification_topic" '%s\n' | LC_ALL=C sort -u >"$work/alerts.topic"
    sql "SELECT CONCAT('{\"eventId\":\"', event_id, '\",\"eventType\":\"NOTIFICATION\",\"timestamp\":\"',
            DATE_FORMAT(created_at + INTERVAL 9 HOUR, '%Y-%m-%dT%H:%i:%s.'), LPAD(MICROSECOND(created_at) DIV 1000, 3, '0'),
            '+09:00\",\"payload\":', payload_json, '}') FROM usage_event_outbox" >"$work/alerts.outbox"
    LC_ALL=C sort "$work/alerts.outbox" -o "$work/alerts.outbox"
    cmp -s "$work/alerts.topic" "$work/alerts.outbox" || die "alerts on the topic and in the outbox differ: $(
        LC_ALL=C comm -3 "$work/alerts.topic" "$work/alerts.outbox" | head -n 3
    )"
}

# cache_agrees CONDITION: Redis' figures of the families by SQL CONDITION (on f, family_quota) are MySQL's. Prints how many.
cache_agrees() {
    sql "SELECT CONCAT('family:', f.family_id, ':remaining:', DATE_FORMAT(f.quota_month, '%Y%m')), f.total_quota_bytes - f.used_bytes
            FROM family_quota f WHERE $1
         UNION ALL SELECT CONCAT('family:', c.family_id, ':customer:', c.customer_id, ':usage:monthly:', DATE_FORMAT(c.quota_month, '%Y%m')),
            c.monthly_used_bytes FROM customer_quota c JOIN family_quota f USING (family_id, quota_month) WHERE $1" >"$work/cache.mysql"
    cut -f 1 "$work/cache.mysql" | sed 's/^/GET /' | redis --no-auth-warning >"$work/cache.redis"
    cut -f 1 "$work/cache.mysql" | paste - "$work/cache.redis" >"$work/cache.found"
    cmp -s "$work/cache.mysql" "$work/cache.found" || die "MySQL and Redis differ: $(diff "$work/cache.mysql" "$work/cache.found" | head -n 6)"
    wc -l <"$work/cache.mysql"
}
