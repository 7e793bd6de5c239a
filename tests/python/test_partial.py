"""Tests opening files and streams that were cut off while being written."""

import pyarrow as pa
import pytest

import arrowwood as aw


@pytest.mark.parametrize("format", ["file", "stream"])
def test_partial_open_reads_up_to_the_last_complete_batch(tmp_path, format):
    path = tmp_path / "cut.arrow"
    aw.write(pa.table({"n": list(range(30))}), path, format=format, max_rows=10)
    assert aw.open(path, partial=True).left == []
    last_body = aw.open(path).messages[-1]["body_offset"]
    # Cuts the file inside the body of the last batch.
    path.write_bytes(path.read_bytes()[: last_body + 8])
    with pytest.raises(aw.InvalidData, match="truncated"):
        len(aw.open(path))
    ds = aw.open(path, partial=True)
    assert ds["n"].to_pylist() == list(range(20))
    assert len(ds.left) == 1 and ds.left[0].startswith("valid up to batch 2, row 20: truncated")
