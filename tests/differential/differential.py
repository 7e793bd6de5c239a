"""Random data and random operations on it, whose answers are compared with independent ones: `make differential`.

A case is one answer: of an operation on columns of random types, in files, streams, tables and memory, after a chain of
other operations. It is compared with that of a naive twin in plain Python (twin.py), and some also with those of Polars
and pyarrow (others.py).

All of it follows from the seed: `--seed 7 --datasets 1` plays one set of data again. What is found is printed as a case
of its own, made smaller; in the folder `regressions`, it is played by `--regressions` from then on.
"""

import argparse
import collections
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import case
import shrink

HERE = Path(__file__).resolve().parent
REGRESSIONS = HERE / "regressions"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="that of the first set of data")
    parser.add_argument("--cases", type=int, default=10_000, help="how many answers to compare")
    parser.add_argument("--datasets", type=int, help="how many sets of data, instead")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", metavar="FILE", help="write the counts of each type and operation")
    parser.add_argument(
        "--record", metavar="FILE", help="add them to those of the sets of data before; seed 0 begins anew"
    )
    parser.add_argument("--no-shrink", action="store_true", help="print what is wrong as it was found")
    parser.add_argument("--keep-going", action="store_true", help="go on after what is wrong")
    parser.add_argument("--regressions", action="store_true", help="play these instead")
    args = parser.parse_args()
    sys.exit(replay_all() if args.regressions else Run(args).play())


def replay_all():
    status = 0
    for path in sorted(REGRESSIONS.glob("*.json")):
        try:
            case.replay(case.loaded(path.read_text()))
        except case.Wrong as e:
            print(f"{path.name}: {e}")
            status = 1
    print(f"{len(list(REGRESSIONS.glob('*.json')))} regressions")
    return status


def play_one(seed):
    """The counts of one set of data, and what is wrong with it."""
    counts = collections.Counter()

    def count(label, operation):
        counts[label, operation] += 1

    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = tempfile.mkdtemp(prefix="arrowwood-differential-", dir=memory)
    wrong = None
    try:
        data = case.DataSet(seed, folder, count)
        data.play()
    except case.Wrong as e:
        wrong = (str(e), e.case)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return seed, data.asked, counts, wrong


class Run:
    def __init__(self, args):
        self.args, self.counts, self.cases, self.sets = args, collections.Counter(), 0, 0
        self.begun, self.said, self.wrong = time.monotonic(), 0.0, {}

    def play(self):
        args = self.args
        seeds = iter(range(args.seed, args.seed + (args.datasets or 10**9)))
        print(f"seed {args.seed}", flush=True)
        if args.jobs == 1:
            self.take(map(play_one, seeds))
        else:
            with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
                self.take(self.results(pool, seeds))
        self.show()
        return int(bool(self.wrong))

    def results(self, pool, seeds):
        waiting = collections.deque()
        for seed in seeds:
            waiting.append(pool.apply_async(play_one, (seed,)))
            if len(waiting) > 8 * self.args.jobs:
                yield waiting.popleft().get()
        while waiting:
            yield waiting.popleft().get()

    def take(self, results):
        for seed, cases, counts, wrong in results:
            self.cases += cases
            self.sets += 1
            self.counts.update(counts)
            if wrong:
                self.report(seed, *wrong)
                if not self.args.keep_going:
                    return
            if not self.args.datasets and self.cases >= self.args.cases:
                return
            self.progress()

    def report(self, seed, message, found):
        if not self.args.no_shrink:
            found, message = shrink.smallest(found, message)
        kind = message.split(":")[0]
        self.wrong.setdefault(kind, []).append(seed)
        if len(self.wrong[kind]) > 3:
            return
        print(f"\nseed {seed}, after {self.cases} cases: {message}")
        print(f"again: tests/differential/differential.py --seed {seed} --datasets 1")
        print(case.dumped(found), flush=True)

    def progress(self):
        now = time.monotonic() - self.begun
        if now - self.said < 30:
            return
        self.said = now
        print(
            f"{self.cases:,} cases of {self.sets:,} sets of data, {self.cases / now:.0f} a second",
            file=sys.stderr,
            flush=True,
        )

    def show(self):
        seconds = time.monotonic() - self.begun
        table(self.counts)
        if self.args.json:
            cells = [[label, operation, number] for (label, operation), number in sorted(self.counts.items())]
            text = json.dumps(
                {"seed": self.args.seed, "cases": self.cases, "seconds": round(seconds, 1), "counts": cells}
            )
            Path(self.args.json).write_text(text + "\n")
        if self.args.record:
            self.record(Path(self.args.record))
        for kind, seeds in self.wrong.items():
            print(f"wrong {len(seeds)} times: {kind}, seeds {seeds[:10]}")
        print(
            f"{self.cases} cases of {self.sets} sets of data in {seconds:.0f} s, {self.cases / seconds:.0f} a second; {len(self.wrong)} wrong"
        )

    def record(self, path):
        """Adds the counts to a file that has those of smaller seeds."""
        known = {"datasets": 0, "cases": 0, "counts": {}}
        if self.args.seed > 0:
            known = json.loads(path.read_text())
            if known["datasets"] != self.args.seed:
                sys.exit(f"{path} has the sets of data before {known['datasets']}, not those before {self.args.seed}")
        counts = {label: collections.Counter(known["counts"].get(label)) for label, _ in self.counts}
        for (label, operation), number in self.counts.items():
            counts[label][operation] += number
        counts = known["counts"] | {label: dict(sorted(own.items())) for label, own in counts.items()}
        known = {"datasets": known["datasets"] + self.sets, "cases": known["cases"] + self.cases}
        lines = [f" {json.dumps(label)}: {json.dumps(own)}" for label, own in sorted(counts.items())]
        head = json.dumps(known)[:-1]
        path.write_text(head + ', "counts": {\n' + ",\n".join(lines) + "\n}}\n")


def table(counts, across=14):
    """Prints how often each operation was asked of each type, some operations at a time."""
    labels = sorted({label for label, _ in counts})
    operations = sorted({operation for _, operation in counts})
    width = max(map(len, labels), default=0)
    for start in range(0, len(operations), across):
        part = operations[start : start + across]
        for line in range(2):
            print(" " * width, *(f"{halves(it)[line]:>9.9}" for it in part))
        for label in labels:
            print(f"{label:{width}}", *(f"{counts.get((label, it), 0) or '':>9}" for it in part))
        print()


def halves(name):
    words = name.split(": ") if ": " in name else name.split(" ", 1)
    return (words + [""])[:2]


if __name__ == "__main__":
    main()
