# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# Each promise of the contract, checked on what really lies in MySQL, in Redis and on the topics. The checks are the integration
# tests' (test/integration/lib.sh) where these have them. Sourced by show.sh, after lib.sh.
#
# A check prints its figure, or says on standard error what it found and ends with 1.
# shellcheck disable=SC2154 # what show.sh has set

# In place of lib.sh's: here the page tells.
die() {
    echo "$*" >&2
    exit 1
}

# Which promise each of lib.sh's queries stands for.
promise_of() {
    case $1 in
    *' is the sum of its '*) echo 1 ;;
    'no id is '*) echo 3 ;;
    "each partition's ledger "*) echo 4 ;;
    *' told'*) echo 5 ;;
    *) die "lib.sh asks whether $1, which the demo knows no promise for" ;;
    esac
}

# In place of lib.sh's: of all queries only those of the promise asked about.
no_rows() {
    no_rows_of=$(promise_of "$1") || exit 1
    [ "$no_rows_of" = "$asked" ] || return 0
    no_rows_found=$(sql "$2 LIMIT 5") || die "$1: MySQL doesn't say"
    [ -z "$no_rows_found" ] || die "$1: found $no_rows_found"
}

holds_by_sql() {
    asked=$1
    promises_hold
}

sums_add_up() {
    holds_by_sql 1
    sql "SELECT COUNT(*), (SELECT COUNT(*) FROM customer_quota), (SELECT SUM(bytes_used) FROM usage_record) FROM family_quota
         WHERE used_bytes > 0" |
        awk -F '\t' "$figures"'{ printf "%s families, %s customers, %s\n", thousands($1), thousands($2), amount($3) }'
}

