"""Commits rows to a table at full speed for a given time: the writer process of live.py."""

import argparse
import json
import os
import random
import struct
import time

import arrowwood
from rows import PERIOD, ExpectedRows, row_values


def parse_arguments():
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
    """A file that tells live.py how many rows are committed, independently of the table.

    Its first word is the number of rows that the table has after the commit in progress, its second word the number of
    rows that are committed.
    """

    def __init__(self, path: str | None):
        self.file = path and os.open(path, os.O_RDWR | os.O_CREAT)

    def begin_commit(self, rows: int):
        self._write_word(0, rows)

    def end_commit(self, rows: int):
        self._write_word(1, rows)

    def _write_word(self, index: int, value: int):
        if self.file:
            os.pwrite(self.file, struct.pack("<Q", value), 8 * index)


class TickWriter:
    """Appends the rows of rows.py to a table, and commits them."""

    def __init__(self, writer: arrowwood.Writer, expected: ExpectedRows, journal: Journal):
        self.writer = writer
        self.expected = expected
        self.journal = journal
        self.next_row = writer.rows
        self.commits = 0

    def append_row(self):
        self.writer.append_row(**row_values(self.next_row))
        self.next_row += 1

    def append_batches(self, count: int):
        for done in range(0, count, PERIOD):
            rows = min(PERIOD, count - done)
            self.writer.append(self.expected.batch(self.next_row, rows))
            self.next_row += rows

    def commit(self):
        self.journal.begin_commit(self.next_row)
        self.writer.commit()
        self.journal.end_commit(self.next_row)
        self.commits += 1


def open_writer(options, schema):
    return arrowwood.writer(
        options.folder,
        schema,
        sync="never",
        segment_rows=options.segment_rows,
        dictionary=["symbol"],
        sorted_by="ts",
    )


def main():
    options = parse_arguments()
    rng = random.Random(options.seed)
    expected = ExpectedRows()
    journal = Journal(options.journal)
    start = time.monotonic()
    with open_writer(options, expected.batch(0, 0).schema) as writer:
        ticks = TickWriter(writer, expected, journal)
        first_row = ticks.next_row
        print(json.dumps({"opened": first_row}), flush=True)
        while (elapsed := time.monotonic() - start) < options.seconds:
            for _ in range(rng.randrange(options.singles + 1)):
                ticks.append_row()
                ticks.commit()
            ticks.append_batches(rng.randrange(1, options.batch + 1))
            ticks.commit()
            written = ticks.next_row - first_row
            if options.rate and written > options.rate * elapsed:
                # This limits the rate; it does not wait for another process.
                time.sleep(written / options.rate - elapsed)
    seconds = round(time.monotonic() - start, 1)
    print(json.dumps({"rows": ticks.next_row, "commits": ticks.commits, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
