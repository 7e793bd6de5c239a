"""Tests the borders with arrays of more than 2 GiB: with more rows, items or bytes than a signed 32-bit integer counts.

    python -m borders.large [TYPE ...]

runs the cells of all types, or of the given ones. A cell needs some gigabytes and runs in a process of its own,
``python -m borders.large TYPE BORDER FOLDER``: if it aborts or takes too much memory, the other cells still run.
"""

import contextlib
import http.client
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

import arrowwood as aw

from . import c
from .kinds import with_row_numbers
from .matrix import Workspace, WrongValues, compare_with_refusals, run_cell
from .ways import (
    ARROW_STREAM,
    BORDERS,
    Border,
    Refused,
    Sample,
    call_c,
    call_library,
    create_served_table,
    is_available,
    redirect_command,
)

LIMIT_31_BITS = 2**31
# Limits of a cell: memory that is not of files, and time.
MAX_MEMORY_BYTES = 9 * 2**30
TIMEOUT_S = 900
POLL_INTERVAL_S = 0.05
# The numbers of rows that are compared at a time: of `int8` and `bool`, and of all other types.
LARGE_WINDOW_ROWS = 2**26
WINDOW_ROWS = 2**10
# The length of the random data that is repeated. It is odd, so that a read at an offset that is wrong by a power of two
# returns other bytes.
PERIOD = 1_000_003


# ---- data ----


@cache
def random_bytes(is_text: bool) -> np.ndarray:
    """Returns two periods of the same random bytes, or letters and digits."""
    rng = np.random.default_rng(PERIOD)
    characters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", "u1")
    period = rng.choice(characters, PERIOD) if is_text else rng.integers(0, 256, PERIOD, "u1")
    return np.tile(period, 2)


def byte_range(start: int, stop: int, is_text: bool = False) -> np.ndarray:
    """Returns bytes of an endless periodic sequence."""
    offset, size = start % PERIOD, stop - start
    period = random_bytes(is_text)[offset : offset + PERIOD]
    return period[:size] if size <= PERIOD else np.resize(period, size)


# A row of a type with several bytes per row has about this size, so that `ROWS` rows exceed the limit.
ROW_BYTES = 2**16
ROWS = LIMIT_31_BITS // ROW_BYTES + 100


def row_offsets(start: int, stop: int) -> np.ndarray:
    """Returns the offsets of rows in the byte sequence; successive rows differ in length."""
    rows = np.arange(start, stop + 1, dtype="i8")
    return rows * ROW_BYTES + rows * rows % 1009


