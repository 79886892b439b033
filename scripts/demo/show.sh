#!/bin/sh
# SPDX-License-Identifier: MIT
# show.sh: the demo itself, on a new stack whose variables are exported (scripts/demo.sh starts one). Fills the database, produces
# an evening's minute of events, lets tallyd settle them, delivers some again, and ends with a page: what became of everything, and
# whether each promise held. Exit code: 0 when all did, otherwise 1.
#
# TALLYD_BIN: another build of tallyd. TALLYD_DEMO_EVENTS (50000), TALLYD_DEMO_FAMILIES (1000): how much.
# shellcheck disable=SC2154 # what the sourced files set
set -eu

here=$(dirname "$0")
# shellcheck source=/dev/null
. "$here/../../test/integration/lib.sh"
# shellcheck source=/dev/null
. "$here/ui.sh"
# shellcheck source=/dev/null
. "$here/promises.sh"
# shellcheck source=/dev/null
. "$here/page.sh"

events=${TALLYD_DEMO_EVENTS:-50000}
families=${TALLYD_DEMO_FAMILIES:-1000}
case $events:$families in
*[!0-9:]* | :* | *: | 0* | *:0*) give_up "TALLYD_DEMO_EVENTS and TALLYD_DEMO_FAMILIES are whole numbers" "Leave them unset, then: make demo" ;;
esac
again=$((events / 25)) # so many are produced a second time
RUN_SECONDS=300

[ -n "${KAFKA_BROKERS:-}" ] || give_up "no stack" "Run it by: make demo"
work=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-demo.XXXXXX") # private: the configuration holds a password
child=
# shellcheck disable=SC2317 # called by the trap
leave() {
    [ -z "$child" ] || kill -s KILL "$child" 2>/dev/null || :
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The stack's own topics, with the names of the contract.
# shellcheck disable=SC2034 # lib.sh works with them
group=tallyd usage_topic=usage-events notification_topic=notification-events dlt_topic=usage-events.DLT partitions=6

# The last evening in the zone, and across the hour at which some members' time is over: the same people do the same things
# whenever the demo runs.
last_evening() {
    evening=$(TZ=Asia/Seoul date +%F)
    [ "$(TZ=Asia/Seoul date +%H%M)" -gt 2201 ] || evening=$(TZ=Asia/Seoul date -d "$evening 12:00 yesterday" +%F)
    echo "${evening}T21:59:35+09:00"
}

# ---- run and watch ----------------------------------------------------------------------------------------------------

running() {
    # A child that has ended is a zombie until it's waited for.
    case $(cat "/proc/$1/stat" 2>/dev/null) in
    *') Z '* | '') return 1 ;;
    esac
}

# bar: how far the ledger has come from $begin to $goal, since $bar_since.
bar() {
    bar_done=$(($(ledger_end) - begin))
    bar_ms=$(($(now_ms) - bar_since))
    bar_text=$(awk "$figures"' BEGIN { done = ARGV[1]; goal = ARGV[2]; ms = ARGV[3] + 1
        printf "%s %3d %%  %s of %s records  %d.%d s", bar(goal ? done / goal : 1, 40), goal ? 100 * done / goal : 100, thousands(done),
            thousands(goal), ms / 1000, ms % 1000 / 100 }' "$bar_done" $((goal - begin)) "$bar_ms")
    if [ -n "$ui_tty" ]; then
        printf '\r    %s%s%s\033[K' "$green" "$bar_text" "$plain"
    else
        printf '    %s\n' "$bar_text"
    fi
}

# settle LABEL: runs tallyd until it's drained; its log is $work/LABEL.log.
settle() {
    begin=$(ledger_end)
    goal=$(topic_end)
    bar_since=$(now_ms)
    bar_next=$bar_since
    bar_every=2000
    [ -z "$ui_tty" ] || bar_every=200
    printf '\n'
    "$tallyd" run -c "$work/config.yaml" --until-drained >"$work/$1.log" 2>"$work/$1.err" &
    child=$!
    while running "$child"; do
        settle_now=$(now_ms)
        if [ "$settle_now" -ge "$bar_next" ]; then
            bar
            bar_next=$((settle_now + bar_every))
        fi
        [ "$settle_now" -lt $((bar_since + RUN_SECONDS * 1000)) ] ||
            give_up "tallyd isn't done after $RUN_SECONDS s" "A much slower machine needs fewer: TALLYD_DEMO_EVENTS=5000 make demo" "$work/$1.log"
        sleep 0.1
    done
    settle_code=0
    wait "$child" || settle_code=$?
    child=
    [ "$settle_code" = 0 ] || give_up "tallyd ended with $settle_code" "Its last words are above; exit codes are explained in README.md" \
        "$(if [ -s "$work/$1.err" ]; then echo "$work/$1.err"; else echo "$work/$1.log"; fi)"
    bar
    [ -z "$ui_tty" ] || printf '\n'
}

# ---- the demo ---------------------------------------------------------------------------------------------------------

printf '  %-38s' '  all three answer'
step_done "$(broker_name)" "${DEMO_STACK_SINCE:-$(now_ms)}"

step 'migrate'
configure "$work/config.yaml" 'locale: en'
"$tallyd" migrate -c "$work/config.yaml" >"$work/migrate.log" 2>&1 ||
    give_up "the tables can't be made" "This is a defect; the stack is a new one" "$work/migrate.log"
step_done "the tables are there"

evening=$(last_evening)
step 'seed the database'
"$tallyd" simulate -c "$work/config.yaml" --seed-db --families "$families" --seed 1 --start "$evening" --json \
    >"$work/seeded.json" 2>"$work/simulate.err" || give_up "nothing seeded" "This is a defect; the stack is a new one" "$work/simulate.err"
step_done "$(jq -r '.seeded | "\(.families) families, \(.members) members, \(.rules) rules"' "$work/seeded.json")"
sql "$FAMILIES_NOW" >"$work/families.before"

step 'produce events'
"$tallyd" simulate -c "$work/config.yaml" --families "$families" --count "$events" --rate 0 --seed 1 --start "$evening" \
    --duplicates 0.04 --broken 0.01 --json >"$work/events.json" 2>"$work/simulate.err" ||
    give_up "not all events were taken" "The broker's side of it is above" "$work/simulate.err"
step_done "$(jq -r '"\(.produced.duplicate) of them duplicates, \(.produced.broken) broken"' "$work/events.json")"

step 'tallyd settles them'
settle first

step 'check promises 1 to 6'
check_first
step_done "$(verdict)"

step "deliver $(thousands "$again") again, Redis emptied"
deliver_again
settle second

step 'check promise 7'
promise repeats_change_nothing
step_done "$(verdict)"

page
[ "$broken_promises" = 0 ]
