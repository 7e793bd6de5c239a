"""Compares each public name with the same name in other libraries; the table is names.toml."""

import ast
import copy
import datetime
import io
import pathlib
import tomllib

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import arrowwood as aw
from arrowwood import _arrowwood, _errors, _types
from sameness import TABLE, difference

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(aw.__file__).parent
NAMES = tomllib.loads((HERE / "names.toml").read_text(encoding="utf-8"))
NONE = NAMES.pop("none")
VERDICTS = {"same", "differs", "refused"}
# The columns that files of text can hold, too.
PLAIN = ["x", "y", "n", "k"]
NULLS = pa.table({name: pa.nulls(1, kind) for name, kind in zip(TABLE.schema.names, TABLE.schema.types)})
SAMPLES = {"full": TABLE, "empty": TABLE[:0], "nulls": NULLS, "one": TABLE[7:8]}


def public():
    """Yields the public names that stubs and modules define, with the arguments of functions."""
    homes = dict.fromkeys([*vars(_arrowwood), *vars(_types)], "") | aw._LATER | dict.fromkeys(vars(_errors), "_errors")
    for path in sorted(PACKAGE.glob("_*.py*")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            name = getattr(node, "name", None)
            # Stubs declare the compiled module, and modules the names that are imported on first use.
            home = homes.get(name, "").rpartition(".")[2]
            if name not in aw.__all__ or (path.stem != home if home else path.suffix != ".pyi"):
                continue
            yield node.name
            if isinstance(node, ast.ClassDef):
                yield from members(node)
            else:
                yield from arguments(node.name, node)


def members(kind):
    for node in kind.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == "__init__":
                yield from attributes(kind.name, node)
            elif not node.name.startswith("_"):
                yield f"{kind.name}.{node.name}"
                yield from arguments(f"{kind.name}.{node.name}", node)
        elif isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
            yield f"{kind.name}.{node.target.id}"


def attributes(kind, function):
    """Yields the attributes that `function` stores in ``self``."""
    for node in ast.walk(function):
        is_stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if is_stored and getattr(node.value, "id", "") == "self" and not node.attr.startswith("_"):
            yield f"{kind}.{node.attr}"


def arguments(name, function):
    given = function.args
    each = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    for argument in each:
        if argument is not None and argument.arg not in ("self", "data"):
            yield f"{name}({argument.arg})"


def known():
    """The names of the table, each once."""
    none = [name for names in NONE.values() for name in names]
    assert len(set(none)) == len(none) and not set(none) & set(NAMES), "named twice"
    return {*none, *NAMES}


def test_each_public_name_is_in_the_table():
    names, table = set(public()), known()
    # Arguments of functions that no other library has are ours alone.
    shared = {name for name in names if "(" not in name or name.partition("(")[0] in NAMES}
    missing = shared - table
    assert not missing, "these names lack a meaning in names.toml"
    gone = {name for name in table - names if not name.endswith("__")}
    assert not gone, "names.toml has names that are gone"


def test_the_table_is_whole():
    for name, entry in NAMES.items():
        assert entry["verdict"] in VERDICTS and entry["theirs"], name
        assert set(entry) <= {"theirs", "verdict", "reason", "checks", "unlike", "raises", "rows"}, name
        assert ("reason" in entry) == (entry["verdict"] == "differs"), f"{name}: what differs has a reason"
        assert "raises" in entry or entry["verdict"] != "refused", f"{name}: what is refused says what to write"
        is_kind = entry["verdict"] == "same" and name in vars(aw)
        assert "checks" in entry or entry["verdict"] != "same" or is_kind, f"{name}: what is the same is checked"


def written(write, rows, **options):
    """Returns the rows of a file that `write` has written, and the sizes of its batches."""
    sink = io.BytesIO()
    write(rows, sink, **options)
    sink.seek(0)
    with pa.ipc.open_file(sink) as reader:
        sizes = [reader.get_batch(at).num_rows for at in range(reader.num_record_batches)]
        return reader.read_all(), sizes if "max_rows" in options or "record_batch_size" in options else None


def place(sample):
    table = SAMPLES[sample]
    rows = aw.concat([table[: len(table) // 3], table[len(table) // 3 :]]) if len(table) > 1 else aw.from_arrow(table)

    def streamed(new):
        sink = io.BytesIO()
        writer = new(sink, table.schema)
        writer.write(*table.to_batches()[:1] or [pa.RecordBatch.from_pylist([], table.schema)])
        writer.close()
        return pa.ipc.open_stream(sink.getvalue()).read_all()

    def part(name):
        """A part of the times, row by row; null where Polars has null."""
        sums = rows.aggregate(by="n", sum=getattr(aw.col("ts").dt, name)())["sum"].to_pylist()
        return sums if sample != "nulls" else [None] * len(rows)

    def batches(loader):
        return [batch["n"].tolist() for batch in loader]

    numbers = rows.select("n")

    def at_epoch(epoch):
        loader = numbers.loader(5, seed=3)
        loader.set_epoch(epoch)
        return batches(loader)

    def second_epoch():
        loader = numbers.loader(5, seed=3)
        batches(loader)
        return batches(loader)

    def resumed():
        loader = numbers.loader(5, seed=3)
        first = next(iter(loader))["n"].tolist()
        state = copy.deepcopy(loader.state_dict())
        after = numbers.loader(5, seed=3)
        after.load_state_dict(state)
        return [first, *batches(after)]

    def filled(buffer):
        buffer.write(b"abc")
        return buffer

    return {
        "aw": aw,
        "pa": pa,
        "pl": pl,
        "pd": pd,
        "np": np,
        "io": io,
        "duckdb": duckdb,
        "ds": rows,
        "table": table,
        "arrow": table,
        "df": pl.from_arrow(table),
        "pd_df": table.to_pandas(),
        "text": io.StringIO,
        "written": written,
        "streamed": streamed,
        "part": part,
        "filled": filled,
        "at_epoch": at_epoch,
        "second_epoch": second_epoch,
        "resumed": resumed,
        "uninterrupted": lambda: batches(numbers.loader(5, seed=3)),
        "TIME": datetime.datetime(2024, 2, 29, 3, 30),
        "SIZES": [0.1, 0.25, 0.3, 0.5, 0.9, 1, 7],
    }


def files(table):
    """Files of the rows, in the directory of the test."""
    plain = pl.from_arrow(table.select(PLAIN))
    plain.write_csv("x.csv")
    plain.select("x", "n", "k").write_ndjson("x.json")
    pl.from_arrow(table).write_parquet("x.parquet")
    pl.from_arrow(table).write_ipc("x.arrow")
    aw.write(table, "x.arrows")
    np.arange(5.0).tofile("x.bin")


def checks(kind):
    for name, entry in NAMES.items():
        samples = ["full"] if entry.get("rows") == "full" or kind != "checks" else SAMPLES
        for check in entry.get(kind, []):
            for sample in samples:
                yield pytest.param(check, sample, id=f"{name}-{sample}-{check[:40]}")


@pytest.mark.parametrize(("check", "sample"), checks("checks"))
def test_ours_is_theirs(check, sample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert found(check, sample) is None, check


@pytest.mark.parametrize(("check", "sample"), checks("unlike"))
def test_what_differs_still_does(check, sample, tmp_path, monkeypatch):
    """Where it no longer does, the table is to be changed."""
    monkeypatch.chdir(tmp_path)
    assert found(check, sample) is not None, check


def found(check, sample):
    if "'x." in check or "'*." in check:
        files(SAMPLES[sample])
    names = place(sample)
    for module in ("torch", "datasets"):
        if module in check:
            names[module] = pytest.importorskip(module)
    if "torch" in names:
        pytest.importorskip("torch.utils.data")
    ours, theirs = check.removeprefix("~").split(" is ")
    is_ordered = not check.startswith("~")
    return difference(run(ours, names), run(theirs, names), is_ordered=is_ordered, is_loose="pd_df" in theirs)


def run(expression, names):
    df = names["df"]  # noqa: F841, which Polars finds
    arrow = names["arrow"]  # noqa: F841, which DuckDB finds
    return eval(compile(expression, expression, "eval"), names)


@pytest.mark.parametrize(("check", "sample"), checks("raises"))
def test_what_is_refused_says_what_to_write(check, sample):
    expression, error = check.split(" raises ")
    kind, _, message = error.partition(": ")
    expected = getattr(aw, kind, None) or __builtins__[kind]
    with pytest.raises(expected) as raised:
        run(expression, place(sample))
    assert message in str(raised.value), raised.value
