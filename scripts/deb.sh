#!/bin/sh
# SPDX-License-Identifier: MIT
# deb.sh [BUILD]: makes BUILD/tallyd_VERSION_ARCH.deb from a clean copy of the sources, and has lintian look at it.
# deb.sh --version-of DESCRIPTION: the package's version for what `git describe` says.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

# The sources as they stand here: what git knows or would take; without git, everything but what was built.
sources() {
    git ls-files -z --cached --others --exclude-standard -- . ':!.cache' 2>/dev/null ||
        find . \( -path './build*' -o -path ./.cache \) -prune -o -type f -print0
}
copy_sources() {
    # one that was deleted and isn't committed yet is still listed
    sources | tar --null --verbatim-files-from --ignore-failed-read -T - -cf - 2>/dev/null | tar -xf - -C "$1"
}

# When the last commit was made, as a part of a version.
stamp() {
    TZ=UTC git log -1 --format=%cd --date=format-local:%Y%m%d.%H%M%S 2>/dev/null || date -u +%Y%m%d.%H%M%S
}

# Of tag v1.2.0 it's 1.2.0, of the fifth commit behind it 1.2.0+5.gHASH, of v1.2.0-rc.1 1.2.0~rc.1; with no tag 0~git, the commit's
# time and its hash, so that a later one's is newer; with changes on top +dirty.
debian_version() {
    case $1 in
    v[0-9]*) echo "$1" | sed -e 's/^v//' -e 's/-dirty$/+dirty/' -e 's/-\([0-9]*\)-g\([0-9a-f]*\)/+\1.g\2/' -e 's/-/~/g' ;;
    *) echo "0~git$(stamp).$1" | sed -e 's/-dirty$/+dirty/' -e 's/-/./g' ;;
    esac
}

changelog() {
    printf 'tallyd (%s) bookworm; urgency=medium\n\n  * Built from %s.\n\n -- %s  %s\n' "$debian" "$version" \
        "$(sed -n 's/^Maintainer: //p' scripts/debian/control)" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
}

if [ "${1:-}" = --version-of ]; then
    debian_version "$2"
    exit
fi

build=$(mkdir -p "${1:-build}" && cd "${1:-build}" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
debian=$(debian_version "$version")
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH TALLYD_VERSION="$version"

mkdir "$work/tallyd"
copy_sources "$work/tallyd"
cp -R scripts/debian "$work/tallyd/debian"
chmod 755 "$work/tallyd/debian/rules"
changelog >"$work/tallyd/debian/changelog"

# of a make around this one nothing goes in
unset MAKEFLAGS MFLAGS MAKELEVEL BUILD STAGE CFLAGS LDFLAGS LIBS SANITIZE FAULTS DESTDIR PREFIX 2>/dev/null || :
(cd "$work/tallyd" && dpkg-buildpackage -b -us -uc -rfakeroot -j2) >"$work/log" 2>&1 || {
    cp "$work/log" "$build/deb.log"
    tail -n 30 "$work/log" >&2
    echo "deb.sh: the package could not be built; the whole log is $build/deb.log" >&2
    exit 1
}
rm -f "$build"/tallyd_*.deb "$build"/tallyd-dbgsym_*.deb
mv "$work"/*.deb "$build/"

lintian --allow-root --fail-on error,warning "$build"/tallyd_*.deb "$build"/tallyd-dbgsym_*.deb
ls "$build"/tallyd_*.deb
