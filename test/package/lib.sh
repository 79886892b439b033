# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# For the tests of what is installed. They need no stack.
#
# begin NAME sets root, tallyd, build and work, a folder that goes at the end.

die() {
    echo "FAILED $test_name: $*" >&2
    exit 1
}

# assert_eq WHAT EXPECTED FOUND
assert_eq() {
    [ "$2" = "$3" ] || die "$1: expected '$2', found '$3'"
}

# needs COMMAND...: they come with scripts/deps.sh test.
needs() {
    for needs_command in "$@"; do
        command -v "$needs_command" >/dev/null 2>&1 || die "$needs_command is missing: run scripts/deps.sh test"
    done
}

begin() {
    test_name=$1
    root=$(cd "$(dirname "$0")/../.." && pwd)
    cd "$root" || exit 1
    build=${TALLYD_BUILD:-build}
    # shellcheck disable=SC2034 # for the tests
    tallyd=$root/$build/tallyd
    [ -x "$tallyd" ] || die "$tallyd isn't built: run make"
    work=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-$1.XXXXXX") || exit 1
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' INT TERM HUP
}

# own_make ARGUMENT...: make with nothing of the one around it, whose stage is the test's own.
own_make() {
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u DESTDIR -u PREFIX make --no-print-directory BUILD="$build" STAGE="$work/stage" "$@"
}
