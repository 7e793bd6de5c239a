#!/usr/bin/env python3
"""Builds the libraries for other processors and C libraries of Linux, and for Windows, and runs their tests there.

    tests/port/port.py [TARGET…] [--json FILE] [--only TEXT]

A target is one of `port.toml`: by default all of them are tested, one after the other. Debian's Rust builds them, with
the standard library from its source. Programs of another processor run under qemu's emulation of one process, which
the kernel starts for them, so that tests can start processes of their own: each program of tests gets a user namespace
with a binfmt_misc of its own, and the machine is left as it is. Programs of Windows run under wine, in a prefix in the
folder of what is built. Beside one of their tests, a process of Linux writes the table that the test reads. Tests of
Python run in a Python of the target (foreign_python.py).

A test fails if it doesn't end in time. Where a program of tests dies, the tests that were running are run again, each
alone; under qemu also where a test doesn't end in time, as the child of a fork may hang there. Tests that are left out
are listed in `port.toml`, each with its cause. It is an error if one of them does not exist, or if they are more than
2 % of the tests in a target's programs.
"""

import argparse
import contextlib
import dataclasses
import fnmatch
import gzip
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import foreign_python
import zig

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CRATES = ["arrowwood-mapping", "arrowwood"]
# What cargo builds of a crate, unless `port.toml` selects programs.
ALL_PROGRAMS = ["--lib", "--tests"]
# Debian's packages that every target needs.
PACKAGES = ["rustc-web", "cargo-web", "rust-web-src"]
CARGO, RUSTC = "/usr/bin/cargo", "/usr/bin/rustc"
# The environment in which Debian's cargo builds the standard library, too.
BUILD_ENVIRONMENT = {
    "RUSTC": RUSTC,
    "RUSTC_BOOTSTRAP": "1",
    "CARGO_INCREMENTAL": "0",
    "CARGO_PROFILE_DEV_DEBUG": "false",
}
# The crates of the standard library. They are optimized, as in a toolchain: otherwise tests take many times as long,
# also for generic functions of theirs that ours share.
STD_CRATES = """
    addr2line adler2 alloc cfg-if compiler_builtins core gimli hashbrown memchr miniz_oxide object panic_unwind
    rustc-demangle std std_detect test unwind
""".split()
BUILD_STD = ["-Zbuild-std"]
for crate in STD_CRATES:
    BUILD_STD += ["--config", f"profile.dev.package.{crate}.opt-level=2"]
# The percentage of tests that may be left out.
MAX_LEFT_OUT = 2
# How many seconds a test may take, and all tests of a target. A test of Rust under an emulator, where one that hangs is
# run twice, has less time, but more than it waits for anything.
TEST_SECONDS = 600
EMULATED_TEST_SECONDS = 300
TARGET_SECONDS = 40 * 60
# The report names tests that take longer than this many seconds.
SLOW_SECONDS = 30
# How many characters of a failed test's output are reported, of its beginning and of its end.
OUTPUT_CHARACTERS = 10_000
# How many cases random tests have by default, under an emulator: a quarter of those elsewhere.
EMULATED_CASES = 64
# qemu 7.2 leaves the ids of mounts out of statx(2): each mount gets this one.
EMULATED_ENVIRONMENT = {"ARROWWOOD_MOUNT_IDS": "one"}
# qemu 7.2 ignores limits of memory that a program in it sets: these suites, which do, get a limit of this many bytes.
LIMITED_SUITES = ["arrowwood hostile"]
LIMITED_BYTES = 8 << 30

# Debian's wine, which is not in the path.
WINE = "/usr/lib/wine/wine64"
# The suite with a test that reads what a process of Linux writes, the test of that process, and the variables with the
# folder of either: see tables/shared.rs.
SHARED_SUITE, SHARED_WRITER = "arrowwood tables", "shared::writer"
WRITER_FOLDER, READER_FOLDER = "ARROWWOOD_SHARED_WRITER", "ARROWWOOD_SHARED_READER"

# What the command prints of a table that Linux has written, and of a file in it.
COMMAND, COMMAND_CRATE = "arrowwood", "arrowwood-cli"
TABLE = ROOT / "tests/versions/1.0"
COMMAND_RUNS = [
    (["check", "table"], ": ok, 20 rows"),
    (["head", "table", "-n", "3"], "row 2"),
    (["stat", "table"], "20"),
    (["check", "table/00000000000000000000.arrow"], ": ok, 8 rows"),
    (["head", "table/00000000000000000000.arrow"], "row 6"),
]

