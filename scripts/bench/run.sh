#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh bench|scale|size: what `make bench`, `make bench-scale` and `make bench-size` do once everything is built: a private stack with durable settings,
# sized as in production (scripts/stack.sh; the tests' settings are smaller), and on it measure.sh, scale.sh or size.sh.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
case ${1:-} in
bench) pool=2G script=measure.sh ;;
scale) pool=6G script=scale.sh ;;
size) pool=2G script=size.sh ;;
*)
    echo "usage: run.sh bench|scale|size" >&2
    exit 2
    ;;
esac
TALLYD_STACK_MYSQL=innodb-buffer-pool-size=$pool,innodb-log-file-size=1G,innodb-flush-log-at-trx-commit=1,innodb-doublewrite=ON
TALLYD_STACK_MYSQL=$TALLYD_STACK_MYSQL,innodb-adaptive-hash-index=ON,innodb-flush-method=O_DIRECT
TALLYD_STACK_JAVA=-XX:+TieredCompilation # as a broker has it that runs for long
TALLYD_STACK_KAFKA=num.io.threads=$(nproc),num.network.threads=1 # for this machine's cores, not for a server's
export TALLYD_STACK_MYSQL TALLYD_STACK_JAVA TALLYD_STACK_KAFKA
# figures of a stand-in would say nothing
export TALLYD_REQUIRE_KAFKA=1
exec sh "$root/scripts/with-stack.sh" --kafka-partitions 6 -- sh "$root/scripts/bench/$script"
