#!/bin/sh
# SPDX-License-Identifier: MIT
# The demo in small, on stacks of its own: every promise gets its tick; and where what lies in the stores is spoiled behind tallyd's
# back, each gets its cross and the exit code is 1.
set -eu

name=demo
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-$name.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
build=${TALLYD_BUILD:-build}
case $build in
/*) ;;
*) build=$root/$build ;;
esac

# show LABEL: the page goes to $work/LABEL.
show() {
    TALLYD_DEMO_EVENTS=3000 TALLYD_DEMO_FAMILIES=100 sh "$root/scripts/with-stack.sh" -- sh "$root/scripts/demo/show.sh" >"$work/$1" 2>&1
}
ticks() {
    grep -c "^    $2 [1-7] " "$work/$1" || :
}
fail() {
    cat "$work/$1"
    echo "FAILED $name: $2" >&2
    exit 1
}

show whole || fail whole "exit code $?"
[ "$(ticks whole ✔)" = 7 ] || fail whole "expected seven ticks"

# A tallyd that spoils something after each run: first what promises 1 to 6 are about, then what 7 is.
cat >"$work/spoiling" <<'END'
#!/bin/sh
case $1 in run) ;; *) exec "$REAL_TALLYD" "$@" ;; esac
"$REAL_TALLYD" "$@" || exit
spoil() {
    MYSQL_PWD=$MYSQL_PASSWORD mariadb --no-defaults -h "$MYSQL_HOST" -P "$MYSQL_PORT" -u "$MYSQL_USER" "$MYSQL_DATABASE" -e "$1"
}
if mkdir "$SPOILED" 2>/dev/null; then
    spoil "UPDATE family_quota SET used_bytes = used_bytes + 1 WHERE used_bytes > 0 ORDER BY used_bytes LIMIT 1;
        UPDATE usage_block SET remaining_bytes = remaining_bytes + 1 LIMIT 1;
        INSERT INTO usage_block SELECT event_id, family_id, customer_id, app_id, bytes_used, event_time, quota_month, partition_id,
            record_offset, created_at, 'MANUAL', 0, 0, -1 FROM usage_record LIMIT 1;
        UPDATE consumer_ledger SET settled = settled + 1 LIMIT 1;
        UPDATE usage_event_outbox SET payload_json = REPLACE(payload_json, '50%', '51%') LIMIT 1;
        UPDATE usage_event_outbox SET family_id = 1 ORDER BY outbox_id LIMIT 1"
else
    spoil 'UPDATE customer_quota SET rev = rev + 1 LIMIT 1'
fi
END
chmod 755 "$work/spoiling"
code=0
REAL_TALLYD=${TALLYD_BIN:-$build/tallyd}
SPOILED=$work/first-run-spoiled
TALLYD_BIN=$work/spoiling
export REAL_TALLYD SPOILED TALLYD_BIN
show spoiled || code=$?
[ "$code" = 1 ] || fail spoiled "exit code $code in place of 1"
[ "$(ticks spoiled ✘)" = 7 ] || fail spoiled "expected seven crosses"
echo "ok demo: seven promises ticked, and seven crossed out when they are broken"
