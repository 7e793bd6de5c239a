"""Tests that printed names and values can't control a terminal, reverse text, or hide characters."""

import html
import json
import os
import subprocess
import sys
import unicodedata

import pyarrow as pa
import pytest

import arrowwood as aw

# A colour, a title, a bell, a C1 control, an override of direction, a space without width, a new line, a tag.
HOSTILE = "a\x1b[31mb\x1b]0;c\x07d\x9b2Je\u202ef\u200bg\r\nh\x7fi\u2066j\ufeffk\U000e0041"
COMMAND = [sys.executable, "-m", "arrowwood._cli"]
# Controls, format characters, and separators of lines and paragraphs.
HIDDEN_CATEGORIES = ("Cc", "Cf", "Zl", "Zp")


def assert_visible(text, source=""):
    """Asserts that no character but the line feed is hidden; `source` names the text in the message."""
    hidden = [char for char in text if char != "\n" and unicodedata.category(char) in HIDDEN_CATEGORIES]
    assert not hidden, (source, hidden, text)


@pytest.fixture(scope="module")
def table():
    """A table with hostile names, metadata, time zone and values."""
    schema = pa.schema(
        [
            pa.field(HOSTILE, pa.string(), metadata={HOSTILE: HOSTILE}),
            pa.field("s", pa.struct([pa.field(HOSTILE, pa.int64())])),
            pa.field("z", pa.timestamp("s", HOSTILE)),
            pa.field("k", pa.dictionary(pa.int8(), pa.string())),
        ],
        metadata={HOSTILE: HOSTILE},
    )
    columns = [[HOSTILE, None], [{HOSTILE: 1}, None], [0, 1], [HOSTILE, "x"]]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, schema)], schema)


@pytest.fixture(scope="module")
def path(tmp_path_factory, table):
    """The path of a file with a hostile name."""
    path = str(tmp_path_factory.mktemp("visible") / f"{HOSTILE}.arrow")
    aw.write(table, path)
    return path


def test_objects_print_visible_text(path, table):
    ds = aw.open(path)
    predicate = (aw.col(HOSTILE) == HOSTILE) & aw.col(HOSTILE).is_in([HOSTILE]) & ~aw.col(HOSTILE).is_null()
    objects = [ds, ds.schema, *ds.schema, ds[HOSTILE], ds["s"], ds["z"], ds["k"], ds.messages, *ds.messages, predicate]
    objects += [aw.col(HOSTILE), aw.map(path), aw.check(path), aw.from_arrow(table), ds[HOSTILE].value_counts()]
    objects += [ds["s"].dtype, ds["z"].dtype, ds.splits(1), ds.head(0)]
    with aw.writer(path + ".table", ds.select([HOSTILE]).schema) as writer:
        objects += [writer, aw.follow(path + ".table", timeout=0)]
    for item in objects:
        assert_visible(str(item), type(item))
        assert_visible(repr(item), type(item))
    assert_visible(html.unescape(ds._repr_html_()))


def test_programs_get_unchanged_names(path):
    ds = aw.open(path)
    assert ds.columns[0] == HOSTILE and ds[HOSTILE][0] == HOSTILE and ds.schema[0].metadata == {HOSTILE: HOSTILE}
    assert ds.messages[0]["fields"][0]["name"] == HOSTILE


