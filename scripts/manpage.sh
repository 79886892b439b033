#!/bin/sh
# SPDX-License-Identifier: MIT
# manpage.sh TEMPLATE BINARY: a manual page in mdoc, from the template and what is said elsewhere already, so that it can't
# differ: the commands from the binary's own help, the keys from config/tallyd.yaml.
#
# From the environment: SYSCONFDIR, DATADIR, DOCDIR; SOURCE_DATE_EPOCH for the date, which otherwise is the last commit's.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
template=$1
binary=$2
[ -x "$binary" ] || { echo "manpage.sh: $binary: isn't there" >&2; exit 1; }
LC_ALL=C
export LC_ALL

page_date() {
    seconds=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}
    echo "$(date -u -d "@$seconds" +%B) $(date -u -d "@$seconds" '+%-d, %Y')"
}

# The commands, in help's own order.
commands() {
    "$binary" help | sed -n 's/^  tallyd \([a-z]*\).*/\1/p' | awk '!seen[$0]++'
}

commands_text() {
    for command in $(commands); do
        "$binary" help "$command" | awk -v part=page -v command="$command" -f "$here/manpage_text.awk" -f "$here/manpage.awk"
    done
}

# help's last lines hold the codes, as a sentence.
codes_text() {
    "$binary" help | awk -v part=codes -f "$here/manpage_text.awk" -f "$here/manpage.awk"
}

keys_text() {
    awk -v part="$1" -f "$here/manpage_text.awk" -f "$here/manpage_keys.awk" "$here/../config/tallyd.yaml"
}

date=$(page_date)
while IFS= read -r line; do
    case $line in
    @commands@) commands_text ;;
    @codes@) codes_text ;;
    @intro@) keys_text intro ;;
    @keys@) keys_text keys ;;
    *) printf '%s\n' "$line" ;;
    esac
done <"$template" | sed -e "s|@date@|$date|" -e "s|@sysconfdir@|$SYSCONFDIR|g" -e "s|@datadir@|$DATADIR|g" -e "s|@docdir@|$DOCDIR|g"
