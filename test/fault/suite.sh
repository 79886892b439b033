#!/bin/sh
# SPDX-License-Identifier: MIT
# The fault suite: two daemons in one group, steady traffic, and rounds of faults on them, on Redis, MariaDB and Kafka; then quiet, and
# every promise checked.
#
#   suite.sh [--rounds N] [--seed N|commit]
#
# Which faults a round has follows from the seed, which is printed; `commit` takes it from the commit, so that each one is tried by
# other rounds. Every kind of fault is drawn once before one comes again. On Apache Kafka only, and on a stack of its own: it is broken
# all the time. At a failure the folder stays, with configurations, logs, the plan and what the servers said.
set -eu

usage() {
    sed -n 's/^#   suite/usage: suite/p' "$0" >&2
    exit 2
}

rounds=30 seed=
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
    --rounds) rounds=$2 ;;
    --seed) seed=$2 ;;
    *) usage ;;
    esac
    shift 2
done
case $seed in
'') seed=$(od -An -N3 -tu4 /dev/urandom | tr -d ' ') ;;
commit) seed=$((0x$(git -C "$(dirname "$0")" rev-parse HEAD | cut -c 1-6))) ;;
esac
case $rounds:$seed in
*[!0-9:]* | :* | *: | 0:*) usage ;;
esac

if [ -z "${TALLYD_SUITE_STACK:-}" ]; then
    export TALLYD_REQUIRE_KAFKA=1 TALLYD_SUITE_STACK=own
    exec sh "$(dirname "$0")/../../scripts/with-stack.sh" -- sh "$0" --rounds "$rounds" --seed "$seed"
fi

# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
# shellcheck source=test/fault/lib_suite_faults.sh
. "$root/test/fault/lib_suite_faults.sh"
# shellcheck source=test/fault/lib_suite_checks.sh
. "$root/test/fault/lib_suite_checks.sh"

# ---- the plan ---------------------------------------------------------------------------------------------------------

# A line a round: its number and one or two faults as NAME:DELAY:LENGTH:PICK, times in milliseconds. A deck of all faults is shuffled and
# dealt out, so that none is left out for long; in two rounds of five a second fault, of another target, overlaps the first one.
draw_plan() {
    awk -v seed="$1" -v rounds="$2" -v faults="$(faults)" '
        function below(n) { state = 16807 * state % 2147483647; return int(state / 2147483647 * n) }
        function shuffle(  i, k, t) {
            for (i = size; i > 1; i--) { k = 1 + below(i); t = deck[i]; deck[i] = deck[k]; deck[k] = t }
            top = 0
        }
        function target(fault) { sub(/-.*/, "", fault); return fault }
        function deal() { if (top == size) shuffle(); return deck[++top] }
        # the next card of another target goes before the others; none when there is none left in the deck
        function deal_beside(fault,  i, t) {
            for (i = top + 1; i <= size && apart[fault, target(deck[i])]; i++) ;
            if (i > size) return ""
            t = deck[i]
            for (; i > top + 1; i--) deck[i] = deck[i - 1]
            deck[++top] = t
            return t
        }
        function length_of(fault) {
            return fault ~ /freeze_long/ ? 2500 + below(3000) : fault ~ /freeze/ ? 200 + below(1300) : 50 + below(fault ~ /^(first|second)/ ? 4500 : 2000)
        }
        function times(fault) { return fault ":" below(1500) ":" length_of(fault) ":" below(1000000) }
        BEGIN {
            state = seed % 2147483646 + 1
            for (i = 0; i < 10; i++) below(2) # seeds that are close together begin alike
            size = split(faults, deck, " ")
            # which targets a fault has itself, so that nothing else may have them
            for (i = 1; i <= size; i++) {
                apart[deck[i], target(deck[i])] = apart[deck[i], "pair"] = 1
                if (deck[i] ~ /^both/) apart[deck[i], "first"] = apart[deck[i], "second"] = 1
                if (deck[i] ~ /^(first|second)/) apart[deck[i], "both"] = 1
                if (deck[i] ~ /^pair/)
                    for (k = 1; k <= size; k++) apart[deck[i], target(deck[k])] = 1
            }
            top = size
            for (round = 1; round <= rounds; round++) {
                line = round " " times(fault = deal())
                if (below(5) < 2 && (fault = deal_beside(fault)) != "") line = line " " times(fault)
                print line
            }
        }'
}