def failing_calls(ds, path):
    """Yields calls that raise errors with hostile text."""
    yield lambda: ds["no"]
    yield lambda: ds.schema["no"]
    yield lambda: ds[HOSTILE].sum()
    yield lambda: ds[HOSTILE].var()
    yield lambda: ds[HOSTILE].to_numpy(copy=False)
    yield lambda: ds["s"].to_numpy(copy=False)
    yield lambda: ds["s"].value_counts()
    yield lambda: ds[HOSTILE].map_reduce(len, max)
    yield lambda: ds[HOSTILE].__dlpack__(max_version=(1, 0))
    yield lambda: ds.filter(aw.col(HOSTILE) == 1)
    yield lambda: ds.filter(aw.col(HOSTILE + "no") == 1)
    yield lambda: aw.col(HOSTILE) == [HOSTILE]
    yield lambda: aw.col(HOSTILE) == object()
    yield lambda: aw.col(HOSTILE).is_in(HOSTILE)
    yield lambda: bool(aw.col(HOSTILE) == 1)
    yield lambda: ds.select([HOSTILE + "no"])
    yield lambda: ds.aggregate(by=HOSTILE, x=(HOSTILE, "no"))
    yield lambda: ds.aggregate(by="s")
    yield lambda: ds.between(1, 2)
    yield lambda: aw.concat([ds, ds.select(["s"])])
    yield lambda: aw.concat([ds.select(["s"]), ds.select(["k"])])
    yield lambda: aw.open(path + HOSTILE)
    yield lambda: aw.open(path + "*" + HOSTILE)
    yield lambda: aw.read_csv(path + HOSTILE)
    yield lambda: aw.map(path, HOSTILE)
    yield lambda: aw.map(path, dtype=HOSTILE)
    yield lambda: aw.write(ds, os.path.dirname(path) + "/no/" + HOSTILE)
    yield lambda: aw.write({HOSTILE: [1, "x"]}, aw.Buffer())
    yield lambda: aw.write({HOSTILE: 1}, aw.Buffer())
    yield lambda: aw.write({HOSTILE: [1], "b": [1, 2]}, aw.Buffer())
    yield lambda: aw.write([{HOSTILE: [object()]}], aw.Buffer())
    yield lambda: aw.write({HOSTILE: [HOSTILE]}, aw.Buffer(), schema=pa.schema({HOSTILE: pa.int64()}))
    yield lambda: aw.write({HOSTILE: [HOSTILE]}, aw.Buffer(), schema=pa.schema({"x": pa.int64()}))
    yield lambda: aw.write({"x": [{HOSTILE: 1}]}, aw.Buffer(), schema=pa.schema({"x": pa.struct({"y": pa.int64()})}))
    yield lambda: aw.Builder(pa.schema({HOSTILE: pa.int64()})).append_row(**{HOSTILE: HOSTILE})
    yield lambda: aw.Builder(pa.schema({HOSTILE: pa.int64()})).append_row(**{"x" + HOSTILE: 1})
    yield lambda: aw.Builder(pa.schema({HOSTILE: pa.int64()})).append([{HOSTILE: HOSTILE}])
    yield lambda: aw.writer(path + "t", pa.schema({HOSTILE: pa.list_(pa.run_end_encoded(pa.int32(), pa.int8()))}))
    yield lambda: aw.writer(path + "t", pa.schema({"x": pa.int64()}), sorted_by=HOSTILE)
    yield lambda: aw.from_arrow(type(HOSTILE.encode("ascii", "ignore").decode().replace("\x00", ""), (), {})())
    yield lambda: aw.scan(aw.from_arrow(pa.table({HOSTILE: pa.array([None], pa.month_day_nano_interval())})))
    yield lambda: aw.sql(f'select 1 from "{path}.table" where nowhere = 1')
    yield lambda: ds["z"][0]
    yield lambda: ds.splits(1)[0]._replace(path=path, rows=99).open()


def test_errors_have_visible_text(path):
    ds = aw.open(path)
    for number, call in enumerate(failing_calls(ds, path)):
        try:
            call()
        except Exception as problem:
            is_ours = isinstance(problem, aw.Error | TypeError | ValueError | BufferError | OverflowError)
            # DuckDB words its own errors.
            if is_ours or not type(problem).__module__.endswith("duckdb"):
                assert_visible(str(problem), number)
        else:
            raise AssertionError(f"no error: {number}")


VERBS = [
    "head",
    "tail",
    "schema",
    "messages",
    "stat",
    "check",
    "cat --json",
    "head --json",
    "tail --json",
    "schema --json",
    "messages --json",
    "stat --json",
    "check --json",
    "check --strict",
]


@pytest.mark.parametrize("verb", VERBS)
def test_command_prints_visible_text(verb, path):
    process = subprocess.run([*COMMAND, *verb.split(), path], capture_output=True)
    output, errors = process.stdout.decode(), process.stderr.decode()
    assert process.returncode == 0 and errors == "", errors
    assert_visible(output)
    if "--json" in verb:
        documents = [json.loads(line) for line in output.splitlines()]
        assert any(HOSTILE in text for text in json_strings(documents))


def json_strings(value):
    """Yields all strings of a JSON value, also the names of members."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from json_strings(member)
    elif isinstance(value, list):
        for item in value:
            yield from json_strings(item)
    elif isinstance(value, str):
        yield value


def test_failing_command_prints_visible_text(path, tmp_path):
    other = str(tmp_path / "other.arrow")
    aw.write({"x": [1]}, other)
    for arguments in (
        ["head", path, other],
        ["head", path + HOSTILE],
        ["check", path + HOSTILE],
        ["check", "--json", path + HOSTILE],
        ["head", "--" + HOSTILE],
        [HOSTILE],
        ["import", path, HOSTILE + "/no"],
        ["append", path + ".table", path],
        ["sql", f'select * from "{path}" where nowhere = 1'],
        ["compact", path],
        ["create", path, "--schema", HOSTILE],
    ):
        process = subprocess.run([*COMMAND, *arguments], capture_output=True)
        assert process.returncode != 0, arguments
        assert_visible(process.stdout.decode(), arguments)
        assert_visible(process.stderr.decode(), arguments)


def test_csv_is_unchanged_in_a_pipe_and_visible_in_a_terminal(path):
    process = subprocess.run([*COMMAND, "cat", "--csv", path], capture_output=True)
    assert HOSTILE in process.stdout.decode()
    terminal, command_end = os.openpty()
    subprocess.run([*COMMAND, "cat", "--csv", path], stdout=command_end)
    os.close(command_end)
    printed = b""
    try:
        while chunk := os.read(terminal, 4096):
            printed += chunk
    except OSError:
        # Linux reports the end of a terminal as EIO.
        pass
    assert_visible(printed.decode().replace("\r\n", "\n"))
