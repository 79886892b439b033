# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# What the tests of MySQL's faults share. Each fault falls into steady traffic, is seen to have hit, and then, at rest, every promise is
# checked before the next one comes.
#
#   mysql_begin NAME [PARTITIONS]   the stack, families; MySQL's faults are undone however the test ends
#   daemon LABEL [CMD...]           a daemon that reads (CMD in front of it, say env)
#   traffic LABEL                   events from now on, in the background
#   …the fault…                     `said`, `fired` and the like: it was seen
#   quiet                           the traffic ends, all is settled, every promise holds
#   told FAULT FIGURES…             the fault's line
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"

families=${families:-100}
rate=${rate:-600}
seed=${TALLYD_TEST_SEED:-51}
labels=
# how long an alert waits whose publishing a fault cut off
message_timeout_ms=1000
lease_ms=6100

# ---- the daemons ------------------------------------------------------------------------------------------------------

mysql_begin() {
    export message_timeout_ms lease_ms
    begin "$@"
    trap mysql_leave EXIT
    # a sanitizer's build has the fault points too
    grep -q TALLYD_FAULT_LOG "$tallyd" || tallyd=$root/build-fault/tallyd
    [ -x "$tallyd" ] || die "$tallyd isn't built: make faults"
    mysql_configure ''
    simulate seeding --seed-db --families "$families"
}

# mysql_configure SECTIONS: more of the configuration, or none; short patience, and every wait is told.
mysql_configure() {
    configure "$work/config.yaml" "workers: ${workers:-2}${1:+
$1}"
    sed -i "s/^mysql:\$/&\n  timeout_ms: ${timeout_ms:-3000}\n  connect_timeout_ms: 1000\n  lock_wait_timeout_ms: ${lock_wait_timeout_ms:-1000}\n  session_wait_timeout_ms: ${session_wait_timeout_ms:-60000}/
        s/^retry:\$/&\n  report_interval_ms: ${report_interval_ms:-300}/" "$work/config.yaml"
}

# Sets daemon to its pid and log to its log.
daemon() {
    daemon_label=$1
    shift
    launch "$daemon_label" "${@:-env}" "$tallyd" run -c "$work/config.yaml"
    daemon=$launched
    log=$work/$daemon_label.log
    log_from=1
    await 'the daemon reads' 60 opened "$log"
}

# daemon_faulty LABEL FAULTS: one with fault points; each that fires is a line in $work/LABEL.fired.
daemon_faulty() {
    : >"$work/$1.fired"
    daemon "$1" env TALLYD_FAULT="$2" TALLYD_FAULT_LOG="$work/$1.fired"
}

# fired PATTERN: how many lines of the fault log match.
fired() {
    grep -c "$1" "$work/$daemon_label.fired" || :
}

fired_once() {
    [ "$(fired "$1")" -ge 1 ]
}

daemon_ends() {
    kill -s TERM "$daemon"
    ended 'the daemon' "$daemon" 0
}

# ---- the server -------------------------------------------------------------------------------------------------------

# As the server's owner, whatever happens to others' rights. Without an argument the statements come from standard input.
admin() {
    mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" -BNr "$MYSQL_DATABASE" ${1+-e "$1"}
}

server() {
    sh "$root/scripts/stack.sh" "$1" "$TALLYD_TEST_DIR" mysql ${2+"$2"}
}

server_pid() {
    cat "$TALLYD_TEST_DIR/mysql/pid"
}

# The ids of the daemons' connections.
sessions() {
    admin "SELECT id FROM information_schema.processlist WHERE user = 'tallyd_run'"
}

# status_of NAME: one of the server's counters.
status_of() {
    admin "SHOW GLOBAL STATUS LIKE '$1'" | cut -f 2
}

# However this ends, the next test finds the server as it was.
mysql_leave() {
    kill -s CONT "$(server_pid)" 2>/dev/null || :
    server start-one >/dev/null 2>&1 || :
    admin 'SET GLOBAL read_only = OFF; SET GLOBAL max_connections = 100' 2>/dev/null || :
    finish
}

# ---- traffic and rest -------------------------------------------------------------------------------------------------

# traffic LABEL [OPTION...]: returns when some of it is settled.
traffic() {
    traffic_on "$@"
    flows_on 100
}

# traffic_on LABEL [OPTION...]: returns at once.
traffic_on() {
    traffic_label=$1
    shift
    labels="$labels $traffic_label"
    seed=$((seed + 1))
    simulate_on "$traffic_label" --families "$families" --rate "$rate" --duration 1h --seed "$seed" "$@"
    events=$launched
    mark
}

# What the daemon says is looked for from here on.
mark() {
    log_from=$(($(wc -l <"$log") + 1))
}

said_since() {
    tail -n "+$log_from" "$log"
}

# said TEXT...: a line with all of them.
said() {
    said_since >"$work/said"
    for said_text in "$@"; do
        grep -e "$said_text" "$work/said" >"$work/said.some" || return 1
        mv "$work/said.some" "$work/said"
    done
}

settled_past() {
    [ "$(ledger_end)" -ge "$1" ]
}

# flows_on N: N more records are settled.
flows_on() {
    await 'settling goes on' 60 settled_past $(($(ledger_end) + $1))
}

traffic_ends() {
    kill -s TERM "$events"
    ended simulate "$events" 0
}

rest() {
    catch_up
    # shellcheck disable=SC2086 # a list of words
    settled_all $labels
}

quiet() {
    traffic_ends
    rest
}

told() {
    told_fault=$1
    shift
    echo "ok mysql: $told_fault: $*; $(produced .acked.total "${labels##* }") events in it, $(ledger_end) so far, every promise holds"
}
