"""Stock clients of `arrowwood serve`: the same steps by each, with the same outcome. Part of run.py; alone:
`python tests/interop/clients.py target/debug/arrowwood`.

A client whose library or toolchain is missing is left out, with a line that says so."""

import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
from waits import PATIENCE

# What each step finds. The table has the rows 0 to 9 at first; each client appends 100 and 101,
# and 200 and 201 by an exchange.
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
MEANING = {
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


def pyarrow_steps(url):
    import pyarrow as pa
    import pyarrow.flight as flight

    client = flight.connect(url.replace("http", "grpc", 1))
    command = flight.FlightDescriptor.for_command
    schema = pa.schema([("n", pa.int64()), ("price", pa.float64())])

    def batch(start):
        return pa.record_batch({"n": [start, start + 1], "price": [0.5, 1.5]}, schema)

    def numbers(ticket):
        return client.do_get(flight.Ticket(ticket)).read_all()["n"].to_pylist()

    def append():
        writer, answers = client.do_put(command("ticks?producer=pyarrow&sequence=0"), schema)
        writer.write_batch(batch(100))
        answer = json.loads(answers.read().to_pybytes())
        writer.close()
        return [answer["rows"], answer["durable"] >= 12, answer["duplicate"]]

    def follow():
        reader = client.do_get(flight.Ticket("ticks?follow=true&from=8&columns=n"))
        found = reader.read_chunk().data["n"].to_pylist()
        reader.cancel()
        return found[:2]

    def exchange():
        writer, reader = client.do_exchange(command("ticks?from=0&producer=pyarrow&sequence=1"))
        writer.begin(schema)
        writer.write_batch(batch(200))
        writer.done_writing()
        chunks = list(reader)
        [answer] = [json.loads(chunk.app_metadata.to_pybytes()) for chunk in chunks if chunk.data is None]
        writer.close()
        return [answer["rows"], answer["duplicate"], len(chunks) > 1]

    def refusal():
        try:
            numbers("nothing")
        except KeyError:
            return "not found"

    return {
        "list": lambda: [info.descriptor.path[0].decode() for info in client.list_flights()],
        "schema": lambda: client.get_schema(command("ticks")).schema.names,
        "rows": lambda: numbers("ticks?to=10"),
        "condition": lambda: numbers("ticks?columns=n&to=10&where=n > 6"),
        "parts": lambda: sum((client.do_get(end.ticket).read_all()["n"].to_pylist() for end in client.get_flight_info(command("ticks?to=10")).endpoints), []),
        "append": append,
        "send again": append,
        "follow": follow,
        "exchange": exchange,
        "refusal": refusal,
    }  # fmt: skip


def curl_steps(url):
    def curl(path, *options):
        command = ["curl", "--silent", "--show-error", *options, url + path]
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        return done.stdout.decode()

    def lines(text):
        return [json.loads(line)["n"] for line in text.splitlines()]

    def append():
        rows = '{"n": 100, "price": 0.5}\n{"n": 101, "price": 1.5}\n'
        headers = ("-H", "Content-Type: application/x-ndjson", "-H", "Producer: curl", "-H", "Producer-Sequence: 0")
        answer = json.loads(curl("/v1/tables/ticks/rows", *headers, "--data-binary", rows))
        return [answer["rows"], answer["durable"] >= 12, answer["duplicate"]]

    def follow():
        import pyarrow as pa

        command = ["curl", "--silent", "--show-error", "--no-buffer", url + "/v1/tables/ticks/follow?from=8&columns=n"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                # The stream is broken off behind its first batch.
                return pa.ipc.open_stream(process.stdout).read_next_batch()["n"].to_pylist()[:2]
            finally:
                process.kill()

    return {
        "list": lambda: [table["name"] for table in json.loads(curl("/v1/tables"))["tables"] if table["name"] == "ticks"],
        "schema": lambda: [column["name"] for column in json.loads(curl("/v1/tables/ticks"))["columns"]],
        "rows": lambda: lines(curl("/v1/tables/ticks/rows?to=10&format=jsonl")),
        "condition": lambda: lines(curl("/v1/tables/ticks/rows?to=10&columns=n&where=n%20%3E%206&format=jsonl")),
        "append": append,
        "send again": append,
        "follow": follow,
        "refusal": lambda: json.loads(curl("/v1/tables/nothing"))["code"].replace("_", " "),
        "line protocol": lambda: int(curl("/write", "--data-binary", "cpu,host=a usage=0.5 1700000000000000000", "--write-out", "%{http_code}")),
    }  # fmt: skip


def outcome(step, find):
    """Nothing if the step finds what it should, or what is wrong."""
    try:
        found = find()
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return "" if found == STEPS[step] else f"{found} instead of {STEPS[step]}"


def by_go(program, url):
    done = subprocess.run([program, "flight", url.partition("//")[2]], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise RuntimeError(done.stderr)
    told = {line["step"]: line for line in map(json.loads, done.stdout.splitlines())}

    def find(line):
        if "error" in line:
            raise RuntimeError(line["error"])
        return line["found"]

    return {step: outcome(step, lambda line=line: find(line)) for step, line in told.items()}


def serve(program, folder):
    """A server of a table of ten rows, and its URL."""
    data = folder / "data"
    data.mkdir()
    schema = "n: int64, price: float64"
    rows = "".join(json.dumps({"n": n, "price": n / 4}) + "\n" for n in range(10))
    subprocess.run([program, "create", data / "ticks", "--schema", schema], check=True)
    subprocess.run([program, "append", data / "ticks", "--format", "json"], input=rows, text=True, check=True)
    command = [program, "serve", data, "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return server, server.stdout.readline().strip()


def clients(go=None):
    """Of each client its version, and what does its steps at a URL; and lines about those that are left out."""
    found, absent = {}, []
    if importlib.util.find_spec("pyarrow") is not None and importlib.util.find_spec("pyarrow.flight") is not None:
        steps = lambda url: {step: outcome(step, find) for step, find in pyarrow_steps(url).items()}
        found["pyarrow.flight"] = importlib.metadata.version("pyarrow"), steps
    else:
        absent.append("pyarrow.flight: left out, no pyarrow here")
    if go is not None:
        program, version = go
        found["arrow-go"] = version, lambda url: by_go(program, url)
    else:
        absent.append("arrow-go: left out, no go here")
    if shutil.which("curl") is not None:
        version = subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout.split()[1]
        found["curl"] = version, lambda url: {step: outcome(step, find) for step, find in curl_steps(url).items()}
    else:
        absent.append("curl: left out, no curl here")
    return found, absent


def use(program, go=None):
    """Client → step → nothing, or what is wrong; and the versions."""
    found, absent = clients(go)
    print("\n".join(absent), end="\n" if absent else "")
    results = {}
    for name, (_, steps) in found.items():
        with tempfile.TemporaryDirectory() as folder:
            server, url = serve(program, Path(folder))
            try:
                results[name] = steps(url)
            finally:
                server.terminate()
                server.wait()
    return results, {name: version for name, (version, _) in found.items()}


def section(results, versions):
    lines = [
        "",
        "## Clients of the server",
        "",
        "`arrowwood serve` by stock clients: *ok* is the outcome that all of them have. HTTP has no flights and no exchange.",
        "",
    ]
    lines.append("| | " + " | ".join(f"{name} {version}" for name, version in versions.items()) + " |")
    lines.append("|---" * (len(versions) + 1) + "|")
    for step, meaning in MEANING.items():
        cell = {None: "", "": "ok"}
        cells = [cell.get(steps.get(step), "FAILED") for steps in results.values()]
        lines.append(f"| {meaning} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def failures(results):
    return [f"{name}, {step}: {what}" for name, steps in results.items() for step, what in steps.items() if what]


if __name__ == "__main__":
    results, versions = use(sys.argv[1], (sys.argv[2], "") if len(sys.argv) > 2 else None)
    print(section(results, versions))
    wrong = failures(results)
    print("\n".join(wrong) or "nothing wrong")
    sys.exit(bool(wrong))
