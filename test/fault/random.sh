#!/bin/sh
# SPDX-License-Identifier: MIT
# Random runs against the reference model: families, rules and events from a seed, one or two daemons, and in every second
# run the stores and the daemons flushed, restarted and killed at random steps. Whatever happens, everything there is at the
# end is what the model says.
#
#   random.sh [SEED]       one run; without a seed TALLYD_TEST_SEEDS runs (2) from TALLYD_TEST_SEED on (by the clock)
#
# The steps are drawn from the seed too; odd ones are disturbed, even ones aren't. At the first difference the run's folder
# stays and the command that makes it again is printed.
# TALLYD_TEST_BASE: the time the newest events carry, seconds since 1970, to make a run of another day again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/integration/lib.sh
. "$here/../integration/lib.sh"
if [ -z "${KAFKA_BROKERS:-}" ] || [ -z "${MYSQL_PORT:-}" ] || [ -z "${REDIS_PORT:-}" ]; then
    exec sh "$root/scripts/with-stack.sh" -- sh "$here/random.sh" "$@"
fi
model=$build/test/model
stack="sh $root/scripts/stack.sh"

# draw N: a number from 0 to N-1 in drawn; from the seed.
draw() {
    dice=$(((dice * 1103515245 + 12345) % 2147483648))
    drawn=$((dice / 65536 % $1))
}
step() {
    echo "  $*" | tee -a "$work/steps"
}

# ---- one run's stores -------------------------------------------------------------------------------------------------

# Topics that take records of any time.
topics() {
    group=random-$seed-$$-$(date +%s)
    usage_topic=$group.usage notification_topic=$group.notification dlt_topic=$group.usage.DLT
    "$ktool" topic-create "$usage_topic" "$partitions" retention.ms=-1 message.timestamp.after.max.ms=9223372036854775807
    "$ktool" topic-create "$notification_topic" 3 retention.ms=-1
    "$ktool" topic-create "$dlt_topic" 2 retention.ms=-1 message.timestamp.after.max.ms=9223372036854775807
}

# Empties the tables; the schema stays.
tables() {
    sql "SELECT CONCAT('DELETE FROM ', table_name, ';') FROM information_schema.tables
         WHERE table_schema = DATABASE() AND table_name NOT IN ('schema_migration', 'usage_floor')" |
        { echo 'SET foreign_key_checks = 0;' && cat && echo "UPDATE usage_floor SET closed_before = '1970-01-01';"; } | sql
    sql 'ALTER TABLE usage_record DROP CONSTRAINT IF EXISTS model_refuses; ALTER TABLE usage_block DROP CONSTRAINT IF EXISTS model_refuses'
    redis FLUSHALL >/dev/null
}

# ---- the daemons ------------------------------------------------------------------------------------------------------

# start N: daemon number N, with a number of workers and a size of batches drawn.
start() {
    draw 3
    start_workers=$((drawn + 1))
    draw 5
    case $drawn in
    0) start_batch=1 ;;
    1 | 2) start_batch=7 ;;
    *) start_batch=1000 ;;
    esac
    starts=$((starts + 1))
    configure "$work/$1.yaml" "workers: $start_workers
batch:
  max_events: $start_batch"
    step "daemon $1: $start_workers workers, batches of $start_batch"
    launch "daemon-$1-$starts" "$tallyd" run -c "$work/$1.yaml"
    eval "workers_$1=$start_workers"
    eval "daemon_$1=$launched; log_$1=$work/daemon-$1-$starts.log"
}

pid_of() {
    eval "echo \$daemon_$1"
}

log_of() {
    eval "echo \$log_$1"
}
started() {
    grep -qs '"event":"started"' "$1"
}

# end N SIGNAL CODE: before it has started, a daemon doesn't know what to do about a signal.
end() {
    end_pid=$(pid_of "$1")
    [ "$2" = KILL ] || await "daemon $1 has started" 60 started "$(log_of "$1")"
    kill -s "$2" "$end_pid" 2>/dev/null || :
    end_code=0
    wait "$end_pid" || end_code=$?
    assert_eq "daemon $1 ended by $2: exit code" "$3" "$end_code"
}

# Every worker of every daemon has joined and all partitions are given out: from here on nothing moves by itself.
joined() {
    joined_workers=0
    set --
    for joined_daemon in $(seq "$daemons"); do
        eval "joined_workers=\$((joined_workers + workers_$joined_daemon))"
        set -- "$@" "$(log_of "$joined_daemon")"
    done
    joined_found=$(jq -r 'select(.event == "partitions_assigned" or .event == "partitions_revoked") |
        [input_filename, .worker, if .event == "partitions_assigned" then .partitions else -1000 end] | @tsv' "$@" 2>/dev/null |
        awk -F '\t' '{ last[$1 " " $2] = $3 } END { for (w in last) { n++; sum += last[w] } print n + 0, sum + 0 }')
    [ "$joined_found" = "$joined_workers $partitions" ]
}

start_all() {
    for all_daemon in $(seq "$daemons"); do
        start "$all_daemon"
    done
    # A rebalance may drop a batch whose rejections are in the DLT already; an undisturbed run has no such excuse.
    [ "$disturbed" = 1 ] || await 'all daemons have joined' 60 joined
}

end_all() {
    for all_daemon in $(seq "$daemons"); do
        end "$all_daemon" TERM 0
    done
}

# ---- what happens to them ---------------------------------------------------------------------------------------------

restart() {
    $stack stop-one "$TALLYD_TEST_DIR" "$1" "$2"
    $stack start-one "$TALLYD_TEST_DIR" "$1"
}

redis_kept() {
    redis SHUTDOWN SAVE >/dev/null 2>&1 || :
    $stack stop-one "$TALLYD_TEST_DIR" redis
    $stack start-one "$TALLYD_TEST_DIR" redis
    rm -f "$TALLYD_TEST_DIR/redis/dump.rdb"
}

