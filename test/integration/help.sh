#!/bin/sh
# SPDX-License-Identifier: MIT
# What the commands say of themselves: a page each, the same by `help COMMAND` and by `COMMAND --help`, whose options exist; the versions.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin help

# answers CODE ARGUMENT...: ends with CODE; an error is one line on stderr and nothing else, an answer the other way round.
answers() {
    answers_code=$1
    shift
    found=0
    "$tallyd" "$@" >"$work/out" 2>"$work/case.err" </dev/null || found=$?
    assert_eq "tallyd $*: exit code" "$answers_code" "$found"
    assert_eq "tallyd $*: lines on stderr" "$((answers_code != 0))" "$(wc -l <"$work/case.err")"
    if [ "$answers_code" = 0 ]; then
        [ -s "$work/out" ] || die "tallyd $*: says nothing"
    else
        [ ! -s "$work/out" ] || die "tallyd $*: has something on standard output"
        grep -qE '^tallyd( [a-z]+)?: [^:]+: .+' "$work/case.err" || die "tallyd $*: the message has another form"
    fi
}

answers 0 help
cp "$work/out" "$work/overview"
answers 0 --help
cmp -s "$work/out" "$work/overview" || die '--help differs from help'
commands=$(sed -n 's/^  tallyd \([a-z]*\) .*/\1/p' "$work/overview")
assert_eq 'commands' 'run migrate check warm audit lag rewind pause resume explain show outbox dlt maintain simulate help version' "$(echo "$commands" | tr '\n' ' ' | sed 's/ $//')"
tried=0
for command in $commands; do
    answers 0 help "$command"
    cp "$work/out" "$work/page"
    grep -q "^tallyd $command" "$work/page" || die "help $command: no usage"
    sed -n '/^Exit codes:/,/^$/p' "$work/page" | grep -q '^  0  done' || die "help $command: no exit codes"
    grep -q '^Example: tallyd ' "$work/page" || die "help $command: no example"
    [ "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' "$work/page")" -le 100 ] || die "help $command: too wide"
    for asked in --help -h; do
        answers 0 "$command" $asked
        cmp -s "$work/out" "$work/page" || die "$command $asked differs from help $command"
    done
    answers 0 "$command" -c no-such-file --help
    # Without -c nothing begins, whatever the option.
    case $command in help | version) continue ;; esac
    grep -oE '^  (-c, )?--[a-z-]+' "$work/page" | grep -oE -e '--[a-z-]+' >"$work/options" || :
    while read -r option; do
        answers 2 "$command" "$option"
        ! grep -q 'is no option' "$work/case.err" || die "$command has no $option"
        tried=$((tried + 1))
    done <"$work/options"
    answers 2 "$command" --no-such-option
done
[ "$tried" -ge 15 ] || die "only $tried options were tried"
answers 2
answers 2 no-such-command
answers 2 help no-such-command
answers 2 help run surplus
answers 2 version surplus
found=0
"$tallyd" help >/dev/full 2>"$work/case.err" || found=$?
assert_eq 'a full disk: exit code' 1 "$found"
grep -q '^tallyd help: standard output: ' "$work/case.err" || die 'a full disk is not told'
answers 0 help metrics
grep -q '^tallyd_events_total (counter, by outcome, code)$' "$work/out" || die 'help metrics: no tallyd_events_total'
metrics=$(grep -cE '^[a-z_]+ \(' "$work/out")
[ "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' "$work/out")" -le 110 ] || die 'help metrics: too wide'
answers 0 help metrics --markdown
# shellcheck disable=SC2016 # backticks of Markdown
assert_eq 'rows of the table in Markdown' "$metrics" "$(grep -cE '^\| `[a-z_]+` \| (counter|gauge|histogram) \|' "$work/out")"
answers 2 help metrics surplus
answers 2 help metrics --markdown surplus
answers 2 help run --markdown

echo "ok help: a page for each command, with $tried options that exist"

answers 0 version
cp "$work/out" "$work/page"
answers 0 --version
cmp -s "$work/out" "$work/page" || die '--version differs from version'
grep -qE '^tallyd [^ ]+$' "$work/out" || die 'no version'
for library in librdkafka hiredis libmariadb jansson libyaml; do
    grep -qE "$library [0-9]+\.[0-9.]+" "$work/out" || die "no version of $library"
done
echo 'ok help: the versions, of the libraries too'
