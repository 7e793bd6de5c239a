"""Tests ``aw.view``: requests of the page as messages of a widget, and the rows that are shown."""

import gc
import itertools
import json
import subprocess
import sys
import threading
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE

COLUMNS = {"n": np.arange(1_000), "x": np.arange(1_000) / 4}


class Notebook:
    """The other side of a widget: sends messages as its browser does, and keeps what comes back."""

    def __init__(self, view):
        self.widget = view._shown()
        self.came, self.changed = [], threading.Condition()
        self.widget.send = self.take

    def take(self, message, buffers):
        with self.changed:
            self.came.append((message, [bytes(buffer) for buffer in buffers or ()]))
            self.changed.notify_all()

    def send(self, **message):
        self.widget._handle_custom_msg(message, [])

    def parts(self, view, number):
        return [
            (message, buffers) for message, buffers in self.came if (message["view"], message["id"]) == (view, number)
        ]

    def wait(self, holds):
        with self.changed:
            assert self.changed.wait_for(holds, PATIENCE), self.came

    def get(self, address, number=1, view="a"):
        """Status and bytes of an answer."""
        self.send(view=view, id=number, address=address)
        self.wait(lambda: any(message.get("end") for message, _ in self.parts(view, number)))
        parts = self.parts(view, number)
        return parts[0][0].get("status"), b"".join(part for _, buffers in parts for part in buffers)


def table_of(view):
    """Name and facts of what a view shows."""
    notebook = Notebook(view)
    status, answer = notebook.get("/v1/tables")
    [table] = json.loads(answer)["tables"]
    status, facts = notebook.get(f"/v1/tables/{table['name']}", 2)
    assert status == 200
    return json.loads(facts)


def test_the_page_travels_as_messages(tmp_path):
    pytest.importorskip("anywidget")
    aw.write(COLUMNS, tmp_path / "a.arrow")
    with aw.view(tmp_path / "a.arrow", height=300) as view:
        notebook = Notebook(view)
        assert notebook.widget.height == 300
        assert "iframe" in notebook.widget._esm
        bundle = view._repr_mimebundle_()
        bundle = bundle[0] if isinstance(bundle, tuple) else bundle
        assert "application/vnd.jupyter.widget-view+json" in bundle
        for number, name in enumerate(["view.js", "view.css"], 1):
            status, text = notebook.get(f"/{name}", number)
            assert (status, len(text) > 1_000) == (200, True)
        # Two outputs of the same cell ask for the same numbers, and each hears its own answers.
        status, cells = notebook.get("/v1/tables/a.arrow/cells?from=998", 1, "b")
        assert json.loads(cells)["cells"] == [["998", "249.5"], ["999", "249.75"]]
        status, problem = notebook.get("/v1/tables/a.arrow/cells?at=9", 3)
        assert (status, "below 2" in json.loads(problem)["detail"]) == (400, True)
        # Nothing else is reachable: the server refuses unknown paths, or the client does.
        for number, address in enumerate(["http://127.0.0.1:1/", "/../secret", "x\r\nHost: evil"], 10):
            assert notebook.get(address, number)[0] in {0, 400, 404, 421}
    with pytest.raises(URLError):
        urlopen(view.url, timeout=PATIENCE)
    assert notebook.get("/v1/tables", 20)[0] == 0
    assert repr(view) == "<arrowwood.View closed>"
    view.close()


def test_an_answer_without_end_is_ended_by_the_page(tmp_path):
    pytest.importorskip("anywidget")
    with aw.writer(tmp_path / "t", {"n": "int64"}) as writer:
        writer.append({"n": np.arange(10)})
        writer.commit()
        with aw.view(tmp_path / "t") as view:
            notebook = Notebook(view)
            notebook.send(view="a", id=7, address="/v1/tables/t/events?interval=10")

            def ends():
                text = b"".join(part for _, buffers in notebook.parts("a", 7) for part in buffers).decode()
                return [json.loads(line[6:])["end"] for line in text.splitlines() if line.startswith("data: ")]

            notebook.wait(lambda: 10 in ends())
            writer.append({"n": np.arange(5)})
            writer.commit()
            notebook.wait(lambda: 15 in ends())
            notebook.send(view="a", id=7)
            # A cancelled request sends nothing more, not even its end; cancelling an unknown request is no error.
            notebook.send(view="a", id=8)
            for thread in threading.enumerate():
                if thread.name == "arrowwood-view":
                    thread.join(PATIENCE)
                    assert not thread.is_alive()
            assert not any("end" in message for message, _ in notebook.parts("a", 7))


def test_what_is_whole_is_shown_where_it_lies_and_other_rows_from_a_temporary_file(tmp_path):
    pytest.importorskip("anywidget")
    path = tmp_path / "a.arrow"
    aw.write(COLUMNS, path)
    with aw.writer(tmp_path / "t", {"n": "int64"}) as writer:
        writer.append({"n": np.arange(10)})
    whole = aw.open(path)
    for data, expected, rows, columns in [
        (str(path), path, 1_000, ["n", "x"]),
        (whole, path, 1_000, ["n", "x"]),
        (aw.open(tmp_path / "t"), tmp_path / "t", 10, ["n"]),
        (whole.head(10), None, 10, ["n", "x"]),
        (whole.select("x"), None, 1_000, ["x"]),
        (whole.rename({"x": "y"}), None, 1_000, ["n", "y"]),
        (whole.filter(aw.col("n") >= 990), None, 10, ["n", "x"]),
        (pa.table({"z": [1, 2, 3]}), None, 3, ["z"]),
    ]:
        with aw.view(data) as view:
            facts = table_of(view)
            shown = Path(facts["path"])
            assert (facts["end"], [column["name"] for column in facts["columns"]]) == (rows, columns)
            assert shown == expected if expected else (shown.name == "rows.arrow" and tmp_path not in shown.parents)
        # Closing removes the view's temporary file, and nothing else.
        assert shown.exists() == (expected is not None)


