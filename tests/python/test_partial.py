"""Files and streams that were cut off while being written."""

import pyarrow as pa
import pytest

import arrowwood as aw


@pytest.mark.parametrize("format", ["file", "stream"])
def test_up_to_the_last_whole_batch(tmp_path, format):
    path = tmp_path / "cut.arrow"
    aw.write(pa.table({"n": list(range(30))}), path, format=format, max_rows=10)
    assert aw.open(path, partial=True).left == []
    whole = path.read_bytes()
    end = aw.open(path).messages[-1]["body_offset"]
    path.write_bytes(whole[: end + 8])  # inside the last batch's body
    with pytest.raises(aw.InvalidData, match="truncated"):
        len(aw.open(path))
    ds = aw.open(path, partial=True)
    assert ds["n"].to_pylist() == list(range(20))
    assert len(ds.left) == 1 and ds.left[0].startswith("valid up to batch 2, row 20: truncated")
