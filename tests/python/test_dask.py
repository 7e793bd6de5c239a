"""Data frames of Dask over datasets, also on two worker processes: only ranges of rows travel."""

import datetime as dt
import pickle
from decimal import Decimal

import dask
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client, LocalCluster, get_worker

import arrowwood as aw
from arrowwood import _dask
from conftest import without, write_ipc

ROWS = 100_000


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def grown(path, kind=pa.timestamp("us", "UTC"), rows=ROWS, each=7):
    schema = pa.schema(
        [pa.field("ts", kind, nullable=False), pa.field("price", pa.float64()), pa.field("name", pa.string())]
    )
    writer = aw.writer(path, schema, sorted_by="ts", dictionary=["name"], segment_rows=1 << 15, sync="never")
    append(writer, range(rows), kind, each)
    return writer


def append(writer, rows, kind=pa.timestamp("us", "UTC"), each=7):
    n = np.array(rows) // each
    ts = pa.array(n * 1_000_000).cast(kind) if pa.types.is_temporal(kind) else pa.array(n, kind)
    names = pa.array(["a", "b"]).take(pa.array(n % 2))
    writer.append(
        pa.table(
            {"ts": ts, "price": n * 1.0, "name": names.dictionary_encode().cast(pa.dictionary(pa.int32(), pa.string()))}
        )
    )
    writer.commit()


def test_a_file(stocks_file):
    ds = aw.open(stocks_file)
    frame = aw.dask(stocks_file, npartitions=4)
    assert frame.npartitions == 4 and not frame.known_divisions
    assert [isinstance(dtype, pd.ArrowDtype) for dtype in frame.dtypes] == [False, True, True]
    assert frame["price"].sum().compute() == pytest.approx(ds["price"].sum(), rel=1e-12)
    got = frame.compute().reset_index(drop=True)
    assert got.to_dict("records") == ds.to_pandas(arrow=True).to_dict("records")
    assert list(aw.dask(ds.select(["price"]), npartitions=2).compute().columns) == ["price"]
    assert aw.dask([stocks_file, stocks_file]).npartitions == 2
    assert len(aw.dask(ds[100:200], npartitions=3)) == 100


def test_partitions_are_columns(tmp_path):
    for host in ("a1", "b2"):
        with aw.writer(tmp_path / "t", pa.schema({"n": pa.int64()}), partition={"host": host}) as writer:
            writer.append({"n": list(range(100))})
            writer.commit()
    frame = aw.dask(tmp_path / "t", npartitions=3)
    assert frame[frame["host"] == "b2"]["n"].sum().compute() == 4950
    assert len(frame) == 200 and sorted(frame["host"].unique().compute().astype(str)) == ["a1", "b2"]


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.int64()], ids=str)
def test_a_sorted_table_has_divisions(tmp_path, kind):
    grown(tmp_path / "t", kind).close()
    frame = aw.dask(tmp_path / "t", npartitions=5)
    assert frame.npartitions == 5 and frame.known_divisions and frame.index.name == "ts"
    for number in range(5):
        part = frame.partitions[number].compute()
        last = (
            part.index[-1] <= frame.divisions[number + 1]
            if number == 4
            else part.index[-1] < frame.divisions[number + 1]
        )
        assert part.index[0] == frame.divisions[number] and last
    value = frame.divisions[3]
    found = frame.loc[value:value]
    assert found.optimize().npartitions == 1 and len(found.compute()) == 7
    assert len(frame) == ROWS and frame["price"].max().compute() == (ROWS - 1) // 7


def test_rows_of_one_value_stay_together(tmp_path):
    grown(tmp_path / "t", rows=1000, each=400).close()
    frame = aw.dask(tmp_path / "t", npartitions=10)
    assert [len(part) for part in frame.partitions] == [400, 400, 200]
    grown(tmp_path / "one", rows=1000, each=1000).close()
    assert aw.dask(tmp_path / "one", npartitions=10).npartitions == 1


def sorted_by(path, kind, values):
    schema = pa.schema([pa.field("k", kind, nullable=False), pa.field("n", pa.int64())])
    with aw.writer(path, schema, sorted_by="k") as writer:
        writer.append(pa.table([pa.array(values, kind), pa.array(range(len(values)))], schema=schema))
    return aw.dask(path, npartitions=3)


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns")], ids=str)
def test_parts_of_whole_microseconds_and_others(tmp_path, kind):
    """Cells are of the standard library where they are whole microseconds and NumPy's where not:
    a TypeError between them."""
    frame = sorted_by(tmp_path / "t", kind, [1, 1000, 1000, 1500, 2000, 2500])
    assert [len(part) for part in frame.partitions] == [1, 3, 2] and frame.known_divisions
    assert [value.value for value in frame.divisions] == [1, 1000, 2000, 2500]
    assert frame.loc[frame.divisions[2] :]["n"].compute().tolist() == [4, 5]


