"""Tests that every way into a column of times, and every comparison with it, treats time zones alike."""

import datetime as dt
import functools
import io
import operator
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import arrowwood as aw
from conftest import error_without_module

UTC = dt.UTC
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
HOUR_US = 3_600_000_000

NOON = dt.datetime(2024, 1, 1, 12)
# Microseconds since 1970 of the wall clock `NOON`, taken as UTC.
NOON_US = 1_704_110_400_000_000
MIDNIGHT_US = NOON_US - 12 * HOUR_US

# Expected values are in the order of these zones of a column; None means that the value is refused.
ZONES = [None, "UTC", "Europe/Berlin"]

# Values, and the microseconds that are stored for them in columns of `ZONES`.
VALUES = {
    "naive datetime": (NOON, (NOON_US, None, None)),
    "aware datetime": (NOON.replace(tzinfo=UTC), (None, NOON_US, NOON_US)),
    "datetime of another zone": (
        NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))),
        (None, NOON_US - 2 * HOUR_US, NOON_US - 2 * HOUR_US),
    ),
    "naive Timestamp": (pd.Timestamp(NOON), (NOON_US, None, None)),
    "aware Timestamp": (pd.Timestamp(NOON, tz="Europe/Berlin"), (None, NOON_US - HOUR_US, NOON_US - HOUR_US)),
    "datetime64": (np.datetime64(NOON, "us"), (NOON_US, NOON_US, None)),
    "datetime64 in nanoseconds": (np.datetime64(NOON, "ns"), (NOON_US, NOON_US, None)),
    "day of NumPy": (np.datetime64(NOON, "D"), (MIDNIGHT_US, MIDNIGHT_US, None)),
    "date": (NOON.date(), (MIDNIGHT_US, None, None)),
    "integer": (NOON_US, (NOON_US, NOON_US, NOON_US)),
}

