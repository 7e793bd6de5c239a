"""Instructions that hot paths take, counted by callgrind, beside those on record: they do not depend on what else the
machine does, so a path that got longer shows.

    python bench/instructions.py PROGRAM [--record] [--json]

PROGRAM is the built `hot`. Exits with 1 where a path takes 2 % more than on record; --record puts the figures of now on
record. They hold for one compiler and one kind of processor: compare what was recorded with the same.
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
WORSE = 1.02


def one_processor():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def count(program, name):
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured*"]
    # On one processor: how threads share the rows among them differs from run to run.
    run = subprocess.run([*tool, program, name], capture_output=True, text=True, preexec_fn=one_processor)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or not found:
        sys.exit(f"callgrind of '{name}' failed:\n{run.stderr}")
    return int(found[1])


def setting():
    compiler = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()[1]
    return {"rustc": compiler, "processor": platform.machine()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    names = subprocess.run([args.program], capture_output=True, text=True, check=True).stdout.splitlines()
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {"of": None, "instructions": {}}
    if known["of"] not in (None, setting()):
        print(f"on record is {known['of']}, this is {setting()}: ratios say little", file=sys.stderr)
    counts = {name: count(args.program, name) for name in names}
    worse = []
    for name, now in counts.items():
        before = known["instructions"].get(name)
        ratio = now / before if before else None
        if ratio and ratio > WORSE:
            worse.append(name)
        if not args.json:
            print(f"{name:50} {now:>12,}  " + (f"×{ratio:.3f}" if ratio else "new"))
    if args.json:
        print(json.dumps({"of": setting(), "instructions": counts}, indent=1))
    if args.record:
        RECORD.write_text(json.dumps({"of": setting(), "instructions": counts}, indent=1) + "\n")
    elif worse and known["of"] == setting():
        sys.exit(f"more instructions than on record: {', '.join(worse)}")


if __name__ == "__main__":
    main()
