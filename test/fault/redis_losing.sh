#!/bin/sh
# SPDX-License-Identifier: MIT
# Redis loses what it held, all or part of it, or comes back with what it held before; others write what they like into it. All of it
# only costs a second try. ROUNDS (2): how often each is done.
set -eu
rounds=${ROUNDS:-2}
# shellcheck source=test/fault/lib_redis.sh
. "$(dirname "$0")/lib_redis.sh"
redis_begin redis_losing
daemon tallyd

# ---- flushed ----------------------------------------------------------------------------------------------------------
flush_some() {
    some=$(redis EVAL "local n = redis.call('DBSIZE') redis.call('FLUSHALL') return n" 0)
    [ "$some" -gt 0 ]
}

traffic flushed
gone=0
for _ in $(seq $((rounds * 2))); do
    await 'there is something to flush' 60 flush_some
    gone=$((gone + some))
    flows_on 100
done
calm
told 'flushed' "$((rounds * 2)) times, $gone keys gone, $agreed figures in Redis agree"

# ---- evicting part ----------------------------------------------------------------------------------------------------
# tallyd refuses to start with such a policy; it bears one that comes while it runs.
traffic evicting
redis CONFIG RESETSTAT >/dev/null
set_config maxmemory-policy allkeys-random
set_config maxmemory "$(info memory used_memory)"
await 'keys are evicted' 60 info_reaches stats evicted_keys 300
flows_on 400
set_config maxmemory 0
set_config maxmemory-policy noeviction
evicted=$(info stats evicted_keys)
left=$(redis DBSIZE)
[ "$left" -gt 100 ] || die "only $left keys are left"
calm
told 'evicting part' "$evicted keys evicted, $left left, $agreed figures in Redis agree"

# ---- keys of every kind deleted ---------------------------------------------------------------------------------------
# kinds CMD: runs "CMD KIND REGEX" for each kind of key.
kinds() {
    list_keys
    "$1" info 'family:[0-9]+:info:[0-9]+'
    "$1" remaining 'family:[0-9]+:remaining:[0-9]+'
    "$1" members 'family:[0-9]+:members'
    "$1" usage 'family:.*:usage:monthly:[0-9]+'
    "$1" constraints 'family:.*:constraints'
    "$1" alert 'family:.*:alert:.*'
    "$1" dedup 'event:dedup:usage:.*'
}

delete_some() {
    deleted_now=$(sample "$2" 15 | sed 's/^/DEL /' | redis | grep -c '^1$' || :)
    [ "$deleted_now" -gt 0 ] || die "no key of the kind $1 was there"
    deleted=$((deleted + deleted_now))
}

traffic deleted
deleted=0
for _ in $(seq "$rounds"); do
    kinds delete_some
    flows_on 100
done
calm
told 'random keys deleted' "$deleted of 7 kinds, one by one; $agreed figures in Redis agree"

# ---- keys of a wrong type ---------------------------------------------------------------------------------------------
# mistype KIND PATTERN: each becomes a list, a list's name for a text; nobody sees it missing meanwhile.
mistype() {
    sample "$2" 15 >"$work/mistyped.$1"
    case $1 in
    info | members | constraints) mistype_to="redis.call('SET', KEYS[1], 'x')" ;;
    *) mistype_to="redis.call('RPUSH', KEYS[1], 'x')" ;;
    esac
    mistyped_now=$(sed "s/.*/EVAL \"redis.call('DEL', KEYS[1]) return $mistype_to\" 1 &/" "$work/mistyped.$1" | redis | grep -cE '^(OK|1)$' || :)
    [ "$mistyped_now" -gt 0 ] || die "no key of the kind $1 was there"
    mistyped=$((mistyped + mistyped_now))
}

traffic mistyped
mistyped=0
for _ in $(seq "$rounds"); do
    kinds mistype
    flows_on 100
done
calm
told 'keys of a wrong type' "$mistyped of 7 kinds; $agreed figures in Redis agree"

