"""Tests the example program examples/in_place.py: reading an Arrow file by hand, and a larger copy of it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import arrowwood as aw

EXAMPLE = Path(__file__).parents[2] / "examples/in_place.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("in_place", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_columns_read_by_hand_equal_the_dataset(example, tmp_path):
    csv = example.stocks_csv()
    assert csv.stat().st_size == 12_245
    ds = example.read(csv)
    assert ds.shape == (560, 3)
    assert [field.type for field in ds.schema] == ["dictionary<int8, utf8>", "date32", "float64"]

    mapping, messages = example.take_apart(ds, tmp_path / "stocks.arrow")
    assert [message["kind"] for message in messages] == ["Schema", "DictionaryBatch", "RecordBatch"]
    assert all(message["body_offset"] % 64 == 0 for message in messages)
    symbols = example.dictionary_by_hand(mapping, messages[1])
    assert symbols == ["MSFT", "AMZN", "IBM", "GOOG", "AAPL"]
    symbol, date, price = example.columns_by_hand(mapping, messages[2], symbols)
    assert symbol.tolist() == ds["symbol"].to_pylist()
    assert date.tolist() == ds["date"].to_pylist()
    assert price.tolist() == ds["price"].to_pylist()

    # The prices are in the mapped file, and not copied.
    start = np.asarray(mapping).__array_interface__["data"][0]
    assert start <= price.__array_interface__["data"][0] < start + len(mapping)
    del price, date
    mapping.close()


def test_many_copies_of_the_rows_are_read_without_copying(example, tmp_path):
    path = tmp_path / "big.arrow"
    aw.write(example.copies(example.read(example.stocks_csv())), path, format="stream")
    ds = aw.open(path)
    assert (len(ds), ds.num_batches) == (5_600_000, 1)
    assert (ds[0]["symbol"], ds[0]["price"], ds[-1]["symbol"], ds[-1]["price"]) == ("MSFT", 39.81, "AAPL", 223.02)
    assert ds[0]["date"].isoformat() == "2000-01-01T00:00:00+00:00"
    assert ds["price"].sum() == pytest.approx(564_112_000.0, rel=1e-12)
    assert ds.footprint.copied == 0
    # `compare` checks that both libraries give the same results; these are their times.
    for _, arrowwood_seconds, other_seconds in example.compare(path):
        assert arrowwood_seconds > 0 and other_seconds > 0
