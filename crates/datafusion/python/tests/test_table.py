"""Datasets registered as tables of DataFusion: the same answers as of rows handed over, from the mapping itself."""

import threading

import arrowwood_datafusion
import numpy as np
import pyarrow as pa
import pytest
from datafusion import SessionContext

import arrowwood as aw

ROWS = 100_000


@pytest.fixture(scope="module")
def ticks(tmp_path_factory):
    """A table sorted by `ts`, in several commits."""
    path = tmp_path_factory.mktemp("tables") / "ticks"
    with aw.writer(path, rows(0, 9).schema, sorted_by="ts") as writer:
        for start in range(0, ROWS, ROWS // 4):
            writer.append(rows(start, ROWS // 4))
            writer.commit()
    return path


def rows(start, count):
    number = np.arange(start, start + count)
    texts = [None if n % 7 == 0 else f"s{n % 100}" for n in number.tolist()]
    return pa.table(
        {"ts": number, "price": number / 8, "symbol": pa.array(texts), "parts": [[n, n + 1] for n in number.tolist()]}
    )


def context(**tables):
    made = SessionContext()
    for name, dataset in tables.items():
        made.register_table(name, dataset)
    return made


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
def test_answers_are_those_of_rows_handed_over(ticks, query):
    ds = aw.open(ticks)
    handed_over = SessionContext()
    handed_over.from_arrow(ds, "t")
    registered = context(t=ds)
    found = registered.sql(query).to_pydict()
    assert found == handed_over.sql(query).to_pydict() and len(next(iter(found.values()))) > 0


def test_batches_are_the_mapping(ticks):
    ds = aw.open(ticks)
    registered = context(t=ds)
    batches = registered.sql("select price from t").collect()
    mapped = [line.split()[0].split("-") for line in open("/proc/self/maps") if str(ticks) in line]
    spans = [range(int(low, 16), int(high, 16)) for low, high in mapped]
    addresses = [batch.column(0).buffers()[1].address for batch in batches]
    assert addresses and all(any(address in span for span in spans) for address in addresses)


def plan(query, **tables):
    registered = context(**tables)
    return "\n".join(registered.sql(f"explain {query}").to_pydict()["plan"])


def test_conditions_reach_the_data(ticks):
    ds = aw.open(ticks)
    # DataFusion itself compares nothing.
    settled = plan("select price from t where ts >= 99900", t=ds)
    assert "full_filters=[t.ts >= Int64(99900)]" in settled and "FilterExec" not in settled
    assert "FilterExec" in plan("select price from t where upper(symbol) = 'S3'", t=ds)


def test_the_rows_are_those_of_the_dataset(tmp_path):
    path = tmp_path / "live"
    with aw.writer(path, rows(0, 9).schema) as writer:
        writer.append(rows(0, 10))
        writer.commit()
        ds = aw.open(path)
        live = context(t=ds, newer=ds)
        writer.append(rows(10, 10))
        writer.commit()
        live.deregister_table("newer")
        live.register_table("newer", ds.refresh())
        counts = "select (select count(*) from t) as old, (select count(ts) from newer) as new"
        assert live.sql(counts).to_pydict() == {"old": [10], "new": [20]}


def test_slices_columns_and_names(ticks):
    ds = aw.open(ticks)[100:200][["symbol", "ts"]]
    tables = context(t=ds, renamed=ds.rename({"ts": "number"}))
    found = tables.sql("select count(*) n, min(ts) low, max(ts) high from t").to_pydict()
    assert found == {"n": [100], "low": [100], "high": [199]}
    assert tables.sql("select * from renamed limit 1").to_pydict() == {"symbol": [ds[0]["symbol"]], "number": [100]}


def test_partitions_and_files(tmp_path):
    loads = pa.table({"host": ["a", "b", "a"], "load": [1.0, 2.0, 4.0]})
    with aw.writer(tmp_path / "metrics", loads.schema, partition_by="host") as writer:
        writer.append(loads)
        writer.commit()
    for number in range(3):
        aw.write({"n": [number]}, tmp_path / f"part{number}.arrow")
    tables = context(metrics=aw.open(tmp_path / "metrics"), parts=aw.open(str(tmp_path / "part*.arrow")))
    found = tables.sql("select host, sum(load) as s from metrics where host = 'a' group by host").to_pydict()
    assert found == {"host": ["a"], "s": [5.0]}
    assert tables.sql("select n from parts order by n").to_pydict() == {"n": [0, 1, 2]}


def test_rows_that_no_file_has_in_that_order_are_refused(ticks):
    memory = aw.from_arrow(pa.table({"n": [1]}))
    for ds in [memory, aw.open(ticks).shuffle(1)]:
        with pytest.raises(Exception, match=r"from_arrow\(ds, name\)"):
            context(t=ds)


def test_two_columns_of_one_name_are_refused(tmp_path):
    table = pa.table([pa.array([1]), pa.array([2])], names=["n", "n"])
    with pa.OSFile(str(tmp_path / "twice.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(Exception, match="two columns are called 'n'"):
        context(t=aw.open(tmp_path / "twice.arrow"))


def test_damage_is_an_error_of_the_query(tmp_path):
    path = tmp_path / "damaged.arrow"
    aw.write(pa.table({"text": ["a" * 20, "b" * 20]}), path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"b" * 20, b"\xff" * 20))
    registered = context(t=aw.open(path))
    with pytest.raises(Exception, match="UTF-8"):
        registered.sql("select text from t").to_pydict()


def test_many_threads_ask_one_table(ticks):
    shared = context(t=aw.open(ticks))
    found = []

    def ask(low):
        answer = shared.sql(f"select count(*) as n from t where ts >= {low}").to_pydict()
        found.append(answer == {"n": [ROWS - low]})

    threads = [threading.Thread(target=ask, args=(1000 * number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 16


def test_another_version_of_datafusion_is_refused(ticks, monkeypatch):
    monkeypatch.setattr(arrowwood_datafusion, "DATAFUSION_VERSION", 54)
    with pytest.raises(
        ImportError, match=r"for DataFusion 54, and 55\..* is installed; pip install 'datafusion==54\.\*'"
    ):
        context(t=aw.open(ticks))


def test_what_is_no_session_is_refused(ticks):
    with pytest.raises(TypeError):
        aw.open(ticks).__datafusion_table_provider__(object())
