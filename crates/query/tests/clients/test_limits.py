"""Tests that clients of Flight SQL can't write, read files, exceed limits of time and memory, or leave state behind."""

import contextlib
import os
import subprocess
import time

import pytest

from conftest import Server, make_ticks, pa
from waits import wait_until

flight = pytest.importorskip("pyarrow.flight", reason="pyarrow has no Flight")

PREFIX = b"type.googleapis.com/arrow.flight.protocol.sql."


# Just enough of the encoding of protobuf for the messages of Flight SQL, whose fields have lengths.


def encode_varint(value):
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_field(number, data):
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def encode_any(name, body):
    """Encode a message of Flight SQL with its type."""
    return encode_field(1, PREFIX + name) + encode_field(2, body)


def decode_varint(data, offset):
    """Return a number and the offset after it."""
    value = 0
    shift = 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, offset


def decode_fields(data):
    """Return the contents of the fields of a message, by their numbers."""
    fields = {}
    offset = 0
    while offset < len(data):
        key, offset = decode_varint(data, offset)
        assert key & 7 == 2
        length, offset = decode_varint(data, offset)
        fields[key >> 3] = data[offset : offset + length]
        offset += length
    return fields


def descriptor(name, body=b""):
    return flight.FlightDescriptor.for_command(encode_any(name, body))


def get_info(client, sql):
    """Plan a statement, and return its schema and its ticket."""
    return client.get_flight_info(descriptor(b"CommandStatementQuery", encode_field(1, sql.encode())))


def read_answer(client, info, options=None):
    """Start the stream of an answer."""
    return client.do_get(info.endpoints[0].ticket, options)


def query(client, sql):
    return read_answer(client, get_info(client, sql)).read_all()


def prepare(client, sql):
    """Create a prepared statement, and return the fields of its description."""
    action = flight.Action("CreatePreparedStatement", encode_any(b"x", encode_field(1, sql.encode())))
    (result,) = client.do_action(action)
    return decode_fields(decode_fields(result.body.to_pybytes())[2])


@contextlib.contextmanager
def running_server(folder, *arguments):
    server = Server(folder, *arguments)
    try:
        with flight.connect(server.url.replace("http://", "grpc+tcp://")) as client:
            yield server, client
    finally:
        server.stop()


def assert_responsive(client, after=None):
    assert query(client, "select 1 as one").to_pydict() == {"one": [1]}, after


EMPTY_METADATA = [
    b"CommandGetPrimaryKeys",
    b"CommandGetExportedKeys",
    b"CommandGetImportedKeys",
    b"CommandGetCrossReference",
]
METADATA = [
    b"CommandGetXdbcTypeInfo",
    b"CommandGetSqlInfo",
    b"CommandGetCatalogs",
    b"CommandGetDbSchemas",
    b"CommandGetTables",
]
UNSUPPORTED = [
    b"CommandStatementUpdate",
    b"CommandStatementIngest",
    b"CommandStatementSubstraitPlan",
    b"Nothing",
]
ACTIONS = {
    "CreatePreparedStatement",
    "ClosePreparedStatement",
    "CancelFlightInfo",
    "CancelQuery",
    "CloseSession",
}


def test_raw_calls(folder):
    with running_server(folder) as (_, client):
        info = get_info(client, 'select * from "ticks.arrow"')
        assert info.schema == make_ticks().schema
        assert len(info.endpoints) == 1
        assert read_answer(client, info).read_all().equals(make_ticks())
        # A ticket can be used again.
        assert read_answer(client, info).read_all().num_rows == 1000
        sql = encode_field(1, b"select 1 as a, 'x' as b")
        assert client.get_schema(descriptor(b"CommandStatementQuery", sql)).schema.names == ["a", "b"]
        assert {action.type for action in client.list_actions()} >= ACTIONS
        for name in EMPTY_METADATA:
            info = client.get_flight_info(descriptor(name))
            answer = read_answer(client, info).read_all()
            assert (answer.num_rows, answer.schema) == (0, info.schema)
        for name in METADATA:
            info = client.get_flight_info(descriptor(name))
            answer = read_answer(client, info).read_all()
            answer.validate(full=True)
            assert answer.num_rows > 0, name
            assert answer.schema == info.schema, name
        for name in UNSUPPORTED:
            with pytest.raises(NotImplementedError):
                client.get_flight_info(descriptor(name))
        # Tickets of plain Flight, which name a table, work as well.
        assert client.do_get(flight.Ticket(b"ticks.arrow?limit=3")).read_all().num_rows == 3


