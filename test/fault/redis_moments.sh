#!/bin/sh
# SPDX-License-Identifier: MIT
# Redis' faults at exact moments, by fault points: a pipeline not sent, sent and its replies lost, the daemon stopped between any two
# steps while Redis loses data, scripts or connections, and killed there. Last an old dump whose generation is right again, with the
# mark of an alert whose decision was dropped.
set -eu
session_timeout_ms=2000 # how long a dead one's partitions wait
workers=1
rate=600
TALLYD_BIN=${TALLYD_FAULT_BIN:-$(cd "$(dirname "$0")/../.." && pwd)/build-fault/tallyd}
export session_timeout_ms TALLYD_BIN
# shellcheck source=test/fault/lib_redis.sh
. "$(dirname "$0")/lib_redis.sh"
redis_begin redis_moments
[ "$("$tallyd" --help >/dev/null 2>&1 && grep -c 'TALLYD_FAULT_LOG' "$tallyd")" -gt 0 ] || die "$tallyd has no fault points: make faults"

# faulty LABEL FAULTS: a daemon with these; what fires is listed in $fired.
faulty() {
    fired=$work/$1.fired
    : >"$fired"
    daemon "daemon-$1" env TALLYD_FAULT="$2" TALLYD_FAULT_LOG="$fired"
}

count_fired() { wc -l <"$fired"; }
all_fired() { [ "$(count_fired)" -ge "$1" ]; }

# stopped N: the daemon has stopped itself, at the Nth point that fired.
stopped() {
    all_fired "$1" && [ "$(state_of "$daemon")" = T ]
}

# spread POINT ACTION HIT…: that action at each of the hits.
spread() {
    spread_point=$1 spread_action=$2
    shift 2
    for spread_hit; do
        printf '%s@%s:%s;' "$spread_point" "$spread_hit" "$spread_action"
    done
}

# ---- pipelines that fail ----------------------------------------------------------------------------------------------
faulty failing "$(spread worker.redis_send fail 25 67 109)$(spread worker.redis_collect fail 35 77 119)$(
    spread worker.redis_collect after 45 87 129
)"
traffic failing
until all_fired 9; do
    redis FLUSHALL >/dev/null
    flows_on 60
done
calm
told 'pipelines not sent, and replies lost' "$(grep -c send "$fired") and $(grep -c collect "$fired") times, $agreed figures in Redis agree"
daemon_ends

# ---- stopped between two steps ----------------------------------------------------------------------------------------
faulty stopping 'decide.run@20:stop;worker.redis_send@60:stop;worker.redis_collect@80:stop;decide.ran@50:stop;warm.read@2:stop;warm.write@3:stop;warm.written@4:stop;decide.run@80:stop'
traffic_on stopping
n=0
while [ "$n" -lt 8 ]; do
    n=$((n + 1))
    await "it stops itself for the $n. time" 60 stopped "$n"
    case $((n % 3)) in
    0) redis FLUSHALL >/dev/null ;;
    1)
        redis FLUSHALL >/dev/null
        redis SCRIPT FLUSH >/dev/null
        ;;
    2) redis CLIENT KILL TYPE normal >/dev/null ;;
    esac
    kill -s CONT "$daemon"
done
flows_on 100
calm
told 'stopped between two steps' "$n times, while data, scripts or connections went; $agreed figures in Redis agree"
daemon_ends

# ---- killed between two steps -----------------------------------------------------------------------------------------
kills=0
for point in worker.redis_send@60 worker.redis_collect@60 warm.written@2; do
    faulty "killed$kills" "$point:kill"
    if [ "$kills" = 0 ]; then
        traffic_on killing
    fi
    while kill -0 "$daemon" 2>/dev/null; do
        redis EVAL "local k = redis.call('RANDOMKEY') return k and redis.call('DEL', k)" 0 >/dev/null
        sleep 0.05
    done
    ended "killed at $point" "$daemon" 137
    all_fired 1 || die "$point wasn't reached"
    kills=$((kills + 1))
done
daemon daemon-after_kills
calm
told 'killed between two steps' "$kills times, $agreed figures in Redis agree"
daemon_ends

# ---- an old dump that is right again ----------------------------------------------------------------------------------
# event ID BYTES: of the one customer of a family with 1000 bytes a month.
event() {
    printf '9000001|{"eventId":"%s","eventType":"DATA_USAGE","payload":{"familyId":9000001,"customerId":90000011,"bytesUsed":%s}}\n' "$1" "$2" |
        kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -K '|' -X topic.partitioner=murmur2_random
}
total_is() { sql "UPDATE family_quota SET total_quota_bytes = $1 WHERE family_id = 9000001"; }
told_by() { sql "SELECT alert, event_id FROM alert_state WHERE family_id = 9000001" | tr '\t' ' '; }

sql "INSERT INTO family (family_id, name) VALUES (9000001, 'F');
     INSERT INTO family_member (family_id, customer_id) VALUES (9000001, 90000011);
     INSERT INTO family_quota (family_id, quota_month, total_quota_bytes, used_bytes, delta_bytes, rev)
        VALUES (9000001, DATE_FORMAT(UTC_TIMESTAMP() + INTERVAL 9 HOUR, '%Y-%m-01'), 1000, 0, 0, 0)"
faulty marks 'decide.ran@3:stop' # after the cold try and the warm one of the first event
event dump-0 10
await 'the first event is settled' 60 caught_up
event dump-1 500
await 'the second is decided' 60 stopped 1
redis SAVE >/dev/null
mv "$redis_dir/dump.rdb" "$work/marks.rdb"
total_is 10000
kill -s CONT "$daemon"
await 'it is settled' 60 caught_up
assert_eq 'alerts of a tenth used' '' "$(told_by)"
total_is 1000
redis_stop
cp "$work/marks.rdb" "$redis_dir/dump.rdb"
redis_start
await 'Redis has loaded the dump' 60 loaded
[ -n "$(redis KEYS 'family:9000001:customer:90000011:alert:THRESHOLD:50:*')" ] || die "the dump hasn't the mark"
event dump-1 500
event dump-2 10
await 'all is settled' 60 caught_up
daemon_ends
assert_eq 'alerts, and by which event' 'THRESHOLD:50 dump-2' "$(told_by)"
assert_eq 'settlements that came back' 1 "$(figure "$log" stopped came_back)"
assert_eq 'used' 520 "$(sql 'SELECT used_bytes FROM family_quota WHERE family_id = 9000001')"
promises_hold
alerts_published
echo "ok redis: an old dump that is right again: its figures hold, its mark of a dropped decision counts for nothing: told by the next event"
