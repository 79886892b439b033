#!/bin/sh
# SPDX-License-Identifier: MIT
# demo.sh: from a clean checkout to tallyd at work, in one command (make demo). Installs what is missing, builds, starts a private
# stack (scripts/stack.sh) and shows on it what scripts/demo/show.sh tells. Nothing is left running.
#
# TALLYD_DEMO_EVENTS (50000), TALLYD_DEMO_FAMILIES (1000): how much. TALLYD_BROKER=embedded: without Apache Kafka.
# Exit code: 0 when every promise held, otherwise 1.
# shellcheck disable=SC2154 # colours, from ui.sh
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
# shellcheck source=/dev/null
. scripts/demo/ui.sh
build=${TALLYD_BUILD:-build}
log=$(mktemp "${TMPDIR:-/tmp}/tallyd-demo.XXXXXX")
trap 'rm -f "$log" "$log.code"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Java and Maven are only for Apache Kafka, and for that there is a stand-in.
enough_without_java() {
    for command in cc make pkg-config redis-server redis-cli mariadb mariadb-install-db kcat jq setsid; do
        command -v "$command" >/dev/null 2>&1 || return 1
    done
    PATH=$PATH:/usr/sbin command -v mariadbd >/dev/null 2>&1 &&
        pkg-config --exists rdkafka hiredis libmariadb jansson yaml-0.1
}

packages() {
    { sh scripts/deps.sh test 2>&1 || echo $? >"$log.code"; } | while read -r line; do
        echo "$line" >>"$log"
        printf '\n    %s%.140s%s' "$dim" "$line" "$plain"
    done
    packages_note='all there'
    [ ! -s "$log" ] || packages_note='installed'
    if [ -s "$log.code" ]; then
        enough_without_java || give_up "packages are missing" "Do what deps.sh says above, then: make demo" "$log"
        packages_note='all but Java and Maven'
    fi
    [ ! -s "$log" ] || printf '\n  %-38s' ''
}

printf '\n%stallyd%s  usage quotas for families, exact whatever fails\n\n' "$bold" "$plain"

step 'packages'
packages
step_done "$packages_note"

step 'build'
# A make that runs us has its own options and job server.
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -j2 BUILD="$build" "$build/tallyd" "$build/test/freeport" "$build/test/ktool" \
    "$build/test/scenario" "$build/test/broker" >"$log" 2>&1 ||
    give_up "it doesn't build" "The same by hand: make. In an unchanged checkout it is a defect: please report it" "$log"
compiled=$(grep -c ' CC ' "$log" || :)
step_done "$([ "$compiled" = 0 ] && echo 'up to date' || echo "$compiled files compiled")"

# What the start says goes below this line: a first one brings Kafka, and the stand-in announces itself.
printf '  %s\n' 'start a private Kafka, Redis, MariaDB'
DEMO_STACK_SINCE=$(now_ms)
export DEMO_STACK_SINCE
rm -f "$log" "$log.code"
exec sh scripts/with-stack.sh --kafka-partitions 6 -- sh scripts/demo/show.sh
