#!/bin/sh
# SPDX-License-Identifier: MIT
# The package under a real systemd, the first process of a fresh Debian in namespaces of its own: confined as the unit says tallyd starts,
# is ready when it says so, settles, feeds the watchdog, is started anew when it hangs, takes SIGHUP, stops with nothing lost; a wrong
# configuration isn't tried again. Needs a stack, which it starts by itself, and root.
set -eu
[ "$(id -u)" -eq 0 ] || {
    echo 'FAILED systemd: namespaces need root: sudo make package-test' >&2
    exit 1
}
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
begin systemd 3
# shellcheck source=test/package/lib_debian.sh
. "$(dirname "$0")/lib_debian.sh"

cgroup=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/tallyd-test-$$
init=

# Everything in the namespaces ends with their first process.
leave() {
    [ -z "$init" ] || kill -s KILL "$init" 2>/dev/null || :
    leave_tries=0
    while [ -d "$cgroup" ] && [ "$leave_tries" -lt 50 ]; do
        find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
        leave_tries=$((leave_tries + 1))
    done
    finish
}
trap leave EXIT

# ---- a Debian with the package, and systemd on it --------------------------------------------------------------------------

sh scripts/deb.sh "$work/out" >"$work/log" 2>&1 || die "$(tail -n 20 "$work/log")"
fresh_new
cp "$work"/out/tallyd_*.deb "$fresh/tallyd.deb"
inside_apt install systemd /tallyd.deb
runs_as=$(inside id -u tallyd)

# The commands of the machine inside.
in_it() {
    nsenter -t "$init" --mount --uts --ipc --pid --cgroup --root --wd "$@"
}

booted() {
    init=$(cat "/proc/$launched/task/$launched/children" 2>/dev/null) && init=${init% } && [ -n "$init" ] &&
        [ "$(in_it systemctl is-system-running 2>/dev/null)" = running ]
}

mkdir "$cgroup"
# shellcheck disable=SC2016 # of the shell inside
launch boot sh -c 'echo $$ >"$1/cgroup.procs" && exec unshare --mount --uts --ipc --pid --cgroup --fork --kill-child sh "$2" "$3"' \
    sh "$cgroup" "$root/test/package/boot.sh" "$fresh"
await 'systemd runs' 60 booted
echo "ok systemd: $(in_it systemctl --version | head -n 1) is the first process of Debian $release"

# ---- started ------------------------------------------------------------------------------------------------------------------

conf=$fresh/etc/tallyd/tallyd.yaml
unit_is() {
    in_it systemctl show -P "$1" tallyd
}
says() {
    in_it journalctl -q -u tallyd -o cat --no-pager
}
said() {
    says | grep -q "$1"
}
is_ready() {
    [ "$(unit_is StatusText)" = ready ]
}

# The password comes as README says.
restrict_password=$run_password
run_password="'file:\${CREDENTIALS_DIRECTORY}/redis.password'"
configure "$work/service.yaml" 'log: {level: info}'
run_password=$restrict_password
mkdir "$fresh/etc/tallyd/secrets" "$fresh/etc/systemd/system/tallyd.service.d"
chmod 700 "$fresh/etc/tallyd/secrets"
printf '%s\n' "$MYSQL_PASSWORD" >"$fresh/etc/tallyd/secrets/redis.password"
cat "$work/service.yaml" >"$conf" # which stays as the package brought it: root's, and readable for the group
# A short watchdog, to see it at work.
cat >"$fresh/etc/systemd/system/tallyd.service.d/test.conf" <<'END'
[Service]
LoadCredential=redis.password:/etc/tallyd/secrets/redis.password
WatchdogSec=2
RestartSec=100ms
END
in_it systemctl daemon-reload
simulate events --seed-db --families 60 --count 1000 --rate 0 --broken 0.02

in_it systemctl start tallyd || die "start: $(says | tail -n 12)"
# start returns when it's told READY=1, which comes when all has begun
said '"event":"started"' || die 'start returns before it has begun'
assert_eq 'what it is' 'active running' "$(unit_is ActiveState) $(unit_is SubState)"
await 'ready' 30 is_ready
await 'all is settled and told' 60 caught_up
settled_all events
pid=$(unit_is MainPID)
confined() {
    # shellcheck disable=SC2016 # awk's
    in_it awk '/^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):/ { printf "%s%s", sep, $2; sep = " " }' "/proc/$1/status"
}
assert_eq 'who it is, what it may, and how it is confined' "$runs_as 0000000000000000 0000000000000000 1 2" "$(confined "$pid")"
in_it systemd-cgls -u tallyd --no-pager | grep -q "$pid" || die 'it is in no group of its own'
echo 'ok systemd: confined as its unit says it starts, is ready and settles'

# ---- the watchdog -------------------------------------------------------------------------------------------------------------

fed_for() {
    [ $(($(unit_is WatchdogTimestampMonotonic) - $(unit_is ActiveEnterTimestampMonotonic))) -gt "$1" ]
}
await 'it was fed for three times as long as it waits' 30 fed_for 6000000
assert_eq 'restarts of one that is alive' 0 "$(unit_is NRestarts)"

in_it kill -s STOP "$pid"
restarted() {
    [ "$(unit_is NRestarts)" = 1 ] && is_ready
}
await 'one that hangs is started anew' 60 restarted
in_it journalctl -q -u tallyd -o cat --no-pager | grep -q 'Watchdog timeout' || die 'it was something else'
simulate more --families 60 --count 1000 --rate 0 --seed 5
await 'what came meanwhile is settled' 60 caught_up
settled_all events more
echo 'ok systemd: the watchdog is fed, and ends one that hangs'

# ---- SIGHUP, the end, a wrong configuration -------------------------------------------------------------------------------------

sed -i 's/level: info/level: debug/' "$conf"
in_it systemctl reload tallyd
await 'it takes the level' 10 said '"event":"log_level_changed","from":"info","to":"debug"'
sed -i 's/level: debug/level: loud/' "$conf"
in_it systemctl reload tallyd
await 'it says what is wrong' 10 said '"event":"reload_failed"'
assert_eq 'after two reloads' 'active running 1' "$(unit_is ActiveState) $(unit_is SubState) $(unit_is NRestarts)"

in_it systemctl stop tallyd
assert_eq 'after a stop' 'inactive success 0' "$(unit_is ActiveState) $(unit_is Result) $(unit_is ExecMainStatus)"
says | grep -q '"event":"stopped"' || die 'it was cut off'
committed_below_ledger
promises_hold

if in_it systemctl start tallyd 2>/dev/null; then
    die 'it starts with a wrong configuration'
fi
assert_eq 'with a wrong configuration' 'failed 3' "$(unit_is ActiveState) $(unit_is ExecMainStatus)"
says | grep -q 'tallyd.yaml:.*log.level' || die "it doesn't say what is wrong: $(says | tail -n 3)"
echo 'ok systemd: it takes SIGHUP, stops with nothing lost, and a wrong configuration is not tried again'
