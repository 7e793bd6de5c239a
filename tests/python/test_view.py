"""Tests ``aw.view``: the messages of its notebook widget, the rows that it shows, and the local server."""

import gc
import itertools
import json
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE, join

COLUMNS = {"n": np.arange(1_000), "x": np.arange(1_000) / 4}


class Notebook:
    """Plays the browser of a notebook: sends messages to the widget of a view, and records its messages."""

    def __init__(self, view):
        self.widget = view._get_widget()
        # Pairs of a message and its buffers.
        self.received, self.changed = [], threading.Condition()
        self.widget.send = self.receive

    def receive(self, message, buffers):
        with self.changed:
            self.received.append((message, [bytes(buffer) for buffer in buffers or ()]))
            self.changed.notify_all()

    def send(self, **message):
        self.widget._handle_custom_msg(message, [])

    def response_messages(self, output, request_id):
        """Returns the messages and buffers for a request of one output."""
        return [
            (message, buffers)
            for message, buffers in self.received
            if (message["view"], message["id"]) == (output, request_id)
        ]

    def response_body(self, output, request_id):
        """Returns the bytes that were received for a request."""
        return b"".join(part for _, buffers in self.response_messages(output, request_id) for part in buffers)

    def wait_for(self, condition):
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE), self.received

    def get(self, address, request_id=1, output="a"):
        """Sends a request, waits for its end, and returns the status and the body."""
        self.send(view=output, id=request_id, address=address)
        self.wait_for(lambda: any(message.get("end") for message, _ in self.response_messages(output, request_id)))
        first_message, _ = self.response_messages(output, request_id)[0]
        return first_message.get("status"), self.response_body(output, request_id)

    def get_json(self, address, request_id=1):
        status, body = self.get(address, request_id)
        return status, json.loads(body)


def read_table_facts(view):
    """Returns what the server tells about the table that a view shows."""
    notebook = Notebook(view)
    _, answer = notebook.get_json("/v1/tables")
    [table] = answer["tables"]
    status, facts = notebook.get_json(f"/v1/tables/{table['name']}", request_id=2)
    assert status == 200
    return facts


def test_widget_answers_requests_of_the_page(tmp_path):
    pytest.importorskip("anywidget")
    aw.write(COLUMNS, tmp_path / "a.arrow")
    with aw.view(tmp_path / "a.arrow", height=300) as view:
        notebook = Notebook(view)
        assert notebook.widget.height == 300
        assert "iframe" in notebook.widget._esm
        bundle = view._repr_mimebundle_()
        if isinstance(bundle, tuple):
            bundle = bundle[0]
        assert "application/vnd.jupyter.widget-view+json" in bundle
        for request_id, name in enumerate(["view.js", "view.css"], start=1):
            status, text = notebook.get(f"/{name}", request_id)
            assert status == 200 and len(text) > 1_000
        # Two outputs of a cell may use the same ids, and get their own responses.
        _, body = notebook.get("/v1/tables/a.arrow/cells?from=998", request_id=1, output="b")
        assert json.loads(body)["cells"] == [["998", "249.5"], ["999", "249.75"]]
        status, problem = notebook.get_json("/v1/tables/a.arrow/cells?at=9", request_id=3)
        assert status == 400 and "below 2" in problem["detail"]


def test_widget_reaches_only_its_server(tmp_path):
    pytest.importorskip("anywidget")
    aw.write(COLUMNS, tmp_path / "a.arrow")
    with aw.view(tmp_path / "a.arrow") as view:
        notebook = Notebook(view)
        # The server refuses unknown paths, and the client of the widget other addresses.
        for request_id, address in enumerate(["http://127.0.0.1:1/", "/../secret", "x\r\nHost: evil"]):
            status, _ = notebook.get(address, request_id)
            assert status in {0, 400, 404, 421}


def test_closed_view_answers_nothing(tmp_path):
    pytest.importorskip("anywidget")
    aw.write(COLUMNS, tmp_path / "a.arrow")
    with aw.view(tmp_path / "a.arrow") as view:
        notebook = Notebook(view)
    with pytest.raises(URLError):
        urlopen(view.url, timeout=PATIENCE)
    status, _ = notebook.get("/v1/tables")
    assert status == 0
    assert repr(view) == "<arrowwood.View closed>"
    view.close()


