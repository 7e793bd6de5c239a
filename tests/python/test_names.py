"""Tests public names against the same names in other libraries, as names.toml describes them."""

import ast
import builtins
import copy
import datetime
import io
import pathlib
import tomllib
from collections.abc import Iterator

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

# The entry of each public name that other libraries have, and groups of names that no other library has.
NAMES = tomllib.loads((HERE / "names.toml").read_text(encoding="utf-8"))
OWN_NAMES = NAMES.pop("none")
VERDICTS = {"same", "differs", "refused"}
ENTRY_KEYS = {"theirs", "verdict", "reason", "checks", "unlike", "raises", "rows"}

# The columns that text formats can hold, too.
TEXT_COLUMNS = ["x", "y", "n", "k"]
NULLS = pa.table({name: pa.nulls(1, data_type) for name, data_type in zip(TABLE.schema.names, TABLE.schema.types)})
SAMPLES = {"full": TABLE, "empty": TABLE[:0], "nulls": NULLS, "one": TABLE[7:8]}


# ---- Completeness of names.toml ----


def public_names() -> Iterator[str]:
    """Yields the public names that stubs and modules define, their members, and arguments as ``function(argument)``."""
    # The module that defines a name. Stubs define the names of the compiled module, which has no entry here.
    modules = dict.fromkeys([*vars(_arrowwood), *vars(_types)], "")
    modules |= aw._LAZY_IMPORTS  # names that are imported on first use
    modules |= dict.fromkeys(vars(_errors), "_errors")
    for path in sorted([*PACKAGE.glob("_*.py"), *PACKAGE.glob("_*.pyi"), *PACKAGE.glob("_engines/*.py")]):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            name = getattr(node, "name", None)
            if name not in aw.__all__:
                continue
            module = modules.get(name, "").rpartition(".")[2]
            is_defined_here = path.stem == module if module else path.suffix == ".pyi"
            if not is_defined_here:
                continue
            yield name
            if isinstance(node, ast.ClassDef):
                yield from member_names(node)
            else:
                yield from argument_names(name, node)


def member_names(cls: ast.ClassDef) -> Iterator[str]:
    """Yields the public methods, attributes and arguments of methods of a class."""
    for node in cls.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == "__init__":
                yield from attribute_names(cls.name, node)
            elif not node.name.startswith("_"):
                yield f"{cls.name}.{node.name}"
                yield from argument_names(f"{cls.name}.{node.name}", node)
        elif isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
            yield f"{cls.name}.{node.target.id}"


def attribute_names(class_name: str, function: ast.FunctionDef) -> Iterator[str]:
    """Yields the public attributes that ``function`` assigns to ``self``."""
    for node in ast.walk(function):
        is_assigned = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if is_assigned and getattr(node.value, "id", "") == "self" and not node.attr.startswith("_"):
            yield f"{class_name}.{node.attr}"


