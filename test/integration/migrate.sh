#!/bin/sh
# SPDX-License-Identifier: MIT
# `tallyd migrate` on a fresh database, twice, two at once, after a crash in the middle and after a failure; what it prints without doing it;
# and a database that isn't one for this binary, which `migrate` and `run` refuse alike, or is ahead of it, which both accept.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
begin migrate
good=$work/owner.yaml
schema_rows=$(sql "SELECT GROUP_CONCAT('(', version, ',', QUOTE(name), ',', QUOTE(checksum), ',', QUOTE(applied_at), ')') FROM schema_migration")
files=$(cd "$root/migrations" && ls)
count=$(echo "$files" | wc -l)
all=$(echo "$files" | sed 's/^/applied /')

admin() {
    # shellcheck disable=SC2153 # from the stack's environment
    mariadb --no-defaults -h localhost -S "$MYSQL_SOCKET" -u "$MYSQL_ADMIN_USER" -BNr "$MYSQL_DATABASE" -e "$1"
}
trap "admin \"DROP USER IF EXISTS 'migrate_weak'@'127.0.0.1'\" || :; finish" EXIT

# migrates CODE OUTPUT ARGUMENT...: ends with CODE, and prints OUTPUT, all of it; with other codes than 0 stderr is one line.
migrates() {
    migrates_code=$1 migrates_output=$2
    shift 2
    found=0
    timeout 60 "$tallyd" migrate -c "$good" "$@" >"$work/out" 2>"$work/case.err" || found=$?
    assert_eq "migrate $*: exit code" "$migrates_code" "$found"
    assert_eq "migrate $*: output" "$migrates_output" "$(cat "$work/out")"
    assert_eq "migrate $*: lines on stderr" "$((migrates_code != 0))" "$(wc -l <"$work/case.err")"
}
# says TEXT: the line on stderr, in the common form.
says() {
    grep -qE '^tallyd [a-z]+: (mysql|schema|usage): .+' "$work/case.err" || die 'the message has another form'
    grep -qF -e "$1" "$work/case.err" || die "expected a message that says: $1"
}
tables() {
    sql "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1"
}
definitions() {
    for definitions_table in $(tables); do
        sql "SHOW CREATE TABLE $definitions_table" | sed 's/ AUTO_INCREMENT=[0-9]*//'
    done
    sql 'SELECT version, name, checksum FROM schema_migration'
    sql 'SELECT * FROM usage_floor'
}

definitions >"$work/as_migrated"
empty_database
migrates 0 "$all"
migrates 0 'nothing to apply'
definitions | cmp -s - "$work/as_migrated" || die 'it comes out differently'
assert_eq 'the checksum, as computed elsewhere' "$(sha256sum <"$root/migrations/0001_initial.sql" | cut -d ' ' -f 1)" \
    "$(sql 'SELECT checksum FROM schema_migration WHERE version = 1')"
# status STATE [APPLIED_AT]: the table of --status, of all migrations in one state.
status() {
    for status_file in $files; do
        echo "$((1${status_file%%_*} - 10000))|$status_file|$1|${2:+$(sql "SELECT applied_at FROM schema_migration WHERE name = '$status_file'")}"
    done | awk -F '|' '
        { version[NR] = sprintf("%04d", $1); name[NR] = $2; state[NR] = $3; at[NR] = $4; if (length($2) > wide) wide = length($2) }
        END {
            printf "VERSION  %-" wide "s  STATE    APPLIED AT (UTC)\n", "NAME"
            for (i = 1; i <= NR; i++) {
                row = sprintf("%-7s  %-" wide "s  %-7s  %s", version[i], name[i], state[i], at[i])
                sub(/ +$/, "", row)
                print row
            }
        }'
}
migrates 0 "$(status applied at)" --status
migrates 0 '-- nothing to apply' --dry-run
echo 'ok migrate: fresh, twice'

# ---- several at once --------------------------------------------------------------------------------------------------

