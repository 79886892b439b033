#!/bin/sh
# SPDX-License-Identifier: MIT
# README's sample from a shell, as README shows it: the event goes in by kcat, the query shows it settled, the notification lies on
# its topic; then the daemon ends on SIGTERM.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin readme_sample
sample=$root/config/quickstart

sql <"$sample/family.sql"
launch tallyd "$tallyd" run -c "$work/config.yaml"
await 'the daemon reads' 20 opened "$work/tallyd.log"

kcat -b "$KAFKA_BROKERS" -P -t "$usage_topic" -k 100042 -X topic.partitioner=murmur2_random <"$sample/event.json"
id=$(jq -r .eventId "$sample/event.json")
settled() {
    [ "$(sql <"$sample/settled.sql" | cut -f 6)" = SENT ]
}
await 'the event is settled and its alert sent' 20 settled
month=$(TZ=Asia/Seoul date +%Y-%m-01)
assert_eq 'the query' "$id 5242880 $month 5242880 5242880 SENT" "$(sql <"$sample/settled.sql" | tr '\t' ' ')"
echo "ok readme_sample: settled"

kcat -b "$KAFKA_BROKERS" -C -t "$notification_topic" -o beginning -c 1 -q -f '%k\t%s\n' >"$work/notification"
assert_eq 'the key' 100042 "$(cut -f 1 "$work/notification")"
assert_eq 'the notification' "$id NOTIFICATION THRESHOLD_ALERT WARNING_50 50 100042 200187" \
    "$(cut -f 2 "$work/notification" | jq -r '[.eventId, .eventType, .payload.type, .payload.data.status, .payload.data.threshold,
        .payload.familyId, .payload.customerId] | join(" ")')"
echo "ok readme_sample: the notification lies on its topic"

kill -s TERM "$launched"
ended 'the daemon' "$launched" 0
assert_eq 'what it says at the end' 'settled 1' "settled $(figure "$work/tallyd.log" stopped settled)"
promises_hold
echo "ok readme_sample: it ended on SIGTERM"