def argument_names(function_name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    arguments = function.args
    for argument in [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]:
        if argument is not None and argument.arg not in ("self", "data"):
            yield f"{function_name}({argument.arg})"


def listed_names() -> set[str]:
    """Returns the names in names.toml, and asserts that each is listed once."""
    own = [name for names in OWN_NAMES.values() for name in names]
    assert len(set(own)) == len(own) and not set(own) & set(NAMES), "named twice"
    return {*own, *NAMES}


def test_each_public_name_is_listed():
    public = set(public_names())
    listed = listed_names()
    # Arguments of functions that no other library has need no entry.
    comparable = {name for name in public if "(" not in name or name.partition("(")[0] in NAMES}
    assert not comparable - listed, "these names lack a meaning in names.toml"
    removed = {name for name in listed - public if not name.endswith("__")}
    assert not removed, "names.toml has names that are gone"


@pytest.mark.parametrize("name", NAMES)
def test_entries_are_complete(name):
    entry = NAMES[name]
    verdict = entry["verdict"]
    assert verdict in VERDICTS
    assert entry["theirs"]
    assert set(entry) <= ENTRY_KEYS
    assert ("reason" in entry) == (verdict == "differs"), "an entry has a reason if and only if it differs"
    if verdict == "refused":
        assert "raises" in entry, "an entry that is refused has the message that says what to write"
    # Attributes of the package, such as functions and classes, are the exception: their arguments are checked.
    if verdict == "same" and name not in vars(aw):
        assert "checks" in entry, "an entry that is the same has checks"


# ---- Names that the expressions in names.toml use ----


def write_and_read(write, rows, **options):
    """Returns the rows of a file that ``write`` has written, and its sizes of batches if the options choose them."""
    sink = io.BytesIO()
    write(rows, sink, **options)
    sink.seek(0)
    with pa.ipc.open_file(sink) as reader:
        batch_sizes = [reader.get_batch(number).num_rows for number in range(reader.num_record_batches)]
        chooses_sizes = "max_rows" in options or "record_batch_size" in options
        return reader.read_all(), batch_sizes if chooses_sizes else None


def fill_buffer(buffer):
    buffer.write(b"abc")
    return buffer


def read_batches(loader):
    return [batch["n"].tolist() for batch in loader]


class Sample:
    """One of the ``SAMPLES``, with helpers for expressions that need several steps."""

    def __init__(self, name: str):
        self.table = SAMPLES[name]
        self.is_null = name == "nulls"
        if len(self.table) > 1:
            middle = len(self.table) // 3
            self.rows = aw.concat([self.table[:middle], self.table[middle:]])
        else:
            self.rows = aw.from_arrow(self.table)

    def write_stream(self, new_writer):
        """Returns the first batch after a writer of streams wrote it and pyarrow read it."""
        sink = io.BytesIO()
        writer = new_writer(sink, self.table.schema)
        batches = self.table.to_batches() or [pa.RecordBatch.from_pylist([], self.table.schema)]
        writer.write(batches[0])
        writer.close()
        return pa.ipc.open_stream(sink.getvalue()).read_all()

    def time_part(self, name):
        """Returns a part of the times, such as the hour, for each row."""
        if self.is_null:
            # A sum of nulls is 0, and Polars has null.
            return [None] * len(self.rows)
        part = getattr(aw.col("ts").dt, name)()
        return self.rows.aggregate(by="n", sum=part)["sum"].to_pylist()

    def new_loader(self):
        return self.rows.select("n").loader(5, seed=3)

    def read_epoch(self):
        return read_batches(self.new_loader())

    def read_epoch_after_set_epoch(self, epoch):
        loader = self.new_loader()
        loader.set_epoch(epoch)
        return read_batches(loader)

    def read_second_epoch(self):
        loader = self.new_loader()
        read_batches(loader)
        return read_batches(loader)

    def read_resumed_epoch(self):
        """Reads one batch, and the others with a new loader that resumes from the state of the first one."""
        loader = self.new_loader()
        first = next(iter(loader))["n"].tolist()
        state = copy.deepcopy(loader.state_dict())
        resumed = self.new_loader()
        resumed.load_state_dict(state)
        return [first, *read_batches(resumed)]


def namespace(sample_name: str) -> dict:
    sample = Sample(sample_name)
    return {
        "aw": aw,
        "pa": pa,
        "pl": pl,
        "pd": pd,
        "np": np,
        "io": io,
        "duckdb": duckdb,
        "ds": sample.rows,
        "table": sample.table,
        "arrow": sample.table,
        "df": pl.from_arrow(sample.table),
        "pd_df": sample.table.to_pandas(),
        "text": io.StringIO,
        "written": write_and_read,
        "streamed": sample.write_stream,
        "part": sample.time_part,
        "filled": fill_buffer,
        "at_epoch": sample.read_epoch_after_set_epoch,
        "second_epoch": sample.read_second_epoch,
        "resumed": sample.read_resumed_epoch,
        "uninterrupted": sample.read_epoch,
        "TIME": datetime.datetime(2024, 2, 29, 3, 30),
        "SIZES": [0.1, 0.25, 0.3, 0.5, 0.9, 1, 7],
    }


def write_sample_files(table: pa.Table) -> None:
    """Writes the files that expressions name, into the current directory."""
    frame = pl.from_arrow(table)
    text_frame = pl.from_arrow(table.select(TEXT_COLUMNS))
    text_frame.write_csv("x.csv")
    text_frame.select("x", "n", "k").write_ndjson("x.json")
    frame.write_parquet("x.parquet")
    frame.write_ipc("x.arrow")
    aw.write(table, "x.arrows")
    np.arange(5.0).tofile("x.bin")


def evaluate(expression: str, names: dict):
    # Polars and DuckDB find tables by the names of local variables in their callers.
    df = names["df"]  # noqa: F841
    arrow = names["arrow"]  # noqa: F841
    return eval(compile(expression, expression, "eval"), names)


def find_difference(check: str, sample_name: str) -> str | None:
    """Evaluates a check such as ``ours is theirs`` and returns how the results differ, or None if they don't."""
    if "'x." in check or "'*." in check:
        write_sample_files(SAMPLES[sample_name])
    names = namespace(sample_name)
    for module in ("torch", "datasets"):
        if module in check:
            names[module] = pytest.importorskip(module)
    if "torch" in names:
        pytest.importorskip("torch.utils.data")
    ours, theirs = check.removeprefix("~").split(" is ")
    return difference(
        evaluate(ours, names),
        evaluate(theirs, names),
        is_ordered=not check.startswith("~"),
        is_loose="pd_df" in theirs,
    )


# ---- Checks in names.toml ----


def parametrize_checks(key: str) -> list:
    """Returns each check that entries have under ``key``, with the name of each sample that it holds for."""
    parameters = []
    for name, entry in NAMES.items():
        needs_rows = entry.get("rows") == "full"
        samples = SAMPLES if key == "checks" and not needs_rows else ["full"]
        for check in entry.get(key, []):
            for sample in samples:
                parameters.append(pytest.param(check, sample, id=f"{name}-{sample}-{check[:40]}"))
    return parameters


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch):
    """Makes the directory of the test the current one, for files that expressions name."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("in_tmp_path")
@pytest.mark.parametrize(("check", "sample"), parametrize_checks("checks"))
def test_results_match_other_libraries(check, sample):
    assert find_difference(check, sample) is None, check


@pytest.mark.usefixtures("in_tmp_path")
@pytest.mark.parametrize(("check", "sample"), parametrize_checks("unlike"))
def test_known_differences_remain(check, sample):
    """If this fails, the library has changed, and the entry has to change, too."""
    assert find_difference(check, sample) is not None, check


@pytest.mark.parametrize(("check", "sample"), parametrize_checks("raises"))
def test_errors_say_what_to_write(check, sample):
    expression, error = check.split(" raises ")
    error_name, _, message = error.partition(": ")
    error_class = getattr(aw, error_name, None) or getattr(builtins, error_name)
    with pytest.raises(error_class) as caught:
        evaluate(expression, namespace(sample))
    assert message in str(caught.value), caught.value
