# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# What the tests of Redis' faults share. Each fault falls into steady traffic, is seen to have hit, and then, at rest, every promise is
# checked before the next one comes.
#
#   redis_begin NAME        the stack, families, a daemon that reads; Redis' faults are undone however the test ends
#   traffic LABEL           events from now on, in the background
#   …the fault…             `said` and the like: it was seen
#   quiet | calm            the traffic ends, all is settled, every promise holds; calm: and what was lost in Redis is there again
#   told FAULT FIGURES…     the fault's line
# shellcheck source=test/fault/lib_faults.sh
. "$(dirname "$0")/lib_faults.sh"

area=redis
families=${families:-120}
seed=${TALLYD_TEST_SEED:-41}

# ---- the daemon -------------------------------------------------------------------------------------------------------

redis_begin() {
    begin "$1"
    redis_dir=$TALLYD_TEST_DIR/redis
    trap redis_leave EXIT
    # a restarted Redis knows its users
    sed -i '/^user tallyd_run /d' "$redis_dir/redis.conf"
    sed -n "s/^user tallyd /user tallyd_run /; s/>PASSWORD/>$MYSQL_PASSWORD/p" "$root/config/redis.acl" >>"$redis_dir/redis.conf"
    configure "$work/config.yaml" "workers: ${workers:-2}"
    # short patience, and every wait is told
    sed -i 's/^redis:$/&\n  timeout_ms: 500/; s/^retry:$/&\n  report_interval_ms: 100/' "$work/config.yaml"
    simulate seeding --seed-db --families "$families"
}

# However this ends, the next test finds a Redis as it was: a new one, empty, with what its file says.
redis_leave() {
    kill -s CONT "$(cat "$redis_dir/pid")" 2>/dev/null || :
    redis_stop >/dev/null 2>&1 || :
    sed -i '/^user tallyd_run /d; /^key-load-delay /d' "$redis_dir/redis.conf"
    rm -f "$redis_dir/dump.rdb"
    redis_start || :
    finish
}

redis_stop() {
    sh "$root/scripts/stack.sh" stop-one "$TALLYD_TEST_DIR" redis KILL
}

redis_start() {
    sh "$root/scripts/stack.sh" start-one "$TALLYD_TEST_DIR" redis
}

# ---- traffic and rest -------------------------------------------------------------------------------------------------

# said TEXT: that deciding waits, for a reason with TEXT in it.
said() {
    said_since | grep '"event":"decision_waiting"' | grep -q "$1"
}

# The daemon runs; one that has ended is a zombie until it is waited for.
lives() {
    case $(state_of "$daemon") in
    '' | Z) die 'the daemon has ended' ;;
    esac
}

settled_past() {
    lives
    [ "$(ledger_end)" -ge "$1" ]
}

rest() {
    catch_up
    lives
    # shellcheck disable=SC2086 # a list of words
    settled_all $labels
}

# The same, after some more events with nobody to disturb Redis: what they touch is there as it is in MySQL.
calm() {
    [ -z "$events" ] || traffic_ends
    catch_up
    calm_since=$(sql 'SELECT UTC_TIMESTAMP(3)')
    calm_label=calm-${labels##* }
    labels="$labels $calm_label"
    seed=$((seed + 1))
    simulate "$calm_label" --families "$families" --rate 0 --count 400 --seed "$seed"
    rest
    touched_agree "$calm_since"
}

# cached_figures SINCE: Redis' keys and MySQL's figures, of what was settled or blocked since then.
cached_figures() {
    cached_touched="SELECT family_id, customer_id, quota_month FROM usage_record WHERE created_at > '$1'
        UNION SELECT family_id, customer_id, quota_month FROM usage_block WHERE created_at > '$1'"
    sql "SELECT CONCAT('family:', family_id, ':remaining:', DATE_FORMAT(quota_month, '%Y%m')), total_quota_bytes - used_bytes
            FROM family_quota JOIN (SELECT DISTINCT family_id, quota_month FROM ($cached_touched) x) y USING (family_id, quota_month);
        SELECT CONCAT('family:', family_id, ':customer:', customer_id, ':usage:monthly:', DATE_FORMAT(quota_month, '%Y%m')),
            monthly_used_bytes FROM customer_quota JOIN ($cached_touched) x USING (family_id, customer_id, quota_month)" >"$work/cache.mysql"
    cut -f 1 "$work/cache.mysql" | sed 's/^/GET /' | redis >"$work/cache.redis"
    cut -f 1 "$work/cache.mysql" | paste - "$work/cache.redis" >"$work/cache.found"
}

# touched_agree SINCE: those figures are the same. Sets agreed to how many they are.
touched_agree() {
    cached_figures "$1"
    cmp -s "$work/cache.mysql" "$work/cache.found" || die "MySQL and Redis differ: $(diff "$work/cache.mysql" "$work/cache.found" | head -n 6)"
    agreed=$(wc -l <"$work/cache.mysql")
    [ "$agreed" -gt 0 ] || die 'no figure in Redis to compare'
}

# Redis kept all it had: every figure there is agrees.
all_agree() {
    touched_agree '2000-01-01'
}

# How many figures in Redis are others than MySQL's.
figures_off() {
    cached_figures '2000-01-01'
    paste "$work/cache.mysql" "$work/cache.redis" | awk -F '\t' '$2 != $3' | wc -l
}

# ---- Redis ------------------------------------------------------------------------------------------------------------

# info SECTION FIELD
info() {
    redis INFO "$1" | tr -d '\r' | sed -n "s/^$2://p"
}

info_reaches() {
    [ "$(info "$1" "$2")" -ge "$3" ]
}

loaded() {
    [ "$(info persistence loading)" = 0 ]
}

# set_config NAME VALUE…
set_config() {
    [ "$(redis CONFIG SET "$@")" = OK ] || die "CONFIG SET $*"
}

# list_keys: what sample chooses from. At once: a scan of many round trips falls behind what the traffic adds.
list_keys() {
    redis KEYS '*' >"$work/keys"
}

# sample REGEX N: some of the keys that there were.
sample() {
    grep -E "^$1\$" "$work/keys" | shuf -n "$2"
}
