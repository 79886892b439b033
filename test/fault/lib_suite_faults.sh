# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# The fault suite's servers, daemons and traffic, and what is done to them. A fault says on standard output what was seen of it, and fails
# when it didn't take place. Sourced by suite.sh.
# shellcheck disable=SC2154 # what suite.sh and lib.sh set

now_ms() {
    date +%s%3N
}

# pause MILLISECONDS
pause() {
    sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"
}

frozen() {
    [ "$(state_of "$1")" = T ]
}
thawed() {
    ! frozen "$1"
}

# ---- servers ----------------------------------------------------------------------------------------------------------

# A user that ACL SETUSER made is gone after a restart; one in the configuration isn't.
prepare_servers() {
    sed -n "s/^user tallyd /user tallyd_run /; s/>PASSWORD/>$MYSQL_PASSWORD/p" "$root/config/redis.acl" >>"$stack/redis/redis.conf"
    mkdir "$work/dumps"
}

server_pid() {
    cat "$stack/$1/pid"
}

# stop_server SERVER SIGNAL: it has ended, in fact.
stop_server() {
    stop_pid=$(server_pid "$1")
    sh "$root/scripts/stack.sh" stop-one "$stack" "$1" "$2"
    case $(state_of "$stop_pid") in
    '' | Z) ;;
    *) die "$1 is still there after $2" ;;
    esac
}

start_server() {
    sh "$root/scripts/stack.sh" start-one "$stack" "$1" || die "$1 doesn't come back"
}

# down SERVER SIGNAL LENGTH
down() {
    stop_server "$1" "$2"
    down_pid=$stop_pid
    pause "$3"
    start_server "$1"
    echo "$1 $2: pid $down_pid gone for $3 ms, back as $(server_pid "$1")$([ "$1" != redis ] || echo " with $(redis DBSIZE) keys")"
}

# freeze NAME PID LENGTH
freeze() {
    freeze_from=$(now_ms)
    kill -s STOP "$2"
    await "$1 stands still" 20 frozen "$2"
    pause "$3"
    frozen "$2" || die "$1 didn't stand still to the end"
    kill -s CONT "$2"
    await "$1 goes on" 20 thawed "$2"
    echo "$1 frozen: pid $2 for $(($(now_ms) - freeze_from)) ms"
}

# ---- Redis' contents --------------------------------------------------------------------------------------------------

# A copy of what Redis holds, with a mark to know it by.
keep_dump() {
    redis SET suite:mark "$1" >/dev/null
    redis SAVE >/dev/null
    mv "$stack/redis/dump.rdb" "$work/dumps/$1.rdb"
}

# It has read it all: a server that still does answers, too, that it's loading.
dump_back() {
    [ "$(redis GET suite:mark 2>/dev/null)" = "$1" ]
}

# old_dump LENGTH PICK: an earlier copy comes back in place of what there was.
old_dump() {
    dump_no=$(find "$work/dumps" -name '*.rdb' | sed 's/.*\///; s/\.rdb$//' | sort -t . -k 1n -k 2n |
        awk -v pick="$2" '{ no[NR] = $1 } END { print no[1 + pick % (NR > 1 ? NR - 1 : 1)] }')
    stop_server redis KILL
    pause "$1"
    cp "$work/dumps/$dump_no.rdb" "$stack/redis/dump.rdb"
    start_server redis
    rm "$stack/redis/dump.rdb"
    await "the dump of phase.round $dump_no is back" 60 dump_back "$dump_no"
    echo "redis old dump: of phase.round $dump_no, $(redis DBSIZE) keys"
}

some_keys() {
    [ "$(redis DBSIZE)" -gt 0 ]
}
some_scripts() {
    [ "$(redis INFO memory | tr -d '\r' | sed -n 's/^number_of_cached_scripts://p')" -gt 0 ]
}

flush() {
    await 'Redis holds something' 60 some_keys
    flush_sizes=$(printf 'MULTI\nDBSIZE\nFLUSHALL\nDBSIZE\nEXEC\n' | redis | tail -n 3 | paste -s -d ' ')
    case $flush_sizes in
    [1-9]*' OK 0') echo "redis FLUSHALL: ${flush_sizes%% *} keys" ;;
    *) die "FLUSHALL: $flush_sizes" ;;
    esac
}

script_flush() {
    await 'Redis holds a script' 60 some_scripts
    script_counts=$(printf 'MULTI\nINFO memory\nSCRIPT FLUSH SYNC\nINFO memory\nEXEC\n' | redis | tr -d '\r' |
        sed -n 's/^number_of_cached_scripts://p' | paste -s -d ' ')
    case $script_counts in
    [1-9]*' 0') echo "redis SCRIPT FLUSH: ${script_counts%% *} scripts" ;;
    *) die "SCRIPT FLUSH: $script_counts" ;;
    esac
}

# ---- daemons ----------------------------------------------------------------------------------------------------------

