"""Tests Dask data frames of datasets, in one process and with two worker processes."""

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
from arrowwood._engines import dask as _dask
from conftest import error_without_module, write_ipc

ROWS = 100_000
ROWS_PER_VALUE = 7
SEGMENT_ROWS = 1 << 15
TIMESTAMP = pa.timestamp("us", "UTC")


@pytest.fixture(autouse=True)
def single_threaded():
    with dask.config.set(scheduler="synchronous"):
        yield


def write_sorted_table(path, key_type=TIMESTAMP, rows=ROWS, rows_per_value=ROWS_PER_VALUE):
    """Writes a table sorted by `ts`, with `rows_per_value` rows for each value, and returns its open writer."""
    schema = pa.schema(
        [pa.field("ts", key_type, nullable=False), pa.field("price", pa.float64()), pa.field("name", pa.string())]
    )
    writer = aw.writer(path, schema, sorted_by="ts", dictionary=["name"], segment_rows=SEGMENT_ROWS, sync="never")
    append_rows(writer, range(rows), key_type, rows_per_value)
    return writer


def append_rows(writer, rows, key_type=TIMESTAMP, rows_per_value=ROWS_PER_VALUE):
    values = np.array(rows) // rows_per_value
    if pa.types.is_temporal(key_type):
        ts = pa.array(values * 1_000_000).cast(key_type)
    else:
        ts = pa.array(values, key_type)
    names = pa.array(["a", "b"]).take(pa.array(values % 2))
    names = names.dictionary_encode().cast(pa.dictionary(pa.int32(), pa.string()))
    writer.append(pa.table({"ts": ts, "price": values * 1.0, "name": names}))
    writer.commit()


def sum_of_prices(rows):
    return sum(n // ROWS_PER_VALUE for n in range(rows))


def test_frame_of_a_file(stocks_file):
    ds = aw.open(stocks_file)
    frame = aw.dask(stocks_file, npartitions=4)
    assert frame.npartitions == 4
    assert not frame.known_divisions
    assert [isinstance(dtype, pd.ArrowDtype) for dtype in frame.dtypes] == [False, True, True]
    assert frame["price"].sum().compute() == pytest.approx(ds["price"].sum(), rel=1e-12)
    rows = frame.compute().reset_index(drop=True).to_dict("records")
    assert rows == ds.to_pandas(arrow=True).to_dict("records")


def test_frame_of_columns_rows_and_several_files(stocks_file):
    ds = aw.open(stocks_file)
    assert list(aw.dask(ds.select(["price"]), npartitions=2).compute().columns) == ["price"]
    assert aw.dask([stocks_file, stocks_file]).npartitions == 2
    assert len(aw.dask(ds[100:200], npartitions=3)) == 100


def test_keys_of_partitions_become_columns(tmp_path):
    for host in ("a1", "b2"):
        with aw.writer(tmp_path / "t", pa.schema({"n": pa.int64()}), partition={"host": host}) as writer:
            writer.append({"n": list(range(100))})
            writer.commit()
    frame = aw.dask(tmp_path / "t", npartitions=3)
    assert frame[frame["host"] == "b2"]["n"].sum().compute() == sum(range(100))
    assert len(frame) == 200
    assert sorted(frame["host"].unique().compute().astype(str)) == ["a1", "b2"]


@pytest.mark.parametrize("key_type", [TIMESTAMP, pa.timestamp("ns"), pa.int64()], ids=str)
def test_sorted_table_has_divisions(tmp_path, key_type):
    write_sorted_table(tmp_path / "t", key_type).close()
    frame = aw.dask(tmp_path / "t", npartitions=5)
    assert frame.npartitions == 5
    assert frame.known_divisions
    assert frame.index.name == "ts"

    # A division is the first value of its partition, and the last division the last value of all.
    for number in range(5):
        index = frame.partitions[number].compute().index
        assert index[0] == frame.divisions[number]
        if number < 4:
            assert index[-1] < frame.divisions[number + 1]
        else:
            assert index[-1] <= frame.divisions[number + 1]

    value = frame.divisions[3]
    selection = frame.loc[value:value]
    assert selection.optimize().npartitions == 1
    assert len(selection.compute()) == ROWS_PER_VALUE
    assert len(frame) == ROWS
    assert frame["price"].max().compute() == (ROWS - 1) // ROWS_PER_VALUE


def test_rows_of_one_value_are_in_one_partition(tmp_path):
    write_sorted_table(tmp_path / "t", rows=1000, rows_per_value=400).close()
    frame = aw.dask(tmp_path / "t", npartitions=10)
    assert [len(partition) for partition in frame.partitions] == [400, 400, 200]
    write_sorted_table(tmp_path / "one", rows=1000, rows_per_value=1000).close()
    assert aw.dask(tmp_path / "one", npartitions=10).npartitions == 1


def make_frame_sorted_by(path, key_type, keys):
    """Writes a table that is sorted by the column `k`, and returns a frame of it."""
    schema = pa.schema([pa.field("k", key_type, nullable=False), pa.field("n", pa.int64())])
    with aw.writer(path, schema, sorted_by="k") as writer:
        writer.append(pa.table([pa.array(keys, key_type), pa.array(range(len(keys)))], schema=schema))
    return aw.dask(path, npartitions=3)


@pytest.mark.parametrize("key_type", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns")], ids=str)
def test_divisions_of_nanoseconds_are_comparable(tmp_path, key_type):
    """Whole microseconds are values of the standard library and others are NumPy's, which can't be compared."""
    frame = make_frame_sorted_by(tmp_path / "t", key_type, [1, 1000, 1000, 1500, 2000, 2500])
    assert [len(partition) for partition in frame.partitions] == [1, 3, 2]
    assert frame.known_divisions
    assert [division.value for division in frame.divisions] == [1, 1000, 2000, 2500]
    assert frame.loc[frame.divisions[2] :]["n"].compute().tolist() == [4, 5]


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (pa.decimal128(5, 2), [Decimal(9), Decimal(10), Decimal(11)]),
        (pa.time64("us"), [dt.time(1), dt.time(2), dt.time(3)]),
        (pa.binary(), [b"a", b"b", b"c"]),
        (pa.float16(), list(np.arange(3, dtype=np.float16))),
    ],
    ids=lambda value: str(value)[:12],
)
def test_sort_column_without_an_index_type_stays_a_column(tmp_path, key_type, keys):
    """Dask converted such an index to text, in which 10 is before 9, while the divisions kept their type."""
    frame = make_frame_sorted_by(tmp_path / "t", key_type, keys)
    assert frame.npartitions == 3
    assert not frame.known_divisions
    assert list(frame.columns) == ["k", "n"]
    assert frame["k"].compute().tolist() == keys


