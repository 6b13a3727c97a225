"""Parquet: types on the way in, any type of extra column on the way through."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from queryveil.errors import FormatError
from queryveil.log import QueryLog, read, read_with_report, write

NINE = dt.datetime(2026, 3, 1, 9)


@pytest.mark.parametrize(
    "times",
    [
        pl.Series([NINE], dtype=pl.Datetime("ms")),
        pl.Series([NINE], dtype=pl.Datetime("ns")),
        pl.Series([NINE]).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"),
        pl.Series(["2026-03-01T10:00:00+01:00"]),
    ],
)
def test_times_of_all_kinds_become_utc(times, tmp_path):
    pl.DataFrame({"user": [7], "query": ["x"], "time": times, "rank": pl.Series([1], dtype=pl.Int8)}).write_parquet(
        tmp_path / "log.parquet"
    )
    assert read(tmp_path / "log.parquet") == QueryLog.of([("7", "x", NINE, 1)])


def test_a_date_is_its_midnight_and_a_category_is_text(tmp_path):
    frame = pl.DataFrame({"uid": pl.Series(["ann"], dtype=pl.Categorical), "query": ["x"], "time": [NINE.date()]})
    frame.write_parquet(tmp_path / "log.parquet")
    assert read(tmp_path / "log.parquet", columns={"user": "uid"}) == QueryLog.of(
        [("ann", "x", dt.datetime(2026, 3, 1))]
    )


def test_extra_columns_of_any_type_come_back_the_same(tmp_path):
    extras = pl.DataFrame(
        {
            "list": [[1, 2], None],
            "struct": [{"a": 1.5}, None],
            "bytes": [b"\xff", None],
            "small": pl.Series([1, None], dtype=pl.Int8),
            "zoned": pl.Series([NINE, None]).dt.replace_time_zone("Europe/Madrid"),
            "nothing": pl.Series([None, None], dtype=pl.Float32),
        }
    )
    log = QueryLog(QueryLog.of([("a", "x"), ("b", "y")]).frame.hstack(extras))
    write(log, tmp_path / "log.parquet")
    assert read(tmp_path / "log.parquet") == log


@pytest.mark.parametrize(
    ("column", "values"),
    [("user", [1.5]), ("user", [b"canary"]), ("query", [7]), ("query", [NINE]), ("rank", [1.5]), ("time", [7.5])],
)
def test_columns_of_a_type_that_means_nothing_there_are_refused(column, values, tmp_path):
    pl.DataFrame({"user": ["a"], "query": ["x"]}).with_columns(pl.Series(column, values)).write_parquet(
        tmp_path / "log.parquet"
    )
    with pytest.raises(FormatError, match=f"column {column} has the type"):
        read(tmp_path / "log.parquet")


@pytest.mark.parametrize(("column", "value"), [("rank", -1), ("rank", 2**32), ("time", 7)])
def test_whole_numbers_out_of_range_are_told_by_row(column, value, tmp_path):
    frame = pl.DataFrame({"user": ["a", "b"], "query": ["x", "y"], column: [None, value]})
    frame.write_parquet(tmp_path / "log.parquet")
    with pytest.raises(FormatError, match=f"line 2, column {column}"):
        read(tmp_path / "log.parquet", on_error="fail")


def test_python_objects_are_refused(tmp_path):
    log = QueryLog(QueryLog.of([("a", "x")]).frame.with_columns(pl.Series("z", [object()], dtype=pl.Object)))
    with pytest.raises(FormatError, match="no place for column z\nChange the log first"):
        write(log, tmp_path / "log.parquet")


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_a_time_beyond_any_calendar_costs_its_own_row_alone(unit, zone, tmp_path):
    late = 2**62 if unit == "ms" else 2**63 - 1
    times = pl.Series([0, late, -(2**63) + 1, None], dtype=pl.Int64).cast(pl.Datetime(unit, zone))
    pl.DataFrame({"user": list("abcd"), "query": ["x"] * 4, "time": times}).write_parquet(tmp_path / "log.parquet")
    log, report = read_with_report(tmp_path / "log.parquet", on_error="skip")
    kept = ["a", "b", "c", "d"] if unit == "ns" else ["a", "d"]  # nanoseconds in 64 bits never leave the calendar
    assert log.frame["user"].to_list() == kept
    assert str(log.frame["time"][0]) == "1970-01-01 00:00:00"
    assert {problem.reason for problem in report.problems} <= {"outside the years 1 to 9999"}