def bit_buffer(start: int, stop: int) -> pa.Buffer:
    """Returns a bitmap that begins with the byte of bit `start`."""
    return pa.py_buffer(byte_range(start // 8, stop // 8 + 1))


def make_int8(start, stop):
    return pa.array(byte_range(start, stop).view("i1"))


def make_booleans(start, stop):
    # Takes validity from other bits than the values, at the same offset in a byte.
    validity_offset = 8 * 997
    buffers = [bit_buffer(start + validity_offset, stop + validity_offset), bit_buffer(start, stop)]
    return pa.Array.from_buffers(pa.bool_(), stop - start, buffers, offset=start % 8)


def make_text(data_type, start, stop):
    """Returns rows of `utf8`, `binary`, or their large variants."""
    is_text = data_type in (pa.string(), pa.large_string())
    is_large = data_type in (pa.large_string(), pa.large_binary())
    offsets = row_offsets(start, stop)
    values = byte_range(offsets[0], offsets[-1], is_text)
    array_offsets = (offsets - offsets[0]).astype("i8" if is_large else "i4")
    buffers = [None, pa.py_buffer(array_offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(data_type, stop - start, buffers)


def make_large_text(start, stop):
    return make_text(pa.large_string(), start, stop)


def make_large_lists(start, stop):
    offsets = row_offsets(start, stop)
    return pa.LargeListArray.from_arrays(pa.array(offsets - offsets[0]), make_int8(offsets[0], offsets[-1]))


def make_fixed_size_binary(start, stop):
    values = pa.py_buffer(byte_range(start * ROW_BYTES, stop * ROW_BYTES))
    return pa.Array.from_buffers(pa.binary(ROW_BYTES), stop - start, [None, values])


def make_fixed_size_lists(start, stop):
    return pa.FixedSizeListArray.from_arrays(make_int8(start * ROW_BYTES, stop * ROW_BYTES), ROW_BYTES)


def make_views(data_type, source_type, start, stop):
    """Returns rows of views with a data buffer for every 4096 rows."""
    parts = []
    for part_start in range(start, stop, 2**12):
        part_stop = min(part_start + 2**12, stop)
        parts.append(make_text(source_type, part_start, part_stop).cast(data_type))
    return pa.concat_arrays(parts)


def make_dictionary(start, stop):
    """Returns dictionary rows; each of the `ROWS` entries is the text of its number."""
    keys = pa.array(np.arange(start, stop, dtype="i4") % ROWS)
    return pa.DictionaryArray.from_arrays(keys, make_large_text(0, ROWS))


def make_dictionary_values(start, stop):
    """Returns the decoded rows of `make_dictionary`."""
    rows = [row % ROWS for row in range(start, stop)]
    return pa.concat_arrays([make_large_text(row, row + 1) for row in rows])


# ---- types ----


class LargeCase:
    """A type with more than 2 GiB of values.

    Values are made and compared in windows: `make_window` returns the array of a range of rows, and `window_rows` are
    compared at a time. The table is made by `make_array`, or else by `make_window`, in chunks that begin at `cuts`.
    """

    value_sets = ("large",)

    def __init__(self, name, data_type, rows, make_window, window_rows=WINDOW_ROWS, cuts=(), make_array=None):
        self.name, self.type, self.rows = name, data_type, rows
        self.make_window, self.window_rows = make_window, window_rows
        self.cuts, self.make_array = cuts, make_array or make_window

    def __repr__(self):
        return self.name

    @property
    def has_many_rows(self):
        """True if there are too many rows to make Python objects or text of them."""
        return self.rows > LIMIT_31_BITS

    @property
    def schema(self):
        x = pa.field("x", self.type)
        return pa.schema([x] if self.has_many_rows else [pa.field("n", pa.int64()), x])

    def table(self, _set_name):
        bounds = (0, *self.cuts, self.rows)
        chunks = [self.make_array(start, stop) for start, stop in itertools.pairwise(bounds)]
        if self.has_many_rows:
            return pa.table({"x": pa.chunked_array(chunks, self.type)})
        return with_row_numbers(chunks, self.type)

    def windows(self):
        """Yields start, stop and array of each window."""
        for start in range(0, self.rows, self.window_rows):
            stop = min(start + self.window_rows, self.rows)
            yield start, stop, self.make_window(start, stop)


def text_case(name, data_type, cuts=()):
    return LargeCase(name, data_type, ROWS, lambda start, stop: make_text(data_type, start, stop), cuts=cuts)


def view_case(name, data_type, source_type):
    return LargeCase(
        name,
        data_type,
        ROWS,
        lambda start, stop: make_text(source_type, start, stop).cast(data_type),
        make_array=lambda start, stop: make_views(data_type, source_type, start, stop),
    )


LARGE_CASES = [
    LargeCase("int8", pa.int8(), LIMIT_31_BITS + 5000, make_int8, LARGE_WINDOW_ROWS),
    LargeCase("bool", pa.bool_(), LIMIT_31_BITS + 5000, make_booleans, LARGE_WINDOW_ROWS),
    text_case("large_utf8", pa.large_string()),
    text_case("large_binary", pa.large_binary()),
    # One array would overflow its offsets.
    text_case("utf8", pa.string(), cuts=(ROWS // 2,)),
    view_case("utf8_view", pa.string_view(), pa.string()),
    view_case("binary_view", pa.binary_view(), pa.binary()),
    LargeCase("fixed_size_binary[65536]", pa.binary(ROW_BYTES), ROWS, make_fixed_size_binary),
    LargeCase("large_list<int8>", pa.large_list(pa.int8()), ROWS, make_large_lists),
    LargeCase("fixed_size_list<int8>[65536]", pa.list_(pa.int8(), ROW_BYTES), ROWS, make_fixed_size_lists),
    LargeCase(
        "dictionary<int32, large_utf8>",
        pa.dictionary(pa.int32(), pa.large_string()),
        ROWS + 1000,
        make_dictionary_values,
        make_array=make_dictionary,
    ),
]


# ---- borders ----


class LargeSample(Sample):
    """Values on their way over a border, which are compared window by window."""

    @property
    def segment_rows(self):
        return self.case.rows // 3

    def schema(self):
        return self.case.schema

    def field(self):
        return self.case.schema.field("x")

    def python_values(self):
        return [value for _, _, window in self.case.windows() for value in window.to_pylist()]

    def assert_same_table(self, table):
        assert table.num_rows == self.case.rows, f"{table.num_rows} rows instead of {self.case.rows}"
        for start, stop, expected in self.case.windows():
            assert_same_window(start, stop, table["x"].slice(start, stop - start), expected)
        if "n" in table.columns:
            assert table["n"].to_pylist() == list(range(self.case.rows)), "other numbers of rows"

    def assert_same_values(self, python_values):
        actual = iter(python_values)
        for start, stop, expected in self.case.windows():
            part = list(itertools.islice(actual, stop - start))
            assert part == expected.to_pylist(), f"other values in the rows from {start} to {stop}"
        assert next(actual, None) is None, "too many rows"

    def assert_same_array(self, array):
        """Asserts that a NumPy array has the values and the type that pyarrow converts to."""
        assert len(array) == self.case.rows, f"{len(array)} rows instead of {self.case.rows}"
        for start, stop, window in self.case.windows():
            actual, expected = array[start:stop], window.to_numpy(zero_copy_only=False)
            if expected.dtype == object:
                is_same = all(map(is_same_item, actual, expected))
            else:
                is_same = actual.dtype == expected.dtype and np.array_equal(actual, expected)
            assert is_same, f"other values in the rows from {start} to {stop}"


def assert_same_window(start, stop, actual, expected):
    if pa.types.is_dictionary(actual.type):
        actual = pa.chunked_array([chunk.dictionary_decode() for chunk in actual.chunks])
    assert actual.equals(pa.chunked_array([expected])), f"other values in the rows from {start} to {stop}"


def is_same_item(actual, expected):
    return np.array_equal(actual, expected) if isinstance(expected, np.ndarray) else actual == expected


def write_with_pyarrow(sample, open_writer, name):
    """Writes the values with pyarrow, and frees them."""
    options = pa.ipc.IpcWriteOptions(allow_64bit=True)
    with open_writer(sample.path(name), sample.case.schema, options=options) as writer:
        call_library("pyarrow", lambda: writer.write_table(sample.table))
    del sample.table


def open_file(sample):
    write_with_pyarrow(sample, pa.ipc.new_file, "x.arrow")
    sample.assert_same(aw.open(sample.path("x.arrow"), validate="full"))


def open_stream(sample):
    write_with_pyarrow(sample, pa.ipc.new_stream, "x.arrows")
    sample.assert_same(aw.open(sample.path("x.arrows"), validate="full"))
    with Path(sample.path("x.arrows")).open("rb") as file:
        sample.assert_same(aw.read_stream(file).read_all())


def read_pylist(sample):
    dataset = aw.from_arrow(sample.table)
    sample.assert_same_values(dataset["x"].to_pylist())
    sample.assert_same_values(row["x"] for row in dataset)


def convert_to_numpy(sample):
    sample.assert_same_array(aw.from_arrow(sample.table)["x"].to_numpy())


def append_numpy(sample):
    array = sample.table["x"].to_numpy()
    del sample.table
    builder = aw.Builder(sample.schema())
    columns = {"x": array} if sample.case.has_many_rows else {"n": np.arange(len(array)), "x": array}
    builder.append(columns)
    # Frees the array, for which there is no room beside the result.
    del array, columns
    sample.assert_same(builder.finish())


def convert_to_pandas(sample):
    series = aw.from_arrow(sample.table).to_pandas()["x"]
    expected = sample.case.make_window(0, 10).to_pandas()
    assert series.dtype == expected.dtype, f"{series.dtype} instead of {expected.dtype}"
    sample.assert_same_array(series.to_numpy())


def append_pandas(sample):
    frame = call_library("pandas", sample.table.to_pandas)
    builder = aw.Builder(sample.schema())
    builder.append(frame)
    sample.assert_same(builder.finish())


def convert_to_polars(sample):
    import polars

    series = aw.from_arrow(sample.table).to_polars()["x"]
    dtype = call_library("polars", lambda: polars.DataFrame(sample.case.schema.empty_table()))["x"].dtype
    assert series.dtype == dtype, f"{series.dtype} instead of {dtype}"
    for start, stop, window in sample.case.windows():
        expected = polars.DataFrame(pa.table({"x": window}))["x"]
        is_same = series[start:stop].cast(expected.dtype).equals(expected)
        assert is_same, f"other values in the rows from {start} to {stop}"
    assert len(series) == sample.case.rows


def convert_from_polars(sample):
    import polars

    frame = call_library("polars", lambda: polars.DataFrame(sample.table))
    column = pa.table(aw.from_arrow(frame))["x"]
    is_dictionary = pa.types.is_dictionary(column.type)
    if is_dictionary:
        # pyarrow can't decode dictionaries of views.
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.large_string()))
            for chunk in column.chunks
        ]
        column = pa.chunked_array(chunks)
    for start, stop, window in sample.case.windows():
        if is_dictionary:
            expected = window
        else:
            expected = pa.table(polars.DataFrame(pa.table({"x": window})))["x"].combine_chunks()
        assert_same_window(start, stop, column.slice(start, stop - start), expected)
    assert len(column) == sample.case.rows


# Text is written to files, because it does not fit in memory beside the values.


def write_text(sample, format):
    """Writes the rows as text with Python; bytes become hexadecimal digits. Returns the path."""
    path = sample.path(f"x.{format}")
    with Path(path).open("w") as file:
        if format == "csv":
            file.write("n,x\n")
        numbers = itertools.count()
        for _, _, window in sample.case.windows():
            for value, number in zip(window.to_pylist(), numbers, strict=False):
                text = value.hex() if isinstance(value, bytes) else value
                file.write(f"{number},{text}\n" if format == "csv" else json.dumps({"n": number, "x": text}) + "\n")
    return path


def write_cat_output(sample, format):
    """Writes what ``arrowwood cat`` prints of the rows, and returns the path."""
    aw.write(sample.table, sample.path())
    del sample.table
    path = sample.path(f"x.{format}")
    with Path(path).open("wb") as file, Path(os.devnull).open("rb") as no_input:
        redirect_command(["cat", f"--{format}", sample.path()], no_input, file)
    return path


def read_csv(sample):
    sample.assert_same(aw.read_csv(write_text(sample, "csv"), schema=sample.schema()), from_text=True)


def read_json(sample):
    sample.assert_same(aw.read_json(write_text(sample, "json"), schema=sample.schema()), from_text=True)


def csv_round_trip(sample):
    sample.assert_same(aw.read_csv(write_cat_output(sample, "csv"), schema=sample.schema()), from_text=True)


def json_round_trip(sample):
    sample.assert_same(aw.read_json(write_cat_output(sample, "json"), schema=sample.schema()), from_text=True)


def append_json(sample):
    aw.writer(sample.path("t"), sample.schema()).close()
    with Path(write_text(sample, "json")).open("rb") as lines, tempfile.TemporaryFile() as output:
        redirect_command(["append", sample.path("t")], lines, output)
    sample.assert_same(aw.open(sample.path("t")))


def c_write(sample):
    write_with_pyarrow(sample, pa.ipc.new_file, "x.arrow")
    call_c(lambda: c.copy_file(sample.path("x.arrow"), sample.path("y.arrow"), is_stream=False))
    sample.assert_same(pa.ipc.open_file(sample.path("y.arrow")).read_all())
    call_c(lambda: c.copy_file(sample.path("x.arrow"), sample.path("y.arrows"), is_stream=True))
    sample.assert_same(pa.ipc.open_stream(sample.path("y.arrows")).read_all())


def post_arrow(sample):
    """Posts an Arrow stream; the server may respond before it has received the whole body."""
    name = create_served_table(sample)
    sink = io.BytesIO()
    aw.write(sample.table, sink, format="stream")
    address = sample.workspace.server.url.partition("//")[2]
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
    with contextlib.suppress(BrokenPipeError):
        connection.request("POST", f"/v1/tables/{name}/rows", sink.getbuffer(), {"Content-Type": ARROW_STREAM})
    response = connection.getresponse()
    if response.status != 200:
        raise Refused(f"{response.status}: {response.read().decode()}")
    sample.assert_same(aw.open(sample.workspace.served / name))


# Functions that replace those of `BORDERS`, by the names of borders.
LARGE_FUNCTIONS = {
    "open": open_file,
    "open stream": open_stream,
    "pylist": read_pylist,
    "NumPy out": convert_to_numpy,
    "NumPy in": append_numpy,
    "pandas out": convert_to_pandas,
    "pandas in": append_pandas,
    "Polars out": convert_to_polars,
    "Polars in": convert_from_polars,
    "C write": c_write,
    "POST Arrow": post_arrow,
    "JSON in": read_json,
    "JSON back": json_round_trip,
    "JSON append": append_json,
    "CSV in": read_csv,
    "CSV back": csv_round_trip,
}
# Borders that compare values as a whole, or send text, which the server refuses like Arrow data of this size.
LEFT_OUT = re.compile("JSON (out|pyarrow)|CSV (out|to pyarrow|of pyarrow)|(POST|GET) (JSON|CSV)|line protocol")
LARGE_BORDERS = [
    replace(border, run=LARGE_FUNCTIONS.get(border.name, border.run))
    for border in BORDERS
    if border.run and not LEFT_OUT.fullmatch(border.name)
]

# Slow borders are tested with few types: those that convert values one by one, test three codecs, or refuse every type.
TEXT_ONLY = re.compile("dicts|row|lists|inferred|pylist|write stream|connect|POST Arrow|JSON .*|CSV .*")
TEXT_AND_INT8_ONLY = re.compile("(NumPy|pandas) in")
# Cells that need too much memory, for an object per row or item, or for copies of all dictionary entries.
TOO_LARGE = {
    "bool": re.compile("NumPy out|pandas out"),
    "large_list<int8>": re.compile("NumPy out"),
    "dictionary<int32, large_utf8>": re.compile("pandas out"),
}


def is_tested(border: Border, case: LargeCase) -> bool:
    """Returns whether the cell is tested."""
    if TEXT_ONLY.fullmatch(border.name):
        return case.name in ("utf8", "large_utf8")
    if TEXT_AND_INT8_ONLY.fullmatch(border.name):
        return case.name in ("utf8", "large_utf8", "int8")
    return case.name not in TOO_LARGE or not TOO_LARGE[case.name].fullmatch(border.name)


# ---- cells ----


@dataclass
class CellResult:
    """The problems of a cell, whether it refused the values, and the time and memory that it took."""

    problems: list[str]
    is_refused: bool
    seconds: float
    peak_bytes: int


class CellProcess:
    """A process that runs one cell, with limits for memory and time."""

    def __init__(self, case, border, folder, output):
        command = [sys.executable, "-m", "borders.large", case.name, border.name, folder]
        self.start = time.monotonic()
        self.peak_bytes, self.seconds = 0, 0.0
        self.process = subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=output, stderr=subprocess.STDOUT)

    def wait(self):
        """Waits for the process, and returns None if it succeeded, or why it did not."""
        try:
            while self.process.poll() is None:
                self.peak_bytes = max(self.peak_bytes, anonymous_memory_bytes(self.process.pid))
                if self.peak_bytes > MAX_MEMORY_BYTES:
                    return f"took {self.peak_bytes / 2**30:.1f} GiB of memory"
                if time.monotonic() > self.start + TIMEOUT_S:
                    return f"did not end in {TIMEOUT_S} seconds"
                time.sleep(POLL_INTERVAL_S)
        finally:
            self.process.kill()
            self.process.wait()
            self.seconds = time.monotonic() - self.start
        return f"ended with {self.process.returncode}" if self.process.returncode else None


def anonymous_memory_bytes(pid: int) -> int:
    """Returns the memory of a process that is not of files, or 0 if the process has ended."""
    with contextlib.suppress(OSError):
        match = re.search(r"^RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
        return int(match[1]) * 1024 if match else 0
    return 0


def check_cell(case: LargeCase, border: Border) -> CellResult:
    """Runs a cell in a new process, and compares its result with the table of refusals."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
        process = CellProcess(case, border, folder, output)
        failure = process.wait()
        output.seek(0)
        lines = output.read().splitlines()
    if failure:
        result = {"wrong": f"it {failure}: " + "\n".join(lines[-20:])}
    else:
        result = json.loads(lines[-1])
    if "wrong" in result:
        problems = [f"{border}, {case}: wrong: {result['wrong']}"]
    else:
        problems = compare_with_refusals(case, border, "large", result["refused"])
    return CellResult(problems, result.get("refused") is not None, process.seconds, process.peak_bytes)


def run_cell_here(case: LargeCase, border: Border, folder: str) -> None:
    """Runs a cell in this process, and prints its result as JSON."""
    # The kernel kills this process first if memory runs out.
    Path("/proc/self/oom_score_adj").write_text("1000")
    with Workspace(Path(folder)) as workspace:
        try:
            print(json.dumps({"refused": run_cell(case, border, "large", workspace, LargeSample)}))
        except WrongValues as problem:
            print(json.dumps({"wrong": str(problem)}))


def check_cells(type_names: list[str]) -> int:
    """Checks the cells of some types one after the other, prints the results, and returns the exit code."""
    cell_count, problem_count = 0, 0
    for case, border in itertools.product(LARGE_CASES, LARGE_BORDERS):
        if case.name not in type_names or not is_tested(border, case):
            continue
        if not is_available(border):
            print(f"left out: {border}, {case}: its library is not built", flush=True)
            continue
        result = check_cell(case, border)
        cell_count += 1
        problem_count += len(result.problems)
        for problem in result.problems:
            print(problem)
        if result.problems:
            state = "WRONG"
        else:
            state = "refused as listed" if result.is_refused else "ok"
        peak_gib = result.peak_bytes / 2**30
        print(f"{border}, {case}: {state}, {result.seconds:.0f} s, {peak_gib:.1f} GiB", flush=True)
    print(f"{cell_count} cells, {problem_count} wrong")
    return 1 if problem_count else 0


def find_by_name(items, name):
    return next(item for item in items if item.name == name)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [type_name, border_name, folder]:
            run_cell_here(find_by_name(LARGE_CASES, type_name), find_by_name(LARGE_BORDERS, border_name), folder)
        case type_names:
            cases = [find_by_name(LARGE_CASES, name) for name in type_names] or LARGE_CASES
            sys.exit(check_cells([case.name for case in cases]))
