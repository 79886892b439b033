#!/bin/sh
# SPDX-License-Identifier: MIT
# Static checks, warnings are errors: lint.sh COMPILER-FLAGS…
# (Formatting and the clang build are the Makefile's.)
set -eu
cd "$(dirname "$0")/.."
status=0

flags=$*
export flags
# shellcheck disable=SC2016 # expanded by the inner shell
find src test -name '*.c' | sort | xargs -P 2 -n 4 sh -c 'clang-tidy --quiet "$@" -- $flags 2>/dev/null' tidy || status=1
cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --enable=warning,performance,portability -Isrc -Itest/unit \
	-Itest/support --library=scripts/cppcheck.cfg --suppress=missingIncludeSystem -j 2 src test/unit test/tool test/support || status=1
shellcheck -s sh scripts/*.sh scripts/demo/*.sh scripts/bench/*.sh test/integration/*.sh test/fault/*.sh \
	test/package/*.sh scripts/debian/postinst scripts/debian/prerm .ci/run || status=1
exit $status
