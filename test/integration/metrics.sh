#!/bin/sh
# SPDX-License-Identifier: MIT
# /metrics after a run holds what MySQL and the topics hold: ends by code, decisions, alerts, letters, notifications, and as many
# measurements as there were events. Prometheus' own tool finds nothing to say against it.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin metrics

# value METRIC: the figure of a line of the page, named as it stands there; nothing when there is no such line.
value() {
    awk -v name="$1" 'substr($0, 1, length(name) + 1) == name " " { print $NF }' "$work/page"
}

# sum NAME: over all its labels.
sum() {
    awk -F '[{ ]' -v name="$1" '$1 == name { sum += $NF } END { print sum + 0 }' "$work/page"
}

# by NAME LABEL: its values that aren't 0, as `LABEL'S VALUE<tab>number`, in order.
by() {
    sed -n "s/^$1{\(.*,\)\{0,1\}$2=\"\([^\"]*\)\".*} \([0-9]*\)\$/\2 \3/p" "$work/page" | awk '$2 { print $1 "\t" $2 }' | LC_ALL=C sort
}

# same WHAT FILE: standard input is what the file holds.
same() {
    cat >"$work/expected"
    cmp -s "$work/expected" "$2" || die "$1: $(diff "$work/expected" "$2" | head -n 6)"
    [ -s "$work/expected" ] || die "$1: there is nothing to compare"
}

simulate first --seed-db --families 60 --count 6000 --rate 100000
launch daemon "$tallyd" run -c "$work/config.yaml"
daemon=$launched
await 'all is settled and told' 90 caught_up
# what is counted follows the commit: the ledger may be read before
counted() {
    http_get daemon /metrics >"$work/page" 2>/dev/null && [ "$(sum tallyd_events_total)" = "$(topic_end)" ] &&
        [ "$(value tallyd_notifications_published_total)" = "$(sql 'SELECT COUNT(*) FROM usage_event_outbox')" ]
}
await 'all is counted' 20 counted

assert_eq 'settled, blocked, duplicate, ignored' \
    "$(sql "SELECT SUM(settled), SUM(blocked), SUM(duplicate), SUM(ignored) FROM consumer_ledger")" \
    "$(for outcome in settled blocked duplicate ignored; do value "tallyd_events_total{outcome=\"$outcome\"}"; done | paste -s)"
records "$dlt_topic" '%h\n' | grep -o 'x-error-code=[A-Z_]*' | cut -d = -f 2 | LC_ALL=C sort | uniq -c |
    awk '{ print $2 "\t" $1 }' >"$work/letters"
by tallyd_events_total code | same 'rejected, by code: on the page and in the DLT' "$work/letters"
by tallyd_dlt_records_total code | same 'letters, by code: on the page and in the DLT' "$work/letters"
[ "$(wc -l <"$work/letters")" -ge 5 ] || die "only $(wc -l <"$work/letters") codes were tried"

sql "SELECT reason, COUNT(*) FROM usage_block GROUP BY 1" | LC_ALL=C sort >"$work/blocks"
by tallyd_decisions_total status | grep -vE '^(NORMAL|WARNING_)' | same 'blocked, by status: on the page and in usage_block' "$work/blocks"
assert_eq 'decisions that allow' "$(sql 'SELECT COUNT(*) FROM usage_record')" \
    "$(by tallyd_decisions_total status | awk -F '\t' '/^(NORMAL|WARNING_)/ { sum += $2 } END { print sum }')"
