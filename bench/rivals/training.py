"""Compares batches for training with Hugging Face `datasets`: 256 random rows of 3,072 bytes as tensors.

    $ python bench/rivals/training.py [--gib 4] [--batches 300] [--results FOLDER]

Both read the same Arrow stream, which is written to --folder, and the same kind of batches: rows in random order by a
seed, as tensors if torch is installed, and otherwise as NumPy arrays. Prints batches per second of one process and of
four, and the private memory of the processes. Needs `datasets`. The file is read before, so that it is in the page
cache as far as it fits. With --results the figures are also written to FOLDER/training.md.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import arrowwood as aw

sys.path.append(str(Path(__file__).resolve().parent.parent))
from report import format_table, write_result

WIDTH, BATCH = 3072, 256

SHOWS = (
    "By `bench/rivals/training.py`: 256 random rows of 3,072 bytes and a number, by a seed, as {form} arrays, from one mapped Arrow stream; "
    "runs in turns, without the first two batches. The memory is what fetching added to all processes, without pages of the file."
)


def make(path, rows):
    """Writes a stream of `rows` rows in batches of 10,000, like `datasets`."""
    import pyarrow as pa

    schema = pa.schema({"x": pa.list_(pa.uint8(), WIDTH), "y": pa.int64()})
    with aw.stream_writer(path, schema) as writer:
        for start in range(0, rows, 10_000):
            count = min(10_000, rows - start)
            x = np.random.default_rng(start).integers(0, 256, (count, WIDTH), dtype="uint8")
            writer.write({"x": x, "y": np.arange(start, start + count)})


def own_memory():
    """Returns the bytes of this process's memory without pages of files."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def form():
    try:
        import torch

        torch.set_num_threads(1)
        return "torch"
    except ImportError:
        return "numpy"


def ours(path, numbers):
    loader = aw.open(path).loader(BATCH, seed=1, device="torch" if form() == "torch" else None)
    for number in numbers:
        yield loader[number]


def theirs(path, numbers):
    import datasets

    datasets.disable_progress_bars()
    dataset = datasets.Dataset.from_file(str(path)).with_format(form())
    order = np.random.default_rng(1).permutation(len(dataset))
    for number in numbers:
        yield dataset[order[number * BATCH : (number + 1) * BATCH]]


def run(job):
    """Fetches batches. Returns the batches per second after the first two, and the memory that they added."""
    read_batches, path, numbers = job
    form()
    if read_batches is theirs:
        import datasets  # noqa: F401, memory of the import should not be counted
    before, total, start = own_memory(), 0, time.perf_counter()
    for count, batch in enumerate(read_batches(path, numbers)):
        # NumPy adds the bytes up, as torch would convert them all to 64-bit integers first.
        total += int(np.asarray(batch["x"]).sum()) + int(np.asarray(batch["y"]).sum())
        assert tuple(batch["x"].shape) == (BATCH, WIDTH), batch["x"].shape
        if count == 1:
            start = time.perf_counter()
    return (len(numbers) - 2) / (time.perf_counter() - start), own_memory() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    rows = int(options.gib * 2**30 / WIDTH)
    path = options.folder / f"training-{options.gib:g}.arrows"
    if not path.exists():
        make(path, rows)
    with path.open("rb") as file:  # into the page cache, as far as it fits
        while file.read(1 << 24):
            pass
    numbers = range(min(options.batches, rows // BATCH))
    print(f"{rows:,} rows, {os.path.getsize(path):,} bytes, {form()}, {os.cpu_count()} processors")
    context = multiprocessing.get_context("spawn")
    rows_of_table = []
    for processes in [1, 4]:
        shares = [list(numbers[at::processes]) for at in range(processes)]
        rates, memories = {ours: [], theirs: []}, {ours: [], theirs: []}
        for _ in range(options.runs):
            for who in rates:
                with context.Pool(processes) as pool:
                    found = pool.map(run, [(who, path, share) for share in shares], chunksize=1)
                rates[who].append(sum(rate for rate, _ in found))
                memories[who].append(sum(memory for _, memory in found))
        for name, who in [("arrowwood", ours), ("Hugging Face", theirs)]:
            low, middle, high = statistics.quantiles(rates[who], n=4)
            ratio = f"×{statistics.median(rates[ours]) / middle:.2f}"
            what = "one process" if processes == 1 else f"{processes} processes"
            memory = f"{statistics.median(memories[who]) / 2**20:.1f} MiB"
            rows_of_table.append([what, name, f"{middle:,.0f}", f"± {(high - low) / 2:,.0f}", ratio, memory])
    table = format_table(["", "", "batches a second", "spread", "arrowwood is", "memory of their own"], rows_of_table)
    print(table)
    if options.results:
        title = f"Random batches for training, from {options.gib:g} GiB"
        write_result(options.results, "training", title, SHOWS.format(form=form()), table)


if __name__ == "__main__":
    main()
