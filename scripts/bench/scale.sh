#!/bin/sh
# SPDX-License-Identifier: MIT
# scale.sh: the same figures for ever more families, over a usage_record that has seen much, on the stack whose variables are exported
# (scripts/bench/run.sh starts one). Each row is written as soon as it's there: DATE-scale.md, and pictures beside it. A broken
# promise or a part that fails ends it (1).
#
# SCALE_FAMILIES ('1000 10000 100000 1000000'), SCALE_ROWS (20000000), SCALE_EVENTS (500000), SCALE_SECONDS (30), SCALE_RATE
# (5000), SCALE_SOAK (600: so many seconds under a steady stream, memory watched): smaller for a trial, whose report is DATE-scale-trial.md. BENCH_RESULTS:
# another folder.
# shellcheck disable=SC2034,SC2154 # what lib.sh works with, and what it has set
set -eu

# shellcheck source=/dev/null
. "$(dirname "$0")/lib.sh"
# shellcheck source=/dev/null
. "$bench_folder/head.sh"

sizes=${SCALE_FAMILIES:-1000 10000 100000 1000000}
old_rows=${SCALE_ROWS:-20000000}
events=${SCALE_EVENTS:-500000}
seconds=${SCALE_SECONDS:-30}
soak=${SCALE_SOAK:-600}
rate=${SCALE_RATE:-5000} # of the steady stream
USES=20       # of a family in the month, as in `make bench`: quotas of small populations grow to match
FILL_FACTOR=70 # percent; about what pages have after many inserts in random places
trial="${SCALE_FAMILIES:-}${SCALE_ROWS:-}${SCALE_EVENTS:-}${SCALE_SECONDS:-}${SCALE_RATE:-}${SCALE_SOAK:-}"
warmup=$(((seconds + 5) / 6))

# ---- what was before --------------------------------------------------------------------------------------------------

# Records of the months before, whose ids lie evenly among the new ones': in the key's order and in one statement, so that they are
# loaded in bulk, into pages as full as pages are after many inserts.
fill() {
    say "$old_rows old records"
    fill_since=$(date +%s)
    fill_before=$(admin 'SELECT @@innodb_fill_factor')
    admin "SET GLOBAL innodb_fill_factor = $FILL_FACTOR; SET unique_checks = 0, foreign_key_checks = 0;
        INSERT INTO usage_record (event_id, family_id, customer_id, app_id, bytes_used, event_time, quota_month, partition_id, record_offset, created_at)
        SELECT LOWER(CONCAT(LPAD(HEX(seq * (4294967296 DIV $old_rows) - 1), 8, '0'), '-0000-4000-a000-', LPAD(HEX(seq), 12, '0'))),
            1000001 + seq % 1000000, 10000001 + seq % 3000000, 'com.example.past', 1000000, '$old_month', '$old_month', seq % 6, seq DIV 6, '$old_month'
        FROM seq_1_to_$old_rows; SET GLOBAL innodb_fill_factor = $fill_before"
    assert_eq 'old records' "$old_rows" "$(sql 'SELECT COUNT(*) FROM usage_record')"
    settle_down
    jq -nc --argjson rows "$old_rows" --argjson seconds $(($(date +%s) - fill_since)) --argjson mib "$(tables_mib usage_record)" '$ARGS.named' >"$work/fill.row"
    keep fill "$work/fill.row"
    publish
}

# tables_mib TABLE...: what their files hold.
tables_mib() {
    tables_list=$(for table in "$@"; do printf ",'%s/%s'" "$MYSQL_DATABASE" "$table"; done)
    admin "SELECT ROUND(SUM(file_size) / 1048576) FROM information_schema.innodb_sys_tablespaces WHERE name IN (${tables_list#,})"
}

# ---- one size ---------------------------------------------------------------------------------------------------------

# All but the old records go.
clear_records() {
    sql "DELETE FROM usage_record WHERE $this_month"
    empty_stores
}

# families N: so many. Each has so much more to use than by its plan as it's used more often than in `make bench`, so that as many
# events are blocked whatever the size.
populate() {
    say "$1 families"
    sql 'TRUNCATE policy_assignment; TRUNCATE family_quota; TRUNCATE family_member; TRUNCATE family'
    simulate families --seed-db --families "$1"
    sql "UPDATE family_quota SET total_quota_bytes = total_quota_bytes * GREATEST(1, $events DIV ($1 * $USES))"
    produce_warmers ".$1"
}

warm_up() {
    clear_records
    member_on "$warm_topic"
    drain warming
    settle_down
}

