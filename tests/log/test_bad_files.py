"""Bad files of every kind: a typed error, or lines left out with number and reason, and nothing of the content."""

from __future__ import annotations

import traceback
from pathlib import Path

import polars as pl
import pytest

from bad_files import AOL, BAD_FILES, CANARY, COMBINED, GOOD, HEADER
from queryveil.errors import FormatError, UsageError
from queryveil.log import QueryLog, read, read_with_report, write

REFUSED = [case for case, bad in BAD_FILES.items() if bad.records is None]
READ = [case for case, bad in BAD_FILES.items() if bad.records is not None]


def assert_says_nothing_of_the_file(text):
    for word in CANARY.split():
        assert word not in text.lower()


def assert_refused(bad, path, **options):
    with pytest.raises(bad.error) as caught:
        read(path, **bad.options | options)
    assert bad.says in str(caught.value)
    assert caught.value.exit_code == (1 if bad.error is FormatError else 2)
    assert_says_nothing_of_the_file("".join(traceback.format_exception(caught.value)))
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_is_not_of_its_format_gives_a_typed_error_and_shows_nothing_of_it(case, tmp_path):
    assert_refused(BAD_FILES[case], BAD_FILES[case].write(tmp_path))


@pytest.mark.parametrize("case", READ)
def test_bad_lines_are_left_out_and_reported_and_a_file_without_a_record_is_an_empty_log(case, tmp_path):
    bad = BAD_FILES[case]
    log, report = read_with_report(bad.write(tmp_path), **bad.options)
    assert (len(log), report.records) == (bad.records, bad.records)
    assert report.problem_count == (1 if bad.says else 0)
    assert all(bad.says in str(problem) for problem in report.problems)
    assert_says_nothing_of_the_file(repr(report))


@pytest.mark.parametrize("case", READ)
def test_who_would_rather_stop_at_bad_lines_may(case, tmp_path):
    bad = BAD_FILES[case]
    path = bad.write(tmp_path)
    if bad.says:
        assert_refused(bad, path, on_error="fail")
    else:
        assert len(read(path, on_error="fail")) == 0


def test_there_are_at_least_40_bad_files():
    assert len(BAD_FILES) >= 40


@pytest.mark.parametrize("name", ["missing.tsv", ".", "nul\0name.tsv", "x" * 5000])
def test_a_path_that_is_no_file_is_wrong_usage(name, tmp_path):
    with pytest.raises(UsageError):
        read(tmp_path / name)


def test_a_device_is_refused():
    with pytest.raises(UsageError, match="not a regular file"):
        read("/dev/zero")


def test_a_file_without_permission_is_wrong_usage(tmp_path, monkeypatch):
    path = tmp_path / "log.tsv"
    path.write_text(AOL)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", CANARY)

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(UsageError, match=r"log\.tsv: cannot be opened \(permission denied\)"):
        read(path)


def test_skipping_keeps_the_good_lines_and_reports_the_others(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text(AOL + "1\n" + GOOD.replace("7\t", "8\t") + "\n" + GOOD.replace("2006", "year") + GOOD[1:])
    log, report = read_with_report(path, most_problems=2)
    assert log.frame["user"].to_list() == ["7", "8"]
    assert (report.format, report.lines, report.records, report.problem_count) == ("aol", 7, 2, 3)
    assert [(problem.line, problem.column) for problem in report.problems] == [(3, None), (6, "time")]
    assert report.notes == ("blank lines left out: 1",)


def test_failing_tells_the_first_problems_how_many_more_and_how_to_go_on(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text(AOL + "1\n" * 50)
    with pytest.raises(FormatError) as caught:
        read(path, most_problems=3, on_error="fail")
    assert str(caught.value).splitlines() == [
        "log.tsv: 50 of 52 lines cannot be read as aol.",
        "  line 3: not 3 or 5 columns",
        "  line 4: not 3 or 5 columns",
        "  line 5: not 3 or 5 columns",
        "  … and 47 more",
        "Fix them, or leave them out. Try on_error='skip'.",
    ]


LINES = {
    "log.tsv": (HEADER, GOOD, "1\n"),
    "log.csv": ("user,query\n", f"ann,{CANARY}\n", "ann\n"),
    "log.jsonl": ("", f'{{"user": "ann", "query": "{CANARY}"}}\n', "{\n"),
    "log.ubi.jsonl": ("", f'{{"user_query": "{CANARY}", "client_id": "ann"}}\n', "{\n"),
    "log.access.log": ("", COMBINED % "x", "x\n"),
    "log.excite.log": ("", f"AB12\t970916120304\t{CANARY}\n", "x\n"),
}
"""What a file of each text format begins with, a good line and a bad one."""


@pytest.mark.parametrize("name", LINES)
def test_any_number_of_bad_lines_is_left_out(name, tmp_path):
    header, good, bad = LINES[name]
    path = tmp_path / name
    path.write_text(header + good + bad * 99)
    log, report = read_with_report(path)
    assert (len(log), report.problem_count) == (1, 99)


@pytest.mark.parametrize("name", LINES)
def test_a_log_is_empty_without_a_line_and_refused_where_no_line_is_of_its_format_unless_its_header_is(name, tmp_path):
    header, _, bad = LINES[name]
    path = tmp_path / name
    for without_a_line in ("", header):
        path.write_text(without_a_line)
        assert read(path, on_error="fail") == QueryLog.empty()
    path.write_text(header + "\n" + bad * 3 + "\r\n")
    if header:
        log, report = read_with_report(path)
        assert (log, report.problem_count) == (QueryLog.empty(), 3)
    else:
        with pytest.raises(FormatError, match=r"no line can be read as .* not of this format at all"):
            read(path)


def test_requests_without_a_search_and_events_without_a_click_are_lines_of_their_format(tmp_path):
    requests, events = tmp_path / "a.access.log", tmp_path / "l.ubi.jsonl"
    requests.write_text(COMBINED.replace("?q=%s", "") + "x\n" * 5)
    events.write_text('{"action_name": "view", "client_id": "ann"}\n' + "{\n" * 5)
    for path in (requests, events):
        log, report = read_with_report(path)
        assert (len(log), report.problem_count) == (0, 5)


def test_a_table_of_bad_rows_only_is_an_empty_log_since_its_schema_is_right(tmp_path):
    pl.DataFrame({"user": ["", None], "query": [CANARY] * 2}).write_parquet(tmp_path / "l.parquet")
    log, report = read_with_report(tmp_path / "l.parquet")
    assert (len(log), report.problem_count) == (0, 2)


@pytest.mark.parametrize("name", [*LINES, "log.parquet"])
def test_an_empty_log_can_be_written_and_read_back(name, tmp_path):
    write(QueryLog.empty(), tmp_path / name)
    assert read(tmp_path / name) == QueryLog.empty()
