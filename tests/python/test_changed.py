"""Files that change under Python: our calls raise FileChanged,
and everybody else's faults go where they went before."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from waits import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the handler of faults is for Linux")

SETUP = """
import os, sys
import pyarrow as pa
path = sys.argv[1]
def make():
    table = pa.table({"n": pa.array(range(300_000)), "text": [f"row {i}" for i in range(300_000)]})
    with pa.ipc.new_file(path, table.schema) as out:
        out.write_table(table)
make()
"""

CALLS = """
import arrowwood as aw
def changed(call):
    make()
    data = aw.open(path)
    call(data)
    os.truncate(path, 8192)
    for _ in range(2):
        try:
            call(data)
        except aw.FileChanged as e:
            assert path in str(e), e
        else:
            raise SystemExit("nothing was raised")
changed(lambda data: data["n"].sum())
changed(lambda data: data["text"].min())
changed(lambda data: data[299_999])
changed(lambda data: data["text"][299_999])
changed(lambda data: data["n"].to_numpy(copy=True))
changed(lambda data: data.tail(3).to_pylist())
changed(lambda data: data.validate())
data = aw.open((make(), path)[1])
os.truncate(path, 8192)
try:
    data.to_arrow()
except (aw.FileChanged, pa.ArrowInvalid) as e:
    # Errors through a C stream are exceptions of the consumer, with our message.
    assert "truncated" in str(e), e
data = aw.open((make(), path)[1])
os.truncate(path, 8192)
assert "truncated" in repr(data), repr(data)
mapping = aw.map((make(), path)[1])
os.truncate(path, 8192)
try:
    mapping[100_000]
except aw.FileChanged:
    print("alive")
"""

EXPORTED = """
import arrowwood as aw
table = aw.open(path).to_arrow()
os.truncate(path, 8192)
print("before", flush=True)
print(table["n"][299_999])
"""

FOREIGN = """
import arrowwood as aw, numpy as np
aw.open(path)["n"].sum()
other = path + ".other"
open(other, "wb").write(bytes(1 << 20))
array = np.memmap(other, mode="r")
os.truncate(other, 0)
print("before", flush=True)
print(array[1 << 19])
"""

# Passes memory in a mapping of a truncated file to our calls: the mapping itself, a view of it, NumPy's array over it,
# and an Arrow array over that.
HANDED = """
import arrowwood as aw, numpy as np
n = 100_000
rows = aw.from_arrow(pa.table({"a": range(10)}))
table = path + ".table"
writer = aw.writer(table, pa.schema({"x": "float64"}), sync="never")
writer.append({"x": [1.0]})
buffer = aw.Buffer()
buffer.write(b"abc")
other = path + ".other"
open(other, "wb").write(bytes(8 * n))
target = aw.map(other, "r+", dtype="float64")
streams = aw.stream_writer(open(path + ".stream", "wb"), pa.schema({"x": "float64"}))
builder = aw.Builder(pa.schema({"x": "float64"}))

def arrow(m):
    return pa.table({"x": pa.array(np.asarray(m))})

