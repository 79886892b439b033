# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# What the fault suite looks at: all the time, after each round, and at the end. Sourced by suite.sh.
# shellcheck disable=SC2154 # what suite.sh and lib.sh set

settled_count() {
    sql "SELECT COALESCE(SUM(settled + blocked), 0) FROM consumer_ledger WHERE topic = '$usage_topic'"
}

some_settled() {
    [ "$(settled_count)" -gt 500 ]
}

lag() {
    lag_settled=$(ledger_end)
    echo $(($(topic_end) - lag_settled))
}

# Sets ends, an SQL condition on the ledger: the partition has come to where the topic ends now. Fails while Kafka can't say.
read_ends() {
    set --
    ends_part=0
    while [ "$ends_part" -lt "$partitions" ]; do
        set -- "$@" -t "$usage_topic:$ends_part:-1"
        ends_part=$((ends_part + 1))
    done
    kcat -b "$KAFKA_BROKERS" -Q "$@" 2>/dev/null |
        sed -n "s/^.* \[\([0-9]*\)\] offset \([0-9]*\)\$/(topic = '$usage_topic' AND partition_id = \1 AND next_offset >= \2)/p" >"$work/ends"
    # shellcheck disable=SC2034 # goes_on reads it
    ends=$(paste -s -d '|' "$work/ends" | sed 's/|/ OR /g')
    [ "$(wc -l <"$work/ends")" = "$partitions" ]
}

# ---- who has what -----------------------------------------------------------------------------------------------------

# Reads "PARTITION OWNER" and prints a letter a partition: f (first), s (second), or - when the owner is neither's.
holders() {
    while read -r holders_part holders_owner; do
        if grep -qs "\"owner\":$holders_owner," "$work/first.log"; then
            printf 'f'
        elif grep -qs "\"owner\":$holders_owner," "$work/second.log"; then
            printf 's'
        else
            printf '%s' "${holders_part:+-}"
        fi
    done
    echo
}

ledger_owners() {
    sql "SELECT partition_id, owner FROM consumer_ledger WHERE topic = '$usage_topic' ORDER BY partition_id"
}

# Three members have two of six partitions each; the second daemon has two of the members.
shared() {
    shared_map=$(ledger_owners | holders)
    [ "$(printf '%s' "$shared_map" | tr -d fs)" = '' ] && [ "$(printf '%s' "$shared_map" | tr -d s | wc -c)" = $((partitions / 3)) ] &&
        [ "$(printf '%s' "$shared_map" | tr -d f | wc -c)" = $((partitions - partitions / 3)) ]
}

# ---- all the time -----------------------------------------------------------------------------------------------------

# Kafka's committed offset is never above the ledger's (which was read later, and only grows), and nothing in the ledger falls. Writes what
# it finds to $work/violation, and to $work/moves whenever partitions moved.
watch_start() {
    : >"$work/moves"
    : >"$work/looks"
    watch &
    watcher=$!
    pids="$pids $watcher"
    await 'the watcher looks' 60 test -s "$work/looks"
}

watch() {
    while [ ! -e "$work/unwatched" ]; do
        look || :
        sleep 0.2
    done
}

look() {
    timeout 5 "$ktool" committed "$group" "$usage_topic" >"$work/look.committed" 2>/dev/null || return 0
    # a frozen server only delays the answer
    sql "SELECT partition_id, next_offset, batch_no, owner FROM consumer_ledger WHERE topic = '$usage_topic' ORDER BY 1" \
        >"$work/look.ledger" 2>/dev/null || return 0
    [ -s "$work/look.ledger" ] || return 0
    echo x >>"$work/looks"
    [ -e "$work/look.before" ] || cp "$work/look.ledger" "$work/look.before"
    awk '
        FILENAME ~ /committed$/ { committed[$1] = $2; next }
        FILENAME ~ /before$/ { next_offset[$1] = $2; batch_no[$1] = $3; next }
        committed[$1] > $2 { print "partition " $1 ": committed " committed[$1] " above the ledger, " $2 }
        next_offset[$1] > $2 || batch_no[$1] > $3 { print "partition " $1 ": the ledger fell from " next_offset[$1] " (batch " batch_no[$1] ") to " $2 " (" $3 ")" }' \
        "$work/look.committed" "$work/look.before" "$work/look.ledger" >>"$work/violation"
    mv "$work/look.ledger" "$work/look.before"
    look_map=$(cut -f 1,4 "$work/look.before" | holders)
    [ "$look_map" = "$(tail -n 1 "$work/moves")" ] || echo "$look_map" >>"$work/moves"
}

watch_stop() {
    : >"$work/unwatched"
    wait "$watcher" || die 'the watcher failed'
}

