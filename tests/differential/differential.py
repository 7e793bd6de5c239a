"""Compares answers about random data with a naive reference implementation: `make differential`.

A case is one answer: of an operation on columns of random types, in files, streams, tables and memory, after a chain of
other operations. It is compared with the answer of a reference in plain Python (reference.py), and some cases also with
the answers of Polars and pyarrow (others.py).

Everything follows from the seed: `--seed 7 --datasets 1` repeats one set of data. A wrong answer is printed as a case
of its own, made smaller. Cases in the folder `regressions` are played by `--regressions`.
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
from typing import NamedTuple

import case
import shrink

HERE = Path(__file__).resolve().parent
REGRESSIONS = HERE / "regressions"
SECONDS_BETWEEN_LINES = 30
# How many wrong answers of one kind are printed in full.
MAX_REPORTS = 3


class DataSetResult(NamedTuple):
    seed: int
    cases: int
    # Cases by type of column and operation.
    counts: collections.Counter
    # The message and the case of a wrong answer.
    failure: tuple[str, dict] | None


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
    sys.exit(replay_regressions() if args.regressions else Run(args).play())


def replay_regressions() -> int:
    """Plays the cases that were wrong once. Returns the exit status."""
    status = 0
    paths = sorted(REGRESSIONS.glob("*.json"))
    for path in paths:
        try:
            case.replay(case.load_case(path.read_text()))
        except case.Wrong as e:
            print(f"{path.name}: {e}")
            status = 1
    print(f"{len(paths)} regressions")
    return status


def play_data_set(seed: int) -> DataSetResult:
    counts = collections.Counter()

    def count(label, operation):
        counts[label, operation] += 1

    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = tempfile.mkdtemp(prefix="arrowwood-differential-", dir=memory)
    failure = None
    try:
        data = case.DataSet(seed, folder, count)
        data.play()
    except case.Wrong as e:
        failure = (str(e), e.case)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return DataSetResult(seed, data.cases, counts, failure)


class Run:
    """Plays sets of data, and reports counts and wrong answers."""

    def __init__(self, args):
        self.args = args
        self.counts = collections.Counter()
        self.cases = self.data_sets = 0
        self.start_time = time.monotonic()
        self.last_progress = 0.0
        # The seeds of wrong answers by kind.
        self.failures: dict[str, list[int]] = {}

    def play(self) -> int:
        """Plays all sets of data. Returns the exit status."""
        args = self.args
        seeds = iter(range(args.seed, args.seed + (args.datasets or 10**9)))
        print(f"seed {args.seed}", flush=True)
        if args.jobs == 1:
            self.collect(map(play_data_set, seeds))
        else:
            with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
                self.collect(self.play_in_pool(pool, seeds))
        self.print_results()
        return int(bool(self.failures))

    def play_in_pool(self, pool, seeds):
        """Yields results in the order of seeds, with a bounded number of tasks in the pool."""
        tasks = collections.deque()
        for seed in seeds:
            tasks.append(pool.apply_async(play_data_set, (seed,)))
            if len(tasks) > 8 * self.args.jobs:
                yield tasks.popleft().get()
        while tasks:
            yield tasks.popleft().get()

    def collect(self, results):
        """Takes results until enough cases are played or an answer is wrong."""
        for result in results:
            self.cases += result.cases
            self.data_sets += 1
            self.counts.update(result.counts)
            if result.failure:
                self.report(result.seed, *result.failure)
                if not self.args.keep_going:
                    return
            if not self.args.datasets and self.cases >= self.args.cases:
                return
            self.print_progress()

    def report(self, seed, message, failing_case):
        if not self.args.no_shrink:
            failing_case, message = shrink.shrink(failing_case, message)
        kind = message.split(":")[0]
        self.failures.setdefault(kind, []).append(seed)
        if len(self.failures[kind]) > MAX_REPORTS:
            return
        print(f"\nseed {seed}, after {self.cases} cases: {message}")
        print(f"again: tests/differential/differential.py --seed {seed} --datasets 1")
        print(case.dump_case(failing_case), flush=True)

    def print_progress(self):
        elapsed = time.monotonic() - self.start_time
        if elapsed - self.last_progress < SECONDS_BETWEEN_LINES:
            return
        self.last_progress = elapsed
        rate = self.cases / elapsed
        text = f"{self.cases:,} cases of {self.data_sets:,} sets of data, {rate:.0f} a second"
        print(text, file=sys.stderr, flush=True)

    def print_results(self):
        seconds = time.monotonic() - self.start_time
        print_table(self.counts)
        if self.args.json:
            self.write_json(Path(self.args.json), seconds)
        if self.args.record:
            self.add_to_record(Path(self.args.record))
        for kind, seeds in self.failures.items():
            print(f"wrong {len(seeds)} times: {kind}, seeds {seeds[:10]}")
        rate = self.cases / seconds
        sets = f"{self.cases} cases of {self.data_sets} sets of data"
        print(f"{sets} in {seconds:.0f} s, {rate:.0f} a second; {len(self.failures)} wrong")

    def write_json(self, path, seconds):
        cells = [[label, operation, number] for (label, operation), number in sorted(self.counts.items())]
        record = {"seed": self.args.seed, "cases": self.cases, "seconds": round(seconds, 1), "counts": cells}
        path.write_text(json.dumps(record) + "\n")

    def add_to_record(self, path):
        """Adds the counts to a file with the counts of smaller seeds."""
        record = {"datasets": 0, "cases": 0, "counts": {}}
        if self.args.seed > 0:
            record = json.loads(path.read_text())
            if record["datasets"] != self.args.seed:
                sys.exit(f"{path} has the sets of data before {record['datasets']}, not those before {self.args.seed}")
        new_counts = {label: collections.Counter(record["counts"].get(label)) for label, _ in self.counts}
        for (label, operation), number in self.counts.items():
            new_counts[label][operation] += number
        counts = dict(record["counts"])
        for label, operations in new_counts.items():
            counts[label] = dict(sorted(operations.items()))
        totals = {"datasets": record["datasets"] + self.data_sets, "cases": record["cases"] + self.cases}
        # One line per type of column, which keeps differences between commits readable.
        lines = [f" {json.dumps(label)}: {json.dumps(operations)}" for label, operations in sorted(counts.items())]
        head = json.dumps(totals)[:-1]
        path.write_text(head + ', "counts": {\n' + ",\n".join(lines) + "\n}}\n")


def print_table(counts, operations_per_table=14):
    """Prints how often each operation was applied to each type of column."""
    labels = sorted({label for label, _ in counts})
    all_operations = sorted({operation for _, operation in counts})
    width = max(map(len, labels), default=0)
    for start in range(0, len(all_operations), operations_per_table):
        operations = all_operations[start : start + operations_per_table]
        for line in range(2):
            print(" " * width, *(f"{split_heading(operation)[line]:>9.9}" for operation in operations))
        for label in labels:
            print(f"{label:{width}}", *(f"{counts.get((label, it), 0) or '':>9}" for it in operations))
        print()


def split_heading(operation: str) -> list[str]:
    """Splits the name of an operation into two lines."""
    words = operation.split(": ") if ": " in operation else operation.split(" ", 1)
    return (words + [""])[:2]


if __name__ == "__main__":
    main()
