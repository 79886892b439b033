#!/bin/sh
# SPDX-License-Identifier: MIT
# The package in a fresh Debian of the release it was built on: installed with what it depends on and nothing more, run as its
# user, seen by systemd, upgraded over a configuration as it was brought and over a changed one, removed, and purged without a rest.
#
# As root: `make package-test`.
set -eu
# shellcheck source=test/package/lib.sh
. "$(dirname "$0")/lib.sh"
begin fresh_debian
[ "$(id -u)" -eq 0 ] || die 'chroot needs root: sudo make package-test'
needs debootstrap dpkg-deb systemd-analyze chroot

# shellcheck source=test/package/lib_debian.sh
. "$(dirname "$0")/lib_debian.sh"
fresh_new

# ---- two packages: this one, and the same with a higher version and another default -------------------------------------------

sh scripts/deb.sh "$work/out" >"$work/log" 2>&1 || die "$(tail -n 20 "$work/log")"
deb=$(echo "$work"/out/tallyd_*.deb)
cp "$deb" "$fresh/tallyd.deb"
dpkg-deb -R "$deb" "$work/next"
sed -i 's/^Version: .*/&+next/' "$work/next/DEBIAN/control"
echo '# the next release says more' >>"$work/next/etc/tallyd/tallyd.yaml"
dpkg-deb --root-owner-group -b "$work/next" "$fresh/next.deb" >/dev/null

# What it depends on comes first, so that the rest is its own doing.
inside_apt satisfy "$(dpkg-deb -f "$deb" Depends)"
inside_apt autoclean
rm -f "$cache"/archives/*.deb
cp "$fresh"/var/cache/apt/archives/*.deb "$cache/archives/" 2>/dev/null || :

# All paths, but for the package managers' own and the files that hold the users.
paths() {
    (cd "$fresh" && find . \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache \
        -o -path ./var/log -o -path ./tmp \) -prune -o -print | grep -vE '^\./etc/(passwd|group|shadow|gshadow)-?$|^\./etc/\.pwd\.lock$' | sort)
}
paths >"$work/before"

# ---- installed ---------------------------------------------------------------------------------------------------------

conf=/etc/tallyd/tallyd.yaml
held() {
    inside stat -c '%U:%G %a' "$conf"
}
installed() {
    # shellcheck disable=SC2016 # dpkg's
    inside dpkg-query -W -f '${Status} ${Version}' tallyd
}
inside_apt install /tallyd.deb
assert_eq 'what dpkg says' "install ok installed $(dpkg-deb -f "$deb" Version)" "$(installed)"
assert_eq 'its user' 'tallyd / /usr/sbin/nologin' "$(awk -F : '$1 == "tallyd" { print $1, $6, $7 }' "$fresh/etc/passwd")"
assert_eq 'its configuration' 'root:tallyd 640' "$(held)"
assert_eq 'files that are not as they came' '' "$(inside dpkg --verify tallyd)"
assert_eq 'links of enabled units' '' "$(find "$fresh/etc/systemd" -name 'tallyd*')"
systemd-analyze verify --man=no --root="$fresh" tallyd.service tallyd@one.service >"$work/verify" 2>&1 || die "verify: $(cat "$work/verify")"
[ ! -s "$work/verify" ] || die "verify: $(cat "$work/verify")"
for file in /usr/share/man/man1/tallyd.1.gz /usr/share/man/man5/tallyd.yaml.5.gz /usr/share/doc/tallyd/README.md \
    /usr/share/tallyd/grants.sql /usr/share/tallyd/grafana/tallyd.json /usr/share/tallyd/prometheus/tallyd.rules.yaml; do
    [ -s "$fresh$file" ] || die "$file is missing"
done
echo "ok fresh_debian: installed in Debian $release"

# ---- as its user ---------------------------------------------------------------------------------------------------------

# as USER GROUP CODE COMMAND...: its output in $work/said
as() {
    as_user=$1 as_group=$2 as_code=$3
    shift 3
    found=0
    inside setpriv --reuid="$as_user" --regid="$as_group" --clear-groups --no-new-privs --bounding-set=-all "$@" >"$work/said" 2>&1 ||
        found=$?
    [ "$found" = "$as_code" ] || die "$* as $as_user: exit code $found: $(cat "$work/said")"
}
as tallyd tallyd 0 tallyd --version
as tallyd tallyd 0 tallyd check -c "$conf" --print
grep -q '^  group_id: tallyd$' "$work/said" || die "check --print: $(cat "$work/said")"
# nobody serves it here, and it says which
as tallyd tallyd 6 tallyd run -c "$conf"
grep -q '^tallyd run: mysql: ' "$work/said" || die "run: $(cat "$work/said")"
as nobody nogroup 3 tallyd check -c "$conf" --print
echo 'ok fresh_debian: its user runs it, and nobody else reads its configuration'

# ---- upgraded, removed, purged -------------------------------------------------------------------------------------------

inside_apt install -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold /next.deb
grep -q '^# the next release says more$' "$fresh$conf" || die 'an upgrade keeps an old default'
assert_eq 'the new default' 'root:tallyd 640' "$(held)"
echo 'workers: 3' >"$fresh$conf"
inside_apt install --allow-downgrades -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold /tallyd.deb
assert_eq 'a changed configuration after an upgrade' 'workers: 3' "$(cat "$fresh$conf")"
assert_eq 'whose it is then' 'root:tallyd 640' "$(held)"
inside chgrp root "$conf"
inside chmod 600 "$conf"
inside_apt install --reinstall /tallyd.deb
assert_eq 'whose it is after an administrator took it' 'root:root 600' "$(held)"
echo 'ok fresh_debian: upgrades keep what was changed'

inside_apt remove tallyd
assert_eq 'what is left after a removal' ".$conf" "$(cd "$fresh" && find ./usr ./etc ./lib/systemd -name '*tallyd*' ! -type d ! -name '*.dpkg-*')"
inside_apt install /tallyd.deb
assert_eq 'the configuration when it comes again' 'workers: 3' "$(cat "$fresh$conf")"
inside_apt purge tallyd
paths >"$work/after"
assert_eq 'what a purge leaves' '' "$(comm -13 "$work/before" "$work/after")"
assert_eq 'what a purge takes that is not its own' '' "$(comm -23 "$work/before" "$work/after")"
# files of its user may lie on other disks
grep -q '^tallyd:' "$fresh/etc/passwd" || die 'a purge takes the user'
echo 'ok fresh_debian: removed, and purged without a rest'
