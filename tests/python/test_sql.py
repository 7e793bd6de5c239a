"""SQL over datasets, tables that grow and paths, from Python and the command line."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from conftest import error_without_module, ipc_of, write_damaged_text, write_ipc
from waits import PATIENCE


@pytest.fixture
def ticks(tmp_path):
    schema = pa.schema({"ts": pa.timestamp("us"), "symbol": pa.string(), "price": pa.float64()})
    with aw.writer(tmp_path / "ticks", schema, dictionary=["symbol"], sorted_by="ts") as writer:
        writer.append({"ts": [1, 2, 3], "symbol": ["A", "B", "A"], "price": [1.0, 2.0, 4.0]})
        writer.commit()
        yield writer


def test_a_dataset_is_asked(stocks_file, stocks):
    ds = aw.open(stocks_file)
    got = ds.sql("select symbol, avg(price) as price, count(*) as n from self group by 1 order by 1")
    assert isinstance(got, aw.Dataset)
    wanted = ds.aggregate(by="symbol", price="mean", n="count").to_pylist()
    assert [(row["symbol"], row["n"]) for row in got] == sorted((row["symbol"], row["n"]) for row in wanted)
    by_symbol = {row["symbol"]: row["price"] for row in wanted}
    assert all(row["price"] == pytest.approx(by_symbol[row["symbol"]], rel=1e-12) for row in got)


def test_values_are_no_tables(stocks_file):
    with pytest.raises(
        TypeError, match=r"params is a table by its name, got list; queries have no parameters: ds.filter"
    ):
        aw.open(stocks_file).sql("select * from self where price > ?", params=[3])


def test_a_session_ends_with_its_query():
    aw.sql("set timezone = 'Asia/Tokyo'; select 1")
    zone = "select current_setting('timezone') as zone"
    assert aw.sql(zone)[0]["zone"] != "Asia/Tokyo"
    assert aw.sql(f"set timezone = 'Asia/Tokyo'; {zone}")[0]["zone"] == "Asia/Tokyo"


def test_lengths_of_time_are_intervals_and_tensors_are_flat():
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int8(), (2, 3)), pa.array([[1, 2, 3, 4, 5, 6]], pa.list_(pa.int8(), 6))
    )
    found = aw.from_arrow(pa.table({"d": pa.array([5], pa.duration("s")), "t": tensors})).sql(
        "select *, epoch_us(d) as n from self"
    )
    assert (
        found.dtypes == ["interval[month_day_nano]", "fixed_size_list<int8>[6]", "int64"] and found[0]["n"] == 5_000_000
    )


def test_others_are_named(stocks_file, tmp_path):
    ds = aw.open(stocks_file)
    names = pa.table({"symbol": ["IBM", "AAPL"], "name": ["Big Blue", "Apple"]})
    write_ipc(tmp_path / "names.arrow", names)
    query = "select distinct name from self join names using (symbol) order by 1"
    for others in [
        names,
        aw.from_arrow(names),
        tmp_path / "names.arrow",
        str(tmp_path / "names.arrow"),
        names.to_pandas(),
    ]:
        assert ds.sql(query, names=others).to_pylist() == [{"name": "Apple"}, {"name": "Big Blue"}]
    assert aw.sql("select count(*) as n from a, b", a=ds[:3], b=names).to_pylist() == [{"n": 6}]


def test_paths_are_tables(ticks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ['"ticks/"', '"ticks"', "'ticks'", '"ticks/*.arrow"', f'"{tmp_path}/ticks"']:
        assert aw.sql(f"select sum(price) as s from {name}").to_pylist() == [{"s": 7.0}]
    os.symlink("ticks", 'a "b"')
    assert aw.sql('select sum(price) as s from "a ""b"""').to_pylist() == [{"s": 7.0}]
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert aw.sql("select b from 'x.csv'").to_pylist() == [{"b": 2}]


def one_row(path, **row):
    return write_ipc(path, pa.table({name: [value] for name, value in row.items()}))


def test_names_that_differ_only_in_case_are_refused(tmp_path, monkeypatch):
    """DuckDB ignores case: the second of two such tables was registered over the first,
    and the answer was of the wrong one."""
    monkeypatch.chdir(tmp_path)
    one_row("T.arrow", a=1), one_row("t.arrow", a=2)
    query = 'select * from "T.arrow" union all select * from "t.arrow"'
    with pytest.raises(aw.InvalidArgument, match=r"'T.arrow' and 't.arrow' .*ignores case.*aw\.sql\(…, a=…, b=…\)"):
        aw.sql(query)
    with pytest.raises(aw.InvalidArgument, match="'a' and 'A'"):
        aw.sql("select 1", a="T.arrow", A="t.arrow")
    # Names that are given win over paths, and one file may be spelled as it likes.
    assert aw.sql('select * from "T.arrow"', **{"t.arrow": "t.arrow"}).to_pylist() == [{"a": 2}]
    assert aw.sql("select * from \"t.arrow\" where 'T.ARROW' <> ''").to_pylist() == [{"a": 2}]
    os.symlink("t.arrow", "same"), os.symlink("t.arrow", "SAME")
    assert aw.sql('select x.a from "same" x, "SAME" y').to_pylist() == [{"a": 2}]


