# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# What the figures hang on: machine, versions, settings. Sourced after lib.sh.
# shellcheck disable=SC2154 # what lib.sh has set

# How often the disk of the stores writes 4 KiB durably in a second (O_DSYNC, over a file that has its blocks, as a redo log does).
syncs_a_second() {
    syncs_file=$TALLYD_TEST_DIR/syncs
    dd if=/dev/zero of="$syncs_file" bs=4k count=500 conv=fsync 2>/dev/null
    syncs_since=$(date +%s%N)
    dd if=/dev/zero of="$syncs_file" bs=4k count=500 oflag=dsync conv=notrunc 2>/dev/null
    echo $((500 * 1000000000 / ($(date +%s%N) - syncs_since)))
    rm -f "$syncs_file"
}

mariadb_settings='innodb_flush_log_at_trx_commit innodb_doublewrite innodb_buffer_pool_size innodb_log_file_size innodb_flush_method
    innodb_adaptive_hash_index sync_binlog log_bin'

variables() {
    variables_list=$(for variable in $mariadb_settings; do printf ",'%s'" "$variable"; done)
    admin "SHOW GLOBAL VARIABLES WHERE Variable_name IN (${variables_list#,})" | sed 's/\t/=/' | tr '\n' ' '
}

first_line() {
    "$@" 2>&1 | head -n 1
}

# tallyd's settings that decide about speed, as it sees them itself.
tallyd_settings() {
    "$tallyd" check -c "$work/config.yaml" --print | sed 's/#.*//' |
        awk '/^[a-z]/ { section = $1 } /^workers:/ || section == "batch:" && /^ / { sub(/^ +/, section == "workers:" ? "" : "batch."); sub(/ +$/, ""); printf "%s%s", n++ ? ", " : "", $0 }
            section == "dedup:" && /ttl/ { sub(/^ +/, ", dedup."); printf "%s", $0 }'
}

head_json() {
    jq -nc \
        --arg started "$(date -u -d "@$bench_since" '+%Y-%m-%d %H:%M UTC')" \
        --arg describe "$(git -C "$root" describe --tags --always --dirty 2>/dev/null || echo unknown)" \
        --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" --argjson cores "$(nproc)" \
        --argjson memory "$(sed -n 's/^MemTotal:[^0-9]*\([0-9]*\).*/\1/p' /proc/meminfo)" \
        --arg kernel "$(uname -sr)" --arg disk "$(df --output=fstype "$TALLYD_TEST_DIR" | tail -n 1)" --argjson syncs "$(syncs_a_second)" \
        --arg kafka "$BROKER_KIND" --arg redis "$(redis info server | tr -d '\r' | sed -n 's/^redis_version://p')" \
        --arg mariadb "$(sql 'SELECT VERSION()')" --arg libraries "$("$tallyd" version | tr "\n" " " | sed "s/^.*librdkafka/librdkafka/; s/ *$//")" \
        --arg java "$(first_line java -version)" --arg compiler "$(first_line cc --version)" \
        --arg variables "$(variables)" --arg settings "$(tallyd_settings)" '$ARGS.named'
}