# A daemon ends only because it was told to, or because a server was away when it started.
no_violation() {
    [ ! -s "$work/violation" ] || die "the watcher saw: $(head -n 3 "$work/violation")"
    no_violation_exits=$(grep -hvE ' (0|5|6|8|137|143)$' "$work/first.exits" "$work/second.exits" || :)
    [ -z "$no_violation_exits" ] || die "a daemon ended by itself (pid, code): $no_violation_exits"
}

# ---- at the end -------------------------------------------------------------------------------------------------------

every_promise() {
    sums_hold
    no_rows 'everything in the outbox is sent' "SELECT outbox_id, status, last_error FROM usage_event_outbox WHERE status <> 'SENT'"
    assert_eq "the ledger's end" "$(topic_end)" "$(ledger_end)"
    committed_all
    "$model" check "$work/run" --group "$group" --usage-topic "$usage_topic" --notification-topic "$notification_topic" \
        --dlt-topic "$dlt_topic" --crashes --cache >"$work/check.log" 2>&1 || die "the model and what is there differ:
$(head -n 12 "$work/check.log")
$(tail -n 1 "$work/check.log")"
}

# At rest after an orderly end Kafka's committed offsets are the ledger's.
committed_all() {
    "$ktool" committed "$group" "$usage_topic" >"$work/committed"
    assert_eq 'the committed offsets' "$(sql "SELECT partition_id, next_offset FROM consumer_ledger WHERE topic = '$usage_topic' ORDER BY 1" | tr '\t' ' ')" \
        "$(cat "$work/committed")"
}

# count EVENT, in both daemons' logs
count() {
    cat "$work/first.log" "$work/second.log" | grep -c "\"event\":\"$1\"" || :
}

summary() {
    summary_kinds=$(cut -d ' ' -f 2- "$work/plan" | tr ' ' '\n' | cut -d : -f 1 | sort | uniq -c | awk '{ printf "%s%s %s", (NR > 1 ? ", " : ""), $1, $2 }')
    summary_told=$(sql 'SELECT COUNT(*) FROM usage_event_outbox')
    echo "faults: $summary_kinds;" \
        "$(ledger_end) records, $(settled_count) settled or blocked, $(replayed) read again as duplicates;" \
        "$summary_told notifications, $(($(records "$notification_topic" '%o\n' | wc -l) - summary_told)) of them repeated;" \
        "$(count partitions_assigned) assignments, $(count fenced) batches fenced, $(count batch_came_back) came back," \
        "$(wc -l <"$work/looks") looks at the offsets; every promise holds; model: $(tail -n 1 "$work/check.log")"
}

# Duplicates that the daemons met above those on the topic: what was settled before a crash and read again.
replayed() {
    cat "$work/first.log" "$work/second.log" | sed -n 's/.*"event":"batch_settled".*"duplicate":\([0-9]*\).*/\1/p' |
        awk -v topic="$(sql "SELECT SUM(duplicate) FROM consumer_ledger WHERE topic = '$usage_topic'")" '{ n += $1 } END { print n - topic }'
}

# suite_end CODE: at a failure everything that could tell why is kept.
suite_end() {
    trap '' EXIT
    : >"$work/quiet"
    : >"$work/unwatched"
    for end_label in first second; do
        [ ! -s "$work/$end_label.pid" ] || kill -s KILL "$(cat "$work/$end_label.pid")" 2>/dev/null || :
    done
    if [ "$1" = 0 ]; then
        finish
        return
    fi
    for end_server in redis mysql kafka; do
        kill -s CONT "$(server_pid "$end_server")" 2>/dev/null || :
        mkdir -p "$work/$end_server"
        cp "$stack/$end_server"/log* "$work/$end_server/" 2>/dev/null || :
    done
    MYSQL_PWD=$MYSQL_PASSWORD timeout 30 mariadb-dump --no-defaults -h "$MYSQL_HOST" -P "$MYSQL_PORT" -u "$MYSQL_USER" "$MYSQL_DATABASE" \
        >"$work/mysql/dump.sql" 2>/dev/null || :
    for end_topic in "$notification_topic" "$dlt_topic" "$usage_topic"; do
        timeout 30 kcat -b "$KAFKA_BROKERS" -C -t "$end_topic" -o beginning -e -q -f '%p %o %k %T %h %s\n' \
            >"$work/kafka/${end_topic#"$group".}" 2>/dev/null || :
    done
    for end_pid in $pids; do
        kill -s KILL "$end_pid" 2>/dev/null || :
    done
    echo "kept: $work (configurations, logs, plan, what the servers said)" >&2
    echo "again: make test-fault ROUNDS=$rounds SEED=$seed" >&2
}