WRITES = [
    "insert into grown values (3, 'x')",
    "update grown set n = 1",
    "delete from grown",
    "drop table grown",
    "create table t as select 1",
    "create view v as select 1",
    "create external table t stored as csv location '/etc/passwd'",
    "copy (select 1) to '/tmp/arrowwood.csv'",
    "copy grown to '/tmp/arrowwood.parquet'",
    "set datafusion.execution.batch_size = 1",
    "reset datafusion.execution.batch_size",
    "create schema s",
    "create database d",
    "create function f() returns int return 1",
    "truncate table grown",
    "alter table grown add x int",
    "prepare p as select 1",
    "execute p",
    "deallocate p",
    "begin",
    "commit",
    "explain insert into grown values (1, 'x')",
    "explain analyze insert into grown values (1, 'x')",
    "explain copy grown to '/tmp/x.csv'",
    "call f()",
    "load data 'x'",
    "select 1; drop table grown",
]
FILES = [
    "select * from '/etc/passwd'",
    'select * from "/etc/passwd"',
    "select * from read_csv('/etc/passwd')",
    "select * from read_parquet('/x')",
    "select * from parquet_metadata('/x')",
    "select * from arrow_cast('/etc/passwd')",
    "select pg_read_file('/etc/passwd')",
    "select * from 'file:///etc/passwd'",
    'select * from "ticks.arrow/../names.arrow"',
    'select * from "./ticks.arrow"',
]


def test_writes_and_access_to_files_are_rejected(folder):
    with running_server(folder) as (_, client):
        for sql in WRITES + FILES:
            with pytest.raises((pa.ArrowInvalid, NotImplementedError)) as error:
                query(client, sql)
            message = str(error.value)
            assert "internal" not in message and str(folder) not in message, (sql, message)
        assert query(client, "select * from grown").to_pydict() == {"n": [1, 2], "word": ["one", "two"]}


ENDLESS = [
    "select count(*) from generate_series(1, 10000000) a, generate_series(1, 10000000) b where a.value % 7 = b.value % 11",
    "with recursive r as (select 1 as n union all select n + 1 from r) select count(*) from r",
    "with recursive r as (select 1 as n union all select n + 1 from r) select max(a.n) from r a, r b where a.n < b.n",
    'select sum(a.ts * b.ts + c.ts) from "ticks.arrow" a, "ticks.arrow" b, "ticks.arrow" c, "ticks.arrow" d',
    # Joins without matches: of all pairs of rows, and of rows with the same key.
    "select count(*) from generate_series(1, 2000000) a, generate_series(1, 2000000) b where a.value > b.value + 3000000",
    "select count(*) from (select value as v, 1 as k from generate_series(1, 1000000)) a join "
    "(select value as v, 1 as k from generate_series(1, 1000000)) b on a.k = b.k and a.v > b.v + 3000000",
    'select count(*) from (select ts, price is not null as k from "ticks.arrow") a, (select ts, price is not null as k from "ticks.arrow") b, '
    '(select price is not null as k, unnest(range(10000)) as m from "ticks.arrow") c where a.k = b.k and b.k = c.k and a.ts * b.ts + c.m < 0',
]


def wait_until_idle(server):
    """Wait until the server uses no processor time."""

    def is_idle():
        seconds_before = server.cpu_seconds()
        # Not a wait for anything: the time over which usage is measured.
        time.sleep(0.3)
        return server.cpu_seconds() - seconds_before < 0.1

    wait_until(is_idle, "the server does nothing")


@pytest.mark.parametrize("sql", ENDLESS)
def test_timeout_ends_endless_query(folder, sql):
    with running_server(folder, "--query-timeout", 1) as (server, client):
        with pytest.raises(flight.FlightTimedOutError, match="query_timeout"):
            query(client, sql)
        wait_until_idle(server)
        assert_responsive(client)


@pytest.mark.parametrize("sql", ENDLESS)
def test_end_of_call_ends_endless_query(folder, sql):
    with running_server(folder) as (server, client):
        info = get_info(client, sql)
        with pytest.raises(flight.FlightTimedOutError):
            read_answer(client, info, flight.FlightCallOptions(timeout=1)).read_all()
        wait_until_idle(server)


CANCELLED = b"\x08\x01"
NOT_CANCELLABLE = b"\x08\x03"


def run_action(client, name, body):
    """Run an action that has one result, and return its bytes."""
    (result,) = client.do_action(flight.Action(name, body))
    return result.body.to_pybytes()


