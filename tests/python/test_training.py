"""Tests training: loaders with worker processes, tensors in place, caches of Hugging Face datasets."""

import importlib.util
import json
import multiprocessing
import pickle
import sys
import types
import warnings
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
        assert array.dtype == kind and np.array_equal(array, expected)
        assert np.array_equal(np.from_dlpack(ds[5:][name]), expected[5:])
        assert np.array_equal(np.from_dlpack(ds[name], copy=False), expected)
    assert ds["n"].__dlpack_device__() == (1, 0)
    assert ds.footprint.copied == 0


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
    # Consumers of DLPack before 1.0 can't be told that memory is read-only. They get a copy, if they may.
    assert "dltensor" in repr(ds["n"].__dlpack__())
    with pytest.raises(BufferError):
        ds["n"].__dlpack__(copy=False)


def test_what_is_written_to_tensors_stays_in_their_pages(tmp_path):
    """PyTorch does not heed that memory is read-only: `+=` ended the process."""
    path, lists, table = tmp_path / "x.arrow", np.arange(300_000.0).reshape(100_000, 3), tmp_path / "table"
    aw.write({"n": np.arange(100_000), "lists": lists}, path)
    before = path.read_bytes()
    ds = aw.open(path)
    for copy in (None, False):
        for name, expected in [("n", np.arange(100_000)), ("lists", lists)]:
            array = np.from_dlpack(ds[name], copy=copy)
            assert is_private(array)
            array += 1
            array[5:7] = 0
            assert np.array_equal(array[7:], expected[7:] + 1)
            assert np.array_equal(ds[name].to_numpy(), expected) and np.array_equal(np.from_dlpack(ds[name]), expected)
    with aw.writer(table, "n: int64") as writer:
        writer.append({"n": np.arange(1000)})
        writer.commit()
        growing = aw.open(table)
        array = np.from_dlpack(growing["n"])
        array += 1
        writer.append({"n": [7]})
        writer.commit()
        assert growing.refresh()["n"].to_pylist() == [*range(1000), 7] and array.tolist() == list(range(1, 1001))
    assert path.read_bytes() == before and ds.footprint.copied == 0


def is_private(array):
    """Returns whether the array lies in a private, writable mapping of a file."""
    start = array.__array_interface__["data"][0]
    with open("/proc/self/maps") as maps:
        for line in maps:
            addresses, rights, *_ = line.split()
            low, high = (int(address, 16) for address in addresses.split("-"))
            if low <= start < high:
                return rights == "rw-p" and line.rstrip().endswith(".arrow")
    return False


def test_a_replaced_file_is_no_source_of_tensors(tmp_path):
    path = tmp_path / "x.arrow"
    aw.write({"n": np.arange(1000)}, path)
    ds = aw.open(path)
    aw.write({"n": np.zeros(1000, "int64")}, path)
    assert np.array_equal(np.from_dlpack(ds["n"]), np.arange(1000))
    assert "dltensor" in repr(ds["n"].__dlpack__())


def test_jax_takes_columns(tmp_path):
    jax = pytest.importorskip("jax")
    aw.write({"x": np.arange(1000, dtype="float32"), "n": np.arange(1000, dtype="int32")}, tmp_path / "x.arrow")
    ds = aw.open(tmp_path / "x.arrow")
    for name in ("x", "n"):
        assert jax.dlpack.from_dlpack(ds[name]).tolist() == ds[name].to_pylist()
    assert jax.numpy.asarray(ds["x"]).sum() == 499_500


def test_torch_writes_to_pages_of_its_own(tmp_path):
    torch = pytest.importorskip("torch")
    aw.write({"x": np.arange(1000.0)}, tmp_path / "x.arrow")
    ds = aw.open(tmp_path / "x.arrow")
    for tensor in (torch.as_tensor(ds["x"]), torch.from_dlpack(ds["x"])):
        tensor += 1
        assert tensor.tolist() == list(range(1, 1001)) and ds["x"].to_pylist() == list(range(1000))


def test_dlpack_outlives_the_dataset(tmp_path):
    aw.write({"n": np.arange(100_000)}, tmp_path / "n.arrow")
    array = np.from_dlpack(aw.open(tmp_path / "n.arrow")["n"])
    assert array.sum() == 100_000 * 99_999 // 2