# ---- wrong values -----------------------------------------------------------------------------------------------------
# overwrite PATTERN VALUE…: as many keys get each of the values; numbers with a sign are added.
overwrite() {
    overwrite_pattern=$1
    shift
    for value; do
        case $value in
        +* | -*) sample "$overwrite_pattern" 6 | sed "s/^/INCRBY /; s/\$/ ${value#+}/" ;;
        *) sample "$overwrite_pattern" 6 | sed "s/^/SET /; s/\$/ \"$value\"/" ;;
        esac
    done | redis | grep -vc '^ERR' >"$work/overwritten" || :
    overwritten=$((overwritten + $(cat "$work/overwritten")))
}

# forge FIELD VALUE…: in what a family's month was warmed with.
forge() {
    forge_field=$1
    shift
    for value; do
        sample 'family:[0-9]+:info:[0-9]+' 6 | sed "s/^/HSET /; s/\$/ $forge_field \"$value\"/"
    done | redis | grep -c '^[01]$' >"$work/overwritten" || :
    overwritten=$((overwritten + $(cat "$work/overwritten")))
}

traffic overwritten
overwritten=0
for _ in $(seq "$rounds"); do
    list_keys
    overwrite 'family:[0-9]+:remaining:[0-9]+' +1 -1 +1000000 -1000000 0 -5 many 1e3 007 99999999999999999999 ''
    overwrite 'family:.*:usage:monthly:[0-9]+' +1 -1 +1000000 0 -7 1.5 9007199254740993 ''
    overwrite 'family:.*:alert:.*' told ''
    overwrite 'event:dedup:usage:.*' COLD NOT_MEMBER UNREADABLE ''
    forge totalQuota 1 9007199254740991 many ''
    forge cuts '10:1 30:1 50:1' '50:9007199254740991' ''
    forge expire 1 soon 9223372036854775807
    forge warmed long.ago
    flows_on 100
done
[ "$overwritten" -gt $((100 * rounds)) ] || die "only $overwritten values were overwritten"
calm
told 'wrong values' "$overwritten written behind its back, $agreed figures in Redis agree"

# ---- forged results ---------------------------------------------------------------------------------------------------
# Of events that are still to come, under their families' own generation: settled already, refused, and nonsense.
"$tallyd" simulate -c "$work/owner.yaml" --print --families "$families" --count 900 --seed $((seed + 1)) --broken 0 --duplicates 0 |
    sed -n '301,$p' | cut -f 2 | jq -r '"\(.eventId) \(.payload.familyId) \(.payload.customerId) \(.payload.bytesUsed)"' >"$work/coming"
cut -d ' ' -f 2 "$work/coming" | sed "s/.*/HMGET family:&:info:$(TZ=Asia/Seoul date +%Y%m) gen totalQuota/" | redis | paste -d ' ' - - |
    paste -d ' ' "$work/coming" - | awk 'NF == 6 { kind = NR % 4; family = $5 " " $2 " " $3 " " $4; total = $6; left = int(total / 2)
        if (kind == 0) result = "NORMAL " total - left " " left " " $4 " -1 0.0000 0 0 " total " 1"
        if (kind == 1) result = "FAMILY_QUOTA_EXCEEDED " total " 0 " $4 " -1 0.0000 1 0 " total " 0"
        if (kind == 2) result = "NORMAL 1"
        if (kind == 3) result = "KNOWN"
        printf "SET event:dedup:usage:%s \"%s %s\" EX 3600\n", $1, family, result }' >"$work/forged"
forged=$(redis <"$work/forged" | grep -c '^OK$' || :)
[ "$forged" -gt 300 ] || die "only $forged results could be forged"
traffic_label=forged
labels="$labels forged"
seed=$((seed + 1))
simulate forged --families "$families" --rate "$rate" --count 900 --seed "$seed" --broken 0 --duplicates 0
rest
sed 's/^SET [^ ]* "\(.*\)" EX 3600$/\1/' "$work/forged" >"$work/forged.values"
sed 's/^SET \([^ ]*\) .*/GET \1/' "$work/forged" | redis >"$work/forged.found"
assert_eq 'results looked up' "$(wc -l <"$work/forged")" "$(wc -l <"$work/forged.found")"
believed=$(paste "$work/forged.values" "$work/forged.found" | awk -F '\t' '$1 == $2' | wc -l)
assert_eq 'forged results that are still there' 0 "$believed"
calm
told 'forged results' "$forged of events to come; $agreed figures in Redis agree"

daemon_ends