# The crate of the Python package, how the suites of its tests begin, and what runs them as Rust's.
PYTHON_CRATE = "arrowwood-python"
PYTHON_SUITE = "python "
PYTHON_PROGRAM = HERE / "pytest_program.py"


@dataclasses.dataclass
class Program:
    """A program of tests: its suite, which is the crate and its name, its path, its folder, and variables for it."""

    suite: str
    path: str
    folder: Path
    environment: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Outcome:
    """What became of a test: `ok`, `failed` or `ignored`, what it printed, and how many seconds it took."""

    event: str
    output: str = ""
    seconds: float = 0


@dataclasses.dataclass
class Run:
    """What became of a program's tests: how many it has, which were selected, and how many of these were left out."""

    suite: str
    built: int
    selected: list
    left_out: int
    outcomes: dict
    seconds: int


def missing_packages(packages):
    """Returns the packages of Debian that are not installed."""
    query = ["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}", "--"]
    return [
        package
        for package in packages
        if not subprocess.run([*query, package], capture_output=True, text=True).stdout.startswith("ii")
    ]


class Target:
    """A target, as `port.toml` describes it."""

    def __init__(self, name, settings, left_out):
        self.name = name
        self.triple = settings["triple"]
        self.packages = PACKAGES + settings["packages"]
        self.linker = settings.get("linker")
        self.zig = settings.get("zig")
        self.emulator = settings.get("emulator")
        self.sysroot = settings.get("sysroot")
        self.wine = settings.get("wine", False)
        self.folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
        self.programs = settings.get("programs", {})
        self.only = settings.get("only")
        self.python_tests = settings.get("python", [])
        self.debian = settings.get("debian")
        # Installed by `build`.
        self.python = None
        self.left_out = {
            test: entry["cause"] for entry in left_out if name in entry["targets"] for test in entry["tests"]
        }

    def build(self):
        """Builds the tests. Returns their programs."""
        environment = self.build_environment()
        programs = [program for crate in CRATES for program in self.build_crate(crate, environment)]
        return programs + self.build_python(environment)

    def build_environment(self):
        """Returns the environment of cargo."""
        name = self.triple.upper().replace("-", "_")
        environment = {**os.environ, **BUILD_ENVIRONMENT, "CARGO_TARGET_DIR": str(self.folder)}
        linker = self.linker
        # Otherwise generic functions come from whatever crate has them, often one that isn't optimized.
        flags = ["-Zshare-generics=no"]
        if self.zig:
            linker = str(zig.write_compiler(self.folder / self.triple / "compiler/cc", self.zig))
            # Debian's Rust comes without the copy of musl that it would link.
            flags.append("-Clink-self-contained=no")
        environment[f"CARGO_TARGET_{name}_RUSTFLAGS"] = " ".join(flags)
        environment[f"CARGO_TARGET_{name}_LINKER"] = linker
        environment[f"CC_{self.triple.replace('-', '_')}"] = linker
        return environment

    def build_crate(self, crate, environment):
        """Builds the tests of a crate. Returns their programs."""
        command = [CARGO, "test", "--no-run", "--quiet", "--locked", *BUILD_STD, "--target", self.triple]
        command += ["--message-format=json-render-diagnostics", "--package", crate]
        selected = self.programs.get(crate)
        command += ALL_PROGRAMS if selected is None else [f"--test={name}" for name in selected]
        return built_programs(crate, command, environment)

    def build_python(self, environment):
        """Installs Python and the package, if tests of it are run. Returns their programs: their files."""
        if not self.python_tests:
            return []
        self.build_package(PYTHON_CRATE, environment)
        if self.wine:
            library = "_arrowwood.dll"
            self.python = foreign_python.install_windows(self.folder)
        else:
            library = "lib_arrowwood.so"
            self.python = foreign_python.install_debian(self.folder, self.debian, self.triple.split("-")[0])
        self.python.install_wheel(self.folder / self.triple / "debug" / library, self.folder / "wheel")
        folder = ROOT / "tests/python"
        return [Program(f"{PYTHON_SUITE}{name}", str(folder / f"{name}.py"), ROOT) for name in self.python_tests]

    def build_package(self, crate, environment):
        """Builds what a crate ships."""
        words = [CARGO, "build", "--quiet", "--locked", *BUILD_STD, "--target", self.triple, "--package", crate]
        if subprocess.run(words, cwd=ROOT, env=environment).returncode != 0:
            raise SystemExit(f"building {crate} has failed")

    def selects(self, test):
        """Returns whether a test is one of those of the target."""
        return self.only is None or any(fnmatch.fnmatch(test, pattern) for pattern in self.only)

    def command(self, program):
        """Returns the words that start a program of tests, and their environment."""
        environment = {"RUSTC_BOOTSTRAP": "1", "ARROWWOOD_PATIENCE": str(TEST_SECONDS), **os.environ}
        words, sysroot = [program.path], self.sysroot
        if program.suite.startswith(PYTHON_SUITE):
            words = [str(self.python.interpreter), "-X", "utf8", PYTHON_PROGRAM, program.path]
            sysroot = self.python.sysroot
        if self.wine:
            return [WINE, *words], {**environment, **self.prefix()}
        if not self.emulator:
            return words, environment
        if sysroot:
            environment["QEMU_LD_PREFIX"] = str(sysroot)
        environment |= {"PROPTEST_CASES": str(EMULATED_CASES), **EMULATED_ENVIRONMENT}
        words = [sys.executable, HERE / "emulated.py", binfmt(words[0], self.emulator), *words]
        if program.suite in LIMITED_SUITES:
            words = ["prlimit", f"--as={LIMITED_BYTES}", *words]
        return words, environment

    def prefix(self):
        """Returns the environment of wine, with a prefix that is made when it is needed first."""
        prefix = self.folder / "wine"
        environment = {"WINEPREFIX": str(prefix), "WINEDEBUG": "-all"}
        if not prefix.exists():
            # It asks for an installation of .NET and of HTML otherwise.
            quiet = {**os.environ, **environment, "WINEDLLOVERRIDES": "mscoree,mshtml="}
            subprocess.run([WINE, "wineboot", "--init"], env=quiet, check=True, capture_output=True)
        return environment

    @contextlib.contextmanager
    def writer_beside(self, program):
        """Runs a process of Linux that writes the table which a test reads. Yields the environment of the test."""
        if not self.wine or program.suite != SHARED_SUITE:
            yield {}
            return
        command = ["cargo", "test", "--no-run", "--quiet", "--locked", "--message-format=json-render-diagnostics"]
        command += ["--package", "arrowwood", "--test", SHARED_SUITE.split()[1]]
        [native] = built_programs("arrowwood", command, {**os.environ, "CARGO_TARGET_DIR": str(self.folder)})
        with tempfile.TemporaryDirectory() as folder:
            words = [native.path, "--exact", SHARED_WRITER]
            writer = subprocess.Popen(words, env={**os.environ, WRITER_FOLDER: folder}, stdout=subprocess.DEVNULL)
            try:
                yield {READER_FOLDER: folder}
            finally:
                writer.kill()
                writer.wait()

    def command_errors(self):
        """Builds the command, and runs it on a table. Returns what it got wrong."""
        if not self.wine:
            return []
        self.build_package(COMMAND_CRATE, self.build_environment())
        command = self.folder / self.triple / "debug" / f"{COMMAND}.exe"
        environment = {**os.environ, **self.prefix()}
        errors = []
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "table"
            table.mkdir()
            for packed in TABLE.glob("*.gz"):
                (table / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
            for run, expected in COMMAND_RUNS:
                words = [WINE, command, *run]
                ran = subprocess.run(words, cwd=folder, env=environment, capture_output=True, timeout=TEST_SECONDS)
                printed = ran.stdout.decode(errors="replace")
                if ran.returncode != 0 or expected not in printed:
                    message = ran.stderr.decode(errors="replace")
                    errors.append(
                        f"arrowwood {' '.join(run)}: status {ran.returncode}, no {expected!r}: {printed}{message}"
                    )
        print(f"{self.name}: command: {len(COMMAND_RUNS)} runs", flush=True)
        return errors

    def list_tests(self, program):
        """Returns the names of the tests in a program."""
        words, environment = self.command(program)
        listed = subprocess.run(
            [*words, "--list", "--format=terse"],
            cwd=program.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TARGET_SECONDS,
        )
        if listed.returncode != 0:
            hint = "; a binfmt_misc of one's own needs Linux 6.7" if "binfmt_misc" in listed.stderr else ""
            raise SystemExit(f"{self.name}: {program.suite} does not run{hint}\n{listed.stderr}")
        lines = [line.strip() for line in listed.stdout.splitlines()]
        return [line.removesuffix(": test") for line in lines if line.endswith(": test")]


def built_programs(crate, command, environment):
    """Builds tests of a crate. Returns their programs."""
    built = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        raise SystemExit(f"building {crate} has failed: {' '.join(command)}")
    programs = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"]:
            target = message["target"]
            suite = "lib" if "lib" in target["kind"] else target["name"]
            programs.append(Program(f"{crate} {suite}", message["executable"], Path(message["manifest_path"]).parent))
    return programs


def binfmt(program, emulator):
    """Returns the line that hands programs like this one to an emulator, for binfmt_misc."""
    with open(program, "rb") as file:
        header = file.read(20)
    # Of a header in ELF, the system and the padding are left open, and whether the program has fixed addresses.
    mask = bytearray(b"\xff" * 7 + b"\0" * 9 + b"\xff" * 4)
    mask[16 if header[5] == 1 else 17] = 0xFE
    escaped = ["".join(f"\\x{byte:02x}" for byte in text) for text in (header, mask)]
    return f":arrowwood:M::{escaped[0]}:{escaped[1]}:{emulator}:F"


def run_once(target, program, tests, deadline, threads, outcomes):
    """Runs tests in one process until it ends, or one of the tests takes too long. Adds what became of them.

    Returns the tests that were running at the end.
    """
    words, environment = target.command(program)
    environment |= program.environment
    repeats_late_tests = target.emulator and not program.suite.startswith(PYTHON_SUITE)
    limit = EMULATED_TEST_SECONDS if repeats_late_tests else TEST_SECONDS
    words += ["--exact", "-Zunstable-options", "--format=json", f"--test-threads={threads}", "--", *tests]
    running = {}
    with selectors.DefaultSelector() as selector:
        # Python does not start under wine if its standard error is a file.
        process = subprocess.Popen(
            words,
            cwd=program.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        errors = bytearray()
        reader = threading.Thread(target=keep_end, args=(process.stderr, errors), daemon=True)
        reader.start()
        selector.register(process.stdout, selectors.EVENT_READ)
        pieces = []
        while True:
            now = time.monotonic()
            late = [test for test, start in running.items() if now > start + limit]
            if late or now > deadline:
                os.killpg(process.pid, signal.SIGKILL)
                # qemu 7.2 may deadlock in the child of a fork, if other threads are running.
                if not repeats_late_tests or threads == 1:
                    for test in late:
                        outcomes[test] = Outcome("failed", f"it takes more than {limit} seconds", limit)
                        del running[test]
                break
            if not selector.select(1):
                continue
            piece = os.read(process.stdout.fileno(), 1 << 16)
            if not piece:
                break
            pieces.append(piece)
            # Joined once for each line: a test may print gigabytes, which are one line.
            if b"\n" in piece:
                *lines, rest = b"".join(pieces).split(b"\n")
                pieces = [rest]
                for line in lines:
                    note(line, running, outcomes)
        process.stdout.close()
        status = process.wait()
        if status not in (0, 101) and len(running) == 1 and len(tests) == 1:
            # The pipe has no end yet if a process that was started there still holds it.
            reader.join(1)
            text = errors.decode(errors="replace")
            outcomes[tests[0]] = Outcome("failed", f"its process has ended: status {status}\n{text}")
            running.clear()
    return list(running)


def keep_end(pipe, kept):
    """Reads a pipe to its end, and keeps the last 4,000 bytes."""
    while piece := pipe.read1():
        kept += piece
        del kept[:-4000]


def note(line, running, outcomes):
    """Notes what an event tells. Other lines are those that a test has printed past the harness."""
    try:
        event = json.loads(line)
    except ValueError:
        return
    if not isinstance(event, dict) or event.get("type") != "test":
        return
    if event["event"] == "started":
        running[event["name"]] = time.monotonic()
    elif event["event"] in ("ok", "failed", "ignored"):
        now = time.monotonic()
        seconds = now - running.pop(event["name"], now)
        output = event.get("stdout", "")
        if len(output) > 2 * OUTPUT_CHARACTERS:
            left_out = len(output) - 2 * OUTPUT_CHARACTERS
            output = f"{output[:OUTPUT_CHARACTERS]}\n[{left_out} characters]\n{output[-OUTPUT_CHARACTERS:]}"
        outcomes[event["name"]] = Outcome(event["event"], output, seconds)


def run_tests(target, program, tests, deadline):
    """Runs tests of a program. Returns what became of each."""
    outcomes = {}
    left = tests
    while left and time.monotonic() < deadline:
        before = len(outcomes)
        suspects = run_once(target, program, left, deadline, os.cpu_count(), outcomes)
        for test in suspects:
            if run_once(target, program, [test], deadline, 1, outcomes) and time.monotonic() < deadline:
                outcomes[test] = Outcome("failed", "it ends without a result")
        left = [test for test in left if test not in outcomes]
        if len(outcomes) == before:
            break
    for test in left:
        outcomes[test] = Outcome("failed", "it was not run, for want of time")
    return outcomes


def run_program(target, program, only, deadline):
    """Runs the tests of a program that are selected. Returns what became of them."""
    began = time.monotonic()
    built = target.list_tests(program)
    selected = [name for name in built if target.selects(f"{program.suite} {name}")]
    tests = [name for name in selected if f"{program.suite} {name}" not in target.left_out]
    left_out = len(selected) - len(tests)
    if only is not None:
        tests = [name for name in tests if only in f"{program.suite} {name}"]
    with target.writer_beside(program) as program.environment:
        outcomes = run_tests(target, program, tests, deadline) if tests else {}
    for name, outcome in outcomes.items():
        if outcome.event == "failed":
            print(f"---- {target.name}: {program.suite} {name}\n{outcome.output}\n", end="", flush=True)
    seconds = round(time.monotonic() - began)
    print(f"{target.name}: {program.suite}: {len(tests)} tests in {seconds} s\n", end="", flush=True)
    return Run(program.suite, len(built), selected, left_out, outcomes, seconds)


def run_programs(target, programs, only, deadline):
    """Runs the tests of programs. Returns what became of them.

    Each of Rust's programs has as many threads as the machine has processors, so that they run one after the other.
    Python's have one thread.
    """
    programs = sorted(programs, key=lambda program: program.suite)
    of_python = [program for program in programs if program.suite.startswith(PYTHON_SUITE)]
    runs = [run_program(target, program, only, deadline) for program in programs if program not in of_python]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs += pool.map(lambda program: run_program(target, program, only, deadline), of_python)
    return runs


def test_target(target, only):
    """Builds and tests a target. Returns a report."""
    start = time.monotonic()
    programs = target.build()
    built = time.monotonic()
    print(f"{target.name}: built in {built - start:.0f} s", flush=True)
    runs = run_programs(target, programs, only, start + TARGET_SECONDS)
    outcomes = {f"{run.suite} {name}": outcome for run in runs for name, outcome in run.outcomes.items()}
    counts = {
        "built": sum(run.built for run in runs),
        "tests": sum(len(run.selected) for run in runs),
        "passed": sum(outcome.event == "ok" for outcome in outcomes.values()),
        "ignored": sum(outcome.event == "ignored" for outcome in outcomes.values()),
        "left_out": sum(run.left_out for run in runs),
    }
    selected = {f"{run.suite} {name}" for run in runs for name in run.selected}
    errors = [f"{test} is left out, and does not exist" for test in target.left_out if test not in selected]
    if only is None:
        errors += target.command_errors()
    if counts["left_out"] * 100 > counts["built"] * MAX_LEFT_OUT:
        errors.append(f"{counts['left_out']} tests are left out, more than {MAX_LEFT_OUT} % of {counts['built']}")
    return {
        "target": target.name,
        "triple": target.triple,
        **counts,
        "failed": {test: outcome.output for test, outcome in outcomes.items() if outcome.event == "failed"},
        "causes": target.left_out,
        "errors": errors,
        "build_seconds": round(built - start),
        "seconds": round(time.monotonic() - start),
        "suite_seconds": {run.suite: run.seconds for run in runs},
        "slow_tests": {
            test: round(outcome.seconds) for test, outcome in outcomes.items() if outcome.seconds > SLOW_SECONDS
        },
    }


def main():
    settings = tomllib.loads((HERE / "port.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(settings["target"]))
    parser.add_argument("--json", type=Path, help="a file for the reports")
    parser.add_argument("--only", help="run only tests whose names contain this")
    arguments = parser.parse_args()
    names = arguments.targets or list(settings["target"])
    unknown = [name for name in names if name not in settings["target"]]
    if unknown:
        parser.error(f"no target {unknown[0]}; there are {', '.join(settings['target'])}")
    targets = [Target(name, settings["target"][name], settings.get("left_out", [])) for name in names]
    missing = missing_packages(sorted({package for target in targets for package in target.packages}))
    if missing:
        raise SystemExit(f"please install: apt-get install {' '.join(missing)}")
    if any(target.zig for target in targets):
        zig.find_folder()
    reports = []
    for target in targets:
        reports.append(test_target(target, arguments.only))
        if arguments.json:
            arguments.json.write_text(json.dumps(reports, indent=2) + "\n")
    for report in reports:
        words = "{target}: {tests} tests, {passed} passed, {ignored} ignored, {left_out} left out".format(**report)
        print(f"{words}, {len(report['failed'])} failed")
        for error in report["errors"]:
            print(f"{report['target']}: {error}")
    sys.exit(any(report["failed"] or report["errors"] for report in reports))


if __name__ == "__main__":
    main()
