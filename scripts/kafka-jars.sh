#!/bin/sh
# SPDX-License-Identifier: MIT
# kafka-jars.sh: brings the Apache Kafka that scripts/kafka/pom.xml pins into the cache, once, and prints the folder of its jars.
# TALLYD_CACHE: another cache than .cache in the checkout. TALLYD_KAFKA_VERSION: another version than the pinned one.
set -eu

die() {
    echo "kafka-jars.sh: $*" >&2
    exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
pom=$root/scripts/kafka/pom.xml
pinned=$(sed -n 's|.*<kafka.version>\(.*\)</kafka.version>.*|\1|p' "$pom")
version=${TALLYD_KAFKA_VERSION:-$pinned}
cache=${TALLYD_CACHE:-$root/.cache}/kafka
dir=$cache/$version

if [ ! -d "$dir" ]; then
    command -v java >/dev/null 2>&1 || die "no java on PATH (Kafka needs 17 or newer; scripts/deps.sh installs it)"
    command -v mvn >/dev/null 2>&1 || die "no mvn on PATH (scripts/deps.sh installs it)"
    mkdir -p "$cache"
    temp=$(mktemp -d "$cache/.tmp.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    chmod 755 "$temp"
    mkdir "$temp/jars"
    # Where the network swallows packets instead of refusing them, an answer must still come in bearable time.
    timeout 900 mvn -q -B -Daether.connector.connectTimeout=10000 -f "$pom" dependency:copy-dependencies -Dkafka.version="$version" -DincludeScope=runtime \
        -DoutputDirectory="$temp/jars" </dev/null >"$temp/log" 2>&1 || {
        tail -n 15 "$temp/log" >&2
        die "Maven could not bring Kafka $version"
    }
    # Another start may have been quicker; its copy is as good.
    mv -T "$temp/jars" "$dir" 2>/dev/null || [ -d "$dir" ] || die "cannot write $dir"
fi
echo "$dir"