stores_json() {
    jq -nc --argjson redis "$(redis info memory | tr -d '\r' | sed -n 's/^used_memory://p')" --argjson records "$(tables_mib usage_record)" \
        --argjson quotas "$(tables_mib family_quota customer_quota)" --argjson rest "$(tables_mib usage_block alert_state usage_event_outbox)" \
        '{redisBytes: $redis, recordsMiB: $records, quotasMiB: $quotas, restMiB: $rest}'
}

backlog() {
    say "$1 families: $events events end to end"
    topic_new "$bench_group.backlog.$1"
    usage_topic=$bench_group.backlog.$1
    owner
    simulate backlog --families "$1" --rate 0 --count "$events" --seed 11
    warm_up
    member_on "$bench_group.backlog.$1"
    drain "backlog.$1"
    tick "$this_month"
    tick_produced backlog
    drained "backlog.$1"
    stores_json >"$work/stores.row"
    echo "{\"families\": $1}" >"$work/size.row"
    keep backlog "$work/size.row" "$work/backlog.$1.row" "$work/stores.row"
    publish
}

# In the state that the backlog left, which is warm.
stream() {
    say "$1 families: $rate events/s for $seconds s"
    serve "stream.$1"
    with_tool latency --rate "$rate" --seconds "$seconds" --warmup "$warmup" --families "$1" --seed 12
    served "stream.$1"
    tick "$this_month"
    keep latency "$work/size.row" "$work/latency.tool" "$work/stream.$1.row"
    publish
}

# Memory as time goes on, under a steady stream.
soak() {
    say "$rate events/s for $soak s, memory watched"
    serve soak
    simulate_on steady --families "$1" --rate "$rate" --duration "${soak}s" --seed 13
    soak_producer=$launched
    : >"$work/soak.memory"
    soak_since=$(date +%s)
    while running "$soak_producer"; do
        look_at "$served" soak
        echo "[$(($(date +%s) - soak_since)),$(sed -n 3p "$work/soak.look"),$(sed -n 2p "$work/soak.look")]" >>"$work/soak.memory"
        sleep $((soak / 120 + 1))
    done
    ended simulate "$soak_producer" 0
    served soak
    tick "$this_month"
    jq -sc '{memory: .}' "$work/soak.memory" >"$work/memory.row"
    echo "{\"families\": $1, \"seconds\": $soak}" >"$work/size.row"
    keep soak "$work/size.row" "$work/soak.row" "$work/memory.row"
    publish
}

# ---- the report -------------------------------------------------------------------------------------------------------

# The report so far, in its place.
publish() {
    jq -rs -L "$bench_folder" --slurpfile head "$work/head.json" --arg pictures "$(basename "$report_to")" --argjson seconds $(($(date +%s) - bench_since)) \
        -f "$bench_folder/scale.jq" "$rows" >"$work/report.md" || die 'the report could not be made'
    cp "$work/report.md" "$report_to.md"
    [ "$(grep -c '"row":"latency"' "$rows")" -lt 2 ] || pictures
}

pictures() {
    jq -r 'select(.row == "backlog") | [.families, .events * 1000 / .ms, .cpuMicros.tallyd, .cpuMicros.redis, .cpuMicros.mysql, .cpuMicros.kafka] | @tsv' \
        "$rows" >"$work/throughput.tsv"
    jq -r 'select(.row == "latency") | [.families, .committed.p50Ms, .committed.p99Ms, .notification.p50Ms, .notification.p99Ms] | map(. // "NaN") | @tsv' \
        "$rows" >"$work/latency.tsv"
    gnuplot -e "work='$work'; out='$report_to'" "$bench_folder/pictures.gp" >"$work/gnuplot.log" 2>"$work/gnuplot.err" || die "gnuplot: exit code $?"
}

bench_begin scale
command -v gnuplot >/dev/null || die 'gnuplot is missing: sh scripts/deps.sh bench'
for given in $sizes "$old_rows" "$events" "$seconds" "$rate" "$soak"; do
    count 'SCALE_…' "$given"
done
report_to=$results/$(date +%F)-scale${trial:+-trial}
mkdir -p "$results"
this_month="quota_month >= '$(TZ=Asia/Seoul date +%Y-%m-01)'"
old_month=$(TZ=Asia/Seoul date -d "$(TZ=Asia/Seoul date +%Y-%m-01) 12:00 45 days ago" +%Y-%m-01)
head_json >"$work/head.json"
fill
for size in $sizes; do
    populate "$size"
    backlog "$size"
    stream "$size"
done
soak "$size"
cat "$work/report.md"
say "the same is in $report_to.md, with pictures beside it"
