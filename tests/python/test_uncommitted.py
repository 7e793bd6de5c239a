"""Tests the ``ResourceWarning`` of a writer that is dropped with rows that were appended and not committed."""

import gc
import subprocess
import sys
import warnings
from typing import NamedTuple

import pytest

import arrowwood as aw

DISCARDED = r"rows that were appended and not committed are discarded"


def open_plain_writer(path):
    return aw.writer(path, "n: int")


def open_partitioned_writer(path):
    return aw.writer(path, "n: int, k: utf8", partition_by="k")


@pytest.fixture(params=[open_plain_writer, open_partitioned_writer])
def open_uncommitted(request, tmp_path):
    """Returns a function that opens a writer and appends three rows without a commit.

    The test has to hold the only reference to the writer, so the fixture doesn't open it itself.
    """

    def open_and_append():
        writer = request.param(tmp_path / "t")
        writer.append_row(n=1)
        writer.append([{"n": 2}, {"n": 3}])
        return writer

    return open_and_append


def test_dropping_uncommitted_rows_warns(open_uncommitted, tmp_path):
    writer = open_uncommitted()
    with pytest.warns(ResourceWarning, match=f"{tmp_path}/t: {DISCARDED}: 3; call commit"):
        del writer
        gc.collect()


@pytest.mark.parametrize("end", ["commit", "close", "rollback", "durable", "with", "error"])
def test_no_warning_after_commit_or_rollback(open_uncommitted, end):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer = open_uncommitted()
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


def test_warning_counts_rows_after_the_last_commit(open_uncommitted):
    writer = open_uncommitted()
    writer.commit()
    writer.append_row(n=4)
    with pytest.warns(ResourceWarning, match=f"{DISCARDED}: 1;"):
        del writer
        gc.collect()


def test_warning_preserves_a_pending_exception(open_uncommitted):
    """The writer is dropped from the stack while the exception of the division propagates."""
    with pytest.warns(ResourceWarning, match=DISCARDED), pytest.raises(ZeroDivisionError):
        [open_uncommitted(), 1 // 0]


class ScriptResult(NamedTuple):
    stderr: str
    exit_code: int


def run_script(code, *options, cwd) -> ScriptResult:
    """Runs ``code`` in a new Python process in the directory ``cwd``, with ``options`` of the interpreter."""
    process = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, cwd=cwd)
    return ScriptResult(process.stderr, process.returncode)


APPEND_ROW = """
import arrowwood as aw
writer = aw.writer("t", "n: int")
writer.append_row(n=1)
"""


@pytest.mark.parametrize(
    "code",
    [
        APPEND_ROW,
        APPEND_ROW + "cycle = [writer]; cycle.append(cycle); del writer",
        APPEND_ROW + "import threading; threading.local().writer = writer",
        APPEND_ROW + "raise SystemExit(0)",
        APPEND_ROW.replace('"n: int"', '"n: int, k: utf8", partition_by="k"'),
    ],
    ids=["global", "cycle", "thread", "exit", "partitioned"],
)
def test_warning_at_exit_in_development_mode_only(code, tmp_path):
    """Python hides a ``ResourceWarning`` by default and prints it with ``-X dev``. The exit code is 0 in both modes."""
    result = run_script(code, "-X", "dev", cwd=tmp_path)
    assert result.exit_code == 0
    assert f"{DISCARDED}: 1;" in result.stderr
    assert "ResourceWarning" in result.stderr

    assert run_script(code.replace('"t"', '"other"'), cwd=tmp_path) == ScriptResult(stderr="", exit_code=0)


def test_warning_as_error_is_printed_and_not_raised(tmp_path):
    """No caller could catch an exception from a destructor, so it is printed and the script continues."""
    code = APPEND_ROW + "del writer\nprint('continued', flush=True)\nraise SystemExit(7)"
    result = run_script(code, "-W", "error", cwd=tmp_path)
    assert result.exit_code == 7
    assert "ResourceWarning" in result.stderr
    assert DISCARDED in result.stderr


def test_no_warning_in_a_forked_child(tmp_path):
    """The rows are not lost when the child drops its copy of the writer: the parent can still commit them."""
    code = APPEND_ROW + "import os\nif os.fork() == 0:\n    del writer\n    os._exit(0)\nos.wait()\nwriter.close()"
    result = run_script(code, "-X", "dev", "-W", "ignore::DeprecationWarning", cwd=tmp_path)
    assert result == ScriptResult(stderr="", exit_code=0)
    assert len(aw.open(tmp_path / "t")) == 1


def test_writer_to_a_server_warns_about_uncommitted_rows(tmp_path):
    with aw.serve(tmp_path) as server:
        table = server.connect().create("t", "n: int")
        writer = table.writer("me")
        writer.append_row(n=1)
        with pytest.warns(ResourceWarning, match=f"t: {DISCARDED}"):
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