for threshold in 10 30 50; do
    [ -n "$(value "tallyd_decisions_total{status=\"WARNING_$threshold\"}")" ] || die "WARNING_$threshold isn't shown"
done

# an alert is told under the event that caused it; a mark is a row of alert_state that lies above one told by the same event
sql "SELECT CASE WHEN JSON_VALUE(payload_json, '\$.type') = 'THRESHOLD_ALERT' THEN 'THRESHOLD' ELSE JSON_VALUE(payload_json, '\$.data.status') END,
        COUNT(*) FROM usage_event_outbox GROUP BY 1" | LC_ALL=C sort >"$work/alerts"
by tallyd_alerts_total kind | same 'alerts, by kind: on the page and in the outbox' "$work/alerts"
sql "SELECT kind, COUNT(DISTINCT event_id) FROM (SELECT SUBSTRING_INDEX(alert, ':', 1) kind, event_id FROM alert_state) a GROUP BY 1" |
    LC_ALL=C sort >"$work/states"
by tallyd_alerts_total kind | same 'alerts, by kind: on the page and in alert_state' "$work/states"
assert_eq 'published' "$(sql "SELECT COUNT(*) FROM usage_event_outbox WHERE status = 'SENT'")" "$(value tallyd_notifications_published_total)"
assert_eq 'failed' 0 "$(value tallyd_notifications_failed_total)"

ended=$(sql 'SELECT SUM(settled + blocked) FROM consumer_ledger')
assert_eq 'latencies measured' "$ended" "$(value tallyd_commit_latency_seconds_count)"
assert_eq 'the last bucket' "$ended" "$(value 'tallyd_commit_latency_seconds_bucket{le="+Inf"}')"
assert_eq 'publishing measured' "$(value tallyd_notifications_published_total)" "$(value tallyd_publish_latency_seconds_count)"
assert_eq 'records of all batches' "$(topic_end)" "$(value tallyd_batch_events_sum)"
assert_eq 'transactions and batches' "$(value tallyd_batch_events_count)" "$(value tallyd_transaction_duration_seconds_count)"
for name in tallyd_script_duration_seconds_count 'tallyd_warmups_total{cause="cold"}' 'tallyd_rebalances_total{kind="assigned"}'; do
    [ "$(value "$name")" -gt 0 ] || die "$name is 0"
done
awk -F '[{ ]' '/_bucket{/ { if ($1 == name && $NF < before) { print; exit 1 } name = $1; before = $NF }' "$work/page" ||
    die 'a bucket is less than the one below it'
echo "ok metrics: $(topic_end) records by $(wc -l <"$work/letters") codes, $(wc -l <"$work/blocks") blocks, $(wc -l <"$work/alerts") kinds of alerts"

# Labels' names are the table's, and none of their values is somebody's.
# shellcheck disable=SC2016 # Markdown's backquotes
"$tallyd" help metrics --markdown | sed -n 's/^| `[a-z_]*` | [a-z]* | \(.*\) | .*/\1/p' | tr ',' '\n' | tr -d ' ' | sort -u >"$work/labels"
grep -v '^#' "$work/page" | grep -oE '[a-z_]+="' | tr -d '="' | grep -vx le | sort -u >"$work/shown"
assert_eq 'labels that the table lacks' '' "$(comm -13 "$work/labels" "$work/shown")"
sql "SELECT family_id FROM family UNION SELECT customer_id FROM family_member UNION SELECT event_id FROM usage_record
    UNION SELECT event_id FROM usage_block" | sed 's/.*/"&"/' >"$work/names"
! grep '^tallyd' "$work/page" | grep -v '{partition="' | grep -Ff "$work/names" || die 'a label names somebody'
grep '^# TYPE ' "$work/page" | cut -d ' ' -f 3 | sort >"$work/families"
assert_eq 'metrics that come twice' '' "$(uniq -d "$work/families")"
# shellcheck disable=SC2016 # Markdown's backquotes
"$tallyd" help metrics --markdown | sed -n 's/^| `\([a-z_]*\)`.*/\1/p' | sort | comm -13 - "$work/families" >"$work/foreign"
assert_eq 'metrics that the table lacks' '' "$(cat "$work/foreign")"
if command -v promtool >/dev/null; then
    promtool check metrics <"$work/page" >"$work/promtool" 2>&1 || die "promtool: $(cat "$work/promtool")"
    echo "ok metrics: no label is a customer's, and promtool finds nothing"
else
    echo "ok metrics: no label is a customer's (promtool isn't installed)"
fi

# Redis loses everything: families are cold, and settle all the same.
warm=$(sum tallyd_warmups_total)
redis FLUSHALL >/dev/null
simulate second --families 60 --count 1000 --rate 100000
await 'all is settled and told' 60 caught_up
await 'all is counted' 20 counted
[ "$(sum tallyd_warmups_total)" -gt "$warm" ] || die 'nothing was warmed'
kill -s TERM "$daemon"
ended daemon "$daemon" 0
log=$work/daemon.log
assert_eq 'the last line and the page: settled' "$(value 'tallyd_events_total{outcome="settled"}')" "$(figure "$log" stopped settled)"
assert_eq 'the last line and the page: warmed' "$(sum tallyd_warmups_total)" "$(figure "$log" stopped warmed)"
echo "ok metrics: $(figure "$log" stopped warmed) warm-ups after a flush, and the log agrees"
