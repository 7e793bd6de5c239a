"""Tests that other Arrow libraries can read a table while it is being written: `make live`.

A writer (writer.py, or the Rust example `ticks`) commits at full speed. Reader processes (reader.py, and Go, Java and
JavaScript programs if their toolchains are installed) open the table again and again and check every row. Each open
must return a prefix of the rows, at least as long as the previous one.
"""

import argparse
import json
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import arrowwood

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "interop"))
import run as interop  # noqa: E402

# The Python module that a reader of reader.py needs.
REQUIRED_MODULES = {
    "pyarrow-mapped": "pyarrow",
    "pyarrow-copying": "pyarrow",
    "pyarrow-dataset": "pyarrow",
    "polars": "polars",
    "datafusion": "datafusion",
    "duckdb": "duckdb",
}

# A journal has one word for the commit in progress, one for the committed rows, and one for each of up to 16 readers of
# tests/live/ticks.rs, which are not used here.
JOURNAL_READERS = 16
UNUSED_READER = 2**64 - 1

KILL_SEED = 7


@dataclass
class Scenario:
    """A writer and the readers of its table."""

    about: str
    readers: list[str]
    writer_arguments: list[str] = field(default_factory=list)
    is_killed: bool = False
    # The writer is the Rust example `ticks`, which starts and commits faster than writer.py.
    is_native: bool = False


SMALL = ["--segment-rows", "4096"]
LARGE = ["--batch", "5000", "--singles", "20", "--rate", "100000"]
SCENARIOS = {
    "small": Scenario(
        "segments of 4,096 rows", ["pyarrow-mapped", "pyarrow-copying", "pyarrow-dataset", "polars"], SMALL
    ),
    "engines": Scenario("segments of 4,096 rows", ["datafusion", "duckdb", "go", "java", "js"], SMALL),
    # DataFusion is left out: it reads the footer of a file while it still processes the previous file, which takes
    # seconds here, but a footer is only left unchanged for one second. DataFusion then panics, as the body is longer
    # than the footer said.
    "large": Scenario("segments that double from 65,536 rows", ["pyarrow-mapped", "polars", "go"], LARGE),
    "killed": Scenario(
        "the writer is killed again and again", ["pyarrow-mapped", "pyarrow-dataset"], SMALL, is_killed=True
    ),
    "native": Scenario("a writer in Rust, segments of 1,000 rows", ["pyarrow-mapped"], ["1000"], is_native=True),
    "native-killed": Scenario(
        "the same, and it is killed again and again", ["pyarrow-mapped"], ["1000"], is_killed=True, is_native=True
    ),
}


class OpenedWriter(NamedTuple):
    process: subprocess.Popen
    # The rows that the writer found in the table.
    rows: int


def reader_command(name: str, folder: Path) -> list[str] | None:
    """Returns the command of a reader. Prints why and returns None if it can't run here."""
    try:
        if name not in REQUIRED_MODULES:
            command, _ = interop.MAKERS[name](folder)
            return [*command, "live"]
        __import__(REQUIRED_MODULES[name])
        return [sys.executable, str(HERE / "reader.py"), name]
    except (interop.MissingToolchain, ImportError) as e:
        print(f"{name}: left out, {e}")
        return None


def start_process(command: list) -> subprocess.Popen:
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)


def start_writer(
    scenario: Scenario, program: Path | None, table: Path, seconds: float, journal: Path, seed: int
) -> OpenedWriter:
    """Starts a writer and waits until it has opened the table."""
    if scenario.is_native:
        command = [program, table, seconds, journal, seed]
    else:
        command = [sys.executable, HERE / "writer.py", table]
        command += ["--seconds", seconds, "--journal", journal, "--seed", seed]
    process = start_process([*command, *scenario.writer_arguments])
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("the writer did not start")
    return OpenedWriter(process, json.loads(line)["opened"])


def wait_for_figures(process: subprocess.Popen) -> dict:
    """Waits for the end of a process and returns the figures that it printed."""
    output, _ = process.communicate()
    if process.returncode or not output.strip():
        return {"opens": 0, "rows": 0, "wrong": 1, "complaints": [f"ended with {process.returncode}"]}
    return json.loads(output.splitlines()[-1])


