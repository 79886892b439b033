#!/bin/sh
# SPDX-License-Identifier: MIT
# Fills in README's tables that are made from tables in the code, so that neither can say something else:
#
#   readme-tables.sh [--check] [FILE]     README.md by default
#
# What stands between the two lines
#
#   <!-- table: NAME -->
#   <!-- end -->
#
# becomes what `tallyd help NAME --markdown` prints. --check changes nothing, and shows what would. TALLYD_BIN: another binary than
# build/tallyd.
#
# Exit code: 0 done, or as it should be; 1 --check: it differs; 2 a marker without its other, no such table, or no table at all.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
tallyd=${TALLYD_BIN:-$root/${TALLYD_BUILD:-build}/tallyd}
check=
if [ "${1:-}" = --check ]; then
	check=1
	shift
fi
file=${1:-$root/README.md}
work=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-readme.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT HUP

fail() {
	echo "readme-tables: $file: $*" >&2
	exit 2
}

names=$(sed -n 's/^<!-- table: \([a-z-]*\) -->$/\1/p' "$file")
[ -n "$names" ] || fail 'has no table to fill in (<!-- table: NAME --> and <!-- end -->)'
for name in $names; do
	"$tallyd" help "$name" --markdown >"$work/$name" || fail "$name: no such table"
done
awk -v work="$work" '
	/^<!-- table: [a-z-]* -->$/ {
		if (inside) exit code = 1
		print
		inside = 1
		from = work "/" $3
		while ((getline line <from) > 0) print line
		close(from)
	}
	/^<!-- end -->$/ {
		if (!inside) exit code = 1
		inside = 0
	}
	!inside
	END { exit code || inside }' "$file" >"$work/filled" || fail 'a marker without its other'
if [ -n "$check" ]; then
	diff -u "$file" "$work/filled" >"$work/diff" || {
		cat "$work/diff"
		echo "readme-tables: $file differs from what tallyd says; scripts/readme-tables.sh fills it in" >&2
		exit 1
	}
elif ! cmp -s "$file" "$work/filled"; then
	cat "$work/filled" >"$file"
fi
