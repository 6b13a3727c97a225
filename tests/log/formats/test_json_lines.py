"""JSON Lines: keys, kinds of values, what cannot be kept."""

from __future__ import annotations

import polars as pl
import pytest

from queryveil.errors import FormatError
from queryveil.log import QueryLog, read_with_report, write


def read_text(tmp_path, text, **options):
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    return read_with_report(path, **options)


def test_numbers_serve_as_users_and_missing_keys_as_null(tmp_path):
    log, _ = read_text(tmp_path, '{"user": 7, "query": "a", "rank": 2}\n\n{"query": "b", "user": "x", "url": null}')
    assert log == QueryLog.of([("7", "a", None, 2), ("x", "b")])


def test_extra_keys_are_left_out_unless_they_are_asked_for_and_come_as_text_row_by_row(tmp_path):
    text = (
        '{"user": "a", "query": "x", "t": "s", "i": 1, "n": {"k": [1]}, "big": 123456789012345678901234567890}\n'
        '{"user": "b", "query": "y", "i": "one", "other": 7}\n'
    )
    log, report = read_text(tmp_path, text)
    assert log.extra_columns == []
    assert any("are left out" in note for note in report.notes)
    log, _ = read_text(tmp_path, text, extras=("t", "i", "n", "big"))
    assert log.frame.select("t", "i", "n", "big").rows() == [
        ("s", "1", '{"k":[1]}', "123456789012345678901234567890"),
        (None, "one", None, None),
    ]


def test_each_row_takes_the_first_of_a_columns_keys_that_holds_something_there(tmp_path):
    first = '{"user": "a", "query": "x", "url": null, "ClickURL": "c"}\n'
    rows = first + '{"AnonID": 7, "Query": "y", "url": "u", "ClickURL": 1}\n'
    assert read_text(tmp_path, rows)[0].frame.select("user", "query", "url").rows() == [
        ("a", "x", "c"),
        ("7", "y", "u"),
    ]
    mapped, _ = read_text(tmp_path, rows, columns={"user": "query", "query": "user"}, on_error="skip")
    assert mapped.frame.select("user", "query", "url").rows() == [("x", "a", "c")]


@pytest.mark.parametrize(
    "extra",
    [
        pl.Series("z", [1, None], dtype=pl.Int64),
        pl.Series("z", [True, None], dtype=pl.Boolean),
        pl.Series("ClickURL", ["u", None]),
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


def test_an_object_over_several_lines_takes_nobody_elses_line_in(tmp_path):
    hostile = ['{"user": "mal", "query": "x", "z": [', "]}", '{"user": "mal", "query": "y"}{}{}']
    lines = [hostile[0], '{"user": "ann", "query": "tulips"}', hostile[1], hostile[2]]
    log, report = read_text(tmp_path, "\n".join(lines) + "\n")
    assert log == QueryLog.of([("ann", "tulips")])
    assert [problem.line for problem in report.problems] == [1, 3, 4]
