#!/bin/sh
# SPDX-License-Identifier: MIT
# deps.sh [build|test|lint|bench|package|all]: makes sure the Debian packages of that group are installed (default all).
# Silent and quick when they are; installs them as root; otherwise prints the one command that does.
set -eu

BUILD='gcc make pkg-config librdkafka-dev libhiredis-dev default-libmysqlclient-dev libjansson-dev libyaml-dev libmicrohttpd-dev'
TEST='check redis-server mariadb-server kcat jq curl chromium chromium-driver procps openssl tzdata libclang-rt-14-dev clang'
LINT='clang clang-tidy clang-format cppcheck shellcheck'
BENCH='gnuplot-nox'
# prometheus for its promtool, systemd for systemd-analyze; neither is started
PACKAGE='debhelper dpkg-dev fakeroot lintian mandoc systemd prometheus debootstrap'
JAVA_WANTED=17

# The major version of the java on PATH; 0 when there is none.
java_major() {
    command -v java >/dev/null 2>&1 || { echo 0; return; }
    java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1 | grep . || echo 0
}

# A Java or Maven that came some other way than as a package is as good.
java_packages() {
    [ "${TALLYD_BROKER:-}" != embedded ] || return 0
    [ "$(java_major)" -ge "$JAVA_WANTED" ] || echo "openjdk-$JAVA_WANTED-jre-headless"
    command -v mvn >/dev/null 2>&1 || echo maven
}

missing_of() {
    for package in "$@"; do
        state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) || state=
        case $state in
        ?i*) ;;
        *) echo "$package" ;;
        esac
    done
}

# Debian starts a server's system service as it installs it; the tests run their own, and a machine's owner didn't ask for one.
policy=/usr/sbin/policy-rc.d
own_policy=
forbid_services() {
    [ ! -e "$policy" ] || return 0
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    own_policy=$policy
    chmod 755 "$policy"
}
allow_services() {
    [ -z "$own_policy" ] || rm -f "$own_policy"
}

group=${1:-all}
case $group in
build) wanted=$BUILD ;;
test) wanted="$BUILD $TEST $PACKAGE" ;;
lint) wanted="$BUILD $LINT check" ;;
bench) wanted="$BUILD $TEST $BENCH" ;;
package) wanted="$BUILD $PACKAGE" ;;
all) wanted="$BUILD $TEST $LINT $BENCH $PACKAGE" ;;
*)
    echo "usage: deps.sh [build|test|lint|bench|package|all]" >&2
    exit 2
    ;;
esac

command -v dpkg-query >/dev/null 2>&1 || {
    echo "deps.sh: not a Debian system; needed are: $wanted, Java >= $JAVA_WANTED and Maven" >&2
    exit 1
}
# shellcheck disable=SC2086 # a list of words
missing=$(missing_of $wanted)
java=
case $group in
test | bench | all) java=$(java_packages) ;;
esac
[ -n "$missing$java" ] || exit 0

install='apt-get install -y --no-install-recommends'
if [ "$(id -u)" -ne 0 ]; then
    # shellcheck disable=SC2086 # lists of words, in one line
    echo "deps.sh: packages are missing; run: sudo sh -c 'apt-get update && $install" $missing $java"'" >&2
    # without Java there is the embedded broker
    [ -z "$missing" ] && [ "${TALLYD_REQUIRE_KAFKA:-}" != 1 ]
    exit
fi

trap allow_services EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
forbid_services
log=$(mktemp)

# bring PACKAGE...
bring() {
    echo "deps.sh: installing $*" >&2
    DEBIAN_FRONTEND=noninteractive $install "$@" >>"$log" 2>&1 </dev/null || {
        tail -n 20 "$log" >&2
        echo "deps.sh: could not install $*; the whole log is $log" >&2
        return 1
    }
}

apt-get update >"$log" 2>&1 </dev/null || :
# shellcheck disable=SC2086 # lists of words
[ -z "$missing" ] || bring $missing || exit 1
# What Java is for can be done without, less well: a machine that can't have it still gets the rest.
# shellcheck disable=SC2086 # lists of words
if [ -n "$java" ] && ! bring $java && [ "${TALLYD_REQUIRE_KAFKA:-}" = 1 ]; then
    exit 1
fi
rm -f "$log"
