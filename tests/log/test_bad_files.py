"""Bad files of every kind: a typed error with line and reason, and nothing of the content."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from bad_files import AOL, BAD_FILES, CANARY, GOOD, HEADER
from queryveil.errors import FormatError, UsageError
from queryveil.log import QueryLog, read, read_with_report, write


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_gives_a_typed_error_and_shows_nothing_of_it(case, tmp_path):
    bad = BAD_FILES[case]
    path = tmp_path / bad.name
    path.write_bytes(bad.content if isinstance(bad.content, bytes) else bad.content.encode())
    with pytest.raises(bad.error) as caught:
        read(path, **bad.options)
    assert bad.says in str(caught.value)
    assert caught.value.exit_code == (1 if bad.error is FormatError else 2)
    told = "".join(traceback.format_exception(caught.value)).lower()
    for word in CANARY.split():
        assert word not in told
    assert len(str(caught.value)) < 2_000


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
    log, report = read_with_report(path, on_error="skip", most_problems=2)
    assert log.frame["user"].to_list() == ["7", "8"]
    assert (report.format, report.lines, report.records, report.problem_count) == ("aol", 7, 2, 3)
    assert [(problem.line, problem.column) for problem in report.problems] == [(3, None), (6, "time")]
    assert report.notes == ("blank lines left out: 1",)


def test_failing_tells_the_first_problems_how_many_more_and_how_to_go_on(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text(AOL + "1\n" * 50)
    with pytest.raises(FormatError) as caught:
        read(path, most_problems=3)
    assert str(caught.value).splitlines() == [
        "log.tsv: 50 of 52 lines cannot be read as aol.",
        "  line 3: not 3 or 5 columns",
        "  line 4: not 3 or 5 columns",
        "  line 5: not 3 or 5 columns",
        "  … and 47 more",
        "Mend them, or leave them out with --on-error skip.",
    ]


def test_skipping_every_line_is_still_a_refusal(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text(HEADER + "1\n")
    with pytest.raises(FormatError, match="No line is left"):
        read(path, on_error="skip")


@pytest.mark.parametrize("name", ["log.tsv", "log.csv", "log.jsonl", "log.parquet", "log.ubi.jsonl", "log.excite.log"])
def test_an_empty_log_can_be_written_and_read_back_when_allowed(name, tmp_path):
    write(QueryLog.empty(), tmp_path / name)
    assert read(tmp_path / name, allow_empty=True) == QueryLog.empty()
    with pytest.raises(FormatError, match=r"is empty|no record"):
        read(tmp_path / name)
