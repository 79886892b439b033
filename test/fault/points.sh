#!/bin/sh
# SPDX-License-Identifier: MIT
# The sweep: at every fault point of the test build (`make faults`) the daemon is killed, or what it does there fails, and another
# start settles the rest. After each round every promise holds, and everything is what the reference model says.
#
#   points.sh [--action kill|fail|after|stop|delay|all] [--hits 'N ...'] [--only REGEX] [--together N] [--sample N] [--seed S] [--workload SEED] [--list]
#
#   --action   kill (default); fail: every statement by 2013, 1213 and 1205, everything else that can fail by what it can;
#              after: done, and reported as failed; stop: stopped, and woken when a second daemon has settled everything;
#              delay: 300 ms; all: each of them
#   --hits     which times the point is reached (1 10), where it's reached that often
#   --only     the points whose name matches, an extended regular expression
#   --together where the daemon goes on, so many points of one deed in a round (8)
#   --sample   so many of the rounds, drawn by --seed (default: the date's, so that it rotates; it's printed)
#   --workload which of the model's runs is delivered
#   --list     the rounds, without running them
#
# A first run without a fault counts how often each point is reached; the points must be those of points.txt. A round whose point
# didn't fire fails. Failed rounds leave their logs in a folder, and don't stop the others.
set -eu

action=kill hits='1 10' only=. together=8 workload=5 sample='' seed=$(date +%Y%j%H) list=''
while [ $# -gt 0 ]; do
    case $1 in
    --list) list=1 ;;
    --action | --hits | --only | --together | --sample | --seed | --workload)
        [ $# -gt 1 ] || { echo "points.sh: $1 needs a value" >&2 && exit 2; }
        case $1 in
        --action) action=$2 ;;
        --hits) hits=$2 ;;
        --only) only=$2 ;;
        --together) together=$2 ;;
        --sample) sample=$2 ;;
        --seed) seed=$2 ;;
        --workload) workload=$2 ;;
        esac
        shift
        ;;
    *) sed -n 's/^#   points/usage: points/p' "$0" >&2 && exit 2 ;;
    esac
    shift
done
case $action in
kill | fail | after | stop | delay) actions=$action ;;
all) actions='kill fail after stop delay' ;;
*) echo "points.sh: no such action: $action" >&2 && exit 2 ;;
esac

here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${KAFKA_BROKERS:-}" ]; then
    exec sh "$here/../../scripts/with-stack.sh" -- sh "$0" --action "$action" --hits "$hits" --only "$only" --together "$together" ${sample:+--sample "$sample"} \
        --seed "$seed" --workload "$workload" ${list:+--list}
fi
: "${TALLYD_BIN:=$here/../../build-fault/tallyd}"
# shellcheck source=test/integration/lib.sh
. "$here/../integration/lib.sh"
model=$build/test/model
# The dead one's partitions wait for a second. Its alerts' leases are cut short instead, except where it only sleeps.
# shellcheck disable=SC2034 # lib.sh's
session_timeout_ms=1000 message_timeout_ms=1000 lease_ms=7000

# Faults of every run, without which some points are never reached: a claim that is taken back, a COMMIT whose reply is lost, a
# publication that goes again by the sweep.
STEADY='worker.commit@1:fail=1205;relay.commit@2:fail=1205;settler.commit@2:after;settler.commit@4:after;settler.commit@6:after;relay.produce@2:fail'
# So that much is left to do when a second member joins.
SLOW='settler.taken@*:delay=150'

# ---- what all rounds have in common -----------------------------------------------------------------------------------

ANY_TIME='retention.ms=-1 message.timestamp.after.max.ms=9223372036854775807' # of records
OWNED='customer_quota usage_record usage_block alert_state usage_event_outbox consumer_ledger maintenance disturbed'
OTHERS='family family_member policy_assignment family_quota'

configure_round() {
    configure "$work/config.yaml" 'batch:
  max_events: 15
maintain:
  interval_ms: 100
log:
  level: debug'
    sed -i 's/sweep_interval_ms: .*/sweep_interval_ms: 100/; s/interval_ms: 100$/interval_ms: 20/
        /^mysql:/a\  session_wait_timeout_ms: 3000' "$work/config.yaml"
}

