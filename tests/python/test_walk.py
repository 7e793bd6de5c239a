"""The article's walk, step by step, with what comes out of it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import arrowwood as aw

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def walk():
    spec = importlib.util.spec_from_file_location("in_place", ROOT / "examples/in_place.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_walk(walk, tmp_path):
    csv = walk.stocks_csv()
    assert csv.stat().st_size == 12_245
    ds = walk.read(csv)
    assert ds.shape == (560, 3)
    assert [f.type for f in ds.schema] == ["dictionary<int8, utf8>", "date32", "float64"]

    mapping, messages = walk.take_apart(ds, tmp_path / "stocks.arrow")
    assert [m["kind"] for m in messages] == ["Schema", "DictionaryBatch", "RecordBatch"]
    assert all(m["body_offset"] % 64 == 0 for m in messages)
    symbols = walk.dictionary_by_hand(mapping, messages[1])
    assert symbols == ["MSFT", "AMZN", "IBM", "GOOG", "AAPL"]
    symbol, date, price = walk.columns_by_hand(mapping, messages[2], symbols)
    assert symbol.tolist() == ds["symbol"].to_pylist()
    assert date.tolist() == ds["date"].to_pylist()
    assert price.tolist() == ds["price"].to_pylist()
    start = np.asarray(mapping).__array_interface__["data"][0]
    assert start <= price.__array_interface__["data"][0] < start + len(mapping)
    del price, date
    mapping.close()


def test_the_copies(walk, tmp_path):
    path = tmp_path / "big.arrow"
    aw.write(walk.copies(walk.read(walk.stocks_csv())), path, format="stream")
    ds = aw.open(path)
    assert (len(ds), ds.num_batches) == (5_600_000, 1)
    assert (ds[0]["symbol"], ds[0]["price"], ds[-1]["symbol"], ds[-1]["price"]) == ("MSFT", 39.81, "AAPL", 223.02)
    assert ds[0]["date"].isoformat() == "2000-01-01T00:00:00+00:00"
    assert ds["price"].sum() == pytest.approx(564_112_000.0, rel=1e-12)
    assert ds.footprint.copied == 0
    for _, ours, theirs in walk.compare(path):  # the answers are compared in there
        assert ours > 0 and theirs > 0