for _ in 1 2 3; do
    empty_database
    launch one "$tallyd" migrate -c "$good"
    one=$launched
    launch two "$tallyd" migrate -c "$good"
    two=$launched
    ended 'one of two at once' "$one" 0
    ended 'the other of two at once' "$two" 0
    assert_eq 'what two at once did' "$(echo "$all" | tr '\n' ' ')nothing to apply" \
        "$(cat "$work/one.log" "$work/two.log" | grep -v waiting | sort | tr '\n' ' ' | sed 's/ $//')"
done
empty_database
launch holder mariadb --no-defaults -h "$MYSQL_HOST" -P "$MYSQL_PORT" -u "$MYSQL_USER" "-p$MYSQL_PASSWORD" "$MYSQL_DATABASE" \
    -e "SELECT GET_LOCK('tallyd.migrate', 0), SLEEP(3)"
held() {
    [ "$(sql "SELECT IS_FREE_LOCK('tallyd.migrate')")" = 0 ]
}
await 'the lock is held' 10 held
since=$(date +%s)
migrates 0 "waiting for another migration to end
$all"
[ "$(($(date +%s) - since))" -ge 1 ] || die "it didn't wait"
echo 'ok migrate: two at once, one of which waits and has nothing to do then'

# ---- looking only -----------------------------------------------------------------------------------------------------

empty_database
migrates 7 "$(status missing)" --status
says "lacks $count of $count migrations (run \`tallyd migrate"
"$tallyd" migrate -c "$good" --dry-run >"$work/dry.sql" 2>"$work/case.err" || die "--dry-run: exit code $?"
assert_eq 'what looking left behind' '' "$(tables)"
sql <"$work/dry.sql"
definitions | cmp -s - "$work/as_migrated" || die 'the SQL printed comes out differently'
migrates 0 'nothing to apply'
migrates 2 '' --status --dry-run
says 'only one of --status and --dry-run'
migrates 2 '' --statsu
says 'usage: --statsu is no option (tallyd help migrate)'
echo 'ok migrate: --status and --dry-run leave nothing; what the latter prints does the same by hand'

# ---- half done --------------------------------------------------------------------------------------------------------

# As a crash leaves it: the later tables and the record are missing.
sql "INSERT INTO family (family_id, name) VALUES (1, 'kept'); DROP TABLE usage_floor, consumer_ledger, usage_event_outbox, alert_state;
     DELETE FROM schema_migration"
migrates 0 "$all"
definitions | cmp -s - "$work/as_migrated" || die 'after a crash it comes out differently'
assert_eq 'what was in a table' kept "$(sql 'SELECT name FROM family')"
# The floor that was set meanwhile stays.
sql "UPDATE usage_floor SET closed_before = '2026-05-01'; DELETE FROM schema_migration"
migrates 0 "$all"
assert_eq 'the floor' 2026-05-01 "$(sql 'SELECT closed_before FROM usage_floor')"

# A user who may make the first two tables: the third statement fails, and the next try does the rest.
empty_database
mv "$good" "$work/right.yaml"
sed "s/^  user: .*/  user: migrate_weak/; s/^  password: .*/  password: weak/" "$work/right.yaml" >"$good"
admin "CREATE OR REPLACE USER 'migrate_weak'@'127.0.0.1' IDENTIFIED BY 'weak'"
for table in schema_migration family family_member; do
    admin "GRANT SELECT, INSERT, CREATE ON $MYSQL_DATABASE.$table TO 'migrate_weak'@'127.0.0.1'"
done
migrates 6 ''
line=$(grep -n '^CREATE TABLE IF NOT EXISTS policy_assignment' "$root/migrations/0001_initial.sql" | cut -d : -f 1)
says "0001_initial.sql:$line: statement 3: CREATE TABLE IF NOT EXISTS policy_assignment : CREATE command denied"
assert_eq 'what it did before' 'family family_member schema_migration' "$(tables | tr '\n' ' ' | sed 's/ $//')"
assert_eq 'what it recorded' 0 "$(sql 'SELECT COUNT(*) FROM schema_migration')"
cp "$work/right.yaml" "$good"
migrates 0 "$all"
definitions | cmp -s - "$work/as_migrated" || die 'after a failure it comes out differently'
# Who may only look can still find out that nothing is missing.
sed "s/^  user: .*/  user: migrate_weak/; s/^  password: .*/  password: weak/" "$work/right.yaml" >"$good"
admin "CREATE OR REPLACE USER 'migrate_weak'@'127.0.0.1' IDENTIFIED BY 'weak'; GRANT SELECT ON $MYSQL_DATABASE.schema_migration TO 'migrate_weak'@'127.0.0.1'"
migrates 0 'nothing to apply'
mv "$work/right.yaml" "$good"
echo 'ok migrate: after a crash in the middle and after a failing statement the next one does the rest'

