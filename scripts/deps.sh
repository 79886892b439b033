#!/bin/sh
# SPDX-License-Identifier: MIT
# deps.sh [build|test|lint|all]: makes sure the Debian packages of that group are installed (default all).
# Silent and quick when they are; installs them as root; otherwise prints the one command that does.
set -eu

BUILD='gcc make pkg-config librdkafka-dev libhiredis-dev default-libmysqlclient-dev libjansson-dev libyaml-dev libmicrohttpd-dev'
TEST='check redis-server mariadb-server kcat jq procps openssl tzdata libclang-rt-14-dev clang'
LINT='clang clang-tidy clang-format cppcheck shellcheck'
JAVA_WANTED=17

# The major version of the java on PATH; 0 when there is none.
java_major() {
    command -v java >/dev/null 2>&1 || { echo 0; return; }
    java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1 | grep . || echo 0
}

# A Java or Maven that came some other way than as a package is as good.
java_packages() {
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
test) wanted="$BUILD $TEST" ;;
lint) wanted="$BUILD $LINT check" ;;
all) wanted="$BUILD $TEST $LINT" ;;
*)
    echo "usage: deps.sh [build|test|lint|all]" >&2
    exit 2
    ;;
esac

command -v dpkg-query >/dev/null 2>&1 || {
    echo "deps.sh: not a Debian system; needed are: $wanted, Java >= $JAVA_WANTED and Maven" >&2
    exit 1
}
# shellcheck disable=SC2086 # a list of words
missing=$(missing_of $wanted)
case $group in
test | all) missing="$missing $(java_packages)" ;;
esac
# shellcheck disable=SC2086 # a list of words
set -- $missing
[ $# -gt 0 ] || exit 0

install="apt-get install -y --no-install-recommends $*"
if [ "$(id -u)" -ne 0 ]; then
    echo "deps.sh: packages are missing; run: sudo sh -c 'apt-get update && $install'" >&2
    exit 1
fi

trap allow_services EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
forbid_services
log=$(mktemp)
echo "deps.sh: installing $*" >&2
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    echo "deps.sh: could not install $*; the whole log is $log" >&2
    exit 1
fi
rm -f "$log"
