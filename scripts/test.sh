#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the tests: test.sh [all|unit|short]
#
#   unit   the check suites
#   short  what a sanitizer build runs: the suites, the scenarios with six partitions, and some recovery
#   all    everything (default)
#
# TALLYD_TEST_LANES=N (2): so many at a time, each on a private stack of its own; on an exported stack one.
# TALLYD_TEST_ONLY=REGEX: only those whose names match.
#
# Each test's output goes to a file; a failing one's tail is shown. The last
# line counts: `tallyd: N passed, N failed, N skipped`.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
self=$root/scripts/test.sh
build=${TALLYD_BUILD:-build}

# ---- what there is to run ------------------------------------------------------------------------------------------------

# entry NAME COMMAND...: one that any broker will do for. kafka NAME COMMAND...: one that needs Apache Kafka.
entry() {
	entry_name=$1
	shift
	printf 'any\t%s\t%s\n' "$entry_name" "$*"
}
kafka() {
	kafka_name=$1
	shift
	printf 'kafka\t%s\t%s\n' "$kafka_name" "$*"
}

scenarios() {
	for d in test/scenarios/*/; do
		scenario=$(basename "$d")
		if [ "$1" != short ]; then
			entry "scenario_${scenario}_1" "sh scripts/scenario.sh --partitions 1 $d"
			entry "scenario_${scenario}_one_by_one" "sh scripts/scenario.sh --partitions 6 --batch 1 $d"
		fi
		# delivered, delivered again, and, where the broker knows how, all of it read again from the old offsets
		entry "scenario_${scenario}_6" "sh scripts/scenario.sh --partitions 6 --pass 2x $d"
		kafka "scenario_${scenario}_rewind" "sh scripts/scenario.sh --partitions 6 --pass rewind $d"
	done
}

# Recovery under a sanitizer: there the tests' own tools are of the plain build.
sanitized() {
	for name in behind_the_back flush_redis takeover; do
		kafka "$name" "env TALLYD_BUILD=build TALLYD_BIN=$root/$build/tallyd sh test/integration/$name.sh"
	done
}

# Whether a systemd can be the first process of something here: some machines' root may make no control groups, or mount nothing.
boots() {
	[ "$(id -u)" -eq 0 ] || return 1
	boots_group=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/tallyd-probe-$$
	boots_code=1
	if mkdir "$boots_group" 2>/dev/null; then
		# shellcheck disable=SC2016 # of the shell inside
		sh -c 'echo $$ >"$1/cgroup.procs" && exec unshare --mount --uts --ipc --pid --cgroup --fork sh -c "
			mount --make-rprivate / && mount -t tmpfs tmpfs /mnt && mkdir /mnt/proc /mnt/sys /mnt/groups /mnt/pts &&
			mount -t proc proc /mnt/proc && mount -t sysfs -o ro sysfs /mnt/sys && mount -t cgroup2 cgroup2 /mnt/groups &&
			mount -t devpts -o newinstance,ptmxmode=0666 devpts /mnt/pts && mkdir /mnt/groups/below"' sh "$boots_group" >/dev/null 2>&1 && boots_code=0
		find "$boots_group" -depth -type d -exec rmdir {} + 2>/dev/null || :
	fi
	[ "$boots_code" -eq 0 ] || echo 'left out package_systemd: this machine grants no control groups or mounts' >&2
	return "$boots_code"
}

everything_else() {
	for t in test/fault/*.sh test/integration/*.sh; do
		name=$(basename "$t" .sh)
		[ -e "$t" ] || continue
		case $name in
		lib | lib_* | plants) ;;
		# other rounds, points and seeds with each commit or day; the long forms are in test/README.md
		suite) kafka suite "sh $t --rounds 4 --seed commit" ;;
		points) kafka points "sh $t --sample 8" ;;
		random) kafka random "env TALLYD_TEST_SEEDS=2 sh $t" ;;
		demo) entry demo "sh $t" ;;
		*) kafka "$name" "sh $t" ;;
		esac
	done
	# of these one needs a stack
	for t in test/package/*.sh; do
		name=$(basename "$t" .sh)
		case $name in
		lib | lib_debian | boot) ;;
		systemd) ! boots || kafka "package_$name" "sh $t" ;;
		fresh_debian) [ "$(id -u)" -ne 0 ] || entry "package_$name" "sh $t" ;;
		*) entry "package_$name" "sh $t" ;;
		esac
	done
	kafka probe_kafka "$build/test/probe_kafka"
}

# The long ones first, so that the lanes end together.
plan() {
	[ "$1" != all ] || everything_else
	[ "$1" != short ] || sanitized
	[ "$1" = unit ] || scenarios "$1"
	for t in test/unit/test_*.c; do
		name=$(basename "$t" .c)
		entry "$name" "$build/test/$name"
	done
}

# ---- a lane: takes one after the other from the queue ---------------------------------------------------------------------

# Takes the queue's first line off it. Fails when there is none.
take() {
	(
		flock 9
		[ -s "$1/queue" ] || exit 1
		head -n 1 "$1/queue"
		sed -i 1d "$1/queue"
	) 9>"$1/lock"
}

# tell RESULT NAME [TEXT]: whole lines, whatever the other lanes print.
tell() {
	(
		flock 9
		echo "$1 $2" >>"$dir/results"
		case $1 in
		failed)
			printf 'FAILED %s\n' "$2"
			tail -n 60 "$dir/$2.log" | sed 's/^/    /'
			;;
		skipped) printf 'skipped %-23s      needs Apache Kafka\n' "$2" ;;
		*) printf 'ok %-28s %s\n' "$2" "$3" ;;
		esac
	) 9>>"$dir/lock"
}

run_one() {
	run_start=$(date +%s)
	# shellcheck disable=SC2086 # a command and its arguments
	if $2 >"$dir/$1.log" 2>&1 </dev/null; then
		# what a person wants to see of it: the suite's count, the scenario's line, a measured figure
		run_summary=$(grep -hE '^(100%:|ok |throughput)' "$dir/$1.log" | tail -n 1)
		tell passed "$1" "$(printf '%3ss  %s' "$(($(date +%s) - run_start))" "$run_summary")"
	else
		tell failed "$1"
	fi
}

lane() {
	dir=$1
	echo "broker: $BROKER_KIND" >>"$dir/brokers"
	while line=$(take "$dir"); do
		needs=$(echo "$line" | cut -f 1)
		name=$(echo "$line" | cut -f 2)
		if [ "$needs" = kafka ] && [ "$BROKER_KIND" = embedded-broker ]; then
			tell skipped "$name"
		else
			run_one "$name" "$(echo "$line" | cut -f 3)"
		fi
	done
}

if [ "${1:-}" = --lane ]; then
	lane "$2"
	exit 0
fi

# ---- all of it -----------------------------------------------------------------------------------------------------------

dir=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-test.XXXXXX") || exit 1
plan "${1:-all}" | awk -F '\t' -v only="${TALLYD_TEST_ONLY:-}" '$2 ~ only' >"$dir/queue"
total=$(wc -l <"$dir/queue")
: >"$dir/results"
lanes=
stop_lanes() {
	trap '' INT TERM
	for pid in $lanes; do
		kill -s TERM "$pid" 2>/dev/null
	done
	wait
	exit 1
}
trap stop_lanes INT TERM

if [ -n "${BROKER_KIND:-}" ]; then
	TALLYD_BUILD=$build sh "$self" --lane "$dir" &
	lanes=$!
else
	for number in $(seq "${TALLYD_TEST_LANES:-2}"); do
		# The stack's own tools are of the plain build, whatever build is tested.
		TALLYD_BUILD=build sh scripts/with-stack.sh --kafka-partitions 6 -- env TALLYD_BUILD="$build" sh "$self" --lane "$dir" \
			2>"$dir/lane-$number.err" &
		lanes="$lanes $!"
	done
fi
for pid in $lanes; do
	wait "$pid"
done
cat "$dir"/lane-*.err >&2 2>/dev/null
sort -u "$dir/brokers" 2>/dev/null

count() { grep -c "^$1 " "$dir/results"; }
passed=$(count passed) failed=$(count failed) skipped=$(count skipped)
# what never came to its end, since its lane's stack didn't come up or broke
missing=$((total - passed - failed - skipped))
[ "$missing" -eq 0 ] || echo "$missing of $total tests didn't run"
echo "tallyd: $passed passed, $((failed + missing)) failed, $skipped skipped"
if [ $((failed + missing)) -ne 0 ] || [ "$total" -eq 0 ]; then
	echo "logs: $dir"
	exit 1
fi
rm -rf "$dir"
# where Apache Kafka is required nothing may be left out
[ "$skipped" -eq 0 ] || [ "${TALLYD_REQUIRE_KAFKA:-}" != 1 ]
