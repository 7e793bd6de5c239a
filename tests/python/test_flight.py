"""Arrow Flight of ``arrowwood serve``, as pyarrow's stock client sees it."""

import contextlib
import json
import subprocess
import sys
import threading
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE, join, wait_until

flight = pytest.importorskip("pyarrow.flight")

SCHEMA = pa.schema([pa.field("n", pa.int64(), False), pa.field("symbol", pa.string()), pa.field("x", pa.float64())])


def ticks(start, count):
    numbers = range(start, start + count)
    symbols = [None if n % 11 == 0 else f"S{n // 100}" for n in numbers]
    return pa.table(
        {"n": np.arange(start, start + count), "symbol": symbols, "x": np.arange(start, start + count) / 4}, SCHEMA
    )


@pytest.fixture
def served(tmp_path):
    """A directory with a table of 10,000 rows, and a client of its server."""
    with aw.writer(tmp_path / "ticks", SCHEMA, dictionary=["symbol"], segment_rows=3_000) as writer:
        writer.append(ticks(0, 10_000))
    with aw.serve(tmp_path) as server, flight.connect(server.url.replace("http://", "grpc+tcp://")) as client:
        yield tmp_path, client


def get(client, ticket, **options):
    return client.do_get(flight.Ticket(ticket), **options)


def as_rows(table):
    return table.to_pylist()


def put(client, descriptor, rows, **options):
    """Sends rows, and returns the answer; errors are raised when the writer is closed."""
    writer, answers = client.do_put(descriptor, rows.schema, **options)
    try:
        writer.write_table(rows)
        answer = answers.read()
    finally:
        writer.close()
    return json.loads(answer.to_pybytes())


def test_rows_are_those_that_are_mapped(served):
    folder, client = served
    mapped = pa.table(aw.open(folder / "ticks"))
    assert as_rows(get(client, "ticks").read_all()) == as_rows(mapped)
    some = get(client, "ticks?from=2990&to=3010&columns=symbol,n").read_all()
    assert as_rows(some) == as_rows(mapped.select(["symbol", "n"]).slice(2990, 20))
    few = get(client, "ticks?where=n+>+9990 and symbol in ('S99')&limit=3").read_all()
    assert [row["n"] for row in as_rows(few)] == [9991, 9992, 9993]
    assert get(client, "ticks?from=10000").read_all().num_rows == 0


def test_every_type_is_what_it_is_by_mapping(tmp_path):
    table = pa.table({
        "null": pa.nulls(5),
        "bool": [True, None, False, True, None],
        "list": pa.array([[1], None, [], [2, None], [3]], pa.list_(pa.int16())),
        "view": pa.array(["a", None, "longer than twelve bytes", "", "b"], pa.string_view()),
        "map": pa.array([[("k", 1)], None, [], [("a", None)], [("b", 2)]], pa.map_(pa.string(), pa.int8())),
        "dictionary": pa.array(["x", "y", None, "x", "x"]).dictionary_encode(),
        "decimal": pa.array([1, None, 3, 4, 5], pa.decimal128(20, 3)),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 2, "b": ""}, {"a": 3, "b": "z"}]),
    })  # fmt: skip
    aw.write(table, tmp_path / "types.arrow")
    with aw.serve(tmp_path) as server, flight.connect(server.url.replace("http://", "grpc+tcp://")) as client:
        read = get(client, "types.arrow").read_all()
        assert (read.schema, as_rows(read)) == (table.schema, as_rows(table))
        assert as_rows(get(client, "types.arrow?from=1&to=4").read_all()) == as_rows(table.slice(1, 3))


