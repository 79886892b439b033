# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# What the measurements share: stores put back to a month's beginning, tallyd run and watched, promises ticked, rows kept. Stack,
# topics, SQL and the promises are the integration tests' (test/integration/lib.sh), their short times aren't: tallyd has its
# defaults. Sourced first thing; then `bench_begin NAME`.
#
# A row is a line of JSON in $rows. It's kept after its promises were ticked; the first that is broken ends everything with 1.
# BENCH_SPOIL: SQL that runs before each tick, for the test that a broken promise is noticed.
# shellcheck disable=SC2034 # what the integration tests' functions and the scripts work with
# shellcheck disable=SC2154 # and what they have set

bench_folder=$(dirname "$0")
# shellcheck source=/dev/null
. "$bench_folder/../../test/integration/lib.sh"
tool=${BENCH_TOOL:-$build/test/bench} # another one: for the test that a part may fail
results=${BENCH_RESULTS:-$root/test/bench/results}
DRAIN_SECONDS=1800 # a pass that takes longer has failed

# Of all logs only the end of the newest.
die() {
    echo "FAILED $name: $*" >&2
    die_log=$(find "$work" \( -name '*.log' -o -name '*.err' \) -size +0 -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2)
    if [ -n "$die_log" ]; then
        echo "--- the end of $(basename "$die_log")" >&2
        tail -n 12 "$die_log" >&2
    fi
    exit 1
}

# configure FILE [SECTIONS]: addresses and names; everything else is tallyd's default. SECTIONS is more YAML.
configure() {
    cat >"$1" <<END
kafka:
  brokers: '$KAFKA_BROKERS'
  group_id: '$group'
  topics: {usage: '$usage_topic', notification: '$notification_topic', dlt: '$dlt_topic'}
  ${kafka_more:-}
$(stores_yaml)
http: {port: 0}
${2:-}
END
}

# The owner of the tables, who also produces; a busy disk must not make a record time out.
owner() {
    owner_run_user=$run_user
    run_user=
    kafka_more='message_timeout_ms: 60000'
    configure "$work/owner.yaml" 'outbox: {lease_ms: 90000}'
    kafka_more=
    run_user=$owner_run_user
}

say() {
    printf '%s %s: %s\n' "$(date +%H:%M:%S)" "$name" "$*" >&2
}

# count NAME VALUE: must be a whole number above 0.
count() {
    case $2 in
    '' | *[!0-9]* | 0*) die "$1=$2 must be a whole number above 0" ;;
    esac
}

bench_begin() {
    begin "$1" 6
    trap bench_finish EXIT
    [ -x "$tool" ] || die "$tool isn't built"
    rows=$work/rows.jsonl
    : >"$rows"
    bench_group=$group
    bench_topics="$usage_topic $notification_topic $dlt_topic"
    bench_runs=0
    bench_since=$(date +%s)
    ticks_a_second=$(getconf CLK_TCK)
}

bench_finish() {
    [ -n "${TALLYD_TEST_KEEP:-}" ] || echo "$bench_topics" | xargs -r -n 1 -P 4 "$ktool" topic-delete || :
    usage_topic=
    finish
}

topic_new() {
    "$ktool" topic-create "$1" "$partitions" retention.ms=-1
    bench_topics="$bench_topics $1"
}

# ---- MariaDB from inside ----------------------------------------------------------------------------------------------

admin() {
    mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" -BNr "$MYSQL_DATABASE" -e "$1"
}

dirty_pages() {
    admin "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'" | cut -f 2
}

old_versions() {
    admin "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'" | cut -f 2
}

# falls_below N SECONDS COMMAND: waits for a figure to become small; going on without is a warning, no failure.
falls_below() {
    falls_end=$(($(date +%s) + $2))
    until [ "$($3)" -lt "$1" ]; do
        if [ "$(date +%s)" -gt "$falls_end" ]; then
            say "$3 stays at $($3)"
            return
        fi
        sleep 0.2
    done
}

# What one pass leaves to be written or purged isn't paid for by the next one: it's written now, as fast as the disk can.
settle_down() {
    settle_back=
    falls_below 1000 120 old_versions
    for setting in innodb_io_capacity_max=40000 innodb_io_capacity=20000 innodb_max_dirty_pages_pct_lwm=0 innodb_max_dirty_pages_pct=0; do
        settle_back="SET GLOBAL ${setting%=*} = $(admin "SELECT @@${setting%=*}"); $settle_back"
        admin "SET GLOBAL $setting"
    done
    falls_below 100 120 dirty_pages
    admin "$settle_back"
}

# ---- the stores as a pass finds them ----------------------------------------------------------------------------------

# empty_stores [TABLE]: the month begins anew: nobody has used anything. TABLE is emptied too.
empty_stores() {
    redis FLUSHALL >/dev/null
    for empty_table in "$@" usage_block customer_quota alert_state usage_event_outbox consumer_ledger; do
        echo "TRUNCATE $empty_table;"
    done | sql
    sql 'UPDATE family_quota SET used_bytes = 0, delta_bytes = 0, rev = 0 WHERE rev <> 0 OR used_bytes <> 0'
}

