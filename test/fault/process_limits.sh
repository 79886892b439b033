#!/bin/sh
# SPDX-License-Identifier: MIT
# The process runs out of descriptors just when it needs new connections: it waits for them and settles on.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
begin process_limits
seed=${TALLYD_TEST_SEED:-98}

simulate seeding --seed-db --families 300
launch tallyd "$tallyd" run -c "$work/config.yaml"
daemon=$launched
await 'the daemon reads' 60 opened "$work/tallyd.log"
simulate_on events --families 300 --rate 1000 --duration 6s --seed "$seed"
events=$launched
grown() {
    [ "$(ledger_end)" -gt "$1" ]
}
await 'some is settled' 60 grown 300

# Every connection to MySQL is cut while there is no number left for a new one.
prlimit --pid "$daemon" --nofile=3:
admin() {
    mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" -BN "$@"
}
admin -e "SELECT CONCAT('KILL ', id, ';') FROM information_schema.processlist WHERE user = 'tallyd_run'" >"$work/kill.sql"
[ -s "$work/kill.sql" ] || die 'the daemon has no connection'
admin <"$work/kill.sql"
lacks_descriptors() {
    grep -q '"error":"connect: .*(24)' "$work/tallyd.log"
}
await 'a connection lacks a descriptor' 60 lacks_descriptors
lacked=$(grep -c '"error":"connect: .*(24)' "$work/tallyd.log")
prlimit --pid "$daemon" --nofile=1024:
simulate after --families 300 --rate 2000 --count 1000 --seed "$((seed + 1))"
ended 'simulate' "$events" 0
await 'all is settled' 60 caught_up
kill -s TERM "$daemon"
ended 'the daemon' "$daemon" 0
settled_all events after
echo "ok process: out of descriptors: connections cut and none to be had ($lacked lines say so), settled on when there were"
