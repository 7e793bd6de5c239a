"""Counts the instructions of hot paths with callgrind, and compares them with a record.

Unlike times, instructions don't depend on the load of the machine, so a path that got longer shows. Hash tables draw
their factors from addresses, and an unlucky factor takes up to a third more: a count is the least of several runs with
other addresses. A library for callgrind would need a helper program of exactly its version on every machine.

    python bench/instructions.py PROGRAM [--record] [--json]

PROGRAM is the built `hot`. The exit status is 1 if a path takes 2 % more instructions than recorded. --record writes a
new record. Counts are comparable only for the same compiler and the same kind of processor.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

RECORD = Path(__file__).parent / "instructions.json"
MAX_RATIO = 1.02
MAX_RUNS = 5
# The environment is at the end of the stack, so its size moves the addresses of variables.
ENVIRONMENT_STEP_BYTES = 48


def pin_to_one_processor():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def count(program, name, limit=None):
    """Returns the least count of the path's runs, which end early with the first count up to `limit`."""
    least = None
    for run in range(MAX_RUNS):
        instructions = count_run(program, name, run)
        least = instructions if least is None else min(least, instructions)
        if limit and least <= limit:
            break
    return least


def count_run(program, name, run):
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured*"]
    variables = {**os.environ, "ARROWWOOD_BENCH_FILLER": "x" * (run * ENVIRONMENT_STEP_BYTES)}
    # With several processors, threads would share the rows differently in each run.
    process = subprocess.run(
        [*tool, program, name], capture_output=True, text=True, env=variables, preexec_fn=pin_to_one_processor
    )
    match = re.search(r"Collected : (\d+)", process.stderr)
    if process.returncode or not match:
        sys.exit(f"callgrind of '{name}' failed:\n{process.stderr}")
    return int(match[1])


def environment():
    compiler = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()[1]
    return {"rustc": compiler, "processor": platform.machine()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    names = subprocess.run([args.program], capture_output=True, text=True, check=True).stdout.splitlines()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"of": None, "instructions": {}}
    if record["of"] not in (None, environment()):
        print(f"on record is {record['of']}, this is {environment()}: ratios say little", file=sys.stderr)
    # Records are the least of all runs; compared with them, the first count that isn't worse is enough.
    limits = {} if args.record else {name: MAX_RATIO * recorded for name, recorded in record["instructions"].items()}
    counts = {name: count(args.program, name, limits.get(name)) for name in names}
    worse = []
    for name, instructions in counts.items():
        recorded = record["instructions"].get(name)
        ratio = instructions / recorded if recorded else None
        if ratio and ratio > MAX_RATIO:
            worse.append(name)
        if not args.json:
            print(f"{name:50} {instructions:>12,}  " + (f"×{ratio:.3f}" if ratio else "new"))
    if args.json:
        print(json.dumps({"of": environment(), "instructions": counts}, indent=1))
    if args.record:
        RECORD.write_text(json.dumps({"of": environment(), "instructions": counts}, indent=1) + "\n")
    elif worse and record["of"] == environment():
        sys.exit(f"more instructions than on record: {', '.join(worse)}")


if __name__ == "__main__":
    main()