def test_hugging_face(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    huggingface = example("huggingface")
    huggingface.datasets.disable_progress_bars()
    ds = huggingface.saved(tmp_path / "saved", 1000)
    assert (len(ds), ds.num_batches, ds.footprint.copied) == (1000, 3, 0)
    assert ds["text"].to_pylist() == [f"sentence {i}" for i in range(1000)]
    before = pa.total_allocated_bytes()
    again = huggingface.handed_back(ds)
    assert again[999] == ds[999] and again.num_rows == 1000
    labels = again.data.table["label"].chunk(0).to_numpy()
    assert address(labels) == address(ds[: len(labels)]["label"].to_numpy(copy=False))
    assert pa.total_allocated_bytes() - before < 4096
    cached = huggingface.cached(tmp_path, 50)
    assert cached[49] == {"n": 49, "text": "sentence 49"} and cached.footprint.copied == 0


def test_hugging_faces_datasets_by_object_and_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    datasets = example("huggingface").datasets
    datasets.disable_progress_bars()
    theirs = datasets.Dataset.from_dict({"n": list(range(100)), "text": [f"t{i}" for i in range(100)]})
    assert aw.from_arrow(theirs).to_pylist() == theirs.to_list()
    mixed_up = theirs.shuffle(seed=3).select(range(50))
    assert aw.from_arrow(mixed_up)["n"].to_pylist() == mixed_up["n"][:]
    aw.write(mixed_up, tmp_path / "m.arrow")
    assert aw.open(tmp_path / "m.arrow").to_pylist() == mixed_up.to_list()
    # Their tables are streams.
    aw.write(theirs, tmp_path / "s.arrow", format="stream")
    assert datasets.Dataset.from_file(str(tmp_path / "s.arrow")).to_list() == theirs.to_list()
    splits = theirs.train_test_split(0.2)
    with pytest.raises(aw.InvalidArgument, match="the splits 'train', 'test': choose one"):
        aw.from_arrow(splits)
    splits.save_to_disk(tmp_path / "splits")
    with pytest.raises(aw.NotFound, match="subdirectories .*test, train"):
        aw.open(tmp_path / "splits")
    assert len(aw.open(tmp_path / "splits" / "train")) == 80
    saved = datasets.load_from_disk(str(tmp_path / "splits"))["train"]
    ours = aw.from_arrow(saved)
    assert address(ours["n"].to_numpy()) == address(saved.data.table["n"].chunk(0).to_numpy())


# ---- batches as arrays ----

ROWS = 1000
IMAGES = np.random.default_rng(0).integers(0, 255, (ROWS, 4, 5, 3), dtype="uint8")


def mixed(path, **options):
    """A file with a column of each kind, from whose number `y` all others follow."""
    y = np.arange(ROWS)
    columns = {
        "x": IMAGES,
        "v": np.arange(3 * ROWS, dtype="f4").reshape(ROWS, 3),
        "y": y,
        "day": y.astype("M8[D]"),
        "odd": y % 2 == 1,
        "text": [f"row {i}" for i in y],
        "pair": [[int(i), int(i) + 1] for i in y],
        "tokens": [[int(i)] * (int(i) % 4) for i in y],
    }
    aw.write(columns, path, **options)
    return aw.open(path)


def check(batch):
    y = batch["y"]
    assert np.array_equal(batch["x"], IMAGES[y]) and batch["x"].dtype == "uint8"
    assert np.array_equal(batch["v"], (3 * y[:, None] + np.arange(3)).astype("f4")) and batch["v"].dtype == "f4"
    assert np.array_equal(batch["day"], y.astype("M8[D]")) and np.array_equal(batch["odd"], y % 2 == 1)
    assert batch["text"].tolist() == [f"row {i}" for i in y]
    assert np.array_equal(batch["pair"], np.stack([y, y + 1], 1))
    assert [tokens.tolist() for tokens in batch["tokens"]] == [[i] * (i % 4) for i in y]
    for array in batch.values():
        assert array.flags.writeable


@pytest.mark.parametrize(
    "options", [{}, {"max_rows": 37}, {"compression": "zstd"}, {"max_rows": 100, "compression": "lz4"}]
)
@pytest.mark.parametrize("order", [{}, {"seed": 3}, {"seed": 3, "block": 10}])
def test_an_epoch_has_every_row_once(tmp_path, options, order):
    ds = mixed(tmp_path / "m.arrow", **options)
    for source in [ds, ds.shuffle(1), ds[::-1], ds.shuffle(1)[100:700]]:
        seen = []
        for batch in source.loader(64, **order):
            check(batch)
            seen += batch["y"].tolist()
        assert sorted(seen) == sorted(source["y"].to_pylist())
        assert (seen == source["y"].to_pylist()) == (not order)
    assert aw.from_arrow(ds)["y"].to_pylist() == list(range(ROWS))
    for batch in aw.from_arrow(ds).loader(300, **order):
        check(batch)


def numbers(loader):
    return [batch["y"].tolist() for batch in loader]


@pytest.mark.parametrize("order", [{}, {"seed": 7}, {"seed": 7, "block": 16}])
def test_the_state_goes_on_in_the_middle_of_an_epoch(tmp_path, order):
    import json

    ds = mixed(tmp_path / "m.arrow")
    whole = ds.loader(64, columns=["y"], **order)
    first, second = numbers(whole), numbers(whole)
    assert (first == second) == (not order) and whole.epoch == 2
    for stop in [0, 1, 5, 15, 16]:
        loader = ds.loader(64, columns=["y"], **order)
        begun = iter(loader)
        before = [next(begun)["y"].tolist() for _ in range(stop)]
        state = json.loads(json.dumps(loader.state_dict()))
        resumed = aw.open(tmp_path / "m.arrow").loader(64, columns=["y"], **order)
        resumed.load_state_dict(state)
        assert before + numbers(resumed) == first
        assert numbers(resumed) == second
        # Who leaves the loop and begins another has all of the epoch.
        assert numbers(loader) == first and numbers(loader) == second
    assert numbers(ds.loader(64, columns=["y"], start=3, **order)) == first[3:]


def follow_epochs(loader, asked, told):
    """Runs a persistent worker, which sends the first batch of the epoch for each request."""
    while asked.get():
        told.put((loader.epoch, loader[0]["y"].tolist()))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_that_are_kept_follow_set_epoch(tmp_path, start):
    aw.write({"y": range(1000)}, tmp_path / "f.arrow")
    loader = aw.open(tmp_path / "f.arrow").loader(100, seed=1)
    context = multiprocessing.get_context(start)
    asked, told = context.Queue(), context.Queue()
    worker = context.Process(target=follow_epochs, args=(loader, asked, told), daemon=True)
    worker.start()
    seen = []
    for epoch in [0, 3, 1]:
        loader.set_epoch(epoch)
        asked.put(True)
        seen.append(told.get(timeout=60))
        assert seen[-1] == (epoch, loader[0]["y"].tolist())
    asked.put(False)
    worker.join(60)
    assert worker.exitcode == 0 and len({tuple(rows) for _, rows in seen}) == 3
    # A copy goes on by itself.
    copy = pickle.loads(pickle.dumps(loader))
    loader.set_epoch(7)
    assert (copy.epoch, loader.epoch) == (1, 7)


def test_an_epoch_that_comes_again_is_warned_of(tmp_path):
    aw.write({"y": range(1000)}, tmp_path / "f.arrow")
    ds = aw.open(tmp_path / "f.arrow")
    loader = ds.loader(100, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = [loader[number]["y"].tolist() for number in range(10)]
        loader.set_epoch(1)
        assert [loader[number]["y"].tolist() for number in range(10)] != first
        # Some batches twice are no epoch, and without a seed there is but one order.
        loader.set_epoch(2)
        for number in [0, 0, *range(10), 5]:
            loader[number]
        loader.set_epoch(2)
        in_order = ds.loader(100)
        for number in [*range(10), *range(10)]:
            in_order[number]
    with pytest.warns(UserWarning, match="epoch 2 are read again in the same order; call set_epoch"):
        for number in [*range(10), 0, 1]:
            loader[number]


@pytest.mark.parametrize("order", [{}, {"seed": 7}])
def test_each_iteration_is_an_epoch_of_its_own(tmp_path, order):
    ds = mixed(tmp_path / "m.arrow")
    whole = ds.loader(64, columns=["y"], **order)
    epochs = [numbers(whole) for _ in range(len(whole) + 1)]
    # A look at a batch costs none.
    loader = ds.loader(64, columns=["y"], **order)
    assert next(iter(loader))["y"].tolist() == epochs[0][0] == next(iter(loader))["y"].tolist()
    assert numbers(loader) == epochs[0] and loader.epoch == 1
    # A loop in a loop: the inner ones are epochs, one after the other.
    loader, seen = ds.loader(64, columns=["y"], **order), []
    for number, batch in enumerate(loader):
        assert batch["y"].tolist() == epochs[0][number]
        seen.append(numbers(loader))
    assert seen == epochs[: len(whole)] and loader.epoch == len(whole)
    for one, other in zip(loader, loader):
        assert one["y"].tolist() == other["y"].tolist()
    # Iterations begin at the loaded state until one of them is complete.
    loader.load_state_dict({**ds.loader(64, columns=["y"], start=3, **order).state_dict(), "epoch": 0})
    assert next(iter(loader))["y"].tolist() == epochs[0][3]
    assert numbers(loader) == epochs[0][3:] and numbers(loader) == epochs[1]


def test_a_state_of_another_loader_is_refused(tmp_path):
    ds = mixed(tmp_path / "m.arrow")
    state = ds.loader(64, seed=1).state_dict()
    for other in [
        ds.loader(32, seed=1),
        ds.loader(64, seed=2),
        ds[:999].loader(64, seed=1),
        ds.loader(64, seed=1, world=2),
    ]:
        with pytest.raises(aw.InvalidArgument, match="load_state_dict: the state has"):
            other.load_state_dict(state)
    for broken in [{}, None, {**state, "batch": 17}, {**state, "epoch": "x"}, {**state, "batch": -1}]:
        with pytest.raises(aw.InvalidArgument, match="load_state_dict"):
            ds.loader(64, seed=1).load_state_dict(broken)


def test_a_state_of_other_rows_is_refused(tmp_path):
    ds = mixed(tmp_path / "m.arrow")
    (train, test), (other_train, _) = ds.train_test_split(0.5, seed=0), ds.train_test_split(0.5, seed=1)
    state = train.loader(64, seed=1).state_dict()
    aw.open(tmp_path / "m.arrow").train_test_split(0.5, seed=0)[0].loader(64, seed=1).load_state_dict(state)
    for rows in [test, other_train, train.shuffle(3), ds[:500]]:
        with pytest.raises(aw.InvalidArgument, match="load_state_dict: the state "):
            rows.loader(64, seed=1).load_state_dict(state)
    with pytest.raises(aw.InvalidArgument, match="other rows"):
        ds[100:200].loader(64).load_state_dict(ds[200:300].loader(64).state_dict())


def test_a_state_of_other_values_is_refused_wherever_they_are(tmp_path):
    labels, images = np.arange(4000) % 8, np.arange(24_000).reshape(4000, 3, 2)
    aw.write({"label": labels, "n": np.arange(4000), "image": images}, tmp_path / "a.arrow")
    aw.write({"label": labels, "n": np.arange(4000) + 1, "image": images}, tmp_path / "b.arrow")
    ds, other_file = aw.open(tmp_path / "a.arrow"), aw.open(tmp_path / "b.arrow")
    kept = ds.filter(aw.col("label") == 3)
    loader = kept.loader(64, seed=7)
    next(iter(loader))
    state = json.loads(json.dumps(loader.state_dict()))
    for rows in [ds.filter(aw.col("label") == 4), other_file.filter(aw.col("label") == 3), kept.shuffle(1), kept[::-1]]:
        with pytest.raises(aw.InvalidArgument, match="load_state_dict: the state is of other rows"):
            rows.loader(64, seed=7).load_state_dict(state)
    with pytest.raises(aw.InvalidArgument, match="load_state_dict: the state is of other rows"):
        other_file.loader(64).load_state_dict(ds.loader(64).state_dict())
    # The same rows, made anew, moved, or with fewer columns read.
    (tmp_path / "a.arrow").rename(tmp_path / "moved.arrow")
    moved = aw.open(tmp_path / "moved.arrow")
    moved.filter(aw.col("label") == 3).loader(64, seed=7).load_state_dict(state)
    whole = ds.loader(64, seed=7, columns=["n"])
    moved.loader(64, seed=7).load_state_dict(whole.state_dict())
    sent = pickle.loads(pickle.dumps(moved.loader(64, seed=7, columns=["n"])))
    sent.load_state_dict(whole.state_dict())
    assert sent.state_dict() == whole.state_dict()


def test_a_state_is_of_a_tables_rows_after_it_was_compacted_and_has_grown(tmp_path):
    schema = pa.schema([("n", pa.int64()), ("kind", pa.dictionary(pa.int8(), pa.string()))])
    with aw.writer(tmp_path / "t", schema) as writer:
        for at in range(5):
            writer.append({"n": range(at * 100, at * 100 + 100), "kind": ["a", "b", None, "c"] * 25})
            writer.commit()
        state = aw.open(tmp_path / "t").loader(64, seed=1).state_dict()
        writer.append({"n": range(500, 600), "kind": ["d"] * 100})
        writer.commit()
    aw.open(tmp_path / "t")[:500].loader(64, seed=1).load_state_dict(state)
    aw.compact(tmp_path / "t")
    aw.open(tmp_path / "t")[:500].loader(64, seed=1).load_state_dict(state)
    with pytest.raises(aw.InvalidArgument, match="other rows"):
        aw.open(tmp_path / "t")[100:600].loader(64, seed=1).load_state_dict(state)


@pytest.mark.parametrize(
    "as_rows", [lambda w, image: w.append_row(image=image, y=1), lambda w, image: w.append([{"image": image, "y": 1}])]
)
def test_rows_of_tensors_are_arrays_of_the_shape_or_flat(tmp_path, as_rows):
    images = np.arange(24, dtype="float32").reshape(4, 2, 3)
    schema = pa.schema([("image", pa.fixed_shape_tensor(pa.float32(), (2, 3))), ("y", pa.int64())])
    with aw.writer(tmp_path / "t", schema) as writer:
        as_rows(writer, images[0])
        as_rows(writer, images[1].ravel())
        as_rows(writer, images[2].T.copy().T)
        writer.append({"image": images[3:], "y": [1]})
        writer.append({"image": images.reshape(4, 6), "y": [1] * 4})
        for wrong in (images[0].T, images[0][:1], images[0].tolist()):
            with pytest.raises(
                aw.InvalidArgument, match=r"write a NumPy array of shape \[2, 3\], or its 6 items in a row"
            ):
                as_rows(writer, wrong)
        with pytest.raises(aw.InvalidArgument, match=r"expected rows of shape \[2, 3\], got \[3, 2\]"):
            writer.append({"image": images.reshape(4, 3, 2), "y": [1] * 4})
        with pytest.raises(aw.InvalidArgument, match=r"expected rows of shape \[2, 3\], got \[5\]"):
            writer.append({"image": images.ravel()[:20].reshape(4, 5), "y": [1] * 4})
        writer.commit()
    ds = aw.open(tmp_path / "t")
    np.testing.assert_array_equal(ds["image"].to_numpy(), np.concatenate([images, images]))
    assert ds.dtypes == ["fixed_shape_tensor<float32>[2, 3]", "int64"]
    assert ds["image"].dtype == ds.dtypes[0] and ds["y"].dtype == ds.dtypes[1]


def test_dropping_no_nulls_copies_nothing(tmp_path):
    table = pa.table({"x": range(100_000), "y": [None, *range(99_999)]})
    aw.write(table, tmp_path / "a.arrow")
    ds = aw.open(tmp_path / "a.arrow")
    assert len(pickle.dumps(ds.drop_nulls("x"))) < 1500 and ds.drop_nulls("x").to_arrow() == table
    assert ds.drop_nulls().to_arrow() == table[1:] and len(ds.drop_nulls("y", "x")) == 99_999
    with pytest.raises(aw.ColumnNotFound):
        ds.drop_nulls("z")


def test_a_device_is_refused_before_a_row_is_read(tmp_path, monkeypatch):
    ds = mixed(tmp_path / "m.arrow")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="device='torch' needs PyTorch; install it: pip install torch"):
        ds.loader(4, device="torch")
    known = types.SimpleNamespace(device=lambda name: {"cpu": 0}[name] if name == "cpu" else _no_device(name))
    monkeypatch.setitem(sys.modules, "torch", known)
    assert ds.loader(4, device="torch").device == "torch" and ds.loader(4, device="cpu").device == "cpu"
    with pytest.raises(aw.InvalidArgument, match="a device of PyTorch, such as 'cpu' or 'cuda:0' as device, got 'gpu'"):
        ds.loader(4, device="gpu")


def _no_device(name):
    raise RuntimeError(f"Expected one of cpu, cuda device type at start of device string: {name}")


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_ranks_share_the_batches_that_one_process_would_get(tmp_path, world):
    ds = mixed(tmp_path / "m.arrow")
    alone = numbers(ds.loader(64, seed=5, columns=["y"]))
    ranks = [ds.loader(64, seed=5, columns=["y"], rank=rank, world=world) for rank in range(world)]
    shares = [numbers(loader) for loader in ranks]
    assert [len(loader) for loader in ranks] == [len(share) for share in shares]
    assert sorted(sum(shares, [])) == sorted(alone)
    assert shares[0][0] == alone[0]
    equal = [ds.loader(64, seed=5, columns=["y"], rank=rank, world=world, drop_last=True) for rank in range(world)]
    assert {len(loader) for loader in equal} == {15 // world}
    assert all(len(batch) == 64 for loader in equal for batch in numbers(loader))


def test_batches_have_numbers(tmp_path):
    ds = mixed(tmp_path / "m.arrow")
    loader = pickle.loads(pickle.dumps(ds.loader(64, seed=5)))
    assert len(pickle.dumps(loader)) < 1500
    expected = numbers(ds.loader(64, seed=5))
    assert [loader[at]["y"].tolist() for at in range(len(loader))] == expected
    assert loader[-1]["y"].tolist() == expected[-1] and len(expected[-1]) == 1000 % 64
    with pytest.raises(IndexError):
        loader[16]
    loader.set_epoch(1)
    assert loader[0]["y"].tolist() != expected[0]
    check(loader[3])


def read_batch(loader, at):
    check(loader[at])
    return loader[at]["y"].tolist()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_batches_by_number(tmp_path, method):
    loader = mixed(tmp_path / "m.arrow").loader(64, seed=5)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.starmap(read_batch, [(loader, at) for at in range(len(loader))]) == numbers(loader)


def test_a_split_shares_no_row_and_travels_as_numbers(tmp_path):
    ds = mixed(tmp_path / "m.arrow")
    train, test = ds.train_test_split(0.1, seed=1)
    assert (len(train), len(test)) == (900, 100)
    assert sorted(train["y"].to_pylist() + test["y"].to_pylist()) == list(range(ROWS))
    assert ds.train_test_split(0.1, seed=1)[1]["y"].to_pylist() == test["y"].to_pylist()
    sent = pickle.dumps(train)
    assert len(sent) < 8 * 900 + 1000
    again = pickle.loads(sent)
    assert again["text"].to_pylist() == train["text"].to_pylist()
    for batch in again.loader(64, seed=2):
        check(batch)
    assert [len(part) for part in ds.train_test_split(7)] == [993, 7]
    assert [len(part) for part in ds.train_test_split()] == [750, 250]
    for wrong in [0.0, 1.5, -1, 1001, True, "x"]:
        with pytest.raises(aw.InvalidArgument, match="train_test_split"):
            ds.train_test_split(wrong)


def test_a_slice_of_a_shuffle_gathers_its_rows_only(tmp_path):
    rows = 200_000
    aw.write({"x": np.zeros((rows, 100), "u1"), "n": np.arange(rows)}, tmp_path / "x.arrow")
    ds = aw.open(tmp_path / "x.arrow")
    order = ds.shuffle(3)["n"].to_numpy()
    training = example("training")
    before = training.own_memory()
    held = [ds.shuffle(3)[at : at + 10] for at in range(0, rows, 2_000)]
    assert all(part["n"].to_pylist() == order[at : at + 10].tolist() for part, at in zip(held, range(0, rows, 2_000)))
    assert all(part["x"].to_numpy().sum() == 0 for part in held)
    # Each of 100 slices would have gathered 65,536 rows of 100 bytes; their orders are 80 MB.
    assert training.own_memory() - before < 200_000_000
    nested = ds.shuffle(3)[1000:5000][10:20]
    assert nested["n"].to_pylist() == order[1010:1020].tolist() and nested[3]["n"] == order[1013]
    assert nested[2:]["n"].to_pylist() == order[1012:1020].tolist()


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_nulls_are_nan_or_refused(tmp_path, shape):
    x = pa.array([1.5, None, 2.5])
    y = pa.array([1, None, 3])
    aw.write(pa.table({"x": x, "y": y, "i": [0, 1, 2]}), tmp_path / "n.arrow")
    ds = aw.open(tmp_path / "n.arrow")
    (batch,) = ds.loader(3, columns=["x", "i"])
    assert np.array_equal(batch["x"], [1.5, np.nan, 2.5], equal_nan=True) and batch["i"].tolist() == [0, 1, 2]
    with pytest.raises(aw.InvalidData, match="column 'y': nulls have no place in an array of int64; .*drop_nulls"):
        next(iter(ds.loader(3, columns=["y"])))
    (batch,) = ds.drop_nulls("y").loader(3, columns=["y"])
    assert batch["y"].tolist() == [1, 3]


def test_nulls_in_vectors_are_refused_without_a_hint_that_does_not_help(tmp_path):
    aw.write(pa.table({"v": pa.array([[1.0, None], [2.0, 3.0]], pa.list_(pa.float32(), 2))}), tmp_path / "v.arrow")
    with pytest.raises(aw.InvalidData, match="column 'v': nulls have no place") as refused:
        next(iter(aw.open(tmp_path / "v.arrow").loader(2)))
    assert "drop_nulls" not in str(refused.value)


def test_one_column_is_named_by_a_string_and_batches_by_numbers(tmp_path):
    loader = mixed(tmp_path / "m.arrow").loader(64, columns="y")
    assert list(loader[0]) == ["y"] and np.array_equal(loader[np.int64(-1)]["y"], loader[len(loader) - 1]["y"])
    for wrong in ["y", slice(0, 2), 1.0]:
        with pytest.raises(TypeError, match="integer"):
            loader[wrong]
    with pytest.raises(aw.InvalidArgument, match="set_epoch"):
        loader.set_epoch(-1)


def test_a_loader_says_what_it_expects(tmp_path):
    ds = mixed(tmp_path / "m.arrow")
    refused = [
        {"batch_size": 0},
        {"start": 17},
        {"start": -1},
        {"rank": 1},
        {"world": 0},
        {"block": 5},
        {"seed": 1, "block": 0},
    ]
    for wrong in [*refused, {"seed": -1}, {"columns": []}]:
        with pytest.raises(aw.InvalidArgument, match="loader: "):
            ds.loader(**{"batch_size": 64, **wrong})
    with pytest.raises(aw.ColumnNotFound):
        ds.loader(64, columns=["z"])
    assert list(ds[:0].loader(64, seed=1)) == [] and len(ds[:0].loader(64)) == 0


def test_a_growing_table_is_read_as_it_was(tmp_path):
    schema = {"x": np.zeros((0, 2, 2), "f4"), "y": np.zeros(0, "i8")}
    aw.write({"x": np.zeros((5, 2, 2), "f4"), "y": np.arange(5)}, tmp_path / "first.arrow")
    with aw.writer(tmp_path / "t", aw.open(tmp_path / "first.arrow").schema) as writer:
        for start in range(0, 100, 10):
            y = np.arange(start, start + 10)
            writer.append({"x": np.repeat(y, 4).reshape(10, 2, 2).astype("f4"), "y": y})
        writer.commit()
        ds = aw.open(tmp_path / "t")
        loader = ds.loader(16, seed=1)
        writer.append({**schema, "x": np.zeros((1, 2, 2), "f4"), "y": np.array([100])})
        writer.commit()
        batches = list(loader)
        assert sorted(sum((batch["y"].tolist() for batch in batches), [])) == list(range(100))
        assert all(np.array_equal(batch["x"][:, 1, 1], batch["y"]) for batch in batches)
        with pytest.raises(aw.InvalidArgument, match=r"column 'x': expected rows of shape \[2, 2\], got \[4, 1\]"):
            writer.append({"x": np.zeros((1, 4, 1), "f4"), "y": [101]})


def test_tensors_are_those_of_arrow(tmp_path):
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(IMAGES)
    aw.write({"x": IMAGES}, tmp_path / "ours.arrow")
    theirs = pa.ipc.open_file(tmp_path / "ours.arrow").read_all()["x"]
    assert theirs.type == tensor.type
    assert np.array_equal(theirs.combine_chunks().to_numpy_ndarray(), IMAGES)
    with (
        pa.OSFile(str(tmp_path / "theirs.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, pa.schema({"x": tensor.type})) as out,
    ):
        out.write_batch(pa.record_batch({"x": tensor}))
    ds = aw.open(tmp_path / "theirs.arrow")
    x = ds["x"].to_numpy(copy=False)
    assert np.array_equal(x, IMAGES) and x.shape == IMAGES.shape
    assert np.array_equal(aw.from_arrow(pa.table({"x": tensor}))["x"].to_numpy(), IMAGES)
    assert ds[7]["x"] == IMAGES[7].ravel().tolist() == theirs[7].as_py()


def test_tensors_with_another_order_of_dimensions(tmp_path):
    # The example of the specification: shape is that in memory, and dimension i shown is dimension permutation[i]
    # there. (pyarrow 26 shows it the other way round, which is the same for two dimensions that are swapped.)
    kind = pa.fixed_shape_tensor(pa.int32(), [2, 3, 4], permutation=[2, 0, 1])
    flat = np.arange(5 * 24, dtype="i4")
    storage = pa.FixedSizeListArray.from_arrays(pa.array(flat), 24)
    tensor = pa.ExtensionArray.from_storage(kind, storage)
    aw.write(pa.table({"x": tensor}), tmp_path / "p.arrow")
    expected = flat.reshape(5, 2, 3, 4).transpose(0, 3, 1, 2)
    ds = aw.open(tmp_path / "p.arrow")
    assert expected.shape == (5, 4, 2, 3) and np.array_equal(ds["x"].to_numpy(), expected)
    (batch,) = ds.loader(5)
    assert np.array_equal(batch["x"], expected)
    swapped = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2, 3, 4], permutation=[0, 2, 1]), storage
    )
    assert np.array_equal(aw.from_arrow(pa.table({"x": swapped}))["x"].to_numpy(), swapped.to_numpy_ndarray())


@pytest.mark.parametrize(
    "metadata",
    ["", "{}", '{"shape": [2, 2]}', '{"shape": "x"}', '{"shape": [3, -2]}', "[", '{"shape": [6, 4611686018427387904]}'],
)
def test_tensors_with_wrong_metadata_are_lists(metadata):
    field = pa.field("x", pa.list_(pa.int8(), 6))
    field = field.with_metadata(
        {"ARROW:extension:name": "arrow.fixed_shape_tensor", "ARROW:extension:metadata": metadata}
    )
    storage = pa.FixedSizeListArray.from_arrays(pa.array(range(12), pa.int8()), 6)

    class Columns:
        def __arrow_c_schema__(self):
            return pa.schema([field]).__arrow_c_schema__()

    # pyarrow refuses such metadata, so the field is exported without it.
    path = aw.Buffer()
    with aw.stream_writer(path, Columns()) as writer:
        writer.write({"x": [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]})
    ds = aw.open(path)
    assert ds["x"].to_numpy().shape == (2, 6)
    assert storage.to_pylist() == ds["x"].to_pylist()


def test_batches_as_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    ds = mixed(tmp_path / "m.arrow")
    loader = ds.loader(64, seed=5, device="torch", columns=["x", "y", "odd", "text"])
    for tensors, arrays in zip(loader, ds.loader(64, seed=5), strict=True):
        assert torch.equal(tensors["x"], torch.from_numpy(arrays["x"])) and tensors["y"].dtype == torch.int64
        assert (
            torch.equal(tensors["odd"], torch.from_numpy(arrays["odd"])) and tensors["text"] == arrays["text"].tolist()
        )
    plain = ds.loader(64, seed=5, columns=["x", "y"])
    data = torch.utils.data.DataLoader(plain, batch_size=None, num_workers=2)
    assert [batch["y"].tolist() for batch in data] == numbers(plain)
