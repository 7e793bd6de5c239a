"""Tests datasets in training: worker processes, DLPack, Hugging Face datasets, loaders, splits and tensors."""

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
from waits import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    # Worker processes unpickle functions of the module by its name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def address_of(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def private_bytes() -> int:
    """Returns the memory of this process without pages of files, which processes share."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


# ---- Worker processes ----


def read_column_in_worker(path, rows):
    """Reads every value of a column, and returns its sum and how much private memory that took."""
    ds = aw.open(path)
    # NumPy allocates memory at its first use, which is not counted.
    ds[:1000]["n"].to_numpy().sum()
    before = private_bytes()
    ds = pickle.loads(pickle.dumps(ds))
    total = int(ds["n"].to_numpy().sum())
    indices = np.random.default_rng(0).integers(0, rows, 1000).tolist()
    assert [row["n"] for row in ds.__getitems__(indices)] == indices
    return total, private_bytes() - before


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_share_the_pages_of_a_file(tmp_path, method):
    rows = 8_000_000
    path = tmp_path / "n.arrow"
    aw.write({"n": np.arange(rows)}, path)
    ds = aw.open(path)
    assert ds.nbytes == 8 * rows
    assert len(pickle.dumps(ds)) < 1000
    with multiprocessing.get_context(method).Pool(2) as pool:
        for total, used_bytes in pool.starmap(read_column_in_worker, [(path, rows)] * 2):
            assert total == rows * (rows - 1) // 2
            # A copy of the column would be 64 MB.
            assert used_bytes < 8_000_000


def test_dataset_has_the_protocol_of_a_data_loader(tmp_path):
    training = load_example("training")
    path = tmp_path / "train.arrow"
    training.write_data(path)
    ds = aw.open(path)
    x = ds["x"].to_numpy(copy=False)
    indices = [5, 99_999, 5]
    for source in [ds, pickle.loads(pickle.dumps(ds))]:
        batches = training.Batches(source)
        assert len(batches) == training.ROWS
        rows = batches.__getitems__(indices)
        assert len(rows) == len(indices)
        for index, (vector, _) in zip(indices, rows):
            assert np.array_equal(vector, x[index])
        vector, target = batches[7]
        assert np.array_equal(vector, x[7])
        assert target == ds[7]["y"]
    total, _ = training.read_with_workers(ds[:2000], "fork")
    assert total == pytest.approx(ds[:2000]["y"].sum())


# ---- DLPack ----


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "float16", "float32", "float64"])
def test_dlpack_copies_nothing(tmp_path, dtype):
    path = tmp_path / "x.arrow"
    values = np.arange(60).astype(dtype)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values), 3)
    aw.write(pa.table({"n": pa.array(values[:20]), "lists": lists}), path)
    ds = aw.open(path)
    for name, expected in [("n", values[:20]), ("lists", values.reshape(20, 3))]:
        array = np.from_dlpack(ds[name])
        assert array.dtype == dtype
        assert np.array_equal(array, expected)
        assert np.array_equal(np.from_dlpack(ds[5:][name]), expected[5:])
        assert np.array_equal(np.from_dlpack(ds[name], copy=False), expected)
    # The first device of DLPack's type CPU.
    assert ds["n"].__dlpack_device__() == (1, 0)
    assert ds.footprint.copied == 0


def test_dlpack_copies_if_asked_to(tmp_path):
    aw.write({"n": np.arange(10)}, tmp_path / "n.arrow", max_rows=4)
    first_batch = aw.open(tmp_path / "n.arrow")[:4]
    copy = np.from_dlpack(first_batch["n"], copy=True)
    copy[0] = 7
    assert first_batch[0]["n"] == 0
    assert address_of(copy) != address_of(first_batch["n"].to_numpy(copy=False))


def test_dlpack_copies_several_batches(tmp_path):
    aw.write({"n": np.arange(10)}, tmp_path / "n.arrow", max_rows=4)
    ds = aw.open(tmp_path / "n.arrow")
    assert np.from_dlpack(ds["n"]).tolist() == list(range(10))
    with pytest.raises(BufferError, match="3 chunks"):
        np.from_dlpack(ds["n"], copy=False)


def test_dlpack_refuses_columns_without_numbers():
    ds = aw.from_arrow(pa.table({"s": ["a"], "t": pa.array([1], pa.timestamp("us"))}))
    for name in ["s", "t"]:
        with pytest.raises(BufferError, match="no numbers"):
            np.from_dlpack(ds[name])


def test_dlpack_copies_memory_that_is_read_only_for_old_consumers():
    """Consumers of DLPack before version 1.0 can't be told that memory is read-only."""
    column = aw.from_arrow(pa.table({"n": [1]}))["n"]
    assert "dltensor" in repr(column.__dlpack__())
    with pytest.raises(BufferError):
        column.__dlpack__(copy=False)


def is_private_mapping(array: np.ndarray) -> bool:
    """Returns whether the memory of an array is a private, writable mapping of an Arrow file."""
    start = address_of(array)
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, permissions, *_ = line.split()
        low, high = (int(address, 16) for address in addresses.split("-"))
        if low <= start < high:
            return permissions == "rw-p" and line.endswith(".arrow")
    return False