CALLS = {
    "a slice of itself": lambda m: m.__setitem__(slice(0, n), m[0:n]),
    "part of itself": lambda m: m.__setitem__(slice(0, 9), m[n - 9 : n]),
    "a slice of another": lambda m: target.__setitem__(slice(0, n), m),
    "a view": lambda m: target.__setitem__(slice(0, n), np.asarray(m)),
    "an iterator": lambda m: target.__setitem__(slice(0, n), iter(m)),
    "Buffer.write": lambda m: buffer.write(m),
    "Buffer.write of a view": lambda m: buffer.write(np.asarray(m)[n // 2 :]),
    "take": lambda m: rows.take(m.view("int64")[n - 2 : n]),
    "rows in brackets": lambda m: rows[np.asarray(m.view("int64"))[n - 2 : n]],
    "strided rows": lambda m: rows[np.asarray(m.view("int64"))[::-1000]],
    "rows for a loader": lambda m: rows.__getitems__(m.view("int64")[n - 2 : n]),
    "is_in": lambda m: aw.col("a").is_in(np.asarray(m)[n - 2 : n]),
    "write": lambda m: aw.write({"x": m}, path + ".made"),
    "write of a view": lambda m: aw.write({"x": np.asarray(m)[::-1]}, path + ".made"),
    "write of rows": lambda m: aw.write({"x": np.asarray(m).reshape(-1, 10)}, path + ".made"),
    "write to memory": lambda m: aw.write({"x": m}, aw.Buffer()),
    "write to a file object": lambda m: aw.write({"x": m}, open(path + ".made", "wb")),
    "write of Arrow data": lambda m: aw.write(arrow(m), path + ".made"),
    "write compressed": lambda m: aw.write({"x": m}, path + ".made", compression="lz4"),
    "Writer.append": lambda m: writer.append({"x": m}),
    "Writer.append of Arrow data": lambda m: writer.append(arrow(m)),
    "Writer.append with a cast": lambda m: writer.append({"x": m.view("int64")}),
    "Builder.append": lambda m: builder.append({"x": m}),
    "StreamWriter.write": lambda m: streams.write({"x": m}),
    "sum": lambda m: aw.from_arrow(arrow(m))["x"].sum(),
    "open": lambda m: aw.open(m).num_columns,
    "tolist": lambda m: m.tolist(),
    "tobytes": lambda m: m.tobytes(),
}
stream = pa.BufferOutputStream()
with pa.ipc.new_stream(stream, pa.schema({"x": "float64"})) as out:
    out.write_table(pa.table({"x": np.zeros(2 * n)}))
stream = stream.getvalue().to_pybytes()
path = path + ".bin"
for mode in ("r", "r+", "c"):
    for name, call in CALLS.items():
        open(path, "wb").write(stream[: 8 * n] if name == "open" else bytes(8 * n))
        m = aw.map(path, mode, dtype="float64")
        os.truncate(path, 0 if name == "open" else 4096)
        try:
            call(m)
        except aw.FileChanged as e:
            assert e.path == path, (name, e.path)
        except aw.InvalidArgument as e:
            assert mode == "r" and name in ("a slice of itself", "part of itself") and "read-only" in str(e), (name, e)
        else:
            raise SystemExit(f"{mode}, {name}: nothing was raised")
        assert bytes(buffer) == b"abc", name
# Nothing of it came through, and the writer goes on.
writer.append({"x": [2.0]})
writer.close()
assert aw.open(table)["x"].to_pylist() == [1.0, 2.0]
builder.append({"x": [3.0]})
assert builder.finish()["x"].to_pylist() == [3.0]
print("alive")
"""

# A stream that is written into a mapping of a file that was truncated.
INTO = """
import arrowwood as aw
target = path + ".bin"
open(target, "wb").write(bytes(1 << 22))
m = aw.map(target, "r+")
os.truncate(target, 4096)
rows = aw.open(path)
for call in (lambda: aw.stream_writer(m).write(rows), lambda: aw.write(rows, m)):
    try:
        call()
    except aw.FileChanged as e:
        assert e.path == target, e
    else:
        raise SystemExit("nothing was raised")
print("alive")
"""


def run(tmp_path, code, **environment):
    arguments = [sys.executable, "-c", textwrap.dedent(SETUP + code), str(tmp_path / "a.arrow")]
    # The watchdog of `make test` sets it, and here it is part of what is tested.
    environment = {**os.environ, **environment}
    environment.pop("PYTHONFAULTHANDLER", None)
    return subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=PATIENCE)


@pytest.mark.parametrize("faulthandler", ["", "before", "after"])
def test_our_calls_raise(tmp_path, faulthandler):
    enable = "import faulthandler; faulthandler.enable()\n"
    code = {"": CALLS, "before": enable + CALLS, "after": CALLS.replace("aw\n", "aw\n" + enable, 1)}[faulthandler]
    done = run(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_what_is_handed_to_our_calls(tmp_path):
    done = run(tmp_path, HANDED)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_streams_into_a_mapping(tmp_path):
    done = run(tmp_path, INTO)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_exported_arrays_die_as_without_us(tmp_path):
    done = run(tmp_path, EXPORTED)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "before\n"), done.stderr


def test_foreign_faults_reach_the_handler_before(tmp_path):
    done = run(tmp_path, "import faulthandler; faulthandler.enable()\n" + FOREIGN)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "before\n"), done.stderr
    assert "Bus error" in done.stderr and "Current thread" in done.stderr


def test_foreign_faults_without_a_handler(tmp_path):
    done = run(tmp_path, FOREIGN)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "before\n"), done.stderr


def test_a_signal_from_outside_still_ends_the_process(tmp_path):
    done = run(tmp_path, "import arrowwood as aw; aw.open(path); os.kill(os.getpid(), 7)\nprint('alive')")
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, ""), done.stderr


def test_the_handler_can_be_switched_off(tmp_path):
    done = run(tmp_path, CALLS, ARROWWOOD_SIGBUS="off")
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, ""), done.stderr
