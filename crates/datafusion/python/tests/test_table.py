"""Tests that datasets registered as tables of DataFusion give the same answers as copied rows, without a copy."""

from concurrent.futures import ThreadPoolExecutor

import arrowwood_datafusion
import numpy as np
import pyarrow as pa
import pytest
from datafusion import SessionContext

import arrowwood as aw

ROWS = 100_000


@pytest.fixture(scope="module")
def ticks(tmp_path_factory):
    """Return the path of a table that is sorted by `ts` and has several commits."""
    path = tmp_path_factory.mktemp("tables") / "ticks"
    with aw.writer(path, make_rows(0, 9).schema, sorted_by="ts") as writer:
        for start in range(0, ROWS, ROWS // 4):
            writer.append(make_rows(start, ROWS // 4))
            writer.commit()
    return path


def make_rows(start, count):
    numbers = np.arange(start, start + count)
    symbols = [None if n % 7 == 0 else f"s{n % 100}" for n in numbers.tolist()]
    parts = [[n, n + 1] for n in numbers.tolist()]
    return pa.table({"ts": numbers, "price": numbers / 8, "symbol": pa.array(symbols), "parts": parts})


def make_context(**tables):
    context = SessionContext()
    for name, dataset in tables.items():
        context.register_table(name, dataset)
    return context


QUERIES = [
    "select count(*) as n, sum(price) as s, min(symbol) as first, max(ts) as last from t",
    "select symbol, avg(price) as mean, count(*) as n from t group by symbol order by symbol nulls first",
    "select ts, parts from t where ts >= 99990 order by ts desc",
    "select ts from t where symbol = 's3' and price > 12000 order by ts limit 5",
    "select ts from t where symbol is null and ts between 70 and 100 order by ts",
    "select a.ts, b.price from t a join t b on a.ts = b.ts + 1 where a.ts < 20 order by a.ts",
    "select ts from t order by ts limit 3 offset 50000",
    "select symbol in ('s1', 's2') as has, count(*) as n from t group by has order by has nulls first",
    "select upper(symbol) as big, ts % 10 as digit from t where ts in (5, 50005) order by ts",
]


@pytest.mark.parametrize("query", QUERIES)
def test_registered_dataset_answers_as_copied_rows(ticks, query):
    ds = aw.open(ticks)
    copied = SessionContext()
    copied.from_arrow(ds, "t")
    actual = make_context(t=ds).sql(query).to_pydict()
    assert actual == copied.sql(query).to_pydict()
    assert len(next(iter(actual.values()))) > 0


def mapped_ranges(path):
    """Return the ranges of addresses that files in a directory are mapped to."""
    ranges = []
    for line in open("/proc/self/maps"):
        if str(path) in line:
            start, end = line.split()[0].split("-")
            ranges.append(range(int(start, 16), int(end, 16)))
    return ranges


def test_batches_are_mapped_memory(ticks):
    ds = aw.open(ticks)
    batches = make_context(t=ds).sql("select price from t").collect()
    ranges = mapped_ranges(ticks)
    assert batches
    for batch in batches:
        address = batch.column(0).buffers()[1].address
        assert any(address in mapped for mapped in ranges)


def explain(query, **tables):
    """Return the plans of a query as text."""
    context = make_context(**tables)
    return "\n".join(context.sql(f"explain {query}").to_pydict()["plan"])


def test_conditions_are_pushed_down(ticks):
    ds = aw.open(ticks)
    exact = explain("select price from t where ts >= 99900", t=ds)
    assert "full_filters=[t.ts >= Int64(99900)]" in exact
    assert "FilterExec" not in exact
    assert "FilterExec" in explain("select price from t where upper(symbol) = 'S3'", t=ds)


def test_table_has_the_rows_of_the_dataset(tmp_path):
    path = tmp_path / "live"
    with aw.writer(path, make_rows(0, 9).schema) as writer:
        writer.append(make_rows(0, 10))
        writer.commit()
        ds = aw.open(path)
        context = make_context(t=ds, newer=ds)
        writer.append(make_rows(10, 10))
        writer.commit()
        context.deregister_table("newer")
        context.register_table("newer", ds.refresh())
        counts = "select (select count(*) from t) as old, (select count(ts) from newer) as new"
        assert context.sql(counts).to_pydict() == {"old": [10], "new": [20]}


def test_slices_and_selected_and_renamed_columns(ticks):
    ds = aw.open(ticks)[100:200][["symbol", "ts"]]
    context = make_context(t=ds, renamed=ds.rename({"ts": "number"}))
    answer = context.sql("select count(*) n, min(ts) low, max(ts) high from t").to_pydict()
    assert answer == {"n": [100], "low": [100], "high": [199]}
    assert context.sql("select * from renamed limit 1").to_pydict() == {"symbol": [ds[0]["symbol"]], "number": [100]}


def test_partitions_and_files(tmp_path):
    loads = pa.table({"host": ["a", "b", "a"], "load": [1.0, 2.0, 4.0]})
    with aw.writer(tmp_path / "metrics", loads.schema, partition_by="host") as writer:
        writer.append(loads)
        writer.commit()
    for number in range(3):
        aw.write({"n": [number]}, tmp_path / f"part{number}.arrow")
    context = make_context(metrics=aw.open(tmp_path / "metrics"), parts=aw.open(str(tmp_path / "part*.arrow")))
    answer = context.sql("select host, sum(load) as s from metrics where host = 'a' group by host").to_pydict()
    assert answer == {"host": ["a"], "s": [5.0]}
    assert context.sql("select n from parts order by n").to_pydict() == {"n": [0, 1, 2]}


def test_rows_that_are_not_file_ranges_are_rejected(ticks):
    memory = aw.from_arrow(pa.table({"n": [1]}))
    for ds in [memory, aw.open(ticks).shuffle(1)]:
        with pytest.raises(Exception, match=r"from_arrow\(ds, name\)"):
            make_context(t=ds)


def test_duplicate_column_names_are_rejected(tmp_path):
    table = pa.table([pa.array([1]), pa.array([2])], names=["n", "n"])
    with pa.OSFile(str(tmp_path / "twice.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(Exception, match="two columns are called 'n'"):
        make_context(t=aw.open(tmp_path / "twice.arrow"))


def test_damaged_text_is_an_error_of_the_query(tmp_path):
    path = tmp_path / "damaged.arrow"
    aw.write(pa.table({"text": ["a" * 20, "b" * 20]}), path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"b" * 20, b"\xff" * 20))
    context = make_context(t=aw.open(path))
    with pytest.raises(Exception, match="UTF-8"):
        context.sql("select text from t").to_pydict()


def count_rows_from(context, start):
    answer = context.sql(f"select count(*) as n from t where ts >= {start}").to_pydict()
    return answer["n"]


def test_threads_can_share_a_table(ticks):
    context = make_context(t=aw.open(ticks))
    starts = range(0, 16_000, 1000)
    with ThreadPoolExecutor(max_workers=len(starts)) as pool:
        counts = list(pool.map(lambda start: count_rows_from(context, start), starts))
    assert counts == [[ROWS - start] for start in starts]


def test_another_version_of_datafusion_is_rejected(ticks, monkeypatch):
    monkeypatch.setattr(arrowwood_datafusion, "DATAFUSION_VERSION", 54)
    with pytest.raises(
        ImportError, match=r"for DataFusion 54, and 55\..* is installed; pip install 'datafusion==54\.\*'"
    ):
        make_context(t=aw.open(ticks))


def test_table_provider_rejects_other_objects(ticks):
    with pytest.raises(TypeError):
        aw.open(ticks).__datafusion_table_provider__(object())
