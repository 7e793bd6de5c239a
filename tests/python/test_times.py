"""Times with and without a time zone, and dates: every way into a column and every comparison with it agree."""

import datetime as dt
import io
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import arrowwood as aw
from conftest import without

UTC = dt.UTC
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NOON = dt.datetime(2024, 1, 1, 12)
MICROS = 1_704_110_400_000_000
MIDNIGHT = MICROS - 12 * 3_600_000_000

# What is given, and the microseconds that it is in a column without a zone, in UTC and in Berlin; None is refused.
GIVEN = {
    "naive datetime": (NOON, (MICROS, None, None)),
    "aware datetime": (NOON.replace(tzinfo=UTC), (None, MICROS, MICROS)),
    "datetime of another zone": (
        NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))),
        (None, MICROS - 7_200_000_000, MICROS - 7_200_000_000),
    ),
    "naive Timestamp": (pd.Timestamp(NOON), (MICROS, None, None)),
    "aware Timestamp": (pd.Timestamp(NOON, tz="Europe/Berlin"), (None, MICROS - 3_600_000_000, MICROS - 3_600_000_000)),
    "datetime64": (np.datetime64(NOON, "us"), (MICROS, MICROS, None)),
    "datetime64 in nanoseconds": (np.datetime64(NOON, "ns"), (MICROS, MICROS, None)),
    "day of NumPy": (np.datetime64(NOON, "D"), (MIDNIGHT, MIDNIGHT, None)),
    "date": (NOON.date(), (MIDNIGHT, None, None)),
    "integer": (MICROS, (MICROS, MICROS, MICROS)),
}
ZONES = [None, "UTC", "Europe/Berlin"]


def ways(path, zone):
    """Each way that a value gets into a column of `zone`, or is compared with it; gives the microseconds that it is."""
    kind = pa.timestamp("us", zone)
    schema = pa.schema({"ts": kind})

    def stored(table):
        return pa.table(table)["ts"].cast(pa.int64()).to_pylist()[-1]

    def appended(append):
        with aw.writer(path, schema, sync="never") as writer:
            append(writer)
        return stored(aw.open(path))

    def built(append):
        builder = aw.Builder(schema)
        append(builder)
        return stored(builder.finish())

    def written(data):
        aw.write(data, memory := aw.Buffer(), schema=schema)
        return stored(aw.open(memory))

    def between(value):
        # The first of three rows that lie a microsecond apart around the value.
        ds = aw.open(sorted_path)
        return stored(ds.between(value, value))

    def compared(compare, name="ts"):
        ds = aw.open(sorted_path)
        return lambda value: stored(ds.filter(compare(aw.col("ts"), value)))

    sorted_path = str(path) + ".sorted"
    around = [
        at + shift
        for at in sorted({MIDNIGHT, MICROS, MICROS - 7_200_000_000, MICROS - 3_600_000_000})
        for shift in (-1, 0, 1)
    ]
    with aw.writer(sorted_path, schema, sorted_by="ts") as writer:
        writer.append(pa.table({"ts": pa.array(around, kind)}))
    return {
        "append_row": lambda value: appended(lambda writer: writer.append_row(ts=value)),
        "append of rows": lambda value: appended(lambda writer: writer.append([{"ts": value}])),
        "append of columns": lambda value: appended(lambda writer: writer.append({"ts": [value]})),
        "Builder.append_row": lambda value: built(lambda builder: builder.append_row(ts=value)),
        "Builder.append": lambda value: built(lambda builder: builder.append([{"ts": value}])),
        "write": lambda value: written({"ts": [value]}),
        "write of structs": lambda value: written_struct(value, kind),
        "between": between,
        "==": compared(lambda column, value: column == value),
        "is_in": compared(lambda column, value: column.is_in([value])),
        "<=": compared(lambda column, value: column <= value),
        "turned": compared(lambda column, value: value >= column),
        "ds[…]": lambda value: stored((ds := aw.open(sorted_path))[ds["ts"] == value]),
    }


