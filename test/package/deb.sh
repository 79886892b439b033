#!/bin/sh
# SPDX-License-Identifier: MIT
# make deb from a clean copy: lintian is content, the package holds what make install would put there and nothing else, brings its
# configuration readable for root and the service alone, enables and starts nothing.
# (Installed, run, upgraded and purged it is by `make package-test`.)
set -eu
# shellcheck source=test/package/lib.sh
. "$(dirname "$0")/lib.sh"
begin deb
needs dpkg-deb dpkg-buildpackage lintian

sh scripts/deb.sh "$work/out" >"$work/log" 2>&1 || die "$(tail -n 20 "$work/log")"
deb=$(echo "$work"/out/tallyd_*.deb)
[ -f "$deb" ] || die "no package: $(ls "$work/out")"
dpkg-deb -R "$deb" "$work/deb"
echo "ok deb: ${deb##*/}, and lintian is content"

field() {
    dpkg-deb -f "$deb" "$1"
}
assert_eq 'the package' tallyd "$(field Package)"
for library in librdkafka1 libhiredis libmariadb3 libjansson4 libyaml-0-2 tzdata; do
    field Depends | grep -q "\b$library" || die "it doesn't depend on $library"
done
dpkg --validate-version "$(field Version)" || die 'the version is none'
assert_eq 'configuration files' /etc/tallyd/tallyd.yaml "$(cat "$work/deb/DEBIAN/conffiles")"
dpkg-deb -c "$deb" >"$work/contents"
grep -qE '^-rw-r----- root/root .* \./etc/tallyd/tallyd\.yaml$' "$work/contents" || die 'the configuration is open to others'

# The same files as make install's, apart from what a package has besides.
own_make install DESTDIR="$work/dest" PREFIX=/usr UNITDIR=/lib/systemd/system >"$work/log" 2>&1 || die "$(tail -n 3 "$work/log")"
list() {
    (cd "$1" && find . -path ./DEBIAN -prune -o -type f -print | sed -e '/\/man\//s/\.gz$//' \
        -e '/\/changelog\.gz$/d' -e '/\/copyright$/d' -e '/\/lintian\/overrides\//d' | sort)
}
assert_eq 'the files' "$(list "$work/dest")" "$(list "$work/deb")"
assert_eq 'the version that it tells' "$(zcat "$work/deb/usr/share/doc/tallyd/changelog.gz" | sed -n 's/.*Built from \(.*\)\.$/\1/p')" \
    "$("$work/deb/usr/bin/tallyd" --version | sed -n 's/^tallyd //p')"
assert_eq 'its default' "$(cat config/tallyd.yaml)" "$(cat "$work/deb/etc/tallyd/tallyd.yaml")"
! grep -qE 'deb-systemd-invoke +(re)?start|systemctl +(start|enable)' "$work/deb/DEBIAN/postinst" || die 'installing starts it'
sh -n "$work/deb/DEBIAN/postinst" && sh -n "$work/deb/DEBIAN/prerm" && sh -n "$work/deb/DEBIAN/postrm"
echo 'ok deb: holds what make install brings, and starts nothing'

# Versions of tags and of commits behind them: a later one is newer.
version() {
    sh scripts/deb.sh --version-of "$1"
}
assert_eq 'of a tag' 1.2.0 "$(version v1.2.0)"
assert_eq 'of a commit behind it' 1.2.0+5.g0a1b2c3 "$(version v1.2.0-5-g0a1b2c3)"
assert_eq 'with changes' 1.2.0+5.g0a1b2c3+dirty "$(version v1.2.0-5-g0a1b2c3-dirty)"
assert_eq 'of a candidate' '1.3.0~rc.1' "$(version v1.3.0-rc.1)"
older=
for newer in 0a1b2c3 v1.2.0 v1.2.0-5-g0a1b2c3 v1.2.0-12-gffffff0 v1.3.0-rc.1 v1.3.0; do
    [ -z "$older" ] || dpkg --compare-versions "$(version "$older")" lt "$(version "$newer")" || die "$newer isn't newer than $older"
    older=$newer
done
echo 'ok deb: versions follow each other'
