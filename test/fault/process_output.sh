#!/bin/sh
# SPDX-License-Identifier: MIT
# The log can't be written: its disk is full, or full for a while; standard output is closed, or all three streams are; nobody reads the
# pipe it is, or its reader goes away. The lines are lost and counted, and nothing else is.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
begin process_output
seed=${TALLYD_TEST_SEED:-71}
sed -i '$ a log:\n  level: debug' "$work/config.yaml" # a line each batch and each rejection: more than a pipe holds

simulate seeding --seed-db --families 300
labels=
# traffic LABEL: settled while the log can't be written.
traffic() {
    traffic_from=$(ledger_end)
    simulate "$1" --families 300 --rate 1500 --count 3000 --broken 0.2 --seed "$seed"
    seed=$((seed + 1))
    labels="$labels $1"
    await "$1: all is settled" 60 caught_up
    [ "$(ledger_end)" -gt "$traffic_from" ] || die 'nothing was settled'
    kill -0 "$pid" || die 'the daemon is gone'
}
# quiet WHAT: the daemon ends as ever; everything holds.
quiet() {
    kill -s TERM "$pid"
    ended "$1: the daemon" "$pid" 0
    # shellcheck disable=SC2086 # a list of words
    settled_all $labels
}
# started_as REDIRECTED...: the daemon by a shell that redirects its output; sets pid.
started_as() {
    sh -c "exec \"\$@\" $1" sh "$tallyd" run -c "$work/config.yaml" &
    pid=$!
    pids="$pids $pid"
}
# fd N: where the daemon's descriptor N leads.
fd() {
    readlink "/proc/$pid/fd/$1"
}

# A full disk all along. How many lines are lost can be told by nobody, but the daemon goes on.
started_as ">/dev/full 2>'$work/full.err'"
traffic full
assert_eq 'where the log goes' /dev/full "$(fd 1)"
quiet 'disk full'
echo "ok process: disk full for logs: 3000 events settled, exit code 0"

# A disk with little room, and more of it later: what is said then tells what is missing.
# shellcheck disable=SC2016 # expanded by the shell that is started
sh -c 'ulimit -S -f 8; exec "$@"' sh "$tallyd" run -c "$work/config.yaml" >"$work/room.log" 2>"$work/room.err" &
pid=$!
pids="$pids $pid"
traffic room
size=$(wc -c <"$work/room.log")
assert_eq 'the size at which the disk was full' 4096 "$size"
prlimit --pid "$pid" --fsize=unlimited:
traffic more_room
quiet 'disk full for a while'
told=$(figure "$work/room.log" log_lines_lost since_start)
[ "$told" -gt 0 ] || die 'no line says how many were lost'
assert_eq 'lost lines by the last line' "$told" "$(figure "$work/room.log" stopped log_lines_lost)"
echo "ok process: disk full for logs for a while: full at $size bytes, $told lines lost, which the first line after it says"

# Closed, as >&- closes it: what is opened next must not take its place and be sent log lines.
started_as "<&- >&- 2>&-"
traffic closed
for n in 0 1 2; do
    assert_eq "descriptor $n, closed at the start" /dev/null "$(fd $n)"
done
quiet 'closed at the start'
echo "ok process: stdout closed: its number and its neighbours' lead to /dev/null, not to a server; 3000 events settled, exit code 0"

# A pipe that nobody reads, until somebody does.
mkfifo "$work/pipe"
exec 7<>"$work/pipe" # opens without waiting for the other side
started_as ">'$work/pipe' 2>'$work/pipe.err' 7>&-"
traffic unread
cat "$work/pipe" >"$work/read.log" 7>&- &
reader=$!
pids="$pids $reader"
exec 7>&-
traffic read_again
quiet 'a pipe nobody reads'
wait "$reader"
told=$(figure "$work/read.log" log_lines_lost since_start)
held=$(sed '/"event":"log_lines_lost"/,$d' "$work/read.log" | wc -c)
[ "$held" -gt $((65536 - 4096)) ] || die "lines were lost when the pipe held $held bytes"
[ "$told" -gt 0 ] || die 'no line says how many were lost'
assert_eq 'lost lines by the last line' "$told" "$(figure "$work/read.log" stopped log_lines_lost)"
echo "ok process: stdout a pipe nobody reads: full with $held bytes, $told lines lost and said when it was read"

# Its reader goes away.
rm "$work/pipe"
mkfifo "$work/pipe"
head -n 2 <"$work/pipe" >"$work/head.log" &
reader=$!
started_as ">'$work/pipe' 2>'$work/pipe.err'"
wait "$reader"
traffic unheard
assert_eq 'lines that were read' 2 "$(wc -l <"$work/head.log")"
quiet 'a reader that goes away'
echo "ok process: a reader that goes away: after 2 lines; 3000 events settled, exit code 0"
