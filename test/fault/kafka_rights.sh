#!/bin/sh
# SPDX-License-Identifier: MIT
# Authorization refused: tallyd comes as a user with the least rights there are to give, and each of them is taken away and given back
# under traffic. What is refused is said in the log; nothing is lost, and all goes on without a restart.
# shellcheck disable=SC2119 # arguments that may be left out
set -eu
# shellcheck source=test/fault/lib_kafka.sh
. "$(dirname "$0")/lib_kafka.sh"
case ${BROKER_KIND:-} in
embedded*)
    echo 'skipped kafka_rights: the embedded broker knows no rights'
    exit 0
    ;;
esac
message_timeout_ms=1000
lease_ms=7000
export message_timeout_ms lease_ms
kafka_begin kafka_rights
main_brokers=$KAFKA_BROKERS
KAFKA_BROKERS=$KAFKA_USERS_BROKERS
kafka_configure "$work/config.yaml" "  properties:
    security.protocol: sasl_plaintext
    sasl.mechanism: PLAIN
    sasl.username: $KAFKA_USERS_USER
    sasl.password: '$KAFKA_USERS_PASSWORD'"
KAFKA_BROKERS=$main_brokers

rights() { # rights allow|forbid OPERATION topic|group NAME
    "$ktool" "$1" "$KAFKA_USERS_USER" "$2" "$3" "$4"
}
# The rights that operators are told to give: config/kafka.acl.
sed "/^#/d; s/ usage-events\$/ $usage_topic/; s/ notification-events\$/ $notification_topic/; s/ usage-events.DLT\$/ $dlt_topic/; s/ tallyd\$/ $group/" \
    "$root/config/kafka.acl" >"$work/rights"
all_rights() {
    while read -r operation kind of; do
        rights "$1" "$operation" "$kind" "$of"
    done <"$work/rights"
}
revoke_all() {
    all_rights forbid >/dev/null 2>&1 || :
    kafka_leave
}
trap revoke_all EXIT
sampling

# ---- no right at all: it waits from the start ------------------------------------------------------------------------------------

launch rights "$tallyd" run -c "$work/config.yaml"
daemon=$launched log=$work/rights.log log_from=1
await 'the log says that reading is refused' 60 said '"error_area":"kafka"' 'authorization failed'
kill -0 "$daemon" || die 'the daemon has ended'
all_rights allow
await 'the daemon reads' 60 opened "$log"
traffic none --broken 0.05
quiet
told 'authorization refused, all of it' 'the daemon waited at its start, and went on once it was granted what it needs'

# refused_and_granted WHAT OPERATION topic|group NAME EVENT: one right is taken away and given back.
refused_and_granted() {
    rg_label=$(echo "$1" | tr -d ' ')
    traffic "$rg_label" --broken 0.05
    rights forbid "$2" "$3" "$4"
    mark
    await "the log says that $1 is refused" 60 said "$5" 'uthorization failed'
    kill -0 "$daemon" || die 'the daemon has ended'
    rg_lines=$(wc -l <"$log") rg_from=$(date +%s%3N)
    rg_before=$(said_times "$5")
    rg_again() { [ "$(said_times "$5")" -gt $((rg_before + 1)) ]; }
    await 'it says so again' 60 rg_again "$@"
    rg_ms=$(($(date +%s%3N) - rg_from)) rg_lines=$(($(wc -l <"$log") - rg_lines))
    [ "$rg_lines" -le $((rg_ms / 20 + 40)) ] || die "$rg_lines lines in $rg_ms ms"
    rights allow "$2" "$3" "$4"
    flows_on
    quiet
    told "authorization refused, $1" "it was said, in $rg_lines lines in $rg_ms ms; once granted again all went on"
}
refused_and_granted 'to write the DLT' write topic "$dlt_topic" settlement_waiting
refused_and_granted 'to write notifications' write topic "$notification_topic" relay_waiting
refused_and_granted 'to read' read topic "$usage_topic" '"error_area":"kafka"'
refused_and_granted 'to be in the group' read group "$group" '"error_area":"kafka"'
assert_eq 'alerts that were given up' 0 "$(sql "SELECT COUNT(*) FROM usage_event_outbox WHERE status = 'FAILED'")"
daemon_ends
sampling_ends

# ---- the commands that look at the group and move it need no more --------------------------------------------------------------

"$tallyd" lag -c "$work/config.yaml" >"$work/lag.out" 2>"$work/lag.err" || die "lag: exit code $?: $(cat "$work/lag.err")"
"$tallyd" rewind -c "$work/config.yaml" --to 0 --partition 0 --dry-run >"$work/rewind.out" 2>"$work/rewind.err" ||
    die "rewind --dry-run: exit code $?: $(cat "$work/rewind.err")"
"$tallyd" rewind -c "$work/config.yaml" --to 0 --partition 0 >"$work/rewind.out" 2>"$work/rewind.err" ||
    die "rewind: exit code $?: $(cat "$work/rewind.err")"
told 'authorization, of the commands' 'lag and rewind need no right that the daemon has not'