# Two in one group, as different as two can be.
start_daemons() {
    daemon_configuration first 'workers: 1'
    daemon_configuration second 'workers: 2
batch:
  max_events: 200
  linger_ms: 20'
    for start_label in first second; do
        : >"$work/$start_label.exits"
        echo 200 >"$work/$start_label.pause"
        supervise "$start_label" 2>"$work/$start_label.supervisor" &
        pids="$pids $!"
    done
}

daemon_configuration() {
    configure "$work/$1.yaml" "$2
log:
  level: debug
shutdown:
  deadline_ms: 10000"
    sed -i '
        s/^kafka:/&\n  max_poll_interval_ms: 10000/
        s/^redis:/&\n  timeout_ms: 500\n  connect_timeout_ms: 500/
        s/^mysql:/&\n  timeout_ms: 2000\n  connect_timeout_ms: 1000\n  lock_wait_timeout_ms: 1000\n  session_wait_timeout_ms: 3000/' \
        "$work/$1.yaml"
}

# What an operator's supervisor does: start it whenever it has ended, after the milliseconds in $work/LABEL.pause. "PID CODE" is written
# down for each end.
supervise() {
    while [ ! -e "$work/quiet" ]; do
        "$tallyd" run -c "$work/$1.yaml" >>"$work/$1.log" 2>>"$work/$1.err" &
        echo $! >"$work/$1.pid"
        supervise_code=0
        wait $! || supervise_code=$?
        echo "$(cat "$work/$1.pid") $supervise_code" >>"$work/$1.exits"
        pause "$(cat "$work/$1.pause")"
        echo 200 >"$work/$1.pause"
    done
}

daemon_up() {
    daemon_pid=$(cat "$work/$1.pid" 2>/dev/null) && [ -n "$daemon_pid" ] && ! grep -q "^$daemon_pid " "$work/$1.exits" &&
        [ -n "$(state_of "$daemon_pid")" ]
}

daemon_ended() {
    grep -q "^$2 " "$work/$1.exits"
}
daemon_back() {
    daemon_up "$1" && [ "$daemon_pid" != "$2" ]
}

# end_daemon LABEL SIGNAL PAUSE CODES: it ends, with one of the codes, and is started again after a pause.
end_daemon() {
    await "the $1 daemon is there" 60 daemon_up "$1"
    end_pid=$daemon_pid
    echo "$3" >"$work/$1.pause"
    kill -s "$2" "$end_pid"
    await "the $1 daemon ends by $2" 60 daemon_ended "$1" "$end_pid"
    end_code=$(sed -n "s/^$end_pid //p" "$work/$1.exits")
    case " $4 " in
    *" $end_code "*) ;;
    *) die "the $1 daemon ended by $2 with $end_code" ;;
    esac
    await "the $1 daemon comes back" 60 daemon_back "$1" "$end_pid"
    echo "$1 $2: pid $end_pid gone ($end_code), after $3 ms back as $daemon_pid"
}

freeze_daemon() {
    await "the $1 daemon is there" 60 daemon_up "$1"
    freeze "$1" "$daemon_pid" "$2"
}

# end_both PAUSE: killed at the same moment, so that nobody hands anything over.
end_both() {
    echo "$1" >"$work/first.pause"
    echo "$1" >"$work/second.pause"
    await 'the first daemon is there' 60 daemon_up first
    both_first=$daemon_pid
    await 'the second daemon is there' 60 daemon_up second
    both_second=$daemon_pid
    kill -s KILL "$both_first" "$both_second"
    await 'the first daemon ends' 60 daemon_ended first "$both_first"
    await 'the second daemon ends' 60 daemon_ended second "$both_second"
    await 'the first daemon comes back' 60 daemon_back first "$both_first"
    await 'the second daemon comes back' 60 daemon_back second "$both_second"
    echo "both KILL: pids $both_first $both_second gone, back after $1 ms"
}

# SERVER LENGTH: it stands still, both daemons are killed meanwhile, and only then it goes on: whatever they had sent, and hadn't
# heard back of, happens without them.
freeze_then_kill() {
    pair_pid=$(server_pid "$1")
    pair_from=$(now_ms)
    kill -s STOP "$pair_pid"
    await "$1 stands still" 20 frozen "$pair_pid"
    pause "$2"
    pair_seen=$(end_both 200)
    frozen "$pair_pid" || die "$1 didn't stand still to the end"
    kill -s CONT "$pair_pid"
    await "$1 goes on" 20 thawed "$pair_pid"
    echo "$1 frozen: pid $pair_pid for $(($(now_ms) - pair_from)) ms, and meanwhile $pair_seen"
}

# SERVER LENGTH: it's killed, and both daemons a moment later.
kill_all() {
    stop_server "$1" KILL
    kill_pid=$stop_pid
    pause "$2"
    kill_seen=$(end_both 200)
    start_server "$1"
    echo "$1 KILL: pid $kill_pid gone, back as $(server_pid "$1"), and meanwhile $kill_seen"
}