OTHERS = [
    (pa.decimal128(5, 2), [Decimal(9), Decimal(10), Decimal(11)]),
    (pa.time64("us"), [dt.time(1), dt.time(2), dt.time(3)]),
    (pa.binary(), [b"a", b"b", b"c"]),
    (pa.float16(), list(np.arange(3, dtype=np.float16))),
]


@pytest.mark.parametrize(("kind", "values"), OTHERS, ids=lambda case: str(case)[:12])
def test_sorted_by_what_cannot_be_an_index(tmp_path, kind, values):
    """Such columns became an index of text, of which 10 is before 9, and divisions kept their own type."""
    frame = sorted_by(tmp_path / "t", kind, values)
    assert frame.npartitions == 3 and not frame.known_divisions
    assert list(frame.columns) == ["k", "n"] and frame["k"].compute().tolist() == values


def test_views_inside_others(tmp_path):
    """Only columns that were views themselves were made text with offsets; pyarrow could not gather the others."""
    text = pa.string_view()
    kinds = [
        pa.list_(text),
        pa.large_list(text),
        pa.list_(text, 1),
        pa.struct({"a": pa.list_(text)}),
        pa.list_(pa.binary_view()),
    ]
    values = ["a", "a text longer than twelve bytes"] * 3
    columns = [[[value] for value in values]] * 3 + [
        [{"a": [value]} for value in values],
        [[value.encode()] for value in values],
    ]
    table = pa.table([pa.array(*column) for column in zip(columns, kinds)], names=list("abcde"))
    frame = aw.dask(write_ipc(tmp_path / "x.arrow", table), npartitions=2)
    gathered = pa.Table.from_pandas(frame.compute().iloc[[5, 0]], preserve_index=False)
    assert gathered.to_pylist() == [table.to_pylist()[5], table.to_pylist()[0]]


def test_only_columns_that_are_needed_are_asked_for(tmp_path, monkeypatch):
    grown(tmp_path / "t").close()
    asked = []
    real = _dask._part
    monkeypatch.setattr(
        _dask,
        "_part",
        lambda split, by, chosen, columns=None: asked.append(columns) or real(split, by, chosen, columns),
    )
    frame = aw.dask(tmp_path / "t", npartitions=2)
    assert frame["price"].sum().compute() > 0 and asked == [["price"]] * 2
    assert frame[["name"]].compute().shape == (ROWS, 1) and asked[2:] == [["name"]] * 2


def test_a_table_that_grows_is_taken_as_it_is_now(tmp_path):
    with grown(tmp_path / "t") as writer:
        frame = aw.dask(tmp_path / "t", npartitions=4)
        append(writer, range(ROWS, ROWS + 1000))
        assert len(frame) == ROWS
        writer.compact()
        assert len(frame) == ROWS and frame["price"].sum().compute() == sum(n // 7 for n in range(ROWS))
        assert len(aw.dask(tmp_path / "t")) == ROWS + 1000
        writer.drop_before(1 << 15)
        with pytest.raises(aw.RowOutOfRange, match="are rows 32768 to 101000"):
            frame["price"].sum().compute()


def test_what_cannot_be(tmp_path):
    with pytest.raises(aw.InvalidArgument, match="in memory"):
        aw.dask(aw.from_arrow(pa.table({"a": [1]})))
    with pytest.raises(aw.InvalidArgument, match="no rows"):
        aw.dask(write_ipc(tmp_path / "e.arrow", pa.table({"a": pa.array([], pa.int64())})))
    with pytest.raises(aw.InvalidArgument, match="at least 1"):
        aw.dask(write_ipc(tmp_path / "x.arrow", pa.table({"a": [1]})), npartitions=0)
    with pytest.raises(aw.NotFound):
        aw.dask(tmp_path / "nowhere")
    wanted = "ImportError: dask() needs dask; install it: pip install 'arrowwood[dask]'"
    assert without("dask", "aw.dask('x')") == wanted


def test_two_worker_processes(tmp_path):
    """Both work, and what they are sent is as large for many rows as for few."""
    grown(tmp_path / "t", rows=1_000_000).close()
    frame = aw.dask(tmp_path / "t", npartitions=16)
    total = frame["price"].sum()
    assert len(pickle.dumps(dict(total.optimize().dask))) < 100_000
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        assert total.compute(scheduler=client) == sum(n // 7 for n in range(1_000_000))
        who = frame.map_partitions(
            lambda part: pd.Series([get_worker().address] * bool(len(part))), meta=("who", object)
        )
        assert len(set(who.compute(scheduler=client))) == 2
        means = frame.groupby("name", observed=True)["price"].mean().compute(scheduler=client)
    assert means.to_dict() == pytest.approx(
        {row["name"]: row["price"] for row in aw.open(tmp_path / "t").aggregate("name", price="mean")}
    )
