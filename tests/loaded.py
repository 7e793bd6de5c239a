#!/usr/bin/env python3
"""Runs a command on a busy machine, once or several times at once.

    tests/loaded.py [--copies N] [--busy N] -- COMMAND…

`--busy` processes compute until the command has ended: eight by default. They and the command have the lowest
priority, so that they share the processors evenly, and take little from others. The output of a copy is printed when
it ends. The exit status is 1 if a copy fails.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time

LOWEST_PRIORITY = 19
# A process that computes until its parent ends.
BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


@contextlib.contextmanager
def busy_processes(count):
    """Starts `count` processes that compute, and ends them on leaving the context."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run_copies(command, count):
    """Runs `count` copies of a command at once, and prints the output of each. Returns how many failed."""
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile("w+", errors="replace")) for _ in range(count)]
        copies = [
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            for output in outputs
        ]
        failed = 0
        for number, (copy, output) in enumerate(zip(copies, outputs, strict=True), 1):
            status = copy.wait()
            failed += status != 0
            output.seek(0)
            sys.stdout.write(output.read())
            seconds = time.monotonic() - started
            print(f"loaded: copy {number} of {count}: exit status {status} after {seconds:.0f} s", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=1, metavar="N", help="how many copies run at once")
    parser.add_argument("--busy", type=int, default=8, metavar="N", help="how many processes compute meanwhile")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    os.nice(LOWEST_PRIORITY)
    with busy_processes(arguments.busy):
        return 1 if run_copies(arguments.command, arguments.copies) else 0


if __name__ == "__main__":
    sys.exit(main())
