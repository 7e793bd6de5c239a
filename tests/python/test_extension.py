"""Extension types are shown as what they are, and kept for those who know them."""

import uuid

import pyarrow as pa
import pytest

import arrowwood as aw


@pytest.fixture
def table():
    ids = [uuid.UUID(int=i + 1) for i in range(3)]
    storage = pa.array([i.bytes for i in ids[:2]] + [None], pa.binary(16))
    tensor = pa.fixed_shape_tensor(pa.int32(), [2, 2])
    return pa.table(
        {
            "id": pa.ExtensionArray.from_storage(pa.uuid(), storage),
            "flag": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8())),
            "doc": pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(['{"a": 1}', "[]", None])),
            "tensor": pa.ExtensionArray.from_storage(
                tensor, pa.array([[1, 2, 3, 4], [5, 6, 7, 8], None], pa.list_(pa.int32(), 4))
            ),
        }
    )


@pytest.mark.parametrize("format", ["file", "stream"])
def test_values_and_types(table, tmp_path, format):
    path = tmp_path / "x.arrow"
    aw.write(table, path, format=format)
    ds = aw.open(path)
    expected = table.select(["id", "flag", "doc"]).to_pylist()
    assert ds.select(["id", "flag", "doc"]).to_pylist() == expected
    assert ds["tensor"].to_pylist() == [[1, 2, 3, 4], [5, 6, 7, 8], None]
    assert ds.to_arrow().schema.equals(table.schema, check_metadata=True)
    assert "extension<arrow.uuid>" in repr(ds)


def test_inside_lists_and_structs(tmp_path):
    id = uuid.UUID(int=7)
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([id.bytes], pa.binary(16)))
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), ids)
    structs = pa.StructArray.from_arrays([ids], names=["id"])
    aw.write(pa.table({"l": lists, "s": structs}), tmp_path / "x.arrow")
    assert aw.open(tmp_path / "x.arrow")[0] == {"l": [id], "s": {"id": id}}
