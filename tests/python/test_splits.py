"""Tests splits: ranges of a dataset's rows that other processes open, also while the table changes."""

import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import time

import pyarrow as pa
import pytest

import arrowwood as aw
from conftest import write_ipc

SCHEMA = pa.schema({"n": pa.int64()})


def new_writer(path, rows, **options):
    """Returns the open writer of a new table whose column `n` has the numbers of its rows."""
    writer = aw.writer(path, SCHEMA, sync="never", **options)
    writer.append({"n": list(range(rows))})
    writer.commit()
    return writer


def read_numbers(splits):
    return [n for split in splits for n in split.open()["n"].to_pylist()]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 99, 100, 1000])
def test_splits_cover_all_rows_evenly(tmp_path, count):
    path = write_ipc(tmp_path / "x.arrow", pa.table({"n": range(100)}), max_rows=30)
    splits = aw.open(path).splits(count)
    assert len(splits) == min(count, 100) and read_numbers(splits) == list(range(100))
    sizes = [split.rows for split in splits]
    assert max(sizes) - min(sizes) <= 1
    assert all(split.path == path and type(split) is aw.Split for split in splits)
    path, first_row, rows, partition, version = splits[-1]
    assert first_row + rows == 100 and partition == () and version.startswith(f"{os.stat(path).st_size} bytes")
    assert read_numbers(pickle.loads(pickle.dumps(splits))) == list(range(100))


def test_splits_do_not_cross_files(tmp_path):
    for part, rows in enumerate([range(10), range(10, 11), range(11, 40)]):
        write_ipc(tmp_path / f"{part}.arrow", pa.table({"n": rows}))
    ds = aw.open(str(tmp_path / "*.arrow"))
    for count in [1, 2, 3, 4, 10]:
        splits = ds.splits(count)
        # The two borders between files may add a split each.
        assert read_numbers(splits) == list(range(40)) and count <= len(splits) <= count + 2
    assert read_numbers(ds[5:15].splits(2)) == list(range(5, 15))


def test_splits_of_a_slice_cover_only_the_slice(tmp_path):
    with new_writer(tmp_path / "t", 100, segment_rows=16):
        ds = aw.open(tmp_path / "t")
        assert read_numbers(ds[20:70].splits(4)) == list(range(20, 70))
        assert ds[20:20].splits(4) == []


def test_splits_keep_their_rows_while_the_table_grows_and_is_compacted(tmp_path):
    with new_writer(tmp_path / "t", 100, segment_rows=16) as writer:
        splits = aw.open(tmp_path / "t").splits(8)
        writer.append({"n": list(range(100, 200))})
        writer.commit()
        assert read_numbers(splits) == list(range(100))
        writer.compact()
        assert read_numbers(splits) == list(range(100))
        opened = [split.open() for split in splits]
        writer.drop_before(40)
        # Datasets that were open keep dropped rows, and later splits are found by their row numbers.
        assert [n for part in opened[4:] for n in part["n"].to_pylist()] == list(range(50, 100))
        assert read_numbers(splits[4:]) == list(range(50, 100))
        for split in splits[:2]:
            message = rf"opening rows {split.first_row} to .* there are rows 32 to 200"
            with pytest.raises(aw.RowOutOfRange, match=message):
                split.open()


def test_open_fails_if_the_file_was_replaced_or_removed(tmp_path):
    path = write_ipc(tmp_path / "x.arrow", pa.table({"n": range(100)}))
    splits = aw.open(path).splits(2)
    shutil.copy(write_ipc(tmp_path / "y.arrow", pa.table({"n": range(70)})), tmp_path / "z.arrow")
    (tmp_path / "z.arrow").rename(path)
    with pytest.raises(aw.FileChanged, match="replaced"):
        splits[0].open()
    splits_of_any_version = [split._replace(version=None) for split in splits]
    assert read_numbers(splits_of_any_version[:1]) == list(range(50))
    with pytest.raises(aw.RowOutOfRange, match="there are rows 0 to 70"):
        splits_of_any_version[1].open()
    (tmp_path / "x.arrow").unlink()
    with pytest.raises(aw.NotFound, match="x.arrow"):
        splits_of_any_version[0].open()


def test_splits_refuses_data_in_memory_and_a_count_of_zero():
    ds = aw.from_arrow(pa.table({"n": [1]}))
    with pytest.raises(aw.InvalidArgument, match="in memory"):
        ds.splits(2)
    with pytest.raises(aw.InvalidArgument, match="at least 1"):
        ds.splits(0)


def test_another_process_opens_a_split(tmp_path):
    with new_writer(tmp_path / "t", 100):
        splits = aw.open(tmp_path / "t").splits(4)
    code = "import pickle, sys; print(sum(pickle.load(sys.stdin.buffer).open()['n'].to_pylist()))"
    process = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(splits[1]), capture_output=True)
    assert int(process.stdout) == sum(range(25, 50))


def test_a_thousand_splits_of_a_thousand_segments_are_cheap(tmp_path):
    new_writer(tmp_path / "t", 16_000, segment_rows=16).close()
    ds = aw.open(tmp_path / "t")
    assert len(ds) == 16_000
    # Without the table at its path, `splits` fails if it opens a file.
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    cpu_seconds = []
    for _ in range(5):
        # Measure this thread's CPU time, as other processes delay the wall clock.
        start = time.thread_time()
        splits = ds.splits(1000)
        cpu_seconds.append(time.thread_time() - start)
    assert len(splits) == 1000 and len(pickle.dumps(splits)) < 100_000
    assert min(cpu_seconds) < 0.02, cpu_seconds


def test_relative_paths_are_resolved_when_a_file_is_opened(tmp_path, monkeypatch):
    """Such files were once looked up in the later working directory: their rows were others, or missing."""
    for folder, values in (("first", [1, 2, 3]), ("second", [7, 8, 9])):
        (tmp_path / folder).mkdir()
        aw.write({"n": values}, tmp_path / folder / "rel.arrow")
    monkeypatch.chdir(tmp_path / "first")
    ds = aw.open("rel.arrow")
    (split,) = ds.splits(1)
    monkeypatch.chdir(tmp_path / "second")
    assert ds.splits(1) == [split] and pathlib.Path(split.path).is_absolute()
    for reopened in (split.open(), ds.splits(1)[0].open(), pickle.loads(pickle.dumps(ds))):
        assert reopened["n"].to_pylist() == [1, 2, 3]