def test_variables_are_not_tables():
    """DuckDB looks for names among the variables of the frames that call it, ours among them."""
    mine = pa.table({"a": [1]})
    for name in ["source", "sources", "name", "query", "tables", "mine"]:
        with pytest.raises(duckdb.CatalogException, match=f"Table with name {name} "):
            aw.sql(f"select * from {name}", t=mine)


def test_only_missing_tables_are_paths(tmp_path, monkeypatch):
    """All text in quotes that was a path became a view, so a folder hid what the query made, or was given,
    by that name."""
    monkeypatch.chdir(tmp_path)
    one_row("ticks", a=1)
    assert aw.sql('create table ticks as select 2 a; select * from "ticks"').to_pylist() == [{"a": 2}]
    assert aw.sql("select 'ticks' t, a from TICKS", Ticks="ticks").to_pylist() == [{"t": "ticks", "a": 1}]
    assert aw.sql('with "ticks" as (select 3 a) select * from "ticks"').to_pylist() == [{"a": 3}]
    assert aw.sql("select * from 'ticks' -- it's one").to_pylist() == [{"a": 1}]
    assert aw.sql("select e'it\\'s' s, a from \"ticks\" /* \"ticks */").to_pylist() == [{"s": "it's", "a": 1}]
    assert (
        aw.sql('create temp table u as select * from "ticks"; insert into u from "ticks"; select * from u').to_pylist()
        == [{"a": 1}] * 2
    )
    with pytest.raises(duckdb.CatalogException, match="Table with name ticks "):
        aw.sql("select * from ticks")


