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
# shellcheck source=test/fault/lib_faults.sh
. "$(dirname "$0")/lib_faults.sh"

area=mysql
families=${families:-100}
seed=${TALLYD_TEST_SEED:-51}
# how long an alert waits whose publishing a fault cut off
message_timeout_ms=1000
lease_ms=6100

# ---- the daemons ------------------------------------------------------------------------------------------------------

mysql_begin() {
    export message_timeout_ms lease_ms
    begin "$@"
    trap mysql_leave EXIT
    need_fault_points
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

# ---- rest -------------------------------------------------------------------------------------------------------------

rest() {
    catch_up
    # shellcheck disable=SC2086 # a list of words
    settled_all $labels
}