def test_nested_views_can_be_gathered(tmp_path):
    """pyarrow can't take rows of string views inside nested types, so they are converted to strings with offsets."""
    texts = ["a", "a text longer than twelve bytes"] * 3
    lists = [[text] for text in texts]
    view = pa.string_view()
    columns = {
        "a": pa.array(lists, pa.list_(view)),
        "b": pa.array(lists, pa.large_list(view)),
        "c": pa.array(lists, pa.list_(view, 1)),
        "d": pa.array([{"a": [text]} for text in texts], pa.struct({"a": pa.list_(view)})),
        "e": pa.array([[text.encode()] for text in texts], pa.list_(pa.binary_view())),
    }
    table = pa.table(columns)
    frame = aw.dask(write_ipc(tmp_path / "x.arrow", table), npartitions=2)
    gathered = pa.Table.from_pandas(frame.compute().iloc[[5, 0]], preserve_index=False)
    expected = table.to_pylist()
    assert gathered.to_pylist() == [expected[5], expected[0]]


def test_only_used_columns_are_read(tmp_path, monkeypatch):
    write_sorted_table(tmp_path / "t").close()
    requests = []
    read_part = _dask._part

    def record_columns(split, index_column, data_columns, columns=None):
        requests.append(columns)
        return read_part(split, index_column, data_columns, columns)

    monkeypatch.setattr(_dask, "_part", record_columns)
    frame = aw.dask(tmp_path / "t", npartitions=2)
    assert frame["price"].sum().compute() > 0
    assert requests == [["price"]] * 2
    assert frame[["name"]].compute().shape == (ROWS, 1)
    assert requests[2:] == [["name"]] * 2


def test_frame_keeps_the_rows_that_the_table_had(tmp_path):
    with write_sorted_table(tmp_path / "t") as writer:
        frame = aw.dask(tmp_path / "t", npartitions=4)
        append_rows(writer, range(ROWS, ROWS + 1000))
        assert len(frame) == ROWS
        writer.compact()
        assert len(frame) == ROWS
        assert frame["price"].sum().compute() == sum_of_prices(ROWS)
        assert len(aw.dask(tmp_path / "t")) == ROWS + 1000

        writer.drop_before(SEGMENT_ROWS)
        with pytest.raises(aw.RowOutOfRange, match="are rows 32768 to 101000"):
            frame["price"].sum().compute()


def test_invalid_arguments_are_refused(tmp_path):
    with pytest.raises(aw.InvalidArgument, match="in memory"):
        aw.dask(aw.from_arrow(pa.table({"a": [1]})))
    with pytest.raises(aw.InvalidArgument, match="no rows"):
        aw.dask(write_ipc(tmp_path / "e.arrow", pa.table({"a": pa.array([], pa.int64())})))
    with pytest.raises(aw.InvalidArgument, match="at least 1"):
        aw.dask(write_ipc(tmp_path / "x.arrow", pa.table({"a": [1]})), npartitions=0)
    with pytest.raises(aw.NotFound):
        aw.dask(tmp_path / "nowhere")


def test_missing_dask_says_how_to_install_it():
    message = "ImportError: dask() needs dask; install it: pip install 'arrowwood[dask]'"
    assert error_without_module("dask", "aw.dask('x')") == message


def test_two_worker_processes_share_the_work(tmp_path):
    rows = 1_000_000
    write_sorted_table(tmp_path / "t", rows=rows).close()
    frame = aw.dask(tmp_path / "t", npartitions=16)
    total = frame["price"].sum()
    # Tasks contain ranges of rows, and no rows.
    assert len(pickle.dumps(dict(total.optimize().dask))) < 100_000

    def worker_address(partition):
        # An empty partition is no work.
        return pd.Series([get_worker().address] if len(partition) else [])

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        assert total.compute(scheduler=client) == sum_of_prices(rows)
        addresses = frame.map_partitions(worker_address, meta=("address", object)).compute(scheduler=client)
        assert len(set(addresses)) == 2
        means = frame.groupby("name", observed=True)["price"].mean().compute(scheduler=client)

    groups = aw.open(tmp_path / "t").aggregate("name", price="mean")
    assert means.to_dict() == pytest.approx({row["name"]: row["price"] for row in groups})
