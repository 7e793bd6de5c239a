"""Datasets as ranges of rows that other processes open; tables that change under them."""

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


def filled(path, rows, **options):
    writer = aw.writer(path, SCHEMA, sync="never", **options)
    writer.append({"n": list(range(rows))})
    writer.commit()
    return writer


def numbers(splits):
    return [n for split in splits for n in split.open()["n"].to_pylist()]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 99, 100, 1000])
def test_splits_are_the_rows(tmp_path, n):
    path = write_ipc(tmp_path / "x.arrow", pa.table({"n": range(100)}), max_rows=30)
    found = aw.open(path).splits(n)
    assert len(found) == min(n, 100) and numbers(found) == list(range(100))
    assert max(s.rows for s in found) - min(s.rows for s in found) <= 1
    assert all(s.path == path and type(s) is aw.Split for s in found)
    path, first_row, rows, partition, version = found[-1]
    assert first_row + rows == 100 and partition == () and version.startswith(f"{os.stat(path).st_size} bytes")
    assert numbers(pickle.loads(pickle.dumps(found))) == list(range(100))


def test_no_split_goes_over_the_end_of_a_file(tmp_path):
    for part, rows in enumerate([range(10), range(10, 11), range(11, 40)]):
        write_ipc(tmp_path / f"{part}.arrow", pa.table({"n": rows}))
    ds = aw.open(str(tmp_path / "*.arrow"))
    for n in [1, 2, 3, 4, 10]:
        found = ds.splits(n)
        assert numbers(found) == list(range(40)) and n <= len(found) <= n + 2
    assert numbers(ds[5:15].splits(2)) == list(range(5, 15))


def test_a_part_of_a_table(tmp_path):
    with filled(tmp_path / "t", 100, segment_rows=16):
        ds = aw.open(tmp_path / "t")
        assert numbers(ds[20:70].splits(4)) == list(range(20, 70))
        assert ds[20:20].splits(4) == []


def test_splits_stay_while_a_table_grows_and_is_compacted(tmp_path):
    with filled(tmp_path / "t", 100, segment_rows=16) as writer:
        found = aw.open(tmp_path / "t").splits(8)
        writer.append({"n": list(range(100, 200))})
        writer.commit()
        assert numbers(found) == list(range(100))
        writer.compact()
        assert numbers(found) == list(range(100))
        opened = [split.open() for split in found]
        writer.drop_before(40)
        assert [n for part in opened[4:] for n in part["n"].to_pylist()] == list(range(50, 100))
        assert numbers(found[4:]) == list(range(50, 100))
        for split in found[:2]:
            with pytest.raises(
                aw.RowOutOfRange, match=rf"opening rows {split.first_row} to .* there are rows 32 to 200"
            ):
                split.open()


def test_what_is_gone_is_an_error(tmp_path):
    path = write_ipc(tmp_path / "x.arrow", pa.table({"n": range(100)}))
    found = aw.open(path).splits(2)
    shutil.copy(write_ipc(tmp_path / "y.arrow", pa.table({"n": range(70)})), tmp_path / "z.arrow")
    (tmp_path / "z.arrow").rename(path)
    with pytest.raises(aw.FileChanged, match="replaced"):
        found[0].open()
    found = [split._replace(version=None) for split in found]
    assert numbers(found[:1]) == list(range(50))
    with pytest.raises(aw.RowOutOfRange, match="there are rows 0 to 70"):
        found[1].open()
    (tmp_path / "x.arrow").unlink()
    with pytest.raises(aw.NotFound, match="x.arrow"):
        found[0].open()


def test_what_cannot_be_split():
    ds = aw.from_arrow(pa.table({"n": [1]}))
    with pytest.raises(aw.InvalidArgument, match="in memory"):
        ds.splits(2)
    with pytest.raises(aw.InvalidArgument, match="at least 1"):
        ds.splits(0)


def test_another_process_opens_a_split(tmp_path):
    with filled(tmp_path / "t", 100):
        found = aw.open(tmp_path / "t").splits(4)
    code = "import pickle, sys; print(sum(pickle.load(sys.stdin.buffer).open()['n'].to_pylist()))"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(found[1]), capture_output=True)
    assert int(done.stdout) == sum(range(25, 50))


def test_a_thousand_splits_of_a_thousand_segments_cost_nothing(tmp_path):
    filled(tmp_path / "t", 16_000, segment_rows=16).close()
    ds = aw.open(tmp_path / "t")
    assert len(ds) == 16_000
    taken = []
    # No file is opened for them. What they take is time of the processor, of which the machine's other work has none.
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    for _ in range(5):
        start = time.thread_time()
        found = ds.splits(1000)
        taken.append(time.thread_time() - start)
    assert len(found) == 1000 and len(pickle.dumps(found)) < 100_000
    assert min(taken) < 0.02, taken


def test_relative_paths_stay_where_they_were(tmp_path, monkeypatch):
    """A file that was opened by a relative path once was looked for where the process was later: other rows,
    or none."""
    for folder, values in (("here", [1, 2, 3]), ("there", [7, 8, 9])):
        (tmp_path / folder).mkdir()
        aw.write({"n": values}, tmp_path / folder / "rel.arrow")
    monkeypatch.chdir(tmp_path / "here")
    ds = aw.open("rel.arrow")
    (split,) = ds.splits(1)
    monkeypatch.chdir(tmp_path / "there")
    assert ds.splits(1) == [split] and pathlib.Path(split.path).is_absolute()
    for found in (split.open(), ds.splits(1)[0].open(), pickle.loads(pickle.dumps(ds))):
        assert found["n"].to_pylist() == [1, 2, 3]
