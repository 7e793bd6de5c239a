"""Tests each cell of the table in docs/engines.md.

The table says which consumers read the memory of the mapped file, whether they see rows that are appended later, and
what they leave unread. Buffer addresses show that nothing was copied. For consumers without addresses, it is shown by
the memory that a process takes.
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
from arrowwood._engines import dask as _dask
from arrowwood._engines import polars_scan as _scan
from test_exchange import buffers, mapped_ranges

ROOT = pathlib.Path(__file__).parents[2]
ROWS = 2_000_000
TEXT = "a text of 40 bytes, to be seen in memory"
SCHEMA = pa.schema(
    {"n": pa.float64(), "view": pa.string_view(), "text": pa.string(), "key": pa.dictionary(pa.int32(), pa.string())}
)


class Table:
    """A growing table whose first segment has `ROWS` rows, with its writer and a dataset."""

    def __init__(self, path):
        self.path = str(path)
        self.writer = aw.writer(path, SCHEMA, segment_rows=ROWS, sync="never")
        self.append(ROWS)
        self.dataset = aw.open(path)

    def append(self, row_count):
        text = pa.repeat(TEXT, row_count)
        key = pa.array(["a", "b"]).take(pa.array(np.arange(row_count) % 2)).dictionary_encode()
        columns = {
            "n": np.ones(row_count),
            "view": text.cast(pa.string_view()),
            "text": text,
            "key": key.cast(SCHEMA.field("key").type),
        }
        self.writer.append(pa.table(columns, schema=SCHEMA))
        self.writer.commit()

    def largest_batch(self):
        """Returns a dataset of one batch, which NumPy can have as one array without a copy."""
        return max(self.dataset.batches(), key=len)

    def has_mapped(self, addresses):
        """Returns whether all addresses are in mappings of the table's files."""
        addresses = list(addresses)
        # Includes all mappings of a file, because splits map it again.
        ranges = []
        for file in pathlib.Path(self.path).glob("*.arrow"):
            ranges += mapped_ranges(file)
        assert addresses and ranges
        return all(any(address in mapped for mapped in ranges) for address in addresses)

    def is_snapshot(self, count_rows):
        """Returns whether `count_rows(dataset)` is unchanged after rows are appended."""
        dataset = aw.open(self.path)
        rows_before = len(dataset)
        self.append(10)
        return count_rows(dataset) == rows_before and count_rows(aw.open(self.path)) == rows_before + 10

    def copied_bytes_per_row(self, expression):
        """Returns the peak memory of a new process that evaluates `expression` with the largest batch as ``ds``."""
        code = MEASURE_PEAK.replace("{expression}", expression)
        command = [sys.executable, "-c", code, self.path]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return Table(tmp_path_factory.mktemp("engines") / "t")


# Evaluates an expression with a few rows first, so that modules are imported and threads are started.
MEASURE_PEAK = """
import re, sys, threading
import arrowwood as aw, polars as pl

def anonymous_bytes():
    return int(re.search(r"RssAnon:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) << 10

ds = max(aw.open(sys.argv[1]).batches(), key=len)
evaluate = lambda ds: {expression}
evaluate(ds[:10])
before = peak = anonymous_bytes()
is_running = True

def watch():
    global peak
    while is_running:
        peak = max(peak, anonymous_bytes())

watcher = threading.Thread(target=watch)
watcher.start()
result = evaluate(ds)
is_running = False
watcher.join()
print((max(peak, anonymous_bytes()) - before) / len(ds))
"""


def address_of_numpy(array):
    return array.ctypes.data


def addresses_of_table(table):
    return [buffer.address for column in table.columns for buffer in buffers(column)]


def addresses_of_batches(batches):
    return [buffer.address for batch in batches for column in batch.columns for buffer in buffers(column)]


def addresses_of_frame(frame):
    return [buffer.address for name in frame for buffer in buffers(frame[name].array._pa_array)]


# Each check returns the cells of its row: what is read without a copy, when rows are seen, and what is left unread.