def test_every_type_that_grows_is_what_it_is_by_mapping(tmp_path):
    """A table as it grows, from no rows on: whole and in parts, mapped, by Flight and over HTTP,
    as pyarrow has them."""
    source = pa.table({
        "bool": [True, None, False, True, None],
        "int8": pa.array([1, None, -3, 4, 5], pa.int8()),
        "uint64": pa.array([1, None, 2**64 - 1, 4, 5], pa.uint64()),
        "float16": pa.array(np.array([1, 2, 3, 4, 5], np.float16)),
        "float64": [1.5, None, float("inf"), -0.0, 5.0],
        "decimal": pa.array([1, None, 3, 4, 5], pa.decimal128(20, 3)),
        "date": pa.array([0, None, 3, 4, 5], pa.date32()),
        "time": pa.array([0, None, 3, 4, 5], pa.time64("ns")),
        "timestamp": pa.array([0, None, 3, 4, 5], pa.timestamp("us", "Europe/Warsaw")),
        "duration": pa.array([0, None, 3, 4, 5], pa.duration("ms")),
        "interval": pa.array([(1, 2, 3), None, (0, 0, 0), (4, 5, 6), (7, 8, 9)], pa.month_day_nano_interval()),
        "text": ["a", None, "longer than twelve bytes", "", "żółć"],
        "large": pa.array(["a", None, "longer than twelve bytes", "", "b"], pa.large_string()),
        "view": pa.array(["a", None, "longer than twelve bytes", "", "b"], pa.string_view()),
        "bytes": pa.array([b"a", None, b"\x00\xff", b"", b"b"], pa.binary()),
        "fixed": pa.array([b"abc", None, b"def", b"ghi", b"jkl"], pa.binary(3)),
        "list": pa.array([[1], None, [], [2, None], [3]], pa.list_(pa.int16())),
        "pair": pa.array([[1, 2], None, [3, None], [4, 5], [6, 7]], pa.list_(pa.int32(), 2)),
        "map": pa.array([[("k", 1)], None, [], [("a", None)], [("b", 2)]], pa.map_(pa.string(), pa.int8())),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 2, "b": ""}, {"a": 3, "b": "z"}]),
        "key": pa.array(["x", "y", None, "x", "x"]).dictionary_encode(),
    })  # fmt: skip
    with aw.serve(tmp_path) as server, flight.connect(server.url.replace("http://", "grpc+tcp://")) as client:

        def ask(expected):
            mapped = pa.table(aw.open(tmp_path / "t"))
            assert as_rows(mapped) == expected
            end = len(expected)
            for start, stop in {(0, end), (end // 3, end - end // 4), (end // 2, end // 2), (end, end)}:
                called = get(client, f"t?from={start}&to={stop}").read_all()
                with urlopen(f"{server.url}/v1/tables/t/rows?from={start}&to={stop}", timeout=PATIENCE) as answer:
                    sent = pa.ipc.open_stream(answer).read_all()
                assert called.schema == sent.schema == mapped.schema
                assert as_rows(called) == as_rows(sent) == expected[start:stop]

        with aw.writer(tmp_path / "t", source.schema, segment_rows=12) as writer:
            ask([])
            assert (
                client.get_schema(flight.FlightDescriptor.for_path("t")).schema
                == pa.table(aw.open(tmp_path / "t")).schema
            )
            expected = []
            for number, (start, rows) in enumerate([(0, 1), (1, 4), (0, 5), (3, 2), (2, 1), (0, 5)]):
                part = source.slice(start, rows)
                # Keys that no batch before had.
                keys = pa.array(
                    [None if key is None else f"{key}{number}" for key in part["key"].to_pylist()]
                ).dictionary_encode()
                part = part.set_column(part.schema.get_field_index("key"), "key", keys)
                writer.append(part)
                writer.commit()
                expected += as_rows(part)
                ask(expected)


def test_keys_of_a_dictionary_that_grows_mean_the_same_in_a_stream_that_goes_on(served):
    folder, client = served
    reader = get(client, "ticks?follow=true&from=9990&columns=symbol,n")
    seen = []
    with aw.writer(folder / "ticks") as writer:
        for n in range(10_000, 10_400, 50):
            writer.append(ticks(n, 50))
            writer.commit()
            while len(seen) < n + 50 - 9_990:
                seen += reader.read_chunk().data.to_pylist()
    reader.cancel()
    assert seen == as_rows(ticks(9_990, 410).select(["symbol", "n"]))


def test_flights_are_found_and_their_parts_are_the_whole(served):
    folder, client = served
    listed = list(client.list_flights())
    assert [info.descriptor.path for info in listed] == [[b"ticks"]]
    info = client.get_flight_info(flight.FlightDescriptor.for_path("ticks"))
    assert (info.total_records, info.schema) == (10_000, pa.table(aw.open(folder / "ticks")).schema)
    parts = [client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints]
    assert as_rows(pa.concat_tables(parts)) == as_rows(pa.table(aw.open(folder / "ticks")))
    some = flight.FlightDescriptor.for_command("ticks?where=n < 10&columns=n")
    info = client.get_flight_info(some)
    assert info.total_records == -1 and client.get_schema(some).schema == info.schema
    [endpoint] = info.endpoints
    assert as_rows(client.do_get(endpoint.ticket).read_all()) == [{"n": n} for n in range(10)]


def test_a_ticket_is_of_the_table_that_it_was_made_for(served):
    folder, client = served
    [endpoint] = client.get_flight_info(flight.FlightDescriptor.for_path("ticks")).endpoints
    (folder / "ticks").rename(folder / "old")
    with aw.writer(folder / "ticks", schema=pa.table(aw.open(folder / "old")).schema) as writer:
        writer.append(ticks(0, 5))
    with pytest.raises(pa.ArrowException, match="replaced"):
        client.do_get(endpoint.ticket).read_all()


def test_batches_are_acknowledged_and_seen_by_everybody(served):
    folder, client = served
    sent = ticks(10_000, 300)
    writer, answers = client.do_put(flight.FlightDescriptor.for_path("ticks"), sent.schema)
    for start in (0, 100, 200):
        writer.write_table(sent.slice(start, 100))
        answer = json.loads(answers.read().to_pybytes())
        assert (answer["first_row"], answer["rows"], answer["durable"]) == (10_000 + start, 100, 10_100 + start)
    writer.close()
    assert as_rows(pa.table(aw.open(folder / "ticks"))) == as_rows(ticks(0, 10_300))


def test_dictionaries_come_with_the_batches(served):
    folder, client = served
    encoded = ticks(10_000, 200)
    encoded = encoded.set_column(1, "symbol", encoded["symbol"].combine_chunks().dictionary_encode())
    writer, answers = client.do_put(flight.FlightDescriptor.for_command(b"ticks?ack=visible"), encoded.schema)
    for start in (0, 50):
        writer.write_table(encoded.slice(start, 50 + 2 * start))
        assert json.loads(answers.read().to_pybytes())["rows"] == 50 + 2 * start
    writer.close()
    assert as_rows(pa.table(aw.open(folder / "ticks")).slice(10_000)) == as_rows(ticks(10_000, 200))


def test_a_producer_that_sends_again_doubles_nothing(served):
    folder, client = served

    def send(sequence):
        command = f"ticks?producer=s1&sequence={sequence}"
        writer, answers = client.do_put(flight.FlightDescriptor.for_command(command), SCHEMA)
        found = []
        for start in range(10_000 + 10 * sequence, 10_050, 10):
            writer.write_table(ticks(start, 10))
            found.append(json.loads(answers.read().to_pybytes())["duplicate"])
        writer.close()
        return found

    assert send(0) == [False] * 5
    assert send(3) == [True, True]
    assert as_rows(pa.table(aw.open(folder / "ticks"))) == as_rows(ticks(0, 10_050))
    with pytest.raises(pa.ArrowException, match="sequence_gap"):
        put(client, flight.FlightDescriptor.for_command("ticks?producer=s1&sequence=99"), ticks(0, 1))


def test_a_stream_goes_on_with_the_table(served):
    folder, client = served
    seen, begun = [], threading.Event()
    reader = get(client, "ticks?follow=true&from=9999&columns=n")

    def read():
        for chunk in reader:
            seen.extend(chunk.data["n"].to_pylist())
            begun.set()
            if len(seen) >= 6:
                return

    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(PATIENCE), "no row has come"
    with aw.writer(folder / "ticks") as writer:
        for n in range(10_000, 10_005):
            writer.append(ticks(n, 1))
            writer.commit()
    join(thread)
    assert seen == list(range(9_999, 10_005))
    reader.cancel()


def exchange(client, command, **options):
    """A call that goes both ways: its writer, and a function that waits for so many rows and answers,
    or for the end."""
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(command), **options)
    rows, answers = [], []

    def until(rows_wanted=None, answers_wanted=0):
        while rows_wanted is None or len(rows) < rows_wanted or len(answers) < answers_wanted:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                break
            if chunk.data is None:
                answers.append(json.loads(chunk.app_metadata.to_pybytes()))
            else:
                rows.extend(chunk.data["n"].to_pylist())
        return rows, answers

    return writer, until


def test_an_exchange_answers_batches_and_sends_rows_of_everybody(served):
    folder, client = served
    writer, until = exchange(client, "ticks?from=9998&columns=n&producer=s1&sequence=0")
    assert until(2) == ([9_998, 9_999], [])
    writer.begin(SCHEMA)
    writer.write_table(ticks(10_000, 5))
    rows, answers = until(7, 1)
    assert rows == list(range(9_998, 10_005))
    assert [(it["first_row"], it["rows"], it["durable"], it["sequence"]) for it in answers] == [(10_000, 5, 10_005, 0)]
    put(client, flight.FlightDescriptor.for_path("ticks"), ticks(10_005, 3))
    until(10, 1)
    for start in (10_008, 10_009):
        writer.write_table(ticks(start, 1))
    writer.done_writing()
    rows, answers = until()
    assert rows == list(range(9_998, 10_010)) == pa.table(aw.open(folder / "ticks"))["n"].to_pylist()[9_998:]
    assert [it["sequence"] for it in answers] == [0, 1, 2]
    writer.close()


def test_an_exchange_may_only_append_or_only_follow(served):
    folder, client = served
    # Sent again, and nothing is there twice.
    for is_repeat in (False, True):
        writer, until = exchange(client, "ticks?follow=false&producer=s1&sequence=7")
        writer.begin(SCHEMA)
        writer.write_table(ticks(10_000, 5))
        writer.done_writing()
        rows, [answer] = until()
        assert (rows, answer["duplicate"]) == ([], is_repeat)
        writer.close()
    writer, until = exchange(client, "ticks?from=10004")
    assert until(1) == ([10_004], [])
    writer.done_writing()
    assert until() == ([10_004], [])
    writer.close()
    assert as_rows(pa.table(aw.open(folder / "ticks"))) == as_rows(ticks(0, 10_005))
    for command, words in [
        ("ticks?follow=false&from=3", "from goes with follow"),
        ("ticks?limit=3", "no parameter 'limit'"),
        ("nothing", "no such table"),
    ]:
        with pytest.raises((pa.ArrowException, KeyError), match=words):
            exchange(client, command)[1]()
    writer, until = exchange(client, "ticks?from=0")
    writer.begin(pa.schema([("other", pa.int64())]))
    writer.write_table(pa.table({"other": [1]}))
    with pytest.raises(pa.ArrowException, match="column"):
        until()


@pytest.mark.parametrize(
    ("ticket", "error", "words"),
    [
        ("nothing", KeyError, "no such table"),
        ("../ticks", KeyError, "not_found"),
        ("ticks?form=1", pa.ArrowInvalid, "there is no parameter 'form'"),
        ("ticks?where=n >", pa.ArrowInvalid, "where"),
        ("ticks?from=10001", (pa.ArrowInvalid, IndexError, pa.ArrowException), "ends with row 10000"),
        ("ticks?follow=true&limit=3", pa.ArrowInvalid, "limit does not go with follow"),
        (b"\xff", pa.ArrowInvalid, "not UTF-8"),
    ],
)  # fmt: skip
def test_tickets_that_mean_nothing(served, ticket, error, words):
    with pytest.raises(error, match=words):
        get(served[1], ticket).read_all()


def test_rows_that_do_not_fit_are_refused_and_the_table_stays(served):
    folder, client = served
    for wrong in [pa.table({"n": ["a"]}), pa.table({"other": [1]})]:
        with pytest.raises(pa.ArrowException, match="column"):
            put(client, flight.FlightDescriptor.for_path("ticks"), wrong)
    with pytest.raises((KeyError, pa.ArrowException), match="no such table"):
        put(client, flight.FlightDescriptor.for_path("nothing"), ticks(0, 1))
    assert len(aw.open(folder / "ticks")) == 10_000
    with pytest.raises(NotImplementedError, match="drop|no_engine"):
        list(client.do_action("drop"))


def test_no_call_is_answered_without_a_valid_token(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    with aw.writer(folder / "open", SCHEMA) as writer:
        writer.append(ticks(0, 3))
    command = [sys.executable, "-m", "arrowwood._cli", "token"]
    file = ["--token-file", tmp_path / "tokens.json"]
    add = [*command, "add", "all", "--read", "*", "--write", "*", *file]
    secret = subprocess.run(add, check=True, capture_output=True, text=True).stdout.strip()
    path = flight.FlightDescriptor.for_path("open")
    calls = {
        "ListFlights": lambda client, options: list(client.list_flights(options=options)),
        "GetFlightInfo": lambda client, options: client.get_flight_info(path, options=options),
        "GetSchema": lambda client, options: client.get_schema(path, options=options),
        "DoGet": lambda client, options: get(client, "open", options=options).read_all(),
        "DoPut": lambda client, options: put(client, path, ticks(3, 1), options=options),
        "DoExchange": lambda client, options: exchange(client, "open?from=0", options=options)[1](1),
    }

    def refusals(client, headers):
        options = flight.FlightCallOptions(headers=headers)
        refused = set()
        for name, call in calls.items():
            # pyarrow replaces the errors of some calls by its own.
            with contextlib.suppress(Exception):
                call(client, options)
                continue
            refused.add(name)
        return refused

    with (
        aw.serve(folder, token_file=tmp_path / "tokens.json") as server,
        flight.connect(server.url.replace("http://", "grpc+tcp://")) as client,
    ):
        bearer = [(b"authorization", f"Bearer {secret}".encode())]
        assert refusals(client, []) == set(calls)
        assert refusals(client, [(b"authorization", b"Bearer aw_0_0")]) == set(calls)
        assert len(aw.open(folder / "open")) == 3
        assert refusals(client, bearer) == set()
        assert len(aw.open(folder / "open")) == 4
        subprocess.run([*command, "revoke", "all", *file], check=True)
        wait_until(lambda: refusals(client, bearer) == set(calls), "a token that was revoked is refused")
        server.close()
        assert {line["status"] for line in map(json.loads, server.log) if line["status"] >= 400} == {401}


def test_tokens_and_their_rights(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("open", "closed"):
        with aw.writer(folder / name, SCHEMA) as writer:
            writer.append(ticks(0, 3))
    tokens = tmp_path / "tokens.json"
    command = [
        sys.executable,
        "-m",
        "arrowwood._cli",
        "token",
        "add",
        "reader",
        "--read",
        "open",
        "--token-file",
        tokens,
    ]
    reader = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    command = [*command[:5], "writer", "--write", "open", "--token-file", tokens]
    writer = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    with (
        aw.serve(folder, token_file=tokens) as server,
        flight.connect(server.url.replace("http://", "grpc+tcp://")) as client,
    ):

        def options(secret):
            return flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {secret}".encode())])

        assert get(client, "open", options=options(reader)).read_all().num_rows == 3
        assert [info.descriptor.path for info in client.list_flights(options=options(reader))] == [[b"open"]]
        with pytest.raises(flight.FlightUnauthenticatedError):
            get(client, "open").read_all()
        with pytest.raises(flight.FlightUnauthenticatedError):
            get(client, "open", options=options("wrong")).read_all()
        for name in ("closed", "nothing"):
            with pytest.raises(flight.FlightUnauthorizedError):
                get(client, name, options=options(reader)).read_all()
        with pytest.raises(flight.FlightUnauthorizedError):
            put(client, flight.FlightDescriptor.for_path("open"), ticks(0, 1), options=options(reader))
        # Who may only write has the schema, and no rows.
        path = flight.FlightDescriptor.for_path
        assert client.get_schema(path("open"), options=options(writer)).schema == SCHEMA
        with pytest.raises(flight.FlightUnauthorizedError):
            get(client, "open", options=options(writer)).read_all()
        for name, secret in [("closed", writer), ("closed", reader)]:
            # pyarrow makes no error of Flight of this one.
            with pytest.raises(OSError, match="no right to read"):
                client.get_schema(path(name), options=options(secret))
        # Any client may read the rows, until some are sent.
        writer, until = exchange(client, "open?from=0", options=options(reader))
        assert until(3) == ([0, 1, 2], [])
        writer.begin(SCHEMA)
        with pytest.raises(flight.FlightUnauthorizedError):
            until()
        for command in ("closed", "open?follow=false"):
            with pytest.raises(flight.FlightUnauthorizedError):
                exchange(client, command, options=options(reader))[1]()
        server.close()
        refused = [line for line in map(json.loads, server.log) if line["path"].endswith("/DoExchange")]
        assert {line["status"] for line in refused} == {403} and len(refused) == 3
        assert reader not in "\n".join(server.log)
