"""Wes McKinney's experiment (Streaming Columnar Data with Apache Arrow, 2017): 16 columns of float64 in chunks of 16
KiB to 16 MiB, written to memory, read back, made a data frame. In one run, in turns with pyarrow and Polars, medians.

    python bench/streams.py [MIB] [--no-plots]
"""

import io
import socket
import sys
import threading

import numpy as np
import polars as pl
import pyarrow as pa

import arrowwood as aw
from plot import lines
from report import DOCS, put
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


def received(stream):
    """The bytes of a stream from a socket into one buffer."""

    def way():
        room = np.empty(len(stream), dtype="uint8")
        with sender(stream) as source:
            view, at = memoryview(room), 0
            while at < len(room):
                at += source.recv_into(view[at:])
        return room

    return way


class sender:
    """A socket on loopback from which a stream comes."""

    def __init__(self, stream):
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.here = socket.create_connection(server.getsockname())
            there, _ = server.accept()
        self.thread = threading.Thread(target=lambda: (there.sendall(stream), there.close()))

    def __enter__(self):
        self.thread.start()
        return self.here

    def __exit__(self, *_):
        self.thread.join()
        self.here.close()


def columns_from(stream):
    def way():
        with sender(stream) as source:
            return aw.read_stream(source).read_all()

    return way


def pyarrow_columns_from(stream):
    def way():
        with sender(stream) as source:
            return pa.ipc.open_stream(source.makefile("rb")).read_all()

    return way


def agree(expected, *frames):
    for frame in frames:
        for number in (0, COLUMNS - 1):
            assert float(np.asarray(frame[f"c{number}"]).sum()) == expected[number]


def chunk(size, base, room):
    """All that is measured with chunks of `size` bytes: figures by name."""
    step = size // 8 // COLUMNS
    rows = len(base[0])
    names = [f"c{number}" for number in range(COLUMNS)]
    batches = [
        pa.record_batch([pa.array(column[at : at + step]) for column in base], names=names)
        for at in range(0, rows, step)
    ]
    ours, schema = [aw.from_arrow(batch) for batch in batches], batches[0].schema
    gigabytes = sum(column.nbytes for column in base) / 1e9
    expected = {number: float(base[number].sum()) for number in (0, COLUMNS - 1)}
    figures = {}

    taken, given = medians(
        {
            "pyarrow": lambda: pyarrow_stream(pa.BufferOutputStream(), batches).getvalue(),
            "arrowwood": lambda: arrowwood_stream(aw.Buffer(), schema, ours),
        },
        ROUNDS,
    )
    figures["write, growing"] = {name: gigabytes / seconds for name, seconds in taken.items()}
    stream = given["pyarrow"]
    agree(expected, aw.open(given["arrowwood"]), aw.open(stream))
    del given

    touched = pa.py_buffer(room)
    taken, _ = medians(
        {
            "pyarrow": lambda: pyarrow_stream(pa.FixedSizeBufferWriter(touched), batches),
            "arrowwood": lambda: arrowwood_stream(room, schema, ours),
        },
        ROUNDS,
    )
    figures["write, preallocated"] = {name: gigabytes / seconds for name, seconds in taken.items()}
    agree(expected, aw.open(room))
    batches = ours = None  # frees them

    taken, _ = medians(
        {
            "pyarrow": lambda: pa.ipc.open_stream(stream).read_all().num_rows,
            "arrowwood": lambda: len(aw.open(stream)),
        },
        ROUNDS,
    )
    figures["open, ms"] = {name: 1e3 * seconds for name, seconds in taken.items()}

    file = io.BytesIO(stream)
    taken, given = medians(
        {
            "pyarrow": lambda: pa.ipc.open_stream(stream).read_all().to_pandas(),
            "polars": lambda: file.seek(0) or pl.read_ipc_stream(file).rechunk(),
            "arrowwood": lambda: aw.open(stream).to_pandas(),
        },
        ROUNDS,
    )
    agree(expected, *given.values())
    figures["to a data frame"] = {name: gigabytes / seconds for name, seconds in taken.items()}
    given = file = None

    taken, given = medians(
        {
            "recv into one buffer": received(stream),
            "pyarrow": pyarrow_columns_from(stream),
            "arrowwood": columns_from(stream),
        },
        ROUNDS,
    )
    agree(expected, given["arrowwood"])
    figures["from a socket"] = {name: gigabytes / seconds for name, seconds in taken.items()}
    return figures


def main():
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    size = (int(arguments[0]) if arguments else 1024) << 20
    random = np.random.default_rng(1)
    base = [random.random(size // 8 // COLUMNS) for _ in range(COLUMNS)]
    room = np.ones(size + size // 8 + (4 << 20), dtype="uint8")
    all_figures = {}
    for chunk_size in CHUNKS:
        all_figures[chunk_size] = chunk(chunk_size, base, room)
        for what, by_name in all_figures[chunk_size].items():
            unit = "" if "ms" in what else " GB/s"
            best = by_name["arrowwood"] / by_name["pyarrow"]
            text = "  ".join(f"{name} {figure:.2f}{unit}" for name, figure in by_name.items())
            print(f"{chunk_size >> 10:6} KiB  {what:20}  {text}  ({best:.2f} x pyarrow)", flush=True)
    if "--no-plots" not in sys.argv:
        plots(all_figures, size)
        put(DOCS / "benchmarks.md", "streams", table(all_figures))


def table(all_figures):
    """A row for each size of chunks, with each way's figure and what ours is against pyarrow's."""
    rows = ["| chunk | " + " | ".join(next(iter(all_figures.values()))) + " |"]
    rows.append("| --- " * (rows[0].count("|") - 1) + "|")
    for size, figures in all_figures.items():
        cells = [f"{size >> 10} KiB"]
        for by_name in figures.values():
            ratio = by_name["arrowwood"] / by_name["pyarrow"]
            others = ", ".join(f"{name} {figure:.2f}" for name, figure in by_name.items() if name != "arrowwood")
            cells.append(f"{by_name['arrowwood']:.2f} (×{ratio:.2f}; {others})")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def plots(all_figures, size):
    sizes = list(all_figures)
    for what, by_name in all_figures[sizes[0]].items():
        unit = "milliseconds" if "ms" in what else "GB/s"
        name = what.replace(",", "").replace(" ", "-")
        series = {way: [all_figures[chunk][what][way] for chunk in sizes] for way in by_name}
        title = f"{size >> 20} MiB of 16 float64 columns: {what}"
        lines(f"docs/plots/stream-{name}.svg", title, "bytes per chunk", unit, sizes, series)


if __name__ == "__main__":
    main()
