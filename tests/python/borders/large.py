"""Values of more than 2 GiB at the borders: types whose arrays have more rows, items or bytes than 31 bits count.

    python -m borders.large [KIND ...]

runs the cells of all types, or of these. Each takes some gigabytes, and is a process of its own, `python -m
borders.large KIND WAY FOLDER`: one that is aborted, or takes too much memory, fails alone.
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
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

import arrowwood as aw

from . import c
from .kinds import beside_numbers
from .matrix import Place, Wrong, cell, unlisted
from .ways import (
    ARROW_STREAM,
    BORDERS,
    Border,
    Refused,
    Sample,
    in_c,
    is_here,
    peer,
    run_command,
    served_table,
)

EDGE = 2**31
# What a cell may have of memory of its own, and how long it may take.
MEMORY = 9 * 2**30
PATIENCE = 900
# Values are compared by so many bytes at a time.
WINDOW = 2**26
# Of no divisor with powers of two: what is read from a place that is wrong by one of them has other bytes.
PERIOD = 1_000_003


@cache
def tile(is_text):
    """Random bytes, or letters and digits, twice."""
    dice = np.random.default_rng(PERIOD)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", "u1")
    once = dice.choice(letters, PERIOD) if is_text else dice.integers(0, 256, PERIOD, "u1")
    return np.tile(once, 2)


def stream(start, stop, is_text=False):
    """Bytes of an endless stream."""
    first, size = start % PERIOD, stop - start
    part = tile(is_text)[first : first + PERIOD]
    return part[:size] if size <= PERIOD else np.resize(part, size)


class Large:
    """A type with more than 2 GiB of values. `window` makes the array of any rows, and `step` of them are compared at
    a time; `cuts` are where its chunks begin."""

    sets = ("large",)

    def __init__(self, name, kind, rows, window, step=2**10, cuts=(), whole=None):
        self.name, self.type, self.rows, self.window, self.step = name, kind, rows, window, step
        self.cuts, self.whole = cuts, whole

    def __repr__(self):
        return self.name

    @property
    def schema(self):
        x = pa.field("x", self.type)
        return pa.schema([x] if self.is_long else [pa.field("n", pa.int64()), x])

    def table(self, _):
        chunks = [
            (self.whole or self.window)(start, stop) for start, stop in itertools.pairwise((0, *self.cuts, self.rows))
        ]
        if self.is_long:
            return pa.table({"x": pa.chunked_array(chunks, self.type)})
        return beside_numbers(chunks, self.type)

    @property
    def is_long(self):
        """Whether its rows are more than Python, or text, has room for."""
        return self.rows > EDGE

    def windows(self):
        for start in range(0, self.rows, self.step):
            stop = min(start + self.step, self.rows)
            yield start, stop, self.window(start, stop)


# ---- the types ----

ITEM = 2**16
ROWS = EDGE // ITEM + 100


def offsets(start, stop):
    """Where the values of rows begin in the stream, each of another length than its neighbours."""
    rows = np.arange(start, stop + 1, dtype="i8")
    return rows * ITEM + rows * rows % 1009


def bits(start, stop):
    """A bitmap from a whole byte on, of as many more bits as there are before `start`."""
    return pa.py_buffer(stream(start // 8, stop // 8 + 1))


def int8(start, stop):
    return pa.array(stream(start, stop).view("i1"))


def booleans(start, stop):
    valid, values = bits(start + 8 * 997, stop + 8 * 997), bits(start, stop)
    return pa.Array.from_buffers(pa.bool_(), stop - start, [valid, values], offset=start % 8)


def of_bytes(kind):
    """Rows of `utf8` or `binary`, or of their large kin."""
    is_text = kind in (pa.string(), pa.large_string())
    width = "i8" if kind in (pa.large_string(), pa.large_binary()) else "i4"

    def window(start, stop):
        ends = offsets(start, stop)
        values = stream(ends[0], ends[-1], is_text)
        return pa.Array.from_buffers(
            kind, stop - start, [None, *map(pa.py_buffer, ((ends - ends[0]).astype(width), values))]
        )

    return window


def lists(start, stop):
    ends = offsets(start, stop)
    return pa.LargeListArray.from_arrays(pa.array(ends - ends[0]), int8(ends[0], ends[-1]))


def fixed(start, stop):
    return pa.Array.from_buffers(pa.binary(ITEM), stop - start, [None, pa.py_buffer(stream(start * ITEM, stop * ITEM))])


def fixed_lists(start, stop):
    return pa.FixedSizeListArray.from_arrays(int8(start * ITEM, stop * ITEM), ITEM)


def views(kind, source):
    """Rows of views, and an array of many, which has a buffer for each part of its bytes."""
    window = lambda start, stop: of_bytes(source)(start, stop).cast(kind)

    def whole(start, stop):
        parts = range(start, stop, 2**12)
        return pa.concat_arrays([window(part, min(part + 2**12, stop)) for part in parts])

    return window, whole


WORDS = of_bytes(pa.large_string())


def entries(start, stop):
    """The rows of the dictionary, each of them the value of its number, and some again."""
    return pa.concat_arrays([WORDS(row % ROWS, row % ROWS + 1) for row in range(start, stop)])


def dictionary(start, stop):
    keys = pa.array(np.arange(start, stop, dtype="i4") % ROWS)
    return pa.DictionaryArray.from_arrays(keys, WORDS(0, ROWS))


def kinds():
    many = EDGE + 5000
    yield Large("int8", pa.int8(), many, int8, WINDOW)
    yield Large("bool", pa.bool_(), many, booleans, WINDOW)
    for name, kind in ("large_utf8", pa.large_string()), ("large_binary", pa.large_binary()):
        yield Large(name, kind, ROWS, of_bytes(kind))
    yield Large("utf8", pa.string(), ROWS, of_bytes(pa.string()), cuts=(ROWS // 2,))
    for name, kind, source in (
        ("utf8_view", pa.string_view(), pa.string()),
        ("binary_view", pa.binary_view(), pa.binary()),
    ):
        window, whole = views(kind, source)
        yield Large(name, kind, ROWS, window, whole=whole)
    yield Large("fixed_size_binary[65536]", pa.binary(ITEM), ROWS, fixed)
    yield Large("large_list<int8>", pa.large_list(pa.int8()), ROWS, lists)
    yield Large("fixed_size_list<int8>[65536]", pa.list_(pa.int8(), ITEM), ROWS, fixed_lists)
    keyed = pa.dictionary(pa.int32(), pa.large_string())
    yield Large("dictionary<int32, large_utf8>", keyed, ROWS + 1000, entries, whole=dictionary)


LARGE = list(kinds())


# ---- the ways ----


class LargeSample(Sample):
    """Values on their way, compared part by part."""

    @property
    def segment_rows(self):
        return self.kind.rows // 3

    def schema(self):
        return self.kind.schema

    def field(self):
        return self.kind.schema.field("x")

    def rows(self):
        return [x for _, _, window in self.kind.windows() for x in window.to_pylist()]

    def same_values(self, found):
        assert found.num_rows == self.kind.rows, f"{found.num_rows} rows instead of {self.kind.rows}"
        for start, stop, wanted in self.kind.windows():
            self.same_window(start, stop, found["x"].slice(start, stop - start), wanted)
        if "n" in found.columns:
            assert found["n"].to_pylist() == list(range(self.kind.rows)), "other numbers of rows"

    def same_window(self, start, stop, found, wanted):
        if pa.types.is_dictionary(found.type):
            found = pa.chunked_array([chunk.dictionary_decode() for chunk in found.chunks])
        assert found.equals(pa.chunked_array([wanted])), f"other values in the rows from {start} to {stop}"

    def same_rows(self, found):
        found = iter(found)
        for start, stop, wanted in self.kind.windows():
            part = list(itertools.islice(found, stop - start))
            assert part == wanted.to_pylist(), f"other values in the rows from {start} to {stop}"
        assert next(found, None) is None, "too many rows"


def peers_file(sample, new, name):
    """What pyarrow writes of the values."""
    options = pa.ipc.IpcWriteOptions(allow_64bit=True)
    with new(sample.path(name), sample.kind.schema, options=options) as sink:
        peer("pyarrow", lambda: sink.write_table(sample.table))
    del sample.table


def opened_file(sample):
    peers_file(sample, pa.ipc.new_file, "x.arrow")
    sample.same(aw.open(sample.path("x.arrow"), validate="full"))


def opened_stream(sample):
    peers_file(sample, pa.ipc.new_stream, "x.arrows")
    sample.same(aw.open(sample.path("x.arrows"), validate="full"))
    with Path(sample.path("x.arrows")).open("rb") as file:
        sample.same(aw.read_stream(file).read_all())


def to_pylist(sample):
    rows = aw.from_arrow(sample.table)
    sample.same_rows(rows["x"].to_pylist())
    sample.same_rows(row["x"] for row in rows)


def to_numpy(sample):
    array = aw.from_arrow(sample.table)["x"].to_numpy()
    same_numpy(sample, array)


def same_numpy(sample, array):
    assert len(array) == sample.kind.rows, f"{len(array)} rows instead of {sample.kind.rows}"
    for start, stop, wanted in sample.kind.windows():
        found, wanted = array[start:stop], wanted.to_numpy(zero_copy_only=False)
        if wanted.dtype == object:
            is_same = all(map(is_item, found, wanted))
        else:
            is_same = found.dtype == wanted.dtype and np.array_equal(found, wanted)
        assert is_same, f"other values in the rows from {start} to {stop}"


def is_item(found, wanted):
    return np.array_equal(found, wanted) if isinstance(wanted, np.ndarray) else found == wanted


def numpy_in(sample):
    array = sample.table["x"].to_numpy()
    del sample.table
    builder = aw.Builder(sample.schema())
    numbers = {} if sample.kind.is_long else {"n": np.arange(len(array))}
    builder.append({**numbers, "x": array})
    del array
    sample.same(builder.finish())


def pandas_out(sample):
    found = aw.from_arrow(sample.table).to_pandas()["x"]
    wanted = sample.kind.window(0, 10).to_pandas()
    assert found.dtype == wanted.dtype, f"{found.dtype} instead of {wanted.dtype}"
    same_numpy(sample, found.to_numpy())


def pandas_in(sample):
    frame = peer("pandas", sample.table.to_pandas)
    builder = aw.Builder(sample.schema())
    builder.append(frame)
    sample.same(builder.finish())


def polars_out(sample):
    import polars

    found = aw.from_arrow(sample.table).to_polars()["x"]
    dtype = peer("polars", lambda: polars.DataFrame(sample.kind.schema.empty_table()))["x"].dtype
    assert found.dtype == dtype, f"{found.dtype} instead of {dtype}"
    for start, stop, window in sample.kind.windows():
        wanted = polars.DataFrame(pa.table({"x": window}))["x"]
        is_same = found[start:stop].cast(wanted.dtype).equals(wanted)
        assert is_same, f"other values in the rows from {start} to {stop}"
    assert len(found) == sample.kind.rows


def polars_in(sample):
    import polars

    frame = peer("polars", lambda: polars.DataFrame(sample.table))
    found = pa.table(aw.from_arrow(frame))["x"]
    if pa.types.is_dictionary(found.type):
        # pyarrow takes no values of views by their numbers.
        chunks = [(chunk.indices, chunk.dictionary.cast(pa.large_string())) for chunk in found.chunks]
        found = pa.chunked_array([pa.DictionaryArray.from_arrays(*chunk) for chunk in chunks])
    for start, stop, window in sample.kind.windows():
        wanted = pa.table(polars.DataFrame(pa.table({"x": window})))["x"].combine_chunks()
        wanted = window if pa.types.is_dictionary(found.type) else wanted
        sample.same_window(start, stop, found.slice(start, stop - start), wanted)
    assert len(found) == sample.kind.rows


# Text is in files: Python has no room for it.
def text_of(sample, format):
    """What Python writes of the rows; bytes are hexadecimal digits."""
    path = sample.path(f"x.{format}")
    with Path(path).open("w") as file:
        if format == "csv":
            file.write("n,x\n")
        numbers = itertools.count()
        for _, _, window in sample.kind.windows():
            for x, n in zip(window.to_pylist(), numbers, strict=False):
                x = x.hex() if isinstance(x, bytes) else x
                file.write(f"{n},{x}\n" if format == "csv" else json.dumps({"n": n, "x": x}) + "\n")
    return path


def printed(sample, format):
    """What the command prints of them."""
    aw.write(sample.table, sample.path())
    del sample.table
    path = sample.path(f"x.{format}")
    with Path(path).open("wb") as file, Path(os.devnull).open("rb") as nothing:
        run_command(["cat", f"--{format}", sample.path()], nothing, file)
    return path


def read_again(make, format):
    read = {"csv": aw.read_csv, "json": aw.read_json}[format]
    return lambda sample: sample.same(read(make(sample, format), schema=sample.schema()), is_text=True)


def appended_json(sample):
    aw.writer(sample.path("t"), sample.schema()).close()
    with Path(text_of(sample, "json")).open("rb") as lines, tempfile.TemporaryFile() as out:
        run_command(["append", sample.path("t")], lines, out)
    sample.same(aw.open(sample.path("t")))


def c_write(sample):
    peers_file(sample, pa.ipc.new_file, "x.arrow")
    for name, is_stream in (("y.arrow", 0), ("y.arrows", 1)):
        in_c(lambda: c.copied(sample.path("x.arrow"), sample.path(name), is_stream))
        new = pa.ipc.open_stream if is_stream else pa.ipc.open_file
        sample.same(new(sample.path(name)).read_all())


def posted_arrow(sample):
    """An Arrow stream as a body, and the answer, which the server gives before it has all of it."""
    name = served_table(sample)
    sink = io.BytesIO()
    aw.write(sample.table, sink, format="stream")
    connection = http.client.HTTPConnection(sample.place.server.url.partition("//")[2], timeout=PATIENCE)
    with contextlib.suppress(BrokenPipeError):
        connection.request("POST", f"/v1/tables/{name}/rows", sink.getbuffer(), {"Content-Type": ARROW_STREAM})
    answer = connection.getresponse()
    if answer.status != 200:
        raise Refused(f"{answer.status}: {answer.read().decode()}")
    sample.same(aw.open(sample.place.served / name))


OWN = {
    "open": opened_file,
    "open stream": opened_stream,
    "pylist": to_pylist,
    "NumPy out": to_numpy,
    "NumPy in": numpy_in,
    "pandas out": pandas_out,
    "pandas in": pandas_in,
    "Polars out": polars_out,
    "Polars in": polars_in,
    "C write": c_write,
    "POST Arrow": posted_arrow,
    "JSON in": read_again(text_of, "json"),
    "JSON back": read_again(printed, "json"),
    "JSON append": appended_json,
    "CSV in": read_again(text_of, "csv"),
    "CSV back": read_again(printed, "csv"),
}
# What is compared as a whole, and bodies of text, which are refused as those of Arrow data are.
LEFT_OUT = re.compile("JSON (out|pyarrow)|CSV (out|to pyarrow|of pyarrow)|(POST|GET) (JSON|CSV)|line protocol")
WAYS = [
    Border(way.group, way.name, OWN.get(way.name, way.run), way.about)
    for way in BORDERS
    if way.run and not LEFT_OUT.fullmatch(way.name)
]


# What takes values one by one, tries three codecs, or refuses all alike, is tried with text alone, as it takes long.
OF_TEXT = re.compile("dicts|row|lists|inferred|pylist|write stream|connect|POST Arrow|JSON .*|CSV .*")
OF_OBJECTS = re.compile("(NumPy|pandas) in")
# These make an object of each row that may be null, or of each item, or copies of all entries, which takes too much.
NO_ROOM = {
    "bool": re.compile("NumPy out|pandas out"),
    "large_list<int8>": re.compile("NumPy out"),
    "dictionary<int32, large_utf8>": re.compile("pandas out"),
}


def is_tried(way, kind):
    if OF_TEXT.fullmatch(way.name):
        return kind.name in ("utf8", "large_utf8")
    if OF_OBJECTS.fullmatch(way.name):
        return kind.name in ("utf8", "large_utf8", "int8")
    return kind.name not in NO_ROOM or not NO_ROOM[kind.name].fullmatch(way.name)


# ---- cells ----


class Cell:
    """A way and a type, in a process: how it ended, or that it takes the values or refuses them by a message."""

    def __init__(self, kind, way):
        self.kind, self.way = kind, way

    def check(self):
        """What is not as the table of refusals says."""
        found = self.run()
        self.is_refused = found.get("refused") is not None
        if "wrong" in found:
            return [f"{self.way}, {self.kind}: wrong: {found['wrong']}"]
        return list(unlisted(self.kind, self.way, "large", found["refused"]))

    def run(self):
        command = [sys.executable, "-m", "borders.large", self.kind.name, self.way.name]
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as said:
            began = time.monotonic()
            process = subprocess.Popen(
                [*command, folder], cwd=Path(__file__).parents[1], stdout=said, stderr=subprocess.STDOUT
            )
            ended = self.wait(process, began + PATIENCE)
            self.seconds = time.monotonic() - began
            said.seek(0)
            lines = said.read().splitlines()
            if ended == "ended with 0":
                return json.loads(lines[-1])
            return {"wrong": f"it {ended}: " + "\n".join(lines[-20:])}

    def wait(self, process, end):
        """Waits for a process that takes no more than its part of memory and time."""
        self.peak = 0
        try:
            while process.poll() is None:
                self.peak = max(self.peak, own_memory(process.pid))
                if self.peak > MEMORY:
                    return f"took {self.peak / 2**30:.1f} GiB of memory"
                if time.monotonic() > end:
                    return f"did not end in {PATIENCE} seconds"
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
        return f"ended with {process.returncode}"


def own_memory(pid):
    """Bytes of a process that are not those of files."""
    with contextlib.suppress(OSError):
        found = re.search(r"^RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
        return int(found[1]) * 1024 if found else 0
    return 0


def run_cell(kind, way, folder):
    """Runs a cell in this process, and prints how it ended."""
    # Where memory ends, this process goes first.
    Path("/proc/self/oom_score_adj").write_text("1000")
    with Place(Path(folder)) as place:
        try:
            print(json.dumps({"refused": cell(kind, way, "large", place, LargeSample)}))
        except Wrong as problem:
            print(json.dumps({"wrong": str(problem)}))


def run_cells(names):
    """Runs the cells of some types, one after the other, and prints what is not as the table of refusals says."""
    cells, wrong = 0, []
    for kind, way in itertools.product(LARGE, WAYS):
        if kind.name not in names or not is_tried(way, kind):
            continue
        if not is_here(way):
            print(f"left out: {way}, {kind}: what it takes is not built here", flush=True)
            continue
        it = Cell(kind, way)
        found = it.check()
        cells, wrong = cells + 1, wrong + found
        for text in found:
            print(text)
        state = "WRONG" if found else "refused as listed" if it.is_refused else "ok"
        print(f"{way}, {kind}: {state}, {it.seconds:.0f} s, {it.peak / 2**30:.1f} GiB", flush=True)
    print(f"{cells} cells, {len(wrong)} wrong")
    return 1 if wrong else 0


def named(things, name):
    return next(it for it in things if it.name == name)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [kind, way, folder]:
            run_cell(named(LARGE, kind), named(WAYS, way), folder)
        case names:
            sys.exit(run_cells([named(LARGE, name).name for name in names or map(repr, LARGE)]))
