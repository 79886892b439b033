# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# What the tests of Kafka's, MySQL's and Redis' faults share; lib_kafka.sh, lib_mysql.sh and lib_redis.sh source it and add the server.
# They say how the daemon is configured, and what `rest` is: waiting until all is settled, and every check.
# shellcheck disable=SC2120,SC2154 # arguments that may be left out; area and families are set by who sources this
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"

rate=${rate:-600}
labels= # of what was produced, for settled_all
events= # pid of the traffic

# From here on the daemon is one with fault points; a sanitizer's build has them, too.
need_fault_points() {
    grep -q TALLYD_FAULT_LOG "$tallyd" || tallyd=$root/build-fault/tallyd
    [ -x "$tallyd" ] || die "$tallyd isn't built: make faults"
}

# ---- the daemons ------------------------------------------------------------------------------------------------------

# daemon_on FILE LABEL [CMD...]: a daemon with this configuration that reads (CMD in front of it, say env); its pid is in daemon, its
# log's name in log.
daemon_on() {
    daemon_file=$1
    daemon_label=$2
    shift 2
    launch "$daemon_label" "${@:-env}" "$tallyd" run -c "$daemon_file"
    daemon=$launched
    log=$work/$daemon_label.log
    log_from=1
    await 'the daemon reads' 60 opened "$log"
}

# daemon LABEL [CMD...]: the same with the usual configuration.
daemon() {
    daemon_on "$work/config.yaml" "$@"
}

daemon_ends() {
    kill -s TERM "${1:-$daemon}"
    ended 'the daemon' "${1:-$daemon}" 0
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

# ---- traffic and rest -------------------------------------------------------------------------------------------------

# traffic_on LABEL [OPTION...]: events from now on, in the background; returns at once.
traffic_on() {
    traffic_label=$1
    shift
    labels="$labels $traffic_label"
    seed=$((seed + 1))
    simulate_on "$traffic_label" --families "$families" --rate "$rate" --duration 1h --seed "$seed" "$@"
    events=$launched
}

# traffic LABEL [OPTION...]: the same; returns when some of it is settled.
traffic() {
    traffic_on "$@"
    mark
    flows_on
}

traffic_ends() {
    kill -s TERM "$events"
    ended simulate "$events" 0
    events=
}

settled_past() {
    [ "$(ledger_end)" -ge "$1" ]
}

# flows_on [N]: N more records are settled.
flows_on() {
    await 'settling goes on' 60 settled_past $(($(ledger_end) + ${1:-200}))
}

quiet() {
    traffic_ends
    rest
}

# told FAULT FIGURES…: the fault's line.
told() {
    told_fault=$1
    shift
    echo "ok $area: $told_fault: $*; $(produced .acked.total "$traffic_label") events in it, $(ledger_end) so far, every promise holds"
}
