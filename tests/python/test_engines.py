"""The table of docs/engines.md, cell by cell: who reads the file's own memory, what a table that grows is to them, and
what they leave unread. Addresses prove that nothing was copied; where an engine doesn't show them, the memory that it
takes does.
"""

import pathlib
import re
import subprocess
import sys

import dask
import datafusion
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import arrowwood as aw
from arrowwood import _dask, _scan
from test_exchange import buffers, mapped_ranges

ROOT = pathlib.Path(__file__).parents[2]
ROWS = 2_000_000
TEXT = "a text of 40 bytes, to be seen in memory"
SCHEMA = pa.schema(
    {"n": pa.float64(), "view": pa.string_view(), "text": pa.string(), "key": pa.dictionary(pa.int32(), pa.string())}
)


class Table:
    """A table with one dense segment, which everybody can have the address of, and a writer."""

    def __init__(self, path):
        self.path = str(path)
        self.writer = aw.writer(path, SCHEMA, segment_rows=ROWS, sync="never")
        self.append(ROWS)
        self.dataset = aw.open(path)

    def append(self, rows):
        text = pa.repeat(TEXT, rows)
        key = pa.array(["a", "b"]).take(pa.array(np.arange(rows) % 2)).dictionary_encode()
        batch = {
            "n": np.ones(rows),
            "view": text.cast(pa.string_view()),
            "text": text,
            "key": key.cast(SCHEMA.field("key").type),
        }
        self.writer.append(pa.table(batch, schema=SCHEMA))
        self.writer.commit()

    def batch(self):
        """The largest segment: NumPy has one array for one batch."""
        return max(self.dataset.batches(), key=len)

    def inside(self, addresses):
        found = list(addresses)
        # A split has a mapping of its own, before or after the dataset's.
        ranges = [some for file in pathlib.Path(self.path).glob("*.arrow") for some in mapped_ranges(file)]
        assert found and ranges
        return all(any(address in inside for inside in ranges) for address in found)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return Table(tmp_path_factory.mktemp("engines") / "t")


PEAK = """
import re, sys, threading
import arrowwood as aw, polars as pl

def own():
    return int(re.search(r"RssAnon:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) << 10

ds = max(aw.open(sys.argv[1]).batches(), key=len)
way = lambda ds: {way}
way(ds[:10])
peak, before, going = own(), own(), True

def watch():
    global peak
    while going:
        peak = max(peak, own())

watcher = threading.Thread(target=watch)
watcher.start()
kept = way(ds)
going = False
watcher.join()
print((max(peak, own()) - before) / len(ds))
"""


def takes(table, way):
    """The most bytes a row of memory of its own that a new process needs for `way`."""
    code = PEAK.replace("{way}", way)
    done = subprocess.run([sys.executable, "-c", code, table.path], capture_output=True, text=True, check=True)
    return float(done.stdout)


def addresses(table):
    return [buffer.address for column in pa.table(table).columns for buffer in buffers(column)]


def is_snapshot(table, rows_of):
    """Returns whether `rows_of(dataset)` is unchanged after rows are appended."""
    dataset = aw.open(table.path)
    before = len(dataset)
    table.append(10)
    return rows_of(dataset) == before and rows_of(aw.open(table.path)) == before + 10


def pyarrow(table):
    got = pa.table(table.dataset)
    assert table.inside(addresses(got))
    assert is_snapshot(table, lambda ds: pa.table(ds).num_rows)
    return "all", "as handed over", "–"


def numpy(table):
    assert table.inside([table.batch()["n"].to_numpy(copy=False).ctypes.data])
    assert is_snapshot(table, lambda ds: len(ds["n"].to_numpy()))
    return "numbers, times", "as handed over", "–"


def pandas_arrow(table):
    frame = table.dataset.to_pandas(arrow=True)
    found = [buffer.address for name in frame for buffer in buffers(frame[name].array._pa_array)]
    assert table.inside(found)
    assert is_snapshot(table, lambda ds: len(ds.to_pandas(arrow=True)))
    return "all", "as handed over", "–"


def pandas_numpy(table):
    rows = table.dataset.select(["n"])
    assert not table.inside([rows.to_pandas()["n"].to_numpy().ctypes.data])
    assert is_snapshot(table, lambda ds: len(ds.select(["n"]).to_pandas()))
    return "none", "as handed over", "–"


def polars(table):
    part = table.batch()
    assert table.inside([pl.DataFrame(part.select(["n"]))["n"].to_numpy(allow_copy=False).ctypes.data])
    # Polars makes views of 16 bytes each where there are none.
    assert takes(table, "pl.DataFrame(ds.select(['view']))") < 2
    assert takes(table, "pl.DataFrame(ds.select(['text']))") > 15
    assert is_snapshot(table, lambda ds: pl.DataFrame(ds.select(["n"])).height)
    return "numbers, times, `utf8_view`", "as handed over", "–"