# One run of the reference model's: families, rules and events of every kind, all on the topic before the first start.
make_workload() {
    "$model" make "$work/run" --seed "$workload" --phases 1 --partitions "$partitions" --families 30 --events 500 >"$work/make.log" ||
        die "model make: exit code $?"
    sql <"$work/run/population.sql"
    "$ktool" topic-delete "$usage_topic"
    # shellcheck disable=SC2086 # several settings
    "$ktool" topic-create "$usage_topic" "$partitions" $ANY_TIME
    "$model" produce "$work/run" 0 "$usage_topic" >"$work/produce.log" || die "model produce: exit code $?"
    end=$(topic_end)
    # Now and then somebody moves a total between a decision and its settlement, which has to notice; and once the database
    # refuses what it takes when asked again. With the settlement this is undone, but not the note that it happened.
    sql <<'SQL'
CREATE TABLE disturbed (place BIGINT PRIMARY KEY) ENGINE=MyISAM;
DELIMITER //
CREATE TRIGGER disturb AFTER INSERT ON usage_record FOR EACH ROW BEGIN
    DECLARE here BIGINT DEFAULT NEW.partition_id * 1000 + NEW.record_offset DIV 70;
    IF NOT EXISTS (SELECT 1 FROM disturbed WHERE place = here) THEN
        INSERT INTO disturbed VALUES (here);
        IF here = 1 THEN SIGNAL SQLSTATE '22003' SET MYSQL_ERRNO = 1264; END IF;
        UPDATE family_quota SET total_quota_bytes = total_quota_bytes + 1 WHERE family_id = NEW.family_id AND quota_month = NEW.quota_month;
    END IF;
END //
DELIMITER ;
SQL
    for common_table in $OTHERS; do
        sql "CREATE TABLE keep_$common_table LIKE $common_table; INSERT INTO keep_$common_table SELECT * FROM $common_table"
    done
}

# Tables, Redis and topics as they were before the first start, and a group of its own. The usage events stay.
fresh() {
    {
        echo 'SET foreign_key_checks = 0;'
        for fresh_table in $OWNED; do echo "DELETE FROM $fresh_table;"; done
        for fresh_table in $OTHERS; do echo "DELETE FROM $fresh_table; INSERT INTO $fresh_table SELECT * FROM keep_$fresh_table;"; done
    } | sql
    redis FLUSHALL >/dev/null
    group=points-$$-$1 notification_topic=points-$$-$1.notification dlt_topic=points-$$-$1.DLT
    "$ktool" topic-create "$notification_topic" "$partitions" retention.ms=-1
    # shellcheck disable=SC2086 # several settings
    "$ktool" topic-create "$dlt_topic" "$partitions" $ANY_TIME
    configure_round
    rm -f "$work"/before.* "$work"/first.* "$work"/second.* "$work/fired"
}

settled() {
    [ "$(sql "SELECT
        (SELECT COALESCE(SUM(next_offset), 0) FROM consumer_ledger WHERE group_id = '$group'),
        (SELECT COUNT(*) FROM usage_event_outbox WHERE status <> 'SENT')")" = "$end	0" ]
}

# gone PID: ended, though nobody has waited for it.
gone() {
    case $(state_of "$1") in
    '' | Z) return 0 ;;
    *) return 1 ;;
    esac
}

second_start() {
    launch second "$tallyd" run -c "$work/config.yaml"
    second=$launched
}

# A second member joins in the middle of the work.
some_settled() {
    [ "$(sql "SELECT COALESCE(SUM(next_offset), 0) FROM consumer_ledger WHERE group_id = '$group'")" -gt $((end / 3)) ]
}
second_joins() {
    await 'some of it is settled' 30 some_settled
    second_start
}

killed() { # LABEL PID
    code=0
    wait "$2" 2>/dev/null || code=$?
    assert_eq "$1: exit code" 137 "$code"
}

stop() { # LABEL PID
    kill -s TERM "$2"
    ended "$1" "$2" 0
}

judge() {
    # what Kafka holds as committed is settled
    assert_eq 'partitions committed further than the ledger' '' "$(cat "$work"/before.log "$work"/first.log "$work"/second.log 2>/dev/null |
        jq -cR 'fromjson? | select(.event == "partition_opened" and .committed_offset > .ledger_next_offset)')"
    "$model" check "$work/run" --group "$group" --usage-topic "$usage_topic" --notification-topic "$notification_topic" \
        --dlt-topic "$dlt_topic" --crashes --cache >"$work/check.log" 2>&1 || die "the model and what is there differ:
$(cat "$work/check.log")"
}

# ---- a round ----------------------------------------------------------------------------------------------------------

