"""Tests of Flight SQL with the driver of ADBC."""

import datetime
import decimal
import threading

import pytest

from conftest import Server, make_ticks, pa, run, write_file

dbapi = pytest.importorskip(
    "adbc_driver_flightsql.dbapi", reason="pip install adbc-driver-flightsql adbc-driver-manager"
)
pytestmark = pytest.mark.filterwarnings("ignore:Cannot disable autocommit")


@pytest.fixture
def cursor(server):
    with dbapi.connect(server.grpc) as connection, connection.cursor() as cursor:
        yield cursor


def query(cursor, sql, parameters=None):
    cursor.execute(sql, parameters)
    return cursor.fetch_arrow_table()


def test_answers_equal_those_of_pyarrow(cursor):
    table = query(cursor, 'select * from "ticks.arrow"')
    assert table.equals(make_ticks())
    grouped = query(
        cursor, 'select symbol, count(*) as n, max(price) as price from "ticks.arrow" group by 1 order by 1'
    )
    expected = make_ticks().group_by("symbol").aggregate([([], "count_all"), ("price", "max")]).sort_by("symbol")
    assert [list(row.values()) for row in grouped.to_pylist()] == [list(row.values()) for row in expected.to_pylist()]
    joined = query(
        cursor, 'select name, count(*) as n from "ticks.arrow" join "names.arrow" using (symbol) group by 1 order by 1'
    )
    assert joined.to_pydict() == {"name": ["Apple", "Business Machines"], "n": [334, 333]}
    assert query(cursor, 'select * from "ticks.arrow" where ts < 0').to_pylist() == []


def test_parameters_by_position_and_number(cursor):
    for sql in [
        'select ts from "ticks.arrow" where symbol = ? and ts < ? order by ts',
        'select ts from "ticks.arrow" where symbol = $1 and ts < $2 order by ts',
    ]:
        assert query(cursor, sql, ("IBM", 8)).to_pydict() == {"ts": [1, 4, 7]}
        assert query(cursor, sql, ("MSFT", 3)).to_pydict() == {"ts": [2]}
    assert query(cursor, "select '?' as mark, ? as value", ("x",)).to_pylist() == [{"mark": "?", "value": "x"}]
    day = make_ticks()["day"][9].as_py()
    nulls = query(cursor, 'select ts from "ticks.arrow" where price is null and day = ?', (day,))
    assert nulls.num_rows == 10
    with pytest.raises(dbapi.Error, match="1 parameters have no values"):
        query(cursor, "select ?")
    with pytest.raises(dbapi.Error, match="one row of 1 parameters is expected"):
        query(cursor, "select ?", (1, 2))


def table_names(catalog):
    """Return the names of the tables in the only schema of a catalog."""
    return [table["table_name"] for table in catalog["catalog_db_schemas"][0]["db_schema_tables"]]


def test_metadata(server):
    with dbapi.connect(server.grpc) as connection:
        info = connection.adbc_get_info()
        assert info["vendor_name"] == "Arrowwood with DataFusion"
        assert connection.adbc_get_table_types() == ["TABLE"]
        assert connection.adbc_get_table_schema("ticks.arrow") == make_ticks().schema
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
        (filtered,) = connection.adbc_get_objects(table_name_filter="n_mes%").read_all().to_pylist()
        assert table_names(filtered) == ["names.arrow"]


def add_token(tokens, tables):
    """Add a token that reads the given tables to a file of tokens, and return it."""
    output = run("token", "add", "reader", "--token-file", tokens, "--read", tables)
    return output.strip().splitlines()[-1].split()[-1]


def bearer(token):
    return {"adbc.flight.sql.authorization_header": f"Bearer {token}"}


def test_token_reads_only_its_tables(folder, tmp_path):
    tokens = tmp_path / "tokens"
    token = add_token(tokens, "ticks*")
    server = Server(folder, "--token-file", tokens)
    with dbapi.connect(server.grpc, db_kwargs=bearer(token)) as connection:
        with connection.cursor() as cursor:
            assert query(cursor, 'select count(*) as n from "ticks.arrow"').to_pydict() == {"n": [1000]}
            tables = query(cursor, "select table_name from information_schema.tables where table_schema = 'public'")
            assert tables.to_pydict() == {"table_name": ["ticks.arrow"]}
            columns = query(
                cursor, "select distinct table_name from information_schema.columns where table_schema = 'public'"
            )
            assert columns.num_rows == 1
            for sql in [
                "select * from grown",
                "describe grown",
                'select * from arrowwood.public."names.arrow"',
                'select * from "ticks.arrow" where ts in (select n from grown)',
                'select * from "../data/grown"',
            ]:
                with pytest.raises(dbapi.Error, match="not found"):
                    query(cursor, sql)
        (catalog,) = connection.adbc_get_objects().read_all().to_pylist()
        assert table_names(catalog) == ["ticks.arrow"]
        with pytest.raises(dbapi.Error):
            connection.adbc_get_table_schema("grown")

    # The token is also accepted as the password of any user.
    credentials = {"username": "any", "password": token}
    with dbapi.connect(server.grpc, db_kwargs=credentials) as connection, connection.cursor() as cursor:
        assert query(cursor, "select 1 as one").to_pydict() == {"one": [1]}
    for credentials in [{}, bearer("aw_nothing")]:
        with pytest.raises(dbapi.Error, match="valid token"):
            with dbapi.connect(server.grpc, db_kwargs=credentials) as connection, connection.cursor() as cursor:
                query(cursor, "select 1")
    server.stop()


def keep_appending(path, stop):
    """Append pairs of values that sum to zero until `stop` is set."""
    rows = 0
    while not stop.is_set():
        lines = b"".join(b'{"n": %d, "value": %d}\n' % (rows + k, k % 2 * 2 - 1) for k in range(100))
        run("append", path, input=lines)
        rows += 100


def test_query_reads_one_commit(folder):
    """Test that no query sees a part of a commit, however often it names the table."""
    run("create", folder / "pairs", "--schema", "n: int64, value: int64")
    server = Server(folder)
    stop = threading.Event()
    thread = threading.Thread(target=keep_appending, args=(folder / "pairs", stop))
    thread.start()
    sql = """select count(*) as n, sum(value) as sum, (select count(*) from pairs) as again,
             (select max(n) + 1 from pairs) as last from pairs"""
    try:
        with dbapi.connect(server.grpc) as connection, connection.cursor() as cursor:
            counts = []
            while len(set(counts)) < 10:
                (row,) = query(cursor, sql).to_pylist()
                assert row["n"] % 100 == 0 and row["n"] == row["again"] and row["last"] in (row["n"], None), row
                assert row["sum"] in (0, None), row
                counts.append(row["n"])
            assert counts == sorted(counts)
    finally:
        stop.set()
        thread.join()
    server.stop()


def test_many_types_are_unchanged(folder):
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
    write_file(folder / "types.arrow", table)
    server = Server(folder)
    with dbapi.connect(server.grpc) as connection, connection.cursor() as cursor:
        answer = query(cursor, 'select * from "types.arrow"')
        assert answer.schema == table.schema
        assert answer.to_pylist() == table.to_pylist()
        assert query(cursor, 'select word, count(*) as n from "types.arrow" group by 1 order by 1').to_pylist() == [
            {"word": "x", "n": 2},
            {"word": "y", "n": 1},
        ]
    server.stop()