def check_pyarrow(table):
    assert table.has_mapped(addresses_of_table(pa.table(table.dataset)))
    assert table.is_snapshot(lambda ds: pa.table(ds).num_rows)
    return "all", "as handed over", "–"


def check_numpy(table):
    assert table.has_mapped([address_of_numpy(table.largest_batch()["n"].to_numpy(copy=False))])
    assert table.is_snapshot(lambda ds: len(ds["n"].to_numpy()))
    return "numbers, times", "as handed over", "–"


def check_arrow_backed_pandas(table):
    assert table.has_mapped(addresses_of_frame(table.dataset.to_pandas(arrow=True)))
    assert table.is_snapshot(lambda ds: len(ds.to_pandas(arrow=True)))
    return "all", "as handed over", "–"


def check_pandas(table):
    frame = table.dataset.select(["n"]).to_pandas()
    assert not table.has_mapped([address_of_numpy(frame["n"].to_numpy())])
    assert table.is_snapshot(lambda ds: len(ds.select(["n"]).to_pandas()))
    return "none", "as handed over", "–"


def check_polars(table):
    frame = pl.DataFrame(table.largest_batch().select(["n"]))
    assert table.has_mapped([address_of_numpy(frame["n"].to_numpy(allow_copy=False))])
    # Polars makes a view of 16 bytes for each text that is not one.
    assert table.copied_bytes_per_row("pl.DataFrame(ds.select(['view']))") < 2
    assert table.copied_bytes_per_row("pl.DataFrame(ds.select(['text']))") > 15
    assert table.is_snapshot(lambda ds: pl.DataFrame(ds.select(["n"])).height)
    return "numbers, times, `utf8_view`", "as handed over", "–"


def check_polars_scan(table):
    frame = aw.scan(table.largest_batch()).select("n").collect()
    assert table.has_mapped([address_of_numpy(frame["n"].to_numpy(allow_copy=False))])
    assert table.is_snapshot(lambda ds: aw.scan(ds).select(pl.len()).collect().item())
    reads = []
    original_read = _scan._read

    def record_read(dataset, *arguments):
        reads.append(arguments)
        return original_read(dataset, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scan, "_read", record_read)
        aw.scan(table.path).filter(pl.col("key") == "a").select("n").collect()
        aw.scan(table.path).select("n").head(3).collect()
    columns, predicate, *_ = reads[0]
    assert set(columns) == {"n", "key"} and predicate is not None
    columns, _, row_limit, *_ = reads[1]
    assert columns == ["n"] and row_limit == 3
    return "numbers, times, `utf8_view`", "newest at `aw.scan`", "columns, rows, conditions"


def check_duckdb(table):
    # The query reads 108 bytes per row; vectors and threads take a few megabytes.
    query = "ds.sql('select sum(n) + sum(strlen(view)) + sum(strlen(text)) from self')"
    assert table.copied_bytes_per_row(query) < 12
    assert table.is_snapshot(lambda ds: ds.sql("select count(*) as n from self")[0]["n"])
    table.append(1)
    assert aw.sql(f'select count(*) as n from "{table.path}"')[0]["n"] == len(aw.open(table.path))
    plan = aw.sql("explain select n from t where n > 3", t=table.dataset).to_pylist()[0]["explain_value"]
    scan = plan[plan.index("ARROW_SCAN") :]
    assert "n" in scan and "view" not in scan
    assert "Filters" not in scan and "Filter" in plan
    return "all", "newest where named by path", "columns"


def check_datafusion_from_arrow(table):
    context = datafusion.SessionContext()
    context.from_arrow(table.dataset, "t")
    assert table.has_mapped(addresses_of_batches(context.sql("select n, text from t").collect()))
    assert table.is_snapshot(lambda ds: datafusion.SessionContext().from_arrow(ds).count())
    return "all", "as handed over", "–"


