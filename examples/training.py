"""Reads random rows of a mapped file for training, in several worker processes.

PyTorch's DataLoader needs three methods, which :class:`arrowwood.Dataset` has: `len(ds)`, `ds[i]`, and
`ds.__getitems__(indices)` for a batch. A worker gets the pickled dataset, which is a path and the numbers of rows, and
maps the file itself. The pages of the file are in memory once, independent of the number of workers.

If torch is installed, the script fits a linear model with it.

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


def write_data(path):
    """Writes features and the target of the model, which is their sum."""
    features = np.random.default_rng(0).random((ROWS, FEATURES), dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), FEATURES)
    aw.write(pa.table({"x": vectors, "y": features.sum(axis=1)}), path)


class Batches:
    """A dataset with a transform: it wraps another dataset, and returns arrays instead of dicts."""

    def __init__(self, ds):
        self.ds = ds

    def __len__(self):
        return len(self.ds)

    def __getitem__(self, index):
        row = self.ds[index]
        return np.asarray(row["x"], "float32"), np.float32(row["y"])

    def __getitems__(self, indices):
        """Returns a batch with one gather per column, and without Python objects for the values."""
        rows = self.ds.take(indices)
        # Copies the batch, which is small, as PyTorch warns about arrays that are not writable.
        return list(zip(rows["x"].to_numpy(copy=True), rows["y"].to_numpy(copy=True), strict=True))


def private_bytes():
    """Returns the bytes of this process's memory without pages of files, which processes share."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def read_batches(ds, indices):
    """Reads batches of random rows, as a worker does. Returns their sum, and how many private bytes were added."""
    Batches(ds).__getitems__(indices[:BATCH])  # loads modules before memory is measured
    before = private_bytes()
    total = 0.0
    for start in range(0, len(indices), BATCH):
        total += sum(float(y) for _, y in Batches(ds).__getitems__(indices[start : start + BATCH]))
    return total, private_bytes() - before


def read_with_workers(ds, method, workers=2):
    """Reads all rows in random order in several processes, which are started by `method`: `fork` or `spawn`."""
    order = np.random.default_rng(1).permutation(len(ds))
    with multiprocessing.get_context(method).Pool(workers) as pool:
        results = pool.starmap(read_batches, [(ds, part.tolist()) for part in np.array_split(order, workers)])
    return sum(total for total, _ in results), max(added_bytes for _, added_bytes in results)


def train_with_torch(ds, epochs=1):
    """Fits a linear model with PyTorch, whose workers map the file. Returns the loss."""
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
        write_data(path)
        ds = aw.open(path)
        print(f"{len(ds):,} rows, {path.stat().st_size:,} bytes; pickled {len(pickle.dumps(ds)):,} bytes")
        for method in ["fork", "spawn"]:
            total, added_bytes = read_with_workers(ds, method)
            print(
                f"2 workers by {method}: sum {total:.1f}, {added_bytes / 1e6:.1f} MB of memory of its own in each at most"
            )
        column = np.from_dlpack(ds["x"])
        print(f"the whole column as an array of shape {column.shape}, in place: {not column.flags.owndata}")
        try:
            print(f"PyTorch: loss after one epoch {train_with_torch(ds):.5f}")
        except ImportError:
            print("PyTorch is not installed; its DataLoader does what was done by hand here")


if __name__ == "__main__":
    main()
