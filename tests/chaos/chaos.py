"""Processes that write, read and follow a table while things go wrong, round after round: `make chaos`.

A round makes a table of random columns and options, and up to four processes that are told what to do to it, one call
after the other or all at once. Meanwhile processes are killed or stopped in the middle of a call of the system, calls
fail, the disk is full or cannot be written, and what was not yet written to it is lost: with the machine (another
boot), without it (a volume that was detached), or by a snapshot of the volume. oracle.py knows what each reader may
see then, and what it must. Rounds on a volume of their own need root, and are left out without.

A round follows from its seed, which is printed when it fails, but for the order of processes that run all at once:
`--seed 7 --rounds 1` plays it again, and with ARROWWOOD_CHAOS_TRACE=1 says what is done. The seeds in the file
`regressions` found something once: `--regressions` plays them.

At the end stands how often each operation met each thing that goes wrong: how often a process was killed or stopped
in it, one of its calls failed, or it was called while the disk was full, soon after a loss, …
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK = "ARROWWOOD_CHAOS_PRELOADED"
# How often each operation is to meet what goes wrong in a whole run.
ENOUGH = 100


def preload(home):
    """Starts this program anew with the library that lets calls fail; without a compiler it goes on as it is."""
    if os.environ.get(MARK):
        return
    if not shutil.which("cc"):
        print("failing calls: left out, there is no cc")
        return
    library = home / "failing_calls.so"
    source = HERE.parent / "support/failing_calls.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), MARK: str(home)}
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="that of the first round")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--only", choices=["folder", "volume"], help="where tables lie")
    parser.add_argument("--regressions", action="store_true", help="play these instead")
    args = parser.parse_args()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    home = Path(os.environ.get(MARK) or tempfile.mkdtemp(prefix="arrowwood-chaos-", dir=memory))
    try:
        preload(home)
        # The processes have it; programs that are run from here on don't.
        os.environ.pop("LD_PRELOAD", None)
        status = Play(home, args.only).run(args)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    sys.exit(status)


def regressions(only):
    """The seeds that found something, and where."""
    lines = (HERE / "regressions").read_text().splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]
    return [(int(seed), place) for seed, place, *_ in words if only in (None, place)]


class Play:
    def __init__(self, home, only):
        from places import Folder, Refused, Volume, own_mounts

        self.places = {"folder": Folder(home / "folder")}
        if only != "folder":
            try:
                if os.geteuid():
                    raise Refused("file systems are mounted by root")
                own_mounts()
                self.places["volume"] = Volume(home / "volume")
            except (Refused, OSError) as why:
                print(f"volume: left out, {why}")
        self.counts, self.done, self.begun, self.said = {}, 0, time.monotonic(), 0.0
        # What was found.
        self.wrong = None

    def run(self, args):
        if args.regressions:
            wanted = regressions(args.only)
        else:
            wanted = ((seed, args.only or self.place_of(seed)) for seed in range(args.seed, args.seed + args.rounds))
        all_of_them = len(wanted) if args.regressions else args.rounds
        status = 0
        try:
            for seed, place in wanted:
                if place not in self.places:
                    continue
                if not self.play(seed, place):
                    status = 1
                    break
                self.progress(all_of_them)
        finally:
            for place in self.places.values():
                place.close()
        self.show()
        if self.wrong:
            print(self.wrong)
        return status

    def place_of(self, seed):
        return "folder" if seed % 4 == 0 or "volume" not in self.places else "volume"

    def play(self, seed, place):
        """Whether nothing is wrong."""
        from oracle import Wrong
        from partitioned import PartitionedRound
        from tables import TableRound

        kind = PartitionedRound if seed % 5 == 0 else TableRound
        try:
            kind(seed, self.places[place], self.counts, bool(os.environ.get(MARK))).play()
        except Wrong as e:
            self.wrong = f"\nseed {seed}: {e}\nagain: tests/chaos/chaos.py --seed {seed} --rounds 1 --only {place}"
            return False
        self.places[place].clean()
        self.done += 1
        return True

    def progress(self, all_of_them):
        is_terminal = sys.stderr.isatty()
        now = time.monotonic() - self.begun
        if now - self.said < (0.2 if is_terminal else 30):
            return
        self.said = now
        left = (all_of_them - self.done) * now / self.done
        text = f"{self.done:,} of {all_of_them:,} rounds, {self.done / now:.1f} a second, {left / 60:.0f} minutes left"
        print(text, end="\r" if is_terminal else "\n", file=sys.stderr, flush=True)

    def show(self):
        counts = self.counts
        faults = sorted({fault for _, fault in counts}, key=lambda it: (it != "none", it))
        labels = sorted({label for label, _ in counts})
        width = max(map(len, labels), default=0)
        for line in range(2):
            print(" " * width, *(f"{(fault.split() + [''])[line]:>7.7}" for fault in faults))
        for label in labels:
            print(f"{label:{width}}", *(f"{counts.get((label, fault), 0):>7}" for fault in faults))
        calls = sum(number for (_, fault), number in counts.items() if fault == "none")
        met = sum(counts.values()) - calls
        few = [
            f"{label} × {fault}" for label in labels for fault in faults if 0 < counts.get((label, fault), 0) < ENOUGH
        ]
        if self.done >= 5000 and few:
            print(f"fewer than {ENOUGH}: {', '.join(few)}")
        print(f"{self.done} rounds, {calls + met} calls, {met} of them met something that goes wrong")


if __name__ == "__main__":
    main()