def check_datafusion_external_table(table):
    context = datafusion.SessionContext()
    context.sql("set datafusion.runtime.list_files_cache_limit = '0K'")
    context.sql(f"create external table t stored as arrow location '{table.path}/'")
    count = "select count(*) as n from t"
    assert context.sql(count).to_pydict()["n"] == [len(aw.open(table.path))]
    table.append(1)
    assert context.sql(count).to_pydict()["n"] == [len(aw.open(table.path))]
    assert not table.has_mapped(addresses_of_batches(context.sql("select n from t limit 10").collect()))
    plan = "".join(context.sql("explain select n from t where n > 3").to_pydict()["plan"])
    assert "projection=[n]" in plan and "FilterExec" in plan
    return "none", "newest at each query, if it lists files anew", "columns"


def check_dask(table):
    with dask.config.set(scheduler="synchronous"):
        (split,) = table.dataset[:ROWS].splits(1)
        frame = _dask._part(split, None, ["n", "text"], columns=["n"])
        assert list(frame) == ["n"] and table.has_mapped(addresses_of_frame(frame))
        assert table.is_snapshot(lambda ds: len(aw.dask(ds)))
    return "all but dictionaries, `utf8_view`", "newest at `aw.dask`", "columns, divisions"


def check_hugging_face(table):
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset(pa.table(table.dataset.select(["n", "view", "text"])))
    assert table.has_mapped(addresses_of_table(pa.table(dataset.data.table)))
    assert table.is_snapshot(lambda ds: len(datasets.Dataset(pa.table(ds.select(["n"])))))
    return "all but dictionaries", "as handed over", "–"


CONSUMERS = {
    "pyarrow: `pa.table(ds)`": check_pyarrow,
    'NumPy: `ds["n"].to_numpy()`': check_numpy,
    "pandas: `ds.to_pandas(arrow=True)`": check_arrow_backed_pandas,
    "pandas: `ds.to_pandas()`": check_pandas,
    "Polars: `pl.DataFrame(ds)`": check_polars,
    "Polars: `aw.scan(path)`": check_polars_scan,
    "DuckDB: `ds.sql(…)`, `aw.sql(…)`": check_duckdb,
    "DataFusion: `ctx.from_arrow(ds)`": check_datafusion_from_arrow,
    "DataFusion: `stored as arrow location 'ticks/'`": check_datafusion_external_table,
    "Dask: `aw.dask(path)`": check_dask,
    "Hugging Face: `datasets.Dataset(pa.table(ds))`": check_hugging_face,
}


def documented_cells():
    """Returns the cells of the table in docs/engines.md by the consumers that begin its rows."""
    lines = (ROOT / "docs/engines.md").read_text().splitlines()
    header = next(number for number, line in enumerate(lines) if line.startswith("| consumer "))
    cells_by_consumer = {}
    for line in lines[header + 2 :]:
        if not line.startswith("|"):
            break
        consumer, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        cells_by_consumer[consumer] = tuple(cells)
    return cells_by_consumer


def test_documented_consumers_are_the_tested_ones():
    assert list(documented_cells()) == list(CONSUMERS)


@pytest.mark.parametrize("consumer", list(CONSUMERS))
def test_documented_cells_are_true(table, consumer):
    assert CONSUMERS[consumer](table) == documented_cells()[consumer]


def test_datafusion_lists_new_files_if_told_to(tmp_path):
    """Without the setting it remembers the files of the first query, and leaves out later segments."""
    with aw.writer(tmp_path / "t", "n: int64", segment_rows=100) as writer:
        writer.append({"n": range(150)})
        writer.commit()
        context = datafusion.SessionContext()
        context.sql("set datafusion.runtime.list_files_cache_limit = '0K'")
        context.sql(f"create external table t stored as arrow location '{tmp_path / 't'}/'")
        for row_count in [150, 180, 580]:
            writer.append({"n": range(row_count - writer.rows)})
            writer.commit()
            assert context.sql("select count(*) as n from t").to_pydict()["n"] == [row_count]


def test_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/engines.md").read_text(), re.S)
    assert len(blocks) >= 4
    monkeypatch.chdir(tmp_path)
    namespace = {}
    with dask.config.set(scheduler="synchronous"):
        for block in blocks:
            exec(compile(block, "docs/engines.md", "exec"), namespace)
    assert capsys.readouterr().out
