#!/bin/sh
# SPDX-License-Identifier: MIT
# A private Redis, MariaDB and Apache Kafka on free loopback ports, with all they own in one folder:
#
#   stack.sh start [--kafka-partitions N] [DIR]   starts the three and makes the topics; prints DIR (by default a temporary one)
#   stack.sh status DIR                           one line a server; 0 when all answer
#   stack.sh stop DIR                             ends them and removes DIR; harmless when that's done already
#   stack.sh stop-one DIR SERVER [SIGNAL]         ends redis, mysql or kafka by TERM (or SIGNAL, say KILL) and keeps its data
#   stack.sh start-one DIR SERVER                 starts it again on the same port and data (this Redis comes back empty)
#   stack.sh topics DIR [PARTITIONS]              makes the topics anew, empty
#
# DIR/env holds shell assignments for clients; DIR/SERVER/pid and DIR/SERVER/log are what their names say.
# TALLYD_CACHE: where Kafka is kept (.cache). TALLYD_BUILD: where the helper tools are built (build).
# TALLYD_STACK_TIMEOUT: seconds that a server may take to answer (60).
# TALLYD_STACK_JAVA: an option for how Kafka's JVM compiles, in place of quickly rather than well.
# TALLYD_STACK_KAFKA: more lines for the broker's properties, with commas between.
# TALLYD_STACK_MYSQL: more lines for MariaDB's configuration, with commas between; they win over the small settings that suit tests.
#
# Where Apache Kafka can't be had, the embedded broker (test/tool/broker.c) stands in and says so; then BROKER_KIND in DIR/env is
# embedded-broker. It makes no topics anew, and can't come back once it has ended.
# TALLYD_BROKER=embedded: that one in any case. TALLYD_REQUIRE_KAFKA=1: Apache Kafka or no start.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
self=$root/scripts/stack.sh
build=${TALLYD_BUILD:-build}
case $build in
/*) ;;
*) build=$root/$build ;;
esac
cache=${TALLYD_CACHE:-$root/.cache}
timeout=${TALLYD_STACK_TIMEOUT:-60}
SERVERS='redis mysql kafka'
TOPICS='usage-events notification-events usage-events.DLT'
# Debian keeps the servers where an ordinary user's PATH doesn't look.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() {
    echo "stack.sh: $*" >&2
}
die() {
    say "$*"
    exit 1
}
usage() {
    sed -n 's/^#   stack/stack/p' "$self" >&2
    exit 2
}
pause() {
    sleep 0.03
}
now() {
    date +%s
}

# ---- processes ----------------------------------------------------------------------------------------------------

# When the process began, which tells it from a later one with the same id; nothing when it's gone or a zombie.
birth() {
    birth_stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    # The fields after the name, which may hold anything: 1 is the state, 20 the start time.
    # shellcheck disable=SC2086 # a list of fields
    set -- ${birth_stat##*) }
    [ "$1" = Z ] || echo "${20}"
}

record() {
    echo "$2" >"$1/pid" && birth "$2" >"$1/birth"
} 2>/dev/null

# Does the process still run that was recorded in this folder?
alive() {
    { read -r alive_pid <"$1/pid" && read -r alive_birth <"$1/birth"; } 2>/dev/null || return 1
    [ -n "$alive_birth" ] && [ "$(birth "$alive_pid")" = "$alive_birth" ]
}

# launch DIR/SERVER CMD...: in a session of its own, so that a Ctrl-C meant for a test leaves the servers to us.
launch() {
    rm -f "$1/pid" "$1/birth"
    setsid sh "$self" run-server "$@" </dev/null >>"$1/log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
    until alive "$1"; do
        [ -n "$(birth $!)" ] || return 1
        pause
    done
}

# The other half of launch. Whoever stops a stack first says so (the file "stopping") and then reads the pids; so a server whose
# pid came too late to be read sees the file, or its folder gone, and doesn't begin.
run_server() {
    run_dir=$1
    shift
    record "$run_dir" $$ || exit 1
    [ ! -e "$run_dir/../stopping" ] && [ -s "$run_dir/birth" ] || exit 1
    exec "$@"
}

# await DIR SERVER: until it answers; fails when it ended, took too long or isn't wanted any more.
await() {
    await_end=$(($(now) + timeout))
    until "${2}_answers" "$1" >/dev/null 2>&1; do
        alive "$1/$2" && [ ! -e "$1/stopping" ] && [ "$(now)" -le "$await_end" ] || return 1
        pause
    done
    alive "$1/$2"
}

# signal DIR/SERVER SIGNAL: also to one that a test has frozen.
signal() {
    alive "$1" || return 0
    kill -s "$2" "$alive_pid" 2>/dev/null || return 0
    kill -s CONT "$alive_pid" 2>/dev/null || return 0
}

# Waits until it has ended; KILL comes after the deadline.
await_end() {
    end_deadline=$(($(now) + 15))
    while alive "$1"; do
        if [ "$(now)" -gt "$end_deadline" ]; then
            say "$1 doesn't end; killing it"
            signal "$1" KILL
            end_deadline=$(($(now) + 15))
        fi
        pause
    done
}

# ---- what each server needs: configure DIR PORT PORT PORT, prepare DIR (its data, once), command DIR, answers DIR ---------

redis_configure() {
    cat >"$1/redis/redis.conf" <<EOF
bind 127.0.0.1
port $2
protected-mode yes
dir $1/redis
daemonize no
save ""
appendonly no
maxmemory-policy noeviction
enable-debug-command local
EOF
    echo "$2" >"$1/redis/port"
}
redis_prepare() {
    :
}
redis_launch() {
    launch "$1/redis" redis-server "$1/redis/redis.conf"
}
# By process id: on a clash of ports another stack's server would answer as well.
redis_answers() {
    timeout 5 redis-cli -h 127.0.0.1 -p "$(cat "$1/redis/port")" info server | grep -q "^process_id:$(cat "$1/redis/pid")[^0-9]*\$"
}

mysql_configure() {
    cat >"$1/mysql/my.cnf" <<EOF
[mysqld]
datadir=$1/mysql/data
tmpdir=$1/mysql/tmp
socket=$1/mysql/sock
pid-file=$1/mysql/data/server.pid
user=$(id -un)
bind-address=127.0.0.1
port=$2
skip-networking=OFF
skip-name-resolve
skip-log-bin
init-file=$1/mysql/init.sql
character-set-server=utf8mb4
performance-schema=OFF
innodb-buffer-pool-size=256M
innodb-log-file-size=64M
innodb-flush-log-at-trx-commit=1
innodb-buffer-pool-dump-at-shutdown=OFF
innodb-buffer-pool-load-at-startup=OFF
max-connections=100
$(echo "${TALLYD_STACK_MYSQL:-}" | tr ',' '\n')
EOF
    echo "$2" >"$1/mysql/port"
}
# The password only keeps strangers on the machine out; clients read it from DIR/env.
mysql_prepare() {
    # of its own: a server that starts clears what another one has in a shared one
    mkdir "$1/mysql/tmp"
    timeout 120 mariadb-install-db --no-defaults --datadir="$1/mysql/data" --tmpdir="$1/mysql/tmp" --user="$(id -un)" --skip-test-db --skip-name-resolve \
        --auth-root-authentication-method=socket --auth-root-socket-user="$(id -un)" </dev/null >>"$1/mysql/log" 2>&1 || return 1
    mysql_password=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
    echo "$mysql_password" >"$1/mysql/password"
    {
        echo "CREATE DATABASE IF NOT EXISTS tallyd CHARACTER SET utf8mb4;"
        for mysql_from in localhost 127.0.0.1; do
            cat <<EOF
CREATE USER IF NOT EXISTS tallyd@'$mysql_from' IDENTIFIED BY '$mysql_password';
GRANT ALL ON tallyd.* TO tallyd@'$mysql_from';
GRANT ALL ON \`tallyd\\_%\`.* TO tallyd@'$mysql_from';
EOF
        done
    } >"$1/mysql/init.sql"
}
mysql_launch() {
    launch "$1/mysql" mariadbd --defaults-file="$1/mysql/my.cnf"
}
# As the tests' user: a failing init.sql would only be a line in the log.
mysql_answers() {
    timeout 5 mariadb --no-defaults -h localhost -S "$1/mysql/sock" -u tallyd -p"$(cat "$1/mysql/password")" -e "DO 1" tallyd
}

# Does the embedded broker stand in for Kafka in this stack?
embedded() {
    [ ! -e "$1/kafka/home" ]
}

# Test topics are small and many; the rest shortens starts, joins and restarts. Whoever comes by the plain listener may do
# everything; the second one knows a user who may do what ACLs grant.
kafka_configure() {
    ! embedded "$1" || return 0
    kafka_password=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
    cat >"$1/kafka/server.properties" <<EOF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$3
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$2,CONTROLLER://127.0.0.1:$3,USERS://127.0.0.1:$4
advertised.listeners=PLAINTEXT://127.0.0.1:$2,USERS://127.0.0.1:$4
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.users.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_tallyd="$kafka_password";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
inter.broker.listener.name=PLAINTEXT
log.dirs=$1/kafka/data
auto.create.topics.enable=false
default.replication.factor=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
controller.quorum.election.timeout.ms=200
controller.quorum.election.backoff.max.ms=100
controller.quorum.fetch.timeout.ms=500
log.index.size.max.bytes=1048576
log.cleaner.dedupe.buffer.size=16777216
$(echo "${TALLYD_STACK_KAFKA:-}" | tr ',' '\n')
EOF
    cat >"$1/kafka/log4j2.properties" <<EOF
status=error
appenders=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %c{1}: %m%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
EOF
    mkdir -p "$1/kafka/tmp"
    echo "$2" >"$1/kafka/port"
    echo "$4" >"$1/kafka/users.port"
    echo "$kafka_password" >"$1/kafka/password"
}
# kafka_java DIR launch|wait ARGUMENT...: the JVM with what all its runs share. The first compiler alone starts half a second
# sooner and is no slower on small test loads. Native parts of the codecs unpack into DIR/kafka/tmp.
kafka_java() {
    kafka_dir=$1/kafka
    kafka_home=$(cat "$kafka_dir/home")
    kafka_runner=$2
    shift 2
    kafka_archive=$(kafka_archive "$kafka_home")
    # A class archive hangs on the exact class path, so the jars are named one by one, in order.
    kafka_classes=$(printf '%s:' "$kafka_home"/*.jar)
    set -- "${TALLYD_STACK_JAVA:--XX:TieredStopAtLevel=1}" -XX:+UseSerialGC -XX:-UsePerfData -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true \
        -Djava.io.tmpdir="$kafka_dir/tmp" -Dlog4j2.configurationFile="$kafka_dir/log4j2.properties" \
        -cp "${kafka_classes%:}" "$@"
    if [ -n "${KAFKA_ARCHIVE_TO:-}" ]; then
        set -- -XX:ArchiveClassesAtExit="$KAFKA_ARCHIVE_TO" "$@"
    elif [ -r "$kafka_archive" ]; then
        set -- -XX:SharedArchiveFile="$kafka_archive" "$@"
    fi
    if [ "$kafka_runner" = launch ]; then
        launch "$kafka_dir" java "$@"
    else
        timeout 120 java "$@"
    fi
}
kafka_prepare() {
    ! embedded "$1" || return 0
    # Each cluster has an id of its own, by which kafka_answers knows it.
    kafka_cluster=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n' | cut -c 1-22)
    echo "$kafka_cluster" >"$1/kafka/cluster"
    (
        unset KAFKA_ARCHIVE_TO
        kafka_java "$1" wait kafka.tools.StorageTool format --cluster-id "$kafka_cluster" \
            --config "$1/kafka/server.properties" </dev/null >>"$1/kafka/log" 2>&1
    )
}
kafka_launch() {
    if embedded "$1"; then
        # shellcheck disable=SC2086 # several topics
        launch "$1/kafka" "$build/test/broker" -w "$1/.tallyd-stack" "$(cat "$1/kafka/partitions")" $TOPICS
        return
    fi
    kafka_java "$1" launch -Xms256m -Xmx512m kafka.Kafka "$1/kafka/server.properties"
}
kafka_answers() {
    if embedded "$1"; then
        # Its port is the system's choice, so nobody else can answer there.
        sed -n 's/^127\.0\.0\.1:\([0-9]*\)$/\1/p' "$1/kafka/log" >"$1/kafka/port"
        [ -s "$1/kafka/port" ] && "$build/test/ktool" -b "127.0.0.1:$(cat "$1/kafka/port")" wait-ready 0.5
        return
    fi
    "$build/test/ktool" -b "127.0.0.1:$(cat "$1/kafka/port")" wait-ready 0.5 "$(cat "$1/kafka/cluster")"
}

# ---- Kafka's cache --------------------------------------------------------------------------------------------------

# Where this Java's archive of Kafka's loaded classes lies, which halves the time to start.
kafka_archive() {
    echo "$1/classes-$(java -version 2>&1 | cksum | cut -d ' ' -f 1).jsa"
}

# Makes the archive by running one broker through what tests do. Without it everything works, only slower.
kafka_train() {
    train_archive=$(kafka_archive "$1")
    [ ! -e "$train_archive" ] || return 0
    say "preparing Kafka for quick starts (once)"
    train_dir=$(mktemp -d "$cache/kafka/.train.XXXXXX")
    mkdir "$train_dir/kafka"
    echo "$1" >"$train_dir/kafka/home"
    if (KAFKA_ARCHIVE_TO=$train_dir/classes.jsa && fresh "$train_dir" kafka && make_topics "$train_dir" 1) &&
        train_broker=127.0.0.1:$(cat "$train_dir/kafka/port") &&
        echo hello | timeout 20 kcat -b "$train_broker" -P -t usage-events &&
        timeout 20 kcat -b "$train_broker" -G train -o earliest -c 1 usage-events >/dev/null 2>&1; then
        signal "$train_dir/kafka" TERM
        await_end "$train_dir/kafka"
        mv "$train_dir/classes.jsa" "$train_archive" || say "no class archive came of it"
    fi
    signal "$train_dir/kafka" KILL
    await_end "$train_dir/kafka"
    rm -rf "$train_dir"
}

# Tools, jars and archive, made by one start at a time. Prints the folder of jars; nothing when the embedded broker has to do.
provide() {
    mkdir -p "$cache/kafka"
    (
        flock 9
        build_tool freeport 9>&-
        build_tool ktool 9>&-
        if provide_home=$(provide_kafka 9>&-); then
            kafka_train "$provide_home" >&2 9>&-
            echo "$provide_home"
        else
            [ "${TALLYD_REQUIRE_KAFKA:-}" != 1 ] || exit 1
            build_tool broker 9>&-
        fi
    ) 9>"$cache/kafka/.lock"
}

# A make that runs us has its own options and job server.
build_tool() {
    [ -x "$build/test/$1" ] || env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$root" BUILD="$build" "$build/test/$1" >&2 ||
        die "cannot build $1"
}

# Prints the folder of jars, or fails having said why it isn't Apache Kafka that will run.
provide_kafka() {
    case ${TALLYD_REQUIRE_KAFKA:-}:${TALLYD_BROKER:-} in
    1:embedded)
        say "TALLYD_REQUIRE_KAFKA=1 and TALLYD_BROKER=embedded contradict each other (unset one)"
        return 1
        ;;
    *:embedded)
        not_kafka "TALLYD_BROKER=embedded asks for it"
        return 1
        ;;
    esac
    provide_log=$(mktemp "$cache/kafka/.provide.XXXXXX")
    provide_code=0
    ls -d "$cache"/kafka/[0-9]* >/dev/null 2>&1 || say "bringing Apache Kafka into $cache (once)"
    sh "$root/scripts/kafka-jars.sh" 2>"$provide_log" || provide_code=1
    if [ "$provide_code" != 0 ]; then
        provide_why=$(tail -n 1 "$provide_log")
        provide_why=${provide_why#kafka-jars.sh: }
        if [ "${TALLYD_REQUIRE_KAFKA:-}" = 1 ]; then
            say "TALLYD_REQUIRE_KAFKA=1, but Apache Kafka can't be had: $provide_why"
        else
            grep -v '^kafka-jars.sh: ' "$provide_log" >&2 || :
            not_kafka "$provide_why"
        fi
    fi
    rm -f "$provide_log"
    return "$provide_code"
}

# not_kafka WHY: what nobody should overlook.
not_kafka() {
    cat >&2 <<EOF

  !!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!
  !!  THIS IS NOT APACHE KAFKA: librdkafka's mock cluster stands in as the broker.    !!
  !!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!
  why         $1
  proves      what tallyd decides, settles and tells, with a real Redis and a real MariaDB
  proves not  what hangs on a real broker: lasting logs, retention, groups, timing, speed

EOF
}

# ---- one server, one stack ------------------------------------------------------------------------------------------

# up DIR SERVER: launches it as it's configured. Says why not, unless the port was taken in the meantime (2).
up() {
    [ ! -s "$1/$2/log" ] || mv -f "$1/$2/log" "$1/$2/log.before"
    : >"$1/$2/log"
    if "${2}_launch" "$1" && await "$1" "$2"; then
        return 0
    fi
    [ ! -e "$1/stopping" ] || return 1
    signal "$1/$2" KILL
    if grep -qi 'address already in use' "$1/$2/log"; then
        return 2
    fi
    say "$2 doesn't answer; the end of its log:"
    tail -n 25 "$1/$2/log" >&2
    return 1
}

# fresh DIR SERVER: on ports that were free a moment ago; on others when somebody was quicker.
fresh() {
    mkdir -p "$1/$2"
    for fresh_attempt in 1 2 3 4 5; do
        fresh_ports=$("$build/test/freeport" 3) || return 1
        # shellcheck disable=SC2086 # three of them
        "${2}_configure" "$1" $fresh_ports
        if [ "$fresh_attempt" = 1 ] && ! "${2}_prepare" "$1"; then
            say "cannot prepare $2; the beginning of its log (general advice comes last):"
            head -n 25 "$1/$2/log" >&2
            return 1
        fi
        fresh_code=0
        up "$1" "$2" || fresh_code=$?
        [ "$fresh_code" = 2 ] || return "$fresh_code"
    done
    say "$2: no port stayed free"
    return 1
}

# make_topics DIR PARTITIONS: they keep records of any age and of the future, as the worked scenarios need.
make_topics() {
    topics_broker=127.0.0.1:$(cat "$1/kafka/port")
    topics_pids=
    for topics_name in $TOPICS; do
        topics_size=1048588
        [ "$topics_name" != usage-events.DLT ] || topics_size=2097152
        "$build/test/ktool" -b "$topics_broker" topic-delete "$topics_name" &&
            "$build/test/ktool" -b "$topics_broker" topic-create "$topics_name" "$2" \
                retention.ms=-1 message.timestamp.type=CreateTime max.message.bytes="$topics_size" \
                message.timestamp.before.max.ms=9223372036854775807 message.timestamp.after.max.ms=9223372036854775807 &
        topics_pids="$topics_pids $!"
    done
    topics_code=0
    for topics_pid in $topics_pids; do
        wait "$topics_pid" || topics_code=1
    done
    return "$topics_code"
}

write_env() {
    if embedded "$1"; then
        env_kind=embedded-broker
        env_users=
    else
        env_kind=apache-kafka-$(basename "$(cat "$1/kafka/home")")
        env_users="KAFKA_USERS_BROKERS='127.0.0.1:$(cat "$1/kafka/users.port")'
KAFKA_USERS_USER='tallyd'
KAFKA_USERS_PASSWORD='$(cat "$1/kafka/password")'"
    fi
    cat >"$1/env.new" <<EOF
TALLYD_TEST_DIR='$1'
REDIS_HOST='127.0.0.1'
REDIS_PORT='$(cat "$1/redis/port")'
MYSQL_HOST='127.0.0.1'
MYSQL_PORT='$(cat "$1/mysql/port")'
MYSQL_SOCKET='$1/mysql/sock'
MYSQL_USER='tallyd'
MYSQL_PASSWORD='$(cat "$1/mysql/password")'
MYSQL_DATABASE='tallyd'
MYSQL_ADMIN_USER='$(id -un)'
KAFKA_BROKERS='127.0.0.1:$(cat "$1/kafka/port")'
BROKER_KIND='$env_kind'
$env_users
EOF
    mv "$1/env.new" "$1/env"
}

# Ends every server of the stack and removes its folder.
tear_down() {
    : >"$1/stopping"
    for down_server in $SERVERS; do
        signal "$1/$down_server" TERM
    done
    for down_server in $SERVERS; do
        await_end "$1/$down_server"
    done
    rm -rf "$1"
}

# What an interrupted or failed start leaves is nothing. The servers' own starts notice "stopping" and end by themselves.
abandon() {
    trap '' INT TERM HUP
    : >"$start_dir/stopping"
    wait
    tear_down "$start_dir"
    exit "$1"
}

start_folder() {
    case $1 in
    '' | -)
        start_dir=$(mktemp -d "${TMPDIR:-/tmp}/tallyd-stack.XXXXXX")
        ;;
    *)
        mkdir -p "$1"
        chmod 700 "$1"
        start_dir=$(cd "$1" && pwd)
        [ -z "$(ls -A "$start_dir")" ] || die "$start_dir isn't empty"
        ;;
    esac
    case $start_dir in
    *[!A-Za-z0-9._/+-]*) die "$start_dir: the servers' configurations need a path of plain characters" ;;
    esac
    [ ${#start_dir} -le 90 ] || die "$start_dir: too long for a socket in it"
}

start() {
    start_partitions=6
    if [ "${1:-}" = --kafka-partitions ]; then
        start_partitions=${2:-}
        shift 2 || usage
    fi
    case $start_partitions in
    '' | *[!0-9]*) usage ;;
    esac
    [ $# -le 1 ] || usage
    start_folder "${1:-}"
    : >"$start_dir/.tallyd-stack"
    mkdir "$start_dir/starter" "$start_dir/kafka"
    record "$start_dir/starter" $$
    trap 'abandon 130' INT
    trap 'abandon 143' TERM HUP

    start_home=$(provide) || abandon 1
    echo "$start_partitions" >"$start_dir/kafka/partitions"
    [ -z "$start_home" ] || echo "$start_home" >"$start_dir/kafka/home"
    start_pids=
    for start_server in $SERVERS; do
        fresh "$start_dir" "$start_server" &
        start_pids="$start_pids $!"
    done
    for start_pid in $start_pids; do
        wait "$start_pid" || abandon 1
    done
    embedded "$start_dir" || make_topics "$start_dir" "$start_partitions" || abandon 1
    write_env "$start_dir"
    [ ! -e "$start_dir/stopping" ] || abandon 1
    trap - INT TERM HUP
    echo "$start_dir"
}

stop() {
    [ -d "$1" ] || return 0
    stop_dir=$(cd "$1" && pwd)
    if [ ! -e "$stop_dir/.tallyd-stack" ]; then
        rmdir "$stop_dir" 2>/dev/null || die "$stop_dir is no stack's folder"
        return 0
    fi
    : >"$stop_dir/stopping"
    # A start that's still under way cleans up after itself.
    stop_deadline=$(($(now) + timeout))
    while alive "$stop_dir/starter" && [ "$(now)" -le "$stop_deadline" ]; do
        pause
    done
    [ ! -d "$stop_dir" ] || tear_down "$stop_dir"
}

existing() {
    [ -e "$1/env" ] || die "$1 is no stack's folder"
    dir=$(cd "$1" && pwd)
}

known_server() {
    case " $SERVERS " in
    *" $1 "*) ;;
    *) usage ;;
    esac
}

status() {
    status_code=0
    for status_server in $SERVERS; do
        if ! alive "$1/$status_server"; then
            status_word=down
        elif "${status_server}_answers" "$1" >/dev/null 2>&1; then
            status_word=up
        else
            status_word=silent
        fi
        [ $status_word = up ] || status_code=1
        status_memory=
        [ $status_word = down ] || status_memory=$(awk '/^VmRSS/ { printf "%d MiB", $2 / 1024 }' "/proc/$alive_pid/status")
        echo "$status_server $status_word 127.0.0.1:$(cat "$1/$status_server/port") pid $(cat "$1/$status_server/pid") $status_memory"
    done
    return $status_code
}

verb=${1:-}
[ $# -eq 0 ] || shift
case $verb:$# in
start:*) start "$@" ;;
stop:1) stop "$1" ;;
run-server:*) run_server "$@" ;;
status:1)
    existing "$1"
    status "$dir"
    ;;
stop-one:[23])
    existing "$1"
    known_server "$2"
    signal "$dir/$2" "${3:-TERM}"
    await_end "$dir/$2"
    ;;
start-one:2)
    existing "$1"
    known_server "$2"
    if [ "$2" = kafka ] && ! alive "$dir/$2" && embedded "$dir"; then
        die "the embedded broker can't come back: its records and its port went with it"
    fi
    alive "$dir/$2" || up "$dir" "$2" || die "$2 hasn't come back"
    ;;
topics:[12])
    existing "$1"
    if embedded "$dir"; then
        say "the embedded broker keeps its topics as they are, records included"
    else
        make_topics "$dir" "${2:-6}"
    fi
    ;;
*) usage ;;
esac
