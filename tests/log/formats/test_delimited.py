"""CSV: names, separators, quotes; cutting whole columns against Python's csv module."""

from __future__ import annotations

import contextlib
import csv
import io

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile import logs, plain_text
from properties import examples
from queryveil.errors import FormatError
from queryveil.log import QueryLog, read, read_with_report, source, write
from queryveil.log.formats import delimited
from queryveil.log.formats.delimited import cut_lines, cut_quoted
from queryveil.log.formats.format import Findings
from queryveil.log.source import Block


def read_text(tmp_path, text, name="log.csv", **options):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return read_with_report(path, **options)


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_commas_tabs_and_semicolons_separate_where_the_header_says_so(separator, tmp_path):
    text = 'user,query,shop\nann,"a,b;c\td",x\n'.replace(",", separator)
    log, _ = read_text(tmp_path, text)
    assert log.frame.select("user", "query", "shop").rows() == [("ann", "a,b;c\td".replace(",", separator), "x")]


def test_mapped_names_become_canonical_and_the_rest_travels_along(tmp_path):
    text = "uid,text,when,shop\n7,tulips,2026-03-01T09:00:00+01:00,x\n"
    log, _ = read_text(tmp_path, text, columns={"user": "uid", "query": "text", "time": "when"})
    assert log.frame.columns == ["user", "query", "time", "rank", "url", "session", "shop"]
    assert str(log.frame["time"][0]) == "2026-03-01 08:00:00"


def test_a_canonical_column_beside_a_mapped_one_is_left_out_with_a_note(tmp_path):
    log, report = read_text(tmp_path, "user,real,query\nx,ann,tulips\n", columns={"user": "real"})
    assert log == QueryLog.of([("ann", "tulips")])
    assert report.notes == ("column user of the file was left out, since columns maps user to another one",)


def test_aols_names_are_known(tmp_path):
    log, _ = read_text(tmp_path, "QueryTime,AnonID,Query,ItemRank,ClickURL\n2026-03-01,7,tulips,1,u\n")
    assert log.frame["rank"].to_list() == [1]


def test_a_nameless_column_gets_its_number_for_a_name(tmp_path):
    log, _ = read_text(tmp_path, ",user,query\n0,ann,tulips\n")
    assert log.frame["column_1"].to_list() == ["0"]


def test_a_problem_is_told_by_the_line_its_record_starts_at(tmp_path):
    text = 'user,query,time\nann,"two\nlines",\nbob,"x\n\ny",noon\neve,z,\n'
    log, report = read_text(tmp_path, text, "log.multiline.csv", on_error="skip")
    assert log.queries() == ["two\nlines", "z"]
    assert [(problem.line, problem.column) for problem in report.problems] == [(4, "time")]


def test_a_record_over_several_lines_ends_where_its_quotes_are_balanced_whatever_it_holds(tmp_path):
    text = 'user,query\nann,"a"b\nbob,ok\nmal,5" x\nbob,forged\ny"\neve,5" and 6" pipe\njoe,"never\nsue,lost\n'
    log, report = read_text(tmp_path, text, "log.multiline.csv", on_error="skip")
    assert log.frame.select("user", "query").rows() == [("bob", "ok"), ("eve", '5" and 6" pipe')]
    assert [problem.line for problem in report.problems] == [2, 4, 8]


@pytest.mark.parametrize("ends_with", ["", "\n", '"', '\n"\n', ",u"])
@pytest.mark.parametrize("size", [64, 90, 1000, 1 << 20])
def test_a_record_that_is_too_long_costs_itself_and_forges_none(ends_with, size, tmp_path, monkeypatch):
    rows = [(f"h{number}", "two\nlines" if number % 3 else 'say "hi"') for number in range(40)]
    alone = QueryLog.of(rows)
    long_lines = ("mal", "x" * 3000 + ends_with), ("mal", 'x"\nh1,forged\n' * 300 + ends_with)
    monkeypatch.setattr(source, "BLOCK_SIZE", size)
    monkeypatch.setattr(source, "LONGEST_LINE", 400)
    monkeypatch.setattr(delimited, "LONGEST_LINE", 400)
    monkeypatch.setattr(delimited, "LONGEST_LINE", 400)
    for hostile in long_lines:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([("user", "query"), *rows[:20], hostile, *rows[20:]])
        log, report = read_text(tmp_path, out.getvalue(), "log.multiline.csv", on_error="skip")
        assert log == alone
        assert report.problem_count == 1


def test_a_value_may_hold_every_character_that_csv_has(tmp_path):
    odd = "".join(map(chr, range(1, 32))) + '",\n"'
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([("user", "query"), ("ann", "plain\nlines"), ("mal", odd)])
    log, _ = read_text(tmp_path, out.getvalue(), "log.multiline.csv")
    assert log.queries() == ["plain\nlines", odd]


