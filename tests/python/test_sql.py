"""Tests SQL over datasets, growing tables and paths, from Python and from the command line."""

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
from conftest import error_without_module, write_damaged_text, write_ipc
from waits import PATIENCE

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture
def ticks(tmp_path):
    """The writer of a table with three rows."""
    schema = pa.schema({"ts": pa.timestamp("us"), "symbol": pa.string(), "price": pa.float64()})
    with aw.writer(tmp_path / "ticks", schema, dictionary=["symbol"], sorted_by="ts") as writer:
        writer.append({"ts": [1, 2, 3], "symbol": ["A", "B", "A"], "price": [1.0, 2.0, 4.0]})
        writer.commit()
        yield writer


def test_query_over_self_equals_aggregate(stocks_file):
    ds = aw.open(stocks_file)
    rows = ds.sql("select symbol, avg(price) as price, count(*) as n from self group by 1 order by 1")
    assert isinstance(rows, aw.Dataset)
    expected = {row["symbol"]: row for row in ds.aggregate(by="symbol", price="mean", n="count").to_pylist()}
    assert [row["symbol"] for row in rows] == sorted(expected)
    for row in rows:
        assert row["n"] == expected[row["symbol"]]["n"]
        assert row["price"] == pytest.approx(expected[row["symbol"]]["price"], rel=1e-12)


def test_query_parameters_are_refused(stocks_file):
    message = r"params is a table by its name, got list; queries have no parameters: ds.filter"
    with pytest.raises(TypeError, match=message):
        aw.open(stocks_file).sql("select * from self where price > ?", params=[3])


def test_settings_last_for_one_query():
    aw.sql("set timezone = 'Asia/Tokyo'; select 1")
    zone = "select current_setting('timezone') as zone"
    assert aw.sql(zone)[0]["zone"] != "Asia/Tokyo"
    assert aw.sql(f"set timezone = 'Asia/Tokyo'; {zone}")[0]["zone"] == "Asia/Tokyo"


def test_durations_become_intervals_and_tensors_become_lists():
    storage = pa.array([[1, 2, 3, 4, 5, 6]], pa.list_(pa.int8(), 6))
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int8(), (2, 3)), storage)
    ds = aw.from_arrow(pa.table({"d": pa.array([5], pa.duration("s")), "t": tensors}))
    rows = ds.sql("select *, epoch_us(d) as n from self")
    assert rows.dtypes == ["interval[month_day_nano]", "fixed_size_list<int8>[6]", "int64"]
    assert rows[0]["n"] == 5_000_000


def test_keyword_arguments_are_tables(stocks_file, tmp_path):
    ds = aw.open(stocks_file)
    names = pa.table({"symbol": ["IBM", "AAPL"], "name": ["Big Blue", "Apple"]})
    path = tmp_path / "names.arrow"
    write_ipc(path, names)
    query = "select distinct name from self join names using (symbol) order by 1"
    for table in [names, aw.from_arrow(names), path, str(path), names.to_pandas()]:
        assert ds.sql(query, names=table).to_pylist() == [{"name": "Apple"}, {"name": "Big Blue"}]
    assert aw.sql("select count(*) as n from a, b", a=ds[:3], b=names).to_pylist() == [{"n": 6}]


