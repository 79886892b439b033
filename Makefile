# SPDX-License-Identifier: MIT
# tallyd: every target in one line with `make help`.

BUILD ?= build
CC ?= cc
PKGS = rdkafka hiredis libmariadb jansson yaml-0.1 libmicrohttpd
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

BASE_CFLAGS = -std=c11 -D_GNU_SOURCE -O2 -g -fno-omit-frame-pointer -MMD -MP -iquote include -pthread \
	-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla -Wpointer-arith -Werror
HARDEN = -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection -fPIE
HARDEN_LD = -pie -Wl,-z,relro,-z,now,-z,noexecstack
LIB_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIB_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null)
ALL_CFLAGS = $(BASE_CFLAGS) $(if $(SANITIZE),$(SANITIZE),$(HARDEN)) $(LIB_CFLAGS) $(if $(FAULTS),-DTALLYD_FAULTS) $(CFLAGS)
ALL_LDFLAGS = -pthread $(if $(SANITIZE),$(SANITIZE),$(HARDEN_LD)) $(LDFLAGS)
ALL_LIBS = $(LIB_LIBS) -lm $(LIBS)
# One short line a file; V=1 shows the commands.
Q = $(if $(V),,@echo "  $(if $(filter %.o,$@),CC,LD)  $@";)