# An event of each family, one byte large, by its first member: once it's settled the family is in Redis.
produce_warmers() {
    warm_topic=$bench_group.warm$1
    topic_new "$warm_topic"
    sql "SELECT CONCAT(family_id, '\t{\"eventId\":\"warm-', family_id, '\",\"eventType\":\"DATA_USAGE\",\"payload\":{\"familyId\":', family_id,
            ',\"customerId\":', MIN(customer_id), ',\"bytesUsed\":1}}') FROM family_member GROUP BY family_id" |
        kcat -b "$KAFKA_BROKERS" -P -q -t "$warm_topic" -K '	' -X topic.partitioner=murmur2_random \
            -X queue.buffering.max.messages=1000000 || die 'the warming events were not taken'
}

# member_on TOPIC [SECTIONS]: a group that never was, with outgoing topics of its own; its configuration is in $work/config.yaml.
member_on() {
    bench_runs=$((bench_runs + 1))
    group=$bench_group-$bench_runs
    usage_topic=$1
    notification_topic=$group.notification
    dlt_topic=$group.usage.DLT
    topic_new "$notification_topic"
    topic_new "$dlt_topic"
    configure "$work/config.yaml" "${2:-}"
    owner
}

# start_over cold|warm: the month begins anew, with every family in Redis or none.
start_over() {
    empty_stores usage_record
    if [ "$1" = warm ]; then
        member_on "$warm_topic"
        drain warming
    fi
    settle_down
    stores=$1
}

# ---- CPU, memory, progress --------------------------------------------------------------------------------------------

running() {
    case $(state_of "$1") in
    '' | Z) return 1 ;;
    esac
}

server_pid() {
    cat "$TALLYD_TEST_DIR/$1/pid"
}

# The tool's options by which it reads the servers' CPU time.
server_pids() {
    for server in redis mysql kafka; do
        echo "--pid $server=$(server_pid $server)"
    done
}

# cpu LABEL WHEN [PID]: CPU time that the servers, and tallyd, had so far.
cpu() {
    for server in redis mysql kafka; do
        echo "$server $(ticks_of "$(server_pid $server)")"
    done >"$work/$1.cpu.$2"
    [ -z "${3:-}" ] || look_at "$3" "$1" || :
}

