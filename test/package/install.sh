#!/bin/sh
# SPDX-License-Identifier: MIT
# make install puts exactly these files there, with these modes, at each prefix; what is installed runs; a configuration that is
# there stays; make uninstall leaves nothing of it.
set -eu
# shellcheck source=test/package/lib.sh
. "$(dirname "$0")/lib.sh"
begin install

# Mode and path below DESTDIR.
installed() {
    find "$1" ! -type d -printf '%m %P\n' | sort -k 2
}

# expected PREFIX SYSCONFDIR, both without the first slash
expected() {
    sort -k 2 <<END
755 $1/bin/tallyd
644 $1/share/man/man1/tallyd.1
644 $1/share/man/man5/tallyd.yaml.5
644 $1/lib/systemd/system/tallyd.service
644 $1/lib/systemd/system/tallyd@.service
644 $1/lib/sysusers.d/tallyd.conf
644 $1/share/doc/tallyd/README.md
644 $1/share/doc/tallyd/examples/tallyd.yaml
644 $1/share/tallyd/grants.sql
644 $1/share/tallyd/redis.acl
644 $1/share/tallyd/kafka.acl
644 $1/share/tallyd/grafana/tallyd.json
644 $1/share/tallyd/prometheus/tallyd.rules.yaml
644 $1/share/tallyd/schemas/dlt-headers.schema.json
644 $1/share/tallyd/schemas/notification.schema.json
644 $1/share/tallyd/schemas/usage-event.schema.json
640 $2/tallyd/tallyd.yaml
END
}

# try PREFIX SYSCONFDIR
try() {
    dest=$work/dest
    own_make install DESTDIR="$dest" PREFIX="$1" >"$work/out" 2>&1 || die "make install: $(tail -n 3 "$work/out")"
    assert_eq "the files at PREFIX=$1" "$(expected "${1#/}" "${2#/}")" "$(installed "$dest")"
    assert_eq 'the version' "$("$tallyd" --version)" "$("$dest$1/bin/tallyd" --version)"
    "$dest$1/bin/tallyd" check -c "$dest$2/tallyd/tallyd.yaml" --print >"$work/print" || die 'its configuration is refused'
    ! grep -rE '@[a-z]+@' "$dest" --include=*.service --include=*.1 --include=*.5 || die 'a place is not filled in'
    grep -q "^ExecStart=$1/bin/tallyd run -c $2/tallyd/tallyd.yaml\$" "$dest$1/lib/systemd/system/tallyd.service" ||
        die 'the unit starts something else'

    echo 'workers: 2' >"$dest$2/tallyd/tallyd.yaml"
    own_make install DESTDIR="$dest" PREFIX="$1" >"$work/out" 2>&1 || die 'make install once more fails'
    assert_eq 'the configuration that was there' 'workers: 2' "$(cat "$dest$2/tallyd/tallyd.yaml")"
    own_make uninstall DESTDIR="$dest" PREFIX="$1" >"$work/out" || die 'make uninstall fails'
    assert_eq 'what is left with a changed configuration' "${2#/}/tallyd/tallyd.yaml" "$(installed "$dest" | cut -d ' ' -f 2)"
    grep -q '^kept, since it was changed: ' "$work/out" || die 'nothing is said of what was kept'

    rm "$dest$2/tallyd/tallyd.yaml"
    own_make install DESTDIR="$dest" PREFIX="$1" >/dev/null 2>&1 || die 'make install a third time fails'
    own_make uninstall DESTDIR="$dest" PREFIX="$1" >/dev/null || die 'make uninstall fails'
    assert_eq 'what is left' '' "$(find "$dest" ! -type d -o -name '*tallyd*')"
    own_make uninstall DESTDIR="$dest" PREFIX="$1" >/dev/null || die 'make uninstall of nothing fails'
    rm -rf "$dest"
    echo "ok install: PREFIX=$1, and away again"
}

try /usr /etc
try /usr/local /usr/local/etc
try /opt/quotas /opt/quotas/etc