def cancel(client, info):
    return run_action(client, "CancelFlightInfo", encode_field(1, info.serialize()))


def test_cancelled_query_ends(folder):
    with running_server(folder) as (server, client):
        info = get_info(client, 'select a.ts from "ticks.arrow" a, "ticks.arrow" b, "ticks.arrow" c')
        reader = read_answer(client, info)
        assert reader.read_chunk().data.num_rows > 0
        # Older versions of pyarrow lack the method.
        result = None
        if hasattr(client, "cancel_flight_info"):
            result = client.cancel_flight_info(flight.CancelFlightInfoRequest(info))
        if result is None:
            assert cancel(client, info) == CANCELLED
        with pytest.raises(pa.ArrowException):
            while True:
                reader.read_chunk()
        wait_until_idle(server)
        # Neither a query that was cancelled nor one that never ran can be cancelled.
        for ended in [info, get_info(client, "select 1")]:
            assert cancel(client, ended) == NOT_CANCELLABLE
        assert run_action(client, "CloseSession", b"") == CANCELLED


EXCESSIVE = [
    "select repeat('x', 2000000000)",
    "select length(repeat('xyz', 700000000))",
    "select lpad('x', 500000000)",
    "select range(1, 2000000000)",
    "select array_length(generate_series(1, 900000000))",
    "select array_repeat(1, 1500000000)",
    "select array_resize([1], 1500000000, 0)",
    "select range(timestamp '1700-01-01', timestamp '2200-01-01', interval '1 millisecond')",
    "select replace(repeat('a', 10000000), 'a', repeat('b', 1000))",
    'select count(repeat(symbol, 1000000)) from "ticks.arrow"',
    "select length(s || s) from (select s || s as s from (select s || s as s from (select s || s as s from (select s || s as s from "
    "(select s || s as s from (select repeat('x', 40000000) as s))))))",
    'select array_agg(a.symbol || b.symbol || cast(c.ts as text)) from "ticks.arrow" a, "ticks.arrow" b, "ticks.arrow" c',
    'select count(distinct a.ts * 1000000 + b.ts * 1000 + c.ts) from "ticks.arrow" a, "ticks.arrow" b, "ticks.arrow" c',
    'select string_agg(repeat(a.symbol, 1000), \'\') from "ticks.arrow" a, "ticks.arrow" b',
]


@pytest.mark.parametrize("sql", EXCESSIVE)
def test_memory_of_a_query_is_limited(folder, sql):
    with running_server(folder, "--query-memory", 64 << 20, "--query-timeout", 20) as (server, client):
        try:
            reader = read_answer(client, get_info(client, sql))
            while True:
                reader.read_chunk()
        except StopIteration:
            pass
        except (flight.FlightTimedOutError, pa.ArrowException) as e:
            # Queries that spill to the disk may run out of time instead of memory.
            assert "query_memory" in str(e) or "query_timeout" in str(e) or "overflow" in str(e), e
        assert server.peak_bytes() < 1.5 * 2**30, server.peak_bytes()
        assert_responsive(client)


@pytest.mark.parametrize(
    "sql",
    [
        "select arrow_cast(null, 'FixedSizeList(2000000000, FixedSizeList(2000000000, Int8))')",
        "select arrow_cast(null, 'FixedSizeBinary(2000000000)') from \"ticks.arrow\"",
        "select null::int[2000000000][2000000000]",
    ],
)
def test_very_wide_types_are_rejected(folder, sql):
    with running_server(folder) as (_, client):
        with pytest.raises(pa.ArrowException, match="expected"):
            get_info(client, sql)
        assert_responsive(client)


def make_unsorted(rows):
    """Return rows in no order, with types that are sliced in different ways."""
    numbers = [(k * 7919) % 2_000_003 for k in range(rows)]
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "text": ["some text of a row"] * rows,
            "pair": pa.array([[n, n] for n in numbers], pa.list_(pa.int64())),
            "flag": pa.array([None if n % 7 == 0 else n % 2 == 0 for n in numbers], pa.bool_()),
        }
    )


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("columns", ["text", "pair, flag"])
def test_large_sort_spills_to_disk(folder, columns, compression):
    """Test that slices of one mapped or decompressed batch count at their own size."""
    rows = 1_500_000
    table = make_unsorted(rows)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(folder / "wide.arrow", table.schema, options=options) as writer:
        writer.write_table(table)
    with running_server(folder, "--query-memory", 192 << 20) as (server, client):
        answer = query(client, f'select n, {columns} from "wide.arrow" order by n, text')
        assert answer.num_rows == rows
        assert answer["n"].to_pylist() == sorted(table["n"].to_pylist())
        assert server.peak_bytes() < 900 << 20, server.peak_bytes()