@pytest.mark.parametrize("copy", [None, False])
def test_writing_to_a_tensor_does_not_change_the_file(tmp_path, copy):
    """PyTorch ignores that memory is read-only, so that `+=` crashed the process."""
    path = tmp_path / "x.arrow"
    columns = {"n": np.arange(100_000), "lists": np.arange(300_000.0).reshape(100_000, 3)}
    aw.write(columns, path)
    before = path.read_bytes()
    ds = aw.open(path)
    for name, expected in columns.items():
        array = np.from_dlpack(ds[name], copy=copy)
        assert is_private_mapping(array)
        array += 1
        array[5:7] = 0
        assert np.array_equal(array[7:], expected[7:] + 1)
        assert np.array_equal(ds[name].to_numpy(), expected)
        assert np.array_equal(np.from_dlpack(ds[name]), expected)
    assert path.read_bytes() == before
    assert ds.footprint.copied == 0


def test_writing_to_a_tensor_does_not_change_a_growing_table(tmp_path):
    with aw.writer(tmp_path / "table", "n: int64") as writer:
        writer.append({"n": np.arange(1000)})
        writer.commit()
        ds = aw.open(tmp_path / "table")
        array = np.from_dlpack(ds["n"])
        array += 1
        writer.append({"n": [7]})
        writer.commit()
        assert ds.refresh()["n"].to_pylist() == [*range(1000), 7]
        assert array.tolist() == list(range(1, 1001))


def test_tensors_of_a_replaced_file_have_its_old_values(tmp_path):
    path = tmp_path / "x.arrow"
    aw.write({"n": np.arange(1000)}, path)
    ds = aw.open(path)
    aw.write({"n": np.zeros(1000, "int64")}, path)
    assert np.array_equal(np.from_dlpack(ds["n"]), np.arange(1000))
    assert "dltensor" in repr(ds["n"].__dlpack__())


def test_dlpack_outlives_the_dataset(tmp_path):
    rows = 100_000
    aw.write({"n": np.arange(rows)}, tmp_path / "n.arrow")
    array = np.from_dlpack(aw.open(tmp_path / "n.arrow")["n"])
    assert array.sum() == rows * (rows - 1) // 2


def test_jax_reads_columns(tmp_path):
    jax = pytest.importorskip("jax")
    aw.write({"x": np.arange(1000, dtype="float32"), "n": np.arange(1000, dtype="int32")}, tmp_path / "x.arrow")
    ds = aw.open(tmp_path / "x.arrow")
    for name in ("x", "n"):
        assert jax.dlpack.from_dlpack(ds[name]).tolist() == ds[name].to_pylist()
    assert jax.numpy.asarray(ds["x"]).sum() == sum(range(1000))


def test_torch_can_write_to_its_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    aw.write({"x": np.arange(1000.0)}, tmp_path / "x.arrow")
    ds = aw.open(tmp_path / "x.arrow")
    for tensor in (torch.as_tensor(ds["x"]), torch.from_dlpack(ds["x"])):
        tensor += 1
        assert tensor.tolist() == list(range(1, 1001))
        assert ds["x"].to_pylist() == list(range(1000))


# ---- Hugging Face datasets ----


