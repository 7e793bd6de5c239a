"""Flight SQL as ADBC's driver speaks it."""

import threading

import pytest

from conftest import Served, pa, run, ticks, write

dbapi = pytest.importorskip(
    "adbc_driver_flightsql.dbapi", reason="pip install adbc-driver-flightsql adbc-driver-manager"
)
pytestmark = pytest.mark.filterwarnings("ignore:Cannot disable autocommit")


@pytest.fixture
def cursor(served):
    with dbapi.connect(served.grpc) as connection, connection.cursor() as cursor:
        yield cursor


def ask(cursor, text, parameters=None):
    cursor.execute(text, parameters)
    return cursor.fetch_arrow_table()


def test_answers_are_those_of_arrow(cursor):
    whole = ask(cursor, 'select * from "ticks.arrow"')
    assert whole.equals(ticks())
    grouped = ask(cursor, 'select symbol, count(*) as n, max(price) as price from "ticks.arrow" group by 1 order by 1')
    expected = ticks().group_by("symbol").aggregate([([], "count_all"), ("price", "max")]).sort_by("symbol")
    assert [list(row.values()) for row in grouped.to_pylist()] == [list(row.values()) for row in expected.to_pylist()]
    joined = ask(
        cursor, 'select name, count(*) as n from "ticks.arrow" join "names.arrow" using (symbol) group by 1 order by 1'
    )
    assert joined.to_pydict() == {"name": ["Apple", "Business Machines"], "n": [334, 333]}
    assert ask(cursor, 'select * from "ticks.arrow" where ts < 0').to_pylist() == []


def test_parameters(cursor):
    for text in [
        'select ts from "ticks.arrow" where symbol = ? and ts < ? order by ts',
        'select ts from "ticks.arrow" where symbol = $1 and ts < $2 order by ts',
    ]:
        assert ask(cursor, text, ("IBM", 8)).to_pydict() == {"ts": [1, 4, 7]}
        assert ask(cursor, text, ("MSFT", 3)).to_pydict() == {"ts": [2]}
    assert ask(cursor, "select '?' as mark, ? as value", ("x",)).to_pylist() == [{"mark": "?", "value": "x"}]
    assert (
        ask(
            cursor, 'select ts from "ticks.arrow" where price is null and day = ?', (ticks()["day"][9].as_py(),)
        ).num_rows
        == 10
    )
    with pytest.raises(dbapi.Error, match="1 parameters have no values"):
        ask(cursor, "select ?")
    with pytest.raises(dbapi.Error, match="one row of 1 parameters is expected"):
        ask(cursor, "select ?", (1, 2))


def test_what_is_told(served):
    with dbapi.connect(served.grpc) as connection:
        info = connection.adbc_get_info()
        assert info["vendor_name"] == "Arrowwood with DataFusion"
        assert connection.adbc_get_table_types() == ["TABLE"]
        assert connection.adbc_get_table_schema("ticks.arrow") == ticks().schema
        (catalog,) = connection.adbc_get_objects().read_all().to_pylist()
        (schema,) = catalog["catalog_db_schemas"]
        assert (catalog["catalog_name"], schema["db_schema_name"]) == ("arrowwood", "public")
        columns = {
            table["table_name"]: [column["column_name"] for column in table["table_columns"]]
            for table in schema["db_schema_tables"]
        }
        assert columns == {
            "grown": ["n", "word"],
            "names.arrow": ["symbol", "name"],
            "ticks.arrow": ["ts", "symbol", "price", "day"],
        }
        (some,) = connection.adbc_get_objects(table_name_filter="n_mes%").read_all().to_pylist()
        assert [table["table_name"] for table in some["catalog_db_schemas"][0]["db_schema_tables"]] == ["names.arrow"]


