#!/bin/sh
# SPDX-License-Identifier: MIT
# units.sh BINDIR SYSCONFDIR [instance]: the systemd unit with its paths filled in; with `instance` the template
# tallyd@.service, whose instance NAME runs on SYSCONFDIR/tallyd/NAME.yaml.
set -eu
source=$(dirname "$0")/../config/systemd/tallyd.service.in

# Where an instance differs.
instances() {
    if [ "${1:-}" = instance ]; then
        # shellcheck disable=SC2016 # backquotes of a comment
        sed -e 's|tallyd/tallyd\.yaml$|tallyd/%i.yaml|' -e 's|^\(Description=tallyd\)|\1 (%i)|' \
            -e 's|^\(SyslogIdentifier=tallyd\)|\1-%i|' -e 's|`systemctl edit tallyd`|`systemctl edit tallyd@NAME`|'
    else
        cat
    fi
}

sed -e "s|@bindir@|$1|g" -e "s|@sysconfdir@|$2|g" "$source" | instances "${3:-}"