@pytest.fixture
def huggingface(tmp_path, monkeypatch):
    """Returns the example `huggingface.py`, with a cache in the directory of the test."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    example = load_example("huggingface")
    example.datasets.disable_progress_bars()
    return example


def test_saved_dataset_is_opened_and_handed_back_in_place(tmp_path, huggingface):
    ds = huggingface.open_saved_dataset(tmp_path / "saved", 1000)
    assert (len(ds), ds.num_batches, ds.footprint.copied) == (1000, 3, 0)
    assert ds["text"].to_pylist() == [f"sentence {i}" for i in range(1000)]

    allocated = pa.total_allocated_bytes()
    dataset = huggingface.to_hugging_face(ds)
    assert dataset[999] == ds[999]
    assert dataset.num_rows == 1000
    labels = dataset.data.table["label"].chunk(0).to_numpy()
    assert address_of(labels) == address_of(ds[: len(labels)]["label"].to_numpy(copy=False))
    assert pa.total_allocated_bytes() - allocated < 4096


def test_cached_dataset_is_opened_in_place(tmp_path, huggingface):
    ds = huggingface.open_cached_dataset(tmp_path, 50)
    assert ds[49] == {"n": 49, "text": "sentence 49"}
    assert ds.footprint.copied == 0


@pytest.fixture
def hf_dataset(huggingface):
    columns = {"n": list(range(100)), "text": [f"t{i}" for i in range(100)]}
    return huggingface.datasets.Dataset.from_dict(columns)


def test_from_arrow_and_write_accept_hugging_face_datasets(tmp_path, huggingface, hf_dataset):
    assert aw.from_arrow(hf_dataset).to_pylist() == hf_dataset.to_list()
    shuffled = hf_dataset.shuffle(seed=3).select(range(50))
    assert aw.from_arrow(shuffled)["n"].to_pylist() == shuffled["n"][:]
    aw.write(shuffled, tmp_path / "m.arrow")
    assert aw.open(tmp_path / "m.arrow").to_pylist() == shuffled.to_list()
    # Hugging Face reads streams.
    aw.write(hf_dataset, tmp_path / "s.arrow", format="stream")
    assert huggingface.datasets.Dataset.from_file(str(tmp_path / "s.arrow")).to_list() == hf_dataset.to_list()


def test_split_of_a_hugging_face_dataset_has_to_be_chosen(tmp_path, huggingface, hf_dataset):
    splits = hf_dataset.train_test_split(0.2)
    with pytest.raises(aw.InvalidArgument, match="the splits 'train', 'test': choose one"):
        aw.from_arrow(splits)
    splits.save_to_disk(tmp_path / "splits")
    with pytest.raises(aw.NotFound, match="subdirectories .*test, train"):
        aw.open(tmp_path / "splits")
    assert len(aw.open(tmp_path / "splits" / "train")) == 80

    train = huggingface.datasets.load_from_disk(str(tmp_path / "splits"))["train"]
    numbers = aw.from_arrow(train)["n"].to_numpy()
    assert address_of(numbers) == address_of(train.data.table["n"].chunk(0).to_numpy())


# ---- Loaders ----

ROWS = 1000
IMAGES = np.random.default_rng(0).integers(0, 255, (ROWS, 4, 5, 3), dtype="uint8")


@pytest.fixture
def mixed_path(tmp_path):
    return tmp_path / "m.arrow"


def write_mixed(path, **options) -> aw.Dataset:
    """Writes and opens a file with columns of many types. The number `y` of a row determines its other values."""
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


@pytest.fixture
def mixed(mixed_path) -> aw.Dataset:
    return write_mixed(mixed_path)


def assert_mixed_batch(batch) -> None:
    """Asserts that a batch has rows of the mixed file, in arrays that can be written to."""
    y = batch["y"]
    assert np.array_equal(batch["x"], IMAGES[y])
    assert batch["x"].dtype == "uint8"
    assert np.array_equal(batch["v"], (3 * y[:, None] + np.arange(3)).astype("f4"))
    assert batch["v"].dtype == "f4"
    assert np.array_equal(batch["day"], y.astype("M8[D]"))
    assert np.array_equal(batch["odd"], y % 2 == 1)
    assert batch["text"].tolist() == [f"row {i}" for i in y]
    assert np.array_equal(batch["pair"], np.stack([y, y + 1], 1))
    assert [tokens.tolist() for tokens in batch["tokens"]] == [[i] * (i % 4) for i in y]
    for array in batch.values():
        assert array.flags.writeable


def read_numbers(loader) -> list[list[int]]:
    """Reads an epoch, and returns the numbers of the rows in each batch."""
    return [batch["y"].tolist() for batch in loader]


@pytest.mark.parametrize(
    "options", [{}, {"max_rows": 37}, {"compression": "zstd"}, {"max_rows": 100, "compression": "lz4"}]
)
@pytest.mark.parametrize("order", [{}, {"seed": 3}, {"seed": 3, "block": 10}])
def test_epoch_has_every_row_once(mixed_path, options, order):
    ds = write_mixed(mixed_path, **options)
    for source in [ds, ds.shuffle(1), ds[::-1], ds.shuffle(1)[100:700]]:
        rows = source["y"].to_pylist()
        loaded = []
        for batch in source.loader(64, **order):
            assert_mixed_batch(batch)
            loaded += batch["y"].tolist()
        assert sorted(loaded) == sorted(rows)
        is_in_order = loaded == rows
        assert is_in_order == (not order)

    imported = aw.from_arrow(ds)
    assert imported["y"].to_pylist() == list(range(ROWS))
    for batch in imported.loader(300, **order):
        assert_mixed_batch(batch)


@pytest.mark.parametrize("order", [{}, {"seed": 7}, {"seed": 7, "block": 16}])
def test_loader_resumes_from_a_state(mixed, mixed_path, order):
    uninterrupted = mixed.loader(64, columns=["y"], **order)
    first_epoch = read_numbers(uninterrupted)
    second_epoch = read_numbers(uninterrupted)
    assert (first_epoch == second_epoch) == (not order)
    assert uninterrupted.epoch == 2

    for stop in [0, 1, 5, 15, 16]:
        loader = mixed.loader(64, columns=["y"], **order)
        iterator = iter(loader)
        before = [next(iterator)["y"].tolist() for _ in range(stop)]
        state = json.loads(json.dumps(loader.state_dict()))
        resumed = aw.open(mixed_path).loader(64, columns=["y"], **order)
        resumed.load_state_dict(state)
        assert before + read_numbers(resumed) == first_epoch
        assert read_numbers(resumed) == second_epoch
        # A new iteration of the interrupted loader begins the epoch again.
        assert read_numbers(loader) == first_epoch
        assert read_numbers(loader) == second_epoch

    assert read_numbers(mixed.loader(64, columns=["y"], start=3, **order)) == first_epoch[3:]


def serve_first_batches(loader, requests, responses):
    """Runs a persistent worker, which sends the epoch and its first batch for each request."""
    while requests.get():
        responses.put((loader.epoch, loader[0]["y"].tolist()))


@pytest.fixture
def numbers_dataset(tmp_path) -> aw.Dataset:
    aw.write({"y": range(1000)}, tmp_path / "f.arrow")
    return aw.open(tmp_path / "f.arrow")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_set_epoch_reaches_persistent_workers(numbers_dataset, method):
    loader = numbers_dataset.loader(100, seed=1)
    context = multiprocessing.get_context(method)
    requests = context.Queue()
    responses = context.Queue()
    worker = context.Process(target=serve_first_batches, args=(loader, requests, responses), daemon=True)
    worker.start()
    batches = set()
    for epoch in [0, 3, 1]:
        loader.set_epoch(epoch)
        requests.put(True)
        worker_epoch, rows = responses.get(timeout=PATIENCE)
        assert worker_epoch == epoch
        assert rows == loader[0]["y"].tolist()
        batches.add(tuple(rows))
    requests.put(False)
    worker.join(PATIENCE)
    assert worker.exitcode == 0
    assert len(batches) == 3


def test_unpickled_loader_has_an_epoch_of_its_own(numbers_dataset):
    loader = numbers_dataset.loader(100, seed=1)
    loader.set_epoch(1)
    copy = pickle.loads(pickle.dumps(loader))
    loader.set_epoch(7)
    assert (copy.epoch, loader.epoch) == (1, 7)


def test_reading_an_epoch_again_warns(numbers_dataset):
    loader = numbers_dataset.loader(100, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first_epoch = [loader[number]["y"].tolist() for number in range(10)]
        loader.set_epoch(1)
        assert [loader[number]["y"].tolist() for number in range(10)] != first_epoch
        # Single batches may be read again.
        loader.set_epoch(2)
        for number in [0, 0, *range(10), 5]:
            loader[number]
        loader.set_epoch(2)
        # Without a seed, all epochs have the same order.
        in_order = numbers_dataset.loader(100)
        for number in [*range(10), *range(10)]:
            in_order[number]
    with pytest.warns(UserWarning, match="epoch 2 are read again in the same order; call set_epoch"):
        for number in [*range(10), 0, 1]:
            loader[number]


@pytest.fixture(params=[{}, {"seed": 7}])
def order(request):
    return request.param


@pytest.fixture
def epochs(mixed, order) -> list[list[list[int]]]:
    """Returns the numbers of one epoch more than there are batches."""
    loader = mixed.loader(64, columns=["y"], **order)
    return [read_numbers(loader) for _ in range(len(loader) + 1)]


def test_reading_a_single_batch_begins_no_epoch(mixed, order, epochs):
    loader = mixed.loader(64, columns=["y"], **order)
    assert next(iter(loader))["y"].tolist() == epochs[0][0]
    assert next(iter(loader))["y"].tolist() == epochs[0][0]
    assert read_numbers(loader) == epochs[0]
    assert loader.epoch == 1


def test_nested_iterations_are_epochs_of_their_own(mixed, order, epochs):
    loader = mixed.loader(64, columns=["y"], **order)
    inner_epochs = []
    for number, batch in enumerate(loader):
        assert batch["y"].tolist() == epochs[0][number]
        inner_epochs.append(read_numbers(loader))
    assert inner_epochs == epochs[: len(loader)]
    assert loader.epoch == len(loader)


def test_parallel_iterations_have_the_same_batches(mixed, order):
    loader = mixed.loader(64, columns=["y"], **order)
    for left, right in zip(loader, loader):
        assert left["y"].tolist() == right["y"].tolist()


def test_iterations_begin_at_the_loaded_state_until_one_completes(mixed, order, epochs):
    state = mixed.loader(64, columns=["y"], start=3, **order).state_dict()
    loader = mixed.loader(64, columns=["y"], **order)
    loader.load_state_dict(state)
    assert next(iter(loader))["y"].tolist() == epochs[0][3]
    assert read_numbers(loader) == epochs[0][3:]
    assert read_numbers(loader) == epochs[1]


def test_state_can_be_loaded_after_epochs(mixed, order, epochs):
    state = mixed.loader(64, columns=["y"], start=3, **order).state_dict()
    loader = mixed.loader(64, columns=["y"], **order)
    read_numbers(loader)
    loader.load_state_dict({**state, "epoch": 0})
    assert read_numbers(loader) == epochs[0][3:]


def test_state_of_a_loader_with_other_options_is_refused(mixed):
    state = mixed.loader(64, seed=1).state_dict()
    for other in [
        mixed.loader(32, seed=1),
        mixed.loader(64, seed=2),
        mixed[:999].loader(64, seed=1),
        mixed.loader(64, seed=1, world=2),
    ]:
        with pytest.raises(aw.InvalidArgument, match="load_state_dict: the state has"):
            other.load_state_dict(state)


def test_invalid_state_is_refused(mixed):
    state = mixed.loader(64, seed=1).state_dict()
    for invalid in [{}, None, {**state, "batch": 17}, {**state, "epoch": "x"}, {**state, "batch": -1}]:
        with pytest.raises(aw.InvalidArgument, match="load_state_dict"):
            mixed.loader(64, seed=1).load_state_dict(invalid)


def test_state_of_other_row_numbers_is_refused(mixed, mixed_path):
    train, test = mixed.train_test_split(0.5, seed=0)
    other_train, _ = mixed.train_test_split(0.5, seed=1)
    state = train.loader(64, seed=1).state_dict()
    same_train, _ = aw.open(mixed_path).train_test_split(0.5, seed=0)
    same_train.loader(64, seed=1).load_state_dict(state)
    for rows in [test, other_train, train.shuffle(3), mixed[:500]]:
        with pytest.raises(aw.InvalidArgument, match="load_state_dict: the state "):
            rows.loader(64, seed=1).load_state_dict(state)
    with pytest.raises(aw.InvalidArgument, match="other rows"):
        mixed[100:200].loader(64).load_state_dict(mixed[200:300].loader(64).state_dict())


def test_state_of_other_values_is_refused(tmp_path):
    labels = np.arange(4000) % 8
    images = np.arange(24_000).reshape(4000, 3, 2)
    aw.write({"label": labels, "n": np.arange(4000), "image": images}, tmp_path / "a.arrow")
    aw.write({"label": labels, "n": np.arange(4000) + 1, "image": images}, tmp_path / "b.arrow")
    ds = aw.open(tmp_path / "a.arrow")
    other_file = aw.open(tmp_path / "b.arrow")

    filtered = ds.filter(aw.col("label") == 3)
    loader = filtered.loader(64, seed=7)
    next(iter(loader))
    state = json.loads(json.dumps(loader.state_dict()))
    for rows in [
        ds.filter(aw.col("label") == 4),
        other_file.filter(aw.col("label") == 3),
        filtered.shuffle(1),
        filtered[::-1],
    ]:
        with pytest.raises(aw.InvalidArgument, match="load_state_dict: the state is of other rows"):
            rows.loader(64, seed=7).load_state_dict(state)
    with pytest.raises(aw.InvalidArgument, match="load_state_dict: the state is of other rows"):
        other_file.loader(64).load_state_dict(ds.loader(64).state_dict())


def test_state_is_accepted_after_the_file_was_moved(tmp_path):
    labels = np.arange(4000) % 8
    aw.write({"label": labels, "n": np.arange(4000)}, tmp_path / "a.arrow")
    ds = aw.open(tmp_path / "a.arrow")
    filtered_loader = ds.filter(aw.col("label") == 3).loader(64, seed=7)
    next(iter(filtered_loader))
    filtered_state = filtered_loader.state_dict()
    state = ds.loader(64, seed=7, columns=["n"]).state_dict()

    (tmp_path / "a.arrow").rename(tmp_path / "moved.arrow")
    moved = aw.open(tmp_path / "moved.arrow")
    moved.filter(aw.col("label") == 3).loader(64, seed=7).load_state_dict(filtered_state)
    # The columns may be others.
    moved.loader(64, seed=7).load_state_dict(state)
    unpickled = pickle.loads(pickle.dumps(moved.loader(64, seed=7, columns=["n"])))
    unpickled.load_state_dict(state)
    assert unpickled.state_dict() == state


def test_state_is_accepted_after_a_table_has_grown_and_was_compacted(tmp_path):
    path = tmp_path / "t"
    schema = pa.schema([("n", pa.int64()), ("kind", pa.dictionary(pa.int8(), pa.string()))])
    with aw.writer(path, schema) as writer:
        for start in range(0, 500, 100):
            writer.append({"n": range(start, start + 100), "kind": ["a", "b", None, "c"] * 25})
            writer.commit()
        state = aw.open(path).loader(64, seed=1).state_dict()
        writer.append({"n": range(500, 600), "kind": ["d"] * 100})
        writer.commit()
    aw.open(path)[:500].loader(64, seed=1).load_state_dict(state)
    aw.compact(path)
    aw.open(path)[:500].loader(64, seed=1).load_state_dict(state)
    with pytest.raises(aw.InvalidArgument, match="other rows"):
        aw.open(path)[100:600].loader(64, seed=1).load_state_dict(state)


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_ranks_share_the_batches_of_one_process(mixed, world):
    all_batches = read_numbers(mixed.loader(64, seed=5, columns=["y"]))
    loaders = [mixed.loader(64, seed=5, columns=["y"], rank=rank, world=world) for rank in range(world)]
    shares = [read_numbers(loader) for loader in loaders]
    assert [len(loader) for loader in loaders] == [len(share) for share in shares]
    assert sorted(sum(shares, [])) == sorted(all_batches)
    assert shares[0][0] == all_batches[0]


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_drop_last_gives_ranks_equal_batches(mixed, world):
    loaders = [mixed.loader(64, seed=5, columns=["y"], rank=rank, world=world, drop_last=True) for rank in range(world)]
    assert {len(loader) for loader in loaders} == {ROWS // 64 // world}
    for loader in loaders:
        assert all(len(batch) == 64 for batch in read_numbers(loader))


def test_batches_can_be_read_by_number(mixed):
    loader = pickle.loads(pickle.dumps(mixed.loader(64, seed=5)))
    assert len(pickle.dumps(loader)) < 1500
    expected = read_numbers(mixed.loader(64, seed=5))
    assert [loader[number]["y"].tolist() for number in range(len(loader))] == expected
    assert loader[-1]["y"].tolist() == expected[-1]
    assert len(expected[-1]) == ROWS % 64
    with pytest.raises(IndexError):
        loader[16]
    loader.set_epoch(1)
    assert loader[0]["y"].tolist() != expected[0]
    assert_mixed_batch(loader[3])


def read_batch_in_worker(loader, number):
    assert_mixed_batch(loader[number])
    return loader[number]["y"].tolist()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_batches_by_number(mixed, method):
    loader = mixed.loader(64, seed=5)
    with multiprocessing.get_context(method).Pool(2) as pool:
        batches = pool.starmap(read_batch_in_worker, [(loader, number) for number in range(len(loader))])
    assert batches == read_numbers(loader)


def test_loader_accepts_one_column_and_numbers_of_numpy(mixed):
    loader = mixed.loader(64, columns="y")
    assert list(loader[0]) == ["y"]
    assert np.array_equal(loader[np.int64(-1)]["y"], loader[len(loader) - 1]["y"])


def test_loader_refuses_invalid_batch_numbers_and_epochs(mixed):
    loader = mixed.loader(64, columns="y")
    for number in ["y", slice(0, 2), 1.0]:
        with pytest.raises(TypeError, match="integer"):
            loader[number]
    with pytest.raises(aw.InvalidArgument, match="set_epoch"):
        loader.set_epoch(-1)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"start": 17},
        {"start": -1},
        {"rank": 1},
        {"world": 0},
        {"block": 5},
        {"seed": 1, "block": 0},
        {"seed": -1},
        {"columns": []},
    ],
    ids=str,
)
def test_loader_refuses_invalid_options(mixed, options):
    with pytest.raises(aw.InvalidArgument, match="loader: "):
        mixed.loader(**{"batch_size": 64, **options})


def test_loader_refuses_a_missing_column(mixed):
    with pytest.raises(aw.ColumnNotFound):
        mixed.loader(64, columns=["z"])


def test_loader_of_no_rows_has_no_batches(mixed):
    assert list(mixed[:0].loader(64, seed=1)) == []
    assert len(mixed[:0].loader(64)) == 0


def refuse_device(name):
    """Fails as PyTorch does for names that are no devices."""
    raise RuntimeError(f"Expected one of cpu, cuda device type at start of device string: {name}")


def test_loader_checks_its_device_before_reading(mixed, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="device='torch' needs PyTorch; install it: pip install torch"):
        mixed.loader(4, device="torch")

    torch = types.SimpleNamespace(device=lambda name: 0 if name == "cpu" else refuse_device(name))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert mixed.loader(4, device="torch").device == "torch"
    assert mixed.loader(4, device="cpu").device == "cpu"
    with pytest.raises(aw.InvalidArgument, match="a device of PyTorch, such as 'cpu' or 'cuda:0' as device, got 'gpu'"):
        mixed.loader(4, device="gpu")


def test_loader_returns_tensors_of_torch(mixed):
    torch = pytest.importorskip("torch")
    loader = mixed.loader(64, seed=5, device="torch", columns=["x", "y", "odd", "text"])
    for tensors, arrays in zip(loader, mixed.loader(64, seed=5), strict=True):
        assert torch.equal(tensors["x"], torch.from_numpy(arrays["x"]))
        assert tensors["y"].dtype == torch.int64
        assert torch.equal(tensors["odd"], torch.from_numpy(arrays["odd"]))
        assert tensors["text"] == arrays["text"].tolist()

    array_loader = mixed.loader(64, seed=5, columns=["x", "y"])
    data_loader = torch.utils.data.DataLoader(array_loader, batch_size=None, num_workers=2)
    assert [batch["y"].tolist() for batch in data_loader] == read_numbers(array_loader)


def test_loader_of_a_growing_table_has_the_rows_at_opening(tmp_path):
    aw.write({"x": np.zeros((5, 2, 2), "f4"), "y": np.arange(5)}, tmp_path / "first.arrow")
    with aw.writer(tmp_path / "t", aw.open(tmp_path / "first.arrow").schema) as writer:
        for start in range(0, 100, 10):
            y = np.arange(start, start + 10)
            writer.append({"x": np.repeat(y, 4).reshape(10, 2, 2).astype("f4"), "y": y})
        writer.commit()
        loader = aw.open(tmp_path / "t").loader(16, seed=1)
        writer.append({"x": np.zeros((1, 2, 2), "f4"), "y": np.array([100])})
        writer.commit()

        batches = list(loader)
        assert sorted(sum((batch["y"].tolist() for batch in batches), [])) == list(range(100))
        assert all(np.array_equal(batch["x"][:, 1, 1], batch["y"]) for batch in batches)


# ---- Nulls ----


def test_dropping_no_nulls_copies_nothing(tmp_path):
    table = pa.table({"x": range(100_000), "y": [None, *range(99_999)]})
    aw.write(table, tmp_path / "a.arrow")
    ds = aw.open(tmp_path / "a.arrow")
    without_nulls = ds.drop_nulls("x")
    # A selection would have a number for each row.
    assert len(pickle.dumps(without_nulls)) < 1500
    assert without_nulls.to_arrow() == table


def test_drop_nulls_drops_rows_with_nulls_in_the_columns(tmp_path):
    table = pa.table({"x": range(100_000), "y": [None, *range(99_999)]})
    aw.write(table, tmp_path / "a.arrow")
    ds = aw.open(tmp_path / "a.arrow")
    assert ds.drop_nulls().to_arrow() == table[1:]
    assert len(ds.drop_nulls("y", "x")) == 99_999
    with pytest.raises(aw.ColumnNotFound):
        ds.drop_nulls("z")


def test_nulls_are_nan_in_floats_and_refused_in_integers(tmp_path):
    table = pa.table({"x": [1.5, None, 2.5], "y": [1, None, 3], "i": [0, 1, 2]})
    aw.write(table, tmp_path / "n.arrow")
    ds = aw.open(tmp_path / "n.arrow")
    (batch,) = ds.loader(3, columns=["x", "i"])
    assert np.array_equal(batch["x"], [1.5, np.nan, 2.5], equal_nan=True)
    assert batch["i"].tolist() == [0, 1, 2]
    with pytest.raises(aw.InvalidData, match="column 'y': nulls have no place in an array of int64; .*drop_nulls"):
        next(iter(ds.loader(3, columns=["y"])))
    (batch,) = ds.drop_nulls("y").loader(3, columns=["y"])
    assert batch["y"].tolist() == [1, 3]


def test_error_of_nulls_in_vectors_does_not_suggest_drop_nulls(tmp_path):
    """`drop_nulls` drops rows that are null, and not rows whose vectors contain nulls."""
    vectors = pa.array([[1.0, None], [2.0, 3.0]], pa.list_(pa.float32(), 2))
    aw.write(pa.table({"v": vectors}), tmp_path / "v.arrow")
    with pytest.raises(aw.InvalidData, match="column 'v': nulls have no place") as caught:
        next(iter(aw.open(tmp_path / "v.arrow").loader(2)))
    assert "drop_nulls" not in str(caught.value)


# ---- Splits and shuffles ----


def test_train_test_split_has_every_row_once(mixed):
    train, test = mixed.train_test_split(0.1, seed=1)
    assert (len(train), len(test)) == (900, 100)
    assert sorted(train["y"].to_pylist() + test["y"].to_pylist()) == list(range(ROWS))
    _, same_test = mixed.train_test_split(0.1, seed=1)
    assert same_test["y"].to_pylist() == test["y"].to_pylist()


def test_split_is_pickled_as_row_numbers(mixed):
    train, _ = mixed.train_test_split(0.1, seed=1)
    pickled = pickle.dumps(train)
    assert len(pickled) < 8 * len(train) + 1000
    unpickled = pickle.loads(pickled)
    assert unpickled["text"].to_pylist() == train["text"].to_pylist()
    for batch in unpickled.loader(64, seed=2):
        assert_mixed_batch(batch)


def test_train_test_split_accepts_a_share_or_a_number_of_rows(mixed):
    assert [len(part) for part in mixed.train_test_split(7)] == [993, 7]
    assert [len(part) for part in mixed.train_test_split()] == [750, 250]
    for size in [0.0, 1.5, -1, 1001, True, "x"]:
        with pytest.raises(aw.InvalidArgument, match="train_test_split"):
            mixed.train_test_split(size)


def test_slice_of_a_shuffle_gathers_its_rows_only(tmp_path):
    rows = 200_000
    aw.write({"x": np.zeros((rows, 100), "u1"), "n": np.arange(rows)}, tmp_path / "x.arrow")
    ds = aw.open(tmp_path / "x.arrow")
    order = ds.shuffle(3)["n"].to_numpy()

    before = private_bytes()
    slices = {start: ds.shuffle(3)[start : start + 10] for start in range(0, rows, 2_000)}
    for start, part in slices.items():
        assert part["n"].to_pylist() == order[start : start + 10].tolist()
        assert part["x"].to_numpy().sum() == 0
    # The orders are 80 MB. If each of the 100 slices gathered a block of 65,536 rows, they would be 655 MB more.
    assert private_bytes() - before < 200_000_000


def test_slices_of_a_shuffle_can_be_nested(tmp_path):
    aw.write({"n": np.arange(200_000)}, tmp_path / "x.arrow")
    ds = aw.open(tmp_path / "x.arrow")
    order = ds.shuffle(3)["n"].to_numpy()
    nested = ds.shuffle(3)[1000:5000][10:20]
    assert nested["n"].to_pylist() == order[1010:1020].tolist()
    assert nested[3]["n"] == order[1013]
    assert nested[2:]["n"].to_pylist() == order[1012:1020].tolist()


# ---- Tensors ----


def append_one_row(writer, image):
    writer.append_row(image=image, y=1)


def append_list_of_rows(writer, image):
    writer.append([{"image": image, "y": 1}])


@pytest.mark.parametrize("append", [append_one_row, append_list_of_rows])
def test_tensors_are_appended_in_their_shape_or_flat(tmp_path, append):
    images = np.arange(24, dtype="float32").reshape(4, 2, 3)
    schema = pa.schema([("image", pa.fixed_shape_tensor(pa.float32(), (2, 3))), ("y", pa.int64())])
    with aw.writer(tmp_path / "t", schema) as writer:
        append(writer, images[0])
        append(writer, images[1].ravel())
        # An array in Fortran order.
        append(writer, images[2].T.copy().T)
        writer.append({"image": images[3:], "y": [1]})
        writer.append({"image": images.reshape(4, 6), "y": [1] * 4})

        for wrong in (images[0].T, images[0][:1], images[0].tolist()):
            message = r"write a NumPy array of shape \[2, 3\], or its 6 items in a row"
            with pytest.raises(aw.InvalidArgument, match=message):
                append(writer, wrong)
        with pytest.raises(aw.InvalidArgument, match=r"expected rows of shape \[2, 3\], got \[3, 2\]"):
            writer.append({"image": images.reshape(4, 3, 2), "y": [1] * 4})
        with pytest.raises(aw.InvalidArgument, match=r"expected rows of shape \[2, 3\], got \[5\]"):
            writer.append({"image": images.ravel()[:20].reshape(4, 5), "y": [1] * 4})
        writer.commit()

    ds = aw.open(tmp_path / "t")
    np.testing.assert_array_equal(ds["image"].to_numpy(), np.concatenate([images, images]))
    assert ds.dtypes == ["fixed_shape_tensor<float32>[2, 3]", "int64"]
    assert ds["image"].dtype == ds.dtypes[0]
    assert ds["y"].dtype == ds.dtypes[1]


def test_column_of_tensors_refuses_another_shape(tmp_path):
    aw.write({"x": np.zeros((5, 2, 2), "f4")}, tmp_path / "first.arrow")
    with aw.writer(tmp_path / "t", aw.open(tmp_path / "first.arrow").schema) as writer:
        with pytest.raises(aw.InvalidArgument, match=r"column 'x': expected rows of shape \[2, 2\], got \[4, 1\]"):
            writer.append({"x": np.zeros((1, 4, 1), "f4")})


def test_tensors_are_exchanged_with_pyarrow(tmp_path):
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(IMAGES)
    aw.write({"x": IMAGES}, tmp_path / "ours.arrow")
    column = pa.ipc.open_file(tmp_path / "ours.arrow").read_all()["x"]
    assert column.type == tensor.type
    assert np.array_equal(column.combine_chunks().to_numpy_ndarray(), IMAGES)

    with pa.ipc.new_file(str(tmp_path / "theirs.arrow"), pa.schema({"x": tensor.type})) as writer:
        writer.write_batch(pa.record_batch({"x": tensor}))
    ds = aw.open(tmp_path / "theirs.arrow")
    array = ds["x"].to_numpy(copy=False)
    assert np.array_equal(array, IMAGES)
    assert array.shape == IMAGES.shape
    assert np.array_equal(aw.from_arrow(pa.table({"x": tensor}))["x"].to_numpy(), IMAGES)
    assert ds[7]["x"] == IMAGES[7].ravel().tolist() == column[7].as_py()


def test_tensors_with_permuted_dimensions(tmp_path):
    # The example of the specification: `shape` is the shape in memory, and the logical dimension i is dimension
    # permutation[i] in memory. pyarrow 26 applies the inverse permutation.
    tensor_type = pa.fixed_shape_tensor(pa.int32(), [2, 3, 4], permutation=[2, 0, 1])
    numbers = np.arange(5 * 24, dtype="i4")
    storage = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 24)
    aw.write(pa.table({"x": pa.ExtensionArray.from_storage(tensor_type, storage)}), tmp_path / "p.arrow")
    expected = numbers.reshape(5, 2, 3, 4).transpose(0, 3, 1, 2)
    assert expected.shape == (5, 4, 2, 3)

    ds = aw.open(tmp_path / "p.arrow")
    assert np.array_equal(ds["x"].to_numpy(), expected)
    (batch,) = ds.loader(5)
    assert np.array_equal(batch["x"], expected)


def test_tensors_with_two_swapped_dimensions_match_pyarrow():
    # This permutation is its own inverse.
    tensor_type = pa.fixed_shape_tensor(pa.int32(), [2, 3, 4], permutation=[0, 2, 1])
    storage = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(5 * 24, dtype="i4")), 24)
    tensor = pa.ExtensionArray.from_storage(tensor_type, storage)
    assert np.array_equal(aw.from_arrow(pa.table({"x": tensor}))["x"].to_numpy(), tensor.to_numpy_ndarray())


class SchemaExporter:
    """Exports a schema with one field."""

    def __init__(self, field):
        self.field = field

    def __arrow_c_schema__(self):
        return pa.schema([self.field]).__arrow_c_schema__()


@pytest.mark.parametrize(
    "metadata",
    ["", "{}", '{"shape": [2, 2]}', '{"shape": "x"}', '{"shape": [3, -2]}', "[", '{"shape": [6, 4611686018427387904]}'],
)
def test_tensors_with_invalid_metadata_are_lists(metadata):
    # pyarrow refuses to create an array with such metadata, so only the schema has it.
    field = pa.field("x", pa.list_(pa.int8(), 6)).with_metadata(
        {"ARROW:extension:name": "arrow.fixed_shape_tensor", "ARROW:extension:metadata": metadata}
    )
    rows = [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    buffer = aw.Buffer()
    with aw.stream_writer(buffer, SchemaExporter(field)) as writer:
        writer.write({"x": rows})
    ds = aw.open(buffer)
    assert ds["x"].to_numpy().shape == (2, 6)
    assert ds["x"].to_pylist() == rows
