#!/bin/sh
# SPDX-License-Identifier: MIT
# The group moves under load: members join and leave again and again while batches are in the settler; a frozen member loses its
# partitions and is woken; a worker that doesn't poll in time loses its own; the topic grows. A process of three members all along.
# shellcheck disable=SC2119 # arguments that may be left out
set -eu
# shellcheck source=test/fault/lib_kafka.sh
. "$(dirname "$0")/lib_kafka.sh"
session_timeout_ms=2000
message_timeout_ms=1000
lease_ms=7000
export session_timeout_ms message_timeout_ms lease_ms
kafka_begin kafka_group
more="  max_poll_interval_ms: 4000
  properties:
    topic.metadata.refresh.interval.ms: 1000"
kafka_configure "$work/config.yaml" "$more" 'workers: 3'
kafka_configure "$work/one.yaml" "$more"
sampling
revoked() { # revoked [lost]: how often partitions were taken from the steady daemon's members
    said_since | jq -r 'select(.event == "partitions_revoked" and .partitions > 0) | .lost' | grep -c "${1:-.}" || :
}

# ---- rebalance in flight -----------------------------------------------------------------------------------------------------

# Each COMMIT takes a while, so that whenever a member comes or goes a batch is in some settler.
daemon_faulty steady 'settler.commit@*:delay=60;worker.revoke@*:delay=1'
steady=$daemon
traffic rebalances --rate 1000
for round in 1 2 3 4; do
    : >"$work/guest.log"
    launch guest "$tallyd" run -c "$work/one.yaml"
    await 'the guest reads' 60 opened "$work/guest.log"
    flows_on 100
    if [ $((round % 2)) = 0 ]; then
        kill -s KILL "$launched"
        wait "$launched" 2>/dev/null || :
    else
        daemon_ends "$launched"
    fi
    flows_on 100
done
quiet
moved=$(revoked)
[ "$moved" -ge 4 ] || die "partitions were taken from the steady members only $moved times"
# a COMMIT was under way when partitions were taken: the two follow one another in the order they fired
in_flight=$(awk '$1 == "worker.revoke" && before == "settler.commit" { n++ } { before = $1 } END { print n + 0 }' "$work/steady.fired")
[ "$in_flight" -ge 2 ] || die "only $in_flight revocations came upon a COMMIT"
told 'rebalance in flight' "a member came and went four times, twice by a kill; partitions moved $moved times, $in_flight times just after a" \
    'COMMIT began'
daemon_ends "$steady"

# ---- assignment lost ---------------------------------------------------------------------------------------------------------------

# what a frozen one has locked in MySQL is free once its connection has been silent for too long
sed -i 's/^mysql:/&\n  session_wait_timeout_ms: 3000\n  lock_wait_timeout_ms: 1000/' "$work/config.yaml" "$work/one.yaml"
daemon frozen
traffic frozen
launch second "$tallyd" run -c "$work/one.yaml"
second=$launched
await 'the other reads' 60 opened "$work/second.log"
flows_on 100
kill -s STOP "$daemon"
all_taken_over() { # the frozen one's members are three
    [ "$(sql "SELECT COUNT(DISTINCT owner) FROM consumer_ledger WHERE topic = '$usage_topic'")" = 1 ]
}
await 'the other has it all' 60 all_taken_over
flows_on 100
kill -s CONT "$daemon"
lost() { # all of them
    [ "$(revoked true)" -ge 3 ]
}
await 'the frozen one notices' 60 lost
flows_on 100
daemon_ends "$second"
flows_on 100
quiet
told 'assignment lost' "three members frozen past their sessions woke; $(revoked true) of their assignments were lost," \
    "$(said_times '"event":"fenced"') batches fenced"
daemon_ends

# ---- poll interval exceeded ----------------------------------------------------------------------------------------------------------

kafka_configure "$work/slow.yaml" '  max_poll_interval_ms: 3000' 'workers: 3'
daemon_faulty slow 'worker.poll@2500:delay=4500' "$work/slow.yaml"
traffic slow
await 'a worker is late' 60 fired slow '^worker.poll .*delay'
await 'the group has thrown it out' 60 said '"lost":true'
flows_on
quiet
said 'MAXPOLL' || said 'aximum' || die 'nothing was said about the interval'
told 'poll interval exceeded' "a worker polled 4.5 s late with 3 s allowed; $(revoked true) assignments were lost"
daemon_ends

# ---- partitions added ------------------------------------------------------------------------------------------------------------------

daemon grows
traffic narrow
"$ktool" topic-grow "$usage_topic" 9
traffic_ends
traffic_on wide # its producer knows of the new ones
wide() { # they have rows, and something was settled in each
    [ "$(sql "SELECT COUNT(*) FROM consumer_ledger WHERE topic = '$usage_topic' AND partition_id >= 6 AND next_offset > 0")" = 3 ]
}
await 'the new partitions are read' 60 wide
flows_on
partitions=9
quiet
assert_eq 'where the new ones begin' 0 "$(sql "SELECT MAX(first_offset) FROM consumer_ledger WHERE topic = '$usage_topic'")"
told 'partitions added' "3 to 6 under load; read from their first record; $(revoked) assignments moved"
daemon_ends
sampling_ends
