"""Repeats an experiment of Wes McKinney (Streaming Columnar Data with Apache Arrow, 2017) with pyarrow and Polars.

Sixteen columns of float64 in chunks of 16 KiB to 16 MiB are written to memory, read back, and converted to a data
frame. The libraries take turns. Prints medians.

    python bench/streams.py [MIB] [--results FOLDER]

With --results, the table is also written to FOLDER/streams.md.
"""

import argparse
import io
import socket
import threading
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

import arrowwood as aw
from report import format_table, write_result
from turns import medians

COLUMNS = 16
CHUNKS = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]
ROUNDS = 5


def pyarrow_stream(sink, batches):
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink


def arrowwood_stream(sink, schema, batches):
    with aw.stream_writer(sink, schema) as writer:
        for batch in batches:
            writer.write(batch)
    return sink


def receive_bytes(stream):
    """Receives the bytes of a stream from a socket in one buffer."""
    buffer = np.empty(len(stream), dtype="uint8")
    with StreamSender(stream) as source:
        view, position = memoryview(buffer), 0
        while position < len(buffer):
            position += source.recv_into(view[position:])
    return buffer


class StreamSender:
    """A socket on loopback, to which a thread writes a stream."""

    def __init__(self, stream):
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.reader = socket.create_connection(server.getsockname())
            writer, _ = server.accept()
        self.thread = threading.Thread(target=lambda: (writer.sendall(stream), writer.close()))

    def __enter__(self):
        self.thread.start()
        return self.reader

    def __exit__(self, *_):
        self.thread.join()
        self.reader.close()


def receive_with_arrowwood(stream):
    with StreamSender(stream) as source:
        return aw.read_stream(source).read_all()


def receive_with_pyarrow(stream):
    with StreamSender(stream) as source:
        return pa.ipc.open_stream(source.makefile("rb")).read_all()


def check_sums(expected, *frames):
    for frame in frames:
        for number in (0, COLUMNS - 1):
            assert float(np.asarray(frame[f"c{number}"]).sum()) == expected[number]


def measure_chunk_size(size, base, buffer):
    """Measures everything with chunks of `size` bytes. Returns the figures by name."""
    step = size // 8 // COLUMNS
    rows = len(base[0])
    names = [f"c{number}" for number in range(COLUMNS)]
    batches = [
        pa.record_batch([pa.array(column[position : position + step]) for column in base], names=names)
        for position in range(0, rows, step)
    ]
    ours, schema = [aw.from_arrow(batch) for batch in batches], batches[0].schema
    gigabytes = sum(column.nbytes for column in base) / 1e9
    expected = {number: float(base[number].sum()) for number in (0, COLUMNS - 1)}
    figures = {}

    seconds, results = medians(
        {
            "pyarrow": lambda: pyarrow_stream(pa.BufferOutputStream(), batches).getvalue(),
            "arrowwood": lambda: arrowwood_stream(aw.Buffer(), schema, ours),
        },
        ROUNDS,
    )
    figures["write, growing"] = {name: gigabytes / median for name, median in seconds.items()}
    stream = results["pyarrow"]
    check_sums(expected, aw.open(results["arrowwood"]), aw.open(stream))
    del results

    # The buffer's pages are in memory already, so that page faults are not measured.
    preallocated = pa.py_buffer(buffer)
    seconds, _ = medians(
        {
            "pyarrow": lambda: pyarrow_stream(pa.FixedSizeBufferWriter(preallocated), batches),
            "arrowwood": lambda: arrowwood_stream(buffer, schema, ours),
        },
        ROUNDS,
    )
    figures["write, preallocated"] = {name: gigabytes / median for name, median in seconds.items()}
    # Only zeros may follow a stream.
    buffer.fill(0)
    check_sums(expected, aw.open(arrowwood_stream(buffer, schema, ours)))
    batches = ours = None  # frees their memory

    seconds, _ = medians(
        {
            "pyarrow": lambda: pa.ipc.open_stream(stream).read_all().num_rows,
            "arrowwood": lambda: len(aw.open(stream)),
        },
        ROUNDS,
    )
    figures["open, ms"] = {name: 1e3 * median for name, median in seconds.items()}

    file = io.BytesIO(stream)
    seconds, results = medians(
        {
            "pyarrow": lambda: pa.ipc.open_stream(stream).read_all().to_pandas(),
            "polars": lambda: file.seek(0) or pl.read_ipc_stream(file).rechunk(),
            "arrowwood": lambda: aw.open(stream).to_pandas(),
        },
        ROUNDS,
    )
    check_sums(expected, *results.values())
    figures["to a data frame"] = {name: gigabytes / median for name, median in seconds.items()}
    results = file = None

    seconds, results = medians(
        {
            "recv into one buffer": partial(receive_bytes, stream),
            "pyarrow": partial(receive_with_pyarrow, stream),
            "arrowwood": partial(receive_with_arrowwood, stream),
        },
        ROUNDS,
    )
    check_sums(expected, results["arrowwood"])
    figures["from a socket"] = {name: gigabytes / median for name, median in seconds.items()}
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mib", type=int, nargs="?", default=1024)
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    size = options.mib << 20
    random = np.random.default_rng(1)
    base = [random.random(size // 8 // COLUMNS) for _ in range(COLUMNS)]
    buffer = np.ones(size + size // 8 + (4 << 20), dtype="uint8")
    all_figures = {}
    for chunk_size in CHUNKS:
        all_figures[chunk_size] = measure_chunk_size(chunk_size, base, buffer)
        for what, by_name in all_figures[chunk_size].items():
            unit = "" if "ms" in what else " GB/s"
            best = by_name["arrowwood"] / by_name["pyarrow"]
            text = "  ".join(f"{name} {figure:.2f}{unit}" for name, figure in by_name.items())
            print(f"{chunk_size >> 10:6} KiB  {what:20}  {text}  ({best:.2f} x pyarrow)", flush=True)
    if options.results:
        about = f"By `make bench-streams`: {options.mib} MiB of 16 float64 columns in chunks; GB/s, except for *open*; × is against pyarrow."
        write_result(
            options.results, "streams", "Streams through memory and a socket", about, format_figures(all_figures)
        )


def format_figures(all_figures):
    """Formats a row for each size of chunks, with all figures and the ratio of arrowwood to pyarrow."""
    rows = []
    for size, figures in all_figures.items():
        cells = [f"{size >> 10} KiB"]
        for by_name in figures.values():
            ratio = by_name["arrowwood"] / by_name["pyarrow"]
            others = ", ".join(f"{name} {figure:.2f}" for name, figure in by_name.items() if name != "arrowwood")
            cells.append(f"{by_name['arrowwood']:.2f} (×{ratio:.2f}; {others})")
        rows.append(cells)
    return format_table(["chunk", *next(iter(all_figures.values()))], rows)


if __name__ == "__main__":
    main()