def test_quoted_paths_are_tables(ticks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ['"ticks/"', '"ticks"', "'ticks'", '"ticks/*.arrow"', f'"{tmp_path}/ticks"']:
        assert aw.sql(f"select sum(price) as s from {name}").to_pylist() == [{"s": 7.0}]
    os.symlink("ticks", 'a "b"')
    assert aw.sql('select sum(price) as s from "a ""b"""').to_pylist() == [{"s": 7.0}]
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert aw.sql("select b from 'x.csv'").to_pylist() == [{"b": 2}]


def write_one_row(path, **row):
    return write_ipc(path, pa.table({name: [value] for name, value in row.items()}))


def test_table_names_that_differ_only_in_case_are_refused(tmp_path, monkeypatch):
    """DuckDB ignores case: the second of two such tables would replace the first."""
    monkeypatch.chdir(tmp_path)
    write_one_row("T.arrow", a=1)
    write_one_row("t.arrow", a=2)
    query = 'select * from "T.arrow" union all select * from "t.arrow"'
    with pytest.raises(aw.InvalidArgument, match=r"'T.arrow' and 't.arrow' .*ignores case.*aw\.sql\(…, a=…, b=…\)"):
        aw.sql(query)
    with pytest.raises(aw.InvalidArgument, match="'a' and 'A'"):
        aw.sql("select 1", a="T.arrow", A="t.arrow")
    # Keyword arguments win over paths.
    assert aw.sql('select * from "T.arrow"', **{"t.arrow": "t.arrow"}).to_pylist() == [{"a": 2}]
    assert aw.sql("select * from \"t.arrow\" where 'T.ARROW' <> ''").to_pylist() == [{"a": 2}]
    # Two names of one file may differ only in case.
    os.symlink("t.arrow", "same")
    os.symlink("t.arrow", "SAME")
    assert aw.sql('select x.a from "same" x, "SAME" y').to_pylist() == [{"a": 2}]


def test_python_variables_are_not_tables():
    """DuckDB would look up names among the variables of all calling frames, including this package's."""
    mine = pa.table({"a": [1]})
    for name in ["source", "sources", "name", "query", "tables", "mine"]:
        with pytest.raises(duckdb.CatalogException, match=f"Table with name {name} "):
            aw.sql(f"select * from {name}", t=mine)


def test_paths_are_opened_only_for_missing_tables(tmp_path, monkeypatch):
    """Quoted text that was a path once hid tables that the query created or was given by that name."""
    monkeypatch.chdir(tmp_path)
    write_one_row("ticks", a=1)
    assert aw.sql('create table ticks as select 2 a; select * from "ticks"').to_pylist() == [{"a": 2}]
    assert aw.sql("select 'ticks' t, a from TICKS", Ticks="ticks").to_pylist() == [{"t": "ticks", "a": 1}]
    assert aw.sql('with "ticks" as (select 3 a) select * from "ticks"').to_pylist() == [{"a": 3}]
    assert aw.sql("select * from 'ticks' -- it's one").to_pylist() == [{"a": 1}]
    assert aw.sql("select e'it\\'s' s, a from \"ticks\" /* \"ticks */").to_pylist() == [{"s": "it's", "a": 1}]
    copy_twice = 'create temp table u as select * from "ticks"; insert into u from "ticks"; select * from u'
    assert aw.sql(copy_twice).to_pylist() == [{"a": 1}] * 2
    with pytest.raises(duckdb.CatalogException, match="Table with name ticks "):
        aw.sql("select * from ticks")


def test_errors_do_not_blame_unrelated_paths(tmp_path, monkeypatch):
    """A path in the query that could not be opened was once blamed for errors that only contained its name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(b"ARROW1\0\0 and nothing more")
    with pytest.raises(duckdb.CatalogException, match="nofunction"):
        aw.sql("select nofunction('a')")
    with pytest.raises(duckdb.CatalogException, match="nowhere"):
        aw.sql("select 'a' from \"nowhere\"")
    with pytest.raises(aw.InvalidData):
        aw.sql('select * from "a"')


def test_changes_of_attached_databases_are_rolled_back(tmp_path):
    """The documentation says so; files that a query writes stay."""
    attach = f"attach '{tmp_path}/x.db' as d; "
    assert aw.sql(attach + "create table d.t as select 1 a; select * from d.t").to_pylist() == [{"a": 1}]
    with pytest.raises(duckdb.CatalogException):
        aw.sql(attach + "select * from d.t")
    aw.sql(f"copy (select 1 a) to '{tmp_path}/x.csv'")
    assert (tmp_path / "x.csv").read_text() == "a\n1\n"
    assert "also in databases that it attaches" in aw.sql.__doc__


@pytest.mark.parametrize("type", [pa.float16(), pa.decimal256(50, 2), pa.list_(pa.float16())], ids=str)
def test_columns_of_unsupported_types_are_named(type):
    """DuckDB's own message is "Unsupported Internal Arrow Type e", without a name."""
    ds = aw.from_arrow(pa.table({"a": [1], "half": pa.array([None], type)}))
    with pytest.raises(aw.Unsupported, match=r"column 'half' of self.*Unsupported.*ds\.select\(\[…\]\)\.sql"):
        ds.sql("select a from self")
    assert ds.select(["a"]).sql("select a from self").to_pylist() == [{"a": 1}]


def test_paths_are_read_at_the_call_and_datasets_as_they_were_opened(ticks):
    ds = aw.open(ticks.path)
    ticks.append_row(ts=4, symbol="C", price=8.0)
    ticks.commit()
    assert ds.sql("select sum(price) as s from self")[0]["s"] == 7.0
    assert ds.refresh().sql("select sum(price) as s from self")[0]["s"] == 15.0
    assert aw.sql("select sum(price) as s from t", t=ticks.path)[0]["s"] == 15.0


def test_results_have_the_types_of_the_query(stocks_file):
    row = aw.sql("select 1::hugeint a, 1.5::decimal(4, 1) b, [1, null] c, {'x': 'y'} d, null e, true f")[0]
    assert list(row) == ["a", "b", "c", "d", "e", "f"]
    assert (row["c"], row["d"], row["e"], row["f"]) == ([1, None], {"x": "y"}, None, True)
    rows = aw.open(stocks_file).sql("select * from self limit 2")
    assert rows["date"].dtype.startswith("timestamp[") and rows["price"].dtype == "float64"
    assert len(aw.open(stocks_file).sql("select * from self where false")) == 0


def test_created_tables_last_for_one_query():
    assert aw.sql("create table kept as select 1 a; select * from kept").to_pylist() == [{"a": 1}]
    with pytest.raises(duckdb.CatalogException):
        aw.sql("select * from kept")


def test_results_outlive_the_dataset(stocks_file):
    rows = aw.open(stocks_file).sql("select symbol || '!' as s from self")
    assert rows[0]["s"] == "MSFT!" and rows[-1]["s"] == "AAPL!"


def test_errors_of_duckdb_are_passed_on(stocks_file, tmp_path):
    ds = aw.open(stocks_file)
    with pytest.raises(duckdb.ParserException, match="syntax error"):
        ds.sql("selec 1")
    with pytest.raises(duckdb.BinderException, match='"prize" not found'):
        ds.sql("select prize from self")
    with pytest.raises(duckdb.CatalogException, match="nowhere") as raised:
        ds.sql('select * from "nowhere/"')
    assert raised.value.__notes__ == [f"There is no file 'nowhere/' either; relative paths begin in {os.getcwd()}."]
    with pytest.raises(duckdb.CatalogException) as raised:
        ds.sql("select * from nowhere")
    assert not hasattr(raised.value, "__notes__")
    with pytest.raises(aw.InvalidArgument, match="no statement"):
        ds.sql(" ")
    with pytest.raises(aw.NotFound, match="nowhere"):
        ds.sql("select 1", other="nowhere/")
    (tmp_path / "damaged.arrow").write_bytes(b"ARROW1\0\0 and nothing more")
    with pytest.raises(aw.InvalidData, match="damaged.arrow"):
        aw.sql(f'select * from "{tmp_path / "damaged.arrow"}"')
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        ds.sql("select 1", other=3)


def test_queries_of_damaged_values_fail(tmp_path):
    path = write_damaged_text(tmp_path / "text.arrow")
    with pytest.raises(duckdb.InvalidInputException, match="text.*UTF-8|UTF-8.*text|utf-8|UTF8"):
        aw.open(path).sql("select max(text) from self")


def test_threads_query_at_once(stocks_file):
    ds = aw.open(stocks_file)

    def count_first_rows(n):
        return ds[:n].sql(f"create temp view v as select {n} as n; select count(*) as n from self")[0]["n"]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count_first_rows, range(100))) == list(range(100))


