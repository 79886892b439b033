#!/bin/sh
# SPDX-License-Identifier: MIT
# README's tables are what the code says: scripts/readme-tables.sh fills them in, and sees when they differ.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-readme-tables.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT HUP

die() {
    echo "FAILED readme_tables: $*" >&2
    exit 1
}
# tables CODE ARGUMENT...: ends with CODE.
tables() {
    tables_code=$1
    shift
    found=0
    sh "$root/scripts/readme-tables.sh" "$@" >"$work/out" 2>"$work/err" || found=$?
    [ "$found" = "$tables_code" ] || die "readme-tables.sh $*: expected exit code $tables_code, found $found: $(cat "$work/out" "$work/err")"
}

! grep -q "^<!-- table: " "$root/README.md" || tables 0 --check # itself
printf 'before\n\n<!-- table: events -->\nold\n<!-- end -->\nbetween\n<!-- table: events -->\n<!-- end -->\nafter\n' >"$work/some.md"
cp "$work/some.md" "$work/was.md"
tables 1 --check "$work/some.md"
cmp -s "$work/some.md" "$work/was.md" || die '--check changed the file'
grep -q '^-old$' "$work/out" || die '--check does not show what differs'
tables 0 "$work/some.md"
tables 0 --check "$work/some.md"
[ "$(grep -c '^| .started. | info | ' "$work/some.md")" = 2 ] || die 'not both tables were filled in'
[ "$(grep -cxE 'before|between|after|<!-- table: events -->|<!-- end -->' "$work/some.md")" = 7 ] || die 'what stands around the tables changed'
! grep -q '^old$' "$work/some.md" || die 'what stood there before is there still'
cp "$work/some.md" "$work/was.md"
tables 0 "$work/some.md"
cmp -s "$work/some.md" "$work/was.md" || die 'a second time changed the file'
# Each row has as many cells as the heading.
awk -F '|' '/^\|/ { if (NF != 7) { print "cells: " $0; bad = 1 } } END { exit bad }' "$work/some.md" >"$work/cells" || die "$(cat "$work/cells")"

printf 'nothing\n' >"$work/none.md"
tables 2 --check "$work/none.md"
printf '<!-- table: events -->\n' >"$work/open.md"
tables 2 "$work/open.md"
printf '<!-- table: events -->\n<!-- table: events -->\n<!-- end -->\n' >"$work/nested.md"
tables 2 "$work/nested.md"
printf '<!-- end -->\n<!-- table: events -->\n<!-- end -->\n' >"$work/early.md"
tables 2 "$work/early.md"
printf '<!-- table: no-such -->\n<!-- end -->\n' >"$work/unknown.md"
tables 2 "$work/unknown.md"
grep -q 'no-such: no such table' "$work/err" || die 'an unknown table is not named'
echo 'ok readme_tables: filled in, seen when they differ, and README has what the code says'