def test_an_error_is_of_what_is_wrong(tmp_path, monkeypatch):
    """That a path in a string could not be opened was said wherever its name was part of the message."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(b"ARROW1\0\0 and nothing more")
    with pytest.raises(duckdb.CatalogException, match="nofunction"):
        aw.sql("select nofunction('a')")
    with pytest.raises(duckdb.CatalogException, match="nowhere"):
        aw.sql("select 'a' from \"nowhere\"")
    with pytest.raises(aw.InvalidData):
        aw.sql('select * from "a"')


def test_what_is_written_into_attached_databases_is_gone(tmp_path):
    """It was rolled back, and nothing said so."""
    attach = f"attach '{tmp_path}/x.db' as d; "
    assert aw.sql(attach + "create table d.t as select 1 a; select * from d.t").to_pylist() == [{"a": 1}]
    with pytest.raises(duckdb.CatalogException):
        aw.sql(attach + "select * from d.t")
    aw.sql(f"copy (select 1 a) to '{tmp_path}/x.csv'")
    assert (tmp_path / "x.csv").read_text() == "a\n1\n"
    assert "also in databases that it attaches" in aw.sql.__doc__


@pytest.mark.parametrize("kind", [pa.float16(), pa.decimal256(50, 2), pa.list_(pa.float16())], ids=str)
def test_a_column_that_the_engine_does_not_know_is_named(kind):
    """One such column made all others unaskable, with "Unsupported Internal Arrow Type e" for a reason."""
    ds = aw.from_arrow(pa.table({"a": [1], "half": pa.array([None], kind)}))
    with pytest.raises(aw.Unsupported, match=r"column 'half' of self.*Unsupported.*ds\.select\(\[…\]\)\.sql"):
        ds.sql("select a from self")
    assert ds.select(["a"]).sql("select a from self").to_pylist() == [{"a": 1}]


def test_a_live_table_is_taken_as_it_is_at_the_call(ticks):
    ds = aw.open(ticks.path)
    ticks.append_row(ts=4, symbol="C", price=8.0)
    ticks.commit()
    assert ds.sql("select sum(price) as s from self")[0]["s"] == 7.0
    assert ds.refresh().sql("select sum(price) as s from self")[0]["s"] == 15.0
    assert aw.sql("select sum(price) as s from t", t=ticks.path)[0]["s"] == 15.0


def test_types_come_back(stocks_file):
    row = aw.sql("select 1::hugeint a, 1.5::decimal(4, 1) b, [1, null] c, {'x': 'y'} d, null e, true f")
    assert row.to_pylist()[0] | {"a": None, "b": None} == {
        "a": None,
        "b": None,
        "c": [1, None],
        "d": {"x": "y"},
        "e": None,
        "f": True,
    }
    got = aw.open(stocks_file).sql("select * from self limit 2")
    assert got["date"].dtype.startswith("timestamp[") and got["price"].dtype == "float64"
    assert len(aw.open(stocks_file).sql("select * from self where false")) == 0


def test_nothing_is_left_behind():
    assert aw.sql("create table kept as select 1 a; select * from kept").to_pylist() == [{"a": 1}]
    with pytest.raises(duckdb.CatalogException):
        aw.sql("select * from kept")


def test_the_result_outlives_everything(stocks_file):
    got = aw.open(stocks_file).sql("select symbol || '!' as s from self")
    assert got[0]["s"] == "MSFT!" and got[-1]["s"] == "AAPL!"


def test_errors_come_as_the_engine_words_them(stocks_file, tmp_path):
    ds = aw.open(stocks_file)
    with pytest.raises(duckdb.ParserException, match="syntax error"):
        ds.sql("selec 1")
    with pytest.raises(duckdb.BinderException, match='"prize" not found'):
        ds.sql("select prize from self")
    with pytest.raises(duckdb.CatalogException, match="nowhere") as caught:
        ds.sql('select * from "nowhere/"')
    assert caught.value.__notes__ == [f"There is no file 'nowhere/' either; relative paths begin in {os.getcwd()}."]
    with pytest.raises(duckdb.CatalogException) as caught:
        ds.sql("select * from nowhere")
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(aw.InvalidArgument, match="no statement"):
        ds.sql(" ")
    with pytest.raises(aw.NotFound, match="nowhere"):
        ds.sql("select 1", other="nowhere/")
    (tmp_path / "damaged.arrow").write_bytes(b"ARROW1\0\0 and nothing more")
    with pytest.raises(aw.InvalidData, match="damaged.arrow"):
        aw.sql(f'select * from "{tmp_path / "damaged.arrow"}"')
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        ds.sql("select 1", other=3)


def test_damaged_values_are_an_error_not_an_answer(tmp_path):
    path = write_damaged_text(tmp_path / "text.arrow")
    with pytest.raises(Exception, match="text.*UTF-8|UTF-8.*text|utf-8|UTF8"):
        aw.open(path).sql("select max(text) from self")


def test_threads_ask_at_once(stocks_file):
    ds = aw.open(stocks_file)
    with ThreadPoolExecutor(4) as pool:
        asked = pool.map(
            lambda n: ds[:n].sql(f"create temp view v as select {n} as n; select count(*) as n from self")[0]["n"],
            range(100),
        )
        assert list(asked) == list(range(100))


def test_a_forked_child_can_ask_and_end(stocks_file):
    """The child's copy of the database has no threads, and closing it would wait for them for ever."""
    code = f"""
import os, sys
import arrowwood as aw
ds = aw.open({stocks_file!r})
ask = lambda: ds.sql("select count(*) as n from self")[0]["n"]
assert ask() == 560
child = os.fork()
if child == 0:
    sys.exit(0 if ask() == 560 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "call", "extra"),
    [("duckdb", "aw.sql('select 1')", "sql"), ("duckdb", "aw.from_arrow(aw.read_csv('x.csv')).sql('select 1')", "sql")],
)
def test_a_missing_engine_names_the_extra(tmp_path, module, call, extra):
    (tmp_path / "x.csv").write_text("a\n1\n")
    assert (
        error_without_module(module, call, cwd=tmp_path)
        == f"ImportError: sql() needs {module}; install it: pip install 'arrowwood[{extra}]'"
    )


@pytest.mark.parametrize(
    ("module", "call", "extra"), [("duckdb", "aw.sql('select 1')", "sql"), ("polars", "aw.scan('x')", "polars")]
)
def test_an_old_engine_is_refused(module, call, extra):
    """Old versions were taken, and failed inside or panicked."""
    code = f"import {module}\n{module}.__version__ = '1.30.0'\nimport arrowwood as aw\n{call}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert f"needs {module} ≥ 2." in last and last.endswith(f"1.30.0 is installed; pip install -U 'arrowwood[{extra}]'")
    with open(os.path.join(os.path.dirname(__file__), "../../pyproject.toml")) as project:
        oldest = last.split(" ≥ ")[1].split(",")[0]
        assert f'{extra} = ["{module}>={oldest}"]' in project.read()


def command(*arguments, **others):
    run = [sys.executable, "-m", "arrowwood._cli", *arguments]
    return subprocess.run(run, capture_output=True, text=True, timeout=PATIENCE, **others)


def test_the_command(ticks, tmp_path):
    query = 'select symbol, sum(price) as s from "ticks/" group by 1 order by 1'
    done = command("sql", query, "--csv", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "symbol,s\nA,5.0\nB,2.0\n", "")
    done = command("sql", "-", "--json", cwd=tmp_path, input=query)
    assert (done.returncode, done.stdout) == (0, '{"symbol":"A","s":5.0}\n{"symbol":"B","s":2.0}\n')
    done = command("sql", query, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.splitlines()[0].split() == ["symbol", "s"]
    assert "sql" in command("--help").stdout


def test_the_command_fails_on_one_line(tmp_path):
    for query, wanted in [
        ("selec 1", "syntax error"),
        ('select * from "nowhere/"', "There is no file 'nowhere/' either"),
    ]:
        done = command("sql", query, cwd=tmp_path)
        assert done.returncode == 1 and done.stdout == ""
        assert done.stderr.startswith("arrowwood: ") and done.stderr.count("\n") == 1 and wanted in done.stderr
    assert command("sql").returncode == 2


def test_self_is_the_dataset():
    """A table given as ``self`` once was left out without a word."""
    one, other = (aw.from_arrow(pa.table({"n": [n]})) for n in (1, 2))
    with pytest.raises(aw.InvalidArgument, match="another name"):
        one.sql("select n from self", self=other)


JOINS = [
    "select count(*), sum(px) from orders asof join ticks using (sym, ts)",
    "select count(*) from orders asof left join ticks on orders.sym = ticks.sym and orders.ts >= ticks.ts",
    "select sum(qty) from orders join names using (sym)",
    "select names.name, sum(px) from ticks join names using (sym) group by 1",
    "select count(*) from ticks join orders using (ts)",
    "select count(*) from names join orders using (sym) join ticks using (ts)",
    "select count(*) from orders left join ticks using (ts) where qty > 0.5",
    "select count(*) from ticks where sym in (select sym from names where name < 'S2')",
    "select count(*) from ticks full join orders using (ts, sym)",
    "select count(*) from names a, names b where a.sym < b.sym",
    "select * from ticks join names using (name) order by px limit 5",
]


def joined_tables():
    random = np.random.default_rng(1)
    symbols = [f"S{number}" for number in range(50)]
    ticks = {"ts": np.arange(120_000), "sym": random.integers(0, 50, 120_000), "px": random.random(120_000)}
    orders = {"ts": random.integers(0, 120_000, 100_000), "sym": random.integers(0, 50, 100_000)}
    return {
        "ticks": pa.table({**ticks, "name": [symbols[number] for number in ticks["sym"]]}),
        "orders": pa.table({**orders, "qty": random.random(100_000)}),
        "names": pa.table({"sym": range(50), "name": symbols}),
    }


def rounded(rows):
    return sorted(tuple(round(value, 6) if isinstance(value, float) else value for value in row) for row in rows)


def test_joins_are_planned_as_those_of_tables_in_memory(tmp_path):
    """DuckDB assumes one row for anything but pyarrow tables."""
    tables = joined_tables()
    for name, table in tables.items():
        aw.write(table, tmp_path / f"{name}.arrow")
    datasets = {name: aw.open(tmp_path / f"{name}.arrow") for name in tables}
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        for query in JOINS:
            ((_, expected),) = connection.execute(f"explain {query}").fetchall()
            (plan,) = aw.sql(f"explain {query}", **datasets).to_pylist()
            assert plan["explain_value"] == expected and "ARROW_SCAN" in expected
            if "limit" not in query:
                rows = [tuple(row.values()) for row in aw.sql(query, **datasets)]
                assert rounded(rows) == rounded(connection.execute(query).fetchall())


def test_an_as_of_join_ends():
    """Planned for one row, each of 100,000 orders was compared with all rows before it."""
    query = "import test_sql, arrowwood as aw; print(aw.sql(test_sql.JOINS[0], **test_sql.joined_tables())[0])"
    child = [sys.executable, "-c", query]
    done = subprocess.run(child, capture_output=True, text=True, timeout=PATIENCE, cwd=Path(__file__).parent)
    assert done.returncode == 0 and "'count_star()': 9" in done.stdout, done


def test_only_the_columns_that_a_query_needs_are_read(tmp_path):
    data = ipc_of(pa.table({"n": [1, 2, 3], "text": ["one", "two", "three"]}))
    path = tmp_path / "damaged.arrow"
    path.write_bytes(data.replace(b"onetwothree", b"\xff\xff\xfftwothree"))
    assert aw.open(path).sql("select sum(n) n from self")[0]["n"] == 6
    with pytest.raises(duckdb.Error, match="UTF-8"):
        aw.open(path).sql("select text from self")
    twice = aw.from_arrow(pa.table([pa.array([1, 2]), pa.array(["a", "b"])], names=["x", "x"]))
    assert twice.sql("select x_1 from self").to_pylist() == [{"x_1": "a"}, {"x_1": "b"}]
