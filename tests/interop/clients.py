"""Tests `arrowwood serve` with other projects' clients, which all do the same steps: a part of run.py.

`python tests/interop/clients.py target/debug/arrowwood` runs it alone. A client whose library is missing is left out
with a line that says so.
"""

import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
from waits import PATIENCE

# The expected result of each step. The table has the rows 0 to 9 at first; each client appends 100 and 101, and then
# 200 and 201 with a DoExchange call.
STEPS = {
    "list": ["ticks"],
    "schema": ["n", "price"],
    "rows": list(range(10)),
    "condition": [7, 8, 9],
    "parts": list(range(10)),
    "append": [2, True, False],
    "send again": [2, True, True],
    "follow": [8, 9],
    "exchange": [2, False, True],
    "refusal": "not found",
    "line protocol": 204,
}
DESCRIPTIONS = {
    "list": "tables that may be read",
    "schema": "the columns of a table",
    "rows": "a range of rows",
    "condition": "columns and a condition",
    "parts": "all endpoints of a flight, one after the other",
    "append": "a numbered batch, acknowledged as durable",
    "send again": "the same batch once more: acknowledged as a duplicate",
    "follow": "rows of a stream that goes on",
    "exchange": "rows and answers to batches in one call",
    "refusal": "a table that is not there",
    "line protocol": "what Telegraf and other clients of InfluxDB send",
}

# Rows of the table once a client has appended its first two.
ROWS_AFTER_APPEND = 12


class GoClient(NamedTuple):
    program: str
    version: str


class Client(NamedTuple):
    version: str
    # Does all steps with the server at a URL. Returns the failure, or '', of each step.
    run_steps: Callable[[str], dict[str, str]]


class PyarrowClient:
    def __init__(self, url: str):
        import pyarrow as pa
        import pyarrow.flight as flight

        self.pa, self.flight = pa, flight
        self.client = flight.connect(url.replace("http", "grpc", 1))
        self.schema = pa.schema([("n", pa.int64()), ("price", pa.float64())])

    def steps(self) -> dict[str, Callable]:
        return {
            "list": self.list_tables,
            "schema": self.read_schema,
            "rows": lambda: self.read("ticks?to=10"),
            "condition": lambda: self.read("ticks?columns=n&to=10&where=n > 6"),
            "parts": self.read_parts,
            "append": self.append,
            "send again": self.append,
            "follow": self.follow,
            "exchange": self.exchange,
            "refusal": self.read_missing_table,
        }

    def list_tables(self):
        return [info.descriptor.path[0].decode() for info in self.client.list_flights()]

    def read_schema(self):
        return self.client.get_schema(self._descriptor("ticks")).schema.names

    def read_parts(self):
        numbers = []
        for endpoint in self.client.get_flight_info(self._descriptor("ticks?to=10")).endpoints:
            numbers += self.client.do_get(endpoint.ticket).read_all()["n"].to_pylist()
        return numbers

    def append(self):
        writer, answers = self.client.do_put(self._descriptor("ticks?producer=pyarrow&sequence=0"), self.schema)
        writer.write_batch(self._batch(100))
        answer = json.loads(answers.read().to_pybytes())
        writer.close()
        return [answer["rows"], answer["durable"] >= ROWS_AFTER_APPEND, answer["duplicate"]]

    def follow(self):
        reader = self.client.do_get(self.flight.Ticket("ticks?follow=true&from=8&columns=n"))
        numbers = reader.read_chunk().data["n"].to_pylist()
        reader.cancel()
        return numbers[:2]

    def exchange(self):
        writer, reader = self.client.do_exchange(self._descriptor("ticks?from=0&producer=pyarrow&sequence=1"))
        writer.begin(self.schema)
        writer.write_batch(self._batch(200))
        writer.done_writing()
        chunks = list(reader)
        [answer] = [json.loads(chunk.app_metadata.to_pybytes()) for chunk in chunks if chunk.data is None]
        writer.close()
        return [answer["rows"], answer["duplicate"], len(chunks) > 1]

    def read_missing_table(self):
        try:
            self.read("nothing")
        except KeyError:
            return "not found"

    def read(self, ticket: str):
        return self.client.do_get(self.flight.Ticket(ticket)).read_all()["n"].to_pylist()

    def _descriptor(self, command: str):
        return self.flight.FlightDescriptor.for_command(command)

    def _batch(self, start: int):
        return self.pa.record_batch({"n": [start, start + 1], "price": [0.5, 1.5]}, self.schema)