class WriterKiller:
    """Kills the writer at random moments and compares the table with the writer's journal."""

    def __init__(self, restart: Callable[[int], OpenedWriter], table: Path, journal: Path):
        self.restart = restart
        self.table = table
        self.journal = journal
        self.kills = 0
        self.complaints: list[str] = []

    def run(self, writer: subprocess.Popen, seconds: float):
        rng = random.Random(KILL_SEED)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            # Kills at any moment, without waiting for a state of the writer.
            time.sleep(rng.uniform(0, 0.5))
            self._kill(writer)
            self.kills += 1
            intended, committed = struct.unpack("<QQ", self.journal.read_bytes()[:16])
            max_rows = max(intended, committed)
            self._check_table(committed, max_rows)
            writer, opened_rows = self.restart(self.kills + 1)
            if not committed <= opened_rows <= max_rows:
                self.complaints.append(f"went on from {opened_rows}, expected {committed} to {intended}")
        self._kill(writer)

    def figures(self) -> dict:
        return {"opens": self.kills, "rows": 0, "wrong": len(self.complaints), "complaints": self.complaints[:5]}

    @staticmethod
    def _kill(writer: subprocess.Popen):
        writer.send_signal(signal.SIGKILL)
        writer.wait()

    def _check_table(self, min_rows: int, max_rows: int):
        dataset = arrowwood.open(self.table)
        dataset.validate()
        if not min_rows <= len(dataset) <= max_rows:
            self.complaints.append(f"opened after a kill: {len(dataset)} rows, expected {min_rows} to {max_rows}")


def run_scenario(
    scenario: Scenario, commands: dict[str, list[str]], seconds: float, folder: Path, program: Path | None
) -> dict[str, dict]:
    """Runs the writer and the readers of a scenario. Returns the figures of each process."""
    table, journal = folder / "ticks", folder / "journal"
    journal.write_bytes(struct.pack(f"<{2 + JOURNAL_READERS}Q", 0, 0, *[UNUSED_READER] * JOURNAL_READERS))
    # A writer must outlast its killer, and a writer that isn't killed the readers.
    writer_seconds = 2 * seconds + 60 if scenario.is_killed else seconds + 2
    start = partial(start_writer, scenario, program, table, writer_seconds, journal)
    writer, _ = start(1)
    reader_options = ["killed"] if scenario.is_killed else []
    readers = {name: start_process([*command, table, seconds, *reader_options]) for name, command in commands.items()}
    figures = {}
    if scenario.is_killed:
        killer = WriterKiller(start, table, journal)
        killer.run(writer, seconds)
        figures["kills"] = killer.figures()
    else:
        figures["writer"] = wait_for_figures(writer)
    for name, reader in readers.items():
        figures[name] = wait_for_figures(reader)
    return figures


def print_figures(all_figures: dict[str, dict]) -> int:
    """Prints the figures of all processes and returns how many results were wrong."""
    kills = all_figures["kills"]["opens"] if "kills" in all_figures else 0
    total_wrong = 0
    for name, figures in all_figures.items():
        if name == "writer":
            print("  writer: {commits:,} commits, {rows:,} rows in {seconds} s".format(**figures))
            total_wrong += not figures["rows"]
            continue
        wrong = figures["wrong"] + (figures["opens"] == 0) + (figures["rows"] == 0 and name != "kills")
        gone = figures.get("gone", 0)
        # A kill can cost a reader rows of the newest segment and of the one before.
        wrong += gone > 2 * kills
        remarks = ""
        if gone:
            remarks += f", {gone} times rows were gone after a kill"
        if figures.get("refused"):
            remarks += f", {figures['refused']} times it refused to read"
        print(f"  {name:16} {figures['opens']:>8,} opens {figures['rows']:>14,} rows {wrong:>6} wrong{remarks}")
        if wrong or gone:
            for complaint in figures["complaints"]:
                print(f"    {complaint}")
        total_wrong += wrong
    return total_wrong


def run_scenarios(names: list[str], seconds: float, only_readers: list[str] | None, program: Path | None) -> int:
    """Runs scenarios and returns how many results were wrong. Their folders are kept if any was."""
    total_wrong = 0
    home = Path(tempfile.mkdtemp(prefix="arrowwood-live-"))
    commands: dict[str, list[str] | None] = {}
    for name in names:
        scenario = SCENARIOS[name]
        if scenario.is_native and not program:
            print(f"{name}: left out, no --writer")
            continue
        for reader in scenario.readers:
            if reader not in commands and reader in (only_readers or scenario.readers):
                commands[reader] = reader_command(reader, home)
        scenario_commands = {reader: commands[reader] for reader in scenario.readers if commands.get(reader)}
        folder = home / name
        folder.mkdir()
        print(f"{name}: {scenario.about}")
        total_wrong += print_figures(run_scenario(scenario, scenario_commands, seconds, folder, program))
        sys.stdout.flush()
        if not total_wrong:
            shutil.rmtree(folder)
    if total_wrong:
        print(f"kept: {home}")
    else:
        shutil.rmtree(home)
    return total_wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--readers", nargs="*", help="only these")
    parser.add_argument("--writer", type=Path, help="the built program examples/ticks")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    options = parser.parse_args()
    wrong = run_scenarios(options.scenarios or list(SCENARIOS), options.seconds, options.readers, options.writer)
    print(f"{wrong} wrong" if wrong else "nothing wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
