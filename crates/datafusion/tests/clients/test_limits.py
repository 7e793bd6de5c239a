"""What a client of Flight SQL can't do: write, reach files, take more time or memory than it may,
or leave things behind."""

import contextlib
import time

import pytest

from conftest import Served, pa, ticks
from waits import wait_until

flight = pytest.importorskip("pyarrow.flight", reason="pyarrow has no Flight")

PREFIX = b"type.googleapis.com/arrow.flight.protocol.sql."


def field(number, data):
    """A field of protobuf that has a length."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def message(name, body):
    return field(1, PREFIX + name) + field(2, body)


def fields(data):
    """The fields of a message that have a length, by number."""
    found, at = {}, 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        assert key & 7 == 2
        length = number()
        found[key >> 3] = data[at : at + length]
        at += length
    return found


def info(client, text):
    return client.get_flight_info(
        flight.FlightDescriptor.for_command(message(b"CommandStatementQuery", field(1, text.encode())))
    )


def ask(client, text):
    return client.do_get(info(client, text).endpoints[0].ticket).read_all()


def prepare(client, text):
    (result,) = client.do_action(flight.Action("CreatePreparedStatement", message(b"x", field(1, text.encode()))))
    return fields(fields(result.body.to_pybytes())[2])


@contextlib.contextmanager
def connected(folder, *arguments):
    served = Served(folder, *arguments)
    try:
        with flight.connect(served.url.replace("http://", "grpc+tcp://")) as client:
            yield served, client
    finally:
        served.stop()


def test_raw_calls(folder):
    with connected(folder) as (_, client):
        whole = info(client, 'select * from "ticks.arrow"')
        assert whole.schema == ticks().schema and len(whole.endpoints) == 1
        assert client.do_get(whole.endpoints[0].ticket).read_all().equals(ticks())
        # The same ticket again, and the schema alone.
        assert client.do_get(whole.endpoints[0].ticket).read_all().num_rows == 1000
        descriptor = flight.FlightDescriptor.for_command(
            message(b"CommandStatementQuery", field(1, b"select 1 as a, 'x' as b"))
        )
        assert client.get_schema(descriptor).schema.names == ["a", "b"]
        kinds = {action.type for action in client.list_actions()}
        assert {
            "CreatePreparedStatement",
            "ClosePreparedStatement",
            "CancelFlightInfo",
            "CancelQuery",
            "CloseSession",
        } <= kinds
        for name in [
            b"CommandGetPrimaryKeys",
            b"CommandGetExportedKeys",
            b"CommandGetImportedKeys",
            b"CommandGetCrossReference",
        ]:
            told = client.get_flight_info(flight.FlightDescriptor.for_command(message(name, b"")))
            answer = client.do_get(told.endpoints[0].ticket).read_all()
            assert (answer.num_rows, answer.schema) == (0, told.schema)
        for name in [
            b"CommandGetXdbcTypeInfo",
            b"CommandGetSqlInfo",
            b"CommandGetCatalogs",
            b"CommandGetDbSchemas",
            b"CommandGetTables",
        ]:
            told = client.get_flight_info(flight.FlightDescriptor.for_command(message(name, b"")))
            answer = client.do_get(told.endpoints[0].ticket).read_all()
            answer.validate(full=True)
            assert answer.num_rows > 0 and answer.schema == told.schema, name
        for name in [
            b"CommandStatementUpdate",
            b"CommandStatementIngest",
            b"CommandStatementSubstraitPlan",
            b"Nothing",
        ]:
            with pytest.raises(NotImplementedError):
                client.get_flight_info(flight.FlightDescriptor.for_command(message(name, b"")))
        # Tables by plain Flight are there as before.
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


def test_nothing_is_written_and_no_file_is_reached(folder):
    with connected(folder) as (_, client):
        for text in WRITES + FILES:
            with pytest.raises((pa.ArrowInvalid, NotImplementedError)) as refused:
                ask(client, text)
            assert "internal" not in str(refused.value) and str(folder) not in str(refused.value), (text, refused.value)
        assert ask(client, "select * from grown").to_pydict() == {"n": [1, 2], "word": ["one", "two"]}


ENDLESS = [
    "select count(*) from generate_series(1, 10000000) a, generate_series(1, 10000000) b where a.value % 7 = b.value % 11",
    "with recursive r as (select 1 as n union all select n + 1 from r) select count(*) from r",
    "with recursive r as (select 1 as n union all select n + 1 from r) select max(a.n) from r a, r b where a.n < b.n",
    'select sum(a.ts * b.ts + c.ts) from "ticks.arrow" a, "ticks.arrow" b, "ticks.arrow" c, "ticks.arrow" d',
    # Joins that find nothing: of any rows, and of rows with one key.
    "select count(*) from generate_series(1, 2000000) a, generate_series(1, 2000000) b where a.value > b.value + 3000000",
    "select count(*) from (select value as v, 1 as k from generate_series(1, 1000000)) a join "
    "(select value as v, 1 as k from generate_series(1, 1000000)) b on a.k = b.k and a.v > b.v + 3000000",
    'select count(*) from (select ts, price is not null as k from "ticks.arrow") a, (select ts, price is not null as k from "ticks.arrow") b, '
    '(select price is not null as k, unnest(range(10000)) as m from "ticks.arrow") c where a.k = b.k and b.k = c.k and a.ts * b.ts + c.m < 0',
]


def rests(served):
    """Waits until the server does nothing."""

    def is_at_rest():
        before = served.busy()
        # No wait for anything: this is how long it is watched.
        time.sleep(0.3)
        return served.busy() - before < 0.1

    wait_until(is_at_rest, "the server does nothing")


@pytest.mark.parametrize("text", ENDLESS)
def test_an_endless_query_ends_with_its_time(folder, text):
    with connected(folder, "--query-timeout", 1) as (served, client):
        with pytest.raises(flight.FlightTimedOutError, match="query_timeout"):
            ask(client, text)
        rests(served)
        assert ask(client, "select 1 as one").to_pydict() == {"one": [1]}


@pytest.mark.parametrize("text", ENDLESS)
def test_an_endless_query_ends_with_its_client(folder, text):
    with connected(folder) as (served, client):
        ticket = info(client, text).endpoints[0].ticket
        with pytest.raises(flight.FlightTimedOutError):
            client.do_get(ticket, flight.FlightCallOptions(timeout=1)).read_all()
        rests(served)


def test_a_query_is_cancelled(folder):
    with connected(folder) as (served, client):
        running = info(client, 'select a.ts from "ticks.arrow" a, "ticks.arrow" b, "ticks.arrow" c')
        reader = client.do_get(running.endpoints[0].ticket)
        assert reader.read_chunk().data.num_rows > 0
        result = (
            client.cancel_flight_info(flight.CancelFlightInfoRequest(running))
            if hasattr(client, "cancel_flight_info")
            else None
        )
        if result is None:
            action = flight.Action("CancelFlightInfo", field(1, running.serialize()))
            (answer,) = client.do_action(action)
            assert answer.body.to_pybytes() == b"\x08\x01"
        with pytest.raises(pa.ArrowException):
            while True:
                reader.read_chunk()
        rests(served)
        # It is known no more, nor is one that never ran.
        for known in [running, info(client, "select 1")]:
            (answer,) = client.do_action(flight.Action("CancelFlightInfo", field(1, known.serialize())))
            assert answer.body.to_pybytes() == b"\x08\x03"
        (answer,) = client.do_action(flight.Action("CloseSession", b""))
        assert answer.body.to_pybytes() == b"\x08\x01"


BOMBS = [
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


@pytest.mark.parametrize("text", BOMBS)
def test_a_bomb_takes_no_more_memory_than_it_may(folder, text):
    with connected(folder, "--query-memory", 64 << 20, "--query-timeout", 20) as (served, client):
        most = 0
        try:
            ticket = info(client, text).endpoints[0].ticket
            reader = client.do_get(ticket)
            while True:
                reader.read_chunk()
                most = max(most, served.memory())
        except StopIteration:
            pass
        except (flight.FlightTimedOutError, pa.ArrowException) as e:
            # Memory, or time where it was written to disk instead.
            assert "query_memory" in str(e) or "query_timeout" in str(e) or "overflow" in str(e), e
        assert served.peak() < 1.5 * 2**30, served.peak()
        assert ask(client, "select 1 as one").to_pydict() == {"one": [1]}


@pytest.mark.parametrize(
    "text",
    [
        "select arrow_cast(null, 'FixedSizeList(2000000000, FixedSizeList(2000000000, Int8))')",
        "select arrow_cast(null, 'FixedSizeBinary(2000000000)') from \"ticks.arrow\"",
        "select null::int[2000000000][2000000000]",
    ],
)
def test_a_type_of_any_width_is_refused(folder, text):
    with connected(folder) as (served, client):
        with pytest.raises(pa.ArrowException, match="expected"):
            info(client, text)
        assert ask(client, "select 1 as one").to_pydict() == {"one": [1]}


def wide(rows):
    """Rows in no order, of types that are sliced in different ways."""
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
@pytest.mark.parametrize("others", ["text", "pair, flag"])
def test_a_sort_beyond_the_memory_is_written_to_disk(folder, others, compression):
    """Of one batch, whose slices count for what they are, in a file or decompressed."""
    rows = 1_500_000
    table = wide(rows)
    with pa.ipc.new_file(
        folder / "wide.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table)
    with connected(folder, "--query-memory", 192 << 20) as (served, client):
        answer = ask(client, f'select n, {others} from "wide.arrow" order by n, text')
        assert answer.num_rows == rows and answer["n"].to_pylist() == sorted(table["n"].to_pylist())
        assert served.peak() < 900 << 20, served.peak()


def test_statements_that_are_left_open_take_nothing(folder):
    with connected(folder) as (served, client):
        first = prepare(client, "select 1")
        before = served.memory()
        for number in range(10_000):
            handle = prepare(client, f"select {number} as n, '{'x' * 2_000}' as text")[1]
        assert served.memory() - before < 64 << 20
        for known in (first[1], handle):
            told = client.get_flight_info(
                flight.FlightDescriptor.for_command(message(b"CommandPreparedStatementQuery", field(1, known)))
            )
            assert client.do_get(told.endpoints[0].ticket).read_all().num_rows == 1
        # Those that run are counted.
        readers = []
        with pytest.raises(flight.FlightUnavailableError, match="queries run already"):
            for _ in range(200):
                readers.append(
                    client.do_get(info(client, 'select a.ts from "ticks.arrow" a, "ticks.arrow" b').endpoints[0].ticket)
                )
                readers[-1].read_chunk()
        assert 16 <= len(readers) <= 64
        for reader in readers:
            reader.cancel()
        del readers, reader
        rests(served)
        assert ask(client, "select 1 as one").num_rows == 1


def chain(count, first, of, last=""):
    return first + "".join(of.format(k) for k in range(count)) + last


# Nothing of these may end the server. A statement has 48 KiB at most.
DEEP = {
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


def test_what_is_too_deep_or_too_long_is_refused(folder):
    with connected(folder) as (_, client):
        for name, text in DEEP.items():
            with pytest.raises((pa.ArrowException, NotImplementedError)):
                ask(client, text)
            assert ask(client, "select 1 as one").to_pydict() == {"one": [1]}, name
        counts = {name: ask(client, text).num_rows for name, text in LARGE.items()}
        assert counts == {"sum": 1000, "or": 900, "unions": 301, "in": 1000, "joins": 2}


def test_a_server_without_an_engine_says_what_to_install(folder):
    import os
    import shutil
    import subprocess

    if not os.environ.get("ARROWWOOD"):
        pytest.skip("ARROWWOOD names no command without DataFusion")
    # Alone: the command runs the program with DataFusion where that lies beside it.
    plain = shutil.copy(os.environ["ARROWWOOD"], folder.parent / "arrowwood")
    process = subprocess.Popen(
        [plain, "serve", str(folder), "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True, env={"PATH": ""}
    )
    url = process.stdout.readline().strip()
    with (
        flight.connect(url.replace("http://", "grpc+tcp://")) as client,
        pytest.raises(NotImplementedError, match="arrowwood-datafusion"),
    ):
        ask(client, "select 1")
    process.terminate()
    process.wait()
