#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh install|uninstall|list: what `make install` puts where, `make uninstall` takes away again.
#
# From the environment, set by Makefile: BUILD, STAGE, DESTDIR, BINDIR, MANDIR, DATADIR, DOCDIR, SYSCONFDIR, UNITDIR,
# SYSUSERSDIR. `list` prints every file's path, without DESTDIR.
set -eu
cd "$(dirname "$0")/.."

conf=$SYSCONFDIR/tallyd/tallyd.yaml
sample=config/tallyd.yaml

# Everything but the configuration, a line each: mode, source, target.
files() {
    share=$DATADIR/tallyd
    cat <<END
0755 $BUILD/tallyd $BINDIR/tallyd
0644 $STAGE/tallyd.1 $MANDIR/man1/tallyd.1
0644 $STAGE/tallyd.yaml.5 $MANDIR/man5/tallyd.yaml.5
0644 $STAGE/tallyd.service $UNITDIR/tallyd.service
0644 $STAGE/tallyd@.service $UNITDIR/tallyd@.service
0644 config/systemd/tallyd.sysusers $SYSUSERSDIR/tallyd.conf
0644 $sample $DOCDIR/examples/tallyd.yaml
0644 README.md $DOCDIR/README.md
0644 config/grants.sql $share/grants.sql
0644 config/redis.acl $share/redis.acl
0644 config/kafka.acl $share/kafka.acl
0644 config/grafana/tallyd.json $share/grafana/tallyd.json
0644 config/prometheus/tallyd.rules.yaml $share/prometheus/tallyd.rules.yaml
END
    for schema in config/schemas/*.json; do
        echo "0644 $schema $share/schemas/${schema##*/}"
    done
}

# The configuration is the machine's: only put there when there is none. It may come to hold passwords.
install_conf() {
    [ ! -e "$DESTDIR$conf" ] || return 0
    install -D -m 0640 "$sample" "$DESTDIR$conf"
    # a package does that when it is configured
    if [ -z "$DESTDIR" ] && [ "$(id -u)" -eq 0 ] && getent group tallyd >/dev/null; then
        chgrp tallyd "$conf"
    fi
}

install_all() {
    files | while read -r mode from to; do
        install -D -m "$mode" "$from" "$DESTDIR$to"
    done
    install_conf
}

# A configuration that somebody changed stays.
uninstall_all() {
    files | while read -r _ _ to; do
        rm -f "$DESTDIR$to"
    done
    if cmp -s "$sample" "$DESTDIR$conf"; then
        rm -f "$DESTDIR$conf"
    elif [ -e "$DESTDIR$conf" ]; then
        echo "kept, since it was changed: $DESTDIR$conf"
    fi
    for folder in "$DATADIR/tallyd/schemas" "$DATADIR/tallyd/grafana" "$DATADIR/tallyd/prometheus" "$DATADIR/tallyd" \
        "$DOCDIR/examples" "$DOCDIR" "$SYSCONFDIR/tallyd"; do
        rmdir "$DESTDIR$folder" 2>/dev/null || :
    done
}

case ${1:-} in
install) install_all ;;
uninstall) uninstall_all ;;
list)
    files | cut -d ' ' -f 3
    echo "$conf"
    ;;
*)
    echo 'usage: install.sh install|uninstall|list' >&2
    exit 2
    ;;
esac