class CurlClient:
    COMMAND = ["curl", "--silent", "--show-error"]

    def __init__(self, url: str):
        self.url = url

    def steps(self) -> dict[str, Callable]:
        return {
            "list": self.list_tables,
            "schema": self.read_schema,
            "rows": lambda: self.read("to=10"),
            "condition": lambda: self.read("to=10&columns=n&where=n%20%3E%206"),
            "append": self.append,
            "send again": self.append,
            "follow": self.follow,
            "refusal": self.read_missing_table,
            "line protocol": self.write_line_protocol,
        }

    def list_tables(self):
        tables = json.loads(self._request("/v1/tables"))["tables"]
        return [table["name"] for table in tables if table["name"] == "ticks"]

    def read_schema(self):
        return [column["name"] for column in json.loads(self._request("/v1/tables/ticks"))["columns"]]

    def read(self, query: str):
        lines = self._request(f"/v1/tables/ticks/rows?{query}&format=jsonl").splitlines()
        return [json.loads(line)["n"] for line in lines]

    def append(self):
        rows = '{"n": 100, "price": 0.5}\n{"n": 101, "price": 1.5}\n'
        headers = ("-H", "Content-Type: application/x-ndjson", "-H", "Producer: curl", "-H", "Producer-Sequence: 0")
        answer = json.loads(self._request("/v1/tables/ticks/rows", *headers, "--data-binary", rows))
        return [answer["rows"], answer["durable"] >= ROWS_AFTER_APPEND, answer["duplicate"]]

    def follow(self):
        import pyarrow as pa

        command = [*self.COMMAND, "--no-buffer", self.url + "/v1/tables/ticks/follow?from=8&columns=n"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                return pa.ipc.open_stream(process.stdout).read_next_batch()["n"].to_pylist()[:2]
            finally:
                # The stream does not end by itself.
                process.kill()

    def read_missing_table(self):
        return json.loads(self._request("/v1/tables/nothing"))["code"].replace("_", " ")

    def write_line_protocol(self):
        line = "cpu,host=a usage=0.5 1700000000000000000"
        return int(self._request("/write", "--data-binary", line, "--write-out", "%{http_code}"))

    def _request(self, path: str, *options: str) -> str:
        process = subprocess.run([*self.COMMAND, *options, self.url + path], capture_output=True, timeout=PATIENCE)
        if process.returncode:
            raise RuntimeError(process.stderr.decode())
        return process.stdout.decode()


def run_client_steps(client: PyarrowClient | CurlClient) -> dict[str, str]:
    failures = {}
    for step, find in client.steps().items():
        try:
            failures[step] = check_result(step, find())
        # The other steps run all the same, and the failure is a result of this test.
        except Exception as e:
            failures[step] = f"{type(e).__name__}: {e}"
    return failures


def run_go_steps(program: str, url: str) -> dict[str, str]:
    command = [program, "flight", url.partition("//")[2]]
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if process.returncode:
        raise RuntimeError(process.stderr)
    failures = {}
    for line in process.stdout.splitlines():
        answer = json.loads(line)
        step = answer["step"]
        if "error" in answer:
            failures[step] = f"RuntimeError: {answer['error']}"
        else:
            failures[step] = check_result(step, answer["found"])
    return failures


def check_result(step: str, result) -> str:
    """Returns '' if a step has the expected result, or else how it differs."""
    return "" if result == STEPS[step] else f"{result} instead of {STEPS[step]}"


def start_server(program: str, folder: Path) -> tuple[subprocess.Popen, str]:
    """Starts a server with a table of ten rows. Returns it and its URL."""
    data = folder / "data"
    data.mkdir()
    schema = "n: int64, price: float64"
    rows = "".join(json.dumps({"n": n, "price": n / 4}) + "\n" for n in range(10))
    subprocess.run([program, "create", data / "ticks", "--schema", schema], check=True)
    subprocess.run([program, "append", data / "ticks", "--format", "json"], input=rows, text=True, check=True)
    command = [program, "serve", data, "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return server, server.stdout.readline().strip()


def find_clients(go: GoClient | None = None) -> dict[str, Client]:
    """Returns the clients that can run here, and prints which are left out."""
    clients = {}
    if importlib.util.find_spec("pyarrow") is not None and importlib.util.find_spec("pyarrow.flight") is not None:
        version = importlib.metadata.version("pyarrow")
        clients["pyarrow.flight"] = Client(version, lambda url: run_client_steps(PyarrowClient(url)))
    else:
        print("pyarrow.flight: left out, no pyarrow here")
    if go is not None:
        clients["arrow-go"] = Client(go.version, lambda url: run_go_steps(go.program, url))
    else:
        print("arrow-go: left out, no go here")
    if shutil.which("curl") is not None:
        version = subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout.split()[1]
        clients["curl"] = Client(version, lambda url: run_client_steps(CurlClient(url)))
    else:
        print("curl: left out, no curl here")
    return clients


def run_clients(program: str, go: GoClient | None = None) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Runs each client with a server of its own. Returns the failure, or '', by client and step, and the versions."""
    results, versions = {}, {}
    for name, client in find_clients(go).items():
        versions[name] = client.version
        with tempfile.TemporaryDirectory() as folder:
            server, url = start_server(program, Path(folder))
            try:
                results[name] = client.run_steps(url)
            finally:
                server.terminate()
                server.wait()
    return results, versions


def format_section(results: dict[str, dict[str, str]], versions: dict[str, str]) -> str:
    lines = [
        "",
        "## Clients of the server",
        "",
        "What clients that know nothing of Arrowwood do with `arrowwood serve`. *ok*: the outcome is the expected one, which is the "
        "same for all of them. HTTP has no flights and no exchange.",
        "",
    ]
    lines.append("| | " + " | ".join(f"{name} {version}" for name, version in versions.items()) + " |")
    lines.append("|---" * (len(versions) + 1) + "|")
    # A client lacks the steps that its protocol doesn't have.
    cell_texts = {None: "", "": "ok"}
    for step, description in DESCRIPTIONS.items():
        cells = [cell_texts.get(failures.get(step), "FAILED") for failures in results.values()]
        lines.append(f"| {description} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def list_failures(results: dict[str, dict[str, str]]) -> list[str]:
    failures = []
    for name, steps in results.items():
        failures += [f"{name}, {step}: {failure}" for step, failure in steps.items() if failure]
    return failures


def main():
    go = GoClient(sys.argv[2], "") if len(sys.argv) > 2 else None
    results, versions = run_clients(sys.argv[1], go)
    print(format_section(results, versions))
    failures = list_failures(results)
    print("\n".join(failures) or "nothing wrong")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