# Every decision once more by SQL: the sums before an event are those of the allowed ones before it in its family's partition, and
# it must have been blocked or allowed on just these.
decisions_follow() {
    sql "$DECISIONS WHERE allowed AND left_before < bytes_used
            OR NOT allowed AND (remaining_bytes <> left_before OR monthly_used_bytes <> used_before)
            OR reason = 'FAMILY_QUOTA_EXCEEDED' AND left_before >= bytes_used
            OR reason = 'MONTHLY_LIMIT_EXCEEDED' AND used_before + bytes_used <= monthly_limit_bytes
         LIMIT 3" >"$work/decisions" || die "MySQL doesn't say"
    [ ! -s "$work/decisions" ] || die "decided on other figures than MySQL's: $(cut -f 1 "$work/decisions" | tr '\n' ' ')"
    decisions=$(sql "SELECT (SELECT COUNT(*) FROM usage_record) + (SELECT COUNT(*) FROM usage_block)")
    cached=$(cache_agrees 'f.used_bytes > 0')
    echo "$(thousands "$decisions") redone by SQL, $(thousands "$cached") Redis figures agree"
}
DECISIONS="
    SELECT * FROM (
        SELECT e.*, q.total_quota_bytes - COALESCE(SUM(e.allowed * e.bytes_used) OVER (
                PARTITION BY e.family_id, e.quota_month ORDER BY e.partition_id, e.record_offset
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) left_before,
            COALESCE(SUM(e.allowed * e.bytes_used) OVER (
                PARTITION BY e.family_id, e.customer_id, e.quota_month ORDER BY e.partition_id, e.record_offset
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) used_before
        FROM (
            SELECT event_id, family_id, customer_id, quota_month, partition_id, record_offset, bytes_used, 1 allowed, NULL reason,
                0 remaining_bytes, 0 monthly_used_bytes, 0 monthly_limit_bytes FROM usage_record
            UNION ALL SELECT event_id, family_id, customer_id, quota_month, partition_id, record_offset, bytes_used, 0, reason,
                remaining_bytes, monthly_used_bytes, monthly_limit_bytes FROM usage_block) e
        JOIN family_quota q USING (family_id, quota_month)) decided"


decided_once() {
    holds_by_sql 3
    ids_ended_once events
    sql 'SELECT (SELECT COUNT(*) FROM usage_record) + (SELECT COUNT(*) FROM usage_block)' |
        awk "$figures"'{ printf "%s ids, each settled or blocked, none twice\n", thousands($1) }'
}

all_counted() {
    holds_by_sql 4
    assert_eq "the ledger's end" "$(topic_end)" "$(ledger_end)"
    assert_eq 'settled or blocked, duplicate, rejected, ignored' \
        "$(produced '.produced.normal + .produced.late' events) $(produced .produced.duplicate events) $(produced .produced.broken events) 0" \
        "$(awk '{ print $1 + $2, $3, $4, $5 }' "$work/ends")"
    rejections_told events
    awk "$figures"'{ print thousands($1 + $2 + $3 + $4 + $5) " records: " thousands($1) " + " thousands($2) " + " thousands($3) " + " \
        thousands($4) " + " thousands($5) }' "$work/ends"
}

told_once() {
    holds_by_sql 5
    alerts_published
    echo "$(thousands "$(wc -l <"$work/alerts.outbox")") stored once, on the topic byte by byte"
}

# A family's notifications lie in one partition; what repeats there counts from its first time.
told_in_order() {
    open=$(sql "SELECT COUNT(*) FROM usage_event_outbox WHERE status NOT IN ('SENT', 'FAILED') OR status = 'FAILED' AND last_error IS NULL")
    assert_eq 'rows of the outbox that ended neither way' 0 "$open"
    records "$notification_topic" '%k\t%s\n' | sed 's/\t{"eventId":"\([^"]*\)".*/\t\1/' | awk '!seen[$2]++' |
        LC_ALL=C sort -s -k 1,1 >"$work/order.topic"
    sql "SELECT family_id, event_id FROM usage_event_outbox WHERE status = 'SENT' ORDER BY outbox_id" |
        LC_ALL=C sort -s -k 1,1 >"$work/order.outbox"
    cmp -s "$work/order.topic" "$work/order.outbox" ||
        die "another order on the topic: $(diff "$work/order.outbox" "$work/order.topic" | head -n 4 | tr '\n' ' ')"
    sql "SELECT SUM(status = 'SENT'), SUM(status = 'FAILED'), COUNT(DISTINCT family_id) FROM usage_event_outbox" |
        awk "$figures"'{ printf "%s SENT, %s FAILED, in order in %s families\n", thousands($1), thousands($2), thousands($3) }'
}

# ---- delivered again --------------------------------------------------------------------------------------------------

# settled, blocked, duplicate, rejected, and what is neither.
LEDGER='SELECT SUM(settled), SUM(blocked), SUM(duplicate), SUM(rejected), SUM(ignored) + SUM(gap) FROM consumer_ledger'

# What a second delivery may not change. The ledger is looked at by itself; the DLT gets its copies.
state() {
    sql "CHECKSUM TABLE family, family_member, family_quota, customer_quota, usage_record, usage_block, alert_state, usage_event_outbox"
    records "$notification_topic" '%p %o\n' | wc -l
}

# Redis loses everything, decided events are produced once more, and the group goes back to where it began: what tells a repeat
# from news is in MySQL alone.
deliver_again() {
    redis FLUSHALL >/dev/null
    sql "SELECT partition_id, record_offset FROM usage_record UNION ALL SELECT partition_id, record_offset FROM usage_block" >"$work/decided"
    records "$usage_topic" '%p %o\t%k\t%s\n' | awk -F '\t' -v want="$again" '
        NR == FNR { decided[$1 " " $2] = 1; next }
        ($1 in decided) && n++ < want { print $2 "\t" $3 }' "$work/decided" - >"$work/again"
    kcat -P -q -b "$KAFKA_BROKERS" -t "$usage_topic" -X partitioner=murmur2_random -K "$(printf '\t')" "$work/again" -l ||
        give_up "the broker took no repeats" "This is a defect" "$work/second.err"
    rewound=
    if [ "$BROKER_KIND" != embedded-broker ]; then
        printf '{"group":"%s","usageTopic":"%s","notificationTopic":"%s","dltTopic":"%s","partitions":%s,"copies":1,"reads":1,"ranMs":0}' \
            "$group" "$usage_topic" "$notification_topic" "$dlt_topic" "$partitions" >"$work/state.json"
        "$build/test/scenario" rewind "$work" || give_up "the group can't be moved back" "The broker's side of it is above"
        rewound=1
    fi
}

repeats_change_nothing() {
    state >"$work/state.after"
    cmp -s "$work/state" "$work/state.after" || die "changed: $(diff "$work/state" "$work/state.after" | grep '^>' | tr '\n\t' '  ')"
    assert_eq "the ledger's end" "$(topic_end)" "$(ledger_end)"
    assert_eq 'what the repeats ended as' "$(awk -v n="$(wc -l <"$work/again")" '{ print $1, $2, $3 + n, $4, $5 }' "$work/ends")" \
        "$(sql "$LEDGER" | tr '\t' ' ')"
    for still in 1 3 4 5; do
        holds_by_sql "$still"
    done
    repeats="+ $(thousands "$(wc -l <"$work/again")") duplicates"
    if [ -n "$rewound" ]; then
        assert_eq 'where the second run began' 0 "$(jq -s 'map(select(.event == "partition_opened").start) | add' "$work/second.log")"
        repeats="$repeats; $(thousands "$(jq '.produced.total' "$work/events.json")") read again add nothing"
    fi
    echo "$repeats"
}

# ---- ticks ------------------------------------------------------------------------------------------------------------

checked=0
broken_promises=0

# promise CHECK: keeps its figure in CHECK.figure, or what is wrong in CHECK.why.
promise() {
    checked=$((checked + 1))
    # In a shell of its own, which the first finding ends; behind an "if" or "||" it wouldn't.
    set +e
    (
        set -e
        "$1"
    ) >"$work/$1.figure" 2>"$work/$1.why"
    promise_code=$?
    set -e
    if [ "$promise_code" = 0 ] && [ -s "$work/$1.figure" ]; then
        rm -f "$work/$1.why"
    else
        [ -s "$work/$1.why" ] || echo 'the check itself could not be made' >"$work/$1.why"
        broken_promises=$((broken_promises + 1))
    fi
}

verdict() {
    if [ "$broken_promises" = 0 ]; then
        echo "$checked of $checked hold"
    else
        echo "$broken_promises of $checked BROKEN"
    fi
}

# The first six, before a second delivery adds to the figures.
check_first() {
    sql "$LEDGER" >"$work/ends"
    for first_check in sums_add_up decisions_follow decided_once all_counted told_once told_in_order; do
        promise "$first_check"
    done
    state >"$work/state"
}
