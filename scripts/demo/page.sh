# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# The page that the demo ends with. Sourced by show.sh.
# shellcheck disable=SC2154 # what show.sh has set

# Every family that has a quota: total, used, blocked members.
FAMILIES_NOW="
    SELECT q.family_id, q.total_quota_bytes, q.used_bytes,
        (SELECT COUNT(*) FROM customer_quota c WHERE c.family_id = q.family_id AND c.quota_month = q.quota_month AND c.is_blocked),
        (SELECT COUNT(*) FROM family_member m WHERE m.family_id = q.family_id)
    FROM family_quota q ORDER BY q.used_bytes / q.total_quota_bytes DESC, q.family_id"

broker_name() {
    case $BROKER_KIND in
    apache-kafka-*) echo "Apache Kafka ${BROKER_KIND#apache-kafka-}" ;;
    *) echo "NOT Apache Kafka: the embedded broker" ;;
    esac
}

heading() {
    printf '\n  %s%s%s\n' "$bold" "$1" "$plain"
}

ends_table() {
    {
        sed 's/^/ends\t/' "$work/ends"
        sql "SELECT 'block', reason, COUNT(*) FROM usage_block GROUP BY reason ORDER BY 3 DESC"
        cut -d ' ' -f 3 "$work/rejections" | sort | uniq -c | sort -rn | awk '{ print "code\t" $2 "\t" $1 }'
    } | awk -F '\t' -v dim="$dim" -v plain="$plain" "$figures"'
        function line(name, n) { printf "    %-22s %9s  %7s  %s\n", name, thousands(n), share(n, all), blocks_of(n / all) }
        function blocks_of(part,    i, out) { out = ""; for (i = 0.5; i <= part * 46; i++) out = out "█"; return out }
        # What a line is made up of, below it.
        function parts(name, n, count,    i, out, item) {
            out = ""
            for (i = 1; i <= count; i++) {
                item = name[i] " " thousands(n[i])
                if (length(out) + length(item) > 84) { printf "      %s%s%s\n", dim, out, plain; out = "" }
                out = out (out == "" ? "" : "   ") item
            }
            if (out != "") printf "      %s%s%s\n", dim, out, plain
        }
        $1 == "ends" { settled = $2; blocked = $3; duplicate = $4; rejected = $5; other = $6; all = $2 + $3 + $4 + $5 + $6 }
        $1 == "block" { block[++blocks] = $2; block_n[blocks] = $3 }
        $1 == "code" { code[++codes] = $2; code_n[codes] = $3 }
        END {
            line("settled", settled)
            line("blocked", blocked)
            parts(block, block_n, blocks)
            line("duplicate", duplicate)
            line("rejected, to the DLT", rejected)
            parts(code, code_n, codes)
            if (other) line("ignored or no record", other)
        }'
}

alerts_table() {
    sql "SELECT JSON_VALUE(payload_json, '\$.data.status') status, JSON_VALUE(payload_json, '\$.type'), COUNT(*), COUNT(DISTINCT family_id)
         FROM usage_event_outbox GROUP BY 1, 2 ORDER BY 2 DESC, 1 DESC" |
        awk -F '\t' "$figures"'{
            what = $1
            if ($2 == "THRESHOLD_ALERT") { sub(/WARNING_/, "", what); what = what " % or less is left" }
            printf "    %-22s %9s  in %s\n", what, thousands($3), $4 == 1 ? "1 family" : thousands($4) " families" }'
}

# From the fullest to the emptiest of those that used anything.
families_table() {
    sql "$FAMILIES_NOW" >"$work/families.after"
    printf '    %s%-10s %8s %10s     %-30s %14s  %s%s\n' "$dim" family members total used remaining blocked "$plain"
    awk -F '\t' "$figures"'
        FILENAME ~ /before$/ { used[$1] = $3; blocked[$1] = $4; next }
        $3 > 0 { line[++n] = $0 }
        END {
            for (i = 0; i < 5 && n; i++) {
                split(line[1 + int(i * (n - 1) / 4)], f, "\t")
                printf "    %-10s %8d %10s     %3s → %9s %4d %%  %s %14s  %d → %d\n", f[1], f[5], amount(f[2]), amount(used[f[1]]), amount(f[3]),
                    100 * f[3] / f[2], bar(f[3] / f[2], 8), amount(f[2] - f[3]), blocked[f[1]], f[4]
            }
        }' "$work/families.before" "$work/families.after"
}

