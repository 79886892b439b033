#!/bin/sh
# SPDX-License-Identifier: MIT
# The alert rules and the dashboard: promtool takes them, each alert fires when it should and only then (test/data/alerts.yaml),
# is complete, and every metric and label that either names exists.
set -eu
# shellcheck source=test/package/lib.sh
. "$(dirname "$0")/lib.sh"
begin rules
needs promtool jq
rules=config/prometheus/tallyd.rules.yaml
dashboard=config/grafana/tallyd.json
metrics=test/data/metrics.txt

promtool check rules "$rules" >"$work/out" 2>&1 || die "$(cat "$work/out")"
promtool test rules test/data/alerts.yaml >"$work/out" 2>&1 || die "$(cat "$work/out")"
alerts=$(sed -n 's/^      - alert: //p' "$rules")
for alert in $alerts; do
    grep -q "^  - name: \"$alert: fires " test/data/alerts.yaml || die "$alert: no test sees it fire"
    sed -n "/^      - alert: $alert\$/,/^\$/p" "$rules" >"$work/alert"
    for part in '    labels:' '      severity: \(critical\|warning\)$' '      summary: ' '      description: ' \
        "      runbook: README.md#alarm-[a-z-]*\$"; do
        grep -q "^    $part" "$work/alert" || die "$alert lacks '$part'"
    done
done
assert_eq 'alerts told apart' "$(echo "$alerts" | wc -l)" "$(echo "$alerts" | sort -u | wc -l)"
assert_eq 'runbook anchors' "$(echo "$alerts" | wc -l)" "$(grep -o '#alarm-.*' "$rules" | sort -u | wc -l)"
echo "ok rules: $(echo "$alerts" | wc -l) alerts, each seen to fire and to end"

# What people are sent to is there: the log's events, keys of the configuration, commands with their options.
awk '/description: >-/ { inside = 1; next } /runbook:/ { inside = 0 } inside' "$rules" >"$work/texts"
touch "$work/empty.yaml"
"$tallyd" help events >"$work/events"
"$tallyd" check -c "$work/empty.yaml" --print | awk '/^[^ #]/ { section = $1 } { print (/^ / ? section : "") $1 }' | tr -d ':' >"$work/keys"
{ grep -oE '"[a-z]+_[a-z_]+"' "$work/texts" | tr -d '"' && grep -oE '\b[a-z]+_waiting' "$work/texts"; } | sort -u >"$work/named"
[ "$(wc -l <"$work/named")" -ge 5 ] || die "hardly an event is named: $(tr '\n' ' ' <"$work/named")"
while read -r event; do
    grep -qE "(^|[^a-z_])$event([^a-z_]|\$)" "$work/events" || die "the log has no event $event"
done <"$work/named"
grep -oE '\b(kafka|redis|mysql|health|outbox|retry|cache|maintain|shutdown)\.[a-z_]+' "$work/texts" | sort -u >"$work/named"
[ -s "$work/named" ] || die 'no key is named'
while read -r key; do
    grep -qx "$(echo "$key" | tr -d .)" "$work/keys" || die "there is no key $key"
done <"$work/named"
tr '\n' ' ' <"$work/texts" | tr -s ' ' | grep -oE '\btallyd ([a-z]+ )+-c FILE( --[a-z-]+)?' | sort -u >"$work/named"
[ "$(wc -l <"$work/named")" -ge 5 ] || die "hardly a command is named: $(cat "$work/named")"
while read -r _ command rest; do
    "$tallyd" help "$command" >"$work/help" 2>&1 || die "there is no tallyd $command"
    for word in $rest; do
        case $word in
        -c | FILE) ;;
        *) grep -qE -e "(^|[ |])$word([ |]|\$)" "$work/help" || die "tallyd $command has no $word" ;;
        esac
    done
done <"$work/named"
echo 'ok rules: events, keys and commands that the alerts name exist'

# As soon as README has one of the anchors it must have all.
if grep -q 'id="alarm-' README.md; then
    grep -o '#alarm-.*' "$rules" | tr -d '#' | while read -r anchor; do
        grep -q "id=\"$anchor\"" README.md || die "README has no $anchor"
    done
fi

# ---- what exists ---------------------------------------------------------------------------------------------------------

# The list is held against the binary's own table, where it has one.
grep -v '^#' "$metrics" | cut -d ' ' -f 1 | sort >"$work/listed"
if "$tallyd" help metrics >"$work/table" 2>/dev/null; then
    grep -oE '\b(tallyd|process)_[a-z_]+' "$work/table" | sort -u >"$work/known"
    comm -23 "$work/listed" "$work/known" >"$work/gone"
    [ ! -s "$work/gone" ] || die "$metrics lists what tallyd doesn't measure: $(tr '\n' ' ' <"$work/gone")"
fi

# Names and label names that an expression may use; of a histogram its three series.
awk '!/^#/ {
    n = $2 == "histogram" ? split("_bucket _sum _count", ends, " ") : split("-", ends, " ")
    for (i = 1; i <= n; i++) print $1 (ends[i] == "-" ? "" : ends[i]), $3 (ends[i] == "_bucket" ? ",le" : "") ",job,instance"
}' "$metrics" >"$work/names"