def test_a_quote_that_is_not_closed_costs_its_own_line_alone(tmp_path):
    text = 'user,query\nann,"one\nbob,"a, b"\neve,"x ""y"" z"\nmal,"two"\nmal,end"\njoe,5" pipe and 6"\nsue,fine\n'
    log, report = read_text(tmp_path, text, on_error="skip")
    assert log.frame.select("user", "query").rows() == [
        ("bob", "a, b"),
        ("eve", 'x "y" z'),
        ("mal", "two"),
        ("joe", '5" pipe and 6"'),
        ("sue", "fine"),
    ]
    assert [problem.line for problem in report.problems] == [2, 6]


def test_a_broken_line_inside_a_record_breaks_that_record_only(tmp_path):
    path = tmp_path / "log.multiline.csv"
    path.write_bytes(b'user,query\nann,ok\nbob,"x\ny\xff\nz"\neve,ok\n')
    log, report = read_with_report(path, on_error="skip")
    assert log.frame["user"].to_list() == ["ann", "eve"]
    assert [str(problem) for problem in report.problems] == ["line 3: not valid UTF-8"]


def test_types_that_text_would_lose_are_refused(tmp_path):
    log = QueryLog(pl.DataFrame({"user": ["ann"], "query": ["x"], "shop": [7]}))
    with pytest.raises(FormatError, match="no place for column shop"):
        write(log, tmp_path / "log.csv")


@settings(max_examples=examples(500))
@given(lines=st.lists(st.text('ab,"\x01é\r', max_size=12)))
def test_lines_are_cut_as_pythons_csv_module_cuts_each_of_them_alone(lines):
    found = Findings(1000)
    cells = cut_lines(Block(1, "\n".join(lines).encode(), {}), ",", 2, found)
    expected = {}
    for number, line in enumerate(lines, start=1):
        try:
            rows = list(csv.reader([line], strict=True))
        except csv.Error:
            continue
        if rows and rows[0] and line.count('"') % 2 == 0 and "\r" not in line:
            expected[number] = tuple(rows[0]) if len(rows[0]) == 2 else None
    wrong = [problem.line for problem in found.problems if problem.reason.startswith("not 2 columns")]
    cut = {row[0]: row[1:3] for row in cells.rows() if not row[3]} | dict.fromkeys(wrong)
    assert {number: cells for number, cells in cut.items() if "\r" not in lines[number - 1]} == expected


@settings(max_examples=examples(500))
@given(
    rows=st.lists(st.tuples(plain_text, st.text('ab,"\n\x01\r', max_size=8)), max_size=8),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    cut=st.floats(0, 1),
)
def test_records_of_a_strict_writer_are_cut_as_it_wrote_them_wherever_a_block_ends(rows, quoting, cut):
    out = io.StringIO(newline="")
    csv.writer(out, quoting=quoting).writerows(rows)
    lines = io.BytesIO(out.getvalue().encode()).readlines()
    at = round(cut * len(lines))
    found = Findings(1)
    first, _, rest = cut_quoted(Block(3, b"".join(lines[:at]), {}), ",", 2, found, last=False)
    block = Block(rest.first_line, rest.data + b"".join(lines[at:]), {})
    second, _, rest = cut_quoted(block, ",", 2, found, last=True)
    assert [row[1:3] for row in first.rows() + second.rows()] == rows
    assert not found.problem_count
    assert rest.data == b""


messy = st.lists(st.sampled_from(["a", "b", ",", '"', '""', "\n", "\r\n", "\x01", "é"]), max_size=30).map("".join)


@settings(max_examples=examples(500))
@given(text=messy)
def test_any_text_is_cut_as_pythons_csv_module_cuts_each_balanced_record_alone(text):
    records, start, quotes, line, first = [], 0, 0, 1, 1
    for at, character in enumerate(text):
        quotes += character == '"'
        line += character == "\n"
        if character == "\n" and quotes % 2 == 0:
            records.append((first, text[start:at]))
            start, first = at + 1, line
    if quotes % 2 == 0:
        records.append((first, text[start:]))
    expected = {}
    for number, record in records:
        with contextlib.suppress(csv.Error):
            rows = list(csv.reader([record], strict=True))
            if rows and rows[0]:
                expected[number] = tuple(rows[0]) if len(rows[0]) == 2 else None
    found = Findings(1000)
    cells, _, _ = cut_quoted(Block(1, text.encode(), {}), ",", 2, found, last=True)
    wrong = [problem.line for problem in found.problems if problem.reason.startswith("not 2 columns")]
    assert {row[0]: row[1:3] for row in cells.rows()} | dict.fromkeys(wrong) == expected


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(log=logs(text=st.text(st.sampled_from('",\r\nabé '), min_size=1, max_size=6)), size=st.integers(64, 90))
def test_records_that_span_blocks_are_read_whole(log, size, tmp_path, monkeypatch):
    path = tmp_path / "log.multiline.csv"
    write(log, path)
    with monkeypatch.context() as patch:
        patch.setattr(source, "BLOCK_SIZE", size)
        assert read(path) == log