# A daemon that is just starting ends when it finds a server away, for its supervisor to start it again: there's none here.
all_started() {
    for started_daemon in $(seq "$daemons"); do
        grep -qs '"event":"started"' "$(log_of "$started_daemon")" || return 1
    done
}

disturb() {
    await 'all daemons have started' 60 all_started
    draw 20
    disturb_kind=$drawn
    draw "$daemons"
    disturb_daemon=$((drawn + 1))
    case $disturb_kind in
    0 | 1 | 2 | 3) step FLUSHALL && redis FLUSHALL >/dev/null ;;
    4 | 5) step 'Redis killed, back empty' && restart redis KILL ;;
    6 | 7) step 'Redis restarted with its data' && redis_kept ;;
    8 | 9) step 'MariaDB killed' && restart mysql KILL ;;
    10 | 11) step 'MariaDB restarted' && restart mysql TERM ;;
    12) step 'Kafka restarted' && restart kafka TERM ;;
    13 | 14 | 15 | 16)
        step "daemon $disturb_daemon killed"
        end "$disturb_daemon" KILL 137
        start "$disturb_daemon"
        ;;
    *)
        step "daemon $disturb_daemon restarted"
        end "$disturb_daemon" TERM 0
        start "$disturb_daemon"
        ;;
    esac
}

# ---- one run ----------------------------------------------------------------------------------------------------------

warm() {
    [ -s "$work/run/phase-$phase.warm" ] || return 0
    # shellcheck disable=SC2046 # a list of numbers
    "$tallyd" warm -c "$work/config.yaml" $(cat "$work/run/phase-$phase.warm") >>"$work/warm.log" 2>&1 || die "warm: exit code $?"
}

drained() {
    drained_ends=$(sql "SELECT COALESCE(SUM(next_offset), 0), (SELECT COUNT(*) FROM usage_event_outbox WHERE status <> 'SENT')
                        FROM consumer_ledger" 2>/dev/null) || return 1
    [ "$drained_ends" = "$(wc -l <"$work/run/places")	0" ]
}

run_phase() {
    if [ "$phase" -gt 0 ]; then
        sql <"$work/run/phase-$phase.sql"
        warm
        # A month that is closed counts for a worker from its next assignment or settlement on.
        if grep -q '^floor' "$work/run/phase-$phase.changes"; then
            end_all
            start_all
        fi
    fi
    draw 3
    case $disturbed in
    1) set -- --rate $((400 + 400 * drawn)) ;;
    *) set -- ;;
    esac
    launch "produce-$phase" "$model" produce "$work/run" "$phase" "$usage_topic" "$@"
    run_producer=$launched
    if [ "$disturbed" = 1 ]; then
        draw 3
        run_steps=$drawn
        while [ "$run_steps" -gt 0 ]; do
            draw 8
            sleep "0.$drawn" # when it happens is the seed's
            disturb
            run_steps=$((run_steps - 1))
        done
    fi
    ended "produce, phase $phase" "$run_producer" 0
    await "phase $phase is settled and told" 60 drained
}

run_seed() {
    set --
    disturbed=$((seed % 2))
    dice=$(((seed % 1000003 * 7919 + 17) % 2147483648))
    starts=0
    draw 3
    partitions=$((1 + 2 * drawn))
    : >"$work/steps"
    rm -rf "$work/run" "$work"/daemon-*
    topics
    tables
    session_timeout_ms=$((disturbed ? 2500 : 6000))
    configure "$work/config.yaml"
    draw 4
    [ "$drawn" -gt 0 ] || set -- --refuse
    "$model" make "$work/run" --seed "$seed" --partitions "$partitions" --base "$base" --floor "$@" >"$work/make.log" ||
        die "model make: exit code $?"
    step "$(head -n 1 "$work/make.log"), $partitions partitions $*"
    set --
    sql <"$work/run/population.sql"
    draw 2
    daemons=$((drawn + 1))
    start_all
    phase=0
    while [ -e "$work/run/phase-$phase.records" ]; do
        run_phase
        phase=$((phase + 1))
    done
    end_all
    [ "$disturbed" = 0 ] || set -- --crashes
    "$model" check "$work/run" --group "$group" --usage-topic "$usage_topic" --notification-topic "$notification_topic" \
        --dlt-topic "$dlt_topic" --cache "$@" >"$work/check.log" 2>&1 || die "the model and what is there differ:
$(head -n 12 "$work/check.log")
$(tail -n 1 "$work/check.log")"
    step "$(cat "$work/check.log")"
    for run_topic in "$usage_topic" "$notification_topic" "$dlt_topic"; do
        "$ktool" topic-delete "$run_topic"
    done
    usage_topic=
}

begin random
run_user= # Redis forgets its users when it is restarted
first=${1:-${TALLYD_TEST_SEED:-$(date +%s)}}
seeds=${TALLYD_TEST_SEEDS:-2}
[ $# -eq 0 ] || seeds=1
seed=$first
while [ "$seed" -lt $((first + seeds)) ]; do
    base=${TALLYD_TEST_BASE:-$(date +%s)}
    echo "seed $seed: TALLYD_TEST_BASE=$base sh test/fault/random.sh $seed"
    run_began=$(date +%s)
    trap 'TALLYD_TEST_KEEP=1; echo "seed $seed failed: its folder is $work; again: TALLYD_TEST_BASE=$base sh test/fault/random.sh $seed" >&2; finish' EXIT
    run_seed
    trap finish EXIT
    echo "  $(($(date +%s) - run_began)) s"
    seed=$((seed + 1))
done
echo "ok random: $seeds runs from seed $first on, each as the model says"
