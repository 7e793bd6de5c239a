"""A server that speaks Flight SQL, as a process of its own, for stock clients."""

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
    """The command with DataFusion inside; ARROWWOOD_DATAFUSION says where it is."""
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "crates" / "datafusion" / "target")
    path = pathlib.Path(os.environ.get("ARROWWOOD_DATAFUSION", pathlib.Path(target) / "debug" / "arrowwood-datafusion"))
    assert path.exists(), f"{path} is not there: cargo build --manifest-path crates/datafusion/Cargo.toml"
    return str(path)


def run(*arguments, **options):
    return subprocess.run([program(), *map(str, arguments)], check=True, capture_output=True, **options).stdout.decode()


def end_with_parent():
    """Lets a server end with the tests, however these end."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Served:
    """A directory and the process that serves it."""

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

    def memory(self):
        """Bytes of memory of its own that the process has."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))

    def peak(self):
        """The most bytes that the process has had in memory, with files."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

    def busy(self):
        """Seconds of processors that the process has taken."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ticks(rows=1000):
    """Rows whose answers are easily told."""
    numbers = range(rows)
    return pa.table(
        {
            "ts": pa.array(numbers, pa.int64()),
            "symbol": pa.array([("AAPL", "IBM", "MSFT")[n % 3] for n in numbers]),
            "price": pa.array([None if n % 10 == 9 else n / 4 for n in numbers], pa.float64()),
            "day": pa.array([n // 100 for n in numbers], pa.date32()),
        }
    )


def write(path, table):
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "ticks.arrow", ticks())
    write(folder / "names.arrow", pa.table({"symbol": ["AAPL", "IBM"], "name": ["Apple", "Business Machines"]}))
    run("create", folder / "grown", "--schema", "n: int64, word: text")
    run("append", folder / "grown", input=b'{"n": 1, "word": "one"}\n{"n": 2, "word": "two"}\n')
    return folder


@pytest.fixture
def served(folder):
    served = Served(folder)
    yield served
    served.stop()
