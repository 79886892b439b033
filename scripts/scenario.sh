#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs scenario folders (test/scenarios/README.md) through the built binary and compares what comes out, whole:
#
#   scenario.sh [OPTION...] DIR...
#     --partitions N   partitions of the topics (1)
#     --batch N        batch.max_events (tallyd's default)
#     --pass 2x        afterwards delivers everything a second time, under new offsets; may be given several times
#     --pass rewind    afterwards reads everything again from the old offsets
#     --seconds N      how long one run of the daemon may take (120)
#     --work DIR       keeps each scenario's configuration, log and state in DIR/NAME
#
# On the stack whose variables are exported, or on one of its own (scripts/with-stack.sh). That stack's database and Redis are
# emptied for each scenario; topics and group get new names. TALLYD_BUILD: where the binary and the tools are (build).
# Exit code: 0 all as expected, 1 something came out differently, 2 it could not be found out.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
self=$root/scripts/scenario.sh
build=${TALLYD_BUILD:-build}
case $build in
/*) ;;
*) build=$root/$build ;;
esac

usage() {
    sed -n 's/^#   scenario/usage: scenario/p; s/^#     --/  --/p' "$self" >&2
    exit 2
}
number() {
    case ${1:-} in
    '' | 0* | *[!0-9]*) usage ;;
    esac
    echo "$1"
}

if [ -z "${KAFKA_BROKERS:-}" ] || [ -z "${MYSQL_PORT:-}" ] || [ -z "${REDIS_PORT:-}" ]; then
    [ $# -gt 0 ] || usage
    exec sh "$root/scripts/with-stack.sh" -- sh "$self" "$@"
fi

partitions=1
batch=0
passes=
seconds=120
work=
while [ $# -gt 0 ]; do
    case $1 in
    --partitions) partitions=$(number "${2:-}") ;;
    --batch) batch=$(number "${2:-}") ;;
    --seconds) seconds=$(number "${2:-}") ;;
    --pass)
        case ${2:-} in
        2x | rewind) passes="$passes $2" ;;
        *) usage ;;
        esac
        ;;
    --work) work=${2:-} ;;
    --*) usage ;;
    *) break ;;
    esac
    shift 2 || usage
done
[ $# -gt 0 ] || usage

tool=$build/test/scenario
tallyd=$build/tallyd
for needed in "$tool" "$tallyd"; do
    [ -x "$needed" ] || env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$root" BUILD="$build" "$needed" >&2 || exit 2
done
temporary=
if [ -z "$work" ]; then
    work=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-scenario.XXXXXX")
    temporary=$work
fi
child=
# shellcheck disable=SC2317 # called by the trap
finish() {
    [ -z "$child" ] || kill -s TERM "$child" 2>/dev/null || :
    [ -z "$temporary" ] || rm -rf "$temporary"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# step VERB ARGUMENT...: waits so that a signal is served at once; the daemon ends with the tool that runs it.
step() {
    "$tool" "$@" &
    child=$!
    step_code=0
    wait "$child" || step_code=$?
    child=
    return "$step_code"
}

daemon() {
    step run "$1" "$seconds" "$tallyd" run -c "$1/config.yaml" --until-drained
}

# The first delivery into empty stores.
first() {
    step prepare "$1" "$2" "$partitions" "$batch" &&
        step run "$1" "$seconds" "$tallyd" migrate -c "$1/config.yaml" &&
        step load "$1" "$2" &&
        step produce "$1" "$2" &&
        daemon "$1" &&
        step compare "$1" "$2"
}

# pass KIND: the same again, on what the first one left.
pass() {
    step snapshot "$2" || return 2
    case $1 in
    2x) step produce "$2" "$3" || return 2 ;;
    rewind) step rewind "$2" || return 2 ;;
    esac
    daemon "$2" && step compare "$2" "$3"
}

worst=0
failed() {
    [ "$1" -le "$worst" ] || worst=$1
}

for dir in "$@"; do
    place=$work/$(basename "$dir")
    rm -rf "$place"
    (umask 077 && mkdir -p "$place") # the configuration holds the password
    code=0
    first "$place" "$dir" || code=$?
    for kind in $passes; do
        [ "$code" = 0 ] || break
        pass "$kind" "$place" "$dir" || code=$?
    done
    failed "$code"
done
exit "$worst"
