"""Ordered categories are compared, sorted and have extremes by their order, as in pandas and Polars."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import arrowwood as aw

SIZES = ["S", "M", "L", "XL"]
ROWS = ["L", "S", None, "M", "L", "XL", "S"]


def sizes(rows=ROWS, categories=SIZES):
    return pd.DataFrame({"size": pd.Categorical(rows, categories, ordered=True), "n": range(len(rows))})


def file(path):
    aw.write(sizes(), path / "f.arrow")
    return aw.open(path / "f.arrow")


def table(path):
    with aw.writer(path / "t", aw.from_arrow(sizes()).schema) as writer:
        # Rows come in another order than their categories, and one batch lacks some of them.
        writer.append(sizes(ROWS[:2]))
        writer.commit()
        writer.append(sizes(ROWS[2:4], ["S", "M", "L"]))
        writer.append([{"size": size, "n": 0} for size in ROWS[4:]])
    return aw.open(path / "t")


def several(path):
    aw.write(sizes(ROWS[:3]), path / "a.arrow")
    aw.write(sizes(ROWS[3:5], ["M", "L"]), path / "b.arrow")
    aw.write(sizes(ROWS[5:], ["S", "XL"]), path / "c.arrow")
    return aw.open([path / "a.arrow", path / "b.arrow", path / "c.arrow"])


def enum(_):
    return aw.from_arrow(pl.DataFrame({"size": pl.Series(ROWS, dtype=pl.Enum(SIZES))}))


@pytest.mark.parametrize("place", [file, table, several, enum])
def test_they_are_in_their_order(tmp_path, place):
    ds = place(tmp_path)
    theirs = pl.DataFrame({"size": pl.Series(ROWS, dtype=pl.Enum(SIZES))})
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
            right = theirs.filter(condition(pl.col("size")))["size"].to_list()
            assert ds.filter(condition(aw.col("size")))["size"].to_pylist() == right
    right = sizes()["size"].sort_values(na_position="last").tolist()
    assert ds.sort("size")["size"].to_pylist() == [None if size != size else size for size in right]
    assert ds.sort("size", descending=True)["size"][0] == "XL"
    assert (ds["size"].min(), ds["size"].max()) == ("S", "XL")
    assert ds.aggregate(least=("size", "min"), most=("size", "max")).to_pylist() == [{"least": "S", "most": "XL"}]
    assert ds[:4].aggregate(by="size", most=("size", "max"))["most"].to_pylist() == ROWS[:4]
    assert ds.filter(aw.col("size").is_between("M", "L"))["size"].to_pylist() == ["L", "M", "L"]


@pytest.mark.parametrize("place", [file, table, several])
def test_who_reads_on_gets_the_same_order(tmp_path, place):
    ds = place(tmp_path)
    for rows in [ds, ds.sort("size"), ds.collect(), ds.filter(aw.col("size") > "S"), ds.shuffle(1), ds.take([0, 5, 3])]:
        for frame in [rows.to_pandas(), rows.to_arrow().combine_chunks().to_pandas()]:
            assert frame["size"].cat.ordered
            known = [size for size in frame["size"].cat.categories if size in SIZES]
            assert known == sorted(known, key=SIZES.index)
    aw.write(ds, tmp_path / "again.arrow")
    again = aw.open(tmp_path / "again.arrow")
    assert again.sort("size")["size"].to_pylist() == ds.sort("size")["size"].to_pylist()
    written = pa.ipc.open_file(tmp_path / "again.arrow").read_all()["size"].combine_chunks()
    assert written.dictionary.to_pylist() == SIZES and written.type.ordered


def test_a_table_that_grows(tmp_path):
    with aw.writer(tmp_path / "t", aw.from_arrow(sizes()).schema, segment_rows=4) as writer:
        writer.append(sizes(["L"]))
        writer.commit()
        aggregation = aw.aggregation(tmp_path / "t", most=("size", "max"), least=("size", "min"))
        for row in ["M", "S", "XL", "M"] * 3:
            writer.append_row(size=row, n=0)
            writer.commit()
            found = aggregation.refresh()
        assert found.to_pylist() == [{"most": "XL", "least": "S"}]
        # A new one comes behind all others.
        writer.append(sizes(["XXL"], [*SIZES, "XXL"]))
        with pytest.raises(aw.SchemaMismatch, match="column 'size': the ordered categories are in another order"):
            writer.append(sizes(["S"], ["M", "S"]))
        with pytest.raises(aw.SchemaMismatch, match="another order"):
            writer.append(sizes(["XS"], ["XS", "S"]))
        # Who claims no order brings none.
        writer.append(pd.DataFrame({"size": pd.Categorical(["S"], ["M", "S"]), "n": [0]}))
    ds = aw.open(tmp_path / "t")
    assert ds["size"].max() == "XXL" and len(ds) == 15
    assert ds.filter(aw.col("size") > "XL")["size"].to_pylist() == ["XXL"]


def test_what_has_no_place_in_the_order_is_refused(tmp_path):
    ds = file(tmp_path)
    message = r"column 'size': \"XS\" is none of its ordered categories S < M < L < XL"
    with pytest.raises(aw.InvalidArgument, match=message):
        ds.filter(aw.col("size") > "XS")
    assert len(ds.filter(aw.col("size") == "XS")) == 0
    with pytest.raises(aw.InvalidArgument, match="can't be compared with 3"):
        ds.filter(aw.col("size") > 3)
    aw.write(sizes(["S"], SIZES[::-1]), tmp_path / "turned.arrow")
    both = aw.concat([ds, aw.open(tmp_path / "turned.arrow")])
    for asked in [lambda: both.sort("size"), lambda: both.collect(), lambda: aw.write(both, tmp_path / "x.arrow")]:
        with pytest.raises(aw.InvalidArgument, match="different orders"):
            asked()


def test_categories_without_an_order_are_text(tmp_path):
    frame = pd.DataFrame({"size": pd.Categorical(["S", "L", "M"], SIZES)})
    ds = aw.from_arrow(frame)
    assert ds.sort("size")["size"].to_pylist() == ["L", "M", "S"]
    assert ds.filter(aw.col("size") > "L")["size"].to_pylist() == ["S", "M"]


def test_numbers_and_times_may_have_an_order_of_their_own():
    values = pa.array([3, 1, 2], pa.int64())
    keys = pa.array([0, 1, 2, None, 0], pa.int8())
    column = pa.DictionaryArray.from_arrays(keys, values, ordered=True)
    ds = aw.from_arrow(pa.table({"n": column}))
    assert ds.sort("n")["n"].to_pylist() == [3, 3, 1, 2, None]
    assert ds.filter(aw.col("n") < 1)["n"].to_pylist() == [3, 3]
    assert (ds["n"].min(), ds["n"].max()) == (3, 2)
    assert ds.aggregate(most=("n", "max")).to_pylist() == [{"most": 2}]


def test_text_that_is_read_has_no_order(tmp_path):
    (tmp_path / "a.csv").write_text("size,n\nL,1\nS,2\n")
    schema = pa.schema({"size": pa.dictionary(pa.int8(), pa.string(), ordered=True), "n": pa.int64()})
    read = aw.read_csv(tmp_path / "a.csv", schema=schema)
    assert not read.to_arrow().schema.field("size").type.ordered
    with aw.writer(tmp_path / "t", schema) as writer:
        writer.append(sizes(["M"]))
        writer.append(read)
    assert aw.open(tmp_path / "t").sort("size")["size"].to_pylist() == ["S", "M", "L"]


def test_conditions_of_the_server_have_their_order(tmp_path):
    table(tmp_path)
    with aw.serve(tmp_path) as server, aw.connect(server.url) as connection:
        assert connection["t"].rows(where="size > 'M'")["size"].to_pylist() == ["L", "L", "XL"]
        assert connection["t"].rows(where="size <= 'S'")["size"].to_pylist() == ["S", "S"]
        with pytest.raises(aw.InvalidArgument, match="none of its ordered categories S < M < L < XL"):
            connection["t"].rows(where="size > 'XS'")
