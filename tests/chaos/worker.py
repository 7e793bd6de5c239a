"""A process that does what it is told to a table, one command at a time, and says what it saw."""

import ctypes
import ipaddress  # noqa: F401
import json  # noqa: F401
import os
import pathlib  # noqa: F401
import signal
import traceback

import numpy  # noqa: F401

import arrowwood as aw

# What calls import when they are first made is there before any is to fail.
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

# Kinds of calls in failing_calls.c.
CALLS = {"read": 1, "write": 2, "sync": 4, "open": 8, "name": 16, "map": 32, "space": 64}
ALL_CALLS = 127


class Preloaded:
    """The library that lets calls fail, in this process; without it none does."""

    def __init__(self):
        self.library = ctypes.CDLL(None) if os.environ.get("ARROWWOOD_CHAOS_PRELOADED") else None

    def arm(self, kinds, when, how, lasting):
        if self.library:
            self.library.fail_calls(kinds, when, how, lasting)

    def disarm(self):
        """How many calls have failed."""
        if not self.library:
            return 0
        failed = self.library.failed_calls()
        self.library.fail_calls(0, 0, 0, False)
        return failed


class Worker:
    def __init__(self, preloaded):
        self.preloaded = preloaded
        self.writer = None
        # What is held, by name.
        self.datasets = {}
        self.followers = {}
        self.aggregations = {}

    def serve(self, connection):
        while True:
            try:
                name, arguments, trap = connection.recv()
            except EOFError:
                return
            connection.send(self.do(name, arguments, trap))

    def do(self, name, arguments, trap):
        call = getattr(self, name)
        if trap:
            self.preloaded.arm(*trap)
        try:
            result = call(**arguments)
            error = None
        except BaseException as e:
            result, error = None, (type(e).__name__, [it.__name__ for it in type(e).__mro__], str(e), where(e))
        struck = self.preloaded.disarm() if trap else 0
        return {"result": result, "error": error, "struck": struck, "writer": self.writer_state()}

    def writer_state(self):
        if not isinstance(self.writer, aw.Writer) or self.writer.is_closed:
            return None
        it = self.writer
        return {"rows": it.rows, "committed": it.committed_rows, "durable": it.durable_rows, "positions": it.positions}

    # ---- a writer ----

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
        """Lets go of the writer, whatever it does then."""
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
        """The committed rows of each partition, which its next writer says."""
        found = {}
        for key in keys:
            with aw.writer(path, schema, partition={"key": key}) as writer:
                found[key] = writer.committed_rows
        return found

    def drop_rows_of_partition(self, path, key, row):
        with aw.writer(path, partition={"key": key}) as writer:
            return writer.drop_before(row)

    def drop_partition(self, path, key):
        return aw.drop_partition(path, {"key": key})

    # ---- readers of partitions ----

    def open_partitions(self, path, name, look):
        return self.keep_partitions(name, aw.open(path), look)

    def refresh_partitions(self, name, look):
        return self.keep_partitions(name, self.datasets[name].refresh(), look)

    def keep_partitions(self, name, dataset, look):
        how, *arguments = look
        parts = {it.values["key"]: it.rows for it in dataset.partitions}
        shapes = {key: (rows.first_row, len(rows)) for key, rows in parts.items()}
        if how == "parts":
            seen = {key: rows.to_pylist() for key, rows in parts.items()}
        elif how == "all":
            seen = dataset.to_pylist()
        elif how == "filter":
            seen = dataset.filter(col("key") == arguments[0]).to_pylist()
        elif how == "between":
            seen = dataset.between(*arguments).to_pylist()
        else:
            seen = (dataset["id"].sum(), dataset["id"].count())
        self.datasets[name] = dataset
        return {"shapes": shapes, "columns": dataset.columns, "how": how, "arguments": arguments, "seen": seen}

    # ---- readers ----

    def open(self, path, name, look):
        return self.keep(name, aw.open(path), look)

    def refresh(self, name, look):
        return self.keep(name, self.datasets[name].refresh(), look)

    def look(self, name, look):
        return self.keep(name, self.datasets[name], look)

    def keep(self, name, dataset, look):
        seen = {
            "first": dataset.first_row,
            "count": len(dataset),
            "positions": dataset.positions,
            "columns": dataset.columns,
        }
        how, *arguments = look
        seen |= {"how": how, "arguments": arguments, "seen": getattr(self, f"look_{how}")(dataset, *arguments)}
        # Only now: who asked knows of it only if all of it could be read.
        self.datasets[name] = dataset
        return seen

    def look_columns(self, ds):
        return {name: ds[name].to_pylist() for name in ds.columns}

    def look_rows(self, ds, numbers):
        n = len(ds)
        return [(i % n, ds[i % n], ds.row(i % n)) for i in numbers] if n else []

    def look_iter(self, ds):
        return list(ds)

    def look_slice(self, ds, start, stop):
        return ds[start:stop].to_pylist()

    def look_take(self, ds, numbers):
        n = len(ds)
        return ds[[i % n for i in numbers]].to_pylist() if n else []

    def look_filter(self, ds, low, high):
        return ds.filter((col("id") >= low) & (col("id") < high)).to_pylist()

    def look_between(self, ds, low, high):
        return ds.between(low, high).to_pylist()

    def look_sums(self, ds):
        ids = ds["id"]
        return (ids.sum(), ids.min(), ids.max(), ids.count())

    def look_groups(self, ds):
        return ds.aggregate(by="q", n="count", s=("id", "sum"), first=("id", "first"), last=("id", "last")).to_pylist()

    def look_messages(self, ds):
        return sum(message["rows"] or 0 for message in ds.messages if message["kind"] == "RecordBatch")

    def look_validate(self, ds):
        ds.validate()

    def look_nothing(self, ds):
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
        seen = []
        try:
            for part in self.followers[name]:
                seen.append((part.first_row, part.columns, part.to_pylist()))
            return {"parts": seen, "next": self.followers[name].next_row}
        except BaseException:
            # What it has handed out is lost with the answer.
            self.followers.pop(name).close()
            raise

    def forget(self, name):
        self.datasets.pop(name, None)
        self.aggregations.pop(name, None)
        follower = self.followers.pop(name, None)
        if follower:
            follower.close()

    def check(self, path):
        return report_of(aw.check(path))

    def repair(self, path):
        return report_of(aw.repair(path))


def report_of(report):
    findings = [(str(it.path), it.message, it.is_damage) for it in report.findings]
    return {"good": report.is_good, "rows": report.rows, "findings": findings, "repaired": str(report.repaired or "")}


def where(error):
    return "".join(traceback.format_tb(error.__traceback__)[-6:])


def start(connection, others):
    """Forks a worker; its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        for signals in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(signals, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        for other in others:
            other.close()
        Worker(Preloaded()).serve(connection)
        status = 0
    finally:
        os._exit(status)