def polars_scan(table):
    lazy = aw.scan(table.batch())
    assert table.inside([lazy.select("n").collect()["n"].to_numpy(allow_copy=False).ctypes.data])
    assert is_snapshot(table, lambda ds: aw.scan(ds).select(pl.len()).collect().item())
    asked = []
    real = _scan._read
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scan, "_read", lambda *what: asked.append(what[1:]) or real(*what))
        aw.scan(table.path).filter(pl.col("key") == "a").select("n").collect()
        aw.scan(table.path).select("n").head(3).collect()
    assert set(asked[0][0]) == {"n", "key"} and asked[0][1] is not None
    assert asked[1][0] == ["n"] and asked[1][2] == 3
    return "numbers, times, `utf8_view`", "newest at `aw.scan`", "columns, rows, conditions"


def duck(table):
    dataset = table.dataset
    # Of 108 bytes a row that are looked at; vectors and threads take a few megabytes.
    assert takes(table, "ds.sql('select sum(n) + sum(strlen(view)) + sum(strlen(text)) from self')") < 12
    assert is_snapshot(table, lambda ds: ds.sql("select count(*) as n from self")[0]["n"])
    table.append(1)
    assert aw.sql(f'select count(*) as n from "{table.path}"')[0]["n"] == len(aw.open(table.path))
    plan = aw.sql("explain select n from t where n > 3", t=dataset).to_pylist()[0]["explain_value"]
    scan = plan[plan.index("ARROW_SCAN") :]
    assert "n" in scan and "view" not in scan and "Filters" not in scan and "Filter" in plan
    return "all", "newest where named by path", "columns"


def datafusion_rows(table):
    context = datafusion.SessionContext()
    context.from_arrow(table.dataset, "t")
    batches = context.sql("select n, text from t").collect()
    assert table.inside(buffer.address for batch in batches for column in batch.columns for buffer in buffers(column))

    def rows(dataset):
        return datafusion.SessionContext().from_arrow(dataset).count()

    assert is_snapshot(table, rows)
    return "all", "as handed over", "–"


def datafusion_folder(table):
    context = datafusion.SessionContext()
    context.sql(f"create external table t stored as arrow location '{table.path}/'")
    count = "select count(*) as n from t"
    assert context.sql(count).to_pydict()["n"] == [len(aw.open(table.path))]
    table.append(1)
    assert context.sql(count).to_pydict()["n"] == [len(aw.open(table.path))]
    batches = context.sql("select n from t limit 10").collect()
    assert not table.inside(
        buffer.address for batch in batches for column in batch.columns for buffer in buffers(column)
    )
    plan = "".join(context.sql("explain select n from t where n > 3").to_pydict()["plan"])
    assert "projection=[n]" in plan and "FilterExec" in plan
    return "none", "newest at each query", "columns"


def dask_frame(table):
    with dask.config.set(scheduler="synchronous"):
        (split,) = table.dataset[:ROWS].splits(1)
        frame = _dask._part(split, None, ["n", "text"], columns=["n"])
        assert list(frame) == ["n"] and table.inside(buffer.address for buffer in buffers(frame["n"].array._pa_array))
        assert is_snapshot(table, lambda ds: len(aw.dask(ds)))
    return "all but dictionaries, `utf8_view`", "newest at `aw.dask`", "columns, divisions"


def hugging_face(table):
    datasets = pytest.importorskip("datasets")
    got = datasets.Dataset(pa.table(table.dataset.select(["n", "view", "text"])))
    assert table.inside(addresses(got.data.table))
    assert is_snapshot(table, lambda ds: len(datasets.Dataset(pa.table(ds.select(["n"])))))
    return "all but dictionaries", "as handed over", "–"


CONSUMERS = {
    "pyarrow: `pa.table(ds)`": pyarrow,
    'NumPy: `ds["n"].to_numpy()`': numpy,
    "pandas: `ds.to_pandas(arrow=True)`": pandas_arrow,
    "pandas: `ds.to_pandas()`": pandas_numpy,
    "Polars: `pl.DataFrame(ds)`": polars,
    "Polars: `aw.scan(path)`": polars_scan,
    "DuckDB: `ds.sql(…)`, `aw.sql(…)`": duck,
    "DataFusion: `ctx.from_arrow(ds)`": datafusion_rows,
    "DataFusion: `stored as arrow location 'ticks/'`": datafusion_folder,
    "Dask: `aw.dask(path)`": dask_frame,
    "Hugging Face: `datasets.Dataset(pa.table(ds))`": hugging_face,
}


def documented():
    """The cells of docs/engines.md by the names of their rows."""
    lines = (ROOT / "docs/engines.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| consumer "))
    cells = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *rest = (cell.strip() for cell in line.strip("|").split("|"))
        cells[name] = tuple(rest)
    return cells


def test_every_consumer_has_its_row():
    assert list(documented()) == list(CONSUMERS)


@pytest.mark.parametrize("name", list(CONSUMERS))
def test_the_table_is_true(table, name):
    assert CONSUMERS[name](table) == documented()[name]


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/engines.md").read_text(), re.S)
    assert len(blocks) >= 4
    monkeypatch.chdir(tmp_path)
    space = {}
    with dask.config.set(scheduler="synchronous"):
        for block in blocks:
            exec(compile(block, "docs/engines.md", "exec"), space)
    assert capsys.readouterr().out
