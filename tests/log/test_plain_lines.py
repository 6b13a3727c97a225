"""Lines without quotes cut in one pass: the same records and the same problems as by whole columns."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from properties import examples
from queryveil.log.formats import delimited
from queryveil.log.formats.format import LONGEST_FIELD, Declared, Findings
from queryveil.log.reading import read_with_report
from queryveil.log.source import LogFile

cells = st.sampled_from(
    ["ann", "tulips", "", "x y", "é🌷", "2006-03-01T07:17:12", "2006-03-01 07:17", "2006-13-01", "2006-03-01T10:00:60",
     "7", "4294967296",
     "-1", "1.5", "\x01", "a" * 30, "\ufeff", "'"]
)  # fmt: skip
lines = st.lists(cells, max_size=7)
HEADERS = ["user,query", "query;user;shop;time", "time\trank\tuser\turl\tquery", "AnonID,Query,QueryTime,session,more"]


@settings(max_examples=examples(300), deadline=None)
@given(
    header=st.sampled_from(HEADERS),
    found=st.lists(lines, max_size=12),
    whole=st.booleans(),
    good=st.integers(0, 5),
    ended=st.booleans(),
)
def test_plain_lines_are_read_as_whole_columns_are(tmp_path_factory, header, found, whole, good, ended):
    separator = next(mark for mark in ",;\t" if mark in header)
    width = header.count(separator) + 1
    usual = ["2006-03-01" if "time" in name.lower() else "3" for name in header.split(separator)]
    rows = [*([(row * 9)[:width] for row in found if row] if whole else found), *[usual] * good]
    content = "\n".join([header, *map(separator.join, rows)]).encode() + b"\n" * ended
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_bytes(content)
    told = []
    for plain in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not plain:
                patch.setattr(delimited._Reader, "plain", lambda self, block: None)
            findings = Findings(100)
            frame = delimited.read(LogFile(path), findings, Declared())
        told.append((frame, findings.problems, findings.problem_count, findings.lines))
    assert_frame_equal(told[0][0], told[1][0])
    assert told[0][1:] == told[1][1:]


def test_usual_lines_are_cut_in_one_pass(tmp_path, monkeypatch):
    """Else the test above would compare nothing."""
    path = tmp_path / "log.csv"
    path.write_bytes(b"user,query,time\nann,tulips,2006-03-01\nbob,,\nbob,tea\n\nbob,tea,2006-03-01 10:00:00\n")
    monkeypatch.setattr(delimited, "cut_lines", None)
    log, report = read_with_report(path)
    assert (len(log), report.lines) == (2, 6)
    assert [str(problem) for problem in report.problems] == [
        "line 3, column query: the query is empty",
        "line 4: not 3 columns, as the header has",
    ]


def test_a_wide_header_over_short_lines_takes_no_table_of_empty_cells(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(",".join(["user", "query", *(f"c{i}" for i in range(3000))]).encode() + b"\n" + b"a\n" * 200_000)
    _, report = read_with_report(path)
    assert report.problem_count == 200_000


def test_a_record_s_time_and_a_long_cell_that_is_not_read_do_not_depend_on_other_lines(tmp_path):
    """Nor is any line lost without a word."""
    path = tmp_path / "log.csv"
    long = "x" * (LONGEST_FIELD + 1)
    mine = f"ann,{long},tulips,2006-03-01T10:00:00\nann,a,tea,2006-03-01T10:00:60\n"
    for beside in ("", "bob,a,b,2006-03-01\n", 'bob,"a",b,2006-03-01\n', "bob,a,b,2006-03-01T10:00:00Z\n", "bob,a,b\n"):
        path.write_text("user,query,q2,time\n" + mine + beside)
        log, report = read_with_report(path, columns={"query": "q2"})
        assert log.frame.filter(user="ann")["query"].to_list() == ["tulips"]
        assert [problem.column for problem in report.problems if problem.line == 3] == ["time"]
        assert len(log) + report.problem_count == report.lines - 1
