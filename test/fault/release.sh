#!/bin/sh
# SPDX-License-Identifier: MIT
# A build for operators holds no fault points; the test build does, else this would find nothing in either.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
release=${1:-$root/build/tallyd} faults=${2:-$root/build-fault/tallyd}

points() {
    strings -a "$1" | grep -cE 'TALLYD_FAULT|fault point|^(worker|settler|relay|dlt|warm|decide|main)\.[a-z_]{3,}$' || :
}
found=$(points "$faults")
[ "$found" -gt 30 ] || { echo "FAILED release: only $found traces of fault points in the test build" >&2 && exit 1; }
found=$(points "$release")
[ "$found" = 0 ] || { echo "FAILED release: $found traces of fault points in $release" >&2 && exit 1; }
echo 'ok release: no fault points in it'
