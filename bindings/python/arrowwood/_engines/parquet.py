"""Reads and writes Parquet files with pyarrow."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from arrowwood import _arrowwood
from arrowwood._extras import engine


def read_parquet(source: Any, *, columns: list[str] | None = None) -> "_arrowwood.Dataset":
    """Read a Parquet file, or a directory of them, into memory, by pyarrow.

    Parquet is decoded at each read: for data that is read often, write an Arrow file once, ``aw.write(ds, "x.arrow")``.

    Args:
        source: a path, or an object with ``read()``.
        columns: the columns to read; by default all.

    Raises:
        ImportError: pyarrow is not installed: ``pip install 'arrowwood[parquet]'``.
        OSError, pyarrow.ArrowInvalid: the file can't be read; the message is pyarrow's.
    """
    parquet = engine("pyarrow.parquet", "read_parquet()", "parquet")
    if isinstance(source, str):
        source = _arrowwood._local_path(source)
    return _arrowwood.from_arrow(parquet.read_table(source, columns=columns))


def write(dataset: "_arrowwood.Dataset", path: Any, compression: str | None, max_rows: int | None) -> None:
    """Writes a Parquet file with row groups of about a million rows. It gets its name when it is complete."""
    parquet = engine("pyarrow.parquet", "write() of Parquet", "parquet")
    step = max_rows or 1 << 20
    with _unfinished(path) as file:
        with parquet.ParquetWriter(file, dataset[:0].to_arrow().schema, compression=compression or "snappy") as writer:
            for start in range(0, len(dataset), step):
                writer.write_table(dataset[start : start + step].to_arrow(), row_group_size=step)


@contextmanager
def _unfinished(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file that is named `path` once it was written without an error.

    A killed process leaves no file behind if the file system supports unnamed files (``O_TMPFILE``).
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(path.parent, os.O_RDWR | os.O_TMPFILE, 0o666)
        is_named = False
    except (AttributeError, OSError):
        # Windows would convert line ends.
        binary = getattr(os, "O_BINARY", 0)
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | binary, 0o666)
        is_named = True
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if not is_named:
                part.unlink(missing_ok=True)
                # Python only follows this link if a directory descriptor is given; absolute paths ignore it.
                os.link(f"/proc/self/fd/{descriptor}", part, src_dir_fd=descriptor, follow_symlinks=True)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