# ---- not a database for this binary, or one ahead of it ---------------------------------------------------------------

cases=0
record() {
    sql "REPLACE INTO schema_migration VALUES $schema_rows; DELETE FROM schema_migration WHERE version > $count; $1"
}
# the two numbers behind the last one of ours
next=$(printf %04d $((count + 1))) later=$(printf %04d $((count + 2)))
newer="INSERT INTO schema_migration VALUES (%s, '%s', REPEAT('0', 64), '2030-01-02 03:04:05.678')"
# refused TEXT SQL: so it's recorded; run, migrate in all its forms, and warm refuse it.
refused() {
    cases=$((cases + 1))
    record "$2"
    sql 'SELECT * FROM schema_migration' >"$work/recorded"
    migrates 7 ''
    says "$1"
    migrates 7 '' --dry-run
    says "$1"
    for command in run warm; do
        family=
        [ $command = run ] || family=1
        found=0
        # shellcheck disable=SC2086 # none, or one
        timeout 20 "$tallyd" $command -c "$good" $family >"$work/out" 2>"$work/case.err" || found=$?
        assert_eq "$command: exit code" 7 "$found"
        says "$1"
        assert_eq "$command: lines on stderr" 1 "$(wc -l <"$work/case.err")"
    done
    found=0
    "$tallyd" migrate -c "$good" --status >"$work/out" 2>"$work/case.err" || found=$?
    assert_eq '--status: exit code' 7 "$found"
    says "$1"
    sql 'SELECT * FROM schema_migration' | cmp -s - "$work/recorded" || die 'it changed what is recorded'
}
# shellcheck disable=SC2059 # the statement is the format
{
    refused '0001_initial.sql: was applied as something else' "UPDATE schema_migration SET checksum = REPEAT('0', 64) WHERE version = 1"
    grep -q '^0001     0001_initial.sql  *changed  20' "$work/out" || die 'it is not shown as changed'
    refused '0001_other.sql: was applied as something else' "UPDATE schema_migration SET name = '0001_other.sql' WHERE version = 1"
    refused "${later}_gap.sql: is applied, and the one before it is not recorded" "$(printf "$newer" $((count + 2)) "${later}_gap.sql")"
    refused "migration $next, hotfix: not the name" "$(printf "$newer" $((count + 1)) hotfix)"
    refused "migration $next, ${later}_b.sql: not the name" "$(printf "$newer" $((count + 1)) "${later}_b.sql")"
    refused "${next}_b.breaking.sql: was applied by a newer tallyd, and this one can't run on it" \
        "$(printf "$newer" $((count + 1)) "${next}_b.breaking.sql")"
    refused '0001_initial.sql: is missing, and a later one is applied' "DELETE FROM schema_migration WHERE version = 1"

    record "$(printf "$newer" $((count + 1)) "${next}_add_a_column.sql"); $(printf "$newer" $((count + 2)) "${later}_and_another.sql"); ALTER TABLE usage_record ADD COLUMN later INT NULL"
}
migrates 0 "nothing to apply
${next}_add_a_column.sql was applied by a newer tallyd; this one can run on it
${later}_and_another.sql was applied by a newer tallyd; this one can run on it"
"$tallyd" migrate -c "$good" --status >"$work/out" 2>"$work/case.err" || die "--status on a newer one: exit code $?"
grep -qE "^$next +${next}_add_a_column.sql +newer +2030-01-02 03:04:05.678\$" "$work/out" || die 'a newer one is not shown'
simulate events --families 20 --seed-db --count 200 --rate 0 --broken 0
launch run "$tallyd" run -c "$good" --until-drained
ended 'run on a newer database' "$launched" 0
settled_all events
echo "ok migrate: $cases databases refused by migrate, run and warm alike; one that is ahead is accepted, and events settle on it"