def test_a_token_reads_its_tables_and_no_other(folder, tmp_path):
    tokens = tmp_path / "tokens"
    token = (
        run("token", "add", "reader", "--token-file", tokens, "--read", "ticks*").strip().splitlines()[-1].split()[-1]
    )
    served = Served(folder, "--token-file", tokens)
    with dbapi.connect(
        served.grpc, db_kwargs={"adbc.flight.sql.authorization_header": f"Bearer {token}"}
    ) as connection:
        with connection.cursor() as cursor:
            assert ask(cursor, 'select count(*) as n from "ticks.arrow"').to_pydict() == {"n": [1000]}
            named = ask(cursor, "select table_name from information_schema.tables where table_schema = 'public'")
            assert named.to_pydict() == {"table_name": ["ticks.arrow"]}
            assert (
                ask(
                    cursor, "select distinct table_name from information_schema.columns where table_schema = 'public'"
                ).num_rows
                == 1
            )
            for text in [
                "select * from grown",
                "describe grown",
                'select * from arrowwood.public."names.arrow"',
                'select * from "ticks.arrow" where ts in (select n from grown)',
                'select * from "../data/grown"',
            ]:
                with pytest.raises(dbapi.Error, match="not found"):
                    ask(cursor, text)
        (catalog,) = connection.adbc_get_objects().read_all().to_pylist()
        assert [table["table_name"] for table in catalog["catalog_db_schemas"][0]["db_schema_tables"]] == [
            "ticks.arrow"
        ]
        with pytest.raises(dbapi.Error):
            connection.adbc_get_table_schema("grown")
    # A name and a password, which is the token, do as well; nothing, or another token, does not.
    with (
        dbapi.connect(served.grpc, db_kwargs={"username": "any", "password": token}) as connection,
        connection.cursor() as cursor,
    ):
        assert ask(cursor, "select 1 as one").to_pydict() == {"one": [1]}
    for wrong in [{}, {"adbc.flight.sql.authorization_header": "Bearer aw_nothing"}]:
        with pytest.raises(dbapi.Error, match="valid token"):
            with dbapi.connect(served.grpc, db_kwargs=wrong) as connection, connection.cursor() as cursor:
                ask(cursor, "select 1")
    served.stop()


def test_each_answer_is_of_one_commit(folder):
    """A writer commits pairs that sum to nothing; no query sees half of one, however often it names the table."""
    run("create", folder / "pairs", "--schema", "n: int64, value: int64")
    served = Served(folder)
    stop = threading.Event()
    wrote = 0

    def work():
        nonlocal wrote
        while not stop.is_set():
            lines = b"".join(b'{"n": %d, "value": %d}\n' % (wrote + k, k % 2 * 2 - 1) for k in range(100))
            run("append", folder / "pairs", input=lines)
            wrote += 100

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with dbapi.connect(served.grpc) as connection, connection.cursor() as cursor:
            seen = []
            text = """select count(*) as n, sum(value) as sum, (select count(*) from pairs) as again,
                      (select max(n) + 1 from pairs) as last from pairs"""
            while len(set(seen)) < 10:
                (row,) = ask(cursor, text).to_pylist()
                assert row["n"] % 100 == 0 and row["n"] == row["again"] and row["last"] in (row["n"], None), row
                assert row["sum"] in (0, None), row
                seen.append(row["n"])
            assert seen == sorted(seen)
    finally:
        stop.set()
        thread.join()
    served.stop()


def test_a_table_of_many_types_comes_as_it_is(folder):
    import datetime
    import decimal

    table = pa.table(
        {
            "text": pa.array(["a", None, "ü" * 100]),
            "view": pa.array(["a", None, "long enough for a view"], pa.string_view()),
            "word": pa.array(["x", "y", "x"]).dictionary_encode(),
            "list": pa.array([[1, 2], None, []], pa.list_(pa.int32())),
            "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
            "decimal": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3.50")], pa.decimal128(10, 2)),
            "time": pa.array(
                [datetime.datetime(2024, 1, 1), None, datetime.datetime(1969, 1, 1)], pa.timestamp("us", "UTC")
            ),
            "flag": pa.array([True, None, False]),
            "bytes": pa.array([b"\x00", None, b""], pa.binary()),
        }
    )
    write(folder / "types.arrow", table)
    served = Served(folder)
    with dbapi.connect(served.grpc) as connection, connection.cursor() as cursor:
        whole = ask(cursor, 'select * from "types.arrow"')
        assert whole.schema == table.schema and whole.to_pylist() == table.to_pylist()
        assert ask(cursor, 'select word, count(*) as n from "types.arrow" group by 1 order by 1').to_pylist() == [
            {"word": "x", "n": 2},
            {"word": "y", "n": 1},
        ]
    served.stop()