# ---- the rounds -------------------------------------------------------------------------------------------------------

# Runs the round's faults side by side, each in its own time. What each saw lies in $work/round/N.
inject() {
    rm -rf "$work/round"
    mkdir "$work/round"
    inject_pids=''
    inject_n=0
    for inject_fault in "$@"; do
        inject_n=$((inject_n + 1))
        run_fault "$inject_fault" >"$work/round/$inject_n" &
        inject_pids="$inject_pids $!"
    done
    inject_ok=0
    for inject_pid in $inject_pids; do
        wait "$inject_pid" || inject_ok=1
    done
    return $inject_ok
}

# Everything there when the faults were over is settled, in each partition, and the count of what is settled has grown (but where the
# phase of the traffic has come to its end just then).
goes_on() {
    [ "$(sql "SELECT COUNT(*) FROM consumer_ledger WHERE $ends")" = "$partitions" ] || return 1
    [ "$(settled_count)" -gt "$goes_on_settled" ] || ! traffic_flows
}

one_round() {
    round_no=$1
    shift
    round_from=$(now_ms)
    keep_traffic
    keep_dump "$traffic_phase.$round_no"
    round_lag=$(lag)
    round_moves=$(wc -l <"$work/moves")
    round_claims=$(count partition_opened)
    inject "$@" || die "round $round_no: a fault couldn't be done, or nothing was seen of it: $*"
    keep_traffic
    goes_on_settled=$(settled_count)
    await "Kafka says where the topic ends after round $round_no ($*)" 60 read_ends
    await "traffic gets on after round $round_no ($*)" 90 goes_on
    await "both daemons share the partitions after round $round_no ($*)" 90 shared
    no_violation
    echo "round $round_no: $(cat "$work"/round/* | paste -s -d '+' | sed 's/+/ + /g');" \
        "held $(tail -n +"$round_moves" "$work/moves" | paste -s -d '>' | sed 's/>/ > /g'), $(($(count partition_opened) - round_claims)) claims;" \
        "lag $round_lag > $(lag); $((($(now_ms) - round_from) / 1000)) s"
}

# ---- the run ----------------------------------------------------------------------------------------------------------

session_timeout_ms=2000 # how long a dead one's partitions wait; some freezes are shorter, some longer
message_timeout_ms=1000
lease_ms=7000
export session_timeout_ms message_timeout_ms lease_ms
begin suite
case $BROKER_KIND in
apache-kafka-*) ;;
*) die "it needs Apache Kafka, this is $BROKER_KIND" ;;
esac
trap 'suite_end $?' EXIT
stack=$TALLYD_TEST_DIR
began=$(now_ms)
echo "suite: $rounds rounds, seed $seed ($BROKER_KIND); again: make test-fault ROUNDS=$rounds SEED=$seed"
draw_plan "$seed" "$rounds" >"$work/plan"

prepare_servers
prepare_traffic
start_daemons
await 'both daemons share the partitions' 60 shared
start_traffic 0
await 'some of it is settled' 60 some_settled
keep_dump 0.0
watch_start
while read -r plan_round plan_faults; do
    # shellcheck disable=SC2086 # one or two
    one_round "$plan_round" $plan_faults
done <"$work/plan"

stop_traffic
await 'all is settled and told' 180 caught_up
last_traffic
await 'all is settled and told at the end' 180 caught_up
watch_stop
stop_daemons
no_violation
every_promise
echo "ok suite: seed $seed, $rounds rounds in $((($(now_ms) - began) / 1000)) s; $(summary)"
