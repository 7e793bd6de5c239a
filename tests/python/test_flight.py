"""Tests Arrow Flight of ``arrowwood serve`` with the client of pyarrow."""

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


def make_ticks(start, row_count):
    """Returns rows with the numbers from `start` on; every eleventh symbol is null."""
    numbers = np.arange(start, start + row_count)
    symbols = [None if n % 11 == 0 else f"S{n // 100}" for n in numbers]
    return pa.table({"n": numbers, "symbol": symbols, "x": numbers / 4}, SCHEMA)


def connect(server):
    return flight.connect(server.url.replace("http://", "grpc+tcp://"))


@pytest.fixture
def served(tmp_path):
    """A folder with the table ``ticks`` of 10,000 rows, and a client of its server."""
    with aw.writer(tmp_path / "ticks", SCHEMA, dictionary=["symbol"], segment_rows=3_000) as writer:
        writer.append(make_ticks(0, 10_000))
    with aw.serve(tmp_path) as server, connect(server) as client:
        yield tmp_path, client


def get(client, ticket, **options):
    return client.do_get(flight.Ticket(ticket), **options)


def get_rows(client, ticket, **options):
    return get(client, ticket, **options).read_all().to_pylist()


def mapped_table(path):
    """Returns a table by mapping its files, without the server."""
    return pa.table(aw.open(path))


def read_answer(answers):
    """Returns the next answer to a batch."""
    return json.loads(answers.read().to_pybytes())


def put(client, target, rows, **options):
    """Sends rows to a table or a command, and returns the answer; closing the writer raises the server's error."""
    writer, answers = client.do_put(target, rows.schema, **options)
    try:
        writer.write_table(rows)
        answer = answers.read()
    finally:
        writer.close()
    return json.loads(answer.to_pybytes())


def table_target(name):
    return flight.FlightDescriptor.for_path(name)


def command_target(command):
    return flight.FlightDescriptor.for_command(command)


# ---- reading ----


def test_get_returns_the_mapped_rows(served):
    folder, client = served
    mapped = mapped_table(folder / "ticks")
    assert get_rows(client, "ticks") == mapped.to_pylist()
    range_of_columns = mapped.select(["symbol", "n"]).slice(2990, 20)
    assert get_rows(client, "ticks?from=2990&to=3010&columns=symbol,n") == range_of_columns.to_pylist()
    filtered = get_rows(client, "ticks?where=n+>+9990 and symbol in ('S99')&limit=3")
    assert [row["n"] for row in filtered] == [9991, 9992, 9993]
    assert get_rows(client, "ticks?from=10000") == []


def test_get_preserves_types_of_files(tmp_path):
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
    with aw.serve(tmp_path) as server, connect(server) as client:
        received = get(client, "types.arrow").read_all()
        assert received.schema == table.schema
        assert received.to_pylist() == table.to_pylist()
        assert get_rows(client, "types.arrow?from=1&to=4") == table.slice(1, 3).to_pylist()


def test_get_preserves_types_of_growing_tables(tmp_path):
    """Rows are the same by mapping, by Flight and over HTTP, in whole and in part, from the empty table on."""
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
    with (
        aw.serve(tmp_path) as server,
        connect(server) as client,
        aw.writer(tmp_path / "t", source.schema, segment_rows=12) as writer,
    ):
        assert_same_everywhere(server, client, tmp_path / "t", [])
        schema = client.get_schema(table_target("t")).schema
        assert schema == mapped_table(tmp_path / "t").schema
        expected = []
        for number, (start, row_count) in enumerate([(0, 1), (1, 4), (0, 5), (3, 2), (2, 1), (0, 5)]):
            batch = rename_keys(source.slice(start, row_count), number)
            writer.append(batch)
            writer.commit()
            expected += batch.to_pylist()
            assert_same_everywhere(server, client, tmp_path / "t", expected)


def rename_keys(table, number):
    """Returns the table with keys in its dictionary that no table with another number has."""
    keys = [None if key is None else f"{key}{number}" for key in table["key"].to_pylist()]
    return table.set_column(table.schema.get_field_index("key"), "key", pa.array(keys).dictionary_encode())


