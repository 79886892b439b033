#!/bin/sh
# SPDX-License-Identifier: MIT
# The units are sound, confine the daemon within a tight bound, and fit the configuration's own time limits; the user they name
# can be made; secrets come in as systemd hands them over.
set -eu
# shellcheck source=test/package/lib.sh
. "$(dirname "$0")/lib.sh"
begin unit
needs systemd-analyze systemd-sysusers

own_make package PREFIX=/usr BINDIR="$root/$build" >"$work/out" 2>&1 || die "make package: $(tail -n 3 "$work/out")"

# What verify and security say of a unit; neither may say anything against it.
verify() {
    systemd-analyze verify --man=no "$1" >"$work/verify" 2>&1 && [ ! -s "$work/verify" ]
}
# Of 0 … 100. What is left is that it talks to networks and to local sockets and sees the machine's programs; where ProtectClock
# opens the clock for reading that is all of devices.
bound=11
left='RootDirectory=|RestrictAddressFamilies=~AF_UNIX|RestrictAddressFamilies=~AF_\(INET\|INET6\)|PrivateNetwork=|IPAddressDeny=|DeviceAllow=.*char-rtc:r$'
secure() {
    systemd-analyze security --offline=true --no-pager --threshold=$bound "$1" >"$work/security" 2>&1 || return 1
    sed 's/  *[0-9.]* *$//' "$work/security" | grep '✗' | grep -vE "✗ ($left)" >"$work/open" || :
    [ ! -s "$work/open" ]
}
for unit in tallyd.service tallyd@.service; do
    verify "$work/stage/$unit" || die "$unit: $(cat "$work/verify")"
    secure "$work/stage/$unit" || die "$unit: $(tail -n 1 "$work/security"): $(grep '✗' "$work/security")"
    echo "ok unit: $unit:$(sed -n 's/.*Overall exposure level for [^:]*:/ exposure/p' "$work/security")"
done

# Both can fail.
mkdir "$work/worse"
for key in MemoryDenyWriteExecute ProtectProc CapabilityBoundingSet SystemCallFilter PrivateDevices; do
    sed "/^$key=/d" "$work/stage/tallyd.service" >"$work/worse/tallyd.service"
    ! secure "$work/worse/tallyd.service" || die "nobody notices that $key is missing"
done
sed 's/^Restart=.*/Restart=sometimes/' "$work/stage/tallyd.service" >"$work/worse/tallyd.service"
! verify "$work/worse/tallyd.service" || die 'verify takes anything'

# of UNIT KEY
value() {
    sed -n "s/^$2=//p" "$work/stage/$1"
}
assert_eq 'tallyd.service runs' "$root/$build/tallyd run -c /etc/tallyd/tallyd.yaml" "$(value tallyd.service ExecStart)"
assert_eq 'tallyd@.service runs' "$root/$build/tallyd run -c /etc/tallyd/%i.yaml" "$(value tallyd@.service ExecStart)"
assert_eq 'where the two differ' 4 "$(diff "$work/stage/tallyd.service" "$work/stage/tallyd@.service" | grep -c '^>')"

# The defaults, in milliseconds.
touch "$work/empty.yaml"
"$tallyd" check -c "$work/empty.yaml" --print >"$work/print"
# SECTION KEY
default() {
    awk -v section="$1:" -v key="$2:" '/^[^ ]/ { inside = $1 == section } inside && $1 == key { print $2; exit }' "$work/print"
}
# less WHAT A B
less() {
    [ "$2" -lt "$3" ] || die "$1: $2 isn't less than $3"
}
less 'the deadline of a shutdown and systemd' "$(default shutdown deadline_ms)" "$(value tallyd.service TimeoutStopSec)000"
less 'a read of MySQL and the watchdog' "$(default mysql timeout_ms)" "$(value tallyd.service WatchdogSec)000"
less 'the watchdog and the group' "$(value tallyd.service WatchdogSec)000" "$(default kafka max_poll_interval_ms)"
echo 'ok unit: its time limits fit the configuration'

mkdir -p "$work/user/etc" "$work/user/usr/lib/sysusers.d"
cp config/systemd/tallyd.sysusers "$work/user/usr/lib/sysusers.d/tallyd.conf"
for _ in first again; do
    systemd-sysusers --root="$work/user" tallyd.conf >"$work/out" 2>&1 || die "systemd-sysusers: $(cat "$work/out")"
done
assert_eq 'the user' 'tallyd / /usr/sbin/nologin' "$(awk -F : '{ print $1, $6, $7 }' "$work/user/etc/passwd")"
assert_eq 'the group' "$(value tallyd.service Group)" "$(cut -d : -f 1 "$work/user/etc/group")"
echo 'ok unit: the user it runs as can be made'

# As LoadCredential= does it: a folder of the service's own, files that it alone can read.
mkdir "$work/credentials"
printf 'se cret\n' >"$work/credentials/mysql.password"
chmod 0400 "$work/credentials/mysql.password"
# shellcheck disable=SC2016 # for tallyd to fill in
printf 'mysql:\n  password: file:${CREDENTIALS_DIRECTORY}/mysql.password\n' >"$work/secret.yaml"
CREDENTIALS_DIRECTORY=$work/credentials "$tallyd" check -c "$work/secret.yaml" --print >"$work/print" || die 'a credential is refused'
! grep -q 'se cret' "$work/print" || die 'a credential is shown'
found=0
env -u CREDENTIALS_DIRECTORY "$tallyd" check -c "$work/secret.yaml" --print >"$work/out" 2>&1 || found=$?
assert_eq 'without the folder: exit code' 3 "$found"
grep -qF 'secret.yaml:2: mysql.password' "$work/out" || die "without the folder: $(cat "$work/out")"
echo 'ok unit: a secret comes in by LoadCredential='
