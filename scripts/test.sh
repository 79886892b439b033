#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the tests on a private stack: test.sh [all|unit|short]
#
#   unit   the check suites
#   short  what a sanitizer build runs: the suites, the scenarios with six partitions, and some recovery
#   all    everything (default)
#
# Each test's output goes to a file; a failing one's tail is shown. The last
# line counts: `tallyd: N passed, N failed, N skipped`.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
what=${1:-all}
build=${TALLYD_BUILD:-build}
export TALLYD_BUILD="$build"

# The stack's own tools are of the plain build, whatever build is tested.
if [ -z "${BROKER_KIND:-}" ]; then
	TALLYD_BUILD=build exec sh scripts/with-stack.sh --kafka-partitions 6 -- env TALLYD_BUILD="$build" sh "$0" "$what"
fi

logs=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-test.XXXXXX") || exit 1
passed=0 failed=0 skipped=0
echo "broker: $BROKER_KIND"

# run NAME COMMAND…: one test
run() {
	name=$1
	shift
	start=$(date +%s)
	if "$@" >"$logs/$name.log" 2>&1; then
		passed=$((passed + 1))
		# what a person wants to see of it: the suite's count, the scenario's line, a measured figure
		summary=$(grep -hE '^(100%:|ok |throughput)' "$logs/$name.log" | tail -n 1)
		printf 'ok %-28s %3ss  %s\n' "$name" "$(($(date +%s) - start))" "$summary"
	else
		failed=$((failed + 1))
		printf 'FAILED %s\n' "$name"
		tail -n 60 "$logs/$name.log" | sed 's/^/    /'
	fi
}

# skip NAME: counted and named; CI's stack is Apache Kafka, where nothing is skipped
skip() {
	skipped=$((skipped + 1))
	printf 'skipped %-23s      needs Apache Kafka\n' "$1"
}
embedded() { [ "$BROKER_KIND" = embedded-broker ]; }

for t in test/unit/test_*.c; do
	name=$(basename "$t" .c)
	run "$name" "$build/test/$name"
done
if [ "$what" != unit ]; then
	for d in test/scenarios/*/; do
		scenario=$(basename "$d")
		if [ "$what" != short ]; then
			run "scenario_${scenario}_1" sh scripts/scenario.sh --partitions 1 "$d"
			run "scenario_${scenario}_one_by_one" sh scripts/scenario.sh --partitions 6 --batch 1 "$d"
		fi
		# delivered, delivered again, and all of it read again from the old offsets
		if embedded; then
			skip "scenario_${scenario}_rewind"
			run "scenario_${scenario}_6" sh scripts/scenario.sh --partitions 6 --pass 2x "$d"
		else
			run "scenario_${scenario}_6" sh scripts/scenario.sh --partitions 6 --pass 2x --pass rewind "$d"
		fi
	done
fi
# Recovery under a sanitizer: there the tests' own tools are of the plain build.
if [ "$what" = short ]; then
	for name in behind_the_back flush_redis takeover; do
		run "$name" env TALLYD_BUILD=build TALLYD_BIN="$root/$build/tallyd" sh "test/integration/$name.sh"
	done
fi
if [ "$what" = all ]; then
	if embedded; then skip probe_kafka; else run probe_kafka "$build/test/probe_kafka"; fi
	for t in test/integration/*.sh; do
		name=$(basename "$t" .sh)
		case $name in
		lib) ;;
		demo) run demo sh "$t" ;;
		*) if embedded; then skip "$name"; else run "$name" sh "$t"; fi ;;
		esac
	done
fi

if [ "$failed" -eq 0 ]; then
	rm -rf "$logs"
else
	echo "logs: $logs"
fi
echo "tallyd: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] || exit 1
# where Apache Kafka is required nothing may be left out
[ "$skipped" -eq 0 ] || [ "${TALLYD_REQUIRE_KAFKA:-}" != 1 ]
