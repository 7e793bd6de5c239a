"""Names and values of others, wherever they are shown: nothing commands the terminal, turns text round or hides."""

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
COMMAND = os.path.join(os.path.dirname(sys.executable), "arrowwood")


def is_hidden(c):
    return unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")


def assert_visible(text, what=""):
    lines = text.replace("\n", "")
    assert not any(map(is_hidden, lines)), (what, [c for c in lines if is_hidden(c)], text)
    return text


@pytest.fixture(scope="module")
def table():
    inside = pa.struct([pa.field(HOSTILE, pa.int64())])
    schema = pa.schema(
        [
            pa.field(HOSTILE, pa.string(), metadata={HOSTILE: HOSTILE}),
            pa.field("s", inside),
            pa.field("z", pa.timestamp("s", HOSTILE)),
            pa.field("k", pa.dictionary(pa.int8(), pa.string())),
        ],
        metadata={HOSTILE: HOSTILE},
    )
    columns = [[HOSTILE, None], [{HOSTILE: 1}, None], [0, 1], [HOSTILE, "x"]]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, schema)], schema)


@pytest.fixture(scope="module")
def path(tmp_path_factory, table):
    # No slash, and nothing that a file's name can't have.
    path = str(tmp_path_factory.mktemp("visible") / f"{HOSTILE}.arrow")
    aw.write(table, path)
    return path


def test_what_objects_print(path, table):
    ds = aw.open(path)
    predicate = (aw.col(HOSTILE) == HOSTILE) & aw.col(HOSTILE).is_in([HOSTILE]) & ~aw.col(HOSTILE).is_null()
    shown = [ds, ds.schema, *ds.schema, ds[HOSTILE], ds["s"], ds["z"], ds["k"], ds.messages, *ds.messages, predicate]
    shown += [aw.col(HOSTILE), aw.map(path), aw.check(path), aw.from_arrow(table), ds[HOSTILE].value_counts()]
    shown += [ds["s"].dtype, ds["z"].dtype, ds.splits(1), ds.head(0)]
    with aw.writer(path + ".table", ds.select([HOSTILE]).schema) as writer:
        shown += [writer, aw.follow(path + ".table", timeout=0)]
    for thing in shown:
        assert_visible(str(thing), type(thing))
        assert_visible(repr(thing), type(thing))
    assert_visible(html.unescape(ds._repr_html_()))
    # Programs get the names unchanged.
    assert ds.columns[0] == HOSTILE and ds[HOSTILE][0] == HOSTILE and ds.schema[0].metadata == {HOSTILE: HOSTILE}
    assert ds.messages[0]["fields"][0]["name"] == HOSTILE


def errors(ds, path):
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


def test_what_errors_say(path):
    ds = aw.open(path)
    for number, call in enumerate(errors(ds, path)):
        try:
            call()
        except Exception as problem:
            is_ours = isinstance(problem, aw.Error | TypeError | ValueError | BufferError | OverflowError)
            # DuckDB has words of its own.
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
def test_what_the_command_prints(verb, path):
    done = subprocess.run([COMMAND, *verb.split(), path], capture_output=True)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0 and err == "", err
    assert_visible(out)
    if "--json" in verb:
        found = [json.loads(line) for line in out.splitlines()]
        assert any(HOSTILE in text for text in texts(found))


def texts(found):
    """All strings in what JSON says."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield key
            yield from texts(value)
    elif isinstance(found, list):
        for item in found:
            yield from texts(item)
    elif isinstance(found, str):
        yield found


def test_what_the_command_says_when_it_fails(path, tmp_path):
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
        done = subprocess.run([COMMAND, *arguments], capture_output=True)
        assert done.returncode != 0, arguments
        assert_visible(done.stdout.decode(), arguments)
        assert_visible(done.stderr.decode(), arguments)


def test_csv_is_data_but_for_a_terminal(path):
    done = subprocess.run([COMMAND, "cat", "--csv", path], capture_output=True)
    assert HOSTILE in done.stdout.decode()
    main, side = os.openpty()
    subprocess.run([COMMAND, "cat", "--csv", path], stdout=side)
    os.close(side)
    found = b""
    try:
        while more := os.read(main, 4096):
            found += more
    except OSError:
        pass
    assert_visible(found.decode().replace("\r\n", "\n"))