# Of a round: plan, its faults as POINT@HIT:DEED with blanks between; need, what points.txt says that they need.
fired() {
    for fired_fault in $plan; do
        fired_line=$(echo "$fired_fault" | tr '@:' '  ')
        grep -qsxF "${fired_line%%=*}" "$work/fired" || return 1
    done
}

launch_first() { # PLAN
    launch first env TALLYD_FAULT="$1" TALLYD_FAULT_LOG="$work/fired" TALLYD_FAULT_COUNTS="$work/counts" "$tallyd" run -c "$work/config.yaml"
    first=$launched
}

first_start() {
    second=
    first_plan="$(echo "$plan" | tr ' ' ';');$STEADY"
    case $need in
    joined)
        launch_first "$first_plan;$SLOW"
        second_joins
        ;;
    resumed)
        leave_off
        launch_first "$first_plan"
        ;;
    *) launch_first "$first_plan" ;;
    esac
}

# One before has begun the work, and died.
leave_off() {
    launch before env TALLYD_FAULT='settler.committed@7:kill' "$tallyd" run -c "$work/config.yaml"
    killed 'the one before' "$launched"
    cut_leases
}

killed_or_settled() { fired || gone "$first" || settled; }
fired_or_settled() { fired || settled; }
ended_or_settled() { gone "$first" || settled; }
stopped() { [ "$(state_of "$first")" = T ]; }

settle_with_second() {
    [ -n "$second" ] || second_start
    await 'the second reads' 60 opened "$work/second.log" # nothing may be left to settle
    await 'the second has settled everything' 60 settled
}

# Killed, and another takes over.
round_kill() {
    await 'the fault or the end' 60 killed_or_settled
    fired || gone "$first" || kill -s TERM "$first" # for the points of shutting down
    killed 'the first' "$first"
    cut_leases
    settle_with_second
    stop 'the second' "$second"
}

# Goes on by itself; only a start may be given up.
round_fail() {
    await 'the end' 60 ended_or_settled
    case $need in
    start)
        code=0
        wait "$first" || code=$?
        case $code in
        5 | 6 | 7) ;;
        *) die "the start was given up with exit code $code" ;;
        esac
        settle_with_second
        ;;
    *) stop 'the first' "$first" ;;
    esac
    [ -z "$second" ] || stop 'the second' "$second"
}

# Stopped, as by a long pause of its machine; woken when another has settled everything it had in hand.
round_stop() {
    await 'the fault or the end' 60 fired_or_settled
    fired || kill -s TERM "$first"
    await 'the first is stopped' 30 stopped
    settle_with_second
    kill -s CONT "$first"
    # what it had in hand it still tries to write
    kill -s TERM "$first"
    code=0
    wait "$first" || code=$?
    case $code in
    0 | 143) ;; # 143: it was shutting down already
    *) die "the woken one ended with $code" ;;
    esac
    await 'all is settled' 60 settled
    stop 'the second' "$second"
}

# one_round NUMBER NEED FAULT...
one_round() {
    need=$2
    fresh "$1"
    shift 2
    plan=$*
    trap 'kill_mine' EXIT
    first_start
    case $plan in
    *:kill) round_kill ;;
    *:stop) round_stop ;;
    *) round_fail ;;
    esac
    fired || die "not all of $plan fired: $(cat "$work/fired")"
    judge
}

# A round has a shell of its own, since what fails ends it.
kill_mine() {
    for mine in $pids; do
        kill -s KILL "$mine" 2>/dev/null || :
    done
    "$ktool" topic-delete "$notification_topic" || :
    "$ktool" topic-delete "$dlt_topic" || :
}

# ---- which rounds -----------------------------------------------------------------------------------------------------

# Everything without a fault of the sweep's: once with a second member that joins while the first has work, once where one before
# has left off. Of a point's counts the higher is taken.
count_points() {
    fresh joined
    launch_first "$STEADY;$SLOW"
    second_joins
    await 'the second reads' 30 opened "$work/second.log"
    count_to_the_end
    stop 'the second' "$second"
    judge
    cat "$work/first.log" "$work/second.log" >"$work/joined.log"
    for count_event in batch_split batch_came_back outbox_swept partitions_revoked; do
        grep -q "\"event\":\"$count_event\"" "$work/joined.log" || die "$count_event never happened"
    done
    fresh resumed
    leave_off
    launch_first "$STEADY"
    count_to_the_end
    judge
    sort -k 1,1 -k 2,2nr "$work"/counted.* | awk '$1 != last { print } { last = $1 }' >"$work/reached"
}
count_to_the_end() {
    await 'all is settled' 60 settled
    stop 'the first' "$first"
    tr -d '\0' <"$work/counts" | grep . >"$work/counted.$group"
}

