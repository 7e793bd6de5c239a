"""Whether stock readers can be at a table while it is being written: `make live`.

A writer (writer.py) commits at full speed, readers in processes of their own (reader.py, and Go, Java and JavaScript
where their toolchains are) open the table over and over and check every row. Every open must find a prefix of the rows,
and no fewer than the one before.
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
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import arrowwood
from rows import Expected

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "interop"))
import run as interop  # noqa: E402

# Module that a reader of reader.py needs.
NEEDS = {
    "pyarrow-mapped": "pyarrow",
    "pyarrow-copying": "pyarrow",
    "pyarrow-dataset": "pyarrow",
    "polars": "polars",
    "datafusion": "datafusion",
    "duckdb": "duckdb",
}


@dataclass
class Scenario:
    """Who reads what."""

    about: str
    readers: list
    writer: list = field(default_factory=list)
    killed: bool = False
    # Written by examples/ticks, which is faster, and starts faster.
    native: bool = False


SMALL = ["--segment-rows", "4096"]
LARGE = ["--batch", "5000", "--singles", "20", "--rate", "100000"]
SCENARIOS = {
    "small": Scenario(
        "segments of 4,096 rows", ["pyarrow-mapped", "pyarrow-copying", "pyarrow-dataset", "polars"], SMALL
    ),
    "engines": Scenario("segments of 4,096 rows", ["datafusion", "duckdb", "go", "java", "js"], SMALL),
    # Without DataFusion: it reads the footer of a file while it is busy with the one before, which takes seconds here,
    # and a face rests for one. Then it panics: the body is longer than the footer said.
    "large": Scenario("segments that double from 65,536 rows", ["pyarrow-mapped", "polars", "go"], LARGE),
    "killed": Scenario(
        "the writer is killed again and again", ["pyarrow-mapped", "pyarrow-dataset"], SMALL, killed=True
    ),
    "native": Scenario("a writer in Rust, segments of 1,000 rows", ["pyarrow-mapped"], ["1000"], native=True),
    "native-killed": Scenario(
        "the same, and it is killed again and again", ["pyarrow-mapped"], ["1000"], killed=True, native=True
    ),
}


def present(name, folder):
    """The command of a reader, or None with a line that says why."""
    try:
        if name not in NEEDS:
            command, _ = interop.MAKERS[name](folder)
            return [*command, "live"]
        __import__(NEEDS[name])
        return [sys.executable, str(HERE / "reader.py"), name]
    except (interop.Absent, ImportError) as e:
        print(f"{name}: left out, {e}")
        return None


def start(command):
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)


def start_writer(scenario, program, table, seconds, journal, seed):
    if scenario.native:
        command = [program, table, seconds, journal, seed]
    else:
        command = [
            sys.executable,
            HERE / "writer.py",
            table,
            "--seconds",
            seconds,
            "--journal",
            journal,
            "--seed",
            seed,
        ]
    writer = start([*command, *scenario.writer])
    line = writer.stdout.readline()
    if not line:
        raise RuntimeError("the writer did not start")
    return writer, json.loads(line)["opened"]


def finish(process):
    """The figures that a process prints at its end."""
    out, _ = process.communicate()
    if process.returncode or not out.strip():
        return {"opens": 0, "rows": 0, "wrong": 1, "complaints": [f"ended with {process.returncode}"]}
    return json.loads(out.splitlines()[-1])


class Killed:
    """Kills the writer at random moments, and looks whether the table is what its journal says."""

    def __init__(self, start, table, journal):
        self.start, self.table, self.journal = start, table, journal
        self.kills = 0
        self.complaints = []
        self.expected = Expected()

    def run(self, writer, seconds):
        dice, deadline = random.Random(7), time.monotonic() + seconds
        while time.monotonic() < deadline:
            # No wait for anything: at any moment, whatever the writer does.
            time.sleep(dice.uniform(0, 0.5))
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            self.kills += 1
            intended, committed = struct.unpack("<QQ", self.journal.read_bytes()[:16])
            self.look("opened after a kill", committed, max(intended, committed))
            writer, opened = self.start(self.kills + 1)
            if not committed <= opened <= max(intended, committed):
                self.complaints.append(f"went on from {opened}, expected {committed} to {intended}")
        writer.send_signal(signal.SIGKILL)
        writer.wait()

    def look(self, when, least, most):
        found = arrowwood.open(self.table)
        found.validate()
        if not least <= len(found) <= most:
            self.complaints.append(f"{when}: {len(found)} rows, expected {least} to {most}")

    def figures(self):
        return {"opens": self.kills, "rows": 0, "wrong": len(self.complaints), "complaints": self.complaints[:5]}


def play(scenario, commands, seconds, folder, program):
    """What each process of the scenario says."""
    table, journal = folder / "ticks", folder / "journal"
    # How far writer and readers are; the readers here have no say in it.
    journal.write_bytes(struct.pack("<18Q", 0, 0, *[2**64 - 1] * 16))
    lasts = 2 * seconds + 60 if scenario.killed else seconds + 2
    begin = partial(start_writer, scenario, program, table, lasts, journal)
    writer, _ = begin(1)
    killed = ["killed"] if scenario.killed else []
    readers = {name: start([*command, table, seconds, *killed]) for name, command in commands.items()}
    said = {}
    if scenario.killed:
        killed = Killed(begin, table, journal)
        killed.run(writer, seconds)
        said["kills"] = killed.figures()
    else:
        said["writer"] = finish(writer)
    return said | {name: finish(reader) for name, reader in readers.items()}


def show(said):
    """Prints the figures; how many were wrong."""
    bad = 0
    for name, figures in said.items():
        if name == "writer":
            print("  writer: {commits:,} commits, {rows:,} rows in {seconds} s".format(**figures))
            bad += not figures["rows"]
            continue
        wrong = figures["wrong"] + (figures["opens"] == 0) + (figures["rows"] == 0 and name != "kills")
        gone = figures.get("gone", 0)
        # A kill can cost a reader its rows in one segment, and the segment behind.
        wrong += gone > 2 * said.get("kills", {"opens": 0})["opens"]
        rest = f", {gone} times rows were gone after a kill" if gone else ""
        rest += f", {figures['refused']} times it refused to read" if figures.get("refused") else ""
        print(f"  {name:16} {figures['opens']:>8,} opens {figures['rows']:>14,} rows {wrong:>6} wrong{rest}")
        for complaint in figures["complaints"] if wrong or gone else []:
            print(f"    {complaint}")
        bad += wrong
    return bad


def run(names, seconds, readers, program):
    """Plays scenarios; how much was wrong."""
    bad = 0
    made = Path(tempfile.mkdtemp(prefix="arrowwood-live-"))
    commands = {}
    for name in names:
        scenario = SCENARIOS[name]
        if scenario.native and not program:
            print(f"{name}: left out, no --writer")
            continue
        for reader in scenario.readers:
            if reader not in commands and reader in (readers or scenario.readers):
                commands[reader] = present(reader, made)
        here = {reader: commands[reader] for reader in scenario.readers if commands.get(reader)}
        folder = made / name
        folder.mkdir()
        print(f"{name}: {scenario.about}")
        bad += show(play(scenario, here, seconds, folder, program))
        sys.stdout.flush()
        # What went wrong can be looked at.
        if not bad:
            shutil.rmtree(folder)
    if bad:
        print(f"kept: {made}")
    else:
        shutil.rmtree(made)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--readers", nargs="*", help="only these")
    parser.add_argument("--writer", type=Path, help="the built program examples/ticks")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    options = parser.parse_args()
    bad = run(options.scenarios or list(SCENARIOS), options.seconds, options.readers, options.writer)
    print(f"{bad} wrong" if bad else "nothing wrong")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
