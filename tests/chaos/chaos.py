"""Tests tables under combined failures, in random rounds: `make chaos`.

A round makes a table with random columns and options. Up to four processes write, read and follow it, one call after
the other or concurrently. Meanwhile processes are killed or stopped in the middle of a system call, system calls fail,
the disk is full or read-only, and unwritten pages are lost: with the machine (another boot), without it (a detached
volume), or by a snapshot of the volume. oracle.py knows what each reader may see, and what it must see. Rounds on a
volume need root, and are left out without.

A round is determined by its seed, except for the timing of concurrent processes. The seed is printed when the round
fails: `--seed 7 --rounds 1` repeats it, and ARROWWOOD_CHAOS_TRACE=1 prints what is done. The file `regressions` lists
seeds that found a fault; `--regressions` plays them.

At the end a table shows how often each operation met each fault: how often a process was killed or stopped in it, one
of its calls failed, it was called while the disk was full or soon after a loss, …
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
# Set in the environment of the program that runs with the preloaded library; its value is the program's folder.
PRELOADED_HOME = "ARROWWOOD_CHAOS_PRELOADED"
# How often each operation should meet each fault in a run of at least MIN_ROUNDS_TO_JUDGE rounds.
MIN_COUNT = 100
MIN_ROUNDS_TO_JUDGE = 5000
SECONDS_BETWEEN_LINES = 30
SECONDS_BETWEEN_UPDATES = 0.2


class RoundId(NamedTuple):
    seed: int
    place: str


def restart_preloaded(home: Path):
    """Restarts this program with the library that makes calls fail. Returns if that is done or there is no compiler."""
    if os.environ.get(PRELOADED_HOME):
        return
    if not shutil.which("cc"):
        print("failing calls: left out, there is no cc")
        return
    library = home / "failing_calls.so"
    source = HERE.parent / "support/failing_calls.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), PRELOADED_HOME: str(home)}
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="that of the first round")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--only", choices=["folder", "volume"], help="where tables lie")
    parser.add_argument("--regressions", action="store_true", help="play these instead")
    args = parser.parse_args()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    home = Path(os.environ.get(PRELOADED_HOME) or tempfile.mkdtemp(prefix="arrowwood-chaos-", dir=memory))
    try:
        restart_preloaded(home)
        # Forked workers keep the library; programs that are started from here on don't load it.
        os.environ.pop("LD_PRELOAD", None)
        status = Runner(home, args.only).run(args)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    sys.exit(status)


def read_regressions(only: str | None) -> list[RoundId]:
    rounds = []
    for line in (HERE / "regressions").read_text().splitlines():
        if line and not line.startswith("#"):
            seed, place, *_ = line.split()
            rounds.append(RoundId(int(seed), place))
    return [round_id for round_id in rounds if only in (None, round_id.place)]


class Runner:
    """Plays rounds, prints the progress, and counts which operations met which faults."""

    def __init__(self, home: Path, only: str | None):
        # The modules import arrowwood, which takes time that a program about to restart need not spend.
        from places import Folder, Refused, Volume, own_mounts

        self.places = {"folder": Folder(home / "folder")}
        if only != "folder":
            try:
                if os.geteuid():
                    raise Refused("file systems are mounted by root")
                own_mounts()
                self.places["volume"] = Volume(home / "volume")
            except (Refused, OSError) as reason:
                print(f"volume: left out, {reason}")
        # Calls by operation and fault; the fault of undisturbed calls is "none".
        self.counts: dict[tuple[str, str], int] = {}
        self.rounds_done = 0
        self.start_time = time.monotonic()
        self.last_progress = 0.0
        self.failure: str | None = None

    def run(self, args) -> int:
        """Plays all rounds, up to the first that fails. Returns the exit status."""
        if args.regressions:
            rounds: Iterable[RoundId] = read_regressions(args.only)
            total = len(rounds)
        else:
            seeds = range(args.seed, args.seed + args.rounds)
            rounds = (RoundId(seed, args.only or self.choose_place(seed)) for seed in seeds)
            total = args.rounds
        try:
            for round_id in rounds:
                if round_id.place not in self.places:
                    continue
                if not self.play(round_id):
                    break
                self.print_progress(total)
        finally:
            for place in self.places.values():
                place.close()
        self.print_counts()
        if self.failure:
            print(self.failure)
        return 1 if self.failure else 0

    def choose_place(self, seed: int) -> str:
        return "folder" if seed % 4 == 0 or "volume" not in self.places else "volume"

    def play(self, round_id: RoundId) -> bool:
        """Plays one round. Returns false, and keeps the failure, if a table broke a guarantee."""
        from oracle import Violation
        from partitioned import PartitionedRound
        from tables import TableRound

        seed, name = round_id
        place = self.places[name]
        round_type = PartitionedRound if seed % 5 == 0 else TableRound
        try:
            round_type(seed, place, self.counts, bool(os.environ.get(PRELOADED_HOME))).play()
        except Violation as e:
            self.failure = f"\nseed {seed}: {e}\nagain: tests/chaos/chaos.py --seed {seed} --rounds 1 --only {name}"
            return False
        place.clean()
        self.rounds_done += 1
        return True

    def print_progress(self, total: int):
        is_terminal = sys.stderr.isatty()
        elapsed = time.monotonic() - self.start_time
        if elapsed - self.last_progress < (SECONDS_BETWEEN_UPDATES if is_terminal else SECONDS_BETWEEN_LINES):
            return
        self.last_progress = elapsed
        rate = self.rounds_done / elapsed
        minutes_left = (total - self.rounds_done) / rate / 60
        text = f"{self.rounds_done:,} of {total:,} rounds, {rate:.1f} a second, {minutes_left:.0f} minutes left"
        print(text, end="\r" if is_terminal else "\n", file=sys.stderr, flush=True)

    def print_counts(self):
        """Prints the table of operations and faults, and what was met too rarely."""
        counts = self.counts
        faults = sorted({fault for _, fault in counts}, key=lambda fault: (fault != "none", fault))
        labels = sorted({label for label, _ in counts})
        width = max(map(len, labels), default=0)
        # The names of faults have up to two words, each on a line of its own.
        for line in range(2):
            print(" " * width, *(f"{(fault.split() + [''])[line]:>7.7}" for fault in faults))
        for label in labels:
            print(f"{label:{width}}", *(f"{counts.get((label, fault), 0):>7}" for fault in faults))
        undisturbed = sum(count for (_, fault), count in counts.items() if fault == "none")
        disturbed = sum(counts.values()) - undisturbed
        if self.rounds_done >= MIN_ROUNDS_TO_JUDGE:
            pairs = [(label, fault) for label in labels for fault in faults]
            rare = [f"{label} × {fault}" for label, fault in pairs if 0 < counts.get((label, fault), 0) < MIN_COUNT]
            if rare:
                print(f"fewer than {MIN_COUNT}: {', '.join(rare)}")
        calls = undisturbed + disturbed
        print(f"{self.rounds_done} rounds, {calls} calls, {disturbed} of them met something that goes wrong")


if __name__ == "__main__":
    main()