def written_struct(value, kind):
    aw.write({"s": [{"ts": value}]}, memory := aw.Buffer(), schema=pa.schema({"s": pa.struct({"ts": kind})}))
    return aw.open(memory).to_arrow()["s"].combine_chunks().field("ts").cast(pa.int64())[0].as_py()


@pytest.mark.parametrize("zone", ZONES, ids=str)
@pytest.mark.parametrize("name", GIVEN)
def test_all_ways_agree(tmp_path, name, zone):
    value, expected = GIVEN[name]
    expected = expected[ZONES.index(zone)]
    for way, call in ways(tmp_path / "t", zone).items():
        if expected is not None:
            assert call(value) == expected, way
            continue
        with pytest.raises((TypeError, aw.InvalidArgument)) as problem:
            call(value)
        # What to write instead.
        advice = ("replace(tzinfo=…)", "astimezone(…).replace(tzinfo=None)", "tz=…", "tzinfo=…)")
        assert any(words in str(problem.value) for words in advice), (way, str(problem.value))


# Columns of times as whole: whether they have a zone is known of all but NumPy's.
COLUMNS = {
    "NumPy": (lambda: np.array([NOON], "datetime64[us]"), (MICROS, MICROS, None)),
    "NumPy in nanoseconds": (lambda: np.array([NOON], "datetime64[ns]"), (MICROS, MICROS, None)),
    "days of NumPy": (lambda: np.array([NOON], "datetime64[D]"), (MIDNIGHT, MIDNIGHT, None)),
    "naive Series": (lambda: pd.Series([NOON]), (MICROS, None, None)),
    "aware Series": (lambda: pd.Series([NOON]).dt.tz_localize("UTC"), (None, MICROS, MICROS)),
    "naive Polars": (lambda: pl.Series([NOON]), (MICROS, None, None)),
    "aware Polars": (lambda: pl.Series([NOON]).dt.replace_time_zone("UTC"), (None, MICROS, MICROS)),
    "naive pyarrow": (lambda: pa.array([NOON], pa.timestamp("ms")), (MICROS, None, None)),
    "aware pyarrow": (lambda: pa.array([MICROS // 1000], pa.timestamp("ms", "Europe/Berlin")), (None, MICROS, MICROS)),
    "objects": (lambda: np.array([NOON], object), (MICROS, None, None)),
}


@pytest.mark.parametrize("zone", ZONES, ids=str)
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_times(tmp_path, name, zone):
    make, expected = COLUMNS[name]
    expected = expected[ZONES.index(zone)]
    schema = pa.schema({"ts": pa.timestamp("us", zone)})
    for data in ({"ts": make()}, pd.DataFrame({"ts": make()}) if "Series" in name else {"ts": make()}):
        if expected is None:
            with pytest.raises((TypeError, aw.InvalidArgument), match=r"time zone.*(replace|tz=…)"):
                aw.write(data, aw.Buffer(), schema=schema)
            continue
        aw.write(data, memory := aw.Buffer(), schema=schema)
        assert aw.open(memory).to_arrow()["ts"].cast(pa.int64()).to_pylist() == [expected]


def test_series_of_pandas_without_pyarrow(tmp_path):
    path = tmp_path / "t"
    aw.writer(path, pa.schema({"ts": pa.timestamp("us", "UTC")})).close()
    call = "import pandas as pd; aw.writer({!r}).append({{'ts': pd.Series(pd.to_datetime(['2024-01-01 12:00']){})}})"
    assert "replace(tzinfo=…)" in without("pyarrow", call.format(str(path), ""))
    done = (
        call.format(str(path), ".tz_localize('UTC')")
        .replace("aw.writer(", "w = aw.writer(")
        .replace(".append(", "; w.append(")
    )
    without("pyarrow", done + "; w.close(); 1 / 0")
    assert aw.open(path).to_arrow()["ts"].cast(pa.int64()).to_pylist() == [MICROS]


def test_text_has_an_offset_where_the_column_has_a_zone():
    naive, aware = "2024-01-01T12:00:00", "2024-01-01T12:00:00Z"
    for text, expected in ((naive, (MICROS, None, None)), (aware, (None, MICROS, MICROS))):
        for zone, micros in zip(ZONES, expected):
            schema = pa.schema({"ts": pa.timestamp("us", zone)})
            if micros is None:
                with pytest.raises(aw.InvalidData):
                    aw.read_csv(io.BytesIO(f"ts\n{text}\n".encode()), schema=schema)
                continue
            ds = aw.read_csv(io.BytesIO(f"ts\n{text}\n".encode()), schema=schema)
            assert ds.to_arrow()["ts"].cast(pa.int64()).to_pylist() == [micros]


def test_what_a_row_has_can_be_appended_again(tmp_path):
    """Nanoseconds that Python's datetime has not come as NumPy's, in UTC."""
    schema = pa.schema({"n": pa.timestamp("ns"), "z": pa.timestamp("ns", "UTC")})
    with aw.writer(tmp_path / "t", schema, sorted_by="z") as writer:
        writer.append(
            pa.table([pa.array([1_001], schema.field(0).type), pa.array([1_001], schema.field(1).type)], schema=schema)
        )
        writer.commit()
        row = aw.open(tmp_path / "t")[0]
        assert all(isinstance(value, np.datetime64) for value in row.values())
        writer.append_row(**row)
        writer.append([row])
        writer.commit()
        ds = aw.open(tmp_path / "t")
        assert ds.to_pylist() == [row] * 3 and len(ds.between(row["z"], row["z"])) == len(ds[ds["n"] == row["n"]]) == 3


def test_times_of_day_have_no_zone():
    for value in (dt.time(12, tzinfo=UTC), dt.time(12, tzinfo=BERLIN)):
        for call in (
            lambda: aw.write({"t": [value]}, aw.Buffer()),
            lambda: aw.Builder(pa.schema({"t": pa.time64("us")})).append_row(t=value),
            lambda: aw.col("t") == value,
        ):
            with pytest.raises(TypeError, match="time zone.*replace"):
                call()


@settings(deadline=None)
@example(dt.datetime(1981, 10, 25, tzinfo=zoneinfo.ZoneInfo("America/Bogota")), "s")
@given(
    st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1), timezones=st.timezones()),
    st.sampled_from(["s", "ms", "us", "ns"]),
)
def test_instants_are_kept_whatever_zone_they_come_in(moment, unit):
    if moment.utcoffset().total_seconds() % 1:
        return
    moment = moment.replace(
        microsecond=0 if unit == "s" else moment.microsecond // 1000 * 1000 if unit == "ms" else moment.microsecond
    )
    instant = moment.astimezone(UTC)
    for zone in ("UTC", "+05:30", "America/New_York"):
        builder = aw.Builder(pa.schema({"ts": pa.timestamp(unit, zone)}))
        builder.append_row(ts=moment)
        builder.append([{"ts": moment}])
        ds = builder.finish()
        # Python finds no time in an hour that comes twice equal to one of another zone (PEP 495).
        assert [there.astimezone(UTC) for there in ds["ts"].to_pylist()] == [instant] * 2
        for compare, found in (("__eq__", 2), ("__ge__", 2), ("__lt__", 0), ("__ne__", 0)):
            assert len(ds.filter(getattr(ds["ts"], compare)(moment))) == found


def test_both_of_a_fold_are_known():
    """When the clock is set back an hour comes twice."""
    first = dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN)
    second = first.replace(fold=1)
    builder = aw.Builder(pa.schema({"ts": pa.timestamp("s", "Europe/Berlin")}))
    for value in (first, second):
        builder.append_row(ts=value)
    ds = builder.finish()
    assert ds.to_arrow()["ts"].cast(pa.int64()).to_pylist() == [1_729_989_000, 1_729_992_600]
    assert [len(ds[ds["ts"] == value]) for value in (first, second)] == [1, 1]