# One of each type, where they lie; only line breaks and the blanks after them are added to the bytes.
notifications() {
    # The first that needs no more than the page's width.
    for page_type in THRESHOLD_ALERT CUSTOMER_BLOCKED; do
        records "$notification_topic" 'partition %p, offset %o, key %k\t%s\n' |
            awk -F '\t' -v type="\"type\":\"$page_type\"" -v dim="$dim" -v plain="$plain" '
                index($2, type) && !fits {
                    text = $2
                    gsub(/,"(timestamp|payload|title|message|data|eventTime|familyId|appId)":/, "\n&", text)
                    gsub(/\n,/, ",\n", text)
                    fits = 1
                    count = split(text, lines, "\n")
                    for (i = 1; i <= count; i++) if (length(lines[i]) > 92) fits = 0
                    if (n++ && !fits) next
                    gsub(/\n/, "\n      ", text)
                    found = sprintf("    %s%s%s\n      %s", dim, $1, plain, text)
                }
                END { if (n) print found }'
    done
}

rate() {
    jq -rs '
        def ms: (.[:19] + "Z" | fromdate) * 1000 + (.[20:23] | tonumber);
        (map(select(.event == "started"))[0]) as $started
        | (map(select(.event == "partition_opened").ts | ms) | max) as $opened
        | (map(select(.event == "stopping"))[0].ts | ms) as $drained
        | (map(select(.event == "stopped"))[0]) as $stopped
        | "\($drained - $opened)\t\($started.workers)\t\($stopped.batches)"' "$work/first.log" |
        awk -F '\t' -v events="$(jq .produced.total "$work/events.json")" -v bold="$bold" -v plain="$plain" "$figures"'{
            printf "    %s%s events/s%s: %s in %.1f s and %s transactions, workers: %d, Redis cold\n", bold,
                thousands(events * 1000 / ($1 + 1)), plain, thousands(events), $1 / 1000, thousands($3), $2 }'
    page_redis=$(redis info server | sed -n 's/^redis_version:\([0-9.]*\).*/\1/p')
    page_mysql=$(sql 'SELECT VERSION()' | sed 's/^\([0-9.]*\)-MariaDB.*/MariaDB \1/; s/^[0-9]/MySQL &/')
    printf '    %s, Redis %s, %s, librdkafka %s\n' "$(broker_name)" "$page_redis" "$page_mysql" \
        "$(figure "$work/first.log" started librdkafka)"
    printf '    all of them and tallyd on this machine, cores: %s\n' "$(nproc)"
}

# promise_line NUMBER CHECK TEXT
promise_line() {
    if [ -e "$work/$2.why" ]; then
        printf '    %s✘ %s  BROKEN: %s%s\n         %s%s%s\n' "$red" "$1" "$3" "$plain" "$red" \
            "$(tr '\n\t' '  ' <"$work/$2.why" | cut -c 1-240)" "$plain"
    else
        printf '    %s✔%s %s  %-38s %s%s%s\n' "$green" "$plain" "$1" "$3" "$dim" "$(cat "$work/$2.figure")" "$plain"
    fi
}

page() {
    printf '\n'
    rule
    printf '  %s%s events of %s families%s on an evening: %s, from %s on in Seoul\n' "$bold" "$(thousands "$events")" \
        "$(thousands "$families")" "$plain" "${evening%%T*}" "$(echo "$evening" | cut -c 12-19)"
    rule
    heading 'How each event ended'
    ends_table
    heading 'Alerts, each told once'
    alerts_table
    heading 'Five families, before → after'
    families_table
    heading "Two notifications as they lie on $notification_topic (line breaks added)"
    notifications
    heading 'Rate'
    rate
    heading 'What tallyd promises, checked on what lies in MySQL, in Redis and on the topics'
    promise_line 1 sums_add_up 'sums are the sums of their records'
    promise_line 2 decisions_follow 'each decision follows from these sums'
    promise_line 3 decided_once 'an event id is decided once'
    promise_line 4 all_counted 'each record ends in exactly one way'
    promise_line 5 told_once 'an alert is told once and never lost'
    promise_line 6 told_in_order 'notifications go out, in order'
    promise_line 7 repeats_change_nothing 'delivered again, nothing changes'
    printf '\n'
    if [ "$broken_promises" = 0 ]; then
        printf '  %sAll seven hold.%s The servers end now and leave nothing behind. Next: README.md\n' "$green" "$plain"
    else
        printf '  %s%s of seven broken.%s A promise that does not hold is a defect: please report it with this page.\n' "$red" "$broken_promises" "$plain"
    fi
    [ "$BROKER_KIND" != embedded-broker ] ||
        printf '  %sThis was NOT Apache Kafka%s: what hangs on a real broker is not shown by it.\n' "$yellow" "$plain"
    rule
}