def test_page_can_cancel_an_endless_response(tmp_path):
    pytest.importorskip("anywidget")
    with aw.writer(tmp_path / "t", {"n": "int64"}) as writer:
        writer.append({"n": np.arange(10)})
        writer.commit()
        with aw.view(tmp_path / "t") as view:
            notebook = Notebook(view)
            notebook.send(view="a", id=7, address="/v1/tables/t/events?interval=10")
            notebook.wait_for(lambda: 10 in read_event_ends(notebook, 7))
            writer.append({"n": np.arange(5)})
            writer.commit()
            notebook.wait_for(lambda: 15 in read_event_ends(notebook, 7))
            # A message without an address cancels a request; unknown ids are ignored.
            notebook.send(view="a", id=7)
            notebook.send(view="a", id=8)
            for thread in threading.enumerate():
                if thread.name == "arrowwood-view":
                    join(thread)
            # A cancelled request sends no further message, not even its end.
            assert not any("end" in message for message, _ in notebook.response_messages("a", 7))


def read_event_ends(notebook, request_id):
    """Returns the numbers of rows that the events of a response tell."""
    lines = notebook.response_body("a", request_id).decode().splitlines()
    return [json.loads(line.removeprefix("data: "))["end"] for line in lines if line.startswith("data: ")]


def test_files_are_shown_in_place_and_other_rows_from_a_temporary_file(tmp_path):
    pytest.importorskip("anywidget")
    path = tmp_path / "a.arrow"
    aw.write(COLUMNS, path)
    with aw.writer(tmp_path / "t", {"n": "int64"}) as writer:
        writer.append({"n": np.arange(10)})
    dataset = aw.open(path)
    for data, expected_path, row_count, columns in [
        (str(path), path, 1_000, ["n", "x"]),
        (dataset, path, 1_000, ["n", "x"]),
        (aw.open(tmp_path / "t"), tmp_path / "t", 10, ["n"]),
        (dataset.head(10), None, 10, ["n", "x"]),
        (dataset.select("x"), None, 1_000, ["x"]),
        (dataset.rename({"x": "y"}), None, 1_000, ["n", "y"]),
        (dataset.filter(aw.col("n") >= 990), None, 10, ["n", "x"]),
        (pa.table({"z": [1, 2, 3]}), None, 3, ["z"]),
    ]:
        with aw.view(data) as view:
            facts = read_table_facts(view)
            shown_path = Path(facts["path"])
            assert facts["end"] == row_count
            assert [column["name"] for column in facts["columns"]] == columns
            if expected_path:
                assert shown_path == expected_path
            else:
                assert shown_path.name == "rows.arrow" and tmp_path not in shown_path.parents
        # Closing removes temporary files only.
        assert shown_path.exists() == (expected_path is not None)


def test_dropping_the_view_stops_its_server(tmp_path):
    aw.write(COLUMNS, tmp_path / "a.arrow")
    view = aw.view(tmp_path / "a.arrow")
    url = view.url
    assert read_login_cookie(url).startswith("arrowwood-")
    del view
    gc.collect()
    with pytest.raises(URLError):
        urlopen(url, timeout=PATIENCE)


