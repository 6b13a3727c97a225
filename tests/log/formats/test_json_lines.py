"""JSON Lines: keys, kinds of values, what cannot be kept."""

from __future__ import annotations

import polars as pl
import pytest

from queryveil.errors import FormatError
from queryveil.log import QueryLog, read, read_with_report, write


def read_text(tmp_path, text, **options):
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    return read_with_report(path, **options)


def test_numbers_serve_as_users_and_missing_keys_as_null(tmp_path):
    log, _ = read_text(tmp_path, '{"user": 7, "query": "a", "rank": 2}\n\n{"query": "b", "user": "x", "url": null}')
    assert log == QueryLog.of([("7", "a", None, 2), ("x", "b")])


def test_extra_values_keep_their_kind_and_nested_ones_become_text(tmp_path):
    text = (
        '{"user": "a", "query": "x", "t": "s", "i": 1, "f": 1.5, "b": true, "n": {"k": [1]}, "big": 9e18, "m": 1}\n'
        '{"user": "b", "query": "y", "i": null, "f": 2, "big": 123456789012345678901234567890, "m": "x"}\n'
    )
    log, report = read_text(tmp_path, text)
    assert log.frame.select("t", "i", "f", "b", "n", "m").rows() == [
        ("s", 1, 1.5, True, '{"k":[1]}', "1"),
        (None, None, 2.0, None, None, '"x"'),
    ]
    assert [str(dtype) for dtype in log.frame.select("t", "i", "f", "b").dtypes] == [
        "String",
        "Int64",
        "Float64",
        "Boolean",
    ]
    assert len(report.notes) == 2


def test_whole_numbers_beyond_64_bits_travel_as_text(tmp_path):
    log, _ = read_text(tmp_path, '{"user": "a", "query": "x", "big": 123456789012345678901234567890}\n')
    assert log.frame["big"].to_list() == ["123456789012345678901234567890"]


@pytest.mark.parametrize(
    "extra",
    [
        pl.Series("z", [1, None], dtype=pl.Int64),
        pl.Series("z", [0.5, None], dtype=pl.Float64),
        pl.Series("z", [True, None], dtype=pl.Boolean),
        pl.Series("z", [None, None], dtype=pl.String),
    ],
)
def test_extra_columns_of_these_types_come_back_the_same(extra, tmp_path):
    log = QueryLog(QueryLog.of([("a", "x"), ("b", "y")]).frame.with_columns(extra))
    write(log, tmp_path / "log.jsonl")
    assert read(tmp_path / "log.jsonl") == log


@pytest.mark.parametrize(
    "extra",
    [
        pl.Series("z", [float("nan"), 1.0]),
        pl.Series("z", [float("inf"), 1.0]),
        pl.Series("z", [[1], [2]]),
        pl.Series("z", [b"x", b"y"]),
        pl.Series("z", [1, 2], dtype=pl.Int8),
        pl.Series("z", [None, None], dtype=pl.Int64),
    ],
)
def test_extra_columns_that_json_would_change_are_refused(extra, tmp_path):
    log = QueryLog(QueryLog.of([("a", "x"), ("b", "y")]).frame.with_columns(extra))
    with pytest.raises(FormatError, match="jsonl cannot carry this log"):
        write(log, tmp_path / "log.jsonl")


def test_one_bad_line_among_many_is_found(tmp_path):
    good = '{"user": "a", "query": "x"}\n'
    log, report = read_text(tmp_path, good * 500 + "{\n" + good * 500, on_error="skip")
    assert (len(log), [problem.line for problem in report.problems]) == (1000, [501])
