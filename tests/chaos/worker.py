"""A worker process of the chaos test: it executes commands on a table, one at a time, and answers with what it saw."""

import ctypes
import ipaddress  # noqa: F401
import json  # noqa: F401
import os
import pathlib  # noqa: F401
import signal
import traceback
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy  # noqa: F401

import arrowwood as aw

# These modules are imported lazily by some calls. Imported here, no trapped system call is one of an import.
import arrowwood._extras
import arrowwood._follow
import arrowwood._hints
import arrowwood._incoming
import arrowwood._numpy
import arrowwood._pickling
import arrowwood._progress
import arrowwood._remote
import arrowwood._types
from arrowwood import col

# Kinds of system calls in failing_calls.c.
CALLS = {"read": 1, "write": 2, "sync": 4, "open": 8, "name": 16, "map": 32, "space": 64}
ALL_CALLS = 127


class Trap(NamedTuple):
    """The arguments of `fail_calls` in failing_calls.c."""

    # A bit set of CALLS.
    kinds: int
    # Which of these calls fails, counted from 1.
    call_number: int
    # The errno of the failure, or a negated signal that the process gets in the middle of the call.
    action: int
    # True if later calls fail too.
    is_lasting: bool


class ErrorReport(NamedTuple):
    name: str
    # The names of the exception's class and its base classes.
    base_names: list[str]
    text: str
    trace: str


class FailingCalls:
    """The preloaded library that makes system calls of this process fail. Without it, none does."""

    def __init__(self):
        self.library = ctypes.CDLL(None) if os.environ.get("ARROWWOOD_CHAOS_PRELOADED") else None

    def arm(self, trap: Trap):
        if self.library:
            self.library.fail_calls(*trap)

    def disarm(self) -> int:
        """Returns how many calls have failed."""
        if not self.library:
            return 0
        failed = self.library.failed_calls()
        self.library.fail_calls(0, 0, 0, False)
        return failed