# What the list, the code and the run know must be the same.
compare_points() {
    grep -v '^#' "$here/points.txt" | cut -d ' ' -f 1 | sort >"$work/listed"
    cut -d ' ' -f 1 "$work/reached" >"$work/names"
    assert_eq 'points of points.txt that are not reached' '' "$(comm -23 "$work/listed" "$work/names")"
    assert_eq 'points that are reached and not in points.txt' '' "$(comm -13 "$work/listed" "$work/names")"
    grep -oh 'fault_at("[^"]*")' "$root"/src/*.c | cut -d '"' -f 2 | sort -u >"$work/coded"
    assert_eq 'points of the code that are not in points.txt' '' "$(comm -23 "$work/coded" "$work/listed")"
}

# NEED FAULT..., one round a line
rounds() {
    grep -v '^#' "$here/points.txt" | awk '{ print $1, $2, $3 ? $3 : $1 ~ /^tallyd/ ? "start" : "-" }' | sort | join - "$work/reached" |
        awk -v only="$only" -v actions="$actions" -v hits="$hits" '
            function deeds(action, kind,    n, list, i, out) {
                if (action == "kill" || action == "stop") return action
                if (action == "delay") return "delay=300"
                if (kind == "sql") return action "=2013 " action "=1213 " action "=1205"
                n = split(kind, list, ",")
                for (i = 1; i <= n; i++)
                    if (action == "fail" && list[i] != "after" && list[i] != "-" || action == list[i]) out = out " " list[i]
                return out
            }
            $1 ~ only {
                for (i = split(actions, action, " "); i > 0; i--)
                    for (k = split(deeds(action[i], $2), deed, " "); k > 0; k--)
                        for (h = split(hits, hit, " "); h > 0; h--)
                            # a run reaches a point a little more or less often than the one before
                            if (hit[h] == 1 || $4 >= hit[h] * 1.2) print deed[k], hit[h], $3, $1
            }' | sort | awk -v together="$together" '
            {
                alone = $3 != "-" || $1 == "kill" || $1 == "stop"
                if (n > 0 && !alone && n < together && $1 == deed && $2 == hit) { printf " " } else { if (NR > 1) print ""; printf $3 " "; n = 0 }
                printf "%s@%s:%s", $4, $2, $1
                n = alone ? 0 : n + 1; deed = $1; hit = $2
            }
            END { if (NR) print "" }'
}

drawn() {
    if [ -n "$sample" ]; then
        awk -v seed="$seed" 'BEGIN { srand(seed) } { print rand() "\t" $0 }' | sort | head -n "$sample" | cut -f 2
    else
        cat
    fi
}

sweep() {
    echo "points: $(wc -l <"$work/reached") reached; $(wc -l <"$work/rounds") rounds${sample:+ drawn by seed $seed}"
    kept=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-points-failed.XXXXXX")
    began=$(date +%s) done=0 failed=0
    while read -r round; do
        done=$((done + 1))
        since=$(date +%s)
        set +e # a condition around it would let it go on after a failure
        # shellcheck disable=SC2086 # NEED FAULT...
        (set -e && one_round $done $round) >"$work/round.out" 2>&1 </dev/null
        code=$?
        set -e
        if [ $code = 0 ]; then
            echo "ok ${round#* } ($(($(date +%s) - since)) s)"
        else
            failed=$((failed + 1))
            echo "FAILED ${round#* }"
            sed 's/^/    /' "$work/round.out"
            mkdir "$kept/$failed"
            cp "$work"/first.* "$work"/second.* "$work/fired" "$work/round.out" "$kept/$failed" 2>/dev/null || :
        fi
    done <"$work/rounds"
    rmdir "$kept" 2>/dev/null || echo "logs: $kept"
    [ "$failed" = 0 ] || die "$failed of $done rounds"
    echo "ok points: $done rounds in $(($(date +%s) - began)) s; every promise holds after each, and all is as the model says"
}

# One function, so that the shell has read all of this before it begins.
main() {
    begin points 2
    configure_round
    make_workload
    count_points
    compare_points
    rounds | drawn >"$work/rounds"
    [ -s "$work/rounds" ] || die 'no rounds'
    if [ -n "$list" ]; then
        cat "$work/rounds"
    else
        sweep
    fi
}

main