def read_login_cookie(url):
    """Returns the cookie that the URL of a view sets, without following its redirect."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
    connection.request("GET", f"/?{parts.query}")
    response = connection.getresponse()
    assert response.status == 303
    return response.getheader("set-cookie")


class SqlClient:
    """Sends queries of the page about a table."""

    def __init__(self, view, table):
        self.notebook, self.table = Notebook(view), table
        self.request_ids = itertools.count()

    def address(self, query):
        return f"/v1/tables/{self.table}/sql?query={quote(query)}"

    def query(self, query):
        """Returns the status and the answer."""
        return self.notebook.get_json(self.address(query), next(self.request_ids))


def test_sql_queries_the_shown_table(tmp_path):
    pytest.importorskip("anywidget")
    pytest.importorskip("duckdb")
    aw.write(COLUMNS, tmp_path / "a.arrow")
    with aw.view(tmp_path / "a.arrow") as view:
        client = SqlClient(view, "a.arrow")
        query = "select n % 2 as odd, sum(x) as total from self group by 1 order by 1 -- all"
        status, answer = client.query(query)
        assert status == 200 and answer["whole"]
        assert answer["cells"] == [["0", "62375.0"], ["1", "62500.0"]]
        assert [column["name"] for column in answer["columns"]] == ["odd", "total"]
        # Long results are cut.
        _, answer = client.query("from self, range(10)")
        assert len(answer["cells"]) == 1_000 and not answer["whole"]
        # A query ends when it is cancelled, so that the next one is answered.
        slow_query = client.address("select count(*) from range(1000000000000) a, self")
        client.notebook.send(view="a", id=999, address=slow_query)
        client.notebook.send(view="a", id=999)
        _, answer = client.query("select 1")
        assert answer["cells"] == [["1"]]


def test_sql_can_not_read_or_write_files(tmp_path):
    pytest.importorskip("anywidget")
    pytest.importorskip("duckdb")
    aw.write(COLUMNS, tmp_path / "a.arrow")
    aw.write(COLUMNS, tmp_path / "secret.arrow")
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    secret = tmp_path / "secret"
    with aw.view(tmp_path / "a.arrow") as view:
        client = SqlClient(view, "a.arrow")
        for query, message in [
            ("select nothing from self", "nothing"),
            (f"select * from read_csv('{secret}.csv')", "disabled"),
            (f"""select * from "{secret}.arrow" """, "does not exist"),
            (f"copy self to '{secret}.parquet'", "only asks"),
            (f"select 1; copy self to '{secret}.parquet'", "only asks"),
            ("set enable_external_access = true", "only asks"),
            ("", "only asks"),
        ]:
            status, problem = client.query(query)
            assert status == 400 and message in problem["detail"], (query, problem)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.arrow", "secret.arrow", "secret.csv"]


def test_requests_without_the_token_are_refused(tmp_path):
    aw.write(COLUMNS, tmp_path / "a.arrow")
    with aw.view(tmp_path / "a.arrow") as view:
        origin = view.url.split("/?")[0]
        with pytest.raises(HTTPError) as refused:
            urlopen(Request(f"{origin}/v1/tables"), timeout=PATIENCE)
        assert refused.value.code == 401


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(aw.IoError, match="nothing.arrow"):
        aw.view(tmp_path / "nothing.arrow")


def test_rows_too_large_for_a_temporary_file_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("arrowwood._view._MAX_COPIED_BYTES", 1_000)
    aw.write(COLUMNS, tmp_path / "a.arrow")
    with pytest.raises(aw.InvalidArgument, match="give the path"):
        aw.view(aw.open(tmp_path / "a.arrow").head(900))


def test_view_without_anywidget_shows_the_url(tmp_path, monkeypatch):
    aw.write(COLUMNS, tmp_path / "a.arrow")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with aw.view(tmp_path / "a.arrow") as view:
        text = view._repr_mimebundle_()["text/plain"]
        assert view.url in text and "arrowwood[notebook]" in text


def test_view_command_serves_the_page(tmp_path):
    """The first line that ``arrowwood view`` prints is the address of the page."""
    path = tmp_path / "prices.arrow"
    aw.write({"price": [1.5, 2.5]}, path)
    command = [Path(sys.executable).parent / "arrowwood", "view", "--no-browser", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        browser = build_opener(HTTPCookieProcessor())
        page = browser.open(url, timeout=PATIENCE).read().decode()
        assert "<script" in page and "view.js" in page
        base = url.split("?")[0].split("#")[0]
        [table] = json.load(browser.open(base + "v1/tables", timeout=PATIENCE))["tables"]
        body = browser.open(f"{base}v1/tables/{table['name']}/rows", timeout=PATIENCE).read()
        assert pa.ipc.open_stream(body).read_all()["price"].to_pylist() == [1.5, 2.5]
        process.terminate()
