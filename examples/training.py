"""A dataset for training: random rows of one mapped file, for any number of worker processes.

PyTorch's DataLoader asks a dataset for three things, which :class:`arrowwood.Dataset` has: `len(ds)`, `ds[i]`, and
`ds.__getitems__(indices)` for a whole batch. A worker gets the dataset pickled, which is a path and the numbers of
rows, and maps the file for itself: the pages are in memory once, however many workers there are.

Where torch is installed this trains a line with it; else it shows the same protocol by hand.

    $ python examples/training.py
"""

import multiprocessing
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import arrowwood as aw

ROWS, FEATURES, BATCH = 100_000, 16, 256


def make(path):
    """Features, and the target that a model is to find: their sum."""
    features = np.random.default_rng(0).random((ROWS, FEATURES), dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), FEATURES)
    aw.write(pa.table({"x": vectors, "y": features.sum(axis=1)}), path)


class Batches:
    """A dataset that gives arrays instead of dicts: a transform is a class around a dataset, no more."""

    def __init__(self, ds):
        self.ds = ds

    def __len__(self):
        return len(self.ds)

    def __getitem__(self, index):
        row = self.ds[index]
        return np.asarray(row["x"], "float32"), np.float32(row["y"])

    def __getitems__(self, indices):
        """A whole batch at once: one gather of each column, and no Python object for a value."""
        rows = self.ds.take(indices)
        # Copies, as PyTorch warns of arrays that can't be written to; a batch is small.
        return list(zip(rows["x"].to_numpy(copy=True), rows["y"].to_numpy(copy=True), strict=True))


def own_memory():
    """The bytes that this process has beside pages of files, which the system keeps once for all who map them."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def work(ds, indices):
    """What a worker does: batches of random rows. Returns their sum, and how much its own memory has grown."""
    Batches(ds).__getitems__(indices[:BATCH])  # what Python and NumPy load at first is not ours
    before = own_memory()
    total = 0.0
    for start in range(0, len(indices), BATCH):
        total += sum(float(y) for _, y in Batches(ds).__getitems__(indices[start : start + BATCH]))
    return total, own_memory() - before


def by_hand(ds, method, workers=2):
    """The rows in random order, shared between processes that are started by `method`: `fork` or `spawn`."""
    order = np.random.default_rng(1).permutation(len(ds))
    with multiprocessing.get_context(method).Pool(workers) as pool:
        done = pool.starmap(work, [(ds, part.tolist()) for part in np.array_split(order, workers)])
    return sum(total for total, _ in done), max(grown for _, grown in done)


def with_torch(ds, epochs=1):
    """A line fitted by PyTorch, whose loader's workers map the file."""
    import torch
    from torch.utils.data import DataLoader

    loader = DataLoader(Batches(ds), batch_size=BATCH, shuffle=True, num_workers=2, multiprocessing_context="fork")
    model = torch.nn.Linear(FEATURES, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x)[:, 0], y)
            loss.backward()
            optimizer.step()
    return loss.item()


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.arrow"
        make(path)
        ds = aw.open(path)
        print(f"{len(ds):,} rows, {path.stat().st_size:,} bytes; pickled {len(pickle.dumps(ds)):,} bytes")
        for method in ["fork", "spawn"]:
            total, grown = by_hand(ds, method)
            print(f"2 workers by {method}: sum {total:.1f}, {grown / 1e6:.1f} MB of memory of its own in each at most")
        whole = np.from_dlpack(ds["x"])
        print(f"the whole column as an array of shape {whole.shape}, in place: {not whole.flags.owndata}")
        try:
            print(f"PyTorch: loss after one epoch {with_torch(ds):.5f}")
        except ImportError:
            print("PyTorch is not installed; its DataLoader does what was done by hand here")


if __name__ == "__main__":
    main()
