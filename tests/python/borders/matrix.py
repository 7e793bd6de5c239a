"""Runs cells of the matrix of borders."""

import itertools
import shutil

import arrowwood as aw

from .refusals import refusal_of
from .ways import Refused, Sample


class Place:
    """Where samples are written: a folder, a server, and a client of it."""

    def __init__(self, folder):
        self.folder, self.served = folder / "own", folder / "served"
        self.served.mkdir()
        self.numbers = itertools.count()
        self.server = aw.serve(self.served)
        import pyarrow.flight as flight

        self.flight = flight.connect(self.server.url.replace("http://", "grpc+tcp://"))

    def path(self, name):
        return str(self.folder / name)

    def new_name(self):
        return f"t{next(self.numbers)}"

    def clear(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.flight.close()
        self.server.close()


class Wrong(Exception):
    """Other values than were given, or a crash."""


def cell(kind, border, name, place, sample=Sample):
    """None where the values are the same behind the border, or the message of its refusal."""
    place.clear()
    try:
        border.run(sample(kind, name, place))
    except AssertionError as problem:
        raise Wrong(str(problem)) from None
    except Exception as problem:
        return str(problem) if isinstance(problem, Refused) else f"{type(problem).__name__}: {problem}"
    return None


def names_of(kind, everything):
    """The sets of values to take: a few of them, or all."""
    return [name for name in kind.sets if everything or name in ("nulls", "extreme", "odd")]


def check(kind, border, name, place):
    """What is not as the table of refusals says."""
    try:
        message = cell(kind, border, name, place)
    except Wrong as problem:
        yield f"{border}, {kind}, {name}: wrong: {problem}"
        return
    yield from unlisted(kind, border, name, message)


def unlisted(kind, border, name, message):
    """What of a refusal, or that there is none, is not as the table says."""
    expected = refusal_of(border, kind, name)
    if message is None:
        # Of no values a border has nothing to refuse.
        if expected and name not in ("empty", "all null"):
            yield f"{border}, {kind}, {name}: taken, though listed as refused: {expected.message}"
    elif not expected:
        yield f"{border}, {kind}, {name}: refused: {message}"
    elif expected.message not in message and name not in ("empty", "all null"):
        yield f"{border}, {kind}, {name}: refused by another message than {expected.message!r}: {message}"