# Whole columns, and the microseconds that are stored for them in columns of `ZONES`. NumPy's times have no zone.
COLUMNS = {
    "NumPy": (lambda: np.array([NOON], "datetime64[us]"), (NOON_US, NOON_US, None)),
    "NumPy in nanoseconds": (lambda: np.array([NOON], "datetime64[ns]"), (NOON_US, NOON_US, None)),
    "days of NumPy": (lambda: np.array([NOON], "datetime64[D]"), (MIDNIGHT_US, MIDNIGHT_US, None)),
    "naive Series": (lambda: pd.Series([NOON]), (NOON_US, None, None)),
    "aware Series": (lambda: pd.Series([NOON]).dt.tz_localize("UTC"), (None, NOON_US, NOON_US)),
    "naive Polars": (lambda: pl.Series([NOON]), (NOON_US, None, None)),
    "aware Polars": (lambda: pl.Series([NOON]).dt.replace_time_zone("UTC"), (None, NOON_US, NOON_US)),
    "naive pyarrow": (lambda: pa.array([NOON], pa.timestamp("ms")), (NOON_US, None, None)),
    "aware pyarrow": (
        lambda: pa.array([NOON_US // 1000], pa.timestamp("ms", "Europe/Berlin")),
        (None, NOON_US, NOON_US),
    ),
    "objects": (lambda: np.array([NOON], object), (NOON_US, None, None)),
}


def stored_microseconds(table):
    """Returns the column ``ts`` as integers."""
    return pa.table(table)["ts"].cast(pa.int64()).to_pylist()


def write_to_memory(data, schema):
    buffer = aw.Buffer()
    aw.write(data, buffer, schema=schema)
    return aw.open(buffer)


class TimeColumn:
    """Passes values to columns of a zone, or compares them with a column, in every way.

    Each method returns the microseconds of the value that was stored or found.
    """

    def __init__(self, folder, zone):
        self.type = pa.timestamp("us", zone)
        self.schema = pa.schema({"ts": self.type})
        self.path, self.sorted_path = folder / "t", folder / "t.sorted"
        # Three rows, a microsecond apart, surround each expected value.
        times = sorted({MIDNIGHT_US, NOON_US, NOON_US - 2 * HOUR_US, NOON_US - HOUR_US})
        rows = [time + shift for time in times for shift in (-1, 0, 1)]
        with aw.writer(self.sorted_path, self.schema, sorted_by="ts") as writer:
            writer.append(pa.table({"ts": pa.array(rows, self.type)}))

    def writer_append_row(self, value):
        with aw.writer(self.path, self.schema, sync="never") as writer:
            writer.append_row(ts=value)
        return stored_microseconds(aw.open(self.path))[-1]

    def writer_append(self, data):
        with aw.writer(self.path, self.schema, sync="never") as writer:
            writer.append(data)
        return stored_microseconds(aw.open(self.path))[-1]

    def writer_append_rows(self, value):
        return self.writer_append([{"ts": value}])

    def writer_append_columns(self, value):
        return self.writer_append({"ts": [value]})

    def builder_append_row(self, value):
        builder = aw.Builder(self.schema)
        builder.append_row(ts=value)
        return stored_microseconds(builder.finish())[-1]

    def builder_append(self, value):
        builder = aw.Builder(self.schema)
        builder.append([{"ts": value}])
        return stored_microseconds(builder.finish())[-1]

    def write(self, value):
        return stored_microseconds(write_to_memory({"ts": [value]}, self.schema))[-1]

    def write_structs(self, value):
        schema = pa.schema({"s": pa.struct({"ts": self.type})})
        structs = write_to_memory({"s": [{"ts": value}]}, schema).to_arrow()["s"].combine_chunks()
        return structs.field("ts").cast(pa.int64())[0].as_py()

    def between(self, value):
        return stored_microseconds(aw.open(self.sorted_path).between(value, value))[-1]

    def filter(self, compare, value):
        """Returns the last row for which ``compare(column, value)`` is true."""
        rows = aw.open(self.sorted_path).filter(compare(aw.col("ts"), value))
        return stored_microseconds(rows)[-1]

    def select_with_brackets(self, value):
        dataset = aw.open(self.sorted_path)
        return stored_microseconds(dataset[dataset["ts"] == value])[-1]

    def ways(self):
        """Returns all ways by name; each takes a value."""
        return {
            "append_row": self.writer_append_row,
            "append of rows": self.writer_append_rows,
            "append of columns": self.writer_append_columns,
            "Builder.append_row": self.builder_append_row,
            "Builder.append": self.builder_append,
            "write": self.write,
            "write of structs": self.write_structs,
            "between": self.between,
            "==": functools.partial(self.filter, operator.eq),
            "is_in": functools.partial(self.filter, lambda column, value: column.is_in([value])),
            "<=": functools.partial(self.filter, operator.le),
            "reversed": functools.partial(self.filter, lambda column, value: value >= column),
            "ds[…]": self.select_with_brackets,
        }


@pytest.mark.parametrize("zone", ZONES, ids=str)
@pytest.mark.parametrize("name", VALUES)
def test_all_ways_agree_on_a_value(tmp_path, name, zone):
    value, expected_by_zone = VALUES[name]
    expected = expected_by_zone[ZONES.index(zone)]
    for way, call in TimeColumn(tmp_path, zone).ways().items():
        if expected is not None:
            assert call(value) == expected, way
            continue
        with pytest.raises((TypeError, aw.InvalidArgument)) as problem:
            call(value)
        # Errors say what to write instead.
        remedies = ("replace(tzinfo=…)", "astimezone(…).replace(tzinfo=None)", "tz=…", "tzinfo=…)")
        assert any(remedy in str(problem.value) for remedy in remedies), (way, str(problem.value))


@pytest.mark.parametrize("zone", ZONES, ids=str)
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_times_are_stored_or_refused(tmp_path, name, zone):
    make_column, expected_by_zone = COLUMNS[name]
    expected = expected_by_zone[ZONES.index(zone)]
    schema = pa.schema({"ts": pa.timestamp("us", zone)})
    tables = [{"ts": make_column()}]
    if "Series" in name:
        tables.append(pd.DataFrame({"ts": make_column()}))
    for table in tables:
        if expected is None:
            with pytest.raises((TypeError, aw.InvalidArgument), match=r"time zone.*(replace|tz=…)"):
                aw.write(table, aw.Buffer(), schema=schema)
        else:
            assert stored_microseconds(write_to_memory(table, schema)) == [expected]


def test_pandas_series_are_checked_without_pyarrow(tmp_path):
    path = tmp_path / "t"
    aw.writer(path, pa.schema({"ts": pa.timestamp("us", "UTC")})).close()
    naive = "pd.Series(pd.to_datetime(['2024-01-01 12:00']))"
    code = f"import pandas as pd; aw.writer({str(path)!r}).append({{'ts': {naive}}})"
    assert "replace(tzinfo=…)" in error_without_module("pyarrow", code)
    aware = "pd.Series(pd.to_datetime(['2024-01-01 12:00']).tz_localize('UTC'))"
    code = f"import pandas as pd; w = aw.writer({str(path)!r}); w.append({{'ts': {aware}}}); w.close()"
    # `without` expects the code to fail.
    error_without_module("pyarrow", code + "; 1 / 0")
    assert stored_microseconds(aw.open(path)) == [NOON_US]


def test_csv_has_an_offset_if_the_column_has_a_zone():
    for text, expected_by_zone in (
        ("2024-01-01T12:00:00", (NOON_US, None, None)),
        ("2024-01-01T12:00:00Z", (None, NOON_US, NOON_US)),
    ):
        for zone, expected in zip(ZONES, expected_by_zone):
            schema = pa.schema({"ts": pa.timestamp("us", zone)})
            source = io.BytesIO(f"ts\n{text}\n".encode())
            if expected is None:
                with pytest.raises(aw.InvalidData):
                    aw.read_csv(source, schema=schema)
            else:
                assert stored_microseconds(aw.read_csv(source, schema=schema)) == [expected]


def test_times_of_rows_can_be_appended_again(tmp_path):
    """Rows have NumPy times, in UTC, for nanoseconds that Python's datetime can't hold."""
    naive, aware = pa.timestamp("ns"), pa.timestamp("ns", "UTC")
    schema = pa.schema({"n": naive, "z": aware})
    with aw.writer(tmp_path / "t", schema, sorted_by="z") as writer:
        writer.append(pa.table([pa.array([1_001], naive), pa.array([1_001], aware)], schema=schema))
        writer.commit()
        row = aw.open(tmp_path / "t")[0]
        assert all(isinstance(value, np.datetime64) for value in row.values())
        writer.append_row(**row)
        writer.append([row])
        writer.commit()
        ds = aw.open(tmp_path / "t")
        assert ds.to_pylist() == [row] * 3
        assert len(ds.between(row["z"], row["z"])) == 3
        assert len(ds[ds["n"] == row["n"]]) == 3


def test_times_of_day_with_a_zone_are_refused():
    for value in (dt.time(12, tzinfo=UTC), dt.time(12, tzinfo=BERLIN)):
        for call in (
            lambda: aw.write({"t": [value]}, aw.Buffer()),
            lambda: aw.Builder(pa.schema({"t": pa.time64("us")})).append_row(t=value),
            lambda: aw.col("t") == value,
        ):
            with pytest.raises(TypeError, match="time zone.*replace"):
                call()


def round_down(moment, unit):
    """Rounds a datetime down to whole units."""
    if unit == "s":
        return moment.replace(microsecond=0)
    if unit == "ms":
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    return moment


@settings(deadline=None)
@example(dt.datetime(1981, 10, 25, tzinfo=zoneinfo.ZoneInfo("America/Bogota")), "s")
@given(
    st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1), timezones=st.timezones()),
    st.sampled_from(["s", "ms", "us", "ns"]),
)
def test_instants_are_preserved_from_any_zone(moment, unit):
    if moment.utcoffset().total_seconds() % 1:
        return
    moment = round_down(moment, unit)
    instant = moment.astimezone(UTC)
    for zone in ("UTC", "+05:30", "America/New_York"):
        builder = aw.Builder(pa.schema({"ts": pa.timestamp(unit, zone)}))
        builder.append_row(ts=moment)
        builder.append([{"ts": moment}])
        ds = builder.finish()
        # Compares in UTC: a time in a repeated hour never equals a time in another zone (PEP 495).
        assert [time.astimezone(UTC) for time in ds["ts"].to_pylist()] == [instant] * 2
        for compare, row_count in ((operator.eq, 2), (operator.ge, 2), (operator.lt, 0), (operator.ne, 0)):
            assert len(ds.filter(compare(ds["ts"], moment))) == row_count


def test_both_times_of_a_fold_are_distinguished():
    """An hour is repeated when clocks are set back."""
    first = dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN)
    second = first.replace(fold=1)
    builder = aw.Builder(pa.schema({"ts": pa.timestamp("s", "Europe/Berlin")}))
    for value in (first, second):
        builder.append_row(ts=value)
    ds = builder.finish()
    assert ds.to_arrow()["ts"].cast(pa.int64()).to_pylist() == [1_729_989_000, 1_729_992_600]
    assert [len(ds[ds["ts"] == value]) for value in (first, second)] == [1, 1]