def test_open_statements_take_no_memory(folder):
    with running_server(folder) as (server, client):
        first = prepare(client, "select 1")[1]
        bytes_before = server.anonymous_bytes()
        for number in range(10_000):
            last = prepare(client, f"select {number} as n, '{'x' * 2_000}' as text")[1]
        assert server.anonymous_bytes() - bytes_before < 64 << 20
        for handle in (first, last):
            info = client.get_flight_info(descriptor(b"CommandPreparedStatementQuery", encode_field(1, handle)))
            assert read_answer(client, info).read_all().num_rows == 1


def test_running_queries_are_limited(folder):
    with running_server(folder) as (server, client):
        readers = []
        with pytest.raises(flight.FlightUnavailableError, match="queries run already"):
            for _ in range(200):
                info = get_info(client, 'select a.ts from "ticks.arrow" a, "ticks.arrow" b')
                readers.append(read_answer(client, info))
                readers[-1].read_chunk()
        assert 16 <= len(readers) <= 64
        for reader in readers:
            reader.cancel()
        del readers, reader
        wait_until_idle(server)
        assert query(client, "select 1 as one").num_rows == 1


def chain(count, first, link, last=""):
    """Return a statement with `count` links, in which `{}` is the number of the link."""
    return first + "".join(link.format(k) for k in range(count)) + last


# Statements that are too deep or too long: more than 48 KiB.
TOO_LARGE = {
    "parentheses": f"select {'(' * 20_000}1{')' * 20_000}",
    "lists": "select " + "[" * 20_000,
    "not": chain(9_000, "select ", "not ", "true"),
    "signs": chain(9_000, "select ", "+ ", "1"),
    "case": chain(1_200, "select ", "case when true then ", "1" + " end" * 1_200),
    "queries": chain(2_000, "", "select * from (", "select 1" + ")" * 2_000),
    "sum": chain(24_000, "select 1", "+1"),
    "sum of columns": chain(15_000, "select ts", "+ts", ' from "ticks.arrow"'),
    "texts": chain(9_000, "select 'a'", "||'a'"),
    "or": chain(4_000, 'select ts from "ticks.arrow" where ts=0', " or ts={}"),
    "casts": chain(8_000, "select 1", "::int"),
    "places": chain(15_000, "select [1]", "[1]"),
    "is": chain(5_000, "select true", " is true"),
    "names": chain(20_000, "select a", ".a"),
    "unions": chain(2_000, "select 1", " union select {}"),
    "joins": chain(1_500, 'select 1 from "ticks.arrow" t', ',"ticks.arrow" t{}'),
    "named": chain(1_000, "with t0 as (select 1)", ", t{0} as (select * from t0)", " select 1"),
    "long": "select '" + "x" * 100_000 + "'",
}
# Statements within the limits.
LARGE = {
    "sum": chain(700, "select ts", "+ts", ' from "ticks.arrow"'),
    "or": chain(900, 'select ts from "ticks.arrow" where ts=0', " or ts={}"),
    "unions": chain(300, "select 1", " union all select {}"),
    "in": chain(6_000, 'select ts from "ticks.arrow" where ts in (0', ",{}", ")"),
    "joins": chain(
        20,
        'select t.ts from (select ts from "ticks.arrow" where ts < 2) t',
        " join \"names.arrow\" t{0} on t{0}.symbol = 'IBM'",
    ),
}


def test_too_large_statements_are_rejected(folder):
    with running_server(folder) as (_, client):
        for name, sql in TOO_LARGE.items():
            with pytest.raises((pa.ArrowException, NotImplementedError)):
                query(client, sql)
            assert_responsive(client, name)
        counts = {name: query(client, sql).num_rows for name, sql in LARGE.items()}
        assert counts == {"sum": 1000, "or": 900, "unions": 301, "in": 1000, "joins": 2}


def test_server_without_an_engine_names_the_program_to_install(folder):
    if not os.environ.get("ARROWWOOD"):
        pytest.skip("ARROWWOOD names no command without DataFusion")
    command = [os.environ["ARROWWOOD"], "serve", str(folder), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = process.stdout.readline().strip()
    with (
        flight.connect(url.replace("http://", "grpc+tcp://")) as client,
        pytest.raises(NotImplementedError, match="arrowwood-datafusion"),
    ):
        query(client, "select 1")
    process.terminate()
    process.wait()
