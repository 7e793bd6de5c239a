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


SMALL = ["--segment-rows", "4096"]
LARGE = ["--batch", "5000", "--singles", "20", "--rate", "200000"]
SCENARIOS = {
    "small": Scenario(
        "segments of 4,096 rows", ["pyarrow-mapped", "pyarrow-copying", "pyarrow-dataset", "polars"], SMALL
    ),
    "engines": Scenario("segments of 4,096 rows", ["datafusion", "duckdb", "go", "java", "js"], SMALL),
    "large": Scenario("segments that double from 65,536 rows", ["pyarrow-mapped", "polars", "datafusion", "go"], LARGE),
    "killed": Scenario(
        "the writer is killed again and again", ["pyarrow-mapped", "pyarrow-dataset"], SMALL, killed=True
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


def start_writer(options, table, seconds, journal, seed):
    command = [sys.executable, HERE / "writer.py", table, "--seconds", seconds, "--journal", journal, "--seed", seed]
    writer = start([*command, *options])
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

    def __init__(self, options, table, journal):
        self.options, self.table, self.journal = options, table, journal
        self.kills = 0
        self.complaints = []
        self.expected = Expected()

    def run(self, writer, seconds):
        dice, deadline = random.Random(7), time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(dice.uniform(0, 1.5))
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            self.kills += 1
            intended, committed = struct.unpack("<QQ", self.journal.read_bytes())
            self.look("opened after a kill", committed, max(intended, committed))
            writer, opened = start_writer(self.options, self.table, 3600, self.journal, self.kills + 1)
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


def play(scenario, commands, seconds, folder):
    """What each process of the scenario says."""
    table, journal = folder / "ticks", folder / "journal"
    lasts = 3600 if scenario.killed else seconds + 2
    writer, _ = start_writer(scenario.writer, table, lasts, journal, 1)
    readers = {name: start([*command, table, seconds]) for name, command in commands.items()}
    said = {}
    if scenario.killed:
        killed = Killed(scenario.writer, table, journal)
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
        print(f"  {name:16} {figures['opens']:>8,} opens {figures['rows']:>14,} rows {wrong:>6} wrong")
        for complaint in figures["complaints"] if wrong else []:
            print(f"    {complaint}")
        bad += wrong
    return bad


def run(names, seconds, readers=None):
    """Plays scenarios; how much was wrong."""
    bad = 0
    made = Path(tempfile.mkdtemp(prefix="arrowwood-live-"))
    commands = {}
    for name in names:
        scenario = SCENARIOS[name]
        for reader in scenario.readers:
            if reader not in commands and reader in (readers or scenario.readers):
                commands[reader] = present(reader, made)
        here = {reader: commands[reader] for reader in scenario.readers if commands.get(reader)}
        folder = made / name
        folder.mkdir()
        print(f"{name}: {scenario.about}")
        bad += show(play(scenario, here, seconds, folder))
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
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    options = parser.parse_args()
    bad = run(options.scenarios or list(SCENARIOS), options.seconds, options.readers)
    print(f"{bad} wrong" if bad else "nothing wrong")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