def test_a_view_ends_with_what_refers_to_it(tmp_path):
    aw.write(COLUMNS, tmp_path / "a.arrow")
    view = aw.view(tmp_path / "a.arrow")
    url = view.url
    cookie = urlopen_without_redirect(url)
    assert cookie.startswith("arrowwood-")
    del view
    gc.collect()
    with pytest.raises(URLError):
        urlopen(url, timeout=PATIENCE)


def test_sql_asks_of_what_is_shown_and_of_nothing_else(tmp_path):
    pytest.importorskip("anywidget")
    pytest.importorskip("duckdb")
    aw.write(COLUMNS, tmp_path / "a.arrow")
    aw.write(COLUMNS, tmp_path / "secret.arrow")
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    with aw.view(tmp_path / "a.arrow") as view:
        notebook = Notebook(view)
        numbers = itertools.count()

        def ask(query):
            status, answer = notebook.get(f"/v1/tables/a.arrow/sql?query={quote(query)}", next(numbers))
            return status, json.loads(answer)

        status, answer = ask("select n % 2 as odd, sum(x) as total from self group by 1 order by 1 -- all")
        assert (status, answer["cells"], answer["whole"]) == (200, [["0", "62375.0"], ["1", "62500.0"]], True)
        assert [column["name"] for column in answer["columns"]] == ["odd", "total"]
        status, answer = ask("from self, range(10)")
        assert (len(answer["cells"]), answer["whole"]) == (1_000, False)
        secret = tmp_path / "secret"
        for query, says in [
            ("select nothing from self", "nothing"),
            (f"select * from read_csv('{secret}.csv')", "disabled"),
            (f"""select * from "{secret}.arrow" """, "does not exist"),
            (f"copy self to '{secret}.parquet'", "only asks"),
            (f"select 1; copy self to '{secret}.parquet'", "only asks"),
            ("set enable_external_access = true", "only asks"),
            ("", "only asks"),
        ]:
            status, problem = ask(query)
            assert (status, says in problem["detail"]) == (400, True), (query, problem)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.arrow", "secret.arrow", "secret.csv"]
        # A query that takes long ends when the page no longer waits, and the next is answered.
        notebook.send(
            view="a",
            id=999,
            address=f"/v1/tables/a.arrow/sql?query={quote('select count(*) from range(1000000000000) a, self')}",
        )
        notebook.send(view="a", id=999)
        assert ask("select 1")[1]["cells"] == [["1"]]


def urlopen_without_redirect(url):
    """The cookie that the page's URL gives."""
    import http.client
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
    connection.request("GET", f"/?{parts.query}")
    response = connection.getresponse()
    assert response.status == 303
    return response.getheader("set-cookie")


def test_nothing_is_shown_without_the_token(tmp_path):
    aw.write(COLUMNS, tmp_path / "a.arrow")
    with aw.view(tmp_path / "a.arrow") as view:
        origin = view.url.split("/?")[0]
        with pytest.raises(HTTPError) as refused:
            urlopen(Request(f"{origin}/v1/tables"), timeout=PATIENCE)
        assert refused.value.code == 401


def test_errors_say_what_is_wrong(tmp_path, monkeypatch):
    with pytest.raises(aw.IoError, match="nothing.arrow"):
        aw.view(tmp_path / "nothing.arrow")
    monkeypatch.setattr("arrowwood._view._MOST", 1_000)
    aw.write(COLUMNS, tmp_path / "a.arrow")
    with pytest.raises(aw.InvalidArgument, match="give the path"):
        aw.view(aw.open(tmp_path / "a.arrow").head(900))
    # Without anywidget the URL is shown, and what to install.
    monkeypatch.setitem(__import__("sys").modules, "anywidget", None)
    with aw.view(tmp_path / "a.arrow") as view:
        text = view._repr_mimebundle_()["text/plain"]
        assert view.url in text and "arrowwood[notebook]" in text


def test_one_command_opens_the_window(tmp_path):
    """What is installed has the page in it: the first line of ``arrowwood view`` is an address,
    and a browser finds the page there."""
    path = tmp_path / "prices.arrow"
    aw.write({"price": [1.5, 2.5]}, path)
    command = [Path(sys.executable).parent / "arrowwood", "view", "--no-browser", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as window:
        url = window.stdout.readline().strip()
        browser = build_opener(HTTPCookieProcessor())
        page = browser.open(url, timeout=PATIENCE).read().decode()
        assert "<script" in page and "view.js" in page
        base = url.split("?")[0].split("#")[0]
        [table] = json.load(browser.open(base + "v1/tables", timeout=PATIENCE))["tables"]
        rows = pa.ipc.open_stream(
            browser.open(f"{base}v1/tables/{table['name']}/rows", timeout=PATIENCE).read()
        ).read_all()
        assert rows["price"].to_pylist() == [1.5, 2.5]
        window.terminate()