# look_at PID LABEL: its ticks of CPU, its peak and its present memory in KiB, a line each. Fails once it has ended, and what was
# seen last stays. (One process: it's done while the machine is measured.)
look_at() {
    look=$(awk '/^VmHWM/ { peak = $2 } /^VmRSS/ { present = $2 } FILENAME ~ /stat$/ { sub(/.*\) /, ""); ticks = $12 + $13 }
        END { if (!peak) exit 1; print ticks; print peak; print present }' "/proc/$1/stat" "/proc/$1/status" 2>/dev/null) || return 1
    echo "$look" >"$work/$2.look"
}

# progress_sql GROUP: milliseconds and records settled so far, by the server's clock.
progress_sql() {
    echo "SELECT ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000), COALESCE(SUM(next_offset - first_offset), 0) FROM consumer_ledger WHERE group_id = '$1';"
}

# watch PID LABEL SECONDS: until it ends; looks at it, and over one connection at the ledger, twice a second. In the background, since
# only while it waits does a shell serve a signal at once.
watch() {
    watch_left=$(($3 * 2))
    while [ "$watch_left" -gt 0 ] && look_at "$1" "$2"; do
        progress_sql "$group"
        sleep 0.5
        watch_left=$((watch_left - 1))
    done | sql >"$work/$2.samples" &
    wait $! || die "$2: nothing was seen of it"
    ! running "$1" || die "$2: not done after $3 s"
}

# cpu_json LABEL [TICKS]: microseconds of CPU between "before" and "after"; tallyd's is in all, or since it had these ticks.
cpu_json() {
    join "$work/$1.cpu.before" "$work/$1.cpu.after" | {
        awk -v hz="$ticks_a_second" '{ printf "\"%s\":%.0f,", $1, ($3 - $2) * 1e6 / hz }'
        awk -v hz="$ticks_a_second" -v less="${2:-0}" 'NR == 1 { printf "\"tallyd\":%.0f", ($1 - less) * 1e6 / hz }' "$work/$1.look"
    } | sed 's/.*/{&}/'
}

# ---- tallyd at work ---------------------------------------------------------------------------------------------------

# drain LABEL: runs tallyd until all that was on the topic is settled and told.
drain() {
    rm -f "$work/$1.look" "$work/$1.samples"
    cpu "$1" before
    launch "$1" "$tallyd" run -c "$work/config.yaml" --until-drained
    watch "$launched" "$1" "$DRAIN_SECONDS"
    ended "$1" "$launched" 0
    cpu "$1" after
    [ -s "$work/$1.look" ] || echo '0 0 0' | tr ' ' '\n' >"$work/$1.look" # too short to be seen
}

# keep ROW FILE...: one more row, in one line, from objects of JSON.
keep() {
    keep_row=$1
    shift
    for keep_file in "$@"; do
        [ -s "$keep_file" ] || die "$keep_row: $(basename "$keep_file") holds nothing"
    done
    jq -sc --arg row "$keep_row" '{row: $row} + add' "$@" >>"$rows" || die "$keep_row: no JSON"
}

# The milliseconds of a log's first line of an event.
# shellcheck disable=SC2016 # jq's own variables
log_times='def ms: (.[:19] + "Z" | fromdate) * 1000 + (.[20:23] | tonumber);
    def at($event): first(.[] | select(.event == $event).ts | ms);'

# drained LABEL: the figures of a drained pass, in $work/LABEL.row. Its time is from the first partition opened until all was
# settled and told.
drained() {
    drained_events=$(topic_end)
    jq -R 'split("\t") | map(tonumber)' "$work/$1.samples" | jq -sc . >"$work/$1.samples.json"
    jq -sc --argjson cpu "$(cpu_json "$1")" --argjson events "$drained_events" --argjson memory "$(sed -n 2p "$work/$1.look")" \
        --slurpfile samples "$work/$1.samples.json" "$log_times"'
        at("partition_opened") as $opened | at("stopping") as $stopping
        | {events: $events, ms: ($stopping - $opened), cpuMicros: ($cpu | map_values(. / $events)), memoryKiB: $memory, stopped: last(.[] | select(.event == "stopped")),
           opened: $opened, samples: ($samples[0] | map([.[0] - $opened, .[1]]))}' "$work/$1.log" >"$work/$1.row" || die "$1: its log isn't whole"
}

# serve LABEL: starts tallyd on a new topic that is the producer's next, and waits until it reads.
serve() {
    topic_new "$bench_group.$1"
    member_on "$bench_group.$1"
    rm -f "$work/$1.look"
    launch "$1" "$tallyd" run -c "$work/config.yaml"
    served=$launched
    await "$1: all partitions are read" 60 reads_all "$work/$1.log"
    cpu "$1" before "$served"
    served_ticks=$(head -n 1 "$work/$1.look")
}

reads_all() {
    [ "$(grep -cs '"event":"partition_opened"' "$1")" -ge "$partitions" ]
}

# served LABEL: ends it once all is settled and told; the figures are in $work/LABEL.row.
served() {
    await "$1: all is settled and told" 300 caught_up
    cpu "$1" after "$served"
    kill -s TERM "$served"
    ended "$1" "$served" 0
    jq -sc --argjson cpu "$(cpu_json "$1" "$served_ticks")" --argjson events "$(topic_end)" --argjson memory "$(sed -n 2p "$work/$1.look")" '
        {events: $events, cpuMicros: ($cpu | map_values(. / $events)), memoryKiB: $memory, stopped: last(.[] | select(.event == "stopped"))}' "$work/$1.log" >"$work/$1.row" ||
        die "$1: its log isn't whole"
}

# with_tool VERB ARGUMENT...: what build/test/bench says of it, in $work/VERB.tool.
with_tool() {
    with_verb=$1
    shift
    "$tool" "$with_verb" -c "$work/owner.yaml" "$@" >"$work/$with_verb.tool" 2>"$work/$with_verb.err" &
    pids="$pids $!"
    with_code=0
    wait $! || with_code=$?
    [ "$with_code" = 0 ] || die "bench $with_verb: exit code $with_code"
}

# ---- promises ---------------------------------------------------------------------------------------------------------

# tick [CONDITION]: everything that has to hold at rest, by SQL (of the contract's part 5), on all that was settled since the stores were
# empty. CONDITION: only of such months.
tick() {
    [ -z "${BENCH_SPOIL:-}" ] || sql "$BENCH_SPOIL"
    months=${1:-TRUE}
    promises_hold
    no_rows 'everything in the outbox is sent' "SELECT outbox_id, status, last_error FROM usage_event_outbox WHERE status <> 'SENT'"
    assert_eq "the ledger's end" "$(topic_end)" "$(ledger_end)"
    assert_eq 'rows of settled and of blocked events' "$(sql 'SELECT SUM(settled), SUM(blocked) FROM consumer_ledger')" \
        "$(sql "SELECT (SELECT COUNT(*) FROM usage_record WHERE $months), (SELECT COUNT(*) FROM usage_block WHERE $months)")"
}

# tick_produced LABEL: and each record of the summary has come to its end.
tick_produced() {
    assert_eq 'settled or blocked, duplicate, rejected, ignored, gap' \
        "$(produced '.produced.normal + .produced.late' "$1") $(produced .produced.duplicate "$1") $(produced .produced.broken "$1") 0 0" \
        "$(sql "SELECT SUM(settled + blocked), SUM(duplicate), SUM(rejected), SUM(ignored), SUM(gap) FROM consumer_ledger
                WHERE topic = '$usage_topic'" | tr '\t' ' ')"
}
