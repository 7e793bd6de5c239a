"""Commits rows to a table at full speed until it is told to stop: see live.py."""

import argparse
import json
import os
import random
import struct
import time

import arrowwood
from rows import PERIOD, Expected, row


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--segment-rows", type=int)
    parser.add_argument("--batch", type=int, default=300, help="the most rows of a batch")
    parser.add_argument("--singles", type=int, default=100, help="the most rows of a run of commits of one row each")
    parser.add_argument("--rate", type=float, help="rows per second beyond which it pauses")
    parser.add_argument("--journal", help="a file for how far it is")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Journal:
    """Two words outside of the table: rows after the commit that is being made, rows that are committed."""

    def __init__(self, path):
        self.file = path and os.open(path, os.O_RDWR | os.O_CREAT)

    def note(self, number, rows):
        if self.file:
            os.pwrite(self.file, struct.pack("<Q", rows), 8 * number)


def open_writer(options):
    return arrowwood.writer(
        options.folder,
        Expected().batch(0, 0).schema,
        sync="never",
        segment_rows=options.segment_rows,
        dictionary=["symbol"],
        sorted_by="ts",
    )


def main():
    options = arguments()
    dice, expected, journal = random.Random(options.seed), Expected(), Journal(options.journal)
    start = time.monotonic()
    commits = 0
    with open_writer(options) as writer:
        first = at = writer.rows
        print(json.dumps({"opened": at}), flush=True)

        def commit():
            nonlocal commits
            journal.note(0, at)
            writer.commit()
            journal.note(1, at)
            commits += 1

        while (spent := time.monotonic() - start) < options.seconds:
            for _ in range(dice.randrange(options.singles + 1)):
                writer.append_row(**row(at))
                at += 1
                commit()
            count = dice.randrange(1, options.batch + 1)
            for done in range(0, count, PERIOD):
                writer.append(expected.batch(at, min(PERIOD, count - done)))
                at += min(PERIOD, count - done)
            commit()
            if options.rate and at - first > options.rate * spent:
                # No wait for anything: this is the rate that was asked for.
                time.sleep((at - first) / options.rate - spent)
    print(json.dumps({"rows": at, "commits": commits, "seconds": round(time.monotonic() - start, 1)}), flush=True)


if __name__ == "__main__":
    main()