# It left by the signal, or says that its deadline passed while a server stood still.
stop_daemons() {
    : >"$work/quiet"
    for stop_label in first second; do
        daemon_up "$stop_label" || die "the $stop_label daemon isn't there at the end"
        kill -s TERM "$daemon_pid"
        await "the $stop_label daemon ends" 60 daemon_ended "$stop_label" "$daemon_pid"
        assert_eq "the $stop_label daemon's exit code" 0 "$(sed -n "s/^$daemon_pid //p" "$work/$stop_label.exits")"
    done
}

# ---- traffic ----------------------------------------------------------------------------------------------------------

# The reference model's records, at a steady rate. They come in phases of less than a minute: where one is at its end everything is
# drained, others change quotas, members and rules, and the next one begins.
model=$build/test/model
traffic_rate=400
traffic_phase_records=20000

# The newest records are made for a moment in the future: none is older than the dedup cache remembers.
prepare_traffic() {
    prepare_phases=$((rounds / 2 + 4))
    "$model" make "$work/run" --seed "$seed" --families 400 --events $((prepare_phases * traffic_phase_records)) --phases "$prepare_phases" \
        --partitions "$partitions" --base $(($(date +%s) + 1800)) >"$work/make.log" || die "model make: exit code $?"
    sql <"$work/run/population.sql"
}

start_traffic() {
    traffic_phase=$1
    launch "produce-$1" "$model" produce "$work/run" "$1" "$usage_topic" --rate $traffic_rate
    traffic=$launched
}

traffic_flows() {
    case $(state_of "$traffic") in
    '' | Z) return 1 ;;
    esac
}

# The next phase, when this one is at its end.
keep_traffic() {
    if ! traffic_flows; then
        ended "produce, phase $traffic_phase" "$traffic" 0
        await "phase $traffic_phase is settled and told" 120 caught_up
        next_phase
    fi
}

# Old dumps go: with them rules would come back that have been changed since, and they'd count for as long as a cached rule may.
next_phase() {
    next_no=$((traffic_phase + 1))
    [ -e "$work/run/phase-$next_no.sql" ] || die "there are only $next_no phases of traffic"
    sql <"$work/run/phase-$next_no.sql"
    while read -r next_family; do
        "$tallyd" warm -c "$work/config.yaml" "$next_family" >>"$work/warm.log" 2>&1 </dev/null || die "warm $next_family: exit code $?"
    done <"$work/run/phase-$next_no.warm"
    rm -f "$work/dumps"/*
    keep_dump "$next_no.0"
    start_traffic $next_no
}

# What was sent is acknowledged first.
stop_traffic() {
    kill -s TERM "$traffic" 2>/dev/null || :
    ended "produce, phase $traffic_phase" "$traffic" 0
}

# Some more of the phase, with Redis empty and nobody disturbing: from here on it must be as the model says, too.
last_traffic() {
    redis FLUSHALL >/dev/null
    last_to=$(awk -v phase="$traffic_phase" '$1 == phase && $2 >= to { to = $2 + 1 } END { print to + 2000 }' "$work/run/places")
    "$model" produce "$work/run" "$traffic_phase" "$usage_topic" --to "$last_to" >>"$work/produce-last.log" 2>&1 || die "produce: exit code $?"
}

# ---- the faults by name -----------------------------------------------------------------------------------------------

# TARGET-KIND; a pair has several targets.
faults() {
    for faults_target in first second redis mysql kafka; do
        for faults_kind in kill term freeze freeze_long; do
            printf '%s-%s ' $faults_target $faults_kind
        done
    done
    echo redis-old_dump redis-flush redis-script_flush both-kill pair-mysql_freeze_kill pair-kafka_freeze_kill pair-kafka_kill
}

# run_fault NAME:DELAY:LENGTH:PICK
run_fault() {
    fault_name=${1%%:*}
    fault_rest=${1#*:}
    fault_length=${fault_rest#*:}
    fault_pick=${fault_length#*:}
    fault_length=${fault_length%%:*}
    pause "${fault_rest%%:*}"
    fault_target=${fault_name%%-*}
    case $fault_name in
    first-kill | second-kill) end_daemon "$fault_target" KILL "$fault_length" 137 ;;
    # 5, 6: it was starting and found a server away; 143: not yet as far as to mind the signal; 8: its deadline passed
    first-term | second-term) end_daemon "$fault_target" TERM "$fault_length" '0 5 6 8 143' ;;
    first-freeze* | second-freeze*) freeze_daemon "$fault_target" "$fault_length" ;;
    both-kill) end_both "$fault_length" ;;
    redis-old_dump) old_dump "$fault_length" "$fault_pick" ;;
    redis-flush) flush ;;
    redis-script_flush) script_flush ;;
    pair-mysql_freeze_kill) freeze_then_kill mysql "$fault_length" ;;
    pair-kafka_freeze_kill) freeze_then_kill kafka "$fault_length" ;;
    pair-kafka_kill) kill_all kafka "$fault_length" ;;
    *-kill) down "$fault_target" KILL "$fault_length" ;;
    *-term) down "$fault_target" TERM "$fault_length" ;;
    *-freeze*) freeze "$fault_target" "$(server_pid "$fault_target")" "$fault_length" ;;
    *) die "no such fault: $fault_name" ;;
    esac
}
