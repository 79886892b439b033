#!/bin/sh
# SPDX-License-Identifier: MIT
# with-stack.sh [--kafka-partitions N] -- CMD...: runs CMD with a stack of its own (scripts/stack.sh) and the assignments of its
# env file exported. The stack ends with CMD, whatever happens; the exit code is CMD's.
# shellcheck disable=SC2317 # what traps call isn't unreachable
set -eu

stack=$(cd "$(dirname "$0")" && pwd)/stack.sh
usage() {
    echo "usage: with-stack.sh [--kafka-partitions N] -- CMD..." >&2
    exit 2
}

partitions=6
if [ "${1:-}" = --kafka-partitions ]; then
    partitions=${2:-}
    shift 2 || usage
fi
if [ "${1:-}" != -- ] || [ $# -lt 2 ]; then
    usage
fi
shift

dir=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-stack.XXXXXX")
child=

# run CMD...: in the background, so that a signal is served at once; but CMD keeps the standard input and can be interrupted,
# which the shell denies to background commands.
run() {
    env --default-signal=INT,QUIT "$@" <&3 3<&- 9>&- &
    child=$!
    run_code=0
    wait "$child" || run_code=$?
    child=
    return "$run_code"
}

finish() {
    trap '' INT TERM HUP PIPE
    sh "$stack" stop "$dir" 9>&- || :
    echo 'done' >&9 || :
}

# Waits so many seconds for CMD to end.
ended() {
    timeout "$1" tail --pid="$child" -f /dev/null
}

# interrupted CODE: lets CMD end first, though not for ever. What interrupts us from a terminal has reached CMD as well; any other
# signal is handed on.
interrupted() {
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        if [ "$1" != 130 ] || ! ended 10; then
            kill -s TERM "$child" 2>/dev/null || :
            ended 60 || kill -s KILL "$child" 2>/dev/null || :
        fi
    fi
    exit "$1"
}

# When this shell dies without a chance to clean up, a guard at the other end of a pipe does.
guard_pipe=$dir.guard
mkfifo "$guard_pipe"
# shellcheck disable=SC2016 # expanded by the guard
setsid sh -c 'read -r word <"$3" && [ "$word" = done ] || exec sh "$2" stop "$1"' guard "$dir" "$stack" "$guard_pipe" \
    </dev/null >/dev/null 2>&1 &
exec 3<&0 9>"$guard_pipe"
rm -f "$guard_pipe"
trap finish EXIT
trap 'interrupted 130' INT
trap 'interrupted 143' TERM
trap 'interrupted 129' HUP

run sh "$stack" start --kafka-partitions "$partitions" "$dir" >/dev/null || exit 1
set -a
# shellcheck source=/dev/null
. "$dir/env"
set +a
code=0
run "$@" || code=$?
exit "$code"
