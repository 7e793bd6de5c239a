"""Tests that extension types are decoded to Python values, and kept when data is written and exported."""

import uuid

import pyarrow as pa
import pytest

import arrowwood as aw


@pytest.fixture
def table():
    ids = [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes, None]
    tensors = [[1, 2, 3, 4], [5, 6, 7, 8], None]
    from_storage = pa.ExtensionArray.from_storage
    return pa.table(
        {
            "id": from_storage(pa.uuid(), pa.array(ids, pa.binary(16))),
            "flag": from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8())),
            "doc": from_storage(pa.json_(pa.string()), pa.array(['{"a": 1}', "[]", None])),
            "tensor": from_storage(
                pa.fixed_shape_tensor(pa.int32(), [2, 2]), pa.array(tensors, pa.list_(pa.int32(), 4))
            ),
        }
    )


@pytest.mark.parametrize("format", ["file", "stream"])
def test_written_extension_types_are_read_back(table, tmp_path, format):
    path = tmp_path / "x.arrow"
    aw.write(table, path, format=format)
    ds = aw.open(path)
    expected = table.select(["id", "flag", "doc"]).to_pylist()
    assert ds.select(["id", "flag", "doc"]).to_pylist() == expected
    assert ds["tensor"].to_pylist() == [[1, 2, 3, 4], [5, 6, 7, 8], None]
    assert ds.to_arrow().schema.equals(table.schema, check_metadata=True)
    assert "extension<arrow.uuid>" in repr(ds)


def test_all_nonzero_bytes_of_bool8_are_the_same_true():
    """Writers store 1 for true, but the type allows any byte except 0."""
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None, 2, -1, 3, 0], pa.int8()))
    ds = aw.from_arrow(pa.table({"flag": flags, "n": range(7)}))
    assert ds["flag"].n_unique() == 3 and ds["flag"].unique().to_pylist() == [True, False, None]
    counts = [(True, 4), (False, 2), (None, 1)]
    assert [tuple(row.values()) for row in ds["flag"].value_counts()] == counts
    assert [tuple(row.values()) for row in ds.aggregate("flag", m="count")] == counts
    assert ds.aggregate(m=("flag", "n_unique"))[0] == {"m": 3} and ds.unique("flag")["n"].to_pylist() == [0, 1, 2]


def test_extension_types_inside_lists_and_structs_are_decoded(tmp_path):
    id = uuid.UUID(int=7)
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([id.bytes], pa.binary(16)))
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), ids)
    structs = pa.StructArray.from_arrays([ids], names=["id"])
    aw.write(pa.table({"l": lists, "s": structs}), tmp_path / "x.arrow")
    assert aw.open(tmp_path / "x.arrow")[0] == {"l": [id], "s": {"id": id}}