# main.c wires; everything else is linked into the tests too.
SRCS := $(filter-out src/main.c,$(wildcard src/*.c))
OBJS := $(SRCS:src/%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/embedded.o
ifneq ($(findstring thread,$(SANITIZE)),)
OBJS += $(BUILD)/obj/support/tsan_threads.o
endif
# Fault points: in test builds only.
ifdef FAULTS
OBJS += $(BUILD)/obj/support/fault.o
endif
EMBED := $(wildcard lua/*.lua migrations/*.sql config/messages.*.yaml config/page.html)
UNIT := $(patsubst test/unit/%.c,$(BUILD)/test/%,$(wildcard test/unit/test_*.c))
TOOLS := $(patsubst test/tool/%.c,$(BUILD)/test/%,$(wildcard test/tool/*.c))

.PHONY: all help deps demo bench bench-scale bench-size tests test test-fault unit scenario lint lint-run format format-check clean asan tsan faults sweep \
	package install uninstall deb package-test

all: $(BUILD)/tallyd ## build the binary (default)

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

deps: ## install the Debian packages that are missing
	@sh scripts/deps.sh all

$(BUILD)/tallyd: $(BUILD)/obj/main.o $(OBJS)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(ALL_LIBS)

$(BUILD)/obj/%.o: src/%.c | $(BUILD)/obj
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/obj/version.o: ALL_CFLAGS += -DVERSION_TEXT='"$(VERSION)"'
$(BUILD)/obj/main.o: ALL_CFLAGS += -DTALLYD_VERSION='"$(VERSION)"'

# Scripts, migrations and catalogues travel inside the binary.
$(BUILD)/obj/embedded.c: scripts/embed.sh scripts/page_policy.sh $(EMBED) | $(BUILD)/obj
	sh scripts/embed.sh $(EMBED) > $@.tmp && sh scripts/page_policy.sh config/page.html >> $@.tmp && mv $@.tmp $@

$(BUILD)/obj/embedded.o: $(BUILD)/obj/embedded.c
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/test/test_%: test/unit/test_%.c $(OBJS) | $(BUILD)/test
	$(Q)$(CC) $(ALL_CFLAGS) -Itest/unit $(shell pkg-config --cflags check) $(ALL_LDFLAGS) -o $@ $< $(filter %.o,$^) $(shell pkg-config --libs check) $(ALL_LIBS)

# The stack's tools stand alone: it must start while src/ doesn't compile.
$(BUILD)/test/broker $(BUILD)/test/freeport $(BUILD)/test/ktool $(BUILD)/test/probe_kafka: $(BUILD)/test/%: test/tool/%.c | $(BUILD)/test
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(shell pkg-config --libs rdkafka)

# The scenario runner judges by itself: of src/ it takes the buffer only.
# The schemas' validator is the tests' own.
$(BUILD)/test/test_schemas: $(BUILD)/obj/support/schema.o
# What the measuring tool reckons.
$(BUILD)/test/test_bench: $(BUILD)/obj/support/bench_base.o $(BUILD)/obj/support/bench_meter.o
# In any build: the suite is about the points themselves.
$(BUILD)/test/test_fault: $(BUILD)/obj/support/fault.o

SUPPORT := $(patsubst test/support/%.c,$(BUILD)/obj/support/%.o,$(wildcard test/support/scenario_*.c))

# The reference model too; of the scenarios' support it shares files, topics and tables, not what judges.
MODEL := $(patsubst test/support/%.c,$(BUILD)/obj/support/%.o,$(wildcard test/support/model_*.c)) \
	$(patsubst %,$(BUILD)/obj/support/scenario_%.o,base sql topic) $(BUILD)/obj/buf.o

BENCH := $(patsubst test/support/%.c,$(BUILD)/obj/support/%.o,$(wildcard test/support/bench_*.c))

$(BUILD)/obj/support/%.o: test/support/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/test/scenario: test/tool/scenario.c $(SUPPORT) $(OBJS) | $(BUILD)/test
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(filter %.o,$^) $(ALL_LIBS)

$(BUILD)/test/model: test/tool/model.c $(MODEL) | $(BUILD)/test
	$(Q)$(CC) $(ALL_CFLAGS) -Itest/support $(ALL_LDFLAGS) -o $@ $< $(filter %.o,$^) $(ALL_LIBS)

# It measures src/ from the inside.
$(BUILD)/test/bench: test/tool/bench.c $(BENCH) $(OBJS) | $(BUILD)/test
	$(Q)$(CC) $(ALL_CFLAGS) -Itest/support $(ALL_LDFLAGS) -o $@ $< $(filter %.o,$^) $(ALL_LIBS)

$(BUILD)/test/%: test/tool/%.c $(OBJS) | $(BUILD)/test
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(filter %.o,$^) $(ALL_LIBS)

$(BUILD)/obj $(BUILD)/test:
	@mkdir -p $@

# A clock that a test can step; preloaded, so it goes without sanitizers.
$(BUILD)/test/clock_step.so: test/support/clock_step.c | $(BUILD)/test
	$(Q)$(CC) $(BASE_CFLAGS) -fPIC -shared $(LDFLAGS) -o $@ $< -ldl

tests: $(BUILD)/tallyd $(UNIT) $(TOOLS) $(BUILD)/test/clock_step.so

# pkg-config is asked while this file is read, so what needs the packages runs
# in a second make, after they are there.
test: ## install what is missing, build, and run every test on a private stack
	@sh scripts/deps.sh test
	@$(MAKE) --no-print-directory -j2 tests
	@$(MAKE) --no-print-directory faults
	@sh scripts/test.sh

demo: ## from nothing to tallyd at work: 50,000 events, and every promise checked
	@sh scripts/demo.sh

bench: ## how fast: ceilings, end to end, latency, CPU, memory, and every promise ticked (some 12 minutes)
	@sh scripts/deps.sh bench
	@$(MAKE) --no-print-directory -j2 $(BUILD)/tallyd $(TOOLS)
	@sh scripts/bench/run.sh bench

bench-scale: ## the same for 1,000 to 1,000,000 families over 20,000,000 old records, with pictures (an hour)
	@sh scripts/deps.sh bench
	@$(MAKE) --no-print-directory -j2 $(BUILD)/tallyd $(TOOLS)
	@sh scripts/bench/run.sh scale

test-fault: ## two daemons through ROUNDS=30 of faults on Apache Kafka, then every promise; SEED=N for the same ones
	@sh scripts/deps.sh test
	@$(MAKE) --no-print-directory -j2 $(BUILD)/tallyd $(TOOLS)
	@sh test/fault/suite.sh --rounds $(or $(ROUNDS),30) $(if $(SEED),--seed $(SEED))

sweep: ## killed at every fault point (ACTION=fail, after, stop, delay or all), then all as the reference model says
	@sh scripts/deps.sh test
	@$(MAKE) --no-print-directory -j2 $(BUILD)/tallyd $(TOOLS)
	@$(MAKE) --no-print-directory faults
	@sh test/fault/points.sh --action $(or $(ACTION),kill)

unit: tests ## the unit suites alone
	@sh scripts/test.sh unit

scenario: ## run one scenario folder on a stack of its own: make scenario DIR=test/scenarios/bulk
	@sh scripts/deps.sh test
	@$(MAKE) --no-print-directory -j2 $(BUILD)/tallyd $(TOOLS)
	@sh scripts/scenario.sh $(if $(PARTITIONS),--partitions $(PARTITIONS)) "$(DIR)"

bench-size: ## how many bytes an entry takes in Redis and a row in MySQL, for sizing (2 minutes)
	@sh scripts/deps.sh bench
	@$(MAKE) --no-print-directory -j2 $(BUILD)/tallyd $(TOOLS)
	@sh scripts/bench/run.sh size

C_FILES := $(wildcard src/*.c src/*.h include/*.h test/unit/*.c test/unit/*.h test/tool/*.c test/support/*.c test/support/*.h)

lint: ## clang build, clang-tidy, cppcheck, formatting, shellcheck: warnings are errors
	@sh scripts/deps.sh lint
	@$(MAKE) --no-print-directory lint-run

lint-run: format-check
	@$(MAKE) --no-print-directory -j2 BUILD=build-clang CC=clang tests
	@sh scripts/lint.sh $(filter-out -MMD -MP -Werror,$(BASE_CFLAGS)) $(LIB_CFLAGS) $(shell pkg-config --cflags check 2>/dev/null) \
		-Itest/unit -Itest/support -DTALLYD_VERSION=1
	@echo lint: clean

format: ## put every C file into the project's format
	clang-format -i $(C_FILES)

format-check:
	@clang-format --dry-run -Werror $(C_FILES)

SAN_COMMON = -fno-sanitize-recover=all
asan: ## the tests under AddressSanitizer and UBSan
	@sh scripts/deps.sh test
	@$(MAKE) --no-print-directory -j2 BUILD=build-asan FAULTS=1 SANITIZE='-fsanitize=address,undefined $(SAN_COMMON) -Wno-format-truncation' tests
	@TALLYD_BUILD=build-asan sh scripts/test.sh $(or $(WHAT),short)

tsan: ## the tests under ThreadSanitizer
	@sh scripts/deps.sh test
	@$(MAKE) --no-print-directory -j2 BUILD=build-tsan FAULTS=1 SANITIZE='-fsanitize=thread $(SAN_COMMON)' tests
	@TALLYD_BUILD=build-tsan TSAN_OPTIONS="suppressions=$(CURDIR)/test/tsan.supp $$TSAN_OPTIONS" sh scripts/test.sh $(or $(WHAT),short)

faults: ## build-fault/tallyd, a test build with fault points
	@$(MAKE) --no-print-directory -j2 BUILD=build-fault FAULTS=1 build-fault/tallyd

# ---- installing: `make`, then `make install` as root -------------------------------------------------------------------

PREFIX ?= /usr/local
# Of /usr and /usr/local by the FHS; any other prefix is all on its own.
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
BINDIR ?= $(PREFIX)/bin
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
DOCDIR ?= $(DATADIR)/doc/tallyd
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
STAGE ?= $(BUILD)/package
PLACES = $(foreach v,BUILD STAGE DESTDIR SYSCONFDIR BINDIR DATADIR MANDIR DOCDIR UNITDIR SYSUSERSDIR,$(v)='$($(v))')

# What only installing needs. The paths are in it, so it's made anew each time.
package: $(BUILD)/tallyd
	@mkdir -p $(STAGE)
	@$(PLACES) sh scripts/manpage.sh config/man/tallyd.1.in $(BUILD)/tallyd >$(STAGE)/tallyd.1
	@$(PLACES) sh scripts/manpage.sh config/man/tallyd.yaml.5.in $(BUILD)/tallyd >$(STAGE)/tallyd.yaml.5
	@sh scripts/units.sh $(BINDIR) $(SYSCONFDIR) >$(STAGE)/tallyd.service
	@sh scripts/units.sh $(BINDIR) $(SYSCONFDIR) instance >$(STAGE)/tallyd@.service

install: package ## install under PREFIX (/usr/local), DESTDIR in front: binary, manual pages, unit, sample configuration, rules
	@$(PLACES) sh scripts/install.sh install

uninstall: ## take away what install brought; a configuration that was changed stays
	@$(PLACES) sh scripts/install.sh uninstall

deb: ## build/tallyd_VERSION_ARCH.deb from a clean copy, checked by lintian
	@sh scripts/deps.sh package
	@sh scripts/deb.sh $(BUILD)

package-test: ## what is installed, and as root the package in a fresh Debian: run as its user, upgraded, purged; run by a real systemd (two minutes)
	@sh scripts/deps.sh package
	@$(MAKE) --no-print-directory -j2 all
	@for t in install man unit rules deb fresh_debian systemd; do TALLYD_BUILD=$(BUILD) sh test/package/$$t.sh || exit 1; done

clean: ## remove what was built
	rm -rf $(BUILD) build-*

-include $(wildcard $(BUILD)/obj/*.d $(BUILD)/obj/support/*.d $(BUILD)/test/*.d)
