#!/bin/sh
# SPDX-License-Identifier: MIT
# Whether the tests are sharp: takes one rule out of tallyd at a time, in a copy of the tree, and runs the tests that
# plants/NAME.patch names as "Caught by:". The first of them must turn red, and is green without the plant.
#
#   plants.sh [--green] [NAME...]     all of them by default; --green also runs each test without its plant
#
# Exit code: 0 every plant was caught.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
green=
if [ "${1:-}" = --green ]; then
    green=1
    shift
fi
if [ -z "${KAFKA_BROKERS:-}" ] || [ -z "${MYSQL_PORT:-}" ] || [ -z "${REDIS_PORT:-}" ]; then
    exec sh "$root/scripts/with-stack.sh" --kafka-partitions 6 -- sh "$root/test/fault/plants.sh" ${green:+--green} "$@"
fi
if [ $# -eq 0 ]; then
    for patch in "$root"/test/fault/plants/*.patch; do
        set -- "$@" "$(basename "$patch" .patch)"
    done
fi

copy=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-plants.XXXXXX")
trap 'rm -rf "$copy"' EXIT
trap 'exit 143' TERM INT HUP

# Only what a plant changed is built again.
for part in Makefile src include lua migrations config test scripts build build-fault .cache .git; do
    [ ! -e "$root/$part" ] || cp -a "$root/$part" "$copy/"
done
build() {
    (cd "$copy" && make -j2 tests && make faults) >"$copy/make.log" 2>&1 || {
        tail -n 20 "$copy/make.log"
        echo "plants: $1 doesn't compile"
        exit 2
    }
}
run_test() {
    case $1 in
    *.sh*) (cd "$copy" && eval "sh $1") ;; # with its arguments
    *) (cd "$copy" && "build/test/$1") ;;
    esac >"$copy/test.log" 2>&1 </dev/null
}

missed=0
for name in "$@"; do
    patch=$root/test/fault/plants/$name.patch
    test=$(sed -n 's/^Caught by: //p' "$patch" | head -n 1)
    if [ -n "$green" ]; then
        build 'the tree as it is'
        run_test "$test" || {
            tail -n 20 "$copy/test.log"
            echo "plants: $test is red as it is"
            exit 2
        }
    fi
    (cd "$copy" && patch -p1 -s -F 3 --no-backup-if-mismatch) <"$patch"
    build "$name"
    if run_test "$test"; then
        echo "MISSED $name: $test is green"
        missed=$((missed + 1))
    else
        echo "ok $name: caught by $test: $(grep -hE 'FAILED|:[FE]:' "$copy/test.log" | head -n 1 | cut -c 1-200)"
    fi
    (cd "$copy" && patch -p1 -s -R -F 3 --no-backup-if-mismatch) <"$patch"
done
echo "plants: $(($# - missed)) of $# caught"
[ "$missed" -eq 0 ]