class Worker:
    """Executes commands, each of which is a method. Writers, datasets and followers stay open between commands."""

    def __init__(self, failing_calls: FailingCalls):
        self.failing_calls = failing_calls
        self.writer = None
        # Open objects by name.
        self.datasets = {}
        self.followers = {}
        self.aggregations = {}

    def serve(self, connection: Connection):
        while True:
            try:
                command, arguments, trap = connection.recv()
            except EOFError:
                return
            connection.send(self.execute(command, arguments, trap))

    def execute(self, command: str, arguments: dict, trap: Trap | None) -> dict:
        method = getattr(self, command)
        if trap:
            self.failing_calls.arm(trap)
        result = error = None
        try:
            result = method(**arguments)
        # The round decides which errors are failures. Panics of the library derive from BaseException.
        except BaseException as e:
            base_names = [base.__name__ for base in type(e).__mro__]
            error = ErrorReport(type(e).__name__, base_names, str(e), format_trace(e))
        struck = self.failing_calls.disarm() if trap else 0
        return {"result": result, "error": error, "struck": struck, "writer": self.writer_state()}

    def writer_state(self) -> dict | None:
        writer = self.writer
        if not isinstance(writer, aw.Writer) or writer.is_closed:
            return None
        return {
            "rows": writer.rows,
            "committed": writer.committed_rows,
            "durable": writer.durable_rows,
            "positions": writer.positions,
        }

    # ---- writers ----

    def open_writer(self, path, schema, options):
        self.writer = None
        self.writer = aw.writer(path, schema, **options)
        return {"dropped": self.writer.dropped_rows, "columns": list(self.writer.schema.names)}

    def append(self, rows, way):
        if way == "columns":
            self.writer.append({name: [row[name] for row in rows] for name in rows[0]})
        elif way == "rows":
            self.writer.append(rows)
        else:
            for row in rows:
                self.writer.append_row(**row)

    def commit(self, durable, positions):
        self.writer.commit(durable=durable, positions=positions)

    def sync(self, wait):
        if wait:
            self.writer.wait_durable()
        else:
            self.writer.sync()

    def rollback(self):
        self.writer.rollback()

    def close(self):
        self.writer.close()
        self.writer = None

    def abandon(self):
        """Drops the writer without closing it."""
        self.writer = None

    def drop(self, row):
        return self.writer.drop_before(row)

    def compact(self, path, rewrite, sort):
        if self.writer is not None:
            return self.writer.compact(rewrite=rewrite, sort=sort)
        return aw.compact(path, rewrite=rewrite, sort=sort)

    def alter(self, path, change):
        return aw.alter(path, **change)

    # ---- writers of partitions ----

    def open_partitioned(self, path, schema, options):
        self.writer = None
        self.writer = aw.writer(path, schema, partition_by="key", **options)

    def commit_partitioned(self, durable):
        self.writer.commit(durable=durable)

    def settle_partitions(self, path, schema, keys):
        """Opens a writer of each partition. Returns the committed rows that it found."""
        committed_rows = {}
        for key in keys:
            with aw.writer(path, schema, partition={"key": key}) as writer:
                committed_rows[key] = writer.committed_rows
        return committed_rows

    def drop_rows_of_partition(self, path, key, row):
        with aw.writer(path, partition={"key": key}) as writer:
            return writer.drop_before(row)

    def drop_partition(self, path, key):
        return aw.drop_partition(path, {"key": key})

    # ---- readers of partitions ----

    def open_partitions(self, path, name, query):
        return self.query_partitions(name, aw.open(path), query)

    def refresh_partitions(self, name, query):
        return self.query_partitions(name, self.datasets[name].refresh(), query)

    def query_partitions(self, name, dataset, query):
        kind, *arguments = query
        partitions = {partition.values["key"]: partition.rows for partition in dataset.partitions}
        shapes = {key: (rows.first_row, len(rows)) for key, rows in partitions.items()}
        if kind == "parts":
            result = {key: rows.to_pylist() for key, rows in partitions.items()}
        elif kind == "all":
            result = dataset.to_pylist()
        elif kind == "filter":
            result = dataset.filter(col("key") == arguments[0]).to_pylist()
        elif kind == "between":
            result = dataset.between(*arguments).to_pylist()
        else:
            result = (dataset["id"].sum(), dataset["id"].count())
        self.datasets[name] = dataset
        return {"shapes": shapes, "columns": dataset.columns, "kind": kind, "arguments": arguments, "result": result}

    # ---- readers ----

    def open(self, path, name, query):
        return self.query_dataset(name, aw.open(path), query)

    def refresh(self, name, query):
        return self.query_dataset(name, self.datasets[name].refresh(), query)

    def read(self, name, query):
        return self.query_dataset(name, self.datasets[name], query)

    def query_dataset(self, name, dataset, query):
        answer = {
            "first": dataset.first_row,
            "count": len(dataset),
            "positions": dataset.positions,
            "columns": dataset.columns,
        }
        kind, *arguments = query
        result = getattr(self, f"query_{kind}")(dataset, *arguments)
        # Kept last: the round learns of the dataset only if all of it could be read.
        self.datasets[name] = dataset
        return answer | {"kind": kind, "arguments": arguments, "result": result}

    def query_columns(self, dataset):
        return {name: dataset[name].to_pylist() for name in dataset.columns}

    def query_rows(self, dataset, numbers):
        rows = len(dataset)
        if not rows:
            return []
        return [(i % rows, dataset[i % rows], dataset.row(i % rows)) for i in numbers]

    def query_iter(self, dataset):
        return list(dataset)

    def query_slice(self, dataset, start, stop):
        return dataset[start:stop].to_pylist()

    def query_take(self, dataset, numbers):
        rows = len(dataset)
        return dataset[[i % rows for i in numbers]].to_pylist() if rows else []

    def query_filter(self, dataset, low, high):
        return dataset.filter((col("id") >= low) & (col("id") < high)).to_pylist()

    def query_between(self, dataset, low, high):
        return dataset.between(low, high).to_pylist()

    def query_sums(self, dataset):
        ids = dataset["id"]
        return (ids.sum(), ids.min(), ids.max(), ids.count())

    def query_groups(self, dataset):
        groups = dataset.aggregate(by="q", n="count", s=("id", "sum"), first=("id", "first"), last=("id", "last"))
        return groups.to_pylist()

    def query_messages(self, dataset):
        return sum(message["rows"] or 0 for message in dataset.messages if message["kind"] == "RecordBatch")

    def query_validate(self, dataset):
        dataset.validate()

    def query_nothing(self, dataset):
        return None

    def aggregation(self, path, name):
        if name not in self.aggregations:
            self.aggregations[name] = aw.aggregation(
                path, n="count", s=("id", "sum"), a=("id", "first"), z=("id", "last")
            )
        return self.aggregations[name].refresh().to_pylist()

    def follow(self, path, name, start, timeout=0):
        if name not in self.followers:
            self.followers[name] = aw.follow(path, start=start, timeout=timeout)
        parts = []
        try:
            for part in self.followers[name]:
                parts.append((part.first_row, part.columns, part.to_pylist()))
            return {"parts": parts, "next": self.followers[name].next_row}
        except BaseException:
            # The rows that the follower returned so far are lost with the answer, so it must not go on.
            self.followers.pop(name).close()
            raise

    def forget(self, name):
        self.datasets.pop(name, None)
        self.aggregations.pop(name, None)
        follower = self.followers.pop(name, None)
        if follower:
            follower.close()

    def check(self, path):
        return report_as_dict(aw.check(path))

    def repair(self, path):
        return report_as_dict(aw.repair(path))


def report_as_dict(report) -> dict:
    findings = [(str(finding.path), finding.message, finding.is_damage) for finding in report.findings]
    return {"good": report.is_good, "rows": report.rows, "findings": findings, "repaired": str(report.repaired or "")}


def format_trace(error: BaseException) -> str:
    return "".join(traceback.format_tb(error.__traceback__)[-6:])


def start_worker(connection: Connection, parent_ends: list[Connection]) -> int:
    """Forks a worker that closes the parent's ends of all pipes. Returns its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        for parent_end in parent_ends:
            parent_end.close()
        Worker(FailingCalls()).serve(connection)
        status = 0
    finally:
        os._exit(status)
