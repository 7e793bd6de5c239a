"""What trains models: loaders with worker processes, tensors in place, caches of Hugging Face datasets."""

import importlib.util
import multiprocessing
import pickle
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # workers find it by its name
    spec.loader.exec_module(module)
    return module


def address(array):
    return array.__array_interface__["data"][0]


def grown(path, rows):
    """How much a process has for itself when it has looked at every value of a column, and the column's sum."""
    training = example("training")
    ds = aw.open(path)
    ds[:1000]["n"].to_numpy().sum()
    before = training.own_memory()
    ds = pickle.loads(pickle.dumps(ds))
    values = ds["n"].to_numpy()
    total = int(values.sum())
    picks = np.random.default_rng(0).integers(0, rows, 1000).tolist()
    assert [row["n"] for row in ds.__getitems__(picks)] == picks
    return total, training.own_memory() - before, values.nbytes


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_share_one_mapping(tmp_path, method):
    rows = 8_000_000
    path = tmp_path / "n.arrow"
    aw.write({"n": np.arange(rows)}, path)
    ds = aw.open(path)
    assert ds.nbytes == 8 * rows and len(pickle.dumps(ds)) < 1000
    with multiprocessing.get_context(method).Pool(2) as pool:
        for total, more, _ in pool.starmap(grown, [(path, rows)] * 2):
            assert total == rows * (rows - 1) // 2
            # A copy of the column would be 64 MB.
            assert more < 8_000_000


def test_a_loaders_protocol(tmp_path):
    training = example("training")
    path = tmp_path / "train.arrow"
    training.make(path)
    ds = aw.open(path)
    x = ds["x"].to_numpy(copy=False)
    for source in [ds, pickle.loads(pickle.dumps(ds))]:
        batches = training.Batches(source)
        assert len(batches) == training.ROWS
        rows = batches.__getitems__([5, 99_999, 5])
        assert [np.array_equal(row[0], x[at]) for row, at in zip(rows, [5, 99_999, 5])] == [True] * 3
        assert np.array_equal(batches[7][0], x[7]) and batches[7][1] == ds[7]["y"]
    total, _ = training.by_hand(ds[:2000], "fork")
    assert total == pytest.approx(ds[:2000]["y"].sum())


@pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "int64", "float16", "float32", "float64"])
def test_dlpack_is_the_file_itself(tmp_path, kind):
    path = tmp_path / "x.arrow"
    values = np.arange(60).astype(kind)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values), 3)
    aw.write(pa.table({"n": pa.array(values[:20]), "lists": lists}), path)
    ds = aw.open(path)
    for name, expected in [("n", values[:20]), ("lists", values.reshape(20, 3))]:
        array = np.from_dlpack(ds[name])
        assert array.dtype == kind and np.array_equal(array, expected) and not array.flags.writeable
        assert address(array) == address(ds[name].to_numpy(copy=False))
        assert address(np.from_dlpack(ds[5:][name])) == address(array[5:])
    assert ds["n"].__dlpack_device__() == (1, 0)
    assert ds.mapped.copied == 0


def test_dlpack_copies_when_asked_or_needed(tmp_path):
    aw.write({"n": np.arange(10)}, tmp_path / "n.arrow", max_rows=4)
    ds = aw.open(tmp_path / "n.arrow")
    assert np.from_dlpack(ds["n"]).tolist() == list(range(10))
    copy = np.from_dlpack(ds[:4]["n"], copy=True)
    copy[0] = 7
    assert ds[0]["n"] == 0 and address(copy) != address(ds[:4]["n"].to_numpy(copy=False))
    with pytest.raises(BufferError, match="3 chunks"):
        np.from_dlpack(ds["n"], copy=False)


def test_dlpack_refuses(tmp_path):
    ds = aw.from_arrow(pa.table({"s": ["a"], "t": pa.array([1], pa.timestamp("us")), "n": [1]}))
    for name in ["s", "t"]:
        with pytest.raises(BufferError, match="no numbers"):
            np.from_dlpack(ds[name])
    # Consumers of DLPack before 1.0 can't be told that memory is read-only.
    with pytest.raises(BufferError):
        ds["n"].__dlpack__()


def test_dlpack_outlives_the_dataset(tmp_path):
    aw.write({"n": np.arange(100_000)}, tmp_path / "n.arrow")
    array = np.from_dlpack(aw.open(tmp_path / "n.arrow")["n"])
    assert array.sum() == 100_000 * 99_999 // 2


def test_hugging_face(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    huggingface = example("huggingface")
    huggingface.datasets.disable_progress_bars()
    ds = huggingface.saved(tmp_path / "saved", 1000)
    assert (len(ds), ds.num_batches, ds.mapped.copied) == (1000, 3, 0)
    assert ds["text"].to_pylist() == [f"sentence {i}" for i in range(1000)]
    before = pa.total_allocated_bytes()
    again = huggingface.handed_back(ds)
    assert again[999] == ds[999] and again.num_rows == 1000
    labels = again.data.table["label"].chunk(0).to_numpy()
    assert address(labels) == address(ds[: len(labels)]["label"].to_numpy(copy=False))
    assert pa.total_allocated_bytes() - before < 4096
    cached = huggingface.cached(tmp_path, 50)
    assert cached[49] == {"n": 49, "text": "sentence 49"} and cached.mapped.copied == 0