def test_a_forked_child_can_query_and_exit(stocks_file):
    """The child's copy of the database has no threads, and closing it would wait for them for ever."""
    code = f"""
import os, sys
import arrowwood as aw
ds = aw.open({stocks_file!r})
def count_rows():
    return ds.sql("select count(*) as n from self")[0]["n"]
assert count_rows() == 560
child = os.fork()
if child == 0:
    sys.exit(0 if count_rows() == 560 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("module", "call", "extra"),
    [("duckdb", "aw.sql('select 1')", "sql"), ("duckdb", "aw.from_arrow(aw.read_csv('x.csv')).sql('select 1')", "sql")],
)
def test_a_missing_engine_is_an_error_that_names_the_extra(tmp_path, module, call, extra):
    (tmp_path / "x.csv").write_text("a\n1\n")
    expected = f"ImportError: sql() needs {module}; install it: pip install 'arrowwood[{extra}]'"
    assert error_without_module(module, call, cwd=tmp_path) == expected


@pytest.mark.parametrize(
    ("module", "call", "extra"), [("duckdb", "aw.sql('select 1')", "sql"), ("polars", "aw.scan('x')", "polars")]
)
def test_an_old_engine_is_refused(module, call, extra):
    """Old versions fail or panic inside."""
    code = f"import {module}\n{module}.__version__ = '1.30.0'\nimport arrowwood as aw\n{call}"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    error = process.stderr.splitlines()[-1]
    assert f"needs {module} ≥ 2." in error
    assert error.endswith(f"1.30.0 is installed; pip install -U 'arrowwood[{extra}]'")
    # The error and the package's metadata name the same version.
    oldest_version = error.split(" ≥ ")[1].split(",")[0]
    assert f'{extra} = ["{module}>={oldest_version}"]' in PYPROJECT.read_text()


def run_cli(*arguments, **options):
    command = [sys.executable, "-m", "arrowwood._cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **options)


def test_sql_command_prints_rows(ticks, tmp_path):
    query = 'select symbol, sum(price) as s from "ticks/" group by 1 order by 1'
    process = run_cli("sql", query, "--csv", cwd=tmp_path)
    assert (process.returncode, process.stdout, process.stderr) == (0, "symbol,s\nA,5.0\nB,2.0\n", "")
    process = run_cli("sql", "-", "--json", cwd=tmp_path, input=query)
    assert (process.returncode, process.stdout) == (0, '{"symbol":"A","s":5.0}\n{"symbol":"B","s":2.0}\n')
    process = run_cli("sql", query, cwd=tmp_path)
    assert process.returncode == 0 and process.stdout.splitlines()[0].split() == ["symbol", "s"]
    assert "sql" in run_cli("--help").stdout


def test_sql_command_prints_errors_on_one_line(tmp_path):
    for query, message in [
        ("selec 1", "syntax error"),
        ('select * from "nowhere/"', "There is no file 'nowhere/' either"),
    ]:
        process = run_cli("sql", query, cwd=tmp_path)
        assert process.returncode == 1 and process.stdout == ""
        assert process.stderr.startswith("arrowwood: ") and process.stderr.count("\n") == 1
        assert message in process.stderr
    assert run_cli("sql").returncode == 2


def test_a_table_named_self_is_refused():
    """The name ``self`` stands for the dataset whose method is called."""
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


TICKS = 120_000
ORDERS = 100_000
SYMBOLS = 50


def make_joined_tables():
    """Returns the tables of JOINS by name."""
    rng = np.random.default_rng(1)
    names = [f"S{number}" for number in range(SYMBOLS)]
    ticks = {"ts": np.arange(TICKS), "sym": rng.integers(0, SYMBOLS, TICKS), "px": rng.random(TICKS)}
    orders = {"ts": rng.integers(0, TICKS, ORDERS), "sym": rng.integers(0, SYMBOLS, ORDERS)}
    return {
        "ticks": pa.table({**ticks, "name": [names[number] for number in ticks["sym"]]}),
        "orders": pa.table({**orders, "qty": rng.random(ORDERS)}),
        "names": pa.table({"sym": range(SYMBOLS), "name": names}),
    }


def round_and_sort(rows):
    return sorted(tuple(round(value, 6) if isinstance(value, float) else value for value in row) for row in rows)


def test_joins_are_planned_like_joins_of_tables_in_memory(tmp_path):
    """DuckDB estimates one row for sources other than pyarrow tables."""
    tables = make_joined_tables()
    for name, table in tables.items():
        aw.write(table, tmp_path / f"{name}.arrow")
    datasets = {name: aw.open(tmp_path / f"{name}.arrow") for name in tables}
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        for query in JOINS:
            ((_, expected_plan),) = connection.execute(f"explain {query}").fetchall()
            (plan,) = aw.sql(f"explain {query}", **datasets).to_pylist()
            assert plan["explain_value"] == expected_plan and "ARROW_SCAN" in expected_plan
            # Which rows a limit keeps is not determined.
            if "limit" not in query:
                rows = [tuple(row.values()) for row in aw.sql(query, **datasets)]
                assert round_and_sort(rows) == round_and_sort(connection.execute(query).fetchall())


def test_an_as_of_join_ends():
    """Planned for one row, it compared each of 100,000 orders with all earlier rows."""
    code = "import test_sql, arrowwood as aw; print(aw.sql(test_sql.JOINS[0], **test_sql.make_joined_tables())[0])"
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=Path(__file__).parent)
    assert process.returncode == 0 and "'count_star()': 9" in process.stdout, process


def test_queries_read_only_the_columns_they_need(tmp_path):
    ds = aw.open(write_damaged_text(tmp_path / "damaged.arrow", n=[1, 2, 3]))
    assert ds.sql("select sum(n) n from self")[0]["n"] == 6
    with pytest.raises(duckdb.Error, match="UTF-8"):
        ds.sql("select text from self")


def test_duplicate_column_names_get_a_suffix():
    twice = aw.from_arrow(pa.table([pa.array([1, 2]), pa.array(["a", "b"])], names=["x", "x"]))
    assert twice.sql("select x_1 from self").to_pylist() == [{"x_1": "a"}, {"x_1": "b"}]