# used FILE WHAT: every metric in FILE, an expression a line, and every label in its braces.
used() {
    grep -oE '\b(tallyd|process)_[a-z_]+(\{[^}]*\})?' "$1" | sort -u >"$work/used"
    [ "$(wc -l <"$work/used")" -ge 20 ] || die "$2 uses hardly any metric"
    awk -v names="$work/names" '
        BEGIN { while ((getline line <names) > 0) { split(line, f, " "); labels[f[1]] = "," f[2] "," } }
        {
            name = $0; sub(/\{.*/, "", name)
            if (!(name in labels)) { print name; next }
            rest = substr($0, length(name) + 2)
            while (match(rest, /[a-z_]+ *(=~|!~|!=|=)/)) {
                label = substr(rest, RSTART, RLENGTH); gsub(/[^a-z_]/, "", label)
                if (!index(labels[name], "," label ",")) print name "{" label "}"
                rest = substr(rest, RSTART + RLENGTH); sub(/^ *"[^"]*"/, "", rest)
            }
        }' "$work/used" >"$work/unknown"
    [ ! -s "$work/unknown" ] || die "$2 names what doesn't exist: $(tr '\n' ' ' <"$work/unknown")"
    echo "ok rules: $2: each of $(sed 's/{.*//' "$work/used" | sort -u | wc -l) series exists"
}

# The rules' expressions alone; descriptions may speak of anything.
awk '/^ *[a-z]+:/ { inside = /^ *expr:/ } inside' "$rules" >"$work/exprs"
used "$work/exprs" 'the alert rules'

# ---- the dashboard -------------------------------------------------------------------------------------------------------

jq -e '.schemaVersion >= 36 and .uid == "tallyd" and .id == null
    and (.templating.list | map(select(.type == "datasource")) | length == 1)
    and ([.panels[].id] | length == (unique | length))
    and ([.panels[] | select(.type != "row") | .datasource.uid == "${datasource}" and (.targets | length > 0)
          and (.description | length > 0) and (.title | length > 0)] | all)
    and ([.panels[] | .gridPos.x + .gridPos.w <= 24] | all)' "$dashboard" >"$work/out" || die 'the dashboard lacks something'
# panels that lie on each other
jq -e '[.panels[].gridPos] as $p | [range($p | length) as $i | range($i) as $j | $p[$i] as $a | $p[$j] as $b
    | select($a.x < $b.x + $b.w and $b.x < $a.x + $a.w and $a.y < $b.y + $b.h and $b.y < $a.y + $a.h)] | length == 0' \
    "$dashboard" >/dev/null || die 'panels overlap'
jq -r '.. | objects | (.expr?, .definition?) | strings' "$dashboard" >"$work/exprs"
used "$work/exprs" 'the dashboard'

# A fixed window shows nothing where Prometheus scrapes less often, and leaves out what lies between two steps of a wide look.
jq -r '.panels[].targets[]?.expr' "$dashboard" | grep -oE '\[[^]]*\]' | sort -u >"$work/windows"
# shellcheck disable=SC2016 # Grafana's
assert_eq 'windows of the panels' '[$__rate_interval]' "$(cat "$work/windows")"
# What is summed up over several jobs must tell them apart where a partition has a number only; a legend names labels that are left.
jq -r '.panels[].targets[]? | .legendFormat as $legend | .expr | capture("^(60 . )?[a-z]+ by \\((?<by>[^)]*)\\)").by | split(", ") as $by
    | ([$legend | scan("{{([a-z]+)}}") | .[0]] - $by | .[] | "the legend \($legend) names \(.)"),
      (select(any($by[]; . == "partition") and all($by[]; . != "job")) | "partitions of several jobs are one in \($legend)")' "$dashboard" >"$work/out"
[ ! -s "$work/out" ] || die "the dashboard: $(cat "$work/out")"
# A time is shown as one, a size as one, and nothing else is.
jq -r '.panels[] | select(.type != "row") | .title as $t | .fieldConfig.defaults.unit as $unit | .targets[].expr
    | (if test("_seconds(_bucket)?[{]") and (test("cpu") | not) then "s" elif test("_bytes[{]") then "bytes" else "" end) as $wanted
    | select(if $wanted != "" then $unit != $wanted else ($unit == "s" or $unit == "bytes") end)
    | "\($t) is shown in \($unit): \(.)"' "$dashboard" >"$work/out"
[ ! -s "$work/out" ] || die "the dashboard: $(cat "$work/out")"

# Each as a rule, which promtool parses.
{
    printf 'groups:\n  - name: dashboard\n    rules:\n'
    # shellcheck disable=SC2016 # Grafana's
    jq -r '.panels[].targets[]?.expr, .annotations.list[].expr // empty' "$dashboard" | sed 's/\$__rate_interval/5m/g' |
        awk '{ printf "      - record: expr:%d\n        expr: |\n          %s\n", NR, $0 }'
} >"$work/dashboard.yaml"
promtool check rules "$work/dashboard.yaml" >"$work/out" 2>&1 || die "the dashboard: $(cat "$work/out")"
echo "ok rules: the dashboard's $(jq '[.panels[] | select(.type != "row")] | length' "$dashboard") panels are whole"

# That it can fail: a name with a letter too many, a label that isn't there.
sed 's/tallyd_outbox_pending/tallyd_outbox_pendings/; s/outcome=/result=/' "$work/exprs" >"$work/wrong"
found=$(used "$work/wrong" wrong 2>&1) && die 'a wrong name passes'
case $found in
*'tallyd_events_total{result}'*tallyd_outbox_pendings*) ;;
*) die "wrong names: $found" ;;
esac