def assert_same_everywhere(server, client, path, expected):
    """Asserts that the table has the expected rows by mapping, by Flight and over HTTP."""
    mapped = mapped_table(path)
    assert mapped.to_pylist() == expected
    end = len(expected)
    for start, stop in {(0, end), (end // 3, end - end // 4), (end // 2, end // 2), (end, end)}:
        address = f"{path.name}?from={start}&to={stop}"
        by_flight = get(client, address).read_all()
        url = f"{server.url}/v1/tables/{path.name}/rows?from={start}&to={stop}"
        with urlopen(url, timeout=PATIENCE) as response:
            by_http = pa.ipc.open_stream(response).read_all()
        assert by_flight.schema == by_http.schema == mapped.schema
        assert by_flight.to_pylist() == by_http.to_pylist() == expected[start:stop]


def test_followed_stream_receives_new_dictionary_keys(served):
    folder, client = served
    reader = get(client, "ticks?follow=true&from=9990&columns=symbol,n")
    received = []
    with aw.writer(folder / "ticks") as writer:
        for n in range(10_000, 10_400, 50):
            writer.append(make_ticks(n, 50))
            writer.commit()
            while len(received) < n + 50 - 9_990:
                received += reader.read_chunk().data.to_pylist()
    reader.cancel()
    assert received == make_ticks(9_990, 410).select(["symbol", "n"]).to_pylist()


def test_followed_stream_continues_with_committed_rows(served):
    folder, client = served
    reader = get(client, "ticks?follow=true&from=9999&columns=n")
    received, has_begun = [], threading.Event()

    def read_six_rows():
        for chunk in reader:
            received.extend(chunk.data["n"].to_pylist())
            has_begun.set()
            if len(received) >= 6:
                return

    thread = threading.Thread(target=read_six_rows)
    thread.start()
    assert has_begun.wait(PATIENCE), "no row has come"
    with aw.writer(folder / "ticks") as writer:
        for n in range(10_000, 10_005):
            writer.append(make_ticks(n, 1))
            writer.commit()
    join(thread)
    assert received == list(range(9_999, 10_005))
    reader.cancel()


def test_flights_are_listed_with_endpoints_for_all_rows(served):
    folder, client = served
    assert [info.descriptor.path for info in client.list_flights()] == [[b"ticks"]]
    mapped = mapped_table(folder / "ticks")
    info = client.get_flight_info(table_target("ticks"))
    assert (info.total_records, info.schema) == (10_000, mapped.schema)
    parts = [client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints]
    assert pa.concat_tables(parts).to_pylist() == mapped.to_pylist()


def test_flight_info_of_a_query_has_one_endpoint(served):
    _, client = served
    query = command_target("ticks?where=n < 10&columns=n")
    info = client.get_flight_info(query)
    # The number of rows is unknown before the query runs.
    assert info.total_records == -1 and client.get_schema(query).schema == info.schema
    [endpoint] = info.endpoints
    assert client.do_get(endpoint.ticket).read_all().to_pylist() == [{"n": n} for n in range(10)]


def test_ticket_of_a_replaced_table_is_refused(served):
    folder, client = served
    [endpoint] = client.get_flight_info(table_target("ticks")).endpoints
    (folder / "ticks").rename(folder / "old")
    with aw.writer(folder / "ticks", schema=mapped_table(folder / "old").schema) as writer:
        writer.append(make_ticks(0, 5))
    with pytest.raises(pa.ArrowException, match="replaced"):
        client.do_get(endpoint.ticket).read_all()


@pytest.mark.parametrize(
    ("ticket", "error", "message"),
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
def test_invalid_tickets_are_refused(served, ticket, error, message):
    _, client = served
    with pytest.raises(error, match=message):
        get_rows(client, ticket)


# ---- appending ----


def test_put_acknowledges_each_batch(served):
    folder, client = served
    rows = make_ticks(10_000, 300)
    writer, answers = client.do_put(table_target("ticks"), rows.schema)
    for start in (0, 100, 200):
        writer.write_table(rows.slice(start, 100))
        answer = read_answer(answers)
        assert (answer["first_row"], answer["rows"], answer["durable"]) == (10_000 + start, 100, 10_100 + start)
    writer.close()
    assert mapped_table(folder / "ticks").to_pylist() == make_ticks(0, 10_300).to_pylist()


def test_put_accepts_dictionaries(served):
    folder, client = served
    rows = make_ticks(10_000, 200)
    encoded = rows.set_column(1, "symbol", rows["symbol"].combine_chunks().dictionary_encode())
    writer, answers = client.do_put(command_target("ticks?ack=visible"), encoded.schema)
    for start, row_count in ((0, 50), (50, 150)):
        writer.write_table(encoded.slice(start, row_count))
        assert read_answer(answers)["rows"] == row_count
    writer.close()
    assert mapped_table(folder / "ticks").slice(10_000).to_pylist() == rows.to_pylist()


def put_from_sequence(client, sequence):
    """Sends batches of 10 rows up to row 10,050 as a producer; returns which of them were duplicates."""
    target = command_target(f"ticks?producer=s1&sequence={sequence}")
    writer, answers = client.do_put(target, SCHEMA)
    duplicates = []
    for start in range(10_000 + 10 * sequence, 10_050, 10):
        writer.write_table(make_ticks(start, 10))
        duplicates.append(read_answer(answers)["duplicate"])
    writer.close()
    return duplicates


def test_put_ignores_batches_that_a_producer_repeats(served):
    folder, client = served
    assert put_from_sequence(client, 0) == [False] * 5
    assert put_from_sequence(client, 3) == [True, True]
    assert mapped_table(folder / "ticks").to_pylist() == make_ticks(0, 10_050).to_pylist()
    with pytest.raises(pa.ArrowException, match="sequence_gap"):
        put(client, command_target("ticks?producer=s1&sequence=99"), make_ticks(0, 1))


def test_put_of_other_columns_is_refused(served):
    folder, client = served
    for rows in [pa.table({"n": ["a"]}), pa.table({"other": [1]})]:
        with pytest.raises(pa.ArrowException, match="column"):
            put(client, table_target("ticks"), rows)
    with pytest.raises((KeyError, pa.ArrowException), match="no such table"):
        put(client, table_target("nothing"), make_ticks(0, 1))
    assert len(aw.open(folder / "ticks")) == 10_000


def test_actions_are_not_supported(served):
    _, client = served
    with pytest.raises(NotImplementedError, match="drop|no_engine"):
        list(client.do_action("drop"))


# ---- exchanges, which append and follow in one call ----


class Exchange:
    """A DoExchange call: its writer, and the rows and answers that were received."""

    def __init__(self, client, command, **options):
        self.writer, self.reader = client.do_exchange(command_target(command), **options)
        self.rows, self.answers = [], []

    def send(self, rows):
        self.writer.write_table(rows)

    def receive(self, row_count, answer_count=0):
        """Receives until there are so many rows and answers, or the call ends."""
        while len(self.rows) < row_count or len(self.answers) < answer_count:
            if not self.receive_chunk():
                return

    def receive_all(self):
        """Receives until the call ends."""
        while self.receive_chunk():
            pass

    def receive_chunk(self):
        """Receives rows or an answer, and returns False at the end of the call."""
        try:
            chunk = self.reader.read_chunk()
        except StopIteration:
            return False
        if chunk.data is None:
            self.answers.append(json.loads(chunk.app_metadata.to_pybytes()))
        else:
            self.rows.extend(chunk.data["n"].to_pylist())
        return True


def test_exchange_acknowledges_batches_and_sends_rows_of_all_writers(served):
    folder, client = served
    exchange = Exchange(client, "ticks?from=9998&columns=n&producer=s1&sequence=0")
    exchange.receive(row_count=2)
    assert (exchange.rows, exchange.answers) == ([9_998, 9_999], [])
    exchange.writer.begin(SCHEMA)
    exchange.send(make_ticks(10_000, 5))
    exchange.receive(row_count=7, answer_count=1)
    assert exchange.rows == list(range(9_998, 10_005))
    [answer] = exchange.answers
    assert (answer["first_row"], answer["rows"]) == (10_000, 5)
    assert (answer["durable"], answer["sequence"]) == (10_005, 0)
    # Another producer appends rows.
    put(client, table_target("ticks"), make_ticks(10_005, 3))
    exchange.receive(row_count=10, answer_count=1)
    for start in (10_008, 10_009):
        exchange.send(make_ticks(start, 1))
    exchange.writer.done_writing()
    exchange.receive_all()
    assert exchange.rows == list(range(9_998, 10_010))
    assert exchange.rows == mapped_table(folder / "ticks")["n"].to_pylist()[9_998:]
    assert [answer["sequence"] for answer in exchange.answers] == [0, 1, 2]
    exchange.writer.close()


def test_exchange_that_only_appends_ignores_repeated_batches(served):
    folder, client = served
    for is_repeat in (False, True):
        exchange = Exchange(client, "ticks?follow=false&producer=s1&sequence=7")
        exchange.writer.begin(SCHEMA)
        exchange.send(make_ticks(10_000, 5))
        exchange.writer.done_writing()
        exchange.receive_all()
        [answer] = exchange.answers
        assert (exchange.rows, answer["duplicate"]) == ([], is_repeat)
        exchange.writer.close()
    assert mapped_table(folder / "ticks").to_pylist() == make_ticks(0, 10_005).to_pylist()

    follower = Exchange(client, "ticks?from=10004")
    follower.receive(row_count=1)
    assert follower.rows == [10_004]
    follower.writer.done_writing()
    follower.receive_all()
    follower.writer.close()


def test_exchange_that_only_follows_ends_after_done_writing(served):
    _, client = served
    exchange = Exchange(client, "ticks?from=9999")
    exchange.receive(row_count=1)
    assert (exchange.rows, exchange.answers) == ([9_999], [])
    exchange.writer.done_writing()
    exchange.receive_all()
    assert (exchange.rows, exchange.answers) == ([9_999], [])
    exchange.writer.close()


def test_exchange_refuses_invalid_commands_and_columns(served):
    _, client = served
    for command, message in [
        ("ticks?follow=false&from=3", "from goes with follow"),
        ("ticks?limit=3", "no parameter 'limit'"),
        ("nothing", "no such table"),
    ]:
        with pytest.raises((pa.ArrowException, KeyError), match=message):
            Exchange(client, command).receive_all()
    exchange = Exchange(client, "ticks?from=0")
    exchange.writer.begin(pa.schema([("other", pa.int64())]))
    exchange.send(pa.table({"other": [1]}))
    with pytest.raises(pa.ArrowException, match="column"):
        exchange.receive_all()


# ---- tokens ----


def run_token_command(tokens, *arguments):
    """Runs ``arrowwood token`` with the file `tokens`, and returns its output."""
    command = [sys.executable, "-m", "arrowwood._cli", "token", *arguments, "--token-file", tokens]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def call_options(secret):
    return flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {secret}".encode())])


def create_table(folder, name):
    with aw.writer(folder / name, SCHEMA) as writer:
        writer.append(make_ticks(0, 3))


@pytest.fixture
def protected(tmp_path):
    """A folder with the tables ``open`` and ``closed``, and a file for tokens."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("open", "closed"):
        create_table(folder, name)
    return folder, tmp_path / "tokens.json"


# All calls of a client, on the table `open`.
CALLS = {
    "ListFlights": lambda client, options: list(client.list_flights(options=options)),
    "GetFlightInfo": lambda client, options: client.get_flight_info(table_target("open"), options=options),
    "GetSchema": lambda client, options: client.get_schema(table_target("open"), options=options),
    "DoGet": lambda client, options: get_rows(client, "open", options=options),
    "DoPut": lambda client, options: put(client, table_target("open"), make_ticks(3, 1), options=options),
    "DoExchange": lambda client, options: Exchange(client, "open?from=0", options=options).receive(row_count=1),
}


def find_refused_calls(client, options):
    """Returns the names of the calls that fail."""
    refused = set()
    for name, call in CALLS.items():
        try:
            call(client, options)
        # pyarrow replaces errors of some calls by its own: the server's log tells that tokens were the reason.
        except Exception:
            refused.add(name)
    return refused


def test_every_call_needs_a_valid_token(protected):
    folder, tokens = protected
    secret = run_token_command(tokens, "add", "all", "--read", "*", "--write", "*")
    with aw.serve(folder, token_file=tokens) as server, connect(server) as client:
        assert find_refused_calls(client, flight.FlightCallOptions(headers=[])) == set(CALLS)
        assert find_refused_calls(client, call_options("aw_0_0")) == set(CALLS)
        assert len(aw.open(folder / "open")) == 3
        assert find_refused_calls(client, call_options(secret)) == set()
        assert len(aw.open(folder / "open")) == 4
        run_token_command(tokens, "revoke", "all")
        wait_until(
            lambda: find_refused_calls(client, call_options(secret)) == set(CALLS),
            "a token that was revoked is refused",
        )
        server.close()
        error_statuses = {line["status"] for line in map(json.loads, server.log) if line["status"] >= 400}
        assert error_statuses == {401}


def test_token_limits_reads_to_its_tables(protected):
    folder, tokens = protected
    reader = call_options(run_token_command(tokens, "add", "reader", "--read", "open"))
    with aw.serve(folder, token_file=tokens) as server, connect(server) as client:
        assert len(get_rows(client, "open", options=reader)) == 3
        assert [info.descriptor.path for info in client.list_flights(options=reader)] == [[b"open"]]
        with pytest.raises(flight.FlightUnauthenticatedError):
            get_rows(client, "open")
        with pytest.raises(flight.FlightUnauthenticatedError):
            get_rows(client, "open", options=call_options("wrong"))
        for name in ("closed", "nothing"):
            with pytest.raises(flight.FlightUnauthorizedError):
                get_rows(client, name, options=reader)
        # pyarrow has no Flight error for this response.
        with pytest.raises(OSError, match="no right to read"):
            client.get_schema(table_target("closed"), options=reader)
        with pytest.raises(flight.FlightUnauthorizedError):
            put(client, table_target("open"), make_ticks(0, 1), options=reader)


def test_token_for_writes_reads_the_schema_but_no_rows(protected):
    folder, tokens = protected
    writer = call_options(run_token_command(tokens, "add", "writer", "--write", "open"))
    with aw.serve(folder, token_file=tokens) as server, connect(server) as client:
        assert client.get_schema(table_target("open"), options=writer).schema == SCHEMA
        with pytest.raises(flight.FlightUnauthorizedError):
            get_rows(client, "open", options=writer)
        with pytest.raises(OSError, match="no right to read"):
            client.get_schema(table_target("closed"), options=writer)


def test_exchange_checks_rights_when_rows_are_sent(protected):
    """A reader may follow rows in an exchange, and is refused once it appends."""
    folder, tokens = protected
    secret = run_token_command(tokens, "add", "reader", "--read", "open")
    reader = call_options(secret)
    with aw.serve(folder, token_file=tokens) as server, connect(server) as client:
        exchange = Exchange(client, "open?from=0", options=reader)
        exchange.receive(row_count=3)
        assert (exchange.rows, exchange.answers) == ([0, 1, 2], [])
        exchange.writer.begin(SCHEMA)
        with pytest.raises(flight.FlightUnauthorizedError):
            exchange.receive_all()
        for command in ("closed", "open?follow=false"):
            with pytest.raises(flight.FlightUnauthorizedError):
                Exchange(client, command, options=reader).receive_all()
        server.close()
        exchanges = [line for line in map(json.loads, server.log) if line["path"].endswith("/DoExchange")]
        assert len(exchanges) == 3 and {line["status"] for line in exchanges} == {403}
        # Logs don't contain secrets.
        assert secret not in "\n".join(server.log)
