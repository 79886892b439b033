# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# A Debian of its own, of the release this machine has, for the tests that install the package: as root. The base system and the
# packages are kept below .cache, so that only the first run fetches them. Sourced after a lib.sh with root, work and die.
#
#   fresh_new               unpacks it into $fresh, a folder
#   inside COMMAND...       there
#   inside_apt ARGUMENT...  apt-get there
# shellcheck disable=SC2154 # root and work, of the lib.sh before

# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
cache=$root/.cache/debian
fresh=$work/root

# This machine's own mirrors of the release, as sources.list lines.
sources() {
    # shellcheck disable=SC2016 # apt's
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v release="$release" '$3 == "main" && ($2 == release || $2 == release "-updates" || $2 == release "-security") {
            print "deb", $1, $2, $3 }' | sort -u
}

make_base() {
    mirror=$(sources | awk -v release="$release" '$3 == release { print $2; exit }')
    [ -n "$mirror" ] || die "apt has no mirror of $release"
    debootstrap --variant=minbase "$release" "$work/base" "$mirror" >"$work/log" 2>&1 || die "debootstrap: $(tail -n 5 "$work/log")"
    tar -C "$work/base" -cf "$1.$$" .
    mv "$1.$$" "$1"
    rm -rf "$work/base"
}

inside() {
    DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 chroot "$fresh" "$@"
}

# With nothing asked; its output only when it fails.
inside_apt() {
    inside apt-get -y --no-install-recommends "$@" >"$work/log" 2>&1 </dev/null || die "apt-get $*: $(tail -n 15 "$work/log")"
}

fresh_new() {
    base=$cache/base-$release-$(dpkg --print-architecture).tar
    mkdir -p "$cache/archives" "$fresh"
    [ -s "$base" ] || make_base "$base"
    tar -C "$fresh" -xf "$base"
    sources >"$fresh/etc/apt/sources.list"
    apt-config dump | grep -E '^Acquire::(Check|http|https|Retries|ForceIPv)' >"$fresh/etc/apt/apt.conf.d/00machine" || :
    cp -L /etc/resolv.conf "$fresh/etc/resolv.conf"
    printf '#!/bin/sh\nexit 101\n' >"$fresh/usr/sbin/policy-rc.d"
    chmod 755 "$fresh/usr/sbin/policy-rc.d"
    cp "$cache"/archives/*.deb "$fresh/var/cache/apt/archives/" 2>/dev/null || :
    inside_apt update
}
