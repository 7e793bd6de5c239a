"""Fixtures of the tests with stock clients of Flight SQL: a directory of tables, and a server process."""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install pyarrow")

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.append(str(ROOT / "tests/python"))
from waits import PATIENCE  # noqa: E402


def program():
    """Return the path of the program `arrowwood-datafusion`, which ARROWWOOD_DATAFUSION overrides."""
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "crates" / "datafusion" / "target")
    path = pathlib.Path(os.environ.get("ARROWWOOD_DATAFUSION", pathlib.Path(target) / "debug" / "arrowwood-datafusion"))
    assert path.exists(), f"{path} is not there: cargo build --manifest-path crates/datafusion/Cargo.toml"
    return str(path)


def run(*arguments, **options):
    """Run the program and return its output."""
    return subprocess.run([program(), *map(str, arguments)], check=True, capture_output=True, **options).stdout.decode()


def end_with_parent():
    """Make the system kill this process when the tests end, even if they crash."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """A process that serves a directory."""

    def __init__(self, folder, *arguments):
        self.folder = folder
        self.log = open(folder.parent / f"{folder.name}.log", "w+")
        command = [program(), "serve", str(folder), "--listen", "127.0.0.1:0", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True, preexec_fn=end_with_parent
        )
        self.url = self.process.stdout.readline().strip()
        assert self.url, (self.process.wait(), open(self.log.name).read())
        self.grpc = self.url.replace("http://", "grpc://")
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self):
        self.process.terminate()
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.log.close()
        assert code == 0, (code, open(self.log.name).read())

    def read_status(self, name):
        """Return a size from the status of the process, in bytes."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

    def anonymous_bytes(self):
        """Return the memory of the process without mapped files."""
        return self.read_status("RssAnon:")

    def peak_bytes(self):
        """Return the maximum memory that the process has had, including mapped files."""
        return self.read_status("VmHWM:")

    def cpu_seconds(self):
        """Return the processor time of the process."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def make_ticks(rows=1000):
    """Return rows whose values follow from the number of the row."""
    numbers = range(rows)
    return pa.table(
        {
            "ts": pa.array(numbers, pa.int64()),
            "symbol": pa.array([("AAPL", "IBM", "MSFT")[n % 3] for n in numbers]),
            "price": pa.array([None if n % 10 == 9 else n / 4 for n in numbers], pa.float64()),
            "day": pa.array([n // 100 for n in numbers], pa.date32()),
        }
    )


def write_file(path, table):
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


@pytest.fixture
def folder(tmp_path):
    """Return a directory with two files and a growing table."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_file(folder / "ticks.arrow", make_ticks())
    write_file(folder / "names.arrow", pa.table({"symbol": ["AAPL", "IBM"], "name": ["Apple", "Business Machines"]}))
    run("create", folder / "grown", "--schema", "n: int64, word: text")
    run("append", folder / "grown", input=b'{"n": 1, "word": "one"}\n{"n": 2, "word": "two"}\n')
    return folder


@pytest.fixture
def server(folder):
    server = Server(folder)
    yield server
    server.stop()
