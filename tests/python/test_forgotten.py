"""Tests that losing rows that were appended and never committed causes a ``ResourceWarning``, like files that were not
closed in Python."""

import gc
import subprocess
import sys
import warnings

import pytest

import arrowwood as aw

LOST = r"rows that were appended and not committed are discarded"


def plain(path):
    return aw.writer(path, "n: int")


def partitioned(path):
    return aw.writer(path, "n: int, k: utf8", partition_by="k")


@pytest.fixture(params=[plain, partitioned])
def made(request, tmp_path):
    """A writer with rows that are not committed."""

    def make():
        writer = request.param(tmp_path / "t")
        writer.append_row(n=1)
        writer.append([{"n": 2}, {"n": 3}])
        return writer

    return make


def test_rows_of_a_writer_that_is_forgotten(made, tmp_path):
    writer = made()
    with pytest.warns(ResourceWarning, match=f"{tmp_path}/t: {LOST}: 3; call commit"):
        del writer
        gc.collect()


@pytest.mark.parametrize("end", ["commit", "close", "rollback", "durable", "with", "error"])
def test_nothing_is_said_where_nothing_is_lost(made, end):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer = made()
        if end == "with":
            with writer:
                pass
        elif end == "error":
            with pytest.raises(KeyError), writer:
                raise KeyError
        elif end == "durable":
            writer.commit(durable=True)
        else:
            getattr(writer, end)()
        del writer
        gc.collect()


def test_rows_behind_a_commit_are_counted(made):
    writer = made()
    writer.commit()
    writer.append_row(n=4)
    with pytest.warns(ResourceWarning, match=f"{LOST}: 1;"):
        del writer
        gc.collect()


def test_an_exception_on_its_way_is_kept(made):
    """The writer on Python's stack goes while the division's error is looking for its handler."""
    with pytest.warns(ResourceWarning, match=LOST), pytest.raises(ZeroDivisionError):
        [made(), 1 // 0]


def told(code, *options, **others):
    """Runs `code` in Python; returns its standard error and its exit code."""
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, **others)
    return done.stderr, done.returncode


MAKE = """
import arrowwood as aw
writer = aw.writer("t", "n: int")
writer.append_row(n=1)
"""


@pytest.mark.parametrize(
    "code",
    [
        MAKE,
        MAKE + "cycle = [writer]; cycle.append(cycle); del writer",
        MAKE + "import threading; threading.local().writer = writer",
        MAKE + "raise SystemExit(0)",
        MAKE.replace('"n: int"', '"n: int, k: utf8", partition_by="k"'),
    ],
    ids=["global", "cycle", "thread", "exit", "partitioned"],
)
def test_at_the_end_of_a_script(code, tmp_path):
    """A forgotten commit is said where Python says such things, and it ends as ever."""
    said, ended = told(code, "-X", "dev", cwd=tmp_path)
    assert ended == 0 and f"{LOST}: 1;" in said and "ResourceWarning" in said
    assert told(code.replace('"t"', '"other"'), cwd=tmp_path) == ("", 0)


def test_where_warnings_are_errors(tmp_path):
    """Nobody could catch it: it is printed, and what comes behind is run."""
    said, ended = told(
        MAKE + "del writer\nprint('behind', flush=True)\nraise SystemExit(7)", "-W", "error", cwd=tmp_path
    )
    assert ended == 7 and "ResourceWarning" in said and LOST in said


def test_a_fork_says_nothing_of_what_its_parent_may_commit(tmp_path):
    code = MAKE + "import os\nif os.fork() == 0:\n    del writer\n    os._exit(0)\nos.wait()\nwriter.close()"
    assert told(code, "-X", "dev", "-W", "ignore::DeprecationWarning", cwd=tmp_path) == ("", 0)
    assert len(aw.open(tmp_path / "t")) == 1


def test_rows_for_a_server_that_are_forgotten(tmp_path):
    with aw.serve(tmp_path) as server:
        table = server.connect().create("t", "n: int")
        writer = table.writer("me")
        writer.append_row(n=1)
        with pytest.warns(ResourceWarning, match=f"t: {LOST}"):
            del writer
            gc.collect()
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            with table.writer("me") as writer:
                writer.append_row(n=1)
            writer = table.writer("me")
            writer.append_row(n=1)
            writer.rollback()
            del writer
            gc.collect()
        assert len(table) == 1
