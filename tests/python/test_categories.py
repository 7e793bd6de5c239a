"""Tests that ordered categories are compared, sorted and aggregated by their order, as in pandas and Polars."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import arrowwood as aw

SIZES = ["S", "M", "L", "XL"]
ROWS = ["L", "S", None, "M", "L", "XL", "S"]


def size_frame(rows=ROWS, categories=SIZES):
    """Returns a data frame with the ordered categorical column `size`, and a column `n` of row numbers."""
    return pd.DataFrame({"size": pd.Categorical(rows, categories, ordered=True), "n": range(len(rows))})


def open_file(folder):
    aw.write(size_frame(), folder / "f.arrow")
    return aw.open(folder / "f.arrow")


def open_table(folder):
    with aw.writer(folder / "t", aw.from_arrow(size_frame()).schema) as writer:
        # The first categories arrive out of order, and the second batch lacks one.
        writer.append(size_frame(ROWS[:2]))
        writer.commit()
        writer.append(size_frame(ROWS[2:4], ["S", "M", "L"]))
        writer.append([{"size": size, "n": 0} for size in ROWS[4:]])
    return aw.open(folder / "t")


def open_several_files(folder):
    aw.write(size_frame(ROWS[:3]), folder / "a.arrow")
    aw.write(size_frame(ROWS[3:5], ["M", "L"]), folder / "b.arrow")
    aw.write(size_frame(ROWS[5:], ["S", "XL"]), folder / "c.arrow")
    return aw.open([folder / "a.arrow", folder / "b.arrow", folder / "c.arrow"])


def import_polars_enum(_):
    return aw.from_arrow(pl.DataFrame({"size": pl.Series(ROWS, dtype=pl.Enum(SIZES))}))


@pytest.mark.parametrize("open_rows", [open_file, open_table, open_several_files, import_polars_enum])
def test_categories_are_compared_and_sorted_by_their_order(tmp_path, open_rows):
    ds = open_rows(tmp_path)
    reference = pl.DataFrame({"size": pl.Series(ROWS, dtype=pl.Enum(SIZES))})
    assert ds["size"].to_pylist() == ROWS
    for size in SIZES:
        for condition in [
            lambda col: col > size,
            lambda col: col >= size,
            lambda col: col < size,
            lambda col: col <= size,
            lambda col: col == size,
            lambda col: ~(col < size),
        ]:
            expected = reference.filter(condition(pl.col("size")))["size"].to_list()
            assert ds.filter(condition(aw.col("size")))["size"].to_pylist() == expected
    sorted_by_pandas = size_frame()["size"].sort_values(na_position="last")
    assert ds.sort("size")["size"].to_pylist() == [None if pd.isna(size) else size for size in sorted_by_pandas]
    assert ds.sort("size", descending=True)["size"][0] == "XL"
    assert (ds["size"].min(), ds["size"].max()) == ("S", "XL")
    extremes = ds.aggregate(smallest=("size", "min"), largest=("size", "max"))
    assert extremes.to_pylist() == [{"smallest": "S", "largest": "XL"}]
    assert ds[:4].aggregate(by="size", largest=("size", "max"))["largest"].to_pylist() == ROWS[:4]
    assert ds.filter(aw.col("size").is_between("M", "L"))["size"].to_pylist() == ["L", "M", "L"]


@pytest.mark.parametrize("open_rows", [open_file, open_table, open_several_files])
def test_converted_and_written_rows_keep_the_order(tmp_path, open_rows):
    ds = open_rows(tmp_path)
    selections = [
        ds,
        ds.sort("size"),
        ds.collect(),
        ds.filter(aw.col("size") > "S"),
        ds.shuffle(1),
        ds.take([0, 5, 3]),
    ]
    for rows in selections:
        for frame in [rows.to_pandas(), rows.to_arrow().combine_chunks().to_pandas()]:
            assert frame["size"].cat.ordered
            categories = [size for size in frame["size"].cat.categories if size in SIZES]
            assert categories == sorted(categories, key=SIZES.index)
    aw.write(ds, tmp_path / "written.arrow")
    reopened = aw.open(tmp_path / "written.arrow")
    assert reopened.sort("size")["size"].to_pylist() == ds.sort("size")["size"].to_pylist()
    column = pa.ipc.open_file(tmp_path / "written.arrow").read_all()["size"].combine_chunks()
    assert column.dictionary.to_pylist() == SIZES and column.type.ordered


def test_a_table_accepts_new_last_categories_and_refuses_another_order(tmp_path):
    with aw.writer(tmp_path / "t", aw.from_arrow(size_frame()).schema, segment_rows=4) as writer:
        writer.append(size_frame(["L"]))
        writer.commit()
        aggregation = aw.aggregation(tmp_path / "t", largest=("size", "max"), smallest=("size", "min"))
        for size in ["M", "S", "XL", "M"] * 3:
            writer.append_row(size=size, n=0)
            writer.commit()
            extremes = aggregation.refresh()
        assert extremes.to_pylist() == [{"largest": "XL", "smallest": "S"}]
        writer.append(size_frame(["XXL"], [*SIZES, "XXL"]))
        with pytest.raises(aw.SchemaMismatch, match="column 'size': the ordered categories are in another order"):
            writer.append(size_frame(["S"], ["M", "S"]))
        with pytest.raises(aw.SchemaMismatch, match="another order"):
            writer.append(size_frame(["XS"], ["XS", "S"]))
        # Unordered categories fit any order.
        writer.append(pd.DataFrame({"size": pd.Categorical(["S"], ["M", "S"]), "n": [0]}))
    ds = aw.open(tmp_path / "t")
    assert ds["size"].max() == "XXL" and len(ds) == 15
    assert ds.filter(aw.col("size") > "XL")["size"].to_pylist() == ["XXL"]


def test_comparing_with_an_unknown_category_is_refused(tmp_path):
    ds = open_file(tmp_path)
    message = r"column 'size': \"XS\" is none of its ordered categories S < M < L < XL"
    with pytest.raises(aw.InvalidArgument, match=message):
        ds.filter(aw.col("size") > "XS")
    assert len(ds.filter(aw.col("size") == "XS")) == 0
    with pytest.raises(aw.InvalidArgument, match="can't be compared with 3"):
        ds.filter(aw.col("size") > 3)
    aw.write(size_frame(["S"], SIZES[::-1]), tmp_path / "reversed.arrow")
    both_orders = aw.concat([ds, aw.open(tmp_path / "reversed.arrow")])
    for call in [
        lambda: both_orders.sort("size"),
        lambda: both_orders.collect(),
        lambda: aw.write(both_orders, tmp_path / "x.arrow"),
    ]:
        with pytest.raises(aw.InvalidArgument, match="different orders"):
            call()


def test_unordered_categories_are_compared_as_text():
    frame = pd.DataFrame({"size": pd.Categorical(["S", "L", "M"], SIZES)})
    ds = aw.from_arrow(frame)
    assert ds.sort("size")["size"].to_pylist() == ["L", "M", "S"]
    assert ds.filter(aw.col("size") > "L")["size"].to_pylist() == ["S", "M"]


def test_ordered_dictionaries_of_numbers_are_compared_by_their_order():
    values = pa.array([3, 1, 2], pa.int64())
    keys = pa.array([0, 1, 2, None, 0], pa.int8())
    column = pa.DictionaryArray.from_arrays(keys, values, ordered=True)
    ds = aw.from_arrow(pa.table({"n": column}))
    assert ds.sort("n")["n"].to_pylist() == [3, 3, 1, 2, None]
    assert ds.filter(aw.col("n") < 1)["n"].to_pylist() == [3, 3]
    assert (ds["n"].min(), ds["n"].max()) == (3, 2)
    assert ds.aggregate(largest=("n", "max")).to_pylist() == [{"largest": 2}]


def test_csv_columns_are_unordered_and_fit_an_ordered_table(tmp_path):
    (tmp_path / "a.csv").write_text("size,n\nL,1\nS,2\n")
    schema = pa.schema({"size": pa.dictionary(pa.int8(), pa.string(), ordered=True), "n": pa.int64()})
    rows = aw.read_csv(tmp_path / "a.csv", schema=schema)
    assert not rows.to_arrow().schema.field("size").type.ordered
    with aw.writer(tmp_path / "t", schema) as writer:
        writer.append(size_frame(["M"]))
        writer.append(rows)
    assert aw.open(tmp_path / "t").sort("size")["size"].to_pylist() == ["S", "M", "L"]


def test_server_compares_categories_by_their_order(tmp_path):
    open_table(tmp_path)
    with aw.serve(tmp_path) as server, aw.connect(server.url) as connection:
        table = connection["t"]
        assert table.rows(where="size > 'M'")["size"].to_pylist() == ["L", "L", "XL"]
        assert table.rows(where="size <= 'S'")["size"].to_pylist() == ["S", "S"]
        with pytest.raises(aw.InvalidArgument, match="none of its ordered categories S < M < L < XL"):
            table.rows(where="size > 'XS'")
